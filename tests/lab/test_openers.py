"""Whose connection it is, as the kernel says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from canary.lab.proxy.openers import Openers

HERE, CHILD = 1, 2


@pytest.mark.parametrize(
    ("family", "address"),
    [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")],
    ids=["IPv4", "Java's"],
)
def test_the_one_of_several_that_opened_a_connection_is_found(family: int, address: str) -> None:
    openers = Openers()
    opens = f"import socket; s = socket.socket({family}); s.connect(({address!r}, int(input()))); print(1, flush=True)"
    opens += "; input()"
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        child = stack.enter_context(
            subprocess.Popen([sys.executable, "-c", opens], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        assert child.stdin
        assert child.stdout
        child.stdin.write(f"{port}\n")
        child.stdin.flush()
        assert child.stdout.readline() == "1\n"
        stack.enter_context(theirs := server.accept()[0])
        client = stack.enter_context(socket.socket(family))
        client.connect((address, port))
        stack.enter_context(ours := server.accept()[0])
        pids = {HERE: os.getpid(), CHILD: child.pid}
        assert openers.find(port, theirs.getpeername()[1], pids) == CHILD
        assert openers.find(port, ours.getpeername()[1], pids) == HERE
        assert openers.find(port, ours.getpeername()[1], {CHILD: child.pid}) is None, "no node did"
        peer = ours.getpeername()[1]
        client.close()
        assert openers.find(port, peer, pids) is None, "nobody has it any more"
        ours.close()
        assert openers.find(port, peer, pids) is None, "it is closed"
        assert openers.find(port, 1, pids) is None, "there never was one"
        child.stdin.write("\n")
        child.stdin.flush()
