/* The model of an agent, which may change while a prompt uses it. */
#include "parts.h"

/* A model that was replaced while in use. */
struct agent_model {
    struct bl_list link;
    void *handle;
};

void agent_models_settle(struct bl_agent *agent)
{
    const struct bl_model_source *models = agent->options.models;
    struct bl_list *link;

    while ((link = bl_list_pop_front(&agent->retired)) != NULL) {
        struct agent_model *model = BL_CONTAINER(link, struct agent_model, link);
        models->close(models->context, model->handle);
        bl_free(model);
    }
}

void agent_model_close(struct bl_agent *agent)
{
    agent_models_settle(agent);
    if (agent->model_opened)
        agent->options.models->close(agent->options.models->context, agent->model_handle);
}

/* Closes the model now, or at the end of the prompt that may use it. */
static void retire_model(struct bl_agent *agent)
{
    if (agent->prompt == NULL) {
        agent_model_close(agent);
    } else if (agent->model_opened) {
        struct agent_model *model = bl_zalloc(sizeof *model);
        model->handle = agent->model_handle;
        bl_list_push_back(&agent->retired, &model->link);
    }
}

int bl_agent_set_model(struct bl_agent *agent, const char *name, struct bl_error *error)
{
    const struct bl_model_source *models = agent->options.models;
    struct bl_model model;
    void *handle;

    if (models == NULL)
        return bl_error_set(error, BL_ENOTSUP, BL_KIND_USAGE, "change the model", name,
                            "the model cannot be changed here");
    int code = models->open(models->context, name, &model, &handle, error);
    if (code != 0)
        return code;
    retire_model(agent);
    agent->model = model;
    agent->model_handle = handle;
    agent->model_opened = true;
    return 0;
}
