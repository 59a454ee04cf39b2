/* The content of prompts, block by block, and the paths of their errors. */
#include "serve/acp/acp.h"
#include "suite.h"

struct read {
    struct bl_arena arena;
    struct acp_content content;
    char path[80];
    const char *why;
    bool good;
};

static void read_prompt(struct read *read, const char *prompt, bool takes_images)
{
    const struct bl_json *value = NULL;

    *read = (struct read){.why = NULL};
    bl_arena_init(&read->arena);
    if (prompt != NULL && bl_json_read(&read->arena, bl_text_from(prompt), NULL, &value, NULL) != 0)
        fail_msg("the test's own prompt is not JSON: %s", prompt);
    read->good = acp_content_read(&read->arena, value, takes_images, &read->content, read->path,
                                  sizeof read->path, &read->why);
}

static void expect_text(const char *prompt, const char *text, size_t images)
{
    struct read read;
    size_t count = 0;

    read_prompt(&read, prompt, true);
    if (!read.good)
        fail_msg("%s: %s %s", prompt, read.path, read.why);
    BL_LIST_EACH (link, &read.content.images)
        count += BL_CONTAINER(link, struct bl_block, link)->type == BL_BLOCK_IMAGE;
    assert_string_equal(read.content.text.data, text);
    assert_int_equal(count, images);
    bl_arena_done(&read.arena);
}

static void refuse(const char *prompt, bool takes_images, const char *path, const char *why)
{
    struct read read;

    read_prompt(&read, prompt, takes_images);
    if (read.good)
        fail_msg("taken: %s", prompt);
    assert_string_equal(read.path, path);
    assert_string_equal(read.why, why);
    bl_arena_done(&read.arena);
}

#define SAID(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define PNG        "{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"iVBORw0KGgo=\"}"

static void texts_are_on_lines_of_their_own(void **state BL_UNUSED)
{
    expect_text("[" SAID("one") "]", "one", 0);
    expect_text("[" SAID("one") "," SAID("two\\nthree") "]", "one\ntwo\nthree", 0);
    expect_text("[" SAID("") "," SAID("two") "]", "two", 0);
    expect_text("[" SAID("\\u2028 \xc3\xa9") "]", "\xe2\x80\xa8 \xc3\xa9", 0);
    /* Unknown members are ignored. */
    expect_text("[{\"type\":\"text\",\"text\":\"a\",\"annotations\":{\"x\":1},\"_meta\":[]}]", "a",
                0);
}

static void links_stay_in_place_and_embedded_resources_follow_at_the_end(void **state BL_UNUSED)
{
    expect_text("[" SAID("see ") ",{\"type\":\"resource_link\",\"uri\":\"file:///w/a.c\",\"name\":"
                                 "\"a.c\"}," SAID(" and go") "]",
                "see [@a.c](file:///w/a.c) and go", 0);
    expect_text("[{\"type\":\"resource_link\",\"uri\":\"file:///w/a.c\"}]",
                "[@file:///w/a.c](file:///w/a.c)", 0);
    expect_text(
        "[{\"type\":\"resource\",\"resource\":{\"uri\":\"file:///w/a.c\",\"text\":\"int x;\\n"
        "\"}}," SAID(" what?") "]",
        "[@a.c](file:///w/a.c) what?\n\n<resource uri=\"file:///w/a.c\">\nint x;\n\n"
        "</resource>",
        0);
    expect_text("[{\"type\":\"resource\",\"resource\":{\"uri\":\"x:/a/\",\"text\":\"\"}}]",
                "[@a/](x:/a/)\n\n<resource uri=\"x:/a/\">\n\n</resource>", 0);
    expect_text(
        "[{\"type\":\"resource\",\"resource\":{\"uri\":\"file:///w/a.bin\",\"blob\":"
        "\"AAAAAAAA\"}}]",
        "[@a.bin](file:///w/a.bin)\n\n<resource uri=\"file:///w/a.bin\">\n(binary, 6 bytes: "
        "not text)\n</resource>",
        0);
}

static void images_are_beside_the_text(void **state BL_UNUSED)
{
    struct read read;

    expect_text("[" SAID("look") "," PNG "," PNG "]", "look", 2);
    /* An image alone is a prompt. */
    expect_text("[" PNG "]", "(see the image)", 1);
    expect_text("[{\"type\":\"resource\",\"resource\":{\"uri\":\"file:///w/a.gif\",\"blob\":"
                "\"R0lGODlh\",\"mimeType\":\"image/gif\"}}]",
                "[@a.gif](file:///w/a.gif)", 1);
    read_prompt(&read, "[" SAID("look") "," PNG "]", true);
    const struct bl_block *image = BL_CONTAINER(read.content.images.next, struct bl_block, link);
    assert_true(bl_text_equal(image->name, BL_TEXT("image/png")));
    assert_true(bl_text_equal(image->text, BL_TEXT("iVBORw0KGgo=")));
    assert_null(bl_image_problem(image));
    bl_arena_done(&read.arena);
    /* An embedded image is named for a model that takes none; an attached one is refused. */
    read_prompt(&read,
                "[{\"type\":\"resource\",\"resource\":{\"uri\":\"file:///w/a.gif\",\"blob\":"
                "\"R0lGODlh\",\"mimeType\":\"image/gif\"}}]",
                false);
    assert_true(read.good && bl_list_empty(&read.content.images));
    assert_true(bl_text_find(read.content.text, BL_TEXT("(image/gif, 6 bytes: not text)")) > 0);
    bl_arena_done(&read.arena);
    refuse("[" SAID("look") "," PNG "]", false, "/prompt/1", "the model does not accept images");
}

static void errors_have_the_path_of_the_wrong_value(void **state BL_UNUSED)
{
    static const struct {
        const char *prompt, *path, *why;
    } cases[] = {
        {NULL, "/prompt", "expected a list of up to 1,000 content blocks"},
        {"{}", "/prompt", "expected a list of up to 1,000 content blocks"},
        {"\"hello\"", "/prompt", "expected a list of up to 1,000 content blocks"},
        {"[]", "/prompt", "the prompt is empty"},
        {"[" SAID(" \\n\\t") "]", "/prompt", "the prompt is empty"},
        {"[7]", "/prompt/0/type", "expected text, resource_link, resource or image"},
        {"[null]", "/prompt/0/type", "expected text, resource_link, resource or image"},
        {"[" SAID("a") ",{\"type\":\"audio\",\"data\":\"AAAA\"}]", "/prompt/1/type",
         "expected text, resource_link, resource or image"},
        {"[{\"type\":\"text\"}]", "/prompt/0/text", "expected a string"},
        {"[{\"type\":\"text\",\"text\":[\"a\"]}]", "/prompt/0/text", "expected a string"},
        {"[" SAID("a\\u0000b") "]", "/prompt/0/text", "contains a NUL"},
        {"[{\"type\":\"resource_link\",\"name\":\"a\"}]", "/prompt/0/uri", "expected a string"},
        {"[{\"type\":\"resource\"}]", "/prompt/0/resource/uri", "expected a string"},
        {"[{\"type\":\"resource\",\"resource\":{\"uri\":\"a\"}}]", "/prompt/0/resource",
         "expected \"text\" or \"blob\""},
        {"[" SAID("a") ",{\"type\":\"image\",\"mimeType\":\"image/png\"}]", "/prompt/1/data",
         "expected a png, jpeg, gif or webp image in base64, at most 5 MiB"},
        {"[{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"AAA\"}]", "/prompt/0/data",
         "expected a png, jpeg, gif or webp image in base64, at most 5 MiB"},
        {"[{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"A=AA\"}]", "/prompt/0/data",
         "expected a png, jpeg, gif or webp image in base64, at most 5 MiB"},
    };

    for (size_t i = 0; i < BL_COUNT(cases); i++)
        refuse(cases[i].prompt, true, cases[i].path, cases[i].why);
}

static void a_prompt_has_a_thousand_blocks_at_most(void **state BL_UNUSED)
{
    struct bl_buffer out;

    bl_buffer_init(&out, 1 << 20);
    bl_buffer_append_byte(&out, '[');
    for (unsigned i = 0; i < 1000; i++)
        bl_buffer_printf(&out, "%s" SAID("a"), i > 0 ? "," : "");
    bl_buffer_append(&out, (struct bl_text){"]", 2});
    struct read read;
    read_prompt(&read, out.data, false);
    assert_true(read.good && read.content.text.size == 1999);
    bl_arena_done(&read.arena);
    out.size -= 2;
    bl_buffer_append(&out, (struct bl_text){"," SAID("b") "]", sizeof "," SAID("b") "]"});
    refuse(out.data, false, "/prompt", "expected a list of up to 1,000 content blocks");
    bl_buffer_done(&out);
}

SUITE(acp_content, cmocka_unit_test(texts_are_on_lines_of_their_own),
      cmocka_unit_test(links_stay_in_place_and_embedded_resources_follow_at_the_end),
      cmocka_unit_test(images_are_beside_the_text),
      cmocka_unit_test(errors_have_the_path_of_the_wrong_value),
      cmocka_unit_test(a_prompt_has_a_thousand_blocks_at_most));
