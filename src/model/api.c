#include "provider.h"

static const struct {
    const char *name;
    const char *base_url;
    const struct model_api *api;
} apis[] = {
    [BL_API_ANTHROPIC] = {"anthropic", "https://api.anthropic.com", &model_api_anthropic},
    [BL_API_OPENAI] = {"openai", "https://api.openai.com/v1", &model_api_openai},
    [BL_API_OPENAI_RESPONSES] = {"openai-responses", "https://api.openai.com/v1",
                                 &model_api_openai_responses},
    [BL_API_OLLAMA] = {"ollama", "http://127.0.0.1:11434", &model_api_ollama},
};

const char *bl_api_name(enum bl_api api)
{
    return apis[api].name;
}

const char *bl_api_base_url(enum bl_api api)
{
    return apis[api].base_url;
}

const struct model_api *model_api_find(enum bl_api api)
{
    return apis[api].api;
}
