"""A copy of the checkout in which faults are planted: build it, run its tests where they can do no harm.

A planted fault may make a warden kill strangers or a tool write anywhere. So tests run in PID and mount
namespaces of their own: everything they start ends with them, and the file system is read-only except for
the copy itself, /tmp, /var/tmp and /run."""
import json
import os
import resource
import shutil
import signal
import subprocess
import time

# A patch whose calls no longer fit does not compile.
BUILD_OPTIONS = ["--buildtype=plain", "-Dc_args=-O1 -g0 -Werror=incompatible-pointer-types -Werror=int-conversion",
                 "-Dtests=true", "-Db_lto=false", "--wrap-mode=nofallback"]
PROGRAMS = ["belay-warden"]  # besides what a suite says that it depends on
# What a slow moment of the machine may add to a test that took so long without a fault.
SLOWDOWN, SLOWDOWN_S = 4, 20
OUTPUT_LINES = 15  # of a failed build or test, to show

ISOLATE = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t tmpfs tmpfs /tmp && chmod 1777 /tmp
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/tmp && chmod 1777 /var/tmp
mount -o remount,bind,ro /
mkdir -p /tmp/home; export HOME=/tmp/home
cd "$1"; shift
set +e
"$@" # not exec: the first process of the namespace adopts orphans, which is not what a test expects
exit $?
"""


class Broken(Exception):
    """The copy does not build, or its tests fail without a fault."""


class Copy:
    """One copy of the checkout with a build directory of its own; several can work at once."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.build = os.path.join(self.folder, "build")
        self.took_s = {}
        self._update()
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            self._call(["meson", "setup", self.build, self.folder] + BUILD_OPTIONS)
        tests = json.loads(subprocess.check_output(["meson", "introspect", self.build, "--tests"]))
        self.tests = {test["name"]: test for test in tests}

    def _call(self, words):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Broken(last_lines(done.stdout))

    def _update(self):
        """Makes the copy's files those of the checkout; what is the same keeps its time, so little is built."""
        listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard", "-z"], text=True)
        names = {name for name in listed.split("\0") if name and os.path.exists(name)}
        for name in names:
            target = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.islink(name):
                if not os.path.islink(target):
                    os.symlink(os.readlink(name), target)
            elif not os.path.exists(target) or read(name) != read(target):
                shutil.copy(name, target)
        for place, folders, files in os.walk(self.folder):
            if place == self.folder:
                folders[:] = [folder for folder in folders if folder != "build"]
            for file in files:
                path = os.path.join(place, file)
                if os.path.relpath(path, self.folder) not in names:
                    os.unlink(path)

    def compile(self, suites, extra=()):
        """Builds what these suites need. False: it does not compile."""
        targets = set(PROGRAMS) | set(extra)
        for suite in suites:
            test = self.tests[suite]
            targets.add(os.path.relpath(test["cmd"][0], self.build))
            targets.update(os.path.relpath(path, self.build) for path in self._needed(test))
        done = subprocess.run(["ninja", "-C", self.build] + sorted(targets), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        self.log = done.stdout
        return done.returncode == 0

    def _needed(self, test):
        if not hasattr(self, "_files"):
            targets = json.loads(subprocess.check_output(["meson", "introspect", self.build, "--targets"]))
            self._files = {target["id"]: target["filename"] for target in targets}
        return [path for name in test.get("depends", []) for path in self._files.get(name, [])]

    def run(self, words, environment, limit_s):
        """Runs a command in the namespaces. Returns its exit code (124: it did not end) and what it printed."""
        isolated = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", ISOLATE, "isolate",
                    self.folder] + words
        if os.geteuid() != 0:
            isolated[1:1] = ["--user", "--map-root-user"]
        process = subprocess.Popen(isolated, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        try:
            output = process.communicate(timeout=limit_s)[0]
            return process.returncode, output.decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0]
            return 124, output.decode(errors="replace")

    def run_suite(self, suite, patterns=()):
        """Runs a suite (or some of its tests) until the first failure. Returns None when it passed, or why not."""
        test = self.tests[suite]
        environment = {**test["env"], "CMOCKA_TEST_ABORT": "1"}
        limit_s = self.took_s.get((suite, *patterns), test["timeout"]) * SLOWDOWN + SLOWDOWN_S
        code, output = self.run(test["cmd"] + list(patterns), environment, limit_s)
        if code == 0:
            return None if "[ RUN" in output else f"no test is called {' '.join(patterns)}"
        return "it did not end" if code == 124 else failed_test(output)

    def baseline(self, suite, patterns=()):
        """Without a fault it passes; remembers and returns how long that takes."""
        start = time.monotonic()
        why = self.run_suite(suite, patterns)
        if why is not None:
            raise Broken(f"{suite} fails without a planted fault: {why}")
        self.took_s[(suite, *patterns)] = time.monotonic() - start
        return self.took_s[(suite, *patterns)]


def copies(count):
    """That many copies, below build/mutate; `../shared` is where tests look for it."""
    os.makedirs("build/mutate", exist_ok=True)
    if os.path.isdir("../shared") and not os.path.islink("build/mutate/shared"):
        os.symlink(os.path.abspath("../shared"), "build/mutate/shared")
    return [Copy(f"build/mutate/{number + 1}") for number in range(count)]


def failed_test(output):
    """The name of the test that was running at the end, or the last line."""
    names = [line.split("]", 1)[1].strip() for line in output.splitlines() if line.startswith("[ RUN")]
    return names[-1] if names else (output.strip().splitlines() or ["no output"])[-1]


def last_lines(text):
    return "\n".join(text.splitlines()[-OUTPUT_LINES:])


def read(path):
    with open(path, "rb") as file:
        return file.read()
