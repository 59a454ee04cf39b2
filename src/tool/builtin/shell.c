/* Design notes.
 *
 * A pattern that allows `git *` must not allow `git log; rm -rf ~`, and the author of the command
 * may be an attacker. So for allowing rules, a command is split as bash does it, byte by byte, and
 * anything that is not plainly a list of simple commands is called complex, which no pattern
 * allows: the splitter never guesses. Patterns then see each simple command as it was written,
 * quotes included, with lines joined, blanks squeezed, and without comments and harmless
 * redirections. guard.c decides which of these commands a star may stand for.
 *
 * A backslash before a newline joins two lines before bash looks at anything else: "$\<newline>("
 * is "$(". So lines are joined first. The joining has to track quotes and comments; after the first
 * construct whose quoting it does not know ($'…', a here-document, a substitution) it may be wrong,
 * but that construct has already made the command complex. */
#include <ctype.h>

#include "shell.h"

/* A larger number before a redirection is a word to bash, not a descriptor. */
#define DESCRIPTOR_DIGITS 4u

struct splitter {
    struct bl_arena *arena;
    struct bl_text rest; /* not processed yet */
    char *out;           /* the parts, one after another */
    size_t size;
    size_t part_start;
    size_t word_start;
    bool in_word;
    bool gap;  /* a blank must precede the next word */
    bool drop; /* the next word is the target of a redirection */
    struct command_parts *parts;
    size_t capacity;
};

static const char substitution[] = "command substitution";
static const char redirection[] = "a redirection to a file";

/* Marks that no pattern can allow the command, although the starts of its commands are known. */
static void mark_complex(struct splitter *splitter, const char *what)
{
    if (splitter->parts->complex == NULL)
        splitter->parts->complex = what;
}

/* Marks in addition that the starts of its commands are unknown. */
static void shell_mark_opaque(struct splitter *splitter, const char *what)
{
    mark_complex(splitter, what);
    splitter->parts->opaque = true;
}

static char peek(const struct splitter *splitter, size_t ahead)
{
    return ahead < splitter->rest.size ? splitter->rest.data[ahead] : '\0';
}

static void shell_skip(struct splitter *splitter, size_t count)
{
    splitter->rest.data += count;
    splitter->rest.size -= count;
}

/* Adds the next `count` bytes to the word. */
static void shell_keep(struct splitter *splitter, size_t count)
{
    if (!splitter->in_word) {
        if (splitter->gap && splitter->size > splitter->part_start)
            splitter->out[splitter->size++] = ' ';
        splitter->word_start = splitter->size;
        splitter->in_word = true;
    }
    memcpy(splitter->out + splitter->size, splitter->rest.data, count);
    splitter->size += count;
    shell_skip(splitter, count);
}

/* Removes the last word, and the blank before it. */
static void shell_drop_word(struct splitter *splitter)
{
    splitter->size = splitter->word_start;
    if (splitter->size > splitter->part_start)
        splitter->size--;
}

static void end_word(struct splitter *splitter)
{
    if (splitter->drop && splitter->in_word) {
        shell_drop_word(splitter);
        splitter->drop = false;
    }
    splitter->in_word = false;
    splitter->gap = true;
}

bool shell_is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

bool shell_is_name(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_';
}

bool shell_is_assignment(struct bl_text word)
{
    size_t i = 0;
    while (i < word.size && shell_is_name(word.data[i]))
        i++;
    if (i == 0 || isdigit((unsigned char)word.data[0]) || i == word.size)
        return false;
    /* The subscript may contain blanks, so the '=' need not be in this word. */
    return word.data[i] == '[' || word.data[i] == '=' ||
           (word.data[i] == '+' && i + 1 < word.size && word.data[i + 1] == '=');
}

bool shell_is_listed(struct bl_text word, const char *const *list)
{
    for (; *list != NULL; list++)
        if (bl_text_equal(word, bl_text_from(*list)))
            return true;
    return false;
}

bool shell_is_reserved(struct bl_text word)
{
    static const char *const words[] = {"!",      "{",    "}",        "[[",    "]]",   "case",
                                        "coproc", "do",   "done",     "elif",  "else", "esac",
                                        "fi",     "for",  "function", "if",    "in",   "select",
                                        "then",   "time", "until",    "while", NULL};
    return shell_is_listed(word, words);
}

struct bl_text shell_first_word(struct bl_text text)
{
    const char *blank = memchr(text.data, ' ', text.size);
    return (struct bl_text){text.data, blank == NULL ? text.size : (size_t)(blank - text.data)};
}

static void end_part(struct splitter *splitter)
{
    /* The words after these, up to a separator, need not be a command. */
    static const char *const patterns[] = {"[[", "]]", "case", "esac", NULL};
    struct command_parts *parts = splitter->parts;
    end_word(splitter);
    struct bl_text part = {splitter->out + splitter->part_start,
                           splitter->size - splitter->part_start};
    splitter->part_start = splitter->size;
    splitter->gap = splitter->drop = false;
    if (part.size == 0)
        return;
    struct bl_text word = shell_first_word(part);
    if (shell_is_reserved(word))
        mark_complex(splitter, "a control structure");
    if (shell_is_listed(word, patterns))
        shell_mark_opaque(splitter, "a control structure");
    if (shell_is_assignment(word))
        mark_complex(splitter, "an assignment");
    if (parts->count == splitter->capacity) {
        size_t capacity = splitter->capacity == 0 ? 8 : splitter->capacity * 2;
        parts->parts = bl_arena_resize(splitter->arena, parts->parts,
                                       splitter->capacity * sizeof part, capacity * sizeof part);
        splitter->capacity = capacity;
    }
    parts->parts[parts->count++] = part;
}

size_t shell_expansion_size(struct bl_text text)
{
    size_t size = 1;
    if (text.size < 2 || text.data[0] != '$')
        return 0;
    if (text.data[1] == '{') {
        const char *end = memchr(text.data, '}', text.size);
        return end == NULL ? text.size : (size_t)(end + 1 - text.data);
    }
    if (isdigit((unsigned char)text.data[1]) || memchr("@*#?-$!", text.data[1], 7) != NULL)
        return 2;
    while (size < text.size && shell_is_name(text.data[size]))
        size++;
    return size > 1 ? size : 0;
}

/* At a '$': only $NAME, ${NAME} and the like are simple. */
static void take_dollar(struct splitter *splitter, bool quoted)
{
    char next = peek(splitter, 1);
    if (next == '(') {
        shell_mark_opaque(splitter, substitution);
    } else if (next == '[') {
        shell_mark_opaque(splitter, "arithmetic");
    } else if (next == '{') {
        size_t i = 2;
        while (shell_is_name(peek(splitter, i)))
            i++;
        if (i == 2 || peek(splitter, i) != '}')
            shell_mark_opaque(splitter, "an expansion with an operator");
    } else if (!quoted && (next == '\'' || next == '"')) {
        shell_mark_opaque(splitter, "$'…' quoting");
    }
    shell_keep(splitter, 1);
}

static void take_single_quotes(struct splitter *splitter)
{
    const char *end = memchr(splitter->rest.data + 1, '\'', splitter->rest.size - 1);
    if (end == NULL) {
        shell_mark_opaque(splitter, "an unterminated quote");
        shell_keep(splitter, splitter->rest.size);
    } else {
        shell_keep(splitter, (size_t)(end + 1 - splitter->rest.data));
    }
}

static void take_double_quotes(struct splitter *splitter)
{
    shell_keep(splitter, 1);
    while (splitter->rest.size > 0) {
        char byte = peek(splitter, 0);
        if (byte == '"') {
            shell_keep(splitter, 1);
            return;
        }
        if (byte == '`')
            shell_mark_opaque(splitter, substitution);
        if (byte == '$')
            take_dollar(splitter, true);
        else
            shell_keep(splitter, byte == '\\' && splitter->rest.size > 1 ? 2 : 1);
    }
    shell_mark_opaque(splitter, "an unterminated quote");
}

static void shell_take_escape(struct splitter *splitter)
{
    if (splitter->rest.size == 1) {
        mark_complex(splitter, "an unterminated escape");
        shell_keep(splitter, 1);
    } else {
        shell_keep(splitter, 2);
    }
}

static bool shell_is_number(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!isdigit((unsigned char)text.data[i]))
            return false;
    return text.size > 0;
}

/* A word that touches the operator may belong to it instead of the command: the number of a
 * descriptor; or {NAME}, to which bash assigns one, evaluating its subscript. */
static void shell_take_descriptor(struct splitter *splitter)
{
    struct bl_text word = {splitter->out + splitter->word_start,
                           splitter->size - splitter->word_start};
    bool number = splitter->in_word && shell_is_number(word) && word.size <= DESCRIPTOR_DIGITS;
    bool named = splitter->in_word && word.data[0] == '{';
    if (named || (splitter->in_word && shell_is_number(word) && !number))
        mark_complex(splitter, redirection);
    if (named || number)
        shell_drop_word(splitter);
    else
        end_word(splitter);
    splitter->in_word = false;
    splitter->gap = true;
}

/* Returns the target of a redirection if it is written without quotes and expansions; else
 * empty. */
static struct bl_text plain_target(const struct splitter *splitter, size_t from)
{
    struct bl_text rest = {splitter->rest.data + from, splitter->rest.size - from};
    size_t size = 0;
    while (size < rest.size &&
           (shell_is_name(rest.data[size]) || memchr("./-+,@%:=", rest.data[size], 9) != NULL))
        size++;
    if (size < rest.size && memchr(" \t\n;|&<>", rest.data[size], 8) == NULL)
        size = 0;
    return (struct bl_text){rest.data, size};
}

/* At '<', '>' or "&>". */
static void take_redirection(struct splitter *splitter)
{
    shell_take_descriptor(splitter);
    size_t size = peek(splitter, 0) == '&' ? 2 : 1;
    bool input = peek(splitter, size - 1) == '<', number = false;
    char next = peek(splitter, size);
    if (next == '(') {
        shell_mark_opaque(splitter, "process substitution");
    } else if (input && next == '<') {
        shell_mark_opaque(splitter, "a here-document");
    } else if (next == '&' && size == 1) {
        number = true;
        size++;
    } else if (next == '>' || (next == '|' && !input)) {
        input = false;
        size++;
    }
    while (shell_is_blank(peek(splitter, size)))
        size++;
    struct bl_text target = plain_target(splitter, size);
    bool harmless =
        bl_text_equal(target, BL_TEXT("/dev/null")) ||
        (number && (shell_is_number(target) || bl_text_equal(target, BL_TEXT("-")))) ||
        (input && !number && target.size > 0 && !bl_text_starts_with(target, BL_TEXT("/dev/")));
    if (!harmless)
        mark_complex(splitter, input ? "a redirection" : redirection);
    splitter->drop = !harmless && next != '(';
    shell_skip(splitter, harmless ? size + target.size : size);
}

static void skip_comment(struct splitter *splitter)
{
    const char *end = memchr(splitter->rest.data, '\n', splitter->rest.size);
    shell_skip(splitter, end == NULL ? splitter->rest.size : (size_t)(end - splitter->rest.data));
}

static void take_separator(struct splitter *splitter)
{
    char byte = peek(splitter, 0), next = peek(splitter, 1);
    if (byte == ';' && (next == ';' || next == '&'))
        mark_complex(splitter, "a control structure");
    end_part(splitter);
    shell_skip(splitter, 1);
}

static void shell_take_byte(struct splitter *splitter)
{
    switch (peek(splitter, 0)) {
    case ' ':
    case '\t':
        end_word(splitter);
        shell_skip(splitter, 1);
        break;
    case '\\': shell_take_escape(splitter); break;
    case '\'': take_single_quotes(splitter); break;
    case '"': take_double_quotes(splitter); break;
    case '$': take_dollar(splitter, false); break;
    case '`':
        shell_mark_opaque(splitter, substitution);
        shell_keep(splitter, 1);
        break;
    case '(':
    case ')':
        shell_mark_opaque(splitter, "a subshell or a function");
        shell_keep(splitter, 1);
        break;
    case '<':
    case '>': take_redirection(splitter); break;
    case '&':
        if (peek(splitter, 1) == '>')
            take_redirection(splitter);
        else
            take_separator(splitter);
        break;
    case ';':
    case '|':
    case '\n': take_separator(splitter); break;
    case '#':
        if (splitter->in_word)
            shell_keep(splitter, 1);
        else
            skip_comment(splitter);
        break;
    default: shell_keep(splitter, 1); break;
    }
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* The context of a byte, when lines are joined. */
enum shell_place {
    LINE_PLAIN,
    LINE_SINGLE, /* in '…' */
    LINE_DOUBLE, /* in "…" */
    LINE_COMMENT,
};

static enum shell_place shell_line_next(enum shell_place state, char byte, bool in_word)
{
    switch (state) {
    case LINE_SINGLE: return byte == '\'' ? LINE_PLAIN : state;
    case LINE_DOUBLE: return byte == '"' ? LINE_PLAIN : state;
    case LINE_COMMENT: return byte == '\n' ? LINE_PLAIN : state;
    case LINE_PLAIN: break;
    }
    return byte == '\''              ? LINE_SINGLE
           : byte == '"'             ? LINE_DOUBLE
           : byte == '#' && !in_word ? LINE_COMMENT
                                     : LINE_PLAIN;
}

/* Removes each backslash that is followed by a newline, and that newline, where bash does so:
 * everywhere but in single quotes and comments. */
static struct bl_text shell_join_lines(struct bl_arena *arena, struct bl_text text)
{
    char *out = bl_arena_alloc(arena, text.size + 1);
    enum shell_place state = LINE_PLAIN;
    bool in_word = false;
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        bool escape = byte == '\\' && (state == LINE_PLAIN || state == LINE_DOUBLE);
        if (escape && i + 1 < text.size) {
            i++;
            if (text.data[i] == '\n')
                continue;
            out[size++] = byte;
            out[size++] = text.data[i];
            in_word = true;
            continue;
        }
        state = shell_line_next(state, byte, in_word);
        in_word = state != LINE_PLAIN || memchr(" \t\n;|&<>()", byte, 10) == NULL;
        out[size++] = byte;
    }
    return (struct bl_text){out, size};
}

/* Bash uses some control bytes internally; terminals obey others. */
static bool shell_has_control_bytes(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (iscntrl((unsigned char)text.data[i]) && text.data[i] != '\n' && text.data[i] != '\t')
            return true;
    return false;
}

void command_split(struct bl_arena *arena, struct bl_text command, struct command_parts *ret_parts)
{
    *ret_parts = (struct command_parts){0};
    struct splitter splitter = {.arena = arena,
                                .rest = shell_join_lines(arena, command),
                                .out = bl_arena_alloc(arena, command.size + 1),
                                .parts = ret_parts};
    if (shell_has_control_bytes(command))
        mark_complex(&splitter, "a control character");
    while (splitter.rest.size > 0)
        shell_take_byte(&splitter);
    end_part(&splitter);
}
