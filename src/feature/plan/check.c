#include "plan.h"

#define GATE_TIMEOUT_S      120
#define GATE_TIMEOUT_S_MOST 600
#define NONE_IN_LIST        "must be a path inside the repository"

/* ---- verify: --------------------------------------------------------------------------------- */

static bool plan_check_is_blank(const char *text)
{
    return bl_text_trim(bl_text_from(text)).size == 0;
}

static void read_commands(struct plan_loader *loader, const struct plan_file *file,
                          const struct bl_json *key, struct plan_verify_said *verify)
{
    const char *const *commands = plan_texts(loader, file, key, "E10");
    const struct bl_json *element = bl_json_first(key + 1, BL_JSON_ARRAY);

    for (size_t i = 0; commands != NULL && commands[i] != NULL; i++) {
        bool list = element->type != BL_JSON_END;
        if (plan_check_is_blank(commands[i]))
            plan_fault(loader, file, list ? element : key + 1, "E10", "a verify command is empty");
        if (list)
            element = bl_json_next(element);
    }
    verify->commands = commands;
}

/* A path that stays below where it begins. */
static bool stays_inside(const char *path)
{
    struct bl_text rest = bl_text_from(path), part;

    if (path[0] == '/' || path[0] == '\0')
        return false;
    while (bl_text_split(&rest, '/', &part)) {
        if (bl_text_equal(part, BL_TEXT("..")))
            return false;
    }
    return true;
}

static const char *const *read_paths(struct plan_loader *loader, const struct plan_file *file,
                                     const struct bl_json *key)
{
    const char *const *paths = plan_texts(loader, file, key, "E10");

    for (size_t i = 0; paths != NULL && paths[i] != NULL; i++) {
        if (!stays_inside(paths[i]))
            plan_fault(loader, file, key + 1, "E10", "%s: '%s' " NONE_IN_LIST, key->string,
                       plan_show(loader, bl_text_from(paths[i])));
    }
    return paths;
}

static void read_verify(struct plan_loader *loader, const struct plan_file *file,
                        const struct bl_json *mapping, struct plan_verify_said *verify)
{
    static const char *const names[] = {"setup", "setup_network", "commands", "timeout",
                                        "carry", "protect",       "required", NULL};

    if (!plan_keys_check(loader, file, mapping, "E10", "verify", names))
        return;
    const struct bl_json *setup = bl_json_get(mapping, BL_TEXT("setup"));
    const struct bl_json *network = plan_member(mapping, "setup_network");
    const struct bl_json *commands = plan_member(mapping, "commands");
    const struct bl_json *timeout = plan_member(mapping, "timeout");
    const struct bl_json *carry = plan_member(mapping, "carry");
    const struct bl_json *protect = plan_member(mapping, "protect");
    const struct bl_json *required = plan_member(mapping, "required");
    if (setup != NULL && setup->type == BL_JSON_NULL) {
        verify->setup_said = true;
    } else if (setup != NULL &&
               plan_text(loader, file, setup, "E10", "verify.setup", &verify->setup)) {
        verify->setup_said = true;
        if (plan_check_is_blank(verify->setup))
            plan_fault(loader, file, setup, "E10", "verify.setup is empty");
    }
    if (network != NULL)
        verify->setup_network_said = plan_boolean(loader, file, network, &verify->setup_network);
    if (commands != NULL)
        read_commands(loader, file, commands, verify);
    if (timeout != NULL)
        verify->timeout_said = plan_duration(loader, file, timeout, false, &verify->timeout_ns);
    if (carry != NULL)
        verify->carry = read_paths(loader, file, carry);
    if (protect != NULL)
        verify->protect = read_paths(loader, file, protect);
    if (required != NULL)
        verify->required_said = plan_boolean(loader, file, required, &verify->required);
}

const char *plan_oracle_read(struct plan_loader *loader, const struct plan_file *file,
                             const struct bl_json *mapping)
{
    const struct bl_json *key = plan_member(mapping, "behavioural_oracle");
    const char *command = NULL;

    if (key != NULL && bl_json_is(key + 1, BL_JSON_OBJECT))
        key = plan_member(key + 1, "command");
    if (key == NULL || !plan_text(loader, file, key + 1, "E10", "behavioural_oracle", &command))
        return NULL;
    if (!plan_check_is_blank(command))
        return command;
    plan_fault(loader, file, key + 1, "E10", "behavioural_oracle is an empty command");
    return NULL;
}

/* ---- belay: ---------------------------------------------------------------------------------- */

static void read_on_failure(struct plan_loader *loader, const struct plan_file *file,
                            const struct bl_json *key, struct plan_said *said)
{
    static const char *const words[] = {"wave_end", "cancel_siblings", "continue", NULL};
    size_t index;

    if (!plan_word(loader, file, key, words, &index))
        return;
    said->on_failure_said = true;
    said->on_failure = (enum bl_on_failure)index;
}

void plan_said_read(struct plan_loader *loader, const struct plan_file *file,
                    const struct bl_json *mapping, bool task, struct plan_said *said)
{
    static const char *const of_feature[] = {"player", "coach",      "limits",
                                             "verify", "on_failure", NULL};
    static const char *const of_task[] = {"player", "coach", "limits", "verify", NULL};
    static const char *const seats[] = {[PLAN_PLAYER] = "player", [PLAN_COACH] = "coach"};

    if (!plan_keys_check(loader, file, mapping, "E08", task ? "a task's belay" : "belay",
                         task ? of_task : of_feature))
        return;
    for (size_t i = 0; i < BL_COUNT(seats); i++) {
        const struct bl_json *key = plan_member(mapping, seats[i]);
        if (key != NULL)
            plan_seat_read(loader, file, key, (enum plan_seat)i,
                           task ? &loader->said.seats[i] : NULL, &said->seats[i]);
    }
    const struct bl_json *limits = plan_member(mapping, "limits");
    const struct bl_json *verify = plan_member(mapping, "verify");
    const struct bl_json *on_failure = plan_member(mapping, "on_failure");
    if (limits != NULL)
        plan_limits_read(loader, file, limits + 1, task, &said->limits);
    if (verify != NULL)
        read_verify(loader, file, verify + 1, &said->verify);
    if (on_failure != NULL && !task)
        read_on_failure(loader, file, on_failure, said);
}

/* ---- The feature ----------------------------------------------------------------------------- */

static void warn_of_name(struct plan_loader *loader, const struct bl_json *id)
{
    const struct bl_plan *plan = loader->plan;
    const char *slash = strrchr(plan->path, '/');
    struct bl_text name = bl_text_from(slash != NULL ? slash + 1 : plan->path);
    const char *dot = memrchr(name.data, '.', name.size);

    if (dot != NULL && dot > name.data)
        name.size = (size_t)(dot - name.data);
    if (!bl_text_equal(name, bl_text_from(plan->id)))
        plan_warn(loader, &loader->file, id, "the id is %s, and the file's name is %s", plan->id,
                  plan_show(loader, name));
}

static void plan_check_read_names(struct plan_loader *loader, const struct bl_json *root)
{
    struct bl_plan *plan = loader->plan;
    const struct plan_file *file = &loader->file;
    const struct bl_json *id = plan_member(root, "id"), *name = plan_member(root, "name");
    const struct bl_json *description = plan_member(root, "description");
    struct bl_text text;

    if (id == NULL)
        plan_fault(loader, file, root, "E02", "the feature has no id");
    else if (plan_text(loader, file, id + 1, "E02", "id", &plan->id) &&
             !plan_id_valid(bl_text_from(plan->id)))
        plan_fault(loader, file, id + 1, "E02",
                   "the id '%s' is not usable: 1 to 64 of A-Z, a-z, 0-9, _ and -, a letter or "
                   "digit first",
                   plan_show(loader, bl_text_from(plan->id)));
    else if (plan->id != NULL)
        warn_of_name(loader, id);
    if (name == NULL)
        plan_fault(loader, file, root, "E02", "the feature has no name");
    else if (plan_text(loader, file, name + 1, "E02", "name", &plan->name) &&
             plan_check_is_blank(plan->name))
        plan_fault(loader, file, name + 1, "E02", "the feature's name is empty");
    if (description != NULL && plan_scalar(loader, description + 1, &text))
        plan->description = text.data;
    if (plan->description == NULL)
        plan->description = "";
}

static void read_recommended(struct plan_loader *loader, const struct bl_json *orchestration)
{
    const struct bl_json *key = plan_member(orchestration, "recommended_parallel");
    int64_t count;

    if (key == NULL)
        return;
    if (plan_integer(loader, key + 1, &count) && count >= 1)
        loader->plan->recommended_parallel = count;
    else
        plan_fault(loader, &loader->file, key + 1, "E07",
                   "recommended_parallel must be a whole number of 1 or more, is %s",
                   plan_show_value(loader, key + 1));
}

void plan_feature_read(struct plan_loader *loader)
{
    static const char *const names[] = {"id",    "name",          "description", "tasks",
                                        "belay", "orchestration", "smoke_gates", NULL};
    static const char *const others[] = {"behavioural_oracle", "status", "execution", NULL};
    static const char *const orchestration_names[] = {"parallel_groups", "recommended_parallel",
                                                      NULL};
    static const char *const none[] = {NULL};
    const struct plan_file *file = &loader->file;
    const struct bl_json *root = file->document.root;
    const struct bl_json *belay = plan_member(root, "belay");
    const struct bl_json *orchestration = plan_member(root, "orchestration");

    plan_keys_warn(loader, file, root, names, others);
    plan_check_read_names(loader, root);
    if (belay != NULL)
        plan_said_read(loader, file, belay + 1, false, &loader->said);
    loader->oracle = plan_oracle_read(loader, file, root);
    if (orchestration == NULL)
        return;
    if (!bl_json_is(orchestration + 1, BL_JSON_OBJECT)) {
        plan_fault(loader, file, orchestration + 1, "E04", "orchestration must be a mapping, is %s",
                   bl_value_type(orchestration + 1));
        return;
    }
    plan_keys_warn(loader, file, orchestration + 1, orchestration_names, none);
    read_recommended(loader, orchestration + 1);
}

/* ---- smoke_gates: ---------------------------------------------------------------------------- */

static void gate_wave(struct plan_loader *loader, const struct bl_json *value)
{
    struct bl_plan *plan = loader->plan;
    int64_t wave;

    if (!plan_integer(loader, value, &wave) || wave < 1) {
        plan_fault(loader, &loader->file, value, "E08",
                   "after_wave must be the number of a wave, a list of them, or all; is %s",
                   plan_show_value(loader, value));
        return;
    }
    if ((uint64_t)wave > loader->declared_waves) {
        if (!loader->waves_cut)
            plan_fault(loader, &loader->file, value, "E08",
                       "the gate is after wave %lld, and there %s %zu", (long long)wave,
                       loader->declared_waves == 1 ? "is" : "are", loader->declared_waves);
        return;
    }
    /* An empty wave was dropped: what stands after it is what stood before it. */
    size_t kept = loader->kept_waves[wave - 1];
    if (kept > 0)
        plan->waves[kept - 1].gated = true;
    else
        plan_warn(loader, &loader->file, value,
                  "the gate is after wave %lld, which is empty and the first: it is not run there",
                  (long long)wave);
}

static void read_after_wave(struct plan_loader *loader, const struct bl_json *mapping)
{
    const struct bl_json *key = plan_member(mapping, "after_wave");
    struct bl_text text;

    if (key == NULL) {
        plan_fault(loader, &loader->file, mapping, "E08",
                   "smoke_gates does not say after_wave: the number of a wave, a list, or all");
        return;
    }
    if (plan_scalar(loader, key + 1, &text) && bl_text_equal(text, BL_TEXT("all"))) {
        for (size_t i = 0; i < loader->plan->wave_count; i++)
            loader->plan->waves[i].gated = true;
        return;
    }
    if (!bl_json_is(key + 1, BL_JSON_ARRAY) || bl_json_size(key + 1) == 0) {
        gate_wave(loader, key + 1);
        return;
    }
    BL_JSON_EACH (element, key + 1)
        gate_wave(loader, element);
}

static void read_gate_timeout(struct plan_loader *loader, const struct bl_json *key,
                              uint64_t *timeout_ns)
{
    uint64_t ns;

    if (!plan_duration(loader, &loader->file, key, false, &ns))
        return;
    if (ns < BL_NS_PER_S || ns > GATE_TIMEOUT_S_MOST * BL_NS_PER_S)
        plan_fault(loader, &loader->file, key + 1, "E07",
                   "the gate's timeout must be from 1 to %d seconds, is %s", GATE_TIMEOUT_S_MOST,
                   plan_show_value(loader, key + 1));
    else
        *timeout_ns = ns;
}

void plan_gate_read(struct plan_loader *loader)
{
    static const char *const names[] = {"after_wave",         "command", "expected_exit", "timeout",
                                        "exit5_is_hard_fail", NULL};
    const struct plan_file *file = &loader->file;
    struct bl_smoke_gate *gate = &loader->plan->gate;
    const struct bl_json *gates = plan_member(file->document.root, "smoke_gates");

    *gate = (struct bl_smoke_gate){.timeout_ns = GATE_TIMEOUT_S * BL_NS_PER_S};
    if (gates == NULL || !plan_keys_check(loader, file, gates + 1, "E08", "smoke_gates", names))
        return;
    const struct bl_json *command = plan_member(gates + 1, "command");
    const struct bl_json *expected = plan_member(gates + 1, "expected_exit");
    const struct bl_json *timeout = plan_member(gates + 1, "timeout");
    const struct bl_json *hard = plan_member(gates + 1, "exit5_is_hard_fail");
    int64_t exit_code;

    if (command == NULL)
        plan_fault(loader, file, gates, "E10", "the gate has no command");
    else if (plan_text(loader, file, command + 1, "E10", "the gate's command", &gate->command) &&
             plan_check_is_blank(gate->command))
        plan_fault(loader, file, command + 1, "E10", "the gate's command is empty");
    if (expected != NULL && plan_integer(loader, expected + 1, &exit_code) && exit_code >= 0 &&
        exit_code <= 255)
        gate->expected_exit = (int)exit_code;
    else if (expected != NULL)
        plan_fault(loader, file, expected + 1, "E07",
                   "expected_exit must be a whole number from 0 to 255, is %s",
                   plan_show_value(loader, expected + 1));
    if (timeout != NULL)
        read_gate_timeout(loader, timeout, &gate->timeout_ns);
    if (hard != NULL)
        plan_boolean(loader, file, hard, &gate->exit5_is_hard_fail);
    read_after_wave(loader, gates + 1);
}
