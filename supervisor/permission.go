package supervisor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// maxQuestions bounds the permissions that are asked for in one turn. Beyond it, calls are
	// refused as if nobody could be asked.
	maxQuestions = 5

	// maxDenials bounds the denials of one turn that are told one by one.
	maxDenials = 5

	// maxRefused bounds what is remembered of a person's refusals. Then the oldest is asked
	// for again.
	maxRefused = 256
)

// A gate is the sandbox of a running worker.
type gate interface {
	// Permit lets a held call go on, which succeeds only with ok. A call that is gone is no
	// error.
	Permit(call uint64, ok bool) error
	// Grant makes a file or directory writable, or shows it. When it returns, all programs of the
	// worker have it. id is its confine.Identity; "" is whatever is there. After host.ErrUnanswered, late
	// is called if they have it later.
	Grant(path string, read bool, id string, late func()) error
}

// A GrantStore keeps rights that persons gave for all sessions of a workspace, which is the
// real path of a directory.
type GrantStore interface {
	// Kept returns the rights of a workspace. Their order means nothing.
	Kept(workspace string) ([]session.Grant, error)
	// Keep adds one.
	Keep(workspace string, g session.Grant) error
}

// rights are what persons gave to a session and refused. A new worker has them, too.
type rights struct {
	permissions  uint64          // number of the last permission
	given        []session.Grant // without Always
	missing      []session.Grant // the same, but the worker was started without them
	refused      []session.Grant
	told         []timeline.AccessDenied // denials since the last turn began
	untold       int                     // and those beyond maxDenials
	hidden       []string                // files and directories that the worker's sandbox hides
	unshown      []string                // those that it does not show, and could
	namedHidden  string                  // one of hidden that a message in the output of the turn named
	namedUnshown string                  // one of unshown, likewise
	private      private
	heard        bool // the stage has told something that it will not tell again
}

// addGiven adds a right.
func (r *rights) addGiven(g session.Grant) {
	r.missing = without(r.missing, g)
	if !slices.Contains(r.given, g) {
		r.given = append(r.given, g)
	}
}

// leaveOut takes in that the worker does not have a right. The next start tries to give it again.
func (r *rights) leaveOut(g session.Grant) {
	r.takeBack(g)
	r.missing = append(r.missing, g)
}

// takeBack removes a right.
func (r *rights) takeBack(g session.Grant) {
	r.given, r.missing = without(r.given, g), without(r.missing, g)
}

func without(all []session.Grant, g session.Grant) []session.Grant {
	return slices.DeleteFunc(all, func(other session.Grant) bool { return other == g })
}

// denied takes in what the sandbox of a worker refused or holds.
func (s *Session) denied(generation uint64, d host.Denial) {
	offer := session.Grant{}
	if !d.Kept {
		offer = s.offerFor(timeline.AccessDenied{Op: d.Op, Path: d.Path, Host: d.Host})
	}
	s.mu.Lock()
	defer s.unlock()
	switch {
	case generation != s.m.generation:
	case s.worker != nil:
		s.m.denied(d, offer)
	case s.m.phase == phaseLaunching: // the worker is not known yet
		s.early = append(s.early, d)
	}
}

// offerFor returns the right that a person may give for a call; zero if there is none. To write a file
// whose directory is not given, the file alone may be.
func (s *Session) offerFor(what timeline.AccessDenied) session.Grant {
	grant := grantFor(what)
	if grant.Write == "" || s.mayOffer(grant) {
		return grant
	}
	file := session.Grant{Write: what.Path}
	if st, err := os.Lstat(what.Path); what.Op != "write" || err != nil || !st.Mode().IsRegular() || !s.mayOffer(file) {
		return session.Grant{}
	}
	return file
}

// mayOffer reports whether code may make the session ask for a path to write.
func (s *Session) mayOffer(g session.Grant) bool {
	s.mu.Lock()
	spec := s.spec
	s.mu.Unlock()
	programs, err := s.o.mayGive(&spec, g.Write)
	return programs == "" && err == nil
}

// denied handles a report of the sandbox. offer is what a person may allow; zero is nothing.
func (m *machine) denied(d host.Denial, offer session.Grant) {
	if d.Over {
		m.release(func(a ask) bool { return a.call == d.ID })
		return
	}
	m.heard = true
	m.refusedOrHeld(d.ID, timeline.AccessDenied{Op: d.Op, Path: d.Path, Host: d.Host, ChildProgram: d.By, Detail: d.Setting}, offer)
}

// refusedOrHeld takes in what is refused, or held under a number until somebody has decided.
func (m *machine) refusedOrHeld(id uint64, what timeline.AccessDenied, grant session.Grant) {
	none := grant == session.Grant{}
	told := what
	if !none && m.remedy != nil && !slices.Contains(m.refused, grant) {
		told.Hint = m.remedy(grant)
	}
	if id == 0 {
		m.tellDenied(told)
		return
	}
	if slices.ContainsFunc(m.asked, func(a ask) bool { return a.call == id }) {
		return // it began again after a signal
	}
	switch {
	case slices.ContainsFunc(m.given, func(g session.Grant) bool { return covers(g, what) }):
		m.permit(id, true)
	case what.Call == "" && m.madeAgain(what):
		m.permit(id, false)
	case slices.ContainsFunc(m.asked, func(a ask) bool { return a.Permission != nil && a.Permission.Grant == grant }):
		m.askPermission(id, what, grant) // one answer is for all of them
	case none || !m.canAsk() || slices.Contains(m.refused, grant):
		m.permit(id, false)
		m.tellDenied(told)
	default:
		m.turn.questions++
		m.askPermission(id, what, grant)
	}
}

// madeAgain reports, once for each, whether an interrupt has ended the same call. The kernel makes
// a call again that a signal interrupts, for programs that want that, as R does. Such a program
// feels the interrupt only when the call returns.
func (m *machine) madeAgain(what timeline.AccessDenied) bool {
	if m.turn == nil {
		return false
	}
	i := slices.Index(m.turn.stopped, what)
	if i >= 0 {
		m.turn.stopped = slices.Delete(m.turn.stopped, i, i+1)
	}
	return i >= 0
}

// canAsk reports whether a person can be asked now.
func (m *machine) canAsk() bool {
	return (m.phase == phaseRunning || m.phase == phaseWaiting) && m.turn.id > 0 && m.turn.questions < maxQuestions
}

func (m *machine) askPermission(call uint64, what timeline.AccessDenied, grant session.Grant) {
	m.permissions++
	p := &session.PermissionRequest{ID: m.permissions, AccessDenied: what, Grant: grant, Wider: widerThan(what)}
	m.asked = append(m.asked, ask{
		InputRequest: session.InputRequest{Turn: m.turn.id, Prompt: p.Question(), Kind: timeline.InputKindPermission, Permission: p},
		call:         call,
	})
	if !m.turn.unacked { // else the interrupt may be about to end the call
		m.serve()
	}
}

// tellDenied records a denial, once in a turn.
func (m *machine) tellDenied(what timeline.AccessDenied) {
	if m.isNews(what) {
		m.record(what)
	}
}

// isNews reports whether a denial is one that is told: each once in a turn, and the first few.
func (m *machine) isNews(what timeline.AccessDenied) bool {
	switch {
	case slices.Contains(m.told, what):
	case len(m.told) == maxDenials:
		m.untold++
	default:
		m.told = append(m.told, what)
		return true
	}
	return false
}

// A private has the directories of which the sandbox gives the session its own, such as /tmp.
type private struct {
	dirs  []string
	home  string   // the home directory that is built for the session, one of them
	but   []string // what is the machine's in them
	named string   // the one in which the turn did not find a path, or that path in home
	told  []string // those that were told, once in a session

	mayShow func(path string) error // says why no person can show the session a path
}

// maxToldUnshown bounds the paths in the home directory that a session is told of.
const maxToldUnshown = 20

// notFound takes in that a message names a file that may be in the machine's directory of that name.
// Nobody looks whether it is there: that would tell the session.
func (p *private) notFound(text string) {
	if p.named != "" {
		return
	}
	for _, dir := range p.dirs {
		if slices.Contains(p.told, dir) {
			continue
		}
		for path := range pathsBelow(text, dir) {
			own := strings.HasPrefix(filepath.Base(path), "Rtmp") || slices.ContainsFunc(p.but, func(d string) bool { return within(path, d) || within(d, path) })
			name := filepath.Base(path)
			if own || slices.Contains(p.told, path) || timeline.QuoteName(name) != name { // the code may have made the message
				continue
			}
			if p.named = dir; dir == p.home {
				p.named = path
			}
			return
		}
	}
}

// pathsBelow returns the first components of the paths in a text that are below a directory.
func pathsBelow(text, dir string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			before, behind, found := strings.Cut(text, dir+"/")
			if !found {
				return
			}
			last, _ := utf8.DecodeLastRuneInString(before)
			name := behind[:max(0, strings.IndexFunc(behind+" ", func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("/'\"`’”»:,;)]}", r) }))]
			if text = behind; name != "" && !isInName(last) && last != '/' && !yield(dir+"/"+name) {
				return
			}
		}
	}
}

func (m *machine) tellPrivate(e *ipc.RuntimeError) {
	if e != nil && e.Name == "FileNotFoundError" {
		m.private.notFound(e.Message)
	}
	named := m.private.named
	m.private.named = ""
	switch {
	case named == "", slices.ContainsFunc(m.told, func(d timeline.AccessDenied) bool { return d.Path == named }): // it was to be made, and not shown
	case m.private.home != "" && within(named, m.private.home):
		m.tellUnshown(named, ", if it is there")
	default:
		m.private.told = append(m.private.told, named)
		m.notice("this session has its own %s and does not see the files in yours: put what it needs into the workspace", named)
	}
}

// tellHidden says that the error of a turn, or a message in its output, names something that the session
// does not see. Opening it fails as if a file had no rights or were not there, and no call is seen, so only
// words can tell.
func (m *machine) tellHidden(e *ipc.RuntimeError) {
	hidden, unshown := m.namedHidden, m.namedUnshown
	if e != nil {
		hidden, unshown = cmp.Or(m.firstNamed(e.Message, m.hidden), hidden), cmp.Or(m.firstNamed(e.Message, m.unshown), unshown)
	}
	m.namedHidden, m.namedUnshown = "", ""
	if hidden != "" {
		m.tellClosed(hidden)
	}
	isRefused := slices.ContainsFunc(m.told, func(d timeline.AccessDenied) bool { return d.Path == unshown })
	if unshown != "" && !isRefused { // else to see it would not help
		m.tellUnshown(unshown, "")
	}
}

// tellUnshown says, once, how a person shows the session a path.
func (m *machine) tellUnshown(path, doubt string) {
	p := &m.private
	if p.told = append(p.told, path); len(p.told) >= maxToldUnshown {
		p.told, m.unshown = append(p.told, p.home), nil
	}
	switch {
	case p.mayShow == nil:
		m.notice("the sandbox does not show %s%s", timeline.QuoteName(path), doubt)
	case p.mayShow(path) != nil:
		m.tellClosed(path)
	case m.remedy == nil:
		m.notice("the sandbox does not show %s%s; a person can allow it", timeline.QuoteName(path), doubt)
	default:
		m.notice("the sandbox does not show %s%s; a person can allow it with: %s", timeline.QuoteName(path), doubt, m.remedy(session.Grant{Read: path}))
	}
}

// tellClosed says that nobody can show the session a path.
func (m *machine) tellClosed(path string) {
	m.notice("the sandbox hides %s from every session, and nobody can allow it", path)
}

// firstNamed returns the first of these paths that a text names and that was not told of; "" without one.
func (m *machine) firstNamed(text string, paths []string) string {
	i := slices.IndexFunc(paths, func(path string) bool { return namesPath(text, path) && !slices.Contains(m.private.told, path) })
	if i < 0 {
		return ""
	}
	return paths[i]
}

// readMessages looks for something hidden, or missing in a directory of the session's own, in what
// is written: in the messages of the runtime, and in those of its children. Their words depend on
// the language of the user.
func (m *machine) readMessages(t timeline.Text) {
	if t.Kind != "" {
		return
	}
	text := slices.Concat(m.lastLine, t.Data) // programs write a message in parts
	if !m.mayNameHidden(text) {
		return
	}
	for line := range strings.Lines(string(text)) {
		if t.Stream == timeline.Stdout && !isComplaint(line) {
			continue
		}
		m.private.notFound(line)
		m.namedHidden = cmp.Or(m.namedHidden, m.firstNamed(line, m.hidden))
		m.namedUnshown = cmp.Or(m.namedUnshown, m.firstNamed(line, m.unshown))
	}
}

// mayNameHidden reports whether readMessages can find anything in a text. It takes little time for
// one in which it cannot.
func (m *machine) mayNameHidden(text []byte) bool {
	for _, dir := range m.private.dirs {
		if !slices.Contains(m.private.told, dir) && bytes.Contains(text, []byte(dir)) {
			return true
		}
	}
	return m.namedHidden == "" && namesOneAbove(text, m.hidden) || m.namedUnshown == "" && namesOneAbove(text, m.unshown)
}

// namesOneAbove reports whether a text has the directory of one of these paths.
func namesOneAbove(text []byte, paths []string) bool {
	dir := ""
	for _, path := range paths { // sorted, so few directories
		if d := filepath.Dir(path); dir == "" || !within(d, dir) {
			if dir = d; bytes.Contains(text, []byte(dir)) {
				return true
			}
		}
	}
	return false
}

// isComplaint reports whether a line looks like what a program says of a file that it cannot open,
// "cat: FILE: No such file or directory", whatever the language. Children write it to the terminal,
// where it cannot be told from other output.
func isComplaint(line string) bool {
	program, rest, ok := strings.Cut(line, ": ")
	return ok && program != "" && !strings.ContainsAny(program, " \t/") && strings.Contains(rest, ": ")
}

// namesPath reports whether a text has a path, or one below it.
func namesPath(text, path string) bool {
	for {
		before, behind, found := strings.Cut(text, path)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(behind)
		if !isInName(last) && last != '/' && !isInName(next) {
			return true
		}
		text = behind
	}
}

func isInName(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.", r)
}

// countDenied says how many denials were not told, and begins to count anew.
func (m *machine) countDenied() {
	if m.untold > 0 {
		m.notice("the sandbox refused at least %d more calls", m.untold)
	}
	m.told, m.untold = nil, 0
}

func (m *machine) permit(call uint64, ok bool) {
	m.effect(effect{do: doPermit, call: call, ok: ok})
}

// release ends the waits for a person that match, and shows the next.
func (m *machine) release(match func(ask) bool) {
	m.asked = slices.DeleteFunc(m.asked, func(a ask) bool { return a.NeedsUser() && match(a) })
	if m.shown != nil && m.shown.NeedsUser() && match(*m.shown) {
		m.record(timeline.InputRequestEnded{Request: m.shown.ID})
		m.shown = nil
		if m.phase == phaseWaiting {
			m.resume()
		}
	}
	if m.phase == phaseRunning && !m.turn.unacked {
		m.serve()
	}
}

// refuseHeld refuses all held calls and cancels all forms, because their worker is being ended.
func (m *machine) refuseHeld() {
	for _, a := range m.asked {
		if a.NeedsUser() {
			m.permit(a.call, false)
		}
	}
	if m.shown != nil && m.shown.NeedsUser() {
		m.record(timeline.InputRequestEnded{Request: m.shown.ID})
		m.shown = nil
	}
	m.asked = slices.DeleteFunc(m.asked, func(a ask) bool { return a.NeedsUser() })
}

// decide answers all held calls that match, and returns how many there were.
func (m *machine) decide(ok bool, match func(session.PermissionRequest) bool) (n int) {
	for _, a := range m.asked {
		if a.Permission != nil && match(*a.Permission) {
			m.permit(a.call, ok)
			n++
		}
	}
	if n > 0 {
		m.turn.struck = time.Time{} // the code goes on after the interrupt
		m.release(func(a ask) bool { return a.Permission != nil && match(*a.Permission) })
	}
	return n
}

// granted takes in that a person gave a right, and lets the calls go on that it covers.
func (m *machine) granted(author string, g session.Grant) {
	m.record(timeline.AccessGranted{Read: g.Read, Write: g.Write, Host: g.Host, Call: g.Call, Always: g.Always, Author: author})
	m.refused = slices.DeleteFunc(m.refused, func(r session.Grant) bool {
		return r.Call != "" && r.Call == g.Call || r.Host != "" && coversHost(g.Host, r.Host) || r.Write != "" && g.Write != "" && within(r.Write, g.Write)
	})
	if path := g.Read + g.Write; path != "" {
		m.private.but, m.private.told = append(m.private.but, path), append(m.private.told, path)
	}
	m.decide(true, func(p session.PermissionRequest) bool { return covers(g, p.AccessDenied) })
}

// permission returns the question with this number.
func (m *machine) permission(id uint64) (session.PermissionRequest, error) {
	for _, a := range m.asked {
		if a.Permission != nil && a.Permission.ID == id {
			return *a.Permission, nil
		}
	}
	if m.isClosed() {
		return session.PermissionRequest{}, session.ErrClosed
	}
	if id > m.permissions || id == 0 {
		return session.PermissionRequest{}, session.Errorf(session.KindStale, "no permission %d was asked for", id)
	}
	return session.PermissionRequest{}, session.Errorf(session.KindStale, "permission %d is not asked for any more: it was answered, or the code has gone on without it", id)
}

// refuse takes in a person's no, also to other calls that the same right would let go on.
func (m *machine) refuse(p session.PermissionRequest) {
	if len(m.refused) == maxRefused {
		m.refused = m.refused[1:]
	}
	m.refused = append(m.refused, p.Grant)
	told := p.AccessDenied
	if m.remedy != nil {
		told.Hint = m.remedy(p.Grant)
	}
	m.tellDenied(told)
	m.decide(false, func(other session.PermissionRequest) bool { return other.Grant == p.Grant })
}

// grantFor returns the right without which the call is refused; zero if there is none that a
// person could give.
func grantFor(d timeline.AccessDenied) session.Grant {
	switch {
	case d.Call != "":
		return session.Grant{Call: d.Call}
	case d.Op == "read":
	case d.Host != "":
		return session.Grant{Host: d.Host}
	case filepath.IsAbs(d.Path) && d.Op != "connect":
		return session.Grant{Write: filepath.Dir(d.Path)}
	}
	return session.Grant{}
}

// covers reports whether a right lets a call go on.
func covers(g session.Grant, d timeline.AccessDenied) bool {
	if g.Call != "" || d.Call != "" {
		return coversCall(g.Call, d)
	}
	if g.Host != "" {
		return coversHost(g.Host, d.Host)
	}
	return g.Write != "" && d.Path != "" && d.Op != "read" && d.Op != "connect" && within(d.Path, g.Write)
}

// coversHost reports whether a pattern matches name:port.
func coversHost(pattern, place string) bool {
	h, err := workers.ParseHostPattern(pattern)
	return err == nil && h.MatchesHostPort(place)
}

// within reports whether path is dir or below it.
func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// Allow implements session.Session.
func (s *Session) Allow(ctx context.Context, g session.Grant) error { return s.allowAs(ctx, "", g) }

// AnswerPermission implements session.Session.
func (s *Session) AnswerPermission(ctx context.Context, id uint64, ok bool) error {
	return s.permitAs(ctx, "", id, ok)
}

func (s *Session) permitAs(ctx context.Context, author string, id uint64, ok bool) error {
	s.mu.Lock()
	p, err := s.m.permission(id)
	if err == nil && !ok {
		s.m.refuse(p)
	}
	s.unlock()
	if err != nil || !ok {
		return err
	}
	return s.allowAs(ctx, author, p.Grant)
}

func (s *Session) allowAs(ctx context.Context, author string, g session.Grant) error {
	g, err := s.checkGrant(g)
	if err != nil {
		return err
	}
	id := g.Identity
	g.Identity = ""
	if err := s.give(ctx, author, g, id); err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.m.isClosed()
	if !closed {
		s.m.granted(author, g)
	}
	s.unlock()
	if closed {
		return session.ErrClosed
	}
	if !g.Always {
		return nil
	}
	if err := s.o.Grants.Keep(s.workspace(), g); err != nil {
		return fmt.Errorf("it is allowed in this session, but not kept for later ones: %w", err)
	}
	return nil
}

// give gives a right to the live worker, for which its path must have this identity, and to those after it.
func (s *Session) give(ctx context.Context, author string, g session.Grant, id string) error {
	g.Always = false
	s.mu.Lock()
	had, missed, starting := slices.Contains(s.m.given, g), slices.Contains(s.m.missing, g), s.starting
	s.m.addGiven(g) // first: each start that is still to be planned has it
	s.mu.Unlock()
	err := error(nil)
	if starting != nil { // it may have been planned already
		_ = starting.wait(ctx)
		err = ctx.Err()
	}
	returned := make(chan struct{})
	defer close(returned)
	if err == nil {
		err = s.giveLive(g, id, func(w *worker) {
			<-returned
			s.gaveLate(w, author, g)
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.m.addGiven(g) // a start in between may have left it out
	case missed:
		s.m.leaveOut(g)
	case !had:
		s.m.takeBack(g)
	}
	return err
}

// giveLive gives a right to the live worker, if there is one.
func (s *Session) giveLive(g session.Grant, id string, late func(*worker)) error {
	if g.Call != "" {
		return nil // whoever asks looks at what was given
	}
	s.mu.Lock()
	w := s.worker
	s.mu.Unlock()
	switch {
	case g.Host != "" && w != nil && w.proc.outlet == nil:
		return session.Errorf(session.KindUnsupported, "the sandbox of this session lets no connection out: its first reply says how it is held")
	case g.Host != "":
		return s.network.Allow(g.Host)
	case w == nil:
		return nil
	case w.proc.gate == nil:
		return session.Errorf(session.KindUnsupported, "the sandbox of a running session cannot be changed here: reset the session to have it")
	}
	err := s.open(w, g, id, late)
	if errors.Is(err, host.ErrEnded) { // the next worker has it
		return nil
	}
	return err
}

// open gives a file or directory to a worker. late is called if it has not answered in time, and has it later.
func (s *Session) open(w *worker, g session.Grant, id string, late func(*worker)) error {
	ended := func() {}
	if s.o.Leave != nil && g.Write != "" {
		_, ended = s.o.Leave([]string{g.Write}) // what stays was named when the session began
	}
	path := g.Read + g.Write
	err := w.proc.gate.Grant(path, g.Read != "", id, func() { late(w) })
	switch {
	case errors.Is(err, host.ErrUnanswered): // it may write there
		w.whenEnded(ended)
		return fmt.Errorf("it is not known yet whether this session has %s: its sandbox has not answered within 5s. If it gets it later, an event says so; after a reset it does not have it", path)
	case err != nil:
		ended()
	default:
		w.whenEnded(ended)
	}
	return err
}

// gaveLate takes in that a worker has a right of which nobody knew whether it would.
func (s *Session) gaveLate(w *worker, author string, g session.Grant) {
	s.mu.Lock()
	defer s.unlock()
	if s.worker == w && !s.m.isClosed() {
		s.m.addGiven(g)
		s.m.granted(author, g)
	}
}

// checkGrant resolves a grant, and refuses one that makes no sense here.
func (s *Session) checkGrant(g session.Grant) (session.Grant, error) {
	s.mu.Lock()
	spec, closed := s.spec, s.m.isClosed()
	s.mu.Unlock()
	sandbox := spec.Sandbox
	switch {
	case closed:
		return g, session.ErrClosed
	case !namesOne(g):
		return g, session.Errorf(session.KindInvalid, "name one of a path to read or to write, a host, or a function to call")
	case g.Call != "":
		return s.checkCall(g)
	case !sandbox.Confines():
		return g, session.Errorf(session.KindUnsupported, "session %s has no sandbox: it has all rights already", s.Name())
	case g.Always && s.o.Grants == nil:
		return g, session.Errorf(session.KindUnsupported, "nothing is kept for later sessions here: allow it for this session")
	case g.Host != "" && s.network != nil:
		return checkHost(g)
	case g.Host != "":
		return g, session.Errorf(session.KindUnsupported, "session %s cannot be allowed single hosts: its network is %s", s.Name(), sandbox.Network)
	}
	return s.o.CheckPath(&spec, g)
}

// CheckPath checks the path of a grant to a session with this spec, and returns the grant of what is there.
// An error of session.KindUnconfirmed has the one that a person may give if they mean it.
func (o *Options) CheckPath(spec *workers.Spec, g session.Grant) (session.Grant, error) {
	path := g.Read + g.Write
	if !filepath.IsAbs(path) {
		return g, session.Errorf(session.KindInvalid, "the path is not absolute: %q", path)
	}
	found, id, err := lookAt(path)
	if err == nil && g.Identity != "" && g.Identity != id {
		err = confine.ErrReplaced
	}
	programs := ""
	meant := g
	meant.Identity, meant.Accept = id, ""
	if err == nil && g.Read != "" {
		meant.Read = found
		err = o.mayShow(spec, found)
	} else if err == nil {
		meant.Write = found
		programs, err = o.mayGive(spec, found)
	}
	if err != nil {
		return g, &session.Error{Kind: session.KindInvalid, Message: fmt.Sprintf("%s cannot be allowed: %v", timeline.QuoteName(path), err), Cause: err}
	}
	if programs != "" {
		meant.Accept = found
	}
	if isLink := found != filepath.Clean(path); g.Accept != found && (programs != "" || isLink) { // a link may be the session's own
		return g, &session.Error{Kind: session.KindUnconfirmed, Grant: &meant, Message: leads(path, found, programs) + ": a person has to confirm that"}
	}
	return meant, nil
}

// leads says where a path leads, and what programs do there.
func leads(path, found, programs string) string {
	from, to := timeline.QuoteName(path), timeline.QuoteName(found)
	switch {
	case filepath.Clean(path) == found:
		return to + " " + programs
	case programs == "":
		return from + " leads to " + to
	}
	return from + " leads to " + to + ", which " + programs
}

// lookAt returns the real path and the identity of a directory or regular file.
func lookAt(path string) (found, id string, err error) {
	if found, err = filepath.EvalSymlinks(path); err != nil {
		if named, ok := errors.AsType[*fs.PathError](err); ok {
			err = named.Err // the path is said already
		}
		return "", "", err
	}
	if !isPlain(found) {
		return "", "", errors.New("it is neither a directory nor a regular file")
	}
	return found, confine.Identity(found), nil
}

// isPlain reports whether a path is a directory or a regular file.
func isPlain(path string) bool {
	st, err := os.Stat(path)
	return err == nil && (st.IsDir() || st.Mode().IsRegular())
}

// mayShow returns why no session with this spec is shown a path without symbolic links; nil if a person may
// show it.
func (o *Options) mayShow(spec *workers.Spec, path string) error {
	return confine.MayShow(o.hiding(spec), o.origin(), path)
}

// mayGive returns why no session with this spec is given a path without symbolic links to write; nil if a
// person may give it. programs says why that person has to mean it.
func (o *Options) mayGive(spec *workers.Spec, path string) (programs string, err error) {
	return confine.MayGive(o.hiding(spec), o.origin(), path)
}

// hiding returns the sandbox of a spec with all that it hides.
func (o *Options) hiding(spec *workers.Spec) *workers.Sandbox {
	box := *spec.Sandbox
	box.Hidden = slices.Concat(box.Hidden, o.alsoHidden(&box, workspaceOf(spec)))
	return &box
}

// origin has what is known of the machine before a session starts.
func (o *Options) origin() confine.Origin {
	return confine.Origin{Home: variable(o.Env, "HOME"), Path: variable(o.Env, "PATH"), Env: o.Env, Sessions: o.Dir, Directories: homeDirectories(o.Env), Account: accountHome()}
}

// workspace returns the directory for which rights are kept.
func (s *Session) workspace() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return workspaceOf(&s.spec)
}

func workspaceOf(spec *workers.Spec) string {
	dir := spec.Dir
	if spec.Sandbox != nil && spec.Sandbox.Workspace != "" {
		dir = spec.Sandbox.Workspace
	}
	if dir == "" {
		dir, _ = os.Getwd()
	}
	if found, err := filepath.EvalSymlinks(dir); err == nil {
		return found
	}
	return dir
}

// kept returns the rights that are kept for the workspace of a spec.
func (o *Options) kept(spec *workers.Spec) ([]session.Grant, error) {
	if o.Grants == nil {
		return nil, nil
	}
	all, err := o.Grants.Kept(workspaceOf(spec))
	if err != nil {
		return nil, fmt.Errorf("what is allowed in this workspace cannot be read: %w", err)
	}
	if !spec.Sandbox.Confines() { // it has the other rights already
		all = slices.DeleteFunc(all, func(g session.Grant) bool { return g.Call == "" })
	}
	for i := range all {
		all[i].Always = false
	}
	return all, nil
}

// addKept adds the rights that are kept to those that the session was given, and returns all. It
// lets through the hosts among them; directories are for a worker that starts.
func (s *Session) addKept(spec *workers.Spec) ([]session.Grant, error) {
	kept, err := s.o.kept(spec)
	if err != nil {
		return nil, err
	}
	for _, g := range kept {
		if g.Host != "" && s.network != nil {
			if err := s.network.Allow(g.Host); err != nil {
				return nil, fmt.Errorf("a host that is allowed in this workspace: %w", err)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range slices.Concat(kept, s.m.missing) {
		s.m.addGiven(g)
	}
	return slices.Clone(s.m.given), nil
}

// remedyFor returns Remedy for one session; nil without one.
func (o *Options) remedyFor(name string, spec *workers.Spec) func(session.Grant) string {
	if o.Remedy == nil {
		return nil
	}
	workspace := workspaceOf(spec)
	return func(g session.Grant) string { return o.Remedy(name, workspace, g) }
}

// withGiven returns a sandbox with the rights that persons gave. Files and directories that are gone, or
// are something else now, are missing in it, with a notice for each.
func (o *Options) withGiven(spec *workers.Spec, given []session.Grant) (_ *workers.Sandbox, missing []session.Grant, notices []string) {
	sandbox := spec.Sandbox
	if !sandbox.Confines() || len(given) == 0 {
		return sandbox, nil, nil
	}
	wider := *sandbox
	wider.Writable, wider.Readable, wider.AcceptPaths = slices.Clone(sandbox.Writable), slices.Clone(sandbox.Readable), slices.Clone(sandbox.AcceptPaths)
	for _, g := range given {
		list := &wider.Writable
		if g.Read != "" {
			list = &wider.Readable
		}
		path := g.Read + g.Write
		if path == "" {
			continue
		}
		named := slices.Contains(*list, path)
		if _, err := o.CheckPath(spec, g); err != nil {
			if !named { // else the plan says what is wrong with it
				missing, notices = append(missing, g), append(notices, notGiven(path, err))
			}
			continue
		}
		if !named {
			*list = append(*list, path)
		}
		if g.Accept != "" {
			wider.AcceptPaths = append(wider.AcceptPaths, g.Accept)
		}
	}
	return &wider, missing, notices
}

// notGiven says why a path that was allowed is left out.
func notGiven(path string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return timeline.QuoteName(path) + " was allowed and is not there any more"
	}
	return "a path that you allowed is not given: " + err.Error()
}
