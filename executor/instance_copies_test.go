package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/executor"
	"sluice/executor/channel"
	"sluice/executor/state/shared"
	"sluice/metaquery"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/rewrite"
	"sluice/specs/xmlspec"
)

const copiesSpec = `<dataflow name="copies">
  <type name="Row"><column name="v" type="int"/></type>
  <operator name="in" type="reader"><output name="rows" type="Row"/><param name="path" value="in.csv"/></operator>
  <operator name="f" type="filter"><input name="rows"/><param name="condition" value="v >= 0"/><output name="good"/></operator>
  <operator name="out" type="writer"><input name="good"/><param name="path" value="out.csv"/></operator>
  <rewrite rule="hot-standby" operator="f"/>
</dataflow>`

// copiesTask is the task with the stream selector and the sink of copiesSpec, and the channels to it.
func copiesTask(t *testing.T, dir string) (*dataflow.Physical, *dataflow.Task, []*dataflow.Channel) {
	t.Helper()
	g, diags := xmlspec.Parse("copies.xml", strings.NewReader(copiesSpec), os.LookupEnv)
	g.Dir = dir
	diags = append(diags, dataflow.Resolve(g, catalog.Operators)...)
	rewritten, more := (&rewrite.Engine{Catalog: catalog.Operators}).Run(g, rewrite.Builtin())
	if diags = append(diags, more...); diags.HasErrors() {
		t.Fatal(diags)
	}
	p, err := dataflow.BuildTasks(rewritten.Graph, dataflow.TaskOptions{Network: true, Catalog: catalog.Operators})
	if err != nil {
		t.Fatal(err)
	}
	var to *dataflow.Task
	for _, task := range p.Tasks {
		if slices.ContainsFunc(task.Operators, func(op *dataflow.Operator) bool { return op.Desc.Races }) {
			to = task
		}
	}
	var channels []*dataflow.Channel
	for _, c := range p.Channels {
		if c.ToTask == to {
			channels = append(channels, c)
		}
	}
	if len(channels) != 2 {
		t.Fatalf("%d channels to the stream selector:\n%s", len(channels), p.Text())
	}
	return p, to, channels
}

// copyEnv is the surroundings of an instance whose producers are senders.
type copyEnv struct {
	loneEnv
	senders map[string]*channel.Sender
}

func (e *copyEnv) Reply(name string, msg []byte) { _ = e.senders[name].Message(msg) }

// copySender is a copy that has been launched from a checkpoint.
func copySender(c *dataflow.Channel, gen, checkpoint int64) *channel.Sender {
	s := channel.NewSender(channel.SenderConfig{
		Channel: c.Stream, Generation: gen, Schema: c.From.Outputs[c.Output].Schema, Start: channel.After(checkpoint), Store: channel.NewRetention(1<<30, ""),
	})
	s.Connected()
	return s
}

// copyRows is the rows of an epoch: so many that they are sent before it ends.
const copyRows = 5000

// send sends the rows of an epoch, and its mark unless the copy dies before.
func send(t *testing.T, s *channel.Sender, schema *dataflow.Schema, epoch int64, dies bool) {
	t.Helper()
	b := batch.New(schema)
	b.Len = copyRows
	b.Cols[0].Reset(schema.Columns[0].Type, copyRows)
	for i := range b.Cols[0].Ints {
		b.Cols[0].Ints[i] = copyRows*epoch + int64(i)
	}
	err := s.Rows(epoch, epoch-1, epoch, b)
	if !dies {
		err = errors.Join(err, s.Mark(operators.Mark{Epoch: epoch, Prev: epoch - 1, Clock: epoch, Watermark: epoch}))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCopyFromLater: a copy is launched from a checkpoint that is behind what its place brought last, as a standby is
// that takes over. The stream selector, which has the rest from the other copy, goes on with it.
func TestCopyFromLater(t *testing.T) {
	for name, dies := range map[string]bool{"between epochs": false, "in an epoch": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := shared.Open(filepath.Join(dir, "state"), shared.Options{Coordinator: true})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			p, task, channels := copiesTask(t, dir)
			env := &copyEnv{senders: map[string]*channel.Sender{}}
			i, err := executor.NewInstance(executor.InstanceConfig{
				Query: p, Task: task, Launch: metaquery.Launch{ID: metaquery.TaskID{Task: task.Name, Gen: 1}, Every: 1, Flight: 4}, Store: store, Env: env,
				Build: func(c *operators.Context) (operators.Operator, error) {
					return catalog.Build(c, catalog.Options{Limit: -1})
				},
				OpenSource: catalog.OpenSource,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer i.Close()
			talk := func(generation int64) {
				for begin := time.Now(); time.Since(begin) < 5*time.Second; {
					idle := true
					for name, s := range env.senders {
						for msg, ok := s.Next(); ok; msg, ok = s.Next() {
							i.Receive(name, generation, msg)
							idle = false
						}
					}
					if idle {
						return
					}
				}
				t.Fatal("the ends of the channels do not come to rest")
			}
			schema := channels[0].From.Outputs[channels[0].Output].Schema
			first, second := channels[0].Stream, channels[1].Stream
			env.senders[first], env.senders[second] = copySender(channels[0], 1, 0), copySender(channels[1], 1, 0)
			for epoch := int64(1); epoch <= 9; epoch++ {
				send(t, env.senders[first], schema, epoch, false)
				if epoch < 3 || epoch == 3 && dies {
					send(t, env.senders[second], schema, epoch, dies && epoch == 3)
				}
			}
			talk(1)
			if r := i.Report(); r.Failure != nil || r.Retry != "" || r.Trimmed {
				t.Fatalf("%+v", r)
			}
			// The first copy is gone, and the second one goes on from checkpoint 6. It is heard when orders have told of it.
			if i.Hears(second, 2) || i.Hears(second, 1<<62) || !i.Hears(second, 1) {
				t.Error("before the orders another generation than the first is heard")
			}
			i.Orders(metaquery.Orders{
				To: metaquery.TaskID{Task: task.Name, Gen: 1}, Seq: 1, Fences: map[string]int64{channels[1].FromTask.Name: 2},
			})
			if i.Hears(second, 1) || i.Hears(second, 1<<62) || !i.Hears(second, 2) || !i.Hears(first, 1) {
				t.Error("after the orders another generation than theirs is heard")
			}
			env.senders = map[string]*channel.Sender{second: copySender(channels[1], 2, 6)}
			for epoch := int64(7); epoch <= 12; epoch++ {
				send(t, env.senders[second], schema, epoch, false)
			}
			talk(2)
			i.Cut(context.Background())
			r := i.Report()
			if r.Failure != nil || r.Retry != "" || r.Trimmed || r.Epoch != 12 {
				t.Fatalf("trimmed %t, retry %q, failure %v, epoch %d", r.Trimmed, r.Retry, r.Failure, r.Epoch)
			}
			want := []byte("v\n")
			for v := copyRows; v < 13*copyRows; v++ {
				want = fmt.Appendln(want, v)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "out.csv")); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes are written, %v; want %d", len(got), err, len(want))
			}
		})
	}
}
