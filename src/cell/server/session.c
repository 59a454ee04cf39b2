/* Sessions that connections have opened, and how long they live without a connection. */
#include <inttypes.h>

#include "cell/host/host.h"
#include "server.h"

/* Longer than a close can take. */
#define CLOSE_NS_MAX (3600 * BL_NS_PER_S)

/* ---- Openings -------------------------------------------------------------------------------- */

struct server_opening *server_opening_find(const struct server_connection *connection,
                                           const char *session_id)
{
    BL_LIST_EACH (link, &connection->openings) {
        struct server_opening *opening = BL_CONTAINER(link, struct server_opening, of_connection);
        if (strcmp(opening->session->id, session_id) == 0)
            return opening;
    }
    return NULL;
}

static void opening_free(struct server_opening *opening)
{
    bl_list_remove(&opening->of_session);
    bl_list_remove(&opening->of_connection);
    opening->connection->opening_count--;
    bl_free(opening);
}

static int refuse_not_open(struct bl_cell_fault *fault, const char *session_id)
{
    int code =
        cell_refuse(fault, BL_CELL_SESSION_NOT_OPEN, "this connection has not opened the session");
    bl_text_into(fault->id, sizeof fault->id, session_id);
    return code;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static struct server_session *session_ref(struct bl_cell_server *server, const char *id)
{
    struct server_session *session = bl_map_get(&server->sessions, bl_text_from(id));
    if (session == NULL) {
        session = bl_zalloc(sizeof *session);
        session->server = server;
        session->linger_until_ns = BL_NEVER;
        bl_text_into(session->id, sizeof session->id, id);
        bl_lock_init(&session->lock);
        bl_list_init(&session->openings);
        bl_list_init(&session->calls);
        bl_list_init(&session->notifies);
        bl_map_set(&server->sessions, bl_text_from(id), session, NULL);
    }
    session->references++;
    return session;
}

static void session_unref(struct server_session *session)
{
    if (--session->references > 0 || session->session != NULL)
        return;
    bl_map_remove(&session->server->sessions, bl_text_from(session->id));
    bl_free(session);
}

static int open_here(struct server_session *session, struct bl_cell_fault *fault)
{
    const struct bl_cell_server_options *options = &session->server->options;
    const struct bl_cell_session_options opened = {
        .id = session->id,
        .directory = options->directory,
        .port = {.context = session, .call = server_port_call, .event = server_port_event},
        .activities = options->activities,
    };
    return bl_cell_session_open(options->host, &opened, &session->session, fault);
}

/* Starts the linger time, or turns it off while there is a connection. */
static void set_linger(struct server_session *session)
{
    session->linger_until_ns = bl_list_empty(&session->openings)
                                   ? bl_time_add(bl_now_ns(), session->linger_ms * BL_NS_PER_MS)
                                   : (uint64_t)BL_NEVER;
    bl_semaphore_give(&session->server->lingering);
}

static void server_session_attach(struct server_session *session,
                                  struct server_connection *connection,
                                  const struct cell_request *request)
{
    struct server_opening *opening = server_opening_find(connection, session->id);
    session->linger_ms = request->open.linger_ms;
    if (connection->dead) { /* it has closed in the meantime */
        set_linger(session);
        return;
    }
    if (opening == NULL) {
        opening = bl_zalloc(sizeof *opening);
        opening->session = session;
        opening->connection = connection;
        bl_list_init(&opening->of_session);
        bl_list_push_back(&connection->openings, &opening->of_connection);
        connection->opening_count++;
    }
    opening->serves_tools = request->open.serves_tools;
    bl_list_remove(&opening->of_session);
    bl_list_push_back(&session->openings, &opening->of_session);
    set_linger(session);
    if (opening->serves_tools && (connection->capabilities & CELL_CAPABILITY_TOOLS) != 0)
        session->has_tools = true;
    /* Without a client for notifications, `notify` throws. */
    if ((connection->capabilities & CELL_CAPABILITY_NOTIFY) != 0)
        session->session->port.notify = server_port_notify;
}

int server_session_open(struct server_connection *connection, const struct cell_request *request,
                        struct bl_cell_fault *fault)
{
    struct bl_cell_server *server = connection->server;
    if (server_opening_find(connection, request->session_id) == NULL &&
        connection->opening_count >= BL_CELL_SESSIONS_MAX) {
        int code =
            cell_refuse(fault, BL_CELL_LIMIT_REACHED,
                        "this connection already has %u open sessions", BL_CELL_SESSIONS_MAX);
        bl_text_into(fault->limit, sizeof fault->limit, "sessions");
        fault->value = BL_CELL_SESSIONS_MAX;
        return code;
    }
    struct server_session *session = session_ref(server, request->session_id);
    int code = bl_lock_take(&session->lock);
    if (code != 0) {
        session_unref(session);
        return cell_refuse(fault, BL_CELL_CANCELLED, "cancelled before the session was opened");
    }
    if (session->session == NULL)
        code = open_here(session, fault);
    if (code == 0)
        server_session_attach(session, connection, request);
    bl_lock_give(&session->lock);
    session_unref(session);
    return code;
}

int server_session_use(struct server_connection *connection, const struct cell_request *request,
                       struct server_session **ret_session, struct bl_cell_fault *fault)
{
    struct server_opening *opening = server_opening_find(connection, request->session_id);
    if (opening == NULL || opening->session->session == NULL || opening->session->closing)
        return refuse_not_open(fault, request->session_id);
    opening->session->references++;
    *ret_session = opening->session;
    return 0;
}

void server_session_unuse(struct server_session *session)
{
    session_unref(session);
}

/* ---- Closing --------------------------------------------------------------------------------- */

/* Call with the lock held. */
static void close_here(struct server_session *session, bool forget, enum bl_stop_reason reason,
                       const char *origin, struct bl_buffer *ret_receipt)
{
    session->closing = true;
    bl_cell_session_close(session->session, forget, reason, origin, ret_receipt);
    session->session = NULL;
    session->closing = false;
    session->has_tools = false;
    session->linger_until_ns = BL_NEVER;
    while (!bl_list_empty(&session->openings))
        opening_free(BL_CONTAINER(session->openings.next, struct server_opening, of_session));
    server_notifies_drop(session);
}

int server_session_close(struct server_connection *connection, const struct cell_request *request,
                         struct bl_buffer *ret_receipt, struct bl_cell_fault *fault)
{
    struct server_session *session = NULL;
    int code = server_session_use(connection, request, &session, fault);
    if (code != 0)
        return code;
    code = bl_lock_take(&session->lock);
    if (code != 0) {
        session_unref(session);
        return cell_refuse(fault, BL_CELL_CANCELLED, "cancelled before the session was closed");
    }
    if (session->session == NULL)
        code = refuse_not_open(fault, request->session_id);
    else
        close_here(session, request->close.forget, BL_STOP_USER, "close_session", ret_receipt);
    bl_lock_give(&session->lock);
    session_unref(session);
    return code;
}

void server_session_leave(struct server_connection *connection)
{
    while (!bl_list_empty(&connection->openings)) {
        struct server_opening *opening =
            BL_CONTAINER(connection->openings.next, struct server_opening, of_connection);
        struct server_session *session = opening->session;
        server_calls_leave(session, connection);
        opening_free(opening);
        set_linger(session);
    }
}

/* Closes a session whose linger time is over, unless a client has opened it just now. */
static int close_lingered(void *argument)
{
    struct server_session *session = argument;
    struct bl_scope shield;
    bl_shield_begin(&shield, CLOSE_NS_MAX);
    if (bl_lock_take(&session->lock) == 0) {
        if (session->session != NULL && bl_list_empty(&session->openings) &&
            session->linger_until_ns == BL_NEVER) {
            server_log(session->server, "session %s: closed: no client reconnected", session->id);
            close_here(session, false, BL_STOP_CLIENT_GONE, "linger", NULL);
        }
        bl_lock_give(&session->lock);
    }
    bl_shield_end(&shield);
    session_unref(session);
    return 0;
}

/* Starts closing the sessions that are due. Returns when to check again. */
static uint64_t close_due_sessions(struct bl_cell_server *server)
{
    uint64_t next_ns = BL_NEVER, now_ns = bl_now_ns();
    BL_MAP_EACH (entry, &server->sessions) {
        struct server_session *session = entry->value;
        if (session->linger_until_ns == BL_NEVER || session->session == NULL || session->closing)
            continue;
        if (session->linger_until_ns > now_ns) {
            next_ns = session->linger_until_ns < next_ns ? session->linger_until_ns : next_ns;
            continue;
        }
        session->linger_until_ns = BL_NEVER;
        session->references++;
        if (bl_nursery_spawn(&server->nursery, NULL, "cell session", close_lingered, session,
                             NULL) != 0) {
            session->references--;
            session->linger_until_ns = bl_time_add(now_ns, BL_NS_PER_S);
            next_ns = session->linger_until_ns < next_ns ? session->linger_until_ns : next_ns;
        }
    }
    return next_ns;
}

int server_session_linger(void *argument)
{
    struct bl_cell_server *server = argument;
    struct bl_scope *outer = bl_scope_current();
    int code = 0;
    while (code == 0) {
        struct bl_scope limit;
        uint64_t next_ns = close_due_sessions(server);
        bl_limit_begin_until(&limit, next_ns);
        bl_semaphore_take(&server->lingering);
        while (bl_semaphore_try_take(&server->lingering) == 0)
            continue;
        bl_limit_end(&limit);
        code = bl_scope_check(outer);
    }
    return 0;
}

struct ending {
    struct server_session *session;
    enum bl_stop_reason reason;
    const char *origin;
};

static int server_session_end_main(void *argument)
{
    struct ending *ending = argument;
    struct server_session *session = ending->session;
    struct bl_scope shield;
    bl_shield_begin(&shield, CLOSE_NS_MAX);
    if (bl_lock_take(&session->lock) == 0) {
        if (session->session != NULL)
            close_here(session, false, ending->reason, ending->origin, NULL);
        bl_lock_give(&session->lock);
    }
    bl_shield_end(&shield);
    session_unref(session);
    bl_free(ending);
    return 0;
}

void server_sessions_end(struct bl_cell_server *server, enum bl_stop_reason reason,
                         const char *origin)
{
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    BL_MAP_EACH (entry, &server->sessions) {
        struct ending *ending = bl_zalloc(sizeof *ending);
        *ending = (struct ending){entry->value, reason, origin};
        ending->session->references++;
        if (bl_nursery_spawn(&nursery, NULL, "cell session ends", server_session_end_main, ending,
                             NULL) != 0)
            server_session_end_main(ending);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
}
