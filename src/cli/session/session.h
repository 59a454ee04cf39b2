/* The parts of `belay session`: its verbs (session.c), what it reads and writes as files
 * (session_file.c), and the two ways of showing what it found (session_json.c, session_text.c). */
#ifndef BELAY_CLI_SESSION_H
#define BELAY_CLI_SESSION_H

#include <belay/store.h>

#include "cli/cli.h"

enum session_verb {
    SESSION_LIST,
    SESSION_SHOW,
    SESSION_EXPORT,
    SESSION_IMPORT,
    SESSION_FORK,
    SESSION_DELETE,
    SESSION_MOVE_ASIDE,
};

/* What the command line asks for, and what came of it. */
struct session_work {
    const struct cli_call *call;
    struct bl_arena arena;
    enum session_verb verb;
    const char *source; /* the session that it is about; NULL: none */
    const char *file;   /* to read or write; NULL: standard input or output */
    const char **ids;   /* of delete; end in NULL */
    size_t id_count;
    const char *where;     /* the store */
    const char *as;        /* --as; NULL: not given */
    bool all;              /* --all */
    const char *directory; /* where we are */
    struct bl_store *store;
    struct bl_list summaries;          /* of list */
    struct bl_store_session_view view; /* of show */
    struct bl_text input;              /* of import */
    const char *id;                    /* that it was about, or that came of it */
    const char *path;                  /* of export: the file; of move-aside: where it is now */
    uint64_t lines;                    /* of export */
    const char **deleted;
    size_t deleted_count;
    int exit_code; /* when something could not be written; else 0 */
    struct bl_error error;
    const struct bl_error *failure; /* of delete: what is told besides; NULL: nothing */
};

/* For people. */
void session_list_text(struct bl_buffer *out, const struct session_work *work);
void session_show_text(struct bl_buffer *out, const struct session_work *work);

/* In a fiber: writes the session to standard output, or to a file that is there whole or not at
 * all. */
int session_export(struct session_work *work);
/* Before the loop: reads the file to import ("-" or none: standard input). */
int session_read_input(struct session_work *work, const char *path);

#endif
