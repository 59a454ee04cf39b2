/* Design notes.
 *
 *   state      what it waits for               goes on to
 *   HOLDING    anything                        SETTLING when the command has ended by itself
 *   SETTLING   a moment, for helpers that      KEEPING
 *              end a little after it
 *   KEEPING    anything (background)           ASKED or KILLING at once without background, when
 *                                              something was left behind
 *   ASKED      the end of the grace            KILLING
 *   KILLING    the proof, for a second         QUIET
 *   QUIET
 *
 * A stop leads from the first three to ASKED; the lifeline, a limit that was passed, and a stop
 * without a grace lead from the first four to KILLING; the proof leads from any to QUIET. Nothing
 * leads back. hold_enter alone moves it.
 *
 * The proof is positive evidence, never the absence of a finding. waitpid says that there is no
 * child: every descendant whose parent ends becomes a child of this process, which is a subreaper,
 * so that nobody is below it then. In cgroup2 the cgroup says besides that nobody is in it; in
 * pidns the child is the init of the namespace, which the kernel lets be reaped only after all
 * others in it are gone. Without the proof the processes are counted, by two looks that agree; a
 * look that fails makes the number unknown, never 0.
 *
 * Killing uses every means in every round, since each has a hole: cgroup.kill misses a process
 * whose main thread has ended, a process can leave its cgroup, a walk of the tree can miss one that
 * is just being forked. Reaping is bounded, so that a storm of processes that end cannot keep the
 * next round from coming. */
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

/* After so long what is not dead will not die: uninterruptible, or another user's. */
#define KILL_MS_MAX     1000
#define SETTLE_MS       20
#define COUNT_PERIOD_MS 20
/* What is left behind is counted in full: nobody waits for a stop yet. */
#define SETTLE_LOOK_US 500000
#define REAP_MAX       512
/* Between rounds of killing at the least: each process that dies wakes the warden. */
#define ROUND_US 500
/* From this round of killing on what is left is hard to kill, or not seen by all means. */
#define ROUND_FREEZE 3

enum state {
    HOLDING,
    SETTLING,
    KEEPING,
    ASKED,
    KILLING,
    QUIET,
};

/* What waitpid said last. */
enum children {
    CHILDREN_LIVE,
    CHILDREN_UNREAPED, /* there may be more to reap, of which no signal tells */
    CHILDREN_NONE,
};

struct warden {
    struct hold *hold;
    enum state state;
    enum children children;
    bool command_ended;
    int command_status;
    bool counting; /* those that are reaped, killed by the rounds of killing */
    bool by_limit;
    unsigned rounds;      /* of killing */
    uint64_t round_at_us; /* the next one */
    uint64_t until_ms;    /* end of the state: SETTLING, ASKED, KILLING */
    uint64_t look_at_ms;  /* ASKED: for processes left stopped */
    uint64_t look_after_ms;
    int strongest;
    size_t processes;
    int32_t survivors;
    enum warden_doubt doubt;
    int doubt_errno;
};

void hold_say(const struct warden_message *message)
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

/* For people: those that could not be looked at are there, and count. */
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

/* A storm of forks leaves little of the processors to anybody else. Where it is allowed the warden
 * goes before all of them while it signals and kills; elsewhere it has at least a session's share.
 */
static void hold_hurry(void)
{
    struct sched_param priority = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &priority);
}

/* Not while it reaps: in freeing what /proc and the cgroup's folder had of the dead the kernel
 * waits for others that do the same by trying again and again. Before them all, a warden keeps them
 * from their processor, and itself from the end, until the kernel takes it away: for most of a
 * second. */
static void hold_calm(void)
{
    struct sched_param priority = {.sched_priority = 0};
    sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &priority);
}

static void hold_tell_ended(const struct warden *warden, size_t left_behind)
{
    hold_say(&(struct warden_message){
        .type = WARDEN_ENDED,
        .ended = {.status = warden->command_status, .left_behind = (int32_t)left_behind}});
}

static void hold_command_over(struct warden *warden, int status)
{
    assert(!warden->command_ended);
    warden->command_ended = true;
    warden->command_status = status;
    if (warden->state == HOLDING)
        hold_enter(warden, SETTLING, SETTLE_MS);
    else
        hold_tell_ended(warden, 0);
}

/* Bounded: a storm of processes that end must not keep the next round of killing from coming. */
static void hold_reap(struct warden *warden)
{
    int status, command_status = 0;
    bool over = false;
    pid_t pid = 0;
    for (int i = 0; i < REAP_MAX && (pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0; i++) {
        warden->processes += warden->counting && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        /* A number that comes again, after very many processes, is not the command's any more. */
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

/* Once belay is gone its descriptors say so for ever. */
static void hold_enter_killing(struct warden *warden)
{
    const struct hold *hold = warden->hold;
    const int fds[] = {WARDEN_LIFELINE, WARDEN_CONTROL, hold->owner.pidfd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        warden_unwatch(hold->watch, fds[i]);
    hold_enter(warden, KILLING, KILL_MS_MAX);
}

/* How many there are when it is killed without a grace is seen when they are reaped; those in a
 * namespace are reaped by its init. */
static void hold_begin_kill(struct warden *warden)
{
    const struct hold *hold = warden->hold;
    if (warden->state == KILLING)
        return;
    /* A stop does not wait for those that end a little later. */
    if (warden->state == SETTLING)
        hold_tell_ended(warden, 0);
    warden->counting = warden->state < ASKED && hold->init == 0;
    if (warden->state < ASKED && hold->init != 0)
        warden->processes = hold_number(tree_count_own(&hold->view, hold->init, TREE_LOOK_US));
    hold_enter_killing(warden);
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
        hold_tell_ended(warden, 0);
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

/* A child forked between SIGSTOP and SIGCONT starts out stopped: the kernel gives it the first
 * signal and drops the second. It would spend the grace so, and its parent in waiting for it. */
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

/* What the command has left behind when it ended by itself is stopped, or kept. Dead children that
 * are not reaped after all this time, and processes in the cgroup that are not below this one, are
 * left to the rounds of killing, which give up. */
static void hold_settle(struct warden *warden)
{
    const struct hold *hold = warden->hold;
    struct tree_count left = {0};
    if (warden->children != CHILDREN_NONE)
        left = tree_count_own(&hold->view, hold->init, SETTLE_LOOK_US);
    hold_tell_ended(warden, hold_number(left));
    hold_enter(warden, KEEPING, 0);
    if (hold_is_quiet(warden) || (hold->options.flags & WARDEN_BACKGROUND) != 0)
        return;
    if (hold_number(left) > 0 || left.error != 0)
        hold_begin_stop(warden, SIGTERM, hold->options.grace_ms);
    else
        hold_enter_killing(warden);
}

/* The init's word comes through a pipe; -1 only says that it lives. */
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

static void hold_read_control(struct warden *warden)
{
    struct warden_message message;
    ssize_t size = recv(WARDEN_CONTROL, &message, sizeof message, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size != (ssize_t)sizeof message) {
        hold_begin_kill(warden); /* belay is gone */
    } else if (message.type == WARDEN_STOP) {
        hold_begin_stop(warden, message.stop.signal, (uint64_t)message.stop.grace_ms);
    } else if (message.type == WARDEN_SIGNAL && !warden->command_ended) {
        pid_t command = hold_command_pid(warden->hold);
        if (command > 0)
            kill(command, message.signal.number);
    }
}

/* Processes killed in a round leave orphans, which are children of this process in the next. */
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

/* Without the proof: what can be said of the rest. */
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

static void hold_hear(struct warden *warden, int fd)
{
    struct signalfd_siginfo info[16];
    struct hold *hold = warden->hold;
    if (fd == WARDEN_CONTROL)
        hold_read_control(warden);
    else if (fd == hold->status_fd)
        hold_read_status(warden);
    else if (fd != hold->child_fd)
        hold_begin_kill(warden); /* the lifeline, or belay's end */
    else if (read(fd, info, sizeof info) < 0 && errno != EAGAIN)
        return;
}

static void hold_wait_for_news(struct warden *warden)
{
    int fds[WARDEN_NEWS_MAX];
    int count = warden_news(warden->hold->watch, hold_wait_ms(warden), fds);
    for (int i = 0; i < count; i++)
        hold_hear(warden, fds[i]);
    hold_reap(warden);
}

/* What is due by the clock. */
static void hold_tick(struct warden *warden)
{
    const struct hold *hold = warden->hold;
    uint64_t now = hold_now_ms();
    if (warden->state == SETTLING && now >= warden->until_ms)
        hold_settle(warden);
    if (warden->state == ASKED && now >= warden->until_ms)
        hold_begin_kill(warden);
    if (warden->state == ASKED && now >= warden->look_at_ms)
        hold_look_again(warden);
    if (hold->options.processes_max > 0 && warden->state != KILLING &&
        tree_count_own(&hold->view, hold->init, TREE_LOOK_US).living >
            hold->options.processes_max) {
        warden->by_limit = true;
        hold_begin_kill(warden);
    }
    if (warden->state == KILLING && now >= warden->until_ms) {
        hold_count_survivors(warden);
        hold_enter(warden, QUIET, 0);
    }
}

static void hold_tell_quiet(struct warden *warden)
{
    struct hold *hold = warden->hold;
    assert(warden->state == QUIET);
    assert((warden->survivors == WARDEN_UNKNOWN) == (warden->doubt != WARDEN_DOUBT_NONE));
    if (warden->rounds > 0 && (warden->processes > 0 || !warden->command_ended))
        warden->strongest = SIGKILL;
    hold->record.state = RECORD_ENDED;
    hold->record.processes = (int32_t)warden->processes;
    hold->record.survivors = warden->survivors;
    hold->record.strongest = warden->strongest;
    hold->record.doubt = (int32_t)warden->doubt;
    hold->record.doubt_errno = warden->doubt_errno;
    record_write(WARDEN_RECORDS, hold->options.record, &hold->record);
    hold_say(&(struct warden_message){.type = WARDEN_QUIET,
                                      .quiet = {.processes = (int32_t)warden->processes,
                                                .survivors = warden->survivors,
                                                .strongest = warden->strongest,
                                                .by_limit = warden->by_limit,
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
    /* The init has written before it went. */
    while (hold->status_fd >= 0)
        hold_read_status(&warden);
    if (warden.state == SETTLING)
        hold_settle(&warden);
    if (warden.state != QUIET)
        hold_enter(&warden, QUIET, 0);
    if (hold->options.container == WARDEN_CGROUP2)
        cgroup_close();
    hold_tell_quiet(&warden);
}
