#include "cli.h"

#include <stdlib.h>

const char *cli_format_name(enum cli_format format)
{
    return cli_format_names[format];
}

/* True when `value` (NULL is fine) is the name of a JSON format. */
static bool format_is_json(const char *value, enum cli_format *format)
{
    if (value == NULL)
        return false;
    if (strcmp(value, "json") == 0)
        *format = CLI_FORMAT_JSON;
    else if (strcmp(value, "stream-json") == 0)
        *format = CLI_FORMAT_STREAM_JSON;
    else
        return false;
    return true;
}

enum cli_format cli_format_asked(int count, char *const *values)
{
    static const char with_value[] = "--output-format=";
    enum cli_format format = CLI_FORMAT_TEXT;

    for (int i = 1; i < count && strcmp(values[i], "--") != 0; i++) {
        if (strcmp(values[i], "--json") == 0)
            format = CLI_FORMAT_JSON;
        else if (strcmp(values[i], "--output-format") == 0)
            format_is_json(i + 1 < count ? values[i + 1] : NULL, &format);
        else if (strncmp(values[i], with_value, sizeof with_value - 1) == 0)
            format_is_json(values[i] + sizeof with_value - 1, &format);
    }
    return format;
}
