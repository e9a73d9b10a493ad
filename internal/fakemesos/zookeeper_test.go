package fakemesos

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
)

// startZooKeeper runs Debian's ZooKeeper on a free port.
func startZooKeeper(t *testing.T) string {
	t.Helper()
	jars, err := filepath.Glob("/usr/share/java/*.jar")
	if err != nil {
		t.Fatal(err)
	}
	java, err := exec.LookPath("java")
	if err != nil || !strings.Contains(strings.Join(jars, " "), "zookeeper.jar") {
		t.Skip("there is no ZooKeeper here")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "zoo.cfg")
	_, port, _ := strings.Cut(addr, ":")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\ntickTime=200\n", dir, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(java, "-Xmx64m", "-cp", "/usr/share/java/*", "org.apache.zookeeper.server.quorum.QuorumPeerMain", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
		conn, _, err := zk.Connect([]string{addr}, time.Second, zk.WithLogInfo(false), zk.WithLogger(quiet{}))
		if err != nil {
			continue
		}
		_, _, err = conn.Children("/")
		conn.Close()
		if err == nil {
			return addr
		}
	}
	t.Fatal("ZooKeeper does not answer")
	return ""
}

// quiet drops what the client logs while the server starts.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// TestAnnounce finds the leader in a real ZooKeeper, before and after a fail-over.
func TestAnnounce(t *testing.T) {
	addr := startZooKeeper(t)
	c := New(t, Options{Masters: 2})
	if err := c.Announce([]string{addr}, "/a/mesos"); err != nil {
		t.Fatal(err)
	}
	conn, _, err := zk.Connect([]string{addr}, 5*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got, want := leaderIn(t, conn), c.Endpoints()[0]; got != want {
		t.Errorf("the leader is %s, want %s", got, want)
	}
	c.FailOver()
	for limit := time.Now().Add(5 * time.Second); leaderIn(t, conn) != c.Endpoints()[1]; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the second master never leads")
		}
	}
	if got, want := c.Endpoint(), c.Endpoints()[1]; got != want {
		t.Errorf("%s leads, want %s", got, want)
	}
}

// leaderIn is the address in the node with the lowest number.
func leaderIn(t *testing.T, conn *zk.Conn) string {
	t.Helper()
	nodes, _, err := conn.Children("/a/mesos")
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(nodes)
	if len(nodes) == 0 || !strings.HasPrefix(nodes[0], "json.info_") {
		return ""
	}
	raw, _, err := conn.Get("/a/mesos/" + nodes[0])
	if err == zk.ErrNoNode {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	var info struct {
		Address struct {
			IP   string
			Port int
		}
	}
	if err := json.Unmarshal(raw, &info); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", info.Address.IP, info.Address.Port)
}
