/* Writes an imported session to the file. */
#include "sqlite.h"

/* The context of a sink. */
struct sqlite_import {
    struct sqlite_link *link;
    int64_t session;
};

static int import_refuse_existing(struct sqlite_link *link, const char *id, struct bl_error *error)
{
    int64_t session;
    struct bl_error missing = {0};
    int code = sqlite_find_session(link, id, &session, &missing);
    if (code == BL_ENOENT)
        return 0;
    if (code != 0) {
        *error = missing;
        return code;
    }
    return store_refuse_used_id(STORE_IMPORT, id, error);
}

static int import_add_session(void *context, const char *id, const struct store_line *line,
                              struct bl_text summary, struct bl_error *error)
{
    struct sqlite_import *import = context;
    int code = import_refuse_existing(import->link, id, error);
    if (code != 0)
        return code;
    code = sqlite_change(import->link, error,
                         "INSERT INTO session (id, created, updated, turns_total, context_from,"
                         " directory, parent, title, agent_of, agent_turn, persona)"
                         " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                         "siiuussssss", id, line->created_wall_ns, line->updated_wall_ns,
                         line->turns, line->context_from, line->directory, line->parent,
                         line->title, line->agent_of, line->agent_turn, line->persona);
    import->session = sqlite3_last_insert_rowid(import->link->db);
    if (code >= 0 && summary.size > 0)
        code = sqlite_change(import->link, error,
                             "INSERT INTO summary (session, messages) VALUES (?, ?)", "it",
                             import->session, summary);
    return code;
}

static int import_add_turn(void *context, const struct store_line *line, struct bl_text result,
                           struct bl_text messages, struct bl_text events, struct bl_error *error)
{
    const struct sqlite_import *import = context;
    const struct bl_usage *used = line->usage;
    const struct bl_spent *spent = line->spent;
    return sqlite_change(import->link, error,
                         "INSERT INTO turn (session, number, id, run, interrupted, ended, input,"
                         " output, spent_input, spent_output, cost, cost_max, cost_unknown, result,"
                         " messages, events)"
                         " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                         "iussiiuuuuddittt", import->session, line->number, line->id, line->run,
                         (int64_t)line->interrupted, line->ended_wall_ns, used->input_tokens,
                         used->output_tokens, spent->usage.input_tokens, spent->usage.output_tokens,
                         spent->cost_usd, spent->cost_usd_max, (int64_t)spent->cost_unknown, result,
                         messages, events);
}

static int import_add_attempt(void *context, const struct store_line *line, struct bl_text result,
                              struct bl_error *error)
{
    const struct sqlite_import *import = context;
    const struct bl_spent *spent = line->spent;
    return sqlite_change(
        import->link, error,
        "INSERT INTO attempt (session, id, run, state, started, ended, spent_input,"
        " spent_output, cost, cost_max, cost_unknown, receipt, prompt, result)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "isssiiuuddistj", import->session, line->id, line->run, line->state, line->started_wall_ns,
        line->ended_wall_ns, spent->usage.input_tokens, spent->usage.output_tokens, spent->cost_usd,
        spent->cost_usd_max, (int64_t)spent->cost_unknown, line->receipt, line->text, result);
}

static int import_add_beside(void *context, const char *run, struct bl_text events,
                             const char *receipt_id, struct bl_text receipt, struct bl_error *error)
{
    const struct sqlite_import *import = context;
    return sqlite_add_beside(import->link, import->session, run, events, receipt_id, receipt,
                             error);
}

static int import_add_checkpoint(void *context, const char *name, struct bl_text json,
                                 struct bl_error *error)
{
    const struct sqlite_import *import = context;
    return sqlite_change(import->link, error,
                         "INSERT INTO checkpoint (session, name, body) VALUES (?, ?, ?)", "ist",
                         import->session, name, json);
}

static int import_add_cell(void *context, const struct bl_store_cell *cell, struct bl_error *error)
{
    const struct sqlite_import *import = context;
    return sqlite_cell_add(import->link, import->session, cell, error);
}

static int import_add_value(void *context, const struct bl_store_value *value,
                            struct bl_error *error)
{
    const struct sqlite_import *import = context;
    return sqlite_cell_value_put(import->link, import->session, value, error);
}

static int import_add_tombstone(void *context, const struct bl_store_cell *cell,
                                int64_t buried_wall_ns, struct bl_error *error)
{
    const struct sqlite_import *import = context;
    return sqlite_tombstone_add(import->link, import->session, cell, buried_wall_ns, error);
}

static int import_set_totals(void *context, const struct bl_usage *usage,
                             const struct bl_spent *spent, struct bl_error *error)
{
    const struct sqlite_import *import = context;
    return sqlite_change(import->link, error,
                         "UPDATE session SET input = ?, output = ?, spent_input = ?,"
                         " spent_output = ?, cost = ?, cost_max = ?, cost_unknown = ?"
                         " WHERE key = ?",
                         "uuuuddii", usage->input_tokens, usage->output_tokens,
                         spent->usage.input_tokens, spent->usage.output_tokens, spent->cost_usd,
                         spent->cost_usd_max, (int64_t)spent->cost_unknown, import->session);
}

int sqlite_import(struct sqlite_link *link, struct store_look *look, struct bl_error *error)
{
    static const struct store_sink sink = {
        .session = import_add_session,
        .turn = import_add_turn,
        .attempt = import_add_attempt,
        .beside = import_add_beside,
        .checkpoint = import_add_checkpoint,
        .cell = import_add_cell,
        .value = import_add_value,
        .tombstone = import_add_tombstone,
        .totals = import_set_totals,
    };
    struct sqlite_import import = {.link = link};
    return store_import(look, &sink, &import, error);
}
