/* What a host and a worker say to each other, over one stream socket: the worker's descriptor 0.
 * Frames as on the wire: 4 bytes, unsigned, big-endian length, then so many bytes of UTF-8 JSON.
 *
 * To the worker:
 *   {"type":"start","source":"…","tools":[{"name":"read","description":"…","input":"object|text"}],
 *    "values":{"key":JSON,…},"memory_bytes":67108864,"output_bytes":4194304,"notify":true}   once
 *   {"type":"result","call":1,"ok":JSON}  or  {…,"err":{"kind":"denied","message":"…"}}
 *   {"type":"notified","seq":1}                         one place among the unacknowledged is free
 *
 * From the worker:
 *   {"type":"ready"}                                    engine up, locked down; before any start
 *   {"type":"item","item":ITEM}                         written at once: nothing said is lost
 *   {"type":"yield"}
 *   {"type":"call","call":1,"tool":"read","input":JSON} numbers count from 1; `tool` is the name as
 *                                                       in start; at most 64 unanswered, the others
 *                                                       queue in the worker
 *   {"type":"notify","seq":1,"text":"…"}                at most 64 unacknowledged: else RangeError
 *   {"type":"idle","timers":2,"stalled":false}          before it waits, when one of these differs
 *                                                       from what was said last; first 0 and false
 *   {"type":"settled","error":CELL_ERROR|null,"values":{"key":JSON,…},"deleted":["key",…]}   last
 *
 * SIGTERM ends a worker at once, by its default action. */
#ifndef BELAY_CELL_WORKER_PROTOCOL_H
#define BELAY_CELL_WORKER_PROTOCOL_H

/* Exit codes that say why there was no `settled`. */
enum {
    WORKER_EXIT_SETTLED = 0,
    WORKER_EXIT_MEMORY = 90,   /* the memory limit was reached */
    WORKER_EXIT_LOCKDOWN = 91, /* the kernel refused what must be: nothing was run */
    WORKER_EXIT_PROTOCOL = 92, /* the host said something else than the above */
};

/* Bytes of one frame, either way. */
#define WORKER_FRAME_MAX ((size_t)40 * 1024 * 1024)

#endif
