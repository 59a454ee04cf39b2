#include "parts.h"

#define OUTPUT_MAX_DEFAULT ((size_t)64 * 1024)
/* Of a path in a rule that is made for it. */
#define RULE_PATH_MAX ((size_t)1000)

const struct tool_entry *const tool_entries[TOOL_COUNT] = {
    &tool_bash, &tool_read, &tool_write, &tool_edit, &tool_glob, &tool_grep, &tool_ls, &tool_todo,
};

/* SIZE_MAX: there is none of that name. */
static size_t find_entry(const char *name)
{
    for (size_t i = 0; i < TOOL_COUNT; i++)
        if (strcmp(tool_entries[i]->name, name) == 0)
            return i;
    return SIZE_MAX;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* True when the tool can run with that input, which fits its schema (the engine has seen to that);
 * else `*ret_text` says what is wrong. */
static bool input_fits(size_t index, const struct bl_tool_call *call, struct bl_text *ret_text)
{
    const struct tool_entry *entry = tool_entries[index];
    const char *wrong = entry->check != NULL ? entry->check(call->input) : NULL;
    if (wrong != NULL)
        *ret_text = bl_arena_printf(call->arena, "The input of %s: %s; it was not run.",
                                    entry->name, wrong);
    return wrong == NULL;
}

/* ---- The sandbox ----------------------------------------------------------------------------- */

/* Settles which sandbox is in force. One that the machine does not have is an error if it was asked
 * for; where the mode wanted it, there is none. Trying it takes milliseconds: once, and not before
 * it is needed. */
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

/* Where the subject of a path tool leads. False: nowhere that it may; the call says so. */
static bool resolve_subject(const struct bl_toolbox *toolbox, const struct tool_entry *entry,
                            const struct bl_tool_call *call, struct tool_path *ret_path)
{
    const struct bl_json *given = bl_json_get(call->input, bl_text_from(entry->subject));
    struct bl_text text;
    return tool_path_resolve(toolbox, call->arena,
                             given != NULL ? bl_json_text(given) : BL_TEXT("."),
                             entry->reads ? PATH_READ : PATH_WRITE, ret_path, &text);
}

/* What shows or searches a file is denied where reading is. */
static const char *denied_with(const struct tool_entry *entry)
{
    bool shows = entry->kind == SUBJECT_PATH && entry != &tool_write && entry != &tool_read;
    return shows ? tool_read.name : NULL;
}

/* Fills what is asked of the permissions. False: it needs none. */
static bool make_question(struct bl_toolbox *toolbox, const struct tool_entry *entry,
                          const struct bl_tool_call *call, struct permission_question *ret_question)
{
    struct tool_path path;
    *ret_question = (struct permission_question){.tool = entry->name,
                                                 .also = denied_with(entry),
                                                 .kind = entry->kind,
                                                 .reads = entry->reads,
                                                 .contained = true};
    switch (entry->kind) {
    case SUBJECT_COMMAND:
        ret_question->subject =
            bl_json_text(bl_json_get(call->input, bl_text_from(entry->subject)));
        ret_question->contained = bl_toolbox_sandbox(toolbox) != BL_SANDBOX_OFF;
        /* What reads or stops a job: it was permitted when it began. */
        return ret_question->subject.size > 0;
    case SUBJECT_PATH:
        if (!resolve_subject(toolbox, entry, call, &path))
            return false;
        ret_question->subject = path.shown;
        ret_question->other = path.absolute;
        if (!entry->reads)
            ret_question->guarded =
                bl_sandbox_guarded(call->arena, path.root->path, path.absolute.data);
        ret_question->contained = ret_question->guarded == NULL;
        break;
    case SUBJECT_NONE: break;
    }
    return true;
}

/* What cannot run needs no permission: the call says what is wrong with it. */
static enum bl_permit toolbox_judge(void *context, const struct bl_tool_call *call,
                                    char *ret_reason, size_t reason_size)
{
    struct bl_toolbox *toolbox = context;
    size_t index = find_entry(call->name);
    struct permission_question question;
    struct bl_text text;
    /* What a server does nobody here can see: neither that it reads alone, nor where. */
    if (mcp_box_find(toolbox, call->name) != NULL) {
        question = (struct permission_question){.tool = call->name};
        return permission_decide(toolbox->permissions, &question, ret_reason, reason_size);
    }
    if (index == SIZE_MAX || !input_fits(index, call, &text) ||
        !make_question(toolbox, tool_entries[index], call, &question))
        return BL_PERMIT_ALLOWED;
    /* These tools are not in the sandbox, and are held to what was asked of it all the same. */
    if (question.kind == SUBJECT_PATH && !question.reads &&
        toolbox->sandbox == BL_SANDBOX_READ_ONLY) {
        bl_text_into(ret_reason, reason_size, "the sandbox is read-only: nothing may be changed");
        return BL_PERMIT_DENIED;
    }
    return permission_decide(toolbox->permissions, &question, ret_reason, reason_size);
}

static enum bl_permit toolbox_permit(void *context, const struct bl_tool_call *call,
                                     char *ret_reason, size_t reason_size)
{
    static const char *const names[] = {
        [BL_PERMIT_DENIED] = "denied", [BL_PERMIT_ALLOWED] = "allowed", [BL_PERMIT_ASK] = "ask"};
    enum bl_permit permit = toolbox_judge(context, call, ret_reason, reason_size);
    BL_LOG(BL_ROOM_TOOL, BL_LOG_DEBUG, "permission", BL_LOG_STRING("tool", call->name),
           BL_LOG_STRING("call", call->id), BL_LOG_STRING("decision", names[permit]));
    return permit;
}

/* A path as a pattern that means it alone; empty: there is none. */
static struct bl_text exact_path(struct bl_text path)
{
    for (size_t i = 0; i < path.size; i++)
        if (path.data[i] == '*' || (unsigned char)path.data[i] < 0x20 || path.data[i] == 0x7f)
            return (struct bl_text){0};
    bool odd = bl_text_trim(path).size != path.size || !permission_balanced(path);
    return odd || path.size > RULE_PATH_MAX || bl_text_starts_with(path, BL_TEXT("~/"))
               ? (struct bl_text){0}
               : path;
}

struct bl_text bl_toolbox_rule(struct bl_toolbox *toolbox, const struct bl_tool_call *call)
{
    size_t index = find_entry(call->name);
    struct permission_question question;
    struct bl_text none = {0}, text, pattern = none;
    if (mcp_box_find(toolbox, call->name) != NULL)
        return bl_arena_text(call->arena, bl_text_from(call->name));
    if (index == SIZE_MAX || !input_fits(index, call, &text) ||
        !make_question(toolbox, tool_entries[index], call, &question))
        return none;
    switch (question.kind) {
    case SUBJECT_COMMAND: pattern = command_pattern(call->arena, question.subject); break;
    case SUBJECT_PATH: pattern = exact_path(question.subject); break;
    case SUBJECT_NONE: return bl_text_from(question.tool);
    }
    return pattern.size == 0 ? none
                             : bl_arena_printf(call->arena, "%s(" BL_TEXT_FORMAT ")", question.tool,
                                               BL_TEXT_ARG(pattern));
}

static struct bl_text unknown_tool(const struct bl_tool_call *call)
{
    struct bl_text text =
        bl_arena_printf(call->arena, "There is no tool '%.64s'. There are:", call->name);
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
    if (!input_fits(index, call, &ret_result->text))
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

static int toolbox_compile_schema(struct bl_toolbox *toolbox, size_t index, struct bl_error *error)
{
    struct bl_text text = bl_text_from(tool_entries[index]->schema);
    const struct bl_json *source;
    BL_AUTO_ARENA(arena);
    int code = bl_json_read(&arena, text, NULL, &source, NULL);
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
    } else if (bl_permissions_mode(options->permissions) == BL_PERMISSION_AUTO) {
        toolbox->sandbox = BL_SANDBOX_WORKSPACE;
    }
    /* Before any command could have changed what they are to protect. */
    if (code == 0 && toolbox->sandbox != BL_SANDBOX_OFF) {
        struct bl_sandbox_view view = sandbox_view(toolbox);
        toolbox->pins = bl_sandbox_pins_new(&view);
    }
    for (size_t i = 0; i < TOOL_COUNT && code == 0; i++) {
        code = toolbox_compile_schema(toolbox, i, error);
        toolbox->offers[i] = (struct bl_tool_offer){
            .name = tool_entries[i]->name,
            .description = tool_entries[i]->description != NULL
                               ? tool_entries[i]->description
                               : tool_entries[i]->describe(toolbox),
            .parallel = tool_entries[i]->parallel,
            .schema = bl_text_from(tool_entries[i]->schema),
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

/* Jobs run on after a stop that was hurried: they are to have their grace. */
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
