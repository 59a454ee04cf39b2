#include <inttypes.h>

#include "cli/columns.h"
#include "session.h"

/* Appends a text as one line, with control sequences escaped. */
static void session_text_append_line(struct bl_buffer *out, struct bl_text text, size_t size_max)
{
    struct bl_text cut = bl_utf8_cut(text, size_max);

    bl_text_show(out, cut, BL_SHOW_LINE);
    if (cut.size < text.size)
        bl_buffer_append(out, BL_TEXT("…"));
    bl_buffer_append_byte(out, '\n');
}

/* Writes "2026-11-15 18:50", in UTC. */
static void format_time(int64_t wall_ns, char out[32])
{
    bl_time_format(wall_ns, out);
    out[10] = ' ';
    out[16] = '\0';
}

static const struct cli_column list_columns[] = {
    {"ID", 0, 0, false, false},       {"TURNS", 60, 0, true, false},
    {"COST", 70, 0, true, false},     {"AGE", 80, 0, true, false},
    {"HELD BY", 50, 8, false, false}, {"AGENT OF", 40, 8, false, false},
    {"TITLE", 0, 12, false, false},
};

static void session_text_fill_row(struct bl_arena *arena, const struct bl_store_summary *summary,
                                  int64_t wall_ns, struct bl_text *cells)
{
    char age[32];

    bl_duration_format(wall_ns > summary->updated_wall_ns ? wall_ns - summary->updated_wall_ns : 0,
                       age);
    cells[0] = bl_arena_text(arena, bl_text_from(summary->id));
    cells[1] = bl_arena_printf(arena, "%" PRIu64, summary->turns);
    cells[2] = summary->spent.cost_unknown
                   ? BL_TEXT("-")
                   : bl_arena_printf(arena, summary->spent.cost_usd < 1 ? "$%.3f" : "$%.2f",
                                     summary->spent.cost_usd);
    cells[3] = bl_arena_text(arena, bl_text_from(age));
    cells[4] = cli_columns_cell(arena, bl_text_from(summary->held_by));
    cells[5] = cli_columns_cell(arena, bl_text_from(summary->agent_of));
    cells[6] = cli_columns_cell(arena, bl_text_from(summary->title));
}

void session_list_text(struct bl_buffer *out, const struct session_work *work)
{
    const size_t count = BL_COUNT(list_columns);
    int64_t wall_ns = bl_clock_wall_ns(&bl_clock_system);
    size_t rows = 0;
    BL_AUTO_ARENA(arena);

    if (bl_list_empty(&work->summaries)) {
        bl_buffer_append(
            out,
            work->all
                ? BL_TEXT("No sessions.\n")
                : BL_TEXT(
                      "No sessions in this directory; --all lists those of all directories.\n"));
        return;
    }
    BL_LIST_EACH (link, &work->summaries)
        rows++;
    struct bl_text *cells = bl_arena_zalloc(&arena, rows * count * sizeof *cells);
    rows = 0;
    BL_LIST_EACH (link, &work->summaries) {
        const struct bl_store_summary *summary = BL_CONTAINER(link, struct bl_store_summary, link);
        session_text_fill_row(&arena, summary, wall_ns, cells + count * rows++);
    }
    cli_columns_write(out, list_columns, count, cells, rows, cli_columns_width());
}

/* ---- One session ----------------------------------------------------------------------------- */

static struct bl_text session_text_member(const struct bl_json *object, const char *key)
{
    return bl_json_text(bl_json_get(object, bl_text_from(key)));
}

/* Appends the lines of a text, each after `prefix`. */
static void append_indented(struct bl_buffer *out, struct bl_text text, const char *prefix)
{
    struct bl_text line;

    while (bl_text_split(&text, '\n', &line)) {
        bl_buffer_append(out, bl_text_from(prefix));
        session_text_append_line(out, line, SIZE_MAX);
    }
}

/* Appends lines such as "    ● bash  ok, 223 ms". */
static void append_steps(struct bl_buffer *out, const struct bl_json *steps)
{
    BL_JSON_EACH (step, steps) {
        struct bl_text status = session_text_member(step, "status");
        int64_t ms = 0;
        char time[32];
        bl_buffer_append(out, BL_TEXT("    ● "));
        bl_text_show(out, session_text_member(step, "tool"), BL_SHOW_LINE);
        bl_buffer_append(out, BL_TEXT("  "));
        for (size_t i = 0; i < status.size; i++)
            bl_buffer_append_byte(out, status.data[i] == '_' ? ' ' : status.data[i]);
        if (bl_json_int64(bl_json_get(step, BL_TEXT("ms")), &ms) && ms > 0 &&
            ms < INT64_MAX / (int64_t)BL_NS_PER_MS) {
            bl_duration_format(ms * (int64_t)BL_NS_PER_MS, time);
            bl_buffer_printf(out, ", %s", time);
        }
        bl_buffer_append_byte(out, '\n');
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
        append_steps(out, bl_json_get(turn, BL_TEXT("steps")));
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
        append_steps(out, bl_json_get(result, BL_TEXT("steps")));
        append_indented(out, session_text_member(result, "output"), "    ");
    }
}

/* Appends the receipt of a background command, a cell, or processes that a dead owner left running.
 */
static void append_receipt(struct bl_buffer *out, struct bl_text json)
{
    const struct bl_json *value;
    struct bl_receipt_row receipt;
    char when[32];
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(line, 4096);

    if (bl_json_read(&arena, json, NULL, &value, NULL) != 0)
        return;
    bl_record_take(&arena, &bl_receipt_record, value, &receipt);
    format_time(receipt.requested_wall_ns, when);
    bl_receipt_row_line(&receipt, &line);
    bl_buffer_printf(out, "\n%s  %s, %s UTC\n", receipt.id != NULL ? receipt.id : "",
                     receipt.scope != NULL ? receipt.scope : "", when);
    append_indented(out, bl_text_trim(bl_buffer_text(&line)), "    ");
}

/* Escapes control sequences: names of personas come from files of others, ids of turns from
 * imports. */
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
    char created[32], updated[32], used[CLI_USAGE_SIZE], spent[CLI_USAGE_SIZE];

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
                     "Used       %s\nSpent      %s\n",
                     created, updated, view->turn_count, cli_usage_text(&summary->usage, used),
                     cli_usage_text(&summary->spent.usage, spent));
    for (size_t i = 0; i < view->turn_count; i++)
        append_turn(out, view->turns[i]);
    if (view->attempt_count > 0)
        bl_buffer_append(out, BL_TEXT("\n"
                                      "Attempts, not part of the session:\n"));
    for (size_t i = 0; i < view->attempt_count; i++)
        append_attempt(out, view->attempts[i]);
    if (view->receipt_count > 0)
        bl_buffer_append(out, BL_TEXT("\n"
                                      "Other stops:\n"));
    for (size_t i = 0; i < view->receipt_count; i++)
        append_receipt(out, view->receipts[i]);
}
