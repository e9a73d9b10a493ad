package local

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answering is a socket whose requests are answered with what they are.
func answering(t *testing.T, dir string) *Socket {
	t.Helper()
	s, err := OpenSocket(dir)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case r := <-s.Requests():
				a := Response{Text: fmt.Sprintf("%s %v", r.Query, r.Status)}
				if r.Set != nil {
					a = Response{Epoch: 7, Text: fmt.Sprintf("%s %+v", r.Query, *r.Set)}
				}
				r.Answer <- a
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() { close(done) })
	return s
}

func TestSocket(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long", 50))} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Ask(dir, Request{Status: true}); !errors.Is(err, ErrNoRun) {
			t.Errorf("error %v", err)
		}
		s := answering(t, dir)
		a, err := Ask(dir, Request{Query: "q", Set: &SetRequest{"f", "condition", "a > \"5\"\n"}})
		if err != nil || a.Epoch != 7 || a.Text != "q {Operator:f Param:condition Value:a > \"5\"\n}" {
			t.Errorf("%+v, error %v", a, err)
		}
		if a, err = Ask(dir, Request{Query: "q", Status: true}); err != nil || a.Text != "q true" {
			t.Errorf("%+v, error %v", a, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := Ask(dir, Request{Status: true}); !errors.Is(err, ErrNoRun) {
			t.Errorf("error %v", err)
		}
	}
}

// TestSocketAfterCrash: a socket that a killed process has left is no hindrance, and nothing else is removed.
func TestSocketAfterCrash(t *testing.T) {
	dir := t.TempDir()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if err := answering(t, dir).Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, socketName), []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSocket(dir); err == nil {
		t.Error("a file has been replaced by a socket")
	}
	if text, err := os.ReadFile(filepath.Join(dir, socketName)); string(text) != "precious" {
		t.Errorf("the file is %q, error %v", text, err)
	}
}

// TestHostileRequests: each bad line is answered, and a client that sends too much is cut off.
func TestHostileRequests(t *testing.T) {
	dir := t.TempDir()
	s := answering(t, dir)
	defer s.Close()
	conn, err := net.Dial("unix", filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, line := range []string{`x`, `{"sett":{}}`, `[]`, `{"set":3}`, `{"status":true`} {
		fmt.Fprintln(conn, line)
		if a, err := answers.ReadString('\n'); err != nil || !strings.Contains(a, "this is no request") {
			t.Errorf("%s: %s, error %v", line, a, err)
		}
	}
	fmt.Fprintln(conn, `{"status":true}`)
	if a, err := answers.ReadString('\n'); err != nil || !strings.Contains(a, "true") {
		t.Errorf("%s, error %v", a, err)
	}
	_, _ = conn.Write(make([]byte, 2*maxRequest)) // it may be cut off on the way
	if a, err := answers.ReadString('\n'); err == nil {
		t.Errorf("an answer to a line that never ends: %s", a)
	}
}

func TestFind(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir := t.TempDir()
	if _, err := Announce("q", dir); err != nil {
		t.Fatal(err)
	}
	if dirs, err := Find("q"); err != nil || len(dirs) != 0 {
		t.Errorf("a run that does not answer is found: %v, error %v", dirs, err)
	}
	withdraw, err := Announce("q", dir)
	if err != nil {
		t.Fatal(err)
	}
	s := answering(t, dir)
	defer s.Close()
	if dirs, err := Find("q"); err != nil || len(dirs) != 1 || dirs[0] != dir {
		t.Errorf("%v, error %v", dirs, err)
	}
	if dirs, err := Find("p"); err != nil || len(dirs) != 0 {
		t.Errorf("another query is found: %v, error %v", dirs, err)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
	if dirs, err := Find("q"); err != nil || len(dirs) != 0 {
		t.Errorf("%v, error %v", dirs, err)
	}
	if err := os.Chmod(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "sluice"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Announce("q", dir); err == nil {
		t.Error("a folder that others may read is used")
	}
}
