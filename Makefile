# make demo: sample data, training, evaluation, predictions, a report. make test: the checks. make help lists the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# The environment keeps the bytecode of what it imports, whatever the shell says: without it each process that
# imports TensorFlow compiles it anew, which takes longer than most of the tests.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
RUNNABLE := $(VENV)/.runnable
DOCUMENTED := $(VENV)/.documented
CUDA := $(VENV)/.cuda
MUTABLE := $(VENV)/.mutable
NEWEST := build/newest
# The extras that `make test` needs, beside Beam, which holds versions of others back and so is not in `make newest`.
TESTED := reports,test,serve,data,video,onnx,onnx-export,examples
PYTEST_ARGS ?=
# Options of pip for this step, such as an index that has the build of torch without CUDA, which is much smaller.
TORCH_ARGS ?=
BENCH_ARGS ?=
RECIPES_ARGS ?=
MINUTES ?= 20
SEED ?= 0
FUZZ_ARGS ?=
MUTANTS_ARGS ?=

# Any Python 3.11 (from 3.11.2 on) to 3.14 that can make a virtual environment; `make venv PYTHON=...` takes another.
PYTHONS := python3.12 python3.11 python3.13 python3.14 python3
FITS := import ensurepip, sys, venv; sys.exit(not (3, 11, 2) <= sys.version_info[:3] < (3, 15))
PYTHON ?= $(firstword $(foreach name,$(PYTHONS),$(shell $(name) -c '$(FITS)' >/dev/null 2>&1 && echo $(name))))
# What make says if there is none.
FOUND = $(strip $(foreach name,$(PYTHONS),$(shell $(name) -c 'import sys; print(f"$(name) ({sys.version.split()[0]})")' 2>/dev/null)))
NO_PYTHON = $(if $(PYTHON),,make: no Python from 3.11.2 to 3.14 that has venv was found$(if $(FOUND),: there is $(FOUND)). Name one: PYTHON=/path/to/python3.12)

.PHONY: help venv demo test quick-tests check test-fast test-all newest distributions soak lint fuzz mutants format bench bench-exchange bench-growth bench-gpu bench-peers bench-whole recipes docs pictures promises fit-stub release clean

help:
	@echo 'make venv    a virtual environment in $(VENV), with all that the other targets need'
	@echo 'make demo    sample data, a model trained on two towers, its figures, predictions and report, in demo/'
	@echo 'make test    format, lint, types, layers, tests'
	@echo 'make test-all  the same, with the clusters of killed processes and the longest runs'
	@echo 'make test-fast  before a commit: lint, the tests nearest to what differs from main (SINCE=main), one run'
	@echo 'make check   lint, types and tests of one file: FILE=yt8m/readers/base.py'
	@echo 'make newest  the tests with the newest version of each dependency that pyproject.toml takes, in $(NEWEST); PRE=1 takes pre-releases too'
	@echo 'make distributions  the first two commands of the README in fresh Debian 12, 13 and sid; MIRROR=ADDRESS, as root'
	@echo 'make soak    training, evaluation, inference, bulk jobs and a cluster, killed at random for MINUTES=20, counted at the end'
	@echo 'make fit-stub  the types of yt8m.fit, after a change of an option'
	@echo 'make promises  each promise of docs/developers/promises.md, and the tests that have its mark'
	@echo 'make lint    all of that but the tests'
	@echo 'make fuzz    100,000 random changes of shards and records, which must all be noticed, and 20 times as many new examples of every law'
	@echo 'make mutants small changes of the code, one at a time, which the tests must notice; MUTANTS_ARGS=top_k for some modules'
	@echo 'make format  put the code into format'
	@echo 'make bench   speeds, as ratios to bare matmuls timed in the same run; BENCH_ARGS=--rows=... for some'
	@echo 'make bench-exchange  a step of 2 and 4 processes: parameter servers, all-reduce, and computed for up to 64 machines'
	@echo 'make bench-growth  cost an example for 1 to 8 times the videos, classes, frames and towers, in growth.png'
	@echo 'make bench-gpu  a GPU in at most eight minutes: rates, their share of the peak of its chip, and the bytes that are copied to it'
	@echo 'make bench-peers  this project beside PyTorch, in turn within one run of an hour at most'
	@echo 'make bench-whole  whole runs: one pass over 400,000 videos and 8,000 records of frames'
	@echo 'make recipes every model trained small on sample data, its figure checked against its recipe and docs/users/models.md'
	@echo 'make docs    the pages and an API reference as a site, in build/site; broken links are errors'
	@echo 'make pictures the pictures of the README, from its own commands, and those of the architecture; needs chromium'
	@echo 'make release the files of a release, checked and tried with each Python of a pinned TensorFlow, in dist/; VERSION=0.1.0; it uploads nothing'
	@echo 'make clean   remove what the other targets made, except $(VENV)'

venv: $(INSTALLED)

# $(call environment,FOLDER,TARGET) makes an environment, which does not stay if pip finds no TensorFlow for its Python.
define environment
@[ -n "$(PYTHON)" ] || { echo '$(NO_PYTHON)'; exit 1; }
$(PYTHON) -m venv $(1)
@$(1)/bin/python -c 'import sys; sys.exit(sys.version_info >= (3, 14))' || \
  $(1)/bin/python -m pip index versions $(if $(PRE),--pre) tensorflow >$(1)/index.log 2>&1 || { cat $(1)/index.log; rm -rf $(1); \
  echo 'make: pip found no TensorFlow$(if $(PRE),, that is released) for this Python; its words stand above.'; \
  echo 'Take an earlier Python (make $(2) PYTHON=python3.13)$(if $(PRE),, or pre-releases (make $(2) PRE=1)).'; exit 1; }
endef

$(BIN)/python:
	$(call environment,$(VENV),venv)

# The demo does without the tools of tests. Without --no-compile pip would compile all of TensorFlow,
# of which a run imports a small part. PRE=1 takes pre-releases of what constraints.txt does not name.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile $(if $(PRE),--pre) -c constraints.txt
# Apache Beam has no version for Python 3.14.
BEAM := import sys; print("" if sys.version_info >= (3, 14) else ",beam")

$(RUNNABLE): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e '.[reports]'
	@touch $@

$(INSTALLED): $(RUNNABLE)
	$(PIP_INSTALL) -e ".[$(TESTED)$$($(BIN)/python -c '$(BEAM)')]"
	@touch $@

$(DOCUMENTED): $(INSTALLED)
	$(PIP_INSTALL) $(TORCH_ARGS) -e '.[docs,hf,peers]'
	@touch $@

$(MUTABLE): $(INSTALLED)
	$(PIP_INSTALL) -e '.[mutants]'
	@touch $@

# The demo has 100 classes, so that the rarest third of them has videos to learn from too.
demo: $(RUNNABLE)
	rm -rf demo
	$(BIN)/yt8m sample-data --out=demo/data --level=video --num_classes=100
	$(BIN)/python train.py --model=LogisticModel --num_gpu=2 --batch_size=128 --train_dir=demo/run \
	  --train_data_pattern='demo/data/video/train/*.tfrecord' \
	  --feature_names=mean_rgb,mean_audio --feature_sizes=1024,128
	$(BIN)/python eval.py --train_dir=demo/run --run_once --report \
	  --eval_data_pattern='demo/data/video/validate/*.tfrecord'
	$(BIN)/python inference.py --train_dir=demo/run --output_file=demo/predictions.csv \
	  --input_data_pattern='demo/data/video/test/*.tfrecord'
	@head -n 3 demo/predictions.csv | cut -c 1-100
	@echo 'The report: demo/run/eval/report.html'

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Tests wait for killed programs and for deadlines, so there is one process more than cores, if each can have 4 GB.
# They are forked from one that has collected the tests (tests/support/forked_workers.py).
# nproc obeys OMP_NUM_THREADS, which is set below, and which make from 4.4 on hands to this shell.
WORKERS ?= $(shell awk -v cores="$$(env -u OMP_NUM_THREADS nproc)" '/^MemTotal/ { most = int($$2 / 4e6); print most < 1 ? 1 : most <= cores ? most : cores + 1 }' /proc/meminfo)
SHARED = --workers=$(WORKERS)
# Beside one another they compute in one thread each: threads of NumPy's matrix products, of which each process has one
# a core, wait in loops for one that has no core, which takes ten times as long.
quick-tests test-all newest fuzz: export OPENBLAS_NUM_THREADS := 1
quick-tests test-all newest fuzz: export OMP_NUM_THREADS := 1

# For each graph that is run, TensorFlow looks for kernels of oneDNN for each op, and rewrites the graph: more than half of
# the time of tests that run their graphs a few times. These tests do without; test_onednn.py is heavy.
# They do not wait for the disk either (tests/conftest.py).
# `make test-all`, `make newest` and pytest itself take what TensorFlow takes.
test: $(INSTALLED)
	@$(MAKE) --no-print-directory -j2 lint quick-tests

quick-tests: export TF_ENABLE_ONEDNN_OPTS := 0
quick-tests: export TESTS_WITH_PLAIN_GRAPHS := 1
quick-tests: export TESTS_WITHOUT_SYNC := 1
quick-tests: $(INSTALLED)
	$(BIN)/pytest $(SHARED) -m 'not heavy' $(PYTEST_ARGS)

# What one file needs: FILE=yt8m/readers/base.py.
NEAREST := $(BIN)/python tests/campaigns/nearest.py
check: export TF_ENABLE_ONEDNN_OPTS := 0
check: export TESTS_WITH_PLAIN_GRAPHS := 1
check: export TESTS_WITHOUT_SYNC := 1
check: $(INSTALLED)
	@[ -f '$(FILE)' ] || { echo 'make: name a file: make check FILE=yt8m/readers/base.py'; exit 2; }
	$(BIN)/ruff format --check $(FILE)
	$(BIN)/ruff check $(FILE)
	$(BIN)/mypy $(FILE)
	tests="$$($(NEAREST) $(FILE))"; [ -z "$$tests" ] || $(BIN)/pytest -m 'not heavy' $(PYTEST_ARGS) $$tests

# Before a commit: what is nearest to the changes since SINCE, one model and one loss of the contract, one run.
SINCE ?= main
PROGRAMS := tests/programs/test_programs.py::test_a_run_leaves_what_it_should \
  tests/programs/test_programs.py::test_inference_says_which_checkpoint_predicts_and_that_it_replaces_a_file
test-fast: export TF_ENABLE_ONEDNN_OPTS := 0
test-fast: export TESTS_WITH_PLAIN_GRAPHS := 1
test-fast: export TESTS_WITHOUT_SYNC := 1
test-fast: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/pytest $(SHARED) -m 'not heavy and not long' $(PYTEST_ARGS) $$($(NEAREST) --since=$(SINCE)) $(PROGRAMS)
	$(BIN)/pytest -m 'not heavy' -k 'LogisticModel or CrossEntropyLoss' $(PYTEST_ARGS) tests/contract

test-all: lint $(DOCUMENTED)
	$(BIN)/pytest $(SHARED) $(PYTEST_ARGS)

# No constraints.txt, and an environment of its own. What is newer than there is listed before the tests run. PRE=1 takes
# pre-releases too.
newest:
	rm -rf $(NEWEST)
	$(call environment,$(NEWEST),newest)
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile $(if $(PRE),--pre) -e '.[$(TESTED)]'
	$(NEWEST)/bin/python -m pip freeze --exclude-editable | tr _ - >$(NEWEST)/versions.txt
	@sed 's/;.*//' constraints.txt >$(NEWEST)/pins.txt
	grep -ivxFf $(NEWEST)/pins.txt $(NEWEST)/versions.txt || true
	$(NEWEST)/bin/pytest $(SHARED) -m 'not heavy' $(PYTEST_ARGS)

# The two commands of the README, as an ordinary user, in fresh systems made by debootstrap. It needs root.
distributions:
	@[ -n "$(MIRROR)" ] || { echo 'make: name a mirror of Debian: make distributions MIRROR=ADDRESS'; exit 2; }
	MIRROR='$(MIRROR)' .ci/distributions $(SUITES)

promises:
	$(BIN)/python tests/support/promises.py

fit-stub:
	$(BIN)/python tests/support/fit_stub.py

soak: $(DOCUMENTED)
	PYTHONPATH=.:tests:tests/support:tests/campaigns $(BIN)/python tests/campaigns/soak.py --minutes=$(MINUTES) --seed=$(SEED)

fuzz: $(INSTALLED)
	PYTHONPATH=.:tests:tests/support:tests/campaigns $(BIN)/python tests/campaigns/fuzz_campaign.py $(FUZZ_ARGS)
	$(BIN)/pytest $(SHARED) -m hypothesis --hypothesis-profile=fuzz --timeout=7200 $(PYTEST_ARGS)

mutants: $(MUTABLE)
	PYTHONPATH=.:tests:tests/support:tests/campaigns $(BIN)/python tests/campaigns/mutation_campaign.py $(MUTANTS_ARGS)

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks --json bench.json $(BENCH_ARGS)

# CUDA's packages have 3 GB, so only where there is a driver. The eight minutes begin after it.
$(CUDA): $(INSTALLED)
	$(PIP_INSTALL) -e '.[gpu]'
	@touch $@

bench-gpu: $(INSTALLED) $(if $(shell command -v nvidia-smi),$(CUDA))
	$(BIN)/python -m benchmarks.gpu_report --json bench-gpu.json $(BENCH_ARGS)

bench-exchange bench-whole: bench-%: $(INSTALLED)
	$(BIN)/python -m benchmarks --rows '$*/*' --json bench-$*.json $(BENCH_ARGS)

# Three turns of each row, and their table in the page.
bench-peers: $(DOCUMENTED)
	@rm -f bench-peers.json
	$(BIN)/python -m benchmarks --rows 'peers/*' --repeat 3 --minutes 60 --json bench-peers.json $(BENCH_ARGS); status=$$?; \
	  if [ -f bench-peers.json ]; then $(BIN)/python -m benchmarks.peers.table bench-peers.json || exit; fi; exit $$status

bench-growth: $(INSTALLED)
	$(BIN)/python -m benchmarks --rows 'growth/*' --json bench-growth.json $(BENCH_ARGS)
	$(BIN)/python -m benchmarks.growth bench-growth.json growth.png

recipes: $(INSTALLED)
	$(BIN)/python -m recipes $(RECIPES_ARGS)

docs: $(DOCUMENTED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The tools of a release have an environment of their own: one of them brings a package that changes how requests works.
# The shell gets the version as a variable: on a forge it is the name of a tag, which may hold any commands.
RELEASE_ARGS ?=
release: | $(BIN)/python
	@[ -n "$$VERSION" ] || { echo 'make: name the version: make release VERSION=0.1.0'; exit 2; }
	$(BIN)/python -m venv build/release
	build/release/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build setuptools twine cyclonedx-bom zizmor
	build/release/bin/python .ci/release.py "$$VERSION" $(RELEASE_ARGS)

pictures: $(INSTALLED)
	$(BIN)/python docs/pictures
	$(BIN)/python docs/pictures/diagrams.py

clean:
	rm -rf build dist demo *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
