/* What the files of this room share. */
#ifndef BELAY_RUNTIME_PARTS_H
#define BELAY_RUNTIME_PARTS_H

#include "runtime/runtime.h"

/* What a workspace has in files, read on a thread of its own, because files may block: a FIFO, a
 * dead disk. Owns all it holds, its words too: a thread that is left behind reads on when the
 * workspace is gone. */
struct workspace_files {
    struct bl_arena arena;
    struct bl_workspace_options options; /* what is to be read */
    struct runtime_choice choice;
    struct bl_project project;
    struct bl_text system; /* the results */
    struct bl_text schema_text;
    struct bl_json_schema *schema;
    struct bl_list instructions; /* struct bl_instruction */
    struct bl_list skills;       /* struct bl_skill */
    struct bl_list notices;      /* struct bl_notice: found, and cannot be used */
    struct bl_list servers;      /* struct bl_mcp_entry */
    const struct bl_mcp_entry *const *untrusted;
    int code;
    struct bl_error error;
};

struct workspace_files *workspace_files_new(const struct bl_workspace_options *options);
void workspace_files_free(void *files); /* NULL is fine */
/* Blocks. */
void workspace_files_read(void *files);

/* The same options with words of their own. */
struct bl_workspace_options runtime_options_copy(const struct bl_workspace_options *options,
                                                 struct bl_arena *arena);
/* How many a list that ends in NULL has; NULL: none. */
size_t runtime_list_size(const char *const *list);
/* A copy of both, one after the other, which ends in NULL. */
const char *const *runtime_list_join(struct bl_arena *arena, const char *const *first,
                                     const char *const *second);

#endif
