/* A process that listens and sends unexpected answers. */
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "place.h"

static const char *liar_says;

static int liar_main(void *argument)
{
    int fd = -1, listener = *(int *)argument;
    struct bl_descriptor *descriptor = NULL;
    char line[4096];
    bl_descriptor_new(listener, &descriptor);
    while (bl_descriptor_wait(descriptor, BL_READABLE, NULL) == 0) {
        fd = accept(listener, NULL, NULL);
        if (fd < 0)
            continue;
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        while (poll(&ready, 1, 0) == 0 && bl_sleep(MS) == 0) {
        }
        recv(fd, line, sizeof line, 0);
        send(fd, liar_says, strlen(liar_says), MSG_NOSIGNAL);
        close(fd);
    }
    bl_descriptor_free(descriptor);
    return 0;
}

static int lies(void *argument)
{
    static const struct {
        const char *says;
        int code;
    } cases[] = {
        {"", BL_EUNKNOWN},
        {"{\"jsonrpc\":\"2.0\"", BL_EUNKNOWN},
        {"\n", BL_EUNKNOWN},
        {"hello\n", BL_EUNKNOWN},
        {"[]\n", BL_EUNKNOWN},
        {"{}\n", BL_EUNKNOWN},
        {"{\"error\":null}\n", BL_EUNKNOWN},
        {"{\"id\":1,\"error\":{\"code\":0,\"message\":7,\"data\":{\"kind\":[],\"hint\":{}}}}\n",
         BL_EUNKNOWN},
        {"{\"id\":1,\"error\":{\"code\":99999999999999,\"data\":[]}}\n", BL_EUNKNOWN},
        {"{\"id\":1,\"error\":{\"code\":-1007,\"data\":{\"kind\":\"no such\"}}}\n", BL_ENOENT},
        {"{\"result\":7}\n", BL_EUNKNOWN},
        {"{\"id\":2,\"result\":7}\n", BL_EUNKNOWN},
        {"hello\n{\"id\":1,\"result\":7}\n", 0},
    };
    struct place place;
    struct bl_nursery nursery;
    struct bl_arena arena = {0};
    struct bl_error error;
    struct bl_text result;
    struct bl_local_file file;
    char path[SERVE_PATH_SIZE];
    int listener = -1;
    (void)argument;
    place_make(&place);
    place_make_folder(&place);
    CHECK_EQUAL(serve_path(DEAD_SOCKET, path, sizeof path), 0);
    CHECK_EQUAL(bl_local_listen(path, 8, &listener, &file, NULL), 0);
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "liar", liar_main, &listener, NULL), 0);
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        liar_says = cases[i].says;
        error = (struct bl_error){0};
        if (!CHECK_EQUAL(bl_control_call(&arena, getpid(), "test.echo", (struct bl_text){0},
                                         &result, &error),
                         cases[i].code))
            fprintf(stderr, "%s: %s\n", cases[i].says, error.message);
        CHECK(cases[i].code == 0 || (error.code == cases[i].code && error.message[0] != '\0'));
    }
    bl_nursery_done(&nursery);
    bl_local_remove(path, &file);
    close(listener);
    bl_arena_done(&arena);
    place_remove(&place);
    return 0;
}

static void invalid_answers_are_errors(void **state)
{
    (void)state;
    run_in_loop(lies, NULL);
}

SUITE(answer, cmocka_unit_test(invalid_answers_are_errors));
