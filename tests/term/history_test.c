#include "suite.h"
#include "term/term.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];
static char path[96];

static int begin(void **state)
{
    (void)state;
    const char *temporary = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/belay-history-XXXXXX",
             temporary != NULL && strlen(temporary) < 32 ? temporary : "/tmp");
    if (mkdtemp(folder) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/data/belay/history", folder);
    return 0;
}

static int end(void **state)
{
    static const char *const names[] = {"data/belay/history", "data/belay", "data"};
    char name[128];

    (void)state;
    for (size_t i = 0; i < BL_COUNT(names); i++) {
        snprintf(name, sizeof name, "%s/%s", folder, names[i]);
        remove(name);
    }
    return rmdir(folder);
}

static struct history *load(void)
{
    struct history *history = history_new();
    assert_int_equal(history_load(history, path, NULL), 0);
    return history;
}

static void check_entry(const struct history *history, size_t index, const char *expected)
{
    assert_true(index < history_count(history));
    assert_true(bl_text_equal(history_get(history, index), bl_text_from(expected)));
}

static void write_file(const char *content)
{
    char name[128];
    snprintf(name, sizeof name, "%s/data", folder);
    mkdir(name, 0700);
    snprintf(name, sizeof name, "%s/data/belay", folder);
    mkdir(name, 0700);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void entries_are_there_in_the_next_session(void **state)
{
    struct stat status;

    (void)state;
    struct history *history = load();
    assert_int_equal(history_count(history), 0);
    history_add(history, BL_TEXT("one"));
    history_add(history, BL_TEXT("two\nlines \"and\" \u6F22\x1B"));
    history_add(history, BL_TEXT("two\nlines \"and\" \u6F22\x1B"));
    history_add(history, BL_TEXT(""));
    assert_int_equal(history_count(history), 2);
    history_free(history);
    history = load();
    assert_int_equal(history_count(history), 2);
    check_entry(history, 0, "one");
    check_entry(history, 1, "two\nlines \"and\" \u6F22\x1B");
    history_free(history);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void invalid_lines_are_skipped(void **state)
{
    (void)state;
    write_file("\"a\"\nnot json\n{\"b\":1}\n\n\"\\ud800\"\n\"c\"\n17\n\"half of a li");
    struct history *history = load();
    assert_int_equal(history_count(history), 2);
    check_entry(history, 0, "a");
    check_entry(history, 1, "c");
    /* The incomplete line does not corrupt the next entry. */
    history_add(history, BL_TEXT("d"));
    history_free(history);
    history = load();
    assert_int_equal(history_count(history), 3);
    check_entry(history, 2, "d");
    history_free(history);
}

static void search_finds_the_newest_entry_first(void **state)
{
    struct history *history = history_new();

    (void)state;
    history_add(history, BL_TEXT("make test"));
    history_add(history, BL_TEXT("git status"));
    history_add(history, BL_TEXT("make"));
    assert_int_equal(history_search(history, BL_TEXT("make"), SIZE_MAX), 2);
    assert_int_equal(history_search(history, BL_TEXT("make"), 2), 0);
    assert_int_equal(history_search(history, BL_TEXT("make"), 0), SIZE_MAX);
    assert_int_equal(history_search(history, BL_TEXT("nothing"), 3), SIZE_MAX);
    history_free(history);
    history_free(NULL);
}

static void at_most_ten_thousand_entries_are_kept(void **state)
{
    struct bl_buffer content;
    struct history *history;

    (void)state;
    bl_buffer_init(&content, SIZE_MAX / 2);
    for (int i = 0; i < 11500; i++)
        bl_buffer_printf(&content, "\"entry %d\"\n", i);
    bl_buffer_append_byte(&content, '\0');
    write_file(content.data);
    bl_buffer_done(&content);
    history = load();
    assert_int_equal(history_count(history), 10000);
    check_entry(history, 0, "entry 1500");
    history_add(history, BL_TEXT("newest"));
    assert_int_equal(history_count(history), 10000);
    check_entry(history, 0, "entry 1501");
    history_free(history);
    /* The file was shortened, too, and no other file is left in the folder. */
    struct bl_text text = suite_read_file(path);
    size_t lines = 0;
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    bl_free((void *)(uintptr_t)text.data);
    assert_int_equal(lines, 10001);
}

static void a_large_text_is_kept_for_the_session_only(void **state)
{
    size_t size = (size_t)1024 * 1024;
    char *large = bl_alloc(size);

    (void)state;
    memset(large, 'x', size);
    struct history *history = load();
    history_add(history, (struct bl_text){large, size});
    history_add(history, BL_TEXT("small"));
    assert_int_equal(history_count(history), 2);
    history_free(history);
    history = load();
    assert_int_equal(history_count(history), 1);
    check_entry(history, 0, "small");
    history_free(history);
    bl_free(large);
}

static void unreadable_file_is_an_error_but_not_fatal(void **state)
{
    struct history *history = history_new();
    struct bl_error error = {0};

    (void)state;
    assert_true(history_load(history, folder, &error) < 0);
    assert_true(error.message[0] != '\0' && error.hint[0] != '\0');
    history_add(history, BL_TEXT("still works"));
    assert_int_equal(history_count(history), 1);
    history_free(history);
    /* An unwritable file is not an error, either. */
    history = history_new();
    assert_int_equal(history_load(history, "/proc/no/such/place", NULL), 0);
    history_add(history, BL_TEXT("a"));
    assert_int_equal(history_count(history), 1);
    history_free(history);
}

/* Each process adds its own entries. */
static void writer_main(int number, int count)
{
    for (int i = 0; i < count; i++) {
        char text[64];
        struct history *history = history_new();
        history_load(history, path, NULL);
        snprintf(text, sizeof text, "writer %d says %d", number, i);
        history_add(history, bl_text_from(text));
        history_free(history);
    }
}

static void several_programs_append_at_once(void **state)
{
    enum {
        WRITERS = 4
    };
    int count = (int)suite_rounds(40, 500);
    pid_t children[WRITERS];

    (void)state;
    for (int i = 0; i < WRITERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            writer_main(i, count);
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    struct history *history = load();
    assert_int_equal(history_count(history), WRITERS * count);
    for (int i = 0; i < WRITERS; i++) {
        char text[64];
        size_t at = SIZE_MAX;
        for (int j = count - 1; j >= 0; j--) {
            snprintf(text, sizeof text, "writer %d says %d", i, j);
            at = history_search(history, bl_text_from(text), at);
            assert_int_not_equal(at, SIZE_MAX);
        }
    }
    history_free(history);
}

static void held_lock_does_not_block_the_caller(void **state)
{
    (void)state;
    write_file("\"a\"\n");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    struct history *history = load();
    history_add(history, BL_TEXT("b"));
    history_free(history);
    close(fd);
    history = load();
    assert_int_equal(history_count(history), 2);
    history_free(history);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, begin, end)

SUITE(history, WITH_FOLDER(entries_are_there_in_the_next_session),
      WITH_FOLDER(invalid_lines_are_skipped), cmocka_unit_test(search_finds_the_newest_entry_first),
      WITH_FOLDER(at_most_ten_thousand_entries_are_kept),
      WITH_FOLDER(a_large_text_is_kept_for_the_session_only),
      WITH_FOLDER(unreadable_file_is_an_error_but_not_fatal),
      WITH_FOLDER(several_programs_append_at_once),
      WITH_FOLDER(held_lock_does_not_block_the_caller));
