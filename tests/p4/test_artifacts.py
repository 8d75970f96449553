# SPDX-License-Identifier: Apache-2.0
"""The committed artifacts are what the P4 sources compile to, and hold what decoders and targets rely on."""

from __future__ import annotations

import itertools
import json
import lzma
import re
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from finsy.proto import p4i
from google.protobuf import text_format
from narrows_formats.columns import telemetry_columns
from script_modules import load_script

P4SRC = Path(__file__).resolve().parents[2] / "p4src"
V1MODEL = P4SRC / "compiled" / "v1model"

# The layout that docs and decoders promise: name and width in bits, in this order.
REPORT = [
    ("version", 8),
    ("flags", 8),
    ("bottleneck", 8),
    ("sample_shift", 8),
    ("flow", 16),
    ("packet_length", 16),
    ("signature", 32),
    ("sequence", 32),
    ("arrivals", 32),
    ("departures", 32),
    ("loss_drops", 32),
    ("aqm_drops", 32),
    ("enqueue_depth", 32),
    ("dequeue_depth", 32),
    ("queue_delay", 48),
    ("epoch", 16),
    ("timestamp", 48),
    ("queue", 16),
]
# Fields that the softswitch's traffic manager fills in or reads.
ALIASES = {
    "narrows.enq_depth_bytes",
    "narrows.deq_depth_bytes",
    "narrows.queue_delay",
    "narrows.epoch",
    "narrows.flow",
}


def load_build(folder: Path) -> ModuleType:
    """The build script of a p4src folder."""
    return load_script(folder / "build.py")


@pytest.fixture
def compiled() -> dict[str, Any]:
    program: dict[str, Any] = json.loads((V1MODEL / "narrows.json").read_text())
    return program


def architectures() -> list[str]:
    """What has been compiled so far; v1model always."""
    return sorted({"v1model", *(folder.name for folder in (P4SRC / "compiled").iterdir() if folder.is_dir())})


@pytest.mark.parametrize("architecture", architectures())
def test_artifacts_belong_to_the_sources(architecture: str) -> None:
    assert load_build(P4SRC).stale(architecture) == []


def test_the_build_script_tells_of_every_change(tmp_path: Path) -> None:
    copy = tmp_path / "p4src"
    shutil.copytree(P4SRC, copy, ignore=shutil.ignore_patterns("__pycache__"))
    build = load_build(copy)
    assert copy == build.P4SRC
    assert build.stale("v1model") == []
    names = build.sources(build.TOPS["v1model"])
    assert "common/headers.p4" in names and "v1model/narrows.p4" in names
    for name in names:
        path = copy / name
        original = path.read_bytes()
        path.write_bytes(original.replace(b"1", b"2", 1) + b"\n")
        assert build.stale("v1model") == [f"v1model: {name} changed since it was compiled"]
        path.write_bytes(original)
    assert build.stale("v1model") == []


def test_the_build_script_tells_of_another_include(tmp_path: Path) -> None:
    copy = tmp_path / "p4src"
    shutil.copytree(P4SRC, copy, ignore=shutil.ignore_patterns("__pycache__"))
    build = load_build(copy)
    (copy / "common" / "more.p4").write_text("// More.\n")
    headers = copy / "common" / "headers.p4"
    headers.write_text('#include "more.p4"\n' + headers.read_text())
    assert build.stale("v1model") == [
        "v1model: common/headers.p4 changed since it was compiled",
        "v1model: common/more.p4 changed since it was compiled",
    ]


@pytest.mark.parametrize("name", ["narrows.json", "narrows.p4info.txtpb"])
def test_the_build_script_tells_of_an_edited_artifact(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "p4src"
    shutil.copytree(P4SRC, copy, ignore=shutil.ignore_patterns("__pycache__"))
    build = load_build(copy)
    artifact = copy / "compiled" / "v1model" / name
    artifact.write_text(artifact.read_text() + "\n")
    assert build.stale("v1model") == [f"v1model: artifact {name} is not what the compiler wrote"]
    artifact.unlink()
    assert build.stale("v1model") == [f"v1model: artifact {name} is missing"]


def test_the_report_is_56_bytes_in_the_promised_order(compiled: dict[str, Any]) -> None:
    (report,) = [header for header in compiled["header_types"] if header["name"] == "report_t"]
    assert [(name, width) for name, width, _ in report["fields"]] == REPORT
    assert sum(width for _, width in REPORT) == 56 * 8


def test_the_documentation_has_the_report_as_the_files_describe_it() -> None:
    page = (P4SRC.parent / "docs" / "report-format.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:6]] for line in re.findall(r"^\| \d+ \|.*\|$", page, re.M)]
    offsets = itertools.accumulate((bits // 8 for _, bits in REPORT), initial=0)
    expected = [
        [str(offset), str(bits // 8), f"`{name}`"] for offset, (name, bits) in zip(offsets, REPORT, strict=False)
    ]
    assert [row[:3] for row in rows] == expected
    described = {f"`{column.name}`": [column.unit or "-", column.meaning] for column in telemetry_columns("reports")}
    assert [row[3:] for row in rows[1:]] == [described[row[2]] for row in rows[1:]]


def test_the_source_declares_the_report_that_was_compiled() -> None:
    source = (P4SRC / "common" / "headers.p4").read_text()
    body = re.search(r"header report_t \{(.*?)\n\}", source, re.DOTALL)
    assert body is not None
    declared = re.findall(r"^\s*bit<(\d+)>\s+(\w+);", body[1], re.MULTILINE)
    assert [(name, int(width)) for width, name in declared] == REPORT


def test_a_report_is_sent_in_front_of_the_original_headers(compiled: dict[str, Any]) -> None:
    # The traffic manager's header is only there between ingress and egress.
    order = [name for name in compiled["deparsers"][0]["order"] if name != "traffic_manager"]
    assert order[:4] == ["report_ethernet", "report_ipv4", "report_udp", "report"]
    assert order[4:] == ["ethernet", "vlan_outer", "vlan_inner", "ipv4", "ipv6", "ports"]


def test_the_traffic_managers_fields_exist(compiled: dict[str, Any]) -> None:
    """Compilers drop aliases of flattened structs without a word, and BMv2 refuses aliases of fields it has not."""
    types = {kind["name"]: [field[0] for field in kind["fields"]] for kind in compiled["header_types"]}
    instances = {header["name"]: types[header["header_type"]] for header in compiled["headers"]}
    aliases = dict(compiled["field_aliases"])
    assert set(aliases) >= ALIASES
    for alias, (header, field) in aliases.items():
        assert field in instances[header], f"{alias} names {header}.{field}, which does not exist"


def schema_names(schema: dict[str, Any]) -> dict[str, set[str]]:
    """Keys, actions and action parameters of each table of a bf-rt.json, and registers and counters, by P4 name."""
    found: dict[str, set[str]] = {}
    for table in schema["tables"]:
        members = {key["name"] for key in table["key"] if not key["name"].startswith("$")}
        for action in table.get("action_specs", ()):
            members.add(action["name"])
            members.update(f"{action['name']}({parameter['name']})" for parameter in action["data"])
        found[table["name"].removeprefix("pipe.")] = members
    return found


@pytest.mark.parametrize(
    ("architecture", "label"),
    [
        ("tofino", "Tofino 1"),
        ("tofino2", "Tofino 2"),
        ("tofino-managed", "Tofino 1, with queue management"),
        ("tofino2-managed", "Tofino 2, with queue management"),
    ],
)
def test_tofino_stays_within_its_stages(architecture: str, label: str) -> None:
    build = load_build(P4SRC)
    resources = json.loads((P4SRC / "compiled" / architecture / "resources.json").read_text())
    assert build.exceeded_limits(architecture, resources["stages"]) == []
    row = f"| {label} | {resources['stages']['ingress']} | "
    assert f"{row}{resources['stages']['egress']} |" in (P4SRC.parent / "docs" / "p4.md").read_text()


def test_the_tofino_build_refuses_more_stages_and_other_warnings() -> None:
    build = load_build(P4SRC)
    assert build.exceeded_limits("tofino", {"ingress": 9, "egress": 6}) == []
    assert build.exceeded_limits("tofino", {"ingress": 10, "egress": 6}) == [
        "ingress takes 10 stages, at most 9 are allowed"
    ]
    assert build.exceeded_limits("tofino2", {"ingress": 8, "egress": 7}) == [
        "egress takes 7 stages, at most 6 are allowed"
    ]
    known = "warning: No size defined for table 'bottleneck_ecn', setting default size to 512"
    other = "narrows.bfa:12: warning: Conflicting instruction slot usage"
    assert build.unexplained_warnings(f"{known}\n0 errors, 1 warnings generated.\n{other}\n") == [other]


def test_byte_counters_of_tofino_leave_out_what_is_not_the_frames() -> None:
    source = (P4SRC / "tofino" / "narrows.p4").read_text()
    value = {name: int(number) for name, number in re.findall(r"(\w+_(?:BYTES|QUEUE))(?: =)? (\d+)", source)}
    assert value["COUNTED_BEFORE_QUEUE"] == value["FCS_BYTES"] == 4
    bodies = re.findall(r"header bridge_\w+ \{(.*?)\}", source.replace("bottleneck_index_t", "bit<6>"), re.DOTALL)
    bridged_bits = sum(int(width) for body in bodies for width in re.findall(r"bit<(\d+)>", body))
    assert "BOTTLENECK_WIDTH 6" in (P4SRC / "common" / "constants.p4").read_text() and len(bodies) == 2
    assert value["COUNTED_BEHIND_QUEUE"] == bridged_bits // 8 + value["FCS_BYTES"]


def test_the_length_of_a_frame_behind_the_queue_is_without_its_fcs_alone() -> None:
    """At egress a packet's length is that with which it came in: bridge headers are in byte counters, but not in it."""
    source = (P4SRC / "tofino" / "narrows.p4").read_text()
    assert re.findall(r"intrinsic\.pkt_length(.*);", source) == [" - FCS_BYTES"]


@pytest.mark.parametrize("architecture", ["tofino", "tofino2", "tofino-managed", "tofino2-managed"])
def test_no_path_of_the_building_machine_is_in_an_artifact(architecture: str) -> None:
    for artifact in (P4SRC / "compiled" / architecture).rglob("*"):
        if artifact.is_file():
            content = artifact.read_bytes()
            loaded = lzma.decompress(content) if artifact.suffix == ".xz" else content
            assert not re.search(rb'"[^"]*/(tmp|home|root|work|opt)/', loaded), artifact.name


# Loss by position, and thresholds in packets: a link that has them is refused on Tofino. Loss in bursts: the chances of
# both states are in one entry there (`narrows_tofino.writes.losses`). A seed: its random numbers take none.
OF_V1MODEL_ONLY = re.compile(
    r"NarrowsIngress\.bottleneck\.(pattern\..*|states\.loss_states|set_loss_model)"
    r"|NarrowsEgress\.settings\.observe\((counts_packets|seed)\)"
)


@pytest.mark.parametrize("architecture", ["tofino", "tofino2", "tofino-managed", "tofino2-managed"])
def test_tofino_offers_what_the_suite_and_the_control_plane_use(architecture: str) -> None:
    """Same names on every architecture, by P4Info: entries and cases are then the same too."""
    schema = P4SRC / "compiled" / architecture / "bf-rt.json"
    offered = schema_names(json.loads(schema.read_text()))
    info = p4i.P4Info()
    text_format.Parse((V1MODEL / "narrows.p4info.txtpb").read_text(), info)
    actions = {action.preamble.id: action for action in info.actions}
    for table in info.tables:
        if table.is_const_table or OF_V1MODEL_ONLY.fullmatch(table.preamble.name):
            continue
        members = offered[table.preamble.name]
        assert {key.name for key in table.match_fields} <= members, table.preamble.name
        for reference in table.action_refs:
            action = actions[reference.id]
            if action.preamble.name != "NoAction" and not OF_V1MODEL_ONLY.fullmatch(action.preamble.name):
                name = action.preamble.name
                assert name in members
                parameters = {f"{name}({parameter.name})" for parameter in action.params}
                assert {one for one in parameters if not OF_V1MODEL_ONLY.fullmatch(one)} <= members
    registers = {register.preamble.name for register in info.registers}
    assert {name for name in registers if not OF_V1MODEL_ONLY.fullmatch(name)} <= set(offered)
    assert {counter.preamble.name for counter in info.counters} <= set(offered)
