/* Chat without a terminal: each line of standard input is a prompt or a command; answers go to
 * standard output, everything else to standard error. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "state.h"
#include "view.h"

#define LINE_MAX_BYTES  ((size_t)16 * 1024 * 1024)
#define READ_BYTES      ((size_t)16 * 1024)
#define RECEIPT_COLUMNS 200u

/* Ends the line of an answer, or of text before a call. */
static void chat_lines_end_answer(struct chat *chat)
{
    if (chat->mid_line)
        cli_stream_say(&chat->work.stream, BL_TEXT("\n"));
    chat->mid_line = false;
}

static void chat_lines_receipt_of(struct chat *chat, struct bl_text receipt,
                                  const struct bl_turn_result *turn)
{
    struct bl_buffer text;
    struct chat_frame frame = {.out = &text, .columns = RECEIPT_COLUMNS};

    bl_buffer_init(&text, SIZE_MAX);
    if (chat_receipt(receipt, turn, true, &frame, 0))
        chat_say(chat, BL_TEXT_FORMAT, BL_TEXT_ARG(bl_text_trim(bl_buffer_text(&text))));
    bl_buffer_done(&text);
}

void chat_lines_receipt(struct chat *chat, struct bl_text receipt)
{
    chat_lines_receipt_of(chat, receipt, NULL);
}

static void say_call(struct chat *chat, const struct bl_event *event)
{
    const struct bl_json *input = NULL;
    BL_AUTO_ARENA(arena);

    struct bl_text name = bl_arena_text(&arena, event->name);
    if (bl_json_read(&arena, event->json, NULL, &input, NULL) != 0)
        input = NULL;
    chat_say(chat, BL_TEXT_FORMAT ": " BL_TEXT_FORMAT, BL_TEXT_ARG(name),
             BL_TEXT_ARG(chat_input_line(&arena, name.data, input)));
}

/* Reports why a turn did not complete; for a stopped turn the receipt does. */
static void say_end(struct chat *chat, struct bl_text json)
{
    const struct bl_json *value;
    struct bl_turn_result result;
    BL_AUTO_ARENA(arena);

    if (bl_json_read(&arena, json, NULL, &value, NULL) != 0)
        return;
    bl_record_take(&arena, &bl_turn_result_record, value, &result);
    if (result.receipt.size > 0)
        chat_lines_receipt_of(chat, result.receipt, &result);
    const char *message = result.error.message, *hint = result.error.hint;
    if (message[0] != '\0' && !chat_was_told(chat, bl_text_from(message)))
        chat_say(chat, "%s%s%s", message, hint[0] != '\0' ? "; " : "", hint);
    else if (message[0] == '\0' && result.end != BL_TURN_COMPLETED)
        chat_say(chat, "the turn did not complete: %s", bl_turn_end_name(result.end));
    BL_LIST_EACH (link, &result.denials) {
        struct bl_text text = run_refusal_text(&arena, chat->work.call->command,
                                               BL_CONTAINER(link, struct bl_denial, link));
        chat_say(chat, BL_TEXT_FORMAT, BL_TEXT_ARG(text));
    }
}

static void chat_lines_say_cell(struct chat *chat, const struct bl_event *event)
{
    char text[160];

    if (!chat_cell_text(event, text, sizeof text))
        return;
    chat_lines_end_answer(chat);
    chat_say(chat, "%s", text);
}

void chat_lines_event(struct chat *chat, const struct bl_event *event)
{
    if (event->agent != NULL)
        return;
    switch ((int)event->type) {
    case BL_EVENT_TEXT_DELTA:
        cli_stream_say(&chat->work.stream, event->text);
        chat->mid_line = event->text.size > 0 && event->text.data[event->text.size - 1] != '\n';
        break;
    case BL_EVENT_TOOL_REQUESTED:
        chat_lines_end_answer(chat);
        say_call(chat, event);
        break;
    case BL_EVENT_CELL_YIELDED:
    case BL_EVENT_CELL_ENDED:
    case BL_EVENT_CELL_SETTLED: chat_lines_say_cell(chat, event); break;
    case BL_EVENT_FINISH_REQUESTED: chat_say(chat, "stopping after this step"); break;
    case BL_EVENT_WARNING: chat_say(chat, BL_TEXT_FORMAT, BL_TEXT_ARG(event->text)); break;
    case BL_EVENT_ERROR:
        chat_say_error(chat, event->error);
        bl_buffer_printf(&chat->told, "%s\n", event->error->message);
        break;
    case BL_EVENT_RECEIPT:
        if ((event->id.size == 0 && event->turn == NULL) || chat_receipt_of_job(event))
            chat_lines_receipt(chat, event->json);
        break;
    case BL_EVENT_TURN_ENDED:
        chat_lines_end_answer(chat);
        say_end(chat, event->json);
        break;
    default: break;
    }
}

/* A read on a thread, which may be abandoned while it reads. */
struct reading {
    char data[READ_BYTES];
    ssize_t size;
};

static void chat_lines_read_some(void *payload)
{
    struct reading *reading = payload;

    do
        reading->size = read(STDIN_FILENO, reading->data, sizeof reading->data);
    while (reading->size < 0 && errno == EINTR);
}

static void submit_lines(struct chat *chat, struct bl_buffer *pending, bool ended)
{
    struct bl_text rest = bl_buffer_text(pending);
    size_t taken = 0;

    while (rest.size > 0) {
        const char *end = memchr(rest.data, '\n', rest.size);
        if (end == NULL && !ended)
            break;
        size_t size = end != NULL ? (size_t)(end - rest.data) : rest.size;
        struct bl_text line = bl_text_trim((struct bl_text){rest.data, size});
        if (bl_utf8_valid_prefix(line, NULL) != line.size)
            chat_say(chat, "Not sent: the line is not valid UTF-8");
        else if (line.size > 0)
            chat_submit_later(chat, line);
        size += end != NULL;
        taken += size;
        rest = (struct bl_text){rest.data + size, rest.size - size};
    }
    bl_buffer_consume(pending, taken);
}

int chat_lines_main(void *argument)
{
    struct chat *chat = argument;
    struct bl_buffer pending;
    bool abandoned, ended = false;
    int code = 0;

    bl_buffer_init(&pending, LINE_MAX_BYTES);
    while (!ended && code == 0) {
        struct reading *reading = bl_alloc(sizeof *reading);
        struct bl_work job = {.run = chat_lines_read_some,
                              .drop = bl_free,
                              .payload = reading,
                              .abandon_on_stop = true};
        code = bl_work_call(&job, &abandoned);
        if (code == 0) {
            ended = reading->size <= 0;
            if (reading->size > 0 &&
                bl_buffer_append(&pending,
                                 (struct bl_text){reading->data, (size_t)reading->size}) != 0) {
                chat_say(chat, "Not sent: the line has more than %zu MiB", LINE_MAX_BYTES >> 20);
                bl_buffer_clear(&pending);
            }
            submit_lines(chat, &pending, ended);
        }
        if (code == 0 || !abandoned)
            bl_free(reading);
    }
    bl_buffer_done(&pending);
    if (ended)
        chat_submit_later(chat, BL_TEXT("/quit"));
    return code;
}
