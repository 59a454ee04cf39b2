/* Runs belay against a server of bytes (tests/lib/peer.h), on a stage of its own. */
#ifndef BELAY_TESTS_CLI_TALK_H
#define BELAY_TESTS_CLI_TALK_H

#include "peer.h"
#include "stage.h"

#define TALK_REQUESTS_MAX 8u

struct talk {
    /* Set by the caller. */
    const char *const *answers;   /* bodies of server-sent events, one per request, ending in NULL;
                                       then silence. ADDRESS is replaced by the server's address */
    const char *endless;          /* repeated after the answers instead of silence; may be NULL */
    const char *status;           /* of all answers; NULL for "200 OK" */
    const char *type;             /* content type; NULL for text/event-stream */
    const char *config;           /* the user's file, with ADDRESS as above; NULL if none */
    const char *const *arguments; /* words, ending in NULL */
    const char *const *environment; /* additions, with ADDRESS as above; may be NULL */
    int signal;                     /* sent after the first request; 0 if none */
    /* Results. */
    struct run run;
    unsigned connections;
    unsigned requests;
    uint64_t first_byte_ns;               /* of the first request, at the server */
    const char *heads[TALK_REQUESTS_MAX]; /* whole requests, head and body */
};

/* Runs the conversation; fails the test if it cannot be set up. */
void talk(struct talk *talk);
#define TALK_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Answers in Anthropic's format with one block: a text, or a call of bash. */
#define TALK_ANSWER(block, delta, reason)                                                          \
    "event: message_start\n"                                                                       \
    "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\","            \
    "\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,"                  \
    "\"usage\":{\"input_tokens\":12,\"output_tokens\":1}}}\n\n"                                    \
    "event: content_block_start\n"                                                                 \
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":" block "}\n\n"         \
    "event: content_block_delta\n"                                                                 \
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":" delta "}\n\n"                 \
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"           \
    "event: message_delta\n"                                                                       \
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" reason "\"},"                \
    "\"usage\":{\"output_tokens\":4}}\n\n"                                                         \
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
/* The beginning of an answer with a text. */
#define TALK_BEGIN                                                                                 \
    "event: message_start\n"                                                                       \
    "data: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\","            \
    "\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,"                  \
    "\"usage\":{\"input_tokens\":12,\"output_tokens\":1}}}\n\n"                                    \
    "event: content_block_start\n"                                                                 \
    "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","    \
    "\"text\":\"\"}}\n\n"
#define TALK_TEXT(text)                                                                            \
    TALK_ANSWER("{\"type\":\"text\",\"text\":\"\"}",                                               \
                "{\"type\":\"text_delta\",\"text\":\"" text "\"}", "end_turn")
#define TALK_BASH(command)                                                                         \
    TALK_ANSWER("{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"bash\",\"input\":{}}",             \
                "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"command\\\":\\\"" command  \
                "\\\"}\"}",                                                                        \
                "tool_use")

#endif
