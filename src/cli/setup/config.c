#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <belay/agent.h>

#include "setup.h"

#define SIZE_LIMIT ((size_t)1024 * 1024)
#define DRAFT      ".edit"

/* One call. */
struct config_work {
    struct cli_call *call;
    struct config_options options;
    struct bl_arena arena;
    struct bl_error error;
    const char *path;
    struct bl_text text; /* of the file; empty if there is no file */
};

/* ---- Checking -------------------------------------------------------------------------------- */

/* The folder with the text to check, which replaces the user's folder during the check. */
static const char *config_checked_folder;

static const char *config_checked_variable(const char *name)
{
    return strcmp(name, "XDG_CONFIG_HOME") == 0 ? config_checked_folder : bl_variable(name);
}

/* Replaces the path of the checked copy by the path of the file in the error. */
static void config_name_file(struct config_work *work, const char *checked)
{
    char *message = work->error.message;
    char *at = strstr(message, checked);

    if (at == NULL)
        return;
    const char *text = bl_arena_printf(&work->arena, "%.*s%s%s", (int)(at - message), message,
                                       work->path, at + strlen(checked))
                           .data;
    bl_text_into(message, sizeof work->error.message, text);
}

static int config_read_checked(struct config_work *work)
{
    struct bl_config_options options = {.variable = config_checked_variable};
    struct bl_settings settings = {0};
    struct bl_config *config = NULL;

    int code = bl_config_read(&options, &config, &work->error);
    if (code == 0)
        code = bl_settings_read(&work->arena, config, &settings, &work->error);
    bl_hooks_free(settings.hooks);
    bl_config_free(config);
    return code;
}

/* Checks the text by reading it as the configuration. */
static int config_check(struct config_work *work, struct bl_text text)
{
    const char *temporary = bl_variable("TMPDIR");
    char *folder = (char *)(uintptr_t)bl_arena_printf(
                       &work->arena, "%s/belay-config-XXXXXX",
                       temporary != NULL && temporary[0] == '/' ? temporary : "/tmp")
                       .data;

    if (mkdtemp(folder) == NULL)
        return bl_error_set(&work->error, bl_error_from_errno(errno), BL_KIND_FILESYSTEM,
                            "check the configuration", folder, "cannot make '%s': %s", folder,
                            strerrordesc_np(errno));
    const char *inner = bl_arena_printf(&work->arena, "%s/belay", folder).data;
    const char *file = bl_arena_printf(&work->arena, "%s/config.yaml", inner).data;
    int code = setup_write(file, text, true, true, &work->error);
    config_checked_folder = folder;
    if (code == 0)
        code = config_read_checked(work);
    if (code != 0)
        config_name_file(work, file);
    unlink(file);
    rmdir(inner);
    rmdir(folder);
    return code;
}

static int config_load(struct config_work *work, const char *path, struct bl_text *ret_text)
{
    struct bl_buffer bytes;
    const char *why = "";

    int code = bl_file_load(path, SIZE_LIMIT, &bytes, &why);
    if (code == 0)
        *ret_text = bl_arena_text(&work->arena, bl_buffer_text(&bytes));
    else if (code != BL_ENOENT)
        bl_error_set(&work->error, code, BL_KIND_FILESYSTEM, "read the configuration", path,
                     "cannot read '%s': %s", path, why);
    bl_buffer_done(&bytes);
    return code == BL_ENOENT ? 0 : code;
}

/* ---- get ------------------------------------------------------------------------------------- */

/* Writes a value, and hides the values of headers, which may be keys. */
static void config_write_shown(struct bl_json_writer *writer, const struct bl_json *value,
                               bool hidden)
{
    if (bl_json_is(value, BL_JSON_OBJECT)) {
        bl_json_write_object(writer);
        BL_JSON_MEMBERS (key, value) {
            bl_json_write_key(writer, bl_json_text(key));
            config_write_shown(writer, key + 1, hidden || bl_text_is(bl_json_text(key), "headers"));
        }
        bl_json_write_end(writer);
    } else if (hidden) {
        bl_json_write_text(writer, BL_TEXT("[hidden]"));
    } else {
        bl_json_write_value(writer, value);
    }
}

static int config_get_missing(struct config_work *work, const struct bl_json *root)
{
    struct bl_suggestion suggestion;

    bl_error_set(&work->error, BL_ENOENT, BL_KIND_USAGE, "read the configuration",
                 work->options.key, "'%.100s' is not set in %s", work->options.key, work->path);
    bl_suggestion_init(&suggestion, work->options.key);
    if (bl_json_is(root, BL_JSON_OBJECT))
        BL_JSON_MEMBERS (key, root)
            bl_suggestion_offer(&suggestion, key->string);
    if (suggestion.best != NULL)
        bl_error_hint(&work->error, "did you mean '%s'?", suggestion.best);
    return BL_ENOENT;
}

static int config_get(struct config_work *work)
{
    struct bl_document document = {0};
    BL_AUTO_BUFFER(out, 4 * SIZE_LIMIT);
    struct bl_json_writer writer;
    const char *key = work->options.key;

    int code = config_check(work, work->text);
    if (code == 0)
        code = bl_document_read(&work->arena, work->text, NULL, &document, NULL);
    if (code != 0)
        return code;
    const struct bl_json *value =
        key == NULL ? document.root : config_text_find(document.root, bl_text_from(key));
    if (value == NULL || (key != NULL && bl_json_is(value, BL_JSON_NULL)))
        return config_get_missing(work, document.root);
    bool hidden = key != NULL && strstr(key, "headers.") != NULL;
    if (bl_json_is(value, BL_JSON_STRING) && !hidden) {
        bl_buffer_append(&out, bl_json_text(value));
    } else if (key != NULL || bl_json_is(value, BL_JSON_OBJECT)) {
        bl_json_writer_init(&writer, &out);
        config_write_shown(
            &writer, value,
            hidden || (key != NULL && bl_text_ends_with(bl_text_from(key), BL_TEXT("headers"))));
        bl_json_writer_done(&writer);
    }
    if (out.size > 0)
        bl_buffer_append_byte(&out, '\n');
    return cli_print(work->call, bl_buffer_text(&out), CLI_EXIT_OK) == 0 ? 0 : BL_EPIPE;
}

/* ---- set ------------------------------------------------------------------------------------- */

/* Writes the file. If it is a symbolic link, its target is replaced. */
static int config_keep(struct config_work *work, struct bl_text text)
{
    char *real = realpath(work->path, NULL);

    int code = setup_write(real != NULL ? real : work->path, text, true, true, &work->error);
    free(real);
    return code;
}

static int config_set(struct config_work *work)
{
    struct bl_text text;

    int code = config_text_set(&work->arena, work->text, bl_text_from(work->options.key),
                               bl_text_from(work->options.value), &text, &work->error);
    if (code == 0)
        code = config_check(work, text);
    return code == 0 ? config_keep(work, text) : code;
}

/* ---- edit ------------------------------------------------------------------------------------ */

/* Runs the editor on the terminal. Ctrl-C is left to the editor. */
static int config_run_editor(struct config_work *work, const char *path)
{
    const char *editor =
        bl_variable("VISUAL") != NULL ? bl_variable("VISUAL") : bl_variable("EDITOR");
    const char *command =
        bl_arena_printf(&work->arena, "%s \"$1\"", editor != NULL ? editor : "vi").data;
    const char *const words[] = {"sh", "-c", command, "sh", path, NULL};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    posix_spawnattr_t attributes;
    sigset_t usual;
    pid_t child;
    int status = 0;

    sigaction(SIGINT, &ignore, &before);
    posix_spawnattr_init(&attributes);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int failed =
        posix_spawnp(&child, "sh", NULL, &attributes, (char *const *)(uintptr_t)words, environ);
    posix_spawnattr_destroy(&attributes);
    while (failed == 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &before, NULL);
    if (failed == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    bl_error_set(&work->error, BL_EIO, BL_KIND_RUNTIME, "edit the configuration",
                 editor != NULL ? editor : "vi", "the editor '%s' failed; nothing was changed",
                 editor != NULL ? editor : "vi");
    bl_error_hint(&work->error, "set VISUAL or EDITOR to your editor");
    return BL_EIO;
}

static int config_edit(struct config_work *work)
{
    const char *draft = bl_arena_printf(&work->arena, "%s%s", work->path, DRAFT).data;
    struct bl_text text = {0};
    int code = 0;

    /* An invalid draft from before is edited further. */
    if (access(draft, F_OK) != 0)
        code = setup_write(draft, work->text, true, true, &work->error);
    if (code == 0)
        code = config_run_editor(work, draft);
    if (code != 0) {
        unlink(draft);
        return code;
    }
    code = config_load(work, draft, &text);
    if (code == 0)
        code = config_check(work, text);
    if (code != 0) {
        struct bl_text why = bl_arena_text(&work->arena, bl_text_from(work->error.hint));
        work->error.hint[0] = '\0';
        bl_error_hint(&work->error,
                      BL_TEXT_FORMAT
                      "%snothing was changed; 'belay config edit' continues with your text",
                      BL_TEXT_ARG(why), why.size > 0 ? "; " : "");
        return code;
    }
    code = config_keep(work, text);
    if (code == 0)
        unlink(draft);
    return code;
}

/* ---- The command ----------------------------------------------------------------------------- */

static int config_path(struct config_work *work)
{
    struct bl_text line = bl_arena_printf(&work->arena, "%s\n", work->path);

    return cli_print(work->call, line, CLI_EXIT_OK) == 0 ? 0 : BL_EPIPE;
}

static int config_open(struct config_work *work)
{
    int code = setup_config_path(&work->arena, "config.yaml", &work->path, &work->error);
    if (code != 0)
        return code;
    return work->options.verb == CONFIG_PATH ? 0 : config_load(work, work->path, &work->text);
}

int cli_config_run(struct cli_call *call)
{
    static int (*const verbs[])(struct config_work *) = {[CONFIG_GET] = config_get,
                                                         [CONFIG_SET] = config_set,
                                                         [CONFIG_EDIT] = config_edit,
                                                         [CONFIG_PATH] = config_path};
    struct config_work *work = bl_zalloc(sizeof *work);
    int exit_code = CLI_EXIT_OK;

    work->call = call;
    bl_arena_init(&work->arena);
    int code = cli_options_read(call, &work->options, NULL, &work->error);
    if (code == CLI_OPTION_HELP) {
        exit_code = cli_help_print(call, call->command);
    } else if (code != 0) {
        exit_code = cli_fail_usage(call, &work->error);
    } else {
        code = config_open(work);
        if (code == 0)
            code = verbs[work->options.verb](work);
        if (code == BL_EPIPE)
            exit_code = CLI_EXIT_CLIENT_GONE;
        else if (code != 0)
            exit_code = cli_fail(call, &work->error, CLI_EXIT_FAILED);
    }
    bl_arena_done(&work->arena);
    bl_free(work);
    return exit_code;
}
