/* Design notes.
 *
 * Three independent barriers: Landlock with an empty rule set (no path can be opened, if the kernel
 * supports it), a system call filter (only the calls that an engine needs for computing and for
 * using open descriptors), and resource limits. A refused call fails and does not kill the process:
 * the engine can work around most refusals, and cell code must get an error.
 *
 * clone is allowed only for threads, by its flags. clone3 has its flags in memory, which a filter
 * cannot read, so it fails with ENOSYS: the C library then uses clone. */
#include "lockdown.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NICENESS        10
#define DESCRIPTORS_MAX 64

#if defined(__x86_64__)
#define AUDIT_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define AUDIT_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "unknown architecture: define AUDIT_ARCHITECTURE"
#endif

/* Missing in older headers. */
#if !defined(LANDLOCK_CREATE_RULESET_VERSION)
#define LANDLOCK_CREATE_RULESET_VERSION 1
#endif

/* ---- The filter ------------------------------------------------------------------------------ */

static const uint16_t allowed_calls[] = {
    __NR_read,
    __NR_write,
    __NR_pread64,
    __NR_ppoll,
#if defined(__NR_poll)
    __NR_poll,
#endif
    __NR_mmap,
    __NR_munmap,
    __NR_mprotect,
    __NR_mremap,
    __NR_madvise,
    __NR_brk,
    __NR_membarrier,
    __NR_futex,
    __NR_set_robust_list,
    __NR_rseq,
    __NR_sched_yield,
    __NR_sched_getaffinity,
    __NR_getpid,
    __NR_gettid,
    __NR_getrandom,
    __NR_getrusage,
    __NR_sysinfo,
    __NR_clock_gettime,
    __NR_clock_getres,
    __NR_clock_nanosleep,
    __NR_nanosleep,
    __NR_gettimeofday,
    __NR_setitimer,
    __NR_rt_sigaction,
    __NR_rt_sigprocmask,
    __NR_rt_sigreturn,
    __NR_sigaltstack,
    __NR_restart_syscall,
    __NR_exit,
    __NR_exit_group,
#if defined(__NR_time)
    __NR_time,
#endif
#if defined(__NR_arch_prctl)
    __NR_arch_prctl,
#endif
};

#define ALLOWED_COUNT (sizeof allowed_calls / sizeof allowed_calls[0])
#define FILTER_MAX    (2 * ALLOWED_COUNT + 64)

#define THREAD_FLAGS                                                                               \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned short count;
};

static void lockdown_add(struct filter *filter, struct sock_filter instruction)
{
    if (filter->count < FILTER_MAX)
        filter->code[filter->count++] = instruction;
}

static void lockdown_load(struct filter *filter, size_t offset)
{
    lockdown_add(filter, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void lockdown_answer(struct filter *filter, uint32_t what)
{
    lockdown_add(filter, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

/* Loads the low half of an argument: all arguments checked here have 32 bits, also in the
 * kernel. */
static void load_argument(struct filter *filter, unsigned number)
{
    lockdown_load(filter, offsetof(struct seccomp_data, args) + number * sizeof(uint64_t));
}

/* Allows the call `number` if that argument, masked with `mask`, has this value; refuses it
 * otherwise. */
static void allow_if(struct filter *filter, uint32_t number, unsigned argument, uint32_t mask,
                     uint32_t value)
{
    lockdown_add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 5));
    load_argument(filter, argument);
    lockdown_add(filter, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    lockdown_add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    lockdown_answer(filter, SECCOMP_RET_ALLOW);
    lockdown_answer(filter, SECCOMP_RET_ERRNO | EPERM);
}

static void build_filter(struct filter *filter)
{
    filter->count = 0;
    lockdown_load(filter, offsetof(struct seccomp_data, arch));
    lockdown_add(filter,
                 (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCHITECTURE, 1, 0));
    lockdown_answer(filter, SECCOMP_RET_KILL_PROCESS);
    lockdown_load(filter, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < ALLOWED_COUNT; i++) {
        lockdown_add(filter, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                          allowed_calls[i], 0, 1));
        lockdown_answer(filter, SECCOMP_RET_ALLOW);
    }
    /* Threads suspend each other with signals; no other process may be signalled. */
    allow_if(filter, __NR_tgkill, 0, UINT32_MAX, (uint32_t)getpid());
    allow_if(filter, __NR_clone, 0, THREAD_FLAGS, THREAD_FLAGS);
    /* Only for this process (0): its limit is set later, when the cell is known. */
    allow_if(filter, __NR_prlimit64, 0, UINT32_MAX, 0);
    allow_if(filter, __NR_prctl, 0, UINT32_MAX, PR_SET_NAME);
    lockdown_add(filter,
                 (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 0, 1));
    lockdown_answer(filter, SECCOMP_RET_ERRNO | ENOSYS);
    lockdown_answer(filter, SECCOMP_RET_ERRNO | EPERM);
}

static int apply_filter(void)
{
    struct filter filter;
    build_filter(&filter);
    struct sock_fprog program = {filter.count, filter.code};
    if (filter.count >= FILTER_MAX) {
        errno = E2BIG;
        return -1;
    }
    /* Applies to all threads of the process, including those that the engine has started. */
    return (int)syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Refuses every kind of access that this kernel's Landlock knows, for every path. On a kernel
 * without Landlock only the filter does so. */
static int apply_landlock(void)
{
    static const struct {
        int version;
        uint64_t access;
    } steps[] = {{1, (1ull << 13) - 1}, {2, 1ull << 13}, {3, 1ull << 14}, {5, 1ull << 15}};
    /* The kernel's layout; only newer kernels know the fields after the first. */
    struct {
        uint64_t access_fs, access_net, scoped;
    } rules = {0};
    int version =
        (int)syscall(__NR_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 0)
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -1;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        rules.access_fs |= version >= steps[i].version ? steps[i].access : 0;
    rules.access_net = version >= 4 ? 3 : 0;
    rules.scoped = version >= 6 ? 3 : 0;
    size_t size = version >= 6 ? sizeof rules : version >= 4 ? 16 : 8;
    int ruleset = (int)syscall(__NR_landlock_create_ruleset, &rules, size, 0);
    if (ruleset < 0)
        return -1;
    int code = (int)syscall(__NR_landlock_restrict_self, ruleset, 0);
    close(ruleset);
    return code;
}

/* The engine keeps event descriptors to wake itself, and a view of its own memory. */
static int is_engine_descriptor(int fd)
{
    char link[32], target[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, target, sizeof target - 1);
    if (size < 0)
        return 0;
    target[size] = '\0';
    return strcmp(target, "anon_inode:[eventfd]") == 0 ||
           (strncmp(target, "/proc/", 6) == 0 && strstr(target, "/statm") != NULL);
}

/* Closes the descriptors found in one scan of the folder, which must not change during it. Returns
 * their number, or -1. */
static int close_some(int kept)
{
    int closing[DESCRIPTORS_MAX];
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL)
        return -1;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        int fd = (int)strtol(entry->d_name, NULL, 10);
        if (fd > 2 && fd != kept && fd != dirfd(directory) && !is_engine_descriptor(fd) &&
            count < DESCRIPTORS_MAX)
            closing[count++] = fd;
    }
    closedir(directory);
    for (int i = 0; i < count; i++)
        close(closing[i]);
    return count;
}

static int close_descriptors(int kept)
{
    int count;
    do
        count = close_some(kept);
    while (count == DESCRIPTORS_MAX);
    if (count < 0)
        return -1;
    /* Inherited outputs must not be available to cell code. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return -1;
    return null > 2 ? close(null) : 0;
}

/* Linux may divide the processors among sessions first (autogroups), and each worker has a session
 * of its own, so that its nice value affects nothing outside. A session has a nice value, too. If
 * that cannot be set, busy cells leave the host less processor time than they should. */
static void make_session_nice(void)
{
    int file = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    dprintf(file, "%d", NICENESS);
    close(file);
}

int lockdown_apply(int kept)
{
    const struct rlimit none = {0, 0};
    const struct rlimit one = {1, 1}; /* the number of descriptors that poll gets */
    errno = 0;
    int nice_now = getpriority(PRIO_PROCESS, 0);
    if (errno != 0 || (nice_now < NICENESS && setpriority(PRIO_PROCESS, 0, NICENESS) < 0))
        return -1;
    make_session_nice();
    if (close_descriptors(kept) < 0)
        return -1;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || apply_landlock() < 0)
        return -1;
    /* No new descriptor can be opened; open ones stay open. */
    if (setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_NOFILE, &one) < 0 ||
        setrlimit(RLIMIT_FSIZE, &none) < 0)
        return -1;
    return apply_filter() == 0 ? 0 : -1;
}
