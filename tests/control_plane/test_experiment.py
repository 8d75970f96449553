# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from narrows.errors import InputError
from narrows.experiment.lines import with_line
from narrows.experiment.loader import load
from narrows.experiment.model import Experiment
from narrows.experiment.planning import make_plan
from narrows.experiment.sweep import Series, load_series, make_series

BASE: dict[str, Any] = {
    "name": "test",
    "bottleneck": {"rate": "100Mbit", "rtt": "40ms", "buffer": "1bdp"},
    "flows": [{"cca": "bbr", "duration": "30s"}, {"cca": "cubic", "duration": "30s"}],
}


def write(path: Path, **changes: Any) -> Path:
    file = path / "experiment.yaml"
    file.write_text(yaml.safe_dump({**BASE, **changes}))
    return file


def series(path: Path, **changes: Any) -> Series:
    return load_series(write(path, **changes))


def test_what_is_not_given_has_its_default(tmp_path: Path) -> None:
    experiment = load(write(tmp_path))
    link = experiment.all_links["bottleneck"]
    assert link.rate == 100_000_000
    assert link.rate_layer == "l2"
    assert link.rtt == 40_000_000
    assert (link.reverse, link.delay) == (None, 0)
    assert experiment.telemetry.sample == 1
    assert experiment.mtu == 1500
    assert [group.name for group in experiment.flows] == ["bbr", "cubic"]
    assert [group.duration for group in experiment.flows] == [30_000_000_000] * 2


def test_groups_are_named_after_their_cca(tmp_path: Path) -> None:
    flow = {"cca": "bbr", "duration": "1s"}
    experiment = load(write(tmp_path, flows=[flow, flow, {**flow, "name": "bbr-2"}, flow]))
    assert [group.name for group in experiment.flows] == ["bbr", "bbr-3", "bbr-2", "bbr-4"]


def test_resolved_experiment_is_an_experiment(tmp_path: Path) -> None:
    changes = {
        "bottleneck": {**BASE["bottleneck"], "ecn_threshold": "20packets", "loss": "0.1%", "rate_layer": "l1"},
        "flows": [{"cca": "bbr", "size": "1.5MB", "repeat": 3, "gap": "100ms", "rtt": "7us", "start": "1.5s"}],
        "telemetry": {"sample": 16},
        "ip_version": 6,
    }
    first = series(tmp_path, **changes).points[0].experiment
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(first.as_yaml_data()))
    assert load(again) == first


def test_one_run_without_sweep(tmp_path: Path) -> None:
    found = series(tmp_path)
    assert found.single
    assert [point.directory for point in found.points] == [""]


def test_sweep_is_the_cartesian_product(tmp_path: Path) -> None:
    found = series(
        tmp_path, sweep={"bottleneck.buffer": ["0.5bdp", "1bdp"], "flows.bbr.count": [1, 2]}, repeat=2, seed=7
    )
    assert not found.single
    assert [
        (str(p.experiment.all_links["bottleneck"].buffer), p.experiment.flows[0].count, p.repetition, p.experiment.seed)
        for p in found.points
    ] == [
        (buffer, count, repetition, 6 + repetition)
        for buffer in ("0.5bdp", "1bdp")
        for count in (1, 2)
        for repetition in (1, 2)
    ]
    assert found.points[0].directory == "0001-buffer=0.5bdp-count=1-r1"
    assert len({p.directory for p in found.points}) == 8


def test_sweep_reaches_any_field(tmp_path: Path) -> None:
    found = series(tmp_path, sweep={"flows.1.cca": ["reno"], "telemetry.sample": [4], "mtu": [9000]})
    experiment = found.points[0].experiment
    assert (experiment.flows[1].cca, experiment.telemetry.sample, experiment.mtu) == ("reno", 4, 9000)
    assert experiment.flows[1].name == "swept"


@pytest.mark.parametrize("queue", ["pie", {"kind": "pie", "tupdate": "20ms"}])
@pytest.mark.parametrize("link", ["bottleneck", "links.cell", "links.cell.reverse"])
def test_fields_of_a_queue_can_be_swept_and_set(tmp_path: Path, link: str, queue: Any) -> None:
    one: dict[str, Any] = {**BASE["bottleneck"], "queue": queue}
    if link.endswith("reverse"):
        one = {**BASE["bottleneck"], "reverse": {"rate": "1Mbit", "buffer": "9packets", "queue": queue}}
    where: dict[str, Any] = (
        {"bottleneck": one} if link == "bottleneck" else {"bottleneck": None, "links": {"cell": one}}
    )
    file = write(tmp_path, **where, sweep={f"{link}.queue.target": ["5ms", "25ms"]})
    name = link.removeprefix("links.")
    found = load_series(file, [f"{link}.queue.ecn=true"]).points
    queues = [point.experiment.directions[name].queue.model_dump() for point in found]
    tupdate = "15ms" if queue == "pie" else "20ms"
    expected = {"kind": "pie", "tupdate": tupdate, "ecn": True}
    assert [{key: one[key] for key in ("target", *expected)} for one in queues] == [
        {"target": target, **expected} for target in ("5ms", "25ms")
    ]


@pytest.mark.parametrize("whole", ["bottleneck.queue", "bottleneck.queue.kind"])
def test_what_is_in_a_field_outlasts_the_field(whole: str) -> None:
    """Of fields of which one is in the other, whichever comes first in the file; the outer one would undo the inner."""
    swept = {"bottleneck.queue.target": ["5ms", "25ms"], whole: ["codel", "pie"]}
    found = make_series({**BASE, "sweep": swept}, "file").points
    queues = [point.experiment.directions["bottleneck"].queue.model_dump() for point in found]
    assert [(one["kind"], one["target"]) for one in queues] == [
        (kind, target) for target in ("5ms", "25ms") for kind in ("codel", "pie")
    ]


@pytest.mark.parametrize(
    ("queue", "setting", "message"),
    [
        ("pie", "queue.interval=9ms", "unknown field 'interval' of kind 'pie'; allowed: alpha, beta"),
        ({"kind": "codel"}, "queue.tupdat=9ms", "unknown field 'tupdat' of kind 'codel'; allowed: ce_threshold"),
        ("pie", "queue.targe=9ms", "unknown field 'targe' of kind 'pie', did you mean 'target'?"),
        ("pi", "queue.kind.x=9ms", "'kind' has no fields of its own"),
        ("pie", "burst.x=9ms", "the file has no burst, so there is no 'x' to set"),
        (None, "queue.target=9ms", "unknown field 'target'; allowed: kind"),
    ],
)
def test_fields_of_another_queue_are_refused(tmp_path: Path, queue: Any, setting: str, message: str) -> None:
    link = BASE["bottleneck"] | ({} if queue is None else {"queue": queue})
    with pytest.raises(InputError) as caught:
        load_series(write(tmp_path, bottleneck=link), [f"bottleneck.{setting}"])
    assert f"--set bottleneck.{setting.partition('=')[0]}: {message}" in str(caught.value)


def test_a_swept_seed_is_that_of_its_runs(tmp_path: Path) -> None:
    found = series(tmp_path, sweep={"seed": [5, 9]}, repeat=2)
    assert [(point.parameters["seed"], point.experiment.seed) for point in found.points] == [
        (5, 5), (5, 6), (9, 9), (9, 10),
    ]  # fmt: skip


def test_different_values_of_a_sweep_have_different_names(tmp_path: Path) -> None:
    """Results are put together by these names: points of the same one would pass for repetitions."""
    waves = [{"wave": {"kind": "sine", "low": "1Mbit", "high": "9Mbit", "period": f"{s}s"}} for s in (1, 2)]
    steps = [{"steps": [{"at": f"{s}s", "rate": "9Mbit"} for s in range(99)] + [{"at": "99s", "rate": r}]}
             for r in ("1Mbit", "2Mbit")]  # fmt: skip
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lte").write_text("1\n2\n")
    traces: list[Any] = [{"trace": {"file": f"{name}/lte", "format": "mahimahi"}} for name in ("a", "b")]
    traces.append({"trace": {"file": "b/lte", "format": "mahimahi", "as": "rate", "bin": "1ms"}})
    found = series(tmp_path, sweep={"bottleneck.rate": [*waves, *steps, *traces]})
    names = [point.parameters["bottleneck.rate"] for point in found.points]
    assert names[:2] == ["wave-9Mbit-sine-1Mbit-1s", "wave-9Mbit-sine-1Mbit-2s"]
    assert names[4:] == ["trace-a/lte-mahimahi", "trace-b/lte-mahimahi", "trace-rate-1ms-b/lte-mahimahi"]
    assert len(set(names)) == len(names)


def names_at_points(path: Path, **changes: Any) -> list[list[str]]:
    return [[group.name for group in point.experiment.flows] for point in series(path, **changes).points]


def test_a_group_has_one_name_in_a_whole_sweep(tmp_path: Path) -> None:
    """Results of points are put together by it: a rival must not have that of the group that is swept elsewhere."""
    flows = [
        {"cca": "bbr", "duration": "10s"},
        {"cca": "cubic", "duration": "10s"},
        {"cca": "cubic", "size": "10kB", "repeat": 5, "until": "cubic"},
        {"name": "web", "cca": "cubic", "size": "10kB", "repeat": 5, "until": "cubic"},
    ]
    sweep = {"flows.cubic.cca": ["reno", "bbr"], "flows.web.cca": ["reno"]}
    found = series(tmp_path, flows=flows, sweep=sweep, expect=["flows.cubic-1.share > 0.5", "flows.web-1.5.drops<1"])
    assert [[group.name for group in point.experiment.flows] for point in found.points] == [
        ["bbr", "swept", "cubic", "web"]
    ] * 2
    assert [point.experiment.flows[1].cca for point in found.points] == ["reno", "bbr"]
    assert [[group.ends_with for group in point.experiment.flows[2:]] for point in found.points] == [["swept"] * 2] * 2
    # The second group of the file is meant, although the third one has its name now.
    assert found.points[0].experiment.expect == ("flows.swept-1.share > 0.5", "flows.web-1.5.drops<1")


@pytest.mark.parametrize("values", [["bbr", "cubic"], ["bbr"]])
def test_all_groups_may_be_swept(tmp_path: Path, values: list[str]) -> None:
    found = names_at_points(tmp_path, flows=BASE["flows"] * 2, sweep={"flows.*.cca": values})
    assert found == [["swept", "swept-2", "swept-3", "swept-4"]] * len(values)


def test_groups_of_a_sweep_over_all_flows_are_told_apart_by_position(tmp_path: Path) -> None:
    bbr, cubic = BASE["flows"]
    short = {"cca": "bbr", "size": "1MB", "repeat": 3, "until": "cubic"}
    found = series(tmp_path, sweep={"flows": [[bbr, cubic], [cubic, cubic], [cubic, {"name": "x", **bbr}, short]]})
    groups = [[group.name for group in point.experiment.flows] for point in found.points]
    assert groups == [["swept", "cubic"], ["swept", "cubic"], ["swept", "x", "bbr"]]
    assert found.points[2].experiment.flows[2].ends_with == "swept"


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"bottleneck.bufer": ["1bdp"]}, "sweep.bottleneck.bufer: unknown field 'bufer', did you mean 'buffer'?"),
        ({"flows.bbbr.count": [1]}, "sweep.flows.bbbr.count: no flow group 'bbbr', did you mean 'bbr'?"),
        ({"flows.2.count": [1]}, "sweep.flows.2.count: no flow group '2'"),
        ({"repeat": [1]}, "sweep.repeat: unknown field 'repeat'"),
        ({"bottleneck.rate.x": [1]}, "sweep.bottleneck.rate.x: 'rate' has no fields of its own"),
        ({"bottleneck.buffer": []}, "sweep.bottleneck.buffer: is empty"),
        ({"bottleneck.buffer": ["1bdp", "2bdp", "1bdp"]}, "sweep.bottleneck.buffer: has 1bdp more than once; allowed:"),
        ({"bottleneck.queue": [{"kind": "pie"}] * 2}, 'sweep.bottleneck.queue: has {"kind": "pie"} more than once'),
        ({"bottleneck.buffer": ["1bdp", "0bdp"]}, "sweep at bottleneck.buffer=0bdp: bottleneck.buffer: '0bdp' is not"),
    ],
)
def test_a_bad_sweep_is_refused_by_file_and_field(tmp_path: Path, sweep: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(InputError) as caught:
        series(tmp_path, sweep=sweep)
    assert message in str(caught.value)
    assert str(tmp_path / "experiment.yaml") in str(caught.value)


def test_captures_need_every_report(tmp_path: Path) -> None:
    links = {"a": {"rate": "1Mbit", "buffer": "9packets", "rtt": "1ms"}}
    links["a"]["reverse"] = {"rate": "1Mbit", "buffer": "9packets", "capture": True}  # type: ignore[assignment]
    assert load(write(tmp_path, bottleneck=None, links=links)).directions["a.reverse"].capture
    for sample in (2, "auto"):
        with pytest.raises(
            InputError, match=rf"link 'a.reverse' with capture, and telemetry.sample: {sample}; allowed"
        ):
            load(write(tmp_path, bottleneck=None, links=links, telemetry={"sample": sample}))


def test_acks_need_every_report(tmp_path: Path) -> None:
    assert load(write(tmp_path, telemetry={"acks": True})).telemetry.acks
    for sample in (2, "auto"):
        with pytest.raises(InputError, match="has acks together with a sample other than 1"):
            load(write(tmp_path, telemetry={"acks": True, "sample": sample}))


def test_sockets_are_not_read_all_the_time(tmp_path: Path) -> None:
    """Each reading takes a third of a millisecond: a run of 2 s in virtual time had lasted ten minutes at 1.7 s."""
    for interval in ("0", "100us"):
        load(write(tmp_path, telemetry={"sockets": interval}))
    with pytest.raises(InputError, match=r"telemetry.sockets: .*too often; allowed: 0 for never, or 100us or more"):
        load(write(tmp_path, telemetry={"sockets": "99us"}))


def test_sampling_may_be_left_to_the_target(tmp_path: Path) -> None:
    auto, one, eight = (load(write(tmp_path, telemetry={"sample": sample})) for sample in ("auto", 1, 8))
    telemetry = auto.as_yaml_data()["telemetry"]
    assert isinstance(telemetry, dict) and telemetry["sample"] == "auto"
    found = [(plan.bottleneck.sample_shift, plan.bottleneck.sample_auto) for plan in map(make_plan, (auto, one, eight))]
    assert found == [(0, True), (0, False), (3, False)]


@pytest.mark.parametrize(("changes", "times"), [({}, 1), ({"sweep": {"seed": [1, 2, 3]}}, 4)])
def test_every_experiment_is_validated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], times: int
) -> None:
    file, seen = write(tmp_path, **changes), []

    def counted(data: Any) -> Experiment:
        seen.append(data)
        return Experiment(**data)

    monkeypatch.setattr(Experiment, "model_validate", counted)
    load_series(file)
    assert len(seen) == times


def test_a_small_mtu_has_no_ipv6(tmp_path: Path) -> None:
    """RFC 8200, section 5: an IPv6 link carries 1280 bytes or more."""
    assert load(write(tmp_path, mtu=576)).mtu == 576
    assert load(write(tmp_path, mtu=1280, ip_version=6)).ip_version == 6
    with pytest.raises(InputError) as caught:
        load(write(tmp_path, mtu=1279, ip_version=6))
    message = with_line(str(caught.value))
    assert "ip_version: '6' does not go with mtu: 1279; allowed: ip_version 4, or an mtu of 1280 or more" in message
    assert message.startswith(f"{tmp_path / 'experiment.yaml'}:")
