#include <stdio.h>

#include "cli.h"
#include "table/commands.h"

#define HELP_MAX    ((size_t)64 * 1024)
#define HELP_WIDTH  80u
#define OPTION_AT   30u
#define TERM_AT_MAX 20u

/* ---- Text ------------------------------------------------------------------------------------ */

/* Removes the markup: `word` stays plain, `several words` get quotes. */
static void help_unmark(struct bl_buffer *out, struct bl_text text)
{
    bool quoted = false;

    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] != '`') {
            bl_buffer_append_byte(out, text.data[i] == '\n' ? ' ' : text.data[i]);
            continue;
        }
        if (!quoted) {
            struct bl_text rest = {text.data + i + 1, text.size - i - 1}, inside;
            bl_text_split(&rest, '`', &inside);
            quoted = bl_text_find(inside, BL_TEXT(" ")) >= 0;
            if (!quoted) {
                bl_buffer_append(out, inside);
                i += inside.size + 1;
                continue;
            }
        } else {
            quoted = false;
        }
        bl_buffer_append_byte(out, '\'');
    }
}

/* Writes lines of at most 80 columns. The first starts at column `at`, the others are indented by
 * `indent` blanks. Ends in LF. */
static void help_wrap(struct bl_buffer *out, struct bl_text text, size_t at, size_t indent)
{
    BL_AUTO_BUFFER(plain, HELP_MAX);
    struct bl_text rest, word;
    size_t column = at;
    bool first = true;

    help_unmark(&plain, text);
    rest = bl_buffer_text(&plain);
    while (bl_text_split(&rest, ' ', &word)) {
        size_t size = bl_utf8_count(word);
        if (!first && column + 1 + size > HELP_WIDTH) {
            bl_buffer_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            bl_buffer_append_byte(out, ' ');
            column++;
        }
        bl_buffer_append(out, word);
        column += size;
        first = false;
    }
    bl_buffer_append_byte(out, '\n');
}

/* Writes `left` after `margin` blanks, and the text from `column` on: beside `left`, or below it if
 * `left` is too wide. */
static void help_row(struct bl_buffer *out, struct bl_text left, size_t margin, size_t column,
                     struct bl_text text)
{
    size_t size = bl_utf8_count(left);

    bl_buffer_printf(out, "%*s" BL_TEXT_FORMAT, (int)margin, "", BL_TEXT_ARG(left));
    if (margin + size + 2 > column)
        bl_buffer_printf(out, "\n%*s", (int)column, "");
    else
        bl_buffer_printf(out, "%*s", (int)(column - margin - size), "");
    help_wrap(out, text, column, column);
}

/* Returns the column to the right of the widest term. */
static size_t help_term_column(const char *text, size_t margin)
{
    struct cli_piece piece;
    size_t widest = 3;

    while (cli_piece_next(&text, &piece)) {
        size_t size = piece.kind == CLI_PIECE_TERM ? piece.term_size : 0;
        if (size > widest && size < TERM_AT_MAX)
            widest = size;
    }
    return margin + widest + 2;
}

static void help_text(struct bl_buffer *out, const char *text, size_t margin)
{
    size_t column = text != NULL ? help_term_column(text, margin) : 0;
    struct cli_piece piece;

    while (text != NULL && cli_piece_next(&text, &piece)) {
        struct bl_text body = {piece.text, piece.size};
        if (piece.gap)
            bl_buffer_append_byte(out, '\n');
        switch (piece.kind) {
        case CLI_PIECE_PARAGRAPH:
            bl_buffer_printf(out, "%*s", (int)margin, "");
            help_wrap(out, body, margin, margin);
            break;
        case CLI_PIECE_BULLET:
            bl_buffer_printf(out, "%*s- ", (int)margin, "");
            help_wrap(out, body, margin + 2, margin + 2);
            break;
        case CLI_PIECE_TERM:
            help_row(out, (struct bl_text){piece.term, piece.term_size}, margin, column, body);
            break;
        case CLI_PIECE_LITERAL:
            bl_buffer_printf(out, "%*s" BL_TEXT_FORMAT "\n", (int)margin, "", BL_TEXT_ARG(body));
            break;
        }
    }
}

static void help_section(struct bl_buffer *out, const char *title, const char *text)
{
    if (text == NULL)
        return;
    bl_buffer_printf(out, "\n%s:\n", title);
    help_text(out, text, 2);
}

/* ---- A command ------------------------------------------------------------------------------- */

static void help_usage(struct bl_buffer *out, const struct cli_command *command)
{
    char line[400];

    for (size_t i = 0; cli_usage_line(command, i, line, sizeof line); i++)
        bl_buffer_printf(out, "%-6s %s\n", i == 0 ? "Usage:" : "", line);
    bl_buffer_append_byte(out, '\n');
}

static void help_option(struct bl_buffer *out, const struct cli_command *command,
                        const struct cli_option *option, const struct cli_cursor *cursor)
{
    char left[80], text[1024];

    cli_option_form(option, "    ", left, sizeof left);
    cli_option_text(command, option, cursor, text, sizeof text);
    help_row(out, bl_text_from(left), 2, OPTION_AT, bl_text_from(text));
}

/* Writes the options outside of groups, or with `grouped` those in groups. */
static void help_options(struct bl_buffer *out, const struct cli_command *command, bool grouped)
{
    const struct cli_option *option, *heading = NULL;
    struct cli_cursor cursor = {0};
    char list[256];

    if (!grouped)
        bl_buffer_append(out, BL_TEXT("\nOptions:\n"));
    while ((option = cli_option_next(command->options, &cursor)) != NULL) {
        if ((cursor.group != NULL) != grouped)
            continue;
        if (grouped && heading != cursor.group) {
            heading = cursor.group;
            bl_buffer_printf(out, "\n%s", heading->name);
            if (heading->verbs != 0 && cli_verbs_list(command, heading->verbs, list, sizeof list))
                bl_buffer_printf(out, " (%s)", list);
            bl_buffer_append(out, BL_TEXT(":\n"));
        }
        help_option(out, command, option, &cursor);
    }
}

static void help_verbs(struct bl_buffer *out, const struct cli_command *command)
{
    if (command->verbs == NULL)
        return;
    bl_buffer_append(out, BL_TEXT("\nSubcommands:\n"));
    for (const struct cli_verb *verb = command->verbs; verb->name != NULL; verb++)
        help_row(out, bl_text_from(verb->name), 2, 14, bl_text_from(verb->about));
}

static void help_commands(struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("\nCommands:\n"));
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        bl_buffer_printf(out, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
}

void cli_help_write(struct bl_buffer *out, const struct cli_command *command)
{
    char environment[2048];

    help_usage(out, command);
    help_text(out, command->about, 0);
    if (command == &cli_program_command)
        help_commands(out);
    help_verbs(out, command);
    help_options(out, command, false);
    help_options(out, command, true);
    help_section(out, "Exit codes", command->exits);
    cli_environment_text(command, environment, sizeof environment);
    help_section(out, "Environment", environment[0] != '\0' ? environment : NULL);
    help_section(out, "Files", command->files);
    help_section(out, "Examples", command->examples);
}

int cli_help_print(struct cli_call *call, const struct cli_command *command)
{
    BL_AUTO_BUFFER(out, HELP_MAX);

    cli_help_write(&out, command != NULL ? command : &cli_program_command);
    return cli_print(call, bl_buffer_text(&out), CLI_EXIT_OK);
}

int cli_help_run(struct cli_call *call)
{
    const struct cli_command *topic = NULL;
    struct help_options options = {0};
    struct bl_error error = {0};

    int code = cli_options_read(call, &options, NULL, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    if (code == 0 && options.topic != NULL)
        topic = cli_command_find(options.topic, &error);
    return error.code != 0 ? cli_fail_usage(call, &error) : cli_help_print(call, topic);
}

/* ---- The version ----------------------------------------------------------------------------- */

int cli_version_print(const struct cli_call *call)
{
    return cli_print(call, BL_TEXT("belay " BELAY_VERSION "\n"), CLI_EXIT_OK);
}

int cli_version_run(struct cli_call *call)
{
    struct bl_error error = {0};
    int nothing;

    int code = cli_options_read(call, &nothing, NULL, &error);
    if (code == CLI_OPTION_HELP)
        return cli_help_print(call, call->command);
    return code != 0 ? cli_fail_usage(call, &error) : cli_version_print(call);
}
