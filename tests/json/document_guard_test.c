/* libyaml is built without sanitizers and reads untrusted input: it must not read beyond it. */
#include "documents.h"
#include "guard_page.h"
#include "mutate.h"

static const char *const texts[] = {
    "name: plan\ntasks:\n  - id: one\n    needs: [two, \"three\"]\n    text: |\n      lines\n\n    "
    "  "
    "more\n  - {id: two, done: yes, size: 0x1F}\n",
    "a: &x [1, 2.5e3, ~, .inf]\nb: *x\n? complex\n: value\n--- # comment\n",
    "%YAML 1.1\n---\n!!str \"tab\\t\\u00e9\\x41 \\\n  folded\"\n...\n",
    ">-\n folded\n text\n\n  kept\n",
    "{\"json\": [true, false, null, -0.5, \"\\ud83d\\ude00\"]}",
    "'it''s': 'single\n  quoted'\n\"日本\": é\n",
    "- - - deep\n  -\t[a, {b: c}]\n- ? x\n",
};

/* Checks that the result is the same at both edges. */
static void check_guarded(struct guard_page *guard, struct bl_text text)
{
    struct bl_document before, after;
    struct bl_json_fault faults[2];
    struct bl_arena arena;

    bl_arena_init(&arena);
    int code = bl_document_read(&arena, guard_page_before(guard, text), NULL, &before, &faults[0]);
    int again = bl_document_read(&arena, guard_page_after(guard, text), NULL, &after, &faults[1]);
    assert_int_equal(code, again);
    if (code == 0) {
        check_document(&before);
        assert_true(bl_json_equal(before.root, after.root));
    } else {
        assert_int_equal(faults[0].offset, faults[1].offset);
        assert_true(faults[0].offset <= text.size);
    }
    bl_arena_done(&arena);
}

/* For one document in 64, the parser's own allocations are at the edge of a page too. */
static void no_document_is_read_beyond_its_end(void **state)
{
    static const char bytes[] = "\n\n  \t:-?[]{},#&*!|>'\"%@`~\\0x\xEF\xBB\xBF\xE2\x80\xA8\x85";
    unsigned long rounds = suite_rounds(5000, 500000);
    struct guard_page guard = {0};
    struct bl_random random;
    struct bl_buffer text;

    (void)state;
    bl_random_seed(&random, 69);
    bl_buffer_init(&text, SIZE_MAX / 2);
    for (unsigned long round = 0; round < rounds; round++) {
        bl_buffer_clear(&text);
        bl_buffer_append(&text, bl_text_from(texts[bl_random_below(&random, BL_COUNT(texts))]));
        mutate(&random, (struct bl_text){bytes, sizeof bytes}, &text);
        if (round % 64 == 0)
            guard_heap_begin();
        check_guarded(&guard, bl_buffer_text(&text));
        guard_heap_end();
    }
    bl_buffer_done(&text);
    guard_page_done(&guard);
}

SUITE(document_guard, cmocka_unit_test(no_document_is_read_beyond_its_end));
