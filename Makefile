# A small front for meson: every target installs what it needs, builds, and runs.
#
#   make            the program: build/belay           make demo      see it at work
#   make demo-chat  the same in your own hands         make demo-cell code that can be stopped
#   make demo-feature  a plan of tasks becomes merged work, and any part of it can be stopped
#   make demo-fleet  two workers share a database; work is cancelled from another host, and a worker killed
#   make test       all suites, plain and sanitized    make test ROOM=turn T='F12*'   one suite, or some of it
#   make dev        everything, fast to build again: build/dev/belay
#   make bench      figures, one JSON object a line    make soak      the long forms of the tests
#   make fuzz       FUZZ_SECONDS=20 for each parser    make check     format, layers, banned functions
#   make interop    against programs of others (npm)   make figures   times against what is promised
#   make coverage   the lines that no test reaches     make mutate    faults that no test notices
#   make bench-peers  belay beside other agents (npm)
#   make texts      every text for users: build/texts.txt  make docs-check  the commands that the pages show
#   make tidy       clang-tidy, with a short list      make install PREFIX=/usr/local [DESTDIR=]

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 20
# Warnings are errors for our own machines (.ci/run) alone: another compiler has others.
WERROR ?= false
SETUP = meson setup --wrap-mode=nofallback
PLAIN = --buildtype=release -Ddebug=true -Db_lto=true -Db_pie=true
# Not with --buildtype, which meson 1.0 takes over an optimization that is given as well.
ASAN = -Ddebug=true -Doptimization=1 -Dwerror=$(WERROR) -Db_sanitize=address,undefined -Db_lundef=false -Dc_args=-g1
DEV = -Ddebug=true -Doptimization=1 -Db_lto=false -Dtests=true
TSAN = -Ddebug=true -Doptimization=1 -Dwerror=$(WERROR) -Db_sanitize=thread -Db_lundef=false -Dc_args=-g1
COVERAGE = --buildtype=debug -Db_coverage=true
FUZZ = -Ddebug=true -Doptimization=1 -Dtests=true -Dfuzzers=true -Db_sanitize=address,undefined \
       -Db_lundef=false -Dc_args=-fsanitize=fuzzer-no-link

.PHONY: all dev tidy demo demo-chat demo-cell demo-feature demo-fleet tests-built test soak bench bench-peers fuzz check check-mutants figures mutate interop coverage texts docs-check install clean
.DEFAULT_GOAL := all

# $(call ninja,DIRECTORY,TARGETS): silent unless it fails.
ninja = ninja -C $(1) $(2) >$(1)/build.log || { tail -n 60 $(1)/build.log; exit 1; }

all: build/build.ninja
	@$(call ninja,build,belay belay-warden belay-cell-worker)

build/build.ninja:
	@scripts/deps build
	@$(SETUP) build $(PLAIN) -Dprefix=$(PREFIX) -Dtests=false >/dev/null

# What needs more packages is switched on in the same build directory when it is first asked for.
build/with-tests: build/build.ninja
	@scripts/deps test
	@meson configure build -Dtests=true && touch $@

build/with-benchmarks: build/build.ninja
	@scripts/deps bench
	@meson configure build -Dbenchmarks=true && touch $@

build/asan/build.ninja: build/with-tests
	@$(SETUP) build/asan $(ASAN) >/dev/null

build/tsan/build.ninja: build/with-tests
	@$(SETUP) build/tsan $(TSAN) >/dev/null

build/dev/build.ninja:
	@scripts/deps build test
	@$(SETUP) build/dev $(DEV) >/dev/null

dev: build/dev/build.ninja
	@$(call ninja,build/dev)

demo: build/build.ninja
	@$(call ninja,build,belay belay-warden belay-cell-worker examples/stop-tree)
	@scripts/demo
	@scripts/demo-feature

demo-chat: all
	@scripts/demo-chat

demo-cell: all
	@scripts/demo-cell

demo-feature: all
	@scripts/demo-feature

demo-fleet: all
	@scripts/deps test
	@scripts/demo-fleet

tests-built: build/with-tests build/asan/build.ninja build/tsan/build.ninja
	@$(call ninja,build)
	@$(call ninja,build/asan)
	@$(call ninja,build/tsan)

# ROOM: only that suite, on the development build; T: only tests whose names match.
ifdef ROOM
test: build/dev/build.ninja
	@scripts/test-room build/dev $(ROOM) $(if $(T),'$(T)')
else
test: tests-built
	@scripts/test-run
endif

# FIGURES: only those whose pattern contains one of these words. RUNS multiplies how often each is taken.
figures: build/with-tests
	@$(call ninja,build)
	@scripts/figures --runs $(or $(RUNS),1) build $(FIGURES)

# Plants N small faults in a room and lists those that no test notices.
mutate: build/with-tests
	@scripts/mutate $(ROOM) $(or $(N),100) $(or $(SEED),1)

# Every fault of tests/mutants, and the test that must notice it.
check-mutants: build/with-tests
	@scripts/check-mutants $(MUTANTS)

soak: tests-built
	@BELAY_SOAK=1 scripts/test-run

bench: build/with-benchmarks
	@$(call ninja,build)
	@for program in agent cell feature fiber json markdown proc record rpc search start turn wire; do build/bench/$$program || exit 1; done

# Ends with the table of the README. PEERS: only these agents.
bench-peers: all
	@scripts/deps interop
	@cd bench/peers && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --silent --no-audit --no-fund; }
	@bench/peers/run --runs $(or $(RUNS),5) build/belay $(PEERS)

build/fuzz/build.ninja: build/with-tests
	@scripts/deps fuzz
	@CC=clang $(SETUP) build/fuzz $(FUZZ) >/dev/null

fuzz: build/fuzz/build.ninja
	@scripts/fuzz $(FUZZ_SECONDS)

build/coverage/build.ninja: build/with-tests
	@scripts/deps coverage
	@$(SETUP) build/coverage $(COVERAGE) >/dev/null

coverage: build/coverage/build.ninja
	@$(call ninja,build/coverage)
	@scripts/coverage

check: build/build.ninja
	@scripts/deps check
	@scripts/check
	@$(call ninja,build,libbelay)
	@scripts/check-symbols build/libbelay.a build/libbelay.so

# Every text that users can meet, for a reviewer.
texts: all
	@scripts/texts --program build/belay >build/texts.txt
	@echo "build/texts.txt: $$(grep -c '' build/texts.txt) lines"

# Runs the commands of README.md and docs, and compares their output with the pages.
docs-check: build/with-tests
	@$(call ninja,build)
	@scripts/docs-check

# With the compilation database of the development build.
tidy: build/dev/build.ninja
	@scripts/deps tidy
	@scripts/tidy build/dev

interop: build/with-tests
	@scripts/deps interop
	@$(call ninja,build)
	@tests/interop/run build

install: all
	@meson configure build -Dprefix=$(PREFIX)
	@$(call ninja,build)
	@DESTDIR=$(DESTDIR) meson install -C build --no-rebuild --quiet

clean:
	rm -rf build
