#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"

static void this_process_is_alive(void **state BL_UNUSED)
{
    struct store_identity self;
    store_identity_read(&self);
    assert_int_equal(self.pid, getpid());
    assert_true(self.started > 0);
    assert_int_equal(strlen(self.boot), 36);
    assert_int_equal(strncmp(self.pid_space, "pid:[", 5), 0);
    assert_int_equal(self.pid_space[strlen(self.pid_space) - 1], ']');
    assert_int_equal(store_identity_life(&self, &self), STORE_ALIVE);
}

static void different_identity_is_dead_or_out_of_sight(void **state BL_UNUSED)
{
    struct store_identity self, other;
    store_identity_read(&self);
    other = self;
    other.started++;
    assert_int_equal(store_identity_life(&self, &other), STORE_DEAD);
    other = self;
    bl_text_into(other.boot, sizeof other.boot, "before");
    assert_int_equal(store_identity_life(&self, &other), STORE_DEAD);
    bl_text_into(other.host, sizeof other.host, "elsewhere");
    assert_int_equal(store_identity_life(&self, &other), STORE_OUT_OF_SIGHT);
    other = self;
    bl_text_into(other.pid_space, sizeof other.pid_space, "pid:[1]");
    assert_int_equal(store_identity_life(&self, &other), STORE_OUT_OF_SIGHT);
    other = self;
    other.pid = 4194305; /* beyond any pid */
    assert_int_equal(store_identity_life(&self, &other), STORE_DEAD);
}

static void processes_of_a_dead_holder_are_known_only_if_visible(void **state BL_UNUSED)
{
    struct store_identity self, gone;
    struct bl_wardens_end end;
    store_identity_read(&self);
    store_identity_settle(&self, &self, &end);
    assert_int_equal(end.survivors, BL_SURVIVORS_UNKNOWN);
    assert_string_equal(end.unverified, "this process lost its hold on the session");
    gone = self;
    gone.started--;
    store_identity_settle(&self, &gone, &end);
    assert_int_equal(end.survivors, BL_SURVIVORS_UNKNOWN);
    assert_string_equal(end.unverified, "no record of its processes was found");
    bl_text_into(gone.pid_space, sizeof gone.pid_space, "pid:[1]");
    store_identity_settle(&self, &gone, &end);
    assert_int_equal(end.survivors, BL_SURVIVORS_UNKNOWN);
    assert_string_equal(end.unverified, "it ran in another PID namespace");
    /* No process survives a reboot, and processes of another machine are not visible. */
    bl_text_into(gone.boot, sizeof gone.boot, "before");
    store_identity_settle(&self, &gone, &end);
    assert_int_equal(end.survivors, 0);
    assert_string_equal(end.unverified, "");
    bl_text_into(gone.host, sizeof gone.host, "elsewhere");
    store_identity_settle(&self, &gone, &end);
    assert_int_equal(end.survivors, BL_SURVIVORS_UNKNOWN);
    assert_string_equal(end.unverified, "it ran on another machine");
    assert_int_equal(end.mechanism, BL_MECHANISM_NONE);
}

static void a_process_that_is_not_reaped_yet_is_dead(void **state BL_UNUSED)
{
    struct store_identity self, other;
    struct actor actor;
    struct place place;
    place_make(&place);
    actor_start(&actor, "opener", &place, "alpha", false);
    char line[64];
    while (actor_line(&actor, line, sizeof line))
        continue;
    store_identity_read(&self);
    other = self;
    other.pid = actor.pid;
    for (int i = 0; i < 1000 && store_identity_life(&self, &other) != STORE_DEAD; i++)
        usleep(10000);
    assert_int_equal(store_identity_life(&self, &other), STORE_DEAD);
    assert_int_equal(actor_end(&actor), 0);
    place_remove(&place);
}

static void a_process_is_known_by_its_number_and_its_start(void **state BL_UNUSED)
{
    int64_t started = bl_store_process_started(getpid());
    assert_true(started > 0);
    assert_int_equal(bl_store_process_alive(getpid(), started), 1);
    assert_int_equal(bl_store_process_alive(getpid(), started - 1), 0);
    /* Neither unknown pids nor invalid ones. */
    static const int64_t none[] = {0, -1, INT64_MIN, 4194305};
    for (size_t i = 0; i < BL_COUNT(none); i++) {
        assert_int_equal(bl_store_process_started(none[i]), 0);
        assert_int_equal(bl_store_process_alive(none[i], 0), 0);
    }
}

static void the_environment_names_the_host(void **state BL_UNUSED)
{
    struct store_identity self;
    char text[160];
    setenv("BELAY_HOST", "build-7", 1);
    store_identity_read(&self);
    unsetenv("BELAY_HOST");
    assert_string_equal(self.host, "build-7");
    /* Otherwise it is the machine's name. */
    char host[72] = "";
    struct store_identity other;
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    store_identity_read(&other);
    assert_string_equal(other.host, host);
    setenv("BELAY_HOST", "", 1);
    store_identity_read(&other);
    unsetenv("BELAY_HOST");
    assert_string_equal(other.host, host);
    self.pid = 4711;
    store_identity_text(&self, 0, text, sizeof text);
    assert_string_equal(text, "pid 4711 on build-7");
    store_identity_text(&self, 1000000000, text, sizeof text);
    assert_string_equal(text, "pid 4711 on build-7, since 1970-01-01T00:00:01.000Z");
}

SUITE(identity, cmocka_unit_test(this_process_is_alive),
      cmocka_unit_test(different_identity_is_dead_or_out_of_sight),
      cmocka_unit_test(processes_of_a_dead_holder_are_known_only_if_visible),
      cmocka_unit_test(a_process_that_is_not_reaped_yet_is_dead),
      cmocka_unit_test(a_process_is_known_by_its_number_and_its_start),
      cmocka_unit_test(the_environment_names_the_host));
