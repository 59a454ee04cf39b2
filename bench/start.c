/* The time from the start of a process to its end: belay --version, compared with /bin/true.
 * Argument: path of belay (default: the one of this build). */
#include <fcntl.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

#define STARTS 300

static double start_ms(char *const arguments[])
{
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    double start_ns = report_wall_ns();
    if (posix_spawn(&child, arguments[0], &actions, NULL, arguments, environ) != 0)
        report_die("cannot start the program");
    if (waitpid(child, &status, 0) != child || status != 0)
        report_die("the program failed");
    double elapsed_ms = (report_wall_ns() - start_ns) / 1e6;
    posix_spawn_file_actions_destroy(&actions);
    return elapsed_ms;
}

int main(int argument_count, char **arguments)
{
    static char belay_path[4096], option[] = "--version", true_path[] = "/bin/true";
    double ours[STARTS], theirs[STARTS];
    snprintf(belay_path, sizeof belay_path, "%s",
             argument_count > 1 ? arguments[1] : BELAY_BUILD_ROOT "/belay");
    for (int i = 0; i < STARTS; i++) {
        ours[i] = start_ms((char *const[]){belay_path, option, NULL});
        theirs[i] = start_ms((char *const[]){true_path, NULL});
    }
    report_line("process start to belay --version done", report_median(ours, STARTS), "ms",
                "/bin/true", report_median(theirs, STARTS));
    return 0;
}
