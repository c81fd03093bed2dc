#!/usr/bin/env python3
"""Prints the files below a folder that hold one of some words; holes of sparse files are passed over."""
import os
import stat
import sys

PIECE = 8 << 20


def holds(path, words):
    longest = max(map(len, words))
    with open(path, 'rb', buffering=0) as file:
        at = 0
        while True:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
                end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            except OSError:
                return False
            while at < end:
                piece = os.pread(file.fileno(), min(PIECE, end - at + longest), at)
                if not piece:
                    return False
                if any(word in piece for word in words):
                    return True
                at += max(len(piece) - longest, 1) if at + len(piece) < end else len(piece)


def main():
    folder, *words = sys.argv[1:]
    words = [word.encode() for word in words]
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if stat.S_ISREG(os.lstat(path).st_mode) and holds(path, words):
                print(path)


main()
