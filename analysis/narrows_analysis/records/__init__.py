# SPDX-License-Identifier: Apache-2.0
"""What a run left on disk, parsed and checked: run.json, host records, flow keys, report files."""
