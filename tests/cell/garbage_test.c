/* Workers that send garbage, among workers that do not: each one ends only its own cell. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "actor.h"

#define LINK_FD 0

/* ---- The worker ---- */

/* Valid frames of a worker, from which garbage is made. */
static const char *const garbage_frames[] = {
    "{\"type\":\"item\",\"item\":{\"type\":\"text\",\"text\":\"a\\u0000\\u00e4\"}}",
    "{\"type\":\"item\",\"item\":{\"type\":\"image\",\"image_url\":"
    "\"data:image/png;base64,iVBORw0KGgo=\",\"detail\":\"low\"}}",
    "{\"type\":\"yield\"}",
    "{\"type\":\"idle\",\"timers\":1,\"stalled\":true}",
    "{\"type\":\"call\",\"call\":1,\"tool\":\"echo\",\"input\":{\"a\":[1,{\"b\":null}]}}",
    "{\"type\":\"call\",\"call\":2,\"tool\":\"sleep\",\"input\":{}}",
    "{\"type\":\"notify\",\"seq\":1,\"text\":\"n\"}",
    "{\"type\":\"settled\",\"error\":null,\"values\":{\"k\":1},\"deleted\":[\"j\"]}",
    "{\"type\":\"settled\",\"error\":{\"kind\":\"exception\",\"name\":\"E\",\"message\":\"m\","
    "\"stack\":\"s\"},\"values\":{},\"deleted\":[]}",
};

/* Returns false if the other side has closed. */
static bool garbage_send(const void *bytes, size_t size)
{
    return send(LINK_FD, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
}

/* Sends a frame unchanged, with some bytes changed, cut short, or with a wrong length. */
static bool garbage_send_one(struct bl_random *random)
{
    const char *frame =
        garbage_frames[bl_random_below(random, sizeof garbage_frames / sizeof *garbage_frames)];
    uint8_t head[BL_FRAME_HEAD_SIZE];
    char bytes[512];
    size_t size = strlen(frame), announced;

    memcpy(bytes, frame, size);
    if (bl_random_below(random, 3) == 0)
        for (uint64_t i = 0; i <= bl_random_below(random, 4); i++)
            bytes[bl_random_below(random, size)] = (char)bl_random_below(random, 256);
    if (bl_random_below(random, 8) == 0)
        size = bl_random_below(random, size) + 1;
    announced = bl_random_below(random, 12) == 0 ? bl_random_below(random, UINT32_MAX) : size;
    bl_frame_head(head, (uint32_t)announced);
    return garbage_send(head, sizeof head) && garbage_send(bytes, size);
}

/* Runs in place of a worker: reads the start frame, and sends garbage. */
int garbage_main(void)
{
    static const char ready[] = "\0\0\0\020{\"type\":\"ready\"}";
    struct bl_random random;
    uint64_t seed = 0;
    char bytes[4096];

    bl_random_bytes(&seed, sizeof seed);
    bl_random_seed(&random, seed);
    if (!garbage_send(ready, sizeof ready - 1) || recv(LINK_FD, bytes, sizeof bytes, 0) <= 0)
        return 0;
    for (uint64_t i = bl_random_below(&random, 40); i > 0; i--) {
        if (!garbage_send_one(&random))
            return 0;
        recv(LINK_FD, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    return 0;
}

/* ---- The host ---- */

/* Every second worker, by its number, sends garbage, and leaves a file that records it. */
static void use_garbage(struct house *house)
{
    char lines[1024], self[512];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);

    CHECK(size > 0);
    self[size > 0 ? size : 0] = '\0';
    snprintf(lines, sizeof lines,
             "if [ $(($$ %% 2)) = 0 ]; then : >'%s/garbage-'$$; exec '%s' --role garbage; fi\n"
             "exec '%s'\n",
             house->folder, self, getenv("BELAY_CELL_WORKER"));
    house_use_script(house, lines);
}

static bool sends_garbage(const struct house *house, int64_t pid)
{
    char path[128];

    snprintf(path, sizeof path, "%s/garbage-%lld", house->folder, (long long)pid);
    return access(path, F_OK) == 0;
}

enum {
    AT_ONCE = 6
};

struct tally {
    unsigned long garbage, lost, sound;
};

/* Runs some cells at once; those with a valid worker complete. */
static void run_some(struct house *house, unsigned long round, struct tally *tally)
{
    bool garbage[AT_ONCE];
    char id[48];

    for (unsigned i = 0; i < AT_ONCE; i++) {
        snprintf(id, sizeof id, "c-%lu-%u", round, i);
        house_warm(house, 1);
        CHECK_EQUAL(house_create_limited(house, id, "text('x'); text(await tools.echo({a: 1}));",
                                         20000, 0, 0),
                    0);
        while (house_worker_pid(house, id) == 0)
            bl_yield();
        garbage[i] = sends_garbage(house, house_worker_pid(house, id));
    }
    for (unsigned i = 0; i < AT_ONCE; i++) {
        snprintf(id, sizeof id, "c-%lu-%u", round, i);
        const char *text = house_finish(house, id);
        CHECK(text != NULL);
        const struct bl_cell_error *error =
            house->seen.type == BL_CELL_OBSERVE_COMPLETED ? house->seen.completed.error : NULL;
        if (!garbage[i]) {
            CHECK_EQUAL(house->seen.type, BL_CELL_OBSERVE_COMPLETED);
            CHECK(error == NULL && strcmp(text, "x{\"a\":1}") == 0);
        }
        tally->sound += !garbage[i];
        tally->garbage += garbage[i];
        tally->lost += garbage[i] && error != NULL && error->kind == BL_CELL_ERROR_WORKER_LOST;
        house_forget(house);
    }
}

static int among_garbage(struct house *house)
{
    uint64_t until_ns = bl_now_ns() + suite_rounds(1, 600) * BL_NS_PER_S;
    struct tally tally = {0};

    use_garbage(house);
    house->options.eager = true;
    house_open(house);
    for (unsigned long round = 0; bl_now_ns() < until_ns || tally.garbage == 0 || tally.sound == 0;
         round++)
        run_some(house, round, &tally);
    printf("%lu workers sent garbage, %lu of them were lost; %lu others completed\n", tally.garbage,
           tally.lost, tally.sound);
    CHECK(tally.lost > 0);
    CHECK_EQUAL(house->calls_begun, house->calls_ended);
    CHECK_EQUAL(house->host->undelivered, 0);
    house_close(house);
    return 0;
}

EMPTY_HOUSE_TEST(C50_workers_that_send_garbage_end_no_cell_but_their_own, among_garbage)

SUITE(garbage, cmocka_unit_test(C50_workers_that_send_garbage_end_no_cell_but_their_own));
