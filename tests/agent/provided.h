/* Turns of the real engine with a model behind a peer: requests go over a real socket, and the test
 * sets the answers. With tools that count their runs, and an optional store. */
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
    struct bl_store *store; /* NULL if none */
    struct bl_store_session *held;
    char folder[64];
    char path[96];
    uint64_t turn_ns; /* time limit of a turn; 0: none */
    struct bl_scope scope;
    struct bl_turn_result result; /* of the newest turn */
    unsigned executions;
    unsigned retries;   /* reported in the newest turn */
    uint64_t discarded; /* bytes dropped by the newest retry */
    bool call_seen;     /* a call was requested in the newest turn */
};

/* In a fiber. First the answers, then open; no answers can be added after that. The tool "count"
 * needs {"n": 1}, the tool "list" needs nothing. */
void provided_init(struct provided *provided, enum bl_api api);
void provided_open(struct provided *provided);
void provided_done(struct provided *provided);
/* Add an answer, on its own connection; or an error status with more headers. */
void provided_answer(struct provided *provided, struct bl_text body);
void provided_error(struct provided *provided, int status, const char *headers, const char *body);
void provided_hello(struct provided *provided);
/* The same, cut off after `size` bytes of the body. `promised`: the server announced its length. */
void provided_cut(struct provided *provided, struct bl_text body, size_t size, bool promised);
/* Sends the beginning of a stream, and then stays silent. */
void provided_silence(struct provided *provided, struct bl_text body);
/* Uses another address instead of the peer. */
void provided_open_at(struct provided *provided, const char *base_url);

/* Stores turns in a SQLite file from now on. When called again, closes the session and reads it
 * from the file. */
void provided_store(struct provided *provided);
/* Runs one turn into `result`, and returns its end. */
enum bl_turn_end provided_turn(struct provided *provided, const char *prompt);
/* Return committed turns as JSON: in memory, and in the store (empty: none). In the test's
 * arena. */
struct bl_text provided_memory(struct provided *provided);
struct bl_text provided_stored(struct provided *provided);

/* Returns a stream of the format that calls the tool with these arguments, which may be cut, and
 * ends with that finish reason (NULL: a normal end). Starts with some text. In the arena. */
struct bl_text call_stream(struct bl_arena *arena, enum bl_api api, const char *tool,
                           struct bl_text arguments, const char *finish);
/* Returns the start of the event in it that ends the answer. */
size_t call_stream_end(enum bl_api api, struct bl_text stream);

bool has(struct bl_text text, const char *part);

#endif
