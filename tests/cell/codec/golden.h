/* The files of tests/cell/wire and docs/schemas/cell, for the tests of the codec. */
#ifndef BELAY_TESTS_CELL_GOLDEN_H
#define BELAY_TESTS_CELL_GOLDEN_H

#include "suite.h"

#include "cell/codec/codec.h"

#define GOLDEN_FILES_MAX 200u
#define GOLDEN_TEXT_MAX  ((size_t)1 << 20)

struct golden {
    struct bl_arena arena;
    size_t count;
    struct golden_file {
        char name[80];
        struct bl_text bytes; /* of the frame, without its head */
        const struct bl_json *root;
    } files[GOLDEN_FILES_MAX];
};

/* Of each test: *state is a struct golden. */
int golden_set_up(void **state);
int golden_tear_down(void **state);
#define GOLDEN(name) cmocka_unit_test_setup_teardown(name, golden_set_up, golden_tear_down)

/* Finds the file with the name PREFIX NAME, which must exist. */
const struct golden_file *golden_find(const struct golden *golden, const char *prefix,
                                      const char *name);
const struct bl_json *golden_parse(struct bl_arena *arena, struct bl_text text);
const struct bl_json *golden_get(const struct bl_json *object, const char *key);
bool golden_is_of_client(const struct bl_json *root);
/* Returns 0 if the codec accepts it as the kind of frame that `root` names. */
int golden_decode(struct bl_arena *arena, struct bl_text bytes, const struct bl_json *root);

#define GOLDEN_SCHEMAS 31u
extern const char *const golden_schema_names[GOLDEN_SCHEMAS];
/* One schema of docs/schemas/cell, with everything it refers to. */
struct bl_json_schema *golden_schema(const char *name);
/* With `tell`, prints what is wrong. */
bool golden_fits(const struct bl_json_schema *schema, const struct bl_json *value, bool tell);

#endif
