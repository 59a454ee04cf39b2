#include "recorder.h"

static const char question[] = ASKED_TEXT("Gr\u00fc\u00dfe");

/* All kinds of blocks; the first reasoning item is as the decoder keeps it, one has no readable
 * content, and nothing follows the last one. */
static const char history[] =
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"one\"},{\"type\":\"text\","
    "\"text\":\"two\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"First.\\n\\nSecond.\","
    "\"opaque\":{\"provider\":\"test\",\"model\":\"model-1\",\"item\":{\"id\":\"rs_1\",\"type\":"
    "\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"First.\"},{\"type\":"
    "\"summary_text\",\"text\":\"Second.\"}],\"content\":null,\"encrypted_content\":"
    "\"gAAAAABo/+w==\",\"status\":\"completed\"}}},"
    "{\"type\":\"text\",\"text\":\"Let me look.\"},"
    "{\"type\":\"tool_call\",\"id\":\"call_a\",\"name\":\"read\",\"input\":{\"path\":\"a\"}},"
    "{\"type\":\"tool_call\",\"id\":\"call_c\",\"name\":\"read\",\"input_text\":\"{\\\"pa\","
    "\"invalid\":"
    "\"it is cut\"}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":\"call_a\",\"text\":\"A\","
    "\"is_error\":false},{\"type\":\"text\",\"text\":\"go on\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"\",\"opaque\":"
    "{\"provider\":\"test\",\"model\":\"model-1\",\"item\":{\"id\":\"rs_2\",\"type\":\"reasoning\","
    "\"summary\":[]}}},{\"type\":\"text\",\"text\":\"It is A.\"}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"thanks\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"Hm\",\"opaque\":"
    "{\"provider\":\"test\",\"model\":\"model-1\",\"item\":{\"id\":\"rs_3\",\"type\":\"reasoning\","
    "\"content\":[{\"type\":\"reasoning_text\",\"text\":\"Hm\"}]}}},{\"type\":\"text\",\"text\":"
    "\"Yes.\"}]},"
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"bye\"}]},"
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"text\":\"cut\",\"opaque\":"
    "{\"provider\":\"test\",\"model\":\"model-1\",\"item\":{\"id\":\"rs_4\",\"type\":\"reasoning\","
    "\"summary\":[],\"encrypted_content\":\"gBBB\"}}}]}]";

static void a_plain_question_has_only_what_it_needs(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai_responses, "test", question);
    check_asked(&asking, "responses/request_plain.json");
    asking_done(&asking);
}

static void every_field_is_sent(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai_responses, "test", question);
    asking_fill(&asking);
    asking.profile.thinking = BL_EFFORT_MEDIUM;
    check_asked(&asking, "responses/request_full.json");
    asking.compat.no_reasoning_summary = true;
    check_asked(&asking, "responses/request_no_summary.json");
    asking_done(&asking);
}

static void fields_that_a_server_does_not_know_are_left_out(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai_responses, "test", question);
    asking_fill(&asking);
    asking.profile.thinking = BL_EFFORT_MEDIUM;
    asking.compat = (struct bl_compat){.no_parallel_tool_calls = true,
                                       .no_reasoning_effort = true,
                                       .no_response_format = true,
                                       .no_tool_choice = true,
                                       .no_max_tokens = true,
                                       .no_prompt_cache_key = true,
                                       .no_include = true};
    check_asked(&asking, "responses/request_compat.json");
    asking_done(&asking);
}

static void P36_encrypted_reasoning_is_sent_back_to_its_model(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai_responses, "test", history);
    check_asked(&asking, "responses/request_history.json");
    asking.compat.no_reasoning_id = true;
    check_asked(&asking, "responses/request_no_ids.json");
    asking_done(&asking);
}

static void P36_reasoning_of_another_model_is_not_sent(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai_responses, "test", history);
    asking.profile.model = "model-2";
    check_asked(&asking, "responses/request_other_model.json");
    asking.profile.model = "model-1";
    asking.compat.no_reasoning_back = true;
    check_asked(&asking, "responses/request_no_reasoning.json");
    asking_done(&asking);
}

static void an_injected_message_follows_the_results_of_the_tools(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai_responses, "test", INJECTED_MESSAGES);
    check_asked(&asking, "responses/request_injected.json");
    asking_done(&asking);
}

static void images_are_sent_with_prompts_and_results(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai_responses, "test", ILLUSTRATED_MESSAGES);
    check_asked(&asking, "responses/request_images.json");
    asking_done(&asking);
}

static void a_summary_precedes_the_turns_that_are_sent(void **state BL_UNUSED)
{
    struct asking asking;

    asking_init(&asking, &model_api_openai_responses, "test", ASKED_TEXT("four"));
    asking_sum_up(&asking);
    check_asked(&asking, "responses/request_summary.json");
    asking_done(&asking);
}

SUITE(responses, cmocka_unit_test(a_plain_question_has_only_what_it_needs),
      cmocka_unit_test(every_field_is_sent),
      cmocka_unit_test(fields_that_a_server_does_not_know_are_left_out),
      cmocka_unit_test(P36_encrypted_reasoning_is_sent_back_to_its_model),
      cmocka_unit_test(P36_reasoning_of_another_model_is_not_sent),
      cmocka_unit_test(an_injected_message_follows_the_results_of_the_tools),
      cmocka_unit_test(images_are_sent_with_prompts_and_results),
      cmocka_unit_test(a_summary_precedes_the_turns_that_are_sent));
