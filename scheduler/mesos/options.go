package mesos

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"sluice/scheduler/store"
)

// Options say how a Framework is made.
type Options struct {
	Config
	// Store keeps the framework and its workers, below mesos/. It is that of the scheduler that leads.
	Store store.Store
	// Masters are addresses host:port, any of which says which one leads. With Detector there must be none.
	Masters []string
	// Detector finds the leading master by other means.
	Detector Detector
	// HTTPS speaks TLS to the masters. CAFile holds the certificates of those who sign theirs; "" means those
	// of the system.
	HTTPS  bool
	CAFile string
	// Secret authenticates Config.Principal.
	Secret string
	// Log takes messages for operators.
	Log func(text string)
}

// Detector tells which master leads.
type Detector interface {
	// Masters gives the address, host:port, of the leading master whenever it changes, "" while there is none.
	Masters() <-chan string
}

// maxMasters bounds Options.Masters.
const maxMasters = 64

func (o *Options) validate() error {
	errs := []error{o.Config.Validate()}
	if o.Store == nil {
		errs = append(errs, errors.New("mesos: there is no store"))
	}
	if (len(o.Masters) == 0) == (o.Detector == nil) {
		errs = append(errs, errors.New("mesos: either masters or a detector of them must be given"))
	}
	if len(o.Masters) > maxMasters {
		errs = append(errs, fmt.Errorf("mesos: %d masters are named, %d are possible", len(o.Masters), maxMasters))
	}
	for _, m := range o.Masters {
		if host, port, err := net.SplitHostPort(m); err != nil || host == "" || port == "" {
			errs = append(errs, fmt.Errorf("mesos: a master is HOST:PORT, and not %q", m))
		}
	}
	if o.Secret != "" && o.Principal == "" {
		errs = append(errs, errors.New("mesos: a secret is of no use without a principal"))
	}
	return errors.Join(errs...)
}

// access is how masters are spoken to.
func (o *Options) access() (access, error) {
	a := access{scheme: "http", principal: o.Principal, secret: o.Secret}
	if o.Secret == "" {
		a.principal = "" // it is only named in the registration
	}
	if !o.HTTPS {
		if o.CAFile != "" {
			return a, errors.New("mesos: certificates are given, but the masters are not spoken to with HTTPS")
		}
		return a, nil
	}
	a.scheme, a.tls = "https", &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile == "" {
		return a, nil
	}
	text, err := os.ReadFile(o.CAFile)
	if err != nil {
		return a, fmt.Errorf("mesos: certificates: %w", err)
	}
	a.tls.RootCAs = x509.NewCertPool()
	if !a.tls.RootCAs.AppendCertsFromPEM(text) {
		return a, fmt.Errorf("mesos: %s holds no certificate in PEM form", o.CAFile)
	}
	return a, nil
}
