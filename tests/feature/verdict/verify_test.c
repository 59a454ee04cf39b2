#include "helpers.h"

#include <belay/git.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 700

/* A repository, its git, and an order to verify one of its commits. */
struct bench {
    struct place place;
    struct git_repository *git;
    struct bl_project project;
    struct seat_house house;
    struct bl_arena arena;
    struct bl_verify_plan plan;
    struct verify_order order;
    struct verify_outcome outcome;
    struct bl_scope scope; /* scope of the verification */
    struct bl_receipt receipt;
    char feature[64];
    char folder[PATH_SIZE];
    char *base;
    char *commit;
    struct bl_buffer output;
    const char *stop_at; /* stops the scope when this is printed; NULL: never */
    bool linked;         /* it could be hurried when it printed */
    int (*body)(struct bench *bench);
};

static const char *const no_list[] = {NULL};

static void take_output(void *context, struct bl_text bytes)
{
    struct bench *bench = context;
    bl_buffer_append(&bench->output, bytes);
    bench->linked = bench->linked || !bl_list_empty(&bench->house.running);
    /* At the start of a line: the output, not the command's own text. */
    char line[80];
    snprintf(line, sizeof line, "\n%s\n", bench->stop_at != NULL ? bench->stop_at : "-");
    if (bench->stop_at != NULL &&
        bl_text_find(bl_buffer_text(&bench->output), bl_text_from(line)) >= 0)
        bl_scope_stop(&bench->scope, BL_STOP_USER, "test");
}

static void bench_make(struct bench *bench)
{
    static unsigned number;
    *bench = (struct bench){.plan = {.commands = no_list,
                                     .carry = no_list,
                                     .protect = no_list,
                                     .timeout_ns = 60 * BL_NS_PER_S}};
    place_make(&bench->place);
    snprintf(bench->feature, sizeof bench->feature, "FEAT-%d-%u", (int)getpid(), ++number);
    snprintf(bench->folder, sizeof bench->folder, "%s/copies/verify", bench->place.root);
    bl_buffer_init(&bench->output, SIZE_MAX);
    bench->base = place_git_output(&bench->place, "rev-parse HEAD");
    bench->commit = place_git_output(&bench->place, "rev-parse HEAD");
}

static void bench_commit(struct bench *bench)
{
    place_git(&bench->place, "add -A");
    place_git(&bench->place, "commit -qm more");
    bl_free(bench->commit);
    bench->commit = place_git_output(&bench->place, "rev-parse HEAD");
}

static void bench_done(struct bench *bench)
{
    bl_arena_done(&bench->arena);
    bl_buffer_done(&bench->output);
    bl_free(bench->base);
    bl_free(bench->commit);
    place_done(&bench->place);
}

/* Counts the processes with this test's feature in their environment. */
static unsigned count_processes(const struct bench *bench)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    unsigned count = 0;
    char path[64], *environment = bl_alloc(1 << 17);
    while ((entry = readdir(folder)) != NULL) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid <= 0 || pid == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%ld/environ", pid);
        struct bl_text text = bl_file_read(AT_FDCWD, path, environment, 1 << 17);
        count += bl_text_find(text, bl_text_from(bench->feature)) >= 0;
    }
    closedir(folder);
    bl_free(environment);
    return count;
}

static bool is_gone(const char *path)
{
    struct stat status;
    return lstat(path, &status) != 0 && errno == ENOENT;
}

/* Verifies in the bench's scope, and checks that nothing is left. */
static int verify(struct bench *bench)
{
    struct bl_scope *outer = bl_scope_current();
    bench->order.feature = bench->feature;
    if (bench->order.gate == NULL) {
        bench->order.plan = &bench->plan;
        bench->order.task = "TASK-A";
    }
    bench->order.attempt = 2;
    bench->order.turn = 3;
    bench->order.commit = bench->commit;
    bench->order.base_commit = bench->base;
    bench->order.carry_from = bench->place.repository;
    bench->order.folder = bench->folder;
    bench->order.output = take_output;
    bench->order.context = bench;
    bl_buffer_clear(&bench->output);
    bl_scope_enter(&bench->scope);
    int code = verify_run(&bench->house, bench->git, &bench->order, &bench->arena, &bench->outcome);
    bl_scope_enter(outer);
    CHECK(is_gone(bench->folder));
    CHECK_EQUAL(count_processes(bench), 0);
    CHECK(bl_list_empty(&bench->house.running));
    return code;
}

static int bench_main(void *argument)
{
    struct bench *bench = argument;
    struct bl_error error = {0};
    if (!CHECK_EQUAL(git_open(bench->place.repository, &bench->git, &error), 0))
        return 1;
    bl_project_init(&bench->project);
    if (!CHECK_EQUAL(bl_project_read(&bench->project, bench->place.repository, &error), 0))
        return 1;
    seat_house_init(&bench->house, NULL, &bench->project, bench->place.repository,
                    git_folder(bench->git), NULL);
    bl_scope_init(&bench->scope, bl_scope_current());
    bl_receipt_open(&bench->receipt, &bench->scope, "run_test");
    bench->body(bench);
    bl_receipt_close(&bench->receipt);
    bl_scope_done(&bench->scope);
    bl_project_done(&bench->project);
    git_close(bench->git);
    return 0;
}

static void bench_run(struct bench *bench, int (*body)(struct bench *bench))
{
    bench->body = body;
    run_in_loop(bench_main, bench);
}

/* Runs a body that needs only the first commit. */
static void with_bench(int (*body)(struct bench *bench))
{
    struct bench bench;
    bench_make(&bench);
    bench_run(&bench, body);
    bench_done(&bench);
}

/* Verifies with one command. Returns true if the value and the reason are as expected. */
static bool comes_to(struct bench *bench, const char *command, enum bl_verified value,
                     const char *why)
{
    const char *const commands[] = {command, NULL};
    bench->plan.commands = commands;
    CHECK_EQUAL(verify(bench), 0);
    bench->plan.commands = no_list;
    bool says = bl_text_find(bench->outcome.why, bl_text_from(why)) >= 0;
    if (bench->outcome.value != value || !says)
        fprintf(stderr, "%s: %s, '%.*s'; expected %s, '%s'; tail '%.*s'\n", command,
                bl_verified_name(bench->outcome.value), BL_TEXT_ARG(bench->outcome.why),
                bl_verified_name(value), why, BL_TEXT_ARG(bench->outcome.tail));
    return bench->outcome.value == value && says;
}

static const struct issue *first_issue(const struct bench *bench)
{
    return BL_CONTAINER(bench->outcome.issues.next, struct issue, link);
}

/* ---- Three values ---------------------------------------------------------------------------- */

static int passing(struct bench *bench)
{
    static const char *const commands[] = {
        "test -f README.md && test \"$(git status --porcelain)\" = ''",
        "test \"$BELAY_TASK-$BELAY_ATTEMPT-$BELAY_TURN-$BELAY_PHASE\" = TASK-A-2-3-verify && "
        "test -n \"$BELAY_FEATURE\" && test \"$HOME\" = \"$OUTER_HOME\" && "
        "test -z \"$SOME_API_KEY$GIT_DIR$BELAY_RESULT\" && test ! -e made",
        "echo $$ > made", NULL};
    setenv("SOME_API_KEY", "secret", 1);
    setenv("GIT_DIR", "/nowhere", 1);
    setenv("BELAY_RESULT", "/nowhere", 1);
    setenv("OUTER_HOME", getenv("HOME") != NULL ? getenv("HOME") : "", 1);
    bench->plan.commands = commands;
    CHECK_EQUAL(verify(bench), 0);
    CHECK_EQUAL(bench->outcome.value, BL_VERIFIED_PASSED);
    CHECK_EQUAL(bench->outcome.run_count, 3);
    CHECK(strcmp(bench->outcome.runs[2].command, commands[2]) == 0);
    CHECK_EQUAL(bench->outcome.runs[2].exit_code, 0);
    CHECK(!bench->outcome.runs[0].setup);
    CHECK(bl_list_empty(&bench->outcome.issues));
    CHECK(bl_text_find(bl_buffer_text(&bench->output), BL_TEXT("$ echo $$ > made\n")) >= 0);
    unsetenv("SOME_API_KEY");
    unsetenv("GIT_DIR");
    unsetenv("BELAY_RESULT");
    return 0;
}

static void all_commands_that_exit_with_0_are_passed(void **state)
{
    (void)state;
    with_bench(passing);
}

static int failing(struct bench *bench)
{
    static const char *const commands[] = {"exit 127", "echo out; echo err >&2; exit 1",
                                           "echo later; exit 2", NULL};
    CHECK(comes_to(bench, "echo out; echo err >&2; exit 1", BL_VERIFIED_FAILED,
                   "Verification failed: `echo out; echo err >&2; exit 1` exited with 1."));
    CHECK(bl_text_equal(bench->outcome.tail, BL_TEXT("out\nerr\n")));
    const struct issue *issue = first_issue(bench);
    CHECK_EQUAL(issue->severity, ISSUE_CRITICAL);
    CHECK_EQUAL(issue->source, ISSUE_OF_VERIFY);
    CHECK(bl_text_ends_with(issue->description, BL_TEXT("End of its output:\nout\nerr\n")));
    /* It is the first issue, also with a Coach's. */
    issue_add(&bench->arena, &bench->outcome.issues, ISSUE_CRITICAL, ISSUE_OF_COACH, NULL,
              BL_TEXT("mine"));
    issues_sort(&bench->outcome.issues);
    struct bl_text text = feedback_make(&bench->arena, &bench->outcome.issues, 10, "PATH");
    CHECK(bl_text_starts_with(text, BL_TEXT("1. critical (verify): Verification failed: ")));
    CHECK(bl_text_find(text, BL_TEXT("\n   out\n   err\n2. critical (coach): mine")) > 0);
    /* The first failed command decides; each failure is an issue. */
    bench->plan.commands = commands;
    CHECK_EQUAL(verify(bench), 0);
    CHECK_EQUAL(bench->outcome.value, BL_VERIFIED_FAILED);
    CHECK_EQUAL(bench->outcome.run_count, 3);
    CHECK(bl_text_equal(bench->outcome.tail, BL_TEXT("out\nerr\n")));
    size_t count = 0;
    BL_LIST_EACH (link, &bench->outcome.issues)
        count++;
    CHECK_EQUAL(count, 3);
    return 0;
}

static void F43_exit_1_is_failed_and_the_tail_is_issue_1(void **state)
{
    (void)state;
    with_bench(failing);
}

static int absent(struct bench *bench)
{
    CHECK(comes_to(bench, "no-such-program-at-all", BL_VERIFIED_ABSENT, "exited with 127"));
    CHECK_EQUAL(first_issue(bench)->severity, ISSUE_MAJOR);
    CHECK_EQUAL(bench->outcome.runs[0].exit_code, 127);
    CHECK(comes_to(bench, "./README.md", BL_VERIFIED_ABSENT, "exited with 126"));
    CHECK(comes_to(bench, "kill -9 $$", BL_VERIFIED_ABSENT, "was killed by SIGKILL"));
    CHECK(comes_to(bench, "sh -c 'kill -SEGV $$'; exit $?", BL_VERIFIED_ABSENT,
                   "was killed by SIGSEGV"));
    CHECK(comes_to(bench, "exit 200", BL_VERIFIED_FAILED, "exited with 200"));
    bench->plan.setup = "echo no network; exit 3";
    CHECK(comes_to(bench, "true", BL_VERIFIED_ABSENT,
                   "the setup `echo no network; exit 3` exited with 3"));
    CHECK_EQUAL(bench->outcome.run_count, 1);
    CHECK(bench->outcome.runs[0].setup);
    CHECK(bl_text_equal(bench->outcome.tail, BL_TEXT("no network\n")));
    bench->plan.setup = "echo ready > made";
    CHECK(comes_to(bench, "test \"$(cat made)\" = ready", BL_VERIFIED_PASSED, ""));
    bench->plan.setup = NULL;
    char *commit = bench->commit;
    bench->commit = (char[]){"0123456789012345678901234567890123456789"};
    CHECK(comes_to(bench, "true", BL_VERIFIED_ABSENT, "cannot make a clean copy: "));
    CHECK_EQUAL(bench->outcome.run_count, 0);
    bench->commit = commit;
    return 0;
}

/* A Player's code runs in setup too. */
static int setup_is_held(struct bench *bench)
{
    char home[PATH_SIZE], before[PATH_SIZE], command[300];
    struct bl_container_check check;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    static const char *const rules[] = {"read(~/.ssh/)", NULL}, *const network[] = {"network",
                                                                                    NULL};
    struct bl_settings *settings = &bench->project.settings;
    bl_sandbox_check(&check);
    if (!check.available)
        return 0;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQUAL(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    CHECK_EQUAL(listen(listener, 8), 0);
    CHECK_EQUAL(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    snprintf(command, sizeof command, "bash -c ': >/dev/tcp/127.0.0.1/%d'",
             ntohs(address.sin_port));
    bench->plan.setup = command;
    CHECK(comes_to(bench, "true", BL_VERIFIED_ABSENT, "without network: see verify.setup_network"));
    bench->plan.setup_network = true;
    CHECK(comes_to(bench, "true", BL_VERIFIED_PASSED, ""));
    CHECK(comes_to(bench, command, BL_VERIFIED_FAILED, "exited with 1"));
    settings->deny = network;
    CHECK(comes_to(bench, "true", BL_VERIFIED_ABSENT, "without network"));
    close(listener);
    snprintf(home, sizeof home, "/var/tmp/belay-home-XXXXXX"); /* /tmp and its contents are
                                                                  hidden */
    CHECK(mkdtemp(home) != NULL);
    snprintf(before, sizeof before, "%s", getenv("HOME") != NULL ? getenv("HOME") : "/");
    setenv("HOME", home, 1);
    const char *folder = bl_arena_printf(&bench->arena, "%s/.ssh", home).data;
    const char *key = bl_arena_printf(&bench->arena, "%s/id", folder).data;
    CHECK_EQUAL(mkdir(folder, 0700), 0);
    close(open(key, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    bench->plan.setup = "test ! -e ~/.ssh/id";
    CHECK(comes_to(bench, "test ! -e ~/.ssh/id", BL_VERIFIED_PASSED, ""));
    settings->allow = rules;
    bench->plan.setup = NULL;
    CHECK(comes_to(bench, "test -e ~/.ssh/id", BL_VERIFIED_PASSED, ""));
    setenv("HOME", before, 1);
    CHECK(unlink(key) == 0 && rmdir(folder) == 0 && rmdir(home) == 0);
    return 0;
}

static void setup_has_no_network_and_no_secrets(void **state)
{
    (void)state;
    with_bench(setup_is_held);
}

static void F43_check_that_could_not_run_is_absent(void **state)
{
    (void)state;
    with_bench(absent);
}

static int without_submodule(struct bench *bench)
{
    CHECK(comes_to(bench, "true", BL_VERIFIED_ABSENT, "cannot make a clean copy: "));
    CHECK(bl_text_find(bench->outcome.why, BL_TEXT("submodule")) >= 0);
    CHECK_EQUAL(bench->outcome.run_count, 0);
    return 0;
}

static void unavailable_submodules_are_absent(void **state)
{
    struct bench bench;
    (void)state;
    bench_make(&bench);
    place_write(&bench.place, ".gitmodules",
                "[submodule \"sub\"]\n\tpath = sub\n\turl = /no/where/at/all\n");
    place_git(&bench.place, "update-index --add --cacheinfo "
                            "160000,0123456789012345678901234567890123456789,sub");
    place_git(&bench.place, "add .gitmodules");
    place_git(&bench.place, "commit -qm submodule");
    bl_free(bench.commit);
    bench.commit = place_git_output(&bench.place, "rev-parse HEAD");
    bench_run(&bench, without_submodule);
    bench_done(&bench);
}

static int nothing_declared(struct bench *bench)
{
    bench->plan.setup = "exit 1";
    CHECK_EQUAL(verify(bench), 0);
    CHECK_EQUAL(bench->outcome.value, BL_VERIFIED_NONE);
    CHECK_EQUAL(bench->outcome.run_count, 0);
    CHECK(bl_list_empty(&bench->outcome.issues));
    return 0;
}

static void F43_no_commands_is_none(void **state)
{
    (void)state;
    with_bench(nothing_declared);
}

/* ---- Limits and stops ------------------------------------------------------------------------ */

static int hanging(struct bench *bench)
{
    static const char *const commands[] = {"echo begun; sleep 600", "echo next > made", NULL};
    bench->plan.commands = commands;
    bench->plan.timeout_ns = 300 * BL_NS_PER_MS;
    CHECK_EQUAL(verify(bench), 0);
    CHECK_EQUAL(bench->outcome.value, BL_VERIFIED_ABSENT);
    CHECK(bl_text_find(bench->outcome.why, BL_TEXT("timed out after 300 ms")) >= 0);
    CHECK(bl_text_equal(bench->outcome.tail, BL_TEXT("begun\n")));
    CHECK_EQUAL(bench->outcome.run_count, 2);
    CHECK_EQUAL(bench->outcome.runs[0].exit_code, -1);
    CHECK(!bl_scope_stopped(&bench->scope));
    return 0;
}

static void F8_command_over_its_own_limit_is_absent_and_stops_nothing(void **state)
{
    (void)state;
    with_bench(hanging);
}

static bool receipt_names(const struct bench *bench, const char *name)
{
    BL_LIST_EACH (link, &bench->receipt.stopped) {
        const struct bl_unit *unit = BL_CONTAINER(link, struct bl_unit, link);
        if (unit->kind == BL_UNIT_COMMAND && strcmp(unit->id, "TASK-A") == 0 &&
            strcmp(unit->name, name) == 0)
            return true;
    }
    return false;
}

static int stopped_in_a_command(struct bench *bench)
{
    static const char *const commands[] = {
        "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 600' &) ; echo ready; sleep 600; true",
        "echo never", NULL};
    bench->plan.commands = commands;
    bench->stop_at = "ready";
    CHECK_EQUAL(verify(bench), BL_ECANCELED);
    CHECK(bench->linked);
    CHECK(bl_receipt_ready(&bench->receipt));
    CHECK_EQUAL(bl_receipt_survivors(&bench->receipt), 0);
    CHECK(receipt_names(bench, "verify"));
    CHECK(bl_text_find(bl_buffer_text(&bench->output), BL_TEXT("never")) < 0);
    return 0;
}

static void F8_stop_in_a_command_leaves_nothing(void **state)
{
    (void)state;
    with_bench(stopped_in_a_command);
}

static int stopped_in_setup(struct bench *bench)
{
    static const char *const commands[] = {"echo never", NULL};
    bench->plan.commands = commands;
    bench->plan.setup = "echo ready; sleep 600";
    bench->stop_at = "ready";
    seat_house_hurry(&bench->house);
    CHECK_EQUAL(verify(bench), BL_ECANCELED);
    CHECK_EQUAL(bl_receipt_survivors(&bench->receipt), 0);
    CHECK(bl_text_find(bl_buffer_text(&bench->output), BL_TEXT("never")) < 0);
    return 0;
}

static void stop_in_setup_leaves_nothing(void **state)
{
    (void)state;
    with_bench(stopped_in_setup);
}

static int deadline_passed(struct bench *bench)
{
    static const char *const commands[] = {"sleep 600", NULL};
    bench->plan.commands = commands;
    bl_scope_set_deadline(&bench->scope, bl_now_ns() + 300 * BL_NS_PER_MS);
    CHECK_EQUAL(verify(bench), BL_ETIMEDOUT);
    CHECK_EQUAL(bl_receipt_survivors(&bench->receipt), 0);
    /* Once more, from the start. */
    CHECK_EQUAL(verify(bench), BL_ETIMEDOUT);
    CHECK_EQUAL(bench->outcome.run_count, 0);
    return 0;
}

static void deadline_of_the_task_stops_verification(void **state)
{
    (void)state;
    with_bench(deadline_passed);
}

/* Stops the scope as soon as a path of the copy exists. */
struct lurker {
    struct bench *bench;
    const char *path;
};

static int lurk(void *argument)
{
    struct lurker *lurker = argument;
    while (is_gone(lurker->path))
        if (bl_sleep(BL_NS_PER_MS / 4) != 0)
            return 0;
    bl_scope_stop(&lurker->bench->scope, BL_STOP_USER, "test");
    return 0;
}

static int verify_lurked(struct bench *bench, const char *path)
{
    struct lurker lurker = {bench, path};
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "lurker", lurk, &lurker, NULL);
    CHECK_EQUAL(verify(bench), BL_ECANCELED);
    bl_nursery_done(&nursery);
    return 0;
}

static int stopped_in_the_copy(struct bench *bench)
{
    static const char *const commands[] = {"sleep 600", NULL};
    bench->plan.commands = commands;
    verify_lurked(bench, bench->folder);
    CHECK_EQUAL(bl_receipt_survivors(&bench->receipt), 0);
    return 0;
}

static void stop_in_the_copy_leaves_nothing(void **state)
{
    struct bench bench;
    (void)state;
    bench_make(&bench);
    for (int i = 0; i < 200; i++) {
        char name[40];
        snprintf(name, sizeof name, "many/%d", i);
        place_write(&bench.place, name, "text\n");
    }
    bench_commit(&bench);
    bench_run(&bench, stopped_in_the_copy);
    bench_done(&bench);
}

static int stopped_in_carry(struct bench *bench)
{
    static const char *const commands[] = {"sleep 600", NULL}, *const carry[] = {"cache", NULL};
    char path[PATH_SIZE + 20];
    bench->plan.commands = commands;
    bench->plan.carry = carry;
    snprintf(path, sizeof path, "%s/cache/large", bench->folder);
    return verify_lurked(bench, path);
}

static void stop_while_files_are_carried_leaves_nothing(void **state)
{
    struct bench bench;
    char path[PATH_SIZE];
    (void)state;
    bench_make(&bench);
    place_write(&bench.place, "cache/large", "");
    snprintf(path, sizeof path, "%s/cache/large", bench.place.repository);
    /* A sparse file exists at once, but its copy takes long unless the file system shares it. */
    assert_int_equal(truncate(path, (off_t)16 << 30), 0);
    bench_run(&bench, stopped_in_carry);
    bench_done(&bench);
}

/* ---- Processes and output of commands -------------------------------------------------------- */

static int leaves_a_daemon(struct bench *bench)
{
    CHECK(comes_to(bench, "(setsid sleep 600 &) ; nohup sleep 600 > log & echo done",
                   BL_VERIFIED_PASSED, ""));
    return 0;
}

static void leftover_daemon_is_stopped(void **state)
{
    (void)state;
    with_bench(leaves_a_daemon);
}

static int floods(struct bench *bench)
{
    struct bl_text tail;
    CHECK(comes_to(bench,
                   "yes 'line of the flood' | head -c 20000000; printf 'the \\033[31mend\\377\\n'; "
                   "exit 1",
                   BL_VERIFIED_FAILED, "exited with 1"));
    tail = bench->outcome.tail;
    CHECK(tail.size <= 4096 && tail.size > 4000);
    CHECK(bl_utf8_valid(tail));
    CHECK(bl_text_ends_with(tail, BL_TEXT("the \\x1b[31mend\xEF\xBF\xBD\n")));
    CHECK(bench->output.size > 20000000);
    /* Characters of several bytes, and more escapes than fit. */
    CHECK(comes_to(bench, "for i in $(seq 3000); do printf 'ü€'; done; exit 1", BL_VERIFIED_FAILED,
                   ""));
    tail = bench->outcome.tail;
    CHECK(tail.size <= 4096 && tail.size > 4090);
    CHECK(bl_utf8_valid(tail));
    CHECK(bl_text_find(tail, BL_TEXT("\xEF\xBF\xBD")) < 0);
    CHECK(comes_to(bench, "head -c 9000 /dev/zero; exit 1", BL_VERIFIED_FAILED, ""));
    CHECK_EQUAL(bench->outcome.tail.size, 4096);
    return 0;
}

static void large_output_is_bounded_and_its_end_is_shown(void **state)
{
    (void)state;
    with_bench(floods);
}

/* ---- Protected and carried paths ------------------------------------------------------------- */

static int protecting(struct bench *bench)
{
    static const char *const protect[] = {"tests/contract/**", NULL};
    bench->plan.protect = protect;
    CHECK(comes_to(bench,
                   "grep -q base tests/contract/a && test ! -e tests/contract/new && "
                   "test -f tests/contract/gone && grep -q changed src/x",
                   BL_VERIFIED_PASSED, ""));
    size_t count = 0;
    BL_LIST_EACH (link, &bench->outcome.issues) {
        const struct issue *issue = BL_CONTAINER(link, struct issue, link);
        CHECK_EQUAL(issue->severity, ISSUE_CRITICAL);
        CHECK_EQUAL(issue->source, ISSUE_OF_VERIFY);
        CHECK(bl_text_starts_with(bl_text_from(issue->file), BL_TEXT("tests/contract/")));
        CHECK(bl_text_find(issue->description, bl_text_from(issue->file)) == 0);
        count++;
    }
    CHECK_EQUAL(count, 3);
    return 0;
}

static void F44_protected_paths_come_from_the_base_and_changes_are_critical_issues(void **state)
{
    struct bench bench;
    (void)state;
    bench_make(&bench);
    place_write(&bench.place, "tests/contract/a", "base\n");
    place_write(&bench.place, "tests/contract/gone", "base\n");
    bench_commit(&bench);
    bl_free(bench.base);
    bench.base = place_git_output(&bench.place, "rev-parse HEAD");
    place_write(&bench.place, "tests/contract/a", "evil\n");
    place_write(&bench.place, "tests/contract/new", "evil\n");
    place_write(&bench.place, "src/x", "changed\n");
    place_git(&bench.place, "rm -q tests/contract/gone");
    bench_commit(&bench);
    bench_run(&bench, protecting);
    bench_done(&bench);
}

static int carrying(struct bench *bench)
{
    static const char *const carry[] = {"node_modules/",  "./build//deep/one", "missing/at/all",
                                        "outside/secret", "tracked",           NULL};
    static const char *const protect[] = {"node_modules/kept-out/**", NULL};
    bench->plan.carry = carry;
    bench->plan.protect = protect;
    CHECK(comes_to(bench,
                   "set -e; test \"$(cat node_modules/a/index.js)\" = module;"
                   "test \"$(readlink node_modules/link)\" = a/index.js;"
                   "test \"$(readlink node_modules/dangling)\" = /no/where;"
                   "test \"$(readlink node_modules/folder)\" = ../../outside;"
                   "test -x node_modules/a/run; test ! -x node_modules/a/index.js;"
                   "test ! -e node_modules/fifo; test ! -e node_modules/kept-out/x;"
                   "test \"$(stat -c %Y node_modules/a/index.js)\" = 1000000000;"
                   "test \"$(stat -c %Y node_modules/a)\" = 1000000001;"
                   "test -f build/deep/one; test ! -e build/deep/two; test ! -e missing;"
                   "test ! -e outside; test \"$(cat tracked/file)\" = committed;"
                   "test -f tracked/ignored",
                   BL_VERIFIED_PASSED, ""));
    return 0;
}

static void carried_paths_are_copied_without_following_links(void **state)
{
    struct bench bench;
    char command[2048];
    (void)state;
    bench_make(&bench);
    place_write(&bench.place, ".gitignore", "node_modules\nbuild\noutside\nignored\n");
    place_write(&bench.place, "tracked/file", "committed\n");
    bench_commit(&bench);
    place_write(&bench.place, "node_modules/a/index.js", "module\n");
    place_write(&bench.place, "node_modules/a/run", "#!/bin/sh\n");
    place_write(&bench.place, "node_modules/kept-out/x", "x\n");
    place_write(&bench.place, "build/deep/one", "1\n");
    place_write(&bench.place, "build/deep/two", "2\n");
    place_write(&bench.place, "tracked/file", "changed since\n");
    place_write(&bench.place, "tracked/ignored", "x\n");
    snprintf(command, sizeof command,
             "cd '%s' && mkdir ../outside && echo secret > ../outside/secret && "
             "ln -s ../outside outside && ln -s a/index.js node_modules/link && "
             "ln -s /no/where node_modules/dangling && ln -s ../../outside node_modules/folder && "
             "mkfifo node_modules/fifo && chmod 755 node_modules/a/run && "
             "touch -d @1000000000 node_modules/a/index.js && touch -d @1000000001 node_modules/a",
             bench.place.repository);
    assert_int_equal(system(command), 0);
    bench_run(&bench, carrying);
    bench_done(&bench);
}

static int refusing_to_carry(struct bench *bench)
{
    static const char *const wrong[][2] = {{"../outside", "it leaves the folder"},
                                           {"a/../../b", "it leaves the folder"},
                                           {"/etc", "it is absolute"},
                                           {".git/hooks", "it belongs to git"},
                                           {"./", "it names the folder itself"}};
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        const char *const carry[] = {wrong[i][0], NULL};
        bench->plan.carry = carry;
        CHECK(comes_to(bench, "true", BL_VERIFIED_ABSENT, wrong[i][1]));
    }
    bench->plan.carry = no_list;
    return 0;
}

static void carried_path_that_leaves_the_folder_is_refused(void **state)
{
    (void)state;
    with_bench(refusing_to_carry);
}

/* Everything but the last byte of the file fits; git needs the same space as the rest. */
static int carrying_more_than_fits(struct bench *bench)
{
    static const char *const carry[] = {"large", NULL};
    struct rlimit before, limit;

    bench->plan.carry = carry;
    CHECK_EQUAL(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){BL_GIT_OUTPUT_MAX, before.rlim_max};
    struct sigaction ignored = {.sa_handler = SIG_IGN}, handled;
    CHECK_EQUAL(sigaction(SIGXFSZ, &ignored, &handled), 0);
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK(comes_to(bench, "true", BL_VERIFIED_ABSENT, "cannot copy large: File too large"));
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &before), 0);
    CHECK_EQUAL(sigaction(SIGXFSZ, &handled, NULL), 0);
    return 0;
}

static void incomplete_copy_of_a_carried_file_is_absent(void **state)
{
    struct bench bench;
    char command[512];
    (void)state;
    bench_make(&bench);
    place_write(&bench.place, ".gitignore", "large\n");
    bench_commit(&bench);
    snprintf(command, sizeof command, "truncate -s %zu '%s/large'", BL_GIT_OUTPUT_MAX + 1,
             bench.place.repository);
    assert_int_equal(system(command), 0);
    bench_run(&bench, carrying_more_than_fits);
    bench_done(&bench);
}

static int carrying_too_deep(struct bench *bench)
{
    static const char *const carry[] = {"deep", NULL};
    bench->plan.carry = carry;
    CHECK(comes_to(bench, "true", BL_VERIFIED_ABSENT, "cannot go deeper than 128 folders"));
    return 0;
}

static void too_deep_folders_are_absent(void **state)
{
    struct bench bench;
    struct bl_buffer path;
    (void)state;
    bench_make(&bench);
    bl_buffer_init(&path, SIZE_MAX);
    bl_buffer_append(&path, BL_TEXT("deep"));
    for (int i = 0; i < 140; i++)
        bl_buffer_append(&path, BL_TEXT("/d"));
    bl_buffer_append(&path, (struct bl_text){"/file", 6});
    place_write(&bench.place, path.data, "x");
    bl_buffer_done(&path);
    bench_run(&bench, carrying_too_deep);
    bench_done(&bench);
}

/* ---- The gate -------------------------------------------------------------------------------- */

static bool gate_comes_to(struct bench *bench, struct bl_smoke_gate gate, enum bl_verified value,
                          const char *why)
{
    bench->order.gate = &gate;
    bench->order.plan = NULL;
    bench->order.task = NULL;
    gate.timeout_ns = 60 * BL_NS_PER_S;
    CHECK_EQUAL(verify(bench), 0);
    bench->order.gate = NULL;
    return bench->outcome.value == value &&
           bl_text_find(bench->outcome.why, bl_text_from(why)) >= 0;
}

static int gates(struct bench *bench)
{
    CHECK(gate_comes_to(
        bench, (struct bl_smoke_gate){.command = "test -z \"$BELAY_TASK\" && cat README.md"},
        BL_VERIFIED_PASSED, ""));
    CHECK(gate_comes_to(bench, (struct bl_smoke_gate){.command = "echo red; exit 1"},
                        BL_VERIFIED_FAILED, "exited with 1"));
    CHECK(bl_text_equal(bench->outcome.tail, BL_TEXT("red\n")));
    CHECK(gate_comes_to(bench, (struct bl_smoke_gate){.command = "exit 5"}, BL_VERIFIED_ABSENT,
                        "exited with 5: there were no tests to run"));
    CHECK(gate_comes_to(bench,
                        (struct bl_smoke_gate){.command = "exit 5", .exit5_is_hard_fail = true},
                        BL_VERIFIED_FAILED, "exited with 5"));
    CHECK(gate_comes_to(bench, (struct bl_smoke_gate){.command = "exit 3", .expected_exit = 3},
                        BL_VERIFIED_PASSED, ""));
    CHECK(gate_comes_to(bench, (struct bl_smoke_gate){.command = "exit 0", .expected_exit = 3},
                        BL_VERIFIED_FAILED, "exited with 0"));
    CHECK(gate_comes_to(bench, (struct bl_smoke_gate){.command = "no-such-program"},
                        BL_VERIFIED_ABSENT, "exited with 127"));
    return 0;
}

static void F42_the_gate_has_three_values(void **state)
{
    (void)state;
    with_bench(gates);
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void outcome_is_read_as_written(void **state)
{
    static const struct verify_run runs[] = {{"npm ci", true, 0, 12}, {"make", false, -1, 7}};
    struct verify_outcome outcome = {.value = BL_VERIFIED_FAILED,
                                     .runs = runs,
                                     .run_count = 2,
                                     .why = BL_TEXT("why"),
                                     .tail = BL_TEXT("tail\n")},
                          again;
    struct bl_arena arena = {0};
    struct bl_buffer text;
    struct bl_json_writer writer;
    const struct bl_json *value;
    size_t parsed;
    (void)state;
    bl_list_init(&outcome.issues);
    issue_add(&arena, &outcome.issues, ISSUE_CRITICAL, ISSUE_OF_VERIFY, "a", BL_TEXT("it fails"));
    bl_buffer_init(&text, SIZE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_record_write(&writer, &verify_record, &outcome);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    assert_int_equal(bl_json_read(&arena, bl_buffer_text(&text), NULL, &value, NULL), 0);
    bl_record_take(&arena, &verify_record, value, &again);
    assert_int_equal(again.value, BL_VERIFIED_FAILED);
    assert_int_equal(again.run_count, 2);
    assert_string_equal(again.runs[0].command, "npm ci");
    assert_true(again.runs[0].setup);
    assert_int_equal(again.runs[1].exit_code, -1);
    assert_int_equal(again.runs[1].ms, 7);
    assert_true(bl_text_equal(again.why, outcome.why));
    assert_true(bl_text_equal(again.tail, outcome.tail));
    assert_string_equal(BL_CONTAINER(again.issues.next, struct issue, link)->file, "a");
    bl_record_take(&arena, &verify_record, NULL, &again);
    assert_int_equal(again.value, BL_VERIFIED_UNKNOWN);
    assert_true(bl_list_empty(&again.issues));
    for (int i = BL_VERIFIED_NONE; i <= BL_VERIFIED_ABSENT; i++) {
        assert_true(bl_names_find(&bl_verified_values,
                                  bl_text_from(bl_verified_name((enum bl_verified)i)), &parsed));
        assert_int_equal(parsed, i);
    }
    assert_false(bl_names_find(&bl_verified_values, BL_TEXT("Passed"), &parsed));
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

SUITE(verify, cmocka_unit_test(all_commands_that_exit_with_0_are_passed),
      cmocka_unit_test(F43_exit_1_is_failed_and_the_tail_is_issue_1),
      cmocka_unit_test(F43_check_that_could_not_run_is_absent),
      cmocka_unit_test(unavailable_submodules_are_absent),
      cmocka_unit_test(F43_no_commands_is_none),
      cmocka_unit_test(F8_command_over_its_own_limit_is_absent_and_stops_nothing),
      cmocka_unit_test(F8_stop_in_a_command_leaves_nothing),
      cmocka_unit_test(setup_has_no_network_and_no_secrets),
      cmocka_unit_test(stop_in_setup_leaves_nothing),
      cmocka_unit_test(deadline_of_the_task_stops_verification),
      cmocka_unit_test(stop_in_the_copy_leaves_nothing),
      cmocka_unit_test(stop_while_files_are_carried_leaves_nothing),
      cmocka_unit_test(leftover_daemon_is_stopped),
      cmocka_unit_test(large_output_is_bounded_and_its_end_is_shown),
      cmocka_unit_test(F44_protected_paths_come_from_the_base_and_changes_are_critical_issues),
      cmocka_unit_test(carried_paths_are_copied_without_following_links),
      cmocka_unit_test(carried_path_that_leaves_the_folder_is_refused),
      cmocka_unit_test(incomplete_copy_of_a_carried_file_is_absent),
      cmocka_unit_test(too_deep_folders_are_absent),
      cmocka_unit_test(F42_the_gate_has_three_values),
      cmocka_unit_test(outcome_is_read_as_written));
