#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "tool/builtin/search.h"

/* ---- A tree, and the files found in it ------------------------------------------------------- */

struct scene {
    atomic_bool stopped;
    char top[64];
    atomic_ulong met;
    atomic_ulong sum; /* of hashes of paths: equal for equal sets */
    bool stops;       /* at the first file */
    atomic_ulong wrong;
    struct walk walk;
};

static uint64_t hash_path(struct bl_text path)
{
    return bl_hash((uint64_t[2]){1, 2}, path);
}

static void meet(void *context, const struct walk_file *file)
{
    struct scene *scene = context;
    atomic_fetch_add(&scene->met, 1);
    atomic_fetch_add(&scene->sum, hash_path(file->path));
    /* Assertions must not end a thread of the walk. */
    if (faccessat(file->folder, file->name, F_OK, 0) != 0 ||
        strlen(file->name) != file->path.size - file->name_offset)
        atomic_fetch_add(&scene->wrong, 1);
    if (scene->stops)
        atomic_store(&scene->stopped, true);
}

static void scene_begin(struct scene *scene)
{
    const char *temporary = getenv("TMPDIR");
    memset(scene, 0, sizeof *scene);
    snprintf(scene->top, sizeof scene->top, "%.40s/belay-walk-XXXXXX",
             temporary != NULL ? temporary : "/tmp");
    assert_non_null(mkdtemp(scene->top));
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

static void scene_end(struct scene *scene)
{
    nftw(scene->top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *scene_path(const struct scene *scene, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", scene->top, name);
    return path;
}

static void put(const struct scene *scene, const char *name, struct bl_text content)
{
    int fd = open(scene_path(scene, name), O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content.data, content.size), content.size);
    close(fd);
}

static void make_folder(const struct scene *scene, const char *name)
{
    assert_int_equal(mkdir(scene_path(scene, name), 0777), 0);
}

static void walk_with(struct scene *scene, unsigned threads, bool heavy)
{
    int fd = open(scene->top, O_RDONLY | O_DIRECTORY);
    atomic_store(&scene->met, 0);
    atomic_store(&scene->sum, 0);
    scene->walk = (struct walk){.top = scene->top,
                                .descriptor = fd,
                                .stopped = &scene->stopped,
                                .threads_max = threads,
                                .heavy = heavy,
                                .context = scene,
                                .take = meet};
    walk_run(&scene->walk);
    close(fd);
    assert_int_equal(scene->wrong, 0);
}

/* Creates nested folders with files in them; returns the number of files, and the sum of their
 * hashes. */
static unsigned long grow(struct scene *scene, struct bl_random *random, unsigned folders,
                          unsigned long *ret_sum)
{
    char names[200][160] = {""}, name[200];
    unsigned long files = 0;
    unsigned count = 1;
    *ret_sum = 0;
    while (count < folders) {
        const char *above = names[bl_random_below(random, count)];
        if (strlen(above) > 120)
            continue;
        snprintf(names[count], sizeof names[count], "%.120s%sfolder%u", above,
                 above[0] != '\0' ? "/" : "", count);
        make_folder(scene, names[count++]);
    }
    for (unsigned i = 0; i < count; i++) {
        uint64_t many = bl_random_below(random, 50);
        for (uint64_t j = 0; j < many; j++) {
            snprintf(name, sizeof name, "%.159s%sfile%u", names[i], names[i][0] != '\0' ? "/" : "",
                     (unsigned)j);
            put(scene, name, BL_TEXT(""));
            *ret_sum += hash_path(bl_text_from(name));
            files++;
        }
    }
    return files;
}

/* ---- Walks ----------------------------------------------------------------------------------- */

static void every_file_is_found_once_with_any_number_of_threads(void **state)
{
    (void)state;
    struct scene scene;
    struct bl_random random;
    unsigned long sum;
    bl_random_seed(&random, 3);
    scene_begin(&scene);
    unsigned long files = grow(&scene, &random, 25, &sum);
    unsigned long rounds = suite_rounds(5, 500);
    for (unsigned long round = 0; round < rounds; round++) {
        for (unsigned threads = 0; threads <= WALK_THREADS_MAX; threads++) {
            walk_with(&scene, threads, threads % 2 == 0);
            assert_int_equal(scene.met, files);
            assert_int_equal(scene.sum, sum);
            assert_int_equal(scene.walk.folders_unreadable, 0);
        }
    }
    scene_end(&scene);
}

static void links_are_not_followed_and_loops_end(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    make_folder(&scene, "a");
    put(&scene, "a/file", BL_TEXT(""));
    assert_int_equal(symlink("..", scene_path(&scene, "a/loop")), 0);
    assert_int_equal(symlink("/", scene_path(&scene, "out")), 0);
    assert_int_equal(symlink("a/file", scene_path(&scene, "link")), 0);
    assert_int_equal(symlink("nowhere", scene_path(&scene, "broken")), 0);
    assert_int_equal(mkfifo(scene_path(&scene, "pipe"), 0666), 0);
    walk_with(&scene, 2, true);
    assert_int_equal(scene.met, 1);
    assert_int_equal(scene.sum, hash_path(BL_TEXT("a/file")));
    scene_end(&scene);
}

static void git_folder_is_skipped(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    make_folder(&scene, ".git");
    put(&scene, ".git/config", BL_TEXT(""));
    make_folder(&scene, "a");
    put(&scene, "a/.git", BL_TEXT("gitdir: nowhere\n"));
    put(&scene, "a/.github", BL_TEXT(""));
    walk_with(&scene, 2, false);
    assert_int_equal(scene.met, 1);
    scene_end(&scene);
}

static void folders_larger_than_the_buffer_are_read_completely(void **state)
{
    (void)state;
    struct scene scene;
    char name[256];
    unsigned long expected = 0;
    scene_begin(&scene);
    make_folder(&scene, "large");
    for (unsigned i = 0; i < 700; i++) {
        snprintf(name, sizeof name, "large/%0200u.%s", i, i % 2 ? "c" : "o");
        put(&scene, name, BL_TEXT(""));
        expected += i % 2;
    }
    for (unsigned i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "large/folder%u", i);
        make_folder(&scene, name);
        snprintf(name, sizeof name, "large/folder%u/x", i);
        put(&scene, name, BL_TEXT(""));
    }
    put(&scene, "large/.gitignore", BL_TEXT("*.o\n"));
    /* Its rules are read once: an unreadable file is counted once. */
    assert_int_equal(symlink("nowhere", scene_path(&scene, "large/.ignore")), 0);
    for (unsigned threads = 1; threads <= 4; threads++) {
        walk_with(&scene, threads, true);
        assert_int_equal(scene.met, expected + 20 + 1);
        assert_int_equal(scene.walk.rules_unreadable, 1);
    }
    scene_end(&scene);
}

static void folders_that_cannot_be_read_are_counted(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    make_folder(&scene, "a");
    make_folder(&scene, "shut");
    put(&scene, "a/x", BL_TEXT(""));
    put(&scene, "shut/y", BL_TEXT(""));
    assert_int_equal(chmod(scene.top, 0755), 0);
    assert_int_equal(chmod(scene_path(&scene, "shut"), 0), 0);
    int before = setfsuid(geteuid() == 0 ? 65534 : geteuid());
    walk_with(&scene, 2, false);
    setfsuid((uid_t)before);
    assert_int_equal(scene.met, 1);
    assert_int_equal(scene.walk.folders_unreadable, 1);
    assert_int_equal(chmod(scene_path(&scene, "shut"), 0755), 0);
    scene_end(&scene);
}

static int walk_and_tell(void *argument)
{
    struct scene *scene = argument;
    walk_with(scene, 1, false);
    return (int)(scene->met * 10 + scene->walk.folders_unreadable);
}

static void folders_are_walked_without_openat2(void **state)
{
    static const struct {
        int code, met, unreadable;
    } cases[] = {{ENOSYS, 2, 0}, {EPERM, 2, 0}, {EAGAIN, 2, 0}, {EMFILE, 0, 1}};
    (void)state;
    struct scene scene;
    scene_begin(&scene);
    make_folder(&scene, "a");
    put(&scene, "a/x", BL_TEXT(""));
    put(&scene, "y", BL_TEXT(""));
    for (size_t i = 0; i < BL_COUNT(cases); i++)
        assert_int_equal(files_without_openat2(cases[i].code, walk_and_tell, &scene),
                         cases[i].met * 10 + cases[i].unreadable);
    scene_end(&scene);
}

static void a_stop_ends_the_walk_at_the_next_file(void **state)
{
    (void)state;
    struct scene scene;
    struct bl_random random;
    unsigned long sum;
    bl_random_seed(&random, 4);
    scene_begin(&scene);
    grow(&scene, &random, 12, &sum);
    for (unsigned i = 0; i < 40; i++) {
        scene.stops = true;
        atomic_store(&scene.stopped, false);
        walk_with(&scene, 1 + i % 4, i % 2 == 0);
        assert_in_range(scene.met, 1, 1 + i % 4);
    }
    walk_with(&scene, 4, true);
    assert_int_equal(scene.met, 0);
    scene_end(&scene);
}

static void *remove_all(void *argument)
{
    struct scene *scene = argument;
    while (atomic_load(&scene->met) == 0)
        sched_yield();
    nftw(scene->top, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return NULL;
}

static void meet_lightly(void *context, const struct walk_file *file)
{
    struct scene *scene = context;
    (void)file;
    atomic_fetch_add(&scene->met, 1);
}

static void files_removed_meanwhile_are_skipped(void **state)
{
    (void)state;
    struct bl_random random;
    bl_random_seed(&random, 5);
    for (unsigned long round = 0; round < suite_rounds(2, 200); round++) {
        struct scene scene;
        pthread_t remover;
        unsigned long sum;
        scene_begin(&scene);
        unsigned long files = grow(&scene, &random, 10, &sum);
        int fd = open(scene.top, O_RDONLY | O_DIRECTORY);
        scene.walk = (struct walk){.top = scene.top,
                                   .descriptor = fd,
                                   .stopped = &scene.stopped,
                                   .threads_max = 2,
                                   .context = &scene,
                                   .take = meet_lightly};
        assert_int_equal(pthread_create(&remover, NULL, remove_all, &scene), 0);
        walk_run(&scene.walk);
        atomic_fetch_add(&scene.met, 1); /* in case it was empty */
        pthread_join(remover, NULL);
        close(fd);
        assert_in_range(scene.met, 1, files + 1);
        assert_int_equal(scene.walk.folders_unreadable, 0);
        scene_end(&scene);
    }
}

/* ---- The shelf ------------------------------------------------------------------------------- */

static void shelf_keeps_the_first_items_in_any_order(void **state)
{
    (void)state;
    enum {
        ITEMS = 200
    };
    struct bl_random random;
    unsigned order[ITEMS];
    bl_random_seed(&random, 6);
    for (unsigned long round = 0; round < suite_rounds(50, 5000); round++) {
        uint64_t limit = 1 + bl_random_below(&random, 300);
        struct shelf shelf;
        shelf_init(&shelf, limit, SIZE_MAX);
        for (unsigned i = 0; i < ITEMS; i++)
            order[i] = i;
        for (unsigned i = ITEMS - 1; i > 0; i--) {
            unsigned other = (unsigned)bl_random_below(&random, i + 1), kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        for (unsigned i = 0; i < ITEMS; i++) {
            char path[16];
            snprintf(path, sizeof path, "p%03u", order[i]);
            struct shelf_item item = {.rank = order[i] < 10, /* the first ten by rank */
                                      .weight = 1 + order[i] % 3,
                                      .path = bl_text_from(path),
                                      .text = BL_TEXT("text")};
            if (shelf_wants(&shelf, item.rank, item.path))
                shelf_add(&shelf, &item);
        }
        shelf_sort(&shelf);
        uint64_t weight = 0;
        for (size_t i = 0; i < shelf.count; i++) {
            char path[32];
            snprintf(path, sizeof path, "p%03u", (unsigned)i);
            assert_true(bl_text_equal(shelf.items[i]->path, bl_text_from(path)));
            assert_true(weight < limit);
            weight += shelf.items[i]->weight;
        }
        assert_true(weight >= limit || shelf.count == ITEMS);
        shelf_done(&shelf);
    }
}

static void the_shelf_is_bounded_by_bytes_too(void **state)
{
    (void)state;
    struct shelf shelf;
    char path[16];
    shelf_init(&shelf, UINT64_MAX, 100);
    for (unsigned i = 100; i-- > 0;) {
        snprintf(path, sizeof path, "p%03u", i);
        shelf_add(&shelf, &(struct shelf_item){.path = bl_text_from(path)});
    }
    assert_int_equal(shelf.count, 20);
    shelf_sort(&shelf);
    assert_true(bl_text_equal(shelf.items[0]->path, BL_TEXT("p000")));
    shelf_done(&shelf);
}

SUITE(walk, cmocka_unit_test(every_file_is_found_once_with_any_number_of_threads),
      cmocka_unit_test(links_are_not_followed_and_loops_end),
      cmocka_unit_test(git_folder_is_skipped),
      cmocka_unit_test(folders_larger_than_the_buffer_are_read_completely),
      cmocka_unit_test(folders_that_cannot_be_read_are_counted),
      cmocka_unit_test(folders_are_walked_without_openat2),
      cmocka_unit_test(a_stop_ends_the_walk_at_the_next_file),
      cmocka_unit_test(files_removed_meanwhile_are_skipped),
      cmocka_unit_test(shelf_keeps_the_first_items_in_any_order),
      cmocka_unit_test(the_shelf_is_bounded_by_bytes_too));
