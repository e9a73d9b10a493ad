package realtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sluice/scheduler/local"
)

// mods is a query whose filter passes the rows with a remainder, which sets change while it runs.
const mods = rowType + `
  <operator name="both" type="union"><input name="rowsA"/><input name="rowsB"/><output name="rows"/></operator>
  <operator name="f" type="filter"><input name="rows"/><param name="condition" value="id % 5 = 0"/><output name="good"/></operator>
  <operator name="out" type="writer"><input name="good"/><param name="path" value="out.csv"/></operator>
`

// set asks the query to pass the rows with another remainder.
func (r *run) set(remainder int) (local.Response, error) {
	return local.Ask(r.state, local.Request{Set: &local.SetRequest{Operator: "f", Param: "condition", Value: fmt.Sprintf("id %% 5 = %d", remainder)}})
}

// mustSet is set, which must succeed, with an epoch.
func (r *run) mustSet(remainder int) {
	r.t.Helper()
	a, err := r.set(remainder)
	if err != nil || a.Error != "" || a.Epoch <= 0 {
		r.t.Fatalf("set to %d: %+v, %v: %s", remainder, a, err, r.said.String())
	}
}

// countRows counts the lines of a file, which may not be there yet.
func countRows(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	return bytes.Count(text, []byte("\n"))
}

// checkCuts checks that from one row of each source on each condition held, for all rows, until the next did.
func checkCuts(t *testing.T, q *query, remainders []int) {
	t.Helper()
	ids := map[int]bool{}
	for _, line := range written(t, q.dir)["out.csv"] {
		text, _, _ := strings.Cut(line, ",")
		id, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		if ids[id] {
			t.Errorf("row %d is there twice", id)
		}
		ids[id] = true
	}
	for name, b := range map[string]bool{"a": false, "b": true} {
		phase := 0
		var cuts []int
		for _, r := range q.data.generate(b) {
			for phase < len(remainders) && ids[r.id] != (r.id%5 == remainders[phase]) {
				phase++
				cuts = append(cuts, r.id)
			}
			if phase == len(remainders) {
				t.Fatalf("source %s: row %d does not fit; the conditions changed at %v", name, r.id, cuts)
			}
		}
		if phase != len(remainders)-1 {
			t.Errorf("source %s: %d of %d conditions held, from %v on", name, phase+1, len(remainders), cuts)
		}
	}
}

// TestSet changes the condition of a filter, while workers are killed too: each value holds from one epoch on.
func TestSet(t *testing.T) {
	for name, rules := range map[string]string{
		"alone":              "",
		"partition":          `<rewrite rule="partition" operator="f"><param name="k" value="3"/></rewrite>`,
		"partition and copy": `<rewrite rule="partition" operator="f"><param name="k" value="2"/></rewrite>` + rewrite("hot-standby", "f"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQuery(t, mods, data{rows: 20_000, seed: 5}, rules, "--nodes", "3", "--checkpoint", "200ms", "--set", "a.rate=5000", "--set", "b.rate=2500")
			r := q.start()
			r.await("all run", on(3))
			out := filepath.Join(q.dir, "out.csv")
			r.await("rows are written", func(status) bool { return countRows(out) > 100 })
			remainders := []int{0, 1}
			r.mustSet(1)
			r.mustSet(1) // once more
			for i := range 3 {
				s := r.await("all run", on(3))
				answered := make(chan error, 1)
				go func() {
					a, err := r.set(2 + i)
					if err == nil && a.Error != "" {
						err = fmt.Errorf("%s", a.Error)
					}
					answered <- err
				}()
				s.signal(t, s.workers()[i], syscall.SIGKILL)
				if err := <-answered; err != nil {
					t.Fatalf("while a worker is killed: %v", err)
				}
				remainders = append(remainders, 2+i)
			}
			r.finish()
			checkCuts(t, q, remainders)
		})
	}
}

// TestSetWrong asks for what cannot be. The answers say what is wrong and what may have been meant, and nothing changes.
func TestSetWrong(t *testing.T) {
	t.Parallel()
	q := newQuery(t, small, data{rows: 12_000, seed: 6}, `<rewrite rule="partition" operator="f"><param name="k" value="2"/></rewrite>`, "--nodes", "2", "--set", "a.rate=8000", "--set", "b.rate=4000")
	r := q.start()
	r.await("all run", on(2))
	for _, c := range []struct{ query, operator, param, value, want string }{
		{"query", "g", "condition", "v > 3", `"g"`},
		{"query", "f", "conditon", "v > 3", `did you mean "condition"`},
		{"query", "f", "condition", "vv > 3", `unknown column "vv" in condition; did you mean "v"?`},
		{"query", "f", "condition", "v + ", "condition"},
		{"query", "f", "condition", "v + 1", "condition"},
		{"query", "f", "on-error", "skip", "on-error"},
		{"query", "a", "rate", "fast", "rate"},
		{"quary", "a", "rate", "8000", `the query that runs here is "query"`},
	} {
		cmd := exec.Command(program, "set", "--state", r.state, c.query, c.operator, c.param, c.value)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Run(); err == nil || !strings.Contains(said.String(), c.want) {
			t.Errorf("set %s %s %q: %v: %s; want %s", c.operator, c.param, c.value, err, said.String(), c.want)
		}
	}
	if text, err := exec.Command(program, "set", "--state", r.state, "query", "a", "rate", "9000").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	r.finish()
	q.check()
}

// TestOneRunOfAState: a second run with a state is refused, with the first one untouched.
func TestOneRunOfAState(t *testing.T) {
	t.Parallel()
	q := newQuery(t, small, data{rows: 12_000, seed: 7}, "", "--nodes", "2", "--set", "a.rate=8000", "--set", "b.rate=4000")
	r := q.start()
	s := r.await("all run", on(2))
	second := exec.Command(program, slices.Concat([]string{"run", "--state", r.state}, q.args, []string{filepath.Join(q.dir, "query.xml")})...)
	second.Env = append(os.Environ(), "TMPDIR="+q.dir)
	if text, err := second.CombinedOutput(); err == nil {
		t.Errorf("a second run went on: %s", text)
	}
	if now := r.await("all run", on(2)); !slices.Equal(now.workers(), s.workers()) {
		t.Errorf("the workers are %v, were %v", now.workers(), s.workers())
	}
	r.finish()
	q.check()
}
