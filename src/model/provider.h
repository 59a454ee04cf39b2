/* The interface between an HTTP format and the rest of the room. It has three pure parts (build the
 * request, feed one event, classify a failure), so that all of it is tested with files of exact
 * bytes. */
#ifndef BELAY_MODEL_PROVIDER_H
#define BELAY_MODEL_PROVIDER_H

#include <belay/model.h>

#include "parts.h"

#define MODEL_LINE_MAX      ((size_t)16 * 1024 * 1024)
#define MODEL_EVENT_MAX     ((size_t)16 * 1024 * 1024)
#define MODEL_STREAM_MAX    ((uint64_t)256 * 1024 * 1024)
#define MODEL_BODY_MAX      ((size_t)16 * 1024 * 1024) /* of an answer that is not a stream */
#define MODEL_ERROR_MAX     ((size_t)64 * 1024) /* of a failure's body: the rest is not read */
#define MODEL_CALLS_MAX     128u
#define MODEL_ARGUMENTS_MAX ((size_t)8 * 1024 * 1024)
#define MODEL_PAUSES_MAX    8u

/* ---- An answer being assembled (assembly.c) -------------------------------------------------- */

/* One tool call of the answer. */
struct model_call {
    uint32_t index; /* in our stream */
    struct bl_text id;
    struct bl_text name;
    struct bl_text server_id; /* the server's id: `id` may be ours */
    struct bl_buffer input;   /* so far */
    struct bl_text opaque;    /* JSON: goes back with the call; empty if none */
    int64_t key;              /* the server's index or position; negative if none. Private to the
                                 format */
    bool begun;               /* reported to the sink */
    bool ended;
};

/* One answer as received so far, over all its requests (an answer may pause). Everything that
 * formats report passes through here, so that order and limits are the same for all. */
struct model_assembly {
    struct bl_sink *sink;
    struct bl_arena *arena; /* outlives the assembly */
    const struct bl_request *request;
    const struct bl_price *price;
    struct model_call *calls[MODEL_CALLS_MAX];
    uint32_t call_count;
    bool usage_known;
    struct bl_usage usage; /* of the request in flight, the newest snapshot */
    struct bl_usage_detail usage_detail;
    struct bl_usage usage_before; /* of earlier requests: an answer that paused */
    struct bl_usage_detail usage_detail_before;
    uint64_t bytes;  /* of text, thinking and arguments reported */
    bool meaningful; /* something was reported, or a block begun or ended; the reader clears it */
    bool finished;   /* the format has seen the end: nothing more is read */
    bool pause;      /* the answer so far must be sent again as it is */
    enum bl_answer_end end;
    struct bl_model_failure failure; /* code NULL: none */
};

void model_assembly_init(struct model_assembly *assembly, struct bl_arena *arena,
                         const struct bl_request *request, const struct bl_price *price,
                         struct bl_sink *sink);
void model_assembly_done(struct model_assembly *assembly);
/* After a pause: saves the usage so far and begins the next request of the answer. */
void model_assembly_resume(struct model_assembly *assembly);

/* Each of these returns 0, the sink's code, or BL_EIO with `failure` filled (code limit). Empty
 * texts are not reported, and not meaningful. */
int model_tell_text(struct model_assembly *assembly, struct bl_text text);
/* `opaque` (JSON, may be empty) ends the block. With it the text may be empty. */
int model_tell_thinking(struct model_assembly *assembly, struct bl_text text,
                        struct bl_text opaque);
/* Begins a new call. An empty id, or one that is used in this conversation already, is replaced by
 * one of ours (call_…). The call is reported once it has a name, before anything else of it: a name
 * may arrive in pieces. */
int model_call_new(struct model_assembly *assembly, struct bl_text id, struct bl_text name,
                   struct model_call **ret_call);
/* Adds a name that arrives late, or in pieces. An empty name changes nothing, nor does the current
 * one. */
int model_call_name(struct model_assembly *assembly, struct model_call *call, struct bl_text name);
int model_call_input(struct model_assembly *assembly, struct model_call *call,
                     struct bl_text piece);
/* Replaces the input built from pieces by the authoritative whole. */
int model_call_replace(struct model_assembly *assembly, struct model_call *call,
                       struct bl_text input);
/* The same for a value: an object, or its text. Changes nothing if there is no value. */
int model_call_whole(struct model_assembly *assembly, struct model_call *call,
                     const struct bl_json *value);
/* Ends a call and reports it: the whole input (an empty one is {}), or `invalid` if it is not one
 * complete JSON object, or has no name. A second end changes nothing. */
int model_call_end(struct model_assembly *assembly, struct model_call *call);
/* Replaces the usage of the request in flight by this snapshot. `usage.input_tokens` includes
 * cached input. */
int model_tell_usage(struct model_assembly *assembly, const struct bl_usage *usage,
                     const struct bl_usage_detail *detail);
/* Ends the answer: ends open calls, and derives the reason: tool_calls if there are calls, whatever
 * the server says. Missing usage is estimated. Then sends the END piece. (A pause is not an end:
 * set `pause` and `finished` instead.) */
int model_finish(struct model_assembly *assembly, enum bl_answer_end end);
/* Records the failure, and returns BL_EIO. `message` is cut at a character, and its control
 * characters are replaced. */
int model_fail(struct model_assembly *assembly, const char *code, int status,
               struct bl_text message);

/* The same for an error object in a stream, or in a body with status 200. The code follows from its
 * text, else its type, else its number; otherwise it is `server`. */
int model_fail_body(struct model_assembly *assembly, const struct bl_json *body);

/* Returns a value as one line of JSON, in the arena. Empty if it is too large. */
struct bl_text model_json_text(struct bl_arena *arena, const struct bl_json *value);
/* Returns the text of a member; empty if it is missing or not a string. */
static inline struct bl_text model_member(const struct bl_json *object, const char *key)
{
    return bl_json_text(bl_json_get(object, bl_text_from(key)));
}

/* Returns the opaque value of thinking and calls, which names its owner:
 * {"provider":"…","model":"…", <member>: value}. `value` is JSON. In the arena. */
struct bl_text model_opaque_make(struct bl_arena *arena, const struct bl_provider *provider,
                                 const struct bl_profile *profile, const char *member,
                                 struct bl_text value);
/* Returns that member if the block belongs to this provider and model, else NULL. In `arena`. */
const struct bl_json *model_opaque_find(struct bl_arena *arena, struct bl_text opaque,
                                        const struct bl_provider *provider,
                                        const struct bl_profile *profile, const char *member);

/* ---- A format -------------------------------------------------------------------------------- */

/* The input for building a request. */
struct model_build {
    const struct bl_provider *provider;
    const struct bl_profile *profile;
    const struct bl_request *request;
    const struct bl_compat *compat; /* configured and learned */
    uint64_t max_output_tokens;     /* the limit to send; 0: none, if the format allows that */
    struct bl_text resumed;    /* anthropic: content blocks of an answer that paused, a JSON array;
                                   empty if none */
    bool count_only;           /* anthropic: build the body of a token count */
    struct bl_arena *arena;    /* of the request */
    struct model_images *sent; /* counts the images in the request; NULL: not needed */
};

/* Images in a request. */
struct model_images {
    uint64_t count;
    uint64_t bytes; /* of their base64 */
};

/* The state of decoding one answer. */
struct model_decoder {
    const struct model_api *api;
    const struct bl_provider *provider;
    const struct bl_profile *profile;
    struct model_assembly *assembly;
    struct bl_arena *arena; /* of the answer */
    void *state;            /* private to the format, in the arena; NULL before the first event */
};

struct model_api {
    enum bl_api api;
    bool lines;                         /* one JSON value per line; otherwise server-sent events */
    bool images;                        /* most models of the format accept images */
    const char *path;                   /* appended to the base URL: "/v1/messages" */
    uint64_t default_max_output_tokens; /* 0: the field may be left out */
    /* Writes its headers beyond content-type and accept into `out` (room for 16), and returns their
     * number. */
    size_t (*headers)(const struct bl_provider *provider, struct bl_arena *arena,
                      struct bl_http_header *out);
    /* Writes the body, one JSON object. Returns 0, or BL_ELIMIT with error: the request does not
     * fit the context (error name context_overflow). */
    int (*build)(const struct model_build *build, struct bl_json_writer *writer,
                 struct bl_error *error);
    /* Processes one event with JSON `data`. Returns 0, the sink's code, or BL_EIO with the failure.
     * Not called after assembly->finished. */
    int (*feed)(struct model_decoder *decoder, struct bl_text event_name,
                const struct bl_json *data);
    /* Processes a whole answer (status 200, JSON instead of a stream); ends with `finished` set, or
     * a failure. */
    int (*whole)(struct model_decoder *decoder, const struct bl_json *answer);
    /* Called at the end of input, or at [DONE]. Returns 0 if the answer is finished, possibly only
     * now; otherwise BL_EIO, code stream_cut. */
    int (*finish)(struct model_decoder *decoder);
    /* Reads an error object of this format, from a body or the stream: type or code and message,
     * into `failure` (the code only if the text decides it). */
    void (*classify)(const struct bl_json *body, struct bl_model_failure *failure);
};

extern const struct model_api model_api_anthropic;
extern const struct model_api model_api_openai;
extern const struct model_api model_api_openai_responses;
extern const struct model_api model_api_ollama;
const struct model_api *model_api_find(enum bl_api api);

/* anthropic: returns the content blocks of the answer so far, as they are sent back after a pause:
 * a JSON array. */
struct bl_text model_anthropic_resumed(const struct model_decoder *decoder);

/* openai, both formats: learns from the message of a 400. A field that the message names, that is
 * optional and was sent, is left out from now on, or sent under its other name. Returns false if
 * nothing in `compat` changed, and the same request would fail again. */
bool model_openai_learn(struct bl_text message, struct bl_compat *compat);
/* The same for Anthropic: newer models reject a thinking budget and choose it themselves. */
bool model_anthropic_learn(struct bl_text message, struct bl_compat *compat);

/* ---- Failures (failure.c) -------------------------------------------------------------------- */

/* Classifies a failed answer by its status, the retry headers, and the body (as much as was read).
 * Fills all of `failure`. */
void model_failure_classify(const struct model_api *api, int status, struct bl_text retry_after,
                            struct bl_text retry_after_ms, struct bl_text should_retry,
                            struct bl_text body, int64_t now_wall_ns,
                            struct bl_model_failure *failure);
/* Reads an error object in any of the shapes that servers use: {"error":{"message","type",
 * "code"}}, {"error":"…"}, {"detail":…}, {"message":"…"}, …: the message, and the code if the text
 * decides it. */
void model_failure_read(const struct bl_json *body, struct bl_model_failure *failure);
/* Sets the message: cut at a character, with control characters and invalid bytes replaced. */
void model_failure_message(struct bl_model_failure *failure, struct bl_text text);
/* Parses retry-after: seconds, fractions, an HTTP date. Negative if there is none. */
int64_t model_retry_after_ms(struct bl_text value, int64_t now_wall_ns);

/* ---- Cassettes (cassette.c) ------------------------------------------------------------------ */

/* An exchange that is being recorded. */
struct cassette_take;

struct cassette_take *cassette_take_begin(struct bl_cassette *cassette, const char *method,
                                          const char *path, struct bl_text body);
/* Records status and headers; only headers on the allow list are written. */
void cassette_take_headers(struct cassette_take *take, const struct bl_exchange *exchange);
void cassette_take_bytes(struct cassette_take *take,
                         struct bl_text bytes); /* one piece, as received */
/* Writes the exchange as one line. `failure` NULL: it completed; `cut`: we closed it early. NULL is
 * fine. */
void cassette_take_end(struct cassette_take *take, const struct bl_wire_failure *failure, bool cut);

/* An exchange that is played from a cassette. */
struct cassette_play;

/* Finds the next unused exchange, in order, whose canonical body (without ids and cache keys)
 * equals that of `body`. BL_ENOENT if none matches; error code no_match, with the first differing
 * path of the nearest exchange. */
int cassette_play_find(struct bl_cassette *cassette, const char *method, const char *path,
                       struct bl_text body, struct cassette_play **ret_play,
                       struct bl_error *error);
int cassette_play_status(const struct cassette_play *play);
struct bl_text cassette_play_header(const struct cassette_play *play, const char *name);
/* Returns the next piece. False at the end; `*ret_failure` (code NULL: none) has the failure. */
bool cassette_play_next(struct cassette_play *play, struct bl_text *ret_bytes,
                        struct bl_wire_failure *ret_failure);
void cassette_play_free(struct cassette_play *play); /* NULL is fine */

/* ---- Shared pieces of requests (request.c) --------------------------------------------------- */

/* Lists the conversation as it is sent: the summary of turns that are not sent, the session's
 * messages that are not skipped, then those of the turn, each with its blocks. A call without a
 * result gets a synthetic one. Empty texts are left out. The last assistant message loses its
 * trailing white space. Images that are not sent (the oldest, if there are too many) are replaced
 * by a line of text. The list of struct bl_message is in the arena; its blocks point to the same
 * texts. */
void model_conversation(const struct model_build *build, struct bl_list *ret_messages);
/* Returns whether this model accepts images. */
bool model_takes_images(enum bl_api api, const struct bl_profile *profile);
/* Returns "data:image/png;base64,…", in the arena. */
struct bl_text model_image_url(struct bl_arena *arena, const struct bl_block *image);
/* Returns a line of text that names the call to whose result the image belongs, for formats that
 * put it into a message of the user. Empty if it belongs to none. */
struct bl_text model_image_owner(struct bl_arena *arena, const struct bl_block *image,
                                 struct bl_text call_id);
/* Returns the instruction about the required JSON Schema of the answer, for formats without a field
 * for it; empty if any answer is fine. */
struct bl_text model_schema_instruction(struct bl_arena *arena, const struct bl_request *request);
/* Joins the texts of all blocks of that type, separated by blank lines. */
struct bl_text model_join_texts(struct bl_arena *arena, const struct bl_message *message,
                                enum bl_block_type type);
bool model_has_block(const struct bl_message *message, enum bl_block_type type);
/* Returns the header `authorization`. */
struct bl_http_header model_bearer(struct bl_arena *arena, const char *key);
/* Returns the bytes of all text in the request; an image counts as the bytes of as many tokens as
 * it may cost. */
uint64_t model_request_bytes(const struct bl_request *request);

#endif
