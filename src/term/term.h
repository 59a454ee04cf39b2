/* term: what is drawn on a terminal, and what is typed on it.
 *
 * The terminal (terminal.c) and its keys (keys.c), the line that is being written (edit_line.c) and
 * what was written before (history.c), the lower end of the screen (edit_screen.c), and how text is
 * laid out (width.c, wrap.c, markdown*.c). Knows nothing of agents.
 *
 * Promises: the terminal is given back as it was, however the process ends; text that others wrote
 * cannot contain an escape sequence when it is drawn. */
#ifndef BELAY_TERM_TERM_H
#define BELAY_TERM_TERM_H

#include <belay/base.h>

/* ---- width.c --------------------------------------------------------------------------------- */

/* Columns that a character takes on a terminal: 0 (combining, joiners), 1 or 2. Control characters
 * take none: they are not shown as they are. */
unsigned text_character_width(uint32_t character);
/* The next cluster that is drawn as one (a letter with its marks, an emoji sequence): takes it off
 * the front of `*text`. False: the end. What is not UTF-8 is taken bytewise, width 1. */
struct text_cluster {
    struct bl_text bytes;
    unsigned width;
};
bool text_cluster_next(struct bl_text *text, struct text_cluster *ret_cluster);
/* Columns of a text on one line, without escape sequences in it. */
size_t text_width(struct bl_text text);
/* The longest beginning of it that takes at most so many columns. */
struct bl_text text_cut_width(struct bl_text text, size_t columns);

/* ---- wrap.c ---------------------------------------------------------------------------------- */

/* What a piece of text looks like. Written as few escape sequences as it takes; none where
 * colours are off (bold, dim and the like go, too). */
struct text_style {
    bool bold, dim, italic, underline, strike, inverse;
    enum {
        TEXT_COLOUR_NONE,
        TEXT_RED,
        TEXT_GREEN,
        TEXT_YELLOW,
        TEXT_BLUE,
        TEXT_MAGENTA,
        TEXT_CYAN,
        TEXT_GREY,
    } colour;
};

/* Lays styled text out in lines of at most `columns`, broken at blanks where there are any, else
 * anywhere between clusters. Embedded by its owner; the same text with other columns is made by
 * beginning anew. */
struct text_wrap {
    struct bl_buffer *out; /* lines, each ends in LF; escape sequences in them are ours */
    size_t columns;        /* at least 4 */
    bool colours;
    struct bl_text first_indent; /* before the first line; may hold escape sequences of ours */
    struct bl_text indent;       /* before the others */
    size_t indent_width;         /* of both */
    /* own */
    size_t column; /* of the open line */
    bool line_open;
    bool line_filled; /* something stands in it besides the indent */
    bool first_done;
    struct text_style style; /* in force in `out` */
    struct bl_buffer word;   /* not placed yet, with its escape sequences */
    size_t word_width;
    struct text_style word_first; /* at its start */
    struct text_style word_style; /* at its end */
    bool blank;                   /* one is due before the word */
    struct text_style blank_style;
};

void text_wrap_init(struct text_wrap *wrap, struct bl_buffer *out, size_t columns, bool colours);
void text_wrap_done(struct text_wrap *wrap);
/* More of it. LF ends the line. Control characters, what turns the direction of writing, and bytes
 * that are no UTF-8 do not get through: each is shown as U+FFFD, so that nothing of others can be
 * an escape sequence. */
void text_wrap_add(struct text_wrap *wrap, struct bl_text text, const struct text_style *style);
/* As it stands: blanks are kept, long lines are broken anywhere. For code. */
void text_wrap_add_literal(struct text_wrap *wrap, struct bl_text text,
                           const struct text_style *style);
/* Ends the line, if one is begun. */
void text_wrap_end_line(struct text_wrap *wrap);
/* A whole text in one style. */
void text_wrap_all(struct bl_text text, const struct text_style *style, size_t columns,
                   bool colours, struct bl_buffer *out);

/* One line of at most `columns`, with an ellipsis where it is cut. Embedded by its owner. */
struct text_line {
    struct bl_buffer *out;
    size_t columns; /* at least 1 */
    bool colours;
    /* own */
    size_t column;
    bool cut;
    struct text_style style;
    size_t keep; /* bytes of `out` that an ellipsis may follow */
    struct text_style keep_style;
};

void text_line_init(struct text_line *line, struct bl_buffer *out, size_t columns, bool colours);
/* As with wrap, on one line: each white space is a blank. */
void text_line_add(struct text_line *line, struct bl_text text, const struct text_style *style);
void text_line_end(struct text_line *line); /* with LF */

/* Columns of a line that may hold escape sequences of ours. */
size_t text_line_width(struct bl_text line);
/* The last `lines_max` lines of a text. */
struct bl_text text_last_lines(struct bl_text text, size_t lines_max);

/* ---- markdown.c ------------------------------------------------------------------------------ */

/* Markdown that comes in pieces, shown as it comes: what is complete (whole blocks, lines of code
 * in a fence) is laid out once and never changes; the block that is being written is laid out anew
 * with each piece. What becomes final depends on the text alone, not on how it was cut into pieces.
 */
struct markdown;

struct markdown *markdown_new(size_t columns, bool colours);
void markdown_free(struct markdown *markdown); /* NULL is fine */
void markdown_add(struct markdown *markdown, struct bl_text text);
/* No more comes: the block that is open is complete. */
void markdown_end(struct markdown *markdown);
/* Lines that are complete since the last call, appended to `out`: they go up with the
 * conversation and are not touched again. */
void markdown_take_lines(struct markdown *markdown, struct bl_buffer *out);
/* The lines of the block that is being written, as it stands now; replaces. At most
 * `lines_max` of its last ones. */
void markdown_pending(struct markdown *markdown, size_t lines_max, struct bl_buffer *out);
/* The window has changed: what is pending is laid out for the new width. */
void markdown_resize(struct markdown *markdown, size_t columns);

/* ---- markdown_block.c ------------------------------------------------------------------------ */

/* A whole text at once: lines of at most `columns` (at least 4), appended. What would take too much
 * work (tables of more than 64 columns, say) is shown as it is written. */
void markdown_render(struct bl_text text, size_t columns, bool colours, struct bl_buffer *out);
/* One line of a code block, without its LF. */
void markdown_render_code(struct bl_text line, size_t columns, bool colours, struct bl_buffer *out);

/* ---- markdown_table.c ------------------------------------------------------------------------ */

enum markdown_align {
    MARKDOWN_LEFT,
    MARKDOWN_CENTRE,
    MARKDOWN_RIGHT,
};

/* A piece of a cell: bytes of the table's text. */
struct markdown_run {
    size_t offset;
    size_t size;
    struct text_style style;
};

struct markdown_cell {
    size_t run; /* the first of its own */
    size_t run_count;
    enum markdown_align align;
};

/* Cells as they come, row by row, the first row being the head. Embedded by its owner. */
struct markdown_table {
    size_t column_count;
    struct bl_buffer text;
    struct markdown_run *runs;
    size_t run_count, run_capacity;
    struct markdown_cell *cells;
    size_t cell_count, cell_capacity;
};

#define MARKDOWN_TABLE_COLUMNS_MAX 64u
#define MARKDOWN_TABLE_CELLS_MAX   20000u

void markdown_table_init(struct markdown_table *table, size_t column_count);
void markdown_table_done(struct markdown_table *table);
/* False: it has too many. */
bool markdown_table_add_cell(struct markdown_table *table, enum markdown_align align);
/* More of the newest cell. */
void markdown_table_add_text(struct markdown_table *table, struct bl_text text,
                             const struct text_style *style);
/* Laid out behind the indents of `frame`, in columns that shrink to fit; where they cannot, a line
 * of "head: value" for each cell. */
void markdown_table_render(const struct markdown_table *table, const struct text_wrap *frame);

/* ---- keys.c ---------------------------------------------------------------------------------- */

enum key_type {
    KEY_TEXT,  /* `text`: one or more characters that were typed */
    KEY_PASTE, /* `text`: what was pasted, all of it (bracketed paste); LF between lines */
    KEY_ENTER,
    KEY_NEWLINE, /* Alt+Enter, Ctrl+J, or the like: a new line in the text */
    KEY_TAB,
    KEY_BACKTAB,
    KEY_BACKSPACE,
    KEY_DELETE,
    KEY_LEFT,
    KEY_RIGHT,
    KEY_UP,
    KEY_DOWN,
    KEY_WORD_LEFT,
    KEY_WORD_RIGHT,
    KEY_HOME,
    KEY_END,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_KILL_WORD,      /* Ctrl+W, Alt+Backspace: the word before */
    KEY_KILL_WORD_NEXT, /* Alt+D */
    KEY_KILL_START,     /* Ctrl+U: to the start of the line */
    KEY_KILL_END,       /* Ctrl+K */
    KEY_YANK,           /* Ctrl+Y: what was killed last */
    KEY_TRANSPOSE,      /* Ctrl+T */
    KEY_SEARCH,         /* Ctrl+R: back through the history */
    KEY_CLEAR,          /* Ctrl+L: draw the screen anew */
    KEY_INTERRUPT,      /* Ctrl+C */
    KEY_ESCAPE,
    KEY_EOF,     /* Ctrl+D */
    KEY_SUSPEND, /* Ctrl+Z */
    KEY_UNKNOWN, /* a sequence that we do not know: nothing of it is text */
};

struct key {
    enum key_type type;
    struct bl_text text; /* until the next call */
    bool cut;            /* of a paste: it was longer than KEYS_PASTE_MAX */
};

/* Bytes of a terminal become keys. A lone ESC is a key when nothing follows it within
 * KEYS_ESCAPE_NS: the reader of the terminal says so. Embedded by its owner. */
#define KEYS_ESCAPE_NS (50 * BL_NS_PER_MS)
#define KEYS_PASTE_MAX ((size_t)16 * 1024 * 1024)

struct keys {
    struct bl_buffer input; /* not taken yet */
    size_t taken;
    enum {
        KEYS_PLAIN,
        KEYS_PASTING,
        KEYS_IN_SEQUENCE, /* of one that we do not know, and that is too long to look at */
        KEYS_IN_STRING,   /* a reply of the terminal that nobody asked for */
    } state;
    struct bl_buffer paste;
    bool paste_given; /* `paste` is the text of the last key */
    bool paste_cut;
    bool paste_after_cr; /* a LF now belongs to the CR before it */
    char typed[4];       /* a character that came as a sequence */
};

void keys_init(struct keys *keys);
void keys_done(struct keys *keys);
void keys_add(struct keys *keys, struct bl_text bytes);
/* The next key that is complete. False: more bytes are needed. `patient` false: no more came in
 * time, so that a lone ESC, or what looks like the beginning of a sequence, is what it is. */
bool keys_next(struct keys *keys, bool patient, struct key *ret_key);
/* Something has begun that is not complete: a wait for more bytes should end at KEYS_ESCAPE_NS. */
bool keys_pending(const struct keys *keys);

/* ---- history.c ------------------------------------------------------------------------------- */

/* What was written before, of all sessions: $XDG_DATA_HOME/belay/history, a line each (JSON
 * strings, so that a text of many lines is one), 0600, at most 10,000 entries kept. Several
 * programs may append at once. */
struct history;

struct history *history_new(void);
void history_free(struct history *history); /* NULL is fine */
/* Blocks as files do. A file that is not there is an empty one; lines that are wrong are skipped.
 */
int history_load(struct history *history, const char *path, struct bl_error *error);
/* At the end; a text that is the same as the newest is not added. Also to the file, if one was
 * loaded: what cannot be written is no reason to fail. */
void history_add(struct history *history, struct bl_text text);
size_t history_count(const struct history *history);
struct bl_text history_get(const struct history *history, size_t index); /* 0 is the oldest */
/* The newest before `index` that holds `needle`; SIZE_MAX: none. */
size_t history_search(const struct history *history, struct bl_text needle, size_t index);

/* ---- edit_line.c ----------------------------------------------------------------------------- */

/* The text that is being written: several lines, with a cursor between clusters. Knows no
 * terminal. */
struct edit_line {
    struct bl_buffer text;
    size_t cursor; /* byte */
    struct bl_buffer killed;
    struct history *history; /* NULL: none */
    size_t history_at;       /* the entry that is shown; SIZE_MAX: what is being written */
    struct bl_buffer draft;  /* what was being written when going through the history began */
    bool searching;
    struct bl_buffer needle;
    size_t found;       /* SIZE_MAX: nothing */
    size_t goal_column; /* where moving up and down wants to be; SIZE_MAX: where it is */
    bool killing;       /* the last key killed: the next one adds to that */
};

/* Longer texts are cut where they are put in. */
#define EDIT_TEXT_MAX (2 * KEYS_PASTE_MAX)

void edit_line_init(struct edit_line *line, struct history *history);
void edit_line_done(struct edit_line *line);
struct bl_text edit_line_text(const struct edit_line *line);
void edit_line_set(struct edit_line *line, struct bl_text text); /* cursor at its end */
void edit_line_insert(struct edit_line *line, struct bl_text text);
/* What a key does to the text. False: it is none that edits (Enter, Ctrl+C, Tab, …), and nothing
 * has changed. KEY_UP and KEY_DOWN move between lines, and at the first and last through the
 * history. KEY_EOF deletes where there is text. While searching, keys are about the search: Enter
 * and Tab take what was found into the line, Escape and Ctrl+C give back what was there before, and
 * any other key takes it and does what it does. */
bool edit_line_key(struct edit_line *line, const struct key *key);
/* The word before the cursor that completion is about: from its start to the cursor. */
struct bl_text edit_line_word(const struct edit_line *line);

/* The clusters beside a place in a text. `at` is between clusters. */
size_t edit_text_previous(struct bl_text text, size_t at);
size_t edit_text_next(struct bl_text text, size_t at);

/* ---- edit_complete.c ------------------------------------------------------------------------- */

/* What can be written in the place of a text; a table of them ends in a row without a name. */
struct edit_command {
    const char *name; /* "/help" */
    const char *summary;
};

/* Candidates for a word, in the arena: struct edit_candidate, in order. */
#define EDIT_CANDIDATES_MAX 1000
struct edit_candidate {
    struct bl_list link;
    struct bl_text text; /* takes the place of the word */
    struct bl_text note; /* shown beside it; may be empty */
};
/* Commands (a word that begins with '/' at the start of the text), else paths below `directory`.
 * Blocks as files do. */
void edit_complete(struct bl_arena *arena, const struct edit_line *line,
                   const struct edit_command *commands, const char *directory,
                   struct bl_list *ret_candidates);
/* The longest text that all candidates begin with goes into the place of the word; a single one
 * wholly, with a blank after it unless it is a folder. True: something changed. */
bool edit_line_complete(struct edit_line *line, const struct bl_list *candidates);

/* ---- terminal.c ------------------------------------------------------------------------------ */

/* The terminal that we talk to. While it is open it is raw, with bracketed paste; it is given back
 * as it was however the process ends: at close, at exit, by a signal that ends it, and by a crash.
 * One at a time. */
struct terminal;

/* `input` and `output` are descriptors of a terminal. In a fiber; after bl_loop_catch_overflow,
 * which would else take the place of what gives the terminal back after a crash. */
int terminal_open(int input, int output, struct terminal **ret_terminal, struct bl_error *error);
void terminal_close(struct terminal *terminal); /* NULL is fine */
void terminal_size(const struct terminal *terminal, size_t *ret_columns, size_t *ret_rows);
/* Some bytes, the change of the window's size, or the end: 0 and one of the flags is set. Waits in
 * the running fiber; `limit_ns` 0: as long as it takes, else BL_EAGAIN when nothing came by then.
 */
struct terminal_input {
    struct bl_text bytes; /* until the next call; empty: none came */
    bool resized;         /* or it was away for a while: draw anew */
    bool gone;            /* nobody is there any more */
};
int terminal_read(struct terminal *terminal, uint64_t limit_ns, struct terminal_input *ret_input);
/* Writes all of it; waits while the terminal does not take it. BL_ECLOSED: nobody is there. */
int terminal_write(struct terminal *terminal, struct bl_text bytes);
/* Gives it back, stops this process (Ctrl+Z), and takes it again when it goes on. */
void terminal_suspend(struct terminal *terminal);
/* Whether the terminal is known to break long lines anew when it gets narrower, by what the
 * environment says of it. */
bool terminal_reflows(void);

/* ---- edit_screen.c --------------------------------------------------------------------------- */

/* The lower end of the screen, drawn anew as it changes: lines of what is being said, the status
 * line, the line that is written with its prompt, and a menu. What is above it is the terminal's
 * own, scrolls away and is never touched again. Writes to a buffer; the caller writes that to the
 * terminal. Never moves above its own first line; never more than rows - 1 lines high. What does
 * not fit is left out: the first lines of what is being said, the last ones of the menu, and of a
 * long text that is being written what is far from the cursor. Uses only what every terminal knows:
 * CR, LF, CSI A/B/G/J/K/m, ?7 and ?25, and ?2026, which is ignored where unknown. */
#define EDIT_SCREEN_HEIGHT_MAX 256

struct edit_screen {
    size_t columns;
    size_t rows;
    bool colours;
    bool reflows;  /* the terminal breaks long lines anew when it gets narrower; set by the owner */
    size_t height; /* lines on the screen that are ours */
    size_t cursor_row; /* of these, where the cursor is */
    size_t cursor_column;
    bool cursor_hidden;
    uint64_t hash_key[2];
    uint64_t hashes[EDIT_SCREEN_HEIGHT_MAX]; /* of what is on these lines: one that stays the same
                                                is not written again */
    uint16_t widths[EDIT_SCREEN_HEIGHT_MAX];
};

struct edit_view {
    struct bl_text live;   /* laid out for these columns, LF after each: what is being said */
    struct bl_text status; /* one line; may hold escape sequences of ours; cut to the columns */
    struct bl_text prompt; /* "> " */
    const struct edit_line *line; /* NULL: there is no line to write in */
    struct bl_text hint;          /* shown dim in an empty line */
    struct bl_text menu;          /* laid out, below the line; may be empty. While the history is
                                     searched, the search stands in its place */
};

void edit_screen_init(struct edit_screen *screen, size_t columns, size_t rows, bool colours);
/* Appends what makes the screen show `view`. `above` (laid out, LF after each line; may be empty)
 * goes up into the conversation first. */
void edit_screen_draw(struct edit_screen *screen, const struct edit_view *view,
                      struct bl_text above, struct bl_buffer *out);
/* Takes our lines away; the cursor stands where the first was. */
void edit_screen_clear(struct edit_screen *screen, struct bl_buffer *out);
/* After a change of the window's size, before the next draw: terminals reflow what is on them in
 * different ways. */
void edit_screen_resize(struct edit_screen *screen, size_t columns, size_t rows,
                        struct bl_buffer *out);

#endif
