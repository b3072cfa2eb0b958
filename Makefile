VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test lint asan report clean setup

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: setup ## set up, then one cell: uug, agl, gat, train (ARGS="model=gcn ..." changes it)
	$(BIN)/python -m harness $(ARGS)

test: setup ## set up, then pass the tests (ARGS="-k cache" narrows them; real graphs from HARNESS_DATA or ../shared/data)
	$(BIN)/python -m pytest $(ARGS)

lint: setup ## ruff, mypy, import-linter, names and docstrings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/words.py

asan: setup ## pass the tests of the kernels under the address and undefined-behaviour sanitizers (needs g++)
	@echo "building the kernels into build/asan"
	@$(BIN)/python -m pip install -qq --no-deps --upgrade --target build/asan -C cmake.build-type=RelWithDebInfo -C cmake.define.SANITIZE=ON -C build-dir=build/asan-objects .
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 $(BIN)/python -m pytest -p tests.backends.kernels.sanitized tests/backends/kernels tests/backends/agl/test_graphfeature.py tests/backends/agl/train/test_graphfeature_trainer.py $(ARGS)

report: setup ## write reports/ from results/
	$(BIN)/python -m harness report $(ARGS)

clean: ## remove .venv and what the tools leave; never results or reports
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(VENV)/.installed

# torch first: what comes after may look for it while it is installed
$(VENV)/.installed: pyproject.toml constraints.txt $(wildcard $(addprefix backends/kernels/cpp/,CMakeLists.txt *.cpp */*.[ch]pp))
	@$(FIND_PYTHON); $(CHECK_MACHINE); \
	test -x $(BIN)/python || { echo "creating $(VENV) with $$python"; $$python -m venv $(VENV); }
	@echo "installing (torch, then the rest, then the kernels are built; some minutes the first time)"
	@$(PIP) $(shell grep '^torch==' constraints.txt)
	@$(PIP) --editable '.[pyg,dgl,dev]'
	@touch $@

# PYTHON=path overrules the search; DGL 1.1.3, the one that works with today's torch, has no wheel for Python 3.12
define FIND_PYTHON
python=; for name in $(PYTHON) python3.11 python3; do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$name; break; fi; \
	done; \
	test -n "$$python" || { echo "missing: Python 3.11 or newer (looked for $(PYTHON) python3.11 python3)" >&2; exit 1; }; \
	"$$python" -c 'import sys; sys.exit(sys.version_info >= (3, 12))' \
	  || echo "notice: $$python is newer than 3.11, for which DGL has no wheel: its rows will say not_installed"
endef

define CHECK_MACHINE
"$$python" -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "missing: the venv module of $$python (Debian: apt install python3-venv)" >&2; exit 1; }; \
	test -f "$$("$$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" \
	  || { echo "missing: Python.h of $$python (Debian: apt install python3-dev)" >&2; exit 1; }; \
	command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null \
	  || { echo "missing: a C++ compiler (Debian: apt install g++)" >&2; exit 1; }
endef
