/* A cassette: the first half of the input is a file that is read and asked for what it holds, and
 * for the second half as a body; then the second half is recorded in pieces, with a secret in it,
 * which must not come out. It must not crash, leak or hang, and what is refused must say why. */
#include <sys/mman.h>
#include <unistd.h>

#include "model/script/cassette.h"

#define SECRET "sk-fuzz-\"\\0123"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct bl_error *error)
{
    if (error->code == 0 || error->message[0] == '\0' || error->hint[0] == '\0')
        __builtin_trap();
    if (!bl_utf8_valid(bl_text_from(error->message)))
        __builtin_trap();
}

static void play(struct bl_cassette *cassette, const char *path, struct bl_text body)
{
    struct cassette_play *found;
    struct bl_wire_failure failure;
    struct bl_error error = {0};
    struct bl_text bytes;

    if (cassette_play_find(cassette, "POST", path, body, &found, &error) != 0) {
        check_error(&error);
        return;
    }
    (void)cassette_play_status(found);
    (void)cassette_play_header(found, "content-type");
    while (cassette_play_next(found, &bytes, &failure)) {
        if (bytes.size == 0)
            __builtin_trap();
    }
    cassette_play_free(found);
}

static void read_one(struct bl_text source, struct bl_text body)
{
    struct bl_cassette *cassette;
    struct bl_error error = {0};

    if (cassette_parse("fuzz", source, &cassette, &error) != 0) {
        check_error(&error);
        return;
    }
    play(cassette, "/", body);
    play(cassette, "/v1/messages", BL_TEXT("{}"));
    if (bl_cassette_close(cassette, &error) != 0)
        __builtin_trap();
}

/* Records bytes that come in two pieces into a file in memory, which is read back. */
static void record_one(struct bl_text bytes, size_t cut)
{
    struct bl_cassette *cassette = cassette_new("fuzz");
    struct bl_text secret = BL_TEXT(SECRET);
    struct bl_error error = {0};
    char *file = bl_alloc(1u << 20);

    cassette->fd = memfd_create("fuzz", MFD_CLOEXEC);
    int copy = dup(cassette->fd);
    cassette_secrets_set(cassette, &secret, 1);
    if (write(cassette->fd, "{\"belay_cassette\":1}\n", 21) != 21)
        __builtin_trap();
    struct cassette_take *take = cassette_take_begin(cassette, "POST", "/", bytes);
    cassette_take_header(take, "request-id", bytes);
    cassette_take_bytes(take, (struct bl_text){bytes.data, cut});
    cassette_take_bytes(take, BL_TEXT(SECRET));
    cassette_take_bytes(take, (struct bl_text){bytes.data + cut, bytes.size - cut});
    cassette_take_end(take, NULL, false);
    if (bl_cassette_close(cassette, &error) != 0)
        __builtin_trap();
    ssize_t size = pread(copy, file, 1u << 20, 0);
    close(copy);
    struct bl_text written = {file, size > 0 ? (size_t)size : 0};
    if (bl_text_find(written, BL_TEXT("sk-fuzz-\\\"\\\\0123")) >= 0)
        __builtin_trap();
    if (cassette_parse("fuzz", written, &cassette, &error) != 0)
        __builtin_trap();
    play(cassette, "/", bytes);
    bl_cassette_close(cassette, NULL);
    bl_free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bl_text input = {(const char *)data, size};
    struct bl_text second = {input.data + size / 2, size - size / 2};

    if (size < 2)
        return 0;
    read_one((struct bl_text){input.data, size / 2}, second);
    read_one(input, BL_TEXT("{}"));
    record_one(second, data[0] % (second.size + 1));
    return 0;
}
