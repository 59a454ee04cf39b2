/* The tool `wait`: each piece of output once, and an end as often as requested. */
#include "cell_rig.h"

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

static bool ends(struct bl_text text, const char *part)
{
    return bl_text_ends_with(text, bl_text_from(part));
}

#define SLEEP "await new Promise(r => setTimeout(r, 60000));"

/* Checks that the second text is the first with the mark after its first line. */
static bool is_again(struct bl_text first, struct bl_text again)
{
    static const struct bl_text mark = BL_TEXT(" (ended earlier)");
    ptrdiff_t line = bl_text_find(first, BL_TEXT("\n"));

    if (line < 0 || again.size != first.size + mark.size)
        return false;
    struct bl_text rest = {again.data + line, again.size - (size_t)line};
    return memcmp(first.data, again.data, (size_t)line) == 0 && bl_text_starts_with(rest, mark) &&
           memcmp(first.data + line, rest.data + mark.size, first.size - (size_t)line) == 0;
}

CAST(C49_end_is_repeated_in_the_turn_after_the_commit_and_after_a_resume,
     EXEC("text(`x`.repeat(60000)); throw new Error(`as ever`)"), WAIT(""), SAY("one"), WAIT(""),
     SAY("two"), WAIT(",'max_output_tokens':9"), SAY("three"), WAIT(""), SAY("four"))
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, ": failed\n"));
    CHECK(cast_has(cast, 0, "Output, 60001 bytes in 1 lines, shortened:\n"));
    CHECK(cast_has(cast, 0, "\nError:\nError: as ever\n"));
    CHECK(is_again(cast->results[0], cast->results[1]));
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
    CHECK(is_again(cast->results[0], cast->results[2]));
    rig_close(rig);
    CHECK_EQUAL(rig_run(rig, "resumed"), 0);
    CHECK(is_again(cast->results[0], cast->results[3]));
    CHECK_EQUAL(rig_run(rig, "once more"), 0);
    CHECK(is_again(cast->results[0], cast->results[4]));
    for (size_t i = 0; i < 5; i++)
        CHECK(cast->errors[i]);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
}

CAST(C49_end_is_repeated_when_its_turn_has_left_the_context, EXEC("text(`long ago`)"), SAY("one"),
     SAY("two"), SAY("three"), WAIT(""), SAY("four"))
{
    rig->options.limits.compact_after_turns = 1;
    rig_open(rig);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK_EQUAL(bl_agent_session(rig->agent)->turns_in_context, 1);
    CHECK(is_again(cast->results[0], cast->results[1]));
    CHECK(!cast->errors[1]);
}

/* Adds one line to the session, before its end. */
static void put_line(struct rig *rig, const char *line)
{
    struct bl_text old = rig_export(rig, "rig"), next;
    struct bl_error error = {0};
    struct bl_buffer lines;
    const char *made;
    size_t count = 1;

    bl_buffer_init(&lines, 1 << 20);
    while (bl_text_split(&old, '\n', &next)) {
        if (next.size == 0 || bl_text_starts_with(next, BL_TEXT("{\"type\":\"end\"")))
            continue;
        bl_buffer_printf(&lines, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(next));
        count++;
    }
    bl_buffer_printf(&lines, "%s\n{\"type\":\"end\",\"lines\":%zu}\n", line, count);
    CHECK_EQUAL(bl_store_delete(rig->store, "rig", &error), 0);
    if (!CHECK_EQUAL(
            bl_store_import(rig->store, bl_buffer_text(&lines), "rig", &rig->arena, &made, &error),
            0))
        fprintf(stderr, "%s\n", error.message);
    bl_buffer_done(&lines);
}

#define EVENT(type, seq, cell, status, receipt)                                                    \
    "{\"type\":\"event\",\"run\":\"run_x\",\"event\":{\"type\":\"" type "\",\"seq\":" seq          \
    ",\"time\":\"2026-11-15T18:50:07.123Z\",\"run\":\"run_x\",\"session\":\"rig\","                \
    "\"agent\":null,\"turn\":null,\"cell\":\"" cell "\",\"generation\":1,\"status\":\"" status     \
    "\",\"receipt\":" receipt "}}"

/* Neither the host nor a message has it, but the events of the session do. */
CAST(end_is_read_from_its_event_if_nothing_else_is_left, SAY("one"),
     {.tool = "wait", .input = "{'cell_id':'c-old'}"},
     {.tool = "wait", .input = "{'cell_id':'c-done'}"},
     {.tool = "wait", .input = "{'cell_id':'c-lost'}"}, SAY("two"))
{
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    put_line(rig, EVENT("cell_ended", "1", "c-old", "unknown", "null"));
    put_line(rig, EVENT("cell_settled", "2", "c-old", "terminated",
                        "{\"reason\":\"budget\",\"later\":1}"));
    put_line(rig, EVENT("cell_ended", "3", "c-done", "completed", "null"));
    put_line(rig, EVENT("cell_ended", "4", "c-lost", "unknown", "null"));
    CHECK_EQUAL(rig_run(rig, "on"), 0);
    CHECK(cast_has(cast, 0, "Cell c-old: terminated (budget)"));
    CHECK(cast_has(cast, 0, "Its output is no longer available."));
    CHECK(cast->errors[0]);
    CHECK(cast_has(cast, 1, "Cell c-done: completed"));
    CHECK(!cast->errors[1]);
    CHECK(cast_has(cast, 2, "Cell c-lost: missing\n"));
}
#undef EVENT

CAST(C49_unknown_id_is_missing, {.tool = "wait", .input = "{'cell_id':'c-nothing'}"},
     {.tool = "wait", .input = "{'cell_id':'../UPPER \\u0000'}"},
     {.tool = "wait", .input = "{'cell_id':'c-nothing','terminate':true}", .more = true},
     {.tool = "wait", .input = "{'cell_id':'c-nothing','yield_time_ms':0}"}, SAY("done"))
{
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(cast->count, 4);
    for (size_t i = 0; i < cast->count; i++) {
        CHECK(cast_has(cast, i, ": missing\n"));
        CHECK(cast->errors[i]);
    }
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 0);
}

/* The text of another tool is not a cell's result. */
CAST(text_that_looks_like_a_result_is_ignored,
     {.tool = "bash", .input = "{'command':'echo \\\"Cell c-fake: completed\\\"'}"},
     {.tool = "wait", .input = "{'cell_id':'c-fake'}"}, SAY("one"),
     {.tool = "wait", .input = "{'cell_id':'c-fake'}"}, SAY("two"))
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, "Cell c-fake: completed"));
    CHECK(cast_has(cast, 1, "Cell c-fake: missing\n"));
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 2, "Cell c-fake: missing\n"));
}

#define STEPS                                                                                      \
    "for (let i = 0; i < 6; i++) { text(`item-` + i); yield_control(); "                           \
    "await new Promise(r => setTimeout(r, 80)) }"

CAST(every_item_is_delivered_once_and_in_order, EXEC(STEPS),
     {.tool = "wait", .input = "{'cell_id':'$CELL'}", .more = true},
     {.tool = "wait", .input = "{'cell_id':'$CELL'}"}, WAIT(",'yield_time_ms':0"), WAIT(""),
     WAIT(""), WAIT(""), WAIT(""), SAY("done"))
{
    struct bl_buffer all;

    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    bl_buffer_init(&all, 1 << 20);
    for (size_t i = 0; i < cast->count; i++)
        if (!has(cast->results[i], "(ended earlier)"))
            bl_buffer_append(&all, cast->results[i]);
    for (char i = '0'; i < '6'; i++) {
        char name[] = {'i', 't', 'e', 'm', '-', i, '\0'};
        struct bl_text rest = bl_buffer_text(&all);
        ptrdiff_t first = bl_text_find(rest, bl_text_from(name));
        CHECK(first >= 0);
        rest = (struct bl_text){rest.data + first + 1, rest.size - (size_t)first - 1};
        CHECK(!has(rest, name));
    }
    CHECK(has(cast->results[cast->count - 1], "completed"));
    bl_buffer_done(&all);
}

CAST(wait_ends_a_cell_when_asked_to_and_that_is_no_error,
     EXEC("text(`a`); yield_control(); text(`b`); await tools.bash({command: `touch b`}); " SLEEP),
     AWAIT("b"), WAIT(",'terminate':true"), WAIT(""), WAIT(",'terminate':true"), SAY("done"))
{
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 2, ": terminated (user)\n"));
    CHECK(ends(cast->results[2], "Output:\nb"));
    CHECK(!cast->errors[2]);
    CHECK(is_again(cast->results[2], cast->results[3]));
    CHECK(is_again(cast->results[2], cast->results[4]));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"origin\":\"wait\""), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"id\":\"call_3\""), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_WARNING), 0);
}

CAST(stalled_cell_is_reported_once, EXEC("text(1); await new Promise(() => {})"),
     WAIT(",'yield_time_ms':50"), SAY("done"))
{
    uint64_t from_ns = bl_now_ns();

    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK(bl_now_ns() - from_ns < 9 * BL_NS_PER_S);
    CHECK(cast_has(cast, 0, ": running (stalled: nothing left can wake it)\n"));
    CHECK(cast_has(cast, 1, ": running\n"));
}

/* ---- Over turns that leave no trace, and resumes --------------------------------------------- */

static void stop_at_text(struct cast *cast, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA)
        bl_scope_stop(&cast->rig->scope, BL_STOP_USER, "Esc");
}

#define BACKGROUND "'background':true"
#define TWO                                                                                        \
    "text(`one`); yield_control(); text(`two`); await tools.bash({command: `touch two`}); " SLEEP

CAST(output_of_a_turn_without_trace_is_delivered_again, EXEC_WITH(TWO, BACKGROUND), SAY("one"),
     WAIT(",'yield_time_ms':0"), SAY("stopped"), WAIT(",'yield_time_ms':0"), SAY("two"),
     WAIT(",'terminate':true"), SAY("three"))
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(ends(cast->results[0], "Output:\none"));
    cast_await(cast, "two");
    cast->on_event = stop_at_text;
    CHECK_EQUAL(rig_prompt(rig, "rejected"), BL_TURN_CANCELLED);
    CHECK(ends(cast->results[1], "Output:\ntwo"));
    /* The stop leaves it running, and lists it. */
    CHECK(has(rig->result.run.receipt, cast->cell));
    CHECK(!has(rig->result.run.receipt, "\"kind\":\"cell\""));
    cast->on_event = NULL;
    CHECK_EQUAL(rig_prompt(rig, "again"), BL_TURN_COMPLETED);
    CHECK(ends(cast->results[2], "Output:\ntwo"));
    CHECK_EQUAL(rig_prompt(rig, "end"), BL_TURN_COMPLETED);
    CHECK(ends(cast->results[3], "Output:"));
}

CAST(generation_that_was_not_seen_is_read_before_the_end, EXEC_WITH(TWO, BACKGROUND), SAY("one"),
     WAIT(",'yield_time_ms':0"), SAY("stopped"), WAIT(",'terminate':true"), SAY("three"))
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    cast_await(cast, "two");
    cast->on_event = stop_at_text;
    CHECK_EQUAL(rig_prompt(rig, "rejected"), BL_TURN_CANCELLED);
    cast->on_event = NULL;
    CHECK_EQUAL(rig_prompt(rig, "end"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 2, ": terminated (user)\n"));
    CHECK(ends(cast->results[2], "Output:\ntwo"));
}

CAST(after_a_resume_no_output_is_repeated_or_lost, EXEC_WITH(TWO, BACKGROUND), SAY("one"), WAIT(""),
     WAIT(""), SAY("two"), WAIT(""), SAY("three"))
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(ends(cast->results[0], "Output:\none"));
    cast_await(cast, "two");
    rig_close(rig);
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "resumed"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 1, ": terminated (shutdown)\n"));
    CHECK(ends(cast->results[1], "Output:\ntwo"));
    CHECK(is_again(cast->results[1], cast->results[2]));
    rig_close(rig);
    CHECK_EQUAL(rig_run(rig, "again"), 0);
    CHECK(is_again(cast->results[1], cast->results[3]));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
}

/* ---- Stopped --------------------------------------------------------------------------------- */

static void stop_the_first_wait(struct cast *cast, const struct bl_event *event)
{
    if (event->type != BL_EVENT_TOOL_STARTED || !bl_text_equal(event->name, BL_TEXT("wait")))
        return;
    bl_scope_stop(event->call->scope, BL_STOP_USER, "belay cancel");
    cast->on_event = NULL;
}

CAST(wait_that_is_stopped_alone_leaves_its_cell_running,
     EXEC_WITH("text(`one`); yield_control(); await new Promise(r => setTimeout(r, 100)); "
               "text(`two`)",
               "'yield_time_ms':5000"),
     WAIT(""), WAIT(""), SAY("done"))
{
    cast->on_event = stop_the_first_wait;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 1, ": running\n"));
    CHECK(cast->errors[1]);
    CHECK(cast_has(cast, 2, ": completed\n"));
    CHECK(ends(cast->results[2], "Output:\ntwo"));
}

/* Checks the stored session. */
static bool session_has(struct rig *rig, const char *part)
{
    struct bl_json_writer writer;
    struct bl_buffer out;
    bool found = false;

    BL_LIST_EACH (link, &bl_agent_session(rig->agent)->turns) {
        bl_buffer_init(&out, 1 << 24);
        bl_json_writer_init(&writer, &out);
        bl_messages_write(&writer, &BL_CONTAINER(link, struct bl_turn_record, link)->messages);
        found = found || has(bl_buffer_text(&out), part);
        bl_buffer_done(&out);
    }
    return found;
}

#define SHOW "image(`data:image/png;base64,iVBORw0KGgo=`); text(`shown`)"
#define SHOWN                                                                                      \
    "{\"type\":\"image\",\"media_type\":\"image/"                                                  \
    "png\",\"data\":\"iVBORw0KGgo=\",\"id\":\"call_1\"}"

CAST(image_of_a_cell_is_sent_to_a_model_that_accepts_images, EXEC(SHOW), SAY("one"), SAY("two"))
{
    rig->model.takes_images = true;
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, "Output:\n[image image/png, 8 bytes]\nshown"));
    CHECK(session_has(rig, "\"is_error\":false}," SHOWN "]}"));
    rig_close(rig);
    rig_open(rig);
    CHECK(session_has(rig, SHOWN));
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
}

CAST(image_of_a_cell_is_a_note_for_a_model_without_images, EXEC(SHOW), SAY("one"))
{
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(session_has(rig, "Output:\\n[image image/png, 8 bytes]\\nshown\",\"is_error\":false}]}"));
}

SUITE(wait, cmocka_unit_test(C49_end_is_repeated_in_the_turn_after_the_commit_and_after_a_resume),
      cmocka_unit_test(C49_end_is_repeated_when_its_turn_has_left_the_context),
      cmocka_unit_test(end_is_read_from_its_event_if_nothing_else_is_left),
      cmocka_unit_test(C49_unknown_id_is_missing),
      cmocka_unit_test(text_that_looks_like_a_result_is_ignored),
      cmocka_unit_test(every_item_is_delivered_once_and_in_order),
      cmocka_unit_test(wait_ends_a_cell_when_asked_to_and_that_is_no_error),
      cmocka_unit_test(stalled_cell_is_reported_once),
      cmocka_unit_test(output_of_a_turn_without_trace_is_delivered_again),
      cmocka_unit_test(generation_that_was_not_seen_is_read_before_the_end),
      cmocka_unit_test(after_a_resume_no_output_is_repeated_or_lost),
      cmocka_unit_test(wait_that_is_stopped_alone_leaves_its_cell_running),
      cmocka_unit_test(image_of_a_cell_is_sent_to_a_model_that_accepts_images),
      cmocka_unit_test(image_of_a_cell_is_a_note_for_a_model_without_images));
