/* init, login, logout and config: the commands for setup. */
#include "cli/setup/setup.h"
#include "commands.h"

/* ---- init ------------------------------------------------------------------------------------ */

static const struct cli_option init_options[] = {
    CLI_FLAG("force", 0, struct init_options, force, .about = "Replace an existing AGENTS.md."),
    CLI_FLAG("print", 0, struct init_options, print,
             .about = "Print the text to standard output and write no file."),
    CLI_HELP_ROW,
    {0},
};

const struct cli_command cli_init_command = {
    .name = "init",
    .summary = "create an AGENTS.md from the files of the repository",
    .about = "Inspects the repository and writes AGENTS.md at its root: languages, commands to "
             "build and test, folders, and conventions. Agents read this file first. No model is "
             "called, and only facts found in files are written.",
    .detail =
        "Languages are counted by file names, without hidden folders and folders of generated "
        "files (`node_modules`, `target`, `build`, `dist` and the like). Commands come from "
        "Makefile, package.json, meson.build, CMakeLists.txt, Cargo.toml, go.mod, pyproject.toml, "
        "pytest.ini, tox.ini, build.gradle, pom.xml, mix.exs and build.zig; conventions from "
        ".editorconfig, CONTRIBUTING.md and the settings of formatters and linters.",
    .options = init_options,
    .exits = "0\tthe file was written, or the text printed\n"
             "1\tAGENTS.md already exists, or it cannot be written\n" CLI_EXIT_USAGE_TEXT
                 CLI_EXIT_CLOSED_TEXT,
    .files = "AGENTS.md\tat the root of the repository\n",
    .examples = "    belay init\n"
                "    belay init --print",
    .see = "chat run",
};

/* ---- login ----------------------------------------------------------------------------------- */

#define LOGIN_PROVIDER                                                                             \
    CLI_TEXT("PROVIDER", 0, NULL, struct login_options, provider, .optional = true,                \
             .complete = CLI_COMPLETE_PROVIDERS, .choices = cli_provider_names, .choice_count = 4, \
             .about = "The provider: a built-in one, or one from the configuration. Without it, "  \
                      "`anthropic`.")

static const struct cli_option login_options[] = {
    CLI_PATH("with-key-from", 0, "FILE", struct login_options, key_from,
             .complete = CLI_COMPLETE_FILES, .sample = "key.txt",
             .about = "Read the key from the first line of a file, or of standard input (`-`)."),
    CLI_FLAG("no-keyring", 0, struct login_options, no_keyring,
             .about = "Store the key in a file, even if there is a keyring."),
    CLI_HELP_ROW,
    {0},
};
static const struct cli_option login_operands[] = {LOGIN_PROVIDER, {0}};

const struct cli_command cli_login_command = {
    .name = "login",
    .summary = "store the API key of a provider",
    .about = "Asks for the API key of a provider, without echo, and stores it: in the keyring of "
             "the desktop, with secret-tool(1), if that works; otherwise in a file that only you "
             "can read. `belay logout` removes it.",
    .detail =
        "A key is looked up in this order: `key_file` or `key_command` in the configuration; the "
        "variable of the provider (`ANTHROPIC_API_KEY`, or its `key_env`); the key stored by "
        "`belay login`. Only the form of the key is checked, nothing is sent; `belay doctor "
        "--provider NAME` tries it. A key is never on a command line, in a log or in an error.",
    .operands = login_operands,
    .options = login_options,
    .exits = "0\tthe key was stored\n"
             "1\tthe key cannot be read or stored, or does not have the form of this provider's "
             "keys\n" CLI_EXIT_USAGE_TEXT "130\tCtrl-C, or output closed by the reader\n",
    .files = "$XDG_CONFIG_HOME/belay/keys/PROVIDER\tthe key, mode 0600\n"
             "$XDG_CONFIG_HOME/belay/keys/PROVIDER.keyring\tempty: the key is in the keyring\n",
    .examples = "    belay login\n"
                "    belay login openai\n"
                "    pass show anthropic | belay login --with-key-from -",
    .see = "doctor logout run secret-tool(1)",
};

/* ---- logout ---------------------------------------------------------------------------------- */

static const struct cli_option logout_options[] = {
    CLI_HELP_ROW,
    {0},
};

const struct cli_command cli_logout_command = {
    .name = "logout",
    .summary = "remove a key stored by login",
    .about = "Removes the key of a provider that `belay login` stored, from the keyring and from "
             "its file. Variables and keys named in the configuration are not changed.",
    .operands = login_operands,
    .options = logout_options,
    .exits = "0\tthe key was removed\n"
             "1\tno key was stored, or the keyring did not remove it\n" CLI_EXIT_USAGE_TEXT
                 CLI_EXIT_CLOSED_TEXT,
    .examples = "    belay logout\n"
                "    belay logout openai",
    .see = "login",
};

/* ---- config ---------------------------------------------------------------------------------- */

static const struct cli_option config_options[] = {
    CLI_HELP_ROW,
    {0},
};

static const struct cli_option config_get_operands[] = {
    CLI_TEXT("KEY", 0, NULL, struct config_options, key, .optional = true,
             .about = "A member, as names separated by dots: `permissions.mode`."),
    {0},
};

static const struct cli_option config_set_operands[] = {
    CLI_TEXT("KEY", 0, NULL, struct config_options, key,
             .hint = "'belay config get' prints what is set", .about = "A member, as for `get`."),
    CLI_TEXT("VALUE", 0, NULL, struct config_options, value,
             .hint = "give a string, a number, true, false, or a list such as [a, b]",
             .about = "Its value: YAML on one line, or else a string."),
    {0},
};

static const struct cli_verb config_verbs[] = {
    [CONFIG_GET] = {"get", "Print a member of the configuration, or all of it.",
                    "A string is printed as is, everything else as JSON. Values of headers are not "
                    "printed, because they may be keys.",
                    config_get_operands},
    [CONFIG_SET] = {"set", "Set a member.",
                    "Comments and the order of the file are kept. The new text is checked first, "
                    "and then written atomically, with mode 0600.",
                    config_set_operands},
    [CONFIG_EDIT] = {"edit", "Open the file in `$VISUAL` or `$EDITOR`.",
                     "The text is checked when the editor exits. If it is invalid, the file is not "
                     "changed, and the next `edit` continues with your text.",
                     NULL},
    [CONFIG_PATH] = {"path", "Print the path of the file, even if it does not exist.", NULL, NULL},
    {0},
};

const struct cli_command cli_config_command = {
    .name = "config",
    .summary = "print, set and edit the configuration",
    .about = "Prints and changes the user's configuration file: providers, models, permissions and "
             "hooks. Keys are not stored in it; see `belay login`.",
    .verbs = config_verbs,
    .verb_at = offsetof(struct config_options, verb),
    .options = config_options,
    .exits = "0\tdone\n"
             "1\tthe member is not set, the value is invalid, or the file cannot be read or "
             "written\n" CLI_EXIT_USAGE_TEXT CLI_EXIT_CLOSED_TEXT,
    .environment = "VISUAL, EDITOR\tThe editor of `edit`; without them vi(1).\n",
    .files = "$XDG_CONFIG_HOME/belay/config.yaml\tthe file\n"
             "$XDG_CONFIG_HOME/belay/config.yaml.edit\tthe text being edited\n",
    .examples = "    belay config set model anthropic/claude-sonnet-5\n"
                "    belay config set permissions.allow '[\"bash(git *)\", \"bash(make *)\"]'\n"
                "    belay config get permissions\n"
                "    belay config edit",
    .see = "login run vi(1)",
};
