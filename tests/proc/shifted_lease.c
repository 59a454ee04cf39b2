/* Takes the place of src/proc/warden/lease.c in a warden for tests. Its clock is CLOCK_BOOTTIME and
 * the nanoseconds in the file that BELAY_TEST_BOOTTIME names (int64_t): a test that adds an hour
 * there does to it what an hour of suspension does. The real timer fires when the machine wakes;
 * this one looks every 5 ms. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "proc/warden/warden.h"

#define NS_PER_S  1000000000u
#define PERIOD_NS 5000000

static int shift = -1;

int lease_open(struct lease *lease)
{
    const char *path = getenv("BELAY_TEST_BOOTTIME");
    shift = open(path != NULL ? path : "/dev/null", O_RDONLY | O_CLOEXEC);
    *lease = (struct lease){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
    return lease->fd < 0 ? errno : 0;
}

void lease_set(struct lease *lease, uint64_t until_ns)
{
    const struct timespec period = {.tv_nsec = until_ns != 0 ? PERIOD_NS : 0};
    lease->until_ns = until_ns;
    timerfd_settime(lease->fd, 0, &(struct itimerspec){period, period}, NULL);
}

bool lease_over(const struct lease *lease)
{
    uint64_t times;
    int64_t shift_ns = 0;
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    if (read(lease->fd, &times, sizeof times) < 0 && errno != EAGAIN)
        return true;
    if (pread(shift, &shift_ns, sizeof shift_ns, 0) != sizeof shift_ns)
        shift_ns = 0;
    return lease->until_ns != 0 &&
           (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec + shift_ns >= (int64_t)lease->until_ns;
}
