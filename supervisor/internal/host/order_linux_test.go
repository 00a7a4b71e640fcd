package host

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
)

// A user with many pipes gets small ones from Linux (pipe-user-pages-soft).
func TestOrder(t *testing.T) {
	t.Parallel()
	large := order{Do: doGrant, Grant: &confine.Grant{}}
	for i := range 400 {
		large.Grant.Reach = append(large.Grant.Reach, confine.Path(fmt.Sprintf("/srv/a/longer/path/number/%d", i)))
	}
	for _, c := range []struct {
		name   string
		orders []order
	}{
		{"is whole in a pipe that is smaller", []order{large}},
		{"does not mix with others", []order{large, large, {Do: doForget}, large}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, stage := orderedStage(t)
			sent := make(chan error, len(c.orders))
			for _, o := range c.orders {
				go func() {
					err := s.order(o)
					for err != nil && o.Do == doForget && !errors.Is(err, errCut) { // a small one does not wait for room
						err = s.order(o)
					}
					if err != nil {
						s.down.out.Close() // ends the wait for it
					}
					sent <- err
				}()
			}
			lines := bufio.NewScanner(stage)
			for range c.orders {
				var got order
				if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil {
					t.Fatalf("got %.100q, %v, want an order", lines.Text(), lines.Err())
				}
				if got.Do == doGrant && len(got.Grant.Reach) != len(large.Grant.Reach) {
					t.Errorf("got %d paths, want %d", len(got.Grant.Reach), len(large.Grant.Reach))
				}
			}
			for range c.orders {
				if err := <-sent; err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("fails if nothing reads it, and none follows its part", func(t *testing.T) {
		t.Parallel()
		s, stage := orderedStage(t)
		for _, o := range []order{large, {Do: doForget}, large} {
			if err := s.order(o); !errors.Is(err, errCut) {
				t.Errorf("%s: got %v", o.Do, err)
			}
		}
		if err := s.down.out.Close(); err != nil {
			t.Fatal(err)
		}
		want, _ := json.Marshal(large)
		if got, err := io.ReadAll(stage); err != nil || !bytes.HasPrefix(want, got) || len(got) == 0 {
			t.Errorf("the stage was sent %.100q… of %d bytes, %v", got, len(got), err)
		}
	})
	t.Run("fails if the pipe is full, and the next one is taken", func(t *testing.T) {
		t.Parallel()
		s, stage := orderedStage(t)
		full := 0
		for s.order(order{Do: doForget}) == nil {
			full++
		}
		lines := bufio.NewScanner(stage)
		for range full {
			lines.Scan()
		}
		if err := s.order(order{Do: doKill}); err != nil {
			t.Fatal(err)
		}
		var got order
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil || got.Do != doKill {
			t.Errorf("got %q, %v", lines.Text(), lines.Err())
		}
	})
}

// orderedStage returns the supervisor's side of a stage with a small pipe, and the stage's end of that.
func orderedStage(t *testing.T) (*staged, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { _, err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096) })
	if err != nil {
		t.Fatal(err)
	}
	return &staged{down: &Channel{out: w, raw: raw}}, r
}
