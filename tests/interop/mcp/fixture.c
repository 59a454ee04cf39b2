/* The MCP server with the tools that the official conformance suite wants, in the place of ours:
 * over HTTP, on any free port of loopback, without a token, until it is killed. Usage: mcp_fixture
 * STORE */
#include <belay/serve.h>
#include <stdio.h>
#include <string.h>

#define ANYTHING "{\"type\":\"object\",\"properties\":{}}"
/* One red pixel. */
#define PNG                                                                                        \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJg" \
    "gg=="

static const char headers_schema[] =
    "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":"
    "\"Region\"},\"query\":{\"type\":\"string\"}},\"required\":[\"region\"]}";

/* Kept as it is: nothing of it may be lost on the way to the client. */
static const char rich_schema[] =
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\","
    "\"$defs\":{\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{"
    "\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},"
    "\"properties\":{\"name\":{\"type\":\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},"
    "\"contactMethod\":{\"type\":\"string\",\"enum\":[\"phone\",\"email\"]},"
    "\"phone\":{\"type\":\"string\"},\"email\":{\"type\":\"string\"}},"
    "\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"
    "\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},"
    "\"required\":[\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},"
    "\"else\":{\"required\":[\"email\"]},\"additionalProperties\":false}";

#define OFFER(offer_name, words, schema_text)                                                      \
    {                                                                                              \
        .name = offer_name, .description = words, .schema = {                                      \
            schema_text,                                                                           \
            sizeof(schema_text) - 1                                                                \
        }                                                                                          \
    }

/* The first one is called without arguments by scenarios that want any tool. */
static const struct bl_tool_offer offers[] = {
    OFFER("test_simple_text", "Answers with a text.", ANYTHING),
    OFFER("test_image_content", "Answers with an image.", ANYTHING),
    OFFER("test_error_handling", "Answers with an error.", ANYTHING),
    OFFER("test_tool_with_progress", "Takes long enough to tell of it.", ANYTHING),
    OFFER("test_custom_headers", "Wants an argument in a header, too.", headers_schema),
    OFFER("json_schema_2020_12_tool", "Has a schema with many keywords.", rich_schema),
};

static void add_image(struct bl_arena *arena, struct bl_tool_result *result)
{
    struct bl_list *images = bl_arena_zalloc(arena, sizeof *images);
    struct bl_block *block = bl_arena_zalloc(arena, sizeof *block);

    bl_list_init(images);
    block->type = BL_BLOCK_IMAGE;
    block->text = BL_TEXT(PNG);
    block->name = BL_TEXT("image/png");
    bl_list_push_back(images, &block->link);
    result->images = images;
}

static int call_fixture(void *context BL_UNUSED, const struct bl_tool_call *call,
                        struct bl_tool_result *ret_result, struct bl_error *error BL_UNUSED)
{
    *ret_result = (struct bl_tool_result){0};
    if (strcmp(call->name, "test_image_content") == 0) {
        add_image(call->arena, ret_result);
        return 0;
    }
    ret_result->text = BL_TEXT("This is a simple text response for testing.");
    if (strcmp(call->name, "test_error_handling") == 0) {
        ret_result->is_error = true;
        ret_result->text = BL_TEXT("This tool intentionally returns an error for testing");
    }
    /* Progress is told once a second, and the scenario counts three. */
    if (strcmp(call->name, "test_tool_with_progress") == 0)
        return bl_sleep(3500 * BL_NS_PER_MS);
    return 0;
}

static void listening(void *context BL_UNUSED, uint16_t port)
{
    fprintf(stderr, "listening on http://127.0.0.1:%u/mcp\n", port);
}

static int serve(void *argument)
{
    static const struct bl_tools tools = {
        .offers = offers, .offer_count = BL_COUNT(offers), .call = call_fixture};
    static struct bl_activities activities;
    static struct bl_error error;
    struct bl_workplaces workplaces = {.mode = BL_PERMISSION_READ_ONLY, .directory = "/"};
    int exit_code = 1;

    bl_activities_init(&activities);
    if (bl_store_open(argument, &workplaces.store, &error) == 0) {
        struct bl_mcp_server_options options = {
            .workplaces = &workplaces,
            .activities = &activities,
            .version = "fixture",
            .http = true,
            .address = "127.0.0.1",
            .listening = listening,
            .fixtures = &tools,
        };
        bl_mcp_serve(&options, &exit_code, &error);
        bl_store_close(workplaces.store);
    }
    if (error.code != 0)
        fprintf(stderr, "%s\n", error.message);
    return exit_code;
}

int main(int count, char **words)
{
    struct bl_loop *loop;

    if (count != 2 || bl_loop_new(NULL, &loop, NULL) != 0)
        return 1;
    int code = bl_loop_run(loop, "fixture", serve, words[1]);
    bl_loop_free(loop);
    return code;
}
