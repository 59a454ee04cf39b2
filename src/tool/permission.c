#include "parts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define RULE_MAX ((size_t)4096)
/* Of the name of a tool in an error. */
#define NAME_SHOWN_MAX ((size_t)64)
/* The word that opens the network of the sandbox. */
#define NETWORK "network"

struct rule {
    struct rule *next;
    bool allow;
    bool has_glob;
    struct bl_text tool; /* may hold stars */
    struct bl_text glob;
    const char *text;
};

struct bl_permissions {
    enum bl_permission_mode mode;
    struct bl_arena arena;
    struct rule *first;
    struct rule **last; /* where the next one goes */
};

static const struct rule *first_rule(const struct bl_permissions *permissions)
{
    return permissions->first;
}

static const struct rule *next_rule(const struct rule *rule)
{
    return rule->next;
}

static const char *const mode_names[] = {
    [BL_PERMISSION_ASK] = "ask",
    [BL_PERMISSION_AUTO] = "auto",
    [BL_PERMISSION_READ_ONLY] = "read-only",
    [BL_PERMISSION_YOLO] = "yolo",
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
    bl_error_hint(error, "it is ask, auto, read-only or yolo");
    return BL_EINVAL;
}

const char *bl_permission_mode_name(enum bl_permission_mode mode)
{
    return (size_t)mode < BL_COUNT(mode_names) ? mode_names[mode] : "unknown";
}

bool bl_permission_mode_wider(enum bl_permission_mode mode, enum bl_permission_mode than)
{
    static const int widths[] = {
        [BL_PERMISSION_READ_ONLY] = 0,
        [BL_PERMISSION_ASK] = 1,
        [BL_PERMISSION_AUTO] = 2,
        [BL_PERMISSION_YOLO] = 3,
    };

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
    bl_error_hint(error, "a rule is TOOL or TOOL(PATTERN), as bash or 'bash(git *)'");
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

/* No tool has the name. */
static int permission_unknown_tool(const struct rule *rule, const char *shown,
                                   struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read a rule", shown,
                 "unknown tool '" BL_TEXT_FORMAT "' in rule '%s'",
                 BL_TEXT_ARG(bl_utf8_cut(rule->tool, NAME_SHOWN_MAX)), shown);
    bl_error_name_set(error, BL_UNKNOWN_TOOL);
    tool_name_hint(error, rule->tool, NETWORK);
    return BL_EINVAL;
}

/* Finds the pattern after the tool of that many bytes. */
static int permission_parse_pattern(struct bl_text text, const char *shown, struct rule *rule,
                                    struct bl_error *error)
{
    size_t size = rule->tool.size;
    if (text.data[size] != '(')
        return not_a_rule(shown, size, "this cannot stand in the name of a tool", error);
    if (text.data[text.size - 1] != ')')
        return not_a_rule(shown, text.size, "there is no ')' at the end", error);
    struct bl_text glob = {text.data + size + 1, text.size - size - 2};
    if (bl_text_trim(glob).size == 0)
        return not_a_rule(shown, size + 1, "the pattern is empty", error);
    if (!permission_balanced(glob))
        return not_a_rule(shown, size + 1, "the parentheses do not match", error);
    rule->has_glob = true;
    rule->glob = bl_text_trim(glob);
    return 0;
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
    int code = size < text.size ? permission_parse_pattern(text, shown, ret_rule, error) : 0;
    bool network = bl_text_equal(ret_rule->tool, BL_TEXT(NETWORK));
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
                            "a rule has at most %zu bytes", RULE_MAX);
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

/* ---- What a rule is about -------------------------------------------------------------------- */

static bool is_about(const struct rule *rule, const char *tool)
{
    return tool != NULL && glob_match(rule->tool, bl_text_from(tool));
}

static bool is_below_home(struct bl_text path, struct bl_text home)
{
    return home.size > 1 && bl_text_starts_with(path, home) && path.size > home.size &&
           path.data[home.size] == '/';
}

/* Below the home of the user, when it is written so. The path has no links, but the home may be
 * one. */
static bool home_fits(struct bl_text glob, struct bl_text path)
{
    struct bl_text home = bl_text_from(getenv("HOME"));
    if (!bl_text_starts_with(glob, BL_TEXT("~/")) || home.size < 2)
        return false;
    char *real = is_below_home(path, home) ? NULL : realpath(home.data, NULL);
    if (real != NULL)
        home = bl_text_from(real);
    bool fits =
        is_below_home(path, home) &&
        glob_match_path((struct bl_text){glob.data + 2, glob.size - 2},
                        (struct bl_text){path.data + home.size + 1, path.size - home.size - 1});
    free(real);
    return fits;
}

static bool path_fits(struct bl_text glob, struct bl_text path, struct bl_text absolute)
{
    return glob_match_path(glob, path) ||
           (absolute.size > 0 && (glob_match_path(glob, absolute) || home_fits(glob, absolute)));
}

struct permission_denials permission_denials(const struct bl_permissions *permissions,
                                             const char *tool, struct bl_arena *arena)
{
    struct permission_denials denials = {0};
    size_t count = 0;
    for (const struct rule *rule = first_rule(permissions); rule != NULL; rule = next_rule(rule))
        count++;
    denials.globs = bl_arena_alloc(arena, (count + 1) * sizeof *denials.globs);
    const struct rule *rule = first_rule(permissions);
    for (; rule != NULL && denials.count < count; rule = next_rule(rule))
        if (!rule->allow && rule->has_glob && is_about(rule, tool))
            denials.globs[denials.count++] = bl_arena_text(arena, rule->glob);
    return denials;
}

bool permission_denials_have(const struct permission_denials *denials, struct bl_text path,
                             struct bl_text absolute)
{
    for (size_t i = 0; i < denials->count; i++)
        if (path_fits(denials->globs[i], path, absolute))
            return true;
    return false;
}

enum bl_permission_mode bl_permissions_mode(const struct bl_permissions *permissions)
{
    return permissions->mode;
}

/* Opened by its own name alone; denied by a star, too. */
bool permission_network(const struct bl_permissions *permissions)
{
    bool open = false;
    for (const struct rule *rule = first_rule(permissions); rule != NULL; rule = next_rule(rule)) {
        if (!rule->allow && !rule->has_glob && glob_match(rule->tool, BL_TEXT(NETWORK)))
            return false;
        open = open || (rule->allow && bl_text_equal(rule->tool, BL_TEXT(NETWORK)));
    }
    return open;
}

/* By a pattern that begins at the root or at the home: one for any folder names no secret. */
static bool names_for_reading(const struct rule *rule)
{
    return rule->has_glob && (rule->glob.data[0] == '/' || rule->glob.data[0] == '~') &&
           is_about(rule, tool_read.name);
}

static bool tool_permission_is_shown(const struct bl_permissions *permissions,
                                     struct bl_text secret, struct bl_text inside)
{
    bool allowed = false;
    for (const struct rule *rule = first_rule(permissions); rule != NULL; rule = next_rule(rule)) {
        if (!names_for_reading(rule) ||
            (!path_fits(rule->glob, secret, secret) && !path_fits(rule->glob, inside, inside)))
            continue;
        if (!rule->allow)
            return false;
        allowed = true;
    }
    return allowed;
}

const char *const *bl_permissions_shown(const struct bl_permissions *permissions,
                                        struct bl_arena *arena)
{
    static const char *const none[] = {NULL};
    const struct rule *rule = first_rule(permissions);
    size_t count = 0, kept = 0;
    while (rule != NULL && !(rule->allow && names_for_reading(rule)))
        rule = next_rule(rule);
    if (rule == NULL)
        return none;
    const char *const *secrets = bl_sandbox_secrets(arena);
    while (secrets[count] != NULL)
        count++;
    const char **shown = bl_arena_zalloc(arena, (count + 1) * sizeof *shown);
    for (size_t i = 0; i < count; i++)
        if (tool_permission_is_shown(permissions, bl_text_from(secrets[i]),
                                     bl_arena_printf(arena, "%s/x", secrets[i])))
            shown[kept++] = secrets[i];
    return shown;
}

/* ---- Decisions ------------------------------------------------------------------------------- */

/* A question, with the command taken apart. */
struct decision {
    const struct bl_permissions *permissions;
    const struct permission_question *question;
    struct bl_arena arena;
    struct command_parts parts;
    struct bl_text unmatched; /* the first part that no rule allows */
    enum command_guard guard; /* why a rule that fits it does not */
    bool patterns;            /* some rule allows the tool by a pattern */
};

static bool denies(const struct rule *rule, struct decision *decision)
{
    const struct permission_question *question = decision->question;
    if (rule->allow || (!is_about(rule, question->tool) && !is_about(rule, question->also)))
        return false;
    if (!rule->has_glob)
        return true;
    switch (question->kind) {
    case SUBJECT_COMMAND:
        return command_mentions(&decision->arena, question->subject, &decision->parts, rule->glob);
    case SUBJECT_PATH: return path_fits(rule->glob, question->subject, question->other);
    case SUBJECT_NONE: break;
    }
    return glob_match(rule->glob, question->subject);
}

/* The rule that denies it; NULL: none. */
static const struct rule *find_denial(struct decision *decision)
{
    for (const struct rule *rule = first_rule(decision->permissions); rule != NULL;
         rule = next_rule(rule))
        if (denies(rule, decision))
            return rule;
    return NULL;
}

/* The part of a command, or the whole of another subject, for an allowing rule. */
struct permission_part {
    struct bl_text text;
    enum command_guard guard;
};

/* Sets the decision's guard when that alone keeps a rule from allowing it. */
static bool permission_allows(const struct rule *rule, struct decision *decision,
                              const struct permission_part *part)
{
    const struct permission_question *question = decision->question;
    if (!rule->allow || !is_about(rule, question->tool))
        return false;
    if (!rule->has_glob)
        return question->guarded == NULL;
    if (question->kind == SUBJECT_PATH)
        return path_fits(rule->glob, part->text, question->other);
    if (!glob_match(rule->glob, part->text))
        return false;
    if (command_guard_lets(part->guard, part->text, rule->glob))
        return true;
    decision->guard = part->guard;
    return false;
}

static bool permission_allows_part(struct decision *decision, const struct permission_part *part)
{
    decision->guard = COMMAND_GUARD_NONE;
    for (const struct rule *rule = first_rule(decision->permissions); rule != NULL;
         rule = next_rule(rule))
        if (permission_allows(rule, decision, part))
            return true;
    decision->unmatched = part->text;
    return false;
}

/* One rule without a pattern, or one rule for each part. */
static bool find_allowance(struct decision *decision)
{
    const struct permission_question *question = decision->question;
    bool command = question->kind == SUBJECT_COMMAND;
    const struct bl_text *parts = command ? decision->parts.parts : &question->subject;
    size_t count = command ? decision->parts.count : 1;
    for (const struct rule *rule = first_rule(decision->permissions); rule != NULL;
         rule = next_rule(rule)) {
        if (!rule->allow || !is_about(rule, question->tool))
            continue;
        if (!rule->has_glob && question->guarded == NULL)
            return true;
        decision->patterns = decision->patterns || rule->has_glob;
    }
    if (decision->parts.complex != NULL || count == 0 || !decision->patterns)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct permission_part part = {.text = parts[i]};
        if (command)
            part.guard = command_guard(&decision->arena, parts[i], count == 1);
        if (!permission_allows_part(decision, &part))
            return false;
    }
    return true;
}

/* ---- Words for people ------------------------------------------------------------------------ */

/* What a terminal would obey, or show in another order than it stands there. */
static bool is_deceptive(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
           (code_point >= 0x200b && code_point <= 0x200f) ||
           (code_point >= 0x2028 && code_point <= 0x202e) ||
           (code_point >= 0x2060 && code_point <= 0x206f) || code_point == 0xfeff;
}

/* Appends `text`, cut, on one line, so that what is shown is what was meant. */
static void tool_permission_show(struct bl_buffer *out, struct bl_text text, size_t size_max)
{
    struct bl_text rest = bl_utf8_cut(text, size_max);
    bool cut = rest.size < text.size;
    while (rest.size > 0) {
        uint32_t code_point = BL_UTF8_REPLACEMENT;
        size_t size = bl_utf8_decode(rest, &code_point);
        if (size == 0)
            size = 1;
        if (code_point == '\n')
            bl_buffer_append(out, BL_TEXT("\\n"));
        else if (code_point == '\t')
            bl_buffer_append_byte(out, ' ');
        else if (is_deceptive(code_point) || code_point == BL_UTF8_REPLACEMENT)
            bl_buffer_append(out, BL_TEXT("\xEF\xBF\xBD"));
        else
            bl_buffer_append(out, (struct bl_text){rest.data, size});
        rest.data += size;
        rest.size -= size;
    }
    if (cut)
        bl_buffer_append(out, BL_TEXT("…"));
}

/* Why no rule allows it, in a few words. */
static void explain_rules(const struct decision *decision, struct bl_buffer *out,
                          const char *before, const char *after)
{
    if (!decision->patterns)
        return;
    bl_buffer_append(out, bl_text_from(before));
    if (decision->parts.complex != NULL) {
        bl_buffer_printf(out, "it holds %s, which a pattern cannot allow", decision->parts.complex);
    } else if (decision->guard != COMMAND_GUARD_NONE) {
        bl_buffer_printf(out, "it uses %s, which a star cannot stand for: '",
                         command_guard_text(decision->guard));
        tool_permission_show(out, decision->unmatched, 80);
        bl_buffer_append_byte(out, '\'');
    } else {
        bl_buffer_append(out, BL_TEXT("no rule allows '"));
        tool_permission_show(out, decision->unmatched, 80);
        bl_buffer_append_byte(out, '\'');
    }
    bl_buffer_append(out, bl_text_from(after));
}

static void explain_refusal(const struct decision *decision, struct bl_buffer *out)
{
    const struct permission_question *question = decision->question;
    bool simple = question->kind == SUBJECT_COMMAND && decision->parts.complex == NULL;
    if (question->guarded != NULL) {
        bl_buffer_printf(out, "%s: allow it with --allow '%s(", question->guarded, question->tool);
        tool_permission_show(out, question->subject, 240);
        bl_buffer_append(out, BL_TEXT(")' or --yolo"));
        return;
    }
    explain_rules(decision, out, "", "; ");
    bl_buffer_printf(out, "%s: allow it with --allow '%s%s' or --yolo",
                     question->kind == SUBJECT_PATH ? "not in the workspace"
                                                    : "not in a sandbox here",
                     question->tool, simple ? "(make *)" : "");
}

static void tool_permission_write_question(const struct decision *decision, struct bl_buffer *out)
{
    const struct permission_question *question = decision->question;
    static const char *const verbs[] = {
        [SUBJECT_NONE] = "be used", [SUBJECT_COMMAND] = "run", [SUBJECT_PATH] = "change"};
    bl_buffer_printf(out, "%s wants to %s", question->tool, verbs[question->kind]);
    if (question->kind != SUBJECT_NONE) {
        bl_buffer_append(out, BL_TEXT(": "));
        tool_permission_show(out, question->subject, 240);
    }
    if (question->guarded != NULL)
        bl_buffer_printf(out, " (%s)", question->guarded);
    explain_rules(decision, out, " (", ")");
}

static enum bl_permit tool_permission_decide(struct decision *decision, struct bl_buffer *out)
{
    const struct permission_question *question = decision->question;
    enum bl_permission_mode mode = decision->permissions->mode;
    const struct rule *denial = find_denial(decision);
    if (denial != NULL) {
        bl_buffer_printf(out, "denied by the rule '%s'", denial->text);
        return BL_PERMIT_DENIED;
    }
    if (mode == BL_PERMISSION_READ_ONLY && !question->reads) {
        bl_buffer_printf(out, "permission mode read-only does not run %s", question->tool);
        return BL_PERMIT_DENIED;
    }
    if (question->reads || mode == BL_PERMISSION_YOLO || find_allowance(decision) ||
        (mode == BL_PERMISSION_AUTO && question->contained))
        return BL_PERMIT_ALLOWED;
    if (mode == BL_PERMISSION_ASK) {
        tool_permission_write_question(decision, out);
        return BL_PERMIT_ASK;
    }
    explain_refusal(decision, out);
    return BL_PERMIT_DENIED;
}

enum bl_permit permission_decide(const struct bl_permissions *permissions,
                                 const struct permission_question *question, char *ret_reason,
                                 size_t reason_size)
{
    struct decision decision = {.permissions = permissions, .question = question};
    struct bl_buffer reason;
    bl_arena_init(&decision.arena);
    bl_buffer_init(&reason, SIZE_MAX);
    if (question->kind == SUBJECT_COMMAND)
        command_split(&decision.arena, question->subject, &decision.parts);
    enum bl_permit permit = tool_permission_decide(&decision, &reason);
    bl_buffer_append_byte(&reason, '\0');
    /* A long rule is cut, and not inside of a character. */
    bl_text_into(ret_reason, reason_size, permit == BL_PERMIT_ALLOWED ? "" : reason.data);
    bl_buffer_done(&reason);
    bl_arena_done(&decision.arena);
    return permit;
}

enum bl_permit bl_permissions_decide(const struct bl_permissions *permissions, const char *tool,
                                     struct bl_text subject, char *ret_reason, size_t reason_size)
{
    struct permission_question question = {
        .tool = tool, .kind = SUBJECT_PATH, .subject = subject, .reads = true};
    return permission_decide(permissions, &question, ret_reason, reason_size);
}

void bl_permissions_set_mode(struct bl_permissions *permissions, enum bl_permission_mode mode)
{
    permissions->mode = mode;
}

const char *bl_permissions_rule(const struct bl_permissions *permissions, size_t number,
                                bool *ret_allow)
{
    const struct rule *rule = first_rule(permissions);
    while (rule != NULL && number-- > 0)
        rule = next_rule(rule);
    if (rule == NULL)
        return NULL;
    *ret_allow = rule->allow;
    return rule->text;
}
