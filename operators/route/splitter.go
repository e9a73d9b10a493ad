package route

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators"
	"sluice/operators/expr"
)

// Splitter describes the operator type "splitter".
var Splitter = &dataflow.Descriptor{
	Name: "splitter",
	Doc:  "Divides a stream among its outputs: by key, or where there is none epoch by epoch.",
	Params: []dataflow.ParamDesc{
		{Name: "key", Type: dataflow.TextParam, Doc: "Expressions, separated by commas; rows for which they are equal go to one output."},
		{Name: "routes", Type: dataflow.TextParam, Settable: true, Doc: "Which output gets which of the key groups 0-719, as in 0-359=1, 360-719=2; by default equal parts."},
	},
	MinInputs: 1, MaxInputs: 1, ManyOutputs: true,
	Added: true, Stateless: true, Deterministic: true, Divides: true, Passthrough: true,
	Check: func(c *dataflow.Check) []*dataflow.Schema {
		if c.Inputs[0].Schema != nil {
			_, errs := compileKey(c.Op, expr.NewScope(c.Inputs[0].Stream, c.Inputs[0].Schema))
			operators.ReportExpression(c, "key", errs)
		}
		if _, err := parseRoutes(c.Op.Value("routes"), len(c.Op.Outputs)); err != nil {
			c.ParamErrorf("routes", 0, "", "%s", err)
		}
		if c.Op.Value("key") == "" && c.Op.Value("routes") != "" {
			c.ParamErrorf("routes", 0, "", "routes needs a key: without one whole epochs take turns")
		}
		return sameForAll(c)
	},
}

// routes says to which output, from 0, each key group goes.
type routes [dataflow.KeyGroups]int32

// parseRoutes reads routes such as "0-359=1, 360-719=2" to k outputs. Every key group must have one; no
// text gives each output an equal part.
func parseRoutes(text string, k int) (*routes, error) {
	r := &routes{}
	if strings.TrimSpace(text) == "" {
		for i := range k {
			from, to := GroupRange(i, k)
			for g := from; g < to; g++ {
				r[g] = int32(i)
			}
		}
		return r, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		groups, output, _ := strings.Cut(strings.TrimSpace(entry), "=")
		from, to, err := parseGroups(groups)
		n, err2 := strconv.Atoi(output)
		if err != nil || err2 != nil || n < 1 || n > k {
			return nil, fmt.Errorf("routes must have the form FIRST-LAST=OUTPUT, with key groups 0-%d and outputs 1-%d; one is %q", dataflow.KeyGroups-1, k, entry)
		}
		for g := from; g < to; g++ {
			if r[g] != 0 {
				return nil, fmt.Errorf("routes gives key group %d to two outputs", g)
			}
			r[g] = int32(n)
		}
	}
	for g := range r {
		if r[g] == 0 {
			return nil, fmt.Errorf("routes gives key group %d to no output", g)
		}
		r[g]--
	}
	return r, nil
}

// sameForAll gives every output the type of the first input.
func sameForAll(c *dataflow.Check) []*dataflow.Schema {
	schemas := make([]*dataflow.Schema, len(c.Op.Outputs))
	for i := range schemas {
		schemas[i] = c.Inputs[0].Schema
	}
	return schemas
}

const hashCall = "hash("

// compileKey makes the program that hashes the key; nil if the operator has none.
func compileKey(op *dataflow.Operator, s *expr.Scope) (*expr.Program, expr.Errors) {
	key := op.Value("key")
	if key == "" {
		return nil, nil
	}
	p, errs := expr.Compile(hashCall+key+")", s)
	for i := range errs {
		errs[i].Offset = max(0, errs[i].Offset-len(hashCall))
	}
	return p, errs
}

// keyGroups finds the key group of each row.
type keyGroups struct {
	hash   *expr.Program
	expr   expr.Context
	column int // index of the column that is the key, -1 if it is anything else
}

// newKeyGroups compiles the key of an operator; nil if it has none.
func newKeyGroups(op *dataflow.Operator) (*keyGroups, error) {
	in := &op.Inputs[0]
	scope := expr.NewScope(in.Scope(), in.Schema)
	p, errs := compileKey(op, scope)
	switch {
	case len(errs) > 0:
		return nil, errs
	case p == nil:
		return nil, nil
	}
	k := &keyGroups{hash: p, column: -1}
	if one, errs := expr.Compile(op.Value("key"), scope); len(errs) == 0 { // several are no expression
		k.column = one.ColumnIndex()
	}
	return k, nil
}

// words are the values of the key in b if it is a column of 64-bit numbers, none of which is NULL; else nil.
func (k *keyGroups) words(b *batch.Batch) *batch.Vector {
	if k.column < 0 || b.Cols[k.column].Valid != nil {
		return nil
	}
	v := &b.Cols[k.column]
	switch v.Type.Kind {
	case dataflow.Int, dataflow.Timestamp, dataflow.Duration:
		return v
	}
	return nil
}

// eval gives the hash of each row of b that is selected; expr.KeyGroup makes a key group of it. A row whose
// key cannot be computed is a bad row of the operator that has the key; it gets there by way of group 0.
func (k *keyGroups) eval(clock int64, b *batch.Batch) []int64 {
	k.expr.Clock = clock
	v := k.hash.Eval(&k.expr, b, b.Sel)
	if errs := k.expr.Errors(); len(errs) > 0 {
		for _, e := range errs {
			v.Ints[e.Row] = 0
		}
		k.expr.Reset()
	}
	return v.Ints
}

// GroupRange is the key groups, from included to excluded, of partition i out of k.
func GroupRange(i, k int) (from, to int) {
	return i * dataflow.KeyGroups / k, (i + 1) * dataflow.KeyGroups / k
}

type splitter struct {
	ctx   *operators.Context
	keys  *keyGroups // nil: by epoch
	owner *routes
	parts division
	out   batch.Batch
}

// NewSplitter makes a running splitter.
func NewSplitter(ctx *operators.Context) (operators.Operator, error) {
	keys, err := newKeyGroups(ctx.Op)
	if err != nil {
		return nil, err
	}
	k := len(ctx.Outputs)
	if k == 0 {
		return nil, fmt.Errorf("a splitter needs at least one output")
	}
	owner, err := parseRoutes(ctx.Op.Value("routes"), k)
	if err != nil {
		return nil, err
	}
	return &splitter{ctx: ctx, keys: keys, owner: owner, parts: division{sels: make([][]int32, k)}}, nil
}

// Process implements operators.Operator.
func (s *splitter) Process(_ int, b *batch.Batch) error {
	if s.keys == nil {
		// The turn follows from the epoch's number alone: an instance that begins later takes the same.
		return s.ctx.Outputs[(*s.ctx.Epoch-1)%int64(len(s.ctx.Outputs))].Emit(b)
	}
	for i, sel := range s.divide(b) {
		if len(sel) == 0 {
			continue
		}
		s.out = *b
		s.out.Sel = sel
		if err := s.ctx.Outputs[i].Emit(&s.out); err != nil {
			return err
		}
	}
	return nil
}

// divide lists the rows of each output.
func (s *splitter) divide(b *batch.Batch) [][]int32 {
	if v := s.keys.words(b); v != nil && b.Sel == nil {
		return s.parts.divideWords(s.owner, v.Ints[:b.Len], byte(v.Type.Kind))
	}
	return s.parts.divide(s.owner, s.keys.eval(*s.ctx.Clock, b)[:b.Len], b.Sel)
}

// EndEpoch implements operators.Operator.
func (s *splitter) EndEpoch(operators.Mark) error { return nil }

// Set implements operators.Settable.
func (s *splitter) Set(param, value string) error {
	if param != "routes" {
		return operators.NotSettable(s.ctx.Op, param)
	}
	owner, err := parseRoutes(value, len(s.ctx.Outputs))
	if err != nil {
		return err
	}
	s.owner = owner
	s.parts.forget()
	return nil
}
