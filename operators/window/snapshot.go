package window

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/operators/expr"
	"sluice/operators/value"
)

// stateFormat is the first byte of each piece of state. A piece is
//
//	format        a byte
//	fingerprint   its length as uvarint, and the text
//	watermark     8 bytes: the one that has been reached
//	rows          8 bytes: how many places of the stream have been taken
//	part          a byte: what the rest is, one of the parts below
//	...           see write of the cores
//	checksum      8 bytes: XXH3 of all before it
const stateFormat = 1

// The parts of pieces.
const (
	partGlobal  byte = iota // no more
	partEntries             // groups, or all there is of keys
	partWaiting             // rows that wait
)

// pieceEntries and pieceText bound the entries of a piece and, unless it is one entry, their text.
const (
	pieceEntries = 1 << 16
	pieceText    = 32 << 20
)

// pieces writes pieces of state.
type pieces struct {
	head []byte // what each piece begins with
	keep func(group int, piece []byte) error
	enc  encoder
}

// piece writes one piece.
func (p *pieces) piece(group int, part byte, fill func(e *encoder)) error {
	e := &p.enc
	e.out = append(e.out[:0], p.head...)
	e.byte(part)
	fill(e)
	if e.err != nil {
		return e.err
	}
	e.word(xxh3.Hash(e.out))
	return p.keep(group, e.out)
}

// entries writes the entries 0 to n-1, whose key groups are groups, or that have none if it is nil.
// Those of a group stay in order. size is how much text an entry has; nil: none.
func (p *pieces) entries(part byte, n int, groups []uint16, size func(entry int32) int, fill func(e *encoder, entries []int32)) error {
	if n == 0 {
		return nil
	}
	list, ends := byGroup(n, groups)
	from := int32(0)
	for g, end := range ends {
		if groups == nil {
			g = operators.WholeState
		}
		for from < end {
			some := list[from:end]
			some = some[:fitting(some, size)]
			if err := p.piece(g, part, func(e *encoder) { fill(e, some) }); err != nil {
				return err
			}
			from += int32(len(some))
		}
	}
	return nil
}

// byGroup lists entries by group, and says where in the list those of each group end.
func byGroup(n int, groups []uint16) (list, ends []int32) {
	list = make([]int32, n)
	if groups == nil {
		for i := range list {
			list[i] = int32(i)
		}
		return list, []int32{int32(n)}
	}
	var next [dataflow.KeyGroups + 1]int32
	for _, g := range groups {
		next[g+1]++
	}
	for g := range dataflow.KeyGroups {
		next[g+1] += next[g]
	}
	for i, g := range groups {
		list[next[g]] = int32(i)
		next[g]++
	}
	return list, next[:dataflow.KeyGroups]
}

// fitting is how many of the first entries fit into a piece; at least one.
func fitting(entries []int32, size func(entry int32) int) int {
	n := min(len(entries), pieceEntries)
	if size == nil {
		return n
	}
	bytes := 0
	for i, entry := range entries[:n] {
		if bytes += size(entry); bytes > pieceText && i > 0 {
			return i
		}
	}
	return n
}

// keyGroups gives the key group of each of the groups that list names, nil if there are no keys.
func (g *groups) keyGroups(list []int32) []uint16 {
	if len(g.cols) == 0 {
		return nil
	}
	found := make([]uint16, 0, len(list))
	var h expr.KeyHasher
	size := g.size
	if !g.hasText() {
		size = nil
	}
	for len(list) > 0 {
		n := min(fitting(list, size), batch.TargetRows)
		keys := g.keys(list[:n])
		for i := range n {
			found = append(found, uint16(expr.KeyGroup(h.Hash(keys, i))))
		}
		list = list[n:]
	}
	return found
}

func isText(t dataflow.Type) bool { return t.Kind == dataflow.String || t.Kind == dataflow.Bytes }

func (g *groups) hasText() bool {
	return slices.ContainsFunc(g.cols, func(c column) bool { return isText(c.typ) })
}

// sizeOf gives size, or nil if neither keys nor results are text.
func sizeOf(g *groups, a *accumulators, size func(entry int32) int) func(entry int32) int {
	if g.hasText() || slices.ContainsFunc(a.calls, func(c call) bool { return isText(c.result) }) {
		return size
	}
	return nil
}

// size is how much text a key has.
func (g *groups) size(id int32) int {
	n := 0
	for c := range g.cols {
		n += g.cols[c].size(id)
	}
	return n
}

// before says which of two keys of one place in the stream is first, as keys have that come from
// different partitions: the one of the lower key group.
func (g *groups) before(a, b int32) int {
	if len(g.cols) == 0 {
		return 0
	}
	of := g.keyGroups([]int32{a, b})
	return int(of[0]) - int(of[1])
}

// clone copies what saving reads.
func (g *groups) clone() *groups {
	c := &groups{ids: ids{n: g.ids.n}, cols: make([]column, len(g.cols)), vecs: make([]batch.Vector, len(g.cols))}
	for i := range g.cols {
		c.cols[i] = g.cols[i].clone()
	}
	return c
}

func (g *groups) save(e *encoder, list []int32) {
	for c := range g.cols {
		e.column(&g.cols[c], list, nil)
	}
}

// loadKeys reads n keys, which must be of the key group, and prepares for insert.
func (g *groups) loadKeys(d *decoder, n, group int) []*batch.Vector {
	keys := make([]*batch.Vector, len(g.cols))
	for c := range g.cols {
		keys[c] = d.vector(g.cols[c].typ, n)
	}
	d.checkGroup(keys, n, group)
	g.prepare(keys, n, nil)
	return keys
}

// checkGroup checks that keys are of a key group; that without keys there is none.
func (d *decoder) checkGroup(keys []*batch.Vector, n, group int) {
	if (len(keys) == 0) != (group == operators.WholeState) {
		d.failf("it is given as one of key group %d", group)
		return
	}
	if len(keys) == 0 {
		return
	}
	var h expr.KeyHasher
	for i := 0; i < n && d.err == nil; i++ {
		if of := expr.KeyGroup(h.Hash(keys, i)); of != group {
			d.failf("it is given as one of key group %d and has a key of %d", group, of)
		}
	}
}

// insert makes a group of a key that has been loaded.
func (g *groups) insert(d *decoder, x *index, keys []*batch.Vector, r int) int32 {
	if len(keys) == 0 {
		return g.ids.take()
	}
	if g.find(x, keys, int32(r)) >= 0 {
		d.fail(errTwice)
	}
	return g.add(x, keys, int32(r))
}

var errTwice = errors.New("the state of a key is given twice")

// ranks is the order of groups while they are being loaded: of each the place that it had in its piece's
// operator, and its key group, which decides between operators.
type ranks []rank

type rank struct {
	place int64
	group int
}

func (r *ranks) set(id int32, place int64, group int) {
	*r = extend(*r, int(id)+1)
	(*r)[id] = rank{place, group}
}

// sort brings ids into order.
func (r ranks) sort(list []int32) {
	if len(r) == 0 || r.spread(list) {
		return
	}
	slices.SortFunc(list, func(a, b int32) int {
		x, y := r[a], r[b]
		switch {
		case x.place != y.place && x.place < y.place:
			return -1
		case x.place != y.place:
			return 1
		}
		return x.group - y.group
	})
}

// spread is a quick sort for the usual case, that places are nearly those from 0 to n-1.
func (r ranks) spread(list []int32) bool {
	most := int64(0)
	for _, id := range list {
		most = max(most, r[id].place)
	}
	if most > 8*int64(len(list)) {
		return false
	}
	at := make([]int32, most+1)
	for _, id := range list {
		p := &at[r[id].place]
		if *p != 0 {
			return false
		}
		*p = id + 1
	}
	n := 0
	for _, id := range at {
		if id != 0 {
			list[n] = id - 1
			n++
		}
	}
	return true
}

// Fingerprint implements operators.Stateful.
func (a *aggregate) Fingerprint() string { return a.fingerprint }

// makeFingerprint names what the state depends on: neither the select list as such, nor having.
func makeFingerprint(plan *expr.AggregatePlan, c config) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%s: %s\n", name, value) }
	var keys []string
	for _, k := range plan.Keys {
		keys = append(keys, k.String()+" "+k.Type().String())
	}
	line("operator", Descriptor.Name)
	line("group-by", strings.Join(keys, ", "))
	line("window", c.spec.text())
	line("allowed-lateness", string(value.AppendDuration(nil, c.lateness)))
	for i, call := range plan.Calls {
		line(fmt.Sprintf("aggregate %d", i+1), callText(call, c.calls[i]))
	}
	var kept []string
	for _, t := range c.payload {
		kept = append(kept, t.String())
	}
	line("late rows", strings.Join(kept, ", "))
	return b.String()
}

// text is the window in one form.
func (s Spec) text() string {
	if s.Kind == None {
		return ""
	}
	number := func(n int64) string {
		if s.Kind == Rows {
			return fmt.Sprint(n)
		}
		return string(value.AppendDuration(nil, n))
	}
	if s.Hop == s.Size || s.Hop == 0 {
		return fmt.Sprintf("%s(%s)", kindNames[s.Kind], number(s.Size))
	}
	return fmt.Sprintf("%s(%s, %s)", kindNames[s.Kind], number(s.Size), number(s.Hop))
}

func callText(call expr.AggregateCall, c call) string {
	arg := "*"
	if call.Arg != nil {
		arg = call.Arg.String() + " " + c.arg.String()
	}
	if call.Distinct {
		arg = "distinct " + arg
	}
	text := fmt.Sprintf("%s(%s) %s", functionNames[c.fn], arg, c.result)
	if call.Filter != nil {
		text += " filter " + call.Filter.String()
	}
	return text
}

var functionNames = [...]string{"count", "count", "sum", "avg", "min", "max", "stddev_samp", "var_samp", "first", "last"}

// Snapshot implements operators.Stateful.
func (a *aggregate) Snapshot(keep func(group int, piece []byte) error) error {
	a.loaded()
	return a.frozen(a.core).Write(keep)
}

// Freeze implements operators.Freezer.
func (a *aggregate) Freeze() (operators.Frozen, error) {
	a.loaded()
	return a.frozen(a.core.clone()), nil
}

// frozen is what there is to be written.
type frozen struct {
	core  core
	head  []byte
	empty bool // nothing has happened yet
}

func (a *aggregate) frozen(c core) *frozen {
	head := binary.AppendUvarint([]byte{stateFormat}, uint64(len(a.fingerprint)))
	head = append(head, a.fingerprint...)
	head = binary.LittleEndian.AppendUint64(head, uint64(a.reached))
	head = binary.LittleEndian.AppendUint64(head, uint64(a.seq))
	return &frozen{core: c, head: head, empty: a.reached == noWatermark && a.seq == 0}
}

// Write implements operators.Frozen.
func (f *frozen) Write(keep func(group int, piece []byte) error) error {
	if f.empty {
		return nil
	}
	p := &pieces{head: f.head, keep: keep}
	if err := p.piece(operators.WholeState, partGlobal, func(*encoder) {}); err != nil {
		return err
	}
	return f.core.write(p)
}

// Restore implements operators.Stateful.
func (a *aggregate) Restore(group int, piece []byte) error {
	if err := a.restore(group, piece); err != nil {
		return fmt.Errorf("a piece of state cannot be used: %w", err)
	}
	return nil
}

func (a *aggregate) restore(group int, piece []byte) error {
	if group < operators.WholeState || group >= dataflow.KeyGroups {
		return fmt.Errorf("there is no key group %d", group)
	}
	sum := len(piece) - 8
	if sum < 0 {
		return errShort
	}
	if xxh3.Hash(piece[:sum]) != binary.LittleEndian.Uint64(piece[sum:]) {
		return errors.New("it is damaged: its checksum is wrong")
	}
	d := &decoder{in: piece[:sum]}
	if err := a.header(d); err != nil {
		return err
	}
	switch part := d.byte(); part {
	case partGlobal:
		if group != operators.WholeState {
			d.failf("it is given as one of key group %d", group)
		}
	case partEntries:
		a.core.load(d, group)
	case partWaiting:
		a.core.loadWaiting(d, group)
	default:
		d.failf("it has a part %d", part)
	}
	return d.end()
}

// header reads what is common to all pieces.
func (a *aggregate) header(d *decoder) error {
	if format := d.byte(); d.err == nil && format != stateFormat {
		return fmt.Errorf("it has the format %d, and this release reads %d", format, stateFormat)
	}
	theirs := string(d.take(d.uvarint(len(d.in))))
	if d.err == nil && theirs != a.fingerprint {
		return mismatch(theirs, a.fingerprint)
	}
	reached, seq := int64(d.word()), int64(d.word())
	if d.err != nil {
		return d.err
	}
	if seq < 0 || seq > maxSeq {
		return fmt.Errorf("it has a place %d in the stream", seq)
	}
	if a.loading && a.time >= 0 && reached != a.reached {
		return fmt.Errorf("it is of another epoch than those before: it has the watermark %d, they have %d", reached, a.reached)
	}
	a.loading = true
	d.reached = reached
	a.reached = max(a.reached, reached)
	a.seq = max(a.seq, seq)
	return nil
}

// mismatch says in what two fingerprints differ.
func mismatch(theirs, ours string) error {
	their, our := strings.Split(theirs, "\n"), strings.Split(ours, "\n")
	for i := range max(len(their), len(our)) {
		x, y := lineAt(their, i), lineAt(our, i)
		if x != y {
			return fmt.Errorf("it is of an operator with %s, and this one has %s", x, y)
		}
	}
	return nil
}

func lineAt(lines []string, i int) string {
	if i < len(lines) && lines[i] != "" {
		return fmt.Sprintf("%q", lines[i])
	}
	return "nothing more"
}

// loaded is called before anything else is done with an operator that may have been given pieces.
func (a *aggregate) loaded() {
	if a.loading {
		a.loading = false
		a.core.loaded(a.reached)
	}
}
