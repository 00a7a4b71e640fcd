package daemoncmd

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/daemonlink"
	"github.com/turnstone-repl/turnstone/internal/daemonlock"
)

// stopTimeout bounds the wait for a daemon to stop. The daemon closes all sessions at the same
// time, within their grace period.
const stopTimeout = 30 * time.Second

// answerTimeout bounds the wait for the answer to a control command.
const answerTimeout = 5 * time.Second

// metricsTimeout bounds the wait for metrics, for which the daemon inspects all its processes.
const metricsTimeout = 30 * time.Second

// unansweredError explains why a daemon did not answer.
func unansweredError(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the daemon did not answer: %w", err)
	}
	text := fmt.Sprintf("the daemon has not answered for %s; it is stopped or stuck", answerTimeout)
	if e, ok := daemonlock.ReadEntry(os.Getenv); ok {
		text += fmt.Sprintf("; the one on this host is process %d", e.PID)
	}
	return errors.New(text)
}

// NewDaemonControlCommand returns the command that sends a command to the daemon's control plane and
// prints the answer.
func NewDaemonControlCommand(f *flag.FlagSet) cmdkit.Action {
	r := daemonlink.NewDaemonCommand(f)
	known := []string{"status", "health", "metrics", "pause", "resume", "drain", "stop"}
	return func(s cmdkit.Streams, args []string) (int, error) {
		words, err := r.ParseArgs(args, strings.Join(known, "|"))
		if err != nil {
			return cmdkit.StatusUsage, err
		}
		if !slices.Contains(known, words[0]) {
			return cmdkit.StatusUsage, cmdkit.UsageErrorf("unknown word %q; use %s", words[0], strings.Join(known, ", "))
		}
		if words[0] == "metrics" {
			return printMetrics(s, r)
		}
		if err := r.ResolveTarget(); err != nil {
			return cmdkit.StatusUsage, err
		}
		ctx, stop := cmdkit.CatchSignals(os.Interrupt)
		defer stop()
		dialer, err := r.Dialer(ctx)
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		conn, err := dialer.Dial(ctx)
		if err != nil {
			return cmdkit.StatusUnreachable, err
		}
		defer daemonlink.CloseAndWait(conn)
		defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
		line, err := json.Marshal(map[string]string{"type": controlLine(words[0])})
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		_ = conn.SetDeadline(time.Now().Add(answerTimeout))
		_, err = conn.Write(append(line, '\n'))
		answers := bufio.NewReader(conn)
		var answer []byte
		if err == nil {
			answer, err = answers.ReadBytes('\n')
		}
		if signalled, ok := cmdkit.SignalStatus(ctx); ok {
			return signalled, nil
		}
		if err != nil {
			return cmdkit.StatusUnreachable, unansweredError(err)
		}
		data, err := daemonlink.ControlData(answer)
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		if words[0] == "stop" {
			// The daemon closes the connection last. By then its sessions are gone and another
			// daemon can start.
			_ = conn.SetDeadline(time.Now().Add(stopTimeout))
			_, err := answers.ReadByte()
			if signalled, ok := cmdkit.SignalStatus(ctx); ok {
				return signalled, nil
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return cmdkit.StatusFailed, fmt.Errorf("the daemon is still closing its sessions after %s", stopTimeout)
			}
		}
		return printControlAnswer(s, r, conn, words[0], data)
	}
}

// controlLine returns the type of the control line for a word of the command line.
func controlLine(word string) string {
	if word == "health" {
		return "status"
	}
	return word
}

// printControlAnswer prints the answer to a control line, and returns the exit status.
func printControlAnswer(s cmdkit.Streams, r *daemonlink.DaemonCommand, conn net.Conn, word string, data json.RawMessage) (int, error) {
	if word != "status" && word != "health" {
		if r.JSON {
			return cmdkit.StatusDone, cmdkit.PrintJSON(s.Out, data)
		}
		return cmdkit.StatusDone, nil
	}
	var i daemonStatus
	if err := json.Unmarshal(data, &i); err != nil {
		return cmdkit.StatusFailed, err
	}
	status := cmdkit.StatusDone
	if word == "health" && i.refusal() != "" {
		status = cmdkit.StatusFailed
	}
	if r.JSON {
		return status, cmdkit.PrintJSON(s.Out, data)
	}
	text := i.summaryText(describeDaemon(&r.DaemonTarget, conn))
	if word == "health" {
		text = cmp.Or(i.refusal(), "ok") + "\n"
	}
	_, err := io.WriteString(s.Out, text)
	return status, err
}

// refusal returns why the daemon accepts no new work, or "".
func (s daemonStatus) refusal() string {
	switch {
	case s.Draining:
		return "draining"
	case s.Paused:
		return "paused"
	}
	return ""
}

// printMetrics prints the metrics of the daemon.
func printMetrics(s cmdkit.Streams, r *daemonlink.DaemonCommand) (int, error) {
	return r.RunWithClient(func(ctx context.Context, c *client.Client) (int, error) {
		ctx, stop := context.WithTimeout(ctx, metricsTimeout)
		defer stop()
		text, err := c.Metrics(ctx)
		if err != nil {
			return cmdkit.StatusFailed, err
		}
		if r.JSON {
			return cmdkit.StatusDone, cmdkit.PrintJSON(s.Out, protocol.Metrics{Text: text})
		}
		_, err = io.WriteString(s.Out, text)
		return cmdkit.StatusDone, err
	})
}

// describeDaemon returns the socket and host of the daemon of a connection.
func describeDaemon(t *daemonlink.DaemonTarget, conn net.Conn) string {
	if transport, ok := conn.(interface{ Greeting() remote.Greeting }); ok {
		return transport.Greeting().Socket + " on " + transport.Greeting().Host
	}
	return t.LocalSocket()
}

// daemonStatus is the answer of the control plane to status.
type daemonStatus struct {
	protocol.DaemonInfo
	IdleMS int64 `json:"idle_ms"`
}

// summaryText formats the status for a terminal.
func (s daemonStatus) summaryText(socket string) string {
	var p cmdkit.LineBuilder
	p.AddLine("repl %s serves at %s (process %d, for %s)", s.Version, socket, s.PID, time.Since(s.Started).Round(time.Second))
	if s.Version != cmdkit.ProgramVersion() {
		p.AddLine("version:   %s. %s", daemonlink.VersionsText(s.Version), daemonlink.DrainHint)
	}
	p.AddLine("sessions:  %d", s.Sessions)
	for _, w := range s.WarmPools {
		p.AddLine("warm:      %s", daemonlink.WarmPoolText(w))
	}
	p.AddLine("clients:   %d", s.Connections)
	p.AddLine("languages: %s", strings.Join(s.Languages, ", "))
	p.AddLine("last used: %s ago", (time.Duration(s.IdleMS) * time.Millisecond).Round(time.Second))
	switch {
	case s.Draining:
		p.AddLine("draining:  accepts no new work, and exits when the running work is done")
	case s.Paused:
		p.AddLine("paused:    accepts no new work until repl daemon resume")
	}
	return p.String()
}
