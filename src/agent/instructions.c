#include "found.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#define FILE_NAME "AGENTS.md"
#define OPERATION "read instructions"

/* ---- Places ---------------------------------------------------------------------------------- */

const struct found_place *found_places(struct bl_arena *arena, const char *directory,
                                       const char *users, const char *const *below)
{
    const char *folder = bl_user_folder(arena, BL_USER_CONFIG, NULL);
    size_t size = strlen(directory), root = bl_repository_size(arena, directory);
    size_t levels = 2, names = 0, count = 0;
    const char *top = bl_arena_text(arena, (struct bl_text){directory, root}).data;

    for (size_t end = root; end < size; end++)
        levels += directory[end] == '/';
    while (below[names] != NULL)
        names++;
    struct found_place *places = bl_arena_zalloc(arena, (levels * names + 2) * sizeof *places);
    if (folder != NULL)
        places[count++].path = bl_arena_printf(arena, "%s/%s", folder, users).data;
    for (size_t end = root; end <= size; end++) {
        if (end != size && directory[end] != '/')
            continue;
        /* The file system's root ends in a slash already. */
        size_t shown = end > 0 && directory[end - 1] == '/' ? end - 1 : end;
        for (size_t i = 0; i < names; i++)
            places[count++] = (struct found_place){
                .path = bl_arena_printf(arena, "%.*s/%s", (int)shown, directory, below[i]).data,
                .root = top,
            };
    }
    return places;
}

static int instructions_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool found_is_name(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        if (!((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-'))
            return false;
    }
    return text.size >= 1 && text.size <= FOUND_NAME_SIZE_MAX;
}

/* Names appear in prompts and on terminals. */
static bool instructions_is_plain(const char *name)
{
    for (const char *byte = name; *byte != '\0'; byte++) {
        if ((unsigned char)*byte < 0x20 || *byte == 0x7f)
            return false;
    }
    return bl_utf8_valid(bl_text_from(name));
}

/* Writes the names into `names`, and returns their number. */
static size_t instructions_list_names(struct bl_arena *arena, DIR *stream, const char *folder,
                                      const char **names, struct bl_error *error)
{
    const struct dirent *entry;
    size_t count = 0;

    while ((entry = readdir(stream)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        if (!instructions_is_plain(entry->d_name)) {
            bl_error_set(error, BL_EINVAL, BL_KIND_FILESYSTEM, "read a folder", folder,
                         "%s contains a name that cannot be shown: skipped", folder);
            continue;
        }
        if (count == FOUND_ENTRIES_MAX) {
            bl_error_set(error, BL_ELIMIT, BL_KIND_FILESYSTEM, "read a folder", folder,
                         "%s contains more than %u entries: some are skipped", folder,
                         FOUND_ENTRIES_MAX);
            break;
        }
        names[count++] = bl_arena_text(arena, bl_text_from(entry->d_name)).data;
    }
    return count;
}

const char *const *found_names(struct bl_arena *arena, const char *folder, struct bl_list *notices)
{
    static const char *const none[] = {NULL};
    struct bl_error error = {0};
    const char **names = NULL;
    DIR *stream = opendir(folder);

    if (stream != NULL) {
        names = bl_arena_zalloc(arena, (FOUND_ENTRIES_MAX + 1) * sizeof *names);
        size_t count = instructions_list_names(arena, stream, folder, names, &error);
        closedir(stream);
        qsort(names, count, sizeof *names, instructions_compare_names);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        bl_error_set(&error, bl_error_from_errno(errno), BL_KIND_FILESYSTEM, "read a folder",
                     folder, "cannot read %s: %s", folder, strerrordesc_np(errno));
    }
    if (error.code != 0)
        found_notice(arena, notices, &error);
    return names != NULL ? names : none;
}

/* ---- Notices --------------------------------------------------------------------------------- */

void bl_notice_add(struct bl_arena *arena, struct bl_list *notices, struct bl_text text)
{
    struct bl_notice *notice = bl_arena_alloc(arena, sizeof *notice);

    notice->text = text;
    bl_list_push_back(notices, &notice->link);
}

void found_notice(struct bl_arena *arena, struct bl_list *notices, const struct bl_error *error)
{
    bl_notice_add(arena, notices,
                  bl_arena_printf(arena, "%s%s%s", error->message,
                                  error->hint[0] != '\0' ? "; " : "", error->hint));
}

void found_too_many(struct bl_arena *arena, struct bl_list *notices, const char *things,
                    const char *path)
{
    bl_notice_add(arena, notices,
                  bl_arena_printf(arena, "more than %u %s: %s and later ones are skipped",
                                  FOUND_COUNT_MAX, things, path));
}

/* ---- Files ----------------------------------------------------------------------------------- */

int found_load(struct bl_arena *arena, const struct found_place *place, const char *operation,
               struct bl_text *ret_text, struct bl_error *error)
{
    struct bl_buffer source;
    const char *why = "", *path = place->path;
    int code = bl_file_load_below(place->root, path, FOUND_SIZE_MAX, &source, &why);

    if (code == 0)
        *ret_text = bl_arena_text(arena, bl_buffer_text(&source));
    bl_buffer_done(&source);
    if (code == BL_ENOENT)
        return code;
    if (code == BL_EREFUSED)
        return bl_error_set(error, code, BL_KIND_FILESYSTEM, operation, path,
                            "%s is a link that leads out of %s: skipped", path, place->root);
    if (code == BL_ELIMIT)
        return bl_error_set(error, code, BL_KIND_FILESYSTEM, operation, path,
                            "%s is larger than 256 KiB", path);
    if (code != 0)
        return bl_error_set(error, BL_EIO, BL_KIND_FILESYSTEM, operation, path,
                            "cannot read %s: %s", path, why);
    if (!bl_utf8_valid(*ret_text))
        return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, operation, path,
                            "%s is not valid UTF-8", path);
    return 0;
}

/* Takes one line off the front, and returns whether it is three dashes. */
static bool instructions_take_dashes(struct bl_text *rest, struct bl_text *ret_line)
{
    if (!bl_text_split(rest, '\n', ret_line))
        return false;
    return bl_text_equal(bl_text_trim(*ret_line), BL_TEXT("---")) && ret_line->data[0] == '-';
}

static int fail_page(const char *path, const char *operation, const char *what,
                     struct bl_error *error)
{
    bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, operation, path, "%s:1:1: %s", path, what);
    bl_error_hint(error, "begin the file with a line ---, then name: and description:, then a "
                         "line ---, then the text");
    return BL_EPARSE;
}

int found_page_read(struct bl_arena *arena, const struct found_place *place, const char *operation,
                    struct found_page *ret_page, struct bl_error *error)
{
    struct bl_text rest, line, front;
    const char *path = place->path;
    int code = found_load(arena, place, operation, &rest, error);

    if (code != 0)
        return code;
    if (bl_text_starts_with(rest, BL_TEXT("\xEF\xBB\xBF")))
        rest = (struct bl_text){rest.data + 3, rest.size - 3};
    if (!instructions_take_dashes(&rest, &line))
        return fail_page(path, operation, "missing front matter", error);
    /* Includes the end of the first line, so that line numbers are those of the file. */
    front.data = line.data + line.size;
    bool closed = false;
    while (!closed && rest.size > 0)
        closed = instructions_take_dashes(&rest, &line);
    if (!closed)
        return fail_page(path, operation, "the front matter is not closed", error);
    front.size = (size_t)(line.data - front.data);
    ret_page->body = bl_text_trim(rest);
    ret_page->source =
        (struct bl_source){.file = path, .operation = operation, .guarded = true, .error = error};
    code = bl_source_open(&ret_page->source, arena, front, FOUND_SIZE_MAX);
    if (code == 0 && !bl_json_is(ret_page->source.document.root, BL_JSON_OBJECT))
        return fail_page(path, operation, "the front matter is not a mapping", error);
    return code;
}

int found_line(struct bl_source *source, const struct bl_json *value, struct bl_arena *arena,
               size_t size_max, const char **ret_line)
{
    struct bl_text text = bl_text_trim(bl_json_text(value));
    const char *name = value != NULL ? value[-1].string : "";

    if (value == NULL)
        return 0;
    if (text.size == 0)
        return bl_source_fail(source, value, "%s must not be empty", name);
    if (text.size > size_max)
        return bl_source_fail(source, value, "%s must have at most %zu bytes", name, size_max);
    char *line = bl_arena_alloc(arena, text.size + 1);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        bool space = byte == ' ' || (byte >= '\t' && byte <= '\r');
        if (byte == 0x7f || (byte < 0x20 && !space))
            return bl_source_fail(source, value, "%s contains a control character", name);
        if (!space)
            line[size++] = (char)byte;
        else if (line[size - 1] != ' ')
            line[size++] = ' ';
    }
    line[size] = '\0';
    *ret_line = line;
    return 0;
}

/* ---- Instructions ---------------------------------------------------------------------------- */

int bl_instructions_find(struct bl_arena *arena, const char *directory, struct bl_list *ret_list,
                         struct bl_list *notices, struct bl_error *error)
{
    static const char *const names[] = {FILE_NAME, NULL};
    const struct found_place *place = found_places(arena, directory, FILE_NAME, names);

    bl_list_init(ret_list);
    for (; place->path != NULL; place++) {
        struct bl_text text;
        struct bl_error detail = {0};
        int code = found_load(arena, place, OPERATION, &text, &detail);
        if (code == BL_EREFUSED)
            found_notice(arena, notices, &detail);
        if (code == BL_ENOENT || code == BL_EREFUSED)
            continue;
        if (code != 0) {
            if (error != NULL)
                *error = detail;
            return code;
        }
        struct bl_instruction *instruction = bl_arena_alloc(arena, sizeof *instruction);
        instruction->path = place->path;
        instruction->text = text;
        bl_list_push_back(ret_list, &instruction->link);
    }
    return 0;
}
