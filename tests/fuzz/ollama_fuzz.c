/* Answers of POST {host}/api/chat: lines of JSON, fed whole and in pieces. */
#include "decoder_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take_line(void *context, struct bl_text line)
{
    return fuzz_take_event(context, &(struct bl_sse_event){.data = line});
}

static uint64_t feed_lines(struct bl_text bytes, size_t size)
{
    struct fuzz_answer answer;
    struct bl_lines lines;
    int result = 0;

    fuzz_answer_init(&answer, &model_api_ollama);
    bl_lines_init(&lines, 1u << 20);
    for (size_t at = 0; at < bytes.size && result == 0; at += size) {
        struct bl_text piece = {bytes.data + at, bytes.size - at < size ? bytes.size - at : size};
        result = bl_lines_feed(&lines, piece, take_line, &answer);
    }
    if (result == 0)
        result = bl_lines_end(&lines, take_line, &answer);
    if (result == 0 && !answer.assembly.finished)
        result = model_api_ollama.finish(&answer.decoder);
    bl_lines_done(&lines);
    return fuzz_answer_done(&answer, result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text bytes = {(const char *)data, size};

    uint64_t whole = feed_lines(bytes, size > 0 ? size : 1);
    REQUIRE(feed_lines(bytes, 7) == whole);
    fuzz_whole(&model_api_ollama, bytes);
    return 0;
}
