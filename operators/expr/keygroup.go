package expr

import (
	"github.com/zeebo/xxh3"

	"sluice/dataflow"
	"sluice/dataflow/batch"
)

// KeyHasher hashes keys that have been computed, as the function hash does.
type KeyHasher struct{ buf []byte }

// Hash is the hash of row i of keys, which is the same in every process and release.
func (h *KeyHasher) Hash(keys []*batch.Vector, i int) int64 {
	h.buf = h.buf[:0]
	for _, v := range keys {
		h.buf = appendHashed(h.buf, v, i)
	}
	return int64(xxh3.Hash(h.buf))
}

// KeyGroup is the key group, from 0 to dataflow.KeyGroups-1, of the keys with a hash.
func KeyGroup(hash int64) int { return int(uint64(hash) % dataflow.KeyGroups) }
