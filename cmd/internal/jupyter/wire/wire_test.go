package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const testKey = "a0436f6c-1916-498b-8eb9-e81ab9368e84"

// signedVector is a message that jupyter_client 8.10's Session signed with the key above.
func signedVector() [][]byte {
	return [][]byte{
		[]byte("peer"), []byte(delimiter),
		[]byte("4c10edf784001d273d7837b930862f07af8f9b5550b87e9014935bb55d8b58dc"),
		[]byte(`{"msg_id":"1","msg_type":"execute_request","username":"u","session":"s","date":"2026-01-01T00:00:00Z","version":"5.4","subshell_id":"7"}`),
		[]byte(`{}`), []byte(`{}`), []byte(`{"code":"1+1"}`), {0, 255},
	}
}

func signAgain(frames [][]byte, key string) [][]byte {
	at := slices.IndexFunc(frames, func(f []byte) bool { return string(f) == delimiter })
	frames[at+1] = NewCodec(key).signBody(frames[at+2 : at+6])
	return frames
}

func TestCodec(t *testing.T) {
	t.Run("reads and answers a message of jupyter_client", func(t *testing.T) {
		codec := NewCodec(testKey)
		m, err := codec.Decode(signedVector())
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Type != "execute_request" || m.Header.ID != "1" || string(m.Content) != `{"code":"1+1"}` ||
			len(m.Buffers) != 1 || string(m.Identities[0]) != "peer" || m.Parent.ID != "" {
			t.Fatalf("%+v", m)
		}
		reply, err := m.NewReply("execute_reply", map[string]any{"status": "ok"})
		if err != nil {
			t.Fatal(err)
		}
		frames, err := codec.Encode(&reply)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(frames[4], signedVector()[3]) {
			t.Errorf("got the parent header %s, want the header of the request with all its fields", frames[4])
		}
		back, err := NewCodec(testKey).Decode(frames)
		if err != nil {
			t.Fatal(err)
		}
		if back.Parent.ID != "1" || back.Header.Type != "execute_reply" || string(back.Content) != `{"status":"ok"}` {
			t.Errorf("%+v", back)
		}
	})

	t.Run("rejects a message that was received before", func(t *testing.T) {
		codec := NewCodec(testKey)
		if _, err := codec.Decode(signedVector()); err != nil {
			t.Fatal(err)
		}
		if _, err := codec.Decode(signedVector()); !errors.Is(err, ErrReplay) {
			t.Errorf("second time: got %v, want ErrReplay", err)
		}
	})

	t.Run("bounds the set of seen signatures", func(t *testing.T) {
		codec := NewCodec(testKey)
		var sum [32]byte
		for i := range MaxSignatures + 10 {
			sum[0], sum[1], sum[2] = byte(i), byte(i>>8), byte(i>>16)
			if err := codec.rememberSignature(sum); err != nil {
				t.Fatal(i, err)
			}
		}
		if len(codec.seen) != MaxSignatures || len(codec.signatureRing) != MaxSignatures {
			t.Errorf("got %d and %d remembered signatures", len(codec.seen), len(codec.signatureRing))
		}
		if err := codec.rememberSignature(sum); !errors.Is(err, ErrReplay) {
			t.Errorf("last signature again: got %v, want ErrReplay", err)
		}
		if err := codec.rememberSignature([32]byte{}); err != nil {
			t.Errorf("first signature, which is forgotten: %v", err)
		}
	})

	t.Run("rejects a wrong signature", func(t *testing.T) {
		for name, forge := range map[string]func([][]byte) [][]byte{
			"another key":     func(f [][]byte) [][]byte { return signAgain(f, "other") },
			"no signature":    func(f [][]byte) [][]byte { f[2] = nil; return f },
			"half of one":     func(f [][]byte) [][]byte { f[2] = f[2][:32]; return f },
			"not hexadecimal": func(f [][]byte) [][]byte { f[2] = bytes.Repeat([]byte("z"), 64); return f },
			"changed content": func(f [][]byte) [][]byte { f[6] = []byte(`{"code":"2"}`); return f },
			"changed parent":  func(f [][]byte) [][]byte { f[4] = []byte(`{"msg_id":"x"}`); return f },
		} {
			if _, err := NewCodec(testKey).Decode(forge(signedVector())); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})

	t.Run("names the fault of a malformed message", func(t *testing.T) {
		deep := `{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`
		for name, bad := range map[string]struct {
			change func([][]byte) [][]byte
			says   string
		}{
			"no frames":         {func([][]byte) [][]byte { return nil }, "no delimiter"},
			"no delimiter":      {func(f [][]byte) [][]byte { return f[3:] }, "no delimiter"},
			"cut":               {func(f [][]byte) [][]byte { return f[:6] }, "follow the delimiter"},
			"10 000 frames":     {func(f [][]byte) [][]byte { return append(f, make([][]byte, 10000)...) }, "frames"},
			"many identities":   {func(f [][]byte) [][]byte { return append(make([][]byte, 20), f...) }, "precede"},
			"long identity":     {func(f [][]byte) [][]byte { f[0] = make([]byte, 300); return f }, "identity"},
			"header not JSON":   {func(f [][]byte) [][]byte { f[3] = []byte("x"); return signAgain(f, testKey) }, "header"},
			"header is a list":  {func(f [][]byte) [][]byte { f[3] = []byte("[]"); return signAgain(f, testKey) }, "header"},
			"header of numbers": {func(f [][]byte) [][]byte { f[3] = []byte(`{"msg_id":1}`); return signAgain(f, testKey) }, "header"},
			"empty header":      {func(f [][]byte) [][]byte { f[3] = []byte(`{}`); return signAgain(f, testKey) }, "msg_id"},
			"huge header": {func(f [][]byte) [][]byte {
				f[3] = []byte(`{"msg_id":"` + strings.Repeat("x", MaxHeader) + `"}`)
				return signAgain(f, testKey)
			}, "more than"},
			"parent not JSON": {func(f [][]byte) [][]byte { f[4] = []byte("1"); return signAgain(f, testKey) }, "parent"},
			"metadata":        {func(f [][]byte) [][]byte { f[5] = []byte("null"); return signAgain(f, testKey) }, "metadata"},
			"content":         {func(f [][]byte) [][]byte { f[6] = []byte(`{"a"`); return signAgain(f, testKey) }, "content"},
			"deep content":    {func(f [][]byte) [][]byte { f[6] = []byte(deep); return signAgain(f, testKey) }, "deep"},
			"too large":       {func(f [][]byte) [][]byte { return append(f, make([]byte, MaxBytes)) }, "more than"},
		} {
			if _, err := NewCodec(testKey).Decode(bad.change(signedVector())); err == nil || !strings.Contains(err.Error(), bad.says) {
				t.Errorf("%s: %v, want %q", name, err, bad.says)
			}
		}
	})

	t.Run("does not count brackets in strings as depth", func(t *testing.T) {
		if got := bracketDepth([]byte(`{"[[[\"[[":"[{\\","a":[1]}`)); got != 2 {
			t.Error(got)
		}
	})
}

func TestConnectionFile(t *testing.T) {
	t.Run("reads back what it wrote", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "k.json")
		want := Connection{Transport: "tcp", IP: "127.0.0.1", Shell: 1, IOPub: 2, Stdin: 3, Control: 4, Heartbeat: 5, Key: testKey, Scheme: Scheme}
		if err := want.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		got, err := ReadConnection(path)
		if err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
		if err := want.WriteFile(path); !errors.Is(err, os.ErrExist) {
			t.Errorf("second write: got %v, want an error", err)
		}
		if endpoint := got.Endpoint(got.Stdin); endpoint != "tcp://127.0.0.1:3" {
			t.Error(endpoint)
		}
		got.Transport, got.IP = "ipc", "/run/k"
		if endpoint := got.Endpoint(got.Stdin); endpoint != "ipc:///run/k-3" {
			t.Error(endpoint)
		}
	})

	t.Run("names the fault of a malformed file", func(t *testing.T) {
		good := map[string]any{"shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5, "key": "k"}
		for says, change := range map[string]func(map[string]any){
			"transport":        func(m map[string]any) { m["transport"] = "udp" },
			"ip is empty":      func(m map[string]any) { m["ip"] = "" },
			"iopub_port":       func(m map[string]any) { m["iopub_port"] = 70000 },
			"hb_port":          func(m map[string]any) { delete(m, "hb_port") },
			"key is empty":     func(m map[string]any) { m["key"] = "" },
			"signature_scheme": func(m map[string]any) { m["signature_scheme"] = "hmac-md5" },
			"not a JSON":       func(m map[string]any) { m["shell_port"] = "x" },
		} {
			bad := map[string]any{}
			for name, value := range good {
				bad[name] = value
			}
			change(bad)
			text, _ := json.Marshal(bad)
			if _, err := ParseConnection(text); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", says, err)
			}
		}
		unsigned, _ := json.Marshal(map[string]any{"transport": "ipc", "ip": "/run/k", "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5})
		if _, err := ParseConnection(unsigned); err != nil {
			t.Errorf("ipc without a key: %v", err)
		}
		if _, err := ParseConnection(make([]byte, maxConnectionFile+1)); err == nil {
			t.Error("a huge file was read")
		}
	})
}

func FuzzDecode(f *testing.F) {
	join := func(frames [][]byte) []byte { return bytes.Join(frames, []byte("\n")) }
	f.Add(join(signedVector()))
	f.Add(join(signedVector()[1:7]))
	f.Add([]byte(delimiter + "\n\n{}\n{}\n{}\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		codec := NewCodec("") // without a key, so that the fuzzer reaches the parser
		m, err := codec.Decode(bytes.Split(text, []byte("\n")))
		if err != nil {
			return
		}
		frames, err := codec.Encode(&m)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := codec.Decode(frames); err != nil || again.Header.ID != m.Header.ID || !bytes.Equal(again.Content, m.Content) {
			t.Fatalf("%v\n%+v\n%+v", err, m, again)
		}
	})
}
