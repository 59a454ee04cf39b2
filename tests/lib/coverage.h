/* Included before every source of the coverage flavour (make coverage). Counters are written at
 * exit, and _exit, with which forked children end, would lose them. They are written and then
 * reset, because a child may share its parent's memory. */
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
