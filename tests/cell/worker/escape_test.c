/* Attempts to escape: from cell code, and from below it, where a hole in the engine would lead. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/worker/lockdown.h"
#include "rig.h"

/* ---- Below the engine ---- */

static const char *const nowhere[] = {"/bin/true", NULL};
static char scratch[256];

#define REFUSED(...)                                                                               \
    {                                                                                              \
#__VA_ARGS__,                                                                              \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define POINTER(p) (long)(intptr_t)(p)

/* Calls that would be harmless if they succeeded. */
static const struct {
    const char *name;
    long arguments[7];
} refused_calls[] = {
    REFUSED(SYS_openat, AT_FDCWD, POINTER("/etc/passwd"), O_RDONLY),
    REFUSED(SYS_openat, AT_FDCWD, POINTER("/proc/self/maps"), O_RDONLY),
    REFUSED(SYS_openat, AT_FDCWD, POINTER("/proc/self/mem"), O_RDWR),
    REFUSED(SYS_openat, AT_FDCWD, POINTER("/tmp/belay-escape"), O_WRONLY | O_CREAT, 0600),
    REFUSED(SYS_openat, AT_FDCWD, POINTER("/tmp"), O_TMPFILE | O_RDWR, 0600),
    REFUSED(SYS_openat2, AT_FDCWD, POINTER("/etc/passwd"), POINTER(scratch), 24),
    REFUSED(SYS_readlinkat, AT_FDCWD, POINTER("/proc/self/exe"), POINTER(scratch), 64),
    REFUSED(SYS_newfstatat, AT_FDCWD, POINTER("/etc/passwd"), POINTER(scratch), 0),
    REFUSED(SYS_statx, AT_FDCWD, POINTER("/etc/passwd"), 0, 0, POINTER(scratch)),
    REFUSED(SYS_faccessat, AT_FDCWD, POINTER("/etc/passwd"), R_OK),
    REFUSED(SYS_mkdirat, AT_FDCWD, POINTER("/tmp/belay-escape"), 0700),
    REFUSED(SYS_unlinkat, AT_FDCWD, POINTER("/tmp/belay-escape"), 0),
    REFUSED(SYS_symlinkat, POINTER("/etc"), AT_FDCWD, POINTER("/tmp/belay-escape")),
    REFUSED(SYS_truncate, POINTER("/tmp/belay-escape"), 0),
    REFUSED(SYS_getdents64, 0, POINTER(scratch), sizeof scratch),
    REFUSED(SYS_chdir, POINTER("/")),
    REFUSED(SYS_chroot, POINTER("/")),
    REFUSED(SYS_getcwd, POINTER(scratch), sizeof scratch),
    REFUSED(SYS_mount, POINTER("none"), POINTER("/nowhere"), POINTER("tmpfs"), 0, 0),
    REFUSED(SYS_umount2, POINTER("/nowhere"), 0),
    REFUSED(SYS_name_to_handle_at, AT_FDCWD, POINTER("/"), POINTER(scratch), POINTER(scratch), 0),
    REFUSED(SYS_inotify_init1, 0),
    REFUSED(SYS_socket, AF_INET, SOCK_STREAM, 0),
    REFUSED(SYS_socket, AF_INET6, SOCK_DGRAM, 0),
    REFUSED(SYS_socket, AF_UNIX, SOCK_STREAM, 0),
    REFUSED(SYS_socket, AF_NETLINK, SOCK_RAW, 0),
    REFUSED(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, POINTER(scratch)),
    REFUSED(SYS_connect, 0, POINTER(scratch), 16),
    REFUSED(SYS_bind, 0, POINTER(scratch), 16),
    REFUSED(SYS_listen, 0, 1),
    REFUSED(SYS_accept4, 0, 0, 0, 0),
    REFUSED(SYS_sendto, 0, POINTER(scratch), 1, 0, 0, 0),
    REFUSED(SYS_sendmsg, 0, POINTER(scratch), 0),
    REFUSED(SYS_recvmsg, 0, POINTER(scratch), 0),
    REFUSED(SYS_execve, POINTER("/bin/true"), POINTER(nowhere), 0),
    REFUSED(SYS_execveat, AT_FDCWD, POINTER("/bin/true"), POINTER(nowhere), 0, 0),
    REFUSED(SYS_clone, SIGCHLD, 0, 0, 0, 0),
    REFUSED(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0),
    REFUSED(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0),
    REFUSED(SYS_clone3, POINTER(scratch), 88),
#if defined(SYS_fork)
    REFUSED(SYS_fork, 0),
    REFUSED(SYS_vfork, 0),
    REFUSED(SYS_open, POINTER("/etc/passwd"), O_RDONLY),
    REFUSED(SYS_stat, POINTER("/etc/passwd"), POINTER(scratch)),
#endif
    REFUSED(SYS_unshare, CLONE_NEWUSER),
    REFUSED(SYS_setns, 0, 0),
    REFUSED(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0),
    REFUSED(SYS_process_vm_readv, 1, POINTER(scratch), 1, POINTER(scratch), 1, 0),
    REFUSED(SYS_pidfd_open, 1, 0),
    REFUSED(SYS_kill, 1, 0),
    REFUSED(SYS_kill, 0, 0),
    REFUSED(SYS_tkill, 1, 0),
    REFUSED(SYS_tgkill, 1, 1, 0),
    REFUSED(SYS_rt_sigqueueinfo, 1, 0, POINTER(scratch)),
    REFUSED(SYS_wait4, -1, 0, WNOHANG, 0),
    REFUSED(SYS_prlimit64, 1, RLIMIT_NOFILE, 0, POINTER(scratch)),
    REFUSED(SYS_setpriority, PRIO_PROCESS, 0, 0),
    REFUSED(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    REFUSED(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0),
    REFUSED(SYS_seccomp, 0, 0, 0),
    REFUSED(SYS_setuid, 0),
    REFUSED(SYS_capset, POINTER(scratch), POINTER(scratch)),
    REFUSED(SYS_bpf, 0, POINTER(scratch), 16),
    REFUSED(SYS_perf_event_open, POINTER(scratch), 0, -1, -1, 0),
    REFUSED(SYS_userfaultfd, 0),
    REFUSED(SYS_io_uring_setup, 1, POINTER(scratch)),
    REFUSED(SYS_memfd_create, POINTER("x"), 0),
    REFUSED(SYS_pipe2, POINTER(scratch), 0),
    REFUSED(SYS_eventfd2, 0, 0),
    REFUSED(SYS_epoll_create1, 0),
    REFUSED(SYS_dup, 0),
    REFUSED(SYS_fcntl, 0, F_DUPFD, 0),
    REFUSED(SYS_ioctl, 0, 0, 0),
    REFUSED(SYS_shmget, 0, 4096, 0600),
    REFUSED(SYS_mq_open, POINTER("/x"), O_CREAT | O_RDWR, 0600, 0),
    REFUSED(SYS_keyctl, 0, 0, 0),
    REFUSED(SYS_uname, POINTER(scratch)),
    REFUSED(SYS_sched_setaffinity, 0, 8, POINTER(scratch)),
    REFUSED(SYS_mbind, 0, 0, 0, 0, 0),
    REFUSED(SYS_personality, 0),
    REFUSED(SYS_syslog, 3, 0, 0),
};

static bool is_refused(const long a[7])
{
    errno = 0;
    long result = syscall(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    /* An unexpected child must not continue as this test. */
    if (result == 0 && (a[0] == SYS_clone || getppid() == 0))
        _exit(3);
    return result == -1 &&
           (errno == EPERM || errno == EACCES || (errno == ENOSYS && a[0] == SYS_clone3));
}

/* Runs in the child. Returns 0 if everything is refused and everything needed works. */
static int try_all(int report)
{
    char line[200];
    int wrong = 0;
    int open_before = open("/etc/passwd", O_RDONLY);
    if (lockdown_apply(report) < 0)
        return 2;
    for (size_t i = 0; i < BL_COUNT(refused_calls); i++) {
        if (is_refused(refused_calls[i].arguments))
            continue;
        int size = snprintf(line, sizeof line, "%s: errno %d\n", refused_calls[i].name, errno);
        wrong += write(report, line, (size_t)size) > 0;
    }
    /* Descriptors that were open are closed. */
    wrong += read(open_before, line, 1) != -1 || errno != EBADF;
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    wrong += memory == MAP_FAILED || syscall(SYS_getpriority, PRIO_PROCESS, 0) != -1;
    return wrong == 0 ? 0 : 1;
}

static void the_kernel_refuses_files_network_and_processes(void **state)
{
    int ends[2], status = -1;
    char said[4096];
    size_t size = 0;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(try_all(ends[1]));
    close(ends[1]);
    for (ssize_t count; size < sizeof said - 1; size += (size_t)count)
        if ((count = read(ends[0], said + size, sizeof said - 1 - size)) <= 0)
            break;
    said[size] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (size > 0)
        print_error("%s", said);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

RIG_TEST(a_ready_worker_is_locked_down)
{
    struct rig rig;
    char path[64], target[64];
    if (rig_start(&rig)) {
        int pid = (int)bl_warden_pid(rig.warden);
        CHECK_EQUAL(rig_status(&rig, "Seccomp"), 2);
        CHECK_EQUAL(rig_status(&rig, "NoNewPrivs"), 1);
        CHECK_EQUAL(getpriority(PRIO_PROCESS, (id_t)pid), 10);
        for (int fd = 0; fd < 16; fd++) {
            snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
            ssize_t size = readlink(path, target, sizeof target - 1);
            if (size < 0)
                continue;
            target[size] = '\0';
            CHECK(strncmp(target, "socket:", 7) == 0 || strcmp(target, "/dev/null") == 0 ||
                  strcmp(target, "anon_inode:[eventfd]") == 0 || strstr(target, "/statm") != NULL);
        }
    }
    rig_done(&rig);
    return 0;
}

/* ---- From cell code ---- */

/* Each expression must throw or be undefined: the way does not exist. */
static const char ways_out[] =
    "const ways = [\n"
    "  () => require('fs'), () => process.exit(1), () => process.binding('fs'), () => module, () "
    "=> exports,\n"
    "  () => global, () => window, () => self, () => Deno, () => Bun, () => "
    "fetch('http://host.test'),\n"
    "  () => new XMLHttpRequest(), () => new WebSocket('ws://host.test'), () => new Worker('x'),\n"
    "  () => print(1), () => read('/etc/passwd'), () => readFile('/etc/passwd'), () => "
    "loadString('x'),\n"
    "  () => run('/etc/passwd'), () => quit(), () => gc(), () => $vm, () => $262, () => Loader, () "
    "=> java,\n"
    "  () => debug(1), () => jscStack(), () => drainMicrotasks(), () => importScripts('x'), () => "
    "std, () => os,\n"
    "  () => new WebAssembly.Memory({ initial: 1 }), () => new SharedArrayBuffer(8), () => "
    "Atomics.wait,\n"
    "  () => setInterval, () => queueMicrotask, () => structuredClone, () => performance, () => "
    "crypto, () => navigator,\n"
    "  () => Function('return process')(), () => Function('return this')().process.exit(),\n"
    "  () => (0, eval)('require')('child_process'), () => text.constructor('return process')(),\n"
    "  () => tools.t.constructor('return require')()('fs'), () => console.log.constructor('return "
    "global')(),\n"
    "  () => (function* () {}).constructor('yield process')().next().value,\n"
    "  () => exit.call.call(() => process), () => Reflect.construct(text, []), () => new "
    "text('x'), () => new tools.t({}),\n"
    "  () => (async () => {}).constructor('})(); process; (async function() {'),\n"
    "  () => Function('}); process; (function() {'), () => Function('/*', '*/){'), () => "
    "Function('a = process', 'return a')(),\n"
    "  () => text.caller, () => text.arguments, () => (function () { return arguments.callee "
    "})(),\n"
    "  () => (function f() { return f.caller })(), () => Error.prepareStackTrace.x, () => "
    "[].constructor.constructor('return Deno')(),\n"
    "  () => Object.getOwnPropertyDescriptor(globalThis, 'text').set(1), () => "
    "globalThis.__proto__.process.env,\n"
    "  () => Object.setPrototypeOf(text, null), () => Object.setPrototypeOf(tools, {}), () => "
    "Object.setPrototypeOf(console, {}),\n"
    "  () => { ALL_TOOLS.push({}) }, () => { ALL_TOOLS[0].name = 'x' }, () => { tools.bash = 1 }, "
    "() => { ALL_TOOLS.length = 0 },\n"
    "];\n"
    "for (const way of ways) { let got; try { got = way() } catch { continue } if (got !== "
    "undefined) text(`${way}: ${String(got)}`) }\n";

RIG_TEST(cell_code_finds_no_way_out)
{
    const struct rig_cell cell = {
        .source = ways_out,
        .tools = "[{\"name\":\"t\",\"description\":\"\",\"input\":\"object\"}]"};
    CHECK(rig_cell_says(&cell, ""));
    return 0;
}

RIG_TEST(a_source_cannot_close_its_wrapper)
{
    static const char *const sources[] = {
        "}); text('out'); (async function () {",
        "}); text('out'); (async () => {",
        "} catch {} text('out'); try {",
        "}catch(e){}finally{}})(),text('out'),(async function(){try{",
        "}}\ntext('out');{{",
        "text('in')}//",
        "*/ text('out') /*",
        "text('in') /*",
        "`",
        "})()//",
        "\\u007d)",
    };
    for (size_t i = 0; i < BL_COUNT(sources); i++) {
        const struct rig_cell cell = {.source = sources[i]};
        struct rig_run run;
        rig_run(&run, &cell);
        CHECK_EQUAL(run.items, 0);
        CHECK(bl_text_equal(rig_error(&run, "kind"), BL_TEXT("syntax")));
        rig_run_done(&run);
    }
    return 0;
}

/* Changes to the language's own objects affect only the cell itself. */
RIG_TEST(C45_replaced_built_ins_do_no_harm)
{
    struct rig rig;
    const struct rig_cell cell = {
        .source =
            "const evil = () => { throw new Error('evil') };\n"
            "const protos = [Function.prototype, String.prototype, RegExp.prototype, "
            "Map.prototype,\n"
            "  (async () => {})().constructor.prototype, Set.prototype, Error.prototype, "
            "Array.prototype];\n"
            "JSON.stringify = JSON.parse = evil; globalThis.Promise = evil; globalThis.String = "
            "evil;\n"
            "globalThis.Error = globalThis.TypeError = globalThis.RangeError = evil; Object.freeze "
            "= Object.defineProperty = evil;\n"
            "Reflect.apply = Reflect.defineProperty = evil; Symbol.prototype.toString = evil;\n"
            "for (let i = 0; i < 8; i++) { const keys = Reflect.ownKeys(protos[i]);\n"
            "  for (let k = 0; k < keys.length; k++)\n"
            "    if (keys[k] !== 'constructor') try { protos[i][keys[k]] = evil } catch {} }\n"
            "store('k', { a: [1] }); text(load('k').a[0]); text({ b: 2 }); console.log('c', { d: "
            "[3] });\n"
            "image('data:image/png;base64,AAAA'); notify('n'); yield_control();\n"
            "try { text({ get x() { throw 5 } }) } catch (e) { text(e) }\n"
            "try { store('', 1) } catch (e) { text(e.message) }\n"
            "try { await tools.t('x') } catch (e) { text(e.message) }\n"
            "const r = await tools.t({ q: 1 }); text(r.list);\n"
            "try { await tools.t({}) } catch (e) { text(e.kind + e.tool) }\n"
            "await { then: f => setTimeout(f, 1) }; text('end')",
        .tools = "[{\"name\":\"t\",\"description\":\"\",\"input\":\"object\"}]"};
    static const char *const expected[] = {
        "1",
        "{\"b\":2}",
        "c {\"d\":[3]}",
        "",
        "5",
        "store: the key must not be empty",
        "tools.t takes an object",
        "[1]",
        "deniedt",
        "end",
    };
    if (rig_start(&rig)) {
        size_t items = 0;
        unsigned calls = 0;
        const struct bl_json *frame, *settled = NULL;
        rig_give(&rig, &cell);
        while ((frame = rig_next(&rig)) != NULL) {
            struct bl_text type = bl_json_text(bl_json_get(frame, BL_TEXT("type")));
            struct bl_text text = bl_json_text(bl_json_pointer(frame, BL_TEXT("/item/text")));
            if (bl_text_equal(type, BL_TEXT("item"))) {
                if (!CHECK(items < BL_COUNT(expected) &&
                           bl_text_equal(text, bl_text_from(expected[items]))))
                    fprintf(stderr, "item %zu: %.*s\n", items, BL_TEXT_ARG(text));
                items++;
            } else if (bl_text_equal(type, BL_TEXT("call"))) {
                rig_send(&rig, calls++ == 0
                                   ? "{\"type\":\"result\",\"call\":1,\"ok\":{\"list\":[1]}}"
                                   : "{\"type\":\"result\",\"call\":2,\"err\":{\"kind\":\"denied\","
                                     "\"message\":\"m\"}}");
            } else if (bl_text_equal(type, BL_TEXT("settled"))) {
                settled = frame;
            }
        }
        CHECK_EQUAL(items, BL_COUNT(expected));
        CHECK(bl_json_is(bl_json_get(settled, BL_TEXT("error")), BL_JSON_NULL));
        CHECK(bl_json_pointer(settled, BL_TEXT("/values/k/a/0")) != NULL);
    }
    rig_done(&rig);
    return 0;
}

/* Setters and getters that wait on Object.prototype, and promises that never call back. */
RIG_TEST(traps_on_prototypes_see_no_internal_values)
{
    CHECK(rig_says("let seen = ''; const { defineProperty } = Object;\n"
                   "for (const key of ['type', 'ok', 'err', 'kind', 'tool', 'message', 'text', "
                   "'item', 'error', 'compile', 'detail',\n"
                   "    'image_url', 'indent', 'lines', 'length2', '0', '1', '2'])\n"
                   "  defineProperty(Object.prototype, key, { configurable: true, set(v) { seen += "
                   "'s' + key }, get() { seen += 'g' + key } });\n"
                   "text('a'); console.log('b', 1); store('k', 1); load('k'); setTimeout(() => {}, "
                   "1, 2, 3); yield_control();\n"
                   "try { text(text) } catch {} try { store('', 1) } catch {}\n"
                   "text(seen === '' ? 'nothing' : seen)",
                   "a\nb 1\nundefined\nnothing\n"));
    CHECK(rig_says(
        "const P = (async () => {})().constructor; P.prototype.then = () => {};\n"
        "Object.defineProperty(P, Symbol.species, { get() { throw 1 } });\n"
        "Object.defineProperty(P.prototype, 'constructor', { get() { throw 2 } }); text('done')",
        "done\n"));
    CHECK(rig_fails("Error.stackTraceLimit = 0; Error.prototype.toString = () => { throw 1 };\n"
                    "Error.captureStackTrace = null; throw new TypeError('still told')",
                    "exception", "TypeError", "still told"));
    return 0;
}

SUITE(escape, cmocka_unit_test(the_kernel_refuses_files_network_and_processes),
      cmocka_unit_test(a_ready_worker_is_locked_down), cmocka_unit_test(cell_code_finds_no_way_out),
      cmocka_unit_test(a_source_cannot_close_its_wrapper),
      cmocka_unit_test(C45_replaced_built_ins_do_no_harm),
      cmocka_unit_test(traps_on_prototypes_see_no_internal_values));
