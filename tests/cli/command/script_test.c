#include "stage.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct run run;
static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

static const char *demo(void)
{
    return stage_file("demo.yaml", "name: demo\nreplies: [{say: Hello there}]\nrepeat: true\n");
}

/* Waits for the first line and returns the port after its last colon. */
static unsigned await_port(const char *before)
{
    held_await(&held, "\n");
    const char *at = strstr(held_out(&held), before);
    assert_non_null(at);
    unsigned long port = strtoul(at + strlen(before), NULL, 10);
    assert_in_range(port, 1, 65535);
    return (unsigned)port;
}

static int connect_to(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Posts a body and reads until the server closes the connection. */
static const char *post(unsigned port, const char *path, const char *body)
{
    static char answer[16384];
    char request[1024];
    size_t size = 0;
    ssize_t count;
    int fd = connect_to(port);

    int length = snprintf(request, sizeof request,
                          "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                          "Content-Length: %zu\r\n\r\n%s",
                          path, strlen(body), body);
    assert_int_equal(write(fd, request, (size_t)length), length);
    while (size < sizeof answer - 1 &&
           (count = read(fd, answer + size, sizeof answer - 1 - size)) > 0)
        size += (size_t)count;
    answer[size] = '\0';
    close(fd);
    return answer;
}

#define BODY "{\"model\":\"m\\u001b[2J\",\"messages\":[{\"role\":\"user\",\"content\":\"word\"}]}"

static void a_script_is_served_until_a_signal(void **state)
{
    (void)state;
    START(&held, "script", "serve", demo());
    unsigned port = await_port("listening on http://127.0.0.1:");
    held_await(&held, "OLLAMA_HOST=");
    const char *expected = stage_printf("listening on http://127.0.0.1:%u\n"
                                        "  ANTHROPIC_BASE_URL=http://127.0.0.1:%u\n"
                                        "  OPENAI_BASE_URL=http://127.0.0.1:%u/v1\n"
                                        "  OLLAMA_HOST=http://127.0.0.1:%u\n",
                                        port, port, port, port);
    assert_string_equal(held_out(&held), expected);
    assert_non_null(strstr(post(port, "/v1/chat/completions", BODY), "\"Hello there\""));
    held_await(&held, "1 openai");
    kill(held.pid, SIGINT);
    held_wait(&held);
    assert_int_equal(held.exit_code, 130);
    assert_string_equal(held_err(&held), "");
    assert_string_equal(held_out(&held) + strlen(expected),
                        "1 openai /v1/chat/completions m\\x1b[2J: 200, 1 token in, 2 out\n");
}

static void with_json_each_line_is_an_object(void **state)
{
    (void)state;
    START(&held, "script", "serve", demo(), "--json", "--port", "0");
    unsigned port = await_port("\"url\":\"http://127.0.0.1:");
    assert_string_equal(held_out(&held),
                        stage_printf("{\"event\":\"listening\",\"url\":\"http://127.0.0.1:%u\","
                                     "\"port\":%u,\"script\":\"demo\"}\n",
                                     port, port));
    runner_check_schema("script-serve", held_out(&held));
    assert_non_null(strstr(post(port, "/api/chat", BODY), "\"done\":true"));
    held_await(&held, "\"format\":\"ollama\"");
    kill(held.pid, SIGTERM);
    held_wait(&held);
    assert_int_equal(held.exit_code, 143);
    assert_string_equal(held_err(&held), "");
    const char *last = stage_last_line(held_out(&held));
    const struct bl_json *line = stage_json(last);
    runner_check_schema("script-serve", last);
    assert_int_equal(stage_number_at(line, "/n"), 1);
    assert_int_equal(stage_number_at(line, "/status"), 200);
}

/* A client that is waiting for the script does not delay the end. */
static void signal_ends_requests_in_progress(void **state)
{
    char byte;

    (void)state;
    START(&held, "script", "serve",
          stage_file("wedge.yaml", "replies: [{wedge: before_first_token}]\n"));
    int fd = connect_to(await_port("listening on http://127.0.0.1:"));
    const char *request = stage_printf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\n"
                                       "Content-Length: %zu\r\n\r\n%s",
                                       strlen(BODY), BODY);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    kill(held.pid, SIGTERM);
    held_wait(&held);
    assert_int_equal(held.exit_code, 143);
    assert_true(read(fd, &byte, 1) <= 0);
    close(fd);
}

static void port_in_use_is_reported(void **state)
{
    char port[16];

    (void)state;
    START(&held, "script", "serve", demo());
    snprintf(port, sizeof port, "%u", await_port("listening on http://127.0.0.1:"));
    RUN(&run, "script", "serve", demo(), "--port", port);
    assert_int_equal(run.exit_code, 1);
    assert_string_equal(run.out, "");
    assert_non_null(
        strstr(run.err, stage_printf("belay script: cannot listen on 127.0.0.1:%s: ", port)));
    RUN(&run, "script", "serve", demo(), "--port", port, "--json");
    stage_answer(&run, "envelope", 1);
}

static void wrong_command_lines_are_refused(void **state)
{
    static const struct {
        const char *words[5];
        const char *part;
    } rows[] = {
        {{"script"}, "missing subcommand\nhint: expected serve"},
        {{"script", "serve"},
         "missing argument FILE\nhint: the usage is 'belay script serve FILE'"},
        {{"script", "play", "x"}, "unknown subcommand 'play'"},
        {{"script", "serve", "x", "y"}, "'y'"},
        {{"script", "serve", "x", "--port=65536"},
         "invalid value '65536' for --port (expected a whole number from 0 to 65535)"},
        {{"script", "serve", "x", "--port=-1"}, "invalid value '-1' for --port"},
        {{"script", "serve", "x", "--port=http"}, "invalid value 'http' for --port"},
    };

    (void)state;
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        runner_run_with(&run,
                        (const char *const[]){rows[i].words[0], rows[i].words[1], rows[i].words[2],
                                              rows[i].words[3], NULL},
                        NULL, RUN_KEEP);
        assert_int_equal(run.exit_code, 2);
        assert_string_equal(run.out, "");
        if (strstr(run.err, rows[i].part) == NULL)
            fail_msg("no %s in %s", rows[i].part, run.err);
    }
    RUN(&run, "script", "serve", "no-such-file.yaml");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "belay script: "));
    RUN(&run, "script", "serve", stage_file("broken.yaml", "replies: [{sy: a}]"), "--json");
    stage_answer(&run, "envelope", 1);
}

static void a_closed_standard_output_is_an_error(void **state)
{
    (void)state;
    runner_run_with(&run, (const char *const[]){"script", "serve", demo(), NULL}, NULL, RUN_CLOSE);
    assert_int_equal(run.exit_code, 1);
}

SUITE(script, HELD(a_script_is_served_until_a_signal), HELD(with_json_each_line_is_an_object),
      HELD(signal_ends_requests_in_progress), HELD(port_in_use_is_reported),
      STAGED(wrong_command_lines_are_refused), STAGED(a_closed_standard_output_is_an_error));
