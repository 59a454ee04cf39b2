#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "run.h"

#define SCHEMA_MAX ((size_t)16 * 1024 * 1024)
#define SYSTEM_MAX ((size_t)16 * 1024 * 1024)
#define READ_SIZE  ((size_t)64 * 1024)

/* Who was left to read reads on when the options are gone; their words stay. */
static const char *const *prepare_copy_list(struct bl_arena *arena, const char *const *words,
                                            size_t count)
{
    const char **copy = bl_arena_zalloc(arena, (count + 1) * sizeof *copy);

    if (count > 0)
        memcpy(copy, words, count * sizeof *copy);
    return copy;
}

struct run_preparation *run_preparation_new(const struct run_options *options)
{
    struct run_preparation *preparation = bl_zalloc(sizeof *preparation);
    struct bl_arena *arena = &preparation->arena;

    bl_arena_init(arena);
    bl_list_init(&preparation->instructions);
    bl_list_init(&preparation->personas);
    bl_list_init(&preparation->skills);
    bl_list_init(&preparation->notices);
    bl_list_init(&preparation->servers);
    preparation->prompt_argument = options->prompt;
    preparation->converses = options->converses;
    preparation->provider = options->provider;
    preparation->budgeted = options->budgeted;
    preparation->recorded = options->record_path != NULL;
    preparation->cassette_path = options->cassette_path;
    preparation->schema_path = options->schema_path;
    preparation->system_path = options->system_path;
    preparation->system_more = options->system_more;
    preparation->mcp_files = prepare_copy_list(arena, options->mcp_files, options->mcp_file_count);
    preparation->trust_mcp = options->trust_mcp;
    /* The others are words of the command line: they stay. */
    if (options->model != NULL)
        preparation->model = bl_arena_text(arena, bl_text_from(options->model)).data;
    preparation->directory = bl_arena_text(arena, bl_text_from(options->directory)).data;
    return preparation;
}

void run_preparation_free(void *argument)
{
    struct run_preparation *preparation = argument;

    if (preparation == NULL)
        return;
    bl_script_free(preparation->script);
    bl_cassette_close(preparation->cassette, NULL);
    bl_config_free(preparation->config);
    bl_json_schema_free(preparation->schema);
    bl_hooks_free(preparation->settings.hooks);
    bl_arena_done(&preparation->arena);
    bl_free(preparation);
}

/* All that a descriptor gives, in the arena. 0 or the errno; EFBIG: more than the maximum. */
static int read_descriptor(struct bl_arena *arena, int fd, size_t maximum, struct bl_text *ret_text)
{
    struct bl_buffer buffer;
    ssize_t count = 1;
    int failed = 0;

    bl_buffer_init(&buffer, maximum + 2 * READ_SIZE);
    while (failed == 0 && count != 0 && bl_buffer_reserve(&buffer, READ_SIZE) == 0) {
        count = read(fd, buffer.data + buffer.size, READ_SIZE);
        if (count > 0)
            buffer.size += (size_t)count;
        else if (count < 0 && errno != EINTR)
            failed = errno;
        if (buffer.size > maximum)
            failed = EFBIG;
    }
    if (failed == 0)
        *ret_text = bl_arena_text(arena, bl_buffer_text(&buffer));
    bl_buffer_done(&buffer);
    return failed;
}

static int fail_reading(const char *what, const char *path, size_t maximum, int failed,
                        struct bl_error *error)
{
    if (failed == EFBIG)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, what, path,
                            "'%s' has more than %zu MiB", path, maximum >> 20);
    return bl_error_set(error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM, what, path,
                        "cannot read '%s': %s", path, strerror(failed));
}

/* A text file: valid UTF-8. */
static int prepare_read_file(struct run_preparation *preparation, const char *what,
                             const char *path, size_t maximum, struct bl_text *ret_text)
{
    struct bl_error *error = &preparation->error;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return fail_reading(what, path, maximum, errno, error);
    int failed = read_descriptor(&preparation->arena, fd, maximum, ret_text);
    close(fd);
    if (failed != 0)
        return fail_reading(what, path, maximum, failed, error);
    size_t valid = bl_utf8_valid_prefix(*ret_text, NULL);
    if (valid != ret_text->size)
        return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, what, path,
                            "'%s' is not valid UTF-8 from byte %zu on", path, valid);
    return 0;
}

/* ---- The prompt ------------------------------------------------------------------------------ */

int run_prompt_check(struct bl_text prompt, struct bl_error *error)
{
    static const char operation[] = "read the prompt";
    size_t valid = bl_utf8_valid_prefix(prompt, NULL);
    const char *nul = memchr(prompt.size > 0 ? prompt.data : "", '\0', prompt.size);

    if (nul != NULL && (size_t)(nul - prompt.data) < valid)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, operation, "PROMPT",
                            "the prompt holds a NUL byte, at byte %zu",
                            (size_t)(nul - prompt.data));
    if (valid != prompt.size)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, operation, "PROMPT",
                            "the prompt is not valid UTF-8 from byte %zu on", valid);
    if (bl_text_trim(prompt).size > 0)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, operation, "PROMPT", "the prompt is empty");
    bl_error_hint(error, "give one as an argument, or on standard input");
    return BL_EINVAL;
}

static int read_prompt(struct run_preparation *preparation)
{
    struct bl_error *error = &preparation->error;

    if (preparation->prompt_argument != NULL || preparation->converses) {
        preparation->prompt = bl_text_from(preparation->prompt_argument);
        return 0;
    }
    int failed =
        read_descriptor(&preparation->arena, STDIN_FILENO, RUN_PROMPT_MAX, &preparation->prompt);
    if (failed == EFBIG)
        return bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, "read the prompt", "standard input",
                            "the prompt has more than %zu MiB", RUN_PROMPT_MAX >> 20);
    if (failed != 0)
        return bl_error_set(error, bl_error_from_errno(failed), BL_KIND_FILESYSTEM,
                            "read the prompt", "standard input", "cannot read standard input: %s",
                            strerror(failed));
    return run_prompt_check(preparation->prompt, error);
}

/* ---- Schema, instructions -------------------------------------------------------------------- */

static int read_schema(struct run_preparation *preparation)
{
    static const char operation[] = "read the schema";
    const char *path = preparation->schema_path;
    struct bl_error *error = &preparation->error;
    const struct bl_json *value;
    struct bl_json_fault fault;

    if (path == NULL)
        return 0;
    int code =
        prepare_read_file(preparation, operation, path, SCHEMA_MAX, &preparation->schema_text);
    if (code != 0)
        return code;
    code = bl_json_read(&preparation->arena, preparation->schema_text, NULL, &value, &fault);
    if (code != 0) {
        char where[256];
        bl_json_fault_text(&fault, where, sizeof where);
        return bl_error_set(error, code, BL_KIND_PARSE, operation, path, "'%s' is not JSON: %s",
                            path, where);
    }
    struct bl_error detail = {0};
    code = bl_json_schema_new(value, &preparation->schema, &detail);
    if (code == 0)
        return 0;
    bl_error_set(error, code, BL_KIND_PARSE, operation, path, "'%s': %s", path, detail.message);
    bl_error_hint(error, "%s", detail.hint);
    return code;
}

/* Tools may read below these. */
static void list_skill_folders(struct run_preparation *preparation)
{
    size_t count = 0;

    BL_LIST_EACH (link, &preparation->skills)
        count++;
    const char **folders = bl_arena_alloc(&preparation->arena, (count + 1) * sizeof *folders);
    count = 0;
    BL_LIST_EACH (link, &preparation->skills)
        folders[count++] = BL_CONTAINER(link, struct bl_skill, link)->folder;
    folders[count] = NULL;
    preparation->skill_folders = folders;
}

/* What the model is told before all: --system or our own words, skills, the files of instructions,
 * --append-system-prompt. */
static int read_system(struct run_preparation *preparation)
{
    struct bl_arena *arena = &preparation->arena;
    const char *directory = preparation->directory;
    struct bl_text own = {0};
    int code = 0;

    if (preparation->system_path != NULL)
        code = prepare_read_file(preparation, "read the instructions", preparation->system_path,
                                 SYSTEM_MAX, &own);
    if (code == 0)
        code = bl_instructions_find(arena, directory, &preparation->instructions,
                                    &preparation->notices, &preparation->error);
    if (code != 0)
        return code;
    bl_personas_find(arena, directory, &preparation->personas, &preparation->notices);
    bl_skills_find(arena, directory, &preparation->skills, &preparation->notices);
    list_skill_folders(preparation);
    struct bl_prompt_parts parts = {
        .directory = directory,
        .own = own,
        .instructions = &preparation->instructions,
        .skills = &preparation->skills,
        .more = bl_text_from(preparation->system_more),
        .wall_ns = bl_clock_wall_ns(&bl_clock_system),
    };
    preparation->system = bl_system_prompt(arena, &parts);
    return 0;
}

/* ---- MCP servers ----------------------------------------------------------------------------- */

static void prepare_take_notice(void *context, struct bl_text text)
{
    struct run_preparation *preparation = context;
    struct bl_notice *notice = bl_arena_zalloc(&preparation->arena, sizeof *notice);

    notice->text = bl_arena_text(&preparation->arena, text);
    bl_list_push_back(&preparation->notices, &notice->link);
}

static void list_untrusted(struct run_preparation *preparation)
{
    size_t count = 0;

    BL_LIST_EACH (link, &preparation->servers)
        count++;
    const struct bl_mcp_entry **list =
        bl_arena_alloc(&preparation->arena, (count + 1) * sizeof *list);
    count = 0;
    BL_LIST_EACH (link, &preparation->servers) {
        const struct bl_mcp_entry *entry = BL_CONTAINER(link, struct bl_mcp_entry, link);
        if (entry->source == BL_MCP_OF_WORKSPACE && !preparation->trust_mcp &&
            !bl_mcp_trusted(entry))
            list[count++] = entry;
    }
    list[count] = NULL;
    preparation->untrusted = list;
}

static int prepare_read_servers(struct run_preparation *preparation)
{
    struct bl_mcp_config_options options = {
        .directory = preparation->directory,
        .files = preparation->mcp_files,
        .variable = bl_variable,
        .notice = prepare_take_notice,
        .context = preparation,
    };

    int code = bl_mcp_config_read(&preparation->arena, &options, &preparation->servers,
                                  &preparation->error);
    if (code == 0)
        list_untrusted(preparation);
    return code;
}

void run_preparation_read(void *argument)
{
    struct run_preparation *preparation = argument;

    int code = run_model_read(preparation);
    if (code == 0)
        code = bl_settings_read(&preparation->arena, preparation->config, &preparation->settings,
                                &preparation->error);
    if (code == 0)
        code = read_schema(preparation);
    if (code == 0)
        code = read_system(preparation);
    if (code == 0)
        code = prepare_read_servers(preparation);
    /* Last, because it may take for ever: what is wrong with the rest is said before. */
    if (code == 0)
        code = read_prompt(preparation);
    preparation->code = code;
}
