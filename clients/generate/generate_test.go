package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/timeline"
)

func TestGenerate(t *testing.T) {
	t.Run("matches the generated files in the tree", func(t *testing.T) {
		root := filepath.Join("..", "..")
		files, err := generateFiles(root)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range files {
			got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
			if err != nil {
				t.Fatal(err)
			}
			if got = bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n")); !bytes.Equal(got, want) {
				t.Errorf("%s is out of date; run go run ./clients/generate", name)
			}
		}
	})

	// The test changes a copy of the sources.
	t.Run("rejects types that its tables do not list", func(t *testing.T) {
		for name, change := range map[string][2]string{
			"protocol.MethodNew":                  {"\tMethodInfo = \"server/info\"\n", "\tMethodInfo = \"server/info\"\n\tMethodNew = \"server/new\"\n"},
			"protocol.DaemonInfo writes its JSON": {"// DaemonInfo describes the daemon: its program, its process and how much it serves.", "func (i DaemonInfo) MarshalJSON() ([]byte, error) { return nil, nil }\n\n// DaemonInfo describes the daemon: its program, its process and how much it serves."},
		} {
			root := t.TempDir()
			for _, pkg := range []string{"client/protocol", "session", "timeline"} {
				if err := os.CopyFS(filepath.Join(root, pkg), os.DirFS(filepath.Join("..", "..", pkg))); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(root, "client", "protocol", "messages.go")
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(strings.ReplaceAll(string(source), "\r\n", "\n"), change[0], change[1], 1)
			if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := generateFiles(root); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("want an error that names %s, got %v", name, err)
			}
		}
	})
}

func TestEvents(t *testing.T) {
	t.Parallel()
	w, err := readModel(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	fields := make(map[string][]string) // by the type of the event
	for _, name := range w.events {
		var names []string
		for _, f := range w.allFields(w.objects[name]) {
			names = append(names, f.name)
		}
		fields[w.objects[name].fields[0].kind.enum[0]] = names
	}
	// A body with all fields has all keys. Two are of text: one for UTF-8, and one for other bytes.
	bodies := []timeline.Body{
		timeline.Text{Stream: timeline.Stderr, Data: []byte("a"), Kind: timeline.TextResult}, timeline.Text{Data: []byte("\xff")},
		timeline.Display{Data: map[string][]byte{"text/plain": []byte("a")}, Meta: []byte(`{"a":1}`), ID: "a", Update: true, Result: true, Title: "a", Omitted: map[string]timeline.Blob{"a": {Bytes: 1}}},
		filled[timeline.OutputCleared](), filled[timeline.FullScreenChanged](), filled[timeline.TurnStarted](), filled[timeline.TurnEnded](), filled[timeline.InputRequested](),
		filled[timeline.InputRequestEnded](), filled[timeline.InputLine](), filled[timeline.Interrupt](), filled[timeline.Progress](), filled[timeline.Preparation](),
		filled[timeline.Call](), filled[timeline.Notice](), filled[timeline.Limit](), filled[timeline.AccessDenied](), filled[timeline.AccessGranted](),
		filled[timeline.WorkerStarted](), filled[timeline.WorkerExited](), filled[timeline.Gap](), filled[timeline.Omitted](),
	}
	written := make(map[string][]string)
	for _, body := range bodies {
		event := filled[timeline.Event]()
		event.Body = body
		data, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		var keys map[string]any
		if err := json.Unmarshal(data, &keys); err != nil {
			t.Fatal(err)
		}
		written[event.Type()] = slices.Compact(slices.Sorted(slices.Values(append(written[event.Type()], slices.Collect(maps.Keys(keys))...))))
	}
	for name, want := range fields {
		slices.Sort(want)
		if got := written[name]; !slices.Equal(got, want) {
			t.Errorf("the JSON of %s has %q, and its type has %q", name, got, want)
		}
	}
	if len(written) != len(fields) {
		t.Errorf("%d kinds of events in Go, %d in the model", len(written), len(fields))
	}
}

// filled returns a struct with a value in each field, also of structs in it.
func filled[T any]() T {
	v := reflect.New(reflect.TypeFor[T]()).Elem()
	fill(v)
	return v.Interface().(T)
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("a")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Slice:
		v.SetBytes([]byte("a"))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	}
}
