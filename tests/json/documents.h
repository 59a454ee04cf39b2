/* Helpers for tests of documents: texts that must be read as a tree, or refused. */
#ifndef BELAY_TESTS_DOCUMENTS_H
#define BELAY_TESTS_DOCUMENTS_H

#include <belay/json.h>

#include "suite.h"

/* bl_document_read with the default limits. */
int document_from(struct bl_arena *arena, const char *text, struct bl_document *ret_document,
                  struct bl_json_fault *fault);
/* Fails the test with a name or text, and the fault. */
void fail_with_fault(const char *text, const struct bl_json_fault *fault);
/* Checks the nodes: spans, sizes and END nodes are consistent, and each node has a place. */
void check_document(const struct bl_document *document);
/* Fails unless both texts are the same tree, node by node. */
void same(const char *yaml, const char *json);
/* Fails unless `text` is refused with that code and place, and the arena is unchanged. */
void refuse_within(const char *text, const struct bl_json_limits *limits, int code, uint32_t line,
                   uint32_t column, const char *expected);
/* The same with the default limits and BL_EPARSE. */
void refuse(const char *text, uint32_t line, uint32_t column, const char *expected);

#endif
