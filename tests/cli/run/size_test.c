/* Large prompts and endless answers: their cost in memory and in the store. */
#include "talk.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((size_t)1024 * 1024)

static struct held held;

static int end_held(void **state)
{
    held_end(&held);
    return stage_end(state);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, stage_begin, end_held)

/* Returns the peak memory of the largest program that has ended; sanitizers add their own. */
static size_t peak_mib(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
    return SUITE_SANITIZED ? 0 : (size_t)usage.ru_maxrss / 1024;
}

/* Opens a prompt of words for reading. */
static int open_prompt(size_t size)
{
    const char *path = stage_path("prompt");
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    for (size_t i = 0; i < size / 8; i++)
        fwrite("a words ", 1, 8, file);
    assert_int_equal(fclose(file), 0);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void run_prompt(size_t size, const char *script, int exit_code)
{
    int fd = open_prompt(size);

    held_start(&held,
               (const char *const[]){runner_program(), "run", "--session", "s", "--store",
                                     stage_path("s.db"), "--provider", stage_script(script), NULL},
               fd, RUN_KEEP);
    close(fd);
    held_wait(&held);
    assert_int_equal(held.exit_code, exit_code);
}

static size_t store_size(void)
{
    static const char *const names[] = {"s.db", "s.db-wal"};
    struct stat facts;
    size_t size = 0;

    for (size_t i = 0; i < BL_COUNT(names); i++)
        size += stat(stage_path(names[i]), &facts) == 0 ? (size_t)facts.st_size : 0;
    return size;
}

static void a_store_holds_a_long_prompt_twice_at_most(void **state)
{
    (void)state;
    run_prompt(5 * MIB, "replies: [{say: done}]\n", 0);
    print_message("%zu bytes\n", store_size());
    assert_true(store_size() > 5 * MIB);
    assert_true(store_size() <= 11 * MIB + MIB / 2);
}

static void a_prompt_of_60_MiB_is_refused_in_little_memory(void **state)
{
    (void)state;
    run_prompt(60 * MIB, "replies: [{say: done}]\n", 2);
    assert_non_null(strstr(held_err(&held), "the prompt has more than 16 MiB"));
    print_message("%zu MiB\n", peak_mib());
    assert_true(peak_mib() <= 128);
}

static void the_longest_prompt_is_bounded_in_memory(void **state)
{
    (void)state;
    run_prompt(16 * MIB, "replies: [{say: done}]\n", 0);
    print_message("%zu MiB\n", peak_mib());
    assert_true(peak_mib() <= 320);
}

#define DELTA                                                                                      \
    "event: content_block_delta\n"                                                                 \
    "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\","      \
    "\"text\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}}\n\n"

static void an_endless_answer_ends_at_its_limit_in_little_memory(void **state)
{
    static const char *const keyed[] = {"NEAR_PLACE=sk-the-key-of-this-test", NULL};
    static struct talk call = {
        .config = "providers: {near: {api: anthropic, base_url: 'ADDRESS', key_env: NEAR_PLACE}}\n"
                  "models: {free: {provider: near, model: m, free: true}}\n",
        .environment = keyed,
        .endless = DELTA};

    (void)state;
    call.arguments = TALK_WORDS("run", "--model", "free", "hi");
    talk(&call);
    assert_int_equal(call.run.exit_code, 1);
    assert_non_null(strstr(call.run.err, "the answer exceeds a limit"));
    print_message("%zu MiB\n", peak_mib());
    assert_true(peak_mib() <= 128);
}

SUITE(run_size, HELD(an_endless_answer_ends_at_its_limit_in_little_memory),
      HELD(a_prompt_of_60_MiB_is_refused_in_little_memory),
      HELD(a_store_holds_a_long_prompt_twice_at_most),
      HELD(the_longest_prompt_is_bounded_in_memory));
