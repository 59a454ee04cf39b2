/* Reports the events of a turn as updates of its session. */
#include <stdio.h>

#include <belay/record.h>

#include "acp.h"
#include "tool/tool.h"

#define TITLE_MAX  ((size_t)200)
#define RESULT_MAX ((size_t)256 * 1024)
#define TELL_NS    (100 * BL_NS_PER_MS)

/* ---- Writing --------------------------------------------------------------------------------- */

void acp_update_begin(struct acp_update *update, const struct acp_session *session,
                      const char *kind)
{
    struct bl_json_writer *writer = &update->writer;

    bl_buffer_init(&update->out, SIZE_MAX);
    bl_json_writer_init(writer, &update->out);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "sessionId", session->id);
    bl_json_write_key(writer, BL_TEXT("update"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "sessionUpdate", kind);
}

void acp_update_send(struct acp_update *update, struct acp_session *session)
{
    bl_json_write_end(&update->writer);
    bl_json_write_end(&update->writer);
    bl_rpc_notify(session->acp->rpc, "session/update", bl_buffer_text(&update->out));
    bl_buffer_done(&update->out);
}

void acp_tell_text(struct acp_session *session, enum acp_speaker speaker, const char *message_id,
                   struct bl_text text)
{
    static const char *const kinds[] = {
        [ACP_USER] = "user_message_chunk",
        [ACP_AGENT] = "agent_message_chunk",
        [ACP_THOUGHT] = "agent_thought_chunk",
    };
    char head[320], key[160];

    if (text.size == 0)
        return;
    snprintf(key, sizeof key, "%s %s %d", session->id, message_id, (int)speaker);
    /* Neither id needs escaping: Belay has made both. */
    snprintf(head, sizeof head,
             "{\"sessionId\":\"%s\",\"update\":{\"sessionUpdate\":\"%s\",\"messageId\":\"%s\","
             "\"content\":{\"type\":\"text\",\"text\":",
             session->id, kinds[speaker], message_id);
    struct bl_rpc_piece piece = {
        .method = "session/update",
        .key = bl_text_from(key),
        .head = bl_text_from(head),
        .text = text,
        .tail = BL_TEXT("}}}"),
    };
    bl_rpc_notify_piece(session->acp->rpc, &piece);
}

const char *acp_tool_kind(struct bl_text name)
{
    static const struct {
        const char *name;
        const char *kind;
    } kinds[] = {
        {"bash", "execute"},
        {"exec", "execute"},
        {"wait", "execute"},
        {"read", "read"},
        {"ls", "read"},
        {"write", "edit"},
        {"edit", "edit"},
        {"glob", "search"},
        {"grep", "search"},
        {"fetch", "fetch"},
        {"todo", "think"},
        {"task", "think"},
        {BL_TOOL_PLAN, "switch_mode"},
    };

    for (size_t i = 0; i < BL_COUNT(kinds); i++) {
        if (bl_text_equal(name, bl_text_from(kinds[i].name)))
            return kinds[i].kind;
    }
    return "other";
}

void acp_write_text_content(struct bl_json_writer *writer, struct bl_text text)
{
    bl_json_write_key(writer, BL_TEXT("content"));
    bl_json_write_array(writer);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "content");
    bl_json_write_key(writer, BL_TEXT("content"));
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "text");
    bl_json_put_text(writer, "text", text);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

/* Returns the most telling member of the input: a command, a path, a pattern. */
static struct bl_text subject_of(const struct bl_json *input)
{
    static const char *const members[] = {"command", "path",    "pattern", "description",
                                          "prompt",  "cell_id", "source"};

    for (size_t i = 0; i < BL_COUNT(members); i++) {
        struct bl_text text =
            bl_text_trim(bl_json_text(bl_json_get(input, bl_text_from(members[i]))));
        if (text.size > 0)
            return text;
    }
    return (struct bl_text){0};
}

static void write_title(struct bl_json_writer *writer, struct bl_arena *arena, struct bl_text name,
                        const struct bl_json *input)
{
    struct bl_text subject = subject_of(input), line = {0};

    bl_text_split(&subject, '\n', &line);
    bool command = bl_text_equal(name, BL_TEXT("bash")) && line.size > 0;
    struct bl_text title = command ? line
                           : line.size == 0
                               ? name
                               : bl_arena_printf(arena, BL_TEXT_FORMAT " " BL_TEXT_FORMAT,
                                                 BL_TEXT_ARG(name), BL_TEXT_ARG(line));
    bl_json_put_text(writer, "title", bl_utf8_cut(title, TITLE_MAX));
}

/* Returns an absolute path, as clients expect. */
static struct bl_text update_path_of(struct bl_arena *arena, const struct acp_session *session,
                                     const struct bl_json *input)
{
    struct bl_text path = bl_json_text(bl_json_get(input, BL_TEXT("path")));

    if (path.size == 0 || path.data[0] == '/')
        return path;
    return bl_arena_printf(arena, "%s/" BL_TEXT_FORMAT, session->directory, BL_TEXT_ARG(path));
}

/* Writes what an edit will do. The old text of `write` is not known here. */
static void write_diff(struct bl_json_writer *writer, struct bl_arena *arena, struct bl_text name,
                       struct bl_text path, const struct bl_json *input)
{
    bool edits = bl_text_equal(name, BL_TEXT("edit"));
    struct tool_edit_input edit;
    struct tool_write_input write;

    if (edits)
        bl_record_take(arena, &tool_edit_input, input, &edit);
    else
        bl_record_take(arena, &tool_write_input, input, &write);
    struct bl_text after = edits ? edit.new : write.content;
    if (path.size == 0 || after.data == NULL)
        return;
    bl_json_write_key(writer, BL_TEXT("content"));
    bl_json_write_array(writer);
    bl_json_write_object(writer);
    bl_json_put_string(writer, "type", "diff");
    bl_json_put_text(writer, "path", path);
    bl_json_write_key(writer, BL_TEXT("oldText"));
    if (edits)
        bl_json_write_text(writer, edit.old);
    else
        bl_json_write_null(writer);
    bl_json_put_text(writer, "newText", after);
    bl_json_write_end(writer);
    bl_json_write_end(writer);
}

void acp_call_write(struct bl_json_writer *writer, const struct acp_session *session,
                    struct bl_text name, struct bl_text input_text)
{
    const struct bl_json *input = NULL;
    BL_AUTO_ARENA(arena);

    if (bl_json_read(&arena, input_text, NULL, &input, NULL) != 0)
        input = NULL;
    write_title(writer, &arena, name, input);
    bl_json_put_text(writer, "name", name);
    bl_json_put_string(writer, "kind", acp_tool_kind(name));
    bl_json_write_key(writer, BL_TEXT("rawInput"));
    if (input != NULL)
        bl_json_write_value(writer, input);
    else
        bl_json_write_text(writer, input_text);
    struct bl_text path = update_path_of(&arena, session, input);
    if (path.size > 0) {
        bl_json_write_key(writer, BL_TEXT("locations"));
        bl_json_write_array(writer);
        bl_json_write_object(writer);
        bl_json_put_text(writer, "path", path);
        bl_json_write_end(writer);
        bl_json_write_end(writer);
    }
    if (strcmp(acp_tool_kind(name), "edit") == 0)
        write_diff(writer, &arena, name, path, input);
}

/* ---- Tool calls ------------------------------------------------------------------------------ */

/* Models number their calls from the start in each turn, so an id that was used before gets a
 * number. */
void acp_call_id(struct acp_session *session, const char *agent, struct bl_text call, char *out,
                 size_t size)
{
    char id[144];

    snprintf(id, sizeof id, "%s%s" BL_TEXT_FORMAT, agent != NULL ? agent : "",
             agent != NULL ? "/" : "", BL_TEXT_ARG(bl_utf8_cut(call, 64)));
    uintptr_t used = (uintptr_t)bl_map_get(&session->call_ids, bl_text_from(id)) + 1;
    bl_map_set(&session->call_ids, bl_text_from(id), (void *)used, NULL);
    if (used == 1)
        snprintf(out, size, "%s", id);
    else
        snprintf(out, size, "%s.%zu", id, (size_t)used);
}

struct acp_call *acp_call_find(struct acp_session *session, struct bl_text id)
{
    BL_LIST_EACH (link, &session->calls) {
        struct acp_call *call = BL_CONTAINER(link, struct acp_call, link);
        if (bl_text_equal(bl_text_from(call->id), id))
            return call;
    }
    return NULL;
}

static struct acp_call *update_find_call(struct acp_session *session, const struct bl_event *event)
{
    struct bl_text agent = bl_text_from(event->agent);

    BL_LIST_EACH (link, &session->calls) {
        struct acp_call *call = BL_CONTAINER(link, struct acp_call, link);
        if (!call->stopped && bl_text_equal(bl_text_from(call->call), event->id) &&
            bl_text_equal(bl_text_from(call->agent), agent))
            return call;
    }
    return NULL;
}

static void free_call(struct acp_call *call)
{
    bl_list_remove(&call->link);
    bl_buffer_done(&call->input);
    bl_buffer_done(&call->output);
    bl_buffer_done(&call->result);
    bl_free(call);
}

void acp_calls_free(struct acp_session *session)
{
    BL_LIST_EACH_SAFE (link, &session->calls)
        free_call(BL_CONTAINER(link, struct acp_call, link));
}

static void announce(struct acp_session *session, const struct bl_event *event)
{
    struct acp_call *call = bl_zalloc(sizeof *call + event->name.size + 1);
    char *name = (char *)(call + 1);
    struct acp_update update;

    memcpy(name, event->name.data, event->name.size);
    call->name = (struct bl_text){name, event->name.size};
    bl_buffer_init(&call->input, SIZE_MAX);
    bl_buffer_init(&call->output, SIZE_MAX);
    bl_buffer_init(&call->result, SIZE_MAX);
    bl_buffer_append(&call->input, event->json);
    snprintf(call->call, sizeof call->call, BL_TEXT_FORMAT,
             BL_TEXT_ARG(bl_utf8_cut(event->id, sizeof call->call - 1)));
    bl_text_into(call->agent, sizeof call->agent, event->agent != NULL ? event->agent : "");
    acp_call_id(session, event->agent, event->id, call->id, sizeof call->id);
    bl_list_push_back(&session->calls, &call->link);
    acp_update_begin(&update, session, "tool_call");
    bl_json_put_string(&update.writer, "toolCallId", call->id);
    bl_json_put_string(&update.writer, "status", "pending");
    acp_call_write(&update.writer, session, call->name, event->json);
    acp_update_send(&update, session);
}

static void begin_call_update(struct acp_update *update, const struct acp_session *session,
                              const struct acp_call *call, const char *status)
{
    acp_update_begin(update, session, "tool_call_update");
    bl_json_put_string(&update->writer, "toolCallId", call->id);
    bl_json_put_string(&update->writer, "status", status);
}

static void update_tell_started(struct acp_session *session, const struct acp_call *call)
{
    struct acp_update update;

    begin_call_update(&update, session, call, "in_progress");
    acp_update_send(&update, session);
}

static void update_tell_output(struct acp_session *session, struct acp_call *call)
{
    struct acp_update update;

    call->dirty = false;
    call->told_ns = bl_now_ns();
    begin_call_update(&update, session, call, "in_progress");
    acp_write_text_content(&update.writer, bl_buffer_text(&call->output));
    acp_update_send(&update, session);
}

static void update_take_output(struct acp_session *session, struct acp_call *call,
                               struct bl_text text)
{
    bl_buffer_append(&call->output, text);
    if (call->output.size > 2 * ACP_OUTPUT_MAX) {
        size_t drop = call->output.size - ACP_OUTPUT_MAX;
        while (drop < call->output.size && ((unsigned char)call->output.data[drop] & 0xC0) == 0x80)
            drop++;
        bl_buffer_consume(&call->output, drop);
    }
    call->dirty = true;
    if (bl_now_ns() - call->told_ns >= TELL_NS)
        update_tell_output(session, call);
}

void acp_flush_output(struct acp_session *session)
{
    BL_LIST_EACH (link, &session->calls) {
        struct acp_call *call = BL_CONTAINER(link, struct acp_call, link);
        if (call->dirty && !call->stopped && bl_now_ns() - call->told_ns >= TELL_NS) {
            update_tell_output(session, call);
            return; /* it may have waited, and the list may have changed */
        }
    }
}

/* Reports the end of a call. `fate` is empty if it is unknown or the call was not stopped. */
static void update_tell_ended(struct acp_session *session, struct acp_call *call, bool good,
                              struct bl_text fate)
{
    struct bl_text text = bl_utf8_cut(bl_buffer_text(&call->result), RESULT_MAX);
    struct acp_update update;

    begin_call_update(&update, session, call, good ? "completed" : "failed");
    bl_json_put_text(&update.writer, "rawOutput", text);
    if (!good || strcmp(acp_tool_kind(call->name), "edit") != 0)
        acp_write_text_content(&update.writer, text);
    if (fate.size > 0) {
        bl_json_write_key(&update.writer, BL_TEXT("_meta"));
        bl_json_write_object(&update.writer);
        bl_json_put_text(&update.writer, "belay/fate", fate);
        bl_json_write_end(&update.writer);
    }
    free_call(call);
    acp_update_send(&update, session);
}

static void tell_plan(struct acp_session *session, struct bl_text input_text)
{
    const struct bl_json *input = NULL;
    struct tool_todo_input todo;
    struct acp_update update;
    BL_AUTO_ARENA(arena);

    if (bl_json_read(&arena, input_text, NULL, &input, NULL) == 0) {
        bl_record_take(&arena, &tool_todo_input, input, &todo);
        acp_update_begin(&update, session, "plan");
        bl_json_write_key(&update.writer, BL_TEXT("entries"));
        bl_json_write_array(&update.writer);
        for (size_t i = 0; i < todo.count; i++) {
            bl_json_write_object(&update.writer);
            bl_json_put_text(&update.writer, "content", todo.items[i].content);
            bl_json_put_string(&update.writer, "priority", "medium");
            bl_json_put_text(&update.writer, "status", todo.items[i].status);
            bl_json_write_end(&update.writer);
        }
        bl_json_write_end(&update.writer);
        acp_update_send(&update, session);
    }
}

static void update_take_end(struct acp_session *session, struct acp_call *call,
                            const struct bl_event *event)
{
    bool good = strcmp(event->status, "ok") == 0;

    bl_buffer_append(&call->result, event->text);
    if (strcmp(event->status, "stopped") == 0 && call->fate[0] == '\0') {
        call->stopped = true;
        return;
    }
    if (good && event->agent == NULL && bl_text_equal(call->name, BL_TEXT("todo")))
        tell_plan(session, bl_buffer_text(&call->input));
    update_tell_ended(session, call, good, bl_text_from(call->fate));
}

/* Returns the fate of a stopped call in the receipt. */
static struct bl_text update_fate_of(const struct bl_list *units, const struct acp_call *call)
{
    BL_LIST_EACH (link, units) {
        const struct bl_unit_row *unit = BL_CONTAINER(link, struct bl_unit_row, link);
        if (unit->id != NULL && strcmp(unit->id, call->call) == 0)
            return bl_text_from(unit->fate);
        struct bl_text below = update_fate_of(&unit->units, call);
        if (below.size > 0)
            return below;
    }
    return (struct bl_text){0};
}

static struct acp_call *find_stopped(const struct acp_session *session)
{
    BL_LIST_EACH (link, &session->calls) {
        struct acp_call *call = BL_CONTAINER(link, struct acp_call, link);
        if (call->stopped)
            return call;
    }
    return NULL;
}

/* The receipt of a single stopped call comes before the call's end, the receipt of a turn after the
 * ends of all its calls. */
static void update_take_receipt(struct acp_session *session, const struct bl_event *event)
{
    const struct bl_json *value = NULL;
    struct bl_receipt_row receipt;
    struct acp_call *call;
    BL_AUTO_ARENA(arena);

    if (bl_json_read(&arena, event->json, NULL, &value, NULL) != 0)
        value = NULL;
    bl_record_take(&arena, &bl_receipt_record, value, &receipt);
    if (event->id.size > 0) {
        call = update_find_call(session, event);
        if (call != NULL)
            bl_text_into(call->fate, sizeof call->fate, update_fate_of(&receipt.units, call).data);
    } else {
        while ((call = find_stopped(session)) != NULL)
            update_tell_ended(session, call, false, update_fate_of(&receipt.units, call));
    }
}

void acp_end_calls(struct acp_session *session)
{
    while (!bl_list_empty(&session->calls)) {
        struct acp_call *call = BL_CONTAINER(session->calls.next, struct acp_call, link);
        update_tell_ended(session, call, false, (struct bl_text){0});
    }
}

/* ---- Other updates --------------------------------------------------------------------------- */

static const char *message_id(struct acp_session *session)
{
    if (session->message_id[0] == '\0')
        snprintf(session->message_id, sizeof session->message_id, "msg_%llu",
                 (unsigned long long)++session->messages);
    return session->message_id;
}

/* The usage of the model's context window. Nothing is sent if its size is unknown. */
static void update_tell_usage(struct acp_session *session, const struct bl_event *event)
{
    const struct bl_model *model = bl_agent_model(session->agent);
    const struct bl_spent *spent = bl_agent_spent(session->agent);
    struct acp_update update;

    if (session->acp->options->minimal || event->agent != NULL || event->usage == NULL ||
        model->input_tokens_max == 0)
        return;
    acp_update_begin(&update, session, "usage_update");
    bl_json_put_uint64(&update.writer, "used", bl_usage_total(event->usage));
    bl_json_put_uint64(&update.writer, "size", model->input_tokens_max);
    double cost = model->cost_usd != NULL ? model->cost_usd(model->context, event->usage) : -1;
    if (cost >= 0 && !spent->cost_unknown) {
        bl_json_write_key(&update.writer, BL_TEXT("cost"));
        bl_json_write_object(&update.writer);
        bl_json_write_key(&update.writer, BL_TEXT("amount"));
        bl_json_write_double(&update.writer, spent->cost_usd + cost);
        bl_json_put_string(&update.writer, "currency", "USD");
        bl_json_write_end(&update.writer);
    }
    acp_update_send(&update, session);
}

/* The protocol allows notices only for clients that declare that they show them. */
static void update_tell_notice(struct acp_session *session, const struct bl_event *event,
                               const char *severity, struct bl_text title)
{
    struct acp_update update;

    if (!session->acp->takes_notices || session->acp->options->minimal)
        return;
    acp_update_begin(&update, session, "notice");
    bl_json_put_string(&update.writer, "severity", severity);
    bl_json_put_text(&update.writer, "title", title.size > 0 ? title : BL_TEXT("Belay"));
    bl_json_write_key(&update.writer, BL_TEXT("_meta"));
    bl_json_write_object(&update.writer);
    bl_json_write_key(&update.writer, BL_TEXT("belay/event"));
    bl_event_write(&update.writer, event);
    bl_json_write_end(&update.writer);
    acp_update_send(&update, session);
}

static void tell_compacted(struct acp_session *session)
{
    struct acp_update update;
    char id[32];

    if (!session->acp->takes_compactions || session->acp->options->minimal)
        return;
    snprintf(id, sizeof id, "compaction_%llu", (unsigned long long)++session->compactions);
    acp_update_begin(&update, session, "compaction_update");
    bl_json_put_string(&update.writer, "compactionId", id);
    bl_json_put_string(&update.writer, "status", "completed");
    acp_update_send(&update, session);
}

static void tell_retry(struct acp_session *session, const struct bl_event *event)
{
    char title[160] = "Retrying the model call", wait[32];

    if (event->piece != NULL) {
        bl_duration_format((int64_t)(event->piece->retry.wait_ms * BL_NS_PER_MS), wait);
        snprintf(title, sizeof title, "Retrying the model call (%u of %u) in %s: %s",
                 event->piece->retry.attempt, event->piece->retry.of, wait,
                 event->piece->retry.code);
    }
    update_tell_notice(session, event, "warning", bl_text_from(title));
}

static void on_call_event(struct acp_session *session, const struct bl_event *event)
{
    struct acp_call *call;

    session->message_id[0] = '\0';
    if (event->type == BL_EVENT_TOOL_REQUESTED) {
        announce(session, event);
        return;
    }
    call = update_find_call(session, event);
    if (call == NULL)
        return;
    if (event->type == BL_EVENT_TOOL_STARTED)
        update_tell_started(session, call);
    else if (event->type == BL_EVENT_TOOL_OUTPUT)
        update_take_output(session, call, event->text);
    else
        update_take_end(session, call, event);
}

void acp_on_event(void *context, const struct bl_event *event)
{
    struct acp_session *session = context;
    bool root = event->agent == NULL;

    switch ((int)event->type) {
    case BL_EVENT_TURN_STARTED:
        if (root)
            session->message_id[0] = '\0';
        break;
    case BL_EVENT_TEXT_DELTA:
        if (root)
            acp_tell_text(session, ACP_AGENT, message_id(session), event->text);
        break;
    case BL_EVENT_THINKING_DELTA:
        if (root)
            acp_tell_text(session, ACP_THOUGHT, message_id(session), event->text);
        break;
    case BL_EVENT_MESSAGE_INJECTED:
        if (root) {
            session->message_id[0] = '\0';
            acp_tell_text(session, ACP_USER, message_id(session), event->text);
            session->message_id[0] = '\0';
        }
        break;
    case BL_EVENT_TOOL_REQUESTED:
    case BL_EVENT_TOOL_STARTED:
    case BL_EVENT_TOOL_OUTPUT:
    case BL_EVENT_TOOL_ENDED: on_call_event(session, event); break;
    case BL_EVENT_USAGE: update_tell_usage(session, event); break;
    case BL_EVENT_COMPACTED:
        if (root)
            tell_compacted(session);
        break;
    case BL_EVENT_RETRY: tell_retry(session, event); break;
    case BL_EVENT_RECEIPT:
        update_take_receipt(session, event);
        update_tell_notice(session, event, "info", BL_TEXT("Stopped"));
        break;
    case BL_EVENT_WARNING: update_tell_notice(session, event, "warning", event->text); break;
    case BL_EVENT_ERROR:
        update_tell_notice(session, event, "error",
                           bl_text_from(event->error != NULL ? event->error->message : NULL));
        break;
    default: break;
    }
}
