/* Design notes.
 *
 * A prompt names files by `@path`, and images also by their bare path, as a terminal pastes it for
 * a dropped file. Named files are read by the tools that a model would use, so that paths, rules,
 * limits and notes about omissions are the same; only reads that are allowed without a question are
 * made. The prompt stays as typed: the attachments follow it in the message, each in a block of its
 * own. */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "parts.h"

/* Limits: names in one prompt, and bytes of all attachments. */
#define REFERENCES_MAX 32u
#define ATTACHED_MAX   ((size_t)512 * 1024)
#define REASON_SIZE    ((size_t)512)

/* ---- Names in a prompt ----------------------------------------------------------------------- */

static bool attach_is_blank(char byte)
{
    return (unsigned char)byte <= ' ';
}

static bool attach_opens(char byte)
{
    return attach_is_blank(byte) || strchr("([{<\"'`,;", byte) != NULL;
}

/* Removes punctuation of the surrounding sentence. */
static struct bl_text attach_trim(struct bl_text path)
{
    while (path.size > 0 && strchr(".,;:!?)]}>\"'`", path.data[path.size - 1]) != NULL)
        path.size--;
    return path;
}

bool bl_reference_is_image(struct bl_text path)
{
    static const char *const endings[] = {".png", ".jpg", ".jpeg", ".gif", ".webp"};

    for (size_t i = 0; i < BL_COUNT(endings); i++) {
        size_t size = strlen(endings[i]);
        if (path.size > size && strncasecmp(path.data + path.size - size, endings[i], size) == 0)
            return true;
    }
    return false;
}

/* Returns the quoted text at the front of `rest`; NULL data if there is none. */
static struct bl_text attach_quoted(struct bl_text rest)
{
    if (rest.size < 2 || (rest.data[0] != '"' && rest.data[0] != '\''))
        return (struct bl_text){0};
    const char *end = memchr(rest.data + 1, rest.data[0], rest.size - 1);
    if (end == NULL || memchr(rest.data, '\n', (size_t)(end - rest.data)) != NULL)
        return (struct bl_text){0};
    return (struct bl_text){rest.data + 1, (size_t)(end - rest.data) - 1};
}

bool bl_reference_next(struct bl_text *rest, struct bl_reference *ret_reference)
{
    bool begins = true;

    while (rest->size > 0) {
        struct bl_text at = *rest;
        bool marked = at.data[0] == '@';
        bool here = begins;
        begins = attach_opens(at.data[0]);
        rest->data++;
        rest->size--;
        if (!here || attach_is_blank(at.data[0]))
            continue;
        struct bl_text word = marked ? *rest : at;
        struct bl_text path = attach_quoted(word);
        size_t size = path.data != NULL ? path.size + 2 : 0;
        if (path.data == NULL) {
            while (size < word.size && !attach_is_blank(word.data[size]))
                size++;
            path = attach_trim((struct bl_text){word.data, size});
        }
        if (path.size == 0 || path.size >= PATH_MAX || memchr(path.data, '\0', path.size) != NULL ||
            (!marked && !bl_reference_is_image(path)))
            continue;
        rest->size -= (size_t)(word.data + size - rest->data);
        rest->data = word.data + size;
        *ret_reference = (struct bl_reference){.path = path, .marked = marked};
        return true;
    }
    return false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct attaching {
    struct bl_workspace *workspace;
    struct bl_arena *arena;
    bool takes_images;
    struct bl_attached *attached;
    struct bl_buffer text;
    struct bl_text seen[REFERENCES_MAX];
    size_t seen_count;
};

/* Checked on a thread: a file system may not answer. */
struct attach_look {
    struct bl_arena arena;
    const char *path;
    mode_t mode; /* 0: nothing exists there */
};

static void attach_look_run(void *payload)
{
    struct attach_look *look = payload;
    struct stat status;

    look->mode = stat(look->path, &status) == 0 ? status.st_mode : 0;
}

static void attach_look_free(void *payload)
{
    struct attach_look *look = payload;

    bl_arena_done(&look->arena);
    bl_free(look);
}

/* Returns 0, or the code of a stop. */
static int attach_find(const struct attaching *attaching, struct bl_text path, mode_t *ret_mode)
{
    struct attach_look *look = bl_zalloc(sizeof *look);
    struct bl_work job = {
        .run = attach_look_run, .drop = attach_look_free, .payload = look, .abandon_on_stop = true};
    bool abandoned;

    look->path = path.data[0] == '/'
                     ? bl_arena_text(&look->arena, path).data
                     : bl_arena_printf(&look->arena, "%s/" BL_TEXT_FORMAT,
                                       attaching->workspace->options.directory, BL_TEXT_ARG(path))
                           .data;
    int code = bl_work_call(&job, &abandoned);
    *ret_mode = code == 0 ? look->mode : 0;
    if (!abandoned)
        attach_look_free(look);
    return code;
}

static void attach_hear(const struct bl_tool_call *call, struct bl_text bytes)
{
    (void)call, (void)bytes;
}

static void attach_tell(const struct bl_tool_call *call, struct bl_event *event)
{
    (void)call, (void)event;
}

/* Makes one call of `read` or `ls`. A refusal is a result with an error. Returns 0, or the code of
 * a stop. */
static int attach_read(const struct attaching *attaching, const char *tool, struct bl_text path,
                       struct bl_tool_result *ret_result)
{
    const struct bl_tools *tools = bl_toolbox_tools(attaching->workspace->toolbox);
    struct bl_arena *arena = attaching->arena;
    struct bl_error *error = bl_arena_zalloc(arena, sizeof *error);
    char *reason = bl_arena_zalloc(arena, REASON_SIZE);
    struct bl_json_writer writer;
    struct bl_scope scope;
    const struct bl_json *input;
    BL_AUTO_BUFFER(json, SIZE_MAX);

    bl_json_writer_init(&writer, &json);
    bl_json_write_object(&writer);
    bl_json_put_text(&writer, "path", path);
    bl_json_write_end(&writer);
    struct bl_tool_call call = {.id = "attach",
                                .name = tool,
                                .input_text = bl_arena_text(arena, bl_buffer_text(&json)),
                                .scope = &scope,
                                .arena = arena,
                                .output = attach_hear,
                                .tell = attach_tell};
    *ret_result = (struct bl_tool_result){.is_error = true};
    int code = bl_json_writer_done(&writer);
    if (code == 0)
        code = bl_json_read(arena, call.input_text, NULL, &input, NULL);
    if (code != 0) {
        ret_result->text = BL_TEXT("the name is not valid UTF-8");
        return 0;
    }
    call.input = input;
    bl_scope_init(&scope, bl_scope_current());
    struct bl_scope *outer = bl_scope_enter(&scope);
    enum bl_permit permit = tools->permit(tools->context, &call, reason, REASON_SIZE);
    if (permit == BL_PERMIT_ALLOWED)
        code = tools->call(tools->context, &call, ret_result, error);
    else
        ret_result->text = bl_text_from(
            permit == BL_PERMIT_DENIED ? reason
                                       : "reading it needs permission; ask the model to read it");
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    if (code == 0 || code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return code;
    ret_result->text = bl_text_from(error->message);
    return 0;
}

/* ---- Attaching ------------------------------------------------------------------------------- */

static void attach_refuse(const struct attaching *attaching, struct bl_text why)
{
    bl_notice_add(
        attaching->arena, &attaching->attached->warnings,
        bl_arena_printf(attaching->arena, "not attached: " BL_TEXT_FORMAT, BL_TEXT_ARG(why)));
}

static void attach_add(struct attaching *attaching, struct bl_text path, bool folder,
                       const struct bl_tool_result *result)
{
    const char *kind = folder ? "folder" : result->images != NULL ? "image" : "file";

    if (result->images != NULL && !attaching->takes_images) {
        attach_refuse(attaching,
                      bl_arena_printf(attaching->arena,
                                      "'" BL_TEXT_FORMAT
                                      "' is an image, and this model does not accept images",
                                      BL_TEXT_ARG(path)));
        return;
    }
    if (attaching->text.size + path.size + result->text.size > ATTACHED_MAX) {
        attach_refuse(attaching,
                      bl_arena_printf(attaching->arena,
                                      "'" BL_TEXT_FORMAT
                                      "': the limit for attached text is %zu KiB per prompt",
                                      BL_TEXT_ARG(path), ATTACHED_MAX >> 10));
        return;
    }
    bl_buffer_printf(&attaching->text,
                     "\n\n<attached " BL_TEXT_FORMAT ">\n" BL_TEXT_FORMAT "%s</attached>",
                     BL_TEXT_ARG(path), BL_TEXT_ARG(result->text),
                     bl_text_ends_with(result->text, BL_TEXT("\n")) ? "" : "\n");
    struct bl_list *link;
    struct bl_list *images = (struct bl_list *)(uintptr_t)result->images;
    while (images != NULL && (link = bl_list_pop_front(images)) != NULL)
        bl_list_push_back(&attaching->attached->images, link);
    bl_notice_add(attaching->arena, &attaching->attached->notes,
                  bl_arena_printf(attaching->arena, "Attached " BL_TEXT_FORMAT " (%s)",
                                  BL_TEXT_ARG(path), kind));
}

/* Returns 0, or the code of a stop. */
static int attach_one(struct attaching *attaching, const struct bl_reference *reference)
{
    struct bl_text path = reference->path;
    struct bl_tool_result result;
    mode_t mode;

    for (size_t i = 0; i < attaching->seen_count; i++)
        if (bl_text_equal(attaching->seen[i], path))
            return 0;
    attaching->seen[attaching->seen_count++] = path;
    int code = attach_find(attaching, path, &mode);
    if (code != 0)
        return code;
    if (mode == 0) {
        if (reference->marked)
            attach_refuse(attaching,
                          bl_arena_printf(attaching->arena,
                                          "no file '" BL_TEXT_FORMAT "'; the name is sent as text",
                                          BL_TEXT_ARG(path)));
        return 0;
    }
    code = attach_read(attaching, S_ISDIR(mode) ? "ls" : "read", path, &result);
    if (code != 0)
        return code;
    if (result.is_error)
        attach_refuse(attaching, result.text);
    else
        attach_add(attaching, path, S_ISDIR(mode), &result);
    return 0;
}

void bl_attached_init(struct bl_attached *attached)
{
    *attached = (struct bl_attached){0};
    bl_list_init(&attached->images);
    bl_list_init(&attached->notes);
    bl_list_init(&attached->warnings);
}

int bl_workspace_attach(struct bl_workspace *workspace, struct bl_text prompt, bool takes_images,
                        struct bl_arena *arena, struct bl_attached *ret_attached)
{
    struct attaching attaching = {.workspace = workspace,
                                  .arena = arena,
                                  .takes_images = takes_images,
                                  .attached = ret_attached};
    struct bl_reference reference;
    struct bl_text rest = prompt;
    int code = 0;

    bl_attached_init(ret_attached);
    bl_buffer_init(&attaching.text, SIZE_MAX);
    while (code == 0 && attaching.seen_count < REFERENCES_MAX &&
           bl_reference_next(&rest, &reference))
        code = attach_one(&attaching, &reference);
    ret_attached->text = bl_arena_text(arena, bl_buffer_text(&attaching.text));
    bl_buffer_done(&attaching.text);
    return code;
}

void bl_attached_give(const struct bl_attached *attached, struct bl_run_options *run)
{
    run->attached = attached->text;
    run->images = bl_list_empty(&attached->images) ? run->images : &attached->images;
}
