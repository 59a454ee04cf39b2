#include "provider.h"

static const struct {
    const char *base_url;
    const struct model_api *api;
} apis[] = {
    [BL_API_ANTHROPIC] = {"https://api.anthropic.com", &model_api_anthropic},
    [BL_API_OPENAI] = {"https://api.openai.com/v1", &model_api_openai},
    [BL_API_OPENAI_RESPONSES] = {"https://api.openai.com/v1", &model_api_openai_responses},
    [BL_API_OLLAMA] = {"http://127.0.0.1:11434", &model_api_ollama},
};

static const char *const api_names[] = {
#define API_NAME(name, text) [name] = text,
    BL_API_TABLE(API_NAME)
#undef API_NAME
};
const struct bl_names bl_api_names = BL_NAMES(api_names);

const char *bl_api_name(enum bl_api api)
{
    return api_names[api];
}

const char *bl_api_base_url(enum bl_api api)
{
    return apis[api].base_url;
}

const struct model_api *model_api_find(enum bl_api api)
{
    return apis[api].api;
}
