#include "suite.h"

#include <stdio.h>

static struct bl_text number_key(char out[32], unsigned long number)
{
    int length = snprintf(out, 32, "key-%lu", number);
    return (struct bl_text){out, (size_t)length};
}

static void an_empty_map_holds_nothing(void **state BL_UNUSED)
{
    struct bl_map map;
    bl_map_init(&map);
    assert_null(bl_map_get(&map, BL_TEXT("a")));
    assert_false(bl_map_has(&map, (struct bl_text){0}));
    assert_null(bl_map_remove(&map, BL_TEXT("a")));
    BL_MAP_EACH (entry, &map)
        fail_msg("found %s", entry->key.data);
    bl_map_done(&map);
}

static void values_are_set_replaced_and_removed(void **state BL_UNUSED)
{
    struct bl_map map;
    int one, two;
    void *old = &one;
    bl_map_init(&map);
    bl_map_set(&map, BL_TEXT("a"), &one, &old);
    assert_null(old);
    bl_map_set(&map, BL_TEXT("a"), &two, &old);
    assert_ptr_equal(old, &one);
    assert_int_equal(map.count, 1);
    assert_ptr_equal(bl_map_get(&map, BL_TEXT("a")), &two);
    assert_ptr_equal(bl_map_remove(&map, BL_TEXT("a")), &two);
    assert_null(bl_map_remove(&map, BL_TEXT("a")));
    assert_false(bl_map_has(&map, BL_TEXT("a")));
    assert_int_equal(map.count, 0);
    bl_map_set(&map, BL_TEXT("a"), &one, NULL);
    assert_ptr_equal(bl_map_get(&map, BL_TEXT("a")), &one);
    bl_map_done(&map);
    bl_map_set(&map, BL_TEXT("b"), &one, NULL);
    assert_int_equal(map.count, 1);
    bl_map_done(&map);
}

static void a_null_value_counts_as_present(void **state BL_UNUSED)
{
    struct bl_map map;
    bl_map_init(&map);
    bl_map_set(&map, BL_TEXT("a"), NULL, NULL);
    assert_true(bl_map_has(&map, BL_TEXT("a")));
    assert_null(bl_map_get(&map, BL_TEXT("a")));
    bl_map_done(&map);
}

static void keys_are_copied_bytes_with_nul_and_may_be_empty(void **state BL_UNUSED)
{
    struct bl_map map;
    int a, b, c;
    char key[] = "x\0y";
    bl_map_init(&map);
    bl_map_set(&map, (struct bl_text){key, 3}, &a, NULL);
    key[2] = 'z';
    bl_map_set(&map, (struct bl_text){key, 3}, &b, NULL);
    bl_map_set(&map, (struct bl_text){0}, &c, NULL);
    assert_int_equal(map.count, 3);
    assert_ptr_equal(bl_map_get(&map, (struct bl_text){"x\0y", 3}), &a);
    assert_ptr_equal(bl_map_get(&map, (struct bl_text){"x\0z", 3}), &b);
    assert_ptr_equal(bl_map_get(&map, BL_TEXT("")), &c);
    assert_false(bl_map_has(&map, BL_TEXT("x")));
    BL_MAP_EACH (entry, &map)
        assert_int_equal(entry->key.data[entry->key.size], '\0');
    bl_map_done(&map);
}

static void a_removed_empty_key_is_gone(void **state BL_UNUSED)
{
    struct bl_map map;
    bl_map_init(&map);
    bl_map_set(&map, BL_TEXT("other"), &map, NULL);
    bl_map_set(&map, BL_TEXT(""), &map, NULL);
    assert_ptr_equal(bl_map_remove(&map, BL_TEXT("")), &map);
    assert_false(bl_map_has(&map, BL_TEXT("")));
    assert_null(bl_map_remove(&map, BL_TEXT("")));
    assert_int_equal(map.count, 1);
    bl_map_done(&map);
}

static void iteration_follows_the_order_of_insertion(void **state BL_UNUSED)
{
    struct bl_map map;
    char key[32];
    bl_map_init(&map);
    for (unsigned long i = 0; i < 1000; i++)
        bl_map_set(&map, number_key(key, i), (void *)(uintptr_t)(i + 1), NULL);
    for (unsigned long i = 0; i < 1000; i += 3)
        bl_map_remove(&map, number_key(key, i));
    bl_map_set(&map, number_key(key, 1), (void *)(uintptr_t)2, NULL);
    bl_map_set(&map, number_key(key, 0), (void *)(uintptr_t)1, NULL);

    unsigned long expected = 1;
    BL_MAP_EACH (entry, &map) {
        uintptr_t value = (uintptr_t)entry->value;
        assert_int_equal(value, expected == 1000 ? 1 : expected + 1);
        expected += expected % 3 == 2 ? 2 : 1;
    }
    bl_map_done(&map);
}

static void the_current_entry_may_be_removed_in_a_loop(void **state BL_UNUSED)
{
    struct bl_map map;
    char key[32];
    bl_map_init(&map);
    for (unsigned long i = 0; i < 500; i++)
        bl_map_set(&map, number_key(key, i), (void *)(uintptr_t)(i + 1), NULL);
    unsigned long seen = 0;
    BL_MAP_EACH (entry, &map) {
        uintptr_t value = (uintptr_t)entry->value;
        assert_int_equal(value, ++seen);
        assert_int_equal((uintptr_t)bl_map_remove(&map, entry->key), value);
    }
    assert_int_equal(seen, 500);
    assert_int_equal(map.count, 0);
    bl_map_done(&map);
}

static void leaving_an_iteration_early_ends_it(void **state BL_UNUSED)
{
    struct bl_map map;
    bl_map_init(&map);
    bl_map_set(&map, BL_TEXT("a"), NULL, NULL);
    bl_map_set(&map, BL_TEXT("b"), NULL, NULL);
    int seen = 0;
    BL_MAP_EACH (entry, &map) {
        assert_string_equal(entry->key.data, "a");
        seen++;
        break;
    }
    assert_int_equal(seen, 1);
    bl_map_done(&map);
}

static void repeated_inserts_and_removals_do_not_grow_the_map(void **state BL_UNUSED)
{
    struct bl_map map;
    char key[32];
    bl_map_init(&map);
    for (unsigned long i = 0; i < 100000; i++) {
        bl_map_set(&map, number_key(key, i), &map, NULL);
        if (i >= 10)
            assert_ptr_equal(bl_map_remove(&map, number_key(key, i - 10)), &map);
    }
    assert_int_equal(map.count, 10);
    assert_true(map.capacity <= 32);
    bl_map_done(&map);
}

/* Dropping only the few removed entries would make little room, and the map would soon be rebuilt
 * again. */
static void a_nearly_full_map_grows_when_it_is_rebuilt(void **state BL_UNUSED)
{
    struct bl_map map;
    char key[32];
    bl_map_init(&map);
    for (unsigned long i = 0; i < 1024; i++)
        bl_map_set(&map, number_key(key, i), &map, NULL);
    assert_int_equal(map.used, map.capacity);
    bl_map_remove(&map, number_key(key, 0));
    bl_map_set(&map, number_key(key, 0), &map, NULL);
    assert_int_equal(map.capacity, 2048);
    bl_map_done(&map);
}

static void a_map_that_was_large_releases_memory_when_it_is_refilled(void **state BL_UNUSED)
{
    struct bl_map map;
    char key[32];
    bl_map_init(&map);
    for (unsigned long i = 0; i < 10000; i++)
        bl_map_set(&map, number_key(key, i), &map, NULL);
    uint32_t large = map.capacity;
    for (unsigned long i = 0; i < 10000; i++)
        bl_map_remove(&map, number_key(key, i));
    assert_int_equal(map.capacity, large);
    for (unsigned long i = 0; map.capacity == large && i <= large; i++) {
        bl_map_set(&map, number_key(key, i), &map, NULL);
        bl_map_remove(&map, number_key(key, i));
    }
    assert_true(map.capacity < large);
    bl_map_done(&map);
}

/* The simple reference map: pairs in an array, in order, with linear search. */
struct model {
    struct {
        unsigned long key;
        void *value;
    } pairs[400];
    size_t count;
};

static size_t model_find(const struct model *model, unsigned long key)
{
    size_t i = 0;
    while (i < model->count && model->pairs[i].key != key)
        i++;
    return i;
}

static void *model_remove(struct model *model, unsigned long key)
{
    size_t i = model_find(model, key);
    if (i == model->count)
        return NULL;
    void *value = model->pairs[i].value;
    memmove(&model->pairs[i], &model->pairs[i + 1], (--model->count - i) * sizeof model->pairs[0]);
    return value;
}

static void *model_set(struct model *model, unsigned long key, void *value)
{
    size_t i = model_find(model, key);
    void *old = NULL;
    if (i == model->count)
        model->pairs[model->count++].key = key;
    else
        old = model->pairs[i].value;
    model->pairs[i].value = value;
    return old;
}

static void assert_same(const struct bl_map *map, const struct model *model)
{
    char key[32];
    size_t i = 0;
    assert_int_equal(map->count, model->count);
    BL_MAP_EACH (entry, map) {
        assert_true(bl_text_equal(entry->key, number_key(key, model->pairs[i].key)));
        assert_ptr_equal(entry->value, model->pairs[i].value);
        i++;
    }
    assert_int_equal(i, model->count);
}

static void a_map_behaves_like_an_array_of_pairs(void **state BL_UNUSED)
{
    static struct model model;
    struct bl_map map;
    struct bl_random random;
    char key[32];
    bl_map_init(&map);
    bl_random_seed(&random, 3);
    for (unsigned long i = 0; i < suite_rounds(100000, 2000000); i++) {
        unsigned long number = bl_random_below(&random, 400);
        struct bl_text text = number_key(key, number);
        void *value = (void *)(uintptr_t)(i + 1), *old;
        /* The share of removals alternates, so that the map fills and empties repeatedly. */
        if (bl_random_below(&random, 100) < (i / 5000 % 2 == 0 ? 30 : 70)) {
            assert_ptr_equal(bl_map_remove(&map, text), model_remove(&model, number));
        } else {
            bl_map_set(&map, text, value, &old);
            assert_ptr_equal(old, model_set(&model, number, value));
        }
        number = bl_random_below(&random, 400);
        text = number_key(key, number);
        assert_int_equal(bl_map_has(&map, text), model_find(&model, number) < model.count);
        if (i % 500 == 0)
            assert_same(&map, &model);
    }
    assert_same(&map, &model);
    bl_map_done(&map);
}

/* Reference values: CPython 3.11 (siphash13) with a key of zero, over the bytes 0, 1, 2, …. */
static void the_hash_is_siphash_1_3(void **state BL_UNUSED)
{
    static const struct {
        size_t size;
        uint64_t hash;
    } cases[] = {
        {1, 0x68A914128E01E473},  {7, 0x2F098AB0C751325A},  {8, 0xEAD411E67EBE2EEA},
        {9, 0x75927F9D95124362},  {15, 0xF30EB725BB91C9EA}, {16, 0x8972188433A5C5B7},
        {40, 0x95BC321AB41D8206},
    };
    static const uint64_t key[2] = {0, 0};
    char bytes[40];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        assert_true(bl_hash(key, (struct bl_text){bytes, cases[i].size}) == cases[i].hash);
}

/* The first vector of the reference implementation, whose key is the bytes 0 to 15. */
static void the_hash_depends_on_its_key(void **state BL_UNUSED)
{
    static const uint64_t key[2] = {0x0706050403020100, 0x0F0E0D0C0B0A0908};
    assert_true(bl_hash(key, (struct bl_text){0}) == 0xABAC0158050FC4DC);
    struct bl_map first, second;
    bl_map_init(&first);
    bl_map_init(&second);
    bl_map_set(&first, BL_TEXT("a"), NULL, NULL);
    bl_map_set(&second, BL_TEXT("a"), NULL, NULL);
    assert_true(first.entries[0].hash != second.entries[0].hash);
    bl_map_done(&first);
    bl_map_done(&second);
}

SUITE(map, cmocka_unit_test(an_empty_map_holds_nothing),
      cmocka_unit_test(values_are_set_replaced_and_removed),
      cmocka_unit_test(a_null_value_counts_as_present),
      cmocka_unit_test(keys_are_copied_bytes_with_nul_and_may_be_empty),
      cmocka_unit_test(a_removed_empty_key_is_gone),
      cmocka_unit_test(iteration_follows_the_order_of_insertion),
      cmocka_unit_test(the_current_entry_may_be_removed_in_a_loop),
      cmocka_unit_test(leaving_an_iteration_early_ends_it),
      cmocka_unit_test(repeated_inserts_and_removals_do_not_grow_the_map),
      cmocka_unit_test(a_nearly_full_map_grows_when_it_is_rebuilt),
      cmocka_unit_test(a_map_that_was_large_releases_memory_when_it_is_refilled),
      cmocka_unit_test(a_map_behaves_like_an_array_of_pairs),
      cmocka_unit_test(the_hash_is_siphash_1_3), cmocka_unit_test(the_hash_depends_on_its_key));
