/* Design notes.
 *
 * For denying, a pattern is held against everything that could be a command: quotes are ignored,
 * and so is whether the text between two separators is code or data. That catches accidents and the
 * plain tricks; it cannot catch a program that is told by other means what to run. What holds
 * against that is the sandbox. */
#include <ctype.h>

#include "shell.h"

/* Of a pattern that is made for a command: people are to read it. */
#define PATTERN_MAX ((size_t)400)

/* ---- Mentions -------------------------------------------------------------------------------- */

bool shell_runs_others(struct bl_text word)
{
    static const char *const words[] = {
        "ash",    "bash",    "builtin",  "busybox", "chroot",  "command", "dash", "doas",
        "env",    "eval",    "exec",     "find",    "flock",   "ionice",  "ksh",  "nice",
        "nohup",  "nsenter", "parallel", "script",  "setpriv", "setsid",  "sh",   "ssh",
        "stdbuf", "strace",  "su",       "sudo",    "taskset", "timeout", "trap", "unshare",
        "watch",  "xargs",   "zsh",      NULL};
    return shell_is_listed(word, words);
}

/* Without quotes and escapes, blanks squeezed; into `out`, which has the room. */
static struct bl_text unquote(struct bl_text text, char *out)
{
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        if (byte == '\\' && i + 1 < text.size && text.data[i + 1] == '\n')
            i++;
        else if (shell_is_blank(byte) || byte == '\n')
            size += size > 0 && out[size - 1] != ' ' ? (out[size] = ' ', 1) : 0;
        else if (byte != '\'' && byte != '"' && byte != '\\')
            out[size++] = byte;
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

/* Does `text`, or what it leads to, fit? Steps over assignments and the words of control
 * structures, and through programs that run others. */
static bool run_fits(struct bl_text text, struct bl_text glob, char *scratch)
{
    bool carried = false;
    if (glob_match(glob, bl_text_trim(text)))
        return true;
    text = unquote(text, scratch);
    while (text.size > 0) {
        struct bl_text bare = shell_without_path(text), word = shell_first_word(bare);
        if (glob_match(glob, text) || glob_match(glob, bare))
            return true;
        carried = carried || shell_runs_others(word);
        if (!carried && !shell_is_assignment(shell_first_word(text)) && !shell_is_reserved(word))
            return false;
        /* What begins with a star has had its chance to match the rest. */
        size_t size = shell_first_word(text).size + 1;
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
    return shell_runs_others(word) || shell_is_listed(word, words);
}

/* A word that means itself: no quotes, no expansion, nothing that a star of ours could be. */
static bool is_plain(struct bl_text word)
{
    for (size_t i = 0; i < word.size; i++)
        if (!shell_is_name(word.data[i]) && memchr("./-+:@,%", word.data[i], 8) == NULL)
            return false;
    return word.size > 0;
}

/* As a pattern it means itself alone. */
static bool is_exact(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] == '*' || iscntrl((unsigned char)text.data[i]))
            return false;
    return bl_text_trim(text).size == text.size && permission_balanced(text);
}

/* Program and subcommand, or the program alone before an option. */
static struct bl_text pattern_of_part(struct bl_arena *arena, struct bl_text part, bool alone)
{
    struct bl_text word = shell_first_word(part), program = shell_without_path(word), second = {0};
    if (!is_plain(word) || word.data[0] == '-')
        return (struct bl_text){0};
    if (part.size > word.size)
        second = shell_first_word(
            (struct bl_text){part.data + word.size + 1, part.size - word.size - 1});
    bool option = second.size > 0 && second.data[0] == '-';
    /* Options before the subcommand of git can have it run anything. */
    if (command_guard(arena, part, alone) != COMMAND_GUARD_NONE || is_cautious(program) ||
        (option && bl_text_equal(program, BL_TEXT("git"))))
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
        struct bl_text own = pattern_of_part(arena, parts.parts[i], parts.count == 1);
        if (own.size == 0 || own.size > PATTERN_MAX || (i > 0 && !bl_text_equal(own, pattern)))
            return (struct bl_text){0};
        pattern = own;
    }
    return pattern;
}
