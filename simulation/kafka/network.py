"""The network between sites: brokers, the controller, and where clients run."""

Site = int | str
"""A broker by its id, "controller", or where clients run ("canary")."""
CONTROLLER = "controller"


class Network:
    """Which sites cannot reach which others."""

    def __init__(self) -> None:
        self._cut: set[tuple[Site, Site]] = set()  # asked for membership only

    def cut(self, a: Site, b: Site) -> None:
        """Let nothing through between two sites, either way."""
        self._cut |= {(a, b), (b, a)}

    def heal(self, a: Site | None = None, b: Site | None = None) -> None:
        """Mend the way between two sites, every way of ``a``, or everything."""
        if a is None:
            self._cut.clear()
        else:
            self._cut = {pair for pair in self._cut if a not in pair or (b is not None and b not in pair)}

    @property
    def whole(self) -> bool:
        """Whether everything arrives everywhere."""
        return not self._cut

    def passes(self, a: Site, b: Site) -> bool:
        """Whether what one site sends arrives at the other."""
        return not self._cut or (a, b) not in self._cut
