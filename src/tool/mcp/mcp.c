/* The MCP servers of a toolbox, and their tools among its offers. */
#include <stdio.h>

#include "mcp.h"

#define NOTICES_MAX 200u

struct notice {
    struct bl_list link;
    struct bl_text text; /* stored after the struct */
};

/* ---- Notices --------------------------------------------------------------------------------- */

/* Notices contain text of servers: keep it on one line, valid, and without bytes that a terminal
 * would obey. */
static struct bl_text mcp_clean(struct bl_text text, char *out)
{
    size_t size = 0;
    while (text.size > 0) {
        uint32_t code_point = 0;
        size_t length = bl_utf8_decode(text, &code_point);
        bool plain = length > 0 && code_point >= 0x20 && (code_point < 0x7f || code_point >= 0xa0);
        length = length > 0 ? length : 1;
        if (plain)
            memcpy(out + size, text.data, length);
        else
            out[size] = ' ';
        size += plain ? length : 1;
        text = (struct bl_text){text.data + length, text.size - length};
    }
    return (struct bl_text){out, size};
}

void mcp_notice(struct bl_toolbox *toolbox, const char *format, ...)
{
    struct mcp_box *box = toolbox->mcp;
    BL_AUTO_BUFFER(text, SIZE_MAX);
    va_list arguments;
    /* The waiting notices are enough for a server that fails again and again. */
    if (box->notice_count >= NOTICES_MAX)
        return;
    va_start(arguments, format);
    bl_buffer_vprintf(&text, format, arguments);
    va_end(arguments);
    struct notice *notice = bl_alloc(sizeof *notice + text.size);
    notice->text = mcp_clean(bl_buffer_text(&text), (char *)(notice + 1));
    bl_list_push_back(&box->notices, &notice->link);
    box->notice_count++;
}

void mcp_notices_tell(struct bl_toolbox *toolbox)
{
    struct mcp_box *box = toolbox->mcp;
    struct bl_list *link;
    while ((link = bl_list_pop_front(&box->notices)) != NULL) {
        struct notice *notice = BL_CONTAINER(link, struct notice, link);
        box->notice_count--;
        if (toolbox->notice != NULL)
            toolbox->notice(toolbox->notice_context, notice->text);
        bl_free(notice);
    }
}

/* The session has ended, so the notices have no receiver. */
static void drop_notices(struct mcp_box *box)
{
    struct bl_list *link;
    while ((link = bl_list_pop_front(&box->notices)) != NULL)
        bl_free(BL_CONTAINER(link, struct notice, link));
    box->notice_count = 0;
}

void bl_toolbox_set_notice(struct bl_toolbox *toolbox,
                           void (*notice)(void *context, struct bl_text text), void *context)
{
    toolbox->notice = notice != NULL ? notice : toolbox->notice_given;
    toolbox->notice_context = notice != NULL ? context : toolbox->notice_given_context;
}

/* ---- Offers ---------------------------------------------------------------------------------- */

void bl_toolbox_let_go(struct bl_toolbox_held *held)
{
    if (held == NULL || --held->users > 0)
        return;
    for (size_t i = 0; i < held->listing_count; i++)
        mcp_listing_unref(held->listings[i]);
    bl_arena_done(&held->arena);
    bl_free(held);
}

struct bl_toolbox_held *bl_toolbox_hold(struct bl_toolbox *toolbox)
{
    struct bl_toolbox_held *held = toolbox->mcp != NULL ? toolbox->mcp->held : NULL;
    if (held != NULL)
        held->users++;
    return held;
}

/* Returns whether its tools can be called, if need be after a restart. */
static bool is_offered(const struct mcp_server *server)
{
    return server->listing != NULL && server->state != MCP_OUT_OF_SERVICE;
}

static size_t count_tools(const struct mcp_box *box)
{
    size_t count = 0;
    for (size_t i = 0; i < box->count; i++)
        if (is_offered(&box->servers[i]))
            count += box->servers[i].listing->count;
    return count;
}

/* A name that several tools share is given to none of them, whatever their order: so names are the
 * same on each start. */
static const char *choose_name(struct bl_arena *arena, const struct mcp_tool *tool,
                               const struct bl_map *plain, struct bl_map *taken)
{
    const char *server = tool->server->entry->name;
    char name[MCP_NAME_SIZE];
    bool fits = mcp_name_plain(name, server, tool->own_name);
    if (!fits || (uintptr_t)bl_map_get(plain, bl_text_from(name)) > 1)
        mcp_name_hashed(name, server, tool->own_name, 0);
    for (unsigned salt = 1; bl_map_has(taken, bl_text_from(name)); salt++)
        mcp_name_hashed(name, server, tool->own_name, salt);
    bl_map_set(taken, bl_text_from(name), taken, NULL);
    return bl_arena_text(arena, bl_text_from(name)).data;
}

static void mcp_count_names(const struct mcp_box *box, struct bl_map *plain)
{
    char name[MCP_NAME_SIZE];
    for (size_t i = 0; i < box->count; i++) {
        const struct mcp_server *server = &box->servers[i];
        for (size_t k = 0; is_offered(server) && k < server->listing->count; k++) {
            if (!mcp_name_plain(name, server->entry->name, server->listing->tools[k].own_name))
                continue;
            uintptr_t before = (uintptr_t)bl_map_get(plain, bl_text_from(name));
            bl_map_set(plain, bl_text_from(name), (void *)(before + 1), NULL);
        }
    }
}

static void add_listing(struct bl_toolbox_held *held, struct mcp_listing *listing,
                        const struct bl_map *plain, struct bl_map *taken)
{
    listing->users++;
    held->listings[held->listing_count++] = listing;
    for (size_t i = 0; i < listing->count; i++) {
        const struct mcp_tool *tool = &listing->tools[i];
        held->tools[held->count - TOOL_COUNT] = tool;
        held->offers[held->count++] = (struct bl_tool_offer){
            .name = choose_name(&held->arena, tool, plain, taken),
            .description = tool->description,
            .schema = tool->schema,
            .compiled = tool->compiled,
            .parallel = tool->reads,
        };
    }
}

/* Builds the offers from the listings of all servers. */
static void mcp_rebuild(struct bl_toolbox *toolbox)
{
    struct mcp_box *box = toolbox->mcp;
    struct bl_toolbox_held *held = bl_zalloc(sizeof *held);
    struct bl_map plain, taken;
    size_t count = count_tools(box);
    held->users = 1;
    held->offers = bl_arena_alloc(&held->arena, (TOOL_COUNT + count) * sizeof *held->offers);
    held->tools = bl_arena_alloc(&held->arena, (count + 1) * sizeof *held->tools);
    held->listings = bl_arena_alloc(&held->arena, (box->count + 1) * sizeof *held->listings);
    memcpy(held->offers, toolbox->offers, sizeof toolbox->offers);
    held->count = TOOL_COUNT;
    bl_map_init(&plain);
    bl_map_init(&taken);
    mcp_count_names(box, &plain);
    for (size_t i = 0; i < box->count; i++)
        if (is_offered(&box->servers[i]))
            add_listing(held, box->servers[i].listing, &plain, &taken);
    bl_map_done(&plain);
    bl_map_done(&taken);
    bl_toolbox_let_go(box->held);
    box->held = held;
    toolbox->tools.offers = held->offers;
    toolbox->tools.offer_count = held->count;
}

/* Returns whether the offers match the current listings. */
static bool mcp_is_current(const struct mcp_box *box)
{
    size_t number = 0;
    for (size_t i = 0; i < box->count; i++) {
        if (!is_offered(&box->servers[i]))
            continue;
        if (box->held == NULL || number >= box->held->listing_count ||
            box->held->listings[number] != box->servers[i].listing)
            return false;
        number++;
    }
    return box->held == NULL ? number == 0 : number == box->held->listing_count;
}

const struct mcp_tool *mcp_box_find(const struct bl_toolbox *toolbox, const char *name)
{
    const struct bl_toolbox_held *held = toolbox->mcp != NULL ? toolbox->mcp->held : NULL;
    for (size_t i = TOOL_COUNT; held != NULL && i < held->count; i++)
        if (strcmp(held->offers[i].name, name) == 0)
            return held->tools[i - TOOL_COUNT];
    return NULL;
}

int mcp_box_call(struct bl_toolbox *toolbox, const struct mcp_tool *tool,
                 const struct bl_tool_call *call, struct bl_tool_result *ret_result,
                 struct bl_error *error)
{
    struct bl_toolbox_held *held = bl_toolbox_hold(toolbox);
    int code = mcp_call_run(toolbox, tool, call, ret_result, error);
    bl_toolbox_let_go(held);
    return code;
}

/* ---- Refreshing ------------------------------------------------------------------------------ */

/* Waits for a server's start, as a unit of the receipt if a stop comes meanwhile. */
static int settle_main(void *argument)
{
    struct mcp_server *server = argument;
    struct bl_unit *unit = bl_alloc(sizeof *unit);
    uint64_t ends = server->ends;
    char id[256];
    snprintf(id, sizeof id, "mcp %s", server->entry->name);
    bl_unit_begin(unit, BL_UNIT_TOOL, id, "start");
    int code = mcp_server_settle(server);
    if (code != 0 && server->ends != ends)
        bl_command_unit_end(unit, &server->last_end);
    else
        bl_unit_end(unit, code != 0 ? BL_FATE_ABORTED : BL_FATE_FINISHED);
    bl_free(unit);
    return 0;
}

/* Waits for all at once, so that a stop gives them one common grace period. */
static void settle_all(struct mcp_box *box)
{
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    for (size_t i = 0; i < box->count; i++) {
        struct mcp_server *server = &box->servers[i];
        if (server->state == MCP_STARTING &&
            bl_nursery_spawn(&nursery, NULL, "mcp settle", settle_main, server, NULL) != 0)
            settle_main(server);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
}

/* Reads a server's list again after it announced a change. */
static void list_again(struct mcp_server *server)
{
    uint64_t limit_ns = server->entry->start_ns != 0 ? server->entry->start_ns : BL_MCP_START_NS;
    struct bl_error *error = bl_zalloc(sizeof *error);
    struct bl_scope limited, *outer = bl_scope_current();
    struct mcp_listing *listing = NULL;
    server->stale = false;
    bl_limit_begin(&limited, limit_ns);
    int code = mcp_list(server, &listing, error);
    bl_limit_end(&limited);
    if (code == 0) {
        mcp_listing_unref(server->listing);
        server->listing = listing;
    } else if (bl_scope_check(outer) != 0) {
        server->stale = true;
    } else {
        mcp_notice(server->toolbox, "MCP server %s: cannot read its changed list of tools: %s",
                   server->entry->name, error->code != 0 ? error->message : bl_error_text(code));
    }
    bl_free(error);
}

/* Not before the first use: until then the user may approve them. */
static void notice_untrusted(struct bl_toolbox *toolbox)
{
    struct mcp_box *box = toolbox->mcp;
    for (size_t i = 0; i < box->count && !box->untrusted_told; i++) {
        const struct mcp_server *server = &box->servers[i];
        if (server->state == MCP_UNTRUSTED)
            mcp_notice(toolbox, "MCP server %s: not started: %s (use --trust-mcp)",
                       server->entry->name, server->why);
    }
    box->untrusted_told = true;
}

void bl_toolbox_refresh(struct bl_toolbox *toolbox)
{
    struct mcp_box *box = toolbox->mcp;
    if (box == NULL)
        return;
    for (size_t i = 0; i < box->count; i++)
        if (box->servers[i].listing == NULL)
            mcp_server_begin(&box->servers[i]);
    settle_all(box);
    for (size_t i = 0; i < box->count; i++) {
        struct mcp_server *server = &box->servers[i];
        if (server->stale && server->state == MCP_READY && bl_check() == 0)
            list_again(server);
    }
    if (!mcp_is_current(box))
        mcp_rebuild(toolbox);
    notice_untrusted(toolbox);
    mcp_notices_tell(toolbox);
}

static void refresh(void *context)
{
    bl_toolbox_refresh(context);
}

bool bl_toolbox_mcp(const struct bl_toolbox *toolbox, size_t number, struct bl_mcp_view *ret_view)
{
    static const char *const names[] = {
        [MCP_UNTRUSTED] = "untrusted", [MCP_IDLE] = "off",
        [MCP_STARTING] = "starting",   [MCP_READY] = "ready",
        [MCP_FAILED] = "failed",       [MCP_OUT_OF_SERVICE] = "out_of_service",
    };
    if (toolbox->mcp == NULL || number >= toolbox->mcp->count)
        return false;
    const struct mcp_server *server = &toolbox->mcp->servers[number];
    *ret_view = (struct bl_mcp_view){
        .name = server->entry->name,
        .entry = server->entry,
        .state = names[server->state],
        .why =
            server->state == MCP_IDLE ? BL_TEXT("starts on next use") : bl_text_from(server->why),
        .protocol = server->protocol,
        .tool_count = server->listing != NULL ? server->listing->count : 0,
    };
    return true;
}

/* ---- The toolbox ----------------------------------------------------------------------------- */

void mcp_box_new(struct bl_toolbox *toolbox, const struct bl_list *entries, bool trusted)
{
    size_t count = 0;
    BL_LIST_EACH (link, entries)
        count++;
    if (count == 0)
        return;
    struct mcp_box *box = bl_zalloc(sizeof *box);
    toolbox->mcp = box;
    toolbox->tools.refresh = refresh;
    bl_list_init(&box->notices);
    box->servers = bl_zalloc(count * sizeof *box->servers);
    BL_LIST_EACH (link, entries) {
        const struct bl_mcp_entry *entry = BL_CONTAINER(link, struct bl_mcp_entry, link);
        struct mcp_server *server = &box->servers[box->count++];
        mcp_server_init(server, toolbox, entry);
        if (entry->source != BL_MCP_OF_WORKSPACE || trusted || bl_mcp_trusted(entry))
            continue;
        server->state = MCP_UNTRUSTED;
        bl_text_into(server->why, sizeof server->why, "from the workspace, not approved yet");
    }
}

void bl_toolbox_trust(struct bl_toolbox *toolbox, const struct bl_mcp_entry *entry)
{
    for (size_t i = 0; toolbox->mcp != NULL && i < toolbox->mcp->count; i++) {
        struct mcp_server *server = &toolbox->mcp->servers[i];
        if (server->entry != entry || server->state != MCP_UNTRUSTED)
            continue;
        server->state = MCP_IDLE;
        server->why[0] = '\0';
    }
}

void mcp_box_free(struct bl_toolbox *toolbox)
{
    struct mcp_box *box = toolbox->mcp;
    if (box == NULL)
        return;
    drop_notices(box);
    bl_toolbox_let_go(box->held);
    for (size_t i = 0; i < box->count; i++)
        mcp_server_done(&box->servers[i]);
    bl_free(box->servers);
    bl_free(box);
}

void mcp_box_begin(struct bl_toolbox *toolbox)
{
    if (toolbox->mcp == NULL || toolbox->nursery == NULL || toolbox->mcp_nursery != NULL)
        return;
    bl_nursery_init(&toolbox->mcp->nursery, &toolbox->nursery->scope);
    toolbox->mcp_nursery = &toolbox->mcp->nursery;
    toolbox->mcp->untrusted_told = false;
}

void mcp_box_retire(struct bl_toolbox *toolbox)
{
    for (size_t i = 0; toolbox->mcp_nursery != NULL && i < toolbox->mcp->count; i++) {
        const struct mcp_server *server = &toolbox->mcp->servers[i];
        if (server->state == MCP_READY && server->process != NULL && bl_list_empty(&server->calls))
            mcp_process_stop(server->process, true, toolbox->hurry ? 0 : toolbox->mcp_grace_ms);
    }
}

static int mcp_end_main(void *argument)
{
    mcp_server_end(argument);
    return 0;
}

void mcp_box_end(struct bl_toolbox *toolbox)
{
    struct bl_nursery all;
    if (toolbox->mcp_nursery == NULL)
        return;
    bl_nursery_init(&all, bl_scope_current());
    for (size_t i = 0; i < toolbox->mcp->count; i++) {
        struct mcp_server *server = &toolbox->mcp->servers[i];
        if (bl_nursery_spawn(&all, NULL, "mcp end", mcp_end_main, server, NULL) != 0)
            mcp_server_end(server);
    }
    bl_nursery_join(&all);
    bl_nursery_done(&all);
    bl_nursery_done(toolbox->mcp_nursery);
    toolbox->mcp_nursery = NULL;
    drop_notices(toolbox->mcp);
}

void mcp_box_hurry(struct bl_toolbox *toolbox)
{
    for (size_t i = 0; toolbox->mcp != NULL && i < toolbox->mcp->count; i++)
        if (toolbox->mcp->servers[i].process != NULL)
            mcp_process_hurry(toolbox->mcp->servers[i].process);
}
