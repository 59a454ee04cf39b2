/* A small MCP server on standard streams that misbehaves on demand: mcp-guest [OPTION VALUE]…
 *
 *   --era legacy|modern|both   the protocol versions that it supports (legacy)
 *   --version V                the version in its answer to `initialize`
 *   --discover MEMBER          "result" or "error" of its answer to `server/discover`
 *   --hang start|list|slow     never answers the first request or tools/list; starts after 1.2 s
 *   --tools plain|many|circle|endless|big|names|bad|none|NUMBER
 *   --trace FILE               a line for each message received
 *   --stubborn yes             ignores SIGTERM and the end of its input
 *   --child yes                starts a process in its own session that ignores all signals
 *   --exit CODE                exits at once, after a line on standard error
 *   --noise yes                writes lines that are not messages
 *
 * It exits by itself after a minute. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIFE_S      60
#define PENDING_MAX 64
#define BUFFER_SIZE (1 << 20)

static struct {
    const char *era, *version, *discover, *hang, *tools, *trace, *exit_code;
    bool stubborn, child, noise;
} options = {.era = "legacy", .version = NULL, .hang = "", .tools = "plain"};

/* A call to be answered later. */
static struct pending {
    char id[64]; /* as received; empty if this entry is free */
    char token[64];
    int64_t due_ms;
    int64_t step_ms; /* interval of progress; 0 for none */
    int steps;
    int done;
    char until[256]; /* waits for this file; empty for none */
} pending[PENDING_MAX];

/* Tasks by number: when they end, and whether they were cancelled. */
static struct {
    int64_t due_ms;
    bool cancelled;
    char end[32]; /* its final status; empty: completed, with a result */
} tasks[PENDING_MAX];
static int task_count;
static bool grown;

static bool hangs(const char *where)
{
    return strcmp(options.hang, where) == 0;
}

static int64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* ---- A minimal JSON reader ---- */

static const char *skip_string(const char *at)
{
    for (at++; *at != '\0' && *at != '"'; at++)
        if (*at == '\\' && at[1] != '\0')
            at++;
    return *at == '"' ? at + 1 : at;
}

static const char *skip_value(const char *at)
{
    int depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
        if (depth < 0 || *at == '\0')
            break;
        at++;
    } while (depth > 0 || (*at != ',' && *at != '}' && *at != ']' && *at != '\0'));
    return at;
}

/* Returns the value of a member of the object at `at`, or NULL. */
static const char *member(const char *at, const char *key)
{
    size_t size = strlen(key);
    if (at == NULL || *at != '{')
        return NULL;
    at++;
    while (*at == '"') {
        const char *end = skip_string(at);
        bool found = (size_t)(end - at) == size + 2 && strncmp(at + 1, key, size) == 0;
        if (*end != ':')
            return NULL;
        at = end + 1;
        while (*at == ' ')
            at++;
        if (found)
            return at;
        at = skip_value(at);
        while (*at == ',' || *at == ' ')
            at++;
    }
    return NULL;
}

/* Copies the bytes of a value, shortened. */
static void copy_value(const char *value, char *out, size_t size)
{
    size_t length = value != NULL ? (size_t)(skip_value(value) - value) : 0;
    if (length >= size)
        length = size - 1;
    if (length > 0)
        memcpy(out, value, length);
    out[length] = '\0';
}

static void copy_text(const char *value, char *out, size_t size)
{
    char raw[4096];
    copy_value(value, raw, sizeof raw);
    size_t length = strlen(raw);
    bool quoted = length >= 2 && raw[0] == '"';
    snprintf(out, size, "%.*s", (int)(quoted ? length - 2 : length), raw + (quoted ? 1 : 0));
}

static long number(const char *value, long fallback)
{
    return value != NULL ? strtol(value, NULL, 10) : fallback;
}

/* ---- Messages ---- */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static void answer(const char *id, const char *result)
{
    say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id, result);
}

static void refuse(const char *id, int code, const char *message)
{
    say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":\"%s\"}}", id, code,
        message);
}

static void answer_text(const char *id, const char *text, bool is_error)
{
    say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"%s\""
        "}],\"isError\":%s}}",
        id, text, is_error ? "true" : "false");
}

/* ---- Tools ---- */

static void begin_list(const char *id)
{
    printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"tools\":[", id);
}

static void end_list(const char *cursor)
{
    if (cursor != NULL)
        say("],\"nextCursor\":\"%s\"}}", cursor);
    else
        say("]}}");
}

static void list_plain(const char *id)
{
    static const char *const names[] = {
        "echo", "slow",  "steps", "die",  "hang", "image", "fail", "structured", "audio", "env",
        "grow", "roots", "input", "task", "big",  "pid",   "link", "refuse",     "quit"};
    begin_list(id);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        printf("%s{\"name\":\"%s\",\"description\":\"Tool %s.\",\"inputSchema\":{\"type\":"
               "\"object\"},\"annotations\":{\"readOnlyHint\":%s}}",
               i > 0 ? "," : "", names[i], names[i], i < 2 ? "true" : "false");
    if (grown)
        printf(",{\"name\":\"extra\",\"inputSchema\":{\"type\":\"object\"}}");
    end_list(NULL);
}

static void list_page(const char *id, long from, long count, const char *cursor)
{
    begin_list(id);
    for (long i = from; i < from + count; i++)
        printf("%s{\"name\":\"tool%ld\",\"inputSchema\":{\"type\":\"object\"}}",
               i > from ? "," : "", i);
    end_list(cursor);
}

static void list_big(const char *id)
{
    begin_list(id);
    printf("{\"name\":\"small\",\"inputSchema\":{\"type\":\"object\"}},"
           "{\"name\":\"large\",\"inputSchema\":{\"type\":\"object\",\"description\":\"");
    for (int i = 0; i < 1 << 20; i++)
        putchar('x');
    printf("\"}}");
    end_list(NULL);
}

static void list_names(const char *id)
{
    begin_list(id);
    printf("{\"name\":\"");
    for (int i = 0; i < 200; i++)
        putchar('n');
    printf("\",\"inputSchema\":{\"type\":\"object\"}},{\"name\":\"");
    for (int i = 0; i < 199; i++)
        putchar('n');
    printf("m\",\"inputSchema\":{\"type\":\"object\"}}");
    static const char *const names[] = {"a.b", "a b", "a_b", "plain", "plain", "\xC3\xA4"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        printf(",{\"name\":\"%s\",\"inputSchema\":{\"type\":\"object\"}}", names[i]);
    end_list(NULL);
}

static void list_bad(const char *id)
{
    begin_list(id);
    printf(
        "{\"name\":\"good\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":"
        "\"#/$defs/a\"}},\"$defs\":{\"a\":{\"type\":\"string\"}}}},"
        "{\"name\":\"no_schema\"},{\"name\":\"list\",\"inputSchema\":[]},"
        "{\"name\":\"text\",\"inputSchema\":{\"type\":\"string\"}},"
        "{\"name\":\"remote\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"a\":{"
        "\"$ref\":\"http://schema.test/a.json\"}}}},"
        "{\"name\":\"header\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"a\":{"
        "\"type\":\"string\",\"x-mcp-header\":\"not a token\"}}}},"
        "{\"inputSchema\":{\"type\":\"object\"}}");
    end_list(NULL);
}

static void list_tools(const char *id, const char *params)
{
    char cursor[64];
    copy_text(member(params, "cursor"), cursor, sizeof cursor);
    long from = number(cursor[0] != '\0' ? cursor : NULL, 0);
    char next[32];
    snprintf(next, sizeof next, "%ld", from + 10);
    if (strcmp(options.tools, "many") == 0)
        list_page(id, 0, 10000, NULL);
    else if (strcmp(options.tools, "circle") == 0)
        list_page(id, from, 3, "3");
    else if (strcmp(options.tools, "endless") == 0)
        list_page(id, from, 2, next);
    else if (strcmp(options.tools, "big") == 0)
        list_big(id);
    else if (strcmp(options.tools, "names") == 0)
        list_names(id);
    else if (strcmp(options.tools, "bad") == 0)
        list_bad(id);
    else if (strcmp(options.tools, "none") == 0)
        list_page(id, 0, 0, NULL);
    else if (options.tools[0] >= '1' && options.tools[0] <= '9')
        list_page(id, 0, number(options.tools, 0), NULL);
    else
        list_plain(id);
}

static void later(const char *id, const char *params, int64_t due_ms, int64_t step_ms, int steps)
{
    for (size_t i = 0; i < PENDING_MAX; i++) {
        if (pending[i].id[0] != '\0')
            continue;
        snprintf(pending[i].id, sizeof pending[i].id, "%s", id);
        copy_value(member(member(params, "_meta"), "progressToken"), pending[i].token,
                   sizeof pending[i].token);
        pending[i].due_ms = due_ms;
        pending[i].step_ms = step_ms;
        pending[i].steps = steps;
        pending[i].done = 0;
        copy_text(member(member(params, "arguments"), "until"), pending[i].until,
                  sizeof pending[i].until);
        return;
    }
}

static void make_task(const char *id, const char *input)
{
    int index = task_count < PENDING_MAX - 1 ? task_count++ : task_count;
    tasks[index].due_ms = now_ms() + number(member(input, "ms"), 0);
    tasks[index].cancelled = false;
    copy_text(member(input, "end"), tasks[index].end, sizeof tasks[index].end);
    say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"resultType\":\"task\",\"taskId\":\"%d\","
        "\"status\":\"working\",\"pollIntervalMs\":50,\"ttlMs\":null}}",
        id, index);
}

static void get_task(const char *id, const char *params)
{
    char name[16];
    copy_text(member(params, "taskId"), name, sizeof name);
    long index = number(name, 0);
    if (tasks[index].cancelled)
        say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"taskId\":\"%ld\",\"status\":"
            "\"cancelled\"}}",
            id, index);
    else if (now_ms() < tasks[index].due_ms)
        say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"taskId\":\"%ld\",\"status\":\"working\","
            "\"statusMessage\":\"at it\",\"pollIntervalMs\":50}}",
            id, index);
    else if (tasks[index].end[0] != '\0')
        say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"taskId\":\"%ld\",\"status\":\"%s\","
            "\"error\":{\"code\":-32001,\"message\":\"no more\"}}}",
            id, index, tasks[index].end);
    else
        say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"taskId\":\"%ld\",\"status\":\"completed\""
            ",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"task done\"}]}}}",
            id, index);
}

static void answer_big(const char *id, long bytes)
{
    printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":"
           "\"head ",
           id);
    for (long i = 0; i < bytes; i++)
        putchar('b');
    say(" tail\"}]}}");
}

static bool call_special(const char *id, const char *name)
{
    if (strcmp(name, "image") == 0)
        answer(id, "{\"content\":[{\"type\":\"text\",\"text\":\"a dot\"},{\"type\":\"image\","
                   "\"data\":\"iVBORw0KGgo=\",\"mimeType\":\"image/png\"}]}");
    else if (strcmp(name, "audio") == 0)
        answer(id, "{\"content\":[{\"type\":\"audio\",\"data\":\"AAAA\",\"mimeType\":\"audio/wav\""
                   "}]}");
    else if (strcmp(name, "link") == 0)
        answer(id,
               "{\"content\":[{\"type\":\"resource_link\",\"name\":\"n\",\"uri\":\"file:///n\""
               "},{\"type\":\"resource\",\"resource\":{\"uri\":\"file:///r\",\"text\":\"inside\""
               "}}]}");
    else if (strcmp(name, "structured") == 0)
        answer(id, "{\"content\":[],\"structuredContent\":{\"answer\":42}}");
    else if (strcmp(name, "input") == 0)
        answer(id, "{\"resultType\":\"input_required\",\"inputRequests\":{\"a\":{\"method\":"
                   "\"elicitation/create\"}}}");
    else if (strcmp(name, "fail") == 0)
        answer_text(id, "it went wrong", true);
    else if (strcmp(name, "refuse") == 0)
        refuse(id, -32602, "no such thing");
    else
        return false;
    return true;
}

static void call_tool(const char *id, const char *params)
{
    const char *input = member(params, "arguments");
    char name[256], text[1024];
    copy_text(member(params, "name"), name, sizeof name);
    copy_text(member(input, "text"), text, sizeof text);
    if (call_special(id, name))
        return;
    if (strcmp(name, "slow") == 0) {
        later(id, params, now_ms() + number(member(input, "ms"), 100), 0, 0);
    } else if (strcmp(name, "steps") == 0) {
        long ms = number(member(input, "ms"), 20), steps = number(member(input, "steps"), 3);
        later(id, params, now_ms() + ms, ms, (int)steps);
    } else if (strcmp(name, "die") == 0) {
        for (long i = number(member(input, "words"), 0); i > 0; i--)
            fputc('w', stderr);
        fprintf(stderr, "last words\n");
        exit((int)number(member(input, "code"), 3));
    } else if (strcmp(name, "quit") == 0) {
        answer_text(id, "before the end", false);
        exit(0);
    } else if (strcmp(name, "env") == 0) {
        const char *value = getenv(text);
        answer_text(id, value != NULL ? value : "(not set)", false);
    } else if (strcmp(name, "pid") == 0) {
        snprintf(text, sizeof text, "%d", (int)getpid());
        answer_text(id, text, false);
    } else if (strcmp(name, "grow") == 0) {
        grown = true;
        say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
        answer_text(id, "grown", false);
    } else if (strcmp(name, "roots") == 0) {
        later(id, params, now_ms() + LIFE_S * 1000, 0, 0);
        say("{\"jsonrpc\":\"2.0\",\"id\":\"ping-1\",\"method\":\"ping\"}");
        say("{\"jsonrpc\":\"2.0\",\"id\":\"roots-1\",\"method\":\"roots/list\"}");
    } else if (strcmp(name, "task") == 0) {
        make_task(id, input);
    } else if (strcmp(name, "big") == 0) {
        answer_big(id, number(member(input, "bytes"), 100));
    } else if (strcmp(name, "hang") != 0) {
        answer_text(id, text, false);
    }
}

/* ---- Messages received ---- */

static void open_legacy(const char *id)
{
    if (strcmp(options.era, "modern") == 0) {
        refuse(id, -32601, "this server speaks 2026-07-28 alone");
        return;
    }
    say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"protocolVersion\":\"%s\",\"capabilities\":{"
        "\"tools\":{\"listChanged\":true}},\"serverInfo\":{\"name\":\"guest\",\"version\":\"1\"}}}",
        id, options.version != NULL ? options.version : "2025-11-25");
}

static void discover(const char *id)
{
    if (options.discover != NULL)
        say("{\"jsonrpc\":\"2.0\",\"id\":%s,%s}", id, options.discover);
    else if (strcmp(options.era, "legacy") == 0)
        refuse(id, -32601, "no such method");
    else if (strcmp(options.era, "older") == 0)
        say("{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-32022,\"message\":\"no\",\"data\":"
            "{\"supported\":[\"2025-06-18\"]}}}",
            id);
    else
        answer(id, "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],"
                   "\"capabilities\":{\"tools\":{\"listChanged\":true}}}");
}

static void take_answer(const char *id, const char *result)
{
    char text[512];
    if (strcmp(id, "\"roots-1\"") != 0)
        return;
    const char *roots = member(result, "roots");
    copy_text(roots != NULL ? member(roots + 1, "uri") : NULL, text, sizeof text);
    for (size_t i = 0; i < PENDING_MAX; i++) {
        if (pending[i].id[0] == '\0')
            continue;
        answer_text(pending[i].id, text, false);
        pending[i].id[0] = '\0';
    }
}

static void take_request(const char *method, const char *id, const char *params)
{
    if (strcmp(method, "initialize") == 0 && !hangs("start"))
        open_legacy(id);
    else if (strcmp(method, "server/discover") == 0 && !hangs("start"))
        discover(id);
    else if (strcmp(method, "tools/list") == 0 && !hangs("list"))
        list_tools(id, params);
    else if (strcmp(method, "tools/call") == 0)
        call_tool(id, params);
    else if (strcmp(method, "tasks/get") == 0)
        get_task(id, params);
    else if (strcmp(method, "tasks/cancel") == 0) {
        char name[16];
        copy_text(member(params, "taskId"), name, sizeof name);
        tasks[number(name, 0)].cancelled = true;
        answer(id, "{}");
    }
}

static void take_line(const char *line)
{
    char method[128], id[64];
    copy_text(member(line, "method"), method, sizeof method);
    copy_value(member(line, "id"), id, sizeof id);
    if (options.trace != NULL) {
        FILE *file = fopen(options.trace, "ae");
        if (file != NULL) {
            fprintf(file, "%s %s\n", method[0] != '\0' ? method : "answer", line);
            fclose(file);
        }
    }
    if (method[0] == '\0')
        take_answer(id, member(line, "result"));
    else if (id[0] != '\0')
        take_request(method, id, member(line, "params"));
}

/* ---- Time ---- */

static void step(struct pending *call)
{
    if (call->until[0] != '\0' && access(call->until, F_OK) != 0) {
        call->due_ms = now_ms() + 10;
        return;
    }
    if (call->done < call->steps) {
        call->done++;
        if (call->token[0] != '\0')
            say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{"
                "\"progressToken\":%s,\"progress\":%d,\"total\":%d,\"message\":\"step\"}}",
                call->token, call->done, call->steps);
        call->due_ms = now_ms() + call->step_ms;
        return;
    }
    answer_text(call->id, "done", false);
    call->id[0] = '\0';
}

/* Returns the time until something is due, or -1. */
static int wait_ms(void)
{
    int64_t least = -1, now = now_ms();
    for (size_t i = 0; i < PENDING_MAX; i++) {
        if (pending[i].id[0] == '\0')
            continue;
        int64_t left = pending[i].due_ms > now ? pending[i].due_ms - now : 0;
        least = least < 0 || left < least ? left : least;
    }
    return (int)least;
}

static void play_due(void)
{
    for (size_t i = 0; i < PENDING_MAX; i++)
        if (pending[i].id[0] != '\0' && pending[i].due_ms <= now_ms())
            step(&pending[i]);
}

static void serve(void)
{
    static char buffer[BUFFER_SIZE];
    size_t size = 0;
    for (;;) {
        struct pollfd watched = {.fd = 0, .events = POLLIN};
        if (poll(&watched, 1, wait_ms()) > 0) {
            ssize_t got = read(0, buffer + size, sizeof buffer - size - 1);
            if (got <= 0) {
                while (options.stubborn)
                    pause();
                return;
            }
            size += (size_t)got;
            buffer[size] = '\0';
        }
        for (char *end; (end = memchr(buffer, '\n', size)) != NULL;) {
            *end = '\0';
            take_line(buffer);
            size -= (size_t)(end + 1 - buffer);
            memmove(buffer, end + 1, size + 1);
        }
        play_due();
    }
}

static void read_options(int count, char **arguments)
{
    for (int i = 1; i + 1 < count; i += 2) {
        const char *name = arguments[i], *value = arguments[i + 1];
        if (strcmp(name, "--era") == 0)
            options.era = value;
        else if (strcmp(name, "--version") == 0)
            options.version = value;
        else if (strcmp(name, "--discover") == 0)
            options.discover = value;
        else if (strcmp(name, "--hang") == 0)
            options.hang = value;
        else if (strcmp(name, "--tools") == 0)
            options.tools = value;
        else if (strcmp(name, "--trace") == 0)
            options.trace = value;
        else if (strcmp(name, "--exit") == 0)
            options.exit_code = value;
        options.stubborn |= strcmp(name, "--stubborn") == 0;
        options.child |= strcmp(name, "--child") == 0;
        options.noise |= strcmp(name, "--noise") == 0;
    }
}

/* Starts a process in its own session that ignores every signal it can. */
static void start_child(void)
{
    if (fork() != 0)
        return;
    setsid();
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (fork() != 0)
        _exit(0);
    alarm(LIFE_S);
    for (;;)
        pause();
}

int main(int count, char **arguments)
{
    alarm(LIFE_S);
    read_options(count, arguments);
    if (options.exit_code != NULL) {
        fprintf(stderr, "cannot go on\n");
        return (int)strtol(options.exit_code, NULL, 10);
    }
    if (options.stubborn)
        signal(SIGTERM, SIG_IGN);
    if (options.child)
        start_child();
    if (hangs("slow"))
        usleep(1200 * 1000);
    if (options.noise)
        printf("starting up...\n{\"level\":\"info\"}\n\n");
    serve();
    return 0;
}
