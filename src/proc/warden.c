#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "parts.h"
#include "protocol.h"
#include "tree.h"

/* What a warden needs at most beyond the grace: its own second of killing, and a slow machine. */
#define PROOF_NS_MAX (10 * BL_NS_PER_S)

#define CGROUP_PREFIX "belay-"

/*   starting  --STARTED-->      running
 *   running   --ENDED-->        ended (its tree may be held on, with background)
 *   any       --QUIET-->        quiet
 *   any       --end of file-->  quiet, lost: the warden was killed */
struct bl_warden {
    struct bl_list link; /* among the living, for sweeping */
    struct proc_started started;
    struct bl_descriptor *control;
    enum bl_mechanism mechanism;
    char cgroup[4096]; /* that it makes; "-": none */
    pid_t command;     /* 0: it was gone before it could be seen */
    bool background;
    bool ended;
    bool quiet;
    bool stopped; /* by us */
    bool losing;  /* a fiber is at sweeping after it; the others wait for what comes of that */
    bool reaped;
    struct bl_child_end lost; /* how the warden itself ended, when it went without a word */
    int failure;
    enum warden_stage failure_stage;
    bool start_known;
    bool start_failed;
    struct bl_warden_end end;
};

/* A sweep must spare the wardens that live, and so needs to know them: a fact of this process, as
 * is being a subreaper. The loop's thread alone touches it. */
static struct bl_list living = {&living, &living};
static bool adopting;

int bl_proc_adopt_orphans(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return bl_error_from_errno(errno);
    adopting = true;
    return 0;
}

/* True: a warden of ours, which is not an orphan. */
static bool is_warden(pid_t pid)
{
    BL_LIST_EACH (link, &living)
        if (BL_CONTAINER(link, struct bl_warden, link)->started.pid == pid)
            return true;
    return false;
}

/* Our children that are no wardens: what a killed warden had held has come to us. */
static void find_orphans(struct tree *tree)
{
    struct tree children = {0};
    tree_add_children(&children, getpid());
    for (size_t i = 0; i < children.count; i++) {
        if (is_warden(children.pids[i]))
            continue;
        if (waitpid(children.pids[i], NULL, WNOHANG) == 0)
            tree_push(tree, children.pids[i]);
    }
    tree_done(&children);
}

/* Kills and reaps orphans until there are none, for a second at most. Returns how many are left. */
static uint32_t sweep_orphans(void)
{
    uint64_t give_up_ns = bl_now_ns() + BL_NS_PER_S;
    for (;;) {
        struct tree tree = {0};
        find_orphans(&tree);
        size_t orphans = tree.count;
        tree_kill(&tree);
        uint32_t left = (uint32_t)tree.count;
        tree_done(&tree);
        if (orphans == 0 || bl_now_ns() >= give_up_ns)
            return left;
        bl_sleep(BL_NS_PER_MS);
    }
}

/* A cgroup outlives its warden: it is killed, waited for and removed from here. Returns 0 only when
 * it is gone, else 1. */
static uint32_t sweep_cgroup(const struct bl_warden *warden)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/cgroup.kill", warden->cgroup);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : 1;
    bool killed = write(fd, "1", 1) == 1;
    close(fd);
    /* A cgroup can be removed when nobody is left in it: that is the proof. */
    for (int i = 0; i < 1000 && killed; i++) {
        if (rmdir(warden->cgroup) == 0 || errno == ENOENT)
            return 0;
        bl_sleep(BL_NS_PER_MS);
    }
    return 1;
}

/* Without being a subreaper we cannot know what is left; the command's own group can be killed, and
 * in a namespace it goes last but for the init. */
static uint32_t kill_group(const struct bl_warden *warden)
{
    if (warden->command <= 0)
        return 0;
    kill(-warden->command, SIGKILL);
    for (int i = 0; i < 1000; i++) {
        if (kill(-warden->command, 0) < 0 && errno == ESRCH)
            return 0;
        bl_sleep(BL_NS_PER_MS);
    }
    return 1;
}

/* The warden has gone without a word. In a namespace the kernel has killed all; else we do what it
 * would have done, where its tree comes to us. */
static void warden_lost(struct bl_warden *warden)
{
    struct bl_scope shield;
    warden->losing = true;
    bl_shield_begin(&shield, PROOF_NS_MAX);
    warden->reaped = bl_child_wait(warden->started.pidfd, &warden->lost) == 0;
    bl_list_remove(&warden->link);
    if (warden->mechanism == BL_MECHANISM_CGROUP2)
        warden->end.survivors = sweep_cgroup(warden);
    else if (!adopting)
        warden->end.survivors = kill_group(warden);
    if (adopting)
        warden->end.survivors += sweep_orphans();
    bl_shield_end(&shield);
    warden->end.how = BL_END_LOST;
    warden->end.strongest_signal = SIGKILL;
    warden->ended = warden->quiet = true;
}

static void take_status(struct bl_warden *warden, int status)
{
    struct bl_warden_end *end = &warden->end;
    end->by_signal = WIFSIGNALED(status);
    end->core_dumped = end->by_signal && WCOREDUMP(status);
    end->status = end->by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    end->how = warden->stopped ? BL_END_STOPPED : end->by_signal ? BL_END_SIGNALED : BL_END_EXITED;
}

static void take_message(struct bl_warden *warden, const struct warden_message *message)
{
    struct bl_warden_end *end = &warden->end;
    switch ((enum warden_message_type)message->type) {
    case WARDEN_STARTED:
        warden->start_known = true;
        warden->command = message->a;
        break;
    case WARDEN_FAILED:
        warden->start_known = warden->start_failed = true;
        warden->failure = message->a;
        warden->failure_stage = (enum warden_stage)message->b;
        break;
    case WARDEN_ENDED:
        warden->ended = true;
        end->left_behind = (uint32_t)message->b;
        take_status(warden, message->a);
        break;
    case WARDEN_QUIET:
        warden->quiet = true;
        end->processes = (uint32_t)message->a;
        end->survivors = (uint32_t)message->b;
        end->strongest_signal = message->c;
        if (message->d != 0)
            end->how = BL_END_LIMIT;
        else if (!warden->ended)
            end->how = BL_END_STOPPED;
        /* Killed with its whole namespace, it had nobody left to say how it ended. */
        if (!warden->ended && end->strongest_signal != 0) {
            end->by_signal = true;
            end->status = end->strongest_signal;
        }
        warden->ended = true;
        break;
    case WARDEN_STOP:
    case WARDEN_SIGNAL: break;
    }
}

/* Takes what has come. Several fibers may wait for one warden: each looks at what is known after.
 */
static void take_messages(struct bl_warden *warden)
{
    struct warden_message message;
    while (!warden->quiet && !warden->losing) {
        ssize_t size = recv(warden->started.control, &message, sizeof message, MSG_DONTWAIT);
        if (size == (ssize_t)sizeof message)
            take_message(warden, &message);
        else if (size < 0 && (errno == EINTR || errno == ECONNRESET))
            /* A warden that left with a message of ours unread says so once, before its own. */
            continue;
        else if (size < 0 && errno == EAGAIN)
            return;
        else
            warden_lost(warden);
    }
}

/* Waits for the next message, or returns at once when `*done` has come. */
static int await(struct bl_warden *warden, const bool *done)
{
    int code = 0;
    take_messages(warden);
    while (code == 0 && !*done && !warden->quiet) {
        code = warden->losing ? bl_sleep(BL_NS_PER_MS)
                              : bl_descriptor_wait(warden->control, BL_READABLE, NULL);
        take_messages(warden);
    }
    return *done || warden->quiet ? 0 : code;
}

static void send_message(struct bl_warden *warden, enum warden_message_type type, int a, int b)
{
    struct warden_message message = {(int32_t)type, a, b, 0, 0};
    /* A warden that is gone is noticed by whoever waits for it. */
    if (send(warden->started.control, &message, sizeof message, MSG_NOSIGNAL) < 0)
        return;
}

static int explain_failure(const struct bl_warden *warden, const char *command,
                           struct bl_error *error)
{
    static const char *const stages[] = {
        [WARDEN_STAGE_START] = "start a process",
        [WARDEN_STAGE_CGROUP] = "make a cgroup",
        [WARDEN_STAGE_NAMESPACE] = "make a PID namespace",
        [WARDEN_STAGE_LIMIT] = "limit its memory",
        [WARDEN_STAGE_TERMINAL] = "take the terminal",
        [WARDEN_STAGE_EXEC] = "execute it",
    };
    int code = bl_error_from_errno(warden->failure);
    if (warden->failure_stage == WARDEN_STAGE_EXEC) {
        bool missing = warden->failure == ENOENT || warden->failure == ENOTDIR;
        code = missing ? BL_ENOENT : BL_EACCES;
        bl_error_set(error, code, BL_KIND_TOOL, "start a command", command, "%s: %s", command,
                     missing ? "command not found" : strerror(warden->failure));
        bl_error_hint(error, missing ? "check the name and PATH"
                                     : "it must be an executable file (chmod +x)");
        return code;
    }
    if (warden->failure_stage == WARDEN_STAGE_CGROUP ||
        warden->failure_stage == WARDEN_STAGE_NAMESPACE)
        code = BL_ENOTSUP;
    bl_error_set(error, code, BL_KIND_RUNTIME, stages[warden->failure_stage], command,
                 "cannot %s: %s", stages[warden->failure_stage], strerror(warden->failure));
    bl_error_hint(error, "'belay doctor' says what this machine offers");
    return code;
}

/* Belay and warden killed in the same instant leave their cgroup behind, empty once its processes
 * have ended. Looked for once for each process; what is younger than a minute may be about to be
 * used, and what is not empty cannot be removed. */
static void remove_relics(const char *directory)
{
    static bool looked;
    DIR *entries = looked ? NULL : opendir(directory);
    struct dirent *entry;
    looked = true;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        struct stat status;
        if (strncmp(entry->d_name, CGROUP_PREFIX, strlen(CGROUP_PREFIX)) == 0 &&
            strlen(entry->d_name) == strlen(CGROUP_PREFIX) + 16 &&
            fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            status.st_mtime + 60 < time(NULL))
            unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR);
    }
    if (entries != NULL)
        closedir(entries);
}

/* The name is by chance: a warden of another PID namespace may have the number of ours. */
static void name_cgroup(struct bl_warden *warden)
{
    char directory[4000];
    uint64_t chance;
    memcpy(warden->cgroup, "-", 2);
    if (warden->mechanism != BL_MECHANISM_CGROUP2 ||
        !proc_cgroup_directory(directory, sizeof directory))
        return;
    remove_relics(directory);
    bl_random_bytes(&chance, sizeof chance);
    snprintf(warden->cgroup, sizeof warden->cgroup, "%s/" CGROUP_PREFIX "%016llx", directory,
             (unsigned long long)chance);
}

/* bl_warden_start in one container. `*ret_refused`: the machine does not let it be made. */
static int start_in(const struct bl_warden_options *options, enum bl_mechanism mechanism,
                    struct bl_warden **ret_warden, bool *ret_refused, struct bl_error *error)
{
    struct bl_warden *warden = bl_zalloc(sizeof *warden);
    bl_list_init(&warden->link);
    warden->mechanism = warden->end.mechanism = mechanism;
    warden->background = options->background;
    name_cgroup(warden);
    *ret_refused = false;
    int code = proc_start(options, mechanism, warden->cgroup, &warden->started, error);
    if (code != 0) {
        bl_free(warden);
        return code;
    }
    bl_list_push_back(&living, &warden->link);
    code = bl_descriptor_new(warden->started.control, &warden->control);
    if (code == 0)
        code = await(warden, &warden->start_known);
    if (code == 0 && warden->start_failed) {
        *ret_refused = warden->failure_stage == WARDEN_STAGE_CGROUP;
        code = explain_failure(warden, options->arguments[0], error);
    } else if (code == 0 && !warden->start_known) {
        code = bl_error_set(error, BL_ESYSTEM, BL_KIND_RUNTIME, "start a command",
                            options->arguments[0],
                            warden->lost.by_signal ? "its warden was killed by signal %d"
                                                   : "its warden gave up with code %d",
                            warden->lost.status);
    }
    if (code != 0) {
        bl_warden_free(warden);
        return code;
    }
    *ret_warden = warden;
    return 0;
}

int bl_warden_start(const struct bl_warden_options *options, struct bl_warden **ret_warden,
                    struct bl_error *error)
{
    enum bl_mechanism mechanism;
    bool refused;
    int code = proc_container_resolve(options->container, &mechanism, error);
    if (code == 0)
        code = bl_check();
    if (code != 0)
        return code;
    struct bl_error first = {0};
    code = start_in(options, mechanism, ret_warden, &refused, &first);
    /* `auto` looks at files, and may have been too hopeful. */
    if (code != 0 && refused && options->container == BL_MECHANISM_NONE)
        return start_in(options, BL_MECHANISM_SUBREAPER, ret_warden, &refused, error);
    if (code != 0 && error != NULL && error->code == 0)
        *error = first;
    return code;
}

int bl_warden_wait(struct bl_warden *warden, struct bl_warden_end *ret_end)
{
    int code = await(warden, warden->background ? &warden->ended : &warden->quiet);
    if (code == 0)
        *ret_end = warden->end;
    return code;
}

int proc_warden_wait_tree(struct bl_warden *warden, struct bl_warden_end *ret_end)
{
    int code = await(warden, &warden->quiet);
    if (code == 0)
        *ret_end = warden->end;
    return code;
}

/* Without the init of a namespace, which is no part of the command. */
uint32_t proc_warden_count(const struct bl_warden *warden)
{
    struct tree tree = {0};
    uint32_t count = 0;
    tree_add_children(&tree, warden->started.pid);
    size_t first = warden->mechanism == BL_MECHANISM_PIDNS ? tree.count : 0;
    tree_complete(&tree);
    for (size_t i = first; i < tree.count; i++)
        count += !tree_is_zombie(tree.pids[i]);
    tree_done(&tree);
    return count;
}

void bl_warden_stop(struct bl_warden *warden, int signal, uint32_t grace_ms,
                    struct bl_warden_end *ret_end)
{
    take_messages(warden);
    if (!warden->quiet) {
        struct bl_scope shield;
        if (!warden->ended)
            warden->stopped = true;
        send_message(warden, WARDEN_STOP, signal == 0 ? SIGTERM : signal, (int)grace_ms);
        bl_shield_begin(&shield, grace_ms * BL_NS_PER_MS + PROOF_NS_MAX);
        /* A warden that does not answer in all that time is stuck itself: it is killed. */
        if (await(warden, &warden->quiet) != 0)
            kill(warden->started.pid, SIGKILL);
        bl_shield_end(&shield);
        if (!warden->quiet && !warden->losing)
            warden_lost(warden);
    }
    *ret_end = warden->end;
}

void proc_warden_hurry(struct bl_warden *warden)
{
    if (!warden->quiet)
        send_message(warden, WARDEN_STOP, SIGKILL, 0);
}

void bl_warden_signal(struct bl_warden *warden, int signal)
{
    send_message(warden, WARDEN_SIGNAL, signal, 0);
}

pid_t bl_warden_pid(const struct bl_warden *warden)
{
    return warden->command;
}

void bl_warden_free(struct bl_warden *warden)
{
    struct bl_warden_end end;
    if (warden == NULL)
        return;
    if (warden->control != NULL && !warden->quiet)
        bl_warden_stop(warden, SIGTERM, 0, &end);
    close(warden->started.lifeline);
    if (!warden->reaped) {
        struct bl_scope shield;
        struct bl_child_end child_end;
        bl_shield_begin(&shield, PROOF_NS_MAX);
        bl_child_wait(warden->started.pidfd, &child_end);
        bl_shield_end(&shield);
    }
    bl_list_remove(&warden->link);
    bl_descriptor_free(warden->control);
    close(warden->started.control);
    close(warden->started.pidfd);
    bl_free(warden);
}
