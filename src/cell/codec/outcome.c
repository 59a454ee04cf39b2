/* Outcomes: what operations answer, written and read. */
#include <stdio.h>

#include "check.h"

/* CELL_ERROR: bytes of its texts. */
#define ERROR_NAME_MAX 256u
#define ERROR_TEXT_MAX 4096u

#define INTEGER_MAX CELL_REQUEST_MAX

/* ---- Names ----------------------------------------------------------------------------------- */

const char *bl_cell_code_name(enum bl_cell_code code)
{
#define CODE_NAME(name, text, retryable) text,
    static const char *const names[] = {BL_CELL_CODE_TABLE(CODE_NAME)};
#undef CODE_NAME
    return (size_t)code < BL_COUNT(names) ? names[code] : "internal";
}

bool bl_cell_code_retryable(enum bl_cell_code code)
{
#define CODE_RETRYABLE(name, text, retryable) retryable,
    static const bool table[] = {BL_CELL_CODE_TABLE(CODE_RETRYABLE)};
#undef CODE_RETRYABLE
    return (size_t)code >= BL_COUNT(table) || table[code];
}

#define TABLE_NAME(name, text) text,
static const char *const error_kinds[] = {BL_CELL_ERROR_TABLE(TABLE_NAME) NULL};
const char *const codec_refusals[] = {BL_CELL_REFUSAL_TABLE(TABLE_NAME) NULL};
const char *const codec_stop_reasons[] = {BL_STOP_REASON_TABLE(TABLE_NAME) NULL};
#undef TABLE_NAME

const char *bl_cell_error_kind_name(enum bl_cell_error_kind kind)
{
    return (size_t)kind < BL_COUNT(error_kinds) - 1 ? error_kinds[kind] : "exception";
}

const char *bl_cell_call_refusal_name(enum bl_cell_call_refusal refusal)
{
    return (size_t)refusal < BL_COUNT(codec_refusals) - 1 ? codec_refusals[refusal] : "failed";
}

/* ---- Items ----------------------------------------------------------------------------------- */

static bool is_image_url(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                         const struct bl_json *value)
{
    static const char *const heads[] = {
        "data:image/png;base64,",
        "data:image/jpeg;base64,",
        "data:image/gif;base64,",
        "data:image/webp;base64,",
    };
    struct bl_text url = bl_json_text(value);

    for (size_t i = 0; i < BL_COUNT(heads); i++) {
        struct bl_text head = bl_text_from(heads[i]);
        if (bl_text_starts_with(url, head))
            return bl_base64_valid((struct bl_text){url.data + head.size, url.size - head.size}) ||
                   codec_fail(problem, "must be base64 after the comma");
    }
    return codec_fail_value(problem, value, "a data URL of a png, jpeg, gif or webp in base64");
}

static const char *const details[] = {"auto", "low", "high", "original", NULL};

static const struct codec_field item_text[] = {{.name = "text", .check = codec_is_text}, {0}};
static const struct codec_field item_image[] = {
    {.name = "image_url", .check = is_image_url},
    {.name = "detail", .check = codec_is_name, .names = details},
    {0},
};
static const struct codec_variant items[] = {{"text", item_text}, {"image", item_image}, {0}};

static bool is_item(struct codec_problem *problem, const struct bl_json *value)
{
    const struct codec_variant *variant;

    return codec_check_union(problem, "type", items, value, &variant);
}

static bool is_items(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                     const struct bl_json *value)
{
    size_t index = 0;

    if (!bl_json_is(value, BL_JSON_ARRAY))
        return codec_fail_value(problem, value, "an array of items");
    BL_JSON_EACH (item, value) {
        size_t back = codec_enter(problem, NULL, index++);
        if (!is_item(problem, item))
            return false;
        codec_leave(problem, back);
    }
    return true;
}

int cell_item_write(struct bl_json_writer *writer, const struct bl_json *item)
{
    struct codec_problem problem;

    codec_problem_init(&problem);
    if (!is_item(&problem, item))
        return BL_EPARSE;
    const struct bl_json *text = codec_get(item, "text");
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", text != NULL ? "text" : "image");
    bl_json_write_key(writer, text != NULL ? BL_TEXT("text") : BL_TEXT("image_url"));
    bl_json_write_value(writer, text != NULL ? text : codec_get(item, "image_url"));
    if (text == NULL)
        bl_json_put_text(writer, "detail", bl_json_text(codec_get(item, "detail")));
    bl_json_write_end(writer);
    return 0;
}

/* ---- Errors of cells ------------------------------------------------------------------------- */

static const struct codec_field error_fields[] = {
    {.name = "kind", .check = codec_is_name, .names = error_kinds},
    {.name = "name", .check = codec_is_text, .most = ERROR_NAME_MAX},
    {.name = "message", .check = codec_is_text, .most = ERROR_TEXT_MAX},
    {.name = "stack", .check = codec_is_text, .most = ERROR_TEXT_MAX},
    {0},
};
/* As a worker says it: however long. */
static const struct codec_field raw_error_fields[] = {
    {.name = "kind", .check = codec_is_name, .names = error_kinds},
    {.name = "name", .check = codec_is_text},
    {.name = "message", .check = codec_is_text},
    {.name = "stack", .check = codec_is_text},
    {0},
};

static bool is_error_or_null(struct codec_problem *problem,
                             const struct codec_field *field BL_UNUSED, const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_NULL) || codec_check_fields(problem, error_fields, value);
}

static struct bl_text read_cut(struct bl_arena *arena, const struct bl_json *value, const char *key,
                               size_t size_max)
{
    return bl_arena_text(arena, bl_utf8_cut(bl_json_text(codec_get(value, key)), size_max));
}

int cell_error_read(struct bl_arena *arena, const struct bl_json *value,
                    struct bl_cell_error *ret_error)
{
    struct codec_problem problem;

    codec_problem_init(&problem);
    if (!codec_check_fields(&problem, raw_error_fields, value))
        return BL_EPARSE;
    struct bl_text kind = bl_json_text(codec_get(value, "kind"));
    *ret_error = (struct bl_cell_error){
        .kind = (enum bl_cell_error_kind)codec_name_index(error_kinds, kind),
        .name = read_cut(arena, value, "name", ERROR_NAME_MAX),
        .message = read_cut(arena, value, "message", ERROR_TEXT_MAX),
        .stack = read_cut(arena, value, "stack", ERROR_TEXT_MAX),
    };
    return 0;
}

void cell_error_write(struct bl_json_writer *writer, const struct bl_cell_error *error)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "kind", bl_cell_error_kind_name(error->kind));
    bl_json_put_text(writer, "name", bl_utf8_cut(error->name, ERROR_NAME_MAX));
    bl_json_put_text(writer, "message", bl_utf8_cut(error->message, ERROR_TEXT_MAX));
    bl_json_put_text(writer, "stack", bl_utf8_cut(error->stack, ERROR_TEXT_MAX));
    bl_json_write_end(writer);
}

/* ---- Receipts, and cells of a list ----------------------------------------------------------- */

static const char *const mechanisms[] = {"none", "subreaper", "cgroup2", "pidns", NULL};
static const char *const unit_kinds[] = {"model",   "tool", "cell", "agent",
                                         "command", "turn", "task", NULL};
static const char *const fates[] = {"finished",      "aborted", "killed",
                                    "never_started", "unknown", NULL};

static const struct codec_field unit_fields[] = {
    {.name = "kind", .check = codec_is_name, .names = unit_kinds},
    {.name = "id", .check = codec_is_text},
    {.name = "fate", .check = codec_is_name, .names = fates},
    {0},
};
static const char *const states[] = {"running",     "completing", "completed",
                                     "terminating", "terminated", NULL};

static const struct codec_field cell_fields[] = {
    {.name = "cell_id", .check = codec_is_id},
    {.name = "state", .check = codec_is_name, .names = states},
    {.name = "generation", .check = codec_is_number, .most = INTEGER_MAX},
    {.name = "age_ms", .check = codec_is_number, .most = INTEGER_MAX},
    {.name = "deadline_left_ms", .check = codec_is_number, .most = INTEGER_MAX},
    {.name = "undelivered_bytes", .check = codec_is_number, .most = INTEGER_MAX},
    {.name = "calls", .check = codec_is_number, .most = INTEGER_MAX},
    {.name = "timers", .check = codec_is_number, .most = INTEGER_MAX},
    {0},
};

/* Elements that have those fields; of a receipt's background: any objects. */
static bool is_list(struct codec_problem *problem, const struct codec_field *fields,
                    const struct bl_json *value)
{
    size_t index = 0;

    if (!bl_json_is(value, BL_JSON_ARRAY))
        return codec_fail_value(problem, value, "an array");
    BL_JSON_EACH (element, value) {
        size_t back = codec_enter(problem, NULL, index++);
        if (!codec_check_fields(problem, fields, element))
            return false;
        codec_leave(problem, back);
    }
    return true;
}

static bool is_units(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                     const struct bl_json *value)
{
    return is_list(problem, unit_fields, value);
}

static bool is_background(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                          const struct bl_json *value)
{
    static const struct codec_field none[] = {{0}};

    return is_list(problem, none, value);
}

static bool is_cells(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                     const struct bl_json *value)
{
    return is_list(problem, cell_fields, value);
}

/* null: the proof failed, and `unverified` says why. */
static bool is_survivors(struct codec_problem *problem, const struct codec_field *field,
                         const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_NULL) || codec_is_number(problem, field, value);
}

static const struct codec_field receipt_fields[] = {
    {.name = "id", .check = codec_is_text, .least = 1},
    {.name = "scope", .check = codec_is_text, .least = 1},
    {.name = "reason", .check = codec_is_name, .names = codec_stop_reasons + 1},
    {.name = "origin", .check = codec_is_text},
    {.name = "requested_at", .check = codec_is_text, .least = 1},
    {.name = "observed_ms", .check = codec_is_measure},
    {.name = "quiet_ms", .check = codec_is_measure},
    {.name = "mechanism", .check = codec_is_name, .names = mechanisms},
    {.name = "cancel_observed", .check = codec_is_boolean},
    {.name = "survivors", .check = is_survivors, .most = INTEGER_MAX},
    {.name = "unverified", .check = codec_is_text, .least = 1, .optional = true},
    {.name = "background", .check = is_background},
    {.name = "units", .check = is_units},
    {0},
};

static bool is_receipt(struct codec_problem *problem, const struct codec_field *field BL_UNUSED,
                       const struct bl_json *value)
{
    return codec_check_fields(problem, receipt_fields, value);
}

static bool is_receipt_or_null(struct codec_problem *problem, const struct codec_field *field,
                               const struct bl_json *value)
{
    return bl_json_is(value, BL_JSON_NULL) || is_receipt(problem, field, value);
}

/* ---- The union of each operation ------------------------------------------------------------- */

#define CELL_ID                                                                                    \
    {                                                                                              \
        .name = "cell_id", .check = codec_is_id                                                    \
    }
#define SESSION_ID                                                                                 \
    {                                                                                              \
        .name = "session_id", .check = codec_is_id                                                 \
    }
#define GENERATION                                                                                 \
    {                                                                                              \
        .name = "generation", .check = codec_is_number, .least = 1, .most = INTEGER_MAX            \
    }
#define ITEMS                                                                                      \
    {                                                                                              \
        .name = "content_items", .check = is_items                                                 \
    }

static const struct codec_field of_cell[] = {CELL_ID, {0}};
static const struct codec_field of_session[] = {SESSION_ID, {0}};
static const struct codec_field yielded_fields[] = {
    CELL_ID, GENERATION, ITEMS, {.name = "stalled", .check = codec_is_boolean}, {0}};
static const struct codec_field completed_fields[] = {
    CELL_ID,
    GENERATION,
    ITEMS,
    {.name = "error", .check = is_error_or_null},
    {.name = "stopped_calls", .check = codec_is_number, .most = INTEGER_MAX},
    {0},
};
static const struct codec_field terminated_fields[] = {
    CELL_ID, GENERATION, ITEMS, {.name = "receipt", .check = is_receipt}, {0}};
static const struct codec_field listed_fields[] = {
    SESSION_ID,
    {.name = "cells", .check = is_cells},
    {.name = "more", .check = codec_is_boolean},
    {0},
};
static const struct codec_field closed_fields[] = {
    SESSION_ID, {.name = "receipt", .check = is_receipt_or_null}, {0}};

static const struct codec_variant open_union[] = {{"opened", of_session}, {0}};
static const struct codec_variant create_union[] = {{"created", of_cell}, {0}};
/* In the order of the types of bl_cell_observe_outcome; the next one of bl_cell_terminate_outcome.
 */
static const struct codec_variant observe_union[] = {
    {"yielded", yielded_fields},
    {"completed", completed_fields},
    {"terminated", terminated_fields},
    {"missing", of_cell},
    {0},
};
static const struct codec_variant terminate_union[] = {
    {"completed", completed_fields},
    {"terminated", terminated_fields},
    {"missing", of_cell},
    {0},
};
static const struct codec_variant release_union[] = {
    {"released", of_cell}, {"missing", of_cell}, {0}};
static const struct codec_variant list_union[] = {{"listed", listed_fields}, {0}};
static const struct codec_variant close_union[] = {{"closed", closed_fields}, {0}};

static const struct codec_variant *const unions[] = {
    [CELL_OPEN_SESSION] = open_union,   [CELL_CREATE_CELL] = create_union,
    [CELL_OBSERVE] = observe_union,     [CELL_TERMINATE] = terminate_union,
    [CELL_RELEASE] = release_union,     [CELL_LIST] = list_union,
    [CELL_CLOSE_SESSION] = close_union,
};

bool codec_is_ok(struct codec_problem *problem, enum cell_operation operation,
                 const struct bl_json *value)
{
    const struct codec_variant *variant;

    return codec_check_union(problem, "type", unions[operation], value, &variant);
}

/* ---- Outcomes in C --------------------------------------------------------------------------- */

static void read_items(struct bl_arena *arena, const struct bl_json *outcome, struct bl_list *out)
{
    const struct bl_json *list = codec_get(outcome, "content_items");
    struct bl_cell_item *item = bl_arena_alloc(arena, bl_json_size(list) * sizeof *item);

    bl_list_init(out);
    BL_JSON_EACH (element, list) {
        const struct bl_json *text = codec_get(element, "text");
        *item = (struct bl_cell_item){
            .image = text == NULL,
            .text = bl_json_text(text),
            .url = bl_json_text(codec_get(element, "image_url")),
            .detail = bl_json_text(codec_get(element, "detail")),
        };
        bl_list_push_back(out, &item->link);
        item++;
    }
}

static void read_yielded(struct bl_arena *arena, const struct bl_json *outcome,
                         struct bl_cell_yielded *out)
{
    out->cell_id = bl_json_text(codec_get(outcome, "cell_id"));
    out->generation = codec_number(outcome, "generation");
    out->stalled = bl_json_boolean(codec_get(outcome, "stalled"), false);
    read_items(arena, outcome, &out->items);
}

static void read_completed(struct bl_arena *arena, const struct bl_json *outcome,
                           struct bl_cell_completed *out)
{
    struct bl_cell_error error;

    out->cell_id = bl_json_text(codec_get(outcome, "cell_id"));
    out->generation = codec_number(outcome, "generation");
    out->stopped_calls = codec_number(outcome, "stopped_calls");
    out->error = NULL;
    if (cell_error_read(arena, codec_get(outcome, "error"), &error) == 0) {
        struct bl_cell_error *kept = bl_arena_alloc(arena, sizeof *kept);
        *kept = error;
        out->error = kept;
    }
    read_items(arena, outcome, &out->items);
}

static void read_terminated(struct bl_arena *arena, const struct bl_json *outcome,
                            struct bl_cell_terminated *out)
{
    out->cell_id = bl_json_text(codec_get(outcome, "cell_id"));
    out->generation = codec_number(outcome, "generation");
    out->receipt = codec_get(outcome, "receipt");
    read_items(arena, outcome, &out->items);
}

/* The outcome as a tree, and which of the variants it is. */
static int read_variant(struct bl_arena *arena, struct bl_text json, const char *operation,
                        const struct codec_variant *variants, const struct bl_json **ret_outcome,
                        size_t *ret_variant, struct bl_error *error)
{
    const struct codec_variant *variant;
    struct codec_problem problem;
    char message[256];

    if (codec_frame_parse(arena, json, ret_outcome, message, sizeof message) != 0)
        return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, "read an outcome", operation, "%s",
                            message);
    codec_problem_init(&problem);
    if (!codec_check_union(&problem, "type", variants, *ret_outcome, &variant)) {
        codec_problem_text(&problem, message, sizeof message);
        return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, "read an outcome", operation, "%s",
                            message);
    }
    *ret_variant = (size_t)(variant - variants);
    return 0;
}

int bl_cell_observe_outcome_read(struct bl_arena *arena, struct bl_text json,
                                 struct bl_cell_observe_outcome *ret_outcome,
                                 struct bl_error *error)
{
    const struct bl_json *root;
    size_t variant;

    int code = read_variant(arena, json, "observe", observe_union, &root, &variant, error);
    if (code != 0)
        return code;
    *ret_outcome = (struct bl_cell_observe_outcome){.json = bl_arena_text(arena, json)};
    switch (variant) {
    case BL_CELL_OBSERVE_YIELDED:
        ret_outcome->type = BL_CELL_OBSERVE_YIELDED;
        read_yielded(arena, root, &ret_outcome->yielded);
        break;
    case BL_CELL_OBSERVE_COMPLETED:
        ret_outcome->type = BL_CELL_OBSERVE_COMPLETED;
        read_completed(arena, root, &ret_outcome->completed);
        break;
    case BL_CELL_OBSERVE_TERMINATED:
        ret_outcome->type = BL_CELL_OBSERVE_TERMINATED;
        read_terminated(arena, root, &ret_outcome->terminated);
        break;
    default:
        ret_outcome->type = BL_CELL_OBSERVE_MISSING;
        ret_outcome->missing.cell_id = bl_json_text(codec_get(root, "cell_id"));
        break;
    }
    return 0;
}

int bl_cell_terminate_outcome_read(struct bl_arena *arena, struct bl_text json,
                                   struct bl_cell_terminate_outcome *ret_outcome,
                                   struct bl_error *error)
{
    const struct bl_json *root;
    size_t variant;

    int code = read_variant(arena, json, "terminate", terminate_union, &root, &variant, error);
    if (code != 0)
        return code;
    *ret_outcome = (struct bl_cell_terminate_outcome){.json = bl_arena_text(arena, json)};
    switch (variant) {
    case BL_CELL_TERMINATE_COMPLETED:
        ret_outcome->type = BL_CELL_TERMINATE_COMPLETED;
        read_completed(arena, root, &ret_outcome->completed);
        break;
    case BL_CELL_TERMINATE_TERMINATED:
        ret_outcome->type = BL_CELL_TERMINATE_TERMINATED;
        read_terminated(arena, root, &ret_outcome->terminated);
        break;
    default:
        ret_outcome->type = BL_CELL_TERMINATE_MISSING;
        ret_outcome->missing.cell_id = bl_json_text(codec_get(root, "cell_id"));
        break;
    }
    return 0;
}
