package mesostest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/fakemesos"
	"sluice/scheduler/api"
)

// copyExample copies an example, so that it writes a file beside its spec.
func copyExample(t *testing.T, name string) (spec string) {
	t.Helper()
	from, to := filepath.Join("..", "..", "examples"), t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	spec = filepath.Join(to, name)
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`<param name="path" value="-"/>`), nil, 1) // standard output, as is usual
	text = bytes.Replace(text, []byte(`type="writer">`), []byte(`type="writer"><param name="path" value="out.csv"/>`), 1)
	if err := os.WriteFile(spec, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestExamples runs the examples with executors that agents fetch from the scheduler, and that masters of a cluster
// with credentials start. They are on agents with the attribute that is asked for.
func TestExamples(t *testing.T) {
	t.Parallel()
	c := newBareCluster(t, 4, fakemesos.Options{Users: map[string]string{"sluice": "password"}})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.args = append(c.args, "--cluster", "mesos://"+strings.Join(c.Endpoints(), ","), "--mesos-principal", "sluice", "--mesos-secret", secret,
		"--mesos-framework", "flows", "--mesos-attributes", "rack=r1", "--mesos-workers", "2", "--mesos-ports", "2", "--mesos-failover", "1h", "--mesos-control", "localhost")
	s := c.scheduler()
	for _, name := range []string{"flights/flights.xml", "rules/busy.xml"} {
		spec := copyExample(t, name)
		begin := time.Now()
		s.command("submit", "--wait", spec)
		t.Logf("%s is finished after %v", name, time.Since(begin).Round(time.Millisecond))
		out := filepath.Join(filepath.Dir(spec), "out.csv")
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
		runHere(t, spec)
		want, err := os.ReadFile(out)
		if err != nil || len(want) == 0 {
			t.Fatalf("%d bytes in one process, error %v", len(want), err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s writes\n%s\nwant\n%s", name, got, want)
		}
	}
	c.checkFetched(2)
	if strings.Contains(s.said.String(), "cannot run") {
		t.Error("a worker cannot run")
	}
	f := c.Frameworks()[0].Info
	if f.Name != "flows" || f.GetPrincipal() != "sluice" || f.GetFailoverTimeout() != 3600 || !f.GetCheckpoint() {
		t.Errorf("%+v", f)
	}
	c.quiet()
}

// checkFetched checks where executors ran, and that they have run what the scheduler gave them.
func (c *cluster) checkFetched(queries int) {
	c.t.Helper()
	ran := 0
	for i, a := range c.Agents() {
		if len(a.Executors) > 0 && i%2 == 0 {
			c.t.Errorf("executors on agent %d, in the wrong rack", i)
		}
		for _, e := range a.Executors {
			if _, err := os.Stat(filepath.Join(e.Dir, "stderr")); err != nil {
				continue // the query has ended before the program was unpacked: the race detector is slow at it
			}
			ran++
			lib, err := filepath.Glob(filepath.Join(e.Dir, "sluice", "lib", "libzmq.so*"))
			if err != nil || len(lib) == 0 {
				c.t.Errorf("executor %s has no libzmq in its sandbox, error %v", e.ID, err)
			}
		}
	}
	if ran < queries || ran > 2*queries {
		c.t.Errorf("%d executors", ran)
	}
}

// TestUnplaceable: a query that no agent can run says so, and nothing is launched; it runs when there is an agent.
func TestUnplaceable(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	s := c.scheduler("--mesos-attributes", "rack=r7")
	spec := copyExample(t, "flights/flights.xml")
	s.command("submit", spec)
	why := "attribute rack=r7"
	eventually(t, startTime, "the query says why it does not run", func() bool {
		q := s.query("flights")
		return q != nil && q.State == api.Starting && len(q.Alerts) > 0 && strings.Contains(q.Alerts[len(q.Alerts)-1].Text, why)
	})
	if len(c.tasks()) > 0 {
		t.Errorf("tasks %v", c.tasks())
	}
	for range 3 {
		c.AddAgent(fakemesos.AgentSpec{Attributes: "rack:r7"})
	}
	eventually(t, startTime, "the query has ended", func() bool { q := s.query("flights"); return q != nil && q.State == api.Finished })
	c.quiet()
}
