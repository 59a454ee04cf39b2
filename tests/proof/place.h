/* Information from the kernel about processes and mounts, and users for tests that start as root:
 * for the hostile program, its observer and the trials. */
#ifndef BELAY_TESTS_PROOF_PLACE_H
#define BELAY_TESTS_PROOF_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reserved users: no other process counts against their limits. */
#define PLACE_USER       64321
#define PLACE_OTHER_USER 64322

/* Reads the first bytes of a file, NUL-terminated; empty if it cannot be read. Returns their
 * number. */
size_t place_read(const char *path, char *out, size_t size);
/* Copies a program to a new file that belongs to `owner` and is setuid. */
bool place_copy_setuid(const char *program, const char *path, uid_t owner);
/* Changes the user of this process, which is root, permanently. */
bool place_become(uid_t user);
/* Finds the first mount of that file system type that has the option (NULL: any). */
bool place_find_mount(const char *type, const char *option, char *out, size_t size);

#endif
