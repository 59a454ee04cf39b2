/* Answers of POST {base}/responses.
 *
 * Design notes. An answer is a list of items. Each is announced, arrives in pieces, and is sent
 * once more when it is done; the last version counts. An item is identified by its id, or else by
 * its position: some servers change the ids from event to event, and others send 0 for every
 * position. */
#include "openai.h"

/* More items than any answer has; each costs memory. */
#define ITEMS_MAX 1024u

struct item {
    struct bl_list link;
    struct bl_text id;
    int64_t index;           /* negative: unknown */
    struct model_call *call; /* NULL: not a call */
    bool told;               /* part of its text was reported */
    bool divide;             /* the next text begins a new part */
    bool done;
};

struct responses_state {
    struct bl_list items; /* in order of arrival */
    uint32_t item_count;
    bool refused;
    bool cut; /* an item is incomplete */
};

static struct responses_state *responses_decode_state_of(struct model_decoder *decoder)
{
    if (decoder->state == NULL) {
        struct responses_state *state = bl_arena_zalloc(decoder->arena, sizeof *state);
        bl_list_init(&state->items);
        decoder->state = state;
    }
    return decoder->state;
}

/* ---- Items ----------------------------------------------------------------------------------- */

static struct item *responses_decode_find_by_id(const struct responses_state *state,
                                                struct bl_text id)
{
    BL_LIST_EACH (link, &state->items) {
        struct item *item = BL_CONTAINER(link, struct item, link);
        if (id.size > 0 && bl_text_equal(item->id, id))
            return item;
    }
    return NULL;
}

/* Returns the newest item at that position. */
static struct item *find_by_index(const struct responses_state *state, int64_t index)
{
    for (const struct bl_list *link = state->items.previous; link != &state->items;
         link = link->previous) {
        struct item *item = BL_CONTAINER(link, struct item, link);
        if (index >= 0 && item->index == index)
            return item;
    }
    return NULL;
}

static int responses_decode_add_item(struct model_decoder *decoder, struct bl_text id,
                                     int64_t index, struct item **ret_item)
{
    struct responses_state *state = responses_decode_state_of(decoder);

    if (state->item_count == ITEMS_MAX)
        return model_fail(decoder->assembly, "limit", 0,
                          BL_TEXT("the answer has more than 1024 items"));
    struct item *item = bl_arena_zalloc(decoder->arena, sizeof *item);
    item->id = bl_arena_text(decoder->arena, id);
    item->index = index;
    bl_list_push_back(&state->items, &item->link);
    state->item_count++;
    *ret_item = item;
    return 0;
}

static struct item *find_open(const struct responses_state *state)
{
    BL_LIST_EACH (link, &state->items) {
        struct item *item = BL_CONTAINER(link, struct item, link);
        if (!item->done)
            return item;
    }
    return NULL;
}

/* Returns the item with that id or position, and creates it if needed; without both, the item that
 * is not done. */
static int get_item(struct model_decoder *decoder, struct bl_text id, int64_t index,
                    struct item **ret_item)
{
    const struct responses_state *state = responses_decode_state_of(decoder);

    *ret_item = responses_decode_find_by_id(state, id);
    if (*ret_item == NULL)
        *ret_item = id.size == 0 && index < 0 ? find_open(state) : find_by_index(state, index);
    return *ret_item != NULL ? 0 : responses_decode_add_item(decoder, id, index, ret_item);
}

static int64_t index_of(const struct bl_json *data)
{
    int64_t index;

    return bl_json_int64(bl_json_get(data, BL_TEXT("output_index")), &index) && index >= 0 ? index
                                                                                           : -1;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static int tell_text(struct model_decoder *decoder, struct item *item, struct bl_text text)
{
    item->told = item->told || text.size > 0;
    return model_tell_text(decoder->assembly, text);
}

static int tell_refusal(struct model_decoder *decoder, struct item *item, struct bl_text text)
{
    responses_decode_state_of(decoder)->refused =
        responses_decode_state_of(decoder)->refused || text.size > 0;
    return tell_text(decoder, item, text);
}

/* Parts of a summary are separated by a blank line. */
static int tell_thinking(struct model_decoder *decoder, struct item *item, struct bl_text text)
{
    int result = 0;

    if (text.size == 0)
        return 0;
    if (item->told && item->divide)
        result = model_tell_thinking(decoder->assembly, BL_TEXT("\n\n"), (struct bl_text){0});
    item->told = true;
    item->divide = false;
    return result == 0 ? model_tell_thinking(decoder->assembly, text, (struct bl_text){0}) : result;
}

static int take_text_delta(struct model_decoder *decoder, struct item *item,
                           const struct bl_json *data)
{
    return tell_text(decoder, item, model_member(data, "delta"));
}

static int take_refusal_delta(struct model_decoder *decoder, struct item *item,
                              const struct bl_json *data)
{
    return tell_refusal(decoder, item, model_member(data, "delta"));
}

static int take_thinking_delta(struct model_decoder *decoder, struct item *item,
                               const struct bl_json *data)
{
    return tell_thinking(decoder, item, model_member(data, "delta"));
}

static int responses_decode_take_part(struct model_decoder *decoder BL_UNUSED, struct item *item,
                                      const struct bl_json *data BL_UNUSED)
{
    item->divide = true;
    return 0;
}

static int take_arguments_delta(struct model_decoder *decoder, struct item *item,
                                const struct bl_json *data)
{
    /* Pieces of a call that was not announced are ignored: the finished item has all of them. */
    return item->call != NULL && !item->done
               ? model_call_input(decoder->assembly, item->call, model_member(data, "delta"))
               : 0;
}

/* ---- Announced and finished items ------------------------------------------------------------ */

static int responses_decode_begin_call(struct model_decoder *decoder, struct item *item,
                                       const struct bl_json *value)
{
    struct bl_text id = model_member(value, "call_id");

    if (item->call != NULL)
        return model_call_name(decoder->assembly, item->call, model_member(value, "name"));
    return model_call_new(decoder->assembly, id.size > 0 ? id : item->id,
                          model_member(value, "name"), &item->call);
}

static int take_added(struct model_decoder *decoder, const struct bl_json *data)
{
    const struct bl_json *value = bl_json_get(data, BL_TEXT("item"));
    struct bl_text id = model_member(value, "id");
    struct item *item = responses_decode_find_by_id(responses_decode_state_of(decoder), id);

    if (item == NULL) {
        int result = responses_decode_add_item(decoder, id, index_of(data), &item);
        if (result != 0)
            return result;
    }
    if (!bl_text_equal(model_member(value, "type"), BL_TEXT("function_call")))
        return 0;
    int result = responses_decode_begin_call(decoder, item, value);
    return result == 0
               ? model_call_input(decoder->assembly, item->call, model_member(value, "arguments"))
               : result;
}

/* An item that the limit cut keeps its call open: the end of the answer ends it as cut off. */
static int finish_call(struct model_decoder *decoder, struct item *item,
                       const struct bl_json *value)
{
    int result = responses_decode_begin_call(decoder, item, value);

    if (result == 0)
        result = model_call_whole(decoder->assembly, item->call,
                                  bl_json_get(value, BL_TEXT("arguments")));
    if (result != 0)
        return result;
    if (bl_text_equal(model_member(value, "status"), BL_TEXT("incomplete"))) {
        responses_decode_state_of(decoder)->cut = true;
        return 0;
    }
    return model_call_end(decoder->assembly, item->call);
}

static int responses_decode_finish_message(struct model_decoder *decoder, struct item *item,
                                           const struct bl_json *value)
{
    bool told = item->told;
    int result = 0;

    BL_JSON_EACH (part, bl_json_get(value, BL_TEXT("content"))) {
        struct bl_text refusal = model_member(part, "refusal");
        if (refusal.size > 0)
            responses_decode_state_of(decoder)->refused = true;
        if (!told && result == 0)
            result = tell_text(decoder, item, model_member(part, "text"));
        if (!told && result == 0)
            result = tell_refusal(decoder, item, refusal);
    }
    return result;
}

static int finish_reasoning(struct model_decoder *decoder, struct item *item,
                            const struct bl_json *value)
{
    static const char *const keys[] = {"summary", "content"};
    bool told = item->told;
    int result = 0;

    for (size_t i = 0; i < BL_COUNT(keys) && !told; i++) {
        BL_JSON_EACH (part, bl_json_get(value, bl_text_from(keys[i]))) {
            item->divide = true;
            if (result == 0)
                result = tell_thinking(decoder, item, model_member(part, "text"));
        }
        told = item->told;
    }
    if (result != 0)
        return result;
    struct bl_text json = model_json_text(decoder->arena, value);
    return json.size == 0 ? 0
                          : model_tell_thinking(decoder->assembly, (struct bl_text){0},
                                                model_opaque_make(decoder->arena, decoder->provider,
                                                                  decoder->profile, "item", json));
}

static int finish_item(struct model_decoder *decoder, const struct bl_json *value, int64_t index)
{
    struct bl_text type = model_member(value, "type");
    struct item *item;
    int result = get_item(decoder, model_member(value, "id"), index, &item);

    if (result != 0 || item->done)
        return result;
    item->done = true;
    if (bl_text_equal(type, BL_TEXT("function_call")))
        return finish_call(decoder, item, value);
    if (bl_text_equal(type, BL_TEXT("message")))
        return responses_decode_finish_message(decoder, item, value);
    return bl_text_equal(type, BL_TEXT("reasoning")) ? finish_reasoning(decoder, item, value) : 0;
}

static int take_done(struct model_decoder *decoder, const struct bl_json *data)
{
    return finish_item(decoder, bl_json_get(data, BL_TEXT("item")), index_of(data));
}

/* ---- The end --------------------------------------------------------------------------------- */

/* Processes the last event's copy of the answer: items that were never reported as done, the usage,
 * and the end. */
static int responses_decode_end_answer(struct model_decoder *decoder,
                                       const struct bl_json *response, enum bl_answer_end end)
{
    int64_t index = 0;
    int result = 0;

    BL_JSON_EACH (value, bl_json_get(response, BL_TEXT("output"))) {
        if (result == 0)
            result = finish_item(decoder, value, index);
        index++;
    }
    if (result == 0)
        result = openai_usage(decoder->assembly, bl_json_get(response, BL_TEXT("usage")));
    if (result != 0)
        return result;
    if (end == BL_ANSWER_END && responses_decode_state_of(decoder)->cut)
        end = BL_ANSWER_MAX_TOKENS;
    return model_finish(decoder->assembly,
                        responses_decode_state_of(decoder)->refused ? BL_ANSWER_REFUSAL : end);
}

static int take_incomplete(struct model_decoder *decoder, const struct bl_json *response)
{
    struct bl_text reason =
        bl_json_text(bl_json_pointer(response, BL_TEXT("/incomplete_details/reason")));

    return responses_decode_end_answer(decoder, response,
                                       bl_text_equal(reason, BL_TEXT("content_filter"))
                                           ? BL_ANSWER_REFUSAL
                                           : BL_ANSWER_MAX_TOKENS);
}

static int take_failed(struct model_decoder *decoder, const struct bl_json *response)
{
    if (openai_is_error(response))
        return model_fail_body(decoder->assembly, response);
    return model_fail(decoder->assembly, "server", 0,
                      BL_TEXT("the server ended the answer without a reason"));
}

/* Some servers end every answer with this event; only the status shows the outcome. */
static int responses_decode_take_completed(struct model_decoder *decoder,
                                           const struct bl_json *response)
{
    struct bl_text status = model_member(response, "status");

    if (bl_text_equal(status, BL_TEXT("incomplete")))
        return take_incomplete(decoder, response);
    if (bl_text_equal(status, BL_TEXT("failed")) || bl_text_equal(status, BL_TEXT("cancelled")))
        return take_failed(decoder, response);
    return responses_decode_end_answer(decoder, response, BL_ANSWER_END);
}

/* ---- The format ------------------------------------------------------------------------------ */

/* Events of an item. */
static const struct {
    const char *type;
    int (*take)(struct model_decoder *decoder, struct item *item, const struct bl_json *data);
} item_events[] = {
    {"response.output_text.delta", take_text_delta},
    {"response.refusal.delta", take_refusal_delta},
    {"response.reasoning_summary_text.delta", take_thinking_delta},
    {"response.reasoning_text.delta", take_thinking_delta},
    {"response.reasoning_summary_part.added", responses_decode_take_part},
    {"response.function_call_arguments.delta", take_arguments_delta},
};

/* Events of the answer; some contain all of it. */
static const struct {
    const char *type;
    int (*take)(struct model_decoder *decoder, const struct bl_json *data);
    bool response;
} events[] = {
    {"response.output_item.added", take_added, false},
    {"response.output_item.done", take_done, false},
    {"response.completed", responses_decode_take_completed, true},
    {"response.incomplete", take_incomplete, true},
    {"response.failed", take_failed, true},
    {"response.cancelled", take_failed, true},
};

int responses_feed(struct model_decoder *decoder, struct bl_text event_name,
                   const struct bl_json *data)
{
    struct bl_text type = model_member(data, "type");

    if (type.size == 0)
        type = event_name;
    if (openai_is_error(data) || bl_text_equal(type, BL_TEXT("error")))
        return model_fail_body(decoder->assembly, data);
    for (size_t i = 0; i < BL_COUNT(item_events); i++) {
        struct item *item;
        if (!bl_text_equal(type, bl_text_from(item_events[i].type)))
            continue;
        int result = get_item(decoder, model_member(data, "item_id"), index_of(data), &item);
        return result == 0 ? item_events[i].take(decoder, item, data) : result;
    }
    for (size_t i = 0; i < BL_COUNT(events); i++) {
        if (bl_text_equal(type, bl_text_from(events[i].type)))
            return events[i].take(
                decoder, events[i].response ? bl_json_get(data, BL_TEXT("response")) : data);
    }
    return 0;
}

int responses_whole(struct model_decoder *decoder, const struct bl_json *answer)
{
    struct bl_text status = model_member(answer, "status");

    if (openai_is_error(answer))
        return model_fail_body(decoder->assembly, answer);
    if (!bl_json_is(bl_json_get(answer, BL_TEXT("output")), BL_JSON_ARRAY))
        return model_fail(decoder->assembly, "bad_response", 0,
                          BL_TEXT("the answer has no output"));
    if (bl_text_equal(status, BL_TEXT("incomplete")))
        return take_incomplete(decoder, answer);
    if (status.size == 0 || bl_text_equal(status, BL_TEXT("completed")))
        return responses_decode_take_completed(decoder, answer);
    return take_failed(decoder, answer);
}

int responses_finish(struct model_decoder *decoder)
{
    if (decoder->assembly->finished)
        return 0;
    return model_fail(decoder->assembly, "stream_cut", 0,
                      BL_TEXT("the stream ended before response.completed"));
}
