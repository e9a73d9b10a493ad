package main

import (
	"bytes"
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"sluice/internal/zktest"
	"sluice/scheduler/api"
	"sluice/scheduler/store/zkconn"
)

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("within a minute it is not so that %s", what)
		}
	}
}

// printed is what a process prints, to be read while it runs.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// znodes are the sizes of all nodes below a path.
func znodes(t *testing.T, url string) map[string]int {
	t.Helper()
	at, err := zkconn.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := zkconn.Open(at.Hosts, zkconn.Options{Auth: at.Auth})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	sizes := map[string]int{}
	var walk func(path string)
	walk = func(path string) {
		type node struct {
			names []string
			size  int
		}
		n, err := zkconn.Read(ctx, conn, func(z *zk.Conn) (node, error) {
			names, stat, err := z.Children(path)
			if err != nil {
				return node{}, err
			}
			return node{names, int(stat.DataLength)}, nil
		})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		sizes[path] = n.size
		for _, name := range n.names {
			walk(path + "/" + name)
		}
	}
	walk(at.Path)
	return sizes
}

// largeFiles are the sizes of the files of large values.
func largeFiles(t *testing.T, root string) (sizes []int64) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "large"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sizes = append(sizes, info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sizes
}

// TestLargeSpecInZooKeeper: a spec of 3 MB is kept in a file of the state root and not in ZooKeeper, the next scheduler finds
// it, and it goes with its query.
func TestLargeSpecInZooKeeper(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	spec, want := writeFlights(t, dir)
	small, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	padding := strings.Repeat("<!-- "+strings.Repeat("large ", 1000)+"-->\n", 500)
	large := bytes.Replace(small, []byte("</dataflow>"), []byte(padding+"</dataflow>"), 1)
	if err := os.WriteFile(spec, large, 0o600); err != nil || len(large) < 3_000_000 {
		t.Fatalf("%d bytes, error %v", len(large), err)
	}
	url := "zk://sluice:secret@" + zktest.Start(t).Addr() + "/large/spec"
	args := []string{"--cluster", "local:2", "--store", url, "--session", "5s"}
	first := startScheduler(t, root, args...)
	first.submit(spec, nil)
	first.wait("flights", api.Finished)
	check := func(when string, files int) {
		t.Helper()
		sizes := largeFiles(t, root)
		if len(sizes) != files || files > 0 && sizes[0] < 3_000_000 {
			t.Errorf("%s: files of %d bytes, want %d of 3 MB", when, sizes, files)
		}
		for path, size := range znodes(t, url) {
			if size > 100_000 {
				t.Errorf("%s: znode %s has %d bytes", when, path, size)
			}
		}
	}
	check("stored", 1)
	first.kill(syscall.SIGKILL)

	second := startScheduler(t, root, args...)
	second.wait("flights", api.Finished)
	check("with the next scheduler", 1)
	if got, err := os.ReadFile(filepath.Join(dir, "out.csv")); err != nil || string(got) != want {
		t.Errorf("error %v, output:\n%s", err, got)
	}
	if status := second.call("DELETE", "/queries/flights", nil, nil); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	check("forgotten", 0)
}

// TestStoreErrors: what is wrong with a store in ZooKeeper is told with what to do, and ends the scheduler; one that cannot be
// reached is waited for, which is told too. No password is shown.
func TestStoreErrors(t *testing.T) {
	t.Parallel()
	addr := zktest.Start(t).Addr()
	owner := startScheduler(t, t.TempDir(), "--store", "zk://owner:secret1@"+addr+"/owned/store")
	defer owner.kill(syscall.SIGTERM)
	for url, want := range map[string]string{
		"zk://owner:secret2@" + addr + "/owned/store":   "znode /owned/store/term belongs to another user, or the password is another one; name its user:password, or another path",
		"zk://other:secret1@" + addr + "/owned/store":   "belongs to another user",
		"zk://" + addr + "/owned/store":                 "belongs to another user",
		"zk://" + addr + "/owned/store/below":           "znode /owned/store/below belongs to another user",
		"zk://owner:secret1@" + addr:                    "has no path; write zk://" + addr + "/NAME",
		"zk://secret1@" + addr + "/owned/store":         "is user:password",
		"zk://owner:secret1@" + addr + ":x/owned":       "is no host:port of ZooKeeper",
		"zk://owner:secret1@" + addr + "/owned/a store": "is no znode; write /name",
	} {
		cmd := command("scheduler", "--state-root", t.TempDir(), "--listen", "127.0.0.1:0", "--store", url)
		waits := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		text, err := cmd.CombinedOutput()
		waits.Stop()
		if status := cmd.ProcessState.ExitCode(); status != exitUsage || !bytes.Contains(text, []byte("sluice: --store: ")) || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s: error %v: %s\nwant %s", url, err, text, want)
		}
		if bytes.Contains(text, []byte("secret")) {
			t.Errorf("%s: a password is shown: %s", url, text)
		}
	}
	// A path that is not there is created, whoever names it.
	other := startScheduler(t, t.TempDir(), "--store", "zk://"+addr+"/not/there/yet")
	other.kill(syscall.SIGTERM)

	proxy := zktest.NewProxy(t, addr)
	proxy.Cut()
	late := command("scheduler", "--state-root", t.TempDir(), "--listen", "127.0.0.1:0", "--store", "zk://"+proxy.Addr()+"/late", "--session", "1s")
	said := &printed{}
	late.Stderr = said
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is told that ZooKeeper is waited for", func() bool { return strings.Contains(said.String(), "zookeeper: no server serves this client") })
	_ = late.Process.Signal(syscall.SIGTERM)
	err := late.Wait()
	text := said.String()
	if err == nil || !strings.Contains(text, `level=WARN msg="zookeeper: no server serves this client`) ||
		!strings.Contains(text, "sluice: --store: ended before ZooKeeper at "+proxy.Addr()+" could be reached") || strings.Count(text, "\n") > 8 {
		t.Errorf("error %v: %s", err, text)
	}
}

// TestZooKeeperAwayLocally: ZooKeeper cannot be reached for longer than a session while a query runs on worker processes.
// Then one of two schedulers leads, and the output is exact.
func TestZooKeeperAwayLocally(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	spec, want := writeKillQuery(t, dir, "tumbling(1m)", "window_start, k, count(*) AS n, sum(v) AS s, max(v) AS l", "10s")
	proxy := zktest.NewProxy(t, zktest.Start(t).Addr())
	args := []string{"--cluster", "local:2", "--store", "zk://" + proxy.Addr() + "/away", "--session", "2s"}
	first, second := startScheduler(t, root, args...), startScheduler(t, root, args...)
	first.submit(spec, func(sub *api.Submission) {
		sub.Set, sub.Checkpoint = []string{"a.rate=1500", "b.rate=750"}, "200ms"
	})
	was := waitTerm(t, first, 0)
	for _, away := range []func(){proxy.Cut, proxy.Freeze} {
		away()
		time.Sleep(5 * time.Second) // this is how long it is away at least, not a wait for something
		for _, s := range []*testScheduler{first, second} {
			var h api.Health
			eventually(t, "nobody leads without ZooKeeper", func() bool {
				h = api.Health{}
				status, err := s.try("GET", "/health", nil, &h)
				return err == nil && (status != http.StatusOK || !h.Leader)
			})
		}
		proxy.Heal()
		was = waitTerm(t, second, was.Term)
	}
	first.wait("kill", api.Finished)
	compareOutput(t, killOutput(t, dir), want)
	eventually(t, "one leads in the end, and the other one knows it", func() bool {
		var a, b api.Health
		first.call("GET", "/health", nil, &a)
		second.call("GET", "/health", nil, &b)
		return a.Leader != b.Leader && a.URL == b.URL && a.Store == "ok" && b.Store == "ok"
	})
	for _, line := range []string{"this scheduler leads no longer: the store", "zookeeper: no server serves this client", "zookeeper: connected again"} {
		eventually(t, "the log has: "+line, func() bool {
			first.mu.Lock()
			defer first.mu.Unlock()
			return strings.Contains(first.log.String(), line)
		})
	}
}
