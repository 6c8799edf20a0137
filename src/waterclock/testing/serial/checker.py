"""Judges a history: is there an order of the operations that explains every read?

There is none exactly if the edges of `order`, and those of real time, form a cycle. Two orders are
asked for:

- *strict serializability* of all writes, upstream and here, with the recent reads: all of it is in
  one order, which is also that of real time;
- *serializability* of everything, in which other reads need not see what was written upstream
  before they began. But all that is done here is in the order of real time, and so are recent reads
  with what is written upstream.

Over several sources there is no common order of the writes upstream, unless they follow one log.
There each source is judged alone, with the tables: one sees one's own writes, reads are recent, and
what was read stays so.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from waterclock.testing.serial.history import History, Key, Kind, Operation, Outcome, keys_of
from waterclock.testing.serial.order import Violation, edges_of

_TIME = "time"
Node = int | tuple[str, int]
"""An operation, or a moment of real time."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was checked and held."""

    what: str
    operations: Counter[str]
    edges: Counter[str]

    def lines(self) -> list[str]:
        done = ", ".join(f"{count} {kind}" for kind, count in sorted(self.operations.items()))
        told = ", ".join(f"{count} {why}" for why, count in sorted(self.edges.items()))
        return [self.what, f"  operations: {done}", f"  edges: {told}", "  no cycle"]


def check(
    history: History,
    orders: Sequence[frozenset[Key]] | None = None,
    sources: Sequence[frozenset[Key]] | None = None,
) -> list[Verdict]:
    """Raise `Violation` unless the history is what is promised.

    `orders` are the keys that are to be strictly serializable: those of one source, or of several
    that share an order upstream, together with those of the tables. `sources` are the keys of each
    source together with those of the tables, which are to be serializable.
    """
    everything = [keys_of(history)]
    orders = everything if orders is None else orders
    verdicts = [_checked(history, keys, strict=True) for keys in orders]
    verdicts += [_checked(history, keys, strict=False) for keys in sources or orders]
    return verdicts


def _checked(history: History, keys: frozenset[Key], *, strict: bool) -> Verdict:
    history = [found for each in history if (found := each.on(keys)) is not None]
    what = ", ".join(sorted({key.partition(":")[0] for key in keys}))
    if strict:
        history = _promised(history)
    happened = [each for each in history if each.outcome is not Outcome.FAILED]
    edges = edges_of(history)
    by_number = {each.number: each for each in happened}
    edges = [edge for edge in edges if edge.before in by_number and edge.after in by_number]
    graph: dict[Node, list[tuple[Node, str, Key]]] = {number: [] for number in by_number}
    for edge in edges:
        graph[edge.before].append((edge.after, edge.why, edge.key))
    for before, after in _real_time(happened, strict=strict):
        graph.setdefault(before, []).append((after, "realtime", ""))
        graph.setdefault(after, [])
    cycle = _shortest_cycle(graph)
    if cycle is not None:
        raise Violation(_told(cycle, by_number))
    kinds = Counter(str(each.kind) for each in happened)
    promise = "strictly serializable, with recent reads" if strict else "serializable, all reads"
    return Verdict(f"{what}: {promise}", kinds, Counter(edge.why for edge in edges))


def _promised(history: History) -> list[Operation]:
    """What is strictly serializable: without reads that are not recent, which writes here may have
    done too.
    """
    sources = keys_of(each for each in history if each.kind is Kind.UPSTREAM)
    tables = keys_of(history) - sources
    found = []
    for each in history:
        kept = each.on(tables) if each.kind is Kind.WRITE else each
        if kept is not None and each.kind is not Kind.READ:
            found.append(kept)
    return found


def _real_time(history: History, *, strict: bool) -> Iterator[tuple[Node, Node]]:
    """Edges from what had ended to what began after, by way of moments in a chain.

    There are two chains if not everything is in one order: what is written upstream is only before
    recent reads of its source and other writes upstream, and only behind those.
    """
    sources = keys_of(each for each in history if each.kind is Kind.UPSTREAM)
    everything = dict.fromkeys(Kind, ("all",))
    apart = {
        Kind.UPSTREAM: ("upstream",),
        Kind.RECENT: ("upstream", "here"),
        Kind.WRITE: ("here",),
        Kind.READ: ("here",),
    }
    chains = everything if strict else apart
    for name in sorted({name for names in chains.values() for name in names}):
        inside = [each for each in history if name in chains[each.kind]]
        if name == "upstream":
            inside = [each for each in inside if each.on(sources) is not None]
        yield from _chain(name, inside)


def _chain(name: str, history: History) -> Iterator[tuple[Node, Node]]:
    # What has ended when another one begins, to the clock's precision, may have ended after that.
    moments = [(each.begun, 1, each) for each in history]
    moments += [(each.ended, 2, each) for each in history if each.ended is not None]
    count = 0
    for _, which, each in sorted(moments, key=lambda moment: moment[:2]):
        if which == 1:
            if count:
                yield (f"{_TIME} {name}", count), each.number
            continue
        if each.outcome is not Outcome.OK:
            continue
        count += 1
        here = (f"{_TIME} {name}", count)
        if count > 1:
            yield (f"{_TIME} {name}", count - 1), here
        yield each.number, here


Graph = dict[Node, list[tuple[Node, str, Key]]]
Path = list[tuple[Node, str, Key]]


def _shortest_cycle(graph: Graph) -> Path | None:
    """A cycle that is shortest among those through one node of the smallest group that has one."""
    groups = [group for group in _components(graph) if len(group) > 1]
    if not groups:
        return None
    group = min(groups, key=len)
    inside = set(group)
    best: Path | None = None
    for start in [node for node in group if isinstance(node, int)][:200]:
        found = _cycle_through(graph, start, inside)
        if found is not None and (best is None or len(found) < len(best)):
            best = found
    return best


def _cycle_through(graph: Graph, start: Node, inside: set[Node]) -> Path | None:
    """The nodes of a shortest way from a node back to it, each with why it leads to the next."""
    came: dict[Node, tuple[Node, str, Key]] = {}
    ahead = deque([start])
    while ahead:
        node = ahead.popleft()
        for after, why, key in graph[node]:
            if after == start:
                path: Path = [(node, why, key)]
                while node != start:
                    node, why, key = came[node]
                    path.append((node, why, key))
                return path[::-1]
            if after in inside and after not in came:
                came[after] = (node, why, key)
                ahead.append(after)
    return None


def _components(graph: Graph) -> Iterator[list[Node]]:
    """The strongly connected components, by Tarjan's algorithm without recursion."""
    index: dict[Node, int] = {}
    low: dict[Node, int] = {}
    on_stack: set[Node] = set()
    stack: list[Node] = []
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(graph[root]))]
        while work:
            node, following = work[-1]
            for after, _, _ in following:
                if after not in index:
                    index[after] = low[after] = len(index)
                    stack.append(after)
                    on_stack.add(after)
                    work.append((after, iter(graph[after])))
                    break
                if after in on_stack:
                    low[node] = min(low[node], index[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        group.append(member)
                        if member == node:
                            break
                    yield group


def _told(cycle: Path, operations: dict[int, Operation]) -> str:
    """The cycle, an operation a line, without the moments in between."""
    whys = Counter(why for _, why, _ in cycle)
    anti = whys["rw"]
    kind = "G-single" if anti == 1 else "G2" if anti else "G1c" if whys["wr"] else "G0"
    lines = [f"{kind}{' in real time' if whys['realtime'] else ''}: these come before each other"]
    for node, why, key in cycle:
        if isinstance(node, int):
            lines.append(f"  {operations[node]}")
            lines.append(f"    before the next ({why}{f' on {key}' if key else ''})")
    return "\n".join(lines)
