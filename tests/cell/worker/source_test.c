/* JavaScriptCore reads sources that models write. For any source, the worker ends as intended, and
 * never by a fault of the engine. */
#include <stdio.h>

#include "mutate.h"
#include "rig.h"

static const char *const sources[] = {
    "const a = [1, 2n ** 64n, 'x'.repeat(9)]; for (const x of a) text(String(x)); store('k', a)",
    "class A { #p = 1; static { text('s') } get p() { return this.#p } } text(new A().p)",
    "text(`t ${[...'日本'].map(c => c.codePointAt(0)).join()}`); "
    "text(/(?<y>\\d{4})-\\u{41}/u.exec('2026-A')?.groups.y)",
    "function* g() { yield* [1, 2] } async function f() { await null; throw new TypeError('x') } "
    "try { await f() } catch ({message}) { text(message + [...g()]) }",
    "const m = new Map([[NaN, 1]]), b = new Uint8Array(8); b[3] = 300; text(JSON.stringify({m: "
    "[...m], b: [...b]})); label: for (let i = 0; i < 3; i++) { if (i) break label }",
    "text(JSON.stringify(load('v'))); text(eval('1+1')); text(new Function('a', 'return a')(7))",
};

static const char *const values[] = {
    "{}",
    "{\"v\":{\"a\":[1,2.5,null,\"\\u0000\\ud83d\\ude00\"],\"b\":{\"__proto__\":1}}}",
    "{\"v\":[[[[[[[[[[-0.0]]]]]]]]]]}",
};

/* It settled, reached a limit, or is still running: then the host ends it. */
static void check_end(const struct rig_run *run, struct bl_text source)
{
    bool ended = run->end.how == BL_END_EXITED &&
                 (run->end.status == WORKER_EXIT_SETTLED || run->end.status == WORKER_EXIT_MEMORY);

    if (CHECK(ended))
        return;
    fprintf(stderr, "how %d, status %d, source: %.*s\n", (int)run->end.how, run->end.status,
            (int)source.size, source.data);
}

RIG_TEST(no_source_ends_the_worker_by_a_fault)
{
    static const char bytes[] = "(){}[];,.'\"`$#@!~^&|?:=+-*/\\<>%\n0n xu\xE6\x97\xA5";
    unsigned long rounds = suite_rounds(12, 2000);
    struct bl_random random;
    struct bl_buffer text;

    bl_random_seed(&random, 70);
    bl_buffer_init(&text, SIZE_MAX / 2);
    for (unsigned long round = 0; round < rounds; round++) {
        struct rig_run run;
        bl_buffer_clear(&text);
        bl_buffer_append(&text, bl_text_from(sources[round % BL_COUNT(sources)]));
        mutate(&random, (struct bl_text){bytes, sizeof bytes}, &text);
        /* The worker's input is JSON, and so UTF-8. */
        text.size = bl_utf8_valid_prefix(bl_buffer_text(&text), &(bool){false});
        struct rig_cell cell = {.bytes = bl_buffer_text(&text),
                                .values = values[bl_random_below(&random, BL_COUNT(values))]};
        rig_run(&run, &cell);
        check_end(&run, bl_buffer_text(&text));
        rig_run_done(&run);
    }
    bl_buffer_done(&text);
    return 0;
}

SUITE(source, cmocka_unit_test(no_source_ends_the_worker_by_a_fault));
