#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <belay/proc.h>

#include "model/model.h"
#include "setup.h"

#define PROVIDER_DEFAULT "anthropic"
#define RING_NS          (30 * BL_NS_PER_S) /* a keyring may ask to be unlocked */
#define OUTPUT_MAX       ((size_t)16 * 1024)

/* One login or logout. */
struct login {
    struct cli_call *call;
    struct login_options options;
    struct bl_arena arena;
    struct bl_config *config;
    struct bl_error error;
    char typed[LOGIN_KEY_MAX + 1];
    const char *key; /* owned by the configuration */
    /* For a command for the keyring. */
    const char *action;
    struct bl_text output;
    bool done;
};

/* ---- The keyring ----------------------------------------------------------------------------- */

/* Opens a file in memory with the key, so that the key is not on a command line. */
static int login_input(const char *key)
{
    int fd = memfd_create("key", MFD_CLOEXEC);

    if (fd >= 0 &&
        (write(fd, key, strlen(key)) != (ssize_t)strlen(key) || lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int login_ring_main(void *argument)
{
    struct login *login = argument;
    bool stores = strcmp(login->action, "store") == 0;
    struct bl_capture capture, errors;
    struct bl_warden_end end = {0};
    struct bl_scope limit;
    struct bl_error unused = {0};
    struct bl_command command = {
        .options = {.arguments =
                        model_login_command(&login->arena, login->action, login->options.provider),
                    .input = stores ? login_input(login->key) : -1,
                    .output = -1,
                    .error = -1},
        .kind = BL_UNIT_COMMAND,
        .id = "keyring",
        .name = "secret-tool",
        .capture = &capture,
        .error_capture = &errors,
    };
    BL_AUTO_BUFFER(output, 2 * OUTPUT_MAX);

    bl_capture_init(&capture, OUTPUT_MAX);
    bl_capture_init(&errors, OUTPUT_MAX);
    bl_limit_begin(&limit, RING_NS);
    int code = bl_command_run(&command, &end, &unused);
    bl_limit_end(&limit);
    login->done = code == 0 && end.how == BL_END_EXITED && end.status == 0;
    if (login->done && bl_capture_text(&capture, &output) == 0)
        login->output = bl_arena_text(&login->arena, bl_text_trim(bl_buffer_text(&output)));
    if (output.data != NULL)
        explicit_bzero(output.data, output.size);
    bl_capture_done(&capture);
    bl_capture_done(&errors);
    if (command.options.input >= 0)
        close(command.options.input);
    return 0;
}

/* Returns false if there is no keyring or it failed. */
static bool login_ring(struct login *login, const char *action)
{
    login->action = action;
    login->done = false;
    login->output = (struct bl_text){0};
    return cli_loop_run("use the keyring", login_ring_main, login, NULL) == 0 && login->done;
}

/* Stores the key in the keyring. Returns true if a lookup returns the same key. */
static bool login_keep_in_ring(struct login *login)
{
    return !login->options.no_keyring && login_ring(login, "store") &&
           login_ring(login, "lookup") && bl_text_equal(login->output, bl_text_from(login->key));
}

/* ---- Keeping --------------------------------------------------------------------------------- */

static const char *login_path(struct login *login, enum model_login where)
{
    return model_login_path(&login->arena, login->options.provider, where, NULL);
}

static int login_keep(struct login *login)
{
    const char *file = login_path(login, MODEL_LOGIN_FILE);
    const char *ring = login_path(login, MODEL_LOGIN_KEYRING);
    const char *before = model_login_before(login->config, login->options.provider);
    bool kept = login_keep_in_ring(login);
    struct bl_text line = bl_arena_printf(&login->arena, "%s\n", login->key);

    int code = setup_write(kept ? ring : file, kept ? (struct bl_text){0} : line, true, true,
                           &login->error);
    if (code != 0)
        return cli_fail(login->call, &login->error, CLI_EXIT_FAILED);
    unlink(kept ? file : ring);
    struct bl_text text = bl_arena_printf(
        &login->arena,
        "The key of %s is stored in %s.\n"
        "%s%s%s",
        login->options.provider, kept ? "the keyring" : file, before != NULL ? "note: " : "",
        before != NULL ? before : "", before != NULL ? " is set and takes precedence.\n" : "");
    return cli_print(login->call, text, CLI_EXIT_OK);
}

static int login_read_from(struct login *login, struct bl_text *ret_text)
{
    const char *path = login->options.key_from;
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct bl_buffer bytes;
    const char *why = "";

    if (fd < 0)
        return bl_error_set(&login->error, bl_error_from_errno(errno), BL_KIND_FILESYSTEM,
                            "read a key", path, "cannot read '%s': %s", path,
                            strerrordesc_np(errno));
    int code = bl_descriptor_load(fd, 4 * LOGIN_KEY_MAX, &bytes, &why);
    if (!standard)
        close(fd);
    if (code == 0)
        *ret_text = bl_arena_text(&login->arena, bl_buffer_text(&bytes));
    else
        bl_error_set(&login->error, code, BL_KIND_FILESYSTEM, "read a key", path,
                     "cannot read '%s': %s", path, why);
    bl_buffer_done(&bytes);
    return code;
}

static int login_find_key(struct login *login)
{
    struct bl_text text = {0};
    int code = 0;

    if (login->options.key_from != NULL)
        code = login_read_from(login, &text);
    else
        code = login_ask(login->options.provider, login->typed, &login->error);
    if (code == 0 && login->options.key_from == NULL)
        text = bl_text_from(login->typed);
    if (code == 0)
        code = model_login_check(login->config, login->options.provider, text, &login->key,
                                 &login->error);
    explicit_bzero(login->typed, sizeof login->typed);
    return code;
}

/* ---- The commands ---------------------------------------------------------------------------- */

static int login_open(struct login *login)
{
    struct bl_config_options options = {.directory = NULL, .variable = bl_variable};

    if (login->options.provider == NULL)
        login->options.provider = PROVIDER_DEFAULT;
    int code = bl_config_read(&options, &login->config, &login->error);
    if (code == 0)
        code = model_login_check(login->config, login->options.provider, (struct bl_text){0}, NULL,
                                 &login->error);
    if (code == 0 && login_path(login, MODEL_LOGIN_FILE) == NULL) {
        code = bl_error_set(&login->error, BL_ENOENT, BL_KIND_FILESYSTEM, "keep a key",
                            login->options.provider, "there is no folder for the key");
        bl_error_hint(&login->error, "set HOME or XDG_CONFIG_HOME");
    }
    return code;
}

static int login_do(struct login *login)
{
    int code = login_open(login);

    if (code == 0)
        code = login_find_key(login);
    if (code == BL_ECANCELED)
        return cli_fail(login->call, &login->error, CLI_EXIT_CLIENT_GONE);
    if (code != 0)
        return cli_fail(login->call, &login->error, cli_error_exit_code(&login->error));
    return login_keep(login);
}

static int logout_do(struct login *login)
{
    int code = login_open(login);

    if (code != 0)
        return cli_fail(login->call, &login->error, cli_error_exit_code(&login->error));
    const char *ring = login_path(login, MODEL_LOGIN_KEYRING);
    bool in_ring = access(ring, F_OK) == 0;
    bool removed = unlink(login_path(login, MODEL_LOGIN_FILE)) == 0;
    if (in_ring && !login_ring(login, "clear")) {
        bl_error_set(&login->error, BL_EIO, BL_KIND_AUTH, "forget a key", login->options.provider,
                     "the keyring did not remove the key of '%s'", login->options.provider);
        bl_error_hint(&login->error, "unlock the keyring, and try again");
        return cli_fail(login->call, &login->error, CLI_EXIT_FAILED);
    }
    removed = (in_ring && unlink(ring) == 0) || removed;
    if (removed)
        return cli_print(
            login->call,
            bl_arena_printf(&login->arena, "The key of %s was removed.\n", login->options.provider),
            CLI_EXIT_OK);
    bl_error_set(&login->error, BL_ENOENT, BL_KIND_AUTH, "forget a key", login->options.provider,
                 "no key of '%s' is stored", login->options.provider);
    return cli_fail(login->call, &login->error, CLI_EXIT_FAILED);
}

static int login_run(struct cli_call *call, int (*perform)(struct login *login))
{
    struct login *login = bl_zalloc(sizeof *login);
    int exit_code;

    login->call = call;
    bl_arena_init(&login->arena);
    int code = cli_options_read(call, &login->options, NULL, &login->error);
    if (code == CLI_OPTION_HELP)
        exit_code = cli_help_print(call, call->command);
    else if (code != 0)
        exit_code = cli_fail_usage(call, &login->error);
    else
        exit_code = perform(login);
    bl_config_free(login->config);
    bl_arena_done(&login->arena);
    bl_free(login);
    return exit_code;
}

int cli_login_run(struct cli_call *call)
{
    return login_run(call, login_do);
}

int cli_logout_run(struct cli_call *call)
{
    return login_run(call, logout_do);
}
