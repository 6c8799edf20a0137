"""The processes of a server: which there are, what each is, and how much memory they take.

Linux only: it reads /proc.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

SERVER, JAVA, WORKER = "server", "java", "worker"
_PROC = Path("/proc")


def process_tree(root: int) -> dict[int, str]:
    """The process and all its descendants, each with its role."""
    children: dict[int, list[int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            parent = _parent_of(int(folder.name))
            if parent is not None:
                children.setdefault(parent, []).append(int(folder.name))
    roles = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        roles[pid] = SERVER if pid == root else _role_of(pid)
        waiting += children.get(pid, [])
    return roles


def memory_by_role(root: int) -> Counter[str]:
    """Bytes that each role has in memory of its own.

    Pages that processes share, such as mapped files of state, count for nobody.
    """
    found: Counter[str] = Counter()
    for pid, role in process_tree(root).items():
        found[role] += _private_bytes(pid)
    return found


def open_files(pid: int) -> int:
    """How many files and sockets the process has open; 0 if it is gone."""
    try:
        return sum(1 for _ in (_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return 0


def _parent_of(pid: int) -> int | None:
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1])


def _role_of(pid: int) -> str:
    try:
        command = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return WORKER
    return JAVA if Path(command[0].decode(errors="replace")).name == "java" else WORKER


def _private_bytes(pid: int) -> int:
    """Anonymous memory of a process, in the manner of its status file."""
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    sizes = [line.split()[1] for line in lines if line.startswith("RssAnon:")]
    return 1024 * int(sizes[0]) if sizes else 0
