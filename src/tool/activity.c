#include <stdio.h>

#include <belay/tool.h>

/* A caller waiting for the end of an activity. */
struct waiter {
    struct bl_list link;
    struct bl_semaphore ended;
    struct bl_buffer receipt;
};

void bl_activities_init(struct bl_activities *activities)
{
    *activities = (struct bl_activities){0};
    bl_list_init(&activities->list);
    bl_list_init(&activities->sessions);
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

/* Returns the id that qualifies the activity's own, or "": ids of calls, cells and tasks are chosen
 * by the model, the user or the plan, and need not be unique. */
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

    /* The id of a task may already be its full name. */
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

/* The next deadline of the activity, with the timers of, say, a model call. The activities within a
 * feature or task are listed separately, each with its own. */
static uint64_t next_deadline_ns(const struct bl_activity *activity)
{
    bool holds = strcmp(activity->kind, "feature") == 0 || strcmp(activity->kind, "task") == 0;

    return holds ? bl_scope_deadline_ns(activity->scope)
                 : bl_scope_next_deadline_ns(activity->scope);
}

static const char *const kind_names[] = {"run", "agent", "call", "job", "cell", "feature", "task"};
static const struct bl_names kinds = BL_NAMES(kind_names);
static const struct bl_form session_form = {"a session id or a feature id", "^[A-Za-z0-9_-]{0,64}$",
                                            NULL};

#define BL_RECORD_STRUCT struct bl_activity_view
static const struct bl_member activity_members[] = {
    BL_MEMBER_TEXT("id", id, .least = 1, .about = "Id for belay cancel."),
    BL_MEMBER_TEXT(
        "name", name, .least = 1,
        .about =
            "Unique name: SESSION/CELL, FEATURE/TASK, RUN/AGENT or RUN/CALL; otherwise the id."),
    BL_MEMBER_TEXT("kind", kind, .names = &kinds),
    BL_MEMBER_TEXT("session", session, .form = &session_form,
                   .about = "Session id; for a feature and its tasks, the id of the feature."),
    BL_MEMBER_TEXT("phase", phase, .least = 1,
                   .about = "starting, model, tool NAME, finishing, stopping, and so on."),
    BL_MEMBER_INTEGER("age_ms", age_ms),
    BL_MEMBER_INTEGER("deadline_left_ms", deadline_left_ms, .nullable = true, .none = -1,
                      .about = "null if there is no deadline."),
    BL_MEMBER_INTEGER("tokens", tokens, .about = "Tokens used so far."),
    BL_MEMBER_INTEGER("idle_ms", idle_ms, .about = "Time since the last activity."),
    BL_MEMBER_NUMBER("cost_usd", cost_usd, .nullable = true, BL_UNLESS(cost_unknown),
                     .about = "Cost of its own model calls so far; null if unknown."),
    BL_MEMBER_TEXT("directory", directory, .about = "Working directory; empty if unknown."),
    BL_MEMBER_TEXT("prompt", prompt,
                   .about =
                       "First line of its prompt, at most 200 characters; empty if there is none."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_activity_record =
    BL_RECORD("activity", struct bl_activity_view, activity_members);

#define BL_RECORD_STRUCT struct bl_open_session_view
static const struct bl_member session_members[] = {
    BL_MEMBER_TEXT("session", session, .form = &session_form),
    BL_MEMBER_BOOLEAN("idle", idle,
                      .about =
                          "True if no turn is in progress; background commands may be running."),
    BL_MEMBER_TEXT("directory", directory, .about = "Working directory; empty if unknown."),
    BL_MEMBER_TEXT(
        "prompt", prompt,
        .about =
            "First line of its newest prompt, at most 200 characters; empty if there is none yet."),
    BL_MEMBER_INTEGER("age_ms", age_ms, .about = "Time since it was opened."),
    BL_MEMBER_INTEGER("idle_ms", idle_ms, .about = "Time since the last activity."),
    BL_MEMBER_INTEGER("turns", turns, .about = "Committed turns."),
    BL_MEMBER_NUMBER("cost_usd", cost_usd, .nullable = true, BL_UNLESS(cost_unknown),
                     .about = "Cost since it was opened; null if unknown."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record bl_open_session_record =
    BL_RECORD("open_session", struct bl_open_session_view, session_members);

static uint64_t activity_ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (to_ns - from_ns) / BL_NS_PER_MS : 0;
}

struct bl_activity_view *bl_activity_view(struct bl_arena *arena,
                                          const struct bl_activity *activity)
{
    uint64_t deadline_ns = next_deadline_ns(activity), now_ns = bl_now_ns();
    const char *phase = bl_scope_stopped(activity->scope) ? "stopping"
                        : activity->finishing             ? "finishing"
                                                          : activity->phase;
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
        .cost_usd = activity->cost_usd,
        .cost_unknown = !activity->priced,
        .directory = bl_arena_text(arena, bl_text_from(activity->directory)),
        .prompt = bl_arena_text(arena, bl_text_from(activity->prompt)),
    };
    return view;
}

/* Returns whether a turn or a summary of the session is under way. */
static bool activity_runs(const struct bl_activities *activities, const char *session)
{
    BL_LIST_EACH (link, &activities->list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (strcmp(activity->kind, "run") == 0 && strcmp(activity->session, session) == 0)
            return true;
    }
    return false;
}

void bl_activities_sessions(const struct bl_activities *activities, struct bl_arena *arena,
                            struct bl_list *ret_sessions)
{
    uint64_t now_ns = bl_now_ns();

    bl_list_init(ret_sessions);
    BL_LIST_EACH (link, &activities->sessions) {
        const struct bl_open_session *open = BL_CONTAINER(link, struct bl_open_session, link);
        struct bl_open_session_view *view = bl_arena_alloc(arena, sizeof *view);
        *view = (struct bl_open_session_view){
            .session = bl_arena_text(arena, bl_text_from(open->id)),
            .idle = !activity_runs(activities, open->id),
            .directory = bl_arena_text(arena, bl_text_from(open->directory)),
            .prompt = bl_arena_text(arena, bl_text_from(open->prompt)),
            .age_ms = activity_ms(open->opened_ns, now_ns),
            .idle_ms = activity_ms(open->active_ns, now_ns),
            .turns = *open->turns,
            .cost_usd = open->spent->cost_usd,
            .cost_unknown = open->spent->cost_unknown,
        };
        bl_list_push_back(ret_sessions, &view->link);
    }
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

/* Matches its own id or name; or the id of its session, which stands for the session's turn and
 * background work. */
static bool is_meant(const struct bl_activity *activity, const char *id, bool session)
{
    char name[BL_ACTIVITY_NAME_SIZE];

    bl_activity_name(activity, name);
    if (!session)
        return strcmp(activity->id, id) == 0 || strcmp(name, id) == 0;
    return strcmp(activity->session, id) == 0 && strcmp(activity->kind, "call") != 0;
}

/* A request to all matching activities: to stop, or to finish. */
struct asking {
    const char *id;
    bool session;
    bool gently;
    const char *origin;
};

static bool is_asked(const struct bl_activity *activity, const struct asking *asking)
{
    return is_meant(activity, asking->id, asking->session) &&
           (!asking->gently || activity->finish != NULL);
}

static size_t count_asked(const struct bl_activities *activities, const struct asking *asking)
{
    size_t count = 0;

    BL_LIST_EACH (link, &activities->list)
        count += is_asked(BL_CONTAINER(link, struct bl_activity, link), asking);
    return count;
}

/* Sends the request, and registers one of `waiters` with each activity. */
static void ask_meant(struct bl_activities *activities, const struct asking *asking,
                      struct waiter *waiters)
{
    size_t count = 0;

    BL_LIST_EACH (link, &activities->list) {
        struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (!is_asked(activity, asking))
            continue;
        struct waiter *waiter = &waiters[count++];
        bl_semaphore_init(&waiter->ended, 0);
        bl_buffer_init(&waiter->receipt, SIZE_MAX);
        bl_list_push_back(&activity->waiters, &waiter->link);
        activity->finishing = activity->finishing || asking->gently;
        if (asking->gently)
            activity->finish(activity, asking->origin);
        else
            bl_scope_stop(activity->scope, BL_STOP_USER, asking->origin);
    }
}

void bl_activities_hurry(struct bl_activities *activities, const char *id)
{
    bool session = count_asked(activities, &(struct asking){.id = id}) == 0;

    BL_LIST_EACH (link, &activities->list) {
        struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (!is_meant(activity, id, session) || activity->hurry == NULL)
            continue;
        activity->hurried = true;
        activity->hurry(activity);
    }
}

static int ask_and_wait(struct bl_activities *activities, struct asking *asking,
                        struct bl_buffer *ret_receipt)
{
    struct asking any = {.id = asking->id};
    int code = 0;

    any.session = asking->session = count_asked(activities, &any) == 0;
    size_t count = count_asked(activities, asking);
    if (count == 0)
        return count_asked(activities, &any) == 0 ? BL_ENOENT : BL_ENOTSUP;
    struct waiter *waiters = bl_zalloc(count * sizeof *waiters);
    ask_meant(activities, asking, waiters);
    for (size_t i = 0; i < count; i++) {
        int waited = bl_semaphore_take(&waiters[i].ended);
        code = code != 0 ? code : waited;
    }
    /* Return one receipt: that of the turn if there was one, else of the first job. */
    for (size_t i = 0; i < count; i++) {
        bl_list_remove(&waiters[i].link);
        if (ret_receipt->size == 0)
            bl_buffer_append(ret_receipt, bl_buffer_text(&waiters[i].receipt));
        bl_buffer_done(&waiters[i].receipt);
    }
    bl_free(waiters);
    return code;
}

int bl_activities_cancel(struct bl_activities *activities, const char *id, const char *origin,
                         struct bl_buffer *ret_receipt)
{
    return ask_and_wait(activities, &(struct asking){.id = id, .origin = origin}, ret_receipt);
}

int bl_activities_finish(struct bl_activities *activities, const char *id, const char *origin,
                         struct bl_buffer *ret_receipt)
{
    return ask_and_wait(activities, &(struct asking){.id = id, .gently = true, .origin = origin},
                        ret_receipt);
}
