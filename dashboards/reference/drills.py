"""The page of drills: what each does and what the canary has to say, and what came of it, from docs/drills.json."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from canary.anomalies.catalogue import CATALOGUE
from canary.drills.catalogue import UNDRILLED, Entry, drills

LIVE = """## In a live cluster

A silent canary may be one whose alarm does not reach you. Switch the mode `drill` on: it probes a topic of its own,
once a second, which drills may harm.

```yaml
clusters:
  - name: prod-eu
    modes: {{idempotent: {{}}, drill: {{}}}}
```

`canary drill run duplicate --cluster prod-eu` forges a record there with an ordinary producer. What the runner finds
goes the way of every alarm, through store, /metrics, Prometheus and Alertmanager to the pager, marked everywhere as a
drill: the violation's kind is `drill`, its alert is CanaryDrill, its first words are "This is a drill". It counts as no
loss, ends by itself, and pages in a planned window, too. Alertmanager proves the page by a webhook
(`/api/v1/drills/paged`, see deploy/alertmanager.yml). `canary schedule` drills once a week (`schedule.drill`), and
CanaryDrillOverdue fires where the alarm was not proven for 8 days. `GET /api/v1/drills` lists what was drilled.

Every other drill breaks brokers. On those of a running `canary up`, `--cluster lab --i-own-this-cluster lab` performs
them all the same, unless a topic of others is there.

Drills that can be performed in a live cluster: {names}.
"""

HEAD = """# Drills

Made from `canary/drills` and from the results in `docs/drills.json` by `python -m dashboards`; do not edit by hand.

An alarm is trusted once it was heard. A drill breaks real brokers on purpose, which are thrown away afterwards, reads
with a plain client what is gone, and holds against that what the canary said: the right kind, each place, the identity
that was there, in time, and nothing else. Its control takes the same steps where the settings are safe; there the
canary must be silent.

```sh
canary drill list
canary drill run fsync-loss --report fsync-loss.html   # a minute: a real loss, found
canary drill all --json > docs/drills.json             # what the tables below are made from
```

The page that `--report` writes; beside it the canary's own pages in the minute of the drill:

![The report of the drill fsync-loss](screenshots/drill-fsync-loss-light.png#only-light)
![The report of the drill fsync-loss](screenshots/drill-fsync-loss-dark.png#only-dark)

![The status page during the drill](screenshots/drill-status-light.png#only-light)
![The status page during the drill](screenshots/drill-status-dark.png#only-dark)

![The page of the incident during the drill](screenshots/drill-incident-light.png#only-light)
![The page of the incident during the drill](screenshots/drill-incident-dark.png#only-dark)

## What is found, and how soon

Seconds count from when a direct client could know. *Paged*: the notification has left Alertmanager by then, with the
intervals that are shipped; a warning pages nobody.

| kind | drill | detected in | within | paged in at most | control | Kafka |
|---|---|---|---|---|---|---|
"""


def drills_page(stored: Path) -> str:
    """Return the page, in Markdown, with the results that ``canary drill all --json`` has written to a file."""
    found = drills()
    results = _results(stored)
    said = {one.kind for entry in found.values() for one in entry.drill.says}
    rows = [row for kind in CATALOGUE for row in _rows(kind, found, results)]
    missing = [f"| {kind} | {UNDRILLED.get(kind, 'Nobody has said why.')} |" for kind in CATALOGUE if kind not in said]
    counts = f"{len(said)} of the {len(CATALOGUE)} kinds of the catalogue have a drill, {len(missing)} have none."
    parts = [HEAD + "\n".join(rows), counts]
    if missing:
        parts.append("| kind | why there is no drill |\n|---|---|\n" + "\n".join(missing))
    live = ", ".join(f"[{name}](#{name})" for name, entry in found.items() if entry.drill.live)
    parts.append(LIVE.format(names=live).strip())
    return "\n\n".join([*parts, "## Each drill", *map(_section, found.values())]) + "\n"


def _results(stored: Path) -> dict[str, dict[str, Any]]:
    if not stored.is_file():
        return {}
    return {one["name"]: one for one in json.loads(stored.read_text(encoding="utf-8"))["items"]}


def _rows(kind: str, found: Mapping[str, Entry], results: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    for name, entry in found.items():
        for said in (one for one in entry.drill.says if one.kind == kind):
            first = f"| [{kind}](concepts.md#{kind.lower()}) | [{name}](#{name})"
            result = results.get(name)
            if result is None or result["impossible"]:
                words = "not run" if result is None else "not possible where it was run"
                yield f"{first} | {words} | {said.within_s:g} s | | | {entry.drill.stage.version} |"
                continue
            (after,) = [one["after_s"] for one in result["detected"] if one["kind"] == kind][:1] or [None]
            paged, silent = result["paged_after_at_most_s"], result["control_silent"]
            yield " | ".join(
                (
                    first,
                    "**missed**" if after is None else f"{after:.1f} s",
                    f"{said.within_s:g} s",
                    "nobody" if paged is None else f"{paged:.0f} s",
                    "silent" if silent else "none" if silent is None else "**not silent**",
                    f"{result['version']} |",
                )
            )


def _section(entry: Entry) -> str:
    drill = entry.drill
    said = ", ".join(f"{one.kind} within {one.within_s:g} s" for one in drill.says) or "nothing"
    control = drill.control.why if drill.control else f"none. {drill.uncontrolled}"
    return (
        f"### {entry.name}\n\n{entry.story}\n\n"
        f"The canary must say: {said}. Control: {control}\n\nSource: {drill.source}. Run it: "
        f"`canary drill run {entry.name}`"
    )
