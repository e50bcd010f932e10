"""Strongly connected components and shortest cycles of large sparse graphs, most of which has no cycle at all.

A graph is three columns: edge n goes from ``tail[n]`` to ``head[n]``. Nodes are numbers in the order in which
operations completed, so nearly all edges go forward; whatever can be on no cycle is cut away by NumPy before Python
looks.
"""

from collections import deque

import numpy as np

from canary.history.columns import Column

_ROUNDS = 4
_EFFORT = 2_000_000
"""Edges looked at for the shortest cycle of one component, at most; then the shortest found so far is taken."""


def core(tail: Column, head: Column, nodes: int) -> Column:
    """Return which edges may be on a cycle: all that are, and few others. No edge may lead back to its own node.

    An edge whose tail nothing leads to, or whose head leads nowhere, is on none. And a cycle must come back: it lies
    within stretches of nodes that edges going backwards cover, one overlapping the next.
    """
    edges = np.arange(len(tail))
    for _ in range(_ROUNDS):
        before = len(edges)
        if before == 0:
            break
        t, h = tail[edges], head[edges]
        covered = np.zeros(nodes + 1, np.int32)
        back = t > h
        np.add.at(covered, h[back], 1)
        np.add.at(covered, t[back], -1)
        stretch = np.cumsum(np.cumsum(covered[:-1]) == 0)  # a new one after each node that no edge leads back across
        stretch = np.concatenate(([0], stretch[:-1]))
        edges = edges[stretch[t] == stretch[h]]
        t, h = tail[edges], head[edges]
        leads, led_to = np.zeros(nodes, np.bool_), np.zeros(nodes, np.bool_)
        leads[t] = True
        led_to[h] = True
        edges = edges[led_to[t] & leads[h]]
        if len(edges) > 0.9 * before:
            break
    return edges


def components(tail: Column, head: Column) -> tuple[Column, Column]:
    """Return (nodes, component of each) for the strongly connected components of two nodes or more (Tarjan)."""
    nodes, ends = np.unique(np.concatenate((tail, head)), return_inverse=True)
    count = len(nodes)
    tails, heads = ends[: len(tail)], ends[len(tail) :]
    order = np.argsort(tails, kind="stable")
    targets: list[int] = heads[order].tolist()
    first: list[int] = np.searchsorted(tails[order], np.arange(count + 1)).tolist()
    component = np.asarray(_tarjan(count, first, targets), dtype=np.int64)
    sizes = np.bincount(component, minlength=1) if count else np.zeros(1, np.int64)
    large = sizes[component] > 1
    return nodes[large], component[large]


def _tarjan(count: int, first: list[int], targets: list[int]) -> list[int]:  # noqa: C901  # one loop, kept whole for speed
    """Return the component of each node; its own stack instead of Python's, so that long chains do no harm."""
    number = [0] * count  # order of discovery, from 1; 0 = not found yet
    low = [0] * count
    component = [-1] * count
    waiting: list[int] = []
    found = components_found = 0
    for root in range(count):
        if number[root]:
            continue
        found += 1
        number[root] = low[root] = found
        waiting.append(root)
        path = [(root, first[root])]
        while path:
            node, edge = path.pop()
            end = first[node + 1]
            while edge < end:
                target = targets[edge]
                edge += 1
                if not number[target]:
                    found += 1
                    number[target] = low[target] = found
                    waiting.append(target)
                    path.append((node, edge))
                    path.append((target, first[target]))
                    break
                if component[target] < 0 and number[target] < low[node]:
                    low[node] = number[target]
            else:
                if low[node] == number[node]:
                    while True:
                        member = waiting.pop()
                        component[member] = components_found
                        if member == node:
                            break
                    components_found += 1
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
    return component


def shortest_cycle(tail: list[int], head: list[int], through: list[int]) -> list[int]:
    """Return the edges of a shortest cycle, in order, among those that contain one of the edges ``through``.

    The edges are those of one strongly connected component. Breadth-first from the head of each edge of ``through``
    back to its tail; never further than a cycle shorter than the best would be.
    """
    leaving: dict[int, list[int]] = {}
    for edge, node in enumerate(tail):
        leaving.setdefault(node, []).append(edge)
    best: list[int] = []
    effort = 0
    for edge in through:
        limit = len(best) - 2 if best else len(tail)
        path, looked_at = _path(leaving, head, head[edge], tail[edge], limit)
        effort += looked_at
        if path is not None:
            best = [edge, *path]
            if len(best) == 2:
                break
        if effort > _EFFORT and best:
            break
    return best


def _path(
    leaving: dict[int, list[int]], head: list[int], start: int, goal: int, limit: int
) -> tuple[list[int] | None, int]:
    """Return the edges of a shortest path of at most ``limit`` edges (None: there is none), and the effort."""
    came_by: dict[int, int | None] = {start: None}
    came_from: dict[int, int] = {}
    distance = {start: 0}
    queue = deque([start])
    effort = 0
    while queue:
        node = queue.popleft()
        if distance[node] >= limit:
            break
        for edge in leaving.get(node, ()):
            effort += 1
            target = head[edge]
            if target in came_by:
                continue
            came_by[target], came_from[target], distance[target] = edge, node, distance[node] + 1
            if target == goal:
                path = []
                while (step := came_by[target]) is not None:
                    path.append(step)
                    target = came_from[target]
                return path[::-1], effort
            queue.append(target)
    return None, effort
