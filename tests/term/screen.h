/* A terminal as users see it (libvterm): it takes bytes, and the content of its screen can be
 * read. */
#ifndef BELAY_TESTS_CLI_SCREEN_H
#define BELAY_TESTS_CLI_SCREEN_H

#include "suite.h"
#include "term/term.h"

struct screen;

struct screen *screen_new(size_t columns, size_t rows);
void screen_free(struct screen *screen); /* NULL is fine */
void screen_feed(struct screen *screen, struct bl_text bytes);
/* Cuts lines that do not fit (no reflow); lines come back from the scrollback. */
void screen_resize(struct screen *screen, size_t columns, size_t rows);
size_t screen_rows(const struct screen *screen);

/* Returns a line without trailing blanks; valid until the next call for this screen. */
const char *screen_row(struct screen *screen, size_t row);
/* Returns everything ever written: the scrollback, then the screen, LF after each line, without
 * empty lines at the end. Valid until the next call for this screen. */
const char *screen_all(struct screen *screen);
/* The same for the screen alone. */
const char *screen_shown(struct screen *screen);
void screen_cursor(const struct screen *screen, size_t *ret_row, size_t *ret_column);
bool screen_cursor_visible(const struct screen *screen);
/* Returns whether anything on it is bold, coloured, inverse or the like. */
bool screen_styled(const struct screen *screen);
/* Checks that the bytes are safe for any terminal (edit_screen.c promises no more): fails the test
 * for any other sequence, and for a style sequence unless `colours`. */
void screen_check_sequences(struct bl_text bytes, bool colours);

/* A terminal, a screen that draws on it, and the expected view. */
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

/* Another terminal, which rewraps long lines when it gets narrower: tmux. */
struct multiplexer {
    char folder[64];
    int terminal; /* shows everything written to it */
    bool running;
};

/* Returns false if this machine has no tmux. End it in either case. */
bool multiplexer_begin(struct multiplexer *multiplexer, size_t columns, size_t rows);
void multiplexer_end(struct multiplexer *multiplexer); /* twice is fine */
void multiplexer_feed(struct multiplexer *multiplexer, struct bl_text bytes);
void multiplexer_resize(struct multiplexer *multiplexer, size_t columns, size_t rows);
/* Waits until its screen contains `text`; then stores everything ever written (`all`), or the
 * screen alone, in the buffer, which ends in NUL. */
void multiplexer_read(struct multiplexer *multiplexer, const char *text, bool all,
                      struct bl_buffer *out);

#endif
