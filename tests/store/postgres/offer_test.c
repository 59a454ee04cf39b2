/* Offers of items: requests, SQL, and what is refused. */
#include <stdio.h>

#include "hand.h"

/* ---- Requests ---- */

struct requester {
    struct bl_store *store;
    struct bl_arena arena;
    const char *spec;
    const char *id;
    int code;
    struct bl_error error;
};

static int request_once(void *argument)
{
    struct requester *requester = argument;
    const struct bl_fleet_store *table = bl_store_fleet_table(requester->store);
    requester->id = "";
    requester->error = (struct bl_error){0};
    requester->code = table->offer(table->context, &requester->arena, bl_text_from(requester->spec),
                                   &requester->id, &requester->error);
    return 0;
}

POSTGRES_TEST(W33_a_request_makes_one_item)
{
    struct requester requesters[10] = {0};
    char spec[80];
    struct hand hand;
    hand_open(&hand, place, "host-a", "main");
    for (size_t i = 0; i < BL_COUNT(requesters); i++)
        requesters[i].store = store_at(place);
    for (unsigned long round = 0; round < suite_rounds(5, 100); round++) {
        struct bl_nursery nursery;
        snprintf(spec, sizeof spec, "{\"prompt\":\"p\",\"request_id\":\"r-%lu\"}", round);
        bl_nursery_init(&nursery, bl_scope_current());
        for (size_t i = 0; i < BL_COUNT(requesters); i++) {
            requesters[i].spec = spec;
            bl_nursery_spawn(&nursery, NULL, "requester", request_once, &requesters[i], NULL);
        }
        bl_nursery_join(&nursery);
        bl_nursery_done(&nursery);
        for (size_t i = 0; i < BL_COUNT(requesters); i++)
            CHECK(requesters[i].code == 0 && strcmp(requesters[i].id, requesters[0].id) == 0);
        CHECK_EQUAL(hand_claim(&hand, 8), 1);
        CHECK(hand_finish(&hand, &hand.items[0], BL_FLEET_COMPLETED));
        /* After its end. */
        CHECK(strcmp(hand_offer(&hand, spec), requesters[0].id) == 0);
        CHECK_EQUAL(hand_claim(&hand, 8), 0);
    }
    requesters[0].spec = "{\"prompt\":\"q\",\"request_id\":\"r-0\"}";
    request_once(&requesters[0]);
    CHECK(requesters[0].code == BL_EINVAL && requesters[0].error.kind == BL_KIND_USAGE);
    CHECK(strcmp(requesters[0].error.message, "request r-0 was made with another prompt") == 0);
    for (size_t i = 0; i < BL_COUNT(requesters); i++) {
        bl_store_close(requesters[i].store);
        bl_arena_done(&requesters[i].arena);
    }
    hand_close(&hand);
}

/* ---- Offers from SQL ---- */

POSTGRES_TEST(W34_items_are_submitted_in_SQL_by_roles_that_see_their_own)
{
    struct hand hand;
    char id[BL_ID_SIZE], other[BL_ID_SIZE], sql[400];
    hand_open(&hand, place, "host-a", "main");
    change_file(place, "create role belay_test_a login in role belay_submit;"
                       " create role belay_test_b login in role belay_submit;"
                       " create role belay_test_c login in role belay_test_a, belay_submit");
    change_file(place, "begin; select submit('{\"prompt\":\"p\"}'); rollback");
    CHECK_EQUAL(hand_claim(&hand, 8), 0);
    ask_text(place, "set session authorization belay_test_a; select submit('{\"prompt\":\"p\"}')",
             id, sizeof id);
    ask_text(place, "set session authorization belay_test_b; select submit('{\"prompt\":\"p\"}')",
             other, sizeof other);
    CHECK_EQUAL(hand_claim(&hand, 8), 2);
    struct bl_fleet_view view;
    CHECK_EQUAL(hand.table->look(hand.table->context, &hand.arena, id, &view, NULL), 0);
    CHECK(strcmp(view.submitter, "belay_test_a") == 0);
    static const struct {
        const char *user;
        int sees;
    } cases[] = {{"belay_test_a", 1}, {"belay_test_b", 0}, {"belay_test_c", 1}};
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        snprintf(
            sql, sizeof sql,
            "set session authorization %s; select (select count(*) from look('%s')) * 10 + (select"
            " count(*) from list(null, null, null, true, null, 10))",
            cases[i].user, id);
        CHECK_EQUAL(ask_integer(place, sql), cases[i].sees * 10 + 1);
        snprintf(sql, sizeof sql,
                 "set session authorization %s; select (cancel('%s') is not null)::int",
                 cases[i].user, i == 0 ? other : id);
        CHECK_EQUAL(ask_integer(place, sql), i == 2);
    }
    /* Nothing else may be called or read. */
    CHECK_EQUAL(ask_integer(place, "select count(*) from pg_proc p where pronamespace ="
                                   " 'belay'::regnamespace and has_function_privilege("
                                   "'belay_test_a', p.oid, 'execute')"),
                8);
    CHECK_EQUAL(ask_integer(place, "select count(*) from pg_class where relnamespace ="
                                   " 'belay'::regnamespace and relkind in ('r', 'v', 'p') and"
                                   " has_table_privilege('belay_test_a', oid, 'select')"),
                1);
    change_file(place, "drop role belay_test_c, belay_test_a, belay_test_b");
    hand_close(&hand);
}

POSTGRES_TEST(an_item_that_is_not_well_formed_is_refused)
{
    static const struct {
        const char *spec;
        const char *message;
    } cases[] = {
        {"[1]", "the item is not a JSON object"},
        {"{", "the item cannot be read as JSON: invalid input syntax for type json"},
        {"{\"prompt\":\"\xff\"}",
         "the item cannot be read as JSON: invalid byte sequence for encoding \"UTF8\": 0xff"},
        {"{}", "the item has no prompt"},
        {"{\"prompt\":7}", "invalid value 7 for prompt of an item (expected a text)"},
        {"{\"prompt\":\"p\",\"header\":\"x\"}", "unknown key 'header' of an item"},
        {"{\"prompt\":\"p\",\"pool\":\"a\",\"pool\":\"b\"}", "the item has two values for pool"},
        {"{\"prompt\":\"p\",\"pool\":\"a\\u0000\"}",
         "invalid value \"a\\u0001\" for pool of an item (expected 1 to 64 of A-Z, a-z, 0-9, '.', "
         "'_'"
         " and '-')"},
        {"{\"prompt\":\"p\",\"priority\":1.5}",
         "invalid value 1.5 for priority of an item (expected a whole number from -9 to 9)"},
        {"{\"prompt\":\"p\",\"timeout\":\"2 weeks\"}",
         "invalid value \"2 weeks\" for timeout of an item (expected seconds, or a duration such as"
         " 90s, 2.5m, 1h)"},
        {"{\"prompt\":\"p\",\"labels\":[\"a=b\",7]}",
         "invalid value [\"a=b\",7] for labels of an item (expected a list of at most 32 "
         "KEY=VALUE)"},
        {"{\"prompt\":\"p\",\"at\":\"2026-02-30T00:00:00Z\"}",
         "invalid value \"2026-02-30T00:00:00Z\" for at of an item (expected a time such as"
         " 2026-11-20T08:00:00Z)"},
        {"{\"prompt\":\"p\",\"at\":\"2026-02-03T00:00:00Z\",\"delay\":1}",
         "the item has both delay and at"},
        {"{\"prompt\":\"p\",\"max_turns\":1e400000}",
         "the item cannot be read as JSON: value overflows numeric format"},
    };
    struct hand hand;
    const char *id;
    hand_open(&hand, place, "host-a", NULL);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        hand.error = (struct bl_error){0};
        CHECK_EQUAL(hand.table->offer(hand.table->context, &hand.arena, bl_text_from(cases[i].spec),
                                      &id, &hand.error),
                    BL_EINVAL);
        CHECK_EQUAL(hand.error.kind, BL_KIND_USAGE);
        if (!CHECK(strcmp(hand.error.message, cases[i].message) == 0))
            fprintf(stderr, "%s\n", hand.error.message);
    }
    struct bl_text large = {bl_zalloc((size_t)33 * 1024 * 1024 + 1), (size_t)33 * 1024 * 1024 + 1};
    hand.error = (struct bl_error){0};
    CHECK_EQUAL(hand.table->offer(hand.table->context, &hand.arena, large, &id, &hand.error),
                BL_EINVAL);
    CHECK(strcmp(hand.error.message, "the item has 34603009 bytes (expected at most 33 MiB)") == 0);
    bl_free((void *)(uintptr_t)large.data);
    CHECK_EQUAL(ask_integer(place, "select count(*) from item"), 0);
    hand_close(&hand);
}

POSTGRES_TEST(W4_a_prompt_is_kept_byte_for_byte)
{
    struct hand hand;
    BL_AUTO_BUFFER(spec, (size_t)40 * 1024 * 1024);
    bl_buffer_append(&spec,
                     BL_TEXT("{ \"prompt\" : \"\\u0000 \\\\u0000 \\\\\\u0000 \xc3\xa4\\u00e4 '"));
    size_t size = (size_t)suite_rounds(1, 32) * 1024 * 1024;
    while (spec.size < size)
        bl_buffer_append(&spec, BL_TEXT("0123456789abcdef0123456789abcdef0123456789abcdef"));
    bl_buffer_append(&spec, BL_TEXT("\", \"request_id\":\"r\", \"max_budget_usd\": 1.10}"));
    hand_open(&hand, place, "host-a", "main");
    bl_buffer_append(&spec, (struct bl_text){"", 1});
    hand_offer(&hand, spec.data);
    CHECK_EQUAL(hand_claim(&hand, 1), 1);
    CHECK(bl_text_equal(hand.items[0].spec, (struct bl_text){spec.data, spec.size - 1}));
    hand_close(&hand);
}

SUITE(pg_offer, cmocka_unit_test(W33_a_request_makes_one_item),
      cmocka_unit_test(W34_items_are_submitted_in_SQL_by_roles_that_see_their_own),
      cmocka_unit_test(an_item_that_is_not_well_formed_is_refused),
      cmocka_unit_test(W4_a_prompt_is_kept_byte_for_byte));
