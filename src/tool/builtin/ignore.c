/* Ignore rules: .gitignore and .git/info/exclude as Git reads them, and .ignore, which has the same
 * syntax and takes precedence over both. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "search.h"

#define RULES_SIZE_MAX ((size_t)1024 * 1024)
#define PATH_SIZE      ((size_t)4096)

struct rule {
    struct bl_text pattern;
    size_t literal; /* at least this many bytes at its start have no wildcard */
    bool negated;
    bool folders; /* matches only folders */
    bool by_name; /* has no slash, and is compared with names */
    bool suffix;  /* a star, followed by text without wildcards */
};

/* The rules of one file. */
struct rules {
    char *memory; /* holds the bytes of the patterns */
    struct rule *list;
    size_t count;
};

struct ignore {
    atomic_uint references;
    struct ignore *above;
    size_t base; /* size of the part of a path that belongs to the folder */
    bool is_repository;
    struct rules ignore;
    struct rules gitignore;
    struct rules exclude; /* of a repository */
};

/* ---- Reading --------------------------------------------------------------------------------- */

static bool ignore_is_special(char byte)
{
    return byte == '*' || byte == '?' || byte == '[' || byte == '\\';
}

static size_t literal_size(struct bl_text text)
{
    size_t size = 0;
    while (size < text.size && !ignore_is_special(text.data[size]))
        size++;
    return size;
}

/* Removes trailing spaces, except one escaped by a backslash. */
static struct bl_text trim_spaces(struct bl_text line)
{
    size_t kept = 0;
    for (size_t i = 0; i < line.size; i++) {
        bool escaped = line.data[i] == '\\';
        if (escaped && ++i == line.size)
            return line;
        if (escaped || line.data[i] != ' ')
            kept = i + 1;
    }
    return (struct bl_text){line.data, kept};
}

static void ignore_add_rule(struct rules *rules, struct bl_text line)
{
    struct rule rule = {0};
    if (line.data[0] == '!') {
        rule.negated = true;
        line = (struct bl_text){line.data + 1, line.size - 1};
    }
    if (line.size > 0 && line.data[line.size - 1] == '/') {
        rule.folders = true;
        line.size--;
    }
    rule.by_name = line.size == 0 || memchr(line.data, '/', line.size) == NULL;
    rule.literal = literal_size(line);
    rule.suffix = line.size > 0 && line.data[0] == '*' &&
                  literal_size((struct bl_text){line.data + 1, line.size - 1}) == line.size - 1;
    rule.pattern = line;
    rules->list[rules->count++] = rule;
}

/* Takes ownership of the bytes. */
static void parse_rules(struct rules *rules, char *bytes, size_t size)
{
    struct bl_text rest = {bytes, size}, line;
    size_t lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += bytes[i] == '\n';
    rules->memory = bytes;
    rules->list = bl_alloc(lines * sizeof *rules->list);
    if (bl_text_starts_with(rest, BL_TEXT("\xEF\xBB\xBF")))
        rest = (struct bl_text){rest.data + 3, rest.size - 3};
    while (bl_text_split(&rest, '\n', &line)) {
        if (line.size == 0 || line.data[0] == '#')
            continue;
        if (line.data[line.size - 1] == '\r')
            line.size--;
        line.size = strnlen(line.data, line.size);
        line = trim_spaces(line);
        if (line.size > 0)
            ignore_add_rule(rules, line);
    }
}

/* Reads all of a small regular file. Returns -1 if there is none, or it cannot be read; errno is
 * ENOENT if it does not exist. */
static ssize_t ignore_load(int folder, const char *path, int flags, size_t size_max,
                           char **ret_bytes)
{
    struct stat status;
    size_t size = 0;
    ssize_t got = 0;
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || (uint64_t)status.st_size > size_max) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    size_t room = (size_t)status.st_size;
    char *bytes = bl_alloc(room + 1);
    while (size < room && (got = read(fd, bytes + size, room - size)) > 0)
        size += (size_t)got;
    close(fd);
    if (got < 0) {
        bl_free(bytes);
        errno = EIO;
        return -1;
    }
    bytes[size] = '\0';
    *ret_bytes = bytes;
    return (ssize_t)size;
}

static void load_rules(struct rules *rules, int folder, const char *path, int flags,
                       uint64_t *unread)
{
    char *bytes;
    ssize_t size = ignore_load(folder, path, flags, RULES_SIZE_MAX, &bytes);
    if (size >= 0)
        parse_rules(rules, bytes, (size_t)size);
    else if (errno != ENOENT && errno != ENOTDIR)
        ++*unread;
}

/* Returns the first line of a small file, without the prefix, in the arena. Empty if the file has
 * no such line. */
static struct bl_text load_line(struct bl_arena *arena, int folder, const char *path,
                                const char *prefix)
{
    char *bytes;
    struct bl_text start = bl_text_from(prefix), line = {0};
    ssize_t size = ignore_load(folder, path, 0, PATH_SIZE, &bytes);
    if (size < 0)
        return line;
    struct bl_text text = {bytes, strcspn(bytes, "\r\n")};
    if (bl_text_starts_with(text, start))
        line = bl_arena_text(arena, (struct bl_text){bytes + start.size, text.size - start.size});
    bl_free(bytes);
    return line;
}

/* Loads the rules of a linked working tree: its `.git` is a file that names a folder, in which
 * another file names the folder that all such trees share. */
static void load_linked(struct rules *rules, int folder, uint64_t *unread)
{
    struct bl_arena arena = {0};
    struct bl_text own = load_line(&arena, folder, ".git", "gitdir: ");
    if (own.size > 0) {
        struct bl_text path = bl_arena_printf(&arena, "%s/commondir", own.data);
        struct bl_text shared = load_line(&arena, folder, path.data, "");
        if (shared.size > 0 && shared.data[0] == '/')
            path = bl_arena_printf(&arena, "%s/info/exclude", shared.data);
        else
            path = bl_arena_printf(&arena, "%s/%s/info/exclude", own.data,
                                   shared.size > 0 ? shared.data : ".");
        load_rules(rules, folder, path.data, 0, unread);
    }
    bl_arena_done(&arena);
}

static void load_repository(struct ignore *ignore, int folder, uint64_t *unread)
{
    struct stat status;
    if (fstatat(folder, ".git", &status, 0) < 0)
        return;
    ignore->is_repository = true;
    if (S_ISDIR(status.st_mode))
        load_rules(&ignore->exclude, folder, ".git/info/exclude", 0, unread);
    else
        load_linked(&ignore->exclude, folder, unread);
}

/* ---- The rules of a folder ------------------------------------------------------------------- */

unsigned ignore_kind(const char *name)
{
    if (name[0] != '.')
        return 0;
    return strcmp(name, ".gitignore") == 0 ? IGNORE_GITIGNORE
           : strcmp(name, ".ignore") == 0  ? IGNORE_IGNORE
           : strcmp(name, ".git") == 0     ? IGNORE_GIT
                                           : 0;
}

struct ignore *ignore_enter(struct ignore *above, int folder, size_t base, unsigned kinds,
                            uint64_t *unread)
{
    struct ignore own = {.base = base};
    /* Links are not followed, as in Git: their target may be anything. */
    if (kinds & IGNORE_IGNORE)
        load_rules(&own.ignore, folder, ".ignore", O_NOFOLLOW, unread);
    if (kinds & IGNORE_GITIGNORE)
        load_rules(&own.gitignore, folder, ".gitignore", O_NOFOLLOW, unread);
    if (kinds & IGNORE_GIT)
        load_repository(&own, folder, unread);
    if (own.ignore.memory == NULL && own.gitignore.memory == NULL && !own.is_repository)
        return ignore_ref(above);
    struct ignore *ignore = bl_alloc(sizeof *ignore);
    *ignore = own;
    atomic_init(&ignore->references, 1);
    ignore->above = ignore_ref(above);
    return ignore;
}

struct ignore *ignore_ref(struct ignore *ignore)
{
    if (ignore != NULL)
        atomic_fetch_add(&ignore->references, 1);
    return ignore;
}

static void free_rules(struct rules *rules)
{
    bl_free(rules->memory);
    bl_free(rules->list);
}

void ignore_unref(struct ignore *ignore)
{
    while (ignore != NULL && atomic_fetch_sub(&ignore->references, 1) == 1) {
        struct ignore *above = ignore->above;
        free_rules(&ignore->ignore);
        free_rules(&ignore->gitignore);
        free_rules(&ignore->exclude);
        bl_free(ignore);
        ignore = above;
    }
}

/* ---- Matching -------------------------------------------------------------------------------- */

static bool match_name(const struct rule *rule, struct bl_text name)
{
    struct bl_text pattern = rule->pattern;
    if (rule->literal == pattern.size)
        return bl_text_equal(pattern, name);
    if (rule->suffix)
        return bl_text_ends_with(name, (struct bl_text){pattern.data + 1, pattern.size - 1});
    return wild_match(pattern, name, 0);
}

/* Matches a path below the folder of the rule. The part without wildcards is compared first, and
 * the rest is then a pattern of its own, so that two stars after it count as a whole part, as in
 * Git. */
static bool ignore_match_path(const struct rule *rule, struct bl_text path)
{
    struct bl_text pattern = rule->pattern;
    size_t literal = rule->literal;
    if (pattern.size > 0 && pattern.data[0] == '/') {
        pattern = (struct bl_text){pattern.data + 1, pattern.size - 1};
        literal--;
    }
    if (literal > path.size || memcmp(pattern.data, path.data, literal) != 0)
        return false;
    pattern = (struct bl_text){pattern.data + literal, pattern.size - literal};
    path = (struct bl_text){path.data + literal, path.size - literal};
    return wild_match(pattern, path, WILD_PATH);
}

enum verdict {
    UNDECIDED,
    LEFT_OUT,
    KEPT,
};

/* The last matching rule decides. */
static enum verdict ignore_decide(const struct rules *rules, size_t base, struct bl_text path,
                                  size_t name, bool is_folder)
{
    struct bl_text below = {path.data + base, path.size - base};
    struct bl_text last = {path.data + name, path.size - name};
    for (size_t i = rules->count; i-- > 0;) {
        const struct rule *rule = &rules->list[i];
        if (rule->folders && !is_folder)
            continue;
        if (rule->by_name ? match_name(rule, last) : ignore_match_path(rule, below))
            return rule->negated ? KEPT : LEFT_OUT;
    }
    return UNDECIDED;
}

bool ignore_has(const struct ignore *ignore, struct bl_text path, size_t name, bool is_folder)
{
    enum verdict verdict = UNDECIDED;
    for (const struct ignore *at = ignore; at != NULL && verdict == UNDECIDED; at = at->above)
        verdict = ignore_decide(&at->ignore, at->base, path, name, is_folder);
    for (const struct ignore *at = ignore; at != NULL && verdict == UNDECIDED; at = at->above) {
        verdict = ignore_decide(&at->gitignore, at->base, path, name, is_folder);
        if (verdict == UNDECIDED && at->is_repository) {
            verdict = ignore_decide(&at->exclude, at->base, path, name, is_folder);
            /* Rules above another repository do not apply to this one. */
            break;
        }
    }
    return verdict == LEFT_OUT;
}
