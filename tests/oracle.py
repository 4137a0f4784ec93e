#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""oracle.py TREE - what every directory of a tree takes, counted the slow and simple way.

Prints one record per directory, ended by NUL:

    bytes apparent files dirs entries shared path

bytes is what `du -s -B1` says of the directory alone: blocks of the directory and of everything below, an inode
with several names once. apparent is the sum of file lengths, directories left out. files, dirs and entries don't
count the directory itself. shared is the part of bytes whose inode has a name elsewhere too. Stays within the
mount. It shares no code and no method with the scanner.
"""
import os
import re
import stat
import sys


def mount_points():
    points = set()
    with open("/proc/self/mountinfo", "rb") as lines:
        for line in lines:
            point = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), line.split(b" ")[4])
            points.add(point)
    return points


def read_tree(root, mounts):
    """(path, lstat) of everything on the mount of root; a directory always comes before what is in it."""
    found = [(root, os.lstat(root))]
    todo = [root]
    while todo:
        with os.scandir(todo.pop()) as names:
            for entry in names:
                if entry.path in mounts:
                    continue
                st = os.lstat(entry.path)
                found.append((entry.path, st))
                if stat.S_ISDIR(st.st_mode):
                    todo.append(entry.path)
    return found


def add_up(root, below):
    """Totals of one directory from (path, lstat) of all that is below it."""
    total = {"bytes": root.st_blocks * 512, "apparent": 0, "files": 0, "dirs": 0, "entries": 0, "shared": 0}
    names = {}
    for _, st in below:
        total["entries"] += 1
        total["files"] += stat.S_ISREG(st.st_mode)
        total["dirs"] += stat.S_ISDIR(st.st_mode)
        key = (st.st_dev, st.st_ino)
        names[key] = names.get(key, 0) + 1
        if names[key] > 1 and not stat.S_ISDIR(st.st_mode):
            continue
        total["bytes"] += st.st_blocks * 512
        if not stat.S_ISDIR(st.st_mode):
            total["apparent"] += st.st_size
    counted = set()
    for _, st in below:
        key = (st.st_dev, st.st_ino)
        if not stat.S_ISDIR(st.st_mode) and st.st_nlink > names[key] and key not in counted:
            counted.add(key)
            total["shared"] += st.st_blocks * 512
    return total


def main(tree):
    root = os.path.realpath(os.fsencode(tree))
    below = {}
    everything = read_tree(root, mount_points())
    for path, st in everything:
        if stat.S_ISDIR(st.st_mode):
            below[path] = []
        above = path
        while above != root:
            above = os.path.dirname(above)
            below[above].append((path, st))
    for path, st in everything:
        if path in below:
            total = add_up(st, below[path])
            for key in ("bytes", "apparent", "files", "dirs", "entries", "shared"):
                sys.stdout.buffer.write(b"%d " % min(total[key], 2**63 - 1))
            sys.stdout.buffer.write(os.path.relpath(path, root) + b"\0")


if len(sys.argv) != 2:
    sys.exit(__doc__)
main(sys.argv[1])
