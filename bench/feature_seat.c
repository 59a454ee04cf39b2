/* The Players and the Coach of the benchmark of features: the smallest programs that suffice.
 * "player" does nothing and reports success, "writer" writes a file named after its task, "coach"
 * approves. "tree FOLDER" is a Player of three processes, one of which ignores SIGTERM; a file in
 * FOLDER shows that they run. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TREE_LIFE_S 60

static int say(const char *text)
{
    return write(STDOUT_FILENO, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : 1;
}

static int touch(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0666);
    if (fd < 0 || write(fd, name, strlen(name)) < 0)
        return 1;
    return close(fd);
}

static int be_tree(const char *folder, const char *task)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        return 1;
    alarm(TREE_LIFE_S);
    for (int i = 0; i < 2; i++) {
        if (fork() != 0)
            continue;
        alarm(TREE_LIFE_S);
        if (i == 0)
            signal(SIGTERM, SIG_IGN);
        if (write(ready[1], "r", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    for (int i = 0; i < 2; i++)
        if (read(ready[0], &byte, 1) != 1)
            return 1;
    if (touch(folder, task) != 0)
        return 1;
    for (;;)
        pause();
}

static int judge(const char *task)
{
    char verdict[512];
    const char *turn = getenv("BELAY_TURN");
    snprintf(verdict, sizeof verdict,
             "{\"task\":\"%s\",\"turn\":%s,\"decision\":\"approve\",\"rationale\":\"\","
             "\"criteria\":[{\"id\":\"AC-001\",\"result\":\"verified\",\"notes\":\"\"}],"
             "\"issues\":[]}",
             task, turn != NULL ? turn : "1");
    return say(verdict);
}

int main(int argument_count, char **arguments)
{
    const char *role = argument_count > 1 ? arguments[1] : "player";
    const char *task = getenv("BELAY_TASK");
    if (task == NULL)
        task = "T";
    if (strcmp(role, "coach") == 0)
        return judge(task);
    if (strcmp(role, "tree") == 0)
        return argument_count > 2 ? be_tree(arguments[2], task) : 2;
    if (strcmp(role, "writer") == 0 && touch(".", task) != 0)
        return 1;
    return say("{}");
}
