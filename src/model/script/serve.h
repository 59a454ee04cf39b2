/* The script model over HTTP: what its files share. Inside model/ only. */
#ifndef BELAY_MODEL_SCRIPT_SERVE_H
#define BELAY_MODEL_SCRIPT_SERVE_H

#include "model/parts.h"

/* ---- What a client is refused with ----------------------------------------------------------- */

struct script_problem {
    int status;       /* 0: the usual one of the code, in the format */
    const char *code; /* of the closed set of failures; NULL: by the status */
    char param[96];   /* what of the request: "messages.0.content"; empty: none */
    char message[320];
};

/* The status that it is answered with. */
int script_problem_status(const struct script_problem *problem, enum bl_api api);
/* The body of such an answer, in the format's own shape. */
void script_problem_write(struct bl_json_writer *writer, const struct script_problem *problem,
                          enum bl_api api, struct bl_text request_id);

/* ---- Requests (script_request.c) ------------------------------------------------------------- */

/* What a request asks for, whatever its format. In the arena that it was read into. */
struct script_request {
    enum bl_api api;
    const struct bl_json *body;
    struct bl_text model;
    struct bl_text newest; /* of a user; never without data */
    uint64_t images;       /* in the newest message of the user */
    bool stream;
    bool stream_usage;   /* openai: the stream ends with a chunk of it */
    bool encrypted;      /* responses: reasoning comes with its encrypted content */
    uint64_t max_tokens; /* BL_UNLIMITED: as many as there are */
};

/* `count_only`: of anthropic, tokens are to be counted. BL_EINVAL: `problem` says what is wrong;
 * what was read until then is in `request`. */
int script_request_read(struct bl_arena *arena, enum bl_api api, bool count_only,
                        struct bl_text body, struct script_request *request,
                        struct script_problem *problem);

#define SCRIPT_SIGNATURE_SIZE 48
/* What proves that a thinking text is ours, and unchanged. */
void script_signature(struct bl_text thinking, char out[SCRIPT_SIGNATURE_SIZE]);

/* ---- Answers (script_answer.c) --------------------------------------------------------------- */

/* One part of an answer. */
struct script_block {
    struct bl_list link;
    enum bl_block_type type; /* TEXT, THINKING or CALL */
    uint32_t index;          /* among all */
    uint32_t call_index;     /* among the calls */
    struct bl_buffer text;   /* or the call's input */
    struct bl_text id;
    struct bl_text name;
    bool invalid; /* the input is no JSON object */
};

struct script_format;

/* An answer on its way: a sink for the player's pieces, which become events of the format, or one
 * JSON object where no stream was asked for. */
struct script_answer {
    struct bl_sink sink;
    const struct script_request *request;
    const struct script_format *format;
    struct bl_arena *arena;
    const struct bl_clock *clock;
    uint64_t number;   /* of the answer: in its ids */
    uint64_t begun_ns; /* by the clock */
    int64_t begun_wall_ns;
    struct bl_usage usage; /* so far; the input is set before the first piece */
    uint64_t words;        /* told to the client so far */
    bool in_word;
    bool begun;     /* the head of the stream is out */
    bool truncated; /* at the limit of tokens: the player is to be left */
    bool ended;
    enum bl_answer_end end;
    struct bl_list blocks;
    struct script_block *open; /* NULL: none */
    uint32_t block_count;
    uint32_t call_count;
    uint32_t sequence;            /* responses: of the next event */
    struct bl_buffer out;         /* not written yet; the whole answer at its end */
    struct bl_json_writer writer; /* of the event under way */
    /* Begins the stream; and writes to it. */
    int (*start)(void *context);
    int (*write)(void *context, struct bl_text bytes);
    void *context;
};

void script_answer_init(struct script_answer *answer, const struct script_request *request,
                        struct bl_arena *arena, const struct bl_clock *clock, uint64_t number);
void script_answer_done(struct script_answer *answer);
/* Ends an answer that the player did not: for the limit of tokens. */
int script_answer_finish(struct script_answer *answer, const struct bl_usage *usage,
                         enum bl_answer_end end);

/* What the formats are made of; each writes into `out`. */
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
/* An event with the name (NULL: none), whose data goes into the writer that comes. */
struct bl_json_writer *script_event_begin(struct script_answer *answer, const char *name);
void script_event_end(struct script_answer *answer);
struct bl_text script_block_text(const struct script_block *block);

#endif
