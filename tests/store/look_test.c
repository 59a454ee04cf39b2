#include "helpers.h"

static struct bl_text json_member(struct bl_arena *arena, struct bl_text json, const char *key)
{
    const struct bl_json *value = NULL;
    CHECK_EQUAL(bl_json_read(arena, json, NULL, &value, NULL), 0);
    return bl_json_text(bl_json_get(value, bl_text_from(key)));
}

FORM_TEST(sessions_are_listed_newest_first)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list summaries;
    struct holding holding, other;
    CHECK_EQUAL(bl_store_list(store, &arena, NULL, 0, false, &summaries, NULL), 0);
    CHECK(bl_list_empty(&summaries));
    CHECK_EQUAL(hold(&holding, store, "older"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    release(&holding);
    CHECK_EQUAL(hold_with(&other, store,
                          &(struct bl_store_hold_options){.id = "newer",
                                                          .directory = "/elsewhere",
                                                          .prompt = BL_TEXT("Hello")}),
                0);
    CHECK_EQUAL(bl_store_list(store, &arena, NULL, 0, false, &summaries, NULL), 0);
    const struct bl_store_summary *first =
        BL_CONTAINER(summaries.next, struct bl_store_summary, link);
    const struct bl_store_summary *second =
        BL_CONTAINER(summaries.next->next, struct bl_store_summary, link);
    CHECK(strcmp(first->id, "newer") == 0 && strcmp(second->id, "older") == 0);
    CHECK(second->link.next == &summaries);
    CHECK(strcmp(first->title, "Hello") == 0 && strcmp(first->directory, "/elsewhere") == 0);
    CHECK(first->held_by != NULL && strncmp(first->held_by, "pid ", 4) == 0);
    CHECK(second->held_by == NULL && second->parent == NULL);
    CHECK_EQUAL(second->turns, 1);
    CHECK_EQUAL(second->attempts, 1);
    CHECK_EQUAL(second->usage.input_tokens, 10);
    CHECK_EQUAL(second->spent.usage.input_tokens, 24);
    CHECK(second->spent.cost_usd == 0.5 && second->spent.cost_usd_max == 1.0);
    CHECK_EQUAL(bl_store_list(store, &arena, "/elsewhere", 0, false, &summaries, NULL), 0);
    CHECK(summaries.next != &summaries && summaries.next->next == &summaries);
    CHECK_EQUAL(bl_store_list(store, &arena, NULL, 1, false, &summaries, NULL), 0);
    CHECK(summaries.next->next == &summaries);
    release(&other);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(a_session_that_was_made_without_a_prompt_has_the_title_of_its_first_turn)
{
    struct bl_store *store = store_at(place);
    struct bl_store_session_view view;
    struct bl_arena arena = {0};
    struct holding holding;
    CHECK_EQUAL(hold_with(&holding, store,
                          &(struct bl_store_hold_options){.id = "talk", .directory = "/here"}),
                0);
    CHECK_EQUAL(reject_turn(&holding, "turn_1"), 0);
    CHECK_EQUAL(bl_store_show(store, &arena, "talk", &view, NULL), 0);
    CHECK_EQUAL(view.summary.title[0], '\0');
    add_turn(&holding, "turn_2");
    CHECK_EQUAL(bl_store_show(store, &arena, "talk", &view, NULL), 0);
    CHECK(view.summary.title[0] != '\0');
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

static unsigned count_listed(struct bl_store *store, const char *directory, bool agents)
{
    struct bl_arena arena = {0};
    struct bl_list summaries;
    unsigned count = 0;
    CHECK_EQUAL(bl_store_list(store, &arena, directory, 0, agents, &summaries, NULL), 0);
    BL_LIST_EACH (link, &summaries) {
        const struct bl_store_summary *each = BL_CONTAINER(link, struct bl_store_summary, link);
        bool child = strcmp(each->id, "child") == 0;
        CHECK(child == (each->agent_of != NULL));
        CHECK(!child || (strcmp(each->agent_of, "alpha") == 0 &&
                         strcmp(each->agent_turn, "turn_1") == 0 && each->persona == NULL));
        count++;
    }
    bl_arena_done(&arena);
    return count;
}

FORM_TEST(a_childs_session_is_not_listed_unless_it_is_asked_for)
{
    struct bl_store *store = store_at(place);
    struct holding parent, child;
    CHECK_EQUAL(hold(&parent, store, "alpha"), 0);
    CHECK_EQUAL(hold_with(&child, store,
                          &(struct bl_store_hold_options){.id = "child",
                                                          .directory = "/home/somebody",
                                                          .agent_of = "alpha",
                                                          .agent_turn = "turn_1"}),
                0);
    CHECK_EQUAL(count_listed(store, NULL, false), 1);
    CHECK_EQUAL(count_listed(store, NULL, true), 2);
    CHECK_EQUAL(count_listed(store, "/home/somebody", false), 1);
    CHECK_EQUAL(count_listed(store, "/home/somebody", true), 2);
    CHECK_EQUAL(count_listed(store, "/elsewhere", true), 0);
    release(&child);
    release(&parent);
    bl_store_close(store);
}

FORM_TEST(a_session_is_shown_with_its_attempts)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_session_view view;
    struct bl_store_summary summary;
    struct bl_error error = {0};
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_3"), 0);
    CHECK_EQUAL(bl_store_show(store, &arena, "alpha", &view, NULL), 0);
    CHECK_EQUAL(view.turn_count, 1);
    CHECK_EQUAL(view.attempt_count, 2);
    CHECK(bl_text_equal(json_member(&arena, view.turns[0], "turn_id"), BL_TEXT("turn_1")));
    CHECK(bl_text_equal(json_member(&arena, view.attempts[0], "state"), BL_TEXT("rejected")));
    CHECK(bl_text_equal(json_member(&arena, view.attempts[1], "state"), BL_TEXT("running")));
    CHECK(bl_text_equal(json_member(&arena, view.attempts[1], "prompt"), BL_TEXT("Do it.")));
    CHECK(bl_text_find(view.attempts[0], BL_TEXT("\"receipt\":{\"id\":\"rcp_made\"}")) > 0);
    CHECK(bl_text_find(view.attempts[1], BL_TEXT("\"ended_at\":null,\"result\":null")) > 0);
    CHECK_EQUAL(bl_store_summary(store, &arena, "alpha", &summary, NULL), 0);
    CHECK(strcmp(summary.directory, view.summary.directory) == 0);
    CHECK_EQUAL(summary.turns, view.summary.turns);
    CHECK_EQUAL(bl_store_summary(store, &arena, "alpah", &summary, NULL), BL_ENOENT);
    CHECK_EQUAL(bl_store_show(store, &arena, "alpah", &view, &error), BL_ENOENT);
    CHECK_EQUAL(error.kind, BL_KIND_SESSION);
    CHECK(strcmp(error.hint, "did you mean alpha?") == 0);
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

static int stop_at_third(void *context, struct bl_text line BL_UNUSED)
{
    return ++*(int *)context == 3 ? BL_EPIPE : 0;
}

FORM_TEST(export_ends_when_its_lines_are_refused)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    int count = 0;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(bl_store_export(store, "alpha", stop_at_third, &count, NULL), BL_EPIPE);
    CHECK_EQUAL(count, 3);
    CHECK_EQUAL(bl_store_export(store, "alphx", stop_at_third, &count, NULL), BL_ENOENT);
    release(&holding);
    bl_store_close(store);
}

SUITE(look, FORM_UNITS(sessions_are_listed_newest_first),
      FORM_UNITS(a_session_that_was_made_without_a_prompt_has_the_title_of_its_first_turn),
      FORM_UNITS(a_childs_session_is_not_listed_unless_it_is_asked_for),
      FORM_UNITS(a_session_is_shown_with_its_attempts),
      FORM_UNITS(export_ends_when_its_lines_are_refused));
