/* The parts of `belay session`: its subcommands (session.c), import and export (file.c), and the
 * output as JSON (json.c) and text (text.c). */
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

/* The command line and the results. */
struct session_work {
    const struct cli_call *call;
    struct bl_arena arena;
    enum session_verb verb;
    const char *source; /* the session to work on; NULL if none */
    const char *file;   /* to read or write; NULL for standard input or output */
    const char **ids;   /* for delete; end in NULL */
    size_t id_count;
    const char *where;     /* the store */
    const char *shown;     /* the same without passwords */
    const char *as;        /* --as; NULL if not given */
    bool all;              /* --all */
    bool force;            /* --force */
    const char *directory; /* the current folder */
    struct bl_store *store;
    struct bl_list summaries;          /* for list */
    struct bl_store_session_view view; /* for show */
    struct bl_text input;              /* for import */
    const char *id;                    /* the session worked on, or the new one */
    const char *path;                  /* export: the file; move-aside: the new path */
    uint64_t lines;                    /* for export */
    const char **deleted;
    size_t deleted_count;
    int exit_code; /* of a failed write; else 0 */
    struct bl_error error;
    const struct bl_error *failure; /* for delete: reported with the result; NULL if none */
};

/* Write the text for people. */
void session_list_text(struct bl_buffer *out, const struct session_work *work);
void session_show_text(struct bl_buffer *out, const struct session_work *work);

/* Writes the session to standard output, or atomically to a file. Call in a fiber. */
int session_export(struct session_work *work);
/* Reads the file to import; "-" or NULL is standard input. Call before the loop starts. */
int session_read_input(struct session_work *work, const char *path);

#endif
