/* The live table of a run.
 *
 * Design notes.
 *
 * Each frame draws the whole table from the current state; the screen writes only changed lines. It
 * never scrolls: what does not fit in the window is summarized in the last line. */
#include "cli/display.h"
#include "feature.h"

#define FRAME_NS  (250 * BL_NS_PER_MS)
#define FRAME_MAX ((size_t)1024 * 1024)

struct feature_display {
    struct bl_feature *feature;
    struct cli_display *display;
    struct bl_arena arena; /* of one frame */
    struct bl_buffer table;
};

/* Returns the keys available now. */
static struct bl_text prompt_of(const struct bl_feature_view *view)
{
    const char *state = view->state != NULL ? view->state : "";

    if (strcmp(state, "draining") == 0)
        return BL_TEXT("stopping after phases · Ctrl-C: now ");
    if (strcmp(state, "paused") == 0)
        return BL_TEXT("paused · Ctrl-C stops, twice: now ");
    return BL_TEXT("Ctrl-C to stop, twice to stop now ");
}

static bool feature_display_lay_out(void *context, const struct cli_look *window,
                                    struct edit_view *shown, struct bl_buffer *above)
{
    struct feature_display *display = context;
    struct bl_feature_view *view;
    struct bl_error unused = {0};

    (void)above;
    bl_arena_reset(&display->arena);
    if (bl_feature_live(display->feature, &display->arena, &view, &unused) != 0)
        return false;
    struct feature_table_look look = {
        .columns = window->columns,
        /* One row for the cursor, and one that the screen keeps free. */
        .rows = window->rows > 3 ? window->rows - 2 : 1,
        .colours = window->colours,
        .wall_ns = bl_clock_wall_ns(bl_loop_clock(bl_loop_current())),
    };
    bl_buffer_clear(&display->table);
    feature_table_draw(view, &look, &display->table);
    shown->live = bl_buffer_text(&display->table);
    shown->prompt = prompt_of(view);
    return true;
}

static void feature_display_release(struct feature_display *display)
{
    bl_buffer_done(&display->table);
    bl_arena_done(&display->arena);
    bl_free(display);
}

struct feature_display *feature_display_new(struct bl_nursery *nursery, struct bl_feature *feature,
                                            int fd)
{
    if (!terminal_moves())
        return NULL;
    struct feature_display *display = bl_zalloc(sizeof *display);
    struct cli_display_options options = {
        .fd = fd, .frame_ns = FRAME_NS, .lay_out = feature_display_lay_out, .context = display};

    display->feature = feature;
    bl_buffer_init(&display->table, FRAME_MAX);
    display->display = cli_display_new(&nursery->scope, &options);
    if (display->display != NULL)
        return display;
    feature_display_release(display);
    return NULL;
}

void feature_display_free(struct feature_display *display)
{
    if (display == NULL)
        return;
    cli_display_free(display->display, NULL);
    feature_display_release(display);
}
