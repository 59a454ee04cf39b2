#include "left.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../proof/place.h"

static const char *build_root;

static int left_give(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return chown(path, PLACE_USER, PLACE_USER);
}

/* Wraps belay in a program that changes to the ordinary user and then executes belay. */
static void left_wrap_belay(void)
{
    const char *folder = stage_path("bin"), *path = stage_path("bin/belay");

    assert_int_equal(mkdir(folder, 0755), 0);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file,
            "#!/bin/sh\nexec setpriv --reuid %d --regid %d --clear-groups '%s/belay' \"$@\"\n",
            PLACE_USER, PLACE_USER, build_root);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0755), 0);
    setenv("BELAY_BUILD_ROOT", folder, 1);
}

int left_begin(void **state)
{
    if (geteuid() != 0)
        return 0;
    build_root = getenv("BELAY_BUILD_ROOT");
    assert_non_null(build_root);
    build_root = strdup(build_root);
    stage_begin(state);
    assert_int_equal(nftw(stage_path("."), left_give, 16, FTW_PHYS), 0);
    assert_true(place_copy_setuid(stage_printf("%s/tests/proof/hostile", build_root),
                                  stage_path("other"), PLACE_OTHER_USER));
    left_wrap_belay();
    return 0;
}

void left_require(void)
{
    if (geteuid() != 0)
        suite_skip("needs root");
}

int left_end(void **state)
{
    if (geteuid() != 0)
        return 0;
    setenv("BELAY_BUILD_ROOT", build_root, 1);
    free((char *)(uintptr_t)build_root);
    return stage_end(state);
}

const char *left_command(void)
{
    return stage_keep(bl_text_from(
        stage_printf("%s/tests/proof/hostile setuid-all %s", build_root, stage_path("other"))));
}

const char *left_script(void)
{
    return stage_script(stage_printf("replies:\n  - tools: [{name: bash, input: {command: "
                                     "'%s'}}]\n  - say: done\nrepeat: true\n",
                                     left_command()));
}

void left_check(const struct bl_json *receipt)
{
    assert_int_equal(stage_number_at(receipt, "/survivors"), LEFT_COUNT);
    assert_int_equal(stage_number_at(receipt, "/units/0/survivors"), LEFT_COUNT);
    /* Not `unknown`, as for a warden whose report is not trusted. */
    assert_string_equal(stage_text_at(receipt, "/units/0/fate"), "killed");
}

void left_check_store(const char *session, const char *reason)
{
    static struct run run;
    size_t found = 0;

    RUN(&run, "session", "export", session);
    assert_int_equal(run.exit_code, 0);
    for (char *line = strtok(run.out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        const struct bl_json *value = stage_json(line);
        if (strcmp(stage_text_at(value, "/type"), "receipt") != 0 ||
            strcmp(stage_text_at(value, "/receipt/reason"), reason) != 0)
            continue;
        assert_int_equal(stage_number_at(value, "/receipt/survivors"), LEFT_COUNT);
        found++;
    }
    assert_int_equal(found, 1);
}
