#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "parts.h"

#define SCHEMA_MAX ((size_t)16 * 1024 * 1024)
#define SYSTEM_MAX ((size_t)16 * 1024 * 1024)

/* ---- Lists of words -------------------------------------------------------------------------- */

size_t runtime_list_size(const char *const *list)
{
    size_t size = 0;

    while (list != NULL && list[size] != NULL)
        size++;
    return size;
}

const char *const *runtime_list_join(struct bl_arena *arena, const char *const *first,
                                     const char *const *second)
{
    size_t before = runtime_list_size(first), after = runtime_list_size(second);
    const char **list = bl_arena_zalloc(arena, (before + after + 1) * sizeof *list);

    for (size_t i = 0; i < before + after; i++)
        list[i] =
            bl_arena_text(arena, bl_text_from(i < before ? first[i] : second[i - before])).data;
    return list;
}

struct bl_workspace_options runtime_options_copy(const struct bl_workspace_options *options,
                                                 struct bl_arena *arena)
{
    struct bl_workspace_options copy = *options;
    const char **words[] = {
        &copy.directory,     &copy.told_from,   &copy.provider,    &copy.model,
        &copy.cassette_path, &copy.record_path, &copy.system_path, &copy.system_more,
        &copy.schema_path,   &copy.store_path,
    };
    const char *const **lists[] = {
        &copy.folders, &copy.readable, &copy.allow, &copy.deny, &copy.mcp_files, &copy.variables,
    };

    for (size_t i = 0; i < BL_COUNT(words); i++)
        if (*words[i] != NULL)
            *words[i] = bl_arena_text(arena, bl_text_from(*words[i])).data;
    for (size_t i = 0; i < BL_COUNT(lists); i++)
        *lists[i] = runtime_list_join(arena, *lists[i], NULL);
    return copy;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

struct workspace_files *workspace_files_new(const struct bl_workspace_options *options)
{
    struct workspace_files *files = bl_zalloc(sizeof *files);

    bl_arena_init(&files->arena);
    bl_project_init(&files->project);
    bl_list_init(&files->instructions);
    bl_list_init(&files->skills);
    bl_list_init(&files->notices);
    bl_list_init(&files->servers);
    bl_list_init(&files->rules);
    files->options = runtime_options_copy(options, &files->arena);
    if (files->options.told_from == NULL)
        files->options.told_from = files->options.directory;
    files->choice = (struct runtime_choice){
        .provider = files->options.provider,
        .model = files->options.model,
        .cassette_path = files->options.cassette_path,
        .budgeted = options->budgeted,
        .recorded = options->record_path != NULL,
    };
    /* The caller owns what was found, except for the strings that the thread needs. */
    if (options->found != NULL) {
        const char *script = options->found->script;
        files->choice.found = *options->found;
        if (script != NULL)
            files->choice.found.script = bl_arena_text(&files->arena, bl_text_from(script)).data;
    }
    return files;
}

void workspace_files_free(void *argument)
{
    struct workspace_files *files = argument;

    if (files == NULL)
        return;
    runtime_choice_done(&files->choice);
    bl_json_schema_free(files->schema);
    bl_project_done(&files->project);
    bl_arena_done(&files->arena);
    bl_free(files);
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static int files_load(struct workspace_files *files, const char *what, const char *path,
                      size_t maximum, struct bl_text *ret_text)
{
    struct bl_error *error = &files->error;
    const char *why = "";
    struct bl_buffer bytes;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return bl_error_set(error, bl_error_from_errno(errno), BL_KIND_FILESYSTEM, what, path,
                            "cannot read '%s': %s", path, strerrordesc_np(errno));
    int code = bl_descriptor_load(fd, maximum, &bytes, &why);
    close(fd);
    if (code == 0)
        *ret_text = bl_arena_text(&files->arena, bl_buffer_text(&bytes));
    bl_buffer_done(&bytes);
    if (code == BL_ELIMIT)
        return bl_error_set(error, code, BL_KIND_USAGE, what, path, "'%s' is larger than %zu MiB",
                            path, maximum >> 20);
    if (code != 0)
        return bl_error_set(error, code, BL_KIND_FILESYSTEM, what, path, "cannot read '%s': %s",
                            path, why);
    size_t valid = bl_utf8_valid_prefix(*ret_text, NULL);
    if (valid != ret_text->size)
        return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, what, path,
                            "'%s' is not valid UTF-8 from byte %zu on", path, valid);
    return 0;
}

/* ---- Schema, instructions -------------------------------------------------------------------- */

static int files_read_schema(struct workspace_files *files)
{
    static const char operation[] = "read the schema";
    const char *path = files->options.schema_path;
    struct bl_error *error = &files->error;
    const struct bl_json *value;
    struct bl_json_fault fault;

    if (path == NULL)
        return 0;
    int code = files_load(files, operation, path, SCHEMA_MAX, &files->schema_text);
    if (code != 0)
        return code;
    code = bl_json_read(&files->arena, files->schema_text, NULL, &value, &fault);
    if (code != 0) {
        char where[256];
        bl_json_fault_text(&fault, where, sizeof where);
        return bl_error_set(error, code, BL_KIND_PARSE, operation, path, "'%s' is not JSON: %s",
                            path, where);
    }
    struct bl_error detail = {0};
    code = bl_json_schema_new(value, &files->schema, &detail);
    if (code == 0)
        return 0;
    bl_error_set(error, code, BL_KIND_PARSE, operation, path, "'%s': %s", path, detail.message);
    bl_error_hint(error, "%s", detail.hint);
    return code;
}

/* Makes the system prompt: --system or the built-in part, skills, the instruction files,
 * --append-system-prompt. */
static int files_read_system(struct workspace_files *files)
{
    struct bl_arena *arena = &files->arena;
    struct bl_text own = {0};
    int code = 0;

    if (files->options.system_path != NULL)
        code = files_load(files, "read the instructions", files->options.system_path, SYSTEM_MAX,
                          &own);
    if (code == 0)
        code = bl_instructions_find(arena, files->options.told_from, &files->instructions,
                                    &files->notices, &files->error);
    if (code != 0)
        return code;
    bl_skills_find(arena, files->options.told_from, &files->skills, &files->notices);
    struct bl_prompt_parts parts = {
        .directory = files->options.directory,
        .own = own,
        .instructions = &files->instructions,
        .skills = &files->skills,
        .more = bl_text_from(files->options.system_more),
        .wall_ns = bl_clock_wall_ns(&bl_clock_system),
    };
    files->system = bl_system_prompt(arena, &parts);
    return 0;
}

/* ---- MCP servers ----------------------------------------------------------------------------- */

static void files_take_notice(void *context, struct bl_text text)
{
    struct workspace_files *files = context;

    bl_notice_add(&files->arena, &files->notices, bl_arena_text(&files->arena, text));
}

static void files_list_untrusted(struct workspace_files *files)
{
    size_t count = 0;

    BL_LIST_EACH (link, &files->servers)
        count++;
    const struct bl_mcp_entry **list = bl_arena_alloc(&files->arena, (count + 1) * sizeof *list);
    count = 0;
    BL_LIST_EACH (link, &files->servers) {
        const struct bl_mcp_entry *entry = BL_CONTAINER(link, struct bl_mcp_entry, link);
        if (entry->source == BL_MCP_OF_WORKSPACE && !files->options.trust_mcp &&
            !bl_mcp_trusted(entry))
            list[count++] = entry;
    }
    list[count] = NULL;
    files->untrusted = list;
}

static int files_read_servers(struct workspace_files *files)
{
    struct bl_mcp_config_options options = {
        .directory = files->options.directory,
        .files = files->options.mcp_files,
        .variable = bl_variable,
        .notice = files_take_notice,
        .context = files,
    };
    int code = 0;

    if (!files->options.without_mcp)
        code = bl_mcp_config_read(&files->arena, &options, &files->servers, &files->error);
    if (code == 0)
        files_list_untrusted(files);
    return code;
}

/* If the rules cannot be read, more questions are asked; nothing else changes. */
static void files_read_rules(struct workspace_files *files)
{
    struct bl_error error = {0};

    if (bl_kept_rules_read(&files->arena, files->options.directory, &files->rules, &error) != 0)
        files_take_notice(files, bl_text_from(error.message));
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int files_read_model(struct workspace_files *files)
{
    struct bl_error *error = &files->error;

    if (files->options.found != NULL)
        return runtime_choice_load(&files->choice, error);
    int code = bl_project_read(&files->project, files->options.directory, error);
    files->choice.config = files->project.config;
    return code == 0 ? runtime_choice_make(&files->choice, error) : code;
}

void workspace_files_read(void *argument)
{
    struct workspace_files *files = argument;

    int code = files_read_model(files);
    if (code == 0)
        code = files_read_schema(files);
    if (code == 0)
        code = files_read_system(files);
    if (code == 0)
        code = files_read_servers(files);
    if (code == 0)
        files_read_rules(files);
    files->code = code;
}
