package packages

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// pythonName matches the beginning of a requirement: the name of a project, so that it is
// never taken for an option. The installer checks the rest.
var pythonName = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`)

var pythonSeparators = regexp.MustCompile(`[-_.]+`)

// pythonFacts prints the properties on which compiled packages depend, and pip's version.
const pythonFacts = `
import sys, sysconfig
try:
    from pip import __version__ as pip
except ImportError:
    pip = "none"
print()
print(sys.implementation.cache_tag, sys.version.split()[0], sysconfig.get_platform(), sys.base_prefix)
print(pip)
`

// Python makes Python packages, with uv if it is on PATH, otherwise with the interpreter's own
// pip, otherwise with the pip of a virtual environment.
func Python() *Tool {
	return &Tool{
		language: "Python",
		path:     "PYTHONPATH",
		canonical: func(name string) (string, error) {
			project := pythonName.FindString(name)
			if project == "" {
				return "", fmt.Errorf("%q is no package of Python's: write it as for pip, such as numpy or 'numpy>=2'", name)
			}
			// PEP 503: all spellings of a project's name are equal.
			canonical := strings.ToLower(pythonSeparators.ReplaceAllString(project, "-"))
			return canonical + strings.TrimSpace(name[len(project):]), nil
		},
		examine: examinePython,
		install: installPython,
	}
}

func examinePython(ctx context.Context, r *Request, dir string) (finding, error) {
	f := finding{missing: r.Packages}
	said, err := r.run(ctx, dir, nil, nil, r.Executable, "-c", pythonFacts)
	if err != nil {
		return f, err
	}
	lines := strings.Split(said, "\n")
	if len(lines) < 2 {
		return f, fmt.Errorf("%s does not say which Python it is", r.Executable)
	}
	f.facts = []string{"python " + lines[len(lines)-2]} // a startup hook may print before
	f.installer = lines[len(lines)-1]
	return f, nil
}

func installPython(ctx context.Context, r *Request, f finding, lib string, report func(Progress)) error {
	if uv, err := r.lookPath("uv"); err == nil {
		args := []string{"pip", "install", "--no-progress", "--python", r.Executable, "--target", lib}
		_, err := r.run(ctx, filepath.Dir(lib), nil, steps(report), uv, append(args, r.Packages...)...)
		return err
	}
	python := r.Executable
	if f.installer == "none" {
		report(Progress{Message: "making a pip, which " + r.Executable + " has not"})
		own := filepath.Join(filepath.Dir(lib), "pip")
		if _, err := r.run(ctx, filepath.Dir(lib), nil, nil, python, "-m", "venv", own); err != nil {
			var e *Error
			if errors.As(err, &e) {
				e.Reason += "; there is no pip either: install uv, or pip for " + r.Executable
			}
			return err
		}
		python, f.installer = filepath.Join(own, venvPython), "0"
	}
	args := []string{"-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-warn-script-location", "--target", lib}
	take := steps(report)
	if hasRawProgress(f.installer) {
		args, take = append(args, "--progress-bar", "raw"), downloads(report)
	} else {
		args = append(args, "--progress-bar", "off")
	}
	// A user's pip settings for other environments conflict with --target.
	env := []string{"PIP_USER=0", "PIP_REQUIRE_VIRTUALENV=0", "PIP_ROOT_USER_ACTION=ignore"}
	_, err := r.run(ctx, filepath.Dir(lib), env, take, python, append(args, r.Packages...)...)
	return err
}

// steps counts the lines that a tool prints.
func steps(report func(Progress)) func(string) {
	var p Progress
	return func(line string) {
		p.Done++
		p.Message = brief(line)
		report(p)
	}
}

// hasRawProgress reports whether this version of pip can say how many bytes there are.
func hasRawProgress(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	return err == nil && (a > 24 || a == 24 && b >= 1)
}

// downloads counts the bytes that pip downloads. The total is unknown before the last file.
func downloads(report func(Progress)) func(string) {
	var p Progress
	var file int64 // bytes of it that are counted
	what := ""
	return func(line string) {
		var done, total int64
		if n, _ := fmt.Sscanf(line, "Progress %d of %d", &done, &total); n == 2 {
			if done < file {
				file = 0 // another one
			}
			if done > file {
				p.Done += done - file
				file = done
			}
			p.Message = brief(fmt.Sprintf("%s: %.1f of %.1f MB", what, float64(done)/1e6, float64(total)/1e6))
		} else {
			file, what = 0, line
			p.Message = brief(line)
		}
		report(p)
	}
}
