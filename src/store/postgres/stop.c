/* Stops of items and sessions, wherever they run. */
#include "postgres.h"

int pg_answer(void *context, const char *stop, const char *item, const char *fate,
              struct bl_text receipt, struct bl_error *error)
{
    struct pg_store *store = context;
    BL_AUTO_ARENA(arena);
    struct pg_call *call = pg_call_new(&arena, "select belay.answer($1, $2, $3, $4, $5)", "ssssj",
                                       store->owner, stop, item, fate, receipt);
    int code = pg_queue_ask(store, call, 0, "answer a stop", error);
    pg_call_done(call);
    return code;
}

int pg_stop(void *context, struct bl_arena *arena, const char *target, const char *part,
            const char *origin, bool now, const char **ret_stop, struct bl_error *error)
{
    struct pg_store *store = context;
    BL_AUTO_ARENA(own);
    struct pg_call *call = pg_call_new(&own, "select belay.stop($1, $2, $3, $4)", "ssso", target,
                                       part, origin, (int)now);
    int code = pg_queue_ask(store, call, 0, "stop", error);
    if (code == 0) {
        struct store_row row = pg_row(call, 0);
        if (store_row_null(&row, 0))
            code = bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "stop", target,
                                "no work with the id %.100s waits or runs", target);
        else
            *ret_stop = store_row_string(arena, &row, 0);
    }
    pg_call_done(call);
    return code;
}

int pg_stopped(void *context, struct bl_arena *arena, const char *stop, struct bl_list *ret_items,
               struct bl_error *error)
{
    struct pg_store *store = context;
    BL_AUTO_ARENA(own);
    struct pg_call *call = pg_call_new(&own, "select * from belay.stopped($1)", "s", stop);
    int code = pg_queue_ask(store, call, PG_SLOW, "read the stop", error);
    for (int i = 0; code == 0 && i < pg_rows(call); i++) {
        struct bl_fleet_stopped *stopped = bl_arena_zalloc(arena, sizeof *stopped);
        struct store_row row = pg_row(call, i);
        stopped->item = store_row_string(arena, &row, 0);
        stopped->worker = store_row_string(arena, &row, 1);
        stopped->host = store_row_string(arena, &row, 2);
        stopped->silent_ms = store_row_null(&row, 3) ? 0 : store_row_integer(&row, 3);
        stopped->fate = store_row_string(arena, &row, 4);
        stopped->fenced = store_row_flag(&row, 5);
        stopped->receipt = store_row_copy(arena, &row, 6);
        bl_list_push_back(ret_items, &stopped->link);
    }
    pg_call_done(call);
    return code;
}
