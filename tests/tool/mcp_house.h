/* A toolbox with MCP servers: mcp-guest as they are told to be, or addresses. */
#ifndef BELAY_TESTS_TOOL_MCP_HOUSE_H
#define BELAY_TESTS_TOOL_MCP_HOUSE_H

#include "box.h"
#include "tool/mcp/mcp.h"

#define SOON_MS 2000.0
/* Short, for there are many tests; some have the one that is usual. */
#define HOUSE_GRACE_MS 50

struct house {
    struct box box;
    struct bl_arena arena;
    struct bl_list entries;
    struct bl_buffer notices; /* a line each */
    unsigned notice_count;
};

/* In a fiber; static, for it is large: one at a time. */
struct house *house_new(enum bl_mechanism container);
/* A guest with these words; the entry may be changed until the house is opened. */
struct bl_mcp_entry *house_add(struct house *house, const char *name, const char *const *words);
#define GUEST(house, name, ...) house_add(house, name, (const char *const[]){__VA_ARGS__, NULL})
struct bl_mcp_entry *house_add_address(struct house *house, const char *name, const char *url);
void house_open(struct house *house);
/* As the engine does before a call of the model. */
void house_refresh(struct house *house);
void house_done(struct house *house);

/* The offer of that name; NULL: none. */
const struct bl_tool_offer *house_offer(const struct house *house, const char *name);
size_t house_offers(const struct house *house); /* those of servers */
const struct mcp_server *house_server(const struct house *house, size_t number);
const char *house_state(const struct house *house, size_t number);
/* One call with that input; checks that it is no failure of ours. */
int house_call(struct house *house, const char *tool, const char *input);
bool house_says(const struct house *house, const char *text);
bool house_noticed(const struct house *house, const char *text);
/* A file of the workspace; static. */
const char *house_path(const struct house *house, const char *name);
/* What a file of the workspace holds; static, cut. */
const char *house_file(const struct house *house, const char *name);
/* Waits until the file holds that. */
bool house_await_file(const struct house *house, const char *name, const char *text);

/* A call of its own, in a fiber of its own and a scope that can be stopped. */
struct visitor {
    struct bl_tool_call call; /* first: found by it */
    struct house *house;
    struct bl_arena arena;
    struct bl_scope scope;
    struct bl_receipt receipt;
    struct bl_tool_result result;
    struct bl_error error;
    char heard[512];
    int code;
    double ended_ms;
    bool ended;
};

void visitor_start(struct visitor *visitor, struct house *house, struct bl_nursery *nursery,
                   const char *id, const char *tool, const char *input);
void visitor_await(struct visitor *visitor); /* its end */
/* Its receipt, as text; static. */
const char *visitor_receipt(struct visitor *visitor);
void visitor_done(struct visitor *visitor);

#endif
