/* Answers of POST {base}/responses. */
#include "decoder_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_decoder(&model_api_openai_responses, data, size);
    return 0;
}
