/* Failing disks. The store is in a separate process (role_faults), with a library that makes its
 * syncs fail or hang, or on a full disk. Then the process is killed, and the file opened again. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "helpers.h"

#define SHIELD_NS (300 * MS)

/* ---- The process with the failing disk ---- */

static void stay(void)
{
    bl_sleep(1000 * BL_NS_PER_S);
}

static void report_commit(struct holding *holding, const char *turn_id)
{
    int code = begin_turn(holding, turn_id);
    if (code != 0) {
        report("begin %s", bl_error_name(code));
        return;
    }
    code = commit_turn(holding, turn_id);
    report("%s%s%s", bl_error_name(code), holding->error.name[0] != '\0' ? " " : "",
           holding->error.name);
}

/* One sync fails; later operations are not affected. */
static void play_sync_fails(struct bl_store *store BL_UNUSED, struct holding *holding)
{
    arm("faulty_syncs", 1);
    report_commit(holding, "turn_2");
    if (strcmp(role_argument, "once") == 0)
        return;
    report("%s", bl_error_name(reject_turn(holding, "turn_2")));
    report_commit(holding, "turn_3");
    /* The log is trusted again, so a reader of it does not block the writer. */
    sqlite3 *db = NULL;
    CHECK_EQUAL(sqlite3_open(role_place.path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db, "BEGIN; SELECT * FROM turn", NULL, NULL, NULL), SQLITE_OK);
    report_commit(holding, "turn_4");
    sqlite3_close(db);
}

/* As many syncs fail as the argument says, or all until the disk works again. */
static void play_disk_dead(struct bl_store *store BL_UNUSED, struct holding *holding)
{
    int64_t count = 0;
    bl_text_to_int64(bl_text_from(role_argument), &count);
    arm("faulty_syncs", (int)count);
    report_commit(holding, "turn_2");
    report_commit(holding, "turn_3");
    report("%s", bl_error_name(bl_store_renew(holding->held, NULL)));
    report("%s", bl_error_name(reject_turn(holding, "turn_3")));
    arm("faulty_syncs", 0);
    report_commit(holding, "turn_4");
}

/* The failed write cannot be undone either. */
static void play_void_fails(struct bl_store *store BL_UNUSED, struct holding *holding)
{
    CHECK_EQUAL(begin_turn(holding, "turn_2"), 0);
    arm("faulty_writes", 1000000);
    arm("faulty_syncs", 1);
    int code = commit_turn(holding, "turn_2");
    report("%s %s", bl_error_name(code), holding->error.name);
}

/* A compaction is refused in the same way as a commit. */
static void play_compact_fails(struct bl_store *store BL_UNUSED, struct holding *holding)
{
    bool once = strcmp(role_argument, "once") == 0;
    CHECK_EQUAL(compact_session(holding, 0, "before"), 0);
    arm("faulty_writes", once ? 0 : 1000000);
    arm("faulty_syncs", 1);
    int code = compact_session(holding, 1, "after");
    report("%s%s%s", bl_error_name(code), once ? "" : " ", holding->error.name);
    report("%s", bl_error_name(begin_turn(holding, "turn_2")));
}

static int commit_in_group(void *argument)
{
    int code = begin_turn(argument, "turn_2");
    return code != 0 ? code : commit_turn(argument, "turn_2");
}

/* This commit is refused by itself: the turn was not begun. */
static int commit_unbegun(void *argument)
{
    struct holding *holding = argument;
    int code = bl_store_renew(holding->held, NULL);
    return code != 0 ? code : commit_turn(holding, "turn_2");
}

/* So is this one: the session has another owner. It commits in the second batch, like the others.
 */
static int commit_overtaken(void *argument)
{
    struct holding *holding = argument;
    int code = bl_store_renew(holding->held, NULL);
    return code != BL_EBUSY ? BL_EUNKNOWN : commit_turn(holding, "turn_2");
}

static void play_group_fails(struct bl_store *store, struct holding *holding)
{
    struct bl_nursery nursery;
    struct holding others[8];
    struct bl_fiber *fibers[BL_COUNT(others)];
    char id[16];
    for (size_t i = 0; i < BL_COUNT(others); i++) {
        snprintf(id, sizeof id, "other-%zu", i);
        CHECK_EQUAL(hold(&others[i], store, id), 0);
    }
    /* The running turn of the last session has another owner by now. */
    CHECK_EQUAL(begin_turn(&others[7], "turn_2"), 0);
    change_file(&role_place, "UPDATE lease SET epoch = epoch + 1 WHERE session ="
                             " (SELECT key FROM session WHERE id = 'other-7')");
    bl_nursery_init(&nursery, bl_scope_current());
    arm("faulty_syncs", 1);
    for (size_t i = 0; i < BL_COUNT(others); i++)
        bl_nursery_spawn(&nursery, NULL, "commit",
                         i == 3   ? commit_unbegun
                         : i == 7 ? commit_overtaken
                                  : commit_in_group,
                         &others[i], &fibers[i]);
    for (size_t i = 0; i < BL_COUNT(others); i++) {
        int code = 0;
        CHECK_EQUAL(bl_fiber_join(fibers[i], &code), 0);
        report("%s", bl_error_name(code));
    }
    bl_nursery_done(&nursery);
    report_commit(holding, "turn_2");
}

/* A sync that does not return; the limit of the caller's shield ends the wait. */
static void play_sync_hangs(struct bl_store *store, struct holding *holding)
{
    struct bl_scope shield;
    struct holding other;
    store->writer.stuck_after_ns = SHIELD_NS;
    CHECK_EQUAL(hold(&other, store, "other"), 0);
    CHECK_EQUAL(begin_turn(holding, "turn_2"), 0);
    arm("faulty_hang", 1);
    uint64_t start_ns = bl_now_ns();
    bl_shield_begin(&shield, SHIELD_NS);
    int code = commit_turn(holding, "turn_2");
    bl_shield_end(&shield);
    report("%s %s", bl_error_name(code), holding->error.name);
    CHECK(bl_now_ns() - start_ns >= SHIELD_NS);
    store->writer.stuck_after_ns = MS; /* it may have begun long after the shield */
    start_ns = bl_now_ns();
    report("%s", bl_error_name(begin_turn(&other, "turn_1")));
    report("%s", bl_error_name(begin_turn(holding, "turn_3")));
    CHECK(bl_now_ns() - start_ns < SHIELD_NS);
    release(holding);
    if (strcmp(role_argument, "stays") == 0) {
        release(&other);
        start_ns = bl_now_ns();
        bl_store_close(store);
        CHECK(bl_now_ns() - start_ns < SHIELD_NS);
        report("closed");
        return;
    }
    arm("faulty_hang", 0);
    store->writer.stuck_after_ns = SHIELD_NS;
    while ((code = begin_turn(&other, "turn_1")) == BL_EBUSY)
        bl_sleep(MS);
    report("%s", bl_error_name(code));
    report("%s", bl_error_name(hold(holding, store, "alpha")));
    const struct bl_store_recovery *recovery = bl_store_session_recovery(holding->held);
    report("%d %s '%s'", recovery->owner_died, recovery->last_turn, recovery->cut_off);
}

/* A disk of one megabyte in its own mount namespace. */
static int play_full(void)
{
    struct holding large, small;
    struct bl_settlement settlement;
    struct bl_buffer events;
    char path[192];
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("belay-test", role_place.folder, "tmpfs", 0, "size=1m") != 0) {
        report("skipped: %s", strerror(errno));
        return 0;
    }
    report("mounted");
    struct bl_store *store = store_at(&role_place);
    CHECK_EQUAL(hold(&large, store, "large"), 0);
    CHECK_EQUAL(hold(&small, store, "small"), 0);
    add_turn(&large, "turn_1");
    snprintf(path, sizeof path, "%s/filler", role_place.folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK_EQUAL(posix_fallocate(fd, 0, 400 * 1024), 0);
    close(fd);
    bl_buffer_init(&events, SIZE_MAX / 2);
    while (events.size < (size_t)700 * 1024)
        bl_buffer_append(&events, BL_TEXT("{\"type\":\"warning\",\"text\":\"so much to say\"}\n"));
    CHECK_EQUAL(begin_turn(&large, "turn_2"), 0);
    fill_settlement(&settlement, "turn_2");
    settlement.events = bl_buffer_text(&events);
    struct bl_error error = {0};
    report("%s", bl_error_name(large.table->commit(large.table->context, &settlement, &error)));
    report("%s", bl_error_kind_name(error.kind));
    CHECK(error.hint[0] != '\0');
    report("%s", bl_error_name(reject_turn(&large, "turn_2")));
    report_commit(&small, "turn_1");
    CHECK_EQUAL(ask_integer(&role_place, "SELECT count(*) FROM turn"), 2);
    CHECK_EQUAL(unlink(path), 0);
    report_commit(&large, "turn_3");
    bl_buffer_done(&events);
    release(&large);
    release(&small);
    bl_store_close(store);
    char answer[32];
    ask_text(&role_place, "PRAGMA integrity_check", answer, sizeof answer);
    report("%s", answer);
    CHECK_EQUAL(umount(role_place.folder), 0);
    return 0;
}

/* A limit on file sizes: the system refuses in the middle of a write. */
static int play_limited(void)
{
    struct holding holding;
    struct bl_settlement settlement;
    struct bl_buffer events;
    struct bl_error error = {0};
    struct bl_store *store = store_at(&role_place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){300 * 1024, RLIM_INFINITY});
    bl_buffer_init(&events, SIZE_MAX / 2);
    while (events.size < (size_t)700 * 1024)
        bl_buffer_append(&events, BL_TEXT("{\"type\":\"warning\",\"text\":\"so much to say\"}\n"));
    fill_settlement(&settlement, "turn_2");
    settlement.events = bl_buffer_text(&events);
    report("%s", bl_error_name(holding.table->commit(holding.table->context, &settlement, &error)));
    report("%s", bl_error_kind_name(error.kind));
    report_commit(&holding, "turn_3");
    bl_buffer_done(&events);
    stay();
    return 0;
}

/* What SQLite does by itself: the reason for these measures. */
static int play_bare(void)
{
    sqlite3 *db;
    CHECK_EQUAL(sqlite3_open(role_place.path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db,
                             "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                             "CREATE TABLE t (x); INSERT INTO t VALUES (1)",
                             NULL, NULL, NULL),
                SQLITE_OK);
    arm("faulty_syncs", 1);
    report("%d", sqlite3_exec(db, "INSERT INTO t VALUES (2)", NULL, NULL, NULL) & 0xff);
    stay();
    return 0;
}

int role_faults(void *argument)
{
    static const struct {
        const char *name;
        void (*play)(struct bl_store *store, struct holding *holding);
    } plays[] = {{"sync-fails", play_sync_fails},   {"disk-dead", play_disk_dead},
                 {"void-fails", play_void_fails},   {"compact-fails", play_compact_fails},
                 {"group-fails", play_group_fails}, {"sync-hangs", play_sync_hangs}};
    const char *name = argument;
    struct holding holding;
    if (strcmp(name, "full") == 0)
        return play_full();
    if (strcmp(name, "limited") == 0)
        return play_limited();
    if (strcmp(name, "bare") == 0)
        return play_bare();
    struct bl_store *store = store_at(&role_place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    for (size_t i = 0; i < BL_COUNT(plays); i++) {
        if (strcmp(plays[i].name, name) == 0)
            plays[i].play(store, &holding);
    }
    report("over");
    stay();
    return 0;
}

/* ---- The checking process ---- */

static void check_whole(const struct place *place)
{
    char answer[64];
    ask_text(place, "PRAGMA integrity_check", answer, sizeof answer);
    CHECK(strcmp(answer, "ok") == 0);
}

STORE_TEST(sqlite_alone_restores_refused_commits)
{
    struct actor actor;
    actor_start(&actor, "bare", place, NULL, true);
    actor_expect(&actor, "10"); /* SQLITE_IOERR */
    actor_kill(&actor);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM t"), 2);
}

STORE_TEST(a_commit_whose_sync_failed_never_comes_back)
{
    struct actor actor;
    struct holding holding;
    actor_start(&actor, "sync-fails", place, "once", true);
    actor_expect(&actor, "BL_EIO");
    actor_expect(&actor, "over");
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.session.turns_total, 1);
    CHECK(strcmp(bl_store_session_recovery(holding.held)->last_turn, "turn_1") == 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM attempt WHERE id = 'turn_2' AND"
                                   " state = 'rejected' AND spent_input = 12"),
                1);
    release(&holding);
    bl_store_close(store);
    check_whole(place);
}

STORE_TEST(after_a_failed_sync_the_next_commit_is_durable_again)
{
    struct actor actor;
    struct holding holding;
    actor_start(&actor, "sync-fails", place, "go-on", true);
    actor_expect(&actor, "BL_EIO");
    actor_expect(&actor, "no error");
    actor_expect(&actor, "no error");
    actor_expect(&actor, "no error");
    actor_expect(&actor, "over");
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.session.turns_total, 3);
    CHECK(strcmp(bl_store_session_recovery(holding.held)->last_turn, "turn_4") == 0);
    CHECK_EQUAL(bl_store_session_recovery(holding.held)->cut_off[0], '\0');
    release(&holding);
    bl_store_close(store);
    check_whole(place);
}

static void look_at_dead_disk(const struct place *place, const char *syncs)
{
    static const char *const lines[] = {"BL_EIO",   "BL_EIO",   "no error",
                                        "no error", "no error", "over"};
    struct actor actor;
    actor_start(&actor, "disk-dead", place, syncs, true);
    for (size_t i = 0; i < BL_COUNT(lines); i++)
        actor_expect(&actor, lines[i]);
    actor_kill(&actor);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 2);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn WHERE id = 'turn_4'"), 1);
    check_whole(place);
}

STORE_TEST(commits_are_refused_on_a_dead_disk_and_other_work_continues)
{
    look_at_dead_disk(place, "1000000");
}

/* The second failing sync is that of the log when it is moved into the file. */
STORE_TEST(a_commit_is_refused_when_the_log_before_it_cannot_be_trusted)
{
    look_at_dead_disk(place, "2");
}

STORE_TEST(refused_commit_that_cannot_be_undone_is_unknown)
{
    struct actor actor;
    struct holding holding;
    actor_start(&actor, "void-fails", place, NULL, true);
    actor_expect(&actor, "BL_EUNKNOWN commit_unknown");
    actor_expect(&actor, "over");
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    const struct bl_store_recovery *recovery = bl_store_session_recovery(holding.held);
    bool there = strcmp(recovery->last_turn, "turn_2") == 0;
    CHECK(recovery->owner_died);
    CHECK_EQUAL(holding.session.turns_total, there ? 2 : 1);
    CHECK(strcmp(recovery->cut_off, there ? "" : "turn_2") == 0);
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(a_compaction_whose_sync_failed_never_comes_back)
{
    struct actor actor;
    struct holding holding;
    actor_start(&actor, "compact-fails", place, "once", true);
    actor_expect(&actor, "BL_EIO");
    actor_expect(&actor, "no error");
    actor_expect(&actor, "over");
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK(has_summary(&holding, "before"));
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    CHECK_EQUAL(holding.session.usage.input_tokens, 13);
    release(&holding);
    bl_store_close(store);
    check_whole(place);
}

STORE_TEST(compaction_that_cannot_be_undone_is_unknown)
{
    struct actor actor;
    struct holding holding;
    actor_start(&actor, "compact-fails", place, "for-good", true);
    actor_expect(&actor, "BL_EUNKNOWN commit_unknown");
    actor_expect(&actor, "BL_EUNKNOWN");
    actor_expect(&actor, "over");
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    bool there = has_summary(&holding, "after");
    CHECK(there || has_summary(&holding, "before"));
    CHECK_EQUAL(holding.session.turns_in_context, there ? 0 : 1);
    CHECK_EQUAL(holding.session.usage.input_tokens, there ? 16 : 13);
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(group_with_a_failed_sync_is_refused_and_undone)
{
    struct actor actor;
    actor_start(&actor, "group-fails", place, NULL, true);
    for (int i = 0; i < 8; i++)
        actor_expect(&actor, i == 3 ? "BL_EEXIST" : i == 7 ? "BL_ECLOSED" : "BL_EIO");
    actor_expect(&actor, "no error");
    actor_expect(&actor, "over");
    actor_kill(&actor);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 2);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM attempt WHERE state = 'rejected'"), 6);
    /* It is for its owner to end. */
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM running WHERE id = 'turn_2'"), 1);
    check_whole(place);
}

STORE_TEST(a_sync_that_hangs_is_an_unknown_commit_and_the_next_open_says_which)
{
    struct actor actor;
    struct holding holding;
    actor_start(&actor, "sync-hangs", place, "stays", true);
    actor_expect(&actor, "BL_EUNKNOWN commit_unknown");
    actor_expect(&actor, "BL_EBUSY");
    actor_expect(&actor, "BL_EUNKNOWN");
    actor_expect(&actor, "closed");
    actor_expect(&actor, "over");
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    const struct bl_store_recovery *recovery = bl_store_session_recovery(holding.held);
    bool there = strcmp(recovery->last_turn, "turn_2") == 0;
    CHECK(recovery->owner_died);
    CHECK_EQUAL(holding.session.turns_total, there ? 2 : 1);
    CHECK(strcmp(recovery->cut_off, there ? "" : "turn_2") == 0);
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(a_thread_that_comes_back_makes_the_store_usable_again)
{
    static const char *const lines[] = {"BL_EUNKNOWN commit_unknown",
                                        "BL_EBUSY",
                                        "BL_EUNKNOWN",
                                        "no error",
                                        "no error",
                                        "1 turn_2 ''",
                                        "over"};
    struct actor actor;
    actor_start(&actor, "sync-hangs", place, "comes-back", true);
    for (size_t i = 0; i < BL_COUNT(lines); i++)
        actor_expect(&actor, lines[i]);
    actor_kill(&actor);
}

static bool no_mount;

static int look_at_full_disk(void *argument)
{
    static const char *const lines[] = {"BL_ENOSPC", "filesystem", "no error",
                                        "no error",  "no error",   "ok"};
    struct actor actor;
    char line[128] = "";
    actor_start(&actor, "full", argument, NULL, false);
    actor_line(&actor, line, sizeof line);
    no_mount = strcmp(line, "mounted") != 0;
    for (size_t i = 0; i < BL_COUNT(lines) && !no_mount; i++)
        actor_expect(&actor, lines[i]);
    CHECK_EQUAL(actor_end(&actor), 0);
    return 0;
}

static void a_full_disk_refuses_what_does_not_fit(void **state BL_UNUSED)
{
    struct place place;
    place_make(&place);
    run_in_loop(look_at_full_disk, &place);
    place_remove(&place);
    if (no_mount)
        suite_skip("needs the right to mount");
}

STORE_TEST(a_limit_on_file_sizes_refuses_and_leaves_the_session_as_it_was)
{
    struct actor actor;
    actor_start(&actor, "limited", place, NULL, false);
    actor_expect(&actor, "BL_EIO");
    actor_expect(&actor, "filesystem");
    actor_expect(&actor, "no error");
    actor_kill(&actor);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 2);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn WHERE id = 'turn_2'"), 0);
    check_whole(place);
}

SUITE(faults, cmocka_unit_test(sqlite_alone_restores_refused_commits),
      cmocka_unit_test(a_commit_whose_sync_failed_never_comes_back),
      cmocka_unit_test(after_a_failed_sync_the_next_commit_is_durable_again),
      cmocka_unit_test(commits_are_refused_on_a_dead_disk_and_other_work_continues),
      cmocka_unit_test(a_commit_is_refused_when_the_log_before_it_cannot_be_trusted),
      cmocka_unit_test(refused_commit_that_cannot_be_undone_is_unknown),
      cmocka_unit_test(a_compaction_whose_sync_failed_never_comes_back),
      cmocka_unit_test(compaction_that_cannot_be_undone_is_unknown),
      cmocka_unit_test(group_with_a_failed_sync_is_refused_and_undone),
      cmocka_unit_test(a_sync_that_hangs_is_an_unknown_commit_and_the_next_open_says_which),
      cmocka_unit_test(a_thread_that_comes_back_makes_the_store_usable_again),
      cmocka_unit_test(a_full_disk_refuses_what_does_not_fit),
      cmocka_unit_test(a_limit_on_file_sizes_refuses_and_leaves_the_session_as_it_was));
