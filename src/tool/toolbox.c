#include "parts.h"

#define OUTPUT_MAX_DEFAULT ((size_t)64 * 1024)

const struct tool_entry *const tool_entries[TOOL_COUNT] = {
    &tool_bash, &tool_read, &tool_write, &tool_edit,  &tool_glob,
    &tool_grep, &tool_ls,   &tool_todo,  &tool_fetch,
};

/* Returns SIZE_MAX if there is no tool with that name. */
static size_t find_entry(const char *name)
{
    for (size_t i = 0; i < TOOL_COUNT; i++)
        if (strcmp(tool_entries[i]->name, name) == 0)
            return i;
    return SIZE_MAX;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* The engine has validated the input against the schema. The one case that the schema accepts and
 * the table does not is a number that is too large. */
const void *tool_input_read(const struct tool_entry *entry, const struct bl_tool_call *call,
                            struct bl_text *ret_text)
{
    void *input = bl_arena_alloc(call->arena, entry->input->size);
    struct bl_record_fault fault = {0};
    char text[sizeof fault.message + sizeof fault.path];
    const char *wrong = text;
    if (bl_record_view(call->arena, entry->input, call->input, input, &fault) != 0)
        bl_record_fault_text(&fault, text, sizeof text);
    else
        wrong = entry->check != NULL ? entry->check(input) : NULL;
    if (wrong == NULL)
        return input;
    *ret_text = bl_arena_printf(call->arena, "Invalid input for %s: %s. The tool was not run.",
                                entry->name, wrong);
    return NULL;
}

/* Returns the text that rules are about; empty if the input omits it. */
static struct bl_text toolbox_subject(const struct tool_entry *entry, const void *input)
{
    return *(const struct bl_text *)(const void *)((const char *)input + entry->subject);
}

/* ---- The sandbox ----------------------------------------------------------------------------- */

static struct bl_sandbox_view sandbox_view(const struct bl_toolbox *toolbox);

/* A sandbox that was not requested comes with the mode auto, also when the mode changes to auto:
 * the sandbox is what lets commands run there. It then stays: a call that was allowed because of it
 * must not lose it if the mode changes again before the call runs. */
static bool toolbox_adds_sandbox(const struct bl_toolbox *toolbox)
{
    return !toolbox->sandbox_chosen && !toolbox->sandbox_tried &&
           bl_permissions_mode(toolbox->permissions) == BL_PERMISSION_AUTO;
}

static void toolbox_follow_mode(struct bl_toolbox *toolbox)
{
    if (!toolbox_adds_sandbox(toolbox))
        return;
    toolbox->sandbox_tried = true;
    toolbox->sandbox_settled = false;
    toolbox->sandbox = BL_SANDBOX_WORKSPACE;
    struct bl_sandbox_view view = sandbox_view(toolbox);
    toolbox->pins = bl_sandbox_pins_new(&view);
}

/* Settles which sandbox is in force. If the machine lacks it, that is an error if it was requested;
 * if only the mode called for it, there is none. Trying it takes milliseconds, so it is done once,
 * when first needed. */
static int settle_sandbox(struct bl_toolbox *toolbox, struct bl_error *error)
{
    struct bl_container_check check = {0};
    bool settled = toolbox->sandbox_settled;
    toolbox->sandbox_settled = true;
    if (settled || toolbox->sandbox == BL_SANDBOX_OFF)
        return 0;
    bl_sandbox_check(&check);
    if (check.available) {
        toolbox->container = bl_sandbox_container(toolbox->container);
        return 0;
    }
    toolbox->sandbox = BL_SANDBOX_OFF;
    bl_error_set(error, BL_ENOTSUP, BL_KIND_RUNTIME, "enter the sandbox", "bwrap",
                 "the sandbox is not available: %s", check.detail);
    if (check.hint[0] != '\0')
        bl_error_hint(error, "%s", check.hint);
    return BL_ENOTSUP;
}

static struct bl_sandbox_view sandbox_view(const struct bl_toolbox *toolbox)
{
    return (struct bl_sandbox_view){
        .sandbox = toolbox->sandbox,
        .workspace = toolbox->workspace,
        .folders = toolbox->folders,
        .readable = toolbox->readable,
        .network = permission_network(toolbox->permissions),
        .pins = toolbox->pins,
    };
}

int tool_sandbox_wrap(const struct bl_toolbox *toolbox, struct bl_arena *arena,
                      const char *const *arguments, const char *const **ret_arguments,
                      struct bl_error *error)
{
    struct bl_sandbox_view view = sandbox_view(toolbox);
    if (toolbox->sandbox != BL_SANDBOX_OFF)
        view.shown = bl_permissions_shown(toolbox->permissions, arena);
    return bl_sandbox_wrap_view(arena, &view, arguments, ret_arguments, error);
}

const char *tool_sandbox_sweep(const struct bl_toolbox *toolbox)
{
    return toolbox->pins != NULL ? bl_sandbox_pins_sweep(toolbox->pins) : NULL;
}

/* ---- The engine's table ---------------------------------------------------------------------- */

/* Resolves the subject of a path tool. Returns false if it may not be used; the call itself reports
 * why. */
static bool resolve_subject(const struct bl_toolbox *toolbox, const struct tool_entry *entry,
                            const struct bl_tool_call *call, const void *input,
                            struct tool_path *ret_path)
{
    struct bl_text given = toolbox_subject(entry, input), text;
    return tool_path_resolve(toolbox, call->arena, given.size > 0 ? given : BL_TEXT("."),
                             entry->reads ? PATH_READ : PATH_WRITE, ret_path, &text);
}

/* A tool that shows or searches a file is denied where reading is. */
static const char *denied_with(const struct tool_entry *entry)
{
    bool shows = entry->kind == SUBJECT_PATH && entry != &tool_write && entry != &tool_read;
    return shows ? tool_read.name : NULL;
}

/* Fills the question for the permissions. Returns false if the call needs none. */
static bool make_question(struct bl_toolbox *toolbox, size_t index, const struct bl_tool_call *call,
                          struct permission_question *ret_question)
{
    const struct tool_entry *entry = tool_entries[index];
    struct bl_text wrong;
    struct tool_path path;
    const void *input = tool_input_read(entry, call, &wrong);
    if (input == NULL)
        return false;
    *ret_question = (struct permission_question){.tool = entry->name,
                                                 .also = denied_with(entry),
                                                 .kind = entry->kind,
                                                 .reads = entry->reads,
                                                 .contained = true};
    switch (entry->kind) {
    case SUBJECT_COMMAND:
        ret_question->subject = toolbox_subject(entry, input);
        toolbox_follow_mode(toolbox);
        settle_sandbox(toolbox, NULL);
        ret_question->contained = toolbox->sandbox != BL_SANDBOX_OFF;
        /* A call that reads or stops a job was permitted when the job began. */
        return ret_question->subject.size > 0;
    case SUBJECT_PATH:
        if (!resolve_subject(toolbox, entry, call, input, &path))
            return false;
        ret_question->subject = path.shown;
        ret_question->other = path.absolute;
        if (!entry->reads)
            ret_question->guarded =
                bl_sandbox_guarded(call->arena, path.root->path, path.absolute.data);
        ret_question->contained = ret_question->guarded == NULL;
        break;
    case SUBJECT_HOST:
        return tool_fetch_question(toolbox, call->arena, toolbox_subject(entry, input),
                                   ret_question);
    case SUBJECT_NONE: break;
    }
    return true;
}

/* Fills the question about any call. Returns false if there is none. A call that cannot run needs
 * no permission: its result says what is wrong. */
static bool toolbox_question(struct bl_toolbox *toolbox, const struct bl_tool_call *call,
                             struct permission_question *ret_question)
{
    size_t index = find_entry(call->name);
    /* Belay cannot see what a server does: neither whether it only reads, nor where. */
    if (mcp_box_find(toolbox, call->name) != NULL) {
        *ret_question = (struct permission_question){.tool = call->name};
        return true;
    }
    return index != SIZE_MAX && make_question(toolbox, index, call, ret_question);
}

/* These tools run outside of the sandbox, but follow its restrictions. */
static bool sandbox_forbids(const struct bl_toolbox *toolbox,
                            const struct permission_question *question)
{
    return question->kind == SUBJECT_PATH && !question->reads &&
           toolbox->sandbox == BL_SANDBOX_READ_ONLY;
}

static enum bl_permit toolbox_judge(void *context, const struct bl_tool_call *call,
                                    char *ret_reason, size_t reason_size)
{
    struct bl_toolbox *toolbox = context;
    size_t index = find_entry(call->name);
    struct permission_question question;
    if (!toolbox_question(toolbox, call, &question))
        return BL_PERMIT_ALLOWED;
    if (sandbox_forbids(toolbox, &question)) {
        bl_text_into(ret_reason, reason_size, "the sandbox is read-only");
        return BL_PERMIT_DENIED;
    }
    enum bl_permit permit =
        permission_decide(toolbox->permissions, &question, ret_reason, reason_size);
    /* Do not ask about a call that would fail. */
    if (permit == BL_PERMIT_ASK && index != SIZE_MAX && tool_entries[index]->fails != NULL &&
        tool_entries[index]->fails(toolbox, call))
        return BL_PERMIT_FAILS;
    return permit;
}

static enum bl_permit toolbox_permit(void *context, const struct bl_tool_call *call,
                                     char *ret_reason, size_t reason_size)
{
    static const char *const names[] = {[BL_PERMIT_DENIED] = "denied",
                                        [BL_PERMIT_ALLOWED] = "allowed",
                                        [BL_PERMIT_ASK] = "ask",
                                        [BL_PERMIT_FAILS] = "fails"};
    enum bl_permit permit = toolbox_judge(context, call, ret_reason, reason_size);
    BL_LOG(BL_ROOM_TOOL, BL_LOG_DEBUG, "permission", BL_LOG_STRING("tool", call->name),
           BL_LOG_STRING("call", call->id), BL_LOG_STRING("decision", names[permit]));
    return permit;
}

struct bl_text bl_toolbox_rule(struct bl_toolbox *toolbox, const struct bl_tool_call *call)
{
    struct permission_question question;
    if (!toolbox_question(toolbox, call, &question))
        return (struct bl_text){0};
    const char *const *rules = permission_rules(call->arena, &question);
    return rules[0] != NULL && rules[1] == NULL ? bl_text_from(rules[0]) : (struct bl_text){0};
}

const char *const *bl_toolbox_rules_allowing(struct bl_toolbox *toolbox,
                                             const struct bl_tool_call *call)
{
    static const char *const none[] = {NULL};
    struct permission_question question;
    if (!toolbox_question(toolbox, call, &question) || sandbox_forbids(toolbox, &question))
        return none;
    return permission_rules_allowing(toolbox->permissions, call->arena, &question);
}

static struct bl_text unknown_tool(const struct bl_tool_call *call)
{
    struct bl_text text =
        bl_arena_printf(call->arena, "Unknown tool '%.64s'. Available tools:", call->name);
    for (size_t i = 0; i < TOOL_COUNT; i++)
        text = bl_arena_printf(call->arena, BL_TEXT_FORMAT "%s%s", BL_TEXT_ARG(text),
                               i == 0 ? " " : ", ", tool_entries[i]->name);
    return text;
}

static int toolbox_call(void *context, const struct bl_tool_call *call,
                        struct bl_tool_result *ret_result, struct bl_error *error)
{
    struct bl_toolbox *toolbox = context;
    size_t index = find_entry(call->name);
    const struct mcp_tool *theirs = mcp_box_find(toolbox, call->name);
    *ret_result = (struct bl_tool_result){.is_error = true};
    if (theirs != NULL)
        return mcp_box_call(toolbox, theirs, call, ret_result, error);
    if (index == SIZE_MAX) {
        ret_result->text = unknown_tool(call);
        return 0;
    }
    if (tool_input_read(tool_entries[index], call, &ret_result->text) == NULL)
        return 0;
    settle_sandbox(toolbox, NULL);
    int code = tool_entries[index]->call(toolbox, call, ret_result, error);
    BL_LOG(BL_ROOM_TOOL, BL_LOG_DEBUG, "called", BL_LOG_STRING("tool", call->name),
           BL_LOG_STRING("result", bl_error_text(code)),
           BL_LOG_BOOLEAN("is_error", ret_result->is_error),
           BL_LOG_INTEGER("bytes", (int64_t)ret_result->text.size));
    return code;
}

/* ---- The toolbox ----------------------------------------------------------------------------- */

static int toolbox_compile_schema(struct bl_toolbox *toolbox, size_t index,
                                  struct bl_text *ret_text, struct bl_error *error)
{
    const struct bl_json *source;
    BL_AUTO_ARENA(arena);
    *ret_text = bl_record_input_schema(&toolbox->arena, tool_entries[index]->input);
    int code = bl_json_read(&arena, *ret_text, NULL, &source, NULL);
    if (code == 0)
        code = bl_json_schema_new(source, &toolbox->schemas[index], error);
    return code;
}

int bl_toolbox_new(const struct bl_toolbox_options *options, struct bl_toolbox **ret_toolbox,
                   struct bl_error *error)
{
    struct bl_toolbox *toolbox = bl_zalloc(sizeof *toolbox);
    *toolbox = (struct bl_toolbox){
        .tools = {.context = toolbox,
                  .offers = toolbox->offers,
                  .offer_count = TOOL_COUNT,
                  .permit = toolbox_permit,
                  .call = toolbox_call},
        .workspace = options->workspace,
        .folders = options->folders,
        .readable = options->readable,
        .permissions = options->permissions,
        .container = options->container,
        .container_given = options->container,
        .sandbox_chosen = options->sandbox_chosen,
        .notice = options->notice,
        .notice_context = options->notice_context,
        .notice_given = options->notice,
        .notice_given_context = options->notice_context,
        .grace_ms = options->grace_chosen ? options->grace_ms : BL_GRACE_MS_DEFAULT,
        .mcp_grace_ms = options->mcp_grace_ms != 0 ? options->mcp_grace_ms : BL_GRACE_MS_DEFAULT,
        .output_max = options->output_max != 0 ? options->output_max : OUTPUT_MAX_DEFAULT,
        .shell = tool_shell_find(),
    };
    bl_list_init(&toolbox->running);
    bl_list_init(&toolbox->jobs);
    bl_arena_init(&toolbox->arena);
    toolbox->roots =
        tool_roots_new(&toolbox->arena, options->workspace, options->folders, options->readable);
    int code = 0;
    if (options->sandbox_chosen) {
        toolbox->sandbox = options->sandbox;
        code = settle_sandbox(toolbox, error);
    }
    /* Before any command can change the files that the pins protect. */
    toolbox_follow_mode(toolbox);
    if (code == 0 && toolbox->sandbox != BL_SANDBOX_OFF && toolbox->pins == NULL) {
        struct bl_sandbox_view view = sandbox_view(toolbox);
        toolbox->pins = bl_sandbox_pins_new(&view);
    }
    for (size_t i = 0; i < TOOL_COUNT && code == 0; i++) {
        struct bl_text schema;
        code = toolbox_compile_schema(toolbox, i, &schema, error);
        toolbox->offers[i] = (struct bl_tool_offer){
            .name = tool_entries[i]->name,
            .description = tool_entries[i]->description != NULL
                               ? tool_entries[i]->description
                               : tool_entries[i]->describe(toolbox),
            .parallel = tool_entries[i]->parallel,
            .schema = schema,
            .compiled = toolbox->schemas[i],
        };
    }
    if (code != 0) {
        bl_toolbox_free(toolbox);
        return code;
    }
    if (options->mcp != NULL)
        mcp_box_new(toolbox, options->mcp, options->mcp_trusted);
    *ret_toolbox = toolbox;
    return 0;
}

void bl_toolbox_free(struct bl_toolbox *toolbox)
{
    if (toolbox == NULL)
        return;
    mcp_box_free(toolbox);
    tool_sandbox_sweep(toolbox); /* after jobs and servers */
    bl_sandbox_pins_free(toolbox->pins);
    tool_roots_done(toolbox->roots);
    bl_arena_done(&toolbox->arena);
    for (size_t i = 0; i < TOOL_COUNT; i++)
        bl_json_schema_free(toolbox->schemas[i]);
    bl_free(toolbox);
}

const struct bl_tools *bl_toolbox_tools(const struct bl_toolbox *toolbox)
{
    return &toolbox->tools;
}

enum bl_sandbox bl_toolbox_sandbox(struct bl_toolbox *toolbox)
{
    struct bl_container_check check = {0};
    if (toolbox_adds_sandbox(toolbox)) {
        bl_sandbox_check(&check);
        return check.available ? BL_SANDBOX_WORKSPACE : BL_SANDBOX_OFF;
    }
    settle_sandbox(toolbox, NULL);
    return toolbox->sandbox;
}

void bl_toolbox_hide(struct bl_toolbox *toolbox, const char *const *variables)
{
    toolbox->hidden = variables;
}

void bl_toolbox_allow_variables(struct bl_toolbox *toolbox, const char *const *variables)
{
    toolbox->allowed = variables;
}

void bl_toolbox_add_variables(struct bl_toolbox *toolbox, const char *const *variables)
{
    toolbox->variables = variables;
}

const char *const *tool_environment(const struct bl_toolbox *toolbox, struct bl_arena *arena)
{
    return bl_environment_add(arena,
                              bl_environment_scrub(arena, NULL, toolbox->hidden, toolbox->allowed),
                              toolbox->variables);
}

/* Jobs continue after a hurried stop, and get their grace period. */
void bl_toolbox_calm(struct bl_toolbox *toolbox)
{
    toolbox->hurry = false;
    BL_LIST_EACH (link, &toolbox->running) {
        struct bl_command_control *control =
            &BL_CONTAINER(link, struct tool_running, link)->control;
        control->hurry = control->stopping != NULL && control->hurry;
    }
}

void bl_toolbox_hurry(struct bl_toolbox *toolbox)
{
    toolbox->hurry = true;
    BL_LIST_EACH (link, &toolbox->running)
        bl_command_hurry(&BL_CONTAINER(link, struct tool_running, link)->control);
    mcp_box_hurry(toolbox);
}
