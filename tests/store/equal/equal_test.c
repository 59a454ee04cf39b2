/* W1: random operations give the same results in a file and in a database: codes, errors, what is
 * read, and in the end the whole contents. What a store generates is not compared: its address, new
 * ids, and the times of its writes. */
#include <stdio.h>
#include <stdlib.h>

#include "equal.h"

#define SAID_MAX   ((size_t)64 * 1024 * 1024)
#define STEP_COUNT 200

/* ---- Random ---- */

unsigned pick(struct side *side, unsigned limit)
{
    return (unsigned)bl_random_below(&side->random, limit);
}

bool chance(struct side *side, unsigned percent)
{
    return pick(side, 100) < percent;
}

const char *const equal_directories[2] = {"/home/somebody", "/srv/elsewhere"};

const char *some_session(struct side *side)
{
    static const char *const ids[] = {"alpha", "beta",   "gamma",    "delta",
                                      "alpah", "fork-1", "Not Valid"};
    unsigned made = side->made_count < MADE_MAX ? side->made_count : MADE_MAX;
    unsigned number = pick(side, 20 + made);
    if (number >= 20)
        return side->made[number - 20];
    return ids[number < 16 ? number % 4 : number < 18 ? 5 : number == 18 ? 4 : 6];
}

int some_store(struct side *side, bool near)
{
    return (int)pick(side, near ? 2 : 3);
}

struct slot *some_slot(struct side *side)
{
    unsigned first = pick(side, SLOTS);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct slot *slot = &side->slots[(first + i) % SLOTS];
        if (slot->holding.held != NULL)
            return slot;
    }
    say(side, " empty");
    return NULL;
}

void keep_made(struct side *side, const char *id)
{
    for (unsigned i = 0; i < MADE_MAX; i++) {
        if (strcmp(side->made[i], id) == 0)
            return;
    }
    if (strncmp(id, "s-", 2) == 0)
        bl_text_into(side->made[side->made_count++ % MADE_MAX], sizeof side->made[0], id);
}

/* ---- The log of a side ---- */

void say(struct side *side, const char *format, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    bl_buffer_append(
        &side->said,
        (struct bl_text){text, size < (int)sizeof text ? (size_t)size : sizeof text - 1});
}

void say_text(struct side *side, const char *name, struct bl_text text)
{
    say(side, "\n  %s: ", name);
    bl_buffer_append(&side->said, text);
}

/* Times before 2015 come from the test. */
void say_time(struct side *side, const char *name, int64_t wall_ns)
{
    if (wall_ns > INT64_C(1420000000) * (int64_t)BL_NS_PER_S)
        say(side, " %s=now", name);
    else
        say(side, " %s=%lld", name, (long long)wall_ns);
}

int say_code(struct side *side, int code, const struct bl_error *error)
{
    say(side, " %s", bl_error_name(code));
    if (code != 0)
        say(side, " kind=%s name=%s retryable=%d operation=\"%s\" message=\"%s\" hint=\"%s\"",
            bl_error_kind_name(error->kind), error->name, error->retryable, error->operation,
            error->message, error->hint);
    return code;
}

/* ---- What a store generates ---- */

struct words {
    struct bl_arena arena;
    struct bl_text names[4096];
    unsigned count;
};

static bool is_made(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
}

/* Returns the size of an id at the start of the text: a prefix and 20 characters; else 0. */
static size_t made_size(struct bl_text text)
{
    static const char *const prefixes[] = {"s-", "rcp_", "own_"};
    for (size_t i = 0; i < BL_COUNT(prefixes); i++) {
        size_t size = strlen(prefixes[i]), from = size;
        if (!bl_text_starts_with(text, bl_text_from(prefixes[i])))
            continue;
        while (size < text.size && is_made(text.data[size]))
            size++;
        if (size == from + 20)
            return size;
    }
    return 0;
}

static unsigned word_number(struct words *words, struct bl_text word)
{
    for (unsigned i = 0; i < words->count; i++) {
        if (bl_text_equal(words->names[i], word))
            return i;
    }
    if (words->count < BL_COUNT(words->names))
        words->names[words->count++] = bl_arena_text(&words->arena, word);
    return words->count - 1;
}

/* Returns the size of a time after 2015, as in a message or an export; else 0. */
static size_t time_size(struct bl_text text)
{
    char word[32] = "";
    int64_t wall_ns;
    size_t size = 0;
    if (text.size < 20 || text.data[0] != '2' || text.data[1] != '0' || text.data[4] != '-' ||
        text.data[10] != 'T')
        return 0;
    while (size < text.size && size < sizeof word - 1 && text.data[size] != 'Z')
        size++;
    if (size >= text.size || text.data[size] != 'Z')
        return 0;
    snprintf(word, sizeof word, "%.*s", (int)size + 1, text.data);
    return bl_time_parse(bl_text_from(word), &wall_ns) &&
                   wall_ns > INT64_C(1420000000) * (int64_t)BL_NS_PER_S
               ? size + 1
               : 0;
}

/* Replaces it in what a side has said since `from`. */
static void make_plain(const struct side *side, struct words *words, size_t from,
                       struct bl_buffer *out)
{
    BL_AUTO_ARENA(arena);
    struct bl_text rest = bl_buffer_text(&side->said);
    struct bl_text where = bl_text_from(bl_store_where(side->stores[0]));
    rest = (struct bl_text){rest.data + from, rest.size - from};
    while (rest.size > 0) {
        size_t size = made_size(rest), skipped = size;
        if (bl_text_starts_with(rest, where)) {
            bl_buffer_append(out, BL_TEXT("STORE"));
            skipped = where.size;
        } else if (size > 0) {
            unsigned number = word_number(words, (struct bl_text){rest.data, size});
            bl_buffer_printf(out, "<made %u>", number);
        } else if ((skipped = time_size(rest)) > 0) {
            bl_buffer_append(out, BL_TEXT("TIME"));
        } else {
            bl_buffer_append_byte(out, rest.data[0]);
            skipped = 1;
        }
        rest = (struct bl_text){rest.data + skipped, rest.size - skipped};
    }
}

/* ---- Two sides ---- */

static void open_stores(struct side *side)
{
    for (int i = 0; i < STORES; i++) {
        struct bl_error error = {0};
        setenv("BELAY_HOST", i == OTHER_HOST ? "host-b" : "host-a", 1);
        int code = i == READER ? bl_store_open_reading(side->place.where, &side->stores[i], &error)
                               : bl_store_open(side->place.where, &side->stores[i], &error);
        if (!CHECK_EQUAL(code, 0))
            fprintf(stderr, "%s\n", error.message);
    }
    unsetenv("BELAY_HOST");
}

static void let_all_go(struct side *side)
{
    for (int i = 0; i < SLOTS; i++) {
        release_feature(&side->features[i].grasp);
        if (side->slots[i].holding.held != NULL)
            release(&side->slots[i].holding);
        side->slots[i] = (struct slot){.turn = side->slots[i].turn};
        side->features[i] = (struct feature_slot){0};
    }
}

static void close_stores(struct side *side)
{
    let_all_go(side);
    for (int i = 0; i < STORES; i++)
        bl_store_close(side->stores[i]);
}

static void act_reopen(struct side *side)
{
    close_stores(side);
    open_stores(side);
}

static const struct {
    const char *name;
    unsigned weight;
    void (*run)(struct side *side);
} equal_steps[] = {
    {"hold", 16, act_hold},
    {"turn", 10, act_turn},
    {"begin", 5, act_begin},
    {"commit", 5, act_commit},
    {"reject", 4, act_reject},
    {"note", 4, act_note},
    {"compact", 4, act_compact},
    {"checkpoint", 4, act_checkpoint},
    {"renew", 2, act_renew},
    {"release", 4, act_release},
    {"steal", 4, act_steal},
    {"admit", 6, act_admit},
    {"yield", 4, act_yield},
    {"end", 7, act_end},
    {"bury", 5, act_bury},
    {"forget", 1, act_forget},
    {"cells", 3, act_cells},
    {"task begin", 4, act_task_begin},
    {"task end", 3, act_task_end},
    {"task", 4, act_task_get},
    {"hold feature", 6, act_feature_hold},
    {"write feature", 8, act_feature_write},
    {"release feature", 2, act_feature_release},
    {"steal feature", 2, act_feature_steal},
    {"load feature", 3, act_feature_load},
    {"events", 3, act_feature_events},
    {"features", 2, act_feature_list},
    {"list", 3, act_list},
    {"page", 2, act_page},
    {"show", 3, act_show},
    {"turns", 2, act_turns},
    {"find", 6, act_find},
    {"export", 3, act_export},
    {"import", 4, act_import},
    {"fork", 4, act_fork},
    {"delete", 3, act_delete},
    {"read only", 1, act_read_only},
    {"open again", 1, act_reopen},
};

static void run_step(struct side *side)
{
    unsigned total = 0, number;
    size_t i = 0;
    for (size_t j = 0; j < BL_COUNT(equal_steps); j++)
        total += equal_steps[j].weight;
    number = pick(side, total);
    while (number >= equal_steps[i].weight)
        number -= equal_steps[i++].weight;
    side->steps++;
    say(side, "%u %s", side->steps, equal_steps[i].name);
    equal_steps[i].run(side);
    say(side, "\n");
}

struct equal {
    uint64_t seed;
    unsigned steps;
    struct side sides[2];
    struct words words[2];
};

/* Compares what both have written since their last step. */
static bool say_same(struct equal *equal, const size_t *from)
{
    struct bl_buffer plain[2];
    size_t at = 0;
    for (int i = 0; i < 2; i++) {
        bl_buffer_init(&plain[i], 4 * SAID_MAX);
        make_plain(&equal->sides[i], &equal->words[i], from[i], &plain[i]);
    }
    bool same = bl_text_equal(bl_buffer_text(&plain[0]), bl_buffer_text(&plain[1]));
    if (!CHECK(same)) {
        while (at < plain[0].size && at < plain[1].size && plain[0].data[at] == plain[1].data[at])
            at++;
        size_t begin = at > 300 ? at - 300 : 0;
        fprintf(stderr, "seed %llu, step %u\n", (unsigned long long)equal->seed,
                equal->sides[0].steps);
        for (int i = 0; i < 2; i++)
            fprintf(stderr, "-- %s:\n%.*s\n", i == 0 ? "file" : "database",
                    (int)(plain[i].size - begin < 900 ? plain[i].size - begin : 900),
                    plain[i].data + begin);
    }
    for (int i = 0; i < 2; i++)
        bl_buffer_done(&plain[i]);
    return same;
}

static int run_equal(void *argument)
{
    struct equal *equal = argument;
    size_t from[2] = {0, 0};
    bool same = true;
    for (int i = 0; i < 2; i++) {
        struct side *side = &equal->sides[i];
        bl_random_seed(&side->random, equal->seed);
        bl_buffer_init(&side->said, SAID_MAX);
        bl_buffer_init(&side->exported, SAID_MAX);
        open_stores(side);
    }
    for (unsigned step = 0; step <= equal->steps && same; step++) {
        for (int i = 0; i < 2; i++) {
            struct side *side = &equal->sides[i];
            from[i] = side->said.size;
            if (step < equal->steps)
                run_step(side);
            else
                say_everything(side);
        }
        same = say_same(equal, from);
    }
    for (int i = 0; i < 2; i++) {
        close_stores(&equal->sides[i]);
        bl_buffer_done(&equal->sides[i].said);
        bl_buffer_done(&equal->sides[i].exported);
        bl_arena_done(&equal->words[i].arena);
    }
    return !same;
}

static bool run_seed(uint64_t seed, void (*make)(struct place *place))
{
    struct equal *equal = bl_zalloc(sizeof *equal);
    equal->seed = seed;
    equal->steps = STEP_COUNT;
    place_make(&equal->sides[0].place);
    make(&equal->sides[1].place);
    bool same = run_in_loop(run_equal, equal) == 0;
    place_remove(&equal->sides[1].place);
    place_remove(&equal->sides[0].place);
    bl_free(equal);
    return same;
}

static void W1_random_operations_give_the_same_on_both_forms(void **state BL_UNUSED)
{
    const char *one = getenv("BELAY_EQUAL_SEED");
    uint64_t first = one != NULL ? strtoull(one, NULL, 10) : 1;
    unsigned long seeds = one != NULL ? 1 : suite_rounds(SUITE_SANITIZED ? 6 : 30, 300);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        assert_true(run_seed(seed, place_make_database));
}

static void W7_random_operations_give_the_same_through_pgbouncer(void **state BL_UNUSED)
{
    for (uint64_t seed = 1000; seed < 1000 + suite_rounds(SUITE_SANITIZED ? 1 : 4, 50); seed++)
        assert_true(run_seed(seed, place_make_pooled));
}

SUITE(equal, cmocka_unit_test(W7_random_operations_give_the_same_through_pgbouncer),
      cmocka_unit_test(W1_random_operations_give_the_same_on_both_forms));
