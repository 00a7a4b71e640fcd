"""The package turnstone.tools: functions of the host that are in groups, such as the tools of one server.

A group's functions are known once the host has opened the group, which may start a program. So a
group is opened when running code first uses it, and never by a completion.
"""
from types import ModuleType

OPEN = "_open"  # the function of the host that opens a group; its parameter lists all groups


class Image(bytes):
    """An image that a function returned: its bytes, displayed as an image."""

    kind = ""  # its MIME type

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.kind: bytes(self)}

    def __repr__(self):
        return "<image: %s, %d bytes>" % (self.kind, len(self))


Image.__module__ = "turnstone"


def shown(value):
    """Returns the value with its images as Image objects, also within lists."""
    if type(value) is list:
        return [shown(v) for v in value]
    if type(value) is dict and value.get("type") == "image" and type(value.get("data")) is bytes:
        image = Image(value["data"])
        image.kind = str(value.get("mimeType") or "")
        return image
    return value


class Group(ModuleType):
    """The functions of one group. group["get-env"] finds one by its true name."""

    def __init__(self, name, group, host):
        super().__init__(name, "Functions of %s." % group)
        self.__dict__.update(_group=group, _host=host, _true={})

    def _renew(self, functions):
        """Replaces the functions with those that the host offers now."""
        space = self.__dict__
        for name in [n for n, f in space.items() if getattr(f, "turnstone", None)]:
            del space[name]
        space.update(functions)
        self._true.clear()
        self._true.update((f.turnstone[0]["name"], f) for f in functions.values())

    def _opened(self):
        self._host.open_group(self._group)
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        found = self._opened().__dict__.get(name)
        if found is None:
            raise AttributeError("%s has no function %s%s" % (self._group, name, _offers(self)))
        return found

    def __getitem__(self, true):
        try:
            return self._opened()._true[true]
        except KeyError:
            raise KeyError("%s has no function %s%s" % (self._group, true, _offers(self))) from None

    def __dir__(self):
        return sorted(n for n in self._opened().__dict__ if not n.startswith("_"))


def _offers(group):
    names = sorted(group._true)
    return ": it has " + ", ".join(names[:20]) + (" and %d more" % (len(names) - 20) if len(names) > 20 else "") if names else ", and no other"


class Groups(ModuleType):
    """turnstone.tools: an attribute for each group."""

    def __init__(self, name, host):
        super().__init__(name, "Groups of functions of the host, such as the tools of one server: dir(tools) lists them.")
        self.__dict__.update(_host=host)
        self.__path__ = []

    def __getattr__(self, name):
        group = None if name.startswith("__") else self._host.group(name)
        if group is None:
            names = self._host.group_names()
            raise AttributeError("there are no tools %s%s" % (name, ": there are " + ", ".join(names[:20]) if names else ", and no others"))
        return group._opened()

    def __getitem__(self, name):
        group = self._host.group(name)
        if group is None:
            raise KeyError(name)
        return group._opened()

    def __dir__(self):
        return self._host.group_names()
