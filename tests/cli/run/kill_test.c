/* The state after kill -9 of a busy run, at any moment. */
#include "figure.h"
#include "stage.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

/* Returns the whole lines that a run wrote before it was killed. */
static struct bl_text read_lines(void)
{
    struct bl_text lines = bl_text_from(stage_output(&held));

    while (lines.size > 0 && lines.data[lines.size - 1] != '\n')
        lines.size--;
    return lines;
}

/* Returns the id of a turn if the line is the event of its completion, else NULL. */
static const char *completed_turn(struct bl_text line)
{
    if (!bl_text_starts_with(line, BL_TEXT("{\"type\":\"turn_ended\",")) ||
        bl_text_find(line, BL_TEXT("\"stop_reason\":\"completed\"")) < 0)
        return NULL;
    ptrdiff_t at = bl_text_find(line, BL_TEXT("\"turn_id\":\"turn_"));
    assert_true(at >= 0);
    return stage_printf("%.25s", line.data + at + strlen("\"turn_id\":\""));
}

static size_t count_in(const struct bl_json *turns, const char *turn_id)
{
    size_t count = 0;

    BL_JSON_EACH (turn, turns)
        count += strcmp(stage_text_at(turn, "/turn_id"), turn_id) == 0;
    return count;
}

static const struct bl_json *show(void)
{
    static struct run run;

    RUN(&run, "session", "show", "s", "--json");
    return stage_answer(&run, "session-show", 0);
}

static void check_round(void)
{
    struct bl_text lines = read_lines(), rest = lines, line;
    static struct run run;
    size_t said = 0;

    RUN(&run, "session", "show", "s", "--json");
    if (run.exit_code != 0) {
        /* The run had not opened the session yet. */
        assert_int_equal(lines.size, 0);
        return;
    }
    const struct bl_json *turns = bl_json_get(show(), BL_TEXT("turns"));
    while (bl_text_split(&rest, '\n', &line)) {
        const char *id = completed_turn(line);
        if (id == NULL)
            continue;
        said++;
        assert_int_equal(count_in(turns, id), 1);
    }
    BL_JSON_EACH (turn, turns)
        assert_string_equal(stage_text_at(turn, "/stop_reason"), "completed");
    assert_true(said <= bl_json_size(turns));
}

static void a_busy_run_that_is_killed_leaves_its_session_at_a_turn_boundary(void **state)
{
    const char *script = stage_script(
        "replies:\n"
        "  - {say: word, tools: [{name: bash, input: {command: 'sleep 0.01 & echo x'}}]}\n"
        "  - {say: done}\n"
        "repeat: true\n");
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 6 : 10, 1000);
    struct bl_random random;

    (void)state;
    bl_random_seed(&random, 11);
    for (unsigned long i = 0; i < rounds; i++) {
        /* Each in a session of its own, so that the output stays short. */
        unlink(stage_path("data/belay/sessions.db"));
        unlink(stage_path("data/belay/sessions.db-wal"));
        unlink(stage_path("data/belay/sessions.db-shm"));
        START(&held, "run", "hi", "--session", "s", "--provider", script, "--yolo", "--sandbox",
              "off", "--continuation-prompt", "more", "--max-turns", "20", "--output-format",
              "stream-json");
        uint64_t wait_ns = bl_random_below(&random, (SUITE_SANITIZED ? 600 : 250) * BL_NS_PER_MS);
        nanosleep(&(struct timespec){.tv_nsec = (long)wait_ns}, NULL);
        double ms = held_kill(&held);
        assert_true(figure_at_most("03 kill -9 of a busy run", ms, 100));
        check_round();
        held_end(&held);
    }
}

/* A run that is killed and restarted several times with one request id is executed once. */
static void a_request_that_is_killed_again_and_again_is_run_once(void **state)
{
    const char *script = stage_script("replies: [{say: x, delay: 5ms}]\nrepeat: true\n");
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 4 : 8, 200);
    struct bl_random random;
    static struct run run;

    (void)state;
    bl_random_seed(&random, 12);
    for (unsigned long i = 0; i < rounds; i++) {
        START(&held, "run", "hi", "--session", "s", "--request-id", "r", "--provider", script,
              "--sandbox", "off", "--continuation-prompt", "more", "--max-turns", "12", "--json");
        uint64_t wait_ns = bl_random_below(&random, (SUITE_SANITIZED ? 300 : 100) * BL_NS_PER_MS);
        nanosleep(&(struct timespec){.tv_nsec = (long)wait_ns}, NULL);
        kill(held.pid, SIGKILL);
        held_wait(&held);
        held_end(&held);
    }
    RUN(&run, "run", "hi", "--session", "s", "--request-id", "r", "--provider", script, "--sandbox",
        "off", "--continuation-prompt", "more", "--max-turns", "12", "--json");
    assert_int_equal(stage_size_at(stage_answer(&run, "run", 0), "/turns"), 12);
    assert_int_equal(stage_size_at(show(), "/turns"), 12);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)
SUITE(run_kill, HELD(a_busy_run_that_is_killed_leaves_its_session_at_a_turn_boundary),
      HELD(a_request_that_is_killed_again_and_again_is_run_once));
