/* Files that people write for an agent: where they are searched, and how they are read. Inside
 * agent/ only. */
#ifndef BELAY_AGENT_FOUND_H
#define BELAY_AGENT_FOUND_H

#include <belay/agent.h>
#include <belay/source.h>

#define FOUND_SIZE_MAX        ((size_t)256 * 1024) /* of one file */
#define FOUND_COUNT_MAX       256u                 /* of one kind */
#define FOUND_ENTRIES_MAX     4096u                /* of a folder: the rest is ignored */
#define FOUND_DESCRIPTION_MAX 1024u
#define FOUND_NAME_SIZE_MAX   64u

/* A place to search. */
struct found_place {
    const char *path;
    const char *root; /* files below the path must be below this root; NULL: the user's own place */
};

/* Returns the places where that name can be found: `users` in the user's own folder, then
 * each of `below` (NULL-terminated) from the workspace's root down to `directory`. Absolute if
 * `directory` is; the last element has no path. */
const struct found_place *found_places(struct bl_arena *arena, const char *directory,
                                       const char *users, const char *const *below);
/* Returns the names in a folder, sorted, without hidden ones; NULL-terminated. A missing folder is
 * empty; a folder that cannot be read, or that has too many entries, also adds a notice. */
const char *const *found_names(struct bl_arena *arena, const char *folder, struct bl_list *notices);
/* Checks for 1 to 64 of a-z, 0-9 and -. */
bool found_is_name(struct bl_text text);
/* Adds the error as a notice. */
void found_notice(struct bl_arena *arena, struct bl_list *notices, const struct bl_error *error);
/* Adds a notice: there are more than FOUND_COUNT_MAX `things`, and this file and the following ones
 * are left out. */
void found_too_many(struct bl_arena *arena, struct bl_list *notices, const char *things,
                    const char *path);

/* Loads the text of a file into the arena. BL_ENOENT without an error: it does not exist.
 * BL_EREFUSED: a link that leads out of `place->root`. */
int found_load(struct bl_arena *arena, const struct found_place *place, const char *operation,
               struct bl_text *ret_text, struct bl_error *error);

/* A Markdown file with YAML front matter between two lines of three dashes. */
struct found_page {
    struct bl_source source; /* of the front matter; positions are those in the file */
    struct bl_text body;     /* the rest of the file, trimmed */
};

/* Reads such a file; the front matter is a mapping. Returns the codes of found_load, and
 * BL_EPARSE. */
int found_page_read(struct bl_arena *arena, const struct found_place *place, const char *operation,
                    struct found_page *ret_page, struct bl_error *error);
/* Reads a text in the front matter as one line of words: not empty, at most `size_max` bytes. In
 * the arena. `value` NULL: it is missing, and `*ret_line` stays as it was. */
int found_line(struct bl_source *source, const struct bl_json *value, struct bl_arena *arena,
               size_t size_max, const char **ret_line);

#endif
