package event

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"reflect"
	"testing"
	"time"
)

func readRecords(data []byte) (events []Event, previous []int64, rest int64) {
	r := bufio.NewReader(bytes.NewReader(data))
	left := int64(len(data))
	for left > 0 {
		e, p, size, err := ReadRecord(r, left)
		if err == nil {
			e, err = WithFullData(e, io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))), math.MaxInt64)
		}
		if err != nil {
			break
		}
		events, previous = append(events, e), append(previous, p)
		left -= size
	}
	return events, previous, left
}

// FuzzReadRecord reads arbitrary files. It must not panic, or use more memory than the size of
// the file. A record that it accepts must survive another round trip.
func FuzzReadRecord(f *testing.F) {
	now := time.Unix(1, 2)
	var all []byte
	large := bytes.Repeat([]byte("a"), minBlobBytes)
	blobs := make(map[Digest]FileRange)
	for i, b := range []Body{
		Text{Stderr, []byte("text"), TextTraceback, false}, Text{Stdout, []byte("text"), TextResult, false}, Text{Stdout, []byte("text"), TextResult, true}, Display{Data: map[string][]byte{"image/png": {1}, "text/plain": []byte("p")}, Meta: []byte("{}"), ID: "s", Update: true, Result: true, Title: "t"}, OutputCleared{true}, FullScreenChanged{true}, Display{Data: map[string][]byte{"a/a": large, "b/b": large}}, Display{Data: map[string][]byte{"a/a": large}}, TurnStarted{[]byte("1"), 1, "a"},
		TurnEnded{"ok", "n", "m", 3, "SIGKILL", "p", 1}, InputRequested{"p", "line", true, "cat", true, true, 3, AccessDenied{Op: "write", Path: "/p", ChildProgram: "sh", Hint: "r"}}, AccessDenied{Op: "connect", Host: "h:1", ChildProgram: "b"}, AccessDenied{Op: "call", Call: "a.b", Detail: "c=1", Destructive: true}, AccessGranted{Write: "/p", Always: true, Author: "a"}, AccessGranted{Call: "a.*", Author: "b"}, AccessGranted{Read: "/r", Author: "b"}, InputRequestEnded{1}, InputLine{"p", "t", false, "a", true},
		Interrupt{1, "a"}, Progress{1, 2, "m"}, Preparation{"w", "m", 1, 2}, Notice{"n"}, Limit{LimitMemory, 1, 2, true, LimitEnded, "p"}, WorkerStarted{"w"}, WorkerExited{"r", -1, "S", "m", true, true, "l", 5},
	} {
		one, placed := AppendRecord(nil, Event{Seq: Seq(i + 1), At: now, Generation: 1, Turn: 2, Line: 3, Body: b}, int64(len(all)), int64(i)-1, blobs)
		for _, p := range placed {
			blobs[p.Sum] = p.Ranges
		}
		f.Add(one)
		all = append(all, one...)
	}
	f.Add(all)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, kindText.number})
	f.Fuzz(func(t *testing.T, data []byte) {
		events, previous, _ := readRecords(data)
		var again []byte
		for i, e := range events {
			again, _ = AppendRecord(again, e, int64(len(again)), previous[i], nil)
		}
		events2, previous2, rest := readRecords(again)
		if rest != 0 || len(events2) != len(events) || !reflect.DeepEqual(previous, previous2) {
			t.Fatalf("got %d of %d records back, %d bytes left", len(events2), len(events), rest)
		}
		at := int64(0)
		for i := range events {
			if twice, _ := AppendRecord(nil, events2[i], at, previous2[i], nil); !bytes.HasPrefix(again, twice) {
				t.Fatalf("record %d of %T changed", i, events[i].Body)
			} else {
				again = again[len(twice):]
				at += int64(len(twice))
			}
		}
	})
}
