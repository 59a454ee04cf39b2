/* A failed sync, followed by a power cut: what the kernel forgot to write is lost, and what was
 * confirmed as durable since then is there. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "helpers.h"

#define LOG_PAGE  4096
#define LOG_PAGES 16384

/* ---- The process with the failing disk ---- */

static int put_soon(struct grasp *grasp, struct bl_row *record)
{
    struct bl_list list;
    bl_list_init(&list);
    bl_list_push_back(&list, &record->link);
    return bl_store_feature_write(grasp->held, &(struct bl_store_feature_write){.records = &list},
                                  &grasp->error);
}

/* A record that is not synced itself precedes a synced one in the log, and fails with it. */
static void play_feature(struct bl_store *store)
{
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_record(&grasp, "task/A", "{}"), 0);
    struct bl_row soon = {.name = "task/B", .json = BL_TEXT("{}")};
    CHECK_EQUAL(put_soon(&grasp, &soon), 0);
    arm("faulty_syncs", 1);
    report("%s", bl_error_name(put_record(&grasp, "task/C", "{}")));
    report("%s", bl_error_name(put_record(&grasp, "task/D", "{}")));
}

/* The log is long enough to be moved into the file, and just that sync fails, which no caller notices. */
static void play_long_log(struct bl_store *store)
{
    struct grasp grasp;
    struct bl_buffer json;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_record(&grasp, "task/A", "{}"), 0);
    bl_buffer_init(&json, SIZE_MAX / 2);
    bl_buffer_append(&json, BL_TEXT("{\"text\":\""));
    while (json.size < (size_t)10 << 20)
        bl_buffer_append(&json, BL_TEXT("so much to say, "));
    bl_buffer_append(&json, BL_TEXT("\"}"));
    struct bl_row soon = {.name = "long", .json = bl_buffer_text(&json)};
    arm("faulty_syncs", 1);
    report("%s", bl_error_name(put_soon(&grasp, &soon)));
    report("%s", bl_error_name(put_record(&grasp, "task/D", "{}")));
    bl_buffer_done(&json);
}

static void play_session(struct bl_store *store)
{
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
    arm("faulty_syncs", 1);
    report("%s", bl_error_name(commit_turn(&holding, "turn_2")));
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_3"), 0);
    report("%s", bl_error_name(commit_turn(&holding, "turn_3")));
}

static int commit_one(void *argument)
{
    return commit_turn(argument, "turn_2");
}

/* A group cannot be written, so each job is tried alone, and the first of these syncs fails. */
static void play_one_by_one(struct bl_store *store)
{
    struct bl_nursery nursery;
    struct holding holdings[3];
    struct bl_fiber *fibers[BL_COUNT(holdings)];
    int codes[BL_COUNT(holdings)];
    play_session(store); /* writes fail only after a sync has */
    for (size_t i = 0; i < BL_COUNT(holdings); i++) {
        CHECK_EQUAL(hold(&holdings[i], store, NULL), 0);
        CHECK_EQUAL(begin_turn(&holdings[i], "turn_2"), 0);
    }
    arm("faulty_writes", 1);
    arm("faulty_syncs", 1);
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < BL_COUNT(holdings); i++)
        bl_nursery_spawn(&nursery, NULL, "commit", commit_one, &holdings[i], &fibers[i]);
    for (size_t i = 0; i < BL_COUNT(holdings); i++)
        CHECK_EQUAL(bl_fiber_join(fibers[i], &codes[i]), 0);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(codes[0], BL_EIO);
    CHECK_EQUAL(codes[1], 0);
    CHECK_EQUAL(codes[2], 0);
}

int role_power_cut(void *argument BL_UNUSED)
{
    struct bl_store *store = NULL;
    CHECK_EQUAL(bl_store_open(role_place.path, &store, NULL), 0);
    int (*is_lost)(int) = NULL;
    *(void **)&is_lost = dlsym(RTLD_DEFAULT, "faulty_page_lost");
    if (strcmp(role_argument, "feature") == 0)
        play_feature(store);
    else if (strcmp(role_argument, "long-log") == 0)
        play_long_log(store);
    else if (strcmp(role_argument, "one-by-one") == 0)
        play_one_by_one(store);
    else
        play_session(store);
    for (int i = 0; is_lost != NULL && i < LOG_PAGES; i++)
        if (is_lost(i))
            report("%d", i);
    report(is_lost != NULL ? "over" : "no library");
    bl_sleep(1000 * BL_NS_PER_S);
    return 0;
}

/* ---- The process that cuts the power ---- */

/* `first` is the role's report of the write before the last. */
static void cut_power(const struct place *place, const char *what, const char *first)
{
    static const char nothing[LOG_PAGE];
    struct actor actor;
    char line[64], path[192];
    int64_t page;
    actor_start(&actor, "power-cut", place, what, true);
    actor_expect(&actor, first);
    actor_expect(&actor, "no error");
    snprintf(path, sizeof path, "%s-wal", place->path);
    int log = open(path, O_RDWR | O_CLOEXEC);
    CHECK(log >= 0);
    while (actor_line(&actor, line, sizeof line) &&
           bl_text_to_int64(bl_text_from(line), &page) == 0)
        CHECK_EQUAL(pwrite(log, nothing, LOG_PAGE, page * LOG_PAGE), LOG_PAGE);
    CHECK(strcmp(line, "over") == 0);
    actor_kill(&actor);
    close(log);
}

STORE_TEST(what_a_feature_wrote_after_a_failed_sync_survives_a_power_cut)
{
    cut_power(place, "feature", "BL_EIO");
    struct bl_store *store = store_at(place);
    CHECK(records_are(store, NULL, "task/A={} task/B={} task/D={}"));
    bl_store_close(store);
}

STORE_TEST(writes_after_a_failed_checkpoint_survive_a_power_cut)
{
    cut_power(place, "long-log", "no error");
    struct bl_store *store = store_at(place);
    CHECK(records_are(store, "task/", "task/A={} task/D={}"));
    bl_store_close(store);
}

STORE_TEST(a_turn_after_a_failed_sync_survives_a_power_cut)
{
    struct holding holding;
    cut_power(place, "session", "BL_EIO");
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.session.turns_total, 2);
    CHECK(strcmp(bl_store_session_recovery(holding.held)->last_turn, "turn_3") == 0);
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(turns_after_a_failed_sync_of_their_own_group_survive_a_power_cut)
{
    cut_power(place, "one-by-one", "BL_EIO");
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn WHERE id = 'turn_2'"), 2);
    bl_store_close(store);
}

SUITE(power_cut, cmocka_unit_test(what_a_feature_wrote_after_a_failed_sync_survives_a_power_cut),
      cmocka_unit_test(writes_after_a_failed_checkpoint_survive_a_power_cut),
      cmocka_unit_test(turns_after_a_failed_sync_of_their_own_group_survive_a_power_cut),
      cmocka_unit_test(a_turn_after_a_failed_sync_survives_a_power_cut));
