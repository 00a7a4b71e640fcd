//go:build !unix

package ipc_test

import (
	"errors"
	"os"
	"testing"
)

// A duplex combines the two pipe ends of one side.
type duplex struct{ r, w *os.File }

func newDuplex(_ testing.TB, r, w *os.File) *duplex { return &duplex{r, w} }

func (d *duplex) Read(b []byte) (int, error)  { return d.r.Read(b) }
func (d *duplex) Write(b []byte) (int, error) { return d.w.Write(b) }
func (d *duplex) Close() error                { return errors.Join(d.w.Close(), d.r.Close()) }
