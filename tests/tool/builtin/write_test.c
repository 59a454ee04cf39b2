#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"

#define BIG ((size_t)1024 * 1024)

static char *big_content(char byte)
{
    char *content = bl_zalloc(BIG + 1);
    memset(content, byte, BIG);
    return content;
}

static unsigned mode_of(struct files *files, const char *path)
{
    struct stat status;
    return lstat(files_path(files, path), &status) == 0 ? status.st_mode : 0;
}

static int created(void *argument)
{
    struct files *files = argument;
    mode_t mask = umask(027);
    CHECK_EQUAL(files_call(files, &tool_write, "{\"path\":\"a.txt\",\"content\":\"one\\n\"}"), 0);
    CHECK(files_says(files, false, "Created 'a.txt': 4 bytes."));
    CHECK(files_holds(files, "a.txt", BL_TEXT("one\n")));
    CHECK_EQUAL(mode_of(files, "a.txt"), S_IFREG | 0640);
    CHECK_EQUAL(files_call(files, &tool_write, "{\"path\":\"x/y/z\",\"content\":\"\"}"), 0);
    CHECK(files_says(files, false, "Created 'x/y/z': 0 bytes."));
    CHECK(files_holds(files, "x/y/z", BL_TEXT("")));
    CHECK_EQUAL(mode_of(files, "x/y"), S_IFDIR | 0750);
    umask(mask);
    return 0;
}

/* A name may be as long as the file system allows. */
static int long_names(void *argument)
{
    struct files *files = argument;
    char name[NAME_MAX + 1];
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    /* The temporary file beside it has a different name. */
    name[0] = '.';
    files_put(files, name, BL_TEXT("other"));
    name[0] = 'n';
    for (size_t size = NAME_MAX; size > NAME_MAX - 20; size--) {
        name[size] = '\0';
        CHECK_EQUAL(files_call_with(files, &tool_write, "path", name, "content", "one", NULL), 0);
        CHECK(files_says(files, false, "Created '"));
        CHECK(files_holds(files, name, BL_TEXT("one")));
    }
    return 0;
}

static int overwritten(void *argument)
{
    struct files *files = argument;
    files_put(files, "run.sh", BL_TEXT("#!/bin/sh\n"));
    CHECK_EQUAL(chmod(files_path(files, "run.sh"), 04751), 0);
    files_link(files, "run.sh", "link");
    CHECK_EQUAL(files_call(files, &tool_write, "{\"path\":\"link\",\"content\":\"true\\n\"}"), 0);
    CHECK(files_says(files, false, "Overwrote 'run.sh': 5 bytes (before: 10 bytes)."));
    CHECK(files_holds(files, "run.sh", BL_TEXT("true\n")));
    CHECK_EQUAL(mode_of(files, "run.sh"), S_IFREG | 04751);
    CHECK_EQUAL(mode_of(files, "link") & S_IFMT, S_IFLNK);
    CHECK_EQUAL(files_count(files, ".", ""), 2);
    return 0;
}

static int refused(void *argument)
{
    struct files *files = argument;
    files_folder(files, "folder");
    CHECK_EQUAL(mkfifo(files_path(files, "fifo"), 0666), 0);
    static const struct {
        const char *path, *text;
    } cases[] = {
        {"folder", "'folder' is a folder"},
        {"fifo", "is a FIFO, not a regular file"},
        {".", "cannot write '.': Is a directory"},
        {"../outside/new", "is outside the workspace"},
        {"fifo/below", "'fifo/below'"},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        CHECK_EQUAL(
            files_call_with(files, &tool_write, "path", cases[i].path, "content", "x", NULL), 0);
        CHECK(files_says(files, true, cases[i].text));
    }
    CHECK_EQUAL(files_count(files, ".", ""), 2);
    CHECK_EQUAL(files_count(files, "../outside", ""), 0);
    CHECK(!files_fits(files, &tool_write, "{\"path\":\"a\"}"));
    CHECK(!files_fits(files, &tool_write, "{\"content\":\"a\"}"));
    CHECK(!files_fits(files, &tool_write, "{\"path\":\"a\",\"content\":\"\",\"mode\":1}"));
    CHECK(!tool_write.reads && !tool_write.parallel);
    return 0;
}

static int long_name(void *argument)
{
    struct files *files = argument;
    char name[256] = {0};
    for (size_t i = 0; i + 1 < 255; i += 2)
        memcpy(name + i, "\xC3\xA4", 2);
    name[254] = 'x';
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(files_call_with(files, &tool_write, "path", name, "content", "x", NULL), 0);
        CHECK(files_says(files, false, i == 0 ? "Created" : "Overwrote"));
    }
    CHECK_EQUAL(files_count(files, ".", ""), 1);
    return 0;
}

/* Runs as a user without special rights. */
static int without_rights(void *argument)
{
    struct files *files = argument;
    files_put(files, "protected", BL_TEXT("old"));
    files_put(files, "secret", BL_TEXT("old"));
    files_put(files, "closed/a", BL_TEXT("old"));
    CHECK_EQUAL(chmod(files_path(files, "protected"), 0444), 0);
    CHECK_EQUAL(chmod(files_path(files, "secret"), 0), 0);
    CHECK_EQUAL(chmod(files_path(files, "closed"), 0), 0);
    CHECK_EQUAL(chmod(files->workspace, 0777), 0);
    CHECK_EQUAL(chmod(files->folder, 0711), 0);
    bool root = geteuid() == 0;
    if (root)
        CHECK_EQUAL(seteuid(65534), 0);
    CHECK_EQUAL(files_call(files, &tool_write, "{\"path\":\"protected\",\"content\":\"\"}"), 0);
    CHECK(files_says(files, true, "'protected' is write-protected (mode 0444)"));
    CHECK_EQUAL(files_call(files, &tool_write, "{\"path\":\"closed/b\",\"content\":\"\"}"), 0);
    CHECK(files_says(files, true, "cannot use 'closed/b': Permission denied"));
    CHECK_EQUAL(files_call(files, &tool_read, "{\"path\":\"secret\"}"), 0);
    CHECK(files_says(files, true, "cannot read 'secret': Permission denied"));
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"path\":\"closed\"}"), 0);
    CHECK(files_says(files, true, "'closed' cannot be listed: Permission denied"));
    CHECK_EQUAL(files_call(files, &tool_ls, "{\"depth\":2}"), 0);
    CHECK(files_says(files, false, "closed/  [cannot be listed: Permission denied]\n"));
    if (root)
        CHECK_EQUAL(seteuid(0), 0);
    CHECK_EQUAL(chmod(files_path(files, "closed"), 0700), 0);
    CHECK(files_holds(files, "protected", BL_TEXT("old")));
    CHECK_EQUAL(files_count(files, ".", ""), 3);
    return 0;
}

/* If the disk has no room, the old file stays. The system's limit on file sizes simulates this. */
static int no_room(void *argument)
{
    struct files *files = argument;
    struct rlimit limit, small;
    char *content = big_content('n');
    files_put(files, "a", BL_TEXT("old"));
    CHECK_EQUAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){.rlim_cur = BIG / 2, .rlim_max = limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_EQUAL(files_call_with(files, &tool_write, "path", "a", "content", content, NULL), 0);
    CHECK(files_says(files, true, "cannot write 'a': File too large"));
    CHECK_EQUAL(files_call_with(files, &tool_write, "path", "x/y", "content", content, NULL), 0);
    CHECK(files_says(files, true, "cannot write 'x/y': File too large"));
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_DFL);
    CHECK(files_holds(files, "a", BL_TEXT("old")));
    CHECK_EQUAL(files_count(files, ".", ""), 1);
    bl_free(content);
    return 0;
}

/* ---- Stops ----------------------------------------------------------------------------------- */

struct stopper {
    struct files *files;
    uint64_t wait_ns;
};

static int stop_after(void *argument)
{
    const struct stopper *stopper = argument;
    if (bl_sleep(stopper->wait_ns) == 0)
        bl_scope_stop(&stopper->files->scope, BL_STOP_USER, "test");
    return 0;
}

/* Stops a call on "deep/er/big" after a random delay; one time in four at once, and one time in
 * four never. */
static int call_and_stop(struct files *files, struct bl_random *random, const struct bl_json *input)
{
    struct bl_nursery nursery;
    uint64_t wait_ns = bl_random_below(random, BL_NS_PER_MS);
    if (wait_ns % 4 < 2)
        wait_ns = wait_ns % 4 == 0 ? 0 : 600 * BL_NS_PER_S;
    struct stopper stopper = {files, wait_ns};
    files_arm(files);
    bl_nursery_init(&nursery, bl_scope_current());
    /* "At once" is before the call: on a busy machine the write could end before a fiber has its
     * turn. */
    if (wait_ns == 0)
        bl_scope_stop(&files->scope, BL_STOP_USER, "test");
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "stopper", stop_after, &stopper, NULL), 0);
    int code = files_call_input(files, &tool_write, input);
    bl_nursery_done(&nursery);
    CHECK(code == 0 || code == BL_ECANCELED);
    if (code == 0)
        return 0;
    CHECK(files_outcome_unknown(files) || files_says(files, true, "stopped: nothing was changed"));
    CHECK(bl_receipt_ready(&files->receipt));
    CHECK(bl_receipt_cancel_observed(&files->receipt));
    return code;
}

/* The path that is written to. A call whose outcome is unknown may still change it: the next calls
 * have a path of their own. */
struct target {
    char folder[16], parent[24], path[32];
    const struct bl_json *inputs[2];
    int there; /* index of the file's content; -1 if there is no file */
};

static void aim(struct files *files, struct target *target, unsigned long number, char *contents[2])
{
    snprintf(target->folder, sizeof target->folder, "deep-%lu", number % 10000);
    snprintf(target->parent, sizeof target->parent, "%s/er", target->folder);
    snprintf(target->path, sizeof target->path, "%s/big", target->parent);
    for (int i = 0; i < 2; i++)
        target->inputs[i] = files_input(files, "path", target->path, "content", contents[i], NULL);
    target->there = -1;
}

static int stopped_at_random(void *argument)
{
    struct files *files = argument;
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 25 : 60, 3000), done[2] = {0};
    unsigned long unknown = 0;
    char *contents[2] = {big_content('a'), big_content('b')};
    struct target target;
    struct bl_random random;
    bl_random_seed(&random, 11);
    aim(files, &target, unknown, contents);
    for (unsigned long i = 0; i < rounds; i++) {
        struct bl_arena_mark mark = bl_arena_mark(&files->arena);
        int next = target.there == 0;
        int code = call_and_stop(files, &random, target.inputs[next]);
        bool known = !files_outcome_unknown(files);
        done[code == 0]++;
        if (code == 0)
            target.there = next;
        if (!known)
            aim(files, &target, ++unknown, contents);
        else if (target.there < 0)
            CHECK_EQUAL(files_count(files, ".", target.folder), 0); /* the folders, too */
        else
            CHECK(files_holds(files, target.path, (struct bl_text){contents[target.there], BIG}));
        if (known) {
            CHECK_EQUAL(files_count(files, target.parent, ".big.belay-"), 0);
            bl_arena_rewind(&files->arena, mark);
        }
    }
    CHECK(done[0] > 0 && done[1] > 0);
    bl_free(contents[0]);
    bl_free(contents[1]);
    files_arm(files);
    return 0;
}

/* kill -9 during a write. */
static _Noreturn void write_for_ever(const char *workspace, int ready)
{
    static const atomic_bool never = false;
    char *contents[2] = {big_content('a'), big_content('b')};
    struct bl_arena arena = {0};
    struct tool_roots *roots = tool_roots_new(&arena, workspace, NULL, NULL);
    for (unsigned i = 0;; i++) {
        struct file_job job = {.roots = *roots, .given = BL_TEXT("big")};
        struct file_replaced replaced;
        struct tool_path path;
        bl_buffer_init(&job.out, SIZE_MAX);
        if (!file_job_resolve(&job, PATH_WRITE, &path) ||
            file_replace(&job, &path, (struct bl_text){contents[i % 2], BIG}, NULL, &never,
                         &replaced) != 0 ||
            (i == 0 && write(ready, "", 1) != 1))
            _exit(1);
        bl_buffer_done(&job.out);
        bl_arena_done(&job.arena);
    }
}

static bool is_whole(struct files *files)
{
    struct bl_buffer found;
    const char *why;
    bool whole =
        bl_file_load(files_path(files, "big"), 2 * BIG, &found, &why) == 0 && found.size == BIG;
    whole = whole && memcmp(found.data, found.data + 1, BIG - 1) == 0;
    bl_buffer_done(&found);
    return whole;
}

static int killed(void *argument)
{
    struct files *files = argument;
    struct bl_random random;
    bl_random_seed(&random, 12);
    for (unsigned long i = 0; i < suite_rounds(12, 500); i++) {
        int ready[2];
        char byte;
        struct bl_arena_mark mark = bl_arena_mark(&files->arena);
        CHECK_EQUAL(pipe2(ready, O_CLOEXEC), 0);
        pid_t child = fork();
        if (child == 0)
            write_for_ever(files->workspace, ready[1]);
        close(ready[1]);
        CHECK_EQUAL(read(ready[0], &byte, 1), 1);
        usleep((unsigned)bl_random_below(&random, 5000));
        kill(child, SIGKILL);
        CHECK_EQUAL(waitpid(child, NULL, 0), child);
        close(ready[0]);
        CHECK(is_whole(files));
        /* A temporary file may be left, with that name and no other. */
        CHECK(files_count(files, ".", "") - 1 == files_count(files, ".", ".big.belay-"));
        bl_arena_rewind(&files->arena, mark);
    }
    return 0;
}

/* ---- Work on threads ------------------------------------------------------------------------- */

/* Work that waits for a byte. */
struct hanging {
    int descriptor;
    bool obeys; /* also checks for the stop */
    atomic_bool *dropped;
    atomic_bool *begun;
};

static int hang(void *payload, const atomic_bool *stopped)
{
    struct hanging *hanging = payload;
    char byte;
    atomic_store(hanging->begun, true);
    while (hanging->obeys && !atomic_load(stopped))
        usleep(200);
    if (hanging->obeys)
        return BL_ECANCELED;
    return read(hanging->descriptor, &byte, 1) == 1 ? 0 : BL_ECANCELED;
}

static void drop_hanging(void *payload)
{
    struct hanging *hanging = payload;
    atomic_store(hanging->dropped, true);
    bl_free(hanging);
}

struct work_case {
    struct files *files;
    int pipe[2];
    atomic_bool dropped, begun;
};

static int stop_when_begun(void *argument)
{
    struct work_case *work = argument;
    while (!atomic_load(&work->begun) && !bl_scope_stopped(&work->files->scope))
        CHECK_EQUAL(bl_sleep(BL_NS_PER_MS), 0);
    bl_scope_stop(&work->files->scope, BL_STOP_USER, "test");
    return 0;
}

static int run_work(struct work_case *work, bool obeys, bool *ret_abandoned)
{
    struct files *files = work->files;
    struct hanging *hanging = bl_zalloc(sizeof *hanging);
    struct bl_nursery nursery;
    *hanging = (struct hanging){work->pipe[0], obeys, &work->dropped, &work->begun};
    files->call = (struct bl_tool_call){.id = "call_7", .name = "grep", .scope = &files->scope};
    struct tool_job job = {.run = hang, .drop = drop_hanging, .payload = hanging};
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "stopper", stop_when_begun, work, NULL), 0);
    struct bl_scope *outer = bl_scope_enter(&files->scope);
    int code = tool_work(&files->call, &job);
    bl_scope_enter(outer);
    bl_nursery_done(&nursery);
    *ret_abandoned = job.abandoned;
    return code;
}

/* Returns the receipt as JSON, in the arena. */
static const char *receipt_text(struct files *files)
{
    struct bl_json_writer writer;
    struct bl_buffer text;
    bl_buffer_init(&text, SIZE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_receipt_write(&files->receipt, &writer);
    struct bl_text kept = bl_arena_text(&files->arena, bl_buffer_text(&text));
    bl_buffer_done(&text);
    return kept.data;
}

static int work_stops(void *argument)
{
    struct work_case work = {.files = argument};
    bool abandoned;
    CHECK_EQUAL(pipe2(work.pipe, O_CLOEXEC), 0);
    CHECK_EQUAL(run_work(&work, true, &abandoned), BL_ECANCELED);
    CHECK(!abandoned && atomic_load(&work.dropped));
    CHECK(strstr(receipt_text(work.files), "\"id\":\"call_7\",\"name\":\"grep\",\"fate\":"
                                           "\"aborted\"") != NULL);
    /* Nothing starts after the stop. */
    atomic_store(&work.dropped, false);
    atomic_store(&work.begun, false);
    CHECK_EQUAL(run_work(&work, true, &abandoned), BL_ECANCELED);
    CHECK(!abandoned && atomic_load(&work.dropped) && !atomic_load(&work.begun));
    close(work.pipe[0]);
    close(work.pipe[1]);
    files_arm(work.files);
    return 0;
}

static int work_hangs(void *argument)
{
    struct work_case work = {.files = argument};
    bool abandoned;
    CHECK_EQUAL(pipe2(work.pipe, O_CLOEXEC), 0);
    uint64_t before_ns = bl_now_ns();
    CHECK_EQUAL(run_work(&work, false, &abandoned), BL_ECANCELED);
    CHECK(bl_now_ns() - before_ns < 5 * BL_NS_PER_S);
    CHECK(abandoned && !atomic_load(&work.dropped));
    CHECK(strstr(receipt_text(work.files), "\"fate\":\"unknown\"") != NULL);
    CHECK(!bl_receipt_cancel_observed(&work.files->receipt));
    /* When the system answers at last, the thread's payload is dropped. */
    CHECK_EQUAL(write(work.pipe[1], "", 1), 1);
    while (!atomic_load(&work.dropped))
        CHECK_EQUAL(bl_sleep(BL_NS_PER_MS), 0);
    close(work.pipe[0]);
    close(work.pipe[1]);
    files_arm(work.files);
    return 0;
}

/* Work that was complete when the stop came is finished, and kept. */
static int work_finishes(void *argument)
{
    struct work_case work = {.files = argument};
    struct files *files = argument;
    bool abandoned;
    CHECK_EQUAL(pipe2(work.pipe, O_CLOEXEC), 0);
    CHECK_EQUAL(write(work.pipe[1], "", 1), 1);
    struct hanging *hanging = bl_zalloc(sizeof *hanging);
    *hanging = (struct hanging){work.pipe[0], false, &work.dropped, &work.begun};
    files->call = (struct bl_tool_call){.id = "call_7", .name = "write", .scope = &files->scope};
    struct tool_job job = {.run = hang, .drop = drop_hanging, .payload = hanging};
    struct bl_scope *outer = bl_scope_enter(&files->scope);
    CHECK_EQUAL(tool_work(&files->call, &job), 0);
    bl_scope_enter(outer);
    abandoned = job.abandoned;
    CHECK(!abandoned && !atomic_load(&work.dropped));
    bl_free(hanging);
    close(work.pipe[0]);
    close(work.pipe[1]);
    return 0;
}

FILES_TEST(write_creates_a_file_with_its_folders, created)
FILES_TEST(write_takes_names_of_any_length, long_names)
FILES_TEST(write_replaces_a_file_and_keeps_its_mode, overwritten)
FILES_TEST(write_refuses_special_files, refused)
FILES_TEST(write_takes_the_longest_name, long_name)
FILES_TEST(inaccessible_files_are_reported_and_unchanged, without_rights)
FILES_TEST(write_that_does_not_fit_leaves_the_old_file, no_room)
FILES_TEST(write_is_atomic_so_a_stop_never_leaves_half_a_file, stopped_at_random)
FILES_TEST(write_leaves_a_whole_file_when_it_is_killed, killed)
FILES_TEST(stop_waits_until_the_thread_notices_it, work_stops)
FILES_TEST(hanging_thread_is_left_behind_and_the_receipt_says_so, work_hangs)
FILES_TEST(finished_work_is_kept, work_finishes)

SUITE(write, cmocka_unit_test(write_creates_a_file_with_its_folders),
      cmocka_unit_test(write_takes_names_of_any_length),
      cmocka_unit_test(write_replaces_a_file_and_keeps_its_mode),
      cmocka_unit_test(write_refuses_special_files), cmocka_unit_test(write_takes_the_longest_name),
      cmocka_unit_test(inaccessible_files_are_reported_and_unchanged),
      cmocka_unit_test(write_that_does_not_fit_leaves_the_old_file),
      cmocka_unit_test(write_is_atomic_so_a_stop_never_leaves_half_a_file),
      cmocka_unit_test(write_leaves_a_whole_file_when_it_is_killed),
      cmocka_unit_test(stop_waits_until_the_thread_notices_it),
      cmocka_unit_test(hanging_thread_is_left_behind_and_the_receipt_says_so),
      cmocka_unit_test(finished_work_is_kept));
