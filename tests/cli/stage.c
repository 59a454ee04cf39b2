#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    char root[PATH_MAX];
    char before[PATH_MAX];
    unsigned scripts;
    struct bl_arena arena;
} stage;

static void make_folder(const char *name, const char *variable)
{
    char path[PATH_MAX + 32];

    snprintf(path, sizeof path, "%s/%s", stage.root, name);
    assert_int_equal(mkdir(path, 0700), 0);
    if (variable != NULL)
        setenv(variable, path, 1);
}

int stage_begin(void **state)
{
    static const char *const variables[] = {
        "BELAY_STORE",        "BELAY_PROVIDER",       "BELAY_MODEL",     "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",     "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_MODEL", "OPENAI_BASE_URL",
        "ANTHROPIC_BASE_URL", "OPENAI_ORG_ID",        "OLLAMA_HOST"};
    const char *temporary = getenv("TMPDIR");

    (void)state;
    bl_arena_init(&stage.arena);
    stage.scripts = 0;
    assert_non_null(getcwd(stage.before, sizeof stage.before));
    snprintf(stage.root, sizeof stage.root, "%s/belay-stage-XXXXXX",
             temporary != NULL && temporary[0] == '/' ? temporary : "/tmp");
    assert_non_null(mkdtemp(stage.root));
    make_folder("home", "HOME");
    make_folder("data", "XDG_DATA_HOME");
    make_folder("config", "XDG_CONFIG_HOME");
    make_folder("runtime", "XDG_RUNTIME_DIR");
    make_folder("work", NULL);
    for (size_t i = 0; i < BL_COUNT(variables); i++)
        unsetenv(variables[i]);
    assert_int_equal(chdir(stage_path("work")), 0);
    return 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

int stage_end(void **state)
{
    (void)state;
    assert_int_equal(chdir(stage.before), 0);
    chmod(stage.root, 0700);
    nftw(stage.root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    bl_arena_done(&stage.arena);
    return 0;
}

const char *stage_path(const char *relative)
{
    return bl_arena_printf(&stage.arena, "%s/%s", stage.root, relative).data;
}

const char *stage_file(const char *name, const char *text)
{
    const char *path = bl_arena_printf(&stage.arena, "%s/work/%s", stage.root, name).data;
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

const char *stage_script(const char *yaml)
{
    char name[32];

    snprintf(name, sizeof name, "script-%u.yaml", stage.scripts++);
    return bl_arena_printf(&stage.arena, "script:%s", stage_file(name, yaml)).data;
}

bool stage_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

void stage_await_file(const char *path)
{
    for (int i = 0; !stage_exists(path); i++, usleep(2000))
        suite_fail_if(i == 15000, "there is no %s", path);
}

const char *stage_timeout(unsigned attempt)
{
    static const char *const timeouts[] = {"300ms", "1s", "3s", "10s"};

    if (attempt >= BL_COUNT(timeouts))
        fail_msg("it did not begin in time");
    return timeouts[attempt];
}

const char *stage_keep(struct bl_text text)
{
    return bl_arena_text(&stage.arena, text).data;
}

const char *stage_printf(const char *format, ...)
{
    static char text[65536];
    va_list arguments;

    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert_true(size >= 0 && (size_t)size < sizeof text);
    return bl_arena_text(&stage.arena, (struct bl_text){text, (size_t)size}).data;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

const struct bl_json *stage_json(const char *text)
{
    const struct bl_json *value = NULL;
    struct bl_json_fault fault;

    if (bl_json_read(&stage.arena, bl_text_from(text), NULL, &value, &fault) != 0) {
        char message[256];
        bl_json_fault_text(&fault, message, sizeof message);
        fail_msg("%s in '%.400s'", message, text);
    }
    return value;
}

static const struct bl_json *at(const struct bl_json *value, const char *pointer)
{
    const struct bl_json *found = bl_json_pointer(value, bl_text_from(pointer));
    if (found == NULL)
        fail_msg("nothing at %s", pointer);
    return found;
}

const char *stage_text_at(const struct bl_json *value, const char *pointer)
{
    const struct bl_json *found = at(value, pointer);
    if (!bl_json_is(found, BL_JSON_STRING))
        fail_msg("no text at %s", pointer);
    return bl_json_text(found).data;
}

int64_t stage_number_at(const struct bl_json *value, const char *pointer)
{
    int64_t number = 0;
    if (!bl_json_int64(at(value, pointer), &number))
        fail_msg("no whole number at %s", pointer);
    return number;
}

double stage_double_at(const struct bl_json *value, const char *pointer)
{
    double number = 0;
    if (!bl_json_double(at(value, pointer), &number))
        fail_msg("no number at %s", pointer);
    return number;
}

bool stage_true_at(const struct bl_json *value, const char *pointer)
{
    const struct bl_json *found = at(value, pointer);
    if (!bl_json_is(found, BL_JSON_BOOLEAN))
        fail_msg("no boolean at %s", pointer);
    return bl_json_boolean(found, false);
}

size_t stage_size_at(const struct bl_json *value, const char *pointer)
{
    return bl_json_size(at(value, pointer));
}

bool stage_null_at(const struct bl_json *value, const char *pointer)
{
    return bl_json_is(at(value, pointer), BL_JSON_NULL);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

const char *stage_last_line(const char *text)
{
    const char *line = text;

    for (const char *next; (next = strchr(line, '\n')) != NULL && next[1] != '\0';)
        line = next + 1;
    return line;
}

size_t stage_lines_with(const char *text, const char *part)
{
    struct bl_text rest = bl_text_from(text), line;
    size_t count = 0;

    while (bl_text_split(&rest, '\n', &line))
        count += bl_text_find(line, bl_text_from(part)) >= 0;
    return count;
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Checks a part of an answer against its own schema. */
static void check_part(const struct bl_json *value, const char *pointer, const char *schema)
{
    const struct bl_json *part = bl_json_pointer(value, bl_text_from(pointer));
    struct bl_json_writer writer;
    struct bl_buffer json;

    if (!bl_json_is(part, BL_JSON_OBJECT))
        return;
    bl_buffer_init(&json, (size_t)16 << 20);
    bl_json_writer_init(&writer, &json);
    bl_json_write_value(&writer, part);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    bl_buffer_append_byte(&json, '\0');
    runner_check_schema(schema, json.data);
    bl_buffer_done(&json);
}

static const struct bl_json *check_envelope(const char *line, const char *schema, int exit_code)
{
    const struct bl_json *value = stage_json(line);

    runner_check_schema("envelope", line);
    assert_int_equal(stage_number_at(value, "/exit_code"), exit_code);
    runner_check_schema(schema, line);
    check_part(value, "/receipt", "receipt");
    check_part(value, "/turns/0", "turn-result");
    check_part(value, "/turn", "turn-result");
    check_part(value, "/attempts/0/receipt", "receipt");
    return value;
}

const struct bl_json *stage_answer(const struct run *run, const char *schema, int exit_code)
{
    assert_string_equal(run->err, "");
    if (run->exit_code != exit_code)
        fail_msg("exit code %d instead of %d: %.600s", run->exit_code, exit_code, run->out);
    assert_ptr_equal(strchr(run->out, '\n'), run->out + strlen(run->out) - 1);
    return check_envelope(run->out, schema, exit_code);
}

const char *stage_output(const struct held *held)
{
    off_t size = lseek(held->out, 0, SEEK_END);
    char *data = bl_arena_zalloc(&stage.arena, (size_t)size + 1);

    assert_int_equal(pread(held->out, data, (size_t)size, 0), size);
    return data;
}

const struct bl_json *stage_result(struct held *held, int exit_code)
{
    const char *out = stage_output(held);

    assert_string_equal(held_err(held), "");
    if (held->exit_code != exit_code)
        fail_msg("exit code %d instead of %d: %.600s", held->exit_code, exit_code, out);
    assert_int_equal(out[strlen(out) - 1], '\n');
    assert_in_range(stage_lines_with(out, "{\"type\":\"result\","), 0, 1);
    const char *last = stage_last_line(out);
    const struct bl_json *value = check_envelope(last, "run", exit_code);
    if (strcmp(stage_text_at(value, "/output_format"), "stream-json") == 0)
        assert_int_equal(stage_lines_with(out, "{\"type\":\"result\","), 1);
    else
        assert_ptr_equal(last, out);
    return value;
}

size_t stage_turns(const char *session)
{
    static struct run run;

    RUN(&run, "session", "show", session, "--json");
    return stage_size_at(stage_answer(&run, "session-show", 0), "/turns");
}
