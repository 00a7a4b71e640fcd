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
	"regexp"
	"slices"
	"strings"
	"time"
)

// Options say how to install or to uninstall.
type Options struct {
	Project bool // the project's file instead of the person's
	DryRun  bool // find out, and change nothing
}

// A Report describes the changes that were made, or would be made.
type Report struct {
	Client Client
	Done   Outcome
	File   string
	Backup string     // the copy of the old File; "" when nothing was replaced
	Diff   string     // the lines of File that changed
	Ran    [][]string // the client's own commands
	Note   string     // a further fact; may be ""
}

// An Outcome says what happened to an entry.
type Outcome string

// The outcomes.
const (
	Added   Outcome = "added"
	Updated Outcome = "updated"
	Already Outcome = "already there"
	Removed Outcome = "removed"
	Absent  Outcome = "not there"
)

// nameShape matches the names of servers that every client accepts, of maxName bytes at most.
var nameShape = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

const maxName = 64

// ValidName reports whether all clients accept a name.
func ValidName(name string) bool { return len(name) <= maxName && nameShape.MatchString(name) }

// tries bounds how often a file is read again because another program has changed it.
const tries = 10

// Install makes a client start a server. In an existing entry it changes only the started
// program; other settings belong to the user. It refuses to change an entry of the same name
// that starts something else.
func (c Client) Install(ctx context.Context, p Places, s Server, o Options) (Report, error) {
	return c.apply(ctx, p, s, o, (*change).install)
}

// Uninstall removes the entry. If nothing else has changed the file since Install, its old
// bytes are restored; a file that Install made is removed.
func (c Client) Uninstall(ctx context.Context, p Places, s Server, o Options) (Report, error) {
	return c.apply(ctx, p, s, o, (*change).uninstall)
}

// A change describes the intended change of one file.
type change struct {
	client Client
	places Places
	server Server
	file   string
	was    snapshot
	tree   map[string]any
	entry  map[string]any // nil when there is none
	done   Outcome
	text   []byte // the new contents
	gone   bool   // the file must be removed

	// A backup of the file from before our entry is kept, and removed when it is restored.
	keepBackup, dropBackup bool
}

func (c Client) apply(ctx context.Context, p Places, s Server, o Options, plan func(*change) error) (r Report, err error) {
	file, err := c.target(p, o.Project)
	if err != nil {
		return Report{Client: c}, err
	}
	for range tries {
		r, err = c.attempt(ctx, &change{client: c, places: p, server: s, file: file}, o, plan)
		if !errors.Is(err, errChanged) || ctx.Err() != nil {
			break
		}
	}
	return r, err
}

func (c Client) attempt(ctx context.Context, ch *change, o Options, plan func(*change) error) (Report, error) {
	r := Report{Client: c, File: ch.file}
	var err error
	if ch.was, err = readFile(ch.file); err != nil {
		return r, describe(ch.file, err)
	}
	if ch.tree, err = c.format.parse(ch.was.text); err == nil {
		ch.entry, err = entryAt(ch.tree, c.at(ch.tree, ch.server.Name))
	}
	if err == nil {
		err = plan(ch)
	}
	if err != nil {
		return r, describe(ch.file, err)
	}
	r.Done = ch.done
	if r.Done == Already || r.Done == Absent {
		return r, nil
	}
	why := ""
	if c.own != nil && !o.Project {
		steps := c.own(ch)
		if why = cannotUse(c.programs[0], steps); why == "" {
			return ch.run(ctx, r, steps, o.DryRun)
		}
	}
	switch r.Diff = changedLines(ch.was.text, ch.text); {
	case ch.gone:
		r.Note = "the file held nothing else, and is removed"
	case c.state && !o.Project:
		r.Note = why + ", so its file was edited directly: quit any " + c.Title + " that is running first, or it may overwrite the change"
	}
	if o.DryRun {
		return r, nil
	}
	return ch.write(r)
}

func (c Client) at(tree map[string]any, name string) []string {
	return append(slices.Clone(c.servers(tree)), name)
}

// with adds an entry to a text, and variables to the entry's table of variables.
func (c Client) with(text []byte, name string, settings, variables []setting) ([]byte, error) {
	tree, err := c.format.parse(text)
	if err != nil {
		return nil, err
	}
	at := c.at(tree, name)
	if len(settings) > 0 {
		text, err = put(c.format, text, at, settings)
	}
	if err == nil && len(variables) > 0 {
		text, err = put(c.format, text, append(at, c.env.key), variables)
	}
	return text, err
}

func (ch *change) mine() error {
	e := entryOf(ch.server.Name, ch.entry)
	if e.ours(ch.server.Command) {
		return nil
	}
	what := strings.Join(append([]string{e.Command}, e.Args...), " ")
	if url, ok := ch.entry["url"].(string); ok {
		what = url
	}
	return fmt.Errorf("its server %q is another one (%.80s); choose a name with --name", e.Name, what)
}

// missing returns the fixed settings that are wrong or missing in an entry.
func (ch *change) missing() (list []setting) {
	for _, s := range ch.client.settingsWith(ch.server, ch.entry) {
		if s.fixed && !reflect.DeepEqual(ch.entry[s.key], ch.client.format.decoded(s.value)) {
			list = append(list, s)
		}
	}
	return list
}

func (ch *change) install() (err error) {
	settings := ch.client.settingsWith(ch.server, ch.entry)
	variables := ch.client.variables(ch.server, ch.entry)
	if ch.done = Added; ch.entry != nil {
		if err := ch.mine(); err != nil {
			return err
		}
		if settings = ch.missing(); len(settings) == 0 && len(variables) == 0 {
			ch.done = Already
			return nil
		}
		ch.done = Updated
		_, ch.keepBackup = ch.before()
	}
	ch.text, err = ch.client.with(ch.was.text, ch.server.Name, settings, variables)
	return err
}

func (ch *change) uninstall() (err error) {
	if ch.done = Absent; ch.entry == nil {
		return nil
	}
	if err := ch.mine(); err != nil {
		return err
	}
	ch.done = Removed
	if before, there := ch.before(); there {
		ch.text, ch.gone, ch.dropBackup = before.text, !before.there, before.there
		ch.keepBackup = true
		return nil
	}
	ch.text, err = remove(ch.client.format, ch.was.text, ch.client.at(ch.tree, ch.server.Name))
	return err
}

// before returns the file from before our entry: the backup, or no file, if adding the entry
// to that gives the present file.
func (ch *change) before() (before snapshot, found bool) {
	before, err := readFile(backupOf(ch.file))
	if err != nil {
		return before, false
	}
	e := entryOf(ch.server.Name, ch.entry)
	s := Server{Name: e.Name, Command: e.Command, Args: e.Args, Approve: ch.client.approves != "" && ch.entry[ch.client.approves] != nil}
	if ch.client.env != nil {
		s.Env = ch.client.env.names(ch.entry[ch.client.env.key], ch.client.settings(s))
	}
	tree, err := ch.client.format.parse(before.text)
	if err != nil {
		return before, false
	}
	if old, err := entryAt(tree, ch.client.at(tree, s.Name)); err != nil || old != nil {
		return before, false
	}
	text, err := ch.client.with(before.text, s.Name, ch.client.settingsWith(s, nil), ch.client.variables(s, nil))
	return before, err == nil && bytes.Equal(text, ch.was.text)
}

// write puts the change into the file.
func (ch *change) write(r Report) (Report, error) {
	if ch.was.there && !ch.keepBackup {
		if err := ch.was.backUp(ch.file); err != nil {
			return r, describe(ch.file, err)
		}
		r.Backup = backupOf(ch.file)
	}
	var err error
	if ch.gone {
		if err = ch.was.remove(); err == nil {
			ch.places.tidy(ch.was.target)
		}
	} else {
		err = ch.was.replace(ch.text)
	}
	if err != nil {
		return r, describe(ch.file, err)
	}
	if ch.dropBackup {
		if err := os.Remove(backupOf(ch.file)); err == nil {
			r.Note = "it is as it was before, so the backup is removed"
		}
	}
	return r, nil
}

// A step is one command of a client's own.
type step []string

// stepTime bounds a step.
const stepTime = 30 * time.Second

// run lets the client change its file, and checks that it did.
func (ch *change) run(ctx context.Context, r Report, steps []step, dry bool) (Report, error) {
	for i, s := range steps {
		r.Ran = append(r.Ran, s)
		if dry {
			continue
		}
		if err := s.run(ctx); err != nil {
			if i > 0 {
				err = fmt.Errorf("%w (the entry is removed, but not added again)", err)
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
		ch.entry, err = entryAt(ch.tree, ch.client.at(ch.tree, ch.server.Name))
	}
	if err != nil {
		return r, describe(ch.file, err)
	}
	if there := ch.entry != nil && len(ch.missing()) == 0; there == (r.Done == Removed) {
		return r, fmt.Errorf("%s ended well, but %s does not show it; look with the client itself", steps[len(steps)-1][0], ch.file)
	}
	return r, nil
}

func (s step) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	command := exec.CommandContext(ctx, s[0], s[1:]...)
	command.WaitDelay = time.Second // for children that keep our pipe open
	out, err := command.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", s[0], context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("%s %s: %w: %s", s[0], s[1], err, strings.Join(strings.Fields(fmt.Sprintf("%.400s", out)), " "))
	}
	return nil
}

// claudeCommands uses Claude Code's own command, because a running Claude Code often writes
// the user's file.
func claudeCommands(ch *change) []step {
	program, err := exec.LookPath("claude")
	if err != nil {
		return nil
	}
	remove := step{program, "mcp", "remove", "-s", "user", ch.server.Name}
	add := func(object []byte) step {
		return step{program, "mcp", "add-json", "-s", "user", ch.server.Name, string(object)}
	}
	switch ch.done {
	case Removed:
		return []step{remove}
	case Added:
		return []step{add(inline(ch.client.settings(ch.server)))}
	}
	merged := make(map[string]any) // with the person's own settings
	for k, v := range ch.entry {
		merged[k] = v
	}
	for _, s := range ch.missing() {
		merged[s.key] = s.value
	}
	object, err := json.Marshal(merged)
	if err != nil {
		return nil
	}
	return []step{remove, add(object)}
}

// codeCommands uses Code's own command only if there is no file yet, because Code knows best
// where to put it. The command would rewrite an existing file without its comments.
func codeCommands(ch *change) []step {
	program, err := exec.LookPath("code")
	if err != nil || ch.was.there || ch.done != Added || len(ch.server.Env) > 0 {
		return nil
	}
	return []step{{program, "--add-mcp", string(inline(append([]setting{{"name", ch.server.Name, true}}, ch.client.settings(ch.server)...)))}}
}

// cannotUse says why the client's own command, of that name, cannot be used; ""
// when it can.
func cannotUse(name string, steps []step) string {
	if len(steps) == 0 {
		return name + " is not on PATH"
	}
	for _, s := range steps {
		if slices.ContainsFunc(s[1:], func(word string) bool { return garbled(s[0], word) }) {
			return s[0] + " is a batch file, which would garble the entry"
		}
	}
	return ""
}

func inline(settings []setting) []byte { return []byte(layout{}.render(settings, "", true)) }
