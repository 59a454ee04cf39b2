#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../src/cli/probe.h"

/* Probes with a script of ours in the place of bubblewrap; NULL: with none at all. */
static struct probe_check probe_with(const char *script)
{
    char folder[] = "/tmp/belay-sandbox-XXXXXX";
    char path[128], search[256];
    struct probe_check check;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/bwrap", folder);
    if (script != NULL) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fprintf(file, "#!/bin/sh\ncase $1 in --version) echo bubblewrap 0.8.0; exit;; esac\n%s\n",
                script);
        fclose(file);
        chmod(path, 0755);
    }
    const char *before = getenv("PATH");
    char *kept = before != NULL ? strdup(before) : NULL;
    /* The script's own programs are found behind it. */
    snprintf(search, sizeof search, "%s%s", folder, script != NULL ? ":/usr/bin:/bin" : "");
    setenv("PATH", search, 1);
    probe_bubblewrap(&check);
    if (kept != NULL)
        setenv("PATH", kept, 1);
    free(kept);
    unlink(path);
    rmdir(folder);
    return check;
}

static void without_bubblewrap_it_says_what_to_install(void **state)
{
    (void)state;
    struct probe_check check = probe_with(NULL);
    assert_int_equal(check.state, PROBE_NO);
    assert_string_equal(check.detail, "no bwrap in PATH");
    assert_string_equal(check.hint, "install the package bubblewrap");
}

static void a_bubblewrap_that_works_is_named_with_its_version(void **state)
{
    (void)state;
    struct probe_check check = probe_with("exit 0");
    assert_int_equal(check.state, PROBE_OK);
    assert_string_equal(check.version, "0.8.0");
    assert_non_null(strstr(check.detail, "/bwrap"));
    assert_string_equal(check.hint, "");
}

static void one_that_fails_is_quoted(void **state)
{
    (void)state;
    struct probe_check check =
        probe_with("printf 'bwrap: no \\033permissions\\nmore\\n' >&2; exit 1");
    assert_int_equal(check.state, PROBE_NO);
    assert_string_equal(check.version, "0.8.0");
    assert_string_equal(check.detail, "does not work here: bwrap: no ?permissions");
    assert_true(check.hint[0] != '\0');
    check = probe_with("exit 1");
    assert_string_equal(check.detail, "does not work here: it says nothing");
}

static void one_that_dies_or_hangs_is_told_apart(void **state)
{
    (void)state;
    struct probe_check check = probe_with("kill -SEGV $$");
    assert_int_equal(check.state, PROBE_NO);
    assert_non_null(strstr(check.detail, "was killed by signal 11"));
    check = probe_with("sleep 60");
    assert_int_equal(check.state, PROBE_NO);
    assert_non_null(strstr(check.detail, "did not end within 5 s"));
}

static void landlock_and_seccomp_say_yes_or_why_not(void **state)
{
    struct probe_check checks[2];

    (void)state;
    probe_landlock(&checks[0]);
    probe_seccomp(&checks[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_true(checks[i].detail[0] != '\0');
        assert_int_equal(checks[i].hint[0] == '\0', checks[i].state == PROBE_OK);
    }
    assert_int_equal(checks[0].version[0] != '\0', checks[0].state == PROBE_OK);
}

SUITE(probe_sandbox, cmocka_unit_test(without_bubblewrap_it_says_what_to_install),
      cmocka_unit_test(a_bubblewrap_that_works_is_named_with_its_version),
      cmocka_unit_test(one_that_fails_is_quoted),
      cmocka_unit_test(one_that_dies_or_hangs_is_told_apart),
      cmocka_unit_test(landlock_and_seccomp_say_yes_or_why_not));
