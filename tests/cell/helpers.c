#include "helpers.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The port ---- */

static void answer_json(const struct bl_cell_call *call, struct bl_cell_call_result *ret_result,
                        const char *json)
{
    ret_result->ok = true;
    ret_result->json = bl_arena_text(call->arena, bl_text_from(json));
}

static void serve_sleep(const struct bl_cell_call *call, struct bl_cell_call_result *ret_result)
{
    struct bl_unit unit;

    bl_unit_begin(&unit, BL_UNIT_TOOL, call->id, call->tool);
    bl_sleep(3600 * BL_NS_PER_S);
    bl_unit_end(&unit, BL_FATE_ABORTED);
    *ret_result = (struct bl_cell_call_result){.refusal = BL_CELL_CALL_CANCELLED,
                                               .message = BL_TEXT("stopped")};
}

/* Ends when the house allows it, even if it is stopped, and reports two processes left. */
static void serve_left(struct house *house, const struct bl_cell_call *call,
                       struct bl_cell_call_result *ret_result)
{
    struct bl_unit unit;
    struct bl_scope shield;

    bl_unit_begin(&unit, BL_UNIT_TOOL, call->id, call->tool);
    bl_shield_begin(&shield, BL_NEVER - 1);
    bl_semaphore_take(&house->gate);
    bl_shield_end(&shield);
    unit.survivors = 2;
    bl_unit_end(&unit, BL_FATE_UNKNOWN);
    answer_json(call, ret_result, "null");
}

static void serve_mark(const struct house *house, const struct bl_cell_call *call,
                       struct bl_cell_call_result *ret_result)
{
    char path[128];

    snprintf(path, sizeof path, "%s/marks", house->folder);
    FILE *file = fopen(path, "a");
    if (CHECK(file != NULL)) {
        fputc('x', file);
        fclose(file);
    }
    answer_json(call, ret_result, "null");
}

static void serve_big(const struct bl_cell_call *call, struct bl_cell_call_result *ret_result)
{
    size_t size = BL_CELL_CALL_BYTES_MAX + 1;
    char *bytes = bl_arena_alloc(call->arena, size);

    memset(bytes, 'x', size);
    bytes[0] = bytes[size - 1] = '"';
    ret_result->ok = true;
    ret_result->json = (struct bl_text){bytes, size};
}

static void serve_call(void *context, const struct bl_cell_call *call,
                       struct bl_cell_call_result *ret_result)
{
    struct house *house = context;
    char number[32];

    house->calls_begun++;
    bl_text_into(house->last_tool, sizeof house->last_tool, call->tool);
    if (strcmp(call->tool, "sleep") == 0) {
        serve_sleep(call, ret_result);
    } else if (strcmp(call->tool, "fail") == 0) {
        *ret_result = (struct bl_cell_call_result){.refusal = BL_CELL_CALL_FAILED,
                                                   .message = BL_TEXT("it failed")};
    } else if (strcmp(call->tool, "count") == 0) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)house->calls_begun);
        answer_json(call, ret_result, number);
    } else if (strcmp(call->tool, "mark") == 0) {
        serve_mark(house, call, ret_result);
    } else if (strcmp(call->tool, "gate") == 0) {
        bl_semaphore_take(&house->gate);
        answer_json(call, ret_result, "null");
    } else if (strcmp(call->tool, "left") == 0) {
        serve_left(house, call, ret_result);
    } else if (strcmp(call->tool, "big") == 0) {
        serve_big(call, ret_result);
    } else {
        ret_result->ok = true;
        ret_result->json = call->input_text;
    }
    house->calls_ended++;
}

static void take_notify(void *context, const char *cell_id, uint64_t seq, struct bl_text text)
{
    struct house *house = context;

    house->notified++;
    snprintf(house->last_notify, sizeof house->last_notify, BL_TEXT_FORMAT, BL_TEXT_ARG(text));
    bl_cell_notify_ack(house->session, cell_id, seq);
}

static void take_event(void *context, const struct bl_cell_event *event)
{
    struct house *house = context;

    house->events[event->type]++;
}

/* ---- The house ---- */

void house_init(struct house *house, const char *folder)
{
    const char *base = getenv("TMPDIR");

    *house = (struct house){0};
    if (base == NULL || strlen(base) > 30)
        base = "/tmp";
    if (folder != NULL) {
        house->kept = true;
        bl_text_into(house->folder, sizeof house->folder, folder);
    } else {
        snprintf(house->folder, sizeof house->folder, "%s/belay-cell-XXXXXX", base);
        CHECK(mkdtemp(house->folder) != NULL);
    }
    snprintf(house->path, sizeof house->path, "%s/store.db", house->folder);
    house->options.spares = 1; /* each costs time; tests that measure use more */
    bl_arena_init(&house->arena);
    bl_semaphore_init(&house->gate, 0);
}

struct bl_cell_session *house_session(struct house *house, const char *id)
{
    struct bl_cell_session *session = NULL;
    struct bl_cell_session_options options = {
        .id = id,
        .directory = "/",
        .port = {.context = house, .call = serve_call, .notify = take_notify, .event = take_event},
        .activities = &house->activities,
    };

    if (!CHECK_EQUAL(bl_cell_session_open(house->host, &options, &session, &house->fault), 0))
        fprintf(stderr, "%s: %s\n", house->fault.message, house->fault.detail);
    return session;
}

void house_open(struct house *house)
{
    struct bl_error *error = bl_zalloc(sizeof *error);

    bl_activities_init(&house->activities);
    bl_nursery_init(&house->nursery, bl_scope_current());
    if (!CHECK_EQUAL(bl_store_open(house->path, &house->store, error), 0))
        fprintf(stderr, "%s\n", error->message);
    house->options.store = house->store;
    if (!CHECK_EQUAL(bl_cell_host_start(&house->nursery, &house->options, &house->host, error), 0))
        fprintf(stderr, "%s\n", error->message);
    house->session = house_session(house, "s-1");
    bl_free(error);
}

void house_use_script(struct house *house, const char *lines)
{
    char path[96];

    snprintf(path, sizeof path, "%s/belay-cell-worker", house->folder);
    FILE *file = fopen(path, "w");
    if (!CHECK(file != NULL))
        return;
    fprintf(file,
            "#!/bin/sh\nready() { printf '\\000\\000\\000\\020{\"type\":\"ready\"}' >&0; }\n%s",
            lines);
    fclose(file);
    CHECK_EQUAL(chmod(path, 0700), 0);
    house->options.worker = bl_arena_text(&house->arena, bl_text_from(path)).data;
}

void house_close(struct house *house)
{
    bl_cell_host_stop(house->host, BL_STOP_SHUTDOWN, "test");
    bl_nursery_done(&house->nursery);
    bl_store_close(house->store);
    house->host = NULL;
    house->session = NULL;
    house->store = NULL;
}

static int remove_one(const char *path, const struct stat *status BL_UNUSED, int type BL_UNUSED,
                      struct FTW *walk BL_UNUSED)
{
    return remove(path);
}

void house_done(struct house *house)
{
    CHECK_EQUAL(house_workers(), 0);
    bl_arena_done(&house->arena);
    if (!house->kept)
        CHECK_EQUAL(nftw(house->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void house_fault(struct house *house, const char *text)
{
    CHECK_EQUAL(cell_faults_parse(&house->host->faults, text, NULL), 0);
}

void house_forget(struct house *house)
{
    bl_arena_done(&house->arena);
    bl_arena_init(&house->arena);
}

int house_run_empty(void *argument)
{
    house_body *const *body = argument;
    struct house *house = bl_zalloc(sizeof *house);

    house_init(house, NULL);
    int code = (*body)(house);
    house_done(house);
    bl_free(house);
    return code;
}

int house_run(void *argument)
{
    house_body *const *body = argument;
    struct house *house = bl_zalloc(sizeof *house);

    house_init(house, NULL);
    house_open(house);
    int code = (*body)(house);
    house_close(house);
    house_done(house);
    bl_free(house);
    return code;
}

/* ---- Operations ---- */

#define TOOL(name, text, takes_text)                                                               \
    {                                                                                              \
        {name, sizeof(name) - 1}, {text, sizeof(text) - 1}, takes_text,                            \
        {                                                                                          \
            NULL, 0                                                                                \
        }                                                                                          \
    }
static const struct bl_cell_tool tools[] = {
    TOOL("big", "Answers with too much.", false),
    TOOL("count", "Counts.", false),
    TOOL("echo", "Says it again.", false),
    TOOL("fail", "Fails.", false),
    TOOL("gate", "Waits.", false),
    TOOL("left", "Leaves processes running.", false),
    TOOL("mark", "Leaves a mark.", false),
    TOOL("say", "Takes text.", true),
    TOOL("sleep", "Sleeps.", false),
};

static struct bl_cell_create describe(const char *id, const char *source)
{
    return (struct bl_cell_create){
        .cell_id = id,
        .source = bl_text_from(source),
        .tools = tools,
        .tool_count = BL_COUNT(tools),
    };
}

int house_create_limited(struct house *house, const char *id, const char *source,
                         uint64_t deadline_ms, uint64_t memory_bytes, uint64_t output_bytes)
{
    struct bl_cell_create create = describe(id, source);

    create.deadline_ms = deadline_ms;
    create.memory_bytes = memory_bytes;
    create.output_bytes = output_bytes;
    int code = bl_cell_create(house->session, &create, &house->fault);
    /* If the test did not expect it, this is the only trace. */
    if (code == BL_EREFUSED)
        fprintf(stderr, "create of %s refused: %s: %s %s\n", id,
                bl_cell_code_name(house->fault.code), house->fault.message, house->fault.detail);
    return code;
}

int house_create_below(struct house *house, struct bl_scope *scope, const char *id,
                       const char *source)
{
    struct bl_cell_create create = describe(id, source);

    create.scope = scope;
    return bl_cell_create(house->session, &create, &house->fault);
}

int house_create(struct house *house, const char *id, const char *source)
{
    return house_create_limited(house, id, source, 0, 0, 0);
}

int house_observe(struct house *house, const char *id, uint64_t generation, uint64_t yield_ms)
{
    struct bl_cell_observe observe = {
        .cell_id = id, .generation = generation, .yield_ms = yield_ms};

    return bl_cell_observe(house->session, &observe, &house->arena, &house->seen, &house->fault);
}

int house_terminate(struct house *house, const char *id, const char *terminate_id)
{
    struct bl_cell_terminate terminate = {
        .cell_id = id, .terminate_id = terminate_id, .reason = BL_STOP_USER};

    return bl_cell_terminate(house->session, &terminate, &house->arena, &house->ended,
                             &house->fault);
}

int house_release(struct house *house, const char *id, uint64_t generation)
{
    enum bl_cell_release_outcome outcome = BL_CELL_RELEASE_MISSING;
    int code = bl_cell_release(house->session, id, generation, &outcome, &house->fault);

    if (code == 0)
        CHECK_EQUAL(outcome, BL_CELL_RELEASE_RELEASED);
    return code;
}

unsigned house_marks(const struct house *house)
{
    struct stat status;
    char path[128];

    snprintf(path, sizeof path, "%s/marks", house->folder);
    return stat(path, &status) == 0 ? (unsigned)status.st_size : 0;
}

const char *house_text(struct house *house, const struct bl_list *items)
{
    struct bl_buffer text;

    bl_buffer_init(&text, SIZE_MAX);
    BL_LIST_EACH (link, items)
        bl_buffer_append(&text, BL_CONTAINER(link, struct bl_cell_item, link)->text);
    const char *joined = bl_arena_text(&house->arena, bl_buffer_text(&text)).data;
    bl_buffer_done(&text);
    return joined;
}

const char *house_seen_text(struct house *house)
{
    switch (house->seen.type) {
    case BL_CELL_OBSERVE_YIELDED: return house_text(house, &house->seen.yielded.items);
    case BL_CELL_OBSERVE_COMPLETED: return house_text(house, &house->seen.completed.items);
    case BL_CELL_OBSERVE_TERMINATED: return house_text(house, &house->seen.terminated.items);
    case BL_CELL_OBSERVE_MISSING: break;
    }
    return "";
}

const char *house_ended_text(struct house *house)
{
    switch (house->ended.type) {
    case BL_CELL_TERMINATE_COMPLETED: return house_text(house, &house->ended.completed.items);
    case BL_CELL_TERMINATE_TERMINATED: return house_text(house, &house->ended.terminated.items);
    case BL_CELL_TERMINATE_MISSING: break;
    }
    return "";
}

bool house_same(const struct house *house)
{
    return bl_text_equal(house->seen.json, house->ended.json);
}

int64_t house_receipt_number(const struct bl_json *receipt, const char *key)
{
    struct bl_text unverified = bl_json_text(bl_json_get(receipt, BL_TEXT("unverified")));
    int64_t number = -1;

    if (!bl_json_int64(bl_json_get(receipt, bl_text_from(key)), &number) && unverified.size > 0)
        fprintf(stderr, "%s: not known (" BL_TEXT_FORMAT ")\n", key, BL_TEXT_ARG(unverified));
    return number;
}

bool house_receipt_says(const struct bl_json *receipt, const char *key, const char *text)
{
    struct bl_text said = bl_json_text(bl_json_get(receipt, bl_text_from(key)));

    if (!bl_text_equal(said, bl_text_from(text)))
        fprintf(stderr, "%s: " BL_TEXT_FORMAT ", not %s\n", key, BL_TEXT_ARG(said), text);
    return bl_text_equal(said, bl_text_from(text));
}

const struct bl_json *house_receipt_unit(const struct bl_json *receipt, const char *kind)
{
    BL_JSON_EACH (unit, bl_json_get(receipt, BL_TEXT("units")))
        if (bl_text_equal(bl_json_text(bl_json_get(unit, BL_TEXT("kind"))), bl_text_from(kind)))
            return unit;
    return NULL;
}

const char *house_finish(struct house *house, const char *id)
{
    const char *text = "";

    for (uint64_t generation = 1;; generation++) {
        if (house_observe(house, id, generation, 60000) != 0) {
            if (house->fault.code != BL_CELL_WRONG_GENERATION)
                return NULL;
            generation = house->fault.expected - 1;
            continue;
        }
        text = bl_arena_printf(&house->arena, "%s%s", text, house_seen_text(house)).data;
        if (house->seen.type != BL_CELL_OBSERVE_YIELDED)
            return text;
    }
}

const char *house_state(struct house *house, const char *id)
{
    const struct bl_json *value;
    struct bl_buffer ok;
    const char *state = "";

    bl_buffer_init(&ok, SIZE_MAX);
    CHECK_EQUAL(bl_cell_list(house->session, NULL, 100000, &ok, &house->fault), 0);
    CHECK_EQUAL(bl_json_read(&house->arena, bl_buffer_text(&ok), NULL, &value, NULL), 0);
    BL_JSON_EACH (cell, bl_json_get(value, BL_TEXT("cells")))
        if (bl_text_equal(bl_json_text(bl_json_get(cell, BL_TEXT("cell_id"))), bl_text_from(id)))
            state = bl_json_text(bl_json_get(cell, BL_TEXT("state"))).data;
    bl_buffer_done(&ok);
    return state;
}

/* ---- Processes ---- */

static bool read_process(long pid, char *name, size_t size, long *ret_parent)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    bool got = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    char *open = got ? strchr(line, '(') : NULL;
    char *close = got ? strrchr(line, ')') : NULL;
    char state;
    if (open == NULL || close == NULL || sscanf(close + 2, "%c %ld", &state, ret_parent) != 2)
        return false;
    *close = '\0';
    snprintf(name, size, "%s", open + 1);
    return state != 'Z' && state != 'X';
}

static bool is_below_us(long pid)
{
    char name[64];
    for (int depth = 0; pid > 1 && depth < 8; depth++) {
        if (pid == (long)getpid())
            return true;
        if (!read_process(pid, name, sizeof name, &pid))
            return false;
    }
    return false;
}

unsigned house_workers(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    unsigned count = 0;
    while ((entry = readdir(folder)) != NULL) {
        char name[64];
        long pid = atol(entry->d_name), parent;
        if (pid > 0 && read_process(pid, name, sizeof name, &parent) &&
            strncmp(name, "belay-cell-work", 15) == 0 && is_below_us(parent))
            count++;
    }
    closedir(folder);
    return count;
}

int64_t house_worker_pid(struct house *house, const char *id)
{
    const struct cell *cell = cell_find(house->session, id);
    return cell != NULL && cell->worker != NULL ? cell->worker->pid : 0;
}

bool house_process_lives(int64_t pid)
{
    char name[64];
    long parent;

    return pid > 0 && read_process((long)pid, name, sizeof name, &parent);
}

/* One minute: workers are nice, and wait long on a busy machine. */
bool house_until(bool (*holds)(void *argument), void *argument)
{
    for (unsigned i = 0; i < 60000 && !holds(argument); i++)
        bl_sleep(BL_NS_PER_MS);
    return holds(argument);
}

struct warmth {
    struct house *house;
    uint32_t spares;
};

static bool is_warm(void *argument)
{
    const struct warmth *warmth = argument;
    return warmth->house->host->pool.spare_count >= warmth->spares;
}

void house_warm(struct house *house, uint32_t spares)
{
    CHECK(house_until(is_warm, &(struct warmth){house, spares}));
}

struct awaited {
    struct house *house;
    const char *id;
    uint64_t bytes;
};

static bool has_output(void *argument)
{
    const struct awaited *awaited = argument;
    const struct cell *cell = cell_find(awaited->house->session, awaited->id);
    return cell != NULL && cell->output.size >= awaited->bytes;
}

void house_await_output(struct house *house, const char *id, uint64_t bytes)
{
    CHECK(house_until(has_output, &(struct awaited){house, id, bytes}));
}

static bool has_ended(void *argument)
{
    const struct awaited *awaited = argument;
    const struct cell *cell = cell_find(awaited->house->session, awaited->id);
    return cell == NULL || cell_has_ended(cell);
}

void house_await_end(struct house *house, const char *id)
{
    CHECK(house_until(has_ended, &(struct awaited){house, id, 0}));
}

/* ---- Callers beside the test's own ---- */

static int ask(void *argument)
{
    struct asker *asker = argument;
    struct bl_cell_observe observe = {
        .cell_id = asker->cell_id, .generation = asker->generation, .yield_ms = asker->yield_ms};
    struct bl_cell_terminate terminate = {
        .cell_id = asker->cell_id, .terminate_id = asker->terminate_id, .reason = BL_STOP_USER};

    if (asker->terminate_id[0] != '\0')
        asker->code = cell_terminate(asker->house->session, &terminate, &asker->arena, &asker->json,
                                     &asker->fault);
    else
        asker->code = cell_observe(asker->house->session, &observe, &asker->arena, &asker->json,
                                   &asker->fault);
    asker->ended_ns = bl_now_ns();
    return 0;
}

static void asker_start(struct asker *asker, struct house *house, const char *cell_id)
{
    asker->house = house;
    bl_text_into(asker->cell_id, sizeof asker->cell_id, cell_id);
    bl_arena_init(&asker->arena);
    bl_scope_init(&asker->scope, &house->nursery.scope);
    asker->began_ns = bl_now_ns();
    CHECK_EQUAL(
        bl_nursery_spawn(&house->nursery, &asker->scope, "asker", ask, asker, &asker->fiber), 0);
}

void asker_observe(struct asker *asker, struct house *house, const char *cell_id,
                   uint64_t generation, uint64_t yield_ms)
{
    *asker = (struct asker){.generation = generation, .yield_ms = yield_ms};
    asker_start(asker, house, cell_id);
}

void asker_terminate(struct asker *asker, struct house *house, const char *cell_id,
                     const char *terminate_id)
{
    *asker = (struct asker){0};
    bl_text_into(asker->terminate_id, sizeof asker->terminate_id, terminate_id);
    asker_start(asker, house, cell_id);
}

bool asker_answered(const struct asker *asker)
{
    return asker->ended_ns != 0;
}

void asker_stop(struct asker *asker)
{
    bl_scope_stop(&asker->scope, BL_STOP_USER, "test");
}

int asker_join(struct asker *asker)
{
    CHECK_EQUAL(bl_fiber_join(asker->fiber, NULL), 0);
    return asker->code;
}

void asker_done(struct asker *asker)
{
    bl_scope_done(&asker->scope);
    bl_arena_done(&asker->arena);
}
