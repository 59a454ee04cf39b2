#include "parts.h"

#include <ctype.h>
#include <stdio.h>

#define RULE_MAX ((size_t)4096)

struct rule {
    struct bl_list link;
    bool allow;
    bool has_glob;
    struct bl_text tool; /* may hold stars */
    struct bl_text glob;
    const char *text;
};

struct bl_permissions {
    enum bl_permission_mode mode;
    struct bl_arena arena;
    struct bl_list rules;
};

static const char *const mode_names[] = {
    [BL_PERMISSION_ASK] = "ask",
    [BL_PERMISSION_AUTO] = "auto",
    [BL_PERMISSION_READ_ONLY] = "read-only",
    [BL_PERMISSION_YOLO] = "yolo",
};

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
    bl_error_hint(error, "it is ask, auto, read-only or yolo");
    return BL_EINVAL;
}

const char *bl_permission_mode_name(enum bl_permission_mode mode)
{
    return (size_t)mode < BL_COUNT(mode_names) ? mode_names[mode] : "unknown";
}

struct bl_permissions *bl_permissions_new(enum bl_permission_mode mode)
{
    struct bl_permissions *permissions = bl_zalloc(sizeof *permissions);
    permissions->mode = mode;
    bl_arena_init(&permissions->arena);
    bl_list_init(&permissions->rules);
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
    bl_error_hint(error, "a rule is TOOL or TOOL(PATTERN), as bash or 'bash(git *)'");
    return BL_EINVAL;
}

static bool is_tool_name(char byte)
{
    return isalnum((unsigned char)byte) || strchr("_-.*", byte) != NULL;
}

/* Finds tool and pattern in `text`, into `*ret_rule`. */
static int parse_rule(struct bl_text text, const char *shown, struct rule *ret_rule,
                      struct bl_error *error)
{
    size_t size = 0;
    while (size < text.size && is_tool_name(text.data[size]))
        size++;
    if (size == 0)
        return not_a_rule(shown, 0, "it begins with the name of a tool", error);
    ret_rule->tool = (struct bl_text){text.data, size};
    if (size == text.size)
        return 0;
    if (text.data[size] != '(')
        return not_a_rule(shown, size, "this cannot stand in the name of a tool", error);
    if (text.data[text.size - 1] != ')')
        return not_a_rule(shown, text.size, "there is no ')' at the end", error);
    struct bl_text glob = {text.data + size + 1, text.size - size - 2};
    if (bl_text_trim(glob).size == 0)
        return not_a_rule(shown, size + 1, "the pattern is empty", error);
    if (bl_text_equal(ret_rule->tool, BL_TEXT("network")))
        return not_a_rule(shown, size, "network takes no pattern", error);
    ret_rule->has_glob = true;
    ret_rule->glob = bl_text_trim(glob);
    return 0;
}

int bl_permissions_add(struct bl_permissions *permissions, bool allow, const char *rule,
                       struct bl_error *error)
{
    struct rule parsed = {.allow = allow};
    if (strlen(rule) > RULE_MAX)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read a rule", rule,
                            "a rule has at most %zu bytes", RULE_MAX);
    struct bl_text text = bl_arena_text(&permissions->arena, bl_text_trim(bl_text_from(rule)));
    int code = parse_rule(text, text.data, &parsed, error);
    if (code != 0)
        return code;
    struct rule *kept = bl_arena_alloc(&permissions->arena, sizeof *kept);
    *kept = parsed;
    kept->text = text.data;
    bl_list_push_back(&permissions->rules, &kept->link);
    return 0;
}

/* ---- Decisions ------------------------------------------------------------------------------- */

enum bl_permission_mode permission_mode(const struct bl_permissions *permissions)
{
    return permissions->mode;
}

/* Opened by its own name alone; denied by a star, too. */
bool permission_network(const struct bl_permissions *permissions)
{
    bool open = false;
    BL_LIST_EACH (link, &permissions->rules) {
        const struct rule *rule = BL_CONTAINER(link, struct rule, link);
        if (!rule->allow && !rule->has_glob && glob_match(rule->tool, BL_TEXT("network")))
            return false;
        open = open || (rule->allow && bl_text_equal(rule->tool, BL_TEXT("network")));
    }
    return open;
}

/* A question, with the command taken apart. */
struct decision {
    const struct bl_permissions *permissions;
    const struct permission_question *question;
    struct bl_arena arena;
    struct command_parts parts;
    struct bl_text unmatched; /* the first part that no rule allows */
    bool patterns;            /* some rule allows the tool by a pattern */
};

static bool is_about(const struct rule *rule, const struct decision *decision)
{
    return glob_match(rule->tool, bl_text_from(decision->question->tool));
}

/* The rule that denies it; NULL: none. */
static const struct rule *find_denial(struct decision *decision)
{
    const struct permission_question *question = decision->question;
    BL_LIST_EACH (link, &decision->permissions->rules) {
        const struct rule *rule = BL_CONTAINER(link, struct rule, link);
        if (rule->allow || !is_about(rule, decision))
            continue;
        if (!rule->has_glob)
            return rule;
        bool fits = question->command ? command_mentions(&decision->arena, question->subject,
                                                         &decision->parts, rule->glob)
                                      : glob_match(rule->glob, question->subject);
        if (fits)
            return rule;
    }
    return NULL;
}

static bool allows(const struct rule *rule, const struct decision *decision, struct bl_text subject)
{
    return rule->allow && is_about(rule, decision) &&
           (!rule->has_glob || glob_match(rule->glob, subject));
}

/* One rule without a pattern, or one rule for each part. */
static bool find_allowance(struct decision *decision)
{
    const struct permission_question *question = decision->question;
    struct bl_text whole = question->subject;
    const struct bl_text *parts = question->command ? decision->parts.parts : &whole;
    size_t count = question->command ? decision->parts.count : 1;
    BL_LIST_EACH (link, &decision->permissions->rules) {
        const struct rule *rule = BL_CONTAINER(link, struct rule, link);
        if (!rule->allow || !is_about(rule, decision))
            continue;
        if (!rule->has_glob)
            return true;
        decision->patterns = true;
    }
    if (decision->parts.complex != NULL || count == 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        bool found = false;
        BL_LIST_EACH (link, &decision->permissions->rules)
            found = found || allows(BL_CONTAINER(link, struct rule, link), decision, parts[i]);
        if (!found) {
            decision->unmatched = parts[i];
            return false;
        }
    }
    return true;
}

/* Why no rule allows it, in a few words for the beginning of a reason. */
static void explain_rules(const struct decision *decision, char *out, size_t out_size)
{
    if (!decision->patterns)
        out[0] = '\0';
    else if (decision->parts.complex != NULL)
        snprintf(out, out_size, "it holds %s, which a pattern cannot allow; ",
                 decision->parts.complex);
    else
        snprintf(out, out_size, "no rule allows '" BL_TEXT_FORMAT "'; ",
                 BL_TEXT_ARG(bl_utf8_cut(decision->unmatched, 80)));
}

static bool decide(struct decision *decision, char *reason, size_t size)
{
    const struct permission_question *question = decision->question;
    const char *tool = question->tool;
    char rules[200];
    const struct rule *denial = find_denial(decision);
    if (denial != NULL) {
        snprintf(reason, size, "denied by the rule '%s'", denial->text);
        return false;
    }
    enum bl_permission_mode mode = decision->permissions->mode;
    if (mode == BL_PERMISSION_READ_ONLY && !question->reads) {
        snprintf(reason, size, "permission mode read-only does not run %s", tool);
        return false;
    }
    if (question->reads || mode == BL_PERMISSION_YOLO || find_allowance(decision) ||
        (mode == BL_PERMISSION_AUTO && question->sandboxed))
        return true;
    explain_rules(decision, rules, sizeof rules);
    const char *why =
        mode == BL_PERMISSION_AUTO ? "not in a sandbox here" : "nobody can be asked here";
    snprintf(reason, size, "%s%s: allow it with --allow '%s%s' or --yolo", rules, why, tool,
             question->command && decision->parts.complex == NULL ? "(make *)" : "");
    return false;
}

bool permission_decide(const struct bl_permissions *permissions,
                       const struct permission_question *question, char *ret_reason,
                       size_t reason_size)
{
    struct decision decision = {.permissions = permissions, .question = question};
    bl_arena_init(&decision.arena);
    if (question->command)
        command_split(&decision.arena, question->subject, &decision.parts);
    bool may = decide(&decision, ret_reason, reason_size);
    /* A long rule may have been cut inside of a character. */
    if (!may)
        ret_reason[bl_utf8_valid_prefix(bl_text_from(ret_reason), NULL)] = '\0';
    bl_arena_done(&decision.arena);
    return may;
}
