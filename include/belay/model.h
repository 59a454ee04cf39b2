/* model: the sources of answers. Fills the engine's table of a model (turn.h).
 *
 * It contains models of providers behind four HTTP formats, the script model, which plays a file
 * (also over HTTP), cassettes that record and replay exchanges, prices, and the configuration of
 * all of them.
 *
 * Promises: all models send one stream of pieces in one order. No tool call is reported before the
 * answer is complete. A stop closes the socket. A call that the cost limit does not cover is not
 * sent. A key is sent only to the address that it is configured for. */
#ifndef BELAY_MODEL_H
#define BELAY_MODEL_H

#include <belay/source.h>
#include <belay/turn.h>
#include <belay/wire.h>

BL_PUBLIC_BEGIN

/* ---- Failures and retries -------------------------------------------------------------------- */

/* One failed attempt of a call. */
struct bl_model_failure {
    int status;             /* HTTP status; 0 if none */
    const char *code;       /* from the closed set: connect, dns, stream_cut, tls, redirect,
                               bad_response, limit, first_byte, stall, server, rate_limited,
                               overloaded, bad_request, not_found, auth, quota, context_overflow,
                               refusal, …; NULL: derived from the status */
    char message[256];      /* the server's message; may be empty */
    int64_t retry_after_ms; /* the server's hint; negative: none */
    int should_retry;       /* x-should-retry: 1 true, 0 false, -1 absent */
    bool timed_out;         /* by one of our timers: always for first_byte and stall, possibly for
                               connect */
};

/* Returns the code for an HTTP status alone: "overloaded" for 529. */
const char *bl_model_status_code(int status);
/* Return the error kind and whether a retry may help, by code (and x-should-retry), from the table
 * of failure codes. */
enum bl_error_kind bl_model_failure_kind(const struct bl_model_failure *failure);
bool bl_model_failure_retryable(const struct bl_model_failure *failure);

#define BL_MODEL_RETRIES_MAX 4

/* The retry state of a call. Embedded by the model, zeroed for each call. */
struct bl_model_retries {
    uint32_t attempt; /* retries so far */
};

/* Decides what follows a failed attempt. If another attempt is due, reports it to the sink (RETRY)
 * and waits. Returns 0 to try again; BL_ECANCELED or BL_ETIMEDOUT if stopped during the wait;
 * otherwise the final code with `error` filled: the failure itself, or code no_time_to_retry if the
 * server's hint is above 60 s or the wait would end at or after the deadline. `random` sets the
 * jitter. The sink's detail is "in backoff 2 of 4" during the wait. */
int bl_model_retry(struct bl_model_retries *retries, const struct bl_model_failure *failure,
                   struct bl_random *random, struct bl_sink *sink, const char *provider,
                   struct bl_error *error);

/* ---- The script model ------------------------------------------------------------------------ */

struct bl_script;

/* Reads a script from text; `name` identifies it in errors. BL_EPARSE with line and column. */
int bl_script_parse(struct bl_text source, const char *name, struct bl_script **ret_script,
                    struct bl_error *error);
/* Reads a script from a file of at most 16 MiB. Blocks on file I/O. */
int bl_script_load(const char *path, struct bl_script **ret_script, struct bl_error *error);
/* The built-in script: answers any prompt, any number of times, and says what it is. */
struct bl_script *bl_script_builtin(void);
void bl_script_free(struct bl_script *script); /* NULL is fine */
const char *bl_script_name(const struct bl_script *script);

/* Plays a script and holds the position in it. Each agent needs its own; the script must outlive
 * it. Fills `*ret_model`, whose context is the player. */
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

/* The API format of a provider. */
enum bl_api {
#define BL_API(name, text) name,
    BL_API_TABLE(BL_API)
#undef BL_API
};

extern const struct bl_names bl_api_names;
const char *bl_api_name(enum bl_api api);
/* Default base URL: "https://api.anthropic.com", "https://api.openai.com/v1",
 * "http://127.0.0.1:11434". */
const char *bl_api_base_url(enum bl_api api);

/* Differences between servers of one format. Set by the configuration, or learned from a
 * refusal. */
struct bl_compat {
    bool max_tokens_field;  /* `max_tokens`, not `max_completion_tokens` */
    bool no_stream_options; /* this and the next ones: the field is left out */
    bool no_parallel_tool_calls;
    bool no_reasoning_effort;
    bool no_response_format;
    bool no_tool_choice;
    bool no_max_tokens;
    bool no_prompt_cache_key;
    bool no_include;
    bool no_reasoning_summary;
    bool no_reasoning_back;  /* thinking is not sent back */
    bool no_reasoning_id;    /* thinking is sent back without its id */
    bool thinking_adaptive;  /* anthropic: thinking takes no token budget */
    bool reasoning_required; /* each answer that is sent back needs reasoning, even if empty */
};

/* A provider. The configuration owns the strings; they outlive every model made from it. */
struct bl_provider {
    const char *name; /* configured name: "anthropic", "local" */
    enum bl_api api;
    const char *base_url;                 /* without a trailing slash */
    const char *key;                      /* secret; NULL if none */
    bool key_is_token;                    /* anthropic: sent as Authorization: Bearer, not
                                             x-api-key */
    const char *organization;             /* openai; NULL if none */
    const char *beta;                     /* anthropic-beta; NULL if none */
    const struct bl_http_header *headers; /* additional headers; secrets */
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
    uint64_t long_above; /* input size above which a request costs more; 0 if none */
    double long_input;   /* price factor for all input of such a request */
    double long_output;  /* price factor for its output */
};

/* A configured model of a provider. */
struct bl_profile {
    const char *alias;          /* the user's name for it; NULL if none */
    const char *model;          /* the provider's name for it */
    uint64_t max_output_tokens; /* requested output limit; 0: the format's default */
    uint64_t context_window;    /* 0 if unknown */
    enum bl_effort thinking;
    uint64_t thinking_tokens; /* anthropic's thinking budget; 0: derived from the effort */
    uint64_t num_ctx;         /* ollama; 0: the server's default */
    const char *keep_alive;   /* ollama; NULL: the server's default */
    struct bl_price price;
    uint64_t overhead_tokens;  /* most tokens that the provider adds to the input */
    bool images_chosen;        /* `images` is configured; otherwise the format's default applies */
    bool images;               /* accepts images */
    uint64_t image_tokens_max; /* most tokens that one image costs; 0 if unknown */
};

/* ---- What it costs --------------------------------------------------------------------------- */

/* The cost limit of one root run. All calls, those of sub-agents included, reserve from it before
 * they are sent. Embedded by its owner. */
struct bl_ledger {
    double limit_usd;
    double booked_usd;   /* known spending, with the full reservation of calls that were cut */
    double reserved_usd; /* by calls in flight */
    bool overrun;
    struct bl_scope *scope; /* stopped (reason budget) by an overrun; may be NULL */
};

void bl_ledger_init(struct bl_ledger *ledger, double limit_usd, struct bl_scope *scope);
double bl_ledger_left(const struct bl_ledger *ledger);
/* Returns false and reserves nothing if the amount exceeds what is left. */
bool bl_ledger_reserve(struct bl_ledger *ledger, double usd);
/* Books the actual cost and releases the rest of the reservation. Returns false for an overrun: the
 * cost exceeds the reservation. */
bool bl_ledger_settle(struct bl_ledger *ledger, double reserved_usd, double usd);

/* A call's tokens in detail. `usage` includes the tokens of the detail. */
struct bl_usage_detail;
double bl_price_cost(const struct bl_price *price, const struct bl_usage *usage,
                     const struct bl_usage_detail *detail);
/* Returns the highest possible cost of such a call: all input at the dearest price. */
double bl_price_worst(const struct bl_price *price, uint64_t input_tokens, uint64_t output_tokens);

/* ---- Cassettes ------------------------------------------------------------------------------- */

/* A file of HTTP exchanges: written by a run that records, answered from by a run that replays. */
struct bl_cassette;

/* Creates the file (0600); BL_EEXIST if it exists. Every occurrence of a secret in `secrets` is
 * written as [removed]. Secrets shorter than 6 bytes are not redacted: they protect nothing and
 * would match everywhere. */
int bl_cassette_record(const char *path, const struct bl_text *secrets, size_t secret_count,
                       struct bl_cassette **ret_cassette, struct bl_error *error);
/* Reads a cassette; BL_EPARSE with the line. */
int bl_cassette_load(const char *path, struct bl_cassette **ret_cassette, struct bl_error *error);
/* Closes a cassette. Of a recording, returns 0 or the code of the first write that failed. NULL is
 * fine. */
int bl_cassette_close(struct bl_cassette *cassette, struct bl_error *error);

/* ---- A model behind a provider --------------------------------------------------------------- */

struct bl_remote;

struct bl_remote_options {
    const struct bl_provider *provider;
    const struct bl_profile *profile;
    struct bl_ledger *ledger;     /* NULL: no limit */
    struct bl_cassette *recorder; /* NULL: not recorded */
    struct bl_cassette *replay;   /* NULL: the network */
    uint64_t seed;                /* for the jitter */
};

/* Creates a model that any number of fibers may call at once. The objects that the options point to
 * must outlive it. BL_EINVAL, kind usage: the configuration cannot be used. */
int bl_remote_new(const struct bl_remote_options *options, struct bl_remote **ret_remote,
                  struct bl_model *ret_model, struct bl_error *error);
/* In a fiber; no call may be in flight. NULL is fine. */
void bl_remote_free(struct bl_remote *remote);

/* ---- Configuration --------------------------------------------------------------------------- */

/* Providers, models and prices from the files, the environment and the built-in tables. Immutable
 * once read. */
struct bl_config;

struct bl_config_options {
    const char *directory; /* where the search for the project's file starts; it goes up to the
                              repository's root */
    const char *(*variable)(const char *name); /* reads the environment; NULL for an empty
                                                  variable */
};

/* Reads the files; blocks. A missing file is not an error. BL_EPARSE, BL_EACCES, … with file, line
 * and column. Does not fetch keys. */
int bl_config_read(const struct bl_config_options *options, struct bl_config **ret_config,
                   struct bl_error *error);
void bl_config_free(struct bl_config *config); /* NULL is fine */

/* The choice of a run; NULL: as configured. */
struct bl_config_choice {
    const char *provider; /* a name, "script", "script:FILE", "replay" */
    const char *model;    /* an alias, a model of the provider, or "provider/model" */
};

struct bl_config_found {
    const struct bl_provider *provider; /* NULL: the script model */
    const struct bl_profile *profile;
    const char *script; /* file of the script; NULL: the built-in one */
    bool chosen; /* configured or requested; false: nothing is configured, and the script model
                    answers */
    bool replay; /* from a cassette; provider and profile are the ones to imitate */
};

/* Chooses provider and model. The provider has its key set if the key is in the environment. kind
 * usage: unknown provider or model, with a suggestion. */
int bl_config_find(struct bl_config *config, const struct bl_config_choice *choice,
                   struct bl_config_found *ret_found, struct bl_error *error);
/* Finds what a cassette was recorded with, if no option says it: the configuration of the model in
 * its first request, or as much as that request reveals. kind usage: the cassette has no such
 * request. */
int bl_config_imitate(struct bl_config *config, const struct bl_cassette *cassette,
                      struct bl_config_found *ret_found, struct bl_error *error);
/* In a fiber: fetches the key of a provider from its file or command, and sets it. kind auth: a key
 * is needed and missing; the error says what to set. */
int bl_config_key(struct bl_config *config, const struct bl_provider *provider,
                  struct bl_error *error);
/* Returns the source of the provider's key: the name of a variable, a path, "key_command". NULL if
 * it has no key. */
const char *bl_config_key_source(const struct bl_config *config,
                                 const struct bl_provider *provider);
/* Returns the variables that could hold the provider's key, if it needs one and no source is
 * configured; for NULL, those of the built-in providers. In the arena, NULL-terminated. NULL if the
 * provider has a key, needs none, or gets it from another source. */
const char *const *bl_config_key_wanted(const struct bl_config *config,
                                        const struct bl_provider *provider, struct bl_arena *arena);
/* Returns the configured aliases of models, in order. In the arena, NULL-terminated. */
const char *const *bl_config_aliases(const struct bl_config *config, struct bl_arena *arena);
/* Lists everything that must never be shown: keys and the values of configured headers. */
size_t bl_config_secrets(const struct bl_config *config, const struct bl_text **ret_secrets);
/* Returns the names of variables that hold keys; tools do not get them in their environment.
 * NULL-terminated. */
const char *const *bl_config_key_variables(const struct bl_config *config);

/* Finds the value of a top-level key that is not about models (`permissions`, `hooks`, `env_allow`
 * or `chat`) in the project's file or in the user's. Returns false if there is none. The value is
 * *ret_key + 1; the source knows its file and holds no error yet. Both live as long as the
 * configuration. */
bool bl_config_section(const struct bl_config *config, const char *name, bool project,
                       struct bl_source *ret_source, const struct bl_json **ret_key);

/* ---- The script model over HTTP -------------------------------------------------------------- */

/* Serves a script in all four formats on loopback. */
struct bl_script_server;

/* An answered request. */
struct bl_script_served {
    uint64_t number; /* from 1, in order of arrival */
    enum bl_api api;
    struct bl_text path; /* with its query; cut after 1,024 bytes, as is the model */
    bool has_model;
    struct bl_text model;
    bool stream;
    uint64_t max_tokens; /* 0: no limit requested */
    uint64_t body_size;
    struct bl_usage usage;
    int status; /* 0: no answer was sent */
    bool cut;   /* the connection closed before the end of the answer */
};
extern const struct bl_record bl_script_served_record;

struct bl_script_server_options {
    const struct bl_script *script;
    uint16_t port; /* 0: any free port */
    uint64_t seed;
    /* Called for each answered request; may be NULL. */
    void (*journal)(void *context, const struct bl_script_served *served);
    void *context;
};

int bl_script_server_start(struct bl_nursery *nursery,
                           const struct bl_script_server_options *options,
                           struct bl_script_server **ret_server, struct bl_error *error);
uint16_t bl_script_server_port(const struct bl_script_server *server);
void bl_script_server_stop(struct bl_script_server *server); /* NULL is fine */

BL_PUBLIC_END

#endif
