package timeline_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

func hexDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func displayEvent(data ...[]byte) timeline.Event {
	d := timeline.Display{Data: make(map[string][]byte)}
	for i, one := range data {
		d.Data["x/"+string(rune('a'+i))] = one
	}
	return timeline.Event{Turn: 1, Body: d}
}

// readBlob reads data in pieces.
func readBlob(t *testing.T, l *timeline.Log, sum string) []byte {
	t.Helper()
	var all []byte
	for {
		piece, size, err := l.Blob(sum, int64(len(all)), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if all = append(all, piece...); int64(len(all)) == size {
			return all
		}
		if len(piece) == 0 {
			t.Fatalf("got only %d bytes of %d", len(all), size)
		}
	}
}

func randomBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	return data
}

func TestBlob(t *testing.T) {
	t.Run("omitted data is read by digest while an event names it", func(t *testing.T) {
		for name, o := range map[string]timeline.Options{
			"in memory": {}, "on disk": {Dir: "x", MemoryBytes: 1}, "of a file that was restarted": {Dir: "x", MemoryBytes: 1, FileBytes: 64 << 10},
		} {
			t.Run(name, func(t *testing.T) {
				if o.Dir != "" {
					o.Dir = t.TempDir()
				}
				l := newLog(t, &o)
				for i := range uint64(30) {
					large, small := randomBytes(i, 4096+int(i)*100), randomBytes(i, 4095)
					l.Append(displayEvent(large, small))
					l.Append(displayEvent(large))
					l.Append(textEvent([]byte("x\n")))
					if i%7 == 0 {
						l.Sync()
					}
				}
				l.Sync()
				named := 0
				for _, e := range l.Read(timeline.ReadRange{MaxEvents: 1000, MaxBytes: 1 << 30, MaxTypeBytes: 1}) {
					d, _ := e.Body.(timeline.Display)
					for mime, b := range d.Omitted {
						if (b.Digest == "") != (b.Bytes < 4096) {
							t.Errorf("%s: got %+v", mime, b)
						}
						if b.Digest == "" {
							continue
						}
						named++
						if data := readBlob(t, l, b.Digest); hexDigest(data) != b.Digest || int64(len(data)) != b.Bytes {
							t.Errorf("event %d: got %d bytes of %s", e.Seq, len(data), hexDigest(data))
						}
					}
				}
				if named == 0 {
					t.Error("no event names data")
				}
				_, _, err := l.Blob(hexDigest(randomBytes(0, 4096)), 0, 1)
				if lost := o.FileBytes > 0; lost != errors.Is(err, timeline.ErrNoBlob) {
					t.Errorf("the first data: got %v", err)
				}
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	})

	t.Run("stores equal data once", func(t *testing.T) {
		dir := t.TempDir()
		l := newLog(t, &timeline.Options{Dir: dir, MemoryBytes: 8 << 20})
		data := randomBytes(1, 300_000)
		for range 50 {
			l.Append(displayEvent(bytes.Clone(data), bytes.Clone(data)))
		}
		l.Sync()
		info, err := os.Stat(filepath.Join(dir, timeline.EventsName))
		if err != nil || info.Size() > 310_000 {
			t.Errorf("the file has %d bytes, %v", info.Size(), err)
		}
		var first []byte
		for _, e := range l.EventsSince(40) { // in memory, all share the same bytes
			for _, one := range e.Body.(timeline.Display).Data {
				if first == nil {
					first = one
				}
				if &one[0] != &first[0] {
					t.Fatal("equal data is in memory twice")
				}
			}
		}
		n := 0
		for e := range timeline.ReadFile(dir) {
			n++
			for _, one := range e.Body.(timeline.Display).Data {
				if !bytes.Equal(one, data) {
					t.Fatalf("event %d has different data", e.Seq)
				}
			}
		}
		if n != 50 {
			t.Errorf("the file has %d events", n)
		}
	})

	// Many updates with the same image are small in the file: 64 KiB of it refer to gigabytes.
	t.Run("readers allocate only what they return of equal data", func(t *testing.T) {
		l := newLog(t, &timeline.Options{Dir: t.TempDir()})
		const size, storm = 1 << 20, 600
		picture := randomBytes(1, size)
		for i := range storm {
			l.Append(timeline.Event{Turn: 1, Body: timeline.Display{Data: map[string][]byte{"image/png": picture}, ID: "a", Update: i > 0}})
		}
		l.Sync()
		for name, test := range map[string]struct {
			read   func() []timeline.Event
			events int
			most   uint64
		}{
			"a window": {func() []timeline.Event { return l.Window(0, 64<<10, 64<<10) }, 12, 24 * size},
			"forward, by reference": {func() []timeline.Event {
				return l.Read(timeline.ReadRange{After: 100, MaxEvents: 400, MaxBytes: 1 << 20, MaxTypeBytes: 1 << 10})
			}, 400, 8 * size},
			"backward, by reference": {func() []timeline.Event {
				return l.Read(timeline.ReadRange{Before: 500, Backward: true, MaxEvents: 400, MaxBytes: 1 << 20, MaxTypeBytes: 1 << 10})
			}, 400, 8 * size},
			"backward, with data": {func() []timeline.Event {
				return l.Read(timeline.ReadRange{Before: 500, Backward: true, MaxEvents: 400, MaxBytes: 2 * size, MaxTypeBytes: size})
			}, 2, 8 * size},
		} {
			var events []timeline.Event
			took := allocatedBytes(func() { events = test.read() })
			if len(events) > test.events || test.events > 100 && len(events) < test.events {
				t.Errorf("%s: got %d events", name, len(events))
			}
			if took > test.most {
				t.Errorf("%s: allocated %d MiB for %d events", name, took>>20, len(events))
			}
			for _, e := range events {
				d, ok := e.Body.(timeline.Display)
				if b := d.Omitted["image/png"]; ok && len(d.Data["image/png"]) != size && (b.Bytes != size || b.Digest != hexDigest(picture)) {
					t.Errorf("%s: event %d has %d bytes, and %+v is left out", name, e.Seq, len(d.Data["image/png"]), b)
				}
			}
		}
	})

	t.Run("an unknown or malformed digest is an error", func(t *testing.T) {
		l, other := newLog(t, nil), newLog(t, nil)
		data := randomBytes(1, 5000)
		other.Append(displayEvent(data))
		if _, _, err := l.Blob(hexDigest(data), 0, 10); !errors.Is(err, timeline.ErrNoBlob) {
			t.Errorf("data of another log: got %v", err)
		}
		for _, bad := range []string{"", "../../etc/passwd", strings.ToUpper(hexDigest(data)), hexDigest(data) + "0", hexDigest(data)[:63], strings.Repeat("z", 64), "sha256:" + hexDigest(data)} {
			if _, _, err := other.Blob(bad, 0, 10); err == nil || errors.Is(err, timeline.ErrNoBlob) {
				t.Errorf("%q: got %v", bad, err)
			}
		}
		for _, at := range []int64{-1, 5000, 1 << 40} {
			if piece, size, err := other.Blob(hexDigest(data), at, 10); err != nil || size != 5000 || at > 0 && len(piece) > 0 {
				t.Errorf("at %d: got %d bytes of %d, %v", at, len(piece), size, err)
			}
		}
	})

	t.Run("contain no secret", func(t *testing.T) {
		l := newLog(t, nil)
		if err := l.AddSecret("correct horse"); err != nil {
			t.Fatal(err)
		}
		data := append(bytes.Repeat([]byte("a"), 5000), "correct horse"...)
		l.Append(displayEvent(data))
		if _, _, err := l.Blob(hexDigest(data), 0, 10); !errors.Is(err, timeline.ErrNoBlob) {
			t.Errorf("data with a secret: got %v", err)
		}
		e := l.Read(timeline.ReadRange{MaxEvents: 1, MaxBytes: 1})[0]
		if got := readBlob(t, l, e.Body.(timeline.Display).Omitted["x/a"].Digest); bytes.Contains(got, []byte("horse")) {
			t.Error("the secret is shown")
		}
	})
}

// allocatedBytes returns how many bytes do allocates. It cannot be used in parallel tests.
func allocatedBytes(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
