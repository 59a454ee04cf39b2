/* Converts web pages from bytes to the text that a model reads. Nothing here waits or depends on
 * the origin of a page; everything takes time linear in the page, and has a limit. */
#ifndef BELAY_TOOL_WEB_H
#define BELAY_TOOL_WEB_H

#include <belay/wire.h>

#include "tool/parts.h"

/* ---- Bytes to text (charset.c) --------------------------------------------------------------- */

/* How the bytes of a page were decoded. */
struct charset_reading {
    const char *name;       /* of the character set, static: "UTF-8" */
    struct bl_text unknown; /* an unsupported name: UTF-8 was used instead */
    bool broken;            /* invalid bytes became U+FFFD */
};

/* Appends the bytes as valid UTF-8, without a byte order mark and NUL. A mark at the start decides
 * the character set; then `label`, the value of the header (may be empty); then, for HTML, a <meta>
 * among the first bytes; else it is UTF-8. */
void charset_decode(struct bl_text bytes, struct bl_text label, bool html, struct bl_buffer *out,
                    struct charset_reading *ret_reading);

/* ---- HTML (html.c, html_token.c, entity.c) --------------------------------------------------- */

/* A token of a document. */
struct html_token {
    enum html_token_type {
        HTML_TEXT,  /* may hold entities */
        HTML_RAW,   /* the text of an element without markup in it: script, style */
        HTML_OPEN,  /* <name …> */
        HTML_CLOSE, /* </name> */
    } type;
    struct bl_text text; /* for a tag, its attributes */
    char name[12];       /* in lower case, shortened */
};

struct html_reader {
    struct bl_text rest;
    char raw[12]; /* the element whose raw text comes next; empty if none */
};

/* Returns false at the end. Comments and declarations are skipped. */
bool html_next(struct html_reader *reader, struct html_token *ret_token);
/* Returns the value of an attribute, with its entities. Returns false if the tag has no such
 * attribute. */
bool html_attribute(const struct html_token *tag, const char *name, struct bl_text *ret_value);
/* Appends the text with its entities replaced. `in_attribute` applies the stricter rules for
 * attributes. */
void entity_decode(struct bl_text text, bool in_attribute, struct bl_buffer *out);

/* Appends a document as text: a title, headings with #, lists, links as [text](address), cells of
 * tables with | between them, code in fences; no scripts, no styles, no hidden elements. The input
 * must be valid UTF-8, and so is the output. `base` is the address of the page. Returns true if the
 * document is complete, false if it was stopped or `out` is full. */
bool html_render(struct bl_text html, const char *base, const atomic_bool *stopped,
                 struct bl_buffer *out);

/* ---- Addresses (address.c) ------------------------------------------------------------------- */

/* Returns an address written by a model or a page in the form for the client: without its fragment,
 * and with disallowed bytes as %XX. Relative to `base`; if that is NULL, the address must be
 * absolute. In the arena; empty if it is not a valid HTTP address. */
struct bl_text web_address(struct bl_arena *arena, const char *base, struct bl_text written);
/* Returns its host as rules name it: in lower case, IPv6 addresses in their short form and in
 * brackets. `ret_with_port` includes the port. Returns false if the address is invalid; `error`
 * says why. */
bool web_host(struct bl_arena *arena, const char *address, struct bl_text *ret_host,
              struct bl_text *ret_with_port, struct bl_url *ret_url, struct bl_error *error);

#endif
