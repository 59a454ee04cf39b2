/* The files that name MCP servers, and what an editor sends in their place. */
#include <belay/value.h>
#include <ctype.h>
#include <stdio.h>

#include "mcp.h"

#define OPERATION       "read MCP servers"
#define FILE_MAX        ((size_t)1 << 20)
#define SERVER_NAME_MAX ((size_t)200)
#define SERVERS_MAX     256u

/* One file while it is read. */
struct file {
    struct bl_value_reader reader;
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

/* At "${": what stands for it, and how long it is. Size 0: it is no variable, and stays as it is.
 */
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
    bl_value_fail_at(&file->reader, value, "the variable %s is not set", name.data);
    bl_error_hint(file->reader.error, "set it, or write ${%s:-DEFAULT}", name.data);
    return BL_EPARSE;
}

/* Text of the file with its variables in place; no control characters. */
static int mcp_config_read_line(struct file *file, const struct bl_json *value, const char *what,
                                const char **ret_text)
{
    struct bl_text rest = bl_json_text(value);
    struct bl_buffer out;
    int code = 0;
    if (!bl_json_is(value, BL_JSON_STRING))
        return bl_value_fail_at(&file->reader, value, "%s must be text, is %s", what,
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
            code = bl_value_fail_at(&file->reader, value, "%s holds a control character", what);
    if (code == BL_ELIMIT)
        code = bl_value_fail_at(&file->reader, value, "%s is too long", what);
    *ret_text = text.data;
    return code;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static int mcp_config_read_list(struct file *file, const struct bl_json *value, const char *what,
                                const char *const **ret_list)
{
    const char **list = bl_arena_zalloc(file->arena, (bl_json_size(value) + 1) * sizeof *list);
    size_t count = 0;
    int code = 0;
    if (!bl_json_is(value, BL_JSON_ARRAY))
        return bl_value_fail_at(&file->reader, value, "%s must be a list, is %s", what,
                                bl_value_type(value));
    BL_JSON_EACH (element, value) {
        code = mcp_config_read_line(file, element, what, &list[count++]);
        if (code != 0)
            return code;
    }
    *ret_list = list;
    return code;
}

static bool is_variable(struct bl_text text)
{
    return text.size > 0 && memchr(text.data, '=', text.size) == NULL &&
           memchr(text.data, '\0', text.size) == NULL;
}

/* A mapping of names to texts, as "NAME=value" or "Name: value". */
static int read_pairs(struct file *file, const struct bl_json *value, const char *what,
                      bool headers, const char *const **ret_list)
{
    const char **list = bl_arena_zalloc(file->arena, (bl_json_size(value) + 1) * sizeof *list);
    size_t count = 0;
    if (!bl_json_is(value, BL_JSON_OBJECT))
        return bl_value_fail_at(&file->reader, value, "%s must be a mapping, is %s", what,
                                bl_value_type(value));
    BL_JSON_MEMBERS (key, value) {
        const char *text;
        if (!(headers ? mcp_header_name_fits(bl_json_text(key)) : is_variable(bl_json_text(key))))
            return bl_value_fail_at(&file->reader, key, "this cannot be a name in %s", what);
        int code = mcp_config_read_line(file, key + 1, what, &text);
        if (code != 0)
            return code;
        if (headers && strchr(text, '\n') != NULL)
            return bl_value_fail_at(&file->reader, key + 1, "a header has one line");
        list[count++] =
            bl_arena_printf(file->arena, "%s%s%s", key->string, headers ? ": " : "=", text).data;
    }
    *ret_list = list;
    return 0;
}

/* ---- One entry ------------------------------------------------------------------------------- */

static int read_type(struct file *file, const struct bl_json *key)
{
    struct bl_text type = bl_json_text(key + 1);
    if (bl_text_equal(type, BL_TEXT("stdio")) || bl_text_equal(type, BL_TEXT("http")) ||
        bl_text_equal(type, BL_TEXT("streamable-http")))
        return 0;
    if (bl_text_equal(type, BL_TEXT("sse")))
        return bl_value_fail_at(&file->reader, key + 1,
                                "the old transport 'sse' is not spoken here; use type http");
    return bl_value_fail_at(&file->reader, key + 1, "type must be stdio or http");
}

static int read_url(struct file *file, const struct bl_json *value, struct bl_mcp_entry *entry)
{
    struct bl_url url;
    int code = mcp_config_read_line(file, value, "url", &entry->url);
    if (code == 0 && bl_url_parse(file->arena, entry->url, &url, NULL) != 0)
        code = bl_value_fail_at(&file->reader, value, "url must be http://… or https://…");
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
        return bl_value_fail_at(&file->reader, value, "cwd must not be empty");
    entry->directory =
        text[0] == '/' ? text
                       : bl_arena_printf(file->arena, "%s/%s", file->options->directory, text).data;
    return 0;
}

/* Keys of other programs stand in these files as well: what is not known is no error. */
static int mcp_config_read_member(struct file *file, const struct bl_json *key,
                                  struct bl_mcp_entry *entry)
{
    static const char *const cancels[] = {"kill", "trust", NULL};
    static const char *const names[] = {
        "type",    "command",         "args",      "env",           "cwd", "url", "headers",
        "timeout", "startup_timeout", "on_cancel", "enabled_tools", NULL};
    struct bl_value_reader *reader = &file->reader;
    size_t which = 0, choice = 0;
    int code = 0;
    while (names[which] != NULL && !bl_text_equal(bl_json_text(key), bl_text_from(names[which])))
        which++;
    switch (which) {
    case 0: return read_type(file, key);
    case 1: return mcp_config_read_line(file, key + 1, "command", &entry->command);
    case 2: return mcp_config_read_list(file, key + 1, "args", &entry->arguments);
    case 3: return read_pairs(file, key + 1, "env", false, &entry->variables);
    case 4: return read_directory(file, key + 1, entry);
    case 5: return read_url(file, key + 1, entry);
    case 6: return read_pairs(file, key + 1, "headers", true, &entry->headers);
    case 7: return bl_value_read_duration(reader, key, 1, &entry->call_ns);
    case 8: return bl_value_read_duration(reader, key, 1, &entry->start_ns);
    case 9:
        code = bl_value_read_choice(reader, key, cancels, &choice);
        entry->trust = choice == 1;
        return code;
    case 10: return mcp_config_read_list(file, key + 1, "enabled_tools", &entry->enabled_tools);
    default: return 0;
    }
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
    struct bl_value_reader *reader = &file->reader;
    if (!is_server_name(bl_json_text(key)))
        return bl_value_fail_at(reader, key, "a server's name has 1 to %zu characters on one line",
                                SERVER_NAME_MAX);
    if (!bl_json_is(key + 1, BL_JSON_OBJECT))
        return bl_value_fail_at(reader, key + 1, "a server must be a mapping, is %s",
                                bl_value_type(key + 1));
    struct bl_mcp_entry *entry =
        mcp_config_new_entry(file->arena, bl_json_text(key), file->source, file->path);
    BL_JSON_MEMBERS (member, key + 1) {
        int code = mcp_config_read_member(file, member, entry);
        if (code != 0)
            return code;
    }
    if (entry->command != NULL && entry->url != NULL)
        return bl_value_fail_at(reader, key + 1, "it has both a 'command' and a 'url'");
    if (entry->command == NULL && entry->url == NULL)
        return bl_value_fail_at(reader, key + 1, "it has neither a 'command' nor a 'url'");
    if (entry->command != NULL && entry->command[0] == '\0')
        return bl_value_fail_at(reader, key + 1, "its 'command' is empty");
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

/* The servers of a document; what is wrong with one of them is told. */
static int mcp_config_read_servers(struct file *file, struct bl_list *entries)
{
    struct bl_value_reader *reader = &file->reader;
    const struct bl_json *root = reader->document.root;
    const struct bl_json *servers = bl_json_get(root, BL_TEXT("mcpServers"));
    uint32_t count = 0;
    if (!bl_json_is(root, BL_JSON_OBJECT) || !bl_json_is(servers, BL_JSON_OBJECT))
        return bl_value_fail_at(reader, servers != NULL ? servers : root,
                                "it must be {\"mcpServers\": {NAME: {…}}}");
    BL_JSON_MEMBERS (key, servers) {
        struct bl_mcp_entry *entry = NULL;
        struct bl_error *error = reader->error;
        char what[BL_VALUE_SHOWN_SIZE + 32], shown[BL_VALUE_SHOWN_SIZE];
        if (++count > SERVERS_MAX)
            return bl_value_fail_at(reader, key, "more than %u servers", SERVERS_MAX);
        if (mcp_config_read_entry(file, key, &entry) == 0) {
            put_entry(entries, entry);
            continue;
        }
        snprintf(what, sizeof what, "the server '%s' is left out",
                 bl_value_show(bl_json_text(key), shown));
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
    file->reader = (struct bl_value_reader){
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
        code =
            bl_value_read_document(&file->reader, file->arena, bl_buffer_text(&source), FILE_MAX);
    bl_buffer_done(&source);
    if (code == 0)
        code = mcp_config_read_servers(file, entries);
    if (code == 0 || given)
        return code;
    mcp_config_tell(file, error, "the file is left out");
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

/* ---- What an editor sends -------------------------------------------------------------------- */

static int mcp_config_refuse(struct bl_error *error, size_t index, const char *member,
                             const char *what)
{
    char target[96];
    snprintf(target, sizeof target, "/%zu%s%s", index, member[0] != '\0' ? "/" : "", member);
    return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, OPERATION, target, "%s %s", target, what);
}

static bool is_line(const struct bl_json *value)
{
    struct bl_text text = bl_json_text(value);
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < 0x20 && text.data[i] != '\t' && text.data[i] != '\n')
            return false;
    return bl_json_is(value, BL_JSON_STRING);
}

/* [{"name","value"}]. */
static int read_sent_pairs(struct bl_arena *arena, const struct bl_json *pairs, size_t index,
                           const char *member, bool headers, const char *const **ret_list,
                           struct bl_error *error)
{
    const char **list = bl_arena_zalloc(arena, (bl_json_size(pairs) + 1) * sizeof *list);
    size_t count = 0;
    if (pairs == NULL)
        return 0;
    if (!bl_json_is(pairs, BL_JSON_ARRAY))
        return mcp_config_refuse(error, index, member, "must be a list of {\"name\",\"value\"}");
    BL_JSON_EACH (pair, pairs) {
        const struct bl_json *name = bl_json_get(pair, BL_TEXT("name"));
        const struct bl_json *value = bl_json_get(pair, BL_TEXT("value"));
        bool fits =
            headers ? mcp_header_name_fits(bl_json_text(name)) : is_variable(bl_json_text(name));
        if (!fits || !is_line(value) || (headers && strchr(value->string, '\n') != NULL))
            return mcp_config_refuse(error, index, member,
                                     "must be a list of {\"name\",\"value\"}");
        list[count++] =
            bl_arena_printf(arena, "%s%s%s", name->string, headers ? ": " : "=", value->string)
                .data;
    }
    *ret_list = list;
    return 0;
}

static int read_sent_command(struct bl_arena *arena, const struct bl_json *server, size_t index,
                             struct bl_mcp_entry *entry, struct bl_error *error)
{
    const struct bl_json *command = bl_json_get(server, BL_TEXT("command"));
    const struct bl_json *arguments = bl_json_get(server, BL_TEXT("args"));
    size_t count = 0;
    if (!is_line(command) || command->size == 0)
        return mcp_config_refuse(error, index, "command", "must be the program to start");
    entry->command = bl_arena_text(arena, bl_json_text(command)).data;
    const char **list = bl_arena_zalloc(arena, (bl_json_size(arguments) + 1) * sizeof *list);
    if (arguments != NULL && !bl_json_is(arguments, BL_JSON_ARRAY))
        return mcp_config_refuse(error, index, "args", "must be a list of texts");
    BL_JSON_EACH (argument, arguments) {
        if (!is_line(argument))
            return mcp_config_refuse(error, index, "args", "must be a list of texts");
        list[count++] = bl_arena_text(arena, bl_json_text(argument)).data;
    }
    entry->arguments = list;
    return read_sent_pairs(arena, bl_json_get(server, BL_TEXT("env")), index, "env", false,
                           &entry->variables, error);
}

static int read_sent_address(struct bl_arena *arena, const struct bl_json *server, size_t index,
                             struct bl_mcp_entry *entry, struct bl_error *error)
{
    const struct bl_json *url = bl_json_get(server, BL_TEXT("url"));
    struct bl_url parts;
    if (!is_line(url) || bl_url_parse(arena, url->string, &parts, NULL) != 0)
        return mcp_config_refuse(error, index, "url", "must be http://… or https://…");
    entry->url = bl_arena_text(arena, bl_json_text(url)).data;
    return read_sent_pairs(arena, bl_json_get(server, BL_TEXT("headers")), index, "headers", true,
                           &entry->headers, error);
}

static int read_sent(struct bl_arena *arena, const struct bl_json *server, size_t index,
                     struct bl_list *entries, struct bl_error *error)
{
    const struct bl_json *name = bl_json_get(server, BL_TEXT("name"));
    const struct bl_json *type = bl_json_get(server, BL_TEXT("type"));
    if (!bl_json_is(server, BL_JSON_OBJECT))
        return mcp_config_refuse(error, index, "", "must be an object");
    if (!is_server_name(bl_json_text(name)))
        return mcp_config_refuse(error, index, "name",
                                 "must be a name of 1 to 200 bytes on one line");
    BL_LIST_EACH (link, entries)
        if (strcmp(BL_CONTAINER(link, struct bl_mcp_entry, link)->name, name->string) == 0)
            return mcp_config_refuse(error, index, "name",
                                     "is the name of another server before it");
    bool http = bl_text_equal(bl_json_text(type), BL_TEXT("http"));
    if (type != NULL && !http && !bl_text_equal(bl_json_text(type), BL_TEXT("stdio")))
        return mcp_config_refuse(error, index, "type",
                                 "must be stdio or http: nothing else is spoken here");
    struct bl_mcp_entry *entry =
        mcp_config_new_entry(arena, bl_json_text(name), BL_MCP_OF_CLIENT, NULL);
    int code = http ? read_sent_address(arena, server, index, entry, error)
                    : read_sent_command(arena, server, index, entry, error);
    if (code != 0)
        return code;
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
            return mcp_config_refuse(error, index, "", "is one server too many");
        code = read_sent(arena, server, index++, ret_entries, error);
        if (code != 0)
            return code;
    }
    return 0;
}
