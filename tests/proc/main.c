/* Runs the suites as they are called and, as root, once more as an ordinary user, in a delegated
 * cgroup if possible. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../proof/place.h"
#include "figure.h"
#include "helpers.h"
#include "proc/parts.h"

#define ORDINARY_USER  65534
#define EXIT_NO_ACCESS 125
#define CGROUP_MAX     1024u

extern const struct suite capture_suite, capture_model_suite, cgroup_suite, sandbox_suite,
    sandbox_guard_suite, command_suite, container_suite, environment_suite, kill_suite, lease_suite,
    limit_suite, namespace_suite, probe_child_suite, probe_program_suite, report_suite, stop_suite,
    survivor_suite, tree_suite, warden_suite;

/* Creates a cgroup below ours that the ordinary user may divide. Empty if that is not possible. */
static void delegate_cgroup(char out[CGROUP_MAX])
{
    static const char *const files[] = {"", "/cgroup.procs", "/cgroup.subtree_control"};
    char own[CGROUP_MAX - 64], path[CGROUP_MAX + 64];
    struct bl_container_check check;

    out[0] = '\0';
    bl_container_check(BL_MECHANISM_CGROUP2, &check);
    if (!check.available || !proc_cgroup_directory(own, sizeof own))
        return;
    snprintf(out, CGROUP_MAX, "%s/belay-test-%d", own, (int)getpid());
    if (mkdir(out, 0755) != 0) {
        out[0] = '\0';
        return;
    }
    for (size_t i = 0; i < BL_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s%s", out, files[i]);
        if (chown(path, ORDINARY_USER, ORDINARY_USER) != 0)
            perror(path);
    }
}

static void enter_cgroup(const char *directory)
{
    char path[CGROUP_MAX + 64];
    snprintf(path, sizeof path, "%s/cgroup.procs", directory);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        perror(path);
    if (fd >= 0)
        close(fd);
}

_Noreturn static void become_ordinary(char **arguments)
{
    if (!place_become(ORDINARY_USER))
        _exit(1);
    execv("/proc/self/exe", arguments);
    _exit(errno == EACCES ? EXIT_NO_ACCESS : 1);
}

static int run_as_ordinary_user(char **arguments)
{
    char cgroup[CGROUP_MAX];
    int status = 0;

    delegate_cgroup(cgroup);
    print_message("[  USER    ] as uid %d\n", ORDINARY_USER);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (cgroup[0] != '\0')
            enter_cgroup(cgroup);
        become_ordinary(arguments);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    for (int i = 0; i < 200 && cgroup[0] != '\0' && rmdir(cgroup) != 0 && errno == EBUSY; i++)
        nap_ms(10);
    if (child < 0 || !WIFEXITED(status))
        return 1;
    if (WEXITSTATUS(status) == EXIT_NO_ACCESS) {
        print_message("[  SKIPPED ] as uid %d: it may not run this program\n", ORDINARY_USER);
        return 0;
    }
    return WEXITSTATUS(status);
}

int main(int argument_count, char **arguments)
{
    static const struct suite *const suites[] = {
        &capture_suite,     &capture_model_suite, &sandbox_suite,       &sandbox_guard_suite,
        &environment_suite, &probe_child_suite,   &probe_program_suite, &container_suite,
        &cgroup_suite,      &namespace_suite,     &warden_suite,        &tree_suite,
        &stop_suite,        &report_suite,        &survivor_suite,      &limit_suite,
        &command_suite,     &kill_suite,          &lease_suite};
    setenv("BELAY_WARDEN", BELAY_WARDEN_PATH, 0);
    if (argument_count > 1 && strcmp(arguments[1], "--role") == 0)
        return kill_role(argument_count, arguments);
    suite_share(argument_count, 4);
    int failed = suite_main(argument_count, arguments, suites, BL_COUNT(suites));
    /* Permissions of another user are the same in every build: the sanitized builds test them in
     * the soak. */
    if (geteuid() == 0 && suite_rounds(!SUITE_SANITIZED, 1) > 0 && !figure_taking())
        failed += run_as_ordinary_user(arguments);
    return failed > 100 ? 100 : failed;
}
