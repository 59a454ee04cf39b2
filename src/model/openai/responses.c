/* Requests to POST {base}/responses. The server stores nothing, so the whole conversation is
 * sent. */
#include "openai.h"

#define CALL_ID_MAX 64u

/* ---- Input ----------------------------------------------------------------------------------- */

static void openai_responses_write_message(struct bl_json_writer *writer, const char *role,
                                           struct bl_text text)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "message");
    bl_json_put_string(writer, "role", role);
    bl_json_put_text(writer, "content", text);
    bl_json_write_end(writer);
}

static void openai_responses_write_call(const struct model_build *build,
                                        struct bl_json_writer *writer, const struct bl_block *block)
{
    /* Without the item's id: with it, the server would look up an item that it did not store. */
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "function_call");
    bl_json_put_text(writer, "call_id", openai_call_id(build->arena, block->id, CALL_ID_MAX));
    bl_json_put_text(writer, "name", block->name);
    bl_json_put_text(writer, "arguments", block->input);
    bl_json_write_end(writer);
}

static void openai_responses_write_result(const struct model_build *build,
                                          struct bl_json_writer *writer,
                                          const struct bl_block *block)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "function_call_output");
    bl_json_put_text(writer, "call_id", openai_call_id(build->arena, block->id, CALL_ID_MAX));
    bl_json_put_text(writer, "output", block->text);
    bl_json_write_end(writer);
}

/* Returns whether something of the answer follows: a reasoning item is refused if nothing does, as
 * after a cut in the middle of thinking. */
static bool is_followed(const struct bl_message *message, const struct bl_block *block)
{
    for (const struct bl_list *link = block->link.next; link != &message->blocks;
         link = link->next) {
        if (BL_CONTAINER(link, struct bl_block, link)->type != BL_BLOCK_THINKING)
            return true;
    }
    return false;
}

/* Writes a reasoning item as received, with its id, which the encrypted content is bound to. Leaves
 * out only what an input must not have: its status, and nulls. An item with nothing but the id
 * would have to be looked up, and was not stored. */
static void openai_responses_write_reasoning(const struct model_build *build,
                                             struct bl_json_writer *writer,
                                             const struct bl_block *block)
{
    const struct bl_json *item =
        model_opaque_find(build->arena, block->opaque, build->provider, build->profile, "item");

    if (!bl_json_is(item, BL_JSON_OBJECT) ||
        (bl_json_size(bl_json_get(item, BL_TEXT("encrypted_content"))) == 0 &&
         bl_json_size(bl_json_get(item, BL_TEXT("content"))) == 0))
        return;
    bl_json_write_object(writer);
    BL_JSON_MEMBERS (key, item) {
        struct bl_text name = bl_json_text(key);
        if (bl_json_is(key + 1, BL_JSON_NULL) || bl_text_equal(name, BL_TEXT("status")) ||
            (build->compat->no_reasoning_id && bl_text_equal(name, BL_TEXT("id"))))
            continue;
        bl_json_write_key(writer, name);
        bl_json_write_value(writer, key + 1);
    }
    if (bl_json_get(item, BL_TEXT("summary")) == NULL)
        bl_json_put_json(writer, "summary", BL_TEXT("[]"));
    bl_json_write_end(writer);
}

static void openai_responses_write_block(const struct model_build *build,
                                         struct bl_json_writer *writer,
                                         const struct bl_message *message,
                                         const struct bl_block *block)
{
    switch (block->type) {
    case BL_BLOCK_TEXT:
        openai_responses_write_message(writer, message->role == BL_ROLE_USER ? "user" : "assistant",
                                       block->text);
        break;
    case BL_BLOCK_THINKING:
        if (!build->compat->no_reasoning_back && is_followed(message, block))
            openai_responses_write_reasoning(build, writer, block);
        break;
    case BL_BLOCK_CALL: openai_responses_write_call(build, writer, block); break;
    case BL_BLOCK_RESULT: openai_responses_write_result(build, writer, block); break;
    case BL_BLOCK_IMAGE: break; /* together with the texts around it */
    }
}

/* Writes a message of the user with images: each result on its own, and one message for the
 * rest. */
static void write_illustrated(const struct model_build *build, struct bl_json_writer *writer,
                              const struct bl_message *message)
{
    BL_LIST_EACH (link, &message->blocks) {
        const struct bl_block *block = BL_CONTAINER(link, struct bl_block, link);
        if (block->type == BL_BLOCK_RESULT)
            openai_responses_write_result(build, writer, block);
    }
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "message");
    bl_json_put_string(writer, "role", "user");
    bl_json_write_key(writer, BL_TEXT("content"));
    openai_write_parts(build, writer, message, false, CALL_ID_MAX);
    bl_json_write_end(writer);
}

static void openai_responses_write_input(const struct model_build *build,
                                         struct bl_json_writer *writer)
{
    struct bl_list messages;

    model_conversation(build, &messages);
    bl_json_write_key(writer, BL_TEXT("input"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        if (model_has_block(message, BL_BLOCK_IMAGE)) {
            write_illustrated(build, writer, message);
            continue;
        }
        BL_LIST_EACH (part, &message->blocks)
            openai_responses_write_block(build, writer, message,
                                         BL_CONTAINER(part, struct bl_block, link));
    }
    bl_json_write_end(writer);
}

/* ---- The request ----------------------------------------------------------------------------- */

static void write_effort(const struct model_build *build, struct bl_json_writer *writer)
{
    const char *effort = openai_effort(build->profile->thinking);

    if (effort == NULL || build->compat->no_reasoning_effort)
        return;
    bl_json_write_key(writer, BL_TEXT("reasoning"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "effort", effort);
    if (build->profile->thinking != BL_EFFORT_NONE && !build->compat->no_reasoning_summary)
        bl_json_put_string(writer, "summary", "auto");
    bl_json_write_end(writer);
}

static int openai_responses_build_request(const struct model_build *build,
                                          struct bl_json_writer *writer,
                                          struct bl_error *error BL_UNUSED)
{
    const struct bl_request *request = build->request;
    const struct bl_compat *compat = build->compat;

    bl_json_write_object(writer);
    bl_json_put_string(writer, "model", build->profile->model);
    if (request->system.size > 0)
        bl_json_put_text(writer, "instructions", request->system);
    openai_responses_write_input(build, writer);
    bl_json_put_boolean(writer, "stream", true);
    bl_json_put_boolean(writer, "store", false);
    if (!compat->no_include)
        bl_json_put_json(writer, "include", BL_TEXT("[\"reasoning.encrypted_content\"]"));
    openai_write_tools(build, writer, false);
    write_effort(build, writer);
    openai_write_format(build, writer, false);
    if (build->max_output_tokens > 0 && !compat->no_max_tokens)
        bl_json_put_uint64(writer, "max_output_tokens", build->max_output_tokens);
    if (request->session != NULL && request->session->id[0] != '\0' && !compat->no_prompt_cache_key)
        bl_json_put_string(writer, "prompt_cache_key", request->session->id);
    bl_json_write_end(writer);
    return 0;
}

const struct model_api model_api_openai_responses = {
    .api = BL_API_OPENAI_RESPONSES,
    .images = true,
    .path = "/responses",
    .headers = openai_headers,
    .build = openai_responses_build_request,
    .feed = responses_feed,
    .whole = responses_whole,
    .finish = responses_finish,
    .classify = model_failure_read,
};
