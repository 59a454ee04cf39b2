#include "hostile.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMET_NICE       5
#define STORM_PROCESSES  400
#define STORM_MADE_MAX   20000
#define CHILD_STACK_SIZE ((size_t)64 * 1024)

void tree_rest(const char *argument)
{
    (void)argument;
    hostile_rest();
}

void tree_ignore_signals(const char *argument)
{
    (void)argument;
    for (int number = 1; number < 32; number++)
        sigaction(number, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    hostile_rest();
}

static void *tree_outlive_leader(void *leader)
{
    pthread_join(*(pthread_t *)leader, NULL);
    hostile_nap_ms(2);
    hostile_rest();
}

/* A process whose main thread has ended: its state is zombie, but it is alive. */
void tree_dead_leader(const char *argument)
{
    static pthread_t leader;
    pthread_t thread;
    (void)argument;
    leader = pthread_self();
    if (pthread_create(&thread, NULL, tree_outlive_leader, &leader) != 0)
        _exit(HOSTILE_EXIT_USAGE);
    pthread_exit(NULL);
}

/* Continues in a child in a new session, forever, and exits as soon as there is one. */
_Noreturn static void tree_fly(void)
{
    bool first = true;
    while (!hostile_is_over()) {
        pid_t child = fork();
        if (child > 0)
            _exit(0);
        if (child < 0) {
            hostile_nap_ms(1);
            continue;
        }
        hostile_limit_life();
        setsid();
        if (first)
            hostile_stand();
        first = false;
    }
    _exit(0);
}

void tree_comets(const char *argument)
{
    /* Only root may lower its nice value. */
    if (getpriority(PRIO_PROCESS, 0) < COMET_NICE && setpriority(PRIO_PROCESS, 0, COMET_NICE) != 0)
        _exit(HOSTILE_EXIT_USAGE);
    for (long i = hostile_number(argument); i > 0; i--)
        if (hostile_fork() == 0)
            tree_fly();
    hostile_rest();
}

struct storm {
    int alive;
    int made;
};

/* Every process of a storm forks while there is room; one in three exits and makes some. */
_Noreturn static void tree_blow(struct storm *storm)
{
    for (unsigned turn = 0; !hostile_is_over(); turn++) {
        int alive = __atomic_add_fetch(&storm->alive, 1, __ATOMIC_RELAXED);
        int made = __atomic_add_fetch(&storm->made, 1, __ATOMIC_RELAXED);
        pid_t child = alive <= STORM_PROCESSES && made <= STORM_MADE_MAX ? fork() : -1;
        if (child == 0) {
            hostile_limit_life();
            if (made % 2 == 0)
                setsid();
            continue;
        }
        if (child < 0) {
            __atomic_sub_fetch(&storm->alive, 1, __ATOMIC_RELAXED);
            hostile_nap_ms(1);
        }
        if (turn % 3 == 2 && alive > STORM_PROCESSES / 2) {
            __atomic_sub_fetch(&storm->alive, 1, __ATOMIC_RELAXED);
            _exit(0);
        }
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
    }
    _exit(0);
}

void tree_storm(const char *argument)
{
    (void)argument;
    struct storm *storm =
        mmap(NULL, sizeof *storm, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (storm == MAP_FAILED)
        _exit(HOSTILE_EXIT_USAGE);
    if (hostile_fork() == 0) {
        storm->alive = 1;
        hostile_stand();
        tree_blow(storm);
    }
    hostile_rest();
}

void tree_many(const char *argument)
{
    for (long i = hostile_number(argument); i > 0; i--)
        if (hostile_fork() == 0)
            hostile_rest();
    hostile_rest();
}

void tree_session(const char *argument)
{
    (void)argument;
    if (hostile_fork() == 0) {
        setsid();
        hostile_rest();
    }
    hostile_rest();
}

/* Two forks and a new session: its parent has exited. */
void tree_daemon(const char *argument)
{
    (void)argument;
    pid_t middle = hostile_fork();
    if (middle == 0) {
        setsid();
        if (hostile_fork() != 0)
            _exit(0);
        hostile_rest();
    }
    waitpid(middle, NULL, 0);
    hostile_rest();
}

/* A PID namespace, in a user namespace if necessary, with two processes and a nested namespace.
 * Plain processes if none is available. */
void tree_namespaces(const char *argument)
{
    (void)argument;
    for (int depth = 0; depth < 2; depth++) {
        if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
            break;
        if (hostile_fork() != 0)
            hostile_rest();
        if (hostile_fork() == 0)
            hostile_rest();
    }
    hostile_rest();
}

void tree_stopped(const char *argument)
{
    (void)argument;
    hostile_stand();
    for (;;)
        raise(SIGSTOP);
}

/* One process traces its sibling, which stays in a trace stop; the end of the tracer does not kill
 * it. */
void tree_traced(const char *argument)
{
    int standing[2];
    char byte = 's';
    (void)argument;
    if (pipe2(standing, O_CLOEXEC) != 0)
        _exit(HOSTILE_EXIT_USAGE);
    pid_t traced = hostile_fork();
    if (traced == 0) {
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        hostile_stand();
        if (write(standing[1], &byte, 1) != 1)
            _exit(HOSTILE_EXIT_USAGE);
        hostile_rest();
    }
    if (hostile_fork() == 0) {
        if (read(standing[0], &byte, 1) == 1 && ptrace(PTRACE_SEIZE, traced, NULL, NULL) == 0 &&
            ptrace(PTRACE_INTERRUPT, traced, NULL, NULL) == 0)
            waitpid(traced, NULL, __WALL);
        hostile_rest();
    }
    hostile_rest();
}

/* Orphans of a daemon are reparented to this process instead of the warden. */
void tree_subreaper(const char *argument)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    tree_daemon(argument);
}

static void *tree_execute(void *argument)
{
    (void)argument;
    hostile_execute("rest");
}

/* The thread that executes becomes the process, and its main thread ends. */
void tree_thread_exec(const char *argument)
{
    pthread_t thread;
    (void)argument;
    hostile_stand();
    if (pthread_create(&thread, NULL, tree_execute, NULL) != 0)
        _exit(HOSTILE_EXIT_USAGE);
    for (;;)
        pause();
}

/* Has the name and arguments of a warden. */
void tree_renamed(const char *argument)
{
    (void)argument;
    if (hostile_fork() == 0) {
        tree_rename_to("belay-warden");
        hostile_rest();
    }
    tree_rename_to("warden) Z 1 ");
    hostile_rest();
}

/* Shares its parent's memory. */
static int tree_borrow(void *argument)
{
    (void)argument;
    hostile_limit_life();
    return pause();
}

/* clone(2) with these flags, for a process that sleeps. */
static void tree_clone(int flags)
{
    char *stack = malloc(CHILD_STACK_SIZE);
    if (stack == NULL || clone(tree_borrow, stack + CHILD_STACK_SIZE, flags, NULL) < 0)
        _exit(HOSTILE_EXIT_USAGE);
}

/* The parent waits in the kernel until its child executes or exits, which it never does. */
void tree_vfork(const char *argument)
{
    (void)argument;
    if (hostile_fork() == 0) {
        hostile_stand();
        tree_clone(CLONE_VM | CLONE_VFORK | SIGCHLD);
    }
    hostile_rest();
}

/* Sleeps as a child of this process's parent, which did not start it. */
void tree_clone_parent(const char *argument)
{
    (void)argument;
    if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL) == 0) {
        hostile_limit_life();
        setsid();
    }
    hostile_rest();
}

/* A child that waitpid(2) reports only with __WALL. It leaves another one behind. */
void tree_no_exit_signal(const char *argument)
{
    (void)argument;
    if (syscall(SYS_clone, 0, NULL, NULL, NULL, NULL) == 0) {
        hostile_limit_life();
        if (syscall(SYS_clone, CLONE_PARENT, NULL, NULL, NULL, NULL) == 0)
            hostile_limit_life();
    }
    hostile_rest();
}

/* The setuid copy of this program: its real user is still the old one, unless all ids are to
 * change. */
void tree_other_user(const char *argument)
{
    uid_t user = geteuid();
    if (argument != NULL && strcmp(argument, "all") == 0 && setresuid(user, user, user) != 0)
        _exit(HOSTILE_EXIT_USAGE);
    setsid();
    hostile_fork();
    hostile_rest();
}
