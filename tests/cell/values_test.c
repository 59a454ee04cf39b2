/* Values that cells store for later cells. */
#include <stdio.h>

#include "helpers.h"

static bool says(struct house *house, const char *id, const char *source, const char *text)
{
    CHECK_EQUAL(house_create(house, id, source), 0);
    const char *said = house_finish(house, id);
    if (!CHECK(said != NULL))
        return false;
    if (strcmp(said, text) != 0)
        fprintf(stderr, "%s: %s, not %s\n", id, said, text);
    return CHECK(strcmp(said, text) == 0);
}

static int seen_by_the_next(struct house *house)
{
    struct bl_cell_session *first;

    says(house, "c-1", "store('a', {b: [1, 'x', null]}); store('gone', 1); text(load('a').b[1]);",
         "x");
    says(house, "c-2", "text(load('a').b); store('gone', undefined); text(typeof load('gone'));",
         "[1,\"x\",null]undefined");
    says(house, "c-3", "text(typeof load('gone') + typeof load('constructor'));",
         "undefinedundefined");
    /* A cell that throws has settled, too. */
    says(house, "c-4", "store('thrown', 1); throw new Error('x');", "");
    says(house, "c-5", "store('left', 2); exit(); store('left', 3);", "");
    says(house, "c-6", "text(load('thrown') + load('left'));", "3");
    first = house->session;
    house->session = house_session(house, "s-2");
    says(house, "c-1", "text(typeof load('a'));", "undefined");
    house->session = first;
    return 0;
}

static int not_when_stopped(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "store('k', 1); text('a'); for (;;);"), 0);
    house_await_output(house, "c-1", 1);
    CHECK_EQUAL(house_terminate(house, "c-1", "t-1"), 0);
    CHECK_EQUAL(house->ended.type, BL_CELL_TERMINATE_TERMINATED);
    CHECK_EQUAL(house_create_limited(house, "c-2", "store('k', 2); for (;;) text('x')", 0, 0, 2000),
                0);
    CHECK(house_finish(house, "c-2") != NULL);
    CHECK_EQUAL(house->seen.completed.error->kind, BL_CELL_ERROR_OUTPUT_LIMIT);
    says(house, "c-3", "text(typeof load('k'));", "undefined");
    CHECK_EQUAL(house->session->by_key.count, 0);
    return 0;
}

/* `load` returns the values as of its cell's creation. */
static int as_of_create(struct house *house)
{
    says(house, "c-1", "store('k', 1)", "");
    CHECK_EQUAL(house_create(house, "c-2", "text('a'); await tools.gate({}); text(load('k'));"), 0);
    house_await_output(house, "c-2", 1);
    says(house, "c-3", "store('k', 2)", "");
    bl_semaphore_give(&house->gate);
    CHECK(strcmp(house_finish(house, "c-2"), "a1") == 0);
    says(house, "c-4", "text(load('k'))", "2");
    return 0;
}

static int merged(struct house *house)
{
    unsigned cells = (unsigned)suite_rounds(6, 20);
    char id[16], source[128];

    for (unsigned i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%u", i);
        snprintf(source, sizeof source, "store('k%u', %u); store('shared', %u);", i, i, i);
        CHECK_EQUAL(house_create(house, id, source), 0);
    }
    for (unsigned i = 0; i < cells; i++) {
        snprintf(id, sizeof id, "c-%u", i);
        CHECK(house_finish(house, id) != NULL);
        CHECK(house->seen.completed.error == NULL);
    }
    snprintf(source, sizeof source,
             "let n = 0; for (let i = 0; i < %u; i++) n += load('k' + i) === i; text(n);", cells);
    char expected[16];
    snprintf(expected, sizeof expected, "%u", cells);
    says(house, "c-x", source, expected);
    CHECK_EQUAL(house->session->by_key.count, cells + 1);
    /* All values exist after a restart. */
    house_close(house);
    house_open(house);
    says(house, "c-y", source, expected);
    return 0;
}

static int too_many_values(struct house *house)
{
    /* Each cell alone stays within the limit. */
    static const char half[] = "const v = 'x'.repeat(1000000); for (let i = 0; i < 9; i++)"
                               " store('%s' + i, v); await tools.echo({}); text('a');";
    char source[256];

    says(house, "c-1",
         "const t = []; const f = (...a) => { try { store(...a); t.push('ok') }"
         " catch (e) { t.push(e.name) } };"
         "f('k'.repeat(256), 1); f('k'.repeat(257), 1); f('v', 'x'.repeat(1 << 20));"
         "text(t.join(' '));",
         "ok RangeError RangeError");
    says(house, "c-2",
         "let n = 0; try { for (;; n++) store('n' + n, n) } catch (e) { text(e.name + n) }",
         "RangeError1023");
    bl_cell_session_close(house->session, true, BL_STOP_USER, "test", NULL);
    house->session = house_session(house, "s-1");
    snprintf(source, sizeof source, half, "a");
    CHECK_EQUAL(house_create_limited(house, "c-3", source, 0, 256 << 20, 0), 0);
    snprintf(source, sizeof source, half, "b");
    CHECK_EQUAL(house_create_limited(house, "c-4", source, 0, 256 << 20, 0), 0);
    unsigned full = 0;
    for (unsigned i = 3; i < 5; i++) {
        const char *id = i == 3 ? "c-3" : "c-4";
        CHECK(strcmp(house_finish(house, id), "a") == 0);
        const struct bl_cell_error *error = house->seen.completed.error;
        full += error != NULL && error->kind == BL_CELL_ERROR_STORE_FULL;
    }
    CHECK_EQUAL(full, 1);
    CHECK_EQUAL(house->session->by_key.count, 9);
    return 0;
}

/* Any string can be a key or a value. */
static int odd_strings(struct house *house)
{
    static const char look[] =
        "text([load('a\\u0000b'), load('a\\u0000c'), load('__proto__'), load('\\ud800')].join());";

    says(house, "c-1",
         "store('a\\u0000b', 1); store('a\\u0000c', 2); store('__proto__', 3);"
         "store('\\ud800', '\\udc00'); text('\\ud800'); notify('\\ud800');"
         "text((await tools.echo({'\\ud800': '\\ud800'})) != null);",
         "\xef\xbf\xbdtrue");
    CHECK(house->seen.completed.error == NULL);
    says(house, "c-2", look, "1,2,3,\xef\xbf\xbd");
    house_close(house);
    house_open(house);
    says(house, "c-3", look, "1,2,3,\xef\xbf\xbd");
    says(house, "c-4", "const e = new Error('\\ud800'); e.name = '\\ud800'; throw e;", "");
    CHECK_EQUAL(house->seen.completed.error->kind, BL_CELL_ERROR_EXCEPTION);
    return 0;
}

static bool is_completing(void *argument)
{
    struct house *house = argument;
    const struct cell *cell = cell_find(house->session, "c-1");
    return cell->state == CELL_COMPLETING || cell_has_ended(cell);
}

/* The store fails: nothing is written, and the outcome reports it. */
static int store_fails(struct house *house)
{
    CHECK_EQUAL(house_create(house, "c-1", "store('k', 1); text('a'); await tools.gate({});"), 0);
    while (house->calls_begun == 0)
        bl_sleep(BL_NS_PER_MS);
    house_fault(house, "cell.store.write=fail@1");
    bl_semaphore_give(&house->gate);
    CHECK(house_until(is_completing, house));
    CHECK(strcmp(house_finish(house, "c-1"), "a") == 0);
    const struct bl_cell_error *error = house->seen.completed.error;
    if (CHECK(error != NULL))
        CHECK_EQUAL(error->kind, BL_CELL_ERROR_STORE_FAILED);
    struct bl_text first = house->seen.json;
    says(house, "c-2", "text(typeof load('k'))", "undefined");
    house_close(house);
    house_open(house);
    CHECK_EQUAL(house_observe(house, "c-1", 1, 0), 0);
    CHECK(bl_text_equal(house->seen.json, first));
    says(house, "c-3", "text(typeof load('k'))", "undefined");
    return 0;
}

HOUSE_TEST(C44_stored_values_are_seen_by_the_next_cell_of_the_session, seen_by_the_next)
HOUSE_TEST(C44_nothing_is_stored_by_a_cell_that_did_not_settle, not_when_stopped)
HOUSE_TEST(C44_a_cell_sees_the_values_as_of_its_creation, as_of_create)
HOUSE_TEST(C44_cells_at_once_merge_their_keys_and_a_restart_keeps_them, merged)
HOUSE_TEST(C44_values_over_their_limits_are_refused, too_many_values)
HOUSE_TEST(C44_any_string_is_a_key, odd_strings)
HOUSE_TEST(C44_if_the_store_fails_nothing_is_stored_and_the_outcome_reports_it, store_fails)

SUITE(values, cmocka_unit_test(C44_stored_values_are_seen_by_the_next_cell_of_the_session),
      cmocka_unit_test(C44_nothing_is_stored_by_a_cell_that_did_not_settle),
      cmocka_unit_test(C44_a_cell_sees_the_values_as_of_its_creation),
      cmocka_unit_test(C44_cells_at_once_merge_their_keys_and_a_restart_keeps_them),
      cmocka_unit_test(C44_values_over_their_limits_are_refused),
      cmocka_unit_test(C44_any_string_is_a_key),
      cmocka_unit_test(C44_if_the_store_fails_nothing_is_stored_and_the_outcome_reports_it));
