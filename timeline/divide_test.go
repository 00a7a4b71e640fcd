package timeline

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// words is text of about n bytes.
func words(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	var b bytes.Buffer
	for b.Len() < n {
		fmt.Fprintf(&b, "w%x ", r.Uint32())
	}
	return b.Bytes()
}

func TestDivide_PartsAreTheWholeAndBounded(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty": nil, "one byte": {1}, "equal bytes": make([]byte, 1<<20), "text": words(1, 3<<20), "small": words(2, minPart), "one more": words(3, minPart)[:minPart+1],
	} {
		var all []byte
		parts := 0
		for part := range divide(data) {
			if rest := len(data) - len(all); len(part) == 0 || len(part) > maxPart || len(part) < minPart && len(part) < rest {
				t.Errorf("%s: a part of %d bytes, %d before it", name, len(part), len(all))
			}
			all = append(all, part...)
			parts++
		}
		if !bytes.Equal(all, data) {
			t.Errorf("%s: together they are %d bytes of %d", name, len(all), len(data))
		}
		if name == "text" && (parts < 100 || parts > 300) {
			t.Errorf("%d parts", parts)
		}
	}
}

// pages are texts that have much in common, each with an own beginning, middle and end.
func pages(n int) (all [][]byte) {
	first, second := words(1, 200<<10), words(2, 150<<10)
	for i := range n {
		own := fmt.Sprintf("own %d ", i)
		page := bytes.Join([][]byte{[]byte(strings.Repeat(own, i)), first, []byte(own), second, []byte(strings.Repeat(own, 100))}, nil)
		all = append(all, page)
	}
	return all
}

func TestBlob_WhatLargeTextsHaveInCommonIsKeptOnce(t *testing.T) {
	dir := t.TempDir()
	l, err := New(&Options{Dir: dir, MemoryBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all := pages(20)
	sizes := int64(0)
	for i, page := range all {
		l.Append(Event{Turn: 1, Body: Display{Data: map[string][]byte{"text/html": page, "text/plain": []byte("a table")}, ID: fmt.Sprint(i)}})
		sizes += int64(len(page))
	}
	l.Append(Event{Turn: 1, Body: Display{Data: map[string][]byte{"text/html": all[3]}, ID: "again"}})
	l.Append(Event{Turn: 1, Body: Notice{"the end"}})
	l.Sync()
	file, err := os.Stat(filepath.Join(dir, EventsName))
	if err != nil || file.Size() > int64(len(all[0]))+20*80<<10 || file.Size() < int64(len(all[0])) {
		t.Errorf("the file has %d bytes, the pages %d in all, %v", file.Size(), sizes, err)
	}
	check := func(how string, events []Event) {
		t.Helper()
		if len(events) != len(all)+2 {
			t.Fatalf("%s: %d events", how, len(events))
		}
		for i, e := range events[:len(all)+1] {
			want := all[3]
			if i < len(all) {
				want = all[i]
			}
			if got := e.Body.(Display).Data["text/html"]; !bytes.Equal(got, want) {
				t.Errorf("%s: page %d has %d bytes, want %d", how, i, len(got), len(want))
			}
		}
	}
	check("forward", l.Read(Span{Limit: 100, Bytes: 1 << 30, Part: 1 << 30}))
	check("backward", l.Read(Span{Limit: 100, Bytes: 1 << 30, Part: 1 << 30, Backward: true}))
	var read []Event
	for e := range ReadFile(dir) {
		read = append(read, e)
	}
	check("after a crash", read)
	for i, e := range l.Read(Span{Limit: 20, Bytes: 1 << 30, Part: 4 << 10}) {
		b := e.Body.(Display).LeftOut["text/html"]
		var got []byte
		for int64(len(got)) < b.Bytes {
			piece, size, err := l.Blob(b.Digest, int64(len(got)), 77_777)
			if err != nil || size != int64(len(all[i])) || len(piece) == 0 {
				t.Fatalf("page %d: %d bytes of %d, %v", i, len(piece), size, err)
			}
			got = append(got, piece...)
		}
		if !bytes.Equal(got, all[i]) {
			t.Errorf("page %d has %d bytes by its digest, want %d", i, len(got), len(all[i]))
		}
	}
}

// Pictures are in one piece, as programs before this one wrote all data.
func TestDivide_IsForText(t *testing.T) {
	large := words(1, divideFrom)
	for mime, want := range map[string]bool{"text/html": true, "application/json": true, "image/svg+xml": true, "image/png": false, "image/jpeg": false} {
		if got := isDivided(mime, large); got != want || isDivided(mime, large[:divideFrom-1]) {
			t.Errorf("%s: %t", mime, got)
		}
	}
}

func TestRecord_PartsThatAreNotThereAreAnError(t *testing.T) {
	data := words(1, 200<<10)
	record, _ := appendRecord(nil, Event{Seq: 1, Body: Display{Data: map[string][]byte{"text/html": data}}}, place{structural: -1}, nil)
	if events, _, _ := records(record); len(events) != 1 || !bytes.Equal(events[0].Body.(Display).Data["text/html"], data) {
		t.Fatalf("the record itself: %d events", len(events))
	}
	file := io.NewSectionReader(bytes.NewReader(record), 0, int64(len(record)))
	for name, s := range map[string]scattered{
		"behind the end":  {{region: region{int64(len(record)) - 1, minPart}}, {region: region{0, 1}}},
		"too large":       {{region: region{0, uint64(len(record)) + 1}}},
		"many times much": {{region: region{0, maxScattered}}, {region: region{0, maxScattered}}},
	} {
		if got, err := s.join(file); err == nil {
			t.Errorf("%s: got %d bytes", name, len(got))
		}
	}
	for name, fields := range map[string]func(n func(uint64), at func(int64)){
		"more parts than fit":    func(n func(uint64), at func(int64)) { at(inParts); n(1 << 40) },
		"too short together":     func(n func(uint64), at func(int64)) { at(inParts); n(1); n(minPart); at(0) },
		"too long together":      func(n func(uint64), at func(int64)) { at(inParts); n(1); n(1 << 60); at(0) },
		"no place":               func(n func(uint64), at func(int64)) { at(-3) },
		"a part without a place": func(n func(uint64), at func(int64)) { at(inParts); n(1); n(100_000); at(inParts) },
		"a part that is cut off": func(n func(uint64), at func(int64)) { at(inParts); n(1); n(100_000); at(hereWhole) },
	} {
		w := codec{writing: true}
		n := func(v uint64) { w.uint(&v) }
		n(100_000)
		w.buf = append(w.buf, make([]byte, len(digest{}))...)
		fields(n, func(v int64) { w.int64(&v) })
		r := codec{buf: append(w.buf, make([]byte, 100)...)}
		if r.readPart(&Display{Data: map[string][]byte{}}, "text/html"); !r.bad {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestBlob_DataThatIsAPartOfOtherDataIsFoundInTheFile(t *testing.T) {
	l, err := New(&Options{Dir: t.TempDir(), MemoryBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	page := pages(1)[0]
	part := page[:partLength(page)]
	for _, data := range [][]byte{page, part, words(9, 200<<10)} { // the last takes their place in memory
		l.Append(Event{Body: Display{Data: map[string][]byte{"text/html": data}}})
		l.Sync()
	}
	got, size, err := l.Blob(digest(sha256.Sum256(part)).String(), 0, len(part))
	if err != nil || size != int64(len(part)) || !bytes.Equal(got, part) {
		t.Errorf("got %d bytes of %d, %v", len(got), size, err)
	}
}
