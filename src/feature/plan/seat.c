#include "plan.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRACE_NS_DEFAULT (2 * BL_NS_PER_S)
#define MAX_STEPS_PLAYER 200u
#define MAX_STEPS_MOST   1000000000
#define PATH_DEFAULT     "/usr/local/bin:/usr/bin:/bin"

static const char *const seat_names[] = {[PLAN_PLAYER] = "player", [PLAN_COACH] = "coach"};
static const char *const permission_words[] = {
    [BL_PERMISSION_AUTO] = "auto", [BL_PERMISSION_READ_ONLY] = "read-only"};
static const struct bl_names permissions = BL_NAMES(permission_words);

#define BL_RECORD_STRUCT struct plan_seat_said
static const struct bl_member seat_members[] = {
    BL_MEMBER_STRING("provider", provider, .optional = true, .least = 1),
    BL_MEMBER_STRING("model", model, .optional = true, .least = 1),
    BL_MEMBER_STRING("persona", persona, .optional = true, .least = 1),
    BL_MEMBER_ENUM("permission", permission, &permissions, .optional = true,
                   BL_KNOWN(permission_said)),
    BL_MEMBER_INTEGER("max_steps", max_steps, .optional = true, .least = 1, .most = MAX_STEPS_MOST),
    BL_MEMBER_STRINGS("command", command, .optional = true, .least = 1,
                      .about = "like [program, --flag]: there is no shell"),
    BL_MEMBER_DURATION("grace", grace_ns, .optional = true, .most = PLAN_DURATION_MAX_NS,
                       BL_KNOWN(grace_said)),
    BL_MEMBER_JSON("acp", acp, .optional = true),
    BL_MEMBER_ENUM("sandbox", sandbox, &bl_sandbox_names, .optional = true, BL_KNOWN(sandbox_said)),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record seat_records[] = {
    [PLAN_PLAYER] = BL_RECORD("the player", struct plan_seat_said, seat_members, .closed = true),
    [PLAN_COACH] = BL_RECORD("the coach", struct plan_seat_said, seat_members, .closed = true),
};

/* State while a seat is read. */
struct reading {
    struct plan_loader *loader;
    const struct plan_file *file;
    const struct bl_json *mapping;
    const char *name;
    struct plan_seat_said *said;
};

static bool is_agent(const struct plan_seat_said *said)
{
    return said->provider != NULL || said->model != NULL || said->persona != NULL ||
           said->permission_said || said->max_steps > 0;
}

/* Returns the key of a member, or NULL. */
static const struct bl_json *seat_key(const struct reading *reading, const char *name)
{
    return plan_member(reading->mapping, name);
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

/* Finds the program. A relative path with a slash starts at the repository, never at a worktree. */
static void find_program(struct reading *reading, const char **words)
{
    struct plan_loader *loader = reading->loader;
    const char *program = words[0];
    const struct bl_json *place = bl_json_at(seat_key(reading, "command") + 1, 0);

    if (program[0] == '\0') {
        plan_fault(loader, reading->file, place, "E09", "the %s's command has no program",
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
        plan_fault(loader, reading->file, place, "E09", "the %s's program %s does not exist",
                   reading->name, words[0]);
    else if (!is_program(words[0]))
        plan_fault(loader, reading->file, place, "E09", "the %s's program %s is not executable",
                   reading->name, words[0]);
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
        plan_fault(loader, reading->file, place, "E09", "the %s's script %s does not exist",
                   reading->name, path);
    else if (!S_ISREG(status.st_mode))
        plan_fault(loader, reading->file, place, "E09", "the %s's script %s is not a file",
                   reading->name, path);
    reading->said->model = path;
}

/* Checks provider and model in combination with the feature's. */
static void check_provider(struct reading *reading, const char *provider, const char *model)
{
    struct plan_loader *loader = reading->loader;
    const struct bl_json *key =
        seat_key(reading, reading->said->provider != NULL ? "provider" : "model");
    struct bl_config_choice choice = {provider, model};
    struct bl_config_found found;
    struct bl_error error = {0};

    if (provider != NULL && strcmp(provider, "script") == 0) {
        if (reading->said->model != NULL)
            check_script(reading, reading->said->model, seat_key(reading, "model") + 1);
        else if (model == NULL)
            plan_fault(loader, reading->file, key + 1, "E09",
                       "the %s's provider is script, but model: FILE is missing", reading->name);
        return;
    }
    if (provider != NULL && (strcmp(provider, "replay") == 0 ||
                             bl_text_starts_with(bl_text_from(provider), BL_TEXT("script:")))) {
        plan_fault(
            loader, reading->file, key + 1, "E09",
            "the %s cannot use provider '%s': for a script, set provider: script and model: FILE",
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
    plan_fault(loader, reading->file, seat_key(reading, "persona") + 1, "E09",
               "the %s's persona '%s' is unknown.%s", reading->name,
               plan_show(loader, bl_text_from(reading->said->persona)),
               plan_suggest(loader, reading->said->persona, names, count));
}

/* Includes keys whose values are invalid. */
static bool has_agent_keys(const struct reading *reading)
{
    static const char *const names[] = {"provider", "model", "persona", "permission", "max_steps"};
    size_t i = 0;

    while (i < BL_COUNT(names) && seat_key(reading, names[i]) == NULL)
        i++;
    return i < BL_COUNT(names);
}

static void check_agent(struct reading *reading, const struct plan_seat_said *below)
{
    struct plan_seat_said *said = reading->said;

    if (said->persona != NULL)
        check_persona(reading);
    /* A model belongs to the provider declared with it. */
    bool alone = said->provider == NULL && below != NULL && below->command == NULL;
    const char *provider = alone ? below->provider : said->provider;
    const char *model = said->model == NULL && alone ? below->model : said->model;
    if (said->provider != NULL || said->model != NULL)
        check_provider(reading, provider, model);
}

/* ---- A whole seat ---------------------------------------------------------------------------- */

/* Checks that the seat is exactly one of three kinds. */
static bool check_kind(struct reading *reading, const struct plan_seat_said *below)
{
    struct plan_loader *loader = reading->loader;
    const struct bl_json *acp = seat_key(reading, "acp"), *command = seat_key(reading, "command");
    const struct bl_json *grace = seat_key(reading, "grace");
    bool agent = has_agent_keys(reading);

    if (acp != NULL) {
        plan_fault(loader, reading->file, acp, "E09", "the %s uses acp: not supported yet",
                   reading->name);
        return false;
    }
    if (command != NULL && agent) {
        plan_fault(loader, reading->file, command, "E09",
                   "the %s is both a command and an agent (provider, model, persona, permission, "
                   "max_steps): choose one",
                   reading->name);
        return false;
    }
    bool commanded = command != NULL || (below != NULL && below->command != NULL);
    if (grace != NULL && (agent || !commanded)) {
        plan_fault(loader, reading->file, grace, "E09",
                   "the %s is an agent, but grace applies only to commands", reading->name);
        return false;
    }
    return true;
}

void plan_seat_read(struct plan_loader *loader, const struct plan_file *file,
                    const struct bl_json *mapping, enum plan_seat which,
                    const struct plan_seat_said *below, struct plan_seat_said *said)
{
    struct reading reading = {loader, file, mapping, seat_names[which], said};

    *said = (struct plan_seat_said){.file = file, .mapping = mapping};
    plan_record_read(loader, file, &seat_records[which], mapping, "E09", said);
    if (!check_kind(&reading, below))
        return;
    if (said->command != NULL)
        find_program(&reading, (const char **)said->command);
    else
        check_agent(&reading, below);
}

/* ---- Availability ---------------------------------------------------------------------------- */

/* Finds the model by the same rules as the seat at run time. Returns false if none is
 * configured. */
static bool seat_model(struct plan_loader *loader, const struct bl_seat *seat,
                       struct bl_config_found *ret_found, struct bl_error *error)
{
    const struct bl_plan_options *options = loader->options;
    struct bl_config_choice choice = {.provider = seat->provider, .model = seat->model};
    const struct bl_persona *persona =
        options->personas != NULL ? bl_persona_named(options->personas, bl_text_from(seat->persona))
                                  : NULL;

    if (choice.provider == NULL && choice.model == NULL && persona != NULL)
        choice.model = persona->model;
    return bl_config_find(options->config, &choice, ret_found, error) == 0;
}

/* Joins the names with " or ". */
static const char *seat_variables(struct plan_loader *loader, const char *const *names)
{
    return names[1] == NULL ? names[0]
                            : bl_arena_printf(loader->arena, "%s or %s", names[0], names[1]).data;
}

/* Returns why the seat cannot run, in the arena, or NULL. Values of the seat itself were checked
 * when it was read. */
static const char *seat_obstacle(struct plan_loader *loader, const struct bl_seat *seat)
{
    struct bl_arena *arena = loader->arena;
    struct bl_config_found found = {0};
    struct bl_error error = {0};

    if (!seat_model(loader, seat, &found, &error))
        return seat->provider != NULL || seat->model != NULL
                   ? NULL
                   : bl_arena_printf(arena, "%s%s%s", error.message,
                                     error.hint[0] != '\0' ? "; " : "", error.hint)
                         .data;
    if (!found.chosen)
        return "no model is configured for it; set provider and model in the "
               "plan, or set BELAY_PROVIDER and BELAY_MODEL";
    if (found.replay)
        return "a cassette cannot be used for it; set provider and model in the plan";
    if (found.provider == NULL)
        return NULL;
    const char *const *keys = bl_config_key_wanted(loader->options->config, found.provider, arena);
    if (keys == NULL)
        return NULL;
    return bl_arena_printf(arena, "there is no key for provider %s; set %s", found.provider->name,
                           seat_variables(loader, keys))
        .data;
}

void plan_seat_check(struct plan_loader *loader, const struct plan_draft *draft,
                     const struct bl_seat *seat, enum plan_seat which)
{
    const struct plan_seat_said *own = &draft->said.seats[which],
                                *above = &loader->said.seats[which],
                                *said = own->file != NULL ? own : above;
    const struct plan_file *file = said->file != NULL ? said->file : &loader->file;

    if (seat->kind != BL_SEAT_AGENT || said->acp != NULL || loader->options->config == NULL)
        return;
    const char *obstacle = seat_obstacle(loader, seat);
    if (obstacle == NULL)
        return;
    if (loader->options->seats_later)
        plan_warn(loader, file, said->mapping, "the %s is an agent, but %s", seat_names[which],
                  obstacle);
    else
        plan_fault(loader, file, said->mapping, "E09", "the %s is an agent, but %s",
                   seat_names[which], obstacle);
}

static void plan_seat_apply(const struct plan_seat_said *said, struct bl_seat *seat)
{
    if (said->command != NULL) {
        seat->kind = BL_SEAT_COMMAND;
        seat->command = said->command;
    } else if (is_agent(said)) {
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
    if (said->max_steps > 0)
        seat->max_steps = said->max_steps;
    if (said->grace_said)
        seat->grace_ns = said->grace_ns;
    if (said->sandbox_said) {
        seat->sandbox = said->sandbox;
        seat->sandbox_chosen = true;
    }
}

/* A seat of one kind inherits nothing from a seat of the other kind. */
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
