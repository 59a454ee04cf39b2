#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

static bool resolve(struct files *files, const char *given, enum path_use use,
                    struct tool_path *ret_path, const char **ret_text)
{
    struct bl_text text = {0};
    bool found = tool_path_resolve(&files->toolbox, &files->arena, bl_text_from(given), use,
                                   ret_path, &text);
    CHECK(found || text.size > 0);
    CHECK(bl_utf8_valid(text));
    *ret_text = text.size > 0 ? text.data : "";
    return found;
}

/* Checks that the path is resolved and shown as `shown`. */
static bool shows(struct files *files, const char *given, enum path_use use, const char *shown)
{
    struct tool_path path;
    const char *text;
    bool fine =
        resolve(files, given, use, &path, &text) && bl_text_equal(path.shown, bl_text_from(shown));
    if (!fine)
        fprintf(stderr, "'%s': %s\n", given, text);
    return fine;
}

/* Checks that the path is refused with these words. */
static bool refuses(struct files *files, const char *given, enum path_use use, const char *words)
{
    struct tool_path path;
    const char *text;
    bool fine = !resolve(files, given, use, &path, &text) && strstr(text, words) != NULL;
    if (!fine)
        fprintf(stderr, "'%s', and not '%s': %s\n", given, words, text);
    return fine;
}

static int against_workspace(void *argument)
{
    struct files *files = argument;
    struct tool_path path;
    const char *text;
    files_put(files, "a/b.txt", BL_TEXT("x"));
    files_put(files, "c.txt", BL_TEXT("x"));
    CHECK(shows(files, "c.txt", PATH_READ, "c.txt"));
    CHECK(shows(files, "./a//b.txt", PATH_READ, "a/b.txt"));
    CHECK(shows(files, "a/../c.txt", PATH_READ, "c.txt"));
    CHECK(shows(files, "a/./../a/b.txt", PATH_WRITE, "a/b.txt"));
    CHECK(shows(files, "../work/c.txt", PATH_READ, "c.txt"));
    CHECK(shows(files, files_path(files, "a/b.txt"), PATH_READ, "a/b.txt"));
    CHECK(shows(files, ".", PATH_READ, "."));
    CHECK(shows(files, "a/", PATH_READ, "a"));
    files_folder(files, "a/sub");
    CHECK(shows(files, "a/sub/..", PATH_READ, "a"));
    CHECK(shows(files, "a/..", PATH_READ, "."));
    CHECK(shows(files, files->workspace, PATH_READ, "."));
    CHECK(resolve(files, "a/b.txt", PATH_READ, &path, &text));
    CHECK(strcmp(path.root->path, files->workspace) == 0);
    CHECK(strcmp(path.absolute.data, files_path(files, "a/b.txt")) == 0);
    return 0;
}

static int escapes(void *argument)
{
    struct files *files = argument;
    char link[160];
    files_put(files, "../outside/secret", BL_TEXT("secret"));
    snprintf(link, sizeof link, "%s/secret", files->outside);
    files_link(files, link, "to-secret");
    files_link(files, "../outside", "to-outside");
    files_link(files, "to-outside", "chain");
    files_link(files, "/", "to-all");
    files_link(files, "../outside/new", "to-new");
    static const char *const paths[] = {"..",
                                        "../outside/secret",
                                        "a/../../outside/secret",
                                        "/etc/passwd",
                                        "/",
                                        "to-secret",
                                        "to-outside/secret",
                                        "chain/secret",
                                        "to-all/etc/passwd",
                                        "/proc/self/root/etc/passwd",
                                        "/proc/self/cwd"};
    files_folder(files, "a");
    for (size_t i = 0; i < BL_COUNT(paths); i++) {
        CHECK(refuses(files, paths[i], PATH_READ, "is outside the workspace"));
        CHECK(strcmp(paths[i], "/") == 0 ||
              refuses(files, paths[i], PATH_WRITE, "is outside the workspace"));
    }
    CHECK(
        refuses(files, "to-new", PATH_WRITE, "is outside the workspace (through a symbolic link)"));
    CHECK(refuses(files, "to-outside/new/file", PATH_WRITE, "Use a path inside the workspace"));
    /* A folder whose name begins with the workspace's name is a different one. */
    CHECK(refuses(files, "../work-other", PATH_WRITE, "is outside the workspace"));
    return 0;
}

/* Nothing is revealed about files outside, not even whether they exist. */
static int nothing_told(void *argument)
{
    struct files *files = argument;
    struct tool_path path;
    const char *there, *missing;
    files_put(files, "../outside/a", BL_TEXT("x"));
    CHECK(!resolve(files, "../outside/a", PATH_READ, &path, &there));
    CHECK(!resolve(files, "../outside/b", PATH_READ, &path, &missing));
    CHECK(strstr(there, "is outside the workspace") != NULL);
    CHECK_EQUAL(strlen(there), strlen(missing));
    CHECK(refuses(files, "../outside/a/b", PATH_READ, "is outside the workspace"));
    return 0;
}

static int links_inside(void *argument)
{
    struct files *files = argument;
    files_put(files, "a/b.txt", BL_TEXT("x"));
    files_link(files, "a/b.txt", "relative");
    files_link(files, files_path(files, "a"), "absolute");
    files_link(files, "absolute/b.txt", "chain");
    files_link(files, "../a/../relative", "a/back");
    files_link(files, "not-yet", "dangling");
    CHECK(shows(files, "relative", PATH_READ, "a/b.txt"));
    CHECK(shows(files, "absolute/b.txt", PATH_READ, "a/b.txt"));
    CHECK(shows(files, "chain", PATH_WRITE, "a/b.txt"));
    CHECK(shows(files, "a/back", PATH_READ, "a/b.txt"));
    CHECK(shows(files, "absolute/new", PATH_WRITE, "a/new"));
    CHECK(shows(files, "dangling", PATH_WRITE, "not-yet"));
    CHECK(refuses(files, "dangling", PATH_READ, "does not exist"));
    return 0;
}

static int loops(void *argument)
{
    struct files *files = argument;
    char from[16], to[16];
    files_link(files, "self", "self");
    files_link(files, "pong", "ping");
    files_link(files, "ping", "pong");
    for (int i = 0; i < 60; i++) {
        snprintf(from, sizeof from, "long%d", i);
        snprintf(to, sizeof to, "long%d", i + 1);
        files_link(files, to, from);
    }
    files_put(files, "long60", BL_TEXT("x"));
    CHECK(refuses(files, "self", PATH_READ,
                  "is a loop of symbolic links. Use the path of a real file."));
    CHECK(refuses(files, "ping/x", PATH_WRITE, "is a loop of symbolic links"));
    CHECK(refuses(files, "long0", PATH_READ, "is a loop of symbolic links"));
    CHECK(shows(files, "long30", PATH_READ, "long60"));
    return 0;
}

static int malformed(void *argument)
{
    struct files *files = argument;
    struct tool_path path;
    struct bl_text text;
    char *many = bl_zalloc(PATH_MAX + 1), name[300] = {0};
    memset(many, 'a', PATH_MAX);
    memset(name, 'b', 256);
    CHECK(refuses(files, "", PATH_READ, "The path is empty"));
    CHECK(!tool_path_resolve(&files->toolbox, &files->arena, BL_TEXT("a\0b"), PATH_READ, &path,
                             &text));
    CHECK(bl_text_find(text, BL_TEXT("NUL")) >= 0);
    CHECK(refuses(files, many, PATH_READ, "too long"));
    for (size_t i = 1; i < PATH_MAX - 3; i += 2)
        many[i] = '/';
    many[PATH_MAX - 3] = '\0';
    CHECK(refuses(files, many, PATH_WRITE, "too long"));
    CHECK(refuses(files, name, PATH_READ, "path too long"));
    CHECK(refuses(files, name, PATH_WRITE, "255 for each name"));
    CHECK(refuses(files, "~/notes", PATH_WRITE, "'~' is not expanded here"));
    CHECK(refuses(files, "a/", PATH_WRITE, "ends in '/'"));
    files_put(files, "file", BL_TEXT("x"));
    CHECK(refuses(files, "file/below", PATH_READ, "is a file, not a folder"));
    CHECK(refuses(files, "file/below/more", PATH_WRITE, "is a file, not a folder"));
    CHECK(shows(files, "./~", PATH_WRITE, "~"));
    files->toolbox.workspace = "/belay-no-such-folder";
    files_pin(files);
    CHECK(refuses(files, "a", PATH_WRITE, "The workspace '/belay-no-such-folder' does not exist"));
    bl_free(many);
    return 0;
}

static int missing(void *argument)
{
    struct files *files = argument;
    files_put(files, "source/main.c", BL_TEXT("x"));
    CHECK(refuses(files, "source/mian.c", PATH_READ,
                  "'source/mian.c' does not exist; did you mean 'main.c'?"));
    CHECK(refuses(files, "sources/main.c", PATH_READ,
                  "does not exist, nor does one of its parent folders; did you mean 'source'?"));
    CHECK(refuses(files, "zzz", PATH_READ, "'zzz' does not exist"));
    CHECK(refuses(files, "new/../x", PATH_WRITE, "does not exist"));
    CHECK(shows(files, "new/deep/x", PATH_WRITE, "new/deep/x"));
    return 0;
}

static int further_folders(void *argument)
{
    struct files *files = argument;
    const char *extra = files_path(files, "../extra"), *skills = files_path(files, "../skills");
    const char *const folders[] = {extra, NULL}, *const readable[] = {skills, NULL};
    struct tool_path path;
    const char *text;
    files_put(files, "../extra/a", BL_TEXT("x"));
    files_put(files, "../skills/b", BL_TEXT("x"));
    CHECK(refuses(files, "../extra/a", PATH_READ, "is outside the workspace"));
    files->toolbox.folders = folders;
    files->toolbox.readable = readable;
    files_pin(files);
    CHECK(resolve(files, "../extra/a", PATH_WRITE, &path, &text));
    CHECK(bl_text_ends_with(path.shown, BL_TEXT("/extra/a")) && path.shown.data[0] == '/');
    CHECK(bl_text_ends_with(bl_text_from(path.root->path), BL_TEXT("/extra")));
    CHECK(resolve(files, "../skills/b", PATH_READ, &path, &text));
    CHECK(bl_text_ends_with(bl_text_from(path.root->path), BL_TEXT("/skills")));
    CHECK(refuses(files, "../skills/b", PATH_WRITE, "is read-only: write inside the workspace"));
    CHECK(refuses(files, "../outside/x", PATH_WRITE, "or inside an added folder"));
    return 0;
}

/* The folder at the start is pinned: a folder that replaces it is a different one. */
static int replaced_folders(void *argument)
{
    struct files *files = argument;
    const char *const folders[] = {files_path(files, "build"), NULL};
    const char *const readable[] = {files_path(files, "skills"), NULL};
    struct tool_path path;
    const char *text;
    files_put(files, "build/a", BL_TEXT("x"));
    files_put(files, "skills/b", BL_TEXT("x"));
    files_put(files, "../outside/secret", BL_TEXT("secret"));
    files->toolbox.folders = folders;
    files->toolbox.readable = readable;
    files_pin(files);
    CHECK_EQUAL(rename(folders[0], files_path(files, "old")), 0);
    CHECK_EQUAL(rename(readable[0], files_path(files, "older")), 0);
    files_link(files, "../outside", "build");
    files_link(files, "../outside", "skills");
    CHECK(refuses(files, "build/new", PATH_WRITE, "is outside the workspace"));
    CHECK(refuses(files, "skills/secret", PATH_READ, "is outside the workspace"));
    CHECK(resolve(files, "old/a", PATH_WRITE, &path, &text));
    /* The workspace itself, for example by the user. */
    CHECK_EQUAL(rename(files->workspace, files_path(files, "../moved")), 0);
    CHECK_EQUAL(tool_path_open(&path, O_RDONLY), -ENOENT);
    CHECK_EQUAL(symlink("moved", files->workspace), 0);
    CHECK_EQUAL(tool_path_open(&path, O_RDONLY), -ESTALE);
    CHECK(refuses(files, "old/a", PATH_WRITE, "was replaced by another folder"));
    CHECK_EQUAL(unlink(files->workspace), 0);
    CHECK_EQUAL(mkdir(files->workspace, 0777), 0);
    CHECK(refuses(files, "new", PATH_WRITE, "was replaced by another folder"));
    return 0;
}

/* A link does not give a guarded file another name. */
static int guarded_links(void *argument)
{
    struct files *files = argument;
    files_put(files, ".git/config", BL_TEXT("x"));
    files_link(files, ".git", "other");
    CHECK(refuses(files, "other/hooks/pre-commit", PATH_WRITE, "Git may execute it"));
    CHECK(shows(files, "other/config", PATH_READ, ".git/config"));
    CHECK(shows(files, ".git/config", PATH_WRITE, ".git/config"));
    return 0;
}

static int linked_workspace(void *argument)
{
    struct files *files = argument;
    struct tool_path path;
    const char *text;
    files_put(files, "a.txt", BL_TEXT("x"));
    files_link(files, "work", "../linked");
    const char *given = files_path(files, "a.txt");
    files->toolbox.workspace = files_path(files, "../linked");
    files_pin(files);
    CHECK(shows(files, "a.txt", PATH_READ, "a.txt"));
    CHECK(shows(files, given, PATH_READ, "a.txt"));
    CHECK(shows(files, "../linked/a.txt", PATH_READ, "a.txt"));
    files->toolbox.workspace = "/";
    files_pin(files);
    CHECK(shows(files, given, PATH_READ, given + 1));
    CHECK(resolve(files, "/tmp/..", PATH_READ, &path, &text));
    CHECK(bl_text_equal(path.absolute, BL_TEXT("/")) && bl_text_equal(path.shown, BL_TEXT(".")));
    return 0;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int open_agrees(void *argument)
{
    struct files *files = argument;
    static const char *const paths[] = {"a/b/c.txt",  "a/b",    "a/none", "a/b/c.txt/d",
                                        "link/c.txt", "a/last", "a/../x", "..",
                                        "fifo",       "",       "a//b/",  "none/none"};
    files_put(files, "a/b/c.txt", BL_TEXT("x"));
    files_link(files, "a/b", "link");
    files_link(files, "b/c.txt", "a/last");
    CHECK_EQUAL(mkfifo(files_path(files, "fifo"), 0666), 0);
    int root = open(files->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < BL_COUNT(paths); i++) {
        struct stat a, b;
        struct tool_path path = {.absolute = bl_text_from(files_path(files, paths[i])),
                                 .root = &files->toolbox.roots->workspace};
        int one = tool_path_open(&path, O_RDONLY | O_NONBLOCK);
        int other = tool_path_open_parts(root, paths[i], O_RDONLY | O_NONBLOCK);
        CHECK_EQUAL(one >= 0, other >= 0);
        if (one >= 0 && other >= 0) {
            CHECK_EQUAL(fstat(one, &a), 0);
            CHECK_EQUAL(fstat(other, &b), 0);
            CHECK_EQUAL(a.st_ino, b.st_ino);
        }
        bool leads_on = strstr(paths[i], "link") != NULL || strstr(paths[i], "last") != NULL ||
                        strstr(paths[i], "..") != NULL || strstr(paths[i], "none") != NULL ||
                        strstr(paths[i], "txt/d") != NULL;
        CHECK_EQUAL(one < 0, leads_on);
        if (one >= 0)
            close(one);
        if (other >= 0)
            close(other);
    }
    close(root);
    return 0;
}

static int open_and_tell(void *argument)
{
    int fd = tool_path_open(argument, O_RDONLY);
    return fd >= 0 ? 0 : -fd;
}

static int opens_without(void *argument)
{
    struct files *files = argument;
    static const struct {
        int code, expected;
    } cases[] = {{ENOSYS, 0}, {EPERM, 0}, {EAGAIN, 0}, {EMFILE, EMFILE}};
    files_put(files, "a/b.txt", BL_TEXT("x"));
    struct tool_path path = {.absolute = bl_text_from(files_path(files, "a/b.txt")),
                             .root = &files->toolbox.roots->workspace};
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        CHECK_EQUAL(files_without_openat2(cases[i].code, open_and_tell, &path), cases[i].expected);
    return 0;
}

/* Swaps a folder and a link that leads out, as fast as possible. */
struct swapper {
    char folder[160], link[160];
    atomic_bool end;
};

static void *swap(void *argument)
{
    struct swapper *swapper = argument;
    while (!atomic_load(&swapper->end))
        renameat2(AT_FDCWD, swapper->folder, AT_FDCWD, swapper->link, RENAME_EXCHANGE);
    return NULL;
}

static bool reads_inside(int fd)
{
    char content[16] = {0};
    ssize_t size = read(fd, content, sizeof content - 1);
    close(fd);
    return size > 0 && strcmp(content, "inside") == 0;
}

static int swapped(void *argument)
{
    struct files *files = argument;
    static struct swapper swapper;
    struct bl_arena_mark mark;
    pthread_t thread;
    unsigned long rounds = suite_rounds(2000, 200000), opened = 0, replaced = 0;
    atomic_bool stopped = false;
    files_put(files, "real/file", BL_TEXT("inside"));
    files_put(files, "../outside/file", BL_TEXT("secret"));
    files_link(files, files->outside, "link");
    snprintf(swapper.folder, sizeof swapper.folder, "%s/real", files->workspace);
    snprintf(swapper.link, sizeof swapper.link, "%s/link", files->workspace);
    atomic_store(&swapper.end, false);
    CHECK_EQUAL(pthread_create(&thread, NULL, swap, &swapper), 0);
    mark = bl_arena_mark(&files->arena);
    int root = open(files->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* On a busy machine, more rounds may be needed for both outcomes. */
    for (unsigned long i = 0; i < rounds || (i < 100 * rounds && (opened == 0 || replaced == 0));
         i++) {
        struct tool_path path;
        struct bl_text text;
        struct file_replaced what;
        if (tool_path_resolve(&files->toolbox, &files->arena, BL_TEXT("real/file"), PATH_WRITE,
                              &path, &text)) {
            int fd = tool_path_open(&path, O_RDONLY);
            CHECK(fd < 0 || reads_inside(fd));
            opened += fd >= 0;
            fd = tool_path_open_parts(root, "real/file", O_RDONLY);
            CHECK(fd < 0 || reads_inside(fd));
            struct file_job job = {.given = BL_TEXT("")};
            bl_buffer_init(&job.out, SIZE_MAX);
            CHECK_EQUAL(file_replace(&job, &path, BL_TEXT("inside"), NULL, &stopped, &what), 0);
            replaced += !job.is_error;
            bl_buffer_done(&job.out);
            bl_arena_done(&job.arena);
        }
        bl_arena_rewind(&files->arena, mark);
    }
    atomic_store(&swapper.end, true);
    pthread_join(thread, NULL);
    close(root);
    CHECK(opened > 0 && replaced > 0);
    CHECK(files_holds(files, "../outside/file", BL_TEXT("secret")));
    CHECK_EQUAL(files_count(files, "../outside", ""), 1);
    return 0;
}

FILES_TEST(paths_are_resolved_against_the_workspace, against_workspace)
FILES_TEST(symlink_and_dot_dot_escapes_are_refused, escapes)
FILES_TEST(nothing_is_revealed_about_files_outside, nothing_told)
FILES_TEST(links_that_stay_inside_are_followed, links_inside)
FILES_TEST(symlink_loops_are_refused, loops)
FILES_TEST(invalid_path_is_refused_with_a_remedy, malformed)
FILES_TEST(missing_path_is_reported_with_a_suggestion, missing)
FILES_TEST(added_folders_may_be_written_and_readable_ones_only_read, further_folders)
FILES_TEST(a_replaced_folder_is_refused, replaced_folders)
FILES_TEST(guarded_file_is_refused_through_a_link, guarded_links)
FILES_TEST(a_workspace_may_be_a_link_or_the_root, linked_workspace)
FILES_TEST(both_ways_to_open_refuse_the_same, open_agrees)
FILES_TEST(files_are_opened_without_openat2, opens_without)
FILES_TEST(a_link_swapped_in_after_the_check_leads_nowhere, swapped)

SUITE(path, cmocka_unit_test(paths_are_resolved_against_the_workspace),
      cmocka_unit_test(symlink_and_dot_dot_escapes_are_refused),
      cmocka_unit_test(nothing_is_revealed_about_files_outside),
      cmocka_unit_test(links_that_stay_inside_are_followed),
      cmocka_unit_test(symlink_loops_are_refused),
      cmocka_unit_test(invalid_path_is_refused_with_a_remedy),
      cmocka_unit_test(missing_path_is_reported_with_a_suggestion),
      cmocka_unit_test(added_folders_may_be_written_and_readable_ones_only_read),
      cmocka_unit_test(a_replaced_folder_is_refused),
      cmocka_unit_test(guarded_file_is_refused_through_a_link),
      cmocka_unit_test(a_workspace_may_be_a_link_or_the_root),
      cmocka_unit_test(both_ways_to_open_refuse_the_same),
      cmocka_unit_test(files_are_opened_without_openat2),
      cmocka_unit_test(a_link_swapped_in_after_the_check_leads_nowhere));
