package decimal

// Num is a signed 128-bit integer in two's complement: the unscaled value of a decimal, whose scale
// is kept by its type. Its memory is an Arrow decimal128 on a little-endian machine. Values of a
// decimal column have at most 38 digits; a Num by itself can be a little larger.
type Num struct {
	Lo uint64
	Hi int64
}
