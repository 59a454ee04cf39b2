#include <belay/record.h>

#include <stdio.h>

#include "suite.h"

enum pet_kind {
    PET_CAT,
    PET_DOG,
};

static const char *const pet_names[] = {"cat", "dog"};
static const struct bl_names pet_kinds = BL_NAMES(pet_names);

enum colour {
    COLOUR_NONE,
    COLOUR_RED,
    COLOUR_BLUE,
};

static const char *const colour_names[] = {NULL, "red", "blue"};
static const struct bl_names colours = BL_NAMES(colour_names);

static bool is_lower(struct bl_text text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < 'a' || text.data[i] > 'z')
            return false;
    }
    return text.size > 0;
}

static const struct bl_form lower = {"lower-case letters", "^[a-z]+$", is_lower};

struct size {
    double width;
    uint32_t steps;
};

#define BL_RECORD_STRUCT struct size
static const struct bl_member size_members[] = {
    BL_MEMBER_NUMBER("width", width, .most = 100, .decimals = 1, .about = "In metres."),
    BL_MEMBER_INTEGER("steps", steps, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record size_record =
    BL_RECORD("size", struct size, size_members, .closed = true);

struct toy {
    struct bl_list link;
    char name[8];
};

#define BL_RECORD_STRUCT struct toy
static const struct bl_member toy_members[] = {
    BL_MEMBER_WORD("name", name, .least = 1),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record toy_record =
    BL_RECORD("toy", struct toy, toy_members, .closed = true);
static const struct bl_member size_element = {
    .type = BL_TYPE_OBJECT, .size = sizeof(struct size), .record = &size_record};

/* One member of each type, and members of each kind of absence. */
struct house {
    struct bl_text name;
    const char *street;
    char code[6], motto[6];
    bool sold, known_size;
    int dirty;
    int64_t floors;
    uint64_t bricks;
    double price;
    enum colour colour, door;
    int64_t built, rebuilt;
    const struct bl_json *extra;
    struct bl_text raw;
    struct size size, cellar;
    struct size *garden;
    struct bl_list toys;
    const struct bl_text *words;
    size_t word_count;
    const struct size *rooms;
    size_t room_count;
    const char *const *tags;
    size_t tag_count;
    const char *key;
};

#define BL_RECORD_STRUCT struct house
static const struct bl_member house_members[] = {
    BL_MEMBER_TEXT("name", name, .least = 1, .most = 10, .form = &lower, .about = "Its name."),
    BL_MEMBER_STRING("street", street, .nullable = true),
    BL_MEMBER_WORD("code", code, .optional = true),
    BL_MEMBER_WORD("motto", motto, .cut = true),
    BL_MEMBER_BOOLEAN("sold", sold),
    BL_MEMBER_BOOLEAN("dirty", dirty, .nullable = true, .none = -1),
    BL_MEMBER_INTEGER("floors", floors, .least = -3, .most = 200),
    BL_MEMBER_INTEGER("bricks", bricks, .optional = true),
    BL_MEMBER_NUMBER("price", price, .nullable = true, .none = -1),
    BL_MEMBER_ENUM("colour", colour, &colours, .nullable = true),
    BL_MEMBER_ENUM("door", door, &colours, .optional = true),
    BL_MEMBER_TIME("built", built),
    BL_MEMBER_TIME("rebuilt", rebuilt, .nullable = true),
    BL_MEMBER_JSON("extra", extra, .optional = true),
    BL_MEMBER_RAW("raw", raw, .optional = true),
    BL_MEMBER_OBJECT("size", size, &size_record),
    BL_MEMBER_OBJECT("cellar", cellar, &size_record, .nullable = true, BL_KNOWN(known_size)),
    BL_MEMBER_POINTER("garden", garden, &size_record, .nullable = true),
    BL_MEMBER_LIST("toys", toys, &toy_record, struct toy, link, .most = 3),
    BL_MEMBER_ARRAY("words", words, word_count, &bl_element_text, .optional = true),
    BL_MEMBER_ARRAY("rooms", rooms, room_count, &size_element, .optional = true),
    BL_MEMBER_ARRAY("tags", tags, tag_count, &bl_element_string, .optional = true, .since = 2),
    BL_MEMBER_STRING("key", key, .optional = true, .secret = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record house_record =
    BL_RECORD("house", struct house, house_members, .closed = true);

/* A record of two kinds, with one member in both. */
struct pet {
    enum pet_kind kind;
    uint32_t age;
    union {
        struct {
            bool purrs;
        } cat;
        struct {
            uint32_t sticks;
        } dog;
    };
};

#define BL_RECORD_STRUCT struct pet
static const struct bl_member pet_members[] = {
    BL_MEMBER_ENUM("kind", kind, &pet_kinds),
    BL_MEMBER_INTEGER("age", age, .most = 30),
    BL_MEMBER_END,
};
static const struct bl_member cat_members[] = {BL_MEMBER_BOOLEAN("purrs", cat.purrs),
                                               BL_MEMBER_END};
static const struct bl_member dog_members[] = {BL_MEMBER_INTEGER("sticks", dog.sticks),
                                               BL_MEMBER_END};
#undef BL_RECORD_STRUCT
static const struct bl_record cat_record = BL_RECORD("cat", struct pet, cat_members);
static const struct bl_record dog_record = BL_RECORD("dog", struct pet, dog_members);
static const struct bl_record *const pets[] = {&cat_record, &dog_record};

/* Cats live at most 20 years. */
static bool pet_rule(const void *object, struct bl_record_fault *fault)
{
    const struct pet *pet = object;

    if (pet->kind != PET_CAT || pet->age <= 20)
        return true;
    if (fault != NULL) {
        *fault = (struct bl_record_fault){.path = "/age"};
        snprintf(fault->message, sizeof fault->message, "no cat is that old");
    }
    return false;
}

static const struct bl_record pet_record =
    BL_RECORD("pet", struct pet, pet_members, .kinds = pets, .rule = pet_rule);

/* A recursive record, with a member that may be missing, null or a number. */
struct branch {
    struct bl_list link;
    const char *tint;
    bool counted;
    uint32_t leaves;
    struct bl_text notes;
    struct bl_list branches;
};

#define BL_RECORD_STRUCT struct branch
extern const struct bl_record branch_record;
static const struct bl_member branch_members[] = {
    BL_MEMBER_STRING("tint", tint, .names = &colours),
    BL_MEMBER_INTEGER("leaves", leaves, .optional = true, .nullable = true, .none = UINT32_MAX,
                      .most = UINT32_MAX - 1, BL_KNOWN(counted)),
    BL_MEMBER_RAW("notes", notes, .optional = true, .element = &bl_element_object),
    BL_MEMBER_LIST("branches", branches, &branch_record, struct branch, link, .optional = true),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
const struct bl_record branch_record = BL_RECORD("branch", struct branch, branch_members);

/* A record made of its own table and two others: one for the same struct, one for an embedded
 * struct. */
struct tower {
    uint32_t bells;
    struct size size;
    uint64_t floors[2];
    const struct bl_json *notes;
    struct bl_text sound;
};

#define BL_RECORD_STRUCT struct tower
static const struct bl_member tower_notes_members[] = {
    BL_MEMBER_JSON("notes", notes, .nullable = true, .object = true),
    BL_MEMBER_RAW("sound", sound, .nullable = true, .record = &size_record),
    BL_MEMBER_END,
};
static const struct bl_record tower_notes_record =
    BL_RECORD("notes", struct tower, tower_notes_members);
static const struct bl_member tower_members[] = {
    BL_MEMBER_EMBED(size, &size_record),
    BL_MEMBER_INTEGER("bells", bells),
    BL_MEMBER_BITS("floors", floors, .optional = true),
    BL_MEMBER_INCLUDE(&tower_notes_record),
    BL_MEMBER_END,
};
#undef BL_RECORD_STRUCT
static const struct bl_record tower_record =
    BL_RECORD("tower", struct tower, tower_members, .closed = true);

static const char full[] =
    "{\"name\":\"villa\",\"street\":\"High St\",\"code\":\"AB12\",\"motto\":\"home\",\"sold\":true,"
    "\"dirty\":false,\"floors\":-2,\"bricks\":18446744073709551615,\"price\":12.5,"
    "\"colour\":\"blue\",\"door\":\"red\",\"built\":\"1999-12-31T23:59:59.999Z\","
    "\"rebuilt\":\"2026-11-15T18:50:07.123Z\",\"extra\":[1,{\"a\":null}],\"raw\":{\"b\":[]},"
    "\"size\":{\"width\":10.5,\"steps\":3},\"cellar\":{\"width\":1.0},"
    "\"garden\":{\"width\":2.0},\"toys\":[{\"name\":\"ball\"},{\"name\":\"car\"}],"
    "\"words\":[\"a\",\"\"],\"rooms\":[{\"width\":4.0},{\"width\":5.0,\"steps\":1}],"
    "\"tags\":[\"x\"]}";
static const char bare[] =
    "{\"name\":\"hut\",\"street\":null,\"motto\":\"\",\"sold\":false,\"dirty\":null,\"floors\":0,"
    "\"price\":null,\"colour\":null,\"built\":\"1970-01-01T00:00:00.000Z\",\"rebuilt\":null,"
    "\"size\":{\"width\":0.0},\"cellar\":null,\"garden\":null,\"toys\":[]}";

static const struct bl_json *parse(struct bl_arena *arena, const char *text)
{
    const struct bl_json *value;
    suite_fail_if(bl_json_read(arena, bl_text_from(text), NULL, &value, NULL) != 0, "not JSON: %s",
                  text);
    return value;
}

static struct bl_text written(struct bl_arena *arena, const struct bl_record *record,
                              const void *from)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_record_write(&writer, record, from);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text;
}

static void assert_refused(const struct bl_record *record, const char *text, const char *expected)
{
    struct bl_arena arena = {0};
    struct bl_record_fault fault = {0};
    union {
        struct house house;
        struct pet pet;
        struct tower tower;
        struct branch branch;
    } into;
    char message[400] = "";

    int code = bl_record_read(&arena, record, parse(&arena, text), &into, &fault);
    if (code != 0)
        bl_record_fault_text(&fault, message, sizeof message);
    suite_fail_if(code != BL_EPARSE || strcmp(message, expected) != 0,
                  "%s\n  gives    %d: %s\n  expected %s", text, code, message, expected);
    suite_fail_if(record->rule == NULL &&
                      bl_record_check(record, parse(&arena, text), NULL) != BL_EPARSE,
                  "the check lets it pass: %s", text);
    bl_arena_done(&arena);
}

/* Returns the full house with one member replaced, or left out if `value` is NULL. */
static const char *house_with(struct bl_arena *arena, const char *name, const char *value)
{
    struct bl_json_writer writer;
    struct bl_buffer out;

    bl_buffer_init(&out, 65536);
    bl_json_writer_init(&writer, &out);
    bl_json_write_object(&writer);
    BL_JSON_MEMBERS (key, parse(arena, full)) {
        bool is_it = strcmp(key->string, name) == 0;
        if (is_it && value == NULL)
            continue;
        bl_json_write_key(&writer, bl_json_text(key));
        if (is_it)
            bl_json_write_raw(&writer, bl_text_from(value));
        else
            bl_json_write_value(&writer, key + 1);
    }
    bl_json_write_end(&writer);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    struct bl_text text = bl_arena_text(arena, bl_buffer_text(&out));
    bl_buffer_done(&out);
    return text.data;
}

static void a_record_is_written_as_it_was_read(void **state BL_UNUSED)
{
    const char *const documents[] = {full, bare};
    struct bl_arena arena = {0};
    struct bl_record_fault fault;
    struct house house;

    for (size_t i = 0; i < BL_COUNT(documents); i++) {
        const struct bl_json *value = parse(&arena, documents[i]);
        suite_fail_if(bl_record_read(&arena, &house_record, value, &house, &fault) != 0, "%s: %s",
                      fault.path, fault.message);
        assert_string_equal(written(&arena, &house_record, &house).data, documents[i]);
    }
    bl_arena_done(&arena);
}

static void values_are_stored_in_the_struct(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct house house;

    assert_int_equal(bl_record_read(&arena, &house_record, parse(&arena, full), &house, NULL), 0);
    assert_true(bl_text_equal(house.name, BL_TEXT("villa")));
    assert_string_equal(house.street, "High St");
    assert_string_equal(house.code, "AB12");
    assert_true(house.sold && house.known_size && house.dirty == 0);
    assert_int_equal(house.floors, -2);
    assert_true(house.bricks == UINT64_MAX);
    assert_int_equal(house.colour, COLOUR_BLUE);
    assert_int_equal(house.door, COLOUR_RED);
    assert_int_equal(house.built, 946684799999000000);
    assert_int_equal(house.size.steps, 3);
    assert_true(house.garden->width == 2);
    assert_int_equal(house.word_count, 2);
    assert_int_equal(house.rooms[1].steps, 1);
    assert_string_equal(house.tags[0], "x");
    assert_string_equal(BL_CONTAINER(house.toys.previous, struct toy, link)->name, "car");
    bl_arena_done(&arena);
}

static void absent_members_have_the_absent_value(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct house house;

    memset(&house, 0xa5, sizeof house);
    assert_int_equal(bl_record_read(&arena, &house_record, parse(&arena, bare), &house, NULL), 0);
    assert_null(house.street);
    assert_string_equal(house.code, "");
    assert_int_equal(house.dirty, -1);
    assert_true(house.price == -1 && house.bricks == 0);
    assert_int_equal(house.colour, COLOUR_NONE);
    assert_int_equal(house.door, COLOUR_NONE);
    assert_int_equal(house.rebuilt, 0);
    assert_false(house.known_size);
    assert_true(house.garden == NULL && house.extra == NULL && house.key == NULL);
    assert_true(bl_list_empty(&house.toys));
    assert_int_equal(house.word_count + house.room_count + house.tag_count, 0);
    bl_arena_done(&arena);
}

static void members_may_come_in_any_order(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct pet pet;

    assert_int_equal(bl_record_read(&arena, &pet_record,
                                    parse(&arena, "{\"sticks\":4,\"age\":3,\"kind\":\"dog\"}"),
                                    &pet, NULL),
                     0);
    assert_int_equal(pet.dog.sticks, 4);
    assert_int_equal(pet.age, 3);
    assert_string_equal(written(&arena, &pet_record, &pet).data,
                        "{\"kind\":\"dog\",\"sticks\":4,\"age\":3}");
    bl_arena_done(&arena);
}

static void a_fault_gives_the_place_and_what_was_expected(void **state BL_UNUSED)
{
    static const struct {
        const char *name, *value, *expected;
    } rows[] = {
        {"name", "7", "name: expected lower-case letters of 1 to 10 bytes, found 7"},
        {"name", "\"\"", "name: expected lower-case letters of 1 to 10 bytes, found \"\""},
        {"name", "\"aaaaaaaaaaa\"",
         "name: expected lower-case letters of 1 to 10 bytes, found \"aaaaaaaaaaa\""},
        {"name", "\"A\"", "name: expected lower-case letters of 1 to 10 bytes, found \"A\""},
        {"street", "\"a\\u0000b\"", "street: expected a string or null, found \"a\\u0000b\""},
        {"code", "\"123456\"", "code: expected a string of at most 5 bytes, found \"123456\""},
        {"code", "null", "code: expected a string of at most 5 bytes, found null"},
        {"sold", "1", "sold: expected true or false, found 1"},
        {"dirty", "\"yes\"", "dirty: expected true or false or null, found \"yes\""},
        {"floors", "-4", "floors: expected a whole number from -3 to 200, found -4"},
        {"floors", "201", "floors: expected a whole number from -3 to 200, found 201"},
        {"floors", "1.5", "floors: expected a whole number from -3 to 200, found 1.5"},
        {"floors", "18446744073709551615",
         "floors: expected a whole number from -3 to 200, found 18446744073709551615"},
        {"bricks", "-1", "bricks: expected a whole number of at least 0, found -1"},
        {"price", "-0.5", "price: expected a number of at least 0 or null, found -0.5"},
        {"colour", "\"green\"", "colour: expected one of red, blue or null, found \"green\""},
        {"built", "\"1999-02-29T00:00:00Z\"",
         "built: expected a time such as 2026-11-15T18:50:07.123Z, found "
         "\"1999-02-29T00:00:00Z\""},
        {"size", "[]", "size: expected an object, found an empty array"},
        {"size", "{\"width\":101}", "size.width: expected a number from 0 to 100, found 101"},
        {"size", "{}", "size.width: missing; expected a number from 0 to 100"},
        {"size", "{\"width\":1,\"steps\":4294967296}",
         "size.steps: expected a whole number of at least 0, found 4294967296"},
        {"size", "{\"width\":1,\"stpes\":1}",
         "size: unknown member \"stpes\" in size; did you mean \"steps\"?"},
        {"size", "{\"width\":1,\"widths\":1}",
         "size: unknown member \"widths\" in size; did you mean \"width\"?"},
        {"size", "{\"widt\":1}", "size: unknown member \"widt\" in size; did you mean \"width\"?"},
        {"size", "{\"width\\u0000s\":1}",
         "size: unknown member \"width\\u0000s\" in size; did you mean \"width\"?"},
        {"garden", "4", "garden: expected an object, found 4"},
        {"toys", "[{\"name\":\"a\"},{\"name\":\"\"}]",
         "toys[1].name: expected a string of 1 to 7 bytes, found \"\""},
        {"toys", "[{},{},{},{}]",
         "toys: expected a list of at most 3 elements, found an array of 4"},
        {"words", "[\"a\",2]", "words[1]: expected a string, found 2"},
        {"rooms", "[{\"width\":4,\"steps\":true}]",
         "rooms[0].steps: expected a whole number of at least 0, found true"},
        {"motto", NULL, "motto: missing; expected a string"},
        {"size", NULL, "size: missing; expected an object"},
    };
    struct bl_arena arena = {0};

    for (size_t i = 0; i < BL_COUNT(rows); i++)
        assert_refused(&house_record, house_with(&arena, rows[i].name, rows[i].value),
                       rows[i].expected);
    assert_refused(&house_record, "[]", "expected an object, found an empty array");
    assert_refused(&house_record, "{\"nmae\":1}",
                   "unknown member \"nmae\" in house; did you mean \"name\"?");
    bl_arena_done(&arena);
}

static void a_fault_names_the_value_in_the_document(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct bl_record_fault fault;
    const struct bl_json *value =
        parse(&arena, house_with(&arena, "toys", "[{\"name\":\"a\"},{\"name\":\"\"}]"));

    assert_int_equal(bl_record_check(&house_record, value, &fault), BL_EPARSE);
    assert_string_equal(fault.path, "/toys/1/name");
    assert_ptr_equal(fault.node, bl_json_pointer(value, BL_TEXT("/toys/1/name")));
    assert_int_equal(bl_record_check(&house_record, NULL, &fault), BL_EPARSE);
    assert_string_equal(fault.message, "expected an object, found nothing");
    bl_arena_done(&arena);
}

static void a_long_word_is_truncated_if_the_table_allows_it(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct house house;

    assert_int_equal(bl_record_read(&arena, &house_record,
                                    parse(&arena, house_with(&arena, "motto", "\"abcd\u00e9f\"")),
                                    &house, NULL),
                     0);
    assert_string_equal(house.motto, "abcd");
    bl_arena_done(&arena);
}

static void included_tables_are_in_the_same_object(void **state BL_UNUSED)
{
    static const char text[] = "{\"width\":2.5,\"steps\":9,\"bells\":3,\"notes\":{\"a\":1},"
                               "\"sound\":{\"width\":1}}";
    struct bl_arena arena = {0};
    struct tower tower;

    assert_int_equal(bl_record_read(&arena, &tower_record, parse(&arena, text), &tower, NULL), 0);
    assert_true(tower.size.width == 2.5 && tower.size.steps == 9 && tower.bells == 3);
    assert_string_equal(written(&arena, &tower_record, &tower).data, text);
    const char *backwards = "{\"sound\":null,\"notes\":null,\"bells\":1,\"width\":4}";
    assert_int_equal(bl_record_read(&arena, &tower_record, parse(&arena, backwards), &tower, NULL),
                     0);
    assert_true(tower.size.width == 4 && tower.size.steps == 0 && tower.bells == 1);
    assert_null(tower.notes);
    bl_record_take(&arena, &tower_record, NULL, &tower);
    assert_true(tower.size.width == 0 && tower.bells == 0 && tower.notes == NULL);
    assert_refused(&tower_record, "{\"bells\":1,\"notes\":null,\"sound\":null}",
                   "width: missing; expected a number from 0 to 100");
    assert_refused(&tower_record, "{\"width\":1,\"bells\":1,\"sound\":null}",
                   "notes: missing; expected an object or null");
    assert_refused(&tower_record, "{\"width\":1,\"bells\":1,\"notes\":[],\"sound\":null}",
                   "notes: expected an object or null, found an empty array");
    assert_refused(&tower_record, "{\"width\":1,\"bells\":1,\"notes\":null,\"sound\":7}",
                   "sound: expected an object or null, found 7");
    assert_refused(&tower_record, "{\"stpes\":1}",
                   "unknown member \"stpes\" in tower; did you mean \"steps\"?");
    bl_arena_done(&arena);
}

static void a_set_of_bits_is_a_list_of_numbers(void **state BL_UNUSED)
{
    static const char text[] = "{\"width\":1.0,\"bells\":1,\"floors\":[0,63,64,127],"
                               "\"notes\":null,\"sound\":null}";
    static const char too_large[] = "{\"width\":1.0,\"bells\":1,\"floors\":[128],"
                                    "\"notes\":null,\"sound\":null}";
    struct bl_arena arena = {0};
    struct tower tower;

    assert_int_equal(bl_record_read(&arena, &tower_record, parse(&arena, text), &tower, NULL), 0);
    assert_true(tower.floors[0] == (1 | (uint64_t)1 << 63) &&
                tower.floors[1] == (1 | (uint64_t)1 << 63));
    assert_string_equal(written(&arena, &tower_record, &tower).data, text);
    assert_refused(&tower_record, too_large,
                   "floors: expected a list of whole numbers from 0 to 127, found an array of 1");
    bl_record_take(&arena, &tower_record, parse(&arena, too_large), &tower);
    assert_true(tower.bells == 1 && tower.floors[0] == 0 && tower.floors[1] == 0);
    bl_arena_done(&arena);
}

static void a_member_may_be_missing_null_or_present(void **state BL_UNUSED)
{
    static const char *const documents[] = {
        "{\"tint\":\"red\"}",
        "{\"tint\":\"red\",\"leaves\":null}",
        "{\"tint\":\"blue\",\"leaves\":0,\"notes\":[{}],\"branches\":[{\"tint\":\"red\"}]}",
    };
    struct bl_arena arena = {0};
    struct branch branch;

    for (size_t i = 0; i < BL_COUNT(documents); i++) {
        assert_int_equal(
            bl_record_read(&arena, &branch_record, parse(&arena, documents[i]), &branch, NULL), 0);
        assert_int_equal(branch.counted, i > 0);
        assert_string_equal(written(&arena, &branch_record, &branch).data, documents[i]);
    }
    assert_refused(&branch_record, "{\"tint\":\"green\"}",
                   "tint: expected one of red, blue, found \"green\"");
    assert_refused(&branch_record, "{\"tint\":\"red\",\"notes\":{}}",
                   "notes: expected a list, found an empty object");
    bl_arena_done(&arena);
}

static void nested_records_have_a_depth_limit(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct bl_buffer text;
    struct branch branch;

    for (unsigned depth = 1; depth < 40; depth++) {
        bl_buffer_init(&text, 65536);
        for (unsigned i = 0; i < depth; i++)
            bl_buffer_printf(&text, "{\"tint\":\"red\",\"branches\":[");
        for (unsigned i = 0; i < depth; i++)
            bl_buffer_printf(&text, "]}");
        bl_buffer_append_byte(&text, '\0');
        int code = bl_record_read(&arena, &branch_record, parse(&arena, text.data), &branch, NULL);
        assert_int_equal(code, depth <= 16 ? 0 : BL_EPARSE);
        bl_record_take(&arena, &branch_record, parse(&arena, text.data), &branch);
        bl_buffer_done(&text);
    }
    bl_arena_done(&arena);
}

static void a_member_of_a_later_version_may_be_missing(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};

    assert_int_equal(
        bl_record_check(&house_record, parse(&arena, house_with(&arena, "tags", NULL)), NULL), 0);
    bl_arena_done(&arena);
}

static void a_kind_has_its_own_members_and_no_other(void **state BL_UNUSED)
{
    assert_refused(&pet_record, "{\"kind\":\"dog\",\"age\":3}",
                   "sticks: missing; expected a whole number of at least 0");
    assert_refused(&pet_record, "{\"kind\":\"dog\",\"age\":3,\"sticks\":1,\"purrs\":true}",
                   "\"purrs\" is a member of cat, not of dog");
    assert_refused(&pet_record, "{\"kind\":\"cow\",\"age\":3}",
                   "kind: expected one of cat, dog, found \"cow\"");
    assert_refused(&pet_record, "{\"age\":3}", "kind: missing; expected one of cat, dog");
    assert_refused(&pet_record, "{\"kind\":\"cat\",\"age\":21,\"purrs\":true}",
                   "age: no cat is that old");
}

static void unknown_members_are_ignored_in_an_open_record(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};

    assert_int_equal(
        bl_record_check(&pet_record,
                        parse(&arena, "{\"kind\":\"cat\",\"age\":3,\"purrs\":true,\"tail\":1}"),
                        NULL),
        0);
    bl_arena_done(&arena);
}

static void a_secret_is_read_and_never_written(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct bl_buffer schema;
    struct bl_json_writer writer;
    struct house house;
    char document[2048];

    snprintf(document, sizeof document, "%.*s,\"key\":\"sk-secret\"}", (int)strlen(full) - 1, full);
    assert_int_equal(bl_record_read(&arena, &house_record, parse(&arena, document), &house, NULL),
                     0);
    assert_string_equal(house.key, "sk-secret");
    assert_string_equal(written(&arena, &house_record, &house).data, full);
    bl_buffer_init(&schema, 65536);
    bl_json_writer_init(&writer, &schema);
    bl_record_schema(&writer, &house_record);
    assert_int_equal(bl_text_find(bl_buffer_text(&schema), BL_TEXT("\"key\"")), -1);
    bl_buffer_done(&schema);
    bl_arena_done(&arena);
}

static void equal_records_are_written_alike(void **state BL_UNUSED)
{
    struct size a = {.width = 1.04}, b = {.width = 1.01}, c = {.width = 1.06};

    assert_true(bl_record_equal(&size_record, &a, &b));
    assert_false(bl_record_equal(&size_record, &a, &c));
}

static void a_lenient_reader_makes_invalid_members_absent(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct house house;
    struct pet pet;

    bl_record_take(&arena, &house_record,
                   parse(&arena, "{\"name\":\"hut\",\"floors\":\"many\",\"price\":[],\"sold\":true,"
                                 "\"rooms\":[{\"width\":4},{}],\"words\":[\"a\",2],\"newer\":1,"
                                 "\"cellar\":7,\"garden\":{\"width\":-1},\"colour\":\"green\"}"),
                   &house);
    assert_true(bl_text_equal(house.name, BL_TEXT("hut")));
    assert_true(house.sold && house.floors == 0 && house.price == -1);
    assert_int_equal(house.room_count, 2);
    assert_true(house.rooms[0].width == 4 && house.rooms[1].width == 0);
    assert_int_equal(house.word_count, 0);
    assert_null(house.words);
    assert_false(house.known_size);
    assert_true(house.garden->width == 0);
    assert_int_equal(house.colour, COLOUR_NONE);
    assert_true(bl_list_empty(&house.toys));

    memset(&house, 0xa5, sizeof house);
    bl_record_take(&arena, &house_record, parse(&arena, "[1]"), &house);
    assert_true(house.name.size == 0 && house.dirty == -1 && house.price == -1);
    bl_record_take(&arena, &pet_record, parse(&arena, "{\"kind\":\"cow\",\"age\":3,\"sticks\":1}"),
                   &pet);
    assert_int_equal(pet.age, 0);
    bl_arena_done(&arena);
}

static void a_lenient_reader_leaves_out_elements_without_a_vital_member(void **state BL_UNUSED)
{
    struct leaf {
        struct bl_list link;
        enum colour colour;
        uint32_t size;
    };
    struct twig {
        struct bl_list leaves;
    } twig;
#define BL_RECORD_STRUCT struct leaf
    static const struct bl_member leaf_members[] = {
        BL_MEMBER_ENUM("colour", colour, &colours, .vital = true), BL_MEMBER_INTEGER("size", size),
        BL_MEMBER_END};
#undef BL_RECORD_STRUCT
    static const struct bl_record leaf_record = BL_RECORD("leaf", struct leaf, leaf_members);
#define BL_RECORD_STRUCT struct twig
    static const struct bl_member twig_members[] = {
        BL_MEMBER_LIST("leaves", leaves, &leaf_record, struct leaf, link), BL_MEMBER_END};
#undef BL_RECORD_STRUCT
    static const struct bl_record twig_record = BL_RECORD("twig", struct twig, twig_members);
    struct bl_arena arena = {0};
    struct leaf leaf;

    bl_record_take(&arena, &twig_record,
                   parse(&arena, "{\"leaves\":[{\"colour\":\"blue\",\"size\":\"?\"},1,{\"size\":2},"
                                 "{\"colour\":\"none\"}]}"),
                   &twig);
    assert_string_equal(written(&arena, &twig_record, &twig).data,
                        "{\"leaves\":[{\"colour\":\"blue\",\"size\":0}]}");
    bl_record_take(&arena, &leaf_record, parse(&arena, "{\"colour\":7,\"size\":3}"), &leaf);
    assert_int_equal(leaf.size, 0);
    bl_arena_done(&arena);
}

static void a_lenient_reader_keeps_names_and_times_of_newer_documents(void **state BL_UNUSED)
{
    struct sight {
        const char *colour;
        int64_t seen_wall_ns;
    } sight;
#define BL_RECORD_STRUCT struct sight
    static const struct bl_member sight_members[] = {
        BL_MEMBER_STRING("colour", colour, .names = &colours),
        BL_MEMBER_TIME("seen_at", seen_wall_ns), BL_MEMBER_END};
#undef BL_RECORD_STRUCT
    static const struct bl_record sight_record = BL_RECORD("sight", struct sight, sight_members);
    static const char newer[] = "{\"colour\":\"mauve\",\"seen_at\":\"2026-11-15T18:50:07.25Z\"}";
    struct bl_arena arena = {0};

    assert_int_equal(bl_record_check(&sight_record, parse(&arena, newer), NULL), BL_EPARSE);
    bl_record_take(&arena, &sight_record, parse(&arena, newer), &sight);
    assert_string_equal(written(&arena, &sight_record, &sight).data,
                        "{\"colour\":\"mauve\",\"seen_at\":\"2026-11-15T18:50:07.250Z\"}");
    bl_record_take(&arena, &sight_record, parse(&arena, "{\"colour\":7,\"seen_at\":\"soon\"}"),
                   &sight);
    assert_true(sight.colour == NULL && sight.seen_wall_ns == 0);
    bl_arena_done(&arena);
}

static void a_flag_may_say_that_there_is_no_value(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct cost {
        bool unknown;
        double usd;
    } cost;
#define BL_RECORD_STRUCT struct cost
    static const struct bl_member members[] = {
        BL_MEMBER_NUMBER("usd", usd, .nullable = true, BL_UNLESS(unknown)), BL_MEMBER_END};
#undef BL_RECORD_STRUCT
    static const struct bl_record record = BL_RECORD("cost", struct cost, members);
    static const char *const documents[] = {"{\"usd\":null}", "{\"usd\":0.0}", "{\"usd\":2.5}"};

    for (size_t i = 0; i < BL_COUNT(documents); i++) {
        assert_int_equal(bl_record_read(&arena, &record, parse(&arena, documents[i]), &cost, NULL),
                         0);
        assert_int_equal(cost.unknown, i == 0);
        assert_string_equal(written(&arena, &record, &cost).data, documents[i]);
    }
    bl_arena_done(&arena);
}

/* ---- The schema ------------------------------------------------------------------------------ */

static struct bl_json_schema *schema_of(struct bl_arena *arena, const struct bl_record *record)
{
    struct bl_json_schema *schema;
    struct bl_json_writer writer;
    struct bl_buffer text;
    struct bl_error error = {0};

    bl_buffer_init(&text, 65536);
    bl_json_writer_init(&writer, &text);
    bl_record_schema(&writer, record);
    assert_int_equal(bl_json_writer_done(&writer), 0);
    bl_buffer_append_byte(&text, '\0');
    suite_fail_if(bl_json_schema_new(parse(arena, text.data), &schema, &error) != 0, "%s: %s",
                  text.data, error.message);
    bl_buffer_done(&text);
    return schema;
}

/* Values that are valid for members of several types, and some that are valid for none. Times are
 * left to the reader: a format asserts nothing in a schema, and a schema cannot limit bytes. */
static const char *const values[] = {
    "null",
    "true",
    "0",
    "-2",
    "-4",
    "150",
    "201",
    "1.5",
    "\"\"",
    "\"a\"",
    "\"villa\"",
    "\"red\"",
    "[]",
    "{}",
    "[{\"name\":\"ball\"}]",
    "[{\"name\":\"\"}]",
    "[\"a\"]",
    "{\"width\":1}",
    "[{\"width\":200}]",
    "{\"width\":1,\"steps\":2}",
    "[1]",
    "{\"width\":1,\"x\":2}",
};

static void the_schema_and_the_reader_agree(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    struct bl_json_schema *schema = schema_of(&arena, &house_record);
    unsigned fitting = 0, refused = 0;

    for (const struct bl_member *member = house_members; member->type != BL_TYPE_END; member++) {
        for (size_t i = 0; i <= BL_COUNT(values) && !member->secret; i++) {
            struct bl_list problems;
            if (member->type == BL_TYPE_TIME && i < BL_COUNT(values))
                continue;
            const char *document =
                house_with(&arena, member->name, i < BL_COUNT(values) ? values[i] : NULL);
            const struct bl_json *value = parse(&arena, document);
            bool by_table = bl_record_check(&house_record, value, NULL) == 0;
            bool by_schema = bl_json_schema_check(schema, value, &arena, &problems) == 0;
            suite_fail_if(by_table != by_schema, "the table says %d and the schema %d of %s",
                          by_table, by_schema, document);
            fitting += by_table;
            refused += !by_table;
        }
    }
    assert_true(fitting > 50 && refused > 200);
    bl_json_schema_free(schema);
    bl_arena_done(&arena);
}

static void the_schema_of_kinds_accepts_each_and_no_mixture(void **state BL_UNUSED)
{
    static const struct {
        const char *document;
        bool fits;
    } rows[] = {
        {"{\"kind\":\"cat\",\"age\":3,\"purrs\":true}", true},
        {"{\"kind\":\"dog\",\"age\":3,\"sticks\":1}", true},
        {"{\"kind\":\"dog\",\"age\":3}", false},
        {"{\"kind\":\"dog\",\"age\":31,\"sticks\":1}", false},
        {"{\"kind\":\"cow\",\"age\":3,\"sticks\":1}", false},
    };
    struct bl_arena arena = {0};
    struct bl_json_schema *schema = schema_of(&arena, &pet_record);

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_list problems;
        const struct bl_json *value = parse(&arena, rows[i].document);
        suite_fail_if((bl_json_schema_check(schema, value, &arena, &problems) == 0) != rows[i].fits,
                      "%s", rows[i].document);
    }
    bl_json_schema_free(schema);
    bl_arena_done(&arena);
}

static void the_schema_refuses_a_negative_duration(void **state BL_UNUSED)
{
#define BL_RECORD_STRUCT struct nap
    struct nap {
        uint64_t length_ns;
    };
    static const struct bl_member members[] = {
        BL_MEMBER_DURATION("length_s", length_ns),
        BL_MEMBER_END,
    };
#undef BL_RECORD_STRUCT
    static const struct bl_record record = BL_RECORD("nap", struct nap, members);
    static const char *const documents[] = {"{\"length_s\":-1}", "{\"length_s\":0}",
                                            "{\"length_s\":1.5}"};
    struct bl_arena arena = {0};
    struct bl_json_schema *schema = schema_of(&arena, &record);

    for (size_t i = 0; i < BL_COUNT(documents); i++) {
        struct bl_list problems;
        const struct bl_json *value = parse(&arena, documents[i]);
        assert_int_equal(bl_record_check(&record, value, NULL) == 0, i > 0);
        assert_int_equal(bl_json_schema_check(schema, value, &arena, &problems) == 0, i > 0);
    }
    bl_json_schema_free(schema);
    bl_arena_done(&arena);
}

SUITE(record, cmocka_unit_test(a_record_is_written_as_it_was_read),
      cmocka_unit_test(values_are_stored_in_the_struct),
      cmocka_unit_test(absent_members_have_the_absent_value),
      cmocka_unit_test(members_may_come_in_any_order),
      cmocka_unit_test(a_fault_gives_the_place_and_what_was_expected),
      cmocka_unit_test(a_fault_names_the_value_in_the_document),
      cmocka_unit_test(a_long_word_is_truncated_if_the_table_allows_it),
      cmocka_unit_test(included_tables_are_in_the_same_object),
      cmocka_unit_test(a_set_of_bits_is_a_list_of_numbers),
      cmocka_unit_test(a_member_may_be_missing_null_or_present),
      cmocka_unit_test(nested_records_have_a_depth_limit),
      cmocka_unit_test(a_member_of_a_later_version_may_be_missing),
      cmocka_unit_test(a_kind_has_its_own_members_and_no_other),
      cmocka_unit_test(unknown_members_are_ignored_in_an_open_record),
      cmocka_unit_test(a_secret_is_read_and_never_written),
      cmocka_unit_test(a_lenient_reader_makes_invalid_members_absent),
      cmocka_unit_test(a_lenient_reader_leaves_out_elements_without_a_vital_member),
      cmocka_unit_test(a_lenient_reader_keeps_names_and_times_of_newer_documents),
      cmocka_unit_test(a_flag_may_say_that_there_is_no_value),
      cmocka_unit_test(equal_records_are_written_alike),
      cmocka_unit_test(the_schema_and_the_reader_agree),
      cmocka_unit_test(the_schema_refuses_a_negative_duration),
      cmocka_unit_test(the_schema_of_kinds_accepts_each_and_no_mixture));
