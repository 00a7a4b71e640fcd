package egressipc

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzReceive checks that every packet is a message, an end or an error, and that no descriptor of
// it stays open.
func FuzzReceive(f *testing.F) {
	f.Add([]byte(`{"Do":"ask","ID":1,"To":"198.18.0.2:443","Wait":true}`), uint8(0))
	f.Add([]byte(`{"Do":"connected","ID":1}`), uint8(1))
	f.Add([]byte(`{"Do":"names","ID":-1,"To":"x"}`), uint8(2))
	f.Add([]byte{}, uint8(3))
	f.Add(make([]byte, maxMessageBytes+1), uint8(1))
	f.Fuzz(func(t *testing.T, packet []byte, descriptors uint8) {
		ours, theirs, err := NewPair()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		raw, err := net.FileConn(theirs)
		theirs.Close()
		if err != nil {
			t.Fatal(err)
		}
		// The reading end of a pipe reports EOF once all copies of the writing end are closed.
		in, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		var fds []int
		for range min(descriptors, 8) {
			fds = append(fds, int(out.Fd()))
		}
		var rights []byte
		if len(fds) > 0 {
			rights = unix.UnixRights(fds...)
		}
		if len(packet) > 4*maxMessageBytes {
			packet = packet[:4*maxMessageBytes]
		}
		_, _, err = raw.(*net.UnixConn).WriteMsgUnix(packet, rights, nil)
		raw.Close()
		out.Close()
		if err != nil {
			t.Skip(err)
		}
		_, file, err := ours.Receive()
		if file != nil {
			if err != nil {
				t.Errorf("got a descriptor along with the error %v", err)
			}
			file.Close()
		}
		if err == nil && len(packet) > maxMessageBytes || err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errMalformed) {
			t.Errorf("got %v for %d bytes with %d descriptors", err, len(packet), len(fds))
		}
		if n, err := in.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("got %d, %v: a descriptor stayed open", n, err)
		}
	})
}
