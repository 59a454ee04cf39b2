/* Nested calls and their ends. */
#include <stdio.h>

#include "helpers.h"

#define MINUTE 60000

static int left_behind(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1",
                             "tools.sleep({n: 1}); tools.sleep({n: 2});"
                             "await tools.echo({}); text('a');"),
                0);
    CHECK(strcmp(house_finish(house, "c-1"), "a") == 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
    CHECK(house->seen.completed.error == NULL);
    CHECK_EQUAL(house->seen.completed.stopped_calls, 2);
    CHECK_EQUAL(house->calls_begun, 3);
    CHECK_EQUAL(house->calls_ended, 3);
    return 0;
}

static int stopped_with_calls(struct house *house)
{
    const struct bl_json *receipt;
    unsigned calls = 0;

    CHECK_EQUAL(
        house_create(house, "c-1", "text('a'); tools.sleep({}); await tools.sleep({}); text('b');"),
        0);
    while (house->calls_begun < 2)
        bl_sleep(BL_NS_PER_MS);
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    if (!CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED))
        return 0;
    CHECK_EQUAL(house->calls_ended, 2);
    CHECK(strcmp(house_ended_text(house), "a") == 0);
    receipt = house->ended.terminated.receipt;
    BL_JSON_EACH (unit, bl_json_get(receipt, BL_TEXT("units")))
        calls += bl_text_equal(bl_json_text(bl_json_get(unit, BL_TEXT("kind"))), BL_TEXT("tool"));
    CHECK_EQUAL(calls, 2);
    CHECK(house_receipt_says(house_receipt_unit(receipt, "tool"), "name", "sleep"));
    CHECK(house_receipt_says(house_receipt_unit(receipt, "tool"), "fate", "aborted"));
    return 0;
}

static int many_at_once(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1",
                             "const all = []; for (let i = 0; i < 200; i++)"
                             " all.push(tools.echo({i}));"
                             "let sum = 0; for (const r of await Promise.all(all)) sum += r.i;"
                             "text(sum);"),
                0);
    CHECK(strcmp(house_finish(house, "c-1"), "19900") == 0);
    CHECK_EQUAL(house->calls_begun, 200);
    CHECK_EQUAL(house_create(house, "c-2",
                             "for (let i = 0; i < 100; i++) tools.sleep({i});"
                             "await new Promise(() => {});"),
                0);
    while (house->calls_begun < 200 + BL_CELL_CALLS_MAX)
        bl_sleep(BL_NS_PER_MS);
    bl_sleep(5 * BL_NS_PER_MS);
    CHECK_EQUAL(house->calls_begun, 200 + BL_CELL_CALLS_MAX);
    CHECK_EQUAL(cell_find(house->session, "c-2")->calls_running, BL_CELL_CALLS_MAX);
    return 0;
}

static int too_many(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1",
                             "let n = 0, kind = ''; for (let i = 0; i < 4200 && !kind; i++)"
                             " try { await tools.say('x'); n++ } catch (e) { kind = e.kind }"
                             "text(n + kind);"),
                0);
    CHECK(strcmp(house_finish(house, "c-1"), "4096step_limit") == 0);
    CHECK_EQUAL(house->calls_begun, BL_CELL_CALLS_TOTAL_MAX);
    return 0;
}

static int too_large(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1",
                             "try { await tools.big({}) } catch (e) { text(e.name + e.kind) }"
                             "try { await tools.say('x'.repeat((8 << 20) + 1)) }"
                             "catch (e) { text(e.name + e.kind) }"),
                0);
    CHECK(strcmp(house_finish(house, "c-1"), "ToolErrortoo_largeToolErrortoo_large") == 0);
    CHECK_EQUAL(house->calls_begun, 1);
    return 0;
}

/* Input can be nested deeply; input that is too deep does not end the worker. */
static int deep(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1",
                             "const at = n => { let v = 1; for (; n > 0; n--) v = {v}; return v; };"
                             "text(JSON.stringify(await tools.echo(at(60))).length > 300);"
                             "for (const n of [600, 5000]) {"
                             " try { await tools.echo(at(n)) } catch (e) { }"
                             " try { store('k', at(n)) } catch (e) { } }"
                             "text('alive');"),
                0);
    CHECK(strcmp(house_finish(house, "c-1"), "truealive") == 0);
    if (!CHECK(house->seen.completed.error == NULL))
        fprintf(stderr, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(house->seen.completed.error->message));
    return 0;
}

/* The session's owner serves neither calls nor notifications. */
static int nobody_there(struct house *house)
{
    struct bl_cell_session_options options = {.id = "s-2", .directory = "/"};
    struct bl_cell_session *first = house->session;

    CHECK_EQUAL(bl_cell_session_open(house->host, &options, &house->session, &house->fault), 0);
    CHECK_EQUAL(house_create(house, "c-1",
                             "try { await tools.echo({}) } catch (e) { text(e.name + e.kind) }"
                             "try { notify('x') } catch (e) { text(';' + e.name) }"),
                0);
    const char *text = house_finish(house, "c-1");
    if (!CHECK(strncmp(text, "ToolErrorunavailable;", 21) == 0))
        fprintf(stderr, "%s\n", text);
    bl_cell_session_close(house->session, false, BL_STOP_USER, "test", NULL);
    house->session = first;
    return 0;
}

/* ---- Notifications ---- */

static uint64_t notes;
static uint64_t last_note;

static void keep_note(void *context BL_UNUSED, const char *cell_id BL_UNUSED, uint64_t seq,
                      struct bl_text text BL_UNUSED)
{
    notes++;
    last_note = seq;
}

/* At most 64 notifications are unacknowledged; each acknowledgement makes room for one. */
static int unacknowledged(struct house *house)
{
    struct bl_cell_session_options options = {
        .id = "s-2", .directory = "/", .port = {.notify = keep_note}};
    struct bl_cell_session *first = house->session;

    notes = last_note = 0;
    CHECK_EQUAL(bl_cell_session_open(house->host, &options, &house->session, &house->fault), 0);
    CHECK_EQUAL(house_create(house, "c-1",
                             "let n = 0; try { for (;;) { notify('x'); n++ } }"
                             "catch (e) { text(e.name + n) }"
                             "for (;;) { try { notify('y'); break } catch (e) {"
                             " await new Promise(r => setTimeout(r, 1)) } }"
                             "try { notify('x'.repeat(16385)) } catch (e) { text(e.name) }"),
                0);
    house_await_output(house, "c-1", 1);
    CHECK_EQUAL(notes, 64);
    bl_cell_notify_ack(house->session, "c-1", 7);
    bl_cell_notify_ack(house->session, "c-1", 1000);
    bl_cell_notify_ack(house->session, "c-9", 1);
    CHECK(strcmp(house_finish(house, "c-1"), "RangeError64RangeError") == 0);
    CHECK_EQUAL(notes, 65);
    CHECK_EQUAL(last_note, 65);
    bl_cell_session_close(house->session, false, BL_STOP_USER, "test", NULL);
    house->session = first;
    return 0;
}

HOUSE_TEST(C39_calls_without_an_await_are_stopped_and_counted, left_behind)
HOUSE_TEST(calls_of_a_terminated_cell_are_units_of_its_receipt, stopped_with_calls)
HOUSE_TEST(calls_above_64_at_once_wait_in_the_worker, many_at_once)
HOUSE_TEST(a_call_after_4096_is_over_the_step_limit, too_many)
HOUSE_TEST(inputs_and_results_above_8_mib_are_too_large, too_large)
HOUSE_TEST(values_nested_too_deeply_do_not_end_the_worker, deep)
HOUSE_TEST(without_an_owner_calls_are_unavailable_and_notify_throws, nobody_there)
HOUSE_TEST(at_most_64_notifications_are_unacknowledged, unacknowledged)

SUITE(nested, cmocka_unit_test(C39_calls_without_an_await_are_stopped_and_counted),
      cmocka_unit_test(calls_of_a_terminated_cell_are_units_of_its_receipt),
      cmocka_unit_test(calls_above_64_at_once_wait_in_the_worker),
      cmocka_unit_test(a_call_after_4096_is_over_the_step_limit),
      cmocka_unit_test(inputs_and_results_above_8_mib_are_too_large),
      cmocka_unit_test(values_nested_too_deeply_do_not_end_the_worker),
      cmocka_unit_test(without_an_owner_calls_are_unavailable_and_notify_throws),
      cmocka_unit_test(at_most_64_notifications_are_unacknowledged));
