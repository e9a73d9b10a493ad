package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/pebbe/zmq4"
)

// Keys are a cluster's CURVE keys, each 40 characters of Z85. Every process of a cluster has the same: it
// listens with the server's pair and dials with the client's.
type Keys struct {
	ServerPublic string `json:"server_public"`
	ServerSecret string `json:"server_secret"`
	ClientPublic string `json:"client_public"`
	ClientSecret string `json:"client_secret"`
	// Allowed are public keys of further clients that a Listener takes, besides ClientPublic.
	Allowed []string `json:"allowed,omitempty"`
}

// GenerateKeys makes new random keys.
func GenerateKeys() (*Keys, error) {
	sp, ss, err := zmq4.NewCurveKeypair()
	if err != nil {
		return nil, fmt.Errorf("transport: make keys: %w", err)
	}
	cp, cs, err := zmq4.NewCurveKeypair()
	if err != nil {
		return nil, fmt.Errorf("transport: make keys: %w", err)
	}
	return &Keys{ServerPublic: sp, ServerSecret: ss, ClientPublic: cp, ClientSecret: cs}, nil
}

// Validate reports what is wrong with keys. Messages never hold a key.
func (k *Keys) Validate() error {
	named := []struct{ name, key string }{
		{"server_public", k.ServerPublic}, {"server_secret", k.ServerSecret},
		{"client_public", k.ClientPublic}, {"client_secret", k.ClientSecret},
	}
	for _, a := range k.Allowed {
		named = append(named, struct{ name, key string }{"allowed", a})
	}
	for _, n := range named {
		if !isZ85Key(n.key) {
			return fmt.Errorf("transport: keys: %s is not a CURVE key: 40 characters of Z85 are needed", n.name)
		}
	}
	for _, pair := range []struct{ name, public, secret string }{
		{"server", k.ServerPublic, k.ServerSecret}, {"client", k.ClientPublic, k.ClientSecret},
	} {
		public, err := zmq4.AuthCurvePublic(pair.secret)
		if err != nil {
			return fmt.Errorf("transport: keys: %s_secret: %w", pair.name, err)
		}
		if public != pair.public {
			return fmt.Errorf("transport: keys: %s_public does not belong to %s_secret: make the file anew", pair.name, pair.name)
		}
	}
	return nil
}

// allowed are the binary public keys of the clients that may connect.
func (k *Keys) allowed() map[string]bool {
	all := map[string]bool{zmq4.Z85decode(k.ClientPublic): true}
	for _, a := range k.Allowed {
		all[zmq4.Z85decode(a)] = true
	}
	return all
}

const z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

// isZ85Key reports whether s is 32 bytes in Z85: eight groups of five digits, each below 2^32.
func isZ85Key(s string) bool {
	if len(s) != 40 {
		return false
	}
	for i := 0; i < len(s); i += 5 {
		var v uint64
		for _, c := range []byte(s[i : i+5]) {
			d := strings.IndexByte(z85, c)
			if d < 0 {
				return false
			}
			v = v*85 + uint64(d)
		}
		if v >= 1<<32 {
			return false
		}
	}
	return true
}

// WriteKeys writes keys to a new file that only its owner may read. It does not overwrite.
func WriteKeys(path string, k *Keys) error {
	if err := k.Validate(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("transport: write keys: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// ReadKeys reads what WriteKeys wrote. It refuses a file that others than its owner may read or write.
func ReadKeys(path string) (*Keys, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("transport: read keys: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("transport: read keys: %s has mode %#o: others may use it, so do `chmod 600 %s`, or make new keys",
			path, info.Mode().Perm(), path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("transport: read keys: %w", err)
	}
	var k Keys
	if err := json.Unmarshal(b, &k); err != nil {
		return nil, fmt.Errorf("transport: read keys: %s: %w", path, err)
	}
	if err := k.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &k, nil
}
