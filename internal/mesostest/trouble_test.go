package mesostest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/fakemesos"
	"sluice/scheduler/api"
)

// cannotStart submits a query that no worker can run, and looks at what users are told: that it starts still, how many workers
// have failed, and all of want. It may run later, so that only users end it.
func (c *cluster) cannotStart(s *service, want ...string) {
	c.t.Helper()
	begin := time.Now()
	s.command("submit", copyExample(c.t, "flights/flights.xml"))
	want = append(want, "no worker process can run so far: 5 of them have failed")
	var q *api.Query
	told := func(part string) bool {
		return slices.ContainsFunc(q.Alerts, func(a api.Alert) bool { return strings.Contains(a.Text, part) })
	}
	eventually(c.t, startTime, fmt.Sprintf("users are told %q", want), func() bool {
		q = s.query("flights")
		return q != nil && !slices.ContainsFunc(want, func(part string) bool { return !told(part) })
	})
	c.t.Logf("told after %v: %+v", time.Since(begin).Round(time.Millisecond), q.Alerts)
	if q.State != api.Starting {
		c.t.Errorf("the query is %s, %s", q.State, q.Error)
	}
	if status := s.command("status", "flights"); !strings.Contains(status, "no worker process can run so far") {
		c.t.Errorf("the status does not say so:\n%s", status)
	}
	s.command("cancel", "flights")
	c.quiet()
}

// sandboxSays waits until an executor has written something to its standard error.
func (c *cluster) sandboxSays(part string) {
	c.t.Helper()
	eventually(c.t, startTime, fmt.Sprintf("a sandbox says %q", part), func() bool {
		for _, a := range c.Agents() {
			for _, e := range a.Executors {
				said, err := os.ReadFile(filepath.Join(e.Dir, "stderr"))
				if err == nil && strings.Contains(string(said), part) {
					return true
				}
			}
		}
		return false
	})
}

// script writes an executor that is a script of the shell.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNotFetched: agents cannot reach the address at which the scheduler says that its program is.
func TestNotFetched(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	c := newBareCluster(t, 4, fakemesos.Options{})
	c.url = "http://" + listen
	s := c.scheduler("--cluster", "mesos://"+strings.Join(c.Endpoints(), ","), "--listen", listen, "--advertise", "http://127.0.0.1:1")
	c.cannotStart(s, "could not fetch http://127.0.0.1:1/artifacts/sluice-", "--advertise", "; agent h")
}

// changed is the program with other bytes in it.
func changed(t *testing.T, change func([]byte) []byte) string {
	t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sluice")
	if err := os.WriteFile(path, change(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// forAnotherMachine makes a program one of a machine that is not this one.
func forAnotherMachine(text []byte) []byte {
	const at = 18 // e_machine
	binary.LittleEndian.PutUint16(text[at:], uint16(elf.EM_68K))
	return text
}

// forAnotherCLibrary makes a program ask for a C library that there is not.
func forAnotherCLibrary(text []byte) []byte {
	return bytes.ReplaceAll(text, []byte("\x00GLIBC_2."), []byte("\x00GLIBC_9."))
}

// TestDoesNotRun: agents cannot run the program.
func TestDoesNotRun(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		path    string
		sandbox string // what the sandbox says
		want    []string
	}{
		"another machine": {changed(t, forAnotherMachine), "", []string{"exit status 126", "cannot be executed", "stderr of its sandbox on agent h"}},
		"old C library":   {changed(t, forAnotherCLibrary), "GLIBC_9.", []string{"exit status 1:", "C library there may be older", "stderr of its sandbox on agent h"}},
		"not there":       {"/nonexistent/sluice", "/nonexistent/sluice", []string{"exit status 127", "/nonexistent/sluice is not there"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 4)
			c.cannotStart(c.scheduler("--mesos-executor", x.path), x.want...)
			c.sandboxSays(x.sandbox)
		})
	}
}

// TestNoKeys: the cluster has keys, and agents have none, or others. A worker with others cannot reach the scheduler's
// control stream, as one whose agent cannot reach its port.
func TestNoKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var keys []string
	for _, name := range []string{"keys", "others"} {
		keys = append(keys, filepath.Join(dir, name))
		if text, err := exec.Command(program, "keys", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	for name, x := range map[string]struct {
		path string
		want []string
	}{
		"none":   {filepath.Join(dir, "missing"), []string{filepath.Join(dir, "missing"), "no such file", "--mesos-keys"}},
		"others": {keys[1], []string{"could not connect to the scheduler at tcp://127.0.0.1:", "--mesos-control", "--mesos-keys"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 4)
			c.cannotStart(c.scheduler("--keys", keys[0], "--mesos-keys", x.path, "--mesos-silence", "4s"), x.want...)
			c.sandboxSays(x.want[0])
		})
	}
}

// TestNoState: agents do not have the folder of --state-root, or may not write there.
func TestNoState(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root: agents see another file system")
	}
	for name, x := range map[string]struct {
		mount string
		want  string
	}{
		"not mounted": {`mount -t tmpfs none "$0"`, "no such file or directory"},
		"read-only":   {`mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"`, "read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 4)
			inside := fmt.Sprintf(`exec unshare --mount sh -c '%s && exec "$@"' '%s' '%s' "$@"`, x.mount, c.root, program)
			if err := exec.Command("unshare", "--mount", "sh", "-c", x.mount, c.root).Run(); err != nil {
				t.Skipf("agents cannot see another file system: %v", err)
			}
			c.cannotStart(c.scheduler("--mesos-executor", script(t, inside)), "cannot run the query", x.want, "--state-root", "share")
		})
	}
}

// TestMended: what no agent can run at first runs once that is mended.
func TestMended(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	path := filepath.Join(t.TempDir(), "sluice")
	s := c.scheduler("--mesos-executor", path)
	q := newStream(t, 3, checkpoint)
	q.submit(s)
	begin := time.Now()
	eventually(t, startTime, "five workers have failed", func() bool {
		now := s.query("stream")
		return now != nil && slices.ContainsFunc(now.Alerts, func(a api.Alert) bool {
			return strings.Contains(a.Text, "5 of them have failed") && strings.Contains(a.Text, path+" is not there")
		})
	})
	time.Sleep(time.Second)
	if now := s.query("stream"); now == nil || now.State != api.Starting {
		t.Fatalf("%+v", now)
	}
	if err := os.Symlink(program, path); err != nil {
		t.Fatal(err)
	}
	s.runs("stream")
	t.Logf("runs %v after it was submitted", time.Since(begin).Round(time.Millisecond))
	q.finish(s)
	c.quiet()
}
