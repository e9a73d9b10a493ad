package main

import (
	"sluice/executor/transport"
)

// keysCommand makes the keys of a cluster.
type keysCommand struct {
	File string `arg:"" help:"The file to write; there must be none of that name."`
}

// Run implements the command.
func (c *keysCommand) Run() error {
	keys, err := transport.GenerateKeys()
	if err != nil {
		return err
	}
	if err := transport.WriteKeys(c.File, keys); err != nil {
		return usageErrorf("%v", err)
	}
	return nil
}

// socketOptions are those of all connections between processes. With a file of keys they are encrypted,
// and take only those who have the keys.
func socketOptions(keyFile string) (transport.Options, error) {
	if keyFile == "" {
		return transport.Options{}, nil
	}
	keys, err := transport.ReadKeys(keyFile)
	if err != nil {
		return transport.Options{}, usageErrorf("%v", err)
	}
	return transport.Options{Keys: keys}, nil
}
