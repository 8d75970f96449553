# SPDX-License-Identifier: Apache-2.0
"""Writes what comes from the program itself: docs/reference.md, the lists of fields in docs/experiments.md and
docs/queues.md, Wireshark's dissector, and the matrix of faults, which comes from the tests.

Usage: .venv/bin/python scripts/reference.py [--check]; with --check nothing is written, and the exit code is 1 where
a page is not what it would be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from commands import as_before
from dissector import dissector
from faults import CLOCKS, matrix
from narrows.experiment.events import Event
from narrows.experiment.impairment_settings import (
    AggregationSettings,
    DelayStep,
    FramingSettings,
    GilbertElliottSettings,
    JitterSettings,
    LossModel,
    LossTrace,
    ParetoJitter,
    PolicerSettings,
    TextFile,
    VaryingDelay,
)
from narrows.experiment.joint_trace import JointColumns, JointTrace, JointUnits
from narrows.experiment.model import Experiment, Hosts, LinkSettings, Telemetry
from narrows.experiment.program_settings import ProgramSettings
from narrows.experiment.varying import RateStep, Trace, TraceColumns, VaryingRate, Wave
from narrows.flows.datagrams import Bursts, Probe, Udp
from narrows.flows.group import FlowGroup
from narrows.flows.media import Media
from narrows.flows.program import Ready
from narrows.flows.requests import Requests
from narrows.flows.tcp_settings import TcpSettings
from narrows.flows.video import Video
from narrows.flows.workload import Exponential, Lognormal, Pareto, Sizes, Workload
from narrows.queues.registry import SETTINGS
from narrows_formats.columns import TABLES, telemetry_columns
from narrows_formats.connection_record import ApplicationChange, ConnectionRecord, ConnectionSample
from narrows_formats.files import WATCHED
from narrows_formats.kinds import kinds_of_flows
from narrows_formats.run_record import EventRecord, FlowRecord, LinkRecord, RunRecord
from narrows_formats.target_profile import TargetProfile
from pydantic import BaseModel

DOCS = Path(__file__).resolve().parents[1] / "docs"
FAULTS = DOCS.parent / "tests" / "faults.md"
MADE = "<!-- Made by scripts/reference.py from the program itself; do not edit. -->\n"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _entry(name: str, unit: str, meaning: str) -> str:
    """A column or a field of stored data, in a list."""
    return f"- `{name}`{unit and f' ({unit})'}: {meaning.removesuffix('.')}\n"


def reference() -> str:
    """docs/reference.md: the columns of every table of a run, and the fields of run.json."""
    text = f"# Results: files, columns and fields\n\n{MADE}\n"
    text += (
        "Times are seconds from the experiment's start. The time of an interval is its start. Unit and meaning of a "
        "column are also in the Parquet file, as metadata of the column (`unit`, `meaning`); in "
        "`reports-NNNNN.parquet`, `flow_keys.parquet`, `drops.parquet` and `watched.parquet` as JSON in the file's "
        "metadata (`columns`). [telemetry-schema.md](telemetry-schema.md) says how these four are made. "
        "`summary.json`: [metrics.md](metrics.md), `experiment.yaml`: "
        "[experiments.md](experiments.md).\n"
    )
    tables = {
        **TABLES,
        "telemetry/reports-NNNNN.parquet": telemetry_columns("reports"),
        "telemetry/flow_keys.parquet": telemetry_columns("flow_keys"),
        "telemetry/drops.parquet": telemetry_columns("drops"),
        f"telemetry/{WATCHED}": telemetry_columns("watched"),
    }
    layout = (DOCS / "report-format.md").read_text()
    shown = {
        column: "[the report](report-format.md)"
        for column in tables["telemetry/reports-NNNNN.parquet"]
        if f"| `{column.name}` |" in layout
    }
    for name, columns in tables.items():
        new = [column for column in columns if column not in shown]
        text += f"\n## {name}\n\n{''.join(_entry(one.name, one.unit, one.meaning) for one in new)}"
        text += as_before([one for one in columns if one in shown], shown, lambda one: f"`{one.name}`")
        shown |= dict.fromkeys(new, f"`{name}`")
    text += (
        "\nTime and depth units are the switch's: seconds = value x `time_unit_s` of run.json's `target_profile`, "
        "bytes = value x `depth_unit_bytes`. `telemetry/learned_flows.parquet` has the columns of the flow keys but "
        "`first_timestamp`.\n"
    )
    text += f"\n## run.json\n\n{_fields(RunRecord)}"
    text += (
        "\nBeside these: `traffic_manager` (the switch's own counters of queues, flows and ports), `drop_cross_check` "
        "(of each link, drops by reports against drops by the switch), `balances` and `losses_elsewhere` (packets lost "
        "outside the queue), `virtual_time` (the guest's kernel, and how long the run took).\n"
    )
    text += f"\n### run.json: links\n\n{_fields(LinkRecord)}\n### run.json: flows\n\n{_fields(FlowRecord)}"
    text += f"\n### run.json: events\n\n{_fields(EventRecord)}"
    text += f"\n### run.json: target_profile\n\n{TargetProfile.__doc__}\n"
    text += (
        "\n## hosts/NAME.json\n\nOne connection as its sender knows it; what there is none of, or is not known, is "
        f"null.\n\n{_fields(ConnectionRecord)}\n### hosts/NAME.json: samples\n\n{_fields(ConnectionSample)}"
        f"\n### hosts/NAME.json: changes\n\n{_fields(ApplicationChange)}"
    )
    for kind in kinds_of_flows():
        names = " and ".join(f"`{name}`" for name in kind.names)
        text += f"\n### hosts/NAME.json: of {names}\n\n{_fields(kind.record, ConnectionRecord)}"
    return text.replace("    ``", "``").replace("``", "`").replace("\n    ", "\n")


def _fields(model: type[BaseModel], but: type[BaseModel] = BaseModel) -> str:
    """An entry for each field of a model that another, which it extends, does not have."""
    fields = ((name, one) for name, one in model.model_fields.items() if name not in but.model_fields)
    return "".join(_entry(name, "", " ".join((one.description or "").split())) for name, one in fields)


# The lists of experiments.md by the marks that enclose them: models, and how their fields are written there.
EXPERIMENT: dict[str, list[tuple[type[BaseModel], str]]] = {
    "top level": [(Experiment, "{}")],
    "bottleneck": [(LinkSettings, "{}")],
    "program": [(ProgramSettings, "program.{}")],
    "rates": [
        (VaryingRate, "rate.{}"),
        (RateStep, "rate.steps.{}"),
        (Wave, "rate.wave.{}"),
        (Trace, "rate.trace.{}"),
        (TraceColumns, "rate.trace.columns.{}"),
    ],
    "losses": [
        (LossModel, "loss.{}"),
        (GilbertElliottSettings, "loss.gilbert_elliott.{}"),
        (LossTrace, "loss.trace.{}"),
    ],
    "policer": [(PolicerSettings, "policer.{}")],
    "joint traces": [
        (JointTrace, "trace.{}"),
        (JointColumns, "trace.columns.{}"),
        (JointUnits, "trace.units.{}"),
    ],
    "framing": [(FramingSettings, "framing.{}")],
    "aggregation": [(AggregationSettings, "aggregation.{}")],
    "delays": [
        (VaryingDelay, "delay.{}"),
        (DelayStep, "delay.steps.{}"),
        (TextFile, "delay.trace.{}"),
        (JitterSettings, "jitter.{}"),
        (ParetoJitter, "jitter.pareto.{}"),
        (TextFile, "jitter.samples.{}"),
    ],
    "events": [(Event, "{}")],
    "flows": [(FlowGroup.as_written, "{}")],
    "tcp": [(TcpSettings, "tcp.{}")],
    "ready": [(Ready, "ready.{}")],
    "udp": [(Udp, "{}"), (Bursts, "bursts.{}")],
    "onoff": [(Bursts, "{}")],
    "requests": [(Requests, "{}"), (TextFile, "trace.{}")],
    "video": [(Video, "{}")],
    "probe": [(Probe, "{}")],
    "media": [(Media, "{}"), (Bursts, "bursts.{}")],
    "workload": [(Workload, "{}")],
    "distributions": [
        (Pareto, "sizes.pareto.{}"),
        (Exponential, "gaps.exponential.{}"),
        (Lognormal, "gaps.lognormal.{}"),
        (Sizes, "sizes.{0}`, `gaps.{0}"),
    ],
    "telemetry": [(Telemetry, "{}")],
    "hosts": [(Hosts, "{}")],
}


# The same of queues.md: of laws with parameters.
QUEUES: dict[str, list[tuple[type[BaseModel], str]]] = {
    kind: [(settings, "{}")] for kind, settings in SETTINGS.items() if len(settings.model_fields) > 1
}


def with_fields(page: str, tables: dict[str, list[tuple[type[BaseModel], str]]]) -> str:
    """A page with the lists of fields between its marks made again."""
    text = (DOCS / page).read_text()
    for mark, models in tables.items():
        # A blank line, or the list would belong to the comment.
        made = "\n" + "".join(line for model, form in models for line in _settings(model, form)) + "\n"
        text = _with(text, f"<!-- {mark}: made by scripts/reference.py from the program itself -->\n", made)
    return text


def faults() -> str:
    """tests/faults.md with its matrix made again."""
    made = table(("fault", "stage", *CLOCKS.values()), matrix())
    return _with(FAULTS.read_text(), "<!-- faults: made by scripts/reference.py from the tests -->\n", made)


def _with(text: str, begin: str, made: str) -> str:
    """A page with what was made between a mark and the next end."""
    before, _, after = text.partition(begin)
    return before + begin + made + after[after.index("<!-- end -->") :]


def _settings(model: type[BaseModel], form: str) -> Iterator[str]:
    """A line for each field that users write: its kind, whether it is required or what its default is."""
    schema = model.model_json_schema()
    for name, field in schema["properties"].items():
        if (model, name) == (Sizes, "pareto") or (name in ("kind", "text") and "enum" not in field):
            continue  # Its own fields have rows; a queue's kind is its heading; files' contents are the program's.
        required = name in schema.get("required", ())
        default = "required" if required else _written_default(field.get("default"))
        kind = ", ".join(filter(None, (_kind(field), default)))
        yield f"- `{form.format(name)}` ({kind}): {field['description']}\n"


def _written_default(value: Any) -> str:
    if isinstance(value, dict) or value in (None, "", []):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"default `{json.dumps(value)}`".replace('"', "")


def _kind(schema: dict[str, Any]) -> str:
    """What the schema of a field allows, in the words of the table of quantities."""
    if "oneOf" in schema:
        return " or ".join(dict.fromkeys(_kind(option) for option in schema["oneOf"]))
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        return _kind(options[0])
    kind, *explained = schema.get("title", "").split(": ")
    if explained or options:
        return str(kind)
    if "$ref" in schema:
        return "mapping"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        item = schema["items"]
        return f"list of `{item['const']}`" if "const" in item else "list, at least one"
    if schema["type"] == "integer":
        low, high = schema["minimum"], schema.get("maximum")
        return f"{low} to {high}" if high is not None else "count" if low == 1 else f"{low} or more"
    words = {"boolean": "`true` or `false`", "number": "more than 0", "object": "mapping of field to list"}
    words["string"] = "text"
    return words[schema["type"]]


PAGES = {
    "reference.md": reference,
    "experiments.md": lambda: with_fields("experiments.md", EXPERIMENT),
    "queues.md": lambda: with_fields("queues.md", QUEUES),
    "../tests/faults.md": faults,
    "../deploy/narrows.lua": dissector,
}


def main() -> int:
    """Write the pages, or compare them."""
    check = sys.argv[1:] == ["--check"]
    stale = [name for name, make in PAGES.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != make()]
    for name in stale:
        if check:
            print(f"docs/{name} is not what scripts/reference.py makes; fix: make reference")
        else:
            (DOCS / name).write_text(PAGES[name]())
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
