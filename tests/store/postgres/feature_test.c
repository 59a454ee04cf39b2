/* Features in a database: writes that arrive twice or late, workers that are lost, and the columns
 * of a look-up. */
#include <pgproxy.h>
#include <stdio.h>

#include "helpers.h"

/* ---- Lost connections ------------------------------------------------------------------------ */

PROXY_TEST(a_repeated_write_is_done_once)
{
    struct bl_store *store = store_at(place);
    struct bl_text event = BL_TEXT("{\"n\":1}");
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_record(&grasp, "old", "{}"), 0);
    place_lose_answer(place, "write_feature");
    CHECK_EQUAL(bl_store_feature_write(grasp.held,
                                       &(struct bl_store_feature_write){.events = &event,
                                                                        .event_count = 1,
                                                                        .new_generation = true},
                                       NULL),
                0);
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 1);
    CHECK_EQUAL(bl_store_feature_generation(grasp.held), 2);
    CHECK(events_are(store, 0, 0, "1={\"n\":1}"));
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_event"), 1);
    CHECK_EQUAL(ask_integer(place, "SELECT generation FROM feature"), 2);
    place_lose_answer(place, "release_feature");
    release_feature(&grasp);
    CHECK_EQUAL(ask_integer(place, "SELECT count(owner) FROM feature"), 0);
    bl_store_close(store);
}

PROXY_TEST(a_repeated_hold_finds_the_same_dead_owner)
{
    struct bl_store *store = store_at(place);
    struct grasp grasp;
    struct actor actor;
    place_lose_answer(place, "hold_feature");
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(pg_proxy_hits(place->proxy), 1);
    CHECK(bl_store_feature_epoch(grasp.held) == 1 && grasp.owner.life == BL_OWNER_NONE);
    CHECK_EQUAL(put_record(&grasp, "a", "{}"), 0);
    release_feature(&grasp);
    actor_start(&actor, "feature", place, "hold", false);
    actor_expect(&actor, "no error");
    actor_kill(&actor);
    /* So the first call takes it, and its answer is lost. */
    change_file(place, "UPDATE worker SET state = 'lost' WHERE id = (SELECT owner FROM"
                       " feature)");
    place_lose_answer(place, "hold_feature");
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK(grasp.owner.life == BL_OWNER_DEAD && grasp.owner.pid == actor.pid);
    CHECK(strstr(grasp.owner.left.unverified, "this process") == NULL);
    CHECK_EQUAL(bl_store_feature_epoch(grasp.held), 3);
    CHECK_EQUAL(put_record(&grasp, "a", NULL), 0);
    release_feature(&grasp);
    bl_store_close(store);
}

PROXY_TEST(late_writes_and_holds_change_nothing)
{
    struct bl_store *store = store_at(place);
    struct grasp grasp;
    place_deliver_late(place, "hold_feature");
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_records(&grasp, "a", "{\"n\":1}", NULL, "{\"n\":1}"), 0);
    place_deliver_late(place, "write_feature");
    CHECK_EQUAL(put_records(&grasp, "a", "{\"n\":2}", NULL, "{\"n\":2}"), 0);
    CHECK_EQUAL(put_records(&grasp, "a", "{\"n\":3}", NULL, "{\"n\":3}"), 0);
    bl_sleep(PLACE_LATE_NS);
    CHECK(records_are(store, NULL, "a={\"n\":3}"));
    CHECK(events_are(store, 0, 0, "1={\"n\":1} 2={\"n\":2} 3={\"n\":3}"));
    CHECK_EQUAL(ask_integer(place, "SELECT epoch FROM feature"), 1);
    CHECK_EQUAL(put_record(&grasp, "a", "{}"), 0);
    release_feature(&grasp);
    /* After its release. */
    place_deliver_late(place, "hold_feature");
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    release_feature(&grasp);
    bl_sleep(PLACE_LATE_NS);
    CHECK_EQUAL(ask_integer(place, "SELECT count(owner) FROM feature"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT epoch FROM feature"), 2);
    bl_store_close(store);
}

POSTGRES_TEST(numbers_of_old_writes_are_deleted_and_not_done_again)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct grasp grasp;
    struct bl_text event = BL_TEXT("{}");
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    for (int i = 0; i < 1250; i++)
        CHECK_EQUAL(bl_store_feature_write(
                        grasp.held,
                        &(struct bl_store_feature_write){.events = &event, .event_count = 1}, NULL),
                    0);
    int64_t kept = ask_integer(place, "SELECT count(*) FROM feature_write");
    CHECK(kept >= 1000 && kept <= 1101);
    for (int number = 5; number <= 1250; number += 415) {
        const char *again =
            bl_arena_printf(&arena,
                            "SELECT write_feature(owner, key, epoch, true, %d, false, now(), '{}',"
                            " '{}', '{}', '{}', '{}', '{\"{}\"}') FROM feature",
                            number)
                .data;
        CHECK_EQUAL(ask_integer(place, again), 1);
    }
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_event"), 1250);
    release_feature(&grasp);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_write"), 0);
    CHECK_EQUAL(put_records(&grasp, "a", "{}", NULL, "{}"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT events FROM feature"), 1251);
    release_feature(&grasp);
    bl_arena_done(&arena);
    bl_store_close(store);
}

/* ---- Workers --------------------------------------------------------------------------------- */

static int renew_feature(struct grasp *grasp)
{
    grasp->error = (struct bl_error){0};
    return bl_store_feature_write(grasp->held, &(struct bl_store_feature_write){0}, &grasp->error);
}

POSTGRES_TEST(the_feature_of_a_lost_worker_is_taken_over)
{
    struct bl_store *store = store_at(place), *other = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_owner owner;
    struct bl_list list;
    struct grasp lost, next;
    CHECK_EQUAL(hold_feature(&lost, store, FEATURE), 0);
    CHECK_EQUAL(put_record(&lost, "feature", "{\"of\":\"lost\"}"), 0);
    CHECK_EQUAL(hold_feature(&next, other, FEATURE), BL_EBUSY);
    change_file(place, "UPDATE worker SET state = 'lost' WHERE id = (SELECT owner FROM feature)");
    CHECK_EQUAL(
        bl_store_feature_load(other, &arena, REPOSITORY, FEATURE, NULL, &list, &owner, NULL, NULL),
        0);
    CHECK(owner.life == BL_OWNER_DEAD && owner.seen_wall_ns > 0);
    CHECK_EQUAL(bl_store_feature_list(other, &arena, NULL, &list, NULL), 0);
    CHECK_EQUAL(BL_CONTAINER(list.next, struct bl_store_feature_summary, link)->owner.life,
                BL_OWNER_DEAD);
    CHECK_EQUAL(hold_feature(&next, other, FEATURE), 0);
    CHECK_EQUAL(next.owner.life, BL_OWNER_DEAD);
    /* It runs in this process, so it is not known what it has left. */
    CHECK_EQUAL(next.owner.left.survivors, BL_SURVIVORS_UNKNOWN);
    CHECK_EQUAL(put_record(&lost, "feature", "{}"), BL_EBUSY);
    CHECK(strcmp(lost.error.name, "stale_write") == 0);
    CHECK(strstr(lost.error.message, "is now held by pid") != NULL);
    CHECK(records_are(other, NULL, "feature={\"of\":\"lost\"}"));
    release_feature(&lost);
    CHECK_EQUAL(hold_feature(&lost, store, FEATURE), BL_EBUSY);
    release_feature(&next);
    /* It registers again. */
    CHECK_EQUAL(hold_feature(&lost, store, FEATURE), 0);
    CHECK_EQUAL(lost.owner.life, BL_OWNER_NONE);
    change_file(place, "DELETE FROM feature");
    CHECK_EQUAL(put_record(&lost, "a", "{}"), BL_ENOENT);
    CHECK_EQUAL(lost.error.kind, BL_KIND_FEATURE);
    release_feature(&lost);
    bl_arena_done(&arena);
    bl_store_close(other);
    bl_store_close(store);
}

POSTGRES_TEST(a_renewal_is_a_heartbeat_that_need_not_be_sent_each_time)
{
    struct bl_store *store = store_at(place);
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    for (int i = 0; i < 10; i++)
        CHECK_EQUAL(renew_feature(&grasp), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT beat FROM worker"), 0);
    release_feature(&grasp);
    bl_store_close(store);
    change_file(place, "DELETE FROM worker; UPDATE fleet SET renew_ms = 2");
    store = store_at(place);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    bl_sleep(2 * MS);
    CHECK_EQUAL(renew_feature(&grasp), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT beat FROM worker"), 1);
    change_file(place, "UPDATE worker SET state = 'lost'");
    bl_sleep(2 * MS);
    CHECK_EQUAL(renew_feature(&grasp), BL_EBUSY);
    CHECK(strcmp(grasp.error.name, "stale_write") == 0);
    release_feature(&grasp);
    bl_store_close(store);
}

POSTGRES_TEST(a_path_on_another_host_is_another_feature)
{
    struct bl_store *here = store_at(place), *there = store_on(place, "elsewhere");
    struct bl_arena arena = {0};
    struct bl_list list;
    struct grasp grasp, other;
    CHECK_EQUAL(hold_feature(&grasp, here, FEATURE), 0);
    CHECK_EQUAL(bl_store_feature_list(there, &arena, NULL, &list, NULL), 0);
    CHECK(bl_list_empty(&list));
    CHECK_EQUAL(bl_store_feature_events(there, &arena, REPOSITORY, FEATURE, 0, 0, &list, NULL),
                BL_ENOENT);
    CHECK_EQUAL(hold_feature(&other, there, FEATURE), 0);
    CHECK_EQUAL(put_record(&other, "a", "{\"of\":\"there\"}"), 0);
    CHECK(records_are(here, NULL, ""));
    CHECK(records_are(there, NULL, "a={\"of\":\"there\"}"));
    release_feature(&grasp);
    release_feature(&other);
    bl_arena_done(&arena);
    bl_store_close(there);
    bl_store_close(here);
}

/* ---- Columns of a look-up -------------------------------------------------------------------- */

/* Writes a record; compares its columns with "RUN RECEIPT ENDED". */
static bool columns_are(const struct place *place, struct grasp *grasp, const char *name,
                        const char *json, const char *expected)
{
    struct bl_arena arena = {0};
    char columns[128];
    CHECK_EQUAL(put_record(grasp, name, json), 0);
    ask_text(place,
             bl_arena_printf(&arena,
                             "SELECT coalesce(run, '-') || ' ' || coalesce(receipt, '-') || ' ' ||"
                             " ended FROM feature_record WHERE name = '%s'",
                             name)
                 .data,
             columns, sizeof columns);
    bl_arena_done(&arena);
    if (strcmp(columns, expected) != 0)
        fprintf(stderr, "%s %s: found \"%s\"\n", name, json, columns);
    return strcmp(columns, expected) == 0;
}

POSTGRES_TEST(run_receipt_and_end_of_a_record_are_columns)
{
    static const char *const busy[] = {"pending", "queued", "running", "stopping", "approved"};
    struct bl_store *store = store_at(place);
    struct grasp grasp;
    char json[64];
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK(columns_are(place, &grasp, "feature", "{\"run_id\":\"run_1\",\"ended_at\":null}",
                      "run_1 - false"));
    CHECK(columns_are(place, &grasp, "feature",
                      "{\"run_id\":\"run_2\",\"receipt\":\"rcp_1\",\"ended_at\":\"now\"}",
                      "run_2 rcp_1 true"));
    CHECK(columns_are(place, &grasp, "feature", "{\"run_id\":1,\"receipt\":null}", "- - false"));
    CHECK(columns_are(place, &grasp, "feature", "{\"receipt\":\"a\\u0000b\"}", "- - false"));
    CHECK(columns_are(place, &grasp, "task/A", "{\"run_id\":\"run_1\",\"ended_at\":\"now\"}",
                      "- - false"));
    CHECK(columns_are(place, &grasp, "task/A", "{\"state\":null}", "- - false"));
    CHECK(columns_are(place, &grasp, "task/A", "{\"state\":1}", "- - true"));
    for (size_t i = 0; i < BL_COUNT(busy); i++) {
        snprintf(json, sizeof json, "{\"state\":\"%s\"}", busy[i]);
        CHECK(columns_are(place, &grasp, "task/A", json, "- - false"));
    }
    CHECK(columns_are(place, &grasp, "task/A", "{\"state\":\"merged\",\"receipt\":\"rcp_2\"}",
                      "- rcp_2 true"));
    CHECK(columns_are(place, &grasp, "turn/A", "{\"state\":\"merged\"}", "- - false"));
    release_feature(&grasp);
    bl_store_close(store);
}

SUITE(pg_feature, cmocka_unit_test(a_repeated_write_is_done_once),
      cmocka_unit_test(a_repeated_hold_finds_the_same_dead_owner),
      cmocka_unit_test(late_writes_and_holds_change_nothing),
      cmocka_unit_test(numbers_of_old_writes_are_deleted_and_not_done_again),
      cmocka_unit_test(the_feature_of_a_lost_worker_is_taken_over),
      cmocka_unit_test(a_renewal_is_a_heartbeat_that_need_not_be_sent_each_time),
      cmocka_unit_test(a_path_on_another_host_is_another_feature),
      cmocka_unit_test(run_receipt_and_end_of_a_record_are_columns));
