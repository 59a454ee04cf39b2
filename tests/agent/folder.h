/* A folder with a home and a workspace, for tests of files that are searched. */
#ifndef BELAY_TESTS_FOLDER_H
#define BELAY_TESTS_FOLDER_H

#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <belay/agent.h>

struct folder {
    char root[64];
    struct bl_arena arena;
    struct bl_list notices; /* struct bl_notice */
    char path[4096];
    char home[256]; /* the original value */
};

/* Returns an absolute path below the folder, valid until the next call. */
static inline const char *folder_path(struct folder *folder, const char *relative)
{
    snprintf(folder->path, sizeof folder->path, "%s/%s", folder->root, relative);
    return folder->path;
}

/* Makes a folder below it, with its parents. */
static inline void folder_make(struct folder *folder, const char *relative)
{
    folder_path(folder, relative);
    for (char *at = folder->path + strlen(folder->root) + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        mkdir(folder->path, 0700);
        *at = '/';
    }
    mkdir(folder->path, 0700);
}

/* Writes a file there, with its folders. */
static inline void folder_write(struct folder *folder, const char *relative, struct bl_text text)
{
    char above[256];
    bl_text_into(above, sizeof above, relative);
    char *slash = strrchr(above, '/');
    if (slash != NULL) {
        *slash = '\0';
        folder_make(folder, above);
    }
    FILE *file = fopen(folder_path(folder, relative), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text.data, 1, text.size, file), text.size);
    fclose(file);
}

/* The user's own files are below config/belay; the repository is work/, and work/a/b is in it. */
static inline int folder_begin(void **state)
{
    struct folder *folder = bl_zalloc(sizeof *folder);
    const char *temporary = getenv("TMPDIR");
    snprintf(folder->root, sizeof folder->root, "%s/belay-agent-XXXXXX",
             temporary != NULL && strlen(temporary) < 40 ? temporary : "/tmp");
    assert_non_null(mkdtemp(folder->root));
    bl_arena_init(&folder->arena);
    bl_list_init(&folder->notices);
    folder_make(folder, "config/belay");
    folder_make(folder, "work/.git");
    folder_make(folder, "work/a/b");
    bl_text_into(folder->home, sizeof folder->home, getenv("HOME"));
    setenv("XDG_CONFIG_HOME", folder_path(folder, "config"), 1);
    *state = folder;
    return 0;
}

static inline int folder_end(void **state)
{
    struct folder *folder = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder->root);
    int code = system(command);
    setenv("HOME", folder->home, 1);
    unsetenv("XDG_CONFIG_HOME");
    bl_arena_done(&folder->arena);
    bl_free(folder);
    return code;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_begin, folder_end)

/* Checks that this is the only notice, without the folder's path, and clears the list. */
static inline void folder_expect_notice(struct folder *folder, const char *text)
{
    size_t cut = strlen(folder->root) + 1;
    char shown[2048];

    assert_false(bl_list_empty(&folder->notices));
    assert_ptr_equal(folder->notices.next, folder->notices.previous);
    bl_text_into(shown, sizeof shown,
                 BL_CONTAINER(folder->notices.next, struct bl_notice, link)->text.data);
    for (char *at; (at = strstr(shown, folder->root)) != NULL;)
        memmove(at, at + cut, strlen(at + cut) + 1);
    assert_string_equal(shown, text);
    bl_list_init(&folder->notices);
}

#endif
