package service

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sluice/dataflow"
	"sluice/scheduler/api"
	"sluice/scheduler/store"
)

// without are clusters whose workers can have no GPU.
type without struct{ Clusters }

// Check implements Clusters.
func (without) Check(task dataflow.Resources) error {
	if task.GPUs > 0 {
		return errors.New("there is no GPU")
	}
	return nil
}

func withoutGPUs(o *Options) {
	open := o.Clusters
	o.Clusters = func(ctx context.Context, s store.Store) (Clusters, error) {
		c, err := open(ctx, s)
		return without{c}, err
	}
}

// TestWhatClustersCannotHave: what no worker can ever have is told to who submits or edits a query. Where a scheduler with
// other options goes on with a query, it waits, tells why, and goes on where it can.
func TestWhatClustersCannotHave(t *testing.T) {
	root := t.TempDir()
	s, want := chain(t, slow)
	plain := *s
	s.Spec = strings.Replace(s.Spec, `<input name="s"/>`, `<resources gpus="1"/><input name="s"/>`, 1)
	b := newBench(t, root, withoutGPUs)
	b.leads()
	refused := func(err error) {
		t.Helper()
		if code(err) != api.BadRequest || !strings.Contains(err.Error(), "cannot run on this cluster: there is no GPU") {
			t.Errorf("error %v", err)
		}
	}
	_, err := b.Submit(t.Context(), s)
	refused(err)
	b.submit(&plain)
	_, err = b.Replace(t.Context(), "chain", s, api.ReplaceOptions{})
	refused(err)
	if _, err := b.Cancel(t.Context(), "chain"); err != nil {
		t.Fatal(err)
	}
	b.end()

	b = newBench(t, root, nil)
	b.leads()
	b.submit(s)
	b.state("chain", api.Running)
	b.leave()
	<-b.over
	b = newBench(t, root, withoutGPUs)
	b.leads()
	b.until("it tells why it waits", func() bool {
		q, err := b.Query(t.Context(), "chain")
		return err == nil && q.State == api.Starting && strings.Contains(q.Error, "there is no GPU")
	})
	b.end()
	b = newBench(t, root, nil)
	b.leads()
	b.state("chain", api.Finished)
	compare(t, s, want)
}
