/* Features in several processes: one writer for each, atomic records and events, and former owners
 * that change nothing. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helpers.h"

/* ---- Roles ---- */

static void report_write(struct grasp *grasp, int code)
{
    report("%s%s%s", bl_error_name(code), grasp->error.name[0] != '\0' ? " " : "",
           grasp->error.name);
}

/* Holds the feature, reports it, and stays. */
static void play_hold(struct bl_store *store)
{
    struct grasp grasp;
    report("%s", bl_error_name(hold_feature(&grasp, store, FEATURE)));
}

/* Sleeps, and then tries to continue. */
static void play_ghost(struct bl_store *store)
{
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_record(&grasp, "task/A", "{\"of\":\"ghost\"}"), 0);
    raise(SIGSTOP);
    int code = put_records(&grasp, "task/A", "{\"late\":true}", "task/B", "{\"late\":true}");
    report_write(&grasp, code);
    release_feature(&grasp);
    report("loosened");
}

/* Returns the last number recorded for the feature. */
static int64_t last_number(struct bl_store *store)
{
    struct bl_arena arena = {0};
    struct bl_list records;
    const struct bl_json *value;
    int64_t number = 0;
    bl_list_init(&records);
    bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, "a", &records, NULL, NULL, NULL);
    if (!bl_list_empty(&records)) {
        const struct bl_row *record = BL_CONTAINER(records.next, struct bl_row, link);
        CHECK_EQUAL(bl_json_read(&arena, record->json, NULL, &value, NULL), 0);
        CHECK_EQUAL(bl_json_int64(bl_json_get(value, BL_TEXT("n")), &number), 0);
    }
    bl_arena_done(&arena);
    return number;
}

/* Writes two records and an event with the same number forever, every sixth time in a new
 * generation; reports each confirmed write. */
static void play_writer(struct bl_store *store)
{
    struct grasp grasp;
    char json[64];
    int code = hold_feature(&grasp, store, FEATURE);
    report("%s %d", bl_error_name(code), (int)grasp.owner.life);
    struct bl_row records[2] = {{.name = "a"}, {.name = "b"}};
    struct bl_list list;
    struct bl_text event;
    bl_list_init(&list);
    bl_list_push_back(&list, &records[0].link);
    bl_list_push_back(&list, &records[1].link);
    for (int64_t number = last_number(store) + 1; code == 0; number++) {
        snprintf(json, sizeof json, "{\"n\":%lld}", (long long)number);
        event = records[0].json = records[1].json = bl_text_from(json);
        code = bl_store_feature_write(grasp.held,
                                      &(struct bl_store_feature_write){
                                          .records = &list,
                                          .events = &event,
                                          .event_count = 1,
                                          .new_generation = number % 6 == 0,
                                          .durable = number % 2 == 0,
                                      },
                                      NULL);
        report("%lld", (long long)number);
    }
}

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

int role_feature(void *argument BL_UNUSED)
{
    static const struct {
        const char *name;
        void (*play)(struct bl_store *store);
    } plays[] = {{"hold", play_hold},
                 {"ghost", play_ghost},
                 {"writer", play_writer},
                 {"sync-fails", play_sync_fails},
                 {"void-fails", play_sync_fails}};
    if (strcmp(role_argument, "full") == 0)
        return play_full();
    if (strcmp(role_argument, "read-only") == 0)
        return play_read_only();
    struct bl_store *store = store_at(&role_place);
    for (size_t i = 0; i < BL_COUNT(plays); i++) {
        if (strcmp(plays[i].name, role_argument) == 0)
            plays[i].play(store);
    }
    bl_sleep(1000 * BL_NS_PER_S);
    return 0;
}

/* ---- Owners ---- */

static struct bl_store *store_elsewhere(const struct place *place)
{
    setenv("BELAY_HOST", "elsewhere", 1);
    struct bl_store *store = store_at(place);
    unsetenv("BELAY_HOST");
    return store;
}

STORE_TEST(F28_a_live_owner_keeps_its_feature_and_a_dead_one_loses_it_at_once)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list records;
    struct bl_store_owner owner;
    struct grasp grasp;
    struct actor actor;
    char text[64];
    actor_start(&actor, "feature", place, "hold", false);
    actor_expect(&actor, "no error");
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), BL_EBUSY);
    snprintf(text, sizeof text, "pid %d on ", (int)actor.pid);
    CHECK(strstr(grasp.error.message, text) != NULL);
    CHECK(strstr(grasp.error.hint, "--take-over") != NULL);
    CHECK(grasp.error.kind == BL_KIND_SESSION && grasp.owner.life == BL_OWNER_ALIVE);
    CHECK(grasp.owner.pid == actor.pid &&
          grasp.owner.pid_started == bl_store_process_started(actor.pid));
    /* Alive, even without renewals. */
    change_file(place, "UPDATE feature_lease SET until = 0");
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), BL_EBUSY);
    actor_kill(&actor);
    CHECK_EQUAL(bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, NULL, &records, &owner,
                                      NULL, NULL),
                0);
    CHECK(owner.life == BL_OWNER_DEAD && owner.pid == actor.pid);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK(grasp.owner.life == BL_OWNER_DEAD && grasp.owner.pid == actor.pid);
    CHECK(strncmp(grasp.owner.text, text, strlen(text)) == 0);
    CHECK_EQUAL(bl_store_feature_epoch(grasp.held), 2);
    bl_arena_done(&arena);
    release_feature(&grasp);
    /* Reported once. */
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(grasp.owner.life, BL_OWNER_NONE);
    release_feature(&grasp);
    bl_store_close(store);
}

STORE_TEST(F28_of_many_processes_one_holds_the_feature)
{
    struct actor actors[4];
    char line[64];
    int held = 0;
    for (size_t i = 0; i < BL_COUNT(actors); i++)
        actor_start(&actors[i], "feature", place, "hold", false);
    for (size_t i = 0; i < BL_COUNT(actors); i++) {
        CHECK(actor_line(&actors[i], line, sizeof line));
        held += strcmp(line, "no error") == 0;
        CHECK(strcmp(line, "no error") == 0 || strcmp(line, "BL_EBUSY") == 0);
    }
    CHECK_EQUAL(held, 1);
    for (size_t i = 0; i < BL_COUNT(actors); i++)
        actor_kill(&actors[i]);
    CHECK_EQUAL(ask_integer(place, "SELECT epoch FROM feature_lease"), 1);
}

/* Changes the lease as if another process held it. Returns the life that the next holder sees. */
static int life_after(const struct place *place, struct bl_store *store, const char *change)
{
    struct grasp grasp;
    char sql[256];
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    release_feature(&grasp);
    snprintf(sql, sizeof sql, "UPDATE feature_lease SET owner = 'own_other', %s", change);
    change_file(place, sql);
    int code = hold_feature(&grasp, store, FEATURE);
    bool free = grasp.owner.life == BL_OWNER_DEAD || grasp.owner.life == BL_OWNER_NONE;
    CHECK_EQUAL(code, free ? 0 : BL_EBUSY);
    release_feature(&grasp);
    change_file(place, "UPDATE feature_lease SET owner = NULL");
    return (int)grasp.owner.life;
}

STORE_TEST(F28_a_reused_pid_is_not_the_owner)
{
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(life_after(place, store, "pid = pid"), BL_OWNER_ALIVE);
    CHECK_EQUAL(life_after(place, store, "started = started + 1"), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "pid = 1, started = -1"), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "pid = 4194305"), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "boot = 'before'"), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "host = 'elsewhere'"), BL_OWNER_OUT_OF_SIGHT);
    CHECK_EQUAL(life_after(place, store, "host = 'elsewhere', until = 0"), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "pid_space = 'pid:[1]'"), BL_OWNER_OUT_OF_SIGHT);
    CHECK_EQUAL(life_after(place, store, "pid_space = 'pid:[1]', until = 0"), BL_OWNER_DEAD);
    CHECK_EQUAL(life_after(place, store, "owner = NULL"), BL_OWNER_NONE);
    bl_store_close(store);
}

STORE_TEST(a_lease_of_a_feature_that_this_store_left_is_taken_again)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list records;
    struct bl_store_owner owner;
    struct grasp grasp;
    char sql[128];
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    release_feature(&grasp);
    snprintf(sql, sizeof sql, "UPDATE feature_lease SET owner = '%s'", store->owner);
    change_file(place, sql);
    CHECK_EQUAL(bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, NULL, &records, &owner,
                                      NULL, NULL),
                0);
    CHECK_EQUAL(owner.life, BL_OWNER_DEAD);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(grasp.owner.life, BL_OWNER_DEAD);
    bl_arena_done(&arena);
    release_feature(&grasp);
    bl_store_close(store);
}

STORE_TEST(F27_another_host_waits_until_the_lease_expires_and_each_write_renews_it)
{
    struct bl_store *store = store_at(place), *other = store_elsewhere(place);
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

/* Reads all feature data in the store. */
static void read_all(const struct place *place, char *out, size_t out_size)
{
    ask_text(place,
             "SELECT (SELECT group_concat(quote(key) || quote(created) || quote(updated) ||"
             " quote(generation) || quote(name) || quote(run)) FROM feature) ||"
             " (SELECT group_concat(quote(feature) || quote(epoch) || quote(owner) ||"
             " quote(handle) || quote(pid) || quote(since) || quote(until) || quote(host))"
             " FROM feature_lease) || coalesce((SELECT group_concat(quote(key) ||"
             " quote(generation) || quote(name) || quote(json)) FROM feature_record), '') ||"
             " coalesce((SELECT group_concat(quote(generation) || quote(number) || quote(json))"
             " FROM feature_event), '')",
             out, out_size);
}

STORE_TEST(F27_a_former_owner_that_wakes_up_changes_nothing)
{
    struct bl_store *other = store_elsewhere(place);
    struct actor actor;
    struct grasp there;
    char before[2048] = "", after[2048] = "";
    int status = 0;
    actor_start(&actor, "feature", place, "ghost", false);
    CHECK(waitpid(actor.pid, &status, WUNTRACED) == actor.pid && WIFSTOPPED(status));
    CHECK_EQUAL(hold_feature(&there, other, FEATURE), BL_EBUSY);
    change_file(place, "UPDATE feature_lease SET until = 1");
    CHECK_EQUAL(hold_feature(&there, other, FEATURE), 0);
    CHECK(there.owner.life == BL_OWNER_DEAD && there.owner.pid == actor.pid);
    CHECK(records_are(other, NULL, "task/A={\"of\":\"ghost\"}"));
    read_all(place, before, sizeof before);
    CHECK(strstr(before, "ghost") != NULL);
    kill(actor.pid, SIGCONT);
    actor_expect(&actor, "BL_EBUSY stale_write");
    actor_expect(&actor, "loosened");
    read_all(place, after, sizeof after);
    CHECK(strcmp(before, after) == 0);
    CHECK_EQUAL(put_record(&there, "task/A", "{}"), 0);
    release_feature(&there);
    actor_kill(&actor);
    bl_store_close(other);
}

static unsigned batches;

static void count_batches(void *context, struct bl_list *jobs)
{
    batches++;
    sqlite_write(context, jobs);
}

static int put_one(void *argument)
{
    return put_record(argument, "a", "{}");
}

STORE_TEST(a_stale_write_takes_no_other_of_its_batch_along)
{
    struct bl_nursery nursery;
    struct bl_fiber *fibers[2];
    int results[2] = {0};
    struct bl_store *store = store_at(place);
    struct grasp stale, well;
    CHECK_EQUAL(hold_feature(&stale, store, FEATURE), 0);
    CHECK_EQUAL(hold_feature(&well, store, "FEAT-BILL"), 0);
    change_file(place, "UPDATE feature_lease SET epoch = epoch + 1 WHERE feature = 1");
    store->writer.run = count_batches;
    batches = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stale", put_one, &stale, &fibers[0]);
    bl_nursery_spawn(&nursery, NULL, "well", put_one, &well, &fibers[1]);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(bl_fiber_join(fibers[i], &results[i]), 0);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(batches, 1);
    CHECK(results[0] == BL_EBUSY && results[1] == 0);
    CHECK(stale.error.kind == BL_KIND_SESSION && strcmp(stale.error.name, "stale_write") == 0);
    CHECK(strstr(stale.error.message, FEATURE) != NULL && stale.error.hint[0] != '\0');
    CHECK_EQUAL(bl_store_feature_write(stale.held, &(struct bl_store_feature_write){0}, NULL),
                BL_EBUSY);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_record WHERE feature = 2"), 1);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_record"), 1);
    release_feature(&stale);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_lease WHERE owner IS NOT NULL"),
                2);
    release_feature(&well);
    bl_store_close(store);
}

/* ---- Kills ---- */

/* Checks the writes: confirmed ones are there, with at most one more: both records and the event,
 * in the generation that it started. Returns the last number. */
static int64_t check_written(const struct place *place, int64_t answered)
{
    char text[64];
    ask_text(place, "PRAGMA integrity_check", text, sizeof text);
    CHECK(strcmp(text, "ok") == 0);
    int64_t last = ask_integer(place, "SELECT coalesce(max(number), 0) FROM feature_event");
    CHECK(last == answered || last == answered + 1);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_event WHERE"
                                   " json = '{\"n\":' || number || '}'"),
                last);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_event WHERE"
                                   " generation <> 1 + number / 6"),
                0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature WHERE generation <> 1 + (SELECT"
                                   " coalesce(max(number), 0) FROM feature_event) / 6"),
                0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_record JOIN feature USING"
                                   " (generation) WHERE json = '{\"n\":' || (SELECT max(number)"
                                   " FROM feature_event) || '}'"),
                last > 0 ? 2 : 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_record WHERE NOT"
                                   " json_valid(json)"),
                0);
    return last;
}

static int kill_writers(void *argument BL_UNUSED)
{
    struct bl_random random;
    struct place place;
    uint64_t seed = 0;
    unsigned rounds = (unsigned)suite_rounds(SUITE_SANITIZED ? 4 : 6, 1000);
    int64_t last = 0;
    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&random, seed);
    place_make(&place);
    for (unsigned i = 0; i < rounds; i++) {
        struct actor actor;
        char line[64];
        actor_start(&actor, "feature", &place, "writer", false);
        snprintf(line, sizeof line, "no error %d", i == 0 ? BL_OWNER_NONE : BL_OWNER_DEAD);
        actor_expect(&actor, line);
        bl_sleep(bl_random_below(&random, 40 * MS));
        kill(actor.pid, SIGKILL);
        while (actor_line(&actor, line, sizeof line))
            CHECK_EQUAL(bl_text_to_int64(bl_text_from(line), &last), 0);
        CHECK_EQUAL(actor_end(&actor), -1);
        last = check_written(&place, last);
    }
    CHECK(last > 0);
    place_remove(&place);
    return 0;
}

static void F14_a_writer_killed_at_any_moment_leaves_complete_writes(void **state BL_UNUSED)
{
    run_in_loop(kill_writers, NULL);
}

/* ---- Disks that fail ---- */

STORE_TEST(a_write_whose_sync_failed_never_comes_back)
{
    struct actor actor;
    char line[32];
    actor_start(&actor, "feature", place, "sync-fails", true);
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
    actor_start(&actor, "feature", place, "void-fails", true);
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
    actor_start(&actor, "feature", argument, "full", false);
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
    actor_start(&actor, "feature", place, "read-only", false);
    CHECK_EQUAL(actor_end(&actor), 0);
    CHECK_EQUAL(chmod(place->folder, 0700), 0);
}

SUITE(sqlite_feature,
      cmocka_unit_test(F28_a_live_owner_keeps_its_feature_and_a_dead_one_loses_it_at_once),
      cmocka_unit_test(F28_of_many_processes_one_holds_the_feature),
      cmocka_unit_test(F28_a_reused_pid_is_not_the_owner),
      cmocka_unit_test(a_lease_of_a_feature_that_this_store_left_is_taken_again),
      cmocka_unit_test(F27_another_host_waits_until_the_lease_expires_and_each_write_renews_it),
      cmocka_unit_test(F27_a_former_owner_that_wakes_up_changes_nothing),
      cmocka_unit_test(a_stale_write_takes_no_other_of_its_batch_along),
      cmocka_unit_test(F14_a_writer_killed_at_any_moment_leaves_complete_writes),
      cmocka_unit_test(a_write_whose_sync_failed_never_comes_back),
      cmocka_unit_test(write_that_cannot_be_undone_is_unknown),
      cmocka_unit_test(disk_full_in_the_store_leaves_old_records_whole),
      cmocka_unit_test(features_are_read_in_a_folder_that_cannot_be_written_to));
