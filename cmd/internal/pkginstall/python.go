package pkginstall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// pythonName matches the start of a requirement: the name of a project, which cannot be an option.
// The installer checks the rest.
var pythonName = text.Pattern(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`)

var pythonSeparators = text.Pattern(`[-_.]+`)

// probeScript prints the properties on which compiled packages depend, and pip's version.
const probeScript = `
import sys, sysconfig
try:
    from pip import __version__ as pip
except ImportError:
    pip = "none"
print()
print(sys.implementation.cache_tag, sys.version.split()[0], sysconfig.get_platform(), sys.base_prefix)
print(pip)
`

// noPip is the version that probeScript prints for a missing pip.
const noPip = "none"

// apartProbeScript prints the same without site, and the directories where an interpreter may have
// its pip.
const apartProbeScript = `
import sys, sysconfig
print(sys.implementation.cache_tag, sys.version.split()[0], sysconfig.get_platform(), sys.base_prefix)
print(sysconfig.get_path("purelib"), sys.base_prefix + "/lib/python3/dist-packages", sep="\n")
`

// isolatedFlags restricts an interpreter to the standard library. The .pth files of an environment
// and a sitecustomize.py may lead to code of a session.
var isolatedFlags = []string{"-I", "-S"}

var pipVersion = text.Pattern(`(?m)^__version__ = "(.+)"`)

// Python installs Python packages. It uses uv if it is on PATH, otherwise the interpreter's own
// pip, otherwise the pip of a virtual environment.
func Python() *Tool {
	return &Tool{
		language: "Python",
		path:     "PYTHONPATH",
		canonical: func(name string) (string, error) {
			project := pythonName().FindString(name)
			if project == "" {
				return "", fmt.Errorf("%q is not a Python requirement; write it as for pip, such as numpy or 'numpy>=2'", name)
			}
			// PEP 503: all spellings of a project's name are equal.
			canonical := strings.ToLower(pythonSeparators().ReplaceAllString(project, "-"))
			return canonical + strings.TrimSpace(name[len(project):]), nil
		},
		probe:   probePython,
		install: installPython,
	}
}

func probePython(ctx context.Context, r *InstallRequest, dir string) (runtimeProbe, error) {
	if len(r.SessionDirs) > 0 {
		return probeForeignPython(ctx, r, dir)
	}
	f := runtimeProbe{missing: r.Packages}
	output, err := r.runTool(ctx, dir, nil, nil, r.Executable, "-c", probeScript)
	if err != nil {
		return f, err
	}
	lines := strings.Split(output, "\n")
	if len(lines) < 2 {
		return f, fmt.Errorf("%s does not report its Python version", r.Executable)
	}
	f.facts = []string{"python " + lines[len(lines)-2]} // a startup hook may print before
	f.installer = lines[len(lines)-1]
	return f, nil
}

// probeForeignPython is probePython without code from the environment. It replaces the request's
// interpreter by the Python from which the environment was made.
func probeForeignPython(ctx context.Context, r *InstallRequest, dir string) (runtimeProbe, error) {
	f := runtimeProbe{missing: r.Packages, installer: noPip}
	var err error
	if r.Executable, err = r.basePython(); err != nil {
		return f, err
	}
	output, err := r.runTool(ctx, dir, nil, nil, r.Executable, append(slices.Clone(isolatedFlags), "-c", apartProbeScript)...)
	if err != nil {
		return f, err
	}
	lines := strings.Split(output, "\n")
	if len(lines) < 3 {
		return f, fmt.Errorf("%s does not report its Python version", r.Executable)
	}
	f.facts = []string{"python " + lines[len(lines)-3]}
	for _, dir := range lines[len(lines)-2:] {
		pip := filepath.Join(dir, "pip")
		if r.isInApartDir(pip) {
			continue
		}
		code, err := os.ReadFile(filepath.Join(pip, "__init__.py"))
		if version := pipVersion().FindSubmatch(code); err == nil && version != nil {
			f.pipDir, f.installer = pip, string(version[1])
			break
		}
	}
	return f, nil
}

func installPython(ctx context.Context, r *InstallRequest, f runtimeProbe, lib string, report func(InstallProgress)) error {
	uv, err := r.lookPath("uv")
	hasUv := err == nil
	needsPip := !hasUv && f.installer == noPip
	if needsPip {
		report(InstallProgress{Message: "creating a virtual environment with pip, which " + r.Executable + " lacks"})
		f.installer = "0"
	}
	python := r.Executable
	var env []string
	if len(r.SessionDirs) > 0 {
		env = []string{"PYTHONPATH=", "PYTHONHOME="} // modules in these directories may import code of a session
	}
	if needsPip || len(r.SessionDirs) > 0 {
		own := filepath.Join(filepath.Dir(lib), "own")
		defer os.RemoveAll(own)
		if python, err = r.privatePython(ctx, own, env, f.pipDir, needsPip); err != nil {
			return err
		}
	}
	if hasUv {
		args := []string{"pip", "install", "--no-progress", "--python", python, "--target", lib}
		_, err = r.runTool(ctx, filepath.Dir(lib), env, countSteps(report), uv, append(args, r.Packages...)...)
		return err
	}
	return r.runPip(ctx, python, env, f.installer, lib, report)
}

func (r *InstallRequest) runPip(ctx context.Context, python string, env []string, version, lib string, report func(InstallProgress)) error {
	args := []string{"-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--no-warn-script-location", "--target", lib}
	take := countSteps(report)
	if hasRawProgress(version) {
		args, take = append(args, "--progress-bar", "raw"), countDownloads(report)
	} else {
		args = append(args, "--progress-bar", "off")
	}
	// A user's pip settings for other environments conflict with --target.
	env = append(env, "PIP_USER=0", "PIP_REQUIRE_VIRTUALENV=0", "PIP_ROOT_USER_ACTION=ignore")
	_, err := r.runTool(ctx, filepath.Dir(lib), env, take, python, append(args, r.Packages...)...)
	return err
}

// privatePython creates a virtual environment without packages except pip, and returns its
// interpreter. It uses the pip of a directory, or installs one if needsPip is set.
func (r *InstallRequest) privatePython(ctx context.Context, own string, env []string, pip string, needsPip bool) (string, error) {
	var args []string
	if len(r.SessionDirs) > 0 {
		args = slices.Clone(isolatedFlags)
	}
	args = append(args, "-m", "venv")
	if !needsPip {
		args = append(args, "--without-pip")
	}
	if _, err := r.runTool(ctx, filepath.Dir(own), env, nil, r.Executable, append(args, own)...); err != nil {
		if e, ok := errors.AsType[*Error](err); ok && needsPip {
			e.Reason += "; pip is missing, too; install uv, or pip for " + r.Executable
		}
		return "", err
	}
	python := filepath.Join(own, venvPython)
	if pip == "" {
		return python, nil
	}
	libraries, err := filepath.Glob(filepath.Join(own, "lib", "*", "site-packages"))
	if err == nil && len(libraries) != 1 {
		err = fmt.Errorf("%s creates virtual environments without site-packages", r.Executable)
	}
	if err == nil {
		err = os.Symlink(pip, filepath.Join(libraries[0], "pip"))
	}
	return python, err
}

// countSteps counts the lines that a tool prints.
func countSteps(report func(InstallProgress)) func(string) {
	var p InstallProgress
	return func(line string) {
		p.Done++
		p.Message = text.ShortenBytes(line, maxMessageBytes)
		report(p)
	}
}

// hasRawProgress reports whether this version of pip can print its progress in bytes.
func hasRawProgress(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	return err == nil && (a > 24 || a == 24 && b >= 1)
}

// countDownloads counts the bytes that pip downloads. The total is unknown before the last file.
func countDownloads(report func(InstallProgress)) func(string) {
	var p InstallProgress
	var file int64 // counted bytes of the current file
	what := ""
	return func(line string) {
		var done, total int64
		if n, _ := fmt.Sscanf(line, "Progress %d of %d", &done, &total); n == 2 {
			if done < file {
				file = 0 // the next file
			}
			if done > file {
				p.Done += done - file
				file = done
			}
			p.Message = text.ShortenBytes(fmt.Sprintf("%s: %.1f of %.1f MB", what, float64(done)/1e6, float64(total)/1e6), maxMessageBytes)
		} else {
			file, what = 0, line
			p.Message = text.ShortenBytes(line, maxMessageBytes)
		}
		report(p)
	}
}
