/* Random cells of held sessions, and tasks. */
#include <stdio.h>

#include "equal.h"

/* ---- Cells ---- */

static const char *const cell_ids[] = {"c-1", "c-2", "c-3", "c-4", "c-5"};

static struct bl_store_cell random_cell(struct side *side, struct bl_arena *arena)
{
    const char *id = PICK_OF(side, cell_ids);
    uint64_t generation = 1 + pick(side, 3);
    char *digest = bl_arena_alloc(arena, 32);
    memset(digest, 'a' + (int)pick(side, 2), 32);
    return (struct bl_store_cell){
        .id = bl_text_from(id),
        .digest = {digest, 32},
        .created_wall_ns = 1000000000 + side->steps * 1000,
        .deadline_ms = 1000 + pick(side, 2),
        .pid = pick(side, 2) * 4711,
        .pid_started = 99,
        .yielded_generation = generation - 1,
        .yielded = generation == 1
                       ? (struct bl_text){0}
                       : bl_arena_printf(arena, "{\"type\":\"yielded\",\"cell_id\":\"%s\"}", id),
        .generation = generation,
        .terminal =
            bl_arena_printf(arena, "{\"type\":\"%s\",\"cell_id\":\"%s\",\"text\":\"lone \\ud83d\"}",
                            chance(side, 70) ? "completed" : "terminated", id),
        .completed = chance(side, 70),
        .ended_wall_ns = 2000000000 + side->steps * 1000,
    };
}

void act_admit(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct slot *slot = some_slot(side);
    struct bl_error error = {0}, unknown = {0};
    struct bl_store_cell cell = random_cell(side, &arena);
    if (slot == NULL)
        return;
    say_code(side, bl_store_cell_admit(slot->holding.held, &cell, &error), &error);
    if (chance(side, 40)) {
        int code = bl_store_cell_started(slot->holding.held, bl_text_from(PICK_OF(side, cell_ids)),
                                         4000 + pick(side, 9), 77, &unknown);
        say_code(side, code, &unknown);
    }
}

void act_yield(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct slot *slot = some_slot(side);
    struct bl_error error = {0};
    struct bl_store_cell cell = random_cell(side, &arena);
    if (slot != NULL)
        say_code(side, bl_store_cell_yield(slot->holding.held, &cell, &error), &error);
}

static void end_random(struct side *side, struct slot *slot, const struct bl_store_cell *cell,
                       const struct bl_list *values, bool receipt)
{
    BL_AUTO_ARENA(arena);
    struct bl_error error = {0};
    const char *id = bl_arena_printf(&arena, "rcp_c%u", pick(side, 9)).data;
    struct bl_text body = {0};
    if (receipt)
        body = bl_arena_printf(&arena, "{\"id\":\"%s\",\"scope\":\"%s\"}", id, cell->id.data);
    say_code(side,
             bl_store_cell_end(slot->holding.held, cell, values, receipt ? id : NULL, body, &error),
             &error);
}

void act_end(struct side *side)
{
    static const char *const keys[] = {"k", "J\xc3\xb6rg", "", "k2"};
    static const char *const bodies[] = {"1", "[1.50,\"\\ud83d\"]", "", "{\"a\":\"\\u0000\"}"};
    BL_AUTO_ARENA(arena);
    struct slot *slot = some_slot(side);
    struct bl_store_cell cell = random_cell(side, &arena);
    struct bl_store_value values[3];
    struct bl_list list;
    bl_list_init(&list);
    unsigned count = pick(side, 4);
    for (unsigned i = 0; i < count; i++) {
        values[i].key = bl_text_from(PICK_OF(side, keys));
        values[i].json = bl_text_from(PICK_OF(side, bodies));
        bl_list_push_back(&list, &values[i].link);
    }
    bool receipt = chance(side, 40), again = chance(side, 15);
    if (slot == NULL)
        return;
    end_random(side, slot, &cell, &list, receipt);
    if (again) {
        /* The same end once more, or one that differs. */
        cell.completed = chance(side, 50) ? cell.completed : !cell.completed;
        end_random(side, slot, &cell, &list, receipt);
    }
}

void act_bury(struct side *side)
{
    struct slot *slot = some_slot(side);
    struct bl_error error = {0}, buried_error = {0};
    struct bl_text id = bl_text_from(PICK_OF(side, cell_ids));
    bool buried = false;
    int64_t wall_ns = 3000000000 + (int64_t)side->steps * (chance(side, 80) ? 1000 : 100000000000);
    unsigned most = 1 + pick(side, 6);
    if (slot == NULL)
        return;
    say_code(side, bl_store_cell_bury(slot->holding.held, id, wall_ns, most, CELL_DAY_NS, &error),
             &error);
    say_code(side, bl_store_cell_buried(slot->holding.held, id, &buried, &buried_error),
             &buried_error);
    say(side, " buried=%d", buried);
}

void act_forget(struct side *side)
{
    struct slot *slot = some_slot(side);
    struct bl_error error = {0};
    if (slot != NULL && chance(side, 40))
        say_code(side, bl_store_cells_forget(slot->holding.held, &error), &error);
}

static void say_cell(struct side *side, const struct bl_store_cell *cell)
{
    say_text(side, "cell", cell->id);
    say_text(side, "digest", cell->digest);
    say(side, " %lld %lld pid %lld %lld yielded %llu of %llu completed %d ended %lld",
        (long long)cell->created_wall_ns, (long long)cell->deadline_ms, (long long)cell->pid,
        (long long)cell->pid_started, (unsigned long long)cell->yielded_generation,
        (unsigned long long)cell->generation, cell->completed, (long long)cell->ended_wall_ns);
    say_text(side, "outcome", cell->yielded);
    say_text(side, "terminal", cell->terminal);
}

void act_cells(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct slot *slot = some_slot(side);
    struct bl_error error = {0};
    struct bl_list cells, values;
    if (slot == NULL ||
        say_code(side, bl_store_cells_load(slot->holding.held, &arena, &cells, &values, &error),
                 &error) != 0)
        return;
    BL_LIST_EACH (link, &cells)
        say_cell(side, BL_CONTAINER(link, struct bl_store_cell, link));
    BL_LIST_EACH (link, &values) {
        const struct bl_store_value *value = BL_CONTAINER(link, struct bl_store_value, link);
        say_text(side, "key", value->key);
        say_text(side, "value", value->json);
    }
}

/* ---- Tasks ---- */

/* Only stores of one host are used here: of an owner on another host, a file assumes that it is
 * alive, and a database knows. */

static const char *const task_ids[] = {"task_1", "task_2", "task_3", "J\xc3\xb6rg", ""};

void act_task_begin(struct side *side)
{
    struct bl_error error = {0};
    int store = some_store(side, true);
    bool of_session = chance(side, 50);
    const char *session = some_session(side);
    const struct bl_store_task task = {
        .id = PICK_OF(side, task_ids),
        .kind = chance(side, 95) ? "run" : NULL,
        .session = of_session ? session : NULL,
        .created_wall_ns = chance(side, 50) ? 1000000000 + side->steps * 1000 : 0,
    };
    say_code(side, bl_store_task_begin(side->stores[store], &task, &error), &error);
}

void act_task_end(struct side *side)
{
    static const char *const ends[] = {"completed", "failed", "cancelled", "working"};
    struct bl_error error = {0};
    int store = some_store(side, true);
    bool expired = chance(side, 30);
    const struct bl_store_task task = {
        .id = PICK_OF(side, task_ids),
        .status = PICK_OF(side, ends),
        .result = chance(side, 60) ? BL_TEXT("{\"n\":1.50}") : (struct bl_text){0},
        .receipt = chance(side, 30) ? BL_TEXT("{\"id\":\"rcp_t\"}") : (struct bl_text){0},
        .ended_wall_ns = chance(side, 50) ? 2000000000 : 0,
        .expires_wall_ns = expired ? 2000000001 : 0,
    };
    say_code(side, bl_store_task_end(side->stores[store], &task, &error), &error);
}

void act_task_get(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct bl_error error = {0};
    struct bl_store_task task = {0};
    int store = chance(side, 80) ? some_store(side, true) : READER;
    const char *id = PICK_OF(side, task_ids);
    if (say_code(side, bl_store_task_get(side->stores[store], &arena, id, &task, &error), &error) !=
        0)
        return;
    say(side, " id=%s kind=%s session=%s status=%s alive=%d", task.id, task.kind,
        task.session != NULL ? task.session : "-", task.status, task.owner_alive);
    say_time(side, "created", task.created_wall_ns);
    say_time(side, "ended", task.ended_wall_ns);
    say_time(side, "expires", task.expires_wall_ns);
    say_text(side, "result", task.result);
    say_text(side, "receipt", task.receipt);
}
