/* Events of a feature as lines of text.
 *
 * Events come from a runner, or from a store that another version may have written: a member
 * that is missing is omitted from the line. Names of tasks, files and models are escaped. */
#include <inttypes.h>
#include <stdio.h>

#include "feature.h"

#define PIECE_MAX ((size_t)240) /* bytes of one text in a line */
#define LIST_MAX  8u

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Puts a text on one line, with white space as blanks. */
void feature_put_safe(struct bl_buffer *out, struct bl_text text)
{
    struct bl_text rest = bl_text_trim(text);
    bool cut = rest.size > PIECE_MAX;

    if (cut)
        rest = bl_text_trim(bl_utf8_cut(rest, PIECE_MAX));
    while (rest.size > 0) {
        size_t size = 0;
        while (size < rest.size && memchr("\n\t\r", rest.data[size], 3) == NULL)
            size++;
        bl_text_show(out, (struct bl_text){rest.data, size}, BL_SHOW_LINE);
        if (size < rest.size) {
            bl_buffer_append_byte(out, ' ');
            size++;
        }
        rest.data += size;
        rest.size -= size;
    }
    if (cut)
        bl_buffer_append(out, BL_TEXT("…"));
}

static struct bl_text feature_lines_text_of(const struct bl_json *event, const char *key)
{
    return bl_json_text(bl_json_get(event, bl_text_from(key)));
}

/* Adds `before` and the text if there is one. Returns whether there is. */
static bool feature_lines_add_text(struct bl_buffer *out, const char *before,
                                   const struct bl_json *event, const char *key)
{
    struct bl_text text = bl_text_trim(feature_lines_text_of(event, key));

    if (text.size == 0)
        return false;
    bl_buffer_append(out, bl_text_from(before));
    feature_put_safe(out, text);
    return true;
}

static bool feature_lines_number_of(const struct bl_json *event, const char *key,
                                    double *ret_number)
{
    return bl_json_double(bl_json_get(event, bl_text_from(key)), ret_number);
}

static void feature_lines_add_count(struct bl_buffer *out, size_t count, const char *noun)
{
    bl_buffer_printf(out, "%zu %s%s", count, noun, count == 1 ? "" : "s");
}

static bool add_seconds(struct bl_buffer *out, const char *before, const struct bl_json *event,
                        const char *key)
{
    double seconds;
    char text[32];

    if (!feature_lines_number_of(event, key, &seconds))
        return false;
    bl_buffer_printf(out, "%s%s", before, feature_duration_text(seconds, text));
    return true;
}

static void add_ms(struct bl_buffer *out, const char *before, const struct bl_json *event,
                   const char *key)
{
    double ms;
    char text[32];

    if (!feature_lines_number_of(event, key, &ms) || !(ms >= 0) || ms > 1e15)
        return;
    bl_duration_format((int64_t)(ms * 1e6), text);
    bl_buffer_printf(out, "%s%s", before, text);
}

/* Returns the text of an element: a text, or an object with an id, a path or a name. */
static struct bl_text element_text(const struct bl_json *element)
{
    static const char *const keys[] = {"id", "path", "file", "name", "message"};
    struct bl_text text = bl_json_text(element);

    for (size_t i = 0; i < BL_COUNT(keys) && text.size == 0; i++)
        text = feature_lines_text_of(element, keys[i]);
    return text;
}

static bool feature_lines_add_list(struct bl_buffer *out, const char *before,
                                   const struct bl_json *event, const char *key)
{
    const struct bl_json *list = bl_json_get(event, bl_text_from(key));
    size_t count = 0, all = bl_json_is(list, BL_JSON_ARRAY) ? bl_json_size(list) : 0;

    if (all == 0)
        return false;
    BL_JSON_EACH (element, list) {
        if (count == LIST_MAX)
            break;
        bl_buffer_append(out, bl_text_from(count++ == 0 ? before : ", "));
        feature_put_safe(out, element_text(element));
    }
    if (all > count)
        bl_buffer_printf(out, " and %zu more", all - count);
    return true;
}

static void add_commit(struct bl_buffer *out, const char *before, const struct bl_json *event,
                       const char *key)
{
    struct bl_text commit = feature_lines_text_of(event, key);

    if (commit.size == 0)
        return;
    bl_buffer_append(out, bl_text_from(before));
    feature_put_safe(out, bl_utf8_cut(commit, 10));
}

/* ---- One event ------------------------------------------------------------------------------- */

static void say_started(const struct bl_json *event, struct bl_buffer *out)
{
    bool resumed = bl_json_boolean(bl_json_get(event, BL_TEXT("resumed")), false);

    bl_buffer_append(out, resumed ? BL_TEXT("resumed") : BL_TEXT("started"));
    add_commit(out, " at ", event, "base_commit");
    feature_lines_add_list(out, "; already done: ", event, "already");
}

static void say_plan_changed(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("the plan has changed since the last run"));
    feature_lines_add_list(out, ": ", event, "tasks");
    feature_lines_add_text(out, ": ", event, "message");
}

static void say_wave_started(const struct bl_json *event, struct bl_buffer *out)
{
    double wave, waves, tasks;

    bl_buffer_append(out, BL_TEXT("wave"));
    if (feature_lines_number_of(event, "wave", &wave))
        bl_buffer_printf(out, " %.0f", wave);
    if (feature_lines_number_of(event, "of", &waves))
        bl_buffer_printf(out, "/%.0f", waves);
    bl_buffer_append(out, BL_TEXT(" starts"));
    if (!feature_lines_add_list(out, ": ", event, "tasks") &&
        feature_lines_number_of(event, "tasks", &tasks) && tasks >= 0) {
        bl_buffer_append(out, BL_TEXT(": "));
        feature_lines_add_count(out, (size_t)tasks, "task");
    }
}

static void say_wave_ended(const struct bl_json *event, struct bl_buffer *out)
{
    double wave;

    bl_buffer_append(out, BL_TEXT("wave"));
    if (feature_lines_number_of(event, "wave", &wave))
        bl_buffer_printf(out, " %.0f", wave);
    if (!feature_lines_add_text(out, " ", event, "state"))
        bl_buffer_append(out, BL_TEXT(" ended"));
    if (bl_text_equal(feature_lines_text_of(event, "gate"), BL_TEXT("absent")))
        bl_buffer_append(out, BL_TEXT(", gate absent"));
    feature_lines_add_text(out, ": ", event, "message");
}

static void say_queued(const struct bl_json *event, struct bl_buffer *out)
{
    (void)event;
    bl_buffer_append(out, BL_TEXT("queued"));
}

static void say_armed(const struct bl_json *event, struct bl_buffer *out)
{
    double grace;

    bl_buffer_append(out, BL_TEXT("deadline"));
    add_seconds(out, " ", event, "deadline_s");
    if (feature_lines_number_of(event, "grace_s", &grace) && grace > 0 &&
        add_seconds(out, " + ", event, "grace_s"))
        bl_buffer_append(out, BL_TEXT(" coach grace"));
    if (feature_lines_add_text(out, " (", event, "source"))
        bl_buffer_append_byte(out, ')');
}

static void say_moved(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("deadline moved"));
    add_seconds(out, " to ", event, "deadline_s");
    feature_lines_add_text(out, ": ", event, "why");
}

static void say_turn_started(const struct bl_json *event, struct bl_buffer *out)
{
    double most;

    bl_buffer_append(out, bl_json_boolean(bl_json_get(event, BL_TEXT("merge")), false)
                              ? BL_TEXT("merge turn starts")
                              : BL_TEXT("turn starts"));
    if (feature_lines_number_of(event, "turns_max", &most))
        bl_buffer_printf(out, " (of %.0f)", most);
    add_seconds(out, ", left ", event, "deadline_left_s");
}

static void feature_lines_say_turn_ended(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("turn ended"));
    feature_lines_add_text(out, ": ", event, "decision");
    if (bl_json_is(bl_json_get(event, BL_TEXT("counted")), BL_JSON_BOOLEAN) &&
        !bl_json_boolean(bl_json_get(event, BL_TEXT("counted")), true))
        bl_buffer_append(out, BL_TEXT(", not counted"));
}

static void say_phase_started(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("starts"));
    feature_lines_add_text(out, ": ", event, "message");
}

static void say_phase_ended(const struct bl_json *event, struct bl_buffer *out)
{
    if (!feature_lines_add_text(out, "", event, "outcome"))
        bl_buffer_append(out, BL_TEXT("ended"));
    add_ms(out, " after ", event, "ms");
    feature_lines_add_text(out, ": ", event, "message");
}

static void say_commit(const struct bl_json *event, struct bl_buffer *out)
{
    const struct bl_json *files = bl_json_get(event, BL_TEXT("files"));
    double count;

    bl_buffer_append(out, BL_TEXT("commit"));
    add_commit(out, " ", event, "commit");
    bool counted = bl_json_double(files, &count);
    if (!counted && bl_json_is(files, BL_JSON_ARRAY)) {
        count = (double)bl_json_size(files);
        counted = true;
    }
    if (counted)
        bl_buffer_printf(out, " (%.0f file%s)", count, (int)count == 1 ? "" : "s");
}

/* Adds passed, failed or absent, and the reason. */
static void add_value(const struct bl_json *event, struct bl_buffer *out)
{
    struct bl_text why = feature_lines_text_of(event, "why"),
                   value = feature_lines_text_of(event, "value"), rest = why;

    feature_lines_add_text(out, " ", event, "value");
    add_ms(out, " after ", event, "ms");
    /* Skip "Verification failed:", which repeats the words before it. */
    if (bl_text_split(&rest, ':', &why) && rest.size > 0 && value.size > 0 &&
        why.size > value.size &&
        memcmp(why.data + why.size - value.size, value.data, value.size) == 0) {
        bl_buffer_append(out, BL_TEXT(": "));
        feature_put_safe(out, rest);
    } else {
        feature_lines_add_text(out, ": ", event, "why");
    }
}

static void say_verify(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("verification"));
    add_value(event, out);
}

static void say_gate(const struct bl_json *event, struct bl_buffer *out)
{
    double wave;

    bl_buffer_append(out, BL_TEXT("gate"));
    if (feature_lines_number_of(event, "wave", &wave))
        bl_buffer_printf(out, " of wave %.0f", wave);
    add_value(event, out);
}

static void say_verdict(const struct bl_json *event, struct bl_buffer *out)
{
    const struct bl_json *verdict = bl_json_get(event, BL_TEXT("verdict"));
    const struct bl_json *holder = bl_json_is(verdict, BL_JSON_OBJECT) ? verdict : event;
    const struct bl_json *issues = bl_json_get(holder, BL_TEXT("issues"));
    double count;

    bl_buffer_append(out, BL_TEXT("verdict"));
    if (!feature_lines_add_text(out, ": ", holder, "decision")) {
        bl_buffer_append(out, BL_TEXT(" is invalid"));
        feature_lines_add_text(out, ": ", event, "refused");
    }
    if (bl_json_is(issues, BL_JSON_ARRAY) && bl_json_size(issues) > 0) {
        bl_buffer_append(out, BL_TEXT(", "));
        feature_lines_add_count(out, bl_json_size(issues), "issue");
    } else if (bl_json_double(issues, &count) && count > 0) {
        bl_buffer_append(out, BL_TEXT(", "));
        feature_lines_add_count(out, (size_t)count, "issue");
    }
    feature_lines_add_text(out, ": ", holder, "rationale");
}

static void say_grace(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("deadline reached, the Coach has a grace period"));
    add_seconds(out, " of ", event, "grace_s");
}

static void say_checkpoint(const struct bl_json *event, struct bl_buffer *out)
{
    const struct bl_json *inner = bl_json_get(event, BL_TEXT("checkpoint"));
    const struct bl_json *holder = bl_json_is(inner, BL_JSON_OBJECT) ? inner : event;
    const struct bl_json *files = bl_json_get(holder, BL_TEXT("dirty_files"));

    bl_buffer_append(out, BL_TEXT("checkpoint saved"));
    feature_lines_add_text(out, ": ", holder, "marker");
    if (bl_json_is(files, BL_JSON_ARRAY) && bl_json_size(files) > 0) {
        bl_buffer_append(out, BL_TEXT(", "));
        feature_lines_add_count(out, bl_json_size(files), "uncommitted file");
    }
}

static void say_task_ended(const struct bl_json *event, struct bl_buffer *out)
{
    struct bl_text state = feature_lines_text_of(event, "state"),
                   decision = feature_lines_text_of(event, "decision");

    if (state.size > 0)
        feature_put_safe(out, state);
    else
        bl_buffer_append(out, BL_TEXT("ended"));
    /* Omit a decision that only repeats the state. */
    if (decision.size > 0 && !bl_text_equal(decision, state) &&
        !bl_text_equal(decision, BL_TEXT("timeout")))
        feature_lines_add_text(out, ", ", event, "decision");
    if (bl_text_starts_with(decision, BL_TEXT("approved")) &&
        bl_text_equal(feature_lines_text_of(event, "verified"), BL_TEXT("none")))
        bl_buffer_append(out, BL_TEXT(", not verified"));
    feature_lines_add_text(out, ": ", event, "message");
}

static void say_merge(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("merged"));
    add_commit(out, " as ", event, "commit");
}

static void say_conflict(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("merge conflict"));
    feature_lines_add_list(out, ": ", event, "files");
}

static void say_draining(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("no new phase starts"));
    if (!feature_lines_add_text(out, " (", event, "origin"))
        bl_buffer_append(out, BL_TEXT(" ("));
    else
        bl_buffer_append(out, BL_TEXT("; "));
    if (!add_seconds(out, "running phases have ", event, "drain_s"))
        bl_buffer_append(out, BL_TEXT("running phases may end"));
    bl_buffer_append_byte(out, ')');
}

static void say_paused(const struct bl_json *event, struct bl_buffer *out)
{
    (void)event;
    bl_buffer_append(out, BL_TEXT("paused: no new phase starts"));
}

static void say_resumed(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("resumed"));
    add_seconds(out, " after ", event, "held_s");
}

static void say_stale(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out,
                     BL_TEXT("another belay process owns the feature now; this one stops writing"));
    feature_lines_add_text(out, ": ", event, "message");
}

static void say_rescue(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("rescued"));
    feature_lines_add_text(out, ": ", event, "ref");
    add_commit(out, " at ", event, "commit");
    feature_lines_add_text(out, ", worktree ", event, "worktree");
}

static void say_feature_ended(const struct bl_json *event, struct bl_buffer *out)
{
    int64_t exit_code;

    if (!feature_lines_add_text(out, "", event, "state"))
        bl_buffer_append(out, BL_TEXT("ended"));
    feature_lines_add_text(out, " (", event, "reason");
    if (feature_lines_text_of(event, "reason").size > 0)
        bl_buffer_append_byte(out, ')');
    if (bl_json_int64(bl_json_get(event, BL_TEXT("exit_code")), &exit_code) && exit_code != 0)
        bl_buffer_printf(out, ", exit code %" PRId64, exit_code);
    feature_lines_add_text(out, ": ", event, "message");
}

static void say_cancel(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("stop requested"));
    feature_lines_add_text(out, ": ", event, "reason");
    feature_lines_add_text(out, " by ", event, "origin");
}

static void feature_lines_say_receipt(const struct bl_json *event, struct bl_buffer *out)
{
    const struct bl_json *receipt = bl_json_get(event, BL_TEXT("receipt"));

    cli_receipt_line(bl_json_is(receipt, BL_JSON_OBJECT) ? receipt : event, out);
}

static void feature_lines_say_warning(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("warning"));
    if (!feature_lines_add_text(out, ": ", event, "message"))
        feature_lines_add_text(out, ": ", event, "text");
}

static void feature_lines_say_error(const struct bl_json *event, struct bl_buffer *out)
{
    const struct bl_json *error = bl_json_get(event, BL_TEXT("error"));

    bl_buffer_append(out, BL_TEXT("error"));
    if (!feature_lines_add_text(out, ": ", error, "message"))
        feature_lines_add_text(out, ": ", event, "message");
    feature_lines_add_text(out, "; ", error, "hint");
}

static void say_tool_started(const struct bl_json *event, struct bl_buffer *out)
{
    feature_lines_add_text(out, "tool ", event, "name");
}

static void say_tool_ended(const struct bl_json *event, struct bl_buffer *out)
{
    feature_lines_add_text(out, "tool ", event, "name");
    if (!feature_lines_add_text(out, " ", event, "status"))
        bl_buffer_append(out, BL_TEXT(" ended"));
    add_ms(out, " after ", event, "ms");
}

static void feature_lines_say_retry(const struct bl_json *event, struct bl_buffer *out)
{
    bl_buffer_append(out, BL_TEXT("retrying the model"));
    feature_lines_add_text(out, ": ", event, "reason");
}

static const struct event_row {
    const char *type;
    void (*say)(const struct bl_json *event, struct bl_buffer *out);
} rows[] = {
    {"feature_started", say_started},
    {"plan_changed", say_plan_changed},
    {"wave_started", say_wave_started},
    {"task_queued", say_queued},
    {"deadline_armed", say_armed},
    {"deadline_moved", say_moved},
    {"task_turn_started", say_turn_started},
    {"phase_started", say_phase_started},
    {"phase_ended", say_phase_ended},
    {"commit_made", say_commit},
    {"verify_ended", say_verify},
    {"verdict", say_verdict},
    {"task_turn_ended", feature_lines_say_turn_ended},
    {"grace_started", say_grace},
    {"checkpoint_saved", say_checkpoint},
    {"task_ended", say_task_ended},
    {"merge_ended", say_merge},
    {"merge_conflict", say_conflict},
    {"gate_ended", say_gate},
    {"wave_ended", say_wave_ended},
    {"feature_draining", say_draining},
    {"feature_paused", say_paused},
    {"feature_resumed", say_resumed},
    {"stale_write_refused", say_stale},
    {"rescue_made", say_rescue},
    {"feature_ended", say_feature_ended},
    {"cancel_requested", say_cancel},
    {"receipt", feature_lines_say_receipt},
    {"warning", feature_lines_say_warning},
    {"error", feature_lines_say_error},
    {"tool_started", say_tool_started},
    {"tool_ended", say_tool_ended},
    {"retry", feature_lines_say_retry},
};

bool feature_event_has_line(struct bl_text type)
{
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        if (bl_text_equal(type, bl_text_from(rows[i].type)))
            return true;
    }
    return false;
}

/* Adds time and place: "18:50:07 TASK-AUTH-001 turn 2 player: ". */
static void add_place(const struct bl_json *event, struct bl_buffer *out)
{
    struct bl_text time = feature_lines_text_of(event, "time");
    double turn;

    if (time.size >= 19) {
        feature_put_safe(out, (struct bl_text){time.data + 11, 8});
        bl_buffer_append_byte(out, ' ');
    }
    if (!feature_lines_add_text(out, "", event, "task") &&
        !feature_lines_add_text(out, "", event, "feature"))
        return;
    if (feature_lines_text_of(event, "task").size > 0 &&
        feature_lines_number_of(event, "turn", &turn) && turn > 0)
        bl_buffer_printf(out, " turn %.0f", turn);
    feature_lines_add_text(out, " ", event, "phase");
    bl_buffer_append(out, BL_TEXT(": "));
}

int feature_event_line(struct bl_text type, const struct bl_json *event, struct bl_buffer *out)
{
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        if (!bl_text_equal(type, bl_text_from(rows[i].type)))
            continue;
        add_place(event, out);
        rows[i].say(event, out);
        return bl_buffer_append_byte(out, '\n');
    }
    return 0;
}
