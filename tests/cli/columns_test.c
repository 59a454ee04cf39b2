/* Tables of text for people at several widths. */
#include "cli/columns.h"

#include <stdio.h>

#include "suite.h"

static const struct cli_column columns[] = {
    {"ID", 0, 0, false, false},
    {"PHASE", 0, 6, false, false},
    {"DIRECTORY", 70, 4, false, true},
    {"PROMPT", 80, 8, false, false},
};

static const char *write_at(size_t width)
{
    static char shown[512];
    const struct bl_text cells[] = {BL_TEXT("run_1"), BL_TEXT("tool bash: make"),
                                    BL_TEXT("/home/ann/src/site"), BL_TEXT("fix the failing test")};
    BL_AUTO_BUFFER(out, sizeof shown);

    cli_columns_write(&out, columns, BL_COUNT(columns), cells, 1, width);
    snprintf(shown, sizeof shown, BL_TEXT_FORMAT, BL_TEXT_ARG(bl_buffer_text(&out)));
    return shown;
}

static void columns_share_the_width(void **state BL_UNUSED)
{
    assert_string_equal(write_at(80),
                        "ID     PHASE            DIRECTORY           PROMPT\n"
                        "run_1  tool bash: make  /home/ann/src/site  fix the failing test\n");
    /* The columns that are always there get room first, then the last ones. */
    assert_string_equal(write_at(48), "ID     PHASE            DIRECTORY  PROMPT\n"
                                      "run_1  tool bash: make  …src/site  fix the fail…\n");
    /* A head is never cut; a column without room is left out. */
    assert_string_equal(write_at(34), "ID     PHASE   DIRECTORY  PROMPT\n"
                                      "run_1  tool …  …src/site  fix the…\n");
    assert_string_equal(write_at(24), "ID     PHASE    PROMPT\n"
                                      "run_1  tool b…  fix the…\n");
}

SUITE(columns, cmocka_unit_test(columns_share_the_width));
