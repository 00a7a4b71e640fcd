"""Documents: the values that calls of the host's functions carry (docs/protocol.md).

The rules of frames do not hold here: a document is deeper, and has times and NaN. What
cannot be sent is an error in the caller's code, which names the place.
"""
from datetime import datetime, timedelta, timezone
from struct import pack, unpack_from

MAX_BYTES = 32 << 20
MAX_DEPTH = 128
MAX_VALUES = 4 << 20

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_HINTS = {
    "set": "use list(...)",
    "frozenset": "use list(...)",
    "Decimal": "use float(...) or str(...)",
    "date": "use isoformat()",
    "time": "use isoformat()",
    "DataFrame": 'use to_dict("records")',
    "Series": "use tolist()",
    "Index": "use tolist()",
    "generator": "use list(...)",
    "complex": "use a list of two numbers",
}


class Unfit(Exception):
    """A value cannot be sent: its kind of error, what is wrong, and where."""

    def __init__(self, kind, why):
        self.kind, self.why, self.place = kind, why, []


def encode(value):
    """The document of value; TypeError, ValueError or OverflowError if there is none."""
    out = []
    budget = [MAX_VALUES, MAX_BYTES]
    try:
        _append(out, value, 0, budget)
    except Unfit as e:
        place = "".join(reversed(e.place)).lstrip(".")
        raise e.kind(place + ": " + e.why if place else e.why) from None
    document = b"".join(out)
    if len(document) > MAX_BYTES:
        raise ValueError(_TOO_LARGE)
    return document


_TOO_LARGE = "it is too large: at most %d bytes can be sent" % MAX_BYTES


def _head(out, n, small, codes):
    """The head of a text, an array or a map: small and its bound, then codes of 1, 2 and 4 bytes."""
    if n < small[1]:
        out.append(bytes((small[0] | n,)))
        return
    for width, code in codes:
        if n < 1 << (8 * width):
            out.append(bytes((code,)) + n.to_bytes(width, "big"))
            return
    raise Unfit(ValueError, _TOO_LARGE)


_TEXT = ((0xA0, 32), ((1, 0xD9), (2, 0xDA), (4, 0xDB)))
_BYTES = ((0, 0), ((1, 0xC4), (2, 0xC5), (4, 0xC6)))
_ARRAY = ((0x90, 16), ((2, 0xDC), (4, 0xDD)))
_MAP = ((0x80, 16), ((2, 0xDE), (4, 0xDF)))


def _sized(out, data, how, budget):
    budget[1] -= len(data)
    if budget[1] < 0:
        raise Unfit(ValueError, _TOO_LARGE)
    _head(out, len(data), *how)
    out.append(data)


def _text(out, value, budget):
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Unfit(ValueError, "the text is not valid Unicode: it has a lone surrogate") from None
    _sized(out, data, _TEXT, budget)


def _append(out, value, depth, budget):
    budget[0] -= 1
    if budget[0] < 0:
        raise Unfit(ValueError, "it is too large: at most %d values can be sent" % MAX_VALUES)
    if value is None:
        out.append(b"\xc0")
    elif value is True or value is False:
        out.append(b"\xc3" if value else b"\xc2")
    elif isinstance(value, str):
        _text(out, value, budget)
    elif isinstance(value, int):
        _integer(out, int(value))
    elif isinstance(value, float):
        out.append(pack(">Bd", 0xCB, value))
    elif isinstance(value, (bytes, bytearray)):
        _sized(out, bytes(value), _BYTES, budget)
    elif isinstance(value, memoryview):
        _sized(out, value.tobytes(), _BYTES, budget)
    elif isinstance(value, dict):
        _mapping(out, value, depth, budget)
    elif isinstance(value, (list, tuple)):
        _array(out, value, depth, budget)
    elif isinstance(value, datetime):
        _time(out, value)
    else:
        _other(out, value, depth, budget)


def _integer(out, n):
    if 0 <= n < 128 or -32 <= n < 0:
        out.append(bytes((n & 0xFF,)))
        return
    for i, width in enumerate((1, 2, 4, 8)):
        if 0 <= n < 1 << (8 * width):
            out.append(bytes((0xCC + i,)) + n.to_bytes(width, "big"))
            return
        if -1 << (8 * width - 1) <= n < 0:
            out.append(bytes((0xD0 + i,)) + n.to_bytes(width, "big", signed=True))
            return
    raise Unfit(OverflowError, "the integer does not fit into 64 bits: send it as str")


def _array(out, value, depth, budget):
    _deeper(depth)
    _head(out, len(value), *_ARRAY)
    for i, inner in enumerate(value):
        try:
            _append(out, inner, depth + 1, budget)
        except Unfit as e:
            _note(e, "[%d]" % i)
            raise


def _mapping(out, value, depth, budget):
    _deeper(depth)
    items = list(value.items())
    _head(out, len(items), *_MAP)
    budget[0] -= len(items)
    for name, inner in items:
        if not isinstance(name, str):
            raise Unfit(TypeError, "the key %.60r of a dict is %s: only str can be sent" % (name, type(name).__name__))
        try:
            _text(out, name, budget)
            _append(out, inner, depth + 1, budget)
        except Unfit as e:
            _note(e, "." + name[:40])
            raise


def _note(error, place):
    if len(error.place) < 8:
        error.place.append(place)
    elif len(error.place) == 8:
        error.place.append("…")


def _deeper(depth):
    if depth >= MAX_DEPTH:
        raise Unfit(ValueError, "it is nested deeper than %d, or contains itself" % MAX_DEPTH)


def _time(out, value):
    """A time without a zone is local, as for Python's timestamp()."""
    if value.tzinfo is None:
        value = value.astimezone()
    since = value - _EPOCH
    seconds, nanos = since.days * 86400 + since.seconds, since.microseconds * 1000
    if not 0 <= seconds < 1 << 34:
        out.append(b"\xc7\x0c\xff" + pack(">Iq", nanos, seconds))
    elif nanos or seconds >= 1 << 32:
        out.append(b"\xd7\xff" + pack(">Q", nanos << 34 | seconds))
    else:
        out.append(b"\xd6\xff" + pack(">I", seconds))


def _other(out, value, depth, budget):
    """Values of numpy are sent as Python's own; others are refused, with advice."""
    kind = type(value)
    module = (getattr(kind, "__module__", None) or "").partition(".")[0]
    budget[0] += 1
    if module == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item"):
        plain = value.item()
        if type(plain) is not kind:
            return _append(out, plain, depth, budget)
    if module == "numpy" and kind.__name__ == "ndarray":
        return _append(out, value.tolist(), depth, budget)
    hint = _HINTS.get(kind.__name__) or ("use dataclasses.asdict(...)" if hasattr(kind, "__dataclass_fields__") else "")
    raise Unfit(TypeError, "a value of type %s cannot be sent%s" % (kind.__qualname__, ": " + hint if hint else ""))


# ---------------------------------------------------------------- decoding

_NUMBERS = {
    0xCA: (">f", 4),
    0xCB: (">d", 8),
    0xCC: (">B", 1),
    0xCD: (">H", 2),
    0xCE: (">I", 4),
    0xCF: (">Q", 8),
    0xD0: (">b", 1),
    0xD1: (">h", 2),
    0xD2: (">i", 4),
    0xD3: (">q", 8),
}
_SIZED = {
    0xC4: ("bin", 1),
    0xC5: ("bin", 2),
    0xC6: ("bin", 4),
    0xD9: ("str", 1),
    0xDA: ("str", 2),
    0xDB: ("str", 4),
    0xDC: ("array", 2),
    0xDD: ("array", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_TIMES = {0xD6: 4, 0xD7: 8}


def decode(document):
    """The value of a document; ValueError if it is none."""
    value, end = _value(document, 0, 0)
    if end != len(document):
        raise ValueError("%d bytes behind the value" % (len(document) - end))
    return value


def _value(b, i, depth):
    try:
        code = b[i]
    except IndexError:
        raise ValueError("the document ends inside a value") from None
    i += 1
    if code < 0x80:
        return code, i
    if code >= 0xE0:
        return code - 256, i
    if code < 0x90:
        return _collect("map", code & 15, b, i, depth)
    if code < 0xA0:
        return _collect("array", code & 15, b, i, depth)
    if code < 0xC0:
        return _collect("str", code & 31, b, i, depth)
    if code in _CONSTANTS:
        return _CONSTANTS[code], i
    if code in _NUMBERS:
        layout, width = _NUMBERS[code]
        _there(b, i, width)
        return unpack_from(layout, b, i)[0], i + width
    if code in _SIZED:
        kind, width = _SIZED[code]
        _there(b, i, width)
        return _collect(kind, int.from_bytes(b[i : i + width], "big"), b, i + width, depth)
    if code == 0xC7:
        _there(b, i, 1)
        return _timestamp(b, i + 1, b[i])
    if code in _TIMES:
        return _timestamp(b, i, _TIMES[code])
    raise ValueError("byte %#04x in a document" % code)


def _there(b, i, n):
    if n > len(b) - i:
        raise ValueError("the document ends inside a value")


def _collect(kind, n, b, i, depth):
    _there(b, i, 2 * n if kind == "map" else n)
    if kind == "bin":
        return b[i : i + n], i + n
    if kind == "str":
        return b[i : i + n].decode(), i + n
    if depth >= MAX_DEPTH:
        raise ValueError("nested deeper than %d" % MAX_DEPTH)
    if kind == "array":
        array = []
        for _ in range(n):
            value, i = _value(b, i, depth + 1)
            array.append(value)
        return array, i
    mapping = {}
    for _ in range(n):
        name, i = _value(b, i, depth + 1)
        if type(name) is not str:
            raise ValueError("a key of a map is not text")
        mapping[name], i = _value(b, i, depth + 1)
    return mapping, i


def _timestamp(b, i, size):
    _there(b, i, 1 + size)
    kind, i = b[i], i + 1
    nanos = 0
    if kind != 0xFF:
        size = 0
    if size == 4:
        seconds = unpack_from(">I", b, i)[0]
    elif size == 8:
        both = unpack_from(">Q", b, i)[0]
        seconds, nanos = both & (1 << 34) - 1, both >> 34
    elif size == 12:
        nanos, seconds = unpack_from(">Iq", b, i)
    else:
        raise ValueError("an extension that is no timestamp")
    if nanos >= 10**9:
        raise ValueError("a timestamp with %d nanoseconds" % nanos)
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000), i + size
    except OverflowError:
        raise ValueError("a time that Python has not: %d seconds since 1970" % seconds) from None
