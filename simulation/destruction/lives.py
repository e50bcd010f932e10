"""Lives of one partition in which data is destroyed, with the truth about it: what the tracker has to say, and no more.

A life is drawn from a seed: probes are written, acknowledged late or never, and read; the log is cut, emptied, filled
again by us or by others, holed, expired; the topic is made again; leaders change, their epoch goes back; the canary is
killed and comes back, by another clock. All of it may fall between a question to the cluster and its answer, and
between two deliveries of a re-read. What is destroyed is noted with its place; ``judged`` compares that with what was
said.
"""

from __future__ import annotations

from canary import facts as f
from simulation.destruction.probed import (
    FORMER_ROUNDS,
    LOWER_TIMES,
    MS,
    RC,
    RETENTION_MS,
    RU,
    TOPIC,
    ProbedPartition,
    S,
)
from simulation.destruction.truth import verdict
from simulation.histories.wild import seeded


class Life(ProbedPartition):
    """A partition to which everything happens."""

    # the cluster

    def destroy(self, offsets: range, why: str) -> None:
        """Remove records, and note what is gone and where it stood."""
        self.truth.happened[why] += 1
        for offset in offsets:
            record = self.log.pop(offset, None)
            if record is not None and record.key is not None:
                self.truth.gone[record.key] = offset
                self.gone_sent_ns[record.key] = record.sent_ns

    def elect(self) -> None:
        """Let another leader be elected."""
        self.epoch += 1

    def cut(self) -> None:
        """The log loses its end, mostly under a new leader."""
        end = max(self.end - self.dice.randint(1, 8), self.start)
        self.destroy(range(end, self.end), "cut")
        self.end = end
        newer = self.dice.random() < 0.8
        self.epoch += newer
        self.in_doubt |= not newer

    def wipe(self) -> None:
        """Every replica is empty: the log begins anew, lower than before; the epoch goes on, or back."""
        self.destroy(range(self.start, self.end), "wipe")
        self.start = self.end = 0
        self.deleted.clear()
        if self.epoch and self.dice.random() < 0.3:
            self.epoch_back()
        else:
            self.elect()

    def hole(self) -> None:
        """A few records vanish, and nobody says so."""
        at = self.dice.randint(self.start, self.end)
        self.destroy(range(at, min(at + self.dice.randint(1, 3), self.end)), "hole")

    def others(self) -> None:
        """Others write; or markers."""
        for _ in range(self.dice.randint(1, 8)):
            if self.dice.random() < 0.5:
                self.append(None, self.now_ns)
            else:
                self.end += 1

    def expire(self) -> None:
        """Retention passes, and takes a part of what is there; that is seen before anything else happens."""
        self.truth.happened["expire"] += 1
        self.ack()
        self.true_ns += RETENTION_MS * MS + 60 * S
        latest = max((record.sent_ns for record in self.log.values()), default=0)
        self.true_ns = max(self.true_ns, latest + RETENTION_MS * MS + 60 * S)  # what a clock dated that was ahead
        start = self.dice.randint(self.start, self.end)
        for offset in range(self.start, start):
            if offset in self.log:
                self.deleted[offset] = self.log.pop(offset)
        self.start = start
        self.truth.excused |= {key for key, offset in self.truth.gone.items() if offset < start}
        self.truth.excused |= {record.key for record in self.deleted.values() if record.key is not None}
        self.see_start()

    def undelete(self) -> None:
        """A replica leads that has deleted less; that is seen before anything else happens."""
        start = self.start
        while start and start - 1 in self.deleted and self.dice.random() < 0.9:
            start -= 1
            self.log[start] = self.deleted.pop(start)
        if start < self.start:
            self.truth.happened["undelete"] += 1
            self.start = start
            self.elect()
            self.see_start()

    def see_start(self) -> None:
        """Ask until the log's new start is believed.

        One that ends where it ended before its epoch was taken up again looks like a former leader's: it has to grow.
        """
        for _ in range(LOWER_TIMES):
            self.round()
        end = self.end
        while self.end == end and self.tracker.state.topics[TOPIC].logs[0].start != self.start:
            self.write()
        if self.end > end:
            self.round()

    def epoch_back(self) -> None:
        """The metadata was restored, or lost."""
        if self.epoch:
            self.truth.happened["epoch"] += 1
            self.epoch = self.dice.randrange(self.epoch)
            self.in_doubt = True

    def recreate(self) -> None:
        """The topic is deleted and made again; who writes and reads does not know yet."""
        truth = self.truth
        truth.happened["recreate"] += 1
        truth.excused |= truth.stood.keys()
        self.topic_id += 1
        self.log, self.deleted = {}, {}
        self.start = self.end = self.epoch = 0

    # a life

    def live(self, steps: int) -> None:
        """Live so many steps, and settle."""
        for _ in range(steps):
            self.happen()
        self.settle()

    def happen(self, depth: int = 0) -> None:
        """Something happens."""
        name = self.dice.choices(NAMES, WEIGHTS)[0]
        if depth and name in {"round", "answer", "restart", "expire", "undelete"}:
            name = "write"
        if name == "round":
            self.round(*([lambda: self.happen(1)] * self.dice.choice([0, 0, 1, 2])))
        elif name == "answer":
            self.answer(self.dice.choice([None, None, lambda: self.happen(1)]))
        else:
            getattr(self, name)()

    def settle(self) -> None:
        """Let every question be asked and answered, the log grow a little, and all of it be read again."""
        self.ack()
        for turn in range(-FORMER_ROUNDS if self.in_doubt else 0, 16):
            if turn in {-FORMER_ROUNDS, LOWER_TIMES - FORMER_ROUNDS, 1, 9}:
                end = self.end
                while self.end == end:  # that of a former leader's log never moves; it may stand where the first one is
                    self.write()
                while self.mode == "plain" and self.end <= max(self.truth.gone.values(), default=0):
                    self.write()  # the end of a log tells nothing of what its leader acknowledged alone
                self.ack()
            for name in (RC, RU):
                self.tail(name, 1000)
            self.round()
            if turn < 0 or turn in {8, 10, 12}:
                self.fold(f.ScrubAsked(self.now_ns, TOPIC, 0, 1 << 40))
            while self.requests:
                self.answer()


EVENTS: dict[str, int] = {
    "write": 30,
    "ack": 6,
    "poll": 22,
    "round": 24,
    "answer": 12,
    "scrub": 3,
    "yesterday": 2,
    "others": 4,
    "elect": 3,
    "restart": 4,
    "cut": 4,
    "wipe": 2,
    "hole": 3,
    "expire": 3,
    "undelete": 2,
    "epoch_back": 2,
    "recreate": 1,
}
NAMES, WEIGHTS = list(EVENTS), list(EVENTS.values())


def judged(life: Life) -> list[str]:
    """Return what was missed, false or misnamed in a life, one line each: nothing, if all is well."""
    return verdict(life.truth, life.said.values(), life.oldest)


def lived(seed: int, steps: int = 40, of: type[Life] = Life) -> Life:
    """Live the life of a seed."""
    dice = seeded(seed)
    life = of(dice, dice.choice(["idempotent", "idempotent", "plain"]))
    life.live(dice.randint(5, steps))
    return life
