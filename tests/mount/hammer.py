# SPDX-License-Identifier: MIT
"""hammer.py PROGRAM INDEX SOURCE MOUNT READERS SNAPSHOTS - readers of a mount while snapshots land.

The tree alternates between two states whose totals are known for every directory. Each read of .usage/stat names
the snapshot that it belongs to, so each must have the totals of that snapshot's state; the other files must be
whole. Every read must come back, and only what was removed may be missing.
"""
import errno
import os
import random
import signal
import statistics
import subprocess
import sys
import time

PROGRAM, INDEX, SOURCE, MOUNT = sys.argv[1:5]
READERS, SNAPSHOTS = int(sys.argv[5]), int(sys.argv[6])
VIEW = MOUNT + SOURCE
NAMES = ("stat", "bytes", "summary", "top", "children", "files", "largest")
HANGS = 120  # seconds: no machine is loaded that much


def write(path, size):
    with open(path, "wb") as f:
        f.write(b"x" * size)


def build():
    for i in range(6):
        for j in range(6):
            os.makedirs(f"{SOURCE}/d{i}/e{j}/f")
            write(f"{SOURCE}/d{i}/e{j}/f/file", 1000 * (i + j))


def set_state(b):
    """State B has longer files in half of the directories, and one directory more in the others."""
    for i in range(6):
        for j in range(0, 6, 2):
            write(f"{SOURCE}/d{i}/e{j}/f/file", 1000 * (i + j) + (50000 if b else 0))
        extra = f"{SOURCE}/d{i}/e1/extra"
        if b:
            os.makedirs(extra)
            write(extra + "/file", 9000 * i)
        else:
            subprocess.run(["rm", "-rf", extra], check=True)


def totals():
    """path below SOURCE -> (bytes, files, dirs)"""
    table = {}
    for path, dirs, files in os.walk(SOURCE, topdown=False):
        size, n_files, n_dirs = os.lstat(path).st_blocks * 512, len(files), len(dirs)
        for name in files:
            size += os.lstat(os.path.join(path, name)).st_blocks * 512
        for name in dirs:
            below = table[os.path.join(path, name)[len(SOURCE):]]
            size, n_files, n_dirs = size + below[0], n_files + below[1], n_dirs + below[2]
        table[path[len(SOURCE):]] = size, n_files, n_dirs
    return table


def scan():
    said = subprocess.run([PROGRAM, "scan", "--index", INDEX, "--json", SOURCE], check=True, stdout=subprocess.PIPE)
    return int(said.stdout.split(b'"snapshot":')[1].split(b",")[0])


def look(path, name, out):
    start = time.monotonic()
    try:
        with open(f"{VIEW}{path}/.usage/{name}", "rb") as f:
            promised = os.fstat(f.fileno()).st_size
            text = f.read()
    except OSError as e:
        if e.errno not in (errno.ENOENT, errno.ESTALE) or "extra" not in path:
            out.write(f"error {path} {name} {e}\n")
        return
    if time.monotonic() - start > HANGS:
        out.write(f"error {path} {name} took {time.monotonic() - start:.1f} s\n")
    if promised != len(text) or (text and not text.endswith(b"\n")):
        out.write(f"error {path} {name} promised {promised}, is {text!r}\n")
    if name == "stat":
        lines = dict(line.split(" ") for line in text.decode().splitlines())
        out.write(f"stat {path or '/'} {lines['snapshot']} {lines['bytes']} {lines['files']} {lines['dirs']}\n")


def reader(number, paths, out_path, stop_path, parent):
    random.seed(number)
    with open(out_path, "w") as out:
        while not os.path.exists(stop_path) and os.getppid() == parent:
            for _ in range(20):
                look(random.choice(paths), random.choice(NAMES), out)
                if random.random() < 0.1:
                    time.sleep(0.01)
        out.write("end\n")
    os._exit(0)


def wait_until_shown(snapshot):
    end = time.monotonic() + HANGS
    while time.monotonic() < end:
        with open(VIEW + "/.usage/stat") as f:
            if int(dict(line.split(" ") for line in f.read().splitlines())["snapshot"]) >= snapshot:
                return
        time.sleep(0.02)
    sys.exit(f"snapshot {snapshot} is not shown")


def memory_kb():
    """Resident, and how much of it is not in the caches, which fill up to their limits."""
    with open(MOUNT + "/.telemetry/mount") as f:
        lines = dict(line.split(" ") for line in f.read().splitlines())
    resident = int(lines["resident_kb"])
    return resident, resident - (int(lines["node_cache_bytes"]) + int(lines["text_cache_bytes"])) // 1024


def end_children(children):
    end = time.monotonic() + 20
    while children and time.monotonic() < end:
        children = [pid for pid in children if os.waitpid(pid, os.WNOHANG) == (0, 0)]
        time.sleep(0.05)
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def verify(outs, state_of, states):
    n, snapshots, wrong = 0, set(), []
    for path in outs:
        with open(path) as f:
            lines = f.read().splitlines()
        if not lines or lines[-1] != "end":
            wrong.append("a reader did not end")
        for line in lines:
            word, *rest = line.split(" ")
            if word == "error":
                wrong.append(line)
            elif word == "stat":
                where, snapshot, *numbers = rest
                n += 1
                snapshots.add(int(snapshot))
                want = states[state_of[int(snapshot)]].get("" if where == "/" else where)
                if tuple(map(int, numbers)) != want:
                    wrong.append(f"{line}: expected {want}")
    print(f"{n} reads of stat in {len(snapshots)} snapshots, {len(wrong)} wrong", *wrong[:5], sep="\n")
    return not wrong and n > 1000 and len(snapshots) > SNAPSHOTS // 3


def main():
    if len(sys.argv) > 7:  # only the first snapshot
        build()
        set_state(False)
        scan()
        return
    states, state_of = {}, {}
    set_state(True)
    states[True] = totals()
    set_state(False)
    states[False] = totals()
    paths = sorted(set(states[True]) | set(states[False]))
    state_of[scan()] = False
    state_of.update({i: False for i in range(1, min(state_of) + 1)})
    scratch = os.path.dirname(MOUNT)
    outs, stop, children, parent = [], scratch + "/stop", [], os.getpid()
    for i in range(READERS):
        outs.append(f"{scratch}/reader{i}")
        pid = os.fork()
        if pid == 0:
            reader(i, paths, outs[-1], stop, parent)
        children.append(pid)
    memory = []
    try:
        for i in range(1, SNAPSHOTS + 1):
            set_state(i % 2 == 1)
            snapshot = scan()
            state_of[snapshot] = i % 2 == 1
            wait_until_shown(snapshot)
            time.sleep(0.02)
            memory.append(memory_kb())
    finally:
        write(stop, 0)
        end_children(children)
    fine = verify(outs, state_of, states)
    # Medians, as threads that libfuse starts and ends come with a megabyte each.
    quarters = [memory[len(memory) * i // 4 : len(memory) * (i + 1) // 4] for i in (1, 3)]
    early, late = (statistics.median(besides for _, besides in quarter) for quarter in quarters)
    print("resident, kB:", *(resident for resident, _ in memory[::max(1, len(memory) // 10)]), memory[-1][0])
    print(f"besides the caches, kB: {early}, {late}")
    # Half of the snapshots lie between the two; the list of all takes a quarter of a KB for each. Few snapshots
    # say nothing: what a loaded machine leaves half done is more than they take.
    if SNAPSHOTS >= 400 and not os.environ.get("SANITIZED") and late > early + 1500 + SNAPSHOTS:
        print("the memory grows")
        fine = False
    sys.exit(not fine)


main()
