/* Many sessions on one connection, a client that does not read, and the start of the program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"
#include "figure.h"

#define YOLO         "--permission-mode", "yolo"
#define CROWD        64
#define DISTURBED    7
#define MORE_MIB_MAX 16
#define QUEUE_MIB    4
#define FLOOD_FIGURE "A19 memory while the client does not read"
#define FLOOD_SIZE   65536
#define STARTS       9

/* ---- Many sessions --------------------------------------------------------------------------- */

/* One call at a time: the order in which two calls end is not fixed. */
static const char *const crowd_script =
    "replies:\n"
    "  - {when: go, thinking: what is here, say: one two three four five six, pieces: 6,\n"
    "     piece_delay: 10ms, tools: [{name: ls, input: {path: .}}]}\n"
    "  - {when: go, tools: [{name: read, input: {path: no}}]}\n"
    "  - {when: go, say: seven eight nine ten eleven twelve, pieces: 6, piece_delay: 10ms}\n"
    "repeat: true";

struct crowd {
    struct client client;
    const char *ids[CROWD];
    int64_t prompts[CROWD];
    const char *told[CROWD]; /* all updates of each session, without ids */
};

static void crowd_begin(struct crowd *crowd, const char *script)
{
    CLIENT_START(&crowd->client, YOLO, "--provider", script);
    for (size_t i = 0; i < CROWD; i++)
        crowd->ids[i] = client_new(&crowd->client);
    for (size_t i = 0; i < CROWD; i++) {
        crowd->client.session = crowd->ids[i];
        crowd->prompts[i] = client_prompt(&crowd->client, "go");
    }
}

static void append_without(struct bl_buffer *out, const char *text, const char *id)
{
    for (const char *found; id != NULL && (found = strstr(text, id)) != NULL;
         text = found + strlen(id))
        bl_buffer_append(out, (struct bl_text){text, (size_t)(found - text)});
    bl_buffer_append(out, bl_text_from(text));
}

/* Appends the text of a chunk of a message, with a heading where a new kind begins, since chunks
 * may be joined. Returns false if it is not a chunk. */
static bool append_chunk(struct bl_buffer *out, const struct bl_json *params, const char **heading)
{
    const struct bl_json *update = bl_json_get(params, BL_TEXT("update"));
    struct bl_text kind = bl_json_text(bl_json_get(update, BL_TEXT("sessionUpdate")));

    if (!bl_text_ends_with(kind, BL_TEXT("_chunk")))
        return false;
    const char *wanted = stage_printf("\n%s %s: ", kind.data, stage_text_at(update, "/messageId"));
    if (*heading == NULL || strcmp(*heading, wanted) != 0)
        bl_buffer_append(out, bl_text_from(wanted));
    *heading = wanted;
    bl_buffer_append(out, bl_text_from(stage_text_at(update, "/content/text")));
    return true;
}

/* Returns every update of a session and the answer, in order, byte by byte except for ids. */
static const char *crowd_told(struct crowd *crowd, size_t index)
{
    const struct client *client = &crowd->client;
    size_t answer = client_answer_line(&crowd->client, crowd->prompts[index]);
    const char *turn = stage_text_at(client->lines[answer].json, "/result/_meta/belay~1turn");
    const char *heading = NULL;
    struct bl_buffer out;

    bl_buffer_init(&out, (size_t)1 << 20);
    for (size_t i = 0; i <= answer; i++) {
        const struct bl_json *params = bl_json_get(client->lines[i].json, BL_TEXT("params"));
        struct bl_text id = bl_json_text(bl_json_get(params, BL_TEXT("sessionId")));
        if (!bl_text_equal(id, bl_text_from(crowd->ids[index])) ||
            append_chunk(&out, params, &heading))
            continue;
        heading = NULL;
        bl_buffer_append_byte(&out, '\n');
        append_without(&out, client->lines[i].text, crowd->ids[index]);
    }
    bl_buffer_append_byte(&out, '\n');
    append_without(&out, strstr(client->lines[answer].text, "\"result\""), turn);
    const char *kept = stage_keep(bl_buffer_text(&out));
    bl_buffer_done(&out);
    return kept;
}

static void crowd_end(struct crowd *crowd, size_t disturbed)
{
    for (size_t i = 0; i < CROWD; i++)
        assert_string_equal(client_stop_reason(&crowd->client, crowd->prompts[i]),
                            i == disturbed ? "cancelled" : "end_turn");
    for (size_t i = 0; i < CROWD; i++)
        crowd->told[i] = crowd_told(crowd, i);
    client_end(&crowd->client);
}

static void A20_one_of_64_is_cancelled_and_the_others_do_not_notice(void **state BL_UNUSED)
{
    const char *script = stage_script(crowd_script);
    static struct crowd calm, crowd;

    crowd_begin(&calm, script);
    crowd_end(&calm, CROWD);
    assert_non_null(strstr(calm.told[0], "one two three four five six"));
    assert_non_null(strstr(calm.told[0], "tool_call_update"));
    crowd_begin(&crowd, script);
    crowd.client.session = crowd.ids[DISTURBED];
    client_await(&crowd.client, 0,
                 stage_printf("\"sessionId\":\"%s\",\"update\":{\"sessionUpdate\":"
                              "\"agent_message_chunk\"",
                              crowd.ids[DISTURBED]));
    client_cancel(&crowd.client);
    crowd_end(&crowd, DISTURBED);
    for (size_t i = 0; i < CROWD; i++) {
        if (i != DISTURBED)
            assert_string_equal(crowd.told[i], calm.told[i]);
    }
    assert_null(strstr(crowd.told[DISTURBED], "twelve"));
}

/* ---- A client that does not read ------------------------------------------------------------- */

/* Returns a script of a model that never ends: answers of that size with a call between each two.
 */
static const char *flood_script(size_t size, unsigned pieces)
{
    struct bl_buffer text;

    bl_buffer_init(&text, size + 4096);
    bl_buffer_append(&text, BL_TEXT("replies:\n  - {when: flood, say: \""));
    for (size_t i = 0; i < size; i++)
        bl_buffer_append_byte(&text, i % 64 == 63 ? ' ' : (char)('a' + i % 26));
    bl_buffer_printf(&text,
                     "\", pieces: %u, tools: [{name: ls, input: {path: .}}]}\n"
                     "  - {when: touch, tools: [{name: bash, input: {command: touch ran}}]}\n"
                     "  - {when: touch, say: done}\nrepeat: true\n",
                     pieces);
    const char *script = stage_script(stage_keep(bl_buffer_text(&text)));
    bl_buffer_done(&text);
    return script;
}

static double resident_mib(pid_t pid)
{
    struct bl_text text = suite_read_file(stage_printf("/proc/%d/status", (int)pid));
    const char *line = strstr(text.data, "VmRSS:");
    double mib = line != NULL ? strtod(line + strlen("VmRSS:"), NULL) / 1024 : 0;

    bl_free((void *)(uintptr_t)text.data);
    return mib;
}

/* Returns how much more memory it has than when idle, once it stops growing, if the client does not
 * read. */
static double flooded_mib(const struct client *client, double idle_mib)
{
    double mib = idle_mib, before = 0;

    for (int i = 0; i < 300 && (mib > before || mib - idle_mib < QUEUE_MIB); i++) {
        before = mib;
        usleep(100000);
        mib = resident_mib(client->held.pid);
    }
    return mib - idle_mib;
}

static void A19_a_client_that_does_not_read_holds_up_its_own_work_alone(void **state BL_UNUSED)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", flood_script(FLOOD_SIZE, 32));
    const char *second = client_new(&client);
    const char *first = client_new(&client);
    double idle = resident_mib(client.held.pid);
    int64_t flood = client_prompt(&client, "flood");
    double more = flooded_mib(&client, idle);
    assert_true(SUITE_SANITIZED || figure_amount(FLOOD_FIGURE, more, MORE_MIB_MAX, "MiB"));
    client.session = second;
    int64_t touch = client_prompt(&client, "touch");
    stage_await_file(stage_path("work/ran"));
    client.session = first;
    client_cancel(&client);
    assert_string_equal(client_stop_reason(&client, flood), "cancelled");
    assert_string_equal(client_stop_reason(&client, touch), "end_turn");
    client_end(&client);
}

static void A19_memory_is_bounded_whatever_size_answers_have(void **state BL_UNUSED)
{
    static const struct {
        size_t size;
        unsigned pieces;
    } shapes[] = {{1024, 4}, {8192, 32}, {(size_t)6 * 1024 * 1024, 4096}};

    if (SUITE_SANITIZED)
        suite_skip("not with a sanitizer"); /* it measures memory */
    for (size_t i = 0; i < BL_COUNT(shapes); i++) {
        struct client client;
        CLIENT_START(&client, YOLO, "--provider", flood_script(shapes[i].size, shapes[i].pieces));
        client_new(&client);
        double idle = resident_mib(client.held.pid);
        client_prompt(&client, "flood");
        double more = flooded_mib(&client, idle);
        assert_true(more >= QUEUE_MIB);
        assert_true(figure_amount(FLOOD_FIGURE, more, MORE_MIB_MAX, "MiB"));
        client_end(&client);
    }
}

static void A19_a_client_that_never_reads_is_gone_after_half_a_minute(void **state BL_UNUSED)
{
    struct client client;

    suite_skip_unless_soak();
    CLIENT_START(&client, YOLO, "--provider", flood_script(FLOOD_SIZE, 32));
    client_new(&client);
    client_prompt(&client, "flood");
    double seconds = 0;
    for (uint64_t from_ns = client_now_ns(); kill(client.held.pid, 0) == 0 && seconds < 60;
         seconds = (double)(client_now_ns() - from_ns) / 1e9) {
        struct bl_text stat = suite_read_file(stage_printf("/proc/%d/stat", (int)client.held.pid));
        bool gone = strstr(stat.data, ") Z ") != NULL;
        bl_free((void *)(uintptr_t)stat.data);
        if (gone)
            break;
        usleep(50000);
    }
    assert_int_equal(client_exit(&client), 130);
    assert_true(seconds >= 28 && seconds <= 40);
    client_end(&client);
}

/* ---- The start ------------------------------------------------------------------------------- */

static void A4_initialize_is_answered_soon_after_the_start(void **state BL_UNUSED)
{
    const char *script = stage_script("replies: [{say: done}]");

    for (int i = 0; i < STARTS; i++) {
        struct client client;
        uint64_t from_ns = client_now_ns();
        CLIENT_START(&client, "--provider", script);
        double ms = (double)(client_now_ns() - from_ns) / 1e6;
        assert_true(figure_at_most("A4 start to the answer of initialize", ms, 15));
        client_end(&client);
    }
}

SUITE(stream, STAGED(A4_initialize_is_answered_soon_after_the_start),
      STAGED(A19_a_client_that_does_not_read_holds_up_its_own_work_alone),
      STAGED(A19_memory_is_bounded_whatever_size_answers_have),
      STAGED(A19_a_client_that_never_reads_is_gone_after_half_a_minute),
      STAGED(A20_one_of_64_is_cancelled_and_the_others_do_not_notice));
