"""The page of drills: what each does and what the canary has to say, and what came of it, from docs/drills.jsonl."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from canary.anomalies.catalogue import CATALOGUE
from canary.drills.catalogue import UNDRILLED, Entry, drills
from canary.drills.drill import Said

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

Made from `canary/drills` and from the results in `docs/drills.jsonl` by `python -m dashboards`; do not edit by hand.

An alarm is trusted once it was heard. A drill breaks real brokers on purpose, which are thrown away afterwards, reads
with a plain client what is gone, and holds against that what the canary said: the right kind, each place, the identity
that was there, in time, and nothing else. Its control takes the same steps where the settings are safe; there the
canary must be silent.

```sh
canary drill list
canary drill run fsync-loss --report fsync-loss.html   # a minute: a real loss, found
canary drill all --results docs/drills.jsonl           # what the tables below are made from
```

The page that `--report` writes; beside it the canary's own pages in the minute of the drill:

![The report of the drill fsync-loss](screenshots/drill-fsync-loss-light.png#only-light)
![The report of the drill fsync-loss](screenshots/drill-fsync-loss-dark.png#only-dark)

![The status page during the drill](screenshots/drill-status-light.png#only-light)
![The status page during the drill](screenshots/drill-status-dark.png#only-dark)

![The page of the incident during the drill](screenshots/drill-incident-light.png#only-light)
![The page of the incident during the drill](screenshots/drill-incident-dark.png#only-dark)

## What is found, and how soon

*Right*: in so many of the runs all that had to be said was said, at the right places, and nothing else. Seconds count
from when a direct client could know: the median, and the worst run; 0.0 where the canary spoke first. *Paged*: the
notification has left Alertmanager by then, with the intervals that are shipped; a warning pages nobody.

| kind | drill | right | detected in (worst) | within | paged in at most | control | Kafka |
|---|---|---|---|---|---|---|---|
"""

SILENCE = """Drills at which the canary must be silent:

| drill | silent | Kafka |
|---|---|---|
"""
IMPOSSIBLE = "not possible here"


def drills_page(stored: Path) -> str:
    """Return the page, in Markdown, with the results that ``canary drill all --results`` has added to a file."""
    found = drills()
    results = _results(stored, found)
    said = {one.kind for entry in found.values() for one in entry.drill.says}
    rows = [row for kind in CATALOGUE for row in _rows(kind, found, results)]
    silent = [_silence(entry, results[name]) for name, entry in found.items() if not entry.drill.says]
    missing = [f"| {kind} | {UNDRILLED.get(kind, 'Nobody has said why.')} |" for kind in CATALOGUE if kind not in said]
    counts = f"{len(said)} of the {len(CATALOGUE)} kinds of the catalogue have a drill, {len(missing)} have none."
    parts = [HEAD + "\n".join(rows), SILENCE + "\n".join(silent), counts]
    if missing:
        parts.append("| kind | why there is no drill |\n|---|---|\n" + "\n".join(missing))
    live = ", ".join(f"[{name}](#{name})" for name, entry in found.items() if entry.drill.live)
    parts.append(LIVE.format(names=live).strip())
    return "\n\n".join([*parts, "## Each drill", *map(_section, found.values())]) + "\n"


def _results(stored: Path, found: Mapping[str, Entry]) -> Mapping[str, list[dict[str, Any]]]:
    """Return the results of each drill as it is now; those of former forms of it do not count."""
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in found}
    for line in stored.read_text(encoding="utf-8").splitlines() if stored.is_file() else ():
        one = json.loads(line)
        if one["name"] in found and one["digest"] == found[one["name"]].digest and one["outcome"] != IMPOSSIBLE:
            results[one["name"]].append(one)
    return results


def _rows(kind: str, found: Mapping[str, Entry], results: Mapping[str, list[dict[str, Any]]]) -> Iterator[str]:
    for name, entry in found.items():
        runs = results[name]
        for place, said in enumerate(entry.drill.says):
            if said.kind == kind:
                times = [one["after_s"] for run in runs for one in run["detected"][place : place + 1]]
                yield _row(
                    f"| [{said.words}](concepts.md#{kind.lower()}) | [{name}](#{name})", said, times, runs, entry
                )


def _row(first: str, said: Said, times: list[float | None], runs: list[dict[str, Any]], entry: Entry) -> str:
    if not runs:
        return f"{first} | {_right(runs)} | | {said.within_s:g} s | | | {entry.drill.stage.version} |"
    known = sorted(one for one in times if one is not None)
    paged = [run["paged_after_at_most_s"] for run in runs if run["paged_after_at_most_s"] is not None]
    cells = (
        first,
        _right(runs),
        f"{median(known):.1f} s ({known[-1]:.1f})" if known else "**missed**",
        f"{said.within_s:g} s",
        f"{max(paged):.0f} s" if paged else "nobody",
        _control(runs),
        f"{runs[-1]['version']} |",
    )
    return " | ".join(cells)


def _silence(entry: Entry, runs: list[dict[str, Any]]) -> str:
    return f"| [{entry.name}](#{entry.name}) | {_right(runs)} | {entry.drill.stage.version} |"


def _right(runs: list[dict[str, Any]]) -> str:
    if not runs:
        return "not run"
    right = sum(not run["complaints"] for run in runs)
    return f"{right} of {len(runs)}" if right == len(runs) else f"**{right} of {len(runs)}**"


def _control(runs: list[dict[str, Any]]) -> str:
    said = {run["control_silent"] for run in runs}
    if False in said:
        return "**not silent**"
    return "silent" if True in said else "none"


def _section(entry: Entry) -> str:
    drill = entry.drill
    said = ", ".join(f"{one.words} within {one.within_s:g} s" for one in drill.says) or "nothing"
    control = drill.control.why if drill.control else f"none. {drill.uncontrolled}"
    return (
        f"### {entry.name}\n\n{entry.story}\n\n"
        f"The canary must say: {said}. Control: {control}\n\nSource: {drill.source}. Run it: "
        f"`canary drill run {entry.name}`"
    )
