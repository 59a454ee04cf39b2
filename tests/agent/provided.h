/* Turns of the real engine with a model behind a peer: what is asked goes over a real socket, and
 * what comes back is what the test says. Tools that count how often they run, and a store where
 * that is asked for. */
#ifndef BELAY_TESTS_AGENT_PROVIDED_H
#define BELAY_TESTS_AGENT_PROVIDED_H

#include "../model/remotely.h"
#include "helpers.h"

struct provided {
    struct bl_nursery nursery;
    struct bl_arena arena;      /* of the test */
    struct bl_arena turn_arena; /* of the newest turn */
    struct peer *peer;
    struct peer_script *scripts;
    size_t count, capacity;
    struct bl_provider provider;
    struct bl_profile profile;
    struct bl_ledger *ledger;
    struct bl_remote *remote;
    struct bl_model model;
    struct bl_tool_offer offers[2];
    struct bl_json_schema *schema;
    struct bl_tools tools;
    struct bl_listener listener;
    struct bl_engine engine;
    struct bl_session session;
    struct bl_store *store; /* NULL: none */
    struct bl_store_session *held;
    char folder[64];
    char path[96];
    uint64_t turn_ns; /* that a turn has; 0: all that it needs */
    struct bl_scope scope;
    struct bl_turn_result result; /* of the newest turn */
    unsigned executions;
    unsigned retries;   /* told in the newest turn */
    uint64_t discarded; /* bytes, by the newest of these */
    bool call_seen;     /* a call was asked for, in the newest turn */
};

/* In a fiber. Answers first, then open; more of them cannot follow. The tool "count" needs {"n":
 * 1}, the tool "list" needs nothing. */
void provided_init(struct provided *provided, enum bl_api api);
void provided_open(struct provided *provided);
void provided_done(struct provided *provided);
/* The next answer, on a connection of its own. An error, with more headers, if the status is one.
 */
void provided_answer(struct provided *provided, struct bl_text body);
void provided_error(struct provided *provided, int status, const char *headers, const char *body);
void provided_hello(struct provided *provided);
/* The same, cut off after `size` bytes of the body. `promised`: the server has said how long it
 * was to be. */
void provided_cut(struct provided *provided, struct bl_text body, size_t size, bool promised);
/* The beginning of a stream, and then silence. */
void provided_silence(struct provided *provided, struct bl_text body);
/* In place of the peer: any other address. */
void provided_open_at(struct provided *provided, const char *base_url);

/* From now on its turns are in a SQLite file. Again: the session is closed, and read from it. */
void provided_store(struct provided *provided);
/* One turn; its result is in `result`. Returns how it ended. */
enum bl_turn_end provided_turn(struct provided *provided, const char *prompt);
/* Committed turns as JSON: in memory, and in the store (empty: none). In the test's arena. */
struct bl_text provided_memory(struct provided *provided);
struct bl_text provided_stored(struct provided *provided);

/* A stream of the format that asks for the tool with these arguments, which may be cut, and ends as
 * the server calls it (NULL: properly). Some text comes first. In the arena. */
struct bl_text call_stream(struct bl_arena *arena, enum bl_api api, const char *tool,
                           struct bl_text arguments, const char *finish);
/* Where in it the event begins that ends the answer. */
size_t call_stream_end(enum bl_api api, struct bl_text stream);

bool has(struct bl_text text, const char *part);

#endif
