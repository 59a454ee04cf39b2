/* `belay mcp`: the receipts of a task and of a plain call. */
#include "../mcp/client.h"
#include "left.h"

static struct desk desk;

static int mcp_end(void **state)
{
    desk_close(&desk);
    return left_end(state);
}

#define AT_DESK(test) cmocka_unit_test_setup_teardown(test, left_begin, mcp_end)

static const char *mcp_ask_task(const char *id, const char *method, const char *task)
{
    desk_say(&desk, word_task(id, method, task));
    return desk_await(&desk, stage_printf("\"id\":%s", id));
}

static void a_cancelled_task_says_how_many_are_left(void **state BL_UNUSED)
{
    left_require();
    DESK_OPEN(&desk, "--provider", left_script(), LEFT_OPTIONS);
    desk_say(&desk, word_call("1", "run", "\"prompt\":\"go\"", WORD_TASKS));
    const char *task = word_run(desk_await(&desk, "\"id\":1"));
    held_await_at_least(&desk.held, 3 + LEFT_COUNT);
    mcp_ask_task("2", "tasks/cancel", task);
    const struct bl_json *answer = stage_json(mcp_ask_task("3", "tasks/get", task));
    assert_string_equal(stage_text_at(answer, "/result/status"), "cancelled");
    left_check(bl_json_pointer(answer, BL_TEXT("/result/_meta/belay~1receipt")));
}

static void the_tool_cancel_says_how_many_are_left(void **state BL_UNUSED)
{
    left_require();
    DESK_OPEN(&desk, "--provider", left_script(), LEFT_OPTIONS);
    desk_greet(&desk);
    desk_say(&desk, word_call("1", "run", "\"prompt\":\"go\"", "\"progressToken\":\"p\""));
    const char *id = word_run(desk_await(&desk, "notifications/progress"));
    held_await_at_least(&desk.held, 3 + LEFT_COUNT);
    for (int i = 0; i < 2; i++) {
        desk_say(&desk, word_call("7", "cancel", stage_printf("\"id\":\"%s\"", id), ""));
        const struct bl_json *answer = stage_json(desk_await(&desk, "\"id\":7"));
        left_check(bl_json_pointer(answer, BL_TEXT("/result/structuredContent")));
    }
}

SUITE(mcp, AT_DESK(a_cancelled_task_says_how_many_are_left),
      AT_DESK(the_tool_cancel_says_how_many_are_left));
