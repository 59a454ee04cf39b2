#include "helpers.h"

FORM_TEST(a_fork_has_the_same_turns_and_goes_its_own_way)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    struct bl_store_session_view view;
    const char *id = NULL;
    struct holding first, second;
    CHECK_EQUAL(hold(&first, store, "alpha"), 0);
    add_turn(&first, "turn_1");
    CHECK_EQUAL(reject_turn(&first, "turn_x"), 0);
    /* Reading needs no lease. */
    CHECK_EQUAL(bl_store_fork(store, "alpha", "beta", &arena, &id, NULL), 0);
    CHECK(strcmp(id, "beta") == 0);
    add_turn(&first, "turn_2");
    CHECK_EQUAL(hold(&second, store, "beta"), 0);
    CHECK_EQUAL(second.session.turns_total, 1);
    add_turn(&second, "turn_3");
    CHECK_EQUAL(bl_store_show(store, &arena, "beta", &view, NULL), 0);
    CHECK(strcmp(view.summary.parent, "alpha") == 0);
    CHECK_EQUAL(view.turn_count, 2);
    CHECK_EQUAL(view.attempt_count, 0);
    CHECK_EQUAL(view.summary.spent.usage.input_tokens, 24);
    CHECK_EQUAL(bl_store_fork(store, "alpha", NULL, &arena, &id, NULL), 0);
    CHECK_EQUAL(bl_session_id_check(id, NULL), 0);
    CHECK_EQUAL(bl_store_fork(store, "alpha", "beta", &arena, &id, &error), BL_EEXIST);
    CHECK_EQUAL(bl_store_fork(store, "gamma", NULL, &arena, &id, NULL), BL_ENOENT);
    release(&first);
    release(&second);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(a_session_is_deleted_with_all_that_belongs_to_it)
{
    struct bl_store *store = store_at(place);
    struct bl_error error = {0};
    struct holding holding, other;
    CHECK_EQUAL(hold(&other, store, "other"), 0);
    add_turn(&other, "turn_1");
    CHECK_EQUAL(hold_with(&holding, store,
                          &(struct bl_store_hold_options){
                              .id = "alpha", .run_id = "run_a", .request_id = "req"}),
                0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(bl_store_checkpoint_put(holding.held, "plan", BL_TEXT("1"), NULL), 0);
    CHECK_EQUAL(bl_store_delete(store, "alpha", &error), BL_EBUSY);
    CHECK_EQUAL(error.kind, BL_KIND_SESSION);
    release(&holding);
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), 0);
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), BL_ENOENT);
    CHECK_EQUAL(ask_integer(place,
                            "SELECT (SELECT count(*) FROM attempt) +"
                            " (SELECT count(*) FROM receipt) + (SELECT count(*) FROM request)"
                            " + (SELECT count(*) FROM checkpoint)"),
                0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 1);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM journal"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn WHERE events <> ''"), 1);
    release(&other);
    bl_store_close(store);
}

static int hold_child(struct holding *holding, struct bl_store *store, const char *id,
                      const char *agent_of)
{
    return hold_with(holding, store,
                     &(struct bl_store_hold_options){
                         .id = id, .run_id = "run_1", .agent_of = agent_of, .persona = "worker"});
}

FORM_TEST(fork_has_the_summary_and_no_parent_agent)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_session_view view;
    const char *id = NULL;
    struct holding holding;
    CHECK_EQUAL(hold_child(&holding, store, "below", "child"), 0);
    release(&holding);
    CHECK_EQUAL(hold_child(&holding, store, "child", "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(compact_session(&holding, 1, "the first"), 0);
    release(&holding);
    CHECK_EQUAL(bl_store_fork(store, "child", "fork", &arena, &id, NULL), 0);
    CHECK_EQUAL(hold(&holding, store, "fork"), 0);
    CHECK(has_summary(&holding, "the first"));
    CHECK_EQUAL(holding.session.turns_in_context, 0);
    CHECK_EQUAL(holding.session.usage.input_tokens, 13);
    CHECK_EQUAL(compact_session(&holding, 0, "another"), 0);
    release(&holding);
    CHECK_EQUAL(bl_store_show(store, &arena, "fork", &view, NULL), 0);
    CHECK(view.summary.agent_of == NULL && view.summary.persona == NULL);
    CHECK_EQUAL(hold(&holding, store, "child"), 0);
    CHECK(has_summary(&holding, "the first"));
    release(&holding);
    /* It has no sub-agents' sessions either. */
    CHECK_EQUAL(bl_store_delete(store, "fork", NULL), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 2);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(a_session_is_deleted_with_those_of_its_sub_agents)
{
    struct bl_store *store = store_at(place);
    struct bl_error error = {0};
    struct holding holdings[5];
    static const struct {
        const char *id;
        const char *agent_of;
    } sessions[] = {{"alpha", NULL},
                    {"child-1", "alpha"},
                    {"child-2", "alpha"},
                    {"grandchild", "child-2"},
                    {"another", "beta"}};
    for (size_t i = 0; i < BL_COUNT(sessions); i++) {
        CHECK_EQUAL(hold_child(&holdings[i], store, sessions[i].id, sessions[i].agent_of), 0);
        add_turn(&holdings[i], "turn_1");
        CHECK_EQUAL(compact_session(&holdings[i], 1, "all"), 0);
        if (i != 3)
            release(&holdings[i]);
    }
    /* One of them is running: none is deleted. */
    CHECK_EQUAL(bl_store_delete(store, "alpha", &error), BL_EBUSY);
    CHECK_EQUAL(error.kind, BL_KIND_SESSION);
    CHECK(strstr(error.message, "grandchild") != NULL);
    CHECK(strstr(error.hint, "belay cancel grandchild") != NULL);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 5);
    release(&holdings[3]);
    /* A cycle ends. */
    change_file(place, "UPDATE session SET agent_of = 'grandchild' WHERE id = 'alpha'");
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 1);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 1);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM summary"), 1);
    if (place->database[0] == '\0')
        CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM lease"), 1);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session WHERE id = 'another'"), 1);
    bl_store_close(store);
}

FORM_TEST(session_of_a_killed_holder_is_deleted)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct actor actors[2];
    static const char *const ids[] = {"alpha", "child"};
    CHECK_EQUAL(hold_child(&holding, store, "child", "alpha"), 0);
    release(&holding);
    for (size_t i = 0; i < BL_COUNT(actors); i++) {
        actor_start(&actors[i], "holder", place, ids[i], false);
        actor_expect(&actors[i], "no error");
    }
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), BL_EBUSY);
    actor_kill(&actors[0]);
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), BL_EBUSY);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 2);
    actor_kill(&actors[1]);
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 0);
    bl_store_close(store);
}

SUITE(move, FORM_UNITS(session_of_a_killed_holder_is_deleted),
      FORM_UNITS(a_fork_has_the_same_turns_and_goes_its_own_way),
      FORM_UNITS(a_session_is_deleted_with_all_that_belongs_to_it),
      FORM_UNITS(fork_has_the_summary_and_no_parent_agent),
      FORM_UNITS(a_session_is_deleted_with_those_of_its_sub_agents));
