package detect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Names of the nodes of masters, in front of their numbers.
const (
	jsonPrefix     = "json.info_"
	protobufPrefix = "info_"
)

// defaultPort is that of a MasterInfo that names none.
const defaultPort = 5050

// Master is what a master says of itself.
type Master struct {
	ID       string
	Version  string
	Hostname string // as users see it; not always one that can be looked up
	IP       string // empty if it says none
	Port     int
}

// Known says whether there is a master.
func (m Master) Known() bool { return m != Master{} }

// Addr is where the master listens: host:port, by its IP if it says one.
func (m Master) Addr() string {
	host := m.IP
	if host == "" {
		host = m.Hostname
	}
	return net.JoinHostPort(host, strconv.Itoa(m.Port))
}

// HostAddr is hostname:port, which redirects name and certificates are made for.
func (m Master) HostAddr() string {
	host := m.Hostname
	if host == "" {
		host = m.IP
	}
	return net.JoinHostPort(host, strconv.Itoa(m.Port))
}

// info is a MasterInfo. What is not needed here, such as capabilities that later versions may have, is passed over.
type info struct {
	ID       string `json:"id"`
	IP       uint32 `json:"ip"` // IPv4, the first byte lowest
	Port     int64  `json:"port"`
	PID      string `json:"pid"` // master@IP:PORT
	Hostname string `json:"hostname"`
	Version  string `json:"version"`
	Address  struct {
		Hostname string `json:"hostname"`
		IP       string `json:"ip"`
		Port     int64  `json:"port"`
	} `json:"address"`
}

// parse reads the data of a node of that name.
func parse(name string, data []byte) (Master, error) {
	var i info
	var err error
	if strings.HasPrefix(name, jsonPrefix) {
		err = json.Unmarshal(data, &i)
	} else {
		err = i.unmarshal(data)
	}
	if err != nil {
		return Master{}, fmt.Errorf("is no MasterInfo: %w", err)
	}
	return i.master()
}

// master brings together what is said twice: address was added later and counts if it is there.
func (i *info) master() (Master, error) {
	m := Master{ID: i.ID, Version: i.Version, Hostname: i.Hostname, IP: i.Address.IP, Port: int(i.Port)}
	if i.Address.Hostname != "" {
		m.Hostname = i.Address.Hostname
	}
	if i.Address.Port != 0 {
		m.Port = int(i.Address.Port)
	}
	if m.IP == "" {
		m.IP = i.oldIP()
	}
	if m.Port == 0 {
		m.Port = defaultPort
	}
	if _, err := netip.ParseAddr(m.IP); m.IP != "" && err != nil {
		return Master{}, fmt.Errorf("the address %q is no IP", m.IP)
	}
	if m.Port < 0 || m.Port > 65535 {
		return Master{}, fmt.Errorf("the port is %d", m.Port)
	}
	if m.IP == "" && m.Hostname == "" {
		return Master{}, errors.New("there is no address")
	}
	return m, nil
}

// oldIP is the IP of a MasterInfo without an address. Its pid has an IPv6 one too.
func (i *info) oldIP() string {
	if _, at, ok := strings.Cut(i.PID, "@"); ok {
		if a, err := netip.ParseAddrPort(at); err == nil {
			return a.Addr().String()
		}
	}
	if i.IP == 0 {
		return ""
	}
	return netip.AddrFrom4([4]byte{byte(i.IP), byte(i.IP >> 8), byte(i.IP >> 16), byte(i.IP >> 24)}).String()
}

// unmarshal reads a MasterInfo in protobuf.
func (i *info) unmarshal(data []byte) error {
	return fields(data, func(number protowire.Number, n uint64, b []byte) error {
		switch number {
		case 1:
			i.ID = string(b)
		case 2:
			i.IP = uint32(n)
		case 3:
			i.Port = int64(uint32(n))
		case 4:
			i.PID = string(b)
		case 5:
			i.Hostname = string(b)
		case 6:
			i.Version = string(b)
		case 7:
			return fields(b, i.address)
		}
		return nil
	})
}

func (i *info) address(number protowire.Number, n uint64, b []byte) error {
	switch number {
	case 1:
		i.Address.Hostname = string(b)
	case 2:
		i.Address.IP = string(b)
	case 3:
		i.Address.Port = int64(int32(n))
	}
	return nil
}

// fields calls f for each number and each string of a message.
func fields(data []byte, f func(number protowire.Number, n uint64, b []byte) error) error {
	for len(data) > 0 {
		number, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		data = data[size:]
		var n uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(data)
		default:
			size = protowire.ConsumeFieldValue(number, kind, data)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		data = data[size:]
		if err := f(number, n, b); err != nil {
			return err
		}
	}
	return nil
}
