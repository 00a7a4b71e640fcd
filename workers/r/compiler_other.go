//go:build !darwin

package r

const howToInstallCompiler = "install one and the headers of the C library (Debian and Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc)"

// compilerFlags makes a library that needs none and no version of any: what it
// leaves undefined is the C library's and R's, and both are there in R.
var compilerFlags = []string{
	"-O2", "-std=gnu11", "-shared", "-fPIC", "-nostdlib", "-fvisibility=hidden", "-U_FORTIFY_SOURCE",
}
