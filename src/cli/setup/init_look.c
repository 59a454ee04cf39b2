/* Inspects the files of a repository, without a model: languages by file names, commands that build
 * files define, folders, and settings of editors and formatters. Only facts found in files are
 * written. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <belay/json.h>

#include "setup.h"

#define FILE_MAX      ((size_t)1024 * 1024)
#define ENTRIES_MAX   50000u
#define DEPTH_MAX     12u
#define LANGUAGES_MAX 6u
#define FOLDERS_MAX   20u

static const struct init_language {
    const char *name;
    const char *endings; /* each with a blank on both sides */
} init_languages[] = {
    {"C", " c h "},
    {"C++", " cc cpp cxx hpp hh "},
    {"Rust", " rs "},
    {"Go", " go "},
    {"Python", " py "},
    {"JavaScript", " js mjs cjs jsx "},
    {"TypeScript", " ts tsx mts "},
    {"Java", " java "},
    {"Kotlin", " kt kts "},
    {"C#", " cs "},
    {"Ruby", " rb "},
    {"PHP", " php "},
    {"Swift", " swift "},
    {"Shell", " sh bash "},
    {"Lua", " lua "},
    {"Haskell", " hs "},
    {"Elixir", " ex exs "},
    {"Zig", " zig "},
    {"SQL", " sql "},
    {"HTML", " html htm "},
    {"CSS", " css scss "},
    {"Markdown", " md "},
};

#define LANGUAGE_COUNT BL_COUNT(init_languages)

struct init_folder {
    char name[64];
    unsigned files;
    unsigned counts[LANGUAGE_COUNT];
};

struct init_look {
    const char *root;
    struct bl_arena arena;
    struct bl_buffer *out;
    unsigned entries;
    bool cut; /* there are more entries than were inspected */
    unsigned counts[LANGUAGE_COUNT];
    struct init_folder folders[FOLDERS_MAX];
    unsigned folder_count;
    struct bl_buffer commands;    /* lines of the list */
    struct bl_buffer conventions; /* the same */
};

/* ---- Files ----------------------------------------------------------------------------------- */

static const char *init_path(struct init_look *look, const char *name)
{
    return bl_arena_printf(&look->arena, "%s/%s", look->root, name).data;
}

static bool init_has(struct init_look *look, const char *name)
{
    return access(init_path(look, name), F_OK) == 0;
}

/* Returns the text of a file in the arena; empty if it is missing or cannot be read. */
static struct bl_text init_load(struct init_look *look, const char *name)
{
    struct bl_buffer bytes;
    const char *why;
    struct bl_text text = {0};

    if (bl_file_load(init_path(look, name), FILE_MAX, &bytes, &why) == 0 &&
        bl_utf8_valid(bl_buffer_text(&bytes)))
        text = bl_arena_text(&look->arena, bl_buffer_text(&bytes));
    bl_buffer_done(&bytes);
    return text;
}

static bool init_holds(struct init_look *look, const char *name, const char *part)
{
    return bl_text_find(init_load(look, name), bl_text_from(part)) >= 0;
}

/* Returns the index of the language of a file name, or SIZE_MAX if unknown. */
static size_t init_language_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    char ending[16];

    if (dot == NULL || strlen(dot) > 8)
        return SIZE_MAX;
    snprintf(ending, sizeof ending, " %s ", dot + 1);
    for (size_t i = 0; i < LANGUAGE_COUNT; i++)
        if (strstr(init_languages[i].endings, ending) != NULL)
            return i;
    return SIZE_MAX;
}

/* True for folders that contain generated or third-party files. */
static bool init_is_made(const char *name)
{
    static const char *const made[] = {"node_modules", "target",      "build", "dist",
                                       "out",          "vendor",      "venv",  "__pycache__",
                                       "coverage",     "third_party", "bin",   "obj"};

    for (size_t i = 0; i < BL_COUNT(made); i++)
        if (strcmp(made[i], name) == 0)
            return true;
    return false;
}

static void init_count(struct init_look *look, const char *name, struct init_folder *folder)
{
    size_t language = init_language_of(name);

    if (folder != NULL)
        folder->files++;
    if (language == SIZE_MAX)
        return;
    look->counts[language]++;
    if (folder != NULL)
        folder->counts[language]++;
}

static void init_walk(struct init_look *look, int parent, const char *name,
                      struct init_folder *folder, unsigned depth)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (entries == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(entries)) != NULL) {
        struct stat status;
        if (entry->d_name[0] == '.' ||
            fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (++look->entries > ENTRIES_MAX) {
            look->cut = true;
            break;
        }
        if (S_ISREG(status.st_mode))
            init_count(look, entry->d_name, folder);
        if (!S_ISDIR(status.st_mode) || init_is_made(entry->d_name) || depth == DEPTH_MAX)
            continue;
        struct init_folder *below = folder;
        if (depth == 0 && look->folder_count < FOLDERS_MAX &&
            strlen(entry->d_name) < sizeof below->name &&
            bl_utf8_valid(bl_text_from(entry->d_name))) {
            below = &look->folders[look->folder_count++];
            bl_text_into(below->name, sizeof below->name, entry->d_name);
        }
        init_walk(look, fd, entry->d_name, below, depth + 1);
    }
    closedir(entries);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static void init_command(struct init_look *look, const char *file, const char *command,
                         const char *what)
{
    bl_buffer_printf(&look->commands, "- `%s`: %s (%s)\n", command, what, file);
}

/* True if a makefile has a rule for the target. */
static bool init_makes(struct bl_text makefile, const char *target)
{
    struct bl_text line, name = bl_text_from(target);

    while (bl_text_split(&makefile, '\n', &line)) {
        if (!bl_text_starts_with(line, name))
            continue;
        struct bl_text rest =
            bl_text_trim((struct bl_text){line.data + name.size, line.size - name.size});
        if (rest.size > 0 && rest.data[0] == ':' && (rest.size == 1 || rest.data[1] != '='))
            return true;
    }
    return false;
}

static void init_look_make(struct init_look *look)
{
    static const char *const files[] = {"GNUmakefile", "makefile", "Makefile"};
    static const char *const targets[][2] = {
        {"build", "build"},         {"test", "run the tests"}, {"check", "run the checks"},
        {"lint", "run the linter"}, {"format", "format"},      {"fmt", "format"},
    };

    for (size_t i = 0; i < BL_COUNT(files); i++) {
        if (!init_has(look, files[i]))
            continue;
        struct bl_text makefile = init_load(look, files[i]);
        init_command(look, files[i], "make", "the default target");
        for (size_t j = 0; j < BL_COUNT(targets); j++)
            if (init_makes(makefile, targets[j][0]))
                init_command(look, files[i],
                             bl_arena_printf(&look->arena, "make %s", targets[j][0]).data,
                             targets[j][1]);
        return;
    }
}

static void init_look_node(struct init_look *look)
{
    static const char *const scripts[] = {"build", "test", "lint", "format", "typecheck", "dev"};
    struct bl_text text = init_load(look, "package.json");
    const struct bl_json *root = NULL;
    const char *manager = init_has(look, "pnpm-lock.yaml")                            ? "pnpm"
                          : init_has(look, "yarn.lock")                               ? "yarn"
                          : init_has(look, "bun.lockb") || init_has(look, "bun.lock") ? "bun"
                                                                                      : "npm";

    if (text.size == 0 || bl_json_read(&look->arena, text, NULL, &root, NULL) != 0)
        return;
    init_command(look, "package.json", bl_arena_printf(&look->arena, "%s install", manager).data,
                 "install the dependencies");
    for (size_t i = 0; i < BL_COUNT(scripts); i++) {
        const struct bl_json *script =
            bl_json_get(bl_json_get(root, BL_TEXT("scripts")), bl_text_from(scripts[i]));
        struct bl_text line = bl_utf8_cut(bl_json_text(script), 100);
        if (line.size > 0 && memchr(line.data, '`', line.size) == NULL &&
            memchr(line.data, '\n', line.size) == NULL)
            init_command(
                look, "package.json",
                bl_arena_printf(&look->arena, "%s run %s", manager, scripts[i]).data,
                bl_arena_printf(&look->arena, "`" BL_TEXT_FORMAT "`", BL_TEXT_ARG(line)).data);
    }
}

/* Build systems whose commands are always the same. If `part` is set, the file must contain it. */
static const struct init_system {
    const char *file, *part, *command, *what;
} init_systems[] = {
    {"meson.build", NULL, "meson setup build", "configure"},
    {"meson.build", NULL, "ninja -C build", "build"},
    {"meson.build", "test(", "meson test -C build", "run the tests"},
    {"CMakeLists.txt", NULL, "cmake -B build", "configure"},
    {"CMakeLists.txt", NULL, "cmake --build build", "build"},
    {"CMakeLists.txt", "enable_testing", "ctest --test-dir build", "run the tests"},
    {"Cargo.toml", NULL, "cargo build", "build"},
    {"Cargo.toml", NULL, "cargo test", "run the tests"},
    {"go.mod", NULL, "go build ./...", "build"},
    {"go.mod", NULL, "go test ./...", "run the tests"},
    {"pyproject.toml", "[tool.pytest", "pytest", "run the tests"},
    {"pyproject.toml", "[tool.ruff", "ruff check", "run the linter"},
    {"pyproject.toml", "[tool.mypy", "mypy .", "check types"},
    {"pyproject.toml", "[tool.black", "black .", "format"},
    {"pytest.ini", NULL, "pytest", "run the tests"},
    {"tox.ini", "[tox]", "tox", "run the tests"},
    {"build.gradle", NULL, "gradle build", "build and run the tests"},
    {"build.gradle.kts", NULL, "gradle build", "build and run the tests"},
    {"pom.xml", NULL, "mvn verify", "build and run the tests"},
    {"mix.exs", NULL, "mix test", "run the tests"},
    {"build.zig", NULL, "zig build", "build"},
};

static void init_look_systems(struct init_look *look)
{
    for (size_t i = 0; i < BL_COUNT(init_systems); i++) {
        const struct init_system *system = &init_systems[i];
        if (system->part != NULL ? init_holds(look, system->file, system->part)
                                 : init_has(look, system->file))
            init_command(look, system->file, system->command, system->what);
    }
}

/* ---- Conventions ----------------------------------------------------------------------------- */

static void init_look_editorconfig(struct init_look *look)
{
    static const char *const known[] = {"indent_style",    "indent_size", "tab_width",
                                        "max_line_length", "end_of_line", "charset"};
    struct bl_text text = init_load(look, ".editorconfig"), line, section = BL_TEXT("*");
    unsigned lines = 0;

    while (lines < 20 && bl_text_split(&text, '\n', &line)) {
        struct bl_text rest = line = bl_text_trim(line), name = {0};
        if (line.size > 2 && line.data[0] == '[' && line.data[line.size - 1] == ']')
            section = (struct bl_text){line.data + 1, line.size - 2};
        bl_text_split(&rest, '=', &name);
        name = bl_text_trim(name);
        rest = bl_text_trim(rest);
        for (size_t i = 0; i < BL_COUNT(known) && rest.size > 0 && rest.size < 40; i++) {
            if (!bl_text_is(name, known[i]))
                continue;
            bl_buffer_printf(&look->conventions,
                             "- Files `" BL_TEXT_FORMAT "`: %s is " BL_TEXT_FORMAT
                             " (.editorconfig)\n",
                             BL_TEXT_ARG(bl_utf8_cut(section, 60)), known[i], BL_TEXT_ARG(rest));
            lines++;
        }
    }
}

static void init_look_conventions(struct init_look *look)
{
    static const char *const files[][2] = {
        {".clang-format", "clang-format formats C and C++"},
        {".clang-tidy", "clang-tidy checks C and C++"},
        {"rustfmt.toml", "rustfmt has its own settings"},
        {".prettierrc", "Prettier formats"},
        {".prettierrc.json", "Prettier formats"},
        {"eslint.config.js", "ESLint checks"},
        {"eslint.config.mjs", "ESLint checks"},
        {".eslintrc.json", "ESLint checks"},
        {"biome.json", "Biome checks and formats"},
        {"tsconfig.json", "TypeScript has its own settings"},
        {".golangci.yml", "golangci-lint checks Go"},
        {".pre-commit-config.yaml", "pre-commit runs checks before a commit"},
    };
    static const char *const guides[] = {"CONTRIBUTING.md", "docs/CONTRIBUTING.md",
                                         ".github/CONTRIBUTING.md"};

    for (size_t i = 0; i < BL_COUNT(guides); i++)
        if (init_has(look, guides[i]))
            bl_buffer_printf(&look->conventions, "- Read `%s` before you change something.\n",
                             guides[i]);
    init_look_editorconfig(look);
    for (size_t i = 0; i < BL_COUNT(files); i++)
        if (init_has(look, files[i][0]))
            bl_buffer_printf(&look->conventions, "- %s (%s).\n", files[i][1], files[i][0]);
}

/* ---- The text -------------------------------------------------------------------------------- */

/* Returns the language with the most files among those not taken, or SIZE_MAX if none is left. */
static size_t init_next_language(const unsigned *counts, const bool *taken)
{
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < LANGUAGE_COUNT; i++)
        if (!taken[i] && counts[i] > 0 && (best == SIZE_MAX || counts[i] > counts[best]))
            best = i;
    return best;
}

static void init_write_languages(struct init_look *look)
{
    bool taken[LANGUAGE_COUNT] = {false};
    size_t next;

    for (unsigned i = 0; i < LANGUAGES_MAX; i++) {
        next = init_next_language(look->counts, taken);
        if (next == SIZE_MAX)
            break;
        taken[next] = true;
        bl_buffer_printf(look->out, "%s%s (%u file%s)", i == 0 ? "\nLanguages: " : ", ",
                         init_languages[next].name, look->counts[next],
                         look->counts[next] == 1 ? "" : "s");
    }
    if (taken[0] || look->out->data[look->out->size - 1] == ')')
        bl_buffer_printf(look->out, "%s.\n", look->cut ? ", among the first 50,000 entries" : "");
}

static int init_by_name(const void *a, const void *b)
{
    return strcmp(((const struct init_folder *)a)->name, ((const struct init_folder *)b)->name);
}

static void init_write_layout(struct init_look *look)
{
    bool none[LANGUAGE_COUNT] = {false};

    if (look->folder_count == 0)
        return;
    qsort(look->folders, look->folder_count, sizeof look->folders[0], init_by_name);
    bl_buffer_append(look->out, BL_TEXT("\n## Layout\n\n"));
    for (unsigned i = 0; i < look->folder_count; i++) {
        const struct init_folder *folder = &look->folders[i];
        size_t main = init_next_language(folder->counts, none);
        bl_buffer_printf(look->out, "- `%s/`: %u file%s", folder->name, folder->files,
                         folder->files == 1 ? "" : "s");
        if (main != SIZE_MAX && folder->counts[main] * 2 > folder->files)
            bl_buffer_printf(look->out, ", most of them %s", init_languages[main].name);
        bl_buffer_append_byte(look->out, '\n');
    }
}

static void init_write_section(struct init_look *look, const char *title,
                               const struct bl_buffer *lines)
{
    if (lines->size > 0)
        bl_buffer_printf(look->out, "\n## %s\n\n" BL_TEXT_FORMAT, title,
                         BL_TEXT_ARG(bl_buffer_text(lines)));
}

void init_describe(const char *root, struct bl_buffer *out)
{
    struct init_look *look = bl_zalloc(sizeof *look);
    const char *name = strrchr(root, '/');

    look->root = root;
    look->out = out;
    bl_arena_init(&look->arena);
    bl_buffer_init(&look->commands, FILE_MAX);
    bl_buffer_init(&look->conventions, FILE_MAX);
    init_walk(look, AT_FDCWD, root, NULL, 0);
    init_look_make(look);
    init_look_node(look);
    init_look_systems(look);
    init_look_conventions(look);
    bl_buffer_printf(out, "# %s\n\nInstructions for agents that work in this repository.\n",
                     name != NULL && name[1] != '\0' ? name + 1 : "Instructions");
    init_write_languages(look);
    init_write_section(look, "Commands", &look->commands);
    init_write_layout(look);
    init_write_section(look, "Conventions", &look->conventions);
    bl_buffer_done(&look->commands);
    bl_buffer_done(&look->conventions);
    bl_arena_done(&look->arena);
    bl_free(look);
}
