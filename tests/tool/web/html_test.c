#include "suite.h"
#include "tool/web/web.h"

static const char *render(const char *html)
{
    static struct bl_buffer out;
    static atomic_bool never;
    bl_buffer_done(&out);
    bl_buffer_init(&out, (size_t)1 << 20);
    assert_true(html_render(bl_text_from(html), "https://host.test/dir/page?q=1", &never, &out));
    assert_true(bl_utf8_valid(bl_buffer_text(&out)));
    bl_buffer_append_byte(&out, '\0');
    return out.data;
}

#define RENDERS(html, text)                                                                        \
    do {                                                                                           \
        const char *rendered = render(html);                                                       \
        suite_fail_if(strcmp(rendered, text) != 0, "%s\nbecame\n%s\nnot\n%s", html, rendered,      \
                      text);                                                                       \
    } while (0)

static void structure_becomes_text(void **state BL_UNUSED)
{
    RENDERS("<title>A &amp; B</title><h1>One <em>two</em></h1><p>first<p>second<br>line",
            "Title: A & B\n\n# One two\n\nfirst\n\nsecond\nline\n");
    RENDERS("<ul><li>a<li>b<ul><li>c</ul><li>d</ul><ol><li>x<li>y</ol>",
            "- a\n- b\n  - c\n- d\n\n1. x\n2. y\n");
    RENDERS("<table><tr><th>n<th>size<tr><td><p>a</p><td>12</table>after",
            "n | size\na | 12\n\nafter\n");
    RENDERS("<p>x<pre><code>\nint a;\n\n  b &lt; c\n</code></pre>y",
            "x\n\n```\nint a;\n\n  b < c\n```\n\ny\n");
    RENDERS("<blockquote><p>a<p>b</blockquote>c", "> a\n\n> b\n\nc\n");
    RENDERS("use <code>f()</code> &mdash; now<hr>", "use `f()` \xE2\x80\x94 now\n\n---\n");
    RENDERS("  a \n\t b&nbsp;&nbsp;c  ", "a b c\n");
    RENDERS("<img src=x alt='a cat'><img src=y alt=''>", "[image: a cat]\n");
    RENDERS("", "");
    RENDERS("plain < text & more", "plain < text & more\n");
}

static void links_have_absolute_addresses(void **state BL_UNUSED)
{
    RENDERS("<a href=/x#y>a</a>", "[a](https://host.test/x)\n");
    RENDERS("<a href='next?p=2&amp;q=3'>a</a>", "[a](https://host.test/dir/next?p=2&q=3)\n");
    RENDERS("<a href=\"../up\">a</a>", "[a](https://host.test/up)\n");
    RENDERS("<a href=//other.test>a</a>", "[a](https://other.test)\n");
    RENDERS("<base href='https://b.test/c/'><a href=d>a</a>", "[a](https://b.test/c/d)\n");
    /* An address that cannot be fetched is only text, and a link without text is dropped. */
    RENDERS("<a href=#here>a</a> <a href=javascript:x()>b</a> <a name=c>c</a>", "a b c\n");
    RENDERS("x<a href=/y><svg><text>z</text></svg></a>", "x\n");
    RENDERS("<p>go <a href=/x>to <b>it</b></a>, now", "go [to it](https://host.test/x), now\n");
}

static void invisible_elements_are_skipped(void **state BL_UNUSED)
{
    RENDERS("a<script>var x = '<p>no</p>';</script>b<style>p{}</style>c<!-- no -->d", "abcd\n");
    RENDERS("a<SCRIPT>no</ScRiPt >b<noscript>c</noscript>", "abc\n");
    RENDERS("a<template><p>no</template><svg><desc>no</desc></svg>b", "ab\n");
    RENDERS("a<div hidden>no<div>no</div>no</div>b", "ab\n");
    RENDERS("a<p style='color:red; display: none'>no</p>b", "ab\n");
    RENDERS("<ul><li hidden>no<li>yes</ul>", "- yes\n");
    RENDERS("<body style='display:none'>shown", "shown\n");
    RENDERS("a<script>never closed <p>b", "a\n");
    RENDERS("in\xE2\x80\x8Bvi\xC2\xADsi\xE2\x80\xAE"
            "ble",
            "invisible\n");
}

static void entities_are_decoded_as_browsers_do(void **state BL_UNUSED)
{
    RENDERS("&lt;&#65;&#x42;&#150;&eacute;&copy 1 &copyx &amp;lt;",
            "<AB\xE2\x80\x93\xC3\xA9\xC2\xA9 1 &copyx &lt;\n");
    RENDERS("&nosuch; &; &#; &#x; &#0; &#xD800; &#99999999;",
            "&nosuch; &; &#; &#x; \xEF\xBF\xBD \xEF\xBF\xBD \xEF\xBF\xBD\n");
    RENDERS("<a href='/?a=1&copy=2'>x</a>", "[x](https://host.test/?a=1&copy=2)\n");
}

static void malformed_documents_are_rendered(void **state BL_UNUSED)
{
    RENDERS("</li></ul></p>a</pre></blockquote>b</a></table></td>", "a\n\nb\n");
    RENDERS("<p", "");
    RENDERS("<a href='never closed>x</a>", "");
    RENDERS("<pre>a", "```\na\n```\n");
    RENDERS("<!doctype html><?xml?><!--><p>a</p>-->b", "a\n\n-->b\n");
    struct bl_buffer deep;
    bl_buffer_init(&deep, SIZE_MAX);
    for (int i = 0; i < 10000; i++)
        bl_buffer_append(&deep, BL_TEXT("<blockquote><ul><li><table><tr><td>"));
    bl_buffer_append(&deep, BL_TEXT("x\0"));
    assert_non_null(strstr(render(deep.data), "x"));
    bl_buffer_done(&deep);
}

/* ---- Character sets -------------------------------------------------------------------------- */

static const char *decode(const char *bytes, size_t size, const char *label,
                          struct charset_reading *ret_reading)
{
    static struct bl_buffer out;
    bl_buffer_done(&out);
    bl_buffer_init(&out, SIZE_MAX);
    charset_decode((struct bl_text){bytes, size}, bl_text_from(label), true, &out, ret_reading);
    assert_true(bl_utf8_valid(bl_buffer_text(&out)));
    bl_buffer_append_byte(&out, '\0');
    return out.data;
}

#define DECODES(bytes, label, text)                                                                \
    assert_string_equal(decode(bytes, sizeof(bytes) - 1, label, &reading), text)

static void the_character_set_is_found_and_read(void **state BL_UNUSED)
{
    struct charset_reading reading;
    DECODES("caf\xC3\xA9", "text/html", "caf\xC3\xA9");
    DECODES("caf\xE9", "text/html; charset=ISO-8859-1", "caf\xC3\xA9");
    DECODES("\x93x\x94", "text/html;charset=\"latin1\"", "\xE2\x80\x9Cx\xE2\x80\x9D");
    DECODES("<meta charset='windows-1251'>\xCF", "text/html",
            "<meta charset='windows-1251'>\xD0\x9F");
    DECODES("<meta http-equiv=x content='text/html; charset=koi8-r'>\xF0", "text/html",
            "<meta http-equiv=x content='text/html; charset=koi8-r'>\xD0\x9F");
    DECODES("\x82\xA0", "text/plain; charset=Shift_JIS", "\xE3\x81\x82");
    /* The header takes precedence over a <meta>, and a mark over both. */
    DECODES("<meta charset=latin1>\xC3\xA9", "text/html; charset=utf-8",
            "<meta charset=latin1>\xC3\xA9");
    DECODES("\xEF\xBB\xBF\xC3\xA9", "text/html; charset=latin1", "\xC3\xA9");
    DECODES("\xFF\xFEh\0i\0", "text/html", "hi");
}

static void broken_bytes_are_replaced(void **state BL_UNUSED)
{
    struct charset_reading reading;
    DECODES("a\xFFz\0b", "text/plain",
            "a\xEF\xBF\xBDz\xEF\xBF\xBD"
            "b");
    assert_true(reading.broken);
    DECODES("\x82", "text/plain; charset=shift_jis", "\xEF\xBF\xBD");
    assert_true(reading.broken);
    DECODES("caf\xC3\xA9", "text/plain; charset=martian", "caf\xC3\xA9");
    assert_true(bl_text_equal(reading.unknown, BL_TEXT("martian")));
    /* Only known names reach the system's tables. */
    DECODES("x", "text/plain; charset=UTF-8//TRANSLIT", "x");
    DECODES("x", "text/plain; charset=../../evil", "x");
    assert_false(reading.broken);
}

SUITE(html, cmocka_unit_test(structure_becomes_text),
      cmocka_unit_test(links_have_absolute_addresses),
      cmocka_unit_test(invisible_elements_are_skipped),
      cmocka_unit_test(entities_are_decoded_as_browsers_do),
      cmocka_unit_test(malformed_documents_are_rendered),
      cmocka_unit_test(the_character_set_is_found_and_read),
      cmocka_unit_test(broken_bytes_are_replaced));
