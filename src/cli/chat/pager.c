/* Design notes.
 *
 * The transcript is shown on the terminal's alternate screen: the conversation continues meanwhile,
 * and its screen is intact afterwards. The transcript is laid out again when the window or the
 * conversation has changed, at most every PAGER_NS; at its end, the view follows new output. */
#include <inttypes.h>
#include <stdio.h>

#include "state.h"

#define PAGER_NS (500 * BL_NS_PER_MS)

struct chat_pager {
    struct bl_buffer lines;
    size_t *starts; /* offset of each line */
    size_t count, capacity;
    size_t top;     /* the first line shown */
    bool behind;    /* the user has moved away from the end */
    size_t columns; /* width of the layout; 0 if not laid out yet */
    uint64_t version;
    uint64_t laid_out_ns;
    bool resized; /* since it was opened */
};

void chat_pager_open(struct chat *chat)
{
    chat->paging = true;
    chat_redraw(chat);
    /* The drawing fiber may not have closed it yet. */
    if (chat->pager != NULL)
        return;
    chat->pager = bl_zalloc(sizeof *chat->pager);
    bl_buffer_init(&chat->pager->lines, SIZE_MAX / 2);
}

void chat_pager_free(struct chat *chat)
{
    if (chat->pager == NULL)
        return;
    bl_buffer_done(&chat->pager->lines);
    bl_free(chat->pager->starts);
    bl_free(chat->pager);
    chat->pager = NULL;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static size_t pager_rows(const struct chat *chat)
{
    return chat->rows > 1 ? chat->rows - 1 : 1;
}

static size_t pager_last_top(const struct chat *chat)
{
    size_t rows = pager_rows(chat);

    return chat->pager->count > rows ? chat->pager->count - rows : 0;
}

static void pager_index(struct chat_pager *pager)
{
    struct bl_text rest = bl_buffer_text(&pager->lines), line;
    const char *begin = pager->lines.data;

    pager->count = 0;
    while (bl_text_split(&rest, '\n', &line)) {
        if (pager->count == pager->capacity) {
            pager->capacity = pager->capacity > 0 ? 2 * pager->capacity : 256;
            pager->starts = bl_realloc(pager->starts, pager->capacity * sizeof *pager->starts);
        }
        pager->starts[pager->count++] = (size_t)(line.data - begin);
    }
}

static void pager_lay_out(struct chat *chat)
{
    struct chat_pager *pager = chat->pager;
    uint64_t version = chat_view_version(chat->view), now_ns = bl_now_ns();
    bool narrower = pager->columns != chat->columns;

    if (!narrower && (version == pager->version || now_ns - pager->laid_out_ns < PAGER_NS))
        return;
    /* In a window of another width, the same place has about the same relative position. */
    size_t before = pager->count, top = pager->top;
    bl_buffer_clear(&pager->lines);
    chat_view_transcript(chat->view, &pager->lines);
    pager_index(pager);
    if (narrower && before > 0)
        pager->top = (size_t)((double)top / (double)before * (double)pager->count);
    pager->columns = chat->columns;
    pager->version = version;
    pager->laid_out_ns = now_ns;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void pager_move(struct chat *chat, bool up, size_t lines)
{
    struct chat_pager *pager = chat->pager;
    size_t last = pager_last_top(chat);

    if (up)
        pager->top -= lines < pager->top ? lines : pager->top;
    else
        pager->top = lines < last - pager->top ? pager->top + lines : last;
    pager->behind = pager->top < last;
}

/* Returns the key for a letter, as in less(1). */
static enum key_type pager_letter(char byte)
{
    static const struct {
        char letter;
        enum key_type type;
    } letters[] = {{' ', KEY_PAGE_DOWN}, {'b', KEY_PAGE_UP}, {'j', KEY_DOWN},  {'k', KEY_UP},
                   {'g', KEY_HOME},      {'G', KEY_END},     {'q', KEY_ESCAPE}};

    for (size_t i = 0; i < BL_COUNT(letters); i++) {
        if (letters[i].letter == byte)
            return letters[i].type;
    }
    return KEY_UNKNOWN;
}

/* Acts on a key. Returns false if the key must also be handled by the conversation. */
static bool pager_act(struct chat *chat, enum key_type type)
{
    size_t page = pager_rows(chat);

    switch ((int)type) {
    case KEY_UP: pager_move(chat, true, 1); break;
    case KEY_DOWN:
    case KEY_ENTER: pager_move(chat, false, 1); break;
    case KEY_PAGE_UP: pager_move(chat, true, page); break;
    case KEY_PAGE_DOWN: pager_move(chat, false, page); break;
    case KEY_HOME: pager_move(chat, true, SIZE_MAX); break;
    case KEY_END: pager_move(chat, false, SIZE_MAX); break;
    case KEY_ESCAPE:
    case KEY_EXPAND:
    case KEY_EOF: chat->paging = false; break;
    /* A stop must not need two keys. */
    case KEY_INTERRUPT:
    case KEY_SUSPEND: chat->paging = false; return false;
    default: break;
    }
    return true;
}

bool chat_pager_key(struct chat *chat, const struct key *key)
{
    bool taken = key->type == KEY_TEXT;

    if (!chat->paging)
        return false;
    if (!taken)
        taken = pager_act(chat, key->type);
    for (size_t i = 0; key->type == KEY_TEXT && i < key->text.size && chat->paging; i++)
        pager_act(chat, pager_letter(key->text.data[i]));
    /* Keys typed here were not meant for the question. */
    if (!chat->paging && chat->question != NULL)
        chat->question->since_ns = bl_now_ns();
    return taken;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void pager_append_status(const struct chat *chat, struct bl_buffer *out)
{
    static const struct text_style strong = {.bold = true}, dim = {.dim = true},
                                   asks = {.colour = TEXT_YELLOW};
    const struct chat_pager *pager = chat->pager;
    size_t bottom = pager->top + pager_rows(chat);
    struct text_line line;
    char text[96];

    bottom = bottom < pager->count ? bottom : pager->count;
    text_line_init(&line, out, chat->columns > 1 ? chat->columns - 1 : 1, chat->colours);
    text_line_add(&line, BL_TEXT("Transcript"), &strong);
    if (chat->question != NULL)
        text_line_add(&line, BL_TEXT(" · question waiting"), &asks);
    snprintf(text, sizeof text, " · Esc to return · %zu-%zu of %zu",
             pager->count > 0 ? pager->top + 1 : 0, bottom, pager->count);
    text_line_add(&line, bl_text_from(text), &dim);
    text_line_end(&line);
    out->size--;
}

static void pager_append_page(struct chat *chat, struct bl_buffer *out)
{
    struct chat_pager *pager = chat->pager;
    size_t rows = pager_rows(chat);

    bl_buffer_append(out, BL_TEXT("\x1B[?2026h\x1B[?25l\x1B[?7l\x1B[H"));
    for (size_t row = 0; row < rows; row++) {
        size_t at = pager->top + row;
        /* Before the line: after a full line it would erase the last character. */
        bl_buffer_append(out, BL_TEXT("\x1B[K"));
        if (at < pager->count) {
            size_t end = at + 1 < pager->count ? pager->starts[at + 1] : pager->lines.size;
            bl_buffer_append(out, (struct bl_text){pager->lines.data + pager->starts[at],
                                                   end - pager->starts[at] - 1});
        }
        bl_buffer_append(out, BL_TEXT("\r\n"));
    }
    bl_buffer_append(out, BL_TEXT("\x1B[K"));
    pager_append_status(chat, out);
    bl_buffer_append(out, BL_TEXT("\x1B[?7h\x1B[?2026l"));
}

bool chat_pager_draw(struct chat *chat, struct bl_buffer *out)
{
    struct chat_pager *pager = chat->pager;

    if (pager == NULL)
        return false;
    if (!chat->paging) {
        bool resized = pager->resized;
        chat_pager_free(chat);
        terminal_alternate(chat->terminal, false);
        /* After a resize, our lines are no longer where they were. */
        chat->resized = chat->resized || resized;
        /* Some terminals, such as the Linux console, have only one screen. */
        chat->wiped = chat->wiped || !terminal_takes_strings();
        bl_buffer_append(out, BL_TEXT("\x1B[?25h"));
        return false;
    }
    terminal_alternate(chat->terminal, true);
    pager->resized = pager->resized || chat->resized;
    if (chat->resized)
        chat_measure(chat);
    chat->resized = false;
    pager_lay_out(chat);
    if (!pager->behind || pager->top > pager_last_top(chat))
        pager->top = pager_last_top(chat);
    pager_append_page(chat, out);
    return true;
}
