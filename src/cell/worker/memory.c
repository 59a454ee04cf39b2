/* Design notes.
 *
 * The kernel limits the address space exactly, at the moment of an allocation. The engine then
 * throws "Out of memory", which cell code can catch, or crashes. A crash counts as reaching the
 * limit if the last failure was an allocation, or if little was left.
 *
 * Some of the engine's memory is reserved at its start (code, shapes of objects) and grows unseen
 * by this limit. So the resident memory is checked, too, every few milliseconds of computing, with
 * a margin. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "parts.h"

#define LOOK_US         5000
#define RESIDENT_MARGIN ((uint64_t)8 * 1024 * 1024)
#define CRASH_STACK     ((size_t)64 * 1024)
#define FIELDS          3 /* size, resident, shared */

static int statm_fd = -1;
static uint64_t page_size;
static uint64_t address_max, anonymous_max; /* 0: no limit yet */
static uint64_t address_limit;              /* the growth that is allowed */
static char crash_stack[CRASH_STACK] __attribute__((aligned(16)));

void memory_exhausted(void)
{
    _exit(WORKER_EXIT_MEMORY);
}

/* Reads the sizes, in pages. Safe in a signal handler. */
static bool memory_look(uint64_t ret_fields[FIELDS])
{
    char text[128];
    ssize_t size = pread(statm_fd, text, sizeof text, 0);
    ssize_t i = 0;
    for (unsigned field = 0; field < FIELDS; field++) {
        ret_fields[field] = 0;
        while (i < size && text[i] >= '0' && text[i] <= '9')
            ret_fields[field] = ret_fields[field] * 10 + (uint64_t)(text[i++] - '0');
        i++;
    }
    return size > 0;
}

static void look_at_resident(int number)
{
    (void)number;
    int code = errno;
    uint64_t fields[FIELDS];
    if (anonymous_max > 0 && memory_look(fields) &&
        (fields[1] - fields[2]) * page_size > anonymous_max)
        memory_exhausted();
    errno = code;
}

bool memory_short(void)
{
    bool refused = errno == ENOMEM;
    uint64_t fields[FIELDS];
    if (address_max == 0 || !memory_look(fields))
        return false;
    return refused || fields[0] * page_size > address_max - address_limit / 4;
}

static void crashed(int number)
{
    if (memory_short())
        memory_exhausted();
    /* The handler was reset (SA_RESETHAND): this signal ends the process. */
    raise(number);
}

static int handle(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    return sigaction(number, &action, NULL);
}

int memory_prepare(void)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGFPE};
    const stack_t stack = {.ss_sp = crash_stack, .ss_size = sizeof crash_stack};
    page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    statm_fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (statm_fd < 0 || sigaltstack(&stack, NULL) < 0)
        return -1;
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        if (handle(crashes[i], crashed, SA_ONSTACK | SA_RESETHAND | SA_NODEFER) < 0)
            return -1;
    return handle(SIGPROF, look_at_resident, SA_RESTART) < 0 ? -1 : statm_fd;
}

void memory_limit(uint64_t size)
{
    const struct itimerval often = {{0, LOOK_US}, {0, LOOK_US}};
    uint64_t fields[FIELDS];
    if (!memory_look(fields))
        _exit(WORKER_EXIT_LOCKDOWN);
    address_limit = size;
    address_max = fields[0] * page_size + size;
    anonymous_max = (fields[1] - fields[2]) * page_size + size + RESIDENT_MARGIN;
    struct rlimit limit = {address_max, address_max};
    if (setrlimit(RLIMIT_AS, &limit) < 0 || setitimer(ITIMER_PROF, &often, NULL) < 0)
        _exit(WORKER_EXIT_LOCKDOWN);
    errno = 0;
}
