//go:build unix && !darwin

package r

import "github.com/turnstone-repl/turnstone/workers/internal/discovery"

const (
	shimName     = "turnstone.so" // R derives names from it
	canCompile   = true
	utf8Locale   = "C.UTF-8"
	howToInstall = "Debian and Ubuntu: apt install r-base-core; Fedora: dnf install R-core; others: https://cran.r-project.org"
)

// systemInstallDirs returns the directories of packages, rig and Posit's builds.
func systemInstallDirs(discovery.SearchContext) installDirs {
	return installDirs{
		versionDirs: []string{"/opt/R", "/opt/local/R"},
		prefixes:    []string{"/usr/local", "/usr"},
	}
}
