#include "seat_rig.h"

#define BIG ((size_t)5 << 20)

static bool result_is(const struct rig *rig, const char *text)
{
    return CHECK(bl_text_equal(bl_text_trim(rig->outcome.result), bl_text_from(text)));
}

/* ---- Results --------------------------------------------------------------------------------- */

PLAY(result_comes_from_the_file)
{
    rig_shell(rig, "printf '```json\\n{\"summary\":\"said\"}\\n```\\n'; "
                   "printf '{\"summary\":\"written\"}' > \"$BELAY_RESULT\"; exit 4");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK_EQUAL(rig->outcome.exit_code, 4);
    CHECK_EQUAL(rig->outcome.survivors, 0);
    result_is(rig, "{\"summary\":\"written\"}");
    CHECK(has(rig->outcome.text, "said"));
}

PLAY(last_fenced_block_of_stdout_counts_without_a_file)
{
    rig_shell(rig, "printf 'a\\n```json\\n{\"summary\":\"one\"}\\n```\\nb\\n```json\\n"
                   "{\"summary\":\"two\"}\\n```\\nc\\n'; "
                   "printf '```json\\n{\"summary\":\"error\"}\\n```\\n' >&2");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    result_is(rig, "{\"summary\":\"two\"}");
    CHECK(has(rig->outcome.text, "error"));
}

PLAY(stdout_counts_if_it_is_one_object)
{
    rig_shell(rig, "echo noise >&2; echo ' {\"summary\": \"whole\"} '");
    result_is(rig, "{\"summary\": \"whole\"}");
    CHECK(has(rig->outcome.text, "noise"));
}

PLAY(prose_on_stdout_is_not_a_result)
{
    rig_shell(rig, "echo I am done.");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK_EQUAL(rig->outcome.result.size, 0);
    CHECK(!rig->outcome.usage_known);
    CHECK(bl_text_equal(rig->outcome.text, BL_TEXT("I am done.\n")));
}

PLAY(oversized_result_is_recognized)
{
    rig_shell(rig, "head -c 400000 /dev/zero | tr '\\0' ' ' > \"$BELAY_RESULT\"; "
                   "echo '{}' >> \"$BELAY_RESULT\"");
    /* Only blanks in the part that is read. */
    CHECK_EQUAL(rig->outcome.result.size, 0);
    rig_shell(rig, "(printf '{\"summary\":\"'; head -c 400000 /dev/zero | tr '\\0' x; "
                   "printf '\"}') > \"$BELAY_RESULT\"");
    CHECK_EQUAL(rig->outcome.result.size, VERDICT_SIZE_MAX + 1);
}

PLAY(only_a_regular_file_is_a_result)
{
    rig_write(rig, "elsewhere", "{\"summary\":\"not yours\"}");
    rig_shell(rig, "ln -s \"$PWD/../elsewhere\" \"$BELAY_RESULT\"");
    CHECK_EQUAL(rig->outcome.result.size, 0);
    rig_shell(rig, "mkfifo \"$BELAY_RESULT\"");
    CHECK_EQUAL(rig->outcome.result.size, 0);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
}

PLAY(leftover_result_of_an_earlier_run_does_not_count)
{
    rig_write(rig, "results/result.json", "{\"summary\":\"old\"}");
    rig_shell(rig, "exit 0");
    CHECK_EQUAL(rig->outcome.result.size, 0);
}

PLAY(usage_is_known_if_reported)
{
    rig_shell(rig, "echo '{\"usage\":{\"input_tokens\":70,\"output_tokens\":7,"
                   "\"cost_usd\":0.25}}'");
    CHECK(rig->outcome.usage_known);
    CHECK_EQUAL(bl_usage_total(&rig->outcome.spent.usage), 77);
    CHECK(!rig->outcome.spent.cost_unknown && rig->outcome.spent.cost_usd == 0.25);
    rig_shell(rig, "echo '{\"summary\":\"no word of it\"}'");
    CHECK(!rig->outcome.usage_known);
    CHECK_EQUAL(bl_usage_total(&rig->outcome.spent.usage), 0);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

PLAY(exit_codes_are_those_of_a_shell)
{
    rig_shell(rig, "exit 7");
    CHECK_EQUAL(rig->outcome.exit_code, 7);
    rig_shell(rig, "kill -KILL $$");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK_EQUAL(rig->outcome.exit_code, 128 + 9);
}

PLAY(seat_that_cannot_start_reports_why)
{
    rig_words(rig, WORDS("no-such-program-here"));
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK_EQUAL(rig->outcome.error.code, BL_ENOENT);
    CHECK(has(bl_text_from(rig->outcome.error.message), "no-such-program-here"));
    rig_words(rig, WORDS("./README.md"));
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK_EQUAL(rig->outcome.error.code, BL_EACCES);
    rig->order.directory = "/nonexistent/folder";
    rig_words(rig, WORDS("true"));
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK(rig->outcome.error.message[0] != '\0');
}

/* ---- Input and environment ------------------------------------------------------------------- */

PLAY(program_with_a_slash_is_relative_to_the_repository)
{
    rig_write(rig, "repo/coach", "#!/bin/sh\necho from the repository\npwd\n");
    rig->order.directory = rig->results;
    rig_words(rig, WORDS("./coach"));
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK(has(rig->outcome.text, "from the repository"));
    CHECK(has(rig->outcome.text, rig->results));
}

PLAY(command_gets_belays_environment_and_its_own_variables)
{
    setenv("SEAT_TEST_API_KEY", "kept", 1);
    setenv("BELAY_TURN", "77", 1);
    setenv("BELAY_DEADLINE_MS", "77", 1);
    rig_shell(rig, "env");
    struct bl_text text = rig->outcome.text;
    CHECK(has(text, "SEAT_TEST_API_KEY=kept\n"));
    CHECK(has(text, "BELAY_FEATURE=FEAT-1\n"));
    CHECK(has(text, rig->task));
    CHECK(has(text, "BELAY_ATTEMPT=2\n"));
    CHECK(has(text, "BELAY_TURN=3\n"));
    CHECK(has(text, "BELAY_PHASE=player\n"));
    CHECK(has(text, rig->result_path));
    CHECK(bl_text_find(text, BL_TEXT("BELAY_DEADLINE_MS=")) < 0);
    CHECK(bl_text_find(text, BL_TEXT("=77\n")) < 0);
    rig->order.coach = true;
    rig->order.deadline_ns = bl_now_ns() + 100 * BL_NS_PER_S;
    rig_shell(rig, "test \"$BELAY_DEADLINE_MS\" -gt 50000 && "
                   "test \"$BELAY_DEADLINE_MS\" -le 100000 && echo $BELAY_PHASE");
    CHECK(bl_text_equal(rig->outcome.text, BL_TEXT("coach\n")));
    unsetenv("SEAT_TEST_API_KEY");
    unsetenv("BELAY_TURN");
    unsetenv("BELAY_DEADLINE_MS");
}

static struct bl_text big_prompt(struct rig *rig)
{
    char *data = bl_arena_alloc(&rig->arena, BIG);

    memset(data, 'x', BIG);
    return (struct bl_text){data, BIG};
}

PLAY(prompt_is_on_standard_input_read_or_not)
{
    rig_shell(rig, "cat");
    CHECK(bl_text_equal(rig->outcome.text, BL_TEXT("the prompt\n")));
    rig->order.prompt = big_prompt(rig);
    rig_shell(rig, "wc -c");
    CHECK(has(rig->outcome.text, "5242880"));
    rig_shell(rig, "exit 3");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK_EQUAL(rig->outcome.exit_code, 3);
    rig_shell(rig, "head -c 10");
    CHECK(bl_text_equal(rig->outcome.text, BL_TEXT("xxxxxxxxxx")));
}

PLAY(prompt_can_be_an_argument)
{
    rig->order.prompt = BL_TEXT("say \"it\" {prompt_file} $HOME");
    rig_words(rig, WORDS("sh", "-c", "cat; printf '%s|' \"$@\"", "sh", "--text={prompt}!", "x"));
    rig_run(rig);
    CHECK(bl_text_equal(rig->outcome.text, BL_TEXT("--text=say \"it\" {prompt_file} $HOME!|x|")));
    struct bl_text big = big_prompt(rig);
    rig->order.prompt = (struct bl_text){big.data, 120000};
    rig_words(rig, WORDS("sh", "-c", "printf %s \"$1\" | wc -c", "sh", "{prompt}"));
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK(has(rig->outcome.text, "120000"));
    rig->order.prompt.size++;
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK_EQUAL(rig->outcome.error.code, BL_ELIMIT);
    CHECK(has(bl_text_from(rig->outcome.error.message), "120001"));
    CHECK(has(bl_text_from(rig->outcome.error.hint), "{prompt_file}"));
}

PLAY(prompt_can_be_a_file)
{
    rig->order.prompt = big_prompt(rig);
    rig_words(rig, WORDS("sh", "-c", "cat; wc -c < \"$1\"; echo \"$1\"", "sh", "{prompt_file}"));
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK(has(rig->outcome.text, "5242880\n"));
    CHECK(has(rig->outcome.text, rig->results));
    CHECK_EQUAL(rmdir(rig->results), 0); /* the folder is empty */
    rig_run(rig);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK_EQUAL(rig->outcome.error.kind, BL_KIND_FILESYSTEM);
    CHECK_EQUAL(mkdir(rig->results, 0700), 0);
}

/* ---- Output ---------------------------------------------------------------------------------- */

PLAY(large_output_is_bounded_and_its_end_is_searched)
{
    rig_shell(rig, "printf '```json\\n{\"summary\":\"early\"}\\n```\\n'; "
                   "head -c 6000000 /dev/zero | tr '\\0' y; head -c 3000000 /dev/zero >&2; "
                   "printf '\\n```json\\n{\"summary\":\"last\"}\\n```\\n'");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    result_is(rig, "{\"summary\":\"last\"}");
    CHECK(rig->outcome.text.size <= SEAT_OUTPUT_MAX);
    CHECK(bl_utf8_valid(rig->outcome.text));
    CHECK(rig->heard_size > 9000000);
    CHECK(strcmp(rig->doing, "output,") == 0);
    /* A block with an unknown start does not count, and an early one is not the last. */
    rig_shell(rig, "printf '```json\\n{\"summary\":\"early\"}\\n```\\n```json\\n{\"summary\":\"'; "
                   "head -c 3000000 /dev/zero | tr '\\0' y; printf '\"}\\n```\\n'");
    CHECK_EQUAL(rig->outcome.result.size, 0);
}

PLAY(invalid_output_becomes_valid_text)
{
    rig_shell(rig, "printf 'a\\377b\\000c\\303'");
    CHECK(bl_text_equal(rig->outcome.text, BL_TEXT("a\xEF\xBF\xBD"
                                                   "b\xEF\xBF\xBD"
                                                   "c\xEF\xBF\xBD")));
}

PLAY(output_held_open_by_a_grandchild_does_not_delay_the_end)
{
    uint64_t start_ns = bl_now_ns();

    rig_shell(rig, "setsid sleep 60 & sleep 60 & echo out; echo '{}' > \"$BELAY_RESULT\"");
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK_EQUAL(rig->outcome.exit_code, 0);
    CHECK(bl_text_equal(rig->outcome.text, BL_TEXT("out\n")));
    result_is(rig, "{}");
    CHECK(bl_now_ns() - start_ns < LONG_NS / 2);
    CHECK_EQUAL(rig_processes(rig), 0);
}

/* ---- Stops ----------------------------------------------------------------------------------- */

#define STUBBORN                                                                                   \
    "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo below; while :; do sleep 1; done' & "        \
    "while :; do sleep 1; done"

PLAY(F5_tree_that_ignores_sigterm_is_gone_soon_after_its_grace)
{
    uint64_t grace_ns = 300 * MS;

    rig->seat.grace_ns = grace_ns;
    rig_stop_on(rig, "below");
    rig_shell(rig, STUBBORN);
    struct bl_stop stop;
    bl_scope_stop_read(&rig->scope, &stop);
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK(bl_now_ns() - stop.time_ns >= grace_ns);
    CHECK(bl_now_ns() - stop.time_ns < grace_ns + 20 * BL_NS_PER_S);
    CHECK_EQUAL(rig_processes(rig), 0);
    CHECK_EQUAL(rig->outcome.survivors, 0);
    CHECK(has(rig->outcome.text, "below"));
    struct bl_text receipt = rig_receipt(rig);
    CHECK(has(receipt, "\"survivors\":0"));
    CHECK(has(receipt, "\"kind\":\"command\""));
    CHECK(has(receipt, "\"name\":\"player\""));
    CHECK(has(receipt, rig->task));
    CHECK(has(receipt, "\"fate\":\"killed\""));
}

PLAY(deadline_stops_a_command)
{
    rig->order.coach = true;
    bl_scope_set_deadline(&rig->scope, bl_now_ns() + 100 * MS);
    rig_shell(rig, "sleep 60");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK_EQUAL(rig_processes(rig), 0);
    struct bl_text receipt = rig_receipt(rig);
    CHECK(has(receipt, "\"reason\":\"timeout\""));
    CHECK(has(receipt, "\"name\":\"coach\""));
    CHECK(has(receipt, "\"fate\":\"aborted\""));
}

PLAY(F19_result_that_is_complete_after_the_stop_is_kept)
{
    rig_stop_on(rig, "ready");
    rig_shell(rig, "trap 'echo \"{\\\"task\\\":\\\"T\\\"}\" > \"$BELAY_RESULT\"; exit 0' TERM; "
                   "echo ready; sleep 300 & wait");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    result_is(rig, "{\"task\":\"T\"}");
    rig_fresh_scope(rig);
    rig_stop_on(rig, "half");
    rig_shell(rig, "printf '{\"task\":' > \"$BELAY_RESULT\"; echo half; sleep 60");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK_EQUAL(rig->outcome.result.size, 0);
    /* Output may be incomplete: after a stop only the file counts. */
    rig_fresh_scope(rig);
    rig_stop_on(rig, "printed");
    rig_shell(rig, "echo '{\"summary\":\"printed\"}'; sleep 60");
    CHECK_EQUAL(rig->outcome.result.size, 0);
    CHECK(has(rig->outcome.text, "printed"));
}

PLAY(stopped_scope_starts_nothing)
{
    rig_stop(rig);
    rig_shell(rig, "touch started");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK(!rig_has_file(rig, "started"));
}

static void stop_and_hurry(struct rig *rig)
{
    rig_stop(rig);
    seat_house_hurry(&rig->house);
}

PLAY(hurry_skips_the_grace_of_running_and_later_seats)
{
    uint64_t start_ns = bl_now_ns();

    rig->seat.grace_ns = LONG_NS;
    rig->trigger = "below";
    rig->on_trigger = stop_and_hurry;
    rig_shell(rig, STUBBORN);
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    rig_fresh_scope(rig);
    rig_stop_on(rig, "ready");
    rig_shell(rig, "trap '' TERM; echo ready; while :; do sleep 1; done");
    CHECK_EQUAL(rig->outcome.end, SEAT_STOPPED);
    CHECK(bl_now_ns() - start_ns < LONG_NS / 2);
    CHECK_EQUAL(rig_processes(rig), 0);
}

/* The scope's deadline falls at some moment of its start, its work or its end. */
PLAY(stop_at_any_moment_leaves_nothing)
{
    unsigned long rounds = suite_rounds(20, 2000), ended = 0;
    struct bl_random random;

    bl_random_seed(&random, 7);
    rig_words(rig, WORDS("sh", "-c", "sleep 60 & echo '{}' > \"$BELAY_RESULT\""));
    uint64_t usual_ns = rig_usual_ns(rig);
    for (unsigned long i = 0; i < rounds; i++) {
        rig_fresh_scope(rig);
        bl_scope_set_deadline(&rig->scope, bl_now_ns() + bl_random_below(&random, 2 * usual_ns));
        rig_run(rig);
        CHECK(rig->outcome.end == SEAT_STOPPED || rig->outcome.end == SEAT_ENDED);
        ended += rig->outcome.end == SEAT_ENDED;
        CHECK_EQUAL(rig->outcome.survivors, 0);
        if (rig->outcome.end == SEAT_ENDED)
            result_is(rig, "{}");
        bl_arena_reset(&rig->arena);
    }
    CHECK_EQUAL(rig_processes(rig), 0);
    print_message("%lu of %lu finished\n", ended, rounds);
}

/* ---- Sandboxes ------------------------------------------------------------------------------- */

static bool sandboxed(void)
{
    struct bl_container_check *check = bl_zalloc(sizeof *check);

    bl_sandbox_check(check);
    bool available = check->available;
    if (!available)
        print_message("no sandbox here: %s\n", check->detail);
    bl_free(check);
    return available;
}

PLAY(sandboxed_command_writes_only_its_worktree_and_its_result)
{
    if (!sandboxed())
        return;
    rig->order.directory = bl_arena_printf(&rig->arena, "%s/work", rig->place.root).data;
    CHECK_EQUAL(mkdir(rig->order.directory, 0700), 0);
    rig->seat.sandbox = BL_SANDBOX_WORKSPACE;
    rig->seat.sandbox_chosen = true;
    char *script = bl_alloc(2048);
    snprintf(script, 2048,
             "touch inside || exit 1; test -e '%s/HEAD' || exit 2; "
             "{ touch '%s/belay-was-here'; } 2>/dev/null && exit 3; "
             "test -e '%s/README.md' && exit 4; echo '{}' > \"$BELAY_RESULT\"; cat",
             rig->git_folder, rig->git_folder, rig->place.repository);
    rig_shell(rig, script);
    CHECK_EQUAL(rig->outcome.end, SEAT_ENDED);
    CHECK_EQUAL(rig->outcome.exit_code, 0);
    CHECK(has(rig->outcome.text, "the prompt"));
    result_is(rig, "{}");
    rig->seat.sandbox = BL_SANDBOX_READ_ONLY;
    rig_shell(rig, "{ touch outside; } 2>/dev/null && exit 1; echo '{}' > \"$BELAY_RESULT\"");
    CHECK_EQUAL(rig->outcome.exit_code, 0);
    result_is(rig, "{}");
    rig_words(rig, WORDS("sh", "-c", "cat \"$1\"", "sh", "{prompt_file}"));
    rig_run(rig);
    CHECK(has(rig->outcome.text, "the prompt"));
    bl_free(script);
}

PLAY(missing_sandbox_is_an_error)
{
    char *path = strdup(getenv("PATH"));

    rig->seat.sandbox = BL_SANDBOX_WORKSPACE;
    setenv("PATH", "/nonexistent", 1);
    rig_words(rig, WORDS("/bin/true"));
    rig_run(rig);
    setenv("PATH", path, 1);
    CHECK_EQUAL(rig->outcome.end, SEAT_UNSTARTED);
    CHECK_EQUAL(rig->outcome.error.code, BL_ENOTSUP);
    CHECK(has(bl_text_from(rig->outcome.error.message), "sandbox"));
    free(path);
}

SUITE(seat_command, cmocka_unit_test(result_comes_from_the_file),
      cmocka_unit_test(last_fenced_block_of_stdout_counts_without_a_file),
      cmocka_unit_test(stdout_counts_if_it_is_one_object),
      cmocka_unit_test(prose_on_stdout_is_not_a_result),
      cmocka_unit_test(oversized_result_is_recognized),
      cmocka_unit_test(only_a_regular_file_is_a_result),
      cmocka_unit_test(leftover_result_of_an_earlier_run_does_not_count),
      cmocka_unit_test(usage_is_known_if_reported),
      cmocka_unit_test(exit_codes_are_those_of_a_shell),
      cmocka_unit_test(seat_that_cannot_start_reports_why),
      cmocka_unit_test(program_with_a_slash_is_relative_to_the_repository),
      cmocka_unit_test(command_gets_belays_environment_and_its_own_variables),
      cmocka_unit_test(prompt_is_on_standard_input_read_or_not),
      cmocka_unit_test(prompt_can_be_an_argument), cmocka_unit_test(prompt_can_be_a_file),
      cmocka_unit_test(large_output_is_bounded_and_its_end_is_searched),
      cmocka_unit_test(invalid_output_becomes_valid_text),
      cmocka_unit_test(output_held_open_by_a_grandchild_does_not_delay_the_end),
      cmocka_unit_test(F5_tree_that_ignores_sigterm_is_gone_soon_after_its_grace),
      cmocka_unit_test(deadline_stops_a_command),
      cmocka_unit_test(F19_result_that_is_complete_after_the_stop_is_kept),
      cmocka_unit_test(stopped_scope_starts_nothing),
      cmocka_unit_test(hurry_skips_the_grace_of_running_and_later_seats),
      cmocka_unit_test(stop_at_any_moment_leaves_nothing),
      cmocka_unit_test(sandboxed_command_writes_only_its_worktree_and_its_result),
      cmocka_unit_test(missing_sandbox_is_an_error));
