package python

import "github.com/turnstone-repl/turnstone/workers/internal/discovery"

// pathCandidates lists the interpreters on PATH: first every python3, then every python, which
// may be Python 2.
func (f *finder) pathCandidates() []Candidate {
	var found []Candidate
	for _, name := range commandNames {
		for _, c := range f.commandCandidates(name) {
			if !isStoreAlias(c.Path) {
				found = append(found, c)
			}
		}
	}
	if len(found) == 0 {
		return []Candidate{{Source: "PATH", Note: f.DescribeMissing(commandNames...)}}
	}
	return found
}

// storeCandidates returns the aliases that pathCandidates omits, because they may open the store instead
// of Python.
func (f *finder) storeCandidates() []Candidate {
	var found []Candidate
	for _, name := range commandNames {
		for _, c := range f.commandCandidates(name) {
			if isStoreAlias(c.Path) {
				c.Note = storeAliasProblem(c.Path)
				found = append(found, c)
			}
		}
	}
	return found
}

// commandCandidates lists the executables called name on PATH, in its order.
func (f *finder) commandCandidates(name string) []Candidate {
	var found []Candidate
	for _, path := range f.FindCommands(name) {
		c := f.resolveShim(Candidate{Source: name + " on PATH", Path: path})
		if note := discovery.ToolEnvOwner(path); c.Note == "" && note != "" {
			c.Note = note
		}
		found = append(found, c)
	}
	return found
}
