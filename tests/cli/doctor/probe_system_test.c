#include "suite.h"

#include <sys/resource.h>
#include <unistd.h>

#include "cli/doctor/probe.h"

static void the_system_has_a_name_and_a_size(void **state)
{
    struct probe_system system;

    (void)state;
    probe_system(&system);
    assert_true(system.kernel[0] != '\0');
    assert_true(system.machine[0] != '\0');
    assert_in_range(system.processors, 1, 65536);
    assert_true(system.memory_bytes > 1024 * 1024);
    assert_int_equal(system.page_bytes, sysconf(_SC_PAGESIZE));
}

static void limits_are_those_of_the_process(void **state)
{
    struct rlimit before, lowered;
    struct probe_limits limits;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    lowered = (struct rlimit){.rlim_cur = 64, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &lowered), 0);
    probe_limits(&limits);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(limits.open_files.soft, 64);
    assert_int_equal(limits.open_files.hard,
                     before.rlim_max == RLIM_INFINITY ? PROBE_UNLIMITED : before.rlim_max);
    assert_true(limits.memory_maps > 0);
    assert_in_range(limits.memory_overcommit, 0, 2);
}

static void fibers_and_libraries_are_described(void **state)
{
    struct probe_fibers fibers;
    struct probe_library libraries[PROBE_LIBRARIES];

    (void)state;
    probe_fibers(&fibers);
    assert_true(strcmp(fibers.guard, "guard regions") == 0 ||
                strcmp(fibers.guard, "protected pages") == 0);
    assert_true(fibers.stack_bytes >= 65536);
    probe_libraries(libraries);
    for (size_t i = 0; i < PROBE_LIBRARIES; i++) {
        assert_true(libraries[i].compiled[0] != '\0');
        assert_true(libraries[i].running[0] != '\0');
    }
}

SUITE(probe_system, cmocka_unit_test(the_system_has_a_name_and_a_size),
      cmocka_unit_test(limits_are_those_of_the_process),
      cmocka_unit_test(fibers_and_libraries_are_described));
