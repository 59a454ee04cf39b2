#include "trial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <belay/json.h>

#include "../cli/runner.h"
#include "hostile.h"
#include "place.h"

#define READY_MS_MAX  15000.0
#define REAP_MAX      1000
#define STARTED_MS    10
#define FORK_MS_MAX   10000
#define LEAVING_MS    1000 /* for a warden whose work is done */
#define ARGUMENTS_MAX (TRIAL_WORDS_MAX + 16u)

static char cgroup[PATH_MAX]; /* of the running trial, in cgroup2; may be empty */
static char copy_folder[64];  /* of the setuid copy; may be empty */

static double trial_now_ms(void)
{
    return (double)bl_clock_now_ns(&bl_clock_system) / (double)BL_NS_PER_MS;
}

static void trial_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static const char *trial_hostile(void)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/tests/proof/hostile", getenv("BELAY_BUILD_ROOT"));
    return path;
}

/* ---- The environment ---- */

/* Returns the mount point of cgroup2, or an empty text. */
static const char *trial_cgroup2(void)
{
    static char mount_point[PATH_MAX / 2];
    if (mount_point[0] == '\0')
        place_find_mount("cgroup2", NULL, mount_point, sizeof mount_point);
    return mount_point;
}

/* A delegated folder, so that leaving Belay's own cgroup does not need root. */
static void trial_make_cgroup(uid_t user)
{
    static const char *const files[] = {"", "/cgroup.procs", "/cgroup.subtree_control"};
    static unsigned counter;
    char path[PATH_MAX + 64];

    cgroup[0] = '\0';
    if (geteuid() != 0 || trial_cgroup2()[0] == '\0')
        return;
    snprintf(cgroup, sizeof cgroup, "%s/belay-proof-%d-%u", trial_cgroup2(), (int)getpid(),
             counter++);
    if (mkdir(cgroup, 0755) != 0) {
        cgroup[0] = '\0';
        return;
    }
    for (size_t i = 0; i < BL_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s%s", cgroup, files[i]);
        assert_int_equal(chown(path, user, user), 0);
    }
}

/* Belay's folders in it are gone, unless the trial failed. */
static void trial_remove_cgroup(void)
{
    char path[PATH_MAX + NAME_MAX + 2];
    if (cgroup[0] == '\0')
        return;
    DIR *entries = opendir(cgroup);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", cgroup, entry->d_name);
        if (strncmp(entry->d_name, "belay-", 6) == 0)
            rmdir(path);
    }
    if (entries != NULL)
        closedir(entries);
    for (int i = 0; i < 2000 && rmdir(cgroup) != 0 && errno == EBUSY; i++)
        trial_nap();
    cgroup[0] = '\0';
}

bool trial_available(const char *container, enum trial_user user)
{
    if (user == USER_root && geteuid() != 0)
        return false;
    /* Only root can delegate a cgroup. */
    return strcmp(container, "cgroup2") != 0 || (geteuid() == 0 && trial_cgroup2()[0] != '\0');
}

void trial_require(const char *container, enum trial_user user)
{
    if (trial_available(container, user))
        return;
    print_message("%s as %s: needs root%s\n", container, user == USER_root ? "root" : "a user",
                  strcmp(container, "cgroup2") == 0 ? " and a cgroup2 hierarchy" : "");
    suite_skip("container mechanism not available");
}

const char *trial_setuid_copy(void)
{
    static char path[sizeof copy_folder + 16];
    if (copy_folder[0] != '\0')
        return path;
    snprintf(copy_folder, sizeof copy_folder, "/tmp/belay-proof-XXXXXX");
    assert_non_null(mkdtemp(copy_folder));
    assert_int_equal(chmod(copy_folder, 0755), 0);
    snprintf(path, sizeof path, "%s/hostile", copy_folder);
    assert_true(place_copy_setuid(trial_hostile(), path, PLACE_OTHER_USER));
    return path;
}

void trial_close(void)
{
    if (copy_folder[0] == '\0')
        return;
    unlink(trial_setuid_copy());
    rmdir(copy_folder);
    copy_folder[0] = '\0';
}

/* ---- Start ---- */

static void trial_arguments(const struct trial *trial, const char *out[ARGUMENTS_MAX])
{
    static char grace[32], timeout[32];
    size_t count = 0;

    snprintf(grace, sizeof grace, "%ums", trial->grace_ms);
    snprintf(timeout, sizeof timeout, "%ums", trial->timeout_ms);
    out[count++] = runner_program();
    out[count++] = "hold";
    out[count++] = "--container";
    out[count++] = trial->container;
    out[count++] = "--grace";
    out[count++] = grace;
    if (trial->stop == TRIAL_DEADLINE) {
        out[count++] = "--timeout";
        out[count++] = timeout;
    }
    if (!trial->text)
        out[count++] = "--json";
    out[count++] = "--";
    out[count++] = trial_hostile();
    for (size_t i = 0; i < TRIAL_WORDS_MAX && trial->words[i] != NULL; i++)
        out[count++] = trial->words[i];
    out[count] = NULL;
}

/* Creates a mount namespace around Belay, so that the machine's mounts do not change. */
static bool trial_unshare(const struct trial *trial)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    setenv("HOSTILE_MAY_MOUNT", "1", 1);
    return !trial->hidden_pids || mount("proc", "/proc", "proc", 0, "hidepid=2") == 0;
}

/* Runs in the child: becomes Belay. */
_Noreturn static void trial_execute(const struct trial *trial, const char **arguments, int out,
                                    int err)
{
    char path[PATH_MAX + 64];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    observer_enter();
    snprintf(path, sizeof path, "%s/cgroup.procs", cgroup);
    int procs = cgroup[0] != '\0' ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (procs >= 0 && write(procs, "0", 1) != 1)
        _exit(1);
    if (trial->own_mounts && !trial_unshare(trial))
        _exit(1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    if (observer_tag() != NULL)
        setenv(HOSTILE_TAG, observer_tag(), 1);
    if (trial->user == USER_user && geteuid() == 0 && !place_become(PLACE_USER))
        _exit(1);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(1);
    execv(arguments[0], (char *const *)arguments);
    _exit(1);
}

/* ---- Observation ---- */

struct watch {
    pid_t belay; /* 0: it has ended */
    int out;
    int err;
};

static void trial_read(int fd, char *out, size_t size)
{
    ssize_t count = pread(fd, out, size - 1, 0);
    assert_true(count >= 0);
    out[count] = '\0';
}

/* Reaps children: without Belay and its warden, orphans are reparented to this process. Bounded,
 * since comets may end faster than they are reaped. Returns true if Belay has ended. */
static bool trial_has_ended(struct trial *trial, struct watch *watch)
{
    int status;
    pid_t pid;
    for (int i = 0; i < REAP_MAX && (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0; i++) {
        if (pid != watch->belay)
            continue;
        watch->belay = 0;
        trial->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return watch->belay == 0;
}

static void trial_kill_belay(struct trial *trial, struct watch *watch)
{
    kill(watch->belay, SIGKILL);
    while (!trial_has_ended(trial, watch))
        sched_yield();
}

/* Waits until the tree is running; it may end before that. */
static void trial_await_ready(struct trial *trial, struct watch *watch)
{
    double from_ms = trial_now_ms();
    for (;;) {
        bool ended = trial_has_ended(trial, watch);
        trial_read(watch->out, trial->out, sizeof trial->out);
        trial->ready = strstr(trial->out, HOSTILE_READY) != NULL;
        trial->attacked = strstr(trial->out, HOSTILE_ATTACK) != NULL;
        if (trial->ready || ended || trial_now_ms() - from_ms > READY_MS_MAX)
            return;
        trial_nap();
    }
}

static void trial_await_end(struct trial *trial, struct watch *watch, double from_ms)
{
    while (!trial_has_ended(trial, watch)) {
        if (trial_now_ms() - from_ms > trial->limit_ms) {
            trial->hung = true;
            trial_kill_belay(trial, watch);
        }
        trial_nap();
    }
    trial->stop_ms = trial_now_ms() - from_ms;
    observer_look(&trial->left);
    for (int i = 0; i < LEAVING_MS && trial->left.helpers > 0 && !trial->hung; i++) {
        struct observed now;
        trial_nap();
        trial_has_ended(trial, watch);
        observer_look(&now);
        trial->left.helpers = now.helpers;
    }
}

/* Without Belay: waits until the tree and its wardens have ended. */
static void trial_await_silence(struct trial *trial, struct watch *watch, double from_ms)
{
    for (;;) {
        trial_has_ended(trial, watch);
        observer_look(&trial->left);
        trial->stop_ms = trial_now_ms() - from_ms;
        if (trial->left.tools + trial->left.helpers == 0)
            return;
        trial->hung = trial->stop_ms > trial->limit_ms;
        if (trial->hung)
            return;
        trial_nap();
    }
}

static void trial_stop(struct trial *trial, struct watch *watch, double start_ms)
{
    if (trial->stop != TRIAL_DEADLINE)
        trial_await_ready(trial, watch);
    double from_ms = trial->stop == TRIAL_DEADLINE ? start_ms + trial->timeout_ms : trial_now_ms();
    if (watch->belay != 0 && trial->stop == TRIAL_KILL_BELAY) {
        trial_kill_belay(trial, watch);
        trial_await_silence(trial, watch, from_ms);
        return;
    }
    if (watch->belay != 0 && trial->stop == TRIAL_SIGNAL)
        kill(watch->belay, SIGTERM);
    if (watch->belay != 0 && trial->stop == TRIAL_KILL_WARDEN) {
        pid_t warden = observer_warden_of(watch->belay);
        /* Until Belay knows that the command was started. */
        for (int i = 0; i < STARTED_MS; i++)
            trial_nap();
        from_ms = trial_now_ms();
        if (warden > 0)
            kill(warden, SIGKILL);
    }
    trial_await_end(trial, watch, from_ms);
}

/* ---- Belay's report ---- */

/* Takes the number from the end or the receipt, or null with a reason. */
static void trial_take_survivors(struct trial *trial, const struct bl_json *object)
{
    const struct bl_json *value = bl_json_get(object, BL_TEXT("survivors"));
    int64_t number = 0;
    if (object == NULL || bl_json_is(object, BL_JSON_NULL))
        return;
    if (bl_json_is(value, BL_JSON_NULL)) {
        trial->verified = false;
        assert_true(bl_json_text(bl_json_get(object, BL_TEXT("unverified"))).size > 0);
        assert_int_not_equal(trial->exit_code, 0);
        return;
    }
    assert_true(bl_json_int64(value, &number));
    if (number < trial->survivors)
        trial->survivors = number;
}

static void trial_take_envelope(struct trial *trial)
{
    struct bl_arena arena;
    const struct bl_json *value = NULL;
    char *line = trial->err;

    for (char *next; (next = strchr(line, '\n')) != NULL && next[1] != '\0';)
        line = next + 1;
    bl_arena_init(&arena);
    /* A command that could not be started, or whose warden was killed at once, has no end. */
    if (bl_json_read(&arena, bl_text_from(line), NULL, &value, NULL) != 0 ||
        bl_json_get(value, BL_TEXT("error")) != NULL) {
        bl_arena_done(&arena);
        return;
    }
    runner_check_schema("hold", line);
    trial->reported = trial->verified = true;
    trial->survivors = INT64_MAX;
    const struct bl_json *end = bl_json_get(value, BL_TEXT("end"));
    trial_take_survivors(trial, end);
    trial_take_survivors(trial, bl_json_get(value, BL_TEXT("receipt")));
    bl_json_int64(bl_json_get(end, BL_TEXT("left_behind")), &trial->left_behind);
    trial->lost = bl_text_equal(bl_json_text(bl_json_get(end, BL_TEXT("how"))), BL_TEXT("lost"));
    bl_arena_done(&arena);
}

/* The machine may be out of processes for a moment, because it has other users. */
static pid_t trial_fork(void)
{
    pid_t child = fork();
    for (int i = 0; child < 0 && i < FORK_MS_MAX; i++) {
        trial_nap();
        child = fork();
    }
    if (child < 0) {
        trial_remove_cgroup();
        fail_msg("cannot start a process: %s", strerror(errno));
    }
    return child;
}

void trial_run(struct trial *trial)
{
    const char *arguments[ARGUMENTS_MAX];
    struct watch watch = {.out = memfd_create("out", MFD_CLOEXEC),
                          .err = memfd_create("err", MFD_CLOEXEC)};

    assert_true(watch.out >= 0 && watch.err >= 0);
    trial->hung = trial->reported = trial->verified = false;
    trial->exit_code = -1;
    trial->left_behind = 0;
    trial->lost = false;
    trial_arguments(trial, arguments);
    trial_make_cgroup(trial->user == USER_user ? PLACE_USER : 0);
    fflush(NULL);
    double start_ms = trial_now_ms();
    watch.belay = trial_fork();
    if (watch.belay == 0)
        trial_execute(trial, arguments, watch.out, watch.err);
    trial_stop(trial, &watch, start_ms);
    trial_read(watch.out, trial->out, sizeof trial->out);
    trial_read(watch.err, trial->err, sizeof trial->err);
    trial->ready = strstr(trial->out, HOSTILE_READY) != NULL;
    trial->attacked = strstr(trial->out, HOSTILE_ATTACK) != NULL;
    close(watch.out);
    close(watch.err);
    size_t rest = observer_kill();
    trial_remove_cgroup();
    if (rest > 0)
        fail_msg("%zu processes cannot be killed", rest);
    if (!trial->hung && !trial->text && trial->stop != TRIAL_KILL_BELAY)
        trial_take_envelope(trial);
}

void trial_print(const struct trial *trial)
{
    char words[512] = "";
    for (size_t i = 0; i < TRIAL_WORDS_MAX && trial->words[i] != NULL; i++) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, " %s", trial->words[i]);
    }
    print_message("  hostile%s: %s as %s, grace %u ms: %s after %.0f ms, exit code %d, "
                  "%zu processes alive, %zu wardens alive\n",
                  words, trial->container, trial->user == USER_root ? "root" : "a user",
                  trial->grace_ms, trial->hung ? "did not end" : "ended", trial->stop_ms,
                  trial->exit_code, trial->left.tools, trial->left.helpers);
    if (trial->reported)
        print_message("  survivors %s%lld, left behind %lld\n", trial->verified ? "" : "null, ",
                      trial->verified ? (long long)trial->survivors : 0LL,
                      (long long)trial->left_behind);
    print_message("  output: %s\n  error: %s\n", trial->out, trial->err);
}
