#include "permission.h"

#include <ctype.h>

#define RULE_MAX ((size_t)4096)
/* Maximum size of a tool's name in an error. */
#define NAME_SHOWN_MAX ((size_t)64)

static const char *const mode_names[] = {
    [BL_PERMISSION_ASK] = "ask",
    [BL_PERMISSION_AUTO] = "auto",
    [BL_PERMISSION_READ_ONLY] = "read-only",
    [BL_PERMISSION_YOLO] = "yolo",
    [BL_PERMISSION_PLAN] = "plan",
};
const struct bl_names bl_permission_mode_names = BL_NAMES(mode_names);

int bl_permission_mode_parse(const char *text, enum bl_permission_mode *ret_mode,
                             struct bl_error *error)
{
    for (size_t i = 0; i < BL_COUNT(mode_names); i++) {
        if (strcmp(text, mode_names[i]) == 0) {
            *ret_mode = (enum bl_permission_mode)i;
            return 0;
        }
    }
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "choose a permission mode", text,
                 "unknown permission mode '%s'", text);
    bl_error_hint(error, "expected ask, auto, read-only, plan or yolo");
    return BL_EINVAL;
}

const char *bl_permission_mode_name(enum bl_permission_mode mode)
{
    return (size_t)mode < BL_COUNT(mode_names) ? mode_names[mode] : "unknown";
}

bool bl_permission_mode_wider(enum bl_permission_mode mode, enum bl_permission_mode than)
{
    static const int widths[] = {
        [BL_PERMISSION_READ_ONLY] = 0, [BL_PERMISSION_ASK] = 1,  [BL_PERMISSION_AUTO] = 2,
        [BL_PERMISSION_YOLO] = 3,      [BL_PERMISSION_PLAN] = 0,
    };

    if (mode == BL_PERMISSION_PLAN)
        return than == BL_PERMISSION_READ_ONLY;
    return widths[mode] > widths[than];
}

struct bl_permissions *bl_permissions_new(enum bl_permission_mode mode)
{
    struct bl_permissions *permissions = bl_zalloc(sizeof *permissions);
    permissions->mode = mode;
    bl_arena_init(&permissions->arena);
    permissions->last = &permissions->first;
    return permissions;
}

void bl_permissions_free(struct bl_permissions *permissions)
{
    if (permissions == NULL)
        return;
    bl_arena_done(&permissions->arena);
    bl_free(permissions);
}

/* ---- Rules ----------------------------------------------------------------------------------- */

static int not_a_rule(const char *rule, size_t at, const char *what, struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read a rule", rule,
                 "'%s' is not a rule: %s (at character %zu)", rule, what, at + 1);
    bl_error_hint(error, "a rule is TOOL or TOOL(PATTERN), for example bash or 'bash(git *)'");
    return BL_EINVAL;
}

static bool is_tool_name(char byte)
{
    return isalnum((unsigned char)byte) || strchr("_-.*", byte) != NULL;
}

bool permission_balanced(struct bl_text text)
{
    size_t open = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == ')' && open-- == 0)
            return false;
        if (text.data[i] == '(')
            open++;
    }
    return open == 0;
}

/* Reports that no tool has the name. */
static int permission_unknown_tool(const struct rule *rule, const char *shown,
                                   struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read a rule", shown,
                 "unknown tool '" BL_TEXT_FORMAT "' in rule '%s'",
                 BL_TEXT_ARG(bl_utf8_cut(rule->tool, NAME_SHOWN_MAX)), shown);
    bl_error_name_set(error, BL_UNKNOWN_TOOL);
    tool_name_hint(error, rule->tool, PERMISSION_NETWORK);
    return BL_EINVAL;
}

/* Finds the pattern after the name of the tool. */
static int permission_parse_pattern(struct bl_text text, const char *shown, struct rule *rule,
                                    struct bl_error *error)
{
    size_t size = rule->tool.size;
    if (text.data[size] != '(')
        return not_a_rule(shown, size, "invalid character in the name of a tool", error);
    if (text.data[text.size - 1] != ')')
        return not_a_rule(shown, text.size, "missing ')' at the end", error);
    struct bl_text glob = {text.data + size + 1, text.size - size - 2};
    if (bl_text_trim(glob).size == 0)
        return not_a_rule(shown, size + 1, "empty pattern", error);
    if (!permission_balanced(glob))
        return not_a_rule(shown, size + 1, "unbalanced parentheses", error);
    rule->has_glob = true;
    rule->glob = bl_text_trim(glob);
    return 0;
}

/* Splits `text` into tool and pattern, into `*ret_rule`. */
static int parse_rule(struct bl_text text, const char *shown, struct rule *ret_rule,
                      struct bl_error *error)
{
    size_t size = 0;
    while (size < text.size && is_tool_name(text.data[size]))
        size++;
    if (size == 0)
        return not_a_rule(shown, 0, "expected the name of a tool", error);
    ret_rule->tool = (struct bl_text){text.data, size};
    int code = size < text.size ? permission_parse_pattern(text, shown, ret_rule, error) : 0;
    bool network = bl_text_equal(ret_rule->tool, BL_TEXT(PERMISSION_NETWORK));
    if (code != 0)
        return code;
    if (!network && !tool_name_is_known(ret_rule->tool, false))
        return permission_unknown_tool(ret_rule, shown, error);
    if (ret_rule->has_glob && (network || !tool_name_is_known(ret_rule->tool, true)))
        return not_a_rule(shown, size, "this tool takes no pattern", error);
    return 0;
}

int bl_permissions_add(struct bl_permissions *permissions, bool allow, const char *rule,
                       struct bl_error *error)
{
    struct rule parsed = {.allow = allow};
    if (strlen(rule) > RULE_MAX)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read a rule", rule,
                            "the rule is too long (at most %zu bytes)", RULE_MAX);
    struct bl_text text = bl_arena_text(&permissions->arena, bl_text_trim(bl_text_from(rule)));
    int code = parse_rule(text, text.data, &parsed, error);
    if (code != 0)
        return code;
    struct rule *kept = bl_arena_zalloc(&permissions->arena, sizeof *kept);
    kept->allow = allow;
    kept->has_glob = parsed.has_glob;
    kept->tool = parsed.tool;
    kept->glob = parsed.glob;
    kept->text = text.data;
    *permissions->last = kept;
    permissions->last = &kept->next;
    return 0;
}

bool bl_permissions_remove(struct bl_permissions *permissions, bool allow, const char *rule)
{
    struct bl_text text = bl_text_trim(bl_text_from(rule));
    bool found = false;
    permissions->last = &permissions->first;
    while (*permissions->last != NULL) {
        struct rule *kept = *permissions->last;
        bool same = kept->allow == allow && bl_text_equal(bl_text_from(kept->text), text);
        if (same)
            *permissions->last = kept->next;
        else
            permissions->last = &kept->next;
        found = found || same;
    }
    return found;
}

void bl_permissions_set_mode(struct bl_permissions *permissions, enum bl_permission_mode mode)
{
    permissions->mode = mode;
}

const char *bl_permissions_rule(const struct bl_permissions *permissions, size_t number,
                                bool *ret_allow)
{
    const struct rule *rule = permissions->first;
    while (rule != NULL && number-- > 0)
        rule = rule->next;
    if (rule == NULL)
        return NULL;
    *ret_allow = rule->allow;
    return rule->text;
}
