/* The fuzzers of the parser and of each format (tests/fuzz) without their engine: interesting
 * inputs, changed at random. They end the process on an error; the seed reproduces the inputs. */
#include <glob.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "recorder.h"

typedef int fuzzer(const uint8_t *data, size_t size);

fuzzer sse_fuzz, anthropic_fuzz, openai_fuzz, responses_fuzz, ollama_fuzz;

static const struct {
    const char *name;
    fuzzer *run;
} fuzzers[] = {{"sse", sse_fuzz},
               {"anthropic", anthropic_fuzz},
               {"openai", openai_fuzz},
               {"responses", responses_fuzz},
               {"ollama", ollama_fuzz}};

#define SEEDS_MAX 128u
#define INPUT_MAX 16384u
#define CHANGES   8u
/* Allowance for one-time allocations with the largest input; there are thousands of rounds. */
#define GROWTH_BYTES 1048576u
/* For each fuzzer in the long form: ten minutes for all. */
#define LONG_NS (120 * BL_NS_PER_S)

/* The source of inputs. */
struct breeder {
    struct bl_text seeds[SEEDS_MAX];
    size_t seed_count;
    struct bl_random random;
    char input[INPUT_MAX];
    size_t size;
};

static void breeder_add(struct breeder *breeder, const char *pattern)
{
    const char *root = getenv("BELAY_SOURCE_ROOT");
    char path[512];
    glob_t found;

    snprintf(path, sizeof path, "%s/tests/%s", root != NULL ? root : ".", pattern);
    if (glob(path, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc && breeder->seed_count < SEEDS_MAX; i++)
        breeder->seeds[breeder->seed_count++] = suite_read_file(found.gl_pathv[i]);
    globfree(&found);
}

static void breeder_init(struct breeder *breeder, const char *name)
{
    char pattern[64];

    *breeder = (struct breeder){0};
    bl_random_seed(&breeder->random, 18);
    snprintf(pattern, sizeof pattern, "fuzz/corpus/%s_fuzz/*", name);
    breeder_add(breeder, pattern);
    snprintf(pattern, sizeof pattern, "model/fixtures/%s/*", name);
    breeder_add(breeder, strcmp(name, "sse") == 0 ? "model/fixtures/*/*.sse" : pattern);
    assert_true(breeder->seed_count >= 10);
}

static void breeder_done(struct breeder *breeder)
{
    for (size_t i = 0; i < breeder->seed_count; i++)
        bl_free((void *)(uintptr_t)breeder->seeds[i].data);
}

static size_t breeder_below(struct breeder *breeder, size_t limit)
{
    return (size_t)bl_random_below(&breeder->random, limit);
}

static struct bl_text breeder_seed(struct breeder *breeder)
{
    return breeder->seeds[breeder_below(breeder, breeder->seed_count)];
}

/* Replaces `gone` bytes at a position by others. */
static void breeder_splice(struct breeder *breeder, size_t at, size_t gone, struct bl_text others)
{
    size_t left = breeder->size - at;

    gone = gone < left ? gone : left;
    if (others.size > INPUT_MAX - (breeder->size - gone))
        return;
    memmove(breeder->input + at + others.size, breeder->input + at + gone, left - gone);
    if (others.size > 0)
        memcpy(breeder->input + at, others.data, others.size);
    breeder->size += others.size - gone;
}

static void breeder_change(struct breeder *breeder)
{
    static const char *const words[] = {
        "\n",     "\r",           "\r\n",    "\n\n",    "data:", "data: ", "event:",
        ":",      "\xEF\xBB\xBF", "\"",      "{",       "}",     "[]",     "null",
        "-1",     "1e999",        "\\u0000", "\\ud800", "\xe2",  "\xff",   "\"index\":",
        "[DONE]", "\"\"",         "true",    "id:",     "\\\""};
    size_t at = breeder_below(breeder, breeder->size + 1);
    char byte = (char)breeder_below(breeder, 256);
    struct bl_text seed = breeder_seed(breeder);
    size_t from = breeder_below(breeder, seed.size + 1);

    switch (breeder_below(breeder, 4)) {
    case 0: breeder_splice(breeder, at, 1, (struct bl_text){&byte, 1}); break;
    case 1: breeder_splice(breeder, at, breeder_below(breeder, 64), (struct bl_text){0}); break;
    case 2:
        breeder_splice(breeder, at, breeder_below(breeder, 4),
                       bl_text_from(words[breeder_below(breeder, BL_COUNT(words))]));
        break;
    default:
        breeder_splice(
            breeder, at, breeder_below(breeder, 64),
            (struct bl_text){seed.data + from, breeder_below(breeder, seed.size - from + 1)});
        break;
    }
}

static void breeder_make(struct breeder *breeder)
{
    breeder->size = 0;
    breeder_splice(breeder, 0, 0, breeder_seed(breeder));
    for (size_t i = breeder_below(breeder, CHANGES + 1); i > 0; i--)
        breeder_change(breeder);
}

/* Returns the number of allocated bytes. The resident size is not usable: with MALLOC_PERTURB_,
 * which meson sets, the allocator touches all memory. */
static size_t fuzz_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void P18_changed_streams_harm_neither_the_parser_nor_a_format(void **state BL_UNUSED)
{
    static struct breeder breeder;

    for (size_t i = 0; i < BL_COUNT(fuzzers); i++) {
        unsigned long rounds = suite_rounds(SUITE_SANITIZED ? 2000 : 8000, 0);
        breeder_init(&breeder, fuzzers[i].name);
        for (size_t seed = 0; seed < breeder.seed_count; seed++)
            fuzzers[i].run((const uint8_t *)breeder.seeds[seed].data, breeder.seeds[seed].size);
        size_t before = fuzz_in_use();
        uint64_t end_ns = bl_clock_now_ns(&bl_clock_system) + LONG_NS;
        for (unsigned long round = 0;
             rounds > 0 ? round < rounds : bl_clock_now_ns(&bl_clock_system) < end_ns; round++) {
            breeder_make(&breeder);
            fuzzers[i].run((const uint8_t *)breeder.input, breeder.size);
        }
        assert_in_range(fuzz_in_use(), 0, before + GROWTH_BYTES);
        breeder_done(&breeder);
    }
}

SUITE(fuzz, cmocka_unit_test(P18_changed_streams_harm_neither_the_parser_nor_a_format));
