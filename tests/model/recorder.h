/* A sink that records a model's pieces, one line each, and requests to call it with. */
#ifndef BELAY_TESTS_RECORDER_H
#define BELAY_TESTS_RECORDER_H

#include <belay/model.h>

#include "fibers.h"
#include "model/provider.h"

struct recorder {
    struct bl_sink sink;
    struct bl_buffer log; /* lines; a NUL follows when read by recorder_log */
    unsigned refuse_at;   /* the piece, from 1, that is refused with BL_EPIPE; 0: none */
    unsigned count;
    uint64_t retry_ms;                         /* of the newest retry */
    uint64_t retried_ns[BL_MODEL_RETRIES_MAX]; /* when each was reported */
    struct bl_error error;
};

void recorder_init(struct recorder *recorder);
void recorder_done(struct recorder *recorder);
const char *recorder_log(struct recorder *recorder);

/* Calls `model` with this text as the only message. Returns the code of the call. */
int recorder_ask(struct recorder *recorder, const struct bl_model *model, const char *text);
/* Returns the model's estimate for it. */
uint64_t recorder_estimate(const struct bl_model *model, const char *text);

/* The context for decoding an answer; NULL for `provider`, `profile` and `request` means a default
 * one. */
struct feeding {
    const struct model_api *api;
    const struct bl_provider *provider;
    const struct bl_profile *profile;
    const struct bl_request *request;
};

/* Feeds a whole stream through the parser of events (or lines) and the decoder, cut before the byte
 * at each of `cuts` (ascending; 0 and values beyond the end cut nothing), into the log. An end
 * other than an END piece is the last line: "fail stream_cut: …", "pause", "result -1018". Returns
 * the decoder's code. Works outside of fibers, too. */
int feed_stream(struct recorder *recorder, const struct feeding *feeding, struct bl_text bytes,
                const size_t *cuts, size_t cut_count);
/* The same for JSON in response to a streaming request. */
int feed_whole(struct recorder *recorder, const struct feeding *feeding, struct bl_text json);
/* Reads a file of tests/model/fixtures; freed by bl_free. */
struct bl_text read_fixture(const char *name);
/* Outside of fibers: checks that the stream in that file gives `expected`, whole, byte by byte, cut
 * at every byte, and, if small, at every pair of bytes. */
void check_fixture(const struct model_api *api, const char *name, const char *expected);
/* The same for a stream in memory. */
void check_stream(const struct feeding *feeding, const char *bytes, const char *expected);
/* The same for a stream that is fed once, and for JSON that is not a stream. */
void check_fed(const struct feeding *feeding, const char *bytes, const char *expected);
void check_whole(const struct feeding *feeding, struct bl_text json, const char *expected);
void check_whole_fixture(const struct model_api *api, const char *name, const char *expected);
/* Checks for each piece of that file's stream that refusing it returns the sink's code, leaks
 * nothing, and ends the stream. */
void check_refusals(const struct feeding *feeding, const char *name);

/* The parts of a request; all of them may be changed before it is built. */
struct asking {
    const struct model_api *api;
    struct bl_arena arena;
    struct bl_session session;
    struct bl_turn_record *summary; /* NULL if none */
    struct bl_list messages;
    struct bl_request request;
    struct bl_provider provider;
    struct bl_profile profile; /* of model-1 */
    struct bl_compat compat;
    struct model_build build;
};

#define ASKED_TEXT(text)                                                                           \
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" text "\"}]}]"

/* `messages` and turns are JSON, as written by bl_messages_write. */
void asking_init(struct asking *asking, const struct model_api *api, const char *provider,
                 const char *messages);
void asking_done(struct asking *asking);
void asking_add(struct asking *asking, const char *messages);
void asking_add_turn(struct asking *asking, const char *messages);
/* Messages injected during tool calls follow the results, in the same message of the user. */
#define INJECTED_MESSAGES                                                                          \
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"go\"}]},"                      \
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":\"call_a\",\"name\":"     \
    "\"read\",\"input\":{\"path\":\"a\"}},{\"type\":\"tool_call\",\"id\":\"call_b\",\"name\":"     \
    "\"list\",\"input\":{}}]},"                                                                    \
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":\"call_a\",\"text\":\"A\","  \
    "\"is_error\":false},{\"type\":\"tool_result\",\"id\":\"call_b\",\"text\":\"B\",\"is_error\":" \
    "true},{\"type\":\"text\",\"text\":\"use C instead\"}]}]"
/* Images in a prompt and in results, one of which is an error. */
#define ILLUSTRATED_MESSAGES                                                                       \
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"look\"},{\"type\":\"image\","  \
    "\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgo=\"},{\"type\":\"image\",\"media_type\":"  \
    "\"image/gif\",\"data\":\"R0lGODlh\"}]},"                                                      \
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":\"call_a\",\"name\":"     \
    "\"shot\",\"input\":{}},{\"type\":\"tool_call\",\"id\":\"call_b\",\"name\":\"shot\","          \
    "\"input\":"                                                                                   \
    "{}}]},"                                                                                       \
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":\"call_a\",\"text\":\"A\","  \
    "\"is_error\":false},{\"type\":\"tool_result\",\"id\":\"call_b\",\"text\":\"B\",\"is_error\":" \
    "true},{\"type\":\"image\",\"media_type\":\"image/png\",\"data\":\"AAAA\",\"id\":\"call_a\"}," \
    "{\"type\":\"image\",\"media_type\":\"image/jpeg\",\"data\":\"BBBB\",\"id\":\"call_b\"}]}]"
/* Adds a session of three turns, the first two of which are summarized, and the next prompt. */
void asking_sum_up(struct asking *asking);
/* One with a schema, one without. */
extern const struct bl_tool_offer asked_tools[2];
/* Sets a system text, those tools, none of which may be called, a schema and an output limit. */
void asking_fill(struct asking *asking);
/* Builds the body, in its arena. */
struct bl_text asking_body(struct asking *asking);
bool asking_has(struct asking *asking, const char *part);
/* Checks that the body equals that fixture file (except for one newline at its end). */
void check_asked(struct asking *asking, const char *name);

/* Parses a script that must be valid. */
struct bl_script *script_of(const char *source);

/* Fails unless `source` is refused with this message; `hint` is a part of the hint. */
void refuse_script(const char *source, const char *message, const char *hint);

/* Inside fibers: checks that the log is `expected`, and clears it. */
#define CHECK_LOG(recorder, expected) check_log(recorder, expected, __FILE__, __LINE__)
void check_log(struct recorder *recorder, const char *expected, const char *file, int line);
#define CHECK_STRING(a, b) check_string(a, b, __FILE__, __LINE__)
void check_string(const char *a, const char *b, const char *file, int line);

#endif
