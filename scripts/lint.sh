#!/usr/bin/env bash
# Formatters and linters of every language in the tree; changes nothing.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

echo "lint: clippy, next to the others"
# In the profile that is built anyway: macros and build scripts are there already.
cargo clippy --workspace --all-targets --release --locked --quiet -- -D warnings &
clippy=$!
trap 'kill "$clippy" 2>/dev/null || true' EXIT

echo "lint: ruff, mypy, layers"
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
# Apart: module names there are their own.
.venv/bin/mypy benchmarks
.venv/bin/lint-imports --no-logo

echo "lint: prose"
# Studies and the changelog say what was.
.venv/bin/proselint check --config proselint.json {README,CONTRIBUTING,SECURITY,CODE_OF_CONDUCT}.md docs/*.md docs/tutorials/*.md \
    {softswitch,benchmarks,ptf-tests,deploy,bmv2}/README.md

echo "lint: shellcheck"
shellcheck scripts/*.sh .ci/run .github/actions/*/*.sh

echo "lint: rustfmt"
cargo fmt --all --check
cargo fmt --check --manifest-path fuzz/Cargo.toml
wait "$clippy"
