"""A section for each kind of objective, made from its entry in the catalogue (canary.metrics)."""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, create_model

from canary.metrics.catalogue import METRICS
from canary.metrics.objectives import LEAST_TARGET, OBJECTIVES, WINDOWS, Kind, Objective
from canary.settings.fields import Seconds, Section, duration_text, problem


def _share(value: float) -> float:
    if not LEAST_TARGET <= value < 1:
        raise problem(f"{value:g} is no target", f"write a share from {LEAST_TARGET} to below 1, like 0.999")
    return value


def _one_of(allowed: tuple[float, ...], what: str) -> AfterValidator:
    def checked(value: float) -> float:
        if value not in allowed:
            named = ", ".join(map(duration_text, allowed))
            raise problem(f"{duration_text(value)} is no {what}", f"set one of {named}")
        return value

    return AfterValidator(checked)


def _model(kind: Kind) -> type[Section]:
    declared: dict[str, Any] = {
        "target": (
            Annotated[float, AfterValidator(_share)],
            Field(kind.target, description=f"Share of {kind.good} (number)."),
        )
    }
    if kind.bound_s is not None:
        bounds = _one_of(METRICS[kind.histogram].buckets, f"bucket of {kind.histogram}")
        text = f"The bound: one of the buckets of {kind.histogram} (duration)."
        declared["within"] = (Annotated[Seconds, bounds], Field(kind.bound_s, description=text))
    return create_model(f"{kind.name.title()}Objective", __base__=Section, __doc__=f"{kind.title}.", **declared)


_MODELS: Final = {kind.name: _model(kind) for kind in OBJECTIVES.values()}
_FIELDS: Final[dict[str, Any]] = {
    name: (
        model | None,
        Field(default_factory=model, description=f"{OBJECTIVES[name].title}; null: no such objective."),
    )
    for name, model in _MODELS.items()
}
_BY_NAME: Any = create_model("ByObjective", __base__=Section, **_FIELDS)


class ObjectivesSettings(_BY_NAME):  # type: ignore[misc]  # it has a field for each objective
    """What the cluster is to achieve: alerts fire when it uses up what that allows of errors too fast."""

    window: Annotated[Seconds, _one_of(WINDOWS, "time for an objective")] = Field(
        WINDOWS[-1],
        description="The time over which objectives hold, 7d or 30d; Prometheus has to keep its data for as long "
        "(duration).",
    )

    def declared(self) -> tuple[Objective, ...]:
        """Return the objectives that are not switched off."""
        found = ((name, getattr(self, name)) for name in OBJECTIVES)
        return tuple(
            Objective(name, one.target, getattr(one, "within", None), self.window)
            for name, one in found
            if one is not None
        )
