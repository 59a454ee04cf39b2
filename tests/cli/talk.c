#include "talk.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define ACTS_MAX  64u
#define WORDS_MAX 16u

struct session {
    struct talk *talk;
    struct bl_arena arena;
    struct peer *peer;
    struct peer_act acts[ACTS_MAX];
    const char *environment[WORDS_MAX];
    struct held held;
};

/* Returns the text with every ADDRESS replaced. */
static const char *with_address(struct session *session, const char *text)
{
    const char *address = peer_url(session->peer, "");
    struct bl_buffer out;
    const char *at;

    bl_buffer_init(&out, (size_t)64 * 1024);
    while ((at = strstr(text, "ADDRESS")) != NULL) {
        bl_buffer_printf(&out, "%.*s%s", (int)(at - text), text, address);
        text = at + strlen("ADDRESS");
    }
    bl_buffer_printf(&out, "%s", text);
    const char *result = bl_arena_text(&session->arena, bl_buffer_text(&out)).data;
    bl_buffer_done(&out);
    return result;
}

/* Writes the answers for one connection, one for each request. */
static void write_acts(struct session *session)
{
    const struct talk *talk = session->talk;
    struct peer_act *act = session->acts;

    for (size_t i = 0; talk->answers != NULL && talk->answers[i] != NULL; i++) {
        struct bl_text body = bl_text_from(with_address(session, talk->answers[i]));
        *act++ = (struct peer_act){.type = PEER_READ_REQUEST};
        *act++ = (struct peer_act){
            .type = PEER_SEND,
            .bytes = bl_arena_printf(
                &session->arena,
                "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n" BL_TEXT_FORMAT,
                talk->status != NULL ? talk->status : "200 OK",
                talk->type != NULL ? talk->type : "text/event-stream", body.size,
                BL_TEXT_ARG(body))};
    }
    *act++ = (struct peer_act){.type = PEER_READ_REQUEST};
    if (talk->endless != NULL) {
        *act++ = (struct peer_act){
            .type = PEER_SEND,
            .bytes =
                BL_TEXT("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" TALK_BEGIN)};
        *act++ = (struct peer_act){.type = PEER_SEND_ENDLESS, .bytes = bl_text_from(talk->endless)};
    }
    *act++ = (struct peer_act){.type = PEER_SILENCE};
}

static void write_config(const char *text)
{
    const char *path = stage_path("config/belay/config.yaml");
    FILE *file;

    mkdir(stage_path("config/belay"), 0700);
    file = fopen(path, "wb");
    if (file == NULL)
        return;
    fwrite(text, 1, strlen(text), file);
    fclose(file);
}

/* Runs on a thread, so that the server's fibers continue. */
static void run_program(void *payload)
{
    struct session *session = payload;
    runner_run_with(&session->talk->run, session->talk->arguments, session->environment, RUN_KEEP);
}

static void drop_nothing(void *payload)
{
    (void)payload;
}

static void wait_program(void *payload)
{
    struct session *session = payload;
    held_wait(&session->held);
}

/* The same, with a signal after the first request. */
static void signal_program(struct session *session)
{
    struct talk *talk = session->talk;
    const char *words[WORDS_MAX * 2] = {"env"};
    size_t count = 1;

    for (size_t i = 0; session->environment[i] != NULL; i++)
        words[count++] = session->environment[i];
    words[count++] = runner_program();
    for (size_t i = 0; talk->arguments[i] != NULL; i++)
        words[count++] = talk->arguments[i];
    held_start(&session->held, words, HELD_NULL, RUN_KEEP);
    for (int i = 0; i < 3000 && peer_requests(session->peer) == 0; i++)
        bl_sleep(10 * BL_NS_PER_MS);
    kill(session->held.pid, talk->signal);
    struct bl_work work = {.run = wait_program, .drop = drop_nothing, .payload = session};
    bool abandoned;
    CHECK_EQUAL(bl_work_call(&work, &abandoned), 0);
    talk->run.exit_code = session->held.exit_code;
    snprintf(talk->run.out, sizeof talk->run.out, "%s", held_out(&session->held));
    snprintf(talk->run.err, sizeof talk->run.err, "%s", held_err(&session->held));
    held_end(&session->held);
}

static void run_beside(struct session *session)
{
    struct bl_work work = {.run = run_program, .drop = drop_nothing, .payload = session};
    bool abandoned;

    if (session->talk->signal != 0)
        signal_program(session);
    else
        CHECK_EQUAL(bl_work_call(&work, &abandoned), 0);
}

static int session_main(void *argument)
{
    struct session *session = argument;
    struct talk *talk = session->talk;
    struct peer_script script = {.acts = session->acts};
    struct bl_nursery nursery;

    bl_nursery_init(&nursery, bl_scope_current());
    session->peer = peer_start(&nursery, &script, 1);
    write_acts(session);
    if (talk->config != NULL)
        write_config(with_address(session, talk->config));
    for (size_t i = 0; talk->environment != NULL && talk->environment[i] != NULL; i++)
        session->environment[i] = with_address(session, talk->environment[i]);
    run_beside(session);
    talk->connections = peer_connections(session->peer);
    talk->requests = peer_requests(session->peer);
    talk->first_byte_ns = peer_first_byte_ns(session->peer);
    for (unsigned i = 0; i < talk->requests && i < TALK_REQUESTS_MAX; i++)
        talk->heads[i] = stage_keep(peer_request(session->peer, i));
    peer_stop(session->peer);
    bl_nursery_done(&nursery);
    return 0;
}

void talk(struct talk *talk)
{
    struct session *session = bl_zalloc(sizeof *session);

    session->talk = talk;
    bl_arena_init(&session->arena);
    run_in_loop(session_main, session);
    bl_arena_done(&session->arena);
    bl_free(session);
}
