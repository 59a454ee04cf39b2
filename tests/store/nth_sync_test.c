/* Each sync of a store fails in turn, starting with the creation of its file. */
#include <stdio.h>
#include <unistd.h>

#include "helpers.h"

/* ---- The process with the failing disk ---- */

static struct bl_store *open_role_store(void)
{
    struct bl_store *store = NULL;
    int code = bl_store_open(role_place.path, &store, NULL);
    if (code != 0) {
        report("no store");
        bl_sleep(1000 * BL_NS_PER_S);
    }
    return store;
}

/* Commits turns that are large enough that the log is moved into the file. The n-th sync fails,
 * counted from the creation of the file. */
int role_nth_sync(void *argument BL_UNUSED)
{
    struct bl_settlement settlement;
    struct holding holding;
    struct bl_buffer events;
    char turn_id[BL_ID_SIZE];
    int64_t spared = 0;
    bl_text_to_int64(bl_text_from(role_argument), &spared);
    arm("faulty_syncs_spared", (int)spared);
    arm("faulty_syncs", 1);
    bl_buffer_init(&events, SIZE_MAX / 2);
    while (events.size < (size_t)1500 * 1024)
        bl_buffer_append(&events, BL_TEXT("{\"type\":\"warning\",\"text\":\"so much to say\"}\n"));
    struct bl_store *store = open_role_store();
    int code = hold(&holding, store, "alpha");
    if (code != 0)
        report("no session");
    for (int i = 1; i <= 8 && code == 0; i++) {
        snprintf(turn_id, sizeof turn_id, "turn_%d", i);
        int answer = begin_turn(&holding, turn_id);
        fill_settlement(&settlement, turn_id);
        settlement.events = bl_buffer_text(&events);
        if (answer == 0)
            answer = holding.table->commit(holding.table->context, &settlement, NULL);
        report("%s %s", turn_id, bl_error_name(answer));
    }
    report("over");
    bl_sleep(1000 * BL_NS_PER_S);
    return 0;
}

/* ---- The checking process ---- */

/* Whichever sync fails: confirmed turns are there, and refused turns are not. */
static void fail_nth(struct place *place, unsigned nth)
{
    struct actor actor;
    char spared[16], line[64], sql[128];
    unsigned answered = 0, refused = 0;
    snprintf(spared, sizeof spared, "%u", nth);
    actor_start(&actor, "nth-sync", place, spared, true);
    bool there[9] = {0}, made = true;
    while (actor_line(&actor, line, sizeof line) && strcmp(line, "over") != 0) {
        if (strcmp(line, "no store") == 0 || strcmp(line, "no session") == 0) {
            made = false;
            break;
        }
        there[line[5] - '0'] = strstr(line, "no error") != NULL;
        answered += strstr(line, "no error") != NULL;
        refused += strstr(line, "BL_EIO") != NULL;
    }
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    CHECK(!made || answered + refused == 8);
    CHECK(refused <= 1);
    for (int i = 1; i <= 8 && made; i++) {
        snprintf(sql, sizeof sql, "SELECT count(*) FROM turn WHERE id = 'turn_%d'", i);
        CHECK_EQUAL(ask_integer(place, sql), there[i]);
    }
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), answered);
    CHECK_EQUAL(ask_integer(place, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    bl_store_close(store);
}

static int fail_each(void *argument BL_UNUSED)
{
    /* The short form runs some of them, different ones each time. */
    unsigned step = (unsigned)suite_rounds(SUITE_SANITIZED ? 15 : 5, 1);
    for (unsigned i = (unsigned)getpid() % step; i < 60; i += step) {
        struct place place;
        place_make(&place);
        fail_nth(&place, i);
        place_remove(&place);
    }
    return 0;
}

static void whichever_sync_fails_nothing_refused_is_found(void **state BL_UNUSED)
{
    run_in_loop(fail_each, NULL);
}

SUITE(nth_sync, cmocka_unit_test(whichever_sync_fails_nothing_refused_is_found));
