/* What the files of documents share. Inside json/ only. */
#ifndef BELAY_JSON_DOCUMENT_H
#define BELAY_JSON_DOCUMENT_H

#include "json/parts.h"

/* The tags of YAML's core, and how a scalar without one came. */
enum document_tag {
    DOCUMENT_PLAIN,  /* none, and no quotes: its text decides */
    DOCUMENT_STRING, /* !!str, or quotes */
    DOCUMENT_NULL,
    DOCUMENT_BOOLEAN,
    DOCUMENT_INTEGER,
    DOCUMENT_FLOAT,
    DOCUMENT_ARRAY,
    DOCUMENT_OBJECT,
};

/* Makes a node of a scalar; its text is copied into `arena`. NULL; or, when the text does not fit
 * the tag or its number has no place in a node, what was expected. */
const char *document_scalar_read(struct bl_arena *arena, struct bl_text text, enum document_tag tag,
                                 struct bl_json *ret_node);

/* True when a scalar without tag and quotes is null. */
bool document_scalar_is_null(struct bl_text text);

/* Reads YAML: `input` is valid UTF-8 without NUL. As bl_document_read. */
int document_yaml_read(struct bl_arena *arena, struct bl_text input,
                       const struct bl_json_limits *limits, struct bl_document *ret_document,
                       struct bl_json_fault *fault);

#endif
