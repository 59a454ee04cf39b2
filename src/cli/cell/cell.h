/* The parts of `belay cell`: its command line (cell.c), a cell with a host of its own (run.c, and
 * tools.c for the tools it may call), the host for other programs (serve.c), the subcommands that
 * ask a host (client.c), and shared texts (text.c). */
#ifndef BELAY_CLI_CELL_H
#define BELAY_CLI_CELL_H

#include <belay/cell.h>

#include "cli/cli.h"

/* ---- The command line ------------------------------------------------------------------------ */

enum cell_verb {
    CELL_VERB_RUN,
    CELL_VERB_SERVE,
    CELL_VERB_CREATE,
    CELL_VERB_OBSERVE,
    CELL_VERB_TERMINATE,
    CELL_VERB_RELEASE,
    CELL_VERB_LIST,
};

enum cell_offer {
    CELL_OFFER_NONE,
    CELL_OFFER_READ_ONLY, /* tools that change nothing */
    CELL_OFFER_ALL,
};

/* The command line and the environment, which own the texts, as the arena does. */
struct cell_options {
    struct bl_arena arena;
    enum cell_verb verb;
    const char *name;    /* of the verb */
    const char *operand; /* FILE of run and create, else ID; NULL if none */
    bool timed;
    int64_t timeout_ns;
    uint64_t memory_bytes; /* this and the next: 0 for the default */
    uint64_t output_bytes;
    enum cell_offer offer;
    enum bl_permission_mode mode;
    const char *session; /* NULL if none is given */
    const char *store;
    const char *socket;  /* NULL for the default path */
    bool standard;       /* --stdio */
    const char *id;      /* of the cell to create; NULL to generate one */
    uint64_t generation; /* 0 for the next one */
    uint64_t yield_ms;
    const char *terminate_id; /* NULL to generate one */
    const char *directory;    /* the current folder, absolute */
};

/* Returns the deadline as a cell's limit, in milliseconds; 0 if none is given. */
uint64_t cell_deadline_ms(const struct cell_options *options);

/* Each returns the exit code of the process. */
int cell_run(struct cli_call *call, const struct cell_options *options);
int cell_serve(struct cli_call *call, const struct cell_options *options);
int cell_ask(struct cli_call *call, const struct cell_options *options);

/* ---- Sources and texts ----------------------------------------------------------------------- */

/* Reads the source from FILE or standard input into the arena, and checks that it is valid UTF-8,
 * not blank and not too long. Call in a fiber; after a stop, the reading thread is abandoned. */
int cell_source_read(const char *path, struct bl_arena *arena, struct bl_text *ret_source,
                     struct bl_error *error);
/* Sets an error of kind cell that says why an operation was refused, with a hint. */
int cell_refusal(const struct bl_cell_fault *fault, const char *operation, const char *target,
                 struct bl_error *error);
/* Sets the error with which a cell ended, as the error of the command. */
void cell_failure(const struct bl_cell_error *cause, const char *cell_id, struct bl_error *error);
/* Writes the same for people, with the stack, in lines that end in LF. */
void cell_failure_text(const struct bl_cell_error *cause, struct bl_buffer *out);
/* Writes the texts of items to `out`, each ending in LF; items that cannot be shown are noted in
 * `notes`. */
void cell_items_text(const struct bl_list *items, struct bl_buffer *out, struct bl_buffer *notes);

/* ---- Tools of a cell without an agent -------------------------------------------------------- */

/* Embedded by its owner, zeroed. */
struct cell_toolset {
    struct bl_permissions *permissions;
    struct bl_toolbox *toolbox; /* NULL if no tools are offered */
    struct bl_tools table;      /* the toolbox's, reduced to the offered tools */
    struct bl_engine engine;
    struct bl_cell_tool *tools; /* the same for the cell */
    size_t count;
};

/* cell_toolset_close must be called even after an error. `arena` must outlive the set. */
int cell_toolset_open(struct cell_toolset *set, const struct cell_options *options,
                      struct bl_arena *arena, struct bl_error *error);
void cell_toolset_close(struct cell_toolset *set);
/* The `call` of a port; the context is a struct cell_toolset. Permissions decide, without asking
 * the user. */
void cell_toolset_call(void *context, const struct bl_cell_call *call,
                       struct bl_cell_call_result *ret_result);

#endif
