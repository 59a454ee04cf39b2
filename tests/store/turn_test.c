#include "helpers.h"

FORM_TEST(a_write_under_an_old_epoch_is_refused)
{
    struct bl_store *store = store_at(place);
    struct holding old, young;
    CHECK_EQUAL(hold(&old, store, "alpha"), 0);
    add_turn(&old, "turn_0");
    CHECK_EQUAL(compact_session(&old, 1, "before"), 0);
    CHECK_EQUAL(begin_turn(&old, "turn_1"), 0);
    /* As if this process had been taken for dead. */
    change_file(place, form_sql(place, "UPDATE lease SET boot = 'before', owner = 'own_other'",
                                "UPDATE session SET owner = 'own_other'"));
    CHECK_EQUAL(hold(&young, store, "alpha"), 0);
    CHECK(strcmp(bl_store_session_recovery(young.held)->cut_off, "turn_1") == 0);
    CHECK_EQUAL(commit_turn(&old, "turn_1"), BL_ECLOSED);
    CHECK_EQUAL(old.error.kind, BL_KIND_SESSION);
    CHECK(strstr(old.error.message, "is now held by pid ") != NULL);
    CHECK_EQUAL(begin_turn(&old, "turn_2"), BL_ECLOSED);
    CHECK_EQUAL(reject_turn(&old, "turn_1"), BL_ECLOSED);
    CHECK_EQUAL(
        old.table->note(old.table->context, BL_TEXT("{}\n"), NULL, (struct bl_text){0}, NULL),
        BL_ECLOSED);
    CHECK_EQUAL(compact_session(&old, 1, "after"), BL_ECLOSED);
    CHECK_EQUAL(old.error.kind, BL_KIND_SESSION);
    CHECK_EQUAL(bl_store_checkpoint_put(old.held, "plan", BL_TEXT("1"), NULL), BL_ECLOSED);
    /* In a database the lease is the store's, and so are both holders. */
    CHECK_EQUAL(bl_store_renew(old.held, NULL), place->database[0] != '\0' ? 0 : BL_EBUSY);
    /* The old holder does not release the lease of the new one either. */
    release(&old);
    CHECK_EQUAL(held_sessions(place), 1);
    add_turn(&young, "turn_2");
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 2);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM checkpoint"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM summary WHERE messages LIKE '%before%'"),
                1);
    CHECK_EQUAL(ask_integer(place, "SELECT input FROM session"), 10 + 3 + 10);
    release(&young);
    bl_store_close(store);
}

FORM_TEST(recreated_session_differs_from_the_deleted_one)
{
    struct bl_store *store = store_at(place);
    struct holding old, young;
    CHECK_EQUAL(hold(&old, store, "alpha"), 0);
    CHECK_EQUAL(begin_turn(&old, "turn_1"), 0);
    change_file(place, form_sql(place, "UPDATE lease SET boot = 'before'",
                                "UPDATE session SET owner = 'own_other'"));
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), 0);
    CHECK_EQUAL(commit_turn(&old, "turn_1"), BL_ECLOSED);
    CHECK(strstr(old.error.message, "has been deleted") != NULL);
    CHECK_EQUAL(hold(&young, store, "alpha"), 0);
    CHECK_EQUAL(young.held->grip.epoch, old.held->grip.epoch);
    CHECK_EQUAL(begin_turn(&young, "turn_1"), 0);
    CHECK_EQUAL(commit_turn(&old, "turn_1"), BL_ECLOSED);
    CHECK_EQUAL(commit_turn(&young, "turn_1"), 0);
    release(&old);
    release(&young);
    bl_store_close(store);
}

FORM_TEST(figures_of_providers_do_not_wrap)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_settlement settlement;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(begin_turn(&holding, i == 0 ? "turn_1" : i == 1 ? "turn_2" : "turn_3"), 0);
        fill_settlement(&settlement, i == 0 ? "turn_1" : i == 1 ? "turn_2" : "turn_3");
        settlement.usage.input_tokens = UINT64_MAX;
        settlement.spent.usage.output_tokens = UINT64_MAX / 2;
        CHECK_EQUAL(holding.table->commit(holding.table->context, &settlement, NULL), 0);
    }
    release(&holding);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.session.usage.input_tokens, INT64_MAX);
    CHECK_EQUAL(holding.session.usage.output_tokens, 15);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(a_turn_that_never_began_can_be_rejected)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(reject_turn(&holding, "turn_1"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM attempt WHERE state = 'rejected' AND"
                                   " prompt = 'Do it.'"),
                1);
    release(&holding);
    bl_store_close(store);
}

SUITE(turn, FORM_UNITS(a_write_under_an_old_epoch_is_refused),
      FORM_UNITS(recreated_session_differs_from_the_deleted_one),
      FORM_UNITS(figures_of_providers_do_not_wrap),
      FORM_UNITS(a_turn_that_never_began_can_be_rejected));
