# SPDX-License-Identifier: MIT
"""equal.py WHAT SOURCE MOUNT - does the mount of a tree say what the tree itself says?

SOURCE is the scanned directory, MOUNT the same directory on the mount. WHAT:

    totals  .usage of every directory against du and find of the source alone, and tests/oracle.py
    attrs   type, mode, owner, time, size and blocks of every entry; each name, byte for byte
    inodes  one number in readdir and lstat; directories have their own; names of one inode share one
    names   print every name that the mount should show below SOURCE, ended by NUL
    save    print every inode number, to compare it later
    files   every file in .usage of every directory: format, length, twins, one moment
"""
import os
import re
import stat
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NUMBERS = ("bytes", "apparent", "files", "dirs", "entries", "shared")
wrong = 0


def complain(path, *what):
    global wrong
    wrong += 1
    if wrong <= 10:
        print(repr(path), *what)


def shown(name):
    return name + b"~" if re.fullmatch(rb"\.usage~*", name) else name


def read(path):
    with open(path, "rb") as f:
        return f.read()


def pairs(source, mount):
    """(source path, mount path, lstat of the source) of everything, the top first."""
    todo = [(source, mount)]
    while todo:
        real, view = todo.pop()
        st = os.lstat(real)
        yield real, view, st
        if stat.S_ISDIR(st.st_mode):
            for name in os.listdir(real):
                todo.append((os.path.join(real, name), os.path.join(view, shown(name))))


def directories(source, mount):
    return ((r, v) for r, v, st in pairs(source, mount) if stat.S_ISDIR(st.st_mode))


def du(path):
    return int(subprocess.run(["du", "-s", "-B1", path], stdout=subprocess.PIPE, check=True).stdout.split(b"\t")[0])


def find(path):
    """apparent, files, dirs and entries by find(1), which knows no sums: each inode's length once."""
    out = subprocess.run(["find", path, "-mindepth", "1", "-printf", r"%y %s %D:%i\0"],
                         stdout=subprocess.PIPE, check=True).stdout
    rows = [row.split(b" ") for row in out.split(b"\0")[:-1]]
    lengths = {ino: int(size) for kind, size, ino in rows if kind != b"d"}
    kinds = [kind for kind, _, _ in rows]
    return sum(lengths.values()), kinds.count(b"f"), kinds.count(b"d"), len(rows)


def oracle(source):
    said = subprocess.run([sys.executable, os.path.join(HERE, "..", "oracle.py"), source],
                          stdout=subprocess.PIPE, check=True).stdout
    table = {}
    for row in said.split(b"\0")[:-1]:
        *numbers, path = row.split(b" ", len(NUMBERS))
        table[os.path.normpath(os.path.join(source, path))] = dict(zip(NUMBERS, map(int, numbers)))
    return table


def totals(source, mount):
    expected = oracle(source)
    n = 0
    for real, view in directories(source, mount):
        n += 1
        got = {key: int(read(os.path.join(view, b".usage", key.encode()))) for key in NUMBERS}
        apparent, files, dirs, entries = find(real)
        tools = {"bytes": du(real), "apparent": apparent, "files": files, "dirs": dirs, "entries": entries}
        if got != expected[real]:
            complain(real, "shows", got, "oracle", expected[real])
        if any(got[key] != tools[key] for key in tools):
            complain(real, "shows", got, "du and find", tools)
        st = os.lstat(view)
        if st.st_size != got["bytes"] or st.st_blocks != os.lstat(real).st_blocks:
            complain(real, "st_size", st.st_size, "st_blocks", st.st_blocks)
    return n


def attrs(source, mount):
    n = 0
    for real, view, st in pairs(source, mount):
        n += 1
        got = os.lstat(view)
        keys = ["st_mode", "st_uid", "st_gid", "st_blocks"]
        if not stat.S_ISDIR(st.st_mode):
            keys.append("st_size")
            if got.st_nlink != (2 if st.st_nlink > 1 else 1):
                complain(real, "st_nlink", got.st_nlink, "of", st.st_nlink)
        for key in keys:
            if getattr(got, key) != getattr(st, key):
                complain(real, key, getattr(got, key), "instead of", getattr(st, key))
        if got.st_mtime_ns // 10**9 != st.st_mtime_ns // 10**9:
            complain(real, "mtime", got.st_mtime_ns, "instead of", st.st_mtime_ns)
        if stat.S_ISDIR(st.st_mode):
            names = sorted(shown(name) for name in os.listdir(real))
            got_names = sorted(os.listdir(view))
            if got_names != names:
                complain(real, "names", [x for x in got_names if x not in names],
                         "instead of", [x for x in names if x not in got_names])
    return n


def inodes(source, mount):
    seen, links, n = {}, {}, 0
    for real, view, st in pairs(source, mount):
        n += 1
        got = os.lstat(view)
        if stat.S_ISDIR(st.st_mode):
            with os.scandir(view) as entries:
                for entry in entries:
                    below = entry.stat(follow_symlinks=False)
                    if entry.inode() != below.st_ino:
                        complain(entry.path, "d_ino", entry.inode(), "st_ino", below.st_ino)
                    if entry.is_dir(follow_symlinks=False) != stat.S_ISDIR(below.st_mode):
                        complain(entry.path, "d_type")
        if st.st_nlink > 1 and not stat.S_ISDIR(st.st_mode):
            first = links.setdefault(st.st_ino, got.st_ino)
            if first != got.st_ino:
                complain(real, "another number than its other name")
            key = ("link", st.st_ino)
        else:
            key = ("path", real)
        if seen.setdefault(got.st_ino, key) != key:
            complain(real, "has the number of", seen[got.st_ino])
    if not links:
        complain(source, "no hard links in this tree: nothing was tested")
    return n


def save(source, mount):
    for real, view, _ in sorted(pairs(source, mount)):
        print(os.lstat(view).st_ino, repr(real))
    sys.exit(0)


def names(source, mount):
    found = sorted(os.path.relpath(view, mount) for _, view, _ in pairs(source, mount))
    sys.stdout.buffer.write(b"".join(b"./" + name + b"\0" if name != b"." else b".\0" for name in found))
    sys.exit(0)


# -- the files of .usage -------------------------------------------------------------------------

TABLES = ("children", "top", "largest", "crowded", "errors.list")
STAT = ("bytes", "apparent", "files", "dirs", "entries", "shared", "errors", "vanished", "skipped", "newest",
        "asof", "complete")


def unescape(text):
    return re.sub(rb"\\([0-3][0-7]{2})", lambda m: bytes([int(m[1], 8)]), text)


def check_table(path, name, text, twin):
    rows = text.split(b"\n")
    raw = twin.split(b"\0")
    if rows.pop() or raw.pop():
        complain(path, name, "does not end a row with newline and NUL")
    if len(rows) != len(raw):
        complain(path, name, len(rows), "rows, twin has", len(raw))
    for row, raw_row in zip(rows, raw):
        number, tab, rest = row.partition(b"\t")
        if not tab or not re.fullmatch(rb"[0-9]+" if name != "errors.list" else rb"[A-Za-z0-9 _]+", number):
            complain(path, name, "row", row)
        if re.search(rb"[\x00-\x20\x7f]", rest):
            complain(path, name, "a control byte or space is not escaped:", row)
        try:
            rest.decode()
        except UnicodeDecodeError:
            complain(path, name, "not UTF-8:", row)
        if number + tab + unescape(rest) != raw_row:
            complain(path, name, "row", row, "twin", raw_row)
    if name != "errors.list":
        numbers = [int(row.partition(b"\t")[0]) for row in rows]
        if numbers != sorted(numbers, reverse=True):
            complain(path, name, "is not sorted")


def check_files(path):
    base = os.path.join(path, b".usage")
    names = [name for name in os.listdir(base) if not os.path.isdir(os.path.join(base, name))]
    text = {}
    for name in names:
        at = os.path.join(base, name)
        st = os.lstat(at)
        text[name.decode()] = read(at)
        if st.st_size != len(text[name.decode()]) or st.st_blocks or not stat.S_ISREG(st.st_mode):
            complain(at, "st_size", st.st_size, "length", len(text[name.decode()]), "st_blocks", st.st_blocks)
    for name in STAT:
        if not re.fullmatch(rb"-?[0-9]+\n", text[name]):
            complain(path, name, text[name])
    lines = [line.split(b" ") for line in text["stat"].split(b"\n")[:-1]]
    if [key.decode() for key, _ in lines[:len(STAT)]] != list(STAT):
        complain(path, "stat", text["stat"])
    for key, value in lines:
        if key.decode() in STAT and text[key.decode()] != value + b"\n":
            complain(path, key, text[key.decode()], "but stat says", value)
    for name in TABLES:
        check_table(path, name, text[name], text[name + ".0"])
    for name in ("summary", "README"):
        if not text[name].endswith(b"\n") or re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", text[name]):
            complain(path, name, text[name])
        text[name].decode()
    children = sorted(row.partition(b"\t")[2] for row in text["children.0"].split(b"\0")[:-1])
    return children


def files(source, mount):
    n = 0
    for real, view in directories(source, mount):
        n += 1
        children = check_files(view)
        if children != sorted(os.listdir(real)):
            complain(real, "children.0", children)
    return n


def main():
    what, source, mount = sys.argv[1], os.fsencode(sys.argv[2]), os.fsencode(sys.argv[3])
    n = {"totals": totals, "attrs": attrs, "inodes": inodes, "save": save, "names": names,
         "files": files}[what](source, mount)
    if wrong:
        sys.exit(f"{wrong} of {n} are wrong")


main()
