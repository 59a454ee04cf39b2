/* What people put into files for an agent: where it is looked for, and how it is read. Inside
 * agent/ only. */
#ifndef BELAY_AGENT_FOUND_H
#define BELAY_AGENT_FOUND_H

#include <belay/agent.h>
#include <belay/source.h>

#define FOUND_SIZE_MAX        ((size_t)256 * 1024) /* of one file */
#define FOUND_COUNT_MAX       256u                 /* of one kind */
#define FOUND_ENTRIES_MAX     4096u                /* of a folder: the rest is not looked at */
#define FOUND_DESCRIPTION_MAX 1024u

/* Where something can be. */
struct found_place {
    const char *path;
    const char *root; /* files below the path must lie below this; NULL: it is the user's own */
};

/* Where something of that name can be: in the user's own folder as `users`, then from the
 * workspace's root down to `directory` as each of `below` (which ends in NULL). Absolute if that
 * is; ends in one without a path. */
const struct found_place *found_places(struct bl_arena *arena, const char *directory,
                                       const char *users, const char *const *below);
/* What a folder holds, sorted; hidden ones are left out. Ends in NULL. A folder that is not there
 * holds nothing; one that cannot be read, or that holds too much, is a notice besides. */
const char *const *found_names(struct bl_arena *arena, const char *folder, struct bl_list *notices);
/* What the error says, as a notice. */
void found_notice(struct bl_arena *arena, struct bl_list *notices, const struct bl_error *error);
/* There are more than FOUND_COUNT_MAX `things`: that file and what comes after it is left out. */
void found_too_many(struct bl_arena *arena, struct bl_list *notices, const char *things,
                    const char *path);

/* The text of a file, in the arena. BL_ENOENT without an error: it is not there. BL_EREFUSED: it is
 * a link that leads out of `place->root`. */
int found_load(struct bl_arena *arena, const struct found_place *place, const char *operation,
               struct bl_text *ret_text, struct bl_error *error);

/* A Markdown file that begins with YAML between two lines of three dashes. */
struct found_page {
    struct bl_source source; /* of the YAML; places are those in the file */
    struct bl_text body;     /* what follows, trimmed */
};

/* Reads one: its front matter is a mapping. Codes as those of found_load, and BL_EPARSE. */
int found_page_read(struct bl_arena *arena, const struct found_place *place, const char *operation,
                    struct found_page *ret_page, struct bl_error *error);
/* A text that is said in the front matter as one line of words: not empty, at most so many bytes. In
 * the arena. NULL: it is missing, and `*ret_line` stays as it was. */
int found_line(struct bl_source *source, const struct bl_json *value, struct bl_arena *arena,
               size_t size_max, const char **ret_line);

#endif
