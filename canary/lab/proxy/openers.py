"""Who opened a connection on this machine, from the kernel's sock_diag(7) and /proc."""

import socket
import struct
from collections.abc import Mapping
from pathlib import Path

_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_QUERY = struct.Struct("=BBxxI")  # inet_diag_req_v2: family, protocol, states
_SOCKET = struct.Struct("!HH16s16s4x8s")  # inet_diag_sockid: ports and addresses, its own first; any cookie
_INODE_AT = _HEADER.size + 4 + _SOCKET.size + 16  # in an inet_diag_msg
_LOOPBACK = socket.inet_aton("127.0.0.1")


class Openers:
    """Finds who opened a connection at 127.0.0.1.

    The kernel is asked for the one socket. Its tables in /proc/net have all of the machine, and all that were closed in
    the last minute: with a few thousand, reading them took 40 ms for every new connection.
    """

    def __init__(self) -> None:
        """Open a socket to the kernel.

        Raises:
            OSError: this kernel has no sock_diag.
        """
        self._kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)

    def find(self, listening: int, peer: int, pids: Mapping[int, int]) -> int | None:
        """Return which node opened the connection from port ``peer`` to ``listening``; None: none of them.

        Args:
            listening: port of this end.
            peer: port of the other end.
            pids: of nodes, by id.
        """
        inode = self._inode(peer, listening)
        return next((node for node, pid in pids.items() if _holds(pid, f"socket:[{inode}]")), None) if inode else None

    def _inode(self, local: int, remote: int) -> int:
        """Return the inode of the socket with these ports; 0: there is none, or its process has closed it.

        Java's sockets, which are those of IPv6, are found by their IPv4 addresses, too.
        """
        query = _QUERY.pack(socket.AF_INET, socket.IPPROTO_TCP, 0xFFFFFFFF)
        query += _SOCKET.pack(local, remote, _LOOPBACK, _LOOPBACK, b"\xff" * 8)
        self._kernel.send(_HEADER.pack(_HEADER.size + len(query), _BY_FAMILY, _REQUEST, 0, 0) + query)
        answer = self._kernel.recv(4096)
        if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:  # an error: it is gone
            return 0
        (inode,) = struct.unpack_from("=I", answer, _INODE_AT)
        return int(inode)


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
