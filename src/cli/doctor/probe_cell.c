/* Checks that cells run here by running one. Its host uses a store of its own, which is removed
 * afterwards. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <belay/cell.h>

#include "cli/cli.h"
#include "probe.h"

#define YIELD_MS 10000u

struct cell_probe {
    struct probe_check *check;
    char folder[256];
    char store[300];
    struct bl_arena arena;
    struct bl_cell_fault fault;
    struct bl_error error;
};

static void refused(struct cell_probe *probe)
{
    const struct bl_cell_fault *fault = &probe->fault;

    probe_answer(probe->check, PROBE_NO, "%s%s%s", fault->message,
                 fault->detail[0] != '\0' ? ": " : "", fault->detail);
}

static void probe_cell_judge(struct cell_probe *probe,
                             const struct bl_cell_observe_outcome *outcome, uint64_t ns)
{
    char duration[32];

    if (outcome->type == BL_CELL_OBSERVE_COMPLETED && outcome->completed.error == NULL) {
        bl_duration_format((int64_t)ns, duration);
        probe_answer(probe->check, PROBE_OK, "a cell ran, in %s", duration);
    } else if (outcome->type == BL_CELL_OBSERVE_COMPLETED) {
        probe_answer(probe->check, PROBE_NO, BL_TEXT_FORMAT,
                     BL_TEXT_ARG(bl_utf8_cut(outcome->completed.error->message, 200)));
    } else {
        probe_answer(probe->check, PROBE_NO, "a cell did not complete");
    }
}

static void run_cell(struct cell_probe *probe, struct bl_cell_session *session)
{
    struct bl_cell_create create = {.cell_id = "c-1", .source = BL_TEXT("text(6 * 7)")};
    struct bl_cell_observe observe = {.cell_id = "c-1", .generation = 1, .yield_ms = YIELD_MS};
    struct bl_cell_observe_outcome outcome;
    uint64_t from_ns = bl_now_ns();

    if (bl_cell_create(session, &create, &probe->fault) != 0 ||
        bl_cell_observe(session, &observe, &probe->arena, &outcome, &probe->fault) != 0)
        refused(probe);
    else
        probe_cell_judge(probe, &outcome, bl_now_ns() - from_ns);
}

static int probe_cell_run_host(struct cell_probe *probe, struct bl_nursery *nursery,
                               struct bl_store *store)
{
    struct bl_cell_host_options options = {.store = store, .spares = 1};
    struct bl_cell_session_options of_session = {.id = "doctor", .directory = probe->folder};
    struct bl_cell_session *session;
    struct bl_cell_host *host;

    int code = bl_cell_host_start(nursery, &options, &host, &probe->error);
    if (code != 0)
        return code;
    if (bl_cell_session_open(host, &of_session, &session, &probe->fault) == 0) {
        run_cell(probe, session);
        bl_cell_session_close(session, true, BL_STOP_SHUTDOWN, "doctor", NULL);
    } else {
        refused(probe);
    }
    bl_cell_host_stop(host, BL_STOP_SHUTDOWN, "doctor");
    return 0;
}

static int cell_probe_main(void *argument)
{
    struct cell_probe *probe = argument;
    struct bl_store *store = NULL;
    struct bl_nursery nursery;

    int code = bl_store_open(probe->store, &store, &probe->error);
    if (code == 0) {
        bl_nursery_init(&nursery, bl_scope_current());
        code = probe_cell_run_host(probe, &nursery, store);
        bl_nursery_done(&nursery);
    }
    bl_store_close(store);
    return code;
}

static void remove_store(const struct cell_probe *probe)
{
    static const char *const parts[] = {"", "-wal", "-shm", "-journal", "-lock"};
    char path[320];

    for (size_t i = 0; i < BL_COUNT(parts); i++) {
        snprintf(path, sizeof path, "%s%s", probe->store, parts[i]);
        unlink(path);
    }
    rmdir(probe->folder);
}

void probe_cells(struct probe_check *check)
{
    struct cell_probe *probe = bl_zalloc(sizeof *probe);
    const char *temporary = bl_variable("TMPDIR");

    *check = (struct probe_check){.name = "worker"};
    probe->check = check;
    snprintf(probe->folder, sizeof probe->folder, "%s/belay-doctor-XXXXXX",
             temporary != NULL && temporary[0] == '/' && strlen(temporary) < 200 ? temporary
                                                                                 : "/tmp");
    if (mkdtemp(probe->folder) == NULL) {
        probe_answer(check, PROBE_UNTRIED, "cannot make a folder in %.100s: %s", probe->folder,
                     strerror(errno));
    } else {
        snprintf(probe->store, sizeof probe->store, "%s/store.db", probe->folder);
        bl_arena_init(&probe->arena);
        if (cli_loop_run("doctor", cell_probe_main, probe, &probe->error) != 0)
            probe_answer(check, PROBE_NO, "%s", probe->error.message);
        bl_arena_done(&probe->arena);
        remove_store(probe);
    }
    if (check->state != PROBE_OK)
        probe_hint(check, "install belay-cell-worker beside belay, or set BELAY_CELL_WORKER to its "
                          "path; it needs libjavascriptcoregtk-4.1");
    bl_free(probe);
}
