"""Both engines on the same simulated life: the tracker on its facts, the checker on the same facts told as a history.

What both can decide, and how the two answers are compared (a *place* is a key and an offset):

* **G1a**, **precommitted-read**, **phantom**, **inconsistent-offsets**: the same identities, transactions or places. An
  aborted read of what the mode ``fencing`` sent after its fencing is a zombie-write to the tracker (`uncommitted`).
* **duplicate**: the same identities, but for those of which the first copy was cut off before the second came: what
  is destroyed and appended again was never there twice, and a history does not tell of the cut. Nor does the tracker
  say it where the first expired while it was in doubt whether there was a cut.
* **lost-write**: whatever the history proves lost, the tracker says, but for what is corrupt (which has its own name
  there), what the log's start passed before it could be read again, and what was sent after the last read above it:
  the log was cut in between, of which a history does not tell, so that it takes for passed what nobody has passed.
  What the tracker says is lost in the history too; or acknowledged and never read with nothing read above it
  (**unseen**: the history cannot go further); or it was read and has gone since, for which histories have no word.
* **unseen**: what is acknowledged and in no poll of the history is unseen to the tracker's consumer, or is said to be
  lost, corrupt or skipped.
* **poll-skip** and **int-poll-skip** (one to the tracker, which knows of no operations): what a process jumped over is
  what the tracker says was skipped, or not there to be given, or given late (nonmonotonic-poll).
* **nonmonotonic-poll** and **int-nonmonotonic-poll**: the same places.
* **nonmonotonic-send** and **int-nonmonotonic-send**, to the tracker nonmonotonic-send or reorder: the same places, but
  for indeterminate sends, which may land when they like and which the history takes for sent in their order.

Where an offset is disputed or a value stands at several, the version order is a choice, and the rules on order are not
compared in that partition. Left out altogether, because one of the two has no word for it: int-send-skip, G0 and G1c
(the tracker knows no operations; cycles are looked for in windows of the ledger), and fractured-transaction, corrupt,
truncation, zombie-write, early-expiry and topic-recreated (a history has no damaged records, no starts and ends of
logs, no generations and no topic ids); a fractured transaction is a lost write to both. Where the topic was deleted and
made again, its incarnations are different keys to the history, and what of the first was never read is nobody's loss.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from canary import facts as f
from canary.anomalies.online.log import READ_COMMITTED, READ_UNCOMMITTED
from canary.probe.identity import Identity
from simulation.histories.lives import identity_of as whose
from simulation.histories.lives import promises
from simulation.histories.retelling import identity_of, value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from canary.anomalies.violation import Violation
    from simulation.histories.lives import Life

SKIPS = ("poll-skip", "int-poll-skip")
BACKWARDS = ("nonmonotonic-poll", "int-nonmonotonic-poll")
ORDERED_SENDS = ("nonmonotonic-send", "int-nonmonotonic-send")
WORDLESS = {"corrupt", "zombie-write", "early-expiry", "fractured-transaction", "truncation", "G1a-transaction"}
"""One of the two has no word for what these break."""


class ContradictionError(AssertionError):
    """The two engines do not say the same of one life."""


def require(holds: bool, *about: object) -> None:  # noqa: FBT001  # reads like an assertion
    """Raise ContradictionError unless something holds; ``about`` says of which life, and what is left over."""
    if not holds:
        raise ContradictionError(*about)


def agree(life: Life) -> Counter[str]:
    """Return how much of each kind was compared.

    Raises:
        ContradictionError: one says what the other does not.
    """
    return sum((rule(life) for rule in (reads, places, losses, skips, orders)), Counter())


def reads(life: Life) -> Counter[str]:
    """Aborted reads, reads before a commit, and what nobody sent."""
    aborted = {identity_of(case["value"]) for case in life.cases("G1a")}
    said_aborted = {v.identity for v in life.said("G1a", "zombie-write") if uncommitted(v) and v.identity is not None}
    require(said_aborted <= aborted, life.seed, said_aborted - aborted)
    require(all(life.forgotten(identity) for identity in aborted - said_aborted), life.seed, aborted - said_aborted)
    early = {life.retelling.transaction_of[identity_of(case["value"])] for case in life.cases("precommitted-read")}
    require(early == {life.retelling.transaction_of[i] for i in life.identities("precommitted-read")}, life.seed)
    found = ((case["key"], case["offset"], identity_of(case["value"])) for case in life.cases("phantom"))
    phantoms = {case for case in found if not life.unrecorded(case[2])}
    said = {(life.key(v.partition), v.offset, v.identity) for v in life.said("phantom")}
    require(phantoms == said, life.seed, phantoms ^ said)
    return Counter({"G1a": len(aborted), "precommitted-read": len(early), "phantom": len(phantoms)})


def uncommitted(violation: Violation) -> bool:
    """Whether it says that a read_committed consumer was given a write that is definitely not committed.

    If its producer was fenced before it was sent, that is a zombie-write; one that is said for its place is another.
    """
    is_zombies = violation.kind == "zombie-write" and "read_before_the_outcome_was_known" in violation.evidence
    return violation.kind == "G1a" or is_zombies


def places(life: Life) -> Counter[str]:
    """Offsets with two values, and values at two offsets."""
    disputed = {(case["key"], case["offset"]) for case in life.cases("inconsistent-offsets")}
    alone = life.places("inconsistent-offsets") - disputed
    untold = life.untold()
    require(alone <= {(life.key(who.partition), offset) for who, offset in untold}, life.seed, alone)
    quiet = disputed - life.places("inconsistent-offsets")
    require(all(life.was_cut(key) for key, _ in quiet), life.seed, quiet)
    copied = {identity_of(case["value"]): case["offsets"] for case in life.cases("duplicate")}
    copies = [(v.identity, v.evidence.get("offsets", ())) for v in life.said("duplicate") if v.identity]
    said = {identity for identity, _ in copies}
    due = {identity for identity, offsets in copies if untold.isdisjoint((identity, offset) for offset in offsets)}
    require(due <= set(copied), life.seed, due - set(copied))
    for identity in set(copied) - said - expired_in_doubt(life):
        if life.was_cut(life.key(identity.partition)):
            continue
        cuts = [v.offset for v in life.said("truncation", "lost-write") if v.partition == identity.partition]
        require(any(cut is not None and cut <= max(copied[identity]) for cut in cuts), life.seed, identity)
    return Counter({"inconsistent-offsets": len(disputed), "duplicate": len(said)})


def losses(life: Life) -> Counter[str]:
    """What is gone, and what was never seen."""
    lost = {identity_of(case["value"]) for case in life.cases("lost-write")}
    unseen = {identity_of(v) for case in life.cases("unseen") for values in case["messages"].values() for v in values}
    unseen = {identity for identity in unseen if life.world.homes[identity] not in life.world.void}
    said = life.identities("lost-write")
    otherwise = damaged(life) | expired(life) | (hidden(life) & life.identities("poll-skip"))
    quiet = lost - said - otherwise
    require(quiet <= not_passed(life), life.seed, quiet)
    require(said <= lost | unseen | life.retelling.given, life.seed, said - lost)
    waiting = {
        stream.identity(sequence)
        for topic in life.topics()
        for stream in topic.streams
        for a, b in stream.unseen.get("read_committed", ())
        for sequence in range(a, b)
    }
    require(unseen <= waiting | said | otherwise, life.seed, unseen - waiting - said)
    require(waiting <= unseen | life.retelling.given, life.seed, waiting - unseen)
    return Counter({"lost-write": len(lost), "unseen": len(unseen)})


def not_passed(life: Life) -> set[Identity]:
    """Return what was sent after all that a read_committed consumer was given above it."""
    places: dict[Identity, int] = {}
    highest: dict[int, int] = {}
    found = set[Identity]()
    for fact in reversed(list(life.world.facts())):
        if isinstance(fact, f.Polled) and fact.isolation == READ_COMMITTED:
            highest[fact.partition] = max(fact.offset, highest.get(fact.partition, -1))
        elif isinstance(fact, f.Acked) and fact.offset is not None:
            places[whose(fact)] = fact.offset
        elif isinstance(fact, f.Sent) and places.get(whose(fact), -1) > highest.get(fact.partition, -1):
            found.add(whose(fact))
    return found


def damaged(life: Life) -> set[Identity]:
    """Return who should have stood where something corrupt stands."""
    found = {(v.partition, v.offset) for v in life.said("corrupt")}
    return {
        whose(fact)
        for fact in life.world.facts()
        if isinstance(fact, f.Acked) and (fact.partition, fact.offset) in found
    }


def hidden(life: Life) -> set[Identity]:
    """Return what a fresh re-read found below an open transaction: the history has no read_committed reader of it."""
    return {
        whose(fact)
        for fact in life.world.facts()
        if isinstance(fact, f.Polled) and fact.consumer.startswith("reread") and fact.isolation == READ_UNCOMMITTED
    }


def expired(life: Life) -> set[Identity]:
    """Return what was acknowledged and lies below the log's start now; without an offset, where it was read."""
    (topic,) = life.topics()
    facts = [fact for fact in life.world.facts() if isinstance(fact, f.Acked | f.Polled)]
    unplaced = {whose(fact) for fact in facts if fact.offset is None}
    return {
        whose(fact)
        for fact in facts
        if fact.offset is not None and fact.offset < topic.logs[fact.partition].start
        if isinstance(fact, f.Acked) or whose(fact) in unplaced
    }


def expired_in_doubt(life: Life) -> set[Identity]:
    """Return what expired where something was broken that looks like a cut, at first or for good."""
    cutting = {"early-expiry", "inconsistent-offsets", "truncation"}
    return expired(life) if cutting & set(life.broken) else set()


def chosen(life: Life) -> set[str]:
    """Return the keys whose version order is a choice."""
    return {case["key"] for case in life.cases("inconsistent-offsets", "duplicate")}


def consumers(life: Life, *names: str) -> Iterable[Mapping[str, Any]]:
    """Return the cases of those who read; a producer's process is told to read only what was given too early."""
    told = life.retelling.told
    return (case for case in life.cases(*names) if all(told[op]["f"] == "poll" for op in case.get("ops", ())))


def skips(life: Life) -> Counter[str]:
    """Who jumped over what, and who went back."""
    choice = chosen(life)
    cases = [case for case in consumers(life, *SKIPS) if case["key"] not in choice]
    jumps = [(identity_of(v), identity_of(case["values"][1])) for case in cases for v in case["skipped"]]
    skipped = {over for over, _ in jumps}
    said = {i for i in life.identities("poll-skip") if life.key(i.partition) not in choice}
    # a re-read may show what no history's consumer is given: that it was committed, and so skipped
    injected = {truth.identity for truth in life.world.injected if truth.kind == "poll-skip" and truth.facts}
    require(said <= skipped | injected, life.seed, said - skipped)
    back = {
        (c["key"], value)
        for c in consumers(life, *BACKWARDS)
        if c["key"] not in choice and not life.moved(identity_of(value := c["values"][1]))
    }
    places = life.places("nonmonotonic-poll")
    late = {
        (life.key(fact.partition), value_of(whose(fact)))
        for fact in life.world.facts()
        if isinstance(fact, f.Polled)
        and (life.key(fact.partition), fact.offset) in places
        and fact.isolation == "read_committed"
        and not fact.consumer.startswith("reread")
    }
    late = {(key, value) for key, value in late if key not in choice}
    require(back == late, life.seed, back ^ late)
    given_late = {identity_of(value) for _, value in back}
    explained = said | life.identities("lost-write") | damaged(life) | expired(life) | given_late
    known = promises(life.world.facts())  # of others the stream did not know when they were skipped
    due = {over for over, to in jumps if over in known and not life.was_sent_after(over, to)}
    require(due <= explained, life.seed, due - explained)
    return Counter({"poll-skip": len(said), "nonmonotonic-poll": len(back)})


def orders(life: Life) -> Counter[str]:
    """Who was sent later and stands before."""
    choice = chosen(life)
    pairs = [c["values"] for c in life.cases(*ORDERED_SENDS) if c["key"] not in choice]
    doubtful = {value_of(identity) for identity in life.retelling.indeterminate}
    swapped = {identity_of(v) for u, v in pairs if not {u, v} & doubtful}
    found = [v for v in life.said("nonmonotonic-send", "reorder") if life.key(v.partition) not in choice]
    said = {v.identity for v in found}
    untold = life.untold()
    due = {v.identity for v in found if untold.isdisjoint(stood(v))} - life.at_once()
    require(due <= swapped, life.seed, due - swapped)
    require(swapped <= said | expired(life), life.seed, swapped - said)
    return Counter({"nonmonotonic-send": len(said)})


def stood(violation: Violation) -> Iterable[tuple[Identity, int]]:
    """Return which probes stand where, as a violation of their order says."""
    who = violation.identity
    if who is None:
        return ()
    pairs = zip(violation.evidence["sequences"], violation.evidence["offsets"], strict=True)
    return ((who._replace(sequence=sequence), offset) for sequence, offset in pairs)
