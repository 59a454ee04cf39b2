/* Watches other processes.
 *
 * Each process has a connection of its own, over which it sends events until we close it. It
 * reports when nothing of the watched work runs any more; the last events of that end may follow a
 * moment later. */
#include <unistd.h>

#include "ask.h"

/* How long to wait for events after the end was reported. */
#define LINGER_NS (100 * BL_NS_PER_MS)

/* One connection. In the arena. */
struct attachment {
    struct question *question;
    const struct bl_control_watch *watch;
    struct bl_semaphore over; /* given when the work has ended or the connection is closed */
    bool ended;
    int code;
};

/* ---- Notifications --------------------------------------------------------------------------- */

static void attach_on_notification(void *context, struct bl_text method,
                                   const struct bl_json *params)
{
    struct attachment *attachment = context;
    const struct bl_control_watch *watch = attachment->watch;
    struct control_watched told;
    if (bl_text_equal(method, BL_TEXT("event"))) {
        watch->event(watch->context, params);
    } else if (bl_text_equal(method, BL_TEXT("missed"))) {
        bl_record_take(NULL, &control_missed_record, params, &told);
        if (told.missed > 0)
            watch->missed(watch->context, told.missed);
    } else if (bl_text_equal(method, BL_TEXT("ended"))) {
        attachment->ended = true;
        bl_semaphore_give(&attachment->over);
    }
}

static void attach_on_gone(void *context, const char *why)
{
    struct attachment *attachment = context;
    (void)why;
    bl_semaphore_give(&attachment->over);
}

/* ---- One process ----------------------------------------------------------------------------- */

static int wait_gone(struct bl_rpc *rpc, uint64_t limit_ns)
{
    struct bl_scope limit;
    bl_limit_begin(&limit, limit_ns);
    int code = bl_rpc_wait_gone(rpc);
    bl_limit_end(&limit);
    return code;
}

static int request_watch(struct attachment *attachment, struct bl_rpc *rpc)
{
    struct question *question = attachment->question;
    struct bl_arena *arena = question->asking->arena;
    struct bl_scope limit;
    bl_limit_begin(&limit, serve_timeout_ns);
    int code = bl_rpc_ask(
        rpc, "watch",
        bl_record_text(arena, &control_any_record, &(struct control_id){attachment->watch->id}),
        arena, &question->result, &question->failure, NULL);
    bl_limit_end(&limit);
    if (code == BL_EREFUSED && question->failure.code == BL_RPC_BUSY)
        return BL_EBUSY;
    return code;
}

static int attach_follow(struct attachment *attachment, struct bl_rpc *rpc)
{
    struct control_watched watched;
    int code = request_watch(attachment, rpc);
    if (code != 0)
        return code;
    /* The work may have ended since it was found. */
    bl_record_take(NULL, &control_watched_record, attachment->question->result, &watched);
    if (attachment->watch->id != NULL && watched.running == 0)
        attachment->ended = true;
    if (!attachment->ended)
        code = bl_semaphore_take(&attachment->over);
    if (code == 0 && attachment->ended)
        wait_gone(rpc, LINGER_NS);
    return code;
}

static int control_attach(struct attachment *attachment)
{
    int fd;
    struct bl_nursery nursery;
    struct bl_rpc *rpc = NULL;
    int code = ask_connect(attachment->question, bl_time_add(bl_now_ns(), serve_timeout_ns), &fd);
    if (code != 0)
        return code;
    const struct bl_rpc_options options = {
        .in = fd,
        .out = fd,
        .line_max = 2 * SERVE_ANSWER_MAX,
        .take_ns = serve_timeout_ns,
        .notification = attach_on_notification,
        .gone = attach_on_gone,
        .context = attachment,
    };
    bl_semaphore_init(&attachment->over, 0);
    bl_nursery_init(&nursery, bl_scope_current());
    code = bl_rpc_open(&nursery, &options, &rpc, NULL);
    if (code == 0)
        code = attach_follow(attachment, rpc);
    bl_rpc_close(rpc, 0);
    bl_nursery_done(&nursery);
    close(fd);
    return code;
}

static int attach_main(void *argument)
{
    struct attachment *attachment = argument;
    attachment->code = control_attach(attachment);
    return 0;
}

/* ---- Watching -------------------------------------------------------------------------------- */

static struct attachment *attachment_new(struct question *question,
                                         const struct bl_control_watch *watch)
{
    struct attachment *attachment = bl_arena_zalloc(question->asking->arena, sizeof *attachment);
    attachment->question = question;
    attachment->watch = watch;
    return attachment;
}

/* Features have other events, which are in the store. */
static bool is_of_feature(const struct question *question, struct bl_text id)
{
    BL_LIST_EACH (link, &question->state.activities) {
        const struct bl_activity_view *activity = BL_CONTAINER(link, struct bl_activity_view, link);
        if ((bl_text_equal(activity->kind, BL_TEXT("feature")) ||
             bl_text_equal(activity->kind, BL_TEXT("task"))) &&
            (serve_is_named(activity, id) || serve_is_of_session(activity, id)))
            return true;
    }
    return false;
}

static int busy(const struct question *question, struct bl_error *error)
{
    bl_error_set(error, BL_EBUSY, BL_KIND_DELIVERY, "watch", NULL,
                 "process %lld already has the largest number of watchers",
                 (long long)question->pid);
    bl_error_hint(error, "stop one of them and try again");
    return BL_EBUSY;
}

static int watch_one(struct asking *asking, struct question *question,
                     const struct bl_control_watch *watch, struct bl_error *error)
{
    if (is_of_feature(question, bl_text_from(watch->id))) {
        bl_error_set(error, BL_ENOTSUP, BL_KIND_USAGE, "watch", watch->id,
                     "%s is a feature or a task", watch->id);
        bl_error_hint(error, "follow it with 'belay feature logs -f %s'", watch->id);
        return BL_ENOTSUP;
    }
    struct attachment *attachment = attachment_new(question, watch);
    int code = control_attach(attachment), stopped = bl_check();
    if (stopped != 0)
        return stopped;
    if (code == BL_EBUSY)
        return busy(question, error);
    if (code == BL_ENOENT)
        return ask_not_found(asking, "watch", watch->id, error);
    if (attachment->ended)
        return 0;
    bl_error_set(error, BL_EUNKNOWN, BL_KIND_DELIVERY, "watch", watch->id,
                 "process %lld exited or disconnected before %s ended", (long long)question->pid,
                 watch->id);
    bl_error_hint(
        error,
        "'belay ps' lists running work; a watcher that reads nothing for 2 s is disconnected");
    return BL_EUNKNOWN;
}

/* Watches each process by itself. One whose connection is lost counts as ended. */
static int watch_all(struct asking *asking, const struct bl_control_watch *watch,
                     struct bl_error *error)
{
    struct bl_nursery nursery;
    const struct question *refused = NULL;
    struct bl_list *links = &asking->questions;
    size_t count = 0;
    int code = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    struct attachment **all = bl_arena_zalloc(asking->arena, asking->count * sizeof(void *));
    BL_LIST_EACH (link, links) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        if (code != 0 || !question_answered(question))
            continue;
        all[count] = attachment_new(question, watch);
        code = bl_nursery_spawn(&nursery, NULL, "watch", attach_main, all[count], NULL);
        count++;
    }
    if (code == 0)
        code = bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    for (size_t i = 0; i < count; i++)
        if (all[i]->code == BL_EBUSY)
            refused = all[i]->question;
    if (code == 0 && count == 0)
        return bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "watch", NULL, "no running work");
    return code == 0 && refused != NULL ? busy(refused, error) : code;
}

int bl_control_watch(struct bl_arena *arena, const struct bl_control_watch *watch,
                     struct bl_error *error)
{
    struct asking asking;
    struct question *question = NULL;
    int code = watch->id != NULL ? ask_whose(&asking, arena, "watch", watch->id, &question, error)
                                 : ask_ps(&asking, arena, error);
    if (code == 0 && watch->id != NULL)
        code = watch_one(&asking, question, watch, error);
    else if (code == 0)
        code = watch_all(&asking, watch, error);
    else if (code == BL_ENOENT && watch->id == NULL)
        bl_error_set(error, code, BL_KIND_SESSION, "watch", NULL, "no running work");
    asking_done(&asking);
    return code;
}
