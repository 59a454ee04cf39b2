/* The host of all cells of a process, with one session that is created with the first cell, and the
 * tools that cells call. */
#include "core.h"

#define OPEN_NS_MAX (60 * BL_NS_PER_S)

/* ---- Tools of cells -------------------------------------------------------------------------- */

static void on_call(void *context, const struct bl_cell_call *call,
                    struct bl_cell_call_result *ret_result)
{
    struct mcp_server *server = context;

    bl_agent_cell_call(&server->cells.engine, call, ret_result);
}

/* Takes the tools that the workspace has now: with later ones, a repeated call would create a
 * different cell. */
static void mcp_cells_take_tools(struct mcp_cells *cells)
{
    const struct bl_tools *all = bl_toolbox_tools(cells->workspace->toolbox);
    struct bl_tool_offer *offers =
        bl_arena_alloc(&cells->arena, (all->offer_count + 1) * sizeof *offers);

    cells->tools = bl_arena_zalloc(&cells->arena, (all->offer_count + 1) * sizeof *cells->tools);
    for (size_t i = 0; i < all->offer_count; i++) {
        offers[i] = all->offers[i];
        cells->tools[i] = (struct bl_cell_tool){
            .name = bl_text_from(offers[i].name),
            .description = bl_text_from(offers[i].description),
            .schema = offers[i].schema,
        };
    }
    cells->held = bl_toolbox_hold(cells->workspace->toolbox);
    cells->tool_count = all->offer_count;
    cells->table = *all;
    cells->table.ask = NULL;
    cells->table.refresh = NULL;
    cells->table.offers = offers;
    cells->engine =
        (struct bl_engine){.tools = &cells->table, .clock = bl_loop_clock(bl_loop_current())};
}

int mcp_cells_offer(struct mcp_server *server)
{
    struct mcp_cells *cells = &server->cells;

    if (cells->offered || cells->workspace == NULL || cells->workspace->toolbox == NULL)
        return 0;
    int code = bl_lock_take(&cells->offering);
    if (code != 0)
        return code;
    if (!cells->offered) {
        bl_toolbox_refresh(cells->workspace->toolbox);
        code = bl_check();
    }
    if (code == 0 && !cells->offered) {
        mcp_cells_take_tools(cells);
        cells->offered = true;
    }
    bl_lock_give(&cells->offering);
    return code;
}

/* Cells are useful without tools, so a workspace that does not open is not an error. */
static void mcp_cells_open_tools(struct mcp_server *server)
{
    struct bl_runtime *runtime = server->options.runtime;
    struct bl_workspace_request request = {.directory = runtime->options->directory,
                                           .max_budget_usd = -1};
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct mcp_cells *cells = &server->cells;

    if (cells->workspace == NULL &&
        bl_runtime_open(runtime, &request, &cells->workspace, error) == 0 &&
        cells->workspace->toolbox != NULL)
        bl_toolbox_begin(cells->workspace->toolbox, &server->nursery, server->options.activities,
                         cells->session_id);
    bl_free(error);
}

static void close_tools(struct mcp_server *server)
{
    struct mcp_cells *cells = &server->cells;

    if (cells->workspace == NULL)
        return;
    if (cells->workspace->toolbox != NULL)
        bl_toolbox_end(cells->workspace->toolbox);
    bl_toolbox_let_go(cells->held);
    bl_workspace_close(cells->workspace);
    cells->workspace = NULL;
}

/* ---- Host and session ------------------------------------------------------------------------ */

void mcp_cells_init(struct mcp_server *server)
{
    bl_lock_init(&server->cells.opening);
    bl_lock_init(&server->cells.offering);
    bl_arena_init(&server->cells.arena);
    mcp_id_make(server->cells.session_id, "mcp-");
}

/* Called by the host; must not wait. Stops the work that watches a cell when the cell has ended. */
static void mcp_cells_on_event(void *context, const struct bl_cell_event *event)
{
    const struct mcp_server *server = context;

    if (event->type != BL_CELL_EVENT_ENDED)
        return;
    BL_LIST_EACH (link, &server->works) {
        struct mcp_work *work = BL_CONTAINER(link, struct mcp_work, all);
        if (strcmp(work->id, event->cell_id) == 0 && strcmp(work->kind, "exec") == 0)
            bl_scope_stop(&work->scope, BL_STOP_PARENT, "its cell has ended");
    }
}

static int mcp_cells_open_host(struct mcp_server *server, struct bl_cell_fault *fault)
{
    struct mcp_cells *cells = &server->cells;
    struct bl_cell_host_options options = {.store = server->options.runtime->store};
    struct bl_cell_session_options session = {
        .id = cells->session_id,
        .directory = server->options.runtime->options->directory,
        .port = {.context = server, .call = on_call, .event = mcp_cells_on_event},
        .activities = server->options.activities,
    };
    struct bl_error *error = bl_zalloc(sizeof *error);
    int code = 0;

    if (cells->host == NULL)
        code = bl_cell_host_start(&server->nursery, &options, &cells->host, error);
    if (code != 0) {
        *fault = (struct bl_cell_fault){.code = BL_CELL_WORKER_UNAVAILABLE};
        bl_text_into(fault->message, sizeof fault->message,
                     error->code != 0 ? error->message : bl_error_text(code));
    }
    bl_free(error);
    if (code != 0)
        return code;
    mcp_cells_open_tools(server);
    if (cells->workspace == NULL || cells->workspace->toolbox == NULL)
        session.port.call = NULL;
    return bl_cell_session_open(cells->host, &session, &cells->session, fault);
}

/* Once begun, it runs to its end. */
int mcp_cells_open(struct mcp_server *server, struct bl_cell_fault *fault)
{
    struct mcp_cells *cells = &server->cells;
    struct bl_scope shield;

    if (cells->session != NULL)
        return 0;
    bl_shield_begin(&shield, OPEN_NS_MAX);
    int code = bl_lock_take(&cells->opening);
    if (code != 0)
        *fault = (struct bl_cell_fault){.code = BL_CELL_CANCELLED,
                                        .message = "the cell host does not answer"};
    if (code == 0 && cells->session == NULL)
        code = mcp_cells_open_host(server, fault);
    if (cells->opening.owner == bl_fiber_current())
        bl_lock_give(&cells->opening);
    bl_shield_end(&shield);
    return code;
}

void mcp_cells_retire(struct mcp_server *server)
{
    if (server->cells.workspace != NULL && server->cells.workspace->toolbox != NULL)
        bl_toolbox_retire(server->cells.workspace->toolbox);
}

void mcp_cells_close(struct mcp_server *server, enum bl_stop_reason reason, const char *origin)
{
    struct mcp_cells *cells = &server->cells;

    bl_cell_session_close(cells->session, false, reason, origin, NULL);
    bl_cell_host_stop(cells->host, reason, origin);
    close_tools(server);
    bl_arena_done(&cells->arena);
}
