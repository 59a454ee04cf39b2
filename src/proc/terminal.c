#include <belay/proc.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The tool's end of the terminal behind `ours`, or -1. */
static int open_end(int ours, uint16_t rows, uint16_t columns)
{
    char name[64];
    struct winsize size = {.ws_row = rows, .ws_col = columns};
    if (grantpt(ours) < 0 || unlockpt(ours) < 0 || ptsname_r(ours, name, sizeof name) != 0)
        return -1;
    int end = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (end >= 0 && ioctl(end, TIOCSWINSZ, &size) < 0) {
        close(end);
        return -1;
    }
    return end;
}

int bl_terminal_open(uint16_t rows, uint16_t columns, int *ret_ours, int *ret_end)
{
    int ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ours < 0)
        return bl_error_from_errno(errno);
    int end = open_end(ours, rows, columns);
    if (end < 0) {
        int code = bl_error_from_errno(errno);
        close(ours);
        return code;
    }
    *ret_ours = ours;
    *ret_end = end;
    return 0;
}
