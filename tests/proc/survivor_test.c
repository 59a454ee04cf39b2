/* Survivors are counted and not assumed. An ordinary user's warden cannot kill processes that
 * became another user, and reports how many are left. The test runs as root, sees all of them, and
 * ends them. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../proof/place.h"
#include "helpers.h"
#include "proc/parts.h"

#define EXIT_NO_ACCESS 125
#define AWAIT_MS       30000.0

struct rest_case {
    const char *script; /* of sh, with the program in $0 */
    unsigned strangers, ordinary;
    char marker[MARKER_MAX], program[64];
    int channel; /* the ordinary user's end: reports its start, and receives the stop */
};

static int survivor_stop(void *argument)
{
    const struct rest_case *rest = argument;
    struct tool tool;
    struct bl_warden_end end = {0};
    char byte = 's';

    TOOL_INIT(&tool, BL_MECHANISM_SUBREAPER, "plain");
    snprintf(tool.marker, sizeof tool.marker, "%s", rest->marker);
    tool_set_command(&tool,
                     (const char *const[]){"/bin/sh", "-c", rest->script, rest->program, NULL});
    if (tool_start(&tool) == 0) {
        CHECK(write(rest->channel, &byte, 1) == 1);
        CHECK(read(rest->channel, &byte, 1) == 1);
        bl_warden_stop(tool.warden, 0, 50, &end);
        CHECK(write(rest->channel, &end, sizeof end) == sizeof end);
    }
    bl_warden_free(tool.warden);
    bl_free(tool.environment);
    return 0;
}

_Noreturn static void survivor_play_user(struct rest_case *rest)
{
    const char *warden = getenv("BELAY_WARDEN");
    if (!place_become(PLACE_USER))
        _exit(1);
    if (warden != NULL && access(warden, X_OK) != 0)
        _exit(EXIT_NO_ACCESS);
    _exit(run_in_role(survivor_stop, rest) == 0 ? 0 : 1);
}

/* Copies nasty, with the setuid bit of another user, into its own folder. */
static void survivor_copy_program(char program[64])
{
    char folder[] = "/tmp/belay-proc-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    snprintf(program, 64, "%s/nasty", folder);
    assert_true(place_copy_setuid(path_of_nasty(), program, PLACE_OTHER_USER));
}

static void survivor_remove_program(char program[64])
{
    unlink(program);
    *strrchr(program, '/') = '\0';
    rmdir(program);
}

/* The number in the receipt matches /proc, and consists of strangers only. */
static void survivor_check(struct rest_case rest)
{
    struct bl_warden_end end = {0};
    double end_ms = now_ms() + AWAIT_MS;
    int channel[2], status = -1;
    char byte = 's';

    if (geteuid() != 0)
        suite_skip("needs root");
    marker_make(rest.marker);
    survivor_copy_program(rest.program);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    rest.channel = channel[1];
    pid_t user = fork();
    if (user == 0)
        survivor_play_user(&rest);
    close(channel[1]);
    bool started = read(channel[0], &byte, 1) == 1;
    size_t expected = rest.strangers + rest.ordinary;
    while (started && marker_scan(rest.marker, NULL, '\0')->ready < expected && now_ms() < end_ms)
        nap_ms(2);
    bool stood = marker_scan(rest.marker, NULL, '\0')->ready == expected;
    bool told = started && write(channel[0], &byte, 1) == 1 &&
                read(channel[0], &end, sizeof end) == (ssize_t)sizeof end;
    size_t left = marker_count(rest.marker);
    marker_kill(rest.marker);
    close(channel[0]);
    waitpid(user, &status, 0);
    survivor_remove_program(rest.program);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_ACCESS)
        suite_skip("an ordinary user may not run the warden");
    assert_int_equal(status, 0);
    assert_true(stood && told);
    assert_int_equal(left, rest.strangers);
    assert_int_equal(end.survivors, rest.strangers);
    assert_int_equal(end.how, BL_END_STOPPED);
    /* The shell is one of the processes that ended. */
    assert_true(end.processes >= expected);
}

static void one_survivor_among_processes_that_end_is_counted(void **state)
{
    (void)state;
    survivor_check((struct rest_case){
        .script = "\"$0\" stranger & \"$0\" plain & wait", .strangers = 1, .ordinary = 1});
}

static void three_survivors_are_counted(void **state)
{
    (void)state;
    survivor_check((struct rest_case){
        .script = "\"$0\" stranger & \"$0\" stranger & setsid \"$0\" stranger & wait",
        .strangers = 3});
}

SUITE(survivor, cmocka_unit_test(one_survivor_among_processes_that_end_is_counted),
      cmocka_unit_test(three_survivors_are_counted));
