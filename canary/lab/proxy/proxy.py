"""The proxy's process: a door for each node, and the socket at which the lab sets faults."""

import asyncio
import base64
import json
import os
from functools import partial

from canary.lab.proxy import faults
from canary.lab.proxy.control import SOCKET
from canary.lab.proxy.link import Link
from canary.lab.proxy.network import FaultyNetwork
from canary.lab.proxy.openers import Openers
from canary.lab.proxy.stream import End
from canary.lab.site import Site
from canary.lab.state import CONTROLLER

_LOOK_S = 0.05
_HOST = "127.0.0.1"
_LONGEST = 1 << 20


class Proxy:
    """Every connection of a lab comes by."""

    def __init__(self, site: Site) -> None:
        """Take the lab."""
        self._site = site
        self._lab = site.state()
        self._openers = Openers()
        self._network = FaultyNetwork(self._dial, self._topic_id)
        self._doors: dict[int, asyncio.Task[None]] = {}
        self._dialing: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve at the control socket in the working directory, and at a port for each node, for ever."""
        self._follow()
        server = await asyncio.start_unix_server(self._control, SOCKET, limit=_LONGEST)
        await server.serve_forever()

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one question: put faults in force, if it has any, and follow what the lab's file says of nodes."""
        try:
            message = json.loads(await reader.readline())
            self._follow()
            if "faults" in message:
                self._network.put_in_force([faults.decoded(one) for one in message["faults"]])
            answer = {"faults": [faults.encoded(one) for one in self._network.in_force()]}
            writer.write(json.dumps(answer).encode() + b"\n")
        finally:
            writer.close()

    def _follow(self) -> None:
        """Have a door for each node that there is."""
        self._lab = self._site.state()
        for node in self._doors.keys() - self._lab.ports:
            self._doors.pop(node).cancel()
        for node in self._lab.ports.keys() - self._doors:
            self._doors[node] = asyncio.create_task(self._keep_door(node))

    async def _keep_door(self, node: int) -> None:
        """Listen at a node's public port while the node listens at its private one, so that others are refused else."""
        loop = asyncio.get_running_loop()
        while True:
            pid = self._site.pid(node)
            if pid is not None and await _accepts(self._lab.private_port(node)):
                server = await loop.create_server(partial(self._accept, node), _HOST, self._lab.ports[node])
                try:
                    await _end_of(pid)
                finally:
                    server.close()
            await asyncio.sleep(_LOOK_S)  # that another process begins to listen raises no event

    def _accept(self, node: int) -> End:
        """Return the client's end of a new connection to a node; ZooKeeper has frames of its own."""
        return Link(self._network, node, framed=node < CONTROLLER or not self._lab.zookeeper).client

    def _dial(self, link: Link, transport: asyncio.Transport) -> None:
        """Find out who opened a connection, and begin to connect it to its node."""
        peer = transport.get_extra_info("peername")
        pids = {node: pid for node in self._lab.ports if (pid := self._site.pid(node)) is not None}
        link.source = (self._openers.find(self._lab.ports[link.target], peer[1], pids) if peer else None) or "client"
        task = asyncio.create_task(self._connect(link))
        self._dialing.add(task)
        task.add_done_callback(self._dialing.discard)

    def _topic_id(self, node: int, topic: str, partition: int) -> bytes:
        """Return a topic's id, as a broker with a replica has it on its disk; b"" from one without."""
        try:
            text = (self._site.data(node) / f"{topic}-{partition}" / "partition.metadata").read_text()
        except OSError:
            return b""
        return base64.urlsafe_b64decode(text.partition("topic_id: ")[2].strip() + "==")

    async def _connect(self, link: Link) -> None:
        port = self._network.leads_to(link) or self._lab.private_port(link.target)
        try:
            await asyncio.get_running_loop().create_connection(lambda: link.node, _HOST, port)
        except OSError:
            link.node_closed()


async def _accepts(port: int) -> bool:
    try:
        _reader, writer = await asyncio.open_connection(_HOST, port)
    except OSError:
        return False
    writer.close()
    return True


async def _end_of(pid: int) -> None:
    """Wait until a process has ended."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
