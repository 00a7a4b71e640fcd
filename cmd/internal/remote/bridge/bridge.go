// Package bridge implements the remote end of a connection to a daemon. After a greeting, it copies
// standard input to the daemon's socket, and the socket to standard output.
//
// # Goroutines
//
//	name      started by  ends when                               owns
//	sender    Run         the input or the process ends           the input
//	receiver  Run         the daemon has closed the connection    the output
package bridge

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/remote"
	"github.com/turnstone-repl/turnstone/session"
)

// infoTimeout bounds the daemon's answer before the greeting.
const infoTimeout = 10 * time.Second

// retryDelays are the pauses between attempts to connect to a daemon that another process has just
// started.
var retryDelays = []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 750 * time.Millisecond, 2 * time.Second}

// ErrSilentClient means that the client has sent nothing for longer than it had promised.
var ErrSilentClient = errors.New("nothing received from the client")

// Options are the requests of the client about the connection.
type Options struct {
	Dialer         client.Dialer
	StartDaemon    func(context.Context) error // starts a daemon if none answers; may be nil
	Nonce          string                      // of the greeting; may be ""
	SilenceTimeout time.Duration               // ends the bridge if nothing arrives for so long; 0 means never
	SocketPath     func() string               // for the greeting: the current path of the daemon's socket
}

// Run sends the greeting, and bridges until the daemon closes the connection. It passes the end of
// in on to the daemon, but this alone does not end the connection. Only the greeting and the
// daemon's own bytes go to out. A daemon that cannot be reached is reported in the greeting and as
// an error.
func Run(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	conn, i, err := o.connectDaemon(ctx)
	if err != nil {
		return errors.Join(err, o.greetWithError(out, err))
	}
	defer conn.Close()
	g := localGreeting()
	g.Version, g.Protocol, g.PID, g.Started, g.Socket = i.Version, i.Protocol, i.PID, i.Started, o.SocketPath()
	if err := remote.WriteGreeting(out, o.Nonce, g); err != nil {
		return err
	}
	return o.copyStreams(ctx, conn, in, out)
}

// copyStreams copies in both directions.
func (o Options) copyStreams(ctx context.Context, conn net.Conn, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var silent *time.Timer
	if o.SilenceTimeout > 0 {
		silent = time.AfterFunc(o.SilenceTimeout, func() { stop(fmt.Errorf("%w for %s", ErrSilentClient, o.SilenceTimeout)) })
		defer silent.Stop()
	}
	go func() {
		copyInput(conn, in, func() {
			if silent != nil {
				silent.Reset(o.SilenceTimeout)
			}
		})
	}()
	received := make(chan error, 1)
	go func() {
		_, err := io.Copy(out, conn)
		received <- err
	}()
	select {
	case err := <-received:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// connectDaemon asks the daemon for its information. Then it opens a second connection for the
// client, because the client's first call must be the first of its connection.
func (o Options) connectDaemon(ctx context.Context) (net.Conn, protocol.DaemonInfo, error) {
	conn, err := o.dialOrStart(ctx)
	if err != nil {
		return nil, protocol.DaemonInfo{}, err
	}
	i, err := requestInfo(conn)
	_ = conn.Close()
	if err != nil {
		return nil, i, fmt.Errorf("the program at %s does not answer like a daemon: %w", o.SocketPath(), err)
	}
	conn, err = o.Dialer.Dial(ctx)
	return conn, i, err
}

// dialOrStart connects to the daemon, or starts one.
func (o Options) dialOrStart(ctx context.Context) (net.Conn, error) {
	conn, err := o.Dialer.Dial(ctx)
	if err == nil || o.StartDaemon == nil || session.KindOf(err) != session.KindUnreachable {
		return conn, err
	}
	if err := o.StartDaemon(ctx); err != nil {
		return nil, fmt.Errorf("cannot start a daemon: %w", err)
	}
	conn, err = o.Dialer.Dial(ctx)
	for _, pause := range retryDelays {
		if err == nil {
			break
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		conn, err = o.Dialer.Dial(ctx)
	}
	return conn, err
}

// greetWithError sends a greeting without a daemon.
func (o Options) greetWithError(out io.Writer, why error) error {
	g := localGreeting()
	g.Socket, g.Error, g.Kind = o.SocketPath(), why.Error(), session.KindOf(why)
	return remote.WriteGreeting(out, o.Nonce, g)
}

// requestInfo asks the daemon for its information.
func requestInfo(conn net.Conn) (i protocol.DaemonInfo, err error) {
	if err := conn.SetDeadline(time.Now().Add(infoTimeout)); err != nil {
		return i, err
	}
	if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":"dial","method":%q,"params":{}}`+"\n", protocol.MethodInfo); err != nil {
		return i, err
	}
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return i, err
	}
	var answer struct {
		Result protocol.DaemonInfo `json:"result"`
		Error  *struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return i, err
	}
	if answer.Error != nil {
		return i, errors.New(answer.Error.Message)
	}
	return answer.Result, nil
}

// localGreeting describes this machine and process.
func localGreeting() remote.Greeting {
	host, _ := os.Hostname()
	g := remote.Greeting{Host: host, User: userName(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if id, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		g.Boot = strings.TrimSpace(string(id))
	}
	return g
}

func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

// copyInput copies the client's input, and passes on its end. It calls heard for each part. If it
// fails, the daemon has closed the connection, and the other direction ends as well.
func copyInput(conn net.Conn, in io.Reader, onInput func()) {
	part := make([]byte, 64<<10)
	for {
		n, err := in.Read(part)
		if n > 0 {
			onInput()
			if _, err := conn.Write(part[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if half, ok := conn.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
			return
		}
	}
}
