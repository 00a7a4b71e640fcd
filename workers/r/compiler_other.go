//go:build !darwin

package r

const howToInstallCompiler = "install one and the headers of the C library (Debian and Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc)"

// compilerFlags make a library that depends on no other library or version. Its undefined symbols
// are in the C library and R, both of which R's process has.
var compilerFlags = []string{
	"-O2", "-std=gnu11", "-shared", "-fPIC", "-nostdlib", "-fvisibility=hidden", "-U_FORTIFY_SOURCE",
}
