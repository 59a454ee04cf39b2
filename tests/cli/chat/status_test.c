#include "cli/chat/chat.h"

#include "suite.h"

static struct status busy(void)
{
    return (struct status){.model = "claude-sonnet-4-5",
                           .mode = "ask",
                           .sandbox = "workspace",
                           .usage = {.input_tokens = 12000, .output_tokens = 345},
                           .spent = {.cost_usd = 0.1234},
                           .deadline_left_ns = 250 * BL_NS_PER_S,
                           .phase = "bash: make test",
                           .phase_ns = 12 * BL_NS_PER_S + 5,
                           .agents = 2,
                           .jobs = 1};
}

static void expect(const struct status *status, size_t columns, bool colours, const char *wanted)
{
    struct bl_buffer out;

    bl_buffer_init(&out, SIZE_MAX / 2);
    status_line(status, columns, colours, &out);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, wanted);
    bl_buffer_done(&out);
}

static void all_of_it_is_there_when_there_is_room(void **state)
{
    struct status status = busy();

    (void)state;
    expect(&status, 140, false,
           "⠋ bash: make test 12 s · 4m 10s left · 2 agents · 1 job · claude-sonnet-4-5 · "
           "12.3k tokens · $0.123 · ask · sandbox workspace");
}

static void remaining_context_is_shown_if_known(void **state)
{
    struct status status = {.model = "m", .deadline_left_ns = BL_NEVER, .context_max = 1000};

    (void)state;
    expect(&status, 80, false, "m");
    status.context_used = 377;
    expect(&status, 80, false, "m · 62% context left");
    status.context_used = 1200;
    expect(&status, 80, true, "\x1b[2mm · \x1b[0;33m0% context left\x1b[0m");
    status.context_max = 0;
    expect(&status, 80, false, "m");
}

static void least_important_parts_are_dropped_first(void **state)
{
    struct status status = busy();

    (void)state;
    expect(&status, 98, false,
           "⠋ bash: make test 12 s · 4m 10s left · 2 agents · 1 job · claude-sonnet-4-5 · $0.123");
    expect(&status, 60, false, "⠋ bash: make test 12 s · 4m 10s left · claude-sonnet-4-5");
    expect(&status, 40, false, "⠋ bash: make test 12 s · 4m 10s left");
}

static void long_phase_is_cut_first(void **state)
{
    struct status status = busy();

    (void)state;
    status.phase = "bash: find . -name '*.c' -exec grep -l something {} +";
    expect(&status, 40, false, "⠋ bash: find . -name… 12 s · 4m 10s left");
}

static void idle_status_has_no_indicator(void **state)
{
    struct status status = {.model = "m", .mode = "auto", .deadline_left_ns = BL_NEVER};

    (void)state;
    expect(&status, 40, false, "m · auto");
    expect(&status, 40, true, "\x1b[2mm · auto\x1b[0m");
    status = (struct status){.deadline_left_ns = BL_NEVER};
    expect(&status, 40, false, "");
}

static void indicator_moves(void **state)
{
    struct status status = {.deadline_left_ns = BL_NEVER, .phase = "model", .tick = 1};

    (void)state;
    expect(&status, 40, false, "⠙ model");
    status.tick = 10;
    expect(&status, 40, false, "⠋ model");
    status.stopping = true;
    expect(&status, 40, true, "\x1b[31m⠋ stopping\x1b[0m");
}

static void what_a_call_cost_may_be_unknown(void **state)
{
    struct status status = {.deadline_left_ns = BL_NEVER,
                            .spent = {.cost_unknown = true, .usage = {.input_tokens = 1}}};

    (void)state;
    expect(&status, 40, false, "cost unknown");
    status.spent.cost_usd = 2;
    expect(&status, 40, false, "$2.00+");
}

static void counts_are_short(void **state)
{
    static const struct {
        uint64_t tokens;
        const char *shown;
    } cases[] = {{950, "950 tokens"},
                 {12345, "12.3k tokens"},
                 {123456, "123k tokens"},
                 {1234567, "1.2M tokens"}};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct status status = {.deadline_left_ns = BL_NEVER,
                                .usage = {.input_tokens = cases[i].tokens}};
        expect(&status, 40, false, cases[i].shown);
    }
}

static void it_never_takes_more_than_its_columns(void **state)
{
    static const char *const phases[] = {NULL, "model", "日本語の長い長いコマンド", "a\x1b[2Jb\n",
                                         "bash: a very long command line with many more words"};
    struct bl_buffer out;

    (void)state;
    bl_buffer_init(&out, SIZE_MAX / 2);
    for (size_t columns = 1; columns <= 200; columns++) {
        for (size_t i = 0; i < 2 * BL_COUNT(phases); i++) {
            struct status status = busy();
            status.phase = phases[i / 2];
            status.mode = i % 3 == 0 ? "yolo" : "read-only";
            status.model = i % 4 == 0 ? "模型\x1b" : status.model;
            bl_buffer_clear(&out);
            status_line(&status, columns, i % 2 == 0, &out);
            assert_true(text_line_width(bl_buffer_text(&out)) <= columns);
            assert_true(bl_text_find(bl_buffer_text(&out), BL_TEXT("\n")) < 0);
            assert_true(bl_text_find(bl_buffer_text(&out), BL_TEXT("\x1b[2J")) < 0);
        }
    }
    bl_buffer_done(&out);
}

SUITE(status, cmocka_unit_test(remaining_context_is_shown_if_known),
      cmocka_unit_test(all_of_it_is_there_when_there_is_room),
      cmocka_unit_test(least_important_parts_are_dropped_first),
      cmocka_unit_test(long_phase_is_cut_first), cmocka_unit_test(idle_status_has_no_indicator),
      cmocka_unit_test(indicator_moves), cmocka_unit_test(what_a_call_cost_may_be_unknown),
      cmocka_unit_test(counts_are_short), cmocka_unit_test(it_never_takes_more_than_its_columns));
