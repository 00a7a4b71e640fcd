"""Checks the worker's codec: codec_check.py SOURCE VECTORS SCHEMA. Prints what is wrong, and how much was checked."""
import json
import sys
from datetime import datetime, timedelta, timezone

sys.dont_write_bytecode = True
source, vectors, schema = sys.argv[1:]
sys.path.insert(0, source)
from turnstone_worker import codec, values

checked = {"accepted": 0, "refused": 0, "encoded": 0}


def unpacked(parts):
    """Hex in parts; XX*N is N times a byte."""
    data = b""
    for part in parts.split():
        byte, _, count = part.partition("*")
        data += bytes.fromhex(byte) * int(count or 1)
    return data


def meant(value):
    if isinstance(value, dict):
        if set(value) == {"bin"}:
            return unpacked(value["bin"])
        return {k: meant(v) for k, v in value.items()}
    if isinstance(value, list):
        return [meant(v) for v in value]
    return value


def transplanted(frame):
    """The unknown field of a worker's frame, in a message of the supervisor's."""
    before, grease, value = frame.partition(b"\xa6grease")
    payload = b"\x83\xa4type\xa8shutdown\xa8grace_ms\x01" + grease + value
    return len(payload).to_bytes(4, "big") + payload


for v in json.load(open(vectors, encoding="utf-8"))["vectors"]:
    frame = unpacked(v["frame"])
    greased = b"\xa6grease" in frame and v["name"].startswith(("an unknown value", "a bomb of arrays", "an array that", "an extension in", "the byte that"))
    if greased:
        frame = transplanted(frame)
        if "message" in v:
            v["message"] = {"type": "shutdown", "grace_ms": 1}
    if v["from"] == "supervisor" or greased:
        try:
            messages, rest, _ = codec.split(frame)
            got = messages[0] if len(messages) == 1 and not rest else "incomplete"
        except codec.ProtocolError as e:
            got = e
        if "message" in v:
            checked["accepted"] += 1
            for name, kind in codec._OPTIONAL.get(v["message"]["type"], {}).items():
                v["message"].setdefault(name, False if kind is bool else None)
            if got != meant(v["message"]):
                print("%s: got %r, want %r" % (v["name"], got, v["message"]))
        else:
            checked["refused"] += 1
            if not isinstance(got, codec.ProtocolError) and got != "incomplete":
                print("%s: got %r, want it refused" % (v["name"], got))
    elif v.get("canonical"):
        checked["encoded"] += 1
        got = codec.frame(meant(v["message"]))
        if got != frame:
            print("%s: got %s, want %s" % (v["name"], got.hex()[:200], frame.hex()[:200]))

# The tables of the codec say what the schema says.
schema = json.load(open(schema, encoding="utf-8"))
limits = schema["limits"]
if (codec.MAX_FRAME, codec.MAX_DEPTH, codec.MAX_FIELDS) != (limits["frame_bytes"], limits["depth"], limits["fields"]):
    print("the limits differ from", limits)
types = {"bin": bytes, "bool": bool, "text": str}


def kind_of(field):
    if field["type"] == "uint":
        return field.get("min", 0)
    return tuple(field["enum"]) if "enum" in field and not field["required"] else types[field["type"]]


want = {}
for name, message in schema["messages"].items():
    if message["from"] == "supervisor":
        want[name] = {name: kind_of(field) for name, field in message["fields"].items()}
known = {name: dict(fields, **codec._OPTIONAL.get(name, {})) for name, fields in codec._MESSAGES.items()}
if known != want:
    print("the messages are %r, want %r" % (known, want))


def value(v):
    """A value of documents.json."""
    if isinstance(v, list):
        return [value(inner) for inner in v]
    if not isinstance(v, dict):
        return v
    readers = {
        "$int": int,
        "$float": float,
        "$bin": bytes.fromhex,
        "$time": lambda text: EPOCH + timedelta(seconds=_seconds(text), microseconds=int((text[19:-1] or ".0")[1:].ljust(6, "0"))),
    }
    for kind, read in readers.items():
        if kind in v:
            return read(v[kind])
    return {name: value(inner) for name, inner in v.items()}


def _seconds(text):
    return (datetime.strptime(text[:19] + "+0000", "%Y-%m-%dT%H:%M:%S%z") - EPOCH) // timedelta(seconds=1)


EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
checked["documents"] = 0
for d in json.load(open(vectors.replace("vectors.json", "documents.json"), encoding="utf-8"))["documents"]:
    checked["documents"] += 1
    document = bytes.fromhex(d["document"])
    try:
        got = values.decode(document)
    except ValueError as e:
        if not d.get("refused"):
            print("%s: %s" % (d["name"], e))
        continue
    if d.get("refused"):
        print("%s: got %r, want it refused" % (d["name"], got))
        continue
    want = value(d["value"])
    if got != got:
        if want == want:
            print("%s: got %r, want %r" % (d["name"], got, want))
    elif got != want or type(got) is not type(want) or values.encode(want) != document:
        print("%s: got %r, %s, want %r" % (d["name"], got, values.encode(want).hex(), want))
# Numbers that stand side by side are written and read at once.
checked["lists"] = 0
widths = (1, 200, 70000, 1 << 40, -5, -300, 1 << 63, 1.5)
for long in (
    *([n] * 100 for n in widths),
    *(([n] * 20 + [m]) * 3 for n in widths for m in (*widths, "x", None, True)),
    list(widths) * 50,
    [-(1 << 63), (1 << 63) - 1] * 10,
    [True, False] * 20,
    list(range(1000)),
):
    checked["lists"] += 1
    narrow = b"".join([values._head(len(long), *values._ARRAY)] + [values.encode(v) for v in long])
    for document in (values.encode(long), narrow):
        got = values.decode(document)
        if got != long or list(map(type, got)) != list(map(type, long)) or values.decode(document[:3], document[3:]) != long:
            print("%.60r...: got %.60r..." % (long, got))
        for cut in (1, 2, 3, len(document) // 2, len(document) - 1):
            try:
                print("%.60r...: cut off at %d, got %.60r..." % (long, cut, values.decode(document[:cut])))
            except ValueError:
                pass
for whole in (b"x" * 70000, "ä" * 70000):
    document = values.encode(whole)
    if values.decode(document[:5], document[5:6], document[6:]) != whole or values.decode(document[:6], memoryview(document)[6:]) != whole:
        print("%.20r...: in parts it is something else" % whole)
print(" ".join("%s %d" % c for c in checked.items()))
