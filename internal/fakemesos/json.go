package fakemesos

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// wire is what mesos-go's generated types can do.
type wire interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// refusal is an error in the words of a master or agent.
type refusal string

func (r refusal) Error() string { return string(r) }

func refusef(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// decoded is a call as it came: presence of fields is known here, mesos-go's types lose it.
type decoded struct{ m *dynamicpb.Message }

// has says whether a field of the message was sent.
func (d decoded) has(field string) bool {
	f := d.m.Descriptor().Fields().ByName(protoreflect.Name(field))
	return f != nil && d.m.Has(f)
}

// decode reads a body into a value of mesos-go. Its errors have the words of a master.
func decode(name string, asJSON bool, body []byte, into wire) (decoded, error) {
	desc, err := describe(name)
	if err != nil {
		return decoded{}, err
	}
	m := dynamicpb.NewMessage(desc)
	if !asJSON {
		if err := proto.Unmarshal(body, m); err != nil {
			return decoded{}, refusal("Failed to parse body into Call protobuf")
		}
		return decoded{m}, into.Unmarshal(body)
	}
	if err := readJSON(body, m); err != nil {
		return decoded{}, err
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return decoded{}, err
	}
	return decoded{m}, into.Unmarshal(raw)
}

func readJSON(body []byte, m *dynamicpb.Message) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return refusal("Failed to parse body into JSON: syntax error at line 1 near: ")
	}
	if _, err := dec.Token(); err != io.EOF {
		return refusal("Failed to parse body into JSON: syntax error at line 1 near: ")
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return refusal("Failed to convert JSON into Call protobuf: Expecting a JSON object")
	}
	if err := fill(m, obj); err != nil {
		return refusal("Failed to convert JSON into Call protobuf: " + err.Error())
	}
	if missing := missingFields(m, ""); len(missing) > 0 {
		return refusef("Failed to convert JSON into Call protobuf: Missing required fields: %s", strings.Join(missing, ", "))
	}
	return nil
}

// fill sets the fields of m that the schema knows. Unknown fields and unknown enum values are skipped, as a master does.
func fill(m protoreflect.Message, obj map[string]any) error {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		v, ok := obj[string(f.Name())]
		if !ok || v == nil {
			continue
		}
		if err := fillField(m, f, v); err != nil {
			return err
		}
	}
	return nil
}

func fillField(m protoreflect.Message, f protoreflect.FieldDescriptor, v any) error {
	switch {
	case f.IsMap():
		return fillMap(m, f, v)
	case f.IsList():
		list, ok := v.([]any)
		if !ok {
			return refusef("Not expecting a JSON %s for field '%s'", kindOf(v), f.Name())
		}
		to := m.Mutable(f).List()
		for _, e := range list {
			val, ok, err := value(f, e, to.NewElement)
			if err != nil {
				return err
			}
			if ok {
				to.Append(val)
			}
		}
		return nil
	}
	val, ok, err := value(f, v, func() protoreflect.Value { return m.NewField(f) })
	if err != nil || !ok {
		return err
	}
	m.Set(f, val)
	return nil
}

func fillMap(m protoreflect.Message, f protoreflect.FieldDescriptor, v any) error {
	obj, ok := v.(map[string]any)
	if !ok {
		return refusef("Not expecting a JSON %s for field '%s'", kindOf(v), f.Name())
	}
	to := m.Mutable(f).Map()
	for k, e := range obj {
		val, ok, err := value(f.MapValue(), e, to.NewValue)
		if err != nil {
			return err
		}
		if ok {
			to.Set(protoreflect.ValueOfString(k).MapKey(), val)
		}
	}
	return nil
}

// value converts one JSON value; false means that it is skipped.
func value(f protoreflect.FieldDescriptor, v any, fresh func() protoreflect.Value) (protoreflect.Value, bool, error) {
	wrong := refusef("Not expecting a JSON %s for field '%s'", kindOf(v), f.Name())
	var none protoreflect.Value
	switch v := v.(type) {
	case map[string]any:
		if f.Kind() != protoreflect.MessageKind {
			return none, false, wrong
		}
		val := fresh()
		return val, true, fill(val.Message(), v)
	case string:
		return stringValue(f, v, wrong)
	case bool:
		if f.Kind() != protoreflect.BoolKind {
			return none, false, wrong
		}
		return protoreflect.ValueOfBool(v), true, nil
	case json.Number:
		return numberValue(f, v, wrong)
	}
	return none, false, wrong
}

func stringValue(f protoreflect.FieldDescriptor, s string, wrong error) (protoreflect.Value, bool, error) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(s), true, nil
	case protoreflect.BytesKind:
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return protoreflect.Value{}, false, refusef("Failed to base64 decode bytes field '%s': %s", f.Name(), base64Complaint(s))
		}
		return protoreflect.ValueOfBytes(raw), true, nil
	case protoreflect.EnumKind:
		e := f.Enum().Values().ByName(protoreflect.Name(s))
		if e == nil {
			return protoreflect.Value{}, false, nil
		}
		return protoreflect.ValueOfEnum(e.Number()), true, nil
	}
	return protoreflect.Value{}, false, wrong
}

func base64Complaint(s string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
	for _, r := range s {
		if !strings.ContainsRune(alphabet, r) {
			return fmt.Sprintf("Invalid character '%c'", r)
		}
	}
	return "Invalid length"
}

func numberValue(f protoreflect.FieldDescriptor, n json.Number, wrong error) (protoreflect.Value, bool, error) {
	x, err := n.Float64()
	if err != nil {
		return protoreflect.Value{}, false, wrong
	}
	i, _ := strconv.ParseInt(n.String(), 10, 64)
	u, _ := strconv.ParseUint(n.String(), 10, 64)
	switch f.Kind() {
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(x), true, nil
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(x)), true, nil
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(i)), true, nil
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(i), true, nil
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(u)), true, nil
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(u), true, nil
	}
	return protoreflect.Value{}, false, wrong
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	}
	return "null"
}

// missingFields lists the required fields that are not set, by path.
func missingFields(m protoreflect.Message, prefix string) []string {
	var out []string
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		path := prefix + string(f.Name())
		if !m.Has(f) {
			if f.Cardinality() == protoreflect.Required {
				out = append(out, path)
			}
			continue
		}
		if f.Kind() != protoreflect.MessageKind || f.IsMap() {
			continue
		}
		if !f.IsList() {
			out = append(out, missingFields(m.Get(f).Message(), path+".")...)
			continue
		}
		list := m.Get(f).List()
		for j := range list.Len() {
			out = append(out, missingFields(list.Get(j).Message(), fmt.Sprintf("%s[%d].", path, j))...)
		}
	}
	return out
}

// encode writes a value of mesos-go as protobuf, or as JSON as Mesos writes it: the fields that are set,
// with those that have a default and are not deprecated even when they are not set.
func encode(name string, asJSON bool, v wire) ([]byte, error) {
	raw, err := v.Marshal()
	if err != nil || !asJSON {
		return raw, err
	}
	desc, err := describe(name)
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(desc)
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("fakemesos: encode %s: %w", name, err)
	}
	var b bytes.Buffer
	writeMessage(&b, m)
	return b.Bytes(), nil
}

func writeMessage(b *bytes.Buffer, m protoreflect.Message) {
	b.WriteByte('{')
	first := true
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) && !(f.HasDefault() && !isDeprecated(f)) {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		writeString(b, string(f.Name()))
		b.WriteByte(':')
		writeField(b, f, m.Get(f))
	}
	b.WriteByte('}')
}

func isDeprecated(f protoreflect.FieldDescriptor) bool {
	o, ok := f.Options().(*descriptorpb.FieldOptions)
	return ok && o.GetDeprecated()
}

func writeField(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch {
	case f.IsMap():
		b.WriteByte('{')
		first := true
		v.Map().Range(func(k protoreflect.MapKey, e protoreflect.Value) bool {
			if !first {
				b.WriteByte(',')
			}
			first = false
			writeString(b, k.String())
			b.WriteByte(':')
			writeValue(b, f.MapValue(), e)
			return true
		})
		b.WriteByte('}')
	case f.IsList():
		b.WriteByte('[')
		for i := range v.List().Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			writeValue(b, f, v.List().Get(i))
		}
		b.WriteByte(']')
	default:
		writeValue(b, f, v)
	}
}

func writeValue(b *bytes.Buffer, f protoreflect.FieldDescriptor, v protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		writeMessage(b, v.Message())
	case protoreflect.EnumKind:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			writeString(b, string(e.Name()))
			return
		}
		writeString(b, strconv.Itoa(int(v.Enum())))
	case protoreflect.StringKind:
		writeString(b, v.String())
	case protoreflect.BytesKind:
		writeString(b, base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		writeFloat(b, v.Float())
	default:
		fmt.Fprint(b, v.Interface())
	}
}

func writeString(b *bytes.Buffer, s string) {
	raw, err := json.Marshal(s)
	if err != nil { // a string is always encodable
		raw = []byte(`""`)
	}
	b.Write(raw)
}

// writeFloat writes whole numbers with ".0", as Mesos does.
func writeFloat(b *bytes.Buffer, x float64) {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		b.WriteString(strconv.FormatFloat(x, 'f', 1, 64))
		return
	}
	b.WriteString(strconv.FormatFloat(x, 'g', -1, 64))
}
