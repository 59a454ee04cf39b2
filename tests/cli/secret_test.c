/* What a tool can read of belay's own environment. */
#include "stage.h"

#include <sys/stat.h>
#include <unistd.h>

#define KEY "belay-test-value-of-a-key"
/* Prints the environment of this process and of all its ancestors. */
#define LOOK_UP                                                                                    \
    "p=$$; while [ \"$p\" -gt 1 ]; do tr '\\0' '\\n' </proc/$p/environ; echo seen=$p; "            \
    "p=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$p/status); done 2>/dev/null; true"

static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

/* Runs a tool that searches /proc for secrets. belay is started by env(1), with one key whose name
 * is known and one that the configuration names. */
static const char *looked_up(const char *const *before)
{
    const char *words[24];
    size_t count = 0;
    const char *script = stage_script("replies:\n"
                                      "  - tools: [{name: bash, input: {command: 'sh look'}}]\n"
                                      "  - say: done\n");

    stage_file("look", "{ " LOOK_UP "; } >seen\n");
    while (before[count] != NULL) {
        words[count] = before[count];
        count++;
    }
    const char *const belay[] = {"env",       "ANTHROPIC_API_KEY=" KEY,
                                 "MINE=" KEY, runner_program(),
                                 "run",       "look around",
                                 "--yolo",    "--sandbox",
                                 "off",       "--container",
                                 "subreaper", "--provider",
                                 script,      NULL};
    for (size_t i = 0; i < BL_COUNT(belay); i++)
        words[count++] = belay[i];
    held_start(&held, words, HELD_NULL, RUN_KEEP);
    held_wait(&held);
    if (held.exit_code != 0)
        fail_msg("%s", held_err(&held));
    struct bl_text seen = suite_read_file(stage_path("work/seen"));
    const char *kept = stage_keep(seen);
    bl_free((void *)seen.data);
    return kept;
}

/* Checks that the tool has read its own process, the warden, and, if permitted, belay. */
static void check_nothing(const char *seen)
{
    assert_true(stage_lines_with(seen, "seen=") >= 3);
    if (strstr(seen, KEY) != NULL)
        fail_msg("a tool found the key:\n%s", seen);
}

static void configure(unsigned user)
{
    const char *folder = stage_path("config/belay");
    const char *make = stage_printf("mkdir -p %s && printf 'providers:\\n  other: {api: openai, "
                                    "base_url: \"http://127.0.0.1:1\", key_env: MINE}\\n' "
                                    ">%s/config.yaml && chown -R %u %s",
                                    folder, folder, user, stage_path(""));
    static struct held shell;

    held_start(&shell, (const char *const[]){"sh", "-c", make, NULL}, HELD_NULL, RUN_KEEP);
    held_wait(&shell);
    assert_int_equal(shell.exit_code, 0);
    held_end(&shell);
}

static void a_tool_finds_no_key_in_proc(void **state)
{
    (void)state;
    configure(geteuid());
    check_nothing(looked_up((const char *const[]){NULL}));
}

static void a_tool_of_an_ordinary_user_finds_no_key_in_proc(void **state)
{
    (void)state;
    if (geteuid() != 0)
        suite_skip("needs root");
    configure(65534);
    check_nothing(looked_up((const char *const[]){"setpriv", "--reuid=65534", "--regid=65534",
                                                  "--clear-groups", NULL}));
}

static void hold_passes_the_whole_environment_on(void **state)
{
    static struct run run;
    const char *const words[] = {
        "hold",
        "--container",
        "subreaper",
        "--",
        "sh",
        "-c",
        "p=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status); "
        "echo \"own=$ANTHROPIC_API_KEY\"; tr '\\0' '\\n' </proc/$p/environ; true",
        NULL};

    (void)state;
    runner_run_with(&run, words, (const char *const[]){"ANTHROPIC_API_KEY=" KEY, "PLAIN=1", NULL},
                    RUN_KEEP);
    assert_non_null(strstr(run.out, "own=" KEY "\n"));
    /* In belay's own environment, the name is kept and the value is erased. */
    assert_null(strstr(run.out, "ANTHROPIC_API_KEY=" KEY));
}

SUITE(secret, HELD(a_tool_finds_no_key_in_proc),
      HELD(a_tool_of_an_ordinary_user_finds_no_key_in_proc),
      HELD(hold_passes_the_whole_environment_on));
