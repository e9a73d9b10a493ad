package window

// A dumb model of windows and aggregates: plain Go over lists of rows, one row at a time. It uses
// nothing of the package; what it shares with the tests are the types in this file.

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// modelRow is a row. Values are int64, float64, *big.Int (unscaled decimal), string, bool, or nil.
type modelRow struct {
	seq, time, watermark int64
	key                  []any
	args                 []any  // one for each call
	pass                 []bool // one for each call: what its filter says
}

func (r *modelRow) keyText() string {
	var b strings.Builder
	for _, k := range r.key {
		switch v := k.(type) {
		case nil:
			b.WriteString("|null")
		case float64:
			if v == 0 {
				v = 0
			}
			fmt.Fprintf(&b, "|%v", v)
		default:
			fmt.Fprintf(&b, "|%T %v", v, v)
		}
	}
	return b.String()
}

// modelCall is an aggregate call.
type modelCall struct {
	fn       string // "count(*)", "count", "sum", ...
	distinct bool
	scale    int // of the result, if it is an average of decimals
	argScale int
	duration bool // an average that is a duration
}

// modelOut is a row that comes out.
type modelOut struct {
	key        []any
	values     []any
	start, end int64
	watermark  int64
	bad        bool // some value is out of range
}

type modelResult struct {
	out  []modelOut
	late int64   // times a row was dropped from a window
	lost []int64 // seq of the rows dropped from all of their windows
}

type modelQuery struct {
	kind      string // "", "tumbling", "hopping", "session", "rows"
	size, hop int64
	lateness  int64
	keyed     bool
	calls     []modelCall
}

const modelMin, modelMax = math.MinInt64, math.MaxInt64

func (q *modelQuery) run(rows []modelRow) modelResult {
	switch q.kind {
	case "tumbling", "hopping":
		return q.runTimed(rows)
	case "session":
		return q.runSessions(rows)
	case "rows":
		return q.runRows(rows)
	}
	return q.runWhole(rows)
}

// byKey parts rows by key, keys in order of first appearance.
func byKey(rows []*modelRow) [][]*modelRow {
	at := map[string]int{}
	var parts [][]*modelRow
	for _, r := range rows {
		k := r.keyText()
		i, ok := at[k]
		if !ok {
			i = len(parts)
			at[k] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], r)
	}
	return parts
}

func pointers(rows []modelRow) []*modelRow {
	ps := make([]*modelRow, len(rows))
	for i := range rows {
		ps[i] = &rows[i]
	}
	return ps
}

func bySeq(rows []*modelRow) []*modelRow {
	s := slices.Clone(rows)
	slices.SortFunc(s, func(a, b *modelRow) int { return cmp.Compare(a.seq, b.seq) })
	return s
}

func (q *modelQuery) group(rows []*modelRow, start, end, watermark int64) modelOut {
	o := modelOut{start: start, end: end, watermark: watermark}
	if len(rows) > 0 {
		o.key = rows[0].key
	}
	for i, c := range q.calls {
		v, ok := c.value(rows, i)
		o.values = append(o.values, v)
		o.bad = o.bad || !ok
	}
	return o
}

func (q *modelQuery) runWhole(rows []modelRow) modelResult {
	var res modelResult
	for _, g := range byKey(pointers(rows)) {
		res.out = append(res.out, q.group(g, 0, 0, modelMin))
	}
	if !q.keyed && len(rows) == 0 {
		res.out = append(res.out, q.group(nil, 0, 0, modelMin))
	}
	return res
}

func (q *modelQuery) runRows(rows []modelRow) modelResult {
	var res modelResult
	type at struct {
		seq int64
		out modelOut
	}
	var full []at
	var rest []modelOut
	for _, g := range byKey(pointers(rows)) {
		for i := int64(0); i < int64(len(g)); i += q.hop {
			if to := i + q.size; to <= int64(len(g)) {
				last := g[to-1]
				full = append(full, at{last.seq, q.group(g[i:to], 0, 0, last.watermark)})
			} else {
				rest = append(rest, q.group(g[i:], 0, 0, modelMin))
			}
		}
	}
	slices.SortFunc(full, func(a, b at) int { return cmp.Compare(a.seq, b.seq) })
	for _, f := range full {
		res.out = append(res.out, f.out)
	}
	res.out = append(res.out, rest...)
	return res
}

// timedOut is an output row with its place in the order of emission.
type timedOut struct {
	trigger    int64
	correction int // 0 for a pane, else 1
	n          int // order among equals
	out        modelOut
}

func sortTimed(outs []timedOut) []modelOut {
	slices.SortStableFunc(outs, func(a, b timedOut) int {
		return cmp.Or(cmp.Compare(a.trigger, b.trigger), cmp.Compare(a.correction, b.correction), cmp.Compare(a.n, b.n))
	})
	var list []modelOut
	for _, o := range outs {
		list = append(list, o.out)
	}
	return list
}

func (q *modelQuery) runTimed(rows []modelRow) modelResult {
	var res modelResult
	onTime := map[int64][]*modelRow{} // by start of window
	late := map[int64][]*modelRow{}
	for i := range rows {
		r := &rows[i]
		dropped, windows := 0, 0
		for start := r.time - q.size - 2*q.hop; start <= r.time; start++ {
			if ((start%q.hop)+q.hop)%q.hop != 0 || r.time >= start+q.size {
				continue
			}
			windows++
			switch end := start + q.size; {
			case end > r.watermark:
				onTime[start] = append(onTime[start], r)
			case end+q.lateness > r.watermark:
				late[start] = append(late[start], r)
			default:
				dropped++
			}
		}
		res.late += int64(dropped)
		if dropped == windows {
			res.lost = append(res.lost, r.seq)
		}
	}
	var outs []timedOut
	for start, list := range onTime {
		for n, g := range byKey(list) {
			outs = append(outs, timedOut{start + q.size, 0, n, q.group(g, start, start+q.size, start+q.size-1)})
		}
	}
	// Corrections come by watermark, then by arrival, then by window.
	var lateRows []*modelRow
	windows := map[*modelRow][]int64{}
	for start, list := range late {
		for _, r := range list {
			if windows[r] == nil {
				lateRows = append(lateRows, r)
			}
			windows[r] = append(windows[r], start)
		}
	}
	byWatermark(lateRows)
	n := 0
	for i, r := range lateRows {
		slices.Sort(windows[r])
		for _, start := range windows[r] {
			var g []*modelRow
			for _, x := range onTime[start] {
				if x.keyText() == r.keyText() {
					g = append(g, x)
				}
			}
			for _, x := range lateRows[:i+1] {
				if slices.Contains(windows[x], start) && x.keyText() == r.keyText() {
					g = append(g, x)
				}
			}
			n++
			outs = append(outs, timedOut{r.watermark, 1, n, q.group(bySeq(g), start, start+q.size, r.watermark)})
		}
	}
	res.out = sortTimed(outs)
	return res
}

func byWatermark(rows []*modelRow) {
	slices.SortFunc(rows, func(a, b *modelRow) int {
		return cmp.Or(cmp.Compare(a.watermark, b.watermark), cmp.Compare(a.seq, b.seq))
	})
}

type modelSession struct {
	start, end int64
	rows       []*modelRow
	emitted    bool
}

func (s *modelSession) first() int64 { return bySeq(s.rows)[0].seq }

func (q *modelQuery) runSessions(rows []modelRow) modelResult {
	var res modelResult
	var open []*modelSession
	pass := func(w int64) {
		var ended []*modelSession
		for _, s := range open {
			if !s.emitted && s.end <= w {
				ended = append(ended, s)
			}
		}
		slices.SortFunc(ended, func(a, b *modelSession) int {
			return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start), cmp.Compare(a.first(), b.first()))
		})
		for _, s := range ended {
			s.emitted = true
			res.out = append(res.out, q.group(bySeq(s.rows), s.start, s.end, s.end-1))
		}
		open = slices.DeleteFunc(open, func(s *modelSession) bool { return s.emitted && s.end+q.lateness <= w })
	}
	all := pointers(rows)
	byWatermark(all)
	for _, r := range all {
		pass(r.watermark)
		s := &modelSession{start: r.time, end: r.time + q.size, rows: []*modelRow{r}}
		var others []*modelSession
		joined := false
		for _, o := range open {
			if o.rows[0].keyText() == r.keyText() && o.start < r.time+q.size && r.time < o.end {
				s.start, s.end = min(s.start, o.start), max(s.end, o.end)
				s.rows = append(s.rows, o.rows...)
				joined = true
			} else {
				others = append(others, o)
			}
		}
		if !joined && s.end+q.lateness <= r.watermark {
			res.late++
			res.lost = append(res.lost, r.seq)
			continue
		}
		open = append(others, s)
		if s.end <= r.watermark {
			s.emitted = true
			res.out = append(res.out, q.group(bySeq(s.rows), s.start, s.end, r.watermark))
		}
	}
	pass(modelMax - q.lateness)
	return res
}

// value computes call number i over rows in stream order; false means that it is out of range.
func (c *modelCall) value(rows []*modelRow, i int) (any, bool) {
	var list []any
	seen := map[string]bool{}
	n := int64(0)
	for _, r := range rows {
		if !r.pass[i] {
			continue
		}
		n++
		v := r.args[i]
		if v == nil {
			continue
		}
		if c.distinct {
			text := fmt.Sprintf("%v", v)
			if f, ok := v.(float64); ok && f == 0 {
				text = "0"
			}
			if seen[text] {
				continue
			}
			seen[text] = true
		}
		list = append(list, v)
	}
	switch c.fn {
	case "count(*)":
		return n, true
	case "count":
		return int64(len(list)), true
	}
	if len(list) == 0 {
		return nil, true
	}
	switch c.fn {
	case "first":
		return list[0], true
	case "last":
		return list[len(list)-1], true
	case "min", "max":
		best := list[0]
		for _, v := range list[1:] {
			if d := modelCompare(v, best); c.fn == "min" && d < 0 || c.fn == "max" && d > 0 {
				best = v
			}
		}
		return best, true
	case "sum":
		return modelSum(list)
	case "avg":
		return c.average(list)
	}
	if len(list) < 2 {
		return nil, true
	}
	mean, total := 0.0, 0.0
	for _, v := range list {
		mean += c.float(v) / float64(len(list))
	}
	for _, v := range list {
		total += (c.float(v) - mean) * (c.float(v) - mean)
	}
	variance := total / float64(len(list)-1)
	if c.fn == "stddev" {
		return math.Sqrt(variance), true
	}
	return variance, true
}

func (c *modelCall) float(v any) float64 {
	switch x := v.(type) {
	case int64:
		return float64(x)
	case *big.Int:
		f, _ := new(big.Float).SetInt(x).Float64()
		return f / math.Pow10(c.argScale)
	}
	return v.(float64)
}

func modelCompare(a, b any) int {
	switch x := a.(type) {
	case int64:
		return cmp.Compare(x, b.(int64))
	case float64:
		y := b.(float64)
		switch {
		case math.IsNaN(x) && math.IsNaN(y):
			return 0
		case math.IsNaN(x):
			return 1
		case math.IsNaN(y):
			return -1
		}
		return cmp.Compare(x, y)
	case *big.Int:
		return x.Cmp(b.(*big.Int))
	case string:
		return bytes.Compare([]byte(x), []byte(b.(string)))
	case bool:
		switch {
		case x == b.(bool):
			return 0
		case x:
			return 1
		}
		return -1
	}
	panic("model: no order")
}

func modelSum(list []any) (any, bool) {
	switch list[0].(type) {
	case float64:
		s := 0.0
		for _, v := range list {
			s += v.(float64)
		}
		return s, true
	case *big.Int:
		s := bigSum(list)
		return s, len(new(big.Int).Abs(s).String()) <= 38
	}
	s := bigSum(list)
	return s.Int64(), s.IsInt64()
}

func bigSum(list []any) *big.Int {
	s := new(big.Int)
	for _, v := range list {
		switch x := v.(type) {
		case int64:
			s.Add(s, big.NewInt(x))
		case *big.Int:
			s.Add(s, x)
		}
	}
	return s
}

func (c *modelCall) average(list []any) (any, bool) {
	n := big.NewInt(int64(len(list)))
	switch list[0].(type) {
	case float64:
		s, _ := modelSum(list)
		return s.(float64) / float64(len(list)), true
	case *big.Int:
		s := bigSum(list)
		if len(new(big.Int).Abs(s).String()) > 38 {
			return nil, false
		}
		up := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(c.scale-c.argScale)), nil)
		v := halfAway(s.Mul(s, up), n)
		return v, len(new(big.Int).Abs(v).String()) <= 38
	}
	s := bigSum(list)
	if c.duration {
		return halfAway(s, n).Int64(), true
	}
	f, _ := new(big.Rat).SetFrac(s, n).Float64()
	return f, true
}

// halfAway is a/n rounded to the nearest integer, halves away from zero.
func halfAway(a, n *big.Int) *big.Int {
	twice := new(big.Int).Mul(new(big.Int).Abs(a), big.NewInt(2))
	q := twice.Add(twice, n)
	q.Quo(q, new(big.Int).Mul(n, big.NewInt(2)))
	if a.Sign() < 0 {
		q.Neg(q)
	}
	return q
}
