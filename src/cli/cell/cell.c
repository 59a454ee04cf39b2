#include "cell.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

const char cli_cell_help[] =
    "Usage: belay cell run FILE|- [OPTION]...\n"
    "       belay cell serve [--socket PATH | --stdio] [--store FILE]\n"
    "       belay cell create FILE|- [--id ID]\n"
    "       belay cell observe ID [--generation N] [--yield-time DURATION]\n"
    "       belay cell terminate ID [--terminate-id ID]\n"
    "       belay cell release ID\n"
    "       belay cell list\n"
    "\n"
    "Runs JavaScript in cells: each in a process of its own, without files, network\n"
    "or other processes, under limits of time, memory and output. A cell can be\n"
    "watched, stopped, and asked about again: a reply that got lost loses nothing.\n"
    "\n"
    "  run        one cell, here: prints its output as it comes, and ends with it\n"
    "  serve      be the host of cells for other programs, until it is stopped\n"
    "  create     start a cell in that host, and print its id\n"
    "  observe    wait for output, or for the end; the same generation asked again\n"
    "             is answered the same. Without --generation the next one is asked\n"
    "             for, and what came before it is let go\n"
    "  terminate  end a cell, and print what it had written\n"
    "  release    let the host forget a cell that has ended\n"
    "  list       the cells of a session\n"
    "\n"
    "All but run and serve ask the host behind the socket; none is started for them.\n"
    "A session that nobody is connected to lives on for an hour, and its cells then\n"
    "end. 'belay cancel ID' ends a cell, too. docs/cells.md has the language.\n"
    "\n"
    "Options of run and create:\n"
    "      --timeout DURATION      end it then: 90, 500ms, 2.5m, 1h (default: 30m; at\n"
    "                              most 24h)\n"
    "      --memory BYTES          it may grow by so much (default: 64M; at most 1G)\n"
    "      --max-output BYTES      of output, as JSON (default: 4M; at most 16M)\n"
    "Options of run:\n"
    "      --tools WHICH           what its code may call: none (the default),\n"
    "                              read-only, all\n"
    "      --permission-mode MODE  of those calls: auto (the default), ask (refuses:\n"
    "                              nobody is there), read-only, yolo\n"
    "Options of the others:\n"
    "      --id ID                 of create: the cell's, a-z, 0-9 and '-', at most\n"
    "                              64; the same twice runs once\n"
    "      --generation N          of observe: which one, from 1 on\n"
    "      --yield-time DURATION   of observe: wait so long for output (default: 10s;\n"
    "                              at most 5m)\n"
    "      --terminate-id ID       of terminate: names this wish\n"
    "      --stdio                 of serve: frames on standard input and output\n"
    "\n"
    "Options:\n"
    "      --session ID            whose values it sees; without it run has one that\n"
    "                              is gone afterwards, and the others 'default'\n"
    "      --store FILE            of run and serve: where sessions are kept\n"
    "      --socket PATH           of the host (default: $XDG_RUNTIME_DIR/belay/\n"
    "                              cell.sock)\n"
    "      --json                  one line, as in docs/schemas/cell-run.json,\n"
    "                              docs/schemas/cell-observe.json and so on\n"
    "      --output-format FORMAT  text (the default) or json\n"
    "  -h, --help                  print this help\n"
    "\n"
    "Exit codes:\n"
    "  0    run: the cell has completed; the others: it was answered\n"
    "  1    the cell has ended with an error, there is none of that id, or it was\n"
    "       refused; no host is there\n"
    "  2    usage error\n"
    "  124  run: the deadline was reached\n"
    "  130  run, serve: stopped; or whoever read standard output is gone\n"
    "  143  run, serve: stopped by SIGTERM\n"
    "\n"
    "Environment:\n"
    "  BELAY_STORE        the store, where --store is not given; without either it is\n"
    "                     $XDG_DATA_HOME/belay/sessions.db\n"
    "  BELAY_CELL_WORKER  the program that runs cells, where it is not beside belay\n"
    "\n"
    "Examples:\n"
    "  echo 'text(6 * 7)' | belay cell run -\n"
    "  belay cell run count.js --tools read-only --timeout 30s --json\n"
    "  belay cell serve &\n"
    "  id=$(belay cell create job.js) && belay cell observe $id --yield-time 1m\n";

enum {
    OPTION_TIMEOUT = 512,
    OPTION_MEMORY,
    OPTION_MAX_OUTPUT,
    OPTION_TOOLS,
    OPTION_PERMISSION_MODE,
    OPTION_ID,
    OPTION_GENERATION,
    OPTION_YIELD_TIME,
    OPTION_TERMINATE_ID,
    OPTION_STDIO,
    OPTION_SESSION,
    OPTION_STORE,
    OPTION_SOCKET,
};

const struct option cli_cell_options[] = {
    {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"memory", required_argument, NULL, OPTION_MEMORY},
    {"max-output", required_argument, NULL, OPTION_MAX_OUTPUT},
    {"tools", required_argument, NULL, OPTION_TOOLS},
    {"permission-mode", required_argument, NULL, OPTION_PERMISSION_MODE},
    {"id", required_argument, NULL, OPTION_ID},
    {"generation", required_argument, NULL, OPTION_GENERATION},
    {"yield-time", required_argument, NULL, OPTION_YIELD_TIME},
    {"terminate-id", required_argument, NULL, OPTION_TERMINATE_ID},
    {"stdio", no_argument, NULL, OPTION_STDIO},
    {"session", required_argument, NULL, OPTION_SESSION},
    {"store", required_argument, NULL, OPTION_STORE},
    {"socket", required_argument, NULL, OPTION_SOCKET},
    {"json", no_argument, NULL, CLI_OPTION_JSON},
    {"output-format", required_argument, NULL, CLI_OPTION_OUTPUT_FORMAT},
    {"help", no_argument, NULL, CLI_OPTION_HELP},
    {0},
};

#define OF(verb) (1u << (verb))
#define ASKING                                                                                     \
    (OF(CELL_CREATE) | OF(CELL_OBSERVE) | OF(CELL_TERMINATE) | OF(CELL_RELEASE) | OF(CELL_LIST))

/* Whose option it is. */
static unsigned option_verbs(int option)
{
    switch (option) {
    case OPTION_TIMEOUT:
    case OPTION_MEMORY:
    case OPTION_MAX_OUTPUT: return OF(CELL_RUN) | OF(CELL_CREATE);
    case OPTION_TOOLS:
    case OPTION_PERMISSION_MODE: return OF(CELL_RUN);
    case OPTION_ID: return OF(CELL_CREATE);
    case OPTION_GENERATION:
    case OPTION_YIELD_TIME: return OF(CELL_OBSERVE);
    case OPTION_TERMINATE_ID: return OF(CELL_TERMINATE);
    case OPTION_STDIO: return OF(CELL_SERVE);
    case OPTION_SESSION: return OF(CELL_RUN) | ASKING;
    case OPTION_STORE: return OF(CELL_RUN) | OF(CELL_SERVE);
    default: return OF(CELL_SERVE) | ASKING;
    }
}

static const struct verb {
    const char *name;
    const char *operand; /* that it needs; NULL: it takes none */
    int (*perform)(struct cli_call *call, const struct cell_options *options);
} verbs[] = {
    [CELL_RUN] = {"run", "FILE", cell_run},           [CELL_SERVE] = {"serve", NULL, cell_serve},
    [CELL_CREATE] = {"create", "FILE", cell_ask},     [CELL_OBSERVE] = {"observe", "ID", cell_ask},
    [CELL_TERMINATE] = {"terminate", "ID", cell_ask}, [CELL_RELEASE] = {"release", "ID", cell_ask},
    [CELL_LIST] = {"list", NULL, cell_ask},
};

/* ---- Values ---------------------------------------------------------------------------------- */

static int refuse_value(const char *value, const char *expected, struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", NULL,
                 "'%.100s' is no value for it", value);
    bl_error_hint(error, "%s", expected);
    return BL_EINVAL;
}

static int parse_bytes(const char *value, uint64_t most, const char *expected, uint64_t *ret_bytes,
                       struct bl_error *error)
{
    if (cli_bytes_parse(value, ret_bytes) && *ret_bytes <= most)
        return 0;
    return refuse_value(value, expected, error);
}

static int parse_timeout(const char *value, struct cell_options *options, struct bl_error *error)
{
    int code = bl_duration_parse(bl_text_from(value), &options->timeout_ns, error);

    options->timed = true;
    if (code != 0 || options->timeout_ns <= (int64_t)(BL_CELL_DEADLINE_MS_MAX * BL_NS_PER_MS))
        return code;
    return refuse_value(value, "it is a duration of at most 24h", error);
}

static int parse_yield(const char *value, uint64_t *ret_ms, struct bl_error *error)
{
    int64_t ns;
    int code = bl_duration_parse(bl_text_from(value), &ns, error);

    if (code != 0)
        return code;
    if (ns < 0 || ns > (int64_t)(BL_CELL_YIELD_MS_MAX * BL_NS_PER_MS))
        return refuse_value(value, "it is a duration from 0 to 5m", error);
    *ret_ms = (uint64_t)ns / BL_NS_PER_MS;
    return 0;
}

static int parse_generation(const char *value, uint64_t *ret_generation, struct bl_error *error)
{
    int64_t number;

    if (value[0] < '0' || value[0] > '9' || bl_text_to_int64(bl_text_from(value), &number) != 0 ||
        number < 1 || number >= (int64_t)1 << 53)
        return refuse_value(value, "it is a whole number from 1 on", error);
    *ret_generation = (uint64_t)number;
    return 0;
}

static int parse_offer(const char *value, enum cell_offer *ret_offer, struct bl_error *error)
{
    static const char *const names[] = {"none", "read-only", "all"};

    for (size_t i = 0; i < BL_COUNT(names); i++) {
        if (strcmp(value, names[i]) != 0)
            continue;
        *ret_offer = (enum cell_offer)i;
        return 0;
    }
    return refuse_value(value, "it is none, read-only or all", error);
}

/* Cells, sessions and wishes to end have ids of one form. */
static int parse_id(const char *value, const char **ret_id, struct bl_error *error)
{
    size_t size = strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-");

    if (size == 0 || size > 64 || value[size] != '\0')
        return refuse_value(value, "an id has 1 to 64 of a-z, 0-9 and '-'", error);
    *ret_id = value;
    return 0;
}

static int take_option(int option, const char *value, struct cell_options *options,
                       struct bl_error *error)
{
    switch (option) {
    case OPTION_TIMEOUT: return parse_timeout(value, options, error);
    case OPTION_MEMORY:
        return parse_bytes(value, BL_CELL_MEMORY_MAX, "it is a number of bytes up to 1G, as 64M",
                           &options->memory_bytes, error);
    case OPTION_MAX_OUTPUT:
        return parse_bytes(value, BL_CELL_OUTPUT_MAX, "it is a number of bytes up to 16M, as 512K",
                           &options->output_bytes, error);
    case OPTION_TOOLS: return parse_offer(value, &options->offer, error);
    case OPTION_PERMISSION_MODE: return bl_permission_mode_parse(value, &options->mode, error);
    case OPTION_ID: return parse_id(value, &options->id, error);
    case OPTION_GENERATION: return parse_generation(value, &options->generation, error);
    case OPTION_YIELD_TIME: return parse_yield(value, &options->yield_ms, error);
    case OPTION_TERMINATE_ID: return parse_id(value, &options->terminate_id, error);
    case OPTION_STDIO: options->standard = true; return 0;
    case OPTION_SESSION: return parse_id(value, &options->session, error);
    case OPTION_STORE: options->store = value; return 0;
    case OPTION_SOCKET: options->socket = value; return 0;
    default: return BL_EINVAL;
    }
}

/* ---- The walk -------------------------------------------------------------------------------- */

struct walk {
    struct cell_options *options;
    int *given; /* options, in their order */
    size_t given_count;
};

static int find_verb(const char *name, struct cell_options *options, struct bl_error *error)
{
    struct bl_suggestion suggestion;

    bl_suggestion_init(&suggestion, name);
    for (size_t i = 0; i < BL_COUNT(verbs); i++) {
        bl_suggestion_offer(&suggestion, verbs[i].name);
        if (strcmp(verbs[i].name, name) != 0)
            continue;
        options->verb = (enum cell_verb)i;
        options->name = verbs[i].name;
        return 0;
    }
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", name,
                 "unknown verb '%.100s'", name);
    if (suggestion.best != NULL)
        bl_error_hint(error, "did you mean '%s'?", suggestion.best);
    else
        bl_error_hint(error, "there are run, serve, create, observe, terminate, release and list");
    return BL_EINVAL;
}

static int take(void *context, int option, const char *value, struct bl_error *error)
{
    struct walk *walk = context;
    struct cell_options *options = walk->options;

    if (option != CLI_ARGUMENT_OPERAND) {
        walk->given[walk->given_count++] = option;
        return take_option(option, value, options, error);
    }
    if (options->name == NULL)
        return find_verb(value, options, error);
    if (options->operand != NULL || verbs[options->verb].operand == NULL)
        return cli_arguments_refuse(value, error);
    options->operand = value;
    return 0;
}

/* The verb may stand behind its options. */
static int check_given(const struct walk *walk, struct bl_error *error)
{
    for (size_t i = 0; i < walk->given_count; i++) {
        if ((option_verbs(walk->given[i]) & OF(walk->options->verb)) == 0)
            return cli_option_refuse(cli_cell_options, walk->given[i], "cell", walk->options->name,
                                     error);
    }
    return 0;
}

static int check_operand(const struct cell_options *options, struct bl_error *error)
{
    const char *needed = verbs[options->verb].operand, *id;

    if (needed == NULL)
        return 0;
    if (options->operand == NULL) {
        bool file = strcmp(needed, "FILE") == 0;
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", needed,
                     file ? "no file with the source" : "no cell is named");
        bl_error_hint(error, file ? "'-' takes it from standard input"
                                  : "'belay cell list' lists those of a session");
        return BL_EINVAL;
    }
    if (strcmp(needed, "ID") != 0 || parse_id(options->operand, &id, error) == 0)
        return 0;
    bl_text_into(error->target, sizeof error->target, needed);
    return BL_EINVAL;
}

static int check_together(const struct cli_call *call, const struct cell_options *options,
                          struct bl_error *error)
{
    if (options->standard && options->socket != NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--stdio",
                            "--stdio and --socket name different ways to the host");
    if (options->standard && call->format != CLI_FORMAT_TEXT)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--json",
                            "with --stdio standard output belongs to the frames");
    if (options->verb == CELL_CREATE && options->timed && options->timeout_ns <= 0)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "--timeout",
                            "a cell that is created has some time to run");
    return 0;
}

static int settle(struct cell_options *options, struct bl_error *error)
{
    char *directory = bl_arena_alloc(&options->arena, PATH_MAX);

    options->directory = directory;
    if (getcwd(directory, PATH_MAX) == NULL)
        return bl_error_set(error, BL_ESYSTEM, BL_KIND_FILESYSTEM, "find the directory", NULL,
                            "the current folder is gone");
    if (options->verb != CELL_RUN && options->session == NULL)
        options->session = "default";
    if (options->verb != CELL_RUN && options->verb != CELL_SERVE)
        return 0;
    if (options->store == NULL)
        options->store = bl_variable("BELAY_STORE");
    return options->store != NULL ? 0
                                  : bl_store_default_path(&options->arena, &options->store, error);
}

static int read_arguments(struct cli_call *call, struct cell_options *options,
                          struct bl_error *error)
{
    struct walk walk = {.options = options};

    walk.given = bl_arena_alloc(&options->arena, ((size_t)call->count + 1) * sizeof *walk.given);
    int code = cli_arguments_read(call, false, take, &walk, error);
    if (code != 0)
        return code;
    if (options->name == NULL) {
        bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", "VERB",
                     "it is not said what to do");
        bl_error_hint(error, "there are run, serve, create, observe, terminate, release and list");
        return BL_EINVAL;
    }
    code = check_given(&walk, error);
    if (code == 0)
        code = check_operand(options, error);
    if (code == 0)
        code = check_together(call, options, error);
    return code != 0 ? code : settle(options, error);
}

uint64_t cell_deadline_ms(const struct cell_options *options)
{
    if (!options->timed || options->timeout_ns <= 0)
        return 0;
    /* Rounded up: what was asked for is never none. */
    return ((uint64_t)options->timeout_ns + BL_NS_PER_MS - 1) / BL_NS_PER_MS;
}

int cli_cell_run(struct cli_call *call)
{
    struct cell_options options = {.mode = BL_PERMISSION_AUTO, .yield_ms = BL_CELL_YIELD_MS};
    struct bl_error error = {0};
    int exit_code;

    bl_arena_init(&options.arena);
    int code = read_arguments(call, &options, &error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_early(call, &error);
    else
        exit_code = verbs[options.verb].perform(call, &options);
    bl_arena_done(&options.arena);
    return exit_code;
}
