/* Requests to other processes. */
#ifndef BELAY_SERVE_ASK_H
#define BELAY_SERVE_ASK_H

#include "serve/parts.h"

/* A request to one process. In the arena of the caller, like its answer. */
struct question {
    struct bl_list link;
    struct asking *asking;
    char name[SERVE_NAME_SIZE]; /* of its socket */
    int64_t pid;                /* of the process that listens; 0 if unknown */
    bool dead;                  /* no process listens any more; `state` has what is known */
    int code;                   /* 0 if it has answered, possibly with a failure */
    bool failed;
    const struct bl_json *result;
    struct bl_rpc_failure failure;
    struct control_state state; /* its answer to ps; empty if it has not answered */
};

/* The same request to several processes. */
struct asking {
    struct bl_arena *arena;
    int folder;
    struct bl_list questions;
    size_t count;
    const char *method;
    struct bl_text params;
    uint64_t answer_ns; /* time limit for an answer; BL_NEVER: none */
    uint64_t place_ns;  /* time limit for being accepted as a client; likewise */
};

int ask_begin(struct asking *asking, struct bl_arena *arena, struct bl_error *error);
int ask_ps(struct asking *asking, struct bl_arena *arena, struct bl_error *error);
void asking_done(struct asking *asking);
int ask_one(struct question *question);
int ask_connect(struct question *question, uint64_t deadline_ns, int *ret_fd);
/* Asks all processes for their activities, and finds the one with that id. BL_ENOENT: none has it.
 * BL_EEXIST: several activities have it, and the hint has their full names. BL_EBUSY: it is an idle
 * session, and `*ret_question` is its process. Call asking_done also after an error. */
int ask_whose(struct asking *asking, struct bl_arena *arena, const char *operation, const char *id,
              struct question **ret_question, struct bl_error *error);
int ask_not_found(const struct asking *asking, const char *operation, const char *id,
                  struct bl_error *error);
bool question_answered(const struct question *question);
bool question_has_pid(struct question *question, int64_t pid);
bool ask_ping(const struct question *silent);

#endif
