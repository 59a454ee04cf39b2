/* Answers of POST {base}/v1/messages; decoded ones go back as JSON, wherever they pause. */
#include "decoder_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_resumed(struct fuzz_answer *answer)
{
    const struct bl_json_limits limits = {.depth_max = 1024};
    struct bl_text resumed = model_anthropic_resumed(&answer->decoder);
    const struct bl_json *value;

    if (resumed.size == 0)
        return;
    REQUIRE(bl_json_read(&answer->arena, resumed, &limits, &value, NULL) == 0);
    REQUIRE(bl_json_is(value, BL_JSON_ARRAY));
    BL_JSON_EACH (block, value)
        REQUIRE(bl_json_is(bl_json_get(block, BL_TEXT("type")), BL_JSON_STRING));
}

/* The same bytes again and again, as the parts of one answer. */
static void fuzz_pauses(struct bl_text bytes)
{
    struct fuzz_answer answer;
    int result = 0;

    fuzz_answer_init(&answer, &model_api_anthropic);
    for (int pauses = 0; pauses < 3 && result == 0; pauses++) {
        struct bl_sse sse;
        answer.assembly.pause = answer.assembly.finished = false;
        bl_sse_init(&sse, 1u << 20, 1u << 20);
        result = bl_sse_feed(&sse, bytes, fuzz_take_event, &answer);
        if (result == 0)
            result = bl_sse_end(&sse, fuzz_take_event, &answer);
        bl_sse_done(&sse);
        if (result == 0 && !answer.assembly.finished)
            result = model_api_anthropic.finish(&answer.decoder);
        check_resumed(&answer);
        if (!answer.assembly.pause)
            break;
    }
    fuzz_answer_done(&answer, result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decoder(&model_api_anthropic, data, size);
    fuzz_pauses((struct bl_text){(const char *)data, size});
    return 0;
}
