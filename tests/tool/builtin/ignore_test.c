#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "suite.h"
#include "tool/builtin/search.h"

/* ---- A tree ---------------------------------------------------------------------------------- */

static char tree[64];

static void tree_begin(void)
{
    const char *temporary = getenv("TMPDIR");
    snprintf(tree, sizeof tree, "%.40s/belay-ignore-XXXXXX", temporary ? temporary : "/tmp");
    assert_non_null(mkdtemp(tree));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

static void tree_end(void)
{
    nftw(tree, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Creates a file below the tree, with its folders. */
static void put(const char *path, struct bl_text content)
{
    char full[512];
    int size = snprintf(full, sizeof full, "%s/%s", tree, path);
    for (int i = (int)strlen(tree) + 1; i < size; i++) {
        if (full[i] != '/')
            continue;
        full[i] = '\0';
        mkdir(full, 0777);
        full[i] = '/';
    }
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content.data, content.size), content.size);
    close(fd);
}

static void run_git(const char *command)
{
    char line[512];
    snprintf(line, sizeof line,
             "cd %s && GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null XDG_CONFIG_HOME=/none "
             "HOME=/none git %s",
             tree, command);
    assert_int_equal(system(line), 0);
}

/* ---- The files that the walk finds ----------------------------------------------------------- */

struct names {
    pthread_mutex_t lock;
    struct bl_buffer text;
    struct bl_text *list;
    size_t count;
};

static void note(void *context, const struct walk_file *file)
{
    struct names *names = context;
    pthread_mutex_lock(&names->lock);
    bl_buffer_append(&names->text, file->path);
    bl_buffer_append_byte(&names->text, '\0');
    names->count++;
    pthread_mutex_unlock(&names->lock);
}

static int compare_texts(const void *left, const void *right)
{
    return bl_text_compare(*(const struct bl_text *)left, *(const struct bl_text *)right);
}

static void names_sort(struct names *names)
{
    struct bl_text rest = bl_buffer_text(&names->text);
    names->list = bl_alloc((names->count + 1) * sizeof *names->list);
    for (size_t i = 0; i < names->count; i++)
        bl_text_split(&rest, '\0', &names->list[i]);
    qsort(names->list, names->count, sizeof *names->list, compare_texts);
}

static void names_done(struct names *names)
{
    bl_free(names->list);
    bl_buffer_done(&names->text);
    pthread_mutex_destroy(&names->lock);
}

static void names_walk(struct names *names, const char *below)
{
    static const atomic_bool stopped = false;
    char top[512];
    snprintf(top, sizeof top, "%s%s%s", tree, below[0] != '\0' ? "/" : "", below);
    *names = (struct names){0};
    pthread_mutex_init(&names->lock, NULL);
    bl_buffer_init(&names->text, SIZE_MAX);
    int fd = open(top, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    struct walk walk = {.top = top,
                        .home = tree,
                        .descriptor = fd,
                        .stopped = &stopped,
                        .threads_max = 3,
                        .context = names,
                        .take = note};
    walk_run(&walk);
    close(fd);
    assert_int_equal(walk.folders_unreadable, 0);
    names_sort(names);
}

/* The walk finds exactly these files, each followed by a blank. */
static void expect_walk(const char *below, const char *expected)
{
    struct names names;
    struct bl_buffer met;
    bl_buffer_init(&met, SIZE_MAX);
    names_walk(&names, below);
    for (size_t i = 0; i < names.count; i++)
        bl_buffer_printf(&met, BL_TEXT_FORMAT " ", BL_TEXT_ARG(names.list[i]));
    bl_buffer_append_byte(&met, '\0');
    assert_string_equal(met.data, expected);
    bl_buffer_done(&met);
    names_done(&names);
}

/* ---- Comparison with Git --------------------------------------------------------------------- */

static void names_git(struct names *names)
{
    char path[128];
    run_git("ls-files -o -z --exclude-standard > .git/listed");
    snprintf(path, sizeof path, "%s/.git/listed", tree);
    struct bl_text all = suite_read_file(path);
    *names = (struct names){0};
    pthread_mutex_init(&names->lock, NULL);
    bl_buffer_init(&names->text, SIZE_MAX);
    bl_buffer_append(&names->text, all);
    for (size_t i = 0; i < all.size; i++)
        names->count += all.data[i] == '\0';
    bl_free((void *)all.data);
    names_sort(names);
}

static void expect_same_as_git(void)
{
    struct names ours, theirs;
    size_t a = 0, b = 0, differences = 0;
    names_walk(&ours, "");
    names_git(&theirs);
    while (a < ours.count || b < theirs.count) {
        int order = a == ours.count     ? 1
                    : b == theirs.count ? -1
                                        : bl_text_compare(ours.list[a], theirs.list[b]);
        if (order != 0 && differences++ < 5)
            print_error("%s: " BL_TEXT_FORMAT "\n", order < 0 ? "git ignores it" : "git keeps it",
                        BL_TEXT_ARG(order < 0 ? ours.list[a] : theirs.list[b]));
        a += order <= 0;
        b += order >= 0;
    }
    assert_int_equal(differences, 0);
    names_done(&ours);
    names_done(&theirs);
}

static const char *const files[] = {
    "a",          "b",           "a.o",     "x",          "foo.c",    "foo.o",      "a b",
    "a ",         "#x",          "!x",      "x[1]",       "*",        "\\a",        "B",
    ".c",         "c/a",         "c/b",     "c/foo.c",    "c/ab/foo", "c/ab/b.o",   "c/ab/c/a",
    "c/ab/c/foo", "foo/a",       "foo/b/a", "foo/b/foo",  "fooab/a",  "fooab/foo",  "d/foo/c/ab",
    "d/foo/ab/c", "d/d/d/foo.c", "d/d/d/a", "d/\xC3\xA9", "ab/c/d/a", "ab/c/foo.o", "ab/foo",
    "-a",         "]",           "^",       "d/-",        "c/#x",     "c/x y/a",    "e/.c/foo"};

static void write_rule(struct bl_random *random, struct bl_buffer *out)
{
    static const char *const atoms[] = {"a",
                                        "b",
                                        "ab",
                                        "foo",
                                        "c",
                                        "d",
                                        "*",
                                        "*",
                                        "?",
                                        "**",
                                        "/",
                                        "/",
                                        "/",
                                        "**/",
                                        "/**",
                                        "/**/",
                                        "[ab]",
                                        "[!a]",
                                        "[a-c]",
                                        "[]a]",
                                        "[^b]",
                                        "\\*",
                                        "\\a",
                                        ".c",
                                        ".o",
                                        " ",
                                        "\\ ",
                                        "#",
                                        "!",
                                        "[[:alpha:]]",
                                        "[[:digit:][:upper:]]",
                                        "[[:nope:]]",
                                        "[",
                                        "\\",
                                        "[a-",
                                        "[\\]]",
                                        "[--a]",
                                        "[]-a]",
                                        "\xC3\xA9",
                                        "[[:x]",
                                        "[a-]",
                                        "***",
                                        "x",
                                        "[!]b]",
                                        "*.c",
                                        "foo*",
                                        "[a-\\c]"};
    uint64_t count = 1 + bl_random_below(random, 5);
    if (bl_random_below(random, 4) == 0)
        bl_buffer_append_byte(out, '!');
    if (bl_random_below(random, 6) == 0)
        bl_buffer_append_byte(out, '/');
    for (uint64_t i = 0; i < count; i++)
        bl_buffer_append(out, bl_text_from(atoms[bl_random_below(random, BL_COUNT(atoms))]));
    if (bl_random_below(random, 6) == 0)
        bl_buffer_append_byte(out, '/');
    if (bl_random_below(random, 12) == 0)
        bl_buffer_append(out, BL_TEXT("  "));
    bl_buffer_append(out, bl_random_below(random, 20) == 0 ? BL_TEXT("\r\n") : BL_TEXT("\n"));
}

/* Creates many folders with the same files, each with its own rules. */
static void put_random_trees(struct bl_random *random, unsigned long trees)
{
    static const char *const places[] = {"", "", "", "c/", "foo/", "d/foo/", "c/ab/"};
    struct bl_buffer rules;
    char path[256];
    bl_buffer_init(&rules, 4096);
    for (unsigned long i = 0; i < trees; i++) {
        for (size_t j = 0; j < BL_COUNT(files); j++) {
            snprintf(path, sizeof path, "t%lu/%s", i, files[j]);
            put(path, BL_TEXT(""));
        }
        for (uint64_t j = 0, count = 1 + bl_random_below(random, 3); j < count; j++) {
            bl_buffer_clear(&rules);
            for (uint64_t k = 0, lines = 1 + bl_random_below(random, 4); k < lines; k++)
                write_rule(random, &rules);
            if (bl_random_below(random, 4) == 0)
                rules.size--; /* without the last LF */
            snprintf(path, sizeof path, "t%lu/%s.gitignore", i,
                     places[bl_random_below(random, BL_COUNT(places))]);
            put(path, bl_buffer_text(&rules));
        }
    }
    bl_buffer_done(&rules);
}

static void random_rules_ignore_the_same_files_as_git(void **state)
{
    (void)state;
    unsigned long rounds = suite_rounds(1, 30);
    struct bl_random random;
    bl_random_seed(&random, 1);
    for (unsigned long i = 0; i < rounds; i++) {
        tree_begin();
        run_git("init -q .");
        put_random_trees(&random, suite_rounds(30, 100));
        put(".git/info/exclude", BL_TEXT("t1*/foo\n!t11/foo\n/t2/c/**\nt*/d/**/a\n"));
        put(".gitignore", BL_TEXT("t3/**/foo.c\n[!t]*.o\n"));
        expect_same_as_git();
        tree_end();
    }
}

static void rules_of_every_kind_are_read_as_git_reads_them(void **state)
{
    (void)state;
    static const char rules[] = "\xEF\xBB\xBF*.o\n"
                                "!keep.o\n"
                                "/top\n"
                                "sub/only\n"
                                "folder/\n"
                                "**/deep\n"
                                "x/**/y\n"
                                "end/**\n"
                                "[a-c][!0-9]z\n"
                                "\\#hash\n"
                                "\\!bang\n"
                                "# comment\n"
                                "\n"
                                "trail   \n"
                                "kept\\ \n"
                                "crlf\r\n"
                                "mid?le\n"
                                "esc\\*aped\n"
                                "pre**/post\n"
                                "[[:digit:]]digits\n"
                                "last";
    static const char *const some[] = {
        "a.o",        "keep.o",        "n/keep.o",     "top",       "n/top",     "sub/only",
        "n/sub/only", "folder/f",      "n/folder/f",   "n/file",    "deep",      "n/m/deep",
        "x/y",        "x/n/y",         "x/n/m/y",      "end/a",     "end/b/c",   "abz",
        "a1z",        "#hash",         "!bang",        "# comment", "trail",     "trail   ",
        "kept ",      "kept",          "crlf",         "crlf\r",    "middle",    "mid/le",
        "esc*aped",   "escXaped",      "prepost",      "pre/post",  "prex/post", "1digits",
        "adigits",    "last",          "n/.gitignore", "n/re.o",    "n/m/re.o",  "n/folder2",
        "quick/a.o",  "quick/sub/b.o", "q/folder"};
    tree_begin();
    run_git("init -q .");
    for (size_t i = 0; i < BL_COUNT(some); i++)
        put(some[i], BL_TEXT(""));
    put(".gitignore", (struct bl_text){rules, sizeof rules - 1});
    put("n/.gitignore", BL_TEXT("!re.o\n/m/*\n"));
    put("quick/.gitignore", BL_TEXT("*\n!*.o\n!/sub\n"));
    put(".git/info/exclude", BL_TEXT("a1z\nn/file\n"));
    expect_same_as_git();
    tree_end();
}

static void ignore_files_take_precedence_over_gitignore(void **state)
{
    (void)state;
    tree_begin();
    put(".gitignore", BL_TEXT("a\nb\n"));
    put(".ignore", BL_TEXT("!b\nc\n"));
    put("a", BL_TEXT(""));
    put("b", BL_TEXT(""));
    put("c", BL_TEXT(""));
    put("n/c", BL_TEXT(""));
    put("n/a", BL_TEXT(""));
    put("n/.ignore", BL_TEXT("!c\n"));
    expect_walk("", ".gitignore .ignore b n/.ignore n/c ");
    tree_end();
}

static void rules_apply_from_the_root_of_the_repository(void **state)
{
    (void)state;
    tree_begin();
    put(".gitignore", BL_TEXT("*.o\n/n/m/x\n"));
    put("n/.gitignore", BL_TEXT("m/y\n"));
    put("n/m/x", BL_TEXT(""));
    put("n/m/y", BL_TEXT(""));
    put("n/m/z", BL_TEXT(""));
    put("n/m/z.o", BL_TEXT(""));
    put("n/m/own/.git/info/exclude", BL_TEXT("w\n"));
    put("n/m/own/.git/config", BL_TEXT(""));
    put("n/m/own/z.o", BL_TEXT(""));
    put("n/m/own/w", BL_TEXT(""));
    put("n/m/own/.gitignore", BL_TEXT("v\n"));
    put("n/m/own/v", BL_TEXT(""));
    expect_walk("n/m", "own/.gitignore own/z.o z ");
    expect_walk("n/m/own", ".gitignore z.o ");
    tree_end();
}

static void linked_worktrees_use_the_rules_of_their_repository(void **state)
{
    (void)state;
    tree_begin();
    put("main/x", BL_TEXT(""));
    put("main/.git/info/exclude", BL_TEXT("left\n"));
    put("main/.git/worktrees/w/commondir", BL_TEXT("../..\n"));
    put("w/.git", BL_TEXT("gitdir: ../main/.git/worktrees/w\n"));
    put("w/left", BL_TEXT(""));
    put("w/kept", BL_TEXT(""));
    expect_walk("w", "kept ");
    put("w/.git", BL_TEXT("no such thing\n"));
    expect_walk("w", "kept left ");
    tree_end();
}

static void unreadable_rule_files_are_counted_and_not_applied(void **state)
{
    (void)state;
    uint64_t unread = 0;
    char path[128];
    tree_begin();
    put("other", BL_TEXT("a\n"));
    snprintf(path, sizeof path, "%s/.gitignore", tree);
    assert_int_equal(symlink("other", path), 0);
    int fd = open(tree, O_RDONLY | O_DIRECTORY);
    assert_null(ignore_enter(NULL, fd, 0, IGNORE_ALL, &unread));
    assert_int_equal(unread, 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_null(ignore_enter(NULL, fd, 0, IGNORE_ALL, &unread));
    assert_int_equal(unread, 2);
    assert_int_equal(unlink(path), 0);
    put(".gitignore", BL_TEXT("a\n"));
    assert_int_equal(truncate(path, 2 << 20), 0);
    assert_null(ignore_enter(NULL, fd, 0, IGNORE_ALL, &unread));
    assert_int_equal(unread, 3);
    assert_int_equal(truncate(path, 0), 0);
    ignore_unref(ignore_enter(NULL, fd, 0, IGNORE_ALL, &unread));
    assert_int_equal(unread, 3);
    assert_int_equal(unlink(path), 0);
    /* The kernel opens it, but cannot read it: the loopback interface has no speed. */
    put(".git/info/none", BL_TEXT(""));
    snprintf(path, sizeof path, "%s/.git/info/exclude", tree);
    assert_int_equal(symlink("/sys/class/net/lo/speed", path), 0);
    ignore_unref(ignore_enter(NULL, fd, 0, IGNORE_ALL, &unread));
    assert_int_equal(unread, 4);
    assert_false(ignore_has(NULL, BL_TEXT("a"), 0, false));
    close(fd);
    tree_end();
}

SUITE(ignore, cmocka_unit_test(rules_of_every_kind_are_read_as_git_reads_them),
      cmocka_unit_test(random_rules_ignore_the_same_files_as_git),
      cmocka_unit_test(ignore_files_take_precedence_over_gitignore),
      cmocka_unit_test(rules_apply_from_the_root_of_the_repository),
      cmocka_unit_test(linked_worktrees_use_the_rules_of_their_repository),
      cmocka_unit_test(unreadable_rule_files_are_counted_and_not_applied));
