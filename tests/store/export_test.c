#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"

/* A session with all possible contents. */
static void fill(struct bl_store *store)
{
    struct holding holding;
    CHECK_EQUAL(hold_with(&holding, store,
                          &(struct bl_store_hold_options){.id = "alpha",
                                                          .directory = "/home/somebody",
                                                          .run_id = "run_1",
                                                          .prompt = BL_TEXT("Do it."),
                                                          .agent_of = "above",
                                                          .agent_turn = "turn_0",
                                                          .persona = "explore"}),
                0);
    add_turn(&holding, "turn_1");
    CHECK_EQUAL(begin_turn(&holding, "turn_2"), 0);
    CHECK_EQUAL(reject_turn(&holding, "turn_2"), 0);
    add_turn(&holding, "turn_3");
    CHECK_EQUAL(compact_session(&holding, 1, "the first"), 0);
    CHECK_EQUAL(begin_turn(&holding, "turn_4"), 0);
    CHECK_EQUAL(
        bl_store_checkpoint_put(holding.held, "plan", BL_TEXT(" {\"a\": [1.50, 1e3]} "), NULL), 0);
    add_ended_cell(&holding, "c-old");
    CHECK_EQUAL(bury_cell(&holding, "c-old", 3000000000, 10), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), 0);
    CHECK_EQUAL(end_cell(&holding, "c-1", "note", "[1.50,\"\\ud83d\"]"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-live"), 0);
    release(&holding);
}

FORM_TEST(an_export_is_lines_with_a_beginning_and_an_end)
{
    struct bl_store *store = store_at(place);
    struct bl_buffer out;
    fill(store);
    CHECK_EQUAL(export_to(store, "alpha", &out, NULL), 0);
    /* Running work is not history: turn_4 is exported when it has ended or was cut off, and c-live
     * when it has ended. */
    static const char *const types[] = {
        "session", "turn",    "turn",       "attempt", "event",      "event",          "event",
        "receipt", "receipt", "checkpoint", "cell",    "cell_value", "cell_tombstone", "end"};
    struct bl_text rest = bl_buffer_text(&out), line;
    char prefix[64];
    size_t count = 0;
    for (; bl_text_split(&rest, '\n', &line); count++) {
        if (count >= BL_COUNT(types))
            break;
        snprintf(prefix, sizeof prefix, "{\"type\":\"%s\"", types[count]);
        if (!CHECK(bl_text_starts_with(line, bl_text_from(prefix))))
            fprintf(stderr, "line %zu: " BL_TEXT_FORMAT "\n", count, BL_TEXT_ARG(line));
    }
    CHECK_EQUAL(count, BL_COUNT(types));
    CHECK(bl_text_ends_with(bl_buffer_text(&out), BL_TEXT("{\"type\":\"end\",\"lines\":13}\n")));
    CHECK(bl_text_find(
              bl_buffer_text(&out),
              BL_TEXT("\"usage\":{\"input_tokens\":23,\"output_tokens\":11},\"spent\":{"
                      "\"input_tokens\":28,\"output_tokens\":11,\"cost_usd\":1.0,"
                      "\"cost_usd_max\":1.5},\"agent_of\":\"above\","
                      "\"agent_turn\":\"turn_0\",\"persona\":\"explore\",\"summary\":[{")) > 0);
    CHECK(bl_text_find(bl_buffer_text(&out), BL_TEXT("\"checkpoint\":{\"a\":[1.5,1000.0]}")) > 0);
    CHECK(bl_text_find(bl_buffer_text(&out),
                       BL_TEXT("\"key\":\"note\",\"value\":[1.5,\"\xef\xbf\xbd\"]")) > 0);
    CHECK(bl_text_find(bl_buffer_text(&out),
                       BL_TEXT("{\"type\":\"cell_tombstone\",\"id\":\"c-old\",\"digest\":"
                               "\"6f6e6500646967657374")) > 0);
    bl_buffer_done(&out);
    bl_store_close(store);
}

FORM_TEST(every_line_fits_its_schema)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_buffer out;
    char path[4096];
    const struct bl_json *file = NULL;
    struct bl_json_schema *schema = NULL;
    const char *root = getenv("BELAY_SOURCE_ROOT");
    unsigned count = 0;
    snprintf(path, sizeof path, "%s/docs/schemas/session-line.json", root != NULL ? root : ".");
    struct bl_text source = suite_read_file(path);
    CHECK_EQUAL(bl_json_read(&arena, source, NULL, &file, NULL), 0);
    CHECK_EQUAL(bl_json_schema_new(file, &schema, NULL), 0);
    fill(store);
    CHECK_EQUAL(export_to(store, "alpha", &out, NULL), 0);
    struct bl_text rest = bl_buffer_text(&out), line;
    while (bl_text_split(&rest, '\n', &line)) {
        const struct bl_json *value = NULL;
        struct bl_list problems;
        CHECK_EQUAL(bl_json_read(&arena, line, NULL, &value, NULL), 0);
        if (!CHECK(bl_json_schema_check(schema, value, &arena, &problems) == 0))
            fprintf(stderr, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(line));
        count += bl_text_starts_with(line, BL_TEXT("{\"type\":\"cell"));
    }
    CHECK_EQUAL(count, 3);
    bl_json_schema_free(schema);
    bl_buffer_done(&out);
    bl_free((void *)(uintptr_t)source.data);
    bl_arena_done(&arena);
    bl_store_close(store);
}

static int import_all(struct bl_store *store, struct bl_text lines, const char *id)
{
    struct bl_arena arena = {0};
    const char *made = NULL;
    int code = bl_store_import(store, lines, id, &arena, &made, NULL);
    bl_arena_done(&arena);
    return code;
}

FORM_TEST(what_is_exported_imported_and_exported_is_the_same)
{
    struct bl_store *store = store_at(place);
    struct place second = *place;
    struct bl_buffer one, two;
    snprintf(second.path, sizeof second.path, "%s/second.db", place->folder);
    place_use_file(&second);
    struct bl_store *other = store_at(&second);
    fill(store);
    CHECK_EQUAL(export_to(store, "alpha", &one, NULL), 0);
    CHECK_EQUAL(import_all(other, bl_buffer_text(&one), NULL), 0);
    CHECK_EQUAL(export_to(other, "alpha", &two, NULL), 0);
    CHECK(bl_text_equal(bl_buffer_text(&one), bl_buffer_text(&two)));
    bl_buffer_done(&two);
    struct holding holding;
    CHECK_EQUAL(hold(&holding, other, "alpha"), 0);
    CHECK(has_summary(&holding, "the first"));
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    CHECK_EQUAL(holding.session.usage.input_tokens, 23);
    CHECK(cells_are(&holding, "c-1 | note=[1.5,\"\xef\xbf\xbd\"]"));
    CHECK_EQUAL(ask_integer(&second, "SELECT tombstones FROM store"), 1);
    /* An id that was used in the exporting store counts as used here. */
    CHECK_EQUAL(admit_cell(&holding, "c-old"), BL_EEXIST);
    CHECK_EQUAL(admit_cell(&holding, "c-live"), 0);
    release(&holding);
    /* Also in the same store under another id; only the id differs. */
    CHECK_EQUAL(import_all(store, bl_buffer_text(&one), "beta"), 0);
    CHECK_EQUAL(export_to(store, "beta", &two, NULL), 0);
    CHECK_EQUAL(one.size, two.size + 1);
    bl_buffer_done(&two);
    bl_buffer_done(&one);
    bl_store_close(other);
    bl_store_close(store);
}

/* Compares two exports of sessions alpha and beta except for the id. */
static bool same_but_the_id(const struct bl_buffer *alpha, const struct bl_buffer *beta)
{
    static const char head[] = "{\"type\":\"session\",\"schema\":1,\"id\":\"";
    struct bl_text one = bl_buffer_text(alpha), two = bl_buffer_text(beta);
    size_t first = strlen(head) + strlen("alpha"), second = strlen(head) + strlen("beta");
    return CHECK(bl_text_starts_with(one, bl_text_from(head)) && one.size == two.size + 1) &&
           memcmp(one.data + first, two.data + second, one.size - first) == 0;
}

/* Moves session alpha of the first store to the second one, there to beta, and back. */
static void move_there_and_back(struct bl_store *from, struct bl_store *to)
{
    struct bl_buffer one, two;
    CHECK_EQUAL(export_to(from, "alpha", &one, NULL), 0);
    CHECK_EQUAL(import_all(to, bl_buffer_text(&one), NULL), 0);
    CHECK_EQUAL(export_to(to, "alpha", &two, NULL), 0);
    CHECK(bl_text_equal(bl_buffer_text(&one), bl_buffer_text(&two)));
    bl_buffer_done(&two);
    CHECK_EQUAL(import_all(to, bl_buffer_text(&one), "beta"), 0);
    CHECK_EQUAL(export_to(to, "beta", &two, NULL), 0);
    CHECK(same_but_the_id(&one, &two));
    CHECK_EQUAL(bl_store_delete(from, "alpha", NULL), 0);
    CHECK_EQUAL(import_all(from, bl_buffer_text(&two), "alpha"), 0);
    bl_buffer_done(&two);
    CHECK_EQUAL(export_to(from, "alpha", &two, NULL), 0);
    CHECK(bl_text_equal(bl_buffer_text(&one), bl_buffer_text(&two)));
    bl_buffer_done(&two);
    bl_buffer_done(&one);
}

/* `place` is that of the database, and has room for a file. */
POSTGRES_TEST(W2_a_session_moves_between_the_forms_byte_for_byte)
{
    struct place beside = *place;
    struct bl_store *database = store_at(place);
    place_use_file(&beside);
    struct bl_store *file = store_at(&beside);
    struct holding holding;
    fill(file);
    move_there_and_back(file, database);
    /* What was imported continues. */
    CHECK_EQUAL(hold(&holding, database, "beta"), 0);
    CHECK(has_summary(&holding, "the first"));
    CHECK_EQUAL(admit_cell(&holding, "c-old"), BL_EEXIST);
    add_turn(&holding, "turn_5");
    release(&holding);
    CHECK_EQUAL(bl_store_delete(file, "alpha", NULL), 0);
    CHECK_EQUAL(bl_store_delete(database, "alpha", NULL), 0);
    CHECK_EQUAL(bl_store_delete(database, "beta", NULL), 0);
    fill(database);
    move_there_and_back(database, file);
    bl_store_close(file);
    bl_store_close(database);
}

/* Reads slowly, and commits in between. */
struct slow {
    struct holding *holding;
    unsigned turns;
    unsigned added;
};

static int take_slowly(void *context, struct bl_text line)
{
    struct slow *slow = context;
    char turn_id[BL_ID_SIZE];
    slow->turns += bl_text_starts_with(line, BL_TEXT("{\"type\":\"turn\""));
    if (slow->added < 5) {
        snprintf(turn_id, sizeof turn_id, "late_%u", slow->added++);
        add_turn(slow->holding, turn_id);
    }
    return 0;
}

FORM_TEST(export_shows_one_moment)
{
    struct bl_store *store = store_at(place);
    struct holding holding;
    char turn_id[BL_ID_SIZE];
    unsigned count = (unsigned)suite_rounds(SUITE_SANITIZED ? 100 : 300, 10000);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    for (unsigned i = 0; i < count; i++) {
        struct bl_settlement settlement;
        snprintf(turn_id, sizeof turn_id, "turn_%u", i);
        CHECK_EQUAL(begin_turn(&holding, turn_id), 0);
        fill_settlement(&settlement, turn_id);
        CHECK_EQUAL(holding.table->commit(holding.table->context, &settlement, NULL), 0);
    }
    struct slow slow = {.holding = &holding};
    CHECK_EQUAL(bl_store_export(store, "alpha", take_slowly, &slow, NULL), 0);
    CHECK_EQUAL(slow.turns, count);
    CHECK_EQUAL(slow.added, 5);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), count + 5);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(damaged_result_is_reported)
{
    struct bl_store *store = store_at(place);
    struct bl_buffer out;
    struct bl_error error = {0};
    fill(store);
    change_file(place, "UPDATE turn SET result = '{' WHERE number = 2");
    CHECK_EQUAL(export_to(store, "alpha", &out, &error), BL_EPARSE);
    CHECK(strstr(error.message, "result") != NULL);
    bl_buffer_done(&out);
    bl_store_close(store);
}

SUITE(export, FORM_UNITS(an_export_is_lines_with_a_beginning_and_an_end),
      FORM_UNITS(every_line_fits_its_schema),
      FORM_UNITS(what_is_exported_imported_and_exported_is_the_same),
      cmocka_unit_test(W2_a_session_moves_between_the_forms_byte_for_byte),
      FORM_UNITS(export_shows_one_moment), FORM_UNITS(damaged_result_is_reported));
