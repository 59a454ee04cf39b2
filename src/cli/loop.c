#include <belay/fiber.h>
#include <belay/proc.h>

#include "cli.h"

/* Without a runtime folder there are no records and no guard: stops still work, but a later belay
 * knows less about a process that was killed. */
void cli_processes_begin(void)
{
    bl_proc_adopt_orphans();
    bl_proc_protect(NULL);
}

int cli_loop_run(const char *name, int (*main)(void *argument), void *argument,
                 struct bl_error *error)
{
    bl_loop_catch_overflow();
    int code = bl_loop_once(name, main, argument, error);
    if (code == 0)
        return 0;
    return bl_error_set(error, code, BL_KIND_RUNTIME, name, NULL, "it failed: %s",
                        bl_error_text(code));
}
