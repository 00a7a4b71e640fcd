package session

// Visibility describes what a sandboxed session sees of the home directory, which is built for
// it, and which environment variables it does not get.
type Visibility struct {
	Home      string        `json:"home,omitempty"`       // "" if no home directory is built
	Paths     []VisiblePath `json:"paths"`                // sorted, at most MaxVisiblePaths
	MorePaths int           `json:"more_paths,omitempty"` // number of paths that are not listed

	// WithheldVariables are the names of variables, sorted, at most MaxVisiblePaths; "the login
	// in NAME" for those from which only the login was removed.
	WithheldVariables []string `json:"withheld_variables"`
	MoreWithheld      int      `json:"more_withheld,omitempty"`
}

// MaxVisiblePaths bounds each list of a Visibility.
const MaxVisiblePaths = 1000

// A VisiblePath is a file or directory that the session sees in its home directory.
type VisiblePath struct {
	Path   string `json:"path"`
	Reason string `json:"reason"` // "document", "toolchain or library", "on PATH, or next to it", …; see docs/sandbox-reference.md
}
