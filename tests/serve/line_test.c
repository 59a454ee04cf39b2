#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "place.h"

#define LINE_MAX_HERE ((size_t)64)

struct pair {
    struct serve_line line;
    int other;
};

static void pair_make(struct pair *pair)
{
    int ends[2];
    CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQUAL(serve_line_init(&pair->line, ends[0], LINE_MAX_HERE), 0);
    pair->other = ends[1];
}

static void pair_done(struct pair *pair)
{
    serve_line_done(&pair->line);
    if (pair->other >= 0)
        close(pair->other);
}

static void put(struct pair *pair, const char *text)
{
    CHECK_EQUAL(send(pair->other, text, strlen(text), 0), strlen(text));
}

static bool read_is(struct pair *pair, const char *expected)
{
    struct bl_text line = {0};
    return serve_line_read(&pair->line, BL_NS_PER_S, BL_NS_PER_S, &line) == 0 &&
           bl_text_equal(line, bl_text_from(expected));
}

static int lines(void *argument)
{
    struct pair pair;
    struct bl_text line;
    (void)argument;
    pair_make(&pair);
    put(&pair, "one\ntwo\n\nthr");
    CHECK(read_is(&pair, "one"));
    CHECK(read_is(&pair, "two"));
    CHECK(read_is(&pair, ""));
    put(&pair, "ee\n");
    CHECK(read_is(&pair, "three"));
    /* As long as it may be, and two of them. */
    char most[LINE_MAX_HERE + 2];
    memset(most, 'x', LINE_MAX_HERE);
    memcpy(most + LINE_MAX_HERE, "\n", 2);
    put(&pair, most);
    put(&pair, most);
    most[LINE_MAX_HERE] = '\0';
    CHECK(read_is(&pair, most));
    CHECK(read_is(&pair, most));
    put(&pair, "cut");
    close(pair.other);
    pair.other = -1;
    CHECK_EQUAL(serve_line_read(&pair.line, BL_NS_PER_S, BL_NS_PER_S, &line), BL_ECLOSED);
    pair_done(&pair);
    return 0;
}

static void lines_come_whole_in_whatever_pieces_they_were_sent(void **state)
{
    (void)state;
    run_in_loop(lines, NULL);
}

static int too_long(void *argument)
{
    struct pair pair;
    struct bl_text line;
    char text[LINE_MAX_HERE + 3];
    (void)argument;
    pair_make(&pair);
    memset(text, 'x', sizeof text);
    text[LINE_MAX_HERE + 1] = '\n';
    text[LINE_MAX_HERE + 2] = '\0';
    put(&pair, text);
    CHECK_EQUAL(serve_line_read(&pair.line, BL_NS_PER_S, BL_NS_PER_S, &line), BL_ELIMIT);
    pair_done(&pair);
    return 0;
}

static void a_line_over_the_maximum_is_an_error(void **state)
{
    (void)state;
    run_in_loop(too_long, NULL);
}

static int drip(void *argument)
{
    struct pair *pair = argument;
    for (int i = 0; i < 40 && bl_sleep(20 * MS) == 0; i++)
        put(pair, "x");
    return 0;
}

static int slow(void *argument)
{
    struct pair pair;
    struct bl_text line;
    struct bl_nursery nursery;
    (void)argument;
    pair_make(&pair);
    double start_ms = now_ms();
    CHECK_EQUAL(serve_line_read(&pair.line, 100 * MS, BL_NS_PER_S, &line), BL_EAGAIN);
    CHECK(now_ms() - start_ms >= 99);
    /* A byte now and then is no sign of life. */
    bl_nursery_init(&nursery, bl_scope_current());
    CHECK_EQUAL(bl_nursery_spawn(&nursery, NULL, "drip", drip, &pair, NULL), 0);
    CHECK_EQUAL(serve_line_read(&pair.line, 10 * BL_NS_PER_S, 200 * MS, &line), BL_EAGAIN);
    bl_nursery_done(&nursery);
    pair_done(&pair);
    return 0;
}

static void a_line_that_takes_too_long_is_given_up(void **state)
{
    (void)state;
    run_in_loop(slow, NULL);
}

static int stopped(void *argument)
{
    struct pair pair;
    struct bl_text line;
    struct bl_scope scope;
    (void)argument;
    pair_make(&pair);
    bl_scope_init(&scope, bl_scope_current());
    bl_scope_set_deadline(&scope, bl_now_ns() + 50 * MS);
    struct bl_scope *outer = bl_scope_enter(&scope);
    CHECK_EQUAL(serve_line_read(&pair.line, BL_NEVER, BL_NEVER, &line), BL_ETIMEDOUT);
    put(&pair, "late\n");
    CHECK_EQUAL(serve_line_read(&pair.line, BL_NEVER, BL_NEVER, &line), BL_ETIMEDOUT);
    CHECK_EQUAL(serve_line_write(&pair.line, BL_TEXT("x"), BL_NEVER), BL_ETIMEDOUT);
    bl_scope_enter(outer);
    bl_scope_done(&scope);
    pair_done(&pair);
    return 0;
}

static void a_stop_of_the_scope_is_told_from_a_limit(void **state)
{
    (void)state;
    run_in_loop(stopped, NULL);
}

static int writes(void *argument)
{
    struct pair pair;
    size_t size = 4 << 20;
    char *much = bl_zalloc(size);
    (void)argument;
    pair_make(&pair);
    CHECK_EQUAL(serve_line_write(&pair.line, BL_TEXT("hello\n"), BL_NS_PER_S), 0);
    CHECK(strcmp(client_line(pair.other), "hello") == 0);
    /* Nobody reads. */
    CHECK_EQUAL(serve_line_write(&pair.line, (struct bl_text){much, size}, 100 * MS), BL_EAGAIN);
    close(pair.other);
    pair.other = -1;
    CHECK_EQUAL(serve_line_write(&pair.line, (struct bl_text){much, size}, 100 * MS), BL_EPIPE);
    bl_free(much);
    pair_done(&pair);
    return 0;
}

static void a_peer_that_does_not_read_or_is_gone_holds_up_nobody(void **state)
{
    (void)state;
    run_in_loop(writes, NULL);
}

SUITE(line, cmocka_unit_test(lines_come_whole_in_whatever_pieces_they_were_sent),
      cmocka_unit_test(a_line_over_the_maximum_is_an_error),
      cmocka_unit_test(a_line_that_takes_too_long_is_given_up),
      cmocka_unit_test(a_stop_of_the_scope_is_told_from_a_limit),
      cmocka_unit_test(a_peer_that_does_not_read_or_is_gone_holds_up_nobody));
