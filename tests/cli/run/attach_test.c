#include "stage.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static struct run run;

/* The smallest picture: one pixel. */
static const unsigned char pixel[] = {
    0x89, 'P',  'N',  'G',  '\r', '\n', 0x1A, '\n', 0,   0,   0,    13,   'I',  'H',
    'D',  'R',  0,    0,    0,    1,    0,    0,    0,   1,   8,    6,    0,    0,
    0,    0x1F, 0x15, 0xC4, 0x89, 0,    0,    0,    13,  'I', 'D',  'A',  'T',  0x78,
    0x9C, 0x63, 0xF8, 0xCF, 0xC0, 0xF0, 0x1F, 0,    5,   0,   1,    0xFF, 0x56, 0xC7,
    0x2F, 0x0D, 0,    0,    0,    0,    'I',  'E',  'N', 'D', 0xAE, 0x42, 0x60, 0x82};

static void write_pixel(const char *name)
{
    FILE *file = fopen(stage_file(name, ""), "w");

    assert_non_null(file);
    assert_int_equal(fwrite(pixel, 1, sizeof pixel, file), sizeof pixel);
    assert_int_equal(fclose(file), 0);
}

static void export_session(void)
{
    RUN(&run, "session", "export", "s");
    assert_int_equal(run.exit_code, 0);
}

static void files_and_folders_that_a_prompt_names_are_attached(void **state)
{
    (void)state;
    stage_file("a.txt", "alpha\nbeta\n");
    stage_file("with blank.txt", "gamma\n");
    assert_int_equal(mkdir("sub", 0700), 0);
    stage_file("sub/inner.c", "int x;\n");
    RUN(&run, "run", "--session", "s", "--provider",
        stage_script(
            "name: s\nreplies: [{when: 'alpha(.|\\n)*gamma(.|\\n)*inner[.]c', say: Seen.}]\n"),
        "compare @a.txt, (@\"with blank.txt\") and @sub/.");
    assert_string_equal(run.out, "Seen.\n");
    assert_int_equal(run.exit_code, 0);
    assert_non_null(strstr(run.err, "belay: Attached a.txt (file)\n"));
    assert_non_null(strstr(run.err, "belay: Attached with blank.txt (file)\n"));
    assert_non_null(strstr(run.err, "belay: Attached sub/ (folder)\n"));
    export_session();
    assert_non_null(strstr(run.out, "<attached a.txt>"));
    RUN(&run, "session", "show", "s", "--json");
    assert_string_equal(stage_text_at(stage_json(run.out), "/turns/0/prompt"),
                        "compare @a.txt, (@\"with blank.txt\") and @sub/.");
}

static void unreadable_names_stay_text_and_are_reported_once(void **state)
{
    (void)state;
    stage_file(".env", "KEY=1\n");
    RUN(&run, "run", "--session", "s", "--deny", "read(.env)", "--provider",
        stage_script("name: s\nreplies: [{say: Well.}]\n"),
        "ask @nothing, then @nothing; me@a.txt; @/etc/passwd and @.env");
    assert_string_equal(run.out, "Well.\n");
    assert_int_equal(stage_lines_with(run.err, "no file 'nothing'"), 1);
    assert_int_equal(stage_lines_with(run.err, "a.txt"), 0);
    assert_int_equal(stage_lines_with(run.err, "'/etc/passwd' is outside the workspace"), 1);
    assert_int_equal(stage_lines_with(run.err, "not attached"), 3);
    export_session();
    assert_null(strstr(run.out, "<attached"));
    assert_null(strstr(run.out, "KEY=1"));
}

static void attachments_are_bounded(void **state)
{
    char *text = bl_alloc(1 << 20);

    (void)state;
    for (size_t i = 0; i + 1 < 1 << 20; i++)
        text[i] = i % 64 == 63 ? '\n' : 'x';
    text[(1 << 20) - 1] = '\0';
    stage_file("large.txt", text);
    bl_free(text);
    RUN(&run, "run", "--session", "s", "--provider",
        stage_script("name: s\nreplies: [{when: 'read again with offset', say: Cut.}]\n"),
        "@large.txt");
    assert_string_equal(run.out, "Cut.\n");
}

static void images_go_to_a_model_that_takes_them(void **state)
{
    (void)state;
    write_pixel("dot.png");
    RUN(&run, "run", "--session", "s", "--provider",
        stage_script("name: s\nimages: true\nreplies: [{images: 1, say: A dot.}]\n"),
        "what is in dot.png?");
    assert_string_equal(run.out, "A dot.\n");
    assert_non_null(strstr(run.err, "belay: Attached dot.png (image)\n"));
    RUN(&run, "run", "--session", "t", "--provider",
        stage_script("name: s\nreplies: [{images: 0, say: Nothing.}]\n"), "what is in @dot.png?");
    assert_string_equal(run.out, "Nothing.\n");
    assert_non_null(strstr(
        run.err,
        "belay: not attached: 'dot.png' is an image, and this model does not accept images\n"));
}

static void the_tool_read_shows_an_image(void **state)
{
    (void)state;
    write_pixel("dot.png");
    RUN(&run, "run", "--session", "s", "--provider",
        stage_script("name: s\nimages: true\nreplies:\n"
                     "  - tools: [{name: read, input: {path: dot.png}}]\n"
                     "  - {say: A dot.}\n"),
        "look");
    assert_string_equal(run.out, "A dot.\n");
    export_session();
    assert_non_null(strstr(run.out, "'dot.png' is an image (image/png, "));
    assert_non_null(strstr(run.out, "\"type\":\"image\""));
    RUN(&run, "run", "--session", "t", "--provider",
        stage_script("name: s\nreplies:\n"
                     "  - tools: [{name: read, input: {path: dot.png}}]\n"
                     "  - {say: Nothing.}\n"),
        "look");
    assert_string_equal(run.out, "Nothing.\n");
    RUN(&run, "session", "export", "t");
    assert_non_null(strstr(run.out, "this model does not accept images"));
}

SUITE(attach, STAGED(files_and_folders_that_a_prompt_names_are_attached),
      STAGED(unreadable_names_stay_text_and_are_reported_once), STAGED(attachments_are_bounded),
      STAGED(images_go_to_a_model_that_takes_them), STAGED(the_tool_read_shows_an_image));
