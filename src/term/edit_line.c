#include "term.h"

/* How far back to search for the start of a cluster in a text without ASCII. */
#define CLUSTER_SEARCH_MAX 4096

void edit_line_init(struct edit_line *line, struct history *history)
{
    *line = (struct edit_line){
        .history = history,
        .history_at = SIZE_MAX,
        .found = SIZE_MAX,
        .goal_column = SIZE_MAX,
    };
    bl_buffer_init(&line->text, EDIT_TEXT_MAX);
    bl_buffer_init(&line->killed, EDIT_TEXT_MAX);
    bl_buffer_init(&line->draft, EDIT_TEXT_MAX);
    bl_buffer_init(&line->needle, 4096);
    edit_undo_init(&line->undo);
}

void edit_line_done(struct edit_line *line)
{
    bl_buffer_done(&line->text);
    bl_buffer_done(&line->killed);
    bl_buffer_done(&line->draft);
    bl_buffer_done(&line->needle);
    edit_undo_done(&line->undo);
}

struct bl_text edit_line_text(const struct edit_line *line)
{
    return line->text.size > 0 ? bl_buffer_text(&line->text) : BL_TEXT("");
}

static struct bl_text part(struct bl_text text, size_t from, size_t to)
{
    /* An empty text may have no bytes to count from. */
    if (text.size == 0)
        return BL_TEXT("");
    return (struct bl_text){text.data + from, to - from};
}

/* ---- Places in a text ------------------------------------------------------------------------ */

/* Returns a place at or before the start of the cluster that ends or continues at `at` (not 0), to
 * count from: an ASCII character always begins a cluster. */
static size_t cluster_search_start(struct bl_text text, size_t at)
{
    size_t start = at - 1;
    size_t last = at > CLUSTER_SEARCH_MAX ? at - CLUSTER_SEARCH_MAX : 0;

    while (start > last && (unsigned char)text.data[start] >= 0x80)
        start--;
    for (int i = 0; i < 3 && start > 0 && ((unsigned char)text.data[start] & 0xC0) == 0x80; i++)
        start--;
    return start;
}

size_t edit_text_previous(struct bl_text text, size_t at)
{
    struct text_cluster cluster;

    if (at == 0)
        return 0;
    size_t start = cluster_search_start(text, at);
    struct bl_text rest = part(text, start, at);
    while (text_cluster_next(&rest, &cluster))
        start = (size_t)(cluster.bytes.data - text.data);
    return start;
}

size_t edit_text_next(struct bl_text text, size_t at)
{
    struct text_cluster cluster;
    struct bl_text rest = part(text, at, text.size);

    return text_cluster_next(&rest, &cluster) ? at + cluster.bytes.size : at;
}

static size_t line_start(struct bl_text text, size_t at)
{
    while (at > 0 && text.data[at - 1] != '\n')
        at--;
    return at;
}

static size_t term_edit_line_end(struct bl_text text, size_t at)
{
    const char *end = at == text.size ? NULL : memchr(text.data + at, '\n', text.size - at);
    return end == NULL ? text.size : (size_t)(end - text.data);
}

/* Letters, digits and everything that is not ASCII. */
static bool in_word(struct bl_text text, size_t at)
{
    unsigned char byte = (unsigned char)text.data[at];
    return byte >= 0x80 || byte == '_' || (byte >= '0' && byte <= '9') ||
           ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
}

static size_t word_left(struct bl_text text, size_t at)
{
    while (at > 0 && !in_word(text, edit_text_previous(text, at)))
        at = edit_text_previous(text, at);
    while (at > 0 && in_word(text, edit_text_previous(text, at)))
        at = edit_text_previous(text, at);
    return at;
}

static size_t word_right(struct bl_text text, size_t at)
{
    while (at < text.size && !in_word(text, at))
        at = edit_text_next(text, at);
    while (at < text.size && in_word(text, at))
        at = edit_text_next(text, at);
    return at;
}

/* Returns the place nearest to the column, not right of it, in the line that begins at `start`. */
static size_t at_column(struct bl_text text, size_t start, size_t column)
{
    struct bl_text line = part(text, start, term_edit_line_end(text, start));
    return start + text_cut_width(line, column).size;
}

/* ---- Changes --------------------------------------------------------------------------------- */

static void set_text(struct edit_line *line, struct bl_text text)
{
    bl_buffer_clear(&line->text);
    bl_buffer_append(&line->text, bl_utf8_cut(text, line->text.maximum));
    line->cursor = line->text.size;
}

static void end_search(struct edit_line *line)
{
    line->searching = false;
    line->found = SIZE_MAX;
    bl_buffer_clear(&line->needle);
}

void edit_line_set(struct edit_line *line, struct bl_text text)
{
    end_search(line);
    set_text(line, text);
    line->history_at = SIZE_MAX;
    line->goal_column = SIZE_MAX;
    line->killing = false;
    line->vim.normal = false;
    bl_buffer_clear(&line->draft);
    edit_undo_clear(&line->undo);
}

void edit_line_replace(struct edit_line *line, struct bl_text text)
{
    edit_undo_begin(&line->undo, edit_line_text(line), line->cursor);
    set_text(line, text);
    edit_undo_end(&line->undo, edit_line_text(line), false);
    line->goal_column = SIZE_MAX;
}

/* A mark joins the character before it, even one that was just inserted: moves the cursor to the
 * next place between clusters. */
static void settle_cursor(struct edit_line *line)
{
    struct bl_text text = edit_line_text(line);

    if (line->cursor == 0 || line->cursor == text.size)
        return;
    size_t at = cluster_search_start(text, line->cursor);
    while (at < line->cursor)
        at = edit_text_next(text, at);
    line->cursor = at;
}

void edit_line_insert(struct edit_line *line, struct bl_text text)
{
    struct bl_buffer *buffer = &line->text;
    struct bl_text fits = bl_utf8_cut(text, buffer->maximum - buffer->size);

    if (fits.size == 0 || bl_buffer_reserve(buffer, fits.size) != 0)
        return;
    memmove(buffer->data + line->cursor + fits.size, buffer->data + line->cursor,
            buffer->size - line->cursor);
    memcpy(buffer->data + line->cursor, fits.data, fits.size);
    buffer->size += fits.size;
    line->cursor += fits.size;
    settle_cursor(line);
}

void edit_line_remove(struct edit_line *line, size_t from, size_t to)
{
    struct bl_buffer *buffer = &line->text;

    if (from == to)
        return;
    memmove(buffer->data + from, buffer->data + to, buffer->size - to);
    buffer->size -= to - from;
    line->cursor = from;
    settle_cursor(line);
}

/* Consecutive kills are joined to one text. */
static void kill_part(struct edit_line *line, size_t from, size_t to, bool added_before)
{
    struct bl_text killed = part(edit_line_text(line), from, to);

    if (from == to)
        return;
    if (!added_before)
        bl_buffer_clear(&line->killed);
    if (added_before && to == line->cursor) {
        struct bl_buffer joined;
        bl_buffer_init(&joined, line->killed.maximum);
        bl_buffer_append(&joined, killed);
        bl_buffer_append(&joined, bl_buffer_text(&line->killed));
        bl_buffer_done(&line->killed);
        line->killed = joined;
    } else {
        bl_buffer_append(&line->killed, killed);
    }
    edit_line_remove(line, from, to);
}

/* Swaps the two clusters before the cursor, or on both sides of it. */
static void transpose(struct edit_line *line)
{
    struct bl_text text = edit_line_text(line);
    size_t end = line->cursor;
    char kept[256];

    if (end == term_edit_line_end(text, end) && end > line_start(text, end))
        end = edit_text_previous(text, end);
    if (end == line_start(text, end) || end == text.size)
        return;
    size_t middle = end;
    size_t start = edit_text_previous(text, middle);
    end = edit_text_next(text, middle);
    size_t first = middle - start;
    if (first > sizeof kept)
        return;
    memcpy(kept, text.data + start, first);
    memmove(line->text.data + start, text.data + middle, end - middle);
    memcpy(line->text.data + start + (end - middle), kept, first);
    line->cursor = end;
    settle_cursor(line);
}

/* ---- History --------------------------------------------------------------------------------- */

static size_t history_size(const struct edit_line *line)
{
    return line->history == NULL ? 0 : history_count(line->history);
}

/* Shows an entry of the history; SIZE_MAX shows the draft. */
static void show_entry(struct edit_line *line, size_t index)
{
    if (line->history_at == SIZE_MAX && index != SIZE_MAX) {
        bl_buffer_clear(&line->draft);
        bl_buffer_append(&line->draft, edit_line_text(line));
    }
    line->history_at = index;
    if (index == SIZE_MAX)
        set_text(line, bl_buffer_text(&line->draft));
    else
        set_text(line, history_get(line->history, index));
}

static void show_older(struct edit_line *line)
{
    size_t at = line->history_at == SIZE_MAX ? history_size(line) : line->history_at;

    if (at > 0)
        show_entry(line, at - 1);
}

static void show_newer(struct edit_line *line)
{
    if (line->history_at == SIZE_MAX)
        return;
    bool last = line->history_at + 1 >= history_size(line);
    show_entry(line, last ? SIZE_MAX : line->history_at + 1);
}

static void move_vertically(struct edit_line *line, bool up)
{
    struct bl_text text = edit_line_text(line);
    size_t start = line_start(text, line->cursor);
    size_t end = term_edit_line_end(text, line->cursor);

    if (up ? start == 0 : end == text.size) {
        line->goal_column = SIZE_MAX;
        if (up)
            show_older(line);
        else
            show_newer(line);
        return;
    }
    if (line->goal_column == SIZE_MAX)
        line->goal_column = text_width(part(text, start, line->cursor));
    size_t target = up ? line_start(text, start - 1) : end + 1;
    line->cursor = at_column(text, target, line->goal_column);
}

/* ---- Search ---------------------------------------------------------------------------------- */

static void show_found(struct edit_line *line, size_t before)
{
    struct bl_text needle = bl_buffer_text(&line->needle);
    size_t found = SIZE_MAX;

    if (needle.size > 0 && line->history != NULL)
        found = history_search(line->history, needle, before);
    /* The last match stays visible while no older entry contains the needle. */
    line->found = found;
    if (found == SIZE_MAX)
        return;
    show_entry(line, found);
    ptrdiff_t at = bl_text_find(edit_line_text(line), needle);
    line->cursor = at < 0 ? line->text.size : (size_t)at;
    settle_cursor(line);
}

/* Begins a search. The current text is restored if it is cancelled. */
static void begin_search(struct edit_line *line)
{
    end_search(line);
    line->history_at = SIZE_MAX;
    line->searching = true;
}

/* Returns false if the key is not for the search, which may have ended: the caller handles the
 * key. */
static bool search_key(struct edit_line *line, const struct key *key)
{
    size_t newest = history_size(line);

    switch ((int)key->type) {
    case KEY_TEXT:
    case KEY_PASTE:
        bl_buffer_append(&line->needle, key->text);
        show_found(line, line->history_at == SIZE_MAX ? newest : line->history_at + 1);
        return true;
    case KEY_BACKSPACE:
        line->needle.size = edit_text_previous(bl_buffer_text(&line->needle), line->needle.size);
        show_found(line, newest);
        return true;
    case KEY_SEARCH:
        if (line->found != SIZE_MAX)
            show_found(line, line->found);
        return true;
    case KEY_ESCAPE:
    case KEY_INTERRUPT:
        end_search(line);
        if (line->history_at != SIZE_MAX)
            show_entry(line, SIZE_MAX);
        return true;
    case KEY_ENTER:
    case KEY_TAB: end_search(line); return true;
    case KEY_CLEAR:
    case KEY_SUSPEND:
    case KEY_UNKNOWN: return false;
    default: end_search(line); return false;
    }
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static bool move_key(struct edit_line *line, enum key_type type)
{
    struct bl_text text = edit_line_text(line);
    size_t at = line->cursor;

    switch ((int)type) {
    case KEY_LEFT: line->cursor = edit_text_previous(text, at); return true;
    case KEY_RIGHT: line->cursor = edit_text_next(text, at); return true;
    case KEY_WORD_LEFT: line->cursor = word_left(text, at); return true;
    case KEY_WORD_RIGHT: line->cursor = word_right(text, at); return true;
    case KEY_HOME: line->cursor = line_start(text, at); return true;
    case KEY_END: line->cursor = term_edit_line_end(text, at); return true;
    case KEY_PAGE_UP: show_older(line); return true;
    case KEY_PAGE_DOWN: show_newer(line); return true;
    default: return false;
    }
}

/* Kills to the start or end of the line; at that place already, kills the line feed. */
static bool kill_key(struct edit_line *line, enum key_type type, bool added_before)
{
    struct bl_text text = edit_line_text(line);
    size_t at = line->cursor, from = at, to = at;

    switch ((int)type) {
    case KEY_KILL_WORD: from = word_left(text, at); break;
    case KEY_KILL_WORD_NEXT: to = word_right(text, at); break;
    case KEY_KILL_START:
        from = line_start(text, at);
        if (from == at && at > 0)
            from--;
        break;
    case KEY_KILL_END:
        to = term_edit_line_end(text, at);
        if (to == at && at < text.size)
            to++;
        break;
    default: return false;
    }
    kill_part(line, from, to, added_before);
    line->killing = true;
    return true;
}

static bool change_key(struct edit_line *line, const struct key *key)
{
    struct bl_text text = edit_line_text(line);

    switch ((int)key->type) {
    case KEY_TEXT:
    case KEY_PASTE: edit_line_insert(line, key->text); return true;
    case KEY_NEWLINE: edit_line_insert(line, BL_TEXT("\n")); return true;
    case KEY_BACKSPACE:
        edit_line_remove(line, edit_text_previous(text, line->cursor), line->cursor);
        return true;
    case KEY_EOF:
        if (text.size == 0)
            return false;
        edit_line_remove(line, line->cursor, edit_text_next(text, line->cursor));
        return true;
    case KEY_DELETE:
        edit_line_remove(line, line->cursor, edit_text_next(text, line->cursor));
        return true;
    case KEY_YANK: edit_line_insert(line, bl_buffer_text(&line->killed)); return true;
    case KEY_TRANSPOSE: transpose(line); return true;
    default: return false;
    }
}

static bool edit_line_plain_key(struct edit_line *line, const struct key *key)
{
    bool added_before = line->killing;

    if (line->searching && search_key(line, key))
        return true;
    line->killing = false;
    if (key->type == KEY_UP || key->type == KEY_DOWN) {
        move_vertically(line, key->type == KEY_UP);
        return true;
    }
    line->goal_column = SIZE_MAX;
    if (key->type == KEY_SEARCH) {
        begin_search(line);
        return true;
    }
    return move_key(line, key->type) || kill_key(line, key->type, added_before) ||
           change_key(line, key);
}

static bool edit_line_go_back(struct edit_line *line, bool back)
{
    struct bl_text text = edit_line_text(line);
    struct edit_state state;

    if (back ? edit_undo_back(&line->undo, text, line->cursor, &state)
             : edit_undo_forward(&line->undo, &state)) {
        set_text(line, state.text);
        line->cursor = state.cursor < state.text.size ? state.cursor : state.text.size;
    }
    line->goal_column = SIZE_MAX;
    return true;
}

/* Handles one key, as one change. */
static bool edit_line_take_key(struct edit_line *line, const struct key *key)
{
    bool typed = key->type == KEY_TEXT && !(line->vim.on && line->vim.normal);
    enum edit_vim_result vim = EDIT_VIM_NONE;

    edit_undo_begin(&line->undo, edit_line_text(line), line->cursor);
    if (!line->searching)
        vim = edit_vim_key(line, key);
    bool taken = vim != EDIT_VIM_NONE || edit_line_plain_key(line, key);
    edit_undo_end(&line->undo, edit_line_text(line), typed);
    /* A blank ends a group of changes for undo. */
    if (typed && bl_text_ends_with(key->text, BL_TEXT(" ")))
        line->undo.typing = false;
    if (vim == EDIT_VIM_UNDO || vim == EDIT_VIM_REDO)
        return edit_line_go_back(line, vim == EDIT_VIM_UNDO);
    return taken;
}

bool edit_line_key(struct edit_line *line, const struct key *key)
{
    struct bl_text rest = key->text;
    struct text_cluster cluster;
    struct key each = *key;

    if (!line->searching && (key->type == KEY_UNDO || key->type == KEY_REDO))
        return edit_line_go_back(line, key->type == KEY_UNDO);
    if (!line->vim.on || key->type != KEY_TEXT)
        return edit_line_take_key(line, key);
    /* In normal mode each character is a command. */
    while (text_cluster_next(&rest, &cluster)) {
        each.text = cluster.bytes;
        edit_line_take_key(line, &each);
    }
    return true;
}

/* ---- Completion ------------------------------------------------------------------------------ */

static size_t blank_word_start(const struct edit_line *line)
{
    size_t start = line->cursor;

    while (start > 0 && strchr(" \t\n", line->text.data[start - 1]) == NULL)
        start--;
    return start;
}

struct bl_text edit_line_word(const struct edit_line *line)
{
    if (line->text.size == 0)
        return BL_TEXT("");
    return part(edit_line_text(line), blank_word_start(line), line->cursor);
}

static struct bl_text common_start(struct bl_text a, struct bl_text b)
{
    size_t size = 0;

    while (size < a.size && size < b.size && a.data[size] == b.data[size])
        size++;
    return bl_utf8_cut(a, size);
}

/* Inserts a blank, unless there is one already. */
static void insert_blank(struct edit_line *line)
{
    struct bl_text text = edit_line_text(line);

    if (line->cursor < text.size && text.data[line->cursor] == ' ')
        line->cursor++;
    else
        edit_line_insert(line, BL_TEXT(" "));
}

bool edit_line_complete(struct edit_line *line, const struct bl_list *candidates)
{
    if (bl_list_empty(candidates))
        return false;
    struct bl_text common = BL_CONTAINER(candidates->next, struct edit_candidate, link)->text;
    bool single = candidates->next == candidates->previous;
    BL_LIST_EACH (link, candidates)
        common = common_start(common, BL_CONTAINER(link, struct edit_candidate, link)->text);
    struct bl_text word = edit_line_word(line);
    bool longer = common.size > word.size || (single && !bl_text_equal(common, word));
    bool blank = single && !bl_text_ends_with(common, BL_TEXT("/"));
    if (longer) {
        edit_line_remove(line, line->cursor - word.size, line->cursor);
        edit_line_insert(line, common);
    }
    if (blank)
        insert_blank(line);
    line->killing = false;
    line->goal_column = SIZE_MAX;
    return longer || blank;
}
