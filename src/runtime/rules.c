/* Rules that the user keeps permanently, in a file next to the configuration. The file is replaced
 * atomically and under a lock, because several conversations may keep rules at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "parts.h"

#define FILE_NAME      "rules.json"
#define RULES_FILE_MAX ((size_t)4 * 1024 * 1024)
#define RULES_MAX      1000
#define LOCK_TRIES     500 /* of a millisecond */
#define OPERATION      "keep a rule"

struct rules_file {
    struct bl_kept_rule *rules;
    size_t count;
};

#define BL_RECORD_STRUCT struct bl_kept_rule
static const struct bl_member rule_members[] = {
    BL_MEMBER_STRING("allow", rule, .least = 1, .most = BL_KEPT_RULE_SIZE_MAX),
    BL_MEMBER_STRING("project", project, .optional = true, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record rule_record =
    BL_RECORD("kept rule", struct bl_kept_rule, rule_members);
static const struct bl_member rule_element = BL_ELEMENT(struct bl_kept_rule, &rule_record);

#define BL_RECORD_STRUCT struct rules_file
static const struct bl_member file_members[] = {
    BL_MEMBER_ARRAY("rules", rules, count, &rule_element, .most = RULES_MAX),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record file_record =
    BL_RECORD("kept rules", struct rules_file, file_members);

/* ---- The file -------------------------------------------------------------------------------- */

/* Returns NULL if the path is unknown. */
static const char *rules_path(struct bl_arena *arena)
{
    const char *folder = bl_user_folder(arena, BL_USER_CONFIG, bl_variable);

    return folder == NULL ? NULL : bl_arena_printf(arena, "%s/" FILE_NAME, folder).data;
}

static int rules_load(struct bl_arena *arena, const char *path, struct rules_file *ret_file,
                      struct bl_error *error)
{
    struct bl_record_fault fault = {0};
    struct bl_json_fault broken;
    const struct bl_json *value;
    struct bl_buffer bytes;
    const char *why = "";
    char where[512];

    *ret_file = (struct rules_file){0};
    int code = bl_file_load(path, RULES_FILE_MAX, &bytes, &why);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&bytes));
    bl_buffer_done(&bytes);
    if (code == BL_ENOENT)
        return 0;
    if (code != 0)
        return bl_error_set(error, code, BL_KIND_FILESYSTEM, OPERATION, path,
                            "cannot read '%s': %s", path, why);
    code = bl_json_read(arena, text, NULL, &value, &broken);
    if (code != 0)
        bl_json_fault_text(&broken, where, sizeof where);
    else if ((code = bl_record_read(arena, &file_record, value, ret_file, &fault)) != 0)
        bl_record_fault_text(&fault, where, sizeof where);
    if (code == 0)
        return 0;
    bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, OPERATION, path, "%s: %s", path, where);
    bl_error_hint(error, "correct the file, or remove it: its rules do not apply until then");
    return BL_EPARSE;
}

static int rules_write_all(int fd, struct bl_text text)
{
    while (text.size > 0) {
        ssize_t size = write(fd, text.data, text.size);
        if (size < 0 && errno != EINTR)
            return -1;
        text.data += size > 0 ? size : 0;
        text.size -= size > 0 ? (size_t)size : 0;
    }
    return fsync(fd);
}

/* A symbolic link (to a folder for dotfiles, for example) is preserved. */
static int rules_save(struct bl_arena *arena, const char *path, const struct rules_file *file,
                      struct bl_error *error)
{
    struct bl_text text = bl_record_text(arena, &file_record, file);
    char *real = realpath(path, NULL);
    const char *target = real != NULL ? real : path;
    const char *beside = bl_arena_printf(arena, "%s.%ld", target, (long)getpid()).data;
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool good = fd >= 0 && rules_write_all(fd, bl_arena_printf(arena, BL_TEXT_FORMAT "\n",
                                                               BL_TEXT_ARG(text))) == 0;
    int code = 0;

    if (!good || rename(beside, target) != 0) {
        int why = errno;
        unlink(beside);
        code = bl_error_set(error, bl_error_from_errno(why), BL_KIND_FILESYSTEM, OPERATION, target,
                            "cannot write '%s': %s", target, strerrordesc_np(why));
    }
    if (fd >= 0)
        close(fd);
    free(real);
    return code;
}

/* ---- Changes --------------------------------------------------------------------------------- */

static bool rules_same_project(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static const char *rules_project(struct bl_arena *arena, const char *directory)
{
    if (directory == NULL)
        return NULL;
    return bl_arena_text(arena, (struct bl_text){directory, bl_repository_size(arena, directory)})
        .data;
}

/* The lock is held only briefly. */
static bool rules_lock(int fd)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

/* Loads the file, changes it, and saves it. `change` returns whether there is anything to save. */
static int rules_change(const char *rule, const char *directory,
                        bool (*change)(struct bl_arena *arena, struct rules_file *file,
                                       const char *rule, const char *project),
                        bool *ret_changed, struct bl_error *error)
{
    struct rules_file file;
    BL_AUTO_ARENA(arena);
    const char *path = rules_path(&arena);

    *ret_changed = false;
    if (path == NULL)
        return bl_error_set(
            error, BL_ENOENT, BL_KIND_FILESYSTEM, OPERATION, rule,
            "the user's folder is unknown: neither HOME nor XDG_CONFIG_HOME is set");
    bl_folder_make_above(path, 0700); /* if this fails, the lock reports it */
    const char *lock_path = bl_arena_printf(&arena, "%s.lock", path).data;
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock < 0 || !rules_lock(lock)) {
        int why = errno;
        if (lock >= 0)
            close(lock);
        return bl_error_set(error, bl_error_from_errno(why), BL_KIND_FILESYSTEM, OPERATION,
                            lock_path, "cannot lock '%s': %s", lock_path, strerrordesc_np(why));
    }
    int code = rules_load(&arena, path, &file, error);
    if (code == 0)
        *ret_changed = change(&arena, &file, rule, rules_project(&arena, directory));
    if (*ret_changed && file.count > RULES_MAX)
        code = bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, OPERATION, path,
                            "'%s' already has %d rules; remove some with /permissions remove", path,
                            RULES_MAX);
    if (code == 0 && *ret_changed)
        code = rules_save(&arena, path, &file, error);
    close(lock);
    return code;
}

static bool rules_add(struct bl_arena *arena, struct rules_file *file, const char *rule,
                      const char *project)
{
    struct bl_kept_rule *more = bl_arena_zalloc(arena, (file->count + 1) * sizeof *more);

    for (size_t i = 0; i < file->count; i++) {
        more[i] = file->rules[i];
        if (strcmp(more[i].rule, rule) == 0 && rules_same_project(more[i].project, project))
            return false;
    }
    more[file->count] = (struct bl_kept_rule){.rule = rule, .project = project};
    file->rules = more;
    file->count++;
    return true;
}

/* Also removes a rule that applies everywhere: it would still apply here. */
static bool rules_remove(struct bl_arena *arena BL_UNUSED, struct rules_file *file,
                         const char *rule, const char *project)
{
    size_t kept = 0, count = file->count;

    for (size_t i = 0; i < count; i++) {
        const struct bl_kept_rule *each = &file->rules[i];
        bool here = each->project == NULL || rules_same_project(each->project, project);
        if (!here || strcmp(each->rule, rule) != 0)
            file->rules[kept++] = *each;
    }
    file->count = kept;
    return kept < count;
}

int bl_kept_rule_add(const char *rule, const char *directory, struct bl_error *error)
{
    bool changed;

    return rules_change(rule, directory, rules_add, &changed, error);
}

int bl_kept_rule_remove(const char *rule, const char *directory, bool *ret_found,
                        struct bl_error *error)
{
    return rules_change(rule, directory, rules_remove, ret_found, error);
}

int bl_kept_rules_read(struct bl_arena *arena, const char *directory, struct bl_list *ret_rules,
                       struct bl_error *error)
{
    const char *path = rules_path(arena);
    struct rules_file file = {0};
    int code = path == NULL ? 0 : rules_load(arena, path, &file, error);

    bl_list_init(ret_rules);
    if (code != 0 || file.count == 0)
        return code;
    const char *project = rules_project(arena, directory);
    for (size_t i = 0; i < file.count; i++) {
        struct bl_kept_rule *rule = &file.rules[i];
        if (rule->project == NULL || strcmp(rule->project, project) == 0)
            bl_list_push_back(ret_rules, &rule->link);
    }
    return 0;
}
