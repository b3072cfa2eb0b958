VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test lint asan report peers clean setup

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

run: setup ## set up, then one cell: uug, agl, gat, train (ARGS="model=gcn ..." changes it)
	$(BIN)/python -m harness $(ARGS)

test: setup ## set up, then run the tests, two at a time (ARGS="-k cache" narrows them, ARGS="-n 0" takes one at a time; real graphs from HARNESS_DATA or ../shared/data)
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

lint: setup ## ruff, mypy, import-linter, names and docstrings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/words.py

asan: setup ## run the tests of the kernels under the address and undefined-behaviour sanitizers (needs g++)
	@echo "building the kernels into build/asan"
	@$(BIN)/python -m pip install -qq --no-deps --upgrade --target build/asan -C cmake.build-type=RelWithDebInfo -C cmake.define.SANITIZE=ON -C build-dir=build/asan-objects .
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 $(BIN)/python -m pytest -p tests.backends.kernels.sanitized -m "not needs_dgl" tests/backends/kernels tests/backends/distpart tests/backends/agl/test_graphfeature.py tests/backends/agl/train/test_graphfeature_trainer.py $(ARGS)

report: setup ## write reports/ from results/
	$(BIN)/python -m harness report $(ARGS)

peers: $(PEERS)/.installed ## build a sampler of PyG's own into .venv-peers, for launcher.python=.venv-peers/bin/python (WHEELS=page or folder of wheels)

clean: ## remove .venv, .venv-peers and what the tools leave; never results or reports
	rm -rf $(VENV) $(PEERS) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: $(VENV)/.installed

# torch first: what comes after may look for it while it is installed
$(VENV)/.installed: pyproject.toml constraints.txt $(wildcard $(addprefix backends/kernels/cpp/,CMakeLists.txt *.cpp */*.[ch]pp))
	@$(FIND_PYTHON); $(CHECK_MACHINE); \
	test -x $(BIN)/python || { echo "creating $(VENV) with $$python"; $$python -m venv $(VENV); }
	@echo "installing (torch, then the rest, then the kernels are built; some minutes the first time)"
	@$(PIP) $(shell grep '^torch==' constraints.txt)
	@$(PIP) --editable '.[pyg,dgl,gpu,partitioners,dev]'
	@touch $@

# .venv-peers sees every package of .venv, and has only the sampler of its own: pyg-lib where a wheel for this torch is
# found, else torch-sparse from its sources, which compiles for a quarter of an hour
$(PEERS)/.installed: $(VENV)/.installed
	@rm -rf $(PEERS); $(BIN)/python -m venv $(PEERS)
	@echo "import site; site.addsitedir('$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
	  > $$($(PEERS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth
	@$(PEERS)/bin/python -m pip install -qq --upgrade setuptools wheel
	@$(PEERS)/bin/python -m pip install -qq --no-deps --only-binary :all: $(if $(WHEELS),--find-links $(WHEELS)) pyg-lib 2>$(PEERS)/pyg-lib.log \
	  || { echo "no wheel of pyg-lib (set WHEELS to a page that has one): building torch-scatter and torch-sparse"; \
	    $(BUILD_SAMPLER); } \
	  || { echo "missing: a sampler for PyG's NeighborLoader: pyg-lib has no wheel for this torch ($(PEERS)/pyg-lib.log) and torch-sparse does not build ($(PEERS)/build.log needs g++ and Python.h). PyG's mini batches stay ours (backend.loader=khop), and their rows say so" >&2; exit 1; }
	@$(PEERS)/bin/python -c 'from torch_geometric import typing; assert typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE' \
	  || { echo "missing: the sampler was installed into $(PEERS) but PyTorch Geometric cannot import it" >&2; exit 1; }
	@touch $@
	@echo "PyG samples its own mini batches with launcher.python=$(PEERS)/bin/python"

# torch-sparse 0.6.18 draws from a range that is one too short for Floyd's algorithm, so that the last of a node's in-edges
# are drawn too seldom (rusty1s/pytorch_sparse, issue 385); the parity gate refuses it. +uniform marks the corrected build.
define BUILD_SAMPLER
export FORCE_ONLY_CPU=1 pip="$(PEERS)/bin/python -m pip --log $(PEERS)/build.log -qq" links="--no-build-isolation --no-deps $(if $(WHEELS),--find-links $(WHEELS))" \
	  && $$pip install $$links --constraint constraints.txt torch-scatter \
	  && $$pip download $$links --constraint constraints.txt --no-binary :all: --dest $(PEERS)/sources torch-sparse \
	  && tar --extract --gzip --file $(PEERS)/sources/torch_sparse-*.tar.gz --directory $(PEERS)/sources --strip-components 1 \
	  && sed --in-place 's/uniform_randint(j)/uniform_randint(j + 1)/' $(PEERS)/sources/csrc/cpu/neighbor_sample_cpu.cpp \
	  && sed --in-place "s/^__version__ = '\(.*\)'/__version__ = '\1+uniform'/" $(PEERS)/sources/setup.py \
	  && $$pip install $$links $(PEERS)/sources
endef

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
	command -v c++ >/dev/null || command -v g++ >/dev/null \
	  || { echo "missing: g++ 12 or newer (Debian: apt install g++)" >&2; exit 1; }
endef
