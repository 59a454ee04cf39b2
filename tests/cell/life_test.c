/* The life of a cell from its creation to its end. */
#include "helpers.h"

static int printed(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "text(1 + 1); text('b');"), 0);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 60000), 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
    CHECK(strcmp(house_seen_text(house), "2b") == 0);
    CHECK(house->seen.completed.error == NULL);
    CHECK(strcmp(house_state(house, "c-1"), "completed") == 0);
    return 0;
}

static int threw(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "text('a');\nnull.x;"), 0);
    CHECK(strcmp(house_finish(house, "c-1"), "a") == 0);
    CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
    const struct bl_cell_error *error = house->seen.completed.error;
    if (CHECK(error != NULL)) {
        CHECK_EQUAL(error->kind, BL_CELL_ERROR_EXCEPTION);
        CHECK(bl_text_equal(error->name, BL_TEXT("TypeError")));
    }
    return 0;
}

static int called(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1",
                             "const r = await tools.echo({a: [1, 'x']});"
                             "text(r.a[1]); try { await tools.fail({}) } catch (e) {"
                             " text(e.name + e.kind + e.tool + e.message) }"),
                0);
    CHECK(strcmp(house_finish(house, "c-1"), "xToolErrorfailedfailit failed") == 0);
    CHECK_EQUAL(house->calls_begun, 2);
    CHECK_EQUAL(house->events[BL_CELL_EVENT_CREATED], 1);
    CHECK_EQUAL(house->events[BL_CELL_EVENT_ENDED], 1);
    return 0;
}

static int told(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "for (let i = 0; i < 5; i++) notify('n' + i);"), 0);
    CHECK(strcmp(house_finish(house, "c-1"), "") == 0);
    CHECK_EQUAL(house->notified, 5);
    CHECK(strcmp(house->last_notify, "n4") == 0);
    return 0;
}

HOUSE_TEST(a_cell_prints_and_completes, printed)
HOUSE_TEST(output_before_an_exception_is_kept, threw)
HOUSE_TEST(nested_calls_are_answered_or_refused, called)
HOUSE_TEST(notify_reaches_the_owner_at_once, told)

SUITE(life, cmocka_unit_test(a_cell_prints_and_completes),
      cmocka_unit_test(output_before_an_exception_is_kept),
      cmocka_unit_test(nested_calls_are_answered_or_refused),
      cmocka_unit_test(notify_reaches_the_owner_at_once));
