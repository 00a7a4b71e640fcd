package session

// Visibility is what a session with a sandbox sees of the home directory, which is built for it, and what it
// does not have of the environment.
type Visibility struct {
	Home      string        `json:"home,omitempty"`       // "" if it is not built
	Paths     []VisiblePath `json:"paths"`                // sorted, at most MaxVisiblePaths
	MorePaths int           `json:"more_paths,omitempty"` // how many there are besides

	// WithheldVariables are the names of variables, sorted, at most MaxVisiblePaths; "the login in NAME" for those
	// of which only that was cut out.
	WithheldVariables []string `json:"withheld_variables"`
	MoreWithheld      int      `json:"more_withheld,omitempty"`
}

// MaxVisiblePaths bounds each list of a Shown.
const MaxVisiblePaths = 1000

// A VisiblePath is a file or directory there.
type VisiblePath struct {
	Path   string `json:"path"`
	Reason string `json:"reason"` // "document", "toolchain", "cache", "on PATH", …; see docs/sandbox-reference.md
}
