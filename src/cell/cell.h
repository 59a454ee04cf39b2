/* What other rooms use of this one besides the public header: requests and their outcomes as
 * structs. Their tables are in codec/. */
#ifndef BELAY_CELL_CELL_H
#define BELAY_CELL_CELL_H

#include <belay/cell.h>

/* The id of a cell or a session. */
extern const struct bl_form cell_id_form;

/* ---- Requests -------------------------------------------------------------------------------- */

#define CELL_OPERATION_TABLE(X)                                                                    \
    X(CELL_OPEN_SESSION, "open_session")                                                           \
    X(CELL_CREATE_CELL, "create_cell")                                                             \
    X(CELL_OBSERVE, "observe")                                                                     \
    X(CELL_TERMINATE, "terminate")                                                                 \
    X(CELL_RELEASE, "release")                                                                     \
    X(CELL_LIST, "list")                                                                           \
    X(CELL_CLOSE_SESSION, "close_session")

enum cell_operation {
#define CELL_OPERATION(name, text) name,
    CELL_OPERATION_TABLE(CELL_OPERATION)
#undef CELL_OPERATION
};

/* Ids are NUL-terminated texts in the arena. */
struct cell_request {
    uint64_t id;
    enum cell_operation op;
    struct bl_text args_json; /* if not empty, written in place of the members below */
    const char *session_id;
    union {
        struct {
            bool serves_tools;
            uint64_t linger_ms;
        } open;
        struct bl_cell_create create; /* limits that were not given are 0; scope is NULL */
        struct bl_cell_observe observe;
        struct bl_cell_terminate terminate;
        struct {
            const char *cell_id;
            uint64_t generation;
        } release;
        struct {
            const char *after; /* NULL is written as null */
            uint64_t max;
        } list;
        struct {
            bool forget;
        } close;
    };
};

/* ---- Outcomes: the `ok` objects -------------------------------------------------------------- */

/* The states of a cell; cell/host/host.h has the transitions. */
enum cell_state {
    CELL_ADMITTING, /* not visible to clients yet */
    CELL_RUNNING,
    CELL_COMPLETING,
    CELL_COMPLETED,
    CELL_TERMINATING,
    CELL_TERMINATED,
};
extern const struct bl_names cell_states; /* without CELL_ADMITTING */

struct cell_listed {
    const char *cell_id;
    enum cell_state state;
    uint64_t generation, age_ms, deadline_left_ms, undelivered_bytes, calls, timers;
};

struct cell_ok {
    enum cell_ok_type {
        CELL_OK_OPENED,
        CELL_OK_CREATED,
        CELL_OK_YIELDED,
        CELL_OK_COMPLETED,
        CELL_OK_TERMINATED,
        CELL_OK_MISSING,
        CELL_OK_RELEASED,
        CELL_OK_LISTED,
        CELL_OK_CLOSED,
    } type;
    const char *session_id;    /* opened, listed, closed */
    const char *cell_id;       /* all others */
    uint64_t generation;       /* yielded, completed, terminated; the next two likewise */
    struct bl_list items;      /* struct bl_cell_item */
    struct bl_text items_json; /* written in place of items: with commas, without brackets */
    bool stalled;              /* yielded */
    const struct bl_cell_error *error; /* completed; NULL if it succeeded */
    uint64_t stopped_calls;
    const struct bl_json *receipt; /* terminated; closed, where NULL is written as null */
    struct bl_text receipt_json;   /* written in place of it */
    const struct cell_listed *cells;
    size_t cell_count;
    bool more;
};

/* For each operation, exactly the outcomes that it can have. */
extern const struct bl_record cell_open_ok_record, cell_create_ok_record, cell_observe_ok_record,
    cell_terminate_ok_record, cell_release_ok_record, cell_list_ok_record, cell_close_ok_record;
extern const struct bl_record *const cell_ok_records[]; /* the same, by operation */
extern const struct bl_record cell_any_ok_record;

/* ---- Asking ---------------------------------------------------------------------------------- */

/* As bl_cell_client_call, decoded. `*ret_ok` and its bytes, `*ret_json`, are in the arena. */
int cell_client_request(struct bl_cell_client *client, const struct cell_request *request,
                        struct bl_arena *arena, struct cell_ok *ret_ok, struct bl_text *ret_json,
                        struct bl_cell_fault *fault, struct bl_error *error);

#endif
