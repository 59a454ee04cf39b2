/* Converts the content of a prompt for the model. Links stay where they were written; embedded
 * resources follow at the end, so that the sentence around them stays readable. */
#include <stdio.h>

#include "acp.h"

#define BLOCKS_MAX 1000u

struct reading {
    struct bl_arena *arena;
    bool takes_images;
    struct bl_buffer text;
    struct bl_buffer context; /* embedded resources */
    struct bl_list *images;
    bool after_text;
    const char *member; /* the wrong one; "": the block itself */
    const char *why;
};

static bool content_refuse(struct reading *reading, const char *member, const char *why)
{
    reading->member = member;
    reading->why = why;
    return false;
}

static bool add_image(struct reading *reading, struct bl_text data, struct bl_text type,
                      const char *member)
{
    if (!reading->takes_images)
        return content_refuse(reading, "", "the model does not accept images");
    struct bl_block *block = bl_arena_zalloc(reading->arena, sizeof *block);
    block->type = BL_BLOCK_IMAGE;
    block->text = data;
    block->name = type;
    if (bl_image_problem(block) != NULL)
        return content_refuse(reading, member,
                              "expected a png, jpeg, gif or webp image in base64, at most 5 MiB");
    bl_list_push_back(reading->images, &block->link);
    return true;
}

static bool content_read_text(struct reading *reading, const struct bl_json *block)
{
    const struct bl_json *value = bl_json_get(block, BL_TEXT("text"));
    struct bl_text text = bl_json_text(value);

    if (!bl_json_is(value, BL_JSON_STRING))
        return content_refuse(reading, "/text", "expected a string");
    if (memchr(text.data, '\0', text.size) != NULL)
        return content_refuse(reading, "/text", "contains a NUL");
    if (reading->after_text && reading->text.size > 0)
        bl_buffer_append_byte(&reading->text, '\n');
    bl_buffer_append(&reading->text, text);
    reading->after_text = true;
    return true;
}

static void append_link(struct reading *reading, struct bl_text name, struct bl_text uri)
{
    bl_buffer_printf(&reading->text, "[@" BL_TEXT_FORMAT "](" BL_TEXT_FORMAT ")", BL_TEXT_ARG(name),
                     BL_TEXT_ARG(uri));
    reading->after_text = false;
}

static bool read_link(struct reading *reading, const struct bl_json *block)
{
    struct bl_text uri = bl_json_text(bl_json_get(block, BL_TEXT("uri")));
    struct bl_text name = bl_json_text(bl_json_get(block, BL_TEXT("name")));

    if (uri.size == 0)
        return content_refuse(reading, "/uri", "expected a string");
    append_link(reading, name.size > 0 ? name : uri, uri);
    return true;
}

/* Returns the last segment of a URI. */
static struct bl_text content_name_of(struct bl_text uri)
{
    struct bl_text name = uri;

    for (size_t i = 0; i + 1 < uri.size; i++) {
        if (uri.data[i] == '/')
            name = (struct bl_text){uri.data + i + 1, uri.size - i - 1};
    }
    return name;
}

static bool read_resource(struct reading *reading, const struct bl_json *block)
{
    const struct bl_json *resource = bl_json_get(block, BL_TEXT("resource"));
    const struct bl_json *text = bl_json_get(resource, BL_TEXT("text"));
    struct bl_text blob = bl_json_text(bl_json_get(resource, BL_TEXT("blob")));
    struct bl_text type = bl_json_text(bl_json_get(resource, BL_TEXT("mimeType")));
    struct bl_text uri = bl_json_text(bl_json_get(resource, BL_TEXT("uri")));

    if (uri.size == 0)
        return content_refuse(reading, "/resource/uri", "expected a string");
    append_link(reading, content_name_of(uri), uri);
    if (bl_json_is(text, BL_JSON_STRING)) {
        bl_buffer_printf(&reading->context, "\n\n<resource uri=\"" BL_TEXT_FORMAT "\">\n",
                         BL_TEXT_ARG(uri));
        bl_buffer_append(&reading->context, bl_json_text(text));
        bl_buffer_append(&reading->context, BL_TEXT("\n</resource>"));
        return true;
    }
    if (blob.size == 0)
        return content_refuse(reading, "/resource", "expected \"text\" or \"blob\"");
    if (bl_text_starts_with(type, BL_TEXT("image/")) && reading->takes_images)
        return add_image(reading, blob, type, "/resource/blob");
    bl_buffer_printf(&reading->context,
                     "\n\n<resource uri=\"" BL_TEXT_FORMAT "\">\n(" BL_TEXT_FORMAT
                     ", %zu bytes: not text)\n</resource>",
                     BL_TEXT_ARG(uri), BL_TEXT_ARG(type.size > 0 ? type : BL_TEXT("binary")),
                     blob.size / 4 * 3);
    return true;
}

static bool content_read_block(struct reading *reading, const struct bl_json *block)
{
    struct bl_text type = bl_json_text(bl_json_get(block, BL_TEXT("type")));

    if (bl_text_equal(type, BL_TEXT("text")))
        return content_read_text(reading, block);
    if (bl_text_equal(type, BL_TEXT("resource_link")))
        return read_link(reading, block);
    if (bl_text_equal(type, BL_TEXT("resource")))
        return read_resource(reading, block);
    if (bl_text_equal(type, BL_TEXT("image")))
        return add_image(reading, bl_json_text(bl_json_get(block, BL_TEXT("data"))),
                         bl_json_text(bl_json_get(block, BL_TEXT("mimeType"))), "/data");
    return content_refuse(reading, "/type", "expected text, resource_link, resource or image");
}

static bool read_blocks(struct reading *reading, const struct bl_json *prompt, char *ret_path,
                        size_t path_size)
{
    size_t index = 0;

    snprintf(ret_path, path_size, "/prompt");
    if (!bl_json_is(prompt, BL_JSON_ARRAY) || bl_json_size(prompt) > BLOCKS_MAX)
        return content_refuse(reading, "", "expected a list of up to 1,000 content blocks");
    BL_JSON_EACH (block, prompt) {
        if (!content_read_block(reading, block)) {
            snprintf(ret_path, path_size, "/prompt/%zu%s", index, reading->member);
            return false;
        }
        index++;
    }
    bl_buffer_append(&reading->text, bl_buffer_text(&reading->context));
    if (bl_text_trim(bl_buffer_text(&reading->text)).size == 0 && bl_list_empty(reading->images))
        return content_refuse(reading, "", "the prompt is empty");
    return true;
}

bool acp_content_read(struct bl_arena *arena, const struct bl_json *prompt, bool takes_images,
                      struct acp_content *ret_content, char *ret_path, size_t path_size,
                      const char **ret_why)
{
    struct reading reading = {
        .arena = arena, .takes_images = takes_images, .images = &ret_content->images};

    bl_list_init(&ret_content->images);
    bl_buffer_init(&reading.text, SIZE_MAX);
    bl_buffer_init(&reading.context, SIZE_MAX);
    bool good = read_blocks(&reading, prompt, ret_path, path_size);
    ret_content->text = bl_arena_text(arena, bl_buffer_text(&reading.text));
    /* An image alone is a valid prompt, but a turn needs text. */
    if (good && bl_text_trim(ret_content->text).size == 0)
        ret_content->text = BL_TEXT("(see the image)");
    *ret_why = reading.why;
    bl_buffer_done(&reading.context);
    bl_buffer_done(&reading.text);
    return good;
}
