#include "booth.h"

static void origins_and_hosts_are_distinguished(void **state)
{
    (void)state;
    static const char *const more[] = {"https://page.test:8443", "name.test", "[2001:db8::1]:5",
                                       NULL};
    static const struct {
        const char *text;
        bool origin;
        bool host; /* listed */
    } rows[] = {
        {"http://localhost", true, false},
        {"http://a.localhost:80", true, false},
        {"http://127.9.9.9", true, false},
        {"https://[::1]:443", true, false},
        {"http://[::2]", false, false},
        {"http://localhost@evil.test", false, false},
        {"http://evil.test", false, false},
        {"https://page.test:8443", true, false},
        {"HTTPS://Page.Test:8443", true, false},
        {"http://page.test:8443", false, false},
        {"https://page.test", false, false},
        {"https://name.test:1", true, false},
        {"http://Name.test", true, false},
        {"http://xname.test", false, false},
        {"null", false, false},
        {"localhost", false, false},
        {"ftp://localhost", false, false},
        {"://localhost", false, false},
        {"", false, false},
        {"page.test:8443", false, true},
        {"page.test", false, false},
        {"NAME.test:9", true, true},
        {"[2001:db8::1]:5", true, true},
        {"[2001:db8::1]", false, false},
    };

    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_text text = bl_text_from(rows[i].text);
        if (http_origin_known(more, text) != rows[i].origin ||
            http_host_listed(more, text) != rows[i].host)
            fail_msg("%s", rows[i].text);
    }
    assert_false(http_host_listed(NULL, BL_TEXT("name.test")));
    assert_true(http_origin_known(NULL, BL_TEXT("http://localhost")));
}

static void only_the_whole_token_is_right(void **state)
{
    (void)state;
    assert_true(http_token_right(BL_TEXT("Bearer abc"), "abc"));
    assert_true(http_token_right(BL_TEXT("bearer   abc "), "abc"));
    static const char *const wrong[] = {"",           "Bearer",        "Bearer ",    "Bearer ab",
                                        "Bearer abd", "Bearer abcabc", "Basic abc",  "abc",
                                        "Bearerabc",  "Bearer ABC",    "Bearer a bc"};
    for (size_t i = 0; i < BL_COUNT(wrong); i++)
        assert_false(http_token_right(bl_text_from(wrong[i]), "abc"));
    assert_false(http_token_right(BL_TEXT("Bearer "), ""));
    assert_false(http_token_right(BL_TEXT("Bearer x"), ""));
}

/* Every character counts, and so does the length. */
static void M12_a_token_that_differs_anywhere_is_wrong(void **state)
{
    static const char token[] = BOOTH_TOKEN;
    char line[2 * sizeof BOOTH_BEARER];

    (void)state;
    for (size_t i = 0; i < sizeof token - 1; i++) {
        char other[sizeof token];
        memcpy(other, token, sizeof token);
        other[i] ^= 1;
        snprintf(line, sizeof line, "Bearer %s", other);
        assert_false(http_token_right(bl_text_from(line), token));
        snprintf(line, sizeof line, "Bearer %.*s", (int)i, token);
        assert_false(http_token_right(bl_text_from(line), token));
        snprintf(line, sizeof line, "Bearer %s%.*s", token, (int)i + 1, token);
        assert_false(http_token_right(bl_text_from(line), token));
        snprintf(line, sizeof line, "Bearer %s", token + i);
        assert_int_equal(http_token_right(bl_text_from(line), token), i == 0);
    }
}

static void types_are_read_from_lists(void **state)
{
    (void)state;
    assert_true(http_is_json(BL_TEXT("application/json")));
    assert_true(http_is_json(BL_TEXT("Application/JSON ; charset=utf-8")));
    assert_false(http_is_json(BL_TEXT("application/jsonp")));
    assert_false(http_is_json(BL_TEXT("")));
    assert_true(http_accepts(BL_TEXT(""), "text/event-stream"));
    assert_true(http_accepts(BL_TEXT("a/b, TEXT/event-stream;q=0.5"), "text/event-stream"));
    assert_true(http_accepts(BL_TEXT("text/*"), "text/event-stream"));
    assert_true(http_accepts(BL_TEXT("x/y,*/*;q=0.1"), "text/event-stream"));
    assert_false(http_accepts(BL_TEXT("text/html,application/*"), "text/event-stream"));
    assert_false(http_accepts(BL_TEXT("tex/*"), "text/event-stream"));
    assert_false(http_accepts(BL_TEXT(",;,"), "text/event-stream"));
}

static void values_are_decoded_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        const char *meant; /* NULL: malformed */
    } rows[] = {
        {"plain", "plain"},
        {"", ""},
        {"=?base64?"
         "?=",
         ""},
        {"=?base64?SGVsbG8sIOS4lueVjA==?=", "Hello, 世界"},
        {"=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", "=?base64?literal?="},
        {"=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="},
        {"=?base64?SGVsbG8", "=?base64?SGVsbG8"},
        {"=?base64?SGVsbG8?=", NULL},
        {"=?base64?SGVs!G8=?=", NULL},
        {"=?base64?SGVs=G8=?=", NULL},
        {"=?base64?====?=", NULL},
        {"=?base64?/////w==?=", NULL}, /* not UTF-8 */
    };
    struct bl_arena arena;

    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(rows); i++) {
        struct bl_text value;
        bool fine = http_header_value(&arena, bl_text_from(rows[i].value), &value);
        suite_fail_if(fine != (rows[i].meant != NULL) ||
                          (fine && !bl_text_equal(value, bl_text_from(rows[i].meant))),
                      "%s", rows[i].value);
    }
    bl_arena_done(&arena);
}

SUITE(mcp_http_header, cmocka_unit_test(origins_and_hosts_are_distinguished),
      cmocka_unit_test(only_the_whole_token_is_right),
      cmocka_unit_test(M12_a_token_that_differs_anywhere_is_wrong),
      cmocka_unit_test(types_are_read_from_lists), cmocka_unit_test(values_are_decoded_or_refused));
