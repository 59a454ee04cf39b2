/* Random reads, and sessions that are moved. */
#include <stdio.h>

#include "equal.h"

static const char *or_none(const char *text)
{
    return text != NULL ? text : "-";
}

static void say_summary(struct side *side, const struct bl_store_summary *summary)
{
    say(side, "\n  %s %s \"%s\" of %s agent %s %s %s", summary->id, summary->directory,
        summary->title, or_none(summary->parent), or_none(summary->agent_of),
        or_none(summary->agent_turn), or_none(summary->persona));
    say_time(side, "created", summary->created_wall_ns);
    say_time(side, "updated", summary->updated_wall_ns);
    say(side, " turns=%llu attempts=%llu usage=%llu/%llu spent=%llu/%llu/%d/%f/%f by=%s",
        (unsigned long long)summary->turns, (unsigned long long)summary->attempts,
        (unsigned long long)summary->usage.input_tokens,
        (unsigned long long)summary->usage.output_tokens,
        (unsigned long long)summary->spent.usage.input_tokens,
        (unsigned long long)summary->spent.usage.output_tokens, summary->spent.cost_unknown,
        summary->spent.cost_usd, summary->spent.cost_usd_max, or_none(summary->held_by));
}

static void say_list(struct side *side, const struct bl_list *summaries)
{
    BL_LIST_EACH (link, summaries)
        say_summary(side, BL_CONTAINER(link, struct bl_store_summary, link));
}

void act_list(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct bl_list summaries;
    struct bl_error error = {0};
    struct bl_store_summary summary = {0};
    int store = (int)pick(side, STORES);
    /* In a database, a list has only the directories of its own host. */
    const char *directory = equal_directories[0];
    bool all = chance(side, 60) || store == OTHER_HOST, agents = chance(side, 50);
    unsigned limit = pick(side, 4);
    bl_list_init(&summaries);
    say(side, " store %d, %s, %u, %d:", store, all ? "all" : directory, limit, agents);
    if (say_code(side,
                 bl_store_list(side->stores[store], &arena, all ? NULL : directory, limit, agents,
                               &summaries, &error),
                 &error) == 0)
        say_list(side, &summaries);
    error = (struct bl_error){0};
    if (say_code(
            side,
            bl_store_summary(side->stores[store], &arena, some_session(side), &summary, &error),
            &error) == 0)
        say_summary(side, &summary);
}

/* Walks through the pages of the list. */
void act_page(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct bl_store_list_options options = {.limit = 1 + pick(side, 3), .agents = chance(side, 50)};
    int store = (int)pick(side, STORES);
    for (int page = 0; page < 20; page++) {
        struct bl_list summaries;
        struct bl_error error = {0};
        bl_list_init(&summaries);
        if (say_code(side,
                     bl_store_list_page(side->stores[store], &arena, &options, &summaries, &error),
                     &error) != 0 ||
            bl_list_empty(&summaries))
            return;
        say_list(side, &summaries);
        const struct bl_store_summary *last =
            BL_CONTAINER(summaries.previous, struct bl_store_summary, link);
        options.after_id = last->id;
        options.after_updated_wall_ns = last->updated_wall_ns;
    }
}

static void say_view(struct side *side, int store, const char *id)
{
    BL_AUTO_ARENA(arena);
    struct bl_store_session_view view = {0};
    struct bl_error error = {0};
    if (say_code(side, bl_store_show(side->stores[store], &arena, id, &view, &error), &error) != 0)
        return;
    say_summary(side, &view.summary);
    for (size_t i = 0; i < view.turn_count; i++)
        say_text(side, "turn", view.turns[i]);
    for (size_t i = 0; i < view.attempt_count; i++)
        say_text(side, "attempt", view.attempts[i]);
    for (size_t i = 0; i < view.receipt_count; i++)
        say_text(side, "receipt", view.receipts[i]);
}

void act_show(struct side *side)
{
    int store = (int)pick(side, STORES);
    say_view(side, store, some_session(side));
}

void act_turns(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct bl_list turns;
    struct bl_error error = {0};
    int store = (int)pick(side, STORES);
    bl_list_init(&turns);
    if (say_code(side,
                 bl_store_turns(side->stores[store], &arena, some_session(side), &turns, &error),
                 &error) != 0)
        return;
    BL_LIST_EACH (link, &turns) {
        const struct bl_store_turn *turn = BL_CONTAINER(link, struct bl_store_turn, link);
        say_text(side, turn->interrupted ? "interrupted" : "turn", turn->id);
        say_text(side, "messages", turn->messages);
    }
}

/* ---- Find ---- */

static const char *some_id(struct side *side, struct bl_arena *arena)
{
    static const char *const ids[] = {"FEAT-A",
                                      "FEAT-B",
                                      "TASK-1",
                                      "FEAT-A/TASK-1",
                                      "/home/a/FEAT-A",
                                      "/home/b/FEAT-A/TASK-2",
                                      "c-1",
                                      "c-2",
                                      "rcp_f",
                                      "rcp_turn",
                                      "run_thief",
                                      "none",
                                      "",
                                      "a/b/c",
                                      "J\xc3\xb6rg"};
    const char *session = some_session(side);
    unsigned number = pick(side, 12);
    switch (pick(side, 7)) {
    case 0: return session;
    case 1: return bl_arena_printf(arena, "run_%u", number).data;
    case 2: return bl_arena_printf(arena, "turn_%u_%u", number % SLOTS, pick(side, 10)).data;
    case 3: return bl_arena_printf(arena, "rcp_%u", pick(side, side->steps + 1)).data;
    case 4: return bl_arena_printf(arena, "%s/c-%u", session, 1 + number % 5).data;
    case 5: return bl_arena_printf(arena, "rcp_c%u", number).data;
    default: return PICK_OF(side, ids);
    }
}

void act_find(struct side *side)
{
    BL_AUTO_ARENA(arena);
    int store = some_store(side, true);
    for (int i = 0; i < 3; i++) {
        const char *id = some_id(side, &arena);
        struct bl_store_work work = {0};
        struct bl_error error = {0};
        say(side, "\n  %s", id);
        if (say_code(side, bl_store_find(side->stores[store], &arena, id, &work, &error), &error) !=
            0)
            continue;
        say(side, " %s id=%s session=%s ended=%d", work.kind, work.id, or_none(work.session),
            work.ended);
        say_text(side, "result", work.result);
        say_text(side, "receipt", work.receipt);
    }
}

/* ---- Moving ---- */

static void export_one(struct side *side, int store, const char *id)
{
    struct bl_buffer out;
    struct bl_error error = {0};
    if (say_code(side, export_to(side->stores[store], id, &out, &error), &error) == 0) {
        say_text(side, "lines", bl_buffer_text(&out));
        bl_buffer_done(&side->exported);
        side->exported = out;
    } else {
        bl_buffer_done(&out);
    }
}

void act_export(struct side *side)
{
    int store = (int)pick(side, STORES);
    export_one(side, store, some_session(side));
}

void act_import(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct bl_error error = {0};
    const char *made = NULL, *id = some_session(side);
    int store = some_store(side, true);
    bool renamed = chance(side, 70), cut = chance(side, 10);
    struct bl_text lines = bl_buffer_text(&side->exported);
    unsigned where = pick(side, 1000);
    /* An incomplete or damaged export is refused. */
    if (cut)
        lines = bl_arena_text(&arena, (struct bl_text){lines.data, lines.size * where / 1000});
    if (cut && lines.size > 0 && chance(side, 50))
        ((char *)(uintptr_t)lines.data)[lines.size / 2] = 'x';
    int code =
        bl_store_import(side->stores[store], lines, renamed ? id : NULL, &arena, &made, &error);
    /* The message may quote a part of a time. */
    if (cut)
        say(side, " cut: %s", bl_error_name(code));
    else
        say_code(side, code, &error);
    if (code == 0)
        say(side, " made=%s", made);
}

void act_fork(struct side *side)
{
    static const char *const new_ids[] = {"fork-1", "fork-2", "alpha", "Not Valid"};
    BL_AUTO_ARENA(arena);
    struct bl_error error = {0};
    const char *made = NULL, *id = some_session(side), *new_id = PICK_OF(side, new_ids);
    int store = some_store(side, true);
    bool named = chance(side, 60);
    if (say_code(
            side,
            bl_store_fork(side->stores[store], id, named ? new_id : NULL, &arena, &made, &error),
            &error) == 0) {
        say(side, " made=%s", made);
        if (!named)
            keep_made(side, made);
    }
}

void act_delete(struct side *side)
{
    struct bl_error error = {0};
    int store = some_store(side, false);
    say_code(side, bl_store_delete(side->stores[store], some_session(side), &error), &error);
}

void act_read_only(struct side *side)
{
    struct holding holding;
    say_code(side, hold(&holding, side->stores[READER], "alpha"), &holding.error);
    release(&holding);
}

void say_everything(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct bl_list summaries;
    bl_list_init(&summaries);
    CHECK_EQUAL(bl_store_list(side->stores[READER], &arena, NULL, 0, true, &summaries, NULL), 0);
    say_list(side, &summaries);
    BL_LIST_EACH (link, &summaries) {
        const char *id = BL_CONTAINER(link, struct bl_store_summary, link)->id;
        say_view(side, READER, id);
        export_one(side, 0, id);
    }
    say_all_features(side);
}
