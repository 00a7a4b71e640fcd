package diagnose

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/install"
)

// A clientReport describes how the configuration of a client uses this program.
type clientReport struct {
	Client string `json:"client"`
	title  string
	Found  string       `json:"found,omitempty"` // how it was found; "" if it is not on this machine
	Files  []clientFile `json:"files,omitempty"`
}

// A clientFile describes one configuration file of a client.
type clientFile struct {
	File    string        `json:"file"`
	Problem string        `json:"problem,omitempty"` // why the file cannot be read
	Entries []clientEntry `json:"entries"`
}

// A clientEntry describes a server in a configuration file that starts this program.
type clientEntry struct {
	Name    string   `json:"name"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	OK      bool     `json:"ok"`
	Detail  string   `json:"detail"` // about the command
	Notes   []string `json:"notes,omitempty"`
}

func (r clientReport) isFaulty() bool {
	for _, f := range r.Files {
		for _, e := range f.Entries {
			if !e.OK {
				return true
			}
		}
	}
	return false
}

func examineClients(ctx context.Context) []clientReport {
	dirs, err := install.FindConfigDirs()
	if err != nil {
		return nil
	}
	var reports []clientReport
	for _, c := range install.Clients() {
		r := clientReport{Client: c.Name, title: c.Title}
		r.Found, _ = c.FindInstalled(dirs)
		for _, project := range []bool{false, true} {
			if project && !c.HasProject() {
				continue
			}
			file, entries, err := c.FindEntries(dirs, project)
			if project && r.Files != nil && r.Files[0].File == file {
				continue // the project is the home directory
			}
			report := clientFile{File: file, Entries: []clientEntry{}}
			if err != nil {
				report.Problem = cmdkit.ErrorLine(err)
			}
			for _, e := range entries {
				report.Entries = append(report.Entries, examineEntry(ctx, e, !project))
			}
			if len(entries) > 0 || err != nil || !project && r.Found != "" {
				r.Files = append(r.Files, report)
			}
		}
		reports = append(reports, r)
	}
	return reports
}

// versionTimeout bounds a call of another version of this program.
const versionTimeout = 2 * time.Second

func examineEntry(ctx context.Context, e install.ServerEntry, trusted bool) clientEntry {
	r := clientEntry{Name: e.Name, Command: e.Command, Args: e.Args}
	if e.UsesRunner() {
		r.Detail, r.OK = examineRunner(e.Command)
	} else {
		r.Detail, r.OK = examineCommand(ctx, e.Command, trusted)
	}
	if seconds, set := e.TimeoutSeconds(); set && seconds < 60 {
		r.Notes = append(r.Notes, fmt.Sprintf("its timeout of %g s ends calls early: a call may wait 45 s for code, or longer on request", seconds))
	}
	if load, set := e.Settings["alwaysLoad"].(bool); set && !load {
		r.Notes = append(r.Notes, "alwaysLoad is off: the model sees the tools only after it has searched for them")
	}
	return r
}

// examineRunner looks for uvx or npx. It does not run it, because that might install something.
func examineRunner(command string) (detail string, ok bool) {
	if _, err := exec.LookPath(command); err != nil {
		return command + " is not on PATH, so the client cannot start it; install it, or run repl install from a permanent installation", false
	}
	return "found by name at each start", true
}

// examineCommand compares a command with this program. It does not run an untrusted command: the
// file of a project is written by the project's author.
func examineCommand(ctx context.Context, command string, trusted bool) (detail string, ok bool) {
	path, err := exec.LookPath(command)
	if err != nil {
		return "it does not exist, so the client cannot start it; repl install writes the entry again", false
	}
	self, err := os.Executable()
	if err == nil {
		mine, errMine := os.Stat(self)
		its, errIts := os.Stat(path)
		if errMine == nil && errIts == nil && os.SameFile(mine, its) {
			return "this program", true
		}
	}
	if !trusted {
		return "another program, not run here because the project names it", true
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	firstLine, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	switch {
	case err != nil || !strings.HasPrefix(firstLine, "repl "):
		return fmt.Sprintf("%s does not identify itself as repl (%.60q)", path, firstLine), false
	case firstLine == cmdkit.VersionLine():
		return "another file with the same version", true
	}
	return "another version: " + firstLine, true
}

// printClients prints the reports for a terminal.
func printClients(p *cmdkit.LineBuilder, reports []clientReport) {
	var absent []string
	for _, r := range reports {
		if r.Found == "" && len(r.Files) == 0 {
			absent = append(absent, r.title)
		}
		for _, f := range r.Files {
			switch {
			case f.Problem != "":
				p.AddLine("  note    %s: %s", r.title, f.Problem)
			case len(f.Entries) == 0:
				p.AddLine("  -       %s: not in %s (repl install %s)", r.title, f.File, r.Client)
			}
			for _, e := range f.Entries {
				mark := "ok    "
				if !e.OK {
					mark = "FAILED"
				}
				p.AddLine("  %s  %s: %q in %s starts %s: %s", mark, r.title, e.Name, f.File, strings.Join(append([]string{e.Command}, e.Args...), " "), e.Detail)
				for _, n := range e.Notes {
					p.AddLine("  note    %s: %s", r.title, n)
				}
			}
		}
	}
	if len(absent) > 0 {
		p.AddLine("  not on this machine: %s", strings.Join(absent, ", "))
	}
}
