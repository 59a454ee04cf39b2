#include "cli/run/serving.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chat/guest.h"
#include "cli/command/mcp.h"
#include "fibers.h"

/* ---- MCP servers ----------------------------------------------------------------------------- */

#define SERVERS(command)                                                                           \
    "{\"mcpServers\":{\"given\":{\"command\":\"" command "\",\"args\":[\"begun\"]}}}"

static void M20_servers_of_a_folder_are_not_started_before_approval(void **state)
{
    static struct run run;

    (void)state;
    stage_file(".mcp.json", SERVERS("touch"));
    RUN(&run, "run", "--provider", stage_script("replies: [{say: Well.}]"), "hello");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.err, "MCP server given: not started"));
    RUN(&run, "tools", "--json");
    const struct bl_json *answer = stage_answer(&run, "tools", 0);
    assert_string_equal(stage_text_at(answer, "/servers/0/server"), "given");
    assert_string_equal(stage_text_at(answer, "/servers/0/state"), "untrusted");
    assert_false(stage_exists(stage_path("work/begun")));
    /* It is not a server, but it was started. */
    RUN(&run, "tools", "--trust-mcp", "--json");
    answer = stage_answer(&run, "tools", 0);
    assert_string_equal(stage_text_at(answer, "/servers/0/state"), "failed");
    assert_true(stage_exists(stage_path("work/begun")));
}

static void a_conversation_asks_once_and_remembers_a_yes(void **state)
{
    struct guest guest;
    const char *provider = stage_script("replies: [{say: Well.}, {say: Well.}]");

    (void)state;
    stage_file(".mcp.json", SERVERS("touch"));
    GUEST(&guest, 80, 24, "--provider", provider);
    guest_await(&guest, "Allow the MCP server given?");
    guest_await(&guest, "touch begun");
    /* Input that arrives too early to be an answer becomes one with Enter. */
    guest_type(&guest, "n\r");
    guest_await(&guest, "given was not started.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    guest_end(&guest);
    assert_false(stage_exists(stage_path("work/begun")));
    GUEST(&guest, 80, 24, "--provider", provider);
    guest_await(&guest, "Allow the MCP server given?");
    guest_type(&guest, "y\r");
    guest_await_idle(&guest);
    guest_say(&guest, "hello\r", "Well.");
    guest_await_idle(&guest);
    guest_leave(&guest);
    guest_end(&guest);
    assert_true(stage_exists(stage_path("work/begun")));
    GUEST(&guest, 80, 24, "--provider", provider);
    guest_await_idle(&guest);
    assert_int_equal(guest_times(&guest, "Allow the MCP server"), 0);
    guest_leave(&guest);
    guest_end(&guest);
}

/* ---- The token ------------------------------------------------------------------------------- */

static void token_is_created_once_and_readable_only_by_its_owner(void **state)
{
    struct bl_error error = {0};
    const char *path, *first = "", *second = "";
    struct bl_arena arena;
    struct stat facts;

    (void)state;
    bl_arena_init(&arena);
    setenv("XDG_STATE_HOME", stage_path("state"), 1);
    assert_int_equal(mcp_token_path(&arena, &path, &error), 0);
    assert_string_equal(path, stage_path("state/belay/mcp-token"));
    assert_int_equal(mcp_token_read(&arena, path, &first, &error), 0);
    assert_int_equal(mcp_token_read(&arena, path, &second, &error), 0);
    assert_int_equal(strlen(first), 64);
    assert_string_equal(first, second);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0600);
    assert_int_equal(stat(stage_path("state/belay"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    unsetenv("XDG_STATE_HOME");
    bl_arena_done(&arena);
}

static void invalid_or_accessible_token_is_refused(void **state)
{
    struct bl_error error = {0};
    const char *token;
    struct bl_arena arena;

    (void)state;
    bl_arena_init(&arena);
    const char *path = stage_file("token", "short\n");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(mcp_token_read(&arena, path, &token, &error), BL_EINVAL);
    assert_non_null(strstr(error.message, "has no valid token"));
    error = (struct bl_error){0};
    stage_file("token", "0123456789012345678901234567890123456789 123\n");
    assert_int_equal(mcp_token_read(&arena, path, &token, &error), BL_EINVAL);
    error = (struct bl_error){0};
    stage_file("token", "0123456789012345678901234567890123456789012\n");
    assert_int_equal(mcp_token_read(&arena, path, &token, &error), 0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(mcp_token_read(&arena, path, &token, &error), BL_EACCES);
    assert_non_null(strstr(error.hint, "chmod 600"));
    error = (struct bl_error){0};
    assert_int_equal(mcp_token_read(&arena, stage_path("work"), &token, &error), BL_EINVAL);
    error = (struct bl_error){0};
    assert_int_equal(mcp_token_read(&arena, stage_path("work/token/x"), &token, &error),
                     bl_error_from_errno(ENOTDIR));
    bl_arena_done(&arena);
}

/* ---- The commands ---------------------------------------------------------------------------- */

static void check_usage(const struct run *run, const char *line)
{
    assert_string_equal(run->err, line);
    assert_string_equal(run->out, "");
    assert_int_equal(run->exit_code, 2);
}

static void M12_an_address_that_is_not_loopback_is_a_usage_error(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "mcp", "--http", "--address", "0.0.0.0");
    check_usage(&run,
                "belay mcp: invalid value '0.0.0.0' for --address (expected a loopback address: "
                "127.0.0.1 or ::1)\nhint: use a tunnel to make it reachable from other machines\n");
    RUN(&run, "mcp", "--http", "--address", "example.test");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "mcp", "--address", "::1");
    check_usage(&run, "belay mcp: --address needs --http\nhint: add --http, or omit the option\n");
    RUN(&run, "mcp", "--http", "65536");
    check_usage(
        &run,
        "belay mcp: invalid value '65536' for PORT (expected a whole number from 0 to 65535)\n");
    RUN(&run, "mcp", "8080");
    assert_int_equal(run.exit_code, 2);
    RUN(&run, "acp", "hello");
    check_usage(&run, "belay acp: unexpected argument 'hello'\nhint: --help shows the usage\n");
}

static void invalid_options_are_reported_before_serving(void **state)
{
    static struct run run;

    (void)state;
    RUN(&run, "acp", "--model", "nowhere/any");
    assert_int_equal(run.exit_code, 2);
    assert_string_equal(run.out, "");
    RUN(&run, "acp", "--mcp-config", "missing.json", "--provider", "script");
    assert_in_range(run.exit_code, 1, 2);
    assert_non_null(strstr(run.err, "missing.json"));
    RUN(&run, "mcp", "--provider", "script", "--system", "missing.md");
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.out, "");
    assert_non_null(strstr(run.err, "missing.md"));
}

static struct held served;

static int end_served(void **state)
{
    held_end(&served);
    return stage_end(state);
}

/* Starts the command with a standard input that stays open. */
static void start_serving(const char *const *words, int *ret_input)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    held_start(&served, words, ends[0], RUN_KEEP);
    close(ends[0]);
    *ret_input = ends[1];
}

#define INITIALIZE                                                                                 \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":%s,"  \
    "\"capabilities\":{},\"clientInfo\":{\"name\":\"test\",\"version\":\"1\"}}}\n"

/* Checks that the command speaks its protocol and writes nothing else to standard output, and that
 * it ends when the client disconnects or a signal arrives. */
static void check_served(const char *command, const char *version, int signal, int exit_code)
{
    static struct run run;
    const char *hello = stage_printf(INITIALIZE, version);
    int input;

    start_serving((const char *const[]){runner_program(), command, "--provider", "script", NULL},
                  &input);
    assert_int_equal(write(input, hello, strlen(hello)), strlen(hello));
    held_await(&served, "\"id\":1");
    RUN(&run, "ps");
    assert_int_equal(run.exit_code, 0);
    if (signal != 0)
        assert_int_equal(kill(served.pid, signal), 0);
    else
        close(input);
    held_wait(&served);
    if (signal != 0)
        close(input);
    assert_int_equal(served.exit_code, exit_code);
    assert_string_equal(held_err(&served), "");
    assert_int_equal(stage_lines_with(stage_output(&served), ""), 1);
    stage_json(stage_output(&served));
    held_end(&served);
}

static void disconnect_or_signal_ends_serving_commands(void **state)
{
    (void)state;
    check_served("acp", "1", 0, 0);
    check_served("mcp", "\"2025-11-25\"", 0, 0);
    check_served("acp", "1", SIGTERM, 143);
    check_served("acp", "1", SIGINT, 130);
    check_served("mcp", "\"2025-11-25\"", SIGTERM, 143);
}

static void http_reports_the_address_and_the_token_file(void **state)
{
    (void)state;
    START(&served, "mcp", "--http", "--token-file", stage_path("work/token"), "--provider",
          "script");
    for (unsigned i = 0; i < 3000 && strstr(held_err(&served), "token is in") == NULL; i++)
        usleep(10 * 1000);
    assert_non_null(strstr(held_err(&served), "belay mcp: listening on http://127.0.0.1:"));
    assert_non_null(strstr(held_err(&served), stage_path("work/token")));
    assert_true(stage_exists(stage_path("work/token")));
    assert_int_equal(kill(served.pid, SIGTERM), 0);
    held_wait(&served);
    assert_int_equal(served.exit_code, 143);
    assert_string_equal(stage_output(&served), "");
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_served)

SUITE(serving, STAGED(M20_servers_of_a_folder_are_not_started_before_approval),
      STAGED(a_conversation_asks_once_and_remembers_a_yes),
      STAGED(token_is_created_once_and_readable_only_by_its_owner),
      STAGED(invalid_or_accessible_token_is_refused),
      STAGED(M12_an_address_that_is_not_loopback_is_a_usage_error),
      STAGED(invalid_options_are_reported_before_serving),
      SERVED(disconnect_or_signal_ends_serving_commands),
      SERVED(http_reports_the_address_and_the_token_file));
