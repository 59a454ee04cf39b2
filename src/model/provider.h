/* What a format of HTTP is to the rest of the room: three pure parts (build the request, feed one
 * event, classify a failure), so that all of it is tested from files of exact bytes. */
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

/* ---- An answer being put together (assembly.c) ----------------------------------------------- */

/* One tool call of it. */
struct model_call {
    uint32_t index; /* in our stream */
    struct bl_text id;
    struct bl_text name;
    struct bl_text server_id; /* as the server said it: `id` may be ours */
    struct bl_buffer input;   /* so far */
    struct bl_text opaque;    /* JSON: goes back with the call; empty: nothing */
    int64_t key;              /* the server's index or position; negative: none. The format's own */
    bool begun;               /* told */
    bool ended;
};

/* What has come of one answer, over all requests that it took (an answer may pause). Everything
 * that formats tell goes through here: so the order and the limits are the same for all. */
struct model_assembly {
    struct bl_sink *sink;
    struct bl_arena *arena; /* outlives it */
    const struct bl_request *request;
    const struct bl_price *price;
    struct model_call *calls[MODEL_CALLS_MAX];
    uint32_t call_count;
    bool usage_known;
    struct bl_usage usage; /* of the request under way, the newest snapshot */
    struct bl_usage_detail usage_detail;
    struct bl_usage usage_before; /* of requests before it: an answer that paused */
    struct bl_usage_detail usage_detail_before;
    uint64_t bytes;  /* of text, thinking and arguments told */
    bool meaningful; /* something was told, or a block begun or ended; whoever looks clears it */
    bool finished;   /* the format has seen its end: nothing more is read */
    bool pause;      /* it wants to be sent again as it is */
    enum bl_answer_end end;
    struct bl_model_failure failure; /* code NULL: none */
};

void model_assembly_init(struct model_assembly *assembly, struct bl_arena *arena,
                         const struct bl_request *request, const struct bl_price *price,
                         struct bl_sink *sink);
void model_assembly_done(struct model_assembly *assembly);
/* After a pause: what was used so far is put aside, and the next request of the answer begins. */
void model_assembly_resume(struct model_assembly *assembly);

/* Each returns 0, what the sink returned, or BL_EIO with `failure` filled (code limit). Empty
 * texts are told to nobody, and are not meaningful. */
int model_tell_text(struct model_assembly *assembly, struct bl_text text);
/* `opaque` (JSON, may be empty) ends the block. With it the text may be empty. */
int model_tell_thinking(struct model_assembly *assembly, struct bl_text text,
                        struct bl_text opaque);
/* A new call. An empty id, or one that this conversation has already, becomes one of ours (call_…).
 * It is told when it has a name, before anything else is: a name may come in pieces. */
int model_call_new(struct model_assembly *assembly, struct bl_text id, struct bl_text name,
                   struct model_call **ret_call);
/* A name that comes late, or in pieces: an empty one changes nothing, nor does the one it has. */
int model_call_name(struct model_assembly *assembly, struct model_call *call, struct bl_text name);
int model_call_input(struct model_assembly *assembly, struct model_call *call,
                     struct bl_text piece);
/* Replaces what the pieces built: the authoritative whole. */
int model_call_replace(struct model_assembly *assembly, struct model_call *call,
                       struct bl_text input);
/* The same for a value: an object, or its text; nothing where there is none. */
int model_call_whole(struct model_assembly *assembly, struct model_call *call,
                     const struct bl_json *value);
/* Told to the sink: the whole input (an empty one is {}), or `invalid` when it is not one complete
 * JSON object, or there is no name. A second end changes nothing. */
int model_call_end(struct model_assembly *assembly, struct model_call *call);
/* A snapshot of the request under way: it replaces. `usage.input_tokens` includes cached input. */
int model_tell_usage(struct model_assembly *assembly, const struct bl_usage *usage,
                     const struct bl_usage_detail *detail);
/* The answer has come to its end: open calls are ended, and what came decides the reason: calls
 * mean tool_calls, whatever the server's word. Usage that never came is estimated. Then the END
 * piece. (A pause is not an end: set `pause` and `finished` instead.) */
int model_finish(struct model_assembly *assembly, enum bl_answer_end end);
/* Notes the failure, and returns BL_EIO. `message` is cut at a character, its control characters
 * replaced. */
int model_fail(struct model_assembly *assembly, const char *code, int status,
               struct bl_text message);

/* The same for an error object in a stream, or in a body with status 200: its text decides, or its
 * type, or its number; else it is the server's. */
int model_fail_body(struct model_assembly *assembly, const struct bl_json *body);

/* A value as one line of JSON, in the arena. Empty: it is too large. */
struct bl_text model_json_text(struct bl_arena *arena, const struct bl_json *value);
/* The text of a member; empty: there is none, or it is no text. */
static inline struct bl_text model_member(const struct bl_json *object, const char *key)
{
    return bl_json_text(bl_json_get(object, bl_text_from(key)));
}

/* The opaque value of thinking and calls, which says whom it belongs to:
 * {"provider":"…","model":"…", <member>: value}. `value` is JSON. In the arena. */
struct bl_text model_opaque_make(struct bl_arena *arena, const struct bl_provider *provider,
                                 const struct bl_profile *profile, const char *member,
                                 struct bl_text value);
/* That member, if the block came from this provider and model; else NULL. In `arena`. */
const struct bl_json *model_opaque_find(struct bl_arena *arena, struct bl_text opaque,
                                        const struct bl_provider *provider,
                                        const struct bl_profile *profile, const char *member);

/* ---- A format -------------------------------------------------------------------------------- */

/* What a request is made from. */
struct model_build {
    const struct bl_provider *provider;
    const struct bl_profile *profile;
    const struct bl_request *request;
    const struct bl_compat *compat; /* configured and learned */
    uint64_t max_output_tokens; /* the limit to be sent; 0: none, where the format allows that */
    struct bl_text resumed;     /* anthropic: content blocks of an answer that paused, a JSON array;
                                   empty: none */
    bool count_only;            /* anthropic: the body that asks for a count of tokens */
    struct bl_arena *arena;     /* of the request */
    struct model_images *sent;  /* what of images is in it; NULL: nobody wants to know */
};

/* Images that a request holds. */
struct model_images {
    uint64_t count;
    uint64_t bytes; /* of their base64 */
};

/* One answer being read. */
struct model_decoder {
    const struct model_api *api;
    const struct bl_provider *provider;
    const struct bl_profile *profile;
    struct model_assembly *assembly;
    struct bl_arena *arena; /* of the answer */
    void *state;            /* the format's own, in the arena; NULL before the first event */
};

struct model_api {
    enum bl_api api;
    bool lines;                         /* one JSON value a line; else server-sent events */
    bool images;                        /* most of its models take them */
    const char *path;                   /* after the base address: "/v1/messages" */
    uint64_t default_max_output_tokens; /* 0: the field may be left out */
    /* Its headers beyond content-type and accept, into `out` (16 places); how many. */
    size_t (*headers)(const struct bl_provider *provider, struct bl_arena *arena,
                      struct bl_http_header *out);
    /* Writes the body, one JSON object. 0; BL_ELIMIT with error: the context is too small for it
     * (error name context_overflow). */
    int (*build)(const struct model_build *build, struct bl_json_writer *writer,
                 struct bl_error *error);
    /* Takes one event: `data` is its JSON. 0, what the sink said, or BL_EIO with the failure. After
     * assembly->finished nothing more is fed. */
    int (*feed)(struct model_decoder *decoder, struct bl_text event_name,
                const struct bl_json *data);
    /* Takes a whole answer (status 200, JSON where a stream was asked for); ends with finished set,
     * or a failure. */
    int (*whole)(struct model_decoder *decoder, const struct bl_json *answer);
    /* The end of input, or [DONE]: 0 when the answer is finished, if only by now; else BL_EIO, code
     * stream_cut. */
    int (*finish)(struct model_decoder *decoder);
    /* What an error object of this format says, found in a body or in the stream: its type or code
     * and message, into `failure` (code only when the text decides it, else left). */
    void (*classify)(const struct bl_json *body, struct bl_model_failure *failure);
};

extern const struct model_api model_api_anthropic;
extern const struct model_api model_api_openai;
extern const struct model_api model_api_openai_responses;
extern const struct model_api model_api_ollama;
const struct model_api *model_api_find(enum bl_api api);

/* anthropic: the content blocks of the answer so far, as they go back after a pause: a JSON array.
 */
struct bl_text model_anthropic_resumed(const struct model_decoder *decoder);

/* openai, both formats: what the text of a 400 teaches about the server. A field that it names,
 * that is optional and that was sent is left out from now on, or goes by its other name. False:
 * nothing in `compat` changed, and the same request would fail again. */
bool model_openai_learn(struct bl_text message, struct bl_compat *compat);
/* The same for Anthropic: newer models refuse a budget for thinking, and decide it themselves. */
bool model_anthropic_learn(struct bl_text message, struct bl_compat *compat);

/* ---- Failures (failure.c) -------------------------------------------------------------------- */

/* What a failed answer means: status, the headers that say when to try again, and the body (as much
 * as was read). Fills all of `failure`. */
void model_failure_classify(const struct model_api *api, int status, struct bl_text retry_after,
                            struct bl_text retry_after_ms, struct bl_text should_retry,
                            struct bl_text body, int64_t now_wall_ns,
                            struct bl_model_failure *failure);
/* What an error object says, in any of the shapes that servers use: {"error":{"message","type",
 * "code"}}, {"error":"…"}, {"detail":…}, {"message":"…"}, …: the message, and the code when the
 * text decides it. */
void model_failure_read(const struct bl_json *body, struct bl_model_failure *failure);
/* Sets the message: cut at a character, its control characters and broken parts replaced. */
void model_failure_message(struct bl_model_failure *failure, struct bl_text text);
/* retry-after: seconds, fractions, an HTTP date. Negative: none. */
int64_t model_retry_after_ms(struct bl_text value, int64_t now_wall_ns);

/* ---- Cassettes (cassette.c) ------------------------------------------------------------------ */

/* One exchange that is being recorded. */
struct cassette_take;

struct cassette_take *cassette_take_begin(struct bl_cassette *cassette, const char *method,
                                          const char *path, struct bl_text body);
/* Status and headers, of which only those of the allow list are written. */
void cassette_take_headers(struct cassette_take *take, const struct bl_exchange *exchange);
void cassette_take_bytes(struct cassette_take *take,
                         struct bl_text bytes); /* one piece, as it came */
/* Writes it, one line; `failure` NULL: it came to its end; `cut`: we cut it off. NULL is fine. */
void cassette_take_end(struct cassette_take *take, const struct bl_wire_failure *failure, bool cut);

/* One exchange that is played from a cassette. */
struct cassette_play;

/* The next one on record, in order, whose canonical body (ids and cache keys aside) is that of
 * `body`. BL_ENOENT: none; error code no_match, with the first differing path of the nearest. */
int cassette_play_find(struct bl_cassette *cassette, const char *method, const char *path,
                       struct bl_text body, struct cassette_play **ret_play,
                       struct bl_error *error);
int cassette_play_status(const struct cassette_play *play);
struct bl_text cassette_play_header(const struct cassette_play *play, const char *name);
/* The next piece; false: the end, and `*ret_failure` (code NULL: none) says which. */
bool cassette_play_next(struct cassette_play *play, struct bl_text *ret_bytes,
                        struct bl_wire_failure *ret_failure);
void cassette_play_free(struct cassette_play *play); /* NULL is fine */

/* ---- Shared pieces of requests (request.c) --------------------------------------------------- */

/* Walks the conversation as it is sent: the summary of what is not, messages of the session that
 * are not skipped, then those of the turn; in each, the blocks. A call without its result gets a
 * synthetic one; empty texts are left out; the last assistant message loses its trailing white
 * space; for images that are not sent, the oldest where there are too many, stands a line of text.
 * All copied into a list of struct bl_message in the arena; blocks point to the same texts. */
void model_conversation(const struct model_build *build, struct bl_list *ret_messages);
/* Does this model take images? */
bool model_takes_images(enum bl_api api, const struct bl_profile *profile);
/* "data:image/png;base64,…", in the arena. */
struct bl_text model_image_url(struct bl_arena *arena, const struct bl_block *image);
/* Whose result the image is, for formats that put it into a message of the user: a line of text.
 * Empty: it is of none. */
struct bl_text model_image_owner(struct bl_arena *arena, const struct bl_block *image,
                                 struct bl_text call_id);
/* What the model is told of the shape that its answer must have, by formats without a field for it;
 * empty: it may have any. */
struct bl_text model_schema_instruction(struct bl_arena *arena, const struct bl_request *request);
/* The texts of all blocks of that type, with an empty line between them. */
struct bl_text model_join_texts(struct bl_arena *arena, const struct bl_message *message,
                                enum bl_block_type type);
bool model_has_block(const struct bl_message *message, enum bl_block_type type);
/* The header `authorization`. */
struct bl_http_header model_bearer(struct bl_arena *arena, const char *key);
/* Bytes of all text that the request holds; an image counts as so many as its tokens would. */
uint64_t model_request_bytes(const struct bl_request *request);

#endif
