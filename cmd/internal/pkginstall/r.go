package pkginstall

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// rName matches a package's name as defined in R's manual.
var rName = text.Pattern(`^[A-Za-z][A-Za-z0-9.]*[A-Za-z0-9]$`)

//go:embed examine.R
var probeScriptR string

//go:embed install.R
var installScriptR string

//go:embed apart.R
var apartScriptR string

// rLinePrefix starts the lines that the R code of this package prints.
const rLinePrefix = "turnstone: "

// R installs R packages with install.packages, from the repositories of the user's own R. It skips
// packages that R already finds.
func R() *Tool {
	return &Tool{
		language: "R",
		path:     "R_LIBS",
		canonical: func(name string) (string, error) {
			if !rName().MatchString(name) {
				return "", fmt.Errorf("%q is not the name of an R package; use a name such as jsonlite", name)
			}
			return name, nil
		},
		probe: func(ctx context.Context, r *InstallRequest, dir string) (f runtimeProbe, err error) {
			err = r.runR(ctx, dir, probeScriptR, func(kind, line string) {
				switch kind {
				case "fact":
					f.facts = append(f.facts, line)
				case "missing":
					f.missing = append(f.missing, line)
				}
			}, r.Packages...)
			if err == nil && len(f.facts) == 0 {
				err = fmt.Errorf("%s does not report its R version", r.Executable)
			}
			return f, err
		},
		install: func(ctx context.Context, r *InstallRequest, f runtimeProbe, lib string, report func(InstallProgress)) error {
			var p InstallProgress
			return r.runR(ctx, filepath.Dir(lib), installScriptR, func(kind, line string) {
				switch kind {
				case "total": // each is downloaded and installed
					n, _ := strconv.ParseInt(line, 10, 64)
					p.Total = 2 * n
				case "step":
					p.Done++
					fallthrough
				default:
					p.Message = text.ShortenBytes(line, maxMessageBytes)
				}
				report(p)
			}, append([]string{lib}, f.missing...)...)
		},
	}
}

// runR runs code and passes each line of its output to take. Lines with rLinePrefix name their
// kind. Other lines have no kind, unless they mark a step.
func (r *InstallRequest) runR(ctx context.Context, dir, code string, take func(kind, text string), args ...string) error {
	script, err := os.CreateTemp(dir, unfinishedPrefix+"*.R") // R's front end does not preserve the lines of a long -e
	if err != nil {
		return err
	}
	defer os.Remove(script.Name())
	env := []string{"LANGUAGE=en"} // the code looks for R's English messages
	if len(r.SessionDirs) > 0 {
		env, code = append(env, r.startupArgs()...), apartScriptR+code
	}
	_, err = script.WriteString(code)
	if e := script.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	args = append([]string{"--no-echo", "--no-save", "--no-restore", "--file=" + script.Name(), "--args"}, args...)
	_, err = r.runTool(ctx, dir, env, func(line string) {
		ours, ok := strings.CutPrefix(line, rLinePrefix)
		kind, text, _ := strings.Cut(ours, " ")
		switch {
		case ok:
			take(kind, text)
		case strings.HasPrefix(line, "trying URL ") || strings.HasPrefix(line, "* DONE (") || strings.Contains(line, "successfully unpacked"):
			take("step", line)
		default:
			take("", line)
		}
	}, r.Executable, args...)
	return err
}

// startupArgs keeps R and its children away from the user's files; apart.R reads these instead. At
// its start, R itself loads base alone.
func (r *InstallRequest) startupArgs() []string {
	apart := slices.Clone(r.SessionDirs)
	for _, dir := range r.SessionDirs {
		apart = append(apart, paths.RealOrSame(dir))
	}
	file := func(variable, name string) string {
		path := cmp.Or(environ.Get(r.Env, variable), filepath.Join(environ.Get(r.Env, "HOME"), name))
		if _, err := os.Stat(path); err != nil || r.isInApartDir(path) {
			return ""
		}
		return path
	}
	return []string{
		"R_DEFAULT_PACKAGES=NULL", "R_ENVIRON_USER=", "R_PROFILE_USER=", "TURNSTONE_APART=" + strings.Join(apart, "\n"),
		"TURNSTONE_ENVIRON=" + file("R_ENVIRON_USER", ".Renviron"), "TURNSTONE_PROFILE=" + file("R_PROFILE_USER", ".Rprofile"),
	}
}
