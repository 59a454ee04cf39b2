/* A sink that writes down what a model tells it, one line a piece, and requests to ask it with. */
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
    uint64_t retried_ns[BL_MODEL_RETRIES_MAX]; /* when each was told */
    struct bl_error error;
};

void recorder_init(struct recorder *recorder);
void recorder_done(struct recorder *recorder);
const char *recorder_log(struct recorder *recorder);

/* Calls `model` with this text as the only message. Returns what the call did. */
int recorder_ask(struct recorder *recorder, const struct bl_model *model, const char *text);
/* What the model estimates for it. */
uint64_t recorder_estimate(const struct bl_model *model, const char *text);

/* What the bytes of an answer are decoded for; `provider`, `profile` and `request` may be NULL: a
 * plain one then. */
struct feeding {
    const struct model_api *api;
    const struct bl_provider *provider;
    const struct bl_profile *profile;
    const struct bl_request *request;
};

/* Feeds a whole stream through the parser of events (or lines) and the decoder, cut before the byte
 * at each of `cuts` (ascending; 0 and those beyond the end cut nothing), into the log. What ended
 * it other than an END piece is its last line: "fail stream_cut: …", "pause", "result -1018".
 * Returns what the decoder did. Decodes outside of fibers, too. */
int feed_stream(struct recorder *recorder, const struct feeding *feeding, struct bl_text bytes,
                const size_t *cuts, size_t cut_count);
/* The same for JSON that came where a stream was asked for. */
int feed_whole(struct recorder *recorder, const struct feeding *feeding, struct bl_text json);
/* A file of tests/model/fixtures; freed by bl_free. */
struct bl_text read_fixture(const char *name);
/* Outside of fibers: the stream in that file, whole, byte by byte, cut at every byte, and small
 * ones at every pair of bytes, comes out as `expected`. */
void check_fixture(const struct model_api *api, const char *name, const char *expected);
/* The same for a stream that is given here. */
void check_stream(const struct feeding *feeding, const char *bytes, const char *expected);
/* The same for one that is fed once, and for JSON that is no stream. */
void check_fed(const struct feeding *feeding, const char *bytes, const char *expected);
void check_whole(const struct feeding *feeding, struct bl_text json, const char *expected);
void check_whole_fixture(const struct model_api *api, const char *name, const char *expected);
/* Whichever piece of that file's stream is refused, that is what comes back, and nothing leaks or
 * goes on. */
void check_refusals(const struct feeding *feeding, const char *name);

/* What a request is built from; all of it may be changed before it is. */
struct asking {
    const struct model_api *api;
    struct bl_arena arena;
    struct bl_session session;
    struct bl_turn_record *summary; /* NULL: none */
    struct bl_list messages;
    struct bl_request request;
    struct bl_provider provider;
    struct bl_profile profile; /* of model-1 */
    struct bl_compat compat;
    struct model_build build;
};

#define ASKED_TEXT(text)                                                                           \
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"" text "\"}]}]"

/* `messages` and turns are JSON, as bl_messages_write writes it. */
void asking_init(struct asking *asking, const struct model_api *api, const char *provider,
                 const char *messages);
void asking_done(struct asking *asking);
void asking_add(struct asking *asking, const char *messages);
void asking_add_turn(struct asking *asking, const char *messages);
/* What is injected while tools run stands after their results, in the same message of the user. */
#define INJECTED_MESSAGES                                                                          \
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"go\"}]},"                      \
    "{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_call\",\"id\":\"call_a\",\"name\":"     \
    "\"read\",\"input\":{\"path\":\"a\"}},{\"type\":\"tool_call\",\"id\":\"call_b\",\"name\":"     \
    "\"list\",\"input\":{}}]},"                                                                    \
    "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"id\":\"call_a\",\"text\":\"A\","  \
    "\"is_error\":false},{\"type\":\"tool_result\",\"id\":\"call_b\",\"text\":\"B\",\"is_error\":" \
    "true},{\"type\":\"text\",\"text\":\"use C instead\"}]}]"
/* Images with a prompt and in results, of which one is an error's. */
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
/* A session of three turns whose first two are summed up, and what is asked next. */
void asking_sum_up(struct asking *asking);
/* One with a schema, one without. */
extern const struct bl_tool_offer asked_tools[2];
/* A system text, those tools, of which none may be called, a schema and an output limit. */
void asking_fill(struct asking *asking);
/* The body that is built for it, in its arena. */
struct bl_text asking_body(struct asking *asking);
bool asking_has(struct asking *asking, const char *part);
/* The body is exactly what is in that file of fixtures (one newline at its end aside). */
void check_asked(struct asking *asking, const char *name);

/* A script that must be right. */
struct bl_script *script_of(const char *source);

/* Fails unless `source` is refused so; `hint` is a part of the hint. */
void refuse_script(const char *source, const char *message, const char *hint);

/* Inside fibers: the log is `expected`, and starts anew. */
#define CHECK_LOG(recorder, expected) check_log(recorder, expected, __FILE__, __LINE__)
void check_log(struct recorder *recorder, const char *expected, const char *file, int line);
#define CHECK_STRING(a, b) check_string(a, b, __FILE__, __LINE__)
void check_string(const char *a, const char *b, const char *file, int line);

#endif
