"""The ways of probing, by name, each with its own settings. A new mode is a model here and a field of Modes."""

from __future__ import annotations

from typing import Final

from pydantic import Field, field_validator, model_validator

from canary.probe.record import check_length
from canary.settings.fields import Bytes, Seconds, Section, problem


class ModeSettings(Section):
    """What every mode has."""

    interval: Seconds = Field(
        0.1,
        gt=0,
        description="Time between two probes to the same partition: one probe to every partition in each interval "
        "(duration).",
    )
    record_length: Bytes = Field(96, description="Length of a probe's value, a multiple of 8 from 64 to 65528 (bytes).")

    @field_validator("record_length")
    @classmethod
    def _possible(cls, value: int) -> int:
        try:
            check_length(value)
        except ValueError as error:
            raise problem(str(error), "set a multiple of 8, or leave it out for 96") from None
        return value


class IdempotentMode(ModeSettings):
    """The main mode: one idempotent producer with acks=all, each acknowledged probe a promise."""


class Modes(Section):
    """Each mode by name; one that is named is on. With none named, ``idempotent`` is."""

    idempotent: IdempotentMode | None = Field(
        None,
        description="Idempotent producer, acks=all, no transactions. On when no mode is named.",
    )

    @model_validator(mode="before")
    @classmethod
    def _named_is_on(cls, value: object) -> object:
        if isinstance(value, Modes) or (value is not None and not isinstance(value, dict)):
            return value
        named = {name: {} if settings is None else settings for name, settings in (value or {}).items()}
        return named or {"idempotent": {}}

    def enabled(self) -> dict[str, ModeSettings]:
        """Return the modes that are on, by name."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: mode for name, mode in found.items() if mode is not None}


MODE_NAMES: Final = tuple(Modes.model_fields)
