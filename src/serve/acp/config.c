/* Modes and options of a session. The mode is also one of the options: when a client changes one of
 * the two, the other follows. */
#include <stdio.h>

#include "acp.h"

static const struct {
    enum bl_permission_mode mode;
    const char *name;
    const char *description;
} modes[] = {
    {BL_PERMISSION_ASK, "Ask", "Asks before each call that no rule allows."},
    {BL_PERMISSION_AUTO, "Auto",
     "Runs what stays in the workspace or in the sandbox; asks before the rest."},
    {BL_PERMISSION_READ_ONLY, "Read only", "Changes nothing and starts nothing."},
    {BL_PERMISSION_PLAN, "Plan", "Changes nothing before you have approved a plan."},
    {BL_PERMISSION_YOLO, "Yolo", "Runs everything that no rule denies."},
};

static const struct {
    enum bl_effort effort;
    const char *id;
    const char *name;
} efforts[] = {
    {BL_EFFORT_DEFAULT, "default", "Default"},
    {BL_EFFORT_NONE, "none", "None"},
    {BL_EFFORT_LOW, "low", "Low"},
    {BL_EFFORT_MEDIUM, "medium", "Medium"},
    {BL_EFFORT_HIGH, "high", "High"},
    {BL_EFFORT_ADAPTIVE, "adaptive", "Adaptive"},
};

static const struct {
    const char *id;
    const char *name;
} timeouts[] = {
    {"none", "No deadline"}, {"1m", "1 minute"}, {"5m", "5 minutes"},
    {"15m", "15 minutes"},   {"1h", "1 hour"},
};

/* ---- Options --------------------------------------------------------------------------------- */

static const char *current_mode(const struct acp_session *session)
{
    return bl_permission_mode_name(bl_permissions_mode(session->workspace->permissions));
}

static void write_modes(const struct acp_session *session, struct bl_json_writer *writer)
{
    bl_json_write_key(writer, BL_TEXT("modes"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "currentModeId", current_mode(session));
    bl_json_write_key(writer, BL_TEXT("availableModes"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        bl_json_write_object(writer);
        bl_json_put_string(writer, "id", bl_permission_mode_name(modes[i].mode));
        bl_json_put_string(writer, "name", modes[i].name);
        bl_json_put_string(writer, "description", modes[i].description);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void begin_option(struct bl_json_writer *writer, const char *id, const char *name,
                         const char *category, const char *current)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "id", id);
    bl_json_put_string(writer, "name", name);
    bl_json_put_string(writer, "category", category);
    bl_json_put_string(writer, "type", "select");
    bl_json_put_string(writer, "currentValue", current);
    bl_json_write_key(writer, BL_TEXT("options"));
    bl_json_write_array(writer);
}

static void end_option(struct bl_json_writer *writer)
{
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

static void write_choice(struct bl_json_writer *writer, const char *value, const char *name)
{
    bl_json_write_object(writer);
    bl_json_put_string(writer, "value", value);
    bl_json_put_string(writer, "name", name);
    bl_json_write_end(writer);
}

static void write_mode_option(const struct acp_session *session, struct bl_json_writer *writer)
{
    begin_option(writer, "mode", "Permissions", "mode", current_mode(session));
    for (size_t i = 0; i < BL_COUNT(modes); i++)
        write_choice(writer, bl_permission_mode_name(modes[i].mode), modes[i].name);
    end_option(writer);
}

static const char *current_model(const struct acp_session *session)
{
    const char *const *names = session->workspace->models;

    if (session->model != NULL)
        return session->model;
    /* the model that it was opened with comes first */
    return names != NULL && names[0] != NULL ? names[0] : bl_agent_model(session->agent)->name;
}

static void write_model_option(const struct acp_session *session, struct bl_json_writer *writer)
{
    const char *const *names = session->workspace->models;
    const char *current = current_model(session);
    bool listed = false;

    begin_option(writer, "model", "Model", "model", current);
    for (; names != NULL && *names != NULL; names++) {
        write_choice(writer, *names, *names);
        listed = listed || strcmp(*names, current) == 0;
    }
    if (!listed)
        write_choice(writer, current, current);
    end_option(writer);
}

/* Only the model that the session was opened with has thinking levels. */
static bool has_thought_level(const struct acp_session *session)
{
    return session->workspace->thinking != NULL && session->model == NULL;
}

static void write_thought_option(const struct acp_session *session, struct bl_json_writer *writer)
{
    const char *current = "default";

    for (size_t i = 0; i < BL_COUNT(efforts); i++) {
        if (efforts[i].effort == *session->workspace->thinking)
            current = efforts[i].id;
    }
    begin_option(writer, "thought_level", "Thinking", "thought_level", current);
    for (size_t i = 0; i < BL_COUNT(efforts); i++)
        write_choice(writer, efforts[i].id, efforts[i].name);
    end_option(writer);
}

static void write_timeout_option(const struct acp_session *session, struct bl_json_writer *writer)
{
    char current[32] = "none";
    bool listed = false;

    if (session->timed)
        snprintf(current, sizeof current, "%lldms",
                 (long long)(session->timeout_ns / (int64_t)BL_NS_PER_MS));
    for (size_t i = 1; i < BL_COUNT(timeouts); i++) {
        int64_t ns;
        if (session->timed && bl_duration_parse(bl_text_from(timeouts[i].id), &ns, NULL) == 0 &&
            ns == session->timeout_ns)
            bl_text_into(current, sizeof current, timeouts[i].id);
    }
    begin_option(writer, "_belay_timeout", "Deadline for each prompt", "_belay", current);
    for (size_t i = 0; i < BL_COUNT(timeouts); i++) {
        write_choice(writer, timeouts[i].id, timeouts[i].name);
        listed = listed || strcmp(timeouts[i].id, current) == 0;
    }
    if (!listed)
        write_choice(writer, current, current);
    end_option(writer);
}

static void acp_config_write_options(const struct acp_session *session,
                                     struct bl_json_writer *writer)
{
    bl_json_write_key(writer, BL_TEXT("configOptions"));
    bl_json_write_array(writer);
    write_mode_option(session, writer);
    write_model_option(session, writer);
    if (has_thought_level(session))
        write_thought_option(session, writer);
    write_timeout_option(session, writer);
    bl_json_write_end(writer);
}

void acp_config_write(const struct acp_session *session, struct bl_json_writer *writer)
{
    write_modes(session, writer);
    acp_config_write_options(session, writer);
}

/* ---- Changes --------------------------------------------------------------------------------- */

static void tell_mode(struct acp_session *session)
{
    struct acp_update update;

    acp_update_begin(&update, session, "current_mode_update");
    bl_json_put_string(&update.writer, "currentModeId", current_mode(session));
    acp_update_send(&update, session);
}

static void tell_options(struct acp_session *session)
{
    struct acp_update update;

    if (session->acp->options->minimal)
        return;
    acp_update_begin(&update, session, "config_option_update");
    acp_config_write_options(session, &update.writer);
    acp_update_send(&update, session);
}

void acp_config_change_mode(struct acp_session *session, enum bl_permission_mode mode)
{
    bl_permissions_set_mode(session->workspace->permissions, mode);
    tell_mode(session);
    tell_options(session);
}

static bool choose_mode(struct acp_session *session, struct bl_text value)
{
    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        if (bl_text_equal(value, bl_text_from(bl_permission_mode_name(modes[i].mode)))) {
            bl_permissions_set_mode(session->workspace->permissions, modes[i].mode);
            return true;
        }
    }
    return false;
}

void acp_set_mode(void *context, struct bl_rpc_call *call)
{
    struct acp_session *session = acp_session_of(context, call);
    struct bl_text mode;

    if (session == NULL || !acp_param_text(call, "modeId", &mode))
        return;
    if (!choose_mode(session, mode)) {
        acp_refuse_params(call, "/modeId", "expected ask, auto, read-only, plan or yolo");
        return;
    }
    acp_session_use(session);
    tell_options(session);
    bl_rpc_answer(call, BL_TEXT("{}"));
    acp_session_leave(session);
}

static bool choose_effort(struct acp_session *session, struct bl_text value)
{
    for (size_t i = 0; i < BL_COUNT(efforts); i++) {
        if (bl_text_equal(value, bl_text_from(efforts[i].id))) {
            *session->workspace->thinking = efforts[i].effort;
            return true;
        }
    }
    return false;
}

static bool choose_timeout(struct acp_session *session, struct bl_text value)
{
    int64_t timeout_ns;

    if (bl_text_equal(value, BL_TEXT("none"))) {
        session->timed = false;
        return true;
    }
    if (bl_duration_parse(value, &timeout_ns, NULL) != 0 || timeout_ns <= 0)
        return false;
    session->timed = true;
    session->timeout_ns = timeout_ns;
    return true;
}

static bool acp_config_choose_model(struct acp_session *session, struct bl_text value,
                                    struct bl_error *error)
{
    struct bl_text name = bl_arena_text(&session->arena, value);
    struct bl_scope *outer = bl_scope_enter(&session->acp->home);
    int code = bl_agent_set_model(session->agent, name.data, error);

    bl_scope_enter(outer);
    if (code == 0)
        session->model = name.data;
    return code == 0;
}

static void set_option(struct acp_session *session, struct bl_rpc_call *call, struct bl_text id,
                       struct bl_text value)
{
    struct bl_error *error = bl_arena_zalloc(bl_rpc_call_arena(call), sizeof *error);
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(out, SIZE_MAX);
    bool good;

    if (bl_text_equal(id, BL_TEXT("mode"))) {
        good = choose_mode(session, value);
    } else if (bl_text_equal(id, BL_TEXT("model"))) {
        good = acp_config_choose_model(session, value, error);
    } else if (bl_text_equal(id, BL_TEXT("thought_level")) && has_thought_level(session)) {
        good = choose_effort(session, value);
    } else if (bl_text_equal(id, BL_TEXT("_belay_timeout"))) {
        good = choose_timeout(session, value);
    } else {
        acp_refuse_params(call, "/configId", "unknown option: session/new lists the options");
        return;
    }
    if (!good) {
        acp_refuse_params(call, "/value", "%s",
                          error->code != 0 ? error->message : "invalid value for this option");
        return;
    }
    if (bl_text_equal(id, BL_TEXT("mode")))
        tell_mode(session);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    acp_config_write_options(session, &writer);
    bl_json_write_end(&writer);
    bl_rpc_answer(call, bl_buffer_text(&out));
}

void acp_set_config_option(void *context, struct bl_rpc_call *call)
{
    struct acp_session *session = acp_session_of(context, call);
    struct bl_text id, value;

    if (session == NULL || !acp_param_text(call, "configId", &id) ||
        !acp_param_text(call, "value", &value))
        return;
    acp_session_use(session);
    set_option(session, call, id, value);
    acp_session_leave(session);
}
