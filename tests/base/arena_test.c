#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#endif
#ifndef POISONS
#define POISONS 0
#endif
#if POISONS
#include <sanitizer/asan_interface.h>
#endif

static bool poisoned(const char *address)
{
#if POISONS
    return __asan_address_is_poisoned(address) != 0;
#else
    (void)address;
    return true;
#endif
}

/* Runs `body` in a child that must die of SIGABRT, and returns its output on standard error. */
static void expect_abort(void (*body)(void), char *out, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t count; (count = read(ends[0], out + length, size - 1 - length)) > 0;)
        length += (size_t)count;
    out[length] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void a_zeroed_struct_is_an_empty_arena(void **state BL_UNUSED)
{
    struct bl_arena arena = {0};
    bl_arena_reset(&arena);
    bl_arena_rewind(&arena, bl_arena_mark(&arena));
    assert_int_equal(arena.allocated, 0);
    memset(bl_arena_alloc(&arena, 10), 1, 10);
    bl_arena_done(&arena);
    assert_int_equal(arena.allocated, 0);
    memset(bl_arena_alloc(&arena, 10), 1, 10);
    bl_arena_done(&arena);
}

static void every_allocation_is_aligned_and_distinct(void **state BL_UNUSED)
{
    struct bl_arena arena;
    struct bl_random random;
    struct {
        unsigned char *data;
        size_t size;
    } runs[2000];
    bl_arena_init(&arena);
    bl_random_seed(&random, 1);
    for (size_t i = 0; i < BL_COUNT(runs); i++) {
        runs[i].size = bl_random_below(&random, i % 100 == 0 ? 20000 : 200);
        runs[i].data = bl_arena_alloc(&arena, runs[i].size);
        assert_int_equal((uintptr_t)runs[i].data % 16, 0);
        memset(runs[i].data, (int)(i & 0xFF), runs[i].size);
    }
    for (size_t i = 0; i < BL_COUNT(runs); i++) {
        for (size_t j = 0; j < runs[i].size; j++)
            assert_int_equal(runs[i].data[j], i & 0xFF);
    }
    bl_arena_done(&arena);
}

static void empty_allocations_are_unique(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    char *before = bl_arena_alloc(&arena, 0);
    for (int i = 0; i < 1000; i++) {
        char *memory = bl_arena_alloc(&arena, 0);
        assert_ptr_not_equal(memory, before);
        before = memory;
    }
    bl_arena_done(&arena);
}

static void chunks_start_at_1_kib_and_double_up_to_1_mib(void **state BL_UNUSED)
{
    struct bl_arena arena;
    size_t expected = 0, chunk = 1024;
    bl_arena_init(&arena);
    for (int i = 0; i < 12; i++) {
        size_t before = arena.allocated;
        while (arena.allocated == before)
            bl_arena_alloc(&arena, 1000);
        expected += chunk;
        assert_int_equal(arena.allocated, expected);
        chunk = chunk < 1 << 20 ? chunk * 2 : chunk;
    }
    bl_arena_done(&arena);
}

static void a_large_request_gets_a_chunk_of_its_own_size(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    memset(bl_arena_alloc(&arena, 5000000), 1, 5000000);
    assert_in_range(arena.allocated, 5000000, 5000100);
    bl_arena_alloc(&arena, 1);
    assert_in_range(arena.allocated, 5000000 + (1 << 20), 5000100 + (1 << 20));
    bl_arena_done(&arena);
    bl_arena_alloc(&arena, 700000);
    bl_arena_alloc(&arena, 1);
    assert_in_range(arena.allocated, 700000 + (1 << 20), 700100 + (1 << 20));
    bl_arena_done(&arena);
}

static void reset_keeps_the_largest_chunk_and_uses_it_again(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    for (int i = 0; i < 100; i++)
        bl_arena_alloc(&arena, 1000);
    bl_arena_alloc(&arena, 3000000);
    for (int i = 0; i < 2000; i++)
        bl_arena_alloc(&arena, 1000);
    bl_arena_reset(&arena);
    size_t kept = arena.allocated;
    assert_in_range(kept, 3000000, 3000100);
    memset(bl_arena_alloc(&arena, 2900000), 1, 2900000);
    assert_int_equal(arena.allocated, kept);
    bl_arena_done(&arena);
}

static void zalloc_zeroes_memory_that_was_used_before(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    memset(bl_arena_alloc(&arena, 3000), 0xFF, 3000);
    bl_arena_reset(&arena);
    const char *memory = bl_arena_zalloc(&arena, 3000);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(memory[i], 0);
    assert_non_null(bl_arena_zalloc(&arena, 0));
    bl_arena_done(&arena);
}

static void rewind_goes_back_and_frees_newer_chunks(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    char *old = bl_arena_alloc(&arena, 100);
    memset(old, 7, 100);
    struct bl_arena_mark mark = bl_arena_mark(&arena);
    char *first = bl_arena_alloc(&arena, 100);
    for (int i = 0; i < 100; i++)
        memset(bl_arena_alloc(&arena, 10000), 1, 10000);
    bl_arena_rewind(&arena, mark);
    assert_int_equal(arena.allocated, 1024);
    assert_ptr_equal(bl_arena_alloc(&arena, 100), first);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(old[i], 7);
    bl_arena_done(&arena);
}

static void rewind_to_the_mark_of_an_empty_arena_frees_all(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    struct bl_arena_mark mark = bl_arena_mark(&arena);
    bl_arena_alloc(&arena, 100);
    bl_arena_rewind(&arena, mark);
    assert_int_equal(arena.allocated, 0);
    memset(bl_arena_alloc(&arena, 100), 1, 100);
    bl_arena_done(&arena);
}

static void the_newest_allocation_grows_and_shrinks_in_place(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    char *memory = bl_arena_alloc(&arena, 10);
    memcpy(memory, "0123456789", 10);
    assert_ptr_equal(bl_arena_resize(&arena, memory, 10, 1000), memory);
    memset(memory + 10, 1, 990);
    assert_ptr_equal(bl_arena_resize(&arena, memory, 1000, 5), memory);
    char *next = bl_arena_alloc(&arena, 1);
    assert_in_range(next - memory, 16, 32);
    assert_memory_equal(memory, "01234", 5);
    bl_arena_done(&arena);
}

static void the_newest_allocation_fills_its_chunk_to_the_last_byte(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    char *memory = bl_arena_alloc(&arena, 16);
    size_t room = (size_t)(arena.end - memory);
    assert_ptr_equal(bl_arena_resize(&arena, memory, 16, room), memory);
    memset(memory, 1, room);
    assert_int_equal(arena.allocated, 1024);
    assert_ptr_equal(bl_arena_resize(&arena, memory, room, room - 1), memory);
    char *moved = bl_arena_resize(&arena, memory, room - 1, room + 1);
    assert_ptr_not_equal(moved, memory);
    memset(moved + room - 1, 1, 2);
    for (size_t i = 0; i < room + 1; i++)
        assert_int_equal(moved[i], 1);
    bl_arena_done(&arena);
}

static void an_older_allocation_is_copied_to_grow_and_stays_to_shrink(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    char *memory = bl_arena_alloc(&arena, 10);
    memcpy(memory, "0123456789", 10);
    char *newer = bl_arena_alloc(&arena, 10);
    memcpy(newer, "abcdefghij", 10);
    assert_ptr_equal(bl_arena_resize(&arena, memory, 10, 8), memory);
    char *moved = bl_arena_resize(&arena, memory, 8, 100);
    assert_ptr_not_equal(moved, memory);
    assert_memory_equal(moved, "01234567", 8);
    assert_memory_equal(newer, "abcdefghij", 10);
    bl_arena_done(&arena);
}

static void moving_a_large_allocation_releases_its_pages(void **state BL_UNUSED)
{
    size_t size = (size_t)8 << 20, page = (size_t)sysconf(_SC_PAGESIZE), resident = 0;
    static unsigned char pages[4096];
    struct bl_arena arena;

    bl_arena_init(&arena);
    char *memory = bl_arena_alloc(&arena, size);
    memset(memory, 'x', size);
    uintptr_t inside = ((uintptr_t)memory + page - 1) & ~(page - 1);
    bl_arena_alloc(&arena, 1);
    char *moved = bl_arena_resize(&arena, memory, size, 2 * size);
    assert_true(moved != memory && moved[0] == 'x' && moved[size - 1] == 'x');
    assert_int_equal(mincore((void *)inside, size - page, pages), 0);
    for (size_t i = 0; i < size / page - 1; i++)
        resident += pages[i] & 1;
    assert_in_range(resident, 0, 1);
    bl_arena_done(&arena);
}

static void resizing_null_allocates(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    char *memory = bl_arena_resize(&arena, NULL, 0, 10);
    memset(memory, 1, 10);
    char *empty = bl_arena_alloc(&arena, 0);
    assert_ptr_equal(bl_arena_resize(&arena, empty, 0, 100), empty);
    memset(empty, 1, 100);
    assert_ptr_equal(bl_arena_resize(&arena, empty, 100, 0), empty);
    assert_ptr_not_equal(bl_arena_alloc(&arena, 0), empty);
    bl_arena_done(&arena);
}

/* One allocation grows and shrinks at random among others, and is compared with a plain copy. */
static void resizing_at_random_keeps_the_bytes(void **state BL_UNUSED)
{
    static unsigned char model[20000];
    struct bl_arena arena;
    struct bl_random random;
    bl_arena_init(&arena);
    bl_random_seed(&random, 2);
    unsigned char *memory = NULL;
    size_t size = 0;
    for (unsigned long i = 0; i < suite_rounds(3000, 100000); i++) {
        size_t new_size = bl_random_below(&random, i % 10 == 0 ? sizeof model : 500);
        memory = bl_arena_resize(&arena, memory, size, new_size);
        assert_memory_equal(memory, model, new_size < size ? new_size : size);
        for (size_t j = size; j < new_size; j++)
            memory[j] = model[j] = (unsigned char)bl_random_next(&random);
        size = new_size;
        if (bl_random_below(&random, 4) == 0)
            memset(bl_arena_alloc(&arena, 40), 0xEE, 40);
        if (i % 500 == 499) {
            bl_arena_reset(&arena);
            memory = NULL;
            size = 0;
        }
    }
    bl_arena_done(&arena);
}

static void texts_are_copied_and_end_in_nul(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    char source[] = "a\0b";
    struct bl_text copy = bl_arena_text(&arena, (struct bl_text){source, 3});
    source[0] = 'x';
    assert_int_equal(copy.size, 3);
    assert_memory_equal(copy.data, "a\0b\0", 4);
    struct bl_text empty = bl_arena_text(&arena, (struct bl_text){0});
    assert_int_equal(empty.size, 0);
    assert_string_equal(empty.data, "");
    bl_arena_done(&arena);
}

static void printf_formats_short_and_long_texts(void **state BL_UNUSED)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    assert_string_equal(bl_arena_printf(&arena, "%d-%s", 5, "x").data, "5-x");
    for (int width = 250; width < 262; width++) {
        struct bl_text text = bl_arena_printf(&arena, "%*d", width, 7);
        assert_int_equal(text.size, width);
        assert_int_equal(text.data[width - 1], '7');
        assert_int_equal(text.data[width], '\0');
    }
    struct bl_text large = bl_arena_printf(&arena, "%100000d", 1);
    assert_int_equal(large.size, 100000);
    bl_arena_done(&arena);
}

static void unused_memory_is_poisoned_under_the_address_sanitizer(void **state BL_UNUSED)
{
    if (!POISONS)
        suite_skip("only with the address sanitizer");
    struct bl_arena arena;
    bl_arena_init(&arena);
    char *first = bl_arena_alloc(&arena, 21);
    char *second = bl_arena_alloc(&arena, 16);
    assert_false(poisoned(first + 20));
    assert_true(poisoned(first + 21));
    assert_true(poisoned(second - 1));
    assert_true(poisoned(second + 16));
    struct bl_arena_mark mark = bl_arena_mark(&arena);
    char *third = bl_arena_alloc(&arena, 100);
    assert_true(poisoned(second + 16));
    assert_true(poisoned(third - 1));
    assert_ptr_equal(bl_arena_resize(&arena, third, 100, 50), third);
    assert_false(poisoned(third + 49));
    assert_true(poisoned(third + 50));
    bl_arena_rewind(&arena, mark);
    assert_true(poisoned(third));
    bl_arena_reset(&arena);
    assert_true(poisoned(first));
    bl_arena_done(&arena);
}

static void ask_for_out_of_memory(void)
{
    bl_out_of_memory(12345);
}

static void ask_arena_for_all_there_is(void)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    bl_arena_alloc(&arena, 1);
    bl_arena_alloc(&arena, SIZE_MAX);
}

static void ask_resize_for_nearly_all_there_is(void)
{
    struct bl_arena arena;
    bl_arena_init(&arena);
    char *memory = bl_arena_alloc(&arena, 1);
    bl_arena_resize(&arena, memory, 1, SIZE_MAX - 8);
}

static void running_out_of_memory_ends_the_process_with_a_message(void **state BL_UNUSED)
{
    char out[4096];
    expect_abort(ask_for_out_of_memory, out, sizeof out);
    assert_string_equal(out, "belay: out of memory (12345 bytes requested)\n");
    expect_abort(ask_arena_for_all_there_is, out, sizeof out);
    assert_string_equal(out, "belay: out of memory (18446744073709551615 bytes requested)\n");
    expect_abort(ask_resize_for_nearly_all_there_is, out, sizeof out);
    assert_string_equal(out, "belay: out of memory (18446744073709551607 bytes requested)\n");
}

static void the_heap_gives_memory_for_size_zero(void **state BL_UNUSED)
{
    void *memory = bl_alloc(0);
    assert_non_null(memory);
    memory = bl_realloc(memory, 0);
    assert_non_null(memory);
    bl_free(memory);
    char *zeroed = bl_zalloc(100);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(zeroed[i], 0);
    bl_free(zeroed);
    bl_free(NULL);
}

SUITE(arena, cmocka_unit_test(a_zeroed_struct_is_an_empty_arena),
      cmocka_unit_test(every_allocation_is_aligned_and_distinct),
      cmocka_unit_test(empty_allocations_are_unique),
      cmocka_unit_test(chunks_start_at_1_kib_and_double_up_to_1_mib),
      cmocka_unit_test(a_large_request_gets_a_chunk_of_its_own_size),
      cmocka_unit_test(reset_keeps_the_largest_chunk_and_uses_it_again),
      cmocka_unit_test(zalloc_zeroes_memory_that_was_used_before),
      cmocka_unit_test(rewind_goes_back_and_frees_newer_chunks),
      cmocka_unit_test(rewind_to_the_mark_of_an_empty_arena_frees_all),
      cmocka_unit_test(the_newest_allocation_grows_and_shrinks_in_place),
      cmocka_unit_test(the_newest_allocation_fills_its_chunk_to_the_last_byte),
      cmocka_unit_test(an_older_allocation_is_copied_to_grow_and_stays_to_shrink),
      cmocka_unit_test(moving_a_large_allocation_releases_its_pages),
      cmocka_unit_test(resizing_null_allocates),
      cmocka_unit_test(resizing_at_random_keeps_the_bytes),
      cmocka_unit_test(texts_are_copied_and_end_in_nul),
      cmocka_unit_test(printf_formats_short_and_long_texts),
      cmocka_unit_test(unused_memory_is_poisoned_under_the_address_sanitizer),
      cmocka_unit_test(running_out_of_memory_ends_the_process_with_a_message),
      cmocka_unit_test(the_heap_gives_memory_for_size_zero));
