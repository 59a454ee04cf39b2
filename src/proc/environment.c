/* Recognizes variables that hold secrets, and keeps them out of commands and out of /proc.
 *
 * Design notes.
 *
 * /proc/PID/environ shows the memory in which the kernel placed the strings at the start, no matter
 * where `environ` points later. bl_environment_hide therefore moves all strings to the heap, and
 * overwrites secret values at their old place. It moves all strings and not only secrets: the name
 * of another secret may become known later (from a configuration), when pointers from getenv(3) are
 * in use. The old memory can then be overwritten without affecting these pointers. */
#include <belay/proc.h>

#include <strings.h>
#include <unistd.h>

const char *const bl_environment_secrets[] = {
    /* Keys, tokens, passwords. */
    "*_KEY",
    "*_APIKEY",
    "*_API_KEY_*",
    "*_ACCESS_KEY_*",
    "*_PRIVATE_KEY_*",
    "*_SECRET_*",
    "*_SECRETS",
    "*_SECRETKEY",
    "*_TOKEN_*",
    "*_AUTHTOKEN",
    "*_ACCESSTOKEN",
    "*_BEARER",
    "*_JWT",
    "*_COOKIE",
    "*_PASSWORD_*",
    "*_PASSWD",
    "*_PASSPHRASE",
    "*_PASS",
    "*_PAT",
    "*_CREDENTIAL",
    "*_CREDENTIALS_*",
    "*_CREDS",
    "*_AUTH",
    "DB_PWD", /* not *_PWD: PWD itself is not a secret */
    "DOCKER_AUTH_CONFIG",
    "MYSQL_PWD",
    "PGPASSWORD",
    "SSHPASS",
    /* Addresses that contain a password or grant access. */
    "*_CONNECTION_STRING",
    "*_DATABASE_URL",
    "*_DSN",
    "*_WEBHOOK_URL",
    "BELAY_STORE",
    /* Access to agents and services that act for the user. */
    "DBUS_SESSION_BUS_ADDRESS",
    "GNOME_KEYRING_CONTROL",
    "GPG_AGENT_INFO",
    "KRB5CCNAME",
    "SSH_AUTH_SOCK",
    NULL,
};

/* Finds the name in an entry "NAME=value": it ends at the first '='. */
static bool environment_name(const char *entry, struct bl_text *ret_name)
{
    const char *equals = strchr(entry, '=');

    if (equals == NULL || equals == entry)
        return false;
    *ret_name = (struct bl_text){entry, (size_t)(equals - entry)};
    return true;
}

/* Compares names regardless of case: `openai_api_key` is a secret, too. */
static bool environment_same(struct bl_text a, struct bl_text b)
{
    return a.size == b.size && strncasecmp(a.data, b.data, a.size) == 0;
}

static bool environment_ends(struct bl_text name, struct bl_text ending)
{
    return name.size >= ending.size &&
           strncasecmp(name.data + name.size - ending.size, ending.data, ending.size) == 0;
}

/* True if the name says that the value is the path of a secret and not the secret itself, as in
 * `DB_PASSWORD_FILE`. */
static bool environment_names_place(struct bl_text name)
{
    return environment_ends(name, BL_TEXT("_FILE")) || environment_ends(name, BL_TEXT("_DIR")) ||
           environment_ends(name, BL_TEXT("_PATH"));
}

/* True if the name contains these words as whole words, delimited by underscores or the ends of the
 * name. */
static bool environment_has_words(struct bl_text name, struct bl_text words, bool at_start,
                                  bool at_end)
{
    if (name.size < words.size)
        return false;
    size_t last = at_start ? 0 : name.size - words.size;
    for (size_t at = at_end ? name.size - words.size : 0; at <= last; at++) {
        size_t end = at + words.size;
        bool starts = at == 0 || name.data[at - 1] == '_';
        bool ends = end == name.size || (!at_end && name.data[end] == '_');
        if (starts && ends && strncasecmp(name.data + at, words.data, words.size) == 0)
            return end == name.size || !environment_names_place(name);
    }
    return false;
}

/* Matches a pattern. "*_" at the start and "_*" at the end stand for any words or none. */
static bool environment_fits(struct bl_text name, const char *pattern)
{
    struct bl_text words = bl_text_from(pattern);
    bool open_start = words.data[0] == '*';
    bool open_end = words.data[words.size - 1] == '*';

    if (open_start)
        words = (struct bl_text){words.data + 2, words.size - 2};
    if (open_end)
        words.size -= 2;
    return environment_has_words(name, words, !open_start, !open_end);
}

/* True if the value contains `scheme://user:password@host`. */
static bool environment_holds_password(const char *value)
{
    for (const char *at = value; (at = strstr(at, "://")) != NULL;) {
        at += 3;
        const char *end = at + strcspn(at, "/?# \t\n");
        const char *host = memrchr(at, '@', (size_t)(end - at));
        const char *colon = host != NULL ? memchr(at, ':', (size_t)(host - at)) : NULL;
        if (colon != NULL && colon + 1 < host)
            return true;
    }
    return false;
}

static bool environment_looks_secret(struct bl_text name)
{
    for (const char *const *pattern = bl_environment_secrets; *pattern != NULL; pattern++)
        if (environment_fits(name, *pattern))
            return true;
    return environment_holds_password(name.data + name.size + 1);
}

static bool environment_is_named(const char *const *names, struct bl_text name)
{
    for (; names != NULL && *names != NULL; names++)
        if (environment_same(name, bl_text_from(*names)))
            return true;
    return false;
}

/* Compares exactly, case included: a variable must not be let through by a guess. */
static bool environment_is_allowed(const char *const *names, struct bl_text name)
{
    for (; names != NULL && *names != NULL; names++)
        if (bl_text_equal(name, bl_text_from(*names)))
            return true;
    return false;
}

/* Entries without a name or without '=' are dropped, because they cannot be checked for secrets.
 * The others keep their order, including duplicates. */
const char *const *bl_environment_scrub(struct bl_arena *arena, const char *const *environment,
                                        const char *const *secrets, const char *const *allow)
{
    size_t count = 0;
    size_t kept = 0;

    if (environment == NULL)
        environment = (const char *const *)environ;
    while (environment != NULL && environment[count] != NULL)
        count++;
    const char **result = bl_arena_alloc(arena, (count + 1) * sizeof *result);
    for (size_t i = 0; i < count; i++) {
        struct bl_text name;
        if (!environment_name(environment[i], &name))
            continue;
        if ((environment_looks_secret(name) || environment_is_named(secrets, name)) &&
            !environment_is_allowed(allow, name))
            continue;
        result[kept++] = bl_arena_text(arena, bl_text_from(environment[i])).data;
    }
    result[kept] = NULL;
    return result;
}

static bool environment_sets(const char *const *variables, const char *entry)
{
    size_t size = strcspn(entry, "=") + 1;

    for (; *variables != NULL; variables++)
        if (strncmp(*variables, entry, size) == 0)
            return true;
    return false;
}

const char *const *bl_environment_add(struct bl_arena *arena, const char *const *environment,
                                      const char *const *variables)
{
    size_t count = 0, kept = 0;

    if (variables == NULL)
        return environment;
    for (size_t i = 0; environment[i] != NULL; i++)
        count++;
    for (size_t i = 0; variables[i] != NULL; i++)
        count++;
    const char **all = bl_arena_alloc(arena, (count + 1) * sizeof *all);
    for (size_t i = 0; environment[i] != NULL; i++)
        if (!environment_sets(variables, environment[i]))
            all[kept++] = environment[i];
    for (size_t i = 0; variables[i] != NULL; i++)
        all[kept++] = variables[i];
    all[kept] = NULL;
    return all;
}

/* ---- /proc/PID/environ ----------------------------------------------------------------------- */

/* The strings that the kernel shows; NULL: still those of `environ`. */
static char **environment_shown;

static void environment_overwrite(const char *const *secrets, bool by_look)
{
    for (char **entry = environment_shown; entry != NULL && *entry != NULL; entry++) {
        struct bl_text name;
        if (!environment_name(*entry, &name))
            continue;
        if (environment_is_named(secrets, name) || (by_look && environment_looks_secret(name)))
            explicit_bzero(*entry + name.size + 1, strlen(*entry + name.size + 1));
    }
}

void bl_environment_hide(void)
{
    size_t count = 0, size = 0, at = 0;

    if (environment_shown != NULL || environ == NULL)
        return;
    for (; environ[count] != NULL; count++)
        size += strlen(environ[count]) + 1;
    /* Never freed: getenv returns pointers into them until the process ends. */
    char **entries = bl_alloc((count + 1) * sizeof *entries);
    char *strings = bl_alloc(size + 1);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(environ[i]) + 1;
        entries[i] = memcpy(strings + at, environ[i], length);
        at += length;
    }
    entries[count] = NULL;
    environment_shown = environ;
    environ = entries;
    environment_overwrite(NULL, true);
}

void bl_environment_hide_named(const char *const *secrets)
{
    environment_overwrite(secrets, false);
}
