"""The page of concepts: what the canary believes, and every anomaly with its picture, from the catalogue."""

from canary.anomalies.catalogue import CATALOGUE, Anomaly
from dashboards.rules import alert_name
from dashboards.rules.anomalies import rings

HEAD = """# Concepts

Made from the catalogue of anomalies by `python -m dashboards`; do not edit by hand.

## Promises

A **probe** is a numbered record that the canary writes. Its *identity* is (producer id, generation,
partition, sequence): no two canaries, no restart and no restored backup ever write the same one twice. What becomes of
it is one of three things:

* **acknowledged**: the cluster promised to keep it, at an offset;
* **failed**: it was definitely not written. It must never be read;
* **indeterminate**: the outcome is unknown. It may be in the log or not; both are right.

An acknowledged probe that is not in the log is a broken promise. The canary remembers every promise on its own disk
(the *ledger*) before it counts, reads each partition by several readers, reads everything retained again (the
*scrubber*, all the time), and every night Spark compares all promises with all that the topics hold (the
*reconciliation*).

## Late is not lost

Judgements are made by offset, never by timeout: when a reader's position has passed the offset of an acknowledged probe
and the probe was not delivered, a fresh reader reads that place at once. Only if it is not there either is it lost.
What retention removed has *expired*; what no reader had read before that is *unverified*, and an alert reports it.

## Incidents

One loss has echoes: the readers that pass it skip, offsets behind it shift, acknowledged records come back elsewhere.
They are gathered in one *incident*. Its first violation leads: from there the cause and what else was exposed are
looked for. Its worst open violation heads it: title, severity, advice and what people are told are that
one's, so that a loss in an outage is a loss. [Conditions](conditions.md) says who is told of what.

## How sure is that?

Nothing lost in *n* acknowledged probes means, with 95 % confidence, a loss rate below about 3/*n*. But losses come in
blocks, when leaders change: so the status page also counts the elections, broker restarts and shortages of replicas
that the probes have lived through.

## Anomalies

| anomaly | severity | in a word |
|---|---|---|
"""


def concepts() -> str:
    """Return the page, in Markdown."""
    rows = [
        f"| [{one.name}](#{one.name.lower()}) | {', '.join(one.severities)} | {one.title} |"
        for one in CATALOGUE.values()
    ]
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(_section(one) for one in CATALOGUE.values())


def _section(one: Anomaly) -> str:
    allowed = f"\n**Allowed:** {one.allowed}\n" if one.allowed else ""
    runbook = f" ([runbook](runbooks/{alert_name(one.name)}.md))" if rings(one) else ""
    return (
        f"### {one.name}\n\n**{one.title}.** {one.meaning}\n\n"
        f"![{one.title}: {one.meaning}](pictures/{one.name}.svg)\n\n"
        f"{one.implies}\n\n**First:** {one.do_first}{runbook}\n{allowed}\n"
        f"Source: {one.source}.\n"
    )
