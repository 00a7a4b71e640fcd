package jupytercmd

import (
	"flag"
	"os"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	jupyter "github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelworker"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
)

// NewKernelWorkerCommand returns the command that runs the worker of a Jupyter kernel.
func NewKernelWorkerCommand(f *flag.FlagSet) cmdkit.Action {
	return func(_ cmdkit.Streams, args []string) (int, error) {
		if err := cmdkit.ParseFlags(f, args); err != nil {
			return cmdkit.StatusUsage, err
		}
		if f.NArg() < 1 || f.NArg() > 2 {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("%s needs the name of a Jupyter kernel, or the directory of its kernelspec", languages.KernelWorker)
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

// KernelItems returns the names of kernels for shell completion.
func KernelItems() []cmdkit.CompletionItem {
	var found []cmdkit.CompletionItem
	for _, k := range languages.InstalledKernels() {
		if k.Err == nil {
			found = append(found, cmdkit.CompletionItem{Word: languages.JupyterPrefix + k.Name, Description: k.Display})
		}
	}
	return found
}
