/* Speed of parsing events. */
#include <time.h>

#include <belay/wire.h>

#include "figure.h"
#include "suite.h"

#define PACE_BYTES      ((size_t)20 * 1000 * 1000)
#define PACE_PIECE_SIZE 16384u
#define PACE_MS         100.0 /* 200 MB/s */

/* CPU time of this thread: the promise is for one core. */
static double processor_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int count_bytes(void *context, const struct bl_sse_event *event)
{
    *(size_t *)context += event->data.size;
    return 0;
}

/* As providers send them: a name, a line of JSON and a blank line. */
static void P19_events_are_parsed_at_200_megabytes_per_second(void **state)
{
    static const char event[] =
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
        "{\"type\":\"text_delta\",\"text\":\" of the mountain, in words\"}}\n\n";
    size_t count = PACE_BYTES / (sizeof event - 1), size = count * (sizeof event - 1), found = 0;
    char *stream = bl_alloc(size);
    struct bl_sse sse;

    (void)state;
    for (size_t i = 0; i < count; i++)
        memcpy(stream + i * (sizeof event - 1), event, sizeof event - 1);
    for (int round = 0; round < (figure_taking() ? 15 : 1); round++) {
        found = 0;
        bl_sse_init(&sse, PACE_PIECE_SIZE, PACE_PIECE_SIZE);
        double from_ms = processor_ms();
        for (size_t at = 0; at < size; at += PACE_PIECE_SIZE) {
            size_t left = size - at;
            struct bl_text piece = {stream + at, left < PACE_PIECE_SIZE ? left : PACE_PIECE_SIZE};
            assert_int_equal(bl_sse_feed(&sse, piece, count_bytes, &found), 0);
        }
        assert_true(
            figure_at_most("P19 parsing of 20 MB of events", processor_ms() - from_ms, PACE_MS));
        bl_sse_done(&sse);
        assert_int_equal(found, count * (strrchr(event, '}') + 1 - strchr(event, '{')));
    }
    bl_free(stream);
}

SUITE(sse_pace, cmocka_unit_test(P19_events_are_parsed_at_200_megabytes_per_second));
