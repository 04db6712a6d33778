#!/usr/bin/env python3
"""Verifies an export with proofs (carillon audit export ID --proof) with nothing but Python's standard library.

usage: verify-export.py FILE [PUBLIC-KEY-IN-BASE64]

It exits with 1 if anything in the file was changed since it was signed, or an event is not in the tree of the head.
"""
import base64
import hashlib
import json
import struct
import sys
import uuid
from datetime import datetime, timezone

# Ed25519 verification, RFC 8032 section 5.1.7.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def add(a, b):
    """The sum of two points in extended coordinates."""
    e = (a[1] - a[0]) * (b[1] - b[0]) % P
    f = (a[1] + a[0]) * (b[1] + b[0]) % P
    g = 2 * a[3] * b[3] * D % P
    h = 2 * a[2] * b[2] % P
    return (f - e) * (h - g) % P, (h + g) * (f + e) % P, (h - g) * (h + g) % P, (f - e) * (f + e) % P


def multiply(scalar, point):
    total = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = add(total, point)
        point, scalar = add(point, point), scalar >> 1
    return total


def decompress(encoded):
    """The point of 32 bytes, or None."""
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if len(encoded) != 32 or y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


BASE = decompress((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def signed(key, text, signature):
    point, r = decompress(key), decompress(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if point is None or r is None or len(signature) != 64 or s >= L:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + text).digest(), "little") % L
    left, right = multiply(s, BASE), add(r, multiply(h, point))
    return (left[0] * right[2] - right[0] * left[2]) % P == 0 and (left[1] * right[2] - right[1] * left[2]) % P == 0


# The tree, RFC 9162 section 2.1.3.2.
def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def decode(text):
    return base64.b64decode(text, validate=True)


def leaf(event):
    """The leaf hash of an event: its stored bytes, each text after its length."""
    def text(value):
        return struct.pack(">I", len(value)) + value

    return sha256(b"\0", text(event["stream"].encode()), struct.pack(">Q", event["revision"]),
                  uuid.UUID(event["id"]).bytes, text(event["type"].encode()),
                  text(decode(event["data"])), text(decode(event["metadata"])))


def root(index, size, value, proof):
    """The root hash that an inclusion proof leads to, or None."""
    if index >= size:
        return None
    node, last = index, size - 1
    for sibling in proof:
        if last == 0:
            return None
        if node & 1 or node == last:
            value = sha256(b"\1", sibling, value)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            value = sha256(b"\1", value, sibling)
        node, last = node >> 1, last >> 1
    return value if last == 0 else None


def verify(path, trusted):
    """The faults of a file, and a sentence about it."""
    faults = []
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    first, end = json.loads(lines[0]), json.loads(lines[-1])
    head = first["head"]
    if first["export"] != "carillon.export.v1":
        faults.append("it is not an export")
    if trusted and head["key"] != trusted:
        faults.append("the head is signed by another key: " + head["key"])
    at = datetime.fromisoformat(head["at"].replace("Z", "+00:00")).astimezone(timezone.utc)
    text = "carillon tree head v1\n{}\n{}\n{}\n{}\n".format(
        head["size"], head["root"], at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), head["kept"])
    if not signed(decode(head["key"]), text.encode(), decode(head["signature"])):
        faults.append("the signature of the head does not fit")
    following = {}
    withheld = {(stream, revision) for stream, list in first.get("withheld", {}).items() for revision in list}
    for number, line in enumerate(lines[1:-1], 2):
        event = json.loads(line)
        proof = [decode(one) for one in event["proof"] or []]
        if root(event["index"], head["size"], leaf(event), proof) != decode(head["root"]):
            faults.append("line {}: event {} of {} is not in the tree".format(number, event["revision"], event["stream"]))
        following.setdefault(event["stream"], event["revision"])
        while (event["stream"], following[event["stream"]]) in withheld:
            following[event["stream"]] += 1
        if following[event["stream"]] != event["revision"]:
            faults.append("line {}: an event of {} is missing before it".format(number, event["stream"]))
        following[event["stream"]] = event["revision"] + 1
    text = "carillon export v1\n{}\n{}\n".format(end["events"], end["sha256"])
    if not signed(decode(head["key"]), text.encode(), decode(end["signature"])):
        faults.append("the signature of the file does not fit")
    if len(end) != 3 or end["events"] != len(lines) - 2 or decode(end["sha256"]) != sha256(*lines[:-1]):
        faults.append("the file was changed since it was signed")
    return faults, "{} events are in the tree of {} events of {}, signed by {}".format(
        len(lines) - 2, head["size"], head["at"], head["key"])


if __name__ == "__main__":
    try:
        found, told = verify(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")
    except (LookupError, TypeError, ValueError) as malformed:
        found, told = ["the file is malformed: {!r}".format(malformed)], ""
    print("\n".join(found) or told)
    sys.exit(1 if found else 0)
