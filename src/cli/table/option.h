/* Options, described once. One constant table per command gives its parser (arguments.c), `--help`
 * (help.c), its man page and its part of docs/reference/commands.md (document.c), and completion in
 * bash, zsh and fish (complete.c).
 *
 * A table is data only: it refers to no function and to no symbol of another room, so that the
 * program that writes the manuals can run on the build machine. A value is stored at an offset in
 * the command's own struct; the compiler checks the type of the member.
 *
 * Texts have a light markup, the same for help, man pages and Markdown: paragraphs are separated by
 * an empty line; "- " begins a list item; "TERM<tab>text" is an item with a term; a line that
 * begins with four blanks is printed verbatim; `backquotes` mark literal text. */
#ifndef BELAY_CLI_OPTION_H
#define BELAY_CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_type {
    CLI_TYPE_NONE,  /* ends a table */
    CLI_TYPE_GROUP, /* `group` is another table, shown under a heading of its own */
    CLI_TYPE_FLAG,  /* no argument: stores `value` */
    CLI_TYPE_ANY,   /* text that the command itself checks */
    CLI_TYPE_TEXT,  /* valid UTF-8 */
    CLI_TYPE_PATH,  /* not empty */
    CLI_TYPE_STORE, /* a path, or the address of a database; on the command line without password */
    CLI_TYPE_NAME,  /* 1 to `most` of `letters` */
    CLI_TYPE_REVISION, /* of Git: not empty, and does not begin with '-' */
    CLI_TYPE_COUNT,    /* a whole number in decimal digits, from `least` to `most` */
    CLI_TYPE_NUMBER,   /* the same with a decimal point: from `lowest` to `highest` */
    CLI_TYPE_DURATION, /* 90, 90s, 500ms, 2.5m, 1h: from `least` to `most` nanoseconds */
    CLI_TYPE_BYTES,    /* 65536, 512K, 64M, 2G: from 1 to `most` */
    CLI_TYPE_CHOICE,   /* the index of one of `choices` */
    CLI_TYPE_WORD,     /* one of `choices`, by its name */
    CLI_TYPE_JSON,     /* --json; this and the following types are handled by the parser */
    CLI_TYPE_FORMAT,   /* --output-format with its `choices` */
    CLI_TYPE_VERBOSE,  /* --verbose */
    CLI_TYPE_HELP,     /* --help */
};

/* How to complete a value that `choices` does not list. */
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
    CLI_COMPLETE_FEATURES, /* features in the store and, after a slash, their tasks */
    CLI_COMPLETE_PLANS,    /* of this repository */
    CLI_COMPLETE_REVISIONS,
};

/* One option, or one operand. */
struct cli_option {
    enum cli_type type;
    const char *name;     /* "timeout"; for an operand "FILE"; for a group its heading */
    char letter;          /* 0 if none */
    const char *argument; /* name of the argument in the help */
    bool optional;        /* an option's argument, then given as --name=ARGUMENT; or the operand */
    bool bare;            /* the argument may be left out at the end or before another option */
    unsigned verbs;       /* CLI_VERB(…) of each verb that has the option; 0 for all verbs */
    size_t at;            /* offset of the value in the command's struct */
    size_t width;         /* size of the value */
    size_t set;           /* offset + 1 of a bool that is set if the option is given; 0 if none */
    size_t count;         /* offset + 1 of a size_t for a repeatable option, whose `at` is a list;
                               0: the last value wins */
    int64_t least;        /* limits, by type */
    uint64_t most;        /* 0 if unlimited */
    uint64_t unit;        /* of a duration: nanoseconds per stored unit, rounded up; 0 means 1 */
    double lowest, highest; /* both 0: any number that is not negative */
    uint64_t value;         /* of a flag; 0 means 1 */
    const char *letters;
    const char *const *choices; /* by value; a NULL entry is not a value */
    size_t choice_count;
    const char *expected; /* the valid values, for errors; NULL derives them from the type */
    const char *sample;   /* a value, for examples */
    const char *initial;  /* the default shown in the help; NULL if none is shown */
    const char *env;      /* variable that gives the default */
    bool env_later;       /* the variable is read later, with the configuration files */
    const char *about;    /* one or two sentences, for the help */
    const char *detail;   /* text for the manual only; NULL if none */
    const char *hint;     /* of an operand: the hint if it is missing */
    enum cli_complete complete;
    const struct cli_option *group;
};

/* A subcommand. */
struct cli_verb {
    const char *name; /* NULL: ends a table */
    const char *about;
    const char *detail;                /* NULL if none */
    const struct cli_option *operands; /* NULL if none */
};

/* A name that other tools use for a command, subcommand or option ("--max-turns"), and belay's name
 * for it. */
struct cli_other_name {
    const char *name; /* NULL: ends a table */
    const char *ours;
};

/* An additional section of the manual. */
struct cli_topic {
    const char *title; /* NULL: ends a table */
    const char *text;
};

/* The command `belay NAME`. */
struct cli_command {
    const char *name;
    const char *summary;          /* one line in the list of commands */
    const char *usage;            /* more lines of the synopsis, a paragraph each; NULL if none */
    const char *about;            /* for help and manual */
    const char *detail;           /* follows `about` in the manual only; NULL if none */
    const struct cli_verb *verbs; /* NULL if none */
    size_t verb_at;               /* offset of an enum that gets the index of the verb */
    bool verb_implied;            /* the first verb may be left out */
    const struct cli_option *operands;        /* of a command without verbs; NULL if none */
    const struct cli_other_name *other_names; /* NULL if none */
    const char *too_many; /* hint for a surplus operand; NULL for the default hint */
    bool passes;          /* the first operand begins another program's command line */
    const struct cli_option *options;
    const struct cli_topic *topics; /* NULL if none */
    const char *exits;              /* "0\tdone\n…" */
    const char *environment;        /* variables besides those of options; NULL if none */
    const char *files;              /* NULL if none */
    const char *examples;
    const char *see; /* separated by blanks: commands, and other pages such as bwrap(1) */
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
#define CLI_STORE(name, letter, argument, structure, member, ...)                                  \
    CLI_ROW(CLI_TYPE_STORE, name, letter, argument, structure, member, const char *,               \
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
/* Repeatable; `kind` is the type of each value. */
#define CLI_LIST(kind, name, argument, structure, member, counted, ...)                            \
    CLI_ROW(kind, name, 0, argument, structure, member, const char **, const char *const *,        \
            .count = CLI_AT(structure, counted, size_t, struct cli_no_type) + 1, __VA_ARGS__)
/* `rows` under a heading; `mask` has the verbs that accept them, 0 for all. */
#define CLI_GROUP(heading, mask, rows)                                                             \
    {                                                                                              \
        .type = CLI_TYPE_GROUP, .name = (heading), .verbs = (mask), .group = (rows)                \
    }

/* ---- Rows that several commands have --------------------------------------------------------- */

extern const char *const cli_format_names[3]; /* by enum cli_format */
extern const char *const cli_provider_names[6];
extern const char *const cli_sandbox_names[3];    /* by enum bl_sandbox */
extern const char *const cli_permission_names[5]; /* by enum bl_permission_mode */
extern const char
    *const cli_container_names[4];           /* by enum bl_mechanism; `auto` is BL_MECHANISM_NONE */
extern const struct bl_names cli_containers; /* the same without auto */
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
        .detail = "If `BELAY_LOG` is set, it selects what is logged instead."                      \
    }
#define CLI_STORE_ABOUT                                                                            \
    "Store with sessions, features and receipts: a file, or a PostgreSQL database "                \
    "(`postgres://USER@HOST:PORT/DATABASE`)."
#define CLI_STORE_ROW(structure, member, ...)                                                      \
    CLI_STORE("store", 0, "STORE", structure, member, .env = "BELAY_STORE", .sample = "work.db",   \
              .initial = "$XDG_DATA_HOME/belay/sessions.db", .complete = CLI_COMPLETE_FILES,       \
              .about = CLI_STORE_ABOUT, __VA_ARGS__)
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
             .about = "Also offer the tools of the MCP servers in FILE, which has the format of "  \
                      "`.mcp.json`.",                                                              \
             .detail =                                                                             \
                 "They come in addition to the servers in "                                        \
                 "`$XDG_CONFIG_HOME/belay/mcp.json` and in the project's `.mcp.json`. Their "      \
                 "tools are called `mcp__SERVER__TOOL`.")
#define CLI_TRUST_MCP_ROW(structure, member, ...)                                                  \
    CLI_FLAG("trust-mcp", 0, structure, member,                                                    \
             .about = "Start the MCP servers in the project's `.mcp.json` without asking.",        \
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
               .about = "Container for the processes: `auto`, `pidns`, `cgroup2` or `subreaper`.", \
               .detail = "`auto` selects `cgroup2` where it works and `subreaper` otherwise; in "  \
                         "a sandbox, `pidns` where it works. A container that is not available "   \
                         "is an error; `belay doctor` lists them.")
#define CLI_GRACE_ROW(structure, member, days, ...)                                                \
    CLI_DURATION_MS("grace", 0, structure, member, .most = (days), .sample = "2s",                 \
                    .initial = "200ms",                                                            \
                    .about = "Grace period: the time between SIGTERM and SIGKILL when a process "  \
                             "is stopped. 0 kills at once.",                                       \
                    __VA_ARGS__)
#define CLI_SECONDS(count) ((uint64_t)(count)*1000000000u)
/* For durations of any sign: zero or less means at once. */
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

/* Exit codes and their meaning in all commands except hold, which passes on its command's code. */
#define CLI_EXIT_TABLE(X)                                                                          \
    X(CLI_EXIT_OK, 0, "done")                                                                      \
    X(CLI_EXIT_FAILED, 1, "failed, or a stop could not be proved")                                 \
    X(CLI_EXIT_USAGE, 2, CLI_EXIT_USAGE_MEANING)                                                   \
    X(CLI_EXIT_LIMIT, 3, "a limit of turns, steps or budget was reached")                          \
    X(CLI_EXIT_RUNNING, 75, "the time to wait is over, and the work is still running")             \
    X(CLI_EXIT_TIMEOUT, 124, "the deadline was reached")                                           \
    X(CLI_EXIT_CLIENT_GONE, 130, "cancelled, or " CLI_EXIT_CLOSED_MEANING)                         \
    X(CLI_EXIT_TERMINATED, 143, "cancelled by SIGTERM")

enum cli_exit {
#define CLI_EXIT(name, code, meaning) name = (code),
    CLI_EXIT_TABLE(CLI_EXIT)
#undef CLI_EXIT
};

struct cli_exit_row {
    int code; /* -1 ends the table */
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

/* All commands, in the order of the help; ends in NULL. The program itself has a table of its own.
 */
extern const struct cli_command *const cli_commands[];
extern const struct cli_command cli_program_command;

/* An iterator over all options of a table, including those in groups. It starts zeroed. */
struct cli_cursor {
    const struct cli_option *next;
    const struct cli_option *inner; /* the next option in the group; NULL outside of groups */
    const struct cli_option *group; /* the current option's group; NULL if none */
    bool begun;
};

/* Returns the next option, or NULL at the end. */
const struct cli_option *cli_option_next(const struct cli_option *table, struct cli_cursor *cursor);
/* Returns the mask of the verbs that have the option at the cursor; all bits are set if all do. */
unsigned cli_option_verbs(const struct cli_option *option, const struct cli_cursor *cursor);
/* True if the option takes an argument. */
bool cli_option_takes(const struct cli_option *option);
bool cli_command_has_option(const struct cli_command *command, const char *name);
/* Writes "run, resume and retry". Returns false if `mask` has all of the command's verbs. */
bool cli_verbs_list(const struct cli_command *command, unsigned mask, char *out, size_t size);
/* Returns belay's name for a word that other tools use, or NULL if the command does not list it. */
const char *cli_other_name(const struct cli_command *command, const char *word);
/* Returns the operands of a verb, or of a command without verbs (`verb` is ignored); may be NULL.
 */
const struct cli_option *cli_operands(const struct cli_command *command, size_t verb);
/* Writes "FILE", "[ID]" or "ID..." for the synopsis. */
void cli_operand_form(const struct cli_option *operand, char *out, size_t size);
/* Writes "-r, --resume ID"; `no_letter` replaces "-r, " if the option has no letter. */
void cli_option_form(const struct cli_option *option, const char *no_letter, char *out,
                     size_t size);
/* Writes line `index` of the synopsis. Returns false past the last line. */
bool cli_usage_line(const struct cli_command *command, size_t index, char *out, size_t size);
/* Writes the variables of the command's options and its `environment`, with markup; empty if there
 * are none. */
void cli_environment_text(const struct cli_command *command, char *out, size_t size);
/* Writes the help of an option: `about`, whether it is repeatable, which verbs have it, its
 * default. */
void cli_option_text(const struct cli_command *command, const struct cli_option *option,
                     const struct cli_cursor *cursor, char *out, size_t size);
/* Writes the valid values: "a whole number from 1 to 64", "a duration such as 90s". */
void cli_option_expected(const struct cli_option *option, char *out, size_t size);

/* A piece of marked-up text. */
struct cli_piece {
    enum {
        CLI_PIECE_PARAGRAPH,
        CLI_PIECE_BULLET,
        CLI_PIECE_TERM,
        CLI_PIECE_LITERAL, /* one line, without the four blanks */
    } kind;
    bool gap;         /* an empty line precedes it */
    const char *term; /* of CLI_PIECE_TERM */
    size_t term_size;
    const char *text;
    size_t size;
};

/* Removes the next piece from `*text`. Returns false if nothing is left. */
bool cli_piece_next(const char **text, struct cli_piece *ret_piece);

#endif
