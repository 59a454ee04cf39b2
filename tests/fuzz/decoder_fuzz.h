/* What the fuzzers of formats share. The bytes are a stream of server-sent events, fed whole and in
 * pieces, and a whole answer: nothing may crash, leak or hang, the pieces of the answer come in
 * order however the bytes were cut, and what fails says why. */
#ifndef BELAY_TESTS_DECODER_FUZZ_H
#define BELAY_TESTS_DECODER_FUZZ_H

#include "model/provider.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)

struct fuzz_sink {
    struct bl_sink sink;
    uint8_t calls[MODEL_CALLS_MAX]; /* 1 begun, 2 ended */
    uint32_t begun;
    uint64_t hash; /* of all pieces so far */
    bool ended;
};

struct fuzz_answer {
    struct fuzz_sink sink;
    struct bl_arena arena;
    struct model_assembly assembly;
    struct model_decoder decoder;
};

static inline void fuzz_mix(struct fuzz_sink *sink, struct bl_text text)
{
    sink->hash = bl_hash((const uint64_t[2]){sink->hash, text.size}, text);
    REQUIRE(bl_utf8_valid(text));
}

static inline void fuzz_check_call(struct fuzz_sink *sink, const struct bl_piece *piece)
{
    struct bl_arena arena;
    const struct bl_json *value;

    REQUIRE(piece->index < sink->begun && sink->calls[piece->index] == 1);
    if (piece->type != BL_PIECE_CALL_END)
        return;
    sink->calls[piece->index] = 2;
    bl_arena_init(&arena);
    bool whole = bl_json_read(&arena, piece->text, NULL, &value, NULL) == 0 &&
                 bl_json_is(value, BL_JSON_OBJECT);
    REQUIRE(whole || piece->invalid.size > 0);
    bl_arena_done(&arena);
}

static inline int fuzz_take(struct bl_sink *base, const struct bl_piece *piece)
{
    struct fuzz_sink *sink = BL_CONTAINER(base, struct fuzz_sink, sink);

    REQUIRE(!sink->ended);
    sink->hash += (uint64_t)piece->type;
    fuzz_mix(sink, piece->text);
    fuzz_mix(sink, piece->id);
    fuzz_mix(sink, piece->name);
    fuzz_mix(sink, piece->opaque);
    switch (piece->type) {
    case BL_PIECE_TEXT: REQUIRE(piece->text.size > 0); break;
    case BL_PIECE_THINKING: REQUIRE(piece->text.size > 0 || piece->opaque.size > 0); break;
    case BL_PIECE_CALL_BEGIN:
        REQUIRE(piece->index == sink->begun && sink->begun < MODEL_CALLS_MAX);
        REQUIRE(piece->id.size > 0);
        sink->calls[sink->begun++] = 1;
        break;
    case BL_PIECE_CALL_DELTA:
        REQUIRE(piece->text.size > 0);
        fuzz_check_call(sink, piece);
        break;
    case BL_PIECE_CALL_END: fuzz_check_call(sink, piece); break;
    case BL_PIECE_USAGE: break;
    case BL_PIECE_RETRY: __builtin_trap();
    case BL_PIECE_END:
        sink->ended = true;
        for (uint32_t i = 0; i < sink->begun; i++)
            REQUIRE(sink->calls[i] == 2);
        break;
    }
    return 0;
}

static inline void fuzz_answer_init(struct fuzz_answer *answer, const struct model_api *api)
{
    static const struct bl_provider provider = {.name = "fuzz"};
    static const struct bl_profile profile = {.model = "model-1"};

    *answer = (struct fuzz_answer){.sink = {.sink = {.take = fuzz_take}}};
    bl_arena_init(&answer->arena);
    model_assembly_init(&answer->assembly, &answer->arena, NULL, NULL, &answer->sink.sink);
    answer->decoder = (struct model_decoder){.api = api,
                                             .provider = &provider,
                                             .profile = &profile,
                                             .assembly = &answer->assembly,
                                             .arena = &answer->arena};
}

/* Checks how it ended, and returns the decoded answer. */
static inline uint64_t fuzz_answer_done(struct fuzz_answer *answer, int result)
{
    uint64_t hash = answer->sink.hash + (uint64_t)(int64_t)result;

    REQUIRE(result == 0 || result == BL_EIO || result == BL_ELIMIT);
    REQUIRE((result == 0) == answer->sink.ended || answer->assembly.pause);
    REQUIRE((result == BL_EIO) == (answer->assembly.failure.code != NULL));
    REQUIRE(bl_utf8_valid(bl_text_from(answer->assembly.failure.message)));
    model_assembly_done(&answer->assembly);
    bl_arena_done(&answer->arena);
    return hash;
}

static inline int fuzz_take_event(void *context, const struct bl_sse_event *event)
{
    const struct bl_json_limits limits = {.replace_surrogates = true};
    struct fuzz_answer *answer = context;
    struct bl_arena arena;
    const struct bl_json *value;
    int result = 0;

    if (answer->assembly.finished)
        return 0;
    if (bl_text_equal(event->data, BL_TEXT("[DONE]")))
        return answer->decoder.api->finish(&answer->decoder);
    bl_arena_init(&arena);
    if (bl_json_read(&arena, event->data, &limits, &value, NULL) == 0)
        result = answer->decoder.api->feed(&answer->decoder, event->name, value);
    bl_arena_done(&arena);
    return result;
}

/* Feeds the bytes in pieces of that size. */
static inline uint64_t fuzz_stream(const struct model_api *api, struct bl_text bytes, size_t size)
{
    struct fuzz_answer answer;
    struct bl_sse sse;
    int result = 0;

    fuzz_answer_init(&answer, api);
    bl_sse_init(&sse, 1u << 20, 1u << 20);
    for (size_t at = 0; at < bytes.size && result == 0; at += size) {
        struct bl_text piece = {bytes.data + at, bytes.size - at < size ? bytes.size - at : size};
        result = bl_sse_feed(&sse, piece, fuzz_take_event, &answer);
    }
    if (result == 0)
        result = bl_sse_end(&sse, fuzz_take_event, &answer);
    if (result == 0 && !answer.assembly.finished)
        result = api->finish(&answer.decoder);
    bl_sse_done(&sse);
    return fuzz_answer_done(&answer, result);
}

static inline void fuzz_whole(const struct model_api *api, struct bl_text bytes)
{
    struct fuzz_answer answer;
    struct bl_arena arena;
    const struct bl_json *value;

    bl_arena_init(&arena);
    if (bl_json_read(&arena, bytes, NULL, &value, NULL) == 0) {
        fuzz_answer_init(&answer, api);
        fuzz_answer_done(&answer, api->whole(&answer.decoder, value));
    }
    bl_arena_done(&arena);
}

static inline void fuzz_decoder(const struct model_api *api, const uint8_t *data, size_t size)
{
    struct bl_text bytes = {(const char *)data, size};

    uint64_t whole = fuzz_stream(api, bytes, size > 0 ? size : 1);
    REQUIRE(fuzz_stream(api, bytes, 7) == whole);
    fuzz_whole(api, bytes);
}

#endif
