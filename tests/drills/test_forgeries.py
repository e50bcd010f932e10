"""What an ordinary producer writes, made from the probes that are there."""

from __future__ import annotations

import pytest

from canary.drills.steps.writing import FORGERIES, headers_of
from canary.probe.identity import Identity
from canary.probe.record import Form, Probe, decode, encode, header_fields

TAG = b"tagg"
READ = [Identity(7, 1, 0, 0), Identity(7, 1, 0, 1), Identity(7, 2, 0, 0), Identity(9, 3, 0, 0)]


def made(how: str) -> list[object]:
    """Return the identities of what is written (or the value, where it is no probe), in its order."""
    values = [encode(one, tag=TAG, mode="fencing", transaction_id=4, sent_at_ns=5) for one in READ]
    read = [(value, probe) for value in values if isinstance(probe := decode(value, TAG), Probe)]
    found = [(value, decode(value, TAG)) for value in FORGERIES[how].make(read)]
    return [content.identity if isinstance(content, Probe) else content.reason for _, content in found]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("copy", [READ[-1]]),
        ("altered", ["corrupt"]),
        ("never sent", [Identity(9, 3, 0, 1_000_000)]),
        ("foreign", ["foreign"]),
        ("of a zombie", [Identity(7, 2, 0, 1)]),
        ("tail", [Identity(7, 2, 0, 1), Identity(7, 2, 0, 2)]),
        ("swapped tail", [Identity(7, 2, 0, 2), Identity(7, 2, 0, 1)]),
    ],
)
def test_a_forgery_is_made_from_the_probes_that_are_there(how: str, expected: list[object]) -> None:
    assert made(how) == expected


def test_a_copy_has_the_headers_of_the_probe() -> None:
    form = Form(headers=2, header_length=5)
    value = encode(READ[0], tag=TAG, mode="drill", transaction_id=None, sent_at_ns=5, form=form)
    assert headers_of(value) == header_fields(READ[0], form)
    assert headers_of(b"order 1") == []


def test_every_forgery_is_tried() -> None:
    (mark,) = (one for one in test_a_forgery_is_made_from_the_probes_that_are_there.pytestmark if one.args)  # type: ignore[attr-defined]
    assert {how for how, _ in mark.args[1]} == set(FORGERIES)
