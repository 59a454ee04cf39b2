/* Features in a file: leases that expire, disks that fail, folders without write permission. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"

/* ---- Roles ---- */

/* "sync-fails"; with "void-fails" the write that voids the commit fails, too. */
static void play_sync_fails(struct bl_store *store)
{
    struct grasp grasp;
    bool once = strcmp(role_argument, "sync-fails") == 0;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_record(&grasp, "task/A", "{\"n\":1}"), 0);
    arm("faulty_writes", once ? 0 : 1000000);
    arm("faulty_syncs", 1);
    report_write(&grasp, put_records(&grasp, "task/A", "{\"n\":2}", NULL, "{\"n\":2}"));
    arm("faulty_writes", 0);
    report("%s", bl_error_kind_name(grasp.error.kind));
    release_feature(&grasp);
    int code = hold_feature(&grasp, store, FEATURE);
    report("%s %d", bl_error_name(code), (int)grasp.owner.life);
}

/* A disk of one megabyte. */
static int play_full(void)
{
    struct grasp grasp;
    struct bl_buffer large;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("belay-test", role_place.folder, "tmpfs", 0, "size=1m") != 0) {
        report("skipped: %s", strerror(errno));
        return 0;
    }
    report("mounted");
    struct bl_store *store = store_at(&role_place);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_records(&grasp, "task/A", "{\"n\":1}", NULL, "{\"n\":1}"), 0);
    bl_buffer_init(&large, SIZE_MAX / 2);
    bl_buffer_append(&large, BL_TEXT("{\"n\":\""));
    while (large.size < (size_t)900 * 1024)
        bl_buffer_append(&large, BL_TEXT("so much to say "));
    bl_buffer_append(&large, BL_TEXT("\"}"));
    bl_buffer_append_byte(&large, '\0');
    report_write(&grasp, put_records(&grasp, "task/A", large.data, "task/B", "{\"n\":2}"));
    report("%s", bl_error_kind_name(grasp.error.kind));
    CHECK(grasp.error.hint[0] != '\0');
    bl_buffer_done(&large);
    CHECK(records_are(store, NULL, "task/A={\"n\":1}"));
    report_write(&grasp, put_record(&grasp, "task/B", "{\"n\":3}"));
    release_feature(&grasp);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(grasp.owner.life, BL_OWNER_DEAD);
    CHECK(records_are(store, NULL, "task/A={\"n\":1} task/B={\"n\":3}"));
    CHECK(events_are(store, 0, 0, "1={\"n\":1}"));
    release_feature(&grasp);
    bl_store_close(store);
    CHECK_EQUAL(umount(role_place.folder), 0);
    return 0;
}

/* Runs as a user without write permission. */
static int play_read_only(void)
{
    struct bl_store *store = NULL;
    struct grasp grasp;
    CHECK(geteuid() != 0 ||
          (setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0));
    CHECK_EQUAL(bl_store_open_reading(role_place.path, &store, NULL), 0);
    CHECK(records_are(store, NULL, "task/A={}"));
    CHECK(events_are(store, 0, 0, "1={}"));
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), BL_EACCES);
    CHECK_EQUAL(grasp.error.kind, BL_KIND_FILESYSTEM);
    bl_store_close(store);
    return 0;
}

int role_feature_disk(void *argument BL_UNUSED)
{
    if (strcmp(role_argument, "full") == 0)
        return play_full();
    if (strcmp(role_argument, "read-only") == 0)
        return play_read_only();
    play_sync_fails(store_at(&role_place));
    bl_sleep(1000 * BL_NS_PER_S);
    return 0;
}

/* ---- Leases ---- */

STORE_TEST(F27_another_host_waits_until_the_lease_expires_and_each_write_renews_it)
{
    struct bl_store *store = store_at(place), *other = store_on(place, "elsewhere");
    struct grasp here, there;
    CHECK_EQUAL(hold_feature(&here, store, FEATURE), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT until - since FROM feature_lease"),
                30 * (int64_t)BL_NS_PER_S);
    CHECK_EQUAL(hold_feature(&there, other, FEATURE), BL_EBUSY);
    CHECK_EQUAL(there.owner.life, BL_OWNER_OUT_OF_SIGHT);
    CHECK(strstr(there.error.hint, "lease") != NULL);
    CHECK(strstr(there.error.hint, "--take-over") == NULL);
    /* A write without data renews the lease, and does not change the feature. */
    int64_t updated = ask_integer(place, "SELECT updated FROM feature");
    change_file(place, "UPDATE feature_lease SET until = 1");
    CHECK_EQUAL(bl_store_feature_write(here.held, &(struct bl_store_feature_write){0}, NULL), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT updated FROM feature"), updated);
    CHECK_EQUAL(hold_feature(&there, other, FEATURE), BL_EBUSY);
    change_file(place, "UPDATE feature_lease SET until = 1");
    CHECK_EQUAL(put_record(&here, "a", "{}"), 0);
    CHECK_EQUAL(hold_feature(&there, other, FEATURE), BL_EBUSY);
    change_file(place, "UPDATE feature_lease SET until = 1");
    CHECK_EQUAL(hold_feature(&there, other, FEATURE), 0);
    CHECK_EQUAL(there.owner.life, BL_OWNER_DEAD);
    release_feature(&here);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_lease WHERE owner IS NOT NULL"),
                1);
    CHECK_EQUAL(put_record(&there, "a", "{\"of\":\"there\"}"), 0);
    release_feature(&there);
    bl_store_close(other);
    bl_store_close(store);
}

/* ---- Disks that fail ---- */

STORE_TEST(a_write_whose_sync_failed_never_comes_back)
{
    struct actor actor;
    char line[32];
    actor_start(&actor, "feature-disk", place, "sync-fails", true);
    actor_expect(&actor, "BL_EIO");
    actor_expect(&actor, "filesystem");
    snprintf(line, sizeof line, "no error %d", BL_OWNER_DEAD);
    actor_expect(&actor, line);
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    CHECK(records_are(store, NULL, "task/A={\"n\":1}"));
    CHECK(events_are(store, 0, 0, ""));
    bl_store_close(store);
}

STORE_TEST(write_that_cannot_be_undone_is_unknown)
{
    struct actor actor;
    actor_start(&actor, "feature-disk", place, "void-fails", true);
    actor_expect(&actor, "BL_EUNKNOWN commit_unknown");
    actor_expect(&actor, "filesystem");
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    /* The old or the new record, and the event with the new one. */
    bool there = ask_integer(place, "SELECT count(*) FROM feature_event") == 1;
    CHECK(records_are(store, NULL, there ? "task/A={\"n\":2}" : "task/A={\"n\":1}"));
    bl_store_close(store);
}

static bool no_mount;

static int look_at_full_disk(void *argument)
{
    struct actor actor;
    char line[128] = "";
    actor_start(&actor, "feature-disk", argument, "full", false);
    actor_line(&actor, line, sizeof line);
    no_mount = strcmp(line, "mounted") != 0;
    if (!no_mount) {
        actor_expect(&actor, "BL_ENOSPC");
        actor_expect(&actor, "filesystem");
        actor_expect(&actor, "no error");
    }
    CHECK_EQUAL(actor_end(&actor), 0);
    return 0;
}

static void disk_full_in_the_store_leaves_old_records_whole(void **state BL_UNUSED)
{
    struct place place;
    place_make(&place);
    run_in_loop(look_at_full_disk, &place);
    place_remove(&place);
    if (no_mount)
        suite_skip("needs the right to mount");
}

STORE_TEST(features_are_read_in_a_folder_that_cannot_be_written_to)
{
    struct bl_store *store = store_at(place);
    struct grasp grasp;
    struct actor actor;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_records(&grasp, "task/A", "{}", NULL, "{}"), 0);
    release_feature(&grasp);
    bl_store_close(store);
    CHECK_EQUAL(chmod(place->path, 0444), 0);
    CHECK_EQUAL(chmod(place->folder, 0555), 0);
    actor_start(&actor, "feature-disk", place, "read-only", false);
    CHECK_EQUAL(actor_end(&actor), 0);
    CHECK_EQUAL(chmod(place->folder, 0700), 0);
}

SUITE(sqlite_feature,
      cmocka_unit_test(F27_another_host_waits_until_the_lease_expires_and_each_write_renews_it),
      cmocka_unit_test(a_write_whose_sync_failed_never_comes_back),
      cmocka_unit_test(write_that_cannot_be_undone_is_unknown),
      cmocka_unit_test(disk_full_in_the_store_leaves_old_records_whole),
      cmocka_unit_test(features_are_read_in_a_folder_that_cannot_be_written_to));
