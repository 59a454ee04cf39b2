#include <stdio.h>

#include "helpers.h"

#define HEAD_WITH(more)                 HEAD_OF_SCHEMA("1", "1" more)
#define HEAD_OF_CONTEXT(context)        HEAD_OF_SCHEMA("1", context)
#define HEAD_OF_SCHEMA(schema, context) HEAD_OF_TURNS(schema, context, "1")
#define HEAD_OF_TURNS(schema, context, turns)                                                      \
    "{\"type\":\"session\",\"schema\":" schema                                                     \
    ",\"id\":\"alpha\",\"directory\":\"/d\",\"title\":\"t\","                                      \
    "\"parent\":null,\"created_at\":\"2026-11-15T18:50:07.123Z\","                                 \
    "\"updated_at\":\"2026-11-15T18:50:07.123Z\",\"turns\":" turns ",\"context_from\":" context    \
    "}\n"
/* The format before sub-agents and summaries. */
#define HEAD HEAD_WITH("")
#define SPENT(cost)                                                                                \
    "{\"input_tokens\":9,\"output_tokens\":8,\"cost_usd\":" cost ",\"cost_usd_max\":" cost "}"
#define HEAD_OF_AGENT                                                                              \
    HEAD_WITH(",\"usage\":{\"input_tokens\":7,\"output_tokens\":6},\"spent\":" SPENT(              \
        "0.5") ",\"agent_of\":\"above\",\"agent_turn\":\"turn_0\",\"persona\":\"explore\","        \
               "\"summary\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"s\"}]}" \
               "]")
#define TURN_WITH(number, messages, events)                                                        \
    "{\"type\":\"turn\",\"number\":" number ",\"id\":\"turn_1\",\"run\":\"run_1\","                \
    "\"interrupted\":false,\"ended_at\":\"2026-11-15T18:50:07.123Z\","                             \
    "\"usage\":{\"input_tokens\":3,\"output_tokens\":4},"                                          \
    "\"spent\":{\"input_tokens\":5,\"output_tokens\":6,\"cost_usd\":null,\"cost_usd_max\":null},"  \
    "\"result\":{\"turn_id\":\"turn_1\"},"                                                         \
    "\"messages\":" messages ","                                                                   \
    "\"events\":" events "}\n"
#define MESSAGES              "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hi\"}]}]"
#define TURN_NUMBERED(number) TURN_WITH(number, MESSAGES, "[{\"type\":\"turn_ended\",\"seq\":7}]")
#define TURN                  TURN_NUMBERED("1")
#define ATTEMPT               ATTEMPT_WITH("turn_2", "rejected", "2026-11-15T18:50:07.123Z", "null", "null")
#define ATTEMPT_WITH(id, state, started, receipt, result)                                          \
    "{\"type\":\"attempt\",\"id\":\"" id "\",\"run\":\"run_1\",\"state\":\"" state "\","           \
    "\"started_at\":\"" started "\",\"ended_at\":\"2026-11-15T18:50:08.123Z\","                    \
    "\"spent\":{\"input_tokens\":0,\"output_tokens\":0,\"cost_usd\":0.0,\"cost_usd_max\":0.0},"    \
    "\"receipt\":" receipt ",\"prompt\":\"p\\u0000q\",\"result\":" result "}\n"
#define BEGUN_AT(id, time) ATTEMPT_WITH(id, "cut_off", time, "\"rcp_1\"", "{\"a\":[1]}")
#define EVENT(run, event)  "{\"type\":\"event\",\"run\":\"" run "\",\"event\":" event "}\n"
#define RECEIPT(id)        "{\"type\":\"receipt\",\"id\":\"" id "\",\"receipt\":{\"id\":\"" id "\"}}\n"
#define CHECKPOINT(name)   "{\"type\":\"checkpoint\",\"name\":\"" name "\",\"checkpoint\":[1]}\n"
#define EIGHT              "12345678"
#define THIRTY_ONE         EIGHT EIGHT EIGHT "1234567"
#define SEVENTY_ONE        EIGHT EIGHT THIRTY_ONE EIGHT EIGHT EIGHT
#define KEY_LONGEST        EIGHT SEVENTY_ONE SEVENTY_ONE SEVENTY_ONE THIRTY_ONE "1234"
#define DIGEST             "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define CELL_WITH(id, digest, generation, completed, outcome, yielded)                             \
    "{\"type\":\"cell\",\"id\":\"" id "\",\"digest\":\"" digest                                    \
    "\",\"created_at\":\"2026-11-15T18:50:07.123Z\",\"ended_at\":\"2026-11-15T18:50:08.123Z\","    \
    "\"deadline_ms\":60000,\"generation\":" generation ",\"completed\":" completed                 \
    ",\"outcome\":" outcome ",\"yielded_generation\":" yielded "}\n"
#define OUTCOME(type, generation)                                                                  \
    "{\"type\":\"" type "\",\"cell_id\":\"c-1\",\"generation\":" generation "}"
#define ENDED      OUTCOME("completed", "2")
#define CELL       CELL_WITH("c-1", DIGEST, "2", "true", ENDED, "1,\"yielded\":" OUTCOME("yielded", "1"))
#define VALUE(key) "{\"type\":\"cell_value\",\"key\":\"" key "\",\"value\":null}\n"
#define TOMBSTONE(id)                                                                              \
    "{\"type\":\"cell_tombstone\",\"id\":\"" id "\",\"digest\":\"" DIGEST                          \
    "\",\"buried_at\":\"2026-11-15T18:50:09.123Z\"}\n"
#define END(lines) "{\"type\":\"end\",\"lines\":" lines "}\n"

static int import_text(struct bl_store *store, const char *text, struct bl_error *error)
{
    struct bl_arena arena = {0};
    const char *id = NULL;
    *error = (struct bl_error){0};
    int code = bl_store_import(store, bl_text_from(text), NULL, &arena, &id, error);
    CHECK(code != 0 || strcmp(id, "alpha") == 0);
    CHECK_EQUAL(error->code, code);
    bl_arena_done(&arena);
    return code;
}

FORM_TEST(session_is_imported_completely)
{
    struct bl_store *store = store_at(place);
    struct bl_error error;
    struct holding holding;
    CHECK_EQUAL(import_text(store, HEAD TURN ATTEMPT END("3"), &error), 0);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.session.turns_total, 1);
    CHECK_EQUAL(holding.session.turns_in_context, 1);
    CHECK_EQUAL(holding.session.usage.output_tokens, 4);
    add_turn(&holding, "turn_9");
    release(&holding);
    CHECK_EQUAL(import_text(store, HEAD TURN END("2"), &error), BL_EEXIST);
    CHECK_EQUAL(error.kind, BL_KIND_SESSION);
    /* The model may see none of the turns. */
    CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), 0);
    CHECK_EQUAL(import_text(store, HEAD_OF_CONTEXT("2") TURN END("2"), &error), 0);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(holding.session.turns_total, 1);
    CHECK_EQUAL(holding.session.turns_in_context, 0);
    release(&holding);
    bl_store_close(store);
}

/* Two figures that are too large together are limited to what a store can hold. */
FORM_TEST(totals_are_summed_over_the_turns_of_a_file_without_them)
{
#define SUMMED(number, id, input, cost)                                                            \
    "{\"type\":\"turn\",\"number\":" number ",\"id\":\"" id "\",\"run\":\"run_1\","                \
    "\"interrupted\":false,\"ended_at\":\"2026-11-15T18:50:07.123Z\","                             \
    "\"usage\":{\"input_tokens\":" input                                                           \
    ",\"output_tokens\":4},\"spent\":" SPENT(cost) ",\"result\":{},\"messages\":" MESSAGES         \
                                                   ",\"events\":[]}\n"
#define LARGEST "9223372036854775807"
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_summary summary;
    struct bl_error error;
    CHECK_EQUAL(import_text(store,
                            HEAD_OF_TURNS("1", "1", "2") SUMMED("1", "turn_1", LARGEST, "0.5")
                                SUMMED("2", "turn_2", LARGEST, "0.25") END("3"),
                            &error),
                0);
    CHECK_EQUAL(bl_store_summary(store, &arena, "alpha", &summary, NULL), 0);
    CHECK_EQUAL(summary.usage.input_tokens, INT64_MAX);
    CHECK_EQUAL(summary.usage.output_tokens, 8);
    CHECK_EQUAL(summary.spent.usage.input_tokens, 18);
    CHECK(summary.spent.cost_usd == 0.75 && !summary.spent.cost_unknown);
    bl_arena_done(&arena);
    bl_store_close(store);
#undef LARGEST
#undef SUMMED
}

FORM_TEST(sub_agent_and_summary_are_imported)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_store_session_view view;
    struct bl_error error;
    struct holding holding;
    CHECK_EQUAL(import_text(store, HEAD_OF_AGENT TURN END("2"), &error), 0);
    CHECK_EQUAL(bl_store_show(store, &arena, "alpha", &view, NULL), 0);
    CHECK(strcmp(view.summary.agent_of, "above") == 0);
    CHECK(strcmp(view.summary.agent_turn, "turn_0") == 0);
    CHECK(strcmp(view.summary.persona, "explore") == 0);
    /* Includes what was used outside turns. */
    CHECK_EQUAL(view.summary.usage.input_tokens, 7);
    CHECK_EQUAL(view.summary.spent.usage.output_tokens, 8);
    CHECK(!view.summary.spent.cost_unknown && view.summary.spent.cost_usd == 0.5);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK(has_summary(&holding, "s"));
    release(&holding);
    bl_arena_done(&arena);
    bl_store_close(store);
}

FORM_TEST(cells_values_and_tombstones_are_imported)
{
    struct bl_store *store = store_at(place);
    struct bl_error error;
    struct holding holding;
    char terminal[128];
    CHECK_EQUAL(import_text(store,
                            HEAD TURN CELL VALUE("k\\u0000l") VALUE("k") TOMBSTONE("c-2") END("6"),
                            &error),
                0);
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    CHECK_EQUAL(admit_cell(&holding, "c-1"), BL_EBUSY);
    CHECK_EQUAL(admit_cell(&holding, "c-2"), BL_EBUSY);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell_value WHERE body = 'null'"), 2);
    CHECK_EQUAL(
        ask_integer(place, form_sql(place, "SELECT max(length(cast(name AS BLOB))) FROM cell_value",
                                    "SELECT max(length(name)) FROM cell_value")),
        3);
    CHECK_EQUAL(ask_integer(place, form_sql(place, "SELECT tombstones FROM store",
                                            "SELECT count FROM tombstones")),
                1);
    CHECK_EQUAL(ask_integer(place, "SELECT yielded_generation + generation + pid FROM cell"
                                   " WHERE completed AND yielded LIKE '%yielded%'"),
                3);
    ask_text(place, "SELECT terminal FROM cell", terminal, sizeof terminal);
    CHECK(strcmp(terminal, ENDED) == 0);
    release(&holding);
    bl_store_close(store);
}

FORM_TEST(import_is_exported_byte_for_byte)
{
    static const char *const texts[] = {
        HEAD_OF_AGENT TURN ATTEMPT EVENT("run_1", "{\"seq\":9}") RECEIPT("rcp_1") CHECKPOINT("n")
            CELL VALUE("k") TOMBSTONE("c-2") END("9"),
        /* Days at the edges of months, years and the epoch; ids of the maximum length. */
        HEAD_OF_AGENT TURN BEGUN_AT("turn_2", "2024-02-29T00:00:00.000Z") BEGUN_AT(
            "turn_3", "2000-03-01T23:59:59.999Z") BEGUN_AT("turn_4", "1970-01-01T00:00:00.000Z")
            BEGUN_AT("turn_5", "1969-12-31T10:20:30.400Z")
                BEGUN_AT(THIRTY_ONE, "2100-02-28T01:02:03.004Z") EVENT("run_1", "{\"seq\":9}")
                    EVENT("run_1", "{\"seq\":10}") EVENT(SEVENTY_ONE, "{\"seq\":1}")
                        RECEIPT("rcp_1") RECEIPT(THIRTY_ONE) CHECKPOINT("m") CHECKPOINT("n")
                            CELL_WITH("c-1", DIGEST, "2", "false", OUTCOME("terminated", "2"),
                                      "0,\"yielded\":null") VALUE(KEY_LONGEST) TOMBSTONE("c-2")
                                TOMBSTONE("c-3") END("18"),
    };
    struct bl_store *store = store_at(place);
    for (size_t i = 0; i < BL_COUNT(texts); i++) {
        struct bl_buffer out;
        struct bl_error error;
        CHECK_EQUAL(import_text(store, texts[i], &error), 0);
        if (error.code != 0)
            fprintf(stderr, "%s\n", error.message);
        CHECK_EQUAL(export_to(store, "alpha", &out, &error), 0);
        if (!CHECK(bl_text_equal(bl_buffer_text(&out), bl_text_from(texts[i]))))
            fprintf(stderr, BL_TEXT_FORMAT "\n%s\n", BL_TEXT_ARG(bl_buffer_text(&out)), texts[i]);
        bl_buffer_done(&out);
        CHECK_EQUAL(bl_store_delete(store, "alpha", NULL), 0);
    }
    bl_store_close(store);
}

FORM_TEST(invalid_line_is_named_and_nothing_is_imported)
{
    static const struct {
        const char *text;
        const char *line;
        const char *word;
    } cases[] = {
        {"", "line 1:", "end, is missing"},
        {HEAD TURN, "line 3:", "the file is truncated"},
        {HEAD_OF_SCHEMA("2", "1") TURN END("2"), "line 1:", "unsupported schema"},
        {HEAD_OF_SCHEMA("0", "1") TURN END("2"), "line 1:", "unsupported schema"},
        {HEAD_WITH(",\"agent_of\":\"../x\"") TURN END("2"), "line 1:", "agent_of: expected an id"},
        {HEAD_WITH(",\"agent_of\":7") TURN END("2"), "line 1:", "agent_of: "},
        {HEAD_WITH(",\"agent_turn\":\"\"") TURN END("2"), "line 1:", "agent_turn: "},
        {HEAD_WITH(",\"persona\":\"a\\u0000b\"") TURN END("2"), "line 1:", "persona: "},
        {HEAD_WITH(",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}") TURN END("2"),
         "line 1:", "spent: "},
        {HEAD_WITH(",\"usage\":{}") TURN END("2"), "line 1:", "usage.input_tokens: missing"},
        {HEAD_WITH(",\"summary\":{}") TURN END("2"), "line 1:", "summary: expected a list"},
        {HEAD_WITH(",\"summary\":[{\"role\":\"dog\"}]") TURN END("2"),
         "line 1:", "summary[0].role: expected one of user, assistant"},
        {HEAD TURN END("1"), "line 3:", "number of lines"},
        {HEAD TURN END("2") TURN, "line 4:", "after the last line"},
        {HEAD END("1"), "line 2:", "fewer turns"},
        {TURN END("1"), "line 1:", "not an exported session"},
        {HEAD HEAD TURN END("3"), "line 2:", "second line"},
        {HEAD TURN_NUMBERED("2") END("2"), "line 2:", "missing or duplicate turn"},
        {HEAD TURN TURN END("3"), "line 3:", "missing or duplicate turn"},
        {HEAD TURN_WITH("1", "[{\"role\":\"dog\"}]", "[]") END("2"),
         "line 2:", "messages[0].role: expected one of user, assistant"},
        {HEAD TURN_WITH("1", "{}", "[]") END("2"), "line 2:", "messages: expected a list"},
        {HEAD TURN_WITH("1", MESSAGES, "[{},1]") END("2"),
         "line 2:", "events[1]: expected an object"},
        {HEAD TURN_WITH("1", MESSAGES, "{}") END("2"), "line 2:", "events: expected a list"},
        {HEAD TURN_NUMBERED("-1") END("2"), "line 2:", "number: expected a whole number"},
        {HEAD TURN_NUMBERED("true") END("2"), "line 2:", "number: "},
        {HEAD TURN ATTEMPT ATTEMPT END("4"), "line 4:", "duplicate id"},
        {HEAD "{\"type\":\"turn\",\"number\":1}\n" END("2"), "line 2:", "id: missing"},
        {HEAD "{\"type\":\"turn\"\n" END("2"), "line 2:", "expected"},
        {HEAD "[]\n" END("2"), "line 2:", "expected an object"},
        {HEAD "{\"type\":\"other\"}\n" END("2"), "line 2:", "type: expected one of session, turn"},
        {HEAD "{\"type\":\"event\",\"run\":\"r\",\"event\":1}\n" END("2"),
         "line 2:", "event: expected an object"},
        {HEAD "{\"type\":\"checkpoint\",\"name\":\"n\"}\n" END("2"),
         "line 2:", "checkpoint: missing"},
        {HEAD_OF_CONTEXT("0") TURN END("2"), "line 1:", "context_from: "},
        {HEAD_OF_CONTEXT("3") TURN END("2"), "line 1:", "outside the turns"},
        {HEAD BEGUN_AT("turn_2", "2026-02-29T00:00:00.000Z") END("2"), "line 2:", "a time"},
        {HEAD BEGUN_AT("turn_2", "2026-13-01T00:00:00.000Z") END("2"), "line 2:", "a time"},
        {HEAD BEGUN_AT("turn_2", "2026-12-01T24:00:00.000Z") END("2"), "line 2:", "a time"},
        {HEAD BEGUN_AT("turn_2", "2026-12-01T00:00:00.00Z") END("2"), "line 2:", "a time"},
        {HEAD BEGUN_AT("turn_2", "2026-12-01T00:00:00.0000Z") END("2"), "line 2:", "a time"},
        {HEAD BEGUN_AT("turn_2", "9999-12-01T00:00:00.000Z") END("2"), "line 2:", "a time"},
        {HEAD BEGUN_AT(THIRTY_ONE "x", "2026-12-01T00:00:00.000Z") END("2"),
         "line 2:", "id: expected a string of 1 to 31 bytes"},
        {HEAD ATTEMPT_WITH("turn_2", "over", "2026-12-01T00:00:00.000Z", "null", "null") END("2"),
         "line 2:", "state: expected one of rejected, cut_off"},
        {HEAD ATTEMPT_WITH("turn_2", "cut_off", "2026-12-01T00:00:00.000Z", "7", "null") END("2"),
         "line 2:", "receipt: "},
        {HEAD ATTEMPT_WITH("turn_2", "cut_off", "2026-12-01T00:00:00.000Z", "null", "[]") END("2"),
         "line 2:", "result: "},
        {HEAD EVENT(SEVENTY_ONE "x", "{}") END("2"),
         "line 2:", "run: expected a string of at most 71"},
        {HEAD RECEIPT("rcp_1") RECEIPT("rcp_1") END("3"), "line 3:", "duplicate id"},
        {HEAD RECEIPT(THIRTY_ONE "x") END("2"), "line 2:", "id: expected a string of 1 to 31"},
        {HEAD CHECKPOINT("n") CHECKPOINT("n") END("3"), "line 3:", "duplicate id"},
        {HEAD CHECKPOINT("") END("2"), "line 2:", "name: "},
        {HEAD VALUE(KEY_LONGEST "x") END("2"), "line 2:", "key: expected a string of 1 to 256"},
        {HEAD CELL CELL END("3"), "line 3:", "duplicate id"},
        {HEAD CELL TOMBSTONE("c-1") END("3"), "line 3:", "duplicate id"},
        {HEAD TOMBSTONE("../x") END("2"), "line 2:", "id: expected an id"},
        {HEAD CELL_WITH("c-1", "0123", "2", "true", ENDED, "0") END("2"),
         "line 2:", "digest: expected 64"},
        {HEAD CELL_WITH("c-1", DIGEST "0", "2", "true", ENDED, "0") END("2"),
         "line 2:", "digest: expected 64"},
        {HEAD CELL_WITH("c-2", DIGEST, "2", "true", ENDED, "0") END("2"), "line 2:", "outcome"},
        {HEAD CELL_WITH("c-1", DIGEST, "3", "true", ENDED, "0") END("2"), "line 2:", "outcome"},
        {HEAD CELL_WITH("c-1", DIGEST, "2", "false", ENDED, "0") END("2"), "line 2:", "outcome"},
        {HEAD CELL_WITH("c-1", DIGEST, "2", "true", "null", "0") END("2"), "line 2:", "outcome: "},
        {HEAD CELL_WITH("c-1", DIGEST, "2", "true", ENDED, "1") END("2"), "line 2:", "the outcome"},
        {HEAD CELL_WITH("c-1", DIGEST, "2", "true", ENDED, "3,\"yielded\":" OUTCOME("yielded", "3"))
             END("2"),
         "line 2:", "after its end"},
        {HEAD VALUE("") END("2"), "line 2:", "key: "},
        {HEAD VALUE("k") VALUE("k") END("3"), "line 3:", "duplicate id"},
        {HEAD "{\"type\":\"cell_value\",\"key\":\"k\"}\n" END("2"), "line 2:", "value: missing"},
    };
    struct bl_store *store = store_at(place);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_error error;
        CHECK_EQUAL(import_text(store, cases[i].text, &error), BL_EPARSE);
        CHECK_EQUAL(error.kind, BL_KIND_PARSE);
        bool told = strstr(error.message, cases[i].line) != NULL &&
                    strstr(error.message, cases[i].word) != NULL;
        if (!told)
            fprintf(stderr, "case %zu: %s\n", i, error.message);
        CHECK(told);
    }
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM turn"), 0);
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM cell"), 0);
    bl_store_close(store);
}

FORM_TEST(any_change_to_a_file_is_refused_or_imported_correctly)
{
    static const char text[] = HEAD_OF_AGENT TURN ATTEMPT CELL VALUE("k") TOMBSTONE("c-2") END("6");
    struct bl_store *store = store_at(place);
    struct bl_random random;
    unsigned long rounds = suite_rounds(400, 50000);
    char changed[sizeof text];
    bl_random_seed(&random, 20261115);
    for (unsigned long i = 0; i < rounds; i++) {
        struct bl_arena arena = {0};
        const char *id = NULL;
        memcpy(changed, text, sizeof text);
        size_t size = sizeof text - 1;
        changed[bl_random_below(&random, size)] = (char)bl_random_next(&random);
        if (i % 4 == 0)
            size = (size_t)bl_random_below(&random, size);
        int code = bl_store_import(store, (struct bl_text){changed, size}, NULL, &arena, &id, NULL);
        CHECK(code == 0 || code == BL_EPARSE);
        if (code == 0)
            CHECK_EQUAL(bl_store_delete(store, id, NULL), 0);
        bl_arena_done(&arena);
    }
    CHECK_EQUAL(ask_integer(place, "SELECT count(*) FROM session"), 0);
    CHECK_EQUAL(ask_integer(place, form_sql(place, "SELECT tombstones FROM store",
                                            "SELECT count FROM tombstones")),
                0);
    bl_store_close(store);
}

SUITE(import, FORM_UNITS(session_is_imported_completely),
      FORM_UNITS(totals_are_summed_over_the_turns_of_a_file_without_them),
      FORM_UNITS(sub_agent_and_summary_are_imported),
      FORM_UNITS(cells_values_and_tombstones_are_imported),
      FORM_UNITS(import_is_exported_byte_for_byte),
      FORM_UNITS(invalid_line_is_named_and_nothing_is_imported),
      FORM_UNITS(any_change_to_a_file_is_refused_or_imported_correctly));
