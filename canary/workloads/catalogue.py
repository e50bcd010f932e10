"""Every workload there is, found by listing this package."""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Final

import canary.workloads
from canary.workloads.descriptor import Workload

_NO_WORKLOADS: Final = frozenset({"catalogue", "descriptor"})


def _found() -> list[Workload]:
    names = {module.name for module in pkgutil.iter_modules(canary.workloads.__path__)} - _NO_WORKLOADS
    found = [importlib.import_module(f"canary.workloads.{name}").WORKLOAD for name in names]
    return sorted(found, key=lambda one: one.number)


WORKLOADS: Final[Mapping[str, Workload]] = {one.name: one for one in _found()}
"""By name, in the order of their numbers on the wire."""
MAIN: Final = next(one.name for one in WORKLOADS.values() if one.topic == "main")
"""The workload that writes to the main topic: on unless others are named."""
