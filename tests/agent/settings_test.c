#include "folder.h"

#define USER    "config/belay/config.yaml"
#define PROJECT "work/.belay/config.yaml"

/* The files of the folder, and their settings; freed by settled_done. */
struct settled {
    struct bl_config *config;
    struct bl_settings settings;
    struct bl_error error;
    int code;
};

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return strcmp(name, "XDG_CONFIG_HOME") == 0 && value != NULL && value[0] != '\0' ? value : NULL;
}

static void settle(struct folder *folder, struct settled *settled)
{
    char directory[4096];
    snprintf(directory, sizeof directory, "%s/work/a", folder->root);
    struct bl_config_options options = {.directory = directory, .variable = variable};
    *settled = (struct settled){0};
    settled->code = bl_config_read(&options, &settled->config, &settled->error);
    if (settled->code == 0)
        settled->code =
            bl_settings_read(&folder->arena, settled->config, &settled->settings, &settled->error);
}

static void settled_done(struct settled *settled)
{
    bl_hooks_free(settled->settings.hooks);
    bl_config_free(settled->config);
}

static void expect_texts(const char *const *texts, const char *joined)
{
    struct bl_buffer out;
    bl_buffer_init(&out, 1u << 20);
    for (; *texts != NULL; texts++)
        bl_buffer_printf(&out, "%s;", *texts);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, joined);
    bl_buffer_done(&out);
}

#define NAME_OF_64  "abcdefghijklmnopqrstuvwxyz_ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
#define NAME_OF_128 NAME_OF_64 NAME_OF_64

static void permissions_hooks_and_variables_are_read(void **state)
{
    struct folder *folder = *state;
    struct settled settled;

    folder_write(folder, USER,
                 BL_TEXT("model: script/x\n"
                         "permissions:\n"
                         "  mode: read-only\n"
                         "  allow: ['bash(git *)', network, 'write(src/**)']\n"
                         "  deny: [mcp__db__*]\n"
                         "hooks:\n"
                         "  - {when: before_tool, tools: bash, command: ./check, timeout: 2s}\n"
                         "  - when: turn_end\n"
                         "    command: |\n"
                         "      say done\n"
                         "      say again\n"
                         "env_allow: [GITHUB_TOKEN, _x9, V, " NAME_OF_128 "]\n"));
    folder_write(folder, PROJECT, BL_TEXT("permissions: {deny: ['bash(rm *)', write]}\n"));
    settle(folder, &settled);
    assert_string_equal(settled.error.message, "");
    assert_int_equal(settled.code, 0);
    assert_string_equal(settled.settings.permission_mode, "read-only");
    expect_texts(settled.settings.allow, "bash(git *);network;write(src/**);");
    /* A project's denials are added. */
    expect_texts(settled.settings.deny, "mcp__db__*;bash(rm *);write;");
    expect_texts(settled.settings.env_allow, "GITHUB_TOKEN;_x9;V;" NAME_OF_128 ";");
    assert_non_null(settled.settings.hooks);
    assert_true(bl_hooks_any(settled.settings.hooks, BL_HOOK_BEFORE_TOOL));
    assert_true(bl_hooks_any(settled.settings.hooks, BL_HOOK_TURN_END));
    assert_false(bl_hooks_any(settled.settings.hooks, BL_HOOK_AFTER_TOOL));
    assert_false(bl_hooks_any(settled.settings.hooks, BL_HOOK_TURN_START));
    assert_false(bl_hooks_any(settled.settings.hooks, BL_HOOK_STOP));
    settled_done(&settled);
}

static void the_example_is_read(void **state)
{
    struct folder *folder = *state;
    struct settled settled;
    char path[4096];

    snprintf(path, sizeof path, "%s/examples/config.yaml", getenv("BELAY_SOURCE_ROOT"));
    struct bl_text example = suite_read_file(path);
    folder_write(folder, USER, example);
    bl_free((void *)(uintptr_t)example.data);
    settle(folder, &settled);
    assert_string_equal(settled.error.message, "");
    assert_int_equal(settled.code, 0);
    expect_texts(settled.settings.deny, "bash(git push *);");
    assert_true(bl_hooks_any(settled.settings.hooks, BL_HOOK_AFTER_TOOL));
    settled_done(&settled);
}

static void missing_settings_are_empty(void **state)
{
    static const char *const files[] = {NULL, "", "model: script/x\n",
                                        "permissions: {}\nhooks: []\nenv_allow: []\n"};
    struct folder *folder = *state;

    for (size_t i = 0; i < BL_COUNT(files); i++) {
        struct settled settled;
        if (files[i] != NULL)
            folder_write(folder, USER, bl_text_from(files[i]));
        settle(folder, &settled);
        assert_int_equal(settled.code, 0);
        assert_null(settled.settings.permission_mode);
        assert_null(settled.settings.hooks);
        expect_texts(settled.settings.allow, "");
        expect_texts(settled.settings.deny, "");
        expect_texts(settled.settings.env_allow, "");
        settled_done(&settled);
    }
}

static void every_mistake_names_its_place(void **state)
{
    static const struct {
        const char *text;
        const char *message; /* after the file's name */
        const char *hint;    /* a part of it */
    } cases[] = {
        {"permissions: auto\n", ":1:14: expected a mapping, found a string", ""},
        {"permissions: {modes: auto}\n", ":1:15: unknown member \"modes\" in permissions",
         "did you mean \"mode\"?"},
        {"permissions: {mode: readonly}\n",
         ":1:21: mode: expected one of ask, auto, read-only, yolo, plan",
         "did you mean \"read-only\"?"},
        {"permissions: {allow: bash}\n", ":1:22: allow: expected a list of strings, found a string",
         ""},
        {"permissions:\n  deny:\n    - bash\n    - 'bash(git'\n",
         ":4:7: invalid rule: missing ')' at the end (at character 9)", "TOOL or TOOL(PATTERN)"},
        {"permissions: {allow: ['is not a rule: x']}\n",
         ":1:23: invalid rule: invalid character in the name of a tool (at character 3)", ""},
        {"permissions:\n  deny:\n    - bash\n    - 'bsh(rm *)'\n",
         ":4:7: unknown tool in a rule of deny", "did you mean 'bash'?"},
        {"permissions: {allow: ['Read(**)']}\n", ":1:23: unknown tool in a rule of allow",
         "did you mean 'read'?"},
        {"hooks: [{when: before_tool, command: x, tools: Bash}]\n", ":1:48: unknown tool in tools",
         "did you mean 'bash'?"},
        {"permissions: {allow: [7]}\n",
         ":1:23: allow[0]: expected one line of text without control characters, found a whole "
         "number",
         "quotes"},
        {"permissions: {allow: ['']}\n",
         ":1:23: allow[0]: expected one line of text without control characters, found an empty "
         "string",
         ""},
        {"hooks: {}\n", ":1:8: hooks: expected a list, found a mapping", ""},
        {"hooks: [x]\n", ":1:9: expected a mapping, found a string", ""},
        {"hooks: [{command: x}]\n",
         ":1:9: when: missing; expected one of before_tool, after_tool, turn_start, turn_end, stop",
         "before_tool"},
        {"hooks: [{when: stop}]\n", ":1:9: command: missing; expected a non-empty command",
         "before_tool"},
        {"hooks: [{when: before, command: x}]\n",
         ":1:16: when: expected one of before_tool, after_tool, turn_start, turn_end, stop",
         "did you mean \"before_tool\"?"},
        {"hooks: [{when: stop, comand: x}]\n", ":1:22: unknown member \"comand\" in a hook",
         "did you mean \"command\"?"},
        {"hooks: [{when: stop, command: ' '}]\n", ":1:31: command: expected a non-empty command",
         ""},
        {"hooks: [{when: stop, command: \"a\\0b\"}]\n",
         ":1:31: command: expected a non-empty command", ""},
        {"hooks: [{when: stop, command: x, tools: bash}]\n",
         ":1:34: tools is allowed only with before_tool and after_tool", ""},
        {"hooks: [{when: after_tool, command: x, tools: 'bash, edit'}]\n",
         ":1:47: invalid pattern in tools (expected a tool's name, optionally with *)",
         "one hook for each tool"},
        {"hooks: [{when: stop, command: x, timeout: 0}]\n",
         ":1:43: timeout: expected a duration above zero such as 20ms, 90s or 1.5h (a number alone "
         "is seconds)",
         ""},
        {"env_allow: HOME\n", ":1:12: env_allow: expected a list of names, found a string", ""},
        {"env_allow: [A=b]\n", ":1:13: invalid variable name", "without a value"},
        {"env_allow: [" NAME_OF_128 "a]\n", ":1:13: invalid variable name", ""},
        {"env_allow: [9A]\n", ":1:13: invalid variable name", ""},
    };
    struct folder *folder = *state;

    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct settled settled;
        char expected[4400];
        folder_write(folder, USER, bl_text_from(cases[i].text));
        settle(folder, &settled);
        snprintf(expected, sizeof expected, "%s%s", folder_path(folder, USER), cases[i].message);
        assert_string_equal(settled.error.message, expected);
        assert_int_equal(settled.code, BL_EPARSE);
        if (strstr(settled.error.hint, cases[i].hint) == NULL)
            fail_msg("%s: hint '%s'", cases[i].text, settled.error.hint);
        assert_null(settled.settings.hooks);
        settled_done(&settled);
    }
}

static void a_hook_before_a_mistake_is_not_kept(void **state)
{
    struct folder *folder = *state;
    struct settled settled;

    folder_write(folder, USER, BL_TEXT("hooks: [{when: stop, command: x}, {when: stop}]\n"));
    settle(folder, &settled);
    assert_int_equal(settled.code, BL_EPARSE);
    assert_null(settled.settings.hooks);
    assert_int_equal(bl_settings_read(&folder->arena, settled.config, &settled.settings, NULL),
                     BL_EPARSE);
    settled_done(&settled);
}

static void a_projects_file_opens_nothing_and_runs_nothing(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"permissions: {mode: yolo}\n", ":1:15: a project's file must not define mode"},
        {"permissions: {deny: [], allow: [bash]}\n",
         ":1:25: a project's file must not define allow"},
        {"hooks: [{when: turn_start, command: evil}]\n",
         ":1:1: a project's file must not define hooks"},
        {"env_allow: [SECRET]\n", ":1:1: a project's file must not define env_allow"},
    };
    struct folder *folder = *state;
    char expected[4400];
    struct settled settled;

    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        folder_write(folder, PROJECT, bl_text_from(cases[i].text));
        settle(folder, &settled);
        assert_int_equal(settled.code, BL_EACCES);
        assert_int_equal(settled.error.kind, BL_KIND_POLICY);
        snprintf(expected, sizeof expected, "%s%s", folder_path(folder, PROJECT), cases[i].message);
        assert_string_equal(settled.error.message, expected);
        assert_non_null(strstr(settled.error.hint, "a project may only deny permissions"));
        assert_non_null(strstr(settled.error.hint, folder_path(folder, USER)));
        settled_done(&settled);
    }
    folder_write(folder, PROJECT, BL_TEXT("permissions: {deny: ['(x)']}\n"));
    settle(folder, &settled);
    assert_int_equal(settled.code, BL_EPARSE);
    snprintf(expected, sizeof expected,
             "%s:1:22: invalid rule: expected the name of a tool (at character 1)",
             folder_path(folder, PROJECT));
    assert_string_equal(settled.error.message, expected);
    settled_done(&settled);
}

static void rules_and_hooks_are_limited(void **state)
{
    struct folder *folder = *state;
    struct settled settled;
    struct bl_buffer text;

    bl_buffer_init(&text, 1u << 20);
    bl_buffer_append(&text, BL_TEXT("permissions:\n  allow:\n"));
    for (unsigned i = 0; i < 1000; i++)
        bl_buffer_append(&text, BL_TEXT("  - bash\n"));
    folder_write(folder, USER, bl_buffer_text(&text));
    settle(folder, &settled);
    assert_int_equal(settled.code, 0);
    settled_done(&settled);
    bl_buffer_append(&text, BL_TEXT("  - bash\n"));
    folder_write(folder, USER, bl_buffer_text(&text));
    settle(folder, &settled);
    assert_non_null(strstr(settled.error.message, ":1003:5: there are more than 1000 rules"));
    settled_done(&settled);
    bl_buffer_clear(&text);
    bl_buffer_append(&text, BL_TEXT("hooks:\n"));
    for (unsigned i = 0; i < 101; i++)
        bl_buffer_append(&text, BL_TEXT("- {when: stop, command: x}\n"));
    folder_write(folder, USER, bl_buffer_text(&text));
    settle(folder, &settled);
    assert_non_null(strstr(settled.error.message, ":102:3: there are more than 100 hooks"));
    settled_done(&settled);
    bl_buffer_done(&text);
}

SUITE(settings, IN_FOLDER(permissions_hooks_and_variables_are_read), IN_FOLDER(the_example_is_read),
      IN_FOLDER(missing_settings_are_empty), IN_FOLDER(every_mistake_names_its_place),
      IN_FOLDER(a_hook_before_a_mistake_is_not_kept),
      IN_FOLDER(a_projects_file_opens_nothing_and_runs_nothing),
      IN_FOLDER(rules_and_hooks_are_limited));
