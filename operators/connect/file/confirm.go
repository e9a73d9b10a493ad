package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice/dataflow"
	"sluice/operators"
	"sluice/operators/pending"
)

// A writer with the parameter confirm publishes part files for another process to collect. A part counts
// only once it is found, with its full length, in the place that confirm names. Until then the writer keeps it
// in the folder of the parts, under a second name in the hidden folder .sluice-kept: so it can publish it
// again if it is lost, without needing its rows again, and its successor knows that it has been published
// although the part itself may have been collected.
//
// The steps of a part are: a link into .sluice-kept, with which it is committed; the link that shows it; when
// it is confirmed its kept name gets the ending .confirmed, so that it stays confirmed whatever becomes of it
// in the place where it was found; when that is recorded with a commit, the kept name goes. After a crash
// between two of them the next writer goes on from what it finds.

const (
	keptFolder      = ".sluice-kept"
	confirmedEnding = ".confirmed"

	// pollInterval is how long a writer that has rows to write waits before it looks again which parts are
	// confirmed, and waitInterval likewise of one that cannot go on before they are.
	pollInterval = time.Second
	waitInterval = 100 * time.Millisecond
)

var confirmParams = []dataflow.ParamDesc{
	{Name: "confirm", Type: dataflow.PathParam, Doc: "Part files count only once another process has brought them here, in full: a folder with a / at the end, or a pattern with {name} for the name of the part, such as archive/*/{name}. It needs state."},
	{Name: "confirm-timeout", Type: dataflow.DurationParam, Default: "10m", Doc: "A part that has been taken and is not where confirm says after this time is written again; one that nobody has taken is an error."},
}

func checkConfirm(c *dataflow.Check) {
	place := c.Op.Value("confirm")
	if place == "" {
		return
	}
	if !strings.HasSuffix(c.Op.Value("path"), "/") {
		c.ParamErrorf("confirm", 0, "", "confirm is for part files: path must be a folder with a / at the end")
	}
	if !strings.HasSuffix(place, "/") && strings.Count(place, namePlace) != 1 {
		c.ParamErrorf("confirm", 0, "", "confirm must be a folder with a / at the end, or have {name} once for the name of a part; it is %q", place)
	}
	if _, err := filepath.Match(place, ""); err != nil {
		c.ParamErrorf("confirm", 0, "", "confirm: pattern %q: %s", place, err)
	}
	if us, err := dataflow.ParseDuration(c.Op.Value("confirm-timeout")); err == nil && us == 0 {
		c.ParamErrorf("confirm-timeout", 0, "", "confirm-timeout must be more than 0s")
	}
}

// confirmation is what a writer with the parameter confirm has beside its parts.
type confirmation struct {
	parts    *parts
	kept     string // folder
	checker  pending.Checker
	timeout  time.Duration
	tracker  *pending.Tracker
	counters *operators.Counters
	now      func() time.Time

	polled    bool      // who runs the writer calls Confirm, so that Commit need not wait
	looked    time.Time // when it was looked last
	written   int64     // the last epoch that is committed, with or without rows
	reached   int64     // the frontier: it never goes back, also when a part begins with epochs that had no rows
	removable []string  // kept names that are not needed once what was returned last is recorded
}

func newConfirmation(ctx *operators.Context, p *parts) (*confirmation, error) {
	us, err := dataflow.ParseDuration(ctx.Op.Value("confirm-timeout"))
	if err != nil {
		return nil, fmt.Errorf("confirm-timeout: %w", err)
	}
	place := ctx.Op.Value("confirm")
	if strings.HasSuffix(place, "/") {
		place += namePlace
	}
	place = resolvePath(quoteMeta(ctx.Dir), place)
	return &confirmation{
		parts: p, kept: filepath.Join(p.dir, keptFolder), checker: &placeChecker{place: place, folders: sharedFolders},
		timeout: time.Duration(us) * time.Microsecond, tracker: pending.New(0), counters: ctx.Counters, now: time.Now,
	}, nil
}

// publish commits the part of a temporary file and shows it.
func (c *confirmation) publish(tmp, name string, first, last int64) error {
	info, err := os.Stat(tmp)
	if err != nil {
		return err
	}
	if err := os.Link(tmp, filepath.Join(c.kept, name)); err != nil {
		return err
	}
	g := pending.Group{First: first, Last: last, Witness: pending.Witness{File: name, Length: info.Size()}}
	if err := c.tracker.Add(g, c.now().UnixMicro()); err != nil {
		return err
	}
	// From the temporary file, which a successor has removed if it has gone on meanwhile.
	return os.Link(tmp, filepath.Join(c.parts.dir, name))
}

// look finds out which parts are confirmed, and publishes again those that are lost.
func (c *confirmation) look() error {
	c.looked = c.now()
	waiting := c.tracker.Waiting()
	if len(waiting) == 0 {
		return nil
	}
	witnesses := make([]pending.Witness, len(waiting))
	for i, g := range waiting {
		witnesses[i] = g.Witness
	}
	found, err := c.checker.Check(witnesses)
	if err != nil {
		return err
	}
	for i, g := range waiting {
		if !found[i] {
			continue
		}
		kept := filepath.Join(c.kept, g.Witness.File)
		if err := os.Rename(kept, kept+confirmedEnding); err != nil {
			return c.parts.fenced(err)
		}
		c.tracker.Confirm(g.First)
	}
	return c.again()
}

// again publishes the parts whose time is over once more.
func (c *confirmation) again() error {
	if _, err := os.Stat(c.parts.work); err != nil {
		return c.parts.fenced(err) // it is for the successor to say what is lost
	}
	now := c.now().UnixMicro()
	_, err := c.tracker.TimeOut(now, c.timeout.Microseconds(), c.revoke)
	for _, g := range c.tracker.Revoked() {
		name := g.Witness.File
		if err := os.Link(filepath.Join(c.kept, name), filepath.Join(c.parts.dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
			return errors.Join(err, fmt.Errorf("part %s has not been confirmed, and cannot be written again without its copy in %q", name, c.kept))
		}
		if err := c.tracker.Add(g, now); err != nil {
			return err
		}
		c.counters.Resent.Add(1)
	}
	return err
}

// revoke makes sure that what there is of a part that has been taken does not come to be confirmed. The
// process that took it may have more of it, and bring that later under the same name.
func (c *confirmation) revoke(g pending.Group) error {
	if _, err := os.Stat(filepath.Join(c.parts.dir, g.Witness.File)); err == nil {
		return fmt.Errorf("part %s has not been collected for %v: is the process running that brings parts to the place that confirm names? Start the query again once it is, or set confirm-timeout", filepath.Join(c.parts.dir, g.Witness.File), c.timeout)
	}
	if p, ok := c.checker.(*placeChecker); ok {
		if err := p.removeIncomplete(g.Witness); err != nil {
			return err
		}
	}
	return pending.ErrMayDouble
}

// frontier is the epoch up to which everything is confirmed.
func (c *confirmation) frontier() int64 {
	c.reached = max(c.reached, c.tracker.Frontier())
	if len(c.tracker.Waiting()) == 0 {
		c.reached = max(c.reached, c.written)
	}
	return c.reached
}

// wait waits until everything is confirmed.
func (c *confirmation) wait() error {
	for {
		if err := c.look(); err != nil || len(c.tracker.Waiting()) == 0 {
			return err
		}
		time.Sleep(waitInterval)
	}
}

// committing is called at the beginning of each commit: what the last one returned has been recorded.
func (c *confirmation) committing() error {
	var errs []error
	for _, name := range c.removable {
		if err := os.Remove(filepath.Join(c.kept, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	c.removable = c.removable[:0]
	return errors.Join(errs...)
}

// committed is called at the end of a commit of everything up to epoch, and adds to its witness.
func (c *confirmation) committed(epoch int64, witness []byte, now bool) ([]byte, error) {
	c.written = epoch
	var err error
	switch {
	case now && !c.polled:
		err = c.wait()
	case c.now().Sub(c.looked) >= pollInterval:
		err = c.look()
	}
	if err != nil {
		return nil, err
	}
	return c.witness(witness)
}

// witness adds what is known to the witness of a commit.
func (c *confirmation) witness(witness []byte) ([]byte, error) {
	kept, err := c.list()
	if err != nil {
		return nil, err
	}
	c.removable = c.removable[:0]
	for _, k := range kept {
		if k.confirmed {
			c.removable = append(c.removable, k.name+confirmedEnding)
		}
	}
	return append(witness, c.tracker.Encode()...), nil
}

// keptPart is a name in the folder of kept parts.
type keptPart struct {
	partName
	confirmed bool
}

// begun reports whether a writer has kept parts here.
func (c *confirmation) begun() bool {
	entries, _ := os.ReadDir(c.kept)
	return len(entries) > 0
}

// list lists the kept parts in order.
func (c *confirmation) list() ([]keptPart, error) {
	entries, err := os.ReadDir(c.kept)
	if err != nil {
		return nil, c.parts.fenced(err)
	}
	var kept []keptPart
	for _, e := range entries {
		name, confirmed := strings.CutSuffix(e.Name(), confirmedEnding)
		x, err := c.parts.parseName(name)
		if err != nil {
			return nil, err
		}
		kept = append(kept, keptPart{x, confirmed})
	}
	slices.SortFunc(kept, func(a, b keptPart) int { return int(a.first - b.first) })
	return kept, nil
}

// recover finds out what has been published and what is confirmed. What the recorded tracker knows is in
// encoded; it is empty at the very beginning. added is called for each part that was committed after that.
func (c *confirmation) recover(encoded []byte, epoch int64, added func(keptPart) error) error {
	now := c.now().UnixMicro()
	c.written = epoch
	if len(encoded) > 0 {
		var err error
		if c.tracker, err = pending.Decode(encoded, now); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.kept, 0o777); err != nil {
		return err
	}
	kept, err := c.list()
	if err != nil {
		return err
	}
	for _, k := range kept {
		if k.first == c.tracker.Last()+1 {
			if err := c.adopt(k, now); err != nil {
				return err
			}
			if err := added(k); err != nil {
				return err
			}
		}
		if k.confirmed {
			c.tracker.Confirm(k.first)
		}
	}
	c.written = max(c.written, c.tracker.Last())
	return nil
}

func (c *confirmation) adopt(k keptPart, now int64) error {
	info, err := os.Stat(c.path(k))
	if err != nil {
		return err
	}
	return c.tracker.Add(pending.Group{First: k.first, Last: k.last, Witness: pending.Witness{File: k.name, Length: info.Size()}}, now)
}

// path is where a kept part is.
func (c *confirmation) path(k keptPart) string {
	if k.confirmed {
		return filepath.Join(c.kept, k.name+confirmedEnding)
	}
	return filepath.Join(c.kept, k.name)
}

// close tidies up after a query that has run to its end, whose last commit has been recorded.
func (c *confirmation) close(commit bool) error {
	if !commit {
		return nil
	}
	err := c.committing()
	if e := os.Remove(c.kept); e != nil && !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, syscall.ENOTEMPTY) {
		err = errors.Join(err, e)
	}
	return err
}

var _ operators.Pending = (*writer)(nil)

// Confirm implements operators.Pending.
func (w *writer) Confirm() (int64, []byte, error) {
	if w.parts == nil || w.parts.confirm == nil {
		return operators.Everything, nil, nil
	}
	c := w.parts.confirm
	c.polled = true
	if c.now().Sub(c.looked) < pollInterval {
		return c.frontier(), nil, nil
	}
	before := string(c.tracker.Encode())
	if err := c.look(); err != nil {
		return 0, nil, err
	}
	if string(c.tracker.Encode()) == before {
		return c.frontier(), nil, nil
	}
	witness, err := c.witness(w.lastWitness.encode())
	return c.frontier(), witness, err
}
