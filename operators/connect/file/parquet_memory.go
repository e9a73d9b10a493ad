package file

import (
	"fmt"
	"math/bits"
	"sync"
)

// pagePool is the memory of a Parquet decoder's pages. A page buffer lives as long as a row group, so
// they are handed from one row group to the next.
type pagePool struct {
	mu   sync.Mutex
	free [][]byte
	size int // of all that is free
}

// maxPooled bounds what a pool keeps, in bytes.
const maxPooled = 32 << 20

// Allocate gives memory of the given size, of undefined contents.
func (p *pagePool) Allocate(size int) []byte {
	if size > maxArrowBuffer {
		panic(fmt.Sprintf("a buffer of %d bytes, where %d are the most", size, maxArrowBuffer))
	}
	if size == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, b := range p.free {
		if cap(b) >= size && cap(b) <= 4*size {
			last := len(p.free) - 1
			p.free[i], p.free[last] = p.free[last], nil
			p.free = p.free[:last]
			p.size -= cap(b)
			return b[:size]
		}
	}
	return make([]byte, size, max(64, 1<<bits.Len(uint(size-1))))
}

// Reallocate gives memory of another size with the contents of b, which is freed.
func (p *pagePool) Reallocate(size int, b []byte) []byte {
	if size <= cap(b) {
		return b[:size]
	}
	grown := p.Allocate(size)
	copy(grown, b)
	p.Free(b)
	return grown
}

// Free takes memory back.
func (p *pagePool) Free(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cap(b) >= 4096 && p.size+cap(b) <= maxPooled {
		p.free = append(p.free, b[:0])
		p.size += cap(b)
	}
}
