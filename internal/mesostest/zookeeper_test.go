package mesostest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"sluice/internal/zktest"
	"sluice/scheduler/api"
)

// storeSession is the session timeout of schedulers whose ZooKeeper fails, as they are given it.
const storeSession = 2 * time.Second

// store is what a scheduler is told of its store.
func store(addr string) []string {
	return []string{"--store", fmt.Sprintf("zk://%s/sluice", addr), "--session", storeSession.String()}
}

// logged waits for a line of a scheduler's log and tells when it was written.
func (s *service) logged(level, text string) time.Time {
	s.t.Helper()
	line := regexp.MustCompile(`(?m)^time=(\S+) level=` + level + ` msg="` + text)
	var at time.Time
	eventually(s.t, startTime, "the log has: "+text, func() bool {
		all := line.FindAllStringSubmatch(s.said.String(), -1)
		if len(all) == 0 {
			return false
		}
		var err error
		if at, err = time.Parse(time.RFC3339, all[len(all)-1][1]); err != nil {
			s.t.Fatal(err)
		}
		return true
	})
	return at
}

// refuses checks that a scheduler takes no orders, and says why.
func (s *service) refuses() {
	s.t.Helper()
	var e *api.Error
	err := s.api.Do(context.Background(), "DELETE", "/queries/stream", nil, nil)
	if !errors.As(err, &e) || e.Code != api.NoLeader {
		s.t.Errorf("a scheduler that does not lead: %v", err)
	}
}

// trouble is the health of a scheduler that is in no good state.
func (s *service) trouble() (h api.Health) {
	s.t.Helper()
	a, err := http.Get(s.url + api.Prefix + "/health")
	if err == nil {
		err = errors.Join(json.NewDecoder(a.Body).Decode(&h), a.Body.Close())
	}
	if err != nil || a.StatusCode != http.StatusServiceUnavailable {
		s.t.Errorf("health: %+v, error %v", a, err)
	}
	return h
}

// subscriptions is how often frameworks have subscribed.
func (c *cluster) subscriptions() (n int) {
	for _, call := range c.Calls() {
		if call.Call.Type == scheduler.Call_SUBSCRIBE {
			n++
		}
	}
	return n
}

// TestZooKeeperAway: ZooKeeper dies under two schedulers, for longer than their sessions, and comes back. The query
// runs on meanwhile; then one of them leads and has the workers that run.
func TestZooKeeperAway(t *testing.T) {
	t.Parallel()
	calmOnce(t, func() { zooKeeperAway(t) })
}

func zooKeeperAway(t *testing.T) {
	server := zktest.Start(t)
	c := newCluster(t, 4)
	c.args = append(c.args, store(server.Addr())...)
	first, second := c.scheduler(), c.scheduler()
	q := newStream(t, 11, hotStandby)
	q.submit(first, "--checkpoint", "1500ms") // four of these they run on
	was := first.runs("stream")
	eventually(t, startTime, "something is written", func() bool { return q.size() > 0 })
	before, begin, subscribed := c.pids(), time.Now(), c.subscriptions()

	server.Kill()
	first.logged("WARN", "this scheduler leads no longer")
	first.logged("WARN", "zookeeper: no server serves this client")
	size := q.size()
	time.Sleep(2 * storeSession)
	calm(t, begin, q.size() > size, "nothing is written while ZooKeeper is away")
	for _, s := range []*service{first, second} {
		if h := s.trouble(); h.Leader || h.Status != "trouble" || !strings.Contains(h.Store, "has not answered") {
			t.Errorf("without ZooKeeper a scheduler is %+v", h)
		}
		s.refuses()
	}
	if n := c.subscriptions(); n != subscribed {
		t.Errorf("%d subscriptions without a leader", n-subscribed)
	}

	server.Restart(t)
	now := second.again("stream", startTime, was) // by way of whoever leads
	c.undisturbed(begin, before, now)
	eventually(t, startTime, "one leads and the other one knows it", func() bool {
		a, b := first.health(), second.health()
		return a.Leader != b.Leader && a.URL == b.URL && a.Status != "trouble" && b.Status != "trouble"
	})
	for _, s := range []*service{first, second} {
		s.logged("INFO", "zookeeper: connected again")
	}
	q.finish(first)
	c.quiet()
}

// TestZooKeeperServersDie: of three servers the leading one is killed, twice, and one is behind when a scheduler takes over.
// Schedulers go on, and the output is exact.
func TestZooKeeperServersDie(t *testing.T) {
	t.Parallel()
	calmOnce(t, func() { zooKeeperServersDie(t) })
}

func zooKeeperServersDie(t *testing.T) {
	e := zktest.StartEnsemble(t)
	c := newCluster(t, 4)
	// The usual session, in which there is time for an election.
	c.args = append(c.args, "--store", fmt.Sprintf("zk://%s/sluice", strings.Join(e.Addrs(), ",")))
	first, second := c.scheduler(), c.scheduler()
	q := newStream(t, 14, hotStandby)
	q.submit(first, "--checkpoint", "1500ms")
	first.runs("stream")
	before, begin := c.pids(), time.Now()
	for range 2 {
		leader, _ := e.Whole(t)
		e.Members[leader].Kill()
		e.Leader(t)
		time.Sleep(time.Second)
		e.Members[leader].Restart(t)
	}
	now := first.runs("stream") // by way of whoever leads
	calm(t, begin, now.Term == 1, "it took the servers so long to elect another one that the scheduler leads term %d", now.Term)
	c.undisturbed(begin, before, now)

	leader, followers := e.Whole(t)
	lag := e.Lag(followers[0], leader)
	if second.health().Leader {
		first, second = second, first
	}
	first.end(syscall.SIGKILL)
	time.AfterFunc(time.Second/2, lag.Heal)
	c.undisturbed(begin, before, second.again("stream", startTime, now))
	q.finish(second)
	c.quiet()
}

// TestCutOffFromZooKeeper: the leading scheduler is cut off from ZooKeeper and from nothing else. It stops before the
// other one leads, does nothing more, and follows when it can.
func TestCutOffFromZooKeeper(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(p *zktest.Proxy){"broken": (*zktest.Proxy).Cut, "silent": (*zktest.Proxy).Freeze} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calmOnce(t, func() { cutOff(t, name, cut) })
		})
	}
}

func cutOff(t *testing.T, name string, cut func(p *zktest.Proxy)) {
	server := zktest.Shared(t)
	root := fmt.Sprintf("/cut-off-%s-%d", name, time.Now().UnixNano()) // another one each time
	proxy := zktest.NewProxy(t, server)
	c := newCluster(t, 4)
	first := c.scheduler("--store", "zk://"+proxy.Addr()+root, "--session", storeSession.String())
	second := c.scheduler("--store", "zk://"+server+root, "--session", storeSession.String())
	q := newStream(t, 9, hotStandby)
	q.submit(first)
	was := first.runs("stream")
	before, begin := c.pids(), time.Now()

	cut(proxy)
	now := second.again("stream", startTime, was)
	took := time.Since(begin)
	t.Logf("another scheduler has the query after %v", took.Round(time.Millisecond))
	calm(t, begin, took < takeOverTime, "that is more than %v", takeOverTime)
	c.undisturbed(begin, before, now)
	stopped, led := first.logged("WARN", "this scheduler leads no longer"), second.logged("INFO", "this scheduler leads\"")
	if !stopped.Before(led) {
		t.Errorf("the first scheduler stopped at %v, the second one led at %v", stopped, led)
	}
	said, subscribed := strings.Count(first.said.String(), "event="), c.subscriptions()
	first.refuses()
	time.Sleep(storeSession)
	if n := strings.Count(first.said.String(), "event="); n != said {
		t.Errorf("the first scheduler has done %d things since", n-said)
	}
	if n := c.subscriptions(); n != subscribed {
		t.Errorf("%d subscriptions since the second scheduler leads", n-subscribed)
	}

	proxy.Heal()
	eventually(t, startTime, "the first scheduler follows", func() bool {
		h := first.health()
		return h.Status == "standby" && h.URL == second.url
	})
	first.logged("WARN", "zookeeper: the session has expired")
	if q := first.query("stream"); q == nil || q.Term != now.Term {
		t.Errorf("the first scheduler sends to another one than the second: %+v", q)
	}
	q.finish(first)
	c.quiet()
}
