/* model: whoever answers. Fills the engine's table of a model (turn.h).
 *
 * Here: the models of other people behind four formats of HTTP, the script model, which plays a
 * file (also over HTTP), cassettes of what was said, what a model costs, and how all of that is
 * configured.
 *
 * Promises: one stream of pieces for all of them, in one order; no tool is asked for before the
 * answer has come to its end; a stop closes the socket; what a limit of cost does not cover is not
 * sent; a key goes to the address that it is configured for and nowhere else. */
#ifndef BELAY_MODEL_H
#define BELAY_MODEL_H

#include <belay/source.h>
#include <belay/turn.h>
#include <belay/wire.h>

BL_PUBLIC_BEGIN

/* ---- Failures and retries -------------------------------------------------------------------- */

/* One failed attempt of a call. */
struct bl_model_failure {
    int status;             /* of HTTP; 0: none */
    const char *code;       /* of the closed set: connect, dns, stream_cut, tls, redirect,
                               bad_response, limit, first_byte, stall, server, rate_limited, overloaded,
                               bad_request, not_found, auth, quota, context_overflow, refusal, …; NULL:
                               by the status */
    char message[256];      /* what the server said; may be empty */
    int64_t retry_after_ms; /* its hint; negative: none */
    int should_retry;       /* x-should-retry: 1 true, 0 false, -1 not said */
    bool timed_out;         /* by one of our timers: first_byte and stall always, connect may be */
};

/* The code that a status means by itself: 529 is "overloaded". */
const char *bl_model_status_code(int status);
/* Kind and whether to try again, by code (and x-should-retry), as the table of the providers says.
 */
enum bl_error_kind bl_model_failure_kind(const struct bl_model_failure *failure);
bool bl_model_failure_retryable(const struct bl_model_failure *failure);

#define BL_MODEL_RETRIES_MAX 4

/* Where a call stands with its retries. Embedded by the model, zeroed for each call. */
struct bl_model_retries {
    uint32_t attempt; /* retries so far */
};

/* After a failed attempt. Waits if there is to be another one, having told the sink (RETRY): 0: try
 * again; BL_ECANCELED or BL_ETIMEDOUT: stopped in the wait; else the final error, filled: the
 * failure, or code no_time_to_retry when the hint is above 60 s or the wait would end at or after
 * the deadline. `random` decides the jitter. Sets the sink's detail to "in backoff 2 of 4" while it
 * waits. */
int bl_model_retry(struct bl_model_retries *retries, const struct bl_model_failure *failure,
                   struct bl_random *random, struct bl_sink *sink, const char *provider,
                   struct bl_error *error);

/* ---- The script model ------------------------------------------------------------------------ */

struct bl_script;

/* Reads a script from text; `name` is what errors call it. BL_EPARSE with line and column. */
int bl_script_parse(struct bl_text source, const char *name, struct bl_script **ret_script,
                    struct bl_error *error);
/* The same from a file; at most 16 MiB. Blocks as files do. */
int bl_script_load(const char *path, struct bl_script **ret_script, struct bl_error *error);
/* The one that is built in: answers anything, any number of times, and says what it is. */
struct bl_script *bl_script_builtin(void);
void bl_script_free(struct bl_script *script); /* NULL is fine */
const char *bl_script_name(const struct bl_script *script);

/* A player of a script: where it stands in it. One for each agent; the script must outlive it.
 * Fills `*ret_model`, whose context is the player. */
struct bl_script_player;

struct bl_script_player *bl_script_player_new(const struct bl_script *script, uint64_t seed,
                                              struct bl_model *ret_model);
void bl_script_player_free(struct bl_script_player *player); /* NULL is fine */

/* ---- Providers and models -------------------------------------------------------------------- */

#define BL_API_TABLE(X)                                                                            \
    X(BL_API_ANTHROPIC, "anthropic")                                                               \
    X(BL_API_OPENAI, "openai")                                                                     \
    X(BL_API_OPENAI_RESPONSES, "openai-responses")                                                 \
    X(BL_API_OLLAMA, "ollama")

/* The format that a provider speaks. */
enum bl_api {
#define BL_API(name, text) name,
    BL_API_TABLE(BL_API)
#undef BL_API
};

const char *bl_api_name(enum bl_api api);
/* Where it is by default: "https://api.anthropic.com", "https://api.openai.com/v1",
 * "http://127.0.0.1:11434". */
const char *bl_api_base_url(enum bl_api api);

/* What servers of a format disagree about. Said in the configuration, or learned from a refusal. */
struct bl_compat {
    bool max_tokens_field;  /* `max_tokens`, not `max_completion_tokens` */
    bool no_stream_options; /* each: the field is left out */
    bool no_parallel_tool_calls;
    bool no_reasoning_effort;
    bool no_response_format;
    bool no_tool_choice;
    bool no_max_tokens;
    bool no_prompt_cache_key;
    bool no_include;
    bool no_reasoning_summary;
    bool no_reasoning_back;  /* thinking is not sent back */
    bool no_reasoning_id;    /* what is sent back of it has no id */
    bool thinking_adaptive;  /* anthropic: thinking takes no budget of tokens */
    bool reasoning_required; /* each answer that is sent back has some, if only an empty one */
};

/* Where models are. Strings are the configuration's, and outlive every model made from it. */
struct bl_provider {
    const char *name; /* as it is configured: "anthropic", "local" */
    enum bl_api api;
    const char *base_url;                 /* without a slash at its end */
    const char *key;                      /* a secret; NULL: none */
    bool key_is_token;                    /* anthropic: Authorization: Bearer, not x-api-key */
    const char *organization;             /* openai; NULL: none */
    const char *beta;                     /* anthropic-beta; NULL: none */
    const struct bl_http_header *headers; /* more of them; secrets */
    size_t header_count;
    uint64_t connect_ns; /* timers; 0: the default */
    uint64_t first_byte_ns;
    uint64_t stall_ns;
    struct bl_client_options client;
    struct bl_compat compat;
};

enum bl_effort {
    BL_EFFORT_DEFAULT, /* the field is left out */
    BL_EFFORT_NONE,
    BL_EFFORT_LOW,
    BL_EFFORT_MEDIUM,
    BL_EFFORT_HIGH,
    BL_EFFORT_ADAPTIVE, /* anthropic; elsewhere the default */
};

/* USD per million tokens. */
struct bl_price {
    bool known;
    double input;
    double output;
    double cache_read;
    double cache_write;
    uint64_t long_above; /* a request with more input than that costs more; 0: none does */
    double long_input;   /* so many times as much, for all of its input, */
    double long_output;  /* and for its output */
};

/* One model of a provider, as it is configured. */
struct bl_profile {
    const char *alias;          /* the name that users gave it; NULL: none */
    const char *model;          /* as the provider calls it */
    uint64_t max_output_tokens; /* what is asked for at most; 0: the format's default */
    uint64_t context_window;    /* 0: not known */
    enum bl_effort thinking;
    uint64_t thinking_tokens; /* anthropic's budget; 0: by the effort */
    uint64_t num_ctx;         /* ollama; 0: the server's own */
    const char *keep_alive;   /* ollama; NULL: the server's own */
    struct bl_price price;
    uint64_t overhead_tokens;  /* what a provider adds to the input by itself, at most */
    bool images_chosen;        /* `images` was said; else it is as with most models of the format */
    bool images;               /* it takes them */
    uint64_t image_tokens_max; /* what one costs at most; 0: not known */
};

/* ---- What it costs --------------------------------------------------------------------------- */

/* The money of one root run. All of its calls, of sub-agents too, reserve from it before they send.
 * Embedded by its owner. */
struct bl_ledger {
    double limit_usd;
    double booked_usd;   /* what is known to be spent, with the whole of calls that were cut */
    double reserved_usd; /* by calls under way */
    bool overrun;
    struct bl_scope *scope; /* stopped (reason budget) by an overrun; may be NULL */
};

void bl_ledger_init(struct bl_ledger *ledger, double limit_usd, struct bl_scope *scope);
double bl_ledger_left(const struct bl_ledger *ledger);
/* False: it does not fit, and nothing is reserved. */
bool bl_ledger_reserve(struct bl_ledger *ledger, double usd);
/* Books what it came to, and gives the rest of the reservation back. More than was reserved is an
 * overrun: false. */
bool bl_ledger_settle(struct bl_ledger *ledger, double reserved_usd, double usd);

/* A call's tokens in detail. `usage` includes what is in the detail. */
struct bl_usage_detail;
double bl_price_cost(const struct bl_price *price, const struct bl_usage *usage,
                     const struct bl_usage_detail *detail);
/* The most that such a call can cost: all input at its dearest price. */
double bl_price_worst(const struct bl_price *price, uint64_t input_tokens, uint64_t output_tokens);

/* ---- Cassettes ------------------------------------------------------------------------------- */

/* What went over the wire, on file: written by a run that records, answered from by one that
 * replays. */
struct bl_cassette;

/* Creates the file (0600); one that exists is BL_EEXIST. What stands in `secrets` is never written:
 * it becomes [removed], wherever it stands. (What is shorter than 6 bytes keeps no secret, and
 * would be found everywhere: it is left.) */
int bl_cassette_record(const char *path, const struct bl_text *secrets, size_t secret_count,
                       struct bl_cassette **ret_cassette, struct bl_error *error);
/* Reads one; BL_EPARSE with the line. */
int bl_cassette_load(const char *path, struct bl_cassette **ret_cassette, struct bl_error *error);
/* Of a recording: 0, or what the writing failed with. NULL is fine. */
int bl_cassette_close(struct bl_cassette *cassette, struct bl_error *error);

/* ---- A model behind a provider --------------------------------------------------------------- */

struct bl_remote;

struct bl_remote_options {
    const struct bl_provider *provider;
    const struct bl_profile *profile;
    struct bl_ledger *ledger;     /* NULL: no limit */
    struct bl_cassette *recorder; /* NULL: nothing is recorded */
    struct bl_cassette *replay;   /* NULL: the network */
    uint64_t seed;                /* of the jitter */
};

/* A model that any number of fibers may call at once. What the options point to must outlive it.
 * BL_EINVAL: what is configured cannot be used, kind usage. */
int bl_remote_new(const struct bl_remote_options *options, struct bl_remote **ret_remote,
                  struct bl_model *ret_model, struct bl_error *error);
/* In a fiber; no call may be under way. NULL is fine. */
void bl_remote_free(struct bl_remote *remote);

/* ---- Configuration --------------------------------------------------------------------------- */

/* What the files, the environment and the built-in tables say of providers, models and prices.
 * Immutable once read. */
struct bl_config;

struct bl_config_options {
    const char *directory; /* where the project's file is looked for, from here up to the root of
                              the repository */
    const char *(*variable)(const char *name); /* the environment; an empty one is NULL */
};

/* Reads files; blocks. A file that is not there says nothing. BL_EPARSE, BL_EACCES, … with file,
 * line and column. Keys are not fetched yet. */
int bl_config_read(const struct bl_config_options *options, struct bl_config **ret_config,
                   struct bl_error *error);
void bl_config_free(struct bl_config *config); /* NULL is fine */

/* What a run asks for; NULL: as configured. */
struct bl_config_choice {
    const char *provider; /* a name, "script", "script:FILE", "replay" */
    const char *model;    /* an alias, a model of the provider, or "provider/model" */
};

struct bl_config_found {
    const struct bl_provider *provider; /* NULL: the script model */
    const struct bl_profile *profile;
    const char *script; /* its file; NULL: the built-in one */
    bool chosen; /* by somebody; false: nothing is configured, and the script model answers */
    bool replay; /* from a cassette; provider and profile are those that it imitates */
};

/* Decides. The provider that comes has its key, if that is in the environment. kind usage: no such
 * provider or model, with a suggestion. */
int bl_config_find(struct bl_config *config, const struct bl_config_choice *choice,
                   struct bl_config_found *ret_found, struct bl_error *error);
/* What a cassette was recorded with, where nobody says it: what is configured for the model of its
 * first request, or else as much as can be told from that. kind usage: it holds no such request. */
int bl_config_imitate(struct bl_config *config, const struct bl_cassette *cassette,
                      struct bl_config_found *ret_found, struct bl_error *error);
/* In a fiber: fetches the key of a provider that has it in a file or from a command, and fills it
 * in. kind auth: there is none where one is needed, and what to set. */
int bl_config_key(struct bl_config *config, const struct bl_provider *provider,
                  struct bl_error *error);
/* What its key came from: the name of a variable, a path, "key_command". NULL: it has none. */
const char *bl_config_key_source(const struct bl_config *config,
                                 const struct bl_provider *provider);
/* The variables that would hold its key, where it needs one and nothing says where that comes from;
 * of NULL those of the built-in providers. In the arena; end in NULL. NULL: it has one, needs none,
 * or has it from elsewhere. */
const char *const *bl_config_key_wanted(const struct bl_config *config,
                                        const struct bl_provider *provider, struct bl_arena *arena);
/* Names that users gave to models, in their order. In the arena; end in NULL. */
const char *const *bl_config_aliases(const struct bl_config *config, struct bl_arena *arena);
/* All that must never be shown: keys and the values of configured headers. */
size_t bl_config_secrets(const struct bl_config *config, const struct bl_text **ret_secrets);
/* Names of variables that hold keys, for the environment of tools: they do not get them. Ends in
 * NULL. */
const char *const *bl_config_key_variables(const struct bl_config *config);

/* What a file says under a top-level key that is not about models: `permissions`, `hooks` or
 * `env_allow`, of the project's file or of the user's. False: nothing. The value is *ret_key + 1;
 * the source knows the file and has no place for errors yet. Both live as long as the
 * configuration. */
bool bl_config_section(const struct bl_config *config, const char *name, bool project,
                       struct bl_source *ret_source, const struct bl_json **ret_key);

/* ---- The script model over HTTP -------------------------------------------------------------- */

/* Serves a script in all four formats on loopback. */
struct bl_script_server;

struct bl_script_server_options {
    const struct bl_script *script;
    uint16_t port; /* 0: any that is free */
    uint64_t seed;
    /* Told of each request that was answered; may be NULL. One JSON object. */
    void (*journal)(void *context, struct bl_text line);
    void *context;
};

int bl_script_server_start(struct bl_nursery *nursery,
                           const struct bl_script_server_options *options,
                           struct bl_script_server **ret_server, struct bl_error *error);
uint16_t bl_script_server_port(const struct bl_script_server *server);
void bl_script_server_stop(struct bl_script_server *server); /* NULL is fine */

BL_PUBLIC_END

#endif
