/* Writes an imported session: one call for each line, all in one transaction. They are prepared on
 * a worker thread, so that the transaction never waits for them. */
#include "postgres.h"

/* The context of a sink. */
struct pg_import {
    struct store_look *look;
    struct bl_arena arena; /* of the calls */
    struct bl_list calls;  /* struct pg_call */
    const char *id;
    int64_t journal; /* keys used so far */
    int code;
    struct bl_error error;
};

static int import_add(struct pg_import *import, struct pg_call *call)
{
    pg_call_keep(call, &import->arena);
    call->joined = true;
    bl_list_push_back(&import->calls, &call->link);
    return 0;
}

static int import_session(void *context, const char *id, const struct store_line *line,
                          struct bl_text summary, struct bl_error *error BL_UNUSED)
{
    struct pg_import *import = context;
    import->id = bl_arena_text(&import->arena, bl_text_from(id)).data;
    return import_add(
        import,
        pg_call_new(&import->arena,
                    "select belay.put_session($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
                    " $12, $13)",
                    "swwuusssss"
                    "ssj",
                    id, line->created_wall_ns, line->updated_wall_ns, line->turns,
                    line->context_from, import->look->self.host, line->directory, line->parent,
                    line->title, line->agent_of, line->agent_turn, line->persona, summary));
}

static int import_turn(void *context, const struct store_line *line, struct bl_text result,
                       struct bl_text messages, struct bl_text events,
                       struct bl_error *error BL_UNUSED)
{
    struct pg_import *import = context;
    return import_add(
        import,
        pg_call_new(&import->arena,
                    "select belay.put_turn($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,"
                    " $14, $15, $16, $17)",
                    "sussowuuuuddosbbb", import->id, line->number, line->id, line->run,
                    (int)line->interrupted, line->ended_wall_ns, line->usage->input_tokens,
                    line->usage->output_tokens, PG_SPENT(line->spent),
                    pg_string(&import->arena, bl_json_pointer(line->json, BL_TEXT("/receipt/id"))),
                    result, messages, events));
}

static int import_attempt(void *context, const struct store_line *line, struct bl_text result,
                          struct bl_error *error BL_UNUSED)
{
    struct pg_import *import = context;
    return import_add(
        import, pg_call_new(&import->arena,
                            "select belay.put_attempt($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
                            " $12, $13, $14)",
                            "sssswwuuddosbj", import->id, line->id, line->run, line->state,
                            line->started_wall_ns, line->ended_wall_ns, PG_SPENT(line->spent),
                            line->receipt, line->text, result));
}

static int import_beside(void *context, const char *run, struct bl_text events,
                         const char *receipt_id, struct bl_text receipt,
                         struct bl_error *error BL_UNUSED)
{
    struct pg_import *import = context;
    return import_add(import,
                      pg_call_new(&import->arena,
                                  "select belay.put_beside($1, $2, $3, $4, $5, $6, $7)", "ssijssj",
                                  import->id, run, events.size > 0 ? ++import->journal : 0, events,
                                  receipt_id, pg_receipt_scope(&import->arena, receipt), receipt));
}

static int import_checkpoint(void *context, const char *name, struct bl_text json,
                             struct bl_error *error BL_UNUSED)
{
    struct pg_import *import = context;
    return import_add(import, pg_call_new(&import->arena,
                                          "select belay.put_imported_checkpoint($1, $2, $3)", "sbb",
                                          import->id, bl_text_from(name), json));
}

static int import_cell(void *context, const struct bl_store_cell *cell,
                       struct bl_error *error BL_UNUSED)
{
    struct pg_import *import = context;
    return import_add(
        import,
        pg_call_new(&import->arena,
                    "select belay.put_cell($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
                    " $12)",
                    "stwiuuowbsjj", import->id, cell->id, cell->created_wall_ns, cell->deadline_ms,
                    cell->yielded_generation, cell->generation, (int)cell->completed,
                    cell->ended_wall_ns, cell->digest,
                    pg_receipt_id(&import->arena, cell->terminal), cell->yielded, cell->terminal));
}

static int import_value(void *context, const struct bl_store_value *value,
                        struct bl_error *error BL_UNUSED)
{
    struct pg_import *import = context;
    return import_add(import, pg_call_new(&import->arena, "select belay.put_value($1, $2, $3)",
                                          "sbb", import->id, value->key, value->json));
}

static int import_tombstone(void *context, const struct bl_store_cell *cell, int64_t buried_wall_ns,
                            struct bl_error *error BL_UNUSED)
{
    struct pg_import *import = context;
    return import_add(import,
                      pg_call_new(&import->arena, "select belay.put_tombstone($1, $2, $3, $4)",
                                  "stwb", import->id, cell->id, buried_wall_ns, cell->digest));
}

static int import_totals(void *context, const struct bl_usage *usage, const struct bl_spent *spent,
                         struct bl_error *error BL_UNUSED)
{
    struct pg_import *import = context;
    return import_add(import, pg_call_new(&import->arena,
                                          "select belay.put_totals($1, $2, $3, $4, $5, $6, $7, $8)",
                                          "suuuuddo", import->id, usage->input_tokens,
                                          usage->output_tokens, PG_SPENT(spent)));
}

static void import_prepare(void *payload)
{
    static const struct store_sink sink = {
        .session = import_session,
        .turn = import_turn,
        .attempt = import_attempt,
        .beside = import_beside,
        .checkpoint = import_checkpoint,
        .cell = import_cell,
        .value = import_value,
        .tombstone = import_tombstone,
        .totals = import_totals,
    };
    struct pg_import *import = payload;
    import->code = store_import(import->look, &sink, import, &import->error);
}

/* Runs the calls. */
static int import_write(struct pg_work *work, struct pg_import *import, struct bl_error *error)
{
    struct pg_call *first = BL_CONTAINER(import->calls.next, struct pg_call, link);
    BL_CONTAINER(import->calls.previous, struct pg_call, link)->joined = false;
    int code = pg_link_ask_all(work->link, &import->calls, "import", error);
    if (code == 0 || strcmp(pg_state(first), "23505") != 0)
        return code;
    *error = (struct bl_error){0};
    return store_refuse_used_id(STORE_IMPORT, import->id, error);
}

static int import_run(struct pg_work *work, struct store_job *job, struct bl_error *error)
{
    struct pg_import *import = bl_zalloc(sizeof *import);
    bool abandoned;
    import->look = BL_CONTAINER(job, struct store_look, job);
    bl_list_init(&import->calls);
    /* The thread reads the job, so it is waited for even after a stop. */
    int code = bl_work_call(
        &(struct bl_work){.run = import_prepare, .drop = bl_free, .payload = import}, &abandoned);
    if (code == BL_ETHREADS)
        bl_error_set(error, code, BL_KIND_RUNTIME, "import", NULL,
                     "no thread available for the store");
    if (code == 0 && import->code != 0) {
        code = import->code;
        *error = import->error;
    }
    if (code == 0)
        code = import_write(work, import, error);
    BL_LIST_EACH (link, &import->calls)
        pg_call_done(BL_CONTAINER(link, struct pg_call, link));
    bl_arena_done(&import->arena);
    bl_free(import);
    return code;
}

/* After a lost answer, a session with that id may come from another import. */
const struct pg_operation pg_import = {.run = import_run, .once = true};
