/* Design notes.
 *
 * Entries are in an array in the order of insertion. Slots are an open-addressing index into it, at
 * most half full, with linear probing. A removed entry keeps its slot and its place as a tombstone.
 * Only a full array is rebuilt: then removed entries are dropped, and the array gets the size that
 * fits the rest. So a removal never moves an entry, and a loop may remove the current one. */
#include <belay/base.h>

#define CAPACITY_MIN 8u
#define CAPACITY_MAX (1u << 30)

void bl_map_init(struct bl_map *map)
{
    *map = (struct bl_map){0};
}

void bl_map_done(struct bl_map *map)
{
    for (uint32_t i = 0; i < map->used; i++)
        bl_free((char *)map->entries[i].key.data);
    bl_free(map->entries);
    bl_free(map->slots);
    *map = (struct bl_map){0};
}

static uint64_t map_rotate_left(uint64_t value, unsigned count)
{
    return value << count | value >> (64 - count);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = map_rotate_left(v[1], 13) ^ v[0];
    v[3] = map_rotate_left(v[3], 16) ^ v[2];
    v[0] = map_rotate_left(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = map_rotate_left(v[1], 17) ^ v[2];
    v[3] = map_rotate_left(v[3], 21) ^ v[0];
    v[2] = map_rotate_left(v[2], 32);
}

static inline uint64_t load_little_endian(const char *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

uint64_t bl_hash(const uint64_t key[2], struct bl_text text)
{
    uint64_t v[4] = {
        key[0] ^ 0x736F6D6570736575ull,
        key[1] ^ 0x646F72616E646F6Dull,
        key[0] ^ 0x6C7967656E657261ull,
        key[1] ^ 0x7465646279746573ull,
    };
    size_t whole = text.size & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        uint64_t word = load_little_endian(text.data + i);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }

    uint64_t last = (uint64_t)text.size << 56;
    for (size_t i = whole; i < text.size; i++)
        last |= (uint64_t)(unsigned char)text.data[i] << 8 * (i - whole);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;

    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Returns the live entry for `key`, or NULL. */
static struct bl_map_entry *map_find(const struct bl_map *map, struct bl_text key, uint64_t hash)
{
    uint32_t mask = map->slot_count - 1;
    for (uint32_t i = (uint32_t)hash & mask; map->slots[i] != 0; i = (i + 1) & mask) {
        struct bl_map_entry *entry = &map->entries[map->slots[i] - 1];
        if (entry->hash == hash && entry->key.data != NULL && bl_text_equal(entry->key, key))
            return entry;
    }
    return NULL;
}

static struct bl_map_entry *lookup(const struct bl_map *map, struct bl_text key)
{
    return map->count == 0 ? NULL : map_find(map, key, bl_hash(map->key, key));
}

void *bl_map_get(const struct bl_map *map, struct bl_text key)
{
    const struct bl_map_entry *entry = lookup(map, key);
    return entry == NULL ? NULL : entry->value;
}

bool bl_map_has(const struct bl_map *map, struct bl_text key)
{
    return lookup(map, key) != NULL;
}

/* Points a free slot at entry `index`. */
static void index_entry(struct bl_map *map, uint32_t index)
{
    uint32_t mask = map->slot_count - 1;
    uint32_t i = (uint32_t)map->entries[index].hash & mask;
    while (map->slots[i] != 0)
        i = (i + 1) & mask;
    map->slots[i] = index + 1;
}

/* Makes room for another entry: drops removed ones and leaves at least a third of the array free,
 * so that the cost of rebuilding is spread over many insertions. */
static void map_rebuild(struct bl_map *map)
{
    uint32_t capacity = CAPACITY_MIN;
    while (capacity <= map->count + map->count / 2)
        capacity *= 2;
    if (capacity > CAPACITY_MAX)
        bl_out_of_memory((size_t)capacity * sizeof *map->entries);

    uint32_t used = 0;
    for (uint32_t i = 0; i < map->used; i++) {
        if (map->entries[i].key.data != NULL)
            map->entries[used++] = map->entries[i];
    }
    map->entries = bl_realloc(map->entries, capacity * sizeof *map->entries);
    map->used = used;
    map->capacity = capacity;

    bl_free(map->slots);
    map->slot_count = capacity * 2;
    map->slots = bl_zalloc(map->slot_count * sizeof *map->slots);
    for (uint32_t i = 0; i < used; i++)
        index_entry(map, i);
}

void bl_map_set(struct bl_map *map, struct bl_text key, void *value, void **ret_old)
{
    /* The hash key is drawn with the first entry, so that empty maps cost no system call. */
    if (map->slot_count == 0)
        bl_random_bytes(map->key, sizeof map->key);

    uint64_t hash = bl_hash(map->key, key);
    struct bl_map_entry *entry = map->count == 0 ? NULL : map_find(map, key, hash);
    if (ret_old != NULL)
        *ret_old = entry == NULL ? NULL : entry->value;
    if (entry != NULL) {
        entry->value = value;
        return;
    }

    if (key.size >= PTRDIFF_MAX)
        bl_out_of_memory(key.size);
    char *copy = bl_alloc(key.size + 1);
    if (key.size > 0)
        memcpy(copy, key.data, key.size);
    copy[key.size] = '\0';
    if (map->used == map->capacity)
        map_rebuild(map);
    map->entries[map->used] = (struct bl_map_entry){{copy, key.size}, value, hash};
    index_entry(map, map->used);
    map->used++;
    map->count++;
}

/* `key` may be the entry's own key. */
void *bl_map_remove(struct bl_map *map, struct bl_text key)
{
    struct bl_map_entry *entry = lookup(map, key);
    if (entry == NULL)
        return NULL;
    void *value = entry->value;
    bl_free((char *)entry->key.data);
    entry->key = (struct bl_text){0};
    entry->value = NULL;
    map->count--;
    return value;
}

struct bl_map_entry *bl_map_next(const struct bl_map *map, uint32_t *position)
{
    while (*position < map->used) {
        struct bl_map_entry *entry = &map->entries[(*position)++];
        if (entry->key.data != NULL)
            return entry;
    }
    return NULL;
}
