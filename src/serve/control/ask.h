/* Asking other processes. */
#ifndef BELAY_SERVE_ASK_H
#define BELAY_SERVE_ASK_H

#include "serve/parts.h"

/* One process that is asked. In the arena of the asker, like its answer. */
struct question {
    struct bl_list link;
    struct asking *asking;
    char name[SERVE_NAME_SIZE]; /* of its socket */
    int64_t pid;                /* of who listens; 0: not known */
    bool dead;                  /* nobody listens any more; what it was is the state */
    int code;                   /* 0: it has answered, maybe with a failure */
    bool failed;
    const struct bl_json *result;
    struct bl_rpc_failure failure;
    struct control_state state; /* once it was asked what runs; nothing, where it has not told */
};

/* All that are asked the same. */
struct asking {
    struct bl_arena *arena;
    int folder;
    struct bl_list questions;
    size_t count;
    const char *method;
    struct bl_text params;
    uint64_t answer_ns; /* for an answer; BL_NEVER: no limit */
    uint64_t place_ns;  /* to be let in; the same */
};

int ask_begin(struct asking *asking, struct bl_arena *arena, struct bl_error *error);
int ask_ps(struct asking *asking, struct bl_arena *arena, struct bl_error *error);
void asking_done(struct asking *asking);
int ask_one(struct question *question);
int ask_connect(struct question *question, uint64_t deadline_ns, int *ret_fd);
/* Asks all what runs, and finds whose id it is. BL_ENOENT: nobody's; BL_EEXIST: several things have
 * it, and the hint has their whole names. On error too asking_done must be called. */
int ask_whose(struct asking *asking, struct bl_arena *arena, const char *operation, const char *id,
              struct question **ret_question, struct bl_error *error);
int ask_not_found(const struct asking *asking, const char *operation, const char *id,
                  struct bl_error *error);
bool question_answered(const struct question *question);
bool question_has_pid(struct question *question, int64_t pid);
bool ask_ping(const struct question *silent);

#endif
