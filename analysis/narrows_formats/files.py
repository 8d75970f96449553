# SPDX-License-Identifier: Apache-2.0
"""Names of the files of a run's directory."""

# In a telemetry directory; sorted by name they are in order of time.
REPORT_FILES = "reports-*.parquet"
