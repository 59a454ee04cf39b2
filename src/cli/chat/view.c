/* Design notes.
 *
 * Final lines go to `lines`, in the order in which they become final: text block by block, a call
 * when it has ended. Everything in progress is laid out again for each frame: the current block of
 * text, the end of the thinking, and each call with the newest lines of its output. Calls of
 * sub-agents are shown below the call that started them while it runs; only a summary of them
 * remains. */
#include <inttypes.h>
#include <stdio.h>

#include "view.h"

#define THINKING_MAX      ((size_t)2 * CHAT_THINKING_SHOWN) /* bytes kept, at least */
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
    bl_buffer_init(&view->said, SIZE_MAX / 2);
    chat_transcript_init(&view->transcript);
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
    chat_transcript_done(&view->transcript);
    BL_LIST_EACH_SAFE (link, &view->calls)
        chat_call_free(BL_CONTAINER(link, struct chat_call, link));
    BL_LIST_EACH_SAFE (link, &view->agents)
        agent_free(BL_CONTAINER(link, struct chat_agent, link));
    markdown_free(view->text);
    bl_buffer_done(&view->lines);
    bl_buffer_done(&view->thinking);
    bl_buffer_done(&view->said);
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

/* Ends the thinking; its first line remains. */
static void chat_view_end_thinking(struct chat_view *view)
{
    struct bl_text text = bl_text_trim(bl_buffer_text(&view->thinking)), first;

    if (text.size > 0)
        chat_transcript_note(&view->transcript, "", text, &dim);
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
    chat_transcript_markdown(&view->transcript, bl_buffer_text(&view->said));
    bl_buffer_clear(&view->said);
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
    chat_transcript_note(&view->transcript, mark, text, style);
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

void chat_view_line(struct chat_view *view, struct bl_text text, const struct text_style *style)
{
    end_text(view);
    struct chat_frame frame = begin_final(view, KIND_NOTE);
    chat_line(&frame, 0, text, style);
}

void chat_view_markdown(struct chat_view *view, struct bl_text text)
{
    end_text(view);
    begin_final(view, KIND_TEXT);
    markdown_render(text, view->columns, view->colours, &view->lines);
}

void chat_view_prompt(struct chat_view *view, struct bl_text prompt)
{
    end_text(view);
    chat_transcript_prompt(&view->transcript, prompt);
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
    bl_buffer_append(&view->said, text);
    view->transcript.version++;
    take_text_lines(view);
}

static void chat_view_take_thinking(struct chat_view *view, struct bl_text text)
{
    struct bl_buffer *thinking = &view->thinking;

    if (view->text != NULL)
        end_text(view);
    bl_buffer_append(thinking, text);
    /* Keep the beginning, which remains, and the end, which is shown now. */
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

/* Finds a call; ids of calls are unique only within one agent. */
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
    struct chat_call *call = chat_call_new(event, agent);
    bl_list_push_back(&view->calls, &call->link);
    chat_transcript_call(&view->transcript, call);
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

/* Removes an agent with all agents below it. */
static void forget_agent(struct chat_view *view, struct chat_agent *gone)
{
    static const struct chat_end not_run = {0};
    struct chat_agent *below;

    BL_LIST_EACH_SAFE (link, &view->calls) {
        struct chat_call *call = BL_CONTAINER(link, struct chat_call, link);
        if (call->agent == gone)
            chat_transcript_ended(&view->transcript, call, &not_run);
    }
    while ((below = agent_below(view, gone)) != NULL)
        forget_agent(view, below);
    agent_free(gone);
}

static void make_agent_note(const struct chat_agent *agent, char *out, size_t size)
{
    char tokens[32];
    int length =
        snprintf(out, size, "%s%s%" PRIu64 " call%s", agent->status,
                 agent->status[0] != '\0' ? ", " : "", agent->calls, agent->calls == 1 ? "" : "s");
    if (agent->tokens > 0 && length > 0 && (size_t)length < size)
        snprintf(out + length, size - (size_t)length, ", %s", chat_tokens(agent->tokens, tokens));
}

static void take_ended(struct chat_view *view, const struct bl_event *event)
{
    struct chat_call *call = chat_view_find_call(view, event);
    char agent_note[96] = "";
    struct chat_end end = {.status = event->status, .ms = event->ms, .text = event->text};

    if (call == NULL)
        return;
    chat_call_take_result(call, event->text);
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
        end.note = bl_text_from(agent_note);
        end_text(view);
        struct chat_frame frame = begin_final(view, KIND_CALL);
        chat_call_ended(call, &end, &frame, 0);
        view->model_since_ns = bl_clock_now_ns(&bl_clock_system);
    }
    chat_transcript_ended(&view->transcript, call, &end);
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
    /* For a stopped agent, its call shows the stop. */
    bool plain = event->status == NULL || strcmp(event->status, "completed") == 0 ||
                 strcmp(event->status, "cancelled") == 0;
    bl_text_into(agent->status, sizeof agent->status, plain ? "" : event->status);
    for (char *byte = agent->status; *byte != '\0'; byte++)
        *byte = *byte == '_' ? ' ' : *byte;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static void tell_error(struct chat_view *view, const char *message, const char *hint)
{
    if (view->ends_left || message == NULL || message[0] == '\0' ||
        strcmp(message, view->error_told) == 0)
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
    /* Drop the part of the answer that is not final yet. */
    if (event->count > 0) {
        markdown_free(view->text);
        view->text = NULL;
        view->text_begun = false;
        bl_buffer_clear(&view->said);
        bl_buffer_clear(&view->thinking);
    }
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_printf(&text, "%s in %s: %s", view->retry, wait, piece->retry.code);
    if (event->count > 0)
        bl_buffer_append(&text, BL_TEXT("; the answer starts over"));
    chat_view_note(view, "", bl_buffer_text(&text), &yellow);
    bl_buffer_done(&text);
}

static void chat_view_receipt_of(struct chat_view *view, struct bl_text receipt,
                                 const struct bl_turn_result *turn)
{
    end_text(view);
    chat_transcript_receipt(&view->transcript, receipt);
    struct chat_frame frame = begin_final(view, KIND_NOTE);
    chat_receipt(receipt, turn, true, &frame, 0);
}

void chat_view_receipt(struct chat_view *view, struct bl_text receipt)
{
    chat_view_receipt_of(view, receipt, NULL);
}

static void chat_view_take_receipt(struct chat_view *view, const struct bl_event *event)
{
    struct chat_call *call = chat_view_find_call(view, event);

    if (event->id.size > 0) {
        if (call != NULL)
            call->receipt = bl_arena_text(&call->arena, event->json);
        else if (chat_receipt_of_job(event))
            chat_receipt_show_job(view, event);
        return;
    }
    /* The receipt of a turn is in its result. */
    if (event->agent == NULL && event->turn == NULL && !view->ends_left)
        chat_view_receipt(view, event->json);
}

static void tell_result(struct chat_view *view, const struct bl_turn_result *result)
{
    static const char *const texts[] = {
        [BL_TURN_MAX_TURNS] = "Not answered: the session has reached its turn limit.",
        [BL_TURN_MAX_BUDGET] = "Stopped: the budget is used up.",
        [BL_TURN_MAX_STEPS] = "Stopped: the limit for tool calls in one turn was reached.",
        [BL_TURN_CANCELLED] = "Cancelled: the turn was not committed.",
        [BL_TURN_TIMEOUT] = "Stopped: the deadline was reached.",
    };
    const char *text = result->end < BL_COUNT(texts) ? texts[result->end] : NULL;

    if (result->interrupted && !view->ends_left)
        chat_view_note(view, "", BL_TEXT("Turn stopped; partial output kept."), &yellow);
    else if (text != NULL && !view->ends_left)
        chat_view_note(view, "", bl_text_from(text), &yellow);
    if (result->truncated)
        chat_view_note(view, "",
                       BL_TEXT("The answer was cut off: the model's output limit was reached."),
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
    /* Calls that had not ended. */
    BL_LIST_EACH_SAFE (link, &view->calls) {
        struct chat_call *call = BL_CONTAINER(link, struct chat_call, link);
        if (call->nested)
            continue;
        struct chat_frame frame = begin_final(view, KIND_CALL);
        chat_call_ended(call, &not_run, &frame, 0);
        chat_transcript_ended(&view->transcript, call, &not_run);
    }
    if (bl_json_read(&arena, event->json, NULL, &value, NULL) == 0) {
        bl_record_take(&arena, &bl_turn_result_record, value, &result);
        if (result.receipt.size > 0 && !view->ends_left)
            chat_view_receipt_of(view, result.receipt, &result);
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
        view->transcript.version++;
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

    snprintf(text, sizeof text, "Compacted %" PRIu64 " earlier turn%s.", dropped,
             dropped == 1 ? "" : "s");
    chat_view_note(view, "", bl_text_from(text), &dim);
}

void chat_view_event(struct chat_view *view, const struct bl_event *event)
{
    bool root = event->agent == NULL;

    /* Any other event means that the wait for a retry is over. */
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
    case BL_EVENT_FINISH_REQUESTED:
        if (root)
            chat_view_note(view, "", BL_TEXT("Stopping after this step; Esc to stop at once."),
                           &dim);
        break;
    case BL_EVENT_MESSAGE_UNDELIVERED:
    case BL_EVENT_RUN_STARTED:
    case BL_EVENT_RUN_ENDED:
    case BL_EVENT_USAGE: break;
    }
    chat_phase_update(view);
}

void chat_view_leave_ends(struct chat_view *view)
{
    view->ends_left = true;
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

void chat_view_transcript(const struct chat_view *view, struct bl_buffer *out)
{
    struct chat_frame frame = {
        .out = out, .columns = view->columns, .colours = view->colours, .whole = true};

    chat_transcript_show(&view->transcript, &frame);
    if (view->said.size == 0)
        return;
    if (out->size > 0)
        bl_buffer_append_byte(out, '\n');
    markdown_render(bl_buffer_text(&view->said), view->columns, view->colours, out);
}

uint64_t chat_view_version(const struct chat_view *view)
{
    return view->transcript.version;
}
