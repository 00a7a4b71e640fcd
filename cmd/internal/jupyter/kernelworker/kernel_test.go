package kernelworker

import (
	"os"
	"slices"
	"testing"
)

// Two kernels that start at the same time do not get the same port, although neither listens yet.
func TestFreePorts(t *testing.T) {
	first := 20000 + os.Getpid()%1000*11 // other programs may run the same test
	last := first + 10
	one, reservations, err := freePorts(5, first, last)
	if err != nil {
		t.Fatal(err)
	}
	two, others, err := freePorts(5, first, last)
	if err != nil {
		t.Fatal(err)
	}
	if all := slices.Compact(slices.Sorted(slices.Values(append(one, two...)))); len(all) != 10 {
		t.Errorf("got %v and %v, which have ports in common", one, two)
	}
	if three, _, err := freePorts(1, first, last); err == nil {
		t.Errorf("got %v, which is reserved", three)
	}
	for _, h := range append(reservations, others...) {
		h.Close()
	}
	_, reservations, err = freePorts(5, first, last)
	if err != nil {
		t.Error("released ports:", err)
	}
	for _, h := range reservations {
		h.Close()
	}
}
