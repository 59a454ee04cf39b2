/* A status area at the bottom of a terminal, which a running command redraws as things change. No
 * terminal mode is changed, so that nothing must be restored if the process is killed: the cursor
 * stays on a line below the area, and typed text is echoed there.
 *
 * The command never waits for the terminal: the display has an open file description of its own,
 * which does not block, and a fiber that writes to it. If writing fails, only the display ends. */
#ifndef BELAY_CLI_DISPLAY_H
#define BELAY_CLI_DISPLAY_H

#include <belay/fiber.h>

#include "term/term.h"

struct cli_display;

struct cli_look {
    size_t columns;
    size_t rows; /* of the window */
    bool colours;
};

struct cli_display_options {
    int fd;            /* a terminal */
    uint64_t frame_ns; /* interval between checks for changes */
    bool lines_only;   /* draws no area: only the lines above it are printed */
    /* Lays out the current state: fills `view`, whose texts live until the next call, and appends
     * to `above` the lines that scroll up and are not redrawn. Returns false if nothing has
     * changed. */
    bool (*lay_out)(void *context, const struct cli_look *look, struct edit_view *view,
                    struct bl_buffer *above);
    void *context;
};

/* Draws in a fiber below the scope. Returns NULL if `fd` is not a terminal or not writable. */
struct cli_display *cli_display_new(struct bl_scope *scope,
                                    const struct cli_display_options *options);
/* Writes the last lines above the area and clears the area. Waits for the terminal until
 * `wait_limit` is stopped (NULL for no wait), and a quarter of a second more. Returns false if not
 * everything was written. NULL is allowed. */
bool cli_display_free(struct cli_display *display, struct bl_scope *wait_limit);

#endif
