/* A frame of a client, read as a host does. */
#ifndef BELAY_TESTS_CELL_READING_H
#define BELAY_TESTS_CELL_READING_H

#include "suite.h"

#include "cell/codec/codec.h"

struct reading {
    struct bl_arena arena;
    struct cell_frame frame;
    char message[160];
    int code;
};

/* Both initialize the arena, which the caller must free. The second reads a request with id 7. */
void read_bytes(struct reading *reading, struct bl_text bytes, bool first);
void read_request(struct reading *reading, const char *op, const char *args);

/* The args of create_cell, and one of its tools; all parameters are JSON. */
#define CREATE(source, tools, limits)                                                              \
    "{\"session_id\":\"s\",\"cell_id\":\"c\",\"source\":" source ",\"tools\":" tools               \
    ",\"limits\":" limits "}"
#define TOOL(name, input, schema)                                                                  \
    "{\"name\":" name ",\"description\":\"\",\"input\":" input ",\"input_schema\":" schema "}"

#endif
