package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// seatbeltProgram starts a program in the sandbox of macOS, and becomes it.
const seatbeltProgram = "/usr/bin/sandbox-exec"

// seatbeltLacks says what a session by seatbelt does not hold, and does not have.
const seatbeltLacks = "held by seatbelt, which has never been tried with this program: do not rely on it. It has no network of its own, no copies of caches and libraries, and cannot be given more while it runs; names that are protected and not there can be made in other letters (.VSCODE)"

// bySeatbelt turns a plan for namespaces into one for macOS, and returns what it cannot hold.
func (p *Plan) bySeatbelt(s *workers.Sandbox) (notices []string, err error) {
	if len(s.Hosts) > 0 {
		return nil, errors.New("hosts by name cannot be had on macOS: choose the network none or full, without hosts")
	}
	tmp := filepath.Join(string(p.State), "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	p.Places = append(p.Places, Place{Path: Path(tmp), Kind: writable})
	p.By, p.Outlet, p.Ask = workers.Seatbelt, false, false
	return []string{seatbeltLacks}, nil
}

// A profile is a text in the language of sandbox-exec, and the paths that it names. The text has
// only their parameters: so no path can be read as a part of it, whatever its name has.
type profile struct {
	text   strings.Builder
	values []string // -D NAME=PATH
}

// path returns the parameter of a path.
func (p *profile) path(kind string, at Path) string {
	name := fmt.Sprintf("%s%d", kind, len(p.values)/2)
	p.values = append(p.values, "-D", name+"="+string(at))
	return fmt.Sprintf("(param %q)", name)
}

func (p *profile) say(format string, args ...any) { fmt.Fprintf(&p.text, format+"\n", args...) }

// Seatbelt returns the program with which a worker starts in the sandbox of macOS, and its
// arguments before those of the worker. Of two rules about a path the later one counts; no
// rule relies on that but those of a whole kind, which come first.
func (p *Plan) Seatbelt() (program string, args []string) {
	b := &profile{}
	b.say("(version 1)")
	b.say("(allow default)")
	p.seatbeltFiles(b)
	p.seatbeltNetwork(b)
	// Other programs, and services that would start one outside or hand out secrets.
	b.say("(deny signal)")
	b.say("(allow signal (target same-sandbox))")
	b.say("(deny process-info*)")
	b.say("(allow process-info* (target same-sandbox))")
	b.say(`(deny mach-lookup (global-name "com.apple.coreservices.launchservicesd") (global-name "com.apple.SecurityServer") (global-name "com.apple.securityd.xpc") (global-name "com.apple.pasteboard.1"))`)
	b.say("(deny appleevent-send)")
	b.say("(deny job-creation)")
	return seatbeltProgram, append([]string{"-p", b.text.String()}, b.values...)
}

func (p *Plan) seatbeltFiles(b *profile) {
	b.say("(deny file-write*)")
	b.say(`(allow file-write* (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))`)
	for _, place := range p.Places {
		if place.Kind != writable {
			continue
		}
		b.say("(allow file-write* (require-all (subpath %s)%s))", b.path("WRITE", place.Path), p.exceptions(b, place.Path))
	}
	for _, place := range p.Places {
		switch place.Kind {
		case hidden, replaced:
			if !slices.Contains(p.Closed, place.Path) {
				b.say("(deny file-read* file-write* (subpath %s))", b.path("HIDE", place.Path))
			}
		case private, covered, built: // a path through it must still resolve, so its files' facts can be seen
			b.say("(deny file-read-data (require-all (subpath %s)%s))", b.path("CLOSED", place.Path), p.openBelow(b, place.Path))
		}
	}
	for _, path := range p.Closed { // there or not
		b.say("(deny file-read* file-write* (subpath %s))", b.path("HIDE", path))
	}
}

// exceptions are what stays as it is in a directory that is written: the protected files, there
// or not, and the directories above them and above what is hidden, which could be renamed
// otherwise.
func (p *Plan) exceptions(b *profile, dir Path) string {
	var s strings.Builder
	fixes := map[string]bool{}
	fix := func(path string) {
		if !fixes[path] {
			fixes[path] = true
			fmt.Fprintf(&s, " (require-not (literal %s))", b.path("FIX", Path(path)))
		}
	}
	for _, place := range p.Places {
		path := string(place.Path)
		switch {
		case place.Path == dir || !inside(path, string(dir)):
			continue
		case place.Kind == protected, place.Kind == guarded, place.Kind == private, place.Kind == covered, place.Kind == built:
			fmt.Fprintf(&s, " (require-not (subpath %s))", b.path("KEEP", place.Path))
		case place.Kind == fixed:
			fix(path)
		}
		if place.Kind != writable && place.Kind != layer {
			for above := filepath.Dir(path); above != string(dir) && inside(above, string(dir)); above = filepath.Dir(above) {
				fix(above)
			}
		}
	}
	for _, path := range slices.Concat(p.Absent, p.Closed) {
		if inside(string(path), string(dir)) {
			fmt.Fprintf(&s, " (require-not (subpath %s))", b.path("ABSENT", path))
		}
	}
	return s.String()
}

// openBelow are the places in a closed directory that a session sees.
func (p *Plan) openBelow(b *profile, dir Path) string {
	var s strings.Builder
	for _, place := range p.Places {
		if place.Path != dir && inside(string(place.Path), string(dir)) && slices.Contains([]Kind{writable, protected, guarded, readable, layer}, place.Kind) {
			fmt.Fprintf(&s, " (require-not (subpath %s))", b.path("SEEN", place.Path))
		}
	}
	return s.String()
}

// seatbeltNetwork leaves a session the sockets in its own directory for temporary files. There
// is no loopback of its own: that of the machine has the servers of others.
func (p *Plan) seatbeltNetwork(b *profile) {
	tmp := b.path("TMP", Path(filepath.Join(string(p.State), "tmp")))
	if p.Network {
		b.say("(deny network-outbound (remote unix-socket))")
		b.say(`(allow network-outbound (literal "/private/var/run/mDNSResponder"))`)
	} else {
		b.say("(deny network*)")
	}
	b.say("(allow network-bind network-inbound (local unix-socket (subpath %s)))", tmp)
	b.say("(allow network-outbound (remote unix-socket (subpath %s)))", tmp)
}
