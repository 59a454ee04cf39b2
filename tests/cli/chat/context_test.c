#include "guest.h"

#include <sys/stat.h>
#include <unistd.h>

/* Returns that many numbered lines. */
static const char *numbered(size_t count)
{
    BL_AUTO_BUFFER(text, SIZE_MAX);

    for (size_t i = 1; i <= count; i++)
        bl_buffer_printf(&text, "line %zu%s", i, i < count ? "\n" : "");
    return stage_keep(bl_buffer_text(&text));
}

static void long_paste_is_a_label_in_the_line_and_sent_in_full(void **state)
{
    struct guest guest;

    (void)state;
    guest_chat(&guest, "name: played\n"
                       "replies: [{when: 'line 499\\nline 500\\) and', say: All there.}, "
                       "{when: 'first\\nsecond', say: Short.}]\n");
    guest_type(&guest, "sum up (");
    guest_paste(&guest, numbered(500));
    guest_type(&guest, ") and ");
    guest_paste(&guest, numbered(500));
    guest_await_shown(&guest, "sum up ([pasted 500 lines]) and [pasted 500 lines, 2]");
    guest_say(&guest, "\r", "All there.");
    guest_await_idle(&guest);
    guest_check_shown(&guest, "sum up ([pasted 500 lines])");
    assert_int_equal(guest_times(&guest, "line 250"), 0);
    guest_paste(&guest, "first\nsecond");
    guest_await_shown(&guest, "second");
    guest_say(&guest, "\r", "Short.");
    guest_await_idle(&guest);
    assert_non_null(strstr(stage_text_at(guest_show(guest_session()), "/turns/0/prompt"),
                           "line 250\nline 251"));
    guest_leave(&guest);
}

static void a_file_is_completed_attached_and_counted_in_the_context(void **state)
{
    struct guest guest;

    (void)state;
    stage_file("notes.txt", "remember the milk\n");
    stage_file("AGENTS.md", "Be brief.\n");
    guest_chat(&guest, "name: played\nreplies: [{when: 'remember the milk', say: Milk.}]\n");
    guest_type(&guest, "what is in @no\t");
    guest_await_shown(&guest, "what is in @notes.txt");
    guest_say(&guest, "\r", "Milk.");
    guest_await_idle(&guest);
    guest_check_shown(&guest, "Attached notes.txt (file)");
    guest_say(&guest, "/context\r", "the model's limit is unknown");
    guest_check_shown(&guest, "\nattachments   about ");
    guest_check_shown(&guest, "\ninstructions  about 3 tokens\n");
    guest_leave(&guest);
}

/* A chat on a desktop, in which this script is the program that reads the clipboard; NULL: there is
 * none. */
static void begin_with_clipboard(struct guest *guest, const char *reader, const char *replies)
{
    const char *path = stage_file("wl-paste", reader != NULL ? reader : "");
    const char *folder = stage_keep((struct bl_text){path, strlen(path) - strlen("/wl-paste")});
    const char *environment[] = {
        "DISPLAY=", "WAYLAND_DISPLAY=wayland-0",
        stage_printf("PATH=%s%s", folder, reader != NULL ? ":/usr/bin:/bin" : ""), NULL};

    if (reader != NULL)
        assert_int_equal(chmod(path, 0700), 0);
    else
        assert_int_equal(unlink(path), 0);
    guest_begin(guest, 80, 24,
                (const char *const[]){"--yolo", "--provider", stage_script(replies), NULL},
                environment);
    guest_await_idle(guest);
}

#define IMAGE_READER                                                                               \
    "#!/bin/sh\n[ \"$*\" = '--no-newline --type image/png' ] &&\n"                                 \
    "printf '\\211PNG\\r\\n\\032\\n\\0\\0\\0\\015IHDR'\n"

static void image_in_the_clipboard_is_pasted(void **state)
{
    struct guest guest;

    (void)state;
    begin_with_clipboard(&guest, IMAGE_READER,
                         "name: s\nimages: true\nreplies: [{images: 2, say: Two dots.}, "
                         "{images: 0, say: None.}]\n");
    guest_say(&guest, "compare ", "> compare");
    guest_say(&guest, KEY_CTRL('v'), "> compare [image 1]");
    guest_say(&guest, " with ", "[image 1] with");
    guest_say(&guest, KEY_CTRL('v'), "[image 1] with [image 2]");
    guest_say(&guest, "\r", "Two dots.");
    guest_await_idle(&guest);
    guest_check_shown(&guest, "Attached [image 1]\nAttached [image 2]\n");
    /* The next prompt does not have them again. */
    guest_say(&guest, "and now?\r", "None.");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void a_prompt_with_an_image_waits_for_the_end_of_the_turn(void **state)
{
    struct guest guest;

    (void)state;
    begin_with_clipboard(&guest, IMAGE_READER,
                         "name: s\nimages: true\nreplies:\n"
                         "  - tools: [{name: bash, input: {command: "
                         "'echo >begun; until [ -e go ]; do sleep 0.02; done'}}]\n"
                         "  - {images: 0, say: Begun.}\n"
                         "  - {images: 1, say: A dot.}\n");
    guest_type(&guest, "begin\r");
    stage_await_file("begun");
    guest_say(&guest, KEY_CTRL('v'), "> [image 1]");
    guest_type(&guest, "\r");
    guest_await_hidden(&guest, "> [image 1]");
    stage_file("go", "");
    guest_await(&guest, "A dot.");
    guest_await_idle(&guest);
    guest_leave(&guest);
}

static void a_model_without_images_gets_the_label_alone(void **state)
{
    struct guest guest;

    (void)state;
    begin_with_clipboard(&guest, IMAGE_READER, "replies: [{images: 0, say: Nothing.}]\n");
    guest_say(&guest, KEY_CTRL('v'), "> [image 1]");
    guest_say(&guest, "\r", "Nothing.");
    guest_await_idle(&guest);
    guest_check_shown(&guest, "not attached: [image 1]: this model does not accept images");
    guest_leave(&guest);
}

static void without_an_image_the_reason_is_shown(void **state)
{
    static const struct {
        const char *reader, *reason;
    } cases[] = {
        {"#!/bin/sh\necho 'no such type' >&2; exit 1\n", "The clipboard has no image."},
        {"#!/bin/sh\necho text\n", "The clipboard has no image."},
        {"#!/bin/sh\nprintf '\\211PNG\\r\\n\\032\\n'; exec head -c 5000000 /dev/zero\n",
         "The image in the clipboard is too large: models accept at most 3.75 MiB."},
        {NULL, "Ctrl+V needs wl-paste (from wl-clipboard) or xclip."},
    };
    struct guest guest;

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        begin_with_clipboard(&guest, cases[i].reader, "replies: [{say: Well.}]\n");
        guest_say(&guest, KEY_CTRL('v'), cases[i].reason);
        guest_await_idle(&guest);
        guest_leave(&guest);
    }
}

static void a_clipboard_that_does_not_answer_delays_nothing(void **state)
{
    struct guest guest;

    (void)state;
    begin_with_clipboard(&guest, "#!/bin/sh\necho >begun; exec sleep 1000\n",
                         "replies: [{say: Well.}]\n");
    guest_type(&guest, KEY_CTRL('v'));
    stage_await_file("begun");
    guest_say(&guest, "hello\r", "Well.");
    guest_await_idle(&guest);
    assert_int_equal(guest_times(&guest, "did not answer"), 0);
    guest_leave(&guest);
}

SUITE(chat_context, STAGED(long_paste_is_a_label_in_the_line_and_sent_in_full),
      STAGED(a_file_is_completed_attached_and_counted_in_the_context),
      STAGED(image_in_the_clipboard_is_pasted),
      STAGED(a_prompt_with_an_image_waits_for_the_end_of_the_turn),
      STAGED(a_model_without_images_gets_the_label_alone),
      STAGED(without_an_image_the_reason_is_shown),
      STAGED(a_clipboard_that_does_not_answer_delays_nothing));
