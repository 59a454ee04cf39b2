#include "config.h"

#include <math.h>

#define TOKENS_MAX 1000000000

int config_open(struct bl_config *config, const char *file, struct bl_text source,
                struct bl_value_reader *ret_reader, struct bl_error *error)
{
    *ret_reader = (struct bl_value_reader){
        .file = file, .operation = CONFIG_OPERATION, .guarded = true, .error = error};
    return bl_value_read_document(ret_reader, &config->arena, source, CONFIG_SIZE_MAX);
}

struct config_place config_place_of(const struct bl_value_reader *reader,
                                    const struct bl_json *node)
{
    struct bl_document_place place = bl_document_place(&reader->document, node);
    return (struct config_place){reader->file, place.line, place.column};
}

int config_read_text(struct bl_value_reader *reader, const struct bl_json *key,
                     const char **ret_text)
{
    return bl_value_read_line(reader, key + 1, key->string, ret_text);
}

int config_read_tokens(struct bl_value_reader *reader, const struct bl_json *key,
                       uint64_t *ret_tokens)
{
    const struct bl_json *value = key + 1;
    int64_t tokens = 0;

    if (!bl_json_is(value, BL_JSON_NULL) &&
        (!bl_json_int64(value, &tokens) || tokens < 1 || tokens > TOKENS_MAX))
        return bl_value_fail_at(reader, value, "%s must be a whole number from 1 to %d",
                                key->string, TOKENS_MAX);
    *ret_tokens = (uint64_t)tokens;
    return 0;
}

int config_read_rate(struct bl_value_reader *reader, const struct bl_json *key, double *ret_rate)
{
    const struct bl_json *value = key + 1;
    double rate = -1;

    if (!bl_json_is(value, BL_JSON_NULL) &&
        (!bl_json_double(value, &rate) || !isfinite(rate) || rate < 0)) {
        int code = bl_value_fail_at(reader, value, "%s must be a number, zero or more, or null",
                                    key->string);
        bl_error_hint(reader->error, "it is USD per million tokens; null: not known");
        return code;
    }
    *ret_rate = rate;
    return 0;
}
