/* One stop ends a tree of agents, each in another state, with one receipt. */
#include "helpers.h"

#include <stdio.h>

static bool has(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

#define TASK(agent)   "{name: task, input: {agent: " agent ", prompt: \"be " agent "\"}}"
#define BASH(command) "replies:\n  - {tools: [{name: bash, input: {command: \"" command "\"}}]}\n"

/* An agent of the tree, its script, and the file that shows that it has reached its state (NULL: an
 * event shows it, or nothing). */
static const struct state {
    const char *persona;
    const char *script;
    const char *ready;
} states[] = {
    {"silent", "replies:\n  - wedge: before_first_token\n", NULL},
    {"halfway", "replies:\n  - {say: hm, pieces: 1, wedge: after_first_token}\n", NULL},
    {"backoff", "replies:\n  - error: {status: 529, retry_after: 30s}\n  - say: no\n", NULL},
    {"plain", BASH("touch plain; exec sleep 600"), "plain"},
    {"deaf", BASH("trap '' TERM; touch deaf; while :; do sleep 1; done"), "deaf"},
    {"session", BASH("setsid sh -c 'touch session; exec sleep 600' & wait"), "session"},
    {"double", BASH("(sh -c 'touch double; exec sleep 600' &) ; sleep 600"), "double"},
    {"nohup", BASH("nohup sh -c 'touch nohup; exec sleep 600' >/dev/null 2>&1 & sleep 600"),
     "nohup"},
    {"frozen", BASH("touch frozen; kill -STOP $$; sleep 600"), "frozen"},
    {"fifo", BASH("mkfifo pipe; touch fifo; cat pipe"), "fifo"},
    {"many", BASH("for i in $(seq 40); do sleep 600 & done; touch many; wait"), "many"},
    {"asking", "replies:\n  - {tools: [{name: write, input: {path: never, content: x}}]}\n", NULL},
    {"hooked", "replies:\n  - {tools: [{name: glob, input: {pattern: \"*\"}}]}\n", "hook"},
    /* With agents below. */
    {"lead",
     "replies:\n  - {tools: [" TASK("fifo") ", " TASK("asking") ", " TASK("hooked") ", " TASK(
         "chief") "]}\n",
     NULL},
    {"chief", "replies:\n  - {tools: [" TASK("many") ", " TASK("deaf") "]}\n", NULL},
};

/* The root has ten, lead has four, and one of these has two: sixteen agents, three levels deep. */
#define MODELS TASK("silent") ", " TASK("halfway") ", " TASK("backoff")
#define TOOLS  TASK("plain") ", " TASK("session") ", " TASK("double") ", " TASK("nohup")
#define OTHERS TASK("frozen") ", " TASK("plain") ", " TASK("lead")
#define ROOT                                                                                       \
    "replies:\n  - {say: all of you, tools: [" MODELS ", " TOOLS ", " OTHERS                       \
    "]}\n  - say: after all\n"
#define AGENTS 16u

static bool all_at_work(struct rig *rig)
{
    for (size_t i = 0; i < BL_COUNT(states); i++)
        if (states[i].ready != NULL && !rig_has_file(rig, states[i].ready))
            return false;
    return rig_told(rig, BL_EVENT_SUBAGENT_STARTED) == AGENTS &&
           rig_told(rig, BL_EVENT_PERMISSION_ASKED) > 0 && rig_told(rig, BL_EVENT_RETRY) > 0 &&
           rig_told_of(rig, "\"type\":\"text_delta\"", "\"text\":\"hm\"") > 0;
}

static int stop_main(void *argument)
{
    struct rig *rig = argument;

    while (!all_at_work(rig))
        if (bl_sleep(10 * MS) != 0)
            return 0;
    bl_scope_stop(&rig->scope, BL_STOP_USER, "Esc");
    return 0;
}

static int never_answer(void *context BL_UNUSED, const struct bl_question *question BL_UNUSED,
                        struct bl_answer *ret_answer BL_UNUSED)
{
    return bl_sleep(BL_NEVER / 2);
}

/* The contents of a receipt, nested units included. */
struct tally {
    size_t agents, models, tools, commands;
    size_t deepest;
    struct bl_buffer names; /* of agents, each between spaces */
};

static void tally_units(const struct bl_json *units, size_t depth, struct tally *tally)
{
    for (size_t i = 0; i < bl_json_size(units); i++) {
        const struct bl_json *unit = bl_json_at(units, i);
        struct bl_text kind = bl_json_text(bl_json_get(unit, BL_TEXT("kind")));
        CHECK(bl_json_text(bl_json_get(unit, BL_TEXT("fate"))).size > 0);
        tally->models += bl_text_equal(kind, BL_TEXT("model"));
        tally->tools += bl_text_equal(kind, BL_TEXT("tool"));
        tally->commands += bl_text_equal(kind, BL_TEXT("command"));
        if (!bl_text_equal(kind, BL_TEXT("agent")))
            continue;
        tally->agents++;
        struct bl_text name = bl_json_text(bl_json_get(unit, BL_TEXT("name")));
        bl_buffer_printf(&tally->names, " " BL_TEXT_FORMAT " ", BL_TEXT_ARG(name));
        CHECK(bl_text_equal(bl_json_text(bl_json_get(unit, BL_TEXT("fate"))), BL_TEXT("aborted")));
        CHECK(bl_json_is(bl_json_get(unit, BL_TEXT("units")), BL_JSON_ARRAY));
        /* An agent that waits for an answer has no running unit; every other one lists its own. */
        CHECK(bl_json_size(bl_json_get(unit, BL_TEXT("units"))) > 0 ||
              bl_text_equal(name, BL_TEXT("asking")));
        if (depth + 1 > tally->deepest)
            tally->deepest = depth + 1;
        tally_units(bl_json_get(unit, BL_TEXT("units")), depth + 1, tally);
    }
}

static void check_receipt(struct rig *rig)
{
    const struct bl_json *receipt = rig_json(rig, rig->result.run.receipt);
    struct tally tally = {0};
    int64_t survivors = -1;

    bl_buffer_init(&tally.names, 4096);
    tally_units(bl_json_get(receipt, BL_TEXT("units")), 0, &tally);
    CHECK_EQUAL(tally.agents, AGENTS);
    CHECK_EQUAL(tally.deepest, 3);
    CHECK_EQUAL(tally.models, 3);
    CHECK_EQUAL(tally.tools, 9);
    CHECK_EQUAL(tally.commands, 1);
    for (size_t i = 0; i < BL_COUNT(states); i++) {
        char name[40];
        snprintf(name, sizeof name, " %s ", states[i].persona);
        CHECK(has(bl_buffer_text(&tally.names), name));
    }
    CHECK(bl_json_int64(bl_json_get(receipt, BL_TEXT("survivors")), &survivors));
    CHECK_EQUAL(survivors, 0);
    CHECK(bl_text_equal(bl_json_text(bl_json_get(receipt, BL_TEXT("reason"))), BL_TEXT("user")));
    CHECK(bl_text_equal(bl_json_text(bl_json_get(receipt, BL_TEXT("scope"))),
                        bl_text_from(rig->run_id)));
    CHECK(!bl_json_boolean(bl_json_get(receipt, BL_TEXT("cancel_observed")), true));
    CHECK(has(rig->result.run.receipt_line, "16 agents"));
    CHECK(has(rig->result.run.receipt_line, "Nothing left running."));
    bl_buffer_done(&tally.names);
}

/* All sessions are valid and released, and the next turn works. */
static void check_sessions(struct rig *rig)
{
    struct bl_list list;
    size_t count = 0;

    CHECK_EQUAL(bl_store_list(rig->store, &rig->arena, NULL, 0, true, &list, &rig->error), 0);
    BL_LIST_EACH (link, &list) {
        const struct bl_store_summary *summary = BL_CONTAINER(link, struct bl_store_summary, link);
        CHECK(summary->held_by == NULL);
        CHECK_EQUAL(summary->turns + summary->attempts, 1);
        rig_check_valid(rig, summary->id);
        count++;
    }
    CHECK_EQUAL(count, AGENTS + 1);
}

RIG(one_stop_ends_a_tree_of_agents_in_every_state_with_one_receipt_that_names_each, ROOT)
{
    struct bl_hooks *hooks = bl_hooks_new();
    struct bl_asker asker = {.ask = never_answer};
    struct bl_nursery nursery;

    for (size_t i = 0; i < BL_COUNT(states); i++)
        rig_persona(rig, states[i].persona, states[i].script);
    bl_permissions_set_mode(rig->permissions, BL_PERMISSION_ASK);
    CHECK_EQUAL(bl_permissions_add(rig->permissions, true, "bash", &rig->error), 0);
    bl_hooks_add(hooks, BL_HOOK_BEFORE_TOOL, "glob", "touch hook; sleep 600", 0);
    rig->options.hooks = hooks;
    rig->options.asker = &asker;
    rig->options.limits.keep = true;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stop", stop_main, rig, NULL);
    CHECK_EQUAL(rig_run(rig, "go"), 0);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_CANCELLED);
    CHECK_EQUAL(rig_processes(rig), 0);
    CHECK(bl_list_empty(&rig->activities.list));
    CHECK_EQUAL(rig_told(rig, BL_EVENT_RECEIPT), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_CANCEL_REQUESTED), 1);
    CHECK_EQUAL(rig_told(rig, BL_EVENT_SUBAGENT_ENDED), AGENTS);
    CHECK_EQUAL(rig_told_of(rig, "\"type\":\"permission_answered\"", "cancelled"), 1);
    CHECK(!rig_has_file(rig, "never"));
    check_receipt(rig);
    check_sessions(rig);
    rig->options.hooks = NULL;
    CHECK_EQUAL(rig_run(rig, "next"), 0);
    CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED);
    bl_hooks_free(hooks);
}

SUITE(tree, cmocka_unit_test(
                one_stop_ends_a_tree_of_agents_in_every_state_with_one_receipt_that_names_each));
