package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

// dialLimit bounds the time to connect outside.
const dialLimit = 15 * time.Second

// maxListed bounds the hosts that a session lists.
const maxListed = 1000

// A Policy says what one session may reach, and knows what it has reached.
type Policy struct {
	own   string // the name of this machine, in lower case
	names names
	o     Options

	mu      sync.Mutex
	hosts   []workers.HostPattern
	reached map[string]*Reached
	told    map[string]bool
}

// Options are what a policy needs of its session.
type Options struct {
	Machine string // the name of this machine
	Hosts   []string

	// Refused is called for each place that the policy refuses, and reports whether somebody has
	// allowed it meanwhile. It may wait until the context ends; nil refuses at once. The text
	// says why.
	Refused func(ctx context.Context, place, why string) bool

	// Tell gets sentences for the user of the session, each once.
	Tell func(string)
}

// New returns the policy of a session.
func New(o Options) (*Policy, error) {
	p := &Policy{own: strings.ToLower(o.Machine), o: o, reached: map[string]*Reached{}, told: map[string]bool{}}
	for _, h := range o.Hosts {
		if err := p.Allow(h); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Allow adds a pattern. Connections from now on may use it.
func (p *Policy) Allow(pattern string) error {
	h, err := workers.ParseHostPattern(pattern)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.hosts, h) {
		p.hosts = append(p.hosts, h)
	}
	return nil
}

// A place is a port of a host, as the session means it: by name, or by address when it has
// none.
type place struct {
	name string
	addr netip.Addr // when there is no name
	port uint16
}

func (p *Policy) placeAt(to netip.AddrPort) place {
	return place{name: p.names.name(to.Addr()), addr: to.Addr().Unmap(), port: to.Port()}
}

func (l place) String() string {
	name := l.name
	if name == "" {
		name = l.addr.String()
	}
	return net.JoinHostPort(name, strconv.Itoa(int(l.port)))
}

// mayAsk reports whether a session may connect to a place.
func (p *Policy) mayAsk(l place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.hosts, func(h workers.HostPattern) bool {
		if l.name == "" {
			return h.MatchesAddr(netip.AddrPortFrom(l.addr, l.port))
		}
		return h.Matches(l.name, l.port)
	})
}

// A refusal is an address to which a name leads, and which the session may not reach.
type refusal struct {
	addr netip.Addr
	kind string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("it leads to %s, an address %s; who means that one names it, too", r.addr, r.kind)
}

// mayDial checks the address that a dial is about to reach. A name may lead anywhere, and
// somewhere else in the next moment.
func (p *Policy) mayDial(to netip.AddrPort) error {
	p.mu.Lock()
	named := slices.ContainsFunc(p.hosts, func(h workers.HostPattern) bool { return h.MatchesAddr(to) })
	p.mu.Unlock()
	if named {
		return nil
	}
	kind := kindOf(to.Addr())
	if kind == "" && isOurs(to.Addr()) {
		kind = "of this machine"
	}
	if kind != "" {
		return &refusal{to.Addr(), kind}
	}
	return nil
}

// dial connects to a place, outside.
func (p *Policy) dial(ctx context.Context, l place) (*net.TCPConn, error) {
	d := net.Dialer{
		Timeout: dialLimit,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return p.mayDial(to)
		},
	}
	at := l.String()
	if l.name != "" { // a dot at the end would keep the user's search list away, so there is none
		at = net.JoinHostPort(l.name, strconv.Itoa(int(l.port)))
	}
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// errnoOf returns what connect(2) would say of an error of dial.
func errnoOf(err error) syscall.Errno {
	var refused *refusal
	var no syscall.Errno
	var timeout net.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &refused):
		return syscall.EACCES
	case errors.As(err, &no):
		return no
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return syscall.ETIMEDOUT
	}
	return syscall.EHOSTUNREACH // no such name
}

// Reached is what a session has had to do with one place.
type Reached struct {
	Address        string // "example.org:443"
	Connections    int
	Sent, Received int64 // bytes, by the session
	Refused        int   // how often it was not let through
	Last           time.Time
}

// Reached lists the places, those of the last moment first.
func (p *Policy) Reached() []Reached {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Reached, 0, len(p.reached))
	for _, r := range p.reached {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Reached) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Address, b.Address))
	})
	return list
}

// note changes what is known of a place.
func (p *Policy) note(l place, change func(*Reached)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := l.String()
	if p.reached[at] == nil && len(p.reached) >= maxListed {
		at = "others"
	}
	r := p.reached[at]
	if r == nil {
		r = &Reached{Address: at}
		p.reached[at] = r
	}
	r.Last = time.Now()
	change(r)
}

// tellOnce tells the user of the session something, unless it was told before.
func (p *Policy) tellOnce(key, text string) {
	p.mu.Lock()
	again := p.told[key]
	p.told[key] = true
	p.mu.Unlock()
	if !again && p.o.Tell != nil {
		p.o.Tell(text)
	}
}
