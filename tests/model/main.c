#include "suite.h"

extern const struct suite retry_suite;
extern const struct suite value_suite;
extern const struct suite script_parse_suite;
extern const struct suite script_load_suite;
extern const struct suite script_suite;
extern const struct suite assembly_suite;
extern const struct suite failure_suite;
extern const struct suite fuzz_suite;
extern const struct suite request_suite;
extern const struct suite anthropic_suite;
extern const struct suite anthropic_decode_suite;
extern const struct suite openai_suite;
extern const struct suite openai_decode_suite;
extern const struct suite responses_suite;
extern const struct suite responses_decode_suite;
extern const struct suite ollama_suite;
extern const struct suite ledger_suite;
extern const struct suite price_suite;
extern const struct suite remote_suite;
extern const struct suite attempt_suite;
extern const struct suite connection_suite;
extern const struct suite cassette_suite;
extern const struct suite config_suite;
extern const struct suite config_file_suite;
extern const struct suite config_find_suite;
extern const struct suite config_key_suite;
extern const struct suite script_serve_suite;
extern const struct suite script_request_suite;
extern const struct suite script_answer_suite;
extern const struct suite stop_suite;
extern const struct suite timing_suite;

SUITE_MAIN(&retry_suite, &value_suite, &script_parse_suite, &script_load_suite, &script_suite,
           &assembly_suite, &failure_suite, &request_suite, &anthropic_suite,
           &anthropic_decode_suite, &openai_suite, &openai_decode_suite, &responses_suite,
           &responses_decode_suite, &ollama_suite, &ledger_suite, &price_suite, &remote_suite,
           &attempt_suite, &cassette_suite, &config_suite, &config_file_suite, &config_find_suite,
           &config_key_suite, &script_serve_suite, &script_request_suite, &script_answer_suite,
           &stop_suite, &timing_suite, &fuzz_suite, &connection_suite)
