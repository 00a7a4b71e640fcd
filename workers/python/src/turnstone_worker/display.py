"""Values and pictures: the last expression's value, the arguments of display(), and matplotlib's figures.

A picture is an image; of what only a browser can show, one line says what it is.

A figure is sent once, when it is shown or its cell ends, and closed then, so that the
next cell starts a new one. A figure that changes while it is shown is sent again as an
update.
"""
import builtins
import io
import os
import sys
from time import sleep

from turnstone_worker import imports
from turnstone_worker.codec import MAX_FRAME, text

_PICTURES = (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"))
_READABLE = ("_repr_markdown_", "_repr_latex_")
_MARKUP = (("_repr_svg_", "image/svg+xml"), ("_repr_html_", "text/html"))
_SIGNATURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8"}
_MAX_IMAGE = MAX_FRAME - (256 << 10)  # bytes, which leaves room for the other fields


class Display:
    def __init__(self, channel, streams, dpi):
        self.channel = channel
        self.streams = streams
        self.dpi = dpi
        self.sent = {}  # of open figures: [source, the bytes last sent]
        self.count = 0  # of figures

    def install(self):
        os.environ.setdefault("MPLBACKEND", "agg")  # children inherit it, so it must be a backend that they have too
        sys.displayhook = self.show

        def display(*values, raw=False, **options):
            """Shows values: pictures as pictures, everything else as text."""
            self.display(values, raw)

        display.__module__ = "builtins"
        display.__qualname__ = "display"
        builtins.display = display

    def show(self, value):
        """sys.displayhook."""
        if value is None:
            return
        builtins._ = None  # like the native hook, so that a failing repr leaves no stale value
        self._put(value)
        builtins._ = value

    def display(self, values, raw):
        """Implements display(). A raw value is a bundle: data by MIME type."""
        for value in values:
            self._put(value, raw and isinstance(value, dict))

    def _put(self, value, raw=False):
        """Shows a picture as an image, everything else as its repr."""
        shown = None if self.channel.forked else self._bundle("value", value) if raw else self._rich(value)
        if shown is not True:
            _print(repr(value) if shown is None else shown)

    def image(self, data, mime="image/png", source="", update=False, title=""):
        """Sends a picture; one that fits no frame becomes a notice."""
        self.streams.flush()
        if len(data) > _MAX_IMAGE:
            sys.stderr.write("[a picture of %d bytes is not shown: the limit is %d]\n" % (len(data), _MAX_IMAGE))
            return
        message = {"type": "image", "mime": mime, "data": bytes(data), "update": update}
        if source:
            message["source"] = text(source)
        if title:
            message["title"] = text(title)
        self.channel.send(message, True)

    def _rich(self, value):
        """True if the value was shown as a picture, or the text to show instead of its repr, or None."""
        kind = type(value)
        if kind.__name__ == "Figure" and kind.__module__ == "matplotlib.figure":
            self._send_figure(value)
            return True
        if any(k.__name__ == "BaseFigure" and k.__module__ == "plotly.basedatatypes" for k in kind.__mro__[1:]):
            return self._plotly(value)
        bundle = _rendered(value, "_repr_mimebundle_", include=None, exclude=None)
        if isinstance(bundle, dict):
            shown = self._bundle(kind.__name__, bundle)
            if shown is not None:
                return shown
        for method, mime in _PICTURES:
            if self._picture(_rendered(value, method), mime):
                return True
        if kind.__repr__ is not object.__repr__ and not str(kind.__module__).startswith("IPython."):
            return None
        for method in _READABLE:
            data = _rendered(value, method)
            if isinstance(data, str):
                return data
        for method, mime in _MARKUP:
            data = _rendered(value, method)
            if isinstance(data, str):
                return "[%s: %d characters of %s, which cannot be shown here]" % (kind.__name__, len(data), mime)
        return None

    def _bundle(self, name, bundle):
        """Shows the best representation in a bundle; returns the same as _rich."""
        for _, mime in _PICTURES:
            if self._picture(bundle.get(mime), mime):
                return True
        if isinstance(bundle.get("text/plain"), str):
            return bundle["text/plain"]
        if bundle:
            return "[%s: %s, which cannot be shown here]" % (name, ", ".join(map(str, list(bundle)[:5])))
        return None

    def _picture(self, data, mime):
        """Sends the data of a picture, bytes or base64; reports whether it was one."""
        if isinstance(data, str):
            try:
                data = imports.quietly("binascii").a2b_base64(data)
            except ValueError:
                return False
        if not isinstance(data, (bytes, bytearray)) or not data.startswith(_SIGNATURES[mime]):
            return False
        self.image(data, mime)
        return True

    def _plotly(self, figure):
        """Describes a figure of plotly in one line, and shows its picture if plotly can make one."""
        kinds = [str(trace.type) for trace in figure.data]
        title = figure.layout.title.text
        line = "plotly %s of %d traces" % (type(figure).__name__, len(kinds))
        if kinds:
            line += ": " + ", ".join(list(dict.fromkeys(kinds))[:5])
        if title:
            line += ": " + str(title)[:200]
        if imports.quietly("importlib.util").find_spec("kaleido") is None:
            return "[%s; a picture of it needs the package kaleido]" % line
        try:
            data = figure.to_image(format="png")
        except Exception as e:
            return "[%s; kaleido made no picture: %s]" % (line, (str(e).strip() or type(e).__name__).split("\n")[0][:200])
        _print("[%s]" % line)
        return self._picture(data, "image/png") or None

    # ------------------------------------------------------------ libraries that show things

    def teach_ipython(self, module):
        """IPython's display() shows things in a kernel, and prints their repr without one."""
        native = module.display

        def display(*objs, **options):
            shell = sys.modules.get("IPython.core.interactiveshell")
            if self.channel.forked or shell is not None and shell.InteractiveShell.initialized():
                return native(*objs, **options)
            self.display(objs, options.get("raw", False))
            name = options.get("display_id")
            return module.DisplayHandle(None if name is True else name) if name else None

        display.__doc__ = native.__doc__
        module.display = display

    def teach_pillow(self, module):
        """Image.show() starts a program of the desktop."""
        display = self

        class Viewer(module.Viewer):
            def show(self, image, **options):
                if display.channel.forked:
                    return False
                data = _rendered(image, "_repr_png_") or _rendered(image.convert("RGB"), "_repr_png_")
                return display._picture(data, "image/png")

        module._viewers.insert(0, Viewer())

    def teach_plotly(self, module):
        """Figure.show() opens a browser, unless a renderer is chosen."""
        native, usual = module.show, module.renderers.default

        def show(fig, renderer=None, *args, **options):
            if self.channel.forked or renderer is not None or "PLOTLY_RENDERER" in os.environ or module.renderers.default != usual:
                return native(fig, renderer, *args, **options)
            self._put(fig)

        show.__doc__ = native.__doc__
        module.show = show

    # ------------------------------------------------------------ matplotlib

    def teach(self, pyplot):
        """Makes pyplot show figures here, as long as it draws into memory."""
        native_show, native_pause = pyplot.show, pyplot.pause

        def show(*args, **kwargs):
            if self._is_native(pyplot):
                return native_show(*args, **kwargs)
            self._send_all(pyplot, True)

        def pause(interval):
            if self._is_native(pyplot):
                return native_pause(interval)
            self._send_all(pyplot, False)
            sleep(interval)

        show.__doc__, pause.__doc__ = native_show.__doc__, native_pause.__doc__
        pyplot.show, pyplot.pause = show, pause

        figure = sys.modules["matplotlib.figure"].Figure
        native_figure_show = figure.show

        def show(self_, *args, **kwargs):
            if self._is_native(pyplot):
                return native_figure_show(self_, *args, **kwargs)
            self._send_figure(self_)

        show.__doc__ = native_figure_show.__doc__
        figure.show = show

    def finish(self):
        """Sends and closes the figures that a cell has drawn and not shown."""
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None and hasattr(pyplot, "get_fignums") and not self._is_native(pyplot):
            self._send_all(pyplot, True)

    def _is_native(self, pyplot):
        return self.channel.forked or pyplot.get_backend().lower() != "agg"

    def _send_all(self, pyplot, close):
        for number in pyplot.get_fignums():
            figure = pyplot.figure(number)
            if figure.axes or figure.texts or figure.lines or figure.images or figure.patches or figure.artists:
                self._send_figure(figure)
            if close:
                self.sent.pop(figure, None)
                pyplot.close(figure)

    def _send_figure(self, figure):
        known = self.sent.get(figure)
        if known is not None and not figure.stale:
            return
        buffer = io.BytesIO()
        figure.canvas.print_figure(buffer, format="png", bbox_inches="tight", **({"dpi": self.dpi} if self.dpi else {}))
        figure.stale = False
        data = buffer.getvalue()
        if known is None:
            self.count += 1
            source = "figure-%d" % self.count
        elif known[1] == data:
            return  # a tight bounding box leaves a figure stale
        else:
            source = known[0]
        self.image(data, "image/png", source, known is not None, _title(figure))
        self.sent[figure] = source, data
        while len(self.sent) > 64:
            del self.sent[next(iter(self.sent))]


def _rendered(value, method, **arguments):
    """The result of a display method of a value, without metadata; None if the method fails."""
    render = getattr(type(value), method, None)
    if render is None:
        return None
    try:
        data = render(value, **arguments)
    except Exception:
        return None  # its repr is shown instead
    return data[0] if isinstance(data, tuple) and data else data


def _print(shown):
    out = sys.stdout
    try:
        out.write(shown + "\n")
    except UnicodeEncodeError:
        out.write(shown.encode(out.encoding, "backslashreplace").decode(out.encoding) + "\n")


def _title(figure):
    """The title of a figure."""
    heading = getattr(figure, "_suptitle", None)
    titles = [heading.get_text()] if heading is not None else []
    titles += [axes.get_title() for axes in figure.axes[:4]]
    return next((t for t in titles if t), "")
