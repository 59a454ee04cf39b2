/* Reads a key from the terminal without echo. The terminal is restored in every case: a signal that
 * would end the program is raised again after that. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

#include "setup.h"

#define CONTROL(letter) ((char)((letter)&0x1F))

/* Used only by the signal handler; there is one terminal. */
static int asked_terminal = -1;
static struct termios asked_before;

static void login_restore(int number)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};

    tcsetattr(asked_terminal, TCSAFLUSH, &asked_before);
    sigaction(number, &usual, NULL);
    raise(number);
}

static void login_say(int terminal, const char *text)
{
    /* If the terminal is closed, the next read reports it. */
    ssize_t count = write(terminal, text, strlen(text));
    (void)count;
}

/* Reads a line. Returns 0, BL_ECANCELED, BL_EIO if the terminal is closed, or BL_ELIMIT if the line
 * is too long. */
static int login_read(int terminal, char out[LOGIN_KEY_MAX + 1])
{
    size_t size = 0;
    char byte;

    for (;;) {
        ssize_t count = read(terminal, &byte, 1);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return BL_EIO;
        if (byte == '\r' || byte == '\n')
            break;
        if (byte == CONTROL('C') || (byte == CTRL('D') && size == 0))
            return BL_ECANCELED;
        if (byte == CONTROL('U'))
            size = 0;
        else if (byte == 0x7F || byte == '\b')
            size -= size > 0;
        else if (size == LOGIN_KEY_MAX)
            return BL_ELIMIT;
        else
            out[size++] = byte;
    }
    out[size] = '\0';
    return 0;
}

static int login_ask_on(int terminal, const char *provider, char out[LOGIN_KEY_MAX + 1])
{
    static const int ending[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};
    struct sigaction action = {.sa_handler = login_restore}, before[BL_COUNT(ending)];
    struct termios quiet;
    char prompt[128];

    if (tcgetattr(terminal, &asked_before) != 0)
        return BL_EIO;
    asked_terminal = terminal;
    for (size_t i = 0; i < BL_COUNT(ending); i++)
        sigaction(ending[i], &action, &before[i]);
    quiet = asked_before;
    quiet.c_lflag &= (tcflag_t) ~(ECHO | ICANON | ISIG);
    tcsetattr(terminal, TCSAFLUSH, &quiet);
    snprintf(prompt, sizeof prompt, "Key of %.64s (not shown): ", provider);
    login_say(terminal, prompt);
    int code = login_read(terminal, out);
    login_say(terminal, "\n");
    tcsetattr(terminal, TCSAFLUSH, &asked_before);
    for (size_t i = 0; i < BL_COUNT(ending); i++)
        sigaction(ending[i], &before[i], NULL);
    return code;
}

int login_ask(const char *provider, char out[LOGIN_KEY_MAX + 1], struct bl_error *error)
{
    int terminal = isatty(STDIN_FILENO) == 1 ? open("/dev/tty", O_RDWR | O_CLOEXEC) : -1;

    if (terminal < 0) {
        bl_error_set(error, BL_ENOTSUP, BL_KIND_USAGE, "ask for a key", provider,
                     "there is no terminal to ask for the key");
        bl_error_hint(error, "use --with-key-from FILE, or --with-key-from - for standard input");
        return BL_ENOTSUP;
    }
    int code = login_ask_on(terminal, provider, out);
    close(terminal);
    if (code == BL_ELIMIT)
        bl_error_set(error, code, BL_KIND_USAGE, "ask for a key", provider,
                     "a key has at most %zu bytes", LOGIN_KEY_MAX);
    else if (code != 0)
        bl_error_set(error, code, BL_KIND_USAGE, "ask for a key", provider, "%s",
                     code == BL_ECANCELED ? "cancelled: no key was stored"
                                          : "the terminal cannot be read");
    return code;
}
