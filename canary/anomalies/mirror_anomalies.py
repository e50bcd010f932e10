"""Entries of the catalogue about topics that MirrorMaker 2 copies from another cluster."""

from canary.anomalies.anomaly import Anomaly

MIRROR_ANOMALIES = (
    Anomaly(
        name="mirror-gap",
        title="Records are missing in a mirrored topic",
        severities=("critical",),
        scopes=("watch",),
        meaning="Probes that the source has, or had until they expired, are not in the mirrored topic, though copies "
        "of later probes of the same partition are (or they have another key or other headers there).",
        implies="Whatever the source had between the offsets of the violation may be missing, too: a failover to this "
        "cluster loses it. It is resolved by itself if all of them arrive after all, out of order.",
        do_first="See in the evidence which offsets of the source are missing; while the source retains them, they can "
        "be copied by hand. Ask who reset the offsets of the MirrorSourceConnector, and see whether the source's "
        "retention overtook it.",
        source="KIP-382 (MirrorMaker 2 keeps the order of a partition); Chaperone (Uber) compares counts only",
        allowed="An operator who resets MirrorMaker 2 forward.",
        shows="damage",
        picture=(("the source", "a b c d e"), ("the mirrored topic", "a b !. !. e")),
    ),
    Anomaly(
        name="mirror-offset-skips",
        title="A failover would skip records",
        severities=("critical",),
        scopes=("watch",),
        meaning="The offset to which MirrorMaker 2 translates the committed offset of a group lies behind copies of "
        "probes that the group has not committed.",
        implies="If the group goes on in this cluster from there, it is never given these records.",
        do_first="Do not fail the group over to the translated offset: reset it to one before the first record that it "
        "would skip, which the evidence has, after the failover. See whether the mirrored topic was made anew.",
        source="KIP-382, KIP-545 (checkpoints); KAFKA-12468 (offsets that were not translated)",
        ends=True,
        shows="damage",
        picture=(("the group committed", "a b | c d e"), ("in the mirrored topic", "a b !c !d | e")),
    ),
    Anomaly(
        name="mirror-copies",
        title="Records are in a mirrored topic again",
        severities=("info",),
        scopes=("watch",),
        meaning="Probes that were in the mirrored topic already were copied to it once more.",
        implies="Consumers of the mirrored topic process these records twice.",
        do_first="Nothing, if MirrorMaker 2 was restarted: it copies at least once. If it happens without a restart, "
        "see its log for failed commits of offsets; exactly.once.source.support (KIP-618) avoids it.",
        source="KIP-382 (at least once), KIP-618 (exactly once)",
        allowed="MirrorMaker 2 copies again what it had not committed when it was restarted.",
        shows="damage",
        picture=(("the source", "a b c d"), ("the mirrored topic", "a b c !b !c d")),
    ),
)
