/* Which of the machine's processes a command in a pidns container can see. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"

/* Unmounts /proc repeatedly, and looks for the test's process each time. */
#define SCRIPT                                                                                     \
    "%s 'exec 2>/dev/null; for i in 1 2 3; do umount -l /proc;"                                    \
    "test -e /proc/%d/status && grep -q \"NSpid:.*%d$\" /proc/%d/status && echo seen; done;"       \
    "echo done'"

static int look_around(void *argument)
{
    const char *shell = argument;
    struct tool tool;
    struct bl_warden_end end;
    char script[400], out[64];
    int pid = (int)getpid();
    snprintf(script, sizeof script, SCRIPT, shell, pid, pid, pid);
    TOOL_INIT(&tool, BL_MECHANISM_PIDNS, "unused");
    tool_set_command(&tool, (const char *const[]){"sh", "-c", script, NULL});
    tool_run(&tool, out, sizeof out, &end);
    CHECK_EQUAL(end.how, BL_END_EXITED);
    if (end.status == 0)
        CHECK(strcmp(out, "done\n") == 0);
    tool_done(&tool);
    return end.status;
}

static void skip_without_pidns(void)
{
    struct bl_container_check check;
    bl_container_check(BL_MECHANISM_PIDNS, &check);
    if (!check.available) {
        print_message("no pidns: %s\n", check.detail);
        suite_skip("container mechanism not available");
    }
}

static void unmounting_proc_shows_no_other_one(void **state)
{
    (void)state;
    skip_without_pidns();
    run_in_loop(look_around, "sh -c");
}

/* In its own user namespace a command has all capabilities, but the mounts are locked. */
static void unmounting_proc_in_a_namespace_of_its_own_shows_none(void **state)
{
    (void)state;
    skip_without_pidns();
    run_in_loop(look_around, "unshare -Urm true || exit 0; exec unshare -Urm sh -c");
}

SUITE(namespace, cmocka_unit_test(unmounting_proc_shows_no_other_one),
      cmocka_unit_test(unmounting_proc_in_a_namespace_of_its_own_shows_none));
