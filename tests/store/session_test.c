#include <stdio.h>
#include <unistd.h>

#include "helpers.h"

FORM_TEST(a_turn_is_there_after_it_was_committed)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.held->grip.epoch, 1);
    CHECK(!bl_store_session_recovery(holding.held)->owner_died);
    add_turn(&holding, "turn_1");
    add_turn(&holding, "turn_2");
    release(&holding);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.held->grip.epoch, 2);
    CHECK_EQUAL(holding.session.turns_total, 2);
    CHECK_EQUAL(holding.session.turns_in_context, 2);
    CHECK_EQUAL(holding.session.usage.input_tokens, 20);
    CHECK_EQUAL(holding.session.usage.output_tokens, 10);
    const struct bl_store_recovery *recovery = bl_store_session_recovery(holding.held);
    CHECK(!recovery->owner_died && strcmp(recovery->last_turn, "turn_2") == 0);
    struct bl_turn_record *last =
        BL_CONTAINER(holding.session.turns.previous, struct bl_turn_record, link);
    struct bl_message *answer = BL_CONTAINER(last->messages.previous, struct bl_message, link);
    struct bl_block *block = BL_CONTAINER(answer->blocks.next, struct bl_block, link);
    CHECK(bl_text_equal(block->text, BL_TEXT("turn_2")));
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(a_session_that_was_unknown_is_known_when_it_is_opened_again)
{
    struct bl_store *store = store_at(place);
    struct bl_store_session *held;
    struct bl_session session;
    bl_session_init(&session, "");
    session.unknown = true;
    CHECK_EQUAL(bl_store_hold(store,
                              &(struct bl_store_hold_options){.id = "alpha", .directory = "/here"},
                              &session, &held, NULL),
                0);
    CHECK(!session.unknown);
    CHECK(strcmp(session.id, "alpha") == 0);
    bl_store_release(held);
    bl_session_done(&session);
    bl_store_close(store);
}

FORM_TEST(a_session_is_made_when_none_is_named)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, NULL), 0);
    CHECK_EQUAL(bl_session_id_check(holding.session.id, NULL), 0);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(hostile_ids_are_usage_errors)
{
    static const char *const ids[] = {
        "",
        "../../etc/passwd",
        "A",
        "a b",
        "a'; DROP TABLE session; --",
        "\xff\xfe",
        "a\nb",
        "a/b",
        "ä",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_session_view view;
    const char *id;
    for (size_t i = 0; i < BL_COUNT(ids); i++) {
        struct holding holding;
        CHECK_EQUAL(hold(&holding, store, ids[i]), BL_EINVAL);
        CHECK_EQUAL(holding.error.kind, BL_KIND_USAGE);
        release(&holding);
        CHECK_EQUAL(bl_store_show(store, &arena, ids[i], &view, NULL), BL_EINVAL);
        CHECK_EQUAL(bl_store_delete(store, ids[i], NULL), BL_EINVAL);
        CHECK_EQUAL(bl_store_fork(store, ids[i], NULL, &arena, &id, NULL), BL_EINVAL);
    }
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 0);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(a_session_that_must_exist_is_suggested)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_store_hold_options options = {.id = "alphb", .must_exist = true};
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    release(&holding);
    CHECK_EQUAL(hold_with(&holding, store, &options), BL_ENOENT);
    CHECK_EQUAL(holding.error.kind, BL_KIND_SESSION);
    CHECK(strcmp(holding.error.hint, "did you mean alpha?") == 0);
    options.id = "nothing-like-it-at-all";
    CHECK_EQUAL(hold_with(&holding, store, &options), BL_ENOENT);
    CHECK(strstr(holding.error.hint, "session list") != NULL);
    bl_store_close(store);
}

FORM_TEST(newest_session_of_a_directory_is_continued)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_store_hold_options options = {.newest = true, .directory = "/elsewhere"};
    CHECK_EQUAL(hold_with(&holding, store, &options), BL_ENOENT);
    CHECK_EQUAL(holding.error.kind, BL_KIND_SESSION);
    CHECK(strcmp(holding.error.message, "no session to continue in /elsewhere") == 0);
    CHECK(strstr(holding.error.hint, "belay session list") != NULL);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 0);
    CHECK_EQUAL(held_sessions(place), 0);
    CHECK_EQUAL(hold(&holding, store, "older"), 0);
    release(&holding);
    CHECK_EQUAL(hold(&holding, store, "newer"), 0);
    release(&holding);
    options.directory = "/home/somebody";
    CHECK_EQUAL(hold_with(&holding, store, &options), 0);
    CHECK(strcmp(holding.session.id, "newer") == 0);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(second_hold_reports_the_holder)
{
    struct bl_store *store = store_at(place), *other = store_at(place);
    struct holding first, second;
    char pid[32];
    snprintf(pid, sizeof pid, "pid %d on ", (int)getpid());
    CHECK_EQUAL(hold(&first, store, "alpha"), 0);
    CHECK_EQUAL(hold(&second, store, "alpha"), BL_EBUSY);
    CHECK_EQUAL(second.error.kind, BL_KIND_SESSION);
    CHECK(strstr(second.error.message, pid) != NULL);
    CHECK_EQUAL(hold(&second, other, "alpha"), BL_EBUSY);
    release(&first);
    CHECK_EQUAL(hold(&second, other, "alpha"), 0);
    release(&second);
    bl_store_close(other);
    bl_store_close(store);
}

FORM_TEST(a_rejected_turn_leaves_the_session_as_it_was)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    char before[512], after[512];
    static const char session_row[] =
        "SELECT id || ' ' || updated || ' ' || turns_total || ' ' || context_from || ' ' || input"
        " || ' ' || output || ' ' || spent_input || ' ' || cost || ' ' || title FROM session";
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    ask_text(place, session_row, before, sizeof before);
    CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    ask_text(place, session_row, after, sizeof after);
    CHECK(strcmp(before, after) == 0 && before[0] != '\0');
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM attempt WHERE state = 'rejected' AND"
                                   " receipt = 'rcp_made' AND spent_input = 12"),
                1);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM receipt"), 1);
    CHECK_EQUAL(commit_turn(&holding, "turn_2"), BL_EEXIST);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 1);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(a_turn_commits_once)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(commit_turn(&holding, "turn_1"), BL_EEXIST);
    CHECK_EQUAL(commit_turn(&holding, "turn_2"), BL_EEXIST);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 1);
    CHECK_EQUAL(ask_integer(place, "SELECT turns_total FROM session"), 1);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(compacted_turns_leave_the_context_and_stay_in_the_store)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_settlement settlement;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    add_turn(&holding, "turn_2");
    CHECK_EQUAL(begin_turn(&holding, "turn_3"), 0);
    fill_settlement(&settlement, "turn_3");
    settlement.turns_dropped = 2;
    CHECK_EQUAL(holding.table->commit(holding.table->context, &settlement, NULL), 0);
    release(&holding);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.session.turns_total, 3);
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    CHECK_EQUAL(holding.session.usage.input_tokens, 30);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 3);
    release(&holding);
    bl_store_close(store);
}

/* Begins and commits a turn that compacts; returns the code of the commit. */
static int add_compacting(struct holding *holding, const char *turn_id, uint64_t turns_dropped,
                          const char *summary)
{
    struct bl_settlement settlement;
    CHECK_EQUAL(begin_turn(holding, turn_id), 0);
    fill_settlement(&settlement, turn_id);
    settlement.turns_dropped = turns_dropped;
    if (summary != NULL)
        settlement.summary = make_summary(summary);
    return holding->table->commit(holding->table->context, &settlement, NULL);
}

static void open_again(struct holding *holding, struct bl_store *store)
{
    release(holding);
    CHECK_EQUAL(hold(holding, store, "alpha"), 0);
}

FORM_TEST(summary_replaces_compacted_turns_until_the_next_one)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    open_again(&holding, store);
    CHECK(has_summary(&holding, NULL));
    CHECK_EQUAL(add_compacting(&holding, "turn_2", 1, "the first"), 0);
    open_again(&holding, store);
    CHECK(has_summary(&holding, "the first"));
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    CHECK_EQUAL(add_compacting(&holding, "turn_3", 1, NULL), 0);
    CHECK_EQUAL(add_compacting(&holding, "turn_4", 0, NULL), 0);
    open_again(&holding, store);
    CHECK(has_summary(&holding, "the first"));
    CHECK_EQUAL(holding.session.turns_in_context, 2);
    CHECK_EQUAL(add_compacting(&holding, "turn_5", 2, "the first four"), 0);
    open_again(&holding, store);
    CHECK(has_summary(&holding, "the first four"));
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    CHECK_EQUAL(holding.session.turns_total, 5);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(refused_write_keeps_the_summary)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_settlement settlement;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(add_compacting(&holding, "turn_2", 1, "before"), 0);
    /* A commit of a turn that has ended, and a rejection that contains a summary nevertheless. */
    fill_settlement(&settlement, "turn_2");
    settlement.turns_dropped = 1;
    settlement.summary = make_summary("after");
    CHECK_EQUAL(holding.table->commit(holding.table->context, &settlement, NULL), BL_EEXIST);
    settlement.turn_id = BL_TEXT("turn_3");
    CHECK_EQUAL(holding.table->reject(holding.table->context, &settlement, NULL), 0);
    open_again(&holding, store);
    CHECK(has_summary(&holding, "before"));
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(a_compaction_by_hand_is_a_commit_of_its_own)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_session_view view;
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    add_turn(&holding, "turn_2");
    CHECK_EQUAL(compact_session(&holding, 1, "the first"), 0);
    open_again(&holding, store);
    CHECK(has_summary(&holding, "the first"));
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    CHECK_EQUAL(holding.session.turns_total, 2);
    CHECK_EQUAL(holding.session.usage.input_tokens, 23);
    CHECK_EQUAL(holding.session.usage.output_tokens, 11);
    CHECK_EQUAL(bl_store_show(store, &arena, "alpha", &view, NULL), 0);
    CHECK_EQUAL(view.turn_count, 2);
    CHECK_EQUAL(view.attempt_count, 0);
    CHECK_EQUAL(view.summary.spent.usage.input_tokens, 28);
    CHECK(view.summary.spent.cost_usd == 1.0 && view.summary.spent.cost_usd_max == 1.5);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM journal WHERE lines LIKE '%compacted%'"),
                1);
    /* More than there are; then the next turn is visible again. */
    CHECK_EQUAL(compact_session(&holding, UINT64_MAX, "all"), 0);
    open_again(&holding, store);
    CHECK_EQUAL(holding.session.turns_in_context, 0);
    add_turn(&holding, "turn_3");
    /* Only what it cost. */
    CHECK_EQUAL(compact_session(&holding, 0, NULL), 0);
    open_again(&holding, store);
    CHECK(has_summary(&holding, "all"));
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    CHECK_EQUAL(holding.session.usage.input_tokens, 39);
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(damaged_summary_is_reported)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(compact_session(&holding, 1, "all"), 0);
    release(&holding);
    change_file(place, "UPDATE summary SET messages = '[{]'");
    CHECK_EQUAL(hold(&holding, store, "alpha"), BL_EPARSE);
    CHECK(strstr(holding.error.message, "the summary of session alpha") != NULL);
    bl_session_done(&holding.session);
    bl_store_close(store);
}

static const struct bl_store_hold_options of_sub_agent = {
    .id = "child",
    .directory = "/home/somebody",
    .run_id = "run_1",
    .prompt = {"Look around.", 12},
    .agent_of = "alpha",
    .agent_turn = "turn_1",
    .persona = "explore",
};

FORM_TEST(a_childs_session_is_linked_to_the_parents_attempt)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_session_view view;
    struct holding parent, child;
    CHECK_EQUAL(hold(&parent, store, "alpha"), 0);
    CHECK_EQUAL(begin_turn(&parent, "turn_1"), 0);
    CHECK_EQUAL(hold_with(&child, store, &of_sub_agent), 0);
    add_turn(&child, "turn_2");
    release(&child);
    /* Its commits stay, whatever happens to the parent's turn. */
    CHECK_EQUAL(reject_turn(&parent, "turn_1"), 0);
    CHECK_EQUAL(bl_store_show(store, &arena, "child", &view, NULL), 0);
    CHECK(strcmp(view.summary.agent_of, "alpha") == 0);
    CHECK(strcmp(view.summary.agent_turn, "turn_1") == 0);
    CHECK(strcmp(view.summary.persona, "explore") == 0);
    CHECK_EQUAL(view.turn_count, 1);
    /* Opening it later does not change whose it is. */
    CHECK_EQUAL(hold(&child, store, "child"), 0);
    CHECK_EQUAL(child.session.turns_total, 1);
    release(&child);
    CHECK_EQUAL(bl_store_show(store, &arena, "child", &view, NULL), 0);
    CHECK(view.summary.agent_of != NULL);
    CHECK_EQUAL(bl_store_show(store, &arena, "alpha", &view, NULL), 0);
    CHECK(view.summary.agent_of == NULL && view.summary.agent_turn == NULL);
    CHECK(view.summary.persona == NULL);
    release(&parent);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(a_sub_agents_session_is_never_the_newest_of_a_directory)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_store_hold_options options = of_sub_agent;
    CHECK_EQUAL(hold_with(&holding, store, &of_sub_agent), 0);
    release(&holding);
    CHECK_EQUAL(
        hold_with(&holding, store,
                  &(struct bl_store_hold_options){.newest = true, .directory = "/home/somebody"}),
        BL_ENOENT);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    release(&holding);
    options.id = "younger-child";
    CHECK_EQUAL(hold_with(&holding, store, &options), 0);
    release(&holding);
    CHECK_EQUAL(
        hold_with(&holding, store,
                  &(struct bl_store_hold_options){.newest = true, .directory = "/home/somebody"}),
        0);
    CHECK(strcmp(holding.session.id, "alpha") == 0);
    release(&holding);
    options.agent_of = "../alpha";
    CHECK_EQUAL(hold_with(&holding, store, &options), BL_EINVAL);
    CHECK_EQUAL(holding.error.kind, BL_KIND_USAGE);
    bl_store_close(store);
}

FORM_TEST(a_request_that_is_made_again_finds_its_turns)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_store_hold_options options = {
        .id = "alpha", .run_id = "run_a", .request_id = "req:1.A_b-2", .prompt = BL_TEXT("Do it.")};
    CHECK_EQUAL(hold_with(&holding, store, &options), 0);
    CHECK_EQUAL(bl_store_session_recorded(holding.held, 0).size, 0);
    add_turn(&holding, "turn_1");
    release(&holding);
    options.id = NULL;
    options.run_id = "run_b";
    CHECK_EQUAL(hold_with(&holding, store, &options), 0);
    CHECK(strcmp(holding.session.id, "alpha") == 0);
    CHECK(bl_text_find(bl_store_session_recorded(holding.held, 0), BL_TEXT("turn_1")) >= 0);
    CHECK_EQUAL(bl_store_session_recorded(holding.held, 1).size, 0);
    add_turn(&holding, "turn_2");
    release(&holding);
    options.run_id = "run_c";
    CHECK_EQUAL(hold_with(&holding, store, &options), 0);
    CHECK(bl_text_find(bl_store_session_recorded(holding.held, 1), BL_TEXT("turn_2")) >= 0);
    release(&holding);
    options.prompt = BL_TEXT("Do something else.");
    CHECK_EQUAL(hold_with(&holding, store, &options), BL_EINVAL);
    CHECK_EQUAL(holding.error.kind, BL_KIND_USAGE);
    options.prompt = BL_TEXT("\xff");
    CHECK_EQUAL(hold_with(&holding, store, &options), BL_EINVAL);
    options.prompt = BL_TEXT("Do it.");
    options.id = "beta";
    CHECK_EQUAL(hold_with(&holding, store, &options), BL_EINVAL);
    options.request_id = "no spaces";
    CHECK_EQUAL(hold_with(&holding, store, &options), BL_EINVAL);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 1);
    bl_store_close(store);
}

FORM_TEST(a_title_is_the_first_line_cut_at_a_character)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_buffer prompt;
    char title[512];
    bl_buffer_init(&prompt, 4096);
    bl_buffer_append(&prompt, BL_TEXT("\n  "));
    for (int i = 0; i < 100; i++)
        bl_buffer_append(&prompt, BL_TEXT("ä"));
    bl_buffer_append(&prompt, BL_TEXT("\nmore"));
    CHECK_EQUAL(hold_with(&holding, store,
                          &(struct bl_store_hold_options){.prompt = bl_buffer_text(&prompt)}),
                0);
    ask_text(place, "SELECT title FROM session", title, sizeof title);
    CHECK_EQUAL(strlen(title), 160);
    CHECK(bl_utf8_valid(bl_text_from(title)));
    bl_buffer_done(&prompt);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(checkpoints_are_replaced_by_name)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_arena arena = {0};
    struct bl_text json;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(bl_store_checkpoint_get(store, &arena, "alpha", "plan", &json, NULL), BL_ENOENT);
    CHECK_EQUAL(bl_store_checkpoint_put(holding.held, "plan", BL_TEXT("{\"a\":1}"), NULL), 0);
    CHECK_EQUAL(bl_store_checkpoint_put(holding.held, "plan", BL_TEXT("{\"a\":2}"), NULL), 0);
    CHECK_EQUAL(bl_store_checkpoint_get(store, &arena, "alpha", "plan", &json, NULL), 0);
    CHECK(bl_text_equal(json, BL_TEXT("{\"a\":2}")));
    CHECK_EQUAL(bl_store_checkpoint_put(holding.held, "plan", BL_TEXT("{a"), NULL), BL_EPARSE);
    CHECK_EQUAL(bl_store_checkpoint_get(store, &arena, "beta", "plan", &json, NULL), BL_ENOENT);
    bl_arena_done(&arena);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(notes_belong_to_no_turn)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(holding.table->note(holding.table->context, BL_TEXT("{\"seq\":9}\n"), "rcp_run",
                                        i == 0 ? BL_TEXT("{\"id\":\"rcp_run\"}")
                                               : BL_TEXT("{\"id\":\"rcp_run\",\"more\":1}"),
                                        NULL),
                    0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM journal"), 2);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM receipt WHERE body LIKE '%more%'"), 1);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(a_stopped_caller_leaves_nothing_behind)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_scope scope;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    struct bl_scope *before = bl_scope_enter(&scope);
    CHECK_EQUAL(hold(&holding, store, "alpha"), BL_ECANCELED);
    bl_scope_enter(before);
    bl_scope_done(&scope);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 0);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(many_sessions_are_held_at_once)
{
    enum {
        COUNT = 512
    };
    struct bl_store *store = store_at(place);
    struct holding *holdings = bl_zalloc(COUNT * sizeof *holdings);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQUAL(hold(&holdings[i], store, NULL), 0);
    for (int i = 0; i < COUNT; i += 64)
        add_turn(&holdings[i], "turn_1");
    for (int i = 0; i < COUNT; i++)
        release(&holdings[i]);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), COUNT);
    CHECK_EQUAL(held_sessions(place), 0);
    bl_free(holdings);
    bl_store_close(store);
}

SUITE(session, FORM_UNITS(a_turn_is_there_after_it_was_committed),
      FORM_UNITS(a_session_that_was_unknown_is_known_when_it_is_opened_again),
      FORM_UNITS(a_session_is_made_when_none_is_named), FORM_UNITS(hostile_ids_are_usage_errors),
      FORM_UNITS(a_session_that_must_exist_is_suggested),
      FORM_UNITS(newest_session_of_a_directory_is_continued),
      FORM_UNITS(second_hold_reports_the_holder),
      FORM_UNITS(a_rejected_turn_leaves_the_session_as_it_was), FORM_UNITS(a_turn_commits_once),
      FORM_UNITS(compacted_turns_leave_the_context_and_stay_in_the_store),
      FORM_UNITS(summary_replaces_compacted_turns_until_the_next_one),
      FORM_UNITS(refused_write_keeps_the_summary),
      FORM_UNITS(a_compaction_by_hand_is_a_commit_of_its_own),
      FORM_UNITS(damaged_summary_is_reported),
      FORM_UNITS(a_childs_session_is_linked_to_the_parents_attempt),
      FORM_UNITS(a_sub_agents_session_is_never_the_newest_of_a_directory),
      FORM_UNITS(a_request_that_is_made_again_finds_its_turns),
      FORM_UNITS(a_title_is_the_first_line_cut_at_a_character),
      FORM_UNITS(checkpoints_are_replaced_by_name), FORM_UNITS(notes_belong_to_no_turn),
      FORM_UNITS(a_stopped_caller_leaves_nothing_behind),
      FORM_UNITS(many_sessions_are_held_at_once));
