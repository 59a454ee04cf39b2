/* Design notes.
 *
 * The completions of bash, zsh and fish call `belay __complete POSITION WORD...`: WORD... is the
 * command line, including the program, and POSITION the index of the word under the cursor. The
 * answer has one line for each candidate, "VALUE<tab>description", and a line that begins with a
 * colon for values that the shell completes itself:
 *
 *     :files PREFIX      files, after PREFIX, which may be empty
 *     :folders PREFIX    the same for folders
 *     :command INDEX     the words from INDEX on are the command line of another program
 *
 * So the scripts for the shells contain no options: these are only in the tables. Sessions, running
 * work and tools come from the JSON of the commands that list them, run in this process. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <belay/feature.h>
#include <belay/git.h>
#include <belay/proc.h>

#include "cli.h"

#define COMPLETE_MAX   ((size_t)16 * 1024 * 1024)
#define COMPLETE_WORDS 10
#define GIT_NS_MAX     (2 * BL_NS_PER_S)

struct completion {
    const struct cli_command *command;
    int verb; /* -1 if none yet */
    const char *current;
    const char *prefix; /* part of the current word before the value: "--store=" */
    const char *store;  /* --store, --session and --socket so far; NULL if not given */
    const char *session;
    const char *socket;
    struct bl_arena arena;
    struct bl_buffer out;
};

/* ---- Candidates ------------------------------------------------------------------------------ */

static void complete_offer(struct completion *completion, const char *value, const char *about)
{
    if (strncmp(value, completion->current, strlen(completion->current)) != 0)
        return;
    bl_buffer_printf(&completion->out, "%s%s", completion->prefix, value);
    if (about != NULL) {
        bl_buffer_append_byte(&completion->out, '\t');
        /* One line, without markup. */
        for (; *about != '\0'; about++) {
            if (*about != '`')
                bl_buffer_append_byte(&completion->out, *about == '\n' ? ' ' : *about);
        }
    }
    bl_buffer_append_byte(&completion->out, '\n');
}

static void complete_say(struct completion *completion, const char *directive, const char *prefix)
{
    bl_buffer_printf(&completion->out, ":%s %s%s\n", directive, completion->prefix, prefix);
}

static void complete_commands(struct completion *completion)
{
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        complete_offer(completion, cli_commands[i]->name, cli_commands[i]->summary);
}

static void complete_options(struct completion *completion, const struct cli_command *command)
{
    struct cli_cursor cursor = {0};
    const struct cli_option *row;
    char word[72];

    while ((row = cli_option_next(command->options, &cursor)) != NULL) {
        bool has = completion->verb < 0 ||
                   (cli_option_verbs(row, &cursor) & CLI_VERB((unsigned)completion->verb)) != 0;
        snprintf(word, sizeof word, "--%s", row->name);
        if (has)
            complete_offer(completion, word, row->about);
        snprintf(word, sizeof word, "-%c", row->letter);
        if (has && row->letter != 0)
            complete_offer(completion, word, row->about);
    }
}

/* ---- Candidates from belay itself ------------------------------------------------------------ */

/* Runs a belay command and returns its standard output, in the arena. */
static struct bl_text complete_run(struct completion *completion, char **words, int count)
{
    int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3),
        silent = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int memory = memfd_create("complete", MFD_CLOEXEC);
    struct bl_text output = {0};

    if (kept >= 0 && memory >= 0 && silent >= 0 && dup2(memory, STDOUT_FILENO) >= 0) {
        dup2(silent, STDERR_FILENO);
        cli_main(count, words);
        dup2(kept, STDOUT_FILENO);
        off_t size = lseek(memory, 0, SEEK_END);
        if (size > 0 && (size_t)size < COMPLETE_MAX) {
            char *text = bl_arena_alloc(&completion->arena, (size_t)size + 1);
            ssize_t got = pread(memory, text, (size_t)size, 0);
            output = (struct bl_text){text, got > 0 ? (size_t)got : 0};
        }
    }
    close(kept);
    close(memory);
    close(silent);
    return output;
}

/* Offers the string of every member of that name, at any depth. */
static void complete_members(struct completion *completion, const struct bl_json *value,
                             const char *member)
{
    BL_JSON_EACH (element, value)
        complete_members(completion, element, member);
    BL_JSON_MEMBERS (key, value) {
        struct bl_text text = bl_json_text(key + 1);
        if (bl_text_equal(bl_json_text(key), bl_text_from(member)) && text.size > 0)
            complete_offer(completion, bl_arena_text(&completion->arena, text).data, NULL);
        complete_members(completion, key + 1, member);
    }
}

/* Runs the command `ask`, which ends in NULL, and offers the strings of `members`, which are
 * separated by blanks. */
static void complete_ask(struct completion *completion, const char *const *ask, const char *members)
{
    char *words[COMPLETE_WORDS + 6] = {(char[]){"belay"}};
    const struct bl_json *answer;
    struct bl_text names = bl_text_from(members), name;
    int count = 1;

    while (ask[count - 1] != NULL && count < COMPLETE_WORDS) {
        words[count] = (char *)(uintptr_t)ask[count - 1];
        count++;
    }
    words[count++] = (char[]){"--json"};
    struct bl_text output = complete_run(completion, words, count);
    if (bl_json_read(&completion->arena, output, NULL, &answer, NULL) != 0)
        return;
    while (bl_text_split(&names, ' ', &name))
        complete_members(completion, answer, bl_arena_text(&completion->arena, name).data);
}

/* Passes an option on if it was given. */
#define COMPLETE_WITH(option, value) (value) != NULL ? (option) : NULL, (value)
#define COMPLETE_STORE(completion)   COMPLETE_WITH("--store", (completion)->store)

static void complete_features(struct completion *completion)
{
    const char *slash = strchr(completion->current, '/');

    if (slash == NULL) {
        complete_ask(completion,
                     (const char *const[]){"feature", "list", COMPLETE_STORE(completion), NULL},
                     "feature");
        return;
    }
    /* The tasks of the feature before the slash. */
    struct bl_text before = {completion->current, (size_t)(slash - completion->current)};
    const char *feature = bl_arena_text(&completion->arena, before).data;
    const char *prefix = completion->prefix, *current = completion->current;
    completion->prefix = bl_arena_printf(&completion->arena, "%s%s/", prefix, feature).data;
    completion->current = slash + 1;
    complete_ask(
        completion,
        (const char *const[]){"feature", "status", feature, COMPLETE_STORE(completion), NULL},
        "id");
    completion->prefix = prefix;
    completion->current = current;
}

static void complete_cells(struct completion *completion)
{
    const char *words[7] = {"cell", "list"};
    size_t count = 2;

    if (completion->socket != NULL) {
        words[count++] = "--socket";
        words[count++] = completion->socket;
    }
    if (completion->session != NULL) {
        words[count++] = "--session";
        words[count++] = completion->session;
    }
    complete_ask(completion, words, "cell_id");
}

/* ---- Candidates from the repository ---------------------------------------------------------- */

struct complete_git {
    struct completion *completion;
    const char *const *arguments;
    struct bl_text output; /* without its last LF; empty if git failed */
};

static int complete_git_main(void *argument)
{
    struct complete_git *asked = argument;
    struct bl_git_call call = {.operation = "complete a word", .directory = "."};
    struct bl_git_answer answer = {0};
    struct bl_scope limit;
    struct bl_git git;

    bl_git_init(&git);
    bl_scope_init(&limit, bl_scope_current());
    bl_scope_set_deadline(&limit, bl_time_add(bl_now_ns(), GIT_NS_MAX));
    struct bl_scope *outer = bl_scope_enter(&limit);
    int code = bl_git_run(&git, &asked->completion->arena, &call, asked->arguments, &answer, NULL);
    bl_scope_enter(outer);
    bl_scope_done(&limit);
    if (code == 0 && answer.status == 0)
        asked->output = bl_text_trim(answer.output);
    bl_git_done(&git);
    return 0;
}

static struct bl_text complete_ask_git(struct completion *completion, const char *const *arguments)
{
    struct complete_git asked = {.completion = completion, .arguments = arguments};
    struct bl_error error = {0};

    cli_loop_run("complete", complete_git_main, &asked, &error);
    return asked.output;
}

static void complete_revisions(struct completion *completion)
{
    struct bl_text refs =
        complete_ask_git(completion, BL_GIT_ARGUMENTS("for-each-ref", "--format=%(refname:short)",
                                                      "refs/heads", "refs/tags"));
    struct bl_text ref;

    while (bl_text_split(&refs, '\n', &ref))
        complete_offer(completion, bl_arena_text(&completion->arena, ref).data, NULL);
}

/* Offers the ids of the plans of this repository. */
static void complete_plans(struct completion *completion)
{
    char directory[PATH_MAX];
    const char *top;

    if (getcwd(directory, sizeof directory) != NULL &&
        bl_plan_repository(&completion->arena, directory, &top, NULL) == 0) {
        const char *const *ids = bl_plan_ids(&completion->arena, top);
        for (size_t i = 0; ids[i] != NULL; i++)
            complete_offer(completion, ids[i], NULL);
    }
    complete_say(completion, "files", "");
}

/* ---- A value --------------------------------------------------------------------------------- */

static void complete_provider(struct completion *completion)
{
    static const char script[] = "script:";

    if (strncmp(completion->current, script, sizeof script - 1) == 0)
        complete_say(completion, "files", script);
    else
        complete_offer(completion, script, "Play a file.");
}

static void complete_value(struct completion *completion, const struct cli_option *row)
{
    for (size_t i = 0; i < row->choice_count; i++) {
        if (row->choices[i] != NULL)
            complete_offer(completion, row->choices[i], NULL);
    }
    switch (row->complete) {
    case CLI_COMPLETE_NOTHING: break;
    case CLI_COMPLETE_FILES: complete_say(completion, "files", ""); break;
    case CLI_COMPLETE_FOLDERS: complete_say(completion, "folders", ""); break;
    case CLI_COMPLETE_PROGRAMS: break; /* only for a command that passes them on */
    case CLI_COMPLETE_COMMANDS: complete_commands(completion); break;
    case CLI_COMPLETE_PROVIDERS: complete_provider(completion); break;
    case CLI_COMPLETE_SESSIONS:
        complete_ask(
            completion,
            (const char *const[]){"session", "list", "--all", COMPLETE_STORE(completion), NULL},
            "session_id");
        break;
    case CLI_COMPLETE_RUNNING:
        complete_ask(completion, (const char *const[]){"ps", NULL}, "id session");
        break;
    case CLI_COMPLETE_TOOLS:
        complete_ask(completion, (const char *const[]){"tools", NULL}, "name");
        break;
    case CLI_COMPLETE_CELLS: complete_cells(completion); break;
    case CLI_COMPLETE_FEATURES: complete_features(completion); break;
    case CLI_COMPLETE_PLANS: complete_plans(completion); break;
    case CLI_COMPLETE_REVISIONS: complete_revisions(completion); break;
    }
}

/* ---- The command line ------------------------------------------------------------------------ */

static const struct cli_option *complete_find(const struct completion *completion, const char *word)
{
    struct cli_cursor cursor = {0};
    const struct cli_option *row;
    bool is_long = strncmp(word, "--", 2) == 0;
    size_t size = is_long ? strcspn(word + 2, "=") : 0;

    while ((row = cli_option_next(completion->command->options, &cursor)) != NULL) {
        bool has = completion->verb < 0 ||
                   (cli_option_verbs(row, &cursor) & CLI_VERB((unsigned)completion->verb)) != 0;
        if (has && is_long && strlen(row->name) == size && strncmp(row->name, word + 2, size) == 0)
            return row;
        if (has && !is_long && row->letter != 0 && row->letter == word[1] && word[2] == '\0')
            return row;
    }
    return NULL;
}

static void complete_note(struct completion *completion, const struct cli_option *row,
                          const char *value)
{
    if (strcmp(row->name, "store") == 0)
        completion->store = value;
    else if (strcmp(row->name, "session") == 0)
        completion->session = value;
    else if (strcmp(row->name, "socket") == 0)
        completion->socket = value;
}

static int complete_verb(const struct cli_command *command, const char *word)
{
    for (int i = 0; command->verbs[i].name != NULL; i++) {
        if (strcmp(command->verbs[i].name, word) == 0)
            return i;
    }
    return -1;
}

/* Completes an operand under the cursor: the verb, or operand `index` after it. */
static void complete_operand(struct completion *completion, size_t index)
{
    const struct cli_command *command = completion->command;
    const struct cli_verb *verbs = command->verbs;

    if (verbs != NULL && completion->verb < 0) {
        for (; index == 0 && verbs->name != NULL; verbs++)
            complete_offer(completion, verbs->name, verbs->about);
        return;
    }
    const struct cli_option *row = cli_operands(command, (size_t)completion->verb);
    for (; row != NULL && row->type != CLI_TYPE_NONE && index > 0 && row->count == 0; index--)
        row++;
    if (row != NULL && row->type != CLI_TYPE_NONE)
        complete_value(completion, row);
    if (completion->out.size == 0 && completion->current[0] == '\0')
        complete_options(completion, command);
}

/* Walks the words before the cursor, and completes the one under it. */
static void complete_words(struct completion *completion, const char *const *words, int position)
{
    const struct cli_option *pending = NULL;
    bool ended = false;
    size_t operands = 0;

    for (int i = 2; i < position; i++) {
        const char *word = words[i];
        if (pending != NULL) {
            complete_note(completion, pending, word);
            pending = NULL;
        } else if (!ended && strcmp(word, "--") == 0) {
            ended = true;
        } else if (!ended && word[0] == '-' && word[1] != '\0') {
            const struct cli_option *row = complete_find(completion, word);
            const char *equals = strchr(word, '=');
            if (row != NULL && equals != NULL)
                complete_note(completion, row, equals + 1);
            else if (row != NULL && cli_option_takes(row) && !row->optional)
                pending = row;
        } else if (completion->command->passes) {
            bl_buffer_printf(&completion->out, ":command %d\n", i);
            return;
        } else if (completion->command->verbs != NULL && completion->verb < 0) {
            completion->verb = complete_verb(completion->command, word);
            operands += completion->verb < 0; /* an unknown verb: nothing matches */
        } else {
            operands++;
        }
    }
    const char *current = completion->current, *equals = strchr(current, '=');
    if (pending != NULL) {
        complete_value(completion, pending);
    } else if (!ended && strncmp(current, "--", 2) == 0 && equals != NULL) {
        const struct cli_option *row = complete_find(completion, current);
        struct bl_text before = {current, (size_t)(equals + 1 - current)};
        completion->prefix = bl_arena_text(&completion->arena, before).data;
        completion->current = equals + 1;
        if (row != NULL)
            complete_value(completion, row);
    } else if (!ended && current[0] == '-') {
        complete_options(completion, completion->command);
    } else if (completion->command->passes) {
        bl_buffer_printf(&completion->out, ":command %d\n", position);
    } else {
        complete_operand(completion, operands);
    }
}

static void complete_line(struct completion *completion, const char *const *words, int position)
{
    struct bl_error error = {0};
    const char *name = position > 1 ? words[1] : "";

    if (position == 1) {
        complete_commands(completion);
        complete_options(completion, &cli_program_command);
        complete_offer(completion, "-p", cli_commands[0]->summary);
        complete_offer(completion, "--print", cli_commands[0]->summary);
        return;
    }
    if (strcmp(name, "-p") == 0 || strcmp(name, "--print") == 0)
        name = "run";
    completion->command = cli_command_find(name, &error);
    if (completion->command != NULL)
        complete_words(completion, words, position);
}

int cli_complete_run(int count, char **arguments)
{
    struct completion completion = {.verb = -1, .prefix = "", .current = ""};
    struct cli_call call = {0};
    int64_t position;

    if (count < 1 || bl_text_to_int64(bl_text_from(arguments[0]), &position) != 0 || position < 1 ||
        position > count - 1)
        return CLI_EXIT_USAGE;
    if (position < count - 1)
        completion.current = arguments[1 + position];
    bl_arena_init(&completion.arena);
    bl_buffer_init(&completion.out, COMPLETE_MAX);
    complete_line(&completion, (const char *const *)arguments + 1, (int)position);
    int exit_code = cli_print(&call, bl_buffer_text(&completion.out), CLI_EXIT_OK);
    bl_buffer_done(&completion.out);
    bl_arena_done(&completion.arena);
    return exit_code;
}
