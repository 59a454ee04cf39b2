/* Shared by the files of this room. */
#ifndef BELAY_RUNTIME_PARTS_H
#define BELAY_RUNTIME_PARTS_H

#include "runtime/runtime.h"

/* The files of a workspace, read on a thread of its own, because files may block: a FIFO, a dead
 * disk. Owns everything in it, strings included: an abandoned thread continues reading after the
 * workspace was freed. */
struct workspace_files {
    struct bl_arena arena;
    struct bl_workspace_options options; /* what to read */
    struct runtime_choice choice;
    struct bl_project project;
    struct bl_text system; /* the results */
    struct bl_text schema_text;
    struct bl_json_schema *schema;
    struct bl_list instructions; /* struct bl_instruction */
    struct bl_list skills;       /* struct bl_skill */
    struct bl_list notices;      /* struct bl_notice: found, but cannot be used */
    struct bl_list servers;      /* struct bl_mcp_entry */
    struct bl_list rules;        /* struct bl_kept_rule, in force here */
    const struct bl_mcp_entry *const *untrusted;
    int code;
    struct bl_error error;
};

struct workspace_files *workspace_files_new(const struct bl_workspace_options *options);
void workspace_files_free(void *files); /* NULL is fine */
/* Blocks. */
void workspace_files_read(void *files);

/* Returns the same options with copies of their strings. */
struct bl_workspace_options runtime_options_copy(const struct bl_workspace_options *options,
                                                 struct bl_arena *arena);
/* Returns the length of a NULL-terminated list; 0 for NULL. */
size_t runtime_list_size(const char *const *list);
/* Returns both lists, one after the other, NULL-terminated. */
const char *const *runtime_list_join(struct bl_arena *arena, const char *const *first,
                                     const char *const *second);

#endif
