/* Design notes.
 *
 * Nobody knows in which process an id is at work, so all are asked at once, each by a fiber of its
 * own. For a `cancel` they are asked first what runs in them: that sorts out those that do not
 * answer (one that was paused, say), for which a cancel would wait forever, and tells who had the
 * work when a connection breaks off.
 *
 * A call is for one process, whose number is known, and may take as long as it takes. One that is
 * silent for a while is asked on another connection whether it answers at all: a process that was
 * paused does not, and would be waited for forever. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "parts.h"

#define RETRY_NS    (20 * BL_NS_PER_MS)
#define RELIC_S     60
#define REQUEST_MAX ((size_t)4096)
/* So many times the patience has a silent process to show that it answers. */
#define PING_PATIENCE 5u

/* One process that is asked. In the arena of the asker, like its answer. */
struct question {
    struct bl_list link;
    struct asking *asking;
    char name[48]; /* of its socket */
    int64_t pid;
    bool knows; /* it said that the id is at work there */
    int code;   /* of the connection: 0 with an answer */
    const struct bl_json *answer;
};

/* All that are asked the same. */
struct asking {
    struct bl_arena *arena;
    int folder;
    struct bl_list questions;
    size_t count;
    struct bl_text request;                          /* with its LF */
    uint64_t answer_ns;                              /* for an answer; BL_NEVER: no limit */
    uint64_t place_ns;                               /* to be let in; the same */
    bool (*enough)(const struct question *question); /* NULL: all answers are wanted */
    /* No answer in time: is there more to wait for? NULL: no. */
    bool (*goes_on)(const struct question *question);
    struct bl_semaphore answered; /* given for each */
    const struct question *found;
};

static const struct bl_json *result_of(const struct question *question)
{
    return bl_json_get(question->answer, BL_TEXT("result"));
}

static int64_t failure_of(const struct question *question)
{
    int64_t code = 0;
    bl_json_int64(bl_json_pointer(question->answer, BL_TEXT("/error/code")), &code);
    return code;
}

/* ---- One process ----------------------------------------------------------------------------- */

/* Connects, while there is time; BL_ENOENT: nobody is there. A socket that nobody answers is
 * removed. */
static int connect_until(const struct question *question, uint64_t deadline_ns, int *ret_fd)
{
    char path[SERVE_PATH_SIZE];
    struct stat status;
    int code = serve_path(question->name, path, sizeof path);
    while (code == 0) {
        if (fstatat(question->asking->folder, question->name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISSOCK(status.st_mode))
            return BL_ENOENT;
        code = bl_local_connect(path, ret_fd, NULL);
        if (code == BL_ENOENT)
            bl_local_remove(path, &(struct bl_local_file){status.st_dev, status.st_ino});
        if (code != BL_EAGAIN || bl_now_ns() >= deadline_ns)
            return code;
        code = bl_sleep(RETRY_NS);
    }
    return code;
}

static int await_answer(struct question *question, struct serve_line *line,
                        struct bl_text *ret_text)
{
    int code;
    do {
        code = serve_line_read(line, question->asking->answer_ns, serve_patience_ns, ret_text);
        /* The first byte took too long. */
    } while (code == BL_EAGAIN && line->in.size == 0 && question->asking->goes_on != NULL &&
             question->asking->goes_on(question));
    return code;
}

static int exchange(struct question *question, struct serve_line *line)
{
    struct asking *asking = question->asking;
    struct bl_text text;
    int code = serve_line_write(line, asking->request, serve_patience_ns);
    /* One that was turned away has its answer before it has asked. */
    if (code == 0 || code == BL_EPIPE)
        code = await_answer(question, line, &text);
    if (code == 0)
        code = bl_json_read(asking->arena, text, NULL, &question->answer, NULL);
    return code;
}

/* Asks once more where there were too many clients. */
static int ask(struct question *question)
{
    uint64_t deadline_ns = bl_time_add(bl_now_ns(), question->asking->place_ns);
    for (;;) {
        struct serve_line line;
        int fd;
        int code = connect_until(question, deadline_ns, &fd);
        if (code != 0)
            return code;
        code = serve_line_init(&line, fd, SERVE_ANSWER_MAX);
        if (code == 0)
            code = exchange(question, &line);
        serve_line_done(&line);
        if (code != 0 || failure_of(question) != BL_RPC_BUSY)
            return code;
        if (bl_now_ns() >= deadline_ns)
            return BL_EBUSY;
        code = bl_sleep(RETRY_NS);
        if (code != 0)
            return code;
    }
}

/* With a limit on all of it, where there is one on the answer. */
static int ask_within(struct question *question)
{
    struct bl_scope limit, *outer = bl_scope_current();
    uint64_t limit_ns = question->asking->answer_ns;
    bl_scope_init(&limit, outer);
    if (limit_ns != BL_NEVER)
        bl_scope_set_deadline(&limit, bl_time_add(bl_now_ns(), limit_ns));
    bl_scope_enter(&limit);
    int code = ask(question);
    bl_scope_enter(outer);
    bl_scope_done(&limit);
    return code;
}

static int ask_main(void *argument)
{
    struct question *question = argument;
    struct asking *asking = question->asking;
    question->code = ask_within(question);
    if (question->code == 0 && asking->enough != NULL && asking->enough(question) &&
        asking->found == NULL)
        asking->found = question;
    bl_semaphore_give(&asking->answered);
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

/* In the order of their numbers. */
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

/* A process that was killed before its socket had its name has left it under another; what is
 * younger than a minute may be about to be renamed. */
static void remove_relic(int folder, const char *name)
{
    struct stat status;
    if (bl_local_hidden(name) && fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISSOCK(status.st_mode) && status.st_mtime + RELIC_S < time(NULL))
        unlinkat(folder, name, 0);
}

/* A question for each socket of the folder. */
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
        int64_t pid;
        remove_relic(asking->folder, entry->d_name);
        if (strlen(entry->d_name) >= sizeof((struct question *)NULL)->name ||
            !serve_name_parse(entry->d_name, &pid))
            continue;
        struct question *question = bl_arena_zalloc(asking->arena, sizeof *question);
        question->asking = asking;
        question->pid = pid;
        bl_text_into(question->name, sizeof question->name, entry->d_name);
        bl_list_push_back(&asking->questions, &question->link);
        asking->count++;
    }
    closedir(entries);
    sort_questions(asking);
    return 0;
}

/* Asks all at once, and waits for all answers, or until one is enough. */
static int ask_all(struct asking *asking)
{
    struct bl_nursery nursery;
    int code = 0;
    size_t started = 0;
    bl_semaphore_init(&asking->answered, 0);
    bl_nursery_init(&nursery, bl_scope_current());
    BL_LIST_EACH (link, &asking->questions) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        question->answer = NULL;
        question->code = bl_nursery_spawn(&nursery, NULL, "ask", ask_main, question, NULL);
        started += question->code == 0;
    }
    while (code == 0 && started-- > 0 && asking->found == NULL)
        code = bl_semaphore_take(&asking->answered);
    bl_nursery_done(&nursery);
    return asking->found != NULL ? 0 : code;
}

/* A question about what runs. BL_ENOENT: there is no folder, and so no process. */
static int asking_init(struct asking *asking, struct bl_arena *arena, struct bl_error *error)
{
    *asking = (struct asking){
        .arena = arena,
        .request = BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ps\"}\n"),
        .answer_ns = serve_patience_ns,
        .place_ns = serve_patience_ns,
    };
    bl_list_init(&asking->questions);
    int code = bl_runtime_folder_open(false, &asking->folder, error);
    if (code != 0)
        asking->folder = -1;
    return code;
}

/* Opens the folder and asks what runs. BL_ENOENT: as above. */
static int ask_ps(struct asking *asking, struct bl_arena *arena, struct bl_error *error)
{
    int code = asking_init(asking, arena, error);
    if (code == 0)
        code = find_sockets(asking);
    return code != 0 ? code : ask_all(asking);
}

static void asking_done(struct asking *asking)
{
    if (asking->folder >= 0)
        close(asking->folder);
}

int bl_control_list(struct bl_arena *arena, struct bl_list *ret_processes, struct bl_error *error)
{
    struct asking asking;
    bl_list_init(ret_processes);
    int code = ask_ps(&asking, arena, error);
    BL_LIST_EACH (link, &asking.questions) {
        const struct question *question = BL_CONTAINER(link, struct question, link);
        const struct bl_json *result = result_of(question);
        if (code != 0 || question->code != 0 || !bl_json_is(result, BL_JSON_OBJECT))
            continue;
        struct bl_control_process *process = bl_arena_alloc(arena, sizeof *process);
        *process = (struct bl_control_process){.pid = question->pid, .result = result};
        bl_json_int64(bl_json_get(result, BL_TEXT("pid")), &process->pid);
        bl_list_push_back(ret_processes, &process->link);
    }
    asking_done(&asking);
    return code == BL_ENOENT ? 0 : code;
}

/* ---- Cancel ---------------------------------------------------------------------------------- */

static bool is_receipt(const struct question *question)
{
    return result_of(question) != NULL;
}

static bool lists(const struct question *question, struct bl_text id)
{
    BL_JSON_EACH (activity, bl_json_get(result_of(question), BL_TEXT("activities"))) {
        if (bl_text_equal(bl_json_text(bl_json_get(activity, BL_TEXT("id"))), id) ||
            bl_text_equal(bl_json_text(bl_json_get(activity, BL_TEXT("session"))), id))
            return true;
    }
    return false;
}

static struct bl_text make_request(struct bl_arena *arena, const char *id, const char *origin)
{
    struct bl_buffer text;
    struct bl_json_writer writer;
    bl_buffer_init(&text, REQUEST_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "jsonrpc", "2.0");
    bl_json_write_key(&writer, BL_TEXT("id"));
    bl_json_write_int64(&writer, 2);
    bl_json_put_string(&writer, "method", "cancel");
    bl_json_write_key(&writer, BL_TEXT("params"));
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "id", id);
    bl_json_put_string(&writer, "origin", origin != NULL ? origin : "belay cancel");
    bl_json_write_end(&writer);
    bl_json_write_end(&writer);
    int code = bl_json_writer_done(&writer);
    if (code == 0)
        code = bl_buffer_append_byte(&text, '\n');
    struct bl_text kept =
        code == 0 ? bl_arena_text(arena, bl_buffer_text(&text)) : (struct bl_text){0};
    bl_buffer_done(&text);
    return kept;
}

/* Leaves those that answered, and notes which of them know the id. */
static void keep_answering(struct asking *asking, const char *id)
{
    BL_LIST_EACH_SAFE (link, &asking->questions) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        if (question->code != 0)
            bl_list_remove(link);
        else
            question->knows = lists(question, bl_text_from(id));
    }
}

/* The one that had it, and has gone; NULL: none. */
static const struct question *find_lost(const struct asking *asking)
{
    BL_LIST_EACH (link, &asking->questions) {
        const struct question *question = BL_CONTAINER(link, struct question, link);
        if (question->knows && failure_of(question) != BL_RPC_NOT_FOUND)
            return question;
    }
    return NULL;
}

static int not_found(const struct asking *asking, const char *id, struct bl_error *error)
{
    const struct question *lost = find_lost(asking);
    if (lost != NULL) {
        bl_error_set(error, BL_EUNKNOWN, BL_KIND_DELIVERY, "cancel", id,
                     "process %lld, where %s ran, has gone without an answer", (long long)lost->pid,
                     id);
        bl_error_hint(error, "what it held is stopped with it; 'belay ps' shows what runs");
        return BL_EUNKNOWN;
    }
    bl_error_set(error, BL_ENOENT, BL_KIND_SESSION, "cancel", id, "nothing with the id %s runs",
                 id);
    bl_error_hint(error, "'belay ps' lists what runs, with its ids");
    return BL_ENOENT;
}

/* What came, as text again. */
static struct bl_text value_text(struct bl_arena *arena, const struct bl_json *value)
{
    struct bl_buffer text;
    struct bl_json_writer writer;
    bl_buffer_init(&text, 2 * SERVE_ANSWER_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_value(&writer, value);
    int code = bl_json_writer_done(&writer);
    struct bl_text kept =
        code == 0 ? bl_arena_text(arena, bl_buffer_text(&text)) : (struct bl_text){0};
    bl_buffer_done(&text);
    return kept;
}

static int ask_cancel(struct asking *asking, const char *id, const char *origin,
                      struct bl_text *ret_receipt, struct bl_error *error)
{
    keep_answering(asking, id);
    asking->request = make_request(asking->arena, id, origin);
    if (asking->request.size == 0)
        return bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, "cancel", id, "no id is that long");
    asking->answer_ns = BL_NEVER;
    asking->enough = is_receipt;
    int code = ask_all(asking);
    if (code != 0)
        return code;
    if (asking->found == NULL)
        return not_found(asking, id, error);
    const struct bl_json *receipt = bl_json_get(result_of(asking->found), BL_TEXT("receipt"));
    *ret_receipt = bl_json_is(receipt, BL_JSON_OBJECT) ? value_text(asking->arena, receipt)
                                                       : (struct bl_text){0};
    return 0;
}

int bl_control_cancel(struct bl_arena *arena, const char *id, const char *origin,
                      struct bl_text *ret_receipt, struct bl_error *error)
{
    struct asking asking;
    int code = ask_ps(&asking, arena, error);
    if (code == BL_ENOENT)
        code = not_found(&asking, id, error);
    else if (code == 0)
        code = ask_cancel(&asking, id, origin, ret_receipt, error);
    asking_done(&asking);
    return code;
}

/* ---- A call ---------------------------------------------------------------------------------- */

/* False: it is silent on a new connection, too. One that refuses it, lets nobody in or has gone is
 * not: then the old connection says what there is to know. */
static bool is_answering(const struct question *silent)
{
    struct bl_arena arena = {0};
    struct asking asking = {
        .arena = &arena,
        .folder = silent->asking->folder,
        .request = BL_TEXT("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ps\"}\n"),
        .answer_ns = PING_PATIENCE * serve_patience_ns,
    };
    struct question question = {.asking = &asking, .pid = silent->pid};
    bl_text_into(question.name, sizeof question.name, silent->name);
    int code = ask_within(&question);
    bl_arena_done(&arena);
    return code != BL_ETIMEDOUT;
}

static struct bl_text make_call(struct bl_arena *arena, const char *method, struct bl_text params)
{
    struct bl_buffer text;
    struct bl_json_writer writer;
    bl_buffer_init(&text, BL_CONTROL_LINE_MAX);
    bl_json_writer_init(&writer, &text);
    bl_json_write_object(&writer);
    bl_json_put_string(&writer, "jsonrpc", "2.0");
    bl_json_put_uint64(&writer, "id", 3);
    bl_json_put_string(&writer, "method", method);
    if (params.size > 0)
        bl_json_put_json(&writer, "params", params);
    bl_json_write_end(&writer);
    struct bl_text kept = {0};
    if (bl_json_writer_done(&writer) == 0)
        kept = bl_arena_printf(arena, BL_TEXT_FORMAT "\n", BL_TEXT_ARG(bl_buffer_text(&text)));
    bl_buffer_done(&text);
    return kept;
}

static void take_member(char *out, size_t size, const struct bl_json *data, struct bl_text key)
{
    struct bl_text text = bl_json_text(bl_json_get(data, key));
    if (text.size > 0)
        bl_text_into(out, size, text.data);
}

static int code_of(int64_t number)
{
    switch (number) {
    case BL_RPC_INVALID_PARAMS: return BL_EINVAL;
    case BL_RPC_NO_METHOD: return BL_ENOTSUP;
    case BL_RPC_NOT_FOUND: return BL_ENOENT;
#define CODE_OF(name, value, text) case value:
        BL_ERROR_TABLE(CODE_OF)
#undef CODE_OF
        return (int)number;
    default: return BL_EUNKNOWN;
    }
}

/* The error as it was set there. */
static int take_error(const struct question *question, const char *method, struct bl_error *error)
{
    const struct bl_json *data = bl_json_pointer(question->answer, BL_TEXT("/error/data"));
    struct bl_text kind = bl_json_text(bl_json_get(data, BL_TEXT("kind")));
    struct bl_text message =
        bl_json_text(bl_json_pointer(question->answer, BL_TEXT("/error/message")));
    int code = code_of(failure_of(question));
    if (error == NULL)
        return code;
    *error = (struct bl_error){0};
    bl_error_set(error, code, BL_KIND_DELIVERY, method, NULL, "process %lld refused: %s",
                 (long long)question->pid, message.size > 0 ? message.data : "no reason is given");
    if (!bl_json_is(data, BL_JSON_OBJECT))
        return code;
    for (int i = 0; i <= BL_KIND_FEATURE; i++)
        if (bl_text_equal(kind, bl_text_from(bl_error_kind_name((enum bl_error_kind)i))))
            error->kind = (enum bl_error_kind)i;
    take_member(error->operation, sizeof error->operation, data, BL_TEXT("operation"));
    take_member(error->target, sizeof error->target, data, BL_TEXT("target"));
    take_member(error->message, sizeof error->message, data, BL_TEXT("message"));
    take_member(error->hint, sizeof error->hint, data, BL_TEXT("hint"));
    take_member(error->name, sizeof error->name, data, BL_TEXT("code"));
    error->retryable = bl_json_boolean(bl_json_get(data, BL_TEXT("retryable")), false);
    return code;
}

/* What became of a question that has no answer. */
static int no_answer(const struct question *question, const char *method, struct bl_error *error)
{
    long long pid = (long long)question->pid;
    int code = question->code, stopped = bl_check();
    if (stopped != 0 || code == BL_ENOENT)
        return stopped != 0 ? stopped : code;
    if (code == BL_EAGAIN) {
        code = bl_error_set(error, BL_EAGAIN, BL_KIND_DELIVERY, method, NULL,
                            "process %lld listens and does not answer", pid);
        bl_error_hint(error, "is it paused? 'kill -CONT %lld' lets it go on", pid);
        return code;
    }
    if (code == BL_EPARSE || code == BL_ELIMIT)
        return bl_error_set(error, BL_EUNKNOWN, BL_KIND_DELIVERY, method, NULL,
                            "what process %lld answered cannot be read: %s", pid,
                            bl_error_text(code));
    bl_error_set(error, BL_EUNKNOWN, BL_KIND_DELIVERY, method, NULL,
                 "process %lld has gone without an answer", pid);
    bl_error_hint(error, "what it held is stopped with it; 'belay ps' shows what runs");
    return BL_EUNKNOWN;
}

/* 0, or what was wrong; BL_ENOENT and BL_ENOTSUP: another one may be meant. */
static int call_one(struct question *question, const char *method, struct bl_text *ret_result,
                    struct bl_error *error)
{
    question->code = ask(question);
    if (question->code != 0)
        return no_answer(question, method, error);
    if (bl_json_get(question->answer, BL_TEXT("error")) != NULL)
        return take_error(question, method, error);
    if (result_of(question) == NULL) {
        question->code = BL_EPARSE;
        return no_answer(question, method, error);
    }
    *ret_result = value_text(question->asking->arena, result_of(question));
    return 0;
}

int bl_control_call(struct bl_arena *arena, int64_t pid, const char *method, struct bl_text params,
                    struct bl_text *ret_result, struct bl_error *error)
{
    struct asking asking;
    int code = asking_init(&asking, arena, error);
    if (code == 0)
        code = find_sockets(&asking);
    if (code == 0) {
        asking.request = make_call(arena, method, params);
        asking.place_ns = BL_NEVER;
        asking.goes_on = is_answering;
        code = asking.request.size > 0 ? BL_ENOENT
                                       : bl_error_set(error, BL_ELIMIT, BL_KIND_USAGE, method, NULL,
                                                      "that is more than can be asked");
    }
    /* Several: processes of other PID namespaces have that number, too. */
    for (struct bl_list *link = asking.questions.next;
         link != &asking.questions && (code == BL_ENOENT || code == BL_ENOTSUP);
         link = link->next) {
        struct question *question = BL_CONTAINER(link, struct question, link);
        if (question->pid == pid)
            code = call_one(question, method, ret_result, error);
    }
    asking_done(&asking);
    if (code == BL_ENOENT)
        bl_error_set(error, code, BL_KIND_DELIVERY, method, NULL, "no process %lld listens",
                     (long long)pid);
    return code;
}
