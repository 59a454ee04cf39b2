/* The parts of `belay cell`: its command line (cell.c), a cell with a host of its own (cell_run.c,
 * and cell_tools.c for what it may call), the host for others (cell_serve.c), those who ask it
 * (cell_client.c), and what all of them say (cell_text.c). */
#ifndef BELAY_CLI_CELL_H
#define BELAY_CLI_CELL_H

#include <belay/cell.h>

#include "cli/cli.h"

/* ---- The command line ------------------------------------------------------------------------ */

enum cell_verb {
    CELL_RUN,
    CELL_SERVE,
    CELL_CREATE,
    CELL_OBSERVE,
    CELL_TERMINATE,
    CELL_RELEASE,
    CELL_LIST,
};

enum cell_offer {
    CELL_OFFER_NONE,
    CELL_OFFER_READ_ONLY, /* what changes nothing */
    CELL_OFFER_ALL,
};

/* What the command line and the environment ask for. Texts are theirs, or the arena's. */
struct cell_options {
    struct bl_arena arena;
    enum cell_verb verb;
    const char *name;    /* of the verb */
    const char *operand; /* FILE of run and create, else ID; NULL: none */
    bool timed;
    int64_t timeout_ns;
    uint64_t memory_bytes; /* 0: the default, as the next */
    uint64_t output_bytes;
    enum cell_offer offer;
    enum bl_permission_mode mode;
    const char *session; /* NULL: none is named */
    const char *store;
    const char *socket;  /* NULL: the usual place */
    bool standard;       /* --stdio */
    const char *id;      /* of the cell to create; NULL: made up */
    uint64_t generation; /* 0: the next */
    uint64_t yield_ms;
    const char *terminate_id; /* NULL: made up */
    const char *directory;    /* where we are: absolute */
};

/* The deadline as a cell's limit, in milliseconds; 0: none was given. */
uint64_t cell_deadline_ms(const struct cell_options *options);

/* Each returns the exit code of the process. */
int cell_run(struct cli_call *call, const struct cell_options *options);
int cell_serve(struct cli_call *call, const struct cell_options *options);
int cell_ask(struct cli_call *call, const struct cell_options *options);

/* ---- What is said ---------------------------------------------------------------------------- */

/* In a fiber: the source, from FILE or standard input, in the arena; valid UTF-8, neither blank nor
 * too long. A stop leaves whoever still reads to it. */
int cell_source_read(const char *path, struct bl_arena *arena, struct bl_text *ret_source,
                     struct bl_error *error);
/* Why an operation was refused, of kind cell, with what to do about it. */
int cell_refusal(const struct bl_cell_fault *fault, const char *operation, const char *target,
                 struct bl_error *error);
/* The error with which a cell has ended, as that of the command. */
void cell_failure(const struct bl_cell_error *cause, const char *cell_id, struct bl_error *error);
/* The same for people, with its stack; lines that end in LF. */
void cell_failure_text(const struct bl_cell_error *cause, struct bl_buffer *out);
/* Texts of items to `out`, each ends in LF; what cannot be shown is noted in `notes`. */
void cell_items_text(const struct bl_list *items, struct bl_buffer *out, struct bl_buffer *notes);

/* ---- Tools of a cell that runs by itself ----------------------------------------------------- */

/* Embedded by its owner, zeroed. */
struct cell_toolset {
    struct bl_permissions *permissions;
    struct bl_toolbox *toolbox; /* NULL: none are offered */
    struct bl_tools table;      /* the toolbox's, with what is offered */
    struct bl_engine engine;
    struct bl_cell_tool *tools; /* as a cell is told of them */
    size_t count;
};

/* On error too cell_toolset_close must be called. `arena` outlives it. */
int cell_toolset_open(struct cell_toolset *set, const struct cell_options *options,
                      struct bl_arena *arena, struct bl_error *error);
void cell_toolset_close(struct cell_toolset *set);
/* A port's `call`; the context is a struct cell_toolset. Permissions decide; nobody can be asked.
 */
void cell_toolset_call(void *context, const struct bl_cell_call *call,
                       struct bl_cell_call_result *ret_result);

#endif
