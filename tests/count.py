#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""count.py TESTLOG.JSON WHY - says what each test of a meson run came to; the last line is "= PASSED FAILED SKIPPED".

A cmocka program or a TAP script counts once per test in it, anything else once. A program that meson calls failed
although every test in it passed (a crash, a leak, a time-out) is one failure more. What each failed program said
is added to the file WHY.
"""
import json
import re
import sys

CMOCKA = re.compile(r"^\[ *(OK|FAILED|SKIPPED) *\] (?!\d+ test\(s\))(.*)$", re.M)
TAP = re.compile(r"^(ok|not ok)\b *\d*[ -]*(.*)$", re.M)
TAP_LINE = re.compile(r"^(1\.\.\d+|(not )?ok \d+ - )", re.M)
WORDS = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
MESON = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}


def parts(stdout):
    """(result, name) of each test that the output tells apart."""
    if TAP_LINE.search(stdout): # not only the plan: a script that was ended has none
        for verdict, name in TAP.findall(stdout):
            if re.search(r"#\s*skip", name, re.I):
                yield "skipped", re.sub(r"#\s*skip\S*\s*", "", name, flags=re.I)
            else:
                yield "passed" if verdict == "ok" else "failed", name
        return
    for verdict, name in CMOCKA.findall(stdout):
        yield WORDS[verdict], name


def outcomes(test):
    name = test["name"].split(" / ")[-1]
    result = MESON.get(test["result"], "failed")
    found = [(r, f"{name}: {what}") for r, what in parts(test.get("stdout", ""))]
    if not found or (result == "failed" and not any(r == "failed" for r, _ in found)):
        found.append((result, name if result != "failed" else f"{name} ({test['result'].lower()})"))
    return found


def reasons(test):
    """What a person needs of a failed program: the lines around its failures, and its last ones."""
    lines = (test.get("stdout", "") + test.get("stderr", "")).splitlines()
    near = {n + i for n, line in enumerate(lines) for i in range(13)
            if re.match(r"not ok|\[ *(FAILED|ERROR)|.*(Sanitizer|runtime error)", line)}
    near.update(range(len(lines) - 12, len(lines)))
    kept = [line[:300] for n, line in enumerate(lines) if n in near]
    head = f"---- {test['name']}: {test['result'].lower()}, status {test.get('returncode')}, {test['duration']:.0f} s"
    return [head, *kept[:60]]


def main(path, why):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with open(path, encoding="utf-8", errors="replace") as log:
        tests = [json.loads(line) for line in log if line.strip()]
    for test in sorted(tests, key=lambda t: t["name"]):
        found = outcomes(test)
        for result, name in found:
            counts[result] += 1
            print(f"{result:7} {name}")
        if any(result == "failed" for result, _ in found):
            with open(why, "a", encoding="utf-8") as out:
                print(*reasons(test), sep="\n", file=out)
    print("=", *counts.values())


main(*sys.argv[1:])
