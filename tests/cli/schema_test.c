/* What commands print as JSON has the schemas of its tables. */
#include "schemas.h"

#include "cli/cell/cell.h"

static void schemas_of_commands_are_those_of_their_tables(void **state BL_UNUSED)
{
    schemas_assert_current(&cell_listening_record);
}

SUITE(schema, cmocka_unit_test(schemas_of_commands_are_those_of_their_tables));
