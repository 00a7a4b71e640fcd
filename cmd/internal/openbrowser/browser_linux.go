package openbrowser

// browserCommand returns the command that opens a file in the user's browser.
func browserCommand(path string) (name string, args []string) { return "xdg-open", []string{path} }
