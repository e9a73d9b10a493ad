// Command sluice runs and examines dataflows. See the README.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/alecthomas/kong"
)

// The exit statuses.
const (
	exitDone   = 0
	exitFailed = 1 // the run failed
	exitUsage  = 2 // the command line, the spec or a missing input is wrong
)

// cli is the command line.
type cli struct {
	Run       runCommand       `cmd:"" help:"Run a query until its inputs end or Ctrl-C."`
	Validate  validateCommand  `cmd:"" help:"Report all errors of specs."`
	Explain   explainCommand   `cmd:"" help:"Show the graph of a spec."`
	Rules     rulesCommand     `cmd:"" help:"List the rewrite rules, show one, or check a file of them."`
	Infer     inferCommand     `cmd:"" help:"Write a type for a data file."`
	Set       setCommand       `cmd:"" help:"Set a parameter of an operator of a query that runs, with --nodes or at a scheduler."`
	Status    statusCommand    `cmd:"" help:"Show how a query is that runs with --nodes or at a scheduler, or list those of the scheduler."`
	Keys      keysCommand      `cmd:"" help:"Make the keys by which processes of a cluster know each other."`
	Scheduler schedulerCommand `cmd:"" help:"Run queries that are submitted over HTTP, and take over those of a scheduler that has ended."`
	Submit    submitCommand    `cmd:"" help:"Give a query to a scheduler."`
	List      listCommand      `cmd:"" help:"List the queries of a scheduler."`
	Show      showCommand      `cmd:"" help:"Print the spec of a query of a scheduler."`
	Cancel    cancelCommand    `cmd:"" help:"End a query of a scheduler at once."`
	Scale     scaleCommand     `cmd:"" help:"Give a query of a scheduler another number of workers or partitions."`
	Stop      stopCommand      `cmd:"" help:"End a query of a scheduler at a checkpoint, from which it can be resumed."`
	Resume    resumeCommand    `cmd:"" help:"Go on with a query of a scheduler that was stopped or has failed."`
	Wait      waitCommand      `cmd:"" help:"Wait until a query of a scheduler has ended."`
	Drain     drainCommand     `cmd:"" help:"End the inputs of a query of a scheduler; it finishes what has been read."`
	Events    eventsCommand    `cmd:"" help:"Show what happens at a scheduler, as it happens."`
	Executor  executorCommand  `cmd:"" hidden:"" help:"Run tasks for a scheduler."`
}

// laterCommands are words of the command line that this version does not know what to do with.
var laterCommands = []string{"alerts", "synth"}

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// exitError ends the program with a status; its message, if there is one, is still to be printed.
type exitError struct {
	status  int
	message string
}

func (e *exitError) Error() string { return e.message }

func usageErrorf(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Sprintf(format, args...)}
}

func main() {
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr}))
}

// run runs one command line and returns the exit status.
func run(args []string, s streams) int {
	if len(args) > 0 && slices.Contains(laterCommands, args[0]) {
		fmt.Fprintf(s.err, "sluice: the command %q is not part of this version yet\n", args[0])
		return exitUsage
	}
	exited := -1
	parser, err := kong.New(&cli{}, kong.Name("sluice"), kong.Description("A declarative stream engine."),
		kong.Writers(s.out, s.err), kong.Exit(func(status int) { exited = status }), kong.UsageOnError(),
		kong.Bind(s))
	if err != nil {
		fmt.Fprintln(s.err, "sluice:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	ctx, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(s.err, "sluice: %v; see sluice --help\n", err)
		return exitUsage
	}
	return status(ctx.Run(), s.err)
}

// status prints what is still to be said of err and returns the exit status.
func status(err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{exitFailed, err.Error()}
	}
	if e.message != "" {
		fmt.Fprintln(stderr, "sluice:", e.message)
	}
	return e.status
}
