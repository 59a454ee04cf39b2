/* Differences between the forms of storage that random operations have found. */
#include <stdio.h>

#include "helpers.h"

FORM_TEST(must_exist_without_an_id_creates_a_session)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    const struct bl_store_hold_options options = {
        .must_exist = true, .directory = "/home/somebody", .run_id = "run_1"};
    CHECK_EQUAL(hold_with(&holding, store, &options), 0);
    add_turn(&holding, "turn_1");
    release(&holding);
    bl_store_close(store);
}

/* Returns the title that a prompt gives to a new session. */
static bool title_is(struct bl_store *store, const char *id, struct bl_text prompt, bool later,
                     const char *expected)
{
    BL_AUTO_ARENA(arena);
    struct bl_store_summary summary = {0};
    struct holding holding;
    struct bl_store_hold_options options = {
        .id = id, .directory = "/home/somebody", .run_id = "run_1"};
    if (!later)
        options.prompt = prompt;
    CHECK_EQUAL(hold_with(&holding, store, &options), 0);
    const struct bl_attempt attempt = {
        .turn_id = BL_TEXT("turn_1"), .prompt = prompt, .started_wall_ns = 1};
    CHECK_EQUAL(holding.table->begin(holding.table->context, &attempt, NULL), 0);
    CHECK_EQUAL(commit_turn(&holding, "turn_1"), 0);
    release(&holding);
    CHECK_EQUAL(bl_store_summary(store, &arena, id, &summary, NULL), 0);
    bool same = summary.title != NULL && strcmp(summary.title, expected) == 0;
    if (!same)
        fprintf(stderr, "the title is \"%s\"\n", summary.title);
    return same;
}

FORM_TEST(bytes_that_are_not_text_are_replaced_in_titles)
{
    struct bl_store *store = store_at(place);
    const struct bl_text bytes = BL_TEXT("a\xff\xfe b\0c \xc3\xa4\nnext");
    static const char title[] = "a\xef\xbf\xbd\xef\xbf\xbd b\xef\xbf\xbd"
                                "c \xc3\xa4";
    CHECK(title_is(store, "alpha", bytes, false, title));
    CHECK(title_is(store, "beta", bytes, true, title));
    bl_store_close(store);
}

FORM_TEST(checkpoint_without_a_name_is_exported)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_buffer out;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(bl_store_checkpoint_put(holding.held, "", BL_TEXT("1"), NULL), 0);
    CHECK_EQUAL(bl_store_checkpoint_put(holding.held, "plan", BL_TEXT("2"), NULL), 0);
    release(&holding);
    CHECK_EQUAL(export_to(store, "alpha", &out, NULL), 0);
    CHECK(bl_text_find(bl_buffer_text(&out),
                       BL_TEXT("{\"type\":\"checkpoint\",\"name\":\"\",\"checkpoint\":1}\n"
                               "{\"type\":\"checkpoint\",\"name\":\"plan\",\"checkpoint\":2}\n"
                               "{\"type\":\"end\",\"lines\":3}\n")) > 0);
    bl_buffer_done(&out);
    bl_store_close(store);
}

FORM_TEST(summary_of_a_session_without_turns_is_its_context)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(compact_session(&holding, 0, "before"), 0);
    release(&holding);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK(has_summary(&holding, "before"));
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(prompt_of_an_attempt_is_read_from_a_result_with_half_a_character)
{
    BL_AUTO_ARENA(arena);
    struct bl_store *store = store_at(place);
    struct bl_store_session_view view = {0};
    struct bl_settlement settlement;
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    fill_settlement(&settlement, "turn_1");
    settlement.messages = (struct bl_text){0};
    settlement.usage = (struct bl_usage){0};
    settlement.result = BL_TEXT("{\"prompt\":\"Do it.\",\"output\":\"half \\ud83d\"}");
    CHECK_EQUAL(holding.table->reject(holding.table->context, &settlement, NULL), 0);
    CHECK_EQUAL(bl_store_show(store, &arena, "alpha", &view, NULL), 0);
    if (CHECK_EQUAL(view.attempt_count, 1))
        CHECK(bl_text_find(view.attempts[0], BL_TEXT("\"prompt\":\"Do it.\",\"started_at\"")) > 0);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(session_whose_context_cannot_be_read_is_not_held)
{
    struct bl_store *store = store_at(place), *other = store_at(place);
    struct bl_settlement settlement;
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_1"), 0);
    fill_settlement(&settlement, "turn_1");
    settlement.messages = BL_TEXT("[{");
    CHECK_EQUAL(holding.table->commit(holding.table->context, &settlement, NULL), 0);
    release(&holding);
    CHECK_EQUAL(hold(&holding, store, "alpha"), BL_EPARSE);
    release(&holding);
    CHECK_EQUAL(held_sessions(place), 0);
    CHECK_EQUAL(hold(&holding, other, "alpha"), BL_EPARSE);
    release(&holding);
    CHECK_EQUAL(bl_store_delete(other, "alpha", NULL), 0);
    bl_store_close(other);
    bl_store_close(store);
}

SUITE(equal_found, FORM_UNITS(must_exist_without_an_id_creates_a_session),
      FORM_UNITS(bytes_that_are_not_text_are_replaced_in_titles),
      FORM_UNITS(checkpoint_without_a_name_is_exported),
      FORM_UNITS(summary_of_a_session_without_turns_is_its_context),
      FORM_UNITS(prompt_of_an_attempt_is_read_from_a_result_with_half_a_character),
      FORM_UNITS(session_whose_context_cannot_be_read_is_not_held));
