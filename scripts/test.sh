#!/usr/bin/env bash
# Everything `make test` checks; with `long` the tests that it leaves out because they take long.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
# Bytecode of tests, too: pytest would make it anew in each of its processes.
unset PYTHONDONTWRITEBYTECODE
sudo=
[ "$(id -u)" = 0 ] || sudo="sudo --preserve-env=PATH"
which="${1:-not long}"

if [ "$which" != long ]; then
    # Linters compute, the suite waits for packets: side by side, and what the linters say at their end.
    said=$(mktemp)
    scripts/lint.sh >"$said" 2>&1 &
    linters=$!
    trap 'kill "$linters" 2>/dev/null || true; rm -f "$said"' EXIT
    echo "test: PTF suite on the softswitch"
    # The program that manages queues is the same bottleneck: what is its own is tried here, the rest in `make stress`.
    $sudo .venv/bin/python ptf-tests/run.py --target soft --compiled p4src/compiled/v1model
    $sudo .venv/bin/python ptf-tests/run.py --target soft --compiled p4src/compiled/v1model-managed --case management
    code=0
    wait "$linters" || code=$?
    cat "$said"
    [ "$code" = 0 ] || exit "$code"
    echo "test: Rust"
    cargo test --workspace --release --locked --quiet
fi
# One more than processors, since some of them wait.
echo "test: Python, side by side"
$sudo .venv/bin/python -m pytest -q -n "$(($(nproc) + 1))" --dist loadfile --no-loadscope-reorder \
    -m "$which and (not root or parallel_safe)" --durations 15
# Switches, testbeds and whole runs: what they see depends on what else the machine does.
echo "test: Python, one by one"
$sudo .venv/bin/python -m pytest -q -m "$which and root and not parallel_safe" --durations 15
