/* Reading documents in tests: what must be read as what, and what must be refused. */
#ifndef BELAY_TESTS_DOCUMENTS_H
#define BELAY_TESTS_DOCUMENTS_H

#include <belay/json.h>

#include "suite.h"

/* bl_document_read with the default limits. */
int document_from(struct bl_arena *arena, const char *text, struct bl_document *ret_document,
                  struct bl_json_fault *fault);
/* Fails the test with a name or text, and the fault. */
void fail_with_fault(const char *text, const struct bl_json_fault *fault);
/* Its tape is as every tape: spans, sizes and ends fit; each node has a place. */
void check_document(const struct bl_document *document);
/* Fails unless both texts are the same tree, node by node. */
void same(const char *yaml, const char *json);
/* Fails unless `text` is refused so, at that place, and the arena is as before. */
void refuse_within(const char *text, const struct bl_json_limits *limits, int code, uint32_t line,
                   uint32_t column, const char *expected);
/* The same with the default limits and BL_EPARSE. */
void refuse(const char *text, uint32_t line, uint32_t column, const char *expected);

#endif
