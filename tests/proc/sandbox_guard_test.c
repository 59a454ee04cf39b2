/* Paths that a sandbox hides, and paths that it protects inside writable folders. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "helpers.h"
#include "sandboxed.h"

/* A place with a home beside the workspace, and with no other variables that name folders of the
 * user. */
struct house {
    struct place place;
    char home[80];
    char *before[5];
};

static const char *const variables[] = {"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
                                        "XDG_STATE_HOME", "XDG_RUNTIME_DIR"};

static void house_begin(struct house *house)
{
    place_begin(&house->place, "/var/tmp");
    snprintf(house->home, sizeof house->home, "%s/home", house->place.folder);
    assert_int_equal(mkdir(house->home, 0700), 0);
    for (size_t i = 0; i < BL_COUNT(variables); i++) {
        const char *value = getenv(variables[i]);
        house->before[i] = value != NULL ? strdup(value) : NULL;
        unsetenv(variables[i]);
    }
    setenv("HOME", house->home, 1);
}

static void house_end(struct house *house)
{
    for (size_t i = 0; i < BL_COUNT(variables); i++) {
        if (house->before[i] != NULL)
            setenv(variables[i], house->before[i], 1);
        else
            unsetenv(variables[i]);
        free(house->before[i]);
    }
    place_remove(&house->place);
}

/* Runs a script in `folder` outside any sandbox, and checks that it succeeds. */
static void outside(const char *folder, const char *script)
{
    struct bl_buffer output;
    struct proc_child_end end;
    char whole[1200];

    snprintf(whole, sizeof whole, "cd '%s' && { %s\n}", folder, script);
    bl_buffer_init(&output, 2048);
    assert_int_equal(proc_program_run(LIST("/bin/sh", "-c", whole), RUN_LIMIT_MS, &output, &end),
                     0);
    if (end.status != 0)
        print_message(BL_TEXT_FORMAT, BL_TEXT_ARG(bl_buffer_text(&output)));
    bl_buffer_done(&output);
    assert_false(end.timed_out || end.by_signal);
    assert_int_equal(end.status, 0);
}

/* Runs a script in both sandboxes. */
static void run_both(const char *workspace, const char *script)
{
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, workspace, false, script), 0);
    assert_int_equal(run(BL_SANDBOX_READ_ONLY, workspace, false, script), 0);
}

/* ---- The machine ----------------------------------------------------------------------------- */

static void kernel_settings_cannot_be_written(void **state)
{
    struct place place;

    (void)state;
    place_begin(&place, "/var/tmp");
    /* Ordinary users own the settings of their own namespaces. */
    if (geteuid() == 0)
        run_both(place.workspace,
                 "found=$(find /proc/sys /proc/irq /proc/bus /proc/fs /proc/scsi "
                 "/proc/sysrq-trigger /sys -type f -writable 2>/dev/null | head -3);"
                 "echo \"$found\"; test -z \"$found\"");
    run_both(place.workspace, "value=$(cat /proc/sys/kernel/panic) && "
                              "! { echo $value >/proc/sys/kernel/panic; } 2>/dev/null");
    place_end(&place);
}

/* ---- Sockets --------------------------------------------------------------------------------- */

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

#define CONNECT                                                                                    \
    "perl -MSocket -e 'socket(S,PF_UNIX,SOCK_STREAM,0);"                                           \
    "exit(connect(S,sockaddr_un($ARGV[0])) ? 0 : 3)' "

static int connect_in(const struct place *place, bool network, const char *path)
{
    char script[300];

    snprintf(script, sizeof script, CONNECT "%s", path);
    return run(BL_SANDBOX_WORKSPACE, place->workspace, network, script);
}

static void sockets_of_the_machine_cannot_be_reached(void **state)
{
    struct house house;
    char in_home[100], in_workspace[100], in_runtime[120];

    (void)state;
    house_begin(&house);
    if (access("/usr/bin/perl", X_OK) != 0) {
        house_end(&house);
        suite_skip("missing program: perl");
    }
    outside(house.place.folder, "mkdir -p runtime/belay/control");
    snprintf(in_home, sizeof in_home, "%s/agent", house.home);
    snprintf(in_workspace, sizeof in_workspace, "%s/server", house.place.workspace);
    snprintf(in_runtime, sizeof in_runtime, "%s/runtime", house.place.folder);
    setenv("XDG_RUNTIME_DIR", in_runtime, 1);
    snprintf(in_runtime, sizeof in_runtime, "%s/runtime/belay/control/a", house.place.folder);
    int fds[] = {listen_at(in_home), listen_at(in_workspace), listen_at(in_runtime)};
    assert_int_equal(connect_in(&house.place, false, in_home), 3);
    assert_int_equal(connect_in(&house.place, false, in_workspace), 3);
    assert_int_equal(connect_in(&house.place, false, in_runtime), 3);
    /* With network, the first two can be reached, but not the folder of sockets. */
    assert_int_equal(connect_in(&house.place, true, in_home), 0);
    assert_int_equal(connect_in(&house.place, true, in_workspace), 0);
    assert_int_equal(connect_in(&house.place, true, in_runtime), 3);
    for (size_t i = 0; i < BL_COUNT(fds); i++)
        close(fds[i]);
    house_end(&house);
}

static void the_machines_runtime_folder_is_hidden(void **state)
{
    struct place place;
    char workspace[80];

    (void)state;
    place_begin(&place, "/var/tmp");
    run_both(place.workspace, "test -z \"$(ls -A /run)\" && test -z \"$(ls -A /var/run/)\"");
    place_end(&place);
    /* Even with /tmp as workspace, sockets of Belay cannot be reached. */
    snprintf(workspace, sizeof workspace, "/tmp/belay-%u", (unsigned)geteuid());
    bool made = mkdir(workspace, 0700) == 0;
    assert_true(made || errno == EEXIST);
    char script[256];
    snprintf(script, sizeof script, "test -z \"$(ls -A %s)\" && test ! -e %s/control", workspace,
             workspace);
    if (getenv("XDG_RUNTIME_DIR") == NULL)
        assert_int_equal(run(BL_SANDBOX_WORKSPACE, "/tmp", false, script), 0);
    if (made)
        rmdir(workspace);
}

/* Runs in a child that has its own /run. */
static int judge_system_programs(void)
{
    const struct bl_sandbox_view view = {.sandbox = BL_SANDBOX_READ_ONLY, .workspace = "/"};
    struct bl_arena arena = {0};
    struct bl_buffer output;
    struct proc_child_end end;
    const char *const *wrapped;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/run", "tmpfs", 0, NULL) != 0)
        return EXIT_NO_MOUNTS;
    if (mkdir("/run/wrappers", 0755) != 0 || symlink("/bin/true", "/run/wrappers/tool") != 0 ||
        mkdir("/run/other", 0755) != 0)
        return 1;
    bl_buffer_init(&output, 2048);
    if (bl_sandbox_wrap_view(&arena, &view,
                             LIST("/bin/sh", "-c", "/run/wrappers/tool && test ! -e /run/other"),
                             &wrapped, NULL) != 0 ||
        proc_program_run(wrapped, RUN_LIMIT_MS, &output, &end) != 0)
        return 2;
    return end.timed_out || end.by_signal || end.status != 0 ? 3 : 0;
}

/* On NixOS and Guix, system programs are in /run. */
static void programs_of_the_system_in_the_runtime_folder_stay_in_sight(void **state)
{
    struct place place;

    (void)state;
    place_begin(&place, "/var/tmp");
    place_end(&place);
    run_in_child(judge_system_programs);
}

/* The file may be a link into /run. */
static void names_are_resolved_with_the_network(void **state)
{
    struct place place;

    (void)state;
    place_begin(&place, "/var/tmp");
    if (access("/etc/resolv.conf", R_OK) == 0)
        assert_int_equal(
            run(BL_SANDBOX_WORKSPACE, place.workspace, true, "cat /etc/resolv.conf >/dev/null"), 0);
    place_end(&place);
}

/* ---- Secrets --------------------------------------------------------------------------------- */

static void make_secrets(const struct house *house)
{
    outside(house->home,
            "mkdir -p .ssh .config/gh .config/belay/skills/one .local/share/belay .aws &&"
            "echo secret | tee .ssh/id .netrc .config/gh/hosts.yml .config/belay/config.yaml "
            ".local/share/belay/sessions.db .aws/credentials >/dev/null &&"
            "echo skill >.config/belay/skills/one/SKILL.md && echo plain >.plain");
}

static void secrets_are_hidden_from_every_command(void **state)
{
    struct house house;

    (void)state;
    house_begin(&house);
    make_secrets(&house);
    run_both(house.place.workspace, "! grep -r secret $HOME 2>/dev/null && grep -q plain ~/.plain");
    /* With the home as workspace, too. */
    run_both(house.home, "! grep -r secret . 2>/dev/null && grep -q plain .plain");
    house_end(&house);
}

static void named_secrets_are_visible(void **state)
{
    struct house house;
    char aws[100], skills[120], ssh[100];

    (void)state;
    house_begin(&house);
    make_secrets(&house);
    snprintf(aws, sizeof aws, "%s/.aws", house.home);
    snprintf(ssh, sizeof ssh, "%s/.ssh", house.home);
    snprintf(skills, sizeof skills, "%s/.config/belay/skills", house.home);
    struct bl_sandbox_view view = {
        .sandbox = BL_SANDBOX_WORKSPACE,
        .workspace = house.place.workspace,
        .folders = LIST(aws),
        .readable = LIST(skills),
        .shown = LIST(ssh),
    };
    assert_int_equal(run_view(&view,
                              "cd ~ && cat .ssh/id .aws/credentials .config/belay/skills/*/* "
                              ">/dev/null && echo x >.aws/file &&"
                              "! { echo x >.ssh/file; } 2>/dev/null && test ! -e .netrc -o "
                              "! -s .netrc && test ! -e .config/belay/config.yaml"),
                     0);
    house_end(&house);
}

/* ---- Folders that are replaced --------------------------------------------------------------- */

static void a_folder_that_was_replaced_by_a_link_is_not_bound(void **state)
{
    struct house house;
    struct bl_arena arena = {0};
    struct bl_error error = {0};
    const char *const *wrapped;
    char build[100], skills[100];

    (void)state;
    house_begin(&house);
    make_secrets(&house);
    outside(house.place.workspace, "mkdir build skills");
    snprintf(build, sizeof build, "%s/build", house.place.workspace);
    snprintf(skills, sizeof skills, "%s/skills", house.place.workspace);
    struct bl_sandbox_view view = {
        .sandbox = BL_SANDBOX_WORKSPACE,
        .workspace = house.place.workspace,
        .folders = LIST(build),
        .readable = LIST(skills),
    };
    struct bl_sandbox_pins *pins = bl_sandbox_pins_new(&view);
    view.pins = pins;
    assert_int_equal(run_view(&view, "echo x >build/file && rmdir skills && ln -s ~/.ssh skills"),
                     0);
    assert_int_equal(run_view(&view, "! cat skills/id 2>/dev/null && rm -r build && "
                                     "ln -s ../outside build"),
                     0);
    assert_int_equal(bl_sandbox_wrap_view(&arena, &view, LIST("true"), &wrapped, &error),
                     BL_EACCES);
    assert_non_null(strstr(error.message, "was replaced by another folder"));
    outside(house.place.workspace, "rm build && mkdir build");
    assert_int_equal(bl_sandbox_wrap_view(&arena, &view, LIST("true"), &wrapped, &error),
                     BL_EACCES);
    bl_sandbox_pins_free(pins);
    bl_arena_done(&arena);
    house_end(&house);
}

/* ---- Git ------------------------------------------------------------------------------------- */

#define MAKE_REPOSITORY                                                                            \
    "git init -q . && git config user.name A && git config user.email a@example.com &&"            \
    "git commit -q --allow-empty -m first"

#define TOUCH "touch ../outside/file"

/* Ways in which a command could make Git outside the sandbox run a command of its own. */
static const char *const plants[] = {
    "git config core.fsmonitor '" TOUCH "'",
    "git config -f new core.fsmonitor '" TOUCH "'; mv -f new .git/config || cp new .git/config",
    "printf '#!/bin/sh\n" TOUCH "\n' >hook; chmod +x hook; mkdir -p .git/hooks;"
    "cp hook .git/hooks/pre-commit",
    "printf '#!/bin/sh\n" TOUCH "\n' >hook; chmod +x hook; mv .git/hooks .git/old;"
    "rm -rf .git/hooks; mkdir .git/hooks; cp hook .git/hooks/pre-commit",
    "cp -r .git new; git config -f new/config core.fsmonitor '" TOUCH "'; mv .git old;"
    "rm -rf .git; mv -T new .git",
    "cp -r .git ../workspace/new; git config -f new/config core.fsmonitor '" TOUCH "'; rm -rf .git;"
    "echo gitdir: new >.git",
};

static void git_runs_nothing_that_a_command_planted(void **state)
{
    struct house house;

    (void)state;
    house_begin(&house);
    for (size_t i = 0; i < 2 * BL_COUNT(plants); i++) {
        bool without_hooks = i >= BL_COUNT(plants); /* some repositories have no hooks folder */
        char script[400];
        outside(house.place.folder, "rm -rf workspace && mkdir workspace");
        outside(house.place.workspace, MAKE_REPOSITORY);
        if (without_hooks)
            outside(house.place.workspace, "rm -rf .git/hooks");
        snprintf(script, sizeof script, "exec 2>/dev/null; %s; exit 0",
                 plants[i % BL_COUNT(plants)]);
        assert_int_equal(run(BL_SANDBOX_WORKSPACE, house.place.workspace, false, script), 0);
        outside(house.place.workspace,
                "git status >/dev/null 2>&1; git commit -q --allow-empty -m x "
                ">/dev/null 2>&1; true");
        if (file_exists(house.place.outside))
            fail_msg("planted: %s", script);
    }
    house_end(&house);
}

static void a_worktree_configuration_cannot_be_planted(void **state)
{
    struct house house;

    (void)state;
    house_begin(&house);
    outside(house.place.workspace, MAKE_REPOSITORY " && git config extensions.worktreeConfig true");
    /* The second command finds what the first has left. */
    for (int i = 0; i < 2; i++)
        assert_int_equal(run(BL_SANDBOX_WORKSPACE, house.place.workspace, false,
                             "exec 2>/dev/null; git config -f new core.fsmonitor '" TOUCH "';"
                             "cat new >.git/config.worktree; mv -f new .git/config.worktree;"
                             "git commit -q --allow-empty -m x"),
                         0);
    outside(house.place.workspace, "git status >/dev/null 2>&1");
    assert_false(file_exists(house.place.outside));
    house_end(&house);
}

static void git_works_in_the_sandbox(void **state)
{
    struct house house;

    (void)state;
    house_begin(&house);
    outside(house.place.workspace, MAKE_REPOSITORY);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, house.place.workspace, false,
                         "echo x >file && git add file && git commit -qm second && "
                         "git checkout -qb topic && echo y >file && git commit -qam third && "
                         "git checkout -q - && git merge -q topic && git stash -q; "
                         "git tag one && git status >/dev/null && git gc -q"),
                     0);
    outside(house.place.workspace, "test $(git rev-list --count HEAD) = 3");
    house_end(&house);
}

static void a_worktree_keeps_its_git_directory(void **state)
{
    struct house house;

    (void)state;
    house_begin(&house);
    outside(house.place.folder, "mkdir main && cd main && " MAKE_REPOSITORY
                                " && git worktree add -q ../workspace/tree");
    char tree[120];
    snprintf(tree, sizeof tree, "%s/tree", house.place.workspace);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, tree, false,
                         "exec 2>/dev/null; echo gitdir: /x >.git; rm -f .git; mv .git x; exit 0"),
                     0);
    outside(tree, "git status >/dev/null");
    house_end(&house);
}

static void an_added_git_directory_is_protected(void **state)
{
    struct house house;
    char added[100];

    (void)state;
    house_begin(&house);
    outside(house.place.folder, "mkdir main && cd main && " MAKE_REPOSITORY);
    snprintf(added, sizeof added, "%s/main/.git", house.place.folder);
    struct bl_sandbox_view view = {
        .sandbox = BL_SANDBOX_WORKSPACE,
        .workspace = house.place.workspace,
        .folders = LIST(added),
    };
    assert_int_equal(run_view(&view, "cd ../main/.git && echo x >file && "
                                     "! { echo x >>config; } 2>/dev/null && "
                                     "! { echo x >hooks/post-commit; } 2>/dev/null"),
                     0);
    house_end(&house);
}

/* ---- Belay's own folders --------------------------------------------------------------------- */

static void a_home_as_workspace_keeps_belays_configuration(void **state)
{
    struct house house;

    (void)state;
    house_begin(&house);
    outside(house.home, "mkdir -p .config .ssh && echo x >.config/other");
    /* A named folder has no paths inside that are held. */
    char ssh[100];
    snprintf(ssh, sizeof ssh, "%s/.ssh", house.home);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, ssh, false, "echo x >file && rm file"), 0);
    assert_int_equal(run(BL_SANDBOX_WORKSPACE, house.home, false,
                         "exec 2>/dev/null; mkdir -p .config/belay .local/share/belay .ssh;"
                         "echo x >.config/belay/config.yaml; echo x >.local/share/belay/file;"
                         "mv .config gone && mkdir -p .config/belay &&"
                         "echo x >.config/belay/config.yaml;"
                         "mv .ssh keys; echo x >.ssh/authorized_keys; echo x >.config/mine"),
                     0);
    outside(house.home,
            "test ! -e .config/belay/config.yaml && test ! -e .local/share/belay/file &&"
            "test ! -e gone && test ! -e .ssh/authorized_keys && test -e .config/mine");
    house_end(&house);
}

static void a_home_as_workspace_keeps_the_users_git_configuration(void **state)
{
    struct house house;
    struct bl_arena arena = {0};

    (void)state;
    house_begin(&house);
    for (int i = 0; i < 2; i++)
        assert_int_equal(run(BL_SANDBOX_WORKSPACE, house.home, false,
                             "exec 2>/dev/null; git config -f new filter.x.clean true;"
                             "cat new >.gitconfig; cp new .config/git/config;"
                             "mv .config gone; mv -f new .gitconfig; exit 0"),
                         0);
    outside(house.home, "test ! -s .gitconfig && test ! -s .config/git/config && test ! -e gone");
    /* Tools do not write to it either. */
    const char *path = bl_arena_printf(&arena, "%s/.gitconfig", house.home).data;
    assert_non_null(bl_sandbox_guarded(&arena, house.home, path));
    bl_arena_done(&arena);
    house_end(&house);
}

SUITE_TOGETHER(sandbox_guard, cmocka_unit_test(kernel_settings_cannot_be_written),
               cmocka_unit_test(sockets_of_the_machine_cannot_be_reached),
               cmocka_unit_test(the_machines_runtime_folder_is_hidden),
               cmocka_unit_test(programs_of_the_system_in_the_runtime_folder_stay_in_sight),
               cmocka_unit_test(names_are_resolved_with_the_network),
               cmocka_unit_test(secrets_are_hidden_from_every_command),
               cmocka_unit_test(named_secrets_are_visible),
               cmocka_unit_test(a_folder_that_was_replaced_by_a_link_is_not_bound),
               cmocka_unit_test(git_runs_nothing_that_a_command_planted),
               cmocka_unit_test(a_worktree_configuration_cannot_be_planted),
               cmocka_unit_test(git_works_in_the_sandbox),
               cmocka_unit_test(a_worktree_keeps_its_git_directory),
               cmocka_unit_test(an_added_git_directory_is_protected),
               cmocka_unit_test(a_home_as_workspace_keeps_belays_configuration),
               cmocka_unit_test(a_home_as_workspace_keeps_the_users_git_configuration));
