/* Options, described once. One constant table per command gives its parser (arguments.c), `--help`
 * (help.c), its man page and its part of docs/reference/commands.md (document.c), and completion in
 * bash, zsh and fish (complete.c).
 *
 * A table is data alone: it names no function and no symbol of another room, so that the program
 * that writes the manuals runs on the build machine. Where a value goes is an offset in the
 * command's own struct; the type of the member is checked when the table is compiled.
 *
 * Texts have a light markup, the same for help, man pages and Markdown: paragraphs are separated by
 * an empty line; "- " begins a list item; "TERM<tab>text" is an item with a term; a line that
 * begins with four blanks is printed as it is; `backquotes` mark what is typed literally. */
#ifndef BELAY_CLI_OPTION_H
#define BELAY_CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_type {
    CLI_TYPE_NONE,     /* ends a table */
    CLI_TYPE_GROUP,    /* `group` is another table, shown under a heading of its own */
    CLI_TYPE_FLAG,     /* no argument: stores `value` */
    CLI_TYPE_ANY,      /* text that the command itself checks */
    CLI_TYPE_TEXT,     /* valid UTF-8 */
    CLI_TYPE_PATH,     /* not empty */
    CLI_TYPE_NAME,     /* 1 to `most` of `letters` */
    CLI_TYPE_REVISION, /* of git: not empty, and not an option of git's */
    CLI_TYPE_COUNT,    /* a whole number in decimal digits, from `least` to `most` */
    CLI_TYPE_NUMBER,   /* the same with a decimal point: from `lowest` to `highest` */
    CLI_TYPE_DURATION, /* 90, 90s, 500ms, 2.5m, 1h: from `least` to `most` nanoseconds */
    CLI_TYPE_BYTES,    /* 65536, 512K, 64M, 2G: from 1 to `most` */
    CLI_TYPE_CHOICE,   /* the index of one of `choices` */
    CLI_TYPE_WORD,     /* one of `choices`, by its name */
    CLI_TYPE_JSON,     /* --json, */
    CLI_TYPE_FORMAT,   /* --output-format with its `choices`, */
    CLI_TYPE_VERBOSE,  /* --verbose, */
    CLI_TYPE_HELP,     /* and --help: seen to by the parser */
};

/* What completes a value that `choices` does not list. */
enum cli_complete {
    CLI_COMPLETE_NOTHING,
    CLI_COMPLETE_FILES,
    CLI_COMPLETE_FOLDERS,
    CLI_COMPLETE_PROGRAMS,
    CLI_COMPLETE_COMMANDS,  /* of belay */
    CLI_COMPLETE_PROVIDERS, /* `choices`, and script:FILE */
    CLI_COMPLETE_SESSIONS,
    CLI_COMPLETE_RUNNING,
    CLI_COMPLETE_TOOLS,
    CLI_COMPLETE_CELLS,
    CLI_COMPLETE_FEATURES, /* that the store knows, and behind a slash their tasks */
    CLI_COMPLETE_PLANS,    /* of this repository */
    CLI_COMPLETE_REVISIONS,
};

/* One option, or one operand. */
struct cli_option {
    enum cli_type type;
    const char *name;       /* "timeout"; of an operand "FILE"; of a group its heading */
    char letter;            /* 0: none */
    const char *argument;   /* its name in the help */
    bool optional;          /* the argument, which is then given as --name=ARGUMENT; the operand */
    unsigned verbs;         /* CLI_VERB(…) of each verb that has it; 0: all */
    size_t at;              /* where the value goes, */
    size_t width;           /* and its size */
    size_t set;             /* offset + 1 of a bool that says it was given; 0: none */
    size_t count;           /* offset + 1 of a size_t: it is repeatable, and `at` is a list; 0: the
                               last one counts */
    int64_t least;          /* limits, by type */
    uint64_t most;          /* 0: none */
    uint64_t unit;          /* of a duration: stored in so many nanoseconds, rounded up; 0: 1 */
    double lowest, highest; /* 0, 0: any that is not negative */
    uint64_t value;         /* of a flag; 0: 1 */
    const char *letters;
    const char *const *choices; /* by value; NULL: not a value */
    size_t choice_count;
    const char *expected; /* what a wrong value should have been; NULL: by its type */
    const char *sample;   /* a value, for examples */
    const char *initial;  /* the default, as the help shows it; NULL: none worth saying */
    const char *env;      /* the variable that is used where the option is not given */
    bool env_later;       /* that variable is read where configuration files are */
    const char *about;    /* one or two sentences, for the help */
    const char *detail;   /* what the manual says besides; NULL: nothing */
    const char *hint;     /* of an operand: what to do when it is missing */
    enum cli_complete complete;
    const struct cli_option *group;
};

/* A subcommand. */
struct cli_verb {
    const char *name; /* NULL: ends a table */
    const char *about;
    const char *detail;                /* NULL: nothing */
    const struct cli_option *operands; /* NULL: none */
};

/* A further section of the manual. */
struct cli_topic {
    const char *title; /* NULL: ends a table */
    const char *text;
};

/* What `belay NAME` is. */
struct cli_command {
    const char *name;
    const char *summary;          /* one line in the list of commands */
    const char *usage;            /* further lines of the synopsis, a paragraph each; NULL: none */
    const char *about;            /* in help and manual */
    const char *detail;           /* in the manual alone, below it; NULL: nothing */
    const struct cli_verb *verbs; /* NULL: none */
    size_t verb_at;               /* an enum: the index of the verb */
    const struct cli_option *operands; /* where there are no verbs; NULL: none */
    const char *too_many;              /* the hint for an operand too many; NULL: the usual one */
    bool passes;                       /* the first operand begins another program's command line */
    const struct cli_option *options;
    const struct cli_topic *topics; /* NULL: none */
    const char *exits;              /* "0\tdone\n…" */
    const char *environment;        /* besides the variables of options; NULL: nothing */
    const char *files;              /* NULL: none */
    const char *examples;
    const char *see; /* words: commands, and pages of others such as bwrap(1) */
};

/* ---- Rows ------------------------------------------------------------------------------------ */

#define CLI_VERB(verb) (1u << (verb))

#define CLI_MEMBER(structure, member) (((structure *)0)->member)
/* The offset of a member that must have one of two types. */
#define CLI_AT(structure, member, this_type, that_type)                                            \
    (offsetof(structure, member) +                                                                 \
     0 * sizeof(struct {                                                                           \
         _Static_assert(                                                                           \
             _Generic(CLI_MEMBER(structure, member), this_type : 1, that_type : 1, default : 0),   \
             #member " has another type than the option");                                         \
         int nothing;                                                                              \
     }))
struct cli_no_type {
    int nothing;
};
#define CLI_SET(structure, member) (CLI_AT(structure, member, bool, struct cli_no_type) + 1)

#define CLI_ROW(kind, name_, letter_, argument_, structure, member, type_, or_type, ...)           \
    {                                                                                              \
        .type = (kind), .name = (name_), .letter = (letter_), .argument = (argument_),             \
        .at = CLI_AT(structure, member, type_, or_type),                                           \
        .width = sizeof CLI_MEMBER(structure, member), __VA_ARGS__                                 \
    }
#define CLI_FLAG(name, letter, structure, member, ...)                                             \
    CLI_ROW(CLI_TYPE_FLAG, name, letter, NULL, structure, member, bool, unsigned, __VA_ARGS__)
#define CLI_TEXT(name, letter, argument, structure, member, ...)                                   \
    CLI_ROW(CLI_TYPE_TEXT, name, letter, argument, structure, member, const char *,                \
            struct cli_no_type, __VA_ARGS__)
#define CLI_ANY(name, letter, argument, structure, member, ...)                                    \
    CLI_ROW(CLI_TYPE_ANY, name, letter, argument, structure, member, const char *,                 \
            struct cli_no_type, __VA_ARGS__)
#define CLI_PATH(name, letter, argument, structure, member, ...)                                   \
    CLI_ROW(CLI_TYPE_PATH, name, letter, argument, structure, member, const char *,                \
            struct cli_no_type, __VA_ARGS__)
#define CLI_NAME(name, letter, argument, structure, member, ...)                                   \
    CLI_ROW(CLI_TYPE_NAME, name, letter, argument, structure, member, const char *,                \
            struct cli_no_type, __VA_ARGS__)
#define CLI_REVISION(name, letter, argument, structure, member, ...)                               \
    CLI_ROW(CLI_TYPE_REVISION, name, letter, argument, structure, member, const char *,            \
            struct cli_no_type, __VA_ARGS__)
#define CLI_COUNT(name, letter, argument, structure, member, ...)                                  \
    CLI_ROW(CLI_TYPE_COUNT, name, letter, argument, structure, member, uint64_t, uint32_t,         \
            __VA_ARGS__)
#define CLI_NUMBER(name, letter, argument, structure, member, ...)                                 \
    CLI_ROW(CLI_TYPE_NUMBER, name, letter, argument, structure, member, double,                    \
            struct cli_no_type, __VA_ARGS__)
/* In nanoseconds, signed or not. */
#define CLI_DURATION(name, letter, structure, member, ...)                                         \
    CLI_ROW(CLI_TYPE_DURATION, name, letter, "DURATION", structure, member, int64_t, uint64_t,     \
            __VA_ARGS__)
/* In milliseconds. */
#define CLI_DURATION_MS(name, letter, structure, member, ...)                                      \
    CLI_ROW(CLI_TYPE_DURATION, name, letter, "DURATION", structure, member, uint32_t, uint64_t,    \
            .unit = 1000000, __VA_ARGS__)
#define CLI_BYTES(name, letter, structure, member, ...)                                            \
    CLI_ROW(CLI_TYPE_BYTES, name, letter, "BYTES", structure, member, uint64_t,                    \
            struct cli_no_type, __VA_ARGS__)
/* An enum, or a bool with two names; `names` is an array. */
#define CLI_CHOICE(name, letter, argument, structure, member, names, ...)                          \
    CLI_ROW(CLI_TYPE_CHOICE, name, letter, argument, structure, member, unsigned, bool,            \
            .choices = (names), .choice_count = sizeof(names) / sizeof(names)[0], __VA_ARGS__)
#define CLI_WORD(name, letter, argument, structure, member, names, ...)                            \
    CLI_ROW(CLI_TYPE_WORD, name, letter, argument, structure, member, const char *,                \
            struct cli_no_type, .choices = (names),                                                \
            .choice_count = sizeof(names) / sizeof(names)[0], __VA_ARGS__)
/* Repeatable; `kind` is that of each. */
#define CLI_LIST(kind, name, argument, structure, member, counted, ...)                            \
    CLI_ROW(kind, name, 0, argument, structure, member, const char **, const char *const *,        \
            .count = CLI_AT(structure, counted, size_t, struct cli_no_type) + 1, __VA_ARGS__)
/* `rows` under a heading; `mask`: the verbs that have them, 0 for all. */
#define CLI_GROUP(heading, mask, rows)                                                             \
    {                                                                                              \
        .type = CLI_TYPE_GROUP, .name = (heading), .verbs = (mask), .group = (rows)                \
    }

/* ---- Rows that several commands have --------------------------------------------------------- */

extern const char *const cli_format_names[3]; /* by enum cli_format */
extern const char *const cli_provider_names[6];
extern const char *const cli_sandbox_names[3];    /* by enum bl_sandbox */
extern const char *const cli_permission_names[4]; /* by enum bl_permission_mode */
extern const char *const cli_container_names[4];  /* by enum bl_mechanism; auto is none */
#define CLI_FORMATS        .choices = cli_format_names, .choice_count = 2
#define CLI_STREAM_FORMATS .choices = cli_format_names, .choice_count = 3

#define CLI_JSON_ROW(...)                                                                          \
    {                                                                                              \
        .type = CLI_TYPE_JSON, .name = "json", .about = "Same as `--output-format json`.",         \
        __VA_ARGS__                                                                                \
    }
#define CLI_FORMAT_ROW(...)                                                                        \
    {                                                                                              \
        .type = CLI_TYPE_FORMAT, .name = "output-format", .argument = "FORMAT", .initial = "text", \
        .sample = "json", __VA_ARGS__                                                              \
    }
#define CLI_HELP_ROW                                                                               \
    {                                                                                              \
        .type = CLI_TYPE_HELP, .name = "help", .letter = 'h', .about = "Print this help."          \
    }
#define CLI_VERBOSE_ROW                                                                            \
    {                                                                                              \
        .type = CLI_TYPE_VERBOSE, .name = "verbose", .letter = 'v',                                \
        .about = "Log every decision to standard error, as `BELAY_LOG=debug` does.",               \
        .detail = "`BELAY_LOG`, where it is set, says instead what is logged."                     \
    }
#define CLI_STORE_ROW(structure, member, ...)                                                      \
    CLI_PATH("store", 0, "FILE", structure, member, .env = "BELAY_STORE", .sample = "work.db",     \
             .initial = "$XDG_DATA_HOME/belay/sessions.db", .complete = CLI_COMPLETE_FILES,        \
             .about = "Store with sessions, features and receipts.", __VA_ARGS__)
#define CLI_PROVIDER_ROW(structure, member)                                                        \
    CLI_TEXT("provider", 0, "NAME", structure, member, .env = "BELAY_PROVIDER", .env_later = true, \
             .choices = cli_provider_names,                                                        \
             .choice_count = sizeof cli_provider_names / sizeof cli_provider_names[0],             \
             .complete = CLI_COMPLETE_PROVIDERS, .sample = "anthropic",                            \
             .about = "Provider: `anthropic`, `openai`, `openai-responses`, `ollama`, one from "   \
                      "the configuration, `script:FILE`, or `replay` with `--cassette`.",          \
             .detail = "`script:FILE`, or `script` with `--model FILE`, plays a file instead of "  \
                       "calling a model. `replay` answers from a recorded cassette.")
#define CLI_MODEL_ROW(structure, member)                                                           \
    CLI_TEXT("model", 0, "NAME", structure, member, .env = "BELAY_MODEL", .env_later = true,       \
             .complete = CLI_COMPLETE_FILES, .sample = "anthropic/claude-sonnet-5",                \
             .about = "Model of that provider. Without `--provider`: PROVIDER/MODEL, or a model "  \
                      "from the configuration.")
#define CLI_MCP_CONFIG_ROW(structure, member, counted)                                             \
    CLI_LIST(CLI_TYPE_PATH, "mcp-config", "FILE", structure, member, counted,                      \
             .complete = CLI_COMPLETE_FILES, .sample = "servers.json",                             \
             .about = "Also offer the tools of the MCP servers in FILE, which has the form of "    \
                      "`.mcp.json`.",                                                              \
             .detail =                                                                             \
                 "They come in addition to the servers in "                                        \
                 "`$XDG_CONFIG_HOME/belay/mcp.json` and in the project's `.mcp.json`. Their "      \
                 "tools are called `mcp__SERVER__TOOL`.")
#define CLI_TRUST_MCP_ROW(structure, member, ...)                                                  \
    CLI_FLAG("trust-mcp", 0, structure, member,                                                    \
             .about = "Start the servers in the project's `.mcp.json` without asking.",            \
             __VA_ARGS__)
#define CLI_SANDBOX_ROW(structure, member, ...)                                                    \
    CLI_CHOICE("sandbox", 0, "NAME", structure, member, cli_sandbox_names, .sample = "workspace",  \
               .about = "`workspace` (only the workspace and a private /tmp are writable, no "     \
                        "network), `read-only` or `off`.",                                         \
               .detail =                                                                           \
                   "Needs bwrap(1); a sandbox that is not available is an error. In either "       \
                   "sandbox, keys and tokens in the home folder (`.ssh`, `.aws`, `.netrc` "        \
                   "and others), sockets of the machine and belay's own folders are hidden, "      \
                   "and `.git/config` and `.git/hooks` are read-only.",                            \
               __VA_ARGS__)
#define CLI_CONTAINER_ROW(structure, member)                                                       \
    CLI_CHOICE("container", 0, "NAME", structure, member, cli_container_names, .initial = "auto",  \
               .sample = "cgroup2",                                                                \
               .about = "What contains the processes: `auto`, `pidns`, `cgroup2` or "              \
                        "`subreaper`.",                                                            \
               .detail = "`auto` is `cgroup2` where it works and `subreaper` otherwise; in a "     \
                         "sandbox, `pidns` where it works. One that is not available is an "       \
                         "error; `belay doctor` lists them.")
#define CLI_GRACE_ROW(structure, member, days, ...)                                                \
    CLI_DURATION_MS("grace", 0, structure, member, .most = (days), .sample = "2s",                 \
                    .initial = "200ms",                                                            \
                    .about = "Grace period: the time between SIGTERM and SIGKILL when a process "  \
                             "is stopped. 0 kills at once.",                                       \
                    __VA_ARGS__)
#define CLI_SECONDS(count) ((uint64_t)(count)*1000000000u)
/* A whole duration has any sign: zero and less means at once. */
#define CLI_ANY_SIGN   .least = INT64_MIN
#define CLI_ID_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789-"
#define CLI_ID_FORM                                                                                \
    .letters = CLI_ID_LETTERS, .most = 64, .expected = "1 to 64 characters: a-z, 0-9 and '-'",     \
    .sample = "nightly"

/* ---- Texts that several commands have -------------------------------------------------------- */

#define CLI_EXIT_USAGE_MEANING  "usage error"
#define CLI_EXIT_CLOSED_MEANING "output closed by the reader"
#define CLI_EXIT_USAGE_TEXT     "2\t" CLI_EXIT_USAGE_MEANING "\n"
#define CLI_EXIT_CLOSED_TEXT    "130\t" CLI_EXIT_CLOSED_MEANING "\n"

/* Exit codes, and what they mean in all commands but hold, which passes on those of its command. */
#define CLI_EXIT_TABLE(X)                                                                          \
    X(CLI_EXIT_OK, 0, "done")                                                                      \
    X(CLI_EXIT_FAILED, 1, "failed, or a stop could not be proved")                                 \
    X(CLI_EXIT_USAGE, 2, CLI_EXIT_USAGE_MEANING)                                                   \
    X(CLI_EXIT_LIMIT, 3, "a limit of turns, steps or budget was reached")                          \
    X(CLI_EXIT_TIMEOUT, 124, "the deadline was reached")                                           \
    X(CLI_EXIT_CLIENT_GONE, 130, "cancelled, or " CLI_EXIT_CLOSED_MEANING)                         \
    X(CLI_EXIT_TERMINATED, 143, "cancelled by SIGTERM")

enum cli_exit {
#define CLI_EXIT(name, code, meaning) name = (code),
    CLI_EXIT_TABLE(CLI_EXIT)
#undef CLI_EXIT
};

struct cli_exit_row {
    int code; /* -1: the end of the table */
    const char *meaning;
};
extern const struct cli_exit_row cli_exit_rows[];

struct cli_error_kind {
    int exit_code;
    const char *meaning;
};
extern const struct cli_error_kind cli_error_kinds[]; /* by enum bl_error_kind */

#define CLI_RUNTIME_FOLDER_TEXT                                                                    \
    "XDG_RUNTIME_DIR\tFolder for the control sockets of running belay processes, in "              \
    "`belay/control`. Without it they are in `/tmp/belay-UID/control`.\n"

/* ---- table.c: reading tables ----------------------------------------------------------------- */

/* In the order of the list in the help; ends in NULL. And the program itself. */
extern const struct cli_command *const cli_commands[];
extern const struct cli_command cli_program_command;

/* A walk over all options of a table, groups included. Zeroed at first. */
struct cli_cursor {
    const struct cli_option *next;
    const struct cli_option *inner; /* in the group; NULL: in none */
    const struct cli_option *group; /* that the option is in; NULL: none */
    bool begun;
};

/* The next option; NULL: that was all. */
const struct cli_option *cli_option_next(const struct cli_option *table, struct cli_cursor *cursor);
/* The verbs that have the option at the cursor; all bits: every one. */
unsigned cli_option_verbs(const struct cli_option *option, const struct cli_cursor *cursor);
bool cli_option_takes(const struct cli_option *option); /* an argument */
/* "run, resume and retry"; returns false when `mask` has all of the command's verbs. */
bool cli_verbs_list(const struct cli_command *command, unsigned mask, char *out, size_t size);
/* The operands of a verb, or of a command without verbs (`verb` is ignored); may be NULL. */
const struct cli_option *cli_operands(const struct cli_command *command, size_t verb);
/* "FILE", "[ID]", "ID..." for the synopsis. */
void cli_operand_form(const struct cli_option *operand, char *out, size_t size);
/* "-r, --resume ID"; `no_letter` is what stands in the place of a letter. */
void cli_option_form(const struct cli_option *option, const char *no_letter, char *out,
                     size_t size);
/* Line number `index` of the synopsis; false: there are no more. */
bool cli_usage_line(const struct cli_command *command, size_t index, char *out, size_t size);
/* The variables of its options, and those that it names besides; marked up. Empty: none. */
void cli_environment_text(const struct cli_command *command, char *out, size_t size);
/* What the help says of it: `about`, whether it is repeatable, whose it is, and its default. */
void cli_option_text(const struct cli_command *command, const struct cli_option *option,
                     const struct cli_cursor *cursor, char *out, size_t size);
/* What a value should be: "a whole number from 1 to 64", "a duration such as 90s". */
void cli_option_expected(const struct cli_option *option, char *out, size_t size);

/* A piece of marked-up text. */
struct cli_piece {
    enum {
        CLI_PIECE_PARAGRAPH,
        CLI_PIECE_BULLET,
        CLI_PIECE_TERM,
        CLI_PIECE_LITERAL, /* one line, without the four blanks */
    } kind;
    bool gap;         /* an empty line stood before it */
    const char *term; /* of CLI_PIECE_TERM */
    size_t term_size;
    const char *text;
    size_t size;
};

/* Takes the next piece off `*text`; false: nothing is left. */
bool cli_piece_next(const char **text, struct cli_piece *ret_piece);

#endif
