#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "parts.h"

#define SIGNAL_STACK_SIZE ((size_t)64 * 1024)

static void overflow_say(const char *text)
{
    /* If standard error is closed, nothing can be done. */
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

/* Runs on the signal stack, because the fiber's stack is full. For any fault, the process ends by
 * the default action when the instruction is executed again. */
static void segment_fault(int number, siginfo_t *info, void *context)
{
    const struct bl_fiber *fiber = bl_fiber_current();
    const char *address = info->si_addr;
    (void)context;
    if (fiber != NULL && fiber->stack != NULL && address >= fiber->stack - STACK_GUARD &&
        address < fiber->stack) {
        overflow_say("belay: fiber \"");
        overflow_say(fiber->name);
        overflow_say("\" has overflowed its stack\n");
    }
    struct sigaction fallback = {.sa_handler = SIG_DFL};
    sigaction(number, &fallback, NULL);
}

int bl_loop_catch_overflow(void)
{
    void *memory =
        mmap(NULL, SIGNAL_STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return bl_error_from_errno(errno);
    stack_t stack = {.ss_sp = memory, .ss_size = SIGNAL_STACK_SIZE};
    struct sigaction action = {.sa_sigaction = segment_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    if (sigaltstack(&stack, NULL) < 0 || sigaction(SIGSEGV, &action, NULL) < 0 ||
        sigaction(SIGBUS, &action, NULL) < 0)
        return bl_error_from_errno(errno);
    return 0;
}
