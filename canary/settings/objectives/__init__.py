"""The objectives of a cluster, as its settings declare them."""

from canary.settings.objectives.sections import ObjectivesSettings

__all__ = ["ObjectivesSettings"]
