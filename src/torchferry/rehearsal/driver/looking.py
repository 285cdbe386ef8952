"""A vendor's wheel in a process that only looks at it: on a machine of one device, without a rehearsal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from torchferry.backends.base import Backend
from torchferry.rehearsal.driver import building
from torchferry.rehearsal.driver.description import Queue, load_driver
from torchferry.rehearsal.driver.native import Machine
from torchferry.rehearsal.driver.plugin import Shipped, unpacked

_MEMORY = 1 << 34


def make_importable(wheel: Path, backend: type[Backend]) -> Shipped | None:
    """Put a wheel's package on the path, and the simulated driver in front of it.

    Returns:
        The plugin; None where the driver of this backend is not simulated.

    Raises:
        UsageError: it is no wheel of this plugin, it is for another Python, or it is damaged.
        TorchferryError: the driver cannot be built, or the cache cannot be written.
    """
    driver = load_driver(backend)
    if driver is None:
        return None
    plugin = unpacked(wheel, backend)
    folder = building.driver_folder(driver)
    Machine(folder, driver.libraries, devices=1, memory=_MEMORY)
    if isinstance(driver.queue, Queue):
        os.environ[driver.queue.variable] = driver.queue.off
    for home in driver.homes:
        os.environ[home] = str(folder)  # what is installed here, half or whole, is not asked
    sys.path.insert(0, plugin.folder)
    return plugin
