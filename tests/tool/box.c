#include "box.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEARD_MAX ((size_t)64 * 1024)

static void hear(const struct bl_tool_call *call, struct bl_text bytes)
{
    struct box *box = BL_CONTAINER(call, struct box, call);
    box->pieces++;
    box->pieces_broken += !bl_utf8_valid(bytes) || bytes.size == 0;
    box->heard_bytes += bytes.size;
    bl_buffer_append(&box->heard, bytes);
    if (box->on_output != NULL)
        box->on_output(box);
}

static void note_event(const struct bl_tool_call *call, struct bl_event *event)
{
    struct box *box = BL_CONTAINER(call, struct box, call);
    box->events++;
    box->told = bl_arena_text(&box->arena, event->json);
}

void box_init(struct box *box, enum bl_mechanism container)
{
    const char *temporary = getenv("TMPDIR");
    *box = (struct box){.heard_bytes = 0};
    snprintf(box->workspace, sizeof box->workspace, "%.40s/belay-tool-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    CHECK(mkdtemp(box->workspace) != NULL);
    marker_make(box->marker);
    char *equals = strchr(box->marker, '=');
    *equals = '\0';
    setenv(box->marker, equals + 1, 1);
    *equals = '=';
    box->permissions = bl_permissions_new(BL_PERMISSION_YOLO);
    box->options = (struct bl_toolbox_options){.workspace = box->workspace,
                                               .permissions = box->permissions,
                                               .container = container,
                                               .sandbox_chosen = true,
                                               .sandbox = BL_SANDBOX_OFF};
    bl_arena_init(&box->arena);
    bl_buffer_init(&box->heard, HEARD_MAX);
    bl_scope_init(&box->scope, bl_scope_current());
    bl_receipt_open(&box->receipt, &box->scope, "run_test");
}

void box_open(struct box *box)
{
    if (!CHECK_EQUAL(bl_toolbox_new(&box->options, &box->toolbox, &box->error), 0))
        fprintf(stderr, "%s (%s)\n", box->error.message, box->error.hint);
}

void box_begin(struct box *box)
{
    box->begun = true;
    bl_activities_init(&box->activities);
    bl_nursery_init(&box->nursery, bl_scope_current());
    bl_toolbox_begin(box->toolbox, &box->nursery, &box->activities, "session-1");
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

void box_done(struct box *box)
{
    if (box->begun) {
        bl_toolbox_end(box->toolbox);
        bl_nursery_done(&box->nursery);
        CHECK(bl_list_empty(&box->activities.list));
    }
    CHECK_EQUAL(marker_count(box->marker), 0);
    marker_kill(box->marker);
    bl_receipt_close(&box->receipt);
    bl_scope_done(&box->scope);
    bl_toolbox_free(box->toolbox);
    bl_permissions_free(box->permissions);
    bl_buffer_done(&box->heard);
    bl_arena_done(&box->arena);
    nftw(box->workspace, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void prepare(struct box *box, const char *tool, const char *input)
{
    const struct bl_json *value = NULL;
    CHECK_EQUAL(bl_json_read(&box->arena, bl_text_from(input), NULL, &value, NULL), 0);
    box->call = (struct bl_tool_call){.id = "call_1",
                                      .name = tool,
                                      .input_text = bl_text_from(input),
                                      .input = value,
                                      .scope = &box->scope,
                                      .arena = &box->arena,
                                      .output = hear,
                                      .tell = note_event};
    box->heard_bytes = box->pieces = box->pieces_broken = 0;
    bl_buffer_clear(&box->heard);
    box->error = (struct bl_error){0};
}

int box_use(struct box *box, const char *tool, const char *input)
{
    const struct bl_tools *tools = bl_toolbox_tools(box->toolbox);
    prepare(box, tool, input);
    struct bl_scope *outer = bl_scope_enter(&box->scope);
    int code = tools->call(tools->context, &box->call, &box->result, &box->error);
    bl_scope_enter(outer);
    CHECK(bl_utf8_valid(box->result.text));
    return code;
}

int box_call(struct box *box, const char *input)
{
    return box_use(box, "bash", input);
}

enum bl_permit box_decide(struct box *box, const char *tool, const char *input, char *ret_reason,
                          size_t size)
{
    const struct bl_tools *tools = bl_toolbox_tools(box->toolbox);
    prepare(box, tool, input);
    ret_reason[0] = '\0';
    return tools->permit(tools->context, &box->call, ret_reason, size);
}

const char *box_rule(struct box *box, const char *tool, const char *input)
{
    static char rule[512];
    prepare(box, tool, input);
    struct bl_text text = bl_toolbox_rule(box->toolbox, &box->call);
    snprintf(rule, sizeof rule, BL_TEXT_FORMAT, BL_TEXT_ARG(text));
    return rule;
}

void box_write(const struct box *box, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", box->workspace, name);
    FILE *file = fopen(path, "we");
    if (CHECK(file != NULL)) {
        CHECK(fputs(text, file) >= 0);
        CHECK_EQUAL(fclose(file), 0);
    }
}

static struct bl_text make_input(struct box *box, const char *command, int timeout_ms)
{
    struct bl_buffer text;
    struct bl_json_writer writer;
    bl_buffer_init(&text, 1 << 20);
    bl_json_writer_init(&writer, &text);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("command"));
    bl_json_write_string(&writer, command);
    if (timeout_ms != 0) {
        bl_json_write_key(&writer, BL_TEXT("timeout_ms"));
        bl_json_write_int64(&writer, timeout_ms);
    }
    bl_json_write_end(&writer);
    CHECK_EQUAL(bl_json_writer_done(&writer), 0);
    struct bl_text kept = bl_arena_text(&box->arena, bl_buffer_text(&text));
    bl_buffer_done(&text);
    return kept;
}

int box_bash(struct box *box, const char *command, int timeout_ms)
{
    return box_call(box, make_input(box, command, timeout_ms).data);
}

bool box_permit(struct box *box, const char *command, char *ret_reason, size_t size)
{
    return box_decide(box, "bash", make_input(box, command, 0).data, ret_reason, size) ==
           BL_PERMIT_ALLOWED;
}

const char *box_text(const struct box *box)
{
    static char text[4096];
    size_t size = box->result.text.size < sizeof text ? box->result.text.size : sizeof text - 1;
    memcpy(text, size > 0 ? box->result.text.data : "", size);
    text[size] = '\0';
    return text;
}
