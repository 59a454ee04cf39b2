/* Custom commands: prompts in Markdown files, with placeholders for arguments. */
#include "found.h"

#define OPERATION  "read a command"
#define SUFFIX     ".md"
#define DIGITS_MAX 9u

#define BL_RECORD_STRUCT struct bl_custom_command
static const struct bl_member custom_members[] = {
    BL_MEMBER_STRING("description", description, .optional = true),
    BL_MEMBER_STRING("argument-hint", hint, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

/* Other members are for other programs that read such files. */
static const struct bl_record custom_record =
    BL_RECORD("a command", struct bl_custom_command, custom_members);

/* ---- A file ---------------------------------------------------------------------------------- */

/* Without a description, uses the first line. */
static const char *custom_first_line(struct bl_arena *arena, struct bl_text body)
{
    struct bl_text line = {0};

    while (bl_text_split(&body, '\n', &line)) {
        while (line.size > 0 && (line.data[0] == '#' || line.data[0] == ' '))
            line = (struct bl_text){line.data + 1, line.size - 1};
        if (bl_text_trim(line).size > 0)
            break;
    }
    return bl_arena_text(arena, bl_utf8_cut(bl_text_trim(line), 100)).data;
}

static int custom_read_front(struct bl_arena *arena, const struct found_place *place,
                             struct bl_custom_command *command, struct bl_error *error)
{
    struct found_page page;
    int code = found_page_read(arena, place, OPERATION, &page, error);

    if (code != 0)
        return code;
    const struct bl_json *root = page.source.document.root;
    code = bl_source_read(&page.source, arena, &custom_record, root, command);
    if (code == 0)
        code = found_line(&page.source, bl_json_get(root, BL_TEXT("description")), arena,
                          FOUND_DESCRIPTION_MAX, &command->description);
    if (code == 0)
        code = found_line(&page.source, bl_json_get(root, BL_TEXT("argument-hint")), arena,
                          FOUND_DESCRIPTION_MAX, &command->hint);
    command->body = page.body;
    return code;
}

/* Reads a file with or without front matter. */
static int custom_read(struct bl_arena *arena, const struct found_place *place,
                       struct bl_custom_command *command, struct bl_error *error)
{
    struct bl_text text;
    int code = found_load(arena, place, OPERATION, &text, error);

    if (code != 0)
        return code;
    if (bl_text_starts_with(text, BL_TEXT("---\n")) || bl_text_starts_with(text, BL_TEXT("---\r")))
        code = custom_read_front(arena, place, command, error);
    else
        command->body = bl_text_trim(text);
    if (code == 0 && command->body.size == 0)
        return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, OPERATION, place->path,
                            "%s: the command is empty: add a prompt", place->path);
    if (code == 0 && command->description == NULL)
        command->description = custom_first_line(arena, command->body);
    return code;
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* Returns false if there are too many. */
static bool custom_add(struct bl_list *commands, struct bl_custom_command *command)
{
    size_t count = 0;

    BL_LIST_EACH (link, commands) {
        count++;
        if (strcmp(BL_CONTAINER(link, struct bl_custom_command, link)->name, command->name) != 0)
            continue;
        bl_list_insert_before(link, &command->link);
        bl_list_remove(link);
        return true;
    }
    if (count == FOUND_COUNT_MAX)
        return false;
    bl_list_push_back(commands, &command->link);
    return true;
}

static bool custom_add_file(struct bl_arena *arena, const struct found_place *folder,
                            const char *file_name, struct bl_list *commands,
                            struct bl_list *notices)
{
    struct bl_custom_command *command = bl_arena_zalloc(arena, sizeof *command);
    struct bl_text name = {file_name, strlen(file_name) - (sizeof SUFFIX - 1)};
    struct bl_error error = {0};

    command->name = bl_arena_text(arena, name).data;
    command->path = bl_arena_printf(arena, "%s/%s", folder->path, file_name).data;
    command->of_user = folder->root == NULL;
    struct found_place place = {command->path, folder->root};
    int code = 0;
    if (!found_is_name(name)) {
        code =
            bl_error_set(&error, BL_EPARSE, BL_KIND_PARSE, OPERATION, command->path,
                         "%s: the name of a command must be 1 to 64 characters from a-z, 0-9 and -",
                         command->path);
    } else {
        code = custom_read(arena, &place, command, &error);
    }
    if (code == 0 && !custom_add(commands, command)) {
        found_too_many(arena, notices, "commands", command->path);
        return false;
    }
    /* A file that was removed after the folder was read is ignored. */
    if (error.code != 0)
        found_notice(arena, notices, &error);
    return true;
}

void bl_custom_commands_find(struct bl_arena *arena, const char *directory,
                             struct bl_list *ret_commands, struct bl_list *notices)
{
    static const char *const below[] = {".belay/commands", NULL};
    const struct found_place *folders = found_places(arena, directory, "commands", below);
    bool room = true;

    bl_list_init(ret_commands);
    for (; room && folders->path != NULL; folders++) {
        const char *const *names = found_names(arena, folders->path, notices);
        for (; room && *names != NULL; names++) {
            if (bl_text_ends_with(bl_text_from(*names), BL_TEXT(SUFFIX)))
                room = custom_add_file(arena, folders, *names, ret_commands, notices);
        }
    }
}

/* ---- Arguments ------------------------------------------------------------------------------- */

/* Takes the next word, without the quotes that may group it. Returns false if there is none. */
static bool custom_next_word(struct bl_text *rest, struct bl_text *ret_word)
{
    size_t at = 0;

    *rest = bl_text_trim(*rest);
    if (rest->size == 0)
        return false;
    char quote = rest->data[0];
    const char *end =
        quote == '"' || quote == '\'' ? memchr(rest->data + 1, quote, rest->size - 1) : NULL;
    if (end != NULL) {
        size_t size = (size_t)(end - rest->data);
        *ret_word = (struct bl_text){rest->data + 1, size - 1};
        at = size + 1;
    } else {
        while (at < rest->size && strchr(" \t\n", rest->data[at]) == NULL)
            at++;
        *ret_word = (struct bl_text){rest->data, at};
    }
    *rest = (struct bl_text){rest->data + at, rest->size - at};
    return true;
}

struct bl_text bl_custom_command_prompt(struct bl_arena *arena,
                                        const struct bl_custom_command *command,
                                        struct bl_text arguments)
{
    static const struct bl_text all = BL_TEXT("$ARGUMENTS");
    struct bl_text words[DIGITS_MAX] = {{0}}, left = arguments, body = command->body;
    BL_AUTO_BUFFER(out, BL_CUSTOM_PROMPT_MAX);
    bool used = false;
    int code = 0;

    for (size_t i = 0; i < DIGITS_MAX && custom_next_word(&left, &words[i]); i++)
        continue;
    while (body.size > 0 && code == 0) {
        const char *mark = memchr(body.data, '$', body.size);
        size_t before = mark != NULL ? (size_t)(mark - body.data) : body.size;
        code = bl_buffer_append(&out, (struct bl_text){body.data, before});
        body = (struct bl_text){body.data + before, body.size - before};
        if (body.size == 0 || code != 0)
            break;
        bool digit = body.size > 1 && body.data[1] >= '1' && body.data[1] <= '9';
        bool whole = bl_text_starts_with(body, all);
        struct bl_text put = whole   ? arguments
                             : digit ? words[body.data[1] - '1']
                                     : (struct bl_text){body.data, 1};
        size_t taken = whole ? all.size : digit ? 2 : 1;
        used = used || whole || digit;
        code = bl_buffer_append(&out, put);
        body = (struct bl_text){body.data + taken, body.size - taken};
    }
    if (!used && arguments.size > 0 && code == 0)
        code = bl_buffer_append(&out, BL_TEXT("\n\n"));
    if (!used && code == 0)
        code = bl_buffer_append(&out, arguments);
    return code != 0 ? (struct bl_text){0} : bl_arena_text(arena, bl_buffer_text(&out));
}
