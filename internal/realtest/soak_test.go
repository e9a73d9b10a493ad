package realtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/scheduler/local"
)

// soak is a random run.
type soak struct {
	t      *testing.T
	r      *rand.Rand
	q      *query
	run    *run
	disk   string          // a small file system with the state; "" if there is none
	ruled  map[string]bool // operators that have rewrites
	faults []string
}

// TestSoak runs queries with random patterns and faults for as long as SLUICE_SOAK says.
func TestSoak(t *testing.T) {
	limit, err := time.ParseDuration(os.Getenv("SLUICE_SOAK"))
	if err != nil {
		t.Skip("SLUICE_SOAK=60s runs queries with random faults for that long; SLUICE_SEED=N chooses which")
	}
	seed, _ := strconv.ParseUint(os.Getenv("SLUICE_SEED"), 10, 64)
	for end := time.Now().Add(limit); time.Now().Before(end) && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { newSoak(t, seed).play() })
	}
}

// stateful and stateless are operators of everything that rules are for.
var (
	stateful  = []string{"tumbling", "hopping", "session", "byRows", "joint"}
	stateless = []string{"keep", "shape", "even", "odd"}
)

func newSoak(t *testing.T, seed uint64) *soak {
	s := &soak{t: t, ruled: map[string]bool{}, r: rand.New(rand.NewPCG(seed, 9))}
	rules := ""
	for range s.r.IntN(6) {
		rules += s.rule()
	}
	nodes := 1 + s.r.IntN(5)
	args := []string{
		"--nodes", fmt.Sprint(nodes), "--checkpoint", s.one("50ms", "200ms", "1s"),
		"--transport", s.one("tcp", "ipc", "plain-tcp", "lz4+tcp", "zstd+ipc"), "--fsync", s.one("never", "grouped", "always"),
	}
	d := data{rows: 20_000 + 20_000*s.r.IntN(4), seed: uint64(s.r.IntN(3))}
	if s.r.IntN(3) > 0 {
		args = append(args, "--set", "a.rate="+s.one("5000", "20000", "40000"), "--set", "b.rate="+s.one("2500", "10000", "40000"))
	} else {
		d.rows = 300_000 // read as fast as it goes, in epochs that are counted
	}
	if s.r.IntN(3) == 0 && !strings.Contains(rules, `"partition"`) {
		args = append(args, "-p", s.one("2", "3"))
	}
	s.q = newQuery(t, everything, d, rules, args...)
	if s.r.IntN(3) == 0 {
		s.disk = mount(t, 48<<20)
	}
	t.Logf("rules %s, %v, disk %q", rules, args, s.disk)
	return s
}

func (s *soak) one(values ...string) string { return values[s.r.IntN(len(values))] }

// rule is random rewrites of an operator that has none yet.
func (s *soak) rule() string {
	op := s.one(slices.Concat(stateful, stateless)...)
	if s.ruled[op] {
		return ""
	}
	s.ruled[op] = true
	if slices.Contains(stateless, op) {
		return rewrite(s.one("standby", "hot-standby"), op)
	}
	switch s.r.IntN(3) {
	case 0:
		return fmt.Sprintf(`<rewrite rule="partition" operator=%q><param name="k" value="%d"/></rewrite>`, op, 2+s.r.IntN(2)) +
			rewrite(s.one("checkpoint", "hot-standby"), op)
	case 1:
		return rewrite("checkpoint", op)
	}
	return rewrite("hot-standby", op)
}

func (s *soak) start() {
	state := filepath.Join(s.q.dir, "state")
	if s.disk != "" {
		state = filepath.Join(s.disk, "state")
	}
	s.run = startRun(s.t, s.q.dir, state, append(s.q.args, filepath.Join(s.q.dir, "query.xml"))...)
}

// play runs the query to its end, with up to a dozen faults.
func (s *soak) play() {
	s.start()
	for range s.r.IntN(12) {
		st, ok := s.run.awaitOrEnd("a worker is there", func(st status) bool { return len(st.pids) > 0 })
		if !ok {
			break
		}
		time.Sleep(time.Duration(s.r.IntN(600)) * time.Millisecond)
		s.fault(st)
	}
	s.t.Logf("faults: %s", strings.Join(s.faults, ", "))
	s.run.finish()
	s.q.check()
	if s.t.Failed() {
		s.t.Log(s.run.said.String())
	}
}

// fault does something bad.
func (s *soak) fault(st status) {
	workers := st.workers()
	victim := workers[s.r.IntN(len(workers))]
	kind := s.r.IntN(10)
	s.faults = append(s.faults, []string{"kill", "kill", "kill several", "stop for long", "stop shortly", "kill all", "interrupt",
		"fill the disk", "set a rate and kill", "set a condition and kill"}[kind])
	switch kind {
	case 0, 1:
		st.signal(s.t, victim, syscall.SIGKILL)
	case 2:
		for _, w := range workers[:1+s.r.IntN(len(workers))] {
			st.signal(s.t, w, syscall.SIGKILL)
		}
	case 3:
		st.signal(s.t, victim, syscall.SIGSTOP)
		s.run.awaitOrEnd("the stalled one has failed", func(now status) bool { return now.pids[victim] == 0 })
		st.signal(s.t, victim, syscall.SIGCONT)
	case 4:
		st.signal(s.t, victim, syscall.SIGSTOP)
		time.Sleep(time.Duration(s.r.IntN(500)) * time.Millisecond)
		st.signal(s.t, victim, syscall.SIGCONT)
	case 5:
		s.again(st, syscall.SIGKILL)
	case 6:
		s.again(st, syscall.SIGINT)
	case 8:
		go set(s.run.state, "a", "rate", s.one("3000", "20000", "50000"))
		st.signal(s.t, victim, syscall.SIGKILL)
	case 9:
		go set(s.run.state, "keep", "condition", s.one("v >= 100", "NOT v < 100", "v > 99")) // all the same
		st.signal(s.t, victim, syscall.SIGKILL)
	case 7:
		if s.disk != "" {
			full := ballast(s.t, s.disk)
			time.Sleep(time.Duration(s.r.IntN(2000)) * time.Millisecond)
			if err := os.Remove(full); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// set sets a parameter; the query may end meanwhile.
func set(state, operator, param, value string) {
	_, _ = local.Ask(state, local.Request{Set: &local.SetRequest{Operator: operator, Param: param, Value: value}})
}

// again ends the run, and starts it again.
func (s *soak) again(st status, signal syscall.Signal) {
	if s.run.ended() {
		return
	}
	if err := s.run.cmd.Process.Signal(signal); err != nil {
		return // it has just ended
	}
	select {
	case <-s.run.over:
	case <-time.After(finishTime):
		now, _ := s.run.status()
		s.t.Fatalf("the run does not end:\n%s\n%s", now.text, s.run.said.String())
	}
	if s.run.err != nil && signal == syscall.SIGINT {
		s.t.Fatalf("stopping: %v: %s", s.run.err, s.run.said.String())
	}
	pids := make([]int, 0, len(st.pids))
	for _, pid := range st.pids {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	awaitGone(s.t, pids)
	s.start()
}
