/* The globals of cell code: the language, and Belay's functions. */
#include <stdio.h>
#include <stdlib.h>

#include "rig.h"

#define TOOL(name, input)                                                                          \
    "{\"name\":\"" name "\",\"description\":\"d of " name "\",\"input\":\"" input "\"}"

/* Runs each statement as a test of its own, which must throw the named error. */
#define THROWS                                                                                     \
    "const throws = (name, f) => { try { f(); text('nothing thrown: ' + f) }"                      \
    "catch (e) { if (!(e instanceof name)) text(f + ' threw ' + e) } };\n"

RIG_TEST(C45_the_globals_are_exactly_these)
{
    CHECK(rig_says(
        "text(Reflect.ownKeys(globalThis).map(String).sort().join(' '));"
        "text(Object.keys(globalThis).length);"
        "text(Object.getPrototypeOf(globalThis) === Object.prototype)",
        "ALL_TOOLS AggregateError Array ArrayBuffer BigInt BigInt64Array BigUint64Array Boolean "
        "DataView Date Error EvalError FinalizationRegistry Float16Array Float32Array Float64Array "
        "Function Infinity Int16Array Int32Array Int8Array Intl Iterator JSON Map Math NaN Number "
        "Object Promise Proxy RangeError ReferenceError Reflect RegExp Set String Symbol "
        "SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray "
        "WeakMap WeakRef WeakSet clearTimeout console decodeURI decodeURIComponent encodeURI "
        "encodeURIComponent escape eval exit globalThis image isFinite isNaN load notify "
        "parseFloat parseInt setTimeout store text tools undefined unescape yield_control\n"
        "0\ntrue\n"));
    return 0;
}

RIG_TEST(functions_of_belay_are_read_only)
{
    CHECK(rig_says(
        THROWS "const own = 'text console image store load notify yield_control exit setTimeout "
               "clearTimeout tools ALL_TOOLS'.split(' ');\n"
               "for (const name of own) {\n"
               "  throws(TypeError, () => { globalThis[name] = 1 });\n"
               "  throws(TypeError, () => { delete globalThis[name] });\n"
               "  throws(TypeError, () => Object.defineProperty(globalThis, name, { value: 1 }));\n"
               "  throws(TypeError, () => { globalThis[name].x = 1 });\n"
               "  if (!Object.isFrozen(globalThis[name])) text(name + ' is not frozen') }\n"
               "throws(TypeError, () => { console.log = 1 });\n"
               "text(Object.getOwnPropertyNames(console).sort().join());\n"
               "text(typeof this + arguments.length)",
        "debug,error,info,log,warn\nundefined0\n"));
    return 0;
}

RIG_TEST(the_language_is_strict_and_whole)
{
    CHECK(rig_says(
        "const { a = 1, ...rest } = { b: 2n, c: [3] }; text(`${a} ${rest.b} ${rest.c?.at(-1)}`);\n"
        "class P { #x = 1; static { P.y = 2 } get x() { return this.#x } } text(new P().x + P.y);\n"
        "async function* g() { yield 1; yield 2 } for await (const v of g()) text(v);\n"
        "text(Object.groupBy([1, 2, 3], v => v % 2 ? 'odd' : 'even'));\n"
        "text(new Set([1, 2]).union(new Set([3])).size);\n"
        "try { undeclared = 1 } catch (e) { text(e.name) }\n"
        "text(/(?<y>\\d{4})-\\p{L}/v.exec('2026-x').groups.y);\n"
        "text(Array.fromAsync ? 'yes' : 'no');\n"
        "text(eval('1 + 1') + new Function('return 3')())",
        "1 2 3\n3\n1\n2\n{\"odd\":[1,3],\"even\":[2]}\n3\nReferenceError\n2026\nyes\n5\n"));
    return 0;
}

RIG_TEST(dates_are_in_the_zone_of_the_machine)
{
    struct rig rig;
    const struct rig_cell cell = {
        .source = "text(new Date(0).toString()); text(new Date(2026, 6, 1).getTimezoneOffset());"
                  "text(Intl.DateTimeFormat().resolvedOptions().timeZone);"
                  "text(new Date(0).toLocaleString('en-US'));"
                  "text((1234.5).toLocaleString('de-DE')); text(['z', 'ä'].sort("
                  "new Intl.Collator('de').compare).join(''))"};
    static const char *const lines[] = {
        "Wed Dec 31 1969 19:00:00 GMT-0500 (Eastern Standard Time)",
        "240",
        "America/New_York",
        "12/31/1969, 7:00:00 PM",
        "1.234,5",
        "äz",
    };
    setenv("TZ", "America/New_York", 1);
    if (rig_start(&rig)) {
        rig_give(&rig, &cell);
        for (size_t i = 0; i < BL_COUNT(lines); i++) {
            struct bl_text text =
                bl_json_text(bl_json_pointer(rig_expect(&rig, "item"), BL_TEXT("/item/text")));
            /* Some versions have a narrow space before PM. */
            if (i != 3 && !CHECK(bl_text_equal(text, bl_text_from(lines[i]))))
                fprintf(stderr, "%.*s\n", BL_TEXT_ARG(text));
            CHECK(i != 3 || bl_text_starts_with(text, BL_TEXT("12/31/1969, 7:00:00")));
        }
    }
    unsetenv("TZ");
    rig_done(&rig);
    return 0;
}

/* ---- Output ---- */

RIG_TEST(text_converts_every_value)
{
    CHECK(rig_says(
        "text('as it is\\n'); text(1.5); text(2n); text(null); text(undefined); text(true);"
        "text(Symbol('s')); text(-0); text({ a: [1, 'x', null, undefined] }); text([]);"
        "text(() => 1); text({ toJSON() { return 'made' } }); text(new Date(0)); text();"
        "text('a\\ud800b\\udc00c \\u{1F600} \\u0000 \\\" \\\\ \\u2028 é'.length);"
        "text('a\\ud800b\\udc00c \\u{1F600} é \\\" \\\\'); text({ k: '\\ud800' })",
        "as it is\n\n1.5\n2\nnull\nundefined\ntrue\nSymbol(s)\n0\n"
        "{\"a\":[1,\"x\",null,null]}\n[]\nundefined\n\"made\"\n\"1970-01-01T00:00:00.000Z\"\n"
        "undefined\n18\na\xEF\xBF\xBD"
        "b\xEF\xBF\xBD"
        "c \xF0\x9F\x98\x80 \xC3\xA9 \" \\\n{\"k\":\"\\ud800\"}\n"));
    CHECK(rig_says("console.log('a', 1, { b: 2 }); console.info(); console.warn('\\ud83d');"
                   "console.error(null, undefined); console.debug(1n, Symbol('x'), [1])",
                   "a 1 {\"b\":2}\n\n\xEF\xBF\xBD\nnull undefined\n1 Symbol(x) [1]\n"));
    return 0;
}

RIG_TEST(text_of_a_cycle_is_a_TypeError)
{
    CHECK(rig_says(THROWS "const a = {}; a.a = a; throws(TypeError, () => text(a));"
                          "throws(TypeError, () => console.log(1, a));"
                          "throws(TypeError, () => text({ b: 1n }));"
                          "throws(RangeError, () => text({ toJSON() { throw new RangeError() } }))",
                   ""));
    return 0;
}

RIG_TEST(text_over_the_limit_of_output_is_cut_before_it_is_sent)
{
    const struct rig_cell cell = {
        .source = "text('x'.repeat(3e6)); text('\\u0000'.repeat(1e6)); text('é'.repeat(1e6));"
                  "console.log('y'.repeat(3e6), 'z')",
        .output_bytes = 100000};
    struct rig rig;
    if (rig_start(&rig)) {
        rig_give(&rig, &cell);
        for (unsigned i = 0; i < 4; i++) {
            struct bl_buffer out;
            struct bl_json_writer writer;
            const struct bl_json *item = bl_json_get(rig_expect(&rig, "item"), BL_TEXT("item"));
            bl_buffer_init(&out, 1 << 20);
            bl_json_writer_init(&writer, &out);
            bl_json_write_value(&writer, item);
            /* Slightly more than the limit, so that the host notices. */
            CHECK(out.size > 100000 && out.size < 101000);
            bl_buffer_done(&out);
        }
        rig_expect(&rig, "settled");
    }
    rig_done(&rig);
    return 0;
}

RIG_TEST(images_are_data_urls_of_four_types)
{
    CHECK(rig_says(
        "image('data:image/png;base64,AAAA'); image('data:image/webp;base64,AA==', 'low');\n"
        "image({ image_url: 'data:image/gif;base64,AAA=', detail: 'original' });\n"
        "image({ image_url: 'data:image/jpeg;base64,AAAA' }, 'auto');\n"
        "image({ type: 'image', data: '+/+/', mimeType: 'image/png' })",
        "[data:image/png;base64,AAAA high]\n[data:image/webp;base64,AA== low]\n"
        "[data:image/gif;base64,AAA= original]\n[data:image/jpeg;base64,AAAA auto]\n"
        "[data:image/png;base64,+/+/ high]\n"));
    return 0;
}

RIG_TEST(image_of_http_bad_base64_or_a_bad_detail_is_a_TypeError)
{
    CHECK(rig_says(
        THROWS
        "const good = 'data:image/png;base64,AAAA';\n"
        "for (const bad of ['http://image.test/a.png', 'https://image.test/a.png', '', 'AAAA',\n"
        "  'data:image/png;base64,', 'data:image/png;base64,AAA', 'data:image/png;base64,A=AA',\n"
        "  'data:image/png;base64,AA\\nA', 'data:image/png;base64,====', 'data:image/png,AAAA',\n"
        "  'data:image/svg+xml;base64,AAAA', 'data:text/plain;base64,AAAA',\n"
        "  'data:image/png;charset=x;base64,AAAA', 'DATA:image/png;base64,AAAA', 1, null, "
        "undefined,\n"
        "  {}, [], { image_url: 1 }, { image_url: 'http://image.test' }, { type: 'image' },\n"
        "  { type: 'image', data: 'AAAA' }, { type: 'text', data: 'AAAA', mimeType: 'image/png' "
        "},\n"
        "  { type: 'image', data: 1, mimeType: 'image/png' }])\n"
        "  throws(TypeError, () => image(bad));\n"
        "for (const bad of ['', 'HIGH', 'medium', 1, null, {}]) {\n"
        "  throws(TypeError, () => image(good, bad));\n"
        "  throws(TypeError, () => image({ image_url: good, detail: bad })) }\n"
        "throws(RangeError, () => image({ get image_url() { throw new RangeError() } }))",
        ""));
    return 0;
}

/* ---- Stored values ---- */

RIG_TEST(values_are_loaded_fresh_and_stored_at_the_end)
{
    const struct rig_cell cell = {
        .source =
            "const a = load('a'); a.x.push(9); text(load('a')); text(load('none') === undefined);\n"
            "store('b', { k: '\\ud800', n: [1.5, null] }); text(load('b')); store('gone', "
            "undefined);\n"
            "text(load('gone') === undefined); store('own', 1); store('own', undefined);\n"
            "store('a', 1); text(load('a')); text(load('__proto__')); text(load('') === "
            "undefined);\n"
            "store('\\u0000\"', 'odd'); throw 1",
        .values = "{\"a\":{\"x\":[1]},\"gone\":true,\"__proto__\":\"p\"}"};
    struct rig_run run;
    struct bl_buffer out;
    struct bl_json_writer writer;
    rig_run(&run, &cell);
    CHECK(strcmp(run.text.data, "{\"x\":[1]}\ntrue\n{\"k\":\"\xEF\xBF\xBD\",\"n\":[1.5,null]}\n"
                                "true\n1\np\ntrue\n") == 0);
    bl_buffer_init(&out, 4096);
    bl_json_writer_init(&writer, &out);
    bl_json_write_value(&writer, bl_json_get(run.settled, BL_TEXT("values")));
    CHECK(bl_text_equal(bl_buffer_text(&out),
                        BL_TEXT("{\"a\":1,\"b\":{\"k\":\"\xEF\xBF\xBD\",\"n\":[1.5,null]},"
                                "\"\\u0000\\\"\":\"odd\"}")));
    bl_buffer_done(&out);
    CHECK_EQUAL(bl_json_size(bl_json_get(run.settled, BL_TEXT("deleted"))), 1);
    CHECK(bl_text_equal(bl_json_text(bl_json_pointer(run.settled, BL_TEXT("/deleted/0"))),
                        BL_TEXT("gone")));
    rig_run_done(&run);
    return 0;
}

RIG_TEST(store_of_a_function_cycle_or_BigInt_and_an_empty_key_are_TypeErrors)
{
    CHECK(rig_says(THROWS "const c = []; c.push(c);\n"
                          "for (const bad of [() => 1, Symbol('s'), c, 1n, { b: 1n }])\n"
                          "  throws(TypeError, () => store('k', bad));\n"
                          "for (const bad of ['', 1, null, undefined, {}, Symbol('s')])\n"
                          "  throws(TypeError, () => store(bad, 1));\n"
                          "throws(TypeError, () => load(1)); throws(TypeError, () => store())",
                   ""));
    return 0;
}

RIG_TEST(stored_values_have_limits)
{
    CHECK(rig_says(
        THROWS
        "const MiB = 1 << 20; store('k'.repeat(256), 1); store('é'.repeat(128), 1);\n"
        "throws(RangeError, () => store('k'.repeat(257), 1));\n"
        "throws(RangeError, () => store('é'.repeat(129), 1));\n"
        "store('most', 'x'.repeat(MiB - 2)); throws(RangeError, () => store('v', 'x'.repeat(MiB - "
        "1)));\n"
        "throws(RangeError, () => store('v', 'é'.repeat(MiB / 2)));\n"
        "let deep = 1; for (let i = 0; i < 60; i++) deep = [deep]; store('deep', deep);\n"
        "throws(RangeError, () => store('deeper', [deep]));\n"
        "for (let i = 0; i < 14; i++) store('m' + i, 'x'.repeat(MiB - 2));\n"
        "throws(RangeError, () => store('more', 'x'.repeat(MiB - 2)));\n"
        "store('m0', undefined); store('more', 'x'.repeat(MiB - 2));\n"
        "for (let i = 0; i < 14; i++) store('m' + i, 1); store('more', 1);\n"
        "let n = 0; try { for (;; n++) store('n' + n, 1) } catch (e) { text(e.name) } text(n)",
        "RangeError\n1005\n"));
    return 0;
}

/* ---- The agent, yields, timers ---- */

RIG_TEST(notify_is_text_with_limits)
{
    struct rig rig;
    const struct rig_cell cell = {
        .source =
            THROWS "notify({ a: 1 }); throws(RangeError, () => notify('x'.repeat(16385)));\n"
                   "throws(RangeError, () => notify('é'.repeat(8193))); notify('é'.repeat(8192));\n"
                   "for (let i = 2; i < 64; i++) notify(i);\n"
                   "throws(RangeError, () => notify('one too many')); yield_control();\n"
                   "await new Promise(r => setTimeout(r, 1)); await tools.t({}); notify('free')",
        .tools = "[" TOOL("t", "object") "]"};
    if (rig_start(&rig)) {
        int64_t seq = 0;
        rig_give(&rig, &cell);
        for (int64_t i = 1; i <= 64; i++) {
            const struct bl_json *frame = rig_expect(&rig, "notify");
            CHECK(bl_json_int64(bl_json_get(frame, BL_TEXT("seq")), &seq));
            CHECK_EQUAL(seq, i);
        }
        rig_expect(&rig, "yield");
        rig_expect(&rig, "idle");
        rig_expect(&rig, "call");
        rig_send(&rig, "{\"type\":\"notified\",\"seq\":1}");
        rig_send(&rig, "{\"type\":\"result\",\"call\":1,\"ok\":null}");
        rig_expect(&rig, "idle");
        const struct bl_json *frame = rig_expect(&rig, "notify");
        CHECK(bl_text_equal(bl_json_text(bl_json_get(frame, BL_TEXT("text"))), BL_TEXT("free")));
        rig_expect(&rig, "settled");
    }
    rig_done(&rig);
    const struct rig_cell alone = {.source = THROWS "throws(Error, () => notify('x'))",
                                   .no_notify = true};
    CHECK(rig_cell_says(&alone, ""));
    return 0;
}

RIG_TEST(timers_run_in_order_with_their_arguments)
{
    CHECK(rig_says(
        THROWS
        "const log = [], wait = ms => new Promise(r => setTimeout(r, ms));\n"
        "setTimeout((...a) => log.push('c' + a), 6, 1, 2); setTimeout(() => log.push('b'), 3);\n"
        "setTimeout(() => log.push('a1')); setTimeout(() => log.push('a2'), -5);\n"
        "setTimeout(() => log.push('a3'), NaN); setTimeout(() => log.push('a4'), '0');\n"
        "const id = setTimeout(() => log.push('never'), 1); clearTimeout(id); clearTimeout(id);\n"
        "clearTimeout(undefined); clearTimeout('x'); clearTimeout(1e9); setTimeout(() => {}, "
        "1e99);\n"
        "await wait(30); text(log.join(' ')); text(typeof id);\n"
        "throws(TypeError, () => setTimeout('text(1)', 1)); throws(TypeError, () => "
        "setTimeout());\n"
        "let order = ''; setTimeout(() => { order += 1; Promise.resolve().then(() => order += 2) "
        "});\n"
        "setTimeout(() => order += 3); await wait(10); text(order)",
        "a1 a2 a3 a4 b c1,2\nnumber\n123\n"));
    return 0;
}

RIG_TEST(C45_1024_timers_add_no_thread)
{
    struct rig rig;
    const struct rig_cell cell = {
        .source = "let n = 0; try { for (;; n++) setTimeout(() => {}, 1e9) } catch (e) {"
                  "text(e.name + n) } await new Promise(() => {})"};
    if (rig_start(&rig)) {
        uint64_t before = rig_status(&rig, "Threads");
        rig_give(&rig, &cell);
        struct bl_text text =
            bl_json_text(bl_json_pointer(rig_expect(&rig, "item"), BL_TEXT("/item/text")));
        CHECK(bl_text_equal(text, BL_TEXT("RangeError1024")));
        rig_expect(&rig, "idle");
        /* One thread of the engine comes and goes. */
        CHECK(before <= 2 && rig_status(&rig, "Threads") <= 2);
    }
    rig_done(&rig);
    return 0;
}

/* ---- Tools ---- */

RIG_TEST(C45_names_of_tools_become_names_of_functions)
{
    const struct rig_cell cell = {
        .source = "text(ALL_TOOLS.map(t => t.name).join(' ')); text(ALL_TOOLS[0].description);\n"
                  "text(Object.keys(tools).join(' ') === ALL_TOOLS.map(t => t.name).join(' '));\n"
                  "text(Object.getPrototypeOf(tools) + ' ' + typeof tools.a_b + ' ' + "
                  "tools.a_b_2.name);\n"
                  "text(ALL_TOOLS.every(Object.isFrozen) && "
                  "Object.values(tools).every(Object.isFrozen));\n"
                  "try { tools.none({}) } catch (e) { text(e.name) }",
        .tools =
            "[" TOOL("a-b", "object") "," TOOL("a_b", "object") "," TOOL("a.b", "text") "," TOOL(
                "mcp__x__\xC3\xA9\xE2\x82\xAC",
                "text") "," TOOL("__proto__",
                                 "text") "," TOOL("a_b_4",
                                                  "text") "," TOOL("a/b",
                                                                   "text") "," TOOL("a:b",
                                                                                    "text") "]"};
    CHECK(rig_cell_says(&cell, "a_b_2 a_b a_b_3 mcp__x____ __proto__ a_b_4 a_b_5 a_b_6\nd of a-b\n"
                               "true\nnull function a_b_2\ntrue\nTypeError\n"));
    return 0;
}

RIG_TEST(the_wrong_kind_of_tool_input_is_a_TypeError)
{
    const struct rig_cell cell = {
        .source =
            "const c = {}; c.c = c; let deep = {}; for (let i = 0; i < 61; i++) deep = { deep };\n"
            "const bad = [[tools.o, 'x'], [tools.o], [tools.o, null], [tools.o, [1]], [tools.o, "
            "1],\n"
            "  [tools.o, c], [tools.o, { b: 1n }], [tools.o, () => 1], [tools.o, deep],\n"
            "  [tools.o, { toJSON() { return 1 } }], [tools.t, {}], [tools.t], [tools.t, 1]];\n"
            "for (const [tool, ...input] of bad)\n"
            "  await tool(...input).then(() => text('no'), e => { if (!(e instanceof TypeError)) "
            "text(e) })",
        .tools = "[" TOOL("o", "object") "," TOOL("t", "text") "]"};
    struct rig_run run;
    rig_run(&run, &cell);
    CHECK(strcmp(run.text.data, "") == 0);
    CHECK_EQUAL(run.calls, 0);
    CHECK(run.settled != NULL);
    rig_run_done(&run);
    return 0;
}

RIG_TEST(a_call_resolves_or_rejects_with_a_ToolError)
{
    struct rig rig;
    const struct rig_cell cell = {
        .source = "Object.prototype.ok = 'stolen'; Object.prototype.err = 'stolen';\n"
                  "const [a, b] = await Promise.allSettled([tools.o({ q: '\\ud800' }), "
                  "tools.t_x('raw')]);\n"
                  "text(a.value); const e = b.reason;\n"
                  "text([e.name, e.kind, e.tool, e.message, e instanceof Error, "
                  "Object.keys(e)].join());\n"
                  "text(await tools.o({}) === null)",
        .tools = "[" TOOL("o", "object") "," TOOL("t-x", "text") "]"};
    if (rig_start(&rig)) {
        rig_give(&rig, &cell);
        const struct bl_json *call = rig_expect(&rig, "call");
        CHECK(bl_text_equal(bl_json_text(bl_json_pointer(call, BL_TEXT("/input/q"))),
                            BL_TEXT("\xEF\xBF\xBD")));
        CHECK(bl_text_equal(bl_json_text(bl_json_get(call, BL_TEXT("tool"))), BL_TEXT("o")));
        call = rig_expect(&rig, "call");
        CHECK(bl_text_equal(bl_json_text(bl_json_get(call, BL_TEXT("input"))), BL_TEXT("raw")));
        CHECK(bl_text_equal(bl_json_text(bl_json_get(call, BL_TEXT("tool"))), BL_TEXT("t-x")));
        rig_send(&rig, "{\"type\":\"result\",\"call\":2,\"err\":{\"kind\":\"denied\","
                       "\"message\":\"not \\\"this\\\"\"}}");
        rig_send(&rig, "{\"type\":\"result\",\"call\":1,\"ok\":{\"list\":[1,\"\xC3\xA9\"]}}");
        static const char *const said[] = {
            "{\"list\":[1,\"\xC3\xA9\"]}",
            "ToolError,denied,t-x,not \"this\",true,kind,tool",
            "true",
        };
        for (size_t i = 0; i < BL_COUNT(said); i++) {
            const struct bl_json *frame;
            do
                frame = rig_next(&rig);
            while (frame != NULL && bl_json_get(frame, BL_TEXT("timers")) != NULL);
            if (bl_json_get(frame, BL_TEXT("call")) != NULL) {
                rig_send(&rig, "{\"type\":\"result\",\"call\":3,\"ok\":null}");
                frame = rig_next(&rig);
            }
            struct bl_text text = bl_json_text(bl_json_pointer(frame, BL_TEXT("/item/text")));
            if (!CHECK(bl_text_equal(text, bl_text_from(said[i]))))
                fprintf(stderr, "%.*s\n", BL_TEXT_ARG(text));
        }
        rig_expect(&rig, "settled");
        /* A host never sends an answer to an unknown call, or a second one. */
    }
    rig_done(&rig);
    return 0;
}

RIG_TEST(at_most_64_calls_are_in_progress_and_4096_are_made)
{
    struct rig rig;
    const struct rig_cell cell = {
        .source = "let done = 0, wrong; const all = [];\n"
                  "for (let i = 0; i < 4097; i++)\n"
                  "  all.push(tools.o({ i }).then(() => done++, e => { wrong = e.kind }));\n"
                  "await Promise.all(all); text(done + wrong);\n"
                  "await tools.o({ big: 'x'.repeat(8 << 20) }).catch(e => text(e.kind))",
        .tools = "[" TOOL("o", "object") "]"};
    if (rig_start(&rig)) {
        unsigned calls = 0, answered = 0;
        char text[96];
        rig_give(&rig, &cell);
        for (const struct bl_json *frame; (frame = rig_next(&rig)) != NULL;) {
            if (bl_json_get(frame, BL_TEXT("call")) != NULL)
                calls++;
            else if (bl_json_get(frame, BL_TEXT("item")) != NULL)
                break;
            CHECK(calls - answered <= 64);
            /* No call is answered before as many as possible are sent. */
            while (answered < calls && (calls - answered == 64 || answered >= 4096 - 64)) {
                snprintf(text, sizeof text, "{\"type\":\"result\",\"call\":%u,\"ok\":%u}",
                         answered + 1, answered);
                rig_send(&rig, text);
                answered++;
            }
        }
        CHECK_EQUAL(calls, 4096);
        CHECK(bl_text_equal(bl_json_text(bl_json_pointer(rig_next(&rig), BL_TEXT("/item/text"))),
                            BL_TEXT("too_large")));
        rig_expect(&rig, "settled");
    }
    rig_done(&rig);
    return 0;
}

SUITE(globals, cmocka_unit_test(C45_the_globals_are_exactly_these),
      cmocka_unit_test(functions_of_belay_are_read_only),
      cmocka_unit_test(the_language_is_strict_and_whole),
      cmocka_unit_test(dates_are_in_the_zone_of_the_machine),
      cmocka_unit_test(text_converts_every_value), cmocka_unit_test(text_of_a_cycle_is_a_TypeError),
      cmocka_unit_test(text_over_the_limit_of_output_is_cut_before_it_is_sent),
      cmocka_unit_test(images_are_data_urls_of_four_types),
      cmocka_unit_test(image_of_http_bad_base64_or_a_bad_detail_is_a_TypeError),
      cmocka_unit_test(values_are_loaded_fresh_and_stored_at_the_end),
      cmocka_unit_test(store_of_a_function_cycle_or_BigInt_and_an_empty_key_are_TypeErrors),
      cmocka_unit_test(stored_values_have_limits), cmocka_unit_test(notify_is_text_with_limits),
      cmocka_unit_test(timers_run_in_order_with_their_arguments),
      cmocka_unit_test(C45_1024_timers_add_no_thread),
      cmocka_unit_test(C45_names_of_tools_become_names_of_functions),
      cmocka_unit_test(the_wrong_kind_of_tool_input_is_a_TypeError),
      cmocka_unit_test(a_call_resolves_or_rejects_with_a_ToolError),
      cmocka_unit_test(at_most_64_calls_are_in_progress_and_4096_are_made));
