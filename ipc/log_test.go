package ipc_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// fillValue gives every field a value: a secret where possible.
func fillValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillValue(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("hunter2"))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(v.Index(0))
	case reflect.String:
		v.SetString("hunter2")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64, reflect.Uint8:
		v.SetUint(197)
	case reflect.Int64:
		v.SetInt(197)
	case reflect.Float64:
		v.SetFloat(197)
	}
}

func TestFrameLog(t *testing.T) {
	t.Run("contain numbers and sizes, never the contents of a message", func(t *testing.T) {
		for _, m := range everyMessage() {
			whole := reflect.New(reflect.TypeOf(m)).Elem()
			fillValue(whole)
			text := fmt.Sprint(ipc.LogAttrs(whole.Interface().(ipc.Message)))
			if strings.Contains(text, "hunter2") {
				t.Errorf("%s: %s", m.Type(), text)
			}
			if m.Type() != "sigint" && text == "[]" { // its only field is an enumeration
				t.Errorf("%s: nothing is logged", m.Type())
			}
		}
		for _, m := range []ipc.Message{ipc.TurnInput{Turn: 1, Wait: 2, Input: []byte("hunter2")}, ipc.InputLine{Turn: 1, Text: "hunter2"}} {
			if text := fmt.Sprint(ipc.LogAttrs(m)); strings.Contains(text, "bytes") || !strings.Contains(text, "turn=1") {
				t.Errorf("%s reveals the length of a possible secret: %s", m.Type(), text)
			}
		}
		got := fmt.Sprint(ipc.LogAttrs(ipc.Idle{Turn: 0, Prompt: ">>> ", Outcome: ipc.OutcomeError, Error: &ipc.RuntimeError{Name: "E"}, Mark: 3}))
		if want := "[turn=0 prompt_bytes=4 outcome=error error.name_bytes=1 error.message_bytes=0 mark=3]"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})

	t.Run("logs every frame once", func(t *testing.T) {
		idle, start := ipc.Idle{Turn: 1, Outcome: ipc.OutcomeOK}, ipc.TurnStart{Turn: 1, Input: []byte("1+1")}
		for level, want := range map[slog.Level]string{
			slog.LevelInfo: "",
			slog.LevelDebug: fmt.Sprintf("level=DEBUG msg=frame frame=turn_start from=supervisor bytes=%d turn=1 input_bytes=3\n"+
				"level=DEBUG msg=frame frame=idle from=worker bytes=%d turn=1 prompt_bytes=0 outcome=ok\n",
				len(mustEncodeFrames(t, start)), len(mustEncodeFrames(t, idle))),
		} {
			c := ipc.NewConn(readOnlyChannel{bytes.NewReader(mustEncodeFrames(t, idle))}, ipc.FromWorker)
			var got strings.Builder
			c.LogTo(slog.New(slog.NewTextHandler(&got, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime})))
			if err := c.Send(start); err != nil {
				t.Fatal(err)
			}
			if err := c.Send(idle); err == nil { // refused, so there is no frame
				t.Fatal("a message for the other direction was sent")
			}
			for range 2 {
				if _, err := c.Receive(); err != nil && err != io.EOF {
					t.Fatal(err)
				}
			}
			c.Close()
			if got.String() != want {
				t.Errorf("got  %q\nwant %q", got.String(), want)
			}
		}
	})
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
