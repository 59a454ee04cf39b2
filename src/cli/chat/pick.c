/* Choosing a session.
 *
 * Design notes.
 *
 * The fiber that needs a session waits here, loads the list and the preview, and is woken by the
 * fiber that reads keys, which only changes the selection. The drawing fiber shows both in place of
 * the conversation's last lines. So a slow folder, store or preview does not delay keys.
 *
 *   open      --Enter-->                            taken
 *   open      --Enter on a session in use-->        open, offering a copy
 *   open      --Enter again-->                      taken, as a copy
 *   open      --Esc, Ctrl+C, Ctrl+D, the end-->     left */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "state.h"

#define PICK_SESSIONS_MAX 500u
#define PICK_PREVIEW_MAX  ((size_t)4000)
#define PICK_PREVIEW_ROWS 8u
#define PICK_WIDE         64u

static const struct text_style pick_plain = {0}, pick_dim = {.dim = true},
                               pick_bold = {.bold = true};

enum pick_state {
    PICK_OPEN,
    PICK_TAKEN,
    PICK_LEFT,
};

struct chat_pick {
    enum pick_state state;
    struct bl_semaphore woken;
    struct edit_line line; /* the search text */
    bool everywhere;       /* list the sessions of all folders */
    bool relist;           /* `everywhere` has changed */
    struct bl_arena arena; /* for the list */
    const struct bl_store_summary **all;
    size_t count;
    const struct bl_store_summary **shown; /* those that match */
    size_t shown_count;
    size_t selected;
    const struct bl_store_summary *offered; /* copied by the next Enter */
    const struct bl_store_summary *previewed;
    struct bl_arena preview_arena;
    struct bl_text prompt; /* of the newest turn */
    struct bl_text answer;
    bool fork;
};

/* ---- The list -------------------------------------------------------------------------------- */

static bool pick_holds(const char *text, struct bl_text word)
{
    size_t size = strlen(text);

    for (size_t at = 0; at + word.size <= size; at++)
        if (strncasecmp(text + at, word.data, word.size) == 0)
            return true;
    return false;
}

/* True if each word occurs in the title, the id or the folder. */
static bool pick_matches(const struct bl_store_summary *summary, struct bl_text words)
{
    struct bl_text word;

    while (bl_text_split(&words, ' ', &word))
        if (!pick_holds(summary->title, word) && !pick_holds(summary->id, word) &&
            !pick_holds(summary->directory, word))
            return false;
    return true;
}

static void pick_filter(struct chat_pick *pick)
{
    pick->shown_count = 0;
    for (size_t i = 0; i < pick->count; i++)
        if (pick_matches(pick->all[i], edit_line_text(&pick->line)))
            pick->shown[pick->shown_count++] = pick->all[i];
    pick->selected = 0;
    pick->offered = NULL;
}

static const struct bl_store_summary *pick_selected(const struct chat_pick *pick)
{
    return pick->selected < pick->shown_count ? pick->shown[pick->selected] : NULL;
}

static int pick_load(struct chat *chat, struct chat_pick *pick, struct bl_error *error)
{
    const char *open = chat->agent != NULL ? bl_agent_session(chat->agent)->id : "";
    struct bl_store_list_options options = {
        .directory = pick->everywhere ? NULL : chat->work.options->workspace.directory,
        .limit = PICK_SESSIONS_MAX};
    struct bl_list list;

    pick->count = pick->shown_count = 0;
    pick->previewed = pick->offered = NULL;
    bl_arena_done(&pick->arena);
    bl_arena_init(&pick->arena);
    pick->all = bl_arena_alloc(&pick->arena, PICK_SESSIONS_MAX * sizeof *pick->all);
    pick->shown = bl_arena_alloc(&pick->arena, PICK_SESSIONS_MAX * sizeof *pick->shown);
    int code = bl_store_list_page(chat->work.store, &pick->arena, &options, &list, error);
    if (code != 0)
        return code;
    BL_LIST_EACH (link, &list) {
        const struct bl_store_summary *summary = BL_CONTAINER(link, struct bl_store_summary, link);
        if (strcmp(summary->id, open) != 0)
            pick->all[pick->count++] = summary;
    }
    pick_filter(pick);
    return 0;
}

/* Loads the prompt and the answer of the selected session's newest turn. */
static void pick_load_preview(struct chat *chat, struct chat_pick *pick)
{
    const struct bl_store_summary *summary = pick_selected(pick);
    const struct bl_json *result;
    struct bl_store_work work;

    if (summary == NULL || summary == pick->previewed)
        return;
    pick->prompt = pick->answer = (struct bl_text){0};
    bl_arena_done(&pick->preview_arena);
    bl_arena_init(&pick->preview_arena);
    if (bl_store_find(chat->work.store, &pick->preview_arena, summary->id, &work, NULL) == 0 &&
        bl_json_read(&pick->preview_arena, work.result, NULL, &result, NULL) == 0) {
        pick->prompt = bl_json_text(bl_json_get(result, BL_TEXT("prompt")));
        pick->answer = bl_json_text(bl_json_get(result, BL_TEXT("output")));
    }
    pick->previewed = summary;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

static void pick_end(struct chat_pick *pick, enum pick_state state)
{
    if (pick->state == PICK_OPEN)
        pick->state = state;
}

static void pick_move(struct chat_pick *pick, size_t from, size_t to)
{
    if (pick->shown_count > 0)
        pick->selected = to < pick->shown_count ? to : from;
    pick->offered = NULL;
}

static void pick_enter(struct chat_pick *pick)
{
    const struct bl_store_summary *summary = pick_selected(pick);

    if (summary == NULL)
        return;
    if (summary->held_by != NULL && pick->offered != summary) {
        pick->offered = summary;
        return;
    }
    pick->fork = summary->held_by != NULL;
    pick_end(pick, PICK_TAKEN);
}

void chat_pick_key(struct chat *chat, const struct key *key)
{
    struct chat_pick *pick = chat->pick;
    size_t at = pick->selected, last = pick->shown_count - (pick->shown_count > 0);

    switch ((int)key->type) {
    case KEY_UP: pick_move(pick, at, at > 0 ? at - 1 : 0); break;
    case KEY_DOWN: pick_move(pick, at, at + 1); break;
    case KEY_PAGE_UP: pick_move(pick, at, at > 10 ? at - 10 : 0); break;
    case KEY_PAGE_DOWN: pick_move(pick, at, at + 10 < last ? at + 10 : last); break;
    case KEY_ENTER: pick_enter(pick); break;
    case KEY_ESCAPE:
    case KEY_INTERRUPT:
    case KEY_EOF: pick_end(pick, PICK_LEFT); break;
    case KEY_CLEAR: chat->wiped = true; break;
    case KEY_SUSPEND: chat->suspending = true; break;
    case KEY_TAB:
        pick->everywhere = !pick->everywhere;
        pick->relist = true;
        break;
    default:
        if (edit_line_key(&pick->line, key))
            pick_filter(pick);
    }
    bl_semaphore_give(&pick->woken);
}

void chat_pick_leave(struct chat *chat)
{
    if (chat->pick == NULL)
        return;
    pick_end(chat->pick, PICK_LEFT);
    bl_semaphore_give(&chat->pick->woken);
}

/* ---- Display --------------------------------------------------------------------------------- */

static void pick_row(const struct chat *chat, const struct bl_store_summary *summary, bool selected,
                     bool everywhere, struct bl_buffer *out)
{
    const struct text_style *style = selected ? &pick_bold : &pick_plain;
    char age[32], text[160];
    struct text_line line;

    bl_duration_format(bl_clock_wall_ns(&bl_clock_system) - summary->updated_wall_ns, age);
    text_line_init(&line, out, chat->columns, chat->colours);
    text_line_add(&line, selected ? BL_TEXT("> ") : BL_TEXT("  "), style);
    snprintf(text, sizeof text, "%-10s ", age);
    text_line_add(&line, bl_text_from(text), &pick_dim);
    if (chat->columns >= PICK_WIDE) {
        char cost[32] = "-";
        if (!summary->spent.cost_unknown)
            snprintf(cost, sizeof cost, "$%.3f", summary->spent.cost_usd);
        snprintf(text, sizeof text, "%4" PRIu64 " turn%s %8s  ", summary->turns,
                 summary->turns == 1 ? " " : "s", cost);
        text_line_add(&line, bl_text_from(text), &pick_dim);
    }
    if (summary->held_by != NULL)
        text_line_add(&line, BL_TEXT("in use "), &(struct text_style){.colour = TEXT_YELLOW});
    text_line_add(&line, bl_text_from(summary->title[0] != '\0' ? summary->title : summary->id),
                  style);
    if (everywhere && chat->columns >= PICK_WIDE) {
        text_line_add(&line, BL_TEXT("  "), style);
        text_line_add(&line, bl_text_from(summary->directory), &pick_dim);
    }
    text_line_end(&line);
}

/* Returns the last lines of a text that is already laid out. */
static struct bl_text pick_last_lines(struct bl_text text, size_t count)
{
    size_t at = text.size;

    while (at > 0) {
        if (text.data[at - 1] == '\n' && at < text.size && count-- <= 1)
            break;
        at--;
    }
    return (struct bl_text){text.data + at, text.size - at};
}

static void pick_preview(const struct chat *chat, const struct chat_pick *pick, size_t rows,
                         struct bl_buffer *out)
{
    const struct bl_store_summary *summary = pick_selected(pick);
    struct bl_buffer laid;
    char head[256];
    struct text_line line;

    if (summary == NULL || rows < 3)
        return;
    snprintf(head, sizeof head, "%s, %" PRIu64 " turn%s%s%s", summary->id, summary->turns,
             summary->turns == 1 ? "" : "s", summary->held_by != NULL ? ", in use by " : "",
             summary->held_by != NULL ? summary->held_by : "");
    text_line_init(&line, out, chat->columns, chat->colours);
    text_line_add(&line, bl_text_from(head), &pick_dim);
    text_line_end(&line);
    if (pick->previewed != summary)
        return;
    text_line_init(&line, out, chat->columns, chat->colours);
    text_line_add(&line, BL_TEXT("> "), &pick_dim);
    text_line_add(&line, bl_utf8_title(pick->prompt, chat->columns), &pick_dim);
    text_line_end(&line);
    bl_buffer_init(&laid, SIZE_MAX);
    struct bl_text answer = bl_text_trim(pick->answer);
    size_t skipped = answer.size > PICK_PREVIEW_MAX ? answer.size - PICK_PREVIEW_MAX : 0;
    text_wrap_all((struct bl_text){answer.data + skipped, answer.size - skipped}, &pick_dim,
                  chat->columns, chat->colours, &laid);
    bl_buffer_append(out, pick_last_lines(bl_buffer_text(&laid), rows - 2));
    bl_buffer_done(&laid);
}

void chat_pick_draw(struct chat *chat, struct bl_buffer *live, struct bl_buffer *status,
                    struct edit_view *view)
{
    const struct chat_pick *pick = chat->pick;
    size_t room = chat->rows > 4 ? chat->rows - 4 : 1;
    size_t preview = room / 2 < PICK_PREVIEW_ROWS ? room / 2 : PICK_PREVIEW_ROWS;
    size_t rows = room - preview, first = pick->selected < rows ? 0 : pick->selected - rows + 1;
    struct text_line line;

    bl_buffer_clear(live);
    bl_buffer_clear(status);
    for (size_t i = first; i < pick->shown_count && i < first + rows; i++)
        pick_row(chat, pick->shown[i], i == pick->selected, pick->everywhere, live);
    if (pick->shown_count == 0)
        bl_buffer_append(live, pick->count > 0    ? BL_TEXT("No session matches.\n")
                               : pick->everywhere ? BL_TEXT("No sessions.\n")
                                                  : BL_TEXT("No sessions in this folder.\n"));
    pick_preview(chat, pick, preview, live);
    text_line_init(&line, status, chat->columns, chat->colours);
    text_line_add(&line,
                  pick->offered != NULL
                      ? BL_TEXT("in use: Enter again to continue in a copy · Esc to go back")
                      : BL_TEXT("Enter to open · Esc to go back · Tab for "),
                  &pick_dim);
    if (pick->offered == NULL)
        text_line_add(&line, pick->everywhere ? BL_TEXT("this folder") : BL_TEXT("all folders"),
                      &pick_dim);
    text_line_end(&line);
    *view = (struct edit_view){.live = bl_buffer_text(live),
                               .status = bl_text_trim(bl_buffer_text(status)),
                               .prompt = BL_TEXT("Find: "),
                               .line = &pick->line,
                               .hint = BL_TEXT("words from title, id or folder")};
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* Runs until a session is taken or the choice is left. */
static int pick_follow(struct chat *chat, struct chat_pick *pick, struct bl_error *error)
{
    int code = pick_load(chat, pick, error);

    while (code == 0 && pick->state == PICK_OPEN && !chat->leaving) {
        pick_load_preview(chat, pick);
        chat_redraw(chat);
        code = bl_semaphore_take(&pick->woken);
        if (code == 0 && pick->relist) {
            pick->relist = false;
            code = pick_load(chat, pick, error);
        }
    }
    return code;
}

bool chat_pick(struct chat *chat, char ret_id[72], bool *ret_fork)
{
    struct chat_pick *pick = bl_zalloc(sizeof *pick);
    struct bl_error *error = bl_zalloc(sizeof *error);

    bl_semaphore_init(&pick->woken, 0);
    bl_arena_init(&pick->arena);
    bl_arena_init(&pick->preview_arena);
    edit_line_init(&pick->line, NULL);
    chat->pick = pick;
    int code = pick_follow(chat, pick, error);
    chat->pick = NULL;
    const struct bl_store_summary *summary = pick_selected(pick);
    bool taken = code == 0 && pick->state == PICK_TAKEN && summary != NULL;
    if (taken)
        bl_text_into(ret_id, 72, summary->id);
    *ret_fork = pick->fork;
    if (code != 0 && error->code != 0)
        chat_say_error(chat, error);
    edit_line_done(&pick->line);
    bl_arena_done(&pick->preview_arena);
    bl_arena_done(&pick->arena);
    bl_free(error);
    bl_free(pick);
    chat_redraw(chat);
    return taken;
}
