"""Tables: data frames of pandas and polars as bounded rows of text, for readers that page through them.

A display has the first rows. It also has a handle, a weak reference to the data frame: more rows are
read, sorted and searched only when a query asks for them, by the library and not cell by cell. A
data frame that nothing else refers to is gone, and so is one that the worker has forgotten.
"""
import os
import re
import sys
import weakref
from _thread import get_ident

from turnstone_worker import bundles, imports

MIME = "application/vnd.turnstone.table+json"
_FIRST = 50  # rows in a display
_FIRST_BYTES = 128 << 10  # of a display; one row and all names always fit
_MOST_ROWS = 1000
_MOST_COLUMNS = 50
_MOST_BYTES = 240 << 10  # of a page, without the bytes that a query adds
_MOST_HANDLES = 16
_MOST_CELL = 200  # characters
_MOST_NAME = 100
_MOST_TYPE = 50
_MOST_SORTED = 5000000  # rows that are sorted or searched; these calls of a library cannot be interrupted
_SAMPLE = 10000
_MOST_TEXTS = 1000000  # rows of texts of Python, which take longer to sort
_ORDERED = frozenset(("string", "bytes", "floating", "integer", "mixed-integer-float", "decimal", "complex", "boolean", "datetime", "datetime64", "date", "time", "timedelta", "timedelta64", "period"))

_CONTAINERS = (list, tuple, dict, set, frozenset, bytes, bytearray)

_shown = {}  # by handle: a weak reference to the data frame, and the digest of its first rows
_count = 0
_worker = ""  # distinguishes handles from those of the workers before


def add(bundle, value):
    """Adds the first rows of a data frame to its bundle. A failure leaves them out: other types show the value."""
    kind = _kind(value)
    if kind is None or not bundle.wants(MIME) or bundle.include is not None:
        return
    try:
        frame = kind(value)
        table = _Page(frame, frame.part(0, _FIRST), _FIRST_BYTES).table()
        digest = hash(bundles.as_json(table))
        table["handle"] = _handle(value, digest)
        bundle.data[MIME] = bundles.as_json(table)
    except Exception:
        pass


def page(question, channel):
    """Returns the answer to a table query as JSON, or None if the table is gone. The methods that
    show cells of user code as text may print, which is dropped."""
    json = imports.quietly("json")
    question = json.loads(question)
    reference, digest = _shown.get(question.get("handle"), (None, 0))
    value = reference() if reference is not None else None
    kind = _kind(value)
    if kind is None:
        return None
    thread = get_ident()
    channel.writers[thread] = lambda data: None
    try:
        return bundles.as_json(_answer(kind(value), question, digest))
    finally:
        channel.writers.pop(thread, None)


def _answer(frame, question, digest):
    changed = hash(bundles.as_json(_Page(frame, frame.part(0, _FIRST), _FIRST_BYTES).table())) != digest
    start, count = int(question.get("from", 0)), min(int(question["count"]), _MOST_ROWS)
    note, order, matched, unsorted = "", None, frame.rows, ""
    find, sort = question.get("find") or "", question.get("sort")
    if (find or sort) and frame.rows > _MOST_SORTED:
        note = unsorted = "A table of more than %s rows is neither sorted nor searched." % _grouped(_MOST_SORTED)
    else:
        if find:
            order, left = frame.find(find)
            matched = len(order)
            if left:
                note = "%s of other types %s not searched." % (_counted(left, "column"), "was" if left == 1 else "were")
        order, unsorted = _sorted(frame, sort, order, start + count)
        note = " ".join(filter(None, (unsorted, note)))
    shown = frame.part(start, count) if order is None else frame.take(order[start : start + count])
    table = _Page(frame, shown, _MOST_BYTES).table()
    table.update({"from": start, "matched": matched})
    if changed:
        table["changed"] = True
    if sort and unsorted:
        table["unsorted"] = True
    if note:
        table["note"] = note
    table["handle"] = question["handle"]
    return table


def _sorted(frame, sort, order, end):
    """Returns the positions of at least the first end rows in the order of a query, and why they are not sorted."""
    if not sort or int(sort["column"]) >= frame.columns:
        return order, ""
    try:
        return frame.sort(int(sort["column"]), bool(sort.get("descending")), order, end), ""
    except (TypeError, ValueError, _Unsorted) as e:
        return order, "The column is not sorted: %s." % (e if isinstance(e, _Unsorted) else "its values have no order")


def _sample(n, end):
    """Returns how a limit for the first end of n values is found: the step of a sample, and the place in
    it of the limit. Few values are below the limit, so that only these are sorted. Without a step, all are."""
    step = n // _SAMPLE
    place = end * _SAMPLE // n + 50 if n else 0
    return (step, place) if step > 1 and place < _SAMPLE // 4 else (0, 0)


class _Unsorted(Exception):
    """Says why a column is not sorted."""


def _handle(value, digest):
    """Returns a handle for a value; "" if the value cannot be referred to weakly."""
    global _count, _worker
    try:
        reference = weakref.ref(value)
    except TypeError:
        return ""
    _worker = _worker or os.urandom(4).hex()
    _count += 1
    handle = "t%d-%s" % (_count, _worker)
    _shown[handle] = reference, digest
    for old in [name for name, (other, _) in _shown.items() if other() is None]:
        del _shown[old]
    while len(_shown) > _MOST_HANDLES:
        del _shown[next(iter(_shown))]
    return handle


def _kind(value):
    """Returns the class that reads a value; None if it is no data frame. A class of user code counts as its base."""
    for library, kind in (("pandas", _Pandas), ("polars", _Polars)):
        base = vars(sys.modules[library]).get("DataFrame") if library in sys.modules else None
        if isinstance(base, type) and base in type(value).__mro__:
            return kind
    return None


# ---------------------------------------------------------------- text


class _Page:
    """Rows of a data frame as text, within the bounds."""

    def __init__(self, frame, shown, most):
        self.cut = 0
        columns = [self.column(name, kind, right) for name, kind, right in frame.names(shown)]
        index, cells = frame.cells(shown)
        rows = list(zip(*[[self.text(v) for v in column] for column in cells])) if cells else [()] * len(shown)
        self.result = {"v": 1, "columns": columns, "rows": rows, "total": [frame.rows, frame.columns]}
        if index is not None:
            self.result["index"] = [self.text(v) for v in index]
        left = most - len(bundles.as_json(columns))
        for i, row in enumerate(rows):
            left -= len(bundles.as_json(row)) + 1 + (0 if index is None else len(bundles.as_json(self.result["index"][i])) + 1)
            if left < 0:
                for name in ("rows", "index"):
                    if name in self.result:
                        self.result[name] = self.result[name][:i]
                break

    def table(self):
        return dict(self.result, cut=self.cut) if self.cut else dict(self.result)

    def column(self, name, kind, right):
        column = {"name": self.text(name, _MOST_NAME), "type": self.text(kind, _MOST_TYPE)}
        if right:
            column["align"] = "right"
        return column

    def text(self, value, most=_MOST_CELL):
        """Returns a value in one text, which is cut visibly."""
        shown = _told(value, most)
        self.cut += len(shown) > most or type(value) in _CONTAINERS and "..." in shown
        return shown if len(shown) <= most else shown[:most] + "…"


def _told(value, most):
    kind = type(value)
    try:
        if isinstance(value, str):
            return str.__str__(value)
        if kind is _Levels:
            return " / ".join(_told(v, most) for v in value)
        if kind is float:
            return "NaN" if value != value else repr(value)
        if kind in _CONTAINERS:
            return _short(most).repr(bytes(value[: most + 1]) if kind in (bytes, bytearray) else value)
        shown = str(value)
        return "NaN" if shown == "nan" else str.__str__(shown)
    except Exception:
        return "<%s>" % kind.__name__


class _Levels(tuple):
    """The names of a column or row in all levels of a MultiIndex."""


def _short(most):
    """Returns a repr that looks at few elements of a container."""
    reprlib = imports.quietly("reprlib")
    short = reprlib.Repr()
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = short.maxfrozenset = 40
    short.maxstring = short.maxother = short.maxlong = most
    return short


def _grouped(n):
    return "{:,}".format(n).replace(",", " ")


def _counted(n, what):
    return "%s %s%s" % (_grouped(n), what, "" if n == 1 else "s")


def _number(text):
    """Returns the number that a text is; None if it is none."""
    try:
        return int(text) if re.match(r"[-+]?[0-9]{1,18}$", text) else float(text)
    except ValueError:
        return None


# ---------------------------------------------------------------- pandas


class _Pandas:
    def __init__(self, value):
        self.pandas = sys.modules["pandas"]
        self.frame = self.pandas.DataFrame(value)  # the same data, without the methods of a subclass
        self.rows, self.columns = self.frame.shape

    def part(self, start, count):
        return self.frame.iloc[start : start + count, :_MOST_COLUMNS]

    def take(self, order):
        return self.frame.iloc[order, :_MOST_COLUMNS]

    def names(self, shown):
        several = isinstance(shown.columns, self.pandas.MultiIndex)
        for name, kind in zip(shown.columns, shown.dtypes):
            yield _Levels(name) if several else name, str(kind), self.is_number(kind)

    def cells(self, shown):
        index = shown.index
        names = [_Levels(name) for name in index] if isinstance(index, self.pandas.MultiIndex) else list(index)
        return names, [self.values(shown.iloc[:, i]) for i in range(shown.shape[1])]

    def values(self, column):
        return list(column.to_numpy()) if getattr(column.dtype, "kind", "") == "f" and column.dtype.itemsize < 8 else list(column)

    def is_number(self, kind):
        return self.pandas.api.types.is_numeric_dtype(kind) and not self.pandas.api.types.is_bool_dtype(kind)

    def column(self, at, order=None):
        """Returns a column whose index is the position of each row."""
        column = self.frame.iloc[:, at].reset_index(drop=True)
        return column if order is None else column.iloc[order]

    def is_object(self, column):
        return getattr(column.dtype, "kind", "O") == "O" and not isinstance(column.dtype, self.pandas.CategoricalDtype)

    def sort(self, at, descending, order, end):
        """Returns the positions of at least the first end rows. order has the positions of the rows that are sorted."""
        column = self.column(at, order)
        if isinstance(column.dtype, self.pandas.CategoricalDtype):
            return column.sort_values(ascending=not descending, kind="stable", na_position="last").index.to_numpy()
        missing = column.isna()
        present = column[~missing]
        if self.is_object(column):
            if self.pandas.api.types.infer_dtype(present, skipna=True) not in _ORDERED and len(present):
                raise _Unsorted("its values are of several types, or have no order")
            if len(present) > _MOST_TEXTS:
                raise _Unsorted("it has more than %s texts" % _grouped(_MOST_TEXTS))
        step, place = _sample(len(present), end)
        if step:
            limit = self.in_order(present.iloc[::step], descending).iloc[place]
            first = present[present >= limit if descending else present <= limit]
            if len(first) >= end:
                return self.in_order(first, descending).index.to_numpy()
        ordered = self.in_order(present, descending)
        return sys.modules["numpy"].concatenate([ordered.index.to_numpy(), column.index.to_numpy()[missing.to_numpy()]])

    def in_order(self, column, descending):
        if not self.is_object(column):
            return column.sort_values(ascending=not descending, kind="stable")
        values = column.tolist()  # Python sorts its own objects in half the time that numpy needs
        return column.iloc[sorted(range(len(values)), key=values.__getitem__, reverse=descending)]

    def find(self, text):
        """Returns the positions of the rows that have a text, and the number of columns that were not searched."""
        numpy = sys.modules["numpy"]
        found, left = numpy.zeros(self.rows, dtype=bool), 0
        for at in range(min(self.columns, _MOST_COLUMNS)):
            has = self.matches(self.frame.iloc[:, at], text)
            if has is None:
                left += 1
            else:
                found |= numpy.asarray(has, dtype=bool)
        return numpy.flatnonzero(found), left

    def matches(self, column, text):
        types = self.pandas.api.types
        kind = column.dtype
        if isinstance(kind, self.pandas.CategoricalDtype):
            all = column.cat.categories
            has = self.matches(all.to_series().reset_index(drop=True), text)
            return None if has is None else column.cat.codes.isin([i for i, one in enumerate(has) if one])
        if types.is_bool_dtype(kind):
            return column.eq(text.lower() == "true").fillna(False) if text.lower() in ("true", "false") else column.isin([])
        if types.is_numeric_dtype(kind):
            number = _number(text)
            return column.isin([]) if number is None else column.eq(number).fillna(False)
        if types.is_datetime64_any_dtype(kind):
            return self.within(column, text)
        if not self.is_object(column):
            return None
        if types.infer_dtype(column, skipna=True) not in ("string", "mixed", "mixed-integer", "empty"):
            return None
        return column.str.contains(text, case=False, regex=False, na=False)

    def within(self, column, text):
        """Compares times with a year, month, day or time."""
        if not re.match(r"[0-9]{4}(-[0-9]|$)", text):
            return column.isin([])
        try:
            period = self.pandas.Period(text)
            start, end = (self.pandas.Timestamp(one).tz_localize(getattr(column.dtype, "tz", None)) for one in (period.start_time, period.end_time))
        except ValueError:
            return column.isin([])
        return (column >= start) & (column <= end)


# ---------------------------------------------------------------- polars


class _Polars:
    def __init__(self, value):
        self.polars = sys.modules["polars"]
        base = self.polars.DataFrame
        self.frame = base._from_pydf(value._df) if type(value) is not base else value
        self.rows, self.columns = self.frame.shape

    def part(self, start, count):
        return self.frame[:, :_MOST_COLUMNS].slice(start, count)

    def take(self, order):
        return self.frame[:, :_MOST_COLUMNS][order]

    def names(self, shown):
        for name, kind in zip(shown.columns, shown.dtypes):
            yield name, str(kind), kind.is_numeric()

    def cells(self, shown):
        return None, [["null" if v is None else v for v in column.to_list()] for column in shown.iter_columns()]

    def sort(self, at, descending, order, end):
        column = self.frame.to_series(at)
        column = column if order is None else column[order]
        if column.dtype == self.polars.String and len(column) > _MOST_TEXTS:
            raise _Unsorted("it has more than %s texts" % _grouped(_MOST_TEXTS))
        try:
            places = self.places(column, descending, end)
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt):
                raise
            raise _Unsorted("its values have no order")
        return places if order is None else order[places]

    def places(self, column, descending, end):
        kind = column.dtype
        step, place = _sample(len(column), end)
        if step and (kind.is_numeric() or kind.is_temporal() or kind == self.polars.String):
            sample = column.gather_every(step).drop_nulls().sort(descending=descending)
            if place < len(sample):
                first = (column >= sample[place] if descending else column <= sample[place]).arg_true()
                if len(first) >= end:
                    return first[self.in_order(column[first], descending)]
        return self.in_order(column, descending)

    def in_order(self, column, descending):
        """Returns the positions of values in order. Equal ones keep their order, so that pages do not overlap."""
        rows = column.to_frame("value").with_row_index("at")
        return rows.sort("value", descending=descending, nulls_last=True, maintain_order=True)["at"]

    def find(self, text):
        polars, left = self.polars, 0
        found = polars.repeat(False, self.rows, dtype=polars.Boolean, eager=True)
        for column in self.frame[:, :_MOST_COLUMNS].iter_columns():
            has = self.matches(column, text)
            if has is None:
                left += 1
            else:
                found = found | has.fill_null(False)
        return found.arg_true(), left

    def matches(self, column, text):
        kind, polars = column.dtype, self.polars
        if kind.is_numeric():
            number = _number(text)
            return column == number if number is not None else column.is_null() & False
        if kind.is_temporal() and not re.match(r"[0-9][-0-9:. TZ]*$", text):
            return column.is_null() & False
        if kind.is_temporal() or kind in (polars.Categorical, polars.Boolean) or kind.__class__.__name__ == "Enum":
            column = column.cast(polars.String)
        elif kind != polars.String:
            return None
        return column.str.to_lowercase().str.contains(text.lower(), literal=True)
