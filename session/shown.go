package session

// Shown is what a session with a sandbox sees of the home directory, which is built for it, and what it
// does not have of the environment.
type Shown struct {
	Home   string       `json:"home,omitempty"` // "" if it is not built
	Places []ShownPlace `json:"places"`         // sorted, at most MaxShown
	More   int          `json:"more,omitempty"` // how many there are besides

	// Withheld are the names of variables, sorted, at most MaxShown; "the login in NAME" for those
	// of which only that was cut out.
	Withheld     []string `json:"withheld"`
	MoreWithheld int      `json:"more_withheld,omitempty"`
}

// MaxShown bounds each list of a Shown.
const MaxShown = 1000

// A ShownPlace is a file or directory there.
type ShownPlace struct {
	Path string `json:"path"`
	Why  string `json:"why"` // "document", "toolchain", "cache", "on PATH", …; see docs/sandbox-reference.md
}
