#include "suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandboxed.h"

struct fake {
    char folder[64];
    char path[80];
    char *search; /* the original PATH */
};

/* Replaces bubblewrap by a script; NULL: by nothing. */
static void fake_begin(struct fake *fake, const char *script)
{
    char search[256];

    snprintf(fake->folder, sizeof fake->folder, "/tmp/belay-sandbox-XXXXXX");
    assert_non_null(mkdtemp(fake->folder));
    snprintf(fake->path, sizeof fake->path, "%s/bwrap", fake->folder);
    if (script != NULL) {
        FILE *file = fopen(fake->path, "w");
        assert_non_null(file);
        fprintf(file, "#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.8.0; exit;; esac\n%s\n",
                script);
        fclose(file);
        chmod(fake->path, 0755);
    }
    const char *before = getenv("PATH");
    fake->search = before != NULL ? strdup(before) : NULL;
    /* The script's own programs are found after it. */
    snprintf(search, sizeof search, "%s%s", fake->folder, script != NULL ? ":/usr/bin:/bin" : "");
    setenv("PATH", search, 1);
}

static void fake_end(struct fake *fake)
{
    if (fake->search != NULL)
        setenv("PATH", fake->search, 1);
    else
        unsetenv("PATH");
    free(fake->search);
    unlink(fake->path);
    rmdir(fake->folder);
}

static struct bl_container_check check_with(const char *script)
{
    struct bl_container_check check;
    struct fake fake;

    fake_begin(&fake, script);
    bl_sandbox_check(&check);
    fake_end(&fake);
    return check;
}

static void without_bubblewrap_it_says_what_to_install(void **state)
{
    (void)state;
    struct bl_container_check check = check_with(NULL);
    assert_false(check.available || check.untried);
    assert_string_equal(check.detail, "bwrap not found in PATH");
    assert_string_equal(check.hint, "install bubblewrap");
}

static void working_bubblewrap_is_reported_with_its_version(void **state)
{
    (void)state;
    struct bl_container_check check = check_with("exit 0");
    assert_true(check.available);
    assert_string_equal(check.version, "0.8.0");
    assert_non_null(strstr(check.detail, "/bwrap"));
    assert_string_equal(check.hint, "");
}

/* Independent of the room's own probe: a probe that always fails would make most tests skip it. */
static void bubblewrap_that_works_in_a_shell_is_available(void **state)
{
    struct bl_container_check check;
    bool works = system("bwrap --unshare-pid --unshare-net --ro-bind / / --dev /dev --proc /proc "
                        "--tmpfs /tmp --tmpfs /run true 2>/dev/null") == 0;

    (void)state;
    bl_sandbox_check(&check);
    suite_fail_if(works && !check.available, "%s", check.detail);
}

static void failing_bubblewrap_is_quoted(void **state)
{
    (void)state;
    struct bl_container_check check =
        check_with("printf 'bwrap: no \\033permissions\\nmore\\n' >&2; exit 1");
    assert_false(check.available);
    assert_string_equal(check.version, "0.8.0");
    assert_string_equal(check.detail, "does not work here: bwrap: no ?permissions");
    assert_true(check.hint[0] != '\0');
    check = check_with("exit 1");
    assert_string_equal(check.detail, "does not work here: no output");
}

static void bubblewrap_that_dies_or_hangs_is_distinguished(void **state)
{
    (void)state;
    struct bl_container_check check = check_with("kill -SEGV $$");
    assert_false(check.available);
    assert_non_null(strstr(check.detail, "was killed by signal 11"));
    int limit_ms = proc_probe_limit_ms;
    proc_probe_limit_ms = 1000;
    check = check_with("sleep 60");
    proc_probe_limit_ms = limit_ms;
    assert_false(check.available);
    assert_non_null(strstr(check.detail, "timed out after 1 s"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void it_is_tried_once(void **state)
{
    struct bl_container_check check;
    struct fake fake;
    struct stat status;

    (void)state;
    fake_begin(&fake, "echo x >>\"$0.tries\"");
    for (int i = 0; i < 3; i++) {
        bl_sandbox_check(&check);
        assert_true(check.available);
    }
    char tries[96];
    snprintf(tries, sizeof tries, "%s.tries", fake.path);
    assert_int_equal(stat(tries, &status), 0);
    assert_int_equal(status.st_size, 2);
    unlink(tries);
    fake_end(&fake);
}

static void wrap_refused(enum bl_sandbox sandbox, const char *workspace, int code,
                         const char *message, const char *hint)
{
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    const char *const *wrapped = NULL;

    assert_int_equal(
        bl_sandbox_wrap(&arena, sandbox, workspace, NULL, false, LIST("true"), &wrapped, &error),
        code);
    assert_int_equal(
        bl_sandbox_wrap(&arena, sandbox, workspace, NULL, false, LIST("true"), &wrapped, NULL),
        code);
    assert_null(wrapped);
    assert_non_null(strstr(error.message, message));
    assert_string_equal(error.hint, hint);
    bl_arena_done(&arena);
}

static void unavailable_sandbox_is_an_error_without_fallback(void **state)
{
    struct fake fake;

    (void)state;
    fake_begin(&fake, NULL);
    wrap_refused(BL_SANDBOX_WORKSPACE, "/var/tmp", BL_ENOTSUP, "bwrap not found in PATH",
                 "install bubblewrap");
    wrap_refused(BL_SANDBOX_READ_ONLY, NULL, BL_ENOTSUP, "bwrap not found in PATH",
                 "install bubblewrap");
    fake_end(&fake);
    fake_begin(&fake, "echo no luck; exit 1");
    wrap_refused(BL_SANDBOX_WORKSPACE, "/var/tmp", BL_ENOTSUP, "does not work here: no luck",
                 "bubblewrap needs user namespaces, and does not work in a chroot; see pidns in "
                 "'belay doctor'");
    fake_end(&fake);
}

static void only_absolute_folders_are_searched(void **state)
{
    struct bl_container_check check;
    struct fake fake;

    (void)state;
    fake_begin(&fake, "exit 0");
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(fake.folder), 0);
    setenv("PATH", ".::", 1);
    bl_sandbox_check(&check);
    assert_int_equal(chdir(before), 0);
    free(before);
    assert_string_equal(check.detail, "bwrap not found in PATH");
    fake_end(&fake);
}

static void off_needs_nothing_and_changes_nothing(void **state)
{
    struct bl_arena arena = {0};
    struct fake fake;
    const char *const *wrapped;
    const char *const *arguments = LIST("echo", "", "--", "-x");

    (void)state;
    fake_begin(&fake, NULL);
    assert_int_equal(
        bl_sandbox_wrap(&arena, BL_SANDBOX_OFF, NULL, NULL, false, arguments, &wrapped, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(wrapped[i], arguments[i]);
    assert_null(wrapped[4]);
    fake_end(&fake);
    bl_arena_done(&arena);
}

static bool contains(const char *const *list, const char *word)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

static void bubblewrap_leaves_death_and_session_to_the_warden(void **state)
{
    struct bl_arena arena = {0};
    struct fake fake;
    const char *const *wrapped;

    (void)state;
    fake_begin(&fake, "exit 0");
    assert_int_equal(bl_sandbox_wrap(&arena, BL_SANDBOX_WORKSPACE, "/var/tmp", NULL, false,
                                     LIST("true"), &wrapped, NULL),
                     0);
    assert_string_equal(wrapped[0], fake.path);
    assert_false(contains(wrapped, "--die-with-parent"));
    assert_false(contains(wrapped, "--new-session"));
    assert_true(contains(wrapped, "--unshare-net"));
    assert_int_equal(bl_sandbox_wrap(&arena, BL_SANDBOX_READ_ONLY, "/var/tmp", NULL, true,
                                     LIST("true"), &wrapped, NULL),
                     0);
    assert_false(contains(wrapped, "--bind"));
    assert_false(contains(wrapped, "--unshare-net"));
    fake_end(&fake);
    bl_arena_done(&arena);
}

static void invalid_workspace_is_refused(void **state)
{
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    const char *const *wrapped = NULL;
    static const char *const nothing[] = {NULL};

    (void)state;
    wrap_refused(BL_SANDBOX_WORKSPACE, NULL, BL_EINVAL, "no workspace given", "");
    wrap_refused(BL_SANDBOX_WORKSPACE, "/nonexistent/workspace", BL_ENOENT,
                 "the workspace /nonexistent/workspace: No such file", "");
    wrap_refused(BL_SANDBOX_WORKSPACE, "/etc/passwd", BL_EINVAL, "Not a directory", "");
    wrap_refused(BL_SANDBOX_WORKSPACE, "/etc/..", BL_EINVAL, "nothing would be protected",
                 "choose another folder, or the sandbox read-only or off");
    assert_int_equal(
        bl_sandbox_wrap(&arena, BL_SANDBOX_OFF, NULL, NULL, false, nothing, &wrapped, &error),
        BL_EINVAL);
    assert_string_equal(error.message, "no command given");
    bl_arena_done(&arena);
}

static void names_are_parsed(void **state)
{
    static const char *const names[] = {"off", "workspace", "read-only"}; /* as in the enum */
    static const char *const wrong[] = {"", "on", "Off", "readonly", "workspace "};
    enum bl_sandbox sandbox = BL_SANDBOX_WORKSPACE;

    (void)state;
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        assert_int_equal(bl_sandbox_parse(names[i], &sandbox, NULL), 0);
        assert_int_equal(sandbox, i);
    }
    for (size_t i = 0; i < BL_COUNT(wrong); i++) {
        struct bl_error error = {0};
        assert_int_equal(bl_sandbox_parse(wrong[i], &sandbox, &error), BL_EINVAL);
        assert_int_equal(sandbox, BL_SANDBOX_READ_ONLY);
        assert_string_equal(error.hint, "choose read-only, workspace or off");
    }
}

/* A process that is left behind would become our child. */
static void the_probe_leaves_no_process_behind(void **state)
{
    struct bl_container_check check;
    char path[PATH_MAX];
    int was_subreaper;

    (void)state;
    if (!proc_bubblewrap_find(path, sizeof path, &check)) {
        print_message("%s\n", check.detail);
        suite_skip("missing program: bwrap");
    }
    assert_int_equal(prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (int i = 0; i < 10; i++) {
        proc_bubblewrap_probe(path, &check);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
    }
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, was_subreaper), 0);
}

static void the_workspace_is_writable_and_nothing_outside_is(void **state)
{
    struct place place;

    (void)state;
    place_begin(&place, "/var/tmp");
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false, "echo x >file"), 0);
    assert_true(file_exists(place.workspace));
    assert_int_not_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false,
                             "{ echo x >../outside/file; } 2>/dev/null"),
                         0);
    assert_false(file_exists(place.outside));
    place_end(&place);
}

static void read_only_means_the_workspace_too(void **state)
{
    struct place place;

    (void)state;
    place_begin(&place, "/var/tmp");
    assert_int_not_equal(
        run(BL_SANDBOX_READ_ONLY, place.workspace, false, "{ echo x >file; } 2>/dev/null"), 0);
    assert_false(file_exists(place.workspace));
    assert_int_equal(run(BL_SANDBOX_READ_ONLY, place.workspace, false, "echo x >/tmp/file"), 0);
    assert_int_equal(run(BL_SANDBOX_READ_ONLY, "/", false, "test \"$PWD\" = /"), 0);
    assert_int_equal(run(BL_SANDBOX_READ_ONLY, NULL, false, "! { >/var/tmp/file; } 2>/dev/null"),
                     0);
    place_end(&place);
}

static void tmp_is_private(void **state)
{
    struct place place, hidden;
    char script[256];

    (void)state;
    place_begin(&place, "/var/tmp");
    place_begin(&hidden, "/tmp");
    snprintf(script, sizeof script, "test ! -e %s && echo x >/tmp/belay-sandbox-file",
             hidden.folder);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false, script), 0);
    assert_int_equal(access("/tmp/belay-sandbox-file", F_OK), -1);
    place_end(&hidden);
    place_end(&place);
}

static void a_workspace_below_tmp_stays_in_sight(void **state)
{
    struct place place;
    char script[256];

    (void)state;
    place_begin(&place, "/tmp");
    snprintf(script, sizeof script, "test ! -e %s && echo x >file && echo x >/tmp/other",
             place.outside);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false, script), 0);
    assert_true(file_exists(place.workspace));
    assert_int_equal(run(BL_SANDBOX_READ_ONLY, place.workspace, false,
                         "test -e file && ! { echo y >file; } 2>/dev/null"),
                     0);
    place_end(&place);
}

static void further_folders_are_as_writable_as_the_workspace(void **state)
{
    struct place place, other;
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    struct bl_buffer output;
    struct proc_child_end end;
    const char *const *wrapped;
    char script[320];

    (void)state;
    place_begin(&place, "/var/tmp");
    place_begin(&other, "/tmp");
    bl_buffer_init(&output, 2048);
    const char *const *folders = LIST(place.outside, other.workspace);
    snprintf(script, sizeof script, "echo x >%s/file && echo x >%s/file && test ! -e %s",
             place.outside, other.workspace, other.outside);
    assert_int_equal(bl_sandbox_wrap(&arena, BL_SANDBOX_WORKSPACE, place.workspace, folders, false,
                                     LIST("/bin/sh", "-c", script), &wrapped, &error),
                     0);
    assert_int_equal(proc_program_run(wrapped, RUN_LIMIT_MS, &output, &end), 0);
    assert_int_equal(end.status, 0);
    assert_true(file_exists(place.outside) && file_exists(other.workspace));
    snprintf(script, sizeof script, "{ echo y >%s/other; } 2>/dev/null", other.workspace);
    assert_int_equal(bl_sandbox_wrap(&arena, BL_SANDBOX_READ_ONLY, place.workspace, folders, false,
                                     LIST("/bin/sh", "-c", script), &wrapped, &error),
                     0);
    assert_int_equal(proc_program_run(wrapped, RUN_LIMIT_MS, &output, &end), 0);
    assert_int_not_equal(end.status, 0);
    assert_int_equal(bl_sandbox_wrap(&arena, BL_SANDBOX_WORKSPACE, place.workspace,
                                     LIST("/nonexistent/folder"), false, LIST("true"), &wrapped,
                                     &error),
                     BL_ENOENT);
    assert_non_null(strstr(error.message, "the folder /nonexistent/folder: No such file"));
    bl_buffer_done(&output);
    bl_arena_done(&arena);
    place_end(&other);
    place_end(&place);
}

static void a_view_has_folders_to_read_and_folders_to_write(void **state)
{
    struct place place, other;
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    struct bl_buffer output;
    struct proc_child_end end;
    const char *const *wrapped;
    char script[400];

    (void)state;
    place_begin(&place, "/var/tmp");
    place_begin(&other, "/tmp");
    bl_buffer_init(&output, 2048);
    struct bl_sandbox_view view = {
        .sandbox = BL_SANDBOX_READ_ONLY,
        .workspace = place.workspace,
        .readable = LIST(other.outside, "/nonexistent/folder"),
        .writable = LIST(other.workspace),
    };
    snprintf(script, sizeof script,
             "echo x >%s/file && cd %s && { { echo x >file; } 2>/dev/null && exit 1; "
             "{ echo x >%s/file; } 2>/dev/null && exit 2; exit 0; }",
             other.workspace, other.outside, place.workspace);
    assert_int_equal(
        bl_sandbox_wrap_view(&arena, &view, LIST("/bin/sh", "-c", script), &wrapped, &error), 0);
    assert_int_equal(proc_program_run(wrapped, RUN_LIMIT_MS, &output, &end), 0);
    assert_int_equal(end.status, 0);
    assert_true(file_exists(other.workspace));
    assert_false(file_exists(other.outside) || file_exists(place.workspace));
    view.writable = LIST("/");
    assert_int_equal(bl_sandbox_wrap_view(&arena, &view, LIST("true"), &wrapped, &error),
                     BL_EINVAL);
    bl_buffer_done(&output);
    bl_arena_done(&arena);
    place_end(&other);
    place_end(&place);
}

static void command_starts_in_the_workspace_without_links(void **state)
{
    struct place place;
    char link[96], script[128];

    (void)state;
    place_begin(&place, "/var/tmp");
    snprintf(link, sizeof link, "%s/link", place.folder);
    assert_int_equal(symlink(place.workspace, link), 0);
    snprintf(script, sizeof script, "test \"$(pwd -P)\" = %s && echo x >file", place.workspace);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, link, false, script), 0);
    assert_true(file_exists(place.workspace));
    unlink(link);
    place_end(&place);
}

static void exit_codes_pass_through(void **state)
{
    struct place place;

    (void)state;
    place_begin(&place, "/var/tmp");
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false, "exit 0"), 0);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false, "exit 3"), 3);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false, "exit 255"), 255);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false, "kill -KILL $$"), 128 + 9);
    place_end(&place);
}

static void words_pass_through_as_they_are(void **state)
{
    struct place place;
    struct bl_buffer output;

    (void)state;
    place_begin(&place, "/var/tmp");
    bl_buffer_init(&output, 256);
    assert_int_equal(run_words(BL_SANDBOX_WORKSPACE, place.workspace, false,
                               LIST("printf", "<%s>", "--bind", "", "a b", "--", "*"), &output),
                     0);
    assert_true(bl_text_equal(bl_buffer_text(&output), BL_TEXT("<--bind><><a b><--><*>")));
    bl_buffer_done(&output);
    place_end(&place);
}

static void it_sees_no_processes_but_its_own(void **state)
{
    struct place place;

    (void)state;
    place_begin(&place, "/var/tmp");
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false,
                         "test $$ -lt 10 && set -- /proc/[0-9]* && test $# -lt 10"),
                     0);
    place_end(&place);
}

/* Root could do it with its usual capabilities. */
static void the_root_cannot_be_mounted_writable_again(void **state)
{
    struct place place;
    char script[256];

    (void)state;
    place_begin(&place, "/var/tmp");
    snprintf(script, sizeof script,
             "mount -o remount,bind,rw / 2>/dev/null; umount -l /tmp 2>/dev/null;"
             "! { echo x >%s/file; } 2>/dev/null",
             place.outside);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false, script), 0);
    assert_false(file_exists(place.outside));
    place_end(&place);
}

/* Tools that run as root work in workspaces that belong to others. */
static void root_may_write_where_another_user_owns(void **state)
{
    struct place place;

    (void)state;
    if (geteuid() != 0)
        suite_skip("needs root");
    place_begin(&place, "/var/tmp");
    assert_int_equal(chown(place.workspace, 65534, 65534), 0);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false,
                         "echo x >file && chown 65534 file && chmod 600 file && echo y >>file"),
                     0);
    place_end(&place);
}

static void tmpdir_is_unset_in_the_sandbox(void **state)
{
    struct place place;

    (void)state;
    place_begin(&place, "/var/tmp");
    setenv("TMPDIR", place.outside, 1);
    int status = run(BL_SANDBOX_WORKSPACE, place.workspace, false,
                     "test -z \"$TMPDIR\" && mktemp >/dev/null");
    unsetenv("TMPDIR");
    assert_int_equal(status, 0);
    place_end(&place);
}

static int listen_on_loopback(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void the_network_is_off_unless_allowed(void **state)
{
    struct place place;
    char script[128];
    uint16_t port;

    (void)state;
    if (access("/bin/bash", X_OK) != 0)
        suite_skip("missing program: bash");
    place_begin(&place, "/var/tmp");
    int listener = listen_on_loopback(&port);
    snprintf(script, sizeof script, "exec 2>/dev/null; exec bash -c ': >/dev/tcp/127.0.0.1/%d'",
             port);
    assert_int_not_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, false, script), 0);
    assert_int_not_equal(run(BL_SANDBOX_READ_ONLY, place.workspace, false, script), 0);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, place.workspace, true, script), 0);
    assert_int_equal(run(BL_SANDBOX_READ_ONLY, place.workspace, true, script), 0);
    close(listener);
    place_end(&place);
}

static void in_a_sandbox_auto_is_the_strongest_container(void **state)
{
    struct bl_container_check check;
    (void)state;
    bl_container_check(BL_MECHANISM_PIDNS, &check);
    assert_int_equal(bl_sandbox_container(BL_MECHANISM_NONE),
                     check.available ? BL_MECHANISM_PIDNS : BL_MECHANISM_NONE);
    assert_int_equal(bl_sandbox_container(BL_MECHANISM_SUBREAPER), BL_MECHANISM_SUBREAPER);
    assert_int_equal(bl_sandbox_container(BL_MECHANISM_CGROUP2), BL_MECHANISM_CGROUP2);
    assert_int_equal(bl_sandbox_container(BL_MECHANISM_PIDNS), BL_MECHANISM_PIDNS);
}

SUITE_TOGETHER(sandbox, cmocka_unit_test(without_bubblewrap_it_says_what_to_install),
               cmocka_unit_test(working_bubblewrap_is_reported_with_its_version),
               cmocka_unit_test(bubblewrap_that_works_in_a_shell_is_available),
               cmocka_unit_test(failing_bubblewrap_is_quoted),
               cmocka_unit_test(bubblewrap_that_dies_or_hangs_is_distinguished),
               cmocka_unit_test(it_is_tried_once),
               cmocka_unit_test(unavailable_sandbox_is_an_error_without_fallback),
               cmocka_unit_test(only_absolute_folders_are_searched),
               cmocka_unit_test(off_needs_nothing_and_changes_nothing),
               cmocka_unit_test(bubblewrap_leaves_death_and_session_to_the_warden),
               cmocka_unit_test(invalid_workspace_is_refused), cmocka_unit_test(names_are_parsed),
               cmocka_unit_test(the_probe_leaves_no_process_behind),
               cmocka_unit_test(the_workspace_is_writable_and_nothing_outside_is),
               cmocka_unit_test(read_only_means_the_workspace_too),
               cmocka_unit_test(tmp_is_private),
               cmocka_unit_test(a_workspace_below_tmp_stays_in_sight),
               cmocka_unit_test(further_folders_are_as_writable_as_the_workspace),
               cmocka_unit_test(a_view_has_folders_to_read_and_folders_to_write),
               cmocka_unit_test(command_starts_in_the_workspace_without_links),
               cmocka_unit_test(exit_codes_pass_through),
               cmocka_unit_test(words_pass_through_as_they_are),
               cmocka_unit_test(it_sees_no_processes_but_its_own),
               cmocka_unit_test(the_root_cannot_be_mounted_writable_again),
               cmocka_unit_test(root_may_write_where_another_user_owns),
               cmocka_unit_test(tmpdir_is_unset_in_the_sandbox),
               cmocka_unit_test(the_network_is_off_unless_allowed),
               cmocka_unit_test(in_a_sandbox_auto_is_the_strongest_container));
