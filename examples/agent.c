/* Runs an agent that plays a script, and stops it from another thread after a second: prints its
 * text as it arrives, then the receipt, which lists the running work and its fate. */
#include <belay/belay.h>

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *stop_later(void *scope)
{
    sleep(1);
    bl_scope_stop(scope, BL_STOP_USER, "the other thread");
    return NULL;
}

static void print_event(void *context, const struct bl_event *event)
{
    if (event->type == BL_EVENT_TEXT_DELTA)
        fprintf(context, BL_TEXT_FORMAT, BL_TEXT_ARG(event->text));
}

static int run_agent(void *script)
{
    struct bl_listener listener = {print_event, stdout};
    struct bl_workspace_options options;
    struct bl_workspace *workspace = NULL;
    struct bl_agent_result result = {0};
    struct bl_error error = {0};
    struct bl_arena arena = {0};
    struct bl_scope scope;
    pthread_t stopper;

    bl_workspace_options_init(&options, NULL);
    options.provider = "script";
    options.model = script;
    options.mode = BL_PERMISSION_YOLO;
    options.store_path = "agent.db";
    bl_scope_init(&scope, bl_scope_current());
    if (bl_workspace_open(&options, &workspace, &error) == 0 &&
        pthread_create(&stopper, NULL, stop_later, &scope) == 0) {
        struct bl_run_options run = bl_workspace_run(workspace, BL_TEXT("Build it."));
        struct bl_agent_options agent = bl_workspace_agent(workspace);
        agent.listener = &listener;
        bl_agent_run(&agent, &run, &scope, &arena, &result, &error);
        pthread_join(stopper, NULL);
    }
    printf("\n" BL_TEXT_FORMAT "%s\n", BL_TEXT_ARG(result.run.receipt), error.message);
    bl_scope_done(&scope);
    bl_workspace_close(workspace);
    bl_arena_done(&arena);
    return error.code != 0;
}

int main(int count, char **words)
{
    return count == 2 ? bl_loop_once("agent", run_agent, words[1], NULL) : 2;
}
