/* The part of a conversation that is in progress, laid out again for each frame. */
#include <stdio.h>

#include "view.h"

#define THINKING_LINES    3u
#define OUTPUT_LIVE_ONE   5u /* lines of the output of a call that runs alone */
#define OUTPUT_LIVE_MANY  2u
#define AGENT_DEPTH_MAX   8u
#define SUBJECT_SHOWN_MAX 100u

static const struct text_style dim = {.dim = true};

struct chat_agent *chat_agent_of(const struct chat_view *view, const struct chat_call *call)
{
    BL_LIST_EACH (link, &view->agents) {
        struct chat_agent *agent = BL_CONTAINER(link, struct chat_agent, link);
        if (agent->above == call->agent && bl_text_equal(agent->call, call->id))
            return agent;
    }
    return NULL;
}

/* ---- The phase ------------------------------------------------------------------------------- */

static void live_set_phase(struct chat_view *view, uint64_t since_ns, const char *format, ...)
    BL_PRINTF(3, 4);

static void live_set_phase(struct chat_view *view, uint64_t since_ns, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(view->phase, sizeof view->phase, format, arguments);
    va_end(arguments);
    view->phase_since_ns = since_ns;
}

void chat_phase_update(struct chat_view *view)
{
    const struct chat_call *asking = NULL, *newest = NULL;
    unsigned running = 0;

    BL_LIST_EACH (link, &view->calls) {
        const struct chat_call *call = BL_CONTAINER(link, struct chat_call, link);
        asking = call->question.size > 0 ? call : asking;
        if (call->agent == NULL && call->running) {
            running++;
            newest = call;
        }
    }
    if (view->stopping)
        live_set_phase(view, view->model_since_ns, "stopping");
    else if (asking != NULL)
        live_set_phase(view, asking->since_ns, "waiting for your answer");
    else if (running > 1)
        live_set_phase(view, newest->since_ns, "%u tools", running);
    else if (running == 1)
        live_set_phase(view, newest->since_ns, BL_TEXT_FORMAT ": " BL_TEXT_FORMAT,
                       BL_TEXT_ARG(bl_utf8_cut(newest->name, 40)),
                       BL_TEXT_ARG(bl_utf8_cut(newest->line, SUBJECT_SHOWN_MAX)));
    else if (view->turn_open)
        live_set_phase(view, view->model_since_ns, "model%s%s", view->retry[0] != '\0' ? ": " : "",
                       view->retry);
    else
        view->phase[0] = '\0';
}

const char *chat_view_phase(const struct chat_view *view, uint64_t *ret_since_ns)
{
    if (view->phase[0] == '\0')
        return NULL;
    *ret_since_ns = view->phase_since_ns;
    return view->phase;
}

unsigned chat_view_agents(const struct chat_view *view)
{
    unsigned count = 0;

    BL_LIST_EACH (link, &view->agents)
        count += !BL_CONTAINER(link, struct chat_agent, link)->ended;
    return count;
}

/* ---- Current output -------------------------------------------------------------------------- */

/* Writes the calls of an agent, and below each those of the agent that it started. */
static void show_calls(const struct chat_view *view, const struct chat_agent *agent,
                       const struct chat_frame *frame, unsigned depth)
{
    size_t count = 0;

    BL_LIST_EACH (link, &view->calls)
        count += BL_CONTAINER(link, struct chat_call, link)->agent == NULL;
    size_t lines_max = depth > 0 ? 0 : count > 1 ? OUTPUT_LIVE_MANY : OUTPUT_LIVE_ONE;
    bool any = false;
    BL_LIST_EACH (link, &view->calls) {
        const struct chat_call *call = BL_CONTAINER(link, struct chat_call, link);
        if (call->agent != agent)
            continue;
        chat_call_live(call, frame, (size_t)depth * 2, lines_max);
        any = true;
        const struct chat_agent *child = chat_agent_of(view, call);
        if (child != NULL && depth < AGENT_DEPTH_MAX)
            show_calls(view, child, frame, depth + 1);
    }
    if (!any && agent != NULL && agent->last.size > 0)
        chat_line(frame, (size_t)depth * 2, agent->last, &dim);
}

static void show_thinking(const struct chat_view *view, const struct chat_frame *frame)
{
    struct bl_text text = bl_text_trim(bl_buffer_text(&view->thinking));
    BL_AUTO_BUFFER(lines, SIZE_MAX / 2);

    if (text.size == 0)
        return;
    if (text.size > CHAT_THINKING_SHOWN) {
        text.data += text.size - CHAT_THINKING_SHOWN;
        text.size = CHAT_THINKING_SHOWN;
        while (text.size > 0 && ((unsigned char)text.data[0] & 0xC0) == 0x80) {
            text.data++;
            text.size--;
        }
    }
    text_wrap_all(text, &dim, frame->columns, frame->colours, &lines);
    bl_buffer_append(frame->out, text_last_lines(bl_buffer_text(&lines), THINKING_LINES));
}

void chat_view_live(struct chat_view *view, size_t lines_max, struct bl_buffer *out)
{
    struct bl_buffer lines, text;
    struct chat_frame frame = {.out = &lines, .columns = view->columns, .colours = view->colours};

    bl_buffer_init(&lines, SIZE_MAX / 2);
    bl_buffer_init(&text, SIZE_MAX / 2);
    if (view->text != NULL)
        markdown_pending(view->text, lines_max, &text);
    if (text.size > 0 && !view->text_begun && chat_is_set_off(view, KIND_TEXT))
        bl_buffer_append_byte(&lines, '\n');
    bl_buffer_append(&lines, bl_buffer_text(&text));
    bool calls = !bl_list_empty(&view->calls);
    if (lines.size == 0 && (view->thinking.size > 0 || calls) &&
        chat_is_set_off(view, calls ? KIND_CALL : KIND_NOTE))
        bl_buffer_append_byte(&lines, '\n');
    show_thinking(view, &frame);
    show_calls(view, NULL, &frame, 0);
    bl_buffer_clear(out);
    bl_buffer_append(out, text_last_lines(bl_buffer_text(&lines), lines_max));
    bl_buffer_done(&lines);
    bl_buffer_done(&text);
}
