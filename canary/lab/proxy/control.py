"""How the lab starts its proxy, ends it, and tells it what to do.

A question is a line of JSON at the proxy's Unix socket: {"faults": [...]} puts faults in force, {} does not. The proxy
looks for new nodes in lab.json at each one, and answers {"faults": [...]}: those in force.
"""

import json
import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from signal import SIGKILL
from typing import Any, Final

from canary.lab import process
from canary.lab.cluster import wait
from canary.lab.errors import LabError
from canary.lab.process import ProcessFile
from canary.lab.proxy import faults
from canary.lab.proxy.faults import Fault

SOCKET: Final = "control"
_TIMEOUT_S: Final = 30.0


def start(lab: Path, *, die_with_parent: bool) -> None:
    """Start the proxy of the lab in a directory, and return when it takes questions.

    Raises:
        LabError: it does not.
    """
    stop(lab)
    folder = _folder(lab)
    folder.mkdir(exist_ok=True)
    (folder / SOCKET).unlink(missing_ok=True)
    command = [sys.executable, "-m", "canary.lab.proxy", str(folder)]
    pid = process.spawn(command, cwd=Path.cwd(), console=folder / "console.log", die_with_parent=die_with_parent)
    _file(lab).write(pid)

    def answers() -> bool:
        if _file(lab).find() is None:
            raise LabError(f"the lab's proxy has ended; see {folder / 'console.log'}")
        try:
            return bool(_ask(lab, {}))
        except LabError:  # its socket is not there yet, or is bound and not listened at
            return False

    wait(answers, _TIMEOUT_S, "the lab's proxy does not answer")


def stop(lab: Path) -> None:
    """Kill the proxy; fine when it does not run."""
    if (pid := _file(lab).find()) is not None:
        process.send(pid, SIGKILL)
        process.wait_for_end(pid, _TIMEOUT_S)
    _file(lab).path.unlink(missing_ok=True)


def follow(lab: Path) -> list[Fault]:
    """Have the proxy look for new nodes, and return the faults in force."""
    return [faults.decoded(one) for one in _ask(lab, {})["faults"]]


def put_in_force(lab: Path, wanted: Iterable[Fault]) -> None:
    """Replace the faults in force.

    Raises:
        LabError: the proxy does not confirm them.
    """
    _ask(lab, {"faults": [faults.encoded(one) for one in wanted]})


def _folder(lab: Path) -> Path:
    return lab / "proxy"


def _file(lab: Path) -> ProcessFile:
    return ProcessFile(_folder(lab) / "pid", marker=str(_folder(lab)))


def _ask(lab: Path, question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a question.

    The socket's own path may be too long for the kernel (108 bytes); the one through its folder's descriptor is not.
    """
    try:
        descriptor = os.open(_folder(lab), os.O_PATH | os.O_DIRECTORY)
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_TIMEOUT_S)
                connection.connect(f"/proc/self/fd/{descriptor}/{SOCKET}")
                connection.sendall(json.dumps(question).encode() + b"\n")
                with connection.makefile("rb") as answer:
                    return dict(json.loads(answer.readline()))
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise LabError(f"the proxy of the lab in {lab} does not answer ({error}); start the lab anew") from error
