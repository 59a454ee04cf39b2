#include <belay/agent.h>
#include <belay/source.h>

#define RULES_MAX  1000u
#define HOOKS_MAX  100u
#define NAME_SIZE  128u
#define LIST_START 16u

/* Collected texts, in the arena; NULL-terminated. */
struct texts {
    const char **all;
    size_t count;
    size_t capacity;
};

/* The settings being read. */
struct reading {
    struct bl_arena *arena;
    struct bl_settings *settings;
    struct bl_permissions *scratch; /* for checking rules */
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

/* Returns why a rule is invalid, without the rule: errors of the configuration show no values. */
static const char *why_no_rule(const struct bl_error *error, struct bl_text rule)
{
    const char *mark = "is not a rule: ";
    size_t quoted = bl_text_trim(rule).size + 2;
    const char *found =
        strlen(error->message) > quoted ? strstr(error->message + quoted, mark) : NULL;

    return found != NULL ? found + strlen(mark) : "it is too long";
}

static int read_rules(struct bl_source *source, const struct bl_json *list, bool allow,
                      struct reading *reading)
{
    struct texts *texts = allow ? &reading->allow : &reading->deny;

    BL_JSON_EACH (element, list) {
        struct bl_error detail = {0};
        if (texts->count == RULES_MAX)
            return bl_source_fail(source, element, "there are more than %u rules", RULES_MAX);
        if (bl_permissions_add(reading->scratch, allow, element->string, &detail) != 0) {
            bool unknown = strcmp(detail.name, BL_UNKNOWN_TOOL) == 0;
            if (unknown)
                bl_source_fail(source, element, "unknown tool in a rule of %s",
                               allow ? "allow" : "deny");
            else
                bl_source_fail(source, element, "invalid rule: %s",
                               why_no_rule(&detail, bl_json_text(element)));
            bl_error_hint(source->error, "%s", detail.hint);
            return BL_EPARSE;
        }
        settings_add(reading->arena, texts, element->string);
    }
    return 0;
}

static const struct bl_member line_element = {
    .type = BL_TYPE_STRING, .size = sizeof(char *), .form = &bl_form_line};

struct permissions_said {
    const char *mode;
    const char *const *allow;
    const char *const *deny;
};

#define BL_RECORD_STRUCT struct permissions_said
static const struct bl_member permissions_members[] = {
    BL_MEMBER_STRING("mode", mode, .optional = true, .names = &bl_permission_mode_names),
    BL_MEMBER_STRINGS("allow", allow, .optional = true, .element = &line_element),
    BL_MEMBER_STRINGS("deny", deny, .optional = true, .element = &line_element),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record permissions_record =
    BL_RECORD("permissions", struct permissions_said, permissions_members, .closed = true);

static int read_permissions(struct bl_source *source, const struct bl_json *value,
                            struct reading *reading)
{
    struct permissions_said said = {0};
    int code = bl_source_read(source, reading->arena, &permissions_record, value, &said);

    if (code == 0 && said.mode != NULL)
        reading->settings->permission_mode =
            bl_arena_text(reading->arena, bl_text_from(said.mode)).data;
    if (code == 0)
        code = read_rules(source, bl_json_get(value, BL_TEXT("allow")), true, reading);
    if (code == 0)
        code = read_rules(source, bl_json_get(value, BL_TEXT("deny")), false, reading);
    return code;
}

/* ---- Hooks ----------------------------------------------------------------------------------- */

struct hook {
    enum bl_hook_when when;
    const char *pattern; /* NULL: all tools */
    const char *command;
    uint64_t timeout_ns;
};

/* Checks a text that is not empty. */
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

static bool settings_is_command(struct bl_text text)
{
    return bl_text_trim(text).size > 0;
}

static const struct bl_form command_form = {"a non-empty command", NULL, settings_is_command};
static const char *const moments[] = {
    [BL_HOOK_BEFORE_TOOL] = "before_tool",
    [BL_HOOK_AFTER_TOOL] = "after_tool",
    [BL_HOOK_TURN_START] = "turn_start",
    [BL_HOOK_TURN_END] = "turn_end",
    [BL_HOOK_STOP] = "stop",
};
static const struct bl_names moment_names = BL_NAMES(moments);

#define HOOK_EXAMPLE     "for example, {when: before_tool, tools: bash, command: …}"
#define BL_RECORD_STRUCT struct hook
static const struct bl_member hook_members[] = {
    BL_MEMBER_ENUM("when", when, &moment_names, .about = HOOK_EXAMPLE),
    BL_MEMBER_STRING("tools", pattern, .optional = true, .form = &bl_form_line),
    BL_MEMBER_STRING("command", command, .form = &command_form, .about = HOOK_EXAMPLE),
    BL_MEMBER_DURATION("timeout", timeout_ns, .optional = true, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record hook_record =
    BL_RECORD("a hook", struct hook, hook_members, .closed = true);

static int check_pattern(struct bl_source *source, const struct bl_json *value,
                         const struct hook *hook)
{
    const struct bl_json *tools = bl_json_get(value, BL_TEXT("tools"));
    struct bl_error detail = {0};

    if (hook->pattern == NULL)
        return 0;
    if (!settings_is_name(hook->pattern, "_-.*")) {
        bl_source_fail(source, tools,
                       "invalid pattern in tools (expected a tool's name, optionally with *)");
        bl_error_hint(source->error,
                      "for example, bash, edit or mcp__*; use one hook for each tool");
        return BL_EPARSE;
    }
    if (bl_tool_name_check(hook->pattern, &detail) != 0) {
        bl_source_fail(source, tools, "unknown tool in tools");
        bl_error_hint(source->error, "%s", detail.hint);
        return BL_EPARSE;
    }
    if (hook->when == BL_HOOK_BEFORE_TOOL || hook->when == BL_HOOK_AFTER_TOOL)
        return 0;
    return bl_source_fail(source, tools - 1,
                          "tools is allowed only with before_tool and after_tool");
}

static int read_hook(struct bl_source *source, const struct bl_json *value, struct reading *reading)
{
    struct hook hook = {0};
    int code = bl_source_read(source, reading->arena, &hook_record, value, &hook);

    if (code == 0)
        code = check_pattern(source, value, &hook);
    if (code != 0)
        return code;
    if (++reading->hook_count > HOOKS_MAX)
        return bl_source_fail(source, value, "there are more than %u hooks", HOOKS_MAX);
    if (reading->settings->hooks == NULL)
        reading->settings->hooks = bl_hooks_new();
    bl_hooks_add(reading->settings->hooks, hook.when, hook.pattern, hook.command, hook.timeout_ns);
    return 0;
}

static int read_hooks(struct bl_source *source, const struct bl_json *value,
                      struct reading *reading)
{
    if (!bl_json_is(value, BL_JSON_ARRAY))
        return bl_source_fail(source, value, "hooks: expected a list, found %s",
                              bl_value_type(value));
    BL_JSON_EACH (element, value) {
        int code = read_hook(source, element, reading);
        if (code != 0)
            return code;
    }
    return 0;
}

/* ---- Variables ------------------------------------------------------------------------------- */

static int read_env_allow(struct bl_source *source, const struct bl_json *value,
                          struct reading *reading)
{
    if (!bl_json_is(value, BL_JSON_ARRAY))
        return bl_source_fail(source, value, "env_allow: expected a list of names, found %s",
                              bl_value_type(value));
    BL_JSON_EACH (element, value) {
        const char *name = bl_json_text(element).data;
        if (bl_json_size(element) == 0 || strlen(name) != bl_json_size(element) ||
            !settings_is_name(name, "_") || (name[0] >= '0' && name[0] <= '9')) {
            bl_source_fail(source, element, "invalid variable name");
            bl_error_hint(source->error, "for example, GITHUB_TOKEN, without a value");
            return BL_EPARSE;
        }
        if (reading->env_allow.count == RULES_MAX)
            return bl_source_fail(source, element, "there are more than %u variables", RULES_MAX);
        settings_add(reading->arena, &reading->env_allow, name);
    }
    return 0;
}

/* ---- The terminal ---------------------------------------------------------------------------- */

static const char *const themes[] = {
    [BL_THEME_AUTO] = "auto", [BL_THEME_DARK] = "dark", [BL_THEME_LIGHT] = "light"};
static const char *const notices[] = {
    [BL_NOTIFY_OFF] = "off", [BL_NOTIFY_BELL] = "bell", [BL_NOTIFY_OSC9] = "osc9"};
static const char *const edit_modes[] = {[BL_EDIT_EMACS] = "emacs", [BL_EDIT_VIM] = "vim"};
static const struct bl_names edit_mode_names = BL_NAMES(edit_modes);
const struct bl_names bl_theme_names = BL_NAMES(themes);
const struct bl_names bl_notify_names = BL_NAMES(notices);

#define NOTIFY_AFTER_NS_DEFAULT (10 * BL_NS_PER_S)

#define BL_RECORD_STRUCT struct bl_chat_settings
static const struct bl_member chat_members[] = {
    BL_MEMBER_ENUM("theme", theme, &bl_theme_names, .optional = true, .none = BL_THEME_AUTO),
    BL_MEMBER_ENUM("notify", notify, &bl_notify_names, .optional = true, .none = BL_NOTIFY_BELL),
    BL_MEMBER_DURATION("notify_after", notify_after_ns, .optional = true,
                       .none = NOTIFY_AFTER_NS_DEFAULT),
    BL_MEMBER_BOOLEAN("title", title, .optional = true, .none = true),
    BL_MEMBER_ENUM("edit_mode", edit_mode, &edit_mode_names, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record chat_record =
    BL_RECORD("chat", struct bl_chat_settings, chat_members, .closed = true);

static int read_chat(struct bl_source *source, const struct bl_json *value, struct reading *reading)
{
    return bl_source_read(source, reading->arena, &chat_record, value, &reading->settings->chat);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int read_sections(struct reading *reading, const struct bl_config *config,
                         struct bl_error *error)
{
    static const struct {
        const char *name;
        bool project;
        int (*read)(struct bl_source *source, const struct bl_json *value, struct reading *reading);
    } sections[] = {
        /* bl_config_read has refused everything else in a project's file. */
        {"permissions", false, read_permissions},
        {"permissions", true, read_permissions},
        {"hooks", false, read_hooks},
        {"env_allow", false, read_env_allow},
        {"chat", false, read_chat},
    };
    int code = 0;

    for (size_t i = 0; i < BL_COUNT(sections) && code == 0; i++) {
        struct bl_source source;
        const struct bl_json *key;
        if (!bl_config_section(config, sections[i].name, sections[i].project, &source, &key))
            continue;
        source.error = error;
        code = sections[i].read(&source, key + 1, reading);
    }
    return code;
}

int bl_settings_read(struct bl_arena *arena, const struct bl_config *config,
                     struct bl_settings *ret_settings, struct bl_error *error)
{
    struct bl_error unused = {0};
    struct bl_settings settings = {
        .chat = {.notify = BL_NOTIFY_BELL,
                 .notify_after_ns = NOTIFY_AFTER_NS_DEFAULT,
                 .title = true},
    };
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
