/* Shared by the tests of this room: a runtime folder of their own, misbehaving clients, and other
 * processes that serve. */
#ifndef BELAY_TESTS_SERVE_PLACE_H
#define BELAY_TESTS_SERVE_PLACE_H

#include <sys/types.h>

#include "fibers.h"
#include "serve/control/request.h"
#include "serve/parts.h"

#define MS BL_NS_PER_MS

/* ---- The folder ---- */

/* A runtime folder, named by XDG_RUNTIME_DIR. */
struct place {
    char runtime[256];
};

void place_make(struct place *place);
void place_remove(struct place *place); /* with all its contents */
/* Returns the path of a file in the folder of sockets, in a static buffer. */
const char *place_path(const struct place *place, const char *name);
/* Creates the folder as a control does. */
void place_make_folder(const struct place *place);
/* Returns the number of entries, without the files beside sockets. */
size_t place_count(const struct place *place);
/* Returns the number of all entries. */
size_t place_left(const struct place *place);
/* Returns the name of the first socket, or "", in a static buffer. */
const char *place_socket(const struct place *place);
#define DEAD_SOCKET "aaaaaaaaaaaaaaaaaaaa.sock"
/* Leaves a socket without a listener. */
void place_leave_dead(const struct place *place, const char *name);

/* ---- A control in this process ---- */

struct served {
    struct place place;
    struct bl_nursery nursery;
    struct bl_activities activities;
    struct bl_control *control;
};

void served_start(struct served *served);
void served_stop(struct served *served);

/* ---- Clients ---- */

/* Connects to a control of this process; checks that this works. */
int client_connect(void);
/* Sends the whole text while other fibers run. */
void client_send(int fd, struct bl_text text);
/* Returns the next line in a static buffer, or "" if the other side closes first. Fails the test
 * after 20 s. */
const char *client_line(int fd);

/* ---- Other processes ---- */

/* Runs this program as `--role KIND ID` (role.c). */
pid_t role_start(const char *kind, const char *id);
/* Waits until `bl_control_list` shows that activity in that phase (NULL: any); checks that it
 * does. */
void role_await(const char *id, const char *phase);
/* Waits for its end while other fibers run. Returns its exit code, or 128 + signal. */
int role_end(pid_t pid);
int role_main(int argument_count, char **arguments);

double now_ms(void);

#endif
