#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <belay/json.h>

static bool holds(struct bl_text text, const char *part)
{
    return bl_text_find(text, bl_text_from(part)) >= 0;
}

static void look_at_environment(struct stage *stage)
{
    struct bl_git_answer answer = stage_run(stage, BL_GIT_ARGUMENTS("showenv"));
    CHECK_EQUAL(answer.status, 0);
    CHECK(holds(answer.output, "GIT_ALLOW_PROTOCOL=none\n"));
    CHECK(holds(answer.output, "GIT_TERMINAL_PROMPT=0\n"));
    CHECK(holds(answer.output, "PLAIN=1\n"));
    CHECK(holds(answer.output, "LC_ALL=C\n"));
    CHECK(holds(answer.output, "GIT_AUTHOR_NAME=kept\n"));
    CHECK(holds(answer.output, "GIT_AUTHOR_EMAIL=kept\n"));
    CHECK(holds(answer.output, "GIT_COMMITTER_NAME=kept\n"));
    CHECK(holds(answer.output, "GIT_COMMITTER_EMAIL=kept\n"));
    CHECK(!holds(answer.output, "SOME_API_KEY"));
    CHECK(!holds(answer.output, "SSH_AUTH_SOCK"));
    CHECK(!holds(answer.output, "/nonexistent"));
}

static void programs_get_no_secrets_and_no_other_repository(void **state)
{
    (void)state;
    stage_play(look_at_environment);
}

static void look_at_folder(struct stage *stage)
{
    struct bl_git_answer answer = stage_run(stage, BL_GIT_ARGUMENTS("showenv"));
    CHECK(holds(answer.output,
                bl_arena_printf(&stage->arena, "GIT_DIR=%s/.git\n", stage->root).data));
    CHECK(holds(answer.output,
                bl_arena_printf(&stage->arena, "GIT_WORK_TREE=%s\n", stage->root).data));
    CHECK(holds(answer.output, "GIT_OPTIONAL_LOCKS=0\n"));
    stage->call.writes = true;
    answer = stage_run(stage, BL_GIT_ARGUMENTS("showenv"));
    CHECK(!holds(answer.output, "GIT_OPTIONAL_LOCKS"));
    stage->call.folder = NULL;
    answer = stage_run(stage, BL_GIT_ARGUMENTS("rev-parse", "--git-dir"));
    CHECK(bl_text_equal(answer.output, BL_TEXT(".git\n")));
    CHECK_EQUAL(answer.output.data[answer.output.size], '\0');
}

static void a_call_with_a_folder_names_the_repository(void **state)
{
    (void)state;
    stage_play(look_at_folder);
}

static void look_at_answer(struct stage *stage)
{
    struct bl_git_answer answer = stage_run(stage, BL_GIT_ARGUMENTS("speak"));
    CHECK_EQUAL(answer.status, 3);
    CHECK(bl_text_equal(answer.output, BL_TEXT("out\n")));
    CHECK(holds(answer.words, "words\n"));
    CHECK_EQUAL(answer.words.data[answer.words.size], '\0');
    CHECK(!answer.cut);
    answer = stage_run(stage, BL_GIT_ARGUMENTS("die"));
    CHECK_EQUAL(answer.status, 128 + 9);
    answer = stage_run(stage, BL_GIT_ARGUMENTS("flood"));
    CHECK_EQUAL(answer.output.size, BL_GIT_OUTPUT_MAX);
    CHECK(answer.cut);
    answer = stage_run(stage, BL_GIT_ARGUMENTS("one"));
    CHECK(bl_text_equal(answer.output, BL_TEXT("1")));
    CHECK_EQUAL(answer.words.size, 0);
    /* A program that sets its offset past the end cannot have written more than the limit. */
    answer = stage_run(stage, BL_GIT_ARGUMENTS("skip"));
    CHECK_EQUAL(answer.status, 0);
    CHECK_EQUAL(answer.output.size, BL_GIT_OUTPUT_MAX);
    CHECK(answer.cut);
}

static void an_answer_has_status_output_and_error_output(void **state)
{
    (void)state;
    stage_play(look_at_answer);
}

static void look_at_input(struct stage *stage)
{
    /* Objects of the contents "x" and "x\n". */
    static const char one[] = "c1b0730e0133447badcfd47fd144e254807b06e1\n";
    static const char line[] = "587be6b4c3f93f93c489c0111bba5596147a26cb\n";
    static const char *const hash[] = {"hash-object", "--stdin", NULL};
    stage->call.input = BL_TEXT("x\n");
    CHECK(bl_text_equal(stage_run(stage, hash).output, bl_text_from(line)));
    stage->call.input = BL_TEXT("x");
    CHECK(bl_text_equal(stage_run(stage, hash).output, bl_text_from(one)));
}

static void input_reaches_the_program_completely(void **state)
{
    (void)state;
    stage_play(look_at_input);
}

static void look_at_lock(struct stage *stage)
{
    const char *path = bl_arena_printf(&stage->arena, "%s/f", stage->root).data;
    stage->call.lock = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(stage->call.lock > 0);
    CHECK(holds(stage_run(stage, BL_GIT_ARGUMENTS("showinput")).output, path));
    CHECK_EQUAL(close(stage->call.lock), 0);
    /* A closed descriptor cannot be passed on, so no program runs. */
    uint64_t before = stage->git.programs;
    struct bl_git_answer answer;
    CHECK_EQUAL(bl_git_run(&stage->git, &stage->arena, &stage->call, BL_GIT_ARGUMENTS("status"),
                           &answer, &stage->error),
                BL_EMFILE);
    CHECK_EQUAL(stage->git.programs, before);
    stage->call.lock = 0;
}

static void a_lock_is_passed_on_as_standard_input(void **state)
{
    (void)state;
    stage_play(look_at_lock);
}

/* Without a lock and input, the program reads nothing: it does not get the caller's standard input.
 */
static void look_at_no_input(struct stage *stage)
{
    const char *path = bl_arena_printf(&stage->arena, "%s/f", stage->root).data;
    int kept = fcntl(0, F_DUPFD_CLOEXEC, 3), file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_EQUAL(dup2(file, 0), 0);
    close(file);
    struct bl_git_answer answer = stage_run(stage, BL_GIT_ARGUMENTS("showinput"));
    CHECK_EQUAL(fcntl(0, F_GETFD), 0);
    CHECK_EQUAL(dup2(kept, 0), 0);
    close(kept);
    CHECK(bl_text_equal(answer.output, BL_TEXT("/dev/null\n")));
}

static void standard_input_of_the_caller_is_not_passed_on(void **state)
{
    (void)state;
    stage_play(look_at_no_input);
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (CHECK(folder != NULL) && readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void look_at_descriptors(struct stage *stage)
{
    stage->call.input = BL_TEXT("x");
    stage_run(stage, BL_GIT_ARGUMENTS("hash-object", "--stdin"));
    unsigned before = count_descriptors();
    stage_run(stage, BL_GIT_ARGUMENTS("hash-object", "--stdin"));
    CHECK_EQUAL(count_descriptors(), before);
}

static void a_call_closes_its_descriptors(void **state)
{
    (void)state;
    stage_play(look_at_descriptors);
}

/* Checks that under that limit of file sizes the call is refused and leaves nothing open. */
static void check_refused_below(struct stage *stage, rlim_t size)
{
    struct bl_git_answer answer;
    struct rlimit limit;
    unsigned before = count_descriptors();
    uint64_t programs = stage->git.programs;
    stage->error = (struct bl_error){0};
    CHECK_EQUAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &(struct rlimit){size, limit.rlim_max}), 0);
    CHECK_EQUAL(bl_git_run(&stage->git, &stage->arena, &stage->call,
                           BL_GIT_ARGUMENTS("hash-object", "--stdin"), &answer, &stage->error),
                BL_EMFILE);
    CHECK_EQUAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CHECK(strcmp(stage->error.message, "cannot create files for its input and output") == 0);
    CHECK_EQUAL(stage->git.programs, programs);
    CHECK_EQUAL(count_descriptors(), before);
}

/* The same if the source, or one of the sinks, is one descriptor too many. */
static void look_at_descriptor_limit(struct stage *stage)
{
    struct bl_git_answer answer;
    struct rlimit limit;
    int free[3];
    stage->call.folder = NULL;
    stage->call.input = BL_TEXT("x");
    stage_run(stage, BL_GIT_ARGUMENTS("hash-object", "--stdin"));
    for (size_t i = 0; i < BL_COUNT(free); i++)
        free[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < BL_COUNT(free); i++)
        close(free[i]);
    unsigned before = count_descriptors();
    CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &limit), 0);
    for (size_t i = 0; i < BL_COUNT(free); i++) {
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)free[i], limit.rlim_max}), 0);
        int code = bl_git_run(&stage->git, &stage->arena, &stage->call,
                              BL_GIT_ARGUMENTS("hash-object", "--stdin"), &answer, &stage->error);
        CHECK_EQUAL(setrlimit(RLIMIT_NOFILE, &limit), 0);
        CHECK_EQUAL(code, BL_EMFILE);
        CHECK(strcmp(stage->error.message, "cannot create files for its input and output") == 0);
    }
    CHECK_EQUAL(count_descriptors(), before);
}

static void a_call_without_descriptors_is_refused(void **state)
{
    (void)state;
    stage_play(look_at_descriptor_limit);
}

struct stopping {
    struct bl_scope scope;
    const char *path; /* of a file whose appearance stops the scope */
};

static int stop_when_begun(void *argument)
{
    struct stopping *stopping = argument;
    while (access(stopping->path, F_OK) != 0 && bl_sleep(BL_NS_PER_MS) == 0)
        continue;
    bl_scope_stop(&stopping->scope, BL_STOP_USER, "test");
    return 0;
}

static void look_at_stop(struct stage *stage)
{
    struct stopping stopping;
    struct bl_nursery nursery;
    struct bl_receipt receipt;
    struct bl_git_answer answer;
    struct bl_json_writer writer;
    struct bl_buffer out;
    uint64_t begun_ns = bl_now_ns();
    stage->call.folder = NULL;
    stopping.path = bl_arena_printf(&stage->arena, "%s/begun", stage->root).data;
    bl_scope_init(&stopping.scope, bl_scope_current());
    bl_receipt_open(&receipt, &stopping.scope, "run_test");
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "stop", stop_when_begun, &stopping, NULL);
    struct bl_scope *outer = bl_scope_enter(&stopping.scope);
    CHECK_EQUAL(bl_git_run(&stage->git, &stage->arena, &stage->call, BL_GIT_ARGUMENTS("hang"),
                           &answer, &stage->error),
                BL_ECANCELED);
    bl_scope_enter(outer);
    bl_nursery_done(&nursery);
    CHECK_EQUAL(bl_receipt_survivors(&receipt), 0);
    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_receipt_write(&receipt, &writer);
    CHECK(holds(bl_buffer_text(&out), "\"id\":\"git-1\",\"name\":\"git hang\""));
    bl_buffer_done(&out);
    bl_receipt_close(&receipt);
    bl_scope_done(&stopping.scope);
    CHECK(stage->git.spent_ns > 0 && stage->git.spent_ns <= bl_now_ns() - begun_ns);
}

static void a_stop_ends_the_program_and_names_it_in_the_receipt(void **state)
{
    (void)state;
    stage_play(look_at_stop);
}

static void look_at_full_files(struct stage *stage)
{
    struct sigaction before;
    /* Without a folder, so that no other program runs first. */
    stage->call.folder = NULL;
    stage->call.input = BL_TEXT("x");
    stage_run(stage, BL_GIT_ARGUMENTS("hash-object", "--stdin"));
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, &before);
    check_refused_below(stage, BL_GIT_WORDS_MAX);
    check_refused_below(stage, BL_GIT_WORDS_MAX - 1);
    /* The output would fit, but the input does not. */
    char *data = bl_arena_zalloc(&stage->arena, BL_GIT_OUTPUT_MAX + 1);
    stage->call.input = (struct bl_text){data, BL_GIT_OUTPUT_MAX + 1};
    check_refused_below(stage, BL_GIT_OUTPUT_MAX);
    sigaction(SIGXFSZ, &before, NULL);
}

static void a_call_whose_files_do_not_fit_is_refused(void **state)
{
    (void)state;
    stage_play(look_at_full_files);
}

static void look_at_absence(struct stage *stage)
{
    struct bl_git_answer answer;
    stage->call.directory = "/nonexistent/place";
    CHECK_EQUAL(bl_git_run(&stage->git, &stage->arena, &stage->call, BL_GIT_ARGUMENTS("status"),
                           &answer, &stage->error),
                BL_ENOENT);
    CHECK(strcmp(stage->error.target, "/nonexistent/place") == 0);
    CHECK(strcmp(stage->error.message, "No such file or directory") == 0);
    CHECK_EQUAL(stage->git.programs, 0);
}

static void a_missing_directory_is_an_error_that_names_it(void **state)
{
    (void)state;
    stage_play(look_at_absence);
}

/* Runs a call with a PATH that has no executable git. */
static int run_in_path(struct stage *stage, const char *path, struct bl_error *error)
{
    struct bl_git_answer answer;
    char *kept = strdup(getenv("PATH"));
    setenv("PATH", path, 1);
    bl_git_variable_set(&stage->git, "PATH", path);
    int code = bl_git_run(&stage->git, &stage->arena, &stage->call, BL_GIT_ARGUMENTS("status"),
                          &answer, error);
    setenv("PATH", kept, 1);
    free(kept);
    return code;
}

static void look_at_missing_git(struct stage *stage)
{
    static const struct {
        int code;
        const char *message;
    } rows[] = {{BL_ENOENT, "git not found"}, {BL_EACCES, "git cannot be executed"}};
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        stage->error = (struct bl_error){0};
        CHECK_EQUAL(run_in_path(stage, stage->root, &stage->error), rows[i].code);
        CHECK_EQUAL(run_in_path(stage, stage->root, NULL), rows[i].code);
        CHECK_EQUAL(stage->error.kind, BL_KIND_FEATURE);
        CHECK(strcmp(stage->error.message, rows[i].message) == 0);
        CHECK(strstr(stage->error.hint, "install git") != NULL);
        int fd = open(bl_arena_printf(&stage->arena, "%s/git", stage->root).data,
                      O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        CHECK(fd >= 0);
        close(fd);
    }
}

static void a_missing_git_is_reported(void **state)
{
    (void)state;
    stage_play(look_at_missing_git);
}

static void look_at_variables(struct stage *stage)
{
    CHECK(bl_git_variable_has(&stage->git, "PLAIN"));
    CHECK(!bl_git_variable_has(&stage->git, "PLAI"));
    bl_git_variable_set(&stage->git, "PLAIN", "2");
    bl_git_variable_set(&stage->git, "MORE", "3");
    bl_git_variable_set(&stage->git, "EMPTY", "");
    /* The first and the last variable are found like all others. */
    size_t count = stage->git.environment_count;
    CHECK(bl_git_variable_has(&stage->git, "MORE"));
    bl_git_variable_set(&stage->git, "EMPTY", "");
    stage->git.environment[0] = "FIRST=1";
    CHECK(bl_git_variable_has(&stage->git, "FIRST"));
    CHECK_EQUAL(stage->git.environment_count, count);
    CHECK(!bl_git_variable_has(&stage->git, "EMPTY"));
    struct bl_git_answer answer = stage_run(stage, BL_GIT_ARGUMENTS("showenv"));
    CHECK(holds(answer.output, "PLAIN=2\n") && !holds(answer.output, "PLAIN=1\n"));
    CHECK(holds(answer.output, "MORE=3\n"));
}

static void variables_are_set_for_later_programs(void **state)
{
    (void)state;
    stage_play(look_at_variables);
}

static void look_at_network(struct stage *stage)
{
    struct bl_git_answer answer = stage_run(stage, BL_GIT_ARGUMENTS("ls-remote", stage->root));
    CHECK(answer.status != 0);
    CHECK(holds(answer.words, "not allowed"));
}

static void no_transport_is_allowed(void **state)
{
    (void)state;
    stage_play(look_at_network);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void a_failed_program_is_an_error_with_its_message(void **state)
{
    (void)state;
    static const char busy[] =
        "fatal: Unable to create '/x/.git/index.lock': File exists.\n\nAnother git\n";
    char words[500], cut[481];
    snprintf(words, sizeof words, "%0490d", 0);
    snprintf(cut, sizeof cut, "%0480d", 0);
    const struct {
        int status;
        const char *words;
        int code;
        enum bl_error_kind kind;
        const char *message, *hint;
    } rows[] = {
        {1, "", BL_ESYSTEM, BL_KIND_FEATURE, "git exited with code 1", ""},
        {1, "a", BL_ESYSTEM, BL_KIND_FEATURE, "a", ""},
        {1, "a\n b\n", BL_ESYSTEM, BL_KIND_FEATURE, "a  b", ""},
        {1, "x: Permission denied", BL_EACCES, BL_KIND_FEATURE, "x: Permission denied", ""},
        {128, busy, BL_EBUSY, BL_KIND_FEATURE,
         "fatal: Unable to create '/x/.git/index.lock': File exists.  Another git",
         "another git holds this lock; if none is running, remove the file"},
        {1, "File exists", BL_ESYSTEM, BL_KIND_FEATURE, "File exists", ""},
        {1, "no 'x.lock'", BL_ESYSTEM, BL_KIND_FEATURE, "no 'x.lock'", ""},
        {0, busy + 7, BL_ESYSTEM, BL_KIND_FEATURE,
         "Unable to create '/x/.git/index.lock': File exists.  Another git", ""},
        {1, "No space left on device", BL_ENOSPC, BL_KIND_FILESYSTEM, "No space left on device",
         "free some space on that disk, then resume"},
        {1, "Disk quota exceeded", BL_ENOSPC, BL_KIND_FILESYSTEM, "Disk quota exceeded",
         "free some space on that disk, then resume"},
        {1, "Out of diskspace", BL_ENOSPC, BL_KIND_FILESYSTEM, "Out of diskspace",
         "free some space on that disk, then resume"},
        {1, words, BL_ESYSTEM, BL_KIND_FEATURE, cut, ""},
    };
    struct bl_git_call call = {.operation = "try", .directory = "/place"};
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_git_answer answer = {.status = rows[i].status,
                                       .words = bl_text_from(rows[i].words)};
        struct bl_error error = {0};
        assert_int_equal(bl_git_refuse(&call, &answer, &error), rows[i].code);
        assert_int_equal(error.code, rows[i].code);
        assert_int_equal(error.kind, rows[i].kind);
        assert_string_equal(error.operation, "try");
        assert_string_equal(error.target, "/place");
        assert_string_equal(error.message, rows[i].message);
        assert_string_equal(error.hint, rows[i].hint);
    }
}

static void a_failed_system_call_is_an_error_of_its_kind(void **state)
{
    (void)state;
    static const struct {
        int number, code;
        enum bl_error_kind kind;
    } rows[] = {
        {ENOSPC, BL_ENOSPC, BL_KIND_FILESYSTEM},
        {EACCES, BL_EACCES, BL_KIND_FILESYSTEM},
        {ENOENT, BL_ENOENT, BL_KIND_FEATURE},
    };
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_error error = {0};
        assert_int_equal(bl_git_fail("try", "/place", rows[i].number, &error), rows[i].code);
        assert_int_equal(error.kind, rows[i].kind);
        assert_string_equal(error.target, "/place");
        assert_string_equal(error.message, strerror(rows[i].number));
    }
}

SUITE(run, cmocka_unit_test(programs_get_no_secrets_and_no_other_repository),
      cmocka_unit_test(variables_are_set_for_later_programs),
      cmocka_unit_test(no_transport_is_allowed),
      cmocka_unit_test(a_call_with_a_folder_names_the_repository),
      cmocka_unit_test(an_answer_has_status_output_and_error_output),
      cmocka_unit_test(input_reaches_the_program_completely),
      cmocka_unit_test(a_lock_is_passed_on_as_standard_input),
      cmocka_unit_test(standard_input_of_the_caller_is_not_passed_on),
      cmocka_unit_test(a_call_closes_its_descriptors),
      cmocka_unit_test(a_call_whose_files_do_not_fit_is_refused),
      cmocka_unit_test(a_call_without_descriptors_is_refused),
      cmocka_unit_test(a_stop_ends_the_program_and_names_it_in_the_receipt),
      cmocka_unit_test(a_missing_directory_is_an_error_that_names_it),
      cmocka_unit_test(a_missing_git_is_reported),
      cmocka_unit_test(a_failed_program_is_an_error_with_its_message),
      cmocka_unit_test(a_failed_system_call_is_an_error_of_its_kind));
