#include "found.h"

#define OPERATION  "read a persona"
#define SUFFIX     ".md"
#define LABEL_MAX  64u
#define TOOLS_MAX  128u
#define NUMBER_MAX 1000000000

/* ---- Built-in personas ----------------------------------------------------------------------- */

static const char *const reading_tools[] = {"read", "glob", "grep", "ls", NULL};
static const char *const reviewing_tools[] = {"read", "glob", "grep", "ls", "bash", NULL};

static const struct bl_persona built_in[] = {
    {
        .name = "explore",
        .description = "Searches the workspace and answers a question about it; read-only. Use it "
                       "when only the finding matters, not the search itself.",
        .instructions = BL_TEXT(
            "You are an exploration agent. Another agent asks you to find something out about the "
            "files in this workspace; it sees only your final answer.\n"
            "\n"
            "- Start broad (glob, grep, ls), then read what matters. Make independent tool calls "
            "in "
            "one answer.\n"
            "- Before you conclude that something does not exist, search in more than one place "
            "and "
            "under more than one name.\n"
            "- You cannot change anything. Do not review the code or suggest improvements.\n"
            "- Stop once the question is answered. Answer briefly: the finding first, then its "
            "location as path:line, with the few lines of code that support it. State what you did "
            "not check, and what you are unsure about."),
        .tools = reading_tools,
    },
    {
        .name = "worker",
        .description = "Does one self-contained piece of work with all tools: changes files, runs "
                       "commands, verifies the result. Tell it everything it needs to know.",
        .instructions = BL_TEXT(
            "You do one piece of work for another agent, which sees only your final answer.\n"
            "\n"
            "- Do everything that is asked, and nothing else: other agents may be working on the "
            "same files.\n"
            "- Read code before you change it. Follow the existing style.\n"
            "- Verify your work: run the relevant tests or build, and fix what you broke.\n"
            "- You cannot ask questions. If something is ambiguous, choose the most obvious "
            "interpretation and say so. If you are blocked, stop and say why.\n"
            "- In your answer, say what you changed (paths), how you verified it and with what "
            "result, and what is left to do."),
    },
    {
        .name = "review",
        .description =
            "Looks for defects in a change or a piece of code, and reports where and why; "
            "changes nothing. Name the files, the commit or the diff.",
        .instructions = BL_TEXT(
            "You review code for another agent, which sees only your final answer. Look for what "
            "will fail, not for what you would have written differently.\n"
            "\n"
            "- Read the change and the code that it affects: callers, tests, the project's rules. "
            "Use the shell only to inspect (git diff, git log, running tests); do not change "
            "files.\n"
            "- Look for wrong results, edge cases, unhandled errors, races, leaks, untrusted input "
            "that is trusted, and code that contradicts its comments or documentation.\n"
            "- Prove a finding before you report it: trace the code, or run something that "
            "demonstrates it. Omit what you cannot support.\n"
            "- Answer with the findings, most severe first: path:line, what happens, when, and how "
            "to fix it. If there are none, say so, and say what you checked."),
        .tools = reviewing_tools,
    },
};

/* ---- One file -------------------------------------------------------------------------------- */

static bool persona_is_tool(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        bool alphanumeric = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                            (byte >= '0' && byte <= '9');
        if (!alphanumeric && (byte == '\0' || strchr("_-.*", byte) == NULL))
            return false;
    }
    return text.size >= 1 && text.size <= 128;
}

/* Names in a list, or separated by commas. */
static int read_tools(struct bl_source *source, const struct bl_json *value, struct bl_arena *arena,
                      const char *const **ret_tools)
{
    const char **tools = bl_arena_zalloc(arena, (TOOLS_MAX + 1) * sizeof *tools);
    struct bl_text rest = bl_json_text(value), name;
    const struct bl_json *element = bl_json_first(value, BL_JSON_ARRAY);
    bool list = bl_json_is(value, BL_JSON_ARRAY);
    size_t count = 0;

    if (value == NULL)
        return 0;
    if (!list && !bl_json_is(value, BL_JSON_STRING))
        return bl_source_fail(source, value, "tools: expected a list of names, found %s",
                              bl_value_type(value));
    while (list ? element->type != BL_JSON_END : bl_text_split(&rest, ',', &name)) {
        const struct bl_json *place = list ? element : value;
        if (list) {
            name = bl_json_text(element);
            element = bl_json_next(element);
        }
        name = bl_text_trim(name);
        if (!persona_is_tool(name)) {
            int code = bl_source_fail(source, place, "invalid tool name");
            bl_error_hint(source->error, "for example, read, bash or mcp__server__*");
            return code;
        }
        if (count == TOOLS_MAX)
            return bl_source_fail(source, place, "there are more than %u tools", TOOLS_MAX);
        tools[count] = bl_arena_text(arena, name).data;
        struct bl_error detail = {0};
        if (bl_tool_name_check(tools[count++], &detail) != 0) {
            int code = bl_source_fail(source, place, "%s", detail.message);
            bl_error_hint(source->error, "%s", detail.hint);
            return code;
        }
    }
    *ret_tools = tools;
    return 0;
}

static const struct bl_form name_form = {"1 to 64 characters from a-z, 0-9 and -", NULL,
                                         found_is_name};
static const char *const policy_words[] = {"stop", "synthesize"};
static const struct bl_names policies = BL_NAMES(policy_words);

struct draft {
    struct bl_persona persona;
    const struct bl_json *tools;
};

#define BL_RECORD_STRUCT struct draft
static const struct bl_member persona_members[] = {
    BL_MEMBER_STRING("name", persona.name, .optional = true, .form = &name_form),
    BL_MEMBER_STRING("description", persona.description,
                     .about = "describe in one line when to use it: it is chosen by this"),
    BL_MEMBER_JSON("tools", tools, .optional = true),
    BL_MEMBER_STRING("model", persona.model, .optional = true, .form = &bl_form_line),
    BL_MEMBER_INTEGER("max_steps", persona.max_steps, .optional = true, .least = 1,
                      .most = NUMBER_MAX),
    BL_MEMBER_ENUM("on_exhausted", persona.synthesize, &policies, .optional = true),
    BL_MEMBER_INTEGER("max_budget_tokens", persona.max_budget_tokens, .optional = true, .least = 1,
                      .most = NUMBER_MAX),
    BL_MEMBER_DURATION("timeout", persona.timeout_ns, .optional = true, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record persona_record =
    BL_RECORD("a persona", struct draft, persona_members, .closed = true);

/* Completes the persona: by default the file's name is its name. */
static int persona_finish(struct found_page *page, struct bl_arena *arena,
                          struct bl_persona *persona, struct bl_text file_name)
{
    struct bl_text stem = {file_name.data, file_name.size - (sizeof SUFFIX - 1)};
    const struct bl_json *root = page->source.document.root;

    if (persona->name == NULL && found_is_name(stem))
        persona->name = bl_arena_text(arena, stem).data;
    if (persona->name == NULL) {
        bl_source_fail(&page->source, root, "a persona needs a name");
        bl_error_hint(page->source.error, "add name: with 1 to 64 characters from a-z, 0-9 and -");
        return BL_EPARSE;
    }
    if (page->body.size == 0) {
        bl_source_fail(&page->source, root, "a persona needs instructions");
        bl_error_hint(page->source.error, "write them below the second line of dashes");
        return BL_EPARSE;
    }
    persona->instructions = page->body;
    return 0;
}

static int read_persona(struct bl_arena *arena, const struct found_place *place,
                        struct bl_text file_name, struct bl_persona **ret_persona,
                        struct bl_error *error)
{
    struct bl_persona *persona = bl_arena_zalloc(arena, sizeof *persona);
    struct draft draft = {.persona = {.path = place->path,
                                      .max_steps = BL_UNLIMITED,
                                      .max_budget_tokens = BL_UNLIMITED}};
    struct found_page page;
    int code = found_page_read(arena, place, OPERATION, &page, error);
    const struct bl_json *root = code == 0 ? page.source.document.root : NULL;

    if (code == 0)
        code = bl_source_read(&page.source, arena, &persona_record, root, &draft);
    if (code == 0)
        code = found_line(&page.source, bl_json_get(root, BL_TEXT("description")), arena,
                          FOUND_DESCRIPTION_MAX, &draft.persona.description);
    if (code == 0)
        code = read_tools(&page.source, draft.tools, arena, &draft.persona.tools);
    if (code == 0)
        code = persona_finish(&page, arena, &draft.persona, file_name);
    *persona = draft.persona;
    *ret_persona = persona;
    return code;
}

/* ---- All of them ----------------------------------------------------------------------------- */

const struct bl_persona *bl_persona_named(const struct bl_list *personas, struct bl_text name)
{
    BL_LIST_EACH (link, personas) {
        const struct bl_persona *persona = BL_CONTAINER(link, struct bl_persona, link);
        if (bl_text_equal(bl_text_from(persona->name), name))
            return persona;
    }
    return NULL;
}

/* Returns false if there are too many. */
static bool add_persona(struct bl_list *personas, struct bl_persona *persona)
{
    size_t count = 0;

    BL_LIST_EACH (link, personas) {
        count++;
        if (strcmp(BL_CONTAINER(link, struct bl_persona, link)->name, persona->name) != 0)
            continue;
        bl_list_insert_before(link, &persona->link);
        bl_list_remove(link);
        return true;
    }
    if (count == FOUND_COUNT_MAX)
        return false;
    bl_list_push_back(personas, &persona->link);
    return true;
}

static bool persona_add_folder(struct bl_arena *arena, const struct found_place *folder,
                               struct bl_list *personas, struct bl_list *notices)
{
    const char *const *names = found_names(arena, folder->path, notices);

    for (; *names != NULL; names++) {
        struct bl_text name = bl_text_from(*names);
        struct bl_error error = {0};
        struct bl_persona *persona;
        if (!bl_text_ends_with(name, BL_TEXT(SUFFIX)))
            continue;
        struct found_place place = {
            bl_arena_printf(arena, "%s/%s", folder->path, *names).data,
            folder->root,
        };
        int code = read_persona(arena, &place, name, &persona, &error);
        if (code == 0 && !add_persona(personas, persona)) {
            found_too_many(arena, notices, "personas", place.path);
            return false;
        }
        /* A file that was removed after the folder was read is ignored. */
        if (error.code != 0)
            found_notice(arena, notices, &error);
    }
    return true;
}

void bl_personas_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_personas,
                      struct bl_list *notices)
{
    static const char *const below[] = {".belay/agents", NULL};
    const struct found_place *folders = found_places(arena, directory, "agents", below);
    bool room = true;

    bl_list_init(ret_personas);
    for (size_t i = 0; i < BL_COUNT(built_in); i++) {
        struct bl_persona *persona = bl_arena_alloc(arena, sizeof *persona);
        *persona = built_in[i];
        persona->max_steps = persona->max_budget_tokens = BL_UNLIMITED;
        add_persona(ret_personas, persona);
    }
    for (; room && folders->path != NULL; folders++)
        room = persona_add_folder(arena, folders, ret_personas, notices);
}
