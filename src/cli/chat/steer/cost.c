/* /model and /cost. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/chat/state.h"

/* ---- Cost ------------------------------------------------------------------------------------ */

void chat_cost_add(struct chat *chat, const struct bl_spent *spent)
{
    const struct bl_model *model = bl_agent_model(chat->agent);
    struct chat_costs *costs = &chat->costs;
    char name[sizeof costs->models[0].name];
    size_t at = 0;

    snprintf(name, sizeof name, "%s %s", model->provider, model->name);
    while (at < costs->count && strcmp(costs->models[at].name, name) != 0)
        at++;
    if (at == BL_COUNT(costs->models)) {
        at--;
        snprintf(costs->models[at].name, sizeof costs->models[at].name, "others");
    } else if (at == costs->count) {
        costs->count++;
        bl_text_into(costs->models[at].name, sizeof costs->models[at].name, name);
    }
    bl_spent_add(&costs->models[at].spent, spent);
    costs->turn = *spent;
}

static const char *cost_text(const struct bl_spent *spent, char out[96])
{
    char usage[CLI_USAGE_SIZE];
    int size = snprintf(out, 96, "%s", cli_usage_text(&spent->usage, usage));

    if (spent->cost_usd > 0 || !spent->cost_unknown)
        size += snprintf(out + size, 96 - (size_t)size, ", $%.4f", spent->cost_usd);
    if (spent->cost_unknown)
        snprintf(out + size, 96 - (size_t)size, "%s",
                 spent->cost_usd > 0 ? " or more; some prices are unknown"
                                     : "; the price is unknown");
    return out;
}

void chat_cost(struct chat *chat, struct bl_text argument BL_UNUSED)
{
    const struct bl_session *session = bl_agent_session(chat->agent);
    const struct bl_spent *spent = bl_agent_spent(chat->agent);
    const struct chat_costs *costs = &chat->costs;
    char text[96];

    if (chat->busy) {
        struct bl_usage now = chat->usage;
        bl_usage_add(&now, &chat->call_usage);
        chat_say(chat, "this turn so far: %s", cli_usage_text(&now, text));
    } else if (costs->count > 0) {
        chat_say(chat, "the last turn: %s", cost_text(&costs->turn, text));
    }
    chat_say(chat, "the session: %s, %" PRIu64 " turn%s", cli_usage_text(&session->usage, text),
             session->turns_total, session->turns_total == 1 ? "" : "s");
    chat_say(chat, "spent since it was opened, including stopped turns: %s",
             cost_text(spent, text));
    for (size_t i = 0; i < costs->count && costs->count > 1; i++)
        chat_say(chat, "of that by %s, sub-agents included: %s", costs->models[i].name,
                 cost_text(&costs->models[i].spent, text));
}

/* ---- The model ------------------------------------------------------------------------------- */

static const char *model_in_use(const struct chat *chat)
{
    const char *const *names = chat->work.workspace->models;

    if (chat->model_chosen[0] != '\0')
        return chat->model_chosen;
    return names != NULL && names[0] != NULL ? names[0] : "";
}

static void model_show(struct chat *chat)
{
    const struct bl_model *now = bl_agent_model(chat->agent);
    const char *const *names = chat->work.workspace->models;
    const char *used = model_in_use(chat);
    bool listed = false;

    chat_say(chat, "%s %s", now->provider, now->name);
    for (size_t i = 0; names != NULL && names[i] != NULL; i++)
        listed = listed || strcmp(names[i], used) == 0;
    if (!listed && used[0] != '\0')
        chat_say_row(chat, "in use", "%s", used);
    for (size_t i = 0; names != NULL && names[i] != NULL; i++)
        chat_say_row(chat, strcmp(names[i], used) == 0 ? "in use" : "", "%s", names[i]);
    if (chat->work.workspace->found.provider != NULL)
        chat_say(chat, "/model NAME selects one of these, or PROVIDER/MODEL");
}

void chat_model(struct chat *chat, struct bl_text argument)
{
    struct bl_error *error = bl_zalloc(sizeof *error);
    char name[sizeof chat->model_chosen];

    snprintf(name, sizeof name, BL_TEXT_FORMAT,
             BL_TEXT_ARG(bl_utf8_cut(argument, sizeof name - 1)));
    if (argument.size == 0) {
        model_show(chat);
    } else if (chat->work.workspace->found.provider == NULL) {
        chat_say(chat, "a script plays the model; there is no other");
    } else if (bl_agent_set_model(chat->agent, name, error) != 0) {
        chat_say_error(chat, error);
    } else {
        bl_text_into(chat->model_chosen, sizeof chat->model_chosen, name);
        model_show(chat);
    }
    bl_free(error);
}
