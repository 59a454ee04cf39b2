#include "mcp_house.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static const char *guest_path(void)
{
    static char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - sizeof "/mcp-guest");
    path[size > 0 ? size : 0] = '\0';
    char *slash = strrchr(path, '/');
    snprintf(slash, sizeof path - (size_t)(slash - path), "/mcp-guest");
    return path;
}

static void take_notice(void *context, struct bl_text text)
{
    struct house *house = context;
    CHECK(bl_utf8_valid(text));
    bl_buffer_append(&house->notices, text);
    bl_buffer_append_byte(&house->notices, '\n');
    house->notice_count++;
}

struct house *house_new(enum bl_mechanism container)
{
    static struct house house;
    box_init(&house.box, container);
    bl_arena_init(&house.arena);
    bl_list_init(&house.entries);
    bl_buffer_init(&house.notices, SIZE_MAX);
    house.notice_count = 0;
    house.box.options.mcp = &house.entries;
    house.box.options.mcp_grace_ms = HOUSE_GRACE_MS;
    house.box.options.notice = take_notice;
    house.box.options.notice_context = &house;
    return &house;
}

static struct bl_mcp_entry *add_entry(struct house *house, const char *name)
{
    static const char *const none[] = {NULL};
    struct bl_mcp_entry *entry = bl_arena_zalloc(&house->arena, sizeof *entry);
    *entry = (struct bl_mcp_entry){.name = name,
                                   .source = BL_MCP_OF_USER,
                                   .arguments = none,
                                   .variables = none,
                                   .headers = none};
    bl_list_push_back(&house->entries, &entry->link);
    return entry;
}

struct bl_mcp_entry *house_add(struct house *house, const char *name, const char *const *words)
{
    struct bl_mcp_entry *entry = add_entry(house, name);
    const char **arguments = bl_arena_zalloc(&house->arena, 16 * sizeof *arguments);
    for (size_t i = 0; i < 15 && words[i] != NULL; i++)
        arguments[i] = words[i];
    entry->command = guest_path();
    entry->arguments = arguments;
    return entry;
}

struct bl_mcp_entry *house_add_address(struct house *house, const char *name, const char *url)
{
    struct bl_mcp_entry *entry = add_entry(house, name);
    entry->url = bl_arena_text(&house->arena, bl_text_from(url)).data;
    return entry;
}

void house_open(struct house *house)
{
    box_open(&house->box);
    box_begin(&house->box);
}

void house_refresh(struct house *house)
{
    struct bl_scope *outer = bl_scope_enter(&house->box.scope);
    bl_toolbox_refresh(house->box.toolbox);
    bl_scope_enter(outer);
}

void house_done(struct house *house)
{
    box_done(&house->box);
    bl_buffer_done(&house->notices);
    bl_arena_done(&house->arena);
}

const struct bl_tool_offer *house_offer(const struct house *house, const char *name)
{
    const struct bl_tools *tools = bl_toolbox_tools(house->box.toolbox);
    for (size_t i = 0; i < tools->offer_count; i++)
        if (strcmp(tools->offers[i].name, name) == 0)
            return &tools->offers[i];
    return NULL;
}

size_t house_offers(const struct house *house)
{
    return bl_toolbox_tools(house->box.toolbox)->offer_count - TOOL_COUNT;
}

const struct mcp_server *house_server(const struct house *house, size_t number)
{
    return &house->box.toolbox->mcp->servers[number];
}

const char *house_state(const struct house *house, size_t number)
{
    struct bl_mcp_view view;
    return CHECK(bl_toolbox_mcp(house->box.toolbox, number, &view)) ? view.state : "";
}

int house_call(struct house *house, const char *tool, const char *input)
{
    int code = box_use(&house->box, tool, input);
    CHECK_EQUAL(house->box.error.code, 0);
    return code;
}

bool house_says(const struct house *house, const char *text)
{
    bool found = bl_text_find(house->box.result.text, bl_text_from(text)) >= 0;
    if (!found)
        fprintf(stderr, "not '%s' but: %s\n", text, box_text(&house->box));
    return found;
}

bool house_noticed(const struct house *house, const char *text)
{
    bool found = bl_text_find(bl_buffer_text(&house->notices), bl_text_from(text)) >= 0;
    if (!found)
        fprintf(stderr, "not '%s' but: %.*s\n", text, (int)house->notices.size,
                house->notices.data != NULL ? house->notices.data : "");
    return found;
}

const char *house_path(const struct house *house, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", house->box.workspace, name);
    return path;
}

const char *house_file(const struct house *house, const char *name)
{
    static char text[65536];
    FILE *file = fopen(house_path(house, name), "re");
    size_t size = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    text[size] = '\0';
    return text;
}

bool house_await_file(const struct house *house, const char *name, const char *text)
{
    double from_ms = now_ms();
    while (strstr(house_file(house, name), text) == NULL && now_ms() - from_ms < 5 * SOON_MS)
        bl_sleep(5 * MS);
    bool found = strstr(house_file(house, name), text) != NULL;
    if (!found)
        fprintf(stderr, "not '%s' but: %s\n", text, house_file(house, name));
    return found;
}

/* ---- Visitors ---- */

static void hear(const struct bl_tool_call *call, struct bl_text bytes)
{
    struct visitor *visitor = BL_CONTAINER(call, struct visitor, call);
    size_t used = strlen(visitor->heard);
    snprintf(visitor->heard + used, sizeof visitor->heard - used, BL_TEXT_FORMAT,
             BL_TEXT_ARG(bytes));
}

static void ignore_event(const struct bl_tool_call *call, struct bl_event *event)
{
    (void)call, (void)event;
}

static int visitor_main(void *argument)
{
    struct visitor *visitor = argument;
    const struct bl_tools *tools = bl_toolbox_tools(visitor->house->box.toolbox);
    struct bl_scope *outer = bl_scope_enter(&visitor->scope);
    visitor->code = tools->call(tools->context, &visitor->call, &visitor->result, &visitor->error);
    bl_scope_enter(outer);
    CHECK(bl_utf8_valid(visitor->result.text));
    visitor->ended_ms = now_ms();
    visitor->ended = true;
    return 0;
}

void visitor_start(struct visitor *visitor, struct house *house, struct bl_nursery *nursery,
                   const char *id, const char *tool, const char *input)
{
    const struct bl_json *value = NULL;
    *visitor = (struct visitor){.house = house};
    bl_arena_init(&visitor->arena);
    bl_scope_init(&visitor->scope, &house->box.scope);
    bl_receipt_open(&visitor->receipt, &visitor->scope, id);
    CHECK_EQUAL(bl_json_read(&visitor->arena, bl_text_from(input), NULL, &value, NULL), 0);
    visitor->call = (struct bl_tool_call){.id = id,
                                          .name = tool,
                                          .input_text = bl_text_from(input),
                                          .input = value,
                                          .scope = &visitor->scope,
                                          .arena = &visitor->arena,
                                          .output = hear,
                                          .tell = ignore_event};
    CHECK_EQUAL(bl_nursery_spawn(nursery, NULL, id, visitor_main, visitor, NULL), 0);
}

void visitor_await(struct visitor *visitor)
{
    double from_ms = now_ms();
    while (!visitor->ended && now_ms() - from_ms < 10 * SOON_MS)
        bl_sleep(MS);
    CHECK(visitor->ended);
}

const char *visitor_receipt(struct visitor *visitor)
{
    static char out[8192];
    struct bl_json_writer writer;
    struct bl_buffer text;
    while (!bl_receipt_ready(&visitor->receipt) && bl_yield() == 0)
        continue;
    bl_buffer_init(&text, SIZE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_receipt_write(&visitor->receipt, &writer);
    snprintf(out, sizeof out, BL_TEXT_FORMAT, BL_TEXT_ARG(bl_buffer_text(&text)));
    bl_buffer_done(&text);
    return out;
}

void visitor_done(struct visitor *visitor)
{
    bl_receipt_close(&visitor->receipt);
    bl_scope_done(&visitor->scope);
    bl_arena_done(&visitor->arena);
}
