/* The life of a worker: it starts, runs one cell, and ends by itself, by a limit or by a signal. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "figure.h"
#include "rig.h"

#define MEBIBYTE ((uint64_t)1024 * 1024)

/* ---- Settling ---- */

RIG_TEST(a_cell_settles_when_its_body_does)
{
    CHECK(rig_says("text(1 + 1)", "2\n"));
    CHECK(rig_says("await null; text('a'); await new Promise(r => setTimeout(r, 1)); text('b')",
                   "a\nb\n"));
    CHECK(rig_says("", ""));
    CHECK(rig_says("// nothing but this", ""));
    CHECK(rig_says("#!/usr/bin/env node\ntext('a')", "a\n"));
    CHECK(rig_says("text('a'); if (load) return; text('b')", "a\n"));
    /* These are not awaited. */
    CHECK(rig_says("setTimeout(() => text('no'), 1); new Promise(() => {}); text('a')", "a\n"));
    CHECK(rig_says("(async () => { for (;;) await null })(); text('a')", "a\n"));
    return 0;
}

RIG_TEST(output_after_the_end_is_ignored)
{
    CHECK(rig_says("(async () => { text('a'); for (let i = 0; i < 9; i++) await null;"
                   "text('late'); yield_control(); store('k', 1); notify('n') })()",
                   "a\n"));
    return 0;
}

RIG_TEST(C45_exit_ends_at_once_unseen_by_catch_and_finally)
{
    struct rig_cell cell = {
        .source = "store('k', 1); text('a');"
                  "try { exit() } catch { text('caught') } finally { text('finally') }"
                  "text('after')"};
    struct rig_run run;
    CHECK(rig_cell_says(&cell, "a\n"));
    cell.source = "store('k', 1); Promise.resolve().then(exit); await new Promise(() => {})";
    rig_run(&run, &cell);
    CHECK(bl_json_is(bl_json_get(run.settled, BL_TEXT("error")), BL_JSON_NULL));
    CHECK(bl_json_pointer(run.settled, BL_TEXT("/values/k")) != NULL);
    CHECK_EQUAL(run.end.how, BL_END_EXITED);
    CHECK_EQUAL(run.end.status, WORKER_EXIT_SETTLED);
    rig_run_done(&run);
    return 0;
}

RIG_TEST(idle_has_the_number_of_timers_and_whether_the_cell_is_stalled)
{
    struct rig rig;
    const struct rig_cell cell = {
        .source = "const p = tools.t({}); setTimeout(() => {}, 1); setTimeout(() => {}, 1);"
                  "await p; text('x'); await new Promise(() => {})",
        .tools = "[{\"name\":\"t\",\"description\":\"\",\"input\":\"object\"}]"};
    if (rig_start(&rig)) {
        rig_give(&rig, &cell);
        rig_expect(&rig, "call");
        const struct bl_json *idle = rig_expect(&rig, "idle");
        int64_t timers = -1;
        CHECK(bl_json_int64(bl_json_get(idle, BL_TEXT("timers")), &timers));
        CHECK_EQUAL(timers, 2);
        CHECK(!bl_json_boolean(bl_json_get(idle, BL_TEXT("stalled")), true));
        do {
            idle = rig_expect(&rig, "idle");
            bl_json_int64(bl_json_get(idle, BL_TEXT("timers")), &timers);
        } while (idle != NULL && timers > 0);
        CHECK(!bl_json_boolean(bl_json_get(idle, BL_TEXT("stalled")), true));
        rig_send(&rig, "{\"type\":\"result\",\"call\":1,\"ok\":null}");
        rig_expect(&rig, "item");
        idle = rig_expect(&rig, "idle");
        CHECK(bl_json_boolean(bl_json_get(idle, BL_TEXT("stalled")), false));
    }
    rig_done(&rig);
    return 0;
}

RIG_TEST(an_unhandled_rejection_is_a_last_text_item)
{
    CHECK(rig_says("Promise.reject(new TypeError('lost')); text('a')",
                   "a\nUnhandled rejection: TypeError: lost\nat cell.mjs:1:29\n"));
    CHECK(rig_says("const p = Promise.reject(1); try { await p } catch { text('b') }", "b\n"));
    CHECK(rig_says("(async () => { throw 1 })(); await null; text('c')",
                   "c\nUnhandled rejection: Error: 1\n"));
    return 0;
}

/* ---- Errors ---- */

RIG_TEST(C46_errors_name_the_lines_of_the_source_as_sent)
{
    const struct rig_cell cell = {.source = "\n"
                                            "function f() { throw new TypeError('bad') }\n"
                                            "class A { m() { f() } }\n"
                                            "await null\n"
                                            "text('kept'); [1].map(() => new A().m())"};
    struct rig_run run;
    rig_run(&run, &cell);
    CHECK(strcmp(run.text.data, "kept\n") == 0);
    CHECK(bl_text_equal(rig_error(&run, "kind"), BL_TEXT("exception")));
    CHECK(bl_text_equal(rig_error(&run, "name"), BL_TEXT("TypeError")));
    CHECK(bl_text_equal(rig_error(&run, "message"), BL_TEXT("bad")));
    CHECK(bl_text_equal(rig_error(&run, "stack"),
                        BL_TEXT("at f (cell.mjs:2:35)\nat m (cell.mjs:3:18)\n"
                                "at cell.mjs:5:38\nat cell.mjs:5:22")));
    rig_run_done(&run);
    const struct rig_cell first = {.source = "throw new Error('x')"};
    rig_run(&run, &first);
    CHECK(bl_text_equal(rig_error(&run, "stack"), BL_TEXT("at cell.mjs:1:16")));
    rig_run_done(&run);
    const struct rig_cell late = {.source = "setTimeout(() => {\n throw new RangeError('t') }, 1);"
                                            "await new Promise(() => {})"};
    rig_run(&run, &late);
    CHECK(bl_text_equal(rig_error(&run, "message"), BL_TEXT("t")));
    CHECK(bl_text_equal(rig_error(&run, "stack"), BL_TEXT("at cell.mjs:2:22")));
    rig_run_done(&run);
    return 0;
}

RIG_TEST(C46_a_message_of_1_MiB_is_cut_at_a_character)
{
    const struct rig_cell cell = {.source = "throw new Error('x' + '\\u{1F600}'.repeat(1 << 18))"};
    struct rig_run run;
    rig_run(&run, &cell);
    struct bl_text message = rig_error(&run, "message");
    CHECK(message.size <= 4096 && message.size > 4090);
    CHECK_EQUAL((message.size - 1) % 4, 0);
    rig_run_done(&run);
    return 0;
}

RIG_TEST(any_thrown_value_is_reported)
{
    CHECK(rig_fails("throw 5", "exception", "Error", "5"));
    CHECK(rig_fails("throw null", "exception", "Error", "null"));
    CHECK(rig_fails("throw Symbol('s')", "exception", "Error", "Symbol(s)"));
    CHECK(
        rig_fails("throw { toString() { throw 1 } }", "exception", "Error", "[unprintable value]"));
    CHECK(rig_fails("throw new Proxy({}, { getPrototypeOf() { throw 1 }, get() { throw 2 } })",
                    "exception", "Error", "[unprintable value]"));
    CHECK(rig_fails(
        "class E extends Error { get name() { throw 1 } get message() { throw 2 } };"
        "const e = new E(); Object.defineProperty(e, 'stack', { get() { throw 3 } }); throw e",
        "exception", "Error", ""));
    return 0;
}

RIG_TEST(a_source_with_a_syntax_error_a_NUL_or_a_static_import_completes_with_syntax_or_import)
{
    const struct rig_cell cell = {.bytes = BL_TEXT("text(1)\n\0text(2)")};
    struct rig_run run;
    CHECK(rig_fails("let a = ;", "syntax", "SyntaxError", "Unexpected token ';'"));
    CHECK(rig_fails("if (1) {", "syntax", "SyntaxError", "Unexpected end of input"));
    CHECK(rig_fails("import.meta", "syntax", "SyntaxError", NULL));
    CHECK(rig_fails("export const a = 1", "syntax", "SyntaxError", NULL));
    CHECK(rig_fails("with (a) {}", "syntax", "SyntaxError", NULL));
    CHECK(rig_fails("import fs from 'fs'", "import", NULL, "Unsupported import in exec: fs"));
    CHECK(rig_fails("text(1)\nimport { a,\n b } from \"node:x\"", "import", NULL,
                    "Unsupported import in exec: node:x"));
    CHECK(rig_fails("import 'side'", "import", NULL, "Unsupported import in exec: side"));
    CHECK(rig_fails("export * from 'y'", "import", NULL, "Unsupported import in exec: y"));
    CHECK(rig_fails("text('import a from \"b\"')\nlet 1", "syntax", "SyntaxError", NULL));
    rig_run(&run, &cell);
    CHECK(bl_text_equal(rig_error(&run, "kind"), BL_TEXT("syntax")));
    CHECK(bl_text_equal(rig_error(&run, "stack"), BL_TEXT("at cell.mjs:2")));
    CHECK_EQUAL(run.items, 0);
    rig_run_done(&run);
    return 0;
}

RIG_TEST(C45_a_dynamic_import_is_a_rejected_promise)
{
    CHECK(rig_says("try { await import('fs') } catch (e) { text(e.message) }\n"
                   "import('n').catch(e => text(e.name));\n"
                   "const x = { import(v) { return v } }; text(x.import('method'));\n"
                   "text(/import(x)/.source + `import(${1})`); // import(2)\n"
                   "const r = await Promise.allSettled([import({ toString() { throw 7 } })]);\n"
                   "text(r[0].reason)",
                   "Unsupported import in exec: fs\nmethod\nimport(x)import(1)\nError\n7\n"));
    CHECK(rig_fails("await import('later')", "exception", "Error",
                    "Unsupported import in exec: later"));
    CHECK(rig_fails("await new Function('return import(\"made\")')()", "exception", "Error",
                    "Unsupported import in exec: made"));
    return 0;
}

/* ---- Memory and the stack ---- */

static const char *const bombs[] = {
    "const a = []; for (;;) a.push(new Array(1000).fill(1.5))",
    "const a = []; for (;;) a.push(new Uint8Array(65536).fill(1))",
    "let s = 'x'; for (;;) s += s",
    "const a = []; for (let i = 0;; i++) a.push('k' + i + 'x'.repeat(1000))",
    "const m = new Map(); for (let i = 0;; i++) m.set(i, { i })",
    "const o = {}; for (let i = 0;; i++) o['k' + i] = { a: [i] }",
    "const a = []; for (let i = 0;; i++) { const o = {}; o['k' + i] = 1; a.push(o) }",
    "const a = []; for (;;) { try { for (;;) a.push(new Uint8Array(65536).fill(1)) } catch { "
    "a.push(() => a) } }",
    "const f = []; for (let i = 0;; i++) { f.push(new Function('a', 'return a + ' + i)); f[i](1) }",
    "const r = []; for (let i = 0;; i++) { const x = new RegExp('a*b*' + i); x.test('aab'); "
    "r.push(x) }",
    "let a = [1]; for (;;) a = a.concat(a)",
    "for (;;) Promise.resolve().then(() => {})",
    "const f = () => new Promise(r => setTimeout(r, 1e9)); const a = []; for (;;) a.push(new "
    "Promise(() => {}).then(f))",
    "text('x'.repeat(1e9))",
};

static void run_bomb(const char *source, uint64_t *ret_ms)
{
    struct rig rig;
    struct rig_cell cell = {.source = source, .memory_bytes = 16 * MEBIBYTE};
    bool limited = false;
    if (rig_start(&rig)) {
        struct bl_warden_end end;
        uint64_t begin_ns = bl_now_ns();
        rig_give(&rig, &cell);
        for (const struct bl_json *frame; (frame = rig_next(&rig)) != NULL;)
            limited = bl_text_equal(bl_json_text(bl_json_pointer(frame, BL_TEXT("/error/kind"))),
                                    BL_TEXT("memory_limit"));
        rig_end(&rig, &end);
        *ret_ms = (bl_now_ns() - begin_ns) / BL_NS_PER_MS;
        limited = limited || (end.how == BL_END_EXITED && end.status == WORKER_EXIT_MEMORY);
        if (!CHECK(limited))
            fprintf(stderr, "%s: how %d, status %d\n", source, end.how, end.status);
    }
    rig_done(&rig);
}

RIG_TEST(C6_a_memory_bomb_ends_as_memory_limit)
{
    size_t count = suite_rounds(7, BL_COUNT(bombs));
    for (size_t i = 0; i < count; i++) {
        uint64_t ms = 0;
        run_bomb(bombs[i], &ms);
        /* The simple ones take a hundredth of that on an idle machine. */
        if (i < 3 && !CHECK(figure_at_most("C6 memory limit of a worker", (double)ms, 2000)))
            fprintf(stderr, "%s: %llu ms\n", bombs[i], (unsigned long long)ms);
    }
    return 0;
}

/* Measured in a running cell that stays at its limit. */
RIG_TEST(C6_the_peak_is_within_32_MiB_of_an_idle_worker)
{
    static const char *const fillers[] = {
        "const a = []; try { for (;;) a.push(new Uint8Array(65536).fill(1)) } catch {}",
        "const a = []; try { for (;;) a.push(new Array(1000).fill(1.5)) } catch {}",
        "const a = []; try { for (;;) a.push({ a: 1 }, [1]) } catch {}",
    };
    for (size_t i = 0; i < BL_COUNT(fillers); i++) {
        struct rig rig;
        char source[256];
        snprintf(source, sizeof source, "%s yield_control(); await new Promise(() => {})",
                 fillers[i]);
        const struct rig_cell cell = {.source = source, .memory_bytes = 16 * MEBIBYTE};
        if (rig_start(&rig)) {
            uint64_t idle_kib = rig_status(&rig, "VmHWM");
            rig_give(&rig, &cell);
            rig_expect(&rig, "yield");
            uint64_t peak_kib = rig_status(&rig, "VmHWM");
            CHECK(idle_kib > 0 && peak_kib > idle_kib);
            CHECK(peak_kib - idle_kib <= 32 * 1024);
        }
        rig_done(&rig);
    }
    return 0;
}

RIG_TEST(garbage_does_not_count_as_growth)
{
    const struct rig_cell cell = {
        .source = "let s = 0; for (let k = 0; k < 20; k++) { const a = [];"
                  "for (let i = 0; i < 10000; i++) a.push({ i, s: 'v' + i }); s += a.length }"
                  "for (let k = 0; k < 1000; k++) s += new Uint8Array(100000).length; text(s)",
        .memory_bytes = 16 * MEBIBYTE};
    CHECK(rig_cell_says(&cell, "100200000\n"));
    return 0;
}

RIG_TEST(C6_deep_recursion_is_an_exception)
{
    static const char *const sources[] = {
        "function f(n) { return 1 + f(n + 1) } f(0)",
        "const f = () => f(); f()",
        "const x = { toString() { return '' + x } }; '' + x",
        "const f = () => text({ toJSON: f }); f()",
        "class A { get a() { return this.a } } new A().a",
    };
    for (size_t i = 0; i < BL_COUNT(sources); i++)
        CHECK(rig_fails(sources[i], "exception", "RangeError", NULL));
    return 0;
}

/* ---- Stops ---- */

RIG_TEST(C5_SIGTERM_ends_a_worker_at_once_in_any_code)
{
    static const char *const sources[] = {
        "text(1); for (;;);",
        "text(1); for (;;) await null",
        "text(1); await new Promise(() => {})",
        "text(1); /^(a+)+$/.test('a'.repeat(40) + 'b')",
        "text(1); for (let i = 0; i < 1000; i++) setTimeout(() => {}, 1e6); for (;;) await null",
        "text(1); try { for (;;); } finally { for (;;); }",
    };
    for (size_t i = 0; i < BL_COUNT(sources); i++) {
        struct rig rig;
        const struct rig_cell cell = {.source = sources[i]};
        if (rig_start(&rig)) {
            struct bl_warden_end end;
            rig_give(&rig, &cell);
            rig_expect(&rig, "item");
            bl_warden_stop(rig.warden, 0, 5000, &end);
            CHECK_EQUAL(end.how, BL_END_STOPPED);
            CHECK_EQUAL(end.survivors, 0);
            CHECK_EQUAL(end.strongest_signal, SIGTERM);
        }
        rig_done(&rig);
    }
    return 0;
}

RIG_TEST(a_worker_ends_with_its_host)
{
    struct rig rig;
    struct bl_warden_end end;
    if (rig_start(&rig)) {
        shutdown(rig.fd, 2);
        rig_end(&rig, &end);
        CHECK_EQUAL(end.status, WORKER_EXIT_PROTOCOL);
    }
    rig_done(&rig);
    return 0;
}

RIG_TEST(an_invalid_frame_of_the_host_ends_the_worker)
{
    static const char *const wrong[] = {
        "{}",
        "[]",
        "{\"type\":\"start\"}",
        "{\"type\":\"notified\",\"seq\":1}",
        "nonsense",
        "\"text\"",
        "{\"type\":\"start\",\"source\":1,\"tools\":[],\"values\":{}}",
    };
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        struct rig rig;
        struct bl_warden_end end;
        if (rig_start(&rig)) {
            rig_send(&rig, wrong[i]);
            rig_end(&rig, &end);
            CHECK_EQUAL(end.status, WORKER_EXIT_PROTOCOL);
        }
        rig_done(&rig);
    }
    return 0;
}

/* ---- Many workers ---- */

RIG_TEST(C11_no_two_workers_share_random_state)
{
    double seen[64];
    size_t rounds = suite_rounds(12, 64);
    for (size_t i = 0; i < rounds; i++) {
        const struct rig_cell cell = {.source = "text(Math.random())"};
        struct rig_run run;
        rig_run(&run, &cell);
        seen[i] = strtod(run.text.data, NULL);
        for (size_t k = 0; k < i; k++)
            CHECK(seen[k] != seen[i]);
        rig_run_done(&run);
    }
    return 0;
}

SUITE(worker, cmocka_unit_test(a_cell_settles_when_its_body_does),
      cmocka_unit_test(output_after_the_end_is_ignored),
      cmocka_unit_test(C45_exit_ends_at_once_unseen_by_catch_and_finally),
      cmocka_unit_test(idle_has_the_number_of_timers_and_whether_the_cell_is_stalled),
      cmocka_unit_test(an_unhandled_rejection_is_a_last_text_item),
      cmocka_unit_test(C46_errors_name_the_lines_of_the_source_as_sent),
      cmocka_unit_test(C46_a_message_of_1_MiB_is_cut_at_a_character),
      cmocka_unit_test(any_thrown_value_is_reported),
      cmocka_unit_test(
          a_source_with_a_syntax_error_a_NUL_or_a_static_import_completes_with_syntax_or_import),
      cmocka_unit_test(C45_a_dynamic_import_is_a_rejected_promise),
      cmocka_unit_test(C6_a_memory_bomb_ends_as_memory_limit),
      cmocka_unit_test(C6_the_peak_is_within_32_MiB_of_an_idle_worker),
      cmocka_unit_test(garbage_does_not_count_as_growth),
      cmocka_unit_test(C6_deep_recursion_is_an_exception),
      cmocka_unit_test(C5_SIGTERM_ends_a_worker_at_once_in_any_code),
      cmocka_unit_test(a_worker_ends_with_its_host),
      cmocka_unit_test(an_invalid_frame_of_the_host_ends_the_worker),
      cmocka_unit_test(C11_no_two_workers_share_random_state));
