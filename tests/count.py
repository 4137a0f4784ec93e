#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""count.py TESTLOG.JSON - says what each test of a meson run came to; the last line is "= PASSED FAILED SKIPPED".

A cmocka program or a TAP script counts once per test in it, anything else once. A program that meson calls failed
although every test in it passed (a crash, a leak, a time-out) is one failure more.
"""
import json
import re
import sys

CMOCKA = re.compile(r"^\[ *(OK|FAILED|SKIPPED) *\] (?!\d+ test\(s\))(.*)$", re.M)
TAP = re.compile(r"^(ok|not ok)\b *\d*[ -]*(.*)$", re.M)
TAP_PLAN = re.compile(r"^1\.\.\d+", re.M)
WORDS = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
MESON = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}


def parts(stdout):
    """(result, name) of each test that the output tells apart."""
    if TAP_PLAN.search(stdout):
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


def main(path):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    with open(path, encoding="utf-8", errors="replace") as log:
        tests = [json.loads(line) for line in log if line.strip()]
    for test in sorted(tests, key=lambda t: t["name"]):
        for result, name in outcomes(test):
            counts[result] += 1
            print(f"{result:7} {name}")
    print("=", *counts.values())


main(sys.argv[1])
