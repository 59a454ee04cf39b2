/* Addresses of databases: postgres://USER@HOST:PORT/DATABASE?PARAMETER=VALUE. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "postgres.h"

static const char operation[] = "open the store";

static char *copy(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(bl_alloc(size), text, size);
}

static size_t address_find(const struct pg_address *address, const char *keyword)
{
    size_t i = 0;
    while (i < address->count && strcmp(address->keywords[i], keyword) != 0)
        i++;
    return i;
}

const char *pg_address_get(const struct pg_address *address, const char *keyword)
{
    size_t i = address_find(address, keyword);
    return i < address->count ? address->values[i] : NULL;
}

void pg_address_set(struct pg_address *address, const char *keyword, const char *value)
{
    size_t i = address_find(address, keyword);
    if (i < address->count) {
        bl_free(address->values[i]);
    } else {
        size_t size = (address->count + 2) * sizeof(char *);
        address->keywords = bl_realloc(address->keywords, size);
        address->values = bl_realloc(address->values, size);
        address->keywords[address->count] = copy(keyword);
        address->count++;
    }
    address->values[i] = copy(value);
    address->keywords[address->count] = NULL;
    address->values[address->count] = NULL;
}

void pg_address_done(struct pg_address *address)
{
    for (size_t i = 0; i < address->count; i++) {
        bl_free(address->keywords[i]);
        bl_free(address->values[i]);
    }
    bl_free(address->keywords);
    bl_free(address->values);
    *address = (struct pg_address){0};
}

/* ---- Parsing ---- */

struct parsing {
    const char *where;
    PQconninfoOption *options;
    char message[200];
    const char *unusable; /* why libpq cannot be loaded; empty: it can */
};

static void parse(void *argument)
{
    struct parsing *parsing = argument;
    char *message = NULL;
    parsing->unusable = pg_load();
    if (parsing->unusable[0] != '\0')
        return;
    parsing->options = PQconninfoParse(parsing->where, &message);
    bl_text_into(parsing->message, sizeof parsing->message, message != NULL ? message : "");
    if (message != NULL)
        PQfreemem(message);
}

static void free_parsed(void *argument)
{
    PQconninfoFree(((struct parsing *)argument)->options);
}

static int refuse_library(const char *why, struct bl_error *error)
{
    bl_error_set(error, BL_ENOTSUP, BL_KIND_SESSION, operation, "libpq", "cannot use libpq: %s",
                 why);
    bl_error_hint(error, "install libpq5 (version 14 or newer), or use a file with --store");
    return BL_ENOTSUP;
}

/* The message of libpq may quote the address, with a password in it. */
static int refuse_address(struct bl_error *error)
{
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, operation, "postgres://",
                 "invalid address of a database");
    bl_error_hint(error, "use postgres://USER@HOST:PORT/DATABASE?PARAMETER=VALUE");
    return BL_EINVAL;
}

/* True if libpq reads the same password as bl_store_password, which messages hide. If not, a
 * character that should be escaped, such as "@", has made a part of the password a host's name. */
static bool has_whole_password(const struct pg_address *address, const char *where)
{
    BL_AUTO_ARENA(arena);
    struct bl_text password;
    bool found = !bl_store_password(&arena, where, &password);
    for (size_t i = 0; i < address->count && !found; i++)
        found = bl_text_is(password, address->values[i]);
    return found;
}

static int check_password(const struct pg_address *address, const char *where,
                          struct bl_error *error)
{
    if (has_whole_password(address, where))
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, operation, "postgres://",
                 "invalid password in the address of the database");
    bl_error_hint(error, "write characters such as @, / and %% of the password as %%40, %%2F and "
                         "%%25");
    return BL_EINVAL;
}

/* ---- Encryption ---- */

bool pg_host_is_socket(struct bl_text host)
{
    return host.size == 0 || host.data[0] == '/' || host.data[0] == '@';
}

static bool is_local(const char *host)
{
    struct in_addr four;
    if (pg_host_is_socket(bl_text_from(host)))
        return true;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

/* True if some host of a list is not a socket. */
static bool has_name(const char *hosts)
{
    struct bl_text rest = bl_text_from(hosts), host;
    bool name = false;
    while (bl_text_split(&rest, ',', &host))
        name = name || !pg_host_is_socket(host);
    return name;
}

/* True if all hosts of a list are local. */
static bool all_local(const char *hosts)
{
    struct bl_text rest = bl_text_from(hosts), host;
    char name[256];
    bool local = true;
    while (bl_text_split(&rest, ',', &host)) {
        snprintf(name, sizeof name, BL_TEXT_FORMAT, BL_TEXT_ARG(host));
        local = local && is_local(name);
    }
    return local;
}

/* Returns the name of a service, or NULL. The file of a service may name any server. */
static const char *service_of(const struct pg_address *address)
{
    const char *service = pg_address_get(address, "service");
    if (service == NULL)
        service = getenv("PGSERVICE");
    return service != NULL && service[0] != '\0' ? service : NULL;
}

/* Adds what libpq would take from the environment, so that it is checked and resolved like the
 * rest. A service takes precedence. */
static void take_environment(struct pg_address *address)
{
    static const char *const names[][2] = {{"host", "PGHOST"},
                                           {"hostaddr", "PGHOSTADDR"},
                                           {"port", "PGPORT"},
                                           {"sslmode", "PGSSLMODE"}};
    for (size_t i = 0; i < BL_COUNT(names) && service_of(address) == NULL; i++) {
        const char *value = getenv(names[i][1]);
        if (pg_address_get(address, names[i][0]) == NULL && value != NULL && value[0] != '\0')
            pg_address_set(address, names[i][0], value);
    }
}

/* Passwords and prompts do not cross a network in the clear, or to an unknown server. */
static int check_encryption(struct pg_address *address, struct bl_error *error)
{
    const char *host = pg_address_get(address, "host"), *mode = pg_address_get(address, "sslmode");
    const char *number = pg_address_get(address, "hostaddr");
    if (all_local(host) && all_local(number) && service_of(address) == NULL)
        return 0;
    if (mode == NULL) {
        pg_address_set(address, "sslmode", "verify-full");
        return 0;
    }
    if (strcmp(mode, "verify-full") == 0)
        return 0;
    bl_error_set(error, BL_EINVAL, BL_KIND_USAGE, operation, address->shown,
                 "sslmode=%.20s does not authenticate the server %.100s (expected verify-full)",
                 mode,
                 host != NULL     ? host
                 : number != NULL ? number
                                  : service_of(address));
    bl_error_hint(error, "remove sslmode from the address, and name the server's certificate "
                         "authority with sslrootcert=FILE");
    return BL_EINVAL;
}

/* ---- Address ---- */

/* Settings that an address cannot change. None of them blocks, and a pooler in transaction mode
 * loses none of them. */
static void set_ours(struct pg_address *address, bool reading, const char *application)
{
    pg_address_set(address, "gssencmode", "disable");
    pg_address_set(address, "client_encoding", "UTF8");
    pg_address_set(address, "application_name", application);
    pg_address_set(address, "keepalives", "1");
    pg_address_set(address, "keepalives_idle", "10");
    pg_address_set(address, "keepalives_interval", "2");
    pg_address_set(address, "keepalives_count", "3");
    pg_address_set(address, "tcp_user_timeout", "10000");
    if (!reading)
        pg_address_set(address, "target_session_attrs", "read-write");
}

int pg_address_make(const char *where, bool reading, const char *application,
                    struct pg_address *ret_address, struct bl_error *error)
{
    BL_AUTO_ARENA(arena);
    struct parsing parsing = {.where = where};
    struct pg_address address = {0};
    bl_loop_call(parse, &parsing);
    if (parsing.unusable[0] != '\0')
        return refuse_library(parsing.unusable, error);
    if (parsing.options == NULL)
        return refuse_address(error);
    for (const PQconninfoOption *each = parsing.options; each->keyword != NULL; each++) {
        if (each->val != NULL && each->val[0] != '\0')
            pg_address_set(&address, each->keyword, each->val);
    }
    bl_loop_call(free_parsed, &parsing);
    bl_text_into(address.shown, sizeof address.shown, bl_store_shown(&arena, where));
    int code = check_password(&address, where, error);
    take_environment(&address);
    if (code == 0)
        code = check_encryption(&address, error);
    if (code != 0) {
        pg_address_done(&address);
        return code;
    }
    set_ours(&address, reading, application);
    const char *host = pg_address_get(&address, "host");
    if (host != NULL && has_name(host) && pg_address_get(&address, "hostaddr") == NULL)
        bl_text_into(address.hosts, sizeof address.hosts, host);
    *ret_address = address;
    return 0;
}
