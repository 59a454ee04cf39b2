/* Programs that a repository's own configuration names.
 *
 * Design notes.
 *
 * A tool can write `.git/config`, and a repository unpacked from an archive contains one. Keys with
 * a fixed name that run a program are overridden on every command line (run.c). Filters and merge
 * drivers have names that the repository chooses, and are needed if the user has defined them
 * (git-lfs). Those from the user's and the system's configuration work; one from the repository's
 * own configuration is foreign unless the user's has the same value.
 *
 * Foreign programs are never run. A call that reads continues without them. A call that writes is
 * refused: without its filter (git-crypt, for example), a file could be committed in plain text.
 *
 * Git itself lists the configuration, since it follows includes and runs no program for that. The
 * result is cached until one of the files changes. It is not cached while the configuration
 * includes other files, or while a file is so new that a change might not show in its times. */
#include "parts.h"

#include <fcntl.h>
#include <sys/stat.h>

#define CONFIG_FILES     2
#define CONFIG_AGE_NS    ((int64_t)(20 * BL_NS_PER_MS))
#define CONFIG_POINTER   4096
#define CONFIG_OVERRIDES 4 /* of one filter */

/* ---- Cache ----------------------------------------------------------------------------------- */

/* The result of stat(2) for a file; all zero if it does not exist. */
struct config_look {
    uint64_t device, inode, size;
    int64_t modified_ns, changed_ns;
};

/* The result for these files. Worktrees with the same files share it. */
struct config_checked {
    struct bl_list link;
    struct config_look looks[CONFIG_FILES];
    git_overrides overrides;
    const char *key;
};

static int64_t config_time_ns(struct timespec time)
{
    return (int64_t)time.tv_sec * (int64_t)BL_NS_PER_S + time.tv_nsec;
}

/* Returns the time since the last change, or the maximum if the file does not exist. */
static int64_t config_look_at(const char *path, struct config_look *ret_look)
{
    struct stat status;
    *ret_look = (struct config_look){0};
    if (stat(path, &status) != 0)
        return INT64_MAX;
    *ret_look = (struct config_look){
        .device = status.st_dev,
        .inode = status.st_ino,
        .size = (uint64_t)status.st_size,
        .modified_ns = config_time_ns(status.st_mtim),
        .changed_ns = config_time_ns(status.st_ctim),
    };
    return bl_clock_wall_ns(&bl_clock_system) - ret_look->changed_ns;
}

/* Returns the directory that worktrees share, which the file `commondir` names. */
static const char *config_common(struct bl_arena *arena, const char *folder)
{
    char bytes[CONFIG_POINTER];
    const char *pointer = bl_arena_printf(arena, "%s/commondir", folder).data;
    struct bl_text line = bl_text_trim(bl_file_read(AT_FDCWD, pointer, bytes, sizeof bytes));
    if (line.size == 0)
        return folder;
    return line.data[0] == '/'
               ? bl_arena_text(arena, line).data
               : bl_arena_printf(arena, "%s/" BL_TEXT_FORMAT, folder, BL_TEXT_ARG(line)).data;
}

/* True if all files are old enough that their times reveal any later change. */
static bool config_look(struct bl_arena *arena, const char *folder,
                        struct config_look looks[CONFIG_FILES])
{
    const char *common = config_common(arena, folder);
    int64_t shared_ns = config_look_at(bl_arena_printf(arena, "%s/config", common).data, &looks[0]);
    int64_t own_ns =
        config_look_at(bl_arena_printf(arena, "%s/config.worktree", folder).data, &looks[1]);
    return shared_ns > CONFIG_AGE_NS && own_ns > CONFIG_AGE_NS;
}

static struct config_checked *config_find(struct bl_git *git,
                                          const struct config_look looks[CONFIG_FILES])
{
    BL_LIST_EACH (link, &git->checked) {
        struct config_checked *checked = BL_CONTAINER(link, struct config_checked, link);
        if (memcmp(checked->looks, looks, sizeof checked->looks) == 0)
            return checked;
    }
    return NULL;
}

/* ---- Settings -------------------------------------------------------------------------------- */

struct config_setting {
    struct bl_text key;
    struct bl_text value;
    bool own; /* the repository's, not the user's */
};

/* True if the key names a program: a section, any name (also an empty one), and a setting. */
static bool config_is_program(struct bl_text key)
{
    static const struct {
        struct bl_text section;
        struct bl_text name;
    } programs[] = {
        {BL_TEXT("filter."), BL_TEXT(".clean")},   {BL_TEXT("filter."), BL_TEXT(".smudge")},
        {BL_TEXT("filter."), BL_TEXT(".process")}, {BL_TEXT("merge."), BL_TEXT(".driver")},
        {BL_TEXT("hook."), BL_TEXT(".command")},
    };
    for (size_t i = 0; i < BL_COUNT(programs); i++)
        if (bl_text_starts_with(key, programs[i].section) &&
            bl_text_ends_with(key, programs[i].name) &&
            key.size >= programs[i].section.size + programs[i].name.size)
            return true;
    return false;
}

static bool config_is_include(struct bl_text key)
{
    return bl_text_equal(key, BL_TEXT("include.path")) ||
           bl_text_starts_with(key, BL_TEXT("includeif."));
}

/* Takes the next "scope NUL key LF value NUL"; a key without a value has no LF. */
static bool config_next(struct bl_text *rest, struct config_setting *ret_setting)
{
    struct bl_text scope, setting;
    if (!bl_text_split(rest, '\0', &scope) || !bl_text_split(rest, '\0', &setting))
        return false;
    ret_setting->own =
        bl_text_equal(scope, BL_TEXT("local")) || bl_text_equal(scope, BL_TEXT("worktree"));
    ret_setting->key = setting;
    ret_setting->value = (struct bl_text){0};
    const char *end = setting.size > 0 ? memchr(setting.data, '\n', setting.size) : NULL;
    if (end != NULL) {
        ret_setting->key.size = (size_t)(end - setting.data);
        ret_setting->value = (struct bl_text){end + 1, setting.size - ret_setting->key.size - 1};
    }
    return true;
}

/* Returns the last value of a key in the user's own configuration. */
static struct bl_text config_users(struct bl_text listing, struct bl_text key)
{
    struct config_setting setting;
    struct bl_text value = {0};
    while (config_next(&listing, &setting))
        if (!setting.own && bl_text_equal(setting.key, key))
            value = setting.value;
    return value;
}

static bool config_is_foreign(struct bl_text listing, const struct config_setting *setting)
{
    return setting->own && setting->value.size > 0 && config_is_program(setting->key) &&
           !bl_text_equal(config_users(listing, setting->key), setting->value);
}

/* Overrides a key with the user's value, or with none. A filter that is removed is also made not
 * required. */
static size_t config_disarm(struct bl_arena *arena, struct bl_text listing, struct bl_text key,
                            const char **overrides)
{
    struct bl_text value = config_users(listing, key);
    size_t count = 0, last = key.size;
    overrides[count++] = bl_arena_printf(arena, BL_TEXT_FORMAT "=" BL_TEXT_FORMAT, BL_TEXT_ARG(key),
                                         BL_TEXT_ARG(value))
                             .data;
    while (key.data[last - 1] != '.')
        last--;
    if (value.size == 0 && bl_text_starts_with(key, BL_TEXT("filter.")))
        overrides[count++] = bl_arena_printf(arena, "%.*srequired=false", (int)last, key.data).data;
    return count;
}

static bool config_includes(struct bl_text listing)
{
    struct config_setting setting;
    while (config_next(&listing, &setting))
        if (setting.own && config_is_include(setting.key))
            return true;
    return false;
}

static void config_judge(struct bl_arena *arena, struct bl_text listing,
                         struct config_checked *checked)
{
    struct bl_text rest = listing;
    struct config_setting setting;
    size_t foreign = 0, count = 0;
    bool plain = true;
    while (config_next(&rest, &setting))
        foreign += config_is_foreign(listing, &setting);
    const char **overrides =
        bl_arena_alloc(arena, (CONFIG_OVERRIDES * foreign + 1) * sizeof *overrides);
    rest = listing;
    while (config_next(&rest, &setting)) {
        if (!config_is_foreign(listing, &setting))
            continue;
        if (checked->key == NULL)
            checked->key = bl_arena_text(arena, setting.key).data;
        /* In an override, the key ends at the first '='. */
        plain = plain && memchr(setting.key.data, '=', setting.key.size) == NULL;
        count += config_disarm(arena, listing, setting.key, overrides + count);
    }
    overrides[count] = NULL;
    checked->overrides = plain ? overrides : NULL;
}

/* ---- Checking -------------------------------------------------------------------------------- */

static int config_list(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                       struct bl_text *ret_listing, struct bl_error *error)
{
    static const char *const none[] = {NULL};
    struct bl_git_call listing = *call;
    struct bl_git_answer answer;
    listing.input = (struct bl_text){0};
    int code =
        git_program_run(git, arena, &listing, none,
                        BL_GIT_ARGUMENTS("config", "--list", "--show-scope", "-z"), &answer, error);
    if (code == 0 && (answer.status != 0 || answer.cut))
        code = bl_git_refuse(call, &answer, error);
    if (code == 0)
        *ret_listing = answer.output;
    return code;
}

int git_config_check(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                     git_overrides *ret_overrides, const char **ret_key, struct bl_error *error)
{
    struct config_look looks[CONFIG_FILES];
    struct bl_text listing;
    bool settled = config_look(arena, call->folder, looks);
    struct config_checked *checked = config_find(git, looks);
    if (checked == NULL) {
        int code = config_list(git, arena, call, &listing, error);
        if (code != 0)
            return code;
        bool kept = settled && !config_includes(listing);
        struct bl_arena *home = kept ? &git->arena : arena;
        checked = bl_arena_zalloc(home, sizeof *checked);
        memcpy(checked->looks, looks, sizeof looks);
        config_judge(home, listing, checked);
        if (kept)
            bl_list_push_back(&git->checked, &checked->link);
    }
    *ret_overrides = checked->overrides;
    *ret_key = checked->key;
    return 0;
}

int bl_git_check(struct bl_git *git, struct bl_arena *arena, const struct bl_git_call *call,
                 struct bl_error *error)
{
    git_overrides overrides;
    const char *key;
    int code = git_config_check(git, arena, call, &overrides, &key, error);
    if (code != 0 || key == NULL)
        return code;
    BL_AUTO_BUFFER(shown, 1024);
    bl_text_show(&shown, bl_utf8_cut(bl_text_from(key), 200), BL_SHOW_LINE);
    bl_error_set(error, BL_EREFUSED, BL_KIND_FEATURE, call->operation, call->directory,
                 "the repository's own configuration names a program: " BL_TEXT_FORMAT,
                 BL_TEXT_ARG(shown));
    bl_error_hint(error,
                  "tools can write that file, so belay does not run the program; if it is yours, "
                  "set it with 'git config --global', else remove it with 'git config --unset'");
    return BL_EREFUSED;
}
