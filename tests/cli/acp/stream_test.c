/* Many sessions on one connection, a client that does not read, and the start. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

#define YOLO       "--permission-mode", "yolo"
#define CROWD      64
#define DISTURBED  7
#define IDLE_MIB   16
#define FLOOD_SIZE 65536

/* ---- Many sessions --------------------------------------------------------------------------- */

static const char *const crowd_script =
    "replies: [{say: one two three four five six seven eight nine ten eleven twelve, pieces: 12,"
    " piece_delay: 20ms}]\nrepeat: true";

struct crowd {
    struct client client;
    const char *ids[CROWD];
    int64_t prompts[CROWD];
};

static void crowd_begin(struct crowd *crowd)
{
    CLIENT_START(&crowd->client, YOLO, "--provider", stage_script(crowd_script));
    for (size_t i = 0; i < CROWD; i++)
        crowd->ids[i] = client_new(&crowd->client);
    for (size_t i = 0; i < CROWD; i++) {
        crowd->client.session = crowd->ids[i];
        crowd->prompts[i] = client_prompt(&crowd->client, "go");
    }
}

/* All that a session was told by the model. */
static const char *crowd_text(const struct crowd *crowd, size_t session)
{
    struct bl_buffer text;

    bl_buffer_init(&text, 65536);
    for (size_t i = 0; i < crowd->client.count; i++) {
        const struct bl_json *params = bl_json_get(crowd->client.lines[i].json, BL_TEXT("params"));
        struct bl_text id = bl_json_text(bl_json_get(params, BL_TEXT("sessionId")));
        struct bl_text kind =
            bl_json_text(bl_json_pointer(params, BL_TEXT("/update/sessionUpdate")));
        if (bl_text_equal(id, bl_text_from(crowd->ids[session])) &&
            bl_text_equal(kind, BL_TEXT("agent_message_chunk")))
            bl_buffer_append(
                &text, bl_json_text(bl_json_pointer(params, BL_TEXT("/update/content/text"))));
    }
    const char *kept = stage_keep(bl_buffer_text(&text));
    bl_buffer_done(&text);
    return kept;
}

static void A20_one_of_64_is_cancelled_and_the_others_do_not_notice(void **state BL_UNUSED)
{
    static struct crowd crowd;
    const char *whole;

    crowd_begin(&crowd);
    for (size_t i = 0; i < CROWD; i++)
        assert_string_equal(client_stop_reason(&crowd.client, crowd.prompts[i]), "end_turn");
    whole = crowd_text(&crowd, 0);
    assert_true(strlen(whole) > 40);
    client_end(&crowd.client);
    crowd_begin(&crowd);
    crowd.client.session = crowd.ids[DISTURBED];
    client_await(&crowd.client, 0,
                 stage_printf("\"sessionId\":\"%s\",\"update\":{\"sessionUpdate\":"
                              "\"agent_message_chunk\"",
                              crowd.ids[DISTURBED]));
    client_cancel(&crowd.client);
    for (size_t i = 0; i < CROWD; i++) {
        const char *reason = client_stop_reason(&crowd.client, crowd.prompts[i]);
        assert_string_equal(reason, i == DISTURBED ? "cancelled" : "end_turn");
    }
    for (size_t i = 0; i < CROWD; i++) {
        if (i != DISTURBED)
            assert_string_equal(crowd_text(&crowd, i), whole);
    }
    assert_true(strlen(crowd_text(&crowd, DISTURBED)) < strlen(whole));
    client_end(&crowd.client);
}

/* ---- A client that does not read ------------------------------------------------------------- */

/* A model that talks for ever, a call between each two of its answers. */
static const char *flood_script(void)
{
    struct bl_buffer text;

    bl_buffer_init(&text, (size_t)1024 * 1024);
    bl_buffer_append(&text, BL_TEXT("replies:\n  - {when: flood, say: \""));
    for (size_t i = 0; i < FLOOD_SIZE; i++)
        bl_buffer_append_byte(&text, i % 64 == 63 ? ' ' : (char)('a' + i % 26));
    bl_buffer_append(
        &text, BL_TEXT("\", pieces: 32, tools: [{name: ls, input: {path: .}}]}\n"
                       "  - {when: touch, tools: [{name: bash, input: {command: touch ran}}]}\n"
                       "  - {when: touch, say: done}\nrepeat: true\n"));
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

static void A19_a_client_that_does_not_read_holds_up_its_own_work_alone(void **state BL_UNUSED)
{
    struct client client;

    CLIENT_START(&client, YOLO, "--provider", flood_script());
    const char *second = client_new(&client);
    const char *first = client_new(&client);
    double idle = resident_mib(client.held.pid), mib = idle;
    int64_t flood = client_prompt(&client, "flood");
    /* Nobody reads; until it grows no more. */
    for (double before = 0; mib > before;) {
        before = mib;
        usleep(200000);
        mib = resident_mib(client.held.pid);
    }
    if (!SUITE_SANITIZED && mib - idle > IDLE_MIB)
        fail_msg("%.1f MiB more than idle", mib - idle);
    client.session = second;
    int64_t touch = client_prompt(&client, "touch");
    for (int i = 0; i < 3000 && !stage_exists(stage_path("work/ran")); i++)
        usleep(10000);
    assert_true(stage_exists(stage_path("work/ran")));
    client.session = first;
    client_cancel(&client);
    assert_string_equal(client_stop_reason(&client, flood), "cancelled");
    assert_string_equal(client_stop_reason(&client, touch), "end_turn");
    client_end(&client);
}

static void A19_a_client_that_never_reads_is_gone_after_half_a_minute(void **state BL_UNUSED)
{
    struct client client;

    if (suite_rounds(0, 1) == 0)
        skip();
    CLIENT_START(&client, YOLO, "--provider", flood_script());
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

static int compare(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

static void A4_initialize_is_answered_soon_after_the_start(void **state BL_UNUSED)
{
    const char *script = stage_script("replies: [{say: done}]");
    double ms[9];

    for (size_t i = 0; i < BL_COUNT(ms); i++) {
        struct client client;
        uint64_t from_ns = client_now_ns();
        CLIENT_START(&client, "--provider", script);
        ms[i] = (double)(client_now_ns() - from_ns) / 1e6;
        client_end(&client);
    }
    qsort(ms, BL_COUNT(ms), sizeof *ms, compare);
    if (!SUITE_SANITIZED)
        client_check_ms(ms[BL_COUNT(ms) / 2], 15);
}

SUITE(stream, STAGED(A4_initialize_is_answered_soon_after_the_start),
      STAGED(A19_a_client_that_does_not_read_holds_up_its_own_work_alone),
      STAGED(A19_a_client_that_never_reads_is_gone_after_half_a_minute),
      STAGED(A20_one_of_64_is_cancelled_and_the_others_do_not_notice));
