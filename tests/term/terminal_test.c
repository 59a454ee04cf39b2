#include "fibers.h"
#include "suite.h"
#include "term/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

/* A process on its own terminal, and our end of it. */
struct guest {
    pid_t pid;
    int master;
    struct termios before;
    struct bl_buffer output;
};

/* Runs it with `run`: run_in_role, except for a process without fibers. */
static void guest_begin_as(struct guest *guest, int (*run)(bl_fiber_main *main, void *argument),
                           bl_fiber_main *main)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    int slave;

    assert_int_equal(openpty(&guest->master, &slave, NULL, NULL, &size), 0);
    assert_int_equal(tcgetattr(slave, &guest->before), 0);
    bl_buffer_init(&guest->output, SIZE_MAX / 2);
    guest->pid = fork();
    assert_true(guest->pid >= 0);
    if (guest->pid == 0) {
        close(guest->master);
        if (login_tty(slave) != 0)
            _exit(100);
        bl_loop_catch_overflow();
        _exit(run(main, NULL));
    }
    close(slave);
}

static void guest_begin(struct guest *guest, bl_fiber_main *main)
{
    guest_begin_as(guest, run_in_role, main);
}

/* Reads until the output contains `text`, and discards it up to there. Returns false if the guest
 * has exited. */
static bool guest_says(struct guest *guest, const char *text)
{
    ptrdiff_t at;

    while ((at = bl_text_find(bl_buffer_text(&guest->output), bl_text_from(text))) < 0) {
        char bytes[4096];
        ssize_t count = read(guest->master, bytes, sizeof bytes);
        if (count <= 0)
            return false;
        bl_buffer_append(&guest->output, (struct bl_text){bytes, (size_t)count});
    }
    bl_buffer_consume(&guest->output, (size_t)at + strlen(text));
    return true;
}

static bool is_raw(const struct guest *guest)
{
    struct termios modes;
    assert_int_equal(tcgetattr(guest->master, &modes), 0);
    return (modes.c_lflag & (ICANON | ECHO | ISIG)) == 0 && (modes.c_iflag & ICRNL) == 0;
}

static bool is_as_before(const struct guest *guest)
{
    struct termios modes;
    assert_int_equal(tcgetattr(guest->master, &modes), 0);
    return modes.c_lflag == guest->before.c_lflag && modes.c_iflag == guest->before.c_iflag &&
           modes.c_oflag == guest->before.c_oflag && modes.c_cflag == guest->before.c_cflag &&
           memcmp(modes.c_cc, guest->before.c_cc, sizeof modes.c_cc) == 0;
}

/* Discards the remaining output: a guest must not wait for us at its end. */
static int guest_end(struct guest *guest)
{
    int status = 0;
    pid_t ended;

    while ((ended = waitpid(guest->pid, &status, WNOHANG)) == 0) {
        struct pollfd wait = {.fd = guest->master, .events = POLLIN};
        char bytes[4096];
        if (poll(&wait, 1, 5) == 1 && (wait.revents & POLLIN) != 0 &&
            read(guest->master, bytes, sizeof bytes) < 0)
            continue;
    }
    assert_int_equal(ended, guest->pid);
    close(guest->master);
    bl_buffer_done(&guest->output);
    return status;
}

static void send_bytes(const struct guest *guest, const char *bytes)
{
    assert_int_equal(write(guest->master, bytes, strlen(bytes)), (ssize_t)strlen(bytes));
}

/* ---- Programs of the guests ------------------------------------------------------------------ */

static struct terminal *open_and_greet(void)
{
    struct terminal *terminal = NULL;

    CHECK_EQUAL(terminal_open(STDIN_FILENO, STDOUT_FILENO, &terminal, NULL), 0);
    if (terminal != NULL)
        CHECK_EQUAL(terminal_write(terminal, BL_TEXT("ready")), 0);
    return terminal;
}

/* Reads bytes until they are as expected. */
static bool reads(struct terminal *terminal, const char *expected)
{
    struct terminal_input input;
    char bytes[256];
    size_t size = 0;

    while (size < strlen(expected)) {
        if (terminal_read(terminal, 0, &input) != 0 || input.gone ||
            input.bytes.size > sizeof bytes - size)
            return false;
        memcpy(bytes + size, input.bytes.data != NULL ? input.bytes.data : "", input.bytes.size);
        size += input.bytes.size;
    }
    return size == strlen(expected) && memcmp(bytes, expected, size) == 0;
}

static int reader_main(void *argument)
{
    struct terminal *terminal = open_and_greet();
    struct terminal_input input;

    (void)argument;
    CHECK(reads(terminal, "a\r\x03\x1B[A"));
    CHECK_EQUAL(terminal_read(terminal, 5 * BL_NS_PER_MS, &input), BL_EAGAIN);
    CHECK_EQUAL(terminal_open(STDIN_FILENO, STDOUT_FILENO, &terminal, NULL), BL_EBUSY);
    terminal_close(terminal);
    return 0;
}

static void keys_arrive_as_typed(void **state)
{
    struct guest guest;

    (void)state;
    guest_begin(&guest, reader_main);
    assert_true(guest_says(&guest, "\x1B[?2004hready"));
    assert_true(is_raw(&guest));
    send_bytes(&guest, "a\r\x03");
    send_bytes(&guest, "\x1B[A");
    assert_true(guest_says(&guest, "\x1B[?2004l"));
    assert_int_equal(guest_end(&guest), 0);
}

/* ---- Ways to end ----------------------------------------------------------------------------- */

enum ending {
    END_EXIT,
    END_ABORT,
    END_FAULT,
    END_OVERFLOW,
    END_SIGNAL,
    END_RETURN,
};

static enum ending chosen_ending;

/* A real fault: if a sanitizer detects it earlier, it ends the process in its own way. */
static void fault(void)
{
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = 1;
}

static int overflow(volatile char *above)
{
    volatile char frame[1024];

    frame[0] = above != NULL ? above[0] : 0;
    return frame[0] == 1 ? 0 : overflow(frame) + frame[0];
}

static int overflow_main(void *argument)
{
    (void)argument;
    return overflow(NULL);
}

static int ending_main(void *argument)
{
    struct terminal *terminal = open_and_greet();
    struct terminal_input input;
    struct bl_nursery nursery;

    (void)argument;
    CHECK_EQUAL(terminal_read(terminal, 0, &input), 0);
    CHECK_EQUAL(terminal_write(terminal, BL_TEXT("\x1B[31mred\x1B[?25l\x1B[?7l")), 0);
    switch (chosen_ending) {
    case END_EXIT: exit(7);
    case END_ABORT: abort();
    case END_FAULT: fault(); break;
    case END_OVERFLOW:
        bl_nursery_init(&nursery, bl_scope_current());
        bl_nursery_spawn(&nursery, NULL, "deep", overflow_main, NULL, NULL);
        bl_nursery_done(&nursery);
        break;
    case END_SIGNAL: terminal_read(terminal, 0, &input); break;
    case END_RETURN: break;
    }
    terminal_close(terminal);
    return 0;
}

static int end_by(enum ending ending, int signal_number)
{
    struct guest guest;

    chosen_ending = ending;
    guest_begin(&guest, ending_main);
    assert_true(guest_says(&guest, "ready"));
    assert_true(is_raw(&guest));
    send_bytes(&guest, "x");
    assert_true(guest_says(&guest, "red"));
    if (signal_number != 0)
        kill(guest.pid, signal_number);
    assert_true(guest_says(&guest, "\x1B[?2004l\x1B[?7h\x1B[?25h"));
    int fd = fcntl(guest.master, F_DUPFD_CLOEXEC, 3);
    int status = guest_end(&guest);
    guest.master = fd;
    assert_true(is_as_before(&guest));
    close(fd);
    return status;
}

static void terminal_is_restored_at_the_end_and_at_exit(void **state)
{
    (void)state;
    assert_int_equal(end_by(END_RETURN, 0), 0);
    int status = end_by(END_EXIT, 0);
    /* The leak check of a sanitizer may report memory that exit left behind. */
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 7 || SUITE_SANITIZED));
}

static void terminal_is_restored_after_a_crash(void **state)
{
    int status;

    (void)state;
    status = end_by(END_ABORT, 0);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : SUITE_SANITIZED);
    status = end_by(END_FAULT, 0);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : SUITE_SANITIZED);
    status = end_by(END_OVERFLOW, 0);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : SUITE_SANITIZED);
}

static void terminal_is_restored_by_a_signal_that_ends_the_process(void **state)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGQUIT, SIGINT, SIGSEGV, SIGFPE};

    (void)state;
    for (size_t i = 0; i < BL_COUNT(signals); i++) {
        int status = end_by(END_SIGNAL, signals[i]);
        assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == signals[i] : SUITE_SANITIZED);
    }
}

/* ---- The window ------------------------------------------------------------------------------ */

static int window_main(void *argument)
{
    struct terminal *terminal = NULL;
    struct terminal_input input;
    size_t columns, rows;

    (void)argument;
    CHECK_EQUAL(terminal_open(STDIN_FILENO, STDOUT_FILENO, &terminal, NULL), 0);
    terminal_size(terminal, &columns, &rows);
    CHECK(columns == 80 && rows == 24);
    CHECK_EQUAL(terminal_write(terminal, BL_TEXT("ready")), 0);
    CHECK_EQUAL(terminal_read(terminal, 0, &input), 0);
    CHECK(input.resized && input.bytes.size == 0 && !input.gone);
    terminal_size(terminal, &columns, &rows);
    CHECK(columns == 40 && rows == 10);
    CHECK_EQUAL(terminal_write(terminal, BL_TEXT("changed")), 0);
    CHECK(reads(terminal, "x"));
    terminal_close(terminal);
    return 0;
}

static void window_change_is_reported(void **state)
{
    struct winsize size = {.ws_row = 10, .ws_col = 40};
    struct guest guest;

    (void)state;
    guest_begin(&guest, window_main);
    assert_true(guest_says(&guest, "ready"));
    assert_int_equal(ioctl(guest.master, TIOCSWINSZ, &size), 0);
    assert_true(guest_says(&guest, "changed"));
    send_bytes(&guest, "x");
    assert_int_equal(guest_end(&guest), 0);
}

/* ---- Stopped and continued ------------------------------------------------------------------- */

static int resumed_main(void *argument)
{
    struct terminal *terminal = open_and_greet();
    struct terminal_input input = {0};

    (void)argument;
    while (!input.resized)
        CHECK_EQUAL(terminal_read(terminal, 0, &input), 0);
    CHECK_EQUAL(terminal_write(terminal, BL_TEXT("back")), 0);
    CHECK(reads(terminal, "x"));
    terminal_close(terminal);
    return 0;
}

static void a_process_that_was_stopped_takes_the_terminal_again(void **state)
{
    struct guest guest;
    int status;

    (void)state;
    guest_begin(&guest, resumed_main);
    assert_true(guest_says(&guest, "ready"));
    kill(guest.pid, SIGSTOP);
    assert_int_equal(waitpid(guest.pid, &status, WUNTRACED), guest.pid);
    assert_true(WIFSTOPPED(status));
    /* The shell changes the modes. */
    assert_int_equal(tcsetattr(guest.master, TCSANOW, &guest.before), 0);
    kill(guest.pid, SIGCONT);
    assert_true(guest_says(&guest, "\x1B[?2004hback"));
    assert_true(is_raw(&guest));
    send_bytes(&guest, "x");
    assert_int_equal(guest_end(&guest), 0);
}

static int suspend_main(void *argument)
{
    struct terminal *terminal = open_and_greet();
    struct terminal_input input;

    (void)argument;
    CHECK(reads(terminal, "\x1A"));
    terminal_suspend(terminal);
    CHECK_EQUAL(terminal_read(terminal, 0, &input), 0);
    CHECK(input.resized);
    CHECK_EQUAL(terminal_write(terminal, BL_TEXT("back")), 0);
    CHECK(reads(terminal, "x"));
    terminal_close(terminal);
    return 0;
}

/* A small shell: only a process with a shell can be stopped. Reports the state of its job on the
 * terminal. */
static int shell_main(void *argument)
{
    int status;
    pid_t job = fork();

    (void)argument;
    signal(SIGTTOU, SIG_IGN);
    setpgid(job, job);
    tcsetpgrp(STDIN_FILENO, job == 0 ? getpid() : job);
    if (job == 0) {
        signal(SIGTTOU, SIG_DFL);
        _exit(run_in_role(suspend_main, NULL));
    }
    if (waitpid(job, &status, WUNTRACED) != job || !WIFSTOPPED(status))
        return -1;
    tcsetpgrp(STDIN_FILENO, getpid());
    if (write(STDOUT_FILENO, "stopped", 7) != 7)
        return -1;
    /* The test checks the modes, and then types. */
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 1)
        return -1;
    tcsetpgrp(STDIN_FILENO, job);
    kill(-job, SIGCONT);
    return waitpid(job, &status, 0) == job && status == 0 ? 0 : -1;
}

static int run_plainly(bl_fiber_main *main, void *argument)
{
    return main(argument) == 0 ? 0 : 1;
}

static void ctrl_z_restores_the_terminal_and_takes_it_again(void **state)
{
    struct guest guest;

    (void)state;
    guest_begin_as(&guest, run_plainly, shell_main);
    assert_true(guest_says(&guest, "ready"));
    assert_true(is_raw(&guest));
    send_bytes(&guest, "\x1A");
    assert_true(guest_says(&guest, "stopped"));
    assert_true(is_as_before(&guest));
    send_bytes(&guest, "\n");
    assert_true(guest_says(&guest, "back"));
    assert_true(is_raw(&guest));
    send_bytes(&guest, "x");
    assert_int_equal(guest_end(&guest), 0);
}

/* ---- Slow and closed terminals --------------------------------------------------------------- */

#define FLOOD_SIZE ((size_t)512 * 1024)

static int flood_main(void *argument)
{
    struct terminal *terminal = open_and_greet();
    char *bytes = bl_alloc(FLOOD_SIZE);
    struct rusage usage;

    (void)argument;
    CHECK(reads(terminal, "x"));
    getrusage(RUSAGE_SELF, &usage);
    uint64_t before = (uint64_t)usage.ru_nvcsw;
    memset(bytes, '.', FLOOD_SIZE);
    CHECK_EQUAL(terminal_write(terminal, (struct bl_text){bytes, FLOOD_SIZE}), 0);
    getrusage(RUSAGE_SELF, &usage);
    /* It slept: at least once because the terminal did not accept output. */
    CHECK((uint64_t)usage.ru_nvcsw > before);
    CHECK_EQUAL(terminal_write(terminal, BL_TEXT("done")), 0);
    terminal_close(terminal);
    bl_free(bytes);
    return 0;
}

static void output_waits_for_a_slow_terminal(void **state)
{
    struct guest guest;
    size_t dots = 0;

    (void)state;
    guest_begin(&guest, flood_main);
    assert_true(guest_says(&guest, "ready"));
    send_bytes(&guest, "x");
    while (bl_text_find(bl_buffer_text(&guest.output), BL_TEXT("done")) < 0) {
        char bytes[8192];
        ssize_t count = read(guest.master, bytes, sizeof bytes);
        assert_true(count > 0);
        bl_buffer_append(&guest.output, (struct bl_text){bytes, (size_t)count});
    }
    for (size_t i = 0; i < guest.output.size; i++)
        dots += guest.output.data[i] == '.';
    assert_int_equal(dots, FLOOD_SIZE);
    assert_int_equal(guest_end(&guest), 0);
}

static int gone_main(void *argument)
{
    struct terminal *terminal = open_and_greet();
    struct terminal_input input;

    (void)argument;
    CHECK_EQUAL(terminal_read(terminal, 0, &input), 0);
    CHECK(input.gone);
    CHECK_EQUAL(terminal_read(terminal, 0, &input), 0);
    CHECK(input.gone);
    CHECK_EQUAL(terminal_write(terminal, BL_TEXT("x")), BL_ECLOSED);
    terminal_close(terminal);
    return 0;
}

static int gone_ignoring_main(void *argument)
{
    signal(SIGHUP, SIG_IGN);
    return gone_main(argument);
}

static void closed_terminal_is_reported(void **state)
{
    struct guest guest;
    int status;

    (void)state;
    guest_begin(&guest, gone_ignoring_main);
    assert_true(guest_says(&guest, "ready"));
    close(guest.master);
    assert_int_equal(waitpid(guest.pid, &status, 0), guest.pid);
    bl_buffer_done(&guest.output);
    assert_int_equal(status, 0);
}

static int stopped_main(void *argument)
{
    struct terminal *terminal = open_and_greet();
    struct terminal_input input;
    struct bl_scope scope;

    (void)argument;
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + BL_NS_PER_MS);
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(terminal_read(terminal, 0, &input), BL_ETIMEDOUT);
    CHECK_EQUAL(terminal_read(terminal, BL_NS_PER_S, &input), BL_ETIMEDOUT);
    CHECK_EQUAL(terminal_write(terminal, BL_TEXT("x")), BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    CHECK_EQUAL(terminal_write(terminal, BL_TEXT("still there")), 0);
    CHECK(reads(terminal, "x"));
    terminal_close(terminal);
    return 0;
}

static void a_stop_ends_the_wait_for_input(void **state)
{
    struct guest guest;

    (void)state;
    guest_begin(&guest, stopped_main);
    assert_true(guest_says(&guest, "still there"));
    send_bytes(&guest, "x");
    assert_int_equal(guest_end(&guest), 0);
}

static int no_terminal_main(void *argument)
{
    struct terminal *terminal = NULL;
    struct bl_error error = {0};
    int pipes[2];

    (void)argument;
    CHECK_EQUAL(pipe(pipes), 0);
    CHECK_EQUAL(terminal_open(pipes[0], pipes[1], &terminal, &error), BL_EINVAL);
    CHECK(error.message[0] != '\0' && terminal == NULL);
    close(pipes[0]);
    close(pipes[1]);
    terminal_close(NULL);
    return 0;
}

static void non_terminal_is_refused(void **state)
{
    (void)state;
    run_in_loop(no_terminal_main, NULL);
}

SUITE(terminal, cmocka_unit_test(keys_arrive_as_typed),
      cmocka_unit_test(terminal_is_restored_at_the_end_and_at_exit),
      cmocka_unit_test(terminal_is_restored_after_a_crash),
      cmocka_unit_test(terminal_is_restored_by_a_signal_that_ends_the_process),
      cmocka_unit_test(window_change_is_reported),
      cmocka_unit_test(a_process_that_was_stopped_takes_the_terminal_again),
      cmocka_unit_test(ctrl_z_restores_the_terminal_and_takes_it_again),
      cmocka_unit_test(output_waits_for_a_slow_terminal),
      cmocka_unit_test(closed_terminal_is_reported),
      cmocka_unit_test(a_stop_ends_the_wait_for_input), cmocka_unit_test(non_terminal_is_refused));
