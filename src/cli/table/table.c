#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <belay/tool.h>

#include "commands.h"

#define NS_PER_S 1000000000u

const char *const cli_format_names[3] = {"text", "json", "stream-json"};
const char *const cli_provider_names[6] = {"anthropic", "openai", "openai-responses",
                                           "ollama",    "script", "replay"};
const char *const cli_sandbox_names[3] = {
    [BL_SANDBOX_OFF] = "off",
    [BL_SANDBOX_WORKSPACE] = "workspace",
    [BL_SANDBOX_READ_ONLY] = "read-only",
};
const char *const cli_permission_names[5] = {
    [BL_PERMISSION_ASK] = "ask",
    [BL_PERMISSION_AUTO] = "auto",
    [BL_PERMISSION_READ_ONLY] = "read-only",
    [BL_PERMISSION_YOLO] = "yolo",
    [BL_PERMISSION_PLAN] = "plan",
};
const char *const cli_container_names[4] = {
    [BL_MECHANISM_NONE] = "auto",
    [BL_MECHANISM_PIDNS] = "pidns",
    [BL_MECHANISM_CGROUP2] = "cgroup2",
    [BL_MECHANISM_SUBREAPER] = "subreaper",
};
const struct bl_names cli_containers = {cli_container_names + 1, 3};

const struct cli_command *const cli_commands[] = {
    &cli_run_command,
    &cli_chat_command,
    &cli_bootstrap_command,
    &cli_session_command,
    &cli_commands_command,
    &cli_route_command,
    &cli_tools_command,
    &cli_tool_command,
    &cli_ps_command,
    &cli_cancel_command,
    &cli_inject_command,
    &cli_debug_command,
    &cli_watch_command,
    &cli_cell_command,
    &cli_feature_command,
    &cli_fleet_command,
    &cli_submit_command,
    &cli_wait_command,
    &cli_worker_command,
    &cli_acp_command,
    &cli_mcp_command,
    &cli_hold_command,
    &cli_init_command,
    &cli_config_command,
    &cli_login_command,
    &cli_logout_command,
    &cli_script_command,
    &cli_doctor_command,
    &cli_help_command,
    &cli_version_command,
    NULL,
};

/* ---- Options --------------------------------------------------------------------------------- */

const struct cli_option *cli_option_next(const struct cli_option *table, struct cli_cursor *cursor)
{
    if (!cursor->begun)
        *cursor = (struct cli_cursor){.next = table, .begun = true};
    for (;;) {
        if (cursor->inner != NULL && cursor->inner->type != CLI_TYPE_NONE)
            return cursor->inner++;
        cursor->inner = NULL;
        cursor->group = NULL;
        if (cursor->next == NULL || cursor->next->type == CLI_TYPE_NONE)
            return NULL;
        const struct cli_option *row = cursor->next++;
        if (row->type != CLI_TYPE_GROUP)
            return row;
        cursor->group = row;
        cursor->inner = row->group;
    }
}

bool cli_command_has_option(const struct cli_command *command, const char *name)
{
    struct cli_cursor cursor = {0};
    const struct cli_option *row;

    while ((row = cli_option_next(command->options, &cursor)) != NULL) {
        if (strcmp(row->name, name) == 0)
            return true;
    }
    return false;
}

unsigned cli_option_verbs(const struct cli_option *option, const struct cli_cursor *cursor)
{
    unsigned own = option->verbs != 0 ? option->verbs : ~0u;

    return cursor->group != NULL && cursor->group->verbs != 0 ? own & cursor->group->verbs : own;
}

bool cli_option_takes(const struct cli_option *option)
{
    return option->type != CLI_TYPE_FLAG && option->type != CLI_TYPE_JSON &&
           option->type != CLI_TYPE_VERBOSE && option->type != CLI_TYPE_HELP;
}

/* Adds word number `index` of `count` to a list in words: "a, b and c". */
static void table_join(char *out, size_t size, size_t index, size_t count, const char *last,
                       const char *word)
{
    size_t used = index == 0 ? 0 : strlen(out);
    const char *before = index == 0 ? "" : index + 1 == count ? last : ", ";

    snprintf(out + used, size - used, "%s%s", before, word);
}

bool cli_verbs_list(const struct cli_command *command, unsigned mask, char *out, size_t size)
{
    const struct cli_verb *verbs = command->verbs;
    unsigned count = 0, named = 0, all = 0;

    out[0] = '\0';
    for (; verbs != NULL && verbs[all].name != NULL; all++)
        count += mask >> all & 1;
    for (unsigned i = 0; i < all; i++) {
        if ((mask >> i & 1) != 0)
            table_join(out, size, named++, count, " and ", verbs[i].name);
    }
    return count < all;
}

const struct cli_option *cli_operands(const struct cli_command *command, size_t verb)
{
    return command->verbs != NULL ? command->verbs[verb].operands : command->operands;
}

void cli_operand_form(const struct cli_option *operand, char *out, size_t size)
{
    const char *more = operand->count != 0 ? "..." : "";

    snprintf(out, size, operand->optional ? "[%s]%s" : "%s%s", operand->name, more);
}

void cli_option_form(const struct cli_option *option, const char *no_letter, char *out, size_t size)
{
    char letter[8];

    snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(out, size,
             option->argument == NULL ? "%s--%s"
             : option->optional       ? "%s--%s[=%s]"
             : option->bare           ? "%s--%s [%s]"
                                      : "%s--%s %s",
             option->letter != 0 ? letter : no_letter, option->name, option->argument);
}

/* "belay cell run [OPTION]... FILE|-" */
static void table_usage(const struct cli_command *command, size_t verb, char *out, size_t size)
{
    const struct cli_option *operand = cli_operands(command, verb);
    const char *name = command->verbs != NULL ? command->verbs[verb].name : "";
    char form[80];

    int used = snprintf(out, size, "belay %s%s%s [OPTION]...%s", command->name,
                        command->verbs != NULL ? " " : "", name, command->passes ? " [--]" : "");
    for (; operand != NULL && operand->type != CLI_TYPE_NONE; operand++) {
        cli_operand_form(operand, form, sizeof form);
        used += snprintf(out + used, size - (size_t)used, " %s", form);
    }
}

bool cli_usage_line(const struct cli_command *command, size_t index, char *out, size_t size)
{
    const char *more = command->usage;
    struct cli_piece piece;
    size_t own = command->verbs == NULL;

    while (command->verbs != NULL && command->verbs[own].name != NULL)
        own++;
    if (command == &cli_program_command)
        own = 0;
    if (index < own) {
        table_usage(command, index, out, size);
        return true;
    }
    for (; more != NULL && cli_piece_next(&more, &piece); index--) {
        snprintf(out, size, "%.*s", (int)piece.size, piece.text);
        if (index == own)
            return true;
    }
    return false;
}

void cli_environment_text(const struct cli_command *command, char *out, size_t size)
{
    struct cli_cursor cursor = {0};
    const struct cli_option *option;
    int used = 0;

    out[0] = '\0';
    while ((option = cli_option_next(command->options, &cursor)) != NULL) {
        if (option->env != NULL)
            used += snprintf(out + used, size - (size_t)used, "%s\tDefault for `--%s`.\n",
                             option->env, option->name);
    }
    if (command->environment != NULL)
        snprintf(out + used, size - (size_t)used, "%s", command->environment);
}

/* ---- Valid values ---------------------------------------------------------------------------- */

static void table_duration(uint64_t ns, char out[32])
{
    uint64_t seconds = ns / NS_PER_S;

    if (seconds % 86400 == 0 && seconds > 86400)
        snprintf(out, 32, "%" PRIu64 " days", seconds / 86400);
    else if (seconds % 3600 == 0 && seconds > 0)
        snprintf(out, 32, "%" PRIu64 "h", seconds / 3600);
    else if (seconds % 60 == 0 && seconds > 60)
        snprintf(out, 32, "%" PRIu64 "m", seconds / 60);
    else
        snprintf(out, 32, "%" PRIu64 "s", seconds);
}

static void table_bytes(uint64_t bytes, char out[32])
{
    bool giga = bytes % (1u << 30) == 0;

    snprintf(out, 32, "%" PRIu64 "%c", bytes >> (giga ? 30 : 20), giga ? 'G' : 'M');
}

static void table_expected_duration(const struct cli_option *option, char *out, size_t size)
{
    char most[32];

    table_duration(option->most, most);
    if (option->most == 0)
        snprintf(out, size, "a duration such as %s", option->sample);
    else if (option->least < 0)
        snprintf(out, size, "a duration of at most %s, such as %s", most, option->sample);
    else if (option->least > 0)
        snprintf(out, size, "a duration above 0 and at most %s, such as %s", most, option->sample);
    else
        snprintf(out, size, "a duration from 0 to %s, such as %s", most, option->sample);
}

static void table_expected_choice(const struct cli_option *option, char *out, size_t size)
{
    size_t count = 0, named = 0;

    for (size_t i = 0; i < option->choice_count; i++)
        count += option->choices[i] != NULL;
    out[0] = '\0';
    for (size_t i = 0; i < option->choice_count; i++) {
        if (option->choices[i] != NULL)
            table_join(out, size, named++, count, " or ", option->choices[i]);
    }
}

void cli_option_expected(const struct cli_option *option, char *out, size_t size)
{
    char most[32];

    if (option->expected != NULL) {
        snprintf(out, size, "%s", option->expected);
    } else if (option->type == CLI_TYPE_COUNT && option->most != 0) {
        snprintf(out, size, "a whole number from %" PRId64 " to %" PRIu64, option->least,
                 option->most);
    } else if (option->type == CLI_TYPE_COUNT) {
        snprintf(out, size, "a whole number, %" PRId64 " or more", option->least);
    } else if (option->type == CLI_TYPE_NUMBER && option->highest > 0) {
        snprintf(out, size, "a number from %g to %g", option->lowest, option->highest);
    } else if (option->type == CLI_TYPE_NUMBER) {
        snprintf(out, size, "a number, 0 or more, such as %s", option->sample);
    } else if (option->type == CLI_TYPE_DURATION) {
        table_expected_duration(option, out, size);
    } else if (option->type == CLI_TYPE_BYTES && option->most != 0) {
        table_bytes(option->most, most);
        snprintf(out, size, "a number of bytes up to %s, such as %s", most, option->sample);
    } else if (option->type == CLI_TYPE_BYTES) {
        snprintf(out, size, "a number of bytes such as %s", option->sample);
    } else if (option->type == CLI_TYPE_CHOICE || option->type == CLI_TYPE_WORD ||
               option->type == CLI_TYPE_FORMAT) {
        table_expected_choice(option, out, size);
    } else if (option->type == CLI_TYPE_PATH) {
        snprintf(out, size, "the path of a file");
    } else if (option->type == CLI_TYPE_STORE) {
        snprintf(out, size, "the path of a file, or the address of a database");
    } else if (option->type == CLI_TYPE_REVISION) {
        snprintf(out, size, "a commit, branch or tag");
    } else {
        snprintf(out, size, "valid UTF-8");
    }
}

void cli_option_text(const struct cli_command *command, const struct cli_option *option,
                     const struct cli_cursor *cursor, char *out, size_t size)
{
    unsigned verbs = cli_option_verbs(option, cursor);
    unsigned group =
        cursor->group != NULL && cursor->group->verbs != 0 ? cursor->group->verbs : ~0u;
    char list[256];

    int used = snprintf(out, size, "%s", option->about);
    if (option->count != 0 && used >= 0 && (size_t)used < size)
        used += snprintf(out + used, size - (size_t)used, " Repeatable.");
    if (verbs != group && cli_verbs_list(command, verbs, list, sizeof list) && (size_t)used < size)
        used += snprintf(out + used, size - (size_t)used, " Only for %s.", list);
    if (option->initial != NULL && (size_t)used < size)
        snprintf(out + used, size - (size_t)used, " Default: `%s`.", option->initial);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* True if the line begins a new piece. */
static bool table_begins_piece(const char *line, size_t size)
{
    return size == 0 || strncmp(line, "- ", 2) == 0 || strncmp(line, "    ", 4) == 0 ||
           memchr(line, '\t', size) != NULL;
}

bool cli_piece_next(const char **text, struct cli_piece *ret_piece)
{
    const char *at = *text;
    bool gap = false;

    for (; *at == '\n'; at++)
        gap = true;
    if (*at == '\0')
        return false;
    size_t size = strcspn(at, "\n");
    const char *tab = memchr(at, '\t', size);
    *ret_piece = (struct cli_piece){.gap = gap, .text = at, .size = size};
    if (strncmp(at, "    ", 4) == 0) {
        *ret_piece = (struct cli_piece){CLI_PIECE_LITERAL, gap, NULL, 0, at + 4, size - 4};
        *text = at[size] == '\n' ? at + size + 1 : at + size;
        return true;
    }
    const char *end = at + size;
    while (*end == '\n' && !table_begins_piece(end + 1, strcspn(end + 1, "\n")))
        end += 1 + strcspn(end + 1, "\n");
    ret_piece->size = (size_t)(end - at);
    if (strncmp(at, "- ", 2) == 0)
        *ret_piece =
            (struct cli_piece){CLI_PIECE_BULLET, gap, NULL, 0, at + 2, ret_piece->size - 2};
    else if (tab != NULL)
        *ret_piece = (struct cli_piece){CLI_PIECE_TERM,     gap,     at,
                                        (size_t)(tab - at), tab + 1, (size_t)(end - tab - 1)};
    *text = *end == '\n' ? end + 1 : end;
    return true;
}

const char *cli_other_name(const struct cli_command *command, const char *word)
{
    const struct cli_other_name *row = command->other_names;

    for (; row != NULL && row->name != NULL; row++)
        if (strcmp(row->name, word) == 0)
            return row->ours;
    return NULL;
}
