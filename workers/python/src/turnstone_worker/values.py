"""Encoded values: the arguments and results of the host's functions (docs/worker-protocol.md).

The rules of frames do not apply here: an encoded value may be nested deeper, and may have times and
NaN. A value that cannot be sent raises an error in the caller's code that names the position.
"""
from array import array
from datetime import datetime, timedelta, timezone
from struct import error, pack, unpack_from
from sys import byteorder

MAX_BYTES = 32 << 20
MAX_DEPTH = 128
MAX_VALUES = 4 << 20

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LIST = "use list(...)"
_TEXT_OF = "use str(...)"
_HINTS = {
    "set": _LIST,
    "frozenset": _LIST,
    "range": _LIST,
    "deque": _LIST,
    "generator": _LIST,
    "dict_keys": _LIST,
    "dict_values": _LIST,
    "dict_items": _LIST,
    "Decimal": "use float(...) or str(...)",
    "Fraction": "use float(...) or str(...)",
    "UUID": _TEXT_OF,
    "PosixPath": _TEXT_OF,
    "WindowsPath": _TEXT_OF,
    "date": "use isoformat()",
    "time": "use isoformat()",
    "timedelta": "use total_seconds()",
    "complex": "use a list of two numbers",
    "pandas.DataFrame": 'use to_dict("records")',
    "pandas.Series": "use tolist()",
    "pandas.Index": "use tolist()",
    "polars.DataFrame": "use to_dicts()",
    "polars.LazyFrame": "use collect().to_dicts()",
    "polars.Series": "use to_list()",
    "numpy.datetime64": "use str(...), or a datetime with a zone",
    "numpy.timedelta64": "use a number",
}
_NO_VALUE = ("pandas.NAType", "pandas.NaTType")


class Unfit(Exception):
    """Reports that a value cannot be sent: the kind of error, the reason, and the position."""

    def __init__(self, kind, why):
        self.kind, self.why, self.path = kind, why, []


def encode(value):
    """Returns the encoded value; raises TypeError, ValueError or OverflowError if it cannot be encoded."""
    out = []
    budget = [MAX_VALUES - 1, MAX_BYTES]
    try:
        _append(out, value, 0, budget)
    except Unfit as e:
        path = "".join(reversed(e.path)).lstrip(".")
        raise e.kind(path + ": " + e.why if path else e.why) from None
    encoded = b"".join(out)
    if len(encoded) > MAX_BYTES:
        raise ValueError(_TOO_LARGE)
    return encoded


_TOO_LARGE = "it is too large: at most %d bytes can be sent" % MAX_BYTES
_TOO_MANY = "it is too large: at most %d values can be sent" % MAX_VALUES


def _head(n, small, codes):
    """Returns the head of a text, an array or a map: small, up to its bound, then codes for lengths of 1, 2 and 4 bytes."""
    if n < small[1]:
        return bytes((small[0] | n,))
    for width, code in codes:
        if n < 1 << (8 * width):
            return bytes((code,)) + n.to_bytes(width, "big")
    raise Unfit(ValueError, _TOO_LARGE)


_TEXT = ((0xA0, 32), ((1, 0xD9), (2, 0xDA), (4, 0xDB)))
_BYTES = ((0, 0), ((1, 0xC4), (2, 0xC5), (4, 0xC6)))
_ARRAY = ((0x90, 16), ((2, 0xDC), (4, 0xDD)))
_MAP = ((0x80, 16), ((2, 0xDE), (4, 0xDF)))


def _append(out, value, depth, budget):
    """Appends a value, which the caller has already subtracted from the budget."""
    write = _WRITERS.get(type(value))
    if write is None:
        write = _writer(value)
    write(out, value, depth, budget)


def _sized(out, data, how, budget):
    n = len(data)
    budget[1] -= n
    if budget[1] < 0:
        raise Unfit(ValueError, _TOO_LARGE)
    out.append(_head(n, *how))
    out.append(data)


def _text(out, value, depth, budget):
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise Unfit(ValueError, "the text is not valid Unicode: it has a lone surrogate") from None
    if len(data) < 32:
        out.append(_TINY[len(data)] + data)
    else:
        _sized(out, data, _TEXT, budget)


def _none(out, value, depth, budget):
    out.append(b"\xc0")


def _bool(out, value, depth, budget):
    out.append(b"\xc3" if value else b"\xc2")


def _float(out, value, depth, budget):
    out.append(pack(">Bd", 0xCB, value))


def _binary(out, value, depth, budget):
    _sized(out, value, _BYTES, budget)


def _bytearray(out, value, depth, budget):
    _sized(out, bytes(value), _BYTES, budget)


def _integer(out, n, depth, budget):
    if -32 <= n < 128:
        out.append(_SMALL[n])
        return
    for width, unsigned, signed in _WIDTHS:
        if 0 <= n < 1 << (8 * width):
            out.append(unsigned + n.to_bytes(width, "big"))
            return
        if -1 << (8 * width - 1) <= n < 0:
            out.append(signed + n.to_bytes(width, "big", signed=True))
            return
    raise Unfit(OverflowError, "the integer does not fit into 64 bits: send it as str")


_TINY = [bytes((0xA0 | n,)) for n in range(32)]
_SMALL = [bytes((n & 0xFF,)) for n in (*range(128), *range(-32, 0))]
_WIDTHS = ((1, b"\xcc", b"\xd0"), (2, b"\xcd", b"\xd1"), (4, b"\xce", b"\xd2"), (8, b"\xcf", b"\xd3"))


def _array(out, value, depth, budget):
    _deeper(depth)
    budget[0] -= len(value)
    if budget[0] < 0:
        raise Unfit(ValueError, _TOO_MANY)
    out.append(_head(len(value), *_ARRAY))
    if len(value) >= _MANY and _numbers(out, value, budget):
        return
    for i, inner in enumerate(value):
        try:
            _append(out, inner, depth + 1, budget)
        except Unfit as e:
            _note(e, "[%d]" % i)
            raise


_MANY = 16  # at least this many numbers of one kind are written and read at once
_LAYOUTS = ((0, 0xFF, "B", 0xCC), (0, 0xFFFF, "H", 0xCD), (-1 << 31, (1 << 31) - 1, "i", 0xD2), (-1 << 63, (1 << 63) - 1, "q", 0xD3))


def _numbers(out, value, budget):
    """Appends numbers of one kind, integers all in one width. Returns False if they are not of one kind."""
    kinds = set(map(type, value))
    if kinds == {float}:
        layout, code = "d", 0xCB
    elif kinds == {int}:
        least, most = min(value), max(value)
        if least >= 0 and most < 128:
            out.append(bytes(value))
            return True
        fits = [(layout, code) for lowest, highest, layout, code in _LAYOUTS if lowest <= least and most <= highest]
        if not fits:
            return False
        layout, code = fits[0]
    else:
        return False
    numbers = array(layout, value)
    width = numbers.itemsize
    size = len(numbers) * (width + 1)
    if size > budget[1]:
        return False  # one at a time, which may be shorter
    if byteorder == "little":
        numbers.byteswap()
    data, written = numbers.tobytes(), bytearray(size)
    written[:: width + 1] = bytes((code,)) * len(numbers)
    for i in range(width):
        written[i + 1 :: width + 1] = data[i::width]
    budget[1] -= size
    out.append(written)
    return True


def _mapping(out, value, depth, budget):
    _deeper(depth)
    items = list(value.items())
    budget[0] -= 2 * len(items)
    if budget[0] < 0:
        raise Unfit(ValueError, _TOO_MANY)
    out.append(_head(len(items), *_MAP))
    for name, inner in items:
        if not isinstance(name, str):
            raise Unfit(TypeError, "the key %.60r of a dict is %s: only str can be sent" % (name, type(name).__name__))
        try:
            _text(out, name, depth, budget)
            _append(out, inner, depth + 1, budget)
        except Unfit as e:
            _note(e, "." + name[:40])
            raise


def _note(error, step):
    if len(error.path) < 8:
        error.path.append(step)
    elif len(error.path) == 8:
        error.path.append("…")


def _deeper(depth):
    if depth >= MAX_DEPTH:
        raise Unfit(ValueError, "it is nested deeper than %d, or contains itself" % MAX_DEPTH)


def _time(out, value, depth, budget):
    """Appends a time. Without a zone it is local, as in Python's timestamp()."""
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


def _plain(out, value, depth, budget):
    """Appends a numpy value as the equivalent Python value."""
    if value.dtype.kind in "mM":  # depending on its unit, numpy returns a datetime, an int or None
        raise Unfit(TypeError, _refusal(value.dtype.type))
    plain = value.tolist() if type(value).__name__ == "ndarray" else value.item()
    if type(plain) is type(value):
        _refuse(out, value, depth, budget)
    _append(out, plain, depth, budget)


def _refuse(out, value, depth, budget):
    raise Unfit(TypeError, _refusal(type(value)))


def _refusal(kind):
    hint = _HINTS.get(kind.__name__) or _HINTS.get(_known_as(kind)) or ("use dataclasses.asdict(...)" if hasattr(kind, "__dataclass_fields__") else "")
    return "a value of type %s cannot be sent%s" % (kind.__qualname__, ": " + hint if hint else "")


def _known_as(kind):
    """Returns a type's name with the name of its library."""
    return "%s.%s" % (str(getattr(kind, "__module__", None)).partition(".")[0], kind.__name__)


_WRITERS = {
    type(None): _none,
    bool: _bool,
    str: _text,
    int: _integer,
    float: _float,
    bytes: _binary,
    dict: _mapping,
    list: _array,
    tuple: _array,
    datetime: _time,
}
_SIMILAR = (
    (str, _text),
    (int, lambda out, value, depth, budget: _integer(out, int(value), depth, budget)),
    (float, _float),
    (bytes, _binary),
    ((bytearray, memoryview), _bytearray),
    (dict, _mapping),
    ((list, tuple), _array),
    (datetime, _time),
)


def _writer(value):
    """Returns the function that writes a value of any other type: that of a base class, or that for numpy values."""
    kind = type(value)
    known = _known_as(kind)
    if known in _NO_VALUE:
        return _none
    for base, write in _SIMILAR:
        if issubclass(kind, base):
            return write
    if known == "numpy.ndarray" or known.startswith("numpy.") and getattr(value, "shape", None) == () and hasattr(value, "item"):
        return _plain
    return _refuse


# ---------------------------------------------------------------- decoding

_NUMBERS = {
    0xCA: ("f", 4),
    0xCB: ("d", 8),
    0xCC: ("B", 1),
    0xCD: ("H", 2),
    0xCE: ("I", 4),
    0xCF: ("Q", 8),
    0xD0: ("b", 1),
    0xD1: ("h", 2),
    0xD2: ("i", 4),
    0xD3: ("q", 8),
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
_POSITIVE = bytes(range(128))


def decode(*parts):
    """Returns the value encoded in these parts; raises ValueError if the encoding is invalid."""
    if len(parts) > 1:
        whole = _one_sized(parts)
        if whole is not None:
            return whole
    encoded = parts[0] if len(parts) == 1 else b"".join(parts)
    try:
        value, end = _value(encoded, 0, 0)
    except (IndexError, error):
        end = MAX_BYTES + 1
    if end > len(encoded):
        raise ValueError("the document ends inside a value")
    if end < len(encoded):
        raise ValueError("%d bytes behind the value" % (len(encoded) - end))
    return value


def _one_sized(parts):
    """Returns one large text or bytes, and copies its parts only once. Returns None for any other value."""
    first = parts[0]
    kind, width = _SIZED.get(first[0] if first else 0, ("", 0))
    if kind not in ("bin", "str") or len(first) <= width or int.from_bytes(first[1 : 1 + width], "big") + 1 + width != sum(map(len, parts)):
        return None
    whole = b"".join((memoryview(first)[1 + width :],) + parts[1:])
    return whole if kind == "bin" else whole.decode()


# Reading does not notice a value that is cut off at the end. decode does, because the next
# value would begin after the end.


def _value(b, i, depth):
    code = b[i]
    i += 1
    if code < 0x80:
        return code, i
    if code >= 0xE0:
        return code - 256, i
    if code < 0x90:
        return _map(b, i, code & 15, depth)
    if code < 0xA0:
        return _list(b, i, code & 15, depth)
    if code < 0xC0:
        end = i + (code & 31)
        return b[i:end].decode(), end
    if code in _CONSTANTS:
        return _CONSTANTS[code], i
    if code in _NUMBERS:
        layout, width = _NUMBERS[code]
        return unpack_from(">" + layout, b, i)[0], i + width
    if code in _SIZED:
        kind, width = _SIZED[code]
        n, i = int.from_bytes(b[i : i + width], "big"), i + width
        if kind == "map":
            return _map(b, i, n, depth)
        if kind == "array":
            return _list(b, i, n, depth)
        end = i + n
        if end > len(b):
            return None, end
        return (b[i:end] if kind == "bin" else b[i:end].decode()), end
    if code == 0xC7:
        return _timestamp(b, i + 1, b[i])
    if code in _TIMES:
        return _timestamp(b, i, _TIMES[code])
    raise ValueError("byte %#04x in a document" % code)


def _deep(depth):
    if depth >= MAX_DEPTH:
        raise ValueError("nested deeper than %d" % MAX_DEPTH)


def _list(b, i, n, depth):
    _deep(depth)
    values, alone = [], 0 if n >= _MANY else n
    while len(values) < n:
        code = b[i]
        if 0xA0 <= code < 0xC0:
            begin = i + 1
            i = begin + (code & 31)
            values.append(b[begin:i].decode())
        elif len(values) >= alone and (code < 0x80 or code in _NUMBERS):
            before = len(values)
            i = _run(values, b, i, code, n - before)
            if len(values) - before < _MANY:
                alone = len(values) + 2 * _MANY  # alternating kinds are read faster one at a time
        else:
            value, i = _value(b, i, depth + 1)
            values.append(value)
    return values, i


def _run(values, b, i, code, most):
    """Reads consecutive numbers of one width, from i on; most is the largest number of them."""
    layout, width = _NUMBERS.get(code, ("B", 0))
    same = bytes((code,)) if width else _POSITIVE
    step, n, window = width + 1, 0, _MANY
    while n < most:  # a short run in a long list costs no more than its length
        codes = b[i + n * step : i + min(n + window, most) * step : step]
        found = len(codes) - len(codes.lstrip(same))
        n += found
        if found < window:
            break
        window *= 4
    end = i + n * step
    if width == 0 or end > len(b):
        values.extend(b[i:end])
        return end
    data = bytearray(n * width)
    for k in range(width):
        data[k::width] = b[i + 1 + k : end : step]
    numbers = array(layout, bytes(data))
    if byteorder == "little":
        numbers.byteswap()
    values.extend(numbers)
    return end


def _map(b, i, n, depth):
    _deep(depth)
    mapping = {}
    for _ in range(n):
        name, i = _value(b, i, depth + 1)
        if type(name) is not str:
            raise ValueError("a key of a map is not text")
        mapping[name], i = _value(b, i, depth + 1)
    return mapping, i


def _timestamp(b, i, size):
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
