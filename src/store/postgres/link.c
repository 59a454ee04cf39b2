/* Design notes.
 *
 * A connection, driven by one fiber at a time. The fiber waits on the socket; libpq is called on
 * the loop's stack, and never blocks: names are resolved before it gets the address, and every
 * statement goes through a pipeline.
 *
 * Each transaction of a pipeline ends with a sync point. Only the server's message that it is ready,
 * which follows the sync point, is an answer: the rows before it are sent before the transaction
 * commits. A call without that message may have taken place or not. A connection that stays silent
 * for too long is closed, because waiting for it might never end. */
#include <stdio.h>

#include "postgres.h"

/* Limit for connecting. */
#define CONNECT_NS (5 * BL_NS_PER_S)

/* ---- Errors ---- */

/* Copies the first line of a message of libpq or the server. */
static void copy_message(const char *message, char *out, size_t size)
{
    struct bl_text rest = bl_text_from(message), line = {0};
    bl_text_split(&rest, '\n', &line);
    snprintf(out, size, "%.*s", (int)(line.size < size ? line.size : size - 1),
             line.size > 0 ? line.data : "");
}

static int fail_to_connect(const struct pg_link *link, const char *message, struct bl_error *error)
{
    char line[300];
    copy_message(message, line, sizeof line);
    bl_error_set(error, BL_EIO, BL_KIND_SESSION, "open the store", link->store->address.shown,
                 "cannot connect to %.200s: %s", link->store->address.shown, line);
    bl_error_hint(error, "check that the server runs and accepts the user, or use another store "
                         "with --store");
    if (error != NULL)
        error->retryable = true;
    return BL_EIO;
}

static int lose(struct pg_link *link, struct bl_error *error)
{
    char line[200];
    copy_message(link->conn != NULL ? PQerrorMessage(link->conn) : "", line, sizeof line);
    bl_error_set(error, BL_EPIPE, BL_KIND_SESSION, "use the store", link->store->address.shown,
                 "the connection to %.200s is lost%s%s", link->store->address.shown,
                 line[0] != '\0' ? ": " : "", line);
    pg_link_close(link);
    return BL_EPIPE;
}

/* ---- Connecting ---- */

struct connecting {
    struct pg_link *link;
    const struct pg_address *address;
    PostgresPollingStatusType next;
};

static void ignore_notice(void *context BL_UNUSED, const PGresult *result BL_UNUSED) {}

static void start_connecting(void *argument)
{
    struct connecting *connecting = argument;
    const struct pg_address *address = connecting->address;
    struct pg_link *link = connecting->link;
    link->conn = PQconnectStartParams((const char *const *)address->keywords,
                                      (const char *const *)address->values, 0);
    if (link->conn != NULL)
        PQsetNoticeReceiver(link->conn, ignore_notice, NULL);
    connecting->next = PGRES_POLLING_WRITING;
}

static void poll_connecting(void *argument)
{
    struct connecting *connecting = argument;
    connecting->next = PQconnectPoll(connecting->link->conn);
}

static void start_pipeline(void *argument)
{
    struct pg_link *link = argument;
    PQsetnonblocking(link->conn, 1);
    PQenterPipelineMode(link->conn);
}

static void finish(void *argument)
{
    PQfinish(argument);
}

void pg_link_close(struct pg_link *link)
{
    bl_descriptor_free(link->descriptor);
    link->descriptor = NULL;
    if (link->conn != NULL)
        bl_loop_call(finish, link->conn);
    link->conn = NULL;
}

/* Waits for the socket, which libpq may have replaced since the last wait. */
static int wait_connecting(struct pg_link *link, PostgresPollingStatusType next)
{
    struct bl_descriptor *descriptor;
    int fd = PQsocket(link->conn);
    int code = fd < 0 ? BL_EIO : bl_descriptor_new(fd, &descriptor);
    if (code != 0)
        return code;
    code = bl_descriptor_wait(descriptor, next == PGRES_POLLING_READING ? BL_READABLE : BL_WRITABLE,
                              NULL);
    bl_descriptor_free(descriptor);
    return code;
}

/* Lists of libpq, separated by commas. */
struct hosts {
    struct bl_arena arena;
    struct bl_text names;
    struct bl_text addresses;
    struct bl_text ports;
};

static void add_element(struct hosts *hosts, struct bl_text *list, struct bl_text element)
{
    *list =
        bl_arena_printf(&hosts->arena, BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT, BL_TEXT_ARG(*list),
                        list == &hosts->names && list->size == 0 ? "" : ",", BL_TEXT_ARG(element));
}

static void add_host(struct hosts *hosts, struct bl_text name, struct bl_text address,
                     struct bl_text port)
{
    /* Version 6 addresses come in brackets. */
    if (address.size > 2 && address.data[0] == '[')
        address = (struct bl_text){address.data + 1, address.size - 2};
    add_element(hosts, &hosts->names, name);
    add_element(hosts, &hosts->addresses, address);
    add_element(hosts, &hosts->ports, port);
}

/* Adds a host once for each of its addresses; one that is a socket, once. */
static int add_resolved(struct pg_link *link, struct hosts *hosts, struct bl_text name,
                        struct bl_text port, struct bl_error *error)
{
    struct bl_text found = {0}, address;
    int code = 0;
    if (!pg_host_is_socket(name))
        code = bl_resolve(link->store->resolver, &hosts->arena, name, &found, error);
    /* BL_ENOENT would say that there is no store yet. */
    if (code == BL_ENOENT) {
        code = BL_EIO;
        if (error != NULL) {
            error->code = code;
            error->kind = BL_KIND_SESSION;
            bl_error_hint(error, "check the host in the address of the database");
        }
    }
    if (code == 0 && found.size == 0)
        add_host(hosts, name, (struct bl_text){0}, port);
    while (code == 0 && bl_text_split(&found, ',', &address))
        add_host(hosts, name, address, port);
    return code;
}

/* Copies the address, with all addresses of its hosts: libpq's own lookup blocks. */
static int link_resolve(struct pg_link *link, struct pg_address *ret_address,
                        struct bl_error *error)
{
    const struct pg_address *from = &link->store->address;
    const char *port = pg_address_get(from, "port");
    struct bl_text names = bl_text_from(from->hosts), name, one_port = {0};
    struct bl_text ports = bl_text_from(port != NULL ? port : "");
    struct hosts hosts = {0};
    int code = 0;
    for (size_t i = 0; i < from->count; i++)
        pg_address_set(ret_address, from->keywords[i], from->values[i]);
    while (code == 0 && bl_text_split(&names, ',', &name)) {
        bl_text_split(&ports, ',', &one_port); /* one for each host, or one for all */
        code = add_resolved(link, &hosts, name, one_port, error);
    }
    if (code == 0 && hosts.names.size > 0) {
        /* The other lists begin with a comma. */
        pg_address_set(ret_address, "host", hosts.names.data);
        pg_address_set(ret_address, "hostaddr", hosts.addresses.data + 1);
        pg_address_set(ret_address, "port", hosts.ports.data + 1);
    }
    bl_arena_done(&hosts.arena);
    return code;
}

static int connect_to(struct pg_link *link, const struct pg_address *address,
                      struct bl_error *error)
{
    struct connecting connecting = {.link = link, .address = address};
    int code = 0;
    bl_loop_call(start_connecting, &connecting);
    if (link->conn == NULL)
        bl_out_of_memory(0);
    if (PQstatus(link->conn) == CONNECTION_BAD)
        return fail_to_connect(link, PQerrorMessage(link->conn), error);
    while (code == 0 && connecting.next != PGRES_POLLING_OK &&
           connecting.next != PGRES_POLLING_FAILED) {
        code = wait_connecting(link, connecting.next);
        if (code == 0)
            bl_loop_call(poll_connecting, &connecting);
    }
    if (code == 0 && connecting.next == PGRES_POLLING_OK)
        code = bl_descriptor_new(PQsocket(link->conn), &link->descriptor);
    else if (code == 0)
        return fail_to_connect(link, PQerrorMessage(link->conn), error);
    if (code == BL_ETIMEDOUT)
        return fail_to_connect(link, "no answer", error);
    if (code == 0)
        bl_loop_call(start_pipeline, link);
    return code;
}

int pg_link_open(struct pg_link *link, struct bl_error *error)
{
    struct pg_address address = {0};
    struct bl_scope limit;
    if (link->conn != NULL)
        return 0;
    bl_limit_begin(&limit, CONNECT_NS);
    int code = link_resolve(link, &address, error);
    if (code == 0)
        code = connect_to(link, &address, error);
    else if (code == BL_ETIMEDOUT)
        code = fail_to_connect(link, "the name server does not answer", error);
    bl_limit_end(&limit);
    pg_address_done(&address);
    if (code == 0)
        link->connection++;
    else
        pg_link_close(link);
    BL_LOG(BL_ROOM_STORE, BL_LOG_DEBUG, "database connected",
           BL_LOG_STRING("result", bl_error_text(code)));
    return code;
}

/* ---- Calls ---- */

/* Bytes that are passed to libpq before it has sent them: it keeps a copy. */
#define SEND_BYTES ((size_t)256 * 1024)

/* A pipeline on its way. */
struct pump {
    struct pg_link *link;
    struct bl_list *calls;
    struct bl_list *unsent; /* the next call to send */
    struct bl_list *answer; /* the call whose result is due */
    size_t syncs;           /* sync points that were sent and not answered */
    bool flushing;          /* bytes are waiting to be sent */
    bool lost;
};

static size_t link_send_call(struct pump *pump, const struct pg_call *call)
{
    PGconn *conn = pump->link->conn;
    int formats[PG_PARAMETERS_MAX];
    size_t size = strlen(call->sql);
    for (int i = 0; i < call->count; i++) {
        formats[i] = 1;
        size += (size_t)call->sizes[i];
    }
    pump->lost = PQsendQueryParams(conn, call->sql, call->count, call->types, call->values,
                                   call->sizes, formats, 1) == 0 ||
                 (!call->joined && PQpipelineSync(conn) == 0);
    pump->syncs += !call->joined;
    return size;
}

/* Sends calls until the socket takes no more. */
static void send_calls(struct pump *pump)
{
    size_t size = 0;
    while (!pump->lost && !pump->flushing && pump->unsent != pump->calls) {
        size += link_send_call(pump, BL_CONTAINER(pump->unsent, struct pg_call, link));
        pump->unsent = pump->unsent->next;
        if (pump->lost || (size < SEND_BYTES && pump->unsent != pump->calls))
            continue;
        int left = PQflush(pump->link->conn);
        pump->lost = left < 0;
        pump->flushing = left > 0;
        size = 0;
    }
}

/* The calls of one transaction are answered together. */
static void take_sync(struct pump *pump)
{
    for (struct bl_list *each = pump->answer->previous; each != pump->calls;
         each = each->previous) {
        struct pg_call *call = BL_CONTAINER(each, struct pg_call, link);
        if (call->answered)
            break;
        call->answered = true;
    }
}

/* Takes the results that have arrived. */
static void take_results(struct pump *pump)
{
    PGconn *conn = pump->link->conn;
    while (!pump->lost && !PQisBusy(conn)) {
        struct pg_call *last = BL_CONTAINER(pump->calls->previous, struct pg_call, link);
        if (last->answered || (pump->answer == pump->unsent && pump->syncs == 0))
            return;
        PGresult *result = PQgetResult(conn);
        if (result == NULL) {
            pump->lost = PQstatus(conn) == CONNECTION_BAD;
            /* After the result of a call. */
            if (pump->answer != pump->calls)
                pump->answer = pump->answer->next;
            continue;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            pump->syncs--;
            take_sync(pump);
            continue;
        }
        struct pg_call *call =
            pump->answer == pump->calls ? NULL : BL_CONTAINER(pump->answer, struct pg_call, link);
        if (call == NULL || call->result != NULL) {
            PQclear(result);
            pump->lost = pump->lost || PQstatus(conn) == CONNECTION_BAD;
        } else {
            call->result = result;
        }
    }
}

static void pump_begin(void *argument)
{
    send_calls(argument);
}

static void pump_on(void *argument)
{
    struct pump *pump = argument;
    PGconn *conn = pump->link->conn;
    if (PQconsumeInput(conn) == 0)
        pump->lost = true;
    take_results(pump);
    int left = pump->lost ? 0 : PQflush(conn);
    pump->lost = pump->lost || left < 0;
    pump->flushing = left > 0;
    send_calls(pump);
}

static bool all_answered(const struct bl_list *calls)
{
    return BL_CONTAINER(calls->previous, struct pg_call, link)->answered;
}

/* Waits for the socket, for a limited time of silence. */
static int wait_for_server(struct pg_link *link, bool flushing)
{
    struct bl_scope limit;
    struct bl_scope *outer = bl_scope_current();
    bl_limit_begin(&limit, link->silence_ns);
    int code =
        bl_descriptor_wait(link->descriptor, BL_READABLE | (flushing ? BL_WRITABLE : 0), NULL);
    bl_limit_end(&limit);
    return code == BL_ETIMEDOUT && !bl_scope_stopped(outer) ? BL_EPIPE : code;
}

/* Drops the results of transactions without an answer. */
static void forget_unanswered(struct bl_list *calls)
{
    BL_LIST_EACH (each, calls) {
        struct pg_call *call = BL_CONTAINER(each, struct pg_call, link);
        if (!call->answered)
            pg_call_done(call);
    }
}

int pg_link_run(struct pg_link *link, struct bl_list *calls, struct bl_error *error)
{
    struct pump pump = {.link = link, .calls = calls, .unsent = calls->next, .answer = calls->next};
    int code = 0;
    if (bl_list_empty(calls))
        return 0;
    bl_loop_call(pump_begin, &pump);
    while (code == 0 && !pump.lost && !all_answered(calls)) {
        code = wait_for_server(link, pump.flushing);
        if (code == 0)
            bl_loop_call(pump_on, &pump);
    }
    if (code == 0 && all_answered(calls))
        return 0;
    forget_unanswered(calls);
    if (code == 0 || code == BL_EPIPE)
        return lose(link, error);
    pg_link_close(link);
    return code;
}

/* ---- Errors of the server ---- */

struct failure {
    const char *state; /* the first characters of an SQLSTATE */
    int code;
    enum bl_error_kind kind;
    bool retryable;
    const char *what;
    const char *hint; /* may be NULL */
};

static const struct failure *link_find_failure(const char *state)
{
    static const struct failure failures[] = {
        {"3F000", BL_ENOTSUP, BL_KIND_SESSION, false, "the database has no schema of Belay",
         "create it: belay fleet init --store ADDRESS"},
        {"42P01", BL_ENOTSUP, BL_KIND_SESSION, false, "the database has no schema of Belay",
         "create it: belay fleet init --store ADDRESS"},
        {"42883", BL_ENOTSUP, BL_KIND_SESSION, false, "the schema of the database does not fit",
         "use the version of Belay that created it, or another database"},
        {"42501", BL_EACCES, BL_KIND_SESSION, false, "the database refuses it",
         "grant the role belay_worker to the user"},
        {"25006", BL_EACCES, BL_KIND_SESSION, false, "the database is read-only",
         "use the address of the primary server"},
        {"53100", BL_ENOSPC, BL_KIND_FILESYSTEM, true, "the disk of the database is full",
         "free some space at the server and try again"},
        {"53", BL_EBUSY, BL_KIND_SESSION, true, "the server lacks resources", NULL},
        {"40", BL_EBUSY, BL_KIND_SESSION, true, "the database is busy", "try again"},
        {"55P03", BL_EBUSY, BL_KIND_SESSION, true, "the database is locked", "try again"},
        {"57", BL_EIO, BL_KIND_SESSION, true, "the server ended the call", NULL},
        {"22021", BL_EINVAL, BL_KIND_SESSION, false, "the text is not valid UTF-8", NULL},
        {"54", BL_ELIMIT, BL_KIND_SESSION, false, "too large for the database", NULL},
        {"", BL_ESYSTEM, BL_KIND_SESSION, false, "the database failed", NULL},
    };
    size_t i = 0;
    while (strncmp(failures[i].state, state, strlen(failures[i].state)) != 0)
        i++;
    return &failures[i];
}

const char *pg_state(const struct pg_call *call)
{
    const char *state =
        call->result != NULL ? PQresultErrorField(call->result, PG_DIAG_SQLSTATE) : NULL;
    return state != NULL ? state : "";
}

static bool has_failed(const struct pg_call *call)
{
    ExecStatusType status = call->result != NULL ? PQresultStatus(call->result) : PGRES_FATAL_ERROR;
    return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK;
}

int pg_failed(const struct pg_link *link, const struct pg_call *call, const char *operation,
              struct bl_error *error)
{
    char cause[300];
    if (!has_failed(call))
        return 0;
    const struct failure *failure = link_find_failure(pg_state(call));
    copy_message(call->result != NULL ? PQresultErrorField(call->result, PG_DIAG_MESSAGE_PRIMARY)
                                      : NULL,
                 cause, sizeof cause);
    bl_error_set(error, failure->code, failure->kind, operation, link->store->address.shown,
                 "%.200s: %s (PostgreSQL: %s)", link->store->address.shown, failure->what, cause);
    if (failure->hint != NULL)
        bl_error_hint(error, "%s", failure->hint);
    if (error != NULL)
        error->retryable = failure->retryable;
    return failure->code;
}

bool pg_transient(const struct pg_call *call)
{
    static const char *const states[] = {"40001", "40P01", "55P03"};
    if (call->result == NULL || !has_failed(call))
        return false;
    for (size_t i = 0; i < BL_COUNT(states); i++) {
        if (strcmp(pg_state(call), states[i]) == 0)
            return true;
    }
    return false;
}

/* True if a call failed because of a conflict with another transaction. */
static bool any_transient(const struct bl_list *calls)
{
    BL_LIST_EACH (each, calls) {
        if (pg_transient(BL_CONTAINER(each, struct pg_call, link)))
            return true;
    }
    return false;
}

static void forget_answers(struct bl_list *calls)
{
    BL_LIST_EACH (each, calls) {
        struct pg_call *call = BL_CONTAINER(each, struct pg_call, link);
        pg_call_done(call);
        call->answered = false;
    }
}

int pg_link_ask_all(struct pg_link *link, struct bl_list *calls, const char *operation,
                    struct bl_error *error)
{
    int code = pg_link_run(link, calls, error);
    for (unsigned tries = 1; code == 0 && tries <= PG_TRIES_MAX && any_transient(calls); tries++) {
        code = bl_sleep(tries * BL_NS_PER_MS);
        if (code != 0)
            break;
        forget_answers(calls);
        code = pg_link_run(link, calls, error);
    }
    BL_LIST_EACH (each, calls) {
        if (code == 0)
            code = pg_failed(link, BL_CONTAINER(each, struct pg_call, link), operation, error);
    }
    return code;
}

int pg_link_ask(struct pg_link *link, struct pg_call *call, const char *operation,
                struct bl_error *error)
{
    struct bl_list calls;
    bl_list_init(&calls);
    bl_list_push_back(&calls, &call->link);
    int code = pg_link_ask_all(link, &calls, operation, error);
    bl_list_remove(&call->link);
    return code;
}
