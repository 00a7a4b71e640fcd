package supervisor

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// maxQuestionsPerTurn bounds the permission requests of one turn. Further calls are refused as
	// if no user could be asked.
	maxQuestionsPerTurn = 5

	// maxReportedDenials bounds the denials of one turn that are reported individually.
	maxReportedDenials = 5

	// maxRefusedGrants bounds the refusals that are remembered. Beyond that, the oldest is
	// forgotten and may be requested again.
	maxRefusedGrants = 256
)

// handleDenial handles a call that the sandbox of a worker refused or suspended.
func (s *Session) handleDenial(generation uint64, d monitorproto.Denial) {
	offer := session.Grant{}
	if !d.Protected {
		offer = s.grantToOffer(timeline.AccessDenied{Op: d.Op, Path: d.Path, Host: d.Host})
	}
	s.mu.Lock()
	defer s.unlock()
	switch {
	case generation != s.m.generation:
	case s.worker != nil:
		s.m.handleDenial(d, offer)
	case s.m.phase == phaseLaunching: // the worker is not known yet
		s.earlyDenials = append(s.earlyDenials, d)
	}
}

// grantToOffer returns the grant that a user may give for a call; zero if there is no such grant.
// If the directory of a written file cannot be offered, the file alone may be.
func (s *Session) grantToOffer(denied timeline.AccessDenied) session.Grant {
	grant := requiredGrant(denied)
	if grant.Write == "" || s.canOffer(grant) {
		return grant
	}
	file := session.Grant{Write: denied.Path}
	if st, err := os.Lstat(denied.Path); denied.Op != "write" || err != nil || !st.Mode().IsRegular() || !s.canOffer(file) {
		return session.Grant{}
	}
	return file
}

// canOffer reports whether code may make the session ask for write access to a path.
func (s *Session) canOffer(g session.Grant) bool {
	s.mu.Lock()
	spec := s.spec
	s.mu.Unlock()
	programs, err := s.o.checkWriteGrant(&spec, g.Write)
	return programs == "" && err == nil
}

// handleDenial handles a report of the sandbox. offer is the grant that a user may give; zero means
// none.
func (m *sessionMachine) handleDenial(d monitorproto.Denial, offer session.Grant) {
	if d.Resolved {
		m.dropUserRequests(func(a inputRequest) bool { return a.callID == d.ID })
		return
	}
	m.monitorReported = true
	m.handleDeniedCall(d.ID, timeline.AccessDenied{Op: d.Op, Path: d.Path, Host: d.Host, ChildProgram: d.Program, Detail: d.Setting}, offer)
}

// handleDeniedCall handles a call that was refused, or one that is pending under an ID until a user
// decides.
func (m *sessionMachine) handleDeniedCall(id uint64, denied timeline.AccessDenied, grant session.Grant) {
	none := grant == session.Grant{}
	reported := denied
	if !none && m.grantHint != nil && !slices.Contains(m.refusedGrants, grant) {
		reported.Hint = m.grantHint(grant)
	}
	if id == 0 {
		m.reportDenied(reported)
		return
	}
	if slices.ContainsFunc(m.requests, func(r inputRequest) bool { return r.callID == id }) {
		return // the kernel restarted it after a signal
	}
	switch {
	case slices.ContainsFunc(m.grants, func(g session.Grant) bool { return grantCovers(g, denied) }):
		m.answerCall(id, true)
	case denied.Call == "" && m.isRestartedCall(denied):
		m.answerCall(id, false)
	case slices.ContainsFunc(m.requests, func(r inputRequest) bool { return r.Permission != nil && r.Permission.Grant == grant }):
		m.askPermission(id, denied, grant) // one answer applies to all of them
	case none || !m.canAsk() || slices.Contains(m.refusedGrants, grant):
		m.answerCall(id, false)
		m.reportDenied(reported)
	default:
		m.turn.questionCount++
		m.askPermission(id, denied, grant)
	}
}

// isRestartedCall reports whether an interrupt has already ended the same call, once for each such
// call. The kernel restarts a call that a signal interrupted if the program wants that, as R does.
// Such a program handles the interrupt only when the call returns.
func (m *sessionMachine) isRestartedCall(denied timeline.AccessDenied) bool {
	if m.turn == nil {
		return false
	}
	i := slices.Index(m.turn.interruptedCalls, denied)
	if i >= 0 {
		m.turn.interruptedCalls = slices.Delete(m.turn.interruptedCalls, i, i+1)
	}
	return i >= 0
}

// canAsk reports whether a user can be asked now.
func (m *sessionMachine) canAsk() bool {
	return (m.phase == phaseRunning || m.phase == phaseWaiting) && m.turn.id > 0 && m.turn.questionCount < maxQuestionsPerTurn
}

func (m *sessionMachine) askPermission(call uint64, denied timeline.AccessDenied, grant session.Grant) {
	m.lastPermission++
	p := &session.PermissionRequest{ID: m.lastPermission, AccessDenied: denied, Grant: grant, Wider: widerGrant(denied)}
	m.requests = append(m.requests, inputRequest{
		InputRequest: session.InputRequest{Turn: m.turn.id, Prompt: p.Question(), Kind: timeline.InputKindPermission, Permission: p},
		callID:       call,
	})
	if !m.turn.interruptUnacked { // otherwise the interrupt may be about to end the call
		m.serveInput()
	}
}

// reportDenied records a denial once per turn.
func (m *sessionMachine) reportDenied(denied timeline.AccessDenied) {
	if m.isFirstReport(denied) {
		m.recordEvent(denied)
	}
}

// isFirstReport reports whether to record a denial: each one once per turn, up to
// maxReportedDenials.
func (m *sessionMachine) isFirstReport(denied timeline.AccessDenied) bool {
	switch {
	case slices.Contains(m.reportedDenials, denied):
	case len(m.reportedDenials) == maxReportedDenials:
		m.unreportedDenials++
	default:
		m.reportedDenials = append(m.reportedDenials, denied)
		return true
	}
	return false
}

// maxReportedUnshown bounds the paths in the home directory that are reported to a session.
const maxReportedUnshown = 20

func (m *sessionMachine) reportPrivatePath(e *ipc.RuntimeError) {
	if e != nil && e.Name == "FileNotFoundError" {
		m.privateDirs.noteMissingPath(e.Message)
	}
	named := m.privateDirs.missingPath
	m.privateDirs.missingPath = ""
	switch {
	case named == "", slices.ContainsFunc(m.reportedDenials, func(d timeline.AccessDenied) bool { return d.Path == named }): // the code wanted to create it
	case m.privateDirs.home != "" && paths.Contains(m.privateDirs.home, named):
		m.reportUnshownPath(named, ", if it exists")
	default:
		m.privateDirs.reportedPaths = append(m.privateDirs.reportedPaths, named)
		m.recordNotice("this session has its own %s and does not see the files in yours; put what it needs into the workspace", named)
	}
}

// reportMaskedPath records that the error of a turn, or a message in its output, names a path that
// the session cannot see. Opening such a path fails as if it were unreadable or missing. The
// sandbox sees no call, so only the text of messages shows it.
func (m *sessionMachine) reportMaskedPath(e *ipc.RuntimeError) {
	hidden, unshown := m.namedHiddenPath, m.namedUnshownPath
	if e != nil {
		hidden, unshown = cmp.Or(m.firstNamedPath(e.Message, m.hiddenPaths), hidden), cmp.Or(m.firstNamedPath(e.Message, m.unshownPaths), unshown)
	}
	m.namedHiddenPath, m.namedUnshownPath = "", ""
	if hidden != "" {
		m.reportForbiddenPath(hidden)
	}
	isRefused := slices.ContainsFunc(m.reportedDenials, func(d timeline.AccessDenied) bool { return d.Path == unshown })
	if unshown != "" && !isRefused { // otherwise showing it would not help
		m.reportUnshownPath(unshown, "")
	}
}

// reportUnshownPath records, once per path, how a user can show the session a path.
func (m *sessionMachine) reportUnshownPath(path, doubt string) {
	p := &m.privateDirs
	if p.reportedPaths = append(p.reportedPaths, path); len(p.reportedPaths) >= maxReportedUnshown {
		p.reportedPaths, m.unshownPaths = append(p.reportedPaths, p.home), nil
	}
	switch {
	case p.checkShow == nil:
		m.recordNotice("the sandbox does not show %s%s", text.QuoteName(path), doubt)
	case p.checkShow(path) != nil:
		m.reportForbiddenPath(path)
	case m.grantHint == nil:
		m.recordNotice("the sandbox does not show %s%s; the user can allow it", text.QuoteName(path), doubt)
	default:
		m.recordNotice("the sandbox does not show %s%s; the user can allow it with: %s", text.QuoteName(path), doubt, m.grantHint(session.Grant{Read: path}))
	}
}

// reportForbiddenPath records that no user can show the session a path.
func (m *sessionMachine) reportForbiddenPath(path string) {
	m.recordNotice("the sandbox hides %s from every session, and no user can allow it", path)
}

// firstNamedPath returns the first of these paths that a text names and that was not reported yet;
// "" if there is no such path.
func (m *sessionMachine) firstNamedPath(text string, paths []string) string {
	i := slices.IndexFunc(paths, func(path string) bool {
		return containsPath(text, path) && !slices.Contains(m.privateDirs.reportedPaths, path)
	})
	if i < 0 {
		return ""
	}
	return paths[i]
}

// scanMessages looks in output for the names of hidden paths, and of paths that are missing in a
// private directory. It reads messages of the runtime and of its children. Their wording depends on
// the user's language.
func (m *sessionMachine) scanMessages(t timeline.Text) {
	if t.Kind != "" {
		return
	}
	text := slices.Concat(m.lastLine, t.Data) // programs may write a message in parts
	if !m.canNameMaskedPath(text) {
		return
	}
	for line := range strings.Lines(string(text)) {
		if t.Stream == timeline.Stdout && !isFileErrorLine(line) {
			continue
		}
		m.privateDirs.noteMissingPath(line)
		m.namedHiddenPath = cmp.Or(m.namedHiddenPath, m.firstNamedPath(line, m.hiddenPaths))
		m.namedUnshownPath = cmp.Or(m.namedUnshownPath, m.firstNamedPath(line, m.unshownPaths))
	}
}

// canNameMaskedPath is a fast check of whether scanMessages can find anything in a text.
func (m *sessionMachine) canNameMaskedPath(text []byte) bool {
	for _, dir := range m.privateDirs.dirs {
		if !slices.Contains(m.privateDirs.reportedPaths, dir) && bytes.Contains(text, []byte(dir)) {
			return true
		}
	}
	return m.namedHiddenPath == "" && containsParentDir(text, m.hiddenPaths) || m.namedUnshownPath == "" && containsParentDir(text, m.unshownPaths)
}

// containsParentDir reports whether a text has the directory of one of these paths.
func containsParentDir(text []byte, sorted []string) bool {
	dir := ""
	for _, path := range sorted { // so few directories
		if d := filepath.Dir(path); dir == "" || !paths.Contains(dir, d) {
			if dir = d; bytes.Contains(text, []byte(dir)) {
				return true
			}
		}
	}
	return false
}

// isFileErrorLine reports whether a line looks like a message about a file that cannot be opened,
// such as "cat: FILE: No such file or directory" in any language. Children write such lines to the
// terminal, where they are mixed with other output.
func isFileErrorLine(line string) bool {
	program, rest, ok := strings.Cut(line, ": ")
	return ok && program != "" && !strings.ContainsAny(program, " \t/") && strings.Contains(rest, ": ")
}

// containsPath reports whether a text has a path, or one below it.
func containsPath(text, path string) bool {
	for {
		before, behind, found := strings.Cut(text, path)
		if !found {
			return false
		}
		last, _ := utf8.DecodeLastRuneInString(before)
		next, _ := utf8.DecodeRuneInString(behind)
		if !isNameRune(last) && last != '/' && !isNameRune(next) {
			return true
		}
		text = behind
	}
}

func isNameRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.", r)
}

// reportDeniedCount records how many denials were not reported, and resets the count.
func (m *sessionMachine) reportDeniedCount() {
	if m.unreportedDenials > 0 {
		m.recordNotice("the sandbox refused at least %d more calls", m.unreportedDenials)
	}
	m.reportedDenials, m.unreportedDenials = nil, 0
}

func (m *sessionMachine) answerCall(call uint64, ok bool) {
	m.addEffect(machineEffect{kind: doAnswerCall, call: call, ok: ok})
}

// dropUserRequests ends the matching requests that need a user, and shows the next request.
func (m *sessionMachine) dropUserRequests(match func(inputRequest) bool) {
	m.requests = slices.DeleteFunc(m.requests, func(r inputRequest) bool { return r.NeedsUser() && match(r) })
	if m.shownRequest != nil && m.shownRequest.NeedsUser() && match(*m.shownRequest) {
		m.recordEvent(timeline.InputRequestEnded{Request: m.shownRequest.ID})
		m.shownRequest = nil
		if m.phase == phaseWaiting {
			m.resumeTurn()
		}
	}
	if m.phase == phaseRunning && !m.turn.interruptUnacked {
		m.serveInput()
	}
}

// refusePendingCalls refuses all pending calls and cancels all forms, because their worker is being
// stopped.
func (m *sessionMachine) refusePendingCalls() {
	for _, r := range m.requests {
		if r.NeedsUser() {
			m.answerCall(r.callID, false)
		}
	}
	if m.shownRequest != nil && m.shownRequest.NeedsUser() {
		m.recordEvent(timeline.InputRequestEnded{Request: m.shownRequest.ID})
		m.shownRequest = nil
	}
	m.requests = slices.DeleteFunc(m.requests, func(r inputRequest) bool { return r.NeedsUser() })
}

// answerMatchingCalls answers all pending calls that match, and returns their number.
func (m *sessionMachine) answerMatchingCalls(ok bool, match func(session.PermissionRequest) bool) (n int) {
	for _, r := range m.requests {
		if r.Permission != nil && match(*r.Permission) {
			m.answerCall(r.callID, ok)
			n++
		}
	}
	if n > 0 {
		m.turn.interruptedAt = time.Time{} // the code continues after the interrupt
		m.dropUserRequests(func(r inputRequest) bool { return r.Permission != nil && match(*r.Permission) })
	}
	return n
}

// applyGrant records a grant from a user and resumes the pending calls that it covers.
func (m *sessionMachine) applyGrant(author string, g session.Grant) {
	m.recordEvent(timeline.AccessGranted{Read: g.Read, Write: g.Write, Host: g.Host, Call: g.Call, Always: g.Always, Author: author})
	m.refusedGrants = slices.DeleteFunc(m.refusedGrants, func(r session.Grant) bool {
		return r.Call != "" && r.Call == g.Call || r.Host != "" && hostGrantCovers(g.Host, r.Host) || r.Write != "" && g.Write != "" && paths.Contains(g.Write, r.Write)
	})
	if path := g.Read + g.Write; path != "" {
		m.privateDirs.exceptions, m.privateDirs.reportedPaths = append(m.privateDirs.exceptions, path), append(m.privateDirs.reportedPaths, path)
	}
	m.answerMatchingCalls(true, func(p session.PermissionRequest) bool { return grantCovers(g, p.AccessDenied) })
}

// findPermission returns the permission request with this ID.
func (m *sessionMachine) findPermission(id uint64) (session.PermissionRequest, error) {
	for _, r := range m.requests {
		if r.Permission != nil && r.Permission.ID == id {
			return *r.Permission, nil
		}
	}
	if m.isClosed() {
		return session.PermissionRequest{}, m.closedError()
	}
	if id > m.lastPermission || id == 0 {
		return session.PermissionRequest{}, session.Errorf(session.KindStale, "no permission request has the ID %d", id)
	}
	return session.PermissionRequest{}, session.Errorf(session.KindStale, "permission request %d is closed: it was answered, or the code has continued without it", id)
}

// recordRefusal records a user's refusal and applies it to other pending calls that need the same
// grant.
func (m *sessionMachine) recordRefusal(author string, p session.PermissionRequest) {
	if len(m.refusedGrants) == maxRefusedGrants {
		m.refusedGrants = m.refusedGrants[1:]
	}
	m.refusedGrants = append(m.refusedGrants, p.Grant)
	reported := p.AccessDenied
	reported.Author = author
	if m.grantHint != nil {
		reported.Hint = m.grantHint(p.Grant)
	}
	m.reportDenied(reported)
	m.answerMatchingCalls(false, func(other session.PermissionRequest) bool { return other.Grant == p.Grant })
}

// requiredGrant returns the grant that the call lacks; zero if no user could give one.
func requiredGrant(d timeline.AccessDenied) session.Grant {
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

// grantCovers reports whether a grant allows a call.
func grantCovers(g session.Grant, d timeline.AccessDenied) bool {
	if g.Call != "" || d.Call != "" {
		return callGrantCovers(g.Call, d)
	}
	if g.Host != "" {
		return hostGrantCovers(g.Host, d.Host)
	}
	return g.Write != "" && d.Path != "" && d.Op != "read" && d.Op != "connect" && paths.Contains(g.Write, d.Path)
}

// hostGrantCovers reports whether a host pattern matches a destination of the form name:port.
func hostGrantCovers(pattern, destination string) bool {
	h, err := sandbox.ParseHostPattern(pattern)
	return err == nil && h.MatchesHostPort(destination)
}

// resolveGrantPath returns the real path and the identity of a directory or regular file.
func resolveGrantPath(path string) (found, id string, err error) {
	if found, err = paths.Real(path); err != nil {
		if named, ok := errors.AsType[*fs.PathError](err); ok {
			err = named.Err // the error already names the path
		}
		return "", "", err
	}
	if !isFileOrDir(found) {
		return "", "", errors.New("it is neither a directory nor a regular file")
	}
	return found, filestate.IdentityOf(found), nil
}

// newOrigin returns what is known of the machine before a session starts.
func (o *Options) newOrigin() plan.Origin {
	return plan.Origin{Home: environ.Get(o.Env, "HOME"), Path: environ.Get(o.Env, "PATH"), Env: o.Env, Sessions: o.Dir, Directories: movedHomeDirs(o.Env), Account: accountHome()}
}

func specWorkspace(spec *workers.Spec) string {
	dir := spec.Dir
	if spec.Sandbox != nil && spec.Sandbox.Workspace != "" {
		dir = spec.Sandbox.Workspace
	}
	if dir == "" {
		dir, _ = os.Getwd()
	}
	return paths.RealOrSame(dir)
}

// MatchFunction reports whether a pattern covers a function, as in [session.Grant].Call. "github.*"
// covers all functions of a group except destructive ones.
func MatchFunction(pattern, function string, destructive bool) bool {
	if pattern == function {
		return true
	}
	ok, err := path.Match(pattern, function)
	return ok && err == nil && !destructive
}

func callGrantCovers(pattern string, d timeline.AccessDenied) bool {
	return pattern != "" && d.Call != "" && MatchFunction(pattern, d.Call, d.Destructive)
}

// widerGrant returns the grant for all functions of the call's group. It returns nil if that grant
// would not cover the call.
func widerGrant(d timeline.AccessDenied) *session.Grant {
	group, _, found := strings.Cut(d.Call, ".")
	if !found || d.Destructive {
		return nil
	}
	return &session.Grant{Call: group + ".*"}
}

// isFileOrDir reports whether a path is a directory or a regular file.
func isFileOrDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && (st.IsDir() || st.Mode().IsRegular())
}
