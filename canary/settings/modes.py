"""The modes under a cluster's ``modes``: a model for each workload, made from its descriptor (canary.workloads)."""

from dataclasses import MISSING, fields
from typing import Any, Final, Literal, Self

from pydantic import Field, create_model, field_validator, model_validator

from canary.probe.record import check_length
from canary.settings.fields import Bytes, Seconds, Section, TopicName, problem
from canary.workloads.catalogue import MAIN, WORKLOADS
from canary.workloads.descriptor import Common, Workload

_TYPES: Final[dict[str, Any]] = {
    "duration": Seconds,
    "count": int,
    "size": Bytes,
    "sizes": tuple[Bytes, ...],
    "topic": TopicName,
}


class ModeSettings(Section):
    """What every mode has."""

    interval: Seconds
    record_length: Bytes

    @field_validator("record_length", "record_lengths", check_fields=False)
    @classmethod
    def _possible(cls, value: int | tuple[int, ...]) -> int | tuple[int, ...]:
        for length in (value,) if isinstance(value, int) else value:
            try:
                check_length(length)
            except ValueError as error:
                raise problem(str(error), "set a multiple of 8, or leave it out for 96") from None
        return value


class OwnTopicMode(ModeSettings):
    """A mode that writes to a topic of its own."""

    topic: TopicName | None = Field(
        None, description="Name of this mode's topic. Left out: the cluster's topic name, '-' and the mode's name."
    )


def _model(workload: Workload) -> type[ModeSettings]:
    declared: dict[str, Any] = {}
    for one in fields(workload.settings):
        choices = one.metadata["choices"]
        kind = Literal[choices] if choices else _TYPES[one.metadata["kind"]]
        default = {} if one.default is MISSING else {"default": one.default}
        field = Field(**default, description=one.metadata["description"], **one.metadata["bounds"])
        declared[one.name] = (kind | None if one.default is None else kind, field)
    base = OwnTopicMode if workload.topic == "own" else ModeSettings
    return create_model(f"{workload.name.title()}Mode", __base__=base, __doc__=workload.summary, **declared)


_FIELDS: Final[dict[str, Any]] = {
    one.name: (_model(one) | None, Field(None, description=one.summary)) for one in WORKLOADS.values()
}
_BY_NAME: Any = create_model("ByName", __base__=Section, **_FIELDS)


class Modes(_BY_NAME):  # type: ignore[misc]  # it has a field for each workload
    """Each mode by name; one that is named is on. With none named, ``idempotent`` is."""

    @model_validator(mode="before")
    @classmethod
    def _named_is_on(cls, value: object) -> object:
        if isinstance(value, Modes) or (value is not None and not isinstance(value, dict)):
            return value
        named = {name: {} if settings is None else settings for name, settings in (value or {}).items()}
        return named or {MAIN: {}}

    @model_validator(mode="after")
    def _sources(self) -> Self:
        enabled = self.enabled()
        for mode in enabled:
            source = WORKLOADS[mode].source
            if source is not None and source not in enabled:
                raise problem(f"{mode} reads what {source} writes, which is off", f"switch {source} on, too", mode)
        return self

    def enabled(self) -> dict[str, ModeSettings]:
        """Return the modes that are on, by name."""
        found = {name: getattr(self, name) for name in WORKLOADS}
        return {name: mode for name, mode in found.items() if mode is not None}

    def declared(self) -> dict[str, Common]:
        """Return the same as the workloads declare them (canary.workloads), by name."""
        return {
            name: (kind := WORKLOADS[name].settings)(**{one.name: getattr(mode, one.name) for one in fields(kind)})
            for name, mode in self.enabled().items()
        }
