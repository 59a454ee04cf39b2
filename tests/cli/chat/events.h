/* A view of a conversation, the events it gets, and its output. */
#ifndef BELAY_TESTS_CHAT_EVENTS_H
#define BELAY_TESTS_CHAT_EVENTS_H

#include "cli/chat/chat.h"

#include "suite.h"

static struct chat_view *view;

static inline void begin(size_t columns, bool colours)
{
    view = chat_view_new(columns, colours);
}

static inline void end(void)
{
    chat_view_free(view);
}

/* Checks the lines that became final since the last call. */
static inline void taken(const char *wanted)
{
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX / 2);
    chat_view_take_lines(view, &out);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, wanted);
    bl_buffer_done(&out);
}

static inline void live(const char *wanted)
{
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX / 2);
    bl_buffer_append(&out, BL_TEXT("is replaced"));
    chat_view_live(view, 20, &out);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, wanted);
    bl_buffer_done(&out);
}

static inline void phase(const char *wanted)
{
    uint64_t since_ns = 0;
    const char *shown = chat_view_phase(view, &since_ns);

    assert_int_equal(shown == NULL, wanted == NULL);
    if (wanted == NULL)
        return;
    assert_string_equal(shown, wanted);
    assert_true(since_ns > 0 && since_ns <= bl_clock_now_ns(&bl_clock_system));
}

/* ---- Events ---------------------------------------------------------------------------------- */

static inline void tell(struct bl_event event)
{
    chat_view_event(view, &event);
}

static inline void tell_text(enum bl_event_type type, const char *text)
{
    tell((struct bl_event){.type = type, .text = bl_text_from(text)});
}

static inline void say(const char *text)
{
    tell_text(BL_EVENT_TEXT_DELTA, text);
}

static inline void request_by(const char *agent, const char *id, const char *name,
                              const char *input)
{
    tell((struct bl_event){.type = BL_EVENT_TOOL_REQUESTED,
                           .agent = agent,
                           .id = bl_text_from(id),
                           .name = bl_text_from(name),
                           .json = bl_text_from(input)});
    tell((struct bl_event){.type = BL_EVENT_TOOL_STARTED,
                           .agent = agent,
                           .id = bl_text_from(id),
                           .name = bl_text_from(name)});
}

static inline void request(const char *id, const char *name, const char *input)
{
    request_by(NULL, id, name, input);
}

static inline void output(const char *id, const char *text)
{
    tell((struct bl_event){
        .type = BL_EVENT_TOOL_OUTPUT, .id = bl_text_from(id), .text = bl_text_from(text)});
}

static inline void ended_by(const char *agent, const char *id, const char *status, uint64_t ms,
                            const char *result)
{
    tell((struct bl_event){.type = BL_EVENT_TOOL_ENDED,
                           .agent = agent,
                           .id = bl_text_from(id),
                           .status = status,
                           .ms = ms,
                           .text = bl_text_from(result)});
}

static inline void ended(const char *id, const char *status, uint64_t ms, const char *result)
{
    ended_by(NULL, id, status, ms, result);
}

static inline void start_turn(void)
{
    tell((struct bl_event){.type = BL_EVENT_TURN_STARTED});
}

static inline void end_turn(const char *result)
{
    tell((struct bl_event){.type = BL_EVENT_TURN_ENDED, .json = bl_text_from(result)});
}

#endif
