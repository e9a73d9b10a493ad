// Package decimal is exact decimal arithmetic on 128-bit integers:
//
//	price, _ := decimal.Parse([]byte("19.90"), 10, 2) // 1990, of scale 2
//	total, ok := decimal.Mul(price, decimal.FromInt64(3))
//	text := decimal.Append(nil, total, 2) // "59.7"
//
// A Num is the unscaled value alone: 19.90 at scale 2 is 1990. How many digits stand after the point
// (the scale) is kept by the type of the column or expression and handed to the functions that need it.
//
// # Range
//
// A decimal has at most 38 digits. Every function that could give more reports ok = false instead; the
// number that comes with it means nothing. No function panics for operands of at most 38 digits and
// scales of at most 38, but for Div and Rem by zero, which the caller excludes.
//
// # Rounding
//
// Wherever digits are lost (Div, Rescale, FromFloat64), the result is rounded to the nearest number,
// and halves away from zero: 2.5 gives 3 and -2.5 gives -3. Parse never rounds: digits that do not fit
// are an error.
package decimal
