/* Searching a tree of 50,000 files: grep for a rare word, a common one, a word in any case and a
 * pattern without literals, and glob, each as a tool call. The baseline is ripgrep, if installed,
 * as a separate process that prints to /dev/null. Also compares the line finder in memory with a
 * search of each line. Argument: "quick" makes a tree of 5,000 files. */
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <belay/tool.h>

#include "report.h"

#define FILES        50000u
#define FILES_QUICK  5000u
#define ROUNDS       7
#define MEMORY_BYTES ((size_t)16 * 1024 * 1024)

extern char **environ;

static char folder[64] = "/tmp/belay-bench-XXXXXX";
static struct bl_random chance;

/* ---- The tree -------------------------------------------------------------------------------- */

static const char *const words[] = {
    "int",    "return", "struct", "buffer", "size",   "const",  "char",   "if",      "while",
    "result", "error",  "length", "index",  "value",  "static", "void",   "parse",   "token",
    "state",  "node",   "list",   "next",   "offset", "count",  "string", "unsigned"};

static void append_word(struct bl_buffer *out)
{
    uint64_t kind = bl_random_below(&chance, 40);
    const char *word = words[bl_random_below(&chance, BL_COUNT(words))];
    if (kind == 0)
        bl_buffer_printf(out, "%s_%s", word, words[bl_random_below(&chance, BL_COUNT(words))]);
    else if (kind == 1)
        bl_buffer_printf(out, "0x%04llx", (unsigned long long)bl_random_below(&chance, 65536));
    else
        bl_buffer_append(out, bl_text_from(word));
}

static void append_line(struct bl_buffer *out)
{
    uint64_t count = bl_random_below(&chance, 12);
    static const char *const ends[] = {";", " {", ");", ",", "", " = "};
    for (uint64_t i = bl_random_below(&chance, 4); i > 0; i--)
        bl_buffer_append(out, BL_TEXT("    "));
    for (uint64_t i = 0; i < count; i++) {
        append_word(out);
        bl_buffer_append_byte(out, i % 3 == 2 ? '(' : ' ');
    }
    bl_buffer_append(out, bl_text_from(ends[bl_random_below(&chance, BL_COUNT(ends))]));
    if (bl_random_below(&chance, 20000) == 0)
        bl_buffer_append(out, BL_TEXT(" Alpha7Beta_x"));
    bl_buffer_append_byte(out, '\n');
}

/* Most files are small, few are large. */
static size_t file_size(void)
{
    size_t size = 200 + bl_random_below(&chance, 4000);
    if (bl_random_below(&chance, 8) == 0)
        size *= 4;
    if (bl_random_below(&chance, 200) == 0)
        size *= 10;
    return size;
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0777) != 0 && access(path, F_OK) != 0)
        report_die("no folder");
}

static void write_file(const char *path, struct bl_text content)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0 || write(fd, content.data, content.size) != (ssize_t)content.size)
        report_die("no file");
    close(fd);
}

/* Twenty files per folder, twenty-five folders per module; every twentieth module is ignored. */
static size_t make_tree(unsigned files)
{
    static const char *const endings[] = {"c", "h", "py", "md", "json"};
    struct bl_buffer text;
    char path[256];
    size_t total = 0;
    if (mkdtemp(folder) == NULL)
        report_die("no folder");
    bl_buffer_init(&text, SIZE_MAX);
    snprintf(path, sizeof path, "%s/.gitignore", folder);
    write_file(path, BL_TEXT("build/\n*.o\n*.log\n/out*\n!keep.o\n"));
    snprintf(path, sizeof path, "%s/.git", folder);
    make_folder(path);
    for (unsigned i = 0; i < files; i++) {
        unsigned module = i / 500, part = i / 20 % 25;
        const char *kind = module % 20 == 19 ? "build" : "src";
        int size = snprintf(path, sizeof path, "%s/module%u", folder, module);
        make_folder(path);
        size += snprintf(path + size, sizeof path - (size_t)size, "/%s", kind);
        make_folder(path);
        size += snprintf(path + size, sizeof path - (size_t)size, "/part%u", part);
        make_folder(path);
        snprintf(path + size, sizeof path - (size_t)size, "/file_%u.%s", i,
                 endings[i % BL_COUNT(endings)]);
        bl_buffer_clear(&text);
        size_t wanted = file_size();
        while (text.size < wanted)
            append_line(&text);
        if (i % 2500 == 7)
            bl_buffer_append(&text, BL_TEXT("    zyx_quartz_handler(buffer);\n"));
        write_file(path, bl_buffer_text(&text));
        total += text.size;
    }
    bl_buffer_done(&text);
    return total;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

/* ---- Ripgrep --------------------------------------------------------------------------------- */

static bool has_ripgrep(void)
{
    return system("rg --version >/dev/null 2>&1") == 0;
}

/* The time of a ripgrep process in milliseconds. */
static double ripgrep_ms(const char *const *arguments)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    double from_ns = report_wall_ns();
    if (posix_spawnp(&pid, "rg", &actions, NULL, (char *const *)arguments, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) > 1)
        report_die("rg did not finish");
    posix_spawn_file_actions_destroy(&actions);
    return (report_wall_ns() - from_ns) / 1e6;
}

/* ---- Belay ----------------------------------------------------------------------------------- */

static void forget_output(const struct bl_tool_call *call, struct bl_text bytes)
{
    (void)call, (void)bytes;
}

static double call_ms(const struct bl_tools *tools, const char *name, const char *input,
                      const char *expected)
{
    struct bl_arena arena = {0};
    struct bl_tool_result result;
    struct bl_error error = {0};
    const struct bl_json *json;
    if (bl_json_read(&arena, bl_text_from(input), NULL, &json, NULL) != 0)
        report_die("not JSON");
    struct bl_tool_call call = {.id = "call_1",
                                .name = name,
                                .turn = "turn_1",
                                .input_text = bl_text_from(input),
                                .input = json,
                                .scope = bl_scope_current(),
                                .arena = &arena,
                                .output = forget_output};
    double from_ns = report_wall_ns();
    if (tools->call(tools->context, &call, &result, &error) != 0)
        report_die(error.message);
    double ms = (report_wall_ns() - from_ns) / 1e6;
    if (result.is_error || bl_text_find(result.text, bl_text_from(expected)) < 0) {
        fprintf(stderr, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(result.text));
        report_die("not found");
    }
    bl_arena_done(&arena);
    return ms;
}

static struct measure {
    const char *title;
    const char *tool;
    const char *input;
    const char *expected;
    const char *arguments[8];
} measures[] = {
    {"grep, a rare word",
     "grep",
     "{\"pattern\":\"zyx_quartz_handler\"}",
     "zyx_quartz",
     {"rg", "-n", "--hidden", "-e", "zyx_quartz_handler", folder}},
    {"grep, a common word",
     "grep",
     "{\"pattern\":\"return\"}",
     "return",
     {"rg", "-n", "--hidden", "-e", "return", folder}},
    {"grep, a common word, only the files",
     "grep",
     "{\"pattern\":\"return\",\"output\":\"files\"}",
     "module",
     {"rg", "-l", "--hidden", "-e", "return", folder}},
    {"grep, a rare word in any case",
     "grep",
     "{\"pattern\":\"ZYX_quartz\",\"ignore_case\":true}",
     "zyx_quartz",
     {"rg", "-n", "-i", "--hidden", "-e", "ZYX_quartz", folder}},
    {"grep, either of two words",
     "grep",
     "{\"pattern\":\"zyx_quartz|alpha9beta\"}",
     "zyx_quartz",
     {"rg", "-n", "--hidden", "-e", "zyx_quartz|alpha9beta", folder}},
    {"grep, a pattern without literals",
     "grep",
     "{\"pattern\":\"[A-Z][a-z]+[0-9][A-Z]\\\\w+\"}",
     "Alpha7Beta",
     {"rg", "-n", "--hidden", "-e", "[A-Z][a-z]+[0-9][A-Z]\\w+", folder}},
    {"glob, a fifth of the files",
     "glob",
     "{\"pattern\":\"**/*.c\"}",
     ".c",
     {"rg", "--files", "-g", "**/*.c", folder}},
    {"glob, a few files",
     "glob",
     "{\"pattern\":\"**/file_*77.py\"}",
     ".py",
     {"rg", "--files", "-g", "**/file_*77.py", folder}},
};

static int search_main(void *argument)
{
    bool baseline = *(bool *)argument;
    struct bl_permissions *permissions = bl_permissions_new(BL_PERMISSION_YOLO);
    struct bl_toolbox_options options = {.workspace = folder,
                                         .permissions = permissions,
                                         .sandbox_chosen = true,
                                         .sandbox = BL_SANDBOX_OFF};
    struct bl_toolbox *toolbox;
    struct bl_error error = {0};
    if (bl_toolbox_new(&options, &toolbox, &error) != 0)
        report_die(error.message);
    for (size_t i = 0; i < BL_COUNT(measures); i++) {
        const struct measure *measure = &measures[i];
        double ours[ROUNDS], theirs[ROUNDS] = {0};
        for (size_t round = 0; round < ROUNDS; round++) {
            if (baseline)
                theirs[round] = ripgrep_ms(measure->arguments);
            ours[round] = call_ms(bl_toolbox_tools(toolbox), measure->tool, measure->input,
                                  measure->expected);
        }
        report_line(measure->title, report_median(ours, ROUNDS), "ms",
                    baseline ? "ripgrep" : "ripgrep is not here", report_median(theirs, ROUNDS));
    }
    bl_toolbox_free(toolbox);
    bl_permissions_free(permissions);
    return 0;
}

/* ---- In memory ------------------------------------------------------------------------------- */

static double each_line_ms(const struct bl_pattern *pattern, struct bl_text text, size_t *lines)
{
    struct bl_text line;
    double from_ns = report_processor_ns();
    while (bl_text_split(&text, '\n', &line))
        *lines += bl_pattern_search(pattern, line);
    return (report_processor_ns() - from_ns) / 1e6;
}

static double finder_ms(const struct bl_pattern *pattern, struct bl_text text, size_t *lines)
{
    struct bl_text line;
    size_t offset = 0;
    double from_ns = report_processor_ns();
    struct bl_line_finder *finder = bl_line_finder_new(pattern, NULL);
    while (bl_line_finder_next(finder, text, &offset, &line))
        (*lines)++;
    bl_line_finder_free(finder);
    return (report_processor_ns() - from_ns) / 1e6;
}

static void in_memory(void)
{
    struct bl_pattern *pattern;
    struct bl_buffer text;
    double ours[ROUNDS], theirs[ROUNDS];
    bl_buffer_init(&text, SIZE_MAX);
    while (text.size < MEMORY_BYTES)
        append_line(&text);
    if (bl_pattern_new(BL_TEXT("[A-Z][a-z]+[0-9][A-Z]\\w+"), &pattern, NULL) != 0)
        report_die("no pattern");
    for (size_t i = 0; i < ROUNDS; i++) {
        size_t found = 0, expected = 0;
        ours[i] = finder_ms(pattern, bl_buffer_text(&text), &found);
        theirs[i] = each_line_ms(pattern, bl_buffer_text(&text), &expected);
        if (found != expected)
            report_die("lines were lost");
    }
    report_line("16 MiB in memory, a pattern without literals", report_median(ours, ROUNDS), "ms",
                "each line searched", report_median(theirs, ROUNDS));
    bl_pattern_free(pattern);
    bl_buffer_done(&text);
}

int main(int argument_count, char **arguments)
{
    bool quick = argument_count > 1 && strcmp(arguments[1], "quick") == 0;
    bool baseline = has_ripgrep();
    struct bl_error error = {0};
    struct bl_loop *loop;
    bl_random_seed(&chance, 1);
    in_memory();
    make_tree(quick ? FILES_QUICK : FILES);
    if (bl_loop_new(NULL, &loop, &error) != 0)
        report_die(error.message);
    int code = bl_loop_run(loop, "search", search_main, &baseline);
    bl_loop_free(loop);
    nftw(folder, remove_entry, 64, FTW_DEPTH | FTW_PHYS);
    return code;
}
