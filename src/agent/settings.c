#include <belay/agent.h>
#include <belay/value.h>

#define RULES_MAX  1000u
#define HOOKS_MAX  100u
#define NAME_SIZE  128u
#define LIST_START 16u

/* Texts that are collected, in the arena; end in NULL. */
struct texts {
    const char **all;
    size_t count;
    size_t capacity;
};

/* The settings while they are read. */
struct reading {
    struct bl_arena *arena;
    struct bl_settings *settings;
    struct bl_permissions *scratch; /* to try rules with */
    struct texts allow;
    struct texts deny;
    struct texts env_allow;
    size_t hook_count;
};

static void settings_add(struct bl_arena *arena, struct texts *texts, const char *text)
{
    if (texts->count + 1 >= texts->capacity) {
        size_t capacity = texts->capacity > 0 ? 2 * texts->capacity : LIST_START;
        texts->all = bl_arena_resize(arena, texts->all, texts->capacity * sizeof *texts->all,
                                     capacity * sizeof *texts->all);
        texts->capacity = capacity;
    }
    texts->all[texts->count++] = bl_arena_text(arena, bl_text_from(text)).data;
    texts->all[texts->count] = NULL;
}

static const char *const *finished(const struct texts *texts)
{
    static const char *const none[] = {NULL};

    return texts->count > 0 ? texts->all : none;
}

/* ---- Permissions ----------------------------------------------------------------------------- */

/* Why a rule is none, without the rule: errors of the configuration show no values. */
static const char *why_no_rule(const struct bl_error *error, struct bl_text rule)
{
    const char *mark = "is not a rule: ";
    size_t quoted = bl_text_trim(rule).size + 2;
    const char *found =
        strlen(error->message) > quoted ? strstr(error->message + quoted, mark) : NULL;

    return found != NULL ? found + strlen(mark) : "it is too long";
}

static int read_rules(struct bl_value_reader *reader, const struct bl_json *key, bool allow,
                      struct reading *reading)
{
    struct texts *texts = allow ? &reading->allow : &reading->deny;

    if (!bl_json_is(key + 1, BL_JSON_ARRAY))
        return bl_value_fail_at(reader, key + 1, "%s must be a list of rules, is %s", key->string,
                                bl_value_type(key + 1));
    BL_JSON_EACH (element, key + 1) {
        struct bl_error detail = {0};
        const char *rule = NULL;
        int code = bl_value_read_line(reader, element, "a rule", &rule);
        if (code != 0)
            return code;
        if (texts->count == RULES_MAX)
            return bl_value_fail_at(reader, element, "there are more than %u rules", RULES_MAX);
        if (bl_permissions_add(reading->scratch, allow, rule, &detail) != 0) {
            bool unknown = strcmp(detail.name, BL_UNKNOWN_TOOL) == 0;
            code = unknown ? bl_value_fail_at(reader, element, "unknown tool in a rule of %s",
                                              key->string)
                           : bl_value_fail_at(reader, element, "that is not a rule: %s",
                                              why_no_rule(&detail, bl_json_text(element)));
            bl_error_hint(reader->error, "%s", detail.hint);
            return code;
        }
        settings_add(reading->arena, texts, rule);
    }
    return 0;
}

static int read_permission(struct bl_value_reader *reader, size_t which, const struct bl_json *key,
                           void *out)
{
    static const enum bl_permission_mode modes[] = {BL_PERMISSION_ASK, BL_PERMISSION_AUTO,
                                                    BL_PERMISSION_READ_ONLY, BL_PERMISSION_YOLO};
    const char *words[BL_COUNT(modes) + 1] = {NULL};
    struct reading *reading = out;
    size_t index = 0;

    if (which != 0)
        return read_rules(reader, key, which == 1, reading);
    for (size_t i = 0; i < BL_COUNT(modes); i++)
        words[i] = bl_permission_mode_name(modes[i]);
    int code = bl_value_read_choice(reader, key, words, &index);
    if (code == 0)
        reading->settings->permission_mode = words[index];
    return code;
}

static int read_permissions(struct bl_value_reader *reader, const struct bl_json *key,
                            struct reading *reading)
{
    static const char *const names[] = {"mode", "allow", "deny", NULL};

    return bl_value_read_members(reader, key + 1, "permissions", names, read_permission, reading);
}

/* ---- Hooks ----------------------------------------------------------------------------------- */

struct hook {
    bool when_given;
    enum bl_hook_when when;
    const struct bl_json *tools; /* where they stand; NULL: all */
    const char *pattern;
    const char *command;
    uint64_t timeout_ns;
};

/* Of a text that is not empty. */
static bool settings_is_name(const char *text, const char *others)
{
    size_t size = 0;

    for (; text[size] != '\0'; size++) {
        char byte = text[size];
        bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        if (!letter && !(byte >= '0' && byte <= '9') && strchr(others, byte) == NULL)
            return false;
    }
    return size <= NAME_SIZE;
}

static int settings_read_pattern(struct bl_value_reader *reader, const struct bl_json *key,
                                 struct hook *hook)
{
    int code = bl_value_read_line(reader, key + 1, key->string, &hook->pattern);

    struct bl_error detail = {0};
    hook->tools = key;
    if (code != 0)
        return code;
    if (!settings_is_name(hook->pattern, "_-.*")) {
        code = bl_value_fail_at(
            reader, key + 1,
            "invalid pattern in tools (expected a tool's name, with or without stars)");
        bl_error_hint(reader->error, "like bash, edit or mcp__*; another tool is another hook");
    } else if (bl_tool_name_check(hook->pattern, &detail) != 0) {
        code = bl_value_fail_at(reader, key + 1, "unknown tool in tools");
        bl_error_hint(reader->error, "%s", detail.hint);
    }
    return code;
}

static int settings_read_command(struct bl_value_reader *reader, const struct bl_json *key,
                                 struct hook *hook)
{
    struct bl_text text;
    int code = bl_value_read_text(reader, key, &text);

    if (code != 0)
        return code;
    if (bl_text_trim(text).size == 0)
        return bl_value_fail_at(reader, key + 1, "command must not be empty");
    if (memchr(text.data, '\0', text.size) != NULL)
        return bl_value_fail_at(reader, key + 1, "command holds a zero byte");
    hook->command = text.data;
    return 0;
}

static int read_hook_member(struct bl_value_reader *reader, size_t which, const struct bl_json *key,
                            void *out)
{
    static const char *const moments[] = {
        [BL_HOOK_BEFORE_TOOL] = "before_tool",
        [BL_HOOK_AFTER_TOOL] = "after_tool",
        [BL_HOOK_TURN_START] = "turn_start",
        [BL_HOOK_TURN_END] = "turn_end",
        [BL_HOOK_STOP] = "stop",
        NULL,
    };
    struct hook *hook = out;
    size_t index = 0;
    int code;

    switch (which) {
    case 0:
        code = bl_value_read_choice(reader, key, moments, &index);
        hook->when = (enum bl_hook_when)index;
        hook->when_given = true;
        return code;
    case 1: return settings_read_pattern(reader, key, hook);
    case 2: return settings_read_command(reader, key, hook);
    default: return bl_value_read_duration(reader, key, 1, &hook->timeout_ns);
    }
}

static int read_hook(struct bl_value_reader *reader, const struct bl_json *value,
                     struct reading *reading)
{
    static const char *const names[] = {"when", "tools", "command", "timeout", NULL};
    struct hook hook = {0};
    int code = bl_value_read_members(reader, value, "a hook", names, read_hook_member, &hook);

    if (code != 0)
        return code;
    if (!hook.when_given || hook.command == NULL) {
        code = bl_value_fail_at(reader, value, "a hook needs when and command");
        bl_error_hint(reader->error, "like {when: before_tool, tools: bash, command: …}");
        return code;
    }
    if (hook.tools != NULL && hook.when != BL_HOOK_BEFORE_TOOL && hook.when != BL_HOOK_AFTER_TOOL)
        return bl_value_fail_at(reader, hook.tools,
                                "tools are chosen for before_tool and after_tool alone");
    if (++reading->hook_count > HOOKS_MAX)
        return bl_value_fail_at(reader, value, "there are more than %u hooks", HOOKS_MAX);
    if (reading->settings->hooks == NULL)
        reading->settings->hooks = bl_hooks_new();
    bl_hooks_add(reading->settings->hooks, hook.when, hook.pattern, hook.command, hook.timeout_ns);
    return 0;
}

static int read_hooks(struct bl_value_reader *reader, const struct bl_json *key,
                      struct reading *reading)
{
    if (!bl_json_is(key + 1, BL_JSON_ARRAY))
        return bl_value_fail_at(reader, key + 1, "hooks must be a list, is %s",
                                bl_value_type(key + 1));
    BL_JSON_EACH (element, key + 1) {
        int code = read_hook(reader, element, reading);
        if (code != 0)
            return code;
    }
    return 0;
}

/* ---- Variables ------------------------------------------------------------------------------- */

static int read_env_allow(struct bl_value_reader *reader, const struct bl_json *key,
                          struct reading *reading)
{
    if (!bl_json_is(key + 1, BL_JSON_ARRAY))
        return bl_value_fail_at(reader, key + 1, "env_allow must be a list of names, is %s",
                                bl_value_type(key + 1));
    BL_JSON_EACH (element, key + 1) {
        const char *name = NULL;
        int code = bl_value_read_line(reader, element, "a variable", &name);
        if (code != 0)
            return code;
        if (!settings_is_name(name, "_") || (name[0] >= '0' && name[0] <= '9')) {
            code = bl_value_fail_at(reader, element, "invalid variable name");
            bl_error_hint(reader->error, "like GITHUB_TOKEN, without a value");
            return code;
        }
        if (reading->env_allow.count == RULES_MAX)
            return bl_value_fail_at(reader, element, "there are more than %u variables", RULES_MAX);
        settings_add(reading->arena, &reading->env_allow, name);
    }
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int read_sections(struct reading *reading, const struct bl_config *config,
                         struct bl_error *error)
{
    static const struct {
        const char *name;
        bool project;
        int (*read)(struct bl_value_reader *reader, const struct bl_json *key,
                    struct reading *reading);
    } sections[] = {
        /* Of a project's file, bl_config_read has refused all else. */
        {"permissions", false, read_permissions},
        {"permissions", true, read_permissions},
        {"hooks", false, read_hooks},
        {"env_allow", false, read_env_allow},
    };
    int code = 0;

    for (size_t i = 0; i < BL_COUNT(sections) && code == 0; i++) {
        struct bl_value_reader reader;
        const struct bl_json *key;
        if (!bl_config_section(config, sections[i].name, sections[i].project, &reader, &key))
            continue;
        reader.error = error;
        code = sections[i].read(&reader, key, reading);
    }
    return code;
}

int bl_settings_read(struct bl_arena *arena, const struct bl_config *config,
                     struct bl_settings *ret_settings, struct bl_error *error)
{
    struct bl_error unused = {0};
    struct bl_settings settings = {0};
    struct reading reading = {.arena = arena, .settings = &settings};

    reading.scratch = bl_permissions_new(BL_PERMISSION_AUTO);
    int code = read_sections(&reading, config, error != NULL ? error : &unused);
    bl_permissions_free(reading.scratch);
    if (code != 0) {
        bl_hooks_free(settings.hooks);
        return code;
    }
    settings.allow = finished(&reading.allow);
    settings.deny = finished(&reading.deny);
    settings.env_allow = finished(&reading.env_allow);
    *ret_settings = settings;
    return 0;
}

int bl_settings_apply(const struct bl_settings *settings, struct bl_permissions *permissions,
                      struct bl_error *error)
{
    int code = 0;

    for (size_t i = 0; code == 0 && settings->allow != NULL && settings->allow[i] != NULL; i++)
        code = bl_permissions_add(permissions, true, settings->allow[i], error);
    for (size_t i = 0; code == 0 && settings->deny != NULL && settings->deny[i] != NULL; i++)
        code = bl_permissions_add(permissions, false, settings->deny[i], error);
    return code;
}
