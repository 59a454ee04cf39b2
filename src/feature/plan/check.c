#include "plan.h"

#define GATE_TIMEOUT_S      120
#define GATE_TIMEOUT_S_MOST 600

/* ---- verify: --------------------------------------------------------------------------------- */

static bool plan_check_is_blank(const char *text)
{
    return bl_text_trim(bl_text_from(text)).size == 0;
}

/* Returns whether a path stays below its start. */
static bool stays_inside(struct bl_text path)
{
    struct bl_text rest = path, part;

    if (path.size == 0 || path.data[0] == '/')
        return false;
    while (bl_text_split(&rest, '/', &part)) {
        if (bl_text_equal(part, BL_TEXT("..")))
            return false;
    }
    return true;
}

static const struct bl_form path_form = {.expected = "a path inside the repository",
                                         .fits = stays_inside};
static const struct bl_member path_element = {
    .type = BL_TYPE_STRING, .size = sizeof(char *), .form = &path_form};
static const struct bl_member command_element = {
    .type = BL_TYPE_STRING, .size = sizeof(char *), .form = &plan_form_command};

#define BL_RECORD_STRUCT struct bl_verify_plan
static const struct bl_member verify_members[] = {
    BL_MEMBER_STRING("setup", setup, .optional = true, .nullable = true,
                     .form = &plan_form_command),
    BL_MEMBER_BOOLEAN("setup_network", setup_network, .optional = true),
    BL_MEMBER_STRINGS("commands", commands, .optional = true, .or_string = true,
                      .element = &command_element),
    BL_MEMBER_DURATION("timeout", timeout_ns, .optional = true, .least = 1,
                       .most = PLAN_DURATION_MAX_NS),
    BL_MEMBER_STRINGS("carry", carry, .optional = true, .or_string = true,
                      .element = &path_element),
    BL_MEMBER_STRINGS("protect", protect, .optional = true, .or_string = true,
                      .element = &path_element),
    BL_MEMBER_BOOLEAN("required", required, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record verify_record =
    BL_RECORD("verify", struct bl_verify_plan, verify_members, .closed = true);

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

struct belay {
    const struct bl_json *player;
    const struct bl_json *coach;
    const struct bl_json *limits;
    const struct bl_json *verify;
    enum bl_on_failure on_failure;
};

#define BL_RECORD_STRUCT struct belay
static const struct bl_member task_belay_members[] = {
    BL_MEMBER_JSON("player", player, .optional = true),
    BL_MEMBER_JSON("coach", coach, .optional = true),
    BL_MEMBER_JSON("limits", limits, .optional = true),
    BL_MEMBER_JSON("verify", verify, .optional = true),
    BL_MEMBER_END,
};
static const struct bl_record task_belay_record =
    BL_RECORD("a task's belay", struct belay, task_belay_members, .closed = true);

static const struct bl_member belay_members[] = {
    BL_MEMBER_INCLUDE(&task_belay_record),
    BL_MEMBER_ENUM("on_failure", on_failure, &bl_on_failure_names, .optional = true),
    BL_MEMBER_END,
};
static const struct bl_record belay_record =
    BL_RECORD("belay", struct belay, belay_members, .closed = true);
#undef BL_RECORD_STRUCT

void plan_said_read(struct plan_loader *loader, struct plan_draft *draft,
                    const struct bl_json *mapping)
{
    bool task = draft != NULL;
    const struct plan_file *file = task ? &draft->file : &loader->file;
    struct plan_said *said = task ? &draft->said : &loader->said;
    struct plan_seat_said *below = task ? loader->said.seats : NULL;
    struct belay belay = {.on_failure = said->on_failure};

    plan_record_read(loader, file, task ? &task_belay_record : &belay_record, mapping, "E08",
                     &belay);
    said->on_failure = belay.on_failure;
    if (belay.player != NULL)
        plan_seat_read(loader, file, belay.player, PLAN_PLAYER, task ? &below[PLAN_PLAYER] : NULL,
                       &said->seats[PLAN_PLAYER]);
    if (belay.coach != NULL)
        plan_seat_read(loader, file, belay.coach, PLAN_COACH, task ? &below[PLAN_COACH] : NULL,
                       &said->seats[PLAN_COACH]);
    if (belay.limits != NULL)
        plan_limits_read(loader, file, belay.limits, task, task ? &draft->limits : &loader->limits,
                         task ? &draft->timeout : &loader->timeout);
    if (belay.verify != NULL)
        plan_record_read(loader, file, &verify_record, belay.verify, "E10", &said->verify);
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
        plan_warn(loader, &loader->file, id, "the id is %s, but the file is named %s", plan->id,
                  plan_show(loader, name));
}

struct feature_said {
    const char *id;
    const char *name;
    const struct bl_json *description;
    const struct bl_json *belay;
    const struct bl_json *orchestration;
    int64_t recommended_parallel;
    const struct bl_json *elsewhere; /* read elsewhere, or ignored */
};

#define ELSEWHERE(key)   BL_MEMBER_JSON(key, elsewhere, .optional = true)
#define BL_RECORD_STRUCT struct feature_said
static const struct bl_member feature_members[] = {
    BL_MEMBER_STRING("id", id, .optional = true),
    BL_MEMBER_STRING("name", name, .optional = true),
    BL_MEMBER_JSON("description", description, .optional = true),
    BL_MEMBER_JSON("belay", belay, .optional = true),
    BL_MEMBER_JSON("orchestration", orchestration, .optional = true),
    ELSEWHERE("tasks"),
    ELSEWHERE("smoke_gates"),
    ELSEWHERE("behavioural_oracle"),
    ELSEWHERE("status"),
    ELSEWHERE("execution"),
    BL_MEMBER_END,
};
static const struct bl_member orchestration_members[] = {
    BL_MEMBER_INTEGER("recommended_parallel", recommended_parallel, .optional = true, .least = 1),
    ELSEWHERE("parallel_groups"),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record feature_record =
    BL_RECORD("the feature", struct feature_said, feature_members);

static const struct bl_record orchestration_record =
    BL_RECORD("orchestration", struct feature_said, orchestration_members);

static void check_names(struct plan_loader *loader, const struct bl_json *root)
{
    struct bl_plan *plan = loader->plan;
    const struct plan_file *file = &loader->file;
    const struct bl_json *id = plan_member(root, "id"), *name = plan_member(root, "name");

    if (id == NULL)
        plan_fault(loader, file, root, "E02", "the feature has no id");
    else if (plan->id != NULL && !plan_id_valid(bl_text_from(plan->id)))
        plan_fault(loader, file, id + 1, "E02",
                   "invalid id '%s' (expected 1 to 64 of A-Z, a-z, 0-9, _ and -, starting with a "
                   "letter or "
                   "digit)",
                   plan_show(loader, bl_text_from(plan->id)));
    else if (plan->id != NULL)
        warn_of_name(loader, id);
    if (name == NULL)
        plan_fault(loader, file, root, "E02", "the feature has no name");
    else if (plan->name != NULL && plan_check_is_blank(plan->name))
        plan_fault(loader, file, name + 1, "E02", "the feature's name is empty");
}

void plan_feature_read(struct plan_loader *loader)
{
    const struct bl_json *root = loader->file.document.root;
    struct bl_plan *plan = loader->plan;
    struct feature_said said = {0};
    struct bl_text text = {"", 0};

    plan_record_read(loader, &loader->file, &feature_record, root, "E02", &said);
    plan->id = said.id;
    plan->name = said.name;
    check_names(loader, root);
    if (said.description != NULL)
        plan_scalar(loader, said.description, &text);
    plan->description = text.data;
    if (said.belay != NULL)
        plan_said_read(loader, NULL, said.belay);
    loader->oracle = plan_oracle_read(loader, &loader->file, root);
    if (said.orchestration != NULL)
        plan_record_read(loader, &loader->file, &orchestration_record, said.orchestration, "E04",
                         &said);
    plan->recommended_parallel = said.recommended_parallel;
}

/* ---- smoke_gates: ---------------------------------------------------------------------------- */

static void gate_wave(struct plan_loader *loader, const struct bl_json *value)
{
    struct bl_plan *plan = loader->plan;
    int64_t wave;

    if (!plan_integer(loader, value, &wave) || wave < 1) {
        plan_fault(loader, &loader->file, value, "E08",
                   "after_wave: expected the number of a wave, a list of numbers, or all, found %s",
                   plan_show_value(loader, value));
        return;
    }
    if ((uint64_t)wave > loader->declared_waves) {
        if (!loader->waves_cut)
            plan_fault(loader, &loader->file, value, "E08",
                       "the gate is after wave %lld, but the plan has %zu wave%s", (long long)wave,
                       loader->declared_waves, loader->declared_waves == 1 ? "" : "s");
        return;
    }
    /* Empty waves were dropped: the gate then runs after the wave before. */
    size_t kept = loader->kept_waves[wave - 1];
    if (kept > 0)
        plan->waves[kept - 1].gated = true;
    else
        plan_warn(
            loader, &loader->file, value,
            "the gate after wave %lld does not run: that wave is empty, and no wave precedes it",
            (long long)wave);
}

static void read_after_wave(struct plan_loader *loader, const struct bl_json *mapping)
{
    const struct bl_json *key = plan_member(mapping, "after_wave");
    struct bl_text text;

    if (key == NULL) {
        plan_fault(loader, &loader->file, mapping, "E08",
                   "smoke_gates has no after_wave (the number of a wave, a list, or all)");
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

struct gate_said {
    struct bl_smoke_gate gate;
    const struct bl_json *after_wave;
    const struct bl_json *command;
};

#define BL_RECORD_STRUCT struct gate_said
static const struct bl_member gate_members[] = {
    BL_MEMBER_JSON("after_wave", after_wave, .optional = true),
    BL_MEMBER_JSON("command", command, .optional = true),
    BL_MEMBER_INTEGER("expected_exit", gate.expected_exit, .optional = true, .most = 255),
    BL_MEMBER_DURATION("timeout", gate.timeout_ns, .optional = true, .least = BL_NS_PER_S,
                       .most = GATE_TIMEOUT_S_MOST * BL_NS_PER_S),
    BL_MEMBER_BOOLEAN("exit5_is_hard_fail", gate.exit5_is_hard_fail, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record gate_record =
    BL_RECORD("smoke_gates", struct gate_said, gate_members, .closed = true);

void plan_gate_read(struct plan_loader *loader)
{
    const struct plan_file *file = &loader->file;
    const struct bl_json *gates = plan_member(file->document.root, "smoke_gates");
    struct gate_said said = {.gate = {.timeout_ns = GATE_TIMEOUT_S * BL_NS_PER_S}};

    if (gates != NULL)
        plan_record_read(loader, file, &gate_record, gates + 1, "E08", &said);
    if (gates != NULL && bl_json_is(gates + 1, BL_JSON_OBJECT)) {
        if (said.command == NULL)
            plan_fault(loader, file, gates, "E10", "the gate has no command");
        else if (plan_text(loader, file, said.command, "E10", "the gate's command",
                           &said.gate.command) &&
                 plan_check_is_blank(said.gate.command))
            plan_fault(loader, file, said.command, "E10", "the gate's command is empty");
        read_after_wave(loader, gates + 1);
    }
    loader->plan->gate = said.gate;
}
