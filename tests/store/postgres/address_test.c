/* Addresses of databases: what must be encrypted, and which hosts are looked up without libpq. */
#include <postgres.h>
#include <stdio.h>
#include <stdlib.h>

#include "helpers.h"
#include "store/postgres/postgres.h"

/* Compares the code, the encryption and the hosts to look up with "0 verify-full name"; "-" is
 * none. */
static bool address_is(const char *where, const char *expected)
{
    struct pg_address address = {0};
    char found[300];
    int code = pg_address_make(where, false, "test", &address, NULL);
    const char *mode = code == 0 ? pg_address_get(&address, "sslmode") : NULL;
    snprintf(found, sizeof found, "%d %s %s", code, mode != NULL ? mode : "-",
             address.hosts[0] != '\0' ? address.hosts : "-");
    pg_address_done(&address);
    bool same = strcmp(found, expected) == 0;
    if (!same)
        fprintf(stderr, "%s: \"%s\"\n", where, found);
    return same;
}

static int check_addresses(void *argument BL_UNUSED)
{
    char refused[32];
    snprintf(refused, sizeof refused, "%d - -", BL_EINVAL);
    CHECK(address_is("postgres:///d", "0 - -"));
    CHECK(address_is("postgres:///d?host=/run/postgresql", "0 - -"));
    /* libpq's own lookup blocks, also that of a local name. */
    CHECK(address_is("postgres://localhost/d", "0 - localhost"));
    CHECK(address_is("postgres://db.example/d", "0 verify-full db.example"));
    CHECK(address_is("postgres://db.example/d?sslmode=require", refused));
    CHECK(address_is("postgres://localhost,db.example/d?sslmode=prefer", refused));
    CHECK(address_is("postgres://localhost/d?hostaddr=192.0.2.1", "0 verify-full -"));
    CHECK(address_is("postgres://localhost/d?hostaddr=192.0.2.1&sslmode=disable", refused));
    return 0;
}

static int check_environment(void *argument BL_UNUSED)
{
    char refused[32];
    snprintf(refused, sizeof refused, "%d - -", BL_EINVAL);
    setenv("PGHOST", "db.example", 1);
    CHECK(address_is("postgres:///d", "0 verify-full db.example"));
    CHECK(address_is("postgres:///d?sslmode=disable", refused));
    CHECK(address_is("postgres:///d?host=/run/postgresql", "0 - -"));
    setenv("PGSSLMODE", "disable", 1);
    CHECK(address_is("postgres:///d", refused));
    unsetenv("PGSSLMODE");
    unsetenv("PGHOST");
    setenv("PGHOSTADDR", "192.0.2.1", 1);
    CHECK(address_is("postgres://localhost/d", "0 verify-full -"));
    CHECK(address_is("postgres://localhost/d?sslmode=disable", refused));
    unsetenv("PGHOSTADDR");
    /* The file of a service may name any server. */
    CHECK(address_is("postgres:///d?service=fleet", "0 verify-full -"));
    CHECK(address_is("postgres:///d?service=fleet&sslmode=disable", refused));
    setenv("PGSERVICE", "fleet", 1);
    CHECK(address_is("postgres:///d", "0 verify-full -"));
    unsetenv("PGSERVICE");
    return 0;
}

static void only_local_servers_need_no_encryption(void **state BL_UNUSED)
{
    pg_skip_unless_available();
    run_in_loop(check_addresses, NULL);
}

static void environment_of_libpq_is_checked_like_an_address(void **state BL_UNUSED)
{
    pg_skip_unless_available();
    run_in_loop(check_environment, NULL);
}

static int open_by_name(void *argument)
{
    struct place *place = argument;
    struct bl_store *store = NULL;
    char address[PG_ADDRESS_SIZE], *host;
    bl_text_into(address, sizeof address, place->where);
    host = strstr(address, "127.0.0.1");
    if (!CHECK(host != NULL))
        return 1;
    /* As long as the address. */
    memcpy(host, "localhost", 9);
    CHECK_EQUAL(bl_store_open(address, &store, NULL), 0);
    bl_store_close(store);
    return 0;
}

static void local_server_is_found_by_its_name(void **state BL_UNUSED)
{
    struct place place;
    place_make_proxied(&place);
    run_in_loop(open_by_name, &place);
    place_remove(&place);
}

SUITE(pg_address, cmocka_unit_test(only_local_servers_need_no_encryption),
      cmocka_unit_test(environment_of_libpq_is_checked_like_an_address),
      cmocka_unit_test(local_server_is_found_by_its_name));
