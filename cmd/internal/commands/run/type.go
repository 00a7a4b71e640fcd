package run

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"golang.org/x/term"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/session"
)

// defaultTypeWait is shorter than that of an input. Nothing reports that a program has handled a
// key, if it never waits for input.
const defaultTypeWait = 10 * time.Second

// keySource says where the keys of repl type come from.
type keySource struct {
	bytes, secret bool
}

// NewTypeCommand returns the command that types keys for the programs of the running turn.
func NewTypeCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	var from keySource
	r.Flags.BoolVar(&from.bytes, "bytes", false, "type the bytes of standard input unchanged, instead of KEYS")
	r.Flags.BoolVar(&from.secret, "secret", false, "keep the keys out of the session's record; they come from a prompt that shows nothing, or from a line of standard input")
	wait := r.Flags.Duration("wait", defaultTypeWait, "`DURATION` how long to wait for the end or an input request")
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := cmdkit.ParseInterspersed(r.Flags, args)
		if err == nil {
			err = from.checkWords(words)
		}
		if err == nil && *wait < 0 {
			err = cmdkit.UsageErrorf("--wait %s: use 0 or more", *wait)
		}
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		keys, err := from.readKeys(s, words[1:])
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		if !utf8.ValidString(keys.Text) {
			return cmdkit.StatusUsage, errNotUTF8
		}
		return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
			return typeKeys(ctx, r, s, c, words[0], keys, *wait)
		})
	}
}

// checkWords returns a usage error unless the words are a session, and the keys if they come from
// there.
func (k keySource) checkWords(words []string) error {
	switch {
	case len(words) == 0:
		return cmdkit.UsageErrorf("type needs the name of a session; repl list shows them")
	case len(words) > 2:
		return cmdkit.UsageErrorf("type takes no argument %q; quote KEYS with blanks", words[2])
	case len(words) == 2 && k.bytes:
		return cmdkit.UsageErrorf("use either KEYS or --bytes, not both")
	case len(words) == 2 && k.secret:
		return cmdkit.UsageErrorf("leave out KEYS with --secret: other programs can see a command line; type them at the prompt, or pass them on standard input")
	case len(words) == 1 && !k.bytes && !k.secret:
		return cmdkit.UsageErrorf("type needs KEYS, such as '<Down><Enter>'")
	}
	return nil
}

// readKeys returns the keys: an argument, all of standard input, or a line of it.
func (k keySource) readKeys(s cmdkit.Streams, words []string) (session.Keys, error) {
	keys := session.Keys{Secret: k.secret}
	switch {
	case len(words) > 0:
		keys.Text = words[0]
	case k.bytes:
		var err error
		if keys.Bytes, err = io.ReadAll(io.LimitReader(s.In, session.MaxKeysBytes+1)); err != nil {
			return keys, fmt.Errorf("cannot read the keys from standard input: %w", err)
		}
	case term.IsTerminal(int(s.In.Fd())):
		fmt.Fprint(s.Err, "Keys: ")
		line, err := term.ReadPassword(int(s.In.Fd()))
		fmt.Fprintln(s.Err)
		if err != nil {
			return keys, fmt.Errorf("cannot read the keys: %w", err)
		}
		keys.Text = string(line)
	default:
		line, err := bufio.NewReader(io.LimitReader(s.In, session.MaxKeysBytes+1)).ReadString('\n')
		if err != nil && (!errors.Is(err, io.EOF) || line == "") {
			return keys, fmt.Errorf("cannot read the keys from standard input: %w", err)
		}
		keys.Text = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	}
	return keys, nil
}

// typeKeys types keys and shows the turn.
func typeKeys(ctx context.Context, r *daemonlink.DaemonCommand, s cmdkit.Streams, c *client.Client, name string, keys session.Keys, wait time.Duration) (int, error) {
	before, err := c.GetSession(ctx, name)
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	view := newTurnView(r, s, c, wait)
	typed, err := c.TypeKeys(ctx, protocol.TypeParams{Session: name, Author: cmdkit.CommandAuthor("type"), Keys: keys})
	if err != nil {
		return cmdkit.StatusFailed, err
	}
	reply, err := c.WaitTurn(ctx, protocol.WaitParams{Session: name, Turn: typed.Turn, WaitMS: view.firstWaitMS(), After: before.LastSeq})
	if err != nil {
		view.lastReply = session.Reply{Session: name, Turn: typed.Turn}
		return view.handleFailure(ctx, err)
	}
	return view.showTurn(ctx, reply, before.LastSeq)
}
