package kernelworker

import (
	"os"
	"slices"
	"testing"
)

// Two kernels that start at the same time do not get the same port, though neither listens yet.
func TestFreePorts(t *testing.T) {
	first := 20000 + os.Getpid()%1000*11 // other programs may run the same test
	last := first + 10
	one, held, err := freePorts(5, first, last)
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
		t.Errorf("got %v, which somebody has", three)
	}
	for _, h := range append(held, others...) {
		h.Close()
	}
	_, held, err = freePorts(5, first, last)
	if err != nil {
		t.Error("ports that nobody holds any more:", err)
	}
	for _, h := range held {
		h.Close()
	}
}
