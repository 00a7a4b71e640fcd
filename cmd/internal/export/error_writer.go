package export

import "io"

// errWriter remembers the first error, and writes nothing after it.
type errWriter struct {
	w   io.Writer
	err error
}

func (w *errWriter) print(s string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, s)
	}
}

func (w *errWriter) setError(err error) {
	if w.err == nil {
		w.err = err
	}
}
