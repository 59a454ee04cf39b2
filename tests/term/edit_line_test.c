#include "suite.h"
#include "term/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Keys of a common terminal. */
#define LEFT       "\x1B[D"
#define RIGHT      "\x1B[C"
#define UP         "\x1B[A"
#define DOWN       "\x1B[B"
#define WORD_LEFT  "\x1B[1;5D"
#define WORD_RIGHT "\x1B[1;5C"
#define HOME       "\x01"
#define END        "\x05"
#define DELETE     "\x1B[3~"
#define ESCAPE     "\x1B"

/* Types on a keyboard. Returns whether the last key was an editing key. */
static bool type_bytes(struct edit_line *line, struct bl_text bytes)
{
    struct keys keys;
    struct key key;
    bool edits = false;

    keys_init(&keys);
    keys_add(&keys, bytes);
    while (keys_next(&keys, true, &key) || keys_next(&keys, false, &key)) {
        edits = edit_line_key(line, &key);
        /* Invariant: the text is UTF-8, and the cursor is between clusters. */
        struct bl_text text = edit_line_text(line), rest = text;
        struct text_cluster cluster;
        size_t at = 0;
        while (at < line->cursor && text_cluster_next(&rest, &cluster))
            at += cluster.bytes.size;
        assert_int_equal(at, line->cursor);
        assert_true(bl_utf8_valid(text));
    }
    keys_done(&keys);
    return edits;
}

static bool type(struct edit_line *line, const char *bytes)
{
    return type_bytes(line, bl_text_from(bytes));
}

/* Compares the text, with a bar at the cursor. */
static void check_line(const struct edit_line *line, const char *expected)
{
    struct bl_text text = edit_line_text(line);
    char *shown = bl_alloc(text.size + 2);

    if (line->cursor > 0)
        memcpy(shown, text.data, line->cursor);
    shown[line->cursor] = '|';
    if (text.size > line->cursor)
        memcpy(shown + line->cursor + 1, text.data + line->cursor, text.size - line->cursor);
    shown[text.size + 1] = '\0';
    bool same = strcmp(shown, expected) == 0;
    if (!same)
        print_error("\"%s\", expected \"%s\"\n", shown, expected);
    bl_free(shown);
    assert_true(same);
}

static void check_typed(const char *bytes, const char *expected)
{
    struct edit_line line;

    edit_line_init(&line, NULL);
    type(&line, bytes);
    check_line(&line, expected);
    edit_line_done(&line);
}

static void text_is_inserted_at_the_cursor(void **state)
{
    (void)state;
    check_typed("", "|");
    check_typed("ab" LEFT "X", "aX|b");
    check_typed("ab" LEFT LEFT LEFT "X" RIGHT RIGHT RIGHT, "Xab|");
    check_typed("ab" HOME "X" END "Y", "XabY|");
    check_typed("ab\x1B[200~one\rtwo\x1B[201~", "abone\ntwo|");
}

static void cluster_is_moved_over_and_deleted_as_one(void **state)
{
    (void)state;
    check_typed("ae\u0301" LEFT, "a|e\u0301");
    check_typed("ae\u0301\x7F", "a|");
    check_typed("a\u6F22" LEFT DELETE, "a|");
    check_typed("\U0001F469\u200D\U0001F680x" HOME RIGHT, "\U0001F469\u200D\U0001F680|x");
    check_typed("\U0001F469\u200D\U0001F680\x7F", "|");
    check_typed("\U0001F1E9\U0001F1EA\U0001F1EB\U0001F1F7\x7F", "\U0001F1E9\U0001F1EA|");
    /* A mark that gets a letter before it. */
    check_typed("ax\u0301" LEFT "\x7F", "|x\u0301");
    check_typed("a\n\u0301" HOME "\x7F", "a\u0301|");
}

static void words_are_moved_over(void **state)
{
    (void)state;
    check_typed("one two/three" WORD_LEFT, "one two/|three");
    check_typed("one two/three" WORD_LEFT WORD_LEFT, "one |two/three");
    check_typed("one two/three" WORD_LEFT WORD_LEFT WORD_LEFT WORD_LEFT, "|one two/three");
    check_typed("one  two" HOME WORD_RIGHT, "one|  two");
    check_typed("one  two" HOME WORD_RIGHT WORD_RIGHT, "one  two|");
    check_typed("\u00E4\u6F22 b" HOME WORD_RIGHT, "\u00E4\u6F22| b");
}

static void killed_text_can_be_yanked(void **state)
{
    (void)state;
    check_typed("one two\x17", "one |");
    check_typed("one two\x17\x19\x19", "one twotwo|");
    check_typed("one two three\x17\x17\x19", "one two three|");
    check_typed("one two three\x17" LEFT RIGHT "\x17\x19\x19", "one two two |");
    check_typed("one two" WORD_LEFT "\x0B" HOME "\x19", "two|one ");
    check_typed("one two" WORD_LEFT "\x15" END "\x19", "twoone |");
    check_typed("one two" HOME "\x1B"
                "d" END "\x19",
                " twoone|");
    check_typed("a\nb" HOME "\x15", "a|b");
    check_typed("a\nb" UP END "\x0B", "a|b");
    check_typed("abc\x14", "acb|");
    check_typed("abc" LEFT LEFT "\x14", "ba|c");
    check_typed("a\x14", "a|");
    check_typed("ae\u0301\x14", "e\u0301a|");
    check_typed("\x14\x17\x15\x0B\x19\x7F" DELETE, "|");
}

static void cursor_moves_between_lines(void **state)
{
    (void)state;
    check_typed("one\ntwo", "one\ntwo|");
    check_typed("one\ntwo" UP, "one|\ntwo");
    check_typed("long line\nx\nanother line" UP, "long line\nx|\nanother line");
    /* The original column is restored. */
    check_typed("long line\nx\nanother line" HOME RIGHT RIGHT RIGHT UP UP,
                "lon|g line\nx\nanother line");
    check_typed("\u6F22\u5B57\nabcd" LEFT UP, "\u6F22|\u5B57\nabcd");
    check_typed("one\ntwo" UP DOWN, "one\ntwo|");
    check_typed("one\ntwo" HOME, "one\n|two");
    check_typed("one\ntwo" UP HOME END, "one|\ntwo");
    check_typed("one\x1B\rtwo", "one\ntwo|");
}

static void keys_that_do_not_edit_are_left_to_the_caller(void **state)
{
    static const char *const others[] = {"\r",   "\t",   "\x03",   ESCAPE,
                                         "\x0C", "\x1A", "\x1B[Z", "\x1B[15~"};
    struct edit_line line;

    (void)state;
    edit_line_init(&line, NULL);
    for (size_t i = 0; i < BL_COUNT(others); i++)
        assert_false(type(&line, others[i]));
    assert_false(type(&line, "\x04"));
    check_line(&line, "|");
    assert_true(type(&line, "ab" HOME "\x04"));
    check_line(&line, "|b");
    for (size_t i = 0; i < BL_COUNT(others); i++)
        assert_false(type(&line, others[i]));
    check_line(&line, "|b");
    edit_line_done(&line);
}

static struct history *three_entries(void)
{
    struct history *history = history_new();

    history_add(history, BL_TEXT("make test"));
    history_add(history, BL_TEXT("git status"));
    history_add(history, BL_TEXT("make\nclean"));
    return history;
}

static void up_and_down_go_through_the_history_and_back_to_the_draft(void **state)
{
    struct history *history = three_entries();
    struct edit_line line;

    (void)state;
    edit_line_init(&line, history);
    type(&line, "draft" UP);
    check_line(&line, "make\nclean|");
    type(&line, UP);
    check_line(&line, "make|\nclean");
    type(&line, UP);
    check_line(&line, "git status|");
    type(&line, UP UP UP);
    check_line(&line, "make test|");
    type(&line, DOWN DOWN);
    check_line(&line, "make\nclean|");
    type(&line, DOWN);
    check_line(&line, "draft|");
    type(&line, DOWN);
    check_line(&line, "draft|");
    type(&line, "\x1B[5~\x1B[5~");
    check_line(&line, "git status|");
    type(&line, "\x1B[6~\x1B[6~");
    check_line(&line, "draft|");
    /* A submitted text becomes the newest entry, whichever comes first. */
    history_add(history, edit_line_text(&line));
    edit_line_set(&line, BL_TEXT(""));
    history_add(history, BL_TEXT("from elsewhere"));
    type(&line, UP UP);
    check_line(&line, "draft|");
    edit_line_done(&line);
    history_free(history);
}

static void ctrl_r_searches_back(void **state)
{
    struct history *history = three_entries();
    struct edit_line line;

    (void)state;
    edit_line_init(&line, history);
    type(&line, "draft\x12");
    assert_true(line.searching);
    check_line(&line, "draft|");
    type(&line, "ma");
    check_line(&line, "|make\nclean");
    assert_true(type(&line, "\x12"));
    check_line(&line, "|make test");
    type(&line, "\x12");
    assert_int_equal(line.found, SIZE_MAX);
    check_line(&line, "|make test");
    /* Cancelled: the previous text is restored. */
    assert_true(type(&line, ESCAPE));
    assert_false(line.searching);
    check_line(&line, "draft|");
    type(&line, "\x12stat");
    check_line(&line, "git |status");
    type(&line, "zz");
    assert_int_equal(line.found, SIZE_MAX);
    type(&line, "\x7F\x7F");
    check_line(&line, "git |status");
    /* Accepted: Enter does not submit it yet. */
    assert_true(type(&line, "\r"));
    check_line(&line, "git |status");
    assert_false(type(&line, "\r"));
    type(&line, DOWN DOWN);
    check_line(&line, "draft|");
    type(&line, "\x12test" LEFT);
    check_line(&line, "make| test");
    type(&line, "\x12"
                "git\x03");
    check_line(&line, "make test|");
    edit_line_done(&line);
    history_free(history);
}

static void random_keys_never_break_the_text(void **state)
{
    static const char *const pieces[] = {
        LEFT,   RIGHT,  UP,     DOWN,   WORD_LEFT,   WORD_RIGHT, HOME,         END,
        DELETE, "\x7F", "\x17", "\x0B", "\x15",      "\x19",     "\x14",       "\x12",
        "\r",   ESCAPE, "a",    " ",    "\u0301",    "\u6F22",   "\U0001F469", "\u200D",
        "\n",   "\xFF", "\x04", "make", "\U0001F1E9"};
    struct bl_random random;

    (void)state;
    bl_random_seed(&random, 8);
    for (unsigned long round = suite_rounds(150, 20000); round > 0; round--) {
        struct history *history = three_entries();
        struct edit_line line;
        edit_line_init(&line, history);
        for (int i = 0; i < 40; i++)
            type(&line, pieces[bl_random_below(&random, BL_COUNT(pieces))]);
        edit_line_done(&line);
        history_free(history);
    }
}

static void a_text_above_the_maximum_is_cut(void **state)
{
    struct edit_line line;
    char *block = bl_alloc(KEYS_PASTE_MAX);

    (void)state;
    memset(block, 'x', KEYS_PASTE_MAX);
    edit_line_init(&line, NULL);
    for (int i = 0; i < 3; i++)
        edit_line_insert(&line, (struct bl_text){block, KEYS_PASTE_MAX});
    assert_int_equal(edit_line_text(&line).size, EDIT_TEXT_MAX);
    edit_line_insert(&line, BL_TEXT("\u00E9"));
    assert_int_equal(edit_line_text(&line).size, EDIT_TEXT_MAX);
    edit_line_done(&line);
    bl_free(block);
}

/* ---- Completion ------------------------------------------------------------------------------ */

struct completion {
    struct bl_arena arena;
    struct edit_line line;
    struct bl_list candidates;
    char folder[64];
};

static void make_file(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void completion_begin(struct completion *completion)
{
    const char *temporary = getenv("TMPDIR");
    char path[256];

    bl_arena_init(&completion->arena);
    edit_line_init(&completion->line, NULL);
    snprintf(completion->folder, sizeof completion->folder, "%s/belay-edit-XXXXXX",
             temporary != NULL && strlen(temporary) < 32 ? temporary : "/tmp");
    assert_non_null(mkdtemp(completion->folder));
    snprintf(path, sizeof path, "%s/source", completion->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    make_file(completion->folder, "source/main.c");
    make_file(completion->folder, "sonnet.txt");
    make_file(completion->folder, ".hidden");
    make_file(completion->folder, "na\nme");
    make_file(completion->folder, "\u00E4pfel");
    make_file(completion->folder, "\u00E5ngstrom");
    snprintf(path, sizeof path, "%s/link", completion->folder);
    assert_int_equal(symlink("source", path), 0);
}

static void completion_end(struct completion *completion)
{
    static const char *const names[] = {"source/main.c", "source",     "sonnet.txt",    ".hidden",
                                        "na\nme",        "\u00E4pfel", "\u00E5ngstrom", "link"};
    char path[256];

    for (size_t i = 0; i < BL_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", completion->folder, names[i]);
        remove(path);
    }
    assert_int_equal(rmdir(completion->folder), 0);
    edit_line_done(&completion->line);
    bl_arena_done(&completion->arena);
}

static const struct edit_command commands[] = {
    {"/compact", "Make the conversation shorter"},
    {"/cost", "Show the cost"},
    {"/clear", "Start again"},
    {"/quit", "Leave"},
    {0},
};

/* Candidates with a bar between them. */
static void check_candidates(struct completion *completion, const char *text, const char *expected)
{
    struct bl_buffer out;

    edit_line_set(&completion->line, bl_text_from(text));
    edit_complete(&completion->arena, &completion->line, commands, completion->folder,
                  &completion->candidates);
    bl_buffer_init(&out, SIZE_MAX / 2);
    BL_LIST_EACH (link, &completion->candidates) {
        if (out.size > 0)
            bl_buffer_append_byte(&out, '|');
        bl_buffer_append(&out, BL_CONTAINER(link, struct edit_candidate, link)->text);
    }
    bl_buffer_append_byte(&out, '\0');
    assert_string_equal(out.data, expected);
    bl_buffer_done(&out);
}

static void check_completed(struct completion *completion, const char *text, bool changed,
                            const char *expected)
{
    edit_line_set(&completion->line, bl_text_from(text));
    edit_complete(&completion->arena, &completion->line, commands, completion->folder,
                  &completion->candidates);
    assert_int_equal(edit_line_complete(&completion->line, &completion->candidates), changed);
    check_line(&completion->line, expected);
}

static void commands_are_completed_at_the_start(void **state)
{
    struct completion completion;

    (void)state;
    completion_begin(&completion);
    check_candidates(&completion, "/co", "/compact|/cost");
    const struct bl_list *first = completion.candidates.next;
    assert_true(BL_CONTAINER(first, struct edit_candidate, link)->note.size > 0);
    check_completed(&completion, "/co", false, "/co|");
    check_completed(&completion, "/com", true, "/compact |");
    check_completed(&completion, "/c", false, "/c|");
    check_completed(&completion, "/q", true, "/quit |");
    check_candidates(&completion, "say /q", "");
    check_candidates(&completion, "/help/", "");
    completion_end(&completion);
}

static void paths_are_completed_everywhere_else(void **state)
{
    struct completion completion;
    char path[128], expected[160];

    (void)state;
    completion_begin(&completion);
    check_candidates(&completion, "look at so", "sonnet.txt|source/");
    check_completed(&completion, "look at so", false, "look at so|");
    check_completed(&completion, "look at sou", true, "look at source/|");
    check_completed(&completion, "source/m", true, "source/main.c |");
    check_completed(&completion, "s", true, "so|");
    check_candidates(&completion, "link/", "link/main.c");
    check_candidates(&completion, "l", "link/");
    check_candidates(&completion, "nothing", "");
    check_candidates(&completion, "no/such/folder/", "");
    check_completed(&completion, "nothing", false, "nothing|");
    /* A character is never split. */
    check_completed(&completion, "\u00E4", true, "\u00E4pfel |");
    /* Absolute paths, also at the start. */
    snprintf(path, sizeof path, "%s/sou", completion.folder);
    snprintf(expected, sizeof expected, "%s/source/|", completion.folder);
    check_completed(&completion, path, true, expected);
    /* An existing blank is not doubled. */
    edit_line_set(&completion.line, BL_TEXT("son now"));
    type(&completion.line, WORD_LEFT LEFT);
    edit_complete(&completion.arena, &completion.line, commands, completion.folder,
                  &completion.candidates);
    assert_true(edit_line_complete(&completion.line, &completion.candidates));
    check_line(&completion.line, "sonnet.txt |now");
    completion_end(&completion);
}

static void hidden_files_are_offered_only_when_asked_for(void **state)
{
    struct completion completion;

    (void)state;
    completion_begin(&completion);
    /* Names that cannot be shown are not offered, either. */
    check_candidates(&completion, "see ", "link/|sonnet.txt|source/|\u00E4pfel|\u00E5ngstrom");
    check_candidates(&completion, "see .", ".hidden");
    check_candidates(&completion, "see ..", "../");
    check_candidates(&completion, "na", "");
    completion_end(&completion);
}

SUITE(edit_line, cmocka_unit_test(text_is_inserted_at_the_cursor),
      cmocka_unit_test(cluster_is_moved_over_and_deleted_as_one),
      cmocka_unit_test(words_are_moved_over), cmocka_unit_test(killed_text_can_be_yanked),
      cmocka_unit_test(cursor_moves_between_lines),
      cmocka_unit_test(keys_that_do_not_edit_are_left_to_the_caller),
      cmocka_unit_test(up_and_down_go_through_the_history_and_back_to_the_draft),
      cmocka_unit_test(ctrl_r_searches_back), cmocka_unit_test(random_keys_never_break_the_text),
      cmocka_unit_test(a_text_above_the_maximum_is_cut),
      cmocka_unit_test(commands_are_completed_at_the_start),
      cmocka_unit_test(paths_are_completed_everywhere_else),
      cmocka_unit_test(hidden_files_are_offered_only_when_asked_for));
