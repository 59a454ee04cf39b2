#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"

/* Checks that the only receipt in the store fits its schema and has this content. */
static void check_receipt(const struct place *place, const char *id, const char *turn)
{
    char path[4096], body[2048];
    struct bl_arena arena = {0};
    struct bl_json_schema *schema = NULL;
    const struct bl_json *value = NULL;
    struct bl_list problems;
    const char *root = getenv("BELAY_SOURCE_ROOT");
    snprintf(path, sizeof path, "%s/docs/schemas/receipt.json", root != NULL ? root : ".");
    struct bl_text source = suite_read_file(path);
    CHECK_EQUAL(bl_json_read(&arena, source, NULL, &value, NULL), 0);
    CHECK_EQUAL(bl_json_schema_new(value, &schema, NULL), 0);
    ask_text(place, "SELECT body FROM receipt", body, sizeof body);
    if (CHECK_EQUAL(bl_json_read(&arena, bl_text_from(body), NULL, &value, NULL), 0)) {
        CHECK_EQUAL(bl_json_schema_check(schema, value, &arena, &problems), 0);
        CHECK(bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("id"))), bl_text_from(id)));
        CHECK(bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("reason"))),
                            BL_TEXT("owner_died")));
        CHECK(bl_text_equal(bl_json_text(bl_json_pointer(value, BL_TEXT("/units/0/id"))),
                            bl_text_from(turn)));
        static const char *const zeros[] = {"observed_ms", "quiet_ms"};
        for (size_t i = 0; i < BL_COUNT(zeros); i++) {
            int64_t ms = -1;
            CHECK(bl_json_int64(bl_json_get(value, bl_text_from(zeros[i])), &ms));
            CHECK_EQUAL(ms, 0);
        }
        CHECK(!bl_json_boolean(bl_json_get(value, BL_TEXT("cancel_observed")), true));
        /* The owner left no records of its processes. */
        CHECK(bl_json_is(bl_json_get(value, BL_TEXT("survivors")), BL_JSON_NULL));
        CHECK(bl_text_equal(bl_json_text(bl_json_get(value, BL_TEXT("unverified"))),
                            BL_TEXT("no record of its processes was found")));
        CHECK(bl_text_equal(bl_json_text(bl_json_pointer(value, BL_TEXT("/units/0/fate"))),
                            BL_TEXT("unknown")));
    }
    bl_json_schema_free(schema);
    bl_free((void *)(uintptr_t)source.data);
    bl_arena_done(&arena);
}

FORM_TEST(session_of_a_killed_holder_is_taken_over_at_once)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct actor actor;
    char journal[512], owner[64];
    actor_start(&actor, "holder", place, "alpha", false);
    actor_expect(&actor, "no error");
    CHECK_EQUAL(hold(&holding, store, "alpha"), BL_EBUSY);
    snprintf(owner, sizeof owner, "pid %d on ", (int)actor.pid);
    CHECK(strstr(holding.error.message, owner) != NULL);
    actor_kill(&actor);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    const struct bl_store_recovery *recovery = bl_store_session_recovery(holding.held);
    CHECK(recovery->owner_died);
    CHECK(strncmp(recovery->owner, owner, strlen(owner)) == 0);
    CHECK(strcmp(recovery->cut_off, "turn_cut") == 0);
    CHECK_EQUAL(recovery->last_turn[0], '\0');
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM attempt WHERE state = 'cut_off'"), 1);
    check_receipt(place, recovery->receipt_id, "turn_cut");
    ask_text(place, "SELECT lines FROM journal ORDER BY key DESC", journal, sizeof journal);
    CHECK(strstr(journal, "\"type\":\"receipt\"") != NULL && strstr(journal, "\"seq\":1") != NULL);
    release(&holding);
    /* Reported once. */
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK(!bl_store_session_recovery(holding.held)->owner_died);
    CHECK_EQUAL(bl_store_session_recovery(holding.held)->cut_off[0], '\0');
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(session_of_a_process_that_exited_without_release_is_taken_over)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct actor actor;
    actor_start(&actor, "opener", place, "alpha", false);
    actor_expect(&actor, "no error");
    CHECK_EQUAL(actor_end(&actor), 0);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK(bl_store_session_recovery(holding.held)->owner_died);
    CHECK_EQUAL(bl_store_session_recovery(holding.held)->cut_off[0], '\0');
    actor_start(&actor, "opener", place, "alpha", false);
    actor_expect(&actor, "BL_EBUSY");
    CHECK_EQUAL(actor_end(&actor), 0);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(of_two_processes_one_holds_the_session)
{
    struct bl_store *store = store_at(place);
    check_one_holds(place, "holder", "alpha");
    bl_store_close(store);
}

FORM_TEST(a_lease_that_this_store_left_is_taken_again)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_1"), 0);
    release(&holding);
    /* As after a commit with an unknown result: the handle is closed, but the lease is held. */
    char sql[128];
    snprintf(sql, sizeof sql, "UPDATE %s SET owner = '%s'", form_sql(place, "lease", "session"),
             store->owner);
    change_file(place, sql);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK(bl_store_session_recovery(holding.held)->owner_died);
    CHECK(strcmp(bl_store_session_recovery(holding.held)->cut_off, "turn_1") == 0);
    release(&holding);
    bl_store_close(store);
}

/* The events of the run that was cut off, and of the one that finds it, have no gap. */
FORM_TEST(a_receipt_of_a_cut_off_turn_has_the_next_number_of_its_run)
{
    static const struct {
        const char *journal; /* in addition to the turns, whose last event has number 3; NULL:
                                none */
        int64_t next;
    } rows[] = {
        {NULL, 4}, {"{\"seq\":8}\n{\"seq\":9}\n", 10}, {"{\"seq\":2}\n", 4}, {"{\"seq\":-2}\n", 4}};
    struct bl_store *store = store_at(place);
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct holding holding;
        char id[16], sql[256];
        snprintf(id, sizeof id, "alpha-%zu", i);
        CHECK_EQUAL(hold(&holding, store, id), 0);
        add_turn(&holding, "turn_1");
        if (rows[i].journal != NULL)
            CHECK_EQUAL(holding.table->note(holding.table->context, bl_text_from(rows[i].journal),
                                            "", (struct bl_text){0}, NULL),
                        0);
        CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
        release(&holding);
        CHECK_EQUAL(hold(&holding, store, id), 0);
        const struct bl_store_recovery *recovery = bl_store_session_recovery(holding.held);
        CHECK(!recovery->owner_died && strcmp(recovery->cut_off, "turn_2") == 0);
        CHECK_EQUAL(recovery->left.survivors, BL_SURVIVORS_UNKNOWN);
        CHECK(strcmp(recovery->left.unverified, "this process lost its hold on the session") == 0);
        release(&holding);
        snprintf(sql, sizeof sql,
                 "SELECT %s FROM journal WHERE session = (SELECT key FROM"
                 " session WHERE id = '%s') ORDER BY key DESC LIMIT 1",
                 form_sql(place, "json_extract(lines, '$.seq')",
                          "convert_from(lines, 'UTF8')::json ->> 'seq'"),
                 id);
        CHECK_EQUAL(ask_integer(place, sql), rows[i].next);
    }
    bl_store_close(store);
}

FORM_TEST(a_session_with_damaged_messages_is_named)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    release(&holding);
    change_file(place, "UPDATE turn SET messages = '[{\"role\":3}]'");
    CHECK_EQUAL(hold(&holding, store, "alpha"), BL_EPARSE);
    CHECK(strstr(holding.error.message, "turn 1 of session alpha") != NULL);
    release(&holding);
    CHECK_EQUAL(held_sessions(place), 0);
    bl_store_close(store);
}

SUITE(hold, FORM_UNITS(session_of_a_killed_holder_is_taken_over_at_once),
      FORM_UNITS(session_of_a_process_that_exited_without_release_is_taken_over),
      FORM_UNITS(of_two_processes_one_holds_the_session),
      FORM_UNITS(a_lease_that_this_store_left_is_taken_again),
      FORM_UNITS(a_receipt_of_a_cut_off_turn_has_the_next_number_of_its_run),
      FORM_UNITS(a_session_with_damaged_messages_is_named));
