//go:build unix && !darwin

package r

const (
	utf8Locale   = "C.UTF-8"
	unsupported  = ""
	howToInstall = "Debian and Ubuntu: apt install r-base-core; Fedora: dnf install R-core; others: https://cran.r-project.org"
)

// systemPlaces are where packages, rig and Posit's builds put R.
func systemPlaces() places {
	return places{
		versions: []string{"/opt/R", "/opt/local/R"},
		prefixes: []string{"/usr/local", "/usr"},
	}
}
