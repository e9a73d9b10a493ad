package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"sluice/executor"
	"sluice/operators"
	"sluice/operators/catalog"
	"sluice/operators/persist"
)

// openSources opens sources of a query with state in the folder dir. One that is to keep its input has
// a log of it in dir/inputs/SOURCE, which is synced unless fsync is never.
func openSources(dir, fsync string) func(*operators.Context) (operators.Source, error) {
	return func(ctx *operators.Context) (operators.Source, error) {
		if dir == "" || ctx.Op.Value("persist") != "true" {
			return catalog.OpenSource(ctx)
		}
		log, err := openInputLog(filepath.Join(dir, "inputs", ctx.Op.Name), fsync != "never")
		if err != nil {
			return nil, err
		}
		ctx.Log = log
		src, err := catalog.OpenSource(ctx)
		if err != nil {
			return nil, errors.Join(err, log.Close())
		}
		return src, nil
	}
}

// inputLog is the log of the input of a source, locked for as long as it is open.
type inputLog struct {
	*persist.Log
	lock *os.File
}

// openInputLog opens the log of the input of a source. While a process before this one still has it, which has
// been given up and will end, that may be tried again.
func openInputLog(dir string, sync bool) (*inputLog, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(&executor.RetryError{Err: fmt.Errorf("the input kept in %q is in use by another process: %w", dir, err)}, lock.Close())
	}
	log, err := persist.OpenLog(dir, sync)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &inputLog{log, lock}, nil
}

// Close ends the use of the log.
func (l *inputLog) Close() error { return errors.Join(l.Log.Close(), l.lock.Close()) }
