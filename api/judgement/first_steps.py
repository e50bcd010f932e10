"""What to do first in an incident, with commands that are filled in. Pure.

A broker that rejoins cuts its copy of a partition to what the new leader has. So the first command copies the
partition's directory on each broker that may still hold what is gone: the leader of that time first. `canary salvage`
counts, and writes, what is in that copy and no longer in the cluster.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from api.judgement.likely_cause import Cause
from api.judgement.lost_ranges import LostRange

_BOOTSTRAP = "${BOOTSTRAP:?host:port of a broker}"


class Step(NamedTuple):
    """What to do, where, and the command for it ("": there is none). ``where``: a broker's host; "": any host."""

    words: str
    where: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker as the timeline has it; ``address`` is "" where that is not known."""

    number: int
    address: str = ""
    there: bool = True

    @property
    def host(self) -> str:
        """Its name and host, for people."""
        return f"broker {self.number}" + (f" ({self.address.rpartition(':')[0]})" if self.address else "")


def first_steps(
    cluster: str,
    topic: str,
    partition: int | None,
    lost: Sequence[LostRange],
    holders: Sequence[Broker],
    bootstrap: str,
    cause: Cause,
) -> list[Step]:
    """Return the steps, the most urgent first.

    ``cluster``: its name in the settings. ``lost``: what is gone of the partition; ``holders``: the brokers that may
    still have it, the likeliest first.
    ``bootstrap``: the address of a live broker; "": none is known.
    """
    server = f"--bootstrap-server {shlex.quote(bootstrap)}" if bootstrap else f'--bootstrap-server "{_BOOTSTRAP}"'
    steps: list[Step] = []
    copies: list[Step] = []
    if partition is not None and lost:
        place = f"{topic}-{partition}"
        copies = [_copy(place, broker, led=number == 0) for number, broker in enumerate(holders)]
        steps += copies[:1]
        first, last = lost[0].first.offset, lost[0].last_offset
        if holders and first is not None and last is not None:
            steps.append(_dump(place, first, last, holders[0]))
        if holders:
            steps.append(_salvage(place, cluster, holders[0]))
        steps.append(_forbid_unclean(server, topic, cause))
    if topic:
        describe = f"kafka-topics.sh {server} --describe --topic {shlex.quote(topic)}"
        steps.append(Step("See who leads now, and who is in sync.", command=describe))
    return steps + copies[1:]


def _copy(place: str, broker: Broker, *, led: bool) -> Step:
    """Return the step that copies a partition's directory."""
    what = f"copy the directory of {place} before it {'restarts' if broker.there else 'starts again'}"
    why = "it led when the writes were acknowledged, and a rejoin cuts it" if led else "it was a replica then"
    source = f'"${{LOG_DIR:?log.dirs of broker {broker.number}}}"/{shlex.quote(place)}'
    return Step(
        f"On {broker.host} {what}: {why}.", broker.host, f"mkdir -p {_kept(broker)} && cp -a {source} {_kept(broker)}/"
    )


def _kept(broker: Broker) -> str:
    return f"/var/tmp/broker-{broker.number}"  # noqa: S108  # on the broker's host


def _target(place: str, broker: Broker) -> str:
    return f"{_kept(broker)}/{shlex.quote(place)}"


def _dump(place: str, first: int, last: int, broker: Broker) -> Step:
    files = f'"$(ls {_target(place, broker)}/*.log | paste -sd, -)"'
    which = f"awk '$2 == \"offset:\" && $3 >= {first} && $3 <= {last}'"
    command = f"kafka-dump-log.sh --files {files} --print-data-log | {which}"
    between = f"offset {first} is" if first == last else f"offsets {first} to {last} are"
    return Step(f"See whether {between} in that copy.", broker.host, command)


def _salvage(place: str, cluster: str, broker: Broker) -> Step:
    words = "Where the canary's settings are, count what that copy has and the cluster does not; --out DIR writes it."
    command = f"canary salvage --log-dir {_target(place, broker)} --epochs-from {shlex.quote(cluster)} --dry-run"
    return Step(words, command=command)


def _forbid_unclean(server: str, topic: str, cause: Cause) -> Step:
    entity = f"kafka-configs.sh {server} --entity-type topics --entity-name {shlex.quote(topic)}"
    setting = "unclean.leader.election.enable"
    if cause.kind == "unclean election":
        words = "Forbid unclean elections of this topic, unless standing still is worse than losing writes."
        return Step(words, command=f"{entity} --alter --add-config {setting}=false")
    words = "See whether unclean elections are allowed; if so, forbid them before a broker goes (--alter --add-config)."
    return Step(words, command=f"{entity} --describe --all | grep {setting}")
