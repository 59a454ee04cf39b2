#include "config.h"

int config_open(struct bl_config *config, const char *file, struct bl_text text,
                struct bl_source *ret_source, struct bl_error *error)
{
    *ret_source = (struct bl_source){
        .file = file, .operation = CONFIG_OPERATION, .guarded = true, .error = error};
    return bl_source_open(ret_source, &config->arena, text, CONFIG_SIZE_MAX);
}

struct config_place config_place_of(const struct bl_source *source, const struct bl_json *node)
{
    struct bl_document_place place = bl_document_place(&source->document, node);
    return (struct config_place){source->file, place.line, place.column};
}

#define RATE(key, field)                                                                           \
    BL_MEMBER_NUMBER(key, field, .optional = true, .nullable = true, .none = -1,                   \
                     .about = "USD per million tokens; null if unknown")
#define BL_RECORD_STRUCT struct config_rates
static const struct bl_member rates_members[] = {
    RATE("input", input),
    RATE("output", output),
    RATE("cache_read", cache_read),
    RATE("cache_write", cache_write),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

const struct bl_record config_rates_record =
    BL_RECORD("price", struct config_rates, rates_members, .closed = true);
