/* Shared by glob and grep: wildcard patterns for names, the rules of .gitignore, a walk over
 * folders on several threads, and a shelf that keeps the first of many results. */
#ifndef BELAY_TOOL_SEARCH_H
#define BELAY_TOOL_SEARCH_H

#include <pthread.h>

#include "tool/parts.h"

/* ---- Wildcards ------------------------------------------------------------------------------- */

enum {
    /* A star stays within a folder; two stars as a whole part match any number of folders. */
    WILD_PATH = 1,
    /* Hidden names (beginning with a dot) must be named: no wildcard matches that dot. */
    WILD_NO_HIDDEN = 2,
};

/* Matches the whole text: `*`, `?`, `[a-z]`, `[!a]`, `[[:digit:]]`, `\x`, as in Git. Takes at most
 * quadratic time. An unterminated class matches nothing. */
bool wild_match(struct bl_text pattern, struct bl_text text, unsigned flags);

/* One pattern of a set. */
struct wild_pattern {
    struct bl_text text;
    struct bl_text folder; /* its start: folders without wildcards, with their slash */
    bool by_name;          /* has no slash, and is compared with names in all folders */
    size_t depth_max;      /* depth of the folders that can hold matches; SIZE_MAX for any */
};

/* The alternatives of one pattern with braces. In an arena. */
struct wild_set {
    struct wild_pattern *patterns;
    size_t count;
    unsigned flags;
    bool names_hidden; /* some part of it begins with a dot */
    bool negated;      /* matches what the patterns do not match */
};

/* Reads `{a,b}` into a set. Returns false if the pattern is invalid; `*ret_wrong` says why. */
bool wild_set_read(struct bl_arena *arena, struct bl_text source, unsigned flags,
                   struct wild_set *ret_set, const char **ret_wrong);
/* Matches a path without a leading slash, whose last part begins at `name`. */
bool wild_set_match(const struct wild_set *set, struct bl_text path, size_t name);
/* Returns false if nothing below that folder can match. */
bool wild_set_enters(const struct wild_set *set, struct bl_text folder, size_t name);

/* ---- Ignore rules ---------------------------------------------------------------------------- */

/* The rules of a folder and of all folders above it. Immutable and reference-counted; may be used
 * from several threads. */
struct ignore;

/* Sources of rules that a folder has. */
enum {
    IGNORE_GITIGNORE = 1,
    IGNORE_IGNORE = 2,
    IGNORE_GIT = 4, /* the root of a repository */
    IGNORE_ALL = 7,
};

/* Returns the kind of a name, or 0. */
unsigned ignore_kind(const char *name);
/* Returns the rules for an open folder, from those above it (NULL for none) and its own files of
 * the given `kinds`, which need not exist. `base` is the size of its path, slash included.
 * `*unread` counts files of rules that cannot be read. The caller owns the returned reference; NULL
 * if there are no rules. */
struct ignore *ignore_enter(struct ignore *above, int folder, size_t base, unsigned kinds,
                            uint64_t *unread);
struct ignore *ignore_ref(struct ignore *ignore); /* NULL is fine */
void ignore_unref(struct ignore *ignore);         /* NULL is fine */
/* Returns whether the path is ignored. Its last part begins at `name`. `ignore` (may be NULL) is
 * the set of rules of its folder. */
bool ignore_has(const struct ignore *ignore, struct bl_text path, size_t name, bool is_folder);

/* ---- Walking --------------------------------------------------------------------------------- */

/* A file found by the walk. */
struct walk_file {
    int folder; /* open */
    const char *name;
    struct bl_text path; /* below the top of the walk */
    size_t name_offset;  /* in the path */
    unsigned worker;     /* index of the thread: 0 … WALK_THREADS_MAX - 1 */
};

#define WALK_THREADS_MAX 8u

/* A walk over all regular files below a folder that are not ignored. Links are not followed, and
 * the repository's own folder (.git) is skipped. Embedded by its owner. */
struct walk {
    const char *top; /* absolute, without links */
    /* a folder above it: rules apply from there on, or from the root of the repository if that is
     * further up; NULL for none */
    const char *home;
    int descriptor;             /* of `top`, open; the owner's */
    const atomic_bool *stopped; /* ends the walk once it is true */
    const struct permission_denials
        *denials;          /* files that must not be read are skipped; NULL for none */
    const char *workspace; /* which the denials are relative to */
    unsigned threads_max;  /* 0: the number of processors; at most WALK_THREADS_MAX */
    bool heavy;            /* `take` is slow compared with reading a name */
    void *context;
    /* Called on any thread; NULL for all. */
    bool (*enters)(void *context, struct bl_text folder, size_t name);
    bool (*wants)(void *context, struct bl_text path, size_t name);
    /* Called on any thread, in any order. */
    void (*take)(void *context, const struct walk_file *file);
    /* Numbers of what could not be read. */
    uint64_t folders_unreadable;
    uint64_t rules_unreadable;
};

/* Returns when all its threads have ended. */
void walk_run(struct walk *walk);

/* ---- The shelf ------------------------------------------------------------------------------- */

/* One result. */
struct shelf_item {
    int64_t rank;    /* higher ranks come first; then by path */
    uint64_t weight; /* share of the limit that it uses */
    uint64_t matches;
    struct bl_text path;
    struct bl_text text;
};

/* Keeps the first of all added results in order, up to a limit, whatever the order in which they
 * are added. May be used from several threads. Embedded by its owner. */
struct shelf {
    pthread_mutex_t lock;
    struct shelf_item **items; /* a heap with the last in order at its top; sorted by shelf_sort */
    size_t count;
    size_t capacity;
    uint64_t weight;
    size_t bytes;
    uint64_t weight_max;
    size_t bytes_max;
};

void shelf_init(struct shelf *shelf, uint64_t weight_max, size_t bytes_max);
void shelf_done(struct shelf *shelf);
/* Returns false if it would not be kept. */
bool shelf_wants(struct shelf *shelf, int64_t rank, struct bl_text path);
void shelf_add(struct shelf *shelf, const struct shelf_item *item); /* copies */
void shelf_sort(struct shelf *shelf);

/* ---- Output shared by glob and grep ---------------------------------------------------------- */

/* Prints a path below `top`, which is the path shown to the user, without control characters. An
 * empty `path` is the top itself. */
void search_print_path(struct bl_buffer *out, struct bl_text top, struct bl_text path,
                       const char *end);
/* Reports folders and files of rules that could not be read. */
void search_print_unseen(struct bl_buffer *out, uint64_t folders, uint64_t rules);
/* Fails the job because a path cannot be opened, by errno; `no_folder` says what to do if it is not
 * a folder. Returns 0. */
int search_fail_open(struct file_job *job, const struct tool_path *path, int code,
                     const char *no_folder);

/* ---- Lines of a file ------------------------------------------------------------------------- */

/* A search, and the form of its results. */
struct grep_request {
    const struct bl_pattern *pattern;
    const atomic_bool *stopped;
    enum grep_output output;
    unsigned context;
    uint64_t lines_max;
    size_t bytes_max;
};

enum grep_outcome {
    GREP_SEARCHED,
    GREP_BINARY,
    GREP_UNREADABLE,
};

/* Searches files, one after another, on one thread. */
struct grep_searcher;

/* The result for one file. */
struct grep_found {
    uint64_t matches;    /* matching lines; at most 1 for GREP_FILES */
    uint64_t lines;      /* number of these in `text` */
    uint64_t long_lines; /* lines of which only the first 8 MiB were searched */
    /* for GREP_CONTENT: "12:text\n", context "11-text\n", gaps "--\n"; valid UTF-8, until the next
     * search */
    struct bl_text text;
};

struct grep_searcher *grep_searcher_new(const struct grep_request *request);
void grep_searcher_free(struct grep_searcher *searcher); /* NULL is fine */
/* Searches an open file. Without `prints`, only counts. */
enum grep_outcome grep_search(struct grep_searcher *searcher, int fd, bool prints,
                              struct grep_found *ret_found);

#endif
