# SPDX-License-Identifier: Apache-2.0
"""Packets of a run's links as files, where the experiment asks for them (`capture`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from narrows_formats import files

from narrows.experiment.model import Experiment


def write_captures(experiment: Experiment, directory: Path) -> Iterator[str]:
    """Make the files from the reports of the run in ``directory``; gives what they are without, for the user."""
    captured = [name for name, direction in experiment.directions.items() if direction.capture]
    if not captured:
        return
    from narrows_analysis import AnalysisError, read_run
    from narrows_analysis.interchange.packets import write_packets

    place = directory / files.CAPTURES
    for name in captured:
        file = f"{name}.pcapng"
        try:
            place.mkdir(exist_ok=True)
            found = write_packets(read_run(directory), place / file, (name,))
        except AnalysisError as error:
            yield f"capture of {name}: {error}"
        except OSError as error:
            yield f"capture of {name}: it cannot be written: {error.strerror}; 'narrows export --pcapng' makes it"
        except KeyboardInterrupt:
            yield f"capture of {name}: interrupted; 'narrows export --pcapng' makes it"
            return
        else:
            if found.unknown:
                yield f"capture of {name}: {found.unknown} packets of flows without addresses are left out"
