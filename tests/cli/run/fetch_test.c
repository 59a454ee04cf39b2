#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "talk.h"

/* A call of fetch for the test's server, and then an answer. The server starts over on the
 * connection of the call, so the page is the first of these answers. */
static struct talk fetching(const char *const *answers, const char *const *words)
{
    struct talk talking = {
        .answers = answers,
        .config = "providers: {anthropic: {base_url: ADDRESS}}\n",
        .arguments = words,
        .environment = TALK_WORDS("ANTHROPIC_API_KEY=sk-ant-test-0123456789"),
    };
    talk(&talking);
    return talking;
}

#define FETCH_CALL                                                                                 \
    TALK_ANSWER("{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"fetch\",\"input\":{}}",            \
                "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"url\\\":"                  \
                "\\\"ADDRESS/page\\\"}\"}",                                                        \
                "tool_use")

static void a_page_is_fetched_where_a_rule_names_its_host(void **state BL_UNUSED)
{
    const char *const answers[] = {FETCH_CALL, TALK_TEXT("Read."), NULL};
    struct talk talking = fetching(answers, TALK_WORDS("run", "--model", "anthropic/m", "--json",
                                                       "--allow", "fetch(127.0.0.1)", "read it"));
    assert_int_equal(talking.run.exit_code, 0);
    assert_int_equal(talking.requests, 3);
    assert_non_null(strstr(talking.heads[1], "GET /page HTTP/1.1"));
    assert_null(strstr(talking.heads[1], "sk-ant-test"));
    assert_non_null(strstr(talking.heads[2], "/page: 200, text/event-stream, "));
}

static void a_private_address_is_refused_without_a_rule(void **state BL_UNUSED)
{
    const char *const answers[] = {FETCH_CALL, TALK_TEXT("No."), NULL};
    struct talk talking = fetching(answers, TALK_WORDS("run", "--model", "anthropic/m", "--json",
                                                       "--allow", "network", "read it"));
    assert_int_equal(talking.run.exit_code, 0);
    assert_int_equal(talking.requests, 2);
    assert_non_null(strstr(talking.heads[1], "an address of this machine or a private network"));
    const struct bl_json *result = stage_json(stage_last_line(talking.run.out));
    assert_int_equal(stage_size_at(result, "/turns/0/permission_denials"), 1);
}

/* Starts a server that accepts a request and never answers. */
static int silent_server(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 8), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void ctrl_c_stops_a_fetch_and_the_receipt_says_where(void **state BL_UNUSED)
{
    struct held held = {.pid = 0};
    uint16_t port = 0;
    char bytes[4096];
    int server = silent_server(&port);
    const char *script = stage_script(
        stage_printf("name: x\nreplies:\n  - when: go\n    tools:\n      - name: fetch\n"
                     "        input: {url: \"http://localhost:%u/slow\"}\n",
                     port));

    START(&held, "run", "go", "--provider", script, "--json", "--allow", "fetch(localhost)");
    int connection = accept(server, NULL, NULL);
    assert_true(connection >= 0);
    assert_true(read(connection, bytes, sizeof bytes) > 0);
    kill(held.pid, SIGINT);
    /* The socket was closed, and nothing more was sent. */
    assert_int_equal(read(connection, bytes, sizeof bytes), 0);
    held_wait(&held);
    assert_int_equal(held.exit_code, 130);
    const char *output = stage_output(&held);
    assert_non_null(strstr(output, "\"detail\":\"before headers\""));
    assert_non_null(strstr(output, "\"survivors\":0"));
    close(connection);
    close(server);
    held_end(&held);
}

SUITE(run_fetch, STAGED(a_page_is_fetched_where_a_rule_names_its_host),
      STAGED(a_private_address_is_refused_without_a_rule),
      STAGED(ctrl_c_stops_a_fetch_and_the_receipt_says_where));
