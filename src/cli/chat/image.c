/* Ctrl+V: an image from the clipboard. A label stands for it in the input line, "[image 1]"; the
 * prompt that is sent with the label has the image attached. */
#include <stdio.h>

#include "state.h"

#define IMAGE_LIMIT_NS (5 * BL_NS_PER_S)
/* Number of images that are remembered; labels of older ones are sent as text. */
#define IMAGES_MAX 8u

struct chat_image {
    struct bl_list link;
    char label[32];
    struct bl_text type;
    struct bl_buffer base64;
};

/* The programs that read the clipboard, and the variable that says which desktop there is. */
static const struct image_reader {
    const char *variable;
    const char *arguments[7];
} image_readers[] = {
    {"WAYLAND_DISPLAY", {"wl-paste", "--no-newline", "--type", "image/png"}},
    {"DISPLAY", {"xclip", "-selection", "clipboard", "-target", "image/png", "-out"}},
};

static void image_free(struct chat_image *image)
{
    bl_buffer_done(&image->base64);
    bl_free(image);
}

static void image_keep(struct chat *chat, struct bl_text bytes)
{
    struct chat_image *image = bl_zalloc(sizeof *image);

    image->type = bl_image_type(bytes);
    bl_buffer_init(&image->base64, BL_IMAGE_SIZE_MAX);
    bl_base64_encode(&image->base64, bytes);
    snprintf(image->label, sizeof image->label, "[image %u]", ++chat->image_count);
    bl_list_push_back(&chat->images, &image->link);
    if (chat->image_count > IMAGES_MAX)
        image_free(BL_CONTAINER(bl_list_pop_front(&chat->images), struct chat_image, link));
    edit_line_insert(&chat->line, bl_text_from(image->label));
}

/* Returns 0 if the program ran, whatever it found. BL_ENOENT: it is not installed. */
static int image_read(const struct image_reader *reader, struct bl_capture *capture)
{
    struct bl_capture errors;
    struct bl_warden_end end = {0};
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_command command = {
        .options = {.arguments = reader->arguments, .input = -1, .output = -1, .error = -1},
        .kind = BL_UNIT_COMMAND,
        .id = "clipboard",
        .name = reader->arguments[0],
        .capture = capture,
        .error_capture = &errors,
    };

    bl_capture_init(&errors, 1024);
    int code = bl_command_run(&command, &end, error);
    bl_capture_done(&errors);
    bl_free(error);
    return code;
}

/* Pastes the image in the clipboard. Returns why there is none; NULL if there is. */
static const char *image_take(struct chat *chat)
{
    const char *why = "Ctrl+V needs a desktop: neither WAYLAND_DISPLAY nor DISPLAY is set.";

    for (size_t i = 0; i < BL_COUNT(image_readers); i++) {
        struct bl_capture capture;
        BL_AUTO_BUFFER(bytes, 2 * BL_IMAGE_BYTES_MAX);
        if (bl_variable(image_readers[i].variable) == NULL)
            continue;
        bl_capture_init(&capture, BL_IMAGE_BYTES_MAX);
        int code = image_read(&image_readers[i], &capture);
        bool whole = bl_capture_left_out(&capture) == 0 && bl_capture_text(&capture, &bytes) == 0;
        bl_capture_done(&capture);
        if (code == BL_ECANCELED || code == BL_ETIMEDOUT)
            return "The clipboard did not answer within 5 s.";
        if (code != 0) {
            why = code == BL_ENOENT ? "Ctrl+V needs wl-paste (from wl-clipboard) or xclip."
                                    : "The program that reads the clipboard cannot be started.";
            continue;
        }
        if (!whole)
            return "The image in the clipboard is too large: models accept at most 3.75 MiB.";
        if (bl_image_type(bl_buffer_text(&bytes)).size == 0)
            return "The clipboard has no image.";
        image_keep(chat, bl_buffer_text(&bytes));
        return NULL;
    }
    return why;
}

static int image_main(void *argument)
{
    struct chat *chat = argument;
    struct bl_scope limit;

    if (chat->clipboard != NULL || chat->leaving)
        return 0;
    bl_limit_begin(&limit, IMAGE_LIMIT_NS);
    chat->clipboard = &limit;
    const char *why = image_take(chat);
    chat->clipboard = NULL;
    bl_limit_end(&limit);
    if (why != NULL && !chat->leaving)
        chat_say(chat, "%s", why);
    chat_redraw(chat);
    return 0;
}

void chat_image_paste(struct chat *chat)
{
    bl_nursery_spawn(&chat->nursery, NULL, "clipboard", image_main, chat, NULL);
}

static bool image_is_named(const struct chat_image *image, struct bl_text prompt)
{
    return bl_text_find(prompt, bl_text_from(image->label)) >= 0;
}

bool chat_image_named(const struct chat *chat, struct bl_text prompt)
{
    BL_LIST_EACH (link, &chat->images)
        if (image_is_named(BL_CONTAINER(link, struct chat_image, link), prompt))
            return true;
    return false;
}

void chat_image_attach(const struct chat *chat, struct bl_text prompt, struct bl_arena *arena,
                       struct bl_attached *attached)
{
    BL_LIST_EACH (link, &chat->images) {
        const struct chat_image *image = BL_CONTAINER(link, struct chat_image, link);
        if (!image_is_named(image, prompt))
            continue;
        if (!bl_agent_model(chat->agent)->takes_images) {
            bl_notice_add(arena, &attached->warnings,
                          bl_arena_printf(arena,
                                          "not attached: %s: this model does not accept images",
                                          image->label));
            continue;
        }
        struct bl_block *block = bl_arena_zalloc(arena, sizeof *block);
        block->type = BL_BLOCK_IMAGE;
        block->name = image->type;
        block->text = bl_arena_text(arena, bl_buffer_text(&image->base64));
        bl_list_push_back(&attached->images, &block->link);
        bl_notice_add(arena, &attached->notes, bl_arena_printf(arena, "Attached %s", image->label));
    }
}

void chat_image_done(struct chat *chat)
{
    struct bl_list *link;

    while ((link = bl_list_pop_front(&chat->images)) != NULL)
        image_free(BL_CONTAINER(link, struct chat_image, link));
}
