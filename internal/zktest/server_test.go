package zktest

import (
	"net"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// TestServer: a server serves, is silent while it is paused, and serves again after it was killed.
func TestServer(t *testing.T) {
	s := Start(t)
	if got := s.ask("ruok"); got != "imok" {
		t.Fatalf("ruok: %q", got)
	}
	s.Pause(t)
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("ruok")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := conn.Read(make([]byte, 4)); err == nil {
		t.Fatalf("a paused server says %d bytes", n)
	}
	s.Resume(t)
	s.Kill()
	if got := s.ask("ruok"); got != "" {
		t.Fatalf("a killed server says %q", got)
	}
	s.Restart(t)
	if got := s.ask("ruok"); got != "imok" {
		t.Fatalf("ruok after a restart: %q", got)
	}
}

// TestProxy: what is sent passes, is held back, is lost, and breaks.
func TestProxy(t *testing.T) {
	p := NewProxy(t, Shared(t))
	through := &Server{port: p.port()}
	want := func(when, answer string) {
		t.Helper()
		if got := through.ask("ruok"); got != answer {
			t.Errorf("%s: %q, want %q", when, got, answer)
		}
	}
	want("whole", "imok")
	p.Cut()
	want("cut", "")
	p.Heal()
	want("healed", "imok")
	p.Freeze()
	want("frozen", "")
	p.Heal()
	want("healed", "imok")
	p.DropAnswers()
	want("without answers", "")
	p.Heal()
	p.Delay(50 * time.Millisecond)
	began := time.Now()
	want("slow", "imok")
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("slow: %s", took)
	}
}

// TestEnsemble: one member leads; another one does when that was killed; none serves alone; a member that is cut off from
// its leader joins again.
func TestEnsemble(t *testing.T) {
	e := StartEnsemble(t)
	first, followers := e.Whole(t)
	e.Members[first].Kill()
	second, rest := e.Leader(t)
	if second == first || len(rest) != 1 {
		t.Fatalf("%d leads %v after the death of %d, which led %v", second, rest, first, followers)
	}
	e.Members[rest[0]].Kill()
	for deadline := time.Now().Add(settle); e.Members[second].serves(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("one of three members serves alone")
		}
	}
	for _, s := range []*Server{e.Members[first], e.Members[rest[0]]} {
		if err := s.begin(); err != nil {
			t.Fatal(err)
		}
	}
	leader, followers := e.Whole(t)
	lag := e.Lag(followers[0], leader)
	for deadline := time.Now().Add(settle); ; time.Sleep(10 * time.Millisecond) {
		if _, follows := e.Members[followers[0]].leads(); !follows {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a member that hears nothing of its leader serves on")
		}
	}
	lag.Heal()
	e.Whole(t)
}
