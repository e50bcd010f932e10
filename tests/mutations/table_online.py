"""What is broken in the tracker.

Left out is what makes no difference in any life that a cluster can lead: of two reasons for one thing the second (a
committed transaction's writes are all acknowledged; who is not live has no open transaction; a violation that is said
twice is one).
"""

from __future__ import annotations

from typing import Final

from tests.mutations.mutation import Mutation, mutations

_HERE: Final = "tests/anomalies/online/test_"
_DIRECT: Final = tuple(
    f"{_HERE}{name}.py"
    for name in (
        "tracker",
        "tracker_losses",
        "tracker_deliveries",
        "tracker_echoes",
        "tracker_generations",
        "tracker_modes",
        "tracker_order",
        "tracker_levels",
        "tracker_transactions",
        "tracker_retention",
        "tracker_waiting",
        "tracker_scrubbing",
        "tracker_liveness",
    )
)
_LIVES: Final = (f"{_HERE}tracker_simulated_lives.py",)
_BOTH: Final = ("tests/anomalies/test_engines_agree.py",)
_ARBITRARY: Final = (f"{_HERE}tracker_properties.py",)
_TESTS: Final = (_DIRECT, _LIVES, _ARBITRARY, _BOTH)
_RULES: Final = "canary/anomalies/online/"

ONLINE: Final[list[Mutation]] = [
    *mutations(
        _RULES + "claims.py",
        _TESTS,
        (
            "if run.tag == stream.tag and run.value - run.key == sequence - offset:\n                continue",
            "if run.tag == stream.tag:\n                continue",
        ),
        ("if not known and offset < claims.end():", "if False:"),
        ("before is not None and before[1] > offset and not", "before is not None and before[1] > offset + 1 and not"),
        ("before[1] > offset and not _late(stream, before[0], sequence)", "before[1] > offset"),
        ("after[1] < offset + n - 1 and not _late(stream, after[0], sequence + n - 1)", "after[1] < offset + n - 1"),
        ("after is not None and after[1] < offset + n - 1", "after is not None and after[1] < offset - 1"),
        ("if copy in log.copies:\n        return", "pass"),
        ("copy = offset if known is None else max(known, offset)", "copy = offset"),
        ('check="copy" if known is not None else ""', 'check=""'),
        (
            "if low is None or high is None or low[0] < high[0]:\n            return False",
            "if low is None or high is None:\n            return False",
        ),
        ("        return log.claims.get(held.first) == (held.sequence, held.tag) and (", "        return True or ("),
        ("if min(rests_on) < start:", "if False:"),
        ("if doubtful:\n        return", "pass"),
        ("log.conflicted = True", "pass"),
    ),
    *mutations(
        _RULES + "deliveries.py",
        _TESTS,
        ("if first.generation < topic.first_generations.get(first.producer_id, 0):\n        return", "pass"),
        (
            "claim(scope, topic, log, stream, a, n, first.offset, promise=not in_transaction)",
            "claim(scope, topic, log, stream, a, n, first.offset, promise=True)",
        ),
        ("    if not in_transaction:\n        promise(scope", "    if True:\n        promise(scope"),
        ("if reader.isolation != READ_COMMITTED or reader.position <= offset:", "if reader.position <= offset:"),
        ("delivered = stream.early.get(name) or IntervalSet()", "delivered = IntervalSet()"),
        ("if early and early.overlaps(a, b):", "if False:"),
        ('    transactions.refuse(scope, topic, stream, fact.sequence, f"its send failed: {fact.error}")', "    pass"),
        (
            "if committed and stream.failed and stream.failed.overlaps(a, b):",
            "if stream.failed and stream.failed.overlaps(a, b):",
        ),
        ("promise=committed or plain)", "promise=True)"),
        ("promise=committed or plain)", "promise=plain)"),
        ("if committed and not plain:\n        transactions.zombie", "if not plain:\n        transactions.zombie"),
        (
            "if committed and first.transaction_id is not None:\n        transactions.read",
            "if first.transaction_id is not None:\n        transactions.read",
        ),
        (
            "if end > stream.next_sequence:\n            if stream.live:",
            "if end > stream.next_sequence + 1:\n            if stream.live:",
        ),
        (
            "if end > stream.next_sequence:\n            if stream.live:",
            "if end > stream.next_sequence:\n            if True:",
        ),
        ("if known is None or first.generation > known:", "if known is None:"),
        ("        and producer.live\n", ""),
        (
            "and first.generation >= topic.first_generations.get(first.producer_id, 0)\n    ):\n        _phantom",
            "):\n        _phantom",
        ),
        ("    if read and before:\n        hold_copy", "    if read:\n        hold_copy"),
        ('miss(scope, log, stream, known[0], 1, sequence, "moved")', "pass"),
        ('    elif not read and before:\n        miss(scope, log, stream, offset, 1, sequence, "moved")', ""),
        ("if offset < reader.position:\n        if end > offset:", "if offset < reader.position:\n        if False:"),
        ("if isolation == READ_COMMITTED and offset > reader.position:", "if offset > reader.position:"),
        (
            "if isolation == READ_COMMITTED and offset > reader.position:",
            "if isolation == READ_COMMITTED and offset > reader.position + 1:",
        ),
        ("for gap_start, gap_end in log.corrupt.without(x, y):", "for gap_start, gap_end in [(x, y)]:"),
        ("if fact.isolation == READ_COMMITTED:  # where", "if True:  # where"),
        ("if fact.isolation == READ_COMMITTED:  # where", "if False:  # where"),
        ("if fact.offset in log.corrupt:\n        return", "pass"),
        ("if reader is not None and fact.offset < reader.position:\n        return", "pass"),
        ("if fact.offset > log.start:\n        log.cut", "if True:\n        log.cut"),
        ('if isolation != READ_COMMITTED or stream.mode == "plain":', "if isolation != READ_COMMITTED:"),
        ('if isolation != READ_COMMITTED or stream.mode == "plain":', 'if stream.mode == "plain":'),
        ("reread.start = max(reread.start, fact.offset)", "pass"),
    ),
    *mutations(
        _RULES + "questions.py",
        _TESTS,
        ("if stream.lost.covers(sequence, sequence + n):\n        return", "pass"),
        ('if reader.isolation == "read_committed":\n            unseen', "if True:\n            unseen"),
        ('want_tail(scope, log, "epoch")', "pass"),
    ),
    *mutations(
        _RULES + "losses.py",
        _TESTS,
        ("SAMPLES = 2\n", "SAMPLES = 1\n"),
        ("SAMPLES = 2\n", "SAMPLES = 3\n"),
        ("_TRIES = 2\n", "_TRIES = 1\n"),
        ("_TRIES = 2\n", "_TRIES = 100\n"),
        ('if m.state == "absent" and m.ordinal < sample_ordinal:', 'if m.state == "absent":'),
        ("m.ordinal < min(sample_ordinal, log.listed_ordinal)", "m.ordinal < sample_ordinal"),
        ("if held.ordinal < sample_ordinal:", "if True:"),
        ("if held.samples >= SAMPLES and not (held.check and log.busy):", "if held.samples >= SAMPLES:"),
        ("if stands(topic, log, held):", "if True:"),
        ("if topic.gone_since_ns is not None:\n            continue", "pass"),
        ("gone = max(min(reread.start - m.offset, m.count), 0)", "gone = 0"),
        (
            '            if ended:\n                rest.state = "beyond"',
            '            if False:\n                rest.state = "beyond"',
        ),
        ("below = max(min(reached, m.offset + m.count) - m.offset, 0)", "below = m.count"),
        ("if offset in log.corrupt:\n        return", "pass"),
        ("if not m.given and not not_given(log, stream, sequence, sequence + 1):", "if False:"),
        (
            "if not m.given and not not_given(log, stream, sequence, sequence + 1):",
            "if not not_given(log, stream, sequence, sequence + 1):",
        ),
        ("if fact.start < 0 or fact.end < fact.start or (", "if ("),
        ("if log.epoch is not None and fact.leader_epoch < log.epoch:\n            return", "pass"),
        ("if fact.end < regression.known_end:\n            _cut", "if True:\n            _cut"),
        ("if regression is not None and fact.sample > regression.sample:", "if False:"),
        ("if log.regression is None and fact.end < known_end:", "if False:"),
        (
            "if fact.leader_epoch is not None and epoch is not None and fact.leader_epoch < epoch:\n        return",
            "pass",
        ),
        ("if sequence in stream.lost:\n            continue", "pass"),
        ("if offset < log.start and not m.confirmed:", "if offset < log.start:"),
        ("if offset < log.start and not m.confirmed:", "if False:"),
        ("        if elsewhere is not None:\n", "        if False:\n"),
        (
            "if u.sequence in stream.seen or u.sequence in stream.lost or u.low < log.start:",
            "if u.sequence in stream.lost or u.low < log.start:",
        ),
        (
            "if u.sequence in stream.seen or u.sequence in stream.lost or u.low < log.start:",
            "if u.sequence in stream.seen or u.sequence in stream.lost:",
        ),
        ("if log.cut is not None or (log.low_end is not None and log.low_end < end):", "if log.cut is not None:"),
        ("first < known and (log.conflicted or known <= end)", "first < known and log.conflicted"),
        ("first < known and (log.conflicted or known <= end)", "first < known"),
        ("if key in scope.state.fractured:\n        return", "pass"),
        ("if run.tag != tag or run.value - run.key != sequence - offset:\n                    continue", "pass"),
        ('if missing.why == "moved":\n        return', "pass"),
    ),
    *mutations(
        _RULES + "transactions.py",
        _TESTS,
        (
            "if transaction is not None and transaction.asked_at_ns is None:\n        transaction.asked",
            "if False:\n        transaction.asked",
        ),
        ('                miss(scope, log, stream, place[0], 1, sequence, "displaced")', "                pass"),
        ("        refuse(scope, topic, topic.streams[tag], sequence, why)", "        pass"),
        (
            "    for name, tag, sequence, offset, consumer in transaction.reads:",
            "    for name, tag, sequence, offset, consumer in ():",
        ),
        ("if stream.transactions.get(sequence) is None and place[0] in log.promised:", "if False:"),
        ("    if transaction.reads:\n", "    if False:\n"),
        ("for i in range(max(fenced_at - first.offset, 0), n):", "for i in range(n):"),
        ('if transaction.outcome == "indeterminate":', "if False:"),
        ("if transaction.asked_at_ns is None and stream.live:", "if stream.live:"),
        ("    transaction.reads.extend(", "    [].extend("),
        ('and producer.mode == "fencing" and generation < producer.generation', "and generation < producer.generation"),
    ),
    *mutations(
        _RULES + "retention.py",
        _TESTS,
        ("if topic.retention_ms >= 0 and age_ms >=", "if age_ms >="),
        ("topic.retention_bytes is None or topic.retention_bytes >= 0:", "topic.retention_bytes is None:"),
        ("if expiry is None or topic.compacted:", "if expiry is None:"),
        ("_SLACK = 0.1", "_SLACK = -1.0"),
        ("age_ms >= topic.retention_ms - min(", "age_ms >= 0 * topic.retention_ms - min("),
        ("    log.promised.remove(0, start)\n", ""),
        ("    settle_held(topic, log, start)\n", ""),
        ("    log.phantoms.remove(0, start)\n", ""),
        ("                expired_unread(scope, topic, log, stream, sequence)", "                pass"),
    ),
    *mutations(
        _RULES + "incarnations.py",
        _TESTS,
        ("if fact.topic_id is not None and fact.topic_id in topic.dead_ids:\n        return", "pass"),
        ("producer_id: producer.generation + 1", "producer_id: producer.generation"),
        ("transaction.writes = [w for w in transaction.writes if w[0] != old.name]", "pass"),
        ("transaction.reads = [r for r in transaction.reads if r[0] != old.name]", "pass"),
        ("topic.gone_since_ns, topic.fresh = None, True", "topic.fresh = True"),
        ("losses.release(scope, topic, asked.ordinal)", "losses.release(scope, topic, state.ordinal)"),
    ),
    *mutations(
        _RULES + "generations.py",
        ((f"{_HERE}tracker_generations.py",),),
        ('if stream.mode != "fencing" or', "if"),
        (
            "waits = stream.open or stream.unplaced or stream.places.keys or any(stream.unseen.values())",
            "waits = False",
        ),
        ("not in open_:", "is not None:"),
        ("topic.forgotten[stream.producer_id] = max(forgotten, stream.generation)", "pass"),
        ("            topic.free_tags.append(stream.tag)\n", ""),
    ),
    *mutations(
        _RULES + "cluster.py",
        _TESTS,
        ("            _bury(scope, topic, stream)\n", ""),
        ("    stream.live = False\n", ""),
        ("            stream.indeterminate.add(a, b)\n", ""),
        ('            transaction.outcome = "indeterminate"\n', ""),
        ("elif fact.cluster_id != state.cluster_id:", "elif False:"),
        ("    log.rereads.clear()\n", ""),
        ('        want_tail(scope, log, "start")', "        pass"),
    ),
    *mutations(
        _RULES + "relays.py",
        _TESTS,
        ("if taken < 0 or fact.start <= taken:", "if taken < 0 or fact.start <= taken + 1:"),
        ('if (topic.topic_id or "") != topic_id:\n            continue', "pass"),
        (
            "if known is None or (fact.offset is not None and fact.offset >= known):",
            "if known is None or (fact.offset is not None and fact.offset > known):",
        ),
        ("if known is None or (fact.offset is not None and fact.offset >= known):", "if True:"),
        ("taken = max(log.relayed.end() or -1, log.relay_doubt)", "taken = log.relayed.end() or -1"),
    ),
]
