package launch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/environ"
)

// windowsEnvironment returns env in the form that Windows needs: sorted by name, each
// name once. Names are compared without case, and the last entry of a name counts.
// SystemRoot is added if it is missing and known, because sockets and random numbers
// need it.
//
// It does not depend on the system, so that it can be tested on every system.
func windowsEnvironment(env []string, systemRoot string) ([]string, error) {
	last := make(map[string]string, len(env)+1)
	for _, entry := range env {
		name, _, ok := environ.Split(entry)
		if !ok {
			continue // not a variable: nothing could read it
		}
		if strings.IndexByte(entry, 0) >= 0 {
			return nil, fmt.Errorf("environment variable %q contains a zero byte; remove it", name)
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
