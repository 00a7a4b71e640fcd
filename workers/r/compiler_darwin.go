package r

const howToInstallCompiler = "run xcode-select --install"

// compilerFlags makes a library for both kinds of Mac: R may be built for the other
// one. What it leaves undefined is R's.
var compilerFlags = []string{
	"-O2", "-std=gnu11", "-dynamiclib", "-undefined", "dynamic_lookup", "-fvisibility=hidden",
	"-arch", "arm64", "-arch", "x86_64",
}
