"""Bundles: the representations of a value, as bytes by MIME type.

This module calls methods of user code. They may raise, print, sleep, recurse, or return anything:
each failure causes a notice, and the rest of the bundle is shown. Only an interrupt propagates.
"""
import io
import sys

from turnstone_worker import imports

MOST = 16 << 20  # bytes of a bundle; the largest types are left out first, but never text/plain
_MOST_TEXT = 4 << 20  # bytes of text/plain, which is truncated
_MOST_TYPES = 32
_MOST_META = 1 << 20
_MOST_NAME = 200  # bytes of a type's name
_MOST_NOTICES = 5

_MOST_DRAWN = 256 << 10  # bytes of the JSON of a chart that is also drawn as SVG, which takes as long again as an image

IMAGES = (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"))
OTHERS = (
    ("_repr_markdown_", "text/markdown"),
    ("_repr_latex_", "text/latex"),
    ("_repr_html_", "text/html"),
    ("_repr_svg_", "image/svg+xml"),
    ("_repr_json_", "application/json"),
    ("_repr_javascript_", "application/javascript"),
    ("_repr_pdf_", "application/pdf"),
)
_SIGNATURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8"}
_BASE64 = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"))
_FAMILIES = ("image/", "audio/", "video/", "font/")  # of binary types, whose text is base64 if it can be
_WIDGET = "application/vnd.jupyter.widget-view+json"


class Bundle:
    """The types of one value, while they are collected."""

    mirrors = staticmethod(lambda model: False)  # whether front ends have the comm of this widget

    def __init__(self, name, include=None, exclude=None):
        self.name = self.title = name  # of the value's type
        self.include = include or None  # the types that the caller of display() asked for; None for all
        self.exclude = exclude or ()
        self.data = {}  # bytes by MIME type
        self.meta = {}
        self.notices = []
        self.complete = False  # all methods were called
        self.is_widget = False  # of ipywidgets, of which only the text is shown

    def say(self, notice):
        if len(self.notices) < _MOST_NOTICES:
            self.notices.append(notice)

    def wants(self, mime):
        return (self.include is None or mime in self.include) and mime not in self.exclude

    def ask(self, value, method, mime):
        """Adds the result of one method of the value, unless the type is present or not wanted."""
        if mime not in self.data and self.wants(mime):
            data, meta = self.call(value, method)
            if data is not None and self.add(mime, data, method + "()") and isinstance(meta, dict) and meta:
                self.add_meta({mime: meta})

    def ask_for_all(self, value):
        """Adds the result of _repr_mimebundle_."""
        data, meta = self.call(value, "_repr_mimebundle_", include=self.include, exclude=self.exclude or None)
        if isinstance(data, dict):
            self.add_all(data, {key: one for key, one in meta.items() if self.wants(key)} if isinstance(meta, dict) else None, "_repr_mimebundle_()")
        elif data is not None:
            self.say("_repr_mimebundle_() of %s returned %s, not a dict" % (self.name, type(data).__name__))

    def add_all(self, data, meta=None, source="the bundle"):
        for mime, one in list(data.items())[:_MOST_TYPES]:
            if one is not None:
                self.add(mime, one, source)
        self.add_meta(meta)

    def add_meta(self, meta):
        """Adds metadata: entries of a type under its MIME type, others under their own keys."""
        if isinstance(meta, dict):
            self.meta = self.guarded("the metadata", _merged, self.meta, meta) or self.meta

    def shows_itself(self, value):
        """Lets a value show itself, by printing or displaying; reports whether it did."""
        if _goes_on_as_text(value, self.mirrors):
            return True
        if not has(value, "_ipython_display_") or chart(value) is not None:
            return False

        def show():
            try:
                type(value)._ipython_display_(value)
            except NotImplementedError:  # the value declines in this way, as in IPython
                return False
            return True

        return bool(self.guarded("_ipython_display_()", show))

    def call(self, value, method, **arguments):
        """Calls a display method of a value and returns its data and metadata; None if the method is missing or fails."""
        if not has(value, method):
            return None, None
        data = self.guarded(method + "()", lambda: getattr(type(value), method)(value, **arguments))
        return data if isinstance(data, tuple) and len(data) == 2 else (data, None)

    def guarded(self, what, function, *args, **kwargs):
        """Returns the result of a function of user code; if it raises, adds a notice and returns None."""
        try:
            return function(*args, **kwargs)
        except NotImplementedError:
            return None  # in IPython, this means that the value has no such representation
        except (Exception, SystemExit, GeneratorExit) as e:
            self.say("%s of %s failed: %s" % (what, self.name, brief(e)))
            return None

    def add(self, mime, data, source="the bundle"):
        """Adds one type; reports whether the data is valid for it."""
        if type(mime) is not str or not 0 < len(mime.encode("utf-8", "replace")) <= _MOST_NAME or not mime.isprintable():
            self.say("%s of %s has a type that is no MIME type: %.80r" % (source, self.name, mime))
            return False
        if mime == _WIDGET and not (isinstance(data, dict) and self.mirrors(data.get("model_id"))):
            self.is_widget = True
            return True
        if not self.wants(mime) or mime == "text/plain" and mime in self.data:
            return False
        data = self.guarded(source, _coded, mime, data)
        if data is None:
            return False
        if type(data) is str:
            self.say("%s of %s: %s" % (source, self.name, data))
            return False
        self.data[mime] = data
        return True

    def has_picture(self):
        return "image/png" in self.data or "image/jpeg" in self.data

    def fit(self):
        """Removes what exceeds the bounds."""
        if self.is_widget:
            self.data["text/plain"] = (self.data.get("text/plain") or self.name.encode()) + b"\n[a widget, of which only this text is shown]"
        plain = self.data.get("text/plain")
        if plain is not None and len(plain) > _MOST_TEXT:
            self.data["text/plain"] = plain[:_MOST_TEXT].decode("utf-8", "ignore").encode() + b"\n[cut off here]"
        while sum(map(len, self.data.values())) > MOST or len(self.data) > _MOST_TYPES:
            mime = max((m for m in self.data if m != "text/plain"), key=lambda m: len(self.data[m]))
            self.say("%s of %s, %d MB, is left out: a result may have %d MB" % (mime, self.name, len(self.data.pop(mime)) // 1000000, MOST // 1000000))
            self.meta.pop(mime, None)

    def metadata(self):
        """Returns the metadata as bytes of JSON; empty if there is none, or if it cannot be encoded."""
        if not self.meta:
            return b""
        data = self.guarded("the metadata", as_json, self.meta) or b""
        if len(data) <= _MOST_META:
            return data
        self.say("the metadata of %s, %d KB, are left out: a result may have %d KB" % (self.name, len(data) >> 10, _MOST_META >> 10))
        return b""


def _merged(one, other):
    """Returns the union of two sets of metadata, without changing them. At equal keys, other takes precedence."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return {**one, **{key: _merged(one.get(key), value) for key, value in other.items()}}


def has(value, method):
    """Reports whether the class of a value has a method. A metaclass is not asked: its __getattr__ may do anything."""
    found = (vars(kind)[method] for kind in type(value).__mro__ if method in vars(kind))
    return next(found, None) is not None


def brief(error):
    """An error in one short line."""
    try:
        message = str(error).strip()
    except Exception:
        message = ""
    name = type(error).__name__
    return "%s: %s" % (name, message.split("\n")[0][:200]) if message else name


def _coded(mime, data):
    """Returns the data of one type as bytes, or a text that says what is wrong with it."""
    if type(data) is str and (mime in _BASE64 or mime.startswith(_FAMILIES) and not mime.endswith("+xml")):
        try:
            data = imports.quietly("binascii").a2b_base64(data)
        except ValueError:
            if mime in _BASE64:
                return "%s is not base64" % mime
    if mime in _BASE64:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            return "%s is %s, not bytes" % (mime, type(data).__name__)
        data = bytes(data)
        return data if data.startswith(_SIGNATURES.get(mime, b"")) else "its data is no %s" % mime
    if isinstance(data, str):
        return str.encode(data, "utf-8", "backslashreplace")
    if mime == "application/json" or mime.endswith("+json"):
        return data if type(data) is bytes and _is_text(data) else as_json(data)
    if isinstance(data, (bytes, bytearray)) and not mime.startswith("text/"):
        return bytes(data)
    return "%s is %s, not text" % (mime, type(data).__name__)


def _is_text(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def as_json(value):
    """Returns a value as bytes of JSON, with null for NaN, which JSON lacks."""
    json = imports.quietly("json")
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    except ValueError:
        return json.dumps(_without_nan(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _without_nan(value):
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(v) for v in value]
    return value


def _goes_on_as_text(value, mirrors):
    """Makes a bar of tqdm.notebook, which is a widget, one of text, unless front ends have its comm; reports whether it did."""
    std = sys.modules.get("tqdm.std")
    if std is None or type(value).__name__ != "TqdmHBox" or type(value).__module__ != "tqdm.notebook":
        return False
    if mirrors(value.model_id):
        return False
    bar, ended = value.pbar, []
    show = std.tqdm.status_printer(bar.fp)

    def display(msg=None, pos=None, close=False, bar_style=None, check_delay=True):
        if not ended:
            facts = bar.format_dict
            width = facts.get("ncols")  # may be "100%"
            show("" if close else bar.format_meter(**dict(facts, ncols=width if isinstance(width, int) else None)))
        if bar_style is not None and not ended:
            ended.append(bar_style)
            bar.fp.write("\n")

    bar.display = display
    return True


# ---------------------------------------------------------------- charts, by their own JSON


def chart(value):
    """Returns the function that adds a chart's own JSON to a bundle; None if the value is not a known chart."""
    for kind in type(value).__mro__:
        add = _CHARTS.get((str(kind.__module__).partition(".")[0], kind.__name__))
        if add is not None:
            return add
    return None


def _name_library(bundle, mime, package, *files):
    """Adds the files of a chart's library to the metadata, for readers that draw. Each is a path in the package."""
    origin = getattr(sys.modules.get(package), "__file__", None)
    if isinstance(origin, str):
        path = imports.quietly("os").path
        home = path.dirname(path.abspath(origin))
        bundle.add_meta({mime: {"turnstone_library": [path.join(home, *file.split("/")) for file in files]}})


def _plotly(bundle, figure):
    mime = "application/vnd.plotly.v1+json"
    spec = bundle.guarded("to_json()", figure.to_json)
    if spec is not None and bundle.add(mime, spec, "to_json()"):
        _name_library(bundle, mime, "plotly", "package_data/plotly.min.js")
    if imports.quietly("importlib.util").find_spec("kaleido") is not None:
        image = bundle.guarded("to_image()", lambda: figure.to_image(format="png"))
        if image is not None:
            bundle.add("image/png", image, "to_image()")


def _altair(bundle, figure):
    spec = bundle.guarded("to_json()", lambda: figure.to_json(indent=None))
    if spec is None:
        return
    version = str(getattr(sys.modules.get("altair"), "SCHEMA_VERSION", "v5")).partition(".")[0]
    bundle.add("application/vnd.vegalite.%s+json" % version, spec, "to_json()")
    if '"url"' in spec:  # drawing it would load data from the network
        return
    if imports.quietly("importlib.util").find_spec("vl_convert") is not None:
        image = bundle.guarded("save()", lambda: _saved(figure, io.BytesIO(), "png"))
        if image is not None:
            bundle.add("image/png", image, "save()")
            if len(spec) <= _MOST_DRAWN:
                drawing = bundle.guarded("save()", lambda: _saved(figure, io.StringIO(), "svg"))
                if drawing is not None:
                    bundle.add("image/svg+xml", drawing, "save()")


def _saved(figure, file, form):
    figure.save(file, format=form)
    return file.getvalue()


def _bokeh(bundle, model):
    embed = sys.modules.get("bokeh.embed")
    if embed is None:
        import bokeh.embed as embed
    owned = model.document is not None
    item = bundle.guarded("json_item()", embed.json_item, model)
    if not owned and model.document is not None:
        model.document.clear()  # a model that stays in a document could not be added to a layout
    mime = "application/vnd.bokeh.v3+json"
    if item is not None and bundle.add(mime, item, "json_item()"):
        _name_library(bundle, mime, "bokeh", *("server/static/js/%s.min.js" % one for one in _bokeh_scripts(bundle, model)))


def _bokeh_scripts(bundle, model):
    """The scripts that draw a model. bokeh-gl is never one: it compiles text, and without it bokeh draws on a canvas."""
    modules = bundle.guarded("references()", lambda: {type(one).__module__ for one in model.references()}) or ()
    yield "bokeh"
    if any(one.startswith("bokeh.models.widgets") for one in modules):
        yield "bokeh-widgets"
    if "bokeh.models.widgets.tables" in modules:
        yield "bokeh-tables"
    if "bokeh.models.text" in modules:
        yield "bokeh-mathjax"


_CHARTS = {
    ("plotly", "BaseFigure"): _plotly,
    ("altair", "TopLevelMixin"): _altair,
    ("bokeh", "LayoutDOM"): _bokeh,
}
