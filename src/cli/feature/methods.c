/* What a runner does for those who ask over its control socket. */
#include "feature.h"

/* Who asks says what it is about: a process may by now be another's runner, or have another's
 * number. `*ret_view` is how things stand. */
static int check_runner(struct bl_feature *feature, const struct bl_json *params,
                        struct bl_arena *arena, struct bl_feature_view **ret_view,
                        struct bl_error *error)
{
    struct bl_text id = bl_json_text(bl_json_get(params, BL_TEXT("feature")));
    struct bl_text repository = bl_json_text(bl_json_get(params, BL_TEXT("repository")));
    struct bl_feature_view *view = NULL;

    if (id.size == 0 || repository.size == 0)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the request", "params",
                            "it must be said which \"feature\" of which \"repository\" is meant");
    int code = bl_feature_live(feature, arena, &view, error);
    if (code != 0)
        return code;
    *ret_view = view;
    if (view->feature != NULL && bl_text_equal(id, bl_text_from(view->feature)) &&
        view->repository != NULL && bl_text_equal(repository, bl_text_from(view->repository)))
        return 0;
    bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, "find the feature", id.data,
                 "this process runs %s of %s", view->feature != NULL ? view->feature : "a feature",
                 view->repository != NULL ? view->repository : "a repository");
    bl_error_name_set(error, "other_feature");
    return BL_ENOENT;
}

/* The same for those who need no more. */
static int check_alone(struct bl_feature *feature, const struct bl_json *params,
                       struct bl_error *error)
{
    struct bl_arena arena = {0};
    struct bl_feature_view *view;
    int code = check_runner(feature, params, &arena, &view, error);

    bl_arena_done(&arena);
    return code;
}

/* A member that is a text, or not there; else it is refused. */
static int methods_take_text(const struct bl_json *params, const char *key, const char **ret_text,
                             struct bl_error *error)
{
    const struct bl_json *value = bl_json_get(params, bl_text_from(key));

    *ret_text = NULL;
    if (value == NULL || bl_json_is(value, BL_JSON_NULL))
        return 0;
    if (bl_json_text(value).size == 0)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the request", key,
                            "\"%s\" must be a text", key);
    *ret_text = bl_json_text(value).data;
    return 0;
}

static bool methods_has_ended(const struct bl_feature_view *view, const char *task)
{
    const struct bl_task_view *row;

    if (task == NULL)
        return view->ended_wall_ns != 0;
    row = bl_feature_view_task(view, bl_text_from(task));
    return row != NULL && bl_task_state_final(row->row.state);
}

static int methods_cancel(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                          struct bl_error *error)
{
    const char *task = NULL, *origin = NULL;
    struct bl_feature_view *view = NULL;
    struct bl_arena arena = {0};
    struct bl_json_writer writer;
    struct bl_buffer receipt;

    int code = check_runner(context, params, &arena, &view, error);
    if (code == 0)
        code = methods_take_text(params, "task", &task, error);
    if (code == 0)
        code = methods_take_text(params, "origin", &origin, error);
    bool already = code == 0 && methods_has_ended(view, task);
    bl_arena_done(&arena);
    if (code != 0)
        return code;
    bl_buffer_init(&receipt, ret_result->maximum);
    code = bl_feature_cancel(context, task, origin != NULL ? origin : "control", &receipt, error);
    if (code == 0) {
        bl_json_writer_init(&writer, ret_result);
        bl_json_write_object(&writer);
        bl_json_put_json(&writer, "receipt", bl_buffer_text(&receipt));
        bl_json_put_boolean(&writer, "already", already && receipt.size == 0);
        bl_json_write_end(&writer);
        code = bl_json_writer_done(&writer);
    }
    bl_buffer_done(&receipt);
    return code;
}

static int write_changed(struct bl_buffer *out, bool changed)
{
    return bl_buffer_append(out, changed ? BL_TEXT("{\"changed\":true}")
                                         : BL_TEXT("{\"changed\":false}"));
}

static int pause_feature(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                         struct bl_error *error)
{
    int code = check_alone(context, params, error);
    return code != 0 ? code : write_changed(ret_result, bl_feature_pause(context));
}

static int resume_feature(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                          struct bl_error *error)
{
    int code = check_alone(context, params, error);
    return code != 0 ? code : write_changed(ret_result, bl_feature_resume(context));
}

static int extend(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                  struct bl_error *error)
{
    struct bl_json_writer writer;
    const char *task = NULL;
    double deadline_s = 0;
    int64_t by_ms = 0;

    int code = check_alone(context, params, error);
    if (code == 0)
        code = methods_take_text(params, "task", &task, error);
    if (code != 0)
        return code;
    if (task == NULL || !bl_json_int64(bl_json_get(params, BL_TEXT("by_ms")), &by_ms) ||
        by_ms <= 0 || by_ms > INT64_MAX / (int64_t)BL_NS_PER_MS)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the request", "params",
                            "extend takes a \"task\", and \"by_ms\" above 0");
    code = bl_feature_extend(context, task, (uint64_t)by_ms * BL_NS_PER_MS, &deadline_s, error);
    if (code != 0)
        return code;
    bl_json_writer_init(&writer, ret_result);
    bl_json_write_object(&writer);
    bl_json_write_key(&writer, BL_TEXT("deadline_s"));
    bl_json_write_double(&writer, deadline_s);
    bl_json_write_end(&writer);
    return bl_json_writer_done(&writer);
}

void feature_methods_offer(struct bl_control *control, struct bl_feature *feature)
{
    const struct bl_control_offer offers[] = {
        {"feature.cancel", methods_cancel, feature},
        {"feature.pause", pause_feature, feature},
        {"feature.resume", resume_feature, feature},
        {"feature.extend", extend, feature},
    };

    for (size_t i = 0; i < BL_COUNT(offers); i++)
        bl_control_offer(control, &offers[i]);
}
