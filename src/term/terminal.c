/* Design notes.
 *
 * The state to restore when the process ends is in one static place that a signal handler can read:
 * the previous modes, and whether the terminal is raw now. It is restored once, by the first of
 * terminal_close, exit, and the handler of a signal that ends the process. After a crash the
 * handler reinstalls the previous handler and lets the signal occur again, so that crash reporting
 * still works. Only SIGKILL leaves a raw terminal behind: no handler runs then.
 *
 * A process in the background leaves the terminal alone: its modes are then the shell's. */
#include "term.h"

#include <belay/fiber.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* How long a terminal that accepts no output may delay the end. */
#define RESTORE_WAIT_MS   100
#define SIGNAL_STACK_SIZE 65536

#define TAKE "\x1B[?2004h"
/* Paste, wrapping, cursor and drawing, as usual. */
#define LEAVE "\x1B[?2004l\x1B[?7h\x1B[?25h\x1B[?2026l"
/* After an interruption: also resets colours and begins a new line. */
#define ALTERNATE_ON  "\x1B[?1049h"
#define ALTERNATE_OFF "\x1B[?1049l"
#define TITLE_TAKE    "\x1B[22;2t"
#define TITLE_LEAVE   "\x1B[23;2t"
#define TITLE_SIZE    256u
#define LEAVE_CRASHED LEAVE "\x1B[0m\r\n"

/* Signals that end a process. A fault occurs again when its handler returns, with all the data for
 * its report; other signals are raised again. Signals that a program may handle are left to it if
 * it does. */
static const struct {
    int number;
    bool fault;
    bool unless_used;
} ending_signals[] = {
    {SIGSEGV, true, false},  {SIGBUS, true, false},  {SIGILL, true, false},  {SIGFPE, true, false},
    {SIGABRT, false, false}, {SIGSYS, false, true},  {SIGHUP, false, true},  {SIGINT, false, true},
    {SIGQUIT, false, true},  {SIGTERM, false, true}, {SIGXCPU, false, true}, {SIGALRM, false, true},
};

/* The state to restore when the process ends. */
static struct {
    _Atomic(bool) taken;
    pid_t owner; /* a forked child must not restore anything */
    int input;
    int output;
    struct termios before;
    struct termios raw;
    int input_flags; /* of a shared file description; -1 if it is our own */
    int output_flags;
    struct sigaction actions[BL_COUNT(ending_signals)];
    bool at_exit;
    _Atomic(bool) alternate;
    _Atomic(bool) titled; /* the previous title is on the terminal's stack */
} held;

struct terminal {
    int input;
    int output;
    struct bl_descriptor *reader;
    struct bl_descriptor *writer;
    struct bl_signal *window;
    struct bl_signal *resume;
    struct bl_nursery nursery;
    struct bl_scope *reading; /* scope of the fiber waiting for input; NULL if there is none */
    bool changed;
    bool gone;
    char title[TITLE_SIZE];
    size_t title_size;
    char bytes[16384];
};

static struct terminal *open_terminal;

/* ---- Taking and restoring the terminal ------------------------------------------------------- */

/* On a terminal other than that of our session, we have no foreground group. */
static bool in_background(void)
{
    pid_t foreground = tcgetpgrp(held.input);
    return foreground > 0 && foreground != getpgrp();
}

/* Also called from a signal handler. */
static void terminal_write_now(struct bl_text text)
{
    while (text.size > 0) {
        ssize_t count = write(held.output, text.data, text.size);
        if (count > 0) {
            text.data += count;
            text.size -= (size_t)count;
        } else if (errno == EAGAIN) {
            struct pollfd wait = {.fd = held.output, .events = POLLOUT};
            if (poll(&wait, 1, RESTORE_WAIT_MS) <= 0)
                return;
        } else if (errno != EINTR) {
            return;
        }
    }
}

static void restore_flags(int fd, int flags)
{
    if (flags >= 0)
        fcntl(fd, F_SETFL, flags);
}

/* Also called from a signal handler. Signals that stop a process must be blocked: a change of modes
 * sends one to a process in the background. */
static void terminal_restore(struct bl_text sequence)
{
    if (held.owner != getpid() || !atomic_exchange(&held.taken, false))
        return;
    bool titled = atomic_exchange(&held.titled, false);
    bool alternate = atomic_exchange(&held.alternate, false);
    if (!in_background()) {
        if (alternate)
            terminal_write_now(BL_TEXT(ALTERNATE_OFF));
        if (titled)
            terminal_write_now(BL_TEXT(TITLE_LEAVE));
        terminal_write_now(sequence);
        tcsetattr(held.input, TCSANOW, &held.before);
    }
    restore_flags(held.input, held.input_flags);
    restore_flags(held.output, held.output_flags);
}

static void terminal_restore_blocked(struct bl_text sequence)
{
    sigset_t block, before;

    sigemptyset(&block);
    sigaddset(&block, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    terminal_restore(sequence);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void terminal_restore_at_exit(void)
{
    terminal_restore_blocked(BL_TEXT(LEAVE_CRASHED));
}

static int terminal_take(void)
{
    /* Before anything changes: restoring too early does no harm. */
    atomic_store(&held.taken, true);
    if (tcsetattr(held.input, TCSANOW, &held.raw) < 0)
        return bl_error_from_errno(errno);
    terminal_write_now(BL_TEXT(TAKE));
    return 0;
}

static struct termios raw_modes(struct termios modes)
{
    modes.c_iflag &= ~(tcflag_t)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
    /* Output modes stay: text of other code (a crash report) needs line ends. */
    modes.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | ISIG | IEXTEN);
    modes.c_cflag &= ~(tcflag_t)(CSIZE | PARENB);
    modes.c_cflag |= CS8;
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    return modes;
}

/* ---- Signals that end the process ------------------------------------------------------------ */

static void ending_signal(int number, siginfo_t *info, void *context)
{
    struct sigaction fallback = {.sa_handler = SIG_DFL};
    const struct sigaction *next = &fallback;
    int saved = errno;
    bool again = false;

    (void)context;
    terminal_restore(BL_TEXT(LEAVE_CRASHED));
    for (size_t i = 0; i < BL_COUNT(ending_signals); i++) {
        if (ending_signals[i].number != number)
            continue;
        /* Signals sent by a process have a code of 0 or less. */
        again = ending_signals[i].fault && info->si_code > 0;
        /* A handler for faults would wait for the next fault if this was not one. */
        if (again || !ending_signals[i].fault)
            next = &held.actions[i];
    }
    sigaction(number, next, NULL);
    if (!again)
        raise(number);
    errno = saved;
}

/* The handler for a stack overflow needs another stack. */
static void provide_signal_stack(void)
{
    static char memory[SIGNAL_STACK_SIZE];
    stack_t stack;

    if (sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_DISABLE) != 0) {
        stack = (stack_t){.ss_sp = memory, .ss_size = sizeof memory};
        sigaltstack(&stack, NULL);
    }
}

static void catch_ending_signals(void)
{
    struct sigaction ours = {.sa_sigaction = ending_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    provide_signal_stack();
    sigfillset(&ours.sa_mask);
    for (size_t i = 0; i < BL_COUNT(ending_signals); i++) {
        struct sigaction *before = &held.actions[i];
        sigaction(ending_signals[i].number, NULL, before);
        bool used = (before->sa_flags & SA_SIGINFO) != 0 || before->sa_handler != SIG_DFL;
        if (!used || !ending_signals[i].unless_used)
            sigaction(ending_signals[i].number, &ours, NULL);
    }
}

static void leave_ending_signals(void)
{
    for (size_t i = 0; i < BL_COUNT(ending_signals); i++) {
        struct sigaction now;
        sigaction(ending_signals[i].number, NULL, &now);
        if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == ending_signal)
            sigaction(ending_signals[i].number, &held.actions[i], NULL);
    }
}

/* ---- Window changes and continuation --------------------------------------------------------- */

static void terminal_notify_change(struct terminal *terminal)
{
    terminal->changed = true;
    if (terminal->reading != NULL)
        bl_scope_stop(terminal->reading, BL_STOP_USER, "window");
}

static int window_main(void *argument)
{
    struct terminal *terminal = argument;
    int code;

    while ((code = bl_signal_wait(terminal->window, NULL)) == 0)
        terminal_notify_change(terminal);
    return code;
}

/* While we were stopped, the shell has changed the modes. */
static int resume_main(void *argument)
{
    struct terminal *terminal = argument;
    int code;

    while ((code = bl_signal_wait(terminal->resume, NULL)) == 0) {
        terminal_take();
        terminal_notify_change(terminal);
    }
    return code;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

/* Opens a file description of our own, whose O_NONBLOCK does not affect other processes. Another
 * user's terminal cannot be opened again: then the description is shared, and its flags are
 * restored. */
static int terminal_open_anew(int fd, int mode, int *ret_flags)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, mode | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    *ret_flags = -1;
    if (own >= 0)
        return own;
    *ret_flags = fcntl(fd, F_GETFL);
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static int terminal_watch(struct terminal *terminal)
{
    int code = bl_descriptor_new(terminal->input, &terminal->reader);

    if (code == 0)
        code = bl_descriptor_new(terminal->output, &terminal->writer);
    if (code == 0)
        code = bl_signal_new(SIGWINCH, &terminal->window);
    if (code == 0)
        code = bl_signal_new(SIGCONT, &terminal->resume);
    if (code == 0)
        code = bl_nursery_spawn(&terminal->nursery, NULL, "window", window_main, terminal, NULL);
    if (code == 0)
        code = bl_nursery_spawn(&terminal->nursery, NULL, "resume", resume_main, terminal, NULL);
    return code;
}

static int terminal_hold(struct terminal *terminal)
{
    if (tcgetattr(terminal->input, &held.before) < 0)
        return bl_error_from_errno(errno);
    held.raw = raw_modes(held.before);
    held.owner = getpid();
    held.input = terminal->input;
    held.output = terminal->output;
    if (!held.at_exit)
        held.at_exit = atexit(terminal_restore_at_exit) == 0;
    catch_ending_signals();
    return terminal_take();
}

int terminal_open(int input, int output, struct terminal **ret_terminal, struct bl_error *error)
{
    if (open_terminal != NULL)
        return bl_error_set(error, BL_EBUSY, BL_KIND_RUNTIME, "open terminal", NULL,
                            "the terminal is already in use");
    if (isatty(input) != 1 || isatty(output) != 1)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "open terminal", NULL,
                            "standard input and output must be a terminal");
    struct terminal *terminal = bl_zalloc(sizeof *terminal);
    open_terminal = terminal;
    bl_nursery_init(&terminal->nursery, bl_scope_current());
    terminal->input = terminal_open_anew(input, O_RDONLY, &held.input_flags);
    terminal->output = terminal_open_anew(output, O_WRONLY, &held.output_flags);
    int code = terminal_watch(terminal);
    if (code == 0)
        code = terminal_hold(terminal);
    if (code == 0) {
        *ret_terminal = terminal;
        return 0;
    }
    terminal_close(terminal);
    return bl_error_set(error, code, BL_KIND_RUNTIME, "open terminal", NULL,
                        "cannot use the terminal: %s", bl_error_text(code));
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void terminal_close(struct terminal *terminal)
{
    if (terminal == NULL)
        return;
    bl_nursery_done(&terminal->nursery);
    bl_signal_free(terminal->window);
    bl_signal_free(terminal->resume);
    bl_descriptor_free(terminal->reader);
    bl_descriptor_free(terminal->writer);
    terminal_restore_blocked(BL_TEXT(LEAVE));
    leave_ending_signals();
    close_if_open(terminal->input);
    close_if_open(terminal->output);
    bl_free(terminal);
    open_terminal = NULL;
}

/* ---- Use ------------------------------------------------------------------------------------- */

void terminal_size(const struct terminal *terminal, size_t *ret_columns, size_t *ret_rows)
{
    struct winsize size = {0};

    ioctl(terminal->output, TIOCGWINSZ, &size);
    *ret_columns = size.ws_col > 0 ? size.ws_col : 80;
    *ret_rows = size.ws_row > 0 ? size.ws_row : 24;
}

/* Waits for input, a change or the deadline; does not report which it was. */
static void await_input(struct terminal *terminal, uint64_t deadline_ns)
{
    struct bl_scope wait;

    bl_limit_begin_until(&wait, deadline_ns);
    terminal->reading = &wait;
    bl_descriptor_wait(terminal->reader, BL_READABLE, NULL);
    terminal->reading = NULL;
    bl_limit_end(&wait);
}

int terminal_read(struct terminal *terminal, uint64_t limit_ns, struct terminal_input *ret_input)
{
    uint64_t deadline = limit_ns == 0 ? BL_NEVER : bl_time_add(bl_now_ns(), limit_ns);
    int code;

    *ret_input = (struct terminal_input){0};
    while ((code = bl_check()) == 0 && !terminal->gone) {
        if (terminal->changed) {
            terminal->changed = false;
            ret_input->resized = true;
            return 0;
        }
        ssize_t count = read(terminal->input, terminal->bytes, sizeof terminal->bytes);
        if (count > 0) {
            ret_input->bytes = (struct bl_text){terminal->bytes, (size_t)count};
            return 0;
        }
        if (count < 0 && errno == EINTR)
            continue;
        terminal->gone = count == 0 || errno != EAGAIN;
        if (terminal->gone)
            break;
        if (bl_now_ns() >= deadline)
            return BL_EAGAIN;
        await_input(terminal, deadline);
    }
    ret_input->gone = code == 0;
    return code;
}

int terminal_write(struct terminal *terminal, struct bl_text bytes)
{
    if (terminal->gone)
        return BL_ECLOSED;
    int code = bl_descriptor_write(terminal->writer, bytes.data, bytes.size, NULL);
    if (code == 0 || code == BL_ECANCELED || code == BL_ETIMEDOUT)
        return code;
    terminal->gone = true;
    return BL_ECLOSED;
}

void terminal_alternate(struct terminal *terminal, bool on)
{
    if (atomic_exchange(&held.alternate, on) != on)
        terminal_write(terminal, on ? BL_TEXT(ALTERNATE_ON) : BL_TEXT(ALTERNATE_OFF));
}

void terminal_title(struct terminal *terminal, struct bl_text title)
{
    char text[TITLE_SIZE + 32];

    title = bl_utf8_cut(title, TITLE_SIZE);
    bool same = bl_text_equal(title, (struct bl_text){terminal->title, terminal->title_size});
    bool titled = atomic_exchange(&held.titled, terminal_takes_strings());
    if (!terminal_takes_strings() || (titled && same))
        return;
    memcpy(terminal->title, title.data, title.size);
    terminal->title_size = title.size;
    int size = snprintf(text, sizeof text, "%s\x1B]2;" BL_TEXT_FORMAT "\x1B\\",
                        titled ? "" : TITLE_TAKE, BL_TEXT_ARG(title));
    terminal_write(terminal, (struct bl_text){text, (size_t)size});
}

void terminal_suspend(struct terminal *terminal)
{
    terminal_restore_blocked(BL_TEXT(LEAVE));
    /* Stop the whole job, as the terminal itself would do. */
    kill(0, SIGTSTP);
    terminal_take();
    terminal->changed = true;
}

bool terminal_takes_strings(void)
{
    static const char *const names[] = {"dumb", "linux", "vt", "ansi", "cons", "sun", "unknown"};
    const char *term = bl_variable("TERM");

    for (size_t i = 0; term != NULL && i < BL_COUNT(names); i++) {
        if (bl_text_starts_with(bl_text_from(term), bl_text_from(names[i])))
            return false;
    }
    return term != NULL;
}

bool terminal_moves(void)
{
    const char *term = bl_variable("TERM");

    return term != NULL && strcmp(term, "dumb") != 0;
}

bool terminal_reflows(void)
{
    static const char *const variables[] = {
        "TMUX",           "VTE_VERSION",      "KITTY_WINDOW_ID",
        "WEZTERM_PANE",   "ALACRITTY_SOCKET", "KONSOLE_VERSION",
        "WT_SESSION",     "GHOSTTY_BIN_DIR",  "ITERM_SESSION_ID",
        "TERM_SESSION_ID"};
    static const char *const names[] = {"tmux", "xterm-kitty",   "alacritty",
                                        "foot", "xterm-ghostty", "rxvt-unicode"};
    const char *term = getenv("TERM");

    /* GNU Screen inside one of these cuts lines. */
    if (bl_variable("STY") != NULL)
        return false;
    for (size_t i = 0; i < BL_COUNT(variables); i++) {
        if (bl_variable(variables[i]) != NULL)
            return true;
    }
    for (size_t i = 0; term != NULL && i < BL_COUNT(names); i++) {
        if (bl_text_starts_with(bl_text_from(term), bl_text_from(names[i])))
            return true;
    }
    return false;
}
