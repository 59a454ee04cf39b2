/* Cancels at every moment of a turn: updates after the answer, their number, and whether the answer
 * is true. */
#include <stdio.h>

#include "aim.h"
#include "client.h"

#define YOLO         "--permission-mode", "yolo"
#define ROUNDS_MAX   10000
#define MEETINGS_MAX 1000 /* rounds of the short form, if it needs that many */

/* ---- Updates after the answer ---------------------------------------------------------------- */

/* A turn with all kinds of events. */
static const char busy_script[] =
    "replies:\n"
    "  - {when: go, thinking: hm, say: first words of it, pieces: 4, piece_delay: 2ms,\n"
    "     tools: [{name: bash, input: {command: sleep 0.01; echo one}},\n"
    "             {name: bash, input: {command: echo two}}]}\n"
    "  - {when: go, say: and the last words of it, pieces: 5, piece_delay: 2ms}\n"
    "repeat: true\n";

/* Checks that every call announced from line `from` on also has its final update. */
static void check_calls(const struct client *client, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct bl_json *update =
            bl_json_pointer(client->lines[i].json, BL_TEXT("/params/update"));
        struct bl_text kind = bl_json_text(bl_json_get(update, BL_TEXT("sessionUpdate")));
        struct bl_text id = bl_json_text(bl_json_get(update, BL_TEXT("toolCallId")));
        size_t last = 0;
        if (!bl_text_equal(kind, BL_TEXT("tool_call")))
            continue;
        for (size_t j = i + 1; j < to; j++) {
            const struct bl_json *later =
                bl_json_pointer(client->lines[j].json, BL_TEXT("/params/update"));
            struct bl_text status = bl_json_text(bl_json_get(later, BL_TEXT("status")));
            if (bl_text_equal(bl_json_text(bl_json_get(later, BL_TEXT("toolCallId"))), id))
                last += bl_text_equal(status, BL_TEXT("completed")) ||
                        bl_text_equal(status, BL_TEXT("failed"));
        }
        if (last != 1)
            fail_msg("%zu last words of the call %s", last, id.data);
    }
}

/* Sessions that are used in rotation: while one is working, the others are checked for silence, so
 * that each cancel is observed for the full time. */
#define WATCHED_MAX 60

struct watch {
    struct client client;
    size_t count;
    double silence_ms;
    size_t looked; /* lines */
    struct watched {
        const char *session;
        bool answered; /* no update may follow */
        uint64_t until_ns;
    } all[WATCHED_MAX];
};

static void watch_begin(struct watch *watch)
{
    *watch = (struct watch){.count = suite_rounds(8, WATCHED_MAX),
                            .silence_ms = (double)suite_rounds(200, 2000)};
    CLIENT_START(&watch->client, YOLO, "--provider", stage_script(busy_script));
    for (size_t i = 0; i < watch->count; i++)
        watch->all[i].session = client_new(&watch->client);
    /* Read the updates of the opening. */
    client_listen(&watch->client, 100);
    watch->looked = watch->client.count;
    for (size_t i = 0; i < watch->count; i++)
        watch->all[i].answered = true;
}

/* Checks the lines up to number `to`. */
static void watch_look(struct watch *watch, size_t to)
{
    for (; watch->looked < to; watch->looked++) {
        const struct line *line = &watch->client.lines[watch->looked];
        struct bl_text session =
            bl_json_text(bl_json_pointer(line->json, BL_TEXT("/params/sessionId")));
        for (size_t i = 0; i < watch->count; i++) {
            if (watch->all[i].answered &&
                bl_text_equal(session, bl_text_from(watch->all[i].session)))
                fail_msg("after the answer: %.300s", line->text);
        }
    }
}

/* Waits until the session has been silent for the full time. */
static void watch_wait(struct watch *watch, const struct watched *one)
{
    for (uint64_t now_ns; (now_ns = client_now_ns()) < one->until_ns;)
        client_listen(&watch->client, (double)(one->until_ns - now_ns) / 1e6);
    client_drain(&watch->client);
    watch_look(watch, watch->client.count);
}

/* Sends a prompt, and a cancel after that time. Returns true if the cancel was in time. */
static bool watch_cancel(struct watch *watch, struct watched *one, double after_ms)
{
    struct client *client = &watch->client;
    size_t from = client->count;

    watch_wait(watch, one);
    one->answered = false;
    client->session = one->session;
    int64_t prompt = client_prompt(client, "go");
    client_listen(client, after_ms);
    client_cancel(client);
    size_t answer = client_answer_line(client, prompt);
    const char *reason = client_stop_reason(client, prompt);
    bool cancelled = strcmp(reason, "cancelled") == 0;
    assert_true(cancelled || strcmp(reason, "end_turn") == 0);
    check_calls(client, from, answer);
    watch_look(watch, answer + 1);
    one->answered = true;
    one->until_ns = client->lines[answer].at_ns + (uint64_t)(watch->silence_ms * 1e6);
    return cancelled;
}

static void A7_A8_after_the_answer_there_is_silence(void **state BL_UNUSED)
{
    unsigned long rounds = suite_rounds(15, 1000);
    static struct watch watch;
    struct bl_random random;
    size_t cancelled = 0;

    bl_random_seed(&random, 20261116);
    watch_begin(&watch);
    for (unsigned long i = 0; i < rounds; i++)
        cancelled +=
            watch_cancel(&watch, &watch.all[i % watch.count], (double)bl_random_below(&random, 40));
    for (size_t i = 0; i < watch.count; i++)
        watch_wait(&watch, &watch.all[i]);
    assert_true(cancelled > rounds / 4);
    client_end(&watch.client);
}

/* ---- Truth of the answer --------------------------------------------------------------------- */

struct verdict {
    const char *turn; /* NULL if there was none */
    bool completed;
    bool late; /* the cancel came between its claim and its answer */
};

static void keep_turn(void *context, const char *id)
{
    bl_map_set(context, bl_text_from(id), context, NULL);
}

/* Checks that a turn was answered with `end_turn` if and only if it is completed in the session. */
static void check_verdicts(const char *session, const struct verdict *verdicts, size_t count)
{
    size_t completed = 0;
    struct bl_map held;

    bl_map_init(&held);
    client_store_each(
        stage_printf("SELECT turn.id FROM turn JOIN session ON session.key = turn.session"
                     " WHERE session.id = '%s' AND NOT interrupted",
                     session),
        keep_turn, &held);
    for (size_t i = 0; i < count; i++) {
        const char *turn = verdicts[i].turn;
        bool there = turn != NULL && bl_map_has(&held, bl_text_from(turn));
        if (there != verdicts[i].completed)
            fail_msg("%s was answered as %s, and is %s the session", turn != NULL ? turn : "none",
                     verdicts[i].completed ? "completed" : "cancelled", there ? "in" : "not in");
        completed += there;
    }
    /* The session has no turn that was not answered. */
    assert_int_equal(held.count, completed);
    bl_map_done(&held);
}

/* Sends a prompt, and a cancel at any moment of its commit. */
static struct verdict cancel_after(struct client *client, uint64_t ns)
{
    int64_t prompt = client_prompt(client, "go");
    uint64_t until_ns = client_now_ns() + ns;

    while (client_now_ns() < until_ns)
        continue;
    client_cancel(client);
    const struct bl_json *result = client_result(client, prompt);
    const char *reason = stage_text_at(result, "/stopReason");
    struct verdict verdict = {
        .turn = bl_json_text(bl_json_pointer(result, BL_TEXT("/_meta/belay~1turn"))).data,
        .completed = strcmp(reason, "end_turn") == 0,
    };
    assert_true(verdict.completed || strcmp(reason, "cancelled") == 0);
    assert_string_equal(stage_text_at(result, "/_meta/belay~1stop_reason"),
                        verdict.completed ? "completed" : "cancelled");
    verdict.late = bl_json_pointer(result, BL_TEXT("/_meta/belay~1late_cancel")) != NULL;
    bool receipt = bl_json_pointer(result, BL_TEXT("/_meta/belay~1receipt")) != NULL;
    assert_true(verdict.completed || !verdict.late);
    assert_true(receipt ? !verdict.completed || verdict.late : verdict.completed);
    assert_true(verdict.turn != NULL || !verdict.completed);
    return verdict;
}

/* Returns the duration of a turn that is not cancelled. */
static uint64_t turn_ns(struct client *client)
{
    uint64_t shortest_ns = BL_NEVER;

    for (int i = 0; i < 5; i++) {
        uint64_t from_ns = client_now_ns();
        assert_string_equal(client_talk(client, "go"), "end_turn");
        uint64_t ns = client_now_ns() - from_ns;
        shortest_ns = ns < shortest_ns ? ns : shortest_ns;
    }
    return shortest_ns;
}

static void A13_end_turn_means_that_the_session_holds_the_turn(void **state BL_UNUSED)
{
    unsigned long least = suite_rounds(40, ROUNDS_MAX), rounds = 0, completed = 0, late = 0;
    unsigned long most = suite_rounds(MEETINGS_MAX, ROUNDS_MAX);
    static struct verdict verdicts[ROUNDS_MAX];
    struct client client;
    struct aim aim;

    CLIENT_START(&client, YOLO, "--provider", stage_script("replies: [{say: done}]\nrepeat: true"));
    client_new(&client);
    uint64_t whole_ns = turn_ns(&client);
    const char *session = client_new(&client);
    aim_init(&aim, 13, (double)whole_ns);
    /* Repeat until both outcomes of the race have occurred. */
    while (rounds < least ||
           (rounds < most && (late < least / 40 || rounds - completed < least / 20))) {
        struct verdict *verdict = &verdicts[rounds++];
        *verdict = cancel_after(&client, aim_take(&aim));
        completed += verdict->completed;
        late += verdict->late;
        aim_settle(&aim, verdict->completed);
    }
    client_close_input(&client);
    client_exit(&client);
    client_end(&client);
    print_message("%lu of %lu turns completed, %lu of them with a late cancel\n", completed, rounds,
                  late);
    check_verdicts(session, verdicts, rounds);
    assert_true(late >= least / 40 && rounds - completed >= least / 20);
}

SUITE(race, STAGED(A7_A8_after_the_answer_there_is_silence),
      STAGED(A13_end_turn_means_that_the_session_holds_the_turn));
