#include "suite.h"
#include "tool/mcp/mcp.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A workspace, a user's home, and the entries read from them. */
struct desk {
    char root[64];
    struct bl_arena arena;
    struct bl_list entries;
    struct bl_error error;
    char notices[4096];
    unsigned notice_count;
};

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

static const char *desk_path(const struct desk *desk, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", desk->root, name);
    return path;
}

static void desk_write(const struct desk *desk, const char *name, const char *text)
{
    FILE *file = fopen(desk_path(desk, name), "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int set_up(void **state)
{
    const char *temporary = getenv("TMPDIR");
    struct desk *desk = bl_zalloc(sizeof *desk);
    snprintf(desk->root, sizeof desk->root, "%.40s/belay-mcp-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(desk->root));
    assert_int_equal(mkdir(desk_path(desk, "work"), 0700), 0);
    assert_int_equal(mkdir(desk_path(desk, "config"), 0700), 0);
    assert_int_equal(mkdir(desk_path(desk, "config/belay"), 0700), 0);
    setenv("XDG_CONFIG_HOME", desk_path(desk, "config"), 1);
    setenv("XDG_STATE_HOME", desk_path(desk, "state/of/mine"), 1);
    bl_list_init(&desk->entries);
    *state = desk;
    return 0;
}

static int tear_down(void **state)
{
    struct desk *desk = *state;
    bl_arena_done(&desk->arena);
    nftw(desk->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_STATE_HOME");
    bl_free(desk);
    return 0;
}

static void take_notice(void *context, struct bl_text text)
{
    struct desk *desk = context;
    size_t used = strlen(desk->notices);
    snprintf(desk->notices + used, sizeof desk->notices - used, BL_TEXT_FORMAT "\n",
             BL_TEXT_ARG(text));
    desk->notice_count++;
}

static const char *variable(const char *name)
{
    if (strcmp(name, "SET") == 0)
        return "from outside";
    return strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

static int desk_read(struct desk *desk, const char *file)
{
    char work[128];
    const char *const files[] = {file, NULL};
    snprintf(work, sizeof work, "%s/work", desk->root);
    struct bl_mcp_config_options options = {
        .directory = bl_arena_text(&desk->arena, bl_text_from(work)).data,
        .files = file != NULL ? files : NULL,
        .variable = variable,
        .notice = take_notice,
        .context = desk,
    };
    return bl_mcp_config_read(&desk->arena, &options, &desk->entries, &desk->error);
}

static const struct bl_mcp_entry *desk_entry(const struct desk *desk, const char *name)
{
    BL_LIST_EACH (link, &desk->entries) {
        const struct bl_mcp_entry *entry = BL_CONTAINER(link, struct bl_mcp_entry, link);
        if (strcmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

static void assert_noticed(const struct desk *desk, const char *text)
{
    if (strstr(desk->notices, text) == NULL)
        fail_msg("not '%s' but: %s", text, desk->notices);
}

/* ---- Files ---- */

static void entry_is_read_with_all_its_members(void **state)
{
    struct desk *desk = *state;
    desk_write(desk, "work/.mcp.json",
               "{\"mcpServers\":{\"s\":{\"type\":\"stdio\",\"command\":\"prog\",\"args\":[\"-x\","
               "\"${SET}\"],\"env\":{\"KEY\":\"${SET}!\"},\"cwd\":\"sub\",\"timeout\":\"20s\","
               "\"startup_timeout\":2.5,\"on_cancel\":\"trust\",\"enabled_tools\":[\"a*\"],"
               "\"description\":\"of another program\"},"
               "\"h\":{\"type\":\"http\",\"url\":\"https://mcp.test/x?a=b\",\"headers\":{"
               "\"Authorization\":\"Bearer ${NONE:-none}\"}}}}");
    assert_int_equal(desk_read(desk, NULL), 0);
    assert_string_equal(desk->notices, "");
    const struct bl_mcp_entry *entry = desk_entry(desk, "s");
    assert_non_null(entry);
    assert_int_equal(entry->source, BL_MCP_OF_WORKSPACE);
    assert_string_equal(entry->command, "prog");
    assert_string_equal(entry->arguments[1], "from outside");
    assert_null(entry->arguments[2]);
    assert_string_equal(entry->variables[0], "KEY=from outside!");
    assert_string_equal(entry->directory, desk_path(desk, "work/sub"));
    assert_int_equal(entry->call_ns, 20 * BL_NS_PER_S);
    assert_int_equal(entry->start_ns, 2500 * BL_NS_PER_MS);
    assert_true(entry->trust);
    assert_string_equal(entry->enabled_tools[0], "a*");
    assert_int_equal(strlen(entry->digest), 64);
    entry = desk_entry(desk, "h");
    assert_non_null(entry);
    assert_null(entry->command);
    assert_string_equal(entry->url, "https://mcp.test/x?a=b");
    assert_string_equal(entry->headers[0], "Authorization: Bearer none");
    assert_null(entry->enabled_tools);
}

static void later_file_replaces_entries_of_an_earlier_one(void **state)
{
    struct desk *desk = *state;
    desk_write(desk, "config/belay/mcp.json",
               "{\"mcpServers\":{\"a\":{\"command\":\"user\"},\"b\":{\"command\":\"user\"},"
               "\"c\":{\"command\":\"user\"}}}");
    desk_write(desk, "work/.mcp.json",
               "{\"mcpServers\":{\"b\":{\"command\":\"work\"},\"c\":{\"command\":\"work\"}}}");
    desk_write(desk, "option.json", "{\"mcpServers\":{\"c\":{\"command\":\"option\"}}}");
    assert_int_equal(desk_read(desk, desk_path(desk, "option.json")), 0);
    assert_string_equal(desk_entry(desk, "a")->command, "user");
    assert_int_equal(desk_entry(desk, "a")->source, BL_MCP_OF_USER);
    assert_string_equal(desk_entry(desk, "b")->command, "work");
    assert_string_equal(desk_entry(desk, "c")->command, "option");
    assert_int_equal(desk_entry(desk, "c")->source, BL_MCP_OF_OPTION);
    size_t count = 0;
    BL_LIST_EACH (link, &desk->entries)
        count++;
    assert_int_equal(count, 3);
}

static void variables_are_expanded_and_other_text_stays(void **state)
{
    struct desk *desk = *state;
    desk_write(desk, "work/.mcp.json",
               "{\"mcpServers\":{\"s\":{\"command\":\"c\",\"args\":[\"${SET:-no}\",\"${EMPTY}\","
               "\"${EMPTY:-filled}\",\"a${NONE:-}b\",\"$SET\",\"${1x}\",\"${\",\"${SET\","
               "\"${SET:+x}\"]}}}");
    assert_int_equal(desk_read(desk, NULL), 0);
    static const char *const expected[] = {"from outside", "",   "filled", "ab",       "$SET",
                                           "${1x}",        "${", "${SET",  "${SET:+x}"};
    const struct bl_mcp_entry *entry = desk_entry(desk, "s");
    assert_non_null(entry);
    for (size_t i = 0; i < BL_COUNT(expected); i++)
        assert_string_equal(entry->arguments[i], expected[i]);
}

static void invalid_entry_is_skipped_with_its_place_and_the_others_stay(void **state)
{
    static const struct {
        const char *entry, *why;
    } cases[] = {
        {"\"a\": {}", ":2:6: missing 'command' or 'url'"},
        {"\"a\": {\"command\": \"c\", \"url\": \"http://x.test\"}",
         ":2:6: 'command' and 'url' are mutually exclusive"},
        {"\"a\": {\"command\": \"\"}", ":2:6: 'command' must not be empty"},
        {"\"a\": {\"type\": \"sse\", \"url\": \"http://x.test\"}",
         ":2:15: type: expected one of stdio, http, streamable-http (the deprecated transport "
         "'sse' is not supported; use type http)"},
        {"\"a\": {\"type\": \"pipe\", \"command\": \"c\"}",
         ":2:15: type: expected one of stdio, http, streamable-http (the deprecated transport "
         "'sse' is not supported; use type http)"},
        {"\"a\": {\"url\": \"ftp://x.test\"}", ":2:14: url must be http://"},
        {"\"a\": {\"command\": \"c${NONE}\"}",
         ":2:18: environment variable NONE is not set (set it, or write ${NONE:-DEFAULT})"},
        {"\"a\": {\"command\": \"c\", \"args\": \"-x\"}",
         ":2:31: args: expected a list, found a string"},
        {"\"a\": {\"command\": \"c\", \"args\": [1]}",
         ":2:32: args: expected a string, found a whole number"},
        {"\"a\": {\"command\": \"c\", \"env\": []}",
         ":2:30: env: expected a mapping, found an empty list"},
        {"\"a\": {\"command\": \"c\", \"env\": {\"a=b\": \"c\"}}", ":2:31: invalid name in env"},
        {"\"a\": {\"command\": \"c\", \"env\": {\"\": \"c\"}}", ":2:31: invalid name in env"},
        {"\"a\": {\"command\": \"c\", \"cwd\": \"\"}", ":2:30: cwd must not be empty"},
        {"\"a\": {\"url\": \"http://x.test\", \"headers\": {\"a b\": \"c\"}}",
         ":2:43: invalid name in headers"},
        {"\"a\": {\"url\": \"http://x.test\", \"headers\": {\"a\": \"c\\nd: e\"}}",
         ":2:48: a header must be a single line"},
        {"\"a\": {\"command\": \"c\", \"timeout\": \"soon\"}", ":2:"},
        {"\"a\": {\"command\": \"c\", \"on_cancel\": \"maybe\"}", ":2:"},
        {"\"a\": \"c\"", ":2:6: expected a mapping, found a string"},
        {"\"a\": {\"command\": \"c\\u001f\"}", ":2:18: command contains a control character"},
        {"\"a\\u001f\": {\"command\": \"c\"}", ":2:1: a server name must have 1 to "},
        {"\"a\\u007f\": {\"command\": \"c\"}", ":2:1: a server name must have 1 to "},
        {"\"\": {\"command\": \"c\"}", ":2:1: a server name must have 1 to "},
    };
    struct desk *desk = *state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "{\"mcpServers\": {\n%s,\n\"good one\": {\"command\": \"c\"}}}\n", cases[i].entry);
        desk_write(desk, "work/.mcp.json", text);
        desk->notices[0] = '\0';
        desk->notice_count = 0;
        bl_list_init(&desk->entries);
        assert_int_equal(desk_read(desk, NULL), 0);
        assert_noticed(desk, cases[i].why);
        assert_noticed(desk, "MCP: server '");
        assert_int_equal(desk->notice_count, 1);
        assert_non_null(desk_entry(desk, "good one"));
        assert_ptr_equal(desk->entries.next, desk->entries.previous);
    }
}

static void unreadable_file_is_reported_and_one_by_option_is_an_error(void **state)
{
    struct desk *desk = *state;
    desk_write(desk, "work/.mcp.json", "{\"mcpServers\": {\n \"a\": ]}");
    assert_int_equal(desk_read(desk, NULL), 0);
    assert_int_equal(desk->notice_count, 1);
    assert_noticed(desk, "work/.mcp.json:2:");
    assert_true(bl_list_empty(&desk->entries));
    desk_write(desk, "option.json", "{\"servers\": {}}");
    assert_int_equal(desk_read(desk, desk_path(desk, "option.json")), BL_EPARSE);
    assert_non_null(strstr(desk->error.message, "option.json:1:1: expected {\"mcpServers\""));
    desk->error = (struct bl_error){0};
    assert_int_equal(desk_read(desk, desk_path(desk, "missing.json")), BL_ENOENT);
    assert_non_null(strstr(desk->error.message, "missing.json"));
}

/* Returns a number of servers, in the format of a file or of an editor; in the arena. */
static const char *many_servers(struct desk *desk, unsigned count, bool file)
{
    struct bl_buffer text;
    bl_buffer_init(&text, SIZE_MAX);
    bl_buffer_printf(&text, "%s", file ? "{\"mcpServers\": {" : "[");
    for (unsigned i = 0; i < count; i++)
        bl_buffer_printf(&text,
                         file ? "%s\"s%u\": {\"command\": \"c\"}"
                              : "%s{\"name\": \"s%u\", \"command\": \"/c\"}",
                         i > 0 ? "," : "", i);
    bl_buffer_printf(&text, "%s", file ? "}}" : "]");
    const char *kept = bl_arena_text(&desk->arena, bl_buffer_text(&text)).data;
    bl_buffer_done(&text);
    return kept;
}

/* ---- Servers from an editor ---- */

static int read_sent(struct desk *desk, const char *servers)
{
    const struct bl_json *value = NULL;
    desk->error = (struct bl_error){0};
    assert_int_equal(bl_json_read(&desk->arena, bl_text_from(servers), NULL, &value, NULL), 0);
    return bl_mcp_entries_read(&desk->arena, value, &desk->entries, &desk->error);
}

static void servers_of_a_client_are_read(void **state)
{
    struct desk *desk = *state;
    assert_int_equal(
        read_sent(desk,
                  "[{\"name\":\"s\",\"command\":\"/bin/s\",\"args\":[\"${SET}\",\"a\\tb\\nc d\"]"
                  ",\"env\":[{\"name\":\"K\",\"value\":\"v\"}]},"
                  "{\"type\":\"http\",\"name\":\"h\",\"url\":\"http://x.test/\","
                  "\"headers\":[{\"name\":\"A\",\"value\":\"b\"}]}]"),
        0);
    const struct bl_mcp_entry *entry = desk_entry(desk, "s");
    assert_non_null(entry);
    assert_int_equal(entry->source, BL_MCP_OF_CLIENT);
    assert_string_equal(entry->arguments[0], "${SET}");
    assert_string_equal(entry->arguments[1], "a\tb\nc d");
    assert_string_equal(entry->variables[0], "K=v");
    assert_string_equal(desk_entry(desk, "h")->headers[0], "A: b");
    assert_int_equal(read_sent(desk, "[]"), 0);
    assert_true(bl_list_empty(&desk->entries));
}

static void invalid_server_of_a_client_is_refused_with_its_path(void **state)
{
    static const struct {
        const char *servers, *target;
    } cases[] = {
        {"[1]", "/0"},
        {"[{\"command\":\"c\"}]", "/0/name"},
        {"[{\"name\":\"a\"}]", "/0/command"},
        {"[{\"name\":\"a\",\"command\":\"c\"},{\"name\":\"a\",\"command\":\"c\"}]", "/1/name"},
        {"[{\"name\":\"a\",\"command\":\"c\",\"args\":[1]}]", "/0/args/0"},
        {"[{\"name\":\"a\\u0001\",\"command\":\"c\"}]", "/0/name"},
        {"[{\"name\":\"a\",\"command\":\"c\\u0001\"}]", "/0/command"},
        {"[{\"name\":\"a\",\"command\":\"\"}]", "/0/command"},
        {"[{\"name\":\"a\",\"command\":\"c\",\"args\":[\"\\u001f\"]}]", "/0/args/0"},
        {"[{\"name\":\"a\",\"command\":\"c\",\"env\":[{\"name\":\"a=b\",\"value\":\"\"}]}]",
         "/0/env"},
        {"[{\"type\":\"sse\",\"name\":\"a\",\"url\":\"http://x.test\"}]", "/0/type"},
        {"[{\"type\":\"http\",\"name\":\"a\",\"url\":\"x\"}]", "/0/url"},
        {"[{\"type\":\"http\",\"name\":\"a\",\"url\":\"http://x.test\",\"headers\":[{\"name\":"
         "\"A\",\"value\":\"b\\nc\"}]}]",
         "/0/headers"},
        {"{}", ""},
    };
    struct desk *desk = *state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        assert_int_equal(read_sent(desk, cases[i].servers), BL_EINVAL);
        assert_string_equal(desk->error.target, cases[i].target);
    }
}

static void more_than_256_servers_are_refused(void **state)
{
    struct desk *desk = *state;
    desk_write(desk, "option.json", many_servers(desk, 256, true));
    assert_int_equal(desk_read(desk, desk_path(desk, "option.json")), 0);
    assert_non_null(desk_entry(desk, "s255"));
    desk_write(desk, "option.json", many_servers(desk, 257, true));
    assert_int_equal(desk_read(desk, desk_path(desk, "option.json")), BL_EPARSE);
    assert_non_null(strstr(desk->error.message, "more than 256 servers"));
    assert_int_equal(read_sent(desk, many_servers(desk, 256, false)), 0);
    assert_non_null(desk_entry(desk, "s255"));
    assert_int_equal(read_sent(desk, many_servers(desk, 257, false)), BL_EINVAL);
    assert_string_equal(desk->error.target, "/256");
}

/* ---- Trust ---- */

static void M20_trust_is_for_the_exact_entry_and_is_remembered(void **state)
{
    struct desk *desk = *state;
    struct stat status;
    desk_write(desk, "work/.mcp.json",
               "{\"mcpServers\":{\"a\":{\"command\":\"c\"},\"b\":{"
               "\"command\":\"c\",\"args\":[\"-x\"]}}}");
    assert_int_equal(desk_read(desk, NULL), 0);
    const struct bl_mcp_entry *a = desk_entry(desk, "a"), *b = desk_entry(desk, "b");
    assert_false(bl_mcp_trusted(a));
    assert_int_equal(bl_mcp_trust(a, &desk->error), 0);
    assert_true(bl_mcp_trusted(a));
    assert_false(bl_mcp_trusted(b));
    assert_int_equal(bl_mcp_trust(b, &desk->error), 0);
    assert_int_equal(bl_mcp_trust(b, &desk->error), 0);
    assert_int_equal(stat(desk_path(desk, "state/of/mine/belay/mcp-trust"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(status.st_size, 2 * (64 + 3));
    /* Another argument makes another server; another place, another program. */
    desk_write(desk, "work/.mcp.json",
               "{\"mcpServers\":{\"b\":{\"command\":\"c\",\"args\":[\"-y\"]"
               "}}}");
    assert_int_equal(desk_read(desk, NULL), 0);
    assert_false(bl_mcp_trusted(desk_entry(desk, "b")));
    struct bl_mcp_entry moved = *a;
    moved.path = "/elsewhere.test/.mcp.json";
    mcp_entry_seal(&moved);
    assert_false(bl_mcp_trusted(&moved));
}

/* A trusted entry stays trusted in the next release. */
static void M20_digest_of_an_entry_covers_all_its_members(void **state)
{
    static const char *const arguments[] = {"-a", "b", NULL}, *const variables[] = {"A=1", NULL};
    static const char *const headers[] = {"H: v", "I: w", NULL}, *const tools[] = {"x*", NULL};
    (void)state;
    struct bl_mcp_entry all = {.name = "all",
                               .source = BL_MCP_OF_WORKSPACE,
                               .path = "/w.test/.mcp.json",
                               .command = "run",
                               .arguments = arguments,
                               .variables = variables,
                               .directory = "/dir",
                               .url = "http://u.test/",
                               .headers = headers,
                               .trust = true,
                               .enabled_tools = tools};
    struct bl_mcp_entry few = {.name = "few", .source = BL_MCP_OF_USER, .path = "/not/counted"};
    mcp_entry_seal(&all);
    mcp_entry_seal(&few);
    assert_string_equal(all.digest,
                        "980a90532aea1f64f9d44576a68be9510e103656f44f45101a26daea2c572a5c");
    assert_string_equal(few.digest,
                        "a28fd10f8436914718dd26cc7d78be110e299bdf3725368f918e21fe665b5d0b");
}

static void trust_that_cannot_be_written_is_an_error(void **state)
{
    struct desk *desk = *state;
    struct bl_mcp_entry entry = {.name = "a", .command = "c"};
    mcp_entry_seal(&entry);
    desk_write(desk, "file", "");
    setenv("XDG_STATE_HOME", desk_path(desk, "file"), 1);
    assert_int_not_equal(bl_mcp_trust(&entry, &desk->error), 0);
    assert_non_null(strstr(desk->error.message, "cannot write it"));
    assert_false(bl_mcp_trusted(&entry));
}

#define AT_DESK(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

SUITE(mcp_config, AT_DESK(entry_is_read_with_all_its_members),
      AT_DESK(later_file_replaces_entries_of_an_earlier_one),
      AT_DESK(variables_are_expanded_and_other_text_stays),
      AT_DESK(invalid_entry_is_skipped_with_its_place_and_the_others_stay),
      AT_DESK(unreadable_file_is_reported_and_one_by_option_is_an_error),
      AT_DESK(servers_of_a_client_are_read),
      AT_DESK(invalid_server_of_a_client_is_refused_with_its_path),
      AT_DESK(more_than_256_servers_are_refused),
      AT_DESK(M20_trust_is_for_the_exact_entry_and_is_remembered),
      cmocka_unit_test(M20_digest_of_an_entry_covers_all_its_members),
      AT_DESK(trust_that_cannot_be_written_is_an_error));
