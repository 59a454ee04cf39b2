/* model: whoever answers. Fills the engine's table of a model (turn.h).
 *
 * Here: the script model, which plays a file, and what all models share: what a failure means, and
 * when to try again. */
#ifndef BELAY_MODEL_H
#define BELAY_MODEL_H

#include <belay/turn.h>

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

#endif
