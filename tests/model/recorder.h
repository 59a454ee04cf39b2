/* A sink that writes down what a model tells it, one line a piece, and requests to ask it with. */
#ifndef BELAY_TESTS_RECORDER_H
#define BELAY_TESTS_RECORDER_H

#include <belay/model.h>

#include "fibers.h"

struct recorder {
    struct bl_sink sink;
    struct bl_buffer log; /* lines; a NUL follows when read by recorder_log */
    unsigned refuse_at;   /* the piece, from 1, that is refused with BL_EPIPE; 0: none */
    unsigned count;
    uint64_t retry_ms; /* of the newest retry */
    struct bl_error error;
};

void recorder_init(struct recorder *recorder);
void recorder_done(struct recorder *recorder);
const char *recorder_log(struct recorder *recorder);

/* Calls `model` with this text as the only message. Returns what the call did. */
int recorder_ask(struct recorder *recorder, const struct bl_model *model, const char *text);
/* What the model estimates for it. */
uint64_t recorder_estimate(const struct bl_model *model, const char *text);

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
