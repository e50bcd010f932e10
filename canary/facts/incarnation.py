"""Which incarnation of its topic a fact belongs to (ARCHITECTURE decision 7): the rule of the judge and the probe log.

A topic that is deleted and made again keeps its name and nothing else, and clients do not notice: consumers go on,
producers are acked, epochs start at 0 again. Only the topic's id tells the two logs apart, so every round of questions
asks for it::

    seen A    ack x    asked 2    ack y    seen A    ack z    asked 3    seen B

* x belongs to A: the last answer before it says A, and so does the first answer that was *asked* after it.
* y may belong to B: answer 2 may have been given before y happened, and answer 3 says B.
* z may belong to B, too: nothing after it says A.

A fact that two equal samples do not enclose is of an unknown incarnation, and is never judged lost, moved or
inconsistent. This is sound because no id is given twice: between two samples of one id there was no other incarnation.

A single answer with another id is a question, for a broker may be wrong or not know of the new topic yet. The id is
that of another incarnation once it is ``agreed`` (TopicSeen): a new id, when a fetch does not give the last record that
the known incarnation had; an id that was seen before, which restored metadata give, when all brokers agree on it. The
samples of the incarnation between lie between those two.
An incarnation that came and went between two rounds is not seen at all; its facts are of unknown incarnation, too.
"""

from enum import Enum, auto
from typing import Final

_STANDARD: Final = str.maketrans("-_", "+/")
AGREED_S: Final = 60.0
"""For so long all that brokers give must be older, before that is believed: one that is cut off gives it, too."""


def one_form(topic_id: str) -> str:
    """Return a topic's id as it is told by librdkafka, which the canary keeps and compares: standard base64.

    Kafka itself writes it with the alphabet of URLs (partition.metadata, its tools): half of all ids differ in that.
    """
    return topic_id.translate(_STANDARD)


class Sighting(Enum):
    """What an answer says of a topic's incarnation: it is the SAME, a NEW one, or maybe another one (DOUBTFUL)."""

    SAME = auto()
    NEW = auto()
    DOUBTFUL = auto()


def sighting(topic_id: str | None, known: str | None, *, agreed: bool) -> Sighting:
    """Return what it means that a broker answers with ``topic_id``.

    Args:
        topic_id: the answer; None from a broker of a Kafka without topic ids, which never tells a new incarnation.
        known: the id of the incarnation of now; None: no broker told one yet.
        agreed: it is more than one answer (TopicSeen).
    """
    if topic_id is None or known in {None, topic_id}:
        return Sighting.SAME
    return Sighting.NEW if agreed else Sighting.DOUBTFUL
