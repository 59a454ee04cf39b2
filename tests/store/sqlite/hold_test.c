#include <stdio.h>

#include "helpers.h"

/* Changes the lease as if another process held it, and holds the session. */
static int hold_after(const struct place *place, struct bl_store *store, const char *change)
{
    struct holding holding;
    char sql[512];
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    snprintf(sql, sizeof sql, "UPDATE lease SET owner = 'own_other', %s", change);
    change_file(place, sql);
    release(&holding);
    snprintf(sql, sizeof sql, "UPDATE lease SET owner = 'own_other'");
    change_file(place, sql);
    int code = hold(&holding, store, "alpha");
    if (code == 0)
        CHECK(bl_store_session_recovery(holding.held)->owner_died);
    release(&holding);
    change_file(place, "UPDATE lease SET owner = NULL");
    return code;
}

STORE_TEST(live_holder_is_identified_by_host_boot_namespace_pid_and_start)
{
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(hold_after(place, store, "pid = pid"), BL_EBUSY);
    CHECK_EQUAL(hold_after(place, store, "until = 0"), BL_EBUSY); /* alive, even without renewals */
    CHECK_EQUAL(hold_after(place, store, "started = started + 1"), 0);
    CHECK_EQUAL(hold_after(place, store, "pid = 4194305"), 0);
    CHECK_EQUAL(hold_after(place, store, "boot = 'before'"), 0);
    CHECK_EQUAL(hold_after(place, store, "host = 'elsewhere'"), BL_EBUSY);
    CHECK_EQUAL(hold_after(place, store, "host = 'elsewhere', until = 0"), 0);
    CHECK_EQUAL(hold_after(place, store, "pid_space = 'pid:[1]'"), BL_EBUSY);
    CHECK_EQUAL(hold_after(place, store, "pid_space = 'pid:[1]', until = 0"), 0);
    bl_store_close(store);
}

STORE_TEST(another_host_waits_for_the_end_of_the_lease)
{
    struct bl_store *store = store_at(place), *other = store_on(place, "elsewhere");
    struct holding here, there;
    CHECK_EQUAL(hold(&here, store, "alpha"), 0);
    CHECK_EQUAL(hold(&there, other, "alpha"), BL_EBUSY);
    change_file(place, "UPDATE lease SET until = 1");
    CHECK_EQUAL(bl_store_renew(here.held, NULL), 0);
    CHECK_EQUAL(hold(&there, other, "alpha"), BL_EBUSY);
    change_file(place, "UPDATE lease SET until = 1");
    CHECK_EQUAL(hold(&there, other, "alpha"), 0);
    CHECK(bl_store_session_recovery(there.held)->owner_died);
    release(&there);
    release(&here);
    bl_store_close(other);
    bl_store_close(store);
}

STORE_TEST(lease_expires_exactly_at_its_time)
{
    struct bl_store *store = store_at(place);
    struct store_identity self, other;
    store_identity_read(&self);
    other = self;
    bl_text_into(other.host, sizeof other.host, "elsewhere");
    struct store_lease lease = {.held = true, .holder = other, .until_wall_ns = 1000};
    CHECK(store_lease_binds(&lease, &self, 999));
    CHECK(!store_lease_binds(&lease, &self, 1000));
    lease.holder = self;
    CHECK(store_lease_binds(&lease, &self, 1000));
    lease.held = false;
    CHECK(!store_lease_binds(&lease, &self, 999));
    bl_store_close(store);
}

SUITE(sqlite_hold, cmocka_unit_test(live_holder_is_identified_by_host_boot_namespace_pid_and_start),
      cmocka_unit_test(another_host_waits_for_the_end_of_the_lease),
      cmocka_unit_test(lease_expires_exactly_at_its_time));
