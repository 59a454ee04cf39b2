/* The first byte chooses how the bytes are said to be encoded; the rest is a document. Whatever it
 * is, the result is valid UTF-8 within its limit, without what terminals obey and without NUL,
 * and a second pass gives the same; nothing crashes, leaks or hangs. The bytes stand right before an
 * unmapped page: the reader is not instrumented. */
#include "guard_page.h"
#include "tool/web/web.h"

#define OUT_MAX ((size_t)1 << 20)

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(struct bl_text text)
{
    REQUIRE(bl_utf8_valid(text));
    REQUIRE(text.size == 0 || text.data[text.size - 1] == '\n');
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        REQUIRE(byte >= 0x20 || byte == '\n' || byte == '\t');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const labels[] = {"",
                                         "text/html; charset=utf-8",
                                         "text/html; charset=shift_jis",
                                         "text/html; charset=utf-16le",
                                         "text/html; charset=gb18030",
                                         "text/html; charset=windows-1252"};
    static struct guard_page guard;
    static atomic_bool never;
    struct charset_reading reading;
    struct bl_buffer text, once, twice;

    if (size < 1)
        return 0;
    struct bl_text bytes =
        guard_page_before(&guard, (struct bl_text){(const char *)data + 1, size - 1});
    bl_buffer_init(&text, SIZE_MAX / 2);
    bl_buffer_init(&once, OUT_MAX);
    bl_buffer_init(&twice, OUT_MAX);
    charset_decode(bytes, bl_text_from(labels[data[0] % BL_COUNT(labels)]), true, &text, &reading);
    REQUIRE(bl_utf8_valid(bl_buffer_text(&text)));
    REQUIRE(memchr(text.data != NULL ? text.data : "", '\0', text.size) == NULL);
    bool whole = html_render(bl_buffer_text(&text), "https://host.test/a/b?c", &never, &once);
    REQUIRE(once.size <= OUT_MAX);
    if (whole)
        check_text(bl_buffer_text(&once));
    REQUIRE(html_render(bl_buffer_text(&text), "https://host.test/a/b?c", &never, &twice) == whole);
    REQUIRE(bl_text_equal(bl_buffer_text(&once), bl_buffer_text(&twice)));
    bl_buffer_done(&text);
    bl_buffer_done(&once);
    bl_buffer_done(&twice);
    return 0;
}
