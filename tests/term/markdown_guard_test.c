/* The parser is a library without sanitizers that reads text from models: checks that it reads
 * nothing beyond that text. */
#include "term/term.h"

#include "fibers.h"
#include "guard_page.h"
#include "markdown_text.h"
#include "mutate.h"
#include "suite.h"

static void render(struct bl_text text, struct bl_buffer *out)
{
    bl_buffer_clear(out);
    markdown_render(text, 60, false, out);
}

/* The lines are the same at both edges: they depend on the text alone. */
static void check_guarded(struct guard_page *guard, struct bl_text text)
{
    struct bl_buffer before, after;

    bl_buffer_init(&before, SIZE_MAX / 2);
    bl_buffer_init(&after, SIZE_MAX / 2);
    render(guard_page_before(guard, text), &before);
    render(guard_page_after(guard, text), &after);
    assert_true(bl_text_equal(bl_buffer_text(&before), bl_buffer_text(&after)));
    bl_buffer_done(&before);
    bl_buffer_done(&after);
}

static void texts_that_parsers_read_past_stay_within_their_pages(void **state)
{
    static const char *const texts[] = {
        "- - https://x.test/yhttps://x.test/y\n2) [x](y",
        "",
        "&",
        "&#",
        "<",
        "<a",
        "<!",
        "[a](<b",
        "![",
        "`",
        "```",
        "|a|\n|-",
        "- [",
        "- [x",
        "https://",
        "www.",
        "a@b.c",
        "\\",
        "~~",
        "1",
        "[a]: <",
        "\xE6",
        "\xF0\x9F\x98",
        "mailto:a@",
    };
    struct guard_page guard = {0};

    (void)state;
    guard_heap_begin();
    for (size_t i = 0; i < BL_COUNT(texts); i++)
        check_guarded(&guard, bl_text_from(texts[i]));
    guard_heap_end();
    guard_page_done(&guard);
}

/* Every text at the edge of its page; for one in 64, all memory of the parser is at such an edge,
 * too. */
static void no_text_is_read_beyond_its_end(void **state)
{
    static const char bytes[] = "\n\n  \t*_`~<>[]()|-+#&;:/\\!@.=0x1\"'\xE6\x80\x1b";
    unsigned long rounds = suite_rounds(10000, 3000000);
    struct guard_page guard = {0};
    struct bl_random random;
    struct bl_buffer text;

    (void)state;
    bl_random_seed(&random, 68);
    bl_buffer_init(&text, SIZE_MAX / 2);
    for (unsigned long round = 0; round < rounds; round++) {
        markdown_text(&random, false, &text);
        mutate(&random, (struct bl_text){bytes, sizeof bytes}, &text);
        if (round % 64 == 0)
            guard_heap_begin();
        check_guarded(&guard, bl_buffer_text(&text));
        guard_heap_end();
    }
    bl_buffer_done(&text);
    guard_page_done(&guard);
}

/* As deep as a line of 16 KiB can be, with everything for which parsers tend to recurse. */
static int render_deep_texts(void *argument)
{
    static const char *const scraps[] = {"> ",     "* a ", "[",     "![",  "*a_",        "a@b.c ",
                                         "**a ",   "<a ",  "((",    "1. ", "https://a ", "~~a",
                                         "[a](b ", "|",    "`a ``", "& ",  "- [ ] ",     "\\"};
    struct bl_buffer text, out;

    (void)argument;
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_init(&out, SIZE_MAX / 2);
    for (size_t i = 0; i < BL_COUNT(scraps); i++) {
        bl_buffer_clear(&text);
        while (text.size < 16000)
            bl_buffer_append(&text, bl_text_from(scraps[i]));
        bl_buffer_append_byte(&text, 'x');
        render(bl_buffer_text(&text), &out);
        CHECK(out.size > 0);
    }
    bl_buffer_done(&text);
    bl_buffer_done(&out);
    return 0;
}

static void deep_texts_fit_the_stack_of_a_fiber(void **state)
{
    (void)state;
    assert_int_equal(run_in_loop(render_deep_texts, NULL), 0);
}

SUITE(markdown_guard, cmocka_unit_test(texts_that_parsers_read_past_stay_within_their_pages),
      cmocka_unit_test(deep_texts_fit_the_stack_of_a_fiber),
      cmocka_unit_test(no_text_is_read_beyond_its_end));
