//go:build !darwin

package r

const howToInstallCompiler = "install one and the headers of the C library (Debian and Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc)"

// compilerFlags make a library that depends on no other library or version. Its
// undefined symbols are those of the C library and R, and the process of R has both.
var compilerFlags = []string{
	"-O2", "-std=gnu11", "-shared", "-fPIC", "-nostdlib", "-fvisibility=hidden", "-U_FORTIFY_SOURCE",
}
