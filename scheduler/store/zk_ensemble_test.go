package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/zktest"
	"sluice/scheduler/store"
	"sluice/scheduler/store/storetest"
)

// TestEnsemble has the store in three servers that agree, of which some die, stand still or fall behind.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	e := zktest.StartEnsemble(t)
	t.Run("contract", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) string { return "zk://" + strings.Join(e.Addrs(), ",") + freshRoot() }, open)
	})
	for _, test := range []struct {
		name string
		run  func(*ensembleBed)
	}{
		{"its-leader-dies", leaderServerDies},
		{"no-quorum", noQuorum},
		{"a-member-lags", memberLags},
		{"its-leader-was-deposed", leaderServerDeposed},
		{"fencing", fencedOnEnsemble},
	} {
		t.Run(test.name, func(t *testing.T) {
			leader, followers := e.Whole(t)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			test.run(&ensembleBed{bed: bed{T: t, ctx: ctx}, e: e, root: freshRoot(), leader: leader, followers: followers})
		})
	}
	t.Run("frozen", func(t *testing.T) {
		storetest.Frozen(t, "zk://"+strings.Join(e.Addrs(), ",")+freshRoot(), open)
	})
}

// ensembleBed is an ensemble that is whole when a test begins.
type ensembleBed struct {
	bed
	e         *zktest.Ensemble
	root      string
	leader    int // number of the leading server
	followers []int
}

// through opens the store by way of some members only.
func (b *ensembleBed) through(session time.Duration, members ...int) store.Store {
	b.Helper()
	var addrs []string
	for _, i := range members {
		addrs = append(addrs, b.e.Members[i].Addr())
	}
	b.session = session
	return b.open(b.root, addrs...)
}

func (b *ensembleBed) all() []int { return append([]int{b.leader}, b.followers...) }

// counting adds one to a value again and again, as the leader, until it is told to end or cannot lead any more. It
// returns the last number that was acknowledged, which counted has meanwhile.
func (b *ensembleBed) counting(l store.Leadership, stop <-chan struct{}, counted *atomic.Int64) (last int, err error) {
	var version int64
	for {
		select {
		case <-stop:
			return last, nil
		default:
		}
		if version, err = l.Store().Put(b.ctx, "counter", []byte(strconv.Itoa(last+1)), version); err != nil {
			return last, err
		}
		last++
		counted.Store(int64(last))
	}
}

// leaderServerDies: the leading server is killed twice while a leader writes. The leader goes on, or knows that it is
// none any more before another one leads; nothing that was acknowledged is lost.
func leaderServerDies(b *ensembleBed) {
	writer, standby := b.through(testSession, b.all()...), b.through(testSession, b.all()...)
	l := b.lead(writer, "writer")
	took := make(chan store.Leadership, 1)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	go func() {
		defer close(took)
		if other, err := standby.Lead(ctx, []byte("standby")); err == nil {
			select {
			case <-l.Lost():
			default:
				b.Error("two lead")
			}
			took <- other
		}
	}()
	type outcome struct {
		last int
		err  error
	}
	stop, ended := make(chan struct{}), make(chan outcome, 1)
	var counted atomic.Int64
	go func() {
		last, err := b.counting(l, stop, &counted)
		ended <- outcome{last, err}
	}()
	// goesOn waits until more is acknowledged, or the leader has stopped.
	goesOn := func() {
		for last := counted.Load(); counted.Load() < last+10 && len(ended) == 0; time.Sleep(time.Millisecond) {
			if b.ctx.Err() != nil {
				b.Fatal("nothing is acknowledged any more")
			}
		}
	}
	for range 2 {
		goesOn()
		leader, _ := b.e.Leader(b)
		b.e.Members[leader].Kill()
		b.e.Leader(b)
		goesOn()
		b.e.Members[leader].Restart(b)
	}
	close(stop)
	o := <-ended
	now := l.Store()
	if o.err != nil {
		b.Logf("the leader has stopped: %v", o.err)
		other := <-took
		if other == nil || other.Term() <= l.Term() {
			b.Fatalf("nobody leads after the leader stopped: %v", o.err)
		}
		now = other.Store()
	}
	value, version, err := now.Get(b.ctx, "counter")
	got, _ := strconv.Atoi(string(value))
	if err != nil || got < o.last || got > o.last+1 || o.last < 10 {
		b.Fatalf("the counter is %q, error %v, and %d was acknowledged", value, err, o.last)
	}
	b.put(now, "counter", "done", version)
	cancel()
	<-took
}

// noQuorum: with one server of three nobody leads and nothing is stored. When the others are back all that was
// acknowledged is there.
func noQuorum(b *ensembleBed) {
	s, other := b.through(testSession, b.all()...), b.through(testSession, b.all()...)
	l := b.lead(s, "first")
	v := b.put(l.Store(), "x", "1", 0)
	for _, i := range b.followers {
		b.e.Members[i].Kill()
	}
	select {
	case <-l.Lost():
	case <-time.After(time.Minute):
		b.Fatal("the leader does not stop")
	}
	short, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
	defer cancel()
	_, put := other.Put(short, "x", []byte("2"), v)
	_, _, get := other.Get(short, "x")
	_, lead := other.Lead(short, nil)
	for what, err := range map[string]error{"Put": put, "Get": get, "Lead": lead} {
		if !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("%s without a quorum: %v", what, err)
		}
	}
	for _, i := range b.followers {
		b.e.Members[i].Restart(b)
	}
	again := b.lead(other, "second")
	if again.Term() <= l.Term() {
		b.Errorf("term %d after %d", again.Term(), l.Term())
	}
	// What had no answer was stored, or was not.
	value, now, err := again.Store().Get(b.ctx, "x")
	if err != nil || (string(value) != "1" || now != v) && (string(value) != "2" || now <= v) {
		b.Fatalf("%q version %d after version %d, error %v", value, now, v, err)
	}
	if _, err := store.Careless(l).Put(b.ctx, "x", []byte("late"), now); !errors.Is(err, store.ErrNotLeader) {
		b.Errorf("the first leader writes: %v", err)
	}
	b.put(again.Store(), "x", "3", now)
}

// memberLags: what is read through a server that has fallen behind is nevertheless what was stored last.
func memberLags(b *ensembleBed) {
	behind, beside := b.through(testSession, b.followers[0]), b.through(testSession, b.leader, b.followers[1])
	first := b.lead(beside, "first")
	v := b.put(first.Store(), "x", "old", 0)
	b.wantRead(behind, "old", "first", "x")
	lag := b.e.Lag(b.followers[0], b.leader)
	b.put(first.Store(), "x", "new", v)
	b.put(first.Store(), "y", "new", 0)
	if err := first.Resign(); err != nil {
		b.Fatal(err)
	}
	second := b.lead(beside, "second")
	if value, _, err := store.LocalGet(b.ctx, behind, "x"); err != nil || string(value) != "old" {
		b.Fatalf("the server is not behind: %q, error %v", value, err)
	}
	led := make(chan store.Leadership, 1)
	go func() {
		defer close(led)
		if l, err := behind.Lead(b.ctx, []byte("third")); err == nil {
			led <- l
		}
	}()
	time.AfterFunc(50*time.Millisecond, lag.Heal)
	b.wantRead(behind, "new", "second", "x", "y")
	select {
	case <-led:
		b.Fatal("two lead")
	case <-time.After(300 * time.Millisecond):
	}
	if err := second.Resign(); err != nil {
		b.Fatal(err)
	}
	if third := <-led; third == nil || third.Term() <= second.Term() {
		b.Errorf("the third leadership is %v", third)
	}
}

// wantRead reads in all ways at the same time.
func (b *ensembleBed) wantRead(s store.Store, value, leader string, names ...string) {
	b.Helper()
	errs := make(chan error, 3)
	go func() {
		got, _, err := s.Get(b.ctx, "x")
		if err == nil && string(got) != value {
			b.Errorf("Get: %q, want %q", got, value)
		}
		errs <- err
	}()
	go func() {
		got, err := s.List(b.ctx, "")
		if err == nil && !slices.Equal(got, names) {
			b.Errorf("List: %q, want %q", got, names)
		}
		errs <- err
	}()
	go func() {
		got, err := s.Leader(b.ctx)
		if err == nil && string(got) != leader {
			b.Errorf("Leader: %q, want %q", got, leader)
		}
		errs <- err
	}()
	for range 3 {
		if err := <-errs; err != nil {
			b.Error(err)
		}
	}
}

// leaderServerDeposed: the leading server stands still, the others elect another one, and it goes on without knowing. It
// would answer what was asked meanwhile from what it has.
func leaderServerDeposed(b *ensembleBed) {
	for range 2 {
		b.leader, b.followers = b.e.Whole(b)
		b.root = freshRoot()
		// The session is longer than the pause, so that the client stays.
		behind, beside := b.through(time.Minute, b.leader), b.through(time.Minute, b.followers...)
		v := b.put(beside, "x", "old", 0)
		for range 3 {
			if value, _, err := behind.Get(b.ctx, "x"); err != nil || string(value) != "old" {
				b.Fatalf("%q, error %v", value, err)
			}
		}
		b.e.Members[b.leader].Pause(b)
		b.e.Leader(b)
		b.put(beside, "x", "new", v)
		waiting := unread(b.T, b.e.Members[b.leader].Addr())
		read := make(chan string, 4)
		for range cap(read) {
			go func() {
				value, _, err := behind.Get(b.ctx, "x")
				if err != nil {
					b.Error(err)
				}
				read <- string(value)
			}()
		}
		for end := time.Now().Add(20 * time.Second); unread(b.T, b.e.Members[b.leader].Addr()) == waiting; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				b.Fatal("no question waits at the server")
			}
		}
		time.Sleep(50 * time.Millisecond) // the others may come too
		b.e.Members[b.leader].Resume(b)
		for range cap(read) {
			if value := <-read; value != "new" {
				b.Errorf("read %q from a server that leads no longer", value)
			}
		}
	}
}

// unread is how many bytes wait in the connections of a server until it reads them.
func unread(t *testing.T, addr string) (bytes int64) {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		// Its number, the addresses of this and of the other end, the state (1: connected), and the queues to write and to read.
		f := strings.Fields(line)
		if len(f) < 5 || !strings.HasSuffix(f[1], fmt.Sprintf(":%04X", number)) || f[3] != "01" {
			continue
		}
		_, queue, _ := strings.Cut(f[4], ":")
		n, err := strconv.ParseInt(queue, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		bytes += n
	}
	return bytes
}

// fencedOnEnsemble: a leader whose server stands still stops before another one leads, and is refused when it goes on.
func fencedOnEnsemble(b *ensembleBed) {
	behind, beside := b.through(testSession, b.leader), b.through(testSession, b.followers...)
	first := b.lead(behind, "behind")
	v := b.put(first.Store(), "x", "1", 0)
	b.e.Members[b.leader].Pause(b)
	second := b.lead(beside, "beside")
	select {
	case <-first.Lost():
	default:
		b.Error("two lead")
	}
	b.e.Members[b.leader].Resume(b)
	for _, version := range []int64{v, 0} {
		if _, err := store.Careless(first).Put(b.ctx, "x", []byte("late"), version); !errors.Is(err, store.ErrNotLeader) {
			b.Errorf("version %d: %v", version, err)
		}
	}
	if err := store.Careless(first).Delete(b.ctx, "x", v); !errors.Is(err, store.ErrNotLeader) {
		b.Errorf("removal: %v", err)
	}
	if value, version, err := beside.Get(b.ctx, "x"); err != nil || string(value) != "1" || version != v {
		b.Errorf("%q version %d, error %v", value, version, err)
	}
	b.wantHeld(second)
	b.put(second.Store(), "x", "2", v)
}
