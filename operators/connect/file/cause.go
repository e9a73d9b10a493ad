package file

import "io"

// causeWriter remembers why writing failed first. The Arrow and Parquet libraries wrap that into what they were
// doing, call it an "unknown error type" or tell it once more when they are closed.
type causeWriter struct {
	w   io.Writer
	err error
}

func (c *causeWriter) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.w.Write(p)
	c.err = err
	return n, err
}

// explain replaces a library's error by its cause, if that is known.
func (c *causeWriter) explain(err *error) {
	if *err != nil && c.err != nil {
		*err = c.err
	}
}
