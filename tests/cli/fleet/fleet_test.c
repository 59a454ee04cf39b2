/* A PostgreSQL database as the store of the program: created, inspected, used and refused. */
#include "postgres.h"
#include "stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define HELD_SESSIONS "select count(*) from belay.session where owner is not null"

static struct run run;
static struct held held;
static char database[PG_ADDRESS_SIZE];    /* over the socket, which needs no password */
static char with_secret[PG_ADDRESS_SIZE]; /* over TCP */
static char name[32];

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

/* Makes an empty database, another one for each test. */
static struct pg_server *make_database(void)
{
    static unsigned count;
    struct pg_server *server = pg_server_shared();

    snprintf(name, sizeof name, "cli%u", ++count);
    assert_true(pg_server_database(server, name));
    pg_server_address(server, name, NULL, database);
    pg_tcp_address(server->port, name, NULL, with_secret);
    return server;
}

static struct pg_server *make_store(void)
{
    struct pg_server *server = make_database();

    RUN(&run, "fleet", "init", "--store", database);
    if (run.exit_code != 0)
        fail_msg("%s", run.err);
    return server;
}

/* Runs belay with BELAY_STORE set. */
#define RUN_AT(address, ...)                                                                       \
    runner_run_with(&run, (const char *const[]){__VA_ARGS__, NULL},                                \
                    (const char *const[]){stage_printf("BELAY_STORE=%s", address), NULL},          \
                    RUN_KEEP)

static void check_no_password(void)
{
    if (strstr(run.out, PG_PASSWORD) != NULL || strstr(run.err, PG_PASSWORD) != NULL)
        fail_msg("the password was printed:\n%s%s", run.out, run.err);
}

static void check_refused(int exit_code, const char *message)
{
    check_no_password();
    if (run.exit_code != exit_code || strstr(run.err, message) == NULL)
        fail_msg("exit code %d (expected %d), and not '%s':\n%s", run.exit_code, exit_code, message,
                 run.err);
    assert_non_null(strstr(run.err, "\nhint: "));
}

/* ---- Creating -------------------------------------------------------------------------------- */

static void schema_is_created_once(void **state)
{
    (void)state;
    make_database();
    RUN(&run, "fleet", "init", "--store", database);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "Created the schema 'belay' in "));
    assert_non_null(strstr(run.out, stage_printf("--store '%s'", database)));
    RUN(&run, "fleet", "init", "--store", database);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "has the schema already (version 1)"));
    RUN_AT(with_secret, "fleet", "init", "--json");
    check_no_password();
    const struct bl_json *answer = stage_answer(&run, "fleet-init", 0);
    assert_false(stage_true_at(answer, "/created"));
    assert_true(stage_null_at(answer, "/sql"));
    /* The address cannot be repeated without its password. */
    RUN_AT(with_secret, "fleet", "init");
    check_no_password();
    assert_non_null(strstr(run.out, "\nTry: belay run 'say hello'\n"));
}

static void plan_is_sql_that_creates_the_schema(void **state)
{
    struct pg_server *server;

    (void)state;
    RUN(&run, "fleet", "init", "--plan");
    assert_int_equal(run.exit_code, 0);
    server = make_database();
    assert_true(pg_server_change(server, name, run.out));
    RUN(&run, "fleet", "status", "--store", database);
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "fleet", "init", "--plan", "--json");
    const struct bl_json *answer = stage_answer(&run, "fleet-init", 0);
    assert_true(stage_null_at(answer, "/store"));
    assert_non_null(strstr(stage_text_at(answer, "/sql"), "create schema belay;"));
}

static void schema_of_another_program_is_not_touched(void **state)
{
    struct pg_server *server = make_database();

    (void)state;
    assert_true(pg_server_change(server, name, "create schema belay"));
    RUN(&run, "fleet", "init", "--store", database);
    check_refused(1, "has a schema 'belay' that is not Belay's");
}

static void user_without_rights_is_told_what_is_missing(void **state)
{
    struct pg_server *server = make_database();
    char address[PG_ADDRESS_SIZE];

    (void)state;
    assert_true(pg_server_change(server, name, stage_printf("create role %s_guest login", name)));
    pg_server_address(server, name, stage_printf("%s_guest", name), address);
    RUN(&run, "fleet", "init", "--store", address);
    check_refused(1, "the database refuses it");
    assert_non_null(strstr(run.err, "the user needs CREATE on the database and CREATEROLE"));
    RUN(&run, "fleet", "init", "--store", database);
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "fleet", "status", "--store", address);
    check_refused(1, "the database refuses it");
}

/* ---- Status ---------------------------------------------------------------------------------- */

static void status_lists_a_worker_while_it_works(void **state)
{
    struct pg_server *server = make_store();

    (void)state;
    START(&held, "run", "hi", "--session", "s", "--yolo", "--sandbox", "off", "--store", database,
          "--provider",
          stage_script("replies: [{tools: [{name: bash, input: {command: 'while [ ! -e go ]; do "
                       "sleep 0.02; done'}}]}, {say: done}]\n"));
    assert_true(pg_server_await(server, name, HELD_SESSIONS, "1", 20000));
    RUN(&run, "fleet", "status", "--store", database, "--json");
    const struct bl_json *answer = stage_answer(&run, "fleet-status", 0);
    assert_string_equal(stage_text_at(answer, "/store"), database);
    assert_int_equal(stage_number_at(answer, "/lease_ms"), 30000);
    assert_int_equal(stage_number_at(answer, "/workers_total"), 1);
    assert_int_equal(stage_number_at(answer, "/workers/0/pid"), held.pid);
    assert_string_equal(stage_text_at(answer, "/workers/0/state"), "live");
    assert_int_equal(stage_number_at(answer, "/workers/0/sessions"), 1);
    stage_file("go", "");
    held_wait(&held);
    assert_int_equal(held.exit_code, 0);
    RUN(&run, "fleet", "status", "--store", database);
    assert_non_null(strstr(run.out, "Workers  0\n"));
    RUN(&run, "fleet", "status", "--store", database, "--ended");
    assert_int_equal(stage_lines_with(run.out, "  gone  "), 1);
}

static void doctor_reports_the_database(void **state)
{
    (void)state;
    make_store();
    RUN_AT(with_secret, "doctor", "--json");
    check_no_password();
    const struct bl_json *answer = stage_answer(&run, "doctor", 0);
    assert_true(stage_true_at(answer, "/database/available"));
    assert_int_equal(stage_number_at(answer, "/database/schema"), 1);
    RUN(&run, "doctor", "--store", "postgres://nobody@127.0.0.1:1/none");
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(stage_lines_with(run.out, "no  database"), 1);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void database_that_cannot_be_used_is_explained(void **state)
{
    struct pg_server *server = make_database();
    char address[PG_ADDRESS_SIZE];

    (void)state;
    RUN_AT(with_secret, "fleet", "status");
    check_refused(1, "the database has no schema of Belay");
    RUN_AT(with_secret, "run", "hi", "--provider", stage_script("replies: [{say: hi}]\n"));
    check_refused(1, "the database has no schema of Belay");
    pg_server_address(server, "missing", NULL, address);
    RUN(&run, "fleet", "status", "--store", address);
    check_refused(1, "database \"missing\" does not exist");
    RUN(&run, "fleet", "status", "--store", "postgres://ann@127.0.0.1:1/belay");
    check_refused(1, "Connection refused");
    RUN(&run, "session", "list", "--store", "postgres://ann@no-such-host.invalid/belay");
    check_refused(1, "no-such-host.invalid");
}

static void wrong_password_is_refused_and_not_printed(void **state)
{
    struct pg_server *server = make_store();
    char wrong[PG_ADDRESS_SIZE];

    (void)state;
    assert_true(pg_server_change(server, name,
                                 stage_printf("create role %s_ann login password 'right'", name)));
    snprintf(wrong, sizeof wrong, "postgres://%s_ann:" PG_PASSWORD "@127.0.0.1:%u/%s", name,
             (unsigned)server->port, name);
    RUN_AT(wrong, "fleet", "status");
    check_refused(1, "password authentication failed");
    RUN_AT(wrong, "run", "hi", "--json", "--provider", stage_script("replies: [{say: hi}]\n"));
    check_no_password();
    stage_answer(&run, "run", 1);
}

static void password_on_the_command_line_is_refused(void **state)
{
    static const char *const addresses[] = {
        "postgres://ann:" PG_PASSWORD "@127.0.0.1:1/x",
        "postgresql://ann:" PG_PASSWORD "@127.0.0.1:1/x",
        "postgres://ann:" PG_PASSWORD "@home@127.0.0.1:1/x",
        "postgres://ann@127.0.0.1:1/x?password=" PG_PASSWORD,
        "postgres://ann@127.0.0.1:1/x?a=b&%70assword=" PG_PASSWORD,
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(addresses); i++) {
        RUN(&run, "fleet", "status", "--store", addresses[i]);
        check_refused(2, "the address for --store has a password");
        RUN(&run, "run", "hi", stage_printf("--store=%s", addresses[i]), "--json");
        check_no_password();
        stage_answer(&run, "run", 2);
        RUN(&run, "fleet", "init", addresses[i]);
        check_refused(2, "unexpected argument 'postgres");
        RUN(&run, "fleet", addresses[i]);
        check_refused(2, "unknown subcommand 'postgres");
        RUN(&run, addresses[i]);
        check_refused(2, "unknown command 'postgres");
    }
}

static void commands_for_databases_and_for_files_are_told_apart(void **state)
{
    (void)state;
    RUN(&run, "fleet", "status", "--store", "work.db");
    check_refused(2, "store 'work.db' is a file");
    RUN(&run, "fleet", "init");
    check_refused(2, "no database is named");
    RUN(&run, "session", "move-aside", "--force", "--store", "postgres://ann@127.0.0.1:1/x");
    check_refused(2, "only a file can be renamed");
    RUN(&run, "fleet", "status", "--store", "postgres://ann@192.0.2.1/x?sslmode=require");
    check_refused(2, "does not authenticate the server");
    assert_false(stage_exists(stage_path("work/work.db")));
}

/* ---- Use ------------------------------------------------------------------------------------- */

static void turn_is_committed_to_the_database(void **state)
{
    struct pg_server *server = make_store();

    (void)state;
    for (int64_t i = 1; i <= 2; i++) {
        RUN_AT(with_secret, "run", "hi", "--session", "s", "--json", "--provider",
               stage_script("replies: [{say: hello}]\n"));
        check_no_password();
        const struct bl_json *answer = stage_answer(&run, "run", 0);
        assert_string_equal(stage_text_at(answer, "/result"), "hello");
        assert_int_equal(pg_server_ask_integer(server, name, "select count(*) from belay.turn"), i);
    }
    assert_false(stage_exists(stage_path("data/belay/sessions.db")));
}

static void sessions_of_a_database_are_listed_continued_and_moved(void **state)
{
    (void)state;
    make_store();
    RUN_AT(with_secret, "run", "first", "--provider",
           stage_script("replies: [{say: hello}, {say: again}]\n"));
    assert_int_equal(run.exit_code, 0);
    RUN_AT(with_secret, "run", "second", "--continue", "--provider",
           stage_script("replies: [{say: again}]\n"));
    if (run.exit_code != 0)
        fail_msg("%s", run.err);
    assert_string_equal(run.out, "again\n");
    RUN_AT(with_secret, "session", "list", "--json");
    check_no_password();
    const struct bl_json *answer = stage_answer(&run, "session-list", 0);
    assert_int_equal(stage_size_at(answer, "/sessions"), 1);
    assert_int_equal(stage_number_at(answer, "/sessions/0/turns"), 2);
    const char *id = stage_text_at(answer, "/sessions/0/session_id");
    assert_null(strstr(stage_text_at(answer, "/store"), PG_PASSWORD));
    RUN_AT(with_secret, "session", "export", id, "session.jsonl");
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "session", "import", "session.jsonl", "--as", "moved");
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(stage_turns("moved"), 2);
    RUN_AT(with_secret, "session", "delete", id);
    assert_int_equal(run.exit_code, 0);
    RUN_AT(with_secret, "run", "third", "--continue", "--provider",
           stage_script("replies: [{say: no}]\n"));
    assert_int_equal(run.exit_code, 1);
    check_no_password();
}

/* The roles are enough for their purposes, and change no table. */
static void roles_change_no_table(void **state)
{
    struct pg_server *server = make_store();
    char worker[PG_ADDRESS_SIZE], reader[PG_ADDRESS_SIZE];

    (void)state;
    assert_true(pg_server_change(server, name,
                                 stage_printf("create role %s_worker login in role belay_worker;"
                                              "create role %s_reader login in role belay_read",
                                              name, name)));
    pg_server_address(server, name, stage_printf("%s_worker", name), worker);
    pg_server_address(server, name, stage_printf("%s_reader", name), reader);
    RUN(&run, "run", "hi", "--session", "s", "--store", worker, "--provider",
        stage_script("replies: [{say: hello}]\n"));
    if (run.exit_code != 0)
        fail_msg("%s", run.err);
    RUN(&run, "run", "hi", "--session", "s", "--store", reader, "--provider",
        stage_script("replies: [{say: hello}]\n"));
    check_refused(1, "the database refuses it");
    RUN(&run, "fleet", "status", "--store", reader);
    assert_int_equal(run.exit_code, 0);
    assert_int_equal(
        pg_server_ask_integer(
            server, name,
            "select count(*) from information_schema.role_table_grants where table_schema = "
            "'belay' and grantee in ('belay_worker', 'belay_read') and privilege_type <> "
            "'SELECT'"),
        0);
}

/* A tool reads its environment and that of its ancestors, and their command lines. */
static void password_reaches_no_tool_and_no_log(void **state)
{
    (void)state;
    make_store();
    stage_file("look", "p=$$; while [ \"$p\" -gt 1 ]; do cat /proc/$p/environ /proc/$p/cmdline; "
                       "p=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$p/status); done >seen 2>/dev/null; "
                       "echo \"store=$BELAY_STORE.\"\n");
    const char *const words[] = {
        "run",
        "look",
        "--yolo",
        "--sandbox",
        "off",
        "--output-format",
        "stream-json",
        "--provider",
        stage_script("replies:\n"
                     "  - tools: [{name: bash, input: {command: 'sh look'}}]\n"
                     "  - say: done\n"),
        NULL};
    const char *const variables[] = {stage_printf("BELAY_STORE=%s", with_secret), "BELAY_LOG=trace",
                                     stage_printf("BELAY_LOG_FILE=%s", stage_path("log")), NULL};
    runner_run_with(&run, words, variables, RUN_KEEP);
    check_no_password();
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "store=."));
    static const char *const files[] = {"work/seen", "log"};
    for (size_t i = 0; i < BL_COUNT(files); i++) {
        struct bl_text text = suite_read_file(stage_path(files[i]));
        assert_true(text.size > 0);
        assert_true(bl_text_find(text, BL_TEXT(PG_PASSWORD)) < 0);
        bl_free((void *)text.data);
    }
}

/* ---- libpq ----------------------------------------------------------------------------------- */

/* The library is an empty file. */
static void W6_without_libpq_only_databases_are_refused(void **state)
{
    const char *script, *variable;

    (void)state;
    script = stage_script("replies: [{say: hello}]\n");
    close(open(stage_path("libpq.so.5"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    variable = stage_printf("LD_LIBRARY_PATH=%s", stage_path(""));
    const char *const variables[] = {variable, NULL};
    runner_run_with(&run,
                    (const char *const[]){"run", "hi", "--store", "postgres://ann@127.0.0.1:1/x",
                                          "--provider", script, NULL},
                    variables, RUN_KEEP);
    check_refused(1, "cannot use libpq: ");
    assert_non_null(strstr(run.err, "hint: install libpq5"));
    runner_run_with(&run, (const char *const[]){"run", "hi", "--provider", script, NULL}, variables,
                    RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, "hello\n");
    runner_run_with(&run, (const char *const[]){"fleet", "init", "--plan", NULL}, variables,
                    RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
}

/* Returns whether the dynamic linker looks for libpq while belay runs with these arguments. */
static bool loads_libpq(const char *const *arguments)
{
    const char *output = stage_path("linker");
    const char *const variables[] = {"LD_DEBUG=libs", stage_printf("LD_DEBUG_OUTPUT=%s", output),
                                     NULL};

    runner_run_with(&run, arguments, variables, RUN_KEEP);
    struct bl_text text = suite_read_file(stage_printf("%s.%d", output, (int)run.pid));
    assert_true(bl_text_find(text, BL_TEXT("libc.so.6")) >= 0);
    bool found = bl_text_find(text, BL_TEXT("libpq")) >= 0;
    bl_free((void *)text.data);
    return found;
}

static void W6_libpq_is_loaded_for_databases_alone(void **state)
{
    const char *script;

    (void)state;
    script = stage_script("replies: [{say: hello}]\n");
    assert_false(loads_libpq((const char *const[]){"--version", NULL}));
    assert_false(loads_libpq((const char *const[]){"ps", NULL}));
    assert_false(loads_libpq((const char *const[]){"run", "hi", "--provider", script, NULL}));
    assert_int_equal(run.exit_code, 0);
    assert_false(loads_libpq((const char *const[]){"fleet", "init", "--plan", NULL}));
    assert_true(loads_libpq(
        (const char *const[]){"fleet", "status", "--store", "postgres://ann@127.0.0.1:1/x", NULL}));
}

SUITE(fleet, STAGED(roles_change_no_table), STAGED(schema_is_created_once),
      STAGED(plan_is_sql_that_creates_the_schema), STAGED(schema_of_another_program_is_not_touched),
      STAGED(user_without_rights_is_told_what_is_missing),
      HELD(status_lists_a_worker_while_it_works), STAGED(doctor_reports_the_database),
      STAGED(database_that_cannot_be_used_is_explained),
      STAGED(wrong_password_is_refused_and_not_printed),
      STAGED(password_on_the_command_line_is_refused),
      STAGED(commands_for_databases_and_for_files_are_told_apart),
      STAGED(turn_is_committed_to_the_database),
      STAGED(sessions_of_a_database_are_listed_continued_and_moved),
      STAGED(password_reaches_no_tool_and_no_log),
      STAGED(W6_without_libpq_only_databases_are_refused),
      STAGED(W6_libpq_is_loaded_for_databases_alone));
