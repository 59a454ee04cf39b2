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

static void write_ms(struct bl_json_writer *writer, const char *key, uint64_t from_ns,
                     uint64_t to_ns)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_uint64(writer, to_ns > from_ns ? (to_ns - from_ns) / BL_NS_PER_MS : 0);
}

/* Of a call to a model, say: its timers count too. What a feature and its tasks hold is listed
 * beside them, each with its own. */
static uint64_t next_deadline_ns(const struct bl_activity *activity)
{
    bool holds = strcmp(activity->kind, "feature") == 0 || strcmp(activity->kind, "task") == 0;

    return holds ? bl_scope_deadline_ns(activity->scope)
                 : bl_scope_next_deadline_ns(activity->scope);
}

void bl_activity_write(struct bl_json_writer *writer, const struct bl_activity *activity)
{
    uint64_t deadline_ns = next_deadline_ns(activity);
    uint64_t now_ns = bl_now_ns();
    char name[BL_ACTIVITY_NAME_SIZE];

    bl_activity_name(activity, name);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "id", activity->id);
    bl_json_put_string(writer, "name", name);
    bl_json_put_string(writer, "kind", activity->kind);
    bl_json_put_string(writer, "session", activity->session);
    bl_json_put_string(writer, "phase",
                       bl_scope_stopped(activity->scope) ? "stopping" : activity->phase);
    write_ms(writer, "age_ms", activity->started_ns, now_ns);
    if (deadline_ns == BL_NEVER) {
        bl_json_write_key(writer, BL_TEXT("deadline_left_ms"));
        bl_json_write_null(writer);
    } else {
        write_ms(writer, "deadline_left_ms", now_ns, deadline_ns);
    }
    bl_json_put_uint64(writer, "tokens", activity->tokens);
    write_ms(writer, "idle_ms", activity->active_ns, now_ns);
    bl_json_write_end(writer);
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
