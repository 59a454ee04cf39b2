/* Design notes.
 *
 * The process in which an id runs is not known, so all processes are asked at once for their
 * activities, each by a fiber of its own, with a short time limit for the answer. That finds
 * the processes that do not answer (paused ones, for example), for which a cancel would wait
 * forever, and the dead ones. It also shows whether an id is unique before anything is stopped.
 *
 * The kernel reports the pid behind a socket, even if the process does not answer. For a dead
 * process, the file beside its socket has the facts.
 *
 * A call goes to one process, whose pid is known, and may take any time. If the process is silent
 * for a while, a second connection checks whether it answers at all: a paused process does not, and
 * the call would wait forever. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ask.h"

#define RETRY_NS (20 * BL_NS_PER_MS)
#define RELIC_S  60
/* A silent process has this many times serve_timeout_ns to show that it answers. */
#define PING_TIMEOUTS 5u
#define TRACE_MAX     ((size_t)64 * 1024)

/* ---- One process ----------------------------------------------------------------------------- */

/* Reads the file beside the process's socket. The state stays empty if that fails. */
static void read_trace(const struct question *question, struct bl_arena *arena,
                       struct control_state *ret_state)
{
    const struct bl_json *value;
    char name[SERVE_NAME_SIZE];
    char *text = bl_alloc(TRACE_MAX);
    serve_trace_name(question->name, name);
    struct bl_text trace = bl_file_read(question->asking->folder, name, text, TRACE_MAX);
    if (bl_json_read(arena, trace, NULL, &value, NULL) != 0)
        value = NULL;
    bl_record_take(arena, &control_trace_record, value, ret_state);
    bl_list_init(&ret_state->sessions);
    bl_free(text);
}

/* Records what a dead process was, and removes its file. */
static void control_ask_bury(struct question *question)
{
    char name[SERVE_NAME_SIZE];
    question->dead = true;
    read_trace(question, question->asking->arena, &question->state);
    if (question->state.pid != 0)
        question->pid = question->state.pid;
    serve_trace_name(question->name, name);
    unlinkat(question->asking->folder, name, 0);
}

static int64_t listener_pid(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

/* Connects, retrying until the deadline. BL_ENOENT if no process listens; a socket without a
 * listener is removed. */
int ask_connect(struct question *question, uint64_t deadline_ns, int *ret_fd)
{
    char path[SERVE_PATH_SIZE];
    struct stat status;
    int code = serve_path(question->name, path, sizeof path);
    while (code == 0) {
        if (fstatat(question->asking->folder, question->name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISSOCK(status.st_mode))
            return BL_ENOENT;
        code = bl_local_connect(path, ret_fd, NULL);
        if (code == 0)
            question->pid = listener_pid(*ret_fd);
        if (code == BL_ENOENT && access(path, F_OK) == 0) {
            bl_local_remove(path, &(struct bl_local_file){status.st_dev, status.st_ino});
            control_ask_bury(question);
        }
        if (code != BL_EAGAIN || bl_now_ns() >= deadline_ns)
            return code;
        code = bl_sleep(RETRY_NS);
    }
    return code;
}

/* Sends one request over a connection of its own, and closes the descriptor. Returns 0 with the
 * answer, which may be a failure. */
static int exchange(struct question *question, int fd)
{
    const struct asking *asking = question->asking;
    const struct bl_rpc_options options = {
        .in = fd, .out = fd, .line_max = SERVE_ANSWER_MAX, .take_ns = serve_timeout_ns};
    struct bl_nursery nursery;
    struct bl_rpc *rpc = NULL;
    question->failure = (struct bl_rpc_failure){0};
    bl_nursery_init(&nursery, bl_scope_current());
    int code = bl_rpc_open(&nursery, &options, &rpc, NULL);
    if (code == 0)
        code = bl_rpc_ask(rpc, asking->method, asking->params, asking->arena, &question->result,
                          &question->failure, NULL);
    bl_rpc_close(rpc, 0);
    bl_nursery_done(&nursery);
    close(fd);
    question->failed = code == BL_EREFUSED;
    return question->failed ? 0 : code;
}

/* Sends the request, and retries while the process has too many clients. */
int ask_one(struct question *question)
{
    uint64_t deadline_ns = bl_time_add(bl_now_ns(), question->asking->place_ns);
    for (;;) {
        int fd;
        int code = ask_connect(question, deadline_ns, &fd);
        if (code == 0)
            code = exchange(question, fd);
        if (code != 0 || !question->failed || question->failure.code != BL_RPC_BUSY)
            return code;
        if (bl_now_ns() >= deadline_ns)
            return BL_EBUSY;
        code = bl_sleep(RETRY_NS);
        if (code != 0)
            return code;
    }
}

/* The same within the time limit for an answer, if there is one. */
static int ask_within(struct question *question)
{
    struct bl_scope limit;
    bl_limit_begin(&limit, question->asking->answer_ns);
    int code = ask_one(question);
    bl_limit_end(&limit);
    return code;
}

static int control_ask_main(void *argument)
{
    struct question *question = argument;
    question->code = ask_within(question);
    return 0;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int by_pid(const void *a, const void *b)
{
    const struct question *const *first = a, *const *second = b;
    if ((*first)->pid != (*second)->pid)
        return (*first)->pid < (*second)->pid ? -1 : 1;
    return strcmp((*first)->name, (*second)->name);
}

/* Sorts by pid, once the pids are known. */
static void sort_questions(struct asking *asking)
{
    struct question **all =
        bl_arena_alloc(asking->arena, asking->count * sizeof(struct question *));
    struct bl_list *link;
    size_t count = 0;
    while ((link = bl_list_pop_front(&asking->questions)) != NULL)
        all[count++] = BL_CONTAINER(link, struct question, link);
    qsort(all, count, sizeof *all, by_pid);
    for (size_t i = 0; i < count; i++)
        bl_list_push_back(&asking->questions, &all[i]->link);
}

/* Removes the hidden socket of a process that was killed before it could rename it. One that is
 * younger than a minute may still be about to be renamed. */
static void remove_relic(int folder, const char *name)
{
    struct stat status;
    if (bl_local_hidden(name) && fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISSOCK(status.st_mode) && status.st_mtime + RELIC_S < time(NULL))
        unlinkat(folder, name, 0);
}

/* Creates a question for each socket in the folder. */
static int find_sockets(struct asking *asking)
{
    int copy = dup(asking->folder);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    if (entries == NULL) {
        int code = bl_error_from_errno(errno);
        if (copy >= 0)
            close(copy);
        return code;
    }
    rewinddir(entries);
    while ((entry = readdir(entries)) != NULL) {
        remove_relic(asking->folder, entry->d_name);
        if (!serve_name_is_socket(entry->d_name))
            continue;
        struct question *question = bl_arena_zalloc(asking->arena, sizeof *question);
        question->asking = asking;
        bl_list_init(&question->state.activities);
        bl_list_init(&question->state.sessions);
        bl_text_into(question->name, sizeof question->name, entry->d_name);
        bl_list_push_back(&asking->questions, &question->link);
        asking->count++;
    }
    closedir(entries);
    return 0;
}

/* Asks all processes at once, and waits for all answers. */
static int ask_all(struct asking *asking)
{
    struct bl_nursery nursery;
    bl_nursery_init(&nursery, bl_scope_current());
    BL_LIST_EACH (link, &asking->questions) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        question->code = bl_nursery_spawn(&nursery, NULL, "ask", control_ask_main, question, NULL);
    }
    int code = bl_nursery_join(&nursery);
    bl_nursery_done(&nursery);
    sort_questions(asking);
    return code;
}

/* Opens the folder and finds the sockets. BL_ENOENT: there is no folder, so no process listens. */
int ask_begin(struct asking *asking, struct bl_arena *arena, struct bl_error *error)
{
    *asking = (struct asking){
        .arena = arena, .method = "ps", .answer_ns = serve_word_ns, .place_ns = serve_word_ns};
    bl_list_init(&asking->questions);
    int code = serve_folder_open(false, &asking->folder, error);
    if (code != 0) {
        asking->folder = -1;
        return code;
    }
    return find_sockets(asking);
}

/* The same, and asks each process for its activities. */
int ask_ps(struct asking *asking, struct bl_arena *arena, struct bl_error *error)
{
    int code = ask_begin(asking, arena, error);
    if (code == 0)
        code = ask_all(asking);
    BL_LIST_EACH (link, &asking->questions) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        if (question_answered(question))
            bl_record_take(arena, &control_state_record, question->result, &question->state);
    }
    return code;
}

/* Checks the pid that the process reported or that the kernel reports: in another PID namespace
 * they differ. */
bool question_has_pid(struct question *question, int64_t pid)
{
    struct bl_arena arena = {0};
    struct control_state own;
    int fd = -1;
    read_trace(question, &arena, &own);
    bl_arena_done(&arena);
    if (own.pid == pid)
        return true;
    if (ask_connect(question, 0, &fd) != 0)
        return false;
    close(fd);
    return question->pid == pid;
}

void asking_done(struct asking *asking)
{
    if (asking->folder >= 0)
        close(asking->folder);
}

bool question_answered(const struct question *question)
{
    return question->code == 0 && !question->failed && bl_json_is(question->result, BL_JSON_OBJECT);
}

static void ask_move_all(struct bl_list *from, struct bl_list *to)
{
    struct bl_list *first;
    bl_list_init(to);
    while ((first = bl_list_pop_front(from)) != NULL)
        bl_list_push_back(to, first);
}

int bl_control_list(struct bl_arena *arena, struct bl_list *ret_processes, struct bl_error *error)
{
    struct asking asking;
    bl_list_init(ret_processes);
    int code = ask_ps(&asking, arena, error);
    BL_LIST_EACH (link, &asking.questions) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        bool answered = question_answered(question);
        /* A process that exited meanwhile has removed its socket. */
        if (code != 0 || (!answered && !question->dead && question->code == BL_ENOENT))
            continue;
        struct bl_control_process *process = bl_arena_alloc(arena, sizeof *process);
        *process = (struct bl_control_process){
            .pid = question->state.pid != 0 ? question->state.pid : question->pid,
            .state = answered         ? BL_CONTROL_ANSWERING
                     : question->dead ? BL_CONTROL_DEAD
                                      : BL_CONTROL_SILENT,
        };
        ask_move_all(&question->state.activities, &process->activities);
        ask_move_all(&question->state.sessions, &process->sessions);
        bl_list_push_back(ret_processes, &process->link);
    }
    asking_done(&asking);
    return code == BL_ENOENT ? 0 : code;
}

/* ---- Liveness check -------------------------------------------------------------------------- */

/* Returns false if it is silent on a new connection, too. A process that refuses the connection,
 * has too many clients or has exited is not silent: the old connection then shows what happened. */
bool ask_ping(const struct question *silent)
{
    struct bl_arena arena = {0};
    struct asking asking = {.arena = &arena,
                            .folder = silent->asking->folder,
                            .method = "ps",
                            .answer_ns = PING_TIMEOUTS * serve_timeout_ns};
    struct question question = {.asking = &asking};
    bl_text_into(question.name, sizeof question.name, silent->name);
    int code = ask_within(&question);
    bl_arena_done(&arena);
    return code != BL_ETIMEDOUT;
}
