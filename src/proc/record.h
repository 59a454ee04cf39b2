/* Records of wardens, for the time after belay: a file of one belay process in which each of its
 * wardens has a place. A warden writes there who and where it is before it starts its command, and
 * what it proved when it ends. Killed with `kill -9`, belay leaves the file behind: the guard finds
 * the wardens by it, and the next belay that opens the same work reads what became of them.
 *
 * Written with pwrite and never synced: what must survive is the end of a process. After a restart
 * of the machine nothing of it runs. The C library alone. */
#ifndef BELAY_PROC_RECORD_H
#define BELAY_PROC_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define RECORD_MAGIC 0x62776431u /* changes with the layout */
#define RECORDS_MAX  4096

enum record_state {
    RECORD_FREE,
    RECORD_HELD,  /* the warden holds a tree, or was killed while it did */
    RECORD_ENDED, /* survivors and doubt are its last word */
};

struct record {
    uint32_t magic;
    uint32_t state;
    int32_t pid; /* of the warden */
    int32_t mechanism;
    uint64_t started;  /* of the warden, in clock ticks since boot */
    int32_t init;      /* pidns: the init of the namespace, as seen from outside; else 0 */
    int32_t processes; /* from here on as in WARDEN_QUIET */
    int32_t survivors;
    int32_t strongest;
    int32_t doubt;
    int32_t doubt_errno;
    char cgroup[976]; /* its path; empty: none */
};

_Static_assert(sizeof(struct record) == 1024, "records have fixed places");

/* False: there is none with that number, or it cannot be read. */
bool record_read(int fd, int number, struct record *ret_record);
/* False: it was not written. A place that was written before can be written again, on a full disk,
 * too. */
bool record_write(int fd, int number, const struct record *record);

#endif
