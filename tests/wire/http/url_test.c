#include <belay/wire.h>

#include "suite.h"

static const struct {
    const char *text;
    bool secure;
    const char *host;
    uint16_t port;
    const char *path;
} good[] = {
    {"https://api.example.test", true, "api.example.test", 443, "/"},
    {"http://api.example.test", false, "api.example.test", 80, "/"},
    {"HTTPS://API.Example.TEST/V1", true, "api.example.test", 443, "/V1"},
    {"https://api.example.test:8443/v1/messages?a=b&c=%20d", true, "api.example.test", 8443,
     "/v1/messages?a=b&c=%20d"},
    {"http://127.0.0.1:8080/v1", false, "127.0.0.1", 8080, "/v1"},
    {"http://[::1]:11434", false, "::1", 11434, "/"},
    {"http://[FE80::ABCD]/x", false, "fe80::abcd", 80, "/x"},
    {"https://host.test?key=1", true, "host.test", 443, "/?key=1"},
    {"https://host.test:/x", true, "host.test", 443, "/x"},
    {"https://under_score.host-1.test./x@y:z", true, "under_score.host-1.test.", 443, "/x@y:z"},
    {"http://1e100.test", false, "1e100.test", 80, "/"},
    {"http://localhost:65535//", false, "localhost", 65535, "//"},
};

static void urls_are_parsed(void **state)
{
    (void)state;
    struct bl_arena arena;

    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(good); i++) {
        struct bl_url url;
        struct bl_error error = {0};
        if (bl_url_parse(&arena, good[i].text, &url, &error) != 0)
            fail_msg("%s: %s", good[i].text, error.message);
        assert_int_equal(url.secure, good[i].secure);
        assert_string_equal(url.host.data, good[i].host);
        assert_int_equal(url.host.size, strlen(good[i].host));
        assert_int_equal(url.port, good[i].port);
        assert_string_equal(url.path.data, good[i].path);
        assert_int_equal(url.path.size, strlen(good[i].path));
    }
    bl_arena_done(&arena);
}

static const struct {
    const char *text;
    const char *message; /* part of the message */
} bad[] = {
    {"", "empty"},
    {NULL, "empty"},
    {"api.example.test", "http://"},
    {"ftp://host.test", "http://"},
    {"https:/host.test", "http://"},
    {"https://", "no host"},
    {"https:///path", "no host"},
    {"https://:443", "no host"},
    {"https://user:word@host.test", "user name"},
    {"https://key@host.test/x", "user name"},
    {"https://host.test/#part", "fragment"},
    {"https://host.test#part", "fragment"},
    {"https://host.test/a b", "%XX"},
    {"https://host.test/\xC3\xA9", "%XX"},
    {"https://host.test/a\nHost: other", "%XX"},
    {"https://host.test/a\\b", "%XX"},
    {"https://ho st.test", "character"},
    {"https://h\xC3\xB6st.test", "character"},
    {"https://host%41.test", "character"},
    {"https://host\\.test", "character"},
    {"https://host.test\r\nX: y", "character"},
    {"https://.host.test", "not a host name"},
    {"https://host..test", "not a host name"},
    {"https://-host.test", "not a host name"},
    {"https://host.test:0", "port"},
    {"https://host.test:65536", "port"},
    {"https://host.test:-1", "port"},
    {"https://host.test:80x", "port"},
    {"https://host.test:1:2", "port"},
    {"https://[::1", "bracket"},
    {"https://[::1]x", "between"},
    {"https://[127.0.0.1]", "IPv6"},
    {"https://[fe80::1%25eth0]", "IPv6"},
    {"https://[]", "no host"},
    {"https://127.1", "IPv4"},
    {"https://2130706433", "IPv4"},
    {"https://0x7f000001", "IPv4"},
    {"https://256.0.0.1", "IPv4"},
    {"https://host.0x1", "IPv4"},
    {"https://127.0.0.1.", "IPv4"},
};

static void invalid_url_is_refused_with_a_reason(void **state)
{
    (void)state;
    struct bl_arena arena;

    bl_arena_init(&arena);
    for (size_t i = 0; i < BL_COUNT(bad); i++) {
        struct bl_url url;
        struct bl_error error = {0};
        const char *text = bad[i].text != NULL ? bad[i].text : "NULL";
        if (bl_url_parse(&arena, bad[i].text, &url, &error) != BL_EINVAL)
            fail_msg("%s was taken", text);
        assert_int_equal(error.kind, BL_KIND_USAGE);
        if (strstr(error.message, bad[i].message) == NULL)
            fail_msg("%s: %s", text, error.message);
        assert_true(error.hint[0] != '\0');
        assert_int_equal(bl_url_parse(&arena, bad[i].text, &url, NULL), BL_EINVAL);
    }
    bl_arena_done(&arena);
}

static void a_password_in_an_address_is_not_shown(void **state)
{
    (void)state;
    struct bl_arena arena;
    struct bl_url url;
    struct bl_error error = {0};

    bl_arena_init(&arena);
    assert_int_equal(bl_url_parse(&arena, "https://me:s3cret@host.test", &url, &error), BL_EINVAL);
    assert_null(strstr(error.target, "s3cret"));
    assert_null(strstr(error.message, "s3cret"));
    bl_arena_done(&arena);
}

static void host_names_of_any_length_are_handled(void **state)
{
    (void)state;
    struct bl_arena arena;
    struct bl_url url;
    char text[8 + 300 + 1] = "https://";

    bl_arena_init(&arena);
    for (size_t size = 1; size <= 300; size++) {
        memset(text + 8, 'a', size);
        text[8 + size] = '\0';
        assert_int_equal(bl_url_parse(&arena, text, &url, NULL), size <= 253 ? 0 : BL_EINVAL);
    }
    bl_arena_done(&arena);
}

static void loopback_is_known_by_name_and_address(void **state)
{
    (void)state;
    static const char *const inside[] = {
        "localhost", "LOCALHOST",   "localhost.", "a.localhost",    "a.b.localhost.",
        "127.0.0.1", "127.255.3.4", "::1",        "0:0:0:0:0:0:0:1"};
    static const char *const outside[] = {
        "localhost.test", "notlocalhost",   "128.0.0.1", "10.0.0.1", "::2",      "::",
        "0.0.0.0",        "127.0.0.1.test", "ocalhost",  "",         "localhos", "."};

    for (size_t i = 0; i < BL_COUNT(inside); i++) {
        struct bl_url url = {.host = bl_text_from(inside[i])};
        suite_fail_if(!bl_url_loopback(&url), "%s is loopback", inside[i]);
    }
    for (size_t i = 0; i < BL_COUNT(outside); i++) {
        struct bl_url url = {.host = bl_text_from(outside[i])};
        suite_fail_if(bl_url_loopback(&url), "%s is not loopback", outside[i]);
    }
}

static void private_hosts_are_known_by_name_and_address(void **state)
{
    (void)state;
    static const char *const inside[] = {
        "localhost",         "printer",       "nas.local",   "metadata.google.internal",
        "x.localhost",       "r.home.arpa",   "127.0.0.1",   "10.1.2.3",
        "172.16.0.1",        "172.31.255.9",  "192.168.1.1", "169.254.169.254",
        "100.100.100.200",   "0.0.0.0",       "224.0.0.1",   "255.255.255.255",
        "168.63.129.16",     "198.18.0.1",    "::",          "::1",
        "fe80::1",           "fd00:ec2::254", "ff02::1",     "::ffff:127.0.0.1",
        "64:ff9b::10.0.0.1", "2002:7f00:1::", "2001:db8::1", "::127.0.0.1"};
    static const char *const outside[] = {
        "example.org", "example.org.",    "internal.example.org", "8.8.8.8",         "172.32.0.1",
        "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8",       "64:ff9b::8.8.8.8"};

    for (size_t i = 0; i < BL_COUNT(inside); i++) {
        struct bl_url url = {.host = bl_text_from(inside[i])};
        suite_fail_if(!bl_url_private(&url), "%s is private", inside[i]);
    }
    for (size_t i = 0; i < BL_COUNT(outside); i++) {
        struct bl_url url = {.host = bl_text_from(outside[i])};
        suite_fail_if(bl_url_private(&url), "%s is not private", outside[i]);
    }
}

SUITE(url, cmocka_unit_test(private_hosts_are_known_by_name_and_address),
      cmocka_unit_test(urls_are_parsed), cmocka_unit_test(invalid_url_is_refused_with_a_reason),
      cmocka_unit_test(a_password_in_an_address_is_not_shown),
      cmocka_unit_test(host_names_of_any_length_are_handled),
      cmocka_unit_test(loopback_is_known_by_name_and_address));
