/* A toolbox with MCP servers: mcp-guest with given options, or addresses. */
#ifndef BELAY_TESTS_TOOL_MCP_HOUSE_H
#define BELAY_TESTS_TOOL_MCP_HOUSE_H

#include "box.h"
#include "tool/mcp/mcp.h"

#define SOON_MS 2000.0
/* Short, because there are many tests; some use the default. */
#define HOUSE_GRACE_MS 50

struct house {
    struct box box;
    struct bl_arena arena;
    struct bl_list entries;
    struct bl_buffer notices; /* one per line */
    unsigned notice_count;
};

/* Runs in a fiber; static, because it is large: one at a time. */
struct house *house_new(enum bl_mechanism container);
/* Adds a guest with these options; the entry may be changed until the house is opened. */
struct bl_mcp_entry *house_add(struct house *house, const char *name, const char *const *words);
#define GUEST(house, name, ...) house_add(house, name, (const char *const[]){__VA_ARGS__, NULL})
struct bl_mcp_entry *house_add_address(struct house *house, const char *name, const char *url);
void house_open(struct house *house);
/* Called as the engine does before a model call. */
void house_refresh(struct house *house);
void house_done(struct house *house);

/* Returns the offer of that name, or NULL. */
const struct bl_tool_offer *house_offer(const struct house *house, const char *name);
size_t house_offers(const struct house *house); /* number of servers' offers */
const struct mcp_server *house_server(const struct house *house, size_t number);
const char *house_state(const struct house *house, size_t number);
/* Makes one call with that input; checks that it is not an internal failure. */
int house_call(struct house *house, const char *tool, const char *input);
bool house_says(const struct house *house, const char *text);
bool house_noticed(const struct house *house, const char *text);
/* Returns the path of a file in the workspace; static. */
const char *house_path(const struct house *house, const char *name);
/* Returns the content of a file in the workspace; static, shortened. */
const char *house_file(const struct house *house, const char *name);
/* Waits until the file contains that text. */
bool house_await_file(const struct house *house, const char *name, const char *text);

/* A call in its own fiber, in a scope that can be stopped. */
struct visitor {
    struct bl_tool_call call; /* first, so that the visitor is found by it */
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
void visitor_await(struct visitor *visitor); /* waits for its end */
/* Returns its receipt as text; static. */
const char *visitor_receipt(struct visitor *visitor);
void visitor_done(struct visitor *visitor);

#endif
