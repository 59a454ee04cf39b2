#include "asking.h"

void asking_init(struct asking *asking)
{
    *asking = (struct asking){.request = {.method = "POST", .body = BL_TEXT("{}")}};
    bl_buffer_init(&asking->body, (size_t)128 * 1024 * 1024);
}

void asking_done(struct asking *asking)
{
    bl_client_free(asking->client);
    bl_buffer_done(&asking->body);
}

static int read_all(struct asking *asking, struct bl_exchange *exchange)
{
    struct bl_text bytes;
    int code;

    do {
        code = bl_exchange_read(exchange, &bytes);
        if (code == 0) {
            bl_buffer_append(&asking->body, bytes);
            if (bytes.size > 0)
                bl_exchange_meaningful(exchange);
        }
    } while (code == 0 && bytes.size > 0);
    return code;
}

int ask(struct asking *asking, const char *url)
{
    struct bl_exchange *exchange;
    uint64_t from_ns = bl_now_ns();

    if (asking->client == NULL)
        asking->client = bl_client_new(&asking->options);
    asking->request.url = url;
    asking->error = (struct bl_error){0};
    bl_buffer_clear(&asking->body);
    int code = bl_exchange_new(asking->client, &asking->request, &exchange, &asking->error);
    if (code != 0)
        return code;
    code = bl_exchange_headers(exchange);
    if (code == 0 && !asking->no_end)
        code = read_all(asking, exchange);
    asking->status = bl_exchange_status(exchange);
    asking->failure = *bl_exchange_failure(exchange);
    asking->abandoned = bl_exchange_abandoned(exchange);
    bl_exchange_place(exchange, asking->place, sizeof asking->place);
    bl_exchange_free(exchange);
    asking->duration_ns = bl_now_ns() - from_ns;
    return code;
}

static int asker_main(void *argument)
{
    struct asker *asker = argument;

    asker->code = ask(asker->asking, asker->url);
    asker->ended_ns = bl_now_ns();
    asker->ended = true;
    return 0;
}

void asker_start(struct asker *asker, struct asking *asking, const char *url)
{
    asker->asking = asking;
    asker->url = url;
    asker->ended = false;
    if (asking->client == NULL)
        asking->client = bl_client_new(&asking->options);
    bl_nursery_init(&asker->nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&asker->nursery, NULL, "asker", asker_main, asker, NULL), 0);
}

void asker_join(struct asker *asker)
{
    bl_nursery_join(&asker->nursery);
    bl_nursery_done(&asker->nursery);
}

uint64_t asker_stop(struct asker *asker)
{
    uint64_t from_ns = bl_now_ns();

    bl_scope_stop(&asker->nursery.scope, BL_STOP_USER, "test");
    asker_join(asker);
    return asker->ended_ns - from_ns;
}
