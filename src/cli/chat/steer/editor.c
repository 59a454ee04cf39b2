/* Ctrl+G: edits the line in the user's editor.
 *
 * The editor has a terminal of its own, a pty, which this terminal shows meanwhile. So it has job
 * control and signals as usual, a warden holds it, and the terminal remains ours and is restored
 * however the editor ends. It runs in the drawing fiber, because nothing else may be drawn before
 * it ends; the fiber that reads keys passes them on. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/chat/state.h"

#define OPERATION "edit the line"
/* Switches off what editors switch on: alternate screen, mouse, keypad, colours. */
#define RESET                                                                                      \
    "\x1B[?1049l\x1B[?1000l\x1B[?1002l\x1B[?1003l\x1B[?1006l\x1B[?1004l\x1B[?1l\x1B>\x1B[?7h"      \
    "\x1B[?25h\x1B[0m\x1B[?2004h\r"
#define GRACE_MS 500

struct chat_editor {
    struct chat *chat;
    struct bl_arena arena;
    char *path; /* of the text */
    int master; /* our end of its terminal; -1 if none */
    int slave;
    struct bl_descriptor *screen;
    struct bl_warden_end end;
};

/* ---- The file -------------------------------------------------------------------------------- */

static int editor_save(struct chat_editor *editor, struct bl_text text, struct bl_error *error)
{
    const char *folder = bl_variable("TMPDIR");

    editor->path = (char *)(uintptr_t)bl_arena_printf(&editor->arena, "%s/belay-XXXXXX.md",
                                                      folder != NULL ? folder : "/tmp")
                       .data;
    int fd = mkostemps(editor->path, 3, O_CLOEXEC);
    bool good = fd >= 0;
    for (size_t at = 0; good && at < text.size;) {
        ssize_t size = write(fd, text.data + at, text.size - at);
        good = size > 0 || (size < 0 && errno == EINTR);
        at += size > 0 ? (size_t)size : 0;
    }
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (good)
        return 0;
    return bl_error_set(error, bl_error_from_errno(why), BL_KIND_FILESYSTEM, OPERATION,
                        editor->path, "cannot write '%s': %s", editor->path, strerrordesc_np(why));
}

static void editor_take_text(struct chat_editor *editor, struct bl_text before)
{
    struct chat *chat = editor->chat;
    struct bl_buffer bytes;
    const char *why = "";

    int code = bl_file_load(editor->path, EDIT_TEXT_MAX, &bytes, &why);
    struct bl_text text = bl_buffer_text(&bytes);
    while (text.size > 0 && (text.data[text.size - 1] == '\n' || text.data[text.size - 1] == '\r'))
        text.size--;
    if (code != 0)
        chat_say(chat, "The text cannot be read (%s); the line is unchanged.", why);
    else if (!bl_utf8_valid(text) || memchr(bytes.data, '\0', text.size) != NULL)
        chat_say(chat, "The text is not valid UTF-8; the line is unchanged.");
    else if (bl_text_equal(edit_line_text(&chat->line), before))
        edit_line_replace(&chat->line, text);
    else /* text that was returned to the line meanwhile is kept */
        edit_line_replace(&chat->line,
                          bl_arena_printf(&editor->arena, BL_TEXT_FORMAT "\n" BL_TEXT_FORMAT,
                                          BL_TEXT_ARG(text),
                                          BL_TEXT_ARG(edit_line_text(&chat->line))));
    bl_buffer_done(&bytes);
}

/* ---- Its terminal ---------------------------------------------------------------------------- */

void chat_editor_resize(struct chat *chat)
{
    struct winsize size = {0};
    size_t columns, rows;

    if (chat->editor == NULL || chat->editor->master < 0)
        return;
    terminal_size(chat->terminal, &columns, &rows);
    size.ws_col = (unsigned short)columns;
    size.ws_row = (unsigned short)rows;
    ioctl(chat->editor->master, TIOCSWINSZ, &size);
}

static int editor_open_terminal(struct chat_editor *editor)
{
    char name[64];

    editor->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (editor->master < 0 || grantpt(editor->master) < 0 || unlockpt(editor->master) < 0 ||
        ptsname_r(editor->master, name, sizeof name) != 0)
        return bl_error_from_errno(errno);
    editor->slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (editor->slave < 0)
        return bl_error_from_errno(errno);
    chat_editor_resize(editor->chat);
    return bl_descriptor_new(editor->master, &editor->screen);
}

/* Main of a fiber that shows the editor's output. Ends when no process holds the editor's terminal
 * any more. */
static int editor_show_main(void *argument)
{
    struct chat_editor *editor = argument;
    char bytes[8192];
    size_t size;
    int code;

    while ((code = bl_descriptor_read(editor->screen, bytes, sizeof bytes, &size)) == 0 &&
           size > 0 && code == 0)
        code = terminal_write(editor->chat->terminal, (struct bl_text){bytes, size});
    return code;
}

void chat_editor_keys(struct chat *chat, struct bl_text bytes)
{
    /* Keys are few; the rest of a paste that the editor does not read is dropped after a second. */
    for (int tries = 0; bytes.size > 0 && chat->editor != NULL && tries < 200;) {
        ssize_t size = write(chat->editor->master, bytes.data, bytes.size);
        if (size > 0) {
            bytes = (struct bl_text){bytes.data + size, bytes.size - (size_t)size};
            tries = 0;
        } else if (errno != EAGAIN || bl_sleep(5 * BL_NS_PER_MS) != 0) {
            return;
        } else {
            tries++;
        }
    }
}

/* ---- The program ----------------------------------------------------------------------------- */

static int editor_run_program(struct chat_editor *editor, struct bl_error *error)
{
    const char *program = bl_variable("VISUAL");
    struct bl_warden *warden = NULL;
    struct bl_nursery nursery;

    program = program != NULL ? program : bl_variable("EDITOR");
    program = program != NULL ? program : "vi";
    const char *script = bl_arena_printf(&editor->arena, "%s \"$1\"", program).data;
    const char *const arguments[] = {"sh", "-c", script, "sh", editor->path, NULL};
    struct bl_warden_options options = {
        .arguments = arguments,
        .directory = editor->chat->work.options->workspace.directory,
        .input = editor->slave,
        .output = editor->slave,
        .error = editor->slave,
        .terminal = true,
        .grace_ms = GRACE_MS,
    };
    int code = bl_warden_start(&options, &warden, error);
    if (code != 0)
        return code;
    close(editor->slave);
    editor->slave = -1;
    bl_nursery_init(&nursery, bl_scope_current());
    bl_nursery_spawn(&nursery, NULL, "editor", editor_show_main, editor, NULL);
    code = bl_warden_wait(warden, &editor->end);
    if (code != 0)
        bl_warden_stop(warden, 0, GRACE_MS, &editor->end);
    bl_nursery_done(&nursery);
    bl_warden_free(warden);
    return code;
}

static void editor_close(struct chat_editor *editor)
{
    editor->chat->editor = NULL;
    bl_descriptor_free(editor->screen);
    if (editor->slave >= 0)
        close(editor->slave);
    if (editor->master >= 0)
        close(editor->master);
    if (editor->path != NULL)
        unlink(editor->path);
    bl_arena_done(&editor->arena);
    bl_free(editor);
}

static void editor_say_end(const struct chat_editor *editor)
{
    const struct bl_warden_end *end = &editor->end;

    if (end->how == BL_END_EXITED)
        chat_say(editor->chat, "The editor failed (exit code %d); the line is unchanged.",
                 end->status);
    else if (end->how == BL_END_SIGNALED)
        chat_say(editor->chat, "The editor was killed (signal %d); the line is unchanged.",
                 end->status);
    else
        chat_say(editor->chat, "The editor was stopped; the line is unchanged.");
}

void chat_editor_run(struct chat *chat)
{
    struct chat_editor *editor = bl_zalloc(sizeof *editor);
    struct bl_error *error = bl_zalloc(sizeof *error);
    BL_AUTO_BUFFER(out, SIZE_MAX);

    chat->editing = false;
    *editor = (struct chat_editor){.chat = chat, .master = -1, .slave = -1};
    bl_arena_init(&editor->arena);
    struct bl_text before = bl_arena_text(&editor->arena, edit_line_text(&chat->line));
    int code = editor_save(editor, before, error);
    chat->editor = editor;
    if (code == 0)
        code = editor_open_terminal(editor);
    if (code == 0) {
        edit_screen_clear(&chat->screen, &out);
        terminal_write(chat->terminal, bl_buffer_text(&out));
        code = editor_run_program(editor, error);
        terminal_write(chat->terminal, BL_TEXT(RESET));
        chat->resized = true;
    }
    bool ended = code == 0 && editor->end.how == BL_END_EXITED && editor->end.status == 0;
    if (ended)
        editor_take_text(editor, before);
    else if (code == 0)
        editor_say_end(editor);
    else if (code != BL_ECANCELED && code != BL_ETIMEDOUT)
        chat_say(chat, "The editor cannot be started: %s",
                 error->code != 0 ? error->message : bl_error_text(code));
    editor_close(editor);
    bl_free(error);
    chat_redraw(chat);
}
