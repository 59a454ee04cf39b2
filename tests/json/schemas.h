/* Schemas and values as text, for tests. A text that cannot be read fails the test. */
#ifndef BELAY_TESTS_JSON_SCHEMAS_H
#define BELAY_TESTS_JSON_SCHEMAS_H

#include <belay/json.h>

#include "suite.h"

const struct bl_json *read_json(struct bl_arena *arena, const char *text);
struct bl_json_schema *compile(struct bl_arena *arena, const char *text);
/* Returns "path|keyword|message" for each problem, one per line; empty if the value is valid. */
struct bl_text problems_of(struct bl_arena *arena, const char *schema_text, const char *value_text,
                           int expected);
void expect_problems(const char *schema, const char *value, const char *expected);
void expect_fits(const char *schema, const char *value, bool fits);

#endif
