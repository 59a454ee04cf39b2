#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/script/cassette.h"
#include "recorder.h"

/* A separate folder for each test. */
static char folder[200];
static char path[256];

static int begin(void **state BL_UNUSED)
{
    const char *parent = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/belay-cassette-XXXXXX", parent != NULL ? parent : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tape.jsonl", folder);
    return 0;
}

static int end(void **state BL_UNUSED)
{
    unlink(path);
    return rmdir(folder);
}

static struct bl_cassette *record(const struct bl_text *secrets, size_t count)
{
    struct bl_cassette *cassette;
    struct bl_error error = {0};

    if (bl_cassette_record(path, secrets, count, &cassette, &error) != 0)
        fail_msg("%s", error.message);
    return cassette;
}

static struct bl_cassette *load(void)
{
    struct bl_cassette *cassette;
    struct bl_error error = {0};

    if (bl_cassette_load(path, &cassette, &error) != 0)
        fail_msg("%s", error.message);
    return cassette;
}

/* Records one exchange, whose pieces are the strings up to NULL. */
static void take(struct bl_cassette *cassette, const char *body, const char *const *pieces)
{
    struct cassette_take *one =
        cassette_take_begin(cassette, "POST", "/v1/messages", bl_text_from(body));

    cassette_take_status(one, 200);
    cassette_take_header(one, "Content-Type", BL_TEXT("text/event-stream"));
    for (; *pieces != NULL; pieces++)
        cassette_take_bytes(one, bl_text_from(*pieces));
    cassette_take_end(one, NULL, false);
}

#define TAKE(cassette, body, ...) take(cassette, body, (const char *const[]){__VA_ARGS__, NULL})

static void close_cassette(struct bl_cassette *cassette)
{
    struct bl_error error = {0};

    if (bl_cassette_close(cassette, &error) != 0)
        fail_msg("%s", error.message);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
}

/* Returns the pieces played for `body`, separated by bars; then the end. */
static const char *played(struct bl_cassette *cassette, const char *body)
{
    static char text[4096];
    struct cassette_play *play;
    struct bl_wire_failure failure;
    struct bl_error error = {0};
    struct bl_text bytes;
    size_t size = 0;

    if (cassette_play_find(cassette, "POST", "/v1/messages", bl_text_from(body), &play, &error) !=
        0) {
        assert_string_equal(error.name, "no_match");
        assert_int_equal(error.code, BL_ENOENT);
        assert_int_equal(error.kind, BL_KIND_PROVIDER);
        assert_true(error.hint[0] != '\0');
        bl_text_into(text, sizeof text, error.message);
        return text;
    }
    while (cassette_play_next(play, &bytes, &failure))
        size += (size_t)snprintf(text + size, sizeof text - size, BL_TEXT_FORMAT "|",
                                 BL_TEXT_ARG(bytes));
    snprintf(text + size, sizeof text - size, "%s", failure.code != NULL ? failure.code : "end");
    cassette_play_free(play);
    return text;
}

/* ---- Recording and replaying ----------------------------------------------------------------- */

static void a_recording_is_played_in_the_same_pieces(void **state BL_UNUSED)
{
    struct bl_cassette *cassette = record(NULL, 0);
    struct cassette_play *play;
    struct bl_error error = {0};
    struct stat status;

    TAKE(cassette, "{\"model\":\"m\",\"n\":1}", "data: \xc3", "\xa9\n", "\n");
    close_cassette(cassette);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);

    cassette = load();
    /* Members in any order, and numbers by value. */
    assert_int_equal(cassette_play_find(cassette, "POST", "/v1/messages",
                                        BL_TEXT("{\"n\":1.0, \"model\":\"m\"}"), &play, &error),
                     0);
    assert_int_equal(cassette_play_status(play), 200);
    assert_true(
        bl_text_equal(cassette_play_header(play, "CONTENT-type"), BL_TEXT("text/event-stream")));
    assert_int_equal(cassette_play_header(play, "x-request-id").size, 0);
    cassette_play_free(play);
    assert_string_equal(played(cassette, "{\"n\":1,\"model\":\"m\"}"),
                        "all 1 recorded exchanges are used");
    close_cassette(cassette);
    cassette = load();
    assert_string_equal(played(cassette, "{\"n\":1,\"model\":\"m\"}"), "data: \xc3|\xa9\n|\n|end");
    close_cassette(cassette);
}

static void equal_requests_are_answered_in_order(void **state BL_UNUSED)
{
    struct bl_cassette *cassette = record(NULL, 0);

    TAKE(cassette, "{\"a\":1}", "first");
    TAKE(cassette, "{\"a\":2}", "other");
    TAKE(cassette, "{\"a\":1}", "second");
    close_cassette(cassette);
    cassette = load();
    assert_string_equal(played(cassette, "{\"a\":2}"), "other|end");
    assert_string_equal(played(cassette, "{\"a\":1}"), "first|end");
    assert_string_equal(played(cassette, "{\"a\":1}"), "second|end");
    close_cassette(cassette);
}

static void ends_are_played_as_they_were(void **state BL_UNUSED)
{
    struct bl_wire_failure stalled = {"stall", true, "nothing came"}, failure;
    struct bl_cassette *cassette = record(NULL, 0);
    struct cassette_play *play;
    struct bl_error error = {0};
    struct bl_text bytes;

    struct cassette_take *one =
        cassette_take_begin(cassette, "POST", "/p", BL_TEXT("no json \xff"));
    cassette_take_end(one, &stalled, false);
    one = cassette_take_begin(cassette, "POST", "/p", BL_TEXT("{}"));
    cassette_take_bytes(one, BL_TEXT("half"));
    cassette_take_end(one, NULL, true);
    cassette_take_end(NULL, NULL, false);
    close_cassette(cassette);

    cassette = load();
    assert_int_equal(
        cassette_play_find(cassette, "POST", "/p", BL_TEXT("no json \xef\xbf\xbd"), &play, &error),
        0);
    assert_int_equal(cassette_play_status(play), 0);
    assert_false(cassette_play_next(play, &bytes, &failure));
    assert_string_equal(failure.code, "stall");
    assert_string_equal(failure.message, "nothing came");
    assert_true(failure.timed_out);
    cassette_play_free(play);
    assert_int_equal(cassette_play_find(cassette, "POST", "/p", BL_TEXT("{}"), &play, &error), 0);
    assert_true(cassette_play_next(play, &bytes, &failure));
    assert_false(cassette_play_next(play, &bytes, &failure));
    assert_string_equal(failure.code, "stream_cut");
    cassette_play_free(play);
    close_cassette(cassette);
}

static void only_headers_of_the_list_are_written(void **state BL_UNUSED)
{
    struct bl_cassette *cassette = record(NULL, 0);
    struct cassette_take *one = cassette_take_begin(cassette, "POST", "/p", BL_TEXT("{}"));

    cassette_take_header(one, "Set-Cookie", BL_TEXT("crumbs"));
    cassette_take_header(one, "Retry-After-Ms", BL_TEXT("250"));
    cassette_take_end(one, NULL, false);
    close_cassette(cassette);
    struct bl_text file = suite_read_file(path);
    assert_true(bl_text_find(file, BL_TEXT("crumbs")) < 0);
    assert_true(bl_text_find(file, BL_TEXT("\"headers\":{\"retry-after-ms\":\"250\"}")) > 0);
    bl_free((void *)file.data);
}

/* ---- Matching -------------------------------------------------------------------------------- */

static void ids_and_cache_keys_may_differ(void **state BL_UNUSED)
{
    static const char recorded[] =
        "{\"prompt_cache_key\":\"k1\",\"metadata\":{\"user_id\":\"u\"},\"messages\":["
        "{\"type\":\"tool_use\",\"id\":\"toolu_1\",\"input\":{\"id\":\"5\"}},"
        "{\"type\":\"tool_use\",\"id\":\"toolu_2\",\"input\":{}},"
        "{\"tool_use_id\":\"toolu_2\"},{\"tool_use_id\":\"toolu_1\"}]}";
    static const char same[] =
        "{\"messages\":["
        "{\"type\":\"tool_use\",\"id\":\"call_x\",\"input\":{\"id\":\"5\"}},"
        "{\"type\":\"tool_use\",\"id\":\"call_y\",\"input\":{}},"
        "{\"tool_use_id\":\"call_y\"},{\"tool_use_id\":\"call_x\"}],\"user\":\"me\"}";
    static const char crossed[] =
        "{\"messages\":["
        "{\"type\":\"tool_use\",\"id\":\"call_x\",\"input\":{\"id\":\"5\"}},"
        "{\"type\":\"tool_use\",\"id\":\"call_y\",\"input\":{}},"
        "{\"tool_use_id\":\"call_x\"},{\"tool_use_id\":\"call_y\"}]}";
    static const char other_input[] =
        "{\"messages\":[{\"type\":\"tool_use\",\"id\":\"call_x\",\"input\":{\"id\":\"6\"}}]}";
    struct bl_cassette *cassette = record(NULL, 0);

    TAKE(cassette, recorded, "ok");
    close_cassette(cassette);
    cassette = load();
    assert_string_equal(played(cassette, crossed),
                        "no recorded exchange matches: the nearest (line 2) differs at "
                        "/messages/2/tool_use_id, where it has \"toolu_2\"");
    assert_string_equal(played(cassette, other_input),
                        "no recorded exchange matches: the nearest (line 2) differs at "
                        "/messages/0/input/id, where it has \"5\"");
    assert_string_equal(played(cassette, same), "ok|end");
    close_cassette(cassette);
}

static void no_match_names_the_first_difference_of_the_nearest(void **state BL_UNUSED)
{
    struct bl_cassette *cassette = record(NULL, 0);
    struct cassette_play *play;
    struct bl_error error = {0};

    TAKE(cassette, "{\"a\":1,\"b\":[1,2],\"c\":\"x\"}", "near");
    TAKE(cassette, "{\"a\":2}", "far");
    close_cassette(cassette);
    cassette = load();
    assert_string_equal(
        played(cassette, "{\"a\":1,\"b\":[1,2],\"c\":\"y\"}"),
        "no recorded exchange matches: the nearest (line 2) differs at /c, where it "
        "has \"x\"");
    assert_string_equal(played(cassette, "{\"a\":1,\"b\":[1,2,3],\"c\":\"x\"}"),
                        "no recorded exchange matches: the nearest (line 2) differs at /b/2, where "
                        "it has nothing");
    assert_string_equal(played(cassette, "{\"a\":1,\"b\":[1],\"c\":\"x\"}"),
                        "no recorded exchange matches: the nearest (line 2) differs at /b/1, where "
                        "it has 2");
    assert_string_equal(
        played(cassette, "{\"a\":2,\"~/\":0}"),
        "no recorded exchange matches: the nearest (line 3) differs at /~0~1, where "
        "it has nothing");
    assert_int_equal(cassette_play_find(cassette, "GET", "/v1/models", BL_TEXT(""), &play, &error),
                     BL_ENOENT);
    assert_string_equal(error.message, "no recorded exchange is for GET /v1/models");
    close_cassette(cassette);
}

/* ---- Secrets --------------------------------------------------------------------------------- */

#define KEY "sk-test/\"Zb9\\q+4%x\xc3\xa9"

/* Notations of a key in received bytes. */
static const char *const disguises[] = {
    KEY,
    "sk-test/\\\"Zb9\\\\q+4%x\xc3\xa9",
    "sk-test\\/\\\"Zb9\\\\q+4%x\\u00e9",
    "sk-test/\\\\\\\"Zb9\\\\\\\\q+4%x\\\\u00E9",
    "\\u0073k-test/\\u0022Zb9\\u005cq+4%x\xc3\xa9",
    "sk-test%2F%22Zb9%5Cq%2B4%25x%C3%A9",
    "sk%2dtest%2f%22Zb9%5cq%2b4%25x%c3%a9",
    "c2stdGVzdC8iWmI5XHErNCV4w6k=",
    "dTpzay10ZXN0LyJaYjlccSs0JXjDqQ==",   /* u:KEY */
    "dXM6c2stdGVzdC8iWmI5XHErNCV4w6kh",   /* us:KEY! */
    "dXNlOnNrLXRlc3QvIlpiOVxxKzQleMOpIQ", /* use:KEY! */
};

/* Parts of the key in any notation. */
static const char *const traces[] = {"Zb9", "st/\\\"Z", "GVzdC8iWmI5XHErN", "ay10ZXN0LyJaYjlccSs0",
                                     "LXRlc3QvIlpiOVxxKzQl"};

static void check_clean(const char *what)
{
    struct bl_text file = suite_read_file(path);

    for (size_t i = 0; i < BL_COUNT(traces); i++) {
        suite_fail_if(bl_text_find(file, bl_text_from(traces[i])) >= 0,
                      "%s leaves %s in " BL_TEXT_FORMAT, what, traces[i], BL_TEXT_ARG(file));
    }
    suite_fail_if(bl_text_find(file, BL_TEXT("[removed]")) < 0,
                  "%s is not marked in " BL_TEXT_FORMAT, what, BL_TEXT_ARG(file));
    bl_free((void *)file.data);
    unlink(path);
}

static void a_secret_is_found_in_any_notation(void **state BL_UNUSED)
{
    struct bl_text secret = BL_TEXT(KEY);

    for (size_t i = 0; i < BL_COUNT(disguises); i++) {
        struct bl_cassette *cassette = record(&secret, 1);
        TAKE(cassette, "{}", "before ", disguises[i], " after");
        close_cassette(cassette);
        check_clean(disguises[i]);

        cassette = record(&secret, 1);
        struct cassette_take *one =
            cassette_take_begin(cassette, "POST", disguises[i], bl_text_from(disguises[i]));
        cassette_take_header(one, "request-id", bl_text_from(disguises[i]));
        struct bl_wire_failure failure = {.code = "connect"};
        bl_text_into(failure.message, sizeof failure.message, disguises[i]);
        cassette_take_end(one, &failure, false);
        close_cassette(cassette);
        check_clean(disguises[i]);
    }
}

/* At any cuts of the bytes. */
static void a_secret_is_found_across_pieces(void **state BL_UNUSED)
{
    struct bl_text secret = BL_TEXT(KEY);

    for (size_t i = 0; i < BL_COUNT(disguises); i++) {
        struct bl_text whole = bl_text_from(disguises[i]);
        for (size_t cut = 1; cut < whole.size; cut += i == 0 ? 1 : 3) {
            struct bl_cassette *cassette = record(&secret, 1);
            struct cassette_take *one = cassette_take_begin(cassette, "POST", "/", BL_TEXT("{}"));
            cassette_take_bytes(one, (struct bl_text){whole.data, cut});
            cassette_take_bytes(one, (struct bl_text){whole.data + cut, whole.size - cut});
            cassette_take_end(one, NULL, false);
            close_cassette(cassette);
            check_clean(whole.data);
        }
    }
}

/* A model writes it in parts. */
static void a_secret_is_found_across_events(void **state BL_UNUSED)
{
    struct bl_text secret = BL_TEXT("sk-secret-0123456789");
    struct bl_cassette *cassette = record(&secret, 1);

    TAKE(cassette, "{}", "data: {\"delta\":{\"text\":\"it is sk-sec\"}}\n\n",
         "data: {\"delta\":{\"text\":\"ret-0123\"}}\n\ndata: {\"delta\":{\"te",
         "xt\": \"456789, so\"}}\n\n");
    close_cassette(cassette);
    cassette = load();
    assert_string_equal(played(cassette, "{}"),
                        "data: {\"delta\":{\"text\":\"it is [removed]\"}}\n\n|data: "
                        "{\"delta\":{\"text\":\"\"}}\n\ndata: {\"delta\":{\"te|xt\": \", "
                        "so\"}}\n\n|end");
    close_cassette(cassette);
}

/* The remaining body is valid JSON, and numbers and keys do not contain it. */
static void a_redacted_body_is_json(void **state BL_UNUSED)
{
    struct bl_text secrets[] = {BL_TEXT("nABCDEFG"), BL_TEXT("12345678"),
                                BL_TEXT("Bearer tok-en-1"), BL_TEXT("a")};
    struct bl_cassette *cassette = record(secrets, BL_COUNT(secrets));

    TAKE(cassette,
         "{\"x\":\"\\nABCDEFG\",\"y\":\"nABCDEFG!\",\"n\":12345678,\"k-nABCDEFG\":[true,null,"
         "1.5,{\"a\":\"tok-en-1\"}]}",
         "{\"t\":\"a\\nABCDEFG\"}");
    TAKE(cassette, "{}", "{\"u\":\"\\\\u006eABCDEFG\"}");
    close_cassette(cassette);
    struct bl_text file = suite_read_file(path);
    assert_true(bl_text_find(file, BL_TEXT("\"body\":{\"x\":\"\\nABCDEFG\",\"y\":\"[removed]!\","
                                           "\"n\":\"[removed]\",\"k-[removed]\":[true,null,1.5,"
                                           "{\"a\":\"[removed]\"}]}")) > 0);
    assert_true(bl_text_find(file, BL_TEXT("\"text\":\"{\\\"t\\\":\\\"a[removed]\\\"}\"")) > 0);
    assert_true(bl_text_find(file, BL_TEXT("\"text\":\"{\\\"u\\\":\\\"[removed]\\\"}\"")) > 0);
    bl_free((void *)file.data);
}

/* The replayed request has the secret, or another one; the record has neither. */
static void redacted_text_matches_anything(void **state BL_UNUSED)
{
    struct bl_text secret = BL_TEXT("sk-secret-0123456789");
    struct bl_cassette *cassette = record(&secret, 1);

    TAKE(cassette, "{\"p\":\"use sk-secret-0123456789 or sk-secret-0123456789 now\"}", "one");
    TAKE(cassette, "{\"p\":\"only sk-secret-0123456789\"}", "two");
    close_cassette(cassette);
    cassette = load();
    assert_string_equal(
        played(cassette, "{\"p\":\"use k or k later\"}"),
        "no recorded exchange matches: the nearest (line 2) differs at /p, where it "
        "has \"use [removed] or [removed] now\"");
    assert_string_equal(played(cassette, "{\"p\":\"use sk-secret-0123456789 or another now\"}"),
                        "one|end");
    assert_string_equal(played(cassette, "{\"p\":\"only that\"}"), "two|end");
    close_cassette(cassette);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void refuse(const char *text, const char *message)
{
    struct bl_cassette *cassette;
    struct bl_error error = {0};
    char place[600];

    write_file(text);
    int result = bl_cassette_load(path, &cassette, &error);
    if (result != BL_EPARSE)
        fail_msg("%d: %s", result, text);
    snprintf(place, sizeof place, "%s:%s", path, message);
    assert_string_equal(error.message, place);
    assert_string_equal(error.target, path);
    assert_true(error.hint[0] != '\0');
    assert_int_equal(bl_cassette_load(path, &cassette, NULL), BL_EPARSE);
}

#define FIRST "{\"belay_cassette\":1}\n"
#define GOOD                                                                                       \
    "{\"method\":\"POST\",\"path\":\"/v1/messages\",\"body\":{},\"status\":200,\"headers\":{},"    \
    "\"pieces\":[{\"ms\":1,\"text\":\"a\"},{\"ms\":2,\"base64\":\"/w==\"}],\"end\":\"end\"}\n"

static void an_invalid_cassette_is_refused_with_its_line(void **state BL_UNUSED)
{
    refuse("", "1: the file is empty");
    refuse("{}\n", "1: this is not a cassette: its first line is not {\"belay_cassette\":1,…}");
    refuse("{\"belay_cassette\":2}\n", "1: unsupported cassette version 2 (expected 1)");
    refuse("[]\n", "1: expected an object, found an empty array");
    refuse("{\"belay_cassette\":\"1\"}\n",
           "1: this is not a cassette: its first line is not {\"belay_cassette\":1,…}");
    refuse("{\"belay_cassette\":1,\"created\":1}\n",
           "1: created: expected a time such as 2026-11-15T18:50:07.123Z, found 1");
    refuse(FIRST GOOD "[]\n", "3: expected an object, found an empty array");
    refuse(FIRST "{\"method\":\"POST\"\n" GOOD,
           "2: not JSON: offset 16 (line 1, column 17): expected ',' or '}', found the "
           "end near `{\"method\":\"POST\"`");
    refuse(FIRST "{\"method\":1}\n", "2: method: expected a string, found 1");
    refuse(FIRST "\n{\"method\":\"GET\"}\n", "3: path: missing; expected a string");
    refuse(FIRST "{\"method\":\"\",\"path\":\"\",\"status\":1000,\"headers\":{},\"pieces\":[],"
                 "\"end\":\"\"}\n",
           "2: status: expected a whole number from 0 to 999, found 1000");
    refuse(FIRST "{\"method\":\"\",\"path\":\"\",\"status\":1,\"headers\":{},\"pieces\":[{"
                 "\"base64\":\"/w=\"}],\"end\":\"\"}\n",
           "2: pieces[0].base64: expected base64, found \"/w=\"");
    refuse(FIRST "{\"method\":\"\",\"path\":\"\",\"status\":1,\"headers\":{},\"pieces\":[{"
                 "\"ms\":1}],\"end\":\"\"}\n",
           "2: pieces[0]: expected either \"text\" or \"base64\", found neither");
    refuse(FIRST "{\"method\":\"\",\"path\":\"\",\"status\":1,\"headers\":{\"request-id\":7},"
                 "\"pieces\":[],\"end\":\"\"}\n",
           "2: headers.request-id: expected a string, found 7");
    refuse(FIRST "{\"method\":\"\",\"path\":\"\",\"status\":1,\"headers\":{},\"pieces\":[],"
                 "\"end\":\"\"}\n",
           "2: expected either \"body\" or \"body_text\", found neither");
}

/* The recorder was killed: complete exchanges are played, and a missing one is reported. */
static void a_torn_last_line_is_reported_when_it_is_needed(void **state BL_UNUSED)
{
    write_file(FIRST GOOD "{\"method\":\"POST\",\"pa");
    struct bl_cassette *cassette = load();
    assert_string_equal(played(cassette, "{}"), "a|\xff|end");
    assert_string_equal(played(cassette, "{}"),
                        "all 1 recorded exchanges are used; the last line of the cassette is "
                        "torn, and its exchange is lost");
    close_cassette(cassette);
    /* A file without the last newline is complete. */
    char text[600];
    snprintf(text, sizeof text, "%s%.*s", FIRST, (int)strlen(GOOD) - 1, GOOD);
    write_file(text);
    cassette = load();
    assert_string_equal(played(cassette, "{}"), "a|\xff|end");
    close_cassette(cassette);
}

static void unusable_files_are_refused(void **state BL_UNUSED)
{
    struct bl_cassette *cassette;
    struct bl_error error = {0};

    assert_int_equal(bl_cassette_load(path, &cassette, &error), BL_ENOENT);
    assert_int_equal(error.kind, BL_KIND_FILESYSTEM);
    error = (struct bl_error){0};
    assert_int_equal(bl_cassette_load(folder, &cassette, &error), BL_EINVAL);
    write_file("mine");
    error = (struct bl_error){0};
    assert_int_equal(bl_cassette_record(path, NULL, 0, &cassette, &error), BL_EEXIST);
    assert_string_equal(error.hint, "name a file that does not exist yet");
    assert_int_equal(bl_cassette_close(NULL, NULL), 0);
}

/* A full disk: complete exchanges stay intact, and closing reports the error. */
static void a_full_disk_is_reported_by_closing(void **state BL_UNUSED)
{
    struct bl_cassette *cassette = record(NULL, 0);
    struct bl_error error = {0};
    struct rlimit before, small;
    char *large = bl_zalloc(200001);

    memset(large, 'x', 200000);
    TAKE(cassette, "{}", "small");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    sigaction(SIGXFSZ, &ignore, &old);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    TAKE(cassette, "{}", large);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    sigaction(SIGXFSZ, &old, NULL);
    bl_free(large);
    TAKE(cassette, "{}", "never written");
    assert_true(bl_cassette_close(cassette, &error) < 0);
    assert_int_equal(error.kind, BL_KIND_FILESYSTEM);
    assert_non_null(strstr(error.message, "the recording is incomplete"));
    cassette = load();
    assert_false(cassette->torn);
    assert_int_equal(cassette->exchange_count, 1);
    assert_string_equal(played(cassette, "{}"), "small|end");
    close_cassette(cassette);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

SUITE(cassette, TEST(a_recording_is_played_in_the_same_pieces),
      TEST(equal_requests_are_answered_in_order), TEST(ends_are_played_as_they_were),
      TEST(only_headers_of_the_list_are_written), TEST(ids_and_cache_keys_may_differ),
      TEST(no_match_names_the_first_difference_of_the_nearest),
      TEST(a_secret_is_found_in_any_notation), TEST(a_secret_is_found_across_pieces),
      TEST(a_secret_is_found_across_events), TEST(a_redacted_body_is_json),
      TEST(redacted_text_matches_anything), TEST(an_invalid_cassette_is_refused_with_its_line),
      TEST(a_torn_last_line_is_reported_when_it_is_needed), TEST(unusable_files_are_refused),
      TEST(a_full_disk_is_reported_by_closing));
