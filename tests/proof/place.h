/* Reading what the kernel says of processes and mounts: for the hostile program and its observer.
 */
#ifndef BELAY_TESTS_PROOF_PLACE_H
#define BELAY_TESTS_PROOF_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* The first bytes of a file, ended by NUL; empty where it cannot be read. Returns how many. */
size_t place_read(const char *path, char *out, size_t size);
/* Where the first file system of that type is mounted that has the option (NULL: any). */
bool place_find_mount(const char *type, const char *option, char *out, size_t size);

#endif
