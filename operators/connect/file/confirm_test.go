package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/operators"
)

// confirmed is a writer of DIR/out/ whose parts count in DIR/archive/, with a clock of its own.
type confirmed struct {
	t        fatal
	dir      string
	place    string
	clock    time.Time
	w        *writer
	recorded int64
	witness  []byte
}

func startConfirmed(t fatal, dir, place string) *confirmed {
	c := &confirmed{t: t, dir: dir, place: place, clock: time.Unix(1_000_000, 0)}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "out"), 0o777), os.MkdirAll(filepath.Join(dir, "archive/a"), 0o777)); err != nil {
		t.Fatal(err)
	}
	c.open()
	c.record(c.w.Commit(0, true))
	return c
}

// open is a new process.
func (c *confirmed) open() {
	op := &dataflow.Operator{Name: "sink", Desc: Writer, Inputs: []dataflow.Input{{Schema: numberSchema}},
		Params: []dataflow.Param{{Name: "path", Value: "out/"}, {Name: "confirm", Value: c.place}, {Name: "confirm-timeout", Value: "1m"}}}
	w, err := OpenWriter(&operators.Context{Op: op, Counters: &operators.Counters{}, Dir: c.dir}, WriterOptions{Limit: -1})
	if err != nil {
		c.t.Fatal(err)
	}
	c.w = w.(*writer)
	c.w.parts.confirm.now = func() time.Time { return c.clock }
	visible, err := c.w.Recover(c.recorded, c.witness)
	if err != nil {
		c.t.Fatal(err)
	}
	c.recorded = visible
	c.poll()
}

func (c *confirmed) record(witness []byte, ok bool, err error) {
	if err != nil || !ok {
		c.t.Fatal(ok, err)
	}
	c.witness = witness
}

// epoch writes one row, the number of the epoch, and commits it.
func (c *confirmed) epoch(e int64) {
	if err := errors.Join(c.w.Process(0, numbers(e)), c.w.EndEpoch(operators.Mark{Epoch: e, Clock: 1})); err != nil {
		c.t.Fatal(err)
	}
	c.record(c.w.Commit(e, true))
	c.recorded = e
}

// poll lets time pass and asks for the frontier.
func (c *confirmed) poll() int64 {
	c.clock = c.clock.Add(pollInterval)
	frontier, witness, err := c.w.Confirm()
	if err != nil {
		c.t.Fatal(err)
	}
	if witness != nil {
		c.witness = witness
	}
	return frontier
}

func name(first, last int64) string { return fmt.Sprintf("part-%012d-%012d.csv", first, last) }

func (c *confirmed) move(from, to string) {
	if err := os.Rename(filepath.Join(c.dir, from), filepath.Join(c.dir, to)); err != nil {
		c.t.Fatal(err)
	}
}

// visible are the parts that wait for being collected.
func (c *confirmed) visible() []string {
	found, err := filepath.Glob(filepath.Join(c.dir, "out", "part-*"))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}

// TestConfirmedHole: of five parts the third is lost on its way. Those behind it do not count before it does,
// it is written again when its time is over, and they are not. What has been confirmed stays so when the
// archive is emptied.
func TestConfirmedHole(t *testing.T) {
	c := startConfirmed(t, t.TempDir(), "archive/")
	for e := range int64(5) {
		c.epoch(e + 1)
	}
	if f := c.poll(); f != 0 {
		t.Fatalf("the frontier is %d before anything has been collected", f)
	}
	for _, e := range []int64{1, 2, 4, 5} {
		c.move("out/"+name(e, e), "archive/"+name(e, e))
	}
	if err := os.Remove(filepath.Join(c.dir, "out", name(3, 3))); err != nil {
		t.Fatal(err)
	}
	if f := c.poll(); f != 2 || len(c.visible()) != 0 {
		t.Fatalf("the frontier is %d, %v are visible", f, c.visible())
	}
	if err := os.RemoveAll(filepath.Join(c.dir, "archive")); err != nil {
		t.Fatal(err)
	}
	c.open() // another process knows all that
	if f := c.poll(); f != 2 {
		t.Fatalf("the frontier of the next process is %d", f)
	}
	c.clock = c.clock.Add(time.Minute)
	if f := c.poll(); f != 2 || !slices.Equal(c.visible(), []string{name(3, 3)}) || c.w.ctx.Counters.Resent.Load() != 1 {
		t.Fatalf("when its time is over the frontier is %d, and %v are visible", f, c.visible())
	}
	if err := os.Mkdir(filepath.Join(c.dir, "archive"), 0o777); err != nil {
		t.Fatal(err)
	}
	c.move("out/"+name(3, 3), "archive/"+name(3, 3))
	if f := c.poll(); f != 5 {
		t.Fatalf("in the end the frontier is %d", f)
	}
	c.record(c.w.Commit(6, true))
	if err := c.w.Close(true); err != nil {
		t.Fatal(err)
	}
	if files := contents(t, filepath.Join(c.dir, "out")); len(files) > 0 {
		t.Errorf("left over: %v", files)
	}
}

// TestConfirmedPlaces: where a part has to be, and how long.
func TestConfirmedPlaces(t *testing.T) {
	for _, x := range []struct {
		place, at string
		cut, ok   bool
	}{
		{place: "archive/", at: "archive/" + name(1, 1), ok: true},
		{place: "archive/", at: "archive/" + name(1, 1), cut: true},
		{place: "archive/", at: "archive/a/" + name(1, 1)},
		{place: "archive/", at: "archive/x" + name(1, 1)},
		{place: "archive/*/", at: "archive/a/" + name(1, 1), ok: true},
		{place: "archive/*/{name}.done", at: "archive/a/" + name(1, 1) + ".done", ok: true},
		{place: "archive/*/{name}.done", at: "archive/a/" + name(1, 1)},
		{place: "archive/{name}*", at: "archive/" + name(1, 1) + ".2026", ok: true},
	} {
		c := startConfirmed(t, t.TempDir(), x.place)
		c.epoch(1)
		if x.cut {
			data, err := os.ReadFile(filepath.Join(c.dir, "out", name(1, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.WriteFile(filepath.Join(c.dir, x.at), data[:1], 0o666), os.Remove(filepath.Join(c.dir, "out", name(1, 1)))); err != nil {
				t.Fatal(err)
			}
		} else {
			c.move("out/"+name(1, 1), x.at)
		}
		if f := c.poll(); (f == 1) != x.ok {
			t.Errorf("%s for %s: the frontier is %d", x.at, x.place, f)
		}
		if x.cut { // the beginning that is there must not grow to be confirmed
			c.clock = c.clock.Add(time.Minute)
			c.poll()
			if _, err := os.Stat(filepath.Join(c.dir, x.at)); !errors.Is(err, os.ErrNotExist) || len(c.visible()) != 1 {
				t.Errorf("the incomplete copy is there still (%v), or the part is not: %v", err, c.visible())
			}
		}
	}
}

// TestNotCollected: a part that nobody takes is an error in the end, and not written again.
func TestNotCollected(t *testing.T) {
	c := startConfirmed(t, t.TempDir(), "archive/")
	c.epoch(1)
	c.clock = c.clock.Add(time.Minute)
	if _, _, err := c.w.Confirm(); err == nil || !strings.Contains(err.Error(), "has not been collected for 1m0s") {
		t.Fatal(err)
	}
	c.open()
	c.move("out/"+name(1, 1), "archive/"+name(1, 1))
	if f := c.poll(); f != 1 {
		t.Errorf("after a new beginning the frontier is %d", f)
	}
}

// TestConfirmWaits: for whoever does not ask, a commit that has to be done now is done when it is confirmed.
func TestConfirmWaits(t *testing.T) {
	c := startConfirmed(t, t.TempDir(), "archive/")
	c.w.parts.confirm.polled, c.w.parts.confirm.now = false, time.Now
	done := make(chan error, 1)
	if err := errors.Join(c.w.Process(0, numbers(1)), c.w.EndEpoch(operators.Mark{Epoch: 1})); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := c.w.Commit(1, false); ok || err != nil {
		t.Fatal(ok, err)
	}
	go func() {
		_, _, err := c.w.Commit(1, true)
		done <- err
	}()
	for len(c.visible()) == 0 {
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatal("it has not waited", err)
	case <-time.After(2 * waitInterval):
	}
	c.move("out/"+name(1, 1), "archive/"+name(1, 1))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestConfirmNeedsState: without state nothing is known of earlier parts.
func TestConfirmNeedsState(t *testing.T) {
	op := &dataflow.Operator{Name: "sink", Desc: Writer, Inputs: []dataflow.Input{{Schema: numberSchema}},
		Params: []dataflow.Param{{Name: "path", Value: "out/"}, {Name: "confirm", Value: "archive/"}}}
	w, err := OpenWriter(&operators.Context{Op: op, Counters: &operators.Counters{}, Dir: t.TempDir()}, WriterOptions{Limit: -1})
	if err != nil {
		t.Fatal(err)
	}
	var input *operators.InputError
	if err := w.Process(0, numbers(1)); !errors.As(err, &input) {
		t.Error(err)
	}
}

func TestCheckConfirm(t *testing.T) {
	for _, x := range []struct{ path, confirm, timeout, want string }{
		{"out/", "archive/", "10m", ""},
		{"out/", "archive/*/{name}.done", "1s", ""},
		{"out.csv", "archive/", "10m", "path must be a folder"},
		{"out/", "archive", "10m", "have {name} once"},
		{"out/", "{name}/{name}", "10m", "have {name} once"},
		{"out/", "a[/", "10m", "syntax error in pattern"},
		{"out/", "archive/", "0s", "more than 0s"},
	} {
		op := &dataflow.Operator{Name: "sink", Desc: Writer, Params: []dataflow.Param{
			{Name: "path", Value: x.path}, {Name: "confirm", Value: x.confirm}, {Name: "confirm-timeout", Value: x.timeout}}}
		var got []string
		Writer.Check(dataflow.NewCheck(op, nil, nil, func(d dataflow.Diagnostic) { got = append(got, d.Message) }))
		if all := strings.Join(got, "; "); x.want == "" && all != "" || !strings.Contains(all, x.want) {
			t.Errorf("%v: %s", x, all)
		}
	}
}

// TestConfirmedLives: whenever processes die and whatever becomes of parts on their way, every row is in the
// archive in the end, once, and no part that counted is written again.
func TestConfirmedLives(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		c := startConfirmed(t, tempDir(t, root), "archive/")
		arrived := map[string]string{} // what the archive has had, also if it is gone
		taken := map[string]bool{}     // that are on their way
		empty := map[int64]bool{}      // epochs without rows
		last, frontier := int64(0), int64(0)
		polled := c.w // of which frontier is
		file := func(folder, name string) string { return filepath.Join(c.dir, folder, name) }
		deliver := func(name string) {
			data, err := os.ReadFile(file("way", name))
			if err != nil {
				t.Fatal(err)
			}
			if was, again := arrived[name]; again && was != string(data) {
				t.Fatalf("%s has arrived with %q and with %q", name, was, data)
			}
			arrived[name] = string(data)
			if err := errors.Join(os.WriteFile(file("archive", name), data, 0o666), os.Remove(file("way", name))); err != nil {
				t.Fatal(err)
			}
		}
		purge := func(frontier int64) {
			for n := range arrived {
				var first, end int64
				if _, err := fmt.Sscanf(n, "part-%d-%d", &first, &end); err != nil {
					t.Fatal(err)
				}
				if end > frontier {
					continue
				}
				if err := os.Remove(file("archive", n)); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
		}
		drawn := func(names []string) string { return rapid.SampledFrom(names).Draw(t, "part") }
		onTheWay := func() []string {
			var names []string
			for n := range taken {
				names = append(names, n)
			}
			slices.Sort(names)
			return names
		}
		if err := os.Mkdir(filepath.Join(c.dir, "way"), 0o777); err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				last++
				c.epoch(last)
			case 1:
				last++
				empty[last] = true
				if err := c.w.EndEpoch(operators.Mark{Epoch: last, Clock: 1}); err != nil {
					t.Fatal(err)
				}
				c.record(c.w.Commit(last, true))
				c.recorded = last
			case 2: // dies before the commit is recorded
				was, at := c.witness, c.recorded
				last++
				c.epoch(last)
				c.witness, c.recorded = was, at
				c.open()
			case 3: // dies between the two links of a part
				if err := c.w.Process(0, numbers(last+1)); err != nil {
					t.Fatal(err)
				}
				p := c.w.parts
				err := errors.Join(c.w.EndEpoch(operators.Mark{Epoch: last + 1}), c.w.enc.Finish(),
					os.Link(p.size.target.(*fileTarget).f.Name(), filepath.Join(p.confirm.kept, name(p.first, last+1))))
				if err != nil {
					t.Fatal(err)
				}
				last++
				c.open()
			case 4:
				c.open()
			case 5:
				if v := c.visible(); len(v) > 0 {
					n := drawn(v)
					c.move("out/"+n, "way/"+n)
					taken[n] = true
				}
			case 6:
				if n := onTheWay(); len(n) > 0 {
					one := drawn(n)
					delete(taken, one)
					deliver(one)
				}
			case 7: // lost, or only its beginning arrives
				if n := onTheWay(); len(n) > 0 {
					one := drawn(n)
					delete(taken, one)
					if err := os.Rename(file("way", one), file("archive", one)); err != nil {
						t.Fatal(err)
					}
					if rapid.Bool().Draw(t, "lost") {
						if err := os.Remove(file("archive", one)); err != nil {
							t.Fatal(err)
						}
						break
					}
					data, err := os.ReadFile(file("archive", one))
					if err := errors.Join(err, os.Remove(file("archive", one)), os.WriteFile(file("archive", one), data[:1], 0o666)); err != nil {
						t.Fatal(err)
					}
				}
			case 8: // what counts may leave the archive
				f := c.poll()
				if f < frontier && c.w == polled {
					t.Fatalf("the frontier goes back from %d to %d", frontier, f)
				}
				frontier, polled = f, c.w
				c.record(c.w.Commit(last, true))
				c.recorded = last
				purge(frontier)
			case 9: // and the process may die before it is recorded what counts
				was := c.witness
				f := c.poll()
				c.witness = was
				purge(f)
				c.open()
			}
		}
		for range 3 { // all is collected; what was lost is written again
			for _, n := range c.visible() {
				c.move("out/"+n, "way/"+n)
				taken[n] = true
			}
			for _, n := range onTheWay() {
				delete(taken, n)
				deliver(n)
			}
			c.poll()
			c.clock = c.clock.Add(time.Minute)
			c.poll()
		}
		if f := c.poll(); f != last {
			t.Fatalf("the frontier is %d, not %d", f, last)
		}
		rows := map[string]int{}
		for _, data := range arrived {
			for _, row := range strings.Fields(data)[1:] {
				rows[row]++
			}
		}
		for e := int64(1); e <= last; e++ {
			if (rows[fmt.Sprint(e)] == 1) == empty[e] || rows[fmt.Sprint(e)] > 1 {
				t.Fatalf("row %d has arrived %d times", e, rows[fmt.Sprint(e)])
			}
		}
		c.record(c.w.Commit(last+1, true))
		if err := c.w.Close(true); err != nil {
			t.Fatal(err)
		}
		if files := contents(t, filepath.Join(c.dir, "out")); len(files) > 0 {
			t.Fatalf("left over: %v", files)
		}
		if err := os.RemoveAll(c.dir); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFoldersAreSharedByAskers: all that ask for a folder while its listing waits for its turn get one, and
// no more than a few folders are listed at a time.
func TestFoldersAreSharedByAskers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads, now, most := map[string]int{}, 0, 0
		gate := make(chan struct{}, 1)
		gate <- struct{}{}
		change := func(n int, dir string) {
			<-gate
			now += n
			most = max(most, now)
			if dir != "" {
				reads[dir]++
			}
			gate <- struct{}{}
		}
		f := newFolders(2, func(dir string) ([]string, error) {
			change(1, dir)
			time.Sleep(time.Second)
			change(-1, "")
			return []string{dir + "!"}, nil
		})
		ask := func(dir string) {
			if names, err := f.list(dir); err != nil || !slices.Equal(names, []string{dir + "!"}) {
				t.Error(names, err)
			}
		}
		go ask("a")
		go ask("b")
		synctest.Wait()
		for range 10 {
			go ask("c")
		}
		go ask("a") // its listing has begun, so this asks for another one
		go ask("d")
		time.Sleep(time.Minute)
		synctest.Wait()
		if reads["a"] != 2 || reads["b"] != 1 || reads["c"] != 1 || reads["d"] != 1 || most != 2 {
			t.Errorf("listings %v, %d at a time", reads, most)
		}
	})
}

// TestConfirmedFrontierStays: a part begins with the epochs without rows before it, which count already.
func TestConfirmedFrontierStays(t *testing.T) {
	c := startConfirmed(t, t.TempDir(), "archive/")
	if err := c.w.EndEpoch(operators.Mark{Epoch: 1, Clock: 1}); err != nil {
		t.Fatal(err)
	}
	c.record(c.w.Commit(1, true))
	if f := c.poll(); f != 1 {
		t.Fatalf("after an epoch without rows the frontier is %d", f)
	}
	c.epoch(2)
	if f := c.poll(); f != 1 || !slices.Equal(c.visible(), []string{name(1, 2)}) {
		t.Fatalf("while the next one waits the frontier is %d, and %v are visible", f, c.visible())
	}
}
