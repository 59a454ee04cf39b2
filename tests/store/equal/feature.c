/* Random features: held, written and read. In a database a feature belongs to the host that holds
 * it, so only stores of one host take part. */
#include <stdio.h>

#include "equal.h"

static const char *const repositories[] = {"/home/a", "/home/b"};
static const char *const feature_ids[] = {"FEAT-A", "FEAT-B", "FEAT-AA"};
static const char *const record_names[] = {"feature", "task/TASK-1", "task/TASK-2",
                                           "task/J\xc3\xb6rg", "note"};

static void say_owner(struct side *side, const struct bl_store_owner *owner)
{
    say(side, " life=%d pid=%lld started=%lld text=\"%s\" left=%d/%u/%u/\"%s\"", (int)owner->life,
        (long long)owner->pid, (long long)owner->pid_started, owner->text,
        (int)owner->left.mechanism, (unsigned)owner->left.processes,
        (unsigned)owner->left.survivors, owner->left.unverified);
}

static void equal_loosen(struct feature_slot *slot)
{
    release_feature(&slot->grasp);
    *slot = (struct feature_slot){0};
}

static struct feature_slot *some_feature_slot(struct side *side)
{
    unsigned first = pick(side, SLOTS);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct feature_slot *slot = &side->features[(first + i) % SLOTS];
        if (slot->grasp.held != NULL)
            return slot;
    }
    say(side, " empty");
    return NULL;
}

static void grasp_feature(struct side *side, struct feature_slot *slot, int store,
                          const struct bl_store_feature_options *options)
{
    if (slot->grasp.held != NULL)
        equal_loosen(slot);
    int code = hold_feature_with(&slot->grasp, side->stores[store], options);
    say_code(side, code, &slot->grasp.error);
    slot->store = store;
    slot->repository = options->repository;
    slot->id = options->id;
    say_owner(side, &slot->grasp.owner);
    if (code != 0)
        *slot = (struct feature_slot){0};
    else
        say(side, " epoch=%llu generation=%llu",
            (unsigned long long)bl_store_feature_epoch(slot->grasp.held),
            (unsigned long long)bl_store_feature_generation(slot->grasp.held));
}

void act_feature_hold(struct side *side)
{
    char run[16];
    struct feature_slot *slot = &PICK_OF(side, side->features);
    int store = some_store(side, true);
    snprintf(run, sizeof run, "run_%u", pick(side, 12));
    const struct bl_store_feature_options options = {
        .repository = PICK_OF(side, repositories),
        .id = feature_ids[pick(side, chance(side, 90) ? 2 : 3)],
        .name = chance(side, 50) ? "Login" : "J\xc3\xb6rg's",
        .run_id = run,
        .must_exist = chance(side, 30),
    };
    grasp_feature(side, slot, store, &options);
}

void act_feature_release(struct side *side)
{
    struct feature_slot *slot = some_feature_slot(side);
    if (slot != NULL)
        equal_loosen(slot);
}

/* As act_steal. */
void act_feature_steal(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct feature_slot *slot = some_feature_slot(side);
    struct feature_slot *other = &PICK_OF(side, side->features);
    int thief = some_store(side, true);
    if (slot == NULL || slot->taken || slot == other)
        return;
    if (side->place.database[0] == '\0')
        change_file(&side->place,
                    bl_arena_printf(&arena,
                                    "UPDATE feature_lease SET boot = 'another' WHERE feature ="
                                    " (SELECT key FROM feature WHERE repository = '%s' AND"
                                    " id = '%s')",
                                    slot->repository, slot->id)
                        .data);
    else
        change_file(
            &side->place,
            bl_arena_printf(
                &arena,
                "INSERT INTO worker (id, host, boot, pid_space, pid, started, version) SELECT"
                " 'gone_%u', host, 'another', pid_space, pid, started, version FROM worker WHERE"
                " id = (SELECT owner FROM feature WHERE repository = '%s' AND id = '%s');"
                " UPDATE feature SET owner = 'gone_%u', holder = 'gone_%u' WHERE"
                " repository = '%s' AND id = '%s'",
                side->steps, slot->repository, slot->id, side->steps, side->steps, slot->repository,
                slot->id)
                .data);
    slot->taken = true;
    grasp_feature(side, other, thief,
                  &(struct bl_store_feature_options){.repository = slot->repository,
                                                     .id = slot->id,
                                                     .name = "Taken",
                                                     .run_id = "run_thief"});
}

/* ---- Writes ---- */

static struct bl_text random_record(struct side *side, struct bl_arena *arena)
{
    static const char *const states[] = {"pending", "running", "approved", "failed"};
    if (chance(side, 20))
        return (struct bl_text){0};
    return bl_arena_printf(arena,
                           "{\"run_id\":\"run_%u\",\"state\":\"%s\",\"ended_at\":%s,\"n\":1.50%s}",
                           pick(side, 12), PICK_OF(side, states),
                           chance(side, 50) ? "null" : "\"2001-01-01T00:00:00Z\"",
                           chance(side, 20) ? ",\"receipt\":{\"id\":\"rcp_f\"}" : "");
}

void act_feature_write(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct bl_row rows[3];
    struct bl_text events[2];
    struct bl_list list;
    struct bl_error error = {0};
    struct feature_slot *slot = some_feature_slot(side);
    unsigned count = pick(side, 4);
    bl_list_init(&list);
    for (unsigned i = 0; i < count; i++) {
        rows[i].name = PICK_OF(side, record_names);
        rows[i].json = random_record(side, &arena);
        bl_list_push_back(&list, &rows[i].link);
    }
    for (unsigned i = 0; i < BL_COUNT(events); i++)
        events[i] = bl_arena_printf(&arena, "{\"step\":%u,\"n\":%u}", side->steps, i);
    const struct bl_store_feature_write write = {
        .records = count == 0 && chance(side, 50) ? NULL : &list,
        .events = events,
        .event_count = pick(side, 3),
        .new_generation = chance(side, 10),
        .durable = chance(side, 50),
    };
    bool renews = count == 0 && write.event_count == 0 && !write.new_generation;
    if (slot == NULL || (slot->taken && renews))
        return;
    say_code(side, bl_store_feature_write(slot->grasp.held, &write, &error), &error);
    say(side, " generation=%llu",
        (unsigned long long)bl_store_feature_generation(slot->grasp.held));
}

/* ---- Reading ---- */

static void say_rows(struct side *side, const struct bl_list *rows)
{
    BL_LIST_EACH (link, rows) {
        const struct bl_row *row = BL_CONTAINER(link, struct bl_row, link);
        say_text(side, row->name, row->json);
    }
}

static void say_feature(struct side *side, int store, const char *repository, const char *id,
                        const char *prefix)
{
    BL_AUTO_ARENA(arena);
    struct bl_list rows;
    struct bl_error error = {0};
    struct bl_store_owner owner = {0};
    uint64_t generation = 0;
    bl_list_init(&rows);
    say(side, "\n  feature %s %s", repository, id);
    if (say_code(side,
                 bl_store_feature_load(side->stores[store], &arena, repository, id, prefix, &rows,
                                       &owner, &generation, &error),
                 &error) != 0)
        return;
    say(side, " generation=%llu", (unsigned long long)generation);
    say_owner(side, &owner);
    say_rows(side, &rows);
}

void act_feature_load(struct side *side)
{
    static const char *const prefixes[] = {NULL, "", "task/", "none"};
    int store = some_store(side, true);
    const char *repository = PICK_OF(side, repositories), *id = PICK_OF(side, feature_ids);
    say_feature(side, store, repository, id, PICK_OF(side, prefixes));
}

void act_feature_events(struct side *side)
{
    BL_AUTO_ARENA(arena);
    struct bl_list rows;
    struct bl_error error = {0};
    int store = some_store(side, true);
    const char *repository = PICK_OF(side, repositories), *id = PICK_OF(side, feature_ids);
    unsigned after = chance(side, 50) ? 0 : pick(side, 20), limit = pick(side, 3);
    bl_list_init(&rows);
    if (say_code(side,
                 bl_store_feature_events(side->stores[store], &arena, repository, id, after, limit,
                                         &rows, &error),
                 &error) == 0)
        say_rows(side, &rows);
}

static void say_features(struct side *side, int store, const char *repository)
{
    BL_AUTO_ARENA(arena);
    struct bl_list summaries;
    struct bl_error error = {0};
    bl_list_init(&summaries);
    if (say_code(side,
                 bl_store_feature_list(side->stores[store], &arena, repository, &summaries, &error),
                 &error) != 0)
        return;
    BL_LIST_EACH (link, &summaries) {
        const struct bl_store_feature_summary *each =
            BL_CONTAINER(link, struct bl_store_feature_summary, link);
        say(side, "\n  %s %s \"%s\"", each->repository, each->id, each->name);
        say_time(side, "created", each->created_wall_ns);
        say_time(side, "updated", each->updated_wall_ns);
        say_owner(side, &each->owner);
        say_text(side, "record", each->record);
    }
}

void act_feature_list(struct side *side)
{
    int store = some_store(side, true);
    const char *repository = PICK_OF(side, repositories);
    say_features(side, store, chance(side, 50) ? NULL : repository);
}

void say_all_features(struct side *side)
{
    say_features(side, 0, NULL);
    for (size_t i = 0; i < BL_COUNT(repositories); i++) {
        for (size_t j = 0; j < BL_COUNT(feature_ids); j++)
            say_feature(side, 0, repositories[i], feature_ids[j], NULL);
    }
}
