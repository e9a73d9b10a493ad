/*
Package format has what the files of state directories are made of: records with checksums, sealed
files, and the lock. Packages state and state/shared say which files there are and what is in them.

	start := len(b)
	b = append(format.Begin(b), payload...)
	format.Seal(b, start)

	end, n, err := format.Scan(b, 0, func(payload []byte) error { ... }) // up to the first damaged record
	torn := err != nil && !format.Follows(b[end+1:], valid)                // which a killed process may have left
*/
package format
