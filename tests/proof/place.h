/* What the kernel says of processes and mounts, and users for tests that begin as root: for the
 * hostile program, its observer and those that play it. */
#ifndef BELAY_TESTS_PROOF_PLACE_H
#define BELAY_TESTS_PROOF_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Users of their own: no other process counts against their limits. */
#define PLACE_USER       64321
#define PLACE_OTHER_USER 64322

/* The first bytes of a file, ended by NUL; empty where it cannot be read. Returns how many. */
size_t place_read(const char *path, char *out, size_t size);
/* Copies a program to a new file that belongs to `owner` and is setuid. */
bool place_copy_setuid(const char *program, const char *path, uid_t owner);
/* Makes this process, which is root's, that user's for good. */
bool place_become(uid_t user);
/* Where the first file system of that type is mounted that has the option (NULL: any). */
bool place_find_mount(const char *type, const char *option, char *out, size_t size);

#endif
