/* The methods of a runner on its control socket. */
#include "feature.h"

#define BL_RECORD_STRUCT struct feature_request
static const struct bl_member request_members[] = {
    BL_MEMBER_STRING("feature", feature, .least = 1),
    BL_MEMBER_STRING("repository", repository, .least = 1),
    BL_MEMBER_STRING("task", task, .optional = true, .least = 1),
    BL_MEMBER_STRING("origin", origin, .optional = true, .least = 1),
    BL_MEMBER_INTEGER("by_ms", by_ms, .optional = true, .least = 1,
                      .most = INT64_MAX / BL_NS_PER_MS),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record feature_request_record =
    BL_RECORD("request", struct feature_request, request_members);

#define BL_RECORD_STRUCT struct feature_reply
static const struct bl_member cancelled_members[] = {
    BL_MEMBER_JSON("receipt", receipt, .nullable = true, .object = true, BL_ENCODED(written)),
    BL_MEMBER_BOOLEAN("already", already),
    BL_MEMBER_END,
};
static const struct bl_member changed_members[] = {
    BL_MEMBER_BOOLEAN("changed", changed),
    BL_MEMBER_END,
};
static const struct bl_member extended_members[] = {
    BL_MEMBER_NUMBER("deadline_s", deadline_s),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record feature_cancelled_record =
    BL_RECORD("cancelled", struct feature_reply, cancelled_members);
const struct bl_record feature_changed_record =
    BL_RECORD("changed", struct feature_reply, changed_members);
const struct bl_record feature_extended_record =
    BL_RECORD("extended", struct feature_reply, extended_members);

/* Reads a request, and checks that it is for this feature: the process may meanwhile run another
 * one, or have the pid of a former runner. `*ret_view` is the state of the feature. */
static int methods_read(struct bl_feature *feature, const struct bl_json *params,
                        struct bl_arena *arena, struct feature_request *ret_request,
                        struct bl_feature_view **ret_view, struct bl_error *error)
{
    struct bl_record_fault fault = {0};
    char message[sizeof fault.path + sizeof fault.message];

    if (bl_record_view(arena, &feature_request_record, params, ret_request, &fault) != 0) {
        bl_record_fault_text(&fault, message, sizeof message);
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the request", "params", "%s",
                            message);
    }
    int code = bl_feature_live(feature, arena, ret_view, error);
    if (code != 0)
        return code;
    const struct bl_feature_view *view = *ret_view;
    if (view->feature != NULL && strcmp(ret_request->feature, view->feature) == 0 &&
        view->repository != NULL && strcmp(ret_request->repository, view->repository) == 0)
        return 0;
    bl_error_set(error, BL_ENOENT, BL_KIND_FEATURE, "find the feature", ret_request->feature,
                 "this process runs %s of %s", view->feature != NULL ? view->feature : "a feature",
                 view->repository != NULL ? view->repository : "a repository");
    bl_error_name_set(error, "other_feature");
    return BL_ENOENT;
}

static int methods_answer(struct bl_buffer *out, const struct bl_record *record,
                          const struct feature_reply *reply)
{
    struct bl_json_writer writer;

    bl_json_writer_init(&writer, out);
    bl_record_write(&writer, record, reply);
    return bl_json_writer_done(&writer);
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
    struct feature_request request;
    struct bl_feature_view *view;
    BL_AUTO_ARENA(arena);
    BL_AUTO_BUFFER(receipt, ret_result->maximum);

    int code = methods_read(context, params, &arena, &request, &view, error);
    if (code != 0)
        return code;
    bool already = methods_has_ended(view, request.task);
    code = bl_feature_cancel(context, request.task,
                             request.origin != NULL ? request.origin : "control", &receipt, error);
    struct feature_reply reply = {.written = bl_buffer_text(&receipt),
                                  .already = already && receipt.size == 0};
    return code != 0 ? code : methods_answer(ret_result, &feature_cancelled_record, &reply);
}

/* Pauses or resumes. */
static int methods_change(struct bl_feature *feature, const struct bl_json *params,
                          bool (*change)(struct bl_feature *feature), struct bl_buffer *ret_result,
                          struct bl_error *error)
{
    struct feature_request request;
    struct bl_feature_view *view;
    BL_AUTO_ARENA(arena);

    int code = methods_read(feature, params, &arena, &request, &view, error);
    if (code != 0)
        return code;
    struct feature_reply reply = {.changed = change(feature)};
    return methods_answer(ret_result, &feature_changed_record, &reply);
}

static int pause_feature(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                         struct bl_error *error)
{
    return methods_change(context, params, bl_feature_pause, ret_result, error);
}

static int resume_feature(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                          struct bl_error *error)
{
    return methods_change(context, params, bl_feature_resume, ret_result, error);
}

static int extend(void *context, const struct bl_json *params, struct bl_buffer *ret_result,
                  struct bl_error *error)
{
    struct feature_request request;
    struct feature_reply reply = {0};
    struct bl_feature_view *view;
    BL_AUTO_ARENA(arena);

    int code = methods_read(context, params, &arena, &request, &view, error);
    if (code == 0 && (request.task == NULL || request.by_ms == 0))
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the request", "params",
                            "extend needs \"task\", and \"by_ms\" above 0");
    if (code == 0)
        code = bl_feature_extend(context, request.task, request.by_ms * BL_NS_PER_MS,
                                 &reply.deadline_s, error);
    return code != 0 ? code : methods_answer(ret_result, &feature_extended_record, &reply);
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
