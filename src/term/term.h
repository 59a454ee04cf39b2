/* term: terminal output and keyboard input.
 *
 * The terminal (terminal.c) and its keys (keys.c), the input line (edit_line.c) and its history
 * (history.c), the lower end of the screen (edit_screen.c), and text layout (width.c, style.c,
 * wrap.c, highlight.c, markdown*.c). This room knows nothing of agents.
 *
 * Promises: the terminal is restored however the process ends; untrusted text cannot contain an
 * escape sequence when it is drawn. */
#ifndef BELAY_TERM_TERM_H
#define BELAY_TERM_TERM_H

#include <belay/base.h>

/* ---- width.c --------------------------------------------------------------------------------- */

/* Returns the number of columns that a character takes on a terminal: 0 (combining, joiners), 1 or
 * 2. It is 0 for control characters, which are never shown as they are. */
unsigned text_character_width(uint32_t character);
/* Takes the next cluster, drawn as one unit (a letter with its marks, an emoji sequence), off the
 * front of `*text`. Returns false at the end. Each byte that is not UTF-8 is a cluster of width
 * 1. */
struct text_cluster {
    struct bl_text bytes;
    unsigned width;
};
bool text_cluster_next(struct bl_text *text, struct text_cluster *ret_cluster);
/* Returns the columns of a text on one line, without escape sequences in it. */
size_t text_width(struct bl_text text);
/* Returns the longest prefix that takes at most `columns` columns. */
struct bl_text text_cut_width(struct bl_text text, size_t columns);

/* ---- style.c --------------------------------------------------------------------------------- */

/* The appearance of a piece of text. Written with as few escape sequences as possible; with none if
 * colours are off (that disables bold, dim and the like, too). */
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
    enum {
        TEXT_TINT_NONE,
        TEXT_ADDED, /* a background; on a terminal with 16 colours, green text */
        TEXT_REMOVED,
    } tint;
};

/* Writes the escape sequence that changes the appearance from `*from` to `to`, and updates
 * `*from`. */
void text_style_change(struct bl_buffer *out, struct text_style *from, const struct text_style *to,
                       bool colours);
/* Selects the palette for the colours above, for the whole process, because it has one terminal.
 * Before the first call they are the terminal's first eight colours, which suit a dark background.
 * The number of colours is read from TERM and COLORTERM. */
void text_colours_for(bool light);
/* Finds out whether the background is light, from COLORFGBG, or from a terminal's reply to the
 * query for it ("11;rgb:ffff/ffff/ffff"). Return false if it cannot be determined. */
bool text_background_known(const char *variable, bool *ret_light);
bool text_background_told(struct bl_text reply, bool *ret_light);

/* ---- wrap.c ---------------------------------------------------------------------------------- */

/* Lays out styled text in lines of at most `columns`, broken at blanks if there are any, else
 * anywhere between clusters. Embedded by its owner. To lay out the same text for another width,
 * start over. */
struct text_wrap {
    struct bl_buffer *out; /* lines, each ending in LF; all escape sequences in them are ours */
    size_t columns;        /* at least 4 */
    bool colours;
    struct bl_text first_indent; /* of the first line; may hold our escape sequences */
    struct bl_text indent;       /* of the other lines */
    size_t indent_width;         /* of both */
    /* own */
    size_t column; /* of the current line */
    bool line_open;
    bool line_filled; /* it has text besides the indent */
    bool first_done;
    struct text_style style; /* in force in `out` */
    struct bl_buffer word;   /* the current word with its escape sequences, not placed yet */
    size_t word_width;
    struct text_style word_first; /* at its start */
    struct text_style word_style; /* at its end */
    bool blank;                   /* a blank must precede the word */
    struct text_style blank_style;
};

void text_wrap_init(struct text_wrap *wrap, struct bl_buffer *out, size_t columns, bool colours);
void text_wrap_done(struct text_wrap *wrap);
/* Adds text. LF ends the line. Control characters, characters that change the writing direction,
 * and bytes that are not UTF-8 are shown as U+FFFD, so that no untrusted text can be an escape
 * sequence. */
void text_wrap_add(struct text_wrap *wrap, struct bl_text text, const struct text_style *style);
/* Adds text verbatim: blanks are kept, long lines are broken anywhere. For code. */
void text_wrap_add_literal(struct text_wrap *wrap, struct bl_text text,
                           const struct text_style *style);
/* Ends the current line, if there is one. */
void text_wrap_end_line(struct text_wrap *wrap);
/* Lays out a whole text in one style. */
void text_wrap_all(struct bl_text text, const struct text_style *style, size_t columns,
                   bool colours, struct bl_buffer *out);

/* One line of at most `columns`, with an ellipsis if it is cut. Embedded by its owner. */
struct text_line {
    struct bl_buffer *out;
    size_t columns; /* at least 1 */
    bool colours;
    /* own */
    size_t column;
    bool cut;
    struct text_style style;
    size_t keep; /* size of `out` after which an ellipsis fits */
    struct text_style keep_style;
};

void text_line_init(struct text_line *line, struct bl_buffer *out, size_t columns, bool colours);
/* Like text_wrap_add, but on one line: each white space character becomes a blank. */
void text_line_add(struct text_line *line, struct bl_text text, const struct text_style *style);
void text_line_end(struct text_line *line); /* appends LF */

/* Returns the columns of a line that may hold our escape sequences. */
size_t text_line_width(struct bl_text line);
/* Returns the last `lines_max` lines of a text. */
struct bl_text text_last_lines(struct bl_text text, size_t lines_max);

/* ---- highlight.c ----------------------------------------------------------------------------- */

struct highlight_language;

/* Highlights code line by line: words, strings, comments and numbers of a dozen languages. Embedded
 * by its owner; a copy continues from the same state. */
struct highlight {
    const struct highlight_language *language; /* NULL for plain text */
    unsigned open; /* the construct that continues in the next line; 0 for none */
};

/* `name` is the name of a language or of a file; empty means plain text. An unknown name gets the
 * rules that most languages share. */
void highlight_begin(struct highlight *highlight, struct bl_text name);
/* Calls `put` for each piece of the line (without LF), from left to right and without gaps. Takes
 * time linear in the length of the line; everything beyond 4096 bytes is plain. */
typedef void highlight_put(void *context, struct bl_text piece, const struct text_style *style);
void highlight_line(struct highlight *highlight, struct bl_text line, highlight_put *put,
                    void *context);

/* ---- markdown.c ------------------------------------------------------------------------------ */

/* Streams Markdown: complete parts (whole blocks, lines of code in a fence) are laid out once and
 * never change; the block in progress is laid out again with each piece. What becomes final depends
 * on the text alone, not on how it is split into pieces. */
struct markdown;

struct markdown *markdown_new(size_t columns, bool colours);
void markdown_free(struct markdown *markdown); /* NULL is fine */
void markdown_add(struct markdown *markdown, struct bl_text text);
/* Ends the text: the open block is complete. */
void markdown_end(struct markdown *markdown);
/* Appends the lines completed since the last call to `out`: they scroll up with the conversation
 * and are not changed again. */
void markdown_take_lines(struct markdown *markdown, struct bl_buffer *out);
/* Replaces `out` with the current lines of the block in progress, at most the last `lines_max`. */
void markdown_pending(struct markdown *markdown, size_t lines_max, struct bl_buffer *out);
/* Lays out pending text for the new width of the window. */
void markdown_resize(struct markdown *markdown, size_t columns);

/* ---- markdown_block.c ------------------------------------------------------------------------ */

/* Appends a whole text, in lines of at most `columns` (at least 4). Text that would take too much
 * work (such as tables of more than 64 columns) is shown as it is written. */
void markdown_render(struct bl_text text, size_t columns, bool colours, struct bl_buffer *out);
/* Appends one line of a code block, which is given without its LF. */
void markdown_render_code(struct bl_text line, struct highlight *code, size_t columns, bool colours,
                          struct bl_buffer *out);

/* ---- markdown_table.c ------------------------------------------------------------------------ */

enum markdown_align {
    MARKDOWN_LEFT,
    MARKDOWN_CENTRE,
    MARKDOWN_RIGHT,
};

/* A piece of a cell, as a range of the table's text. */
struct markdown_run {
    size_t offset;
    size_t size;
    struct text_style style;
};

struct markdown_cell {
    size_t run; /* index of its first run */
    size_t run_count;
    enum markdown_align align;
};

/* The cells row by row; the first row is the head. Embedded by its owner. */
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
/* Returns false if there are too many. */
bool markdown_table_add_cell(struct markdown_table *table, enum markdown_align align);
/* Adds text to the newest cell. */
void markdown_table_add_text(struct markdown_table *table, struct bl_text text,
                             const struct text_style *style);
/* Lays out the table after the indents of `frame`, in columns that shrink to fit; if they cannot,
 * each cell becomes a line "head: value". */
void markdown_table_render(const struct markdown_table *table, const struct text_wrap *frame);

/* ---- keys.c ---------------------------------------------------------------------------------- */

enum key_type {
    KEY_TEXT,  /* `text`: one or more typed characters */
    KEY_PASTE, /* `text`: the whole pasted text (bracketed paste), with LF between lines */
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
    KEY_KILL_WORD,      /* Ctrl+W, Alt+Backspace: the previous word */
    KEY_KILL_WORD_NEXT, /* Alt+D */
    KEY_KILL_START,     /* Ctrl+U: to the start of the line */
    KEY_KILL_END,       /* Ctrl+K */
    KEY_YANK,           /* Ctrl+Y: the text killed last */
    KEY_TRANSPOSE,      /* Ctrl+T */
    KEY_UNDO,           /* Ctrl+_ */
    KEY_REDO,           /* Alt+R */
    KEY_EDITOR,         /* Ctrl+G */
    KEY_IMAGE,          /* Ctrl+V: paste an image */
    KEY_SEARCH,         /* Ctrl+R: search back through the history */
    KEY_CLEAR,          /* Ctrl+L: redraw the screen */
    KEY_EXPAND,         /* Ctrl+O: show folded text */
    KEY_INTERRUPT,      /* Ctrl+C */
    KEY_ESCAPE,
    KEY_EOF,     /* Ctrl+D */
    KEY_SUSPEND, /* Ctrl+Z */
    /* not a key: `text` is the terminal's report of its background (text_background_told); empty
     * once it has answered all earlier queries */
    KEY_REPLY,
    KEY_UNKNOWN, /* an unknown sequence; none of it is text */
};

struct key {
    enum key_type type;
    struct bl_text text; /* valid until the next call */
    bool cut;            /* of a paste: it was longer than KEYS_PASTE_MAX */
};

/* Decodes bytes from a terminal into keys. A lone ESC is a key if nothing follows it within
 * KEYS_ESCAPE_NS; the reader of the terminal reports that. Embedded by its owner. */
#define KEYS_ESCAPE_NS (50 * BL_NS_PER_MS)
#define KEYS_PASTE_MAX ((size_t)16 * 1024 * 1024)

struct keys {
    struct bl_buffer input; /* not decoded yet */
    size_t taken;
    enum {
        KEYS_PLAIN,
        KEYS_PASTING,
        KEYS_IN_SEQUENCE, /* of an unknown sequence that is too long to decode */
        KEYS_IN_STRING,   /* an unrequested reply of the terminal */
    } state;
    struct bl_buffer paste;
    bool paste_given; /* `paste` is the text of the last key */
    bool paste_cut;
    bool paste_after_cr; /* the next LF belongs to the CR before it */
    /* set by the owner while a reply is due: no byte of a reply that arrives in pieces becomes
     * text, however late the next piece is */
    bool expecting;
    char opener;    /* of the string that is being skipped */
    char reply[40]; /* its first bytes */
    size_t reply_size;
    char typed[4]; /* a character received as a sequence */
};

void keys_init(struct keys *keys);
void keys_done(struct keys *keys);
void keys_add(struct keys *keys, struct bl_text bytes);
/* Takes the next complete key. Returns false if more bytes are needed. `may_wait` is false if no
 * more bytes arrived in time: then a lone ESC, or the apparent start of a sequence, is taken as it
 * is. */
bool keys_next(struct keys *keys, bool may_wait, struct key *ret_key);
/* Returns whether an incomplete key has begun: a wait for more bytes should end after
 * KEYS_ESCAPE_NS. */
bool keys_pending(const struct keys *keys);

/* ---- history.c ------------------------------------------------------------------------------- */

/* Earlier input of all sessions: $XDG_DATA_HOME/belay/history, one entry per line (JSON strings, so
 * that a text of many lines is one), mode 0600, at most 10,000 entries. Several programs may append
 * at the same time. */
struct history;

struct history *history_new(void);
void history_free(struct history *history); /* NULL is fine */
/* Blocks on file I/O. A missing file is an empty history; invalid lines are skipped. */
int history_load(struct history *history, const char *path, struct bl_error *error);
/* Appends an entry unless it equals the newest, also to the file, if one was loaded. A write error
 * is ignored. */
void history_add(struct history *history, struct bl_text text);
size_t history_count(const struct history *history);
struct bl_text history_get(const struct history *history, size_t index); /* index 0 is the oldest */
/* Returns the newest entry before `index` that contains `needle`, or SIZE_MAX. */
size_t history_search(const struct history *history, struct bl_text needle, size_t index);

/* ---- edit_undo.c ----------------------------------------------------------------------------- */

/* The text before each change, up to a megabyte in total; long texts are not kept. Embedded by its
 * owner. */
struct edit_state {
    struct bl_text text;
    size_t cursor;
};

struct edit_undo {
    struct bl_buffer states; /* struct edit_state, oldest first; their texts are on the heap */
    size_t at;               /* the current text belongs before this entry, or after all */
    size_t bytes;
    bool typing;  /* the last change was typed: the next one may be joined to it */
    bool pending; /* between edit_undo_begin and edit_undo_end */
    struct edit_state before;
};

void edit_undo_init(struct edit_undo *undo);
void edit_undo_done(struct edit_undo *undo);
void edit_undo_clear(struct edit_undo *undo);
/* Enclose anything that may change the text. Consecutive `typed` changes are one. */
void edit_undo_begin(struct edit_undo *undo, struct bl_text text, size_t cursor);
void edit_undo_end(struct edit_undo *undo, struct bl_text text, bool typed);
/* Return the state to restore, valid until the next call; false if there is none. */
bool edit_undo_back(struct edit_undo *undo, struct bl_text text, size_t cursor,
                    struct edit_state *ret_state);
bool edit_undo_forward(struct edit_undo *undo, struct edit_state *ret_state);

/* ---- edit_vim.c ------------------------------------------------------------------------------ */

/* vim keys, if enabled. Embedded in a line. */
struct edit_vim {
    bool on;
    bool normal;    /* else insert mode */
    char operator_; /* d, c or y, waiting for its motion; 0 for none */
    /* f, F, t, T, r, g, or i and a of an operator, waiting for a character; 0 for none */
    char pending;
    unsigned count; /* 0 if not given */
    unsigned operator_count;
    char found_kind; /* of the last f, F, t, T; 0 if there was none */
    char found;
    bool kept_lines; /* the text deleted or yanked last consists of whole lines */
};

enum edit_vim_result {
    EDIT_VIM_NONE, /* not handled: the key does what it normally does */
    EDIT_VIM_DONE,
    EDIT_VIM_UNDO,
    EDIT_VIM_REDO,
};

struct edit_line;

enum edit_vim_result edit_vim_key(struct edit_line *line, const struct key *key);
/* Returns whether Escape belongs to the vim keys: it leads to normal mode, or cancels a command in
 * progress. */
bool edit_vim_waits(const struct edit_line *line);

/* ---- edit_line.c ----------------------------------------------------------------------------- */

/* The input text: several lines, with a cursor between clusters. Independent of any terminal. */
struct edit_line {
    struct bl_buffer text;
    size_t cursor; /* offset in bytes */
    struct bl_buffer killed;
    struct history *history; /* NULL if there is none */
    size_t history_at;       /* the entry shown; SIZE_MAX for the draft */
    struct bl_buffer draft;  /* the text from before the history was entered */
    bool searching;
    struct bl_buffer needle;
    size_t found;       /* entry found; SIZE_MAX for none */
    size_t goal_column; /* column to keep when moving up and down; SIZE_MAX for the current one */
    bool killing;       /* the last key killed text: the next kill adds to it */
    struct edit_undo undo;
    struct edit_vim vim;
};

/* Longer texts are cut when inserted. */
#define EDIT_TEXT_MAX (2 * KEYS_PASTE_MAX)

void edit_line_init(struct edit_line *line, struct history *history);
void edit_line_done(struct edit_line *line);
struct bl_text edit_line_text(const struct edit_line *line);
void edit_line_set(struct edit_line *line, struct bl_text text); /* places the cursor at the end */
/* The same, as a change that can be undone. */
void edit_line_replace(struct edit_line *line, struct bl_text text);
void edit_line_insert(struct edit_line *line, struct bl_text text);
/* Removes a range that begins and ends between clusters, and moves the cursor there. */
void edit_line_remove(struct edit_line *line, size_t from, size_t to);
/* Applies a key to the text. Returns false, without any change, if it is not an editing key (Enter,
 * Ctrl+C, Tab, …). KEY_UP and KEY_DOWN move between lines, and beyond the first and last through
 * the history. KEY_EOF deletes if there is text. During a search, keys control the search: Enter
 * and Tab accept the entry found, Escape and Ctrl+C restore the previous text, and any other key
 * accepts the entry and then has its normal effect. */
bool edit_line_key(struct edit_line *line, const struct key *key);
/* Returns the word to complete: from its start to the cursor. */
struct bl_text edit_line_word(const struct edit_line *line);

/* Return the cluster boundary before or after `at`, which is between clusters. */
size_t edit_text_previous(struct bl_text text, size_t at);
size_t edit_text_next(struct bl_text text, size_t at);

/* ---- edit_complete.c ------------------------------------------------------------------------- */

/* A command that can be completed; a table of commands ends in a row without a name. */
struct edit_command {
    const char *name; /* "/help" */
    const char *summary;
};

/* Candidates for a word, in the arena: struct edit_candidate, in order. */
#define EDIT_CANDIDATES_MAX 1000
struct edit_candidate {
    struct bl_list link;
    struct bl_text text; /* replaces the word */
    struct bl_text note; /* shown beside it; may be empty */
};
/* Fills commands (for a word that begins with '/' at the start of the text), else paths below
 * `directory`. Blocks on file I/O. */
void edit_complete(struct bl_arena *arena, const struct edit_line *line,
                   const struct edit_command *commands, const char *directory,
                   struct bl_list *ret_candidates);
/* Fills only commands; none unless the word begins with '/' at the start of the text. */
void edit_complete_commands(struct bl_arena *arena, const struct edit_line *line,
                            const struct edit_command *commands, struct bl_list *ret_candidates);
/* Replaces the word with the longest common prefix of all candidates. A single candidate is
 * inserted whole, followed by a blank unless it is a folder. Returns true if something changed. */
bool edit_line_complete(struct edit_line *line, const struct bl_list *candidates);

/* ---- terminal.c ------------------------------------------------------------------------------ */

/* The terminal in use. While it is open it is raw, with bracketed paste; it is restored however the
 * process ends: by close, exit, a signal that ends it, or a crash. Only one at a time. */
struct terminal;

/* `input` and `output` are descriptors of a terminal. Runs in a fiber, after
 * bl_loop_catch_overflow, whose handlers would otherwise replace those that restore the terminal
 * after a crash. */
int terminal_open(int input, int output, struct terminal **ret_terminal, struct bl_error *error);
void terminal_close(struct terminal *terminal); /* NULL is fine */
void terminal_size(const struct terminal *terminal, size_t *ret_columns, size_t *ret_rows);
/* Reads some bytes, a change of the window's size, or the end of input: returns 0 with one of them
 * set. Waits in the running fiber, without a limit if `limit_ns` is 0; otherwise returns BL_EAGAIN
 * if nothing came in time. */
struct terminal_input {
    struct bl_text bytes; /* valid until the next call; may be empty */
    bool resized;         /* or the process was suspended for a while: redraw */
    bool gone;            /* the terminal was closed */
};
int terminal_read(struct terminal *terminal, uint64_t limit_ns, struct terminal_input *ret_input);
/* Writes all of it, and waits while the terminal does not accept it. Returns BL_ECLOSED if the
 * terminal was closed. */
int terminal_write(struct terminal *terminal, struct bl_text bytes);
/* Sets the window title, at most 256 bytes without control characters. The previous title is
 * restored at the end if the terminal supports it. Does nothing if the terminal takes no
 * strings. */
void terminal_title(struct terminal *terminal, struct bl_text title);
/* Switches to the alternate screen, or back: the main screen is then as before. */
void terminal_alternate(struct terminal *terminal, bool on);
/* Asks a terminal for its background; the second query is one that all terminals answer. */
#define TERMINAL_ASK_BACKGROUND "\x1B]11;?\x1B\\\x1B[c"
/* Returns whether TERM names a terminal that understands operating system commands (OSC); others
 * may display them. */
bool terminal_takes_strings(void);
/* Restores the terminal, stops this process (Ctrl+Z), and takes the terminal again when it
 * continues. */
void terminal_suspend(struct terminal *terminal);
/* Returns whether TERM names a terminal that can move its cursor; others only print lines. */
bool terminal_moves(void);
/* Returns whether the terminal is known to rewrap long lines when it gets narrower, judging by the
 * environment. */
bool terminal_reflows(void);

/* ---- edit_screen.c --------------------------------------------------------------------------- */

/* The lower end of the screen, redrawn as it changes: lines of output in progress, the status line,
 * the input line with its prompt, and a menu. Everything above belongs to the terminal, scrolls
 * away and is never changed again. Writes to a buffer, which the caller writes to the terminal.
 * Never moves above its own first line; never more than rows - 1 lines high. Lines that do not fit
 * are omitted: the first lines of the output in progress, the last lines of the menu, and of a long
 * input text the lines far from the cursor. Uses only what every terminal supports: CR, LF, CSI
 * A/B/G/J/K/m, ?7 and ?25, and ?2026, which is ignored where unknown. */
#define EDIT_SCREEN_HEIGHT_MAX 256

struct edit_screen {
    size_t columns;
    size_t rows;
    bool colours;
    bool reflows;      /* the terminal rewraps long lines when it gets narrower; set by the owner */
    size_t height;     /* number of lines on the screen that are ours */
    size_t cursor_row; /* row of the cursor among these lines */
    size_t cursor_column;
    bool cursor_hidden;
    uint64_t hash_key[2];
    /* hashes of these lines: an unchanged line is not written again */
    uint64_t hashes[EDIT_SCREEN_HEIGHT_MAX];
    uint16_t widths[EDIT_SCREEN_HEIGHT_MAX];
};

struct edit_view {
    struct bl_text live;   /* output in progress, laid out for these columns, LF after each line */
    struct bl_text status; /* one line; may hold our escape sequences; cut to the width */
    struct bl_text prompt; /* "> " */
    const struct edit_line *line; /* NULL if there is no input line */
    struct bl_text hint;          /* shown dim in an empty line */
    bool spaced;                  /* an empty line before and after the status, if there is room */
    /* laid out, below the line; may be empty. During a search of the history, the search is shown
     * instead */
    struct bl_text menu;
};

void edit_screen_init(struct edit_screen *screen, size_t columns, size_t rows, bool colours);
/* Appends the output that makes the screen show `view`. First `above` (laid out, LF after each
 * line; may be empty) is added to the conversation. */
void edit_screen_draw(struct edit_screen *screen, const struct edit_view *view,
                      struct bl_text above, struct bl_buffer *out);
/* Removes our lines; the cursor is then where the first one was. */
void edit_screen_clear(struct edit_screen *screen, struct bl_buffer *out);
/* Called after a change of the window's size, before the next draw: terminals reflow their content
 * in different ways. */
void edit_screen_resize(struct edit_screen *screen, size_t columns, size_t rows,
                        struct bl_buffer *out);

#endif
