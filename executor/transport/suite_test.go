package transport_test

import (
	"fmt"
	"os"
	"testing"

	"sluice/executor/transport"
	"sluice/executor/transport/transporttest"
)

func TestMain(m *testing.M) {
	transporttest.Main(newTransport)
	stuckMain()
	os.Exit(m.Run())
}

// newTransport makes the transports that tests and their child processes name.
func newTransport(name string) (transport.Transport, error) {
	switch name {
	case "memory":
		return transport.NewMemory(), nil
	case "zmq":
		return transport.NewZMQ(transport.Options{})
	case "tcp":
		return transport.NewTCP(transport.Options{}), nil
	case "zmq-quick":
		return transport.NewZMQ(transport.Options{Heartbeat: quick})
	case "tcp-quick":
		return transport.NewTCP(transport.Options{Heartbeat: quick}), nil
	case "open":
		return transport.Open(transport.Options{})
	case "udp":
		return transport.NewUDP(), nil
	}
	return nil, fmt.Errorf("no transport %q", name)
}

func suite(name, addr string) transporttest.Suite {
	return transporttest.Suite{
		New: func(t testing.TB) transport.Transport {
			tr, err := newTransport(name)
			if err != nil {
				t.Fatal(err)
			}
			return tr
		},
		Addr: func(testing.TB) string { return addr },
	}
}

func TestMemory(t *testing.T) {
	transporttest.Run(t, suite("memory", "memory://*"))
}

func TestZMQTCP(t *testing.T) {
	s := suite("zmq", "tcp://127.0.0.1:*")
	s.Child = &transporttest.Child{Name: "zmq"}
	s.Hostile = hostileZMQ
	transporttest.Run(t, s)
}

func TestZMQIPC(t *testing.T) {
	s := suite("zmq", "")
	s.Addr = func(t testing.TB) string { return "ipc://" + t.TempDir() + "/s" }
	s.Child = &transporttest.Child{Name: "zmq"}
	s.Hostile = hostileZMQ
	transporttest.Run(t, s)
}

func TestTCP(t *testing.T) {
	s := suite("tcp", "plain-tcp://127.0.0.1:*")
	s.Child = &transporttest.Child{Name: "tcp"}
	s.Hostile = hostileTCP
	transporttest.Run(t, s)
}

func TestUDP(t *testing.T) {
	s := suite("udp", "udp://127.0.0.1:*")
	s.Lossy = true
	s.Largest = transport.MaxDatagrams
	s.Child = &transporttest.Child{Name: "udp"}
	s.Hostile = hostileUDP
	transporttest.Run(t, s)
}
