/* Random holds of sessions, and turns. */
#include <stdio.h>

#include "equal.h"

#define BYTES(literal)                                                                             \
    {                                                                                              \
        literal, sizeof literal - 1                                                                \
    }

static const struct bl_text prompts[] = {
    BYTES("Do it.\nNow."),
    BYTES("Say \"hi\" to J\xc3\xb6rg, and '\\' too"),
    BYTES("not \xff\xfe text"),
    BYTES("nul\0inside"),
    BYTES(""),
    BYTES("A prompt that is much longer than a title may be, so that it has to be cut somewhere:"
          " where the limit of characters is, not of bytes \xc3\xa4\xc3\xb6\xc3\xbc."),
};

/* ---- Holding ---- */

static void say_recovery(struct side *side, const struct slot *slot)
{
    const struct bl_store_recovery *recovery = bl_store_session_recovery(slot->holding.held);
    BL_AUTO_ARENA(arena);
    say(side, " died=%d owner=\"%s\" cut=%s receipt=%s last=%s total=%llu left=%d/%u/%u/\"%s\"",
        recovery->owner_died, recovery->owner, recovery->cut_off, recovery->receipt_id,
        recovery->last_turn, (unsigned long long)recovery->turns_total,
        (int)recovery->left.mechanism, (unsigned)recovery->left.processes,
        (unsigned)recovery->left.survivors, recovery->left.unverified);
    if (recovery->owner_died)
        say_text(side, "recovery",
                 bl_store_recovery_text(&arena, slot->holding.session.id, recovery));
}

static void say_messages(struct side *side, const char *name, const struct bl_list *messages)
{
    struct bl_json_writer writer;
    BL_AUTO_BUFFER(text, (size_t)1024 * 1024);
    bl_json_writer_init(&writer, &text);
    bl_messages_write(&writer, messages);
    bl_json_writer_done(&writer);
    say_text(side, name, bl_buffer_text(&text));
}

static void say_session(struct side *side, const struct slot *slot)
{
    const struct bl_session *session = &slot->holding.session;
    say(side, " id=%s in_context=%llu total=%llu usage=%llu/%llu unknown=%d", session->id,
        (unsigned long long)session->turns_in_context, (unsigned long long)session->turns_total,
        (unsigned long long)session->usage.input_tokens,
        (unsigned long long)session->usage.output_tokens, session->unknown);
    if (session->summary != NULL)
        say_messages(side, "summary", &session->summary->messages);
    BL_LIST_EACH (link, &session->turns)
        say_messages(side, "turn", &BL_CONTAINER(link, struct bl_turn_record, link)->messages);
    for (size_t i = 0; bl_store_session_recorded(slot->holding.held, i).size > 0; i++)
        say_text(side, "recorded", bl_store_session_recorded(slot->holding.held, i));
    say_recovery(side, slot);
}

static void equal_release(struct slot *slot)
{
    release(&slot->holding);
    *slot = (struct slot){.turn = slot->turn};
}

/* Holds a session in the slot, after releasing the one that is there. */
static int hold_slot(struct side *side, struct slot *slot, int store,
                     const struct bl_store_hold_options *options)
{
    if (slot->holding.held != NULL)
        equal_release(slot);
    slot->store = store;
    int code = hold_with(&slot->holding, side->stores[store], options);
    say_code(side, code, &slot->holding.error);
    if (code == 0) {
        say_session(side, slot);
        if (options->id == NULL || strcmp(options->id, slot->holding.session.id) != 0)
            keep_made(side, slot->holding.session.id);
    } else {
        equal_release(slot);
    }
    return code;
}

void act_hold(struct side *side)
{
    static const char *const requests[] = {"req_1", "req_2", "req:3", "req_4", "not valid!"};
    char run[16];
    int store = some_store(side, false);
    struct slot *slot = &PICK_OF(side, side->slots);
    snprintf(run, sizeof run, "run_%u", pick(side, 12));
    bool near = store != OTHER_HOST;
    bool named = chance(side, 75), newest = !named && chance(side, 60) && near;
    const char *id = some_session(side);
    bool asks_again = chance(side, 30);
    const char *request = requests[pick(side, chance(side, 95) ? 4 : 5)];
    bool agent = chance(side, 15);
    const char *above = some_session(side);
    struct bl_store_hold_options options = {
        .id = named ? id : NULL,
        .newest = newest,
        .must_exist = chance(side, 25),
        .fork = (named || newest) && near && chance(side, 10),
        .directory = equal_directories[store == OTHER_HOST],
        .run_id = run,
        .request_id = asks_again ? request : NULL,
        .prompt = prompts[pick(side, asks_again ? 2 : BL_COUNT(prompts))],
        .agent_of = agent ? above : NULL,
        .agent_turn = agent ? "turn_1" : NULL,
        .persona = agent ? "explore" : NULL,
    };
    hold_slot(side, slot, store, &options);
}

void act_release(struct side *side)
{
    struct slot *slot = some_slot(side);
    if (slot != NULL)
        equal_release(slot);
}

void act_renew(struct side *side)
{
    struct slot *slot = some_slot(side);
    struct bl_error error = {0};
    /* The renewal of a lost hold may be answered without asking a database. */
    if (slot != NULL && !slot->taken)
        say_code(side, bl_store_renew(slot->holding.held, &error), &error);
}

/* Changes the holder of a session to a process from before a restart of its machine, and lets another
 * store take the session: from then on the slot's writes are those of a former holder. */
void act_steal(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct slot *slot = some_slot(side);
    int thief = some_store(side, true);
    struct slot *other = &PICK_OF(side, side->slots);
    if (slot == NULL || slot->taken || other == slot)
        return;
    const char *id = slot->holding.session.id;
    if (side->place.database[0] == '\0')
        change_file(&side->place,
                    bl_arena_printf(&arena,
                                    "UPDATE lease SET host = 'host-a', boot = 'another' WHERE"
                                    " session = (SELECT key FROM session WHERE id = '%s')",
                                    id)
                        .data);
    else
        change_file(
            &side->place,
            bl_arena_printf(&arena,
                            "INSERT INTO worker (id, host, boot, pid_space, pid, started, version)"
                            " SELECT 'gone_%u', 'host-a', 'another', pid_space, pid, started,"
                            " version FROM worker WHERE id = (SELECT owner FROM session WHERE"
                            " id = '%s'); UPDATE session SET owner = 'gone_%u', holder = 'gone_%u'"
                            " WHERE id = '%s'",
                            side->steps, id, side->steps, side->steps, id)
                .data);
    slot->taken = true;
    hold_slot(side, other, thief,
              &(struct bl_store_hold_options){.id = id,
                                              .must_exist = true,
                                              .directory = equal_directories[0],
                                              .run_id = "run_thief",
                                              .prompt = BL_TEXT("Take it.")});
}

/* ---- Turns ---- */

static void begin_next(struct side *side, struct slot *slot, bool again)
{
    struct bl_error error = {0};
    if (!again || slot->begun[0] == '\0')
        snprintf(slot->begun, sizeof slot->begun, "turn_%u_%u", (unsigned)(slot - side->slots),
                 slot->turn++ + 100 * pick(side, 2));
    const struct bl_attempt attempt = {.turn_id = bl_text_from(slot->begun),
                                       .prompt = PICK_OF(side, prompts),
                                       .started_wall_ns = 1000000000 + side->steps * 1000};
    say_code(side, slot->holding.table->begin(slot->holding.table->context, &attempt, &error),
             &error);
}

static void fill_texts(struct side *side, struct bl_arena *arena, struct bl_settlement *settlement,
                       const char *turn)
{
    static const char *const words[] = {"plain",      "J\xc3\xb6rg", "\\\"quoted\\\"",
                                        "nul\\u0000", "\\u00e4 1e3", "lone \\ud83d"};
    /* Engines commit only messages that are text. */
    const char *word = words[pick(side, 5)], *output = PICK_OF(side, words);
    settlement->messages = bl_arena_printf(
        arena,
        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Do %s.\"}]},"
        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}]",
        turn, word);
    bool stopped = chance(side, 25);
    if (stopped) {
        snprintf(settlement->receipt_id, sizeof settlement->receipt_id, "rcp_%u", side->steps);
        settlement->receipt = bl_arena_printf(arena, "{\"id\":\"rcp_%u\",\"scope\":\"run_%u\"}",
                                              side->steps, pick(side, 12));
    }
    settlement->result = bl_arena_printf(
        arena, "{\"turn_id\":\"%s\",\"prompt\":\"Do %s.\",\"output\":\"%s\",\"number\":1.50%s%.*s}",
        turn, turn, output, stopped ? ",\"receipt\":" : "", (int)settlement->receipt.size,
        stopped ? settlement->receipt.data : "");
    settlement->events = bl_arena_printf(
        arena, "{\"type\":\"usage\",\"seq\":2}\n{\"type\":\"turn_ended\",\"seq\":%u}\n",
        side->steps);
}

static void make_random_settlement(struct side *side, struct bl_arena *arena,
                                   struct bl_settlement *settlement, const char *turn)
{
    *settlement = (struct bl_settlement){
        .turn_id = bl_arena_text(arena, bl_text_from(turn)),
        .interrupted = chance(side, 10),
        .usage = {pick(side, 1000), pick(side, 100)},
        .spent = {.usage = {pick(side, 1000), pick(side, 100)},
                  .cost_unknown = chance(side, 10),
                  .cost_usd = pick(side, 100) / 8.0,
                  .cost_usd_max = pick(side, 100) / 4.0},
        .ended_wall_ns = 2000000000 + side->steps * 1000,
    };
    fill_texts(side, arena, settlement, turn);
    if (chance(side, 15)) {
        settlement->turns_dropped = pick(side, 3);
        if (chance(side, 70))
            settlement->summary = make_summary(chance(side, 50) ? "up to here" : "all of it");
    }
}

static void commit_next(struct side *side, struct slot *slot)
{
    BL_AUTO_ARENA(arena);
    struct bl_error error = {0};
    struct bl_settlement settlement;
    char turn[BL_ID_SIZE];
    snprintf(turn, sizeof turn, "turn_%u_%u", (unsigned)(slot - side->slots), pick(side, 20));
    bool begun = chance(side, 90) && slot->begun[0] != '\0';
    make_random_settlement(side, &arena, &settlement, begun ? slot->begun : turn);
    if (say_code(side,
                 slot->holding.table->commit(slot->holding.table->context, &settlement, &error),
                 &error) == 0)
        slot->begun[0] = '\0';
}

void act_turn(struct side *side)
{
    struct slot *slot = some_slot(side);
    if (slot == NULL)
        return;
    begin_next(side, slot, false);
    commit_next(side, slot);
}

void act_begin(struct side *side)
{
    struct slot *slot = some_slot(side);
    if (slot != NULL)
        begin_next(side, slot, chance(side, 20));
}

void act_commit(struct side *side)
{
    struct slot *slot = some_slot(side);
    if (slot != NULL)
        commit_next(side, slot);
}

void act_reject(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct slot *slot = some_slot(side);
    struct bl_error error = {0};
    struct bl_settlement settlement;
    char turn[BL_ID_SIZE];
    if (slot == NULL)
        return;
    snprintf(turn, sizeof turn, "turn_%u_%u", (unsigned)(slot - side->slots), pick(side, 20));
    bool begun = chance(side, 70) && slot->begun[0] != '\0';
    make_random_settlement(side, &arena, &settlement, begun ? slot->begun : turn);
    settlement.messages = (struct bl_text){0};
    settlement.usage = (struct bl_usage){0};
    if (chance(side, 10))
        settlement.result = (struct bl_text){0};
    say_code(side, slot->holding.table->reject(slot->holding.table->context, &settlement, &error),
             &error);
    slot->begun[0] = '\0';
}

void act_note(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct slot *slot = some_slot(side);
    struct bl_error error = {0};
    if (slot == NULL)
        return;
    struct bl_text events = {0}, receipt = {0};
    if (chance(side, 70))
        events = bl_arena_printf(&arena, "{\"type\":\"note\",\"seq\":%u}\n", side->steps);
    const char *id = bl_arena_printf(&arena, "rcp_%u", pick(side, 50)).data;
    if (chance(side, 50))
        receipt =
            bl_arena_printf(&arena, "{\"id\":\"%s\",\"scope\":\"run_%u\"}", id, pick(side, 12));
    say_code(side,
             slot->holding.table->note(slot->holding.table->context, events,
                                       receipt.size > 0 ? id : NULL, receipt, &error),
             &error);
}

void act_compact(struct side *side)
{
    struct slot *slot = some_slot(side);
    if (slot == NULL)
        return;
    unsigned dropped = pick(side, 4);
    const char *summary = chance(side, 80) ? "what was before" : NULL;
    say_code(side, compact_session(&slot->holding, dropped, summary), &slot->holding.error);
}

void act_checkpoint(struct side *side)
{
    static const char *const names[] = {"plan", "J\xc3\xb6rg's", ""};
    static const char *const bodies[] = {" {\"a\": [1.50, 1e3]} ", "\"text\"", "{broken", "",
                                         "\"nul\\u0000\""};
    BL_AUTO_ARENA(arena);
    struct slot *slot = some_slot(side);
    struct bl_error error = {0}, missing = {0};
    struct bl_text json = {0};
    const char *name = PICK_OF(side, names), *body = PICK_OF(side, bodies);
    int store = some_store(side, false);
    const char *session = some_session(side);
    if (slot != NULL)
        say_code(side,
                 bl_store_checkpoint_put(slot->holding.held, name, bl_text_from(body), &error),
                 &error);
    if (say_code(side,
                 bl_store_checkpoint_get(side->stores[store], &arena,
                                         slot != NULL ? slot->holding.session.id : session, name,
                                         &json, &missing),
                 &missing) == 0)
        say_text(side, "json", json);
}
