/* Operations that fail because of a conflict with another transaction: they are repeated. */
#include "helpers.h"

/* Real conflicts are rare. Here the first FAULTS statements of a round fail that write a row of some
 * tables, or read one after `faulty_reads`. Each failure takes an advisory lock, so that the next
 * statement knows of it: a rollback keeps these locks, and a transaction that only reads may take
 * them. Statements of the test itself do not fail. */
#define FAULTS "3"

static const char faulty_writes[] =
    "create table round (number int); insert into round values (0);"
    " create function fault() returns boolean language plpgsql as $$ declare"
    " _round int := (select number from belay.round); begin"
    " for _fault in 1 .. " FAULTS " loop if not exists (select 1 from pg_locks where locktype ="
    " 'advisory' and classid = _round and objid = _fault) then"
    " perform pg_advisory_lock(_round, _fault);"
    " raise 'a conflict with others' using errcode = 'serialization_failure'; end if; end loop;"
    " return true; end $$;"
    " create function fault_row() returns trigger language plpgsql as $$ begin"
    " perform belay.fault(); return case tg_op when 'DELETE' then old else new end; end $$;"
    " do $$ declare _table text; begin foreach _table in array array['session', 'run', 'turn',"
    " 'attempt', 'feature', 'feature_record', 'task', 'worker'] loop"
    " execute format('create trigger fault before insert or update or delete on %I for each row"
    " when (current_setting(''application_name'') <> ''belay-test'') execute function fault_row()',"
    " _table); end loop; end $$";

static const char faulty_reads[] =
    "do $$ declare _table text; begin foreach _table in array array['session', 'cell', 'turn'] loop"
    " execute format('alter table %I rename to %I', _table, _table || '_rows');"
    " execute format('create view %I as select * from %I where belay.fault()', _table,"
    " _table || '_rows'); end loop; end $$";

static void begin_round(const struct place *place)
{
    change_file(place, "update round set number = number + 1");
}

/* Checks that the operation succeeded, after all failures of the round. */
#define CHECK_ROUND(place, code)                                                                   \
    do {                                                                                           \
        CHECK_EQUAL(code, 0);                                                                      \
        CHECK_EQUAL(ask_integer(place, "select (count(*) = " FAULTS ")::int from pg_locks where"   \
                                       " locktype = 'advisory' and classid ="                      \
                                       " (select number from round)"),                             \
                    1);                                                                            \
    } while (0)

POSTGRES_TEST(writes_are_repeated_after_serialization_failures)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_buffer lines;
    struct holding holding;
    struct grasp grasp;
    struct bl_store_task task;
    const char *id = NULL;
    change_file(place, faulty_writes);
    begin_round(place);
    CHECK_ROUND(place, hold(&holding, store, "alpha"));
    begin_round(place);
    CHECK_ROUND(place, begin_turn(&holding, "turn_1"));
    begin_round(place);
    CHECK_ROUND(place, commit_turn(&holding, "turn_1"));
    begin_round(place);
    CHECK_ROUND(place, reject_turn(&holding, "turn_2"));
    release(&holding);
    CHECK_EQUAL(export_to(store, "alpha", &lines, NULL), 0);
    begin_round(place);
    CHECK_ROUND(place, bl_store_import(store, bl_buffer_text(&lines), "beta", &arena, &id, NULL));
    begin_round(place);
    CHECK_ROUND(place, bl_store_fork(store, "alpha", "gamma", &arena, &id, NULL));
    begin_round(place);
    CHECK_ROUND(place, bl_store_delete(store, "gamma", NULL));
    begin_round(place);
    CHECK_ROUND(place, hold_feature(&grasp, store, FEATURE));
    begin_round(place);
    CHECK_ROUND(place, put_record(&grasp, "a", "{}"));
    release_feature(&grasp);
    begin_round(place);
    CHECK_ROUND(place, bl_store_task_begin(
                           store, &(struct bl_store_task){.id = "run_a", .kind = "run"}, NULL));
    change_file(place, "update worker set state = 'lost'; update task set host = 'elsewhere'");
    begin_round(place);
    CHECK_ROUND(place, bl_store_task_get(store, &arena, "run_a", &task, NULL));
    CHECK(strcmp(task.status, "failed") == 0);
    CHECK_EQUAL(ask_integer(place, "select count(*) from session"), 2);
    CHECK_EQUAL(ask_integer(place, "select count(*) from turn"), 2);
    CHECK_EQUAL(ask_integer(place, "select count(*) from attempt"), 2);
    CHECK_EQUAL(ask_integer(place, "select sum(epoch)::bigint from session"), 1);
    bl_buffer_done(&lines);
    bl_arena_done(&arena);
    bl_store_close(store);
}

POSTGRES_TEST(reads_are_repeated_after_serialization_failures)
{
    struct bl_store *store = store_at(place);
    struct bl_arena arena = {0};
    struct bl_buffer lines;
    struct bl_list found, values;
    struct bl_store_session_view view;
    struct bl_store_work work;
    struct holding holding;
    CHECK_EQUAL(hold(&holding, store, "alpha"), 0);
    add_turn(&holding, "turn_1");
    add_ended_cell(&holding, "c-1");
    change_file(place, faulty_writes);
    change_file(place, faulty_reads);
    begin_round(place);
    CHECK_ROUND(place, bl_store_list(store, &arena, NULL, 0, false, &found, NULL));
    begin_round(place);
    CHECK_ROUND(place, bl_store_show(store, &arena, "alpha", &view, NULL));
    CHECK_EQUAL(view.turn_count, 1);
    begin_round(place);
    CHECK_ROUND(place, bl_store_turns(store, &arena, "alpha", &found, NULL));
    begin_round(place);
    CHECK_ROUND(place, bl_store_find(store, &arena, "alpha", &work, NULL));
    begin_round(place);
    CHECK_ROUND(place, export_to(store, "alpha", &lines, NULL));
    begin_round(place);
    CHECK_ROUND(place, bl_store_cells_load(holding.held, &arena, &found, &values, NULL));
    CHECK(!bl_list_empty(&found));
    bl_buffer_done(&lines);
    bl_arena_done(&arena);
    release(&holding);
    bl_store_close(store);
}

SUITE(pg_busy, cmocka_unit_test(writes_are_repeated_after_serialization_failures),
      cmocka_unit_test(reads_are_repeated_after_serialization_failures));
