/* Tests rules against bash itself: random commands are generated from a grammar of shell syntax,
 * and each one that the rules allow is run by bash, in a folder where the builtins named by the
 * rules have no effect. No other program may run, and no file may change. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"
#include "tool/parts.h"

#define COMMAND_SIZE 512u
#define OUTPUT_SIZE  4096u
#define PATIENCE_MS  60000

/* ---- The folder ---- */

struct lab {
    char folder[64];
    char ran[96]; /* exists if a program ran that should not */
    char work[96];
    char path[96]; /* for the environment */
    char home[96];
    unsigned long made, run;
};

/* Names that are options and subscripts to builtins, for globs to find; and input for `read`. */
static const char *const work_files[] = {"in", "f", "-v", "a[$(cmd)]", "PATH"};
static const char content[] = "a[$(cmd)] -v\n";

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void lab_open(struct lab *lab)
{
    static const char *const markers[] = {"cmd", "touch", "rm", "id", "a", "x", "-v", "in"};
    char bin[96], script[160], ok[128];
    *lab = (struct lab){.folder = "/tmp/belay-differential-XXXXXX"};
    assert_non_null(mkdtemp(lab->folder));
    snprintf(lab->ran, sizeof lab->ran, "%s/ran", lab->folder);
    snprintf(lab->work, sizeof lab->work, "%s/work", lab->folder);
    snprintf(lab->path, sizeof lab->path, "PATH=%s/bin", lab->folder);
    snprintf(lab->home, sizeof lab->home, "HOME=%s/work", lab->folder);
    snprintf(bin, sizeof bin, "%s/bin", lab->folder);
    assert_int_equal(mkdir(bin, 0755), 0);
    assert_int_equal(mkdir(lab->work, 0755), 0);
    snprintf(script, sizeof script, "#!/bin/sh\n: > %s\n", lab->ran);
    for (size_t i = 0; i < BL_COUNT(markers); i++)
        write_file(bin, markers[i], script);
    for (size_t i = 0; i < BL_COUNT(work_files); i++)
        write_file(lab->work, work_files[i], content);
    snprintf(ok, sizeof ok, "%s/ok", bin);
    assert_int_equal(symlink("/bin/true", ok), 0);
}

static int lab_remove(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

static void lab_close(struct lab *lab)
{
    nftw(lab->folder, lab_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- Bash ---- */

/* Runs the command, and waits for all processes that it starts. Its output is in `said`. */
static void lab_run(struct lab *lab, const char *command, char said[OUTPUT_SIZE])
{
    char *const arguments[] = {"bash", "--noprofile", "--norc", "-c", (char *)command, NULL};
    char *const environment[] = {lab->path,        lab->home, "V=-v", "E=a[$(cmd)]",
                                 "W=-v a[$(cmd)]", "N=%n",    NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], status;
    size_t size = 0;
    pid_t child;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    /* The last one is for programs whose output goes elsewhere: this waits for them, too. */
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 9);
    posix_spawn_file_actions_addchdir_np(&actions, lab->work);
    /* Other tests may have used up all processes for a moment. */
    for (int tries = 0;
         posix_spawn(&child, "/bin/bash", &actions, NULL, arguments, environment) != 0; tries++) {
        assert_true(tries < 600);
        usleep(100000);
    }
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    for (;;) {
        struct pollfd ready = {ends[0], POLLIN, 0};
        char rest[OUTPUT_SIZE];
        if (poll(&ready, 1, PATIENCE_MS) <= 0) {
            kill(child, SIGKILL);
            fail_msg("it does not end: %s", command);
        }
        bool full = size + 1 >= OUTPUT_SIZE;
        ssize_t count =
            read(ends[0], full ? rest : said + size, full ? sizeof rest : OUTPUT_SIZE - 1 - size);
        if (count <= 0)
            break;
        size += full ? 0 : (size_t)count;
    }
    said[size] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static bool lab_is_untouched(const struct lab *lab)
{
    size_t count = 0;
    DIR *folder = opendir(lab->work);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct stat status;
        if (entry->d_name[0] == '.')
            continue;
        count++;
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            status.st_size != (off_t)strlen(content))
            count = 1000;
    }
    closedir(folder);
    return count == BL_COUNT(work_files) && access(lab->ran, F_OK) != 0;
}

/* Returns false if bash did more than was allowed. */
static bool lab_is_true_to_rule(struct lab *lab, const char *command)
{
    char said[OUTPUT_SIZE];
    lab_run(lab, command, said);
    lab->run++;
    return lab_is_untouched(lab) && strstr(said, "command not found") == NULL;
}

/* ---- Rules ---- */

static const char *const rule_texts[] = {"bash(echo *)", "bash(printf *)", "bash(test *)",
                                         "bash([ *)",    "bash(read *)",   "bash(true)",
                                         "bash(ok *)"};

/* One object for each rule, and a last one for all of them. */
struct rulebook {
    struct bl_permissions *books[BL_COUNT(rule_texts) + 1];
};

static void rulebook_open(struct rulebook *book)
{
    size_t all = BL_COUNT(rule_texts);
    book->books[all] = bl_permissions_new(BL_PERMISSION_ASK);
    for (size_t i = 0; i < all; i++) {
        book->books[i] = bl_permissions_new(BL_PERMISSION_ASK);
        assert_int_equal(bl_permissions_add(book->books[i], true, rule_texts[i], NULL), 0);
        assert_int_equal(bl_permissions_add(book->books[all], true, rule_texts[i], NULL), 0);
    }
}

static void rulebook_close(struct rulebook *book)
{
    for (size_t i = 0; i < BL_COUNT(book->books); i++)
        bl_permissions_free(book->books[i]);
}

static bool rulebook_allows(const struct bl_permissions *permissions, const char *command)
{
    struct permission_question question = {
        .tool = "bash", .kind = SUBJECT_COMMAND, .subject = bl_text_from(command)};
    char reason[256];
    return permission_decide(permissions, &question, reason, sizeof reason) == BL_PERMIT_ALLOWED;
}

/* ---- The grammar ---- */

struct writer {
    struct bl_random random;
    char text[COMMAND_SIZE];
    size_t size;
};

static uint64_t below(struct writer *writer, uint64_t limit)
{
    return bl_random_below(&writer->random, limit);
}

static void put(struct writer *writer, const char *text)
{
    size_t size = strlen(text);
    if (writer->size + size + 1 >= COMMAND_SIZE)
        return;
    memcpy(writer->text + writer->size, text, size + 1);
    writer->size += size;
}

#define PUT_ONE(writer, list) put(writer, list[below(writer, BL_COUNT(list))])

static const char *const names[] = {"echo", "printf", "test", "[", "read", "true", "ok"};
static const char *const odd_names[] = {
    "\\echo",     "ec''ho",  "'echo'",   "$V",     "$_",        "command", "builtin",    "eval",
    "exec",       "let",     "declare",  "export", "unset",     "mapfile", "wait -n -p", "getopts",
    "compgen -W", "hash -p", "trap",     "source", "[[",        "((",      "touch",      "cmd",
    "ech\\o",     "e*o",     "{echo,a}", "echo\\", "set -k; ok"};
static const char *const plain_words[] = {
    "a",  "x",   "-v",  "-R",       "-n",   "-a",  "-t",     "-u",   "-f",  "%s",    "%n",
    "--", "-",   "=",   "!=",       "-eq",  "!",   "1",      "PATH", "x1",  "hello", "RANDOM",
    "]",  "{}",  "in",  "x=1",      "-rn1", "%5n", "a[0]",   "a=(",  "-vx", "x[y",   "SECONDS",
    "-o", "\\;", "%%n", "-aRANDOM", "\\(",  "\\)", "OPTIND", "_",    "=~"};
static const char *const quoted_words[] = {"'a[$(cmd)]'",
                                           "'$(cmd)'",
                                           "'a[`cmd`]'",
                                           "\"a;b\"",
                                           "'; cmd'",
                                           "\"it's\"",
                                           "'say \"x\"'",
                                           "\"\\$(cmd)\"",
                                           "\\$\\(cmd\\)",
                                           "'%s\n'",
                                           "\"a\\\\\"",
                                           "''",
                                           "\"\"",
                                           "'-v'",
                                           "\"-v\"",
                                           "\\-v",
                                           "a'['\\$'(cmd)]'",
                                           "'x\ny'",
                                           "\"%n\"",
                                           "'#'",
                                           "\"# x\"",
                                           "\"\\\"\"",
                                           "'\\'",
                                           "a\\[\\$\\(cmd\\)\\]",
                                           "\"a[\\`cmd\\`]\"",
                                           "\\\\",
                                           "'{a,b}'",
                                           "\"*\""};
static const char *const varying_words[] = {"$V",
                                            "\"$V\"",
                                            "$E",
                                            "\"$E\"",
                                            "$W",
                                            "\"$W\"",
                                            "${V}",
                                            "\"${E}\"",
                                            "$_",
                                            "\"$_\"",
                                            "$@",
                                            "\"$@\"",
                                            "\"$*\"",
                                            "$N",
                                            "\"$N\"",
                                            "$BASH_EXECUTION_STRING",
                                            "$?",
                                            "*",
                                            "-?",
                                            "a*",
                                            "?",
                                            "[a-z]*",
                                            "{-v,x}",
                                            "{a,b}",
                                            "{1..3}",
                                            "x{,y}",
                                            "~",
                                            "$x",
                                            "$",
                                            "\"$\"",
                                            "$$",
                                            "$BASH_COMMAND",
                                            "P*",
                                            "\"x$V\"",
                                            "-$x"
                                            "v",
                                            "$'-v'",
                                            "$\"-v\"",
                                            "{-v,'a[$(cmd)]'}",
                                            "$PWD",
                                            "-[v]"};
static const char *const evil_words[] = {"$(cmd)",         "`cmd`",
                                         "\"$(cmd)\"",     "\"`cmd`\"",
                                         "$((a[$(cmd)]))", "$[`cmd`]",
                                         "${x:-$(cmd)}",   "${x:`cmd`}",
                                         "${a[$(cmd)]}",   "<(cmd)",
                                         ">(cmd)",         "$'\\'$(cmd)'",
                                         "${E@P}",         "$\\\n(cmd)",
                                         "\"$\\\n(cmd)\"", "\"$\\\n{x:-`cmd`}\"",
                                         "\"\\\n`cmd`\"",  "$\\\n[`cmd`]",
                                         "\\\\\n(cmd)",    "\"\\\\\n$(cmd)\"",
                                         "'\\\n'$(cmd)",   "#\\\n$(cmd)",
                                         "${!E}",          "$((E))",
                                         "x=$(cmd)",       "\"${x-$\\\n(cmd)}\"",
                                         "<\\\n(cmd)",     "`\\\ncmd`",
                                         "\"'$(cmd)'\""};
static const char *const redirections[] = {">/dev/null",
                                           " 2>&1",
                                           " <in",
                                           " < in",
                                           " >f",
                                           " >new",
                                           " >>f",
                                           "<>new",
                                           " &>new",
                                           ">|f",
                                           " >&new",
                                           " 2>&-",
                                           " <<E\n$(cmd)\nE\n",
                                           " <<'E'\nx\nE\n",
                                           " <<<$(cmd)",
                                           "<<<x",
                                           " {x}>/dev/null",
                                           "{x}>/dev/null",
                                           " {a['$(cmd)']}>/dev/null",
                                           "99999999999>/dev/null",
                                           " >&2",
                                           " 3<in",
                                           " </dev/null",
                                           " >\\\nnew",
                                           " 2\\\n>new",
                                           "{\\\nx}>new",
                                           " >/dev/nul\\\nl",
                                           " >$V",
                                           " >\"new\"",
                                           " <&0"};
static const char *const separators[] = {"; ",       ";",       "\n",     " && ",    " || ",
                                         " | ",      " & ",     "&",      "|&",      " |\n",
                                         " \\\n&& ", " #'\n",   " # x\n", "&\\\n& ", ";;",
                                         "#x;",      "\n#\\\n", " #\\\n", "\\\n;",   "\\\\\n"};
static const char *const prefixes[] = {
    "A=1 ",    "PATH=. ", "! ",          "time ",    ">/dev/null ", "2>&1 ",
    "if ",     "then ",   "{ ",          "(",        "a[0]=1 ",     "a['$(cmd)' ]=1 ",
    "coproc ", "env ",    "\\\n",        "command ", "builtin ",    "eval ",
    "exec ",   "f() ",    "function f ", ">new ",    "<in ",        "BASH_ENV=in "};
static const char *const strays[] = {"'",    "\"",   "\\",   "$",    "`",    "(",       ")", "{",
                                     "}",    "#",    "\n",   ";",    "&",    "|",       "<", ">",
                                     "\\\n", "\\\n", "\\\n", " ",    "\t",   "!",       "=", "[",
                                     "]",    "*",    "\r",   "\x01", "\x7f", "\xC3\xA9"};

static void write_word(struct writer *writer)
{
    uint64_t count = 1 + (below(writer, 4) == 0 ? below(writer, 3) : 0);
    for (; count > 0; count--) {
        uint64_t kind = below(writer, 40);
        if (kind < 18)
            PUT_ONE(writer, plain_words);
        else if (kind < 29)
            PUT_ONE(writer, quoted_words);
        else if (kind < 38)
            PUT_ONE(writer, varying_words);
        else
            PUT_ONE(writer, evil_words);
    }
}

static void write_simple(struct writer *writer)
{
    if (below(writer, 16) == 0)
        PUT_ONE(writer, prefixes);
    bool odd = below(writer, 24) == 0;
    uint64_t name = below(writer, BL_COUNT(names));
    if (odd)
        PUT_ONE(writer, odd_names);
    else
        put(writer, names[name]);
    for (uint64_t count = below(writer, 5); count > 0; count--) {
        put(writer, below(writer, 12) == 0 ? "\t " : " ");
        write_word(writer);
        if (below(writer, 20) == 0)
            PUT_ONE(writer, redirections);
    }
    if (!odd && strcmp(names[name], "[") == 0 && below(writer, 8) > 0)
        put(writer, " ]");
    if (below(writer, 8) == 0)
        PUT_ONE(writer, redirections);
}

/* Inserts a byte or two that the grammar would not generate. */
static void write_stray(struct writer *writer)
{
    const char *stray = strays[below(writer, BL_COUNT(strays))];
    size_t size = strlen(stray), at = (size_t)below(writer, writer->size + 1);
    if (writer->size + size + 1 >= COMMAND_SIZE)
        return;
    memmove(writer->text + at + size, writer->text + at, writer->size - at + 1);
    memcpy(writer->text + at, stray, size);
    writer->size += size;
}

static void write_command(struct writer *writer)
{
    writer->size = 0;
    writer->text[0] = '\0';
    for (uint64_t count = 1 + below(writer, 3); count > 0; count--) {
        write_simple(writer);
        if (count > 1)
            PUT_ONE(writer, separators);
    }
    for (uint64_t count = below(writer, 3) == 0 ? 1 + below(writer, 3) : 0; count > 0; count--)
        write_stray(writer);
}

/* ---- Tests ---- */

static bool bash_is_here(void)
{
    return access("/bin/bash", X_OK) == 0 && strcmp(tool_shell_find(), "bash") == 0;
}

static void allowed_commands_make_bash_run_nothing_else(void **state)
{
    (void)state;
    struct rulebook book;
    struct writer writer = {0};
    struct lab lab;
    if (!bash_is_here())
        suite_skip("missing program: bash");
    lab_open(&lab);
    rulebook_open(&book);
    bl_random_seed(&writer.random, 20261117);
    for (unsigned long rounds = suite_rounds(4000, 1000000); lab.made < rounds; lab.made++) {
        write_command(&writer);
        uint64_t choice = below(&writer, 2 * BL_COUNT(book.books));
        size_t which = choice < BL_COUNT(book.books) ? (size_t)choice : BL_COUNT(rule_texts);
        if (rulebook_allows(book.books[which], writer.text) &&
            !lab_is_true_to_rule(&lab, writer.text))
            fail_msg("bash ran something else, or changed a file: %s", writer.text);
    }
    print_message("           %lu commands, %lu were allowed and run\n", lab.made, lab.run);
    assert_true(lab.run > lab.made / 50);
    rulebook_close(&book);
    lab_close(&lab);
}

SUITE(differential, cmocka_unit_test(allowed_commands_make_bash_run_nothing_else));
