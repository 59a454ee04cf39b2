/* Features in a store: records, generations, events, and concurrent writers. */
#include <stdio.h>
#include <unistd.h>

#include "helpers.h"

/* ---- Holding a feature ---- */

int hold_feature_with(struct grasp *grasp, struct bl_store *store,
                      const struct bl_store_feature_options *options)
{
    *grasp = (struct grasp){0};
    int code = bl_store_feature_hold(store, options, &grasp->held, &grasp->owner, &grasp->error);
    CHECK_EQUAL(grasp->error.code, code);
    return code;
}

int hold_feature(struct grasp *grasp, struct bl_store *store, const char *id)
{
    return hold_feature_with(
        grasp, store,
        &(struct bl_store_feature_options){
            .repository = REPOSITORY, .id = id, .name = "Login", .run_id = "run_1"});
}

void release_feature(struct grasp *grasp)
{
    bl_store_feature_release(grasp->held);
    grasp->held = NULL;
}

/* Writes two records, the second of which may be NULL, and an event, which may be NULL, too. */
int put_records(struct grasp *grasp, const char *name, const char *json, const char *second,
                const char *event)
{
    struct bl_row records[2] = {{.name = name, .json = bl_text_from(json)},
                                {.name = second, .json = bl_text_from(json)}};
    struct bl_text events[1] = {bl_text_from(event)};
    struct bl_list list;
    bl_list_init(&list);
    if (name != NULL)
        bl_list_push_back(&list, &records[0].link);
    if (second != NULL)
        bl_list_push_back(&list, &records[1].link);
    grasp->error = (struct bl_error){0};
    return bl_store_feature_write(
        grasp->held,
        &(struct bl_store_feature_write){
            .records = &list, .events = events, .event_count = event != NULL, .durable = true},
        &grasp->error);
}

int put_record(struct grasp *grasp, const char *name, const char *json)
{
    return put_records(grasp, name, json, NULL, NULL);
}

static int put_event(struct grasp *grasp, const char *json)
{
    return put_records(grasp, NULL, NULL, NULL, json);
}

static int begin_generation(struct grasp *grasp)
{
    return bl_store_feature_write(grasp->held,
                                  &(struct bl_store_feature_write){.new_generation = true}, NULL);
}

/* Compares a list with "a={} b={"n":1}". */
static bool list_is(const struct bl_list *records, const char *expected)
{
    struct bl_buffer text;
    bl_buffer_init(&text, 65536);
    BL_LIST_EACH (link, records) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        if (text.size > 0)
            bl_buffer_append(&text, BL_TEXT(" "));
        bl_buffer_append(&text, bl_text_from(record->name));
        bl_buffer_append(&text, BL_TEXT("="));
        bl_buffer_append(&text, record->json);
    }
    bool same = bl_text_equal(bl_buffer_text(&text), bl_text_from(expected));
    if (!same)
        fprintf(stderr, "found \"" BL_TEXT_FORMAT "\"\n", BL_TEXT_ARG(bl_buffer_text(&text)));
    bl_buffer_done(&text);
    return same;
}

bool records_are(struct bl_store *store, const char *prefix, const char *expected)
{
    struct bl_arena arena = {0};
    struct bl_list records;
    bl_list_init(&records);
    CHECK_EQUAL(bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, prefix, &records, NULL,
                                      NULL, NULL),
                0);
    bool same = list_is(&records, expected);
    bl_arena_done(&arena);
    return same;
}

bool events_are(struct bl_store *store, uint64_t after, uint64_t limit, const char *expected)
{
    struct bl_arena arena = {0};
    struct bl_list events;
    bl_list_init(&events);
    CHECK_EQUAL(
        bl_store_feature_events(store, &arena, REPOSITORY, FEATURE, after, limit, &events, NULL),
        0);
    bool same = list_is(&events, expected);
    bl_arena_done(&arena);
    return same;
}

/* ---- Records, generations, events ---- */

FORM_TEST(records_are_written_replaced_and_deleted)
{
    struct bl_store *store = store_at(place);
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(grasp.owner.life, BL_OWNER_NONE);
    CHECK_EQUAL(bl_store_feature_epoch(grasp.held), 1);
    CHECK_EQUAL(bl_store_feature_generation(grasp.held), 1);
    CHECK(records_are(store, NULL, ""));
    CHECK_EQUAL(put_records(&grasp, "task/B", "{\"n\":1}", "task/A", NULL), 0);
    CHECK_EQUAL(put_records(&grasp, "task", "{}", "task0", NULL), 0);
    CHECK_EQUAL(put_record(&grasp, "task/\xc3\xa4", "{\"x\":[1.50]}"), 0);
    CHECK_EQUAL(put_record(&grasp, "task/B", "{\"n\":2}"), 0);
    CHECK(records_are(store, "task/",
                      "task/A={\"n\":1} task/B={\"n\":2} "
                      "task/\xc3\xa4={\"x\":[1.50]}"));
    CHECK(records_are(store, "task/\xc3\xa4", "task/\xc3\xa4={\"x\":[1.50]}"));
    CHECK(records_are(store, "none", ""));
    CHECK_EQUAL(put_records(&grasp, "task/B", NULL, "never", NULL), 0);
    CHECK_EQUAL(put_record(&grasp, "task/\xc3\xa4", NULL), 0);
    CHECK(records_are(store, "", "task={} task/A={\"n\":1} task0={}"));
    release_feature(&grasp);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(grasp.owner.life, BL_OWNER_NONE);
    CHECK_EQUAL(bl_store_feature_epoch(grasp.held), 2);
    CHECK(records_are(store, NULL, "task={} task/A={\"n\":1} task0={}"));
    release_feature(&grasp);
    bl_store_feature_release(NULL);
    bl_store_close(store);
}

FORM_TEST(a_new_generation_hides_the_old_one_and_keeps_it)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list records;
    struct grasp grasp;
    uint64_t generation = 0;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_records(&grasp, "a", "{\"n\":1}", "b", "{\"n\":1}"), 0);
    CHECK_EQUAL(begin_generation(&grasp), 0);
    CHECK_EQUAL(bl_store_feature_generation(grasp.held), 2);
    CHECK(records_are(store, NULL, ""));
    CHECK(events_are(store, 0, 0, ""));
    CHECK_EQUAL(put_records(&grasp, "a", "{\"n\":2}", NULL, "{\"n\":2}"), 0);
    release_feature(&grasp);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(bl_store_feature_generation(grasp.held), 2);
    CHECK_EQUAL(bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, NULL, &records, NULL,
                                      &generation, NULL),
                0);
    CHECK_EQUAL(generation, 2);
    CHECK(list_is(&records, "a={\"n\":2}"));
    CHECK(events_are(store, 0, 0, "2={\"n\":2}"));
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_record WHERE generation = 1 AND"
                                   " json = '{\"n\":1}'"),
                2);
    CHECK_EQUAL(ask_integer(place, "SELECT number FROM feature_event WHERE generation = 1"), 1);
    bl_arena_done(&arena);
    release_feature(&grasp);
    bl_store_close(store);
}

FORM_TEST(events_are_numbered_and_read_by_the_page)
{
    struct bl_store *store = store_at(place);
    struct bl_text events[3] = {BL_TEXT("{\"e\":1}"), BL_TEXT("{\"e\":2}"), BL_TEXT("{\"e\":3}")};
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(
        bl_store_feature_write(
            grasp.held, &(struct bl_store_feature_write){.events = events, .event_count = 3}, NULL),
        0);
    CHECK_EQUAL(put_event(&grasp, "{\"e\":4}"), 0);
    CHECK(events_are(store, 0, 2, "1={\"e\":1} 2={\"e\":2}"));
    CHECK(events_are(store, 2, 2, "3={\"e\":3} 4={\"e\":4}"));
    CHECK(events_are(store, 4, 2, ""));
    CHECK(events_are(store, UINT64_MAX, UINT64_MAX, ""));
    /* Numbers continue; a reader of the old generation continues with the new one. */
    CHECK_EQUAL(begin_generation(&grasp), 0);
    CHECK_EQUAL(begin_generation(&grasp), 0);
    CHECK_EQUAL(put_event(&grasp, "{\"e\":5}"), 0);
    CHECK(events_are(store, 0, 0, "5={\"e\":5}"));
    CHECK(events_are(store, 2, 0, "5={\"e\":5}"));
    release_feature(&grasp);
    bl_store_close(store);
}

FORM_TEST(json_other_than_an_object_is_refused_and_not_written)
{
    static const char *const bad[] = {"{\"n\":", "[1]", "1", "{} {}", "{\"a\":\xff}"};
    static const char *const ids[] = {"", "-A", "A/B", "A B", "\xc3\xa4"};
    struct bl_store *store = store_at(place);
    char id[80];
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    for (size_t i = 0; i < BL_COUNT(bad); i++) {
        int code = put_records(&grasp, "task/A", bad[i], NULL, "{}");
        CHECK(code == BL_EPARSE || code == BL_EINVAL);
        CHECK(strstr(grasp.error.message, "task/A") != NULL);
        code = put_records(&grasp, "task/A", "{}", NULL, bad[i]);
        CHECK(code == BL_EPARSE || code == BL_EINVAL);
        CHECK_EQUAL(grasp.error.kind, BL_KIND_PARSE);
    }
    CHECK(records_are(store, NULL, ""));
    CHECK(events_are(store, 0, 0, ""));
    release_feature(&grasp);
    for (size_t i = 0; i < BL_COUNT(ids); i++)
        CHECK_EQUAL(hold_feature(&grasp, store, ids[i]), BL_EINVAL);
    static const char *const edges = "azAZ09", *const beyond = "`{@[/:_-";
    for (const char *each = edges; *each != '\0'; each++) {
        CHECK_EQUAL(hold_feature(&grasp, store, (const char[]){*each, '_', *each, '-', '\0'}), 0);
        release_feature(&grasp);
    }
    for (const char *each = beyond; *each != '\0'; each++)
        CHECK_EQUAL(hold_feature(&grasp, store, (const char[]){*each, '\0'}), BL_EINVAL);
    memset(id, 'x', sizeof id);
    id[65] = '\0';
    CHECK_EQUAL(hold_feature(&grasp, store, id), BL_EINVAL);
    CHECK_EQUAL(grasp.error.kind, BL_KIND_USAGE);
    id[64] = '\0';
    CHECK_EQUAL(hold_feature(&grasp, store, id), 0);
    release_feature(&grasp);
    CHECK_EQUAL(hold_feature_with(&grasp, store,
                                  &(struct bl_store_feature_options){.repository = "r", .id = "A"}),
                BL_EINVAL);
    bl_store_close(store);
}

FORM_TEST(features_are_listed_newest_first_and_suggested)
{
    static const struct bl_store_feature_options missing = {
        .repository = REPOSITORY, .id = "FEAT-AUHT", .must_exist = true};
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list list;
    struct bl_error error = {0};
    struct grasp auth, other, elsewhere, none;
    CHECK_EQUAL(hold_feature(&auth, store, FEATURE), 0);
    CHECK_EQUAL(hold_feature(&other, store, "FEAT-BILL"), 0);
    CHECK_EQUAL(
        hold_feature_with(&elsewhere, store,
                          &(struct bl_store_feature_options){.repository = "/r", .id = FEATURE}),
        0);
    CHECK_EQUAL(put_record(&elsewhere, "feature", "{\"of\":\"/r\"}"), 0);
    CHECK_EQUAL(put_record(&other, "features", "{}"), 0);
    release_feature(&other);
    bl_sleep(MS);
    CHECK_EQUAL(put_record(&auth, "feature", "{\"state\":\"running\"}"), 0);
    CHECK(records_are(store, NULL, "feature={\"state\":\"running\"}"));
    CHECK_EQUAL(bl_store_feature_list(store, &arena, REPOSITORY, &list, NULL), 0);
    const struct bl_store_feature_summary *first =
        BL_CONTAINER(list.next, struct bl_store_feature_summary, link);
    const struct bl_store_feature_summary *second =
        BL_CONTAINER(list.previous, struct bl_store_feature_summary, link);
    CHECK(list.next->next == list.previous);
    CHECK(strcmp(first->id, FEATURE) == 0 && strcmp(first->repository, REPOSITORY) == 0);
    CHECK(strcmp(first->name, "Login") == 0);
    CHECK(bl_text_equal(first->record, BL_TEXT("{\"state\":\"running\"}")));
    CHECK(first->owner.life == BL_OWNER_ALIVE && first->owner.pid == getpid());
    CHECK(first->updated_wall_ns > first->created_wall_ns && second->created_wall_ns > 0);
    CHECK(strcmp(second->id, "FEAT-BILL") == 0 && second->record.size == 0);
    CHECK(second->owner.life == BL_OWNER_NONE && second->owner.text[0] == '\0');
    CHECK_EQUAL(bl_store_feature_list(store, &arena, NULL, &list, NULL), 0);
    CHECK(list.next->next->next == list.previous);
    CHECK_EQUAL(hold_feature_with(&none, store, &missing), BL_ENOENT);
    CHECK(none.error.kind == BL_KIND_FEATURE && strstr(none.error.message, "AUHT") != NULL);
    CHECK(strcmp(none.error.hint, "did you mean FEAT-AUTH?") == 0);
    CHECK_EQUAL(
        bl_store_feature_load(store, &arena, "/r", "FEAT-BILL", NULL, &list, NULL, NULL, &error),
        BL_ENOENT);
    CHECK(error.kind == BL_KIND_FEATURE && strstr(error.hint, "belay feature list") != NULL);
    CHECK_EQUAL(bl_store_feature_events(store, &arena, "/r", "x", 0, 0, &list, NULL), BL_ENOENT);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature"), 3);
    bl_arena_done(&arena);
    release_feature(&auth);
    release_feature(&elsewhere);
    bl_store_close(store);
}

FORM_TEST(names_and_json_are_kept_byte_for_byte)
{
    static const char *const names[] = {"\"quoted\" \\ {a,b} NULL", "'; DROP TABLE feature; --",
                                        "a\nb\t%s%n$1", "nul\\u0000, surrogate \\ud800",
                                        "\xc3\xa4\xf0\x9f\x98\x80"};
    static const char json[] =
        "{\"nul\\u0000\":\"\\u0000\", \"pair\" : \"\\ud83d\\ude00\",\n"
        "\"n\":1.50E+3,\"twice\":\"'\\\\' \\\"x\",\"twice\":\"$1 \xc3\xa4\"}";
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list list;
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    for (size_t i = 0; i < BL_COUNT(names); i++)
        CHECK_EQUAL(put_records(&grasp, names[i], json, NULL, json), 0);
    CHECK_EQUAL(put_record(&grasp, "lone", "{\"n\":\"\\ud800\"}"), BL_EPARSE);
    CHECK_EQUAL(put_event(&grasp, "{\"n\":\"\\udc00\"}"), BL_EPARSE);
    CHECK_EQUAL(
        bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, NULL, &list, NULL, NULL, NULL),
        0);
    size_t count = 0;
    BL_LIST_EACH (link, &list) {
        const struct bl_row *record = BL_CONTAINER(link, struct bl_row, link);
        CHECK(bl_text_equal(record->json, bl_text_from(json)));
        CHECK(strcmp(record->name, names[count++]) == 0);
    }
    CHECK_EQUAL(count, BL_COUNT(names));
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        CHECK_EQUAL(bl_store_feature_load(store, &arena, REPOSITORY, FEATURE, names[i], &list, NULL,
                                          NULL, NULL),
                    0);
        CHECK(list.next == list.previous && !bl_list_empty(&list));
    }
    CHECK_EQUAL(bl_store_feature_events(store, &arena, REPOSITORY, FEATURE, 0, 0, &list, NULL), 0);
    BL_LIST_EACH (link, &list)
        CHECK(bl_text_equal(BL_CONTAINER(link, struct bl_row, link)->json, bl_text_from(json)));
    release_feature(&grasp);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(the_last_of_several_records_with_one_name_counts)
{
    struct bl_store *store = store_at(place);
    struct bl_row records[] = {{.name = "a", .json = BL_TEXT("{\"n\":1}")},
                               {.name = "b", .json = BL_TEXT("{\"n\":1}")},
                               {.name = "a"},
                               {.name = "a", .json = BL_TEXT("{\"n\":2}")},
                               {.name = "b"}};
    struct bl_list list;
    struct grasp grasp;
    bl_list_init(&list);
    for (size_t i = 0; i < BL_COUNT(records); i++)
        bl_list_push_back(&list, &records[i].link);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_record(&grasp, "b", "{}"), 0);
    CHECK_EQUAL(bl_store_feature_write(grasp.held,
                                       &(struct bl_store_feature_write){.records = &list}, NULL),
                0);
    CHECK(records_are(store, NULL, "a={\"n\":2}"));
    release_feature(&grasp);
    bl_store_close(store);
}

/* ---- Writers ---- */

FORM_TEST(a_feature_is_held_once)
{
    struct bl_store *store = store_at(place), *beside = store_at(place);
    struct grasp grasp, second, other;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(hold_feature(&second, i == 0 ? store : beside, FEATURE), BL_EBUSY);
        CHECK(second.error.kind == BL_KIND_SESSION && second.held == NULL);
        CHECK(second.owner.life == BL_OWNER_ALIVE && second.owner.pid == getpid());
        CHECK(strstr(second.error.message, second.owner.text) != NULL);
        CHECK(strstr(second.error.hint, "this process") != NULL);
    }
    CHECK_EQUAL(hold_feature(&other, store, "FEAT-BILL"), 0);
    CHECK_EQUAL(
        hold_feature_with(&second, store,
                          &(struct bl_store_feature_options){.repository = "/r", .id = FEATURE}),
        0);
    CHECK_EQUAL(put_record(&grasp, "a", "{}"), 0);
    release_feature(&grasp);
    release_feature(&second);
    CHECK_EQUAL(hold_feature(&second, beside, FEATURE), 0);
    CHECK_EQUAL(second.owner.life, BL_OWNER_NONE);
    CHECK_EQUAL(bl_store_feature_epoch(second.held), 2);
    release_feature(&second);
    release_feature(&other);
    CHECK_EQUAL(store->handle_count, 0);
    bl_store_close(store);
    bl_store_close(beside);
}

FORM_TEST(features_are_read_from_a_read_only_store)
{
    struct bl_store *store = store_at(place), *reading = NULL;
    struct bl_arena arena = {0};
    struct bl_store_owner owner;
    struct bl_list list;
    struct grasp grasp, refused;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(put_records(&grasp, "a", "{}", NULL, "{}"), 0);
    CHECK_EQUAL(bl_store_open_reading(place->where, &reading, NULL), 0);
    CHECK_EQUAL(hold_feature(&refused, reading, FEATURE), BL_EACCES);
    CHECK_EQUAL(refused.error.kind, BL_KIND_FILESYSTEM);
    CHECK(records_are(reading, NULL, "a={}"));
    CHECK(events_are(reading, 0, 0, "1={}"));
    CHECK_EQUAL(
        bl_store_feature_load(reading, &arena, REPOSITORY, FEATURE, "x", &list, &owner, NULL, NULL),
        0);
    CHECK(owner.life == BL_OWNER_ALIVE && owner.pid == getpid() && owner.pid_started > 0);
    CHECK_EQUAL(bl_store_feature_list(reading, &arena, NULL, &list, NULL), 0);
    CHECK(!bl_list_empty(&list));
    bl_arena_done(&arena);
    release_feature(&grasp);
    bl_store_close(reading);
    bl_store_close(store);
}

FORM_TEST(a_write_in_a_shield_gets_through_a_stop)
{
    struct bl_store *store = store_at(place);
    struct bl_scope scope, shield;
    struct grasp grasp;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_stop(&scope, BL_STOP_USER, "test");
    struct bl_scope *before = bl_scope_enter(&scope);
    CHECK_EQUAL(put_record(&grasp, "a", "{}"), BL_ECANCELED);
    bl_shield_begin(&shield, BL_STORE_NS_MAX);
    CHECK_EQUAL(put_record(&grasp, "b", "{}"), 0);
    bl_shield_end(&shield);
    /* So does the release. */
    release_feature(&grasp);
    bl_scope_enter(before);
    bl_scope_done(&scope);
    CHECK(records_are(store, NULL, "b={}"));
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(grasp.owner.life, BL_OWNER_NONE);
    release_feature(&grasp);
    bl_store_close(store);
}

/* The thread waits for a lock while the caller leaves. */
STORE_TEST(a_write_without_an_answer_is_unknown_and_the_lease_is_kept)
{
    struct bl_store *store = store_at(place);
    struct bl_scope shield;
    struct grasp grasp;
    sqlite3 *db = NULL;
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(sqlite3_open(place->path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    bl_shield_begin(&shield, 20 * MS);
    CHECK_EQUAL(put_record(&grasp, "a", "{}"), BL_EUNKNOWN);
    bl_shield_end(&shield);
    CHECK(grasp.error.kind == BL_KIND_FILESYSTEM);
    CHECK(strcmp(grasp.error.name, "commit_unknown") == 0);
    CHECK_EQUAL(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    release_feature(&grasp);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    CHECK_EQUAL(grasp.owner.life, BL_OWNER_DEAD);
    CHECK(records_are(store, NULL, "a={}"));
    release_feature(&grasp);
    bl_store_close(store);
}

#define AT_ONCE       64
#define WRITES_OF_ONE 5

struct one_of_many {
    struct bl_store_feature *held;
    int number;
};

static int write_one(void *argument)
{
    struct one_of_many *one = argument;
    struct grasp grasp = {.held = one->held};
    char name[32], json[32];
    int code = 0;
    snprintf(name, sizeof name, "task/%02d", one->number);
    for (int i = 1; i <= WRITES_OF_ONE && code == 0; i++) {
        snprintf(json, sizeof json, "{\"task\":%d,\"n\":%d}", one->number, i);
        code = put_records(&grasp, name, json, NULL, json);
    }
    return code;
}

static unsigned batches;
static const struct store_form *counted;

static void count_batches(void *context, struct bl_list *jobs)
{
    batches++;
    counted->write(context, jobs);
}

FORM_TEST(tasks_write_at_once_and_share_commits_with_sessions)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct grasp grasp;
    struct bl_nursery nursery;
    struct one_of_many many[AT_ONCE];
    struct bl_fiber *fibers[AT_ONCE];
    int result;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(hold_feature(&grasp, store, FEATURE), 0);
    store->writer.run = count_batches;
    counted = store->form;
    batches = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < AT_ONCE; i++) {
        many[i] = (struct one_of_many){grasp.held, i};
        bl_nursery_spawn(&nursery, NULL, "task", write_one, &many[i], &fibers[i]);
    }
    add_turn(&holding, "turn_1");
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK_EQUAL(bl_fiber_join(fibers[i], &result), 0);
        CHECK_EQUAL(result, 0);
    }
    bl_nursery_done(&nursery);
    CHECK(batches <= 60); /* for 322 writes */
    CHECK_EQUAL(
        ask_integer(
            place, form_sql(place,
                            "SELECT count(*) FROM feature_record WHERE"
                            " name = printf('task/%02d', json ->> '$.task') AND json ->> '$.n' = 5",
                            "SELECT count(*) FROM (SELECT name, convert_from(json, 'UTF8')::json"
                            " AS json FROM feature_record) AS record WHERE"
                            " name = 'task/' || lpad(json ->> 'task', 2, '0') AND"
                            " json ->> 'n' = '5'")),
        AT_ONCE);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM feature_event"), AT_ONCE * WRITES_OF_ONE);
    CHECK_EQUAL(ask_integer(place, "SELECT max(number) FROM feature_event"),
                AT_ONCE * WRITES_OF_ONE);
    /* The journal has the events of each task in order. */
    CHECK_EQUAL(
        ask_integer(
            place, form_sql(place,
                            "SELECT count(*) FROM feature_event AS a JOIN feature_event AS b"
                            " ON a.json ->> '$.task' = b.json ->> '$.task'"
                            " WHERE a.number < b.number AND a.json ->> '$.n' >= b.json ->> '$.n'",
                            "WITH event AS (SELECT number, convert_from(json, 'UTF8')::json AS json"
                            " FROM feature_event) SELECT count(*) FROM event AS a JOIN event AS b"
                            " ON a.json ->> 'task' = b.json ->> 'task'"
                            " WHERE a.number < b.number AND a.json ->> 'n' >= b.json ->> 'n'")),
        0);
    CHECK_EQUAL(ask_integer(place, "SELECT turns_total FROM session"), 1);
    CHECK_EQUAL(store->feature_writes, 0);
    release_feature(&grasp);
    release(&holding);
    CHECK_EQUAL(store->writer.jobs_max, STORE_BATCH_JOBS_MIN);
    bl_store_close(store);
}

SUITE(feature, FORM_UNITS(records_are_written_replaced_and_deleted),
      FORM_UNITS(a_new_generation_hides_the_old_one_and_keeps_it),
      FORM_UNITS(events_are_numbered_and_read_by_the_page),
      FORM_UNITS(json_other_than_an_object_is_refused_and_not_written),
      FORM_UNITS(features_are_listed_newest_first_and_suggested),
      FORM_UNITS(names_and_json_are_kept_byte_for_byte),
      FORM_UNITS(the_last_of_several_records_with_one_name_counts),
      FORM_UNITS(a_feature_is_held_once), FORM_UNITS(features_are_read_from_a_read_only_store),
      FORM_UNITS(a_write_in_a_shield_gets_through_a_stop),
      cmocka_unit_test(a_write_without_an_answer_is_unknown_and_the_lease_is_kept),
      FORM_UNITS(tasks_write_at_once_and_share_commits_with_sessions));
