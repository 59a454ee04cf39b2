#include <belay/version.h>

#include "suite.h"

#include "reports.h"

static const char expected[] =
    "belay " BELAY_VERSION "\n"
    "\n"
    "System\n"
    "      kernel        6.1.0\n"
    "      machine       riscv64\n"
    "      processors    4\n"
    "      memory        8.0 GiB\n"
    "      page          4096 bytes\n"
    "\n"
    "Containment (default: subreaper)\n"
    "  --  pidns         cannot start a child: Out of memory\n"
    "  no  cgroup2       /sys/fs/cgroup/user.slice is not delegated to this user,\n"
    "                    and this sentence goes on for longer than a line\n"
    "                    hint: ask for it\n"
    "  ok  subreaper     orphans come to the warden\n"
    "\n"
    "Sandbox\n"
    "  ok  bubblewrap    0.8.0, /usr/bin/bwrap\n"
    "  ok  landlock      ABI 7\n"
    "  ok  seccomp       filters\n"
    "\n"
    "Cells\n"
    "  no  worker        no such program\n"
    "                    hint: install it\n"
    "\n"
    "Store\n"
    "  ok  database      postgres://db/belay: PostgreSQL 15.4\n"
    "\n"
    "Fibers\n"
    "      guard         protected pages\n"
    "      maximum       30000\n"
    "      stack         64 KiB\n"
    "\n"
    "Libraries\n"
    "      libuv         1.48.0 (compiled with 1.44.2)\n"
    "      libc          2.36 (compiled with 2.36)\n"
    "\n"
    "Limits\n"
    "      open files    1024 (hard limit: unlimited)\n"
    "      processes     5 (hard limit: 6)\n"
    "      memory maps   65530 (vm.max_map_count)\n"
    "      overcommit    unknown (vm.overcommit_memory)\n";

static void it_is_aligned_marked_and_wrapped(void **state)
{
    struct doctor_report report = report_sample();
    struct bl_buffer out;

    (void)state;
    bl_buffer_init(&out, 8192);
    assert_int_equal(doctor_write_text(&out, &report, false), 0);
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, expected);
    bl_buffer_done(&out);
}

static void colours_are_on_the_marks_alone(void **state)
{
    struct doctor_report report = report_sample();
    struct bl_buffer out;

    (void)state;
    bl_buffer_init(&out, 8192);
    assert_int_equal(doctor_write_text(&out, &report, true), 0);
    bl_buffer_append_byte(&out, '\0');
    assert_non_null(strstr(out.data, "  \x1b[33m--\x1b[0m  pidns  "));
    assert_non_null(strstr(out.data, "  \x1b[31mno\x1b[0m  cgroup2  "));
    assert_non_null(strstr(out.data, "  \x1b[32mok\x1b[0m  subreaper  "));
    bl_buffer_done(&out);
}

static void what_does_not_fit_the_buffer_is_an_error(void **state)
{
    struct doctor_report report = report_sample();
    struct bl_buffer out;

    (void)state;
    bl_buffer_init(&out, 100);
    assert_int_equal(doctor_write_text(&out, &report, false), BL_ELIMIT);
    bl_buffer_done(&out);
}

SUITE(doctor_text, cmocka_unit_test(it_is_aligned_marked_and_wrapped),
      cmocka_unit_test(colours_are_on_the_marks_alone),
      cmocka_unit_test(what_does_not_fit_the_buffer_is_an_error));
