"""Values and displays: the last expression's value, the arguments of display(), and matplotlib's figures.

A value is echoed as text. Its other representations are sent in one display, as data by MIME type:
readers choose what they can show. For display(), the text is in the display, too.

A figure is sent once, when it is shown or its cell ends. Then it is closed, so that the next cell
starts a new one. A figure that changes while it is shown is sent again as an update.
"""
import builtins
import io
import os
import sys
from _thread import get_ident
from time import sleep

from turnstone_worker import bundles, imports
from turnstone_worker.bundles import Bundle
from turnstone_worker.codec import text
from turnstone_worker.comms import Comms
from turnstone_worker.natives import resemble
from turnstone_worker.pretty import printed

# Values of these types have only their repr, so no other method is called.
_PLAIN = frozenset((int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, type, type(None), type(len), type(sys)))
_CONTAINERS = frozenset((list, tuple, dict, set, frozenset))
_MOST_CAUGHT = 4 << 10  # bytes that are kept of what a display method prints, for a notice


class Display:
    def __init__(self, channel, streams, dpi):
        self.channel = channel
        self.streams = streams
        self.dpi = dpi
        self.silent = False  # the turn echoes no value
        self.sent = {}  # of open figures: [id, the bytes last sent]
        self.count = 0  # of figures
        self.shell = None  # the functions that libraries have registered, if any has
        self.handles = 0  # number of generated ids
        self.captured = None  # the displays of a cell that captures them
        self.comms = Comms(channel)
        self.formats = None  # of figures in notebooks
        self.text = repr  # the function for the text of values

    def install(self):
        os.environ.setdefault("MPLBACKEND", "agg")  # children inherit it, so it must be a backend that they have, too
        sys.displayhook = self.show
        Bundle.mirrors = self.comms.mirrors

        def display(*values, include=None, exclude=None, metadata=None, display_id=None, raw=False, clear=False, **options):
            """Shows values, each as well as a reader can: as an image, a table, a chart or text.

            With raw, a value is a dict of data by MIME type. include and exclude choose among the
            types that a value offers. display_id, a name or True, returns a handle whose
            update(value) replaces what was shown."""
            if clear:
                self.clear(True)
            return self.display(values, display_id, False, Handle, raw=raw, metadata=metadata, include=include, exclude=exclude)

        def update_display(value, *, display_id, **options):
            """Replaces what display(..., display_id=...) has shown."""
            self.display((value,), display_id, True, None, **options)

        def clear_output(wait=False):
            """Removes what the turn has shown; with wait, only when the turn shows something new."""
            self.clear(wait)

        class Handle:
            """A handle that updates what display() has shown."""

            def __init__(self, display_id):
                self.display_id = display_id

            def display(self, value, **options):
                display(value, display_id=self.display_id, **options)

            def update(self, value, **options):
                update_display(value, display_id=self.display_id, **options)

            def __repr__(self):
                return "<display %s>" % self.display_id

        Handle.__module__, Handle.__qualname__, Handle.__name__ = "turnstone", "DisplayHandle", "DisplayHandle"
        display.__module__ = "builtins"
        self.functions = {"display": display, "update_display": update_display, "clear_output": clear_output}
        for name, function in self.functions.items():
            function.__qualname__ = name
        builtins.display = display

    def show(self, value):
        """sys.displayhook."""
        if value is None or self.silent:
            return
        # As in the native hook, a failing repr leaves no stale value. The previous value is freed
        # with this frame. A warning from its finalizer, such as about an open file, then belongs to
        # the input's line.
        _last, builtins._ = getattr(builtins, "_", None), None
        if type(value) in _PLAIN and not self._is_mixed(value) or self.channel.forked:
            self._echo(self.text(value))
        else:
            self._show(value)
        builtins._ = value

    def _is_mixed(self, value):
        """Reports whether a container may contain a value for which a library has registered a function."""
        return self.shell is not None and type(value) in _CONTAINERS and not _PLAIN.issuperset(map(type, value.values() if type(value) is dict else value))

    def _show(self, value):
        """Echoes a value, and shows its other representations."""
        if _is_figure(value):
            return self._send_figure(value)
        bundle = Bundle(type(value).__name__)
        if bundle.shows_itself(value):
            return
        echo = self._collect(bundle, value)
        if echo is not None:
            bundle.data.pop("text/plain", None)
            try:
                self._catch(bundle, self._complete, bundle, value)
            finally:
                if self.captured is None or not bundle.data:
                    self._echo(echo)  # last, so that the display follows at once
        if bundle.data:
            if echo is not None:
                bundle.data["text/plain"] = echo.encode("utf-8", "backslashreplace")
            self._send(bundle, "result")
        self._tell(bundle)

    def display(self, values, name, update, handle, /, **options):
        """Implements display() and update_display()."""
        if name is True:
            self.handles += 1
            name = "display-%d" % self.handles
        if not values and name is not None and not update and not self.channel.forked:
            self.streams.flush()  # marks the position of later updates
            self.channel.send({"type": "display", "data": {}, "update": False, "kind": "display", "id": text(str(name))}, True)
        for value in values:
            self._put(value, name, update, **options)
        return handle(name) if name is not None and not update else None

    def _put(self, value, name=None, update=False, /, raw=False, metadata=None, include=None, exclude=None, **options):
        """Shows one value. A raw value is a bundle: data by MIME type."""
        raw = raw and isinstance(value, dict)
        if self.channel.forked:
            return _print(repr(value))
        catch = self.channel.writers.get(get_ident())
        if callable(catch):
            return catch(b"display() was called by a method for display")
        if not raw and _is_figure(value) and name is None:
            return self._send_figure(value)
        bundle = Bundle("the value") if raw else Bundle(type(value).__name__, include, exclude)
        if not raw and bundle.shows_itself(value):
            return
        if raw or not bundle.wants("text/plain"):
            bundle.title = ""
        if raw:
            bundle.add_all(value, metadata)
        elif type(value) in _PLAIN:
            bundle.add("text/plain", self.text(value))
        else:
            echo = self._collect(bundle, value)
            self._catch(bundle, self._complete, bundle, value)
            if echo is not None and bundle.wants("text/plain"):
                bundle.data["text/plain"] = echo.encode("utf-8", "backslashreplace")
            bundle.add_meta(metadata)
        self._send(bundle, "display", name, update)
        self._tell(bundle)

    def clear(self, wait):
        if self.captured is not None:
            self.captured.clear()
        elif not self.channel.forked:
            self.streams.flush()
            self.channel.send({"type": "clear", "wait": bool(wait)}, True)

    # ------------------------------------------------------------ what a value offers

    def _collect(self, bundle, value):
        """Adds the types that determine the text of a value. Returns that text, or None if the display suffices."""
        shown = self._catch(bundle, self.shell.show, bundle, value) if self.shell is not None else None
        add = bundles.chart(value)
        if add is not None:
            self._catch(bundle, add, bundle, value)
            if bundle.data:
                return None
        else:
            self._catch(bundle, self._pictures, bundle, value)
            if shown is None and "text/plain" not in bundle.data and bundles.has(value, "_repr_pretty_"):
                shown = self._catch(bundle, printed, type(value)._repr_pretty_, value)
            if bundle.has_picture():
                if shown is None and _has_text(value):
                    shown = self._catch(bundle, bundle.guarded, "__repr__()", repr, value)
                if shown is not None:
                    bundle.add("text/plain", shown)
                self._catch(bundle, self._complete, bundle, value)
                return None
            if shown is not None:
                return shown
            if "text/plain" in bundle.data:
                return bundle.data["text/plain"].decode()
        kind = type(value)
        if kind.__name__ == "GT" and str(kind.__module__).startswith("great_tables."):
            return repr(getattr(value, "_tbl_data", None))  # its own repr shows its internals
        if _has_text(value):
            return self.text(value)
        self._catch(bundle, self._complete, bundle, value)
        for mime in ("text/markdown", "text/latex"):
            if mime in bundle.data:
                return bundle.data[mime].decode()
        return None if bundle.data else self.text(value)

    def _pictures(self, bundle, value):
        bundle.ask_for_all(value)
        for method, mime in bundles.IMAGES:
            bundle.ask(value, method, mime)

    def _complete(self, bundle, value):
        """Adds the types that do not affect a value's text."""
        if bundle.complete or bundle.data and bundles.chart(value) is not None:
            return
        bundle.complete = True
        for method, mime in bundles.OTHERS:
            bundle.ask(value, method, mime)
        if "text/html" in bundle.data and ("pandas" in sys.modules or "polars" in sys.modules):
            from turnstone_worker import tables

            tables.add(bundle, value)

    def _catch(self, bundle, function, *args):
        """Calls a function that runs display methods. What they print is not output of the turn, but may explain a failure."""
        writers, thread = self.channel.writers, get_ident()
        caught = []

        def catch(b):
            if sum(map(len, caught)) < _MOST_CAUGHT:
                caught.append(bytes(b[:_MOST_CAUGHT]))

        writers[thread] = catch
        try:
            result = function(*args)
        finally:
            writers.pop(thread, None)
        said = b"".join(caught).decode("utf-8", "replace").strip()
        if said:
            bundle.say("showing %s printed: %s" % (bundle.name, " ".join(said.split("\n")[-1].split())[:200]))
        return result

    def _send(self, bundle, kind, name=None, update=False, title=""):
        """Sends the collected types."""
        bundle.fit()
        if not bundle.data:
            return
        message = {"type": "display", "data": bundle.data, "update": update, "kind": kind}
        meta = bundle.metadata()
        if meta:
            message["meta"] = meta
        if name is not None:
            message["id"] = text(str(name))
        if title or "text/plain" not in bundle.data and bundle.title:
            message["title"] = text(title or bundle.title, 200)
        self.deliver(message)

    def deliver(self, message):
        """Sends a display, unless the cell captures it."""
        if self.captured is not None:
            self.captured.append(message)
            return
        self.streams.flush()
        self.channel.send(message, True)

    def _tell(self, bundle):
        for notice in bundle.notices:
            sys.stderr.write("[%s]\n" % notice)

    def _echo(self, shown):
        """Writes the text of a value, marked as a result."""
        if self.captured is not None:
            data = {"text/plain": shown.encode("utf-8", "backslashreplace")}
            return self.deliver({"type": "display", "data": data, "update": False, "kind": "result"})
        writers, thread = self.channel.writers, get_ident()
        writers[thread] = "begin"
        try:
            _print(shown)
        finally:
            writers.pop(thread, None)

    # ------------------------------------------------------------ libraries that show things

    def teach_ipython(self, module):
        """Replaces IPython's functions, which show things only in a kernel."""

        def is_kernel():
            shell = sys.modules.get("IPython.core.interactiveshell")
            return self.channel.forked or shell is not None and shell.InteractiveShell.initialized()

        def display(*objs, **options):
            if is_kernel():
                return native["display"](*objs, **options)
            if options.pop("clear", False):
                self.clear(True)
            return self.display(objs, options.pop("display_id", None), bool(options.pop("update", False)), module.DisplayHandle, **options)

        def update_display(obj, *, display_id, **options):
            if is_kernel():
                return native["update_display"](obj, display_id=display_id, **options)
            self.display((obj,), display_id, True, None, **options)

        def clear_output(wait=False):
            if is_kernel():
                return native["clear_output"](wait)
            self.clear(wait)

        def publish_display_data(data, metadata=None, **options):
            if is_kernel():
                return native["publish_display_data"](data, metadata, **options)
            transient = options.get("transient") or {}
            self._put(data, transient.get("display_id"), bool(options.get("update")), raw=True, metadata=metadata)

        native = {}
        for function in (display, update_display, clear_output, publish_display_data):
            name = function.__name__
            native[name] = getattr(module, name)
            function.__doc__, function.__module__, function.__qualname__ = native[name].__doc__, module.__name__, name
            setattr(module, name, function)

    def teach_pillow(self, module):
        """Replaces Image.show(), which would start a desktop program."""
        display = self

        class Viewer(module.Viewer):
            def show(self, image, **options):
                if display.channel.forked:
                    return False
                bundle = Bundle(type(image).__name__)
                bundle.ask(image, "_repr_png_", "image/png")
                if not bundle.data:
                    bundle = Bundle(type(image).__name__)
                    bundle.ask(image.convert("RGB"), "_repr_png_", "image/png")
                display._send(bundle, "display")
                return bool(bundle.data)

        module._viewers.insert(0, Viewer())

    def teach_plotly(self, module):
        """Replaces Figure.show(), which would open a browser, unless code has chosen a renderer."""
        native, default = module.show, module.renderers.default

        def show(fig, renderer=None, *args, **options):
            if self.channel.forked or renderer is not None or "PLOTLY_RENDERER" in os.environ or module.renderers.default != default:
                return native(fig, renderer, *args, **options)
            self._put(fig)

        show.__doc__ = native.__doc__
        module.show = show

    def teach_bokeh(self, module):
        """Replaces show(), which would write a page and open a browser, unless code has chosen a file or a notebook."""
        native, state = module.show, module.curstate

        def show(obj, *args, **options):
            chosen = args or options or state().file is not None or state().notebook
            if self.channel.forked or chosen or bundles.chart(obj) is None:
                return native(obj, *args, **options)
            self._put(obj)

        module.show = resemble(show, native)

    def teach_sympy(self, module):
        """Adapts init_printing(), which would replace our hook with its own unless it finds IPython."""
        from turnstone_worker.formatters import Shell

        native, native_is_ipython = module.init_printing, module._is_ipython
        signature = imports.quietly("inspect").signature(native)

        def init_printing(*args, **options):
            given = signature.bind_partial(*args, **options).arguments
            if self.channel.forked or given.get("ip") is not None:
                return native(*args, **options)
            self.shell = Shell()
            arguments = dict(given, ip=self.shell)
            if arguments.get("pretty_print", True):
                find = imports.quietly("importlib.util").find_spec
                drawn = find("IPython") is not None and find("matplotlib") is not None
                for name, default in (("use_unicode", True), ("use_latex", True if drawn else "mathjax")):
                    if arguments.get(name) is None:
                        arguments[name] = default
            return native(**dict(arguments.pop("settings", {}), **arguments))

        init_printing.__doc__, init_printing.__signature__ = native.__doc__, signature
        module._is_ipython = lambda shell: shell is self.shell or native_is_ipython(shell)
        module.init_printing = init_printing

    # ------------------------------------------------------------ matplotlib

    def teach(self, pyplot):
        """Makes pyplot show figures in the session, as long as it draws into memory."""
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
        """Sends and closes the figures that a cell has drawn but not shown."""
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
        bundle = Bundle("Figure")
        for form in self.formats or [""]:
            self._draw(bundle, figure, form)
        figure.stale = False
        data = dict(bundle.data)
        if known is None:
            self.count += 1
            name = "figure-%d" % self.count
        elif known[1] == data:
            return  # saving with a tight bounding box leaves a figure stale
        else:
            name = known[0]
        bundle.data["text/plain"] = repr(figure).encode("utf-8", "backslashreplace")
        self._send(bundle, "display", name, known is not None, _title(figure))
        self._tell(bundle)
        self.sent[figure] = name, data
        while len(self.sent) > 64:
            del self.sent[next(iter(self.sent))]

    def _draw(self, bundle, figure, form):
        """Adds a figure in one format. In notebooks it has its own resolution, as in IPython."""
        buffer, dpi, sharp = io.BytesIO(), self.dpi or self.formats and figure.dpi, form == "retina"
        options = {"dpi": dpi * (1 + sharp)} if dpi else {}
        kind, mime = ("svg", "image/svg+xml") if form == "svg" else ("png", "image/png")
        figure.canvas.print_figure(buffer, format=kind, bbox_inches="tight", **options)
        bundle.data[mime] = data = buffer.getvalue()
        if sharp:
            width, height = (int.from_bytes(data[at : at + 4], "big") // 2 for at in (16, 20))
            bundle.meta[mime] = {"width": width, "height": height}


def _has_text(value):
    """Reports whether the text of a value says more than its other representations."""
    method = type(value).__repr__
    return method is not object.__repr__ and getattr(method, "__qualname__", "") != "DisplayObject.__repr__"  # IPython's own


def _is_figure(value):
    kind = type(value)
    return kind.__name__ == "Figure" and kind.__module__ == "matplotlib.figure"


def _print(shown):
    out = getattr(sys, "stdout", None)
    if out is None:
        raise RuntimeError("lost sys.stdout")
    try:
        out.write(shown + "\n")
    except UnicodeEncodeError:
        out.write(shown.encode(out.encoding, "backslashreplace").decode(out.encoding) + "\n")


def _title(figure):
    """Returns the title of a figure."""
    heading = getattr(figure, "_suptitle", None)
    titles = [heading.get_text()] if heading is not None else []
    titles += [axes.get_title() for axes in figure.axes[:4]]
    return next((t for t in titles if t), "")
