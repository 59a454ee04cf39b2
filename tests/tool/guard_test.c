#include <stdio.h>

#include "suite.h"
#include "tool/parts.h"

/* Returns whether a rule `bash(PATTERN)` allows the command, and why not. */
static bool allows(const char *pattern, const char *command, char reason[256])
{
    struct bl_permissions *permissions = bl_permissions_new(BL_PERMISSION_ASK);
    struct permission_question question = {
        .tool = "bash", .kind = SUBJECT_COMMAND, .subject = bl_text_from(command)};
    char rule[256];
    snprintf(rule, sizeof rule, "bash(%s)", pattern);
    assert_int_equal(bl_permissions_add(permissions, true, rule, NULL), 0);
    bool allowed = permission_decide(permissions, &question, reason, 256) == BL_PERMIT_ALLOWED;
    bl_permissions_free(permissions);
    return allowed;
}

struct guard_case {
    const char *pattern, *command;
};

static void assert_each(const struct guard_case *cases, size_t count, bool expected)
{
    char reason[256];
    for (size_t i = 0; i < count; i++)
        if (allows(cases[i].pattern, cases[i].command, reason) != expected)
            fail_msg("%s: %s: %s", cases[i].pattern, cases[i].command,
                     expected ? reason : "allowed");
}

static void joined_lines_are_read_as_bash_reads_them(void **state)
{
    (void)state;
    static const struct guard_case refused[] = {
        {"echo *", "echo \"$\\\n(touch pwned)\""},
        {"echo *", "echo $\\\n(touch pwned)"},
        {"echo *", "echo \"$\\\n{x:-`touch pwned`}\""},
        {"echo *", "echo $\\\n[`id`]"},
        {"echo *", "echo <\\\n(touch pwned)"},
        {"echo *", "echo x >\\\nfile"},
        {"echo *", "echo x > /dev/null\\\nx"},
        {"echo *", "echo # \\\ntouch pwned"},
        {"echo *", "echo '\\\n'; touch pwned"},
        {"echo *", "i\\\nf echo; then touch pwned; fi"},
    };
    static const struct guard_case allowed[] = {
        {"echo *", "echo a \\\n  b"},
        {"echo *", "ec\\\nho a"},
        {"echo *", "echo '$\\\n(touch x)'"},
        {"echo *", "echo a >/dev/\\\nnull"},
    };
    assert_each(refused, BL_COUNT(refused), false);
    assert_each(allowed, BL_COUNT(allowed), true);
}

static const struct guard_case evaluating[] = {
    {"printf *", "printf -v 'a[$(touch pwned)]' x"},
    {"printf *", "printf \"-v\" 'a[$(touch pwned)]' x"},
    {"printf *", "printf -va[0] x"},
    {"printf *", "printf $V 'a[$(touch pwned)]'"},
    {"printf *", "printf {-v,'a[$(touch pwned)]'} x"},
    {"printf *", "printf *"},
    {"printf *", "printf -v RANDOM %s 'a[$(touch pwned)]'"},
    {"printf *", "printf %n PATH"},
    {"printf *", "printf %5n PATH"},
    {"test *", "test -v 'a[$(touch pwned)]'"},
    {"test *", "test -R 'a[$(touch pwned)]'"},
    {"test *", "test ! -v a\\[\\$\\(touch\\ pwned\\)\\]"},
    {"test *", "test $_ 'a[$(touch pwned)]'"},
    {"test *", "test \"$_\" 'a[$(touch pwned)]'"},
    {"test *", "test -?"},
    {"test *", "test x -a \"$V\" 'a[$(touch pwned)]'"},
    {"test *", "test \"$a\" -a b"},
    {"test *", "test \"$a\" = b c"},
    {"test *", "test \"$a\" b"},
    {"test *", "test ! ! \"$a\" = b"},
    {"test *", "test -v \"$a\""},
    {"[ *", "[ -v 'a[$(touch pwned)]' ]"},
    {"[ *", "[ -n x"},
    {"[ *", "[ \"$V\" \"$E\" ]"},
    {"[[ *", "[[ -v 'a[$(touch pwned)]' ]]"},
    {"[[ *", "[[ 'a[$(touch pwned)]' -eq 1 ]]"},
    {"read *", "read 'a[$(touch pwned)]'"},
    {"read *", "read RANDOM < in"},
    {"read *", "read -aRANDOM < in"},
    {"read *", "read $x"},
    {"read *", "read -"},
    {"read *", "read ''"},
    {"read *", "read _x"},
    {"read *", "read -i x"},
    {"read *", "read x-y"},
    {"*", "read x < in; ls"},
    {"*", "echo x | read PATH"},
    {"unset *", "unset 'a[$(touch pwned)]'"},
    {"let *", "let 'a[$(touch pwned)]'"},
    {"declare *", "declare 'a[$(touch pwned)]=1'"},
    {"typeset *", "typeset -i 'x=a[$(touch pwned)]'"},
    {"local *", "local x=1"},
    {"export *", "export PATH=/tmp/evil"},
    {"readonly *", "readonly x=1"},
    {"mapfile *", "mapfile -C 'touch pwned;' -c 1"},
    {"readarray *", "readarray -C 'touch pwned;'"},
    {"wait *", "wait -n -p 'a[$(touch pwned)]'"},
    {"getopts *", "getopts a PATH -a"},
    {"compgen *", "compgen -W '$(touch pwned)'"},
    {"hash *", "hash -p /tmp/evil ls"},
    {"alias *", "alias 'ls=touch pwned'"},
    {"enable *", "enable -f ./evil.so x"},
    {"jobs *", "jobs -x touch pwned"},
    {"set *", "set -k"},
    {"shopt *", "shopt -s expand_aliases"},
    {"trap *", "trap 'touch pwned' EXIT"},
    {"eval *", "eval 'touch pwned'"},
    {"source *", "source ./evil"},
    {". *", ". ./evil"},
    {"exec *", "exec touch pwned"},
    {"command *", "command touch pwned"},
    {"builtin *", "builtin eval 'touch pwned'"},
    {"*", "\\eval 'touch pwned'"},
    {"e*", "eval 'touch pwned'"},
};
static const struct guard_case not_evaluating[] = {
    {"printf *", "printf '%s\\n' 'a[$(x)]' \"$HOME\" *"},
    {"printf *", "printf -- '-v %d%%n' 1"},
    {"printf *", "printf"},
    {"test *", "test -f \"$HOME/x\""},
    {"test *", "test \"$a\" = \"$b\""},
    {"test *", "test ! \"$a\" = b"},
    {"test *", "test -v HOME"},
    {"test *", "test 'a[0]' = x"},
    {"[ *", "[ -d src ]"},
    {"[ *", "[ -n \"$x\" ]"},
    {"read *", "read -r -t 5 line"},
    {"read *", "read"},
    {"read *", "read -t 0.5 a_1"},
    {"[ *", "[ ]"},
    {"test *", "test \"$a\""},
    {"test *", "test ! -f \"$a\""},
    {"command *", "command -V git"},
    {"command *", "command -v git"},
    {"export *", "export"},
    {"export PATH=/opt/bin", "export PATH=/opt/bin"},
    {"source .venv/bin/activate", "source .venv/bin/activate"},
    {"set -e", "set -e"},
};

static void builtins_that_evaluate_names_are_not_allowed_by_a_star(void **state)
{
    (void)state;
    assert_each(evaluating, BL_COUNT(evaluating), false);
    assert_each(not_evaluating, BL_COUNT(not_evaluating), true);
}

static void program_that_runs_another_is_allowed_by_the_name_of_the_other(void **state)
{
    (void)state;
    static const struct guard_case refused[] = {
        {"env *", "env touch pwned"},
        {"env *", "env A=1 touch pwned"},
        {"xargs *", "xargs touch"},
        {"xargs -n 1 *", "xargs -n 1 touch"},
        {"sudo *", "/usr/bin/sudo touch pwned"},
        {"*", "sudo touch pwned"},
        {"timeout 5 *", "timeout 5 touch pwned"},
        {"bash *", "bash -c 'touch pwned'"},
        {"bash -c *", "bash -c 'touch pwned'"},
        {"nohup *", "nohup touch pwned"},
        {"find *", "find . -exec touch pwned ';'"},
        {"find *", "find . '-exec' touch pwned ';'"},
        {"find *", "find . -delete"},
        {"find *", "find . -fprint x"},
        {"find *", "find . $_ touch pwned ';'"},
        {"find *", "find ' -exec touch pwned ;'; find .$_"},
        {"find *", "find ' -exec touch pwned ;'; find src\"\"${_}"},
        {"find *", "find . -e* touch pwned ';'"},
        {"*", "$X pwned"},
        {"*", "{touch,pwned}"},
        {"*", "t*ch pwned"},
        {"*", "a[0 1]=2"},
    };
    static const struct guard_case allowed[] = {
        {"env", "env"},
        {"env *", "env"},
        {"env CI=1 make *", "env CI=1 make test"},
        {"timeout 60 make *", "timeout 60 make test"},
        {"xargs grep *", "xargs grep -l x"},
        {"sudo apt update", "sudo apt update"},
        {"find *", "find . -name '*.c' -type f"},
        {"find *", "find ~/src src/* -newer x"},
        {"find *", "find src{,/old} x\"$HOME\" -name x"},
        {"\"$HOME/bin/tool\" *", "\"$HOME/bin/tool\" x"},
        {"*", "ls *.c {a,b} $x"},
    };
    assert_each(refused, BL_COUNT(refused), false);
    assert_each(allowed, BL_COUNT(allowed), true);
}

static void refusal_says_what_a_star_cannot_match(void **state)
{
    (void)state;
    char reason[256];
    assert_false(allows("env *", "env rm x", reason));
    assert_string_equal(reason, "Allow bash to run: env rm x? (it uses a program that runs other "
                                "commands, which '*' cannot match: 'env rm x')");
    assert_false(allows("*", "$X y", reason));
    assert_non_null(strstr(reason, "it uses a command name that the shell expands"));
    assert_false(allows("eval *", "eval y", reason));
    assert_non_null(strstr(reason, "it uses a command that can evaluate or run its arguments"));
}

SUITE(guard, cmocka_unit_test(joined_lines_are_read_as_bash_reads_them),
      cmocka_unit_test(builtins_that_evaluate_names_are_not_allowed_by_a_star),
      cmocka_unit_test(program_that_runs_another_is_allowed_by_the_name_of_the_other),
      cmocka_unit_test(refusal_says_what_a_star_cannot_match));
