#include "remotely.h"

#include <stdio.h>

void remotely_init(struct remotely *remotely, enum bl_api api)
{
    *remotely = (struct remotely){
        .provider = {.name = "there", .api = api, .key = "sk-test-key"},
        .profile = {.model = "test-1"},
    };
    bl_arena_init(&remotely->arena);
    bl_nursery_init(&remotely->nursery, bl_scope_current());
    recorder_init(&remotely->recorder);
}

void remotely_open(struct remotely *remotely)
{
    struct bl_error error = {0};

    for (size_t i = 0; i < remotely->count; i++)
        remotely->scripts[i].acts = remotely->acts[i];
    remotely->peer = peer_start(&remotely->nursery, remotely->scripts, remotely->count);
    uint16_t port = peer_port(remotely->peer);
    if (remotely->front != NULL) {
        front_start(remotely->front, NULL, port);
        port = remotely->front->port;
        remotely->provider.client.http2 = true;
    }
    remotely->provider.base_url =
        bl_arena_printf(&remotely->arena, "http://127.0.0.1:%u", port).data;
    struct bl_remote_options options = {.provider = &remotely->provider,
                                        .profile = &remotely->profile,
                                        .ledger = remotely->ledger,
                                        .seed = 1};
    CHECK_EQUAL(bl_remote_new(&options, &remotely->remote, &remotely->model, &error), 0);
}

void remotely_done(struct remotely *remotely)
{
    bl_remote_free(remotely->remote);
    if (remotely->front != NULL)
        front_stop(remotely->front);
    peer_stop(remotely->peer);
    bl_nursery_done(&remotely->nursery);
    recorder_done(&remotely->recorder);
    bl_arena_done(&remotely->arena);
}

void remotely_acts(struct remotely *remotely, const struct peer_act *acts, size_t count)
{
    struct peer_act *into = remotely->acts[remotely->count++];

    memcpy(into, acts, count * sizeof *acts);
    into[count] = (struct peer_act){.type = PEER_END};
}

static struct bl_text whole(struct remotely *remotely, int status, const char *headers,
                            const char *type, struct bl_text body)
{
    return bl_arena_printf(
        &remotely->arena,
        "HTTP/1.1 %d Said\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n" BL_TEXT_FORMAT,
        status, type, body.size, headers, BL_TEXT_ARG(body));
}

void remotely_answer(struct remotely *remotely, int status, const char *headers, const char *type,
                     struct bl_text body)
{
    struct peer_act acts[] = {
        {.type = PEER_READ_REQUEST},
        {.type = PEER_SEND, .bytes = whole(remotely, status, headers, type, body)},
        {.type = PEER_CLOSE}};

    remotely_acts(remotely, acts, BL_COUNT(acts));
}

void remotely_cut(struct remotely *remotely, struct bl_text body, size_t size)
{
    struct bl_text all = whole(remotely, 200, "", remotely_type(remotely->provider.api), body);
    struct peer_act acts[] = {{.type = PEER_READ_REQUEST},
                              {.type = PEER_SEND, .bytes = {all.data, all.size - body.size + size}},
                              {.type = PEER_PAUSE, .pause_ns = 20 * MS},
                              {.type = PEER_CLOSE}};

    remotely_acts(remotely, acts, BL_COUNT(acts));
}

struct bl_text remotely_hello(enum bl_api api)
{
    switch (api) {
    case BL_API_ANTHROPIC:
        return BL_TEXT(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\","
            "\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n"
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":"
            "\"text\",\"text\":\"\"}}\n\n"
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":"
            "\"text_delta\",\"text\":\"Hi.\"}}\n\n"
            "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":"
            "{\"output_tokens\":2}}\n\ndata: {\"type\":\"message_stop\"}\n\n");
    case BL_API_OPENAI:
        return BL_TEXT("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi.\"}}]}\n\n"
                       "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]"
                       "}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,"
                       "\"completion_tokens\":2}}\n\ndata: [DONE]\n\n");
    case BL_API_OPENAI_RESPONSES:
        return BL_TEXT(
            "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":"
            "\"message\",\"id\":\"i\",\"role\":\"assistant\",\"content\":[]}}\n\n"
            "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"item_id\":\"i\","
            "\"content_index\":0,\"delta\":\"Hi.\"}\n\n"
            "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"type\":"
            "\"message\",\"id\":\"i\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\""
            ",\"text\":\"Hi.\"}]}}\n\n"
            "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\","
            "\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}\n\n");
    case BL_API_OLLAMA: break;
    }
    return BL_TEXT("{\"message\":{\"role\":\"assistant\",\"content\":\"Hi.\"},\"done\":false}\n"
                   "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":true,"
                   "\"done_reason\":\"stop\",\"prompt_eval_count\":3,\"eval_count\":2}\n");
}

void remotely_answer_hello(struct remotely *remotely)
{
    enum bl_api api = remotely->provider.api;

    remotely_answer(remotely, 200, "", remotely_type(api), remotely_hello(api));
}

const char *remotely_type(enum bl_api api)
{
    return api == BL_API_OLLAMA ? "application/x-ndjson" : "text/event-stream";
}

int remotely_ask(struct remotely *remotely, const char *text)
{
    remotely->recorder.error = (struct bl_error){0};
    return recorder_ask(&remotely->recorder, &remotely->model, text);
}
