"""Who opened a connection on this machine, from /proc."""

from collections.abc import Mapping
from pathlib import Path


def opener(listening: int, peer: int, pids: Mapping[int, int]) -> int | None:
    """Return which node opened the connection from port ``peer`` to ``listening``; None: none of them.

    Args:
        listening: port of this end.
        peer: port of the other end.
        pids: of nodes, by id.
    """
    inode = _inode(peer, listening)
    if inode is None:
        return None
    return next((node for node, pid in pids.items() if _holds(pid, f"socket:[{inode}]")), None)


def _inode(local: int, remote: int) -> str | None:
    """Return the inode of the socket with these ports; Java's sockets are those of IPv6."""
    ends = f":{local:04X}", f":{remote:04X}"
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(ends[0]) and words[2].endswith(ends[1]):
                return words[9]
    return None


def _holds(pid: int, link: str) -> bool:
    try:
        return any(_target(file) == link for file in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it has ended
        return False


def _target(file: Path) -> str | None:
    try:
        return str(file.readlink())
    except OSError:  # closed meanwhile
        return None
