/* `belay acp` over standard streams, with the script model and a store on this disk. Measures the
 * time from the start of the process to the answer to `initialize`, prompts one after another, and
 * 64 and 100 sessions at once. Argument: path of belay (default: the one of this build).
 *
 * The baselines: `belay --version` for the start; for a prompt, the same line through `cat`, which
 * is the cost of pipes and the scheduler. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "report.h"

#define STARTS       100
#define PROMPTS      1000 /* one after another */
#define CROWD        64   /* sessions at once */
#define CROWD_ROUNDS 20   /* prompts of each */
#define THRONG       100  /* sessions, more than run at once */
#define WANTED_MS    15
#define LINE_SIZE    65536
#define PATIENCE_MS  60000

static char folder[128], belay_path[4096], provider[256];

/* ---- A folder of its own --------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_folder(void)
{
    static const char *const variables[] = {"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME",
                                            "XDG_RUNTIME_DIR"};
    const char *above = getenv("TMPDIR");
    char path[200];
    snprintf(folder, sizeof folder, "%.90s/belay-bench-rpc-XXXXXX", above != NULL ? above : "/tmp");
    if (mkdtemp(folder) == NULL)
        report_die("cannot make a folder");
    atexit(remove_folder);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        snprintf(path, sizeof path, "%s/%zu", folder, i);
        if (mkdir(path, 0700) != 0)
            report_die("cannot make a folder");
        setenv(variables[i], path, 1);
    }
    snprintf(path, sizeof path, "%s/script.yaml", folder);
    FILE *file = fopen(path, "we");
    if (file == NULL || fputs("replies: [{say: done}]\nrepeat: true\n", file) < 0 ||
        fclose(file) != 0)
        report_die("cannot write the script");
    snprintf(provider, sizeof provider, "script:%s", path);
}

/* ---- A program on two pipes ------------------------------------------------------------------ */

struct peer {
    pid_t pid;
    int to, from;
    char data[LINE_SIZE];
    size_t used;  /* in `data` */
    size_t taken; /* of it */
};

static void peer_start(struct peer *peer, char *const *words)
{
    posix_spawn_file_actions_t actions;
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
        report_die("no pipes");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    if (posix_spawnp(&peer->pid, words[0], &actions, NULL, words, environ) != 0)
        report_die("cannot start the program");
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    peer->to = to[1];
    peer->from = from[0];
    peer->used = peer->taken = 0;
}

static void peer_end(struct peer *peer)
{
    int status;
    close(peer->to);
    if (waitpid(peer->pid, &status, 0) != peer->pid || status != 0)
        report_die("the program failed");
    close(peer->from);
}

static void peer_write(struct peer *peer, const char *text)
{
    size_t size = strlen(text);
    while (size > 0) {
        ssize_t count = write(peer->to, text, size);
        if (count < 0 && errno != EINTR)
            report_die("the program takes nothing");
        if (count > 0) {
            text += count;
            size -= (size_t)count;
        }
    }
}

/* Returns the next line without its end. Valid until the next call. */
static const char *peer_line(struct peer *peer)
{
    for (;;) {
        char *from = peer->data + peer->taken;
        char *end = memchr(from, '\n', peer->used - peer->taken);
        if (end != NULL) {
            *end = '\0';
            peer->taken = (size_t)(end + 1 - peer->data);
            return from;
        }
        memmove(peer->data, from, peer->used - peer->taken);
        peer->used -= peer->taken;
        peer->taken = 0;
        if (peer->used == sizeof peer->data)
            report_die("a line is too long");
        struct pollfd wanted = {.fd = peer->from, .events = POLLIN};
        if (poll(&wanted, 1, PATIENCE_MS) != 1)
            report_die("no answer");
        ssize_t count = read(peer->from, peer->data + peer->used, sizeof peer->data - peer->used);
        if (count <= 0)
            report_die("the program went away");
        peer->used += (size_t)count;
    }
}

/* Returns the id of the request that the line answers, or -1 if it is not an answer. */
static long answered(const char *line)
{
    const char *id = strstr(line, "\"id\":");
    if (id == NULL || strstr(line, "\"method\":") != NULL)
        return -1;
    if (strstr(line, "\"error\":{\"code\"") != NULL)
        report_die(line);
    return strtol(id + strlen("\"id\":"), NULL, 10);
}

static const char *await_answer(struct peer *peer, long id)
{
    for (;;) {
        const char *line = peer_line(peer);
        if (answered(line) == id)
            return line;
    }
}

/* ---- ACP ------------------------------------------------------------------------------------- */

static void acp_start(struct peer *peer)
{
    static char command[] = "acp", option[] = "--provider";
    peer_start(peer, (char *const[]){belay_path, command, option, provider, NULL});
    peer_write(peer, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":"
                     "{\"protocolVersion\":1}}\n");
    await_answer(peer, 0);
}

static void acp_session(struct peer *peer, char *ret_id, size_t size)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/new\",\"params\":{\"cwd\":\"%s\","
             "\"mcpServers\":[]}}\n",
             folder);
    peer_write(peer, text);
    const char *answer = strstr(await_answer(peer, 1), "\"sessionId\":\"");
    if (answer == NULL)
        report_die("no session");
    answer += strlen("\"sessionId\":\"");
    snprintf(ret_id, size, "%.*s", (int)strcspn(answer, "\""), answer);
}

static void acp_prompt(struct peer *peer, const char *session, long id)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"method\":\"session/prompt\",\"params\":"
             "{\"sessionId\":\"%.79s\",\"prompt\":[{\"type\":\"text\",\"text\":\"hello\"}]}}\n",
             id, session);
    peer_write(peer, text);
}

static double percentile(double *values, size_t count, double share)
{
    report_median(values, count); /* sorts */
    return values[(size_t)((double)(count - 1) * share)];
}

static double resident_mib(pid_t pid)
{
    char path[64], line[256];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        report_die("no /proc");
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0)
            kib = strtod(line + 6, NULL);
    }
    fclose(file);
    return kib / 1024;
}

/* ---- Figures --------------------------------------------------------------------------------- */

static double version_ms(void)
{
    static char option[] = "--version";
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    double from_ns = report_wall_ns();
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&child, belay_path, &actions, NULL, (char *const[]){belay_path, option, NULL},
                    environ) != 0 ||
        waitpid(child, &status, 0) != child || status != 0)
        report_die("belay --version failed");
    posix_spawn_file_actions_destroy(&actions);
    return (report_wall_ns() - from_ns) / 1e6;
}

static void measure_start(struct peer *peer)
{
    double ours[STARTS], theirs[STARTS];
    for (int i = 0; i < STARTS; i++) {
        theirs[i] = version_ms();
        double from_ns = report_wall_ns();
        acp_start(peer);
        ours[i] = (report_wall_ns() - from_ns) / 1e6;
        peer_end(peer);
    }
    report_line("process start to initialize answered", report_median(ours, STARTS), "ms",
                "belay --version", report_median(theirs, STARTS));
    report_line("process start to initialize answered, p99", percentile(ours, STARTS, 0.99), "ms",
                "wanted", WANTED_MS);
}

/* The round trip of the same line through a program that does nothing. */
static double echo_ms(struct peer *peer, double *values, size_t count)
{
    static char cat[] = "cat";
    peer_start(peer, (char *const[]){cat, NULL});
    for (size_t i = 0; i < count; i++) {
        double from_ns = report_wall_ns();
        acp_prompt(peer, "s-00000000000000000000", (long)i);
        peer_line(peer);
        values[i] = (report_wall_ns() - from_ns) / 1e6;
    }
    peer_end(peer);
    return report_median(values, count);
}

static void measure_prompts(struct peer *peer)
{
    static double ours[PROMPTS], theirs[PROMPTS];
    char session[80];
    double echo = echo_ms(peer, theirs, PROMPTS), total_ms = 0;
    acp_start(peer);
    acp_session(peer, session, sizeof session);
    for (int i = 0; i < PROMPTS; i++) {
        double from_ns = report_wall_ns();
        acp_prompt(peer, session, 100 + i);
        if (strstr(await_answer(peer, 100 + i), "\"end_turn\"") == NULL)
            report_die("a prompt did not complete");
        ours[i] = (report_wall_ns() - from_ns) / 1e6;
        total_ms += ours[i];
    }
    peer_end(peer);
    report_line("session/prompt, one after another", report_median(ours, PROMPTS) * 1e3, "us",
                "cat", echo * 1e3);
    report_line("session/prompt, one after another, p99", percentile(ours, PROMPTS, 0.99) * 1e3,
                "us", "cat, p99", percentile(theirs, PROMPTS, 0.99) * 1e3);
    report_line("session/prompt, one after another, mean", total_ms * 1e3 / PROMPTS, "us", "cat",
                echo * 1e3);
}

/* All sessions send a prompt at once, and the next as soon as each is answered. Measures the time
 * of one prompt over all sessions. */
static void measure_crowd(struct peer *peer, size_t sessions, long rounds, double alone_ms)
{
    static char ids[THRONG][80];
    static double from_ns[THRONG], took_ms[THRONG * CROWD_ROUNDS];
    long left[THRONG], total = (long)sessions * rounds, done = 0;
    char name[96];
    acp_start(peer);
    double idle_mib = resident_mib(peer->pid);
    for (size_t i = 0; i < sessions; i++)
        acp_session(peer, ids[i], sizeof ids[i]);
    double begin_ns = report_wall_ns();
    for (size_t i = 0; i < sessions; i++) {
        left[i] = rounds;
        from_ns[i] = report_wall_ns();
        acp_prompt(peer, ids[i], 1000 + (long)i);
    }
    while (done < total) {
        const char *line = peer_line(peer);
        long number = answered(line) - 1000;
        if (number < 0)
            continue;
        size_t i = (size_t)number % sessions;
        if (strstr(line, "\"end_turn\"") == NULL)
            report_die("a prompt did not complete");
        took_ms[done++] = (report_wall_ns() - from_ns[i]) / 1e6;
        from_ns[i] = report_wall_ns();
        if (--left[i] > 0)
            acp_prompt(peer, ids[i], 1000 + number + (long)sessions);
    }
    double all_ms = (report_wall_ns() - begin_ns) / 1e6;
    double mib = resident_mib(peer->pid);
    peer_end(peer);
    snprintf(name, sizeof name, "session/prompt in %zu sessions at once, each", sessions);
    report_line(name, all_ms / (double)total, "ms", "one after another", alone_ms);
    snprintf(name, sizeof name, "session/prompt in %zu sessions at once, p99", sessions);
    report_line(name, percentile(took_ms, (size_t)total, 0.99), "ms", "alone, times sessions",
                alone_ms * (double)sessions);
    snprintf(name, sizeof name, "memory of %zu sessions, each", sessions);
    report_line(name, (mib - idle_mib) * 1024 / (double)sessions, "KiB", "belay acp without one",
                idle_mib * 1024);
}

/* The median time of a prompt without other sessions. */
static double alone_ms(struct peer *peer)
{
    double values[100];
    char session[80];
    acp_start(peer);
    acp_session(peer, session, sizeof session);
    for (int i = 0; i < 100; i++) {
        double from_ns = report_wall_ns();
        acp_prompt(peer, session, 100 + i);
        await_answer(peer, 100 + i);
        values[i] = (report_wall_ns() - from_ns) / 1e6;
    }
    peer_end(peer);
    return report_median(values, 100);
}

int main(int argument_count, char **arguments)
{
    static struct peer peer;
    signal(SIGPIPE, SIG_IGN);
    snprintf(belay_path, sizeof belay_path, "%s",
             argument_count > 1 ? arguments[1] : BELAY_BUILD_ROOT "/belay");
    make_folder();
    measure_start(&peer);
    measure_prompts(&peer);
    double alone = alone_ms(&peer);
    measure_crowd(&peer, CROWD, CROWD_ROUNDS, alone);
    measure_crowd(&peer, THRONG, 2, alone);
    return 0;
}
