/* The operations of a session other than observe and terminate. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "host.h"

int cell_refuse(struct bl_cell_fault *fault, enum bl_cell_code code, const char *format, ...)
{
    va_list arguments;

    *fault = (struct bl_cell_fault){.code = code};
    va_start(arguments, format);
    vsnprintf(fault->message, sizeof fault->message, format, arguments);
    va_end(arguments);
    return code == BL_CELL_CANCELLED ? BL_ECANCELED : BL_EREFUSED;
}

int cell_refuse_by_fault(struct bl_cell_host *host, enum cell_fault_point point,
                         struct bl_cell_fault *fault)
{
    enum cell_fault_action action = cell_fault_hit(host, point);

    if (action == CELL_GO_ON)
        return 0;
    int code = cell_refuse(fault, BL_CELL_INTERNAL, "fault injected by a test");
    return action == CELL_DROP ? CELL_DROPPED : code;
}

static int refuse_bad(struct bl_cell_fault *fault, const char *path, const char *message)
{
    int code = cell_refuse(fault, BL_CELL_BAD_REQUEST, "%s", message);

    bl_text_into(fault->path, sizeof fault->path, path);
    return code;
}

static int refuse_cell(struct bl_cell_fault *fault, enum bl_cell_code why, const char *id,
                       const char *message)
{
    int code = cell_refuse(fault, why, "%s", message);

    bl_text_into(fault->id, sizeof fault->id, id);
    return code;
}

static int operations_refuse_limit(struct bl_cell_fault *fault, const char *limit, uint64_t value)
{
    int code = cell_refuse(fault, BL_CELL_LIMIT_REACHED, "the limit %s is %" PRIu64, limit, value);

    bl_text_into(fault->limit, sizeof fault->limit, limit);
    fault->value = value;
    return code;
}

static int refuse_store(struct bl_cell_fault *fault, const struct bl_error *error)
{
    int code = cell_refuse(fault, BL_CELL_STORE_FAILED, "the store failed");

    bl_text_into(fault->detail, sizeof fault->detail, error->message);
    return code;
}

int cell_find_admitted(struct bl_cell_session *session, const char *id, struct cell **ret_cell,
                       struct bl_cell_fault *fault)
{
    struct cell_waiter waiter;

    for (;;) {
        *ret_cell = cell_find(session, id);
        if (*ret_cell == NULL || (*ret_cell)->state != CELL_ADMITTING)
            return 0;
        cell_waiter_init(&waiter);
        bl_list_push_back(&(*ret_cell)->admission, &waiter.link);
        if (bl_semaphore_take(&waiter.woken) != 0) {
            bl_list_remove(&waiter.link);
            return cell_refuse(fault, BL_CELL_CANCELLED, "the wait was cancelled");
        }
    }
}

int cell_find_recorded(struct bl_cell_session *session, const char *id, struct cell **ret_cell,
                       struct bl_cell_fault *fault)
{
    int code = cell_find_admitted(session, id, ret_cell, fault);

    if (code != 0 || *ret_cell == NULL || (*ret_cell)->unstored == NULL)
        return code;
    struct bl_error *error = bl_zalloc(sizeof *error);
    if (cell_store_again(*ret_cell, error) != 0)
        code = refuse_store(fault, error);
    *ret_cell = cell_find(session, id);
    bl_free(error);
    return code;
}

/* ---- create ---------------------------------------------------------------------------------- */

static bool operations_is_blank(struct bl_text text)
{
    return bl_text_trim(text).size == 0;
}

static int refuse_tool(struct bl_cell_fault *fault, size_t index, const char *member,
                       const char *message)
{
    char path[64];

    snprintf(path, sizeof path, "/tools/%zu%s", index, member);
    return refuse_bad(fault, path, message);
}

static bool operations_is_object(struct bl_text schema)
{
    const struct bl_json *value;
    BL_AUTO_ARENA(arena);

    bool object =
        bl_json_read(&arena, schema, NULL, &value, NULL) == 0 && bl_json_is(value, BL_JSON_OBJECT);
    return object;
}

static int check_tools(const struct bl_cell_create *create, struct bl_cell_fault *fault)
{
    size_t bytes = 0;

    if (create->tool_count > BL_CELL_TOOLS_MAX)
        return refuse_bad(fault, "/tools", "a cell can have at most 512 tools");
    for (size_t i = 0; i < create->tool_count; i++) {
        const struct bl_cell_tool *tool = &create->tools[i];
        bytes += tool->name.size + tool->description.size + tool->schema.size;
        if (bytes > BL_CELL_TOOLS_BYTES_MAX)
            return refuse_bad(fault, "/tools", "the tools of a cell can have at most 4 MiB");
        if (tool->name.size == 0)
            return refuse_tool(fault, i, "/name", "a tool must have a name");
        for (size_t j = 0; j < i; j++)
            if (bl_text_equal(create->tools[j].name, tool->name))
                return refuse_tool(fault, i, "/name", "another tool has the same name");
        if (tool->schema.size > 0 && !operations_is_object(tool->schema))
            return refuse_tool(fault, i, "/input_schema", "a schema must be an object");
    }
    return 0;
}

/* The wire's table has checked more; these checks are for callers in C. */
static int check_create(const struct bl_cell_create *create, struct bl_cell_fault *fault)
{
    if (!cell_id_valid(bl_text_from(create->cell_id)))
        return refuse_bad(fault, "/cell_id", "an id must match [a-z0-9-]{1,64}");
    if (operations_is_blank(create->source) || create->source.size > BL_CELL_SOURCE_MAX)
        return refuse_bad(fault, "/source", "the source is blank, or larger than 1 MiB");
    if (create->deadline_ms > BL_CELL_DEADLINE_MS_MAX)
        return refuse_bad(fault, "/limits/deadline_ms", "a cell can run for at most 24 hours");
    if (create->memory_bytes > BL_CELL_MEMORY_MAX)
        return refuse_bad(fault, "/limits/memory_bytes", "a cell can have at most 1 GiB of memory");
    if (create->output_bytes > BL_CELL_OUTPUT_MAX)
        return refuse_bad(fault, "/limits/output_bytes",
                          "a cell can write at most 16 MiB of output");
    return check_tools(create, fault);
}

static int check_room(const struct bl_cell_session *session, uint64_t memory,
                      struct bl_cell_fault *fault)
{
    const struct bl_cell_host *host = session->host;
    char why[200] = "";

    if (host->stopping || session->closing)
        return cell_refuse(fault, BL_CELL_SHUTTING_DOWN, "the host is shutting down");
    if (host->live >= host->live_max)
        return operations_refuse_limit(fault, "live_cells", host->live_max);
    if (host->memory + memory > host->memory_max)
        return operations_refuse_limit(fault, "memory_bytes", host->memory_max);
    if (!cell_pool_available(&host->pool, why, sizeof why)) {
        int code =
            cell_refuse(fault, BL_CELL_WORKER_UNAVAILABLE, "cannot start a worker on this machine");
        bl_text_into(fault->detail, sizeof fault->detail, why);
        return code;
    }
    return 0;
}

static void copy_tools(struct cell *cell, const struct bl_cell_create *create)
{
    struct bl_cell_tool *tools =
        bl_arena_alloc(&cell->arena, (create->tool_count + 1) * sizeof *tools);

    for (size_t i = 0; i < create->tool_count; i++)
        tools[i] = (struct bl_cell_tool){
            .name = bl_arena_text(&cell->arena, create->tools[i].name),
            .description = bl_arena_text(&cell->arena, create->tools[i].description),
            .takes_text = create->tools[i].takes_text,
        };
    cell->tools = tools;
    cell->tool_count = create->tool_count;
}

static struct cell *operations_prepare(struct bl_cell_session *session,
                                       const struct bl_cell_create *create,
                                       const uint8_t digest[32])
{
    struct cell *cell = cell_new(session, create->cell_id);

    memcpy(cell->digest, digest, sizeof cell->digest);
    cell->created_ns = bl_now_ns();
    cell->created_wall_ns = bl_clock_wall_ns(bl_loop_clock(bl_loop_current()));
    cell->deadline_ms = create->deadline_ms != 0 ? create->deadline_ms : BL_CELL_DEADLINE_MS;
    cell->memory_bytes = create->memory_bytes != 0 ? create->memory_bytes : BL_CELL_MEMORY;
    cell->output_bytes = create->output_bytes != 0 ? create->output_bytes : BL_CELL_OUTPUT;
    cell->source = bl_arena_text(&cell->arena, create->source);
    copy_tools(cell, create);
    cell->values = cell_values_ref(session->values);
    session->host->live++;
    session->host->memory += cell->memory_bytes;
    return cell;
}

struct admission {
    struct cell *cell;
    struct bl_store_cell record;
};

static int write_admission(void *context, struct bl_error *error)
{
    const struct admission *admission = context;

    return bl_store_cell_admit(admission->cell->session->held, &admission->record, error);
}

/* Removes a cell whose admission failed, without a trace. */
static void undo(struct cell *cell)
{
    struct bl_cell_session *session = cell->session;
    struct bl_cell_host *host = session->host;

    cell_pool_give_back(&host->pool, cell->worker);
    cell->worker = NULL;
    host->live--;
    host->memory -= cell->memory_bytes;
    cell_wake_all(&cell->admission);
    cell_free(cell);
    cell_wake_all(&session->joining);
}

static int operations_admit(struct cell *cell, struct bl_cell_fault *fault)
{
    struct bl_cell_host *host = cell->session->host;
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct admission admission = {.cell = cell};

    cell->worker = cell_pool_take(&host->pool);
    admission.record = (struct bl_store_cell){
        .id = bl_text_from(cell->id),
        .digest = {(const char *)cell->digest, sizeof cell->digest},
        .created_wall_ns = cell->created_wall_ns,
        .deadline_ms = (int64_t)cell->deadline_ms,
        .pid = cell->worker != NULL ? cell->worker->pid : 0,
        .pid_started = cell->worker != NULL ? cell->worker->pid_started : 0,
    };
    int code = cell_store_write(host, error, write_admission, &admission);
    if (code == BL_EEXIST)
        code = refuse_cell(fault, BL_CELL_GONE, cell->id,
                           "this id was used before, and does not run again");
    else if (code == BL_EBUSY && error->kind != BL_KIND_SESSION)
        code = refuse_cell(fault, BL_CELL_CONFLICT, cell->id,
                           "this id was used with different content");
    else if (code != 0)
        code = refuse_store(fault, error);
    bl_free(error);
    return code;
}

static int operations_begin(struct cell *cell, const struct bl_cell_create *create,
                            struct bl_cell_fault *fault)
{
    struct bl_cell_session *session = cell->session;
    struct bl_cell_event event = {.type = BL_CELL_EVENT_CREATED, .cell_id = cell->id};

    cell_fault_hit(session->host, CELL_AT_CREATE_ADMITTED);
    if (cell_begin(cell, create->scope != NULL ? create->scope : &session->scope) != 0) {
        int code = cell_refuse(fault, BL_CELL_INTERNAL, "cannot start a fiber for the cell");
        bl_text_into(fault->detail, sizeof fault->detail, "out of fiber stacks");
        return code;
    }
    if (session->port.event != NULL)
        session->port.event(session->port.context, &event);
    cell_wake_all(&cell->admission);
    return 0;
}

static int create_inside(struct bl_cell_session *session, const struct bl_cell_create *create,
                         struct bl_cell_fault *fault)
{
    uint8_t digest[32];
    struct cell *cell;
    int code = check_create(create, fault);

    if (code == 0)
        code = cell_refuse_by_fault(session->host, CELL_AT_CREATE_ADMIT, fault);
    if (code == 0)
        code = cell_find_admitted(session, create->cell_id, &cell, fault);
    if (code != 0)
        return code;
    cell_digest(create, digest);
    if (cell != NULL)
        return memcmp(digest, cell->digest, sizeof digest) == 0
                   ? 0
                   : refuse_cell(fault, BL_CELL_CONFLICT, create->cell_id,
                                 "a cell with this id has different content");
    code = check_room(session, create->memory_bytes != 0 ? create->memory_bytes : BL_CELL_MEMORY,
                      fault);
    if (code != 0)
        return code;
    cell = operations_prepare(session, create, digest);
    code = operations_admit(cell, fault);
    if (code == 0)
        code = operations_begin(cell, create, fault);
    if (code != 0)
        undo(cell);
    return code;
}

int bl_cell_create(struct bl_cell_session *session, const struct bl_cell_create *create,
                   struct bl_cell_fault *fault)
{
    cell_session_enter(session);
    int code = create_inside(session, create, fault);
    cell_session_leave(session);
    return code;
}

/* ---- observe, terminate: decoded ------------------------------------------------------------- */

static int internal(struct bl_cell_fault *fault, const struct bl_error *error)
{
    int code = cell_refuse(fault, BL_CELL_INTERNAL, "cannot decode the outcome");

    bl_text_into(fault->detail, sizeof fault->detail, error->message);
    return code;
}

int bl_cell_observe(struct bl_cell_session *session, const struct bl_cell_observe *observe,
                    struct bl_arena *arena, struct bl_cell_observe_outcome *ret_outcome,
                    struct bl_cell_fault *fault)
{
    struct bl_text ok;
    int code = cell_observe(session, observe, arena, &ok, fault);

    if (code != 0)
        return code;
    struct bl_error *error = bl_zalloc(sizeof *error);
    code = bl_cell_observe_outcome_read(arena, ok, ret_outcome, error);
    if (code != 0)
        code = internal(fault, error);
    bl_free(error);
    return code;
}

int bl_cell_terminate(struct bl_cell_session *session, const struct bl_cell_terminate *terminate,
                      struct bl_arena *arena, struct bl_cell_terminate_outcome *ret_outcome,
                      struct bl_cell_fault *fault)
{
    struct bl_text ok;
    int code = cell_terminate(session, terminate, arena, &ok, fault);

    if (code != 0)
        return code;
    struct bl_error *error = bl_zalloc(sizeof *error);
    code = bl_cell_terminate_outcome_read(arena, ok, ret_outcome, error);
    if (code != 0)
        code = internal(fault, error);
    bl_free(error);
    return code;
}

/* ---- release --------------------------------------------------------------------------------- */

struct burial {
    struct bl_cell_session *session;
    const char *id;
    bool buried;
};

static int write_burial(void *context, struct bl_error *error)
{
    const struct burial *burial = context;

    return bl_store_cell_bury(burial->session->held, bl_text_from(burial->id),
                              bl_clock_wall_ns(bl_loop_clock(bl_loop_current())),
                              BL_CELL_TOMBSTONES_MAX, BL_CELL_TOMBSTONE_NS_MAX, error);
}

static int read_burial(void *context, struct bl_error *error)
{
    struct burial *burial = context;

    return bl_store_cell_buried(burial->session->held, bl_text_from(burial->id), &burial->buried,
                                error);
}

int cell_bury(struct bl_cell_session *session, const char *id, struct bl_error *error)
{
    struct burial burial = {.session = session, .id = id};
    int code = cell_store_write(session->host, error, write_burial, &burial);

    return code == BL_ENOENT ? 0 : code;
}

static int release_unknown(struct bl_cell_session *session, const char *id,
                           enum bl_cell_release_outcome *ret_outcome, struct bl_cell_fault *fault)
{
    struct burial burial = {.session = session, .id = id};
    struct bl_error *error = bl_zalloc(sizeof *error);
    int code = cell_store_write(session->host, error, read_burial, &burial);

    *ret_outcome = burial.buried ? BL_CELL_RELEASE_RELEASED : BL_CELL_RELEASE_MISSING;
    if (code != 0)
        code = refuse_store(fault, error);
    bl_free(error);
    return code;
}

static int refuse_release(const struct cell *cell, struct bl_cell_fault *fault)
{
    if (!cell_has_ended(cell))
        return refuse_cell(fault, BL_CELL_NOT_TERMINAL, cell->id,
                           "the cell has not ended; terminate it first");
    int code = cell_refuse(fault, BL_CELL_WRONG_GENERATION, "the cell ended at generation %" PRIu64,
                           cell->generation);
    fault->expected = cell->generation;
    if (cell->yielded != NULL)
        fault->retained[fault->retained_count++] = cell->yielded->generation;
    fault->retained[fault->retained_count++] = cell->generation;
    return code;
}

/* As cell_find_recorded, but an ended cell is returned only when its fiber has released it, which
 * is after its end was reported. */
static int find_left(struct bl_cell_session *session, const char *id, struct cell **ret_cell,
                     struct bl_cell_fault *fault)
{
    struct cell_waiter waiter;

    for (;;) {
        int code = cell_find_recorded(session, id, ret_cell, fault);
        if (code != 0 || *ret_cell == NULL || !cell_has_ended(*ret_cell) || !(*ret_cell)->live)
            return code;
        cell_waiter_init(&waiter);
        bl_list_push_back(&session->joining, &waiter.link);
        code = bl_semaphore_take(&waiter.woken);
        bl_list_remove(&waiter.link);
        if (code != 0)
            return cell_refuse(fault, BL_CELL_CANCELLED, "the wait was cancelled");
    }
}

static int operations_release(struct bl_cell_session *session, const char *cell_id,
                              uint64_t generation, enum bl_cell_release_outcome *ret_outcome,
                              struct bl_cell_fault *fault)
{
    struct cell *cell;
    int code = find_left(session, cell_id, &cell, fault);

    if (code != 0)
        return code;
    if (cell == NULL)
        return release_unknown(session, cell_id, ret_outcome, fault);
    if (!cell_has_ended(cell) || cell->generation != generation)
        return refuse_release(cell, fault);
    struct bl_error *error = bl_zalloc(sizeof *error);
    code = cell_bury(session, cell_id, error);
    if (code != 0) {
        code = refuse_store(fault, error);
    } else {
        /* Another release may have come first. */
        cell = cell_find(session, cell_id);
        if (cell != NULL && cell_has_ended(cell))
            cell_drop(cell);
        *ret_outcome = BL_CELL_RELEASE_RELEASED;
    }
    bl_free(error);
    return code;
}

int bl_cell_release(struct bl_cell_session *session, const char *cell_id, uint64_t generation,
                    enum bl_cell_release_outcome *ret_outcome, struct bl_cell_fault *fault)
{
    cell_session_enter(session);
    int code = operations_release(session, cell_id, generation, ret_outcome, fault);
    cell_session_leave(session);
    return code;
}

/* ---- list ------------------------------------------------------------------------------------ */

static int by_id(const void *a, const void *b)
{
    return strcmp((*(struct cell *const *)a)->id, (*(struct cell *const *)b)->id);
}

static struct cell_listed operations_describe(const struct cell *cell)
{
    uint64_t now = bl_now_ns();
    uint64_t deadline = cell->live ? bl_scope_deadline_ns(&cell->scope) : 0;

    return (struct cell_listed){
        .cell_id = cell->id,
        .state = cell->state,
        .generation = cell->generation - (cell->unrecorded ? 1 : 0),
        .age_ms = (now - cell->created_ns) / BL_NS_PER_MS,
        .deadline_left_ms = deadline > now ? (deadline - now) / BL_NS_PER_MS : 0,
        .undelivered_bytes = cell->output.size,
        .calls = cell->calls_running,
        .timers = cell_has_ended(cell) ? 0 : cell->timers,
    };
}

int bl_cell_list(struct bl_cell_session *session, const char *after, uint64_t max,
                 struct bl_buffer *ret_ok, struct bl_cell_fault *fault)
{
    BL_AUTO_ARENA(arena);
    struct bl_json_writer writer;
    size_t count = 0, shown = 0, first = 0;

    if (max == 0)
        return refuse_bad(fault, "/max", "must be at least 1");
    BL_LIST_EACH (link, &session->list)
        count++;
    struct cell **cells = bl_arena_alloc(&arena, (count + 1) * sizeof *cells);
    count = 0;
    BL_LIST_EACH (link, &session->list) {
        struct cell *cell = BL_CONTAINER(link, struct cell, link);
        if (cell->state != CELL_ADMITTING)
            cells[count++] = cell;
    }
    qsort(cells, count, sizeof *cells, by_id);
    while (after != NULL && first < count && strcmp(cells[first]->id, after) <= 0)
        first++;
    struct cell_listed *listed = bl_arena_alloc(&arena, (count + 1) * sizeof *listed);
    for (size_t i = first; i < count && shown < max; i++)
        listed[shown++] = operations_describe(cells[i]);
    bl_json_writer_init(&writer, ret_ok);
    cell_ok_write(&writer, &(struct cell_ok){.type = CELL_OK_LISTED,
                                             .session_id = session->id,
                                             .cells = listed,
                                             .cell_count = shown,
                                             .more = first + shown < count});
    bl_json_writer_done(&writer);
    return 0;
}

/* ---- For the session's owner ----------------------------------------------------------------- */

static bool any_below(const struct bl_cell_session *session, const struct bl_scope *scope)
{
    BL_LIST_EACH (link, &session->list) {
        const struct cell *cell = BL_CONTAINER(link, struct cell, link);
        if (cell->live && cell->parent == scope)
            return true;
    }
    return false;
}

void bl_cell_join(struct bl_cell_session *session, const struct bl_scope *scope)
{
    struct cell_waiter waiter;
    struct bl_scope shield;

    while (any_below(session, scope)) {
        cell_waiter_init(&waiter);
        bl_list_push_back(&session->joining, &waiter.link);
        bl_shield_begin(&shield, BL_NEVER);
        bl_semaphore_take(&waiter.woken);
        bl_shield_end(&shield);
        bl_list_remove(&waiter.link);
    }
}

void bl_cell_write_background(void *session, struct bl_json_writer *writer)
{
    const struct bl_cell_session *cells = session;

    BL_LIST_EACH (link, &cells->list) {
        const struct cell *cell = BL_CONTAINER(link, struct cell, link);
        if (!cell->live || cell->parent != &cells->scope)
            continue;
        bl_record_write(writer, &bl_background_record,
                        &(struct bl_background_row){
                            .id = cell->id,
                            .cell = cell->id,
                            .processes = cell->worker != NULL ? 1 : 0,
                            .age_ms = (bl_now_ns() - cell->created_ns) / BL_NS_PER_MS,
                        });
    }
}
