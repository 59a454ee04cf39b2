/* Does the work of a warden that was killed or that cannot do it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "parts.h"

#define SWEEP_NS_MAX BL_NS_PER_S
#define PAUSE_NS     (BL_NS_PER_MS / 2)
/* A list of children that is read while some of them end may miss others. So the end is reached
 * only after several passes in a row that found nothing. */
#define CLEAN_PASSES 2
/* As in tree_send_children: signals before looks. */
#define QUICK_PASSES 4

/* Process-wide state, like being a subreaper. */
static struct {
    pthread_once_t once;
    struct tree_view view;
    bool adopting;
    struct tree strangers; /* children that existed before it adopted orphans; never killed */
    atomic_int probes;
} own = {.once = PTHREAD_ONCE_INIT, .view = {-1, -1}};

static void sweep_open_view(void)
{
    tree_view_open(&own.view);
}

const struct tree_view *proc_view(void)
{
    pthread_once(&own.once, sweep_open_view);
    return &own.view;
}

uint64_t proc_now_ns(void)
{
    return bl_clock_now_ns(&bl_clock_system);
}

void proc_pause(void)
{
    if (bl_fiber_current() == NULL || bl_sleep(PAUSE_NS) != 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)PAUSE_NS}, NULL);
}

bool proc_adopting(void)
{
    return own.adopting;
}

/* An ignored SIGCHLD is inherited from a caller that does not wait for its children. The kernel
 * would then reap the wardens, and their exit status would be lost. */
static void sweep_heed_children(void)
{
    static const struct sigaction heeded = {.sa_handler = SIG_DFL};
    struct sigaction action;
    if (sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
        sigaction(SIGCHLD, &heeded, NULL);
}

int bl_proc_adopt_orphans(void)
{
    sweep_heed_children();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return bl_error_from_errno(errno);
    /* A program that was executed in place of a shell inherits the shell's children. */
    if (!own.adopting)
        tree_add_own(proc_view(), &own.strangers);
    own.adopting = true;
    return 0;
}

void proc_probe_begin(void)
{
    atomic_fetch_add(&own.probes, 1);
}

void proc_probe_end(void)
{
    atomic_fetch_sub(&own.probes, 1);
}

/* ---- Survivors ---------------------------------------------------------------------------------
 */

void proc_rest_unknown(struct proc_rest *rest, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    rest->survivors = BL_SURVIVORS_UNKNOWN;
    vsnprintf(rest->unverified, sizeof rest->unverified, format, arguments);
    va_end(arguments);
}

void proc_rest_doubt(struct proc_rest *rest, enum warden_doubt doubt, int error)
{
    switch (doubt) {
    case WARDEN_DOUBT_NONE: break;
    case WARDEN_DOUBT_LOOK:
        proc_rest_unknown(rest, "the process tree could not be read (%s)", strerror(error));
        return;
    case WARDEN_DOUBT_MOVING:
        proc_rest_unknown(rest, "processes were still starting and ending");
        return;
    case WARDEN_DOUBT_UNREAPED:
        proc_rest_unknown(rest, "a dead process could not be reaped");
        return;
    case WARDEN_DOUBT_CGROUP:
        proc_rest_unknown(rest, "the cgroup did not become empty (%s)", strerror(error));
        return;
    case WARDEN_DOUBT_STUCK:
        proc_rest_unknown(rest, "the warden was stopped or traced, and was killed");
        return;
    }
    proc_rest_unknown(rest, "the warden gave no reason");
}

/* ---- Orphans --------------------------------------------------------------------------------- */

static bool sweep_is_stranger(pid_t pid)
{
    for (size_t i = 0; i < own.strangers.count; i++)
        if (own.strangers.pids[i] == pid)
            return true;
    return false;
}

/* Lists children of this process that are not wardens: orphans from the trees of wardens. */
static void sweep_list_orphans(struct tree *tree)
{
    struct tree children = {0};
    tree_add_own(proc_view(), &children);
    tree->count = 0;
    tree->error = children.error;
    for (size_t i = 0; i < children.count; i++) {
        pid_t pid = children.pids[i];
        if (pid != proc_guard_pid() && !proc_is_warden(pid) && !sweep_is_stranger(pid))
            tree_push(tree, pid);
    }
    tree_done(&children);
}

/* Reaps the dead children and removes them from the tree. Returns their number. */
static size_t sweep_reap(struct tree *tree)
{
    size_t alive = 0, reaped = 0;
    for (size_t i = 0; i < tree->count; i++) {
        if (waitpid(tree->pids[i], NULL, WNOHANG | __WALL) == 0)
            tree->pids[alive++] = tree->pids[i];
        else
            reaped++;
    }
    tree->count = alive;
    return reaped;
}

static void sweep_count(const struct tree *tree, struct proc_rest *ret_rest)
{
    int error = tree->error;
    for (size_t i = 0; i < tree->count; i++) {
        enum tree_life life = tree_life_of(proc_view(), tree->pids[i], NULL);
        ret_rest->survivors += life == TREE_ALIVE;
        if (life == TREE_UNKNOWN && error == 0)
            error = EACCES;
    }
    if (error != 0)
        proc_rest_doubt(ret_rest, WARDEN_DOUBT_LOOK, error);
    else if (ret_rest->survivors == 0)
        proc_rest_doubt(ret_rest, WARDEN_DOUBT_UNREAPED, 0);
}

void proc_sweep_orphans(struct proc_rest *ret_rest)
{
    uint64_t give_up_ns = proc_now_ns() + SWEEP_NS_MAX;
    *ret_rest = (struct proc_rest){0};
    for (int clean = 0; clean < CLEAN_PASSES;) {
        struct tree tree = {0};
        for (int pass = 0; pass < QUICK_PASSES; pass++) {
            sweep_list_orphans(&tree);
            tree_send_each(&tree, SIGKILL);
        }
        size_t found = tree.count;
        sweep_reap(&tree);
        tree_kill(proc_view(), &tree);
        clean = found == 0 && tree.error == 0 ? clean + 1 : 0;
        bool over = proc_now_ns() >= give_up_ns;
        if (clean == 0 && over)
            sweep_count(&tree, ret_rest);
        tree_done(&tree);
        if (clean == 0 && over)
            return;
        if (clean == 0)
            proc_pause();
    }
}

/* The first process of a PID namespace (a container) also gets orphans from processes that were
 * started from outside (docker exec); these do not come from a warden. */
bool proc_orphans_seen(void)
{
    struct tree tree = {0};
    if (!own.adopting || proc_view()->proc < 0 || own.strangers.count > 0 || getpid() == 1 ||
        atomic_load(&own.probes) > 0)
        return false;
    sweep_list_orphans(&tree);
    bool seen = tree.count > 0 || tree.error != 0;
    tree_done(&tree);
    return seen;
}

/* ---- Cgroups --------------------------------------------------------------------------------- */

static bool sweep_is_cgroup(const char *path)
{
    return path[0] == '/';
}

/* A cgroup outlives its warden, and can be removed only when it is empty. */
void proc_sweep_cgroup(const char *path, struct proc_rest *ret_rest)
{
    *ret_rest = (struct proc_rest){0};
    if (!sweep_is_cgroup(path))
        return;
    int error = EBUSY;
    for (uint64_t until_ns = proc_now_ns() + SWEEP_NS_MAX; proc_now_ns() < until_ns;) {
        tree_kill_cgroup(path);
        if (rmdir(path) == 0 || errno == ENOENT)
            return;
        error = errno;
        proc_pause();
    }
    proc_rest_doubt(ret_rest, WARDEN_DOUBT_CGROUP, error);
}

void proc_kill_below(pid_t pid, const char *cgroup, uint64_t limit_ns)
{
    uint64_t give_up_ns = proc_now_ns() + limit_ns;
    for (int clean = 0; clean < CLEAN_PASSES && proc_now_ns() < give_up_ns;) {
        struct tree tree = {0};
        size_t living = 0;
        if (sweep_is_cgroup(cgroup))
            tree_kill_cgroup(cgroup);
        tree_add_children(proc_view(), &tree, pid);
        tree_kill(proc_view(), &tree);
        for (size_t i = 0; i < tree.count; i++)
            living += tree_life_of(proc_view(), tree.pids[i], NULL) != TREE_DEAD;
        clean = living == 0 && tree.error == 0 ? clean + 1 : 0;
        /* Without a free descriptor nothing can be seen here; the tree is swept later, as orphans.
         */
        bool blind = tree.count == 0 && tree.error == EMFILE;
        tree_done(&tree);
        if (blind)
            return;
        proc_pause();
    }
}
