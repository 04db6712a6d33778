#!/usr/bin/env python3
"""Verifies an export with proofs (carillon audit export ID --proof) with nothing but Python's standard library.

It prints how many events are there, of which streams, up to which tree head, and what is missing. It exits with 1 if
anything in the file was changed since it was signed, an event is not in the tree of the head, a range is not complete,
or a head differs; and with 2 without a public key: then nobody is known to have signed it.
"""
import argparse
import base64
import datetime
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


class Damage(ValueError):
    """A sentence about what is wrong with a file."""


def parse(text):
    """The value of a JSON text. A number that is not written as the server does is no integer."""
    def refuse(constant):
        raise Damage("{} is no number".format(constant))

    return json.loads(text, parse_constant=refuse,
                      parse_int=lambda digits: int(digits) if digits == str(int(digits)) else float(digits))


def number(value, least=0):
    if type(value) is not int or not least <= value < 2**63:
        raise Damage("{!r} is not a number that an export has".format(value))
    return value


def text(value):
    if type(value) is not str:
        raise Damage("{!r} is not a text".format(value))
    return value


def decode(value, size=None):
    """The bytes of a text in base64; null is none."""
    try:
        decoded = base64.b64decode("" if value is None else text(value), validate=True)
    except ValueError:
        decoded = None
    if decoded is None or base64.b64encode(decoded).decode() != (value or "") or size not in (None, len(decoded)):
        raise Damage("{!r} is not base64, or has another size".format(value))
    return decoded


def identity(value):
    try:
        one = uuid.UUID(text(value))
    except ValueError:
        one = None
    if str(one) != value:
        raise Damage("{!r} is not an id".format(value))
    return one


def instant(value):
    """The text of a time with six digits."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{0,5}[1-9]))?Z", text(value), re.ASCII)
    try:
        datetime.datetime.fromisoformat(match[1] if match else "")
    except ValueError:
        raise Damage("{!r} is not a time".format(value)) from None
    return "{}.{}Z".format(match[1], (match[2] or "").ljust(6, "0"))


def several(kind, empty=True):
    """The check of a list; null is an empty one."""
    def check(value):
        if value is None and empty:
            return
        if type(value) is not list or not value and not empty:
            raise Damage("{!r} is not a list that an export has".format(value))
        for one in value:
            kind(one)
    return check


def yes(value):
    if value is not True:
        raise Damage("{!r} is not true".format(value))


def record(members):
    """The check of an object with the named members in their order, and nothing else."""
    def check(value):
        if type(value) is not dict:
            raise Damage("{!r} is not an object".format(value))
        wanted = [name for name in members if not name.endswith("?") or name[:-1] in value]
        if list(value) != [name.rstrip("?") for name in wanted]:
            raise Damage("it has other members than an export has: " + ", ".join(value))
        for name in wanted:
            try:
                members[name](value[name.rstrip("?")])
            except Damage as damage:
                raise Damage("{}: {}".format(name.rstrip("?"), damage)) from None
    return check


def sized(size):
    return lambda value: decode(value, size)


HEAD = {"size": lambda value: number(value, 1), "root": sized(32), "at": instant, "kept": sized(32), "key": sized(32),
        "signature": sized(64)}
STREAM = {"stream": text, "first": number, "last": number, "linked?": yes, "withheld?": several(number, empty=False)}
FIRST = {"export": text, "asked": identity, "head": record(HEAD), "streams": several(record(STREAM)),
         "unsealed": number, "since?": lambda value: number(value, 1),
         "consistency?": several(decode, empty=False)}
EVENT = {"index": number, "stream": text, "revision": number, "id": identity, "type": text, "data": decode,
         "metadata": decode, "proof": several(decode)}
LAST = {"events": number, "sha256": sized(32), "signature": sized(64)}


def read(lines, index, members):
    """The object of a line, which must be written as the server does."""
    line = lines[index]
    try:
        if index < len(lines) - 1 and not line.endswith(b"\n"):
            raise Damage("it has another end")
        value = parse(line)
        record(members)(value)
        written = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        for character in "<>&\u2028\u2029":
            written = written.replace(character, "\\u{:04x}".format(ord(character)))
        if written.encode() != (line[:-1] if line.endswith(b"\n") else line):
            raise Damage("it says the same in another way")
        return value
    except Damage as damage:
        raise Damage("line {} is not written as an export is: {}".format(index + 1, damage)) from None
    except (ValueError, RecursionError):
        raise Damage("line {} is not written as an export is: it is not JSON".format(index + 1)) from None


# The tree, RFC 9162 sections 2.1.3.2 and 2.1.4.2.
def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def leaf(event):
    """The leaf hash of an event: its stored bytes, each text after its length."""
    def sized(value):
        return struct.pack(">I", len(value)) + value

    return sha256(b"\0", sized(event["stream"].encode()), struct.pack(">Q", event["revision"]),
                  identity(event["id"]).bytes, sized(event["type"].encode()),
                  sized(decode(event["data"])), sized(decode(event["metadata"])))


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
    """What is wrong with a head by itself. Without trusted keys any may have signed it."""
    faults = []
    if trusted and head["key"] not in trusted:
        faults.append("the head of {} events is signed by another key: {}".format(head["size"], head["key"]))
    lines = "carillon tree head v1\n{}\n{}\n{}\n{}\n".format(
        head["size"], head["root"], instant(head["at"]), head["kept"])
    if not signed(decode(head["key"]), lines.encode(), decode(head["signature"])):
        faults.append("the signature of the head of {} events does not fit: it was forged".format(head["size"]))
    return faults


def read_heads(path):
    """The heads of a file. Lines without one are passed over: it may be a log in JSON."""
    heads = []
    with open(path, "rb") as file:
        for line in file.read().split(b"\n"):
            try:
                one = parse(line)
            except (ValueError, RecursionError):
                continue  # it may have been cut, and was written again then
            if not isinstance(one, dict) or "root" not in one or "signature" not in one:
                continue
            head = {name: one[name] for name in HEAD if name in one}
            try:
                record(HEAD)(head)
            except Damage as damage:
                raise Damage("{}: tree head after {} others: {}".format(path, len(heads), damage)) from None
            heads.append(head)
    if not heads:
        raise Damage("{}: no tree head in it".format(path))
    return heads


def compare(first, kept, trusted):
    """Compares the head with those that were kept elsewhere. It returns faults, and how many fit."""
    faults, fits, head = [], 0, first["head"]
    by_size = {head["size"]: head}
    for one in kept:
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
    return faults, fits


class Range:
    """The part of a stream that is yet to come."""

    def __init__(self, stream, asked):
        self.name, self.first, self.last = stream["stream"], stream["first"], stream["last"]
        self.linked, self.withheld = stream.get("linked", False), list(stream.get("withheld", []))
        self.asked, self.next, self.after, self.named = asked, self.first, 0, False

    def skip(self):
        while self.withheld and self.withheld[0] == self.next:
            self.next += 1
            self.withheld.pop(0)

    def take(self, event):
        """The faults of an event's place."""
        self.skip()
        if self.next != event["revision"]:
            yield "event {} of {} should follow there".format(self.next, self.name)
        if event["index"] < self.after:
            yield "event {} of {} stands before an earlier one of its stream".format(event["revision"], self.name)
        if event["revision"] == 0:
            try:
                self.named = json.loads(decode(event["data"]))["destination"] == self.asked
            except (LookupError, TypeError, ValueError, RecursionError):
                pass
        self.next, self.after = event["revision"] + 1, event["index"] + 1

    def end(self):
        self.skip()
        if self.next != self.last + 1 or self.withheld:
            yield "{}: the events from {} on are missing, up to {}".format(self.name, self.next, self.last)
        if self.linked and not self.named:
            yield "{}: its first event does not name {}, which was asked for".format(self.name, self.asked)


def verify(path, trusted, kept):
    """The faults of a file, and lines about it."""
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + [line for line in lines[-1:] if line]
    if not lines:
        raise Damage("the file is empty")
    first = read(lines, 0, FIRST)
    if first["export"] != "carillon.export.v2":
        raise Damage("it is not an export of this version: " + first["export"])
    try:
        end = read(lines, len(lines) - 1, LAST)
    except Damage:
        raise Damage("the end is missing: the file was cut, or the export broke off") from None
    head, asked, streams = first["head"], first["asked"], first["streams"] or []
    faults, fits = compare(first, kept, trusted)
    faults, ranges = head_faults(head, trusted) + faults, {}
    for one in streams:
        name = one["stream"]
        if name in ranges or name.endswith("-" + asked) == one.get("linked", False):
            faults.append("stream {} is not one of {}, or listed twice".format(name, asked))
        if one["last"] < one["first"]:
            faults.append("stream {} has no events from {} to {}".format(name, one["first"], one["last"]))
        ranges[name] = Range(one, asked)
    if not streams:
        faults.append("no stream is listed")
    for index in range(1, len(lines) - 1):
        event, where = read(lines, index, EVENT), "line {}: ".format(index + 1)
        proof = [decode(one) for one in event["proof"] or []]
        if root(event["index"], head["size"], leaf(event), proof) != decode(head["root"]):
            faults.append(where + "event {} of {} is not in the tree: it, its index or its proof was changed".format(
                event["revision"], event["stream"]))
        if event["stream"] not in ranges:
            faults.append(where + "stream {} is not listed".format(event["stream"]))
            continue
        faults += [where + fault for fault in ranges[event["stream"]].take(event)]
    faults += [fault for one in ranges.values() for fault in one.end()]
    ended = "carillon export v2\n{}\n{}\n".format(end["events"], end["sha256"])
    if not signed(decode(head["key"]), ended.encode(), decode(end["signature"])):
        faults.append("the signature of the file does not fit: its last line was changed")
    elif end["events"] != len(lines) - 2 or decode(end["sha256"]) != sha256(*lines[:-1]):
        faults.append("the file was changed since it was signed")
    return faults, report(first, len(lines) - 2, fits)


def counted(count):
    return "1 event" if count == 1 else "{} events".format(count)


def report(first, events, fits):
    """Lines about an export without faults, as "carillon audit verify" prints them."""
    head, missing = first["head"], []
    yield "{} events of {} are in the tree of {} events of {}, signed by {}".format(
        events, first["asked"], head["size"], head["at"], head["key"])
    if first["unsealed"]:
        missing.append(counted(first["unsealed"]) + " newer than the tree head, not sealed yet")
    for one in first["streams"]:
        withheld = len(one.get("withheld", []))
        yield "{}: events {} to {}, {}".format(one["stream"], one["first"], one["last"], "all but {} withheld".format(
            withheld) if withheld else "none between them is missing")
        if withheld:
            missing.append("{} of {}, withheld: of other organizations".format(counted(withheld), one["stream"]))
        if one["first"]:
            missing.append("{} before event {}: the tree has none of them".format(one["stream"], one["first"]))
    yield from ["missing: " + one for one in missing] or ["nothing of it is missing up to the tree head"]
    if fits:
        yield "heads kept elsewhere that it fits: {}".format(fits)


def public_key(value):
    try:
        decode(value, 32)
    except Damage:
        raise argparse.ArgumentTypeError(
            "must be a public key in base64, as \"carillon audit seal\" prints it: {!r}".format(value)) from None
    return value


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE", help="the export")
    parser.add_argument("trusted", metavar="KEY", nargs="?", type=public_key, help="a public key, as by --key")
    parser.add_argument("heads", metavar="HEADS", nargs="?", help="tree heads that were kept elsewhere, as by --head")
    parser.add_argument("--key", metavar="BASE64", action="append", default=[], type=public_key,
                        help="public key that signed the head, not from the file; several after a change of the key")
    parser.add_argument("--head", metavar="FILE", help="tree heads that were kept elsewhere, a JSON object a line")
    given = parser.parse_args(arguments)
    keys = given.key + [key for key in [given.trusted] if key]
    try:
        kept = [head for path in [given.heads, given.head] if path for head in read_heads(path)]
        faults, lines = verify(given.file, keys, kept)
    except Damage as damage:
        faults, lines = [str(damage)], []
    except OSError as failure:
        faults, lines = ["{} can't be read: {}".format(failure.filename, failure.strerror)], []
    print("\n".join(faults or lines))
    if faults:
        return 1
    if not keys:
        print("NOTHING IS PROVED about who signed this, as anyone may have made the file and its key: name the public "
              "key that the server's operators have published, by --key", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
