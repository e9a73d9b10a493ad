package metaquery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ToWorker is a message from the scheduler to a worker. Exactly one field is set.
type ToWorker struct {
	Deploy *Deploy `json:"deploy,omitempty"`
	Launch *Launch `json:"launch,omitempty"`
	End    *TaskID `json:"end,omitempty"` // a task that is to end, whatever it is doing
	Orders *Orders `json:"orders,omitempty"`
	// Here says that there is a scheduler. A worker that hears nothing for long ends.
	Here bool `json:"here,omitempty"`
	// Exit says that all is over. A worker ends all tasks, and itself when it hears that again after it has
	// said that it runs none.
	Exit bool `json:"exit,omitempty"`
}

// ToScheduler is a message from a worker to the scheduler. Exactly one field is set.
type ToScheduler struct {
	Hello  *Hello  `json:"hello,omitempty"`
	Alive  *Alive  `json:"alive,omitempty"`
	Report *Report `json:"report,omitempty"`
}

// Deploy is what a worker must know of a query to compile it to the very graph that the scheduler has.
type Deploy struct {
	Spec []byte   `json:"spec"`
	File string   `json:"file"`           // by which messages call the spec
	Dir  string   `json:"dir"`            // against which relative paths are taken
	Sets []string `json:"sets,omitempty"` // OPERATOR.PARAMETER=VALUE
	// Env are the variables that the spec names; those of the worker's own environment do not count.
	Env        map[string]string `json:"env,omitempty"`
	Partitions int               `json:"partitions"`
	Nodes      int               `json:"nodes"` // over which operators without a placement are spread
	// Replicas are those of operators that have another number than Partitions.
	Replicas map[string]int `json:"replicas,omitempty"`
	// Graph is the fingerprint of the physical graph. A worker that finds another one, since a file of rules
	// has changed, say, must not run it.
	Graph string `json:"graph"`
	Limit int64  `json:"limit"` // most rows that each writer writes; negative: any number
	State string `json:"state"` // directory of the store
	Fsync string `json:"fsync"` // when what it has is brought to the disk
	// Transport names how data goes between workers.
	Transport string `json:"transport"`
	// Spill is a folder for files that are of no use after the process ends; "" for none.
	Spill string `json:"spill,omitempty"`
}

// Hello is what a worker says until it has been given a Deploy.
type Hello struct {
	Worker string `json:"worker"`
	PID    int    `json:"pid"`
	// Error says why it cannot run what it was given.
	Error string `json:"error,omitempty"`
	// Final says that no other worker can run it either, wherever that is.
	Final bool `json:"final,omitempty"`
}

// Alive is what a worker that can run tasks says again and again.
type Alive struct {
	Worker string   `json:"worker"`
	PID    int      `json:"pid"`
	Addr   string   `json:"addr"`            // where the consumers of its tasks listen
	Tasks  []TaskID `json:"tasks,omitempty"` // that run there, also those that have ended or failed
}

// Bounds of a message.
const (
	MaxWire  = 64 << 20 // bytes
	maxDepth = 16       // of lists and objects within each other
	maxList  = 1 << 20  // elements of a list or an object
	maxName  = 4096     // bytes of the name of a task, an operator, a worker, ...
)

var errNotOne = errors.New("exactly one field must be set")

// Encode gives the message's wire form: the version, and JSON.
func (m *ToWorker) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("metaquery: message to a worker: %w", err)
	}
	return encode(m)
}

// Encode gives the message's wire form: the version, and JSON.
func (m *ToScheduler) Encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("metaquery: message to the scheduler: %w", err)
	}
	return encode(m)
}

// DecodeToWorker reads what Encode gave. Anything else, within or without the bounds, is an error: a
// VersionError if it is of another version.
func DecodeToWorker(text []byte) (*ToWorker, error) {
	m := &ToWorker{}
	err := decode(text, m)
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("metaquery: message to a worker: %w", err)
	}
	return m, nil
}

// DecodeToScheduler reads what Encode gave. Anything else, within or without the bounds, is an error: a
// VersionError if it is of another version.
func DecodeToScheduler(text []byte) (*ToScheduler, error) {
	m := &ToScheduler{}
	err := decode(text, m)
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return nil, fmt.Errorf("metaquery: message to the scheduler: %w", err)
	}
	return m, nil
}

func encode(m any) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("metaquery: %w", err)
	}
	if text = addVersion(text); len(text) > MaxWire {
		return nil, fmt.Errorf("metaquery: message of %d bytes; the most is %d", len(text), MaxWire)
	}
	return text, nil
}

func decode(text []byte, m any) error {
	text, err := cutVersion(text)
	if err != nil {
		return err
	}
	if err := checkShape(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return err
	}
	if d.InputOffset() != int64(len(text)) {
		return errors.New("there is something behind the message")
	}
	return nil
}

// checkShape bounds what text asks of a decoder before it is decoded: how deep lists and objects nest, and
// how many elements each has, by the commas in it.
func checkShape(text []byte) error {
	if len(text) > MaxWire {
		return fmt.Errorf("%d bytes; the most is %d", len(text), MaxWire)
	}
	if !utf8.Valid(text) {
		return errors.New("not UTF-8")
	}
	var commas [maxDepth + 1]int
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth == maxDepth {
				return fmt.Errorf("lists and objects nest deeper than %d", maxDepth)
			}
			depth++
			commas[depth] = 0
		case '}', ']':
			depth = max(0, depth-1)
		case ',':
			if commas[depth]++; commas[depth] >= maxList {
				return fmt.Errorf("a list of more than %d elements", maxList)
			}
		}
	}
	return nil
}
