#include <belay/wire.h>

#include "suite.h"

#define FRAME_MAX ((size_t)64)

/* The frames received, each followed by a bar. */
struct taken {
    struct bl_buffer frames;
    unsigned count;
    unsigned fail_at;         /* 0: never */
    struct bl_frames *larger; /* gets a larger limit with the first frame; may be NULL */
};

static int take(void *context, struct bl_text frame)
{
    struct taken *taken = context;
    assert_int_equal(bl_buffer_append(&taken->frames, frame), 0);
    assert_int_equal(bl_buffer_append_byte(&taken->frames, '|'), 0);
    if (taken->larger != NULL)
        taken->larger->frame_max = 4 * FRAME_MAX;
    return ++taken->count == taken->fail_at ? BL_EBUSY : 0;
}

static void begin(struct bl_frames *frames, struct taken *taken)
{
    *taken = (struct taken){.fail_at = 0};
    bl_buffer_init(&taken->frames, (size_t)64 << 20);
    bl_frames_init(frames, FRAME_MAX);
}

static void finish(struct bl_frames *frames, struct taken *taken)
{
    bl_buffer_done(&taken->frames);
    bl_frames_done(frames);
}

static void expect(const struct taken *taken, struct bl_text expected)
{
    struct bl_text got = bl_buffer_text(&taken->frames);
    if (!bl_text_equal(got, expected))
        fail_msg("frames \"" BL_TEXT_FORMAT "\", expected \"" BL_TEXT_FORMAT "\"", BL_TEXT_ARG(got),
                 BL_TEXT_ARG(expected));
}

static void frames_are_the_same_wherever_the_pieces_are_cut(void **state)
{
    struct bl_text bytes = BL_TEXT("\0\0\0\1a\0\0\0\5hello\0\0\0\2{}\0\0\0\3\0\0\0");
    struct bl_text expected = BL_TEXT("a|hello|{}|\0\0\0|");
    (void)state;
    for (size_t first = 0; first <= bytes.size; first++) {
        for (size_t second = first; second <= bytes.size; second++) {
            struct bl_frames frames;
            struct taken taken;
            struct bl_text pieces[] = {{bytes.data, first},
                                       {bytes.data + first, second - first},
                                       {bytes.data + second, bytes.size - second}};
            begin(&frames, &taken);
            for (size_t i = 0; i < BL_COUNT(pieces); i++)
                assert_int_equal(bl_frames_feed(&frames, pieces[i], take, &taken), 0);
            assert_false(bl_frames_partial(&frames));
            expect(&taken, expected);
            finish(&frames, &taken);
        }
    }
}

static void every_byte_may_come_alone(void **state)
{
    struct bl_text bytes = BL_TEXT("\0\0\0\1a\0\0\0\5hello");
    struct bl_frames frames;
    struct taken taken;
    (void)state;
    begin(&frames, &taken);
    for (size_t i = 0; i < bytes.size; i++) {
        assert_int_equal(bl_frames_feed(&frames, (struct bl_text){bytes.data + i, 1}, take, &taken),
                         0);
        assert_int_equal(bl_frames_partial(&frames), i != 4 && i + 1 != bytes.size);
    }
    expect(&taken, BL_TEXT("a|hello|"));
    finish(&frames, &taken);
}

/* In each case a valid frame comes before, which is delivered, and bytes after it, which are not.
 */
static void a_length_of_zero_or_over_the_limit_is_refused_and_nothing_after_it_read(void **state)
{
    static const struct bl_text heads[] = {BL_TEXT("\0\0\0\0"), BL_TEXT("\0\0\0\101"),
                                           BL_TEXT("\377\377\377\377"), BL_TEXT("\200\0\0\0"),
                                           BL_TEXT("\1\0\0\0")};
    (void)state;
    for (size_t i = 0; i < BL_COUNT(heads); i++) {
        for (size_t cut = 0; cut <= heads[i].size; cut++) {
            char bytes[32];
            struct bl_frames frames;
            struct taken taken;
            memcpy(bytes, "\0\0\0\1a", 5);
            memcpy(bytes + 5, heads[i].data, 4);
            memcpy(bytes + 9, "\0\0\0\1b", 5);
            begin(&frames, &taken);
            int code = bl_frames_feed(&frames, (struct bl_text){bytes, 5 + cut}, take, &taken);
            assert_int_equal(code, cut < 4 ? 0 : BL_ELIMIT);
            if (cut < 4)
                assert_int_equal(bl_frames_feed(&frames,
                                                (struct bl_text){bytes + 5 + cut, 14 - 5 - cut},
                                                take, &taken),
                                 BL_ELIMIT);
            expect(&taken, BL_TEXT("a|"));
            finish(&frames, &taken);
        }
    }
}

static void a_frame_of_exactly_the_limit_is_taken(void **state)
{
    char bytes[BL_FRAME_HEAD_SIZE + FRAME_MAX];
    struct bl_frames frames;
    struct taken taken;
    (void)state;
    memset(bytes, 'x', sizeof bytes);
    bl_frame_head((uint8_t *)bytes, FRAME_MAX);
    begin(&frames, &taken);
    assert_int_equal(bl_frames_feed(&frames, (struct bl_text){bytes, sizeof bytes}, take, &taken),
                     0);
    assert_int_equal(taken.count, 1);
    assert_int_equal(taken.frames.size, FRAME_MAX + 1);
    finish(&frames, &taken);
}

static void the_limit_may_change_between_frames(void **state)
{
    char bytes[5 + BL_FRAME_HEAD_SIZE + 2 * FRAME_MAX];
    struct bl_frames frames;
    struct taken taken;
    (void)state;
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes, "\0\0\0\1a", 5);
    bl_frame_head((uint8_t *)bytes + 5, 2 * FRAME_MAX);
    begin(&frames, &taken);
    taken.larger = &frames;
    assert_int_equal(bl_frames_feed(&frames, (struct bl_text){bytes, sizeof bytes}, take, &taken),
                     0);
    assert_int_equal(taken.count, 2);
    finish(&frames, &taken);
}

static void result_of_the_callback_ends_the_feed(void **state)
{
    struct bl_frames frames;
    struct taken taken;
    (void)state;
    for (unsigned split = 0; split < 2; split++) {
        struct bl_text bytes = BL_TEXT("\0\0\0\1a\0\0\0\1b\0\0\0\1c");
        begin(&frames, &taken);
        taken.fail_at = 2;
        if (split == 1)
            assert_int_equal(bl_frames_feed(&frames, (struct bl_text){bytes.data, 7}, take, &taken),
                             0);
        bytes.data += 7 * split;
        bytes.size -= (size_t)7 * split;
        assert_int_equal(bl_frames_feed(&frames, bytes, take, &taken), BL_EBUSY);
        expect(&taken, BL_TEXT("a|b|"));
        finish(&frames, &taken);
    }
}

static void announced_but_unsent_bytes_take_no_memory(void **state)
{
    struct bl_frames frames;
    struct taken taken;
    (void)state;
    begin(&frames, &taken);
    frames.frame_max = (size_t)32 << 20;
    assert_int_equal(bl_frames_feed(&frames, BL_TEXT("\2\0\0\0ten bytes."), take, &taken), 0);
    assert_true(bl_frames_partial(&frames));
    assert_in_range(frames.pending.capacity, 14, 64 * 1024);
    finish(&frames, &taken);
}

static void a_large_frame_leaves_no_memory_behind(void **state)
{
    size_t size = (size_t)8 << 20;
    char *bytes = bl_alloc(BL_FRAME_HEAD_SIZE + size);
    struct bl_frames frames;
    struct taken taken;
    (void)state;
    memset(bytes, 'x', BL_FRAME_HEAD_SIZE + size);
    bl_frame_head((uint8_t *)bytes, (uint32_t)size);
    begin(&frames, &taken);
    frames.frame_max = size;
    for (size_t at = 0; at < BL_FRAME_HEAD_SIZE + size; at += 65536) {
        size_t rest = BL_FRAME_HEAD_SIZE + size - at;
        struct bl_text piece = {bytes + at, rest < 65536 ? rest : 65536};
        assert_int_equal(bl_frames_feed(&frames, piece, take, &taken), 0);
        /* Memory grows with the bytes received. */
        assert_true(frames.pending.capacity <= 2 * (at + 65536));
    }
    assert_int_equal(taken.count, 1);
    assert_int_equal(taken.frames.size, size + 1);
    assert_in_range(frames.pending.capacity, 0, 256 * 1024);
    finish(&frames, &taken);
    bl_free(bytes);
}

SUITE(frame, cmocka_unit_test(frames_are_the_same_wherever_the_pieces_are_cut),
      cmocka_unit_test(every_byte_may_come_alone),
      cmocka_unit_test(a_length_of_zero_or_over_the_limit_is_refused_and_nothing_after_it_read),
      cmocka_unit_test(a_frame_of_exactly_the_limit_is_taken),
      cmocka_unit_test(the_limit_may_change_between_frames),
      cmocka_unit_test(result_of_the_callback_ends_the_feed),
      cmocka_unit_test(announced_but_unsent_bytes_take_no_memory),
      cmocka_unit_test(a_large_frame_leaves_no_memory_behind));
