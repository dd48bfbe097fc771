# Every target sets up what it needs in .venv: a fresh clone with Python 3.11+, g++, make and a package index is enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
CPP    := $(shell find kernels -name '*.cpp' -o -name '*.hpp' -o -name CMakeLists.txt 2>/dev/null | grep -v third_party)
# The notebooks run where BokehJS must come from the package, not from the network.
export BOKEH_RESOURCES := inline
# Tests start thousands of Pythons: each would compile labkit anew where the environment forbids to keep the result.
unexport PYTHONDONTWRITEBYTECODE
# And none needs a second thread of linear algebra, which spins while NumPy is imported: a third of that time.
python-test mpi-test slow-test notebooks browser-test: export OPENBLAS_NUM_THREADS ?= 1
# An environment that the shell has activated is not this one: IPython would take modules from it.
unexport VIRTUAL_ENV

FUZZ_SECONDS ?= 60

.PHONY: demo lab lab-teacher course-new course-release course-grade test test-all test-long one-by-one slow-test sanitized static python-test mpi-test bench fuzz sanitize sanitize-cpp sanitize-python levels includes lint types cpp-test wheel notebooks cpp-build browser-test conformance slurm-test reality-test site \
        clean help image image-test cluster-test binder-test image-clean lock

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

demo: $(VENV)/.set-up-demo      ## sort real data on real MPI and on a simulated cluster, fit, judge, draw demo.html
	$(BIN)/labkit demo

lab: $(VENV)/.set-up-lab        ## JupyterLab with the course, in a working copy (work/); OPTIONS=--refresh: fresh again
	$(BIN)/labkit lab $(OPTIONS)

lab-teacher: $(VENV)/.set-up-course     ## JupyterLab with the course itself, the assignments' sources, and nbgrader's buttons
	$(BIN)/labkit lab --teacher

JOBS ?= 2
COURSE ?= course
course-new: $(VENV)/.set-up-course       ## an assignment of your own into the course: make course-new FILE=mine.py
	$(BIN)/python -m labkit.grading.nbgrader_course new $(COURSE) $(FILE)

course-release: $(VENV)/.set-up-course   ## the students' notebooks of the assignments, in course/release
	$(BIN)/python -m labkit.grading.nbgrader_course release $(COURSE)

course-grade: $(VENV)/.set-up-course     ## grade course/submitted (JOBS=2): grades.csv, feedback pages, nbgrader's database
	$(BIN)/python -m labkit.grading.nbgrader_course grade $(COURSE) --jobs $(JOBS)

test: $(VENV)/.tools   ## set-up and all tests but the long ones
	@# side by side: pip works on one core, and tests on real MPI wait more than they compute
	$(MAKE) --no-print-directory -j2 build/wheel/.installed behind-cpp-build
	$(MAKE) --no-print-directory -j3 python-test behind-mpi-test behind-static

behind-%:        # a target beside others: what it prints is shown when it is over
	@mkdir -p build
	@$(MAKE) --no-print-directory $* >build/$*.txt 2>&1; found=$$?; cat build/$*.txt; exit $$found

static: lint types cpp-test   ## ruff, mypy on the wheel, the C++ tests

python-test: $(VENV)/.set-up-dev    ## the quick Python tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not mpi"

mpi-test: $(VENV)/.set-up-dev   ## the tests on real MPI
	$(BIN)/python -m pytest -n 3 --dist loadfile -m "mpi and not slow"

test-all: test test-long        ## make test and make test-long

test-long: $(VENV)/.set-up-dev      ## the notebooks, the browser, the long suites, and the C++ under the sanitizers
	@# compilers and sanitizers take what is left of the cores: one process each, and no limit of theirs is near
	$(MAKE) --no-print-directory -j2 one-by-one behind-sanitized

one-by-one: $(VENV)/.set-up-dev
	@# what the browser has run and saved is compared as it is, and not run once more
	rm -rf build/saved-notebooks
	$(MAKE) --no-print-directory browser-test
	LABKIT_SAVED_NOTEBOOKS=$(CURDIR)/build/saved-notebooks $(MAKE) --no-print-directory notebooks
	$(MAKE) --no-print-directory slow-test

slow-test: $(VENV)/.set-up-dev  ## the long suites
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "slow and not browser"

sanitized: $(VENV)/.set-up-dev
	nice -n 19 $(MAKE) --no-print-directory sanitize-python
	@# as for tests: what cannot begin before the deadline is left out, and named
	@[ $$(date +%s) -le $${LABKIT_TEST_DEADLINE:-9999999999} ] || { echo "left out after LABKIT_TEST_DEADLINE: sanitize-cpp levels includes"; exit 0; }; \
	nice -n 19 $(MAKE) --no-print-directory sanitize-cpp levels includes

slurm-test: $(VENV)/.set-up-dev build/mpich/bin/mpiexec   ## batch jobs and engines under a real Slurm of four nodes, started here as root
	@command -v slurmctld munged >/dev/null || PATH="$$PATH:/usr/sbin" command -v slurmctld >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q \
	       && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends slurm-wlm munge; } || true
	$(BIN)/python -m pytest -n 0 -v --durations=5 tests/slurm

reality-test: $(VENV)/.set-up-dev build/mpich/bin/mpiexec   ## predictions beside real messages: hosts in network namespaces, links shaped (as root; a quiet machine)
	LABKIT_MPICH=$(CURDIR)/build/mpich/bin/mpiexec $(BIN)/python -m pytest -n 0 -v tests/mpi/test_shaped_network.py

# srun starts ranks of MPICH (its PMI-2); both wheels in one environment would overwrite each other's mpiexec.
build/mpich/bin/mpiexec: $(VENV)/.tools
	$(PIP) install --no-deps --ignore-installed --prefix build/mpich "mpich>=4.2"

conformance: $(VENV)/.set-up-dev    ## mpi4py's own test suite, simulated and on real MPI: the table docs/conformance.md (hours)
	$(BIN)/python -m tests.conformance.run

browser-test: $(VENV)/.set-up-dev    ## JupyterLab in a Chromium, as a student sees it; screenshots in build/screenshots
	$(BIN)/python -m pytest -n 0 -m browser tests/browser

notebooks: $(VENV)/.set-up-dev  ## run every notebook and compare its outputs
	$(BIN)/python -m pytest -p nbval --nbval --nbval-sanitize-with tests/notebooks/sanitize.cfg -o filterwarnings=default \
	  -p tests.notebooks.patience -p tests.notebooks.saved --nbval-kernel-startup-timeout 180 --nbval-cell-timeout 900 \
	  -n 2 --dist loadfile notebooks

site: $(VENV)/.set-up-dev       ## course, documentation and manual as one static site with one search, in build/site; LIVE=1 runs the notebooks for live figures
	$(BIN)/python docs/site/build.py $(if $(LIVE),--live)

bench: $(VENV)/.set-up-dev      ## every benchmark, beside its peer where the peer is installed
	$(BIN)/python benchmarks/run.py

fuzz: $(VENV)/.set-up-dev       ## FUZZ_SECONDS each: the readers under atheris where it is installed; the C++ under clang's libFuzzer, else by a mutator of its own; then properties on examples drawn anew
	$(BIN)/python tests/fuzz/run.py $(FUZZ_SECONDS)
	$(BIN)/python kernels/fuzz/run.py $(FUZZ_SECONDS)
	LABKIT_EXAMPLES=drawn $(BIN)/python -m pytest -n 2 --dist loadfile -m "not mpi" tests/property

lint: $(VENV)/.set-up-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# mypy cannot follow an editable install, so it reads the wheel that a user would get, from outside the checkout.
types: build/wheel/.installed
	cd build/wheel && ../../$(BIN)/mypy --config-file ../../pyproject.toml --python-executable ../../$(BIN)/python \
	  --cache-dir ../mypy_cache -p labkit

wheel: build/wheel/.installed

# ninja would look for the pipe of make's jobs, which is not open for it
BUILD := MAKEFLAGS= $(BIN)/cmake --build

build/cpp/.configured: $(VENV)/.tools Makefile
	$(BIN)/cmake -S kernels -B build/cpp -G Ninja -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1 -DLABKIT_TESTS=ON \
	  -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja >/dev/null
	@touch $@

cpp-build: build/cpp/.configured
	$(BUILD) build/cpp

cpp-test: cpp-build   ## the engine's own C++ tests
	$(BIN)/ctest --test-dir build/cpp -j 2 --output-on-failure

levels: build/cpp/.configured     ## the engine computes the same bits at -O1 and at -O3
	$(BUILD) build/cpp --target levels

includes:        ## every file of the engine includes what it needs: each is read alone
	@printf '%s\n' $(filter kernels/src/%.cpp,$(CPP)) | xargs -P 2 -n 8 $(CXX) -std=c++20 -fsyntax-only -Ikernels/include

sanitize: sanitize-cpp sanitize-python   ## the C++ tests, and Python tests of the compiled module, under AddressSanitizer and UndefinedBehaviorSanitizer

sanitize-cpp: $(VENV)/.set-up-dev
	cd kernels && ../$(BIN)/cmake --preset sanitize -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python >/dev/null
	$(BUILD) build/sanitize
	$(BIN)/ctest --test-dir build/sanitize -j 2 --output-on-failure

sanitize-python: $(VENV)/.set-up-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python kernels/tests/sanitized_python.py

# Images: docker/README.md. No target above needs them, nor does CI.
image:           ## the Docker image, by Docker, by podman, or as root on Debian without either
	$(PYTHON) docker/image.py build

image-test: image    ## JupyterLab in the image: 2 GB, no network, the first notebook, real MPI
	$(PYTHON) docker/image_test.py --no-build

cluster-test: image $(VENV)/.set-up-dev    ## docker/compose.yml as containers on a network of their own: MPI over them
	$(BIN)/python docker/cluster_test.py

binder-test:     ## a Binder session rehearsed: 2 GB, 1 core, no network; prints the seconds
	$(PYTHON) docker/binder_test.py

image-clean:     ## remove what the way without an engine keeps (images, base, cache)
	$(PYTHON) docker/image.py clean

lock:            ## the image's lock files anew: the newest versions that fit
	$(PYTHON) docker/image.py lock

clean:           ## remove what was built, and the virtual environment
	rm -rf build dist $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

# --- set-up ------------------------------------------------------------------------------------------------------
$(VENV)/.tools:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(0 if sys.version_info >= (3, 11) else f"labkit needs Python 3.11 or newer, this is {v}: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	@# One of the packages comes as sources only, and Python 3.12 has no setuptools of its own.
	$(PIP) install "pip>=24" "setuptools>=70" "scikit-build-core>=0.11" "nanobind>=2.4" "greenlet>=3.1" "cmake>=3.26" "ninja>=1.11"
	@touch $@

# Editable: new algorithm files are found without reinstalling; a change of C++ rebuilds.
$(VENV)/.set-up-demo: EXTRAS := mpi,data
$(VENV)/.set-up-lab:  EXTRAS := mpi,data,lab
$(VENV)/.set-up-course: EXTRAS := mpi,data,lab,course
$(VENV)/.set-up-dev:  EXTRAS := mpi,data,lab,course,dev
# What tests import is compiled when they do, on all cores.
$(VENV)/.set-up-dev:  COMPILED := --no-compile
$(VENV)/.set-up-demo $(VENV)/.set-up-lab $(VENV)/.set-up-course $(VENV)/.set-up-dev: $(VENV)/.tools pyproject.toml $(CPP)
	@echo "labkit: setting up .venv with [$(EXTRAS)] (half a minute to four, once)"
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) install --no-build-isolation $(COMPILED) -e '.[$(EXTRAS)]'
	@# scikit-build-core puts the folder above the checkout on the path, too: what lies there is nobody's package
	@$(BIN)/python -c 'from pathlib import Path as P; import sysconfig; f = P(sysconfig.get_path("purelib"), "_editable_skbc_labkit.pth"); f.write_text("".join(l + "\n" for l in f.read_text().splitlines() if l != str(P.cwd().parent)))'
	@touch $@

build/wheel/.installed: $(VENV)/.set-up-dev $(shell find labkit algorithms datasets course/assignments course/exercises -type f -not -name '*.pyc' 2>/dev/null)
	rm -rf build/wheel && mkdir -p build/wheel
	PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) wheel --no-build-isolation --no-deps -w build/wheel .
	cd build/wheel && ../../$(BIN)/python -m zipfile -e labkit-*.whl .
	@touch $@
