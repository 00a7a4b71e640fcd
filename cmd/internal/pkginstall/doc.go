// Package pkginstall makes a language's packages available to a session, without changing the
// user's installation. It puts them into a separate directory, which the runtime finds through its
// environment. Such a directory is created once in the user's cache, and never changed afterwards.
//
// Two processes may create the same directory at once. Each works in a temporary directory and
// renames it when it is complete. The second one uses the directory of the first.
//
// # A directory for PYTHONPATH or R_LIBS
//
// The packages are installed by pip install --target, uv or install.packages(lib =). Their
// directory comes first in PYTHONPATH or R_LIBS. So the interpreter stays the user's, and programs
// that the session starts find the packages, too. Files with the suffix .pth have no effect in this
// directory, and Pythons of other versions see it.
//
// A virtual environment with --system-site-packages was rejected. If it is made from another
// virtual environment, it shows the packages of the Python below, not the user's own. Its
// sys.prefix differs, and pip install in the session would change a shared cache. A lock was
// rejected: it only saves duplicate work, and a killed process may leave it behind.
//
// # Goroutines
//
// None outlives a call. While a tool runs, os/exec copies its output.
package pkginstall
