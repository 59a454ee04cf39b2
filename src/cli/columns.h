/* Tables of text for people, as wide as the terminal. If the table is too wide, some columns are
 * cut first; then whole columns are left out, the least important one first. */
#ifndef BELAY_CLI_COLUMNS_H
#define BELAY_CLI_COLUMNS_H

#include <belay/base.h>

struct cli_column {
    const char *head;
    unsigned weight; /* the lowest is left out first; 0: never left out */
    unsigned least;  /* minimum width when cut; 0: never cut */
    bool right;
    bool keeps_end; /* cut at the start, since the end of a path says more */
};

/* Returns the width of standard output if it is a terminal; else SIZE_MAX, so that nothing is cut.
 */
size_t cli_columns_width(void);
/* Returns the text as one line with control sequences escaped, in the arena. */
struct bl_text cli_columns_cell(struct bl_arena *arena, struct bl_text text);
/* Writes a line of heads, then the rows; `cells` has `count` cells for each row. */
void cli_columns_write(struct bl_buffer *out, const struct cli_column *columns, size_t count,
                       const struct bl_text *cells, size_t rows, size_t width);

#endif
