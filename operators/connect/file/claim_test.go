package file

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/operators"
)

// sinkOf makes a writer to a path for an owner.
func sinkOf(dir, name, path, owner string) (*writer, error) {
	op := &dataflow.Operator{Name: name, Type: Writer.Name, Desc: Writer, Inputs: []dataflow.Input{{Schema: numberSchema}},
		Params: []dataflow.Param{{Name: "path", Value: path}, {Name: "format", Value: "csv"}}}
	w, err := OpenWriter(&operators.Context{Op: op, Counters: &operators.Counters{}, Dir: dir}, WriterOptions{Limit: -1, Owner: owner})
	if err != nil {
		return nil, err
	}
	return w.(*writer), nil
}

// begin makes a writer and brings it to its beginning, as a query does that keeps state.
func begin(t *testing.T, dir, name, path, owner string) (*writer, error) {
	t.Helper()
	w, err := sinkOf(dir, name, path, owner)
	if err != nil {
		return nil, err
	}
	if _, err := w.Recover(0, nil); err != nil {
		return nil, errors.Join(err, w.Close(false))
	}
	return w, nil
}

func shortClaims(t *testing.T) {
	before := claimTime
	claimTime = 50 * time.Millisecond
	t.Cleanup(func() { claimTime = before })
}

// TestClaim: of two queries, or two sinks of one, that write the same file or folder the second is refused, however it names
// it; writers of one sink are not, for whoever launches them knows which of them counts.
func TestClaim(t *testing.T) {
	shortClaims(t)
	for _, path := range []string{"out.csv", "parts/"} {
		dir := t.TempDir()
		first, err := begin(t, dir, "sink", path, "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dir, dir+"-link"); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			dir, name, owner string
			taken            bool
		}{
			{dir, "sink", "b", true}, {dir + "-link", "sink", "b", true}, {dir, "other", "a", true}, {dir, "sink", "a", false},
		} {
			w, err := begin(t, c.dir, c.name, path, c.owner)
			if errors.Is(err, errTaken) != c.taken || err != nil && !c.taken {
				t.Errorf("%s: sink %s of %s: %v, taken %v", path, c.name, c.owner, err, c.taken)
			}
			if w != nil {
				if err := w.Close(false); err != nil {
					t.Error(err)
				}
			}
		}
		if err := first.Close(true); err != nil {
			t.Error(err)
		}
		w, err := begin(t, dir, "sink", strings.Replace(path, "parts", "more", 1), "b")
		if err != nil {
			t.Fatalf("%s: after the first has ended: %v", path, err)
		}
		if err := w.Close(false); err != nil {
			t.Error(err)
		}
	}
}

// TestClaimHardLink: a file with two names is one file.
func TestClaimHardLink(t *testing.T) {
	shortClaims(t)
	dir := t.TempDir()
	w, err := begin(t, dir, "sink", "a.csv", "a")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(false)
	if err := os.Link(filepath.Join(dir, "a.csv"), filepath.Join(dir, "b.csv")); err != nil {
		t.Fatal(err)
	}
	if _, err := begin(t, dir, "sink", "b.csv", "b"); !errors.Is(err, errTaken) {
		t.Errorf("%v", err)
	}
}

// TestClaimWaits: who is about to end is waited for.
func TestClaimWaits(t *testing.T) {
	dir := t.TempDir()
	first, err := begin(t, dir, "sink", "out.csv", "a")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { first.Close(false) })
	second, err := begin(t, dir, "sink", "out.csv", "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(false); err != nil {
		t.Error(err)
	}
}

// TestClaimOfRun: a run that gives its file a name at the end does not replace one that a query is writing, whether that
// began before or while it ran.
func TestClaimOfRun(t *testing.T) {
	shortClaims(t)
	dir := t.TempDir()
	run, err := sinkOf(dir, "sink", "out.csv", "")
	if err != nil {
		t.Fatal(err)
	}
	w, err := begin(t, dir, "sink", "out.csv", "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Process(0, numbers(1)); err != nil {
		t.Fatal(err)
	}
	if err := run.Close(true); !errors.Is(err, errTaken) {
		t.Errorf("a run that ends: %v", err)
	}
	if _, err := sinkOf(dir, "sink", "out.csv", ""); !errors.Is(err, errTaken) {
		t.Errorf("a run that begins: %v", err)
	}
	if err := w.Process(0, numbers(7)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Commit(1, true); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(true); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "out.csv"))
	if want := "n\n7\n"; err != nil || string(text) != want {
		t.Errorf("the file holds %q, %v, want %q", text, err, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files are left, %v", len(entries), err)
	}
	run, err = sinkOf(dir, "sink", "out.csv", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(run.Process(0, numbers(8)), run.Close(true)); err != nil {
		t.Errorf("a run when nobody writes the file: %v", err)
	}
}

// TestClaimHolder is the process of TestClaimOfProcess.
func TestClaimHolder(t *testing.T) {
	dir := os.Getenv("SLUICE_TEST_CLAIM")
	if dir == "" {
		t.Skip("it is run by TestClaimOfProcess")
	}
	w, err := begin(t, dir, "sink", "out.csv", "a")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("claimed\n")
	time.Sleep(time.Minute)
	t.Fatal(w.Close(false))
}

// TestClaimOfProcess: a process that stands still keeps other queries away, but not the one that goes on in its place, and
// none once it is dead.
func TestClaimOfProcess(t *testing.T) {
	shortClaims(t)
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestClaimHolder$")
	cmd.Env = append(os.Environ(), "SLUICE_TEST_CLAIM="+dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "claimed"; {
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := begin(t, dir, "sink", "out.csv", "b"); !errors.Is(err, errTaken) {
		t.Errorf("another query, while it stands still: %v", err)
	}
	successor, err := begin(t, dir, "sink", "out.csv", "a")
	if err != nil {
		t.Fatalf("its successor, while it stands still: %v", err)
	}
	if err := successor.Close(false); err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	other, err := begin(t, dir, "sink", "out.csv", "b")
	if err != nil {
		t.Fatalf("another query, when it is dead: %v", err)
	}
	if err := other.Close(false); err != nil {
		t.Error(err)
	}
}

// TestOutputPlace: an output has one place, however it is named.
func TestOutputPlace(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": ".", "away": "deep/er", "dangling.csv": "link/new.csv", "loop": "loop", "null": "/dev/null"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"-": "", "out.csv": dir + "/out.csv", "./x/../out.csv": dir + "/out.csv", "link/out.csv": dir + "/out.csv", "link/link/out.csv": dir + "/out.csv",
		"dangling.csv": dir + "/new.csv", "away/out.csv": dir + "/deep/er/out.csv", "parts/": dir + "/parts", "link/parts/": dir + "/parts", "link/": dir,
		dir + "/out.csv": dir + "/out.csv", "/dev/null": "", "null": "", "not/there/out.csv": dir + "/not/there/out.csv", "loop/x": dir + "/loop/x",
	} {
		if got := OutputPlace(path, dir); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if _, err := os.Stat(dir + "/out.csv"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("looking has made a file: %v", err)
	}
}

// TestClaimAtOnce: of two queries that begin to write one file at the same time exactly one does.
func TestClaimAtOnce(t *testing.T) {
	before := claimTime
	claimTime = 500 * time.Millisecond
	t.Cleanup(func() { claimTime = before })
	for round := range 3 {
		dir := t.TempDir()
		path := filepath.Join(dir, "out.csv")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		type outcome struct {
			c   *claim
			err error
		}
		outcomes := make(chan outcome)
		for _, owner := range []string{"a", "b"} {
			go func() {
				c, err := claimOutput(path, owner)
				outcomes <- outcome{c, err}
			}()
		}
		a, b := <-outcomes, <-outcomes
		if (a.err == nil) == (b.err == nil) || !errors.Is(errors.Join(a.err, b.err), errTaken) {
			t.Errorf("round %d: %v, %v", round, a.err, b.err)
		}
		if err := errors.Join(a.c.release(), b.c.release()); err != nil {
			t.Error(err)
		}
	}
}
