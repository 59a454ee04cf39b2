#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "suite.h"
#include "tool/parts.h"

#define ASK   BL_PERMISSION_ASK
#define AUTO  BL_PERMISSION_AUTO
#define READ  BL_PERMISSION_READ_ONLY
#define YOLO  BL_PERMISSION_YOLO
#define RULES 4

/* Rules begin with '+' (allow) or '-' (deny). */
struct row {
    enum bl_permission_mode mode;
    bool sandboxed;
    const char *rules[RULES];
    const char *command;
    bool may;
};

static const struct row rows[] = {
    /* Modes without rules. */
    {YOLO, false, {0}, "rm -rf /", true},
    {YOLO, true, {0}, "ls", true},
    {AUTO, true, {0}, "rm -rf build", true},
    {AUTO, true, {0}, "echo $(ls) > file", true},
    {AUTO, false, {0}, "ls", false},
    {ASK, false, {0}, "ls", false},
    {ASK, true, {0}, "ls", false},
    {READ, false, {0}, "ls", false},
    {READ, true, {0}, "ls", false},
    /* A tool by name. */
    {AUTO, false, {"+bash"}, "rm -rf /", true},
    {ASK, false, {"+bash"}, "echo $(ls) > file", true},
    {AUTO, false, {"+b*"}, "ls", true},
    {AUTO, false, {"+*"}, "ls", true},
    {AUTO, false, {"+read"}, "ls", false},
    {AUTO, false, {"+mcp__x__*"}, "ls", false},
    {READ, false, {"+bash"}, "ls", false},
    {READ, true, {"+bash(*)"}, "ls", false},
    {YOLO, false, {"-bash"}, "ls", false},
    {YOLO, false, {"-*"}, "ls", false},
    {AUTO, true, {"-bash"}, "ls", false},
    {AUTO, true, {"+bash", "-bash"}, "ls", false},
    {AUTO, true, {"-bash", "+bash"}, "ls", false},
    {ASK, false, {"+network"}, "ls", false},
    /* By a pattern. */
    {AUTO, false, {"+bash(git *)"}, "git status", true},
    {AUTO, false, {"+bash(git *)"}, "git", true},
    {ASK, false, {"+bash(git *)"}, "git  log\t-1", true},
    {ASK, false, {"+bash(git status)"}, "git status", true},
    {ASK, false, {"+bash(git status)"}, "git status -s", false},
    {ASK, false, {"+bash(git *)"}, "gitk", false},
    {ASK, false, {"+bash(git *)"}, "ls", false},
    {ASK, false, {"+bash(*)"}, "ls -l", true},
    {ASK, false, {"+*(git *)"}, "git log", true},
    {ASK, false, {"+bash( git * )"}, "git log", true},
    /* Each part of a list needs a rule. */
    {ASK, false, {"+bash(git *)"}, "git status; git log", true},
    {ASK, false, {"+bash(git *)"}, "git status && ls", false},
    {ASK, false, {"+bash(git *)", "+bash(ls *)"}, "git status && ls", true},
    {ASK, false, {"+bash(git *)", "+bash(wc *)"}, "git log | wc -l", true},
    {ASK, false, {"+bash(git *)"}, "git log | sh", false},
    {ASK, false, {"+bash(git *)"}, "git log || rm -rf x", false},
    {ASK, false, {"+bash(git *)"}, "git log & rm -rf x", false},
    {ASK, false, {"+bash(git *)"}, "git log\nrm -rf x", false},
    {ASK, false, {"+bash(git *)"}, "git log;rm -rf x", false},
    {ASK, false, {"+bash(git *)"}, "git log |& rm", false},
    {ASK, false, {"+bash(git *)"}, "rm -rf x; git log", false},
    {ASK, false, {"+bash(git *)"}, ";", false},
    /* Quotes. */
    {ASK, false, {"+bash(git *)"}, "git commit -m 'a; b && c'", true},
    {ASK, false, {"+bash(git *)"}, "git commit -m \"it's; done\"", true},
    {ASK, false, {"+bash(git *)"}, "git commit -m 'a'; rm -rf x; echo 'b'", false},
    {ASK, false, {"+bash(git *)"}, "git commit -m a\\; b", true},
    {ASK, false, {"+bash(git *)"}, "git commit -m a\\\\; rm x", false},
    {ASK, false, {"+bash(git *)"}, "git commit -m '", false},
    {ASK, false, {"+bash(git *)"}, "git commit -m $'a\\'; rm -rf x; echo \\''", false},
    {ASK, false, {"+bash(git *)"}, "git log # it's\nrm -rf x # '", false},
    {ASK, false, {"+bash(git *)"}, "git log # it's fine", true},
    {ASK, false, {"+bash(git * --dry-run)"}, "git push # --dry-run", false},
    {ASK, false, {"+bash(git * --dry-run)"}, "git push --dry-run", true},
    {ASK, false, {"+bash(git * --dry-run)"}, "git push '#' --dry-run", true},
    /* Syntax that a pattern cannot inspect. */
    {ASK, false, {"+bash(git *)"}, "git log $(rm -rf x)", false},
    {ASK, false, {"+bash(git *)"}, "git log \"$(rm -rf x)\"", false},
    {ASK, false, {"+bash(git *)"}, "git log `rm -rf x`", false},
    {ASK, false, {"+bash(git *)"}, "git log '$(rm -rf x)'", true},
    {ASK, false, {"+bash(git *)"}, "git log ${x:-`rm`}", false},
    {ASK, false, {"+bash(git *)"}, "git diff <(rm -rf x)", false},
    {ASK, false, {"+bash(git *)"}, "git log > ~/.bashrc", false},
    {ASK, false, {"+bash(git *)"}, "git log >> ~/.bashrc", false},
    {ASK, false, {"+bash(git *)"}, "git log >/dev/null 2>&1", true},
    {ASK, false, {"+bash(git *)"}, "git log >& file", false},
    {ASK, false, {"+bash(git *)"}, "git apply << E\nx\nE\nrm -rf x", false},
    {ASK, false, {"+bash(git *)"}, "(git log)", false},
    {ASK, false, {"+bash(git *)"}, "git() { rm -rf x; }; git log", false},
    {ASK, false, {"+bash(git *)"}, "PATH=/evil git log", false},
    {ASK, false, {"+bash(git *)"}, "GIT_PAGER=x git log", false},
    {ASK, false, {"+bash(*)"}, "A=1 git log", false},
    {ASK, false, {"+bash(*)"}, "for x in *; do rm $x; done", false},
    {ASK, false, {"+bash(*)", "+bash"}, "for x in *; do rm $x; done", true},
    {ASK, false, {"+bash(git *)"}, "git log $HOME ${USER} \"$PWD\"", true},
    {ASK, false, {"+bash(git *)"}, "$GIT log", false},
    {ASK, false, {"+bash(git *)"}, "sudo git log", false},
    {ASK, false, {"+bash(git *)"}, "/tmp/evil/git log", false},
    /* Deny wins, however the command is hidden. */
    {YOLO, false, {"-bash(rm *)"}, "rm -rf x", false},
    {YOLO, false, {"-bash(rm *)"}, "ls; rm -rf x", false},
    {YOLO, false, {"-bash(rm *)"}, "echo $(rm -rf x)", false},
    {YOLO, false, {"-bash(rm *)"}, "if a; then /bin/rm x; fi", false},
    {YOLO, false, {"-bash(rm *)"}, "sudo \\rm -rf x", false},
    {YOLO, false, {"-bash(rm *)"}, "bash -c 'ls; rm -rf x'", false},
    {YOLO, false, {"-bash(rm *)"}, "ls -l", true},
    {YOLO, false, {"-bash(rm *)"}, "echo rm", true},
    {AUTO, true, {"-bash(git push*)"}, "git add . && git push --force", false},
    {AUTO, true, {"-bash(git push*)"}, "git add . && git commit", true},
    {ASK, false, {"+bash(git *)", "-bash(git push*)"}, "git push", false},
    {ASK, false, {"-bash(git push*)", "+bash(git *)"}, "git pull", true},
    {ASK, false, {"+bash", "-bash(*curl*)"}, "x=$(curl y)", false},
};

static struct bl_permissions *permissions_of(const struct row *row)
{
    struct bl_permissions *permissions = bl_permissions_new(row->mode);
    for (size_t i = 0; i < RULES && row->rules[i] != NULL; i++)
        assert_int_equal(
            bl_permissions_add(permissions, row->rules[i][0] == '+', row->rules[i] + 1, NULL), 0);
    return permissions;
}

static enum bl_permit decide(const struct bl_permissions *permissions, bool sandboxed,
                             const char *command, char reason[256])
{
    struct permission_question question = {.tool = "bash",
                                           .kind = SUBJECT_COMMAND,
                                           .subject = bl_text_from(command),
                                           .contained = sandboxed};
    memset(reason, 0, 256);
    return permission_decide(permissions, &question, reason, 256);
}

static void every_row_of_the_table_holds(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_permissions *permissions = permissions_of(&rows[i]);
        char reason[256];
        enum bl_permit permit = decide(permissions, rows[i].sandboxed, rows[i].command, reason);
        bool may = permit == BL_PERMIT_ALLOWED;
        if (may != rows[i].may)
            fail_msg("row %zu (%s, %s): %s: %s", i, bl_permission_mode_name(rows[i].mode),
                     rows[i].rules[0] != NULL ? rows[i].rules[0] : "no rules", rows[i].command,
                     may ? "allowed" : reason);
        assert_true(may == (reason[0] == '\0'));
        bool denied = strncmp(reason, "denied by rule", 14) == 0;
        assert_int_equal(permit == BL_PERMIT_ASK, !may && !denied && rows[i].mode == ASK);
        bl_permissions_free(permissions);
    }
    print_message("           %zu rows\n", BL_COUNT(rows));
}

static void assert_reason(const struct row *row, const char *expected)
{
    struct bl_permissions *permissions = permissions_of(row);
    char reason[256];
    assert_int_equal(decide(permissions, row->sandboxed, row->command, reason),
                     row->mode == ASK ? BL_PERMIT_ASK : BL_PERMIT_DENIED);
    assert_string_equal(reason, expected);
    bl_permissions_free(permissions);
}

/* Joined by blanks; empty if there are none. */
static void assert_rules(const struct row *row, const char *expected)
{
    struct bl_permissions *permissions = permissions_of(row);
    struct permission_question question = {.tool = "bash",
                                           .kind = SUBJECT_COMMAND,
                                           .subject = bl_text_from(row->command),
                                           .contained = row->sandboxed};
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(joined, 1024);
    const char *const *rules = permission_rules_allowing(permissions, &arena, &question);
    for (size_t i = 0; rules[i] != NULL; i++)
        bl_buffer_printf(&joined, "%s%s", i > 0 ? " " : "", rules[i]);
    bl_buffer_append_byte(&joined, '\0');
    assert_string_equal(joined.data, expected);
    bl_permissions_free(permissions);
}

static void rules_that_would_allow_a_refused_call_are_found(void **state)
{
    (void)state;
    assert_rules(&(struct row){AUTO, false, {0}, "echo hi", false}, "bash(echo *)");
    assert_rules(&(struct row){AUTO, false, {0}, "make && git push origin && make", false},
                 "bash(make *) bash(git push *)");
    assert_rules(&(struct row){ASK, false, {"+bash(make *)"}, "make; ls", false},
                 "bash(make *) bash(ls *)");
    assert_rules(&(struct row){AUTO, false, {0}, "rm -rf x", false}, "bash(rm -rf x)");
    assert_rules(&(struct row){AUTO, false, {0}, "echo $(ls)", false}, "bash");
    assert_rules(&(struct row){AUTO, false, {"-bash(rm *)"}, "rm x", false}, "");
    assert_rules(&(struct row){AUTO, false, {"-bash"}, "echo hi", false}, "");
    assert_rules(&(struct row){READ, false, {0}, "echo hi", false}, "");
    assert_rules(&(struct row){AUTO, true, {0}, "echo hi", true}, "");
}

static void a_refusal_says_why(void **state)
{
    (void)state;
    assert_reason(&(struct row){AUTO, false, {0}, "make", false}, "it would run outside a sandbox");
    assert_reason(&(struct row){AUTO, false, {"+bash(git *)"}, "git log; ls -l", false},
                  "no rule allows 'ls -l'; it would run outside a sandbox");
    assert_reason(&(struct row){AUTO, false, {"+bash(git *)"}, "git log $(ls)", false},
                  "it contains command substitution, which a pattern cannot allow; it would run "
                  "outside a sandbox");
    assert_reason(&(struct row){READ, false, {"+bash"}, "ls", false},
                  "permission mode read-only does not allow bash");
    assert_reason(&(struct row){YOLO, false, {"-bash(rm *)"}, "rm x", false},
                  "denied by rule 'bash(rm *)'");
}

static void question_names_the_command_and_the_reason(void **state)
{
    (void)state;
    char command[600], expected[600] = "Allow bash to run: ";
    assert_reason(&(struct row){ASK, true, {0}, "make -j2", false}, "Allow bash to run: make -j2?");
    assert_reason(&(struct row){ASK, false, {"+bash(git *)"}, "git log; ls -l", false},
                  "Allow bash to run: git log; ls -l? (no rule allows 'ls -l')");
    assert_reason(&(struct row){ASK, false, {"+bash(git *)"}, "git log `ls`", false},
                  "Allow bash to run: git log `ls`? (it contains command substitution, which a "
                  "pattern cannot allow)");
    /* Characters that a terminal obeys, or shows from right to left, are replaced. */
    assert_reason(&(struct row){ASK, false, {0}, "ls\n\x1b[2Jrm \xE2\x80\xAEtxt.exe\tx", false},
                  "Allow bash to run: ls\\n\xEF\xBF\xBD[2Jrm \xEF\xBF\xBDtxt.exe x?");
    memset(command, 'a', sizeof command - 1);
    command[sizeof command - 1] = '\0';
    memset(expected + 19, 'a', 236);
    assert_reason(&(struct row){ASK, false, {0}, command, false}, expected);
}

static void terminal_controls_are_not_shown(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        bool shown;
    } cases[] = {
        {"\x1f", false},
        {" ", true},
        {"~", true},
        {"\x7f", false},
        {"\xC2\x9f", false},
        {"\xC2\xA0", true},
        {"\xE2\x80\x8a", true},
        {"\xE2\x80\x8b", false},
        {"\xE2\x80\x8f", false},
        {"\xE2\x80\x90", true},
        {"\xE2\x80\xa7", true},
        {"\xE2\x80\xa8", false},
        {"\xE2\x80\xae", false},
        {"\xE2\x80\xaf", true},
        {"\xE2\x81\x9f", true},
        {"\xE2\x81\xa0", false},
        {"\xE2\x81\xaf", false},
        {"\xE2\x81\xb0", true},
        {"\xEF\xBB\xBF", false},
        {"\xff", false},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char command[16], expected[64];
        snprintf(command, sizeof command, "a%sz", cases[i].bytes);
        snprintf(expected, sizeof expected, "Allow bash to run: a%sz?",
                 cases[i].shown ? cases[i].bytes : "\xEF\xBF\xBD");
        assert_reason(&(struct row){ASK, false, {0}, command, false}, expected);
    }
}

static void a_guarded_path_is_refused_with_the_rule_that_allows_it(void **state)
{
    (void)state;
    struct bl_permissions *permissions = bl_permissions_new(AUTO);
    struct permission_question question = {.tool = "write",
                                           .kind = SUBJECT_PATH,
                                           .subject = BL_TEXT(".git/config"),
                                           .other = BL_TEXT("/w/.git/config"),
                                           .guarded = "git runs what this file says"};
    char reason[256];
    assert_int_equal(permission_decide(permissions, &question, reason, sizeof reason),
                     BL_PERMIT_DENIED);
    assert_string_equal(reason, "git runs what this file says");
    bl_permissions_free(permissions);
}

static void a_reason_is_cut_at_a_character(void **state)
{
    (void)state;
    struct bl_permissions *permissions = bl_permissions_new(YOLO);
    char rule[600] = "bash(*x", reason[256];
    for (size_t i = 7; i + 3 < sizeof rule; i += 2)
        memcpy(rule + i, "\xC3\xA9", 2);
    memcpy(rule + 590, "*)", 3);
    rule[589] = '*';
    for (size_t shift = 0; shift < 2; shift++) {
        struct permission_question question = {.tool = "bash", .subject = bl_text_from(rule + 6)};
        assert_int_equal(bl_permissions_add(permissions, false, rule, NULL), 0);
        assert_int_equal(permission_decide(permissions, &question, reason, sizeof reason - shift),
                         BL_PERMIT_DENIED);
        assert_true(bl_utf8_valid(bl_text_from(reason)));
    }
    bl_permissions_free(permissions);
}

static enum bl_permit decide_path(const struct bl_permissions *permissions, const char *tool,
                                  const char *path, bool reads)
{
    char absolute[256], reason[256];
    snprintf(absolute, sizeof absolute, "%s%s", path[0] == '/' ? "" : "/home/u/work/", path);
    struct permission_question question = {.tool = tool,
                                           .also = strcmp(tool, "grep") == 0 ? "read" : NULL,
                                           .kind = SUBJECT_PATH,
                                           .subject = bl_text_from(path),
                                           .other = bl_text_from(absolute),
                                           .reads = reads,
                                           .contained = true};
    return permission_decide(permissions, &question, reason, sizeof reason);
}

static void reading_is_allowed_unless_denied(void **state)
{
    (void)state;
    static const enum bl_permission_mode modes[] = {ASK, AUTO, READ, YOLO};
    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        struct bl_permissions *permissions = bl_permissions_new(modes[i]);
        assert_int_equal(decide_path(permissions, "read", "src/a.c", true), BL_PERMIT_ALLOWED);
        assert_int_equal(bl_permissions_add(permissions, false, "read(**/*.c)", NULL), 0);
        assert_int_equal(decide_path(permissions, "read", "src/a.c", true), BL_PERMIT_DENIED);
        assert_int_equal(decide_path(permissions, "read", "src/a.h", true), BL_PERMIT_ALLOWED);
        bl_permissions_free(permissions);
    }
}

static void mode_decides_where_no_rule_does(void **state)
{
    (void)state;
    static const struct {
        enum bl_permission_mode mode;
        enum bl_permit permit, with_rule;
    } cases[] = {{ASK, BL_PERMIT_ASK, BL_PERMIT_ALLOWED},
                 {AUTO, BL_PERMIT_ALLOWED, BL_PERMIT_ALLOWED},
                 {READ, BL_PERMIT_DENIED, BL_PERMIT_DENIED},
                 {YOLO, BL_PERMIT_ALLOWED, BL_PERMIT_ALLOWED}};
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_permissions *permissions = bl_permissions_new(cases[i].mode);
        assert_int_equal(decide_path(permissions, "write", "src/a.c", false), cases[i].permit);
        assert_int_equal(bl_permissions_add(permissions, true, "write(src/**)", NULL), 0);
        assert_int_equal(decide_path(permissions, "write", "src/a.c", false), cases[i].with_rule);
        assert_int_equal(decide_path(permissions, "write", "doc/a", false), cases[i].permit);
        assert_int_equal(decide_path(permissions, "edit", "src/a.c", false), cases[i].permit);
        bl_permissions_free(permissions);
    }
}

static void path_rule_is_compared_with_relative_and_absolute_path(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *path;
        bool denied;
    } cases[] = {
        {"read(.env)", ".env", true},
        {"read(.env)", "sub/.env", false},
        {"read(**/.env)", ".env", true},
        {"read(**/.env)", "a/b/.env", true},
        {"read(./.env)", ".env", true},
        {"read(**/*.pem)", "keys/a.pem", true},
        {"read(*.pem)", "keys/a.pem", false},
        {"read(/home/u/work/.env)", ".env", true},
        {"read(/home/**)", ".env", true},
        {"read(/etc/**)", ".env", false},
        {"read(/etc/**)", "/etc/passwd", true},
        {"read(~/work/.env)", ".env", true},
        {"read(~/.ssh/**)", "/home/u/.ssh/id", true},
        {"read(~/.ssh/**)", "/home/u2/.ssh/id", false},
        {"read(secrets/)", "secrets/a/b", true},
        {"read(secrets/**)", "secrets", true},
        {"read(secrets/**)", "secrets2/a", false},
        {"*(secrets/**)", "secrets/a", true},
        {"*", "a", true},
        {"write(a)", "a", false},
    };
    const char *home = getenv("HOME");
    char *kept = home != NULL ? strdup(home) : NULL;
    setenv("HOME", "/home/u", 1);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_permissions *permissions = bl_permissions_new(YOLO);
        assert_int_equal(bl_permissions_add(permissions, false, cases[i].rule, NULL), 0);
        bool denied = decide_path(permissions, "read", cases[i].path, true) == BL_PERMIT_DENIED;
        if (denied != cases[i].denied)
            fail_msg("%s: %s", cases[i].rule, cases[i].path);
        /* Tools that show a file in other ways are denied with it, which can be queried
         * beforehand. */
        denied = decide_path(permissions, "grep", cases[i].path, true) == BL_PERMIT_DENIED;
        assert_int_equal(denied, cases[i].denied);
        char absolute[128];
        snprintf(absolute, sizeof absolute, "/home/u/work/%s", cases[i].path);
        struct bl_arena arena;
        bl_arena_init(&arena);
        struct permission_denials denials = permission_denials(permissions, "read", &arena);
        if (strchr(cases[i].rule, '(') != NULL)
            assert_int_equal(permission_denials_have(
                                 &denials, bl_text_from(cases[i].path),
                                 bl_text_from(cases[i].path[0] == '/' ? cases[i].path : absolute)),
                             cases[i].denied);
        bl_arena_done(&arena);
        bl_permissions_free(permissions);
    }
    if (kept != NULL)
        setenv("HOME", kept, 1);
    free(kept);
}

/* Of ~/.ssh and ~/.gnupg, returns those that commands can see. */
static void secret_is_visible_if_a_rule_names_it_for_reading(void **state)
{
    (void)state;
    static const struct {
        const char *rules[2];
        bool ssh, gnupg;
    } cases[] = {
        {{NULL}, false, false},
        {{"+read"}, false, false},
        {{"+read(~/.ssh/**)"}, true, false},
        {{"+read(/home/u/.ssh/**)"}, true, false},
        {{"+*(~/.ssh/**)"}, true, false},
        {{"+read(~/.*/**)"}, true, true},
        {{"+read(**/.ssh/**)"}, false, false},
        {{"+read(.ssh/**)"}, false, false},
        {{"+write(~/.ssh/**)"}, false, false},
        {{"+bash(~/.ssh/**)"}, false, false},
        {{"-read(~/.ssh/**)"}, false, false},
        {{"+read(~/.*/**)", "-read(~/.ssh/**)"}, false, true},
        {{"-read(~/.ssh/**)", "+read(~/.*/**)"}, false, true},
        {{"+read(~/.*/**)", "-write(~/.ssh/**)"}, true, true},
        {{"+read(~/.*/**)", "-read(**/.ssh/**)"}, true, true},
    };
    const char *home = getenv("HOME");
    char *kept = home != NULL ? strdup(home) : NULL;
    setenv("HOME", "/home/u", 1);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_permissions *permissions = bl_permissions_new(AUTO);
        struct bl_arena arena = {0};
        bool ssh = false, gnupg = false;
        for (size_t j = 0; j < 2 && cases[i].rules[j] != NULL; j++)
            assert_int_equal(bl_permissions_add(permissions, cases[i].rules[j][0] == '+',
                                                cases[i].rules[j] + 1, NULL),
                             0);
        const char *const *shown = bl_permissions_shown(permissions, &arena);
        for (; *shown != NULL; shown++) {
            ssh = ssh || strcmp(*shown, "/home/u/.ssh") == 0;
            gnupg = gnupg || strcmp(*shown, "/home/u/.gnupg") == 0;
        }
        suite_fail_if(ssh != cases[i].ssh || gnupg != cases[i].gnupg, "row %zu: %d, %d", i, ssh,
                      gnupg);
        bl_arena_done(&arena);
        bl_permissions_free(permissions);
    }
    if (kept != NULL)
        setenv("HOME", kept, 1);
    free(kept);
}

static void rule_for_the_home_applies_if_the_home_is_a_link(void **state)
{
    (void)state;
    const char *home = getenv("HOME");
    char *kept = home != NULL ? strdup(home) : NULL;
    char folder[] = "/tmp/belay-home-XXXXXX", link[64], path[64];
    struct bl_permissions *permissions = bl_permissions_new(YOLO);
    assert_non_null(mkdtemp(folder));
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(path, sizeof path, "%s/.env", folder);
    assert_int_equal(symlink(folder, link), 0);
    setenv("HOME", link, 1);
    assert_int_equal(bl_permissions_add(permissions, false, "read(~/.env)", NULL), 0);
    assert_int_equal(decide_path(permissions, "read", path, true), BL_PERMIT_DENIED);
    bl_permissions_free(permissions);
    unlink(link);
    rmdir(folder);
    if (kept != NULL)
        setenv("HOME", kept, 1);
    free(kept);
}

static void invalid_rule_is_refused_and_shown(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *message;
    } cases[] = {
        {"", "'' is not a rule: expected the name of a tool (at character 1)"},
        {"(git *)", "'(git *)' is not a rule: expected the name of a tool (at character 1)"},
        {"bash(git", "'bash(git' is not a rule: missing ')' at the end (at character 9)"},
        {"bash(git) x", "'bash(git) x' is not a rule: missing ')' at the end (at character 12)"},
        {"bash()", "'bash()' is not a rule: empty pattern (at character 6)"},
        {"bash( )", "'bash( )' is not a rule: empty pattern (at character 6)"},
        {"ba sh",
         "'ba sh' is not a rule: invalid character in the name of a tool (at character 3)"},
        {"network(x)", "'network(x)' is not a rule: this tool takes no pattern (at character 8)"},
        {"todo(x)", "'todo(x)' is not a rule: this tool takes no pattern (at character 5)"},
        {"mcp__a__b(x)",
         "'mcp__a__b(x)' is not a rule: this tool takes no pattern (at character 10)"},
        {"bash(rm (x)", "'bash(rm (x)' is not a rule: unbalanced parentheses (at character 6)"},
        {"bash(rm) x)", "'bash(rm) x)' is not a rule: unbalanced parentheses (at character 6)"},
    };
    struct bl_permissions *permissions = bl_permissions_new(ASK);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_error error = {0};
        assert_int_equal(bl_permissions_add(permissions, true, cases[i].rule, &error), BL_EINVAL);
        assert_string_equal(error.message, cases[i].message);
        assert_int_equal(error.kind, BL_KIND_USAGE);
        assert_string_not_equal(error.hint, "");
    }
    struct bl_error error = {0};
    char *rule = bl_zalloc(5001);
    memset(rule, 'x', 5000);
    assert_int_equal(bl_permissions_add(permissions, true, rule, &error), BL_EINVAL);
    bl_free(rule);
    bl_permissions_free(permissions);
}

static void a_rule_for_an_unknown_tool_is_refused_with_a_suggestion(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *message, *hint;
    } cases[] = {
        {"bsh(rm *)", "unknown tool 'bsh' in rule 'bsh(rm *)'", "did you mean 'bash'?"},
        {"Bash(rm *)", "unknown tool 'Bash' in rule 'Bash(rm *)'", "did you mean 'bash'?"},
        {"READ", "unknown tool 'READ' in rule 'READ'", "did you mean 'read'?"},
        {"netwrk", "unknown tool 'netwrk' in rule 'netwrk'", "did you mean 'network'?"},
        {"Bash*", "unknown tool 'Bash*' in rule 'Bash*'", "did you mean 'bash'?"},
        {"qqqqqqqq", "unknown tool 'qqqqqqqq' in rule 'qqqqqqqq'",
         "run belay tools to list the tools"},
        {"mcp__git", "unknown tool 'mcp__git' in rule 'mcp__git'",
         "name a tool of an MCP server as mcp__SERVER__TOOL, or all of them as mcp__SERVER__*"},
    };
    static const char *const known[] = {
        "bash",      "task(worker)", "exec",   "wait",         "network",
        "*",         "b*(x)",        "mcp__*", "mcp__a__*",    "mcp__a__delete_b",
        "*__delete", "m*",           "todo",   "*(secrets/**)"};
    struct bl_permissions *permissions = bl_permissions_new(ASK);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_error error = {0};
        assert_int_equal(bl_permissions_add(permissions, i % 2 == 0, cases[i].rule, &error),
                         BL_EINVAL);
        assert_string_equal(error.message, cases[i].message);
        assert_string_equal(error.hint, cases[i].hint);
        assert_int_equal(error.kind, BL_KIND_USAGE);
        assert_string_equal(error.name, "unknown_tool");
    }
    for (size_t i = 0; i < BL_COUNT(known); i++)
        assert_int_equal(bl_permissions_add(permissions, false, known[i], NULL), 0);
    bl_permissions_free(permissions);
}

static void modes_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {"ask", "auto", "read-only", "plan", "yolo"};
    struct bl_error error = {0};
    enum bl_permission_mode mode;
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        assert_int_equal(bl_permission_mode_parse(names[i], &mode, NULL), 0);
        assert_string_equal(bl_permission_mode_name(mode), names[i]);
    }
    assert_int_equal(bl_permission_mode_parse("all", &mode, &error), BL_EINVAL);
    assert_string_equal(error.hint, "expected ask, auto, read-only, plan or yolo");
}

static void read_only_is_the_narrowest_mode_and_yolo_the_widest(void **state)
{
    (void)state;
    static const enum bl_permission_mode modes[] = {READ, ASK, AUTO, YOLO};
    for (size_t i = 0; i < BL_COUNT(modes); i++)
        for (size_t j = 0; j < BL_COUNT(modes); j++)
            assert_int_equal(bl_permission_mode_wider(modes[i], modes[j]), i > j);
    /* An approved plan leads to ask or auto. */
    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        assert_int_equal(bl_permission_mode_wider(BL_PERMISSION_PLAN, modes[i]), i == 0);
        assert_int_equal(bl_permission_mode_wider(modes[i], BL_PERMISSION_PLAN), i > 0);
    }
}

static void the_network_is_opened_by_its_name_and_denied_by_a_star_too(void **state)
{
    (void)state;
    static const struct {
        const char *rules[2];
        bool open;
    } cases[] = {{{NULL}, false},
                 {{"+network"}, true},
                 {{"+*"}, false},
                 {{"+bash"}, false},
                 {{"+network", "-network"}, false},
                 {{"-*", "+network"}, false}};
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_permissions *permissions = bl_permissions_new(AUTO);
        for (size_t j = 0; j < 2 && cases[i].rules[j] != NULL; j++)
            bl_permissions_add(permissions, cases[i].rules[j][0] == '+', cases[i].rules[j] + 1,
                               NULL);
        assert_int_equal(permission_network(permissions), cases[i].open);
        bl_permissions_free(permissions);
    }
}

SUITE(permission, cmocka_unit_test(every_row_of_the_table_holds),
      cmocka_unit_test(a_refusal_says_why),
      cmocka_unit_test(rules_that_would_allow_a_refused_call_are_found),
      cmocka_unit_test(question_names_the_command_and_the_reason),
      cmocka_unit_test(terminal_controls_are_not_shown),
      cmocka_unit_test(a_guarded_path_is_refused_with_the_rule_that_allows_it),
      cmocka_unit_test(read_only_is_the_narrowest_mode_and_yolo_the_widest),
      cmocka_unit_test(a_reason_is_cut_at_a_character),
      cmocka_unit_test(reading_is_allowed_unless_denied),
      cmocka_unit_test(mode_decides_where_no_rule_does),
      cmocka_unit_test(path_rule_is_compared_with_relative_and_absolute_path),
      cmocka_unit_test(secret_is_visible_if_a_rule_names_it_for_reading),
      cmocka_unit_test(rule_for_the_home_applies_if_the_home_is_a_link),
      cmocka_unit_test(invalid_rule_is_refused_and_shown),
      cmocka_unit_test(a_rule_for_an_unknown_tool_is_refused_with_a_suggestion),
      cmocka_unit_test(modes_have_names),
      cmocka_unit_test(the_network_is_opened_by_its_name_and_denied_by_a_star_too));
