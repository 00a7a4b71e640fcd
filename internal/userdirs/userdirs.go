// Package userdirs finds the user's directories as the XDG Base Directory Specification defines
// them: those that variables name, or defaults below the home directory. It ignores a relative name
// in a variable, as the specification requires. This program uses these directories on every
// system. The package starts no goroutines.
package userdirs

import "path/filepath"

// Config returns the directory for settings: XDG_CONFIG_HOME, or .config in home. If the variable is not
// set and home is empty, it returns "", and so do the functions below. getenv is [os.Getenv].
func Config(getenv func(string) string, home string) string {
	return find(getenv, "XDG_CONFIG_HOME", home, ".config")
}

// State returns the directory for the saved state of programs: XDG_STATE_HOME, or .local/state in home.
func State(getenv func(string) string, home string) string {
	return find(getenv, "XDG_STATE_HOME", home, ".local", "state")
}

// Cache returns the directory for files that can be recreated: XDG_CACHE_HOME, or .cache in home.
func Cache(getenv func(string) string, home string) string {
	return find(getenv, "XDG_CACHE_HOME", home, ".cache")
}

// Data returns the directory for data of programs: XDG_DATA_HOME, or .local/share in home.
func Data(getenv func(string) string, home string) string {
	return find(getenv, "XDG_DATA_HOME", home, ".local", "share")
}

// Runtime returns the directory for sockets, which exists while the user is logged in: XDG_RUNTIME_DIR.
// It has no default. The variable may be another user's, for example after su.
func Runtime(getenv func(string) string) string { return find(getenv, "XDG_RUNTIME_DIR", "") }

func find(getenv func(string) string, variable, home string, below ...string) string {
	if dir := getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	if home == "" {
		return ""
	}
	return filepath.Join(append([]string{home}, below...)...)
}
