"""Values and pictures: the last expression's value, and matplotlib's figures.

A figure is sent once, when it is shown or its cell ends, and closed then, so that the
next cell starts a new one. A figure that changes while it is shown is sent again as an
update.
"""
import builtins
import io
import os
import sys
from time import sleep

from turnstone_worker.codec import MAX_FRAME, text

_PICTURES = (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg"))
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
        os.environ.setdefault("MPLBACKEND", "agg")  # children inherit it: one that this worker alone knows would break them
        sys.displayhook = self.show

    def show(self, value):
        """sys.displayhook: pictures as images, everything else as its repr."""
        if value is None:
            return
        builtins._ = None  # as the native hook does: a failing repr leaves no stale value
        if not self._picture(value):
            shown = repr(value)
            out = sys.stdout
            try:
                out.write(shown + "\n")
            except UnicodeEncodeError:
                out.write(shown.encode(out.encoding, "backslashreplace").decode(out.encoding) + "\n")
        builtins._ = value

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

    def _picture(self, value):
        kind = type(value)
        if self.channel.forked:
            return False
        if kind.__name__ == "Figure" and kind.__module__ == "matplotlib.figure":
            self._send_figure(value)
            return True
        for method, mime in _PICTURES:
            render = getattr(kind, method, None)
            if render is None:
                continue
            try:
                data = render(value)
            except Exception:
                continue  # its repr will do
            if isinstance(data, tuple):
                data = data[0]  # with metadata
            if isinstance(data, (bytes, bytearray)) and data.startswith(_SIGNATURES[mime]):
                self.image(data, mime)
                return True
        return False

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
        """Sends and closes what a cell has drawn and not shown."""
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


def _title(figure):
    """What a figure calls itself."""
    heading = getattr(figure, "_suptitle", None)
    titles = [heading.get_text()] if heading is not None else []
    titles += [axes.get_title() for axes in figure.axes[:4]]
    return next((t for t in titles if t), "")
