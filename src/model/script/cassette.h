/* Cassettes: shared by their files. Inside model/ only.
 *
 * A cassette is a file of JSON lines: a head, then one exchange per line. */
#ifndef BELAY_MODEL_CASSETTE_H
#define BELAY_MODEL_CASSETTE_H

#include "model/provider.h"

#define CASSETTE_VERSION  1
#define CASSETTE_SIZE_MAX ((size_t)256 * 1024 * 1024)
#define CASSETTE_REMOVED  "[removed]"
/* Shorter strings match everywhere by chance, and protect nothing. */
#define CASSETTE_SECRET_MIN 6u

struct cassette_head {
    uint32_t version;
    int64_t created_wall_ns;
};

/* The headers of an answer that are kept. */
struct cassette_headers {
    struct bl_text content_type;
    struct bl_text retry_after;
    struct bl_text retry_after_ms;
    struct bl_text should_retry;
    struct bl_text request_id;
    struct bl_text x_request_id;
};

/* Received bytes; as base64 if they are not valid UTF-8. */
struct cassette_piece {
    uint64_t ms;
    struct bl_text text;
    struct bl_text base64;
};

/* A recorded exchange. */
struct cassette_exchange {
    size_t line;
    struct bl_text method;
    struct bl_text path;
    bool is_text;               /* the request body is not JSON */
    const struct bl_json *body; /* NULL: the body is text */
    struct bl_text body_json;   /* to be written */
    struct bl_text body_text;
    int status;
    const struct bl_json *headers;
    struct bl_text headers_json; /* to be written */
    struct cassette_piece *pieces;
    size_t piece_count;
    struct bl_text end;
    bool failed; /* `end` is the code of a failure */
    struct bl_text message;
    bool timed_out;
    bool used;
};

extern const struct bl_record cassette_head_record;
extern const struct bl_record cassette_headers_record;
extern const struct bl_record cassette_exchange_record;

struct bl_cassette {
    char *path;
    /* Recording. */
    int fd;                  /* -1: it is being replayed */
    struct bl_text *secrets; /* on the heap, as are their texts */
    size_t secret_count;
    struct bl_text *encoded; /* the part of their base64 that does not depend on the neighbouring
                                bytes */
    size_t encoded_count;
    int failed; /* errno of the first write that failed; 0 if none */
    /* Playing. All in the arena. */
    struct bl_arena arena;
    struct cassette_exchange *exchanges;
    size_t exchange_count;
    bool torn; /* the last line is incomplete: the recorder was killed */
};

struct bl_cassette *cassette_new(const char *path);
void cassette_free(struct bl_cassette *cassette);
/* Reads a cassette from memory; `path` identifies it in errors. */
int cassette_parse(const char *path, struct bl_text source, struct bl_cassette **ret_cassette,
                   struct bl_error *error);

/* ---- Secrets (cassette_secret.c) ------------------------------------------------------------- */

/* Copies the secrets, and derives their encoded forms. */
void cassette_secrets_set(struct bl_cassette *cassette, const struct bl_text *secrets,
                          size_t count);
void cassette_secrets_free(struct bl_cassette *cassette);

/* A part of a text that must not be written. */
struct cassette_range {
    size_t start;
    size_t end;
    bool marked; /* replaced by [removed]; otherwise by nothing */
};

/* Finds the secrets in `text`, in order and without overlaps: struct cassette_range. Finds them
 * plain, JSON-escaped, percent-encoded and in base64; in a `stream` of events also those whose
 * parts are in consecutive strings under one key. */
void cassette_secrets_find(const struct bl_cassette *cassette, struct bl_text text, bool stream,
                           struct bl_buffer *ret_ranges);
/* Appends bytes [start, end) of the text without the ranges. */
void cassette_secrets_cut(struct bl_text text, size_t start, size_t end,
                          const struct bl_buffer *ranges, struct bl_buffer *out);
/* Returns a whole text without secrets: in `arena`, or the same text if it contains none. */
struct bl_text cassette_secrets_remove(const struct bl_cassette *cassette, struct bl_arena *arena,
                                       struct bl_text text);

/* ---- Recording ------------------------------------------------------------------------------- */

void cassette_take_status(struct cassette_take *take, int status);
/* Keeps the header if it is on the allow list. */
void cassette_take_header(struct cassette_take *take, const char *name, struct bl_text value);

#endif
