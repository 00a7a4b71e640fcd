package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/turnstone-repl/turnstone/sandbox"
)

// dialTimeout bounds the time to connect outside, including the lookup.
const dialTimeout = 15 * time.Second

// maxDestinations bounds the destinations that a session lists.
const maxDestinations = 1000

// A HostPolicy decides which hosts one session may reach and records the destinations it has used.
type HostPolicy struct {
	machineName string // the name of this machine, in lower case
	names       nameTable
	options     Options

	mu           sync.Mutex
	hosts        []sandbox.HostPattern
	destinations map[string]*DestinationUse
	notified     map[string]bool
}

// Options configure the policy of one session.
type Options struct {
	Machine string // the name of this machine
	Hosts   []string

	// OnRefused is called for each destination that the policy refuses, and reports whether the
	// user has allowed it in the meantime. It may wait until the context ends; nil refuses at once.
	// why gives the reason.
	OnRefused func(ctx context.Context, address, why string) bool

	// Notify receives notices for the user of the session, each once.
	Notify func(string)
}

// New returns the policy of a session.
func New(o Options) (*HostPolicy, error) {
	p := &HostPolicy{machineName: strings.ToLower(o.Machine), options: o, destinations: map[string]*DestinationUse{}, notified: map[string]bool{}}
	for _, h := range o.Hosts {
		if err := p.AllowHost(h); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// AllowHost adds a pattern. Connections from now on may use it.
func (p *HostPolicy) AllowHost(pattern string) error {
	h, err := sandbox.ParseHostPattern(pattern)
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

// A destination is a port of a host as the session names it: by host name, or by address.
type destination struct {
	name string
	addr netip.Addr // if name is empty
	port uint16
}

func (p *HostPolicy) destinationAt(to netip.AddrPort) destination {
	return destination{name: p.names.nameOf(to.Addr()), addr: to.Addr().Unmap(), port: to.Port()}
}

func (d destination) String() string {
	name := d.name
	if name == "" {
		name = d.addr.String()
	}
	return net.JoinHostPort(name, strconv.Itoa(int(d.port)))
}

// mayConnect reports whether a session may connect to a destination.
func (p *HostPolicy) mayConnect(l destination) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.hosts, func(h sandbox.HostPattern) bool {
		if l.name == "" {
			return h.MatchesAddr(netip.AddrPortFrom(l.addr, l.port))
		}
		return h.Matches(l.name, l.port)
	})
}

// A blockedAddressError reports that a name leads to an address which the session may not reach.
type blockedAddressError struct {
	addr netip.Addr
	kind string
}

func (e *blockedAddressError) Error() string {
	return fmt.Sprintf("the name resolves to %s, an address %s; to allow it, list that address, too", e.addr, e.kind)
}

// checkDialAddress checks the address that a dial is about to reach. A name may resolve to any
// address, and to another one a moment later.
func (p *HostPolicy) checkDialAddress(to netip.AddrPort) error {
	p.mu.Lock()
	named := slices.ContainsFunc(p.hosts, func(h sandbox.HostPattern) bool { return h.MatchesAddr(to) })
	p.mu.Unlock()
	if named {
		return nil
	}
	kind := addressKind(to.Addr())
	if kind == "" && isOwnAddress(to.Addr()) {
		kind = "of this machine"
	}
	if kind != "" {
		return &blockedAddressError{to.Addr(), kind}
	}
	return nil
}

// dialDestination connects to a destination, outside the sandbox.
func (p *HostPolicy) dialDestination(ctx context.Context, l destination) (*net.TCPConn, error) {
	d := net.Dialer{
		Timeout: dialTimeout,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return p.checkDialAddress(to)
		},
	}
	at := l.String()
	if l.name != "" { // no final dot: it would disable the user's search list
		at = net.JoinHostPort(l.name, strconv.Itoa(int(l.port)))
	}
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// errnoOf returns the errno of connect(2) that corresponds to an error of a dial.
func errnoOf(err error) syscall.Errno {
	var refused *blockedAddressError
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

// DestinationUse records the connections that a session made to one destination.
type DestinationUse struct {
	Address        string // "example.org:443"
	Connections    int
	Sent, Received int64 // bytes, from the session's side
	Refused        int   // number of refused connections
	Last           time.Time
}

// Destinations lists the destinations, most recently used first.
func (p *HostPolicy) Destinations() []DestinationUse {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]DestinationUse, 0, len(p.destinations))
	for _, r := range p.destinations {
		list = append(list, *r)
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Address, b.Address)) < 0
	})
	return list
}

// recordUse updates the record of a destination.
func (p *HostPolicy) recordUse(l destination, change func(*DestinationUse)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := l.String()
	if p.destinations[at] == nil && len(p.destinations) >= maxDestinations {
		at = "others"
	}
	r := p.destinations[at]
	if r == nil {
		r = &DestinationUse{Address: at}
		p.destinations[at] = r
	}
	r.Last = time.Now()
	change(r)
}

// notifyOnce sends a notice to the user of the session, unless one with the same key was sent
// before.
func (p *HostPolicy) notifyOnce(key, text string) {
	p.mu.Lock()
	again := p.notified[key]
	p.notified[key] = true
	p.mu.Unlock()
	if !again && p.options.Notify != nil {
		p.options.Notify(text)
	}
}
