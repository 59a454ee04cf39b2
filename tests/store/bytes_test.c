/* Bodies are kept byte for byte. */
#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"

/* ---- Any bytes ---- */

static const char odd_bytes[] = "\0\xff\xfe'\"\\\\x00 \xed\xa0\x80 $1 ''\r\n\t\x7f\0";
static const struct bl_text odd = {odd_bytes, sizeof odd_bytes - 1};

/* Compares a body in the store with bytes. */
static bool body_is(const struct place *place, const char *column, const char *rest,
                    struct bl_text expected)
{
    char sql[256], found[512], digits[512];
    snprintf(sql, sizeof sql, "SELECT %s(%s%s) %s", form_sql(place, "hex", "upper(encode"), column,
             form_sql(place, "", ", 'hex')"), rest);
    ask_text(place, sql, found, sizeof found);
    for (size_t i = 0; i < expected.size; i++)
        snprintf(digits + 2 * i, sizeof digits - 2 * i, "%02X", (unsigned char)expected.data[i]);
    bool same = strcmp(found, digits) == 0;
    if (!same)
        fprintf(stderr, "%s: %s, expected %s\n", column, found, digits);
    return same;
}

FORM_TEST(W4_bodies_are_kept_byte_for_byte)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_session_view view;
    struct bl_settlement settlement;
    struct bl_list turns;
    struct holding holding;
    CHECK_EQUAL(hold_with(&holding, store, &(struct bl_store_hold_options){.id = "alpha"}), 0);
    const struct bl_turn_store *table = holding.table;
    struct bl_attempt attempt = {.turn_id = BL_TEXT("turn_1"), .prompt = odd, .started_wall_ns = 1};
    CHECK_EQUAL(table->begin(table->context, &attempt, NULL), 0);
    CHECK(body_is(place, form_sql(place, "prompt", "attempt_prompt"),
                  form_sql(place, "FROM running", "FROM session"), odd));
    fill_settlement(&settlement, "turn_1");
    settlement.result = settlement.messages = settlement.events = odd;
    CHECK_EQUAL(table->commit(table->context, &settlement, &holding.error), 0);
    if (holding.error.code != 0)
        fprintf(stderr, "%s\n", holding.error.message);
    attempt.turn_id = BL_TEXT("turn_2");
    CHECK_EQUAL(table->begin(table->context, &attempt, NULL), 0);
    settlement.turn_id = BL_TEXT("turn_2");
    settlement.receipt = odd;
    bl_text_into(settlement.receipt_id, sizeof settlement.receipt_id, "rcp_2");
    CHECK_EQUAL(table->reject(table->context, &settlement, NULL), 0);
    CHECK_EQUAL(table->note(table->context, odd, "rcp_3", odd, NULL), 0);
    CHECK_EQUAL(compact_session(&holding, 1, "'\\\\u0000\\\"\xc3\xa4"), 0);
    CHECK(body_is(place, "events", "FROM turn", odd));
    CHECK(body_is(place, "prompt", "FROM attempt", odd));
    CHECK(body_is(place, "result", "FROM attempt", odd));
    CHECK(body_is(place, "lines", "FROM journal ORDER BY key LIMIT 1", odd));
    CHECK_EQUAL(bl_store_show(store, &arena, "alpha", &view, NULL), 0);
    CHECK(CHECK_EQUAL(view.turn_count, 1) && bl_text_equal(view.turns[0], odd));
    CHECK(CHECK_EQUAL(view.receipt_count, 1) && bl_text_equal(view.receipts[0], odd));
    CHECK_EQUAL(bl_store_turns(store, &arena, "alpha", &turns, NULL), 0);
    CHECK(bl_text_equal(BL_CONTAINER(turns.next, struct bl_store_turn, link)->messages, odd));
    CHECK(body_is(place, "messages", "FROM summary", make_summary("'\\\\u0000\\\"\xc3\xa4")));
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

/* ---- Large texts ---- */

#define LARGE ((size_t)32 * 1024 * 1024)

/* Returns a text with `size` bytes of any JSON string between the others. */
static struct bl_text around(struct bl_arena *arena, const char *before, size_t size,
                             const char *after)
{
    static const char pattern[] = "0\\u0000'\\\"\\\\ \xc3\xa4\xe2\x82\xac\\n,"; /* of 24 bytes */
    size_t head = strlen(before), tail = strlen(after), period = sizeof pattern - 1;
    char *text = bl_arena_alloc(arena, head + size + tail + 1);
    memcpy(text, before, head);
    for (size_t i = 0; i < size; i++)
        text[head + i] = i < size / period * period ? pattern[i % period] : '.';
    memcpy(text + head + size, after, tail + 1);
    return (struct bl_text){text, head + size + tail};
}

static void put_large(struct holding *holding, struct bl_arena *arena, struct bl_text result,
                      struct bl_text messages, struct bl_text value)
{
    const struct bl_turn_store *table = holding->table;
    struct bl_settlement settlement;
    struct bl_store_cell cell = make_cell("c-1");
    struct bl_store_value stored = {.key = {"k\0'\"", 4}, .json = value};
    struct bl_list values;
    struct bl_attempt attempt = {
        .turn_id = BL_TEXT("turn_1"), .prompt = around(arena, "", LARGE, ""), .started_wall_ns = 1};
    bl_list_init(&values);
    bl_list_push_back(&values, &stored.link);
    CHECK_EQUAL(table->begin(table->context, &attempt, NULL), 0);
    fill_settlement(&settlement, "turn_1");
    settlement.result = result;
    settlement.messages = messages;
    CHECK_EQUAL(table->commit(table->context, &settlement, NULL), 0);
    attempt.turn_id = BL_TEXT("turn_2");
    CHECK_EQUAL(table->begin(table->context, &attempt, NULL), 0);
    CHECK_EQUAL(admit_cell(holding, "c-1"), 0);
    CHECK_EQUAL(bl_store_cell_end(holding->held, &cell, &values, "", (struct bl_text){0}, NULL), 0);
    CHECK_EQUAL(bl_store_checkpoint_put(holding->held, "plan'\"\\", value, NULL), 0);
}

static void check_large(struct bl_store *store, struct holding *holding, struct bl_text result,
                        struct bl_text messages, struct bl_text value)
{
    BL_AUTO_ARENA(arena);
    struct bl_store_session_view view;
    struct bl_list turns, cells, values;
    struct bl_text found;
    CHECK_EQUAL(bl_store_show(store, &arena, "alpha", &view, NULL), 0);
    CHECK(CHECK_EQUAL(view.turn_count, 1) && bl_text_equal(view.turns[0], result));
    CHECK_EQUAL(bl_store_turns(store, &arena, "alpha", &turns, NULL), 0);
    CHECK(bl_text_equal(BL_CONTAINER(turns.next, struct bl_store_turn, link)->messages, messages));
    CHECK_EQUAL(bl_store_checkpoint_get(store, &arena, "alpha", "plan'\"\\", &found, NULL), 0);
    CHECK(bl_text_equal(found, value));
    CHECK_EQUAL(bl_store_cells_load(holding->held, &arena, &cells, &values, NULL), 0);
    const struct bl_store_value *stored = BL_CONTAINER(values.next, struct bl_store_value, link);
    CHECK(bl_text_equal(stored->key, (struct bl_text){"k\0'\"", 4}));
    CHECK(bl_text_equal(stored->json, value));
}

FORM_TEST(W4_bodies_of_32_MiB_are_kept_and_moved)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_buffer one, two;
    struct holding holding;
    const char *id = NULL;
    struct bl_text result = around(&arena, "{\"output\":\"", LARGE, "\"}");
    struct bl_text messages = around(
        &arena, "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"", LARGE, "\"}]}]");
    struct bl_text value = around(&arena, "[\"", LARGE / 4, "\"]");
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    put_large(&holding, &arena, result, messages, value);
    CHECK_EQUAL(
        ask_integer(place, form_sql(place, "SELECT length(cast(prompt AS BLOB)) FROM running",
                                    "SELECT length(attempt_prompt) FROM session")),
        (int64_t)LARGE);
    check_large(store, &holding, result, messages, value);
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(export_to(store, "alpha", &one, NULL), 0);
    CHECK(one.size > 3 * LARGE);
    CHECK_EQUAL(bl_store_import(store, bl_buffer_text(&one), "beta", &arena, &id, NULL), 0);
    CHECK_EQUAL(export_to(store, "beta", &two, NULL), 0);
    CHECK_EQUAL(two.size + 1, one.size);
    size_t tail = two.size - 64;
    CHECK(memcmp(two.data + 64, one.data + one.size - tail, tail) == 0);
    bl_buffer_done(&one);
    bl_buffer_done(&two);
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(title_is_text_whatever_the_prompt_contains)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_summary summary;
    struct holding holding;
    CHECK_EQUAL(hold_with(&holding, store,
                          &(struct bl_store_hold_options){
                              .id = "alpha", .prompt = {"a\0b\xff\xe2\x82 \xc3\xa4'", 10}}),
                0);
    CHECK_EQUAL(bl_store_summary(store, &arena, "alpha", &summary, NULL), 0);
    CHECK(strcmp(summary.title, "a\xef\xbf\xbd"
                                "b\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xc3\xa4'") == 0);
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

SUITE(bytes, FORM_UNITS(title_is_text_whatever_the_prompt_contains),
      FORM_UNITS(W4_bodies_are_kept_byte_for_byte),
      FORM_UNITS(W4_bodies_of_32_MiB_are_kept_and_moved));
