/* A tool in C: runs a turn in which the model calls `count`, and prints its answer. A script plays
 * the model. Build it with: cc tool.c $(pkg-config --cflags --libs belay) */
#include <stdio.h>

#include <belay/belay.h>

static const char script[] = "replies:\n"
                             "  - {tools: [{name: count, input: {text: 'to be or not to be'}}]}\n"
                             "  - say: It has six words.\n";
static const char schema[] = "{\"type\":\"object\",\"required\":[\"text\"],"
                             "\"properties\":{\"text\":{\"type\":\"string\"}}}";

/* Counts words. The input is an object; the result is made in the call's arena. A stop of the call
 * ends its waits: the tool returns the code of the wait. */
static int count_call(void *context, const struct bl_tool_call *call,
                      struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct bl_text text = bl_json_text(bl_json_get(call->input, BL_TEXT("text")));
    unsigned words = 0;
    (void)context, (void)error;
    for (size_t i = 0; i < text.size; i++)
        words += text.data[i] != ' ' && (i == 0 || text.data[i - 1] == ' ');
    int code = bl_sleep(BL_NS_PER_MS);
    ret_result->text = bl_arena_printf(call->arena, "%u words", words);
    printf("count: " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(ret_result->text));
    return code;
}

static enum bl_permit count_permit(void *context, const struct bl_tool_call *call, char *ret_reason,
                                   size_t reason_size)
{
    (void)context, (void)call, (void)ret_reason, (void)reason_size;
    return BL_PERMIT_ALLOWED;
}

/* Runs one prompt, with a limit of 10 s. */
static int prompt(void *model)
{
    struct bl_tool_offer offer = {.name = "count", .schema = bl_text_from(schema)};
    struct bl_tools tools = {
        .offers = &offer, .offer_count = 1, .permit = count_permit, .call = count_call};
    struct bl_engine engine = {
        .model = model, .tools = &tools, .clock = bl_loop_clock(bl_loop_current())};
    struct bl_run_options options = {.run_id = "run_1", .prompt = BL_TEXT("How many words?")};
    struct bl_run_result result;
    struct bl_session session;
    struct bl_receipt receipt;
    struct bl_scope limit;
    struct bl_arena arena;
    bl_arena_init(&arena);
    bl_turn_limits_init(&engine.limits);
    bl_session_init(&session, "example");
    bl_limit_begin(&limit, 10 * BL_NS_PER_S);
    bl_receipt_open(&receipt, &limit, options.run_id);
    bl_run(&engine, &session, &receipt, &options, &arena, &result);
    BL_LIST_EACH (link, &result.turns) {
        const struct bl_turn_result *turn = BL_CONTAINER(link, struct bl_turn_result, link);
        printf("%s: " BL_TEXT_FORMAT "\n", bl_turn_end_name(turn->end), BL_TEXT_ARG(turn->output));
    }
    bl_receipt_close(&receipt);
    bl_limit_end(&limit);
    bl_session_done(&session);
    bl_arena_done(&arena);
    return bl_run_exit_code(&result);
}

int main(void)
{
    struct bl_script *replies;
    struct bl_model model;
    struct bl_loop *loop;
    if (bl_script_parse(bl_text_from(script), "script", &replies, NULL) != 0 ||
        bl_loop_new(NULL, &loop, NULL) != 0)
        return 1;
    struct bl_script_player *player = bl_script_player_new(replies, 1, &model);
    int code = bl_loop_run(loop, "prompt", prompt, &model);
    bl_script_player_free(player);
    bl_script_free(replies);
    bl_loop_free(loop);
    return code;
}
