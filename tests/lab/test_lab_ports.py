"""A lab takes the ports that it is asked for, where they are free."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.lab import CONTROLLER, Lab
from canary.lab.state import free_ports

if TYPE_CHECKING:
    from pathlib import Path


def test_another_lab_has_the_ports_of_the_first_once_they_are_free(tmp_path: Path) -> None:
    wanted = dict(zip((CONTROLLER, 1, 2), free_ports(3), strict=True))
    lab = Lab(tmp_path, brokers=2, ports=wanted)
    assert {node: lab.port(node) for node in wanted} == wanted
    assert lab._site.state().with_free_ports().ports == wanted
