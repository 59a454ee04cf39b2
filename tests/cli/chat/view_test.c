#include "events.h"
#include "fibers.h"

#define CHILD "agt_1"

/* ---- Text ------------------------------------------------------------------------------------ */

static void a_conversation_is_prompts_and_markdown(void **state)
{
    (void)state;
    begin(40, false);
    chat_view_prompt(view, BL_TEXT("What is in here? Please say it in a few words."));
    start_turn();
    phase("model");
    say("# Files\nThere ");
    taken("> What is in here? Please say it in a\n"
          "  few words.\n"
          "\n"
          "# Files\n");
    live("\nThere\n");
    say("are *two*.");
    live("\nThere are *two*.\n");
    end_turn("{\"stop_reason\":\"completed\"}");
    taken("\nThere are *two*.\n");
    live("");
    phase(NULL);
    chat_view_prompt(view, BL_TEXT("Thanks"));
    taken("\n> Thanks\n");
    end();
}

static void thinking_is_dim_and_short(void **state)
{
    (void)state;
    begin(30, true);
    start_turn();
    tell_text(BL_EVENT_THINKING_DELTA, "First I look.\nThen I look again at it all. ");
    tell_text(BL_EVENT_THINKING_DELTA, "And once more, to be sure of it.\nDone.");
    live("\x1b[2mAnd once more, to be sure of\x1b[0m\n"
         "\x1b[2mit.\x1b[0m\n"
         "\x1b[2mDone.\x1b[0m\n");
    taken("");
    say("Yes.\n\n");
    taken("\x1b[2mthought: First I look.\x1b[0m\n"
          "\n"
          "Yes.\n");
    end();
}

/* ---- Cells ----------------------------------------------------------------------------------- */

static void tell_cell(enum bl_event_type type, const char *status)
{
    tell((struct bl_event){.type = type, .cell = "c-7", .generation = 1, .status = status});
}

static void a_cell_is_a_line_for_what_it_does_and_its_calls_are_calls(void **state)
{
    (void)state;
    begin(60, false);
    start_turn();
    request("c1", "exec", "{\"source\":\"// @exec: {}\\n\\nawait tools.bash({})\\ntext(1)\"}");
    tell_cell(BL_EVENT_CELL_CREATED, NULL);
    tell((struct bl_event){.type = BL_EVENT_TOOL_REQUESTED,
                           .nested = true,
                           .id = BL_TEXT("c-7/call-1"),
                           .name = BL_TEXT("bash"),
                           .json = BL_TEXT("{\"command\":\"make\"}")});
    live("● exec  await tools.bash({})\n"
         "● bash  make\n");
    tell_cell(BL_EVENT_CELL_YIELDED, NULL);
    ended("c1", "ok", 4, "");
    request("c2", "wait", "{\"cell_id\":\"c-7\",\"terminate\":true}");
    ended("c2", "ok", 4, "");
    taken("cell c-7 yielded\n"
          "\n"
          "● exec  await tools.bash({})\n"
          "● wait  terminate c-7\n");
    /* The turn has ended, but the call of the cell has not. */
    end_turn("{\"stop_reason\":\"completed\"}");
    live("● bash  make\n");
    ended("c-7/call-1", "ok", 4, "");
    tell_cell(BL_EVENT_CELL_ENDED, "unknown");
    tell_cell(BL_EVENT_CELL_SETTLED, "completed");
    taken("● bash  make (4 ms)\n"
          "\n"
          "cell c-7 ended: unknown\n"
          "cell c-7 settled: completed\n");
    live("");
    end();
}

/* ---- Sub-agents ------------------------------------------------------------------------------ */

static void start_child(const char *above, const char *call, const char *child)
{
    tell((struct bl_event){.type = BL_EVENT_SUBAGENT_STARTED,
                           .agent = above,
                           .id = bl_text_from(call),
                           .name = BL_TEXT("explore"),
                           .child = child,
                           .text = BL_TEXT("find it")});
}

static void end_child(const char *above, const char *call, const char *child, const char *status)
{
    static const struct bl_usage usage = {.input_tokens = 34000, .output_tokens = 500};

    tell((struct bl_event){.type = BL_EVENT_SUBAGENT_ENDED,
                           .agent = above,
                           .id = bl_text_from(call),
                           .child = child,
                           .status = status,
                           .usage = &usage});
}

static void sub_agents_have_their_calls_below_them_and_end_in_a_line(void **state)
{
    (void)state;
    begin(44, false);
    request("c1", "task", "{\"agent\":\"explore\",\"prompt\":\"find where it is\"}");
    start_child(NULL, "c1", CHILD);
    assert_int_equal(chat_view_agents(view), 1);
    /* Ids of calls are unique only within an agent. */
    request_by(CHILD, "c1", "grep", "{\"pattern\":\"foo\"}");
    request_by(CHILD, "c2", "task", "{\"agent\":\"worker\",\"prompt\":\"do it\"}");
    start_child(CHILD, "c2", "agt_2");
    request_by("agt_2", "c1", "bash", "{\"command\":\"make\"}");
    tell((struct bl_event){
        .type = BL_EVENT_TEXT_DELTA, .agent = CHILD, .text = BL_TEXT("not shown")});
    assert_int_equal(chat_view_agents(view), 2);
    phase("task: explore: find where it is");
    live("● task  explore: find where it is\n"
         "  ○ grep  foo\n"
         "  ○ task  worker: do it\n"
         "    ○ bash  make\n");
    ended_by("agt_2", "c1", "ok", 1, "");
    ended_by(CHILD, "c1", "ok", 1, "");
    live("● task  explore: find where it is\n"
         "  ○ task  worker: do it\n"
         "    bash  make\n");
    end_child(CHILD, "c2", "agt_2", "completed");
    ended_by(CHILD, "c2", "ok", 1, "");
    live("● task  explore: find where it is\n"
         "  task  worker: do it\n");
    taken("");
    end_child(NULL, "c1", CHILD, "completed");
    assert_int_equal(chat_view_agents(view), 0);
    ended("c1", "ok", 4200, "It is there.");
    taken("● task  explore: find where it is\n"
          "  2 calls, 34.5k tokens, 4.2 s\n"
          "  It is there.\n");
    live("");
    end();
}

static void stopped_sub_agent_is_marked(void **state)
{
    (void)state;
    begin(80, false);
    request("c1", "task", "{\"agent\":\"explore\",\"prompt\":\"find it\"}");
    start_child(NULL, "c1", CHILD);
    request_by(CHILD, "c1", "bash", "{\"command\":\"make\"}");
    end_child(NULL, "c1", CHILD, "cancelled");
    tell((struct bl_event){.type = BL_EVENT_RECEIPT,
                           .id = BL_TEXT("c1"),
                           .json = BL_TEXT("{\"quiet_ms\":5.5,\"survivors\":0,\"units\":"
                                           "[{\"kind\":\"agent\",\"fate\":\"aborted\"}]}")});
    ended("c1", "stopped", 900, "");
    taken("● task  explore: find it (stopped, 0 calls, 34.5k tokens)\n"
          "  Stopped in 6 ms: 1 agent. Nothing left running.\n");
    request("c2", "task", "{\"agent\":\"explore\",\"prompt\":\"go\"}");
    start_child(NULL, "c2", CHILD);
    end_child(NULL, "c2", CHILD, "max_steps_reached");
    ended("c2", "error", 900, "");
    taken("● task  explore: go\n"
          "  failed, max steps reached, 0 calls, 34.5k tokens\n");
    /* Later events of the child belong to no call. */
    ended_by(CHILD, "c1", "stopped", 1, "");
    request_by(CHILD, "c9", "bash", "{\"command\":\"make\"}");
    live("");
    end();
}

/* ---- Stops ----------------------------------------------------------------------------------- */

static const char receipt[] =
    "{\"id\":\"rcp_1\",\"reason\":\"user\",\"origin\":\"SIGINT\",\"quiet_ms\":206.1,\"survivors\":"
    "0,"
    "\"background\":[{\"id\":\"job_1\",\"command\":\"make watch\"}],"
    "\"units\":[{\"kind\":\"model\",\"id\":\"m\",\"fate\":\"aborted\",\"ms\":0.5,"
    "\"detail\":\"stream cut after 812 bytes\"},"
    "{\"kind\":\"agent\",\"id\":\"agt_1\",\"name\":\"explore\",\"fate\":\"aborted\",\"ms\":204,"
    "\"units\":[{\"kind\":\"tool\",\"id\":\"call_1\",\"name\":\"bash\",\"fate\":\"killed\","
    "\"ms\":203.0,\"processes\":4,\"signal\":\"KILL\"}]}]}";

static void a_stop_shows_its_receipt(void **state)
{
    (void)state;
    begin(80, false);
    start_turn();
    say("I was just");
    tell((struct bl_event){.type = BL_EVENT_CANCEL_REQUESTED});
    phase("stopping");
    tell((struct bl_event){.type = BL_EVENT_RECEIPT, .json = bl_text_from(receipt)});
    end_turn("{\"stop_reason\":\"cancelled\"}");
    taken("I was just\n\n"
          "Stopped in 206 ms: 1 model call, 1 agent, 4 processes. Nothing left running.\n"
          "  model aborted   500 us  m, stream cut after 812 bytes\n"
          "  agent aborted   204 ms  explore\n"
          "    tool  killed    203 ms  bash, 4 processes, KILL\n"
          "  continues in the background: job_1  make watch\n"
          "Cancelled: the turn was not committed.\n");
    phase(NULL);
    end();
}

/* The receipt of a dead owner has no times. */
static void unknown_time_is_not_shown(void **state)
{
    (void)state;
    begin(80, false);
    chat_view_receipt(view, BL_TEXT("{\"survivors\":0,\"units\":["
                                    "{\"kind\":\"turn\",\"id\":\"turn_1\",\"fate\":\"killed\"},"
                                    "{\"kind\":\"robot\",\"name\":\"r2\",\"fate\":\"paused\","
                                    "\"ms\":0}]}"));
    taken("Stopped: 1 turn. Nothing left running.\n"
          "  turn  killed   unknown  turn_1\n"
          "  robot paused   less than 0.1 ms  r2\n");
    end();
}

static void survivors_are_red(void **state)
{
    (void)state;
    begin(60, true);
    chat_view_receipt(view, BL_TEXT("{\"quiet_ms\":1000,\"survivors\":2,\"units\":[{\"kind\":"
                                    "\"tool\",\"processes\":3,\"fate\":\"killed\"}]}"));
    taken("\x1b[1;31mStopped in 1 s: 3 processes. Still running: 2 processes.\x1b[0m\n");
    end();
}

static void a_broken_receipt_proves_nothing(void **state)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "[]",
                                        "{}",
                                        "{\"units\":{}}",
                                        "{\"units\":[1,{\"units\":[[]]}],\"survivors\":-1}",
                                        "{\"quiet_ms\":\"x\",\"background\":[2]}"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(texts); i++) {
        struct bl_buffer out;
        begin(400, false);
        bl_buffer_init(&out, SIZE_MAX / 2);
        tell((struct bl_event){.type = BL_EVENT_RECEIPT, .json = bl_text_from(texts[i])});
        chat_view_take_lines(view, &out);
        suite_fail_if(bl_text_find(bl_buffer_text(&out), BL_TEXT("Nothing left running")) >= 0,
                      "%s: " BL_TEXT_FORMAT, texts[i], BL_TEXT_ARG(bl_buffer_text(&out)));
        bl_buffer_done(&out);
        end();
    }
}

static void every_end_of_a_turn_has_a_text(void **state)
{
    static const struct {
        const char *result;
        const char *lines;
    } cases[] = {
        {"{\"stop_reason\":\"completed\"}", ""},
        {"{\"stop_reason\":\"max_turns_reached\"}",
         "Not answered: the session has reached its turn limit.\n"},
        {"{\"stop_reason\":\"max_budget_reached\"}", "Stopped: the budget is used up.\n"},
        {"{\"stop_reason\":\"max_steps_reached\"}",
         "Stopped: the limit for tool calls in one turn was reached.\n"},
        {"{\"stop_reason\":\"timeout\"}", "Stopped: the deadline was reached.\n"},
        {"{\"stop_reason\":\"cancelled\",\"interrupted\":true}",
         "Turn stopped; partial output kept.\n"},
        {"{\"stop_reason\":\"completed\",\"truncated\":true}",
         "The answer was cut off: the model's output limit was reached.\n"},
        {"{\"stop_reason\":\"error\",\"error\":{\"message\":\"no such model\",\"hint\":\"try "
         "another\"}}",
         "✗ no such model\n  try another\n"},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        begin(80, false);
        end_turn(cases[i].result);
        taken(cases[i].lines);
        end();
    }
}

/* ---- Other events ---------------------------------------------------------------------------- */

static void other_events_are_lines(void **state)
{
    struct bl_error error = {.message = "the disk is full", .hint = "make room"};
    struct bl_piece piece = {
        .retry = {.attempt = 2, .of = 4, .wait_ms = 1200, .code = "overloaded"}};

    (void)state;
    begin(60, false);
    start_turn();
    tell_text(BL_EVENT_WARNING, "a hook failed");
    tell((struct bl_event){.type = BL_EVENT_RETRY, .piece = &piece});
    phase("model: retry 2 of 4");
    say("half an ans");
    phase("model");
    tell((struct bl_event){.type = BL_EVENT_RETRY, .piece = &piece, .count = 11});
    live("");
    tell((struct bl_event){.type = BL_EVENT_COMPACTED, .count = 3});
    tell((struct bl_event){
        .type = BL_EVENT_MESSAGE_INJECTED, .status = "turn", .text = BL_TEXT("and the docs, too")});
    tell((struct bl_event){.type = BL_EVENT_ERROR, .error = &error});
    /* The same error in the turn's result is not shown twice. */
    end_turn("{\"stop_reason\":\"error\",\"error\":{\"message\":\"the disk is full\"}}");
    chat_view_say(view, BL_TEXT("Session x"), &(struct text_style){.dim = true});
    taken("! a hook failed\n"
          "retry 2 of 4 in 1.2 s: overloaded\n"
          "retry 2 of 4 in 1.2 s: overloaded; the answer starts over\n"
          "Compacted 3 earlier turns.\n\n"
          "> and the docs, too\n\n"
          "✗ the disk is full\n"
          "  make room\n"
          "Session x\n");
    end();
}

static void new_width_applies_from_now_on(void **state)
{
    (void)state;
    begin(40, false);
    say("one two three");
    live("one two three\n");
    chat_view_resize(view, 8);
    live("one two\nthree\n");
    end();
}

/* ---- Any events ------------------------------------------------------------------------------ */

static const char *const texts[] = {"word ",
                                    "\n",
                                    "\n\n",
                                    "# h\n",
                                    "```\n",
                                    "- a\n",
                                    "日本語",
                                    "\x1b[31mred",
                                    "\x07",
                                    "\xff\xfe",
                                    "👩‍👧 ",
                                    "a long line of text to be wrapped or cut in the middle ",
                                    "| a | b |\n|---|---|\n| 1 | 2 |\n",
                                    "\r",
                                    "\xE2\x80\xAE"};
static const char *const inputs[] = {
    "{\"command\":\"echo \\u001b[31m\"}",
    "{\"path\":\"日本\",\"content\":\"a\\nb\"}",
    "{",
    "{\"path\":\"x\",\"old_string\":\"a\",\"new_string\":\"\\u0007b\"}",
    "[]",
    "{\"todos\":[{\"content\":\"\\u001b]0;x\\u0007\",\"status\":\"pending\"},3]}",
    "{\"agent\":\"explore\",\"prompt\":\"a\\nb\"}"};
static const char *const tools[] = {"bash", "write", "edit", "todo", "task", "read", "\x1b[2J"};
static const char *const ids[] = {"c1", "c2", "c3"};
static const char *const agents[] = {NULL, NULL, "agt_1", "agt_2"};

#define PICK(list) (list[bl_random_below(random, BL_COUNT(list))])

static void tell_anything(struct bl_random *random)
{
    static const char *const statuses[] = {"ok",      "error",   "denied",
                                           "stopped", "allowed", "completed"};
    static const struct bl_error error = {.message = "bad \x1b[2J", .hint = "do\nthis"};
    static const struct bl_usage usage = {.input_tokens = 5};
    static const struct bl_piece piece = {.retry = {.attempt = 1, .of = 2, .code = "x"}};
    struct bl_event event = {.type =
                                 (enum bl_event_type)bl_random_below(random, BL_EVENT_ERROR + 1),
                             .agent = PICK(agents),
                             .id = bl_text_from(PICK(ids)),
                             .name = bl_text_from(PICK(tools)),
                             .text = bl_text_from(PICK(texts)),
                             .json = bl_text_from(PICK(inputs)),
                             .status = PICK(statuses),
                             .child = PICK(agents),
                             .nested = bl_random_below(random, 2) == 0,
                             .cell = PICK(ids),
                             .error = &error,
                             .usage = &usage,
                             .piece = &piece,
                             .ms = bl_random_below(random, 5000),
                             .count = bl_random_below(random, 2)};

    if (event.type == BL_EVENT_SUBAGENT_STARTED && event.child == NULL)
        event.child = "agt_1";
    if (event.type == BL_EVENT_RECEIPT && bl_random_below(random, 2) == 0)
        event.json = bl_text_from(receipt);
    chat_view_event(view, &event);
}

static void check_lines(struct bl_text text, size_t columns, bool colours)
{
    struct bl_text line;

    assert_true(text.size == 0 || text.data[text.size - 1] == '\n');
    while (bl_text_split(&text, '\n', &line)) {
        const char *last = line.size == 0 ? NULL : memrchr(line.data, '\x1b', line.size);
        assert_true(text_line_width(line) <= columns);
        assert_true(colours || last == NULL);
        assert_true(last == NULL || memcmp(last, "\x1b[0m", 4) == 0);
        assert_true(bl_text_find(line, BL_TEXT("\x1b[2J")) < 0);
        assert_true(bl_text_find(line, BL_TEXT("\x07")) < 0);
        assert_true(bl_utf8_valid(line));
    }
}

static void any_events_give_lines_that_fit(void **state)
{
    unsigned long rounds = suite_rounds(300, 30000);
    struct bl_random seed, *random = &seed;
    struct bl_buffer out;

    (void)state;
    bl_random_seed(random, 7);
    bl_buffer_init(&out, SIZE_MAX / 2);
    for (unsigned long round = 0; round < rounds; round++) {
        size_t columns = 20 + bl_random_below(random, 180);
        bool colours = bl_random_below(random, 2) == 0;
        begin(columns, colours);
        for (int i = 0; i < 40; i++) {
            tell_anything(random);
            chat_view_live(view, 10, &out);
            check_lines(bl_buffer_text(&out), columns, colours);
            bl_buffer_clear(&out);
            chat_view_take_lines(view, &out);
            check_lines(bl_buffer_text(&out), columns, colours);
        }
        end();
    }
    bl_buffer_done(&out);
}

/* The stack of a fiber is small. */
static int view_on_a_fiber(void *argument)
{
    static const char *const deep[] = {"> ", "- ", "[", "*a ", "![", "| a ", "  "};
    struct bl_buffer text;

    (void)argument;
    bl_buffer_init(&text, SIZE_MAX / 2);
    for (size_t i = 0; i < BL_COUNT(deep); i++) {
        for (int count = 0; count < 4000; count++)
            bl_buffer_append(&text, bl_text_from(deep[i]));
        bl_buffer_append(&text, BL_TEXT("x\n|---|---|\n\n"));
    }
    begin(60, true);
    tell((struct bl_event){.type = BL_EVENT_TEXT_DELTA, .text = bl_buffer_text(&text)});
    request("c1", "edit", "{\"path\":\"a\",\"old_string\":\"a\\nb\",\"new_string\":\"b\"}");
    bl_buffer_clear(&text);
    chat_view_live(view, 10, &text);
    ended("c1", "ok", 1, "");
    chat_view_receipt(view, bl_text_from(receipt));
    chat_view_take_lines(view, &text);
    CHECK(text.size > 0);
    end();
    bl_buffer_done(&text);
    return 0;
}

static void view_fits_on_the_stack_of_a_fiber(void **state)
{
    (void)state;
    run_in_loop(view_on_a_fiber, NULL);
}

SUITE(chat_view, cmocka_unit_test(a_conversation_is_prompts_and_markdown),
      cmocka_unit_test(thinking_is_dim_and_short),
      cmocka_unit_test(a_cell_is_a_line_for_what_it_does_and_its_calls_are_calls),
      cmocka_unit_test(sub_agents_have_their_calls_below_them_and_end_in_a_line),
      cmocka_unit_test(stopped_sub_agent_is_marked), cmocka_unit_test(a_stop_shows_its_receipt),
      cmocka_unit_test(unknown_time_is_not_shown), cmocka_unit_test(survivors_are_red),
      cmocka_unit_test(a_broken_receipt_proves_nothing),
      cmocka_unit_test(every_end_of_a_turn_has_a_text), cmocka_unit_test(other_events_are_lines),
      cmocka_unit_test(new_width_applies_from_now_on),
      cmocka_unit_test(any_events_give_lines_that_fit),
      cmocka_unit_test(view_fits_on_the_stack_of_a_fiber));
