#include "suite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHARES_MAX 8

/* For programs that this one runs again to do its share, as another user. */
#define SHARE_VARIABLE "BELAY_TEST_SHARE"

static unsigned share_number, share_count = 1;
static unsigned long share_seen; /* tests, in all suites */

bool share_takes_next(const struct suite *suite)
{
    return (suite->together ? 0 : share_seen++ % share_count) == share_number;
}

static void share_become(unsigned number, unsigned count)
{
    char text[32];

    share_number = number;
    share_count = count;
    snprintf(text, sizeof text, "%u/%u", number, count);
    setenv(SHARE_VARIABLE, text, 1);
}

/* Prints the output of a share once it is whole, so that lines do not mix. */
static int share_end(pid_t child, int output)
{
    char bytes[16384];
    int status = 0;
    ssize_t size;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    lseek(output, 0, SEEK_SET);
    while ((size = read(output, bytes, sizeof bytes)) > 0)
        fwrite(bytes, 1, (size_t)size, stdout);
    close(output);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    printf("a share of the tests was ended by signal %d\n", WTERMSIG(status));
    return 1;
}

void suite_share(int argument_count, unsigned shares)
{
    const char *given = getenv(SHARE_VARIABLE);
    pid_t children[SHARES_MAX];
    int outputs[SHARES_MAX];
    unsigned number, count;
    int failed = 0;

    if (given != NULL && sscanf(given, "%u/%u", &number, &count) == 2) {
        share_become(number, count);
        return;
    }
    if (argument_count > 1 || suite_rounds(0, 1) > 0)
        return;
    for (unsigned i = 0; i < shares; i++) {
        outputs[i] = memfd_create("output", MFD_CLOEXEC);
        children[i] = outputs[i] < 0 ? -1 : fork();
        if (children[i] < 0) {
            perror("cannot share the tests");
            exit(1);
        }
        if (children[i] == 0) {
            dup2(outputs[i], STDOUT_FILENO);
            dup2(outputs[i], STDERR_FILENO);
            share_become(i, shares);
            return;
        }
    }
    for (unsigned i = 0; i < shares; i++)
        failed += share_end(children[i], outputs[i]);
    exit(failed > 100 ? 100 : failed);
}
