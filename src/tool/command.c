/* Design notes.
 *
 * A pattern that allows `git *` must not let `git log; rm -rf ~` through, and whoever writes the
 * command may be trying. So for allowing, a command is taken apart as bash does it, byte by byte,
 * and whatever is not plainly a list of simple commands is called complex, which no pattern allows:
 * what is not understood is never guessed at. Patterns then see each simple command as it was
 * written, quotes included, with blanks squeezed and without comments and harmless redirections.
 *
 * For denying it is the other way about: quotes are ignored, and all that could be a command is
 * looked at. That catches accidents and the plain tricks; it cannot catch a program that is told by
 * other means what to run. What holds against that is the sandbox. */
#include <ctype.h>

#include "parts.h"

/* Of a pattern that is made for a command: people are to read it. */
#define PATTERN_MAX ((size_t)400)

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

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

static bool is_name(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_';
}

/* NAME=…, NAME+=…, NAME[…]=…. */
static bool is_assignment(struct bl_text word)
{
    size_t i = 0;
    while (i < word.size && is_name(word.data[i]))
        i++;
    if (i == 0 || isdigit((unsigned char)word.data[0]) || i == word.size)
        return false;
    if (word.data[i] == '[')
        return memchr(word.data, '=', word.size) != NULL;
    return word.data[i] == '=' ||
           (word.data[i] == '+' && i + 1 < word.size && word.data[i + 1] == '=');
}

static bool is_listed(struct bl_text word, const char *const *list)
{
    for (; *list != NULL; list++)
        if (bl_text_equal(word, bl_text_from(*list)))
            return true;
    return false;
}

static bool is_reserved(struct bl_text word)
{
    static const char *const words[] = {"!",      "{",    "}",        "[[",    "]]",   "case",
                                        "coproc", "do",   "done",     "elif",  "else", "esac",
                                        "fi",     "for",  "function", "if",    "in",   "select",
                                        "then",   "time", "until",    "while", NULL};
    return is_listed(word, words);
}

static struct bl_text first_word(struct bl_text text)
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
    struct bl_text word = first_word(part);
    if (is_reserved(word))
        mark_complex(splitter, "a control structure");
    if (is_assignment(word))
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
        while (is_name(peek(splitter, i)))
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
           (is_name(rest.data[size]) || memchr("./-+,@%:=", rest.data[size], 9) != NULL))
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
    while (is_blank(peek(splitter, size)))
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

/* ---- Mentions -------------------------------------------------------------------------------- */

/* Programs that run others, by their arguments: each of those may be a command. */
static bool runs_others(struct bl_text word)
{
    static const char *const words[] = {
        "ash",    "bash",    "builtin",  "busybox", "chroot",  "command", "dash", "doas",
        "env",    "eval",    "exec",     "find",    "flock",   "ionice",  "ksh",  "nice",
        "nohup",  "nsenter", "parallel", "script",  "setpriv", "setsid",  "sh",   "ssh",
        "stdbuf", "strace",  "su",       "sudo",    "taskset", "timeout", "trap", "unshare",
        "watch",  "xargs",   "zsh",      NULL};
    return is_listed(word, words);
}

/* Without quotes and escapes, blanks squeezed; into `out`, which has the room. */
static struct bl_text unquote(struct bl_text text, char *out)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        if (byte == '\\' && i + 1 < text.size && text.data[i + 1] == '\n')
            i++;
        else if (is_blank(byte) || byte == '\n')
            size += size > 0 && out[size - 1] != ' ' ? (out[size] = ' ', 1) : 0;
        else if (byte != '\'' && byte != '"' && byte != '\\')
            out[size++] = byte;
    }
    return bl_text_trim((struct bl_text){out, size});
}

/* A command by its path is the same command. */
static struct bl_text without_path(struct bl_text text)
{
    size_t size = first_word(text).size;
    while (size > 0 && text.data[size - 1] != '/')
        size--;
    return (struct bl_text){text.data + size, text.size - size};
}

/* Does `text`, or what it leads to, fit? Steps over assignments and the words of control
 * structures, and through programs that run others. */
static bool run_fits(struct bl_text text, struct bl_text glob, char *scratch)
{
    bool carried = false;
    if (glob_match(glob, bl_text_trim(text)))
        return true;
    text = unquote(text, scratch);
    while (text.size > 0) {
        struct bl_text bare = without_path(text), word = first_word(bare);
        if (glob_match(glob, text) || glob_match(glob, bare))
            return true;
        carried = carried || runs_others(word);
        if (!carried && !is_assignment(first_word(text)) && !is_reserved(word))
            return false;
        /* What begins with a star has had its chance to match the rest. */
        size_t size = first_word(text).size + 1;
        if (size > text.size || glob.data[0] == '*')
            return false;
        text = (struct bl_text){text.data + size, text.size - size};
    }
    return false;
}

bool command_mentions(struct bl_arena *arena, struct bl_text command,
                      const struct command_parts *parts, struct bl_text glob)
{
    struct bl_arena_mark mark = bl_arena_mark(arena);
    char *scratch = bl_arena_alloc(arena, command.size + 1);
    bool found = run_fits(command, glob, scratch);
    for (size_t i = 0; i < parts->count && !found; i++)
        found = run_fits(parts->parts[i], glob, scratch);
    /* Between all that may separate commands, in quotes or not. */
    for (size_t from = 0; from < command.size && !found;) {
        size_t to = from;
        while (to < command.size && memchr(";|&\n()`{}<>", command.data[to], 11) == NULL)
            to++;
        found =
            to > from && run_fits((struct bl_text){command.data + from, to - from}, glob, scratch);
        from = to + 1;
    }
    bl_arena_rewind(arena, mark);
    return found;
}

/* ---- Patterns -------------------------------------------------------------------------------- */

/* Programs for which "whatever follows" is too much to say: they run what they are told to, or
 * destroy it. Of them a pattern names the command as it stands. */
static bool is_cautious(struct bl_text word)
{
    static const char *const words[] = {
        "awk",    "bun",    "chmod",   "chown",     "cp",      "curl",    "dd",    "deno",
        "gdb",    "kill",   "ln",      "lua",       "mkfs",    "mv",      "node",  "npx",
        "perl",   "php",    "pkill",   "python",    "python3", "rm",      "rmdir", "rsync",
        "ruby",   "scp",    "sed",     "shred",     "socat",   "source",  "tee",   "truncate",
        "uvx",    "wget",   ".",       "killall",   "nc",      "nsenter", "tclsh", "vim",
        "docker", "podman", "kubectl", "systemctl", NULL};
    return runs_others(word) || is_listed(word, words);
}

/* A word that means itself: no quotes, no expansion, nothing that a star of ours could be. */
static bool is_plain(struct bl_text word)
{
    for (size_t i = 0; i < word.size; i++)
        if (!is_name(word.data[i]) && memchr("./-+:@,%", word.data[i], 8) == NULL)
            return false;
    return word.size > 0;
}

/* As a pattern it means itself alone. */
static bool is_exact(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '*' || iscntrl((unsigned char)text.data[i]))
            return false;
    return bl_text_trim(text).size == text.size;
}

/* Program and subcommand, or the program alone before an option. */
static struct bl_text pattern_of_part(struct bl_arena *arena, struct bl_text part)
{
    struct bl_text word = first_word(part), program = without_path(word), second = {0};
    if (!is_plain(word) || word.data[0] == '-')
        return (struct bl_text){0};
    if (part.size > word.size)
        second = first_word((struct bl_text){part.data + word.size + 1, part.size - word.size - 1});
    bool option = second.size > 0 && second.data[0] == '-';
    /* Options before the subcommand of git can have it run anything. */
    if (is_cautious(program) || (option && bl_text_equal(program, BL_TEXT("git"))))
        return is_exact(part) ? part : (struct bl_text){0};
    size_t size = word.size + (is_plain(second) && !option ? 1 + second.size : 0);
    return bl_arena_printf(arena, BL_TEXT_FORMAT " *", (int)size, part.data);
}

struct bl_text command_pattern(struct bl_arena *arena, struct bl_text command)
{
    struct command_parts parts;
    struct bl_text pattern = {0};
    command_split(arena, command, &parts);
    if (parts.complex != NULL)
        return pattern;
    for (size_t i = 0; i < parts.count; i++) {
        struct bl_text own = pattern_of_part(arena, parts.parts[i]);
        if (own.size == 0 || own.size > PATTERN_MAX || (i > 0 && !bl_text_equal(own, pattern)))
            return (struct bl_text){0};
        pattern = own;
    }
    return pattern;
}
