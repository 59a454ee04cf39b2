/* belay mcp add, list and remove: the files that configure MCP servers. */
#include <unistd.h>

#include <belay/tool.h>

#include "cli/answers.h"
#include "cli/run/run.h"
#include "runtime/runtime.h"
#include "setup.h"

#define FILE_LIMIT ((size_t)1024 * 1024)
#define TEXT_LIMIT ((size_t)4 * 1024 * 1024)
#define INDENT     2
#define NAME_WIDTH 16

/* One call. */
struct mcp_servers_work {
    struct cli_call *call;
    const struct mcp_options *options;
    const char *directory; /* the workspace */
    const char *path;      /* the file that is changed */
    struct bl_arena arena;
    struct bl_error error;
};

/* ---- What is listed -------------------------------------------------------------------------- */

struct listed_server {
    const char *name;
    const char *source;
    const char *path;
    const char *command; /* the whole command line; NULL for a URL */
    const char *url;
    bool approved;
};

struct listed_servers {
    struct listed_server *servers;
    size_t count;
    struct bl_text *notices;
    size_t notice_count;
};

static const char *const server_source_names[] = {"user", "project"};
static const struct bl_names server_sources = BL_NAMES(server_source_names);

#define BL_RECORD_STRUCT struct listed_server
static const struct bl_member server_members[] = {
    BL_MEMBER_STRING("name", name, .least = 1),
    BL_MEMBER_STRING("source", source, .names = &server_sources,
                     .about = "Whose file configures it."),
    BL_MEMBER_STRING("path", path, .form = &cli_path_form, .about = "Path of that file."),
    BL_MEMBER_STRING("command", command, .nullable = true,
                     .about = "Command line; null if the server has a URL."),
    BL_MEMBER_STRING("url", url, .nullable = true, .about = "URL; null if belay starts a command."),
    BL_MEMBER_BOOLEAN("approved", approved,
                      .about = "False: a server of the project that the user has not approved."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record server_record =
    BL_RECORD("configured_server", struct listed_server, server_members, .closed = true);
static const struct bl_member server_element = BL_ELEMENT(struct listed_server, &server_record);

#define BL_RECORD_STRUCT struct listed_servers
static const struct bl_member servers_members[] = {
    BL_MEMBER_ARRAY("servers", servers, count, &server_element),
    BL_MEMBER_ARRAY("notices", notices, notice_count, &bl_element_text,
                    .about = "Files and servers that cannot be used."),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct cli_answer mcp_list_answer = {
    BL_RECORD("mcp-list", struct listed_servers, servers_members), .of = "mcp list"};

/* ---- Reading --------------------------------------------------------------------------------- */

#define NOTICES_MAX 256

struct mcp_servers_found {
    struct bl_arena *arena;
    struct bl_list entries; /* struct bl_mcp_entry */
    struct bl_text notices[NOTICES_MAX];
    size_t notice_count;
};

static void mcp_servers_take_notice(void *context, struct bl_text text)
{
    struct mcp_servers_found *found = context;

    if (found->notice_count < NOTICES_MAX)
        found->notices[found->notice_count++] = bl_arena_text(found->arena, text);
}

static int mcp_servers_read(struct mcp_servers_work *work, struct mcp_servers_found *found)
{
    struct bl_mcp_config_options options = {
        .directory = work->directory,
        .variable = bl_variable,
        .notice = mcp_servers_take_notice,
        .context = found,
    };

    *found = (struct mcp_servers_found){.arena = &work->arena};
    return bl_mcp_config_read(&work->arena, &options, &found->entries, &work->error);
}

/* ---- list ------------------------------------------------------------------------------------ */

static const char *mcp_servers_command_line(struct bl_arena *arena,
                                            const struct bl_mcp_entry *entry)
{
    BL_AUTO_BUFFER(line, TEXT_LIMIT);

    if (entry->command == NULL)
        return NULL;
    bl_buffer_append(&line, bl_text_from(entry->command));
    for (size_t i = 0; entry->arguments[i] != NULL; i++) {
        bl_buffer_append_byte(&line, ' ');
        bl_buffer_append(&line, bl_text_from(entry->arguments[i]));
    }
    return bl_arena_text(arena, bl_buffer_text(&line)).data;
}

static void mcp_servers_collect(struct mcp_servers_work *work, struct mcp_servers_found *found,
                                struct listed_servers *listed)
{
    size_t count = 0;

    BL_LIST_EACH (link, &found->entries)
        count++;
    listed->servers = bl_arena_zalloc(&work->arena, (count + 1) * sizeof *listed->servers);
    BL_LIST_EACH (link, &found->entries) {
        const struct bl_mcp_entry *entry = BL_CONTAINER(link, struct bl_mcp_entry, link);
        bool of_project = entry->source == BL_MCP_OF_WORKSPACE;
        listed->servers[listed->count++] = (struct listed_server){
            .name = entry->name,
            .source = server_source_names[of_project],
            .path = entry->path,
            .command = mcp_servers_command_line(&work->arena, entry),
            .url = entry->url,
            .approved = !of_project || bl_mcp_trusted(entry),
        };
    }
    listed->notices = found->notices;
    listed->notice_count = found->notice_count;
}

/* Reports files and servers that cannot be used, on standard error. */
static void mcp_servers_warn(const struct bl_text *notices, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        BL_AUTO_BUFFER(line, TEXT_LIMIT);
        bl_buffer_printf(&line, "belay mcp: " BL_TEXT_FORMAT "\n", BL_TEXT_ARG(notices[i]));
        cli_remark(bl_buffer_text(&line));
    }
}

static int mcp_servers_print(struct mcp_servers_work *work, const struct listed_servers *listed)
{
    BL_AUTO_BUFFER(out, TEXT_LIMIT);

    mcp_servers_warn(listed->notices, listed->notice_count);
    for (size_t i = 0; i < listed->count; i++) {
        const struct listed_server *server = &listed->servers[i];
        bl_buffer_printf(&out, "%-*s  %-7s  %s%s\n", NAME_WIDTH, server->name, server->source,
                         server->command != NULL ? server->command : server->url,
                         server->approved ? "" : "  (not approved yet)");
    }
    if (listed->count == 0)
        bl_buffer_append(&out, BL_TEXT("no MCP servers are configured; add one with 'belay mcp "
                                       "add NAME URL' or 'belay mcp add NAME -- COMMAND'\n"));
    return cli_print(work->call, bl_buffer_text(&out), CLI_EXIT_OK);
}

static int mcp_servers_list(struct mcp_servers_work *work, int *ret_exit_code)
{
    struct mcp_servers_found found;
    struct listed_servers listed = {0};

    int code = mcp_servers_read(work, &found);
    if (code != 0)
        return code;
    mcp_servers_collect(work, &found, &listed);
    *ret_exit_code =
        work->call->format == CLI_FORMAT_TEXT
            ? mcp_servers_print(work, &listed)
            : cli_answer_print(work->call, CLI_EXIT_OK, &mcp_list_answer.record, &listed);
    return 0;
}

/* ---- Changing a file ------------------------------------------------------------------------- */

static int mcp_servers_find_file(struct mcp_servers_work *work)
{
    if (!work->options->project)
        return setup_config_path(&work->arena, "mcp.json", &work->path, &work->error);
    work->path = bl_arena_printf(&work->arena, "%s/.mcp.json", work->directory).data;
    return 0;
}

/* Reads the file; `*ret_root` is NULL if there is none. Other programs share the form of these
 * files, so what is not understood is kept, and what is not JSON is refused. */
static int mcp_servers_load(struct mcp_servers_work *work, const struct bl_json **ret_root)
{
    struct bl_json_fault fault;
    struct bl_buffer bytes;
    const char *why = "";
    char place[256];

    *ret_root = NULL;
    int code = bl_file_load(work->path, FILE_LIMIT, &bytes, &why);
    if (code == BL_ENOENT) {
        code = 0;
    } else if (code != 0) {
        bl_error_set(&work->error, code, BL_KIND_FILESYSTEM, "read MCP servers", work->path,
                     "cannot read '%s': %s", work->path, why);
    } else {
        code = bl_json_read(&work->arena, bl_buffer_text(&bytes), NULL, ret_root, &fault);
        if (code != 0) {
            bl_json_fault_text(&fault, place, sizeof place);
            bl_error_set(&work->error, code, BL_KIND_FILESYSTEM, "read MCP servers", work->path,
                         "'%s' is not valid JSON: %s", work->path, place);
        }
    }
    bl_buffer_done(&bytes);
    const struct bl_json *servers =
        code == 0 && *ret_root != NULL ? bl_json_get(*ret_root, BL_TEXT("mcpServers")) : NULL;
    if (code == 0 && *ret_root != NULL &&
        (!bl_json_is(*ret_root, BL_JSON_OBJECT) ||
         (servers != NULL && !bl_json_is(servers, BL_JSON_OBJECT))))
        code = bl_error_set(&work->error, BL_EPARSE, BL_KIND_FILESYSTEM, "read MCP servers",
                            work->path, "'%s' does not have the form {\"mcpServers\": {…}}",
                            work->path);
    return code;
}

/* Splits "NAME=VALUE" or "Name: value". */
static void mcp_servers_put_pair(struct bl_json_writer *writer, const char *pair, const char *mark)
{
    const char *at = strstr(pair, mark);

    bl_json_write_key(writer, (struct bl_text){pair, (size_t)(at - pair)});
    bl_json_write_string(writer, at + strlen(mark));
}

static void mcp_servers_put_pairs(struct bl_json_writer *writer, const char *key,
                                  const char *const *pairs, size_t count, const char *mark)
{
    if (count == 0)
        return;
    bl_json_write_key(writer, bl_text_from(key));
    bl_json_write_object(writer);
    for (size_t i = 0; i < count; i++)
        mcp_servers_put_pair(writer, pairs[i], mark);
    bl_json_write_end(writer);
}

static bool mcp_servers_is_url(const char *word)
{
    return strncmp(word, "http://", 7) == 0 || strncmp(word, "https://", 8) == 0;
}

static void mcp_servers_put_entry(struct bl_json_writer *writer, const struct mcp_options *options)
{
    bl_json_write_key(writer, bl_text_from(options->name));
    bl_json_write_object(writer);
    if (mcp_servers_is_url(options->words[0])) {
        bl_json_put_string(writer, "type", "http");
        bl_json_put_string(writer, "url", options->words[0]);
        mcp_servers_put_pairs(writer, "headers", options->headers, options->header_count, ": ");
    } else {
        bl_json_put_string(writer, "command", options->words[0]);
        bl_json_write_key(writer, BL_TEXT("args"));
        bl_json_write_array(writer);
        for (size_t i = 1; i < options->word_count; i++)
            bl_json_write_string(writer, options->words[i]);
        bl_json_write_end(writer);
        mcp_servers_put_pairs(writer, "env", options->variables, options->variable_count, "=");
    }
    bl_json_write_end(writer);
}

/* Writes the servers without the one of that name, which comes last if it is added. */
static void mcp_servers_put_all(struct bl_json_writer *writer, const struct bl_json *servers,
                                const struct mcp_options *options)
{
    bl_json_write_key(writer, BL_TEXT("mcpServers"));
    bl_json_write_object(writer);
    if (servers != NULL)
        BL_JSON_MEMBERS (key, servers) {
            if (bl_text_is(bl_json_text(key), options->name))
                continue;
            bl_json_write_key(writer, bl_json_text(key));
            bl_json_write_value(writer, key + 1);
        }
    if (options->verb == MCP_ADD)
        mcp_servers_put_entry(writer, options);
    bl_json_write_end(writer);
}

static struct bl_text mcp_servers_text(struct mcp_servers_work *work, const struct bl_json *root)
{
    BL_AUTO_BUFFER(out, TEXT_LIMIT);
    struct bl_json_writer writer;
    bool written = false;

    bl_json_writer_init(&writer, &out);
    bl_json_writer_indent(&writer, INDENT);
    bl_json_write_object(&writer);
    if (root != NULL)
        BL_JSON_MEMBERS (key, root) {
            bool are_servers = bl_text_is(bl_json_text(key), "mcpServers");
            if (are_servers && !written)
                mcp_servers_put_all(&writer, bl_json_get(root, bl_json_text(key)), work->options);
            written = written || are_servers;
            if (are_servers)
                continue;
            bl_json_write_key(&writer, bl_json_text(key));
            bl_json_write_value(&writer, key + 1);
        }
    if (!written)
        mcp_servers_put_all(&writer, NULL, work->options);
    bl_json_write_end(&writer);
    bl_buffer_append_byte(&out, '\n');
    return bl_arena_text(&work->arena, bl_buffer_text(&out));
}

/* ---- add ------------------------------------------------------------------------------------- */

static int mcp_servers_check_pairs(const char *option, const char *const *pairs, size_t count,
                                   const char *mark, const char *expected, struct bl_error *error)
{
    for (size_t i = 0; i < count; i++) {
        const char *at = strstr(pairs[i], mark);
        if (at == NULL || at == pairs[i])
            return cli_value_refuse(option, pairs[i], expected, error);
    }
    return 0;
}

static int mcp_servers_check_words(const struct mcp_options *options, struct bl_error *error)
{
    bool is_url = mcp_servers_is_url(options->words[0]);
    const char *other = is_url && options->variable_count > 0  ? "--env"
                        : !is_url && options->header_count > 0 ? "--header"
                                                               : NULL;

    if (other != NULL)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "read the command line", other,
                            "%s is only for %s", other, is_url ? "a command" : "a URL");
    if (is_url && options->word_count > 1)
        return cli_operand_refuse(options->words[1], "a URL has no arguments", error);
    int code = mcp_servers_check_pairs("--env", options->variables, options->variable_count, "=",
                                       "NAME=VALUE", error);
    return code != 0 ? code
                     : mcp_servers_check_pairs("--header", options->headers, options->header_count,
                                               ": ", "'NAME: VALUE'", error);
}

/* What the user adds, the user has approved; what cannot be used on this machine is a warning. */
static void mcp_servers_settle(struct mcp_servers_work *work)
{
    struct mcp_servers_found found;

    if (mcp_servers_read(work, &found) != 0)
        return;
    BL_LIST_EACH (link, &found.entries) {
        const struct bl_mcp_entry *entry = BL_CONTAINER(link, struct bl_mcp_entry, link);
        if (strcmp(entry->name, work->options->name) == 0 && entry->source == BL_MCP_OF_WORKSPACE &&
            work->options->project && bl_mcp_trust(entry, &work->error) != 0)
            cli_complain(work->call, &work->error); /* the server is added, and not approved */
    }
    mcp_servers_warn(found.notices, found.notice_count);
}

static int mcp_servers_change(struct mcp_servers_work *work, int *ret_exit_code)
{
    const struct mcp_options *options = work->options;
    const struct bl_json *root;
    bool adds = options->verb == MCP_ADD;

    int code = mcp_servers_find_file(work);
    if (code == 0)
        code = mcp_servers_load(work, &root);
    if (code != 0)
        return code;
    const struct bl_json *servers = root != NULL ? bl_json_get(root, BL_TEXT("mcpServers")) : NULL;
    bool is_there = servers != NULL && bl_json_get(servers, bl_text_from(options->name)) != NULL;
    if (adds && is_there && !options->force) {
        bl_error_set(&work->error, BL_EEXIST, BL_KIND_USAGE, "add an MCP server", options->name,
                     "%s already has a server '%s'", work->path, options->name);
        bl_error_hint(&work->error, "use --force to replace it");
        return BL_EEXIST;
    }
    if (!adds && !is_there) {
        bl_error_set(&work->error, BL_ENOENT, BL_KIND_USAGE, "remove an MCP server", options->name,
                     "%s has no server '%s'", work->path, options->name);
        bl_error_hint(&work->error, "'belay mcp list' shows which file has it%s",
                      options->project ? "" : "; --project is for .mcp.json");
        return BL_ENOENT;
    }
    struct bl_text text = mcp_servers_text(work, root);
    if (adds)
        code = bl_mcp_config_check(work->path, text, options->name, &work->error);
    if (code == 0)
        code = setup_write(work->path, text, !options->project, true, &work->error);
    if (code != 0)
        return code;
    if (adds)
        mcp_servers_settle(work);
    struct bl_text said =
        bl_arena_printf(&work->arena, "%s '%s' %s %s\n", adds ? "Added" : "Removed", options->name,
                        adds ? "to" : "from", work->path);
    *ret_exit_code = cli_print(work->call, said, CLI_EXIT_OK);
    return 0;
}

int mcp_servers_run(struct cli_call *call, const struct mcp_options *options)
{
    struct mcp_servers_work *work = bl_zalloc(sizeof *work);
    int exit_code = CLI_EXIT_OK;

    *work = (struct mcp_servers_work){
        .call = call, .options = options, .directory = options->run.workspace.directory};
    bl_arena_init(&work->arena);
    int code = options->verb == MCP_ADD ? mcp_servers_check_words(options, &work->error) : 0;
    if (code != 0) {
        exit_code = cli_fail_usage(call, &work->error);
    } else {
        code = options->verb == MCP_LIST ? mcp_servers_list(work, &exit_code)
                                         : mcp_servers_change(work, &exit_code);
        if (code != 0)
            exit_code = cli_fail(call, &work->error, CLI_EXIT_FAILED);
    }
    bl_arena_done(&work->arena);
    bl_free(work);
    return exit_code;
}
