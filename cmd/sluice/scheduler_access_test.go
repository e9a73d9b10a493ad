package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/scheduler/api"
)

// writeCertificate writes a certificate for this machine with its key.
func writeCertificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	der2, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: der2}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return cert, key, pool
}

// TestSchedulerTLS: with a certificate the API speaks HTTPS only, and with tokens to those who have one, wherever it
// listens.
func TestSchedulerTLS(t *testing.T) {
	cert, key, pool := writeCertificate(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("# of the test\n\ntoken-of-the-test-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	http.DefaultClient.Transport = client.Transport
	defer func() { http.DefaultClient.Transport = nil }()
	t.Setenv("SLUICE_TEST_TOKEN", "token-of-the-environment")
	free, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	s := startScheduler(t, t.TempDir(), "--listen", "0.0.0.0:"+port, "--advertise", "https://127.0.0.1:"+port, "--token", tokens, "--token-env", "SLUICE_TEST_TOKEN",
		"--tls-cert", cert, "--tls-key", key)
	for token, want := range map[string]int{
		"token-of-the-test-file": http.StatusOK, "token-of-the-environment": http.StatusOK, "# of the test": http.StatusUnauthorized, "": http.StatusUnauthorized,
	} {
		r, err := http.NewRequest("GET", s.url+api.Prefix+"/queries", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("with %q: status %d, want %d", token, a.StatusCode, want)
		}
	}
	if a, err := http.Get(strings.Replace(s.url, "https", "http", 1)); err == nil {
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: status %d: %s", a.StatusCode, text)
		}
	}
}

// TestSchedulerOptions: options that are wrong are told, with status 2.
func TestSchedulerOptions(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string]string{
		"--state-root":                           "",
		"without --token or --token-env the API": "--state-root R --listen 0.0.0.0:0",
		"must have 16 to 4096 characters":        "--state-root R --token " + short,
		"no such file":                           "--state-root R --token /nonexistent",
		"the environment has no variable":        "--state-root R --token-env SLUICE_NO_SUCH_TOKEN",
		"--tls-cert and --tls-key go together":   "--state-root R --tls-cert x",
		"the certificate: open":                  "--state-root R --tls-cert /nonexistent --tls-key /nonexistent",
		"--cluster must be local:N":              "--state-root R --listen 127.0.0.1:0 --cluster there",
		"--cluster local:N must have N from 1":   "--state-root R --listen 127.0.0.1:0 --cluster local:0",
		"--mesos-attributes must be NAME=VALUE":  "--state-root R --listen 127.0.0.1:0 --cluster mesos://x:1 --mesos-attributes x",
		"at least 0.02 cpus":                     "--state-root R --listen 127.0.0.1:0 --cluster mesos://x:1 --mesos-cpus 0",
		"--keys and --mesos-keys go together":    "--state-root R --listen 127.0.0.1:0 --cluster mesos://x:1 --mesos-keys x",
		"--store: ":                              "--state-root R --listen 127.0.0.1:0 --store zk://",
		"the API cannot listen":                  "--state-root R --listen 127.0.0.1:99999",
	} {
		args = strings.Replace(args, "R", t.TempDir(), 1)
		cmd := command(append([]string{"scheduler"}, strings.Fields(args)...)...)
		text, err := cmd.CombinedOutput()
		if status := cmd.ProcessState.ExitCode(); status != exitUsage || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s: error %v: %s\nwant %s", args, err, text, want)
		}
	}
}

// TestSchedulerFetched: agents fetch the executor from the scheduler, and it runs in their sandbox.
func TestSchedulerFetched(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "sluice")
	if text, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	m, _ := newMesos(t, 3)
	s := runScheduler(t, exec.Command(program, "scheduler", "--state-root", t.TempDir(), "--listen", "127.0.0.1:0",
		"--cluster", fmt.Sprintf("mesos://%s", m.Endpoint()), "--mesos-cpus", "0.5", "--mesos-mem", "256"))
	spec, want := writeFlights(t, t.TempDir())
	s.submit(spec, nil)
	s.wait("flights", api.Finished)
	if got, err := os.ReadFile(filepath.Join(filepath.Dir(spec), "out.csv")); err != nil || string(got) != want {
		t.Errorf("error %v, output:\n%s", err, got)
	}
}
