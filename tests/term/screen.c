#include "screen.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <vterm.h>

/* A line in the scrollback. */
struct gone_line {
    VTermScreenCell *cells;
    int count;
};

struct screen {
    VTerm *vterm;
    VTermScreen *cells;
    struct gone_line *gone;
    size_t gone_count;
    size_t gone_capacity;
    bool cursor_visible;
    struct bl_buffer text;
};

static int push_line(int count, const VTermScreenCell *cells, void *context)
{
    struct screen *screen = context;

    if (screen->gone_count == screen->gone_capacity) {
        screen->gone_capacity = screen->gone_capacity * 2 + 64;
        screen->gone = bl_realloc(screen->gone, screen->gone_capacity * sizeof *screen->gone);
    }
    struct gone_line *line = &screen->gone[screen->gone_count++];
    line->count = count;
    line->cells = bl_alloc((size_t)count * sizeof *cells);
    memcpy(line->cells, cells, (size_t)count * sizeof *cells);
    return 1;
}

/* libvterm writes the right half of a wide character beside its left half without checking that
 * there is such a column: a character cut in half by the new width is blank, as in other
 * terminals. */
static int pop_line(int count, VTermScreenCell *cells, void *context)
{
    struct screen *screen = context;

    if (screen->gone_count == 0)
        return 0;
    struct gone_line *line = &screen->gone[--screen->gone_count];
    for (int i = 0; i < count; i++)
        cells[i] = i < line->count ? line->cells[i] : (VTermScreenCell){.width = 1};
    if (count > 0 && cells[count - 1].width > 1)
        cells[count - 1] = (VTermScreenCell){.width = 1};
    bl_free(line->cells);
    return 1;
}

static int set_property(VTermProp property, VTermValue *value, void *context)
{
    struct screen *screen = context;

    if (property == VTERM_PROP_CURSORVISIBLE)
        screen->cursor_visible = value->boolean != 0;
    return 1;
}

static const VTermScreenCallbacks callbacks = {
    .settermprop = set_property,
    .sb_pushline = push_line,
    .sb_popline = pop_line,
};

struct screen *screen_new(size_t columns, size_t rows)
{
    struct screen *screen = bl_zalloc(sizeof *screen);

    screen->vterm = vterm_new((int)rows, (int)columns);
    vterm_set_utf8(screen->vterm, 1);
    screen->cells = vterm_obtain_screen(screen->vterm);
    screen->cursor_visible = true;
    vterm_screen_set_callbacks(screen->cells, &callbacks, screen);
    vterm_screen_enable_altscreen(screen->cells, 1);
    vterm_screen_reset(screen->cells, 1);
    bl_buffer_init(&screen->text, SIZE_MAX / 2);
    return screen;
}

void screen_free(struct screen *screen)
{
    if (screen == NULL)
        return;
    vterm_free(screen->vterm);
    for (size_t i = 0; i < screen->gone_count; i++)
        bl_free(screen->gone[i].cells);
    bl_free(screen->gone);
    bl_buffer_done(&screen->text);
    bl_free(screen);
}

void screen_feed(struct screen *screen, struct bl_text bytes)
{
    vterm_input_write(screen->vterm, bytes.data, bytes.size);
}

size_t screen_rows(const struct screen *screen)
{
    int rows, columns;
    vterm_get_size(screen->vterm, &rows, &columns);
    return (size_t)rows;
}

/* libvterm 0.1.4 scrolls the cursor out at the top if the lines below it no longer fit; terminals
 * cut those lines off. */
static void drop_last_row(struct screen *screen)
{
    VTermPos cursor;
    char bytes[48];

    vterm_state_get_cursorpos(vterm_obtain_state(screen->vterm), &cursor);
    if (cursor.row > 0)
        return;
    int size = snprintf(bytes, sizeof bytes, "\x1B[%zu;1H\x1B[2K\x1B[%d;%dH", screen_rows(screen),
                        cursor.row + 1, cursor.col + 1);
    vterm_input_write(screen->vterm, bytes, (size_t)size);
}

void screen_resize(struct screen *screen, size_t columns, size_t rows)
{
    for (size_t now = screen_rows(screen); now > rows; now--) {
        drop_last_row(screen);
        vterm_set_size(screen->vterm, (int)now - 1, (int)columns);
    }
    vterm_set_size(screen->vterm, (int)rows, (int)columns);
}

static void trim(struct bl_buffer *text, size_t from)
{
    while (text->size > from && text->data[text->size - 1] == ' ')
        text->size--;
}

static void append_cell(struct bl_buffer *text, const VTermScreenCell *cell)
{
    char bytes[4];

    if (cell->chars[0] == (uint32_t)-1) /* the right half of a wide character */
        return;
    if (cell->chars[0] == 0)
        bl_buffer_append_byte(text, ' ');
    for (size_t i = 0; i < VTERM_MAX_CHARS_PER_CELL && cell->chars[i] != 0; i++)
        bl_buffer_append(text, (struct bl_text){bytes, bl_utf8_encode(cell->chars[i], bytes)});
}

static void append_row(struct screen *screen, size_t row)
{
    size_t from = screen->text.size;
    int rows, columns;
    VTermScreenCell cell;

    vterm_get_size(screen->vterm, &rows, &columns);
    for (VTermPos at = {.row = (int)row}; at.col < columns; at.col++) {
        vterm_screen_get_cell(screen->cells, at, &cell);
        append_cell(&screen->text, &cell);
    }
    trim(&screen->text, from);
}

const char *screen_row(struct screen *screen, size_t row)
{
    bl_buffer_clear(&screen->text);
    append_row(screen, row);
    bl_buffer_append_byte(&screen->text, '\0');
    return screen->text.data;
}

static const char *finish(struct screen *screen)
{
    struct bl_buffer *text = &screen->text;

    while (text->size > 1 && text->data[text->size - 1] == '\n' &&
           text->data[text->size - 2] == '\n')
        text->size--;
    if (text->size == 1 && text->data[0] == '\n')
        text->size = 0;
    bl_buffer_append_byte(text, '\0');
    return text->data;
}

static void append_screen(struct screen *screen)
{
    for (size_t row = 0; row < screen_rows(screen); row++) {
        append_row(screen, row);
        bl_buffer_append_byte(&screen->text, '\n');
    }
}

const char *screen_shown(struct screen *screen)
{
    bl_buffer_clear(&screen->text);
    append_screen(screen);
    return finish(screen);
}

const char *screen_all(struct screen *screen)
{
    bl_buffer_clear(&screen->text);
    for (size_t i = 0; i < screen->gone_count; i++) {
        size_t from = screen->text.size;
        for (int j = 0; j < screen->gone[i].count; j++)
            append_cell(&screen->text, &screen->gone[i].cells[j]);
        trim(&screen->text, from);
        bl_buffer_append_byte(&screen->text, '\n');
    }
    append_screen(screen);
    return finish(screen);
}

void screen_cursor(const struct screen *screen, size_t *ret_row, size_t *ret_column)
{
    VTermPos at;
    vterm_state_get_cursorpos(vterm_obtain_state(screen->vterm), &at);
    *ret_row = (size_t)at.row;
    *ret_column = (size_t)at.col;
}

bool screen_cursor_visible(const struct screen *screen)
{
    return screen->cursor_visible;
}

bool screen_styled(const struct screen *screen)
{
    int rows, columns;
    VTermScreenCell cell;

    vterm_get_size(screen->vterm, &rows, &columns);
    for (VTermPos at = {0}; at.row < rows; at.row++) {
        for (at.col = 0; at.col < columns; at.col++) {
            vterm_screen_get_cell(screen->cells, at, &cell);
            if (cell.attrs.bold || cell.attrs.underline || cell.attrs.italic ||
                cell.attrs.reverse || cell.attrs.strike || !VTERM_COLOR_IS_DEFAULT_FG(&cell.fg) ||
                !VTERM_COLOR_IS_DEFAULT_BG(&cell.bg))
                return true;
        }
    }
    return false;
}

/* Allows only the promised sequences, and no colours unless wanted. */
void screen_check_sequences(struct bl_text bytes, bool colours)
{
    static const char *const modes[] = {"?7h", "?7l", "?25h", "?25l", "?2026h", "?2026l"};

    for (size_t i = 0; i < bytes.size; i++) {
        if (bytes.data[i] != '\x1B')
            continue;
        assert_true(i + 2 < bytes.size && bytes.data[i + 1] == '[');
        size_t start = i + 2, end = start;
        while (bytes.data[end] < 0x40)
            end++;
        bool known = strchr("ABGJK", bytes.data[end]) != NULL;
        known = known || (colours && bytes.data[end] == 'm');
        for (size_t j = 0; j < BL_COUNT(modes); j++)
            known = known || (strlen(modes[j]) == end + 1 - start &&
                              memcmp(modes[j], bytes.data + start, end + 1 - start) == 0);
        if (!known)
            fail_msg("CSI %.*s", (int)(end + 1 - start), bytes.data + start);
        i = end;
    }
}

/* ---- Scenes ---------------------------------------------------------------------------------- */

void scene_begin(struct scene *scene, size_t columns, size_t rows, bool colours)
{
    *scene = (struct scene){.terminal = screen_new(columns, rows)};
    edit_screen_init(&scene->screen, columns, rows, colours);
    edit_line_init(&scene->line, NULL);
    scene->view.line = &scene->line;
    scene->view.prompt = BL_TEXT("> ");
    bl_buffer_init(&scene->bytes, SIZE_MAX / 2);
}

void scene_end(struct scene *scene)
{
    screen_free(scene->terminal);
    edit_line_done(&scene->line);
    bl_buffer_done(&scene->bytes);
}

void scene_draw(struct scene *scene, struct bl_text above)
{
    bl_buffer_clear(&scene->bytes);
    edit_screen_draw(&scene->screen, &scene->view, above, &scene->bytes);
    screen_feed(scene->terminal, bl_buffer_text(&scene->bytes));
}

void scene_resize(struct scene *scene, size_t columns, size_t rows)
{
    screen_resize(scene->terminal, columns, rows);
    bl_buffer_clear(&scene->bytes);
    edit_screen_resize(&scene->screen, columns, rows, &scene->bytes);
    screen_feed(scene->terminal, bl_buffer_text(&scene->bytes));
}

/* ---- tmux ------------------------------------------------------------------------------------ */

/* Runs `tmux ARGUMENTS` on a private server; its output goes to `out`, unless that is NULL. */
static bool run_tmux(const struct multiplexer *multiplexer, const char *arguments,
                     struct bl_buffer *out)
{
    char command[512], bytes[4096];
    size_t count;

    snprintf(command, sizeof command,
             "env -u TMUX LC_ALL=C.UTF-8 tmux -u -S %s/socket %s 2>%s/error", multiplexer->folder,
             arguments, multiplexer->folder);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while ((count = fread(bytes, 1, sizeof bytes, pipe)) > 0) {
        if (out != NULL)
            bl_buffer_append(out, (struct bl_text){bytes, count});
    }
    return pclose(pipe) == 0;
}

bool multiplexer_begin(struct multiplexer *multiplexer, size_t columns, size_t rows)
{
    char arguments[256];
    const char *temporary = getenv("TMPDIR");
    struct bl_buffer path;

    snprintf(multiplexer->folder, sizeof multiplexer->folder, "%s/belay-tmux-XXXXXX",
             temporary != NULL && strlen(temporary) < 32 ? temporary : "/tmp");
    assert_non_null(mkdtemp(multiplexer->folder));
    multiplexer->terminal = -1;
    snprintf(arguments, sizeof arguments,
             "-f /dev/null new-session -d -x %zu -y %zu "
             "\"stty raw -echo; echo ready; exec sleep 600\"",
             columns, rows);
    if (!run_tmux(multiplexer, arguments, NULL))
        return false;
    multiplexer->running = true;
    bl_buffer_init(&path, SIZE_MAX / 2);
    multiplexer_read(multiplexer, "ready", false, &path);
    bl_buffer_clear(&path);
    assert_true(run_tmux(multiplexer, "display-message -p '#{pane_tty}'", &path));
    path.data[path.size - 1] = '\0';
    multiplexer->terminal = open(path.data, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    assert_true(multiplexer->terminal >= 0);
    bl_buffer_done(&path);
    multiplexer_feed(multiplexer, BL_TEXT("\r\x1B[K"));
    return true;
}

void multiplexer_end(struct multiplexer *multiplexer)
{
    static const char *const names[] = {"socket", "error"};
    char path[96];

    if (multiplexer->folder[0] == '\0')
        return;
    if (multiplexer->running)
        run_tmux(multiplexer, "kill-server", NULL);
    if (multiplexer->terminal >= 0)
        close(multiplexer->terminal);
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", multiplexer->folder, names[i]);
        unlink(path);
    }
    rmdir(multiplexer->folder);
    *multiplexer = (struct multiplexer){.terminal = -1};
}

void multiplexer_feed(struct multiplexer *multiplexer, struct bl_text bytes)
{
    assert_int_equal(write(multiplexer->terminal, bytes.data, bytes.size), (ssize_t)bytes.size);
}

void multiplexer_resize(struct multiplexer *multiplexer, size_t columns, size_t rows)
{
    char arguments[64];
    snprintf(arguments, sizeof arguments, "resize-window -x %zu -y %zu", columns, rows);
    assert_true(run_tmux(multiplexer, arguments, NULL));
}

void multiplexer_read(struct multiplexer *multiplexer, const char *text, bool all,
                      struct bl_buffer *out)
{
    for (int tries = 0; tries < 2000; tries++) {
        bl_buffer_clear(out);
        assert_true(run_tmux(multiplexer, "capture-pane -p", out));
        if (bl_text_find(bl_buffer_text(out), bl_text_from(text)) >= 0)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    if (bl_text_find(bl_buffer_text(out), bl_text_from(text)) < 0)
        fail_msg("tmux does not show \"%s\"", text);
    if (all) {
        bl_buffer_clear(out);
        assert_true(run_tmux(multiplexer, "capture-pane -p -S -", out));
    }
    bl_buffer_append_byte(out, '\0');
}
