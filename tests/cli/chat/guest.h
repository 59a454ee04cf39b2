/* The real program at a terminal of its own: keys go in, and the screen is what a person would see.
 * Everything that comes of it carries a mark, as with held.h. */
#ifndef BELAY_TESTS_CLI_GUEST_H
#define BELAY_TESTS_CLI_GUEST_H

#include <termios.h>

#include "screen.h"
#include "stage.h"

struct guest {
    struct held held; /* pid, mark, exit code */
    int master;       /* our end; -1: closed */
    struct screen *screen;
    struct bl_buffer bytes; /* all that it wrote */
    struct termios before;
    int status; /* of waitpid */
};

/* Starts `belay chat` with more words (end in NULL) in a window of that size. `environment` may be
 * NULL. */
void guest_begin(struct guest *guest, size_t columns, size_t rows, const char *const *words,
                 const char *const *environment);
#define GUEST(guest, columns, rows, ...)                                                           \
    guest_begin(guest, columns, rows, (const char *const[]){__VA_ARGS__, NULL}, NULL)
/* Any program (words[0]). */
void guest_start(struct guest *guest, size_t columns, size_t rows, const char *const *words,
                 const char *const *environment);
/* The usual: 80 by 24, with a script, and all that it asks for allowed. */
void guest_chat(struct guest *guest, const char *script);
/* Kills what is left. */
void guest_end(struct guest *guest);

void guest_type(struct guest *guest, const char *keys);
/* As a terminal sends it when something is pasted. */
void guest_paste(struct guest *guest, const char *text);
/* Types, and waits until the screen shows `text`. */
void guest_say(struct guest *guest, const char *keys, const char *text);
void guest_resize(struct guest *guest, size_t columns, size_t rows);

/* Waits, half a minute at most, until all that was ever on the screen holds `text`; until what is
 * on it now does; until it does not. Fails the test with the screen's content. */
void guest_await(struct guest *guest, const char *text);
void guest_await_shown(struct guest *guest, const char *text);
void guest_await_hidden(struct guest *guest, const char *text);
/* The same with how often it is there. */
void guest_await_times(struct guest *guest, const char *text, size_t times);
/* Nothing runs, and the line is empty: ready for a prompt. */
void guest_await_idle(struct guest *guest);
/* It has the terminal: what is typed from now on are keys. */
void guest_await_taken(struct guest *guest);
/* How often `text` was ever on the screen. */
size_t guest_times(struct guest *guest, const char *text);
/* Fails the test unless the screen holds it now. */
void guest_check_shown(struct guest *guest, const char *text);
/* The last line that is shown: the one that is written, unless there is a menu. */
const char *guest_last_row(struct guest *guest);

/* Waits for its end; the exit code, 128 and the signal if it died by one. */
int guest_wait(struct guest *guest);
/* Ctrl+D, the end, exit code 0, nothing left running, and the terminal as it was. */
void guest_leave(struct guest *guest);
bool guest_terminal_as_before(const struct guest *guest);
/* The one session that there is. */
const char *guest_session(void);
/* `belay session show ID --json`. */
const struct bl_json *guest_show(const char *session);

#define KEY_CTRL(letter) ((const char[]){(letter)&0x1F, '\0'})
#define ESC              "\x1B"

#endif
