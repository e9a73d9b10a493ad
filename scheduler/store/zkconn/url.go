package zkconn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// defaultPort is ZooKeeper's.
const defaultPort = "2181"

// Place is where something is in ZooKeeper.
type Place struct {
	Hosts []string // host:port
	Auth  string   // user:password; empty if there is none
	Path  string   // /name or /name/name and so on
}

// ParseURL reads zk://[user:password@]host[:port],host[:port].../path, as Mesos writes it.
func ParseURL(url string) (Place, error) {
	var p Place
	rest, ok := strings.CutPrefix(url, "zk://")
	if !ok {
		return p, errors.New("a place in ZooKeeper is written zk://host:port,host:port/path")
	}
	// A password may hold "/" and "@", a path and hosts hold no "@".
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		p.Auth, rest = rest[:at], rest[at+1:]
		if user, _, ok := strings.Cut(p.Auth, ":"); !ok || user == "" {
			return Place{}, errors.New("what stands before @ in a place in ZooKeeper is user:password")
		}
	}
	hosts, path, ok := strings.Cut(rest, "/")
	p.Path = "/" + strings.Trim(path, "/")
	if !ok || p.Path == "/" || strings.Contains(p.Path, "//") {
		return Place{}, fmt.Errorf("the place in ZooKeeper at %s has no path; write zk://%s/NAME", hosts, hosts)
	}
	for _, h := range strings.Split(hosts, ",") {
		host, err := withPort(h)
		if err != nil {
			return Place{}, err
		}
		p.Hosts = append(p.Hosts, host)
	}
	return p, nil
}

func withPort(host string) (string, error) {
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPort)
	}
	name, port, err := net.SplitHostPort(host)
	bad := name == "" || port == "" || strings.Trim(port, "0123456789") != "" || strings.ContainsAny(name, " \t\r\n")
	if strings.Contains(name, ":") {
		_, notIP := netip.ParseAddr(name)
		bad = bad || notIP != nil
	}
	if err != nil || bad {
		return "", fmt.Errorf("%q is no host:port of ZooKeeper", host)
	}
	return host, nil
}
