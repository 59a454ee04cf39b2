#include "helpers.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <postgres.h>

#define ROLE_LIFE_S 120

extern char **environ;

/* ---- A place for a store ---- */

void place_make(struct place *place)
{
    const char *base = getenv("TMPDIR");
    if (base == NULL || strlen(base) > 30)
        base = "/tmp";
    snprintf(place->folder, sizeof place->folder, "%s/belay-store-XXXXXX", base);
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->path, sizeof place->path, "%s/store.db", place->folder);
    place_use_file(place);
}

void place_use_file(struct place *place)
{
    snprintf(place->where, sizeof place->where, "%s", place->path);
    place->database[0] = '\0';
    place->proxy = NULL;
    place->bouncer = NULL;
}

static int remove_one(const char *path, const struct stat *status BL_UNUSED, int type BL_UNUSED,
                      struct FTW *walk BL_UNUSED)
{
    return remove(path);
}

void place_remove(struct place *place)
{
    if (place->database[0] != '\0')
        place_drop_database(place);
    assert_int_equal(nftw(place->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

struct bl_store *store_at(const struct place *place)
{
    struct bl_store *store = NULL;
    struct bl_error error = {0};
    if (!CHECK_EQUAL(
            bl_store_open(place->database[0] != '\0' ? place->where : place->path, &store, &error),
            0))
        fprintf(stderr, "%s\n", error.message);
    return store;
}

struct bl_store *store_on(const struct place *place, const char *host)
{
    setenv("BELAY_HOST", host, 1);
    struct bl_store *store = store_at(place);
    unsetenv("BELAY_HOST");
    return store;
}

void place_old_store(const struct place *place)
{
    struct sqlite_link link;
    CHECK_EQUAL(sqlite_link_open(&link, place->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                 false, NULL),
                0);
    CHECK_EQUAL(sqlite_migrate(&link, sqlite_migrations, 1, NULL), 0);
    CHECK_EQUAL(
        sqlite_execute(
            &link,
            "PRAGMA journal_mode = WAL;"
            "INSERT INTO session (id, created, updated, turns_total, context_from, input, output,"
            " directory, title) VALUES ('alpha', 1, 2, 2, 2, 20, 10, '/home/somebody', 'Do it.');"
            "INSERT INTO lease (session, epoch) VALUES (1, 4);"
            "INSERT INTO turn (session, number, id, run, interrupted, ended, input, output,"
            " spent_input, spent_output, cost, cost_max, cost_unknown, result, messages, events)"
            " SELECT 1, value, 'turn_' || value, 'run_1', 0, 2, 10, 5, 12, 5, 0.25, 0.5, 0, '{}',"
            " '[{\"role\":\"user\",\"content\":[]}]', '' FROM json_each('[1,2]');",
            NULL),
        0);
    sqlite_link_close(&link);
}

/* ---- A session held ---- */

int hold_with(struct holding *holding, struct bl_store *store,
              const struct bl_store_hold_options *options)
{
    *holding = (struct holding){0};
    bl_session_init(&holding->session, "");
    int code = bl_store_hold(store, options, &holding->session, &holding->held, &holding->error);
    CHECK_EQUAL(holding->error.code, code);
    if (code == 0)
        holding->table = bl_store_session_table(holding->held);
    return code;
}

int hold(struct holding *holding, struct bl_store *store, const char *id)
{
    return hold_with(holding, store,
                     &(struct bl_store_hold_options){.id = id,
                                                     .directory = "/home/somebody",
                                                     .run_id = "run_1",
                                                     .prompt = BL_TEXT("Do it.\nNow.")});
}

void release(struct holding *holding)
{
    bl_store_release(holding->held);
    holding->held = NULL;
    bl_session_done(&holding->session);
}

int begin_turn(struct holding *holding, const char *turn_id)
{
    holding->error = (struct bl_error){0};
    return holding->table->begin(holding->table->context,
                                 &(struct bl_attempt){.turn_id = bl_text_from(turn_id),
                                                      .prompt = BL_TEXT("Do it."),
                                                      .started_wall_ns = 1000000000},
                                 &holding->error);
}

/* Texts of the last settlement that was filled. */
static char messages_text[512], result_text[512], events_text[256];

void fill_settlement(struct bl_settlement *settlement, const char *turn_id)
{
    snprintf(messages_text, sizeof messages_text,
             "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Do it.\"}]},"
             "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}]",
             turn_id);
    snprintf(result_text, sizeof result_text,
             "{\"turn_id\":\"%s\",\"prompt\":\"Do it.\",\"output\":\"%s\"}", turn_id, turn_id);
    snprintf(
        events_text, sizeof events_text,
        "{\"type\":\"usage\",\"seq\":2}\n{\"type\":\"turn_ended\",\"seq\":3,\"turn\":\"%s\"}\n",
        turn_id);
    *settlement = (struct bl_settlement){
        .turn_id = bl_text_from(turn_id),
        .messages = bl_text_from(messages_text),
        .result = bl_text_from(result_text),
        .usage = {10, 5},
        .spent = {.usage = {12, 5}, .cost_usd = 0.25, .cost_usd_max = 0.5},
        .ended_wall_ns = 2000000000,
        .events = bl_text_from(events_text),
    };
}

int commit_turn(struct holding *holding, const char *turn_id)
{
    struct bl_settlement settlement;
    fill_settlement(&settlement, turn_id);
    holding->error = (struct bl_error){0};
    return holding->table->commit(holding->table->context, &settlement, &holding->error);
}

int reject_turn(struct holding *holding, const char *turn_id)
{
    struct bl_settlement settlement;
    fill_settlement(&settlement, turn_id);
    settlement.messages = (struct bl_text){0};
    settlement.usage = (struct bl_usage){0};
    settlement.receipt = BL_TEXT("{\"id\":\"rcp_made\"}");
    bl_text_into(settlement.receipt_id, sizeof settlement.receipt_id, "rcp_made");
    holding->error = (struct bl_error){0};
    return holding->table->reject(holding->table->context, &settlement, &holding->error);
}

struct bl_text make_summary(const char *text)
{
    static char json[256];
    snprintf(json, sizeof json,
             "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}]", text);
    return bl_text_from(json);
}

int compact_session(struct holding *holding, uint64_t turns_dropped, const char *summary)
{
    struct bl_settlement settlement = {
        .turns_dropped = turns_dropped,
        .summary = summary != NULL ? make_summary(summary) : (struct bl_text){0},
        .usage = {3, 1},
        .spent = {.usage = {4, 1}, .cost_usd = 0.5, .cost_usd_max = 0.5},
        .ended_wall_ns = 3000000000,
        .events = BL_TEXT("{\"type\":\"compacted\",\"seq\":4}\n"),
    };
    holding->error = (struct bl_error){0};
    return holding->table->compact(holding->table->context, &settlement, &holding->error);
}

bool has_summary(const struct holding *holding, const char *text)
{
    const struct bl_turn_record *summary = holding->session.summary;
    if (summary == NULL || text == NULL)
        return summary == NULL && text == NULL;
    if (!CHECK(!bl_list_empty(&summary->messages)))
        return false;
    const struct bl_message *first = BL_CONTAINER(summary->messages.next, struct bl_message, link);
    const struct bl_block *block = BL_CONTAINER(first->blocks.next, struct bl_block, link);
    return bl_text_equal(block->text, bl_text_from(text));
}

void add_turn(struct holding *holding, const char *turn_id)
{
    CHECK_EQUAL(begin_turn(holding, turn_id), 0);
    CHECK_EQUAL(commit_turn(holding, turn_id), 0);
}

/* ---- Cells ---- */

static const char digest_one[32] = "one\0digest";

/* Texts of the last cell that was made. */
static char yielded_text[256], terminal_text[256];

struct bl_store_cell make_cell(const char *id)
{
    snprintf(yielded_text, sizeof yielded_text,
             "{\"type\":\"yielded\",\"cell_id\":\"%s\",\"generation\":1,\"content_items\":[],"
             "\"stalled\":false}",
             id);
    snprintf(terminal_text, sizeof terminal_text,
             "{\"type\":\"completed\",\"cell_id\":\"%s\",\"generation\":2,\"content_items\":[],"
             "\"error\":null,\"stopped_calls\":0}",
             id);
    return (struct bl_store_cell){
        .id = bl_text_from(id),
        .digest = {digest_one, sizeof digest_one},
        .created_wall_ns = 1000000000,
        .deadline_ms = 60000,
        .yielded_generation = 1,
        .yielded = bl_text_from(yielded_text),
        .generation = 2,
        .terminal = bl_text_from(terminal_text),
        .completed = true,
        .ended_wall_ns = 2000000000,
    };
}

int admit_cell(struct holding *holding, const char *id)
{
    struct bl_store_cell cell = make_cell(id);
    holding->error = (struct bl_error){0};
    return bl_store_cell_admit(holding->held, &cell, &holding->error);
}

int yield_cell(struct holding *holding, const char *id)
{
    struct bl_store_cell cell = make_cell(id);
    cell.generation = 1;
    holding->error = (struct bl_error){0};
    return bl_store_cell_yield(holding->held, &cell, &holding->error);
}

int end_cell(struct holding *holding, const char *id, const char *key, const char *json)
{
    struct bl_store_cell cell = make_cell(id);
    struct bl_store_value value = {.key = bl_text_from(key), .json = bl_text_from(json)};
    struct bl_list values;
    bl_list_init(&values);
    if (key != NULL)
        bl_list_push_back(&values, &value.link);
    holding->error = (struct bl_error){0};
    return bl_store_cell_end(holding->held, &cell, &values, "rcp_cell",
                             BL_TEXT("{\"id\":\"rcp_cell\"}"), &holding->error);
}

void add_ended_cell(struct holding *holding, const char *id)
{
    CHECK_EQUAL(admit_cell(holding, id), 0);
    CHECK_EQUAL(end_cell(holding, id, NULL, NULL), 0);
}

int bury_cell(struct holding *holding, const char *id, int64_t wall_ns, uint64_t most)
{
    holding->error = (struct bl_error){0};
    return bl_store_cell_bury(holding->held, bl_text_from(id), wall_ns, most, CELL_DAY_NS,
                              &holding->error);
}

bool cells_are(struct holding *holding, const char *expected)
{
    struct bl_arena arena = {0};
    struct bl_list cells, values;
    struct bl_buffer text;
    bl_buffer_init(&text, 4096);
    CHECK_EQUAL(bl_store_cells_load(holding->held, &arena, &cells, &values, NULL), 0);
    BL_LIST_EACH (link, &cells) {
        const struct bl_store_cell *cell = BL_CONTAINER(link, struct bl_store_cell, link);
        bl_buffer_append(&text, cell->id);
        bl_buffer_append(&text, cell->terminal.size > 0 ? BL_TEXT(" ") : BL_TEXT("? "));
    }
    bl_buffer_append(&text, BL_TEXT("|"));
    BL_LIST_EACH (link, &values) {
        const struct bl_store_value *value = BL_CONTAINER(link, struct bl_store_value, link);
        bl_buffer_append(&text, BL_TEXT(" "));
        bl_buffer_append(&text, value->key);
        bl_buffer_append(&text, BL_TEXT("="));
        bl_buffer_append(&text, value->json);
    }
    bool same = bl_text_equal(bl_buffer_text(&text), bl_text_from(expected));
    if (!same)
        fprintf(stderr, "loaded \"" BL_TEXT_FORMAT "\"\n", BL_TEXT_ARG(bl_buffer_text(&text)));
    bl_buffer_done(&text);
    bl_arena_done(&arena);
    return same;
}

/* ---- Contents of a file ---- */

static sqlite3 *connect_to(const struct place *place)
{
    sqlite3 *db = NULL;
    CHECK_EQUAL(sqlite3_open(place->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 10000);
    return db;
}

void ask_text(const struct place *place, const char *sql, char *out, size_t out_size)
{
    if (place->database[0] != '\0') {
        struct bl_arena arena = {0};
        CHECK(pg_server_ask(
            pg_server_shared(), place->database,
            bl_arena_printf(&arena, "set search_path to belay; set bytea_output to escape; %s", sql)
                .data,
            out, out_size));
        bl_arena_done(&arena);
        return;
    }
    sqlite3 *db = connect_to(place);
    sqlite3_stmt *row = NULL;
    CHECK_EQUAL(sqlite3_prepare_v2(db, sql, -1, &row, NULL), SQLITE_OK);
    bool found = sqlite3_step(row) == SQLITE_ROW;
    bl_text_into(out, out_size, found ? (const char *)sqlite3_column_text(row, 0) : NULL);
    sqlite3_finalize(row);
    sqlite3_close(db);
}

int64_t ask_integer(const struct place *place, const char *sql)
{
    char text[64];
    int64_t value = INT64_MIN;
    ask_text(place, sql, text, sizeof text);
    bl_text_to_int64(bl_text_from(text), &value);
    return value;
}

void change_file(const struct place *place, const char *sql)
{
    if (place->database[0] != '\0') {
        struct bl_arena arena = {0};
        CHECK(pg_server_change(pg_server_shared(), place->database,
                               bl_arena_printf(&arena, "set search_path to belay; %s", sql).data));
        bl_arena_done(&arena);
        return;
    }
    sqlite3 *db = connect_to(place);
    CHECK_EQUAL(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

const char *form_sql(const struct place *place, const char *file_sql, const char *database_sql)
{
    return place->database[0] != '\0' ? database_sql : file_sql;
}

int64_t held_sessions(const struct place *place)
{
    return ask_integer(place, form_sql(place, "SELECT count(*) FROM lease WHERE owner IS NOT NULL",
                                       "SELECT count(*) FROM session WHERE owner IS NOT NULL"));
}

static int append_line(void *context, struct bl_text line)
{
    return bl_buffer_append(context, line);
}

int export_to(struct bl_store *store, const char *id, struct bl_buffer *out, struct bl_error *error)
{
    bl_buffer_init(out, (size_t)512 * 1024 * 1024);
    return bl_store_export(store, id, append_line, out, error);
}

/* ---- Roles ---- */

/* The library is beside this program. */
static void library_path(char *out, size_t out_size)
{
    ssize_t size = readlink("/proc/self/exe", out, out_size - 1);
    assert_true(size > 0);
    out[size] = '\0';
    char *slash = strrchr(out, '/');
    snprintf(slash, out_size - (size_t)(slash - out), "/libfaulty.so");
}

/* Returns the environment with the library in it. The sanitizers expect to come first. */
static char **faulty_environment(struct bl_arena *arena)
{
    size_t count = 0;
    char path[4096];
    const char *options = getenv("ASAN_OPTIONS");
    while (environ[count] != NULL)
        count++;
    char **copy = bl_arena_alloc(arena, (count + 3) * sizeof *copy);
    memcpy(copy + 2, environ, (count + 1) * sizeof *copy);
    library_path(path, sizeof path);
    copy[0] = (char *)(uintptr_t)bl_arena_printf(arena, "LD_PRELOAD=%s", path).data;
    copy[1] = (char *)(uintptr_t)bl_arena_printf(arena, "ASAN_OPTIONS=verify_asan_link_order=0:%s",
                                                 options == NULL ? "" : options)
                  .data;
    return copy;
}

void actor_start(struct actor *actor, const char *role, const struct place *place,
                 const char *argument, bool faulty)
{
    char self[] = "/proc/self/exe", option[] = "--role", none[] = "-";
    char *words[] = {self,
                     option,
                     (char *)(uintptr_t)role,
                     (char *)(uintptr_t)place->folder,
                     argument != NULL ? (char *)(uintptr_t)argument : none,
                     (char *)(uintptr_t)place->where,
                     (char *)(uintptr_t)place->database,
                     NULL};
    struct bl_arena arena = {0};
    posix_spawn_file_actions_t actions;
    int ends[2];
    CHECK_EQUAL(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], REPORT_FD);
    CHECK_EQUAL(posix_spawn(&actor->pid, self, &actions, NULL, words,
                            faulty ? faulty_environment(&arena) : environ),
                0);
    posix_spawn_file_actions_destroy(&actions);
    bl_arena_done(&arena);
    close(ends[1]);
    actor->report = ends[0];
}

bool actor_line(struct actor *actor, char *out, size_t out_size)
{
    size_t size = 0;
    for (;;) {
        char byte;
        ssize_t count = read(actor->report, &byte, 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count != 1)
            return false;
        if (byte == '\n')
            break;
        if (size + 1 < out_size)
            out[size++] = byte;
    }
    out[size] = '\0';
    return true;
}

void actor_expect(struct actor *actor, const char *line)
{
    char got[256] = "(it has ended)";
    actor_line(actor, got, sizeof got);
    if (!CHECK(strcmp(got, line) == 0))
        fprintf(stderr, "expected \"%s\", got \"%s\"\n", line, got);
}

int actor_end(struct actor *actor)
{
    int status = 0;
    while (waitpid(actor->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    close(actor->report);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void actor_kill(struct actor *actor)
{
    kill(actor->pid, SIGKILL);
    CHECK_EQUAL(actor_end(actor), -1);
}

void check_one_holds(const struct place *place, const char *role, const char *argument)
{
    struct actor actors[4];
    char line[64];
    int held = 0;
    for (size_t i = 0; i < BL_COUNT(actors); i++)
        actor_start(&actors[i], role, place, argument, false);
    for (size_t i = 0; i < BL_COUNT(actors); i++) {
        CHECK(actor_line(&actors[i], line, sizeof line));
        held += strcmp(line, "no error") == 0;
        CHECK(strcmp(line, "no error") == 0 || strcmp(line, "BL_EBUSY") == 0);
    }
    CHECK_EQUAL(held, 1);
    for (size_t i = 0; i < BL_COUNT(actors); i++)
        actor_kill(&actors[i]);
}

void report(const char *format, ...)
{
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (size > (int)sizeof line - 2)
        size = (int)sizeof line - 2;
    line[size] = '\n';
    CHECK_EQUAL(write(REPORT_FD, line, (size_t)size + 1), size + 1);
}

const char *const writer_ids[WRITERS_MAX] = {"s-0", "s-1", "s-2", "s-3",
                                             "s-4", "s-5", "s-6", "s-7"};
struct place role_place;
const char *role_argument;

/* Opens the role's store; reports a failure. */
static struct bl_store *role_store(void)
{
    struct bl_store *store = store_at(&role_place);
    if (store == NULL) {
        report("no store");
        _exit(1);
    }
    return store;
}

/* Holds the session in the argument, begins a turn, and stays. */
static int role_holder(void *argument BL_UNUSED)
{
    struct bl_store *store = role_store();
    struct holding holding;
    int code = hold(&holding, store, role_argument);
    if (code == 0)
        begin_turn(&holding, "turn_cut");
    report("%s", bl_error_name(code));
    bl_sleep(ROLE_LIFE_S * BL_NS_PER_S);
    return 0;
}

/* Reports the result of a hold, and exits without releasing anything. */
static int role_opener(void *argument BL_UNUSED)
{
    struct bl_store *store = role_store();
    struct holding holding;
    report("%s", bl_error_name(hold(&holding, store, role_argument)));
    _exit(0);
}

struct writer {
    struct bl_store *store;
    const char *id;
};

/* From the next commit on, the model sees only this turn and a summary of the earlier ones. */
static int commit_and_compact(struct holding *holding, const char *turn_id, uint64_t before,
                              uint64_t in_context)
{
    struct bl_settlement settlement;
    char text[64];
    snprintf(text, sizeof text, "up to %llu.", (unsigned long long)before);
    fill_settlement(&settlement, turn_id);
    settlement.turns_dropped = in_context;
    settlement.summary = make_summary(text);
    return holding->table->commit(holding->table->context, &settlement, NULL);
}

/* Replaces that number of turns by a summary. */
static int compact_by_hand(struct holding *holding, uint64_t turns)
{
    char text[64];
    snprintf(text, sizeof text, "up to %llu.", (unsigned long long)turns);
    struct bl_settlement settlement = {.turns_dropped = 1, .summary = make_summary(text)};
    return holding->table->compact(holding->table->context, &settlement, NULL);
}

/* Commits turns forever, and reports each confirmation. Each turn compacts the context; every
 * fourth one is followed by a manual compaction. */
static int write_turns(void *argument)
{
    struct writer *writer = argument;
    struct holding holding;
    char turn_id[BL_ID_SIZE];
    int code = hold(&holding, writer->store, writer->id);
    uint64_t in_context = holding.session.turns_in_context;
    report("%s open %s", writer->id, bl_error_name(code));
    for (uint64_t i = holding.session.turns_total + 1; code == 0; i++) {
        snprintf(turn_id, sizeof turn_id, "turn_%llu_%d", (unsigned long long)i, (int)getpid());
        code = begin_turn(&holding, turn_id);
        if (code == 0)
            code = commit_and_compact(&holding, turn_id, i - 1, in_context);
        if (code == 0)
            report("%s %llu", writer->id, (unsigned long long)i);
        in_context = 1;
        if (code == 0 && i % 4 == 0) {
            code = compact_by_hand(&holding, i);
            in_context = 0;
        }
    }
    return 0;
}

/* Writes to one session, or to as many as the argument says. */
static int role_writer(void *argument BL_UNUSED)
{
    struct writer writers[WRITERS_MAX];
    struct bl_nursery nursery;
    int64_t count = 1;
    bl_text_to_int64(bl_text_from(role_argument), &count);
    struct bl_store *store = role_store();
    bl_nursery_init(&nursery, bl_scope_current());
    for (int64_t i = 0; i < count; i++) {
        writers[i] = (struct writer){store, writer_ids[i]};
        bl_nursery_spawn(&nursery, NULL, "writer", write_turns, &writers[i], NULL);
    }
    bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    return 0;
}

void arm(const char *name, int value)
{
    _Atomic int *variable = dlsym(RTLD_DEFAULT, name);
    if (CHECK(variable != NULL))
        atomic_store(variable, value);
}

int role_main(int argument_count, char **arguments)
{
    static const struct {
        const char *name;
        bl_fiber_main *main;
    } roles[] = {{"holder", role_holder},
                 {"opener", role_opener},
                 {"writer", role_writer},
                 {"read-only", role_read_only},
                 {"cell-holder", role_cell_holder},
                 {"cell-writer", role_cell_writer},
                 {"cell-faults", role_cell_faults},
                 {"feature", role_feature},
                 {"feature-disk", role_feature_disk},
                 {"task-owner", role_task_owner},
                 {"power-cut", role_power_cut},
                 {"nth-sync", role_nth_sync}};
    if (argument_count != 7)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(ROLE_LIFE_S);
    bl_text_into(role_place.folder, sizeof role_place.folder, arguments[3]);
    snprintf(role_place.path, sizeof role_place.path, "%s/store.db", arguments[3]);
    role_argument = arguments[4];
    bl_text_into(role_place.where, sizeof role_place.where, arguments[5]);
    bl_text_into(role_place.database, sizeof role_place.database, arguments[6]);
    for (size_t i = 0; i < BL_COUNT(roles); i++) {
        if (strcmp(roles[i].name, arguments[2]) == 0)
            return run_in_role(roles[i].main, NULL) != 0;
    }
    return run_in_role(role_faults, arguments[2]) != 0;
}
