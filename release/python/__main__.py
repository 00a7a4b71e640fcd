"""Starts the program repl that was installed with this package."""

import os
import sys
import sysconfig


def program():
    """Return the path of repl: where pip puts commands, for this scheme or another one."""
    name = "repl.exe" if os.name == "nt" else "repl"
    package = os.path.dirname(os.path.abspath(__file__))
    user = "nt_user" if os.name == "nt" else "posix_user"
    places = [
        os.path.dirname(os.path.abspath(sys.argv[0])),
        sysconfig.get_path("scripts"),
        sysconfig.get_path("scripts", user),
        # pip install --target and --prefix
        os.path.join(os.path.dirname(package), "bin"),
        os.path.join(os.path.dirname(package), *[os.pardir] * 3, "bin"),
    ]
    for place in places:
        path = os.path.join(place, name)
        if os.path.isfile(path):
            return path
    sys.exit("turnstone-repl: the program %s is in none of these: %s; reinstall the package" % (name, ", ".join(places)))


def main():
    path = program()
    if os.name == "nt":  # there exec does not wait for the program
        import subprocess

        process = subprocess.Popen([path, *sys.argv[1:]])
        while True:
            try:
                sys.exit(process.wait())
            except KeyboardInterrupt:  # the program has got it, too
                pass
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
