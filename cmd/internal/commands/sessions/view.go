package sessions

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/cmd/internal/openbrowser"
	webpage "github.com/turnstone-repl/turnstone/cmd/internal/webui"
	"github.com/turnstone-repl/turnstone/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/internal/httpauth"
)

// NewViewCommand returns the command that serves the sessions of the daemon as a web UI.
func NewViewCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	noOpen := r.Flags.Bool("no-open", false, "print the link without opening a browser")
	port := r.Flags.Int("port", 0, "`N` the local port; default a free one")
	byAddress := r.Flags.Bool("by-address", false, "use 127.0.0.1 in the link, for browsers that do not resolve names under localhost")
	self := r.Flags.String("as", cmdkit.CommandAuthor(strconv.Itoa(os.Getpid())), "`NAME` the name that others see; default your user name and a number")
	r.Log.AddFlags(f)
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(r.Flags, args)
		switch {
		case err != nil:
			return cmdkit.StatusUsage, err
		case len(words) > 1:
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("view takes no argument %q", words[1])
		case *port < 0 || *port > 65535:
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--port %d: use a port from 1 to 65535, or 0 for one that is free", *port)
		case *self == "" || !protocol.IsAuthor(*self):
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("--as %q: use a name of up to %d bytes, without control or invisible characters", *self, protocol.MaxAuthorBytes)
		}
		name := ""
		if len(words) == 1 {
			name = words[0]
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			if name != "" {
				if _, err := c.GetSession(ctx, name); err != nil {
					return cmdkit.StatusFailed, err
				}
			}
			served, err := webpage.Listen(ctx, &webpage.Options{
				Link: r.Link, Author: *self, Port: *port, UseAddress: *byAddress, Version: cmdkit.ProgramVersion(), Logger: r.Logger,
				Export: func(ctx context.Context, w io.Writer, name, format string) error {
					return exportSession(ctx, r.Link, w, name, format)
				},
				Formats: func(name string) []string { return languages.OfSession(name).Export.Formats() },
			})
			if err != nil {
				return cmdkit.StatusFailed, fmt.Errorf("cannot serve the web UI: %w", err)
			}
			return cmdkit.StatusDone, serveView(ctx, s, served, name, !*noOpen && browserprompt.HasBrowser(os.Getenv))
		})
	}
}

// serveView serves until ctx ends, and prints links: one at once, and one for each line of input.
func serveView(ctx context.Context, s cmdkit.Streams, served *webpage.Server, name string, open bool) error {
	print := func() {
		fmt.Fprintf(s.Out, "%s\n", served.NewLoginLink(name))
		fmt.Fprintf(s.Err, "repl: this link admits one browser, once, within %d seconds\n", int(httpauth.LoginLinkTimeout.Seconds()))
	}
	print()
	hint := "Ctrl-C stops the web UI; the sessions go on"
	if term.IsTerminal(int(os.Stdin.Fd())) {
		hint = "Enter prints another link; " + hint
		go func() { // ends with the program, since nothing interrupts a read of the terminal
			for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
				print()
			}
		}()
	}
	fmt.Fprintln(s.Err, "repl: "+hint)
	if open {
		remove, err := openbrowser.Open(ctx, served.NewLoginLink(name))
		if err != nil {
			fmt.Fprintln(s.Err, "repl: cannot open a browser: "+err.Error())
		}
		defer remove()
	}
	return served.Serve(ctx)
}

// exportSession writes a session as a file, over a connection that may be new.
func exportSession(ctx context.Context, link *client.Client, w io.Writer, name, format string) error {
	if err := link.Connect(ctx); err != nil {
		return err
	}
	now, err := link.GetSession(ctx, name)
	if err != nil {
		return err
	}
	return writeSession(ctx, link, w, now, format)
}
