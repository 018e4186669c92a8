# Every developer command. `make` lists them. Needed: Python 3.10 or later, a C compiler, make; the rest is installed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
NATIVE := $(wildcard native/*.* native/include/*.h native/src/*.[ch] native/src/kernels/*)
BUILD := build/native
JOBS ?= 2

.PHONY: help train test test-native lint format asan tsan fuzz bench wheel install clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

train: $(VENV)/run.stamp ## install xcl into .venv and train on the sample data
	$(BIN)/xcl train configs/quickstart.yaml

test: $(VENV)/dev.stamp test-native ## all tests: C and Python
	$(BIN)/pytest

test-native: $(VENV)/dev.stamp ## C tests, with warnings as errors, once for each instruction set
	$(BIN)/cmake -S native -B $(BUILD) -DXCL_WERROR=ON
	$(BIN)/cmake --build $(BUILD) -j $(JOBS)
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure

lint: $(VENV)/dev.stamp ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/dev.stamp ## rewrite Python files in the house layout
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

asan: $(VENV)/dev.stamp ## C tests under the address and undefined-behaviour sanitizers
	$(BIN)/cmake -S native -B build/asan -DXCL_SANITIZE=address,undefined
	$(BIN)/cmake --build build/asan -j $(JOBS)
	$(BIN)/ctest --test-dir build/asan --output-on-failure

tsan: $(VENV)/dev.stamp ## C tests under the thread sanitizer
	$(BIN)/cmake -S native -B build/tsan -DXCL_SANITIZE=thread
	$(BIN)/cmake --build build/tsan -j $(JOBS)
	$(BIN)/ctest --test-dir build/tsan --output-on-failure

FUZZ_SECONDS ?= 60
FUZZED := $(addprefix native/src/, parse.c parse_row.c parse_number.c format.c memory.c error.c pool.c)
fuzz: ## fuzz the text parser for FUZZ_SECONDS (needs clang)
	mkdir -p build
	clang -g -O1 -std=gnu11 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Inative/include \
	    -Inative/src native/fuzz/fuzz_parse.c $(FUZZED) -lm -lpthread -o build/fuzz_parse
	mkdir -p build/corpus
	build/fuzz_parse -max_len=400 -max_total_time=$(FUZZ_SECONDS) build/corpus native/fuzz/corpus/parse

bench: $(VENV)/dev.stamp ## measure parsing (more in benchmarks/)
	$(BIN)/python benchmarks/parse.py datasets/finna-yso-sample/train.txt.gz

wheel: $(VENV)/dev.stamp ## build sdist and wheel into dist/
	$(BIN)/python -m build

install: $(VENV)/dev.stamp ## install xcl and the developer's tools into .venv

clean: ## remove what was built; keeps runs/
	rm -rf build dist $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/run.stamp: pyproject.toml README.md $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/dev.stamp: pyproject.toml README.md $(NATIVE)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/run.stamp
