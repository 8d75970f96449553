# SPDX-License-Identifier: Apache-2.0
"""A command answers before a user waits: what takes long to import is imported where it is used."""

from __future__ import annotations

import subprocess
import sys

# Third-party packages that the command line itself is made of, with what they import.
COMMAND_LINE = {"typer", "click", "shellingham", "annotated_doc", "typing_extensions"}
OURS = {
    "narrows", "narrows.cli", "narrows.cli.added", "narrows.entry", "narrows.errors", "narrows.search_path",
    "narrows.targets", "narrows.targets.registry", "narrows_formats", "narrows_formats.files",
    "narrows_formats.plugins", "narrows_formats.beneath", "narrows_formats.bounded_json", "narrows.plain_text",
    "narrows_formats.units",
    *(f"narrows.cli.{command}" for command in ("analyze", "benchmark", "calibrate", "check", "clean", "collect",
                                               "collector_command", "compare", "completion", "doctor", "examples",
                                               "export", "kernel", "new", "options", "pack", "plan", "report", "run",
                                               "runs", "schema", "shell", "streams", "suite", "test", "tune")),
}  # fmt: skip
# Commands that are added are listed in the help, each by its module.
ADDED = {
    "narrows_studies", "narrows_studies.command", "narrows_studies.names", "narrows_studies.running",
    "narrows_studies.running.processors",
}  # fmt: skip
SLOW = {"finsy", "grpc", "matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "thrift", "yaml"}


def imported_by(code: str) -> set[str]:
    """Modules that a program has imported when it ends, whatever its exit code."""
    program = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stderr.splitlines())


def test_version_and_help_import_only_what_they_are_made_of() -> None:
    idle = imported_by("pass")
    for option, made_of in (("--version", OURS), ("--help", OURS | ADDED)):
        found = imported_by(f"import narrows.entry; sys.argv = ['narrows', '{option}']; narrows.entry.main()") - idle
        ours = {name for name in found if name.partition(".")[0].startswith("narrows")}
        assert ours == made_of
        others = {name.partition(".")[0] for name in found - ours}
        assert others - sys.stdlib_module_names <= COMMAND_LINE


def test_a_target_is_imported_alone() -> None:
    found = imported_by("from narrows.targets.registry import target_class; target_class('soft')")
    assert not {name for name in found if name.startswith(("narrows.targets.bmv2", "narrows_tofino"))}
    # Nothing is asked of a switch yet.
    assert not SLOW - {"pydantic", "yaml"} & {name.partition(".")[0] for name in found}


def test_a_run_says_something_before_it_imports_what_it_ends_with() -> None:
    """pandas, pyarrow, gRPC and finsy take over a second, and are not needed to check an experiment."""
    series = "import narrows.batch.sweep, narrows.experiment.sweep, narrows.hosts.state, narrows.virtual.environment"
    found = imported_by(series)
    assert not (SLOW - {"pydantic", "yaml"}) & {name.partition(".")[0] for name in found}
    assert "narrows_formats.run_record" not in found


def test_a_guest_imports_no_more_than_a_measurement_needs() -> None:
    """Every file that a guest opens costs ten times what it does outside, and each run boots one."""
    found = imported_by("import narrows.virtual.inside, narrows.run.measurement, narrows.targets.soft.target")
    assert not SLOW & {name.partition(".")[0] for name in found}


def test_results_are_loaded_without_what_draws_them() -> None:
    """matplotlib takes half as long again as all the rest of `load`."""
    assert "matplotlib" not in imported_by("from narrows_analysis import load; load")
