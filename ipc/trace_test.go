package ipc_test

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

// fill gives every field a value: a secret where there is room for one.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("hunter2"))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
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

func TestAttrs_HaveNumbersAndSizesAndNeverWhatAMessageSays(t *testing.T) {
	for _, m := range everyMessage() {
		whole := reflect.New(reflect.TypeOf(m)).Elem()
		fill(whole)
		text := fmt.Sprint(ipc.Attrs(whole.Interface().(ipc.Message)))
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", m.Type(), text)
		}
		if m.Type() != "sigint" && text == "[]" { // its only field has no such value
			t.Errorf("%s: nothing is told", m.Type())
		}
	}
	got := fmt.Sprint(ipc.Attrs(ipc.Idle{Turn: 0, Prompt: ">>> ", Outcome: ipc.OutcomeError, Error: &ipc.RuntimeError{Name: "E"}, Mark: 3}))
	if want := "[turn=0 prompt_bytes=4 outcome=error error.name_bytes=1 error.message_bytes=0 mark=3]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTrace_IsToldOfEveryFrameOnce(t *testing.T) {
	idle, start := ipc.Idle{Turn: 1, Outcome: ipc.OutcomeOK}, ipc.TurnStart{Turn: 1, Input: []byte("1+1")}
	c := ipc.NewConn(oneWay{bytes.NewReader(mustFrames(t, idle))}, ipc.FromWorker)
	defer c.Close()
	var got []string
	c.Trace(func(from ipc.Side, m ipc.Message, bytes int) {
		got = append(got, fmt.Sprint(from, " ", m.Type(), " ", bytes))
	})
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
	want := []string{
		fmt.Sprint("supervisor turn_start ", len(mustFrames(t, start))),
		fmt.Sprint("worker idle ", len(mustFrames(t, idle))),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
