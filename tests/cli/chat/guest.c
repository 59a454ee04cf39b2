#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#define PATIENCE_NS (30 * BL_NS_PER_S)
#define WORDS_MAX   32u
#define POLL_MS     20

static const char *background;

void guest_have_background(const char *colour)
{
    background = colour;
}

static uint64_t now_ns(void)
{
    return bl_clock_now_ns(&bl_clock_system);
}

/* Runs in the child. Variables that describe the test's own terminal are removed. */
static void become(const struct guest *guest, char *const *words, const char *const *environment)
{
    static const char *const gone[] = {
        "NO_COLOR",    "COLORFGBG",  "COLORTERM",       "TMUX",         "STY",
        "VTE_VERSION", "WT_SESSION", "TERM_SESSION_ID", "WEZTERM_PANE", "ALACRITTY_SOCKET"};
    char *mark = strdup(guest->held.mark);

    for (size_t i = 0; i < BL_COUNT(gone); i++)
        unsetenv(gone[i]);
    putenv(mark);
    setenv("TERM", "xterm-256color", 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    setenv("TSAN_OPTIONS", "halt_on_error=1:atexit_sleep_ms=0", 1);
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++)
        putenv((char *)environment[i]);
    execv(words[0], words);
    _exit(126);
}

void guest_begin(struct guest *guest, size_t columns, size_t rows, const char *const *words,
                 const char *const *environment)
{
    const char *all[WORDS_MAX] = {runner_program(), "chat"};

    for (size_t i = 0; words[i] != NULL; i++) {
        assert_true(i + 3 < WORDS_MAX);
        all[i + 2] = words[i];
    }
    guest_start(guest, columns, rows, all, environment);
}

void guest_start(struct guest *guest, size_t columns, size_t rows, const char *const *words,
                 const char *const *environment)
{
    static unsigned counter;
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    int slave;

    *guest = (struct guest){.held = {.terminal = -1, .from_ns = now_ns()}};
    snprintf(guest->held.mark, sizeof guest->held.mark, "BELAY_TEST_MARK=guest-%d-%u",
             (int)getpid(), counter++);
    guest->held.out = memfd_create("out", MFD_CLOEXEC);
    guest->held.err = memfd_create("err", MFD_CLOEXEC);
    guest->screen = screen_new(columns, rows);
    bl_buffer_init(&guest->bytes, SIZE_MAX / 2);
    assert_int_equal(openpty(&guest->master, &slave, NULL, NULL, &size), 0);
    assert_int_equal(tcgetattr(slave, &guest->before), 0);
    fcntl(guest->master, F_SETFD, FD_CLOEXEC);
    fcntl(guest->master, F_SETFL, O_NONBLOCK);
    guest->held.pid = fork();
    assert_true(guest->held.pid >= 0);
    if (guest->held.pid == 0) {
        if (login_tty(slave) != 0)
            _exit(125);
        become(guest, (char *const *)words, environment);
    }
    close(slave);
}

void guest_chat(struct guest *guest, const char *script)
{
    GUEST(guest, 80, 24, "--provider", stage_script(script), "--yolo");
    guest_await_idle(guest);
}

void guest_end(struct guest *guest)
{
    if (guest->screen == NULL)
        return;
    if (guest->master >= 0)
        close(guest->master);
    held_end(&guest->held);
    screen_free(guest->screen);
    bl_buffer_done(&guest->bytes);
    *guest = (struct guest){.master = -1};
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Answers the program's requests as every terminal does. */
static void answer_questions(struct guest *guest)
{
    static const struct bl_text question = {"\x1B[c", 3};
    const char *answer = background == NULL
                             ? "\x1B[?62;22c"
                             : stage_printf("\x1B]11;%s\x1B\\\x1B[?62;22c", background);

    if (guest->asked || bl_text_find(bl_buffer_text(&guest->bytes), question) < 0)
        return;
    guest->asked = true;
    assert_int_equal(write(guest->master, answer, strlen(answer)), strlen(answer));
}

/* Reads output, waiting briefly if there is none. Returns true if there was any. */
static bool take_output(struct guest *guest, int wait_ms)
{
    struct pollfd wait = {.fd = guest->master, .events = POLLIN};
    char bytes[16384];

    if (guest->master < 0 || poll(&wait, 1, wait_ms) != 1)
        return false;
    ssize_t count = read(guest->master, bytes, sizeof bytes);
    if (count <= 0) {
        /* No process has the terminal open any more; this is reported on every read. */
        if (wait_ms > 0)
            usleep(1000);
        return false;
    }
    struct bl_text text = {bytes, (size_t)count};
    bl_buffer_append(&guest->bytes, text);
    screen_feed(guest->screen, text);
    answer_questions(guest);
    return true;
}

static size_t count_in(const char *all, const char *text)
{
    size_t times = 0;

    for (const char *at = all; (at = strstr(at, text)) != NULL; at += strlen(text))
        times++;
    return times;
}

typedef bool guest_look(struct guest *guest, const char *text, size_t times);

static bool was_there(struct guest *guest, const char *text, size_t times)
{
    return count_in(screen_all(guest->screen), text) >= times;
}

static bool is_shown(struct guest *guest, const char *text, size_t times)
{
    return count_in(screen_shown(guest->screen), text) >= times;
}

static bool is_hidden(struct guest *guest, const char *text, size_t times)
{
    (void)times;
    return strstr(screen_shown(guest->screen), text) == NULL;
}

static bool is_idle(struct guest *guest, const char *text, size_t times)
{
    (void)text;
    (void)times;
    return strstr(screen_shown(guest->screen), "\n> Type a prompt") != NULL ||
           strncmp(screen_shown(guest->screen), "> Type a prompt", 15) == 0;
}

static bool is_taken(struct guest *guest, const char *text, size_t times)
{
    (void)times;
    return bl_text_find(bl_buffer_text(&guest->bytes), bl_text_from(text)) >= 0;
}

static void await(struct guest *guest, guest_look *look, const char *text, size_t times)
{
    uint64_t from_ns = now_ns();

    while (!look(guest, text, times)) {
        if (now_ns() - from_ns > PATIENCE_NS)
            fail_msg("no '%s' (%zu) in:\n%s", text, times, screen_all(guest->screen));
        if (!take_output(guest, POLL_MS) && guest->held.pid == 0)
            fail_msg("it ended without '%s':\n%s", text, screen_all(guest->screen));
    }
}

void guest_await(struct guest *guest, const char *text)
{
    await(guest, was_there, text, 1);
}

void guest_await_times(struct guest *guest, const char *text, size_t times)
{
    await(guest, was_there, text, times);
}

void guest_await_shown(struct guest *guest, const char *text)
{
    await(guest, is_shown, text, 1);
}

void guest_await_hidden(struct guest *guest, const char *text)
{
    await(guest, is_hidden, text, 0);
}

void guest_await_taken(struct guest *guest)
{
    await(guest, is_taken, "\x1B[?2004h", 1);
}

void guest_await_idle(struct guest *guest)
{
    await(guest, is_idle, "an empty line", 0);
}

size_t guest_times(struct guest *guest, const char *text)
{
    return count_in(screen_all(guest->screen), text);
}

size_t guest_sent(struct guest *guest, const char *bytes)
{
    struct bl_text rest = bl_buffer_text(&guest->bytes), wanted = bl_text_from(bytes);
    size_t times = 0;
    ptrdiff_t at;

    for (; (at = bl_text_find(rest, wanted)) >= 0; times++) {
        rest.data += (size_t)at + wanted.size;
        rest.size -= (size_t)at + wanted.size;
    }
    return times;
}

void guest_check_shown(struct guest *guest, const char *text)
{
    if (!is_shown(guest, text, 1))
        fail_msg("no '%s' in:\n%s", text, screen_shown(guest->screen));
}

const char *guest_last_row(struct guest *guest)
{
    return stage_keep(bl_text_trim(bl_text_from(stage_last_line(screen_shown(guest->screen)))));
}

/* ---- Acting ---------------------------------------------------------------------------------- */

void guest_type(struct guest *guest, const char *keys)
{
    size_t size = strlen(keys);

    while (size > 0) {
        ssize_t count = write(guest->master, keys, size);
        if (count > 0) {
            keys += count;
            size -= (size_t)count;
        } else if (errno != EAGAIN) {
            fail_msg("cannot type: %s", strerror(errno));
        }
        take_output(guest, size > 0 ? POLL_MS : 0);
    }
}

void guest_paste(struct guest *guest, const char *text)
{
    guest_type(guest, "\x1B[200~");
    guest_type(guest, text);
    guest_type(guest, "\x1B[201~");
}

void guest_say(struct guest *guest, const char *keys, const char *text)
{
    guest_type(guest, keys);
    guest_await_shown(guest, text);
}

void guest_resize(struct guest *guest, size_t columns, size_t rows)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};

    while (take_output(guest, 0))
        continue;
    screen_resize(guest->screen, columns, rows);
    assert_int_equal(ioctl(guest->master, TIOCSWINSZ, &size), 0);
}

int guest_wait(struct guest *guest)
{
    uint64_t from_ns = now_ns();
    pid_t ended;

    while ((ended = waitpid(guest->held.pid, &guest->status, WNOHANG)) == 0) {
        if (now_ns() - from_ns > PATIENCE_NS)
            fail_msg("it does not end:\n%s", screen_all(guest->screen));
        if (!take_output(guest, 2) && guest->master < 0)
            usleep(2000);
    }
    assert_int_equal(ended, guest->held.pid);
    guest->held.pid = 0;
    while (take_output(guest, 0))
        continue;
    int status = guest->status;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void guest_leave(struct guest *guest)
{
    guest_type(guest, KEY_CTRL('d'));
    int code = guest_wait(guest);
    if (code != 0)
        fail_msg("exit code %d:\n%s", code, screen_all(guest->screen));
    assert_true(guest_terminal_as_before(guest));
    held_await_count(&guest->held, 0);
    guest_end(guest);
}

bool guest_terminal_as_before(const struct guest *guest)
{
    struct termios modes;

    if (tcgetattr(guest->master, &modes) != 0)
        return false;
    return modes.c_lflag == guest->before.c_lflag && modes.c_iflag == guest->before.c_iflag &&
           modes.c_oflag == guest->before.c_oflag && modes.c_cflag == guest->before.c_cflag &&
           memcmp(modes.c_cc, guest->before.c_cc, sizeof modes.c_cc) == 0;
}

/* ---- Its session ----------------------------------------------------------------------------- */

const char *guest_session(void)
{
    static struct run run;

    RUN(&run, "session", "list", "--json");
    return stage_text_at(stage_json(run.out), "/sessions/0/session_id");
}

const struct bl_json *guest_show(const char *session)
{
    static struct run run;

    RUN(&run, "session", "show", session, "--json");
    return stage_answer(&run, "session-show", 0);
}
