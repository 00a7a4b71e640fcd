package run

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestStdinReader(t *testing.T) {
	t.Run("ends where the file ends", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		s := newStdinReader(r)
		defer s.close()
		if _, err := w.WriteString("a\nb"); err != nil {
			t.Fatal(err)
		}
		w.Close()
		in, err := s.next(t.Context(), &session.InputRequest{})
		if err != nil || string(in.Data) != "a\nb" || in.EOF {
			t.Errorf("got %q, %v, %v, want the available data", in.Data, in.EOF, err)
		}
		for range 2 {
			in, err = s.next(t.Context(), &session.InputRequest{Secret: true}) // a secret from a pipe is a line like any other
			if err != nil || len(in.Data) > 0 || !in.EOF {
				t.Errorf("got %q, %v, %v, want the end of the file", in.Data, in.EOF, err)
			}
		}
	})

	t.Run("reports end of file without a file", func(t *testing.T) {
		s := newStdinReader(nil)
		defer s.close()
		if in, err := s.next(t.Context(), &session.InputRequest{}); err != nil || !in.EOF {
			t.Errorf("got %+v, %v, want the end of the file", in, err)
		}
	})

	t.Run("input of an abandoned read goes to the next request", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		s := newStdinReader(r)
		defer s.close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.next(ctx, &session.InputRequest{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the context's error", err)
		}
		if _, err := w.WriteString("late\n"); err != nil {
			t.Fatal(err)
		}
		if in, err := s.next(t.Context(), &session.InputRequest{}); err != nil || string(in.Data) != "late\n" {
			t.Errorf("got %q, %v, want the text typed in between", in.Data, err)
		}
	})
}
