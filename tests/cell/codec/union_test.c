/* Every union of the wire: the codec and the schemas accept exactly the same members and values. */
#include "golden.h"

#include <stdio.h>

/* ---- Refused values -------------------------------------------------------------------------- */

/* Returns the object without the member `without` and with the members `more` (JSON). Either may be
 * NULL. */
static struct bl_text changed(struct bl_arena *arena, const struct bl_json *value,
                              const char *without, const char *more)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, GOLDEN_TEXT_MAX);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    BL_JSON_MEMBERS (key, value) {
        if (without != NULL && bl_text_equal(bl_json_text(key), bl_text_from(without)))
            continue;
        bl_json_write_key(&writer, bl_json_text(key));
        bl_json_write_value(&writer, key + 1);
    }
    bl_json_write_end(&writer);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    if (more != NULL) {
        out.size--;
        bl_buffer_printf(&out, "%s%s}", out.size > 1 ? "," : "", more);
    }
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}

static struct bl_text reply_with(struct bl_arena *arena, const char *op, struct bl_text ok)
{
    return bl_arena_printf(arena,
                           "{\"type\":\"reply\",\"id\":7,\"op\":\"%s\",\"ok\":" BL_TEXT_FORMAT "}",
                           op, BL_TEXT_ARG(ok));
}

/* Returns whether the `ok` is accepted, which every way to read it must agree on. */
static bool is_taken(struct bl_arena *arena, enum cell_operation operation, struct bl_text ok)
{
    struct bl_cell_observe_outcome observed;
    struct bl_cell_terminate_outcome terminated;
    struct cell_frame frame;
    struct cell_ok read;
    struct bl_error error = {0};
    const char *op = cell_operation_name(operation);

    bool taken = cell_ok_read(arena, operation, golden_parse(arena, ok), &read, &error) == 0;
    assert_int_equal(taken, error.message[0] == '\0');
    assert_int_equal(cell_host_frame_read(arena, reply_with(arena, op, ok), &frame, NULL) == 0,
                     taken);
    if (operation == CELL_OBSERVE)
        assert_int_equal(bl_cell_observe_outcome_read(arena, ok, &observed, NULL) == 0, taken);
    if (operation == CELL_TERMINATE)
        assert_int_equal(bl_cell_terminate_outcome_read(arena, ok, &terminated, NULL) == 0, taken);
    return taken;
}

static void C47_yielded_in_a_terminate_reply_is_refused(void **state)
{
    struct golden *golden = *state;
    const struct bl_json *ok =
        golden_get(golden_find(golden, "reply-", "observe-yielded")->root, "ok");
    struct bl_text text = changed(&golden->arena, ok, NULL, NULL);
    struct bl_cell_terminate_outcome outcome;
    struct bl_error error = {0};

    assert_true(is_taken(&golden->arena, CELL_OBSERVE, text));
    assert_false(is_taken(&golden->arena, CELL_TERMINATE, text));
    assert_int_equal(bl_cell_terminate_outcome_read(&golden->arena, text, &outcome, &error),
                     BL_EPARSE);
    assert_string_equal(error.message,
                        "type: expected one of completed, terminated, missing, found \"yielded\"");
}

static void C47_missing_with_content_items_is_refused(void **state)
{
    struct golden *golden = *state;
    const struct bl_json *ok =
        golden_get(golden_find(golden, "reply-", "observe-missing")->root, "ok");
    struct bl_text text = changed(&golden->arena, ok, NULL, "\"content_items\":[]");
    struct bl_cell_observe_outcome outcome;
    struct bl_error error = {0};

    assert_false(is_taken(&golden->arena, CELL_OBSERVE, text));
    assert_false(is_taken(&golden->arena, CELL_TERMINATE, text));
    assert_int_equal(bl_cell_observe_outcome_read(&golden->arena, text, &outcome, &error),
                     BL_EPARSE);
    assert_string_equal(error.message, "\"content_items\" is a member of yielded, not of missing");
    /* Here it is not a field of any variant. */
    assert_true(is_taken(&golden->arena, CELL_RELEASE, text));
}

/* Writes the value with an unknown member in each of our objects, at any depth. Payloads of others
 * are left alone, and receipts have a closed form of their own. */
static void write_extended(struct bl_json_writer *writer, const struct bl_json *value)
{
    static const char *const payloads[] = {"input", "input_schema", "receipt"};

    if (bl_json_is(value, BL_JSON_ARRAY)) {
        bl_json_write_array(writer);
        BL_JSON_EACH (element, value)
            write_extended(writer, element);
        bl_json_write_end(writer);
    } else if (bl_json_is(value, BL_JSON_OBJECT)) {
        bl_json_write_object(writer);
        bl_json_put_string(writer, "a_field_of_later", "yes");
        BL_JSON_MEMBERS (key, value) {
            bool payload = false;
            for (size_t i = 0; i < BL_COUNT(payloads); i++)
                payload |= bl_text_equal(bl_json_text(key), bl_text_from(payloads[i]));
            bl_json_write_key(writer, bl_json_text(key));
            if (payload)
                bl_json_write_value(writer, key + 1);
            else
                write_extended(writer, key + 1);
        }
        bl_json_write_end(writer);
    } else {
        bl_json_write_value(writer, value);
    }
}

static void C47_an_unknown_extra_field_is_not_refused(void **state)
{
    struct golden *golden = *state;
    struct bl_json_schema *schema = golden_schema("frame");

    for (size_t i = 0; i < golden->count; i++) {
        struct bl_json_writer writer;
        struct bl_buffer out;
        bl_buffer_init(&out, GOLDEN_TEXT_MAX);
        bl_json_writer_init(&writer, &out);
        write_extended(&writer, golden->files[i].root);
        assert_int_equal(bl_json_writer_done(&writer), 0);
        if (golden_decode(&golden->arena, bl_buffer_text(&out), golden->files[i].root) != 0 ||
            !golden_fits(schema, golden_parse(&golden->arena, bl_buffer_text(&out)), true))
            fail_msg("%s", golden->files[i].name);
        bl_buffer_done(&out);
    }
    bl_json_schema_free(schema);
}

/* ---- Every frame, without each of its fields and with those of others ------------------------ */

/* A valid value for each field that a frame can have, so that only its presence is wrong. */
static const char *const frame_members[] = {
    "\"client\":\"a\"",
    "\"versions\":[1]",
    "\"requires\":[]",
    "\"wants\":[]",
    "\"id\":1",
    "\"op\":\"list\"",
    "\"args\":{}",
    "\"session_id\":\"s\"",
    "\"cell_id\":\"c\"",
    "\"call_id\":\"a\"",
    "\"ok\":{}",
    "\"err\":{}",
    "\"seq\":1",
    "\"version\":1",
    "\"capabilities\":[]",
    "\"instance\":\"h\"",
    "\"limits\":{}",
    "\"reason\":\"a\"",
    "\"tool\":\"a\"",
    "\"input\":{}",
    "\"redelivered\":true",
    "\"text\":\"a\"",
    "\"message\":\"a\"",
};

static bool has_member(const struct bl_json *object, const char *member)
{
    struct bl_text name = {member + 1, (size_t)(strchr(member + 1, '"') - member - 1)};
    return bl_json_get(object, name) != NULL;
}

static void frames_are_refused_without_a_field_or_with_that_of_another(void **state)
{
    struct golden *golden = *state;
    struct bl_json_schema *schema = golden_schema("frame");

    for (size_t i = 0; i < golden->count; i++) {
        struct golden_file *file = &golden->files[i];
        BL_JSON_MEMBERS (key, file->root) {
            struct bl_text text = changed(&golden->arena, file->root, bl_json_text(key).data, NULL);
            if (golden_decode(&golden->arena, text, file->root) == 0 ||
                golden_fits(schema, golden_parse(&golden->arena, text), false))
                fail_msg("%s without " BL_TEXT_FORMAT, file->name, BL_TEXT_ARG(bl_json_text(key)));
        }
        for (size_t j = 0; j < BL_COUNT(frame_members); j++) {
            if (has_member(file->root, frame_members[j]))
                continue;
            struct bl_text text = changed(&golden->arena, file->root, NULL, frame_members[j]);
            if (golden_decode(&golden->arena, text, file->root) == 0 ||
                golden_fits(schema, golden_parse(&golden->arena, text), false))
                fail_msg("%s with %s", file->name, frame_members[j]);
        }
    }
    bl_json_schema_free(schema);
}

/* ---- Every outcome, to every operation ------------------------------------------------------- */

static const struct {
    const char *type;
    unsigned operations; /* operations that can answer it, as bits */
} outcome_types[] = {
    {"opened", 1u << CELL_OPEN_SESSION},
    {"created", 1u << CELL_CREATE_CELL},
    {"yielded", 1u << CELL_OBSERVE},
    {"completed", 1u << CELL_OBSERVE | 1u << CELL_TERMINATE},
    {"terminated", 1u << CELL_OBSERVE | 1u << CELL_TERMINATE},
    {"missing", 1u << CELL_OBSERVE | 1u << CELL_TERMINATE | 1u << CELL_RELEASE},
    {"released", 1u << CELL_RELEASE},
    {"listed", 1u << CELL_LIST},
    {"closed", 1u << CELL_CLOSE_SESSION},
};

static bool can_answer(enum cell_operation operation, const struct bl_json *ok)
{
    for (size_t i = 0; i < BL_COUNT(outcome_types); i++) {
        if (bl_text_equal(bl_json_text(golden_get(ok, "type")),
                          bl_text_from(outcome_types[i].type)))
            return (outcome_types[i].operations >> operation & 1) != 0;
    }
    fail_msg("an outcome of no known type");
    return false;
}

/* Members of the outcomes of observe and terminate, each with a valid value. */
static const struct {
    const char *member;
    unsigned operations; /* operations whose unions have it, as bits */
} outcome_members[] = {
    {"\"generation\":1", 1u << CELL_OBSERVE | 1u << CELL_TERMINATE},
    {"\"content_items\":[]", 1u << CELL_OBSERVE | 1u << CELL_TERMINATE},
    {"\"stalled\":false", 1u << CELL_OBSERVE},
    {"\"error\":null", 1u << CELL_OBSERVE | 1u << CELL_TERMINATE},
    {"\"stopped_calls\":0", 1u << CELL_OBSERVE | 1u << CELL_TERMINATE},
    {"\"receipt\":null", 1u << CELL_OBSERVE | 1u << CELL_TERMINATE | 1u << CELL_CLOSE_SESSION},
    {"\"cells\":[]", 1u << CELL_LIST},
    {"\"more\":false", 1u << CELL_LIST},
    {"\"session_id\":\"s-1\"",
     1u << CELL_OPEN_SESSION | 1u << CELL_LIST | 1u << CELL_CLOSE_SESSION},
};

static void check_outcome(struct bl_arena *arena, const struct bl_json_schema *schema,
                          enum cell_operation operation, struct bl_text ok, bool expected)
{
    bool taken = is_taken(arena, operation, ok);
    bool fitting = golden_fits(schema, golden_parse(arena, ok), false);
    if (taken != expected || fitting != expected)
        fail_msg("%s: codec %d, schema %d, expected %d: " BL_TEXT_FORMAT,
                 cell_operation_name(operation), taken, fitting, expected, BL_TEXT_ARG(ok));
}

static void check_mutations(struct bl_arena *arena, const struct bl_json_schema *schema,
                            enum cell_operation operation, const struct bl_json *ok)
{
    static const char *const wrong[] = {"{}", "[[]]", "-1", "1.5", "1e300", "\"A\""};

    BL_JSON_MEMBERS (key, ok) {
        const char *name = bl_json_text(key).data;
        char member[96];
        check_outcome(arena, schema, operation, changed(arena, ok, name, NULL), false);
        for (size_t i = 0; i < BL_COUNT(wrong); i++) {
            snprintf(member, sizeof member, "\"%s\":%s", name, wrong[i]);
            check_outcome(arena, schema, operation, changed(arena, ok, name, member), false);
        }
    }
    for (size_t i = 0; i < BL_COUNT(outcome_members); i++) {
        if (has_member(ok, outcome_members[i].member))
            continue;
        bool unknown = (outcome_members[i].operations >> operation & 1) == 0;
        check_outcome(arena, schema, operation, changed(arena, ok, NULL, outcome_members[i].member),
                      unknown);
    }
}

static void outcomes_are_taken_exactly_where_the_union_has_them(void **state)
{
    struct golden *golden = *state;
    size_t seen = 0;

    for (enum cell_operation operation = CELL_OPEN_SESSION; operation <= CELL_CLOSE_SESSION;
         operation++) {
        char name[64];
        snprintf(name, sizeof name, "%s.ok", cell_operation_name(operation));
        struct bl_json_schema *schema = golden_schema(name);
        for (size_t i = 0; i < golden->count; i++) {
            const struct bl_json *ok = golden_get(golden->files[i].root, "ok");
            if (strncmp(golden->files[i].name, "reply-", 6) != 0 || ok == NULL)
                continue;
            bool expected = can_answer(operation, ok);
            struct bl_text text = changed(&golden->arena, ok, NULL, NULL);
            check_outcome(&golden->arena, schema, operation, text, expected);
            if (expected)
                check_mutations(&golden->arena, schema, operation, ok);
            seen++;
        }
        bl_json_schema_free(schema);
    }
    assert_true(seen >= 7 * 20);
}

/* ---- `err`, without each of its fields and with those of other codes ------------------------- */

static struct bl_text refusal_with(struct bl_arena *arena, struct bl_text err)
{
    return bl_arena_printf(
        arena, "{\"type\":\"reply\",\"id\":7,\"op\":\"list\",\"err\":" BL_TEXT_FORMAT "}",
        BL_TEXT_ARG(err));
}

static void errors_have_the_fields_of_their_code_and_no_other(void **state)
{
    static const char *const members[] = {
        "\"path\":\"\"",     "\"op\":\"a\"",   "\"session_id\":\"s\"",
        "\"cell_id\":\"c\"", "\"expected\":1", "\"retained\":[]",
        "\"limit\":\"a\"",   "\"value\":0",    "\"detail\":\"\"",
    };
    struct golden *golden = *state;
    struct bl_json_schema *schema = golden_schema("error");
    struct cell_frame frame;

    for (size_t i = 0; i < golden->count; i++) {
        const struct bl_json *err = golden_get(golden->files[i].root, "err");
        if (strncmp(golden->files[i].name, "reply-err-", 10) != 0)
            continue;
        assert_true(golden_fits(schema, err, true));
        BL_JSON_MEMBERS (key, err) {
            struct bl_text text = changed(&golden->arena, err, bl_json_text(key).data, NULL);
            assert_false(golden_fits(schema, golden_parse(&golden->arena, text), false));
            assert_int_equal(cell_host_frame_read(&golden->arena,
                                                  refusal_with(&golden->arena, text), &frame, NULL),
                             BL_EPARSE);
        }
        for (size_t j = 0; j < BL_COUNT(members); j++) {
            if (has_member(err, members[j]))
                continue;
            struct bl_text text = changed(&golden->arena, err, NULL, members[j]);
            if (golden_fits(schema, golden_parse(&golden->arena, text), false) ||
                cell_host_frame_read(&golden->arena, refusal_with(&golden->arena, text), &frame,
                                     NULL) != BL_EPARSE)
                fail_msg("%s with %s", golden->files[i].name, members[j]);
        }
        bool retryable = bl_json_boolean(golden_get(err, "retryable"), false);
        struct bl_text turned = changed(&golden->arena, err, "retryable",
                                        retryable ? "\"retryable\":false" : "\"retryable\":true");
        assert_int_equal(cell_host_frame_read(&golden->arena, refusal_with(&golden->arena, turned),
                                              &frame, NULL),
                         BL_EPARSE);
        assert_false(golden_fits(schema, golden_parse(&golden->arena, turned), false));
    }
    bl_json_schema_free(schema);
}

#define RECEIPT(survivors, background, unit)                                                       \
    "\"receipt\":{\"id\":\"rcp_a\",\"scope\":\"c-7\",\"reason\":\"user\",\"origin\":\"\","         \
    "\"requested_at\":\"2026-11-15T18:50:07.123Z\",\"observed_ms\":0,\"quiet_ms\":21.7,"           \
    "\"mechanism\":\"subreaper\",\"cancel_observed\":false," survivors                             \
    ",\"background\":[" background "],\"units\":[{\"kind\":\"cell\",\"id\":\"c-7\"," unit "}]}"

/* Every member that any belay has written is in the table, and members of later versions are
 * ignored: stored receipts stay readable. */
static void receipts_of_any_time_are_read_by_their_own_table(void **state)
{
    static const struct {
        const char *receipt;
        bool taken;
    } rows[] = {
        {RECEIPT("\"survivors\":0", "", "\"fate\":\"killed\""), true},
        {RECEIPT("\"survivors\":null,\"unverified\":\"x\"",
                 "{\"id\":\"c-1\",\"cell\":\"c-1\",\"processes\":1,\"age_ms\":5}",
                 "\"fate\":\"unknown\",\"ms\":1.5,\"processes\":1,\"survivors\":null,"
                 "\"unverified\":\"x\",\"signal\":\"KILL\",\"detail\":\"y\",\"name\":\"n\""),
         true},
        {RECEIPT("\"later\":1,\"survivors\":0",
                 "{\"id\":\"j\",\"processes\":0,\"age_ms\":0,"
                 "\"later\":1}",
                 "\"fate\":\"killed\",\"later\":[1]"),
         true},
        {RECEIPT("\"survivors\":-1", "", "\"fate\":\"killed\""), false},
        {RECEIPT("\"later\":1", "", "\"fate\":\"killed\""), false},
        {RECEIPT("\"survivors\":0", "", "\"fate\":\"eaten\""), false},
        {RECEIPT("\"survivors\":0", "", "\"fate\":\"killed\",\"ms\":\"long\""), false},
        {RECEIPT("\"survivors\":0", "1", "\"fate\":\"killed\""), false},
    };
    struct golden *golden = *state;
    const struct bl_json *ok =
        golden_get(golden_find(golden, "reply-", "observe-terminated")->root, "ok");

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_text text = changed(&golden->arena, ok, "receipt", rows[i].receipt);
        if (is_taken(&golden->arena, CELL_OBSERVE, text) != rows[i].taken)
            fail_msg("%s", rows[i].receipt);
    }
}
#undef RECEIPT

SUITE(union, GOLDEN(C47_yielded_in_a_terminate_reply_is_refused),
      GOLDEN(C47_missing_with_content_items_is_refused),
      GOLDEN(C47_an_unknown_extra_field_is_not_refused),
      GOLDEN(frames_are_refused_without_a_field_or_with_that_of_another),
      GOLDEN(outcomes_are_taken_exactly_where_the_union_has_them),
      GOLDEN(errors_have_the_fields_of_their_code_and_no_other),
      GOLDEN(receipts_of_any_time_are_read_by_their_own_table));
