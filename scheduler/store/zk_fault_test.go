package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/zktest"
	"sluice/scheduler/store"
	"sluice/scheduler/store/storetest"
)

// bed is a store in ZooKeeper behind a network that fails, and one beside it whose network is good.
type bed struct {
	*testing.T
	ctx     context.Context
	proxy   *zktest.Proxy
	behind  store.Store
	beside  store.Store
	session time.Duration
	large   string // folder for large values; empty if they are kept in znodes
}

func newBed(t *testing.T, addr string, session time.Duration) *bed {
	t.Helper()
	return newLargeBed(t, addr, session, "")
}

func newLargeBed(t *testing.T, addr string, session time.Duration, large string) *bed {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	b := &bed{T: t, ctx: ctx, proxy: zktest.NewProxy(t, addr), session: session, large: large}
	root := freshRoot()
	b.behind, b.beside = b.open(root, b.proxy.Addr()), b.open(root, addr)
	return b
}

func (b *bed) open(root string, addrs ...string) store.Store {
	b.Helper()
	s, err := store.OpenZooKeeper(b.ctx, addrs, root, store.Options{Session: b.session, LargeDir: b.large})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func (b *bed) put(s store.Store, path, value string, version int64) int64 {
	b.Helper()
	v, err := s.Put(b.ctx, path, []byte(value), version)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func (b *bed) want(path, value string, version int64) {
	b.Helper()
	got, v, err := b.beside.Get(b.ctx, path)
	if err != nil || string(got) != value || v != version {
		b.Fatalf("%s: %.40q version %d error %v, want %.40q version %d", path, got, v, err, value, version)
	}
}

func (b *bed) lead(s store.Store, about string) store.Leadership {
	b.Helper()
	l, err := s.Lead(b.ctx, []byte(about))
	if err != nil {
		b.Fatal(err)
	}
	return l
}

func (b *bed) wantHeld(l store.Leadership) {
	b.Helper()
	select {
	case <-l.Lost():
		b.Fatal("the leadership is lost")
	default:
	}
}

// losing does something of which the answer to the nth request of a kind is lost.
func (b *bed) losing(kind int32, nth int, do func()) {
	b.Helper()
	lost := b.proxy.LoseAnswer(kind, nth)
	do()
	select {
	case <-lost:
	default:
		b.Fatalf("there was no request %d of kind %d", nth, kind)
	}
}

// TestLostAnswers: what happened though nobody said so is found out, and not done twice.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), testSession)
	large := strings.Repeat("large", 200<<10)
	b.put(b.beside, "a/x", "there", 0)
	var version int64
	// A large value is written in three requests and named in the fourth; what it replaces goes with two more.
	for _, x := range []struct {
		value string
		nth   int
	}{{"new", 1}, {"changed", 1}, {large, 1}, {large + "2", 4}, {large + "3", 6}, {"", 1}} {
		b.losing(zktest.Multi, x.nth, func() {
			before := version
			if version = b.put(b.behind, "a/b", x.value, version); version <= before {
				t.Errorf("version %d after %d", version, before)
			}
		})
		b.want("a/b", x.value, version)
	}
	b.wantLarge(0)
	// A removal asks for what was stored last, and then removes.
	for nth := 1; nth <= 2; nth++ {
		b.losing(zktest.Multi, nth, func() {
			if err := b.behind.Delete(b.ctx, "a/b", version); err != nil {
				t.Error(err)
			}
		})
		if names, err := b.beside.List(b.ctx, "a"); err != nil || len(names) != 1 {
			t.Fatalf("after a removal there are %q, error %v", names, err)
		}
		version = b.put(b.beside, "a/b", "again", 0)
	}
	// Parents are created by requests of their own.
	b.losing(zktest.Multi, 1, func() { version = b.put(b.behind, "deep/a/b", "1", 0) })
	b.want("deep/a/b", "1", version)
}

// TestLostAnswersOfLeaders: a term that has begun is not begun again.
func TestLostAnswersOfLeaders(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), testSession)
	var l store.Leadership
	b.losing(zktest.Create, 1, func() { l = b.lead(b.behind, "behind") })
	b.wantHeld(l)
	if names, err := store.Candidates(b.ctx, b.beside); err != nil || len(names) != 1 {
		t.Fatalf("candidates %q, error %v, want one", names, err)
	}
	var version int64
	b.losing(zktest.Multi, 1, func() { version = b.put(l.Store(), "led", "1", 0) })
	b.want("led", "1", version)
	b.losing(zktest.Delete, 1, func() {
		if err := l.Resign(); err != nil {
			t.Error(err)
		}
	})
	// A candidate asks who there is, and begins.
	for nth := 1; nth <= 2; nth++ {
		term := l.Term()
		b.losing(zktest.Multi, nth, func() { l = b.lead(b.behind, "behind") })
		if l.Term() != term+1 {
			t.Errorf("term %d after %d", l.Term(), term)
		}
		b.wantHeld(l)
		if err := l.Resign(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLostAnswerAndChange: where somebody else has changed the value meanwhile nobody can know, and an error says so.
func TestLostAnswerAndChange(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), testSession)
	version := b.put(b.behind, "x", "1", 0)
	lost := b.proxy.LoseAnswer(zktest.Multi, 1)
	failed := make(chan error, 1)
	go func() {
		_, err := b.behind.Put(b.ctx, "x", []byte("2"), version)
		failed <- err
	}()
	<-lost
	b.proxy.Cut()
	_, stored, err := b.beside.Get(b.ctx, "x")
	if err != nil || stored <= version {
		t.Fatalf("version %d after %d, error %v", stored, version, err)
	}
	b.put(b.beside, "x", "3", stored)
	b.proxy.Heal()
	if err := <-failed; err == nil || errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), "may have been stored") {
		t.Errorf("%v", err)
	}
}

// TestBrokenConnections: connections break all the time, and a counter counts right.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), testSession)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(20+i*37%80) * time.Millisecond):
				b.proxy.Break()
			}
		}
	}()
	var version int64
	for n := range 60 {
		value, got, err := b.behind.Get(b.ctx, "counter")
		if n > 0 && (err != nil || got != version || string(value) != strconv.Itoa(n)) {
			t.Fatalf("%d: %q version %d, error %v, want version %d", n, value, got, err, version)
		}
		version = b.put(b.behind, "counter", strconv.Itoa(n+1), version)
	}
	close(stop)
	<-done
	b.want("counter", "60", version)
}

// TestSessionLoss: a leader that is cut off knows that it has lost the lead before another one has it, and what it
// writes nevertheless is refused.
func TestSessionLoss(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), testSession)
	first := b.lead(b.behind, "behind")
	version := b.put(first.Store(), "x", "1", 0)
	lost := make(chan time.Time, 1)
	go func() { <-first.Lost(); lost <- time.Now() }()
	b.proxy.Freeze()
	frozen := time.Now()
	second := b.lead(b.beside, "beside")
	led := time.Now()
	at := <-lost
	if !at.Before(led) {
		t.Fatalf("lost %s after the cut, another led after %s", at.Sub(frozen), led.Sub(frozen))
	}
	t.Logf("lost %s after the cut, another led after %s", at.Sub(frozen), led.Sub(frozen))
	if second.Term() <= first.Term() {
		t.Fatalf("term %d after %d", second.Term(), first.Term())
	}
	b.proxy.Heal()
	for name, s := range map[string]store.Store{"careful": first.Store(), "careless": store.Careless(first)} {
		for _, v := range []int64{version, version + 1, 0} {
			if _, err := s.Put(b.ctx, "x", []byte("late"), v); !errors.Is(err, store.ErrNotLeader) {
				t.Errorf("%s, version %d: %v", name, v, err)
			}
		}
		if _, err := s.Put(b.ctx, "new/deep", make([]byte, 1<<20), 0); !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("%s, a large value: %v", name, err)
		}
		if err := s.Delete(b.ctx, "x", version); !errors.Is(err, store.ErrNotLeader) {
			t.Errorf("%s, removal: %v", name, err)
		}
	}
	b.want("x", "1", version)
	b.put(second.Store(), "x", "2", version)

	// The process joins again under a new term.
	if err := second.Resign(); err != nil {
		t.Fatal(err)
	}
	third := b.lead(b.behind, "behind")
	if third.Term() <= second.Term() {
		t.Fatalf("term %d after %d", third.Term(), second.Term())
	}
	b.wantHeld(third)
}

// TestCutLeader: a leader whose connection is cut for a moment goes on.
func TestCutLeader(t *testing.T) {
	t.Parallel()
	// A machine that stands still may end a session, and not several in a row.
	for tries := 1; !cutLeader(t); tries++ {
		if tries == 4 {
			t.Fatal("the leadership is lost each time")
		}
		t.Log("the leadership was lost, for want of time or by mistake")
	}
}

// cutLeader tells whether the leader leads for longer than a session after its connection was cut.
func cutLeader(t *testing.T) bool {
	b := newBed(t, zktest.Shared(t), testSession)
	l := b.lead(b.behind, "behind")
	version := int64(0)
	put := func(value string) bool {
		v, err := l.Store().Put(b.ctx, "x", []byte(value), version)
		if errors.Is(err, store.ErrNotLeader) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		version = v
		return true
	}
	if !put("1") {
		return false
	}
	b.proxy.Break()
	if !put("2") {
		return false
	}
	b.proxy.Delay(30 * time.Millisecond)
	if !put("3") {
		return false
	}
	select {
	case <-l.Lost():
		return false
	case <-time.After(testSession + time.Second/2):
	}
	return put("4")
}

// TestAbandonedCandidate: one who gave up while it was cut off does not keep others from the lead.
func TestAbandonedCandidate(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), testSession)
	for _, fail := range []func(){b.proxy.Cut, b.proxy.Freeze, b.proxy.DropAnswers} {
		fail()
		short, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
		if _, err := b.behind.Lead(short, []byte("behind")); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Lead without a network: %v", err)
		}
		cancel()
		b.proxy.Heal()
		l := b.lead(b.beside, "beside")
		for {
			names, err := store.Candidates(b.ctx, b.beside)
			if err != nil {
				t.Fatal(err)
			}
			if len(names) == 1 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		b.wantHeld(l)
		if err := l.Resign(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFrozenProcess: a leading process that stood still while another took over is refused when it goes on.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	storetest.Frozen(t, "zk://"+zktest.Shared(t)+freshRoot(), open)
}

// TestServerFails: calls wait for a server that is away as long as they may, and find what was stored.
func TestServerFails(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	b := newBed(t, server.Addr(), testSession)
	l := b.lead(b.behind, "behind")
	v := b.put(l.Store(), "x", "1", 0)
	for _, fail := range []struct {
		name string
		away func()
		back func()
	}{
		{"paused", func() { server.Pause(t) }, func() { server.Resume(t) }},
		{"killed", server.Kill, func() { server.Restart(t) }},
	} {
		fail.away()
		short, cancel := context.WithTimeout(b.ctx, 200*time.Millisecond)
		if _, _, err := b.beside.Get(short, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: Get: %v", fail.name, err)
		}
		if _, err := b.beside.Put(short, "x", []byte("0"), v+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: Put: %v", fail.name, err)
		}
		cancel()
		got := make(chan error)
		go func() {
			_, _, err := b.beside.Get(b.ctx, "x")
			got <- err
		}()
		select {
		case <-l.Lost():
		case <-time.After(time.Minute):
			t.Fatalf("%s: the leader does not stop", fail.name)
		}
		fail.back()
		if err := <-got; err != nil {
			t.Fatalf("%s: a Get that waited: %v", fail.name, err)
		}
		b.want("x", "1", v)
		before := l.Term()
		if l = b.lead(b.behind, "behind"); l.Term() <= before {
			t.Fatalf("%s: term %d after %d", fail.name, l.Term(), before)
		}
	}
}

// TestGrantedSession: the lease follows the session that the servers grant, and not the one that was asked for.
func TestGrantedSession(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), time.Hour)
	if got := store.Granted(b.beside); got != "1m0s" {
		t.Fatalf("the session is %s", got)
	}
	for asked, want := range map[time.Duration]string{time.Hour: "asked=1h0m0s granted=1m0s", testSession: ""} {
		var told bytes.Buffer
		s, err := store.OpenZooKeeper(t.Context(), []string{zktest.Shared(t)}, freshRoot(), store.Options{
			Session: asked, Log: slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelWarn})),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if text := told.String(); !strings.Contains(text, want) || want == "" && text != "" {
			t.Errorf("with a session of %v that was asked for the log has %q, want %q", asked, text, want)
		}
	}
}

// TestCredentials: only the user that has created the nodes may use them.
func TestCredentials(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	addr, root := zktest.Shared(t), freshRoot()
	open := func(auth string) (store.Store, error) {
		return store.OpenZooKeeper(ctx, []string{addr}, root, store.Options{Session: testSession, Auth: auth})
	}
	s, err := open("sluice:secret")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Lead(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Store().Put(ctx, "a/b", make([]byte, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	for _, auth := range []string{"", "sluice:wrong", "other:secret"} {
		s, err := open(auth)
		if err == nil {
			_, _, err = s.Get(ctx, "a/b")
			defer s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("%q: %v", auth, err)
		}
	}
	if _, err := open("nobody"); err == nil || !strings.Contains(err.Error(), "user:password") {
		t.Errorf("no password: %v", err)
	}
	again, err := open("sluice:secret")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if value, _, err := again.Get(ctx, "a/b"); err != nil || len(value) != 1<<20 {
		t.Errorf("%d bytes, error %v", len(value), err)
	}
}

// TestRemovedBetween: a znode that was removed and created again while a Put was under way has the version that
// ZooKeeper counts once more, and is found out nevertheless.
func TestRemovedBetween(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), testSession)
	for _, path := range []string{"x", "a/b"} {
		v := b.put(b.behind, path, "1", 0)
		var next int64
		err := store.PutAround(b.ctx, b.behind, path, []byte("wrong"), v, func() {
			if err := b.beside.Delete(b.ctx, path, v); err != nil {
				t.Fatal(err)
			}
			next = b.put(b.beside, path, "2", 0)
		})
		if err == nil {
			t.Errorf("%s: stored over a version that was not named", path)
		}
		b.want(path, "2", next)
		b.put(b.behind, path, "3", next)
	}
}

// TestSpoiltNodes: what others have written to the nodes is an error.
func TestSpoiltNodes(t *testing.T) {
	t.Parallel()
	b := newBed(t, zktest.Shared(t), testSession)
	b.put(b.behind, "x", "1", 0)
	for _, data := range []string{
		"1", "\n", "sluice-value 2 a here 1 00000000\nx", "sluice-value 1 a here 1 00000000\nx", "sluice-value 1 a here 9 00000000\nx",
		"sluice-value 1 a there 1 00000000\n", "sluice-value 1 a nodes 700000 00000000\n", "sluice-value 1 a here -1 00000000\n",
		fmt.Sprintf("sluice-value 1 a here %d 00000000\n", store.MaxValue+1),
	} {
		if err := store.Spoil(b.ctx, b.behind, "x", []byte(data)); err != nil {
			t.Fatal(err)
		}
		if got, _, err := b.behind.Get(b.ctx, "x"); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%q: %q, error %v", data, got, err)
		}
	}
}

// TestOpenZooKeeper: settings that cannot be right are refused.
func TestOpenZooKeeper(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		hosts []string
		root  string
		want  string
	}{
		{nil, "/x", "no host"},
		{[]string{"localhost"}, "/x", "host:port"},
		{[]string{"127.0.0.1:1"}, "x", "no znode"},
		{[]string{"127.0.0.1:1"}, "/", "no znode"},
		{[]string{"127.0.0.1:1"}, "/a//b", "no znode"},
		{[]string{"127.0.0.1:1"}, "/a", "deadline"},
	} {
		if _, err := store.OpenZooKeeper(ctx, c.hosts, c.root, store.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %q: %v, want %q", c.hosts, c.root, err, c.want)
		}
	}
}
