#include "suite.h"

#include <errno.h>
#include <limits.h>

static void every_code_has_a_name_and_a_description(void **state BL_UNUSED)
{
#define CHECK(code, value, sentence)                                                               \
    assert_int_equal(code, value);                                                                 \
    assert_string_equal(bl_error_name(code), #code);                                               \
    assert_string_equal(bl_error_text(code), sentence);
    BL_ERROR_TABLE(CHECK)
#undef CHECK
    assert_string_equal(bl_error_name(0), "no error");
    assert_string_equal(bl_error_name(-22), "unknown error");
    assert_string_equal(bl_error_text(INT_MIN), "unknown error");
}

static void every_kind_has_a_name(void **state BL_UNUSED)
{
#define CHECK(kind, name) assert_string_equal(bl_error_kind_name(kind), name);
    BL_ERROR_KIND_TABLE(CHECK)
#undef CHECK
    assert_string_equal(bl_error_kind_name((enum bl_error_kind)99), "unknown");
}

static void errno_values_map_to_codes_with_either_sign(void **state BL_UNUSED)
{
    static const struct {
        int system_errno;
        int code;
    } cases[] = {
        {EMFILE, BL_EMFILE},       {ENFILE, BL_EMFILE},     {ENOMEM, BL_ELIMIT},
        {ENOENT, BL_ENOENT},       {EACCES, BL_EACCES},     {EPERM, BL_EACCES},
        {EEXIST, BL_EEXIST},       {EBUSY, BL_EBUSY},       {EAGAIN, BL_EAGAIN},
        {EWOULDBLOCK, BL_EAGAIN},  {EPIPE, BL_EPIPE},       {ENOSPC, BL_ENOSPC},
        {EDQUOT, BL_ENOSPC},       {EINVAL, BL_EINVAL},     {ETIMEDOUT, BL_ETIMEDOUT},
        {ECANCELED, BL_ECANCELED}, {ECHILD, BL_ECHILD},     {ENOSYS, BL_ENOTSUP},
        {EOPNOTSUPP, BL_ENOTSUP},  {ENOTSUP, BL_ENOTSUP},   {EIO, BL_EIO},
        {ERANGE, BL_ERANGE},       {ENOTTY, BL_ESYSTEM},    {4095, BL_ESYSTEM},
        {INT_MAX, BL_ESYSTEM},     {BL_EINVAL, BL_ESYSTEM}, {0, 0},
    };
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        assert_int_equal(bl_error_from_errno(cases[i].system_errno), cases[i].code);
        assert_int_equal(bl_error_from_errno(-cases[i].system_errno), cases[i].code);
    }
    assert_int_equal(bl_error_from_errno(INT_MIN), BL_ESYSTEM);
}

static void set_fills_all_parts_and_returns_the_code(void **state BL_UNUSED)
{
    struct bl_error error = {0};
    assert_int_equal(bl_error_set(&error, BL_ENOENT, BL_KIND_FILESYSTEM, "open", "/a/b",
                                  "no %s in %d", "file", 7),
                     BL_ENOENT);
    bl_error_hint(&error, "make %s", "one");
    assert_int_equal(error.code, BL_ENOENT);
    assert_int_equal(error.kind, BL_KIND_FILESYSTEM);
    assert_false(error.retryable);
    assert_string_equal(error.operation, "open");
    assert_string_equal(error.target, "/a/b");
    assert_string_equal(error.message, "no file in 7");
    assert_string_equal(error.hint, "make one");
}

static void the_first_error_is_kept(void **state BL_UNUSED)
{
    struct bl_error error = {0};
    bl_error_set(&error, BL_ENOENT, BL_KIND_FILESYSTEM, "open", "/a", "first");
    bl_error_hint(&error, "first hint");
    error.retryable = true;
    assert_int_equal(bl_error_set(&error, BL_EIO, BL_KIND_TOOL, "run", "b", "second"), BL_EIO);
    bl_error_hint(&error, "second hint");
    assert_int_equal(error.code, BL_ENOENT);
    assert_int_equal(error.kind, BL_KIND_FILESYSTEM);
    assert_true(error.retryable);
    assert_string_equal(error.operation, "open");
    assert_string_equal(error.target, "/a");
    assert_string_equal(error.message, "first");
    assert_string_equal(error.hint, "first hint");
}

static void null_errors_and_empty_messages_are_fine(void **state BL_UNUSED)
{
    assert_int_equal(bl_error_set(NULL, BL_EIO, BL_KIND_TOOL, "run", "b", "%d", 1), BL_EIO);
    bl_error_hint(NULL, "hint");
    bl_error_name_set(NULL, "name");

    struct bl_error error = {0};
    bl_error_hint(&error, "hint");
    assert_string_equal(error.hint, "");
    bl_error_name_set(&error, "name");
    assert_string_equal(error.name, "");
    bl_error_set(&error, BL_EBUSY, BL_KIND_SESSION, NULL, NULL, NULL);
    assert_string_equal(error.operation, "");
    assert_string_equal(error.target, "");
    assert_string_equal(error.message, "in use");
}

static void leftovers_of_an_earlier_use_are_overwritten(void **state BL_UNUSED)
{
    struct bl_error error;
    memset(&error, 'x', sizeof error);
    error.code = 0;
    error.retryable = true;
    bl_error_set(&error, BL_EIO, BL_KIND_TOOL, NULL, NULL, "m");
    assert_false(error.retryable);
    assert_string_equal(error.hint, "");
    assert_string_equal(error.target, "");
}

/* Each shift of a text of four-byte characters ends at a different byte of a character. */
static void long_texts_are_truncated_at_a_character(void **state BL_UNUSED)
{
    char text[2048];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'a', shift);
        size_t size = shift;
        while (size + 4 < sizeof text)
            size += bl_utf8_encode(0x1F600, text + size);
        text[size] = '\0';

        struct bl_error error = {0};
        bl_error_set(&error, BL_EIO, BL_KIND_TOOL, text, text, "%s", text);
        bl_error_hint(&error, "%s", text);
        const struct {
            const char *field;
            size_t size;
        } cases[] = {
            {error.operation, sizeof error.operation},
            {error.target, sizeof error.target},
            {error.message, sizeof error.message},
            {error.hint, sizeof error.hint},
        };
        for (size_t i = 0; i < BL_COUNT(cases); i++) {
            struct bl_text kept = bl_text_from(cases[i].field);
            assert_true(bl_utf8_valid(kept));
            assert_in_range(kept.size, cases[i].size - 4, cases[i].size - 1);
            assert_memory_equal(kept.data, text, kept.size);
        }
    }
}

static void a_text_that_just_fits_is_not_truncated(void **state BL_UNUSED)
{
    struct bl_error error = {0};
    char text[sizeof error.message];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    bl_error_set(&error, BL_EIO, BL_KIND_TOOL, NULL, NULL, "%s", text);
    assert_string_equal(error.message, text);
}

SUITE(error, cmocka_unit_test(every_code_has_a_name_and_a_description),
      cmocka_unit_test(every_kind_has_a_name),
      cmocka_unit_test(errno_values_map_to_codes_with_either_sign),
      cmocka_unit_test(set_fills_all_parts_and_returns_the_code),
      cmocka_unit_test(the_first_error_is_kept),
      cmocka_unit_test(null_errors_and_empty_messages_are_fine),
      cmocka_unit_test(leftovers_of_an_earlier_use_are_overwritten),
      cmocka_unit_test(long_texts_are_truncated_at_a_character),
      cmocka_unit_test(a_text_that_just_fits_is_not_truncated));
