/* `belay acp`: the answer to a cancelled prompt, and the end of a client. */
#include "../acp/client.h"
#include "left.h"

static void a_cancelled_prompt_says_how_many_are_left(void **state BL_UNUSED)
{
    struct client client;

    left_require();
    CLIENT_START(&client, "--provider", left_script(), LEFT_OPTIONS);
    const char *session = client_new(&client);
    int64_t prompt = client_prompt(&client, "go");
    client_await(&client, 0, "ready");
    client_cancel(&client);
    const struct bl_json *result = client_result(&client, prompt);
    assert_string_equal(stage_text_at(result, "/stopReason"), "cancelled");
    left_check(bl_json_pointer(result, BL_TEXT("/_meta/belay~1receipt")));
    left_check_store(session, "user");
    client_end(&client);
}

static void after_the_end_of_the_client_the_store_says_how_many_are_left(void **state BL_UNUSED)
{
    struct client client;

    left_require();
    CLIENT_START(&client, "--provider", left_script(), LEFT_OPTIONS);
    const char *session = client_new(&client);
    client_prompt(&client, "go");
    client_await(&client, 0, "ready");
    client_close_input(&client);
    assert_int_equal(client_exit(&client), 130);
    left_check_store(session, "client_gone");
    client_end(&client);
}

SUITE(acp, LEFT(a_cancelled_prompt_says_how_many_are_left),
      LEFT(after_the_end_of_the_client_the_store_says_how_many_are_left));
