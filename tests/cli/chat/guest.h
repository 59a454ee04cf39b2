/* The real program on a terminal of its own: keys are the input, and the screen is what a person
 * would see. All its descendants have a mark, as with held.h. */
#ifndef BELAY_TESTS_CLI_GUEST_H
#define BELAY_TESTS_CLI_GUEST_H

#include <termios.h>

#include "screen.h"
#include "stage.h"

struct guest {
    struct held held; /* pid, mark, exit code */
    int master;       /* our end; -1 if closed */
    struct screen *screen;
    struct bl_buffer bytes; /* all output */
    struct termios before;
    bool asked; /* it has asked for the kind of terminal */
    int status; /* of waitpid */
};

/* Starts `belay chat` with more words, which end in NULL, in a window of that size. `environment`
 * may be NULL. */
void guest_begin(struct guest *guest, size_t columns, size_t rows, const char *const *words,
                 const char *const *environment);
#define GUEST(guest, columns, rows, ...)                                                           \
    guest_begin(guest, columns, rows, (const char *const[]){__VA_ARGS__, NULL}, NULL)
/* The same for any program (words[0]). */
void guest_start(struct guest *guest, size_t columns, size_t rows, const char *const *words,
                 const char *const *environment);
/* The default: 80 by 24, with a script, and all tools allowed. */
void guest_chat(struct guest *guest, const char *script);
/* Kills all processes left. */
void guest_end(struct guest *guest);

/* Sets the background that later guests' terminals report, such as "rgb:ffff/ffff/ffff"; NULL, the
 * initial value, for no reply. */
void guest_have_background(const char *colour);
void guest_type(struct guest *guest, const char *keys);
/* Pastes a text as a terminal does. */
void guest_paste(struct guest *guest, const char *text);
/* Types keys and waits until the screen shows `text`. */
void guest_say(struct guest *guest, const char *keys, const char *text);
void guest_resize(struct guest *guest, size_t columns, size_t rows);

/* Wait, at most half a minute, until `text` has ever been on the screen; until it is on the screen
 * now; until it is not. Fail the test with the content of the screen. */
void guest_await(struct guest *guest, const char *text);
void guest_await_shown(struct guest *guest, const char *text);
void guest_await_hidden(struct guest *guest, const char *text);
/* The same with the number of occurrences. */
void guest_await_times(struct guest *guest, const char *text, size_t times);
/* Waits until nothing is running and the line is empty: ready for a prompt. */
void guest_await_idle(struct guest *guest);
/* Waits until it has taken over the terminal: from then on, it reads keys. */
void guest_await_taken(struct guest *guest);
/* Returns how often `text` has ever been on the screen. */
size_t guest_times(struct guest *guest, const char *text);
/* The same for all output, including escape sequences. */
size_t guest_sent(struct guest *guest, const char *bytes);
/* Fails the test unless `text` is on the screen now. */
void guest_check_shown(struct guest *guest, const char *text);
/* Returns the last line on the screen: the input line, unless there is a menu. */
const char *guest_last_row(struct guest *guest);

/* Waits for its end and returns the exit code, or 128 + signal. */
int guest_wait(struct guest *guest);
/* Leaves with Ctrl+D; checks exit code 0, that no process is left, and that the terminal is
 * restored. */
void guest_leave(struct guest *guest);
bool guest_terminal_as_before(const struct guest *guest);
/* Returns the id of the only session. */
const char *guest_session(void);
/* Returns the output of `belay session show ID --json`. */
const struct bl_json *guest_show(const char *session);

#define KEY_CTRL(letter) ((const char[]){(letter)&0x1F, '\0'})
#define ESC              "\x1B"

#endif
