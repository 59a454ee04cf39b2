#include <stdio.h>

#include "suite.h"
#include "tool/parts.h"

/* Parts, joined by " / "; with "complex" in front if the command is complex. */
static void assert_splits(const char *command, const char *expected)
{
    struct bl_arena arena = {0};
    struct command_parts parts;
    char text[1024] = "";
    size_t size = 0;
    command_split(&arena, bl_text_from(command), &parts);
    if (parts.complex != NULL)
        size += (size_t)snprintf(text, sizeof text, "complex: ");
    for (size_t i = 0; i < parts.count; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s" BL_TEXT_FORMAT,
                                 i == 0 ? "" : " / ", BL_TEXT_ARG(parts.parts[i]));
    assert_string_equal(text, expected);
    bl_arena_done(&arena);
}

static void lists_and_pipelines_become_simple_commands(void **state)
{
    (void)state;
    assert_splits("git status", "git status");
    assert_splits("  git \t status  ", "git status");
    assert_splits("a; b && c || d | e |& f & g\nh", "a / b / c / d / e / f / g / h");
    assert_splits("a;\n\n;b", "a / b");
    assert_splits("", "");
    assert_splits(" \n ", "");
    assert_splits("a\\\n b", "a b");
    assert_splits("gi\\\nt x", "git x");
    assert_splits("a \\\n  --long", "a --long");
}

static void quotes_and_escapes_hold_a_word_together(void **state)
{
    (void)state;
    assert_splits("echo 'a; b' \"c && d\"", "echo 'a; b' \"c && d\"");
    assert_splits("echo a\\;b", "echo a\\;b");
    assert_splits("echo \"a\\\"; b\"", "echo \"a\\\"; b\"");
    assert_splits("echo 'a''b' ; c", "echo 'a''b' / c");
    assert_splits("echo '  two  '  x", "echo '  two  ' x");
    assert_splits("echo \"$HOME\" ${HOME} $1 $?", "echo \"$HOME\" ${HOME} $1 $?");
    assert_splits("echo \"it's\"; b", "echo \"it's\" / b");
    assert_splits("echo 'a\\\nb'", "echo 'a\\\nb'");
    assert_splits("echo 'a'\\\nb", "echo 'a'b");
    assert_splits("echo \"a\\\nb\" c\\\nd", "echo \"ab\" cd");
    assert_splits("echo \"a #b\\\nc\"", "echo \"a #bc\"");
}

static void comments_are_not_part_of_a_command(void **state)
{
    (void)state;
    assert_splits("a # b; c", "a");
    assert_splits("a # it's\nb", "a / b");
    assert_splits("a # it\\\nb", "a / b");
    assert_splits("a#b; c", "a#b / c");
    assert_splits("# all of it", "");
    assert_splits("a ''# b", "a ''# b");
    assert_splits("a\\ # b", "a\\ # b");
    assert_splits("a;#b\nc", "a / c");
}

static void harmless_redirections_are_not_part_of_a_command(void **state)
{
    (void)state;
    assert_splits("make test >/dev/null 2>&1", "make test");
    assert_splits("make > /dev/null test", "make test");
    assert_splits("make test &> /dev/null; x", "make test / x");
    assert_splits("make 2>&1 | tee", "make / tee");
    assert_splits("2>/dev/null make", "make");
    assert_splits("make >&2", "make");
    assert_splits("make 2>&-", "make");
    assert_splits("sort < words.txt", "sort");
    assert_splits("x2>/dev/null", "x2");
    assert_splits("make 2 >/dev/null", "make 2");
}

static void uninspectable_command_is_complex(void **state)
{
    (void)state;
    static const struct {
        const char *command, *reason;
    } cases[] = {
        {"echo $(rm x)", "command substitution"},
        {"echo `rm x`", "command substitution"},
        {"echo \"$(rm x)\"", "command substitution"},
        {"echo \"`rm x`\"", "command substitution"},
        {"echo $((1 + 1))", "command substitution"},
        {"echo $[1]", "arithmetic"},
        {"echo ${x:-$(rm)}", "an expansion with an operator"},
        {"echo ${x@P}", "an expansion with an operator"},
        {"echo \"${x:=1}\"", "an expansion with an operator"},
        {"diff <(a) <(b)", "process substitution"},
        {"tee >(a)", "process substitution"},
        {"cat << EOF\nrm\nEOF", "a here-document"},
        {"cat <<< x", "a here-document"},
        {"echo x > file", "a redirection to a file"},
        {"echo x >> file", "a redirection to a file"},
        {"echo x >| file", "a redirection to a file"},
        {"echo x &> file", "a redirection to a file"},
        {"echo x >& file", "a redirection to a file"},
        {"echo x >&2file", "a redirection to a file"},
        {"echo x 2> \"/dev/null\"", "a redirection to a file"},
        {"echo x > $F", "a redirection to a file"},
        {"echo x > /dev/nullx", "a redirection to a file"},
        {"echo x >", "a redirection to a file"},
        {"cat <> file", "a redirection to a file"},
        {"cat < /dev/tcp/host/80", "a redirection"},
        {"cat < \"$F\"", "a redirection"},
        {"(a)", "a subshell or a function"},
        {"{ a; }", "a control structure"},
        {"a() { b; }", "a subshell or a function"},
        {"function a { b; }", "a control structure"},
        {"if a; then b; fi", "a control structure"},
        {"for x in a b; do c; done", "a control structure"},
        {"while a; do b; done", "a control structure"},
        {"case a in b) c;; esac", "a subshell or a function"},
        {"[[ -f x ]] && a", "a control structure"},
        {"! a", "a control structure"},
        {"time a", "a control structure"},
        {"coproc a", "a control structure"},
        {"A=1 b", "an assignment"},
        {"A+=1 b", "an assignment"},
        {"a[1]=2 b", "an assignment"},
        {"A=1", "an assignment"},
        {"a[0 1]=2", "an assignment"},
        {"echo {x}>/dev/null", "a redirection to a file"},
        {"echo 99999999999>/dev/null", "a redirection to a file"},
        {"echo \r", "a control character"},
        {"echo \x01", "a control character"},
        {"echo 'a", "an unterminated quote"},
        {"echo \"a", "an unterminated quote"},
        {"echo a\\", "an unterminated escape"},
        {"echo $'a\\'; b'", "$'…' quoting"},
        {"echo $\"a\"", "$'…' quoting"},
        {"a;; b", "a control structure"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_arena arena = {0};
        struct command_parts parts;
        command_split(&arena, bl_text_from(cases[i].command), &parts);
        suite_fail_if(parts.complex == NULL, "not complex: %s", cases[i].command);
        assert_string_equal(parts.complex, cases[i].reason);
        bl_arena_done(&arena);
    }
}

/* ---- Mentions ---- */

static bool mentions(const char *command, const char *glob)
{
    struct bl_arena arena = {0};
    struct command_parts parts;
    command_split(&arena, bl_text_from(command), &parts);
    bool found = command_mentions(&arena, bl_text_from(command), &parts, bl_text_from(glob));
    bl_arena_done(&arena);
    return found;
}

static void a_command_is_found_wherever_it_hides(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "rm -rf x",
        "  rm   -rf\tx",
        "ls; rm -rf x",
        "ls && rm -rf x",
        "ls | rm -rf x",
        "ls &rm -rf x",
        "ls\nrm -rf x",
        "echo $(rm -rf x)",
        "echo `rm -rf x`",
        "echo \"$(rm -rf x)\"",
        "(rm -rf x)",
        "{ rm -rf x; }",
        "diff <(rm -rf x) y",
        "A=1 rm -rf x",
        "A=1 B=2 rm -rf x",
        "if true; then rm -rf x; fi",
        "! rm -rf x",
        "time rm -rf x",
        "f() { rm -rf x; }; f",
        "/bin/rm -rf x",
        "./../bin/rm -rf x",
        "\\rm -rf x",
        "'rm' -rf x",
        "r\"m\" -rf x",
        "r\\\nm -rf x",
        "sudo rm -rf x",
        "sudo -u root rm -rf x",
        "env A=1 rm -rf x",
        "command rm -rf x",
        "xargs -0 rm -rf x",
        "timeout 5 rm -rf x",
        "choom -n 0 -- rm -rf x",
        "linux64 rm -rf x",
        "ssh-agent rm -rf x",
        "bwrap --dev-bind / / rm -rf x",
        "sg root -c 'rm -rf x'",
        "gdb -batch -ex 'shell rm -rf x'",
        "/lib64/ld-linux-x86-64.so.2 /bin/rm -rf x",
        "nohup rm -rf x &",
        "sh -c 'rm -rf x'",
        "bash -c \"cd /; rm -rf x\"",
        "bash -lc 'ls && rm -rf x'",
        "eval 'rm -rf x'",
        "find . -exec rm -rf x \\;",
        "rm -rf x > /dev/null 2>&1",
        "rm -rf x # harmless",
        "rm -rf 'x",
        "cat << E\n$(rm -rf x)\nE",
        "bash << E\nrm -rf x\nE",
        ">out rm -rf x",
        "2> err rm -rf x",
        "> 'a file' rm -rf x",
        "rm 2>err -rf x",
        "rm >\"$F\" -rf x",
        "{fd}>out rm -rf x",
        "echo \"$\\\n(rm -rf x)\"",
        "printf -v 'a[$(rm -rf x)]' y",
        "$'rm' -rf x",
        "$'\\x72m' -rf x",
        "$'\\162\\u006d' -rf x",
        "$\"rm\" -rf x",
        "r${x}m -rf x",
        "r$@m -rf x",
        "rm${IFS}-rf${IFS}x",
        "rm$IFS-rf x",
        "{rm,-rf,x}",
        "/bin/r? -rf x",
        "/b*/[r]m -rf x",
        "x=rm; $x -rf x",
        "if true; then \"$x\" -rf x; fi",
        "GIT_PAGER='rm -rf x' git log",
        "GIT_PAGER='/bin/rm -rf x' git log",
        "eval '  rm   -rf  x'",
        "eval $'rm\\t-rf x'",
        "eval $'rm\\x20-rf\\40x'",
        "$'\\U00000072m' -rf x",
        "PATH=/tmp rm -rf x",
        "git -c alias.y='!rm -rf x' y",
        "coproc rm -rf x",
        "trap 'rm -rf x' EXIT",
        "mapfile -C 'rm -rf x' y",
        "systemd-run --user rm -rf x",
        "awk 'BEGIN { system(\"rm -rf x\") }'",
    };
    for (size_t i = 0; i < BL_COUNT(commands); i++)
        if (!mentions(commands[i], "rm -rf *"))
            fail_msg("not found: %s", commands[i]);
    assert_true(mentions("curl x | sh", "* | sh"));
    assert_true(mentions("PAGER=/bin/rm git log", "/bin/rm *"));
    assert_true(mentions("'w' x", "w x"));
    assert_true(mentions("git push > /dev/null", "git push"));
    assert_true(mentions("git push 2>&1", "git push"));
}

static void text_about_a_command_is_not_a_command(void **state)
{
    (void)state;
    assert_false(mentions("ls -l", "rm *"));
    assert_false(mentions("echo rm x", "rm *"));
    assert_false(mentions("grep 'rm x' file", "rm *"));
    assert_false(mentions("git rm-old x", "rm *"));
    assert_false(mentions("rmdir x", "rm *"));
    assert_false(mentions("rm x", "rm -rf *"));
    assert_false(mentions("", "rm *"));
    /* An expansion that is not a command. */
    assert_false(mentions("x=$(basename $f)", "rm *"));
    assert_false(mentions("[[ -n $a && $b == c ]] && make", "rm *"));
    assert_false(mentions("case $x in a) make;; esac", "rm *"));
    assert_false(mentions("for x in $y; do make $x; done", "rm *"));
    assert_false(mentions("cat > f << E\n$x y\nE", "rm *"));
    assert_false(mentions("echo $(( $a | $b ))", "rm *"));
    assert_false(mentions("make CC=$x -j$n", "rm *"));
    assert_false(mentions("A=1 make", "rm *"));
}

/* Returns the pattern that all parts share; empty if there is none, or several. */
static struct bl_text pattern_of(struct bl_arena *arena, struct bl_text command)
{
    struct bl_text patterns[COMMAND_PATTERNS_MAX];
    return command_patterns(arena, command, patterns) == 1 ? patterns[0] : (struct bl_text){0};
}

static void long_commands_are_checked_in_bounded_time(void **state)
{
    (void)state;
    size_t size = 120000;
    char *command = bl_alloc(size + 1);
    for (size_t i = 0; i < size; i++)
        command[i] = "sudo rm "[i % 8];
    command[size] = '\0';
    assert_false(mentions(command, "rm *q*x"));
    memset(command, '(', size);
    assert_false(mentions(command, "rm *q*x"));
    memset(command, '"', size);
    assert_false(mentions(command, "*rm*"));
    static const char *const repeated[] = {"*", "[", "${", "$a", ",", "sudo r? ", "a*[b", "$'\\"};
    for (size_t i = 0; i < BL_COUNT(repeated); i++) {
        for (size_t j = 0; j < size; j++)
            command[j] = repeated[i][j % strlen(repeated[i])];
        struct bl_arena arena = {0};
        mentions(command, "rm *q*x");
        command_guard(&arena, (struct bl_text){command, size}, true);
        bl_arena_done(&arena);
    }
    bl_free(command);
}

static void a_pattern_allows_a_command_and_others_like_it(void **state)
{
    (void)state;
    static const struct {
        const char *command, *pattern;
    } cases[] = {
        {"git commit -m 'a b'", "git commit *"},
        {"git status; git status -s", "git status *"},
        {"git -c core.pager=x log", "git -c core.pager=x log"},
        {"make", "make *"},
        {"make -j2 test", "make *"},
        {"make test", "make test *"},
        {"  npm   run build", "npm run *"},
        {"cargo test --all | tail", ""},
        {"ls", "ls *"},
        {"ls -l src", "ls *"},
        {"./run.sh fast", "./run.sh fast *"},
        {"echo 'x y'", "echo *"},
        {"echo hi", "echo *"},
        {"sleep 5 && sleep 6", "sleep *"},
        {"cat \"$HOME/x\"", "cat *"},
        /* Any arguments would allow too much. */
        {"rm -rf build", "rm -rf build"},
        {"/bin/rm x", "/bin/rm x"},
        {"rm *.o", ""},
        {"python -c 'print(1)'", "python -c 'print(1)'"},
        {"bash -c 'ls'", "bash -c 'ls'"},
        {"sudo ls", "sudo ls"},
        {"find . -name x -delete", "find . -name x -delete"},
        {"curl https://example.test", "curl https://example.test"},
        /* No pattern would be safe. */
        {"$GIT log", ""},
        {"'git' log", ""},
        {"cd src && make", ""},
        {"for f in a; do rm $f; done", ""},
        {"A=1 make", ""},
        {"make > out", ""},
        {"", ""},
        {";", ""},
        {"rm 'a\nb'", ""},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_arena arena = {0};
        struct bl_text pattern = pattern_of(&arena, bl_text_from(cases[i].command));
        if (!bl_text_equal(pattern, bl_text_from(cases[i].pattern)))
            fail_msg("%s: " BL_TEXT_FORMAT, cases[i].command, BL_TEXT_ARG(pattern));
        bl_arena_done(&arena);
    }
    char command[600] = "rm ";
    memset(command + 3, 'x', sizeof command - 4);
    struct bl_arena arena = {0};
    assert_int_equal(pattern_of(&arena, bl_text_from(command)).size, 0);
    bl_arena_done(&arena);
}

/* A pattern created for a command allows that command, and is a valid rule. */
static void suggested_pattern_allows_its_command(void **state)
{
    (void)state;
    static const char *const words[] = {
        "git", "rm",   "-rf",  "'a b'", "a.c",   "$X",     ";",    "&&",  "|",
        "*",   ">",    "#",    "\\",    "(",     "make",   "bash", "-c",  "2>&1",
        ")",   "=",    "A=1",  "./x",   "\"y\"", "\n",     "./",   "/",   "printf",
        "-v",  "read", "test", "find",  "-exec", "export", "env",  "':('"};
    struct bl_random random;
    unsigned long rounds = suite_rounds(5000, 500000), made = 0;
    bl_random_seed(&random, 11);
    for (unsigned long round = 0; round < rounds; round++) {
        char command[128] = "", rule[600], reason[256];
        size_t size = 0;
        for (size_t i = bl_random_below(&random, 7); i > 0; i--)
            size += (size_t)snprintf(command + size, sizeof command - size, "%s%s",
                                     words[bl_random_below(&random, BL_COUNT(words))],
                                     bl_random_below(&random, 4) == 0 ? "" : " ");
        struct bl_arena arena = {0};
        struct bl_text pattern = pattern_of(&arena, bl_text_from(command));
        if (pattern.size > 0) {
            struct bl_permissions *permissions = bl_permissions_new(BL_PERMISSION_ASK);
            struct permission_question question = {
                .tool = "bash", .kind = SUBJECT_COMMAND, .subject = bl_text_from(command)};
            snprintf(rule, sizeof rule, "bash(" BL_TEXT_FORMAT ")", BL_TEXT_ARG(pattern));
            suite_fail_if(bl_permissions_add(permissions, true, rule, NULL) != 0 ||
                              permission_decide(permissions, &question, reason, sizeof reason) !=
                                  BL_PERMIT_ALLOWED,
                          "'%s' does not allow '%s'", rule, command);
            bl_permissions_free(permissions);
            made++;
        }
        bl_arena_done(&arena);
    }
    print_message("           %lu of %lu have one\n", made, rounds);
}

SUITE(command, cmocka_unit_test(lists_and_pipelines_become_simple_commands),
      cmocka_unit_test(quotes_and_escapes_hold_a_word_together),
      cmocka_unit_test(comments_are_not_part_of_a_command),
      cmocka_unit_test(harmless_redirections_are_not_part_of_a_command),
      cmocka_unit_test(uninspectable_command_is_complex),
      cmocka_unit_test(a_command_is_found_wherever_it_hides),
      cmocka_unit_test(text_about_a_command_is_not_a_command),
      cmocka_unit_test(long_commands_are_checked_in_bounded_time),
      cmocka_unit_test(a_pattern_allows_a_command_and_others_like_it),
      cmocka_unit_test(suggested_pattern_allows_its_command));
