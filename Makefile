# Two commands do everything on a fresh machine: `make demo` and `make test`. The rest is for people who work on it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TARGET ?= npu
# Where torch comes from. PyPI's build for Linux brings CUDA, some gigabytes; https://download.pytorch.org/whl/cpu has one without.
TORCH_INDEX ?=
# Everything else comes from requirements/*.txt, each file by its hash; torch by its version alone, since its builds differ.
LOCKED = $(BIN)/python -m pip install --quiet --no-deps --only-binary=:all: --require-hashes
TORCH = $(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch==2.13.0
# Processes that run tests side by side, one for each core; torch takes one thread in each of them.
WORKERS ?= auto

.PHONY: demo demo-deploy test test-deploy lab-roots wheels test-fast lint format generated messages check-generated locks dist aarch64 docs bench growth triton realworld places verdicts rehearsed-verdicts matrix judges ways quick-start stories coverage sanitize fuzz clean

demo: $(VENV)/.ready-rehearsal wheels
	$(BIN)/python tools/demo.py --target $(TARGET)

test: $(VENV)/.ready-dev wheels
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=15

# A vendor's own plugin, for the demo and the tests that rehearse with it; where it cannot be had, they say so.
wheels: $(VENV)/.ready-rehearsal
	@test -e $(VENV)/.wheels || ($(BIN)/python -m pip download --quiet --no-deps --only-binary=:all: --require-hashes --retries 1 \
	--dest $(VENV)/wheels -r requirements/plugin.txt && touch $(VENV)/.wheels) || echo "no wheel of requirements/plugin.txt: the demo takes the simulated plugin, the tests that need the vendor's own are skipped"

# Deployments on fake servers: systems of their own in network namespaces, with sshd and Docker. Needs root, and the systems
# that `make lab-roots` makes once from Ubuntu's archive (TORCHFERRY_LAB: their folder); skips with the reason without them.
test-deploy: $(VENV)/.ready-deploy
	PATH="$(abspath $(BIN)):$$PATH" TORCHFERRY_TEST_DEPLOY=1 $(BIN)/python -m pytest -q tests/deploy

demo-deploy: $(VENV)/.ready-deploy
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/demo_deploy.py

TORCHFERRY_LAB ?= $(HOME)/.cache/torchferry-lab
lab-roots:
	bash tests/deploy/lab/make_roots.sh $(TORCHFERRY_LAB)

# The packages that neither run torch nor start programs: for every save, in little more than a minute on two cores.
FAST := $(addprefix tests/,core backends source rules programs report) $(wildcard tests/test_*.py)
test-fast: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m pure $(FAST)

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/check_one_file.py
	$(BIN)/python tools/check_device.py

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/python tools/check_device.py --format

# Rule pages and backend tables in docs/ are written from the code.
generated: $(VENV)/.ready-dev messages
	$(BIN)/python tools/generate_docs.py

# The catalogues in src/torchferry/locale: what the code says is added to the .po, which is compiled; says what lacks Chinese.
messages: $(VENV)/.ready-dev
	$(BIN)/python tools/messages.py

check-generated: $(VENV)/.ready-dev
	$(BIN)/python tools/messages.py --check
	$(BIN)/python tools/generate_docs.py --check
	$(BIN)/python tools/lock.py --check

# Resolves requirements/*.txt again, with today's versions; one of them alone: make locks LOCKS=docs
LOCKS ?=
locks: $(VENV)/.ready-dev
	$(LOCKED) -r requirements/lock.txt
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python tools/lock.py $(LOCKS)

# Both devices and the drivers for Arm hosts: compiled by a cross compiler, and run under emulation as far as that goes
# without torch; with TORCH_AARCH64, the folder of an unpacked torch for aarch64, linked as well.
TORCH_AARCH64 ?=
aarch64: $(VENV)/.ready-dev
	$(BIN)/python tools/check_aarch64.py $(if $(TORCH_AARCH64),--torch $(TORCH_AARCH64))

# The documentation site, in site/; a link or an anchor that leads nowhere is an error.
docs: $(VENV)/.made
	$(LOCKED) --no-binary=jieba --no-build-isolation -r requirements/docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# These need repositories that are not part of this one; they say so and skip what is not there.
bench: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/run.py

# How processor time grows with the length of a file: kinds of files, full of what readers dread; some hours on two cores.
# GROWTH chooses (`make growth GROWTH="--command scan --kind yaml --sizes 20,80"`).
GROWTH ?=
growth: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/growth.py $(GROWTH)

# The Triton kernels of benchmarks/triton_kernels.py through the vendor's own front end, which is fetched where it is not there.
triton: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/triton_gate.py --target $(if $(TARGET),$(TARGET),npu)

realworld: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/realworld.py

places: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/places/run.py --target $(TARGET)

verdicts: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/verdicts/run.py --target $(TARGET)

# Needs the packages of the programs that it runs as well, in the environment of BIN; what is absent is skipped.
rehearsed-verdicts: $(VENV)/.ready-rehearsal
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/verdicts/rehearsed.py

# Every public version of the vendor's plugin with its own torch, on the simulated driver: takes an hour and half a gigabyte
# at a time; MATRIX names the versions (`make matrix MATRIX="2.5.1 2.9.0"`). Writes docs/*/plugin-versions.md.
MATRIX ?=
matrix: $(VENV)/.ready-dev
	$(BIN)/python benchmarks/rehearsal/matrix.py --only $(MATRIX)

# Real programs on the vendor's own plugin and on the simulated one; CORPUS has the checkouts. Writes docs/*/plugin-versions.md.
CORPUS ?= $(TORCHFERRY_CORPUS)
judges: $(VENV)/.ready-rehearsal wheels
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/rehearsal/judges.py --plugin $(wildcard $(VENV)/wheels/torch_npu-*.whl) $(if $(CORPUS),--corpus $(CORPUS))

# Small programs and forms of arguments in every way: migrated, portable, and unchanged under `torchferry run`, on the vendor's wheel
# and on the simulated plugins; some minutes a plugin. Red where two ways disagree and benchmarks/rehearsal/expected_ways.py does not say why.
ways: $(VENV)/.ready-rehearsal wheels
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/rehearsal/ways.py $(addprefix --wheel ,$(firstword $(wildcard $(VENV)/wheels/torch_npu-*.whl))) $(if $(TARGETS),--targets $(TARGETS))

# What the quick-start programs become on each target, and what they print there; some minutes. Writes docs/*/quick-start/.
quick-start: $(VENV)/.ready-rehearsal
	OMP_NUM_THREADS=1 $(BIN)/python tools/quick_start.py

# The stories as their pages show them, in both languages, and on the public repositories; STORIES names some of them. A page whose
# command fails or prints something else is red; `python tools/stories.py --write` writes what is printed now into the pages.
STORIES ?=
stories: $(VENV)/.ready-stories wheels
	$(BIN)/python tools/stories.py --repositories $(STORIES)

# What proves each capability that the documents describe: runs all proofs, names the rows that fail, and writes
# docs/*/coverage.md; some 35 minutes in one process. TORCHFERRY_TEST_DEPLOY=1 takes the fake servers along, which need root.
coverage: $(VENV)/.ready-stories wheels
	$(BIN)/python tools/coverage_table.py

# Mutated inputs for every reader of what others wrote, guided by coverage where Atheris is to be had; an hour or more for all.
# READERS names some of them, RUNS says how many inputs each gets: `make fuzz READERS="trace call" RUNS=100000`. MORE="--keep"
# makes what finds a fault small and keeps it in tests/fuzz/corpus, which `make test` reads.
READERS ?=
RUNS ?= 10000
MORE ?=
fuzz: $(VENV)/.ready-dev
	@$(BIN)/python -c "import atheris" 2>/dev/null || $(LOCKED) -r requirements/fuzz.txt \
	|| echo "no Atheris for this Python: inputs are made of the seeds alone"
	OMP_NUM_THREADS=1 $(BIN)/python tools/fuzz.py --runs $(RUNS) $(MORE) $(READERS)

# What is published, from what is committed and nothing else: the same commit gives the same bytes, so anybody can compare.
dist: $(VENV)/.made
	@test -z "$$(git status --porcelain)" || { echo "commit or remove what git status lists: a release is a commit"; exit 1; }
	SOURCE_DATE_EPOCH="$$(git log -1 --format=%ct)" $(BIN)/python -I -m hatchling build --clean -d dist
	cd dist && sha256sum *

# The rehearsal device under the address and undefined-behaviour sanitizers; takes some minutes, needs gcc's runtimes.
sanitize: $(VENV)/.ready-dev
	TORCHFERRY_SANITIZE=1 ASAN_OPTIONS=detect_leaks=0:new_delete_type_mismatch=0 \
	UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	$(BIN)/python -m pytest -x -q -s -p no:cacheprovider tests/rehearsal -k test_device

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo

$(VENV)/.made: requirements/build.txt
	$(PYTHON) -m venv $(VENV)
	$(LOCKED) -r requirements/build.txt
	touch $@

# built with what .made installed: an isolated build would fetch its tools without hashes
$(VENV)/.ready: $(VENV)/.made pyproject.toml requirements/action.txt
	$(LOCKED) -r requirements/action.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.ready-rehearsal: $(VENV)/.ready requirements/rehearsal.txt
	$(LOCKED) -r requirements/rehearsal.txt
	$(TORCH)
	touch $@

$(VENV)/.ready-deploy: $(VENV)/.ready-dev requirements/deploy.txt
	$(LOCKED) -r requirements/deploy.txt
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready requirements/dev.txt
	$(LOCKED) -r requirements/dev.txt
	$(TORCH)
	touch $@

$(VENV)/.ready-stories: $(VENV)/.ready-dev requirements/stories.txt
	$(LOCKED) -r requirements/stories.txt
	touch $@
