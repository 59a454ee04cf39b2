/* Design notes.
 *
 *   state      waits for                       next state
 *   HOLDING    anything                        SETTLING when the command has exited by itself
 *   SETTLING   a moment, for helpers that      KEEPING
 *              end a little after it; longer
 *              if they wait for a processor
 *   KEEPING    anything (background)           without background at once ASKED or KILLING, if
 *                                              something was left behind
 *   ASKED      the end of the grace period     KILLING
 *   KILLING    the proof, for a second         QUIET
 *   QUIET
 *
 * A stop leads from the first three states to ASKED. The lifeline, the end of the lease, an
 * exceeded limit and a stop without a grace period lead from the first four to KILLING. The proof
 * leads from any state to QUIET. There is no way back. Only hold_enter changes the state.
 *
 * The proof is positive evidence and never the absence of a finding. waitpid reports that there is
 * no child: this process is a subreaper, so every descendant whose parent exits becomes its child,
 * and without children it has no descendants. In cgroup2, the cgroup must be empty as well. In
 * pidns, the child is the init of the namespace, which the kernel allows to be reaped only when all
 * other processes in it have ended. Without the proof, the processes are counted by two looks that
 * must agree; if a look fails, the number is unknown and never 0.
 *
 * Each round of killing uses every means, since each has a gap: cgroup.kill misses a process whose
 * main thread has exited, a process can leave its cgroup, and a walk of the tree can miss a process
 * that is being forked. Reaping is bounded, so that many exits cannot delay the next round. */
#include "warden.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that is alive after this time will not die: it is uninterruptible, or belongs to
 * another user. */
#define KILL_MS_MAX     1000
#define SETTLE_MS       20
#define SETTLE_MS_MAX   3000
#define COUNT_PERIOD_MS 20
/* Processes left behind are counted in full: no stop is waiting yet. */
#define SETTLE_LOOK_US 500000
#define REAP_MAX       512
/* Minimum time between rounds of killing: each process that dies wakes the warden. */
#define ROUND_US 500
/* From this round on, the remaining processes are hard to kill, or some means do not reach them. */
#define ROUND_FREEZE 3

enum state {
    HOLDING,
    SETTLING,
    KEEPING,
    ASKED,
    KILLING,
    QUIET,
};

/* The last result of waitpid. */
enum children {
    CHILDREN_LIVE,
    CHILDREN_UNREAPED, /* there may be more to reap, and no signal announces them */
    CHILDREN_NONE,
};

struct warden {
    struct hold *hold;
    enum state state;
    enum children children;
    bool command_ended;
    int command_status;
    bool counting;           /* count the processes that are reaped after the rounds of killing */
    enum warden_cause cause; /* why this warden kills without a request of Belay */
    bool forced;             /* killing began while a process other than the init was left */
    unsigned rounds;         /* of killing */
    uint64_t round_at_us;    /* time of the next round */
    uint64_t until_ms;       /* end of the state: SETTLING, ASKED, KILLING */
    uint64_t settled_ms;     /* SETTLING: end for helpers that wait for a processor */
    uint64_t look_at_ms;     /* ASKED: next check for stopped processes */
    uint64_t look_after_ms;
    int strongest;
    size_t processes;
    int32_t survivors;
    enum warden_doubt doubt;
    int doubt_errno;
};

void hold_send(const struct warden_message *message)
{
    send(WARDEN_CONTROL, message, sizeof *message, MSG_NOSIGNAL);
}

pid_t hold_command_pid(const struct hold *hold)
{
    struct tree tree = {0};
    if (hold->init == 0)
        return hold->child;
    tree_add_children(&hold->view, &tree, hold->init);
    pid_t pid = tree.count > 0 ? tree.pids[0] : 0;
    tree_done(&tree);
    return pid;
}

/* The number for reports: processes whose state could not be read exist, and count. */
static size_t hold_number(struct tree_count count)
{
    return count.living + count.unseen;
}

static uint64_t hold_now_ms(void)
{
    return warden_now_us() / 1000;
}

static void hold_enter(struct warden *warden, enum state state, uint64_t for_ms)
{
    enum {
        STOPPING = 1 << ASKED | 1 << KILLING | 1 << QUIET
    };
    static const unsigned char moves[] = {
        [HOLDING] = 1 << SETTLING | STOPPING,
        [SETTLING] = 1 << KEEPING | STOPPING,
        [KEEPING] = STOPPING,
        [ASKED] = 1 << KILLING | 1 << QUIET,
        [KILLING] = 1 << QUIET,
        [QUIET] = 0,
    };
    assert((moves[warden->state] >> state & 1) != 0);
    warden->state = state;
    warden->until_ms = hold_now_ms() + for_ms;
}

/* Raises the priority while the warden signals and kills, since a fork bomb leaves it little CPU
 * time. If that is not permitted, the warden has at least the share of its session. */
static void hold_hurry(void)
{
    struct sched_param priority = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority);
}

/* Lowers the priority again for reaping. To free the entries of dead processes in /proc and in the
 * cgroup's folder, the kernel waits for others that do the same by retrying. At high priority, the
 * warden would keep these from running, and so itself from finishing, for most of a second, until
 * the kernel throttles it. */
static void hold_calm(void)
{
    struct sched_param priority = {.sched_priority = 0};
    sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &priority);
}

static void hold_send_ended(const struct warden *warden, size_t left_behind)
{
    hold_send(&(struct warden_message){.type = WARDEN_ENDED,
                                       .ended = {.status = warden->command_status,
                                                 .left_behind = (int32_t)left_behind,
                                                 .cause = (int32_t)warden->cause}});
}

static void hold_command_over(struct warden *warden, int status)
{
    assert(!warden->command_ended);
    warden->command_ended = true;
    warden->command_status = status;
    if (warden->state == HOLDING) {
        hold_enter(warden, SETTLING, SETTLE_MS);
        warden->settled_ms = hold_now_ms() + SETTLE_MS_MAX;
    } else {
        hold_send_ended(warden, 0);
    }
    /* A long grace period was meant for the command: the rest of its tree has the one for processes
     * left behind. */
    uint64_t until_ms = hold_now_ms() + warden->hold->options.grace_ms;
    if (warden->state == ASKED && until_ms < warden->until_ms)
        warden->until_ms = until_ms;
}

/* Bounded, so that many exits do not delay the next round of killing. */
static void hold_reap(struct warden *warden)
{
    int status, command_status = 0;
    bool over = false;
    pid_t pid = 0;
    for (int i = 0; i < REAP_MAX && (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0; i++) {
        warden->processes += warden->counting && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        /* A pid that is reused, after very many processes, is not the command's. */
        if (pid == warden->hold->child && warden->hold->init == 0 && !warden->command_ended) {
            over = true;
            command_status = status;
        }
    }
    warden->children = pid > 0                      ? CHILDREN_UNREAPED
                       : pid < 0 && errno == ECHILD ? CHILDREN_NONE
                                                    : CHILDREN_LIVE;
    if (over)
        hold_command_over(warden, command_status);
}

/* When Belay has ended, its descriptors stay readable forever, so they are no longer watched. */
static void hold_enter_killing(struct warden *warden)
{
    const struct hold *hold = warden->hold;
    const int fds[] = {WARDEN_LIFELINE, WARDEN_CONTROL, hold->owner.pidfd, hold->lease.fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        warden_unwatch(hold->watch, fds[i]);
    hold_enter(warden, KILLING, KILL_MS_MAX);
}

/* Returns whether a process other than the init is left to kill after the grace period. A namespace
 * whose command has ended can take longer than that to end, and then nothing is left but its init. */
static bool hold_must_force(const struct warden *warden)
{
    const struct hold *hold = warden->hold;
    if (!warden->command_ended ||
        (hold->options.container == WARDEN_CGROUP2 && cgroup_populated() != 0))
        return true;
    struct tree_count left = tree_count_own(&hold->view, hold->init, TREE_LOOK_US);
    return hold_number(left) > 0 || left.error != 0;
}

/* Starts killing without a grace period. The processes are counted when they are reaped; those in a
 * namespace are reaped by its init, and counted here. */
static void hold_begin_kill(struct warden *warden)
{
    const struct hold *hold = warden->hold;
    if (warden->state == KILLING)
        return;
    /* A stop does not wait for helpers that end a little later. */
    if (warden->state == SETTLING)
        hold_send_ended(warden, 0);
    warden->counting = warden->state < ASKED && hold->init == 0;
    if (warden->state < ASKED && hold->init != 0)
        warden->processes = hold_number(tree_count_own(&hold->view, hold->init, TREE_LOOK_US));
    warden->forced = warden->state < ASKED || hold_must_force(warden);
    hold_enter_killing(warden);
}

/* Kills the tree without a request of Belay. The cause is set last: if the command had exited before,
 * its end is sent without a cause. */
static void hold_begin_kill_for(struct warden *warden, enum warden_cause cause)
{
    if (warden->state == KILLING)
        return;
    hold_begin_kill(warden);
    warden->cause = cause;
}

static void hold_begin_stop(struct warden *warden, int signal, uint64_t grace_ms)
{
    const struct hold *hold = warden->hold;
    uint64_t until_ms = hold_now_ms() + grace_ms;
    if (grace_ms == 0) {
        hold_begin_kill(warden);
        return;
    }
    if (warden->state == SETTLING)
        hold_send_ended(warden, 0);
    if (warden->state < ASKED) {
        hold_enter(warden, ASKED, grace_ms);
        hold_hurry();
        warden->processes = hold_number(tree_signal_own(&hold->view, signal, hold->init));
        hold_calm();
        warden->strongest = signal;
        warden->look_after_ms = 1;
        warden->look_at_ms = hold_now_ms() + 1;
    }
    if (warden->state == ASKED && until_ms < warden->until_ms)
        warden->until_ms = until_ms;
}

/* Continues processes that were left stopped. A child forked between SIGSTOP and SIGCONT starts out
 * stopped: the kernel gives it the first signal and drops the second. It would spend the grace
 * period stopped, and its parent would wait for it. */
static void hold_look_again(struct warden *warden)
{
    tree_continue_own(&warden->hold->view);
    warden->look_after_ms *= 2;
    warden->look_at_ms = hold_now_ms() + warden->look_after_ms;
}

static bool hold_is_quiet(const struct warden *warden)
{
    return warden->children == CHILDREN_NONE &&
           (warden->hold->options.container != WARDEN_CGROUP2 || warden->hold->child == 0 ||
            cgroup_populated() == 0);
}

/* Stops or keeps the processes that were left behind when the command exited. Dead children that
 * are still not reaped, and processes in the cgroup that are not descendants, are left to the
 * rounds of killing, which end after a time. */
static void hold_settle(struct warden *warden)
{
    const struct hold *hold = warden->hold;
    struct tree_count left = {0};
    if (warden->children != CHILDREN_NONE)
        left = tree_count_own(&hold->view, hold->init, SETTLE_LOOK_US);
    hold_send_ended(warden, hold_number(left));
    hold_enter(warden, KEEPING, 0);
    if (hold_is_quiet(warden) || (hold->options.flags & WARDEN_BACKGROUND) != 0)
        return;
    if (hold_number(left) > 0 || left.error != 0)
        hold_begin_stop(warden, SIGTERM, hold->options.grace_ms);
    else
        hold_enter_killing(warden);
}

/* Reads from the init's pipe: the status of the command, or -1, which only shows that the init is
 * alive. */
static void hold_read_status(struct warden *warden)
{
    struct hold *hold = warden->hold;
    int status;
    ssize_t size = read(hold->status_fd, &status, sizeof status);
    if (size == (ssize_t)sizeof status && status != -1 && !warden->command_ended) {
        hold_command_over(warden, status);
    } else if (size <= 0) {
        warden_unwatch(hold->watch, hold->status_fd);
        close(hold->status_fd);
        hold->status_fd = -1;
    }
}

bool hold_take_leases(struct hold *hold)
{
    struct warden_message message;
    ssize_t size;
    while ((size = recv(WARDEN_CONTROL, &message, sizeof message, MSG_DONTWAIT | MSG_PEEK)) ==
               (ssize_t)sizeof message &&
           message.type == WARDEN_LEASE) {
        recv(WARDEN_CONTROL, &message, sizeof message, MSG_DONTWAIT);
        lease_set(&hold->lease, (uint64_t)message.lease.until_high << 32 | message.lease.until_low);
    }
    return size >= 0 || (errno != EAGAIN && errno != EINTR);
}

/* Handles one message after those that set the lease. */
static void hold_read_control(struct warden *warden)
{
    struct warden_message message;
    if (!hold_take_leases(warden->hold))
        return;
    ssize_t size = recv(WARDEN_CONTROL, &message, sizeof message, MSG_DONTWAIT);
    if (size != (ssize_t)sizeof message) {
        hold_begin_kill(warden); /* Belay has ended */
    } else if (message.type == WARDEN_STOP) {
        hold_begin_stop(warden, message.stop.signal, (uint64_t)message.stop.grace_ms);
    } else if (message.type == WARDEN_SIGNAL && !warden->command_ended) {
        pid_t command = hold_command_pid(warden->hold);
        if (command > 0)
            kill(command, message.signal.number);
    }
}

/* Belay may have renewed the lease while this process was stopped, so the messages come first. */
static void hold_check_lease(struct warden *warden)
{
    while (warden->state != KILLING && hold_take_leases(warden->hold))
        hold_read_control(warden);
    if (lease_over(&warden->hold->lease))
        hold_begin_kill_for(warden, WARDEN_CAUSE_LEASE);
}

/* Processes that are killed in a round leave orphans, which are children of this process in the
 * next round. */
static void hold_kill_round(struct warden *warden)
{
    const struct hold *hold = warden->hold;
    hold_hurry();
    warden->rounds++;
    if (hold->init != 0)
        kill(hold->init, SIGKILL);
    if (hold->options.container == WARDEN_CGROUP2)
        cgroup_kill(warden->rounds >= ROUND_FREEZE);
    tree_kill_own(&hold->view);
    hold_calm();
    warden->round_at_us = warden_now_us() + ROUND_US;
}

/* Counts the survivors when the proof has failed. */
static void hold_count_survivors(struct warden *warden)
{
    const struct tree_view *view = &warden->hold->view;
    struct tree_count first = tree_count_own(view, 0, TREE_LOOK_US),
                      second = tree_count_own(view, 0, TREE_LOOK_US);
    int populated = warden->hold->options.container == WARDEN_CGROUP2 ? cgroup_populated() : 0;
    warden->survivors = WARDEN_UNKNOWN;
    if (first.error != 0 || second.error != 0) {
        warden->doubt = WARDEN_DOUBT_LOOK;
        warden->doubt_errno = first.error != 0 ? first.error : second.error;
    } else if (first.living != second.living || first.digest != second.digest) {
        warden->doubt = WARDEN_DOUBT_MOVING;
    } else if (populated < 0 || (populated > 0 && warden->children == CHILDREN_NONE)) {
        warden->doubt = WARDEN_DOUBT_CGROUP;
        warden->doubt_errno = populated < 0 ? -populated : EBUSY;
    } else if (first.living == 0) {
        warden->doubt = WARDEN_DOUBT_UNREAPED;
    } else {
        warden->survivors = (int32_t)first.living;
        warden->processes += warden->counting ? first.living : 0;
    }
}

static int hold_wait_ms(const struct warden *warden)
{
    uint64_t now = hold_now_ms(), next = warden->until_ms;
    if (warden->children == CHILDREN_UNREAPED)
        return 0;
    switch (warden->state) {
    case SETTLING:
    case KILLING: return 1;
    case ASKED:
        if (warden->look_at_ms < next)
            next = warden->look_at_ms;
        return next > now ? (int)(next - now) : 0;
    case HOLDING:
    case KEEPING:
    case QUIET: break;
    }
    return warden->hold->options.processes_max > 0 ? COUNT_PERIOD_MS : -1;
}

static void hold_handle(struct warden *warden, int fd)
{
    struct signalfd_siginfo info[16];
    struct hold *hold = warden->hold;
    if (fd == WARDEN_CONTROL)
        hold_read_control(warden);
    else if (fd == hold->status_fd)
        hold_read_status(warden);
    else if (fd == hold->lease.fd)
        hold_check_lease(warden);
    else if (fd != hold->child_fd)
        hold_begin_kill(warden); /* the lifeline, or the end of Belay */
    else if (read(fd, info, sizeof info) < 0 && errno != EAGAIN)
        return;
}

static void hold_wait_for_news(struct warden *warden)
{
    int fds[WARDEN_NEWS_MAX];
    int count = warden_news(warden->hold->watch, hold_wait_ms(warden), fds);
    for (int i = 0; i < count; i++)
        hold_handle(warden, fds[i]);
    hold_reap(warden);
}

/* On a busy machine, a helper that is about to end may still wait for a processor when the moment is
 * over. It gets more time. */
static bool hold_is_settled(const struct warden *warden, uint64_t now)
{
    const struct hold *hold = warden->hold;
    return now >= warden->settled_ms ||
           (now >= warden->until_ms && !tree_waits_own(&hold->view, hold->init, TREE_LOOK_US));
}

/* Does what is due at this time. */
static void hold_tick(struct warden *warden)
{
    const struct hold *hold = warden->hold;
    uint64_t now = hold_now_ms();
    if (warden->state == SETTLING && hold_is_settled(warden, now))
        hold_settle(warden);
    if (warden->state == ASKED && now >= warden->until_ms)
        hold_begin_kill(warden);
    if (warden->state == ASKED && now >= warden->look_at_ms)
        hold_look_again(warden);
    if (hold->options.processes_max > 0 && warden->state != KILLING &&
        tree_count_own(&hold->view, hold->init, TREE_LOOK_US).living > hold->options.processes_max)
        hold_begin_kill_for(warden, WARDEN_CAUSE_LIMIT);
    if (warden->state == KILLING && now >= warden->until_ms) {
        hold_count_survivors(warden);
        hold_enter(warden, QUIET, 0);
    }
}

static void hold_send_quiet(struct warden *warden)
{
    struct hold *hold = warden->hold;
    assert(warden->state == QUIET);
    assert((warden->survivors == WARDEN_UNKNOWN) == (warden->doubt != WARDEN_DOUBT_NONE));
    bool killed =
        warden->rounds > 0 && warden->forced && (warden->processes > 0 || !warden->command_ended);
    if (killed)
        warden->strongest = SIGKILL;
    else if (warden->cause == WARDEN_CAUSE_LEASE)
        warden->cause = WARDEN_CAUSE_NONE; /* all had just ended by themselves */
    hold->record.state = RECORD_ENDED;
    hold->record.processes = (int32_t)warden->processes;
    hold->record.survivors = warden->survivors;
    hold->record.strongest = warden->strongest;
    hold->record.doubt = (int32_t)warden->doubt;
    hold->record.doubt_errno = warden->doubt_errno;
    record_write(WARDEN_RECORDS, hold->options.record, &hold->record);
    hold_send(&(struct warden_message){.type = WARDEN_QUIET,
                                       .quiet = {.processes = (int32_t)warden->processes,
                                                 .survivors = warden->survivors,
                                                 .strongest = warden->strongest,
                                                 .cause = (int32_t)warden->cause,
                                                 .doubt = (int32_t)warden->doubt,
                                                 .doubt_errno = warden->doubt_errno}});
}

void hold_run(struct hold *hold, bool failed)
{
    struct warden warden = {.hold = hold};
    if (failed)
        hold_begin_kill(&warden);
    hold_reap(&warden);
    while (warden.state != QUIET && !hold_is_quiet(&warden)) {
        if (warden.state == KILLING && warden_now_us() >= warden.round_at_us)
            hold_kill_round(&warden);
        hold_wait_for_news(&warden);
        hold_tick(&warden);
    }
    /* The init writes before it exits. */
    while (hold->status_fd >= 0)
        hold_read_status(&warden);
    if (warden.state == SETTLING)
        hold_settle(&warden);
    if (warden.state != QUIET)
        hold_enter(&warden, QUIET, 0);
    if (hold->options.container == WARDEN_CGROUP2)
        cgroup_close();
    hold_send_quiet(&warden);
}
