"""A deliberate zombie."""

from dataclasses import dataclass

from canary.workloads.descriptor import Workload, Writing, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingSettings(Writing):
    """How frequent take-overs are."""

    interval: float = duration(
        300.0,
        "Time between two take-overs; each costs a generation, which is remembered until all that it wrote has expired "
        "(duration).",
        gt=0,
    )
    timeout: float = duration(15.0, "transaction.timeout.ms of both (duration).", ge=1, le=900)


WORKLOAD = Workload(
    name="fencing",
    number=5,
    transactional=True,
    fenced=True,
    settings=FencingSettings,
    summary="A deliberate zombie: a second producer takes over its transactional id, and the first one, which must be "
    "fenced, writes on.",
    does="a second producer takes a transactional id over, and the first one writes on",
    finds="what a fenced producer wrote and a consumer is shown, or has acknowledged",
    costs="two clients, a few records and a producer generation each `interval`",
)
