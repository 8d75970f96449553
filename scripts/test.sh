#!/usr/bin/env bash
# Everything `make test` checks, cheapest first; with `long` the tests that it leaves out because they take long.
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
cd "$(dirname "$0")/.."
sudo=
[ "$(id -u)" = 0 ] || sudo="sudo --preserve-env=PATH"
which="${1:-not long}"

if [ "$which" != long ]; then
    scripts/lint.sh
    echo "test: Rust"
    cargo test --workspace --release --locked --quiet
    echo "test: PTF suite on the softswitch"
    # The program that manages queues is the same bottleneck: what is its own is tried here, the rest in `make stress`.
    $sudo .venv/bin/python ptf-tests/run.py --target soft --compiled p4src/compiled/v1model
    $sudo .venv/bin/python ptf-tests/run.py --target soft --compiled p4src/compiled/v1model-managed --case management
fi
# One more than processors, since some of them wait.
echo "test: Python, side by side"
$sudo .venv/bin/python -m pytest -q -n "$(($(nproc) + 1))" --dist loadfile --no-loadscope-reorder \
    -m "$which and (not root or parallel_safe)" --durations 15
# Switches, testbeds and whole runs: what they see depends on what else the machine does.
echo "test: Python, one by one"
$sudo .venv/bin/python -m pytest -q -m "$which and root and not parallel_safe" --durations 15
