/* Effects of the tools on folders and files that a sandbox protects. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box.h"
#include "fibers.h"

static bool has_sandbox(void)
{
    struct bl_container_check check;
    bl_sandbox_check(&check);
    if (!check.available)
        print_message("no sandbox: %s\n", check.detail);
    return check.available;
}

static void box_set_mode(struct box *box, enum bl_permission_mode mode)
{
    bl_permissions_free(box->permissions);
    box->options.permissions = box->permissions = bl_permissions_new(mode);
}

static bool exists(const struct box *box, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", box->workspace, name);
    return access(path, F_OK) == 0;
}

/* ---- Folders --------------------------------------------------------------------------------- */

static int replaced(void *argument)
{
    static struct box box;
    char build[256], outside[] = "/var/tmp/belay-outside-XXXXXX", command[128], file[64];
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    CHECK(mkdtemp(outside) != NULL);
    snprintf(build, sizeof build, "%s/build", box.workspace);
    snprintf(file, sizeof file, "%s/file", outside);
    CHECK_EQUAL(mkdir(build, 0700), 0);
    const char *const folders[] = {build, NULL};
    box.options.folders = folders;
    box.options.sandbox = BL_SANDBOX_WORKSPACE;
    box_open(&box);
    snprintf(command, sizeof command, "touch build/file && rm -r build && ln -s %s build", outside);
    CHECK_EQUAL(box_bash(&box, command, 0), 0);
    CHECK(!box.result.is_error);
    snprintf(command, sizeof command, "touch %s", file);
    CHECK_EQUAL(box_bash(&box, command, 0), 0);
    CHECK(box.result.is_error);
    CHECK(strstr(box_text(&box), "was replaced by another folder") != NULL);
    snprintf(command, sizeof command, "{\"path\":\"%s\",\"content\":\"x\"}", file);
    CHECK_EQUAL(box_use(&box, "write", command), 0);
    CHECK(box.result.is_error);
    CHECK(strstr(box_text(&box), "is outside the workspace") != NULL);
    CHECK_EQUAL(access(file, F_OK), -1);
    box_done(&box);
    unlink(file);
    rmdir(outside);
    return 0;
}

static void an_added_folder_that_a_command_replaced_is_refused(void **state)
{
    (void)state;
    if (!has_sandbox())
        suite_skip("no sandbox");
    run_in_loop(replaced, NULL);
}

/* ---- Git ------------------------------------------------------------------------------------- */

static int redirected(void *argument)
{
    static struct box box;
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    CHECK_EQUAL(setenv("GIT_CONFIG_NOSYSTEM", "1", 1), 0);
    box_open(&box);
    CHECK_EQUAL(box_bash(&box, "git init -q . && mkdir other", 0), 0);
    bl_toolbox_free(box.toolbox);
    box.options.sandbox = BL_SANDBOX_WORKSPACE;
    box_open(&box);
    CHECK_EQUAL(box_bash(&box, "echo ../other >.git/commondir", 0), 0);
    CHECK(strstr(box_text(&box), "removed commondir from ") != NULL);
    CHECK(!exists(&box, ".git/commondir"));
    CHECK_EQUAL(box_bash(&box, "ls", 0), 0);
    CHECK(strcmp(box_text(&box), "other\n") == 0);
    box_done(&box);
    return 0;
}

static void a_redirection_of_git_is_removed(void **state)
{
    (void)state;
    if (!has_sandbox())
        suite_skip("no sandbox");
    run_in_loop(redirected, NULL);
}

/* ---- Guarded files --------------------------------------------------------------------------- */

#define WRITE(path) "write", "{\"path\":\"" path "\",\"content\":\"x\"}"

static int guarded(void *argument)
{
    static struct box box;
    char reason[512], home[256];
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box_set_mode(&box, BL_PERMISSION_AUTO);
    CHECK_EQUAL(bl_permissions_add(box.permissions, true, "write", NULL), 0);
    CHECK_EQUAL(bl_permissions_add(box.permissions, true, "write(lib/.git/config)", NULL), 0);
    snprintf(home, sizeof home, "%s", getenv("HOME") != NULL ? getenv("HOME") : "/");
    setenv("HOME", box.workspace, 1);
    box_open(&box);
    CHECK_EQUAL(box_decide(&box, WRITE("a.c"), reason, sizeof reason), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(box_decide(&box, WRITE(".gitignore"), reason, sizeof reason), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(box_decide(&box, WRITE(".git/config"), reason, sizeof reason), BL_PERMIT_DENIED);
    CHECK(strcmp(reason, "Git may execute it") == 0);
    CHECK_EQUAL(box_decide(&box, WRITE("sub/.git/hooks/x"), reason, sizeof reason),
                BL_PERMIT_DENIED);
    CHECK_EQUAL(box_decide(&box, WRITE(".git"), reason, sizeof reason), BL_PERMIT_DENIED);
    CHECK_EQUAL(box_decide(&box, WRITE("lib/.git/config"), reason, sizeof reason),
                BL_PERMIT_ALLOWED);
    CHECK_EQUAL(box_decide(&box, WRITE(".config/belay/config.yaml"), reason, sizeof reason),
                BL_PERMIT_DENIED);
    CHECK_EQUAL(box_decide(&box, WRITE(".ssh/authorized_keys"), reason, sizeof reason),
                BL_PERMIT_DENIED);
    CHECK(strstr(reason, "it may contain secrets") != NULL);
    bl_permissions_set_mode(box.permissions, BL_PERMISSION_ASK);
    CHECK_EQUAL(box_decide(&box, WRITE("a.c"), reason, sizeof reason), BL_PERMIT_ALLOWED);
    CHECK_EQUAL(box_decide(&box, WRITE(".git/config"), reason, sizeof reason), BL_PERMIT_ASK);
    CHECK(
        strcmp(reason,
               "Allow write to .git/config? (Git may execute it) (no rule allows '.git/config')") ==
        0);
    bl_permissions_set_mode(box.permissions, BL_PERMISSION_YOLO);
    CHECK_EQUAL(box_decide(&box, WRITE(".git/config"), reason, sizeof reason), BL_PERMIT_ALLOWED);
    setenv("HOME", home, 1);
    box_done(&box);
    return 0;
}

static void guarded_file_needs_its_own_rule(void **state)
{
    (void)state;
    run_in_loop(guarded, NULL);
}

static int shown(void *argument)
{
    static struct box box;
    char home[256];
    (void)argument;
    box_init(&box, BL_MECHANISM_NONE);
    box.options.sandbox = BL_SANDBOX_WORKSPACE;
    snprintf(home, sizeof home, "%s", getenv("HOME") != NULL ? getenv("HOME") : "/");
    setenv("HOME", box.workspace, 1);
    box_write(&box, ".npmrc", "token");
    box_write(&box, ".netrc", "password");
    box_open(&box);
    CHECK_EQUAL(box_bash(&box, "cat .npmrc .netrc", 0), 0);
    CHECK(strcmp(box_text(&box), "") == 0);
    CHECK_EQUAL(bl_permissions_add(box.permissions, true, "read(*)", NULL), 0);
    CHECK_EQUAL(bl_permissions_add(box.permissions, true, "read(~/.npmrc)", NULL), 0);
    CHECK_EQUAL(box_bash(&box, "cat .npmrc .netrc", 0), 0);
    CHECK(strcmp(box_text(&box), "token") == 0);
    setenv("HOME", home, 1);
    box_done(&box);
    return 0;
}

static void a_rule_shows_a_secret_to_commands(void **state)
{
    (void)state;
    if (!has_sandbox())
        suite_skip("no sandbox");
    run_in_loop(shown, NULL);
}

SUITE(sandbox, cmocka_unit_test(an_added_folder_that_a_command_replaced_is_refused),
      cmocka_unit_test(a_redirection_of_git_is_removed),
      cmocka_unit_test(guarded_file_needs_its_own_rule),
      cmocka_unit_test(a_rule_shows_a_secret_to_commands));
