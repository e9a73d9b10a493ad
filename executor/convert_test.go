package executor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
)

const convertEpoch = 7

func buildFromCatalog(o *operators.Context) (operators.Operator, error) {
	return catalog.Build(o, catalog.Options{})
}

// shapeOf is the shape of a query as a later release reads it.
func shapeOf(t *testing.T, p *dataflow.Physical) (s executor.Shape) {
	t.Helper()
	text, err := json.Marshal(executor.ShapeOf(p))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func memoryStore(t *testing.T) *shared.Process {
	t.Helper()
	store, err := shared.NewMemory(nil).Open("test", true)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// nowhere takes the rows of an operator that gives none.
type nowhere struct{}

func (nowhere) Emit(*batch.Batch) error { return errors.New("a row") }

// filled is a snapshot of an operator that has worked on rows with keys from 0 to 99.
func filled(t *testing.T, p *dataflow.Physical, store *shared.Process, name string) metaquery.Snapshot {
	t.Helper()
	op := p.Graph.Operator(name)
	var clock, epoch int64
	ctx := &operators.Context{Op: op, Clock: &clock, Epoch: &epoch, Counters: &operators.Counters{}, Dir: p.Graph.Dir}
	for range op.Outputs {
		ctx.Outputs = append(ctx.Outputs, nowhere{})
	}
	built, err := buildFromCatalog(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b := batch.New(op.Inputs[0].Schema)
	b.Len = 100
	for i := range b.Cols {
		b.Cols[i].Len, b.Cols[i].Ints = b.Len, nil
		for row := range int64(b.Len) {
			b.Cols[i].Ints = append(b.Cols[i].Ints, row)
		}
	}
	if err := built.Process(0, b); err != nil {
		t.Fatal(err)
	}
	if err := built.EndEpoch(operators.Mark{Epoch: convertEpoch, Watermark: 5}); err != nil {
		t.Fatal(err)
	}
	s := built.(operators.Stateful)
	ref, err := store.WriteSnapshot(name, 1, convertEpoch, convertEpoch, s.Fingerprint(), s.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	return metaquery.Snapshot{Key: name, Lo: convertEpoch, Hi: convertEpoch, Ref: ref, Meta: []byte(`{"Watermark":5,"In":100}`)}
}

// content is how many bytes a snapshot has of each key group; rows are numbered anew in each.
func content(t *testing.T, store *shared.Process, s metaquery.Snapshot) map[int]int {
	t.Helper()
	groups := map[int]int{}
	if _, err := store.ReadSnapshot(s.Ref, func(group int, piece []byte) error {
		if group != operators.WholeState {
			groups[group] += len(piece)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return groups
}

func ignoreChange(executor.Change) error { return nil }

// TestConvertPartitions: whatever the number of partitions, and however often it changes, the state of each key group
// stays what it was, at one replica.
func TestConvertPartitions(t *testing.T) {
	dir, store := editDir(t, 100), memoryStore(t)
	was := editPlan(t, dir, usualSpec(), 1, nil)
	state := map[string]metaquery.Snapshot{"perMinute": filled(t, was, store, "perMinute"), "visits": filled(t, was, store, "visits"), "total": filled(t, was, store, "total")}
	want := map[string]map[int]int{}
	for name, s := range state {
		want[name] = content(t, store, s)
	}
	if n := len(want["perMinute"]); n < 30 {
		t.Fatalf("only %d key groups have state", n)
	}
	for _, p := range []int{3, 2, 5, 1} {
		replicas, err := executor.UnmovableOf(shapeOf(t, was), store, state)
		if err != nil || replicas["total"] != 1 || len(replicas) != 1 {
			t.Fatalf("replicas that are not to change: %v, error %v", replicas, err)
		}
		query := editPlan(t, dir, usualSpec(), p, replicas)
		var change executor.Change
		state, err = executor.Convert(executor.ConvertConfig{
			Was: shapeOf(t, was), Query: query, Store: store, Checkpoint: convertEpoch, State: state, Gen: int64(p), Build: buildFromCatalog,
			Ended: func(string) bool { return false }, Changed: func(c executor.Change) error { change = c; return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(change.Kept) != 2*p+1 || len(change.New)+len(change.Dropped) > 0 {
			t.Errorf("%d partitions: %+v", p, change)
		}
		got := map[string]map[int]int{}
		for key, s := range state {
			of := query.Graph.Operator(key).Origin
			name := key
			if of != nil && len(of.Lineage) > 0 {
				name = of.Lineage[0]
			}
			if got[name] == nil {
				got[name] = map[int]int{}
			}
			for group, piece := range content(t, store, s) {
				if _, twice := got[name][group]; twice {
					t.Errorf("%d partitions: two replicas of %s have key group %d", p, name, group)
				}
				got[name][group] = piece
			}
			if string(s.Meta) == "" || s.Lo != convertEpoch || s.Hi != convertEpoch || watermarkOf(t, s) != 5 {
				t.Errorf("%d partitions: snapshot %+v, meta %s", p, s, s.Meta)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d partitions: %s", p, d)
		}
		was = query
	}
}

func watermarkOf(t *testing.T, s metaquery.Snapshot) int64 {
	t.Helper()
	var meta struct{ Watermark int64 }
	if err := json.Unmarshal(s.Meta, &meta); err != nil {
		t.Fatal(err)
	}
	return meta.Watermark
}

// TestConvertRefused: without consent nothing is written, and the state that was there is as it was.
func TestConvertRefused(t *testing.T) {
	dir, store := editDir(t, 100), memoryStore(t)
	was := editPlan(t, dir, usualSpec(), 1, nil)
	state := map[string]metaquery.Snapshot{"perMinute": filled(t, was, store, "perMinute")}
	refused := errors.New("refused")
	var change executor.Change
	cfg := executor.ConvertConfig{
		Was: shapeOf(t, was), Query: editPlan(t, dir, fmt.Sprintf(editSpec, "v >= 0", "minutely", minutesList), 1, nil), Store: store,
		Checkpoint: convertEpoch, State: state, Gen: 2, Build: buildFromCatalog, Ended: func(string) bool { return false },
		Changed: func(c executor.Change) error { change = c; return refused },
	}
	if _, err := executor.Convert(cfg); !errors.Is(err, refused) {
		t.Fatalf("error %v", err)
	}
	want := executor.Change{New: []string{"minutely", "total", "visits"}, Dropped: []executor.Dropped{{Operator: "perMinute", Why: "the operator is gone"}}}
	if d := cmp.Diff(want, change); d != "" {
		t.Error(d)
	}
	cfg.Changed = ignoreChange
	if got, err := executor.Convert(cfg); err != nil || len(got) != 0 {
		t.Errorf("%v, error %v", got, err)
	}
	if len(content(t, store, state["perMinute"])) < 30 {
		t.Error("the snapshot is gone")
	}
}

// convertUnion is a union of two files; %s are its inputs.
const convertUnion = `<dataflow name="u">
  <type name="Row"><column name="t" type="timestamp" eventtime="true"/><column name="k" type="int"/><column name="v" type="int"/></type>
  <operator name="a" type="reader"><output name="rowsA" type="Row"/><param name="path" value="in.csv"/></operator>
  <operator name="b" type="reader"><output name="rowsB" type="Row"/><param name="path" value="in.csv"/></operator>
  <operator name="both" type="union">%s<output name="rows"/></operator>
  <operator name="w" type="writer"><input name="rows"/><param name="path" value="out.csv"/></operator>
</dataflow>`

// TestConvertInputs: how far the inputs of an operator are is kept if they are the same ones, and an input
// or an operator is at its end only if all its sources are.
func TestConvertInputs(t *testing.T) {
	dir, store := editDir(t, 10), memoryStore(t)
	const ab, ba = `<input name="rowsA"/><input name="rowsB"/>`, `<input name="rowsB"/><input name="rowsA"/>`
	was := editPlan(t, dir, fmt.Sprintf(convertUnion, ab), 1, nil)
	ports := `"Ports":[{"Watermark":3,"Idle":false,"Ended":true},{"Watermark":4,"Idle":true,"Ended":false}]`
	for _, c := range []struct {
		inputs, meta string
		ended        []string
		want         string
		hi           int64
	}{
		{ab, `{"Watermark":3,"Ended":false,"In":9,` + ports + `}`, []string{"a"}, `{"Watermark":3,"Ended":false,"In":9,` + ports + `}`, convertEpoch},
		{ab, `{"Watermark":3,"Ended":false,"In":9,` + ports + `}`, nil,
			`{"Watermark":3,"Ended":false,"In":9,"Ports":[{"Watermark":3,"Idle":false,"Ended":false},{"Watermark":4,"Idle":true,"Ended":false}]}`, convertEpoch},
		{ba, `{"Watermark":3,"Ended":false,"In":9,` + ports + `}`, []string{"a"}, `{"Watermark":3,"Ended":false,"In":9}`, convertEpoch},
		{ba, `{"Watermark":3,"Ended":true,"In":9}`, []string{"a", "b"}, `{"Watermark":3,"Ended":true,"In":9}`, metaquery.LastEpoch},
		{ba, `{"Watermark":3,"Ended":true,"In":9}`, []string{"b"}, fmt.Sprintf(`{"Watermark":%d,"Ended":false,"In":9}`, batch.MinWatermark), convertEpoch},
	} {
		got, err := executor.Convert(executor.ConvertConfig{
			Was: shapeOf(t, was), Query: editPlan(t, dir, fmt.Sprintf(convertUnion, c.inputs), 1, nil), Store: store, Checkpoint: convertEpoch,
			State: map[string]metaquery.Snapshot{"both": {Key: "both", Lo: 3, Hi: 9, Meta: []byte(c.meta)}}, Gen: 1, Build: buildFromCatalog,
			Ended: func(source string) bool { return slices.Contains(c.ended, source) }, Changed: ignoreChange,
		})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]metaquery.Snapshot{"both": {Key: "both", Lo: convertEpoch, Hi: c.hi, Meta: []byte(c.want)}}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s, ended %v: %s", c.meta, c.ended, d)
		}
	}
}
