#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "cell.h"

#define READ_SIZE ((size_t)64 * 1024)

/* ---- The source ------------------------------------------------------------------------------ */

/* A source, read on a thread because files may block: a FIFO, or standard input that stays open. */
struct reading {
    const char *path;
    struct bl_buffer source;
    int failed; /* errno */
};

static void cell_text_read_all(void *argument)
{
    struct reading *reading = argument;
    struct bl_buffer *source = &reading->source;
    bool standard = strcmp(reading->path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(reading->path, O_RDONLY | O_CLOEXEC);
    ssize_t count = 1;

    if (fd < 0)
        reading->failed = errno;
    /* One byte over the limit shows that the source is too long; the rest is not read. */
    while (reading->failed == 0 && count != 0 && source->size <= BL_CELL_SOURCE_MAX &&
           bl_buffer_reserve(source, READ_SIZE) == 0) {
        count = read(fd, source->data + source->size, READ_SIZE);
        if (count > 0)
            source->size += (size_t)count;
        else if (count < 0 && errno != EINTR)
            reading->failed = errno;
    }
    if (!standard && fd >= 0)
        close(fd);
}

static void cell_text_reading_free(void *argument)
{
    struct reading *reading = argument;

    bl_buffer_done(&reading->source);
    bl_free(reading);
}

static int refuse_source(const char *path, const char *what, struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_CELL, "read the source", path, "the source %s", what);
    bl_error_name_set(error, bl_cell_code_name(BL_CELL_BAD_REQUEST));
    return BL_EINVAL;
}

static int check_source(const struct reading *reading, const char *path, struct bl_error *error)
{
    struct bl_text source = bl_buffer_text(&reading->source);
    size_t valid = bl_utf8_valid_prefix(source, NULL);

    if (reading->failed != 0)
        return bl_error_set(error, bl_error_from_errno(reading->failed), BL_KIND_FILESYSTEM,
                            "read the source", path, "cannot read '%s': %s", path,
                            strerror(reading->failed));
    if (source.size > BL_CELL_SOURCE_MAX)
        return refuse_source(path, "has more than 1 MiB", error);
    if (valid != source.size)
        return bl_error_set(error, BL_EPARSE, BL_KIND_PARSE, "read the source", path,
                            "'%s' is not valid UTF-8 from byte %zu on", path, valid);
    return bl_text_trim(source).size > 0 ? 0 : refuse_source(path, "is empty", error);
}

int cell_source_read(const char *path, struct bl_arena *arena, struct bl_text *ret_source,
                     struct bl_error *error)
{
    struct reading *reading = bl_zalloc(sizeof *reading);
    struct bl_work job = {
        .run = cell_text_read_all, .drop = cell_text_reading_free, .payload = reading};
    bool abandoned = false;

    reading->path = path;
    job.abandon_on_stop = true;
    bl_buffer_init(&reading->source, BL_CELL_SOURCE_MAX + 2 * READ_SIZE);
    int code = bl_work_call(&job, &abandoned);
    if (abandoned)
        return code;
    if (code == 0)
        code = check_source(reading, strcmp(path, "-") == 0 ? "standard input" : path, error);
    if (code == 0)
        *ret_source = bl_arena_text(arena, bl_buffer_text(&reading->source));
    cell_text_reading_free(reading);
    return code;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void hint_refusal(const struct bl_cell_fault *fault, struct bl_error *error)
{
    switch (fault->code) {
    case BL_CELL_BAD_REQUEST: bl_error_hint(error, "see the member %s", fault->path); break;
    case BL_CELL_CONFLICT:
    case BL_CELL_GONE: bl_error_hint(error, "use another --id"); break;
    case BL_CELL_WRONG_GENERATION:
        bl_error_hint(error, "the next one is --generation %llu",
                      (unsigned long long)fault->expected);
        break;
    case BL_CELL_NOT_TERMINAL:
        bl_error_hint(error, "'belay cell terminate %s' ends it", fault->id);
        break;
    case BL_CELL_SESSION_BUSY:
        bl_error_hint(error, "use that host, or another session with --session");
        break;
    case BL_CELL_LIMIT_REACHED: bl_error_hint(error, "'belay ps' lists running work"); break;
    case BL_CELL_WORKER_UNAVAILABLE:
        bl_error_hint(error, "'belay doctor' checks this machine");
        break;
    case BL_CELL_SHUTTING_DOWN:
        bl_error_hint(error, "'belay cell serve' starts another host");
        break;
    case BL_CELL_STORE_FAILED:
    case BL_CELL_CANCELLED:
    case BL_CELL_INTERNAL: bl_error_hint(error, "nothing was changed; try again"); break;
    case BL_CELL_UNSUPPORTED:
    case BL_CELL_SESSION_NOT_OPEN: break;
    }
}

int cell_refusal(const struct bl_cell_fault *fault, const char *operation, const char *target,
                 struct bl_error *error)
{
    const char *name = bl_cell_code_name(fault->code);
    bool detailed = fault->detail[0] != '\0' && strstr(fault->message, fault->detail) == NULL;

    bl_error_set(error, BL_EREFUSED, BL_KIND_CELL, operation, target, "%s%s%s",
                 fault->message[0] != '\0' ? fault->message : name, detailed ? ": " : "",
                 detailed ? fault->detail : "");
    bl_error_name_set(error, name);
    error->retryable = bl_cell_code_retryable(fault->code);
    hint_refusal(fault, error);
    return BL_EREFUSED;
}

static const char *error_meaning(enum bl_cell_error_kind kind)
{
    switch (kind) {
    case BL_CELL_ERROR_MEMORY_LIMIT: return "--memory raises the limit";
    case BL_CELL_ERROR_OUTPUT_LIMIT: return "--max-output raises the limit";
    case BL_CELL_ERROR_WORKER_LOST: return "'belay doctor' checks whether cells run here";
    case BL_CELL_ERROR_STORE_FULL:
    case BL_CELL_ERROR_STORE_FAILED: return "its stored values are not kept";
    case BL_CELL_ERROR_IMPORT: return "cells have no modules; only 'tools' is available";
    case BL_CELL_ERROR_EXCEPTION:
    case BL_CELL_ERROR_SYNTAX: break;
    }
    return NULL;
}

void cell_failure(const struct bl_cell_error *cause, const char *cell_id, struct bl_error *error)
{
    const char *meaning = error_meaning(cause->kind);
    struct bl_text message = bl_utf8_cut(cause->message, sizeof error->message - 80);

    bl_error_set(error, BL_EREFUSED, BL_KIND_CELL, "run the cell", cell_id,
                 BL_TEXT_FORMAT "%s" BL_TEXT_FORMAT, BL_TEXT_ARG(bl_utf8_cut(cause->name, 64)),
                 cause->name.size > 0 && message.size > 0 ? ": " : "", BL_TEXT_ARG(message));
    if (cause->name.size == 0 && message.size == 0)
        bl_text_into(error->message, sizeof error->message, bl_cell_error_kind_name(cause->kind));
    bl_error_name_set(error, bl_cell_error_kind_name(cause->kind));
    if (meaning != NULL)
        bl_error_hint(error, "%s", meaning);
}

void cell_failure_text(const struct bl_cell_error *cause, struct bl_buffer *out)
{
    const char *meaning = error_meaning(cause->kind);
    struct bl_text stack = cause->stack;

    bl_text_show(out, cause->name, BL_SHOW_LINES);
    if (cause->name.size > 0 && cause->message.size > 0)
        bl_buffer_append(out, BL_TEXT(": "));
    bl_text_show(out, cause->message, BL_SHOW_LINES);
    if (cause->name.size == 0 && cause->message.size == 0)
        bl_buffer_append(out, bl_text_from(bl_cell_error_kind_name(cause->kind)));
    if (meaning != NULL)
        bl_buffer_printf(out, " (%s)", meaning);
    bl_buffer_append_byte(out, '\n');
    if (stack.size == 0)
        return;
    bl_text_show(out, stack, BL_SHOW_LINES);
    if (!bl_text_ends_with(stack, BL_TEXT("\n")))
        bl_buffer_append_byte(out, '\n');
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* Notes "data:image/png;base64,…" as "[image/png, 1234 bytes: --json has it]". */
static void note_image(const struct bl_cell_item *item, struct bl_buffer *notes)
{
    struct bl_text rest = item->url, head;

    bl_text_split(&rest, ',', &head);
    if (bl_text_starts_with(head, BL_TEXT("data:"))) {
        head.data += 5;
        head.size -= 5;
    }
    if (bl_text_ends_with(head, BL_TEXT(";base64")))
        head.size -= 7;
    while (bl_text_ends_with(rest, BL_TEXT("=")))
        rest.size--;
    bl_buffer_append_byte(notes, '[');
    bl_text_show(notes, head, BL_SHOW_LINES);
    bl_buffer_printf(notes, ", %zu bytes; shown with --json]\n",
                     rest.size / 4 * 3 + rest.size % 4 * 3 / 4);
}

void cell_items_text(const struct bl_list *items, struct bl_buffer *out, struct bl_buffer *notes)
{
    BL_LIST_EACH (link, items) {
        const struct bl_cell_item *item = BL_CONTAINER(link, struct bl_cell_item, link);
        if (item->image) {
            note_image(item, notes);
            continue;
        }
        bl_buffer_append(out, item->text);
        if (!bl_text_ends_with(item->text, BL_TEXT("\n")))
            bl_buffer_append_byte(out, '\n');
    }
}
