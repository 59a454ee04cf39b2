/* A terminal as people see it (libvterm): bytes go in, and what is on the screen can be read. */
#ifndef BELAY_TESTS_CLI_SCREEN_H
#define BELAY_TESTS_CLI_SCREEN_H

#include "suite.h"
#include "term/term.h"

struct screen;

struct screen *screen_new(size_t columns, size_t rows);
void screen_free(struct screen *screen); /* NULL is fine */
void screen_feed(struct screen *screen, struct bl_text bytes);
/* Cuts what does not fit (no reflow); lines come back from what has scrolled away. */
void screen_resize(struct screen *screen, size_t columns, size_t rows);
size_t screen_rows(const struct screen *screen);

/* A line without the blanks at its end; until the next call for this screen. */
const char *screen_row(struct screen *screen, size_t row);
/* All that was ever written: what has scrolled away, then the screen, LF after each line, without
 * empty lines at the end. Until the next call for this screen. */
const char *screen_all(struct screen *screen);
/* The same of the screen alone. */
const char *screen_shown(struct screen *screen);
void screen_cursor(const struct screen *screen, size_t *ret_row, size_t *ret_column);
bool screen_cursor_visible(const struct screen *screen);
/* Anything on it that is bold, coloured, inverse or the like. */
bool screen_styled(const struct screen *screen);
/* What may be sent to any terminal (edit_screen.c promises no more): fails the test for any other
 * sequence, and for one of styles unless `colours`. */
void screen_check_sequences(struct bl_text bytes, bool colours);

/* A terminal, what draws on it, and what is to be seen. */
struct scene {
    struct screen *terminal;
    struct edit_screen screen;
    struct edit_line line;
    struct edit_view view;
    struct bl_buffer bytes; /* of the last draw */
};

void scene_begin(struct scene *scene, size_t columns, size_t rows, bool colours);
void scene_end(struct scene *scene);
void scene_draw(struct scene *scene, struct bl_text above);
void scene_resize(struct scene *scene, size_t columns, size_t rows);

/* Another terminal, that breaks long lines anew when it gets narrower: tmux. */
struct multiplexer {
    char folder[64];
    int terminal; /* what is written to it is shown */
    bool running;
};

/* False: there is none on this machine. Ended in either case. */
bool multiplexer_begin(struct multiplexer *multiplexer, size_t columns, size_t rows);
void multiplexer_end(struct multiplexer *multiplexer); /* twice is fine */
void multiplexer_feed(struct multiplexer *multiplexer, struct bl_text bytes);
void multiplexer_resize(struct multiplexer *multiplexer, size_t columns, size_t rows);
/* Waits until its screen holds `text`; then all that was ever written (`all`), or the screen alone,
 * into the buffer, which ends in NUL. */
void multiplexer_read(struct multiplexer *multiplexer, const char *text, bool all,
                      struct bl_buffer *out);

#endif
