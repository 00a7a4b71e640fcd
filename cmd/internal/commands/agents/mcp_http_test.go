package agents

import (
	"net"
	"testing"
)

func TestPublicAddress(t *testing.T) {
	w := &httpFlags{hosts: []string{"box"}}
	for address, want := range map[string][2]string{
		"0.0.0.0:0":   {"tcp4", "box:8765"},
		"[::]:0":      {"tcp", "box:8765"},
		"127.0.0.1:0": {"tcp4", "127.0.0.1:8765"},
		"[::1]:0":     {"tcp", "[::1]:8765"},
		"localhost:0": {"tcp", "127.0.0.1:8765"},
	} {
		if got := listenNetwork(address); got != want[0] {
			t.Errorf("%s: listens on %s, want %s", address, got, want[0])
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		if host == "localhost" {
			host = "127.0.0.1"
		}
		if got := w.publicAddress(&net.TCPAddr{IP: net.ParseIP(host), Port: 8765}); got != want[1] {
			t.Errorf("%s: prints %s, want %s", address, got, want[1])
		}
	}
}
