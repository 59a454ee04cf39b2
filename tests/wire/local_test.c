#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <belay/wire.h>

#include "suite.h"

/* A runtime folder for these tests, set in XDG_RUNTIME_DIR. */
static char runtime[256];

static int make_place(void **state)
{
    const char *temporary = getenv("TMPDIR");
    (void)state;
    snprintf(runtime, sizeof runtime, "%.100s/belay-local-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(runtime));
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    return 0;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    return remove(path);
}

static int remove_place(void **state)
{
    (void)state;
    nftw(runtime, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    unsetenv("XDG_RUNTIME_DIR");
    return 0;
}

static const char *path_of(const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", runtime, name);
    return path;
}

static size_t count_entries(void)
{
    DIR *entries = opendir(runtime);
    size_t count = 0;
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(entries);
    return count;
}

/* ---- The folder ---- */

static void the_folder_is_below_the_runtime_folder_or_in_tmp(void **state)
{
    static const char *const others[] = {NULL, "", "relative", "/belay-no-such-folder",
                                         "/etc/passwd"};
    char path[512], expected[512];
    (void)state;
    assert_int_equal(bl_runtime_folder(path, sizeof path, NULL), 0);
    assert_string_equal(path, path_of("belay"));
    unsetenv("XDG_RUNTIME_DIR");
    snprintf(expected, sizeof expected, "/tmp/belay-%u", (unsigned)geteuid());
    for (size_t i = 0; i < BL_COUNT(others); i++) {
        if (others[i] != NULL)
            setenv("XDG_RUNTIME_DIR", others[i], 1);
        assert_int_equal(bl_runtime_folder(path, sizeof path, NULL), 0);
        assert_string_equal(path, expected);
    }
    assert_int_equal(bl_runtime_folder(path, 5, NULL), BL_ELIMIT);
}

static void the_folder_is_made_for_us_alone(void **state)
{
    struct stat status;
    int fd = -1;
    (void)state;
    assert_int_equal(bl_runtime_folder_open(false, &fd, NULL), BL_ENOENT);
    mode_t mask = umask(0);
    assert_int_equal(bl_runtime_folder_open(true, &fd, NULL), 0);
    umask(mask);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0700);
    close(fd);
    assert_int_equal(bl_runtime_folder_open(true, &fd, NULL), 0);
    close(fd);
}

static void assert_refused(const char *why)
{
    for (int create = 0; create < 2; create++) {
        struct bl_error error = {0};
        int fd = -1;
        assert_int_equal(bl_runtime_folder_open(create != 0, &fd, &error), BL_EACCES);
        assert_non_null(strstr(error.message, why));
        assert_string_not_equal(error.hint, "");
        assert_int_equal(error.kind, BL_KIND_FILESYSTEM);
    }
}

static void folder_accessible_to_others_is_refused(void **state)
{
    static const mode_t modes[] = {0755, 0770, 0701, 0720, 0777};
    const char *path = path_of("belay");
    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < BL_COUNT(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_refused("other users can access it");
    }
    assert_int_equal(chmod(path, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, 65534), 0);
        assert_refused("owned by another user");
    }
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/tmp", path), 0);
    assert_refused("");
    assert_int_equal(unlink(path), 0);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_refused("Not a directory");
}

/* ---- Sockets ---- */

static void listening_socket_can_be_reached(void **state)
{
    struct bl_local_file file;
    struct stat status;
    int listener, client, server;
    (void)state;
    assert_int_equal(bl_local_listen(path_of("a.sock"), 4, &listener, &file, NULL), 0);
    assert_int_equal(count_entries(), 1);
    assert_int_equal(lstat(path_of("a.sock"), &status), 0);
    assert_true(S_ISSOCK(status.st_mode));
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(bl_local_connect(path_of("a.sock"), &client, NULL), 0);
    server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(server >= 0);
    assert_true(bl_local_peer_is_ours(server));
    assert_true(bl_local_peer_is_ours(client));
    assert_int_equal(fcntl(client, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(client, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    close(client), close(server), close(listener);
    bl_local_remove(path_of("a.sock"), &file);
    assert_int_equal(count_entries(), 0);
}

static void connecting_without_a_listener_is_an_error(void **state)
{
    struct bl_error error = {0};
    int fd = -1;
    (void)state;
    assert_int_equal(bl_local_connect(path_of("a.sock"), &fd, &error), BL_ENOENT);
    assert_non_null(strstr(error.message, "no process is listening"));
    assert_int_equal(bl_local_connect(path_of("no-folder/a.sock"), &fd, NULL), BL_ENOENT);
    assert_int_equal(bl_local_connect(path_of(""), &fd, NULL), BL_EINVAL);
}

static void connecting_to_a_full_queue_asks_to_retry(void **state)
{
    struct bl_local_file file;
    int listener, clients[64], code = 0;
    size_t count = 0;
    (void)state;
    assert_int_equal(bl_local_listen(path_of("a.sock"), 2, &listener, &file, NULL), 0);
    while (code == 0 && count < BL_COUNT(clients)) {
        code = bl_local_connect(path_of("a.sock"), &clients[count], NULL);
        count += code == 0;
    }
    assert_int_equal(code, BL_EAGAIN);
    /* A process listens nevertheless. */
    int other = -1;
    assert_int_equal(bl_local_listen(path_of("a.sock"), 2, &other, &file, NULL), BL_EBUSY);
    while (count > 0)
        close(clients[--count]);
    close(listener);
}

static void a_live_host_at_the_path_is_an_error(void **state)
{
    struct bl_local_file file, other_file = {0};
    struct bl_error error = {0};
    int listener, other = -1, client;
    (void)state;
    assert_int_equal(bl_local_listen(path_of("a.sock"), 4, &listener, &file, NULL), 0);
    assert_int_equal(bl_local_listen(path_of("a.sock"), 4, &other, &other_file, &error), BL_EBUSY);
    assert_int_equal(other, -1);
    assert_non_null(strstr(error.message, "already listening"));
    assert_int_equal(count_entries(), 1);
    assert_int_equal(bl_local_connect(path_of("a.sock"), &client, NULL), 0);
    close(client), close(listener);
}

static void a_stale_socket_at_the_path_is_replaced(void **state)
{
    struct bl_local_file stale, file;
    int listener, client;
    (void)state;
    assert_int_equal(bl_local_listen(path_of("a.sock"), 4, &listener, &stale, NULL), 0);
    close(listener);
    assert_int_equal(count_entries(), 1);
    assert_int_equal(bl_local_connect(path_of("a.sock"), &client, NULL), BL_ENOENT);
    assert_int_equal(bl_local_listen(path_of("a.sock"), 4, &listener, &file, NULL), 0);
    assert_int_equal(count_entries(), 1);
    /* Removing the other socket does not remove ours. */
    bl_local_remove(path_of("a.sock"), &stale);
    assert_int_equal(bl_local_connect(path_of("a.sock"), &client, NULL), 0);
    close(client), close(listener);
}

static void socket_of_a_dead_process_is_replaced_while_another_holds_it_open(void **state)
{
    struct bl_local_file file;
    int hold[2], listener, status;
    char byte;
    (void)state;
    assert_int_equal(pipe(hold), 0);
    pid_t child = fork();
    if (child == 0) {
        int code = bl_local_listen(path_of("a.sock"), 4, &listener, &file, NULL);
        if (fork() == 0) {
            close(hold[1]);
            _exit(read(hold[0], &byte, 1) == 0 ? 0 : 9);
        }
        _exit(code);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(bl_local_listen(path_of("a.sock"), 4, &listener, &file, NULL), 0);
    close(hold[0]), close(hold[1]), close(listener);
}

static void file_that_is_not_a_socket_is_an_error_and_is_kept(void **state)
{
    struct bl_local_file file;
    struct bl_error error = {0};
    struct stat status;
    char bytes[8] = "";
    int fd = -1;
    (void)state;
    fd = open(path_of("a.sock"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "mine", 4), 4);
    close(fd);
    assert_int_equal(bl_local_listen(path_of("a.sock"), 4, &fd, &file, &error), BL_EEXIST);
    assert_string_not_equal(error.hint, "");
    fd = open(path_of("a.sock"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, bytes, sizeof bytes), 4);
    assert_string_equal(bytes, "mine");
    close(fd);
    assert_int_equal(mkdir(path_of("folder"), 0700), 0);
    assert_int_equal(bl_local_listen(path_of("folder"), 4, &fd, &file, NULL), BL_EEXIST);
    assert_int_equal(symlink("nowhere", path_of("link")), 0);
    assert_int_equal(bl_local_listen(path_of("link"), 4, &fd, &file, NULL), BL_EEXIST);
    assert_int_equal(lstat(path_of("link"), &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(count_entries(), 3);
}

static void invalid_socket_path_is_an_error(void **state)
{
    static const struct {
        const char *name;
        int code;
    } cases[] = {{"no-folder/a.sock", BL_ENOENT}, {"", BL_EINVAL}};
    struct bl_local_file file;
    (void)state;
    for (size_t i = 0; i < BL_COUNT(cases); i++) {
        struct bl_error error = {0};
        int fd = -1;
        assert_int_equal(bl_local_listen(path_of(cases[i].name), 4, &fd, &file, &error),
                         cases[i].code);
        assert_string_not_equal(error.message, "");
    }
    assert_int_equal(count_entries(), 0);
}

static void path_too_long_for_a_socket_address_works(void **state)
{
    struct bl_local_file file;
    char path[1100], name[201];
    int listener, client;
    (void)state;
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(mkdir(path_of(name), 0700), 0);
    snprintf(path, sizeof path, "%s/cell.sock", path_of(name));
    assert_int_equal(bl_local_listen(path, 4, &listener, &file, NULL), 0);
    assert_int_equal(bl_local_connect(path, &client, NULL), 0);
    close(client), close(listener);
    bl_local_remove(path, &file);
    assert_int_not_equal(access(path, F_OK), 0);
    /* A last component that is too long in any case. */
    assert_int_equal(rmdir(path_of(name)), 0);
    assert_int_equal(bl_local_listen(path_of(name), 4, &listener, &file, NULL), BL_ELIMIT);
    assert_int_equal(bl_local_connect(path_of(name), &client, NULL), BL_ELIMIT);
    assert_int_equal(count_entries(), 0);
}

/* Of several processes that start at once, one listens. */
static void one_of_many_concurrent_starts_listens(void **state)
{
    enum {
        PROCESSES = 8,
        ROUNDS = 20
    };
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        int gate[2], hold[2], listening = 0;
        pid_t children[PROCESSES];
        assert_int_equal(pipe(gate), 0);
        assert_int_equal(pipe(hold), 0);
        for (int i = 0; i < PROCESSES; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                struct bl_local_file file;
                int fd;
                char byte;
                close(gate[1]), close(hold[1]);
                if (read(gate[0], &byte, 1) < 0)
                    _exit(9);
                int code = bl_local_listen(path_of("a.sock"), 64, &fd, &file, NULL);
                /* The listening process stays until all have tried. */
                if (code == 0 && read(hold[0], &byte, 1) < 0)
                    _exit(9);
                _exit(code == 0 ? 1 : code == BL_EBUSY ? 0 : 9);
            }
        }
        close(gate[0]), close(hold[0]);
        close(gate[1]);
        for (int ended = 0; ended < PROCESSES - 1; ended++) {
            int status;
            assert_true(waitpid(-1, &status, 0) > 0);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
        close(hold[1]);
        assert_true(waitpid(-1, &listening, 0) > 0);
        assert_int_equal(WEXITSTATUS(listening), 1);
        assert_int_equal(count_entries(), 1);
    }
}

static void names_of_sockets_that_do_not_listen_yet_are_known(void **state)
{
    static const char *const others[] = {
        "",          ".",     ".0123456789abcde", ".0123456789abcdef0",
        "cell.sock", ".x.so", ".0123456789ABCDEF"};
    (void)state;
    assert_true(bl_local_hidden(".0123456789abcdef"));
    for (size_t i = 0; i < BL_COUNT(others); i++)
        assert_false(bl_local_hidden(others[i]));
}

static void a_peer_of_another_user_is_not_ours(void **state)
{
    struct bl_local_file file;
    int listener, status = 0;
    (void)state;
    if (geteuid() != 0)
        suite_skip("needs root");
    assert_int_equal(bl_local_listen(path_of("a.sock"), 4, &listener, &file, NULL), 0);
    assert_int_equal(chmod(runtime, 0755), 0);
    assert_int_equal(chmod(path_of("a.sock"), 0666), 0);
    pid_t child = fork();
    if (child == 0) {
        int fd;
        if (setresuid(65534, 65534, 65534) != 0)
            _exit(9);
        _exit(bl_local_connect(path_of("a.sock"), &fd, NULL) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    int server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(server >= 0);
    assert_false(bl_local_peer_is_ours(server));
    close(server), close(listener);
}

#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

SUITE(local, IN_PLACE(the_folder_is_below_the_runtime_folder_or_in_tmp),
      IN_PLACE(the_folder_is_made_for_us_alone), IN_PLACE(folder_accessible_to_others_is_refused),
      IN_PLACE(listening_socket_can_be_reached),
      IN_PLACE(connecting_without_a_listener_is_an_error),
      IN_PLACE(connecting_to_a_full_queue_asks_to_retry),
      IN_PLACE(a_live_host_at_the_path_is_an_error),
      IN_PLACE(a_stale_socket_at_the_path_is_replaced),
      IN_PLACE(socket_of_a_dead_process_is_replaced_while_another_holds_it_open),
      IN_PLACE(file_that_is_not_a_socket_is_an_error_and_is_kept),
      IN_PLACE(invalid_socket_path_is_an_error), IN_PLACE(path_too_long_for_a_socket_address_works),
      IN_PLACE(one_of_many_concurrent_starts_listens),
      cmocka_unit_test(names_of_sockets_that_do_not_listen_yet_are_known),
      IN_PLACE(a_peer_of_another_user_is_not_ours));
