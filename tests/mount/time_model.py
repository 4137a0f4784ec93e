# SPDX-License-Identifier: MIT
"""
A model of time, and what the program says compared with it.

    time_model.py trees PROGRAM FOLDER TREES SNAPSHOTS SEED     random trees: diff, history, growth, at, .growth
    time_model.py roots PROGRAM FOLDER ROUNDS SEED              several roots, and the directories above them
    time_model.py prune PROGRAM FOLDER POLICIES SEED            rules of prune
    time_model.py kill PROGRAM FOLDER ROUNDS SEED               kill -9 while scanning and while pruning

The model only knows lstat: a moment is a dictionary of directories, each with its entries. Everything else, sums
with hard links counted once, differences, windows of time, is worked out from it the slow way. Prints a line
"compared TOPIC N" per topic and a line "wrong TOPIC: what" per difference; fails if there was one.
"""

import calendar, collections, ctypes, json, os, random, shutil, signal, sqlite3, stat, subprocess, sys, time

HOUR, DAY = 3600, 86400
WINDOWS = {"1h": HOUR, "1d": DAY, "7d": 7 * DAY, "30d": 30 * DAY, "365d": 365 * DAY}
Totals = collections.namedtuple("Totals", "bytes apparent files entries")
NOTHING = Totals(0, 0, 0, 0)

compared = collections.Counter()
wrong = []


def expect(topic, what, got, want):
    compared[topic] += 1
    if got != want:
        wrong.append(topic)
        print(f"wrong {topic}: {what}\n    got  {got!r}\n    want {want!r}"[:3000])
        if len(wrong) > 40:
            raise SystemExit("too much is wrong")


def subtract(a, b):
    return Totals(*(x - y for x, y in zip(a, b)))


# -- moments --------------------------------------------------------------------------------------


def kind_of(mode):
    return stat.S_IFMT(mode)


class Moment:
    """What a tree looked like: directories by relative path, b"" for the root."""

    def __init__(self, root):
        self.root, self.id, self.time = root, 0, 0
        self.dirs, self.own = {}, {}
        todo = [b""]
        while todo:
            path = todo.pop()
            full = os.path.join(root, path) if path else root
            self.own[path] = self.attributes(os.lstat(full))
            self.dirs[path] = entries = {}
            for name in sorted(os.listdir(full)):
                entries[name] = self.attributes(os.lstat(os.path.join(full, name)))
                if stat.S_ISDIR(entries[name][0]):
                    todo.append(path + b"/" + name if path else name)
        self.sums, self.looks = {}, {}
        self.plain = {}  # without files that have several names
        self.work_out()

    @staticmethod
    def attributes(st):
        linked = st.st_nlink > 1 and not stat.S_ISDIR(st.st_mode)
        size = 0 if stat.S_ISDIR(st.st_mode) else st.st_size
        return (st.st_mode, size, st.st_blocks, int(st.st_mtime // 1), st.st_uid, st.st_gid,
                (st.st_ino, st.st_nlink) if linked else None)

    def children(self, path):
        return [n for n, a in self.dirs[path].items() if stat.S_ISDIR(a[0])]

    @staticmethod
    def join(path, name):
        return path + b"/" + name if path and name else path or name

    def work_out(self):
        inodes = {}
        for path in sorted(self.dirs, key=lambda p: -p.count(b"/") - bool(p)):
            size, apparent, files, n, names = self.own[path][2] * 512, 0, 0, 0, collections.Counter()
            known = {}
            for name, a in self.dirs[path].items():
                n += 1
                if stat.S_ISDIR(a[0]):
                    below = self.join(path, name)
                    s, (m, k) = self.sums[below], inodes[below]
                    size += self.plain[below][0]
                    apparent += self.plain[below][1]
                    files += s.files
                    n += s.entries
                    names.update(m)
                    known.update(k)
                else:
                    files += stat.S_ISREG(a[0])
                    if a[6]:
                        names[a[6][0]] += 1
                        known[a[6][0]] = (a[2] * 512, a[1], a[6][1])
                    else:
                        size += a[2] * 512
                        apparent += a[1]
            self.plain[path] = (size, apparent)
            inodes[path] = (names, known)
            size += sum(b for b, _, _ in known.values())
            apparent += sum(s for _, s, _ in known.values())
            shared = sum(b for i, (b, _, links) in known.items() if names[i] < links)
            self.sums[path] = Totals(size, apparent, files, n)
            look = [self.own[path], shared]
            for name, a in self.dirs[path].items():
                look.append((name, self.looks[self.join(path, name)] if stat.S_ISDIR(a[0]) else a))
            self.looks[path] = hash(repr(look))

    def total(self, path):
        return self.sums.get(path, NOTHING)


def difference(a, b, path=b"", found=None, rel=b""):
    """Own parts: what the sub-directories do not explain. a or b may lack the path, or be None."""
    found = [] if found is None else found
    in_a, in_b = a is not None and path in a.dirs, b is not None and path in b.dirs
    ta, tb = a.total(path) if in_a else NOTHING, b.total(path) if in_b else NOTHING
    own = subtract(tb, ta)
    if in_a and in_b:
        for name in sorted(set(a.children(path)) | set(b.children(path))):
            below, shown = Moment.join(path, name), Moment.join(rel, name)
            if below in a.dirs and below in b.dirs:
                own = subtract(own, subtract(b.total(below), a.total(below)))
                difference(a, b, below, found, shown)
            else:
                sign = 1 if below in b.dirs else -1
                t = b.total(below) if sign > 0 else a.total(below)
                change = Totals(*(sign * x for x in t[:3]), sign * (t.entries + 1))
                own = subtract(own, change)
                found.append((change, shown, "created" if sign > 0 else "deleted"))
        kind = "changed"
    else:
        kind = "created" if in_b else "deleted"
    found.append((own, rel, kind))
    return sorted((f for f in found if any(f[0])), key=lambda f: (-f[0].bytes, f[1]))


def escaped(raw):
    out = []
    for c in raw.decode("utf-8", "surrogateescape"):
        n = ord(c)
        if 0xDC80 <= n <= 0xDCFF:
            out.append(f"\\{n - 0xDC00:03o}")
        elif n < 0x21 or n == 0x7F or c == "\\":
            out.append(f"\\{n:03o}")
        else:
            out.append(c)
    return "".join(out)


def lines_of(changes, prefix=b""):
    return "".join(f"{c.bytes:+d}\t{escaped(Moment.join(prefix, p) or b'.')}\n" for c, p, _ in changes if c.bytes)


def window_start(moments, shown, seconds):
    """The newest at least as old as the window, counted back from the one that is shown; else the oldest."""
    before = [m for m in moments if m.id < shown.id and m.time <= shown.time - seconds]
    return before[-1] if before else moments[0]


def history_of(moments, shown, path):
    out, last = [], None
    for m in moments:
        if m.id > shown.id:
            break
        look = m.looks.get(path)
        if look != last:
            t = m.total(path)
            out.append(f"{m.time}\t{t.bytes}\t{t.files}\t{m.id}\n")
        last = look
    return "".join(out)


# -- trees that change ----------------------------------------------------------------------------

NAMES = [b"a", b"b", b"deep", b"with space", b"line\nbreak", b"\xff\xfe", b"back\\slash", "ä".encode(), b"tab\t", b"-x"]


class Tree:
    def __init__(self, root, seed):
        self.root, self.random = root, random.Random(seed)
        os.makedirs(root, exist_ok=True)
        for _ in range(70):
            self.act(grow=True)

    def some_dir(self):
        path = self.root
        while self.random.random() < 0.7:
            below = [e for e in sorted(os.listdir(path)) if os.path.isdir(os.path.join(path, e))
                     and not os.path.islink(os.path.join(path, e))]
            if not below:
                break
            path = os.path.join(path, self.random.choice(below))
        return path

    def some_name(self):
        return self.random.choice(NAMES) + (b"%d" % self.random.randrange(4))

    def some_entry(self):
        path = self.some_dir()
        names = sorted(os.listdir(path))
        return os.path.join(path, self.random.choice(names)) if names else os.path.join(path, b"none")

    def new_path(self):
        return os.path.join(self.some_dir(), self.some_name())

    def act(self, grow=False):
        r = self.random
        actions = [self.file, self.file, self.directory, self.link]
        if not grow:
            actions += [self.append, self.append, self.shrink, self.remove, self.remove_tree, self.move, self.move,
                        self.mode, self.touch, self.symlink, self.link, self.replace]
        try:
            r.choice(actions)()
        except OSError:
            pass

    def file(self):
        with open(self.new_path(), "wb") as f:
            f.write(b"x" * self.random.choice([0, 1, 4096, self.random.randrange(60000)]))

    def directory(self):
        os.mkdir(self.new_path())

    def link(self):
        entry = self.some_entry()
        if stat.S_ISREG(os.lstat(entry).st_mode):
            os.link(entry, self.new_path())

    def append(self):
        entry = self.some_entry()
        if stat.S_ISREG(os.lstat(entry).st_mode):
            with open(entry, "ab") as f:
                f.write(b"y" * self.random.choice([1, 9000]))

    def shrink(self):
        entry = self.some_entry()
        if stat.S_ISREG(os.lstat(entry).st_mode):
            os.truncate(entry, self.random.randrange(100))

    def remove(self):
        os.unlink(self.some_entry())

    def remove_tree(self):
        path = self.some_dir()
        if path != self.root:
            shutil.rmtree(path)

    def move(self):
        os.rename(self.some_entry(), self.new_path())

    def mode(self):
        os.chmod(self.some_entry(), 0o700 | self.random.randrange(64))

    def touch(self):
        os.utime(self.some_entry(), (1, self.random.randrange(10**9)))

    def symlink(self):
        os.symlink(b"elsewhere", self.new_path())

    def replace(self):
        """A directory becomes a file, or a file a directory."""
        entry = self.some_entry()
        if os.path.isdir(entry) and not os.path.islink(entry):
            shutil.rmtree(entry)
            with open(entry, "wb") as f:
                f.write(b"z" * 20000)
        else:
            os.unlink(entry)
            os.mkdir(entry)


# -- the program ----------------------------------------------------------------------------------


class Program:
    def __init__(self, path, folder):
        self.path, self.index, self.mnt = path, os.path.join(folder, "index.db"), os.path.join(folder, "mnt")
        os.makedirs(self.mnt, exist_ok=True)

    def run(self, command, *args, status=0):
        p = subprocess.run([self.path, command, "--index", self.index, *args], capture_output=True, timeout=60)
        if p.returncode != status:
            raise SystemExit(f"{command} {args}: status {p.returncode}\n{p.stdout!r}\n{p.stderr!r}")
        return p.stdout.decode()

    def scan(self, root, *args):
        """A scan, and the moment it saw: walked before and after, as blocks may be given late."""
        for _ in range(20):
            before = Moment(root)
            said = json.loads(self.run("scan", "--json", *args, os.fsdecode(root)))
            if Moment(root).looks == before.looks:
                before.id, before.time = said["snapshot"], said["time"]
                return before
            self.sql("DELETE FROM snapshot WHERE id=?", said["snapshot"])
            time.sleep(0.3)
        raise SystemExit("the tree does not keep still")

    def sql(self, text, *values):
        with sqlite3.connect(self.index) as db:
            rows = db.execute(text, values).fetchall()
        db.close()
        if not rows:
            subprocess.run([os.environ["SEAL"], self.index], check=True)
        return rows

    def set_times(self, moments, rng, now):
        """Days pass: gaps from minutes to more than a year, the newest one now."""
        t = now
        for m in reversed(moments):
            m.time = t
            self.sql("UPDATE snapshot SET time=? WHERE id=?", t, m.id)
            t -= rng.choice([600, HOUR, 2 * HOUR, 20 * HOUR, DAY, 36 * HOUR, 7 * DAY, 9 * DAY, 31 * DAY, 370 * DAY])

    def mount(self):
        self.daemon = subprocess.Popen([self.path, "mount", "-f", "--index", self.index, self.mnt])
        end = time.time() + 20
        while not os.path.ismount(self.mnt) or not os.path.exists(self.mnt + "/.usage"):
            if time.time() > end or self.daemon.poll() is not None:
                raise SystemExit("no mount")
            time.sleep(0.01)

    def forget(self):
        """A remount makes the kernel forget all directories, and numbers are given again."""
        libc = ctypes.CDLL(None, use_errno=True)
        ro_nosuid_nodev_remount = 1 | 2 | 4 | 32
        if os.getuid() == 0 and libc.mount(None, os.fsencode(self.mnt), None, ro_nosuid_nodev_remount, None) != 0:
            raise SystemExit("remount: " + os.strerror(ctypes.get_errno()))

    def unmount(self):
        self.daemon.terminate()
        try:
            if self.daemon.wait(20) != 0:
                raise SystemExit(f"the mount ended with status {self.daemon.returncode}")
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            raise SystemExit("the mount does not end")


def text(*parts):
    with open(os.path.join(*(os.fsencode(p) for p in parts)), "rb") as f:
        return f.read().decode()


def shown_tree(top):
    """What a mounted tree shows: for each directory its size, .usage/bytes and files, and its entries."""
    found, todo = {}, [b""]
    while todo:
        path = todo.pop()
        full = os.path.join(top, path) if path else top
        entries = {}
        for name in os.listdir(full):
            st = os.lstat(os.path.join(full, name))
            entries[name] = (kind_of(st.st_mode), None if stat.S_ISDIR(st.st_mode) else (st.st_size, st.st_blocks))
            if stat.S_ISDIR(st.st_mode):
                todo.append(Moment.join(path, name))
        found[path] = (os.lstat(full).st_size, text(full, ".usage/bytes"), text(full, ".usage/files"), entries)
    return found


def model_tree(m, below=b""):
    found = {}
    for path, entries in m.dirs.items():
        if path != below and below and not path.startswith(below + b"/"):
            continue
        t = m.total(path)
        rel = path[len(below):].lstrip(b"/")
        found[rel] = (t.bytes, f"{t.bytes}\n", f"{t.files}\n",
                      {n: (kind_of(a[0]), None if stat.S_ISDIR(a[0]) else (a[1], a[2])) for n, a in entries.items()})
    return found


# -- growth as a tree -----------------------------------------------------------------------------


def model_growth(a, b, path=b"", found=None):
    """Changed names only; a name that is of another kind now counts as new."""
    found = {} if found is None else found
    in_a, in_b = path in a.dirs, path in b.dirs
    delta = b.total(path).bytes - a.total(path).bytes
    entries = {}
    for name in set(a.dirs.get(path, ())) | set(b.dirs.get(path, ())):
        ea, eb = a.dirs.get(path, {}).get(name), b.dirs.get(path, {}).get(name)
        below = Moment.join(path, name)
        if a.looks.get(below, ea) == b.looks.get(below, eb):
            continue
        is_dir = stat.S_ISDIR((eb or ea)[0])
        if is_dir:
            entries[name] = (True, max(0, b.total(below).bytes - a.total(below).bytes))
            model_growth(a, b, below, found)
        else:
            old = ea[2] * 512 if ea and not stat.S_ISDIR(ea[0]) else 0
            entries[name] = (False, max(0, (eb[2] * 512 if eb else 0) - old))
    found[path] = (max(0, delta), f"{delta}\n", entries)
    return found


def shown_growth(top):
    found, todo = {}, [b""]
    while todo:
        path = todo.pop()
        full = os.path.join(top, path) if path else top
        entries = {}
        for name in os.listdir(full):
            st = os.lstat(os.path.join(full, name))
            entries[name] = (stat.S_ISDIR(st.st_mode), st.st_size)
            if stat.S_ISDIR(st.st_mode):
                todo.append(Moment.join(path, name))
        found[path] = (os.lstat(full).st_size, text(full, ".usage/delta"), entries)
    return found


def compare_growth_tree(p, root, moments, what):
    now = moments[-1]
    for name, seconds in WINDOWS.items():
        then = window_start(moments, now, seconds)
        top = os.path.join(os.fsencode(p.mnt), b".growth", name.encode(), root.lstrip(b"/"))
        if then.looks[b""] == now.looks[b""]:
            expect(".growth", f"{what} {name}: nothing changed", os.path.exists(top), False)
            continue
        if not os.path.isdir(top):
            expect(".growth", f"{what} {name}", "nothing there", "a tree")
            continue
        shown, want = shown_growth(top), model_growth(then, now)
        for path in sorted(set(shown) | set(want)):
            expect(".growth", f"{what} {name} {path}", shown.get(path), want.get(path))
        said = subprocess.run(["ls", "-S", "--zero", top], capture_output=True).stdout.split(b"\0")[:-1]
        sizes = [want[b""][2][n][1] for n in said if n in want[b""][2]]
        expect("ls -S", f"{what} {name}", sizes, sorted((e[1] for e in want[b""][2].values()), reverse=True))


# -- comparisons ----------------------------------------------------------------------------------


def compare_diff(p, root, a, b, path, what):
    want = difference(a, b, path)
    args = [str(a.id), str(b.id)] + ([os.fsdecode(os.path.join(root, path))] if path else [])
    got = p.run("diff", *args)
    expect("diff", f"{what} {args}", got, lines_of(want))
    found = [json.loads(line) for line in p.run("diff", "--json", *args).splitlines()]
    got = [(Totals(*(o[k] for k in Totals._fields)), bytes.fromhex(o["path_hex"]) if "path_hex" in o
            else o["path"].encode() if o["path"] != "." else b"", o["kind"]) for o in found]
    expect("diff", f"{what} --json {args}", got, want)
    total = subtract(b.total(path), a.total(path))
    expect("diff", f"{what} adds up {args}", sum(g[0].bytes for g in got), total.bytes)


def compare_texts(dir_shown, moments, shown, path, what):
    expect("history", f"{what} {path} of {shown.id}", text(dir_shown, ".usage/history"), history_of(moments, shown, path))
    for name, seconds in WINDOWS.items():
        then = window_start(moments, shown, seconds)
        want = lines_of(difference(then, shown, path))
        expect("growth", f"{what} {path} {name} of {shown.id}", text(dir_shown, ".usage/growth", name), want)


def compare_tree(top, want, topic, what):
    shown = shown_tree(top)
    for path in sorted(set(shown) | set(want)):
        expect(topic, f"{what} {path}", shown.get(path), want.get(path))


def utc(t, form="%Y-%m-%dT%H:%M:%SZ"):
    return time.strftime(form, time.gmtime(t))


def compare_words(view, moments, rng, what):
    """Times, dates and prev name the right snapshot."""
    now = moments[-1]
    for m in moments:
        words = [utc(m.time), utc(m.time + rng.randrange(500)), utc(m.time, "%Y-%m-%d"), utc(m.time, "%Y-%m-%dT%H:%MZ")]
        for word in words:
            limit = calendar.timegm(time.strptime(word[:10], "%Y-%m-%d")) + DAY - 1 if len(word) == 10 else None
            if limit is None:
                form = "%Y-%m-%dT%H:%M:%SZ" if len(word) == 20 else "%Y-%m-%dT%H:%MZ"
                limit = calendar.timegm(time.strptime(word, form))
            fit = [x for x in moments if x.time <= limit]
            at = os.path.join(view, b".usage/at", word.encode())
            if fit:
                expect("at", f"{what} at/{word}", (text(at, ".usage/bytes"), text(at, ".usage/stat").split("snapshot ")[1].split()[0]),
                       (f"{fit[-1].total(b'').bytes}\n", str(fit[-1].id)))
            else:
                expect("at", f"{what} at/{word}", os.path.exists(at), False)
    at = os.path.join(view, b".usage/at")
    expect("at", f"{what} at/prev", text(at, "prev/.usage/stat").split("snapshot ")[1].split()[0], str(moments[-2].id))
    expect("at", f"{what} at/prev/prev", text(at, "prev/.usage/at/prev/.usage/stat").split("snapshot ")[1].split()[0],
           str(moments[-3].id))
    for nothing in ["0", str(now.id + 1), "1969-01-01", "yesterday", "2026-13-01", utc(moments[0].time - 1)]:
        expect("at", f"{what} at/{nothing}", os.path.exists(os.path.join(at, nothing.encode())), False)


def compare_nested(view, moments, rng, what):
    """The past has a past, and so on."""
    for _ in range(4):
        way = [rng.choice(moments) for _ in range(3)]
        way.insert(rng.randrange(3), way[0])
        path = rng.choice(sorted(way[-1].dirs))
        at = os.path.join(view, *(b".usage/at/%d" % m.id for m in way), path)
        compare_texts(at, moments, way[-1], path, f"{what} {[m.id for m in way]}")


def one_tree(program, folder, seed, n_snapshots):
    rng = random.Random(seed)
    root = os.fsencode(os.path.join(folder, "tree"))
    p = Program(program, folder)
    tree, moments = Tree(root, seed), []
    for _ in range(n_snapshots):
        for _ in range(rng.choice([0, 1, 6, 15])):
            tree.act()
        moments.append(p.scan(root))
    p.set_times(moments, rng, int(time.time()))
    what, now = f"seed {seed}", moments[-1]
    paths = sorted(set().union(*(m.dirs for m in moments)) - {b""})
    for a, b in [(0, -1), (-2, -1), (-1, 0), (rng.randrange(n_snapshots), rng.randrange(n_snapshots))]:
        compare_diff(p, root, moments[a], moments[b], b"", what)
    for path in rng.sample(paths, min(2, len(paths))):
        a, b = moments[0], now
        if path in a.dirs or path in b.dirs:
            compare_diff(p, root, a, b, path, what)
    p.mount()
    try:
        view = os.path.join(os.fsencode(p.mnt), root.lstrip(b"/"))
        compare_tree(view, model_tree(now), "now", what)
        here = [b""] + rng.sample(sorted(now.dirs), min(8, len(now.dirs)))
        for path in here:
            compare_texts(os.path.join(view, path), moments, now, path, what)
        for m in moments:
            at = os.path.join(view, b".usage/at", b"%d" % m.id)
            compare_tree(at, model_tree(m), "at", f"{what} at/{m.id}")
            for path in rng.sample(sorted(m.dirs), min(2, len(m.dirs))):
                compare_texts(os.path.join(at, path), moments, m, path, f"{what} in at/{m.id}")
            for path in here[1:3]:
                below = os.path.join(view, path, b".usage/at", b"%d" % m.id)
                if path in m.dirs:
                    compare_tree(below, model_tree(m, path), "at", f"{what} {path} at/{m.id}")
                else:
                    expect("at", f"{what} {path} at/{m.id}", os.path.exists(below), False)
        for _ in range(2):
            p.forget()
            rng.shuffle(here)
            for path in here:
                compare_texts(os.path.join(view, path), moments, now, path, f"{what} forgotten")
        compare_words(view, moments, rng, what)
        compare_nested(view, moments, rng, what)
        compare_growth_tree(p, root, moments, what)
    finally:
        p.unmount()


def trees(program, folder, n_trees, n_snapshots, seed):
    for i in range(n_trees):
        inside = os.path.join(folder, f"t{i}")
        os.mkdir(inside)
        one_tree(program, inside, seed + i, n_snapshots)
        shutil.rmtree(inside)


# -- several roots --------------------------------------------------------------------------------


def newest_until(by_root, id):
    return {r: [m for m in ms if m.id <= id][-1] for r, ms in by_root.items() if any(m.id <= id for m in ms)}


def compare_above(p, by_root, everything, dir_path, id, shown, what):
    """A directory above roots: dir_path is its own, shown the one that is looked at, as of snapshot id."""
    then = {r: m for r, m in newest_until(by_root, id).items() if (r + b"/").startswith(dir_path.rstrip(b"/") + b"/")}
    sums = sum(m.total(b"").bytes for m in then.values()), sum(m.total(b"").files for m in then.values())
    expect("above roots", f"{what} bytes, files", (text(shown, ".usage/bytes"), text(shown, ".usage/files")),
           tuple(f"{s}\n" for s in sums))
    expect("above roots", f"{what} st_size", os.lstat(shown).st_size, sums[0])
    lines, last = [], {}
    for m in everything:
        if m.id > id or m.root not in then:
            continue
        if last.get(m.root, (None,))[0] != m.looks[b""]:
            last[m.root] = (m.looks[b""], m)
            newest = newest_until({r: by_root[r] for r in then}, m.id).values()
            lines.append(f"{m.time}\t{sum(x.total(b'').bytes for x in newest)}\t{sum(x.total(b'').files for x in newest)}\t{m.id}\n")
    expect("above roots", f"{what} history", text(shown, ".usage/history"), "".join(lines))
    for name, seconds in WINDOWS.items():
        want = []
        for r, m in then.items():
            prefix = r[len(dir_path.rstrip(b"/")) + 1:]
            want += lines_of(difference(window_start(by_root[r], m, seconds), m), prefix).splitlines()
        expect("above roots", f"{what} growth/{name}", sorted(text(shown, ".usage/growth", name).splitlines()), sorted(want))


def one_family(program, folder, seed):
    rng = random.Random(seed)
    top = os.fsencode(os.path.join(folder, "roots"))
    roots = [os.path.join(top, x) for x in (b"a", b"b/c", b"b/d", b"b.c")]
    family = {r: Tree(r, seed + i) for i, r in enumerate(roots)}
    p = Program(program, folder)
    everything = []
    for i in range(12):
        r = roots[i] if i < len(roots) else rng.choice(roots)
        for _ in range(rng.choice([0, 3, 10])):
            family[r].act()
        everything.append(p.scan(r))
    p.set_times(everything, rng, int(time.time()))
    by_root = {r: [m for m in everything if m.root == r] for r in roots}
    mnt, last = os.fsencode(p.mnt), everything[-1].id
    p.mount()
    try:
        for dir_path in (b"/", top, top + b"/b"):
            shown = os.path.join(mnt, dir_path.lstrip(b"/"))
            compare_above(p, by_root, everything, dir_path, last, shown, f"seed {seed} {dir_path}")
            for m in everything if dir_path == top else rng.sample(everything, 3):
                at = os.path.join(shown, b".usage/at", b"%d" % m.id)
                if not any((r + b"/").startswith(dir_path.rstrip(b"/") + b"/") for r in newest_until(by_root, m.id)):
                    expect("above roots", f"{at}", os.path.exists(at), False)
                    continue
                compare_above(p, by_root, everything, dir_path, m.id, at, f"seed {seed} {dir_path} at/{m.id}")
                for r, seen in newest_until(by_root, m.id).items():
                    if not (r + b"/").startswith(dir_path.rstrip(b"/") + b"/"):
                        continue
                    inside = os.path.join(at, r[len(dir_path.rstrip(b"/")) + 1:])
                    compare_tree(inside, model_tree(seen), "at above roots", f"seed {seed} {dir_path} at/{m.id} {r}")
                    for path in [b""] + rng.sample(sorted(seen.dirs), 1):
                        compare_texts(os.path.join(inside, path), by_root[r], seen, path, f"seed {seed} {dir_path} at/{m.id}{r}")
                    expect("at above roots", f"seed {seed} {dir_path} at/{m.id} {r} stat",
                           text(inside, ".usage/stat").split("snapshot ")[1].split()[0], str(seen.id))
        for r in roots:
            view = os.path.join(mnt, r.lstrip(b"/"))
            compare_texts(view, by_root[r], by_root[r][-1], b"", f"seed {seed} {r}")
            for m in everything: # a snapshot of another root is not this one's past
                at = os.path.join(view, b".usage/at", b"%d" % m.id)
                expect("at above roots", f"{at}", os.path.exists(at), m.root == r)
            if len(by_root[r]) > 1:
                compare_growth_tree(p, r, by_root[r], f"seed {seed} {r}")
    finally:
        p.unmount()


def one_nest(program, folder, seed):
    """A root inside another root: what is above sums the outer one, and names each change once."""
    rng = random.Random(seed)
    top = os.fsencode(os.path.join(folder, "nest"))
    outer, inner, beside = (os.path.join(top, x) for x in (b"out", b"out/x/in", b"side"))
    family = {r: Tree(r, seed + i) for i, r in enumerate((outer, inner, beside))}
    p = Program(program, folder)
    everything = []
    for r in [outer, inner, beside, inner, outer, beside, inner, outer]:
        for _ in range(6):
            family[r].act()
        os.makedirs(inner, exist_ok=True)
        everything.append(p.scan(r))
    p.set_times(everything, rng, int(time.time()))
    by_root = {r: [m for m in everything if m.root == r] for r in (outer, beside)}
    p.mount()
    try:
        mnt = os.fsencode(p.mnt)
        shown = os.path.join(mnt, top.lstrip(b"/"))
        outermost = [m for m in everything if m.root != inner]
        compare_above(p, by_root, outermost, top, everything[-1].id, shown, f"seed {seed} nest")
        compare_texts(os.path.join(mnt, outer.lstrip(b"/")), by_root[outer], by_root[outer][-1], b"", f"seed {seed} outer")
        mine = [m for m in everything if m.root == inner]
        at = os.path.join(mnt, inner.lstrip(b"/"), b".usage/at", b"%d" % mine[0].id)
        if os.path.exists(at):
            compare_tree(at, model_tree(mine[0]), "at", f"seed {seed} inner")
    finally:
        p.unmount()


def several_roots(program, folder, rounds, seed):
    for i in range(rounds):
        inside = os.path.join(folder, f"r{i}")
        os.mkdir(inside)
        one_family(program, inside, seed + i)
        one_nest(program, inside + "/n", seed + i)
        shutil.rmtree(inside)


# -- prune ----------------------------------------------------------------------------------------


def period(rule, t):
    when = time.gmtime(t)
    if rule == "daily":
        return time.strftime("%Y-%m-%d", when)
    if rule == "weekly":
        return time.strftime("%G-%V", when)
    return time.strftime("%Y-%m", when)


def kept_by(rules, older_than, snapshots, now):
    """snapshots: (id, root, time), oldest first. A rule keeps; older_than protects what is younger."""
    keep = set()
    for root in {s[1] for s in snapshots}:
        mine = [s for s in snapshots if s[1] == root][::-1]
        keep.add(mine[0][0])
        for rule, n in rules.items():
            if rule == "last":
                keep.update(s[0] for s in mine[:n])
                continue
            seen = []
            for s in mine:
                if period(rule, s[2]) not in seen and len(seen) < n:
                    seen.append(period(rule, s[2]))
                    keep.add(s[0])
    if older_than:
        keep.update(s[0] for s in snapshots if s[2] > now - older_than)
    return keep


def listed(p):
    return [json.loads(line) for line in p.run("list", "--json").splitlines()]


def make_years(p, folder, rng, n):
    roots = [os.fsencode(os.path.join(folder, x)) for x in ("one", "two")]
    family = [Tree(r, 7 + i) for i, r in enumerate(roots)]
    t = int(time.time()) - 500
    moments = []
    for i in range(n):
        which = 0 if i == 0 else rng.choice([0, 0, 1])
        for _ in range(rng.choice([0, 4, 8])):
            family[which].act()
        moments.append(p.scan(roots[which]))
    for m in reversed(moments):
        m.time = t
        p.sql("UPDATE snapshot SET time=? WHERE id=?", t, m.id)
        t -= rng.choice([1700, 5 * HOUR, 9 * HOUR, DAY, 3 * DAY, 8 * DAY, 40 * DAY])
    return moments


def content(path):
    with open(path, "rb") as f:
        return f.read()


def prune(program, folder, policies, seed):
    rng = random.Random(seed)
    p = Program(program, folder)
    moments = make_years(p, folder, rng, 40)
    all_listed = [(m.id, m.root, m.time) for m in moments]
    whole = content(p.index)
    for i in range(policies):
        rules = {r: rng.choice([1, 2, 3, 7, 30]) for r in ("last", "daily", "weekly", "monthly") if rng.random() < 0.45}
        older = rng.choice([0, 0, 4 * HOUR, 2 * DAY, 100 * DAY])
        if not rules and not older:
            rules = {"last": 5}
        args = [w for r, n in rules.items() for w in (f"--keep-{r}", str(n))]
        args += ["--older-than", f"{older // HOUR}h"] if older else []
        q = Program(program, folder)
        q.index = os.path.join(folder, "copy.db")
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(q.index + suffix):
                os.unlink(q.index + suffix)
        with open(q.index, "wb") as f:
            f.write(whole)
        keep = kept_by(rules, older, all_listed, time.time())
        gone = [s[0] for s in all_listed if s[0] not in keep]
        said = q.run("prune", "--dry-run", *args)
        want = "".join(f"would remove {x}\n" for x in gone) or "nothing to remove\n"
        expect("prune", f"{args} --dry-run", said, want)
        expect("prune", f"{args} --dry-run changes nothing", content(q.index) == whole, True)
        said = q.run("prune", *args)
        expect("prune", f"{args}", [x for x in said.splitlines() if x.startswith("removed")], [f"removed {x}" for x in gone])
        expect("prune", f"{args} keeps", [s["id"] for s in listed(q)], sorted(keep))
        expect("prune", f"{args} check", q.run("check").splitlines()[-1], "the index is sound")
        if len(gone) > 20:
            expect("prune", f"{args} shrinks", os.path.getsize(q.index) < len(whole), True)
        if i % 6 == 0:
            after_prune(q, moments, keep, f"{args}")


def after_prune(q, moments, keep, what):
    """What is left gives the numbers it gave."""
    q.mount()
    try:
        for m in moments:
            if m.id not in keep:
                continue
            mine = [x for x in moments if x.root == m.root and x.id in keep]
            at = os.path.join(os.fsencode(q.mnt), m.root.lstrip(b"/"), b".usage/at", b"%d" % m.id)
            compare_tree(at, model_tree(m), "prune", f"{what} at/{m.id}")
            compare_texts(at, mine, m, b"", f"{what} at/{m.id}")
    finally:
        q.unmount()


# -- kill -9 --------------------------------------------------------------------------------------


def kill_scans(p, tree, rounds, rng):
    acknowledged, killed = [m["id"] for m in listed(p)], 0
    start = time.time()
    p.run("scan", os.fsdecode(tree.root))
    took = max(time.time() - start, 0.005)
    acknowledged = [m["id"] for m in listed(p)]
    for i in range(rounds):
        for _ in range(10):
            tree.act()
        child = subprocess.Popen([p.path, "scan", "--json", "--index", p.index, *(["--cold"] if i % 5 == 0 else []),
                                  os.fsdecode(tree.root)], stdout=subprocess.PIPE)
        time.sleep(rng.random() * took * 1.5)
        child.kill()
        said = child.communicate()[0]
        killed += child.returncode == -signal.SIGKILL
        if said.endswith(b"}\n"):
            acknowledged.append(json.loads(said)["snapshot"])
        ids = [m["id"] for m in listed(p)]
        expect("kill scan", f"round {i}: acknowledged ones are there", [x for x in acknowledged if x not in ids], [])
        expect("kill scan", f"round {i}: check", p.run("check").splitlines()[-1], "the index is sound")
        acknowledged = ids
        if i % 5 == 4:
            seen = p.scan(tree.root)
            acknowledged.append(seen.id)
            expect("kill scan", f"round {i}: the next scan", listed(p)[-1]["bytes"], seen.total(b"").bytes)
    expect("kill scan", "some were killed in time", killed > rounds // 4, True)


def kill_prunes(p, tree, rounds, rng):
    for _ in range(60):
        for _ in range(6):
            tree.act()
        p.run("scan", os.fsdecode(tree.root))
    whole, killed, took = content(p.index), 0, None
    old = [m["id"] for m in listed(p)]
    for i in range(rounds):
        for suffix in ("-wal", "-shm"):
            if os.path.exists(p.index + suffix):
                os.unlink(p.index + suffix)
        with open(p.index, "wb") as f:
            f.write(whole)
        start = time.time()
        child = subprocess.Popen([p.path, "prune", "--index", p.index, "--keep-last", "5"], stdout=subprocess.PIPE)
        if took is not None:
            time.sleep(rng.random() * took * 1.2)
            child.kill()
        said = child.communicate()[0]
        took = took or time.time() - start
        killed += child.returncode == -signal.SIGKILL
        ids = [m["id"] for m in listed(p)]
        expect("kill prune", f"round {i}: all or nothing, and all once it says so",
               ids in ([old[-5:]] if b"given back" in said else [old, old[-5:]]), True)
        expect("kill prune", f"round {i}: check", p.run("check").splitlines()[-1], "the index is sound")
        if i % 10 == 9:
            p.run("prune", "--keep-last", "1")
            expect("kill prune", f"round {i}: prune works again", [m["id"] for m in listed(p)], old[-1:])
            seen = p.scan(tree.root)
            expect("kill prune", f"round {i}: the next scan", listed(p)[-1]["bytes"], seen.total(b"").bytes)
            expect("kill prune", f"round {i}: check", p.run("check").splitlines()[-1], "the index is sound")
    expect("kill prune", "some were killed in time", killed > rounds // 4, True)


def kill(program, folder, rounds, seed):
    rng = random.Random(seed)
    p = Program(program, folder)
    tree = Tree(os.fsencode(os.path.join(folder, "tree")), seed)
    for _ in range(300):
        tree.act(grow=True)
    p.run("scan", os.fsdecode(tree.root))
    kill_scans(p, tree, rounds, rng)
    kill_prunes(p, tree, rounds, rng)


def main():
    what, program, folder, *numbers = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    {"trees": trees, "roots": several_roots, "prune": prune, "kill": kill}[what](program, folder, *map(int, numbers))
    for topic, n in sorted(compared.items()):
        print(f"compared {topic} {n}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
