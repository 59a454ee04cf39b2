#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fibers.h"
#include "filter.h"

#define MS BL_NS_PER_MS

static int return_argument(void *argument)
{
    return *(int *)argument;
}

static int results_are_joined(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct bl_fiber *fiber;
    int value = 42, result = 0;
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "answer", return_argument, &value, &fiber), 0);
    CHECK(!bl_fiber_ended(fiber));
    CHECK(strcmp(bl_fiber_name(fiber), "answer") == 0);
    for (int i = 0; i < 3; i++) {
        result = 0;
        CHECK_EQUAL(bl_fiber_join(fiber, &result), 0);
        CHECK_EQUAL(result, 42);
    }
    CHECK(bl_fiber_ended(fiber));
    bl_nursery_done(&nursery);
    return 9;
}

static void a_result_can_be_joined_more_than_once(void **state)
{
    (void)state;
    assert_int_equal(run_in_loop(results_are_joined, NULL), 9);
}

static int join_the_sleeper(void *argument)
{
    return bl_fiber_join(argument, NULL);
}

static int sleep_a_while(void *argument)
{
    (void)argument;
    return bl_sleep(10 * MS);
}

static int many_join_one(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct bl_fiber *sleeper, *joiners[10];
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "sleeper", sleep_a_while, NULL, &sleeper), 0);
    for (size_t i = 0; i < BL_COUNT(joiners); i++)
        CHECK_EQUAL(
            bl_nursery_spawn(&nursery, NULL, "joiner", join_the_sleeper, sleeper, &joiners[i]), 0);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    for (size_t i = 0; i < BL_COUNT(joiners); i++) {
        int result = -1;
        CHECK_EQUAL(bl_fiber_join(joiners[i], &result), 0);
        CHECK_EQUAL(result, 0);
    }
    bl_nursery_done(&nursery);
    return 0;
}

static void many_fibers_join_one(void **state)
{
    (void)state;
    run_in_loop(many_join_one, NULL);
}

static int spawn_over_the_limit(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    int code, spawned = 0;
    while ((code = bl_nursery_spawn(&nursery, NULL, "one more", sleep_a_while, NULL, NULL)) == 0)
        spawned++;
    CHECK_EQUAL(code, BL_ESTACKS);
    CHECK_EQUAL(spawned, 99);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "again", sleep_a_while, NULL, NULL), 0);
    bl_nursery_done(&nursery);
    return 0;
}

static void out_of_stacks_is_an_error_to_the_caller(void **state)
{
    (void)state;
    struct bl_loop *loop;
    struct bl_loop_options options = {.fibers_max = 100};
    assert_int_equal(bl_loop_new(&options, &loop, NULL), 0);
    assert_int_equal(bl_loop_run(loop, "test", spawn_over_the_limit, NULL), 0);
    bl_loop_free(loop);
}

/* The sizes of this process: its whole address space, and its resident memory. */
static void process_size(size_t *ret_all, size_t *ret_resident)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu", ret_all, ret_resident), 2);
    fclose(file);
    *ret_all *= page;
    *ret_resident *= page;
}

static int spawn_out_of_address_space(void *argument)
{
    struct bl_stack_facts facts;
    struct bl_nursery nursery;
    struct rlimit before, limit;
    size_t all, resident;
    int *spawned = argument, code = 0;
    bl_loop_stack_facts(&facts);
    bl_nursery_init(&nursery, bl_scope_current());
    free(malloc((size_t)100 * 1024)); /* grows the heap in advance */
    process_size(&all, &resident);
    CHECK_EQUAL(getrlimit(RLIMIT_AS, &before), 0);
    limit = before;
    /* For 11 stacks, each with a guard of its size. */
    limit.rlim_cur = all + 23 * facts.size;
    CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
    while (*spawned < 1000 && code == 0) {
        code = bl_nursery_spawn(&nursery, NULL, "one more", sleep_a_while, NULL, NULL);
        *spawned += code == 0;
    }
    CHECK_EQUAL(setrlimit(RLIMIT_AS, &before), 0);
    CHECK_EQUAL(code, BL_ESTACKS);
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "again", sleep_a_while, NULL, NULL), 0);
    CHECK_EQUAL(bl_nursery_join(&nursery), 0);
    bl_nursery_done(&nursery);
    return 0;
}

static void out_of_address_space_is_an_error_to_the_caller(void **state BL_UNUSED)
{
    if (SUITE_SANITIZED)
        suite_skip("not with a sanitizer"); /* needs far more address space than the limit */
    int spawned = 0;
    run_in_loop(spawn_out_of_address_space, &spawned);
    /* The rest of the mapping with this fiber's own stack, then mappings of 8, 2 and 1. */
    assert_int_equal(spawned, 15 + 8 + 2 + 1);
}

static int count_up(void *argument)
{
    volatile char used[16 * 1024];
    memset((char *)used, 1, sizeof used);
    *(unsigned *)argument += (unsigned)used[100];
    return 0;
}

static int spawn_in_waves(void *argument)
{
    (void)argument;
    unsigned ran = 0;
    size_t all, before;
    process_size(&all, &before);
    for (int wave = 0; wave < 10; wave++) {
        struct bl_nursery nursery;
        bl_nursery_init(&nursery, bl_scope_current());
        for (int i = 0; i < 1500; i++)
            CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "wave", count_up, &ran, NULL), 0);
        CHECK_EQUAL(bl_nursery_join(&nursery), 0);
        bl_nursery_done(&nursery);
    }
    CHECK_EQUAL(ran, 15000);
    /* Kept for a moment, then returned to the system, and then used again. A sanitizer keeps its
     * own data about them. */
    size_t used = (size_t)1500 * 16 * 1024, left = before + used;
    for (int i = 0; i < 200 && left > before + used / 5 && !SUITE_SANITIZED; i++) {
        CHECK_EQUAL(bl_sleep(50 * MS), 0);
        process_size(&all, &left);
    }
    CHECK(left <= before + used / 5 || SUITE_SANITIZED);
    struct turns *turns = turns_begin();
    CHECK_EQUAL(bl_sleep(100 * MS), 0);
    CHECK(turns_end(turns) < 50);
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < 1000; i++)
        CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "wave", count_up, &ran, NULL), 0);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(ran, 16000);
    return 0;
}

static void stacks_are_reused_and_released(void **state)
{
    (void)state;
    run_in_loop(spawn_in_waves, NULL);
}

__attribute__((noinline)) static int use_stack(volatile char *before, int depth)
{
    volatile char frame[2048];
    frame[0] = before != NULL ? before[0] : 0;
    frame[2047] = (char)depth;
    if (depth > 100000)
        return 0;
    return use_stack(frame, depth + 1) + frame[2047];
}

static int overflow(void *argument)
{
    (void)argument;
    return use_stack(NULL, 0);
}

__attribute__((noinline)) static int use_one_large_frame(volatile char *byte)
{
    volatile char frame[60000];
    frame[0] = *byte;
    return frame[0];
}

static int overflow_by_one_large_frame(void *argument)
{
    volatile char rest[40000];
    (void)argument;
    rest[0] = 1;
    return use_one_large_frame(rest) + rest[0];
}

static int spawn_overflow(void *argument)
{
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "the deep one", argument, NULL, NULL);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    return 0;
}

/* Simulates a kernel before 6.13, without guard regions. */
static void forbid_guard_regions(void)
{
    const struct filter advice = {.call = SYS_madvise,
                                  .argument = 2,
                                  .mask = UINT32_MAX,
                                  .value = 102, /* MADV_GUARD_INSTALL */
                                  .action = SECCOMP_RET_ERRNO | EINVAL};
    struct bl_stack_facts facts;
    if (!filter_install(&advice))
        _exit(1);
    bl_loop_stack_facts(&facts);
    if (strcmp(facts.guard, "protected pages") != 0 || facts.fibers_max != 30000)
        _exit(2);
}

/* Runs `main` in a fiber of a child process, and returns the child's standard error. */
static void run_and_crash(bl_fiber_main *main, bool regions, char *said, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        if (!regions)
            forbid_guard_regions();
        bl_loop_catch_overflow();
        struct bl_loop *loop;
        bl_loop_new(NULL, &loop, NULL);
        union {
            bl_fiber_main *function;
            void *data;
        } argument = {.function = main};
        bl_loop_run(loop, "test", spawn_overflow, argument.data);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t count;
    while (length + 1 < size && (count = read(ends[0], said + length, size - 1 - length)) > 0)
        length += (size_t)count;
    said[length] = '\0';
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void a_stack_overflow_ends_the_process_with_a_message_naming_the_fiber(void **state)
{
    (void)state;
    char said[4096];
    for (int regions = 0; regions < 2; regions++) {
        run_and_crash(overflow, regions, said, sizeof said);
        assert_non_null(strstr(said, "fiber \"the deep one\" has overflowed its stack"));
    }
}

static void one_large_frame_cannot_jump_over_the_guard(void **state)
{
    (void)state;
    if (SUITE_SANITIZED)
        suite_skip("not with a sanitizer"); /* larger stacks, and it detects the jump first */
    char said[4096];
    run_and_crash(overflow_by_one_large_frame, true, said, sizeof said);
    assert_non_null(strstr(said, "fiber \"the deep one\" has overflowed its stack"));
}

/* Not inlined, so that the names are in the trace. */
__attribute__((noinline)) static int rest_in_a_named_function(void)
{
    return bl_sleep(3600 * BL_NS_PER_S) + 1;
}

static int rest_below(void *argument)
{
    (void)argument;
    return rest_in_a_named_function() + 1;
}

static int describe(void *argument)
{
    struct bl_buffer *out = argument;
    struct bl_nursery nursery;
    CHECK_EQUAL(bl_sleep(BL_NS_PER_S), 0);
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "resting", rest_below, NULL, NULL), 0);
    CHECK_EQUAL(bl_sleep(90 * BL_NS_PER_S), 0);
    CHECK_EQUAL(bl_loop_describe(bl_loop_current(), out), 0);
    bl_nursery_done(&nursery);
    return 0;
}

static void every_parked_fiber_shows_its_name_wait_and_frames(void **state)
{
    (void)state;
    struct bl_buffer out;
    bl_buffer_init(&out, 65536);
    run_in_virtual_loop(1, describe, &out);
    bl_buffer_append_byte(&out, '\0');
    assert_non_null(strstr(out.data, "test: running"));
    assert_non_null(strstr(out.data, "resting: waits for sleep for 1m 30s, scope live\n    #0 "));
    assert_non_null(strstr(out.data, "rest_in_a_named_function+0x"));
    assert_non_null(strstr(out.data, "rest_below+0x"));
    bl_buffer_done(&out);
}

/* The scopes of a run, of a turn in it (named twice: by its scope and by a receipt), and of a call.
 */
struct named_scopes {
    struct bl_scope run, turn, part, call;
    struct bl_receipt receipt;
};

static void named_scopes_begin(struct named_scopes *scopes)
{
    bl_scope_init(&scopes->run, bl_scope_current());
    bl_scope_init(&scopes->turn, &scopes->run);
    bl_scope_init(&scopes->part, &scopes->turn);
    bl_scope_init(&scopes->call, &scopes->part);
    bl_receipt_open(&scopes->receipt, &scopes->run, "run_1");
    bl_scope_set_id(&scopes->turn, "turn_2");
    bl_scope_set_id(&scopes->part, "turn_2");
    bl_scope_set_id(&scopes->call, "call_3");
}

static void named_scopes_end(struct named_scopes *scopes)
{
    bl_scope_done(&scopes->call);
    bl_scope_done(&scopes->part);
    bl_scope_done(&scopes->turn);
    bl_receipt_close(&scopes->receipt);
    CHECK(scopes->run.id == NULL);
    bl_scope_done(&scopes->run);
}

static int describe_scopes(void *argument)
{
    struct bl_buffer *out = argument;
    struct named_scopes scopes;
    struct bl_scope *outer = bl_scope_current();
    named_scopes_begin(&scopes);
    bl_scope_enter(&scopes.call);
    CHECK_EQUAL(bl_loop_describe(bl_loop_current(), out), 0);
    CHECK_EQUAL(bl_scope_set_timeout(&scopes.turn, 90, NULL), 0);
    CHECK_EQUAL(bl_loop_describe(bl_loop_current(), out), 0);
    bl_scope_enter(&scopes.part);
    CHECK_EQUAL(bl_scope_claim(&scopes.part), 0);
    CHECK_EQUAL(bl_loop_describe(bl_loop_current(), out), 0);
    bl_scope_enter(&scopes.turn);
    CHECK(bl_scope_stop(&scopes.run, BL_STOP_USER, "belay cancel"));
    CHECK_EQUAL(bl_loop_describe(bl_loop_current(), out), 0);
    bl_scope_enter(outer);
    named_scopes_end(&scopes);
    return 0;
}

static void a_description_names_the_work_its_deadline_and_its_stop(void **state)
{
    (void)state;
    struct bl_buffer out;
    bl_buffer_init(&out, 65536);
    run_in_virtual_loop(1, describe_scopes, &out);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data,
                        "test: running, scope run_1/turn_2/call_3 live\n"
                        "test: running, scope run_1/turn_2/call_3 live, deadline in 1m 30s\n"
                        "test: running, scope run_1/turn_2 claimed\n"
                        "test: running, scope run_1/turn_2 stopped (parent by belay cancel)\n");
    bl_buffer_done(&out);
}

static void keep_place(void *context, const struct bl_log_record *record)
{
    bl_text_into(context, 64, record->place);
}

static int log_in_scopes(void *argument)
{
    struct named_scopes scopes;
    struct bl_scope *outer = bl_scope_current();
    named_scopes_begin(&scopes);
    bl_scope_enter(&scopes.call);
    BL_LOG(BL_ROOM_TURN, BL_LOG_INFO, "m", BL_LOG_INTEGER("v", 1));
    CHECK_EQUAL(strcmp(argument, "run_1/turn_2/call_3"), 0);
    bl_scope_enter(outer);
    BL_LOG(BL_ROOM_TURN, BL_LOG_INFO, "m", BL_LOG_INTEGER("v", 1));
    CHECK_EQUAL(strcmp(argument, ""), 0);
    named_scopes_end(&scopes);
    return 0;
}

static void a_log_line_names_its_work(void **state)
{
    (void)state;
    char place[64];
    bl_log_open(&(struct bl_log_sink){keep_place, place, NULL});
    assert_int_equal(bl_log_set_levels("info", NULL), 0);
    run_in_virtual_loop(1, log_in_scopes, place);
    BL_LOG(BL_ROOM_TURN, BL_LOG_INFO, "m", BL_LOG_INTEGER("v", 1));
    assert_string_equal(place, "");
    assert_int_equal(bl_log_set_levels(NULL, NULL), 0);
    bl_log_open(NULL);
}

static int describe_too_much(void *argument)
{
    struct bl_buffer *out = argument;
    CHECK_EQUAL(bl_loop_describe(bl_loop_current(), out), BL_ELIMIT);
    return 0;
}

static void a_description_stops_at_the_buffers_maximum(void **state)
{
    (void)state;
    struct bl_buffer out;
    bl_buffer_init(&out, 4);
    run_in_loop(describe_too_much, &out);
    assert_true(out.size <= 4);
    bl_buffer_done(&out);
}

struct relay {
    int order[4];
    int count;
};

static int take_note(void *argument)
{
    struct relay *relay = argument;
    int mine = relay->count++;
    for (int i = 0; i < 2; i++)
        bl_yield();
    relay->order[mine] = mine;
    return 0;
}

static int in_order(void *argument)
{
    (void)argument;
    struct relay relay = {{-1, -1, -1, -1}, 0};
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    for (int i = 0; i < 4; i++)
        bl_nursery_spawn(&nursery, NULL, "in order", take_note, &relay, NULL);
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(relay.order[i], i);
    return 0;
}

static void fibers_run_in_the_order_in_which_they_became_ready(void **state)
{
    (void)state;
    run_in_loop(in_order, NULL);
}

static int long_names_are_cut(void *argument)
{
    (void)argument;
    struct bl_nursery nursery;
    struct bl_fiber *fiber;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "a name that is longer than any name, ö", sleep_a_while, NULL,
                     &fiber);
    CHECK_EQUAL(strlen(bl_fiber_name(fiber)), 31);
    bl_nursery_done(&nursery);
    return 0;
}

static void a_long_name_is_truncated(void **state)
{
    (void)state;
    run_in_loop(long_names_are_cut, NULL);
}

SUITE(fiber, cmocka_unit_test(a_result_can_be_joined_more_than_once),
      cmocka_unit_test(many_fibers_join_one),
      cmocka_unit_test(out_of_stacks_is_an_error_to_the_caller),
      cmocka_unit_test(out_of_address_space_is_an_error_to_the_caller),
      cmocka_unit_test(stacks_are_reused_and_released),
      cmocka_unit_test(a_stack_overflow_ends_the_process_with_a_message_naming_the_fiber),
      cmocka_unit_test(one_large_frame_cannot_jump_over_the_guard),
      cmocka_unit_test(every_parked_fiber_shows_its_name_wait_and_frames),
      cmocka_unit_test(a_description_names_the_work_its_deadline_and_its_stop),
      cmocka_unit_test(a_log_line_names_its_work),
      cmocka_unit_test(a_description_stops_at_the_buffers_maximum),
      cmocka_unit_test(fibers_run_in_the_order_in_which_they_became_ready),
      cmocka_unit_test(a_long_name_is_truncated));
