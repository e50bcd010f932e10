"""Kafka's frames, cut out of a stream."""

from __future__ import annotations

import random
import struct

import pytest

from canary.lab import Cut, Delay, Hold, LabError, LoseAnswers
from canary.lab.proxy import faults, frames
from canary.lab.proxy.frames import Frames, Request
from tests.support import seeds


def request(key: int, version: int, correlation: int, client: bytes | None, body: bytes = b"") -> bytes:
    """Return a request as a client sends it."""
    length = -1 if client is None else len(client)
    content = struct.pack(">hhih", key, version, correlation, length) + (client or b"") + body
    return struct.pack(">i", len(content)) + content


def test_frames_are_whole_however_the_bytes_arrive() -> None:
    for seed in seeds.cases("frames", 20):
        dice = random.Random(seed)  # noqa: S311  # dice that can be thrown again
        sent = [request(0, 12, number, b"writer", dice.randbytes(dice.randrange(300))) for number in range(50)]
        stream = b"".join(sent)
        cuts = sorted(dice.sample(range(len(stream)), 30))
        parts = [stream[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        cutting = Frames()
        assert [frame for part in parts for frame in cutting.feed(part)] == sent


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (request(26, 4, 7, b"writer", b"..."), Request("EndTxn", 4, 7, "writer")),
        (request(0, 13, -1, None), Request("Produce", 13, -1, "")),
        (request(0, 13, 1, b"\xff"), Request("Produce", 13, 1, "\ufffd")),
        (request(999, 0, 1, b"writer"), None),
        (struct.pack(">i", 2) + b"ab", None),
        (struct.pack(">i", 0), None),
    ],
)
def test_a_request_is_known_by_its_header(frame: bytes, expected: Request | None) -> None:
    assert frames.request(frame) == expected


def test_what_is_no_frame_is_passed_on_as_it_comes() -> None:
    whole = request(3, 7, 1, b"")
    for strange in (b"\x16\x03\x01\x02\x00", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n"):
        cutting = Frames()
        assert cutting.feed(whole + strange) == [whole, strange]
        assert cutting.feed(b"x") == [b"x"], "nor is what follows"
    assert Frames(framed=False).feed(b"x") == [b"x"]


def test_an_answer_names_the_request_that_it_answers() -> None:
    assert frames.answered(struct.pack(">ii", 4, 77)) == 77
    assert frames.answered(b"\0\0\0\1x") is None


def test_faults_are_the_same_at_the_other_end() -> None:
    for fault in (
        Cut(1, "client"),
        Delay("any", 2, 0.5, api="Fetch"),
        LoseAnswers("EndTxn"),
        Hold("Produce", "Produce", 2, 3),
        Hold("Produce", "Fetch", client="writer"),
    ):
        assert faults.decoded(faults.encoded(fault)) == fault
    with pytest.raises(LabError, match="'Produse' is no API"):
        LoseAnswers("Produse")
    with pytest.raises(LabError, match="'Fetsch' is no API"):
        Delay(1, 2, 0.5, api="Fetsch")


def test_a_cut_is_between_the_two_it_names() -> None:
    assert Cut(1, 2).stops(1, 2)
    assert Cut(1, 2).stops(2, 1)
    assert not Cut(1, 2, both=False).stops(2, 1)
    assert not Cut(1, 2).stops("client", 2)
    assert Cut("any", 2).stops("client", 2)
    assert not Cut("any", 2).stops(2, 2), "a machine without a network still talks to itself"


@pytest.mark.parametrize(("client", "api", "held"), [("writer", 0, True), ("other", 0, False), ("writer", 26, False)])
def test_only_requests_of_the_client_that_is_named_are_held(client: str, api: int, *, held: bool) -> None:
    asked = frames.request(request(api, 9, 1, client.encode()))
    assert asked is not None
    assert Hold("Produce", "Fetch", client="writer").concerns(asked, "client", 1) is held


def test_nodes_that_are_cut_off_are_told_from_those_that_are_not() -> None:
    assert faults.impaired([Cut(1, "client"), Delay("any", 2, 1), LoseAnswers("Fetch", 3)], [1, 2, 3]) == {1, 2}
    assert faults.impaired([Cut("any", "client")], [1, 2, 3]) == {1, 2, 3}
