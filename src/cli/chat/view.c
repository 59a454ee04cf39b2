/* Design notes.
 *
 * What is final goes to `lines`, in the order in which it ended: text block by block, a call when
 * it has ended. What is under way is made anew for each look: the block of text that is being
 * written, the end of the thinking, and each call with the newest lines of its output. Calls of
 * sub-agents stand below the call that started them, while it runs; of them only a summary stays.
 */
#include <inttypes.h>
#include <stdio.h>

#include "view.h"

#define THINKING_MAX      ((size_t)2 * CHAT_THINKING_SHOWN) /* kept of it, at least */
#define SUBJECT_SHOWN_MAX 100u

static const struct text_style dim = {.dim = true}, bold = {.bold = true},
                               yellow = {.colour = TEXT_YELLOW}, red = {.colour = TEXT_RED};

struct chat_view *chat_view_new(size_t columns, bool colours)
{
    struct chat_view *view = bl_zalloc(sizeof *view);

    view->columns = columns;
    view->colours = colours;
    bl_buffer_init(&view->lines, SIZE_MAX / 2);
    bl_buffer_init(&view->thinking, SIZE_MAX / 2);
    bl_list_init(&view->calls);
    bl_list_init(&view->agents);
    return view;
}

static void agent_free(struct chat_agent *agent)
{
    bl_list_remove(&agent->link);
    bl_arena_done(&agent->arena);
    bl_free(agent);
}

void chat_view_free(struct chat_view *view)
{
    if (view == NULL)
        return;
    BL_LIST_EACH_SAFE (link, &view->calls)
        chat_call_free(BL_CONTAINER(link, struct chat_call, link));
    BL_LIST_EACH_SAFE (link, &view->agents)
        agent_free(BL_CONTAINER(link, struct chat_agent, link));
    markdown_free(view->text);
    bl_buffer_done(&view->lines);
    bl_buffer_done(&view->thinking);
    bl_free(view);
}

/* ---- Final lines ----------------------------------------------------------------------------- */

bool chat_is_set_off(const struct chat_view *view, enum chat_kind kind)
{
    bool together = kind == view->last && (kind == KIND_CALL || kind == KIND_NOTE);

    return view->last != KIND_NONE && !together;
}

static struct chat_frame begin_final(struct chat_view *view, enum chat_kind kind)
{
    if (chat_is_set_off(view, kind))
        bl_buffer_append_byte(&view->lines, '\n');
    view->last = kind;
    return (struct chat_frame){
        .out = &view->lines, .columns = view->columns, .colours = view->colours};
}

static void take_text_lines(struct chat_view *view)
{
    BL_AUTO_BUFFER(lines, SIZE_MAX / 2);

    markdown_take_lines(view->text, &lines);
    if (lines.size > 0) {
        if (!view->text_begun)
            begin_final(view, KIND_TEXT);
        view->text_begun = true;
        bl_buffer_append(&view->lines, bl_buffer_text(&lines));
    }
}

/* Of what the model thought one line stays. */
static void chat_view_end_thinking(struct chat_view *view)
{
    struct bl_text text = bl_text_trim(bl_buffer_text(&view->thinking)), first;

    if (text.size > 0 && bl_text_split(&text, '\n', &first)) {
        struct chat_frame frame = begin_final(view, KIND_NOTE);
        struct text_line line;
        text_line_init(&line, frame.out, frame.columns, frame.colours);
        text_line_add(&line, BL_TEXT("thought: "), &dim);
        text_line_add(&line, first, &dim);
        text_line_end(&line);
    }
    bl_buffer_clear(&view->thinking);
}

static void end_text(struct chat_view *view)
{
    chat_view_end_thinking(view);
    if (view->text == NULL)
        return;
    markdown_end(view->text);
    take_text_lines(view);
    markdown_free(view->text);
    view->text = NULL;
    view->text_begun = false;
}

static void chat_view_note(struct chat_view *view, const char *mark, struct bl_text text,
                           const struct text_style *style)
{
    end_text(view);
    struct chat_frame frame = begin_final(view, KIND_NOTE);
    chat_paragraph(&frame, mark, text, style);
}

void chat_view_say(struct chat_view *view, struct bl_text text, const struct text_style *style)
{
    chat_view_note(view, "", text, style);
}

void chat_view_row(struct chat_view *view, const char *name, struct bl_text text,
                   const struct text_style *style)
{
    chat_view_note(view, name, text, style);
}

void chat_view_end_text(struct chat_view *view)
{
    end_text(view);
}

void chat_view_prompt(struct chat_view *view, struct bl_text prompt)
{
    end_text(view);
    struct chat_frame frame = begin_final(view, KIND_PROMPT);
    chat_paragraph(&frame, "> ", prompt, &bold);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void chat_view_take_text(struct chat_view *view, struct bl_text text)
{
    chat_view_end_thinking(view);
    if (view->text == NULL)
        view->text = markdown_new(view->columns, view->colours);
    markdown_add(view->text, text);
    take_text_lines(view);
}

static void chat_view_take_thinking(struct chat_view *view, struct bl_text text)
{
    struct bl_buffer *thinking = &view->thinking;

    if (view->text != NULL)
        end_text(view);
    bl_buffer_append(thinking, text);
    /* Its beginning is what stays, its end is what is shown now. */
    if (thinking->size > 2 * THINKING_MAX)
        memmove(thinking->data + THINKING_MAX / 2,
                thinking->data + thinking->size - THINKING_MAX / 2, THINKING_MAX / 2);
    if (thinking->size > 2 * THINKING_MAX)
        thinking->size = THINKING_MAX;
}

/* ---- Calls and agents ------------------------------------------------------------------------ */

static struct chat_agent *find_agent(const struct chat_view *view, const char *id)
{
    BL_LIST_EACH (link, &view->agents) {
        struct chat_agent *agent = BL_CONTAINER(link, struct chat_agent, link);
        if (id != NULL && bl_text_equal(agent->id, bl_text_from(id)))
            return agent;
    }
    return NULL;
}

struct bl_text chat_view_agent_name(const struct chat_view *view, const char *id)
{
    const struct chat_agent *agent = find_agent(view, id);

    return agent != NULL ? agent->name : (struct bl_text){0};
}

/* Ids of calls are one agent's own. */
static struct chat_call *chat_view_find_call(const struct chat_view *view,
                                             const struct bl_event *event)
{
    const struct chat_agent *agent = find_agent(view, event->agent);

    BL_LIST_EACH (link, &view->calls) {
        struct chat_call *call = BL_CONTAINER(link, struct chat_call, link);
        if (call->agent == agent && bl_text_equal(call->id, event->id))
            return call;
    }
    return NULL;
}

static void take_requested(struct chat_view *view, const struct bl_event *event)
{
    struct chat_agent *agent = find_agent(view, event->agent);

    if (event->agent != NULL && agent == NULL)
        return;
    if (event->agent == NULL && !event->nested)
        end_text(view);
    bl_list_push_back(&view->calls, &chat_call_new(event, agent)->link);
}

static struct chat_agent *agent_below(const struct chat_view *view, const struct chat_agent *above)
{
    BL_LIST_EACH (link, &view->agents) {
        struct chat_agent *agent = BL_CONTAINER(link, struct chat_agent, link);
        if (agent->above == above)
            return agent;
    }
    return NULL;
}

/* With all that is below it. */
static void forget_agent(struct chat_view *view, struct chat_agent *gone)
{
    struct chat_agent *below;

    BL_LIST_EACH_SAFE (link, &view->calls) {
        struct chat_call *call = BL_CONTAINER(link, struct chat_call, link);
        if (call->agent == gone)
            chat_call_free(call);
    }
    while ((below = agent_below(view, gone)) != NULL)
        forget_agent(view, below);
    agent_free(gone);
}

static void make_agent_note(const struct chat_agent *agent, char *out, size_t size)
{
    char tokens[24];
    int length =
        snprintf(out, size, "%s%s%" PRIu64 " call%s", agent->status,
                 agent->status[0] != '\0' ? ", " : "", agent->calls, agent->calls == 1 ? "" : "s");
    if (agent->tokens > 0 && length > 0 && (size_t)length < size)
        snprintf(out + length, size - (size_t)length, ", %s tokens",
                 chat_short_count(agent->tokens, tokens));
}

static void take_ended(struct chat_view *view, const struct bl_event *event)
{
    struct chat_call *call = chat_view_find_call(view, event);
    char agent_note[96] = "";

    if (call == NULL)
        return;
    struct chat_agent *child = chat_agent_of(view, call);
    if (child != NULL) {
        make_agent_note(child, agent_note, sizeof agent_note);
        forget_agent(view, child);
    }
    if (call->agent != NULL) {
        call->agent->calls++;
        call->agent->last = bl_arena_printf(
            &call->agent->arena, BL_TEXT_FORMAT "  " BL_TEXT_FORMAT, BL_TEXT_ARG(call->name),
            BL_TEXT_ARG(bl_utf8_cut(call->line, SUBJECT_SHOWN_MAX)));
    } else {
        struct chat_end end = {.status = event->status,
                               .ms = event->ms,
                               .text = event->text,
                               .note = bl_text_from(agent_note)};
        end_text(view);
        struct chat_frame frame = begin_final(view, KIND_CALL);
        chat_call_ended(call, &end, &frame);
        view->model_since_ns = bl_clock_now_ns(&bl_clock_system);
    }
    chat_call_free(call);
}

static void take_agent_started(struct chat_view *view, const struct bl_event *event)
{
    struct chat_agent *agent = bl_zalloc(sizeof *agent);

    bl_arena_init(&agent->arena);
    agent->id = bl_arena_text(&agent->arena, bl_text_from(event->child));
    agent->name = bl_arena_text(&agent->arena, event->name);
    agent->call = bl_arena_text(&agent->arena, event->id);
    agent->above = find_agent(view, event->agent);
    bl_list_push_back(&view->agents, &agent->link);
}

static void take_agent_ended(struct chat_view *view, const struct bl_event *event)
{
    struct chat_agent *agent = find_agent(view, event->child);

    if (agent == NULL)
        return;
    agent->ended = true;
    agent->tokens = event->usage != NULL ? bl_usage_total(event->usage) : 0;
    /* Of one that was stopped its call says so. */
    bool plain = event->status == NULL || strcmp(event->status, "completed") == 0 ||
                 strcmp(event->status, "cancelled") == 0;
    bl_text_into(agent->status, sizeof agent->status, plain ? "" : event->status);
    for (char *byte = agent->status; *byte != '\0'; byte++)
        *byte = *byte == '_' ? ' ' : *byte;
}

/* ---- What is said of a turn ------------------------------------------------------------------ */

static void tell_error(struct chat_view *view, const char *message, const char *hint)
{
    if (message == NULL || message[0] == '\0' || strcmp(message, view->error_told) == 0)
        return;
    bl_text_into(view->error_told, sizeof view->error_told, message);
    chat_view_note(view, "✗ ", bl_text_from(message), &red);
    if (hint != NULL && hint[0] != '\0')
        chat_view_note(view, "  ", bl_text_from(hint), &dim);
}

static void chat_view_take_retry(struct chat_view *view, const struct bl_event *event)
{
    const struct bl_piece *piece = event->piece;
    struct bl_buffer text;
    char wait[32];

    if (event->agent != NULL)
        return;
    bl_duration_format((int64_t)(piece->retry.wait_ms * BL_NS_PER_MS), wait);
    snprintf(view->retry, sizeof view->retry, "retry %" PRIu32 " of %" PRIu32, piece->retry.attempt,
             piece->retry.of);
    /* What was shown of the answer and is not final yet goes. */
    if (event->count > 0) {
        markdown_free(view->text);
        view->text = NULL;
        view->text_begun = false;
        bl_buffer_clear(&view->thinking);
    }
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_printf(&text, "%s in %s: %s", view->retry, wait, piece->retry.code);
    if (event->count > 0)
        bl_buffer_append(&text, BL_TEXT("; the answer begins anew"));
    chat_view_note(view, "", bl_buffer_text(&text), &yellow);
    bl_buffer_done(&text);
}

void chat_view_receipt(struct chat_view *view, struct bl_text receipt)
{
    end_text(view);
    struct chat_frame frame = begin_final(view, KIND_NOTE);
    chat_receipt(receipt, true, &frame, 0);
}

static void chat_view_take_receipt(struct chat_view *view, const struct bl_event *event)
{
    struct chat_call *call = chat_view_find_call(view, event);

    if (event->id.size > 0) {
        if (call != NULL)
            call->receipt = bl_arena_text(&call->arena, event->json);
        return;
    }
    if (event->agent == NULL)
        chat_view_receipt(view, event->json);
}

static void tell_result(struct chat_view *view, const struct bl_turn_result *result)
{
    static const char *const texts[] = {
        [BL_TURN_MAX_TURNS] = "Not answered: the session has all the turns that it may have.",
        [BL_TURN_MAX_BUDGET] = "Stopped: the budget is used up.",
        [BL_TURN_MAX_STEPS] = "Stopped: the limit of tool calls for one turn is reached.",
        [BL_TURN_CANCELLED] = "Cancelled: the turn is not part of the session.",
        [BL_TURN_TIMEOUT] = "Stopped: the deadline was reached.",
    };
    const char *text = result->end < BL_COUNT(texts) ? texts[result->end] : NULL;

    if (result->interrupted)
        chat_view_note(view, "", BL_TEXT("Stopped: what was said so far is kept."), &yellow);
    else if (text != NULL)
        chat_view_note(view, "", bl_text_from(text), &yellow);
    if (result->truncated)
        chat_view_note(view, "",
                       BL_TEXT("The answer was cut: the model's limit of output is reached."),
                       &yellow);
    tell_error(view, result->error.message, result->error.hint);
}

static void take_turn_ended(struct chat_view *view, const struct bl_event *event)
{
    static const struct chat_end not_run = {0};
    const struct bl_json *value;
    struct bl_turn_result result;
    BL_AUTO_ARENA(arena);

    end_text(view);
    while (!bl_list_empty(&view->agents))
        forget_agent(view, BL_CONTAINER(view->agents.next, struct chat_agent, link));
    /* Those that the turn's end came before. */
    BL_LIST_EACH_SAFE (link, &view->calls) {
        struct chat_call *call = BL_CONTAINER(link, struct chat_call, link);
        if (call->nested)
            continue;
        struct chat_frame frame = begin_final(view, KIND_CALL);
        chat_call_ended(call, &not_run, &frame);
        chat_call_free(call);
    }
    if (bl_json_read(&arena, event->json, NULL, &value, NULL) == 0) {
        bl_record_take(&arena, &bl_turn_result_record, value, &result);
        tell_result(view, &result);
    }
    view->turn_open = false;
    view->stopping = false;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void take_question(struct chat_view *view, const struct bl_event *event)
{
    struct chat_call *call = chat_view_find_call(view, event);
    bool denied = event->status != NULL && strcmp(event->status, "allowed") != 0;

    if (call == NULL)
        return;
    bool asked = event->type == BL_EVENT_PERMISSION_ASKED;
    call->question = asked ? bl_arena_text(&call->arena, event->text) : (struct bl_text){0};
    if (!asked && denied)
        call->reason = bl_arena_text(&call->arena, event->text);
}

static void take_call_event(struct chat_view *view, const struct bl_event *event)
{
    struct chat_call *call = chat_view_find_call(view, event);

    if (call == NULL)
        return;
    if (event->type == BL_EVENT_TOOL_OUTPUT) {
        chat_output_add(&call->output, event->text);
        return;
    }
    call->running = true;
    call->since_ns = bl_clock_now_ns(&bl_clock_system);
}

static void take_turn_started(struct chat_view *view, const struct bl_event *event)
{
    if (event->agent != NULL)
        return;
    view->turn_open = true;
    view->stopping = false;
    view->error_told[0] = '\0';
    view->model_since_ns = bl_clock_now_ns(&bl_clock_system);
}

static void chat_view_take_cell(struct chat_view *view, const struct bl_event *event)
{
    char text[160];

    if (event->agent == NULL && chat_cell_text(event, text, sizeof text))
        chat_view_note(view, "", bl_text_from(text), &dim);
}

static void take_compacted(struct chat_view *view, uint64_t dropped)
{
    char text[96];

    snprintf(text, sizeof text, "Made room: %" PRIu64 " earlier turn%s summed up for the model.",
             dropped, dropped == 1 ? " is" : "s are");
    chat_view_note(view, "", bl_text_from(text), &dim);
}

void chat_view_event(struct chat_view *view, const struct bl_event *event)
{
    bool root = event->agent == NULL;

    /* Anything but a retry means that the wait is over. */
    view->retry[0] = event->type == BL_EVENT_RETRY || !root ? view->retry[0] : '\0';
    switch (event->type) {
    case BL_EVENT_TURN_STARTED: take_turn_started(view, event); break;
    case BL_EVENT_TEXT_DELTA:
        if (root)
            chat_view_take_text(view, event->text);
        break;
    case BL_EVENT_THINKING_DELTA:
        if (root)
            chat_view_take_thinking(view, event->text);
        break;
    case BL_EVENT_TOOL_REQUESTED: take_requested(view, event); break;
    case BL_EVENT_PERMISSION_ASKED:
    case BL_EVENT_PERMISSION_ANSWERED: take_question(view, event); break;
    case BL_EVENT_TOOL_STARTED:
    case BL_EVENT_TOOL_OUTPUT: take_call_event(view, event); break;
    case BL_EVENT_TOOL_ENDED: take_ended(view, event); break;
    case BL_EVENT_SUBAGENT_STARTED: take_agent_started(view, event); break;
    case BL_EVENT_SUBAGENT_ENDED: take_agent_ended(view, event); break;
    case BL_EVENT_CELL_CREATED:
    case BL_EVENT_CELL_YIELDED:
    case BL_EVENT_CELL_ENDED:
    case BL_EVENT_CELL_SETTLED: chat_view_take_cell(view, event); break;
    case BL_EVENT_MESSAGE_INJECTED:
        if (root)
            chat_view_prompt(view, event->text);
        break;
    case BL_EVENT_COMPACTED:
        if (root)
            take_compacted(view, event->count);
        break;
    case BL_EVENT_RETRY: chat_view_take_retry(view, event); break;
    case BL_EVENT_CANCEL_REQUESTED: view->stopping = view->stopping || root; break;
    case BL_EVENT_RECEIPT: chat_view_take_receipt(view, event); break;
    case BL_EVENT_TURN_ENDED:
        if (root)
            take_turn_ended(view, event);
        break;
    case BL_EVENT_WARNING: chat_view_note(view, "! ", event->text, &yellow); break;
    case BL_EVENT_ERROR: tell_error(view, event->error->message, event->error->hint); break;
    case BL_EVENT_RUN_STARTED:
    case BL_EVENT_RUN_ENDED:
    case BL_EVENT_USAGE: break;
    }
    chat_phase_update(view);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

void chat_view_resize(struct chat_view *view, size_t columns)
{
    view->columns = columns;
    if (view->text != NULL)
        markdown_resize(view->text, columns);
}

void chat_view_take_lines(struct chat_view *view, struct bl_buffer *out)
{
    bl_buffer_append(out, bl_buffer_text(&view->lines));
    bl_buffer_clear(&view->lines);
}
