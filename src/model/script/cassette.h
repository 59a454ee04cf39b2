/* Cassettes: what their files share. Inside model/ only.
 *
 * A cassette is a file of JSON lines. The first is {"belay_cassette":1,"created":"…"}; each other
 * one is an exchange: method, path, body (JSON) or body_text (what is none), status, headers,
 * pieces ({"ms":…,"text":…}, or base64 where a piece is not valid UTF-8), end ("end", "cut", or the
 * code of a failure, then with message and timed_out). */
#ifndef BELAY_MODEL_CASSETTE_H
#define BELAY_MODEL_CASSETTE_H

#include "model/provider.h"

#define CASSETTE_SIZE_MAX ((size_t)256 * 1024 * 1024)
#define CASSETTE_REMOVED  "[removed]"
/* What is shorter is found anywhere by chance, and keeps no secret. */
#define CASSETTE_SECRET_MIN 6u

/* An exchange on record. */
struct cassette_exchange {
    size_t line;
    struct bl_text method;
    struct bl_text path;
    const struct bl_json *body; /* NULL: it is a text */
    struct bl_text body_text;
    int status;
    const struct bl_json *headers;
    struct bl_text *pieces;
    size_t piece_count;
    struct bl_text end;
    struct bl_text message;
    bool timed_out;
    bool used;
};

struct bl_cassette {
    char *path;
    /* Recording. */
    int fd;                  /* -1: it is played from */
    struct bl_text *secrets; /* on the heap, as are their texts */
    size_t secret_count;
    struct bl_text *encoded; /* what of their base64 does not depend on what stands beside */
    size_t encoded_count;
    int failed; /* errno of the first write that failed; 0: none */
    /* Playing. All of it in the arena. */
    struct bl_arena arena;
    struct cassette_exchange *exchanges;
    size_t exchange_count;
    bool torn; /* the last line is not whole: whoever recorded it was killed */
};

struct bl_cassette *cassette_new(const char *path);
void cassette_free(struct bl_cassette *cassette);
/* Reads one from memory; `path` is what errors call it. */
int cassette_parse(const char *path, struct bl_text source, struct bl_cassette **ret_cassette,
                   struct bl_error *error);

/* ---- Secrets (cassette_secret.c) ------------------------------------------------------------- */

/* Copies them, and makes what else is to be looked for. */
void cassette_secrets_set(struct bl_cassette *cassette, const struct bl_text *secrets,
                          size_t count);
void cassette_secrets_free(struct bl_cassette *cassette);

/* A part of a text that is not to be written. */
struct cassette_range {
    size_t start;
    size_t end;
    bool marked; /* [removed] stands in its place; else nothing */
};

/* Where secrets stand in `text`, in order and apart from each other: struct cassette_range. Finds
 * them plain, escaped as in JSON, percent-encoded and in base64; in a `stream` of events also those
 * whose parts stand in strings of one key one after the other. */
void cassette_secrets_find(const struct bl_cassette *cassette, struct bl_text text, bool stream,
                           struct bl_buffer *ret_ranges);
/* Appends bytes [start, end) of the text without what is in the ranges. */
void cassette_secrets_cut(struct bl_text text, size_t start, size_t end,
                          const struct bl_buffer *ranges, struct bl_buffer *out);
/* A whole text without them; in `arena`, or the same where there are none. */
struct bl_text cassette_secrets_remove(const struct bl_cassette *cassette, struct bl_arena *arena,
                                       struct bl_text text);

/* ---- Recording ------------------------------------------------------------------------------- */

void cassette_take_status(struct cassette_take *take, int status);
/* Kept if it is on the allow list. */
void cassette_take_header(struct cassette_take *take, const char *name, struct bl_text value);

#endif
