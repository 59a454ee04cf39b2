#include <stdio.h>

#include "events.h"

/* ---- Calls ----------------------------------------------------------------------------------- */

static void a_call_shows_the_last_lines_of_its_output_while_it_runs(void **state)
{
    (void)state;
    begin(40, false);
    start_turn();
    say("I run it.");
    request("c1", "bash", "{\"command\":\"make  test\\n\"}");
    taken("I run it.\n");
    phase("bash: make  test");
    output("c1", "one\ntwo\nthree\nfour\nfive\nsix\nsev");
    live("\n"
         "● bash  make  test\n"
         "  three\n"
         "  four\n"
         "  five\n"
         "  six\n"
         "  sev\n");
    ended("c1", "error", 1234, "…\nexit code 2");
    taken("\n"
          "● bash  make  test (exit code 2, 1.2 s)\n"
          "  one\n"
          "  two\n"
          "  three\n"
          "  four\n"
          "  five\n"
          "  six\n"
          "  sev\n");
    live("");
    phase("model");
    end();
}

static void a_long_output_keeps_its_first_and_last_lines(void **state)
{
    (void)state;
    begin(40, false);
    request("c1", "bash", "{\"command\":\"seq 100\"}");
    for (int i = 1; i <= 100; i++) {
        char line[16];
        snprintf(line, sizeof line, "%d\n", i);
        output("c1", line);
    }
    ended("c1", "ok", 12, "");
    taken("● bash  seq 100 (12 ms)\n"
          "  1\n"
          "  2\n"
          "  3\n"
          "  … 93 more lines (Ctrl+O)\n"
          "  97\n"
          "  98\n"
          "  99\n"
          "  100\n");
    end();
}

static void output_is_shown_without_its_escape_sequences(void **state)
{
    (void)state;
    begin(40, true);
    request("c1", "bash", "{\"command\":\"x\"}");
    output("c1", "\x1b[1;31mred\x1b[0m\x1b]0;title\x07 \x1b(Bend\n10%\r55%\r100%\r\n\x1b[2");
    output("c1", "Jlast \x1b]8;;http://x.test\x1b\\link\x1b]8;;\x1b\\\a\n\x07");
    ended("c1", "ok", 1, "");
    taken("\x1b[32m● \x1b[0;1mbash\x1b[0m  x\x1b[2m (1 ms)\x1b[0m\n"
          "  \x1b[2mred end\x1b[0m\n"
          "  \x1b[2m100%\x1b[0m\n"
          "  \x1b[2mlast link\x1b[0m\n");
    end();
}

static void reading_takes_one_line_with_counts(void **state)
{
    (void)state;
    begin(60, false);
    request("c1", "read", "{\"path\":\"src/a.c\",\"offset\":10,\"limit\":5}");
    request("c2", "grep", "{\"pattern\":\"foo.*\",\"path\":\"src\"}");
    request("c3", "glob", "{\"pattern\":\"**/*.c\"}");
    request("c4", "ls", "{}");
    phase("4 tools");
    live("● read  src/a.c lines 10-14\n"
         "● grep  foo.* in src\n"
         "● glob  **/*.c\n"
         "● ls  .\n");
    ended("c3", "ok", 1, "a.c\nb.c");
    ended("c1", "ok", 1500, "a\nb\nc\n");
    ended("c2", "ok", 1, "");
    ended("c4", "error", 1, "there is no folder 'x' here");
    taken("● glob  **/*.c (2 lines)\n"
          "● read  src/a.c lines 10-14 (3 lines, 1.5 s)\n"
          "● grep  foo.* in src\n"
          "● ls  . (failed)\n"
          "  there is no folder 'x' here\n");
    end();
}

static void a_long_input_is_cut_and_its_summary_is_not(void **state)
{
    (void)state;
    begin(40, false);
    request("c1", "bash", "{\"command\":\"find . -name '*.c' -exec grep -l something {} +\"}");
    ended("c1", "ok", 2000, "");
    taken("● bash  find . -name '*.c' -exec … (2 s)\n");
    end();
}

static void cut_input_is_marked(void **state)
{
    const struct bl_json *input;
    struct bl_buffer text;
    struct bl_arena arena;

    (void)state;
    bl_arena_init(&arena);
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_append(&text, BL_TEXT("{\"command\":\""));
    for (int i = 0; i < 5000; i++)
        bl_buffer_append_byte(&text, 'x');
    bl_buffer_append(&text, BL_TEXT("\"}"));
    assert_int_equal(bl_json_read(&arena, bl_buffer_text(&text), NULL, &input, NULL), 0);
    struct bl_text line = chat_input_line(&arena, "bash", input);
    assert_true(bl_text_ends_with(line, BL_TEXT("xxx… (and 1000 bytes more)")));
    bl_buffer_done(&text);
    bl_arena_done(&arena);
}

/* A value of the wrong type is left out and the rest is shown: the call was made anyway. */
static void each_tool_has_its_line(void **state)
{
    static const struct {
        const char *tool, *input, *line;
    } rows[] = {
        {"bash", "{\"command\":\" make \",\"background\":true}", "make  &"},
        {"bash", "{\"job\":\"job_1\",\"stop\":true}", "stop job_1"},
        {"bash", "{\"command\":7,\"job\":\"job_1\"}", "job_1"},
        {"read", "{\"path\":\"a\",\"limit\":3}", "a"},
        {"read", "{\"path\":\"a\",\"offset\":7}", "a from line 7"},
        {"read", "{\"path\":\"a\",\"offset\":9223372036854775807,\"limit\":2}",
         "a from line 9223372036854775807"},
        {"write", "{\"path\":\"a\",\"content\":\"b\"}", "a"},
        {"edit", "{\"path\":\"a\",\"old_string\":\"b\",\"new_string\":\"b\"}", "a"},
        {"ls", "{\"depth\":2}", "."},
        {"glob", "{\"pattern\":\"*\",\"path\":\"b\"}", "* in b"},
        {"grep", "{\"pattern\":\"a\",\"glob\":\"*.c\"}", "a in *.c"},
        {"grep", "{\"pattern\":\"a\",\"path\":\"b\",\"glob\":\"*.c\"}", "a in b"},
        {"todo",
         "{\"todos\":[{\"content\":\"a\",\"status\":\"completed\"},{\"content\":\"b\","
         "\"status\":\"later\"}]}",
         "1 of 2 done"},
        {"todo", "{}", "0 of 0 done"},
        {"exec", "{\"source\":\"// @exec: {}\\n\\n  text(1)\\ntext(2)\"}", "text(1)"},
        {"wait", "{\"cell_id\":\"c-1\",\"terminate\":true}", "terminate c-1"},
        {"task", "{\"agent\":\"scout\",\"prompt\":\"look\"}", "scout: look"},
        {"mcp__a__b", "{\"path\":\"a\"}", "{\"path\":\"a\"}"},
        {"mcp__a__b", "{}", ""},
        {"bash", "[]", ""},
    };
    struct bl_arena arena;

    (void)state;
    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        const struct bl_json *input;
        assert_int_equal(bl_json_read(&arena, bl_text_from(rows[i].input), NULL, &input, NULL), 0);
        struct bl_text line = chat_input_line(&arena, rows[i].tool, input);
        if (!bl_text_equal(line, bl_text_from(rows[i].line)))
            fail_msg("%s %s: " BL_TEXT_FORMAT, rows[i].tool, rows[i].input, BL_TEXT_ARG(line));
    }
    bl_arena_done(&arena);
}

static void a_change_of_a_file_shows_its_lines(void **state)
{
    (void)state;
    begin(40, true);
    request("c1", "edit",
            "{\"path\":\"a.c\",\"old_string\":\"a\\nb\\nc\\nd\\ne\\n\",\"new_string\":"
            "\"a\\nb\\nC\\nnew\\nd\\ne\\n\"}");
    live("\x1b[33m● \x1b[0;1medit\x1b[0m  a.c\n"
         "  \x1b[2m  a\x1b[0m\n"
         "  \x1b[2m  b\x1b[0m\n"
         "  \x1b[31m- c\x1b[0m\n"
         "  \x1b[32m+ C\x1b[0m\n"
         "  \x1b[32m+ new\x1b[0m\n"
         "  \x1b[2m  d\x1b[0m\n"
         "  \x1b[2m  e\x1b[0m\n");
    end();
    begin(40, false);
    request("c1", "edit",
            "{\"path\":\"a.c\",\"old_string\":\"a\\nb\\nc\",\"new_string\":\"b\\nx\\nc\"}");
    ended("c1", "ok", 1, "");
    taken("● edit  a.c (+1 -1)\n"
          "  - a\n"
          "    b\n"
          "  + x\n"
          "    c\n");
    request("c2", "edit", "{\"path\":\"a.c\",\"old_string\":\"a\",\"new_string\":\"b\"}");
    ended("c2", "error", 1, "'old_string' is not in a.c.\nNearest: line 3");
    taken("● edit  a.c (failed)\n"
          "  'old_string' is not in a.c.\n"
          "  Nearest: line 3\n");
    end();
}

static void a_long_change_is_bounded(void **state)
{
    struct bl_buffer input;

    (void)state;
    begin(40, false);
    bl_buffer_init(&input, SIZE_MAX / 2);
    bl_buffer_append(&input, BL_TEXT("{\"path\":\"new.txt\",\"content\":\""));
    for (int i = 1; i <= 500; i++)
        bl_buffer_append(&input, BL_TEXT("x\\n"));
    bl_buffer_append(&input, BL_TEXT("\"}"));
    bl_buffer_append_byte(&input, '\0');
    request("c1", "write", input.data);
    ended("c1", "ok", 1, "");
    bl_buffer_done(&input);
    taken("● write  new.txt (+500 -0)\n"
          "  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n"
          "  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n  + x\n"
          "  … 480 more lines (Ctrl+O)\n");
    end();
}

static void todos_are_a_check_list(void **state)
{
    (void)state;
    begin(40, false);
    request("c1", "todo",
            "{\"todos\":[{\"content\":\"look\",\"status\":\"completed\"},"
            "{\"content\":\"change what is wrong in all the files\",\"status\":\"in_progress\"},"
            "{\"content\":\"test\",\"status\":\"pending\"}]}");
    ended("c1", "ok", 1, "");
    taken("● todo  1 of 3 done\n"
          "  [x] look\n"
          "  [>] change what is wrong in all the\n"
          "      files\n"
          "  [ ] test\n");
    end();
}

static void other_tools_show_their_input_as_it_is(void **state)
{
    (void)state;
    begin(40, false);
    request("c1", "mcp__x__y", "{\"a\":1,\"b\":[true]}");
    request("c2", "mcp__x__z", "{}");
    request("c3", "broken", "{\"a\":");
    live("● mcp__x__y  {\"a\":1,\"b\":[true]}\n"
         "● mcp__x__z\n"
         "● broken\n");
    ended("c3", "invalid", 0, "");
    taken("● broken\n"
          "  not run: invalid input\n");
    end();
}

static void several_calls_at_once_have_their_own_lines(void **state)
{
    (void)state;
    begin(40, false);
    request("c1", "bash", "{\"command\":\"one\"}");
    request("c2", "bash", "{\"command\":\"two\"}");
    output("c1", "1a\n1b\n1c\n");
    output("c2", "2a\n");
    live("● bash  one\n"
         "  1b\n"
         "  1c\n"
         "● bash  two\n"
         "  2a\n");
    ended("c2", "ok", 5, "");
    taken("● bash  two (5 ms)\n"
          "  2a\n");
    live("● bash  one\n"
         "  1a\n"
         "  1b\n"
         "  1c\n");
    end();
}

static void calls_pending_at_the_end_of_the_turn_were_not_run(void **state)
{
    (void)state;
    begin(40, false);
    request("c1", "bash", "{\"command\":\"one\"}");
    end_turn("{\"stop_reason\":\"max_steps_reached\"}");
    taken("● bash  one (not run)\n"
          "\n"
          "Stopped: the limit for tool calls in one\n"
          "turn was reached.\n");
    end();
}

/* ---- Permissions ----------------------------------------------------------------------------- */

static void question_is_shown_below_its_call(void **state)
{
    (void)state;
    begin(40, false);
    start_turn();
    tell((struct bl_event){.type = BL_EVENT_TOOL_REQUESTED,
                           .id = BL_TEXT("c1"),
                           .name = BL_TEXT("bash"),
                           .json = BL_TEXT("{\"command\":\"rm -rf build\"}")});
    tell((struct bl_event){.type = BL_EVENT_PERMISSION_ASKED,
                           .id = BL_TEXT("c1"),
                           .text = BL_TEXT("may 'rm -rf build' run outside of the sandbox?")});
    phase("waiting for your answer");
    live("● bash  rm -rf build\n"
         "  ? may 'rm -rf build' run outside of\n"
         "    the sandbox?\n");
    tell((struct bl_event){.type = BL_EVENT_PERMISSION_ANSWERED,
                           .id = BL_TEXT("c1"),
                           .status = "denied",
                           .text = BL_TEXT("the user said no")});
    live("● bash  rm -rf build\n");
    ended("c1", "denied", 0, "");
    taken("● bash  rm -rf build (denied)\n"
          "  the user said no\n");
    end();
}

SUITE(chat_call, cmocka_unit_test(a_call_shows_the_last_lines_of_its_output_while_it_runs),
      cmocka_unit_test(a_long_output_keeps_its_first_and_last_lines),
      cmocka_unit_test(output_is_shown_without_its_escape_sequences),
      cmocka_unit_test(reading_takes_one_line_with_counts),
      cmocka_unit_test(a_long_input_is_cut_and_its_summary_is_not),
      cmocka_unit_test(cut_input_is_marked), cmocka_unit_test(each_tool_has_its_line),
      cmocka_unit_test(a_change_of_a_file_shows_its_lines),
      cmocka_unit_test(a_long_change_is_bounded), cmocka_unit_test(todos_are_a_check_list),
      cmocka_unit_test(other_tools_show_their_input_as_it_is),
      cmocka_unit_test(several_calls_at_once_have_their_own_lines),
      cmocka_unit_test(calls_pending_at_the_end_of_the_turn_were_not_run),
      cmocka_unit_test(question_is_shown_below_its_call));
