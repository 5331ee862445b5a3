"""A disk that loses what was not synced, rebuilt from the record that power.c makes of a run.

It is stricter than most file systems: a sync of a file makes its bytes durable and not its name; names become durable
when their directory is synced. What is not durable at a cut survives by `Luck`: nothing of it, all of it, what came first,
or any part of it. A rename is one step, and its name and its bytes are two things."""

import os
import struct
from pathlib import Path

HEAD = struct.Struct("<c3q")


def records(file):
    """The record of a run, one operation at a time."""
    with open(file, "rb") as log:
        while head := log.read(HEAD.size):
            kind, a, b, length = HEAD.unpack(head)
            yield kind.decode(), a, b, log.read(length)


class File:
    def __init__(self):
        self.durable = bytearray()
        # Writes and cuts since the last sync: (offset, bytes), or (length, None).
        self.pending = []

    def sync(self):
        for change in self.pending:
            apply(self.durable, change)
        self.pending.clear()

    def after_cut(self, luck):
        content = bytearray(self.durable)
        for change in luck.bytes_kept(self.pending):
            apply(content, change)
        return content


class Directory:
    pass


def apply(content, change):
    at, data = change
    if data is None:
        content[at:] = bytes(max(0, at - len(content)))
        return
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


class Disk:
    """Names and files as the running system sees them, and which of it is durable."""

    def __init__(self, root):
        self.root = os.fspath(root)
        self.now = {self.root: Directory()}
        # What was done to names since all of it was durable: [changes, directories, is it durable].
        self.steps = []
        self.files = {}

    def do(self, kind, a, b, data):
        path = data.decode("utf-8", "surrogateescape").rstrip("/") if kind in "ORUD" else ""
        if kind == "P":
            self.files.clear()
        elif kind == "O":
            self._open(a, b, path)
        elif kind == "A":
            self.files[b] = self.files.get(a)
        elif kind == "C":
            self.files.pop(a, None)
        elif kind in "WT":
            node = self.files.get(a)
            node.pending.append((b, data if kind == "W" else None))
        elif kind == "S":
            self._sync(self.files.get(a))
        elif kind == "R":
            old, new = path.split("\0")
            self._name([(old, None), (new, self.now[old])])
        elif kind == "U":
            self._name([(path, None)])
        elif kind == "D":
            self._name([(path, Directory())])

    def _open(self, number, flags, path):
        node = self.now.get(path)
        if node is None:
            if os.path.isdir(path):
                raise AssertionError(f"{path} came out of nowhere")
            node = File()
            self._name([(path, node)])
        elif flags & os.O_TRUNC and isinstance(node, File):
            node.pending.append((0, None))
        self.files[number] = node

    def _name(self, changes):
        directories = [self.now.get(os.path.dirname(path)) for path, _ in changes]
        self.steps.append([changes, directories, False])
        for path, node in changes:
            move(self.now, path, node)

    def _sync(self, node):
        if isinstance(node, File):
            node.sync()
        for step in self.steps:
            step[2] = step[2] or any(directory is node for directory in step[1])

    def after_cut(self, luck, target):
        """Writes what is left of the root after a cut to another directory."""
        left = {self.root: self.now[self.root]}
        pending = [step for step in self.steps if not step[2]]
        kept = {id(step) for step in luck.steps_kept(pending)}
        for step in self.steps:
            if step[2] or id(step) in kept:
                for path, node in step[0]:
                    # Without its directory a name is nothing.
                    if node is None or os.path.dirname(path) in left:
                        move(left, path, node)
        for path, node in left.items():
            place = Path(target) / os.path.relpath(path, self.root)
            if isinstance(node, Directory):
                place.mkdir(parents=True, exist_ok=True)
        for path, node in left.items():
            if isinstance(node, File):
                place = Path(target) / os.path.relpath(path, self.root)
                place.write_bytes(node.after_cut(luck))


def move(names, path, node):
    """Puts a node under a name, or takes it away with all that lies below."""
    if node is None:
        for name in [name for name in names if name == path or name.startswith(path + "/")]:
            del names[name]
    else:
        names[path] = node


class Luck:
    """What survives a cut of that which was not synced."""

    KINDS = ("nothing", "everything", "what came first", "any of it")

    def __init__(self, random, kind=None):
        self.random = random
        self.kind = kind or random.choice(self.KINDS)

    def steps_kept(self, steps):
        if self.kind == "nothing":
            return []
        if self.kind == "everything":
            return steps
        # A journal keeps the order of names.
        return steps[: self.random.randint(0, len(steps))]

    def bytes_kept(self, changes):
        if self.kind == "nothing":
            return []
        if self.kind == "everything":
            return changes
        if self.kind == "any of it":
            return [change for change in changes if self.random.random() < 0.5]
        kept = changes[: self.random.randint(0, len(changes))]
        if kept and kept[-1][1]:
            # The last write is torn.
            at, data = kept[-1]
            kept[-1] = (at, data[: self.random.randint(0, len(data))])
        return kept
