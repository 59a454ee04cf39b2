/* Design notes.
 *
 * The table is made anew from what stands, and a screen writes those lines that have changed. It
 * never scrolls: what does not fit into the window is summed up in its last line. Below it stays a
 * line where the cursor is and what is typed is echoed: no mode of the terminal is changed, so that
 * nothing is to be put back when the process is killed.
 *
 * Nobody waits for the terminal: it has a description of its own, which does not block, and a fiber
 * that writes to it. When that fails, the display ends and nothing else does. */
#include "feature.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/chat/chat.h"

#define FRAME_NS     (250 * BL_NS_PER_MS)
#define LAST_WORD_NS (250 * BL_NS_PER_MS)
#define FRAME_MAX    ((size_t)1024 * 1024)
/* Where the cursor waits. */

struct feature_display {
    struct bl_feature *feature;
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_nursery nursery;
    struct edit_screen screen;
    struct edit_line line; /* stays empty: the cursor's place */
    struct bl_arena arena; /* of one frame */
    struct bl_buffer table;
    struct bl_buffer bytes;
    bool failed;
};

static void find_size(int fd, size_t *ret_columns, size_t *ret_rows)
{
    struct winsize size = {0};

    ioctl(fd, TIOCGWINSZ, &size);
    *ret_columns = size.ws_col > 0 ? size.ws_col : 80;
    *ret_rows = size.ws_row > 0 ? size.ws_row : 24;
}

/* What one can do now. */
static struct bl_text prompt_of(const struct bl_feature_view *view)
{
    const char *state = view->state != NULL ? view->state : "";

    if (strcmp(state, "draining") == 0)
        return BL_TEXT("stops when phases end; Ctrl-C: at once ");
    if (strcmp(state, "paused") == 0)
        return BL_TEXT("paused; Ctrl-C stops, twice: at once ");
    return BL_TEXT("Ctrl-C stops, twice: at once ");
}

/* What makes the screen show how things stand now; nothing: as it was. */
static void display_draw(struct feature_display *display)
{
    struct edit_screen *screen = &display->screen;
    struct bl_feature_view *view;
    struct bl_error unused = {0};
    size_t columns, rows;

    bl_buffer_clear(&display->bytes);
    find_size(display->fd, &columns, &rows);
    if (columns != screen->columns || rows != screen->rows)
        edit_screen_resize(screen, columns, rows, &display->bytes);
    bl_arena_reset(&display->arena);
    if (bl_feature_live(display->feature, &display->arena, &view, &unused) != 0)
        return;
    struct feature_table_look look = {
        .columns = columns,
        /* One is the cursor's, and one the screen leaves free. */
        .rows = rows > 3 ? rows - 2 : 1,
        .colours = screen->colours,
        .wall_ns = bl_clock_wall_ns(bl_loop_clock(bl_loop_current())),
    };
    bl_buffer_clear(&display->table);
    feature_table_draw(view, &look, &display->table);
    struct edit_view shown = {
        .live = bl_buffer_text(&display->table), .prompt = prompt_of(view), .line = &display->line};
    edit_screen_draw(screen, &shown, (struct bl_text){0}, &display->bytes);
}

static int display_send_frame(struct feature_display *display)
{
    return bl_descriptor_write(display->descriptor, display->bytes.data, display->bytes.size, NULL);
}

static int display_main(void *argument)
{
    struct feature_display *display = argument;
    int code = 0;

    while (code == 0) {
        display_draw(display);
        if (display->bytes.size > 0)
            code = display_send_frame(display);
        if (code == 0)
            code = bl_sleep(FRAME_NS);
    }
    display->failed = code != BL_ECANCELED && code != BL_ETIMEDOUT;
    return 0;
}

/* A description of our own, which does not block: what is shared with the shell stays as it is. */
static int display_open_anew(int fd)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void display_release(struct feature_display *display)
{
    bl_descriptor_free(display->descriptor);
    close(display->fd);
    edit_line_done(&display->line);
    bl_buffer_done(&display->table);
    bl_buffer_done(&display->bytes);
    bl_arena_done(&display->arena);
    bl_free(display);
}

struct feature_display *feature_display_new(struct bl_nursery *nursery, struct bl_feature *feature,
                                            int fd)
{
    int own = isatty(fd) == 1 ? display_open_anew(fd) : -1;
    size_t columns, rows;

    if (own < 0)
        return NULL;
    struct feature_display *display = bl_zalloc(sizeof *display);
    display->feature = feature;
    display->fd = own;
    bl_buffer_init(&display->table, FRAME_MAX);
    bl_buffer_init(&display->bytes, 4 * FRAME_MAX);
    edit_line_init(&display->line, NULL);
    find_size(own, &columns, &rows);
    edit_screen_init(&display->screen, columns, rows, cli_colour_wanted());
    display->screen.reflows = terminal_reflows();
    if (bl_descriptor_new(own, &display->descriptor) != 0) {
        display_release(display);
        return NULL;
    }
    bl_nursery_init(&display->nursery, &nursery->scope);
    if (bl_nursery_spawn(&display->nursery, NULL, "display", display_main, display, NULL) == 0)
        return display;
    bl_nursery_done(&display->nursery);
    display_release(display);
    return NULL;
}

void feature_display_free(struct feature_display *display)
{
    struct bl_scope moment;

    if (display == NULL)
        return;
    bl_nursery_done(&display->nursery);
    if (!display->failed) {
        bl_buffer_clear(&display->bytes);
        edit_screen_clear(&display->screen, &display->bytes);
        /* A frame may have been cut in two: wrapping and drawing are as they were. */
        bl_buffer_append(&display->bytes, BL_TEXT("\x1B[?7h\x1B[?2026l"));
        bl_shield_begin(&moment, LAST_WORD_NS);
        (void)display_send_frame(display);
        bl_shield_end(&moment);
    }
    display_release(display);
}
