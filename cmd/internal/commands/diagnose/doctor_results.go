package diagnose

import "github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"

// A checkResult is the outcome of a single check.
type checkResult struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// addResults adds a line for each result.
func addResults(b *cmdkit.LineBuilder, list []checkResult) {
	for _, f := range list {
		mark := "ok    "
		if !f.OK {
			mark = "FAILED"
		}
		b.AddLine("  %s  %s: %s", mark, f.Name, f.Detail)
	}
}

// A systemFeature is a feature that the operating system may offer.
type systemFeature struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Detail    string `json:"detail"`
}
