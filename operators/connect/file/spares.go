package file

import (
	"sync"

	"sluice/dataflow/batch"
)

// spares are batches that had been given away and have come back. They may be used by several goroutines.
type spares struct {
	mu   sync.Mutex
	free []*batch.Batch
}

// What is kept is bounded in number and, of each column of text, in bytes: few rows are that large.
const (
	mostSpares = 64
	mostText   = 4 << 20
)

// take returns one of them, nil if there is none.
func (s *spares) take() *batch.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free) - 1
	if n < 0 {
		return nil
	}
	b := s.free[n]
	s.free[n], s.free = nil, s.free[:n]
	return b
}

func (s *spares) add(b *batch.Batch) {
	for i := range b.Cols {
		if cap(b.Cols[i].Data) > mostText {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < mostSpares {
		s.free = append(s.free, b)
	}
}
