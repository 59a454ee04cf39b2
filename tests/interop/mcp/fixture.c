/* The MCP server with the tools that the official conformance suite wants, in the place of our tools:
 * over HTTP, on any free port of loopback, without a token, until it is killed. Usage: mcp_fixture
 * STORE
 *
 * What a tool is for is the suite's to say; what it does is made of the parts that our own are made
 * of, and none of it is in the product. */
#include <stdio.h>
#include <string.h>

#include "serve/mcp/core.h"

#define ANYTHING "{\"type\":\"object\",\"properties\":{}}"
/* One red pixel; eight bytes of silence. */
#define PNG                                                                                        \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJg" \
    "gg=="
#define WAV   "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA=="
#define IMAGE "{\"type\":\"image\",\"mimeType\":\"image/png\",\"data\":\"" PNG "\"}"

static const char headers_schema[] =
    "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":"
    "\"Region\"},\"query\":{\"type\":\"string\"}},\"required\":[\"region\"]}";

static const char slow_schema[] =
    "{\"type\":\"object\",\"properties\":{\"seconds\":{\"type\":\"integer\",\"minimum\":0,"
    "\"maximum\":60},\"label\":{\"type\":\"string\"}}}";

static const char name_schema[] =
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}";

/* Kept as it is: none of it may be lost on the way to the client. */
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

/* ---- Tools that answer at once --------------------------------------------------------------- */

static void answer_text(struct mcp_request *request, struct bl_text text, bool is_error,
                        struct mcp_reply *ret_reply)
{
    struct mcp_outcome outcome = {.text = text, .is_error = is_error};

    mcp_answer_outcome(request, &outcome, ret_reply);
}

/* `blocks`: a JSON array. */
static void answer_content(struct mcp_request *request, const char *blocks,
                           struct mcp_reply *ret_reply)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, MCP_ANSWER_MAX);
    bl_json_writer_init(&writer, &out);
    mcp_result_begin(&writer, request->peer->server, request->version, "complete");
    bl_json_put_json(&writer, "content", bl_text_from(blocks));
    bl_json_write_end(&writer);
    *ret_reply = (struct mcp_reply){.result = mcp_take(request->arena, &out)};
}

static void simple_text(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                        struct mcp_reply *ret_reply)
{
    answer_text(request, BL_TEXT("This is a simple text response for testing."), false, ret_reply);
}

static void error_handling(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                           struct mcp_reply *ret_reply)
{
    answer_text(request, BL_TEXT("This tool intentionally returns an error for testing"), true,
                ret_reply);
}

static void image_content(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                          struct mcp_reply *ret_reply)
{
    answer_content(request, "[" IMAGE "]", ret_reply);
}

static void audio_content(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                          struct mcp_reply *ret_reply)
{
    answer_content(request,
                   "[{\"type\":\"audio\",\"mimeType\":\"audio/wav\",\"data\":\"" WAV "\"}]",
                   ret_reply);
}

static void embedded_resource(struct mcp_request *request,
                              const struct bl_json *arguments BL_UNUSED,
                              struct mcp_reply *ret_reply)
{
    answer_content(request,
                   "[{\"type\":\"resource\",\"resource\":{\"uri\":\"test://embedded-resource\","
                   "\"mimeType\":\"text/plain\",\"text\":\"This is an embedded resource "
                   "content.\"}}]",
                   ret_reply);
}

static void multiple_content(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                             struct mcp_reply *ret_reply)
{
    answer_content(request,
                   "[{\"type\":\"text\",\"text\":\"Multiple content types test:\"}," IMAGE ","
                   "{\"type\":\"resource\",\"resource\":{\"uri\":\"test://mixed-content-resource\","
                   "\"mimeType\":\"application/json\",\"text\":"
                   "\"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]",
                   ret_reply);
}

static void greet(struct mcp_request *request, const struct bl_json *arguments,
                  struct mcp_reply *ret_reply)
{
    struct bl_text name = bl_json_text(bl_json_get(arguments, BL_TEXT("name")));
    struct bl_text text =
        bl_arena_printf(request->arena, "Hello, " BL_TEXT_FORMAT "!", BL_TEXT_ARG(name));

    answer_text(request, text, false, ret_reply);
}

static void refuse_without(struct mcp_request *request, struct bl_text capabilities,
                           struct mcp_reply *ret_reply)
{
    mcp_fail(request, ret_reply, MCP_MISSING_CAPABILITY, NULL,
             "the request does not declare what this tool needs of its client");
    ret_reply->data = bl_arena_printf(
        request->arena, "{\"requiredCapabilities\":" BL_TEXT_FORMAT "}", BL_TEXT_ARG(capabilities));
}

/* The suite never declares it. */
static void missing_capability(struct mcp_request *request,
                               const struct bl_json *arguments BL_UNUSED,
                               struct mcp_reply *ret_reply)
{
    refuse_without(request, BL_TEXT("{\"sampling\":{}}"), ret_reply);
}

/* ---- Tools that take their time -------------------------------------------------------------- */

struct job {
    struct mcp_work work;
    uint64_t duration_ns;
    struct mcp_outcome then; /* its outcome, unless it is stopped */
};

static void job_main(struct mcp_work *work)
{
    const struct job *job = BL_CONTAINER(work, struct job, work);

    if (bl_sleep(job->duration_ns) == 0)
        work->outcome = job->then;
    else
        work->outcome = (struct mcp_outcome){.text = BL_TEXT("stopped"), .cancelled = true};
}

static struct job *job_new(struct mcp_request *request, uint64_t duration_ms)
{
    struct mcp_work *work =
        mcp_work_new(request->peer->server, "fixture", sizeof(struct job), job_main);
    struct job *job = BL_CONTAINER(work, struct job, work);

    mcp_id_make(work->id, "job_");
    job->duration_ns = duration_ms * BL_NS_PER_MS;
    job->then.text = BL_TEXT("It took its time.");
    return job;
}

static void serve_task(struct mcp_request *request, struct job *job, struct mcp_reply *ret_reply)
{
    struct bl_error *error = bl_arena_zalloc(request->arena, sizeof *error);
    int code = mcp_task_begin(&job->work, NULL, error);

    if (code == 0)
        code = mcp_work_start(&job->work, NULL);
    if (code == 0)
        mcp_task_answer(request, &job->work, ret_reply);
    else
        mcp_fail(request, ret_reply, BL_RPC_INTERNAL, NULL, "%s", bl_error_text(code));
    mcp_work_unref(&job->work);
}

/* Progress is reported once a second, and the scenario counts three. */
static void with_progress(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                          struct mcp_reply *ret_reply)
{
    mcp_work_serve(request, &job_new(request, 3500)->work, ret_reply);
}

/* Longer than an answer that is not a stream may take. The scenarios look at what else is in that
 * stream; those that would have belay ask or log there find the answer alone. */
static void over_a_stream(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                          struct mcp_reply *ret_reply)
{
    mcp_work_serve(request, &job_new(request, 300)->work, ret_reply);
}

static void slow_compute(struct mcp_request *request, const struct bl_json *arguments,
                         struct mcp_reply *ret_reply)
{
    int64_t seconds = 1;

    bl_json_int64(bl_json_get(arguments, BL_TEXT("seconds")), &seconds);
    struct job *job = job_new(request, (uint64_t)seconds * 1000);
    job->then.json = BL_TEXT("{\"computed\":true}");
    if (mcp_request_takes_tasks(request))
        serve_task(request, job, ret_reply);
    else
        mcp_work_serve(request, &job->work, ret_reply);
}

/* Can only be a task. Its failure is its result. */
static void failing_job(struct mcp_request *request, const struct bl_json *arguments BL_UNUSED,
                        struct mcp_reply *ret_reply)
{
    if (!mcp_request_takes_tasks(request)) {
        refuse_without(request, BL_TEXT("{\"extensions\":{\"" MCP_TASKS "\":{}}}"), ret_reply);
        return;
    }
    struct job *job = job_new(request, 1000);
    job->then.text = BL_TEXT("This job always fails.");
    job->then.is_error = true;
    serve_task(request, job, ret_reply);
}

/* Neither a result nor an error of the tool's own: an error of the protocol. */
static void protocol_error_job(struct mcp_request *request,
                               const struct bl_json *arguments BL_UNUSED,
                               struct mcp_reply *ret_reply)
{
    serve_task(request, job_new(request, 100), ret_reply);
}

/* ---- All of them ----------------------------------------------------------------------------- */

#define TOOL(tool_name, words, text, function)                                                     \
    {                                                                                              \
        .name = tool_name, .description = words, .schema = text, .serve = function                 \
    }

/* The first one is called without arguments by scenarios that want any tool. */
static const struct mcp_tool tools[] = {
    TOOL("test_simple_text", "Answers with a text.", ANYTHING, simple_text),
    TOOL("test_image_content", "Answers with an image.", ANYTHING, image_content),
    TOOL("test_audio_content", "Answers with a sound.", ANYTHING, audio_content),
    TOOL("test_embedded_resource", "Answers with a resource.", ANYTHING, embedded_resource),
    TOOL("test_multiple_content_types", "Answers with several things.", ANYTHING, multiple_content),
    TOOL("test_error_handling", "Answers with an error.", ANYTHING, error_handling),
    TOOL("test_tool_with_progress", "Takes long enough to report progress.", ANYTHING,
         with_progress),
    TOOL("test_reconnection", "Takes long enough for a stream.", ANYTHING, over_a_stream),
    TOOL("test_streaming_elicitation", "The same, and asks nothing.", ANYTHING, over_a_stream),
    TOOL("test_logging_tool", "The same, and logs nothing.", ANYTHING, over_a_stream),
    TOOL("test_custom_headers", "Wants an argument in a header, too.", headers_schema, simple_text),
    TOOL("json_schema_2020_12_tool", "Has a schema with many keywords.", rich_schema, simple_text),
    TOOL("test_missing_capability", "Wants a client that samples.", ANYTHING, missing_capability),
    TOOL("greet", "Greets.", name_schema, greet),
    TOOL("slow_compute", "Can be a task.", slow_schema, slow_compute),
    TOOL("failing_job", "Is a task, and fails.", ANYTHING, failing_job),
    TOOL("protocol_error_job", "Is a task without a result.", ANYTHING, protocol_error_job),
    TOOL("confirm_delete", "Asks nobody.", ANYTHING, simple_text),
};

/* ---- The server ------------------------------------------------------------------------------ */

static void listening(void *context BL_UNUSED, uint16_t port)
{
    fprintf(stderr, "listening on http://127.0.0.1:%u/mcp\n", port);
}

static int serve(void *argument)
{
    static struct bl_activities activities;
    static struct bl_error error;
    struct bl_workspace_options workspace;
    struct bl_runtime runtime;
    struct bl_store *store;
    int exit_code = 1;

    bl_workspace_options_init(&workspace, "/");
    workspace.provider = "script";
    workspace.mode_chosen = true;
    workspace.mode = BL_PERMISSION_READ_ONLY;

    bl_activities_init(&activities);
    if (bl_store_open(argument, &store, &error) == 0 &&
        bl_runtime_begin(&runtime, &workspace, store, &error) == 0) {
        struct bl_mcp_server_options options = {
            .runtime = &runtime,
            .activities = &activities,
            .version = "fixture",
            .http = true,
            .address = "127.0.0.1",
            .listening = listening,
        };
        mcp_serve(&options, tools, BL_COUNT(tools), &exit_code, &error);
        bl_runtime_end(&runtime);
        bl_store_close(store);
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
