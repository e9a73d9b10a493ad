package channel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/dataflow"
	"sluice/internal/protocol"
	"sluice/operators"
)

// world is a producer and a consumer, each with its restarts, and a bad connection between them.
type world struct {
	t      *rapid.T
	schema *dataflow.Schema
	off    protocol.Off
	store  *Retention

	// The stream: what each epoch is, and what a reader of it sees.
	epochs []int64
	rows   []int64 // of each epoch

	s          *Sender
	gen        int64
	next       int   // epoch that the producer works on
	row        int64 // and its next row
	ended      bool
	r          *Receiver
	seen       []string           // what the consumer has worked on
	saved      map[int64][]string // what it had worked on at a checkpoint
	over       bool               // it has seen END
	done       int64              // the last epoch whose mark it has seen
	held       []Delivery
	checkpoint int64 // that is complete, and the one before
	before     int64
	window     int64
	now        int64

	down, up []parcel
	err      error
}

type parcel struct {
	gen int64
	msg []byte
}

func newWorld(t *rapid.T, dir string, off protocol.Off) *world {
	w := &world{t: t, off: off, schema: allTypes(), saved: map[int64][]string{}, window: rapid.SampledFrom([]int64{1, 300, 3000, 100000}).Draw(t, "window")}
	w.store = NewRetention(rapid.SampledFrom([]int64{0, 2000, 1 << 20}).Draw(t, "memory"), dir)
	epoch := int64(0)
	for range rapid.IntRange(1, 6).Draw(t, "epochs") {
		epoch += rapid.Int64Range(1, 4).Draw(t, "skip")
		w.epochs = append(w.epochs, epoch)
		w.rows = append(w.rows, rapid.SampledFrom([]int64{0, 1, 5, 40, 130}).Draw(t, "rows"))
	}
	w.startProducer()
	w.startConsumer(w.checkpoint)
	return w
}

func (w *world) startProducer() {
	if w.s != nil {
		w.s.Close()
	}
	w.gen++
	w.s = NewSender(SenderConfig{Channel: "c", Generation: w.gen, Schema: w.schema, Start: After(w.checkpoint), Store: w.store, Off: w.off})
	w.s.codec.target = rapid.SampledFrom([]int{1, 2000, targetFrame}).Draw(w.t, "target")
	w.s.smallRows = rapid.SampledFrom([]int{0, 10, smallRows}).Draw(w.t, "small")
	w.next, w.row, w.ended = 0, 0, false
	for w.next < len(w.epochs) && w.epochs[w.next] <= w.checkpoint {
		w.next++
	}
	w.s.Connected()
}

// startConsumer restores the consumer from checkpoint c.
func (w *world) startConsumer(c int64) {
	w.r = NewReceiver(ReceiverConfig{Channel: "c", Schema: w.schema, From: After(c), Generation: w.gen, Window: w.window, Off: w.off})
	w.seen, w.held = slices.Clone(w.saved[c]), nil
	w.over, w.done = false, c
}

// must notes the first thing that went wrong.
func (w *world) must(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *world) mark(i int) operators.Mark {
	m := operators.Mark{Epoch: w.epochs[i], Watermark: w.epochs[i] * 10, Clock: w.epochs[i] * 1000, Idle: i%2 == 0, Stop: i%3 == 1, End: i == len(w.epochs)-1}
	if i > 0 {
		m.Prev = w.epochs[i-1]
	}
	return m
}

// produce makes the producer emit a few rows, or a mark.
func (w *world) produce(most int64) {
	if w.ended {
		return
	}
	if w.next == len(w.epochs) { // restored behind the end
		m := w.mark(w.next - 1)
		w.must(w.s.Mark(m))
		w.ended = true
		return
	}
	m := w.mark(w.next)
	if w.row < w.rows[w.next] {
		to := min(w.rows[w.next], w.row+rapid.Int64Range(1, most).Draw(w.t, "rows"))
		b := rowsOf(w.schema, m.Epoch, w.row, to, rapid.Bool().Draw(w.t, "select"), w.now)
		b.RowWatermarks, b.Watermark = nil, m.Epoch
		if rapid.Bool().Draw(w.t, "row watermarks") {
			b.RowWatermarks = make([]int64, b.Len)
			for i := range b.RowWatermarks {
				b.RowWatermarks[i] = m.Epoch
			}
		}
		w.must(w.s.Rows(m.Epoch, m.Prev, m.Clock, b))
		w.row = to
		return
	}
	w.must(w.s.Mark(m))
	w.next, w.row, w.ended = w.next+1, 0, m.End
}

func (w *world) pump(unsend bool) {
	if msg, ok := w.s.Next(); ok {
		if unsend {
			w.s.Unsend()
		} else {
			w.down = append(w.down, parcel{w.gen, msg})
		}
	}
	if msg, ok := w.r.Next(); ok {
		w.up = append(w.up, parcel{0, msg})
	}
}

// arrive takes message i of those that are under way down, if there is one.
func (w *world) arriveDown(i int) {
	if i < len(w.down) {
		p := w.down[i]
		w.down = slices.Delete(w.down, i, i+1)
		w.must(w.r.Receive(p.gen, append([]byte(nil), p.msg...)))
	}
}

func (w *world) arriveUp() {
	if len(w.up) > 0 {
		msg := w.up[0].msg
		w.up = w.up[1:]
		w.must(w.s.Message(msg))
	}
}

func (w *world) work() {
	d, ok := w.r.Deliver()
	if !ok {
		return
	}
	w.held = append(w.held, d)
	if d.Rows != nil {
		w.must(d.Rows.Validate())
		for i, t := range texts(d.Rows, true) {
			w.seen = append(w.seen, fmt.Sprintf("%d/%d %s", d.Epoch, d.Row+int64(i), t))
		}
		return
	}
	w.over = w.over || d.Mark.End
	if d.Epoch > w.done {
		w.seen = append(w.seen, fmt.Sprintf("mark %+v %d", d.Mark, d.Row))
		w.done = d.Epoch
	}
}

func (w *world) release() {
	if len(w.held) > 0 {
		w.r.Release(w.held[0])
		w.held = w.held[1:]
	}
}

func (w *world) tick() {
	w.now += repeatAfter
	w.s.Tick(w.now)
	w.r.Tick(w.now)
}

// step does one thing that may happen.
func (w *world) step() {
	what := 0 // all numbers alike, which IntRange does not make
	for range 5 {
		what *= 2
		if rapid.Bool().Draw(w.t, "what") {
			what++
		}
	}
	switch what {
	case 0, 1, 2, 23, 24:
		w.produce(50)
	case 3, 4, 5, 25, 26:
		for range rapid.IntRange(1, 4).Draw(w.t, "messages") {
			w.pump(rapid.IntRange(0, 4).Draw(w.t, "full") == 4)
		}
	case 6, 7, 8, 27, 28:
		w.arriveDown(0)
	case 9, 10, 29, 30, 31:
		w.arriveUp()
	case 11, 12:
		w.work()
	case 13:
		w.release()
	case 14:
		w.tick()
	case 15: // lost
		w.down = w.down[min(len(w.down), rapid.IntRange(1, 3).Draw(w.t, "down")):]
		if len(w.up) > 0 && rapid.Bool().Draw(w.t, "both") {
			w.up = w.up[1:]
		}
	case 16: // brought twice
		if len(w.down) > 0 {
			w.down = append([]parcel{w.down[0]}, w.down...)
		}
		if len(w.up) > 0 {
			w.up = append([]parcel{w.up[0]}, w.up...)
		}
	case 17: // out of order
		if n := len(w.down); n > 1 {
			w.arriveDown(rapid.IntRange(0, n-1).Draw(w.t, "which"))
		}
	case 18: // a new connection; what was on the old one may still come
		w.s.Connected()
	case 19:
		w.s.Disconnect()
	case 20:
		w.startProducer()
	case 21:
		w.startConsumer(rapid.SampledFrom([]int64{w.checkpoint, w.before}).Draw(w.t, "from"))
	case 22:
		w.complete()
	}
}

// complete completes a checkpoint, and restarts a consumer that has to know of it.
func (w *world) complete() {
	c := w.done + rapid.Int64Range(0, 3).Draw(w.t, "behind")
	for _, e := range w.epochs {
		if e > w.done {
			c = min(c, e-1) // boundaries are crossed, but only by one epoch
			break
		}
	}
	if c <= w.checkpoint {
		return
	}
	n := len(w.seen)
	for n > 0 && !strings.HasPrefix(w.seen[n-1], "mark") {
		n--
	}
	w.before, w.checkpoint, w.saved[c] = w.checkpoint, c, w.seen[:n:n]
	w.s.Trim(w.checkpoint)
}

// finish lets everything go well until the consumer has seen the end.
func (w *world) finish() {
	w.s.Connected()
	for range 10_000 {
		if w.over || w.err != nil {
			return
		}
		w.produce(200)
		w.pump(false)
		w.arriveDown(0)
		w.arriveUp()
		w.work()
		w.release()
		if len(w.down) == 0 && len(w.up) == 0 {
			w.tick()
		}
		w.must(w.s.Err())
		if _, lost := w.r.Trimmed(); lost {
			w.startConsumer(w.checkpoint)
		}
	}
	w.must(fmt.Errorf("the consumer is at %v of %v and sees no end; sender: session %d running %v sent %v; receiver: session %d %+v",
		w.r.Position(), w.epochs, w.s.session, w.s.running, w.s.sent, w.r.session, w.r.Counters()))
}

// want is what a consumer sees of the stream.
func (w *world) want() []string {
	var all []string
	for i, e := range w.epochs {
		b := rowsOf(w.schema, e, 0, w.rows[i], false, 0)
		b.RowWatermarks, b.Watermark = nil, e
		for row, t := range texts(b, true) {
			all = append(all, fmt.Sprintf("%d/%d %s", e, row, t))
		}
		all = append(all, fmt.Sprintf("mark %+v %d", w.mark(i), w.rows[i]))
	}
	return all
}

// run lets things happen, and then go well, and says what was wrong.
func (w *world) run(steps int) error {
	for range steps {
		w.step()
		if _, lost := w.r.Trimmed(); lost {
			w.startConsumer(w.checkpoint)
		}
	}
	w.finish()
	if rapid.Bool().Draw(w.t, "once more") { // the consumer is restored when all is over, or almost
		w.complete()
		w.startConsumer(rapid.SampledFrom([]int64{w.checkpoint, w.before}).Draw(w.t, "from"))
		w.finish()
	}
	w.s.Close()
	if w.err != nil {
		return w.err
	}
	if want := w.want(); !slices.Equal(want, w.seen) {
		return fmt.Errorf("the consumer saw\n%q\nwant\n%q", w.seen, want)
	}
	if w.store.Memory() != 0 || w.store.Spilled() != 0 {
		return fmt.Errorf("%d bytes in memory and %d on disk are left", w.store.Memory(), w.store.Spilled())
	}
	return nil
}

// TestExactlyOnce: whatever happens to the connection and to both ends, the consumer works on each row and
// each mark once and in order.
func TestExactlyOnce(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		if err := newWorld(t, dir, 0).run(200); err != nil {
			t.Fatal(err)
		}
	})
}

// TestExactlyOnceNeedsItsRules: without any one of these rules some of the same histories go wrong.
func TestExactlyOnceNeedsItsRules(t *testing.T) {
	dir := t.TempDir()
	const most = 200
	for name, rule := range map[string]protocol.Rule{"Prev": protocol.Prev, "Dedup": protocol.Dedup,
		"Trimmed": protocol.Trimmed, "EndAny": protocol.EndAny} {
		histories := rapid.Custom(func(t *rapid.T) error { return newWorld(t, dir, protocol.Off(0).With(rule)).run(200) })
		n := 0
		for n < most && histories.Example(n) == nil {
			n++
		}
		if n == most {
			t.Errorf("nothing went wrong without %s", name)
		} else {
			t.Logf("without %s history %d goes wrong", name, n)
		}
	}
}
