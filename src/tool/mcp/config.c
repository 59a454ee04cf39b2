/* The files that configure MCP servers, and the list that an editor sends instead. */
#include <belay/source.h>
#include <ctype.h>
#include <stdio.h>

#include "mcp.h"

#define OPERATION       "read MCP servers"
#define FILE_MAX        ((size_t)1 << 20)
#define SERVER_NAME_MAX ((size_t)200)
#define SERVERS_MAX     256u

/* The state while reading a file. */
struct file {
    struct bl_source document;
    struct bl_arena *arena;
    const struct bl_mcp_config_options *options;
    const char *path;
    enum bl_mcp_source source;
};

/* ---- ${VAR} ---------------------------------------------------------------------------------- */

static size_t variable_size(struct bl_text text)
{
    size_t size = 0;
    while (size < text.size && (isalnum((unsigned char)text.data[size]) || text.data[size] == '_'))
        size++;
    return size > 0 && isdigit((unsigned char)text.data[0]) ? 0 : size;
}

/* At "${": appends the value of the variable and returns its size in the text. Size 0 means that it
 * is not a variable, and stays as it is. */
static int expand_one(struct file *file, const struct bl_json *value, struct bl_text text,
                      struct bl_buffer *out, size_t *ret_size)
{
    struct bl_text inside = {text.data + 2, text.size - 2};
    size_t size = variable_size(inside);
    struct bl_text rest = {inside.data + size, inside.size - size};
    bool defaulted = bl_text_starts_with(rest, BL_TEXT(":-"));
    const char *end = memchr(rest.data, '}', rest.size);
    *ret_size = 0;
    if (size == 0 || end == NULL || (!defaulted && rest.data[0] != '}'))
        return 0;
    *ret_size = (size_t)(end + 1 - text.data);
    struct bl_text name = bl_arena_text(file->arena, (struct bl_text){inside.data, size});
    const char *found = file->options->variable != NULL ? file->options->variable(name.data) : NULL;
    if (found != NULL && (found[0] != '\0' || !defaulted))
        return bl_buffer_append(out, bl_text_from(found));
    if (defaulted)
        return bl_buffer_append(out,
                                (struct bl_text){rest.data + 2, (size_t)(end - rest.data) - 2});
    bl_source_fail(&file->document, value, "environment variable %s is not set", name.data);
    bl_error_hint(file->document.error, "set it, or write ${%s:-DEFAULT}", name.data);
    return BL_EPARSE;
}

/* Reads a string and expands its variables; rejects control characters. */
static int mcp_config_read_line(struct file *file, const struct bl_json *value, const char *what,
                                const char **ret_text)
{
    struct bl_text rest = bl_json_text(value);
    struct bl_buffer out;
    int code = 0;
    if (!bl_json_is(value, BL_JSON_STRING))
        return bl_source_fail(&file->document, value, "%s: expected a string, found %s", what,
                              bl_value_type(value));
    bl_buffer_init(&out, FILE_MAX);
    while (rest.size > 0 && code == 0) {
        size_t size = 0;
        if (bl_text_starts_with(rest, BL_TEXT("${")))
            code = expand_one(file, value, rest, &out, &size);
        if (size == 0 && code == 0) {
            size = 1;
            code = bl_buffer_append_byte(&out, rest.data[0]);
        }
        rest = (struct bl_text){rest.data + size, rest.size - size};
    }
    struct bl_text text = bl_arena_text(file->arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    for (size_t i = 0; i < text.size && code == 0; i++)
        if ((unsigned char)text.data[i] < 0x20 && text.data[i] != '\t' && text.data[i] != '\n')
            code = bl_source_fail(&file->document, value, "%s contains a control character", what);
    if (code == BL_ELIMIT)
        code = bl_source_fail(&file->document, value, "%s is too long", what);
    *ret_text = text.data;
    return code;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static int mcp_config_read_list(struct file *file, const struct bl_json *value, const char *what,
                                const char *const **ret_list)
{
    const char **list = bl_arena_zalloc(file->arena, (bl_json_size(value) + 1) * sizeof *list);
    size_t count = 0;
    BL_JSON_EACH (element, value) {
        int code = mcp_config_read_line(file, element, what, &list[count++]);
        if (code != 0)
            return code;
    }
    *ret_list = list;
    return 0;
}

static bool is_variable(struct bl_text text)
{
    return text.size > 0 && memchr(text.data, '=', text.size) == NULL &&
           memchr(text.data, '\0', text.size) == NULL;
}

/* Reads a mapping of names to texts, as "NAME=value" or "Name: value". */
static int read_pairs(struct file *file, const struct bl_json *value, const char *what,
                      bool headers, const char *const **ret_list)
{
    const char **list = bl_arena_zalloc(file->arena, (bl_json_size(value) + 1) * sizeof *list);
    size_t count = 0;
    BL_JSON_MEMBERS (key, value) {
        const char *text;
        if (!(headers ? mcp_header_name_fits(bl_json_text(key)) : is_variable(bl_json_text(key))))
            return bl_source_fail(&file->document, key, "invalid name in %s", what);
        int code = mcp_config_read_line(file, key + 1, what, &text);
        if (code != 0)
            return code;
        if (headers && strchr(text, '\n') != NULL)
            return bl_source_fail(&file->document, key + 1, "a header must be a single line");
        list[count++] =
            bl_arena_printf(file->arena, "%s%s%s", key->string, headers ? ": " : "=", text).data;
    }
    *ret_list = list;
    return 0;
}

/* ---- One entry ------------------------------------------------------------------------------- */

static int read_url(struct file *file, const struct bl_json *value, struct bl_mcp_entry *entry)
{
    struct bl_url url;
    int code = mcp_config_read_line(file, value, "url", &entry->url);
    if (code == 0 && bl_url_parse(file->arena, entry->url, &url, NULL) != 0)
        code = bl_source_fail(&file->document, value, "url must be http://… or https://…");
    return code;
}

static int read_directory(struct file *file, const struct bl_json *value,
                          struct bl_mcp_entry *entry)
{
    const char *text = "";
    int code = mcp_config_read_line(file, value, "cwd", &text);
    if (code != 0)
        return code;
    if (text[0] == '\0')
        return bl_source_fail(&file->document, value, "cwd must not be empty");
    entry->directory =
        text[0] == '/' ? text
                       : bl_arena_printf(file->arena, "%s/%s", file->options->directory, text).data;
    return 0;
}

/* The members of an entry; their texts are expanded after it was read. */
struct entry_said {
    const char *type;
    const struct bl_json *command, *args, *env, *cwd, *url, *headers, *enabled_tools;
    uint64_t call_ns;
    uint64_t start_ns;
    bool trust;
};

static const char *const type_words[] = {"stdio", "http", "streamable-http"};
static const struct bl_names types = BL_NAMES(type_words);
static const char *const cancel_words[] = {"kill", "trust"};
static const struct bl_names cancels = BL_NAMES(cancel_words);

#define BL_RECORD_STRUCT struct entry_said
static const struct bl_member entry_members[] = {
    BL_MEMBER_STRING("type", type, .optional = true, .names = &types,
                     .about = "the deprecated transport 'sse' is not supported; use type http"),
    BL_MEMBER_JSON("command", command, .optional = true),
    BL_MEMBER_JSON("args", args, .optional = true, .element = &bl_element_string),
    BL_MEMBER_JSON("env", env, .optional = true, .object = true),
    BL_MEMBER_JSON("cwd", cwd, .optional = true),
    BL_MEMBER_JSON("url", url, .optional = true),
    BL_MEMBER_JSON("headers", headers, .optional = true, .object = true),
    BL_MEMBER_DURATION("timeout", call_ns, .optional = true, .least = 1),
    BL_MEMBER_DURATION("startup_timeout", start_ns, .optional = true, .least = 1),
    BL_MEMBER_ENUM("on_cancel", trust, &cancels, .optional = true),
    BL_MEMBER_JSON("enabled_tools", enabled_tools, .optional = true, .element = &bl_element_string),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

/* These files hold members for other programs, too, so an unknown member is not an error. */
static const struct bl_record entry_record =
    BL_RECORD("a server", struct entry_said, entry_members);

static int mcp_config_expand(struct file *file, const struct entry_said *said,
                             struct bl_mcp_entry *entry)
{
    int code = 0;
    entry->call_ns = said->call_ns;
    entry->start_ns = said->start_ns;
    entry->trust = said->trust;
    if (said->command != NULL)
        code = mcp_config_read_line(file, said->command, "command", &entry->command);
    if (code == 0 && said->args != NULL)
        code = mcp_config_read_list(file, said->args, "args", &entry->arguments);
    if (code == 0 && said->env != NULL)
        code = read_pairs(file, said->env, "env", false, &entry->variables);
    if (code == 0 && said->cwd != NULL)
        code = read_directory(file, said->cwd, entry);
    if (code == 0 && said->url != NULL)
        code = read_url(file, said->url, entry);
    if (code == 0 && said->headers != NULL)
        code = read_pairs(file, said->headers, "headers", true, &entry->headers);
    if (code == 0 && said->enabled_tools != NULL)
        code =
            mcp_config_read_list(file, said->enabled_tools, "enabled_tools", &entry->enabled_tools);
    return code;
}

static bool is_server_name(struct bl_text name)
{
    for (size_t i = 0; i < name.size; i++)
        if ((unsigned char)name.data[i] < 0x20 || name.data[i] == 0x7f)
            return false;
    return name.size > 0 && name.size <= SERVER_NAME_MAX;
}

static const char *const *no_texts(void)
{
    static const char *const none[] = {NULL};
    return none;
}

static struct bl_mcp_entry *mcp_config_new_entry(struct bl_arena *arena, struct bl_text name,
                                                 enum bl_mcp_source source, const char *path)
{
    struct bl_mcp_entry *entry = bl_arena_zalloc(arena, sizeof *entry);
    entry->name = bl_arena_text(arena, name).data;
    entry->source = source;
    entry->path = path;
    entry->arguments = entry->variables = entry->headers = no_texts();
    return entry;
}

static int mcp_config_read_entry(struct file *file, const struct bl_json *key,
                                 struct bl_mcp_entry **ret_entry)
{
    struct bl_source *source = &file->document;
    struct entry_said said = {0};
    if (!is_server_name(bl_json_text(key)))
        return bl_source_fail(source, key,
                              "a server name must have 1 to %zu characters on one line",
                              SERVER_NAME_MAX);
    struct bl_mcp_entry *entry =
        mcp_config_new_entry(file->arena, bl_json_text(key), file->source, file->path);
    int code = bl_source_read(source, file->arena, &entry_record, key + 1, &said);
    if (code == 0)
        code = mcp_config_expand(file, &said, entry);
    if (code != 0)
        return code;
    if (entry->command != NULL && entry->url != NULL)
        return bl_source_fail(source, key + 1, "'command' and 'url' are mutually exclusive");
    if (entry->command == NULL && entry->url == NULL)
        return bl_source_fail(source, key + 1, "missing 'command' or 'url'");
    if (entry->command != NULL && entry->command[0] == '\0')
        return bl_source_fail(source, key + 1, "'command' must not be empty");
    mcp_entry_seal(entry);
    *ret_entry = entry;
    return 0;
}

/* ---- A file ---------------------------------------------------------------------------------- */

static void put_entry(struct bl_list *entries, struct bl_mcp_entry *entry)
{
    BL_LIST_EACH (link, entries) {
        struct bl_mcp_entry *before = BL_CONTAINER(link, struct bl_mcp_entry, link);
        if (strcmp(before->name, entry->name) != 0)
            continue;
        bl_list_insert_before(&before->link, &entry->link);
        bl_list_remove(&before->link);
        return;
    }
    bl_list_push_back(entries, &entry->link);
}

static void mcp_config_tell(const struct file *file, const struct bl_error *error, const char *what)
{
    const struct bl_mcp_config_options *options = file->options;
    if (options->notice != NULL)
        options->notice(options->context,
                        bl_arena_printf(file->arena, "MCP: %s: %s%s%s%s", what, error->message,
                                        error->hint[0] != '\0' ? " (" : "", error->hint,
                                        error->hint[0] != '\0' ? ")" : ""));
}

/* Reads the servers of a document; an invalid one is reported and skipped. */
static int mcp_config_read_servers(struct file *file, struct bl_list *entries)
{
    struct bl_source *source = &file->document;
    const struct bl_json *root = source->document.root;
    const struct bl_json *servers = bl_json_get(root, BL_TEXT("mcpServers"));
    uint32_t count = 0;
    if (!bl_json_is(root, BL_JSON_OBJECT) || !bl_json_is(servers, BL_JSON_OBJECT))
        return bl_source_fail(source, servers != NULL ? servers : root,
                              "expected {\"mcpServers\": {NAME: {…}}}");
    BL_JSON_MEMBERS (key, servers) {
        struct bl_mcp_entry *entry = NULL;
        struct bl_error *error = source->error;
        char what[BL_VALUE_SHOWN_SIZE + 32], shown[BL_VALUE_SHOWN_SIZE];
        if (++count > SERVERS_MAX)
            return bl_source_fail(source, key, "more than %u servers", SERVERS_MAX);
        if (mcp_config_read_entry(file, key, &entry) == 0) {
            put_entry(entries, entry);
            continue;
        }
        snprintf(what, sizeof what, "server '%s' skipped", bl_value_show(bl_json_text(key), shown));
        mcp_config_tell(file, error, what);
        *error = (struct bl_error){0};
    }
    return 0;
}

static int mcp_config_read_file(struct file *file, struct bl_list *entries, struct bl_error *error)
{
    struct bl_buffer source;
    const char *why = "";
    bool given = file->source == BL_MCP_OF_OPTION;
    file->document = (struct bl_source){
        .file = file->path, .operation = OPERATION, .guarded = true, .error = error};
    int code = bl_file_load(file->path, FILE_MAX, &source, &why);
    if (code == BL_ENOENT && !given) {
        bl_buffer_done(&source);
        return 0;
    }
    if (code != 0)
        bl_error_set(error, code, BL_KIND_FILESYSTEM, OPERATION, file->path, "%s: %s", file->path,
                     why);
    else
        code = bl_source_open(&file->document, file->arena, bl_buffer_text(&source), FILE_MAX);
    bl_buffer_done(&source);
    if (code == 0)
        code = mcp_config_read_servers(file, entries);
    if (code == 0 || given)
        return code;
    mcp_config_tell(file, error, "file skipped");
    *error = (struct bl_error){0};
    return 0;
}

int bl_mcp_config_read(struct bl_arena *arena, const struct bl_mcp_config_options *options,
                       struct bl_list *ret_entries, struct bl_error *error)
{
    struct bl_error own = {0}, *told = error != NULL ? error : &own;
    struct file file = {.arena = arena, .options = options, .source = BL_MCP_OF_USER};
    int code = 0;
    bl_list_init(ret_entries);
    const char *folder = bl_user_folder(arena, BL_USER_CONFIG, NULL);
    if (folder != NULL) {
        file.path = bl_arena_printf(arena, "%s/mcp.json", folder).data;
        code = mcp_config_read_file(&file, ret_entries, told);
    }
    if (code == 0) {
        file.path = bl_arena_printf(arena, "%s/.mcp.json", options->directory).data;
        file.source = BL_MCP_OF_WORKSPACE;
        code = mcp_config_read_file(&file, ret_entries, told);
    }
    file.source = BL_MCP_OF_OPTION;
    for (size_t i = 0; code == 0 && options->files != NULL && options->files[i] != NULL; i++) {
        file.path = options->files[i];
        code = mcp_config_read_file(&file, ret_entries, told);
    }
    return code;
}

/* ---- A file before it is written ------------------------------------------------------------- */

static const char *mcp_config_any_variable(const char *name)
{
    (void)name;
    return "";
}

int bl_mcp_config_check(const char *path, struct bl_text text, const char *name,
                        struct bl_error *error)
{
    struct bl_mcp_config_options options = {.directory = "/", .variable = mcp_config_any_variable};
    BL_AUTO_ARENA(arena);
    struct file file = {
        .document = {.file = path, .operation = OPERATION, .guarded = true, .error = error},
        .arena = &arena,
        .options = &options,
        .path = path,
        .source = BL_MCP_OF_OPTION,
    };
    struct bl_mcp_entry *entry;

    int code = bl_source_open(&file.document, &arena, text, FILE_MAX);
    if (code != 0)
        return code;
    const struct bl_json *servers = bl_json_get(file.document.document.root, BL_TEXT("mcpServers"));
    if (bl_json_is(servers, BL_JSON_OBJECT))
        BL_JSON_MEMBERS (key, servers)
            if (bl_text_is(bl_json_text(key), name))
                return mcp_config_read_entry(&file, key, &entry);
    return bl_error_set(error, BL_ENOENT, BL_KIND_USAGE, OPERATION, name,
                        "no server '%.100s' in %s", name, path);
}

/* ---- Servers from an editor ------------------------------------------------------------------ */

static int mcp_config_refuse(struct bl_error *error, size_t index, const char *path,
                             const char *what)
{
    char target[192];
    snprintf(target, sizeof target, "/%zu%s", index, path);
    return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, target, "%s %s", target, what);
}

static bool sent_is_line(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < 0x20 && text.data[i] != '\t' && text.data[i] != '\n')
            return false;
    return true;
}

static const struct bl_form line_form = {"a string without control characters", NULL, sent_is_line};
static const struct bl_form name_form = {"a name of 1 to 200 bytes on one line", NULL,
                                         is_server_name};
static const struct bl_member line_element = {
    .type = BL_TYPE_STRING, .size = sizeof(char *), .form = &line_form};

struct sent_pair {
    const char *name;
    const char *value;
};

struct sent {
    const char *name;
    bool http;
    const char *command;
    const char *const *args;
    struct sent_pair *env;
    size_t env_count;
    const char *url;
    struct sent_pair *headers;
    size_t header_count;
};

#define BL_RECORD_STRUCT struct sent_pair
static const struct bl_member pair_members[] = {
    BL_MEMBER_STRING("name", name),
    BL_MEMBER_STRING("value", value, .form = &line_form),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record pair_record = BL_RECORD("a pair", struct sent_pair, pair_members);
static const struct bl_member pair_element = BL_ELEMENT(struct sent_pair, &pair_record);

static const char *const sent_words[] = {"stdio", "http"};
static const struct bl_names sent_types = BL_NAMES(sent_words);

#define BL_RECORD_STRUCT struct sent
static const struct bl_member sent_members[] = {
    BL_MEMBER_STRING("name", name, .form = &name_form),
    BL_MEMBER_ENUM("type", http, &sent_types, .optional = true),
    BL_MEMBER_STRING("command", command, .optional = true, .form = &line_form, .least = 1),
    BL_MEMBER_STRINGS("args", args, .optional = true, .element = &line_element),
    BL_MEMBER_ARRAY("env", env, env_count, &pair_element, .optional = true),
    BL_MEMBER_STRING("url", url, .optional = true, .form = &line_form),
    BL_MEMBER_ARRAY("headers", headers, header_count, &pair_element, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT

static const struct bl_record sent_record = BL_RECORD("a server", struct sent, sent_members);

/* Returns NULL if one of the pairs is invalid. */
static const char *const *join_pairs(struct bl_arena *arena, const struct sent_pair *pairs,
                                     size_t count, bool headers)
{
    const char **list = bl_arena_zalloc(arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count; i++) {
        struct bl_text name = bl_text_from(pairs[i].name);
        if (headers ? !mcp_header_name_fits(name) || strchr(pairs[i].value, '\n') != NULL
                    : !is_variable(name))
            return NULL;
        list[i] =
            bl_arena_printf(arena, "%s%s%s", pairs[i].name, headers ? ": " : "=", pairs[i].value)
                .data;
    }
    return list;
}

static int read_sent(struct bl_arena *arena, const struct bl_json *server, size_t index,
                     struct bl_list *entries, struct bl_error *error)
{
    struct bl_record_fault fault = {0};
    struct bl_url parts;
    struct sent sent;
    if (bl_record_read(arena, &sent_record, server, &sent, &fault) != 0)
        return mcp_config_refuse(error, index, fault.path, fault.message);
    BL_LIST_EACH (link, entries)
        if (strcmp(BL_CONTAINER(link, struct bl_mcp_entry, link)->name, sent.name) == 0)
            return mcp_config_refuse(error, index, "/name",
                                     "duplicates the name of an earlier server");
    struct bl_mcp_entry *entry =
        mcp_config_new_entry(arena, bl_text_from(sent.name), BL_MCP_OF_CLIENT, NULL);
    if (sent.http) {
        if (sent.url == NULL || bl_url_parse(arena, sent.url, &parts, NULL) != 0)
            return mcp_config_refuse(error, index, "/url", "must be http://… or https://…");
        entry->url = sent.url;
        entry->headers = join_pairs(arena, sent.headers, sent.header_count, true);
    } else {
        if (sent.command == NULL)
            return mcp_config_refuse(error, index, "/command", "must be the program to start");
        entry->command = sent.command;
        entry->arguments = sent.args != NULL ? sent.args : no_texts();
        entry->variables = join_pairs(arena, sent.env, sent.env_count, false);
    }
    if (entry->headers == NULL || entry->variables == NULL)
        return mcp_config_refuse(error, index, sent.http ? "/headers" : "/env",
                                 "must be a list of {\"name\",\"value\"}");
    mcp_entry_seal(entry);
    bl_list_push_back(entries, &entry->link);
    return 0;
}

int bl_mcp_entries_read(struct bl_arena *arena, const struct bl_json *servers,
                        struct bl_list *ret_entries, struct bl_error *error)
{
    size_t index = 0;
    int code = 0;
    bl_list_init(ret_entries);
    if (servers == NULL || bl_json_is(servers, BL_JSON_NULL))
        return 0;
    if (!bl_json_is(servers, BL_JSON_ARRAY))
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, "",
                            "the servers must be a list");
    BL_JSON_EACH (server, servers) {
        if (index >= SERVERS_MAX)
            return mcp_config_refuse(error, index, "", "exceeds the limit of 256 servers");
        code = read_sent(arena, server, index++, ret_entries, error);
        if (code != 0)
            return code;
    }
    return 0;
}
