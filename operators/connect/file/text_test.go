package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"sluice/dataflow"
	"sluice/dataflow/batch"
	"sluice/operators/value"
)

// columns makes a schema of "name type" words: a ! after the type is not null, a * event time.
func columns(t interface{ Fatalf(string, ...any) }, words string) *dataflow.Schema {
	kinds := map[string]dataflow.Type{"bool": dataflow.BoolType, "int": dataflow.IntType, "float": dataflow.FloatType,
		"string": dataflow.StringType, "bytes": dataflow.BytesType, "timestamp": dataflow.TimestampType,
		"duration": dataflow.DurationType, "decimal": dataflow.DecimalType(10, 2)}
	s := &dataflow.Schema{}
	for c := range strings.SplitSeq(words, ",") {
		c = strings.TrimSpace(c)
		space := strings.LastIndexByte(c, ' ')
		name, kind := c[:space], c[space+1:]
		typ, ok := kinds[strings.Trim(kind, "!*")]
		if !ok {
			t.Fatalf("no type %q", kind)
		}
		s.Columns = append(s.Columns, dataflow.Column{Name: name, Type: typ,
			Nullable: !strings.Contains(kind, "!"), EventTime: strings.Contains(kind, "*")})
	}
	return s
}

// show is row i of b as text, its values divided by |.
func show(b *batch.Batch, i int) string {
	var out []byte
	for c := range b.Cols {
		v := &b.Cols[c]
		if c > 0 {
			out = append(out, '|')
		}
		switch {
		case v.IsNull(i):
			out = append(out, "NULL"...)
		case v.Type.Kind == dataflow.String:
			out = append(out, v.Bytes(i)...)
		case v.Type.Kind == dataflow.Bytes:
			out = value.AppendBytes(out, v.Bytes(i))
		case v.Type.Kind == dataflow.Bool:
			out = value.AppendBool(out, v.Bits.Get(i))
		case v.Type.Kind == dataflow.Float:
			out = value.AppendFloat(out, v.Floats[i])
		case v.Type.Kind == dataflow.Decimal:
			out = value.AppendDecimal(out, v.Decimals[i], v.Type.Scale)
		case v.Type.Kind == dataflow.Timestamp:
			out = value.AppendTimestamp(out, v.Ints[i])
		case v.Type.Kind == dataflow.Duration:
			out = value.AppendDuration(out, v.Ints[i])
		default:
			out = value.AppendInt(out, v.Ints[i])
		}
	}
	return string(out)
}

// drainDecoder reads all that d has: good rows as show gives them, and bad rows as "line: reason [raw]", in
// order. It closes d.
func drainDecoder(d Decoder) (rows []string, err error) {
	defer func() { err = errors.Join(err, d.Close()) }()
	for {
		c, err := d.Next(context.Background())
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		part, err := chunkRows(c)
		if err != nil {
			return rows, err
		}
		rows = append(rows, part...)
	}
}

// chunkRows is the rows of a chunk as drainDecoder gives them.
func chunkRows(c *Chunk) (rows []string, err error) {
	if c.Batch.Sel != nil || c.Batch.Len > batch.TargetRows {
		return nil, fmt.Errorf("a chunk has %d rows and selection %v", c.Batch.Len, c.Batch.Sel)
	}
	if err := c.Batch.Validate(); err != nil {
		return nil, fmt.Errorf("a chunk's batch is not valid: %w", err)
	}
	bad := c.Bad
	for i := 0; i <= c.Batch.Len; i++ {
		for ; len(bad) > 0 && bad[0].Before == i; bad = bad[1:] {
			rows = append(rows, fmt.Sprintf("%d: %s [%s]", bad[0].Line, bad[0].Reason, bad[0].Raw))
		}
		if i < c.Batch.Len {
			rows = append(rows, show(c.Batch, i))
		}
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("%d bad rows are out of place", len(bad))
	}
	return rows, nil
}

// pieces is a reader that gives its text in pieces of the given sizes, in turn.
type pieces struct {
	text  []byte
	sizes []int
	turn  int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.text) == 0 {
		return 0, io.EOF
	}
	n := min(len(b), len(p.text))
	if len(p.sizes) > 0 {
		n = min(n, p.sizes[p.turn%len(p.sizes)])
		p.turn++
	}
	copy(b, p.text[:n])
	p.text = p.text[n:]
	return n, nil
}
