# make demo   install and score the bundled sample with every metric that runs offline
# make space  open the scorecard in the browser (NAME=summarize, attention, judge or a metric for another Space)
# make test   install everything and run the test suite;  make test-browser  the Spaces in headless Chromium
# make test-cpus  the tests as on older CPUs (hours);  make mutants  do the tests notice faults? (half an hour)
# make fuzz   damaged files and odd texts, two minutes;  make faults  kills, full disks, shared caches (ten minutes)
# make docs   the documentation, in build/site
# make lint   ruff and mypy;  make bench  our speed beside the peers';  make slow  what takes minutes
# make study-apeso       pointer-generator and APESO on news, resumable (about an hour)
# make study-long        the thesis' experiments with long documents, resumable (many hours)
# make study-self-critical  learning from ROUGE-L, WMS, SMS and S+WMS, resumable (about 45 minutes)
# make study-attention   the papers' comparison of attention mechanisms, resumable (about 90 minutes)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt
# One thread per process: scores repeat, and two test processes do not fight over two cores.
THREADS := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false
BENCHMARKS := $(filter-out __init__ timing,$(basename $(notdir $(wildcard tests/benchmarks/*.py))))

.PHONY: demo space test test-cpus mutants fuzz faults test-browser pictures docs lint types bench slow study-apes study-apeso study-attention study-long study-self-critical clean

demo: $(VENV)/demo.installed
	$(BIN)/summarily summarize --sample
	$(BIN)/summarily score --sample --set rouge.split_sentences=True
	$(BIN)/summarily compare --sample --set rouge.split_sentences=True --no-signatures
	@echo; echo "The same in the browser: make space"

space: $(VENV)/space.installed
	$(BIN)/summarily demo $(or $(NAME),scorecard) --open

test: $(VENV)/all.installed
	$(THREADS) $(BIN)/python -m pytest -n 2 --dist loadfile

# Kernels differ from CPU to CPU, and the last digits of sums with them: the oldest instructions and AVX2.
test-cpus: $(VENV)/all.installed
	@for cpu in "default SSE41 SSE4_2" "avx2 AVX2 AVX2"; do for threads in 1 2; do \
		set -- $$cpu; echo "$$1, threads: $$threads"; \
		ATEN_CPU_CAPABILITY=$$1 ONEDNN_MAX_CPU_ISA=$$2 MKL_ENABLE_INSTRUCTIONS=$$3 TOKENIZERS_PARALLELISM=false \
		OMP_NUM_THREADS=$$threads MKL_NUM_THREADS=$$threads $(BIN)/python -m pytest -n 2 --dist loadfile $(TESTS) || exit 1; \
	done; done

# Small faults, put into the modules that decide numbers; SEED=1 for another sample, SAMPLE=200 for more.
mutants: $(VENV)/all.installed
	$(THREADS) $(BIN)/python -m tests.mutants --seed $(or $(SEED),0) --sample $(or $(SAMPLE),96)

# What others write: damaged files, odd texts, clicks. SEED=1 for other cases, SECONDS=600 for more of them.
fuzz: $(VENV)/all.installed
	$(THREADS) $(BIN)/python -m tests.fuzz --seed $(or $(SEED),0) --seconds $(or $(SECONDS),120)

# What machines do: kill -9, a full disk, a cache that cannot be written, two processes at once (about ten minutes).
faults: $(VENV)/all.installed
	$(THREADS) $(BIN)/python -m tests.faults --seed $(or $(SEED),0)

test-browser: $(VENV)/all.installed
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		{ echo "The browser tests need Chromium; on Debian: apt-get install chromium" >&2; exit 1; }
	$(THREADS) $(BIN)/python -m pytest -m browser tests/spaces/browser

# The pictures of the documents, taken by the browser tests.
pictures: $(VENV)/all.installed
	$(THREADS) $(BIN)/python -m tests.spaces.browser.pictures

# Every warning is an error: no dead link, no page that nothing leads to. The variable silences an advertisement.
docs: $(VENV)/docs.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The documentation is in build/site/index.html"

slow: $(VENV)/all.installed
	$(THREADS) $(BIN)/python -m pytest -m slow

lint: $(VENV)/all.installed types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# nn.Module gives every attribute the type Tensor | Module, and transformers' decorators hide signatures: in modeling files.
UNTYPED := disable_error_code = arg-type, assignment, attr-defined, call-arg, index, misc, operator, override, return-value, union-attr
# The type checker wants to see the package as it installs: links stand in for the mapping in setup.cfg.
types: $(VENV)/all.installed
	rm -rf build/types && mkdir -p build/types/summarily
	ln -s $(CURDIR)/summarily/*.py $(CURDIR)/summarily/*/ $(CURDIR)/metrics $(CURDIR)/modeling $(CURDIR)/hub_cards $(CURDIR)/spaces build/types/summarily/
	sed -n '/^\[mypy\]/,$$p' setup.cfg > build/types/mypy.ini
	cd build/types && find -L summarily -name 'modeling_*.py' | sort | sed 's|\.py$$||; s|/|.|g' | \
		paste -sd, - | sed 's|.*|[mypy-&]|' >> mypy.ini && printf '%s\n' "$(UNTYPED)" "warn_unused_ignores = False" >> mypy.ini
	cd build/types && $(CURDIR)/$(BIN)/mypy --config-file mypy.ini -p summarily

bench: $(VENV)/all.installed
	@for name in $(BENCHMARKS); do $(THREADS) $(BIN)/python -m tests.benchmarks.$$name || exit 1; done

# Studies take their data from SUMMARILY_DATA (or DATA=folder) and go on where they were stopped.
study-apes: $(VENV)/all.installed
	$(BIN)/summarily study apes $(if $(DATA),--data $(DATA))

study-apeso: $(VENV)/all.installed
	$(BIN)/summarily study apeso $(if $(DATA),--data $(DATA))

study-attention: $(VENV)/all.installed
	$(BIN)/summarily study attention $(if $(DATA),--data $(DATA))

study-long: $(VENV)/all.installed
	$(BIN)/summarily study long $(if $(DATA),--data $(DATA))

study-self-critical: $(VENV)/all.installed
	$(BIN)/summarily study self-critical $(if $(DATA),--data $(DATA))

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip setuptools

$(VENV)/demo.installed: $(VENV)/bin/pip setup.cfg constraints.txt pyproject.toml backend.py
	$(INSTALL) --editable ".[offline]"
	touch $@

$(VENV)/space.installed: $(VENV)/bin/pip setup.cfg constraints.txt pyproject.toml backend.py
	$(INSTALL) --editable ".[offline,demo]"
	touch $@

$(VENV)/docs.installed: $(VENV)/bin/pip setup.cfg constraints.txt pyproject.toml backend.py
	$(INSTALL) --editable ".[docs]"
	touch $@

$(VENV)/all.installed: $(VENV)/bin/pip setup.cfg constraints.txt pyproject.toml backend.py
	$(INSTALL) --editable ".[all]"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
