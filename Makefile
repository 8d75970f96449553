# Narrows: `make help` lists what there is.
# SPDX-License-Identifier: Apache-2.0
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv/bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo "sudo --preserve-env=PATH")
TARGET ?= soft

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: setup
setup: ## install what is missing and build; says what it installs
	@scripts/setup.sh run

.PHONY: demo-virtual
demo-virtual: setup ## the demo in virtual time, without root; builds a kernel for it if there is none (minutes, once)
	@ls "$${XDG_CACHE_HOME:-$$HOME/.cache}"/narrows/kernels/*/linux >/dev/null 2>&1 || $(MAKE) --no-print-directory kernel
	@$(VENV)/narrows run experiments/demo.yaml --virtual

.PHONY: demo
demo: setup ## a real BBR flow against a real CUBIC flow, and a report about it (needs root)
	@$(SUDO) $(VENV)/narrows run experiments/demo.yaml

.PHONY: test
test: ## set up, then linters, unit tests, PTF suite and one end-to-end run (needs root)
	@scripts/setup.sh test
	@scripts/test.sh

.PHONY: test-long
test-long: ## the tests that `make test` leaves out because they take long
	@scripts/setup.sh test
	@scripts/test.sh long

.PHONY: check
check: ## linters, and the tests that need neither root nor network: a few minutes
	@scripts/setup.sh test
	@scripts/check.sh

.PHONY: lint
lint: ## formatters and linters only
	@scripts/lint.sh

.PHONY: kernel
kernel: ## a kernel for virtual time, from the distribution's newest source
	@scripts/setup.sh kernel
	@$(VENV)/narrows kernel build

.PHONY: ptf
ptf: ## the PTF suite against TARGET=soft|bmv2|tofino-model|tofino|tofino-fake (needs root)
	@scripts/setup.sh ptf
	@$(SUDO) $(VENV)/python ptf-tests/run.py --target $(TARGET) $(if $(CHIP),--chip $(CHIP)) \
		$(if $(TESTBED),--testbed $(TESTBED))

.PHONY: docs
docs: ## the documentation as a site in build/site; fails on a dead link
	@scripts/setup.sh docs
	@NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --quiet --strict

.PHONY: lock
lock: setup ## requirements/*.txt, versions and digests of all Python packages (network); UPGRADE=1 takes the newest
	@$(VENV)/python scripts/lock.py $(if $(UPGRADE),--upgrade)

.PHONY: reference
reference: setup ## docs/reference.md and the lists of fields in docs, made from the program
	@$(VENV)/python scripts/reference.py

.PHONY: p4
p4: ## recompile p4src for v1model (needs p4c-bm2-ss)
	@$(VENV)/python p4src/build.py v1model

.PHONY: p4-tofino
p4-tofino: ## recompile p4src for Tofino 1 and 2 (needs p4c with its Tofino backend)
	@$(VENV)/python p4src/build.py tofino tofino2 tofino-managed tofino2-managed

.PHONY: release
release: setup ## what a release ships for this kind of machine, made and tried in dist/ (network); PROGRAMS=DIR compiles none
	@$(VENV)/python scripts/release.py $(if $(PROGRAMS),--programs $(PROGRAMS))

.PHONY: stress
stress: setup ## faults, load and hostile input, with counts (needs root; docs/reliability.md)
	@$(SUDO) $(VENV)/python scripts/stress.py

.PHONY: fuzz
fuzz: ## coverage-guided fuzzing, SECONDS=60 a target, TARGETS=all (needs nightly Rust and cargo-fuzz)
	@cp Cargo.lock fuzz # what is tried is what is shipped
	@for target in $(or $(TARGETS),$$(cargo +nightly fuzz list)); do \
		mkdir -p fuzz/corpus/$$target && cargo +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=$(or $(SECONDS),60) -timeout=20 -rss_limit_mb=3072 -print_final_stats=1 \
			$$([ ! -f fuzz/$$target.dict ] || echo -dict=fuzz/$$target.dict) || exit 1; \
	done

.PHONY: audit
audit: setup ## known vulnerabilities, licences and sources of dependencies (needs cargo-deny and pip-audit)
	@cargo deny --locked check
	@pip-audit --progress-spinner off --skip-editable --path $(VENV)/../lib/python*/site-packages

.PHONY: coverage
coverage: ## which lines the tests reach, as pages in build/coverage (needs coverage, llvm-cov); TESTS=FOLDER, CRATE=NAME
	@scripts/setup.sh test
	@scripts/coverage.sh $(TESTS)

.PHONY: bench
bench: setup ## benchmarks against peers, side by side (needs root)
	@$(SUDO) $(VENV)/python benchmarks/run.py
