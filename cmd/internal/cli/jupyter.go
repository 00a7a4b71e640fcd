package cli

import (
	"cmp"
	"context"
	"flag"
	"os"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	jupyter "github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelworker"
)

// newKernelWorkerCommand runs the worker of a Jupyter kernel.
func newKernelWorkerCommand(f *flag.FlagSet) cmdkit.Action {
	return func(_ cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if f.NArg() < 1 || f.NArg() > 2 {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("%s needs the name of a Jupyter kernel, or the directory of its kernelspec", kernelWorker)
		}
		var found kernelspec.KernelSpec
		var err error
		if name := f.Arg(0); strings.ContainsAny(name, `/\`) {
			found, err = kernelspec.Read(name)
		} else {
			found, err = kernelspec.Find(os.Getenv, name)
		}
		if err != nil {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("%v", err)
		}
		return jupyter.Run(jupyter.Options{Spec: found, Dir: f.Arg(1), Version: cmdkit.ProgramVersion()}), nil
	}
}

// kernelItems returns the names of kernels for shell completion.
func kernelItems() []cmdkit.CompletionItem {
	var found []cmdkit.CompletionItem
	for _, k := range installedKernels() {
		if k.Err == nil {
			found = append(found, cmdkit.CompletionItem{Word: jupyterPrefix + k.Name, Description: k.Display})
		}
	}
	return found
}

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
	for _, k := range installedKernels() {
		report := kernelReport{Name: jupyterPrefix + k.Name, Display: k.Display, Dir: k.Dir}
		if k.Err != nil {
			report.Problem = cmdkit.ErrorLine(k.Err)
		} else if s := kernelSpec(k.Name, "", runtimeSettings{}); s.Err != nil {
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
