# SPDX-License-Identifier: Apache-2.0
"""Names of the files and folders of a run's directory, of a sweep's, a study's and a suite's."""

RUN = "run.json"
EXPERIMENT = "experiment.yaml"
SUMMARY = "summary.json"
FLOWS = "flows.parquet"
QUEUE = "queue.parquet"
# Of a link with the two queues of DualPI2.
QUEUES = "queues.parquet"
DISTRIBUTIONS = "distributions.parquet"
REPORT = "report.html"

TELEMETRY = "telemetry"
# In a telemetry directory; sorted by name they are in order of time.
REPORT_FILES = "reports-*.parquet"
FLOW_KEYS = "flow_keys.parquet"
LEARNED_FLOWS = "learned_flows.parquet"
DROPS = "drops.parquet"
# Fields of a user's P4 program that were watched.
WATCHED = "watched.parquet"
REGISTERS = "registers.parquet"
COLLECTOR = "collector.json"

# One file for each captured direction of a link, by its name.
CAPTURES = "captures"

HOSTS = "hosts"
# In the hosts' directory.
SOCKETS = "sockets.parquet"

# In a sweep's directory.
SWEEP = "sweep.json"
SWEEP_TABLE = "sweep.parquet"
INTERVALS = "intervals.csv"

# What captures of packets show.
CAPTURE = "capture.json"

# In a study's directory.
STUDY = "results.parquet"

# In a suite's directory.
MATRIX = "matrix.json"
BADGE = "badge.svg"
