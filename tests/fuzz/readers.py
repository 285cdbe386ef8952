"""Every reader of what others wrote, and the modules that read nothing of others.

A new reader gets a row in one of the modules below; `test_readers.py` fails where a module opens or parses files and
neither a row covers it nor `NOT_OF_OTHERS` says why it needs none.
"""

from __future__ import annotations

from tests.fuzz import (  # noqa: F401 - each adds its rows
    machine_readers,
    own_file_readers,
    project_readers,
    run_readers,
)
from tests.fuzz.table import READERS, Reader

__all__ = ["NOT_OF_OTHERS", "READERS", "Reader"]

_SHIPPED = """
backends/handover_forms.py core/messages.py deploy/script.py device/one_file.py device/small_file.py kit/setup_file.py
migration/overlay.py numerics/callfile/reproduction.py numerics/report/curves_plot.py numerics/report/pages.py
ops/codegen/upstream.py profiling/page.py report/html_format.py rehearsal/build.py rehearsal/driver/building.py
assistant/skill.py cli/backend.py
"""
_OWN_PROCESS = """
acceptance/project.py assistant/calls.py assistant/jobs.py cli/reproduction.py core/env.py core/forks.py
core/progress.py core/torch_start.py deploy/fetching.py
deploy/playing.py deploy/remote/cluster_probe.py deploy/remote/fetch.py deploy/remote/offer.py
doctor/probes/live_probe.py doctor/probes/python_side.py migration/overlay_runtime.py numerics/framework/launcher.py
ops/child.py ops/kernels.py ops/predicting.py ops/prediction.py shim/failures.py triton/compiling.py
triton/environment.py triton/front_end_program.py
"""
_BYTES = """
acceptance/situation.py acceptance/watch.py cli/decide.py cli/device_module.py cli/kit.py cli/migrate.py cli/since.py
cli/sync.py core/files.py core/system.py doctor/fixing.py handover/project_files.py kit/standalone.py
migration/directory.py migration/refused.py migration/suffix.py ops/codegen/defined.py ops/codegen/new_operator.py
ops/codegen/stubs.py rehearsal/cuda_leftovers.py rehearsal/environments/entering.py report/excerpts.py
"""
_WRITES = """
core/site/sitecustomize.py core/terminal.py handover/writing.py
kernels/output.py numerics/recording/storing.py
rehearsal/events.py rehearsal/environments/filling.py shim/no_device.py
"""

NOT_OF_OTHERS = {
    **dict.fromkeys(_SHIPPED.split(), "reads what torchferry ships"),
    **dict.fromkeys(_OWN_PROCESS.split(), "reads what a process of torchferry wrote into a folder of its own"),
    **dict.fromkeys(_BYTES.split(), "copies, compares or hashes bytes, or shows lines of them"),
    **dict.fromkeys(_WRITES.split(), "opens files that it writes"),
    "cli/accept_metric.py": "looks for written words in the lines of a log",
    **dict.fromkeys(("handover/checks.py", "handover/loss_lines.py"), "parses expressions that it made itself"),
    "kernels/gates/surface_stubs.py": "reads the headers of the torch that is installed",
    "core/json_text.py": "every reader of JSON uses it",
    **dict.fromkeys(
        ("rehearsal/observers.py", "rehearsal/handlers.py", "rehearsal/driver/refusals.py"),
        "reads the source of a program or a plugin that runs in its own process",
    ),
    "rehearsal/environments/cuda_free.py": "reads a wheel that the user asks pip for, which runs as it is",
    "numerics/framework/dispatch.py": "opens no file: the word is a method's",
}
"""Modules that open or parse files and read nothing that others wrote, and why."""
