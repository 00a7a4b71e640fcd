package host

import (
	"fmt"
	"slices"
	"strings"
)

// windowsEnvironment is env in the form that Windows asks for: each name once,
// compared without case, with the value and the spelling of its last writer,
// and sorted by name. SystemRoot, without which sockets and random numbers do
// not work, is added when it is missing and systemRoot is known.
//
// It is the same on every system, so that it can be tested on every system.
func windowsEnvironment(env []string, systemRoot string) ([]string, error) {
	last := make(map[string]string, len(env)+1)
	for _, entry := range env {
		name, ok := variableName(entry)
		if !ok {
			continue // no variable, and nothing could read it
		}
		if strings.IndexByte(entry, 0) >= 0 {
			return nil, fmt.Errorf("the environment variable %q has a zero byte in it: remove that", name)
		}
		last[strings.ToUpper(name)] = entry
	}
	if _, ok := last["SYSTEMROOT"]; !ok && systemRoot != "" {
		last["SYSTEMROOT"] = "SystemRoot=" + systemRoot
	}
	names := make([]string, 0, len(last))
	for name := range last {
		names = append(names, name)
	}
	slices.Sort(names)
	sorted := make([]string, len(names))
	for i, name := range names {
		sorted[i] = last[name]
	}
	return sorted, nil
}

// variableName is what stands before the "=" of an entry. Windows keeps the
// directory of each drive under a name that begins with "=".
func variableName(entry string) (string, bool) {
	if entry == "" {
		return "", false
	}
	i := strings.IndexByte(entry[1:], '=')
	if i < 0 {
		return "", false
	}
	return entry[:i+1], true
}
