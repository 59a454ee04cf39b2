#include "ring.h"

#include <stdio.h>
#include <string.h>

static int failed;

static void expect(const char *what, size_t is, size_t wanted)
{
    if (is == wanted)
        return;
    printf("%s: %zu, expected %zu\n", what, is, wanted);
    failed = 1;
}

static void expect_bytes(const char *what, const char *is, const char *wanted)
{
    if (strcmp(is, wanted) == 0)
        return;
    printf("%s: '%s', expected '%s'\n", what, is, wanted);
    failed = 1;
}

static void test_full(void)
{
    char memory[8];
    struct ring ring;

    ring_init(&ring, memory, sizeof memory);
    expect("bytes taken by an empty ring of 8", ring_write(&ring, "abcdefghij", 10), 8);
    expect("bytes taken by a full ring", ring_write(&ring, "x", 1), 0);
}

static void test_wrap(void)
{
    /* Bytes after the ring must never be read. */
    char memory[9] = "........!", out[9] = "", expected[2] = "";
    struct ring ring;

    ring_init(&ring, memory, 8);
    for (int i = 0; i < 100; i++) {
        expected[0] = (char)('a' + i % 26);
        ring_write(&ring, expected, 1);
        memset(out, 0, sizeof out);
        expect("bytes read", ring_read(&ring, out, 1), 1);
        expect_bytes("one byte at a time", out, expected);
    }
    ring_write(&ring, "stuvwxyz", 8);
    memset(out, 0, sizeof out);
    expect("bytes of a full ring", ring_read(&ring, out, 8), 8);
    expect_bytes("all at once", out, "stuvwxyz");
    expect("bytes of an empty ring", ring_read(&ring, out, 8), 0);
}

int main(void)
{
    test_full();
    test_wrap();
    puts(failed ? "failed" : "passed");
    return failed;
}
