/* Records of ended cells: bounded by number, bytes and age. */
#include "host.h"

static uint64_t retain_size_of(const struct cell *cell)
{
    return cell->terminal->json.size + (cell->yielded != NULL ? cell->yielded->json.size : 0);
}

/* Inserts in order of the end: a cell whose worker ends slowly gets here later than it ended. */
static void insert(struct bl_cell_host *host, struct cell *cell)
{
    struct bl_list *before = host->ended.previous;

    while (before != &host->ended &&
           BL_CONTAINER(before, struct cell, ended_link)->ended_ns > cell->ended_ns)
        before = before->previous;
    bl_list_insert_before(before->next, &cell->ended_link);
}

void cell_retain(struct cell *cell)
{
    struct bl_cell_session *session = cell->session;
    uint64_t bytes = retain_size_of(cell);

    cell->record_bytes = bytes;
    insert(session->host, cell);
    session->host->ended_count++;
    session->host->ended_bytes += bytes;
    session->ended_count++;
    session->ended_bytes += bytes;
}

static void retain_forget(struct cell *cell)
{
    struct bl_cell_session *session = cell->session;

    bl_list_remove(&cell->ended_link);
    session->host->ended_count--;
    session->host->ended_bytes -= cell->record_bytes;
    session->ended_count--;
    session->ended_bytes -= cell->record_bytes;
}

void cell_drop(struct cell *cell)
{
    retain_forget(cell);
    cell_free(cell);
}

/* Returns the oldest record of the session with the most records, or the most bytes if
 * `by_bytes`. */
static struct cell *retain_choose(const struct bl_cell_host *host, bool by_bytes)
{
    const struct bl_cell_session *most = NULL;

    BL_LIST_EACH (link, &host->sessions) {
        const struct bl_cell_session *session = BL_CONTAINER(link, struct bl_cell_session, link);
        if (session->closing)
            continue;
        if (most == NULL || (by_bytes ? session->ended_bytes > most->ended_bytes
                                      : session->ended_count > most->ended_count))
            most = session;
    }
    BL_LIST_EACH (link, &host->ended) {
        struct cell *cell = BL_CONTAINER(link, struct cell, ended_link);
        if (cell->session == most)
            return cell;
    }
    return NULL;
}

static struct cell *choose_old(const struct bl_cell_host *host)
{
    uint64_t now = bl_now_ns();

    BL_LIST_EACH (link, &host->ended) {
        struct cell *cell = BL_CONTAINER(link, struct cell, ended_link);
        if (now - cell->ended_ns <= host->record_ns_max)
            return NULL;
        if (!cell->session->closing)
            return cell;
    }
    return NULL;
}

static struct cell *choose_any(const struct bl_cell_host *host)
{
    bool many = host->ended_count > host->records_max;
    bool large = host->ended_bytes > host->records_bytes_max;

    return many || large ? retain_choose(host, large) : choose_old(host);
}

/* Only one eviction runs at a time: two would both free the same amount.
 *
 * A session that is being closed is skipped: it no longer belongs to this host. A record that
 * cannot be buried in the store is dropped here anyway: the limit is one of memory. */
void cell_evict(struct bl_cell_host *host)
{
    struct bl_error *error;
    struct cell *cell;

    if (host->evicting)
        return;
    host->evicting = true;
    error = bl_alloc(sizeof *error);
    while ((cell = choose_any(host)) != NULL) {
        struct bl_cell_session *session = cell->session;
        char id[BL_CELL_ID_SIZE];
        bl_text_into(id, sizeof id, cell->id);
        cell->evicting = true;
        cell_session_enter(session);
        *error = (struct bl_error){0};
        cell_bury(session, id, error);
        cell = cell_find(session, id);
        if (cell != NULL && cell->evicting)
            cell_drop(cell);
        cell_session_leave(session);
    }
    host->evicting = false;
    bl_free(error);
}
