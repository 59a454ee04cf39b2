#include "warden.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>

#define NS_PER_S 1000000000u

int lease_open(struct lease *lease)
{
    *lease = (struct lease){.fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)};
    return lease->fd < 0 ? errno : 0;
}

void lease_set(struct lease *lease, uint64_t until_ns)
{
    struct itimerspec timer = {.it_value = {.tv_sec = (time_t)(until_ns / NS_PER_S),
                                            .tv_nsec = (long)(until_ns % NS_PER_S)}};
    lease->until_ns = until_ns;
    timerfd_settime(lease->fd, TFD_TIMER_ABSTIME, &timer, NULL);
}

bool lease_over(const struct lease *lease)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return lease->until_ns != 0 &&
           (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec >= lease->until_ns;
}
