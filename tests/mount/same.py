#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
same.py grow TREE SEED                       add some directories and files, change and remove others
same.py TOPIC PROGRAM INDEX MOUNT TREE       compare what PROGRAM cat and ls say with the mount

Every file that PROGRAM knows is read, and its twin. Prints what differs and fails, or how much was compared.
"""

import os
import random
import subprocess
import sys

NAMES = [b"plain", b"two words", b"tab\there", b"line\nbreak", b"back\\slash", b"\xff\xfe", b".usage", b".growth", b"-dash",
         "ümlaut".encode(), b"\x1b[31m", b"at"]


def grow(tree, seed):
    rng = random.Random(seed)
    dirs = [tree]
    for at, below, files in os.walk(tree):
        dirs += [os.path.join(at, d) for d in below]
        for name in files:
            if rng.random() < 0.1:
                os.remove(os.path.join(at, name))
    os.makedirs(os.path.join(tree, b"inner"), exist_ok=True)
    dirs.append(os.path.join(tree, b"inner"))
    while len(dirs) < 500 + 10 * seed:
        at = os.path.join(rng.choice(dirs[-60:]), rng.choice(NAMES) + b"%d" % rng.randrange(4) * rng.randrange(2))
        if not os.path.exists(at) and at.count(b"/") < 40:
            os.mkdir(at)
            dirs.append(at)
    for _ in range(300):
        path = os.path.join(rng.choice(dirs), b"f%d." % rng.randrange(5) + rng.choice(NAMES))
        with open(path, "wb") as f:
            f.write(bytes(rng.randrange(20000)))
        if rng.random() < 0.2 and not os.path.exists(path + b"link"):
            os.link(path, path + b"link")


class Both:
    def __init__(self, program, index, mount, tree):
        self.program, self.index, self.mount, self.tree = program, index, mount, tree
        rows = subprocess.run([program, "help", "files"], stdout=subprocess.PIPE, check=True).stdout.split(b"\n")
        self.rows = [r.split(b"\t")[0] for r in rows if r and not r.startswith(b".telemetry")]
        self.compared = self.wrong = 0

    def run(self, *words):
        return subprocess.run([self.program, words[0], "--index", self.index, *words[1:]], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)

    def differs(self, what, got, want):
        print(f"{what}\n    without a mount {got[:300]!r}\n    on the mount    {want[:300]!r}")
        self.wrong += 1
        if self.wrong > 5:
            sys.exit("too much differs")

    def files(self, shown):
        """shown: a directory as the mount shows it, without the mount."""
        names = []
        for row in self.rows:
            for name in (row, row + b".0"):
                if os.path.lexists(self.mount + shown + b"/.usage/" + name):
                    names.append(shown + b"/.usage/" + name)
        want = []
        for name in names:
            with open(self.mount + name, "rb") as f:
                want.append(f.read())
        got = self.run("cat", "--", *names)
        self.compared += len(names)
        if got.returncode or got.stdout != b"".join(want):
            for name, text in zip(names, want):
                one = self.run("cat", "--", name)
                if one.returncode or one.stdout != text:
                    self.differs(name, one.stdout + one.stderr, text)
        return names

    def directories(self):
        """Those of the tree, and those above it, as the mount shows them."""
        top = self.mount + self.tree
        found = [at[len(self.mount):] for at, _, _ in os.walk(top)]
        above = self.tree
        while above not in (b"/", b""):
            above = os.path.dirname(above)
            found.append(above.rstrip(b"/"))
        return found

    def listing(self, shown):
        entries = {}
        for e in os.scandir(self.mount + (shown or b"/")):
            if not shown and e.name in (b".usage", b".telemetry"):
                continue
            entries[e.name] = e.stat(follow_symlinks=False).st_size
        got = self.run("ls", "-l", "--", shown or b"/")
        sizes = sorted(int(line.split()[3]) for line in got.stdout.split(b"\n") if line)
        self.compared += len(sizes)
        if got.returncode or sizes != sorted(entries.values()):
            self.differs(shown, got.stdout, repr(entries).encode())


def main():
    topic, *words = sys.argv[1:]
    if topic == "grow":
        grow(os.fsencode(words[0]), int(words[1]))
        return
    b = Both(words[0], *map(os.fsencode, words[1:]))
    dirs = b.directories()
    rng = random.Random(5)
    least = 100
    sample = int(os.environ.get("SAMPLE", len(dirs)))
    if topic in ("files", "listing"):
        dirs = rng.sample(dirs, min(sample, len(dirs)))
    if topic == "files":
        seen = set()
        for d in dirs:
            seen |= {n.rsplit(b"/.usage/", 1)[1] for n in b.files(d)}
        missing = set(b.rows) - {b"delta"} - seen
        if missing:
            sys.exit(f"never compared: {missing}")
        least = len(dirs) * 30
    elif topic == "past":
        ids = sorted(int(i) for i in os.listdir(b.mount + b"/.usage/at"))
        for d in rng.sample(dirs, 60) + dirs[-3:]:
            for then in (b"%d" % rng.choice(ids), b"prev", b"latest", b"2030-01-01"):
                if os.path.isdir(b.mount + d + b"/.usage/at/" + then):
                    b.files(d + b"/.usage/at/" + then)
        for d in rng.sample(dirs, 40):
            then = b"/.usage/at/%d" % rng.choice(ids)
            if os.path.isdir(b.mount + then + d):
                b.files(then + d)
                if os.path.isdir(b.mount + then + d + b"/.usage/at/1"):
                    b.files(then + d + b"/.usage/at/1")
    elif topic == "growth":
        for at, _, _ in os.walk(b.mount + b"/.growth/7d"):
            b.files(at[len(b.mount):])
    elif topic == "listing":
        for d in dirs:
            b.listing(d)
    elif topic == "missing":
        least = 1
        for name in (b"/.usage/nothing", b"/.usage/bytes.0", b"/nothing/.usage/bytes", b"/.usage/delta", b"/.usage/at/99",
                     b"/.usage/growth/2d", b"/.growth/7d/.usage/delta", b"/.usage/bytes/x", b"/.usage/at/1/.usage/delta"):
            b.compared += 1
            got = b.run("cat", "--", b.tree + name)
            if os.path.lexists(b.mount + b.tree + name) or got.returncode == 0:
                b.differs(name, got.stdout, b"")
    if b.wrong or b.compared < least:
        sys.exit(f"{b.wrong} differ, {b.compared} compared")
    print(f"compared {b.compared}")


main()
