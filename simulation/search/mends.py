"""Mends of defects that made the canary silent or wrong, each with the edits that take it out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simulation.search.edits import Edit

_RULES: Final = "canary/anomalies/online/"


@dataclass(frozen=True, slots=True)
class Mend:
    """One mend. ``item`` is its number in the list of defects; ``words`` say what the canary does without it."""

    name: str
    item: str
    words: str
    edits: tuple[Edit, ...]


_UNBOUNDED: Final = (
    Edit(
        "canary/runner/publishing/inbox.py",
        "FactQueue.put",
        "self._room.wait_for(lambda: self._pending < self._bound or self._released)",
        "pass",
    ),
    Edit(
        "canary/runner/publishing/inbox.py",
        "FactQueue.put",
        "self._pending >= self._pause_at and self._crowded is None",
        "False",
    ),
)
"""The queue before the judge grows without end."""

_ITS_OWN_CLOCK: Final = Edit(
    "canary/runner/publishing/flusher.py",
    "Flusher._write_view",
    "at_ns = shown.judged_ns + ahead_ns",
    "at_ns = now_ns + ahead_ns",
)
"""The flusher saves what was published last under its own time: the heartbeat is fresh though no fact is judged."""

TAKEN_OUT: Final = (
    Mend(
        "unsupervised",
        "A1",
        "A judge that ends for one OSError is not noticed: its last view is saved again and again as a fresh one.",
        (
            Edit(
                "storage/ledger/writing.py",
                "Ledger.sealed",
                "self._failed(error)\n"
                'raise LedgerError(f"the ledger {self.directory} cannot be read: {error.strerror}") from error',
                "raise",
            ),
            Edit(
                "canary/runner/supervision/supervisor.py",
                "Supervisor.look",
                "if part.alive: ...",
                "if part.alive or not isinstance(part, RereadWorker | Scrubber | Watcher): ...",
            ),
            _ITS_OWN_CLOCK,
            *_UNBOUNDED,
        ),
    ),
    Mend(
        "blocked-ledger",
        "A2",
        "While the ledger cannot be written no part says so, probes are still sent, and a stop drops what waits.",
        (
            Edit(
                "canary/runner/publishing/judge.py",
                "Judge._judge",
                "self.blocked = str(error)\nself._inbox.halt(halted=True)\nself._show()",
                "pass",
            ),
            Edit("canary/runner/publishing/judge.py", "Judge.failing", "return self._ledger.failing", "return None"),
            _ITS_OWN_CLOCK,
            *_UNBOUNDED,
        ),
    ),
    Mend(
        "rotten-snapshot",
        "A4",
        "One rotten bit in a snapshot of a shipped ledger: the tracker starts empty, and does not say so.",
        (
            Edit(
                "storage/ledger/segment.py",
                "scan_segment",
                "frame_at(data, position) is None and (end := spoiled_snapshot(data)) is not None",
                "False",
            ),
            Edit(
                "storage/ledger/writing.py",
                "Ledger._delete",
                "itertools.islice(snapshots, 1, None)",
                "itertools.islice(snapshots, 0, None)",
            ),
            Edit(
                "canary/runner/cluster/cluster.py",
                "ClusterRunner._live",
                "self._announce_start(remembered, remembered.began_ns, remembered.lost)",
                "self._announce_start(remembered, remembered.began_ns)",
            ),
        ),
    ),
    Mend(
        "stopped-for-ever",
        "A5",
        "After one answer of another cluster nothing is judged any more, even after a restart on the right one.",
        (
            Edit(
                _RULES + "rules/cluster.py", "runner_started", "state.stopped = state.sure = None", "state.sure = None"
            ),
        ),
    ),
    Mend(
        "epoch-went-back",
        "B1",
        "After the leader epoch went back every listed end is dropped: no loss is said, and a restart never probes.",
        (
            Edit(
                _RULES + "losses/log_end.py",
                "listed",
                "if not timeline.epoch_listed(scope, fact.topic, fact.partition, fact.leader_epoch, "
                "stands=stands):\n"
                "    return",
                "timeline.epoch_listed(scope, fact.topic, fact.partition, fact.leader_epoch)\n"
                "if log.epoch is not None and (fact.leader_epoch is None or fact.leader_epoch < log.epoch):\n"
                "    return",
            ),
        ),
    ),
    Mend(
        "start-only-rises",
        "B2",
        "The start of a log only rises: what is lost later below the highest one is never looked for.",
        (Edit(_RULES + "losses/log_end.py", "listed", "fact.start < log.start", "False"),),
    ),
    Mend(
        "one-by-one",
        "B3",
        "Each lost record is a violation with evidence of its own: a large loss takes more memory than there is.",
        (
            Edit(
                _RULES + "losses/confirmation.py",
                "_lost",
                "yield ranges.Loss(x + shift, y - x, x, m.tag, m, acknowledged, read)",
                "for i in range(x, y):\n"
                "    known = (int(i in sequences) for sequences in (stream.acked, stream.seen))\n"
                "    yield ranges.Loss(i + shift, 1, i, m.tag, m, *known)",
            ),
            Edit(_RULES + "losses/ranges.py", "report", "not ongoing", "True"),
        ),
    ),
    Mend(
        "scrubber-stands",
        "B4",
        "Under a transaction that hangs no pass of the scrubber ends: what lies before it is not read again.",
        (
            Edit(
                _RULES + "losses/scrub.py",
                "asked",
                "fact.start is None and log.stable is not None and log.stable < (log.end or 0)",
                "False",
            ),
            Edit(
                _RULES + "losses/requests.py",
                "request",
                "to_the_end or (hidden is not None and end > hidden)",
                "to_the_end",
            ),
        ),
    ),
    Mend(
        "unknown-topic-id",
        "B5",
        "A topic id that was unknown at first sight stays unknown: a topic that is made again is not noticed.",
        (
            Edit(
                _RULES + "incarnations.py",
                "topic_seen",
                "topic.known, topic.unmarked = True, fact.topic_id is None",
                "topic.known, topic.unmarked, topic.topic_id = True, fact.topic_id is None, fact.topic_id",
            ),
            Edit(_RULES + "incarnations.py", "topic_seen", "topic.topic_id = topic.topic_id or fact.topic_id", "pass"),
        ),
    ),
    Mend(
        "ack-without-offset",
        "B7",
        "A committed write that was acknowledged without an offset is no promise.",
        (
            Edit(
                _RULES + "rules/transactions.py",
                "_promise_all",
                "promise_unplaced(scope, topic, log, stream, sequence, sequence + 1)",
                "continue",
            ),
        ),
    ),
    Mend(
        "listed-end-decides",
        "45-B2",
        "What stands above a listed end is lost, without a fetch.",
        (
            Edit(
                _RULES + "losses/log_end.py",
                "_cut",
                "miss(scope, Probes(topic, log, topic.streams[tag], run.value, run.length, run.key), CUT)",
                "from canary.anomalies.online.missing import absent\n"
                "found = Probes(topic, log, topic.streams[tag], run.value, run.length, run.key)\n"
                "miss(scope, found, CUT)\n"
                "absent(scope, topic, log, log.missing.pop(), by_end=True)",
            ),
        ),
    ),
    Mend(
        "former-end-decides",
        "45-B2",
        "An end of the log that a leader tells which was cut off counts, where ends are listed too low.",
        (Edit(_RULES + "losses/rereads.py", "_by_former", "fact.leader_epoch < log.epoch", "False"),),
    ),
    Mend(
        "listed-start-decides",
        "45-B2",
        "Promises below a listed start are gone, though a fetch gives them.",
        (Edit(_RULES + "losses/log_start.py", "listed", "retention.explains(scope, topic, log, start)", "True"),),
    ),
    Mend(
        "told-id-decides",
        "45-B2",
        "A topic is another one as soon as a broker gives an id that was never seen.",
        (
            Edit(
                "canary/facts/incarnation.py",
                "sighting",
                "Sighting.NEW if agreed else Sighting.DOUBTFUL",
                "Sighting.NEW",
            ),
        ),
    ),
    Mend(
        "silent-mode-is-safe",
        "45-A2",
        "A mode that promises nothing is not missed while another one does.",
        (Edit("api/judgement/verified.py", "silent", "one.silent is None", "True"),),
    ),
    Mend(
        "void-unsaid",
        "45-A3",
        "A probe topic is gone, and is made again, without a word on the promises that went with it.",
        (
            Edit(_RULES + "incarnations.py", "topic_gone", "if held: ...", "pass"),
            Edit(_RULES + "incarnations.py", "_recreated", '"critical" if held else "warning"', '"warning"'),
        ),
    ),
    Mend(
        "watched-topic-unsaid",
        "45-A3",
        "A topic that the settings name is gone or made again, and that is info or a warning, like that of any topic.",
        (
            Edit(_RULES + "topology/vanished.py", "judge", "name in top.watched.names", "False"),
            Edit(_RULES + "topology/vanished.py", "_whole", "len(names) < _TOGETHER or left", "True"),
            Edit(_RULES + "topology/watched_incarnations.py", "_is_another", "records != 0", "False"),
        ),
    ),
    Mend(
        "former-id-for-good",
        "45-A6",
        "A topic whose id is a former one again, for good, is in doubt for ever: nothing is promised in it any more.",
        (Edit("canary/watching/topic_ids.py", "TopicIdWatcher.look", "now - since >= doubt.agreed_s", "False"),),
    ),
    Mend(
        "each-client-s-cluster",
        "45-B1",
        "Clients whose new connections lead to another cluster do not say so, and what they read there counts.",
        (
            Edit("canary/kafka/client_inbox.py", "ClientInbox.tell", "met is not None and met != self._met", "False"),
            Edit(_RULES + "rules/wrong_cluster.py", "is_elsewhere", "found == known", "True"),
        ),
    ),
    Mend(
        "samples-of-another-cluster",
        "45-B1",
        "What another cluster answers about topics counts in the probe log, whose promises are of none afterwards.",
        (
            Edit(
                "storage/probe_log/incarnations.py",
                "Incarnations._met",
                "fact.cluster_id != self.cluster_id",
                "False",
            ),
        ),
    ),
    Mend(
        "expired-is-forgotten",
        "45-B10",
        "Nothing is left of a stream whose records have all expired: a later copy of one is taken for an original.",
        (
            Edit(
                "canary/anomalies/online/generations.py", "reduce_expired", "topic.reduce(stream)", "topic.drop(stream)"
            ),
        ),
    ),
    Mend(
        "reported-past-the-ledger",
        "45-B11",
        "What parts report that judge by themselves is judged and is not in the ledger: kill -9 forgets it.",
        (
            Edit(
                "canary/runner/publishing/judge.py",
                "Judge._judge",
                "self._ledger.append(facts)",
                'self._ledger.append([one for one in facts if type(one).__name__ != "Reported"])',
            ),
        ),
    ),
    Mend(
        "cheap-loss-rings",
        "C1",
        "What acks=1 loses is critical, as if it had been acknowledged by all replicas.",
        (
            Edit(
                "canary/anomalies/policy.py",
                "severity",
                'return "warning" if known <= UNORDERED else "critical"',
                'return "critical"',
            ),
        ),
    ),
    Mend(
        "leader-alone",
        "C2",
        "Writes that the leader alone acknowledged are called lost while its follower pauses.",
        (
            Edit(_RULES + "rules/sends.py", "acked", "stream.mode in UNORDERED", "False"),
            Edit(
                _RULES + "losses/log_end.py", "listed", "back=back, grown=grown", "back=True, grown=False"
            ),  # two looks suffice
        ),
    ),
    Mend(
        "same-identities",
        "C3",
        "Each start has the producer id of the first: after a restored store the same identities are written again.",
        (
            Edit(
                "storage/store/repositories/identities.py",
                "Identities.producer",
                "return Producer(first, minted)",
                "return Producer(first, first)",
            ),
        ),
    ),
    Mend(
        "clock-was-ahead",
        "C4",
        "The times of a clock that was ahead are believed after a restart: what expires then expires too early.",
        (
            Edit(_RULES + "topology/clock.py", "began", "_set_back(state, fact.at_ns)", "pass"),
            Edit(_RULES + "topology/clock.py", "began", "state.now_ns = fact.at_ns", "pass"),
            Edit(_RULES + "rules/cluster.py", "runner_started", "retention.clock_seen(log, fact.at_ns)", "pass"),
        ),
    ),
    Mend(
        "switched-off",
        "C5",
        "A mode that was switched off below an open transaction is stalled for ever, and its re-read ends that thread.",
        (
            Edit(_RULES + "topology/liveness.py", "_is_probed", "state.probes(topic.name, log.partition)", "True"),
            Edit(_RULES + "log.py", "Log.goal", "if not self.listed_ordinal:\n    return None", "pass"),
            Edit(_RULES + "losses/requests.py", "ask", "if not log.listed_ordinal:\n    continue", "pass"),
        ),
    ),
    Mend(
        "without-a-pause",
        "C7",
        "A client that dies has a successor at once, each with a generation that is remembered for ever.",
        (
            Edit(
                "canary/probing/base.py",
                "Writer._renew_after_death",
                "if self.stopping.wait(self.pause.left_s):\n    return False\nself.pause.start()",
                "pass",
            ),
            Edit(
                _RULES + "rules/cluster.py", "generation_began", "generations.retire(scope, topic, fact.mode)", "pass"
            ),
        ),
    ),
)
