#include <sys/stat.h>
#include <unistd.h>

#include "stage.h"

static void init_writes_only_facts_from_files(void **state BL_UNUSED)
{
    struct run run;

    mkdir("src", 0755);
    mkdir(".git", 0755);
    mkdir("node_modules", 0755);
    stage_file("src/a.c", "int a;\n");
    stage_file("src/b.c", "int b;\n");
    stage_file("node_modules/x.js", "x\n");
    stage_file("Makefile", "all:\n\ttrue\ntest: all\n\ttrue\nbuild := x\n");
    stage_file("package.json", "{\"scripts\": {\"lint\": \"eslint .\"}}");
    stage_file(".editorconfig", "[*.c]\nindent_size = 4\n");
    RUN(&run, "init", "--print");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "Languages: C (2 files)."));
    assert_non_null(strstr(run.out, "- `make`: the default target (Makefile)\n"
                                    "- `make test`: run the tests (Makefile)\n"
                                    "- `npm install`: install the dependencies (package.json)\n"
                                    "- `npm run lint`: `eslint .` (package.json)\n"));
    assert_null(strstr(run.out, "make build"));
    assert_null(strstr(run.out, "cargo"));
    assert_non_null(strstr(run.out, "- `src/`: 2 files, most of them C\n"));
    assert_null(strstr(run.out, "node_modules"));
    assert_non_null(strstr(run.out, "- Files `*.c`: indent_size is 4 (.editorconfig)\n"));
    assert_false(stage_exists("AGENTS.md"));
}

static void init_never_overwrites_without_force(void **state BL_UNUSED)
{
    struct run run;
    struct stat status;

    stage_file("AGENTS.md", "mine\n");
    RUN(&run, "init");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "AGENTS.md' already exists"));
    assert_non_null(strstr(run.err, "--force"));
    assert_int_equal(stat("AGENTS.md", &status), 0);
    assert_int_equal(status.st_size, 5);
    RUN(&run, "init", "--force");
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(stat("AGENTS.md", &status), 0);
    assert_true(status.st_size > 5);
    unlink("AGENTS.md");
    RUN(&run, "init");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "/AGENTS.md. Review it"));
    assert_true(stage_exists("AGENTS.md"));
}

SUITE(init, STAGED(init_writes_only_facts_from_files), STAGED(init_never_overwrites_without_force));
