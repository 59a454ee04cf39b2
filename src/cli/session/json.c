#include "cli/answers.h"
#include "session.h"

/* The members that list and show write before a session's turns, and after them. */
#define BL_RECORD_STRUCT struct bl_store_summary
static const struct bl_member head_members[] = {
    BL_MEMBER_STRING("session_id", id, .form = &bl_session_id_form),
    BL_MEMBER_STRING("cwd", directory,
                     .about = "Folder in which the session was started; empty if not known."),
    BL_MEMBER_STRING("title", title),
    BL_MEMBER_STRING("parent", parent, .nullable = true, .form = &bl_session_id_form,
                     .about = "Session that this one was forked from."),
    BL_MEMBER_STRING("agent_of", agent_of, .nullable = true, .form = &bl_session_id_form,
                     .about = "Of a sub-agent: session of its parent agent."),
    BL_MEMBER_STRING("agent_turn", agent_turn, .nullable = true,
                     .about = "Of a sub-agent: the turn that started it."),
    BL_MEMBER_STRING("persona", persona, .nullable = true, .about = "Of a sub-agent: its persona."),
    BL_MEMBER_TIME("created_at", created_wall_ns),
    BL_MEMBER_TIME("updated_at", updated_wall_ns, .about = "Time of the newest committed turn."),
    BL_MEMBER_STRING("held_by", held_by, .nullable = true,
                     .about = "Process that works in the session: pid 4711 on HOST."),
    BL_MEMBER_END,
};
static const struct bl_record head_record = BL_RECORD_GROUP("session_head", head_members);

static const struct bl_member tail_members[] = {
    BL_MEMBER_OBJECT("usage", usage, &bl_usage_record, .about = "Usage of committed turns."),
    BL_MEMBER_OBJECT("spent", spent, &bl_spent_record),
    BL_MEMBER_END,
};
static const struct bl_record tail_record = BL_RECORD_GROUP("session_tail", tail_members);

static const struct bl_member summary_members[] = {
    BL_MEMBER_INCLUDE(&head_record),
    BL_MEMBER_INTEGER(
        "turns", turns,
        .about = "Committed turns, including those that are no longer in the model's context."),
    BL_MEMBER_INTEGER("attempts", attempts, .about = "Attempts that were rejected or cut off."),
    BL_MEMBER_INCLUDE(&tail_record),
    BL_MEMBER_END,
};
static const struct bl_record summary_record =
    BL_RECORD("summary", struct bl_store_summary, summary_members, .closed = true);
#undef BL_RECORD_STRUCT

static const struct bl_member turn_element = {
    .type = BL_TYPE_RAW, .size = sizeof(struct bl_text), .record = &bl_turn_result_record};
static const struct bl_member attempt_element = {
    .type = BL_TYPE_RAW, .size = sizeof(struct bl_text), .record = &bl_store_attempt_record};
static const struct bl_member receipt_element = {
    .type = BL_TYPE_RAW, .size = sizeof(struct bl_text), .record = &bl_receipt_record};
static const struct bl_member id_element = {
    .type = BL_TYPE_STRING, .size = sizeof(char *), .form = &bl_session_id_form};

#define BL_RECORD_STRUCT struct session_work
static const struct bl_member list_members[] = {
    BL_MEMBER_STRING("store", shown, .least = 1,
                     .about =
                         "Path of the store, or the address of a database without a password."),
    BL_MEMBER_LIST("sessions", summaries, &summary_record, struct bl_store_summary, link,
                   .about = "Newest first."),
    BL_MEMBER_END,
};
static const struct bl_member show_members[] = {
    BL_MEMBER_EMBED(view.summary, &head_record),
    BL_MEMBER_ARRAY("turns", view.turns, view.turn_count, &turn_element,
                    .about = "Committed turns, oldest first."),
    BL_MEMBER_ARRAY("attempts", view.attempts, view.attempt_count, &attempt_element,
                    .about = "Turns that were rejected, cut off or are running; oldest first."),
    BL_MEMBER_ARRAY("receipts", view.receipts, view.receipt_count, &receipt_element,
                    .about = "Receipts of other stops: background commands, cells, and processes "
                             "left running by an owner that died; oldest first."),
    BL_MEMBER_EMBED(view.summary, &tail_record),
    BL_MEMBER_END,
};
static const struct bl_member export_members[] = {
    BL_MEMBER_STRING("session_id", id, .form = &bl_session_id_form),
    BL_MEMBER_STRING("file", path, .least = 1),
    BL_MEMBER_INTEGER("lines", lines, .least = 1, .about = "Number of lines written."),
    BL_MEMBER_END,
};
static const struct bl_member made_members[] = {
    BL_MEMBER_STRING("session_id", id, .form = &bl_session_id_form, .about = "The new session."),
    BL_MEMBER_END,
};
static const struct bl_member delete_members[] = {
    BL_MEMBER_ARRAY("deleted", deleted, deleted_count, &id_element,
                    .about = "Ids of the deleted sessions, in the order of the command line."),
    BL_MEMBER_POINTER("error", failure, &bl_error_record, .optional = true,
                      .about = "Error of the first session that could not be deleted."),
    BL_MEMBER_END,
};
static const struct bl_member move_members[] = {
    BL_MEMBER_STRING("store", where, .least = 1, .about = "Former path of the store."),
    BL_MEMBER_STRING("moved_to", path, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

const struct cli_answer session_list_answer = {
    BL_RECORD("session-list", struct session_work, list_members), .of = "session list"};
const struct cli_answer session_show_answer = {
    BL_RECORD("session-show", struct session_work, show_members), .of = "session show"};
const struct cli_answer session_export_answer = {
    BL_RECORD("session-export", struct session_work, export_members),
    .of = "session export with a file"};
const struct cli_answer session_made_answer = {
    BL_RECORD("session-import", struct session_work, made_members),
    .of = "session import and belay session fork"};
const struct cli_answer session_delete_answer = {
    BL_RECORD("session-delete", struct session_work, delete_members), .of = "session delete",
    .exits = &cli_exits_failing};
const struct cli_answer session_move_answer = {
    BL_RECORD("session-move-aside", struct session_work, move_members), .of = "session move-aside"};
