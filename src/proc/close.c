/* The end of a warden: it is reaped, or killed from here, and its tree is swept if it has not proved
 * that nothing is left. */
#include <assert.h>
#include <signal.h>

#include "held.h"

/* Number of checks after SIGKILL. */
#define KILLED_LOOKS 10
#define TAKEOVER_NS  (500 * BL_NS_PER_MS)
#define COMMAND_NS   (2 * BL_NS_PER_S)

static void warden_move(struct bl_warden *warden, enum warden_state to)
{
    static const unsigned char moves[WARDEN_OVER + 1] = {
        [WARDEN_HOLDING] = BL_TO(WARDEN_SEIZING) | BL_TO(WARDEN_CLOSING),
        [WARDEN_SEIZING] = BL_TO(WARDEN_CLOSING),
        [WARDEN_CLOSING] = BL_TO(WARDEN_OVER),
    };
    static const char *const names[] = {"holding", "seizing", "closing", "over"};
    assert(BL_MAY_MOVE(moves, warden->state, to));
    BL_LOG(BL_ROOM_PROC, BL_LOG_DEBUG, "warden", BL_LOG_INTEGER("warden", warden->started.pid),
           BL_LOG_STRING("from", names[warden->state]), BL_LOG_STRING("to", names[to]));
    warden->state = to;
}

void proc_warden_take_rest(struct bl_warden *warden, const struct proc_rest *rest)
{
    struct bl_warden_end *end = &warden->end;
    end->survivors = bl_survivors_add(end->survivors, rest->survivors);
    if (rest->survivors == BL_SURVIVORS_UNKNOWN && end->unverified[0] == '\0')
        bl_text_into(end->unverified, sizeof end->unverified, rest->unverified);
}

/* Waits for the exit of the warden itself, and reaps it. A stuck warden is continued first. If that
 * does not help, or if it holds a tree, another process has sent QUIET in its name: its tree is
 * killed from here, and then the warden. A warden that SIGKILL does not end (frozen in a cgroup, or
 * waiting for a disk) is given up. `taken_over`: it has been killed from here. Returns true if it
 * exited by itself with 0. */
static bool reap_warden(struct bl_warden *warden, bool taken_over)
{
    bool attacked = false;
    int killed = 0;
    for (int tries = 0; !warden->reaped && killed < KILLED_LOOKS; tries++) {
        struct bl_scope limit;
        bl_limit_begin(&limit, ANSWER_NS);
        int code = bl_child_wait(warden->started.pidfd, &warden->lost);
        bl_limit_end(&limit);
        warden->reaped = code == 0;
        if (code != BL_ETIMEDOUT)
            break;
        bool stuck = proc_look_stuck(&warden->started);
        if (stuck && tries == 0) {
            kill(warden->started.pid, SIGCONT);
        } else if (stuck || proc_look_tree(&warden->started) ||
                   tries * ANSWER_NS >= PROOF_NS_MAX / 2) {
            attacked = true;
            proc_kill_below(warden->started.pid, warden->cgroup, TAKEOVER_NS);
            kill(warden->started.pid, SIGKILL);
        }
        killed += attacked || taken_over;
    }
    return warden->reaped && !attacked && !warden->lost.by_signal && warden->lost.status == 0;
}

/* Waits until the killed command is dead, which can take long on a busy machine. A stop does not
 * return earlier, although nothing can be proved without the warden. */
static void await_command(const struct bl_warden *warden)
{
    struct bl_scope limit;
    bl_limit_begin(&limit, COMMAND_NS);
    while (tree_life_of(proc_view(), warden->command, NULL) != TREE_DEAD &&
           bl_sleep(BL_NS_PER_MS) == 0)
        continue;
    bl_limit_end(&limit);
}

/* Cleans up after a warden that ended without QUIET, or whose QUIET does not count. In a namespace
 * the kernel has killed the tree with the init; otherwise this process does the warden's work, if
 * the tree is reparented to it. */
static void sweep_after(struct bl_warden *warden)
{
    struct proc_rest rest;
    warden->end.survivors = 0;
    warden->end.unverified[0] = '\0';
    /* Orphans first: that needs no descriptor. */
    if (proc_adopting()) {
        proc_sweep_orphans(&rest);
        proc_warden_take_rest(warden, &rest);
    }
    proc_sweep_cgroup(warden->cgroup, &rest);
    proc_warden_take_rest(warden, &rest);
    if (!proc_adopting()) {
        if (warden->command > 0 && warden->mechanism != BL_MECHANISM_CGROUP2)
            kill(-warden->command, SIGKILL);
        if (warden->command > 0)
            await_command(warden);
        proc_rest_unknown(&rest, "the warden was killed, and this program does not adopt orphans");
        proc_warden_take_rest(warden, &rest);
    }
    if (!warden->reaped && tree_life_of(proc_view(), warden->started.pid, NULL) != TREE_DEAD) {
        proc_rest_unknown(&rest, "the warden could not be killed");
        proc_warden_take_rest(warden, &rest);
    }
}

void proc_warden_close(struct bl_warden *warden, enum warden_close why)
{
    struct bl_scope shield;
    warden_move(warden, WARDEN_CLOSING);
    bl_shield_begin(&shield, PROOF_NS_MAX);
    bool exited = reap_warden(warden, why == CLOSE_KILLED);
    bl_list_remove(&warden->link);
    bool lost = why != CLOSE_BELIEVED || !exited;
    /* Survivors that a genuine warden has reported become orphans of this process, too. */
    bool reported = warden->end.survivors != 0;
    bool orphans = proc_orphans_seen();
    if (lost || orphans)
        sweep_after(warden);
    if (lost || (orphans && !reported)) {
        warden->end.how = BL_END_LOST;
        warden->end.strongest_signal = SIGKILL;
    }
    bl_shield_end(&shield);
    proc_record_free(warden->record);
    warden->record = -1;
    if (warden->command_state == COMMAND_STARTING)
        proc_command_move(warden, COMMAND_UNKNOWN);
    else if (warden->command_state == COMMAND_RUNNING)
        proc_command_move(warden, COMMAND_ENDED);
    warden_move(warden, WARDEN_OVER);
}

void proc_warden_take_over(struct bl_warden *warden)
{
    struct bl_scope shield;
    warden_move(warden, WARDEN_SEIZING);
    bl_shield_begin(&shield, PROOF_NS_MAX);
    proc_kill_below(warden->started.pid, warden->cgroup, TAKEOVER_NS);
    kill(warden->started.pid, SIGKILL);
    bl_shield_end(&shield);
    proc_warden_close(warden, CLOSE_KILLED);
    if (warden->stopped)
        warden->end.how = BL_END_STOPPED;
}
