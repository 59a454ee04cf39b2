/* A stopped `exec`: its cell ends, and only its known outcome is reported. */
#include <signal.h>

#include "cell_rig.h"
#include "figure.h"

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

#define SLEEP "await new Promise(r => setTimeout(r, 60000));"

/* The `exec` call in progress, and the time of its stop. */
static struct bl_scope *call_scope;
static uint64_t stopped_ns;
static uint64_t ended_ns;

static void follow(const struct bl_event *event)
{
    if (event->type == BL_EVENT_TOOL_STARTED && bl_text_equal(event->name, BL_TEXT("exec")))
        call_scope = event->call->scope;
    if (event->type == BL_EVENT_CELL_ENDED)
        ended_ns = bl_now_ns();
}

static void only_follow(struct cast *cast BL_UNUSED, const struct bl_event *event)
{
    follow(event);
}

static void stop_now(struct cast *cast)
{
    cast->on_event = only_follow;
    stopped_ns = bl_now_ns();
    bl_scope_stop(call_scope, BL_STOP_USER, "belay cancel");
}

static void stop_the_call(struct cast *cast, const struct bl_event *event)
{
    follow(event);
    if (event->type == BL_EVENT_CELL_CREATED)
        stop_now(cast);
}

/* The cell certainly runs at this time. */
static void stop_after_a_nested_call(struct cast *cast, const struct bl_event *event)
{
    follow(event);
    if (event->type == BL_EVENT_TOOL_ENDED && event->nested)
        stop_now(cast);
}

static void with_fault(const char *fault, void (*test)(void **state), void **state)
{
    setenv("BELAY_FAULT", fault, 1);
    test(state);
}

static int without_fault(void **state BL_UNUSED)
{
    return unsetenv("BELAY_FAULT");
}

/* ---- Answers of terminate -------------------------------------------------------------------- */

CAST(completed_meanwhile, EXEC("text(`first`); await tools.ls({}); text(`last`)"), WAIT(""),
     SAY("done"))
{
    cast->on_event = stop_after_a_nested_call;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, ": completed\n"));
    CHECK(cast_has(cast, 0, "Output:\nfirst\nlast"));
    CHECK(has(rig_turn(rig)->json, "\"status\":\"stopped\""));
    /* No end before terminate's answer, and only one in all. */
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_SETTLED), 0);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"completed\""), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"output\":\"first\\nlast\\n\""), 1);
    CHECK(ended_ns - stopped_ns >= 300 * MS);
    CHECK(has(rig_export(rig, "rig"), "\"output\":\"first\\nlast\\n\""));
    CHECK(cast_has(cast, 1, ": completed (ended earlier)\n"));
}

static void C35_cell_that_completes_while_it_is_terminated_is_completed_with_its_output(
    void **state)
{
    with_fault("cell.terminate.asked=delay:300", completed_meanwhile, state);
}

/* No attempt follows the first answer: the fifth would fail. */
CAST(stopped_alone, EXEC("text(`partial`); for (;;) await null"), EXEC("text(`next`)"), SAY("done"))
{
    cast->on_event = stop_the_call;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, ": terminated (user)\n"));
    CHECK(cast_has(cast, 1, "Output:\nnext"));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"origin\":\"belay cancel\""), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"terminated\""), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"survivors\":0"), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 2);
}

static void call_that_is_stopped_alone_ends_its_cell_and_its_turn_continues(void **state)
{
    with_fault("cell.terminate.asked=fail@5", stopped_alone, state);
}

/* ---- Unknown outcomes ------------------------------------------------------------------------ */

CAST(unknown_cell_is_settled_by_a_later_answer, EXEC(SLEEP), SAY("one"), SAY("two"), WAIT(""),
     SAY("three"))
{
    cast->on_event = stop_the_call;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(figure_at_most("C36 unknown when every terminate fails",
                         (double)(ended_ns - stopped_ns) / MS, 2100));
    CHECK(cast_has(cast, 0, ": unknown\n"));
    CHECK(cast->errors[0]);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"unknown\""), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_SETTLED), 0);
    CHECK(!has(rig_export(rig, "rig"), "\"status\":\"failed\""));
    CHECK(has(rig_export(rig, "rig"), "\"name\":\"cells\",\"checkpoint\":[{\"cell\":\"c-"));
    CHECK(has(rig_export(rig, "rig"), "\",\"generation\":0,\"told\":false,\"unsettled\":true}]}"));
    /* The host answers again: one more event settles it. */
    unsetenv("BELAY_FAULT");
    cast->on_event = NULL;
    CHECK_EQUAL(rig_run(rig, "on"), 0);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_SETTLED), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_settled\"", "\"status\":\"terminated\""), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_settled\"", cast->cell), 1);
    CHECK(has(rig_export(rig, "rig"), "\"type\":\"cell_settled\""));
    CHECK_EQUAL(rig_run(rig, "again"), 0);
    CHECK(cast_has(cast, 1, ": terminated ("));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_SETTLED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
}

static void C36_every_terminate_failing_is_unknown_and_is_settled_when_the_host_is_back(
    void **state)
{
    with_fault("cell.terminate.asked=fail", unknown_cell_is_settled_by_a_later_answer, state);
}

CAST(unknown_cell_stays_unknown_without_an_answer, EXEC(SLEEP), SAY("one"))
{
    cast->on_event = stop_the_call;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK(cast_has(cast, 0, ": unknown\n"));
    /* An attempt that hangs is abandoned, and so are all of them. */
    CHECK(figure_between("C36 unknown when terminate never answers",
                         (double)(ended_ns - stopped_ns) / MS, 1900, 2100));
}

static void C36_terminate_that_never_answers_is_unknown_in_two_seconds(void **state)
{
    if (!figure_taking())
        suite_skip_unless_soak();
    with_fault("cell.terminate.stopped=delay:2500", unknown_cell_stays_unknown_without_an_answer,
               state);
}

static int stop_main(void *argument BL_UNUSED)
{
    bl_sleep(200 * MS);
    bl_scope_stop(call_scope, BL_STOP_USER, "belay cancel");
    return 0;
}

static struct bl_nursery *stoppers;

/* In the second call: the first has opened everything. */
static void stop_soon(struct cast *cast, const struct bl_event *event)
{
    follow(event);
    if (event->type == BL_EVENT_TOOL_STARTED && cast->calls == 2)
        bl_nursery_spawn(stoppers, NULL, "stop", stop_main, NULL, NULL);
}

CAST(never_acknowledged, EXEC("await tools.bash({command: `touch ran`})"),
     EXEC("await tools.bash({command: `touch ran`})"), SAY("done"))
{
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    stoppers = &nursery;
    cast->on_event = stop_soon;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_CREATED), 0);
    CHECK(cast_has(cast, 0, "No cell was created: "));
    CHECK(cast_has(cast, 1, ": missing\n"));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"never_started\""), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
    CHECK(!rig_has_file(rig, "ran"));
}

static void C36_create_that_was_never_acknowledged_is_never_started(void **state)
{
    with_fault("cell.create.admit=delay:700@2,cell.store.write=fail", never_acknowledged, state);
}

CAST(no_host, EXEC("text(`x`)"), SAY("done"))
{
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, "No cell can be created here: "));
    CHECK(cast->errors[0]);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_CREATED), 0);
}

/* The host does not start with such a variable. */
static void without_a_host_no_cell_is_created(void **state)
{
    with_fault("nonsense", no_host, state);
}

/* ---- Calls without await --------------------------------------------------------------------- */

static uint64_t settled_ns;
static size_t left_at_the_end;

/* The result of the last call settles the cell. */
static void follow_the_last_call(struct cast *cast, const struct bl_event *event)
{
    follow(event);
    if (event->type == BL_EVENT_TOOL_ENDED && event->nested && settled_ns == 0)
        settled_ns = bl_now_ns();
    if (event->type == BL_EVENT_CELL_ENDED)
        left_at_the_end = rig_processes(cast->rig);
}

CAST(C39_calls_without_await_leave_no_process,
     EXEC("tools.bash({command: `touch one; sleep 60`}); "
          "tools.bash({command: `setsid sleep 60 & touch two; sleep 60`}); "
          "await tools.bash({command: `while [ ! -e one -o ! -e two ]; do sleep 0.01; done; "
          "touch both`}); text(`done`)"),
     SAY("done"))
{
    settled_ns = 0;
    left_at_the_end = SIZE_MAX;
    cast->on_event = follow_the_last_call;
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_COMPLETED);
    CHECK(rig_has_file(rig, "both"));
    CHECK(cast_has(cast, 0, ": completed\n"));
    CHECK(cast_has(cast, 0, "Nested calls stopped at the end: 2\n"));
    CHECK(cast_has(cast, 0, "Output:\ndone"));
    CHECK(figure_at_most("C39 end of a cell with two calls left",
                         (double)(ended_ns - settled_ns) / MS, 600));
    CHECK_EQUAL(left_at_the_end, 0);
}

/* ---- Unanswered questions -------------------------------------------------------------------- */

static int never_answer(void *context BL_UNUSED, const struct bl_question *question BL_UNUSED,
                        struct bl_answer *ret_answer BL_UNUSED)
{
    return bl_sleep(600 * BL_NS_PER_S);
}

static uint64_t exec_began_ns, exec_ended_ns;

static void time_exec(struct cast *cast BL_UNUSED, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TOOL_STARTED && !event->nested)
        exec_began_ns = bl_now_ns();
    if (event->type == BL_EVENT_TOOL_ENDED && !event->nested)
        exec_ended_ns = bl_now_ns();
}

CAST(C40_open_question_delays_neither_a_yield_nor_a_stop,
     EXEC_WITH("text(`asking`); await tools.bash({command: `true`})", "'yield_time_ms':500"),
     SAY("not waiting"))
{
    static const struct bl_asker asker = {.ask = never_answer};

    bl_permissions_set_mode(rig->permissions, BL_PERMISSION_ASK);
    rig->options.asker = &asker;
    cast->on_event = time_exec;
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(figure_between("C40 yield of a cell whose call waits for permission",
                         (double)(exec_ended_ns - exec_began_ns) / MS, 500, 550));
    CHECK(cast_has(cast, 0, ": running\n"));
    CHECK(cast_has(cast, 0, "Output:\nasking"));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"permission_answered\"", "\"answer\":\"cancelled\""),
                1);
}

/* ---- The stop of a turn ---------------------------------------------------------------------- */

static int stop_the_turn(void *argument)
{
    struct rig *rig = argument;

    while (!rig_has_file(rig, "at-work"))
        if (bl_sleep(5 * MS) != 0)
            return 0;
    bl_scope_stop(&rig->scope, BL_STOP_SIGNAL, "SIGINT");
    return 0;
}

CAST(C37_stop_of_a_turn_ends_its_cell_and_nested_calls_and_names_the_background_cell,
     EXEC_WITH("text(`early`); yield_control(); text(`later`); " SLEEP,
               "'yield_time_ms':5000,'background':true"),
     EXEC("text(`partial`); await tools.bash({command: `setsid sleep 60 & touch at-work; sleep "
          "60`})"),
     SAY("never"), {.tool = "wait", .input = "{'cell_id':'$FIRST','yield_time_ms':0}"},
     {.tool = "wait", .input = "{'cell_id':'$CELL'}"}, SAY("done"))
{
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stop", stop_the_turn, rig, NULL);
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_CANCELLED);
    bl_nursery_done(&nursery);
    struct bl_text receipt = rig->result.run.receipt;
    CHECK(has(receipt, "\"survivors\":0"));
    CHECK(has(receipt, "\"kind\":\"cell\"") && has(receipt, "\"kind\":\"tool\""));
    CHECK(has(receipt, cast->cell));
    const struct bl_json *background = bl_json_get(rig_json(rig, receipt), BL_TEXT("background"));
    CHECK_EQUAL(bl_json_size(background), 1);
    CHECK(bl_text_equal(bl_json_text(bl_json_pointer(background, BL_TEXT("/0/id"))),
                        bl_text_from(cast->first)));
    CHECK(cast_has(cast, 1, ": terminated (parent)\n"));
    CHECK(cast_has(cast, 1, "Output:\npartial"));
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", cast->cell), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"origin\":\"SIGINT\""), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", cast->first), 0);
    CHECK_EQUAL(rig_processes(rig), 0);
    cast->at = 3;
    /* The third still runs, and partial output of both is available. */
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 2, ": running\n"));
    CHECK(cast_has(cast, 3, ": terminated (parent)\n"));
    CHECK(cast_has(cast, 3, "Output:\npartial"));
}

CAST(turn_that_is_stopped_in_the_first_observation_of_a_background_cell_leaves_it_running,
     EXEC_WITH("text(`there`); await tools.bash({command: `touch at-work`}); " SLEEP,
               "'background':true"),
     SAY("never"), WAIT(",'yield_time_ms':100"), SAY("done"))
{
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stop", stop_the_turn, rig, NULL);
    rig_open(rig);
    CHECK_EQUAL(rig_prompt(rig, "go"), BL_TURN_CANCELLED);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 0);
    CHECK(has(rig->result.run.receipt, cast->cell));
    cast->at = 2;
    CHECK_EQUAL(rig_prompt(rig, "on"), BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 1, ": running\n"));
    CHECK(cast_has(cast, 1, "there"));
}

static int cancel_cell(void *argument)
{
    struct cast *cast = argument;
    struct bl_buffer receipt;

    while (!rig_has_file(cast->rig, "at-work"))
        if (bl_sleep(5 * MS) != 0)
            return 0;
    bl_buffer_init(&receipt, 65536);
    CHECK_EQUAL(bl_activities_cancel(&cast->rig->activities, cast->cell, "belay cancel", &receipt),
                0);
    CHECK(has(bl_buffer_text(&receipt), cast->cell));
    CHECK(has(bl_buffer_text(&receipt), "\"survivors\":0"));
    bl_buffer_done(&receipt);
    return 0;
}

CAST(cell_is_cancelled_by_its_id_and_its_turn_continues,
     EXEC("text(`had`); await tools.bash({command: `touch at-work; sleep 60`})"), SAY("done"))
{
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "cancel", cancel_cell, cast, NULL);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    CHECK(cast_has(cast, 0, ": terminated (user)\n"));
    CHECK(cast_has(cast, 0, "Output:\nhad"));
    CHECK(cast->errors[0]);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"terminated\""), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CELL_ENDED), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"origin\":\"belay cancel\""), 1);
}

CAST(deadline_of_a_cell_ends_it, EXEC_WITH("text(`x`); for (;;);", "'timeout_ms':200"), SAY("done"))
{
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    CHECK(cast_has(cast, 0, ": terminated (timeout)\n"));
    CHECK(cast->errors[0]);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"terminated\""), 1);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"origin\":\"deadline\""), 1);
}

/* ---- Random stops ---------------------------------------------------------------------------- */

struct random_stop {
    struct rig *rig;
    uint64_t after_ns;
};

static int stop_at_random(void *argument)
{
    const struct random_stop *random = argument;

    if (bl_sleep(random->after_ns) == 0)
        bl_scope_stop(&random->rig->scope, BL_STOP_USER, "Esc");
    return 0;
}

/* Checks that each created cell has one end. */
static void check_ends(struct rig *rig)
{
    struct bl_text rest = bl_buffer_text(&rig->events), line;
    size_t created = 0;

    while (bl_text_split(&rest, '\n', &line)) {
        char ended[128];
        if (!has(line, "\"type\":\"cell_created\""))
            continue;
        struct bl_text id = bl_json_text(bl_json_get(rig_json(rig, line), BL_TEXT("cell")));
        snprintf(ended, sizeof ended, "\"cell\":\"" BL_TEXT_FORMAT "\",\"generation\"",
                 BL_TEXT_ARG(id));
        CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", ended), 1);
        created++;
    }
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"cell_ended\"", "\"status\":\"unknown\""), 0);
    print_message("%zu cells\n", created);
}

CAST(every_cell_has_one_end_whenever_its_turn_is_stopped,
     EXEC_WITH("for (let i = 0; ; i++) { text(i); await tools.ls({}); "
               "if (i % 3 === 0) yield_control() }",
               "'yield_time_ms':20,'background':true"),
     EXEC_WITH("for (let i = 0; i < 20; i++) { text(i); await tools.ls({}) }",
               "'yield_time_ms':10"),
     {.tool = "wait", .input = "{'cell_id':'$CELL','yield_time_ms':10}", .more = true},
     {.tool = "wait", .input = "{'cell_id':'$FIRST','yield_time_ms':5}"}, EXEC("text(`quick`)"),
     WAIT(",'terminate':true"), SAY("done"))
{
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 6 : 12, 200), stopped = 0;
    struct bl_random random;

    bl_random_seed(&random, 20261);
    for (unsigned long i = 0; i < rounds; i++) {
        struct random_stop stop = {rig, bl_random_below(&random, 200) * MS};
        struct bl_nursery nursery;
        rig_open(rig);
        cast->at = 0;
        cast->cell[0] = cast->first[0] = '\0';
        bl_nursery_init(&nursery, bl_scope_current());
        bl_nursery_spawn(&nursery, NULL, "stop", stop_at_random, &stop, NULL);
        stopped += rig_prompt(rig, "go") == BL_TURN_CANCELLED;
        bl_nursery_done(&nursery);
        rig_close(rig);
        CHECK_EQUAL(rig_processes(rig), 0);
    }
    print_message("%lu rounds: %lu stopped\n", rounds, stopped);
    check_ends(rig);
    rig_check_valid(rig, "rig");
}

SUITE(exec_stop,
      cmocka_unit_test_teardown(
          C35_cell_that_completes_while_it_is_terminated_is_completed_with_its_output,
          without_fault),
      cmocka_unit_test_teardown(call_that_is_stopped_alone_ends_its_cell_and_its_turn_continues,
                                without_fault),
      cmocka_unit_test_teardown(
          C36_every_terminate_failing_is_unknown_and_is_settled_when_the_host_is_back,
          without_fault),
      cmocka_unit_test_teardown(C36_terminate_that_never_answers_is_unknown_in_two_seconds,
                                without_fault),
      cmocka_unit_test_teardown(C36_create_that_was_never_acknowledged_is_never_started,
                                without_fault),
      cmocka_unit_test_teardown(without_a_host_no_cell_is_created, without_fault),
      cmocka_unit_test(C39_calls_without_await_leave_no_process),
      cmocka_unit_test(C40_open_question_delays_neither_a_yield_nor_a_stop),
      cmocka_unit_test(
          C37_stop_of_a_turn_ends_its_cell_and_nested_calls_and_names_the_background_cell),
      cmocka_unit_test(
          turn_that_is_stopped_in_the_first_observation_of_a_background_cell_leaves_it_running),
      cmocka_unit_test(cell_is_cancelled_by_its_id_and_its_turn_continues),
      cmocka_unit_test(deadline_of_a_cell_ends_it),
      cmocka_unit_test(every_cell_has_one_end_whenever_its_turn_is_stopped));
