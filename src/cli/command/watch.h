/* Events of runs as lines for people: the model's text, line by line, and what it does. */
#ifndef BELAY_CLI_WATCH_H
#define BELAY_CLI_WATCH_H

#include <belay/json.h>

/* Embedded by its owner. */
struct watch_text {
    bool all;                /* several sessions: each line names its session */
    struct bl_buffer said;   /* an unfinished line of output */
    struct bl_buffer source; /* the source of that line */
};

void watch_text_init(struct watch_text *text, bool all);
void watch_text_done(struct watch_text *text);
/* Appends the lines that show an event (docs/schemas/event.json); nothing for some events. */
void watch_text_event(struct watch_text *text, const struct bl_json *event, struct bl_buffer *out);
/* Appends an unfinished line. */
void watch_text_end(struct watch_text *text, struct bl_buffer *out);

#endif
