"""Which clusters are copied from, as the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canary.settings import Settings, SettingsError, load

if TYPE_CHECKING:
    from pathlib import Path

_TWO = """
clusters:
- name: dc1
  kafka: {{bootstrap.servers: a:1}}
- name: dc2
  kafka: {{bootstrap.servers: b:1}}
  shard: {shard}
  replicated_from:
  - {origin}
"""


def loaded(folder: Path, origin: str, shard: str = "0/1") -> Settings:
    path = folder / "canary.yaml"
    path.write_text(_TWO.format(origin=origin, shard=shard))
    return load(path, {})


@pytest.mark.parametrize(
    ("origin", "mirrored", "checkpoints"),
    [
        ("{cluster: dc1}", "dc1.orders", "dc1.checkpoints.internal"),
        ("{cluster: dc1, alias: east, separator: _}", "east_orders", "east_checkpoints_internal"),
        ("{cluster: dc1, policy: identity}", "orders", "dc1.checkpoints.internal"),
        ("{cluster: dc1, policy: identity, checkpoints: points}", "orders", "points"),
    ],
)
def test_a_mirror_is_called_as_mirrormaker_calls_it(
    origin: str, mirrored: str, checkpoints: str, tmp_path: Path
) -> None:
    (one,) = loaded(tmp_path, origin).clusters[1].replicated_from
    assert (one.mirrored("orders"), one.checkpoints_topic, one.recovery_point) == (mirrored, checkpoints, 60.0)


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ("{cluster: dc3}", "there is no other cluster dc3; name another one: dc1"),
        ("{cluster: dc2}", "there is no other cluster dc2"),
        ("{cluster: dc1, topics: [a, a]}", "a of dc1 is named twice"),
        ("{cluster: dc1, separator: /}", "separator"),
        ("{topics: [a]}", "cluster"),
    ],
)
def test_what_is_no_source_is_refused_with_its_place(origin: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        loaded(tmp_path, origin)
    assert "clusters[1].replicated_from[0]" in str(refused.value)


def test_the_embedded_lab_cannot_be_the_source(tmp_path: Path) -> None:
    path = tmp_path / "canary.yaml"
    path.write_text(
        "clusters:\n- {name: lab}\n- {name: b, kafka: {bootstrap.servers: 'b:1'}, replicated_from: [{cluster: lab}]}\n"
    )
    with pytest.raises(SettingsError, match="lab is the embedded lab, which has no fixed address"):
        load(path, {})


def test_of_those_that_share_a_cluster_one_watches_its_mirrors(tmp_path: Path) -> None:
    assert loaded(tmp_path, "{cluster: dc1}", "0/2").clusters[1].replicated_from
    assert not loaded(tmp_path, "{cluster: dc1}", "1/2").clusters[1].replicated_from
