/* Design notes.
 *
 * Progress is shown to a person at the terminal of standard error: the same view as in `belay
 * chat`, drawn by a display of its own. Standard output carries only the answer; if both are the
 * same terminal, the view has already shown the answer, and it is not printed again. If standard
 * output is a pipe, nothing is redrawn, because the reader may use the terminal as well, as less(1)
 * does. Nothing is redrawn either if the log goes to the terminal. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/chat/chat.h"
#include "cli/display.h"

#define FRAME_NS       (100 * BL_NS_PER_MS)
#define TICK_NS        (120 * BL_NS_PER_MS)
#define ROWS_AROUND    4u /* lines of the window that live output does not use */
#define LINES_LIVE_MIN 2u

struct run_progress {
    const struct run_work *work;
    struct chat_view *view;
    struct cli_display *display;
    struct bl_buffer live;
    struct bl_buffer status;
    size_t columns;
    uint64_t calls;
    bool shows_answer;
};

static void progress_write_status(struct run_progress *progress, const struct cli_look *look)
{
    const struct run_work *work = progress->work;
    uint64_t since_ns = 0, now_ns = bl_now_ns(), deadline_ns = bl_scope_deadline_ns(&work->scope);
    struct status status = {
        .model = work->workspace->model.name,
        .phase = chat_view_phase(progress->view, &since_ns),
        .agents = chat_view_agents(progress->view),
        .deadline_left_ns = BL_NEVER,
        .stopping = bl_scope_stopped(&work->scope),
        .tick = (unsigned)(now_ns / TICK_NS),
    };

    if (status.phase == NULL)
        status.phase = "working";
    status.phase_ns = since_ns > 0 && now_ns > since_ns ? now_ns - since_ns : 0;
    if (deadline_ns != BL_NEVER)
        status.deadline_left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    bl_buffer_clear(&progress->status);
    status_line(&status, look->columns, look->colours, &progress->status);
}

static bool progress_lay_out(void *context, const struct cli_look *look, struct edit_view *view,
                             struct bl_buffer *above)
{
    struct run_progress *progress = context;
    size_t lines_max =
        look->rows > ROWS_AROUND + LINES_LIVE_MIN ? look->rows - ROWS_AROUND : LINES_LIVE_MIN;

    if (progress->columns != look->columns)
        chat_view_resize(progress->view, look->columns);
    progress->columns = look->columns;
    chat_view_take_lines(progress->view, above);
    chat_view_live(progress->view, lines_max, &progress->live);
    progress_write_status(progress, look);
    view->live = bl_buffer_text(&progress->live);
    view->status = bl_buffer_text(&progress->status);
    view->prompt = BL_TEXT("Ctrl-C to stop ");
    return true;
}

/* True if standard output and standard error are the same terminal. */
static bool progress_is_one_terminal(void)
{
    struct stat out, error;

    return isatty(STDOUT_FILENO) == 1 && fstat(STDOUT_FILENO, &out) == 0 &&
           fstat(STDERR_FILENO, &error) == 0 && out.st_rdev == error.st_rdev;
}

static bool progress_draws(void)
{
    struct stat out;

    return terminal_moves() && !cli_log_on_terminal() && fstat(STDOUT_FILENO, &out) == 0 &&
           !S_ISFIFO(out.st_mode);
}

struct run_progress *run_progress_new(const struct run_work *work)
{
    struct run_progress *progress = bl_zalloc(sizeof *progress);
    struct cli_display_options options = {
        .fd = STDERR_FILENO,
        .frame_ns = FRAME_NS,
        .lines_only = !progress_draws(),
        .lay_out = progress_lay_out,
        .context = progress,
    };

    progress->work = work;
    progress->shows_answer = progress_is_one_terminal();
    progress->columns = 80;
    progress->view = chat_view_new(progress->columns, cli_colour_wanted(STDERR_FILENO));
    chat_view_leave_ends(progress->view);
    bl_buffer_init(&progress->live, SIZE_MAX / 2);
    bl_buffer_init(&progress->status, SIZE_MAX / 2);
    progress->display = cli_display_new(bl_scope_current(), &options);
    if (progress->display != NULL)
        return progress;
    run_progress_free(progress, NULL);
    return NULL;
}

void run_progress_event(struct run_progress *progress, const struct bl_event *event)
{
    /* Warnings from the start have already been printed. */
    if (event->type == BL_EVENT_WARNING && event->turn == NULL)
        return;
    if (event->type == BL_EVENT_TOOL_ENDED && event->agent == NULL)
        progress->calls++;
    chat_view_event(progress->view, event);
}

bool run_progress_shows_answer(const struct run_progress *progress)
{
    return progress != NULL && progress->shows_answer;
}

/* Prints "2 tool calls, 12.3k tokens, $0.025, 4.2s". */
static void progress_say_end(struct run_progress *progress)
{
    static const struct text_style dim = {.dim = true};
    const struct run_work *work = progress->work;
    const struct bl_spent *spent = &work->result.run.spent;
    char tokens[32], cost[32], time[32];
    BL_AUTO_BUFFER(text, SIZE_MAX / 2);

    if (progress->calls > 0)
        bl_buffer_printf(&text, "%" PRIu64 " tool call%s, ", progress->calls,
                         progress->calls == 1 ? "" : "s");
    bl_buffer_printf(&text, "%s, ", chat_tokens(bl_usage_total(&spent->usage), tokens));
    if (chat_cost_text(spent, cost))
        bl_buffer_printf(&text, "%s, ", cost);
    uint64_t ms = (bl_clock_now_ns(&bl_clock_system) - work->started_ns) / BL_NS_PER_MS;
    bl_duration_format((int64_t)(ms * BL_NS_PER_MS), time);
    bl_buffer_printf(&text, "%s", time);
    chat_view_say(progress->view, bl_buffer_text(&text), &dim);
}

bool run_progress_free(struct run_progress *progress, struct bl_scope *wait_limit)
{
    if (progress == NULL)
        return true;
    chat_view_end_text(progress->view);
    if (progress->work->error.code == 0)
        progress_say_end(progress);
    bool written = cli_display_free(progress->display, wait_limit);
    chat_view_free(progress->view);
    bl_buffer_done(&progress->live);
    bl_buffer_done(&progress->status);
    bl_free(progress);
    return written;
}
