"""Three controllers on real Kafka."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from canary.lab import CONTROLLER, Lab, LabError, NodeProperties
from canary.wire import broker_view

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.kafka
@pytest.mark.slow
def test_one_of_three_controllers_may_fail_and_two_may_not(tmp_path: Path) -> None:
    lone = NodeProperties({"min.insync.replicas": 1})
    with Lab(tmp_path, 1, controllers=3, profile="quick", properties=lone, die_with_parent=True) as lab:
        assert [(node.node, node.role) for node in lab.status()][:3] == [
            (one, "controller") for one in (1000, 1001, 1002)
        ]
        for node in lab.controllers:  # each in turn, so that the one that leads is among them
            lab.kill(node)
            lab.wait_ready()
            lab.restart(node)
        lab.kill(1000)
        lab.pause(1001)
        assert broker_view.unfenced(lab.port(1), {1}, timeout=10) == frozenset(), "nobody decides"
        lab.resume(1001)
        lab.wait_ready()
        lab.kill(1001)
        with pytest.raises(LabError, match=r"no quorum without controllers \[1000, 1001\]"):
            lab.wait_ready()
        lab.restart(1000)
        assert broker_view.unfenced(lab.port(1), {1}) == {1}


def test_a_lab_of_one_controller_from_before_is_known(tmp_path: Path) -> None:
    Lab(tmp_path, 1)._site.prepare(None)
    written = json.loads((tmp_path / "lab.json").read_text())
    for key in ("versions", "zookeeper", "proxied", "private"):
        del written[key]
    (tmp_path / "lab.json").write_text(json.dumps(written))
    lab = Lab.attach(tmp_path)
    assert (lab.controllers, lab.brokers, lab.version) == ((CONTROLLER,), (1,), written["version"])
    assert lab.port(1) == written["ports"]["1"]


@pytest.mark.kafka
@pytest.mark.slow
def test_a_controller_that_is_wiped_is_formatted_with_the_cluster_s_id_and_knows_nothing(tmp_path: Path) -> None:
    lone = NodeProperties({"min.insync.replicas": 1})
    with Lab(tmp_path, 1, profile="quick", properties=lone, die_with_parent=True) as lab:
        before = lab._site.cluster_id_of(CONTROLLER)
        with pytest.raises(LabError, match="is running"):
            lab.wipe(CONTROLLER)
        lab.kill(1)
        lab.kill(CONTROLLER)
        lab.wipe(CONTROLLER)
        lab.wipe(1)
        assert lab._site.cluster_id_of(CONTROLLER) == lab._site.cluster_id_of(1) == before
        lab.restart(CONTROLLER)
        lab.start_broker(1)
