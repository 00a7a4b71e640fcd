package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// Options configure how to install or uninstall an entry.
type Options struct {
	Project bool // change the project's file, not the user's
	DryRun  bool // report the changes without making them
}

// A Report describes the changes that were made, or would be made.
type Report struct {
	Client   ClientConfig
	Outcome  InstallOutcome
	File     string
	Backup   string     // the copy of the old File; "" if nothing was replaced
	Diff     string     // the changed lines of File
	Commands [][]string // the client's own commands
	Note     string     // a further fact; may be ""
}

// An InstallOutcome says what happened to an entry.
type InstallOutcome string

// Outcomes of Install and Uninstall.
const (
	Added         InstallOutcome = "added"
	Updated       InstallOutcome = "updated"
	Unchanged     InstallOutcome = "already configured"
	Removed       InstallOutcome = "removed"
	NotConfigured InstallOutcome = "not configured"
)

// nameShape matches server names that every client accepts, up to maxName bytes.
var nameShape = text.Pattern(`^[A-Za-z0-9_-]+$`)

const maxName = 64

// ValidName reports whether all clients accept a name.
func ValidName(name string) bool { return len(name) <= maxName && nameShape().MatchString(name) }

// maxInstallAttempts bounds how often a file is read again because another program has changed it.
const maxInstallAttempts = 10

// Install adds a server to the client's configuration. In an existing entry it changes only the
// command; other settings belong to the user. It refuses to change an entry of the same name that
// starts another program.
func (c ClientConfig) Install(ctx context.Context, p ConfigDirs, s ServerSpec, o Options) (Report, error) {
	return c.applyPlan(ctx, p, s, o, (*configChange).planInstall)
}

// Uninstall removes the entry. If nothing else has changed the file since Install, its old content
// is restored; a file that Install created is removed.
func (c ClientConfig) Uninstall(ctx context.Context, p ConfigDirs, s ServerSpec, o Options) (Report, error) {
	return c.applyPlan(ctx, p, s, o, (*configChange).planUninstall)
}

// A configChange describes the intended change of one file.
type configChange struct {
	client     ClientConfig
	dirs       ConfigDirs
	server     ServerSpec
	file       string
	oldFile    fileSnapshot
	tree       map[string]any
	entry      map[string]any // nil if there is none
	outcome    InstallOutcome
	newText    []byte // the new contents
	removeFile bool   // the file must be removed

	// keepBackup leaves the present backup as it was, instead of replacing it by a copy of the current
	// file. dropBackup removes the backup once its content is restored.
	keepBackup, dropBackup bool
}

func (c ClientConfig) applyPlan(ctx context.Context, p ConfigDirs, s ServerSpec, o Options, plan func(*configChange) error) (r Report, err error) {
	file, err := c.configFile(p, o.Project)
	if err != nil {
		return Report{Client: c}, err
	}
	for range maxInstallAttempts {
		r, err = c.attemptPlan(ctx, &configChange{client: c, dirs: p, server: s, file: file}, o, plan)
		if !errors.Is(err, errChanged) || ctx.Err() != nil {
			break
		}
	}
	return r, err
}

func (c ClientConfig) attemptPlan(ctx context.Context, ch *configChange, o Options, plan func(*configChange) error) (Report, error) {
	r := Report{Client: c, File: ch.file}
	var err error
	if ch.oldFile, err = readFile(ch.file); err != nil {
		return r, fileError(ch.file, err)
	}
	if ch.tree, err = c.format.parse(ch.oldFile.text); err == nil {
		ch.entry, err = entryAt(ch.tree, c.entryKeys(ch.tree, ch.server.Name))
	}
	if err == nil {
		err = plan(ch)
	}
	if err != nil {
		return r, fileError(ch.file, err)
	}
	r.Outcome = ch.outcome
	if r.Outcome == Unchanged || r.Outcome == NotConfigured {
		return r, nil
	}
	why := ""
	if c.ownCommands != nil && !o.Project {
		steps := c.ownCommands(ch)
		if why = cannotUse(c.programs[0], steps); why == "" {
			return ch.runSteps(ctx, r, steps, o.DryRun)
		}
	}
	switch r.Diff = changedLines(ch.oldFile.text, ch.newText); {
	case ch.removeFile:
		r.Note = "the file had no other content and is removed"
	case c.rewritesFile && !o.Project:
		r.Note = why + ", so its file is edited directly; quit " + c.Title + " first, because it may overwrite the change"
	}
	if o.DryRun {
		return r, nil
	}
	return ch.writeFile(r)
}

func (c ClientConfig) entryKeys(tree map[string]any, name string) []string {
	return append(slices.Clone(c.servers(tree)), name)
}

// addEntry adds an entry to a text, and variables to the entry's table of variables.
func (c ClientConfig) addEntry(text []byte, name string, settings, variables []configSetting) ([]byte, error) {
	tree, err := c.format.parse(text)
	if err != nil {
		return nil, err
	}
	at := c.entryKeys(tree, name)
	if len(settings) > 0 {
		text, err = putVerified(c.format, text, at, settings)
	}
	if err == nil && len(variables) > 0 {
		text, err = putVerified(c.format, text, append(at, c.envPassthrough.key), variables)
	}
	return text, err
}

func (ch *configChange) checkOwnership() error {
	e := parseEntry(ch.server.Name, ch.entry)
	if e.isOurs(ch.server.Command) {
		return nil
	}
	what := strings.Join(append([]string{e.Command}, e.Args...), " ")
	if url, ok := ch.entry["url"].(string); ok {
		what = url
	}
	return fmt.Errorf("its server %q is a different one (%.80s); choose a name with --name", e.Name, what)
}

// missingSettings returns the mandatory settings that are wrong or missing in an entry.
func (ch *configChange) missingSettings() (list []configSetting) {
	for _, s := range ch.client.settingsWith(ch.server, ch.entry) {
		if s.mustMatch && !reflect.DeepEqual(ch.entry[s.key], ch.client.format.decodeValue(s.value)) {
			list = append(list, s)
		}
	}
	return list
}

func (ch *configChange) planInstall() (err error) {
	settings := ch.client.settingsWith(ch.server, ch.entry)
	variables := ch.client.envSettings(ch.server, ch.entry)
	if ch.outcome = Added; ch.entry != nil {
		if err := ch.checkOwnership(); err != nil {
			return err
		}
		if settings = ch.missingSettings(); len(settings) == 0 && len(variables) == 0 {
			ch.outcome = Unchanged
			return nil
		}
		ch.outcome = Updated
		_, ch.keepBackup = ch.fileBefore()
	}
	ch.newText, err = ch.client.addEntry(ch.oldFile.text, ch.server.Name, settings, variables)
	return err
}

func (ch *configChange) planUninstall() (err error) {
	if ch.outcome = NotConfigured; ch.entry == nil {
		return nil
	}
	if err := ch.checkOwnership(); err != nil {
		return err
	}
	ch.outcome = Removed
	if before, present := ch.fileBefore(); present {
		ch.newText, ch.removeFile, ch.dropBackup = before.text, !before.exists, before.exists
		ch.keepBackup = true
		return nil
	}
	ch.newText, err = removeVerified(ch.client.format, ch.oldFile.text, ch.client.entryKeys(ch.tree, ch.server.Name))
	return err
}

// fileBefore returns the file without our entry: the backup, or no file. found is true if adding
// the entry to it produces the current file.
func (ch *configChange) fileBefore() (before fileSnapshot, found bool) {
	before, err := readFile(backupPath(ch.file))
	if err != nil {
		return before, false
	}
	e := parseEntry(ch.server.Name, ch.entry)
	s := ServerSpec{Name: e.Name, Command: e.Command, Args: e.Args, AutoApprove: ch.client.approvalSetting != "" && ch.entry[ch.client.approvalSetting] != nil}
	if ch.client.envPassthrough != nil {
		s.Env = ch.client.envPassthrough.variableNames(ch.entry[ch.client.envPassthrough.key], ch.client.settings(s))
	}
	tree, err := ch.client.format.parse(before.text)
	if err != nil {
		return before, false
	}
	if old, err := entryAt(tree, ch.client.entryKeys(tree, s.Name)); err != nil || old != nil {
		return before, false
	}
	text, err := ch.client.addEntry(before.text, s.Name, ch.client.settingsWith(s, nil), ch.client.envSettings(s, nil))
	return before, err == nil && bytes.Equal(text, ch.oldFile.text)
}

// writeFile writes the change to the file.
func (ch *configChange) writeFile(r Report) (Report, error) {
	if ch.oldFile.exists && !ch.keepBackup {
		if err := ch.oldFile.backUp(ch.file); err != nil {
			return r, fileError(ch.file, err)
		}
		r.Backup = backupPath(ch.file)
	}
	var err error
	if ch.removeFile {
		if err = ch.oldFile.removeFile(); err == nil {
			ch.dirs.removeEmptyDirs(ch.oldFile.target)
		}
	} else {
		err = ch.oldFile.replaceFile(ch.newText)
	}
	if err != nil {
		return r, fileError(ch.file, err)
	}
	if ch.dropBackup {
		if err := os.Remove(backupPath(ch.file)); err == nil {
			r.Note = "the original content is restored, so the backup is removed"
		}
	}
	return r, nil
}

// A clientCommand is a command line of the client itself, such as "claude mcp add-json".
type clientCommand []string

// stepTimeout bounds one command of the client.
const stepTimeout = 30 * time.Second

// runSteps runs the client's own commands, and checks that they changed its file.
func (ch *configChange) runSteps(ctx context.Context, r Report, steps []clientCommand, dry bool) (Report, error) {
	for i, s := range steps {
		r.Commands = append(r.Commands, s)
		if dry {
			continue
		}
		if err := s.runCommand(ctx); err != nil {
			if i > 0 {
				err = fmt.Errorf("%w (the entry was removed, but not added again)", err)
			}
			return r, err
		}
	}
	if dry {
		return r, nil
	}
	now, err := readFile(ch.file)
	if err == nil {
		ch.tree, err = ch.client.format.parse(now.text)
	}
	if err == nil {
		ch.entry, err = entryAt(ch.tree, ch.client.entryKeys(ch.tree, ch.server.Name))
	}
	if err != nil {
		return r, fileError(ch.file, err)
	}
	if present := ch.entry != nil && len(ch.missingSettings()) == 0; present == (r.Outcome == Removed) {
		return r, fmt.Errorf("%s succeeded, but %s does not show the change; check with the client itself", steps[len(steps)-1][0], ch.file)
	}
	return r, nil
}

func (c clientCommand) runCommand(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, c[0], c[1:]...)
	command.WaitDelay = time.Second // children may hold our pipe open
	out, err := command.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", c[0], context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("%s %s: %w: %s", c[0], c[1], err, text.OneLine(fmt.Sprintf("%.400s", out)))
	}
	return nil
}

// planClaudeCommands uses Claude Code's own command, because a running Claude Code often writes the
// user's file.
func planClaudeCommands(ch *configChange) []clientCommand {
	program, err := exec.LookPath("claude")
	if err != nil {
		return nil
	}
	remove := clientCommand{program, "mcp", "remove", "-s", "user", ch.server.Name}
	add := func(object []byte) clientCommand {
		return clientCommand{program, "mcp", "add-json", "-s", "user", ch.server.Name, string(object)}
	}
	switch ch.outcome {
	case Removed:
		return []clientCommand{remove}
	case Added:
		return []clientCommand{add(inlineTable(ch.client.settings(ch.server)))}
	}
	merged := make(map[string]any) // includes the user's own settings
	for k, v := range ch.entry {
		merged[k] = v
	}
	for _, s := range ch.missingSettings() {
		merged[s.key] = s.value
	}
	object, err := json.Marshal(merged)
	if err != nil {
		return nil
	}
	return []clientCommand{remove, add(object)}
}

// planCodeCommands uses Code's own command only if no file exists yet, because Code knows best
// where to put it. The command would rewrite an existing file without its comments.
func planCodeCommands(ch *configChange) []clientCommand {
	program, err := exec.LookPath("code")
	if err != nil || ch.oldFile.exists || ch.outcome != Added || len(ch.server.Env) > 0 {
		return nil
	}
	return []clientCommand{{program, "--add-mcp", string(inlineTable(append([]configSetting{{"name", ch.server.Name, true}}, ch.client.settings(ch.server)...)))}}
}

// cannotUse says why the client's own command cannot be used, or returns "".
func cannotUse(name string, steps []clientCommand) string {
	if len(steps) == 0 {
		return name + " is not on PATH"
	}
	for _, s := range steps {
		if slices.ContainsFunc(s[1:], func(word string) bool { return wouldGarble(s[0], word) }) {
			return s[0] + " is a batch file, which would garble the entry"
		}
	}
	return ""
}

func inlineTable(settings []configSetting) []byte {
	return []byte(jsonLayout{}.renderValue(settings, "", true))
}
