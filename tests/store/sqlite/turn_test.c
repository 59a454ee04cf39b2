#include "helpers.h"

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

SUITE(sqlite_turn, cmocka_unit_test(lease_is_renewed_by_its_holder_and_not_by_each_write));
