#include "permission.h"

#include <stdio.h>
#include <stdlib.h>

/* Maximum size of a path in a suggested rule. */
#define RULE_PATH_MAX ((size_t)1000)

static const struct rule *first_rule(const struct bl_permissions *permissions)
{
    return permissions->first;
}

static const struct rule *next_rule(const struct rule *rule)
{
    return rule->next;
}

/* ---- Subjects of rules ----------------------------------------------------------------------- */

static bool is_about(const struct rule *rule, const char *tool)
{
    return tool != NULL && glob_match(rule->tool, bl_text_from(tool));
}

static bool is_below_home(struct bl_text path, struct bl_text home)
{
    return home.size > 1 && bl_text_starts_with(path, home) && path.size > home.size &&
           path.data[home.size] == '/';
}

/* Matches below the user's home, if the pattern begins with "~/". The path has no links, but the
 * home may be one. */
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

/* The network is opened only by its own name, but denied by a star, too. */
bool permission_network(const struct bl_permissions *permissions)
{
    bool open = false;
    for (const struct rule *rule = first_rule(permissions); rule != NULL; rule = next_rule(rule)) {
        if (!rule->allow && !rule->has_glob && glob_match(rule->tool, BL_TEXT(PERMISSION_NETWORK)))
            return false;
        open = open || (rule->allow && bl_text_equal(rule->tool, BL_TEXT(PERMISSION_NETWORK)));
    }
    return open;
}

/* Matches rules whose pattern begins at the root or at the home: a pattern for any folder does not
 * name a secret. */
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

/* A question, with the command split into its parts. */
struct decision {
    const struct bl_permissions *permissions;
    const struct permission_question *question;
    struct bl_arena arena;
    struct command_parts parts;
    struct bl_text unmatched; /* the first part that no rule allows */
    enum command_guard guard; /* why a rule that matches it does not allow it */
    bool patterns;            /* a rule allows the tool by a pattern */
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
    case SUBJECT_HOST: return glob_match_host(rule->glob, question->subject, question->other);
    case SUBJECT_NONE: break;
    }
    return glob_match(rule->glob, question->subject);
}

/* Returns the rule that denies it, or NULL. */
static const struct rule *find_denial(struct decision *decision)
{
    for (const struct rule *rule = first_rule(decision->permissions); rule != NULL;
         rule = next_rule(rule))
        if (denies(rule, decision))
            return rule;
    return NULL;
}

/* A part of a command, or the whole of another subject, as compared with an allowing rule. */
struct permission_part {
    struct bl_text text;
    enum command_guard guard;
};

/* Sets the decision's guard if only the guard keeps a rule from allowing the part. */
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
    if (question->kind == SUBJECT_HOST)
        return glob_match_host(rule->glob, part->text, question->other) &&
               (question->guarded == NULL || memchr(rule->glob.data, '*', rule->glob.size) == NULL);
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

/* Returns whether one rule without a pattern allows it, or a rule for each part. */
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

bool permission_names_host(const struct bl_permissions *permissions,
                           const struct permission_question *question)
{
    struct permission_question named = *question;
    struct decision decision = {.permissions = permissions, .question = &named};
    named.guarded = "";
    return find_allowance(&decision);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Returns whether a terminal would obey the character, or display text in a different order because
 * of it. */
static bool is_deceptive(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
           (code_point >= 0x200b && code_point <= 0x200f) ||
           (code_point >= 0x2028 && code_point <= 0x202e) ||
           (code_point >= 0x2060 && code_point <= 0x206f) || code_point == 0xfeff;
}

/* Appends `text`, shortened, on one line, so that the display cannot deceive. */
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

/* Briefly explains why no rule allows it. */
static void explain_rules(const struct decision *decision, struct bl_buffer *out,
                          const char *before, const char *after)
{
    if (!decision->patterns)
        return;
    bl_buffer_append(out, bl_text_from(before));
    if (decision->parts.complex != NULL) {
        bl_buffer_printf(out, "it contains %s, which a pattern cannot allow",
                         decision->parts.complex);
    } else if (decision->guard != COMMAND_GUARD_NONE) {
        bl_buffer_printf(out, "it uses %s, which '*' cannot match: '",
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
    if (question->guarded != NULL) {
        bl_buffer_append(out, bl_text_from(question->guarded));
        return;
    }
    explain_rules(decision, out, "", "; ");
    bl_buffer_append(out, question->kind == SUBJECT_PATH ? BL_TEXT("outside the workspace")
                          : question->kind == SUBJECT_HOST
                              ? BL_TEXT("it reads from the network")
                              : BL_TEXT("it would run outside a sandbox"));
}

static void tool_permission_write_question(const struct decision *decision, struct bl_buffer *out)
{
    const struct permission_question *question = decision->question;
    static const char *const before[] = {[SUBJECT_NONE] = "",
                                         [SUBJECT_COMMAND] = " to run: ",
                                         [SUBJECT_PATH] = " to ",
                                         [SUBJECT_HOST] = " from "};
    bl_buffer_printf(out, "Allow %s%s", question->tool, before[question->kind]);
    if (question->kind != SUBJECT_NONE)
        tool_permission_show(out, question->subject, 240);
    bl_buffer_append_byte(out, '?');
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
        bl_buffer_printf(out, "denied by rule '%s'", denial->text);
        return BL_PERMIT_DENIED;
    }
    /* Reading from a host changes nothing, but sends data to it: so rules decide. */
    bool named = question->kind == SUBJECT_HOST && find_allowance(decision);
    if (mode == BL_PERMISSION_READ_ONLY && !question->reads && !named) {
        bl_buffer_printf(out, "permission mode read-only does not allow %s", question->tool);
        return BL_PERMIT_DENIED;
    }
    if (mode == BL_PERMISSION_PLAN && !question->reads && !named) {
        bl_buffer_printf(out,
                         "permission mode plan does not allow %s until the user approves a plan",
                         question->tool);
        return BL_PERMIT_DENIED;
    }
    if (question->reads || mode == BL_PERMISSION_YOLO || named || find_allowance(decision) ||
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
    /* A long rule is shortened, but not inside a character. */
    bl_text_into(ret_reason, reason_size, permit == BL_PERMIT_ALLOWED ? "" : reason.data);
    bl_buffer_done(&reason);
    bl_arena_done(&decision.arena);
    return permit;
}

/* ---- Suggested rules ------------------------------------------------------------------------- */

/* Returns whether the path, used as a pattern, matches only itself. */
static bool permission_is_exact_path(struct bl_text path)
{
    for (size_t i = 0; i < path.size; i++)
        if (path.data[i] == '*' || (unsigned char)path.data[i] < 0x20 || path.data[i] == 0x7f)
            return false;
    return path.size > 0 && path.size <= RULE_PATH_MAX && bl_text_trim(path).size == path.size &&
           permission_balanced(path) && !bl_text_starts_with(path, BL_TEXT("~/"));
}

const char *const *permission_rules(struct bl_arena *arena,
                                    const struct permission_question *question)
{
    const char **rules = bl_arena_zalloc(arena, (COMMAND_PATTERNS_MAX + 1) * sizeof *rules);
    struct bl_text patterns[COMMAND_PATTERNS_MAX] = {question->subject};
    size_t count = 0;
    switch (question->kind) {
    case SUBJECT_COMMAND: count = command_patterns(arena, question->subject, patterns); break;
    case SUBJECT_PATH: count = permission_is_exact_path(question->subject) ? 1 : 0; break;
    case SUBJECT_HOST: count = 1; break;
    case SUBJECT_NONE:
        rules[0] = bl_arena_text(arena, bl_text_from(question->tool)).data;
        return rules;
    }
    for (size_t i = 0; i < count; i++)
        rules[i] = bl_arena_printf(arena, "%s(" BL_TEXT_FORMAT ")", question->tool,
                                   BL_TEXT_ARG(patterns[i]))
                       .data;
    return rules;
}

static bool permission_allowed_with(const struct bl_permissions *permissions,
                                    const char *const *rules,
                                    const struct permission_question *question)
{
    struct bl_permissions more = {.mode = permissions->mode, .last = &more.first};
    char reason[16];
    int code = 0;
    bl_arena_init(&more.arena);
    for (size_t i = 0; rules[i] != NULL && code == 0; i++)
        code = bl_permissions_add(&more, true, rules[i], NULL);
    *more.last = permissions->first;
    bool allowed =
        code == 0 && permission_decide(&more, question, reason, sizeof reason) == BL_PERMIT_ALLOWED;
    bl_arena_done(&more.arena);
    return allowed;
}

const char *const *permission_rules_allowing(const struct bl_permissions *permissions,
                                             struct bl_arena *arena,
                                             const struct permission_question *question)
{
    static const char *const none[] = {NULL};
    const char *const *rules = permission_rules(arena, question);
    if (permission_allowed_with(permissions, none, question))
        return none;
    if (rules[0] != NULL && permission_allowed_with(permissions, rules, question))
        return rules;
    const char **whole = bl_arena_zalloc(arena, 2 * sizeof *whole);
    whole[0] = bl_arena_text(arena, bl_text_from(question->tool)).data;
    return permission_allowed_with(permissions, whole, question) ? whole : none;
}

enum bl_permit bl_permissions_decide(const struct bl_permissions *permissions, const char *tool,
                                     struct bl_text subject, char *ret_reason, size_t reason_size)
{
    struct permission_question question = {
        .tool = tool, .kind = SUBJECT_PATH, .subject = subject, .reads = true};
    return permission_decide(permissions, &question, ret_reason, reason_size);
}
