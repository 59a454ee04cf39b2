#include <stdio.h>

#include <belay/tool.h>

/* Somebody who waits for the end of an activity. */
struct waiter {
    struct bl_list link;
    struct bl_semaphore ended;
    struct bl_buffer receipt;
};

void bl_activities_init(struct bl_activities *activities)
{
    *activities = (struct bl_activities){0};
    bl_list_init(&activities->list);
}

static void activity_changed(const struct bl_activity *activity)
{
    const struct bl_activities *activities = activity->activities;

    if (activities != NULL && activities->changed != NULL)
        activities->changed(activities->context, activity);
}

void bl_activities_tell(const struct bl_activities *activities, const struct bl_event *event)
{
    if (activities->told != NULL)
        activities->told(activities->context, event);
}

/* What it is in: ids of calls, cells and tasks are the model's, the user's or the plan's own. */
static const char *holder(const struct bl_activity *activity)
{
    static const char *const in_session[] = {"cell", "task", "job"};

    if (activity->run[0] != '\0')
        return activity->run;
    for (size_t i = 0; i < BL_COUNT(in_session); i++)
        if (strcmp(activity->kind, in_session[i]) == 0)
            return activity->session;
    return "";
}

void bl_activity_name(const struct bl_activity *activity, char out[BL_ACTIVITY_NAME_SIZE])
{
    const char *in = holder(activity);
    size_t size = strlen(in);

    /* A task may be called by its whole name. */
    if (size == 0 || (strncmp(activity->id, in, size) == 0 && activity->id[size] == '/'))
        bl_text_into(out, BL_ACTIVITY_NAME_SIZE, activity->id);
    else
        snprintf(out, BL_ACTIVITY_NAME_SIZE, "%s/%s", in, activity->id);
}

void bl_activity_begin(struct bl_activities *activities, struct bl_activity *activity)
{
    activity->started_ns = activity->active_ns = bl_now_ns();
    bl_list_init(&activity->waiters);
    activity->activities = activities;
    bl_list_push_back(&activities->list, &activity->link);
    activity_changed(activity);
}

void bl_activity_end(struct bl_activity *activity, struct bl_text receipt)
{
    struct bl_list *link;

    bl_list_remove(&activity->link);
    activity_changed(activity);
    while ((link = bl_list_pop_front(&activity->waiters)) != NULL) {
        struct waiter *waiter = BL_CONTAINER(link, struct waiter, link);
        bl_buffer_append(&waiter->receipt, receipt);
        bl_semaphore_give(&waiter->ended);
    }
}

/* Of a call to a model, say: its timers count too. What a feature and its tasks hold is listed
 * beside them, each with its own. */
static uint64_t next_deadline_ns(const struct bl_activity *activity)
{
    bool holds = strcmp(activity->kind, "feature") == 0 || strcmp(activity->kind, "task") == 0;

    return holds ? bl_scope_deadline_ns(activity->scope)
                 : bl_scope_next_deadline_ns(activity->scope);
}

static const char *const kind_names[] = {"run", "agent", "call", "job", "cell", "feature", "task"};
static const struct bl_names kinds = BL_NAMES(kind_names);
static const struct bl_form session_form = {"a session's id, or a feature's",
                                            "^[A-Za-z0-9_-]{0,64}$", NULL};

#define BL_RECORD_STRUCT struct bl_activity_view
static const struct bl_member activity_members[] = {
    BL_MEMBER_TEXT("id", id, .least = 1, .about = "Id for belay cancel."),
    BL_MEMBER_TEXT("name", name, .least = 1,
                   .about =
                       "Unique name: SESSION/CELL, FEATURE/TASK, RUN/AGENT, RUN/CALL; else the "
                       "id."),
    BL_MEMBER_TEXT("kind", kind, .names = &kinds),
    BL_MEMBER_TEXT("session", session, .form = &session_form,
                   .about = "Its session; of a feature and its tasks, the feature."),
    BL_MEMBER_TEXT("phase", phase, .least = 1,
                   .about = "starting, model, tool NAME, stopping, and so on."),
    BL_MEMBER_INTEGER("age_ms", age_ms),
    BL_MEMBER_INTEGER("deadline_left_ms", deadline_left_ms, .nullable = true, .none = -1,
                      .about = "null: no deadline."),
    BL_MEMBER_INTEGER("tokens", tokens, .about = "Tokens used so far."),
    BL_MEMBER_INTEGER("idle_ms", idle_ms, .about = "Time since its last sign of life."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_activity_record =
    BL_RECORD("activity", struct bl_activity_view, activity_members);

static uint64_t activity_ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (to_ns - from_ns) / BL_NS_PER_MS : 0;
}

struct bl_activity_view *bl_activity_view(struct bl_arena *arena,
                                          const struct bl_activity *activity)
{
    uint64_t deadline_ns = next_deadline_ns(activity), now_ns = bl_now_ns();
    const char *phase = bl_scope_stopped(activity->scope) ? "stopping" : activity->phase;
    struct bl_activity_view *view = bl_arena_alloc(arena, sizeof *view);
    char name[BL_ACTIVITY_NAME_SIZE];

    bl_activity_name(activity, name);
    *view = (struct bl_activity_view){
        .id = bl_arena_text(arena, bl_text_from(activity->id)),
        .name = bl_arena_text(arena, bl_text_from(name)),
        .kind = bl_text_from(activity->kind),
        .session = bl_arena_text(arena, bl_text_from(activity->session)),
        .phase = bl_arena_text(arena, bl_text_from(phase)),
        .age_ms = activity_ms(activity->started_ns, now_ns),
        .deadline_left_ms =
            deadline_ns == BL_NEVER ? -1 : (int64_t)activity_ms(now_ns, deadline_ns),
        .tokens = activity->tokens,
        .idle_ms = activity_ms(activity->active_ns, now_ns),
    };
    return view;
}

void bl_activity_write(struct bl_json_writer *writer, const struct bl_activity *activity)
{
    struct bl_arena arena = {0};

    bl_record_write(writer, &bl_activity_record, bl_activity_view(&arena, activity));
    bl_arena_done(&arena);
}

void bl_activities_write(const struct bl_activities *activities, struct bl_json_writer *writer)
{
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &activities->list)
        bl_activity_write(writer, BL_CONTAINER(link, struct bl_activity, link));
    bl_json_write_end(writer);
}

/* Its own id; or that of a session, which stands for its turn and its work in the background. */
static bool is_meant(const struct bl_activity *activity, const char *id, bool session)
{
    char name[BL_ACTIVITY_NAME_SIZE];

    bl_activity_name(activity, name);
    if (!session)
        return strcmp(activity->id, id) == 0 || strcmp(name, id) == 0;
    return strcmp(activity->session, id) == 0 && strcmp(activity->kind, "call") != 0;
}

/* Stops all that are meant, and waits with each of them in `waiters`. */
static size_t stop_meant(struct bl_activities *activities, const char *id, bool session,
                         const char *origin, struct waiter *waiters)
{
    size_t count = 0;

    BL_LIST_EACH (link, &activities->list) {
        struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (!is_meant(activity, id, session))
            continue;
        if (waiters != NULL) {
            struct waiter *waiter = &waiters[count];
            bl_semaphore_init(&waiter->ended, 0);
            bl_buffer_init(&waiter->receipt, SIZE_MAX);
            bl_list_push_back(&activity->waiters, &waiter->link);
            bl_scope_stop(activity->scope, BL_STOP_USER, origin);
        }
        count++;
    }
    return count;
}

void bl_activities_hurry(struct bl_activities *activities, const char *id)
{
    bool session = stop_meant(activities, id, false, NULL, NULL) == 0;

    BL_LIST_EACH (link, &activities->list) {
        struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (!is_meant(activity, id, session) || activity->hurry == NULL)
            continue;
        activity->hurried = true;
        activity->hurry(activity);
    }
}

int bl_activities_cancel(struct bl_activities *activities, const char *id, const char *origin,
                         struct bl_buffer *ret_receipt)
{
    bool session = stop_meant(activities, id, false, origin, NULL) == 0;
    size_t count = stop_meant(activities, id, session, origin, NULL);
    int code = 0;

    if (count == 0)
        return BL_ENOENT;
    struct waiter *waiters = bl_zalloc(count * sizeof *waiters);
    stop_meant(activities, id, session, origin, waiters);
    for (size_t i = 0; i < count; i++) {
        int waited = bl_semaphore_take(&waiters[i].ended);
        code = code != 0 ? code : waited;
    }
    /* One receipt: that of the turn, if there was one, else of the first job. */
    for (size_t i = 0; i < count; i++) {
        bl_list_remove(&waiters[i].link);
        if (ret_receipt->size == 0)
            bl_buffer_append(ret_receipt, bl_buffer_text(&waiters[i].receipt));
        bl_buffer_done(&waiters[i].receipt);
    }
    bl_free(waiters);
    return code;
}
