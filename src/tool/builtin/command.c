/* Design notes.
 *
 * A denying pattern is compared with everything that could be a command: quotes are ignored, and so
 * is whether the text between two separators is code or data. That catches accidents and plain
 * tricks; it cannot catch a program that learns in other ways what to run. The sandbox protects
 * against that. */
#include <ctype.h>

#include "search.h"
#include "shell.h"

/* Maximum size of a pattern suggested for a command: users must be able to read it. */
#define PATTERN_MAX ((size_t)400)

/* ---- Mentions -------------------------------------------------------------------------------- */

bool shell_runs_others(struct bl_text program)
{
    static const char *const words[] = {
        "alias",     "ash",      "bash",    "builtin",  "busybox", "bwrap",       "capsh",
        "choom",     "chroot",   "chrt",    "command",  "compgen", "coproc",      "csh",
        "dash",      "doas",     "entr",    "env",      "eval",    "exec",        "expect",
        "fakeroot",  "fc",       "find",    "firejail", "fish",    "flock",       "gdb",
        "hash",      "i386",     "ionice",  "jobs",     "ksh",     "linux32",     "linux64",
        "ltrace",    "mapfile",  "mksh",    "nice",     "nohup",   "nsenter",     "numactl",
        "parallel",  "pkexec",   "prlimit", "proot",    "rbash",   "readarray",   "runuser",
        "script",    "setarch",  "setpriv", "setsid",   "sg",      "sh",          "ssh",
        "ssh-agent", "stdbuf",   "strace",  "su",       "sudo",    "systemd-run", "taskset",
        "tcsh",      "time",     "timeout", "toybox",   "trap",    "uname26",     "unbuffer",
        "unshare",   "valgrind", "watch",   "x86_64",   "xargs",   "zsh",         NULL};
    /* The program loader runs the program that it is given. */
    return shell_is_listed(program, words) || bl_text_starts_with(program, BL_TEXT("ld-linux"));
}

/* How to read the expansions of a command, whose values are unknown. */
enum command_reading {
    READ_AS_WRITTEN,
    READ_AS_NOTHING, /* r${x}m */
    READ_AS_BLANK,   /* rm${IFS}x */
    READING_COUNT,
};

/* The pattern to search for, and work space for the search. */
struct command_search {
    struct bl_text glob;
    struct bl_text name; /* its first word; empty if that is a pattern, too */
    char *scratch;       /* as large as the command */
    char *other;         /* as large as the command and the name */
};

static int command_digit(char byte)
{
    byte = (char)tolower((unsigned char)byte);
    return byte >= '0' && byte <= '9'   ? byte - '0'
           : byte >= 'a' && byte <= 'f' ? byte - 'a' + 10
                                        : 16;
}

/* Returns the byte that an escape of $'…' stands for; the text begins after the backslash. */
static char command_escape(struct bl_text text, size_t *ret_size)
{
    bool hex = memchr("xuU", text.data[0], 3) != NULL;
    size_t at = hex ? 1 : 0, digits = text.data[0] == 'U'   ? 8
                                      : text.data[0] == 'u' ? 4
                                      : hex                 ? 2
                                                            : 3;
    int base = hex ? 16 : 8, value = 0;
    *ret_size = 1;
    if (at == text.size || command_digit(text.data[at]) >= base)
        return memchr("tn", text.data[0], 2) != NULL ? ' ' : text.data[0];
    for (; digits > 0 && at < text.size && command_digit(text.data[at]) < base; digits--)
        value = (value * base + command_digit(text.data[at++])) & 0xff;
    *ret_size = at;
    return (char)value;
}

/* Removes quotes and escapes and squeezes blanks; writes to `out`, which is large enough. */
static struct bl_text command_unquote(struct bl_text text, enum command_reading reading, char *out)
{
    size_t size = 0, escape = 0;
    bool ansi = false;
    for (size_t i = 0; i < text.size; i++) {
        struct bl_text rest = {text.data + i, text.size - i};
        size_t expansion = reading == READ_AS_WRITTEN ? 0 : shell_expansion_size(rest);
        char byte = rest.data[0], next = rest.size > 1 ? rest.data[1] : '\0';
        bool blank = shell_is_blank(byte) || byte == '\n';
        if (byte == '$' && (next == '\'' || next == '"')) {
            ansi = next == '\'';
            i++;
            continue;
        }
        if (expansion > 0)
            i += expansion - 1;
        if (byte == '\\' && next == '\n') {
            i++;
        } else if (byte == '\\' && ansi && next != '\0') {
            byte = command_escape((struct bl_text){rest.data + 1, rest.size - 1}, &escape);
            out[size++] = byte;
            i += escape;
        } else if (blank || (reading == READ_AS_BLANK && (expansion > 0 || byte == ','))) {
            size += size > 0 && out[size - 1] != ' ' ? (out[size] = ' ', 1) : 0;
        } else if (byte == '\'' || byte == '"') {
            ansi = false;
        } else if (byte != '\\' && expansion == 0) {
            out[size++] = byte;
        }
    }
    return bl_text_trim((struct bl_text){out, size});
}

struct bl_text shell_without_path(struct bl_text text)
{
    size_t size = shell_first_word(text).size;
    while (size > 0 && text.data[size - 1] != '/')
        size--;
    return (struct bl_text){text.data + size, text.size - size};
}

/* The first word may be the searched name in disguise: a glob, or, if it is the command's name, an
 * expansion. Returns whether the pattern matches in that case. */
static bool command_disguised(const struct command_search *search, struct bl_text text,
                              bool is_command)
{
    struct bl_text word = shell_first_word(text), name = search->name;
    bool expands = is_command && word.size > 0 && word.data[0] == '$';
    bool glob = memchr(word.data, '?', word.size) != NULL ||
                memchr(word.data, '*', word.size) != NULL ||
                memchr(word.data, '[', word.size) != NULL;
    if (name.size == 0 || !(expands || (glob && wild_match(word, name, 0))))
        return false;
    memcpy(search->other, name.data, name.size);
    memcpy(search->other + name.size, text.data + word.size, text.size - word.size);
    return glob_match(search->glob,
                      (struct bl_text){search->other, name.size + text.size - word.size});
}

/* Returns whether the word is followed by something other than a command. */
static bool command_has_operand(struct bl_text word)
{
    static const char *const words[] = {"[[", "case", "for", "function", "in", "select", NULL};
    return shell_is_listed(word, words);
}

/* Returns whether `text`, or a command that it leads to, matches. Skips assignments and the words
 * of control structures, and looks through programs that run others. `is_command`: it certainly
 * begins with a command. */
static bool command_leads(const struct command_search *search, struct bl_text text, bool is_command)
{
    bool carried = false;
    while (text.size > 0) {
        struct bl_text first = shell_first_word(text);
        struct bl_text bare = shell_without_path(text), word = shell_first_word(bare);
        bool assigns = shell_is_assignment(first), reserved = shell_is_reserved(word);
        if (glob_match(search->glob, text) || glob_match(search->glob, bare) ||
            command_disguised(search, bare, is_command))
            return true;
        /* The assigned value may be a command: GIT_PAGER='rm x' git log. */
        const char *sign = assigns ? memchr(first.data, '=', first.size) : NULL;
        if (sign != NULL) {
            size_t size = (size_t)(sign + 1 - text.data);
            struct bl_text value = {text.data + size, text.size - size};
            if (glob_match(search->glob, value) ||
                glob_match(search->glob, shell_without_path(value)))
                return true;
        }
        carried = carried || shell_runs_others(word);
        is_command = is_command && (assigns || reserved) && !command_has_operand(word);
        if (!carried && !assigns && !reserved)
            return false;
        /* A pattern that begins with a star has already been compared with the rest. */
        size_t size = first.size + 1;
        if (size > text.size || search->glob.data[0] == '*')
            return false;
        text = (struct bl_text){text.data + size, text.size - size};
    }
    return false;
}

static bool command_fits(const struct command_search *search, struct bl_text text, bool is_command)
{
    bool varies =
        memchr(text.data, '$', text.size) != NULL || memchr(text.data, ',', text.size) != NULL;
    if (glob_match(search->glob, bl_text_trim(text)))
        return true;
    for (int reading = 0; reading < (varies ? READING_COUNT : 1); reading++) {
        struct bl_text read = command_unquote(text, (enum command_reading)reading, search->scratch);
        if (command_leads(search, read, is_command && reading == READ_AS_WRITTEN))
            return true;
    }
    return false;
}

/* Returns the first word of a pattern, if it is literal. */
static struct bl_text command_glob_name(struct bl_text glob)
{
    struct bl_text word = shell_first_word(glob);
    return memchr(word.data, '*', word.size) == NULL ? word : (struct bl_text){0};
}

bool command_mentions(struct bl_arena *arena, struct bl_text command,
                      const struct command_parts *parts, struct bl_text glob)
{
    struct bl_arena_mark mark = bl_arena_mark(arena);
    struct command_search search = {
        .glob = glob,
        .name = command_glob_name(glob),
        .scratch = bl_arena_alloc(arena, command.size + 1),
        .other = bl_arena_alloc(arena, command.size + glob.size + 1),
    };
    bool found = command_fits(&search, command, false);
    for (size_t i = 0; i < parts->count && !found; i++)
        found = command_fits(&search, parts->parts[i], !parts->opaque);
    /* Between all possible separators of commands, whether quoted or not. */
    for (size_t from = 0; from < command.size && !found;) {
        size_t to = from;
        while (to < command.size && memchr(";|&\n()`{}<>!", command.data[to], 12) == NULL)
            to++;
        found = to > from &&
                command_fits(&search, (struct bl_text){command.data + from, to - from}, false);
        from = to + 1;
    }
    bl_arena_rewind(arena, mark);
    return found;
}

/* ---- Patterns -------------------------------------------------------------------------------- */

/* Returns whether "with any arguments" would allow too much for a program: it runs its arguments,
 * or can destroy data. For these, the pattern is the exact command. */
static bool command_is_cautious(struct bl_text word)
{
    static const char *const words[] = {
        "awk",    "bun",     "chmod",     "chown",   "cp",      "curl",  "dd",       "deno",
        "kill",   "ln",      "lua",       "mkfs",    "mv",      "node",  "npx",      "perl",
        "php",    "pkill",   "python",    "python3", "rm",      "rmdir", "rsync",    "ruby",
        "scp",    "sed",     "shred",     "socat",   "source",  "tee",   "truncate", "uvx",
        "wget",   ".",       "killall",   "nc",      "nsenter", "tclsh", "vim",      "docker",
        "podman", "kubectl", "systemctl", NULL};
    return shell_runs_others(word) || shell_is_listed(word, words);
}

/* Programs without subcommands that only print or count their arguments. */
static bool command_takes_words(struct bl_text word)
{
    static const char *const words[] = {"basename", "dirname", "echo", "false",
                                        "seq",      "sleep",   "true", NULL};
    return shell_is_listed(word, words);
}

/* Returns whether the word stands for itself: no quotes, no expansion, nothing that a star of a
 * pattern could match. */
static bool builtin_command_is_plain(struct bl_text word)
{
    for (size_t i = 0; i < word.size; i++)
        if (!shell_is_name(word.data[i]) && memchr("./-+:@,%", word.data[i], 8) == NULL)
            return false;
    return word.size > 0;
}

/* Returns whether the text, used as a pattern, matches only itself. */
static bool is_exact(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '*' || iscntrl((unsigned char)text.data[i]))
            return false;
    return bl_text_trim(text).size == text.size && permission_balanced(text);
}

/* Returns a pattern of program and subcommand, or of the program alone before an option. */
static struct bl_text pattern_of_part(struct bl_arena *arena, struct bl_text part, bool alone)
{
    struct bl_text word = shell_first_word(part), program = shell_without_path(word), second = {0};
    if (!builtin_command_is_plain(word) || word.data[0] == '-')
        return (struct bl_text){0};
    if (part.size > word.size)
        second = shell_first_word(
            (struct bl_text){part.data + word.size + 1, part.size - word.size - 1});
    bool option = second.size > 0 && second.data[0] == '-';
    /* Git's options before the subcommand can make it run anything. */
    if (command_guard(arena, part, alone) != COMMAND_GUARD_NONE || command_is_cautious(program) ||
        (option && bl_text_equal(program, BL_TEXT("git"))))
        return is_exact(part) ? part : (struct bl_text){0};
    bool named = builtin_command_is_plain(second) && !option && !command_takes_words(program);
    size_t size = word.size + (named ? 1 + second.size : 0);
    return bl_arena_printf(arena, BL_TEXT_FORMAT " *", (int)size, part.data);
}

static bool command_has_pattern(const struct bl_text *patterns, size_t count, struct bl_text own)
{
    for (size_t i = 0; i < count; i++)
        if (bl_text_equal(patterns[i], own))
            return true;
    return false;
}

size_t command_patterns(struct bl_arena *arena, struct bl_text command,
                        struct bl_text ret_patterns[COMMAND_PATTERNS_MAX])
{
    struct command_parts parts;
    size_t count = 0;
    command_split(arena, command, &parts);
    for (size_t i = 0; parts.complex == NULL && i < parts.count; i++) {
        struct bl_text own = pattern_of_part(arena, parts.parts[i], parts.count == 1);
        if (own.size == 0 || own.size > PATTERN_MAX)
            return 0;
        if (command_has_pattern(ret_patterns, count, own))
            continue;
        if (count == COMMAND_PATTERNS_MAX)
            return 0;
        ret_patterns[count++] = own;
    }
    return count;
}
