/* Cells in a store: what was written is found by every later process, and what was refused is not.
 */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "helpers.h"

static const char digest_two[32] = "two\0digests";

/* Times of a database have microseconds. */
#define US 1000

/* ---- One process ---- */

FORM_TEST(a_cell_is_loaded_as_it_was_written)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_arena arena = {0};
    struct bl_list cells, values;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-2"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(bl_store_cell_started(holding.held, BL_TEXT("c-1"), 4711, 99, NULL), 0);
    CHECK_EQUAL(yield_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(yield_cell(&holding, "c-2"), 0);
    CHECK_EQUAL(end_cell(&holding, "c-2", NULL, NULL), 0);
    release(&holding);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(bl_store_cells_load(holding.held, &arena, &cells, &values, NULL), 0);
    CHECK(bl_list_empty(&values));
    const struct bl_store_cell *first = BL_CONTAINER(cells.next, struct bl_store_cell, link);
    const struct bl_store_cell *second = BL_CONTAINER(cells.previous, struct bl_store_cell, link);
    struct bl_store_cell made = make_cell("c-2");
    CHECK(bl_text_equal(first->id, made.id) && bl_text_equal(first->digest, made.digest));
    CHECK(bl_text_equal(first->yielded, made.yielded));
    CHECK(bl_text_equal(first->terminal, made.terminal));
    CHECK_EQUAL(first->created_wall_ns, 1000000000);
    CHECK_EQUAL(first->ended_wall_ns, 2000000000);
    CHECK_EQUAL(first->deadline_ms, 60000);
    CHECK_EQUAL(first->generation, 2);
    CHECK_EQUAL(first->yielded_generation, 1);
    CHECK(first->completed);
    CHECK_EQUAL(second->pid, 4711);
    CHECK_EQUAL(second->pid_started, 99);
    CHECK_EQUAL(second->generation, 1);
    CHECK_EQUAL(second->yielded_generation, 1);
    CHECK_EQUAL(second->terminal.size, 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM receipt WHERE id = 'rcp_cell'"), 1);
    bl_arena_done(&arena);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(id_is_used_once_and_its_tombstone_keeps_the_digest)
{
    struct bl_store *store = store_at(place);
    struct holding holding, other;
    struct bl_store_cell changed = make_cell("c-1");
    bool buried = true;
    changed.digest = (struct bl_text){digest_two, sizeof digest_two};
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(hold(&other, store, "beta"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(admit_cell(&holding, "c-1"), BL_EEXIST);
        CHECK_EQUAL(holding.error.kind, BL_KIND_CELL);
        CHECK_EQUAL(bl_store_cell_admit(holding.held, &changed, NULL), BL_EBUSY);
        if (i > 0)
            break;
        CHECK_EQUAL(bury_cell(&holding, "c-1", 1, 10), BL_EBUSY); /* it has not ended */
        CHECK_EQUAL(end_cell(&holding, "c-1", NULL, NULL), 0);
        CHECK_EQUAL(bl_store_cell_buried(holding.held, BL_TEXT("c-1"), &buried, NULL), 0);
        CHECK(!buried);
        CHECK_EQUAL(bury_cell(&holding, "c-1", 1, 10), 0);
        CHECK_EQUAL(bl_store_cell_buried(holding.held, BL_TEXT("c-1"), &buried, NULL), 0);
        CHECK(buried);
        CHECK(cells_are(&holding, "|"));
    }
    CHECK_EQUAL(bury_cell(&holding, "c-1", 1, 10), BL_ENOENT);
    /* Only for this session. */
    CHECK_EQUAL(bl_store_cell_buried(other.held, BL_TEXT("c-1"), &buried, NULL), 0);
    CHECK(!buried);
    CHECK_EQUAL(admit_cell(&other, "c-1"), 0);
    release(&holding);
    release(&other);
    bl_store_close(store);
}

FORM_TEST(a_cell_ends_once)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_store_cell changed = make_cell("c-1");
    changed.terminal = BL_TEXT("{\"type\":\"terminated\"}");
    changed.completed = false;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(yield_cell(&holding, "c-1"), BL_ENOENT);
    CHECK_EQUAL(end_cell(&holding, "c-1", "k", "1"), BL_ENOENT);
    CHECK_EQUAL(bl_store_cell_started(holding.held, BL_TEXT("c-1"), 1, 1, NULL), BL_ENOENT);
    CHECK(cells_are(&holding, "|"));
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(end_cell(&holding, "c-1", "k", "1"), 0);
    CHECK_EQUAL(yield_cell(&holding, "c-1"), BL_EEXIST);
    /* Repeating the same end succeeds. */
    CHECK_EQUAL(end_cell(&holding, "c-1", "k", "1"), 0);
    changed =
        (struct bl_store_cell){.id = changed.id, .generation = 3, .terminal = changed.terminal};
    CHECK_EQUAL(bl_store_cell_end(holding.held, &changed, NULL, NULL, (struct bl_text){0}, NULL),
                BL_EEXIST);
    CHECK_EQUAL(ask_integer(place, "SELECT generation FROM cell WHERE completed"), 2);
    CHECK(cells_are(&holding, "c-1 | k=1"));
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(values_are_set_replaced_and_deleted)
{
    static const struct {
        const char *key;
        const char *json;
        const char *then;
    } steps[] = {{"b", "1", "b=1"},
                 {"a", "{\"x\":[1.50]}", "b=1 a={\"x\":[1.50]}"},
                 {"b", "\"two\"", "b=\"two\" a={\"x\":[1.50]}"},
                 {"a", NULL, "b=\"two\""},
                 {"never", NULL, "b=\"two\""}};
    struct bl_store *store = store_at(place);
    struct holding holding, other;
    char id[16], expected[128];
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(hold(&other, store, "beta"), 0);
    for (size_t i = 0; i < BL_COUNT(steps); i++) {
        snprintf(id, sizeof id, "c-%zu", i);
        CHECK_EQUAL(admit_cell(&holding, id), 0);
        CHECK_EQUAL(end_cell(&holding, id, steps[i].key, steps[i].json), 0);
        CHECK_EQUAL(bury_cell(&holding, id, 1, 100), 0);
        snprintf(expected, sizeof expected, "| %s", steps[i].then);
        CHECK(cells_are(&holding, expected));
    }
    CHECK(cells_are(&other, "|"));
    release(&holding);
    release(&other);
    bl_store_close(store);
}

/* A fork has its own copy of the values, and no cells. */
FORM_TEST(a_fork_has_the_values_of_the_session)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct holding holding, forks[2];
    const char *id = NULL;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-0"), 0);
    CHECK_EQUAL(end_cell(&holding, "c-0", "b", "\"two\""), 0);
    CHECK_EQUAL(bl_store_fork(store, "alpha", "fork", &arena, &id, NULL), 0);
    CHECK_EQUAL(hold_with(&forks[0], store,
                          &(struct bl_store_hold_options){
                              .id = "alpha", .directory = "/home/somebody", .fork = true}),
                0);
    CHECK_EQUAL(hold(&forks[1], store, "fork"), 0);
    CHECK_EQUAL(bl_store_cells_forget(holding.held, NULL), 0);
    CHECK(cells_are(&holding, "|"));
    CHECK_EQUAL(admit_cell(&holding, "c-0"), 0);
    for (size_t i = 0; i < BL_COUNT(forks); i++) {
        CHECK(cells_are(&forks[i], "| b=\"two\""));
        CHECK_EQUAL(admit_cell(&forks[i], "c-0"), 0);
        release(&forks[i]);
    }
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(a_value_has_any_key)
{
    static const char keys[][4] = {{'a', 0, 'b'}, {'a', 0, 'c'}, {'a'}, {'\xff', '\xfe'}};
    static const size_t sizes[] = {3, 3, 1, 2};
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list cells, values, loaded;
    struct bl_store_value made[BL_COUNT(sizes)];
    struct bl_store_cell cell = make_cell("c-1");
    struct holding holding;
    size_t count = 0;
    bl_list_init(&values);
    for (size_t i = 0; i < BL_COUNT(sizes); i++) {
        made[i] =
            (struct bl_store_value){.key = {keys[i], sizes[i]}, .json = BL_TEXT("\"\\u0000\"")};
        bl_list_push_back(&values, &made[i].link);
    }
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(bl_store_cell_end(holding.held, &cell, &values, NULL, (struct bl_text){0}, NULL),
                0);
    CHECK_EQUAL(bl_store_cells_load(holding.held, &arena, &cells, &loaded, NULL), 0);
    BL_LIST_EACH (link, &loaded) {
        const struct bl_store_value *value = BL_CONTAINER(link, struct bl_store_value, link);
        CHECK(count < BL_COUNT(sizes) && bl_text_equal(value->key, made[count].key));
        CHECK(bl_text_equal(value->json, made[0].json));
        count++;
    }
    CHECK_EQUAL(count, BL_COUNT(sizes));
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

/* Returns the number of tombstones, and checks that the counter agrees. */
static int64_t tombstones(const struct place *place)
{
    int64_t count = ask_integer(place, "SELECT count(*) FROM cell_tombstone");
    CHECK_EQUAL(ask_integer(place, form_sql(place, "SELECT tombstones FROM store",
                                            "SELECT count FROM tombstones")),
                count);
    return count;
}

FORM_TEST(the_oldest_tombstones_of_the_store_go_first)
{
    struct bl_store *store = store_at(place);
    struct holding holdings[2];
    char id[32];
    unsigned long most = 16;
    bool buried = true;
    CHECK_EQUAL(hold(&holdings[0], store, "alpha"), 0);
    CHECK_EQUAL(hold(&holdings[1], store, "beta"), 0);
    for (unsigned long i = 0; i < most + 10; i++) {
        snprintf(id, sizeof id, "c-%lu", i);
        add_ended_cell(&holdings[i % 2], id);
        CHECK_EQUAL(bury_cell(&holdings[i % 2], id, (int64_t)i * US, most), 0);
    }
    CHECK_EQUAL(tombstones(place), (int64_t)most);
    CHECK_EQUAL(bl_store_cell_buried(holdings[1].held, BL_TEXT("c-9"), &buried, NULL), 0);
    CHECK(!buried);
    CHECK_EQUAL(bl_store_cell_buried(holdings[0].held, BL_TEXT("c-10"), &buried, NULL), 0);
    CHECK(buried);
    /* Those of one session are deleted with it, which makes room. */
    CHECK_EQUAL(bl_store_cells_forget(holdings[0].held, NULL), 0);
    CHECK_EQUAL(tombstones(place), (int64_t)most / 2);
    add_ended_cell(&holdings[0], "c-new");
    CHECK_EQUAL(bury_cell(&holdings[0], "c-new", ((int64_t)most + 10) * US, most), 0);
    CHECK_EQUAL(tombstones(place), (int64_t)most / 2 + 1);
    /* One that is a day old is deleted, and a younger one is not. */
    add_ended_cell(&holdings[0], "c-late");
    CHECK_EQUAL(bury_cell(&holdings[0], "c-late", (int64_t)CELL_DAY_NS + 13 * US, most), 0);
    CHECK_EQUAL(bl_store_cell_buried(holdings[1].held, BL_TEXT("c-11"), &buried, NULL), 0);
    CHECK(!buried);
    CHECK_EQUAL(bl_store_cell_buried(holdings[1].held, BL_TEXT("c-13"), &buried, NULL), 0);
    CHECK(buried);
    CHECK_EQUAL(tombstones(place), (int64_t)most / 2 + 1);
    release(&holdings[0]);
    release(&holdings[1]);
    bl_store_close(store);
}

FORM_TEST(there_are_65536_tombstones_at_most)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    char id[32];
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    change_file(place, form_sql(place,
                                "INSERT INTO cell_tombstone (session, id, buried, digest)"
                                " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
                                " WHERE i < 65534) SELECT 1, 'p-' || i, i * 1000, x'00' FROM n;"
                                "UPDATE store SET tombstones = 65534",
                                "insert into cell_tombstone (session, id, buried, digest) select 1,"
                                " 'p-' || i, timestamptz 'epoch' + i * interval '1 us', '' from"
                                " generate_series(1, 65534) as n (i);"
                                "update tombstones set count = 65534"));
    for (int i = 0; i < 5; i++) {
        snprintf(id, sizeof id, "c-%d", i);
        add_ended_cell(&holding, id);
        CHECK_EQUAL(bury_cell(&holding, id, 100000 * US, 65536), 0);
    }
    CHECK_EQUAL(tombstones(place), 65536);
    CHECK_EQUAL(
        ask_integer(place, "SELECT count(*) FROM cell_tombstone WHERE id IN ('p-3', 'p-4')"), 1);
    /* A day later they are deleted, but not all at once. */
    add_ended_cell(&holding, "c-late");
    CHECK_EQUAL(bury_cell(&holding, "c-late", (int64_t)(2 * CELL_DAY_NS), 65536), 0);
    CHECK_EQUAL(tombstones(place), 65536 + 1 - 1024);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(a_session_is_deleted_with_its_cells)
{
    struct bl_store *store = store_at(place);
    struct holding holding, other;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(hold(&other, store, "beta"), 0);
    for (int i = 0; i < 2; i++) {
        struct holding *each = i == 0 ? &holding : &other;
        add_ended_cell(each, "c-1");
        CHECK_EQUAL(bury_cell(each, "c-1", 1, 10), 0);
        CHECK_EQUAL(admit_cell(each, "c-2"), 0);
        CHECK_EQUAL(end_cell(each, "c-2", "k", "1"), 0);
        CHECK_EQUAL(admit_cell(each, "c-3"), 0);
    }
    release(&holding);
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), 0);
    CHECK_EQUAL(tombstones(place), 1);
    CHECK(cells_are(&other, "c-2 c-3? | k=1"));
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell"), 2);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell_value"), 1);
    release(&other);
    CHECK_EQUAL(bl_store_delete(store, "beta", NULL), 0);
    CHECK_EQUAL(tombstones(place), 0);
    bl_store_close(store);
}

FORM_TEST(former_holder_cannot_write_cells)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_ended_cell(&holding, "c-1");
    CHECK_EQUAL(admit_cell(&holding, "c-2"), 0);
    change_file(place, form_sql(place, "UPDATE lease SET epoch = epoch + 1",
                                "update session set epoch = epoch + 1"));
    CHECK_EQUAL(admit_cell(&holding, "c-3"), BL_ECLOSED);
    CHECK_EQUAL(holding.error.kind, BL_KIND_SESSION);
    CHECK_EQUAL(bl_store_cell_started(holding.held, BL_TEXT("c-2"), 1, 1, NULL), BL_ECLOSED);
    CHECK_EQUAL(yield_cell(&holding, "c-2"), BL_ECLOSED);
    CHECK_EQUAL(end_cell(&holding, "c-2", "k", "1"), BL_ECLOSED);
    CHECK_EQUAL(bury_cell(&holding, "c-1", 1, 10), BL_ECLOSED);
    CHECK_EQUAL(bl_store_cells_forget(holding.held, NULL), BL_ECLOSED);
    CHECK(cells_are(&holding, "c-1 c-2? |"));
    release(&holding);
    bl_store_close(store);
}

/* ---- Many at once ---- */

enum {
    AT_ONCE = 64
};

struct one_of_many {
    struct holding *holding;
    int number;
};

static int live_one(void *argument)
{
    const struct one_of_many *one = argument;
    struct bl_store_session *held = one->holding->held;
    char id[16], key[16], json[128];
    snprintf(id, sizeof id, "c-%d", one->number);
    snprintf(key, sizeof key, "k-%d", one->number);
    struct bl_store_value value = {.key = bl_text_from(key), .json = BL_TEXT("true")};
    struct bl_list values;
    struct bl_store_cell cell = {.id = bl_text_from(id), .digest = {digest_two, 32}};
    bl_list_init(&values);
    bl_list_push_back(&values, &value.link);
    int code = bl_store_cell_admit(held, &cell, NULL);
    for (uint64_t i = 1; i <= 3 && code == 0; i++) {
        snprintf(json, sizeof json, "{\"generation\":%d}", (int)i);
        cell.yielded = bl_text_from(json);
        cell.generation = i;
        cell.yielded_generation = i;
        code = bl_store_cell_yield(held, &cell, NULL);
    }
    cell.generation = 4;
    cell.terminal = BL_TEXT("{}");
    return code != 0 ? code
                     : bl_store_cell_end(held, &cell, &values, NULL, (struct bl_text){0}, NULL);
}

static unsigned batches;
static void (*run_batch)(void *context, struct bl_list *jobs);

static void count_batches(void *context, struct bl_list *jobs)
{
    batches++;
    run_batch(context, jobs);
}

FORM_TEST(cells_of_a_session_and_its_turns_are_written_at_once)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_nursery nursery;
    struct one_of_many many[AT_ONCE];
    struct bl_fiber *fibers[AT_ONCE];
    char turn_id[24];
    int result;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    run_batch = store->writer.run;
    store->writer.run = count_batches;
    batches = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < AT_ONCE; i++) {
        many[i] = (struct one_of_many){&holding, i};
        bl_nursery_spawn(&nursery, NULL, "cell", live_one, &many[i], &fibers[i]);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(turn_id, sizeof turn_id, "turn_%d", i);
        add_turn(&holding, turn_id);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        CHECK_EQUAL(bl_fiber_join(fibers[i], &result), 0);
        CHECK_EQUAL(result, 0);
    }
    bl_nursery_done(&nursery);
    /* 326 writes: they share commits although they belong to one session. */
    CHECK(batches <= 60);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell WHERE terminal = '{}' AND"
                                   " yielded = '{\"generation\":3}' AND generation = 4"),
                AT_ONCE);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell_value"), AT_ONCE);
    CHECK_EQUAL(ask_integer(place, "SELECT turns_total FROM session"), 3);
    CHECK_EQUAL(store->cell_writes, 0);
    CHECK_EQUAL(store->writer.jobs_max, STORE_BATCH_JOBS_MIN);
    release(&holding);
    bl_store_close(store);
}

STORE_TEST(what_does_not_fit_is_refused_and_a_smaller_end_takes_its_place)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    struct bl_buffer large;
    sqlite3 *db = ((struct sqlite_store *)store->state)->writer.db;
    CHECK_EQUAL(sqlite3_exec(db, "PRAGMA max_page_count = 100", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    bl_buffer_init(&large, SIZE_MAX / 2);
    bl_buffer_append(&large, BL_TEXT("\""));
    while (large.size < (size_t)900 * 1024)
        bl_buffer_append(&large, BL_TEXT("so much to keep, "));
    bl_buffer_append(&large, BL_TEXT("\""));
    bl_buffer_append_byte(&large, '\0');
    CHECK_EQUAL(end_cell(&holding, "c-1", "k", bl_buffer_text(&large).data), BL_ENOSPC);
    CHECK(holding.error.retryable && holding.error.kind == BL_KIND_FILESYSTEM);
    bl_buffer_done(&large);
    CHECK(cells_are(&holding, "c-1? |"));
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM receipt"), 0);
    CHECK_EQUAL(end_cell(&holding, "c-1", NULL, NULL), 0);
    CHECK(cells_are(&holding, "c-1 |"));
    release(&holding);
    bl_store_close(store);
}

static int admit_shortly(void *argument)
{
    struct bl_scope shield;
    bl_shield_begin(&shield, 20 * MS);
    int code = admit_cell(argument, "c-1");
    bl_shield_end(&shield);
    return code;
}

/* The thread waits for a lock while the callers leave: an admission that was reported as failed
 * does not remain. */
STORE_TEST(admission_without_an_answer_is_withdrawn)
{
    struct bl_store *store = store_at(place);
    struct holding holdings[2];
    struct bl_nursery nursery;
    struct bl_fiber *fibers[2];
    sqlite3 *db = NULL;
    int result;
    CHECK_EQUAL(hold(&holdings[0], store, "alpha"), 0);
    CHECK_EQUAL(hold(&holdings[1], store, "beta"), 0);
    CHECK_EQUAL(sqlite3_open(place->path, &db), SQLITE_OK);
    CHECK_EQUAL(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < 2; i++)
        bl_nursery_spawn(&nursery, NULL, "admit", admit_shortly, &holdings[i], &fibers[i]);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(bl_fiber_join(fibers[i], &result), 0);
        CHECK_EQUAL(result, BL_ETIMEDOUT);
        CHECK(!bl_list_empty(&holdings[i].held->doubts));
    }
    bl_nursery_done(&nursery);
    CHECK_EQUAL(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    CHECK_EQUAL(admit_cell(&holdings[0], "c-2"), 0);
    CHECK(bl_list_empty(&holdings[0].held->doubts));
    CHECK(cells_are(&holdings[0], "c-2? |"));
    CHECK_EQUAL(admit_cell(&holdings[0], "c-1"), 0);
    /* Even if nothing is admitted after it. */
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell"), 3);
    release(&holdings[1]);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell"), 2);
    release(&holdings[0]);
    bl_store_close(store);
}

/* ---- Another process ---- */

/* Reports the start time of its own process, which acts as the worker of two cells, one of which
 * ends. */
int role_cell_holder(void *argument BL_UNUSED)
{
    struct bl_store *store = store_at(&role_place);
    struct holding holding;
    int64_t started = bl_store_process_started(getpid());
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-2"), 0);
    CHECK_EQUAL(bl_store_cell_started(holding.held, BL_TEXT("c-1"), getpid(), started, NULL), 0);
    CHECK_EQUAL(bl_store_cell_started(holding.held, BL_TEXT("c-2"), getpid(), started, NULL), 0);
    CHECK_EQUAL(yield_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(end_cell(&holding, "c-2", "k", "1"), 0);
    report("%lld", (long long)started);
    bl_sleep(1000 * BL_NS_PER_S);
    return 0;
}

FORM_TEST(next_holder_finds_cells_that_have_not_ended)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_list cells, values;
    struct holding holding;
    struct actor actor;
    char line[64] = "";
    int64_t started = 0;
    actor_start(&actor, "cell-holder", place, NULL, false);
    CHECK(actor_line(&actor, line, sizeof line));
    bl_text_to_int64(bl_text_from(line), &started);
    CHECK_EQUAL(bl_store_process_started(actor.pid), started);
    CHECK_EQUAL(bl_store_process_alive(actor.pid, started), 1);
    CHECK_EQUAL(bl_store_process_alive(actor.pid, started + 1), 0);
    actor_kill(&actor);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK(cells_are(&holding, "c-1? c-2 | k=1"));
    CHECK_EQUAL(bl_store_cells_load(holding.held, &arena, &cells, &values, NULL), 0);
    const struct bl_store_cell *first = BL_CONTAINER(cells.next, struct bl_store_cell, link);
    CHECK_EQUAL(first->pid, actor.pid);
    CHECK_EQUAL(first->pid_started, started);
    CHECK_EQUAL(first->yielded_generation, 1);
    CHECK_EQUAL(bl_store_process_alive(first->pid, first->pid_started), 0);
    CHECK_EQUAL(end_cell(&holding, "c-1", NULL, NULL), 0);
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

/* ---- Disks that fail ---- */

static void report_end(struct holding *holding, const char *key, const char *json)
{
    int code = end_cell(holding, "c-1", key, json);
    report("%s%s%s", bl_error_name(code), holding->error.name[0] != '\0' ? " " : "",
           holding->error.name);
}

/* The sync of an end does not return before its caller has left. */
static void play_hang(struct holding *holding)
{
    struct bl_scope shield;
    arm("faulty_hang", 1);
    bl_shield_begin(&shield, 20 * MS);
    report_end(holding, "k", "1");
    bl_shield_end(&shield);
    arm("faulty_hang", 0);
    /* The end is stored, and no other replaces it; the session can be used as before. */
    report_end(holding, "k", "1");
    struct bl_store_cell other = {.id = BL_TEXT("c-1"), .generation = 2, .terminal = BL_TEXT("{}")};
    report("%s", bl_error_name(bl_store_cell_end(holding->held, &other, NULL, NULL,
                                                 (struct bl_text){0}, NULL)));
    report("%s", bl_error_name(begin_turn(holding, "turn_1")));
}

int role_cell_faults(void *argument BL_UNUSED)
{
    struct bl_store *store = store_at(&role_place);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(yield_cell(&holding, "c-1"), 0);
    if (strcmp(role_argument, "hang") == 0) {
        play_hang(&holding);
    } else {
        arm("faulty_writes", strcmp(role_argument, "unknown") == 0 ? 1 : 0);
        arm("faulty_syncs", 1);
        report_end(&holding, "k", "1");
        if (strcmp(role_argument, "once") != 0)
            report_end(&holding, NULL, NULL);
    }
    report("over");
    bl_sleep(1000 * BL_NS_PER_S);
    return 0;
}

/* Plays the fault, kills the process, and checks the store. */
static void play(const struct place *place, const char *what, const char *const *lines,
                 const char *then)
{
    struct actor actor;
    struct holding holding;
    char answer[32];
    actor_start(&actor, "cell-faults", place, what, true);
    for (size_t i = 0; lines[i] != NULL; i++)
        actor_expect(&actor, lines[i]);
    actor_expect(&actor, "over");
    actor_kill(&actor);
    struct bl_store *store = store_at(place);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK(cells_are(&holding, then));
    release(&holding);
    bl_store_close(store);
    ask_text(place, "PRAGMA integrity_check", answer, sizeof answer);
    CHECK(strcmp(answer, "ok") == 0);
}

STORE_TEST(an_end_whose_sync_failed_never_comes_back)
{
    play(place, "once", (const char *const[]){"BL_EIO", NULL}, "c-1? |");
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM receipt"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT generation FROM cell"), 1);
}

STORE_TEST(after_a_failed_sync_a_different_end_is_accepted)
{
    play(place, "again", (const char *const[]){"BL_EIO", "no error", NULL}, "c-1 |");
}

STORE_TEST(end_that_cannot_be_undone_is_undone_by_the_next)
{
    play(place, "unknown", (const char *const[]){"BL_EUNKNOWN commit_unknown", "no error", NULL},
         "c-1 |");
}

STORE_TEST(an_end_without_an_answer_is_unknown_until_it_is_asked_again)
{
    play(place, "hang",
         (const char *const[]){"BL_EUNKNOWN commit_unknown", "no error", "BL_EEXIST", "no error",
                               NULL},
         "c-1 | k=1");
}

SUITE(cell, FORM_UNITS(a_cell_is_loaded_as_it_was_written),
      FORM_UNITS(id_is_used_once_and_its_tombstone_keeps_the_digest), FORM_UNITS(a_cell_ends_once),
      FORM_UNITS(values_are_set_replaced_and_deleted),
      FORM_UNITS(a_fork_has_the_values_of_the_session), FORM_UNITS(a_value_has_any_key),
      FORM_UNITS(the_oldest_tombstones_of_the_store_go_first),
      FORM_UNITS(there_are_65536_tombstones_at_most),
      FORM_UNITS(a_session_is_deleted_with_its_cells), FORM_UNITS(former_holder_cannot_write_cells),
      FORM_UNITS(cells_of_a_session_and_its_turns_are_written_at_once),
      cmocka_unit_test(what_does_not_fit_is_refused_and_a_smaller_end_takes_its_place),
      cmocka_unit_test(admission_without_an_answer_is_withdrawn),
      FORM_UNITS(next_holder_finds_cells_that_have_not_ended),
      cmocka_unit_test(an_end_whose_sync_failed_never_comes_back),
      cmocka_unit_test(after_a_failed_sync_a_different_end_is_accepted),
      cmocka_unit_test(end_that_cannot_be_undone_is_undone_by_the_next),
      cmocka_unit_test(an_end_without_an_answer_is_unknown_until_it_is_asked_again));
