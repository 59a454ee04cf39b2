#include "cli.h"

static const char *const json_names[] = {
    [CLI_FORMAT_JSON] = "json",
    [CLI_FORMAT_STREAM_JSON] = "stream-json",
};
const struct bl_names cli_json_formats = BL_NAMES(json_names);

/* Sets `*format` if `value` names a JSON format; `value` may be NULL. */
static void format_take_json(const char *value, enum cli_format *format)
{
    size_t found;

    if (value != NULL && bl_names_find(&cli_json_formats, bl_text_from(value), &found))
        *format = (enum cli_format)found;
}

enum cli_format cli_format_asked(int count, char *const *values)
{
    static const char with_value[] = "--output-format=";
    enum cli_format format = CLI_FORMAT_TEXT;

    for (int i = 1; i < count && strcmp(values[i], "--") != 0; i++) {
        if (strcmp(values[i], "--json") == 0)
            format = CLI_FORMAT_JSON;
        else if (strcmp(values[i], "--output-format") == 0)
            format_take_json(i + 1 < count ? values[i + 1] : NULL, &format);
        else if (strncmp(values[i], with_value, sizeof with_value - 1) == 0)
            format_take_json(values[i] + sizeof with_value - 1, &format);
    }
    return format;
}
