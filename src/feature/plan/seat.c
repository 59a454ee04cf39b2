#include "plan.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRACE_NS_DEFAULT (2 * BL_NS_PER_S)
#define MAX_STEPS_PLAYER 200u
#define MAX_STEPS_MOST   1000000000
#define PATH_DEFAULT     "/usr/local/bin:/usr/bin:/bin"

static const char *const seat_names[] = {[PLAN_PLAYER] = "player", [PLAN_COACH] = "coach"};

enum seat_key {
    SEAT_PROVIDER,
    SEAT_MODEL,
    SEAT_PERSONA,
    SEAT_PERMISSION,
    SEAT_MAX_STEPS,
    SEAT_COMMAND,
    SEAT_GRACE,
    SEAT_ACP,
    SEAT_SANDBOX,
    SEAT_KEY_COUNT,
};

static const char *const seat_keys[] = {
    [SEAT_PROVIDER] = "provider",   [SEAT_MODEL] = "model",
    [SEAT_PERSONA] = "persona",     [SEAT_PERMISSION] = "permission",
    [SEAT_MAX_STEPS] = "max_steps", [SEAT_COMMAND] = "command",
    [SEAT_GRACE] = "grace",         [SEAT_ACP] = "acp",
    [SEAT_SANDBOX] = "sandbox",     [SEAT_KEY_COUNT] = NULL,
};

/* A seat while it is read. */
struct reading {
    struct plan_loader *loader;
    const struct plan_file *file;
    const struct bl_json *keys[SEAT_KEY_COUNT]; /* NULL: not said */
    const char *name;
    struct plan_seat_said *said;
};

static bool has_agent_keys(const struct reading *reading)
{
    return reading->keys[SEAT_PROVIDER] != NULL || reading->keys[SEAT_MODEL] != NULL ||
           reading->keys[SEAT_PERSONA] != NULL || reading->keys[SEAT_PERMISSION] != NULL ||
           reading->keys[SEAT_MAX_STEPS] != NULL;
}

/* ---- Commands -------------------------------------------------------------------------------- */

static bool is_program(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static bool is_in_path(struct bl_arena *arena, const char *name)
{
    const char *variable = getenv("PATH");
    struct bl_text rest = bl_text_from(variable != NULL ? variable : PATH_DEFAULT), folder;

    while (bl_text_split(&rest, ':', &folder)) {
        const char *path =
            bl_arena_printf(arena, BL_TEXT_FORMAT "/%s",
                            BL_TEXT_ARG(folder.size > 0 ? folder : BL_TEXT(".")), name)
                .data;
        if (is_program(path))
            return true;
    }
    return false;
}

/* Where a command is started is no worktree's business: one with a slash is the repository's. */
static void find_program(struct reading *reading, const char **words)
{
    struct plan_loader *loader = reading->loader;
    const char *program = words[0];
    const struct bl_json *place = bl_json_first(reading->keys[SEAT_COMMAND] + 1, BL_JSON_ARRAY);

    if (program[0] == '\0') {
        plan_fault(loader, reading->file, place, "E09", "the %s's command has an empty program",
                   reading->name);
        return;
    }
    if (strchr(program, '/') == NULL) {
        if (!is_in_path(loader->arena, program))
            plan_fault(loader, reading->file, place, "E09",
                       "the %s's program '%s' is not in PATH, or not executable", reading->name,
                       plan_show(loader, bl_text_from(program)));
        return;
    }
    if (program[0] != '/')
        words[0] = bl_arena_printf(loader->arena, "%s/%s", loader->plan->repository, program).data;
    if (access(words[0], F_OK) != 0)
        plan_fault(loader, reading->file, place, "E09", "the %s's program %s is not there",
                   reading->name, words[0]);
    else if (!is_program(words[0]))
        plan_fault(loader, reading->file, place, "E09", "the %s's program %s is not executable",
                   reading->name, words[0]);
}

static void plan_seat_read_command(struct reading *reading)
{
    struct plan_loader *loader = reading->loader;
    const struct bl_json *key = reading->keys[SEAT_COMMAND];

    if (!bl_json_is(key + 1, BL_JSON_ARRAY) || bl_json_size(key + 1) == 0) {
        plan_fault(loader, reading->file, key + 1, "E09",
                   "the %s's command must be a list of arguments, like [program, --flag]: there "
                   "is no shell; is %s",
                   reading->name,
                   bl_json_is(key + 1, BL_JSON_ARRAY) ? "an empty list"
                                                      : plan_show_value(loader, key + 1));
        return;
    }
    const char *const *words = plan_texts(loader, reading->file, key, "E09");
    if (words == NULL)
        return;
    reading->said->command = words;
    find_program(reading, (const char **)words);
}

/* ---- Agents ---------------------------------------------------------------------------------- */

static void check_script(struct reading *reading, const char *script, const struct bl_json *place)
{
    struct plan_loader *loader = reading->loader;
    struct stat status;
    const char *path =
        script[0] == '/'
            ? script
            : bl_arena_printf(loader->arena, "%s/%s", loader->plan->repository, script).data;

    if (stat(path, &status) != 0 || access(path, R_OK) != 0)
        plan_fault(loader, reading->file, place, "E09", "the %s's script %s is not there",
                   reading->name, path);
    else if (!S_ISREG(status.st_mode))
        plan_fault(loader, reading->file, place, "E09", "the %s's script %s is no file",
                   reading->name, path);
    reading->said->model = path;
}

/* `provider` and `model` as they come together with what the feature says. */
static void check_provider(struct reading *reading, const char *provider, const char *model)
{
    struct plan_loader *loader = reading->loader;
    const struct bl_json *key = reading->keys[SEAT_PROVIDER] != NULL ? reading->keys[SEAT_PROVIDER]
                                                                     : reading->keys[SEAT_MODEL];
    struct bl_config_choice choice = {provider, model};
    struct bl_config_found found;
    struct bl_error error = {0};

    if (provider != NULL && strcmp(provider, "script") == 0) {
        if (reading->said->model != NULL)
            check_script(reading, reading->said->model, reading->keys[SEAT_MODEL] + 1);
        else if (model == NULL)
            plan_fault(loader, reading->file, key + 1, "E09",
                       "the %s's provider is script, and no file is named: say model: FILE",
                       reading->name);
        return;
    }
    if (provider != NULL && (strcmp(provider, "replay") == 0 ||
                             bl_text_starts_with(bl_text_from(provider), BL_TEXT("script:")))) {
        plan_fault(loader, reading->file, key + 1, "E09",
                   "the %s cannot be played by '%s': a script is provider: script, model: FILE",
                   reading->name, plan_show(loader, bl_text_from(provider)));
        return;
    }
    if (loader->options->config == NULL ||
        bl_config_find(loader->options->config, &choice, &found, &error) == 0)
        return;
    plan_fault(loader, reading->file, key + 1, "E09", "the %s: %s%s%s", reading->name,
               error.message, error.hint[0] != '\0' ? "; " : "", error.hint);
}

static void check_persona(struct reading *reading)
{
    struct plan_loader *loader = reading->loader;
    const struct bl_list *personas = loader->options->personas;
    size_t count = 0;

    if (personas == NULL ||
        bl_persona_named(personas, bl_text_from(reading->said->persona)) != NULL)
        return;
    BL_LIST_EACH (link, personas)
        count++;
    const char **names = bl_arena_alloc(loader->arena, (count + 1) * sizeof *names);
    count = 0;
    BL_LIST_EACH (link, personas)
        names[count++] = BL_CONTAINER(link, struct bl_persona, link)->name;
    plan_fault(loader, reading->file, reading->keys[SEAT_PERSONA] + 1, "E09",
               "the %s's persona '%s' is not known.%s", reading->name,
               plan_show(loader, bl_text_from(reading->said->persona)),
               plan_suggest(loader, reading->said->persona, names, count));
}

static void read_max_steps(struct reading *reading)
{
    const struct bl_json *key = reading->keys[SEAT_MAX_STEPS];
    int64_t steps;

    if (plan_integer(reading->loader, key + 1, &steps) && steps >= 1 && steps <= MAX_STEPS_MOST) {
        reading->said->max_steps = (uint64_t)steps;
        reading->said->max_steps_said = true;
        return;
    }
    plan_fault(reading->loader, reading->file, key + 1, "E07",
               "max_steps must be a whole number from 1 to %d, is %s", MAX_STEPS_MOST,
               plan_show_value(reading->loader, key + 1));
}

static void plan_seat_read_text(struct reading *reading, enum seat_key which, const char **ret_text)
{
    const struct bl_json *key = reading->keys[which];
    const char *text;

    if (key == NULL ||
        !plan_text(reading->loader, reading->file, key + 1, "E09", seat_keys[which], &text))
        return;
    if (text[0] == '\0')
        plan_fault(reading->loader, reading->file, key + 1, "E09", "the %s's %s is empty",
                   reading->name, seat_keys[which]);
    else
        *ret_text = text;
}

static void read_agent(struct reading *reading, const struct plan_seat_said *below)
{
    static const char *const permissions[] = {"auto", "read-only", NULL};
    struct plan_seat_said *said = reading->said;
    size_t index;

    plan_seat_read_text(reading, SEAT_PROVIDER, &said->provider);
    plan_seat_read_text(reading, SEAT_MODEL, &said->model);
    plan_seat_read_text(reading, SEAT_PERSONA, &said->persona);
    if (reading->keys[SEAT_MAX_STEPS] != NULL)
        read_max_steps(reading);
    if (reading->keys[SEAT_PERMISSION] != NULL &&
        plan_word(reading->loader, reading->file, reading->keys[SEAT_PERMISSION], permissions,
                  &index)) {
        said->permission_said = true;
        said->permission = index == 0 ? BL_PERMISSION_AUTO : BL_PERMISSION_READ_ONLY;
    }
    if (said->persona != NULL)
        check_persona(reading);
    /* A model goes with the provider that it is said with. */
    bool alone = said->provider == NULL && below != NULL && below->command == NULL;
    const char *provider = alone ? below->provider : said->provider;
    const char *model = said->model == NULL && alone ? below->model : said->model;
    if (said->provider != NULL || said->model != NULL)
        check_provider(reading, provider, model);
}

/* ---- All of a seat --------------------------------------------------------------------------- */

/* Exactly one of three: says what else there is. */
static bool check_kind(struct reading *reading)
{
    struct plan_loader *loader = reading->loader;
    const struct bl_json *acp = reading->keys[SEAT_ACP], *command = reading->keys[SEAT_COMMAND];

    if (acp != NULL) {
        plan_fault(loader, reading->file, acp, "E09", "the %s is played by acp: not supported yet",
                   reading->name);
        return false;
    }
    if (command != NULL && has_agent_keys(reading)) {
        plan_fault(loader, reading->file, command, "E09",
                   "the %s is both a command and an agent (provider, model, persona, permission, "
                   "max_steps): it must be one of them",
                   reading->name);
        return false;
    }
    if (reading->keys[SEAT_GRACE] != NULL && has_agent_keys(reading)) {
        plan_fault(loader, reading->file, reading->keys[SEAT_GRACE], "E09",
                   "the %s is an agent, and grace is a command's", reading->name);
        return false;
    }
    return true;
}

static void read_common(struct reading *reading)
{
    static const char *const sandboxes[] = {"off", "workspace", "read-only", NULL};
    struct plan_seat_said *said = reading->said;
    size_t index;

    if (reading->keys[SEAT_SANDBOX] != NULL &&
        plan_word(reading->loader, reading->file, reading->keys[SEAT_SANDBOX], sandboxes, &index) &&
        bl_sandbox_parse(sandboxes[index], &said->sandbox, NULL) == 0)
        said->sandbox_said = true;
    if (reading->keys[SEAT_GRACE] != NULL)
        said->grace_said = plan_duration(reading->loader, reading->file, reading->keys[SEAT_GRACE],
                                         true, &said->grace_ns);
}

void plan_seat_read(struct plan_loader *loader, const struct plan_file *file,
                    const struct bl_json *key, enum plan_seat which,
                    const struct plan_seat_said *below, struct plan_seat_said *said)
{
    struct reading reading = {loader, file, {0}, seat_names[which], said};

    if (!plan_keys_check(loader, file, key + 1, "E09", reading.name, seat_keys))
        return;
    for (size_t i = 0; i < SEAT_KEY_COUNT; i++)
        reading.keys[i] = plan_member(key + 1, seat_keys[i]);
    *said = (struct plan_seat_said){0};
    read_common(&reading);
    if (!check_kind(&reading))
        return;
    if (reading.keys[SEAT_COMMAND] != NULL)
        plan_seat_read_command(&reading);
    else if (has_agent_keys(&reading))
        read_agent(&reading, below);
    else if (said->grace_said && (below == NULL || below->command == NULL))
        plan_fault(loader, file, reading.keys[SEAT_GRACE], "E09",
                   "the %s is an agent, and grace is a command's", reading.name);
}

static void plan_seat_apply(const struct plan_seat_said *said, struct bl_seat *seat)
{
    bool agent = said->provider != NULL || said->model != NULL || said->persona != NULL ||
                 said->permission_said || said->max_steps_said;

    if (said->command != NULL) {
        seat->kind = BL_SEAT_COMMAND;
        seat->command = said->command;
    } else if (agent) {
        seat->kind = BL_SEAT_AGENT;
        seat->command = NULL;
    }
    if (said->provider != NULL) {
        seat->provider = said->provider;
        seat->model = NULL;
    }
    if (said->model != NULL)
        seat->model = said->model;
    if (said->persona != NULL)
        seat->persona = said->persona;
    if (said->permission_said)
        seat->permission = said->permission;
    if (said->max_steps_said)
        seat->max_steps = said->max_steps;
    if (said->grace_said)
        seat->grace_ns = said->grace_ns;
    if (said->sandbox_said) {
        seat->sandbox = said->sandbox;
        seat->sandbox_chosen = true;
    }
}

/* A seat of one kind hands nothing down to one of the other. */
static bool changes_kind(const struct plan_seat_said *feature, const struct plan_seat_said *task)
{
    struct bl_seat before = {.kind = BL_SEAT_AGENT}, after;

    plan_seat_apply(feature, &before);
    after = before;
    plan_seat_apply(task, &after);
    return before.kind != after.kind;
}

void plan_seat_decide(enum plan_seat which, const struct plan_seat_said *feature,
                      const struct plan_seat_said *task, struct bl_seat *seat)
{
    *seat = (struct bl_seat){
        .kind = BL_SEAT_AGENT,
        .persona = which == PLAN_PLAYER ? "worker" : "review",
        .permission = which == PLAN_PLAYER ? BL_PERMISSION_AUTO : BL_PERMISSION_READ_ONLY,
        .max_steps = which == PLAN_PLAYER ? MAX_STEPS_PLAYER : BL_UNLIMITED,
        .grace_ns = GRACE_NS_DEFAULT,
        .sandbox = BL_SANDBOX_OFF,
    };
    if (!changes_kind(feature, task))
        plan_seat_apply(feature, seat);
    plan_seat_apply(task, seat);
}
