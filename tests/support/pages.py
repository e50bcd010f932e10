"""Pages in a browser: how one is opened, and what axe-core finds in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SIZES = {"wide": (1280, 900), "narrow": (360, 740)}
SCHEMES = ("light", "dark")
LOOKS = (("wide", "light"), ("narrow", "dark"))
"""Each size and each scheme: what overflows does not hang on colours, nor the contrast of colours on the size."""
PATIENCE_MS = 120_000
"""How long a browser may take for anything on a machine that is busy; no part of what is tested."""


def opened(browser: Browser, address: str, size: str, scheme: Any, *, scripts: bool = True) -> tuple[Page, list[str]]:
    """Return a page of a context of its own, and what it will have written to its console."""
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, java_script_enabled=scripts
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(address, wait_until="load")
    return page, said


def serious(page: Page, axe: str) -> list[tuple[str, list[str]]]:
    """Return what axe-core finds serious or critical: its rule, and the first elements."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        (one["id"], [node["html"][:160] for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in {"serious", "critical"}
    ]


def overflow(page: Page) -> int:
    """Return by how many pixels it scrolls sideways."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
