/* The protocol between a host and a worker, over one stream socket: the worker's descriptor 0.
 * Frames as on the wire: 4 bytes of unsigned big-endian length, then that many bytes of UTF-8 JSON.
 *
 * To the worker:
 *   {"type":"start","source":"…","tools":[{"name":"read","description":"…","input":"object|text"}],
 *    "values":{"key":JSON,…},"memory_bytes":67108864,"output_bytes":4194304,"notify":true}   once
 *   {"type":"result","call":1,"ok":JSON}  or  {…,"err":{"kind":"denied","message":"…"}}
 *   {"type":"notified","seq":1}                         one `notify` is acknowledged
 *
 * From the worker:
 *   {"type":"ready"}                                    the engine runs, locked down; before start
 *   {"type":"item","item":ITEM}                         sent at once, so that no output is lost
 *   {"type":"yield"}
 *   {"type":"call","call":1,"tool":"read","input":JSON} numbers count from 1; `tool` is the name as
 *                                                       in start; at most 64 unanswered; the others
 *                                                       wait in the worker
 *   {"type":"notify","seq":1,"text":"…"}                at most 64 unacknowledged: else RangeError
 *   {"type":"idle","timers":2,"stalled":false}          before it waits, if one of these has
 *                                                       changed; initially 0 and false
 *   {"type":"settled","error":CELL_ERROR|null,"values":{"key":JSON,…},"deleted":["key",…]}   last
 *
 * The host reads and writes these by a table (cell/codec/worker.c).
 *
 * SIGTERM ends a worker at once, by its default action. */
#ifndef BELAY_CELL_WORKER_PROTOCOL_H
#define BELAY_CELL_WORKER_PROTOCOL_H

/* Exit codes that explain a missing `settled`. */
enum {
    WORKER_EXIT_SETTLED = 0,
    WORKER_EXIT_MEMORY = 90,   /* the memory limit was reached */
    WORKER_EXIT_LOCKDOWN = 91, /* the lockdown failed: no cell code has run */
    WORKER_EXIT_PROTOCOL = 92, /* the host violated this protocol */
};

/* Bytes of one frame, either way. */
#define WORKER_FRAME_MAX ((size_t)40 * 1024 * 1024)

#endif
