#!/usr/bin/env bash
# Which lines the tests without root reach: pages for Python and Rust below build/coverage.
# Needs coverage for the first, cargo-llvm-cov and LLVM's tools of the same compiler for the second:
#   .venv/bin/pip install coverage
#   cargo install --locked cargo-llvm-cov && rustup component add llvm-tools
# In place of that component LLVM's tools of a Debian package do, if `rustc -vV` says that it is the same major version:
#   LLVM_COV=llvm-cov-22 LLVM_PROFDATA=llvm-profdata-22 make coverage
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
    printf 'coverage: error: %s\n' "$*" >&2
    exit 2
}
.venv/bin/python -c 'import coverage' 2>/dev/null || fail "coverage is not installed; fix: .venv/bin/pip install coverage"
languages="Python and Rust"
if ! cargo llvm-cov --version >/dev/null 2>&1; then
    languages=Python
    echo "coverage: Rust is left out: no cargo-llvm-cov; fix: cargo install --locked cargo-llvm-cov"
fi

rm -rf build/coverage
mkdir -p build/coverage
echo "coverage: Python"
.venv/bin/python -m coverage run -m pytest -q -m "not root" --ignore tests/virtual --ignore tests/physics "$@"
.venv/bin/python -m coverage combine --quiet
.venv/bin/python -m coverage html --quiet --directory build/coverage/python
.venv/bin/python -m coverage report --format total | sed 's/^/coverage: Python: % of lines and branches: /'
if [ "$languages" != Python ]; then
    echo "coverage: Rust"
    cargo llvm-cov --workspace --locked --html --output-dir build/coverage/rust
    cargo llvm-cov report --summary-only | sed -n 's/^TOTAL/coverage: Rust:/p'
fi
echo "coverage: $languages in build/coverage"
