package window

import (
	"sluice/dataflow"
)

// core is an aggregation at work on evaluated rows. It knows nothing of expressions.
type core interface {
	// add takes rows. They belong to the caller.
	add(in *input) error
	// advance is called at the end of each epoch with the watermark reached, which never falls.
	advance(watermark int64) error
	// end is called once, after the last advance.
	end() error

	// clone copies what write reads, so that it can be written while the original goes on.
	clone() core
	// write gives the state between two epochs. It changes nothing.
	write(p *pieces) error
	// load adds the entries of a piece, and loadWaiting its waiting rows, of a key group.
	load(d *decoder, group int)
	loadWaiting(d *decoder, group int)
	// loaded is called when all pieces have been loaded, with the watermark reached.
	loaded(reached int64)
}

// config says what a core has to do.
type config struct {
	spec     Spec
	keys     []dataflow.Type
	calls    []call
	inter    *dataflow.Schema
	lateness int64           // microseconds; only with windows of time
	payload  []dataflow.Type // of input.payload
	sink     sink
}

// newCore makes the core for a kind of window.
func newCore(c config) core {
	switch c.spec.Kind {
	case Tumbling, Hopping:
		return newSliced(c)
	case Session:
		return newSessions(c)
	case Rows:
		return newCounted(c)
	default:
		return newWhole(c)
	}
}

// whole aggregates the stream as one, without a window.
type whole struct {
	groups *groups
	accs   *accumulators
	out    *emission
	index  index
	slots  []int32 // by row of the input at work
	order  []int32 // all groups, by first appearance
	ranks  ranks
}

func newWhole(c config) *whole {
	g := newGroups(c.keys)
	w := &whole{groups: g, accs: newAccumulators(c.calls, &g.ids, len(c.keys) == 0)}
	w.out = newEmission(g, w.accs, c.inter, false, c.sink)
	if len(c.keys) == 0 {
		// The one group is there even if there is no row.
		w.order = append(w.order, g.ids.take())
	}
	return w
}

func (w *whole) add(in *input) error {
	w.slots = extend(w.slots, in.n)
	known := len(w.order)
	w.groups.prepare(in.keys, in.n, in.sel)
	w.order = w.groups.assign(&w.index, in.keys, in.n, in.sel, w.slots, w.order)
	w.accs.fresh = append(w.accs.fresh, w.order[known:]...)
	w.accs.add(in, in.sel, w.slots)
	return nil
}

func (w *whole) advance(int64) error { return nil }

func (w *whole) end() error {
	w.out.add(w.order, w.order, 0, 0, noWatermark)
	return w.out.drain()
}
