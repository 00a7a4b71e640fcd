// Command node acts as a cluster of one pod, for tests. It answers the few requests that kubectl
// sends to an API server before it runs a command, and contains the kubelet's own command server.
//
//	node KUBECONFIG PREFIX...
//
// It writes KUBECONFIG when it listens, and puts PREFIX, which may be empty, before each command
// that it runs. PREFIX is a container runtime's "exec", or the words that enter namespaces. It
// exits at the end of its input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"k8s.io/apimachinery/pkg/types"
	client "k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// idleTimeout and creation bound a connection of a command, with the kubelet's defaults.
const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = 30 * time.Second
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("node: the first argument is the file for kubectl's configuration")
	}
	if err := runNode(os.Args[1], os.Args[2:]); err != nil {
		log.Fatalf("node: %v", err)
	}
}

func runNode(kubeconfig string, prefix []string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := writeConfig(kubeconfig, listener.Addr().String()); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(listener, newAPIServer(localPod(prefix)))
}

// writeConfig writes the file atomically, so that a program waiting for it reads all of it.
func writeConfig(path, address string) error {
	const form = `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "http://%s"}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
users: [{name: test, user: {}}]
current-context: test
`
	if err := os.WriteFile(path+".new", fmt.Appendf(nil, form, address), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// newAPIServer answers kubectl's requests: the available kinds, the pod, and the command.
func newAPIServer(p localPod) http.Handler {
	mux := http.NewServeMux()
	say := func(path, answer string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		})
	}
	say("/api", `{"kind":"APIVersions","versions":["v1"]}`)
	say("/apis", `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
	say("/api/v1", `{"kind":"APIResourceList","groupVersion":"v1","resources":[
		{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get"],"shortNames":["po"]},
		{"name":"pods/exec","namespaced":true,"kind":"PodExecOptions","verbs":["create","get"]}]}`)
	mux.HandleFunc("GET /api/v1/namespaces/{space}/pods/{pod}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":%q},
			"spec":{"containers":[{"name":"main","image":"none"}]},"status":{"phase":"Running"}}`, r.PathValue("pod"), r.PathValue("space"))
	})
	mux.HandleFunc("/api/v1/namespaces/{space}/pods/{pod}/exec", p.serveExec)
	return mux
}

// A localPod is the prefix that runs commands in the pod.
type localPod []string

// serveExec passes a command to the kubelet's server. That server supports only the fourth version
// of the protocol, like a kubelet: a real API server translates for newer clients.
func (p localPod) serveExec(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	wire := map[string]bool{}
	for _, name := range []string{"stdin", "stdout", "stderr", "tty"} {
		wire[name] = query.Get(name) == "true"
	}
	opts := &remotecommand.Options{Stdin: wire["stdin"], Stdout: wire["stdout"], Stderr: wire["stderr"] && !wire["tty"], TTY: wire["tty"]}
	remotecommand.ServeExec(w, r, p, r.PathValue("pod"), "", "main", query["command"], opts, idleTimeout, creationTimeout, []string{"v4.channel.k8s.io"})
}

// ExecInContainer runs a command until it exits, as the runtime below a kubelet does. The end of
// the stream only ends the command's input.
func (p localPod) ExecInContainer(_ context.Context, _ string, _ types.UID, _ string, words []string, in io.Reader, out, errs io.WriteCloser,
	_ bool, _ <-chan client.TerminalSize, _ time.Duration) error {
	words = append(append([]string(nil), p...), words...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = out, errs
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		if in != nil {
			_, _ = io.Copy(stdin, in)
		}
		_ = stdin.Close()
	}()
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	}
	return err
}
