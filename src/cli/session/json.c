#include "session.h"

static void session_json_write_time(struct bl_json_writer *writer, const char *key, int64_t wall_ns)
{
    char text[32];

    bl_time_format(wall_ns, text);
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_string(writer, text);
}

/* What list and show say of a session, before its turns. */
static void session_json_write_head(struct bl_json_writer *writer,
                                    const struct bl_store_summary *summary)
{
    bl_json_put_string(writer, "session_id", summary->id);
    bl_json_put_string(writer, "cwd", summary->directory);
    bl_json_put_string(writer, "title", summary->title);
    bl_json_put_string(writer, "parent", summary->parent);
    bl_json_put_string(writer, "agent_of", summary->agent_of);
    bl_json_put_string(writer, "agent_turn", summary->agent_turn);
    bl_json_put_string(writer, "persona", summary->persona);
    session_json_write_time(writer, "created_at", summary->created_wall_ns);
    session_json_write_time(writer, "updated_at", summary->updated_wall_ns);
    bl_json_put_string(writer, "held_by", summary->held_by);
}

static void write_tail(struct bl_json_writer *writer, const struct bl_store_summary *summary)
{
    bl_json_write_key(writer, BL_TEXT("usage"));
    bl_record_write(writer, &bl_usage_record, &summary->usage);
    bl_json_write_key(writer, BL_TEXT("spent"));
    bl_record_write(writer, &bl_spent_record, &summary->spent);
}

void session_list_payload(struct bl_json_writer *writer, const void *context)
{
    const struct session_work *work = context;

    bl_json_put_string(writer, "store", work->where);
    bl_json_write_key(writer, BL_TEXT("sessions"));
    bl_json_write_array(writer);
    BL_LIST_EACH (link, &work->summaries) {
        const struct bl_store_summary *summary = BL_CONTAINER(link, struct bl_store_summary, link);
        bl_json_write_object(writer);
        session_json_write_head(writer, summary);
        bl_json_put_uint64(writer, "turns", summary->turns);
        bl_json_put_uint64(writer, "attempts", summary->attempts);
        write_tail(writer, summary);
        bl_json_write_end(writer);
    }
    bl_json_write_end(writer);
}

static void write_array(struct bl_json_writer *writer, const char *key, const struct bl_text *items,
                        size_t count)
{
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_array(writer);
    for (size_t i = 0; i < count; i++)
        bl_json_write_raw(writer, items[i]);
    bl_json_write_end(writer);
}

void session_show_payload(struct bl_json_writer *writer, const void *context)
{
    const struct session_work *work = context;
    const struct bl_store_session_view *view = &work->view;

    session_json_write_head(writer, &view->summary);
    write_array(writer, "turns", view->turns, view->turn_count);
    write_array(writer, "attempts", view->attempts, view->attempt_count);
    write_tail(writer, &view->summary);
}

void session_export_payload(struct bl_json_writer *writer, const void *context)
{
    const struct session_work *work = context;

    bl_json_put_string(writer, "session_id", work->id);
    bl_json_put_string(writer, "file", work->path);
    bl_json_put_uint64(writer, "lines", work->lines);
}

void session_id_payload(struct bl_json_writer *writer, const void *context)
{
    const struct session_work *work = context;
    bl_json_put_string(writer, "session_id", work->id);
}

void session_delete_payload(struct bl_json_writer *writer, const void *context)
{
    const struct session_work *work = context;

    bl_json_write_key(writer, BL_TEXT("deleted"));
    bl_json_write_array(writer);
    for (size_t i = 0; i < work->deleted_count; i++)
        bl_json_write_string(writer, work->deleted[i]);
    bl_json_write_end(writer);
    if (work->error.code != 0)
        cli_error_payload(writer, &work->error);
}

void session_move_payload(struct bl_json_writer *writer, const void *context)
{
    const struct session_work *work = context;

    bl_json_put_string(writer, "store", work->where);
    bl_json_put_string(writer, "moved_to", work->path);
}
