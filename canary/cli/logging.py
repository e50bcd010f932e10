"""How the canary logs: structlog, on stderr; for people on a terminal, JSON lines elsewhere; never a secret.

Configured here and nowhere else. Other modules call ``structlog.get_logger(__name__)``, with events in snake_case and
key=values. Our packages log from INFO (-v: DEBUG), libraries from WARNING (-v: INFO, -vv: DEBUG).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from canary.footprint import hidden

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor, WrappedLogger

OURS: Final = ("canary", "storage", "api", "spark_reconcile", "dashboards")
HIDDEN: Final = "**********"
_LEVELS: Final = ((logging.INFO, logging.WARNING), (logging.DEBUG, logging.INFO), (logging.DEBUG, logging.DEBUG))

_secrets: Final[set[str]] = set()


def hide(secrets: Iterable[str]) -> None:
    """Keep these texts out of the log and of errors from now on, as they are and as JSON writes them."""
    for secret in secrets:
        _secrets.update({secret, json.dumps(secret)[1:-1], *(line for line in secret.splitlines() if len(line) >= 16)})


def scrubbed(text: str) -> str:
    """Return a text with every known secret in it replaced by asterisks."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def configure(verbosity: int, *, terminal: bool | None = None) -> None:
    """Set up logging for the process; may be called again. ``terminal``: None asks stderr."""
    structlog = _structlog()
    if terminal is None:
        terminal = sys.stderr.isatty()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(terminal=terminal)],
        ),
    )
    root = logging.getLogger()
    for old in [one for one in root.handlers if getattr(one, "of_the_canary", False)]:
        root.removeHandler(old)
    handler.of_the_canary = True  # type: ignore[attr-defined]  # so that a second call replaces only our own
    root.addHandler(handler)
    ours, theirs = _LEVELS[min(verbosity, len(_LEVELS) - 1)]
    root.setLevel(theirs)
    for name in OURS:
        logging.getLogger(name).setLevel(ours)


def _structlog() -> ModuleType:
    """Return structlog, imported late, as --help needs none; and without rich, for its tracebacks are not used."""
    with hidden("rich"):
        import structlog  # noqa: PLC0415  # takes its time
    return structlog


def _rendering(*, terminal: bool) -> list[Processor]:
    """Return the last steps: a traceback without local variables (they may hold secrets), a line, no secret in it."""
    structlog = _structlog()
    if terminal:
        console = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        return [lambda logger, name, event: scrubbed(str(console(logger, name, event)))]
    return [structlog.processors.format_exc_info, structlog.processors.EventRenamer("event"), _as_json]


def _as_json(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    ordered: dict[str, Any] = {key: event.pop(key) for key in ("timestamp", "level", "logger", "event") if key in event}
    return scrubbed(json.dumps(ordered | dict(event), default=str, ensure_ascii=False))
