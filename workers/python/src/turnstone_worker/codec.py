"""MessagePack, and the messages that a worker may receive.

Encoding covers what a worker sends. Decoding is strict about the messages of
the supervisor: an unknown type, a missing field or one of the wrong type is a
ProtocolError. Unknown fields are skipped, whatever they hold.
"""
from struct import pack as _pack, unpack_from as _unpack

MAX_FRAME = 64 << 20  # bytes of payload, without the length field
MAX_OUTPUT = 64 << 10  # bytes of one output frame
MAX_TEXT = 64 << 10  # bytes of a prompt, a name, a title, a message
MAX_DEPTH = 16  # of nested maps and arrays
MAX_FIELDS = 64  # of one message


class ProtocolError(Exception):
    """The supervisor violated the protocol."""


# ---------------------------------------------------------------- encoding


def frame(message):
    """Returns the message as one frame: its length, then a map."""
    if len(message) == 5 and message["type"] == "idle" and message["outcome"] == "ok" and "mark" in message:
        return _idle(message)
    if message["type"] == "call":
        return _call(message)
    out = [b""]
    _append(out, message)
    payload = b"".join(out)
    if len(payload) > MAX_FRAME:
        raise ValueError("a frame of %d bytes is larger than %d" % (len(payload), MAX_FRAME))
    return len(payload).to_bytes(4, "big") + payload


# Every turn begins and ends with the same two messages, and a loop may make many calls. So
# these have a fast path: turn_start and call_result in split, idle and call here.
_idles = {}  # the part between its two numbers, by prompt; prompts rarely change


def _idle(message):
    """{"type": "idle", "turn": …, "prompt": …, "outcome": "ok", "mark": …}"""
    prompt = message["prompt"]
    middle = _idles.get(prompt)
    if middle is None:
        _idles.clear()
        out = []
        _append(out, prompt)
        middle = _idles[prompt] = b"\xa6prompt" + b"".join(out) + b"\xa7outcome\xa2ok\xa4mark"
    payload = b"\x85\xa4type\xa4idle\xa4turn" + _natural(message["turn"]) + middle + _natural(message["mark"])
    return len(payload).to_bytes(4, "big") + payload


_names = {}  # the part of a call between its numbers and its arguments, by name


def _call(message):
    """{"type": "call", "id": …, "turn": …, "name": …, "args": …}, and maybe "mark": …"""
    name, args, mark = message["name"], message["args"], message.get("mark")
    middle = _names.get(name)
    if middle is None:
        if len(_names) >= 1000:
            _names.clear()
        out = []
        _append(out, name)
        middle = _names[name] = b"\xa4name" + b"".join(out) + b"\xa4args"
    head = b"\x85\xa4type\xa4call\xa2id" if mark is None else b"\x86\xa4type\xa4call\xa2id"
    head += _natural(message["id"]) + b"\xa4turn" + _natural(message["turn"]) + middle + _bin(len(args))
    tail = b"" if mark is None else b"\xa4mark" + _natural(mark)
    return b"".join(((len(head) + len(args) + len(tail)).to_bytes(4, "big"), head, args, tail))


def _bin(n):
    """Returns the head of a text or binary value of this many bytes."""
    if n < 1 << 8:
        return bytes((0xC4, n))
    if n < 1 << 16:
        return b"\xc5" + n.to_bytes(2, "big")
    return b"\xc6" + n.to_bytes(4, "big")


def _natural(n):
    if n < 128:
        return bytes((n,))
    width = 0 if n < 1 << 8 else 1 if n < 1 << 16 else 2 if n < 1 << 32 else 3
    return bytes((0xCC + width,)) + n.to_bytes(1 << width, "big")


_keys = {}  # the encoded names of fields, of which there are few


def _key(name):
    out = []
    _append(out, name)
    key = b"".join(out)
    if len(_keys) < 200:  # user code chooses the types of a display
        _keys[name] = key
    return key


def text(s, limit=MAX_TEXT):
    """Returns s as text that the protocol allows: valid UTF-8, at most limit bytes."""
    b = s.encode("utf-8", "backslashreplace")
    if len(b) > limit:
        b = b[: limit - 3] + "…".encode()
        b = b.decode("utf-8", "ignore").encode()
    return b.decode("utf-8", "replace")


def _append(out, value):
    kind = type(value)
    if kind is str:
        b = value.encode("utf-8", "backslashreplace")
        n = len(b)
        if n < 32:
            out.append(bytes((0xA0 | n,)))
        elif n < 1 << 8:
            out.append(bytes((0xD9, n)))
        elif n < 1 << 16:
            out.append(b"\xda" + n.to_bytes(2, "big"))
        else:
            out.append(b"\xdb" + n.to_bytes(4, "big"))
        out.append(b)
    elif kind is int:
        if value >= 0:
            out.append(_natural(value))
        elif value >= -32:
            out.append(bytes((256 + value,)))
        else:
            width = 0 if value >= -1 << 7 else 1 if value >= -1 << 15 else 2 if value >= -1 << 31 else 3
            out.append(bytes((0xD0 + width,)) + value.to_bytes(1 << width, "big", signed=True))
    elif kind is bytes or kind is memoryview:
        out.append(_bin(len(value)))
        out.append(value)
    elif kind is bool:
        out.append(b"\xc3" if value else b"\xc2")
    elif kind is dict:
        n = len(value)
        out.append(bytes((0x80 | n,)) if n < 16 else b"\xde" + n.to_bytes(2, "big"))
        for k, v in value.items():
            out.append(_keys.get(k) or _key(k))
            _append(out, v)
    elif kind is list:
        n = len(value)
        out.append(bytes((0x90 | n,)) if n < 16 else b"\xdc" + n.to_bytes(2, "big"))
        for v in value:
            _append(out, v)
    elif kind is float:
        out.append(_pack(">Bd", 0xCB, value))
    else:
        raise TypeError("cannot encode " + kind.__name__)


# ---------------------------------------------------------------- decoding

_INTEGERS = {0xCC: (">B", 1), 0xCD: (">H", 2), 0xCE: (">I", 4), 0xCF: (">Q", 8), 0xD0: (">b", 1), 0xD1: (">h", 2), 0xD2: (">i", 4), 0xD3: (">q", 8)}


class Other:
    """A value of a type that no known field has: nil, a float, an array, a map."""


def _header(b, i):
    """Returns the type of the value at b[i:], its length, and where its content begins.

    The kinds are "value" (the length is the value itself), "bin", "str", "array",
    "map" and "other" (so many bytes to skip).
    """
    if i >= len(b):
        raise ProtocolError("truncated")
    code = b[i]
    i += 1
    if code < 0x80:
        return "value", code, i
    if code < 0x90:
        return "map", code & 15, i
    if code < 0xA0:
        return "array", code & 15, i
    if code < 0xC0:
        return "str", code & 31, i
    if code >= 0xE0:
        return "value", code - 256, i
    if code == 0xC2 or code == 0xC3:
        return "value", code == 0xC3, i
    if code == 0xC0:
        return "other", 0, i
    if code in _INTEGERS:
        layout, width = _INTEGERS[code]
        if i + width > len(b):
            raise ProtocolError("truncated integer")
        return "value", _unpack(layout, b, i)[0], i + width
    if code == 0xCA or code == 0xCB:
        return "other", 4 << (code - 0xCA), i
    if 0xC4 <= code <= 0xC6:
        kind, width = "bin", 1 << (code - 0xC4)
    elif 0xD9 <= code <= 0xDB:
        kind, width = "str", 1 << (code - 0xD9)
    elif code >= 0xDC:
        kind, width = ("array", "array", "map", "map")[code - 0xDC], (2, 4)[code & 1]
    else:
        raise ProtocolError("byte %#04x begins an extension or nothing" % code)
    if i + width > len(b):
        raise ProtocolError("truncated length")
    return kind, int.from_bytes(b[i : i + width], "big"), i + width


def _value(b, i):
    """Returns the value at b[i:] (Other if no known field has its type) and where it ends."""
    kind, n, i = _header(b, i)
    if kind == "value":
        return n, i
    end = i + n
    if kind == "bin":
        if end > len(b):
            raise ProtocolError("truncated bin")
        return b[i:end], end
    if kind == "str":
        return _text(b, i, end), end
    return Other, _skip(b, kind, n, i, MAX_DEPTH - 1)


def _text(b, i, end):
    if end > len(b):
        raise ProtocolError("truncated str")
    try:
        return b[i:end].decode("utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("text is not UTF-8") from None


def _skip(b, kind, n, i, depth):
    """Returns the end of the value whose content begins at b[i:]."""
    if kind == "value":
        return i
    if kind == "array" or kind == "map":
        if depth == 0:
            raise ProtocolError("nested deeper than %d" % MAX_DEPTH)
        count = n if kind == "array" else 2 * n
        if count > len(b) - i:  # every element takes at least one byte
            raise ProtocolError("truncated " + kind)
        for _ in range(count):
            inner, size, i = _header(b, i)
            i = _skip(b, inner, size, i, depth - 1)
        return i
    if i + n > len(b):
        raise ProtocolError("truncated " + kind)
    return i + n


def _fields(b):
    """Returns the fields of the map b, and the names that occur twice."""
    kind, n, i = _header(b, 0)
    if kind != "map":
        raise ProtocolError("not a map")
    if n > MAX_FIELDS:
        raise ProtocolError("more than %d fields" % MAX_FIELDS)
    fields, twice = {}, []
    for _ in range(n):
        kind, size, i = _header(b, i)
        if kind != "str":
            raise ProtocolError("a field's name is not text")
        name = _text(b, i, i + size)
        i += size
        if name in _NAMES:
            if name in fields:
                twice.append(name)
            fields[name], i = _value(b, i)
        else:
            kind, size, i = _header(b, i)
            i = _skip(b, kind, size, i, MAX_DEPTH - 1)
    if i != len(b):
        raise ProtocolError("%d bytes behind the message" % (len(b) - i))
    return fields, twice


# The smallest value of an integer, or the type of any other field.
_MESSAGES = {
    "turn_start": {"turn": 1, "input": bytes},
    "turn_input": {"turn": 0, "wait": 1, "input": bytes, "eof": bool},
    "interrupt": {"turn": 0, "seq": 1, "level": 1},
    "query": {"id": 0, "kind": str, "text": str, "cursor": 0},
    "shutdown": {"grace_ms": 0},
    "functions": {"revision": 1, "list": bytes},
    "call_result": {"id": 1, "value": bytes, "more": bool, "failed": bool},
}
_DIALECTS = ("notebook",)
_OPTIONAL = {"turn_start": {"silent": bool, "no_exit": bool, "dialect": _DIALECTS}, "query": {"dialect": _DIALECTS}}  # an absent bool is False, an absent text None
_NAMES = {"type"}.union(*_MESSAGES.values(), *_OPTIONAL.values())


# Messages as the supervisor writes them: small numbers take one byte, large ones more.
_TURN_START = b"\x84\xa4type\xaaturn_start\xa4turn"
_NO_EXIT = b"\xa7no_exit\xc3"
_CALL_RESULT = b"\x85\xa4type\xabcall_result\xa2id"
_LARGE = 128 << 10  # smallest content, in bytes, that is not copied again
_SHORT = 16  # bytes that follow in every message of the standard form


def _plain(b, i):
    """Returns the number at b[i:] and where it ends; None if it is not in the standard form."""
    code = b[i]
    if code < 0x80:
        return code, i + 1
    if code not in (0xCC, 0xCD, 0xCE, 0xCF):
        return None, i
    width = 1 << (code - 0xCC)
    return int.from_bytes(b[i + 1 : i + 1 + width], "big"), i + 1 + width


def _content(b, i, name, end):
    """Returns the bytes of the field name at b[i:] and where they end; None if it is not in the standard form."""
    at = i + len(name)
    if at + 5 > end or b[i:at] != name or not 0xC4 <= b[at] <= 0xC6:
        return None, i
    begin = at + 1 + (1 << (b[at] - 0xC4))
    i = begin + int.from_bytes(b[at + 1 : begin], "big")
    if i > end:
        return None, i
    return (b[begin:i] if i - begin < _LARGE else memoryview(b)[begin:i]), i


def _turn_start(b, i, end):
    """Returns the turn_start at b[i:end], or None if it is not in the standard form."""
    turn, i = _plain(b, i + len(_TURN_START))
    if not turn:
        return None
    content, i = _content(b, i, b"\xa5input", end)
    if content is None or b[i:end] != _NO_EXIT:
        return None
    return {"type": "turn_start", "turn": turn, "input": bytes(content), "silent": False, "no_exit": True, "dialect": None}


_ENDS = {b"\xa4more\xc2\xa6failed\xc2": (False, False), b"\xa4more\xc3\xa6failed\xc2": (True, False), b"\xa4more\xc2\xa6failed\xc3": (False, True)}


def _call_result(b, i, end):
    """Returns the call_result at b[i:end], or None if it is not in the standard form."""
    number, i = _plain(b, i + len(_CALL_RESULT))
    if not number:
        return None
    value, i = _content(b, i, b"\xa5value", end)
    last = _ENDS.get(b[i:end]) if value is not None else None
    return {"type": "call_result", "id": number, "value": value, "more": last[0], "failed": last[1]} if last is not None else None


def decode(payload):
    """Returns the message in payload as checked fields, including "type"."""
    fields, twice = _fields(payload)
    kind = fields.get("type")
    wanted = _MESSAGES.get(kind) if type(kind) is str else None
    if wanted is None:
        raise ProtocolError("unknown type %.80r" % (kind,))
    message = {"type": kind}
    optional = _OPTIONAL.get(kind, ())
    for name in twice:
        if name == "type" or name in wanted or name in optional:
            raise ProtocolError("%s: field %s: given twice" % (kind, name))
    for name, want in wanted.items():
        value = fields.get(name, message)
        if value is message:
            raise ProtocolError("%s: field %s: missing" % (kind, name))
        if type(want) is int:
            if type(value) is not int or not want <= value < 1 << 64:
                raise ProtocolError("%s: field %s: want an integer from %d on" % (kind, name, want))
        elif type(value) is not want:
            raise ProtocolError("%s: field %s: want %s" % (kind, name, want.__name__))
        message[name] = value
    for name in optional:
        want = optional[name]
        message[name] = value = fields.get(name, False if want is bool else None)
        if want is bool and type(value) is not bool:
            raise ProtocolError("%s: field %s: want bool" % (kind, name))
        if want is not bool and name in fields and value not in want:
            raise ProtocolError("%s: field %s: unknown value %.80r" % (kind, name, value))
    if kind == "interrupt" and message["level"] > 2:
        raise ProtocolError("interrupt: field level: %d is neither 1 nor 2" % message["level"])
    if kind == "query" and message["kind"] not in ("complete", "parse", "variables", "inspect", "table"):
        raise ProtocolError("query: field kind: unknown value %.80r" % message["kind"])
    return message


def _usual(data, i, end):
    """Returns the message at data[i:end] if it has a fast path; otherwise None."""
    if data.startswith(_CALL_RESULT, i, end - _SHORT):
        return _call_result(data, i, end)
    if data.startswith(_TURN_START, i, end - _SHORT):
        return _turn_start(data, i, end)
    return None


def split(data):
    """Returns the messages at the beginning of data, the remaining bytes, and how many bytes the next message needs."""
    messages = []
    i = 0
    while True:
        if len(data) - i < 4:
            return messages, data[i:], 4
        n = int.from_bytes(data[i : i + 4], "big")
        if n > MAX_FRAME:
            raise ProtocolError("a frame of %d bytes is larger than %d" % (n, MAX_FRAME))
        if len(data) - i - 4 < n:
            return messages, data[i:], 4 + n
        i += 4
        messages.append(_usual(data, i, i + n) or decode(data[i : i + n]))
        i += n
