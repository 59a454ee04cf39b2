#include <belay/proc.h>

#include "cli.h"

int main(int count, char **arguments)
{
    bl_environment_hide();
    int exit_code = cli_main(count, arguments);
    bl_proc_protect_end();
    return exit_code;
}
