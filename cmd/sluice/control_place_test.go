package main

import (
	"net"
	"testing"
)

// TestControlPlace: sockets listen at addresses of this machine, and workers get what others call it.
func TestControlPlace(t *testing.T) {
	own := "127.0.0.1"
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			own = n.IP.String()
		}
	}
	for host, want := range map[string][2]string{
		"127.0.0.1":  {"tcp://127.0.0.1:*", ""},
		own:          {"tcp://" + own + ":*", ""},
		"localhost":  {"tcp://127.0.0.1:*", "localhost"},
		"sched1":     {"tcp://0.0.0.0:*", "sched1"},
		"192.0.2.77": {"tcp://0.0.0.0:*", "192.0.2.77"}, // for documentation only, so nobody's
	} {
		if listen, name := controlPlace(host); listen != want[0] || name != want[1] {
			t.Errorf("%s: listens at %s, is called %q, want %q", host, listen, name, want)
		}
	}
}
