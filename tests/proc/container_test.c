#include "suite.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter.h"
#include "proc/parts.h"
#include "proc/probe.h"

static void check_located(const char *mounts, const char *membership, bool found,
                          const char *expected)
{
    char out[256];

    assert_int_equal(
        proc_cgroup_locate(bl_text_from(mounts), bl_text_from(membership), out, sizeof out), found);
    assert_string_equal(out, expected);
}

static void the_usual_mount_is_found(void **state)
{
    (void)state;
    check_located("22 27 0:21 / /proc rw - proc proc rw\n"
                  "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n",
                  "0::/user.slice/session-3.scope\n", true,
                  "/sys/fs/cgroup/user.slice/session-3.scope");
}

static void a_hybrid_mount_is_found(void **state)
{
    (void)state;
    check_located("29 23 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                  "30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                  "31 29 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
                  "4:memory:/a\n1:cpu:/\n0::/\n", true, "/sys/fs/cgroup/unified");
}

static void a_mount_of_a_part_of_the_tree_is_understood(void **state)
{
    static const char mounts[] = "31 29 0:27 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n";

    (void)state;
    check_located(mounts, "0::/docker/1\n", true, "/sys/fs/cgroup");
    check_located(mounts, "0::/docker/1/x\n", true, "/sys/fs/cgroup/x");
    check_located(mounts, "0::/docker/12\n", false,
                  "this process's cgroup is outside the mounted hierarchy");
    check_located(mounts, "0::/docker\n", false,
                  "this process's cgroup is outside the mounted hierarchy");
}

static void escapes_in_a_mount_are_undone(void **state)
{
    (void)state;
    check_located("31 29 0:27 / /a\\040b rw - cgroup2 cgroup rw\n", "0::/c\n", true, "/a b/c");
    check_located("31 29 0:27 / /a\\011b\\012c\\134040 rw - cgroup2 cgroup rw\n", "0::/d\n", true,
                  "/a\tb\nc\\040/d");
    check_located("31 29 0:27 /a\\134x2db /m rw - cgroup2 cgroup rw\n", "0::/a\\x2db/c\n", true,
                  "/m/c");
}

static void backslashes_in_cgroup_names_are_kept(void **state)
{
    (void)state;
    check_located("31 29 0:27 / /m rw - cgroup2 cgroup rw\n", "0::/app-a\\x2db\\040.scope\n", true,
                  "/m/app-a\\x2db\\040.scope");
}

static void without_one_it_says_why(void **state)
{
    (void)state;
    check_located("30 29 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", "0::/\n", false,
                  "no cgroup2 file system is mounted");
    check_located("", "1:cpu:/\n", false, "this process is not in a cgroup of version 2");
    check_located("", "", false, "this process is not in a cgroup of version 2");
    check_located("31 29 0:27 / /m rw - cgroup2 cgroup rw\n", "0::/../x\n", false,
                  "this process is not in a cgroup of version 2");
}

static void path_that_does_not_fit_is_not_returned(void **state)
{
    char out[8];

    (void)state;
    assert_false(proc_cgroup_locate(BL_TEXT("31 29 0:27 / /mount rw - cgroup2 cgroup rw\n"),
                                    BL_TEXT("0::/a\n"), out, sizeof out));
    assert_true(proc_cgroup_locate(BL_TEXT("31 29 0:27 / /moun rw - cgroup2 cgroup rw\n"),
                                   BL_TEXT("0::/a\n"), out, sizeof out));
    assert_string_equal(out, "/moun/a");
}

static void assert_no_child(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* Lists the directories of probes, each between two slashes. */
static void list_probes(struct bl_buffer *out)
{
    char own[PATH_MAX];
    DIR *directory = proc_cgroup_directory(own, sizeof own) ? opendir(own) : NULL;

    bl_buffer_init(out, 1 << 20);
    bl_buffer_append_byte(out, '/');
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        if (strncmp(entry->d_name, "belay-probe-", 12) == 0)
            bl_buffer_printf(out, "%s/", entry->d_name);
    if (directory != NULL)
        closedir(directory);
}

static bool lists_probe(const struct bl_buffer *list, struct bl_text name)
{
    char needle[NAME_MAX + 3];
    snprintf(needle, sizeof needle, "/%.*s/", (int)name.size, name.data);
    return bl_text_find(bl_buffer_text(list), bl_text_from(needle)) >= 0;
}

/* Other processes probe, too: each that was not there before must end. */
static void assert_no_probe_is_left(struct bl_buffer *before)
{
    struct bl_buffer after, now;
    struct bl_text name;

    list_probes(&after);
    struct bl_text rest = bl_buffer_text(&after);
    while (bl_text_split(&rest, '/', &name)) {
        bool ended = name.size == 0 || lists_probe(before, name);
        for (int i = 0; i < 1000 && !ended; i++, usleep(10000)) {
            list_probes(&now);
            ended = !lists_probe(&now, name);
            bl_buffer_done(&now);
        }
        assert_true(ended);
    }
    bl_buffer_done(&after);
    bl_buffer_done(before);
}

static void the_probe_of_cgroup2_leaves_nothing_behind(void **state)
{
    struct bl_container_check check = {0};
    struct bl_buffer before;
    sigset_t mask_before, mask_after;

    (void)state;
    list_probes(&before);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_before);
    proc_cgroup_probe(&check);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    assert_true(check.detail[0] != '\0');
    assert_no_probe_is_left(&before);
    assert_memory_equal(&mask_before, &mask_after, sizeof(unsigned long));
    assert_no_child();
}

static void the_probe_of_pidns_leaves_nothing_behind(void **state)
{
    struct bl_container_check check = {0};
    bool user;

    (void)state;
    struct bl_text mounts_before = suite_read_file("/proc/self/mountinfo");
    proc_pidns_probe(&check, &user);
    struct bl_text mounts_after = suite_read_file("/proc/self/mountinfo");
    assert_true(check.detail[0] != '\0');
    if (check.available)
        assert_string_equal(check.hint, "");
    assert_true(bl_text_equal(mounts_before, mounts_after));
    bl_free((void *)mounts_before.data);
    bl_free((void *)mounts_after.data);
    assert_no_child();
}

static void ask_pidns_probe(struct bl_container_check *check)
{
    bool user;
    proc_pidns_probe(check, &user);
}

/* Runs a probe under a seccomp filter. */
static void probe_filtered(void (*probe)(struct bl_container_check *check),
                           const struct filter *filter, struct bl_container_check *ret_check)
{
    struct bl_container_check check = {0};
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        if (!filter_install(filter))
            _exit(1);
        probe(&check);
        _exit(write(ends[1], &check, sizeof check) == (ssize_t)sizeof check ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], ret_check, sizeof *ret_check), sizeof *ret_check);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

struct refusal {
    struct filter filter;
    bool untried;
    const char *detail, *hint;
};

static void check_refusals(void (*probe)(struct bl_container_check *check),
                           const struct refusal *refusals, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct bl_container_check check;
        probe_filtered(probe, &refusals[i].filter, &check);
        suite_fail_if(check.available || check.untried != refusals[i].untried ||
                          strstr(check.detail, refusals[i].detail) == NULL ||
                          strstr(check.hint, refusals[i].hint) == NULL ||
                          (check.hint[0] == '\0') != (refusals[i].hint[0] == '\0'),
                      "%zu: %s, %s: '%s', hint '%s'", i,
                      check.available ? "available" : "not available",
                      check.untried ? "untried" : "tried", check.detail, check.hint);
    }
}

static void a_namespace_that_is_refused_says_why(void **state)
{
    static const struct refusal refusals[] = {
        {{.call = SYS_clone3, .action = SECCOMP_RET_ERRNO | EPERM},
         false,
         "this user may not create PID and user namespaces",
         "kernel.unprivileged_userns_clone=1"},
        {{.call = SYS_clone3, .action = SECCOMP_RET_ERRNO | EACCES},
         false,
         "this user may not create PID and user namespaces",
         "kernel.unprivileged_userns_clone=1"},
        {{.call = SYS_clone3, .action = SECCOMP_RET_ERRNO | ENOSPC},
         false,
         "the limit of namespaces is reached",
         "user.max_pid_namespaces"},
        {{.call = SYS_clone3, .action = SECCOMP_RET_ERRNO | EUSERS},
         false,
         "the limit of namespaces is reached",
         "user.max_pid_namespaces"},
        {{.call = SYS_clone3, .action = SECCOMP_RET_ERRNO | EINVAL},
         false,
         "the kernel does not support PID namespaces",
         "CONFIG_PID_NS"},
        {{.call = SYS_clone3, .action = SECCOMP_RET_ERRNO | EAGAIN},
         true,
         "cannot start a child: Resource temporarily unavailable",
         ""},
    };
    static const struct refusal inside[] = {
        {{.call = SYS_mount, .action = SECCOMP_RET_ERRNO | EPERM},
         false,
         "/proc cannot be mounted in a PID namespace",
         "unmask=ALL"},
        {{.call = SYS_mount, .action = SECCOMP_RET_KILL_PROCESS},
         false,
         "the first process of a namespace was killed by signal 31",
         "seccomp"},
        {{.call = SYS_getpid, .action = SECCOMP_RET_ERRNO | 2},
         false,
         "a new PID namespace could not be set up",
         ""},
    };
    struct bl_container_check here;

    (void)state;
    check_refusals(ask_pidns_probe, refusals, BL_COUNT(refusals));
    bl_container_check(BL_MECHANISM_PIDNS, &here);
    if (here.available)
        check_refusals(ask_pidns_probe, inside, BL_COUNT(inside));
}

static void a_cgroup_that_is_refused_says_why(void **state)
{
    static const struct refusal refusals[] = {
        {{.call = SYS_mkdirat, .action = SECCOMP_RET_ERRNO | EROFS},
         false,
         " is mounted read-only",
         "mount the cgroup file system writable"},
        {{.call = SYS_mkdirat, .action = SECCOMP_RET_ERRNO | EACCES},
         false,
         " is not delegated to this user",
         "Delegate=yes"},
        {{.call = SYS_mkdirat, .action = SECCOMP_RET_ERRNO | EPERM},
         false,
         " is not delegated to this user",
         "Delegate=yes"},
        {{.call = SYS_mkdirat, .action = SECCOMP_RET_ERRNO | EMFILE},
         true,
         "cannot create a cgroup: Too many open files",
         ""},
        {{.call = SYS_mkdirat, .action = SECCOMP_RET_ERRNO | ENFILE},
         true,
         "cannot create a cgroup: Too many open files in system",
         ""},
        {{.call = SYS_mkdirat, .action = SECCOMP_RET_ERRNO | ENOMEM},
         true,
         "cannot create a cgroup: Cannot allocate memory",
         ""},
        {{.call = SYS_mkdirat, .action = SECCOMP_RET_ERRNO | ENOSPC},
         false,
         ": No space left on device",
         ""},
        {{.call = SYS_clone3, .action = SECCOMP_RET_ERRNO | EAGAIN},
         true,
         "cannot start a child: Resource temporarily unavailable",
         ""},
    };
    struct bl_container_check here;
    struct bl_buffer before;

    (void)state;
    bl_container_check(BL_MECHANISM_CGROUP2, &here);
    if (!here.available)
        suite_skip("container mechanism not available");
    list_probes(&before);
    check_refusals(proc_cgroup_probe, refusals, BL_COUNT(refusals));
    assert_no_probe_is_left(&before);
}

static void a_subreaper_that_is_refused_says_why(void **state)
{
    static const struct refusal refusals[] = {
        {{.call = SYS_prctl,
          .mask = UINT32_MAX,
          .value = PR_GET_CHILD_SUBREAPER,
          .action = SECCOMP_RET_ERRNO | EINVAL},
         false,
         "prctl: Invalid argument",
         "use Linux 3.4 or later"},
    };

    (void)state;
    check_refusals(proc_subreaper_probe, refusals, BL_COUNT(refusals));
}

/* Independent of the room's own probe: a probe that always fails would make most tests skip it. */
static void container_that_works_in_a_shell_is_available(void **state)
{
    static const struct {
        enum bl_mechanism mechanism;
        const char *by_hand; /* shell command */
    } cases[] = {
        {BL_MECHANISM_PIDNS, "unshare -pfm --mount-proc true || unshare -Urpfm --mount-proc true"},
        {BL_MECHANISM_CGROUP2,
         "root=$(sed -n 's/^[^ ]* \\([^ ]*\\) cgroup2 .*/\\1/p' /proc/mounts | head -n 1);"
         "mine=$root$(sed -n 's/^0:://p' /proc/self/cgroup)/belay-by-hand-$$;"
         "test -n \"$root\" && mkdir \"$mine\" || exit 1;"
         "sleep 60 & echo $! >\"$mine/cgroup.procs\" && echo 1 >\"$mine/cgroup.kill\"; code=$?;"
         "test $code = 0 || kill $!; wait $!; rmdir \"$mine\"; exit $code"},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_container_check check;
        char command[1000];
        snprintf(command, sizeof command, "exec 2>/dev/null; %s", cases[i].by_hand);
        bool works = system(command) == 0;
        bl_container_check(cases[i].mechanism, &check);
        suite_fail_if(works && !check.available, "%s: %s", bl_mechanism_name(cases[i].mechanism),
                      check.detail);
    }
}

static void every_container_check_is_stored(void **state)
{
    static const enum bl_mechanism kinds[] = {BL_MECHANISM_SUBREAPER, BL_MECHANISM_CGROUP2,
                                              BL_MECHANISM_PIDNS};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(kinds); i++) {
        struct bl_container_check first, again;
        bl_container_check(kinds[i], &first);
        assert_int_equal(first.mechanism, kinds[i]);
        assert_true(first.detail[0] != '\0');
        assert_false(first.available && (first.untried || first.hint[0] != '\0'));
        if (first.untried)
            continue;
        bl_container_check(kinds[i], &again);
        assert_int_equal(again.available, first.available);
        assert_string_equal(again.detail, first.detail);
        assert_string_equal(again.hint, first.hint);
    }
    assert_no_child();
}

static void subreaper_is_available_on_every_supported_kernel(void **state)
{
    struct bl_container_check check;

    (void)state;
    bl_container_check(BL_MECHANISM_SUBREAPER, &check);
    assert_true(check.available);
}

static void auto_is_cgroup2_where_it_works_and_else_subreaper(void **state)
{
    struct bl_container_check automatic, cgroup;
    struct bl_error error = {0};
    enum bl_mechanism mechanism;

    (void)state;
    bl_container_check(BL_MECHANISM_NONE, &automatic);
    bl_container_check(BL_MECHANISM_CGROUP2, &cgroup);
    assert_true(automatic.available);
    assert_int_equal(automatic.mechanism,
                     cgroup.available ? BL_MECHANISM_CGROUP2 : BL_MECHANISM_SUBREAPER);
    assert_int_equal(proc_container_resolve(BL_MECHANISM_NONE, &mechanism, &error), 0);
    assert_int_equal(mechanism, automatic.mechanism);
}

static void file_check_agrees_with_the_probe(void **state)
{
    struct bl_container_check check = {0};

    (void)state;
    proc_cgroup_probe(&check);
    if (check.untried)
        suite_skip("container mechanism not available");
    assert_int_equal(proc_cgroup_directory(NULL, 0), check.available);
}

static void the_directory_takes_cgroups_or_there_is_none(void **state)
{
    char own[PATH_MAX], path[PATH_MAX];

    (void)state;
    if (!proc_cgroup_directory(own, sizeof own)) {
        print_message("no cgroups here\n");
        suite_skip("container mechanism not available");
    }
    assert_true((size_t)snprintf(path, sizeof path, "%.3000s/belay-container-%d", own,
                                 (int)getpid()) < sizeof path);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(rmdir(path), 0);
    assert_false(proc_cgroup_directory(own, 3));
}

static void requested_container_is_used_or_refused_with_the_reason(void **state)
{
    static const enum bl_mechanism kinds[] = {BL_MECHANISM_SUBREAPER, BL_MECHANISM_CGROUP2,
                                              BL_MECHANISM_PIDNS};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(kinds); i++) {
        struct bl_container_check check;
        struct bl_error error = {0};
        enum bl_mechanism mechanism = BL_MECHANISM_NONE;
        bl_container_check(kinds[i], &check);
        int code = proc_container_resolve(kinds[i], &mechanism, &error);
        if (check.available) {
            assert_int_equal(code, 0);
            assert_int_equal(mechanism, kinds[i]);
            assert_int_equal(error.code, 0);
        } else {
            assert_int_equal(code, BL_ENOTSUP);
            assert_int_equal(mechanism, BL_MECHANISM_NONE);
            assert_non_null(strstr(error.message, check.detail));
            assert_string_equal(error.hint, check.hint);
        }
    }
}

/* The decision must cost little compared with starting a process, which takes about a millisecond.
 */
static void auto_starts_no_process_and_is_quick(void **state)
{
    enum bl_mechanism mechanism;

    (void)state;
    uint64_t start_ns = bl_clock_now_ns(&bl_clock_system);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(proc_container_resolve(BL_MECHANISM_NONE, &mechanism, NULL), 0);
    uint64_t each_ns = (bl_clock_now_ns(&bl_clock_system) - start_ns) / 1000;
    print_message("%llu us for each decision\n", (unsigned long long)(each_ns / BL_NS_PER_US));
    assert_in_range(each_ns, 0, 10 * BL_NS_PER_MS);
    assert_no_child();
}

static void names_are_parsed(void **state)
{
    static const struct {
        const char *text;
        enum bl_mechanism mechanism;
    } cases[] = {{"auto", BL_MECHANISM_NONE},
                 {"pidns", BL_MECHANISM_PIDNS},
                 {"cgroup2", BL_MECHANISM_CGROUP2},
                 {"subreaper", BL_MECHANISM_SUBREAPER}};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_error error = {0};
        enum bl_mechanism mechanism = (enum bl_mechanism)99;
        assert_int_equal(bl_container_parse(cases[i].text, &mechanism, &error), 0);
        assert_int_equal(mechanism, cases[i].mechanism);
        assert_int_equal(error.code, 0);
    }
}

static void other_names_are_refused_with_the_list(void **state)
{
    static const char *const wrong[] = {"", "none", "Auto", "pidns ", "cgroup"};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        struct bl_error error = {0};
        enum bl_mechanism mechanism = BL_MECHANISM_PIDNS;
        assert_int_equal(bl_container_parse(wrong[i], &mechanism, &error), BL_EINVAL);
        assert_int_equal(mechanism, BL_MECHANISM_PIDNS);
        assert_int_equal(error.kind, BL_KIND_USAGE);
        assert_string_equal(error.hint, "choose auto, pidns, cgroup2 or subreaper");
        assert_int_equal(bl_container_parse(wrong[i], &mechanism, NULL), BL_EINVAL);
    }
}

static void *ask_pidns(void *argument)
{
    bl_container_check(BL_MECHANISM_PIDNS, argument);
    return NULL;
}

static void threads_get_the_same_answer(void **state)
{
    pthread_t threads[4];
    struct bl_container_check checks[BL_COUNT(threads)];

    (void)state;
    for (size_t i = 0; i < BL_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_pidns, &checks[i]), 0);
    for (size_t i = 0; i < BL_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 1; i < BL_COUNT(threads); i++)
        assert_string_equal(checks[i].detail, checks[0].detail);
}

static void results_are_shortened_to_fit(void **state)
{
    struct bl_container_check check = {0};
    char text[1000];

    (void)state;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    proc_check_answer(&check, true, "%s", text);
    proc_check_hint(&check, "%s", text);
    assert_true(check.available);
    assert_int_equal(strlen(check.detail), sizeof check.detail - 1);
    assert_int_equal(strlen(check.hint), sizeof check.hint - 1);
}

SUITE(container, cmocka_unit_test(the_usual_mount_is_found),
      cmocka_unit_test(a_hybrid_mount_is_found),
      cmocka_unit_test(a_mount_of_a_part_of_the_tree_is_understood),
      cmocka_unit_test(escapes_in_a_mount_are_undone),
      cmocka_unit_test(backslashes_in_cgroup_names_are_kept),
      cmocka_unit_test(without_one_it_says_why),
      cmocka_unit_test(path_that_does_not_fit_is_not_returned),
      cmocka_unit_test(the_probe_of_cgroup2_leaves_nothing_behind),
      cmocka_unit_test(the_probe_of_pidns_leaves_nothing_behind),
      cmocka_unit_test(a_namespace_that_is_refused_says_why),
      cmocka_unit_test(a_cgroup_that_is_refused_says_why),
      cmocka_unit_test(a_subreaper_that_is_refused_says_why),
      cmocka_unit_test(container_that_works_in_a_shell_is_available),
      cmocka_unit_test(threads_get_the_same_answer),
      cmocka_unit_test(every_container_check_is_stored),
      cmocka_unit_test(subreaper_is_available_on_every_supported_kernel),
      cmocka_unit_test(auto_is_cgroup2_where_it_works_and_else_subreaper),
      cmocka_unit_test(file_check_agrees_with_the_probe),
      cmocka_unit_test(the_directory_takes_cgroups_or_there_is_none),
      cmocka_unit_test(requested_container_is_used_or_refused_with_the_reason),
      cmocka_unit_test(auto_starts_no_process_and_is_quick), cmocka_unit_test(names_are_parsed),
      cmocka_unit_test(other_names_are_refused_with_the_list),
      cmocka_unit_test(results_are_shortened_to_fit));
