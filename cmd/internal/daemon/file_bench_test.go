//go:build unix

package daemon_test

import (
	"crypto/rand"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// catOverSocket sends a file over a Unix socket with cat, and writes what arrives to another file.
func catOverSocket(b *testing.B, from, to string) {
	b.Helper()
	l, err := net.Listen("unix", newSocketName(b))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		out, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer out.Close()
		socket, err := out.(*net.UnixConn).File()
		if err != nil {
			b.Error(err)
			return
		}
		defer socket.Close()
		cat := exec.Command("cat", from)
		cat.Stdout = socket
		if err := cat.Run(); err != nil {
			b.Error(err)
		}
	}()
	in, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	f, err := os.Create(to)
	if err != nil {
		b.Fatal(err)
	}
	_, err = io.Copy(f, struct{ io.Reader }{in}) // as a program would, and not as splice
	if err != nil {
		b.Error(err)
	}
	_ = f.Close()
}

// This benchmark compares the speed of files that are put and got with that of cat through a Unix
// socket, in the same run.
func BenchmarkFileTransfer(b *testing.B) {
	const size = 64 << 20
	work, local := b.TempDir(), b.TempDir()
	r := startDaemon(b, func(o *daemon.Options) {
		o.FindSpec = func(protocol.CreateParams) (workers.Spec, error) {
			spec := fakeworker.NewSpec(testexec.OwnPath(), nil)
			spec.Dir = work
			return spec, nil
		}
	})
	c := r.dial()
	if _, err := c.CreateSession(b.Context(), protocol.CreateParams{Name: "main"}); err != nil {
		b.Fatal(err)
	}
	s := c.Session("main")
	data := make([]byte, size)
	_, _ = rand.Read(data)
	path := filepath.Join(local, "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	var put, get, cat []float64
	rate := func(do func()) float64 {
		begun := time.Now()
		do()
		return size / (1 << 20) / time.Since(begun).Seconds()
	}
	for b.Loop() {
		cat = append(cat, rate(func() { catOverSocket(b, path, filepath.Join(local, "cat")) }))
		put = append(put, rate(func() {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if err := session.Put(b.Context(), s, "data", f, &session.PutOptions{Overwrite: true}); err != nil {
				b.Fatal(err)
			}
		}))
		get = append(get, rate(func() {
			f, err := os.Create(filepath.Join(local, "got"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			if err := session.Get(b.Context(), s, "data", f); err != nil {
				b.Fatal(err)
			}
		}))
	}
	median := func(all []float64) float64 { slices.Sort(all); return all[len(all)/2] }
	b.ReportMetric(median(cat), "cat-MiB/s")
	b.ReportMetric(median(put), "put-MiB/s")
	b.ReportMetric(median(get), "get-MiB/s")
	b.ReportMetric(median(put)/median(cat), "put/cat")
	b.ReportMetric(median(get)/median(cat), "get/cat")
}
