/* Design notes.
 *
 * A command line is read in two passes. The first splits it into options with their arguments, and
 * operands. When the verb is known, the second looks up each option among those of the verb, and
 * checks and stores its value. So the verb may follow its options, and two verbs may have an option
 * of the same name with different values. */
#include "table/option.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <belay/store.h>

#include "cli.h"

struct option_given {
    const char *name; /* of the row */
    const char *value;
};

struct option_reader {
    struct cli_call *call;
    const struct cli_command *command;
    char *into;
    struct bl_arena *arena; /* for lists; NULL if the command has none */
    struct bl_arena own;
    struct option_given *given;
    size_t given_count;
    const char **operands;
    size_t operand_count;
    unsigned verb;
    struct bl_error *error;
};

/* Adds the suggestion `meant` or else the hint; returns BL_EINVAL. */
static int option_hint(struct bl_error *error, const char *meant, const char *hint)
{
    if (meant != NULL)
        bl_error_hint(error, "did you mean '%s'?", meant);
    else if (hint != NULL)
        bl_error_hint(error, "%s", hint);
    return BL_EINVAL;
}

int cli_value_refuse(const char *name, const char *value, const char *expected,
                     struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", name,
                 "invalid value '%.100s' for %s (expected %s)", value, name, expected);
    return BL_EINVAL;
}

const char *cli_word_shown(struct bl_arena *arena, const char *word)
{
    return bl_store_shown(arena, word);
}

int cli_operand_refuse(const char *operand, const char *hint, struct bl_error *error)
{
    BL_AUTO_ARENA(arena);

    operand = cli_word_shown(&arena, operand);
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", operand,
                 "unexpected argument '%s'", operand);
    return option_hint(error, NULL, hint != NULL ? hint : "--help shows the usage");
}

/* ---- The first pass -------------------------------------------------------------------------- */

/* Returns the first row with that name or letter, of any verb. */
static const struct cli_option *option_find(const struct cli_command *command, struct bl_text name,
                                            char letter)
{
    struct cli_cursor cursor = {0};
    const struct cli_option *row;

    while ((row = cli_option_next(command->options, &cursor)) != NULL) {
        if (letter != 0 ? row->letter == letter : bl_text_equal(bl_text_from(row->name), name))
            return row;
    }
    return NULL;
}

static int option_unknown(const struct option_reader *reader, struct bl_text name)
{
    struct bl_suggestion suggestion;
    struct cli_cursor cursor = {0};
    const struct cli_option *row;
    char word[104], best[64];

    snprintf(word, sizeof word, "--" BL_TEXT_FORMAT, (int)(name.size < 100 ? name.size : 100),
             name.data);
    bl_suggestion_init(&suggestion, word + 2);
    while ((row = cli_option_next(reader->command->options, &cursor)) != NULL)
        bl_suggestion_offer(&suggestion, row->name);
    bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line", word,
                 "unknown option '%s'", word);
    const char *ours = cli_other_name(reader->command, word);
    if (ours != NULL) {
        bl_error_hint(reader->error, "use '%s'", ours);
        return BL_EINVAL;
    }
    if (suggestion.best != NULL)
        snprintf(best, sizeof best, "--%s", suggestion.best);
    return option_hint(reader->error, suggestion.best != NULL ? best : NULL,
                       "--help lists the options");
}

/* Records one option. Returns 0, CLI_OPTION_HELP, or an error. */
static int option_give(struct option_reader *reader, const struct cli_option *row,
                       const char *shown, const char *value)
{
    if (row->type == CLI_TYPE_HELP && value == NULL)
        return CLI_OPTION_HELP;
    if (!cli_option_takes(row) && value != NULL) {
        bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line", shown,
                     "option '--%s' takes no argument", row->name);
        return BL_EINVAL;
    }
    if (cli_option_takes(row) && value == NULL && !row->optional && !row->bare)
        return bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line", shown,
                            "option '%s' needs an argument", shown);
    reader->given[reader->given_count++] = (struct option_given){row->name, value};
    return 0;
}

/* Takes the next word as the argument, if there is one. Names and files that begin with a dash must
 * be written with '=': without it, such a word is taken for the next option, and the argument for
 * missing. */
static int option_take_next(struct option_reader *reader, const struct cli_option *row,
                            const char *shown, int *index, const char **ret_value)
{
    const char *word;

    if (!cli_option_takes(row) || row->optional || *index + 1 >= reader->call->count)
        return 0;
    word = reader->call->arguments[*index + 1];
    if (row->bare && word[0] == '-')
        return 0;
    if ((row->type == CLI_TYPE_NAME || row->type == CLI_TYPE_PATH || row->type == CLI_TYPE_STORE) &&
        word[0] == '-' && word[1] != '\0') {
        bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line", shown,
                     "option '%s' needs an argument, but '%.100s' looks like an option", shown,
                     word);
        bl_error_hint(reader->error, "if it is the argument, write '--%s=%.100s'", row->name, word);
        return BL_EINVAL;
    }
    *ret_value = word;
    ++*index;
    return 0;
}

static int option_take_long(struct option_reader *reader, int *index)
{
    const char *word = reader->call->arguments[*index];
    const char *equals = strchr(word, '=');
    struct bl_text name = bl_text_from(word + 2);

    if (equals != NULL)
        name.size = (size_t)(equals - word - 2);
    const struct cli_option *row = option_find(reader->command, name, 0);
    if (row == NULL)
        return option_unknown(reader, name);
    const char *value = equals != NULL ? equals + 1 : NULL;
    int code = value == NULL ? option_take_next(reader, row, word, index, &value) : 0;
    return code == 0 ? option_give(reader, row, word, value) : code;
}

/* Takes a word of letters; after an option with an argument, the rest of the word is its argument.
 */
static int option_take_letters(struct option_reader *reader, int *index)
{
    const char *word = reader->call->arguments[*index];
    int code = 0;

    for (const char *at = word + 1; *at != '\0' && code == 0; at++) {
        char shown[3] = {'-', *at, '\0'};
        const struct cli_option *row = option_find(reader->command, (struct bl_text){0}, *at);
        const char *value = NULL;
        if (row == NULL) {
            bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line", shown,
                         "unknown option '%s'", shown);
            return option_hint(reader->error, NULL, "--help lists the options");
        }
        if (cli_option_takes(row)) {
            if (at[1] != '\0')
                value = at + 1;
            else
                code = option_take_next(reader, row, shown, index, &value);
            return code == 0 ? option_give(reader, row, shown, value) : code;
        }
        code = option_give(reader, row, shown, NULL);
    }
    return code;
}

static int option_walk(struct option_reader *reader)
{
    struct cli_call *call = reader->call;
    bool ended = false;
    int code = 0;

    for (int i = 1; i < call->count && code == 0; i++) {
        char *word = call->arguments[i];
        if (!ended && strcmp(word, "--") == 0) {
            ended = true;
        } else if (!ended && strncmp(word, "--", 2) == 0) {
            code = option_take_long(reader, &i);
        } else if (!ended && word[0] == '-' && word[1] != '\0') {
            code = option_take_letters(reader, &i);
        } else if (reader->command->passes) {
            call->rest = call->arguments + i;
            return 0;
        } else {
            reader->operands[reader->operand_count++] = word;
        }
    }
    return code;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Parses a number of bytes from 1 on, with an optional unit: K, M or G, powers of 1024. */
static bool option_parse_bytes(const char *value, uint64_t *ret_bytes)
{
    static const char units[] = "KMG";
    struct bl_text text = bl_text_from(value);
    unsigned shift = 0;
    int64_t number;

    if (text.size > 0) {
        const char *unit = strchr(units, text.data[text.size - 1]);
        if (unit != NULL) {
            shift = 10 * (unsigned)(unit - units + 1);
            text.size--;
        }
    }
    if (text.size == 0 || text.data[0] < '0' || text.data[0] > '9' ||
        bl_text_to_int64(text, &number) != 0 || number < 1 || number > INT64_MAX >> shift)
        return false;
    *ret_bytes = (uint64_t)number << shift;
    return true;
}

/* Accepts only decimal digits, and only a number that fits 64 bits. */
static bool option_parse_count(const struct cli_option *row, const char *value, uint64_t *ret_count)
{
    uint64_t count = 0;

    for (const char *digit = value; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9')
            return false;
        unsigned more = (unsigned)(*digit - '0');
        if (count > (UINT64_MAX - more) / 10)
            return false;
        count = count * 10 + more;
    }
    *ret_count = count;
    return value[0] != '\0' && count >= (uint64_t)row->least &&
           count <= (row->most != 0 ? row->most : UINT64_MAX);
}

/* Accepts digits with an optional decimal point: no sign, no exponent, no "inf" or "nan". */
static bool option_parse_number(const struct cli_option *row, const char *value, double *ret_number)
{
    size_t whole = strspn(value, "0123456789");
    size_t point = value[whole] == '.';
    size_t fraction = strspn(value + whole + point, "0123456789");

    *ret_number = strtod(value, NULL);
    return whole + fraction > 0 && value[whole + point + fraction] == '\0' &&
           isfinite(*ret_number) && *ret_number >= row->lowest &&
           (row->highest == 0 || *ret_number <= row->highest);
}

static bool option_parse_duration(const struct cli_option *row, const char *value,
                                  uint64_t *ret_units)
{
    uint64_t unit = row->unit != 0 ? row->unit : 1;
    int64_t ns;

    if (bl_duration_parse(bl_text_from(value), &ns, NULL) != 0 || ns < row->least ||
        (row->most != 0 && ns > (int64_t)row->most))
        return false;
    /* Rounded up, so that a positive time never becomes 0. */
    *ret_units = unit == 1 ? (uint64_t)ns : ((uint64_t)ns + unit - 1) / unit;
    return true;
}

static bool option_parse_text(const struct cli_option *row, const char *value)
{
    size_t size = strlen(value);

    if (row->type == CLI_TYPE_ANY)
        return true;
    if (row->type == CLI_TYPE_PATH || row->type == CLI_TYPE_STORE)
        return size > 0;
    if (row->type == CLI_TYPE_NAME)
        return size > 0 && size <= row->most && strspn(value, row->letters) == size;
    if (row->type == CLI_TYPE_REVISION && (size == 0 || value[0] == '-'))
        return false;
    return bl_utf8_valid(bl_text_from(value)) &&
           (row->most == 0 || (size > 0 && size <= row->most));
}

static bool option_parse_choice(const struct cli_option *row, const char *value,
                                uint64_t *ret_index, const char **ret_near)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, value);
    for (size_t i = 0; i < row->choice_count; i++) {
        if (row->choices[i] == NULL)
            continue;
        bl_suggestion_offer(&suggestion, row->choices[i]);
        if (strcmp(value, row->choices[i]) != 0)
            continue;
        *ret_index = i;
        return true;
    }
    *ret_near = suggestion.best;
    return false;
}

/* Checks a value; `*ret_bits` has it in the form in which it is stored. */
static bool option_parse(const struct cli_option *row, const char *value, uint64_t *ret_bits,
                         const char **ret_near)
{
    const char *kept = value;
    double number = 0;
    bool right;

    switch (row->type) {
    case CLI_TYPE_FLAG: *ret_bits = row->value != 0 ? row->value : 1; return true;
    case CLI_TYPE_COUNT: return option_parse_count(row, value, ret_bits);
    case CLI_TYPE_DURATION: return option_parse_duration(row, value, ret_bits);
    case CLI_TYPE_BYTES:
        return option_parse_bytes(value, ret_bits) && (row->most == 0 || *ret_bits <= row->most);
    case CLI_TYPE_FORMAT:
    case CLI_TYPE_CHOICE: return option_parse_choice(row, value, ret_bits, ret_near);
    case CLI_TYPE_NUMBER:
        right = option_parse_number(row, value, &number);
        memcpy(ret_bits, &number, sizeof number);
        return right;
    case CLI_TYPE_WORD:
        right = option_parse_choice(row, value, ret_bits, ret_near);
        kept = right ? row->choices[*ret_bits] : NULL;
        break;
    case CLI_TYPE_ANY:
    case CLI_TYPE_TEXT:
    case CLI_TYPE_PATH:
    case CLI_TYPE_STORE:
    case CLI_TYPE_NAME:
    case CLI_TYPE_REVISION: right = option_parse_text(row, value); break;
    case CLI_TYPE_JSON: *ret_bits = CLI_FORMAT_JSON; return true;
    case CLI_TYPE_VERBOSE: return true;
    case CLI_TYPE_HELP:
    case CLI_TYPE_GROUP:
    case CLI_TYPE_NONE:
    default: assert(!"an option of that type has no value"); return false;
    }
    memcpy(ret_bits, &kept, sizeof kept);
    return right;
}

/* ---- Storing values -------------------------------------------------------------------------- */

static void option_put(char *into, const struct cli_option *row, uint64_t bits)
{
    void *at = into + row->at;

    switch (row->width) {
    case 1: *(uint8_t *)at = (uint8_t)bits; break;
    case 4: *(uint32_t *)at = (uint32_t)bits; break;
    default: memcpy(at, &bits, sizeof bits); break;
    }
}

/* A list ends in NULL, and has room for every word of the command line. */
static void option_append(struct option_reader *reader, const struct cli_option *row,
                          const char *value)
{
    const char ***list = (const char ***)(void *)(reader->into + row->at);
    size_t *count = (size_t *)(void *)(reader->into + row->count - 1);

    assert(reader->arena != NULL);
    if (*list == NULL)
        *list = bl_arena_zalloc(reader->arena, ((size_t)reader->call->count + 1) * sizeof **list);
    (*list)[(*count)++] = value;
}

/* `shown` is the option's name for the user. */
static int option_store(struct option_reader *reader, const struct cli_option *row,
                        const char *shown, const char *value)
{
    const char *near = NULL;
    char expected[160];
    uint64_t bits = 0;

    if (row->set != 0)
        *(bool *)(void *)(reader->into + row->set - 1) = true;
    if ((row->optional || row->bare) && value == NULL)
        return 0;
    if (!option_parse(row, value, &bits, &near)) {
        cli_option_expected(row, expected, sizeof expected);
        cli_value_refuse(shown, value, expected, reader->error);
        return option_hint(reader->error, near, NULL);
    }
    if (row->type == CLI_TYPE_FORMAT || row->type == CLI_TYPE_JSON)
        reader->call->format = (enum cli_format)bits;
    else if (row->type == CLI_TYPE_VERBOSE)
        cli_log_verbose();
    else if (row->count != 0)
        option_append(reader, row, value);
    else
        option_put(reader->into, row, bits);
    return 0;
}

/* ---- Verbs and operands ---------------------------------------------------------------------- */

static int option_take_verb(struct option_reader *reader)
{
    const struct cli_verb *verbs = reader->command->verbs;
    const char *name = reader->operand_count > 0 ? reader->operands[0] : NULL;
    struct bl_suggestion suggestion;
    char all[256], hint[280];
    BL_AUTO_ARENA(arena);
    size_t count = 0;

    bl_suggestion_init(&suggestion, name != NULL ? name : "");
    for (; verbs[count].name != NULL; count++) {
        bl_suggestion_offer(&suggestion, verbs[count].name);
        if (name == NULL || strcmp(name, verbs[count].name) != 0)
            continue;
        reader->verb = (unsigned)count;
        reader->operands++;
        reader->operand_count--;
        *(unsigned *)(void *)(reader->into + reader->command->verb_at) = (unsigned)count;
        return 0;
    }
    if (reader->command->verb_implied && (name == NULL || suggestion.best == NULL)) {
        reader->verb = 0;
        return 0;
    }
    cli_verbs_list(reader->command, ~0u, all, sizeof all);
    snprintf(hint, sizeof hint, "expected %s", all);
    if (name == NULL)
        bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "SUBCOMMAND",
                     "missing subcommand");
    else
        bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line",
                     cli_word_shown(&arena, name), "unknown subcommand '%.100s'",
                     cli_word_shown(&arena, name));
    const char *ours = name != NULL ? cli_other_name(reader->command, name) : NULL;
    if (ours != NULL) {
        bl_error_hint(reader->error, "use '%s'", ours);
        return BL_EINVAL;
    }
    return option_hint(reader->error, name != NULL ? suggestion.best : NULL, hint);
}

/* Returns the verb's row of that name, or NULL if the verb has no such option. */
static const struct cli_option *option_of_verb(const struct option_reader *reader, const char *name)
{
    struct cli_cursor cursor = {0};
    const struct cli_option *row;

    while ((row = cli_option_next(reader->command->options, &cursor)) != NULL) {
        if (strcmp(row->name, name) == 0 &&
            (cli_option_verbs(row, &cursor) & CLI_VERB(reader->verb)) != 0)
            return row;
    }
    return NULL;
}

/* Refuses a password on the command line, which every user of the machine can read. */
static int option_check_password(const struct option_reader *reader, const char *shown,
                                 const char *value)
{
    BL_AUTO_ARENA(arena);
    struct bl_text password;

    if (value == NULL || !bl_store_password(&arena, value, &password))
        return 0;
    bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line", shown,
                 "the address for %s has a password, and command lines are visible to all users",
                 shown);
    bl_error_hint(reader->error, "put the address into BELAY_STORE, or the password into the file "
                                 "of PGPASSFILE (~/.pgpass) or a service file");
    return BL_EINVAL;
}

static int option_store_given(struct option_reader *reader)
{
    int code = 0;

    for (size_t i = 0; i < reader->given_count && code == 0; i++) {
        const struct option_given *given = &reader->given[i];
        const struct cli_option *row = option_of_verb(reader, given->name);
        char shown[72];
        snprintf(shown, sizeof shown, "--%s", given->name);
        if (row == NULL) {
            bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line", shown,
                         "'%s %s' has no option '%s'", reader->command->name,
                         reader->command->verbs[reader->verb].name, shown);
            return option_hint(reader->error, NULL, "--help lists the options of each subcommand");
        }
        if (row->type == CLI_TYPE_STORE)
            code = option_check_password(reader, shown, given->value);
        if (code == 0)
            code = option_store(reader, row, shown, given->value);
    }
    return code;
}

/* Stores the values of variables for options that are not given. */
static int option_store_environment(struct option_reader *reader)
{
    struct cli_cursor cursor = {0};
    const struct cli_option *row;
    int code = 0;

    while ((row = cli_option_next(reader->command->options, &cursor)) != NULL && code == 0) {
        const char *value = row->env != NULL && !row->env_later ? bl_variable(row->env) : NULL;
        if (value == NULL || (cli_option_verbs(row, &cursor) & CLI_VERB(reader->verb)) == 0)
            continue;
        bool given = false;
        for (size_t i = 0; i < reader->given_count; i++)
            given = given || strcmp(reader->given[i].name, row->name) == 0;
        if (!given)
            code = option_store(reader, row, row->env, value);
    }
    return code;
}

static int option_store_operands(struct option_reader *reader)
{
    const struct cli_option *row = cli_operands(reader->command, reader->verb);
    size_t next = 0;
    int code = 0;

    for (; row != NULL && row->type != CLI_TYPE_NONE && code == 0; row++) {
        if (next >= reader->operand_count && !row->optional) {
            bl_error_set(reader->error, BL_EINVAL, BL_KIND_USAGE, "read the command line",
                         row->name, "missing argument %s", row->name);
            return option_hint(reader->error, NULL, row->hint);
        }
        do {
            if (next < reader->operand_count)
                code = option_store(reader, row, row->name, reader->operands[next++]);
        } while (code == 0 && row->count != 0 && next < reader->operand_count);
    }
    if (code == 0 && next < reader->operand_count)
        code = cli_operand_refuse(reader->operands[next], reader->command->too_many, reader->error);
    return code;
}

/* ---- The whole command line ------------------------------------------------------------------ */

static int option_read(struct option_reader *reader)
{
    int code = option_walk(reader);

    if (code == 0 && reader->command->verbs != NULL)
        code = option_take_verb(reader);
    if (code == 0)
        code = option_store_given(reader);
    if (code == 0)
        code = option_store_environment(reader);
    if (code == 0 && reader->call->rest == NULL)
        code = option_store_operands(reader);
    return code;
}

int cli_options_read(struct cli_call *call, void *into, struct bl_arena *arena,
                     struct bl_error *error)
{
    size_t room = 1;

    /* A word of several letters holds several options. */
    for (int i = 1; i < call->count; i++)
        room += 1 + strlen(call->arguments[i]);
    struct option_reader reader = {
        .call = call, .command = call->command, .into = into, .arena = arena, .error = error};
    bl_arena_init(&reader.own);
    reader.given = bl_arena_alloc(&reader.own, room * sizeof *reader.given);
    reader.operands =
        bl_arena_alloc(&reader.own, ((size_t)call->count + 1) * sizeof *reader.operands);
    int code = option_read(&reader);
    bl_arena_done(&reader.own);
    return code;
}
