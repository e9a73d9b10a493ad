package mesostest

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/api"
)

// service is a process that runs `sluice scheduler`.
type service struct {
	t    *testing.T
	cmd  *exec.Cmd
	said text
	url  string
	api  *api.Client
	over chan struct{} // closed when the process has ended
}

var listens = regexp.MustCompile(`msg="the API listens" url=(\S+)`)

// scheduler starts a scheduler of the cluster, and waits until it or another one leads.
func (c *cluster) scheduler(args ...string) *service {
	c.t.Helper()
	return c.schedulerOf(program, args...)
}

// schedulerOf is scheduler with another build of the program.
func (c *cluster) schedulerOf(build string, args ...string) *service {
	c.t.Helper()
	s := &service{t: c.t, over: make(chan struct{})}
	s.cmd = exec.Command(build, slices.Concat([]string{"scheduler", "--state-root", c.root, "--listen", "127.0.0.1:0"}, c.args, args)...)
	s.cmd.Stderr = &s.said
	if err := s.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.over)
	}()
	c.t.Cleanup(func() {
		s.end(syscall.SIGKILL)
		if c.t.Failed() {
			c.t.Logf("scheduler %s:\n%s", s.url, s.said.String())
		}
	})
	eventually(c.t, startTime, "the scheduler listens", func() bool {
		m := listens.FindStringSubmatch(s.said.String())
		if m != nil {
			s.url = cmp.Or(c.url, m[1])
		}
		return m != nil || s.ended()
	})
	if s.ended() {
		c.t.Fatal("the scheduler has ended")
	}
	var err error
	if s.api, err = api.NewClient(s.url, "", nil); err != nil {
		c.t.Fatal(err)
	}
	eventually(c.t, startTime, "a scheduler leads", func() bool {
		h := s.health()
		return h.Leader || h.URL != "" && h.URL != s.url
	})
	return s
}

func (s *service) ended() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// end ends the process by a signal and waits until it is gone.
func (s *service) end(signal syscall.Signal) {
	_ = s.cmd.Process.Signal(signal) // it may have ended
	<-s.over
}

// health is how the scheduler says that it is; the zero one if it does not answer.
func (s *service) health() (h api.Health) {
	a, err := http.Get(s.url + api.Prefix + "/health")
	if err != nil {
		return api.Health{}
	}
	defer a.Body.Close()
	if json.NewDecoder(a.Body).Decode(&h) != nil {
		return api.Health{}
	}
	return h
}

// query looks at a query; nil if nobody leads.
func (s *service) query(name string) *api.Query {
	q := &api.Query{}
	if s.api.Do(context.Background(), "GET", "/queries/"+name, nil, q) != nil {
		return nil
	}
	return q
}

// command runs a command of the program as a client of this scheduler.
func (s *service) command(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "SLUICE_SCHEDULER="+s.url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("sluice %q: %v: %s", args, err, out)
	}
	return string(out)
}

// runs waits until a query has all its workers, and all its tasks run on them.
func (s *service) runs(name string) *api.Query {
	s.t.Helper()
	var q *api.Query
	eventually(s.t, startTime, "query "+name+" runs", func() bool {
		q = s.query(name)
		if q != nil && api.Ended(q.State) {
			s.t.Fatalf("query %s: %s %s", name, q.State, q.Error)
		}
		return whole(q)
	})
	return q
}

func whole(q *api.Query) bool {
	return q != nil && q.State == api.Running && len(q.Processes) == q.Workers && len(q.Tasks) > 0 &&
		!slices.ContainsFunc(q.Tasks, func(x api.Task) bool {
			return (x.State != "running" && x.State != "standby") || x.Unprotected
		})
}

// again waits until a query runs whole again on this scheduler after it ran as before, with another term or more
// restarts.
func (s *service) again(name string, limit time.Duration, before *api.Query) *api.Query {
	s.t.Helper()
	var q *api.Query
	eventually(s.t, limit, "query "+name+" runs again", func() bool {
		q = s.query(name)
		return whole(q) && (q.Term > before.Term || q.Restarts > before.Restarts)
	})
	return q
}
