#include "helpers.h"

STORE_TEST(a_write_under_an_old_epoch_is_refused)
{
    struct bl_store *store = store_at(place);
    struct holding old, young;
    CHECK_EQUAL(hold(&old, store, "alpha"), 0);
    add_turn(&old, "turn_0");
    CHECK_EQUAL(compact_session(&old, 1, "before"), 0);
    CHECK_EQUAL(begin_turn(&old, "turn_1"), 0);
    /* As if this process had been taken for dead. */
    change_file(place, "UPDATE lease SET boot = 'before', owner = 'own_other'");
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
    CHECK_EQUAL(bl_store_renew(old.held, NULL), BL_EBUSY);
    /* The old holder does not release the lease of the new one either. */
    release(&old);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM lease WHERE owner IS NOT NULL"), 1);
    add_turn(&young, "turn_2");
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 2);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM checkpoint"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM summary WHERE messages LIKE '%before%'"),
                1);
    CHECK_EQUAL(ask_integer(place, "SELECT input FROM session"), 10 + 3 + 10);
    release(&young);
    bl_store_close(store);
}

STORE_TEST(recreated_session_differs_from_the_deleted_one)
{
    struct bl_store *store = store_at(place);
    struct holding old, young;
    CHECK_EQUAL(hold(&old, store, "alpha"), 0);
    CHECK_EQUAL(begin_turn(&old, "turn_1"), 0);
    change_file(place, "UPDATE lease SET boot = 'before'");
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

STORE_TEST(lease_is_renewed_by_its_holder_and_not_by_each_write)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    static const char until[] = "SELECT until > 1 FROM lease";
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    change_file(place, "UPDATE lease SET until = 1");
    CHECK_EQUAL(begin_turn(&holding, "turn_1"), 0);
    CHECK_EQUAL(commit_turn(&holding, "turn_1"), 0);
    CHECK_EQUAL(ask_integer(place, until), 0);
    CHECK_EQUAL(bl_store_renew(holding.held, NULL), 0);
    CHECK_EQUAL(ask_integer(place, until), 1);
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(figures_of_providers_do_not_wrap)
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

STORE_TEST(a_turn_that_never_began_can_be_rejected)
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

SUITE(sqlite_turn, cmocka_unit_test(a_write_under_an_old_epoch_is_refused),
      cmocka_unit_test(recreated_session_differs_from_the_deleted_one),
      cmocka_unit_test(lease_is_renewed_by_its_holder_and_not_by_each_write),
      cmocka_unit_test(figures_of_providers_do_not_wrap),
      cmocka_unit_test(a_turn_that_never_began_can_be_rejected));
