/* docs/schemas/cell is what the tables say. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "cell/codec/codec.h"
#include "schemas.h"

static size_t count_files(void)
{
    const char *root = getenv("BELAY_SOURCE_ROOT");
    char path[512];
    size_t count = 0;

    snprintf(path, sizeof path, "%s/docs/schemas/cell", root != NULL ? root : ".");
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += bl_text_ends_with(bl_text_from(entry->d_name), BL_TEXT(".json"));
    closedir(folder);
    return count;
}

static void schemas_of_the_protocol_are_those_of_its_tables(void **state BL_UNUSED)
{
    size_t count = 0;

    for (; cell_schemas[count] != NULL; count++)
        schemas_assert_current(cell_schemas[count]);
    for (size_t i = 0; i < cell_operations.count; i++, count++)
        schemas_assert_current(cell_ok_records[i]);
    assert_int_equal(count_files(), count);
}

SUITE(schema, cmocka_unit_test(schemas_of_the_protocol_are_those_of_its_tables));
