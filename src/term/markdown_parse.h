/* Parses Markdown into a tree, by libcmark-gfm.
 *
 * HTML blocks are not recognized: a tag at the start of a line does not turn the Markdown below it
 * into text. To hide such tags from the parser, their "<" is another byte in the tree,
 * MARKDOWN_LESS, in literals, addresses and info strings alike. */
#ifndef BELAY_CLI_MARKDOWN_PARSE_H
#define BELAY_CLI_MARKDOWN_PARSE_H

#include <cmark-gfm.h>

#include "term.h"

#define MARKDOWN_LESS '\x01'

/* Invalid UTF-8 and NUL become U+FFFD. Tables that would take too much memory (more columns than
 * MARKDOWN_TABLE_COLUMNS_MAX, or more cells than MARKDOWN_TABLE_CELLS_MAX by the number of lines)
 * are paragraphs. Free with cmark_node_free. */
cmark_node *markdown_parse(struct bl_text text);

/* Nodes of extensions ("table", "table_cell", "strikethrough", "tasklist") have only names. */
bool markdown_is_node(cmark_node *node, const char *name);

/* Returns whether a line without an indent after `text` would be code outside any container. */
bool markdown_ends_in_code(struct bl_text text);

/* Returns the next web address in a text without markup, or an empty text at its end: "https://…",
 * "http://…" or "www.…" up to a blank, without the punctuation after it. */
struct bl_text markdown_find_address(struct bl_text text);

#endif
