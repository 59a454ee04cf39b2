#include <inttypes.h>

#include "session.h"

#define TITLE_SIZE 40u

/* One line of a text, without what would move a terminal's cursor. */
static void session_text_append_line(struct bl_buffer *out, struct bl_text text, size_t size_max)
{
    struct bl_text cut = bl_utf8_cut(text, size_max);

    bl_text_show(out, cut, BL_SHOW_LINE);
    if (cut.size < text.size)
        bl_buffer_append(out, BL_TEXT("…"));
    bl_buffer_append_byte(out, '\n');
}

/* "2026-11-15 18:50", UTC. */
static void format_time(int64_t wall_ns, char out[32])
{
    bl_time_format(wall_ns, out);
    out[10] = ' ';
    out[16] = '\0';
}

static uint64_t tokens(const struct bl_usage *usage)
{
    return usage->input_tokens + usage->output_tokens;
}

void session_list_text(struct bl_buffer *out, const struct session_work *work)
{
    if (bl_list_empty(&work->summaries)) {
        bl_buffer_append(out, work->all
                                  ? BL_TEXT("No sessions.\n")
                                  : BL_TEXT("No sessions of this directory; --all lists those of "
                                            "every one.\n"));
        return;
    }
    bl_buffer_printf(out, "%-28s %6s %9s  %-16s %s\n", "ID", "TURNS", "TOKENS", "UPDATED (UTC)",
                     "TITLE");
    BL_LIST_EACH (link, &work->summaries) {
        const struct bl_store_summary *summary = BL_CONTAINER(link, struct bl_store_summary, link);
        char updated[32];
        format_time(summary->updated_wall_ns, updated);
        bl_buffer_printf(out, "%-28s %6" PRIu64 " %9" PRIu64 "  %-16s ", summary->id,
                         summary->turns, tokens(&summary->usage), updated);
        if (summary->held_by != NULL)
            bl_buffer_printf(out, "[held by %s] ", summary->held_by);
        if (summary->agent_of != NULL)
            bl_buffer_printf(out, "[agent of %s] ", summary->agent_of);
        session_text_append_line(out, bl_text_from(summary->title), TITLE_SIZE);
    }
}

/* ---- One session ----------------------------------------------------------------------------- */

static struct bl_text session_text_member(const struct bl_json *object, const char *key)
{
    return bl_json_text(bl_json_get(object, bl_text_from(key)));
}

/* A text of several lines, each behind `prefix`. */
static void append_indented(struct bl_buffer *out, struct bl_text text, const char *prefix)
{
    struct bl_text line;

    while (bl_text_split(&text, '\n', &line)) {
        bl_buffer_append(out, bl_text_from(prefix));
        session_text_append_line(out, line, SIZE_MAX);
    }
}

static void append_turn(struct bl_buffer *out, struct bl_text json)
{
    struct bl_json_limits limits = {.size_max = (size_t)1 << 30, .string_max = (size_t)1 << 30};
    const struct bl_json *turn;
    BL_AUTO_ARENA(arena);

    if (bl_json_read(&arena, json, &limits, &turn, NULL) == 0) {
        struct bl_text id = session_text_member(turn, "turn_id"),
                       reason = session_text_member(turn, "stop_reason");
        bool interrupted = bl_json_boolean(bl_json_get(turn, BL_TEXT("interrupted")), false);
        bl_buffer_printf(out, "\n" BL_TEXT_FORMAT "  " BL_TEXT_FORMAT "%s\n", BL_TEXT_ARG(id),
                         BL_TEXT_ARG(reason), interrupted ? ", interrupted" : "");
        append_indented(out, session_text_member(turn, "prompt"), "  > ");
        append_indented(out, session_text_member(turn, "output"), "    ");
    }
}

static void append_attempt(struct bl_buffer *out, struct bl_text json)
{
    struct bl_json_limits limits = {.size_max = (size_t)1 << 30, .string_max = (size_t)1 << 30};
    const struct bl_json *attempt;
    BL_AUTO_ARENA(arena);

    if (bl_json_read(&arena, json, &limits, &attempt, NULL) == 0) {
        const struct bl_json *result = bl_json_get(attempt, BL_TEXT("result"));
        struct bl_text id = session_text_member(attempt, "turn_id"),
                       state = session_text_member(attempt, "state");
        struct bl_text reason = session_text_member(result, "stop_reason");
        bl_buffer_printf(out, "\n" BL_TEXT_FORMAT "  " BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT "\n",
                         BL_TEXT_ARG(id), BL_TEXT_ARG(state), reason.size > 0 ? ": " : "",
                         BL_TEXT_ARG(reason));
        append_indented(out, session_text_member(attempt, "prompt"), "  > ");
        append_indented(out, session_text_member(result, "output"), "    ");
    }
}

/* Names of personas come from files of others, and ids of turns from imports. */
static void append_agent(struct bl_buffer *out, const struct bl_store_summary *summary)
{
    bl_buffer_printf(out, "Agent of   %s\n", summary->agent_of);
    if (summary->agent_turn != NULL) {
        bl_buffer_append(out, BL_TEXT("In turn    "));
        session_text_append_line(out, bl_text_from(summary->agent_turn), SIZE_MAX);
    }
    if (summary->persona != NULL) {
        bl_buffer_append(out, BL_TEXT("Persona    "));
        session_text_append_line(out, bl_text_from(summary->persona), SIZE_MAX);
    }
}

void session_show_text(struct bl_buffer *out, const struct session_work *work)
{
    const struct bl_store_session_view *view = &work->view;
    const struct bl_store_summary *summary = &view->summary;
    char created[32], updated[32];

    format_time(summary->created_wall_ns, created);
    format_time(summary->updated_wall_ns, updated);
    bl_buffer_printf(out, "Session    %s\nTitle      ", summary->id);
    session_text_append_line(out, bl_text_from(summary->title), SIZE_MAX);
    bl_buffer_append(out, BL_TEXT("Directory  "));
    session_text_append_line(out, bl_text_from(summary->directory), SIZE_MAX);
    if (summary->parent != NULL)
        bl_buffer_printf(out, "Fork of    %s\n", summary->parent);
    if (summary->agent_of != NULL)
        append_agent(out, summary);
    if (summary->held_by != NULL)
        bl_buffer_printf(out, "Held by    %s\n", summary->held_by);
    bl_buffer_printf(out,
                     "Created    %s UTC\nUpdated    %s UTC\nTurns      %zu\n"
                     "Used       %" PRIu64 " tokens in, %" PRIu64 " out\n"
                     "Spent      %" PRIu64 " tokens in, %" PRIu64 " out\n",
                     created, updated, view->turn_count, summary->usage.input_tokens,
                     summary->usage.output_tokens, summary->spent.usage.input_tokens,
                     summary->spent.usage.output_tokens);
    for (size_t i = 0; i < view->turn_count; i++)
        append_turn(out, view->turns[i]);
    if (view->attempt_count > 0)
        bl_buffer_append(out, BL_TEXT("\nAttempts that are not in the session:\n"));
    for (size_t i = 0; i < view->attempt_count; i++)
        append_attempt(out, view->attempts[i]);
}
