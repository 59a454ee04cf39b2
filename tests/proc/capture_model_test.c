#include "suite.h"

#include <belay/proc.h>

#define MODEL_MAX 8192u

/* The text that the capture should return for `size` bytes, derived from the contract. */
static void expect(const char *bytes, size_t size, size_t limit, struct bl_buffer *out)
{
    size_t head = limit - limit / 2, tail = limit / 2;

    if (size <= limit) {
        bl_buffer_append(out, (struct bl_text){bytes, size});
        return;
    }
    bl_buffer_append(out, (struct bl_text){bytes, head});
    bl_buffer_printf(out, "\n…%zu bytes left out…\n", size - limit);
    bl_buffer_append(out, (struct bl_text){bytes + size - tail, tail});
}

static void check(const struct bl_capture *capture, const char *bytes, size_t size, size_t limit)
{
    struct bl_buffer expected, found;

    bl_buffer_init(&expected, 2 * MODEL_MAX);
    bl_buffer_init(&found, 2 * MODEL_MAX);
    expect(bytes, size, limit, &expected);
    assert_int_equal(bl_capture_text(capture, &found), 0);
    assert_int_equal(found.size, expected.size);
    if (found.size > 0)
        assert_memory_equal(found.data, expected.data, found.size);
    assert_int_equal(capture->total, size);
    assert_int_equal(bl_capture_left_out(capture), size > limit ? size - limit : 0);
    assert_true(capture->head.capacity + capture->tail.capacity <= limit);
    bl_buffer_done(&expected);
    bl_buffer_done(&found);
}

static void capture_matches_a_model_that_keeps_everything(void **state)
{
    static char bytes[MODEL_MAX];
    struct bl_random random;

    (void)state;
    for (unsigned long seed = 0; seed < suite_rounds(SUITE_SANITIZED ? 500 : 2000, 100000);
         seed++) {
        struct bl_capture capture;
        bl_random_seed(&random, seed);
        size_t limit = bl_random_below(&random, seed % 3 == 0 ? 8 : 600);
        size_t most = 1 + bl_random_below(&random, seed % 2 == 0 ? 5 : 1000);
        size_t size = 0, goal = bl_random_below(&random, seed % 5 == 0 ? 10 : MODEL_MAX);
        for (size_t i = 0; i < goal; i++)
            bytes[i] = (char)bl_random_next(&random);
        bl_capture_init(&capture, limit);
        while (size < goal) {
            size_t piece = bl_random_below(&random, most + 1);
            if (piece > goal - size)
                piece = goal - size;
            bl_capture_add(&capture, (struct bl_text){bytes + size, piece});
            size += piece;
            if (bl_random_below(&random, 16) == 0)
                check(&capture, bytes, size, limit);
        }
        check(&capture, bytes, size, limit);
        bl_capture_done(&capture);
    }
}

static void text_that_does_not_fit_adds_nothing(void **state)
{
    struct bl_capture capture;
    struct bl_buffer out;

    (void)state;
    bl_capture_init(&capture, 4);
    bl_capture_add(&capture, BL_TEXT("abcdefgh"));
    bl_buffer_init(&out, 10);
    assert_int_equal(bl_capture_text(&capture, &out), BL_ELIMIT);
    assert_int_equal(out.size, 0);
    bl_buffer_done(&out);
    bl_capture_done(&capture);
}

SUITE(capture_model, cmocka_unit_test(capture_matches_a_model_that_keeps_everything),
      cmocka_unit_test(text_that_does_not_fit_adds_nothing));
