package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/cmd/internal/kept"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// placesWords describes --places.
const placesWords = "`PLACES` the agent may have sessions at these places, too, with names like gpu/main: names of places.toml with commas between them, or all. Other sessions are in the daemon here, which is started if needed, or where --place or --via lead"

// allPlaces is the value of --places for each place of the file.
const allPlaces = "all"

// placesFlag is the value of --places.
type placesFlag []string

func (p *placesFlag) String() string { return strings.Join(*p, ",") }

func (p *placesFlag) Set(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name == "" {
			return fmt.Errorf("use names of places with commas between them, or %s", allPlaces)
		}
		*p = append(*p, name)
	}
	return nil
}

// resolve replaces all by the places of the file, checks each, and leaves out the usual one.
func (p *placesFlag) resolve(usual *where) error {
	var names []string
	for _, name := range *p {
		if name == kept.HerePlace && usual.isAway() {
			return misuse("--places here: the sessions of --place and --via have the names without a place; leave those out, and add the place to --places")
		}
		if name == allPlaces {
			all, err := kept.Places(placesFile())
			if err != nil {
				return misuse("--places all: %v", err)
			}
			if len(all) == 0 {
				return misuse("--places all: there is no place in %s", placesFile())
			}
			names = append(names, slices.Sorted(maps.Keys(all))...)
			continue
		}
		if _, err := placeNamed(name); err != nil && name != kept.HerePlace {
			return err
		}
		names = append(names, name)
	}
	*p = nil
	for _, name := range names {
		if !slices.Contains(*p, name) && name != usual.usualName() {
			*p = append(*p, name)
		}
	}
	return nil
}

// usualName is the name of the place where sessions are whose names have no place; "" if it has
// none.
func (w *where) usualName() string {
	if w.isAway() {
		return w.place
	}
	return kept.HerePlace
}

// elsewhere is the choice for other places than the usual one. Directories and programs that were
// named are not there.
func (c choice) elsewhere() choice {
	return choice{lang: c.lang, limits: c.limits, sandbox: c.atPlaces, away: true}
}

// A placesHost has the sessions of an MCP server in several daemons: the usual one, and one at each
// place that the user allows. A place is reached when a call names it or asks for all, and has a
// link of its own.
type placesHost struct {
	names   []string // the first is the usual one
	usual   *daemonHost
	others  map[string]*placeHost
	connect func(ctx context.Context, place string) (*daemonHost, error)
}

// A placeHost is one place, and its host when it was connected.
type placeHost struct {
	turn chan struct{} // holds one token; who has it may use host
	host *daemonHost   // nil before the first use
}

func newPlacesHost(d *daemonChoice, usual *daemonHost, connect func(ctx context.Context, place string) (*daemonHost, error)) *placesHost {
	h := &placesHost{
		names: append([]string{d.usualName()}, d.places...), usual: usual, connect: connect,
		others: make(map[string]*placeHost),
	}
	for _, name := range d.places {
		h.others[name] = &placeHost{turn: make(chan struct{}, 1)}
	}
	return h
}

// close ends all links.
func (h *placesHost) close() {
	var ending sync.WaitGroup
	ending.Go(h.usual.end)
	for _, p := range h.others {
		ending.Go(func() {
			p.turn <- struct{}{}
			if p.host != nil {
				p.host.end()
			}
		})
	}
	ending.Wait()
}

// at is the host of a place. starts lets the job be started that a place may be.
func (h *placesHost) at(ctx context.Context, place string, starts bool) (*daemonHost, error) {
	p := h.others[place]
	if p == nil {
		return h.usual, nil
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s is being started", place)
	}
	if p.host == nil && !starts {
		if absent, err := hasNoJob(place); err != nil || absent {
			return nil, cmp.Or(err, fmt.Errorf("%s is a job that is not started: a session there, such as %q, starts it", place, place+"/"+mcpserver.MainSession))
		}
	}
	if p.host == nil {
		var err error
		if p.host, err = h.connect(ctx, place); err != nil {
			return nil, err
		}
	}
	return p.host, nil
}

// hasNoJob reports whether a place is reached by way of a job, and none was started.
func hasNoJob(place string) (bool, error) {
	p, err := placeNamed(place)
	if err != nil || !p.NeedsJob() {
		return false, err
	}
	known, err := kept.Recall(stateDir(), place)
	return known.Job == "", err
}

// Remotes implements mcpserver.Backend.
func (h *placesHost) Remotes() []string { return h.names }

// Open implements mcpserver.Backend.
func (h *placesHost) Open(ctx context.Context, name, lang, dir string, narrow func(*workers.Sandbox) *workers.Sandbox, report func(string)) (*mcpserver.SessionHandle, error) {
	place, own, found := strings.Cut(name, "/")
	if !found {
		return h.usual.Open(ctx, name, lang, dir, narrow, report)
	}
	there, err := h.at(ctx, place, true)
	if err != nil {
		return nil, err
	}
	return there.Open(ctx, own, lang, dir, narrow, report)
}

// Sessions implements mcpserver.Backend.
func (h *placesHost) Sessions(ctx context.Context, place string) ([]session.Info, error) {
	there, err := h.at(ctx, place, false)
	if err != nil {
		return nil, err
	}
	all, err := there.Sessions(ctx)
	if there != h.usual {
		for i := range all {
			all[i].Name = place + "/" + all[i].Name
		}
	}
	return all, err
}
