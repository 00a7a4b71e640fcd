// Package inputrc reads the settings of readline that also apply to repl. It starts no goroutines.
package inputrc

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// ReadViMode reports whether the user's inputrc selects the keys of vi, as programs with readline
// do. It skips the parts for specific programs or terminals.
func ReadViMode(getenv func(string) string) bool {
	path := getenv("INPUTRC")
	if path == "" {
		path = filepath.Join(getenv("HOME"), ".inputrc")
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	vi, within := false, 0
	for in := bufio.NewScanner(file); in.Scan(); {
		words := strings.Fields(strings.ToLower(in.Text()))
		switch {
		case len(words) == 0:
		case words[0] == "$if":
			within++
		case words[0] == "$endif":
			within--
		case within == 0 && len(words) >= 3 && words[0] == "set" && words[1] == "editing-mode":
			vi = words[2] == "vi"
		}
	}
	return vi
}
