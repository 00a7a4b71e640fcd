package diagnose

import (
	"cmp"
	"context"
	"slices"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
)

// A kernelReport describes an installed kernel for doctor.
type kernelReport struct {
	Name    string `json:"name"` // as --lang accepts it
	Display string `json:"display,omitempty"`
	Dir     string `json:"dir"`
	Problem string `json:"problem,omitempty"` // why it cannot be started
}

// examineKernels lists the installed kernels. It starts none; --lang tests one.
func examineKernels(context.Context) []kernelReport {
	var all []kernelReport
	for _, k := range languages.InstalledKernels() {
		report := kernelReport{Name: languages.JupyterPrefix + k.Name, Display: k.Display, Dir: k.Dir}
		if k.Err != nil {
			report.Problem = cmdkit.ErrorLine(k.Err)
		} else if s := languages.KernelSpec(k.Name, "", languages.RuntimeSettings{}); s.Err != nil {
			report.Problem = cmdkit.ErrorLine(s.Err)
		}
		all = append(all, report)
	}
	return all
}

// printKernels prints the list for a terminal.
func printKernels(p *cmdkit.LineBuilder, all []kernelReport) {
	if len(all) == 0 {
		return
	}
	p.AddLine("\nJupyter kernels, as languages")
	width := len(slices.MaxFunc(all, func(a, b kernelReport) int { return cmp.Compare(len(a.Name), len(b.Name)) }).Name)
	for _, k := range all {
		tail := k.Display + ", " + k.Dir
		if k.Problem != "" {
			tail = "cannot be used: " + k.Problem
		}
		p.AddLine("  %-*s  %s", width, k.Name, tail)
	}
}
