# SPDX-License-Identifier: MIT
"""hostile.py DIRECTORY - fills it with everything that a disk usage tool gets wrong."""
import os
import shutil
import socket
import subprocess
import sys

ODD = [b"new\nline", b"tab\there", b"back\\slash", b"esc\x1b[31mred", b"\xff\xfe", b"n" * 255, b".usage", b".usage~",
       b".telemetry", b".growth", b"two  spaces", b" leading", b"trailing ", b"-rf", b"quote'\"", b"*?[x]", b"\xc3\xa9",
       b"\xed\xa0\x80", b"\x7f", b"\\040", b"~", b"$(id)", b"#", b"%s%n"]
TIMES = {b"before-1970": -1, b"year-1901": -2177452800, b"year-2400": 13569465600, b"epoch": 0}


def write(path, size):
    with open(path, "wb") as f:
        f.write(os.urandom(min(size, 4096)) * (size // 4096) + b"x" * (size % 4096))


def odd_names():
    for where, depth in ((b"odd", 2), (b"odd/.usage", 1)):
        os.makedirs(where, exist_ok=True)
        for i, name in enumerate(ODD):
            path = os.path.join(where, name)
            if depth == 2:
                os.makedirs(path, exist_ok=True)
                write(os.path.join(path, b"f-" + name[:250]), 1000 * i)
            else:
                write(path, 10000 + i)
    os.makedirs(b"odd-files")
    for i, name in enumerate(ODD):
        write(os.path.join(b"odd-files", name), 5000 * i)
    write(b"odd/.usage~~", 77)


def links():
    os.makedirs("links/one/two/three")
    for i in range(12):
        write(f"links/one/two/three/f{i}", 3000 * i)
        os.link(f"links/one/two/three/f{i}", f"links/one/g{i}")
    for copy in ("copy1", "copy2", "copy3"):
        subprocess.run(["cp", "-al", "links/one", f"links/{copy}"], check=True)
    os.makedirs("links/deep/er")
    subprocess.run(["cp", "-al", "links/one", "links/deep/er/copy"], check=True)
    write("a-file", 123456)
    os.makedirs("across/b")
    os.link("a-file", "across/one-name")
    os.link("a-file", "across/b/other-name")
    os.symlink("nowhere", "across/symlink")
    os.link("across/symlink", "across/b/symlink", follow_symlinks=False)
    os.mkfifo("across/fifo")
    os.link("across/fifo", "fifo-too")


def kinds():
    os.makedirs("kinds")
    with open("kinds/sparse", "wb") as f:
        f.truncate(1 << 25)  # copying tools write it out in full
        f.seek(1 << 24)
        f.write(b"x" * 5000)
    os.mkfifo("kinds/fifo", 0o600)
    s = socket.socket(socket.AF_UNIX)
    os.chdir("kinds")
    s.bind("socket")
    os.chdir("..")
    os.symlink("../a-file", "kinds/link")
    os.symlink("x" * 1000, "kinds/long-link")
    os.symlink("/", "kinds/up")
    if os.getuid() == 0:
        os.mknod("kinds/null", 0o020666, os.makedev(1, 3))
        os.mknod("kinds/disk", 0o060600, os.makedev(7, 200))
    write("kinds/empty", 0)
    write("kinds/big", 3 << 20)
    os.makedirs("kinds/empty-dir")


def owners_and_modes():
    os.makedirs("modes")
    for mode in (0o000, 0o200, 0o444, 0o755, 0o4755, 0o2755, 0o1777, 0o7777):
        write(f"modes/f{mode:o}", mode)
        os.chmod(f"modes/f{mode:o}", mode)
    for mode in (0o700, 0o1777, 0o2755):
        os.makedirs(f"modes/d{mode:o}")
        os.chmod(f"modes/d{mode:o}", mode)
    if os.getuid() == 0:
        for uid, gid in ((65534, 65534), (1, 2), (4000000000, 3)):
            write(f"modes/u{uid}", 1)
            os.chown(f"modes/u{uid}", uid, gid)


def times():
    os.makedirs("times")
    for name, t in TIMES.items():
        path = os.path.join(b"times", name)
        write(path, 1)
        os.utime(path, (t, t))
        os.makedirs(path + b".d")
        os.utime(path + b".d", (t, t))


def depth():
    path = "chain"
    for i in range(60):
        path += f"/{i}"
    os.makedirs(path)
    write(path + "/bottom", 4321)
    for i in range(40):
        os.makedirs(f"wide/d{i}")
        for j in range(i % 7):
            write(f"wide/d{i}/f{j}", i * 777 + j)


def main():
    os.chdir(sys.argv[1])
    odd_names()
    links()
    kinds()
    owners_and_modes()
    depth()
    times()
    shutil.copytree("wide", "wide-again")


main()
