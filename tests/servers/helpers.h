/* Helpers of this folder's tests: this program in another role, as a process that can be killed. */
#ifndef BELAY_TESTS_SERVERS_HELPERS_H
#define BELAY_TESTS_SERVERS_HELPERS_H

#include "postgres.h"
#include "suite.h"

/* Starts a server, prints what it is, and as role "start" ends it; as role "stay" sleeps. */
int role_main(const char *role);

#endif
