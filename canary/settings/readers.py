"""Readers beside the two that every topic has: brokers may show different views of one log to different clients."""

from __future__ import annotations

from pydantic import Field

from canary.settings.fields import Name, Section


class ReadersSettings(Section):
    """Further read_committed consumers of the main topic. Each costs a client, and reads everything once more."""

    racks: tuple[Name, ...] = Field(
        (),
        description="A consumer for each of these racks, with client.rack: where brokers have "
        "replica.selector.class set to the rack-aware one, it reads from followers of its rack (names).",
    )
    each_broker: bool = Field(
        False,
        description="A consumer for each broker that is there at the start, bootstrapped from that broker alone.",
    )
