package detect

import (
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
)

// recorded is the MasterInfo of a master of version 1.12.0.
const recorded = `{"id":"86578c01-9768-4e78-8d80-23d2bc8b1e16","ip":16777343,"port":5050,"pid":"master@127.0.0.1:5050",
"hostname":"localhost","version":"1.12.0","address":{"hostname":"localhost","ip":"127.0.0.1","port":5050},
"capabilities":[{"type":"AGENT_UPDATE"},{"type":"AGENT_DRAINING"},{"type":"QUOTA_V2"}]}`

func TestParseJSON(t *testing.T) {
	for _, c := range []struct{ name, data, addr, host string }{
		{"recorded", recorded, "127.0.0.1:5050", "localhost:5050"},
		{"without address", `{"id":"x","ip":16777343,"port":5051,"hostname":"m1"}`, "127.0.0.1:5051", "m1:5051"},
		{"pid", `{"id":"x","ip":0,"port":5051,"pid":"master@[::1]:5051","hostname":"m1"}`, "[::1]:5051", "m1:5051"},
		{"no port", `{"id":"x","ip":33554442}`, "10.0.0.2:5050", "10.0.0.2:5050"},
		{"hostname only", `{"id":"x","hostname":"m1"}`, "m1:5050", "m1:5050"},
		{"address counts", `{"ip":33554442,"port":1,"hostname":"old","address":{"hostname":"new","ip":"10.0.0.9","port":7}}`, "10.0.0.9:7", "new:7"},
	} {
		m, err := parse("json.info_0000000001", []byte(c.data))
		if err != nil || m.Addr() != c.addr || m.HostAddr() != c.host || !m.Known() {
			t.Errorf("%s: %+v, %s %s, error %v; want %s %s", c.name, m, m.Addr(), m.HostAddr(), err, c.addr, c.host)
		}
	}
	m, err := parse("json.info_0000000001", []byte(recorded))
	want := Master{"86578c01-9768-4e78-8d80-23d2bc8b1e16", "1.12.0", "localhost", "127.0.0.1", 5050}
	if err != nil || m != want {
		t.Errorf("%+v, error %v, want %+v", m, err, want)
	}
}

// TestParseProtobuf reads what another implementation writes.
func TestParseProtobuf(t *testing.T) {
	text := func(s string) *string { return &s }
	port := int32(5052)
	number := uint32(5051)
	mi := mesos.MasterInfo{ID: "m", IP: 33554442, Port: &number, PID: text("master@10.0.0.2:5051"), Hostname: text("m2"), Version: text("0.22.1")}
	data, err := mi.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	m, err := parse("info_0000000001", data)
	if want := (Master{"m", "0.22.1", "m2", "10.0.0.2", 5051}); err != nil || m != want {
		t.Errorf("%+v, error %v, want %+v", m, err, want)
	}
	mi.Address = &mesos.Address{Hostname: text("m3"), IP: text("10.0.0.3"), Port: port}
	if data, err = mi.Marshal(); err != nil {
		t.Fatal(err)
	}
	want := Master{"m", "0.22.1", "m3", "10.0.0.3", 5052}
	for n := range data {
		// A part is an error or another MasterInfo; it never panics.
		if m, err := parse("info_0000000001", data[:n]); err == nil && m == want {
			t.Errorf("the first %d bytes give all of it", n)
		}
	}
	// What is not known is passed over.
	mi.Capabilities = []mesos.MasterInfo_Capability{{}}
	if data, err = mi.Marshal(); err != nil {
		t.Fatal(err)
	}
	if m, err = parse("info_0000000001", data); err != nil || m != want {
		t.Errorf("%+v, error %v, want %+v", m, err, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ node, data, want string }{
		{"json.info_0000000001", "", "no MasterInfo"},
		{"json.info_0000000001", "master@127.0.0.1:5050", "no MasterInfo"},
		{"json.info_0000000001", "{}", "no address"},
		{"json.info_0000000001", `{"hostname":"x","port":70000}`, "port"},
		{"json.info_0000000001", `{"hostname":"x","address":{"port":-1}}`, "port"},
		{"json.info_0000000001", `{"address":{"ip":"localhost"}}`, "no IP"},
		{"info_0000000001", "", "no address"},
		{"info_0000000001", "\xff", "no MasterInfo"},
		{"info_0000000001", "\x3a\x05\x0a", "no MasterInfo"},
		{"info_0000000001", recorded, "no MasterInfo"},
	} {
		if m, err := parse(c.node, []byte(c.data)); err == nil || !strings.Contains(err.Error(), c.want) || m.Known() {
			t.Errorf("%s %q: %+v, error %v, want %q", c.node, c.data, m, err, c.want)
		}
	}
}

func TestLowest(t *testing.T) {
	for want, names := range map[string]string{
		"":                     "log_replicas json.info_ info_x 0000000001 json.info_99999999999",
		"json.info_0000000002": "log_replicas json.info_0000000010 json.info_0000000002 info_0000000003",
		"info_0000000009":      "json.info_0000000010 info_0000000009",
	} {
		if got := lowest(strings.Fields(names)); got != want {
			t.Errorf("%s: %q, want %q", names, got, want)
		}
	}
}
