/* A warden as Belay sees it.
 *
 * Design notes.
 *
 * A message counts only if the kernel names the warden as the sender of the packet. Its last
 * message (QUIET) counts only if the warden then exits with 0 and no process of its tree has become
 * an orphan of this process. A tool that gets hold of the warden's descriptor can forge neither. A
 * warden that ends in any other way is lost: this process does its work (sweep.c), and what cannot
 * be proved is unknown.
 *
 * This process also watches over a stop. A tool can stop its warden (SIGSTOP), or trace it if it
 * has root privileges. If a warden has not answered shortly after the grace period, this process
 * checks its state; if it is stopped or traced, this process kills its tree and then the warden.
 *
 * On a fleet each warden has a lease, because a process that is stopped or suspended ends nothing
 * itself. The warden learns the end of its lease at its start, and from a message with each
 * renewal. At that time it kills its tree and reports as after a stop. This process reads the
 * report when it runs again. */
#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "held.h"

/* A warden with more unread bytes than this does not read. No leases are added then, so that its
 * socket, with 208 KiB, keeps room for a stop. */
#define LEASE_UNREAD_MAX (64 * 1024)

/* The living wardens, which a sweep must spare. Like being a subreaper, this is process-wide. Only
 * the loop's thread uses it. */
static struct bl_list living = {&living, &living};
/* The end of their lease, on CLOCK_BOOTTIME; 0: none. */
static uint64_t lease_until_ns;

bool proc_is_warden(pid_t pid)
{
    BL_LIST_EACH (link, &living)
        if (BL_CONTAINER(link, struct bl_warden, link)->started.pid == pid)
            return true;
    return false;
}

/* ---- State ----------------------------------------------------------------------------------- */

static const unsigned char command_moves[COMMAND_UNKNOWN + 1] = {
    [COMMAND_STARTING] = BL_TO(COMMAND_RUNNING) | BL_TO(COMMAND_REFUSED) | BL_TO(COMMAND_UNKNOWN),
    [COMMAND_RUNNING] = BL_TO(COMMAND_ENDED),
};

void proc_command_move(struct bl_warden *warden, enum command_state to)
{
    static const char *const names[] = {"starting", "running", "ended", "refused", "unknown"};
    assert(BL_MAY_MOVE(command_moves, warden->command_state, to));
    BL_LOG(BL_ROOM_PROC, BL_LOG_DEBUG, "command", BL_LOG_INTEGER("warden", warden->started.pid),
           BL_LOG_STRING("from", names[warden->command_state]), BL_LOG_STRING("to", names[to]));
    warden->command_state = to;
}

/* The events that callers wait for. The end of the warden ends every wait. */
enum warden_event {
    EVENT_STARTED, /* started or refused */
    EVENT_ENDED,
    EVENT_QUIET,
};

static bool warden_has(const struct bl_warden *warden, enum warden_event event)
{
    switch (event) {
    case EVENT_STARTED: return warden->command_state != COMMAND_STARTING;
    case EVENT_ENDED: return warden->command_state >= COMMAND_ENDED;
    case EVENT_QUIET: break;
    }
    return warden->state == WARDEN_OVER;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static void warden_take_status(struct bl_warden *warden, int status)
{
    struct bl_warden_end *end = &warden->end;
    end->by_signal = WIFSIGNALED(status);
    end->core_dumped = end->by_signal && WCOREDUMP(status);
    end->status = end->by_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    end->how = warden->stopped ? BL_END_STOPPED : end->by_signal ? BL_END_SIGNALED : BL_END_EXITED;
}

/* Takes the reason why the warden killed the tree. */
static void warden_take_cause(struct bl_warden_end *end, int32_t cause)
{
    if (cause == WARDEN_CAUSE_LIMIT)
        end->how = BL_END_LIMIT;
    if (cause == WARDEN_CAUSE_LEASE)
        end->lease_ended = true;
}

static void warden_take_ended(struct bl_warden *warden, const struct warden_message *message)
{
    struct bl_warden_end *end = &warden->end;
    end->left_behind = (uint32_t)message->ended.left_behind;
    warden_take_status(warden, message->ended.status);
    /* A command that exited by itself just before it was killed has its own end. */
    if (message->ended.cause == WARDEN_CAUSE_NONE || !end->by_signal || end->status != SIGKILL)
        return;
    end->how = BL_END_STOPPED;
    end->strongest_signal = SIGKILL;
    warden_take_cause(end, message->ended.cause);
}

static void take_quiet(struct bl_warden *warden, const struct warden_message *message)
{
    struct bl_warden_end *end = &warden->end;
    bool ended = warden_has(warden, EVENT_ENDED);
    struct proc_rest rest = {.survivors = (uint32_t)message->quiet.survivors};
    if (message->quiet.survivors < 0)
        proc_rest_doubt(&rest, (enum warden_doubt)message->quiet.doubt, message->quiet.doubt_errno);
    proc_warden_take_rest(warden, &rest);
    end->processes = (uint32_t)message->quiet.processes;
    end->strongest_signal = message->quiet.strongest;
    if (!ended)
        end->how = BL_END_STOPPED;
    warden_take_cause(end, message->quiet.cause);
    /* Killed with its whole namespace, the command left no process that could report its status. */
    if (!ended && end->strongest_signal != 0) {
        end->by_signal = true;
        end->status = end->strongest_signal;
    }
    proc_warden_close(warden, CLOSE_BELIEVED);
}

/* Returns the state after a message, or the current state if the message allows no transition. */
static enum command_state state_after(const struct bl_warden *warden, int32_t type)
{
    static const enum command_state next_states[] = {[WARDEN_STARTED] = COMMAND_RUNNING,
                                                     [WARDEN_FAILED] = COMMAND_REFUSED,
                                                     [WARDEN_ENDED] = COMMAND_ENDED};
    if (type < WARDEN_STARTED || type > WARDEN_ENDED ||
        !BL_MAY_MOVE(command_moves, warden->command_state, next_states[type]))
        return warden->command_state;
    return next_states[type];
}

static void warden_take_message(struct bl_warden *warden, const struct warden_message *message)
{
    enum command_state next = state_after(warden, message->type);
    if (message->type != WARDEN_QUIET) {
        if (next == warden->command_state)
            return;
        proc_command_move(warden, next);
    }
    switch ((enum warden_message_type)message->type) {
    case WARDEN_STARTED: warden->command = message->started.pid; break;
    case WARDEN_FAILED:
        warden->failure = message->failed.code;
        warden->failure_stage = (enum warden_stage)message->failed.stage;
        break;
    case WARDEN_ENDED: warden_take_ended(warden, message); break;
    case WARDEN_QUIET: take_quiet(warden, message); break;
    case WARDEN_STOP:
    case WARDEN_SIGNAL:
    case WARDEN_LEASE: break;
    }
}

/* Receives one packet. Returns its size, 0 at the end of file, or -1 with errno. A packet from
 * another sender gets type 0,and is ignored. */
static ssize_t warden_receive(const struct bl_warden *warden, struct warden_message *ret_message)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(struct ucred))];
    } control = {0};
    struct iovec bytes = {ret_message, sizeof *ret_message};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t size = recvmsg(warden->started.control, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *header = size > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    struct ucred sender = {0};
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS)
        memcpy(&sender, CMSG_DATA(header), sizeof sender);
    if (size > 0 && (sender.pid != warden->started.pid || size != (ssize_t)sizeof *ret_message))
        ret_message->type = 0;
    return size;
}

/* Handles the messages that have arrived. Several fibers may wait for one warden: each checks the
 * state afterwards. */
static void take_messages(struct bl_warden *warden)
{
    struct warden_message message;
    while (warden->state == WARDEN_HOLDING) {
        ssize_t size = warden_receive(warden, &message);
        if (size > 0)
            warden_take_message(warden, &message);
        else if (size < 0 && (errno == EINTR || errno == ECONNRESET))
            /* A warden that exited with a message unread: this is reported once, before its own
             * messages. */
            continue;
        else if (size < 0 && errno == EAGAIN)
            return;
        else
            proc_warden_close(warden, CLOSE_LOST);
    }
}

/* If the warden has ended, the next wait notices it. */
static void send_message(const struct bl_warden *warden, const struct warden_message *message)
{
    (void)!send(warden->started.control, message, sizeof *message, MSG_NOSIGNAL);
}

static void send_stop(struct bl_warden *warden, int signal, uint32_t grace_ms)
{
    send_message(warden, &(struct warden_message){
                             .type = WARDEN_STOP,
                             .stop = {.signal = signal, .grace_ms = (int32_t)grace_ms}});
}

/* Waits for the event or the end of the warden. */
static int warden_await(struct bl_warden *warden, enum warden_event event)
{
    int code = 0;
    take_messages(warden);
    while (code == 0 && !warden_has(warden, event)) {
        code = warden->state == WARDEN_HOLDING
                   ? bl_descriptor_wait(warden->control, BL_READABLE, NULL)
                   : bl_sleep(BL_NS_PER_MS);
        take_messages(warden);
    }
    return warden_has(warden, event) ? 0 : code;
}

/* Waits for an event that should occur within `first_ns`. If the warden is stuck after that, it is
 * continued once, unless that was tried before (`continued`); then its tree is taken over, so that
 * the wait ends. Called in a shield. */
static int await_answer(struct bl_warden *warden, enum warden_event event, uint64_t first_ns,
                        bool continued)
{
    uint64_t look_at_ns = bl_time_add(bl_now_ns(), bl_time_add(first_ns, ANSWER_NS));
    struct bl_scope *outer = bl_scope_current();
    struct proc_idle idle = {0};
    for (;;) {
        struct bl_scope limit;
        bl_limit_begin_until(&limit, look_at_ns);
        int code = warden_await(warden, event);
        bl_limit_end(&limit);
        if (code == 0 || bl_scope_stopped(outer))
            return code;
        /* The caller shields the start, and has been stopped meanwhile. A warden that waits for
         * exec takes any message as the end of that wait, and can then be stopped. */
        if (event == EVENT_STARTED && outer->shield && bl_scope_stopped_above(outer->parent))
            bl_warden_signal(warden, 0);
        bool holding = warden->state == WARDEN_HOLDING;
        bool frozen = event == EVENT_QUIET && holding && proc_look_frozen(&warden->started, &idle);
        if (frozen || (holding && proc_look_stuck(&warden->started))) {
            if (continued || frozen) {
                proc_warden_take_over(warden);
                return 0;
            }
            kill(warden->started.pid, SIGCONT);
            continued = true;
        }
        look_at_ns = bl_time_add(bl_now_ns(), ANSWER_NS);
    }
}

/* Stops what a failed start has started. Returns `code`, or the error of that stop. */
static int give_up_start(struct bl_warden *warden, int code, const char *command,
                         struct bl_error *error)
{
    struct bl_warden_end end = {0};
    if (warden->control != NULL)
        bl_warden_stop(warden, SIGKILL, 0, &end);
    if (end.survivors != 0)
        code = bl_error_set(error, BL_ESYSTEM, BL_KIND_RUNTIME, "start a command", command,
                            "the start failed, and processes may still be running: %s",
                            end.survivors == BL_SURVIVORS_UNKNOWN ? end.unverified
                                                                  : "they could not be killed");
    bl_warden_free(warden);
    return code;
}

/* Implements bl_warden_start for one container. `*ret_refused`: the machine does not allow this
 * container. */
static int start_in(const struct bl_warden_options *options, enum bl_mechanism mechanism,
                    struct bl_warden **ret_warden, bool *ret_refused, struct bl_error *error)
{
    struct bl_warden *warden = bl_zalloc(sizeof *warden);
    bl_list_init(&warden->link);
    warden->mechanism = warden->end.mechanism = mechanism;
    warden->background = options->background;
    memcpy(warden->cgroup, "-", 2);
    if (mechanism == BL_MECHANISM_CGROUP2)
        proc_cgroup_name(warden->cgroup, sizeof warden->cgroup);
    warden->record = proc_record_take();
    *ret_refused = false;
    /* This must come before the start: a tool may trace its warden at once, so that the warden does
     * not answer, and this process may be killed before it is scheduled again. */
    proc_guard_ensure();
    int code = proc_start(options, mechanism, warden->cgroup, warden->record, lease_until_ns,
                          &warden->started, error);
    if (code != 0) {
        proc_record_free(warden->record);
        bl_free(warden);
        return code;
    }
    bl_list_push_back(&living, &warden->link);
    code = bl_descriptor_new(warden->started.control, &warden->control);
    if (code == 0)
        code = await_answer(warden, EVENT_STARTED, 0, false);
    if (code == 0 && warden->command_state == COMMAND_REFUSED) {
        *ret_refused = warden->failure_stage == WARDEN_STAGE_CGROUP;
        code = proc_start_refused(warden->failure, warden->failure_stage, options->arguments[0],
                                  error);
    } else if (code == 0 && warden->command_state == COMMAND_UNKNOWN) {
        code = bl_error_set(error, BL_ESYSTEM, BL_KIND_RUNTIME, "start a command",
                            options->arguments[0],
                            warden->lost.by_signal ? "its warden was killed by signal %d"
                                                   : "its warden exited with code %d",
                            warden->lost.status);
    }
    if (code == 0) {
        *ret_warden = warden;
        return 0;
    }
    return give_up_start(warden, code, options->arguments[0], error);
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
    /* `auto` only checks files, so the container may still be refused. */
    if (code != 0 && refused && options->container == BL_MECHANISM_NONE)
        return start_in(options, BL_MECHANISM_SUBREAPER, ret_warden, &refused, error);
    if (code != 0 && error != NULL && error->code == 0)
        *error = first;
    return code;
}

static int warden_wait(struct bl_warden *warden, enum warden_event event,
                       struct bl_warden_end *ret_end)
{
    int code = warden_await(warden, event);
    if (code == 0)
        *ret_end = warden->end;
    return code;
}

int bl_warden_wait(struct bl_warden *warden, struct bl_warden_end *ret_end)
{
    return warden_wait(warden, warden->background ? EVENT_ENDED : EVENT_QUIET, ret_end);
}

int proc_warden_wait_tree(struct bl_warden *warden, struct bl_warden_end *ret_end)
{
    return warden_wait(warden, EVENT_QUIET, ret_end);
}

uint32_t proc_warden_count(const struct bl_warden *warden)
{
    return proc_look_count(&warden->started, warden->mechanism == BL_MECHANISM_PIDNS);
}

void bl_warden_stop(struct bl_warden *warden, int signal, uint32_t grace_ms,
                    struct bl_warden_end *ret_end)
{
    take_messages(warden);
    if (warden->state != WARDEN_OVER) {
        uint64_t grace_ns = grace_ms * BL_NS_PER_MS;
        struct bl_scope shield;
        if (!warden_has(warden, EVENT_ENDED))
            warden->stopped = true;
        send_stop(warden, signal == 0 ? SIGTERM : signal, grace_ms);
        if (!warden->reaped)
            kill(warden->started.pid, SIGCONT);
        bl_shield_begin(&shield, grace_ns + PROOF_NS_MAX);
        int code = await_answer(warden, EVENT_QUIET, grace_ns, true);
        bl_shield_end(&shield);
        /* A warden that does not answer in all that time is stuck in another way. */
        if (code != 0 && warden->state == WARDEN_HOLDING)
            proc_warden_take_over(warden);
    }
    *ret_end = warden->end;
    if (warden->state != WARDEN_OVER) {
        ret_end->survivors = BL_SURVIVORS_UNKNOWN;
        bl_text_into(ret_end->unverified, sizeof ret_end->unverified, "the stop timed out");
    }
}

void proc_warden_hurry(struct bl_warden *warden)
{
    if (warden->state != WARDEN_OVER)
        send_stop(warden, SIGKILL, 0);
}

void bl_warden_signal(struct bl_warden *warden, int signal)
{
    send_message(warden, &(struct warden_message){.type = WARDEN_SIGNAL, .signal.number = signal});
}

void bl_wardens_lease(uint64_t until_ns)
{
    const struct warden_message message = {
        .type = WARDEN_LEASE,
        .lease = {.until_low = (uint32_t)until_ns, .until_high = (uint32_t)(until_ns >> 32)}};
    BL_LOG(BL_ROOM_PROC, BL_LOG_TRACE, "lease", BL_LOG_INTEGER("until_ns", (int64_t)until_ns));
    lease_until_ns = until_ns;
    BL_LIST_EACH (link, &living) {
        const struct bl_warden *warden = BL_CONTAINER(link, struct bl_warden, link);
        int unread = 0;
        if (warden->state == WARDEN_HOLDING &&
            (ioctl(warden->started.control, SIOCOUTQ, &unread) < 0 || unread <= LEASE_UNREAD_MAX))
            send_message(warden, &message);
    }
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
    if (warden->control != NULL && warden->state != WARDEN_OVER)
        bl_warden_stop(warden, SIGTERM, 0, &end);
    close(warden->started.lifeline);
    if (warden->state !=
        WARDEN_OVER) /* without a control it cannot be stopped; closing the lifeline ends it */
        proc_warden_close(warden, CLOSE_LOST);
    bl_descriptor_free(warden->control);
    close(warden->started.control);
    close(warden->started.pidfd);
    bl_free(warden);
}
