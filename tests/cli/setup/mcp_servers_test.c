#include <stdio.h>
#include <sys/stat.h>

#include "stage.h"

static const char *servers_file(void)
{
    return stage_path("config/belay/mcp.json");
}

static const char *servers_held(const char *path)
{
    static char text[4096];
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void mcp_servers_are_added_listed_and_removed(void **state BL_UNUSED)
{
    struct stat status;
    struct run run;

    RUN(&run, "mcp", "list");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.out, "no MCP servers are configured"));
    RUN(&run, "mcp", "add", "--env", "LOG=on", "files", "--", "server-fs", "-v", "two words");
    assert_int_equal(run.exit_code, 0);
    assert_string_equal(run.out, stage_printf("Added 'files' to %s\n", servers_file()));
    RUN(&run, "mcp", "add", "--header", "X-Key: ${NONE:-a}", "web", "https://x.test/mcp");
    assert_int_equal(run.exit_code, 0);
    const struct bl_json *kept = stage_json(servers_held(servers_file()));
    assert_string_equal(stage_text_at(kept, "/mcpServers/files/command"), "server-fs");
    assert_string_equal(stage_text_at(kept, "/mcpServers/files/args/1"), "two words");
    assert_string_equal(stage_text_at(kept, "/mcpServers/files/env/LOG"), "on");
    assert_string_equal(stage_text_at(kept, "/mcpServers/web/type"), "http");
    assert_string_equal(stage_text_at(kept, "/mcpServers/web/headers/X-Key"), "${NONE:-a}");
    /* Headers may hold keys. */
    assert_int_equal(stat(servers_file(), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    RUN(&run, "mcp", "list", "--json");
    const struct bl_json *answer = stage_answer(&run, "mcp-list", 0);
    assert_int_equal(stage_size_at(answer, "/servers"), 2);
    assert_string_equal(stage_text_at(answer, "/servers/0/command"), "server-fs -v two words");
    assert_string_equal(stage_text_at(answer, "/servers/1/url"), "https://x.test/mcp");
    RUN(&run, "mcp", "remove", "files");
    assert_int_equal(run.exit_code, 0);
    RUN(&run, "mcp", "list");
    assert_null(strstr(run.out, "files"));
    assert_non_null(strstr(run.out, "web"));
}

/* The file is shared with other programs: what belay does not know in it stays. */
static void an_mcp_server_of_the_project_is_approved_when_it_is_added(void **state BL_UNUSED)
{
    struct run run;
    const char *file = stage_file(".mcp.json", "{\"inputs\": [1], \"mcpServers\": {\"theirs\": "
                                               "{\"command\": \"x\", \"alwaysAllow\": [\"y\"]}}}");

    RUN(&run, "mcp", "add", "--project", "mine", "server");
    assert_int_equal(run.exit_code, 0);
    const struct bl_json *kept = stage_json(servers_held(file));
    assert_int_equal(stage_number_at(kept, "/inputs/0"), 1);
    assert_string_equal(stage_text_at(kept, "/mcpServers/theirs/alwaysAllow/0"), "y");
    RUN(&run, "mcp", "list", "--json");
    const struct bl_json *answer = stage_answer(&run, "mcp-list", 0);
    assert_string_equal(stage_text_at(answer, "/servers/0/name"), "theirs");
    assert_false(stage_true_at(answer, "/servers/0/approved"));
    assert_string_equal(stage_text_at(answer, "/servers/1/name"), "mine");
    assert_true(stage_true_at(answer, "/servers/1/approved"));
    RUN(&run, "mcp", "list");
    assert_int_equal(stage_lines_with(run.out, "(not approved yet)"), 1);
}

static void an_approval_that_cannot_be_kept_is_reported(void **state BL_UNUSED)
{
    struct run run;
    const char *const words[] = {"mcp", "add", "--project", "mine", "server", NULL};
    const char *const nowhere[] = {stage_printf("XDG_STATE_HOME=%s", stage_file("a-file", "")),
                                   NULL};

    runner_run_with(&run, words, nowhere, RUN_KEEP);
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.err, "mcp-trust"));
}

static void wrong_mcp_servers_change_nothing(void **state BL_UNUSED)
{
    struct run run;

    RUN(&run, "mcp", "add", "a", "server");
    assert_int_equal(run.exit_code, 0);
    const char *before = stage_printf("%s", servers_held(servers_file()));
#define REFUSED(code, text, ...)                                                                   \
    RUN(&run, "mcp", __VA_ARGS__);                                                                 \
    assert_int_equal(run.exit_code, code);                                                         \
    assert_string_equal(run.out, "");                                                              \
    assert_non_null(strstr(run.err, text));                                                        \
    assert_string_equal(servers_held(servers_file()), before)
    REFUSED(1, "already has a server 'a'", "add", "a", "other");
    REFUSED(1, "has no server 'b'", "remove", "b");
    REFUSED(1, "url must be", "add", "b", "http://");
    REFUSED(2, "missing argument URL|COMMAND", "add", "b");
    REFUSED(2, "NAME=VALUE", "add", "--env", "X", "b", "server");
    REFUSED(2, "--header is only for a URL", "add", "--header", "A: b", "b", "server");
    REFUSED(2, "--env is only for a command", "add", "--env", "A=b", "b", "http://x.test");
    REFUSED(2, "did you mean 'list'", "lst");
    REFUSED(2, "'mcp list' has no option '--http'", "list", "--http");
    RUN(&run, "mcp", "add", "--force", "a", "other");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(servers_held(servers_file()), "\"other\""));
    const char *file = stage_file(".mcp.json", "{\"mcpServers\": [1]");
    RUN(&run, "mcp", "add", "--project", "a", "server");
    assert_int_equal(run.exit_code, 1);
    assert_non_null(strstr(run.err, "is not valid JSON"));
    assert_string_equal(servers_held(file), "{\"mcpServers\": [1]");
}

SUITE(mcp_servers, STAGED(mcp_servers_are_added_listed_and_removed),
      STAGED(an_mcp_server_of_the_project_is_approved_when_it_is_added),
      STAGED(an_approval_that_cannot_be_kept_is_reported),
      STAGED(wrong_mcp_servers_change_nothing));
