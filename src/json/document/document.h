/* Declarations shared by the files of documents. For json/ only. */
#ifndef BELAY_JSON_DOCUMENT_H
#define BELAY_JSON_DOCUMENT_H

#include "json/parts.h"

/* The tags of YAML's core schema, and the form of a scalar without a tag. */
enum document_tag {
    DOCUMENT_PLAIN,  /* no tag and no quotes: the text decides */
    DOCUMENT_STRING, /* !!str, or quotes */
    DOCUMENT_NULL,
    DOCUMENT_BOOLEAN,
    DOCUMENT_INTEGER,
    DOCUMENT_FLOAT,
    DOCUMENT_ARRAY,
    DOCUMENT_OBJECT,
};

/* Makes a node of a scalar and copies its text into `arena`. Returns NULL; or a description of what
 * was expected, if the text does not match the tag or the number does not fit a node. */
const char *document_scalar_read(struct bl_arena *arena, struct bl_text text, enum document_tag tag,
                                 struct bl_json *ret_node);

/* True if a scalar without tag and quotes is null. */
bool document_scalar_is_null(struct bl_text text);

/* Reads YAML, like bl_document_read. `input` is valid UTF-8 without NUL. */
int document_yaml_read(struct bl_arena *arena, struct bl_text input,
                       const struct bl_json_limits *limits, struct bl_document *ret_document,
                       struct bl_json_fault *fault);

#endif
