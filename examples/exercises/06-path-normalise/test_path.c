#include "path.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    static const char *const table[][2] = {
        {"a/b", "a/b"},
        {"/a/b", "/a/b"},
        {"a//b", "a/b"},
        {"/a/./b/", "/a/b"},
        {"a/../b", "b"},
        {"/a/b/../../c", "/c"},
        {"/..", "/"},
        {"/../../a", "/a"},
        {"..", ".."},
        {"../../a", "../../a"},
        {"../a/../../b", "../../b"},
        {"a/../..", ".."},
        {"a/..", "."},
        {".", "."},
        {"", "."},
        {"/", "/"},
        {"///", "/"},
        {"a/..b/...", "a/..b/..."},
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s", table[i][0]);
        path_normalise(path);
        if (strcmp(path, table[i][1]) == 0)
            continue;
        printf("'%s': '%s', expected '%s'\n", table[i][0], path, table[i][1]);
        failed = 1;
    }
    puts(failed ? "failed" : "passed");
    return failed;
}
