#include "helpers.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EVENTS_MAX  ((size_t)64 * 1024 * 1024)
#define CHECKED_MAX ((size_t)64 * 1024)

/* The model of a persona. */
struct rig_script {
    struct bl_list link;
    const char *name;
    struct bl_script *script;
};

/* ---- Models ---------------------------------------------------------------------------------- */

void rig_script(struct rig *rig, const char *script)
{
    struct bl_error error = {0};

    bl_script_player_free(rig->player);
    bl_script_free(rig->script);
    rig->script = NULL;
    if (!CHECK_EQUAL(bl_script_parse(bl_text_from(script), "rig", &rig->script, &error), 0))
        print_error("%s\n", error.message);
    rig->player = bl_script_player_new(rig->script, 1, &rig->model);
}

static int open_model(void *context, const char *name, struct bl_model *ret_model,
                      void **ret_handle, struct bl_error *error)
{
    struct rig *rig = context;

    *ret_handle = NULL;
    if (name == NULL) {
        *ret_model = rig->model;
        return 0;
    }
    BL_LIST_EACH (link, &rig->scripts) {
        const struct rig_script *script = BL_CONTAINER(link, struct rig_script, link);
        if (strcmp(script->name, name) == 0) {
            *ret_handle = bl_script_player_new(script->script, 1, ret_model);
            return 0;
        }
    }
    return bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, "find a model", name,
                        "there is no model '%s'", name);
}

static void close_model(void *context BL_UNUSED, void *handle)
{
    bl_script_player_free(handle);
}

struct bl_persona *rig_persona(struct rig *rig, const char *name, const char *script)
{
    struct bl_persona *persona = bl_arena_zalloc(&rig->arena, sizeof *persona);

    *persona = (struct bl_persona){.name = name,
                                   .description = "A part of the test.",
                                   .instructions = BL_TEXT("Do your part."),
                                   .max_steps = BL_UNLIMITED,
                                   .max_budget_tokens = BL_UNLIMITED};
    bl_list_push_back(&rig->personas, &persona->link);
    rig->options.personas = &rig->personas;
    rig->options.models = &rig->models;
    if (script == NULL)
        return persona;
    struct rig_script *own = bl_arena_zalloc(&rig->arena, sizeof *own);
    struct bl_error error = {0};
    own->name = persona->model = name;
    if (!CHECK_EQUAL(bl_script_parse(bl_text_from(script), name, &own->script, &error), 0))
        print_error("%s: %s\n", name, error.message);
    bl_list_push_back(&rig->scripts, &own->link);
    return persona;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void on_event(void *context, const struct bl_event *event)
{
    struct rig *rig = context;
    struct bl_json_writer writer;

    CHECK(event->seq > 0 && event->run != NULL && event->session != NULL);
    if (event->agent == NULL) {
        CHECK(event->seq == 1 || event->seq == rig->root_seq + 1);
        rig->root_seq = event->seq;
    }
    bl_json_writer_init(&writer, &rig->events);
    bl_event_write(&writer, event);
    bl_buffer_append_byte(&rig->events, '\n');
    if (rig->on_event != NULL)
        rig->on_event(rig, event);
}

static bool has(struct bl_text text, const char *part)
{
    return part == NULL || bl_text_find(text, bl_text_from(part)) >= 0;
}

size_t rig_told_of(const struct rig *rig, const char *first, const char *second)
{
    struct bl_text rest = bl_buffer_text(&rig->events), line;
    size_t count = 0;

    while (bl_text_split(&rest, '\n', &line))
        count += has(line, first) && has(line, second);
    return count;
}

size_t rig_told(const struct rig *rig, enum bl_event_type type)
{
    char part[64];

    snprintf(part, sizeof part, "{\"type\":\"%s\",", bl_event_type_name(type));
    return rig_told_of(rig, part, NULL);
}

/* Checks all events against their schema; of very many, only the beginning. */
static void check_events(struct rig *rig)
{
    const char *root = getenv("BELAY_SOURCE_ROOT");
    struct bl_text rest = bl_utf8_cut(bl_buffer_text(&rig->events), CHECKED_MAX), line;
    struct bl_json_schema *schema = NULL;
    const struct bl_json *source = NULL;
    char path[512];

    if (rest.size == 0)
        return;
    snprintf(path, sizeof path, "%s/docs/schemas/event.json", root != NULL ? root : ".");
    struct bl_text text = suite_read_file(path);
    CHECK_EQUAL(bl_json_read(&rig->arena, text, NULL, &source, NULL), 0);
    CHECK_EQUAL(bl_json_schema_new(source, &schema, &rig->error), 0);
    while (bl_text_split(&rest, '\n', &line)) {
        const struct bl_json *event = NULL;
        struct bl_list problems;
        if (rest.size == 0 && rig->events.size > CHECKED_MAX)
            break; /* may be cut */
        if (CHECK_EQUAL(bl_json_read(&rig->arena, line, NULL, &event, NULL), 0) &&
            !CHECK_EQUAL(bl_json_schema_check(schema, event, &rig->arena, &problems), 0))
            print_error(BL_TEXT_FORMAT "\n", BL_TEXT_ARG(line));
    }
    bl_json_schema_free(schema);
    bl_free((void *)(uintptr_t)text.data);
}

/* ---- Setup and teardown ---------------------------------------------------------------------- */

void rig_init(struct rig *rig, const char *script)
{
    memset(rig, 0, sizeof *rig);
    snprintf(rig->folder, sizeof rig->folder, "/tmp/belay-agent-XXXXXX");
    CHECK(mkdtemp(rig->folder) != NULL);
    snprintf(rig->path, sizeof rig->path, "%s/sessions.db", rig->folder);
    bl_arena_init(&rig->arena);
    bl_activities_init(&rig->activities);
    bl_buffer_init(&rig->events, EVENTS_MAX);
    bl_list_init(&rig->personas);
    bl_list_init(&rig->scripts);
    rig->models = (struct bl_model_source){open_model, close_model, rig};
    rig->listener = (struct bl_listener){on_event, rig};
    CHECK_EQUAL(bl_store_open(rig->path, &rig->store, &rig->error), 0);
    rig_script(rig, script);
    rig->permissions = bl_permissions_new(BL_PERMISSION_YOLO);
    struct bl_toolbox_options tools = {
        .workspace = rig->folder, .permissions = rig->permissions, .sandbox_chosen = true};
    CHECK_EQUAL(bl_toolbox_new(&tools, &rig->toolbox, &rig->error), 0);
    rig->options = (struct bl_agent_options){
        .store = rig->store,
        .session = {.id = "rig", .directory = rig->folder},
        .model = &rig->model,
        .toolbox = rig->toolbox,
        .permissions = rig->permissions,
        .directory = rig->folder,
        .listener = &rig->listener,
        .activities = &rig->activities,
    };
    rig->run = (struct bl_run_options){.max_turns = 8};
    bl_turn_limits_init(&rig->options.limits);
}

/* Tests leave only files there. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;

    if (!CHECK(folder != NULL))
        return;
    while ((entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            CHECK_EQUAL(unlinkat(dirfd(folder), entry->d_name, 0), 0);
    closedir(folder);
    CHECK_EQUAL(rmdir(path), 0);
}

void rig_done(struct rig *rig)
{
    rig_close(rig);
    CHECK(bl_list_empty(&rig->activities.list));
    check_events(rig);
    bl_toolbox_free(rig->toolbox);
    bl_permissions_free(rig->permissions);
    bl_script_player_free(rig->player);
    bl_script_free(rig->script);
    BL_LIST_EACH (link, &rig->scripts)
        bl_script_free(BL_CONTAINER(link, struct rig_script, link)->script);
    bl_store_close(rig->store);
    bl_buffer_done(&rig->events);
    bl_arena_done(&rig->arena);
    remove_folder(rig->folder);
}

static void begin_prompt(struct rig *rig, const char *prompt)
{
    bl_scope_init(&rig->scope, bl_scope_current());
    rig->options.session.prompt = rig->run.prompt = bl_text_from(prompt);
    rig->error = (struct bl_error){0};
}

int rig_run(struct rig *rig, const char *prompt)
{
    bl_id_make(rig->run_id, "run_");
    rig->options.session.run_id = rig->run.run_id = rig->run_id;
    begin_prompt(rig, prompt);
    int code =
        bl_agent_run(&rig->options, &rig->run, &rig->scope, &rig->arena, &rig->result, &rig->error);
    bl_scope_done(&rig->scope);
    return code;
}

void rig_open(struct rig *rig)
{
    bl_id_make(rig->run_id, "run_");
    rig->options.session.run_id = rig->run.run_id = rig->run_id;
    if (!CHECK_EQUAL(bl_agent_open(&rig->options, &rig->agent, &rig->error), 0))
        print_error("%s\n", rig->error.message);
}

enum bl_turn_end rig_prompt(struct rig *rig, const char *prompt)
{
    begin_prompt(rig, prompt);
    bl_agent_prompt(rig->agent, &rig->run, &rig->scope, &rig->arena, &rig->result.run);
    bl_scope_done(&rig->scope);
    return rig->result.run.end;
}

void rig_close(struct rig *rig)
{
    bl_agent_close(rig->agent);
    rig->agent = NULL;
}

/* ---- Results --------------------------------------------------------------------------------- */

const struct bl_turn_result *rig_turn(const struct rig *rig)
{
    return BL_CONTAINER(rig->result.run.turns.previous, struct bl_turn_result, link);
}

struct bl_store_session_view rig_view(struct rig *rig)
{
    struct bl_store_session_view view = {0};
    struct bl_error error = {0};

    CHECK_EQUAL(bl_store_show(rig->store, &rig->arena, "rig", &view, &error), 0);
    return view;
}

static int take_line(void *context, struct bl_text line)
{
    bl_buffer_append(context, line);
    return bl_buffer_append_byte(context, '\n');
}

struct bl_text rig_export(struct rig *rig, const char *session)
{
    struct bl_error error = {0};
    struct bl_buffer out;

    bl_buffer_init(&out, EVENTS_MAX);
    CHECK_EQUAL(bl_store_export(rig->store, session, take_line, &out, &error), 0);
    struct bl_text text = bl_arena_text(&rig->arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}

const struct bl_store_summary *rig_child(struct rig *rig, const char *persona)
{
    static const struct bl_store_summary none = {.id = "", .persona = ""};
    struct bl_error error = {0};
    struct bl_list list;

    CHECK_EQUAL(bl_store_list(rig->store, &rig->arena, NULL, 0, true, &list, &error), 0);
    BL_LIST_EACH (link, &list) {
        const struct bl_store_summary *summary = BL_CONTAINER(link, struct bl_store_summary, link);
        if (summary->persona != NULL && strcmp(summary->persona, persona) == 0)
            return summary;
    }
    CHECK(!"a session of that persona");
    return &none;
}

/* A user first, an assistant last; results of an answer's calls are in the next message. */
static void check_turn(const struct bl_list *messages)
{
    enum bl_role role = BL_ROLE_USER;
    size_t calls = 0;

    BL_LIST_EACH (link, messages) {
        const struct bl_message *message = BL_CONTAINER(link, struct bl_message, link);
        size_t results = 0, asked = 0;
        CHECK_EQUAL(message->role, role);
        role = role == BL_ROLE_USER ? BL_ROLE_ASSISTANT : BL_ROLE_USER;
        CHECK(!bl_list_empty(&message->blocks));
        BL_LIST_EACH (part, &message->blocks) {
            const struct bl_block *block = BL_CONTAINER(part, struct bl_block, link);
            results += block->type == BL_BLOCK_RESULT;
            asked += block->type == BL_BLOCK_CALL;
            /* Injected messages follow the results. */
            CHECK(block->type != BL_BLOCK_RESULT || part->previous == &message->blocks ||
                  BL_CONTAINER(part->previous, struct bl_block, link)->type == BL_BLOCK_RESULT);
        }
        CHECK_EQUAL(results, message->role == BL_ROLE_USER ? calls : 0);
        calls = asked;
    }
    CHECK_EQUAL(role, BL_ROLE_USER);
    CHECK_EQUAL(calls, 0);
}

uint64_t rig_check_valid(struct rig *rig, const char *session)
{
    struct bl_store_hold_options options = {
        .id = session, .must_exist = true, .directory = rig->folder, .run_id = "run_check"};
    struct bl_store_session *held;
    struct bl_session seen;
    struct bl_error error = {0};

    bl_session_init(&seen, "");
    if (!CHECK_EQUAL(bl_store_hold(rig->store, &options, &seen, &held, &error), 0)) {
        print_error("%s\n", error.message);
        bl_session_done(&seen);
        return 0;
    }
    uint64_t turns = seen.turns_in_context;
    if (seen.summary != NULL)
        check_turn(&seen.summary->messages);
    BL_LIST_EACH (link, &seen.turns)
        check_turn(&BL_CONTAINER(link, struct bl_turn_record, link)->messages);
    bl_store_release(held);
    bl_session_done(&seen);
    return turns;
}

const struct bl_json *rig_json(struct rig *rig, struct bl_text text)
{
    const struct bl_json *value = NULL;

    CHECK_EQUAL(bl_json_read(&rig->arena, text, NULL, &value, NULL), 0);
    return value;
}

/* ---- Surroundings ---------------------------------------------------------------------------- */

bool rig_has_file(const struct rig *rig, const char *name)
{
    char path[160];

    snprintf(path, sizeof path, "%s/%s", rig->folder, name);
    return access(path, F_OK) == 0;
}

struct bl_text rig_file(struct rig *rig, const char *name)
{
    char path[160];

    if (!rig_has_file(rig, name))
        return (struct bl_text){0};
    snprintf(path, sizeof path, "%s/%s", rig->folder, name);
    struct bl_text read = suite_read_file(path);
    struct bl_text text = bl_arena_text(&rig->arena, read);
    bl_free((void *)(uintptr_t)read.data);
    return text;
}

size_t rig_processes(const struct rig *rig)
{
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    size_t count = 0;

    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        char path[300], folder[64];
        snprintf(path, sizeof path, "/proc/%s/cwd", entry->d_name);
        ssize_t size = readlink(path, folder, sizeof folder);
        count +=
            size == (ssize_t)strlen(rig->folder) && strncmp(folder, rig->folder, (size_t)size) == 0;
    }
    if (processes != NULL)
        closedir(processes);
    return count;
}

const char *rig_running(const struct rig *rig, const char *kind, size_t index)
{
    BL_LIST_EACH (link, &rig->activities.list) {
        const struct bl_activity *activity = BL_CONTAINER(link, struct bl_activity, link);
        if (strcmp(activity->kind, kind) == 0 && index-- == 0)
            return activity->id;
    }
    return "";
}
