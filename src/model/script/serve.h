/* The script model over HTTP: shared by its files. Inside model/ only. */
#ifndef BELAY_MODEL_SCRIPT_SERVE_H
#define BELAY_MODEL_SCRIPT_SERVE_H

#include "model/parts.h"

/* ---- Refusals -------------------------------------------------------------------------------- */

struct script_problem {
    int status;       /* 0: the format's usual status for the code */
    const char *code; /* from the closed set of failures; NULL: derived from the status */
    char param[96];   /* the faulty member of the request: "messages.0.content"; empty if none */
    char message[320];
};

/* Returns the status of the response. */
int script_problem_status(const struct script_problem *problem, enum bl_api api);
/* Writes the body of such a response, in the format's own shape. */
void script_problem_write(struct bl_json_writer *writer, const struct script_problem *problem,
                          enum bl_api api, struct bl_text request_id);

/* ---- Requests (script_request.c) ------------------------------------------------------------- */

/* A request in any of the formats. In the arena that it was read into. */
struct script_request {
    enum bl_api api;
    const struct bl_json *body;
    struct bl_text model;
    struct bl_text newest; /* newest text of a user; its data is never NULL */
    uint64_t images;       /* in the newest message of the user */
    bool stream;
    bool stream_usage;   /* openai: the stream ends with a usage chunk */
    bool encrypted;      /* responses: reasoning includes its encrypted content */
    uint64_t max_tokens; /* BL_UNLIMITED: no limit */
};

/* Reads a request. `count_only`: of anthropic, count tokens. BL_EINVAL: `problem` says what is
 * wrong; `request` has what was read before. */
int script_request_read(struct bl_arena *arena, enum bl_api api, bool count_only,
                        struct bl_text body, struct script_request *request,
                        struct script_problem *problem);

#define SCRIPT_SIGNATURE_SIZE 48
/* Makes the signature that proves that a thinking text is ours, and unchanged. */
void script_signature(struct bl_text thinking, char out[SCRIPT_SIGNATURE_SIZE]);

/* ---- Answers (script_answer.c) --------------------------------------------------------------- */

/* One part of an answer. */
struct script_block {
    struct bl_list link;
    enum bl_block_type type; /* TEXT, THINKING or CALL */
    uint32_t index;          /* among all blocks */
    uint32_t call_index;     /* among the calls */
    struct bl_buffer text;   /* or the call's input */
    struct bl_text id;
    struct bl_text name;
    bool invalid; /* the input is not a JSON object */
};

struct script_format;

/* An answer in progress: a sink for the player's pieces, which become events of the format, or one
 * JSON object if no stream was requested. */
struct script_answer {
    struct bl_sink sink;
    const struct script_request *request;
    const struct script_format *format;
    struct bl_arena *arena;
    const struct bl_clock *clock;
    uint64_t number;   /* of the answer: part of its ids */
    uint64_t begun_ns; /* by the clock */
    int64_t begun_wall_ns;
    struct bl_usage usage; /* so far; the input is set before the first piece */
    uint64_t words;        /* sent to the client so far */
    bool in_word;
    bool begun;     /* the head of the stream was sent */
    bool truncated; /* at the token limit: the player must stop */
    bool ended;
    enum bl_answer_end end;
    struct bl_list blocks;
    struct script_block *open; /* NULL if none */
    uint32_t block_count;
    uint32_t call_count;
    uint32_t sequence;            /* responses: of the next event */
    struct bl_buffer out;         /* not written yet; the whole answer at its end */
    struct bl_json_writer writer; /* of the current event */
    /* Start the stream, and write to it. */
    int (*start)(void *context);
    int (*write)(void *context, struct bl_text bytes);
    void *context;
};

void script_answer_init(struct script_answer *answer, const struct script_request *request,
                        struct bl_arena *arena, const struct bl_clock *clock, uint64_t number);
void script_answer_done(struct script_answer *answer);
/* Ends an answer that the player did not end: at the token limit. */
int script_answer_finish(struct script_answer *answer, const struct bl_usage *usage,
                         enum bl_answer_end end);

/* The parts of a format; each function writes into `out`. */
struct script_format {
    void (*begin)(struct script_answer *answer);
    void (*open)(struct script_answer *answer, const struct script_block *block);
    void (*delta)(struct script_answer *answer, const struct script_block *block,
                  struct bl_text piece);
    void (*close)(struct script_answer *answer, const struct script_block *block);
    void (*finish)(struct script_answer *answer);
    void (*whole)(struct script_answer *answer); /* into its writer */
};

extern const struct script_format script_format_anthropic;
extern const struct script_format script_format_openai;
extern const struct script_format script_format_responses;
extern const struct script_format script_format_ollama;
/* Begins an event with the name (NULL if none), whose data goes into the returned writer. */
struct bl_json_writer *script_event_begin(struct script_answer *answer, const char *name);
void script_event_end(struct script_answer *answer);
struct bl_text script_block_text(const struct script_block *block);

#endif
