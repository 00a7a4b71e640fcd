package python

import (
	"testing"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// The expected results are those of packaging.specifiers.
func TestSpecifiersAllow(t *testing.T) {
	t.Parallel()
	for specifiers, versions := range map[string]map[string]bool{
		">=3.13":       {"3.13.0": true, "3.13": true, "3.14.1": true, "3.12.9": false, "3.12": false},
		">=3.10,<3.13": {"3.10.2": true, "3.12": true, "3.13.0": false, "3.9.1": false},
		"==3.12.*":     {"3.12.4": true, "3.12": true, "3.13.0": false},
		"==3.12":       {"3.12.0": true, "3.12.4": false},
		"!=3.12.*":     {"3.12.4": false, "3.11.4": true},
		"~=3.11":       {"3.11.0": true, "3.13.1": true, "3.10.0": false},
		"~=3.11.2":     {"3.11.4": true, "3.12.0": false, "3.11.1": false},
		">3.12":        {"3.12.1": true, "3.13": true, "3.12.0": false},
		">=3.12.4":     {"3.12": true, "3.12.3": false},
		"":             {"3.8": true},
		"^3.13":        {"3.8": true},
	} {
		for version, want := range versions {
			if got := specifiersAllow(specifiers, discovery.ParseVersion(version)); got != want {
				t.Errorf("%q and %s: got %v, want %v", specifiers, version, got, want)
			}
		}
	}
	if !specifiersAllow(">=3.13", nil) {
		t.Error("an unknown version is refused")
	}
}

func TestCheckRequires(t *testing.T) {
	t.Parallel()
	for requires, ok := range map[string]bool{
		">=3.11": true, "~=3.11": true, "==3.12.*": true, "!=3.12.1, <4": true, ">= 3.11 , < 4,": true, "===3.12.1": true, ">3": true, ">=3.14.0rc1": true, "<3.15.dev0": true,
		"": false, "3.11": false, "^3.11": false, ">=3.11 <4": false, ">=": false, ">=3.x": false, ">=3.11.*": false, "~=3": false, ">=3.11; x": false,
	} {
		if err := CheckRequires(requires); (err == nil) != ok {
			t.Errorf("%q: got %v", requires, err)
		}
	}
	for requires, versions := range map[string]map[string]bool{
		">=3.14.0rc1":   {"3.14.0": true, "3.13.9": false},
		"===3.12.1":     {"3.12.1": true, "3.12.2": false},
		">=3.11,<3.13,": {"3.12.0": true, "3.13.0": false, "unknown": true},
	} {
		for version, want := range versions {
			if got := MeetsRequires(requires, version); got != want {
				t.Errorf("%q and %s: got %v", requires, version, got)
			}
		}
	}
}
