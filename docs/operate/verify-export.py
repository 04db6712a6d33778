#!/usr/bin/env python3
"""Verifies an export with proofs (carillon audit export ID --proof) with nothing but Python's standard library.

usage: verify-export.py FILE PUBLIC-KEY-IN-BASE64 [HEADS]

HEADS is a file with tree heads that were kept elsewhere, a JSON object a line. It exits with 1 if anything in the file was
changed since it was signed, an event is not in the tree of the head, a range is not complete, or a head differs; and
with 2 without a public key: then nobody is known to have signed it.
"""
import base64
import hashlib
import json
import re
import struct
import sys
import uuid

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


# Lines, of which each has the named members in their order, and nothing else.
HEAD = {"size": int, "root": str, "at": str, "kept": str, "key": str, "signature": str}
FIRST = {"export": str, "asked": str, "head": HEAD, "streams": list, "unsealed": int, "since?": int, "consistency?": list}
STREAM = {"stream": str, "first": int, "last": int, "withheld?": list}
EVENT = {"index": int, "stream": str, "revision": int, "id": str, "type": str, "data": str, "metadata": str, "proof": list}
LAST = {"events": int, "sha256": str, "signature": str}
ABSENT = ("data", "metadata", "proof", "streams")  # may be null: empty


def typed(value, members):
    """Checks an object by its members."""
    wanted = [name for name in members if not name.endswith("?") or name[:-1] in value]
    if list(value) != [name.rstrip("?") for name in wanted]:
        raise ValueError("members: " + ", ".join(value))
    for name in wanted:
        one, kind = value[name.rstrip("?")], members[name]
        if isinstance(kind, dict):
            typed(one, kind)
        elif type(one) is not kind and not (one is None and name in ABSENT):
            raise ValueError("{} is {!r}".format(name, one))
        elif kind is int and not 0 <= one < 2**63:
            raise ValueError("{} is {}".format(name, one))


def read(line, members):
    """The object of a line, which must be written as the server does."""
    value = json.loads(line)
    typed(value, members)
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, "\\u{:04x}".format(ord(character)))
    if text.encode() != line.rstrip(b"\n"):
        raise ValueError("a line is not written as an export is")
    return value


def decode(text):
    value = base64.b64decode(text or "", validate=True)
    if base64.b64encode(value).decode() != (text or ""):
        raise ValueError("not base64: " + text)
    return value


def identity(text):
    value = uuid.UUID(text)
    if str(value) != text:
        raise ValueError("not an id: " + text)
    return value


# The tree, RFC 9162 sections 2.1.3.2 and 2.1.4.2.
def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def leaf(event):
    """The leaf hash of an event: its stored bytes, each text after its length."""
    def text(value):
        return struct.pack(">I", len(value)) + value

    return sha256(b"\0", text(event["stream"].encode()), struct.pack(">Q", event["revision"]),
                  identity(event["id"]).bytes, text(event["type"].encode()),
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


def continues(earlier, size, earlier_root, whole_root, proof):
    """Whether the tree of an earlier size is the beginning of one."""
    if earlier == size:
        return not proof and earlier_root == whole_root
    if not proof or not 0 < earlier < size:
        return False
    if earlier & (earlier - 1) == 0:
        proof = [earlier_root] + proof
    node, last = earlier - 1, size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = proof[0]
    for sibling in proof[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            old, new = sha256(b"\1", sibling, old), sha256(b"\1", sibling, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = sha256(b"\1", new, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and old == earlier_root and new == whole_root


def head_faults(head, trusted):
    """What is wrong with a head by itself."""
    faults = []
    if head["key"] != trusted:
        faults.append("a head is signed by another key: " + head["key"])
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?Z", head["at"])
    text = "carillon tree head v1\n{}\n{}\n{}.{}Z\n{}\n".format(
        head["size"], head["root"], match[1] if match else "", (match[2] or "").ljust(6, "0") if match else "",
        head["kept"])
    if not match or not signed(decode(head["key"]), text.encode(), decode(head["signature"])):
        faults.append("the signature of a head of {} events does not fit".format(head["size"]))
    return faults


def read_heads(lines):
    """The heads of a file. Lines without one are passed over: it may be a log in JSON."""
    heads = []
    for line in lines:
        try:
            one = json.loads(line)
        except ValueError:
            continue  # it may have been cut, and was written again then
        if isinstance(one, dict) and "root" in one and "signature" in one:
            heads.append({name: one[name] for name in HEAD})
    return heads


def compare(first, kept, trusted):
    """Compares the head with those that were kept elsewhere."""
    faults, fits, head = [], 0, first["head"]
    by_size = {head["size"]: head}
    for one in kept:
        typed(one, HEAD)
        size, wrong = one["size"], []
        if by_size.get(size, one) != one:
            wrong.append("two heads of {} events differ".format(size))
        by_size[size] = one
        if size == first.get("since") and size != head["size"]:
            if not continues(size, head["size"], decode(one["root"]), decode(head["root"]),
                             [decode(node) for node in first.get("consistency", [])]):
                wrong.append("the log does not continue the head of {} events".format(size))
        elif size != head["size"] and not wrong:
            continue  # no proof in the file is about it
        wrong += head_faults(one, trusted)
        faults, fits = faults + wrong, fits + (not wrong)
    if kept and not fits and not faults:
        faults.append("no head that was kept elsewhere has the size of the export's, or of the one that it continues")
    return faults


def verify(path, trusted, kept):
    """The faults of a file, and a sentence about it."""
    with open(path, "rb") as file:
        lines = file.read().splitlines(keepends=True)
    if any(not line.endswith(b"\n") or line.endswith(b"\r\n") for line in lines[:-1]):
        raise ValueError("a line has another end")
    first, end = read(lines[0], FIRST), read(lines[-1], LAST)
    head = first["head"]
    if first["export"] != "carillon.export.v2":
        raise ValueError("it is not an export of this version: " + first["export"])
    faults = head_faults(head, trusted) + compare(first, kept, trusted)
    following, withheld, streams = {}, {}, first["streams"] or []
    for one in streams:
        typed(one, STREAM)
        name = one["stream"]
        if name in following or not name.endswith("-" + str(identity(first["asked"]))):
            faults.append("stream {} is not one of {}, or listed twice".format(name, first["asked"]))
        following[name], withheld[name] = one["first"], list(one.get("withheld", []))

    def skip(name):
        while withheld[name] and withheld[name][0] == following[name]:
            following[name] += 1
            withheld[name].pop(0)

    for number, line in enumerate(lines[1:-1], 2):
        event = read(line, EVENT)
        name = event["stream"]
        proof = [decode(one) for one in event["proof"] or []]
        if root(event["index"], head["size"], leaf(event), proof) != decode(head["root"]):
            faults.append("line {}: event {} of {} is not in the tree".format(number, event["revision"], name))
        if name not in following:
            faults.append("line {}: stream {} is not listed".format(number, name))
            continue
        skip(name)
        if following[name] != event["revision"]:
            faults.append("line {}: event {} of {} should follow there".format(number, following[name], name))
        following[name] = event["revision"] + 1
    for one in streams:
        name = one["stream"]
        skip(name)
        if following[name] != one["last"] + 1 or withheld[name]:
            faults.append("{}: events from {} on are missing".format(name, following[name]))
    if not streams:
        faults.append("no stream is listed")
    text = "carillon export v2\n{}\n{}\n".format(end["events"], end["sha256"])
    if not signed(decode(head["key"]), text.encode(), decode(end["signature"])):
        faults.append("the signature of the file does not fit")
    if end["events"] != len(lines) - 2 or decode(end["sha256"]) != sha256(*lines[:-1]):
        faults.append("the file was changed since it was signed")
    return faults, "{} events of {} are in the tree of {} events of {}, signed by {}".format(
        len(lines) - 2, first["asked"], head["size"], head["at"], head["key"])


def main(path, trusted="", heads=""):
    if not trusted:
        print("name the public key that the server's operators have published: without it anyone may have signed the file")
        return 2
    try:
        kept = []
        if heads:
            with open(heads, "rb") as file:
                kept = read_heads(file.read().splitlines())
        found, told = verify(path, trusted, kept)
    except (LookupError, TypeError, ValueError, RecursionError) as malformed:
        found, told = ["the file is malformed: {!r}".format(malformed)], ""
    print("\n".join(found) or told)
    return 1 if found else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
