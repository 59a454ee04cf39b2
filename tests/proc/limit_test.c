/* Limits of memory and processes. If a cgroup has the controller, the kernel refuses or kills;
 * otherwise the address space of each process is limited, and the warden counts processes. */
#include <signal.h>
#include <stdio.h>

#include "helpers.h"

#define MIB              ((uint64_t)1 << 20)
#define NASTY_NO_MEMORY  77
#define NASTY_NO_PROCESS 78
#define LIMIT_SOON_MS    5000.0
#define PROCESSES_MAX    10
#define MEMORY_LIMIT     (128 * MIB)

static int memory(void *argument)
{
    struct tool much, little;
    struct bl_warden_end end = {0};

    TOOL_INIT(&much, *(enum bl_mechanism *)argument, "memory", "512");
    much.options.memory_bytes = MEMORY_LIMIT;
    if (tool_start(&much) == 0) {
        CHECK_EQUAL(bl_warden_wait(much.warden, &end), 0);
        if (end.how == BL_END_EXITED)
            CHECK_EQUAL(end.status, NASTY_NO_MEMORY);
        else
            CHECK(end.how == BL_END_LIMIT || (end.how == BL_END_SIGNALED && end.status == SIGKILL));
        CHECK_EQUAL(end.survivors, 0);
    }
    tool_done(&much);

    TOOL_INIT(&little, *(enum bl_mechanism *)argument, "memory", "32");
    little.options.memory_bytes = MEMORY_LIMIT;
    if (tool_start(&little) == 0) {
        CHECK_EQUAL(bl_warden_wait(little.warden, &end), 0);
        CHECK_EQUAL(end.how, BL_END_EXITED);
        CHECK_EQUAL(end.status, 0);
    }
    tool_done(&little);
    return 0;
}

static void memory_over_the_limit_is_refused(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(memory, &container);
}

/* Exceeding the limit ends the tree; or the kernel refuses, and nasty reports it and leaves its
 * children. */
static int processes(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};

    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "many", "60");
    tool.options.processes_max = PROCESSES_MAX;
    if (tool_start(&tool) == 0) {
        double start_ms = now_ms();
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(marker_count(tool.marker), 0);
        CHECK(now_ms() - start_ms < LIMIT_SOON_MS);
        CHECK_EQUAL(end.survivors, 0);
        if (end.how == BL_END_EXITED) {
            CHECK_EQUAL(end.status, NASTY_NO_PROCESS);
            CHECK(end.left_behind < PROCESSES_MAX);
        } else {
            CHECK_EQUAL(end.how, BL_END_LIMIT);
            CHECK(end.processes > PROCESSES_MAX);
            CHECK_EQUAL(end.strongest_signal, SIGKILL);
        }
    }
    tool_done(&tool);
    return 0;
}

static void a_tree_over_its_number_of_processes_ends(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(processes, &container);
}

static int few_processes(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};

    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "many", "4");
    tool.options.processes_max = PROCESSES_MAX;
    if (tool_start(&tool) == 0) {
        tool_await(&tool, NULL, 5);
        CHECK_EQUAL(bl_sleep(100 * MS), 0);
        CHECK_EQUAL(marker_count(tool.marker), 5);
        tool_stop(&tool, 5000, &end);
        CHECK_EQUAL(end.how, BL_END_STOPPED);
        CHECK_EQUAL(end.strongest_signal, SIGTERM);
    }
    tool_done(&tool);
    return 0;
}

static void a_tree_below_its_number_of_processes_lives(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(few_processes, &container);
}

static int storm(void *argument)
{
    struct tool tool;
    struct bl_warden_end end = {0};

    TOOL_INIT(&tool, *(enum bl_mechanism *)argument, "storm", "ignore");
    tool.options.processes_max = PROCESSES_MAX;
    if (tool_start(&tool) == 0) {
        double start_ms = now_ms();
        CHECK_EQUAL(bl_warden_wait(tool.warden, &end), 0);
        CHECK_EQUAL(marker_count(tool.marker), 0);
        CHECK(now_ms() - start_ms < LIMIT_SOON_MS);
        CHECK_EQUAL(end.survivors, 0);
        CHECK(end.how == BL_END_LIMIT || end.status == NASTY_NO_PROCESS);
    }
    tool_done(&tool);
    return 0;
}

static void a_fork_storm_ends_by_its_number_of_processes(void **state)
{
    enum bl_mechanism container = container_of_test(state);
    run_in_loop(storm, &container);
}

SUITE(limit, IN_EACH(memory_over_the_limit_is_refused),
      IN_EACH(a_tree_over_its_number_of_processes_ends),
      IN_EACH(a_tree_below_its_number_of_processes_lives),
      IN_EACH(a_fork_storm_ends_by_its_number_of_processes));
