/* Design notes.
 *
 * A star in an allowing pattern stands for arguments. It must not stand for a command that bash or
 * a program then runs, and bash hides such commands well: `printf -v`, `test -v`, `read`, `wait -p`
 * and others take the name of a variable and evaluate a subscript in it, and a subscript may hold a
 * command substitution, even in single quotes. A variable with the integer attribute (RANDOM)
 * evaluates the value assigned to it. `printf %n PATH` is an assignment. `$_` and a file name can
 * put `-v` where an option is read. So a star allows a builtin that evaluates its arguments only in
 * a form that is known to evaluate nothing. Any other form needs a pattern without a star: then the
 * user wrote that very command. */
#include <ctype.h>

#include "tool/builtin/shell.h"

/* ---- Words ----------------------------------------------------------------------------------- */

/* Returns whether an unquoted byte may begin a glob, braces or a tilde. This does not look for the
 * end of the word, which may hold quoted blanks. */
static bool guard_is_pattern(struct bl_text rest, bool first)
{
    switch (rest.data[0]) {
    case '*':
    case '?': return true;
    case '[': return rest.size > 1 && rest.data[1] != ' ' && memchr(rest.data, ']', rest.size);
    case '{': return rest.size > 1 && rest.data[1] != '}' && memchr(rest.data, '}', rest.size);
    case '~': return first;
    default: return false;
    }
}

/* Consumes one byte, escape or expansion, and tracks double quotes. Returns its size. */
static size_t guard_take(struct bl_text rest, bool *quoted, bool first, char *out, size_t *size,
                         struct shell_word *word)
{
    char byte = rest.data[0];
    if (byte == '\'' && !*quoted) {
        const char *end = memchr(rest.data + 1, '\'', rest.size - 1);
        size_t inside = end == NULL ? rest.size - 1 : (size_t)(end - rest.data - 1);
        memcpy(out + *size, rest.data + 1, inside);
        *size += inside;
        return inside + (end == NULL ? 1 : 2);
    }
    if (byte == '"') {
        *quoted = !*quoted;
        return 1;
    }
    if (byte == '$') {
        size_t expansion = shell_expansion_size(rest);
        word->varies = word->varies || expansion > 0;
        word->splits =
            word->splits || (expansion > 0 && (!*quoted || memchr("@*", rest.data[1], 2) != NULL));
        out[(*size)++] = byte;
        return expansion > 0 ? expansion : 1;
    }
    bool escape =
        byte == '\\' && rest.size > 1 && (!*quoted || memchr("$`\"\\", rest.data[1], 4) != NULL);
    if (!escape && !*quoted && guard_is_pattern(rest, first))
        word->varies = word->splits = true;
    out[(*size)++] = rest.data[escape ? 1 : 0];
    return escape ? 2 : 1;
}

bool shell_word_next(struct bl_text *rest, char *scratch, struct shell_word *ret_word)
{
    bool quoted = false;
    size_t size = 0, at = 0;
    *ret_word = (struct shell_word){0};
    while (rest->size > 0 && rest->data[0] == ' ')
        *rest = (struct bl_text){rest->data + 1, rest->size - 1};
    if (rest->size == 0)
        return false;
    while (at < rest->size && (quoted || rest->data[at] != ' '))
        at += guard_take((struct bl_text){rest->data + at, rest->size - at}, &quoted, at == 0,
                         scratch, &size, ret_word);
    ret_word->value = (struct bl_text){scratch, size};
    *rest = (struct bl_text){rest->data + at, rest->size - at};
    return true;
}

/* ---- Builtins that evaluate, in the forms that evaluate nothing ------------------------------ */

/* The arguments of one command. */
struct guard_words {
    struct shell_word *words;
    size_t count;
    bool alone; /* it is the only command */
};

static bool guard_is(const struct shell_word *word, const char *text)
{
    return !word->varies && bl_text_equal(word->value, bl_text_from(text));
}

static bool guard_all_literal(const struct guard_words *arguments)
{
    for (size_t i = 0; i < arguments->count; i++)
        if (arguments->words[i].varies)
            return false;
    return true;
}

/* Returns whether the format contains %n, which assigns to the variable named by the argument. */
static bool guard_format_assigns(struct bl_text format)
{
    for (size_t i = 0; i < format.size; i++) {
        if (format.data[i] != '%')
            continue;
        for (i++; i < format.size && memchr("-+ #0123456789.*'hjlqtzL", format.data[i], 24);)
            i++;
        if (i < format.size && format.data[i] == 'n')
            return true;
    }
    return false;
}

/* Harmless if the format is literal and not an option: then the rest is data. */
static bool guard_printf(const struct guard_words *arguments)
{
    size_t at = guard_is(&arguments->words[0], "--") ? 1 : 0;
    if (at == arguments->count)
        return true;
    const struct shell_word *format = &arguments->words[at];
    return !format->varies && !guard_format_assigns(format->value) &&
           (at == 1 || format->value.size == 0 || format->value.data[0] != '-');
}

static bool guard_is_binary(const struct shell_word *word)
{
    static const char *const operators[] = {"=",   "==",  "!=",  "<",   ">",   "-eq", "-ne", "-lt",
                                            "-le", "-gt", "-ge", "-nt", "-ot", "-ef", NULL};
    return !word->varies && shell_is_listed(word->value, operators);
}

static bool guard_is_variable_test(const struct shell_word *word)
{
    return guard_is(word, "-v") || guard_is(word, "-R");
}

/* Harmless if the operator is literal; or if all words are literal, and no tested variable name has
 * a subscript. */
static bool guard_test(const struct guard_words *arguments)
{
    const struct shell_word *words = arguments->words;
    size_t count = arguments->count;
    bool asks_variable = false, has_subscript = false, splits = false;
    for (size_t i = 0; i < count; i++) {
        asks_variable = asks_variable || guard_is_variable_test(&words[i]);
        has_subscript =
            has_subscript || memchr(words[i].value.data, '[', words[i].value.size) != NULL;
        splits = splits || words[i].splits;
    }
    if (guard_all_literal(arguments))
        return !asks_variable || !has_subscript;
    if (splits || asks_variable)
        return false;
    if (count > 2 && guard_is(&words[0], "!")) {
        words++;
        count--;
    }
    return count == 1 || (count == 2 && !words[0].varies) ||
           (count == 3 && guard_is_binary(&words[1]));
}

/* The same up to the last word, which must be the closing bracket. */
static bool guard_bracket(const struct guard_words *arguments)
{
    struct guard_words inside = *arguments;
    inside.count--;
    return guard_is(&arguments->words[inside.count], "]") &&
           (inside.count == 0 || guard_test(&inside));
}

/* Returns whether the word is an option that takes no name, or takes a number; a number; or a name
 * in lower case, because bash evaluates values assigned to some of its own variables, such as
 * RANDOM. */
static bool guard_is_read_word(struct bl_text word)
{
    bool option = word.size > 1 && word.data[0] == '-';
    if (word.size == 0 ||
        (!option && !islower((unsigned char)word.data[0]) && !isdigit((unsigned char)word.data[0])))
        return false;
    for (size_t i = 1; i < word.size; i++) {
        bool number = isdigit((unsigned char)word.data[i]) || word.data[i] == '.';
        if (!number &&
            (option ? memchr("aeNnrstu", word.data[i], 8) == NULL : !shell_is_name(word.data[i])))
            return false;
    }
    return true;
}

/* Harmless if no other command runs that could use the variables read. */
static bool guard_read(const struct guard_words *arguments)
{
    bool harmless = arguments->alone && guard_all_literal(arguments);
    for (size_t i = 0; i < arguments->count; i++)
        harmless = harmless && guard_is_read_word(arguments->words[i].value);
    return harmless;
}

/* Harmless if the command only reports what a name stands for. */
static bool guard_command(const struct guard_words *arguments)
{
    return guard_is(&arguments->words[0], "-v") || guard_is(&arguments->words[0], "-V");
}

/* Returns whether the word is an expansion that the shell splits, which can produce any words. `$_`
 * is the last argument of the previous command, which an attacker may have chosen. A glob or braces
 * keep the text before them. */
static bool guard_is_any_words(const struct shell_word *word)
{
    return word->splits && memchr(word->value.data, '$', word->value.size) != NULL;
}

/* Harmless if no word runs a program, deletes or writes, or could become one that does. */
static bool guard_find(const struct guard_words *arguments)
{
    static const char *const actions[] = {"-exec",    "-execdir", "-ok",  "-okdir",  "-delete",
                                          "-fprint0", "-fprintf", "-fls", "-fprint", NULL};
    for (size_t i = 0; i < arguments->count; i++) {
        const struct shell_word *word = &arguments->words[i];
        char first = word->value.size > 0 ? word->value.data[0] : '\0';
        if (shell_is_listed(word->value, actions) || guard_is_any_words(word) ||
            (word->varies && !shell_is_name(first) && memchr("./~", first, 3) == NULL))
            return false;
    }
    return true;
}

/* No form is known to be harmless. */
static bool guard_never(const struct guard_words *arguments)
{
    (void)arguments;
    return false;
}

/* The programs and builtins whose arguments a star may match only in some forms. */
static const struct guard_entry {
    const char *name;
    bool (*is_harmless)(const struct guard_words *arguments);
} guard_entries[] = {
    {".", guard_never},       {"[", guard_bracket},       {"alias", guard_never},
    {"bind", guard_never},    {"builtin", guard_never},   {"command", guard_command},
    {"compgen", guard_never}, {"complete", guard_never},  {"compopt", guard_never},
    {"declare", guard_never}, {"enable", guard_never},    {"eval", guard_never},
    {"exec", guard_never},    {"export", guard_never},    {"fc", guard_never},
    {"find", guard_find},     {"getopts", guard_never},   {"hash", guard_never},
    {"history", guard_never}, {"jobs", guard_never},      {"let", guard_never},
    {"local", guard_never},   {"mapfile", guard_never},   {"printf", guard_printf},
    {"read", guard_read},     {"readarray", guard_never}, {"readonly", guard_never},
    {"set", guard_never},     {"shopt", guard_never},     {"source", guard_never},
    {"test", guard_test},     {"trap", guard_never},      {"typeset", guard_never},
    {"unalias", guard_never}, {"unset", guard_never},     {"wait", guard_never},
};

static const struct guard_entry *guard_find_entry(struct bl_text name)
{
    for (size_t i = 0; i < BL_COUNT(guard_entries); i++)
        if (bl_text_equal(name, bl_text_from(guard_entries[i].name)))
            return &guard_entries[i];
    return NULL;
}

/* ---- The guard ------------------------------------------------------------------------------- */

enum command_guard command_guard(struct bl_arena *arena, struct bl_text part, bool alone)
{
    char *scratch = bl_arena_alloc(arena, part.size + 1);
    struct guard_words arguments = {
        .words = bl_arena_alloc(arena, (part.size / 2 + 1) * sizeof *arguments.words),
        .alone = alone,
    };
    struct bl_text rest = part;
    struct shell_word command;
    if (!shell_word_next(&rest, scratch, &command))
        return COMMAND_GUARD_NONE;
    if (command.varies)
        return COMMAND_GUARD_WORD;
    scratch += command.value.size;
    while (shell_word_next(&rest, scratch, &arguments.words[arguments.count]))
        scratch += arguments.words[arguments.count++].value.size;
    struct bl_text program = shell_without_path(command.value);
    const struct guard_entry *entry = guard_find_entry(program);
    if (arguments.count == 0)
        return COMMAND_GUARD_NONE;
    if (entry != NULL)
        return entry->is_harmless(&arguments) ? COMMAND_GUARD_NONE : COMMAND_GUARD_EXACT;
    return shell_runs_others(program) ? COMMAND_GUARD_NAMED : COMMAND_GUARD_NONE;
}

/* Returns whether the pattern names, before its first star, the command that the program is to run:
 * a word other than the program, options, assignments and numbers. */
static bool guard_names_command(struct bl_text literal)
{
    struct bl_text word = shell_first_word(literal);
    while (word.size < literal.size) {
        size_t size = word.size + 1;
        literal = (struct bl_text){literal.data + size, literal.size - size};
        word = shell_first_word(literal);
        if (word.size > 0 && word.data[0] != '-' && !isdigit((unsigned char)word.data[0]) &&
            !shell_is_assignment(word))
            return true;
    }
    return false;
}

bool command_guard_lets(enum command_guard guard, struct bl_text part, struct bl_text glob)
{
    const char *star = memchr(glob.data, '*', glob.size);
    if (star == NULL)
        return true;
    struct bl_text literal = {glob.data, (size_t)(star - glob.data)};
    switch (guard) {
    case COMMAND_GUARD_NONE: return true;
    case COMMAND_GUARD_NAMED: return guard_names_command(literal);
    case COMMAND_GUARD_WORD: return literal.size > shell_first_word(part).size;
    case COMMAND_GUARD_EXACT: break;
    }
    return false;
}

const char *command_guard_text(enum command_guard guard)
{
    static const char *const texts[] = {
        [COMMAND_GUARD_NONE] = "",
        [COMMAND_GUARD_NAMED] = "a program that runs other commands",
        [COMMAND_GUARD_WORD] = "a command name that the shell expands",
        [COMMAND_GUARD_EXACT] = "a command that can evaluate or run its arguments",
    };
    return texts[guard];
}
