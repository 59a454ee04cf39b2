#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <uv.h>

#include <belay/fiber.h>

/* Returns the value of a numeric sysctl, or -1 if it cannot be read. */
static int64_t probe_system_read_number(const char *path)
{
    char data[64];
    int64_t value;

    if (bl_text_to_int64(bl_text_trim(bl_file_read(AT_FDCWD, path, data, sizeof data)), &value) !=
        0)
        return -1;
    return value;
}

void probe_system(struct probe_system *system)
{
    struct utsname names;
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    cpu_set_t set;

    *system = (struct probe_system){.page_bytes = page > 0 ? (uint64_t)page : 0};
    if (uname(&names) == 0) {
        snprintf(system->kernel, sizeof system->kernel, "%s", names.release);
        snprintf(system->machine, sizeof system->machine, "%s", names.machine);
    }
    /* Processors that this process may run on. If cpu_set_t is too small for the machine, all are
     * counted. */
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        system->processors = (unsigned)CPU_COUNT(&set);
    } else {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        system->processors = online > 0 ? (unsigned)online : 1;
    }
    if (pages > 0)
        system->memory_bytes = (uint64_t)pages * system->page_bytes;
}

static void read_limit(__rlimit_resource_t resource, struct probe_limit *ret_limit)
{
    struct rlimit limit = {0};

    getrlimit(resource, &limit);
    ret_limit->soft = limit.rlim_cur == RLIM_INFINITY ? PROBE_UNLIMITED : limit.rlim_cur;
    ret_limit->hard = limit.rlim_max == RLIM_INFINITY ? PROBE_UNLIMITED : limit.rlim_max;
}

void probe_limits(struct probe_limits *limits)
{
    read_limit(RLIMIT_NOFILE, &limits->open_files);
    read_limit(RLIMIT_NPROC, &limits->processes);
    limits->memory_maps = probe_system_read_number("/proc/sys/vm/max_map_count");
    limits->memory_overcommit = probe_system_read_number("/proc/sys/vm/overcommit_memory");
}

void probe_fibers(struct probe_fibers *fibers)
{
    struct bl_stack_facts facts;
    bl_loop_stack_facts(&facts);
    fibers->guard = facts.guard;
    fibers->fibers_max = facts.fibers_max;
    fibers->stack_bytes = facts.size;
}

void probe_libraries(struct probe_library libraries[PROBE_LIBRARIES])
{
    libraries[0] = (struct probe_library){.name = "libuv"};
    snprintf(libraries[0].compiled, sizeof libraries[0].compiled, "%d.%d.%d", UV_VERSION_MAJOR,
             UV_VERSION_MINOR, UV_VERSION_PATCH);
    snprintf(libraries[0].running, sizeof libraries[0].running, "%s", uv_version_string());
    libraries[1] = (struct probe_library){.name = "libc"};
    snprintf(libraries[1].compiled, sizeof libraries[1].compiled, "%d.%d", __GLIBC__,
             __GLIBC_MINOR__);
    snprintf(libraries[1].running, sizeof libraries[1].running, "%s", gnu_get_libc_version());
}
