package pending

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func group(epoch int64) Group {
	return Group{First: epoch, Last: epoch, Witness: Witness{File: fmt.Sprint("part-", epoch), Length: 10 * epoch}}
}

func passed(t *Tracker, epochs ...int64) []bool {
	var got []bool
	for _, e := range epochs {
		got = append(got, t.Passed(e))
	}
	return got
}

// TestHole: of the epochs 1 to 5 all but 3 are confirmed. Those behind it are held, and when its time is over
// it is sent again, and it alone.
func TestHole(t *testing.T) {
	tr := New(0)
	for e := range int64(5) {
		if err := tr.Add(group(e+1), 100); err != nil {
			t.Fatal(err)
		}
	}
	for _, first := range []int64{1, 2, 4, 5} {
		tr.Confirm(first)
	}
	if tr.Frontier() != 2 || tr.Last() != 5 {
		t.Fatalf("the frontier is %d of %d", tr.Frontier(), tr.Last())
	}
	if from, err := tr.TimeOut(109, 10, func(Group) error { return errors.New("too early") }); from != 0 || err != nil {
		t.Fatalf("before the time is over: from %d, %v", from, err)
	}
	var gone []Group
	from, err := tr.TimeOut(110, 10, func(g Group) error { gone = append(gone, g); return nil })
	if from != 3 || err != nil || !slices.Equal(gone, []Group{group(3)}) {
		t.Fatalf("rows are needed from %d on, %v is revoked, %v", from, gone, err)
	}
	if got := passed(tr, 2, 3, 4, 5, 6); !slices.Equal(got, []bool{true, false, true, true, false}) {
		t.Fatalf("epochs 2 to 6 are passed over: %v", got)
	}
	tr.Confirm(3) // an answer to what has been revoked
	if tr.Frontier() != 2 {
		t.Fatal("what was revoked has been confirmed")
	}
	if err := tr.Add(group(3), 110); err != nil {
		t.Fatal(err)
	}
	tr.Confirm(3)
	if tr.Frontier() != 5 || tr.Doubled() != 0 {
		t.Fatalf("in the end the frontier is %d, %d may have come twice", tr.Frontier(), tr.Doubled())
	}
}

// TestRevoking: a group that cannot be revoked goes on waiting, one that may come twice is counted.
func TestRevoking(t *testing.T) {
	tr := New(0)
	if err := errors.Join(tr.Add(group(1), 0), tr.Add(group(2), 0)); err != nil {
		t.Fatal(err)
	}
	trouble := errors.New("no")
	from, err := tr.TimeOut(5, 5, func(g Group) error {
		if g.First == 1 {
			return trouble
		}
		return fmt.Errorf("file %s: %w", g.Witness.File, ErrMayDouble)
	})
	if from != 2 || !errors.Is(err, trouble) || tr.Doubled() != 1 || len(tr.Waiting()) != 1 || len(tr.Revoked()) != 1 {
		t.Errorf("from %d, error %v, %d doubled, %v waiting, %v revoked", from, err, tr.Doubled(), tr.Waiting(), tr.Revoked())
	}
}

func TestAddInOrder(t *testing.T) {
	tr := New(3)
	for _, g := range []Group{group(3), group(5), {First: 4, Last: 3}} {
		if err := tr.Add(g, 0); err == nil {
			t.Errorf("%v is taken", g)
		}
	}
	if err := tr.Add(Group{First: 4, Last: 6}, 0); err != nil {
		t.Fatal(err)
	}
	if err := tr.Add(Group{First: 4, Last: 6}, 0); err == nil {
		t.Error("a group that waits is taken again")
	}
}

// TestTracker: against a map of every epoch, whatever is committed, confirmed, revoked or read back.
func TestTracker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := New(0)
		model := map[int64]status{}
		groups := map[int64]Group{} // by first
		last := int64(0)
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				g := Group{First: last + 1, Last: last + rapid.Int64Range(1, 3).Draw(t, "epochs"), Witness: Witness{File: "f", Length: last}}
				if err := tr.Add(g, 0); err != nil {
					t.Fatal(err)
				}
				last, groups[g.First] = g.Last, g
				set(model, g, waiting)
			case 1:
				first := rapid.Int64Range(0, last+1).Draw(t, "confirmed")
				tr.Confirm(first)
				if g, ok := groups[first]; ok && model[first] == waiting {
					set(model, g, confirmed)
				}
			case 2:
				one := rapid.Int64Range(0, last).Draw(t, "overdue")
				_, err := tr.TimeOut(1, 1, func(g Group) error {
					if g.First > one {
						return errors.New("not this one")
					}
					set(model, g, revoked)
					return nil
				})
				if err == nil && slices.ContainsFunc(tr.Waiting(), func(g Group) bool { return g.First > one }) {
					t.Fatal("what could not be revoked is not told")
				}
			case 3:
				for _, g := range tr.Revoked() {
					if err := tr.Add(g, 0); err != nil {
						t.Fatal(err)
					}
					set(model, g, waiting)
				}
			case 4:
				again, err := Decode(tr.Encode(), 0)
				if err != nil {
					t.Fatal(err)
				}
				tr = again
			}
			frontier := int64(0)
			for model[frontier+1] == confirmed && frontier < last {
				frontier++
			}
			if tr.Frontier() != frontier || tr.Last() != last {
				t.Fatalf("frontier %d of %d, want %d of %d", tr.Frontier(), tr.Last(), frontier, last)
			}
			for e := int64(1); e <= last+1; e++ {
				if want := e <= last && model[e] != revoked; tr.Passed(e) != want {
					t.Fatalf("epoch %d is passed over: %v", e, !want)
				}
			}
		}
	})
}

func set(model map[int64]status, g Group, s status) {
	for e := g.First; e <= g.Last; e++ {
		model[e] = s
	}
}

// TestDecodeDamaged: whatever the bytes are, there is an error or a sound tracker.
func TestDecodeDamaged(t *testing.T) {
	tr := New(2)
	if err := errors.Join(tr.Add(group(3), 0), tr.Add(group(4), 0)); err != nil {
		t.Fatal(err)
	}
	tr.Confirm(4)
	whole := tr.Encode()
	for n := range whole {
		if _, err := Decode(whole[:n], 0); err == nil {
			t.Errorf("%d bytes of %d are taken", n, len(whole))
		}
	}
	if _, err := Decode(append(whole, 0), 0); err == nil {
		t.Error("a byte too many is taken")
	}
	rapid.Check(t, func(t *rapid.T) {
		src := append([]byte{encodingVersion}, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")...)
		if tr, err := Decode(src, 0); err == nil && tr.Last() < tr.Frontier() {
			t.Fatalf("the last epoch %d is before the frontier %d", tr.Last(), tr.Frontier())
		}
	})
}
