/* Reading and writing JSON, compared with cJSON and jansson. */
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>
#include <jansson.h>

#include <belay/json.h>

#include "report.h"

#define ROUNDS   REPORT_ROUNDS
#define ROUND_NS 20e6

/* One operation on one document. Keeps the input between calls. */
struct subject {
    struct bl_text document;
    struct bl_arena arena;
    struct bl_buffer buffer;
    const struct bl_json *value;
    cJSON *cjson;
    json_t *jansson;
};

typedef void step(struct subject *subject);

static void belay_read(struct subject *subject)
{
    bl_arena_reset(&subject->arena);
    if (bl_json_read(&subject->arena, subject->document, NULL, &subject->value, NULL) != 0)
        report_die("belay refuses the document");
}

static void belay_write(struct subject *subject)
{
    struct bl_json_writer writer;

    bl_buffer_clear(&subject->buffer);
    bl_json_writer_init(&writer, &subject->buffer);
    bl_json_write_value(&writer, subject->value);
    if (bl_json_writer_done(&writer) != 0)
        report_die("belay cannot write");
}

static void belay_both(struct subject *subject)
{
    belay_read(subject);
    belay_write(subject);
}

static void cjson_read(struct subject *subject)
{
    cJSON *value = cJSON_ParseWithLength(subject->document.data, subject->document.size);
    if (value == NULL)
        report_die("cJSON refuses the document");
    cJSON_Delete(value);
}

static void cjson_write(struct subject *subject)
{
    char *text = cJSON_PrintUnformatted(subject->cjson);
    if (text == NULL)
        report_die("cJSON cannot write");
    free(text);
}

static void cjson_both(struct subject *subject)
{
    cJSON *value = cJSON_ParseWithLength(subject->document.data, subject->document.size);
    char *text = value != NULL ? cJSON_PrintUnformatted(value) : NULL;
    if (text == NULL)
        report_die("cJSON fails");
    free(text);
    cJSON_Delete(value);
}

static void jansson_read(struct subject *subject)
{
    json_t *value = json_loadb(subject->document.data, subject->document.size, 0, NULL);
    if (value == NULL)
        report_die("jansson refuses the document");
    json_decref(value);
}

static void jansson_write(struct subject *subject)
{
    char *text = json_dumps(subject->jansson, JSON_COMPACT);
    if (text == NULL)
        report_die("jansson cannot write");
    free(text);
}

static void jansson_both(struct subject *subject)
{
    json_t *value = json_loadb(subject->document.data, subject->document.size, 0, NULL);
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
    if (text == NULL)
        report_die("jansson fails");
    free(text);
    json_decref(value);
}

static double measure_ns(step *run, struct subject *subject, unsigned times)
{
    double start_ns = report_processor_ns();
    for (unsigned i = 0; i < times; i++)
        run(subject);
    return (report_processor_ns() - start_ns) / times;
}

static void print_result(const char *document, const char *action, double value_ns,
                         const char *baseline, double baseline_ns)
{
    char name[80];

    snprintf(name, sizeof name, "json %s %s", document, action);
    report_line(name, value_ns, "ns", baseline, baseline_ns);
}

/* Runs the three in turn for equal times, so that a change in the machine's speed affects all of
 * them equally. */
static void compare(struct subject *subject, const char *document, const char *action,
                    step *const steps[3])
{
    double times[3][ROUNDS];
    unsigned repetitions[3];

    for (int i = 0; i < 3; i++)
        repetitions[i] = (unsigned)(ROUND_NS / measure_ns(steps[i], subject, 3)) + 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3; i++)
            times[i][round] = measure_ns(steps[i], subject, repetitions[i]);
    }
    double ours = report_median(times[0], ROUNDS);
    print_result(document, action, ours, "cJSON", report_median(times[1], ROUNDS));
    print_result(document, action, ours, "jansson", report_median(times[2], ROUNDS));
}

static void run_document(const char *name, struct bl_text document)
{
    struct subject subject = {.document = document};

    bl_arena_init(&subject.arena);
    bl_buffer_init(&subject.buffer, 16u << 20);
    subject.cjson = cJSON_ParseWithLength(document.data, document.size);
    subject.jansson = json_loadb(document.data, document.size, 0, NULL);
    if (subject.cjson == NULL || subject.jansson == NULL)
        report_die("a baseline refuses the document");
    compare(&subject, name, "parse+write", (step *const[]){belay_both, cjson_both, jansson_both});
    compare(&subject, name, "parse", (step *const[]){belay_read, cjson_read, jansson_read});
    compare(&subject, name, "write", (step *const[]){belay_write, cjson_write, jansson_write});
    cJSON_Delete(subject.cjson);
    json_decref(subject.jansson);
    bl_buffer_done(&subject.buffer);
    bl_arena_done(&subject.arena);
}

/* One event of a chat stream, as OpenAI sends it. */
static const char chunk[] =
    "{\"id\":\"chatcmpl-BkQ7xZc2fJ9sLwVn4tRyHd81u\",\"object\":\"chat.completion.chunk\","
    "\"created\":1763232607,\"model\":\"gpt-4.1-mini-2025-04-14\",\"service_tier\":\"default\","
    "\"system_fingerprint\":\"fp_6f2eabb9a5\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
    "\" the\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}";
_Static_assert(sizeof(chunk) - 1 == 294, "the contract names a chunk of 294 bytes");

/* One exchange: a question, a tool call, its result with numbers, an answer. */
static void write_exchange(struct bl_json_writer *writer, unsigned number)
{
    static const char question[] =
        "Why does the build of branch \"feature/retry\" fail?\n\n"
        "Here is what I see:\n\tmake: *** [all] Error 2\n"
        "Bitte pr\u00fcfe auch die \u00dcbersetzung \u2014 \u65e5\u672c\u8a9e "
        "\u3082\u3002 Thanks \U0001f600";
    static const char answer[] =
        "The linker does not find `libuv`. It is declared in meson.build, but the container image "
        "that the job uses was built before the dependency was added, so the package is missing "
        "there.\n\n1. Rebuild the image\n2. Run the job again\n\nI checked C:\\build\\out as well; "
        "nothing in it is stale. The other warnings that you see are harmless and come from the "
        "tests alone, which are compiled with more of them switched on than the sources are.";
    char id[48];

    snprintf(id, sizeof id, "call_%08x%08x", number * 2654435761u, number);
    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("role"));
    bl_json_write_string(writer, "user");
    bl_json_write_key(writer, BL_TEXT("content"));
    bl_json_write_string(writer, question);
    bl_json_write_end(writer);

    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("role"));
    bl_json_write_string(writer, "assistant");
    bl_json_write_key(writer, BL_TEXT("tool_calls"));
    bl_json_write_array(writer);
    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("id"));
    bl_json_write_string(writer, id);
    bl_json_write_key(writer, BL_TEXT("type"));
    bl_json_write_string(writer, "function");
    bl_json_write_key(writer, BL_TEXT("function"));
    bl_json_write_raw(writer, BL_TEXT("{\"name\":\"read_file\",\"arguments\":\"{\\\"path\\\":"
                                      "\\\"src/meson.build\\\",\\\"from\\\":1,\\\"to\\\":80}\"}"));
    bl_json_write_end(writer);
    bl_json_write_end(writer);
    bl_json_write_end(writer);

    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("role"));
    bl_json_write_string(writer, "tool");
    bl_json_write_key(writer, BL_TEXT("tool_call_id"));
    bl_json_write_string(writer, id);
    bl_json_write_key(writer, BL_TEXT("content"));
    bl_json_write_string(writer, answer);
    bl_json_write_key(writer, BL_TEXT("seconds"));
    bl_json_write_double(writer, 0.001 * (number % 9973) + 0.0421);
    bl_json_write_key(writer, BL_TEXT("scores"));
    bl_json_write_array(writer);
    for (unsigned i = 0; i < 6; i++)
        bl_json_write_double(writer, 1.0 / (number + i + 3));
    bl_json_write_end(writer);
    bl_json_write_key(writer, BL_TEXT("usage"));
    bl_json_write_object(writer);
    bl_json_write_key(writer, BL_TEXT("prompt_tokens"));
    bl_json_write_int64(writer, 1200 + number);
    bl_json_write_key(writer, BL_TEXT("completion_tokens"));
    bl_json_write_int64(writer, 87 + number % 50);
    bl_json_write_key(writer, BL_TEXT("cached"));
    bl_json_write_boolean(writer, number % 3 == 0);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

/* A conversation of slightly more than a mebibyte. */
static void write_conversation(struct bl_buffer *out)
{
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, out);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("model"));
    bl_json_write_string(&writer, "gpt-4.1");
    bl_json_write_key(&writer, BL_TEXT("messages"));
    bl_json_write_array(&writer);
    for (unsigned i = 0; out->size < 1u << 20; i++)
        write_exchange(&writer, i);
    bl_json_write_end(&writer);
    bl_json_write_end(&writer);
    if (bl_json_writer_done(&writer) != 0)
        report_die("the conversation cannot be made");
}

int main(void)
{
    struct bl_buffer conversation;

    run_document("chunk-294B", (struct bl_text){chunk, sizeof(chunk) - 1});
    bl_buffer_init(&conversation, 2u << 20);
    write_conversation(&conversation);
    run_document("conversation-1MiB", bl_buffer_text(&conversation));
    bl_buffer_done(&conversation);
    return 0;
}
