"""``canary receipts``: what applications have receipts for, against their topics."""

from __future__ import annotations

from typing import Annotated

import typer

from canary.cli import session
from canary.cli.data.spark import MasterOption, started
from canary.cli.session import JsonOption  # typer reads it
from canary.errors import UserError
from canary.extras import require, require_for_url


def check(
    *,
    receipts: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder or URL of the receipts; default: receipts.url.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="The cluster of the settings; needed if there are several.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Topics; default: receipts.topics (repeat).")
    ] = None,
    master: MasterOption = None,
    json: JsonOption = False,
) -> None:
    """Compare receipts with their topics: which of your own records are lost or changed.

    Exit status 0 all is there, 1 lost or changed, 2 bad input, 3 unreachable, or something could not be judged.

    Example: canary receipts check --receipts /var/lib/orders/receipts --topic orders
    """
    from spark_reconcile.dump.targets import chosen, reachable  # noqa: PLC0415  # Spark and Arrow take their time
    from spark_reconcile.receipts import check as checking  # noqa: PLC0415
    from spark_reconcile.receipts import findings  # noqa: PLC0415

    require("spark", "canary receipts check")
    settings = session.load_settings()
    some = chosen(settings, [cluster] if cluster else None)
    if len(some) > 1:
        raise UserError(f"--cluster is needed: the settings have {', '.join(one.name for one in some)}")
    url = receipts or some[0].receipts.url
    if url is None:
        raise UserError("--receipts is needed: the cluster has no receipts.url")
    require_for_url(url, "--receipts" if receipts else "receipts.url")
    config = reachable(settings, some[0])
    with started("canary receipts", master, kafka=True) as spark:
        found = checking.check(spark, some[0].name, config, url, topic or some[0].receipts.topics)
    session.report(findings.document(found), "\n".join(findings.sentences(found)), json=json)
    raise typer.Exit(found.exit_status)
