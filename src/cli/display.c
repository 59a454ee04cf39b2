#include "display.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

#define LAST_WORD_NS (250 * BL_NS_PER_MS)
#define COLUMNS_MIN  4u
#define ROWS_MIN     2u

struct cli_display {
    struct cli_display_options options;
    int fd;
    struct bl_descriptor *descriptor;
    struct bl_nursery nursery;
    struct edit_screen screen;
    struct edit_line line; /* stays empty; holds the cursor */
    struct bl_buffer above;
    struct bl_buffer bytes; /* to be written */
    size_t sent;            /* number of `bytes` written */
    bool failed;
};

static struct cli_look display_look(const struct cli_display *display)
{
    struct winsize size = {0};

    ioctl(display->fd, TIOCGWINSZ, &size);
    size_t columns = size.ws_col > 0 ? size.ws_col : 80, rows = size.ws_row > 0 ? size.ws_row : 24;
    return (struct cli_look){.columns = columns > COLUMNS_MIN ? columns : COLUMNS_MIN,
                             .rows = rows > ROWS_MIN ? rows : ROWS_MIN,
                             .colours = display->screen.colours};
}

/* False if this process is in the background. */
static bool display_is_in_front(const struct cli_display *display)
{
    pid_t group = tcgetpgrp(display->fd);

    return group < 0 || group == getpgrp();
}

static void display_forget_screen(struct cli_display *display, const struct cli_look *look)
{
    bool reflows = display->screen.reflows;

    edit_screen_init(&display->screen, look->columns, look->rows, look->colours);
    display->screen.reflows = reflows;
}

/* Appends the bytes that make the terminal show the current state; nothing if it has not changed.
 */
static void display_draw(struct cli_display *display, bool last)
{
    struct edit_screen *screen = &display->screen;
    struct cli_look look = display_look(display);
    struct edit_view view = {.line = &display->line};

    if (!display->options.lines_only &&
        (look.columns != screen->columns || look.rows != screen->rows))
        edit_screen_resize(screen, look.columns, look.rows, &display->bytes);
    /* In the background the screen belongs to the shell: only print lines. */
    bool drawn = !display->options.lines_only && display_is_in_front(display);
    if (!drawn && screen->height > 0)
        display_forget_screen(display, &look);
    bl_buffer_clear(&display->above);
    if (!display->options.lay_out(display->options.context, &look, &view, &display->above) && !last)
        return;
    if (last)
        view = (struct edit_view){0};
    if (!drawn)
        bl_buffer_append(&display->bytes, bl_buffer_text(&display->above));
    else
        edit_screen_draw(screen, &view, bl_buffer_text(&display->above), &display->bytes);
}

/* Writes the remaining bytes, of this frame or of an interrupted one. */
static int display_send(struct cli_display *display)
{
    size_t size = 0;

    int code = bl_descriptor_write(display->descriptor, display->bytes.data + display->sent,
                                   display->bytes.size - display->sent, &size);
    display->sent += size;
    if (code == 0) {
        bl_buffer_clear(&display->bytes);
        display->sent = 0;
    }
    return code;
}

static int display_main(void *argument)
{
    struct cli_display *display = argument;
    int code = 0;

    while (code == 0) {
        display_draw(display, false);
        if (display->bytes.size > 0)
            code = display_send(display);
        if (code == 0)
            code = bl_sleep(display->options.frame_ns);
    }
    display->failed = code != BL_ECANCELED && code != BL_ETIMEDOUT;
    return 0;
}

/* Opens a file description of our own that does not block; the one shared with the shell does not
 * change. */
static int display_open_anew(int fd)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void display_release(struct cli_display *display)
{
    bl_descriptor_free(display->descriptor);
    close(display->fd);
    edit_line_done(&display->line);
    bl_buffer_done(&display->above);
    bl_buffer_done(&display->bytes);
    bl_free(display);
}

struct cli_display *cli_display_new(struct bl_scope *scope,
                                    const struct cli_display_options *options)
{
    int own = isatty(options->fd) == 1 ? display_open_anew(options->fd) : -1;

    if (own < 0)
        return NULL;
    struct cli_display *display = bl_zalloc(sizeof *display);
    display->options = *options;
    display->fd = own;
    bl_buffer_init(&display->above, SIZE_MAX / 2);
    bl_buffer_init(&display->bytes, SIZE_MAX / 2);
    edit_line_init(&display->line, NULL);
    struct cli_look look = display_look(display);
    edit_screen_init(&display->screen, look.columns, look.rows, cli_colour_wanted(options->fd));
    display->screen.reflows = terminal_reflows();
    if (bl_descriptor_new(own, &display->descriptor) != 0) {
        display_release(display);
        return NULL;
    }
    bl_nursery_init(&display->nursery, scope);
    if (bl_nursery_spawn(&display->nursery, NULL, "display", display_main, display, NULL) == 0)
        return display;
    bl_nursery_done(&display->nursery);
    display_release(display);
    return NULL;
}

static int display_send_last(struct cli_display *display, struct bl_scope *wait_limit)
{
    struct bl_scope moment;
    int code = BL_EAGAIN;

    if (wait_limit != NULL) {
        struct bl_scope *outer = bl_scope_enter(wait_limit);
        code = display_send(display);
        bl_scope_enter(outer);
    }
    if (code == 0)
        return 0;
    bl_shield_begin(&moment, LAST_WORD_NS);
    code = display_send(display);
    bl_shield_end(&moment);
    return code;
}

bool cli_display_free(struct cli_display *display, struct bl_scope *wait_limit)
{
    if (display == NULL)
        return true;
    bl_nursery_done(&display->nursery);
    bool written = !display->failed;
    if (written) {
        display_draw(display, true);
        if (!display->options.lines_only && display_is_in_front(display)) {
            edit_screen_clear(&display->screen, &display->bytes);
            bl_buffer_append(&display->bytes, BL_TEXT("\x1B[?7h\x1B[?2026l"));
        }
        written = display_send_last(display, wait_limit) == 0;
    }
    display_release(display);
    return written;
}
