package state

import "testing"

func mustOpen(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestSmoke(t *testing.T) {
	dir := t.TempDir() + "/q"
	s := mustOpen(t, dir, Options{})
	for i := int64(1); i < 10; i++ {
		if err := s.AppendEpoch(Epoch{Source: "a", Epoch: i, Prev: i - 1, Position: []byte{byte(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CommitSink("s", 4, []byte("w")); err != nil {
		t.Fatal(err)
	}
	w, err := s.BeginCheckpoint(5)
	if err != nil {
		t.Fatal(err)
	}
	op, err := w.Operator("o", "f")
	if err != nil {
		t.Fatal(err)
	}
	for g := -1; g < 3; g++ {
		if err := op.Piece(g, []byte("piece")); err != nil {
			t.Fatal(err)
		}
	}
	if err := op.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Complete([]byte("m")); err != nil {
		t.Fatal(err)
	}
	if err := s.Trim(5); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, dir, Options{})
	t.Log(s.Epochs("a"))
	t.Log(s.Sink("s"))
	c, err := s.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(c.Epoch(), c.Operators(), c.Fingerprint("o"), string(c.Meta()))
	t.Log(c.Pieces("o", func(g int, p []byte) error { t.Log(g, string(p)); return nil }))
}
