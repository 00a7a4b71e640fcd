package r

import "github.com/turnstone-repl/turnstone/workers/internal/discovery"

const (
	shimName     = "turnstone.so" // R derives names from it
	canCompile   = true
	utf8Locale   = "en_US.UTF-8"
	howToInstall = "https://cran.r-project.org/bin/macosx, or brew install r"
)

// systemInstallDirs returns the directories of CRAN's installer, rig, Homebrew and MacPorts.
func systemInstallDirs(discovery.SearchContext) installDirs {
	return installDirs{
		versionDirs: []string{"/Library/Frameworks/R.framework/Versions", "~/Library/Frameworks/R.framework/Versions", "/opt/R"},
		prefixes:    []string{"/Library/Frameworks/R.framework", "/opt/homebrew", "/usr/local", "/opt/local/Library/Frameworks/R.framework"},
	}
}
