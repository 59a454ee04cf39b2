/* Writes the manual from the tables, on the build machine:
 *
 *     belay-document man COMMAND VERSION    a man page; COMMAND is "belay" for the program
 *     belay-document reference              docs/reference/commands.md
 *     belay-document errors                 docs/reference/errors.md */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <belay/base.h>

#include "commands.h"

/* ---- Characters ------------------------------------------------------------------------------ */

/* Returns the size of the name of a page such as belay-run(1) at the start of the text, without the
 * section; 0 if there is none. */
static size_t document_page_name(const char *text, size_t size)
{
    size_t name = 0;

    while (name < size && (isalnum((unsigned char)text[name]) || text[name] == '-'))
        name++;
    bool is = name > 0 && name + 2 < size && text[name] == '(' &&
              isdigit((unsigned char)text[name + 1]) && text[name + 2] == ')';
    return is ? name : 0;
}

static void man_character(char c, bool first)
{
    if (c == '\\')
        fputs("\\e", stdout);
    else if (c == '-')
        fputs("\\-", stdout);
    else if (c == '\'')
        fputs("\\(aq", stdout);
    else if (c == '`')
        fputs("\\(ga", stdout);
    else if (c == '.' && first)
        fputs("\\&.", stdout);
    else
        putchar(c == '\n' ? ' ' : c);
}

/* Prints marked-up text; `this` and belay-run(1) are bold. */
static void man_text(const char *text, size_t size)
{
    bool bold = false, word = false;

    for (size_t i = 0; i < size; i++) {
        size_t page = bold || word ? 0 : document_page_name(text + i, size - i);
        if (page > 0) {
            fputs("\\fB", stdout);
            for (size_t end = i + page; i < end; i++)
                man_character(text[i], false);
            fputs("\\fR", stdout);
            i--;
        } else if (text[i] == '`') {
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", stdout);
        } else {
            man_character(text[i], i == 0);
        }
        word = isalnum((unsigned char)text[i]);
    }
    putchar('\n');
}

static void man_string(const char *text)
{
    man_text(text, strlen(text));
}

/* Prints Markdown, where `this` is already marked up. */
static void markdown_text(const char *text, size_t size)
{
    bool literal = false;

    for (size_t i = 0; i < size; i++) {
        literal = literal != (text[i] == '`');
        if (!literal && strchr("*_<>[]|", text[i]) != NULL)
            putchar('\\');
        putchar(text[i] == '\n' ? ' ' : text[i]);
    }
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* `inner`: in an item of a list. */
static void man_pieces(const char *text, bool inner)
{
    struct cli_piece piece;
    bool literal = false, first = true, below = false;

    while (text != NULL && cli_piece_next(&text, &piece)) {
        if (literal && piece.kind != CLI_PIECE_LITERAL)
            puts(".EE\n.RE");
        if (!literal && piece.kind == CLI_PIECE_LITERAL)
            puts(".RS 4\n.EX");
        literal = piece.kind == CLI_PIECE_LITERAL;
        switch (piece.kind) {
        case CLI_PIECE_PARAGRAPH:
            if (!first)
                puts(inner ? ".IP" : ".PP");
            man_text(piece.text, piece.size);
            break;
        case CLI_PIECE_BULLET:
            if (inner && !below)
                puts(".RS");
            below = true;
            puts(".IP \\(bu 2");
            man_text(piece.text, piece.size);
            break;
        case CLI_PIECE_TERM:
            if (inner && !below)
                puts(".RS");
            below = true;
            fputs(".TP\n\\fB", stdout);
            for (size_t i = 0; i < piece.term_size; i++) {
                if (piece.term[i] != '`')
                    man_character(piece.term[i], i == 0);
            }
            puts("\\fR");
            man_text(piece.text, piece.size);
            break;
        case CLI_PIECE_LITERAL:
            for (size_t i = 0; i < piece.size; i++)
                man_character(piece.text[i], i == 0);
            putchar('\n');
            break;
        }
        first = false;
    }
    if (literal)
        puts(".EE\n.RE");
    if (below && inner)
        puts(".RE");
}

static void markdown_pieces(const char *text)
{
    enum {
        NOTHING = -1
    };
    struct cli_piece piece;
    int before = NOTHING;

    while (text != NULL && cli_piece_next(&text, &piece)) {
        bool same = (int)piece.kind == before && piece.kind != CLI_PIECE_PARAGRAPH;
        if (before == CLI_PIECE_LITERAL && !same)
            puts("```");
        if (before != NOTHING && !same)
            putchar('\n');
        if (piece.kind == CLI_PIECE_LITERAL && !same)
            puts("```sh");
        if (piece.kind == CLI_PIECE_BULLET)
            fputs("- ", stdout);
        if (piece.kind == CLI_PIECE_TERM) {
            bool marked = memchr(piece.term, '`', piece.term_size) != NULL;
            printf("- %s%.*s%s: ", marked ? "" : "`", (int)piece.term_size, piece.term,
                   marked ? "" : "`");
        }
        if (piece.kind == CLI_PIECE_LITERAL)
            printf("%.*s", (int)piece.size, piece.text);
        else
            markdown_text(piece.text, piece.size);
        putchar('\n');
        before = (int)piece.kind;
    }
    if (before == CLI_PIECE_LITERAL)
        puts("```");
}

/* ---- Parts of a command ---------------------------------------------------------------------- */

static bool document_is_program(const struct cli_command *command)
{
    return command == &cli_program_command;
}

/* Writes what follows `about`: the valid values, the detail, the variable, an example. */
static void document_option_more(const struct cli_option *option, char *out, size_t size)
{
    char expected[200];
    int used = 0;

    out[0] = '\0';
    if (option->type != CLI_TYPE_FLAG && option->type != CLI_TYPE_JSON &&
        option->type != CLI_TYPE_VERBOSE && option->type != CLI_TYPE_HELP &&
        option->type != CLI_TYPE_TEXT && option->type != CLI_TYPE_PATH &&
        option->type != CLI_TYPE_STORE) {
        cli_option_expected(option, expected, sizeof expected);
        used += snprintf(out, size, "Value: %s.", expected);
    }
    if (option->detail != NULL)
        used += snprintf(out + used, size - (size_t)used, "%s%s", used > 0 ? "\n\n" : "",
                         option->detail);
    if (option->env != NULL)
        used += snprintf(out + used, size - (size_t)used, "%sEnvironment: `%s`.",
                         used > 0 ? "\n\n" : "", option->env);
    if (option->sample != NULL)
        snprintf(out + used, size - (size_t)used, "%sExample: `--%s%s%s`.", used > 0 ? " " : "",
                 option->name, option->optional ? "=" : " ", option->sample);
}

/* Writes the heading of a group, with the verbs that have it. */
static void document_heading(const struct cli_command *command, const struct cli_option *group,
                             char *out, size_t size)
{
    char list[256];

    if (group->verbs != 0 && cli_verbs_list(command, group->verbs, list, sizeof list))
        snprintf(out, size, "%s (%s)", group->name, list);
    else
        snprintf(out, size, "%s", group->name);
}

/* ---- A man page ------------------------------------------------------------------------------ */

static void man_usage_line(const char *text)
{
    const char *rest = text + strcspn(text, " [");

    printf("\\fB%.*s\\fR", (int)(rest - text), text);
    for (; *rest != '\0'; rest++)
        man_character(*rest, false);
    putchar('\n');
}

static void man_section(const char *title, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    fputs(".SH ", stdout);
    for (; *title != '\0'; title++)
        putchar(toupper((unsigned char)*title));
    putchar('\n');
    man_pieces(text, false);
}

/* How a format prints a heading and an option below it. */
struct option_writer {
    void (*heading)(const char *text);
    void (*option)(const struct cli_command *command, const struct cli_option *option,
                   const struct cli_cursor *cursor);
};

/* Prints the options outside of groups, or with `grouped` each group under its heading. */
static void document_options(const struct cli_command *command, bool grouped,
                             const struct option_writer *writer)
{
    const struct cli_option *option, *heading = NULL;
    struct cli_cursor cursor = {0};
    char text[400];

    while ((option = cli_option_next(command->options, &cursor)) != NULL) {
        if ((cursor.group != NULL) != grouped)
            continue;
        if (grouped && heading != cursor.group) {
            heading = cursor.group;
            document_heading(command, heading, text, sizeof text);
            writer->heading(text);
        }
        writer->option(command, option, &cursor);
    }
}

static void man_heading(const char *text)
{
    printf(".SS ");
    man_string(text);
}

static void man_option(const struct cli_command *command, const struct cli_option *option,
                       const struct cli_cursor *cursor)
{
    char text[4096];

    cli_option_form(option, "", text, sizeof text);
    fputs(".TP\n\\fB", stdout);
    for (const char *at = text; *at != '\0'; at++)
        man_character(*at, false);
    puts("\\fR");
    cli_option_text(command, option, cursor, text, sizeof text);
    man_string(text);
    document_option_more(option, text, sizeof text);
    if (text[0] != '\0') {
        puts(".IP");
        man_pieces(text, true);
    }
}

static const struct option_writer man_options = {man_heading, man_option};

static void man_verbs(const struct cli_command *command)
{
    if (command->verbs == NULL)
        return;
    puts(".SH SUBCOMMANDS");
    for (const struct cli_verb *verb = command->verbs; verb->name != NULL; verb++) {
        fputs(".TP\n\\fB", stdout);
        for (const char *at = verb->name; *at != '\0'; at++)
            man_character(*at, false);
        puts("\\fR");
        man_string(verb->about);
        if (verb->detail != NULL) {
            puts(".IP");
            man_pieces(verb->detail, true);
        }
    }
}

static void man_see(const struct cli_command *command)
{
    const char *word = command->see;

    puts(".SH SEE ALSO");
    if (!document_is_program(command))
        puts("\\fBbelay\\fR(1),");
    while (*word != '\0') {
        size_t size = strcspn(word, " ");
        const char *next = word + size + strspn(word + size, " ");
        size_t name = document_page_name(word, size + 1);
        fputs(name > 0 ? "\\fB" : "\\fBbelay\\-", stdout);
        for (size_t i = 0; i < (name > 0 ? name : size); i++)
            man_character(word[i], false);
        printf("\\fR%.*s%s\n", name > 0 ? 3 : 3, name > 0 ? word + name : "(1)",
               *next != '\0' ? "," : "");
        word = next;
    }
}

static void man_page(const struct cli_command *command, const char *version)
{
    char text[8192], title[64];
    size_t size = 0;

    snprintf(title, sizeof title, "%s%s", document_is_program(command) ? "" : "belay-",
             command->name);
    printf(".TH ");
    for (; title[size] != '\0'; size++)
        putchar(toupper((unsigned char)title[size]));
    printf(" 1 \"\" \"belay %s\" \"Belay\"\n.SH NAME\n", version);
    man_string(title);
    printf("\\- %s\n.SH SYNOPSIS\n", command->summary);
    for (size_t i = 0; cli_usage_line(command, i, text, sizeof text); i++) {
        fputs(i > 0 ? ".br\n" : "", stdout);
        man_usage_line(text);
    }
    puts(".SH DESCRIPTION");
    man_pieces(command->about, false);
    if (command->detail != NULL) {
        puts(".PP");
        man_pieces(command->detail, false);
    }
    if (document_is_program(command)) {
        puts(".SH COMMANDS");
        for (size_t i = 0; cli_commands[i] != NULL; i++)
            printf(".TP\n\\fBbelay\\-%s\\fR(1)\n%s\n", cli_commands[i]->name,
                   cli_commands[i]->summary);
    }
    man_verbs(command);
    puts(".SH OPTIONS");
    document_options(command, false, &man_options);
    document_options(command, true, &man_options);
    for (const struct cli_topic *topic = command->topics; topic != NULL && topic->title != NULL;
         topic++)
        man_section(topic->title, topic->text);
    cli_environment_text(command, text, sizeof text);
    man_section("Environment", text);
    man_section("Files", command->files);
    man_section("Exit status", command->exits);
    man_section("Examples", command->examples);
    man_see(command);
}

/* ---- The reference --------------------------------------------------------------------------- */

static void markdown_section(const char *title, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    printf("\n### %s\n\n", title);
    markdown_pieces(text);
}

static void markdown_option(const struct cli_command *command, const struct cli_option *option,
                            const struct cli_cursor *cursor)
{
    char text[4096];

    cli_option_form(option, "", text, sizeof text);
    printf("\n**`%s`**\n\n", text);
    cli_option_text(command, option, cursor, text, sizeof text);
    markdown_pieces(text);
    document_option_more(option, text, sizeof text);
    if (text[0] != '\0') {
        putchar('\n');
        markdown_pieces(text);
    }
}

static void markdown_heading(const char *text)
{
    printf("\n#### %s\n", text);
}

static const struct option_writer markdown_options = {markdown_heading, markdown_option};

static void markdown_command(const struct cli_command *command)
{
    char text[8192];

    printf("\n## %s%s\n\n%c%s.\n\n```\n", document_is_program(command) ? "" : "belay ",
           command->name, toupper((unsigned char)command->summary[0]), command->summary + 1);
    for (size_t i = 0; cli_usage_line(command, i, text, sizeof text); i++)
        puts(text);
    puts("```\n");
    markdown_pieces(command->about);
    if (command->detail != NULL) {
        putchar('\n');
        markdown_pieces(command->detail);
    }
    for (const struct cli_verb *verb = command->verbs; verb != NULL && verb->name != NULL; verb++) {
        printf("%s- `%s`: ", verb == command->verbs ? "\n### Subcommands\n\n" : "", verb->name);
        markdown_text(verb->about, strlen(verb->about));
        if (verb->detail != NULL) {
            putchar(' ');
            markdown_text(verb->detail, strlen(verb->detail));
        }
        putchar('\n');
    }
    puts("\n### Options");
    document_options(command, false, &markdown_options);
    document_options(command, true, &markdown_options);
    for (const struct cli_topic *topic = command->topics; topic != NULL && topic->title != NULL;
         topic++)
        markdown_section(topic->title, topic->text);
    cli_environment_text(command, text, sizeof text);
    markdown_section("Environment", text);
    markdown_section("Files", command->files);
    markdown_section("Exit codes", command->exits);
    markdown_section("Examples", command->examples);
}

static void markdown_reference(void)
{
    puts("# Commands\n\n"
         "Written by `belay-document` from the tables in `src/cli/table`; `ninja -C build "
         "reference` brings it up to date.\n\n"
         "| command | |\n|---|---|");
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        printf("| [`belay %s`](#belay-%s) | %s |\n", cli_commands[i]->name, cli_commands[i]->name,
               cli_commands[i]->summary);
    markdown_command(&cli_program_command);
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        markdown_command(cli_commands[i]);
}

static void markdown_errors(void)
{
    static const char *const names[] = {
#define KIND_NAME(kind, text) [kind] = (text),
        BL_ERROR_KIND_TABLE(KIND_NAME)
#undef KIND_NAME
    };

    puts("# Errors\n\n"
         "Written by `belay-document` from the tables in `src/cli/table`; `ninja -C build "
         "reference` brings it up to date.\n\n"
         "An error is one line on standard error, with a hint where there is one. With `--json` it "
         "is the member `error` of the envelope: [its schema](../schemas/error.json).\n\n"
         "## Exit codes\n\n"
         "[`belay hold`](commands.md#belay-hold) passes on the exit code of its command, and has "
         "codes of its own.\n\n"
         "| exit code | |\n|---|---|");
    for (const struct cli_exit_row *row = cli_exit_rows; row->meaning != NULL; row++)
        printf("| %d | %s |\n", row->code, row->meaning);
    puts("\n"
         "## Kinds\n\n"
         "The exit code applies to a command that could not start, or that failed without a "
         "result.\n\n"
         "| kind | exit code | |\n"
         "|---|---|---|");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        printf("| `%s` | %d | %s |\n", names[i], cli_error_kinds[i].exit_code,
               cli_error_kinds[i].meaning);
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "errors") == 0) {
        markdown_errors();
        return ferror(stdout) != 0 || fflush(stdout) != 0;
    }
    if (count == 2 && strcmp(arguments[1], "reference") == 0) {
        markdown_reference();
        return ferror(stdout) != 0 || fflush(stdout) != 0;
    }
    for (size_t i = 0; count == 4 && strcmp(arguments[1], "man") == 0; i++) {
        const struct cli_command *command = i == 0 ? &cli_program_command : cli_commands[i - 1];
        if (command == NULL)
            break;
        if (strcmp(command->name, arguments[2]) != 0)
            continue;
        man_page(command, arguments[3]);
        return ferror(stdout) != 0 || fflush(stdout) != 0;
    }
    fputs("usage: belay-document man COMMAND VERSION | reference | errors\n", stderr);
    return 2;
}
