/* The tool `exec`: its input, its answers, and its cells. */
#include "agent/parts.h"

#include "cell_rig.h"

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

static bool is(struct bl_text text, const char *string)
{
    return bl_text_equal(text, bl_text_from(string));
}

/* ---- The pragma ------------------------------------------------------------------------------ */

/* Reads the input, with ' for ". False: `*ret_problem`. */
static bool read_request(struct bl_arena *arena, const char *input,
                         struct agent_exec_input *request, struct bl_text *problem)
{
    struct bl_text text = bl_arena_text(arena, bl_text_from(input));
    const struct bl_json *value;

    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '\'')
            ((char *)(uintptr_t)text.data)[i] = '"';
    assert_int_equal(bl_json_read(arena, text, NULL, &value, NULL), 0);
    return exec_input_read(arena, value, request, problem);
}

static void without_a_pragma_the_defaults_hold(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct agent_exec_input request;
    struct bl_text problem;

    assert_true(read_request(&arena, "{'source':'text(1)\\ntext(2)'}", &request, &problem));
    assert_true(is(request.source, "text(1)\ntext(2)"));
    assert_int_equal(request.yield_ms, 10000);
    assert_int_equal(request.output_tokens_max, 10000);
    assert_int_equal(request.timeout_ms, 0);
    assert_false(request.background);
    bl_arena_done(&arena);
}

static void pragma_becomes_an_empty_line_and_an_argument_wins_over_it(void **state BL_UNUSED)
{
    static const char *const inputs[] = {
        "{'source':'// @exec: {\\'yield_time_ms\\':5,\\'max_output_tokens\\':7,\\'timeout_ms\\':9,"
        "\\'background\\':true}\\nx()'}",
        "{'source':'//@exec:{\\'yield_time_ms\\':5,\\'max_output_tokens\\':7,\\'timeout_ms\\':9,"
        "\\'background\\':true}  \\r\\nx()'}",
        "{'source':'// @exec: {\\'yield_time_ms\\':1,\\'background\\':false}\\nx()',"
        "'yield_time_ms':5,'max_output_tokens':7,'timeout_ms':9,'background':true}",
    };
    struct bl_arena arena = {0};
    struct agent_exec_input request;
    struct bl_text problem;

    for (size_t i = 0; i < BL_COUNT(inputs); i++) {
        assert_true(read_request(&arena, inputs[i], &request, &problem));
        assert_true(is(request.source, "\nx()"));
        assert_int_equal(request.yield_ms, 5);
        assert_int_equal(request.output_tokens_max, 7);
        assert_int_equal(request.timeout_ms, 9);
        assert_true(request.background);
    }
    /* Not a pragma, and not meant to be one. */
    assert_true(read_request(&arena, "{'source':'// @executor: me\\nx()'}", &request, &problem));
    assert_true(is(request.source, "// @executor: me\nx()"));
    assert_true(read_request(&arena, "{'source':'x()\\n// @exec: {]'}", &request, &problem));
    bl_arena_done(&arena);
}

static void invalid_pragma_or_missing_code_is_an_error(void **state BL_UNUSED)
{
    static const struct {
        const char *source, *said;
    } cases[] = {
        {"// @exec", "a colon and a JSON object"},
        {"// @exec {}\\nx()", "a colon and a JSON object"},
        {"// @exec: \\nx()", "invalid JSON"},
        {"// @exec: {\\nx()", "invalid JSON"},
        {"// @exec: []\\nx()", "expected an object, found an empty array."},
        {"// @exec: {\\'yield\\':1}\\nx()",
         "unknown member \"yield\" in the pragma; did you mean \"yield_time_ms\"? No cell"},
        {"// @exec: {\\'yield_time_ms\\':1,\\'yield_time_ms\\':2}\\nx()", "invalid JSON"},
        {"// @exec: {\\'yield_time_ms\\':\\'1\\'}\\nx()", "yield_time_ms: expected a whole number"},
        {"// @exec: {\\'yield_time_ms\\':-1}\\nx()", "yield_time_ms: expected"},
        {"// @exec: {\\'yield_time_ms\\':300001}\\nx()", "from 0 to 300000"},
        {"// @exec: {\\'yield_time_ms\\':1.5}\\nx()", "yield_time_ms: expected"},
        {"// @exec: {\\'max_output_tokens\\':0}\\nx()", "max_output_tokens: expected"},
        {"// @exec: {\\'timeout_ms\\':0}\\nx()", "timeout_ms: expected"},
        {"// @exec: {\\'timeout_ms\\':86400001}\\nx()", "timeout_ms: expected"},
        {"// @exec: {\\'background\\':1}\\nx()", "background: expected true or false"},
        {"// @exec: {}", "no code follows it"},
        {"// @exec: {}\\n \\n\\t", "no code follows it"},
    };
    struct bl_arena arena = {0};
    struct agent_exec_input request;
    struct bl_text problem;
    char input[256];

    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        snprintf(input, sizeof input, "{'source':'%s'}", cases[i].source);
        assert_false(read_request(&arena, input, &request, &problem));
        if (!has(problem, cases[i].said))
            fail_msg("%s: " BL_TEXT_FORMAT, cases[i].source, BL_TEXT_ARG(problem));
        assert_true(has(problem, "Invalid pragma in line 1") && has(problem, "No cell"));
    }
    assert_false(read_request(&arena, "{'source':' \\n '}", &request, &problem));
    assert_true(is(problem, "No cell was created: source is empty."));
    bl_arena_done(&arena);
}

/* ---- Ids ------------------------------------------------------------------------------------- */

static void ids_are_the_same_for_the_same_call_and_others_for_others(void **state BL_UNUSED)
{
    char a[EXEC_ID_SIZE], b[EXEC_ID_SIZE];

    exec_cell_id("s", "turn_1", "call_1", 0, a);
    exec_cell_id("s", "turn_1", "call_1", 0, b);
    assert_string_equal(a, b);
    assert_int_equal(strlen(a), 18);
    assert_int_equal(strncmp(a, "c-", 2), 0);
    assert_int_equal(strspn(a + 2, "abcdefghijklmnopqrstuvwxyz234567"), 16);
    static const char *const others[][3] = {{"t", "turn_1", "call_1"},
                                            {"s", "turn_2", "call_1"},
                                            {"s", "turn_1", "call_2"},
                                            {"sturn_1", "", "call_1"},
                                            {"s", "turn_1call_1", ""}};
    for (size_t i = 0; i < BL_COUNT(others); i++) {
        exec_cell_id(others[i][0], others[i][1], others[i][2], 0, b);
        assert_string_not_equal(a, b);
    }
    exec_cell_id("s", "turn_1", "call_1", 1, b);
    assert_string_not_equal(a, b);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

struct items {
    struct bl_list list;
    struct bl_cell_item items[32];
    size_t count;
};

static void add_text(struct items *items, struct bl_text text)
{
    struct bl_cell_item *item = &items->items[items->count++];

    if (items->count == 1)
        bl_list_init(&items->list);
    *item = (struct bl_cell_item){.text = text};
    bl_list_push_back(&items->list, &item->link);
}

static void add_image(struct items *items, const char *url)
{
    add_text(items, (struct bl_text){0});
    items->items[items->count - 1].image = true;
    items->items[items->count - 1].url = bl_text_from(url);
}

static void answers_are_written_as_they_are_to_be(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct items items = {.count = 0}, unseen = {.count = 0};
    struct bl_cell_error error = {.name = BL_TEXT("TypeError"),
                                  .message = BL_TEXT("x is not a function"),
                                  .stack = BL_TEXT("at f (cell.mjs:3:7)\nat cell.mjs:9:1\n")};
    struct exec_answer answer = {.cell_id = BL_TEXT("c-1"), .wall_ns = 10 * BL_NS_PER_S};

    assert_true(is(exec_answer_text(&arena, &answer, 100),
                   "Cell c-1: running\nWall time: 10.0 s\nOutput:"));
    answer.state = EXEC_STALLED;
    assert_true(has(exec_answer_text(&arena, &answer, 100),
                    "Cell c-1: running (stalled: nothing left can wake it)\n"));
    add_text(&unseen, BL_TEXT("before"));
    add_text(&items, BL_TEXT("one"));
    add_text(&items, BL_TEXT("two\n"));
    add_text(&items, BL_TEXT(""));
    answer.items = &items.list;
    answer.unseen = &unseen.list;
    answer.state = EXEC_FAILED;
    answer.stopped_calls = 2;
    answer.error = &error;
    assert_true(is(exec_answer_text(&arena, &answer, 100),
                   "Cell c-1: failed\nWall time: 10.0 s\nNested calls stopped at the end: 2\n"
                   "Output:\nbefore\none\ntwo\n\nError:\nTypeError: x is not a function\n"
                   "at f (cell.mjs:3:7)\nat cell.mjs:9:1"));
    answer = (struct exec_answer){.cell_id = BL_TEXT("c-1"),
                                  .state = EXEC_TERMINATED,
                                  .reason = BL_TEXT("timeout"),
                                  .wall_ns = 310 * MS};
    struct bl_text text = exec_answer_text(&arena, &answer, 100);
    assert_true(is(text, "Cell c-1: terminated (timeout)\nWall time: 0.3 s\nOutput:"));
    assert_true(exec_answer_is_end(text, BL_TEXT("c-1")));
    assert_false(exec_answer_is_end(text, BL_TEXT("c-")));
    assert_false(exec_answer_is_end(text, BL_TEXT("c-12")));
    /* No prefix of the text counts. */
    for (size_t size = 0; size < strlen("Cell c-1: terminated ("); size++)
        assert_false(exec_answer_is_end((struct bl_text){text.data, size}, BL_TEXT("c-1")));
    struct bl_text again = exec_answer_again(&arena, text);
    assert_true(is(again, "Cell c-1: terminated (timeout) (ended earlier)\nWall time: 0.3 s\n"
                          "Output:"));
    assert_true(bl_text_equal(exec_answer_again(&arena, again), again));
    bl_arena_done(&arena);
}

/* Returns the text between the line that begins with "Output" and the rest. */
static struct bl_text output_of(struct bl_text text)
{
    ptrdiff_t from = bl_text_find(text, BL_TEXT("shortened:\n"));
    assert_true(from >= 0);
    struct bl_text rest = {text.data + from + 11, text.size - (size_t)from - 11};
    ptrdiff_t to = bl_text_find(rest, BL_TEXT("\nError:"));
    return to >= 0 ? (struct bl_text){rest.data, (size_t)to} : rest;
}

static void C49_shortened_text_keeps_to_its_budget_and_the_error_is_still_there(
    void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct bl_random random;
    struct bl_buffer whole;
    struct bl_cell_error error = {.kind = BL_CELL_ERROR_MEMORY_LIMIT,
                                  .message = BL_TEXT("it is over")};

    bl_random_seed(&random, 7);
    bl_buffer_init(&whole, 1 << 20);
    for (unsigned round = 0; round < 500; round++) {
        struct items items = {.count = 0};
        size_t count = 1 + bl_random_below(&random, 20), total = 0, lines = 0;
        uint64_t tokens = 30 + bl_random_below(&random, 200);
        for (size_t i = 0; i < count; i++) {
            struct bl_text text =
                bl_arena_printf(&arena, "%.*sé€😀\n%s", (int)bl_random_below(&random, 60),
                                "the quick brown fox jumps over the lazy dog and over the moon",
                                bl_random_below(&random, 2) != 0 ? "x" : "y\n");
            add_text(&items, text);
            bool ended = bl_text_ends_with(text, BL_TEXT("\n"));
            total += text.size + !ended;
            lines += 2;
        }
        struct exec_answer answer = {
            .cell_id = BL_TEXT("c-1"), .state = EXEC_FAILED, .items = &items.list, .error = &error};
        struct bl_text text = exec_answer_text(&arena, &answer, tokens);
        assert_true(bl_utf8_valid(text));
        assert_true(bl_text_ends_with(text, BL_TEXT("\nError:\nmemory_limit: it is over")));
        if (total <= tokens * 4) {
            assert_true(has(text, "\nOutput:\n"));
            continue;
        }
        char head[96];
        snprintf(head, sizeof head, "\nOutput, %zu bytes in %zu lines, shortened:\n", total, lines);
        assert_true(has(text, head));
        struct bl_text output = output_of(text);
        assert_true(output.size <= tokens * 4);
        assert_true(output.size + 70 >= tokens * 4);
        /* The reported number of bytes was left out. */
        ptrdiff_t mark = bl_text_find(output, BL_TEXT("…"));
        size_t left_out = (size_t)strtoul(output.data + mark + 3, NULL, 10);
        ptrdiff_t tail = bl_text_find(output, BL_TEXT("left out…\n"));
        assert_true(mark >= 0 && tail >= 0);
        size_t kept = (size_t)mark + (output.size + 1 - (size_t)tail - 12);
        assert_true(kept + left_out == total || kept + left_out == total + 1);
    }
    bl_buffer_done(&whole);
    bl_arena_done(&arena);
}

static void images_are_named_eight_of_them_also_where_text_is_left_out(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct items items = {.count = 0};
    struct exec_answer answer = {.cell_id = BL_TEXT("c-1"), .items = &items.list};

    add_text(&items, bl_arena_printf(&arena, "%01000d", 1));
    for (unsigned i = 0; i < 9; i++)
        add_image(&items, "data:image/png;base64,iVBORw==");
    add_text(&items, bl_arena_printf(&arena, "%01000d", 2));
    struct bl_text text = exec_answer_text(&arena, &answer, 50);
    size_t named = 0, left_out = 0;
    struct bl_text rest = text, line;
    while (bl_text_split(&rest, '\n', &line)) {
        named += is(line, "[image image/png, 4 bytes]");
        left_out += is(line, "[image left out]");
    }
    assert_int_equal(named, 8);
    assert_int_equal(left_out, 1);
    assert_true(has(text, "bytes left out…\n"));
    assert_true(bl_text_ends_with(text, BL_TEXT("0002")));
    bl_arena_done(&arena);
}

static void output_with_nul_is_kept_whole(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct items items = {.count = 0};
    struct exec_answer answer = {
        .cell_id = BL_TEXT("c-1"), .state = EXEC_COMPLETED, .items = &items.list};

    add_text(&items, BL_TEXT("a\0b"));
    struct bl_text text = exec_answer_text(&arena, &answer, 100);
    assert_true(bl_text_ends_with(text, BL_TEXT("a\0b")));
    assert_true(bl_text_ends_with(exec_answer_again(&arena, text), BL_TEXT("a\0b")));
    bl_arena_done(&arena);
}

/* ---- Cells ----------------------------------------------------------------------------------- */

#define SLEEP "await new Promise(r => setTimeout(r, 60000));"

CAST(cell_runs_and_its_output_is_the_result, EXEC("text(1 + 1); console.log(`a`, `b`)"),
     SAY("done"))
{
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(!cast->errors[0]);
    CHECK(cast_has(cast, 0, ": completed\nWall time: "));
    CHECK(cast_has(cast, 0, " s\nOutput:\n2\na b"));
    CHECK(bl_text_starts_with(cast->results[0], BL_TEXT("Cell c-")));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_CREATED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_created\"", "\"id\":\"call_1\""), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"completed\""), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_WARNING), 0);
    CHECK(has(rig_export(rig, "rig"), "\"type\":\"cell_ended\""));
    CHECK_EQUAL(rig_check_valid(rig, "rig"), 1);
}

/* The end of a turn ends its cells, but none of the next turn. */
CAST(cells_of_the_next_turn_are_its_own, EXEC("text(`a`)"), SAY("one"), EXEC("text(`b`)"),
     SAY("two"))
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_prompt(rig, "go on"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, "Output:\na"));
    CHECK(cast_has(cast, 1, ": completed\n"));
    CHECK(cast_has(cast, 1, "Output:\nb"));
}

CAST(error_has_its_lines_and_C46_the_pragma_does_not_move_them,
     EXEC("// @exec: {\\'yield_time_ms\\': 9000}\\ntext(`before`);\\n  throw new TypeError(`no`)"),
     EXEC("text(1) +"), EXEC("import fs from `fs`"), EXEC("// @exec: {\\'x\\': 1}\\ntext(1)"),
     SAY("done"))
{
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(cast->errors[0] && cast->errors[1] && cast->errors[2] && cast->errors[3]);
    CHECK(cast_has(cast, 0, ": failed\n"));
    CHECK(cast_has(cast, 0, "Output:\nbefore\nError:\nTypeError: no\n"));
    CHECK(cast_has(cast, 0, "cell.mjs:3:"));
    CHECK(cast_has(cast, 1, "Error:\nSyntaxError: "));
    CHECK(cast_has(cast, 2, ": failed\n"));
    CHECK(cast_has(cast, 3, "Invalid pragma in line 1: unknown member \"x\" in"));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_CREATED), 3);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"failed\""), 3);
}

CAST(C46_nested_calls_are_steps_and_their_results_are_in_the_journal_though_nothing_was_printed,
     EXEC("const r = await Promise.all([tools.bash({command: `echo from-a-cell`}), "
          "tools.ls({})]); if (!r[0].includes(`from-a-cell`)) throw new Error(r[0])"),
     EXEC("text(ALL_TOOLS.map(t => t.name).join()); text(typeof tools.exec)"), SAY("done"))
{
    rig_persona(rig, "helper", NULL);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, ": completed\n"));
    struct bl_text exported = rig_export(rig, "rig");
    CHECK(has(exported, "\"result\":\"from-a-cell"));
    CHECK(has(rig_turn(rig)->json, "\"tool\":\"ls\",\"status\":\"ok\""));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"tool_requested\"", "echo from-a-cell"), 2);
    CHECK(cast_has(cast, 1, "Output:\nbash,read,write,edit,glob,grep,ls,todo,fetch\nundefined"));
}

CAST(nested_call_that_fails_is_refused_or_is_one_too_many_throws,
     EXEC("for (const command of [`echo out; exit 3`, `rm -rf x`, `true`]) "
          "try { text(await tools.bash({command})) } catch (e) "
          "{ text(e.name + ` ` + e.kind + ` ` + e.tool + `: ` + e.message) }"
          " try { await tools.bash({wrong: 1}) } catch (e) { text(e.kind) }"),
     SAY("done"))
{
    CHECK_EQUAL(bl_permissions_add(rig->permissions, false, "bash(rm *)", NULL), 0);
    rig->options.limits.max_steps = 3;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, "ToolError failed bash: out\nexit code 3\n"));
    CHECK(cast_has(cast, 0, "ToolError denied bash: "));
    CHECK(cast_has(cast, 0, "ToolError step_limit bash: "));
    CHECK(bl_text_ends_with(cast->results[0], BL_TEXT("\nfailed")));
    CHECK(has(rig_turn(rig)->json, "\"permission_denials\":[{\"tool_name\":\"bash\""));
}

CAST(
    it_needs_no_permission_and_a_rule_that_denies_it_holds,
    EXEC(
        "text(1); try { await tools.write({path: `a`, content: `b`}) } catch (e) { text(e.kind) }"),
    SAY("done"))
{
    bl_permissions_set_mode(rig->permissions, BL_PERMISSION_READ_ONLY);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK(cast_has(cast, 0, "Output:\n1\ndenied"));
    CHECK(!rig_has_file(rig, "a"));
    CHECK_EQUAL(bl_permissions_add(rig->permissions, false, "exec", NULL), 0);
    cast->at = 0;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK(cast_has(cast, 1, "Not permitted: "));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_CREATED), 1);
}

CAST(values_are_stored_for_cells_of_later_turns_and_resumes, EXEC("store(`k`, {a: 1})"), SAY("one"),
     EXEC("text(load(`k`)); text(String(load(`other`)))"), SAY("two"))
{
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig_run(rig, "on"), 0);
    CHECK(cast_has(cast, 1, "Output:\n{\"a\":1}\nundefined"));
}

CAST(cell_of_a_turn_ends_with_it_and_its_output_stays_readable,
     EXEC("text(`early`); yield_control(); text(`late`); await tools.bash({command: `touch "
          "late`}); " SLEEP),
     AWAIT("late"), SAY("bye"), WAIT(""), SAY("done"))
{
    rig_open(rig);
    uint64_t from_ns = bl_now_ns();
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(bl_now_ns() - from_ns < 20 * BL_NS_PER_S);
    CHECK(cast_has(cast, 0, ": running\n"));
    CHECK(cast_has(cast, 0, "Output:\nearly"));
    CHECK(!cast->errors[0]);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"warning\"", cast->cell), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_yielded\"", "\"generation\":1"), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"terminated\""), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"survivors\":0"), 1);
    CHECK_EQUAL(rig->result.run.receipt.size, 0);
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 2, ": terminated (parent)\n"));
    CHECK(cast_has(cast, 2, "Output:\nlate"));
    CHECK(cast->errors[2]);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
}

CAST(C40_background_cell_outlives_its_turn_and_its_calls_are_served_between_turns,
     EXEC_WITH("text(`a`); await tools.bash({command: `while [ ! -e go ]; do sleep 0.01; done`}); "
               "text(`b`); await tools.bash({command: `echo between; touch between`}); " SLEEP,
               "'yield_time_ms':0,'background':true"),
     SAY("bye"), WAIT(",'yield_time_ms':0"), SAY("done"))
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, ": running\n"));
    cast_touch(cast, "go");
    while (rig_told_of(rig, "\"result\":\"between", "\"turn\":null") == 0)
        if (!CHECK_EQUAL(bl_sleep(5 * MS), 0))
            return;
    CHECK(rig_has_file(rig, "between"));
    /* It is reported first, and in the store before the cell gets the result. */
    while (!has(rig_export(rig, "rig"), "\"result\":\"between"))
        if (!CHECK_EQUAL(bl_sleep(5 * MS), 0))
            return;
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 1, ": running"));
    CHECK(bl_text_ends_with(cast->results[1], BL_TEXT("b")));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 0);
    rig_close(rig);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"reason\":\"shutdown\""), 1);
    struct bl_text rest = bl_text_trim(bl_buffer_text(&rig->events)), line, last = {0};
    while (bl_text_split(&rest, '\n', &line))
        last = line;
    CHECK(has(last, "\"run_ended\""));
    CHECK(has(rig_export(rig, "rig"), "\"type\":\"cell_ended\""));
}

CAST(background_cell_of_a_run_ends_before_the_end_is_reported,
     EXEC_WITH(SLEEP, "'yield_time_ms':0,'background':true"), SAY("bye"))
{
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"origin\":\"session\""), 1);
    struct bl_text rest = bl_text_trim(bl_buffer_text(&rig->events)), line, last = {0};
    while (bl_text_split(&rest, '\n', &line))
        last = line;
    CHECK(has(last, "\"run_ended\""));
    CHECK(has(rig_export(rig, "rig"), "\"type\":\"cell_ended\""));
}

CAST(sub_agent_has_cells_of_its_own_in_its_own_session,
     {.tool = "task", .input = "{'agent':'coder','prompt':'compute'}"}, EXEC("text(2)"),
     SAY("done"))
{
    rig_persona(rig, "coder",
                "replies:\n  - {tools: [{name: exec, input: {source: \"text(40 + 2); store('k', "
                "1)\"}}]}\n  - say: computed\n");
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"agent\":\"agt_"), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 2);
    struct bl_text exported = rig_export(rig, rig_child(rig, "coder")->id);
    CHECK(has(exported, "Output:\\n42"));
    CHECK(has(exported, "\"type\":\"cell_ended\""));
}

/* ---- Notifications --------------------------------------------------------------------------- */

CAST(notify_is_an_injected_message_and_between_turns_it_waits_for_the_next_prompt,
     EXEC_WITH("notify(`at once`); yield_control(); "
               "await tools.bash({command: `while [ ! -e go ]; do sleep 0.01; done`}); "
               "notify(`later`); await tools.bash({command: `touch said`}); " SLEEP,
               "'background':true"),
     SAY("bye"), SAY("next"), SAY("last"))
{
    rig_open(rig);
    rig->run.max_turns = 8;
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig->result.run.turns_completed, 1);
    CHECK(bl_text_starts_with(cast->newest, BL_TEXT("[cell c-")));
    CHECK(bl_text_ends_with(cast->newest, BL_TEXT("] at once")));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"message_injected\"", "\"delivered\":\"turn\""), 1);
    cast_touch(cast, "go");
    cast_await(cast, "said");
    /* It starts no turn. */
    CHECK_EQUAL(rig_told(rig, BL_EVENT_TURN_STARTED), 1);
    CHECK(bl_list_empty(bl_agent_waiting(rig->agent)));
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
    CHECK_EQUAL(rig->result.run.turns_completed, 1);
    CHECK(bl_text_starts_with(cast->newest, BL_TEXT("on\n\n[cell c-")));
    CHECK(bl_text_ends_with(cast->newest, BL_TEXT("] later")));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"message_injected\"", "\"delivered\":\"prompt\""), 1);
    /* Only once. */
    CHECK_EQUAL(rig_prompt(rig, "again"), BL_TURN_COMPLETED);
    CHECK(is(cast->newest, "again"));
    rig_close(rig);
    CHECK_EQUAL(rig_check_valid(rig, "rig"), 3);
}

static void stop_at_the_first_text(struct cast *cast, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA)
        bl_scope_stop(&cast->rig->scope, BL_STOP_USER, "Esc");
}

CAST(notice_of_a_turn_that_left_no_trace_is_delivered_with_the_next, EXEC("notify(`mind this`)"),
     SAY("stopped here"), SAY("whole"))
{
    cast->on_event = stop_at_the_first_text;
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_CANCELLED);
    CHECK(!rig->result.run.undelivered);
    CHECK(bl_list_empty(bl_agent_waiting(rig->agent)));
    cast->on_event = NULL;
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
    CHECK(bl_text_ends_with(cast->newest, BL_TEXT("] mind this")));
}

SUITE(
    exec, cmocka_unit_test(without_a_pragma_the_defaults_hold),
    cmocka_unit_test(pragma_becomes_an_empty_line_and_an_argument_wins_over_it),
    cmocka_unit_test(invalid_pragma_or_missing_code_is_an_error),
    cmocka_unit_test(ids_are_the_same_for_the_same_call_and_others_for_others),
    cmocka_unit_test(answers_are_written_as_they_are_to_be),
    cmocka_unit_test(C49_shortened_text_keeps_to_its_budget_and_the_error_is_still_there),
    cmocka_unit_test(images_are_named_eight_of_them_also_where_text_is_left_out),
    cmocka_unit_test(output_with_nul_is_kept_whole),
    cmocka_unit_test(cell_runs_and_its_output_is_the_result),
    cmocka_unit_test(cells_of_the_next_turn_are_its_own),
    cmocka_unit_test(error_has_its_lines_and_C46_the_pragma_does_not_move_them),
    cmocka_unit_test(
        C46_nested_calls_are_steps_and_their_results_are_in_the_journal_though_nothing_was_printed),
    cmocka_unit_test(nested_call_that_fails_is_refused_or_is_one_too_many_throws),
    cmocka_unit_test(it_needs_no_permission_and_a_rule_that_denies_it_holds),
    cmocka_unit_test(values_are_stored_for_cells_of_later_turns_and_resumes),
    cmocka_unit_test(cell_of_a_turn_ends_with_it_and_its_output_stays_readable),
    cmocka_unit_test(C40_background_cell_outlives_its_turn_and_its_calls_are_served_between_turns),
    cmocka_unit_test(background_cell_of_a_run_ends_before_the_end_is_reported),
    cmocka_unit_test(sub_agent_has_cells_of_its_own_in_its_own_session),
    cmocka_unit_test(notify_is_an_injected_message_and_between_turns_it_waits_for_the_next_prompt),
    cmocka_unit_test(notice_of_a_turn_that_left_no_trace_is_delivered_with_the_next));
