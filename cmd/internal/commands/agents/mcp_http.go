package agents

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// httpFlags holds the user's choices for serving over HTTP.
type httpFlags struct {
	address     string // "" means no HTTP
	tokenFile   string
	hosts       cmdkit.StringList
	idleTimeout time.Duration
}

func (hf *httpFlags) AddFlags(f *flag.FlagSet) {
	f.StringVar(&hf.address, "http", "", "`ADDRESS:PORT` serve any number of clients over HTTP instead; they need the token of --token-file")
	f.StringVar(&hf.tokenFile, "token-file", "", "`FILE` the file of the token, created if missing")
	f.Var(&hf.hosts, "http-host", "`NAME` another name by which clients call this host; required if ADDRESS is on the network")
	f.DurationVar(&hf.idleTimeout, "session-idle-timeout", mcptransport.DefaultIdleTimeout, "`DURATION` end HTTP sessions after this time without use; at least "+text.DurationWords(mcpserver.MinIdleTimeout))
}

// validateHTTP checks the choice as far as possible without the network.
func (hf *httpFlags) validateHTTP(f *flag.FlagSet) error {
	if hf.address == "" {
		var err error
		f.Visit(func(set *flag.Flag) {
			switch set.Name {
			case "token-file", "http-host", "session-idle-timeout":
				err = cmdkit.UsageErrorf("--%s is for serving over HTTP; add --http 127.0.0.1:PORT", set.Name)
			}
		})
		return err
	}
	host, _, err := net.SplitHostPort(hf.address)
	if err != nil {
		return cmdkit.UsageErrorf("--http needs an address and a port, such as 127.0.0.1:8765, not %q", hf.address)
	}
	if hf.idleTimeout < mcpserver.MinIdleTimeout {
		return cmdkit.UsageErrorf("--session-idle-timeout must be %s or more, longer than a call may take, not %s", mcpserver.MinIdleTimeout, hf.idleTimeout)
	}
	for _, h := range hf.hosts {
		if h == "" || strings.ContainsAny(h, ":/ ") {
			return cmdkit.UsageErrorf("--http-host needs a host name without a port, not %q", h)
		}
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) && len(hf.hosts) == 0 {
		return cmdkit.UsageErrorf("--http %s would let others on the network run code here, and read the token in transit; "+
			"use 127.0.0.1, or name this host as its clients call it, with --http-host NAME", hf.address)
	}
	return nil
}

// serve serves over HTTP until ctx ends, and prints the address to standard error.
func (hf *httpFlags) serve(ctx context.Context, options *mcpserver.Options, stderr io.Writer) error {
	path := hf.tokenFile
	if path == "" {
		path = tokenPath()
	}
	if path == "" {
		return cmdkit.UsageErrorf("the token cannot be saved without a home directory; name a file with --token-file")
	}
	secret, err := loadToken(path)
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, listenNetwork(hf.address), hf.address)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	fmt.Fprintf(stderr, "repl: serving http://%s%s\nrepl: the token is in %s\n", hf.publicAddress(listener.Addr()), mcptransport.Path, path)
	return mcpserver.RunHTTP(ctx, options, &mcptransport.HTTPOptions{
		Listener:    listener,
		Token:       secret,
		Hosts:       hf.hosts,
		IdleTimeout: hf.idleTimeout,
	})
}

// listenNetwork returns the network for an address. With "tcp", "0.0.0.0" would also mean every
// IPv6 address.
func listenNetwork(address string) string {
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

// publicAddress returns the host and port at which a client can call the server. It is never the
// unspecified address.
func (hf *httpFlags) publicAddress(at net.Addr) string {
	if t, ok := at.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return net.JoinHostPort(hf.hosts[0], strconv.Itoa(t.Port))
	}
	return at.String()
}
