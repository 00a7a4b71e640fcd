package r

const howToInstallCompiler = "run xcode-select --install"

// compilerFlags make a library for both kinds of Mac, because R may be built for the other kind.
// Its undefined symbols are R's.
var compilerFlags = []string{
	"-O2", "-std=gnu11", "-dynamiclib", "-undefined", "dynamic_lookup", "-fvisibility=hidden",
	"-arch", "arm64", "-arch", "x86_64",
}
