# SPDX-License-Identifier: MIT
"""tools.py all|few SCRATCH DIRECTORY... - every file in DIRECTORY, read by many tools: the same bytes, as many as
stat says.

Prints a line for each tool and file that went wrong; the last line is how many were tried.
"""
import gzip
import hashlib
import io
import lzma
import mmap
import os
import random
import shutil
import subprocess
import sys
import tarfile

FEW = sys.argv[1] == "few"
SCRATCH = sys.argv[2]
OUT = os.path.join(SCRATCH, "tool-out")


def run(*argv, **more):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True, **more).stdout


def copied(*argv):
    if os.path.exists(OUT):
        os.unlink(OUT)
    said = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if said.returncode:
        raise ValueError(f"status {said.returncode}: {said.stdout!r}")
    with open(OUT, "rb") as f:
        return f.read()


def small_reads(path, size):
    fd = os.open(path, os.O_RDONLY)
    parts = []
    while part := os.read(fd, size):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)


def preads(path):
    """Pieces from random places, the last ones first."""
    fd = os.open(path, os.O_RDONLY)
    length = os.fstat(fd).st_size
    whole = bytearray(length)
    places = list(range(0, length, 61))
    random.shuffle(places)
    for at in places:
        part = os.pread(fd, 61, at)
        whole[at:at + len(part)] = part
    past = os.pread(fd, 100, length) + os.pread(fd, 100, length + 5000)
    os.close(fd)
    return bytes(whole) + past


def reread(path):
    with open(path, "rb", buffering=0) as f:
        f.read(3)
        f.seek(0)
        first = f.readall()
        f.seek(0)
        return first if f.readall() == first else b"another text after lseek"


def mapped(path):
    with open(path, "rb") as f:
        if os.fstat(f.fileno()).st_size == 0:
            return f.read()
        with mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
            return bytes(m)


def sendfile(path):
    a, b = os.open(path, os.O_RDONLY), os.open(OUT, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    while os.sendfile(b, a, None, 1 << 20):
        pass
    os.close(a)
    whole = os.pread(b, 1 << 24, 0)
    os.close(b)
    return whole


def copyfile(path):
    shutil.copyfile(path, OUT)
    with open(OUT, "rb") as f:
        return f.read()


def tar(path, *program):
    said = run(*program, "-cf", "-", "-C", os.path.dirname(path), os.path.basename(path))
    with tarfile.open(fileobj=io.BytesIO(said)) as t:
        return t.extractfile(t.next()).read()


def by_number(text, number):
    return text if len(text) == number else f"{number} bytes".encode()


def by_hash(path, said, method):
    with open(path, "rb") as f:
        text = f.read()
    return text if hashlib.new(method, text).hexdigest() in said.decode() else said


def git_hash(path, said):
    with open(path, "rb") as f:
        text = f.read()
    sha = hashlib.sha1(b"blob %d\0" % len(text) + text).hexdigest()
    return text if sha in said.decode() else said


def whole(path):
    with open(path, "rb") as f:
        return f.read()


# name, program it needs, function from path to the bytes it saw, text files only
TOOLS = [
    ("cat", "cat", lambda p: run("cat", p)),
    ("wc -c", "wc", lambda p: by_number(whole(p), int(run("wc", "-c", p).split()[0]))),
    ("wc -c on standard input", "wc", lambda p: by_number(whole(p), int(run("sh", "-c", 'wc -c <"$1"', "", p)))),
    ("head -c", "head", lambda p: run("head", "-c", "100000000", p)),
    ("head -n", "head", lambda p: run("head", "-n", "1000000", p)),
    ("head -n -0", "head", lambda p: run("head", "-n", "-0", p)),
    ("tail -c", "tail", lambda p: run("tail", "-c", "100000000", p)),
    ("tail -c +1", "tail", lambda p: run("tail", "-c", "+1", p)),
    ("tail -n", "tail", lambda p: run("tail", "-n", "1000000", p)),
    ("cp", "cp", lambda p: copied("cp", p, OUT)),
    ("cp --reflink=never --sparse=always", "cp", lambda p: copied("cp", "--sparse=always", p, OUT)),
    ("install", "install", lambda p: copied("install", p, OUT)),
    ("dd bs=1", "dd", lambda p: run("dd", "bs=1", "status=none", "if=" + p)),
    ("dd bs=7", "dd", lambda p: run("dd", "bs=7", "status=none", "if=" + p)),
    ("dd bs=4k iflag=direct", "dd", lambda p: run("dd", "bs=4k", "iflag=direct", "status=none", "if=" + p)),
    ("dd skip=1", "dd", lambda p: whole(p)[:3] + run("dd", "bs=3", "skip=1", "status=none", "if=" + p)),
    ("sha256sum", "sha256sum", lambda p: by_hash(p, run("sha256sum", p), "sha256")),
    ("grep", "grep", lambda p: run("grep", "-a", "", p) if whole(p).endswith(b"\n") else whole(p)),
    ("sed", "sed", lambda p: run("sed", "", p)),
    ("cmp", "cmp", lambda p: whole(p) if run("sh", "-c", 'cat "$1" | cmp - "$1"', "", p) == b"" else b"differs"),
    ("diff", "diff", lambda p: whole(p) if run("diff", "-a", p, p) == b"" else b"differs"),
    ("split", "split", lambda p: run("split", "-b", "4096", "--filter=cat", p)),
    ("od", "od", lambda p: bytes.fromhex(run("od", "-An", "-v", "-tx1", p).decode())),
    ("sort", "sort", lambda p: whole(p) if sorted(run("sort", p)) == sorted(whole(p)) or
     not whole(p).endswith(b"\n") else b"differs"),
    ("gzip", "gzip", lambda p: gzip.decompress(run("gzip", "-cn", p))),
    ("xz", "xz", lambda p: lzma.decompress(run("xz", "-0c", p))),
    ("tar", "tar", lambda p: tar(p, "tar")),
    ("rsync", "rsync", lambda p: copied("rsync", "-c", "--inplace", p, OUT)),
    ("curl", "curl", lambda p: run("curl", "-s", "file://" + p)),
    ("git hash-object", "git", lambda p: git_hash(p, run("git", "hash-object", "--no-filters", p))),
    ("busybox cat", "busybox", lambda p: run("busybox", "cat", p)),
    ("busybox cp", "busybox", lambda p: copied("busybox", "cp", p, OUT)),
    ("busybox tar", "busybox", lambda p: tar(p, "busybox", "tar")),
    ("busybox wc -c", "busybox", lambda p: by_number(whole(p), int(run("busybox", "wc", "-c", p).split()[0]))),
    ("bash $(<file)", "bash", lambda p: run("bash", "-c", 'printf "%s\n" "$(<"$1")"', "", p)
     if b"\0" not in whole(p) and whole(p)[-1:] == b"\n" else whole(p)),
    ("python read", None, whole),
    ("python 1-byte reads", None, lambda p: small_reads(p, 1)),
    ("python 13-byte reads", None, lambda p: small_reads(p, 13)),
    ("python pread", None, preads),
    ("python seek and read again", None, reread),
    ("python mmap", None, mapped),
    ("python sendfile", None, sendfile),
    ("python shutil.copyfile", None, copyfile),
]

CHANGING = (".telemetry/mount",)


def is_whole(path, text):
    """Of a text that changes all the time: is it one, from its first to its last line?"""
    lines = text.decode().split("\n")
    last, first = "resident_kb ", "uptime "
    return lines[0].startswith(first) and lines[-2].startswith(last) and lines[-1] == ""


def main():
    paths = [os.path.join(d, name) for d in sys.argv[3:] for name in sorted(os.listdir(d))
             if name != "rescan" and not os.path.isdir(os.path.join(d, name))]
    wrong = tried = 0
    for name, program, read in TOOLS:
        if FEW and program not in (None, "cat", "tail", "tar", "busybox"):
            continue
        if program and not shutil.which(program):
            print(f"# {program} is not installed")
            continue
        tried += 1
        for path in paths:
            reference = whole(path)
            changing = path.endswith(CHANGING)
            try:
                got = read(path)
            except (subprocess.SubprocessError, ValueError, OSError) as e:
                got = repr(e).encode()
            if changing and (name in ("cmp", "diff", "sort", "sha256sum", "dd skip=1") or
                             "wc" in name or "git" in name):
                continue  # these open it twice
            fine = is_whole(path, got) if changing else got == reference
            if fine and not changing and os.stat(path).st_size != len(got):
                fine = False
            if not fine:
                wrong += 1
                print(f"{name}: {path}: {got[:200]!r} instead of {reference[:200]!r}")
    print(f"{tried} tools, {len(paths)} files, {wrong} wrong")
    sys.exit(wrong > 0 or tried < 15)


main()
