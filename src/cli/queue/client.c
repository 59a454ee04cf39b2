#include "client.h"

#include "cli/cli.h"

/* The first signal ended the wait, and there is nothing to hurry. */
static void queue_client_hurry(void *context)
{
    (void)context;
}

static int queue_client_perform(struct queue_client *client)
{
    struct bl_scope *outer = bl_scope_enter(&client->scope);

    int code = bl_store_open(client->where, &client->store, &client->error);
    if (code == 0) {
        client->table = bl_store_fleet_table(client->store);
        code = client->work(client);
    }
    bl_scope_enter(outer);
    return code;
}

static int queue_client_main(void *argument)
{
    struct queue_client *client = argument;

    bl_scope_init(&client->scope, bl_scope_current());
    int code = cli_signals_start(&client->signals, &client->scope, queue_client_hurry, client);
    if (code == 0)
        code = queue_client_perform(client);
    bl_store_close(client->store);
    cli_signals_block(&client->signals);
    cli_signals_end(&client->signals);
    bl_scope_done(&client->scope);
    client->signal = client->signals.first;
    client->code = code;
    if (code != 0 && client->signal == 0 && code != BL_EAGAIN)
        bl_error_set(&client->error, code, BL_KIND_RUNTIME, client->name, NULL, "it failed: %s",
                     bl_error_text(code));
    return 0;
}

void queue_client_do(struct queue_client *client)
{
    cli_signals_block(&client->signals);
    int code = cli_loop_run(client->name, queue_client_main, client, &client->error);
    if (code != 0)
        client->code = code;
}
