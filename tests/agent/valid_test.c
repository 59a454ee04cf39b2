/* After any stop a session is valid for every provider, and the next turn works: real parts, and
 * stops at random points. The conversation is then sent to a checking server, in each format. */
#include "helpers.h"

#include <stdio.h>

static const enum bl_api apis[] = {BL_API_ANTHROPIC, BL_API_OPENAI, BL_API_OPENAI_RESPONSES,
                                   BL_API_OLLAMA};

/* Scripts with everything that an answer can contain; some make several calls at once. */
#define CHILD                                                                                      \
    "replies:\n"                                                                                   \
    "  - {say: mine, tools: [{name: ls}, {name: glob, input: {pattern: \"*\"}}]}\n"                \
    "  - {thinking: so, say: that is all there is}\n"
#define PARENT                                                                                     \
    "context_window: %u\n"                                                                         \
    "replies:\n"                                                                                   \
    "  - {thinking: hm hm, say: let me look at it, pieces: 3, tools: [{name: ls}, {name: glob, "   \
    "input: {pattern: \"*.db\"}}, {name: nothing}, {name: ls}]}\n"                                 \
    "  - {say: two at once, tools: [{name: task, input: {agent: child, prompt: one}}, {name: "     \
    "task, input: {agent: child, prompt: two}}, {name: bash, input: {command: echo hi}}]}\n"       \
    "  - {tools: [{name: bash, input: {command: \"echo a; echo b\"}}, {name: ls}]}\n"              \
    "  - {thinking: well, say: it is all done now, pieces: 4}\n"                                   \
    "repeat: true\n"

struct server {
    struct bl_script *script;
    struct bl_script_server *server;
    struct bl_provider provider;
    struct bl_profile profile;
    char url[64];
    unsigned answered;
    unsigned refused;
};

static void note(void *context, const struct bl_script_served *served)
{
    struct server *server = context;

    if (served->status == 200) {
        server->answered++;
    } else {
        server->refused++;
        print_error(BL_TEXT_FORMAT ": %d\n", BL_TEXT_ARG(served->path), served->status);
    }
}

static void serve(struct server *server, struct bl_nursery *nursery)
{
    struct bl_script_server_options options = {.journal = note, .context = server};
    struct bl_error error = {0};

    CHECK_EQUAL(bl_script_parse(BL_TEXT("replies: [{say: \"I see.\"}]\nrepeat: true\n"), "server",
                                &server->script, &error),
                0);
    options.script = server->script;
    CHECK_EQUAL(bl_script_server_start(nursery, &options, &server->server, &error), 0);
}

/* ---- A turn that is stopped ------------------------------------------------------------------ */

struct play {
    struct bl_random random;
    uint64_t stop_at;   /* the number of the event; counted over all agents */
    uint64_t inject_at; /* 0: never */
    uint64_t events;
    unsigned stopped;
    unsigned completed;
    unsigned injected;
};

static void follow(struct rig *rig, const struct bl_event *event BL_UNUSED)
{
    struct play *play = rig->extra;

    play->events++;
    if (play->events == play->inject_at)
        CHECK_EQUAL(bl_agent_inject(rig->agent, BL_TEXT("by the way"), NULL), 0);
    if (play->events == play->stop_at)
        bl_scope_stop(&rig->scope, BL_STOP_USER, "test");
}

static void stopped_turn(struct rig *rig, struct play *play)
{
    play->events = 0;
    play->stop_at = 1 + bl_random_below(&play->random, 140);
    play->inject_at =
        bl_random_below(&play->random, 2) == 0 ? 1 + bl_random_below(&play->random, 40) : 0;
    rig->options.limits.keep = bl_random_below(&play->random, 3) > 0;
    rig->options.model = &rig->model;
    rig->run.max_turns = 1;
    rig_open(rig);
    rig->on_event = follow;
    enum bl_turn_end end = rig_prompt(rig, "look at it");
    rig->on_event = NULL;
    CHECK(end == BL_TURN_COMPLETED || end == BL_TURN_CANCELLED);
    CHECK_EQUAL(rig->result.run.receipt.size > 0,
                bl_text_find(rig->result.run.receipt, BL_TEXT("\"survivors\":0")) >= 0);
    play->stopped += end == BL_TURN_CANCELLED;
    play->completed += end == BL_TURN_COMPLETED;
    play->injected += bl_agent_take_back(rig->agent, &rig->arena).size == 0 && play->inject_at > 0;
    rig_close(rig);
}

/* Sends the same session to a model behind HTTP. */
static void next_turn(struct rig *rig, struct server *server, enum bl_api api)
{
    bool version = api == BL_API_OPENAI || api == BL_API_OPENAI_RESPONSES;
    struct bl_remote_options options = {
        .provider = &server->provider, .profile = &server->profile, .seed = 1};
    struct bl_remote *remote = NULL;
    struct bl_model model;

    snprintf(server->url, sizeof server->url, "http://127.0.0.1:%u%s",
             bl_script_server_port(server->server), version ? "/v1" : "");
    server->provider = (struct bl_provider){
        .name = bl_api_name(api), .api = api, .base_url = server->url, .key = "sk-test"};
    server->profile = (struct bl_profile){.model = "test-1"};
    CHECK_EQUAL(bl_remote_new(&options, &remote, &model, &rig->error), 0);
    rig->options.model = &model;
    CHECK_EQUAL(rig_run(rig, "and now?"), 0);
    if (!CHECK_EQUAL(rig->result.run.end, BL_TURN_COMPLETED) && rig->result.run.error != NULL)
        print_error("%s: %s\n", server->provider.name, rig->result.run.error->message);
    CHECK(bl_text_equal(rig_turn(rig)->output, BL_TEXT("I see.")));
    bl_remote_free(remote);
}

static int play_main(void *argument)
{
    unsigned long rounds = *(unsigned long *)argument;
    struct rig *rig = bl_alloc(sizeof *rig);
    struct bl_nursery nursery;
    struct server server = {0};
    struct play play = {0};
    char script[sizeof PARENT + 16], id[32];

    bl_nursery_init(&nursery, bl_scope_current());
    serve(&server, &nursery);
    bl_random_seed(&play.random, 11);
    rig_init(rig, "replies: [{say: ok}]\n");
    rig_persona(rig, "child", CHILD);
    rig->extra = &play;
    for (unsigned long i = 0; i < rounds; i++) {
        /* Every other session has a small context, so that turns are summarized. */
        unsigned room = i / 8 % 2 == 0 ? 1000000 : 500;
        snprintf(id, sizeof id, "valid-%lu", i / 8);
        rig->options.session.id = id;
        snprintf(script, sizeof script, PARENT, room);
        rig_script(rig, script);
        stopped_turn(rig, &play);
        rig_check_valid(rig, id);
        next_turn(rig, &server, apis[bl_random_below(&play.random, BL_COUNT(apis))]);
        rig_check_valid(rig, id);
    }
    CHECK_EQUAL(server.answered, rounds);
    CHECK_EQUAL(server.refused, 0);
    CHECK_EQUAL(rig_processes(rig), 0);
    print_message("%lu rounds: %u stopped, %u completed, %u injected, %zu compacted\n", rounds,
                  play.stopped, play.completed, play.injected, rig_told(rig, BL_EVENT_COMPACTED));
    CHECK(play.stopped > rounds / 3);
    CHECK(play.injected > 0);
    CHECK(rig_told(rig, BL_EVENT_COMPACTED) > 0);
    bl_script_server_stop(server.server);
    rig_done(rig);
    bl_nursery_done(&nursery);
    bl_script_free(server.script);
    bl_free(rig);
    return 0;
}

static void after_any_stop_the_session_is_valid_for_every_provider_and_the_next_turn_works(
    void **state BL_UNUSED)
{
    unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 32 : 48, 2000);

    run_in_loop(play_main, &rounds);
}

SUITE(valid, cmocka_unit_test(
                 after_any_stop_the_session_is_valid_for_every_provider_and_the_next_turn_works));
