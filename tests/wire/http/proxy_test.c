#include <belay/wire.h>

#include <stdlib.h>

#include "suite.h"

static const char *choose(const struct bl_proxies *proxies, const char *text)
{
    struct bl_arena arena;
    struct bl_url url;

    bl_arena_init(&arena);
    assert_int_equal(bl_url_parse(&arena, text, &url, NULL), 0);
    const char *proxy = bl_proxies_choose(proxies, &url);
    bl_arena_done(&arena);
    return proxy;
}

static void the_proxy_of_the_scheme_comes_before_that_of_all(void **state)
{
    (void)state;
    struct bl_proxies three = {.https = "s.test:1", .http = "h.test:2", .all = "a.test:3"};
    struct bl_proxies all = {.https = "", .all = "socks5://a.test:3"};
    struct bl_proxies none = {.all = ""};

    assert_string_equal(choose(&three, "https://x.test"), "s.test:1");
    assert_string_equal(choose(&three, "http://x.test"), "h.test:2");
    assert_string_equal(choose(&all, "https://x.test"), "socks5://a.test:3");
    assert_string_equal(choose(&all, "http://x.test"), "socks5://a.test:3");
    assert_null(choose(&none, "https://x.test"));
}

static void loopback_is_always_direct(void **state)
{
    (void)state;
    struct bl_proxies proxies = {.all = "a.test:3"};

    assert_null(choose(&proxies, "http://127.0.0.1:8080/v1"));
    assert_null(choose(&proxies, "http://127.9.9.9"));
    assert_null(choose(&proxies, "http://localhost"));
    assert_null(choose(&proxies, "http://x.localhost"));
    assert_null(choose(&proxies, "http://[::1]"));
    assert_non_null(choose(&proxies, "http://10.0.0.1"));
}

static const struct {
    const char *no;
    const char *url;
    bool direct;
} exemptions[] = {
    {"example.test", "https://example.test", true},
    {"example.test", "https://api.example.test", true},
    {".example.test", "https://api.example.test", true},
    {".example.test", "https://a.b.example.test", true},
    {".example.test", "https://example.test", true},
    {"*.example.test", "https://api.example.test", true},
    {"EXAMPLE.Test", "https://api.example.test", true},
    {"example.test.", "https://api.example.test", true},
    {"example.test", "https://api.example.test./", true},
    {"example.test", "https://badexample.test", false},
    {"example.test", "https://example.test.invalid", false},
    {"api.example.test", "https://example.test", false},
    {"*", "https://any.test", true},
    {" * ", "https://any.test", true},
    {"a.test,*", "https://any.test", true},
    {"*any.test", "https://any.test", false},
    {"a.test, b.test ,\tc.test", "https://b.test", true},
    {"a.test, b.test ,\tc.test", "https://c.test", true},
    {"a.test b.test", "https://b.test", true},
    {",,a.test,,", "https://a.test", true},
    {",,a.test,,", "https://b.test", false},
    {"", "https://b.test", false},
    {".", "https://b.test", false},
    {"..", "https://b.test", false},
    /* With a port. */
    {"example.test:8080", "http://example.test:8080", true},
    {"example.test:8080", "http://example.test", false},
    {"example.test:443", "https://api.example.test", true},
    {"example.test:0", "https://example.test", false},
    {"example.test:x", "https://example.test", false},
    {"example.test:", "https://example.test", false},
    {"10.1.2.3:8080", "http://10.1.2.3:8080", true},
    {"10.1.2.3:8080", "http://10.1.2.3:8081", false},
    {"[fd00::1]:8080", "http://[fd00::1]:8080", true},
    {"[fd00::1]:8080", "http://[fd00::1]:80", false},
    /* Addresses. */
    {"10.1.2.3", "http://10.1.2.3", true},
    {"10.1.2.3", "http://10.1.2.30", false},
    {"1.2.3", "http://10.1.2.3", false},
    {"2.3", "http://10.1.2.3", false},
    {"fd00::1", "http://[fd00:0:0::1]", true},
    {"[fd00::1]", "http://[fd00::1]", true},
    {"fd00::1", "http://[fd00::2]", false},
    /* Networks. */
    {"10.0.0.0/8", "http://10.200.1.1", true},
    {"10.0.0.0/8", "http://11.0.0.1", false},
    {"192.168.4.0/22", "http://192.168.7.255", true},
    {"192.168.4.0/22", "http://192.168.8.0", false},
    {"192.168.1.1/32", "http://192.168.1.1", true},
    {"192.168.1.1/32", "http://192.168.1.0", false},
    {"0.0.0.0/0", "http://8.8.8.8", true},
    {"0.0.0.0/0", "http://[fd00::1]", false},
    {"fd00::/8", "http://[fd12:3456::1]", true},
    {"fd00::/8", "http://[fe00::1]", false},
    {"[fd00::]/8", "http://[fd12::1]", true},
    {"2001:db8::/33", "http://[2001:db8:7fff::1]", true},
    {"2001:db8::/33", "http://[2001:db8:8000::1]", false},
    {"::/0", "http://[fd00::1]", true},
    {"10.0.0.0/8", "http://ten.test", false},
    /* Invalid networks cover nothing. */
    {"10.0.0.0/33", "http://10.0.0.0", false},
    {"10.0.0.0/-1", "http://10.0.0.0", false},
    {"10.0.0.0/", "http://10.0.0.0", false},
    {"10.0.0.0/8x", "http://10.0.0.0", false},
    {"fd00::/129", "http://[fd00::]", false},
    {"10.0/8", "http://10.0.0.0", false},
    {"/", "http://10.0.0.0", false},
    {"10.0.0.0/99999999999999999999", "http://10.0.0.0", false},
    {":", "https://b.test", false},
    {"[", "https://b.test", false},
    {"]:", "https://b.test", false},
    {"[]:1", "https://b.test:1", false},
};

static void exemptions_are_names_suffixes_networks_and_ports(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(exemptions); i++) {
        struct bl_proxies proxies = {.all = "p.test:1", .no = exemptions[i].no};
        bool direct = choose(&proxies, exemptions[i].url) == NULL;
        if (direct != exemptions[i].direct)
            fail_msg("\"%s\" and %s: direct %d", exemptions[i].no, exemptions[i].url, direct);
    }
}

/* ---- The environment ------------------------------------------------------------------------- */

static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "http_proxy",
                                    "HTTP_PROXY",  "all_proxy",   "ALL_PROXY",
                                    "no_proxy",    "NO_PROXY",    "REQUEST_METHOD"};

static int forget_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < BL_COUNT(names); i++)
        unsetenv(names[i]);
    return 0;
}

static void check_value(const char *got, const char *expected)
{
    if (expected == NULL)
        assert_null(got);
    else
        assert_string_equal(got, expected);
}

static void lower_case_variables_take_precedence(void **state)
{
    (void)state;
    struct bl_proxies proxies;

    bl_proxies_read(&proxies);
    check_value(proxies.https, NULL);
    check_value(proxies.http, NULL);
    check_value(proxies.all, NULL);
    check_value(proxies.no, NULL);
    setenv("HTTPS_PROXY", "upper-s", 1);
    setenv("HTTP_PROXY", "upper-h", 1);
    setenv("ALL_PROXY", "upper-a", 1);
    setenv("NO_PROXY", "upper-n", 1);
    setenv("all_proxy", "", 1);
    setenv("no_proxy", "lower-n", 1);
    bl_proxies_read(&proxies);
    check_value(proxies.https, "upper-s");
    check_value(proxies.http, "upper-h");
    check_value(proxies.all, "upper-a");
    check_value(proxies.no, "lower-n");
}

static void cgi_program_reads_only_lower_case_http_proxy(void **state)
{
    (void)state;
    struct bl_proxies proxies;

    setenv("REQUEST_METHOD", "GET", 1);
    setenv("HTTP_PROXY", "sent-by-the-client", 1);
    bl_proxies_read(&proxies);
    check_value(proxies.http, NULL);
    setenv("http_proxy", "lower", 1);
    bl_proxies_read(&proxies);
    check_value(proxies.http, "lower");
}

SUITE(proxy, cmocka_unit_test(the_proxy_of_the_scheme_comes_before_that_of_all),
      cmocka_unit_test(loopback_is_always_direct),
      cmocka_unit_test(exemptions_are_names_suffixes_networks_and_ports),
      cmocka_unit_test_setup_teardown(lower_case_variables_take_precedence, forget_environment,
                                      forget_environment),
      cmocka_unit_test_setup_teardown(cgi_program_reads_only_lower_case_http_proxy,
                                      forget_environment, forget_environment));
