/* Included before every source of the coverage flavour (make coverage): counters are written at
 * exit, and _exit, by which forked children end, would lose them. Written and begun anew, because a
 * child may share its parent's memory. */
#include <unistd.h>

void __gcov_dump(void);
void __gcov_reset(void);

__attribute__((noreturn, unused)) static void coverage_exit(int code)
{
    __gcov_dump();
    __gcov_reset();
    (_exit)(code);
}
#define _exit(code) coverage_exit(code)
