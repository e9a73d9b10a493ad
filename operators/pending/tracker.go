package pending

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Witness tells that rows have arrived: a file of at least this length.
type Witness struct {
	File   string
	Length int64 // bytes
}

// Group is a run of epochs that were committed together.
type Group struct {
	First, Last int64 // epochs
	Witness     Witness
}

// Checker finds out which witnesses have come true.
type Checker interface {
	// Check reports for each witness whether it is confirmed. It is asked for many at a time, so that it can
	// look at a place once for all of them.
	Check(witnesses []Witness) (confirmed []bool, err error)
}

// ErrMayDouble is returned by what revokes a group if its rows may arrive nevertheless. They are sent
// again all the same, so each row arrives at least once.
var ErrMayDouble = errors.New("pending: what was sent before may arrive too")

// status is what is known of a group.
type status byte

const (
	waiting status = iota
	confirmed
	revoked // to be sent again
)

type entry struct {
	Group
	status status
	since  int64 // when it was sent, in the unit of the caller's clock
}

// Tracker knows which epochs are committed and which of them are confirmed.
type Tracker struct {
	frontier int64   // everything up to here is confirmed
	entries  []entry // above it, in order and without a gap; the first is not confirmed
	doubled  int64
}

// New makes a tracker of a sink that has everything up to an epoch confirmed.
func New(frontier int64) *Tracker { return &Tracker{frontier: frontier} }

// Frontier is the epoch up to which everything is confirmed.
func (t *Tracker) Frontier() int64 { return t.frontier }

// Last is the last epoch that has been committed, confirmed or not.
func (t *Tracker) Last() int64 {
	if n := len(t.entries); n > 0 {
		return t.entries[n-1].Last
	}
	return t.frontier
}

// Doubled is how many groups have been sent again that may arrive twice.
func (t *Tracker) Doubled() int64 { return t.doubled }

// Passed reports whether an epoch is committed, so that its rows are not needed again.
func (t *Tracker) Passed(epoch int64) bool {
	if epoch <= t.frontier {
		return true
	}
	for _, e := range t.entries {
		if epoch >= e.First && epoch <= e.Last {
			return e.status != revoked
		}
	}
	return false
}

// Add says that a group has been committed and waits to be confirmed from now on: one behind all others, or
// one that was to be sent again.
func (t *Tracker) Add(g Group, now int64) error {
	e := entry{Group: g, since: now}
	if g.First == t.Last()+1 && g.Last >= g.First {
		t.entries = append(t.entries, e)
		return nil
	}
	for i, was := range t.entries {
		if was.status == revoked && was.First == g.First && was.Last == g.Last {
			t.entries[i] = e
			return nil
		}
	}
	return fmt.Errorf("pending: epochs %d to %d are committed, where those from %d on or those that are to be sent again are due", g.First, g.Last, t.Last()+1)
}

// Confirm says that the group that begins with epoch first is confirmed. Of other epochs it says nothing.
func (t *Tracker) Confirm(first int64) {
	for i := range t.entries {
		if t.entries[i].First == first && t.entries[i].status == waiting {
			t.entries[i].status = confirmed
		}
	}
	for len(t.entries) > 0 && t.entries[0].status == confirmed {
		t.frontier = t.entries[0].Last
		t.entries = t.entries[1:]
	}
}

// Waiting lists the groups that wait to be confirmed.
func (t *Tracker) Waiting() []Group { return t.with(waiting) }

// Revoked lists the groups that are to be sent again.
func (t *Tracker) Revoked() []Group { return t.with(revoked) }

func (t *Tracker) with(s status) []Group {
	var groups []Group
	for _, e := range t.entries {
		if e.status == s {
			groups = append(groups, e.Group)
		}
	}
	return groups
}

// TimeOut revokes the groups that have waited for as long as timeout. Rows are then needed again from
// epoch from on, those of epochs that have Passed excepted; from is 0 if none are. When revoke fails, other than
// with ErrMayDouble, the group goes on waiting.
func (t *Tracker) TimeOut(now, timeout int64, revoke func(Group) error) (from int64, err error) {
	var errs []error
	for i := range t.entries {
		e := &t.entries[i]
		if e.status == waiting && now-e.since >= timeout {
			err := revoke(e.Group)
			if err != nil && !errors.Is(err, ErrMayDouble) {
				errs = append(errs, err)
				continue
			}
			if err != nil {
				t.doubled++
			}
			e.status = revoked
		}
	}
	if again := t.Revoked(); len(again) > 0 {
		from = again[0].First
	}
	return from, errors.Join(errs...)
}

// encodingVersion is the first byte of a tracker's text form.
const encodingVersion = 1

// maxFileName bounds the name in a witness, bytes.
const maxFileName = 1 << 16

// Encode gives the text form.
func (t *Tracker) Encode() []byte {
	dst := []byte{encodingVersion}
	for _, n := range []int64{t.frontier, t.doubled, int64(len(t.entries))} {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	for _, e := range t.entries {
		dst = append(dst, byte(e.status))
		for _, n := range []int64{e.Last, e.Witness.Length, int64(len(e.Witness.File))} {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
		dst = append(dst, e.Witness.File...)
	}
	return dst
}

var errEncoding = errors.New("pending: what is kept of the commits is damaged, or of another version")

// Decode reads the text form. Groups that wait have waited since now.
func Decode(src []byte, now int64) (*Tracker, error) {
	if len(src) == 0 || src[0] != encodingVersion {
		return nil, errEncoding
	}
	r := reader{src: src[1:]}
	t := New(r.number())
	t.doubled = r.number()
	for n := r.number(); n > 0 && !r.bad; n-- {
		e := entry{since: now}
		e.First = t.Last() + 1
		e.status = status(r.byte())
		e.Last, e.Witness.Length = r.number(), r.number()
		e.Witness.File = r.text()
		if e.status > revoked || e.First < 0 || e.Last < e.First || len(t.entries) == 0 && e.status == confirmed {
			return nil, errEncoding
		}
		t.entries = append(t.entries, e)
	}
	if r.bad || len(r.src) > 0 {
		return nil, errEncoding
	}
	return t, nil
}

// reader takes values from the text form.
type reader struct {
	src []byte
	bad bool
}

func (r *reader) number() int64 {
	n, used := binary.Uvarint(r.src)
	if used <= 0 || int64(n) < 0 {
		r.bad = true
		return 0
	}
	r.src = r.src[used:]
	return int64(n)
}

func (r *reader) byte() byte {
	if len(r.src) == 0 {
		r.bad = true
		return 0
	}
	b := r.src[0]
	r.src = r.src[1:]
	return b
}

func (r *reader) text() string {
	n := r.number()
	if n > maxFileName || n > int64(len(r.src)) {
		r.bad = true
		return ""
	}
	s := string(r.src[:n])
	r.src = r.src[n:]
	return s
}
