/* Records of wardens that outlive Belay: one file for each Belay process, with one slot for each of
 * its wardens. A warden writes its identity there before it starts its command, and what it has
 * proved when it ends. If Belay is killed with `kill -9`, the file stays: the guard finds the
 * wardens by it, and the next Belay that opens the same work reads how they ended.
 *
 * Written with pwrite and never synced: the records must survive the end of a process, not a
 * reboot, after which none of these processes exists. Uses the C library only. */
#ifndef BELAY_PROC_RECORD_H
#define BELAY_PROC_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#define RECORD_MAGIC 0x62776431u /* changes with the layout */
#define RECORDS_MAX  4096

enum record_state {
    RECORD_FREE,
    RECORD_HELD,  /* the warden holds a tree, or was killed while it did */
    RECORD_ENDED, /* survivors and doubt are its final result */
};

struct record {
    uint32_t magic;
    uint32_t state;
    int32_t pid; /* of the warden */
    int32_t mechanism;
    uint64_t started;  /* of the warden, in clock ticks since boot */
    int32_t init;      /* pidns: pid of the namespace's init, seen from outside; otherwise 0 */
    int32_t processes; /* this and the following as in WARDEN_QUIET */
    int32_t survivors;
    int32_t strongest;
    int32_t doubt;
    int32_t doubt_errno;
    char cgroup[976]; /* path; empty: none */
};

_Static_assert(sizeof(struct record) == 1024, "records have fixed places");

/* Returns false if there is no record with this number, or it cannot be read. */
bool record_read(int fd, int number, struct record *ret_record);
/* Returns false if the record was not written. A slot that was written before can be written again
 * even if the disk is full. */
bool record_write(int fd, int number, const struct record *record);

#endif
