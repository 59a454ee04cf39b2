/* Outcomes of operations, and the items and errors in them. */
#include "codec.h"

/* Largest sizes of the texts of a cell error, in bytes. */
#define ERROR_NAME_MAX 256u
#define ERROR_TEXT_MAX 4096u

/* ---- Items ----------------------------------------------------------------------------------- */

static bool codec_outcome_is_image_url(struct bl_text url)
{
    static const char *const heads[] = {
        "data:image/png;base64,",
        "data:image/jpeg;base64,",
        "data:image/gif;base64,",
        "data:image/webp;base64,",
    };

    for (size_t i = 0; i < BL_COUNT(heads); i++) {
        struct bl_text head = bl_text_from(heads[i]);
        if (bl_text_starts_with(url, head))
            return bl_base64_valid((struct bl_text){url.data + head.size, url.size - head.size});
    }
    return false;
}

static const char *const item_names[] = {"text", "image"};
static const char *const detail_names[] = {"auto", "low", "high", "original"};
static const struct bl_names item_types = BL_NAMES(item_names), details = BL_NAMES(detail_names);
static const struct bl_form image_form = {
    "a data URL of a png, jpeg, gif or webp in base64",
    "^data:image/(png|jpeg|gif|webp);base64,([A-Za-z0-9+/]{4})*"
    "([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)$",
    codec_outcome_is_image_url};

#define BL_RECORD_STRUCT struct bl_cell_item
static const struct bl_member text_members[] = {BL_MEMBER_TEXT("text", text), BL_MEMBER_END};
static const struct bl_member image_members[] = {
    BL_MEMBER_TEXT("image_url", url, .form = &image_form),
    BL_MEMBER_TEXT("detail", detail, .names = &details), BL_MEMBER_END};
static const struct bl_member item_members[] = {BL_MEMBER_ENUM("type", image, &item_types),
                                                BL_MEMBER_END};
#undef BL_RECORD_STRUCT
static const struct bl_record text_record = BL_RECORD("text", struct bl_cell_item, text_members);
static const struct bl_record image_record = BL_RECORD("image", struct bl_cell_item, image_members);
static const struct bl_record *const item_kinds[] = {&text_record, &image_record};
const struct bl_record bl_cell_item_record =
    BL_RECORD("cell:item", struct bl_cell_item, item_members, .kinds = item_kinds, .document = true,
              .about = "One item of a cell's output.");

/* ---- Errors of cells ------------------------------------------------------------------------- */

#define KIND_NAME(name, text) [name] = (text),
static const char *const kind_names[] = {BL_CELL_ERROR_TABLE(KIND_NAME)};
#undef KIND_NAME
static const struct bl_names error_kinds = BL_NAMES(kind_names);

const char *bl_cell_error_kind_name(enum bl_cell_error_kind kind)
{
    const char *name = bl_names_get(&error_kinds, kind);
    return name != NULL ? name : "exception";
}

#define BL_RECORD_STRUCT struct bl_cell_error
#define ERROR_MEMBERS(cuts)                                                                        \
    {                                                                                              \
        BL_MEMBER_ENUM("kind", kind, &error_kinds),                                                \
            BL_MEMBER_TEXT("name", name, .most = ERROR_NAME_MAX, .cut = (cuts),                    \
                           .about = "TypeError, …"),                                               \
            BL_MEMBER_TEXT("message", message, .most = ERROR_TEXT_MAX, .cut = (cuts),              \
                           .about = "At most 4 KiB of UTF-8."),                                    \
            BL_MEMBER_TEXT("stack", stack, .most = ERROR_TEXT_MAX, .cut = (cuts),                  \
                           .about =                                                                \
                               "Frames such as: at f (cell.mjs:3:7), with lines of the source as " \
                               "sent. At most 4 KiB of UTF-8."),                                   \
            BL_MEMBER_END,                                                                         \
    }
static const struct bl_member error_members[] = ERROR_MEMBERS(false);
static const struct bl_member worker_error_members[] = ERROR_MEMBERS(true);
#undef BL_RECORD_STRUCT
const struct bl_record bl_cell_error_record =
    BL_RECORD("cell:cell_error", struct bl_cell_error, error_members, .document = true,
              .about = "Why a cell that ended by itself failed.");
const struct bl_record cell_worker_error_record =
    BL_RECORD("worker_error", struct bl_cell_error, worker_error_members);

/* ---- Cells of a list ------------------------------------------------------------------------- */

static const char *const state_names[] = {
    [CELL_RUNNING] = "running",       [CELL_COMPLETING] = "completing",
    [CELL_COMPLETED] = "completed",   [CELL_TERMINATING] = "terminating",
    [CELL_TERMINATED] = "terminated",
};
const struct bl_names cell_states = BL_NAMES(state_names);

#define BL_RECORD_STRUCT struct cell_listed
static const struct bl_member listed_cell_members[] = {
    CELL_MEMBER_CELL_ID(cell_id),
    BL_MEMBER_ENUM("state", state, &cell_states),
    CELL_MEMBER_COUNT("generation", generation,
                      .about = "The latest decided generation; 0 if none."),
    CELL_MEMBER_COUNT("age_ms", age_ms),
    CELL_MEMBER_COUNT("deadline_left_ms", deadline_left_ms),
    CELL_MEMBER_COUNT("undelivered_bytes", undelivered_bytes),
    CELL_MEMBER_COUNT("calls", calls, .about = "Nested calls in progress."),
    CELL_MEMBER_COUNT("timers", timers),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record listed_cell_record =
    BL_RECORD("cell", struct cell_listed, listed_cell_members);
static const struct bl_member listed_cell_element =
    BL_ELEMENT(struct cell_listed, &listed_cell_record);

/* ---- Outcomes, and which of them an operation can have --------------------------------------- */

#define BL_RECORD_STRUCT struct cell_ok
#define OUTPUT                                                                                     \
    CELL_MEMBER_CELL_ID(cell_id), CELL_MEMBER_GENERATION(generation),                              \
        BL_MEMBER_LIST("content_items", items, &bl_cell_item_record, struct bl_cell_item, link,    \
                       BL_ENCODED(items_json))
/* Kept as JSON; the receipt of a newer host may have more members. */
#define RECEIPT .record = &bl_receipt_record, .extensible = true, BL_ENCODED(receipt_json)
static const struct bl_member of_cell_members[] = {CELL_MEMBER_CELL_ID(cell_id), BL_MEMBER_END};
static const struct bl_member of_session_members[] = {CELL_MEMBER_SESSION_ID(session_id),
                                                      BL_MEMBER_END};
static const struct bl_member yielded_members[] = {
    OUTPUT,
    BL_MEMBER_BOOLEAN("stalled", stalled,
                      .about = "Nothing is left that could wake the cell; it stays live until it "
                               "is stopped."),
    BL_MEMBER_END};
static const struct bl_member completed_members[] = {
    OUTPUT, BL_MEMBER_POINTER("error", error, &bl_cell_error_record, .nullable = true),
    CELL_MEMBER_COUNT("stopped_calls", stopped_calls,
                      .about =
                          "Nested calls that were still running at the end, and were stopped."),
    BL_MEMBER_END};
static const struct bl_member terminated_members[] = {
    OUTPUT, BL_MEMBER_JSON("receipt", receipt, RECEIPT), BL_MEMBER_END};
static const struct bl_member listed_members[] = {
    CELL_MEMBER_SESSION_ID(session_id),
    BL_MEMBER_ARRAY("cells", cells, cell_count, &listed_cell_element),
    BL_MEMBER_BOOLEAN("more", more, .about = "More cells follow the last of these."),
    BL_MEMBER_END};
static const struct bl_member closed_members[] = {
    CELL_MEMBER_SESSION_ID(session_id),
    BL_MEMBER_JSON("receipt", receipt, .nullable = true, RECEIPT,
                   .about = "null when nothing was stopped."),
    BL_MEMBER_END};

#define OUTCOME(type, table, text)                                                                 \
    static const struct bl_record type##_record =                                                  \
        BL_RECORD(#type, struct cell_ok, table##_members, .about = (text))
OUTCOME(opened, of_session, "The session is open on this connection.");
OUTCOME(created, of_cell, "The cell is admitted.");
OUTCOME(yielded, yielded, "The cell is still running.");
OUTCOME(completed, completed, "The cell ended by itself.");
OUTCOME(terminated, terminated, "The cell was stopped.");
OUTCOME(missing, of_cell, "The cell has no record: never admitted, released, or evicted.");
OUTCOME(released, of_cell, "The record is deleted.");
OUTCOME(listed, listed, "Cells of the session, sorted by id.");
OUTCOME(closed, closed, "The session is closed, and none of its cells runs.");
#undef OUTCOME
static const struct bl_record *const ok_kinds[] = {
    [CELL_OK_OPENED] = &opened_record,         [CELL_OK_CREATED] = &created_record,
    [CELL_OK_YIELDED] = &yielded_record,       [CELL_OK_COMPLETED] = &completed_record,
    [CELL_OK_TERMINATED] = &terminated_record, [CELL_OK_MISSING] = &missing_record,
    [CELL_OK_RELEASED] = &released_record,     [CELL_OK_LISTED] = &listed_record,
    [CELL_OK_CLOSED] = &closed_record,
};

#define OPENED     [CELL_OK_OPENED] = "opened"
#define CREATED    [CELL_OK_CREATED] = "created"
#define YIELDED    [CELL_OK_YIELDED] = "yielded"
#define COMPLETED  [CELL_OK_COMPLETED] = "completed"
#define TERMINATED [CELL_OK_TERMINATED] = "terminated"
#define MISSING    [CELL_OK_MISSING] = "missing"
#define RELEASED   [CELL_OK_RELEASED] = "released"
#define LISTED     [CELL_OK_LISTED] = "listed"
#define CLOSED     [CELL_OK_CLOSED] = "closed"
#define UNION(operation, record_name, text, ...)                                                   \
    static const char *const operation##_ok_names[] = {__VA_ARGS__};                               \
    static const struct bl_names operation##_oks = BL_NAMES(operation##_ok_names);                 \
    static const struct bl_member operation##_ok_members[] = {                                     \
        BL_MEMBER_ENUM("type", type, &operation##_oks), BL_MEMBER_END};                            \
    const struct bl_record cell_##operation##_ok_record =                                          \
        BL_RECORD(record_name, struct cell_ok, operation##_ok_members, .kinds = ok_kinds,          \
                  .document = true, .about = (text))
UNION(open, "cell:open_session.ok", "The answer of open_session.", OPENED);
UNION(create, "cell:create_cell.ok", "The answer of create_cell, at admission.", CREATED);
UNION(observe, "cell:observe.ok", "The answer of observe.", YIELDED, COMPLETED, TERMINATED,
      MISSING);
UNION(terminate, "cell:terminate.ok", "The answer of terminate, which is never yielded.", COMPLETED,
      TERMINATED, MISSING);
UNION(release, "cell:release.ok", "The answer of release.", RELEASED, MISSING);
UNION(list, "cell:list.ok", "The answer of list.", LISTED);
UNION(close, "cell:close_session.ok", "The answer of close_session.", CLOSED);
UNION(any, "any.ok", "The answer of any operation.", OPENED, CREATED, YIELDED, COMPLETED,
      TERMINATED, MISSING, RELEASED, LISTED, CLOSED);
#undef BL_RECORD_STRUCT

const struct bl_record *const cell_ok_records[] = {
    [CELL_OPEN_SESSION] = &cell_open_ok_record,   [CELL_CREATE_CELL] = &cell_create_ok_record,
    [CELL_OBSERVE] = &cell_observe_ok_record,     [CELL_TERMINATE] = &cell_terminate_ok_record,
    [CELL_RELEASE] = &cell_release_ok_record,     [CELL_LIST] = &cell_list_ok_record,
    [CELL_CLOSE_SESSION] = &cell_close_ok_record,
};

void cell_ok_write(struct bl_json_writer *writer, const struct cell_ok *ok)
{
    bl_record_write(writer, &cell_any_ok_record, ok);
}

static int outcome_refuse(struct bl_error *error, enum cell_operation operation,
                          const char *message)
{
    return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, "read an outcome",
                        cell_operation_name(operation), "%s", message);
}

int cell_ok_read(struct bl_arena *arena, enum cell_operation operation, const struct bl_json *value,
                 struct cell_ok *ret_ok, struct bl_error *error)
{
    struct bl_record_fault fault;
    char message[320];

    if (bl_record_view(arena, cell_ok_records[operation], value, ret_ok, &fault) == 0)
        return 0;
    bl_record_fault_text(&fault, message, sizeof message);
    return outcome_refuse(error, operation, message);
}

/* ---- Outcomes in C --------------------------------------------------------------------------- */

static int outcome_read(struct bl_arena *arena, struct bl_text json, enum cell_operation operation,
                        struct cell_ok *ret_ok, struct bl_error *error)
{
    const struct bl_json *root;
    char message[256];

    if (cell_json_read(arena, json, &root, message, sizeof message) != 0)
        return outcome_refuse(error, operation, message);
    return cell_ok_read(arena, operation, root, ret_ok, error);
}

/* Moves the items one by one: the first and the last point to their list head, so a copy of the
 * head would break them. */
static void outcome_take_items(struct bl_list *out, struct bl_list *items)
{
    bl_list_init(out);
    while (!bl_list_empty(items)) {
        struct bl_list *first = items->next;
        bl_list_remove(first);
        bl_list_push_back(out, first);
    }
}

static void outcome_take_completed(struct bl_cell_completed *out, struct cell_ok *ok)
{
    *out = (struct bl_cell_completed){.cell_id = bl_text_from(ok->cell_id),
                                      .generation = ok->generation,
                                      .error = ok->error,
                                      .stopped_calls = ok->stopped_calls};
    outcome_take_items(&out->items, &ok->items);
}

static void outcome_take_terminated(struct bl_cell_terminated *out, struct cell_ok *ok)
{
    *out = (struct bl_cell_terminated){
        .cell_id = bl_text_from(ok->cell_id), .generation = ok->generation, .receipt = ok->receipt};
    outcome_take_items(&out->items, &ok->items);
}

int bl_cell_observe_outcome_read(struct bl_arena *arena, struct bl_text json,
                                 struct bl_cell_observe_outcome *ret_outcome,
                                 struct bl_error *error)
{
    struct cell_ok ok;

    int code = outcome_read(arena, json, CELL_OBSERVE, &ok, error);
    if (code != 0)
        return code;
    *ret_outcome = (struct bl_cell_observe_outcome){.type = BL_CELL_OBSERVE_MISSING,
                                                    .json = bl_arena_text(arena, json)};
    if (ok.type == CELL_OK_YIELDED) {
        ret_outcome->type = BL_CELL_OBSERVE_YIELDED;
        ret_outcome->yielded = (struct bl_cell_yielded){.cell_id = bl_text_from(ok.cell_id),
                                                        .generation = ok.generation,
                                                        .stalled = ok.stalled};
        outcome_take_items(&ret_outcome->yielded.items, &ok.items);
    } else if (ok.type == CELL_OK_COMPLETED) {
        ret_outcome->type = BL_CELL_OBSERVE_COMPLETED;
        outcome_take_completed(&ret_outcome->completed, &ok);
    } else if (ok.type == CELL_OK_TERMINATED) {
        ret_outcome->type = BL_CELL_OBSERVE_TERMINATED;
        outcome_take_terminated(&ret_outcome->terminated, &ok);
    } else {
        ret_outcome->missing.cell_id = bl_text_from(ok.cell_id);
    }
    return 0;
}

int bl_cell_terminate_outcome_read(struct bl_arena *arena, struct bl_text json,
                                   struct bl_cell_terminate_outcome *ret_outcome,
                                   struct bl_error *error)
{
    struct cell_ok ok;

    int code = outcome_read(arena, json, CELL_TERMINATE, &ok, error);
    if (code != 0)
        return code;
    *ret_outcome = (struct bl_cell_terminate_outcome){.type = BL_CELL_TERMINATE_MISSING,
                                                      .json = bl_arena_text(arena, json)};
    if (ok.type == CELL_OK_COMPLETED) {
        ret_outcome->type = BL_CELL_TERMINATE_COMPLETED;
        outcome_take_completed(&ret_outcome->completed, &ok);
    } else if (ok.type == CELL_OK_TERMINATED) {
        ret_outcome->type = BL_CELL_TERMINATE_TERMINATED;
        outcome_take_terminated(&ret_outcome->terminated, &ok);
    } else {
        ret_outcome->missing.cell_id = bl_text_from(ok.cell_id);
    }
    return 0;
}
