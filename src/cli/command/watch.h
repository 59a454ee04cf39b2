/* Events of runs as lines for people: what a model says, line by line, and what it does. */
#ifndef BELAY_CLI_WATCH_H
#define BELAY_CLI_WATCH_H

#include <belay/json.h>

/* Embedded by its owner. */
struct watch_text {
    bool all;                /* of several sessions: each line says which */
    struct bl_buffer said;   /* the beginning of a line of somebody's */
    struct bl_buffer source; /* whose that is */
};

void watch_text_init(struct watch_text *text, bool all);
void watch_text_done(struct watch_text *text);
/* Appends what is to be shown of an event (docs/schemas/event.json): nothing, or whole lines. */
void watch_text_event(struct watch_text *text, const struct bl_json *event, struct bl_buffer *out);
/* The rest of a line that has no end. */
void watch_text_end(struct watch_text *text, struct bl_buffer *out);

#endif
