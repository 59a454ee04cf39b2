/* What glob and grep share: names with wildcards, the rules of .gitignore, a walk over folders on
 * several threads, and a shelf that keeps the first of many results. */
#ifndef BELAY_TOOL_SEARCH_H
#define BELAY_TOOL_SEARCH_H

#include <pthread.h>

#include "tool/parts.h"

/* ---- Wildcards ------------------------------------------------------------------------------- */

enum {
    /* A star stays within a folder; two that are a whole part stand for any number of folders. */
    WILD_PATH = 1,
    /* What is hidden (its name begins with a dot) must be named: no wildcard stands for that dot.
     */
    WILD_NO_HIDDEN = 2,
};

/* The whole text fits: `*`, `?`, `[a-z]`, `[!a]`, `[[:digit:]]`, `\x`, as git has them. In time at
 * most quadratic. A class that is not closed fits nothing. */
bool wild_match(struct bl_text pattern, struct bl_text text, unsigned flags);

/* One pattern of a set. */
struct wild_pattern {
    struct bl_text text;
    struct bl_text folder; /* what it begins with: folders without wildcards, with their slash */
    bool by_name;          /* it has no slash, and is held against names in all folders */
    size_t depth_max;      /* of folders that can hold what fits; SIZE_MAX: any */
};

/* Alternatives, from one pattern with braces. In an arena. */
struct wild_set {
    struct wild_pattern *patterns;
    size_t count;
    unsigned flags;
    bool names_hidden; /* some part of it begins with a dot */
    bool negated;      /* what does not fit is meant */
};

/* Reads `{a,b}` into a set. False: it is no pattern, and `*ret_wrong` says why. */
bool wild_set_read(struct bl_arena *arena, struct bl_text source, unsigned flags,
                   struct wild_set *ret_set, const char **ret_wrong);
/* Of a path without a leading slash, whose last part begins at `name`. */
bool wild_set_match(const struct wild_set *set, struct bl_text path, size_t name);
/* False: nothing below that folder can fit. */
bool wild_set_enters(const struct wild_set *set, struct bl_text folder, size_t name);

/* ---- Rules of what is ignored ---------------------------------------------------------------- */

/* The rules of a folder and of all above it. Immutable, counted; may be used from several threads.
 */
struct ignore;

/* What a folder holds of that kind. */
enum {
    IGNORE_GITIGNORE = 1,
    IGNORE_IGNORE = 2,
    IGNORE_GIT = 4, /* it is the root of a repository */
    IGNORE_ALL = 7,
};

/* Which of them a name is; 0: none. */
unsigned ignore_kind(const char *name);
/* The rules in a folder that is open, from those above it (NULL: none) and what it holds (what is
 * said to be there need not be). `base` is the size of its path, slash included. `*unread` counts
 * files of rules that cannot be read. Counted, for the caller; NULL: there are none. */
struct ignore *ignore_enter(struct ignore *above, int folder, size_t base, unsigned kinds,
                            uint64_t *unread);
struct ignore *ignore_ref(struct ignore *ignore); /* NULL is fine */
void ignore_unref(struct ignore *ignore);         /* NULL is fine */
/* Is this to be left out? Its last part begins at `name`. `ignore` (may be NULL) is that of its
 * folder. */
bool ignore_has(const struct ignore *ignore, struct bl_text path, size_t name, bool is_folder);

/* ---- Walking --------------------------------------------------------------------------------- */

/* A file that was met. */
struct walk_file {
    int folder; /* open */
    const char *name;
    struct bl_text path; /* below the folder where the walk began */
    size_t name_offset;  /* in the path */
    unsigned worker;     /* the thread: 0 … WALK_THREADS_MAX - 1 */
};

#define WALK_THREADS_MAX 8u

/* A walk over all regular files below a folder that no rule ignores; no link is followed, and
 * nothing of a repository's own (.git) is met. Embedded by its owner. */
struct walk {
    const char *top;            /* absolute, without links */
    const char *home;           /* above it; rules from there on count, and from the root of the
                                   repository on where that is further up; NULL: none */
    int descriptor;             /* of it, open; the owner's */
    const atomic_bool *stopped; /* once it is true the walk ends */
    const struct permission_denials
        *denials;          /* files that must not be read are not met; NULL: none */
    const char *workspace; /* what these are relative to */
    unsigned threads_max;  /* 0: as many as there are processors; at most WALK_THREADS_MAX */
    bool heavy;            /* a file takes longer than its name */
    void *context;
    /* Both from any thread; NULL: all. */
    bool (*enters)(void *context, struct bl_text folder, size_t name);
    bool (*wants)(void *context, struct bl_text path, size_t name);
    /* From any thread, in any order. */
    void (*take)(void *context, const struct walk_file *file);
    /* What it could not see. */
    uint64_t folders_unreadable;
    uint64_t rules_unreadable;
};

/* Returns when all its threads have ended. */
void walk_run(struct walk *walk);

/* ---- The shelf ------------------------------------------------------------------------------- */

/* One result. */
struct shelf_item {
    int64_t rank;    /* higher ones come first; then by path */
    uint64_t weight; /* how much of the limit it takes */
    uint64_t matches;
    struct bl_text path;
    struct bl_text text;
};

/* Keeps of all results put there the first, in their order, up to a limit, whatever the order in
 * which they come. May be used from several threads. Embedded by its owner. */
struct shelf {
    pthread_mutex_t lock;
    struct shelf_item **items; /* a heap: the last in order at its top; sorted by shelf_sort */
    size_t count;
    size_t capacity;
    uint64_t weight;
    size_t bytes;
    uint64_t weight_max;
    size_t bytes_max;
};

void shelf_init(struct shelf *shelf, uint64_t weight_max, size_t bytes_max);
void shelf_done(struct shelf *shelf);
/* False: it would not be kept. */
bool shelf_wants(struct shelf *shelf, int64_t rank, struct bl_text path);
void shelf_add(struct shelf *shelf, const struct shelf_item *item); /* copies */
void shelf_sort(struct shelf *shelf);

/* ---- What both say --------------------------------------------------------------------------- */

/* A path below `top`, a path as it is shown, in the words of the workspace; without control
 * characters. `path` empty: the top itself. */
void search_print_path(struct bl_buffer *out, struct bl_text top, struct bl_text path,
                       const char *end);
/* Folders, and files of rules, that could not be read. */
void search_print_unseen(struct bl_buffer *out, uint64_t folders, uint64_t rules);
/* A path cannot be opened, by errno; `no_folder` says what to do when it is none. Returns 0: the
 * job has failed. */
int search_fail_open(struct file_job *job, const struct tool_path *path, int code,
                     const char *no_folder);

/* ---- Lines of a file ------------------------------------------------------------------------- */

enum grep_output {
    GREP_CONTENT,
    GREP_FILES,
    GREP_COUNT,
};

/* What is looked for, and how it is told. */
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

/* What came of one file. */
struct grep_found {
    uint64_t matches;    /* lines; of GREP_FILES 1 at most */
    uint64_t lines;      /* of these in `text` */
    uint64_t long_lines; /* of which only the first 8 MiB were looked at */
    struct bl_text text; /* of GREP_CONTENT: "12:text\n", context "11-text\n", gaps "--\n"; valid
                            UTF-8, until the next search */
};

struct grep_searcher *grep_searcher_new(const struct grep_request *request);
void grep_searcher_free(struct grep_searcher *searcher); /* NULL is fine */
/* Of an open file. Without `tells` only counts. */
enum grep_outcome grep_search(struct grep_searcher *searcher, int fd, bool tells,
                              struct grep_found *ret_found);

#endif
