/* Design notes.
 *
 * A pattern that allows `git *` must not let `git log; rm -rf ~` through, and whoever writes the
 * command may be trying. So for allowing, a command is taken apart as bash does it, byte by byte,
 * and whatever is not plainly a list of simple commands is called complex, which no pattern allows:
 * what is not understood is never guessed at. Patterns then see each simple command as it was
 * written, quotes included, with blanks squeezed and without comments and harmless redirections. */
#include <ctype.h>

#include "shell.h"

struct splitter {
    struct bl_arena *arena;
    struct bl_text rest; /* not looked at yet */
    char *out;           /* the parts, one after the other */
    size_t size;
    size_t part_start;
    size_t word_start;
    bool in_word;
    bool gap; /* a blank is due before the next word */
    struct command_parts *parts;
    size_t capacity;
};

static const char substitution[] = "command substitution";
static const char redirection[] = "a redirection to a file";

static void mark_complex(struct splitter *splitter, const char *what)
{
    if (splitter->parts->complex == NULL)
        splitter->parts->complex = what;
}

static char peek(const struct splitter *splitter, size_t ahead)
{
    return ahead < splitter->rest.size ? splitter->rest.data[ahead] : '\0';
}

static void skip(struct splitter *splitter, size_t count)
{
    splitter->rest.data += count;
    splitter->rest.size -= count;
}

/* The next `count` bytes belong to the word. */
static void keep(struct splitter *splitter, size_t count)
{
    if (!splitter->in_word) {
        if (splitter->gap && splitter->size > splitter->part_start)
            splitter->out[splitter->size++] = ' ';
        splitter->word_start = splitter->size;
        splitter->in_word = true;
    }
    memcpy(splitter->out + splitter->size, splitter->rest.data, count);
    splitter->size += count;
    skip(splitter, count);
}

static void end_word(struct splitter *splitter)
{
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
    if (word.data[i] == '[')
        return memchr(word.data, '=', word.size) != NULL;
    return word.data[i] == '=' ||
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
    struct command_parts *parts = splitter->parts;
    struct bl_text part = {splitter->out + splitter->part_start,
                           splitter->size - splitter->part_start};
    splitter->part_start = splitter->size;
    splitter->in_word = splitter->gap = false;
    if (part.size == 0)
        return;
    struct bl_text word = shell_first_word(part);
    if (shell_is_reserved(word))
        mark_complex(splitter, "a control structure");
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

/* At a '$': only $NAME, ${NAME} and the like are plain. */
static void take_dollar(struct splitter *splitter, bool quoted)
{
    char next = peek(splitter, 1);
    if (next == '(') {
        mark_complex(splitter, substitution);
    } else if (next == '[') {
        mark_complex(splitter, "arithmetic");
    } else if (next == '{') {
        size_t i = 2;
        while (shell_is_name(peek(splitter, i)))
            i++;
        if (i == 2 || peek(splitter, i) != '}')
            mark_complex(splitter, "an expansion with an operator");
    } else if (!quoted && (next == '\'' || next == '"')) {
        mark_complex(splitter, "$'…' quoting");
    }
    keep(splitter, 1);
}

static void take_single_quotes(struct splitter *splitter)
{
    const char *end = memchr(splitter->rest.data + 1, '\'', splitter->rest.size - 1);
    if (end == NULL) {
        mark_complex(splitter, "a quote that does not end");
        keep(splitter, splitter->rest.size);
    } else {
        keep(splitter, (size_t)(end + 1 - splitter->rest.data));
    }
}

static void take_double_quotes(struct splitter *splitter)
{
    keep(splitter, 1);
    while (splitter->rest.size > 0) {
        char byte = peek(splitter, 0);
        if (byte == '"') {
            keep(splitter, 1);
            return;
        }
        if (byte == '`')
            mark_complex(splitter, substitution);
        if (byte == '$')
            take_dollar(splitter, true);
        else
            keep(splitter, byte == '\\' && splitter->rest.size > 1 ? 2 : 1);
    }
    mark_complex(splitter, "a quote that does not end");
}

static void take_escape(struct splitter *splitter)
{
    if (splitter->rest.size == 1) {
        mark_complex(splitter, "an escape that does not end");
        keep(splitter, 1);
    } else if (peek(splitter, 1) == '\n') {
        skip(splitter, 2); /* the line goes on */
    } else {
        keep(splitter, 2);
    }
}

static bool is_number(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!isdigit((unsigned char)text.data[i]))
            return false;
    return text.size > 0;
}

/* A number just before the operator says which descriptor; it is no word of the command. */
static void drop_descriptor(struct splitter *splitter)
{
    struct bl_text word = {splitter->out + splitter->word_start,
                           splitter->size - splitter->word_start};
    if (splitter->in_word && is_number(word)) {
        splitter->size = splitter->word_start;
        if (splitter->size > splitter->part_start)
            splitter->size--; /* and the blank before it */
    }
    end_word(splitter);
}

/* What a redirection goes to, when it is written without quotes and expansions; else empty. */
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
    drop_descriptor(splitter);
    size_t size = peek(splitter, 0) == '&' ? 2 : 1;
    bool input = peek(splitter, size - 1) == '<', number = false, plain = true;
    char next = peek(splitter, size);
    if (next == '(') {
        mark_complex(splitter, "process substitution");
        plain = false;
    } else if (input && next == '<') {
        mark_complex(splitter, "a here-document");
        plain = false;
    } else if (next == '&' && size == 1) {
        number = true;
        size++;
    } else if (next == '>' || (next == '|' && !input)) {
        input = false;
        size++;
    }
    while (shell_is_blank(peek(splitter, size)))
        size++;
    struct bl_text target = plain ? plain_target(splitter, size) : (struct bl_text){0};
    bool harmless =
        bl_text_equal(target, BL_TEXT("/dev/null")) ||
        (number && (is_number(target) || bl_text_equal(target, BL_TEXT("-")))) ||
        (input && !number && target.size > 0 && !bl_text_starts_with(target, BL_TEXT("/dev/")));
    if (!harmless)
        mark_complex(splitter, input ? "a redirection" : redirection);
    skip(splitter, harmless ? size + target.size : size);
}

static void skip_comment(struct splitter *splitter)
{
    const char *end = memchr(splitter->rest.data, '\n', splitter->rest.size);
    skip(splitter, end == NULL ? splitter->rest.size : (size_t)(end - splitter->rest.data));
}

static void take_separator(struct splitter *splitter)
{
    char byte = peek(splitter, 0), next = peek(splitter, 1);
    if (byte == ';' && (next == ';' || next == '&'))
        mark_complex(splitter, "a control structure");
    end_part(splitter);
    skip(splitter, 1);
}

static void take_byte(struct splitter *splitter)
{
    switch (peek(splitter, 0)) {
    case ' ':
    case '\t':
        end_word(splitter);
        skip(splitter, 1);
        break;
    case '\\': take_escape(splitter); break;
    case '\'': take_single_quotes(splitter); break;
    case '"': take_double_quotes(splitter); break;
    case '$': take_dollar(splitter, false); break;
    case '`':
        mark_complex(splitter, substitution);
        keep(splitter, 1);
        break;
    case '(':
    case ')':
        mark_complex(splitter, "a subshell or a function");
        keep(splitter, 1);
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
            keep(splitter, 1);
        else
            skip_comment(splitter);
        break;
    default: keep(splitter, 1); break;
    }
}

void command_split(struct bl_arena *arena, struct bl_text command, struct command_parts *ret_parts)
{
    *ret_parts = (struct command_parts){0};
    struct splitter splitter = {.arena = arena,
                                .rest = command,
                                .out = bl_arena_alloc(arena, command.size + 1),
                                .parts = ret_parts};
    while (splitter.rest.size > 0)
        take_byte(&splitter);
    end_part(&splitter);
}
